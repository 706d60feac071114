//! The operations.
//!
//! Owns: which operations there are, by the path of the POST, and what kind of call each is. Must not: read a body;
//! `decode.rs` does.

use super::failure::Failure;
use super::limits::{BODY_BYTES_MAX, TABLE_BODY_BYTES_MAX};

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
        /// Lists the search indexes.
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
        /// Makes a search index.
        CreateSearchIndex,
        /// Changes a search index.
        UpdateSearchIndex,
        /// Describes a search index.
        DescribeSearchIndex,
        /// Ends a search index.
        DeleteSearchIndex,
        /// Searches in a search index.
        Search,
        /// Begins a scan of a search index.
        ComputeSplits,
        /// Does a step of a scan.
        ParallelScan,
        /// Does a statement of SQL.
        SQLQuery,
        /// Makes a table of time series.
        CreateTimeseriesTable,
        /// Lists the tables of time series.
        ListTimeseriesTable,
        /// Describes a table of time series.
        DescribeTimeseriesTable,
        /// Changes a table of time series.
        UpdateTimeseriesTable,
        /// Deletes a table of time series.
        DeleteTimeseriesTable,
        /// Writes points.
        PutTimeseriesData,
        /// Reads points of a series.
        GetTimeseriesData,
        /// Looks for series.
        QueryTimeseriesMeta,
        /// Changes what is said of series.
        UpdateTimeseriesMeta,
        /// Forgets series.
        DeleteTimeseriesMeta,
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
            Operation::CreateSearchIndex => "CreateSearchIndex",
            Operation::UpdateSearchIndex => "UpdateSearchIndex",
            Operation::DescribeSearchIndex => "DescribeSearchIndex",
            Operation::ListSearchIndex => "ListSearchIndex",
            Operation::DeleteSearchIndex => "DeleteSearchIndex",
            Operation::Search => "Search",
            Operation::ComputeSplits => "ComputeSplits",
            Operation::ParallelScan => "ParallelScan",
            Operation::SQLQuery => "SQLQuery",
            Operation::CreateTimeseriesTable => "CreateTimeseriesTable",
            Operation::ListTimeseriesTable => "ListTimeseriesTable",
            Operation::DescribeTimeseriesTable => "DescribeTimeseriesTable",
            Operation::UpdateTimeseriesTable => "UpdateTimeseriesTable",
            Operation::DeleteTimeseriesTable => "DeleteTimeseriesTable",
            Operation::PutTimeseriesData => "PutTimeseriesData",
            Operation::GetTimeseriesData => "GetTimeseriesData",
            Operation::QueryTimeseriesMeta => "QueryTimeseriesMeta",
            Operation::UpdateTimeseriesMeta => "UpdateTimeseriesMeta",
            Operation::DeleteTimeseriesMeta => "DeleteTimeseriesMeta",
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
                | Operation::CreateSearchIndex
                | Operation::UpdateSearchIndex
                | Operation::DescribeSearchIndex
                | Operation::ListSearchIndex
                | Operation::DeleteSearchIndex
                | Operation::ComputeSplits
                | Operation::SQLQuery
                | Operation::CreateTimeseriesTable
                | Operation::ListTimeseriesTable
                | Operation::DescribeTimeseriesTable
                | Operation::UpdateTimeseriesTable
                | Operation::DeleteTimeseriesTable
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
                | Operation::Search
                | Operation::ParallelScan
                | Operation::ExportTable
                | Operation::GetTimeseriesData
                | Operation::QueryTimeseriesMeta
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
