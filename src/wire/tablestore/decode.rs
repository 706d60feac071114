//! The decoding of requests.
//!
//! Owns: the one entrance for bodies. Promises: a [`Request`] is whole and within every limit that needs no table. Must
//! not: check the caller (`signature`).

use bytes::Bytes;
use prost::Message;

use super::export::ExportTable;
use super::failure::{Code, Failure};
use super::fields::walk;
use super::limits::FIELDS_MAX;
use super::operation::Operation;
use super::proto;
use super::request::batch::{BatchGetRow, BatchWriteRow};
use super::request::index::CreateIndex;
use super::request::read::{GetRange, GetRow};
use super::request::stream::{DescribeStream, GetShardIterator, GetStreamRecord};
use super::request::table::{defined_columns, missing, new_table, table_name, table_update};
use super::request::transaction::{StartTransaction, the_transaction};
use super::request::write::{Kind, Parts, WriteRow};
use super::search::{CreateSearchIndex, NamedIndex, ScanIn, SearchIn, UpdateSearchIndex};
use super::series::SeriesRequest;
use super::sql::SqlQuery;
use tideline_model::{DefinedColumn, NewTable, TableUpdate, TransactionId, check_column_name};

/// A checked request.
#[derive(Clone, Debug)]
pub enum Request {
    /// CreateTable.
    CreateTable(NewTable),
    /// UpdateTable: of which, and how.
    UpdateTable(String, TableUpdate),
    /// DescribeTable, and of which.
    DescribeTable(String),
    /// ListTable.
    ListTable,
    /// DeleteTable, and which.
    DeleteTable(String),
    /// AddDefinedColumn: to which table, and at least one.
    AddDefinedColumn(String, Vec<DefinedColumn>),
    /// DeleteDefinedColumn: from which table, and the names, at least one.
    DeleteDefinedColumn(String, Vec<String>),
    /// CreateIndex.
    CreateIndex(CreateIndex),
    /// DropIndex: of which table, and which.
    DropIndex(String, String),
    /// CreateSearchIndex.
    CreateSearchIndex(CreateSearchIndex),
    /// UpdateSearchIndex.
    UpdateSearchIndex(UpdateSearchIndex),
    /// DescribeSearchIndex, and which.
    DescribeSearchIndex(NamedIndex),
    /// ListSearchIndex, of which table; `None` = of all.
    ListSearchIndex(Option<String>),
    /// DeleteSearchIndex, and which.
    DeleteSearchIndex(NamedIndex),
    /// Search.
    Search(Box<SearchIn>),
    /// ComputeSplits, of which index.
    ComputeSplits(NamedIndex),
    /// ParallelScan.
    ParallelScan(Box<ScanIn>),
    /// SQLQuery.
    Sql(SqlQuery),
    /// An operation on time series.
    Series(Box<SeriesRequest>),
    /// GetRow.
    GetRow(GetRow),
    /// PutRow, UpdateRow or DeleteRow.
    WriteRow(WriteRow),
    /// BatchGetRow.
    BatchGetRow(BatchGetRow),
    /// BatchWriteRow.
    BatchWriteRow(BatchWriteRow),
    /// GetRange.
    GetRange(GetRange),
    /// ListStream, perhaps of one table.
    ListStream(Option<String>),
    /// DescribeStream.
    DescribeStream(DescribeStream),
    /// GetShardIterator.
    GetShardIterator(GetShardIterator),
    /// GetStreamRecord.
    GetStreamRecord(GetStreamRecord),
    /// StartLocalTransaction.
    StartTransaction(StartTransaction),
    /// CommitTransaction, and which.
    CommitTransaction(TransactionId),
    /// AbortTransaction, and which.
    AbortTransaction(TransactionId),
    /// ExportTable.
    ExportTable(ExportTable),
}

impl Request {
    /// The request of an operation in a body.
    ///
    /// # Errors
    /// What is not the operation's message, leaves out what it must have, or breaks a limit or rule.
    #[allow(clippy::too_many_lines)] // one line or two for each operation
    pub fn decode(operation: Operation, body: Bytes) -> Result<Request, Failure> {
        check_body(operation, &body)?;
        match operation {
            Operation::CreateTable => {
                new_table(proto::CreateTableRequest::decode(body)?).map(Request::CreateTable)
            }
            Operation::UpdateTable => {
                let (table, update) = table_update(proto::UpdateTableRequest::decode(body)?)?;
                Ok(Request::UpdateTable(table, update))
            }
            Operation::DescribeTable => {
                let message = proto::DescribeTableRequest::decode(body)?;
                table_name(message.table_name).map(Request::DescribeTable)
            }
            Operation::ListTable => {
                proto::ListTableRequest::decode(body)?;
                Ok(Request::ListTable)
            }
            Operation::DeleteTable => {
                let message = proto::DeleteTableRequest::decode(body)?;
                table_name(message.table_name).map(Request::DeleteTable)
            }
            Operation::AddDefinedColumn => added(proto::AddDefinedColumnRequest::decode(body)?),
            Operation::DeleteDefinedColumn => {
                deleted(proto::DeleteDefinedColumnRequest::decode(body)?)
            }
            Operation::CreateIndex => {
                CreateIndex::from_message(proto::CreateIndexRequest::decode(body)?)
                    .map(Request::CreateIndex)
            }
            Operation::DropIndex => {
                let message = proto::DropIndexRequest::decode(body)?;
                let table = table_name(message.main_table_name)?;
                Ok(Request::DropIndex(table, table_name(message.index_name)?))
            }
            Operation::CreateSearchIndex
            | Operation::UpdateSearchIndex
            | Operation::DescribeSearchIndex
            | Operation::DeleteSearchIndex
            | Operation::Search
            | Operation::ComputeSplits
            | Operation::ParallelScan => of_search(operation, body),
            Operation::ListSearchIndex => {
                let message = proto::ListSearchIndexRequest::decode(body)?;
                let named = message.table_name.filter(|name| !name.is_empty());
                let named = named.map(|name| table_name(Some(name))).transpose()?;
                Ok(Request::ListSearchIndex(named))
            }
            Operation::SQLQuery => SqlQuery::from_body(body).map(Request::Sql),
            Operation::CreateTimeseriesTable
            | Operation::ListTimeseriesTable
            | Operation::DescribeTimeseriesTable
            | Operation::UpdateTimeseriesTable
            | Operation::DeleteTimeseriesTable
            | Operation::PutTimeseriesData
            | Operation::GetTimeseriesData
            | Operation::QueryTimeseriesMeta
            | Operation::UpdateTimeseriesMeta
            | Operation::DeleteTimeseriesMeta => {
                let request = SeriesRequest::decode(operation, body)?;
                Ok(Request::Series(Box::new(request)))
            }
            Operation::GetRow => {
                GetRow::from_message(proto::GetRowRequest::decode(body)?).map(Request::GetRow)
            }
            Operation::PutRow | Operation::UpdateRow | Operation::DeleteRow => {
                write_row(operation, body).map(Request::WriteRow)
            }
            Operation::BatchGetRow => {
                BatchGetRow::from_message(proto::BatchGetRowRequest::decode(body)?)
                    .map(Request::BatchGetRow)
            }
            Operation::BatchWriteRow => {
                BatchWriteRow::from_message(proto::BatchWriteRowRequest::decode(body)?)
                    .map(Request::BatchWriteRow)
            }
            Operation::GetRange => {
                GetRange::from_message(proto::GetRangeRequest::decode(body)?).map(Request::GetRange)
            }
            Operation::ListStream
            | Operation::DescribeStream
            | Operation::GetShardIterator
            | Operation::GetStreamRecord => of_stream(operation, body),
            Operation::StartLocalTransaction => {
                let message = proto::StartLocalTransactionRequest::decode(body)?;
                StartTransaction::from_message(message).map(Request::StartTransaction)
            }
            Operation::CommitTransaction => {
                let message = proto::CommitTransactionRequest::decode(body)?;
                the_transaction(message.transaction_id).map(Request::CommitTransaction)
            }
            Operation::AbortTransaction => {
                let message = proto::AbortTransactionRequest::decode(body)?;
                the_transaction(message.transaction_id).map(Request::AbortTransaction)
            }
            Operation::ExportTable => {
                ExportTable::from_message(proto::ExportTableRequest::decode(body)?)
                    .map(Request::ExportTable)
            }
        }
    }
}

/// Bounds what decoding may take: the body's size, and the number of its fields and of those inside of what may come
/// often.
fn check_body(operation: Operation, body: &[u8]) -> Result<(), Failure> {
    if body.len() > operation.body_bytes_max() {
        return Err(Failure::new(Code::RequestBodyTooLarge));
    }
    let path: &[u32] = match operation {
        // The tables.
        Operation::BatchGetRow | Operation::BatchWriteRow => &[1],
        // The names of series, which have tags.
        Operation::GetTimeseriesData | Operation::DeleteTimeseriesMeta => &[2],
        Operation::UpdateTimeseriesMeta => &[2, 1],
        _ => &[],
    };
    let mut left = FIELDS_MAX;
    count_along(body, path, &mut left)
}

/// Counts the fields of a message, and of those in it along a path of numbers.
fn count_along(message: &[u8], path: &[u32], left: &mut usize) -> Result<(), Failure> {
    walk(message, |number, content| {
        let less = left.checked_sub(1);
        *left = less.ok_or_else(|| Failure::new(Code::ParameterInvalid))?;
        match path.split_first() {
            Some((first, rest)) if *first == number => count_along(content, rest, left),
            _ => Ok(()),
        }
    })
}

/// The three messages are one: table, row, condition, what to return, transaction, under the same numbers.
fn write_row(operation: Operation, body: Bytes) -> Result<WriteRow, Failure> {
    let kind = match operation {
        Operation::UpdateRow => Kind::Update,
        Operation::DeleteRow => Kind::Delete,
        _ => Kind::Put,
    };
    let message = proto::PutRowRequest::decode(body)?;
    let parts = Parts {
        kind,
        row: message.row,
        condition: message.condition,
        returned: message.return_content,
        in_transaction: message.transaction_id.is_some(),
    };
    WriteRow::decode(message.table_name, parts, message.transaction_id)
}

fn of_stream(operation: Operation, body: Bytes) -> Result<Request, Failure> {
    match operation {
        Operation::DescribeStream => {
            let message = proto::DescribeStreamRequest::decode(body)?;
            DescribeStream::from_message(message).map(Request::DescribeStream)
        }
        Operation::GetShardIterator => {
            let message = proto::GetShardIteratorRequest::decode(body)?;
            GetShardIterator::from_message(message).map(Request::GetShardIterator)
        }
        Operation::GetStreamRecord => {
            let message = proto::GetStreamRecordRequest::decode(body)?;
            GetStreamRecord::from_message(message).map(Request::GetStreamRecord)
        }
        _ => {
            let name = proto::ListStreamRequest::decode(body)?.table_name;
            let name = name.map(|name| table_name(Some(name))).transpose()?;
            Ok(Request::ListStream(name))
        }
    }
}

fn of_search(operation: Operation, body: Bytes) -> Result<Request, Failure> {
    match operation {
        Operation::CreateSearchIndex => {
            CreateSearchIndex::from_body(body).map(Request::CreateSearchIndex)
        }
        Operation::UpdateSearchIndex => {
            UpdateSearchIndex::from_body(body).map(Request::UpdateSearchIndex)
        }
        Operation::DescribeSearchIndex => {
            NamedIndex::from_body(body).map(Request::DescribeSearchIndex)
        }
        Operation::DeleteSearchIndex => NamedIndex::from_body(body).map(Request::DeleteSearchIndex),
        Operation::ComputeSplits => NamedIndex::of_splits(body).map(Request::ComputeSplits),
        Operation::ParallelScan => {
            let scan = ScanIn::from_body(body)?;
            Ok(Request::ParallelScan(Box::new(scan)))
        }
        _ => {
            let search = SearchIn::from_body(body)?;
            Ok(Request::Search(Box::new(search)))
        }
    }
}

fn added(message: proto::AddDefinedColumnRequest) -> Result<Request, Failure> {
    let table = table_name(message.table_name)?;
    if message.columns.is_empty() {
        return Err(missing());
    }
    let columns = defined_columns(message.columns)?;
    Ok(Request::AddDefinedColumn(table, columns))
}

fn deleted(message: proto::DeleteDefinedColumnRequest) -> Result<Request, Failure> {
    let table = table_name(message.table_name)?;
    if message.columns.is_empty() {
        return Err(missing());
    }
    for name in &message.columns {
        check_column_name(name)?;
    }
    Ok(Request::DeleteDefinedColumn(table, message.columns))
}
