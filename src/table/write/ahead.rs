//! Costly conditions, looked at before their writes are queued.
//!
//! Owns: what is costly: expressions that look at much. Promises: the writer's thread, for which a whole partition
//! waits, evaluates no condition that takes long; that is done before the write is queued, and the write is refused if
//! the row has changed meanwhile. Must not: decide about a write; the row may change until it runs.
//!
//! Measured: an expression of 256 KiB in a text of random letters takes up to 46 µs a byte, a minute and a half for one
//! value of 2 MiB, and a request may have 200 rows with 32 of them each. Each byte that it looks at counts 64 times,
//! so a row takes the writer 3 ms at worst.

use tideline_model::{Asking, Effort, Error, Predicate, RowRef};
use tideline_store::partition::View;

use super::super::access::{Source, damaged};
use super::super::format::primary_key::key_of;
use super::super::format::row::encode_cells;
use super::super::format::versions::Judged;
use super::super::read::costly::LIGHT_EFFORT;
use super::super::tables::Tables;
use super::{Checked, Seen};

/// Conditions that cost no more are evaluated where the rows are written.
const WRITER_EFFORT: u64 = 4_096;

/// What the conditions of one request may look at.
pub(in super::super) struct Looking {
    /// Among all other reads.
    light: Effort,
    /// Among the costly reads.
    costly: Effort,
}

impl Tables {
    pub(in super::super) fn looking(&self) -> Looking {
        Looking {
            light: Effort::new(LIGHT_EFFORT),
            costly: self.effort(),
        }
    }

    /// Evaluates a costly condition of a write, on a thread that may block.
    pub(in super::super) async fn look_ahead(
        &self,
        mut row: Checked,
        looking: &Looking,
    ) -> Result<Checked, Error> {
        if !row.is_costly() {
            return Ok(row);
        }
        let (partition, now) = (self.place(&row.table, &row.key), self.now_ms());
        let effort = looking.light.clone();
        let light = move |view: &View| {
            let looked = row.look(view, now, &Asking::light(&effort));
            Ok((row, looked))
        };
        let (mut row, looked) = self.partitions().read(partition, light).await?;
        match looked {
            Err(Error::ExpressionsTooCostly { .. }) => {}
            looked => return looked.map(|()| row),
        }
        let effort = looking.costly.clone();
        let costly = move |view: &View, is_asked: &dyn Fn() -> bool| {
            let asking = Asking::whole(&effort, is_asked);
            row.look(view, now, &asking).map(|()| row)
        };
        self.read_costly(partition, costly).await?
    }
}

impl Checked {
    /// Whether the condition may be costly.
    pub(in super::super) fn is_costly(&self) -> bool {
        let condition = self.condition.columns.as_ref();
        condition.is_some_and(Predicate::is_costly) && !self.is_numbered()
    }

    /// Evaluates it, if it is. On a thread that may block.
    pub(in super::super) fn look(
        &mut self,
        rows: &impl Source,
        now: i64,
        asking: &Asking<'_>,
    ) -> Result<(), Error> {
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
            asking.effort.take(columns.effort(&row))?;
            let holds = evaluate(columns, &row, asking.is_asked);
            // Expressions may have been skipped. In a transaction the write would take effect all the same.
            if !(asking.is_asked)() {
                return Err(Error::Busy);
            }
            self.seen = Some(Seen {
                digest: digest(judged.as_ref()),
                holds,
            });
        }
        Ok(())
    }

    /// Whether the row fulfils the condition on its columns.
    pub(in super::super) fn passes(
        &self,
        row: &RowRef<'_>,
        judged: Option<&Judged<'_>>,
    ) -> Result<bool, Error> {
        let Some(columns) = &self.condition.columns else {
            return Ok(true);
        };
        if !is_costly(columns, row) {
            return Ok(evaluate(columns, row, &|| true));
        }
        match self.seen {
            Some(seen) if seen.digest == digest(judged) => Ok(seen.holds),
            _ => Err(Error::RowConflict),
        }
    }
}

fn is_costly(columns: &Predicate, row: &RowRef<'_>) -> bool {
    columns.effort(row) > WRITER_EFFORT
}

fn evaluate(columns: &Predicate, row: &RowRef<'_>, is_asked: &dyn Fn() -> bool) -> bool {
    #[cfg(test)]
    super::super::tests::evaluated(row);
    columns.passes_while(row, is_asked)
}

fn digest(judged: Option<&Judged<'_>>) -> u128 {
    judged.map_or(0, |judged| {
        xxhash_rust::xxh3::xxh3_128(&encode_cells(&judged.living))
    })
}
