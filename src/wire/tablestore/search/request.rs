//! Requests about search indexes and searches in them.
//!
//! Owns: what each operation must have, and its limits. Promises: a search that leaves this module has all numbers
//! within their ranges. Must not: know an index.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::proto;
use super::super::request::table::{missing, table_name};
use super::aggregate::aggregates;
use super::parts::at_most;
use super::query::query;
use super::refusal::within;
use super::show::highlight;
use super::{schema, sort};
use tideline_model::Error;
use tideline_model::search::{
    Columns, InvalidSearch, Query, SORTERS_MAX, Scan, Search, SearchIndexUpdate, SearchSchema,
    Total,
};

/// Columns of a row that are asked for by name.
const NAMES_MAX: usize = 1_024;
/// Rows of a page.
const LIMIT_MAX: usize = 1_000;
const LIMIT_DEFAULT: i32 = 10;
/// Rows of a page and before it.
const WINDOW_MAX: usize = 100_000;
/// Rows of a step of a scan.
const SCAN_LIMIT_MAX: usize = 2_000;
/// How long a scan is kept between two steps, seconds.
const ALIVE_S_DEFAULT: i32 = 60;
const ALIVE_S_MAX: usize = 3_600;
/// A scan has one part.
const SCAN_PARTS: i32 = 1;

/// A search index and its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedIndex {
    /// The table.
    pub table: String,
    /// The index.
    pub index: String,
}

/// A search index that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSearchIndex {
    /// Where.
    pub of: NamedIndex,
    /// What it has of each row.
    pub schema: SearchSchema,
    /// Seconds that a row shows; -1 = for ever.
    pub time_to_live_s: i64,
}

/// A search index that is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSearchIndex {
    /// Which one.
    pub of: NamedIndex,
    /// How.
    pub update: SearchIndexUpdate,
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchIn {
    /// Where.
    pub of: NamedIndex,
    /// What.
    pub search: Search,
}

/// A step of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanIn {
    /// Where.
    pub of: NamedIndex,
    /// What.
    pub scan: Scan,
}

impl NamedIndex {
    fn new(table: Option<String>, index: Option<String>) -> Result<NamedIndex, Failure> {
        Ok(NamedIndex {
            table: table_name(table)?,
            index: table_name(index)?,
        })
    }

    pub(in super::super) fn from_body(body: Bytes) -> Result<NamedIndex, Failure> {
        let message = proto::SearchIndexRequest::decode(body)?;
        NamedIndex::new(message.table_name, message.index_name)
    }

    /// Of ComputeSplits.
    pub(in super::super) fn of_splits(body: Bytes) -> Result<NamedIndex, Failure> {
        let message = proto::ComputeSplitsRequest::decode(body)?;
        let options = message.search_index_splits_options;
        let Some(index) = options.and_then(|options| options.index_name) else {
            let text = "[search index splits options] must not be null";
            return Err(Failure::invalid(text));
        };
        NamedIndex::new(message.table_name, Some(index))
    }
}

impl CreateSearchIndex {
    pub(in super::super) fn from_body(body: Bytes) -> Result<Self, Failure> {
        let message = proto::CreateSearchIndexRequest::decode(body)?;
        if message.source_index_name.is_some() {
            return Err(unsupported("source_index_name"));
        }
        Ok(CreateSearchIndex {
            of: NamedIndex::new(message.table_name, message.index_name)?,
            schema: schema::schema(message.schema.ok_or_else(missing)?)?,
            time_to_live_s: time_to_live(message.time_to_live.unwrap_or(-1))?,
        })
    }
}

impl UpdateSearchIndex {
    pub(in super::super) fn from_body(body: Bytes) -> Result<Self, Failure> {
        let message = proto::UpdateSearchIndexRequest::decode(body)?;
        if message.switch_index_name.is_some() || !message.query_flow_weight.is_empty() {
            return Err(unsupported("switch_index_name"));
        }
        if !message.added_field_schemas.is_empty() {
            return Err(unsupported("added_field_schemas"));
        }
        let of = NamedIndex::new(message.table_name, message.index_name)?;
        let time_to_live_s = message.time_to_live.map(time_to_live).transpose()?;
        if time_to_live_s.is_none() {
            return Err(Failure::invalid("UpdateSearchIndex has nothing to change."));
        }
        Ok(UpdateSearchIndex {
            of,
            update: SearchIndexUpdate { time_to_live_s },
        })
    }
}

impl SearchIn {
    pub(in super::super) fn from_body(body: Bytes) -> Result<Self, Failure> {
        at_most("column_names", NAMES_MAX, &body, COLUMN_NAMES)?;
        at_most("sorters", SORTERS_MAX, &body, SORTERS)?;
        let points = SORTERS_MAX * sort::POINTS_MAX;
        at_most("points", points, &body, SORTER_POINTS)?;
        let message = proto::SearchRequest::decode(body)?;
        let of = NamedIndex::new(message.table_name, message.index_name)?;
        let asked = proto::SearchQuery::decode(message.search_query.ok_or_else(missing)?)?;
        let limit = count("limit", asked.limit.unwrap_or(LIMIT_DEFAULT), 0, LIMIT_MAX)?;
        let offset = count("offset", asked.offset.unwrap_or(0), 0, WINDOW_MAX)?;
        within("offset + limit", offset + limit, 0, WINDOW_MAX)?;
        let token = asked.token.filter(|token| !token.is_empty());
        let sort = asked.sort.map(sort::sort).transpose()?;
        if token.is_some() && offset > 0 {
            return Err(InvalidSearch::WithToken("offset").into());
        }
        let counts = asked.get_total_count.unwrap_or(false)
            || asked.track_total_count.is_some_and(|most| most > 0);
        let search = Search {
            aggregates: aggregates(asked.aggs, asked.group_bys)?,
            highlight: highlight(asked.highlight)?,
            query: asked.query.as_ref().map_or(Ok(Query::All), query)?,
            filter: match asked.filter.and_then(|filter| filter.query) {
                Some(filter) => Some(query(&filter)?),
                None => None,
            },
            collapse: match asked.collapse {
                Some(collapse) => Some(collapse.field_name.ok_or_else(missing)?),
                None => None,
            },
            sort,
            offset,
            limit,
            token: token.map(|token| token.to_vec()),
            total: match counts {
                true => Total::All,
                false => Total::No,
            },
            columns: columns(message.columns_to_get.unwrap_or_default())?,
            timeout_ms: timeout(message.timeout_ms)?,
        };
        Ok(SearchIn { of, search })
    }
}

impl ScanIn {
    pub(in super::super) fn from_body(body: Bytes) -> Result<Self, Failure> {
        at_most("column_names", NAMES_MAX, &body, COLUMN_NAMES)?;
        let message = proto::ParallelScanRequest::decode(body)?;
        let of = NamedIndex::new(message.table_name, message.index_name)?;
        let asked = proto::ScanQuery::decode(message.scan_query.ok_or_else(missing)?)?;
        let parts = asked.max_parallel.unwrap_or(SCAN_PARTS);
        if parts != SCAN_PARTS {
            return Err(InvalidSearch::ScanParts(parts).into());
        }
        let id = asked.current_parallel_id.unwrap_or(0);
        if id != 0 {
            return Err(InvalidSearch::ScanPart { id, parts }.into());
        }
        let alive_s = asked.alive_time.unwrap_or(ALIVE_S_DEFAULT);
        let columns = columns(message.columns_to_get.unwrap_or_default())?;
        if columns == Columns::All {
            return Err(unsupported("ParallelScan with return type ALL"));
        }
        let bytes = |bytes: Option<Bytes>| bytes.filter(|bytes| !bytes.is_empty());
        let scan = Scan {
            query: asked.query.as_ref().map_or(Ok(Query::All), query)?,
            limit: match asked.limit {
                Some(limit) => count("limit", limit, 1, SCAN_LIMIT_MAX)?,
                None => SCAN_LIMIT_MAX,
            },
            alive_ms: count("alive_time", alive_s, 1, ALIVE_S_MAX)? as u64 * 1_000,
            session: bytes(message.session_id).map(|bytes| bytes.to_vec()),
            token: bytes(asked.token).map(|bytes| bytes.to_vec()),
            columns,
            timeout_ms: timeout(message.timeout_ms)?,
        };
        Ok(ScanIn { of, scan })
    }
}

/// Where repeated fields are in a request: the numbers of the messages around them, and theirs.
const COLUMN_NAMES: &[u32] = &[3, 2];
const SORTERS: &[u32] = &[4, 6, 1];
const SORTER_POINTS: &[u32] = &[4, 6, 1, 2, 2];

fn unsupported(what: &'static str) -> Failure {
    InvalidSearch::Unsupported(what).into()
}

/// A number that is within its range.
fn count(name: &'static str, given: i32, low: usize, high: usize) -> Result<usize, Failure> {
    let number = usize::try_from(given).unwrap_or(usize::MAX);
    within(name, number, low, high)?;
    Ok(number)
}

fn timeout(timeout_ms: Option<i32>) -> Result<Option<u64>, Failure> {
    let given = timeout_ms.map(|ms| count("timeout_ms", ms, 0, i32::MAX as usize));
    let given = given.transpose()?.filter(|ms| *ms > 0);
    Ok(given.map(|ms| ms as u64))
}

fn time_to_live(seconds: i32) -> Result<i64, Failure> {
    match seconds == 0 || seconds < -1 {
        true => Err(Error::InvalidTimeToLive.into()),
        false => Ok(seconds.into()),
    }
}

fn columns(message: proto::ColumnsToGet) -> Result<Columns, Failure> {
    let Some(code) = message.return_type else {
        return Ok(Columns::None);
    };
    match proto::ColumnReturnType::try_from(code) {
        Ok(proto::ColumnReturnType::ReturnAll) => Ok(Columns::All),
        Ok(proto::ColumnReturnType::ReturnNone) => Ok(Columns::None),
        Ok(proto::ColumnReturnType::ReturnAllFromIndex) => Ok(Columns::OfIndex),
        Ok(proto::ColumnReturnType::ReturnSpecified) => Ok(Columns::These(message.column_names)),
        Err(_) => Err(Failure::invalid(format!("Invalid return type: {code}."))),
    }
}
