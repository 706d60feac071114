//! Reads that many readers of a stream share.
//!
//! Owns: which pages are about to be read, and for whom. Promises: a read that is shared has not begun when another
//! reader joins it, so each reader gets what there is at its own moment or later; only readers with the same rights
//! share one. Must not: keep a page once it is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use tokio::task::yield_now;

use super::read::Page;
use tideline_model::access::Asker;

/// A page that is behind a place of a stream: its name, its epoch, the sequence.
pub(super) type Place = (String, String, u64);
/// `None` = it could not be read: who waits for it asks by itself, and hears why.
type Reading = BoxFuture<'static, Option<Page>>;
type Reads = HashMap<Place, (Asker, WeakShared<Reading>)>;

/// All reads that have not begun. There are no more of them than readers.
#[derive(Default)]
pub(crate) struct Joined(Mutex<Reads>);

/// One of them, as long as others may join it.
struct Open {
    joined: Arc<Joined>,
    place: Place,
}

impl Drop for Open {
    fn drop(&mut self) {
        let gone = self.joined.lock().remove(&self.place);
        drop(gone);
    }
}

impl Joined {
    fn lock(&self) -> MutexGuard<'_, Reads> {
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
    ) -> Option<Shared<Reading>> {
        let mut reads = self.lock();
        let there = reads
            .get(&place)
            .and_then(|(other, read)| Some((other == asker, read.upgrade()?)));
        if let Some((is_same, read)) = there {
            // What is dropped may be the last of it, and then is forgotten under this lock.
            drop(reads);
            return is_same.then_some(read);
        }
        let open = Open {
            joined: Arc::clone(self),
            place: place.clone(),
        };
        let read = async move {
            yield_now().await;
            drop(open);
            read.await
        };
        let read = read.boxed().shared();
        let held = read.downgrade()?;
        reads.insert(place, (asker.clone(), held));
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
        let first = read(1).expect("its own");
        let begun = tokio::spawn(first.clone());
        let next = |page: Option<Page>| page.map(|page| page.next);
        assert_eq!(next(begun.await.expect("it ends")), Some(1));
        let second = read(2).expect("its own");
        drop(read(3));
        assert_eq!(next(second.await), Some(2));
        drop(read(4));
        assert!(joined.lock().is_empty());
        assert_eq!(next(read(5).expect("its own").await), Some(5));
    }
}
