//! What one statement has while it runs.
//!
//! Owns: what it has read so far, and the way from its thread, which may block, to the calls of tables and indexes,
//! which are async. Promises: a statement that reads, holds or takes more than it may ends at its next step. Must not:
//! know a plan.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;

use tideline_model::Consumed;
use tideline_search::Searches;
use tideline_table::Tables;

use crate::answer::Scanned;
use crate::door::Door;
use crate::refusal::Refusal;
use crate::work::{self, Memory, Time};

/// Rows that a statement may read.
pub(crate) const SCANNED_ROWS_MAX: u64 = 100_000;
/// Bytes of rows that a statement may read.
const SCANNED_BYTES_MAX: u64 = 128 << 20;

/// See the top.
pub(crate) struct Run {
    pub(crate) tables: Tables,
    /// `None` = nobody fills search indexes.
    pub(crate) searches: Option<Searches>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) handle: Handle,
    pub(crate) time: Time,
    pub(crate) memory: Memory,
    pub(crate) now_us: i64,
    pub(crate) scanned: RefCell<Vec<Scanned>>,
}

impl Run {
    /// Ends the statement if it has taken too long. Looked at in every loop.
    pub(crate) fn step(&self) -> Result<(), Refusal> {
        work::next_row();
        self.time.look()
    }

    /// Waits for a call of tables or indexes, until the deadline at most.
    pub(crate) fn wait<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Refusal>
    where
        Refusal: From<E>,
    {
        self.step()?;
        let until = tokio::time::Instant::from_std(self.time.until);
        let done = self
            .handle
            .block_on(async { tokio::time::timeout_at(until, call).await });
        match done {
            Ok(done) => Ok(done?),
            Err(_) => Err(self.time.late()),
        }
    }

    /// Waits for a write: what has begun is waited for to its end.
    pub(crate) fn write<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Refusal>
    where
        Refusal: From<E>,
    {
        self.step()?;
        Ok(self.handle.block_on(call)?)
    }

    /// Counts what was read or written of a table.
    pub(crate) fn count(
        &self,
        (table, index): (&str, Option<&str>),
        (rows, bytes): (u64, u64),
        consumed: Consumed,
    ) -> Result<(), Refusal> {
        let mut scanned = self.scanned.borrow_mut();
        let is_same = |one: &&mut Scanned| one.table == table && one.index.as_deref() == index;
        match scanned.iter_mut().find(is_same) {
            Some(one) => {
                one.rows += rows;
                one.bytes += bytes;
                one.consumed.read = one.consumed.read.saturating_add(consumed.read);
                one.consumed.write = one.consumed.write.saturating_add(consumed.write);
            }
            None => scanned.push(Scanned {
                table: table.to_owned(),
                index: index.map(ToOwned::to_owned),
                rows,
                bytes,
                consumed,
            }),
        }
        let rows: u64 = scanned.iter().map(|one| one.rows).sum();
        let bytes: u64 = scanned.iter().map(|one| one.bytes).sum();
        match rows > SCANNED_ROWS_MAX || bytes > SCANNED_BYTES_MAX {
            true => Err(Refusal::Scanned),
            false => Ok(()),
        }
    }
}
