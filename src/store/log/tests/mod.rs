//! Tests of the log, and the media that they run on.
//!
//! Owns: a disk in memory that can lose power (`recording.rs`), which the partition is tested on too, and a medium in
//! memory that takes several frames at once (`memory.rs`).

mod crashes;
mod frames;
mod local;
mod measure;
pub(crate) mod memory;
mod power_cut;
mod recording;
pub(crate) mod room;

use std::sync::Arc;

pub(crate) use power_cut::Crash;
pub(crate) use recording::{DiskFault, RecordingStorage};

use super::*;
use tideline_base::entry::{EntryKind, KeyedEntry};

/// A batch of one put, and perhaps a change record.
fn draft(key: &[u8], value: &[u8], change: Option<&[u8]>) -> Draft {
    let mut draft = Draft::default();
    let kind = EntryKind::Put;
    draft.push(KeyedEntry { key, kind, value });
    change.into_iter().for_each(|record| draft.change(record));
    draft
}

/// The frame of a batch that was committed at `position`.
pub(crate) fn frame_of(position: u64, entries: &[KeyedEntry<'_>]) -> Frame {
    let mut draft = Draft::default();
    entries.iter().for_each(|entry| draft.push(*entry));
    let header = Header::new(HistoryId([7; 16]), Position(position), 1, 0);
    draft.seal(header, FRAME_BYTES_MAX).expect("it fits")
}

impl Log {
    /// Seals, begins and settles a batch.
    fn append(&mut self, now_ms: u64, mut draft: Draft) -> Result<Arc<Frame>, AppendError> {
        let frame = self.seal(now_ms, &mut draft)?;
        self.begin(&frame)?;
        self.settle()
    }
}

impl Keeper {
    fn first_position(&self) -> Position {
        self.archive.figures().first
    }

    fn bytes(&self) -> u64 {
        self.archive.figures().bytes
    }
}

impl LogReader {
    fn position(&self) -> Position {
        lock(&self.tail).published()
    }
}
