//! Tests of a partition.
//!
//! Owns: one file a subject: against a plain map, on failing disks, on a log that takes several batches at once.
//! Promises: the toy row rules of all of them are in `model.rs`. Must not: know the rows of the layers above.

mod crash;
mod member;
mod memtable;
mod model;
mod pipeline;
mod reshape;

use tokio_util::sync::CancellationToken;

use super::{Making, Partitions, Reshape};
pub(in crate::partition) use model::{OF_EACH, OF_NOBODY, ToyRules, UNFINISHED, UNKNOWN};

impl Partitions {
    /// A change while all goes on, for the layers above; `through` waits until what they derive is done.
    pub async fn reshape_served(&self, reshape: Reshape, through: impl AsyncFn()) {
        if reshape.parents(&self.map()).is_empty() {
            return;
        }
        let of = self.clone();
        let begun = tokio::task::spawn_blocking(move || {
            let mut making = Making::begin(&of, &reshape, CancellationToken::new()).expect("begun");
            making.catch_up().expect("caught up");
            making
        });
        let mut making = begun.await.expect("made");
        let parents = making.parents();
        let doors = self.pause(&parents);
        through().await;
        doors.seal().await.expect("sealed");
        through().await;
        let cut = tokio::task::spawn_blocking(move || making.cut(doors, false, || true));
        assert!(cut.await.expect("cut").expect("made"), "in time");
        let of = self.clone();
        let cleared = tokio::task::spawn_blocking(move || {
            of.retire(&parents);
            of.clear(&parents)
        });
        cleared.await.expect("retired").expect("cleared");
    }
}
