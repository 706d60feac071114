//! Reads: what of a row is asked for, GetRow and GetRange.
//!
//! Owns: how messages name versions, columns and ranges. Promises: a read names versions by number or time, has a legal
//! selection and a legal filter. Must not: know a table's schema.

use std::ops::Range;

use bytes::Bytes;

use super::super::failure::Failure;
use super::super::proto;
use super::cells::decode_key;
use super::filter::decode_filter;
use super::table::{missing, table_name};
use super::transaction::transaction;
use tideline_model as model;
use tideline_model::{Direction, KeyUse, PrimaryKey, Selection, TransactionId};

/// A selection as messages hold it.
pub(in super::super) struct Parts {
    pub(in super::super) columns: Vec<String>,
    pub(in super::super) time_range: Option<proto::TimeRange>,
    pub(in super::super) max_versions: Option<i32>,
    pub(in super::super) filter: Option<Bytes>,
    pub(in super::super) start_column: Option<String>,
    pub(in super::super) end_column: Option<String>,
}

/// The parts of one of the three messages that have these fields.
macro_rules! parts {
    ($message:ident) => {
        $crate::tablestore::request::read::Parts {
            columns: $message.columns_to_get,
            time_range: $message.time_range,
            max_versions: $message.max_versions,
            filter: $message.filter,
            start_column: $message.start_column,
            end_column: $message.end_column,
        }
    };
}
pub(in super::super) use parts;

/// The selection of a message. `no_versions` is the text if versions are named neither by number nor by time.
pub(in super::super) fn selection(
    parts: Parts,
    no_versions: &'static str,
) -> Result<Selection, Failure> {
    let Parts {
        columns,
        time_range,
        max_versions,
        filter,
        start_column,
        end_column,
    } = parts;
    let time_range = time_range.filter(|range| *range != proto::TimeRange::default());
    if time_range.is_none() && max_versions.is_none() {
        return Err(Failure::invalid(no_versions));
    }
    let specific = time_range.and_then(|range| range.specific_time);
    if specific.is_some() && max_versions.is_some() {
        let text = "Specific tiemstamp and max versions cannot be given at the same time.";
        return Err(Failure::invalid(text));
    }
    let mut selection = Selection::newest(max_versions.map(i64::from))?;
    if let Some(range) = time_range {
        selection = selection.within(times(range)?)?;
    }
    selection = selection.of(columns)?;
    let filter = filter.filter(|bytes| !bytes.is_empty());
    selection.start = start_column.filter(|name| !name.is_empty());
    selection.end = end_column.filter(|name| !name.is_empty());
    selection.filter = filter.as_ref().map(decode_filter).transpose()?;
    Ok(selection)
}

fn times(message: proto::TimeRange) -> Result<Range<i64>, Failure> {
    let proto::TimeRange {
        start_time,
        end_time,
        specific_time,
    } = message;
    let text = match (specific_time, start_time, end_time) {
        (Some(at), None, None) => return Ok(at..at.saturating_add(1)),
        (None, Some(start), Some(end)) => return Ok(start..end),
        (Some(_), _, _) => "Specific tiemstamp and time range cannot be given at the same time.",
        (None, _, _) => "Start and end time must be given at the same time.",
    };
    Err(Failure::invalid(text))
}

/// GetRow.
#[derive(Clone, Debug)]
pub struct GetRow {
    /// The table.
    pub table: String,
    /// The row.
    pub key: PrimaryKey,
    /// What of it.
    pub selection: Selection,
    /// The transaction whose writes are seen.
    pub transaction: Option<TransactionId>,
}

const NO_VERSIONS: &str = "No version condition is specified.";

impl GetRow {
    pub(in super::super) fn from_message(message: proto::GetRowRequest) -> Result<GetRow, Failure> {
        let parts = parts!(message);
        let key = message.primary_key.ok_or_else(missing);
        Ok(GetRow {
            table: table_name(message.table_name)?,
            key: decode_key(&key?, KeyUse::Read)?,
            selection: selection(parts, NO_VERSIONS)?,
            transaction: transaction(message.transaction_id)?,
        })
    }
}

/// GetRange.
#[derive(Clone, Debug)]
pub struct GetRange {
    /// The table.
    pub table: String,
    /// The range.
    pub range: model::GetRange,
    /// The transaction whose writes are seen.
    pub transaction: Option<TransactionId>,
}

impl GetRange {
    pub(in super::super) fn from_message(
        message: proto::GetRangeRequest,
    ) -> Result<GetRange, Failure> {
        let table = table_name(message.table_name)?;
        let code = message.direction.ok_or_else(missing)?;
        let direction = match proto::Direction::try_from(code) {
            Ok(proto::Direction::Forward) => Direction::Forward,
            Ok(proto::Direction::Backward) => Direction::Backward,
            Err(_) => return Err(Failure::invalid(format!("Invalid direction: {code}."))),
        };
        let limit = match message.limit.map(usize::try_from) {
            None => None,
            Some(Ok(limit)) if limit > 0 => Some(limit),
            Some(_) => return Err(Failure::invalid("The limit must be greater than 0.")),
        };
        let start = message.inclusive_start_primary_key.ok_or_else(missing)?;
        let end = message.exclusive_end_primary_key.ok_or_else(missing)?;
        let parts = parts!(message);
        Ok(GetRange {
            table,
            range: model::GetRange {
                direction,
                start: decode_key(&start, KeyUse::Bound)?,
                end: decode_key(&end, KeyUse::Bound)?,
                selection: selection(parts, NO_VERSIONS)?,
                limit,
            },
            transaction: transaction(message.transaction_id)?,
        })
    }
}
