//! The texts and codes of what is wrong with search indexes and searches.
//!
//! Owns: texts that SDKs' tests compare. Must not: decide what is wrong.

use super::super::failure::{Code, Failure};
use tideline_model::search::InvalidSearch;

/// Refuses a number that is outside of its range.
pub(super) fn within(
    name: &'static str,
    number: usize,
    low: usize,
    high: usize,
) -> Result<(), Failure> {
    match (low..=high).contains(&number) {
        true => Ok(()),
        false => Err(InvalidSearch::Range(name, low, high).into()),
    }
}

impl From<InvalidSearch> for Failure {
    #[allow(clippy::too_many_lines)] // a line or two for each reason
    fn from(why: InvalidSearch) -> Failure {
        let text = match why {
            InvalidSearch::NoIndex(index) => {
                let text = format!("search index [{index}] does not exist");
                return Failure::with(Code::MetaNotMatch, text);
            }
            InvalidSearch::Session => {
                let text = "ScanQuery'session is expired, please retry ComputeSplitsRequest and ScanQuery.";
                return Failure::with(Code::SessionExpired, text);
            }
            InvalidSearch::IndexExists(index) => {
                let text = format!("search index [{index}] already exists");
                return Failure::with(Code::ObjectAlreadyExist, text);
            }
            InvalidSearch::IndexQuota(most) => {
                let text = format!("Number of search indexes per table exceeds the quota: {most}.");
                return Failure::with(Code::QuotaExhausted, text);
            }
            InvalidSearch::Memory(mib) => {
                let text = format!(
                    "The rows and groups of the search take more than {mib} MiB: ask for fewer, or sort \
                 them and go on by token."
                );
                return Failure::with(Code::QuotaExhausted, text);
            }
            InvalidSearch::Groups(most) => {
                let text = format!(
                    "The aggregations of the search make more groups than {most}: ask for fewer rows or coarser groups."
                );
                return Failure::with(Code::QuotaExhausted, text);
            }
            InvalidSearch::AggregateName(name) => {
                format!("The name of an aggregation is empty or used twice: [{name}].")
            }
            InvalidSearch::AggregateField(what, field) => {
                format!("[{what}] field: {field} does not exist")
            }
            InvalidSearch::AggregateKind(what, field, kind, allowed) => {
                format!("[{what}] field_name:{field} type:{kind} is invalid, allow [{allowed}]")
            }
            InvalidSearch::Highlight(field) => {
                format!("highlighting is not supported for field[{field}]")
            }
            InvalidSearch::NoTable(table) => format!("table [{table}] does not exist"),
            InvalidSearch::Kept => {
                "The table has search indexes: delete them before the table.".to_owned()
            }
            InvalidSearch::TimeToLive => "operation is denied as table TTL exists".to_owned(),
            InvalidSearch::Versions => {
                "Max versions must be 1 in a table with search indexes.".to_owned()
            }
            InvalidSearch::ScanPart { id, parts } => format!(
                "[parallel_scan.current_parallel_id] must in [0, max_parallel), current max_parallel is \
             {parts}, current_parallel_id is {id}"
            ),
            InvalidSearch::ScanParts(parts) => format!(
                "[parallel_scan.max_parallel_id] must in (0 ,1], current max_parallel_id is {parts}"
            ),
            InvalidSearch::FieldCount(count) => {
                format!("The number of fields must be in range: [1, 1000], field count: {count}.")
            }
            InvalidSearch::DuplicateField(name) => format!("Duplicated field name: '{name}'."),
            InvalidSearch::FieldName(name) => format!("Invalid field name: '{name}'."),
            InvalidSearch::FieldDepth => "Fields are nested deeper than 5.".to_owned(),
            InvalidSearch::Field(name, what) => format!("field [{name}]: {what}"),
            InvalidSearch::Unsupported(what) => format!("Not supported: {what}."),
            InvalidSearch::NoField(name) => format!("field [{name}] does not exist"),
            InvalidSearch::FieldKind(name, kind, what) => {
                format!("{what} field_name:{name} type:{kind} is invalid")
            }
            InvalidSearch::Value(field) => {
                format!("field [{field}]: the value is not of the field's type")
            }
            InvalidSearch::Point(point) => format!("Invalid geo point: '{point}'."),
            InvalidSearch::QueryNodes(most) => {
                format!("The query has more than {most} parts, or they are nested deeper than 32.")
            }
            InvalidSearch::TooLong(what, most) => {
                format!("The length of the {what} exceeds the limit: {most}.")
            }
            InvalidSearch::Range(name, low, high) => {
                format!("The {name} must be in range: [{low}, {high}].")
            }
            InvalidSearch::Token => "The token is not of this query and index.".to_owned(),
            InvalidSearch::WithToken(what) => format!("The {what} can't be given with a token."),
            InvalidSearch::MinimumMatch(text) => format!("Invalid minimum_should_match: '{text}'."),
        };
        Failure::invalid(text)
    }
}
