//! The row rules that the store below runs on: composing, dropping, cutting wide rows, filters.
//!
//! Owns: [`TableRules`]. Promises: what it does not know it keeps; which cells of a user's row have expired is
//! decided by the rule that reads go by. Must not: know the tables of the layers above; the owners of built-in tables
//! say through [`BuiltInTables`] when their rows may be dropped, and where they belong.

use std::sync::Arc;

use bytes::Bytes;

use tideline_base::entry::EntryKind;
use tideline_base::ids::TableId;
use tideline_base::ordered::Reader;
use tideline_model::TableOptions;
use tideline_store::partition::{
    DropContext, Entry, Owner, Pieces, Reason, Rules, TableCounts, Verdict, hash,
};

use super::catalog::{Catalog, Standing, TABLES, USER_TABLES_FROM};
use super::format::row::Row;
use super::format::versions::Shortened;
use super::format::{chunks, delta, key};
use super::index;
use super::stream::{CURSORS, DEAD_LETTERS};
use super::write::apply::WHOLE_ROW_BYTES_MAX;
use super::write::counter;
use super::write::counter::COUNTERS;

/// What the owner of the built-in tables (IDs below [`USER_TABLES_FROM`]) knows about their rows.
pub trait BuiltInTables: Send + Sync + 'static {
    /// Whether an explicit mark says that this row may be dropped. `columns` are the key's encoded columns.
    fn is_over(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> bool;

    /// Whether rows of the table are asked for one by one, also those that are not there.
    fn is_looked_up(&self, table: TableId) -> bool;

    /// Where a row belongs when partitions are split or merged; `None` = its owner does not know.
    fn owner(&self, _table: TableId, _columns: &[u8]) -> Option<Owner> {
        None
    }

    /// See [`Rules::unite`].
    fn unite(&self, _table: TableId, _rows: &[Option<Bytes>]) -> Option<Bytes> {
        None
    }
}

/// The rules of all tables.
pub struct TableRules {
    built_in: Arc<dyn BuiltInTables>,
    catalog: Catalog,
}

impl TableRules {
    /// Rules with `built_in` for the built-in tables of the layers above and `catalog` for the users'. A catalog that
    /// is not filled keeps all users' rows.
    #[must_use]
    pub fn new(built_in: Arc<dyn BuiltInTables>, catalog: Catalog) -> TableRules {
        TableRules { built_in, catalog }
    }

    /// What becomes of a row of a user's table.
    fn judge(&self, table: TableId, entry: &Entry, context: &DropContext<'_>) -> Verdict {
        let table = match self.catalog.standing(table) {
            Standing::Unknown => return Verdict::Keep,
            Standing::Gone => return Verdict::Drop(Reason::TableDeleted),
            Standing::Exists(table) => table,
        };
        // What a delta leaves of a row shows only on top of the row.
        if entry.kind != EntryKind::Put {
            return Verdict::Keep;
        }
        let now = context.now_ms.cast_signed();
        match table.shorten(&entry.value, now) {
            Ok(Shortened::Same) | Err(_) => Verdict::Keep,
            Ok(Shortened::Less(row)) => {
                let lowest = Row::parse(&entry.value).map_or(now, |row| row.base());
                let reason = match table.options.is_expired(lowest, now) {
                    true => Reason::Expired,
                    false => Reason::Surplus,
                };
                Verdict::Replace(Entry::put(row.into()), reason)
            }
            Ok(Shortened::Gone) => Verdict::Drop(Reason::Expired),
        }
    }
}

/// Where a row is whose partition key is a text, the first of these columns.
#[must_use]
pub fn owner_of_text(columns: &[u8]) -> Option<Owner> {
    let text = Reader::new(columns).string().ok()?;
    Some(Owner::Hash(hash(text.as_bytes())))
}

impl Rules for TableRules {
    fn compose(&self, _key: &[u8], older: &Entry, newer: &Entry) -> Entry {
        delta::compose(older, newer)
    }

    fn verdict(&self, key: &[u8], entry: &Entry, context: &DropContext<'_>) -> Verdict {
        let Some((table, columns)) = key::split_key(key) else {
            return Verdict::Keep;
        };
        if table >= USER_TABLES_FROM {
            return self.judge(table, entry, context);
        }
        let (is_over, reason) = match table {
            TABLES | CURSORS => (false, Reason::Marked),
            COUNTERS => {
                let counted = counter::table_of(columns);
                let is_gone = |table| matches!(self.catalog.standing(table), Standing::Gone);
                (counted.is_some_and(is_gone), Reason::TableDeleted)
            }
            index::BACKFILLS => {
                let is_needed = |id| self.catalog.is_needed_for_backfill(id);
                let is_over = index::backfilled(columns).is_some_and(|id| !is_needed(id));
                (is_over, Reason::Marked)
            }
            _ => {
                let is_over = self.built_in.is_over(table, columns, entry, context);
                (is_over, Reason::Marked)
            }
        };
        if is_over {
            Verdict::Drop(reason)
        } else {
            Verdict::Keep
        }
    }

    fn versions(&self, key: &[u8], entry: &Entry) -> Option<(u64, u64)> {
        if self.table(key) < USER_TABLES_FROM {
            return None;
        }
        let (lowest, highest) = delta::span(entry)?;
        let above_zero = |version: i64| version.max(1).cast_unsigned();
        Some((above_zero(lowest), above_zero(highest)))
    }

    fn over_percent(&self, counts: &TableCounts, now_ms: u64) -> u64 {
        if counts.table < USER_TABLES_FROM {
            return 0;
        }
        match self.catalog.standing(counts.table) {
            Standing::Unknown => 0,
            Standing::Gone => 100,
            Standing::Exists(table) => expired_percent(counts, &table.options, now_ms),
        }
    }

    fn split(&self, value: &Bytes, piece_bytes_max: usize) -> Option<Pieces> {
        chunks::split(value, piece_bytes_max)
    }

    fn join(&self, directory: &Bytes, pieces: &[Bytes]) -> Result<Bytes, &'static str> {
        chunks::join(directory, pieces)
    }

    fn pick(&self, directory: &[u8], wanted: &[&str]) -> Option<(Vec<u32>, u64)> {
        chunks::pick(directory, wanted)
    }

    fn join_picked(
        &self,
        directory: &[u8],
        wanted: &[&str],
        picked: &[Bytes],
    ) -> Result<Bytes, &'static str> {
        chunks::join_picked(directory, wanted, picked)
    }

    fn narrow(&self, entry: &Entry, wanted: &[&str]) -> Option<Entry> {
        // Narrower rows are read whole: an update writes them whole.
        let is_narrow =
            entry.kind == EntryKind::Put && entry.value.len() as u64 <= WHOLE_ROW_BYTES_MAX;
        if is_narrow {
            return None;
        }
        delta::narrow(entry, wanted)
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key::partition_prefix(key).ok()
    }

    fn filter_key(&self, key: &[u8]) -> bool {
        key::split_key(key).is_some_and(|(table, _)| match table {
            TABLES | COUNTERS | CURSORS | index::BACKFILLS => true,
            table if table >= USER_TABLES_FROM => true,
            table => self.built_in.is_looked_up(table),
        })
    }

    fn owner(&self, key: &[u8]) -> Option<Owner> {
        let (table, columns) = key::split_key(key)?;
        match table {
            TABLES => Some(Owner::Hash(0)),
            COUNTERS => counter::numbered(columns).map(Owner::Hash),
            index::BACKFILLS => Some(Owner::Each),
            CURSORS | DEAD_LETTERS | API_KEYS | REVOCATIONS => owner_of_text(columns),
            table if table < USER_TABLES_FROM => self.built_in.owner(table, columns),
            table => match self.catalog.standing_of_rows(table) {
                Standing::Exists(table) => table.home(columns).ok().map(Owner::Hash),
                Standing::Gone => Some(Owner::Nobody),
                Standing::Unknown => None,
            },
        }
    }

    fn unite(&self, key: &[u8], rows: &[Option<Bytes>]) -> Option<Bytes> {
        match self.table(key) {
            // Without a place of its own the partition's rows are looked at once more, which does no harm.
            index::BACKFILLS => None,
            table => self.built_in.unite(table, rows),
        }
    }

    fn table(&self, key: &[u8]) -> TableId {
        key::split_key(key).map_or(TableId(0), |(table, _)| table)
    }
}

/// API keys, placed by their IDs, and revocations, placed by their users (`src/gateway/credentials/stored.rs`).
pub const API_KEYS: TableId = TableId(51);
/// See [`API_KEYS`].
pub const REVOCATIONS: TableId = TableId(52);

/// What share of a table's cells has expired, if their versions lie evenly between the lowest and the highest. If they
/// don't, a rewrite finds less and leaves a lowest version that has not expired, or the survey finds more.
fn expired_percent(counts: &TableCounts, options: &TableOptions, now_ms: u64) -> u64 {
    let (min, max) = (counts.version_min, counts.version_max);
    let Ok(life_s) = u64::try_from(options.time_to_live_s) else {
        return 0;
    };
    let newest_expired = now_ms.saturating_sub(life_s.saturating_mul(1_000));
    if min == 0 || newest_expired < min {
        0
    } else if newest_expired >= max {
        100
    } else {
        let percent = u128::from(newest_expired - min) * 100 / u128::from(max - min);
        u64::try_from(percent).unwrap_or(100)
    }
}
