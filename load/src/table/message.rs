//! The messages that a connection sends, as an SDK fills them.
//!
//! Owns: what stands in each field. Promises: writes have no condition, so each is one operation of the store. Must
//! not: know what a row should hold.

use tideline::wire::tablestore::plainbuffer::{self, Row, encode_row};
use tideline::wire::tablestore::proto;

use super::connection::Trouble;
use super::sheet::Sheet;

/// A row of an answer, or why it is none.
pub(super) fn decoded<T>(row: Result<T, plainbuffer::Error>) -> Result<T, Trouble> {
    row.map_err(|error| Trouble::Wrong(error.to_string()))
}

pub(super) fn anyway() -> Option<proto::Condition> {
    Some(proto::Condition {
        row_existence: Some(proto::RowExistenceExpectation::Ignore.into()),
        column_condition: None,
    })
}

pub(super) fn put_row(table: &str, row: &Row) -> proto::PutRowRequest {
    proto::PutRowRequest {
        table_name: Some(table.to_owned()),
        row: Some(encode_row(row)),
        condition: anyway(),
        return_content: None,
        transaction_id: None,
    }
}

pub(super) fn update_row(table: &str, row: &Row) -> proto::UpdateRowRequest {
    proto::UpdateRowRequest {
        table_name: Some(table.to_owned()),
        row_change: Some(encode_row(row)),
        condition: anyway(),
        return_content: None,
        transaction_id: None,
    }
}

pub(super) fn get_row(table: &str, key: &Row, columns: Vec<String>) -> proto::GetRowRequest {
    proto::GetRowRequest {
        table_name: Some(table.to_owned()),
        primary_key: Some(encode_row(key)),
        columns_to_get: columns,
        max_versions: Some(1),
        ..proto::GetRowRequest::default()
    }
}

pub(super) fn get_range(
    sheet: &Sheet,
    start: &Row,
    forward: bool,
    limit: usize,
) -> proto::GetRangeRequest {
    let direction = match forward {
        true => proto::Direction::Forward,
        false => proto::Direction::Backward,
    };
    proto::GetRangeRequest {
        table_name: Some(sheet.name.clone()),
        direction: Some(direction.into()),
        max_versions: Some(1),
        limit: i32::try_from(limit).ok(),
        inclusive_start_primary_key: Some(encode_row(start)),
        exclusive_end_primary_key: Some(encode_row(&sheet.end(forward))),
        ..proto::GetRangeRequest::default()
    }
}
