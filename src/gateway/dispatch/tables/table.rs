//! The table family: list, get; and what the row family shares with it.
//!
//! Owns: the calls behind these methods, and the one place that turns a refusal of the tables into one of this
//! protocol. Promises: a table that the caller has no right to is answered alike whether it exists or not, before it is
//! looked for, and no answer names it, nor an index that they have no right to. Must not: change a table.

use std::sync::Arc;

use super::super::{BUSY_RETRY_MS, Caller, NO_RIGHT, Shared, Work};
use crate::tablestore::{allow, seen, shows};
use tideline_model as model;
use tideline_model::Error;
use tideline_model::access::{Claim, Rights};
use tideline_table::Table;
use tideline_wire::tables::table::{
    Column, Get, Index, Info, KeyColumn, Listed, Named, Stream, TableOptions,
};
use tideline_wire::{Failure, Method, Reason, Reply, tablestore};

pub(in super::super) fn list(shared: &Arc<Shared>, caller: &Caller) -> Work {
    let (shared, claim) = (Arc::clone(shared), caller.asker.claim().cloned());
    Work::Read(Box::pin(async move {
        let all = &shared.tablestore.tables;
        let names = all.list().await.map_err(refusal)?;
        let mut tables = Vec::with_capacity(names.len());
        for name in names.into_iter().filter(|name| shows(&claim, name)) {
            // It may have been dropped since.
            let Ok(table) = all.describe(&name).await else {
                continue;
            };
            tables.push(Named {
                name,
                index_of: index_of(&table, &claim),
                is_virtual: table.is_virtual(),
            });
        }
        Ok(Reply::TableList(Listed { tables }))
    }))
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, get: Get) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        may(&caller, &get.table, Method::TableGet.needs().rights())?;
        let tables = &shared.tablestore.tables;
        let table = tables.describe(&get.table).await.map_err(refusal)?;
        let claim = caller.asker.claim().cloned();
        Ok(Reply::TableGet(Box::new(info(&table, &claim))))
    }))
}

/// Refuses a caller that has none of these rights on a table.
pub(in super::super) fn may(caller: &Caller, table: &str, rights: Rights) -> Result<(), Failure> {
    let Some(claim) = caller.asker.claim() else {
        return Ok(());
    };
    allow(claim, table, rights).map_err(|_| no_right())
}

/// A table whose rows are to be read, with those of them that the caller may see.
pub(in super::super) async fn readable(
    shared: &Shared,
    caller: &Caller,
    name: &str,
    method: Method,
) -> Result<Arc<Table>, Failure> {
    may(caller, name, method.needs().rights())?;
    let table = shared.tablestore.tables.describe(name).await;
    let claim = caller.asker.claim().cloned();
    seen(shared, &claim, table.map_err(refusal)?).map_err(|_| no_right())
}

fn no_right() -> Failure {
    Failure::new(Reason::Forbidden)
        .about("table")
        .saying(NO_RIGHT)
}

/// The table that an index is of, if the caller has a right to it: nobody else learns its name.
fn index_of(table: &Table, claim: &Option<Arc<Claim>>) -> Option<String> {
    let of = table.indexed_table().filter(|of| shows(claim, of));
    of.map(str::to_owned)
}

fn info(table: &Table, claim: &Option<Arc<Claim>>) -> Info {
    let model::TableOptions {
        time_to_live_s,
        max_versions,
        max_version_offset_s,
        allow_update,
        update_full_row: _,
        expired_before_ms: _,
    } = table.options;
    let columns = table.defined_columns.iter().map(|column| Column {
        name: column.name.clone(),
        kind: column.kind,
    });
    let key = table.primary_key.iter().map(|column| KeyColumn {
        name: column.name.clone(),
        kind: column.kind,
        auto_increment: column.auto_increment,
    });
    let indexes = table.indexes.iter();
    let indexes = indexes.filter(|index| shows(claim, &index.meta.name));
    Info {
        table: table.name.clone(),
        key: key.collect(),
        columns: columns.collect(),
        options: TableOptions {
            ttl_s: u64::try_from(time_to_live_s).ok(),
            versions: u64::try_from(max_versions).unwrap_or(1),
            version_offset_s: u64::try_from(max_version_offset_s).unwrap_or(0),
            allow_update,
        },
        created_at: (!table.is_virtual()).then_some(table.created_us / 1_000),
        index_of: index_of(table, claim),
        is_virtual: table.is_virtual(),
        transactions: table.local_transactions,
        stream: table.stream.as_ref().map(|stream| Stream {
            id: stream.id.clone(),
            hours: stream.hours,
            created_at: stream.enabled_us / 1_000,
            columns: stream.original_columns.clone(),
        }),
        indexes: indexes.map(index).collect(),
    }
}

fn index(index: &model::IndexDefinition) -> Index {
    Index {
        name: index.meta.name.clone(),
        kind: index.meta.kind,
        state: index.state,
        key: index.meta.key.clone(),
        columns: index.meta.columns.clone(),
    }
}

/// What the tables refused, with the text that Tablestore's API has for it. What broke inside is for the log alone.
pub(in super::super) fn refusal(error: Error) -> Failure {
    let text = match &error {
        Error::Unavailable(why) => {
            tracing::error!(why, "a call on tables failed");
            None
        }
        other => Some(tablestore::Failure::from(other.clone()).message),
    };
    let invalid = |field: String| Failure::invalid(field, text.clone().unwrap_or_default());
    match error {
        Error::TableNotFound => Failure::new(Reason::TableNotFound).about("table"),
        Error::ReadOnlyTable | Error::IndexWrite => Failure::new(Reason::Forbidden)
            .about("table")
            .saying(text.unwrap_or_default()),
        Error::ConditionFailed => Reason::ConditionFailed.into(),
        Error::Busy | Error::RowConflict => Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS),
        Error::StorageFull => Reason::StorageFull.into(),
        Error::OutcomeUnknown => Reason::OutcomeUnknown.into(),
        Error::Unavailable(_) | Error::IndexBuilding => Reason::Unavailable.into(),
        Error::ShuttingDown => Reason::ShuttingDown.into(),
        Error::Internal => Reason::InternalError.into(),
        Error::KeyTooLong { column, length } => {
            let limit = model::limits::KEY_VALUE_BYTES_MAX as u64;
            let field = format!("key.{column}");
            Failure::too_large(field, "key_value_bytes_max", limit, length as u64)
        }
        Error::ValueTooLong { column, length } => {
            let limit = model::limits::VALUE_BYTES_MAX as u64;
            let field = format!("columns.{column}");
            Failure::too_large(field, "value_bytes_max", limit, length as u64)
        }
        Error::TooLarge { limit, size } => {
            Failure::too_large("columns", "row_bytes_max", limit as u64, size as u64)
        }
        Error::RowTooLarge | Error::IndexRowTooLarge => Failure::new(Reason::TooLarge)
            .about("columns")
            .saying(text.unwrap_or_default()),
        Error::DuplicateWithKey(name) | Error::InvalidVersion { column: name } => {
            invalid(format!("columns.{name}"))
        }
        Error::RangeForward | Error::RangeBackward => invalid("from".to_owned()),
        Error::ColumnsAsked(_) | Error::ColumnCount(_) => invalid("columns".to_owned()),
        Error::InvalidVersionsAsked(_) => invalid("versions".to_owned()),
        Error::AutoIncrementExpect(_) | Error::AutoIncrementExpectGiven(_) => {
            invalid("expect".to_owned())
        }
        _ => invalid("key".to_owned()),
    }
}
