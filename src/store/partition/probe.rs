//! Calls on partitions that only the tests of the layers above make.
//!
//! Owns: these calls; they are in builds of tests and of faults only. Promises: what they return is as it was at one
//! moment. Must not: return an error; what fails here fails the test.

use std::sync::Arc;
use std::time::Duration;

use tideline_base::ids::{PartitionId, Position};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::{Making, Partitions, Reshape, TableCounts};

impl Partitions {
    /// Makes callers that wait for another map look at this one again.
    pub fn show_map(&self) {
        self.inner.map.send_modify(|_| {});
    }

    /// Waits until everything is flushed and compaction has nothing left to do.
    pub fn settle(&self, at: PartitionId) {
        let partition = self.live(at);
        partition.queue.rotate();
        while !partition.is_settled() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Up to where a partition's image goes.
    #[must_use]
    pub fn covered(&self, at: PartitionId) -> Position {
        self.live(at).image().covered()
    }

    /// What a partition's image holds of each table, masked rows too. All of it is read and must be whole.
    #[must_use]
    pub fn in_image(&self, at: PartitionId) -> Vec<TableCounts> {
        let verified = self
            .live(at)
            .image()
            .verify(&mut |problem| panic!("{problem:?}"));
        verified.expect("the image can be read").tables
    }

    /// The bytes of a partition's image: of its file, and those in use.
    #[must_use]
    pub fn image_bytes(&self, at: PartitionId) -> (u64, u64) {
        let pressure = self.live(at).image().pressure();
        (pressure.file_bytes, pressure.bytes_used)
    }

    fn live(&self, at: PartitionId) -> Arc<Shared> {
        self.at(at).expect("a live partition")
    }

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
        let paused = self.pause(&parents);
        through().await;
        paused.seal().await.expect("sealed");
        through().await;
        let cut = tokio::task::spawn_blocking(move || making.cut(paused, false, || true));
        assert!(cut.await.expect("cut").expect("made"), "in time");
        let of = self.clone();
        let cleared = tokio::task::spawn_blocking(move || {
            of.retire(&parents);
            of.clear(&parents)
        });
        cleared.await.expect("retired").expect("cleared");
    }
}
