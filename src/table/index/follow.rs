//! Keeping indexes where their tables are.
//!
//! Owns: the effect of a row's change on the indexes of its table. Promises: it is in the batch of the change, or the
//! change is refused. Must not: read rows.

use tideline_model::{Error, KeyValue};
use tideline_store::partition::Txn;

use super::super::format::primary_key::key_of;
use crate::Malformed;
use crate::access::damaged;
use crate::schema::Table;

/// Has a table's indexes follow a row of it that becomes `after` from `before`, both as they are stored.
pub(in super::super) fn follow(
    txn: &mut Txn<'_>,
    table: &Table,
    key: &[KeyValue],
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<(), Error> {
    for index in table.indexes() {
        let of = |stored: Option<&[u8]>| match stored {
            Some(stored) => index.row(key, stored),
            None => Ok(Ok(None)),
        };
        let bad = |_: Malformed| damaged(key_of(table.id, key).as_bytes(), "not a row");
        let (old, new) = (of(before).map_err(bad)?, of(after).map_err(bad)?);
        let (old, new) = match (old, new) {
            // A row that no index could hold before may stay as it is.
            (Err(_), new) => (None, new.ok().flatten()),
            (Ok(old), new) => (old, new?),
        };
        if old == new {
            continue;
        }
        if let Some(old) = old
            && new.as_ref().is_none_or(|new| new.key != old.key)
            && !is_planted(table)
        {
            txn.delete(old.key.as_bytes());
        }
        if let Some(new) = new {
            txn.put(new.key.as_bytes(), new.value);
        }
    }
    Ok(())
}

/// Whether the table is one of the tests' whose indexes keep rows that should go.
#[cfg(test)]
fn is_planted(table: &Table) -> bool {
    table.options.max_version_offset_s == crate::tests::PLANTED_INDEX_OFFSET_S
}

#[cfg(not(test))]
fn is_planted(_: &Table) -> bool {
    false
}
