//! Which batches of a log change which users' tables, in memory.
//!
//! Owns: the index of one partition. Promises: it never says that a batch has nothing of a table when it has; what it
//! does not know is read, and noted then. It takes 64 bytes for each block of 64 batches and 16 for each table in it,
//! [`BYTES_MAX`] at most; past that the oldest blocks are forgotten, and noted again when they are read. Must not:
//! hold a batch, or be in the way of a commit.
//!
//! So a reader of a table that changes seldom skips what others write. What a change costs it, whatever lies before it,
//! is one look into the log: the batch, and if that is on disk some 300 KiB around it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::super::catalog::USER_TABLES_FROM;
use super::super::format::change::Change;
use tideline_base::ids::{Position, TableId};
use tideline_store::partition::{Batch, Tail};

/// Batches of a block, a bit each.
const BLOCK: u64 = 64;
/// Of memory, about.
const BYTES_MAX: usize = 16 << 20;
const BLOCK_BYTES: usize = 64;
const ENTRY_BYTES: usize = size_of::<(TableId, u64)>();
/// How long commits gather before they are noted: far less than the log keeps in memory.
const PAUSE: Duration = Duration::from_millis(50);
/// How much of the log is noted at once.
const NOTE_BYTES: usize = 4 << 20;

/// The index of one partition's log.
#[derive(Debug, Default)]
pub(in super::super) struct Index {
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    by_number: BTreeMap<u64, Block>,
    /// Tables in blocks.
    entries: usize,
}

#[derive(Debug, Default)]
struct Block {
    /// The batches that were noted.
    known: u64,
    /// Those of them that change a table.
    tables: Vec<(TableId, u64)>,
}

impl Index {
    /// Notes batches that were read.
    pub(in super::super) fn note(&self, batches: &[Arc<Batch>]) {
        let mut blocks = self.lock();
        for batch in batches {
            let tables = batch.changes().filter_map(Change::table_of);
            blocks.note(
                batch.position,
                tables.filter(|table| *table >= USER_TABLES_FROM),
            );
        }
    }

    /// The first batch from `from` up to `tail` that may change a table; the one behind `tail` if there is none.
    pub(in super::super) fn next(
        &self,
        table: TableId,
        from: Position,
        tail: Position,
    ) -> Position {
        let blocks = self.lock();
        let mut at = from.0;
        while at <= tail.0 {
            let Some(block) = blocks.by_number.get(&(at / BLOCK)) else {
                return Position(at);
            };
            // From its bit on: what is not known, and what changes the table.
            let worth = (!block.known | block.of(table)) >> (at % BLOCK);
            if worth != 0 {
                return Position(at + u64::from(worth.trailing_zeros())).min(tail.next());
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        tail.next().max(from)
    }

    /// Notes what is committed from now on, until the partition closes. Cancel-safe. What it can't keep pace with,
    /// readers note when they come there.
    pub(in super::super) async fn follow(&self, tail: Tail) {
        let mut at = tail.position();
        while tail.past(at).await {
            sleep(PAUSE).await;
            at = loop {
                match tail.recent(at, NOTE_BYTES) {
                    None => break tail.position(),
                    Some(batches) => {
                        let Some(last) = batches.last() else {
                            break at;
                        };
                        self.note(&batches);
                        at = last.position;
                    }
                }
            };
        }
    }

    /// Forgets what the log has let go of.
    pub(in super::super) fn forget_below(&self, first: Position) {
        let mut blocks = self.lock();
        let kept = blocks.by_number.split_off(&(first.0 / BLOCK));
        blocks.entries = kept.values().map(|block| block.tables.len()).sum();
        blocks.by_number = kept;
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        // A batch is noted last, so a panic leaves nothing that is wrong.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blocks {
    fn note(&mut self, position: Position, tables: impl Iterator<Item = TableId>) {
        let bit = 1 << (position.0 % BLOCK);
        let block = self.by_number.entry(position.0 / BLOCK).or_default();
        if block.known & bit != 0 {
            return;
        }
        for table in tables {
            match block.tables.iter_mut().find(|(of, _)| *of == table) {
                Some((_, batches)) => *batches |= bit,
                None => {
                    block.tables.push((table, bit));
                    self.entries += 1;
                }
            }
        }
        block.known |= bit;
        while self.entries * ENTRY_BYTES + self.by_number.len() * BLOCK_BYTES > BYTES_MAX {
            let Some((_, oldest)) = self.by_number.pop_first() else {
                break;
            };
            self.entries -= oldest.tables.len();
        }
    }
}

impl Block {
    fn of(&self, table: TableId) -> u64 {
        let found = self.tables.iter().find(|(of, _)| *of == table);
        found.map_or(0, |(_, batches)| *batches)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Map;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_that_may_change_a_table_is_passed_over(
            batches in proptest::collection::btree_map(1u64..300, proptest::collection::vec(0u32..3, 0..3), 0..200),
            from in 1u64..300,
            tail in 1u64..300,
            table in 0u32..3,
        ) {
            let id = |number: u32| TableId(USER_TABLES_FROM.0 + number);
            let index = Index::default();
            for (position, tables) in &batches {
                let tables = tables.iter().map(|number| id(*number));
                index.lock().note(Position(*position), tables);
            }
            let batches: Map<u64, Vec<u32>> = batches;
            let may = |at: &u64| batches.get(at).is_none_or(|tables| tables.contains(&table));
            let expected = (from..=tail).find(may).unwrap_or_else(|| (tail + 1).max(from));
            let found = index.next(id(table), Position(from), Position(tail));
            prop_assert_eq!(found, Position(expected));
        }
    }
}
