//! The operations, and the decoding of their requests.
//!
//! Owns: which operations there are, by the path of the POST, and the one entrance for their bodies. Promises: a
//! [`Request`] is whole and within every limit that needs no table. Must not: check the caller (`signature`).

use bytes::Bytes;
use prost::Message;

use super::export::ExportTable;
use super::failure::{Code, Failure};
use super::fields::walk;
use super::limits::{BODY_BYTES_MAX, FIELDS_MAX, TABLE_BODY_BYTES_MAX};
use super::proto;
use super::request::batch::{BatchGetRow, BatchWriteRow};
use super::request::index::CreateIndex;
use super::request::read::{GetRange, GetRow};
use super::request::stream::{DescribeStream, GetShardIterator, GetStreamRecord};
use super::request::table::{defined_columns, missing, new_table, table_name, table_update};
use super::request::transaction::{StartTransaction, the_transaction};
use super::request::write::{Kind, Parts, WriteRow};
use tideline_model::{DefinedColumn, NewTable, TableUpdate, TransactionId, check_column_name};

listed! {
    /// What can be asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Operation {
        /// Makes a table.
        CreateTable,
        /// Changes a table's options or throughput.
        UpdateTable,
        /// Describes a table.
        DescribeTable,
        /// Lists the names of all tables.
        ListTable,
        /// Deletes a table and its rows.
        DeleteTable,
        /// Gives columns a type.
        AddDefinedColumn,
        /// Takes columns' types away.
        DeleteDefinedColumn,
        /// Makes a secondary index.
        CreateIndex,
        /// Ends a secondary index.
        DropIndex,
        /// Lists the search indexes: there are none.
        ListSearchIndex,
        /// Reads a row.
        GetRow,
        /// Writes a whole row.
        PutRow,
        /// Changes columns of a row.
        UpdateRow,
        /// Deletes a row.
        DeleteRow,
        /// Reads rows of one or more tables.
        BatchGetRow,
        /// Writes rows of one or more tables.
        BatchWriteRow,
        /// Reads the rows between two keys.
        GetRange,
        /// Lists the streams of tables.
        ListStream,
        /// Describes a stream and its shards.
        DescribeStream,
        /// Gives a place in a shard.
        GetShardIterator,
        /// Reads changes from a place on.
        GetStreamRecord,
        /// Begins a local transaction.
        StartLocalTransaction,
        /// Makes a local transaction's writes take effect.
        CommitTransaction,
        /// Forgets a local transaction's writes.
        AbortTransaction,
        /// Ours: a step of an export.
        ExportTable,
    }
}

impl Operation {
    /// As in the path.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::CreateTable => "CreateTable",
            Operation::UpdateTable => "UpdateTable",
            Operation::DescribeTable => "DescribeTable",
            Operation::ListTable => "ListTable",
            Operation::DeleteTable => "DeleteTable",
            Operation::AddDefinedColumn => "AddDefinedColumn",
            Operation::DeleteDefinedColumn => "DeleteDefinedColumn",
            Operation::CreateIndex => "CreateIndex",
            Operation::DropIndex => "DropIndex",
            Operation::ListSearchIndex => "ListSearchIndex",
            Operation::GetRow => "GetRow",
            Operation::PutRow => "PutRow",
            Operation::UpdateRow => "UpdateRow",
            Operation::DeleteRow => "DeleteRow",
            Operation::BatchGetRow => "BatchGetRow",
            Operation::BatchWriteRow => "BatchWriteRow",
            Operation::GetRange => "GetRange",
            Operation::ListStream => "ListStream",
            Operation::DescribeStream => "DescribeStream",
            Operation::GetShardIterator => "GetShardIterator",
            Operation::GetStreamRecord => "GetStreamRecord",
            Operation::StartLocalTransaction => "StartLocalTransaction",
            Operation::CommitTransaction => "CommitTransaction",
            Operation::AbortTransaction => "AbortTransaction",
            Operation::ExportTable => "ExportTable",
        }
    }

    /// Whether it is about rows, and not about tables, streams or transactions as a whole.
    #[must_use]
    pub fn is_of_rows(self) -> bool {
        !matches!(
            self,
            Operation::CreateTable
                | Operation::UpdateTable
                | Operation::DescribeTable
                | Operation::ListTable
                | Operation::DeleteTable
                | Operation::AddDefinedColumn
                | Operation::DeleteDefinedColumn
                | Operation::CreateIndex
                | Operation::DropIndex
                | Operation::ListSearchIndex
                | Operation::ListStream
                | Operation::DescribeStream
                | Operation::GetShardIterator
                | Operation::GetStreamRecord
                | Operation::StartLocalTransaction
                | Operation::CommitTransaction
                | Operation::AbortTransaction
                | Operation::ExportTable
        )
    }

    /// Whether it reads rows or their changes, so that it may be asked again.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Operation::GetRow
                | Operation::BatchGetRow
                | Operation::GetRange
                | Operation::GetStreamRecord
                | Operation::ExportTable
        )
    }

    /// The most bytes of its body.
    #[must_use]
    pub fn body_bytes_max(self) -> usize {
        match self.is_of_rows() {
            true => BODY_BYTES_MAX,
            false => TABLE_BODY_BYTES_MAX,
        }
    }

    /// The operation of a path, `/` and its name.
    ///
    /// # Errors
    /// A path that names none.
    pub fn of_path(path: &str) -> Result<Operation, Failure> {
        let name = path.strip_prefix('/').unwrap_or(path);
        let found = Operation::ALL.iter().find(|one| one.name() == name);
        let unknown = || Failure::invalid(format!("Unsupported operation: {name}."));
        found.copied().ok_or_else(unknown)
    }
}

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
    /// ListSearchIndex, of which table; `None` = of all.
    ListSearchIndex(Option<String>),
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
            Operation::ListSearchIndex => {
                let message = proto::ListSearchIndexRequest::decode(body)?;
                let named = message.table_name.filter(|name| !name.is_empty());
                let named = named.map(|name| table_name(Some(name))).transpose()?;
                Ok(Request::ListSearchIndex(named))
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

/// Bounds what decoding may take: the body's size, and the number of its fields and of those of a batch's tables.
fn check_body(operation: Operation, body: &[u8]) -> Result<(), Failure> {
    if body.len() > operation.body_bytes_max() {
        return Err(Failure::new(Code::RequestBodyTooLarge));
    }
    let mut fields = 0;
    let mut counted = |_, _: &[u8]| {
        fields += 1;
        if fields <= FIELDS_MAX {
            Ok(())
        } else {
            Err(Failure::new(Code::ParameterInvalid))
        }
    };
    let batch = matches!(operation, Operation::BatchGetRow | Operation::BatchWriteRow);
    walk(body, |number, content| {
        counted(number, content)?;
        if batch && number == BATCH_TABLES {
            walk(content, &mut counted)?;
        }
        Ok(())
    })
}

/// The number of a batch's field for its tables.
const BATCH_TABLES: u32 = 1;

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
