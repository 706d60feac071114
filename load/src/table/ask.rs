//! An operation on rows as one value: how it is asked, and what its answer must be.
//!
//! Owns: what is in each field of a request. Promises: writes have no condition, so each is one operation of the store;
//! every answer is checked, its capacity units too. Must not: send anything.

use prost::Message;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::{decode_row, decode_rows, encode_row};
use tideline::wire::tablestore::proto::{
    CapacityUnit, Condition, Direction, GetRangeRequest, GetRangeResponse, GetRowRequest,
    PutRowRequest, RowExistenceExpectation,
};

use super::api::text;
use super::sheet::{Due, Sheet};
use crate::checks::Checks;

/// An operation.
pub(super) enum Ask {
    /// These columns of a row are written: PutRow if they are all, else UpdateRow.
    Write(u64, std::ops::Range<usize>, u32),
    /// GetRow.
    Row(Due),
    /// GetRange.
    Page(Due),
}

/// The answers to all of these operations have the same fields.
pub(super) type Reply = GetRangeResponse;

impl Ask {
    /// The request.
    pub(super) fn encode(&self, sheet: &Sheet) -> (Operation, Vec<u8>) {
        let (table_name, width) = (Some(sheet.name.clone()), sheet.columns.len());
        match self {
            Ask::Write(row, columns, generation) => {
                let existence = RowExistenceExpectation::Ignore.into();
                // UpdateRow's request has the same fields.
                let request = PutRowRequest {
                    table_name,
                    row: Some(encode_row(&sheet.row(*row, columns.clone(), *generation))),
                    condition: Some(Condition {
                        row_existence: Some(existence),
                        column_condition: None,
                    }),
                    ..PutRowRequest::default()
                };
                let operation = match columns.len() == width {
                    true => Operation::PutRow,
                    false => Operation::UpdateRow,
                };
                (operation, request.encode_to_vec())
            }
            Ask::Row(due) => {
                // No names ask for all.
                let some = due.columns.clone().filter(|_| due.columns.len() < width);
                let request = GetRowRequest {
                    table_name,
                    primary_key: Some(encode_row(&sheet.key(due.rows.start))),
                    columns_to_get: some.map(|column| sheet.columns[column].clone()).collect(),
                    max_versions: Some(1),
                    ..GetRowRequest::default()
                };
                (Operation::GetRow, request.encode_to_vec())
            }
            Ask::Page(due) => {
                let (start, direction) = match due.backward {
                    true => (due.rows.end - 1, Direction::Backward),
                    false => (due.rows.start, Direction::Forward),
                };
                let request = GetRangeRequest {
                    table_name,
                    direction: Some(direction.into()),
                    max_versions: Some(1),
                    limit: i32::try_from(due.limit).ok(),
                    inclusive_start_primary_key: Some(encode_row(&sheet.key(start))),
                    exclusive_end_primary_key: Some(encode_row(&Sheet::end(due.backward))),
                    ..GetRangeRequest::default()
                };
                (Operation::GetRange, request.encode_to_vec())
            }
        }
    }

    /// Checks the answer; returns how many rows came, and the row that the next page begins with.
    pub(super) fn check(
        &self,
        sheet: &Sheet,
        reply: &Reply,
        checks: &Checks,
    ) -> Result<(u64, Option<u64>), String> {
        let (mut rows, mut next) = (Vec::new(), None);
        let [read, write] = match self {
            Ask::Write(row, columns, generation) => {
                sheet.ack(*row, columns, *generation);
                [0, sheet.units(1, columns.len())]
            }
            Ask::Row(due) | Ask::Page(due) => {
                rows = decode_rows(&reply.rows).map_err(text)?;
                let key = reply.next_start_primary_key.as_ref().map(decode_row);
                next = sheet.check(due, &rows, key.transpose().map_err(text)?.as_ref())?;
                [sheet.units(rows.len(), due.columns.len()), 0]
            }
        };
        checks.made("capacity units compared", 1);
        let (came, [read, write]) = (&reply.consumed.capacity_unit, [read, write].map(Some));
        match *came == (CapacityUnit { read, write }) {
            true => Ok((rows.len() as u64, next)),
            false => Err(format!("{came:?}, not {read:?} and {write:?}")),
        }
    }
}
