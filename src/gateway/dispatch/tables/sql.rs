//! The sql family: a statement over the tables that Tablestore's API has.
//!
//! Owns: the call behind this method, the way of an answer's values, and why a statement was refused. Promises: an
//! answer that would be too large has fewer rows, and says so. Must not: read a statement.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::shape::size;
use super::super::{BUSY_RETRY_MS, Caller, NO_RIGHT, Shared, Work};
use super::table::refusal;
use crate::tablestore::{Opening, run_sql};
use tideline_model::{Value, json_text_bytes};
use tideline_sql::{self as sql, ColumnKind, Datum, Refusal, StatementKind};
use tideline_wire::tables::sql::{Answer, AnswerColumn, Kind, Query};
use tideline_wire::{Entry, Failure, Limits, OneValue, Reason, Reply};

pub(in super::super) fn query(shared: &Arc<Shared>, caller: &Caller, query: Query) -> Work {
    let is_read = Opening::of(&query.statement).is_read;
    let holder = shared.per_client.holder(&caller.asker);
    let (shared, claim) = (Arc::clone(shared), caller.asker.claim().cloned());
    let work = async move {
        let answer = run_sql(&shared, (&claim, holder), &query.statement).await;
        told(&shared.options.limits, answer).map(Reply::SqlQuery)
    };
    match is_read {
        true => Work::Read(Box::pin(work)),
        false => caller.in_line(work),
    }
}

/// What came of a statement, in the protocol's form: as many rows as there is room for.
///
/// # Errors
/// The statement was refused, or the names of its columns have no room.
pub fn told(limits: &Limits, answer: Result<sql::Answer, Refusal>) -> Result<Answer, Failure> {
    let answer = answer.map_err(refused)?;
    let columns: Vec<_> = answer.columns.into_iter().map(column).collect();
    let names = columns
        .iter()
        .map(|column| json_text_bytes(&column.name) + COLUMN_BYTES);
    let room = size(limits.outbound_frame_bytes_max).checked_sub(ENVELOPE_BYTES);
    let room = room.and_then(|room| room.checked_sub(names.sum()));
    let Some(mut room) = room else {
        let failure = Failure::new(Reason::TooLarge).about("statement");
        return Err(failure.saying("the names of its columns alone fill the answer"));
    };
    let (mut rows, mut cut) = (Vec::new(), false);
    for row in answer.rows {
        let row: Vec<_> = row.into_iter().map(value).collect();
        let Some(left) = room.checked_sub(row.iter().map(bytes_max).sum()) else {
            cut = true;
            break;
        };
        room = left;
        rows.push(row);
    }
    let writes = matches!(
        answer.kind,
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete
    );
    Ok(Answer {
        columns,
        rows,
        affected: writes.then_some(answer.affected),
        cut,
    })
}

fn column(column: sql::Column) -> AnswerColumn {
    AnswerColumn {
        name: column.name,
        kind: match column.kind {
            ColumnKind::Long => Kind::Integer,
            ColumnKind::Double => Kind::Double,
            ColumnKind::Boolean => Kind::Boolean,
            ColumnKind::String => Kind::String,
            ColumnKind::Binary => Kind::Binary,
            ColumnKind::DateTime => Kind::Datetime,
            ColumnKind::Date => Kind::Date,
            ColumnKind::Time => Kind::Time,
        },
    }
}

fn value(datum: Datum) -> Option<OneValue<'static>> {
    let value = match datum {
        Datum::Null => return None,
        Datum::Long(number) => Value::Integer(number),
        Datum::Double(number) => Value::Double(number),
        Datum::Boolean(truth) => Value::Boolean(truth),
        Datum::Binary(bytes) => Value::Binary(bytes),
        Datum::String(text) => Value::String(text),
        moment => Value::String(moment.text()?),
    };
    Some(OneValue {
        value: Cow::Owned(value),
    })
}

/// At most so many bytes in any encoding.
fn bytes_max(value: &Option<OneValue<'static>>) -> usize {
    let Some(OneValue { value }) = value else {
        return VALUE_BYTES;
    };
    VALUE_BYTES + Entry::value_bytes_max(value)
}

/// Why a statement was refused.
fn refused(why: Refusal) -> Failure {
    let text = why.to_string();
    let reason = match why {
        Refusal::Syntax { .. } | Refusal::Invalid(_) | Refusal::Unsupported(_) => {
            Reason::InvalidParams
        }
        Refusal::Denied(_) => {
            let failure = Failure::new(Reason::Forbidden).about("statement");
            return failure.saying(NO_RIGHT);
        }
        Refusal::NoTable(_) => Reason::TableNotFound,
        Refusal::Scanned | Refusal::Memory(_) | Refusal::Timeout(_) => Reason::TooLarge,
        Refusal::Busy => return Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS),
        Refusal::RowExists => Reason::ConditionFailed,
        Refusal::Table(error) => {
            let mut failure = refusal(error);
            failure.field = failure.field.map(|_| "statement".to_owned());
            return failure;
        }
    };
    Failure::new(reason).about("statement").saying(text)
}

/// Around the rows of an answer.
const ENVELOPE_BYTES: usize = 2_048;
/// Names and marks of a column and of a value.
const COLUMN_BYTES: usize = 64;
const VALUE_BYTES: usize = 8;
