//! Time series on the wire: what the ten operations ask and are answered.
//!
//! Owns: their messages. Promises: a request that leaves this module keeps every rule that needs no table; what is not
//! there (analytical stores, indexes of last points, numbered fields) is refused, never left out in silence. Must not:
//! know which tables there are.

mod flat;
mod key;
mod refusal;
mod rows;

use bytes::Bytes;
use prost::Message as _;

use super::failure::{Code, Failure};
use super::operation::Operation;
use super::plainbuffer::{RowBuffer, decode_row};
use super::proto;
use super::request::cells::key_column as key_cell;
use super::request::table::{key_column, key_message, missing, table_name};
use key::{condition, meta_message, refused, series_key, series_meta};
pub(super) use refusal::text;
use tideline_model::series::{
    FIELD_TYPES, InvalidSeries, METAS_MAX, METAS_PAGE, METAS_PAGE_MAX, NewSeries, POINTS_PAGE_MAX,
    Point, PointsAsked, SeriesAsked, SeriesKey, SeriesMeta, SeriesUpdate, check_field_name,
};
use tideline_model::{KeyColumn, KeyUse, KeyValue, PrimaryKey};

/// An operation on time series.
#[derive(Clone, Debug)]
pub enum SeriesRequest {
    /// CreateTimeseriesTable.
    Create(NewSeries),
    /// ListTimeseriesTable.
    List,
    /// DescribeTimeseriesTable, and which.
    Describe(String),
    /// UpdateTimeseriesTable: which, and how.
    Update(String, SeriesUpdate),
    /// DeleteTimeseriesTable, and which.
    Delete(String),
    /// Of a table's series, and whether the client knows tables with columns of their own.
    Rows(String, bool, SeriesRows),
}

/// What is done with the series of a table.
#[derive(Clone, Debug)]
pub enum SeriesRows {
    /// PutTimeseriesData, and whether series are noted.
    Put(Vec<Point>, bool),
    /// GetTimeseriesData.
    Get(PointsAsked),
    /// QueryTimeseriesMeta.
    Query(SeriesAsked),
    /// UpdateTimeseriesMeta.
    UpdateMetas(Vec<SeriesMeta>),
    /// DeleteTimeseriesMeta.
    DeleteMetas(Vec<SeriesKey>),
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum SeriesReply {
    /// ListTimeseriesTable.
    Tables(Vec<NewSeries>),
    /// DescribeTimeseriesTable.
    Table(NewSeries),
    /// The rows that failed, by their places in the request.
    Failed(Vec<(usize, Failure)>),
    /// GetTimeseriesData: the points, and where the next page begins.
    Points(RowBuffer, Option<(Vec<KeyColumn>, Vec<KeyValue>)>),
    /// QueryTimeseriesMeta: the series, how many there are, and where the next page begins.
    Metas(Vec<SeriesMeta>, Option<u64>, Option<Vec<u8>>),
}

/// Tokens of another number are refused.
const TOKEN_FORMAT: u8 = 1;
/// `MetaUpdateMode`.
const IGNORE: i32 = 1;

impl SeriesRequest {
    pub(super) fn decode(operation: Operation, body: Bytes) -> Result<SeriesRequest, Failure> {
        match operation {
            Operation::CreateTimeseriesTable => {
                new_series(proto::CreateTimeseriesTableRequest::decode(body)?)
            }
            Operation::UpdateTimeseriesTable => {
                update(proto::UpdateTimeseriesTableRequest::decode(body)?)
            }
            Operation::DescribeTimeseriesTable => named(body).map(SeriesRequest::Describe),
            Operation::DeleteTimeseriesTable => named(body).map(SeriesRequest::Delete),
            Operation::PutTimeseriesData => put(proto::PutTimeseriesDataRequest::decode(body)?),
            Operation::GetTimeseriesData => get(proto::GetTimeseriesDataRequest::decode(body)?),
            Operation::QueryTimeseriesMeta => {
                query(proto::QueryTimeseriesMetaRequest::decode(body)?)
            }
            Operation::UpdateTimeseriesMeta => {
                let message = proto::UpdateTimeseriesMetaRequest::decode(body)?;
                let metas = message.timeseries_meta.into_iter().map(series_meta);
                let rows = SeriesRows::UpdateMetas(counted(metas)?);
                rows_of(message.table_name, message.supported_table_version, rows)
            }
            Operation::DeleteTimeseriesMeta => {
                let message = proto::DeleteTimeseriesMetaRequest::decode(body)?;
                let keys = message.timeseries_key.into_iter();
                let keys = keys.map(|key| series_key(Some(key)));
                let rows = SeriesRows::DeleteMetas(counted(keys)?);
                rows_of(message.table_name, message.supported_table_version, rows)
            }
            _ => {
                proto::ListTimeseriesTableRequest::decode(body)?;
                Ok(SeriesRequest::List)
            }
        }
    }
}

fn named(body: Bytes) -> Result<String, Failure> {
    table_name(proto::TimeseriesTableRequest::decode(body)?.table_name)
}

fn rows_of(
    table: Option<String>,
    version: Option<i64>,
    rows: SeriesRows,
) -> Result<SeriesRequest, Failure> {
    let knows_columns = version.unwrap_or(0) >= 1;
    Ok(SeriesRequest::Rows(table_name(table)?, knows_columns, rows))
}

fn counted<T>(rows: impl ExactSizeIterator<Item = Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    match rows.len() {
        0 => Err(Failure::invalid("No row is specified in the request.")),
        count if count > METAS_MAX => {
            let text = format!("Rows count exceeds the upper limit: {METAS_MAX}.");
            Err(Failure::invalid(text))
        }
        _ => rows.collect(),
    }
}

fn new_series(message: proto::CreateTimeseriesTableRequest) -> Result<SeriesRequest, Failure> {
    let unsupported = |what: &str| {
        let text = format!("Operation not supported: {what} of time series.");
        Err(Failure::with(Code::UnsupportedOperation, text))
    };
    let meta = message.table_meta.ok_or_else(missing)?;
    if !message.analytical_stores.is_empty() {
        return unsupported("analytical stores");
    }
    if !message.lastpoint_index_metas.is_empty() {
        return unsupported("lastpoint indexes");
    }
    if meta.disable_timeseries_meta_index == Some(true) {
        return unsupported("tables without an index of metadata");
    }
    let fields = meta.field_primary_key_schema.into_iter().map(key_column);
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    if fields.iter().any(|field| field.auto_increment) {
        return unsupported("numbered primary key fields");
    }
    let points = meta.table_options.unwrap_or_default();
    let metas = meta.meta_options.unwrap_or_default();
    let metas_life_s = metas.meta_time_to_live.map_or(-1, i64::from);
    let new = NewSeries {
        name: table_name(meta.table_name)?,
        keys: meta.timeseries_key_schema,
        fields,
        points_life_s: points.time_to_live.unwrap_or(-1).into(),
        metas_life_s,
        // They can't be changed where they end.
        allows_attributes: metas.allow_update_attributes.unwrap_or(metas_life_s == -1),
    };
    new.check()?;
    Ok(SeriesRequest::Create(new))
}

fn update(message: proto::UpdateTimeseriesTableRequest) -> Result<SeriesRequest, Failure> {
    let table = table_name(message.table_name)?;
    let update = match (message.table_options, message.meta_options) {
        (Some(points), None) => SeriesUpdate {
            points_life_s: points.time_to_live.map(i64::from),
            ..SeriesUpdate::default()
        },
        (None, Some(metas)) => SeriesUpdate {
            metas_life_s: metas.meta_time_to_live.map(i64::from),
            allows_attributes: metas.allow_update_attributes,
            ..SeriesUpdate::default()
        },
        _ => return Err(refused(InvalidSeries::Options)),
    };
    match update == SeriesUpdate::default() {
        true => Err(refused(InvalidSeries::Options)),
        false => Ok(SeriesRequest::Update(table, update)),
    }
}

fn put(message: proto::PutTimeseriesDataRequest) -> Result<SeriesRequest, Failure> {
    let points = rows::points(message.rows_data.ok_or_else(missing)?)?;
    let notes = message.meta_update_mode != Some(IGNORE);
    let rows = SeriesRows::Put(points, notes);
    rows_of(message.table_name, message.supported_table_version, rows)
}

fn get(message: proto::GetTimeseriesDataRequest) -> Result<SeriesRequest, Failure> {
    let (begin_us, end_us) = match message.specific_time {
        Some(at) => (at, at.saturating_add(1)),
        None => (
            message.begin_time.unwrap_or(0),
            message.end_time.unwrap_or(i64::MAX),
        ),
    };
    if begin_us < 0 || begin_us >= end_us {
        return Err(refused(InvalidSeries::Range));
    }
    let mut columns = Vec::new();
    for field in message.fields_to_get {
        let name = field.name.ok_or_else(missing)?;
        check_field_name(&name).map_err(refused)?;
        let kinds = match field.r#type {
            None => &FIELD_TYPES[..],
            Some(kind) => {
                let at = usize::try_from(kind).unwrap_or(0).wrapping_sub(1);
                let kind = FIELD_TYPES.get(at..at.saturating_add(1));
                kind.ok_or_else(|| refused(InvalidSeries::FieldType(name.clone())))?
            }
        };
        columns.extend(kinds.iter().map(|kind| format!("{name}:{kind}")));
    }
    let asked = PointsAsked {
        key: series_key(message.time_series_key)?,
        begin_us,
        end_us,
        is_backward: message.backward.unwrap_or(false),
        limit: limit(message.limit, POINTS_PAGE_MAX, POINTS_PAGE_MAX)?,
        columns,
        next: message.token.map(|token| next_of(&token)).transpose()?,
    };
    let rows = SeriesRows::Get(asked);
    rows_of(message.table_name, message.supported_table_version, rows)
}

fn query(message: proto::QueryTimeseriesMetaRequest) -> Result<SeriesRequest, Failure> {
    let asked = SeriesAsked {
        condition: message.condition.map(condition).transpose()?,
        counts: message.get_total_hit.unwrap_or(false),
        limit: limit(message.limit, METAS_PAGE, METAS_PAGE_MAX)?,
        token: message.token.map(Vec::from),
    };
    let rows = SeriesRows::Query(asked);
    rows_of(message.table_name, message.supported_table_version, rows)
}

/// Java says -1 for none.
fn limit(asked: Option<i32>, usual: usize, most: usize) -> Result<usize, Failure> {
    let asked = asked.filter(|asked| *asked != -1);
    let Some(asked) = asked else { return Ok(usual) };
    let asked = usize::try_from(asked).ok();
    let asked = asked.filter(|asked| (1..=most).contains(asked));
    asked.ok_or_else(|| refused(InvalidSeries::Limit(most)))
}

/// The key in a token: a point's, which is checked against what else is asked.
fn next_of(token: &Bytes) -> Result<PrimaryKey, Failure> {
    let wrong = || refused(InvalidSeries::Token);
    if token.first() != Some(&TOKEN_FORMAT) {
        return Err(wrong());
    }
    let row = decode_row(&token.slice(1..)).map_err(|_| wrong())?;
    let cells = row.primary_key.into_iter();
    let key = cells.map(|cell| key_cell(cell, KeyUse::Read));
    key.collect::<Result<_, _>>().map_err(|_| wrong())
}

impl SeriesReply {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            SeriesReply::Tables(tables) => proto::ListTimeseriesTableResponse {
                table_metas: tables.into_iter().map(table_message).collect(),
            }
            .encode_to_vec(),
            SeriesReply::Table(table) => proto::DescribeTimeseriesTableResponse {
                table_meta: table_message(table),
            }
            .encode_to_vec(),
            SeriesReply::Failed(rows) => {
                let failed = rows.into_iter().map(|(at, failure)| proto::FailedRowInfo {
                    row_index: i32::try_from(at).unwrap_or(i32::MAX),
                    error_code: Some(failure.code.name().to_owned()),
                    error_message: Some(failure.message.into_owned()),
                });
                let failed_rows = failed.collect();
                proto::FailedRowsResponse { failed_rows }.encode_to_vec()
            }
            SeriesReply::Points(rows, next) => proto::GetTimeseriesDataResponse {
                rows_data: rows.into_bytes(),
                next_token: next.map(|(columns, key)| {
                    let mut row = RowBuffer::default();
                    row.push_key(&columns, &key);
                    [&[TOKEN_FORMAT], &*row.into_bytes()].concat().into()
                }),
            }
            .encode_to_vec(),
            SeriesReply::Metas(metas, total, next) => proto::QueryTimeseriesMetaResponse {
                timeseries_metas: metas.into_iter().map(meta_message).collect(),
                total_hit: total.map(|total| i64::try_from(total).unwrap_or(i64::MAX)),
                next_token: next.map(Bytes::from),
            }
            .encode_to_vec(),
        }
    }
}

fn table_message(table: NewSeries) -> proto::TimeseriesTableMeta {
    let seconds = |life_s: i64| Some(i32::try_from(life_s).unwrap_or(i32::MAX));
    proto::TimeseriesTableMeta {
        table_name: Some(table.name),
        table_options: Some(proto::TimeseriesTableOptions {
            time_to_live: seconds(table.points_life_s),
        }),
        // A table is there at once, or not at all.
        status: Some("CREATED".to_owned()),
        meta_options: Some(proto::TimeseriesMetaOptions {
            allow_update_attributes: Some(table.allows_attributes),
            meta_time_to_live: seconds(table.metas_life_s),
        }),
        timeseries_key_schema: table.keys,
        field_primary_key_schema: table.fields.iter().map(key_message).collect(),
        disable_hash_partition_key: None,
        disable_timeseries_meta_index: None,
    }
}
