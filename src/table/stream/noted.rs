//! What a change record tells for a table's stream beside the change: what was there before.
//!
//! Owns: when that is noted: only while the table has a stream. Promises: with it every record of a batch can be read
//! by itself, also where a later one replaced its entry. Must not: read rows; the write has done that.

use super::super::Key;
use super::super::format::change::{Action, Change};
use super::super::format::row::encode_cells;
use super::super::format::versions::Judged;
use tideline_base::ids::TableId;
use tideline_model::{Cell, Stream};
use tideline_store::partition::Txn;

/// What was there before a change. Empty where nobody asks for it.
#[derive(Debug, Default)]
pub(in super::super) struct Noted {
    /// The stream's original columns, as a row.
    original: Vec<u8>,
    /// The row's entry in this batch.
    former: Vec<u8>,
}

impl Noted {
    /// Before a change of the row `judged` (`None` = there is none) in a table with this stream.
    pub(in super::super) fn of(
        stream: Option<&Stream>,
        txn: &Txn<'_>,
        key: &Key,
        judged: Option<&Judged<'_>>,
    ) -> Noted {
        let Some(stream) = stream else {
            return Noted::default();
        };
        let wanted = &stream.original_columns;
        let judged = judged.filter(|_| !wanted.is_empty());
        let staged = txn.staged(key.as_bytes());
        #[cfg(test)]
        let staged = staged.filter(|_| stream.hours != super::super::tests::PLANTED_HOURS);
        Noted {
            original: judged.map_or_else(Vec::new, |judged| original(judged, wanted)),
            former: staged.map_or_else(Vec::new, |entry| entry.value.to_vec()),
        }
    }

    /// The record of a change of one row.
    pub(in super::super) fn change(
        &self,
        table: TableId,
        action: Action,
        entry: u32,
    ) -> Change<'_> {
        Change {
            table,
            action,
            first: entry,
            entries: 1,
            original: &self.original,
            former: &self.former,
            delta: &[],
        }
    }
}

/// The newest cell of each of these columns, as a row.
fn original(judged: &Judged<'_>, wanted: &[String]) -> Vec<u8> {
    let mut last = None;
    let newest = judged.living.iter().copied();
    let newest = newest.filter(|cell| last.replace(cell.name) != Some(cell.name));
    let cells: Vec<Cell<'_>> = newest
        .filter(|cell| wanted.iter().any(|name| name == cell.name))
        .collect();
    encode_cells(&cells)
}
