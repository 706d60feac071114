//! Reads that many readers of a stream share.
//!
//! Owns: which pages are about to be read, and for whom. Promises: a read that is shared has not begun when another
//! reader joins it, so each reader gets what there is at its own moment or later; only readers that are equal as askers
//! share one: of those with a credential, the requests of one session. Must not: keep a page once it is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::yield_now;

use super::read::Page;
use tideline_model::access::Asker;

/// A page that is behind a place of a stream: its name, its epoch, the sequence.
pub(super) type Place = (String, String, u64);
/// `None` = it could not be read: who waits for it asks by itself, and hears why.
type Reading = Shared<BoxFuture<'static, Option<Page>>>;

/// All reads that have not begun. There are no more of them than readers.
#[derive(Default)]
pub(crate) struct Joined(Mutex<HashMap<Place, (Asker, Reading)>>);

impl Joined {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, (Asker, Reading)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page by the read of another reader that has not begun, else by `read`, which waits for one turn of the
    /// runtime: readers that were woken together come to it meanwhile. `None` = read it by yourself.
    pub(super) async fn read(
        self: &Arc<Joined>,
        place: Place,
        asker: &Asker,
        read: impl Future<Output = Option<Page>> + Send + 'static,
    ) -> Option<Page> {
        self.join(place, asker, read)?.await
    }

    fn join(
        self: &Arc<Joined>,
        place: Place,
        asker: &Asker,
        read: impl Future<Output = Option<Page>> + Send + 'static,
    ) -> Option<Reading> {
        let mut reads = self.lock();
        if let Some((other, read)) = reads.get(&place) {
            return (other == asker).then(|| read.clone());
        }
        // A task of its own: it begins in its turn, whoever looks at it before, and is forgotten if nobody waits.
        let (joined, own) = (Arc::clone(self), place.clone());
        let task = tokio::spawn(async move {
            yield_now().await;
            let begun = joined.lock().remove(&own);
            drop(begun);
            read.await
        });
        let read = task.map(|read| read.ok().flatten()).boxed().shared();
        reads.insert(place, (asker.clone(), read.clone()));
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// How many reads were made for so many readers, and whether all got one.
    async fn reads_of(askers: &[Asker]) -> (u64, usize) {
        let (joined, made) = (Arc::new(Joined::default()), Arc::new(AtomicU64::new(0)));
        let place = || ("a".to_owned(), "e".to_owned(), 7);
        let readers = askers.iter().map(|asker| {
            let made = Arc::clone(&made);
            joined.read(place(), asker, async move {
                made.fetch_add(1, Ordering::SeqCst);
                Some(Page::default())
            })
        });
        let got = futures_util::future::join_all(readers).await;
        assert!(joined.lock().is_empty(), "nothing is kept");
        (made.load(Ordering::SeqCst), got.iter().flatten().count())
    }

    #[tokio::test]
    async fn readers_of_one_turn_share_a_read_if_they_are_the_same() {
        let [ann, ben] = ["ann", "ben"].map(Asker::believed);
        assert_eq!(
            reads_of(&[ann.clone(), ann.clone(), ann.clone()]).await,
            (1, 3)
        );
        // Another one reads by itself.
        assert_eq!(reads_of(&[ann, ben]).await, (1, 1));
    }

    #[tokio::test]
    async fn a_read_that_has_begun_is_joined_by_nobody_and_one_that_nobody_waits_for_is_forgotten()
    {
        let joined = Arc::new(Joined::default());
        let (place, ann) = (("a".to_owned(), "e".to_owned(), 7), Asker::believed("ann"));
        let read = |number| {
            let page = Page {
                next: number,
                ..Page::default()
            };
            joined.join(place.clone(), &ann, async move { Some(page) })
        };
        let first = read(1).expect("its own").await;
        let second = read(2).expect("its own");
        // It has not begun.
        drop(read(3));
        let sequences = [first, second.await].map(|page| page.map(|page| page.next));
        assert_eq!(sequences, [Some(1), Some(2)]);
        drop(read(4));
        while !joined.lock().is_empty() {
            yield_now().await;
        }
    }
}
