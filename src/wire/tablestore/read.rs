//! Reads: what of a row is asked for, GetRow and GetRange.
//!
//! Owns: selections of columns and versions, and ranges. Promises: a read names versions by number or time, has a legal
//! selection and a legal filter. Must not: know a table's schema.

use std::ops::Range;

use bytes::Bytes;

use super::failure::Failure;
use super::filter::Filter;
use super::key::{BoundValue, Key, decode_key};
use super::limits::{READ_COLUMNS_MAX, TIMESTAMP_END};
use super::name::check_column_name;
use super::proto;
use super::table::{missing, table_name};

/// What of each row is asked for. Applied in this order: versions, columns, filter; the filter sees only what was
/// selected.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The newest so many versions of each column.
    pub max_versions: Option<u32>,
    /// Versions of these times, ms.
    pub times: Option<Range<i64>>,
    /// These columns, each once, in the order of the request; none: all.
    pub columns: Vec<String>,
    /// Columns from this name on.
    pub start_column: Option<String>,
    /// Columns before this name.
    pub end_column: Option<String>,
    /// What then has to hold, or stays.
    pub filter: Option<Filter>,
}

/// A selection as messages hold it.
pub(super) struct Parts {
    pub(super) columns: Vec<String>,
    pub(super) time_range: Option<proto::TimeRange>,
    pub(super) max_versions: Option<i32>,
    pub(super) filter: Option<Bytes>,
    pub(super) start_column: Option<String>,
    pub(super) end_column: Option<String>,
}

impl Selection {
    /// `no_versions` is what is said if versions are named neither by number nor by time.
    pub(super) fn decode(parts: Parts, no_versions: &'static str) -> Result<Selection, Failure> {
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
        let max_versions = max_versions.map(positive_versions).transpose()?;
        let times = time_range.map(times).transpose()?;
        let filter = filter.filter(|bytes| !bytes.is_empty());
        Ok(Selection {
            max_versions,
            times,
            columns: selected(columns)?,
            start_column: start_column.filter(|name| !name.is_empty()),
            end_column: end_column.filter(|name| !name.is_empty()),
            filter: filter.as_ref().map(Filter::decode).transpose()?,
        })
    }
}

fn positive_versions(versions: i32) -> Result<u32, Failure> {
    match u32::try_from(versions) {
        Ok(positive) if positive > 0 => Ok(positive),
        _ => Err(Failure::invalid(format!(
            "Invalid max versions: {versions} . Reason: Max versions must be positive."
        ))),
    }
}

fn times(message: proto::TimeRange) -> Result<Range<i64>, Failure> {
    let proto::TimeRange {
        start_time,
        end_time,
        specific_time,
    } = message;
    let range = match (specific_time, start_time, end_time) {
        (Some(at), None, None) => at..at.saturating_add(1),
        (Some(_), _, _) => {
            let text = "Specific tiemstamp and time range cannot be given at the same time.";
            return Err(Failure::invalid(text));
        }
        (None, Some(start), Some(end)) => start..end,
        (None, _, _) => {
            let text = "Start and end time must be given at the same time.";
            return Err(Failure::invalid(text));
        }
    };
    // The end is not within the range, so it may stand where no version may.
    let legal =
        (0..TIMESTAMP_END).contains(&range.start) && (0..=TIMESTAMP_END).contains(&range.end);
    if legal {
        return Ok(range);
    }
    let text = "Timestamp must be in range [0, INT64_MAX/1000).";
    Err(Failure::invalid(text))
}

fn selected(names: Vec<String>) -> Result<Vec<String>, Failure> {
    if names.len() > READ_COLUMNS_MAX {
        return Err(Failure::invalid(format!(
            "The number of columns from the request exceeds the limit, limit count: \
             {READ_COLUMNS_MAX}, column count: {}.",
            names.len()
        )));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut selected = Vec::with_capacity(names.len());
    for name in names {
        check_column_name(&name)?;
        if seen.insert(name.clone()) {
            selected.push(name);
        }
    }
    Ok(selected)
}

/// GetRow.
#[derive(Clone, Debug)]
pub struct GetRow {
    /// The table.
    pub table: String,
    /// The row.
    pub key: Key,
    /// What of it.
    pub selection: Selection,
    /// The transaction whose writes are seen.
    pub transaction: Option<String>,
}

const NO_VERSIONS: &str = "No version condition is specified.";

impl GetRow {
    pub(super) fn from_message(message: proto::GetRowRequest) -> Result<GetRow, Failure> {
        let parts = Parts {
            columns: message.columns_to_get,
            time_range: message.time_range,
            max_versions: message.max_versions,
            filter: message.filter,
            start_column: message.start_column,
            end_column: message.end_column,
        };
        Ok(GetRow {
            table: table_name(message.table_name)?,
            key: decode_key(&message.primary_key.ok_or_else(missing)?)?,
            selection: Selection::decode(parts, NO_VERSIONS)?,
            transaction: message.transaction_id,
        })
    }
}

/// In which order a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// GetRange.
#[derive(Clone, Debug)]
pub struct GetRange {
    /// The table.
    pub table: String,
    /// The order.
    pub direction: Direction,
    /// The first key, if there is such a row.
    pub start: Key<BoundValue>,
    /// The key before which it ends.
    pub end: Key<BoundValue>,
    /// What of each row.
    pub selection: Selection,
    /// Rows at most, at least one; None: as many as an answer may have.
    pub limit: Option<usize>,
    /// The transaction whose writes are seen.
    pub transaction: Option<String>,
}

impl GetRange {
    pub(super) fn from_message(message: proto::GetRangeRequest) -> Result<GetRange, Failure> {
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
        let parts = Parts {
            columns: message.columns_to_get,
            time_range: message.time_range,
            max_versions: message.max_versions,
            filter: message.filter,
            start_column: message.start_column,
            end_column: message.end_column,
        };
        Ok(GetRange {
            table,
            direction,
            start: decode_key(&start)?,
            end: decode_key(&end)?,
            selection: Selection::decode(parts, NO_VERSIONS)?,
            limit,
            transaction: message.transaction_id,
        })
    }
}
