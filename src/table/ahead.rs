//! Costly conditions, looked at before their writes are queued.
//!
//! Owns: what is costly: an expression on a large row. Promises: the writer's thread, for which a whole partition
//! waits, evaluates no condition that takes long; that is done before the write is queued, and the write is refused if
//! the row has changed meanwhile. Must not: decide about a write; the row may change until it runs.
//!
//! Measured: an expression of 256 KiB in a text of random letters takes up to 46 µs a byte, a minute and a half for one
//! value of 2 MiB, and a request may have 200 rows with 32 of them each. Over rows of up to 4 KiB it is a fifth of a
//! second at worst.

use crate::model::{Error, Predicate, RowRef};
use crate::partition::{ReadError, View};

use super::access::{Source, damaged};
use super::primary_key::key_of;
use super::row::encode_cells;
use super::tables::Tables;
use super::versions::Judged;
use super::write::{Checked, Seen};

/// Conditions on smaller rows are evaluated where the rows are written, costly or not.
const ROW_BYTES_MAX: usize = 4_096;

impl Tables {
    /// Evaluates a costly condition of a write, on a thread that may block.
    pub(super) async fn look_ahead(&self, mut row: Checked) -> Result<Checked, Error> {
        if !row.is_costly() {
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
    /// Whether the condition may be costly.
    pub(super) fn is_costly(&self) -> bool {
        let condition = self.condition.columns.as_ref();
        condition.is_some_and(Predicate::is_costly) && !self.is_numbered()
    }

    /// Evaluates it, if it is. On a thread that may block.
    pub(super) fn look(&mut self, rows: &impl Source, now: i64) -> Result<(), ReadError> {
        let key = key_of(self.table.id, &self.key);
        let found = rows.columns(&key, None)?;
        let judged = match &found.value {
            Some(value) => self
                .table
                .judge(value, now)
                .map_err(|_| damaged(key.as_bytes(), "not a row"))?,
            None => None,
        };
        let row = self.found(judged.as_ref());
        if let Some(columns) = &self.condition.columns
            && is_costly(columns, &row)
        {
            self.seen = Some(Seen {
                digest: digest(judged.as_ref()),
                holds: evaluate(columns, &row),
            });
        }
        Ok(())
    }

    /// Whether the row fulfils the condition on its columns.
    pub(super) fn passes(
        &self,
        row: &RowRef<'_>,
        judged: Option<&Judged<'_>>,
    ) -> Result<bool, Error> {
        let Some(columns) = &self.condition.columns else {
            return Ok(true);
        };
        if !is_costly(columns, row) {
            return Ok(evaluate(columns, row));
        }
        match self.seen {
            Some(seen) if seen.digest == digest(judged) => Ok(seen.holds),
            _ => Err(Error::RowConflict),
        }
    }
}

fn is_costly(columns: &Predicate, row: &RowRef<'_>) -> bool {
    columns.is_costly() && row.size(0) > ROW_BYTES_MAX
}

fn evaluate(columns: &Predicate, row: &RowRef<'_>) -> bool {
    #[cfg(test)]
    super::tests::evaluated(row);
    columns.passes(row)
}

fn digest(judged: Option<&Judged<'_>>) -> u128 {
    judged.map_or(0, |judged| {
        xxhash_rust::xxh3::xxh3_128(&encode_cells(&judged.living))
    })
}
