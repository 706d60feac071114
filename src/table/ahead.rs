//! Costly conditions, looked at before their writes are queued.
//!
//! Owns: what is costly. Promises: the writer's thread, for which a whole partition waits, does no test that takes
//! long. Must not: decide about a write; the row may change until it runs.
//!
//! Measured: an expression of 256 KiB in a text of random letters takes up to 46 µs a byte, a minute and a half for one
//! value of 2 MiB, and a request may have 200 rows with 32 of them each. Over rows of up to 4 KiB it is a fifth of a
//! second at worst.

use crate::partition::{ReadError, View};

use super::Error;
use super::access::{Source, damaged};
use super::found::FoundRow;
use super::primary_key::key_of;
use super::row::encode_cells;
use super::tables::Tables;
use super::versions::{Judged, judge};
use super::write::{Checked, Seen};

/// Smaller rows are tested where they are written, costly or not.
const ROW_BYTES_MAX: usize = 4_096;

impl Tables {
    /// Does a costly test of a write, on a thread that may block.
    pub(super) async fn look_ahead(&self, mut row: Checked) -> Result<Checked, Error> {
        if !row.condition.is_costly || row.is_numbered() {
            return Ok(row);
        }
        let (partition, now) = (self.place(&row.table, &row.key), self.now_ms());
        let look = move |view: &View| {
            row.look(view, now)?;
            Ok(row)
        };
        Ok(self.partitions().read(partition, look).await?)
    }
}

impl Checked {
    fn look(&mut self, view: &View, now: i64) -> Result<(), ReadError> {
        let key = key_of(self.table.id, &self.key);
        let found = view.columns(&key, None)?;
        let judged = match &found.value {
            Some(value) => judge(value, &self.table.options, now)
                .map(Some)
                .map_err(|_| damaged(key.as_bytes(), "not a row"))?,
            None => None,
        };
        let judged = judged.filter(Judged::is_there);
        let row = self.found(judged.as_ref());
        if self.is_costly(&row)
            && let Some(test) = &self.condition.test
        {
            self.seen = Some(Seen {
                digest: digest(judged.as_ref()),
                holds: test(&self.table, &row),
            });
        }
        Ok(())
    }

    /// Whether the row fulfils the condition's test.
    pub(super) fn passes(
        &self,
        row: &FoundRow,
        judged: Option<&Judged<'_>>,
    ) -> Result<bool, Error> {
        let Some(test) = &self.condition.test else {
            return Ok(true);
        };
        if !self.is_costly(row) {
            return Ok(test(&self.table, row));
        }
        match self.seen {
            Some(seen) if seen.digest == digest(judged) => Ok(seen.holds),
            _ => Err(Error::RowConflict),
        }
    }

    fn is_costly(&self, row: &FoundRow) -> bool {
        self.condition.is_costly && row.size(&self.table) > ROW_BYTES_MAX
    }
}

fn digest(judged: Option<&Judged<'_>>) -> u128 {
    judged.map_or(0, |judged| {
        xxhash_rust::xxh3::xxh3_128(&encode_cells(&judged.living))
    })
}
