//! The messages of `schemas/tablestore/`, as prost makes them. Not written by hand: change the .proto files, then run
//! `TIDELINE_BLESS=1 cargo test --test contract`.
//!
//! Owns: field numbers and types of the wire. Must not: check anything; `plainbuffer`, `filter` and `operation` do.

/// The body of every answer that is not 200.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Error {
    #[prost(string, required, tag = "1")]
    pub code: ::prost::alloc::string::String,
    #[prost(string, optional, tag = "2")]
    pub message: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PrimaryKeySchema {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "PrimaryKeyType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(enumeration = "PrimaryKeyOption", optional, tag = "3")]
    pub option: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DefinedColumnSchema {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "DefinedColumnType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TableMeta {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    /// The first is the partition key.
    #[prost(message, repeated, tag = "2")]
    pub primary_key: ::prost::alloc::vec::Vec<PrimaryKeySchema>,
    #[prost(message, repeated, tag = "3")]
    pub defined_column: ::prost::alloc::vec::Vec<DefinedColumnSchema>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableOptions {
    /// Seconds; -1 = for ever.
    #[prost(int32, optional, tag = "1")]
    pub time_to_live: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub max_versions: ::core::option::Option<i32>,
    /// How far a version that a client gives may be from the time of the write, in seconds.
    #[prost(int64, optional, tag = "5")]
    pub deviation_cell_version_in_sec: ::core::option::Option<i64>,
    #[prost(bool, optional, tag = "6")]
    pub allow_update: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub update_full_row: ::core::option::Option<bool>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CapacityUnit {
    #[prost(int32, optional, tag = "1")]
    pub read: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub write: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReservedThroughput {
    #[prost(message, optional, tag = "1")]
    pub capacity_unit: ::core::option::Option<CapacityUnit>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConsumedCapacity {
    #[prost(message, required, tag = "1")]
    pub capacity_unit: CapacityUnit,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReservedThroughputDetails {
    #[prost(message, required, tag = "1")]
    pub capacity_unit: CapacityUnit,
    /// Seconds since 1970.
    #[prost(int64, required, tag = "2")]
    pub last_increase_time: i64,
    #[prost(int64, optional, tag = "3")]
    pub last_decrease_time: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamSpecification {
    #[prost(bool, optional, tag = "1")]
    pub enable_stream: ::core::option::Option<bool>,
    /// Hours.
    #[prost(int32, optional, tag = "2")]
    pub expiration_time: ::core::option::Option<i32>,
    #[prost(string, repeated, tag = "3")]
    pub columns_to_get: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamDetails {
    #[prost(bool, required, tag = "1")]
    pub enable_stream: bool,
    #[prost(string, optional, tag = "2")]
    pub stream_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "3")]
    pub expiration_time: ::core::option::Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub last_enable_time: ::core::option::Option<i64>,
    #[prost(string, repeated, tag = "5")]
    pub columns_to_get: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IndexMeta {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub primary_key: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "3")]
    pub defined_column: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(enumeration = "IndexUpdateMode", optional, tag = "4")]
    pub index_update_mode: ::core::option::Option<i32>,
    #[prost(enumeration = "IndexType", optional, tag = "5")]
    pub index_type: ::core::option::Option<i32>,
    #[prost(enumeration = "IndexSyncPhase", optional, tag = "6")]
    pub index_sync_phase: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SseSpecification {
    #[prost(bool, optional, tag = "1")]
    pub enable: ::core::option::Option<bool>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateTableRequest {
    #[prost(message, optional, tag = "1")]
    pub table_meta: ::core::option::Option<TableMeta>,
    #[prost(message, optional, tag = "2")]
    pub reserved_throughput: ::core::option::Option<ReservedThroughput>,
    #[prost(message, optional, tag = "3")]
    pub table_options: ::core::option::Option<TableOptions>,
    #[prost(message, optional, tag = "5")]
    pub stream_spec: ::core::option::Option<StreamSpecification>,
    #[prost(message, optional, tag = "6")]
    pub sse_spec: ::core::option::Option<SseSpecification>,
    #[prost(message, repeated, tag = "7")]
    pub index_metas: ::prost::alloc::vec::Vec<IndexMeta>,
    #[prost(bool, optional, tag = "8")]
    pub enable_local_txn: ::core::option::Option<bool>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CreateTableResponse {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub reserved_throughput: ::core::option::Option<ReservedThroughput>,
    #[prost(message, optional, tag = "3")]
    pub table_options: ::core::option::Option<TableOptions>,
    #[prost(message, optional, tag = "4")]
    pub stream_spec: ::core::option::Option<StreamSpecification>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateTableResponse {
    #[prost(message, required, tag = "1")]
    pub reserved_throughput_details: ReservedThroughputDetails,
    #[prost(message, required, tag = "2")]
    pub table_options: TableOptions,
    #[prost(message, optional, tag = "3")]
    pub stream_details: ::core::option::Option<StreamDetails>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DescribeTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DescribeTableResponse {
    #[prost(message, required, tag = "1")]
    pub table_meta: TableMeta,
    #[prost(message, required, tag = "2")]
    pub reserved_throughput_details: ReservedThroughputDetails,
    #[prost(message, required, tag = "3")]
    pub table_options: TableOptions,
    /// Required by the SDKs for Node and Go, unknown to that for Python.
    #[prost(enumeration = "TableStatus", required, tag = "4")]
    pub table_status: i32,
    #[prost(message, optional, tag = "5")]
    pub stream_details: ::core::option::Option<StreamDetails>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub shard_splits: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(message, repeated, tag = "8")]
    pub index_metas: ::prost::alloc::vec::Vec<IndexMeta>,
    /// Microseconds since 1970.
    #[prost(int64, optional, tag = "9")]
    pub creation_time: ::core::option::Option<i64>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListTableRequest {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListTableResponse {
    #[prost(string, repeated, tag = "1")]
    pub table_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteTableResponse {
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AddDefinedColumnRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub columns: ::prost::alloc::vec::Vec<DefinedColumnSchema>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AddDefinedColumnResponse {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteDefinedColumnRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub columns: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteDefinedColumnResponse {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CreateIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub main_table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub index_meta: ::core::option::Option<IndexMeta>,
    #[prost(bool, optional, tag = "3")]
    pub include_base_data: ::core::option::Option<bool>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CreateIndexResponse {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DropIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub main_table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DropIndexResponse {
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PrimaryKeyType {
    Integer = 1,
    String = 2,
    Binary = 3,
}
impl PrimaryKeyType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::String => "STRING",
            Self::Binary => "BINARY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "INTEGER" => Some(Self::Integer),
            "STRING" => Some(Self::String),
            "BINARY" => Some(Self::Binary),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum PrimaryKeyOption {
    AutoIncrement = 1,
}
impl PrimaryKeyOption {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::AutoIncrement => "AUTO_INCREMENT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "AUTO_INCREMENT" => Some(Self::AutoIncrement),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DefinedColumnType {
    DctInteger = 1,
    DctDouble = 2,
    DctBoolean = 3,
    DctString = 4,
    DctBlob = 7,
}
impl DefinedColumnType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::DctInteger => "DCT_INTEGER",
            Self::DctDouble => "DCT_DOUBLE",
            Self::DctBoolean => "DCT_BOOLEAN",
            Self::DctString => "DCT_STRING",
            Self::DctBlob => "DCT_BLOB",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "DCT_INTEGER" => Some(Self::DctInteger),
            "DCT_DOUBLE" => Some(Self::DctDouble),
            "DCT_BOOLEAN" => Some(Self::DctBoolean),
            "DCT_STRING" => Some(Self::DctString),
            "DCT_BLOB" => Some(Self::DctBlob),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexUpdateMode {
    IumAsyncIndex = 0,
    IumSyncIndex = 1,
}
impl IndexUpdateMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::IumAsyncIndex => "IUM_ASYNC_INDEX",
            Self::IumSyncIndex => "IUM_SYNC_INDEX",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "IUM_ASYNC_INDEX" => Some(Self::IumAsyncIndex),
            "IUM_SYNC_INDEX" => Some(Self::IumSyncIndex),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexType {
    ItGlobalIndex = 0,
    ItLocalIndex = 1,
}
impl IndexType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ItGlobalIndex => "IT_GLOBAL_INDEX",
            Self::ItLocalIndex => "IT_LOCAL_INDEX",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "IT_GLOBAL_INDEX" => Some(Self::ItGlobalIndex),
            "IT_LOCAL_INDEX" => Some(Self::ItLocalIndex),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexSyncPhase {
    /// Rows of the table are still being brought in.
    Full = 1,
    Incr = 2,
}
impl IndexSyncPhase {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Incr => "INCR",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FULL" => Some(Self::Full),
            "INCR" => Some(Self::Incr),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum TableStatus {
    Active = 1,
}
impl TableStatus {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ACTIVE" => Some(Self::Active),
            _ => None,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Condition {
    #[prost(enumeration = "RowExistenceExpectation", optional, tag = "1")]
    pub row_existence: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub column_condition: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReturnContent {
    #[prost(enumeration = "ReturnType", optional, tag = "1")]
    pub return_type: ::core::option::Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub return_column_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Milliseconds; the start is within, the end is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeRange {
    #[prost(int64, optional, tag = "1")]
    pub start_time: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub end_time: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub specific_time: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, repeated, tag = "3")]
    pub columns_to_get: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "4")]
    pub time_range: ::core::option::Option<TimeRange>,
    #[prost(int32, optional, tag = "5")]
    pub max_versions: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub filter: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, optional, tag = "8")]
    pub start_column: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "9")]
    pub end_column: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "11")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetRowResponse {
    #[prost(message, required, tag = "1")]
    pub consumed: ConsumedCapacity,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub row: ::prost::bytes::Bytes,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PutRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(message, optional, tag = "3")]
    pub condition: ::core::option::Option<Condition>,
    #[prost(message, optional, tag = "4")]
    pub return_content: ::core::option::Option<ReturnContent>,
    #[prost(string, optional, tag = "5")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PutRowResponse {
    #[prost(message, required, tag = "1")]
    pub consumed: ConsumedCapacity,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row_change: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(message, optional, tag = "3")]
    pub condition: ::core::option::Option<Condition>,
    #[prost(message, optional, tag = "4")]
    pub return_content: ::core::option::Option<ReturnContent>,
    #[prost(string, optional, tag = "5")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateRowResponse {
    #[prost(message, required, tag = "1")]
    pub consumed: ConsumedCapacity,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(message, optional, tag = "3")]
    pub condition: ::core::option::Option<Condition>,
    #[prost(message, optional, tag = "4")]
    pub return_content: ::core::option::Option<ReturnContent>,
    #[prost(string, optional, tag = "5")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteRowResponse {
    #[prost(message, required, tag = "1")]
    pub consumed: ConsumedCapacity,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableInBatchGetRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub primary_key: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(string, repeated, tag = "4")]
    pub columns_to_get: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "5")]
    pub time_range: ::core::option::Option<TimeRange>,
    #[prost(int32, optional, tag = "6")]
    pub max_versions: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub filter: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, optional, tag = "9")]
    pub start_column: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "10")]
    pub end_column: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BatchGetRowRequest {
    #[prost(message, repeated, tag = "1")]
    pub tables: ::prost::alloc::vec::Vec<TableInBatchGetRowRequest>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RowInBatchResponse {
    #[prost(bool, required, tag = "1")]
    pub is_ok: bool,
    #[prost(message, optional, tag = "2")]
    pub error: ::core::option::Option<Error>,
    #[prost(message, optional, tag = "3")]
    pub consumed: ::core::option::Option<ConsumedCapacity>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub row: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TableInBatchResponse {
    #[prost(string, required, tag = "1")]
    pub table_name: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "2")]
    pub rows: ::prost::alloc::vec::Vec<RowInBatchResponse>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BatchGetRowResponse {
    #[prost(message, repeated, tag = "1")]
    pub tables: ::prost::alloc::vec::Vec<TableInBatchResponse>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RowInBatchWriteRowRequest {
    #[prost(enumeration = "OperationType", optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row_change: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(message, optional, tag = "3")]
    pub condition: ::core::option::Option<Condition>,
    #[prost(message, optional, tag = "4")]
    pub return_content: ::core::option::Option<ReturnContent>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TableInBatchWriteRowRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub rows: ::prost::alloc::vec::Vec<RowInBatchWriteRowRequest>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BatchWriteRowRequest {
    #[prost(message, repeated, tag = "1")]
    pub tables: ::prost::alloc::vec::Vec<TableInBatchWriteRowRequest>,
    #[prost(string, optional, tag = "2")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bool, optional, tag = "3")]
    pub is_atomic: ::core::option::Option<bool>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BatchWriteRowResponse {
    #[prost(message, repeated, tag = "1")]
    pub tables: ::prost::alloc::vec::Vec<TableInBatchResponse>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetRangeRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "Direction", optional, tag = "2")]
    pub direction: ::core::option::Option<i32>,
    #[prost(string, repeated, tag = "3")]
    pub columns_to_get: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "4")]
    pub time_range: ::core::option::Option<TimeRange>,
    #[prost(int32, optional, tag = "5")]
    pub max_versions: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub limit: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub inclusive_start_primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub exclusive_end_primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub filter: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, optional, tag = "11")]
    pub start_column: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "12")]
    pub end_column: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "14")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetRangeResponse {
    #[prost(message, required, tag = "1")]
    pub consumed: ConsumedCapacity,
    /// One PlainBuffer with all rows; empty if there are none.
    #[prost(bytes = "bytes", required, tag = "2")]
    pub rows: ::prost::bytes::Bytes,
    /// Absent when the range is exhausted.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub next_start_primary_key: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StartLocalTransactionRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    /// A row with the partition key's column alone.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub key: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StartLocalTransactionResponse {
    #[prost(string, required, tag = "1")]
    pub transaction_id: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CommitTransactionRequest {
    #[prost(string, optional, tag = "1")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CommitTransactionResponse {
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AbortTransactionRequest {
    #[prost(string, optional, tag = "1")]
    pub transaction_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AbortTransactionResponse {
    /// The SDK for Node reads the answer as if it were the request; others pass over it.
    #[prost(string, required, tag = "1")]
    pub transaction_id: ::prost::alloc::string::String,
}
/// Ours: one step of `tideline export`. With a position: the changes above it, else rows from a key on.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExportTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    /// Without it: the first of those that the answer names.
    #[prost(uint32, optional, tag = "2")]
    pub partition: ::core::option::Option<u32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub start_primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(uint64, optional, tag = "4")]
    pub position: ::core::option::Option<u64>,
    /// Only rows whose first key column, a text, begins with this.
    #[prost(string, optional, tag = "5")]
    pub prefix: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExportTableResponse {
    /// Another one is another table of the same name.
    #[prost(uint32, required, tag = "1")]
    pub table_id: u32,
    /// Those that there are. Others in another answer: what was read of them is of no use.
    #[prost(uint32, repeated, packed = "false", tag = "2")]
    pub partitions: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint64, required, tag = "3")]
    pub position: u64,
    #[prost(bytes = "bytes", required, tag = "4")]
    pub rows: ::prost::bytes::Bytes,
    /// Keys of changed rows that are there no more.
    #[prost(bytes = "bytes", required, tag = "5")]
    pub gone: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub next_start_primary_key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bool, required, tag = "7")]
    pub is_last: bool,
    /// Keys: what was read of rows with the same first column and a lower key is there no more, but for these rows.
    #[prost(bytes = "bytes", required, tag = "8")]
    pub gone_below: ::prost::bytes::Bytes,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RowExistenceExpectation {
    Ignore = 0,
    ExpectExist = 1,
    ExpectNotExist = 2,
}
impl RowExistenceExpectation {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Ignore => "IGNORE",
            Self::ExpectExist => "EXPECT_EXIST",
            Self::ExpectNotExist => "EXPECT_NOT_EXIST",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "IGNORE" => Some(Self::Ignore),
            "EXPECT_EXIST" => Some(Self::ExpectExist),
            "EXPECT_NOT_EXIST" => Some(Self::ExpectNotExist),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ReturnType {
    RtNone = 0,
    RtPk = 1,
    RtAfterModify = 2,
}
impl ReturnType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::RtNone => "RT_NONE",
            Self::RtPk => "RT_PK",
            Self::RtAfterModify => "RT_AFTER_MODIFY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "RT_NONE" => Some(Self::RtNone),
            "RT_PK" => Some(Self::RtPk),
            "RT_AFTER_MODIFY" => Some(Self::RtAfterModify),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum OperationType {
    Put = 1,
    Update = 2,
    Delete = 3,
}
impl OperationType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PUT" => Some(Self::Put),
            "UPDATE" => Some(Self::Update),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Direction {
    Forward = 0,
    Backward = 1,
}
impl Direction {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Backward => "BACKWARD",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FORWARD" => Some(Self::Forward),
            "BACKWARD" => Some(Self::Backward),
            _ => None,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Filter {
    #[prost(enumeration = "FilterType", optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    /// The message that the type names, serialized.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub filter: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ValueTransferRule {
    #[prost(string, optional, tag = "1")]
    pub regex: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "VariantType", optional, tag = "2")]
    pub cast_type: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SingleColumnValueFilter {
    #[prost(enumeration = "ComparatorType", optional, tag = "1")]
    pub comparator: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub column_name: ::core::option::Option<::prost::alloc::string::String>,
    /// A PlainBuffer variant: type and payload, nothing before it.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub column_value: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bool, optional, tag = "4")]
    pub filter_if_missing: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub latest_version_only: ::core::option::Option<bool>,
    #[prost(message, optional, tag = "6")]
    pub value_trans_rule: ::core::option::Option<ValueTransferRule>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CompositeColumnValueFilter {
    #[prost(enumeration = "LogicalOperator", optional, tag = "1")]
    pub combinator: ::core::option::Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub sub_filters: ::prost::alloc::vec::Vec<Filter>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ColumnPaginationFilter {
    #[prost(int32, optional, tag = "1")]
    pub offset: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub limit: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FilterType {
    FtSingleColumnValue = 1,
    FtCompositeColumnValue = 2,
    FtColumnPagination = 3,
}
impl FilterType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::FtSingleColumnValue => "FT_SINGLE_COLUMN_VALUE",
            Self::FtCompositeColumnValue => "FT_COMPOSITE_COLUMN_VALUE",
            Self::FtColumnPagination => "FT_COLUMN_PAGINATION",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FT_SINGLE_COLUMN_VALUE" => Some(Self::FtSingleColumnValue),
            "FT_COMPOSITE_COLUMN_VALUE" => Some(Self::FtCompositeColumnValue),
            "FT_COLUMN_PAGINATION" => Some(Self::FtColumnPagination),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ComparatorType {
    CtEqual = 1,
    CtNotEqual = 2,
    CtGreaterThan = 3,
    CtGreaterEqual = 4,
    CtLessThan = 5,
    CtLessEqual = 6,
    CtExist = 7,
    CtNotExist = 8,
}
impl ComparatorType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::CtEqual => "CT_EQUAL",
            Self::CtNotEqual => "CT_NOT_EQUAL",
            Self::CtGreaterThan => "CT_GREATER_THAN",
            Self::CtGreaterEqual => "CT_GREATER_EQUAL",
            Self::CtLessThan => "CT_LESS_THAN",
            Self::CtLessEqual => "CT_LESS_EQUAL",
            Self::CtExist => "CT_EXIST",
            Self::CtNotExist => "CT_NOT_EXIST",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "CT_EQUAL" => Some(Self::CtEqual),
            "CT_NOT_EQUAL" => Some(Self::CtNotEqual),
            "CT_GREATER_THAN" => Some(Self::CtGreaterThan),
            "CT_GREATER_EQUAL" => Some(Self::CtGreaterEqual),
            "CT_LESS_THAN" => Some(Self::CtLessThan),
            "CT_LESS_EQUAL" => Some(Self::CtLessEqual),
            "CT_EXIST" => Some(Self::CtExist),
            "CT_NOT_EXIST" => Some(Self::CtNotExist),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum VariantType {
    VtInteger = 0,
    VtDouble = 1,
    VtString = 3,
    VtNull = 6,
    VtBlob = 7,
}
impl VariantType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::VtInteger => "VT_INTEGER",
            Self::VtDouble => "VT_DOUBLE",
            Self::VtString => "VT_STRING",
            Self::VtNull => "VT_NULL",
            Self::VtBlob => "VT_BLOB",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "VT_INTEGER" => Some(Self::VtInteger),
            "VT_DOUBLE" => Some(Self::VtDouble),
            "VT_STRING" => Some(Self::VtString),
            "VT_NULL" => Some(Self::VtNull),
            "VT_BLOB" => Some(Self::VtBlob),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum LogicalOperator {
    LoNot = 1,
    LoAnd = 2,
    LoOr = 3,
}
impl LogicalOperator {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::LoNot => "LO_NOT",
            Self::LoAnd => "LO_AND",
            Self::LoOr => "LO_OR",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "LO_NOT" => Some(Self::LoNot),
            "LO_AND" => Some(Self::LoAnd),
            "LO_OR" => Some(Self::LoOr),
            _ => None,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListStreamRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Stream {
    #[prost(string, required, tag = "1")]
    pub stream_id: ::prost::alloc::string::String,
    #[prost(string, required, tag = "2")]
    pub table_name: ::prost::alloc::string::String,
    /// Microseconds since 1970.
    #[prost(int64, required, tag = "3")]
    pub creation_time: i64,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListStreamResponse {
    #[prost(message, repeated, tag = "1")]
    pub streams: ::prost::alloc::vec::Vec<Stream>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DescribeStreamRequest {
    #[prost(string, optional, tag = "1")]
    pub stream_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub inclusive_start_shard_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "3")]
    pub shard_limit: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamShard {
    #[prost(string, required, tag = "1")]
    pub shard_id: ::prost::alloc::string::String,
    #[prost(string, optional, tag = "2")]
    pub parent_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub parent_sibling_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DescribeStreamResponse {
    #[prost(string, required, tag = "1")]
    pub stream_id: ::prost::alloc::string::String,
    /// Hours.
    #[prost(int32, required, tag = "2")]
    pub expiration_time: i32,
    #[prost(string, required, tag = "3")]
    pub table_name: ::prost::alloc::string::String,
    /// Microseconds since 1970.
    #[prost(int64, required, tag = "4")]
    pub creation_time: i64,
    #[prost(enumeration = "StreamStatus", required, tag = "5")]
    pub stream_status: i32,
    #[prost(message, repeated, tag = "6")]
    pub shards: ::prost::alloc::vec::Vec<StreamShard>,
    #[prost(string, optional, tag = "7")]
    pub next_shard_id: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetShardIteratorRequest {
    #[prost(string, optional, tag = "1")]
    pub stream_id: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub shard_id: ::core::option::Option<::prost::alloc::string::String>,
    /// Microseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    pub timestamp: ::core::option::Option<i64>,
    #[prost(string, optional, tag = "4")]
    pub token: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetShardIteratorResponse {
    #[prost(string, required, tag = "1")]
    pub shard_iterator: ::prost::alloc::string::String,
    #[prost(string, optional, tag = "2")]
    pub next_token: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetStreamRecordRequest {
    #[prost(string, optional, tag = "1")]
    pub shard_iterator: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "2")]
    pub limit: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamRecord {
    #[prost(enumeration = "ActionType", required, tag = "1")]
    pub action_type: i32,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub record: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub origin_record: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetStreamRecordResponse {
    #[prost(message, repeated, tag = "1")]
    pub stream_records: ::prost::alloc::vec::Vec<StreamRecord>,
    #[prost(string, optional, tag = "2")]
    pub next_shard_iterator: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub consumed: ::core::option::Option<ConsumedCapacity>,
    #[prost(bool, optional, tag = "4")]
    pub may_more_record: ::core::option::Option<bool>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum StreamStatus {
    StreamEnabling = 1,
    StreamActive = 2,
}
impl StreamStatus {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::StreamEnabling => "STREAM_ENABLING",
            Self::StreamActive => "STREAM_ACTIVE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "STREAM_ENABLING" => Some(Self::StreamEnabling),
            "STREAM_ACTIVE" => Some(Self::StreamActive),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ActionType {
    PutRow = 1,
    UpdateRow = 2,
    DeleteRow = 3,
}
impl ActionType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::PutRow => "PUT_ROW",
            Self::UpdateRow => "UPDATE_ROW",
            Self::DeleteRow => "DELETE_ROW",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PUT_ROW" => Some(Self::PutRow),
            "UPDATE_ROW" => Some(Self::UpdateRow),
            "DELETE_ROW" => Some(Self::DeleteRow),
            _ => None,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Query {
    #[prost(enumeration = "QueryType", optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    /// The message that the type names, serialized.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub query: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MatchQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub text: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "3")]
    pub minimum_should_match: ::core::option::Option<i32>,
    #[prost(enumeration = "QueryOperator", optional, tag = "4")]
    pub operator: ::core::option::Option<i32>,
    #[prost(float, optional, tag = "5")]
    pub weight: ::core::option::Option<f32>,
    /// "2", "-1", "75%", "2<75%".
    #[prost(string, optional, tag = "6")]
    pub new_minimum_should_match: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MatchPhraseQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub text: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(float, optional, tag = "3")]
    pub weight: ::core::option::Option<f32>,
    #[prost(int32, optional, tag = "4")]
    pub slop: ::core::option::Option<i32>,
}
/// Terms and bounds are PlainBuffer variants: type and payload, nothing before them.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TermQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub term: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(float, optional, tag = "3")]
    pub weight: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TermsQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub terms: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(float, optional, tag = "3")]
    pub weight: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RangeQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub range_from: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub range_to: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bool, optional, tag = "4")]
    pub include_lower: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub include_upper: ::core::option::Option<bool>,
}
/// Of a prefix, a suffix and a pattern.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PatternQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub pattern: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(float, optional, tag = "3")]
    pub weight: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BoolQuery {
    #[prost(message, repeated, tag = "1")]
    pub must_queries: ::prost::alloc::vec::Vec<Query>,
    #[prost(message, repeated, tag = "2")]
    pub must_not_queries: ::prost::alloc::vec::Vec<Query>,
    #[prost(message, repeated, tag = "3")]
    pub filter_queries: ::prost::alloc::vec::Vec<Query>,
    #[prost(message, repeated, tag = "4")]
    pub should_queries: ::prost::alloc::vec::Vec<Query>,
    #[prost(int32, optional, tag = "5")]
    pub minimum_should_match: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub new_minimum_should_match: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(float, optional, tag = "7")]
    pub weight: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ConstScoreQuery {
    #[prost(message, optional, tag = "1")]
    pub filter: ::core::option::Option<Query>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GeoBoundingBoxQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub top_left: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub bottom_right: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GeoDistanceQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub center_point: ::core::option::Option<::prost::alloc::string::String>,
    /// In metres.
    #[prost(double, optional, tag = "3")]
    pub distance: ::core::option::Option<f64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GeoPolygonQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub points: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KnnVectorQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "2")]
    pub top_k: ::core::option::Option<i32>,
    #[prost(float, repeated, packed = "false", tag = "4")]
    pub float32_query_vector: ::prost::alloc::vec::Vec<f32>,
    #[prost(message, optional, tag = "5")]
    pub filter: ::core::option::Option<Query>,
    #[prost(float, optional, tag = "6")]
    pub weight: ::core::option::Option<f32>,
    #[prost(float, optional, tag = "7")]
    pub min_score: ::core::option::Option<f32>,
    /// How many rows an index that is not exact looks at: ours is.
    #[prost(int32, optional, tag = "8")]
    pub num_candidates: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NestedQuery {
    #[prost(string, optional, tag = "1")]
    pub path: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub query: ::core::option::Option<Query>,
    #[prost(enumeration = "ObjectScoreMode", optional, tag = "3")]
    pub score_mode: ::core::option::Option<i32>,
    #[prost(float, optional, tag = "4")]
    pub weight: ::core::option::Option<f32>,
    /// Not decoded yet.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub inner_hits: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DisMaxQuery {
    #[prost(message, repeated, tag = "1")]
    pub queries: ::prost::alloc::vec::Vec<Query>,
    #[prost(float, optional, tag = "2")]
    pub tie_breaker: ::core::option::Option<f32>,
    #[prost(float, optional, tag = "3")]
    pub weight: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FieldValueFactor {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FunctionScoreQuery {
    #[prost(message, optional, tag = "1")]
    pub query: ::core::option::Option<Query>,
    #[prost(message, optional, tag = "2")]
    pub field_value_factor: ::core::option::Option<FieldValueFactor>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FieldValueFactorFunction {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(float, optional, tag = "2")]
    pub factor: ::core::option::Option<f32>,
    #[prost(enumeration = "FunctionModifier", optional, tag = "3")]
    pub modifier: ::core::option::Option<i32>,
    #[prost(double, optional, tag = "4")]
    pub missing: ::core::option::Option<f64>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DateTimeValue {
    #[prost(int32, optional, tag = "1")]
    pub value: ::core::option::Option<i32>,
    #[prost(enumeration = "DateTimeUnit", optional, tag = "2")]
    pub unit: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DecayDateParam {
    #[prost(int64, optional, tag = "1")]
    pub origin_long: ::core::option::Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub origin_string: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub scale: ::core::option::Option<DateTimeValue>,
    #[prost(message, optional, tag = "4")]
    pub offset: ::core::option::Option<DateTimeValue>,
}
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct DecayNumericParam {
    #[prost(double, optional, tag = "1")]
    pub origin: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub scale: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "3")]
    pub offset: ::core::option::Option<f64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DecayGeoParam {
    #[prost(string, optional, tag = "1")]
    pub origin: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(double, optional, tag = "2")]
    pub scale: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "3")]
    pub offset: ::core::option::Option<f64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DecayFunction {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "DecayMathFunction", optional, tag = "2")]
    pub math_function: ::core::option::Option<i32>,
    #[prost(enumeration = "DecayParamType", optional, tag = "3")]
    pub param_type: ::core::option::Option<i32>,
    /// The message that the type names, serialized.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub param: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(double, optional, tag = "5")]
    pub decay: ::core::option::Option<f64>,
    #[prost(enumeration = "MultiValueMode", optional, tag = "6")]
    pub multi_value_mode: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RandomScoreFunction {
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ScoreFunction {
    #[prost(message, optional, tag = "1")]
    pub field_value_factor: ::core::option::Option<FieldValueFactorFunction>,
    #[prost(message, optional, tag = "2")]
    pub random: ::core::option::Option<RandomScoreFunction>,
    #[prost(message, optional, tag = "3")]
    pub decay: ::core::option::Option<DecayFunction>,
    #[prost(float, optional, tag = "4")]
    pub weight: ::core::option::Option<f32>,
    #[prost(message, optional, tag = "5")]
    pub filter: ::core::option::Option<Query>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FunctionsScoreQuery {
    #[prost(message, optional, tag = "1")]
    pub query: ::core::option::Option<Query>,
    #[prost(message, repeated, tag = "2")]
    pub functions: ::prost::alloc::vec::Vec<ScoreFunction>,
    #[prost(enumeration = "FunctionScoreMode", optional, tag = "3")]
    pub score_mode: ::core::option::Option<i32>,
    #[prost(enumeration = "FunctionCombineMode", optional, tag = "4")]
    pub combine_mode: ::core::option::Option<i32>,
    #[prost(float, optional, tag = "5")]
    pub min_score: ::core::option::Option<f32>,
    #[prost(float, optional, tag = "6")]
    pub max_score: ::core::option::Option<f32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExistsQuery {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ScoreSort {
    #[prost(enumeration = "SortOrder", optional, tag = "1")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PrimaryKeySort {
    #[prost(enumeration = "SortOrder", optional, tag = "1")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DocSort {
    #[prost(enumeration = "SortOrder", optional, tag = "1")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FieldSort {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "SortOrder", optional, tag = "2")]
    pub order: ::core::option::Option<i32>,
    #[prost(enumeration = "SortMode", optional, tag = "3")]
    pub mode: ::core::option::Option<i32>,
    /// Of objects; not decoded yet.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub nested_filter: ::core::option::Option<::prost::bytes::Bytes>,
    /// A PlainBuffer variant, or the text "_first" or "_last".
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub missing_value: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, optional, tag = "6")]
    pub missing_field: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GeoDistanceSort {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub points: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(enumeration = "SortOrder", optional, tag = "3")]
    pub order: ::core::option::Option<i32>,
    #[prost(enumeration = "SortMode", optional, tag = "4")]
    pub mode: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub distance_type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub nested_filter: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Sorter {
    #[prost(message, optional, tag = "1")]
    pub field_sort: ::core::option::Option<FieldSort>,
    #[prost(message, optional, tag = "2")]
    pub geo_distance_sort: ::core::option::Option<GeoDistanceSort>,
    #[prost(message, optional, tag = "3")]
    pub score_sort: ::core::option::Option<ScoreSort>,
    #[prost(message, optional, tag = "4")]
    pub pk_sort: ::core::option::Option<PrimaryKeySort>,
    #[prost(message, optional, tag = "5")]
    pub doc_sort: ::core::option::Option<DocSort>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Sort {
    #[prost(message, repeated, tag = "1")]
    pub sorter: ::prost::alloc::vec::Vec<Sorter>,
    #[prost(bool, optional, tag = "2")]
    pub disable_default_pk_sorter: ::core::option::Option<bool>,
}
/// Of rows that match, those that are returned.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SearchFilter {
    #[prost(message, optional, tag = "1")]
    pub query: ::core::option::Option<Query>,
}
/// Of rows that have a field alike, the first.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Collapse {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HighlightParameter {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "2")]
    pub number_of_fragments: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub fragment_size: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub pre_tag: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "5")]
    pub post_tag: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "HighlightFragmentOrder", optional, tag = "6")]
    pub fragments_order: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Highlight {
    #[prost(message, repeated, tag = "1")]
    pub highlight_parameters: ::prost::alloc::vec::Vec<HighlightParameter>,
    #[prost(enumeration = "HighlightEncoder", optional, tag = "2")]
    pub highlight_encoder: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InnerHits {
    #[prost(message, optional, tag = "1")]
    pub sort: ::core::option::Option<Sort>,
    #[prost(int32, optional, tag = "2")]
    pub offset: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub limit: ::core::option::Option<i32>,
    /// A Highlight, serialized.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub highlight: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SearchQuery {
    #[prost(int32, optional, tag = "1")]
    pub offset: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub limit: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub query: ::core::option::Option<Query>,
    #[prost(message, optional, tag = "5")]
    pub collapse: ::core::option::Option<Collapse>,
    #[prost(message, optional, tag = "6")]
    pub sort: ::core::option::Option<Sort>,
    #[prost(bool, optional, tag = "8")]
    pub get_total_count: ::core::option::Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub token: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "11")]
    pub group_bys: ::core::option::Option<::prost::bytes::Bytes>,
    /// A Highlight, serialized.
    #[prost(bytes = "bytes", optional, tag = "12")]
    pub highlight: ::core::option::Option<::prost::bytes::Bytes>,
    /// -1 = no; else up to how many.
    #[prost(int32, optional, tag = "13")]
    pub track_total_count: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "14")]
    pub filter: ::core::option::Option<SearchFilter>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ColumnsToGet {
    #[prost(enumeration = "ColumnReturnType", optional, tag = "1")]
    pub return_type: ::core::option::Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub column_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SearchRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub columns_to_get: ::core::option::Option<ColumnsToGet>,
    /// A SearchQuery, serialized.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub search_query: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub routing_values: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "6")]
    pub timeout_ms: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SearchHit {
    #[prost(double, optional, tag = "3")]
    pub score: ::core::option::Option<f64>,
    #[prost(message, optional, tag = "4")]
    pub highlight_result: ::core::option::Option<HighlightResult>,
    #[prost(message, repeated, tag = "5")]
    pub search_inner_hits: ::prost::alloc::vec::Vec<SearchInnerHit>,
    /// Of an object: its place in the list.
    #[prost(int32, optional, tag = "6")]
    pub nested_doc_offset: ::core::option::Option<i32>,
}
/// Objects of a nested field that match.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SearchInnerHit {
    #[prost(string, optional, tag = "1")]
    pub path: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub search_hits: ::prost::alloc::vec::Vec<SearchHit>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HighlightResult {
    #[prost(message, repeated, tag = "1")]
    pub highlight_fields: ::prost::alloc::vec::Vec<HighlightField>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HighlightField {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub field_fragments: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SearchResponse {
    #[prost(int64, optional, tag = "1")]
    pub total_hits: ::core::option::Option<i64>,
    /// Each its own PlainBuffer.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub rows: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(bool, optional, tag = "3")]
    pub is_all_succeed: ::core::option::Option<bool>,
    /// As many as rows.
    #[prost(message, repeated, tag = "5")]
    pub search_hits: ::prost::alloc::vec::Vec<SearchHit>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub next_token: ::core::option::Option<::prost::bytes::Bytes>,
    /// An AggregationsResult.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub aggs: ::core::option::Option<::prost::bytes::Bytes>,
    /// A GroupBysResult.
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Aggregation {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "AggregationType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub body: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Aggregations {
    #[prost(message, repeated, tag = "1")]
    pub aggs: ::prost::alloc::vec::Vec<Aggregation>,
}
/// The body of all kinds but percentiles and top rows.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetricAggregation {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub missing: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PercentilesAggregation {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(double, repeated, packed = "false", tag = "2")]
    pub percentiles: ::prost::alloc::vec::Vec<f64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub missing_value: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TopRowsAggregation {
    #[prost(int32, optional, tag = "1")]
    pub limit: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub sort: ::core::option::Option<Sort>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TopRowsAggregationResult {
    /// Each its own PlainBuffer.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub rows: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
}
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct DoubleResult {
    #[prost(double, optional, tag = "1")]
    pub value: ::core::option::Option<f64>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CountResult {
    #[prost(int64, optional, tag = "1")]
    pub value: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PercentilesItem {
    #[prost(double, optional, tag = "1")]
    pub key: ::core::option::Option<f64>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub value: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PercentilesResult {
    #[prost(message, repeated, tag = "1")]
    pub percentiles_aggregation_items: ::prost::alloc::vec::Vec<PercentilesItem>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationResult {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "AggregationType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    /// As the kind has it.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub agg_result: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AggregationsResult {
    #[prost(message, repeated, tag = "1")]
    pub agg_results: ::prost::alloc::vec::Vec<AggregationResult>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupBy {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "GroupByType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub body: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupBys {
    #[prost(message, repeated, tag = "1")]
    pub group_bys: ::prost::alloc::vec::Vec<GroupBy>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupKeySort {
    #[prost(enumeration = "SortOrder", optional, tag = "1")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RowCountSort {
    #[prost(enumeration = "SortOrder", optional, tag = "1")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SubAggSort {
    #[prost(string, optional, tag = "1")]
    pub sub_agg_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "SortOrder", optional, tag = "2")]
    pub order: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupBySorter {
    #[prost(message, optional, tag = "1")]
    pub group_key_sort: ::core::option::Option<GroupKeySort>,
    #[prost(message, optional, tag = "2")]
    pub row_count_sort: ::core::option::Option<RowCountSort>,
    #[prost(message, optional, tag = "3")]
    pub sub_agg_sort: ::core::option::Option<SubAggSort>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupBySort {
    #[prost(message, repeated, tag = "1")]
    pub sorters: ::prost::alloc::vec::Vec<GroupBySorter>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByField {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "2")]
    pub size: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub sort: ::core::option::Option<GroupBySort>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct GroupRange {
    #[prost(double, optional, tag = "1")]
    pub begin: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub end: ::core::option::Option<f64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByRange {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub ranges: ::prost::alloc::vec::Vec<GroupRange>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByFilter {
    #[prost(message, repeated, tag = "1")]
    pub filters: ::prost::alloc::vec::Vec<Query>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct GeoPoint {
    #[prost(double, optional, tag = "1")]
    pub lat: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub lon: ::core::option::Option<f64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByGeoDistance {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub origin: ::core::option::Option<GeoPoint>,
    #[prost(message, repeated, tag = "3")]
    pub ranges: ::prost::alloc::vec::Vec<GroupRange>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupByGeoGrid {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    /// How many characters a cell's name has: 1 to 12.
    #[prost(int32, optional, tag = "2")]
    pub precision: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub size: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FieldRange {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub min: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub max: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByDateHistogram {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub interval: ::core::option::Option<DateTimeValue>,
    #[prost(message, optional, tag = "3")]
    pub field_range: ::core::option::Option<FieldRange>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub missing: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int64, optional, tag = "5")]
    pub min_doc_count: ::core::option::Option<i64>,
    /// As "+08:00".
    #[prost(string, optional, tag = "6")]
    pub time_zone: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "7")]
    pub sort: ::core::option::Option<GroupBySort>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(message, optional, tag = "10")]
    pub offset: ::core::option::Option<DateTimeValue>,
}
/// By several groupings at once, page by page.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByComposite {
    #[prost(message, optional, tag = "1")]
    pub sources: ::core::option::Option<GroupBys>,
    #[prost(int32, optional, tag = "2")]
    pub size: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(string, optional, tag = "6")]
    pub next_token: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "7")]
    pub suggested_size: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByHistogram {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub interval: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub missing_value: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int64, optional, tag = "4")]
    pub min_doc_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub sort: ::core::option::Option<GroupBySort>,
    #[prost(message, optional, tag = "6")]
    pub field_range: ::core::option::Option<FieldRange>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub sub_aggs: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub sub_group_bys: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub offset: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByFieldResultItem {
    #[prost(string, optional, tag = "1")]
    pub key: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(int64, optional, tag = "2")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "4")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByFieldResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_field_result_items: ::prost::alloc::vec::Vec<GroupByFieldResultItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByRangeResultItem {
    #[prost(double, optional, tag = "1")]
    pub range_from: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub range_to: ::core::option::Option<f64>,
    #[prost(int64, optional, tag = "3")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "4")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "5")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByRangeResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_range_result_items: ::prost::alloc::vec::Vec<GroupByRangeResultItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByFilterResultItem {
    #[prost(int64, optional, tag = "1")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "2")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "3")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByFilterResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_filter_result_items: ::prost::alloc::vec::Vec<GroupByFilterResultItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByHistogramItem {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub key: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int64, optional, tag = "2")]
    pub value: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "4")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByHistogramResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_histogra_items: ::prost::alloc::vec::Vec<GroupByHistogramItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByGeoDistanceResultItem {
    #[prost(double, optional, tag = "1")]
    pub range_from: ::core::option::Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub range_to: ::core::option::Option<f64>,
    #[prost(int64, optional, tag = "3")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "4")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "5")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByGeoDistanceResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_geo_distance_result_items: ::prost::alloc::vec::Vec<GroupByGeoDistanceResultItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByDateHistogramItem {
    #[prost(int64, optional, tag = "1")]
    pub timestamp: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "4")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByDateHistogramResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_date_histogram_items: ::prost::alloc::vec::Vec<GroupByDateHistogramItem>,
}
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct GeoGrid {
    #[prost(message, optional, tag = "1")]
    pub top_left: ::core::option::Option<GeoPoint>,
    #[prost(message, optional, tag = "2")]
    pub bottom_right: ::core::option::Option<GeoPoint>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByGeoGridResultItem {
    #[prost(string, optional, tag = "1")]
    pub key: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub geo_grid: ::core::option::Option<GeoGrid>,
    #[prost(int64, optional, tag = "3")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "4")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "5")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByGeoGridResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_geo_grid_result_items: ::prost::alloc::vec::Vec<GroupByGeoGridResultItem>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByCompositeResultItem {
    #[prost(string, repeated, tag = "1")]
    pub keys: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(int64, optional, tag = "2")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub sub_aggs_result: ::core::option::Option<AggregationsResult>,
    #[prost(message, optional, tag = "4")]
    pub sub_group_bys_result: ::core::option::Option<GroupBysResult>,
    /// Of keys: there is no value.
    #[prost(bool, repeated, packed = "false", tag = "5")]
    pub is_null_keys: ::prost::alloc::vec::Vec<bool>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupByCompositeResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_composite_result_items: ::prost::alloc::vec::Vec<GroupByCompositeResultItem>,
    #[prost(string, repeated, tag = "2")]
    pub source_group_by_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub next_token: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupByResult {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "GroupByType", optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub group_by_result: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupBysResult {
    #[prost(message, repeated, tag = "1")]
    pub group_by_results: ::prost::alloc::vec::Vec<GroupByResult>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SingleWordAnalyzerParameter {
    #[prost(bool, optional, tag = "1")]
    pub case_sensitive: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "2")]
    pub delimit_word: ::core::option::Option<bool>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SplitAnalyzerParameter {
    #[prost(string, optional, tag = "1")]
    pub delimiter: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FuzzyAnalyzerParameter {
    #[prost(int32, optional, tag = "1")]
    pub min_chars: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub max_chars: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct VectorOptions {
    /// 2 = float.
    #[prost(int32, optional, tag = "1")]
    pub data_type: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub dimension: ::core::option::Option<i32>,
    #[prost(enumeration = "VectorMetricType", optional, tag = "3")]
    pub metric_type: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FieldSchema {
    #[prost(string, optional, tag = "1")]
    pub field_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(enumeration = "FieldType", optional, tag = "2")]
    pub field_type: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub analyzer: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bool, optional, tag = "5")]
    pub index: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub enable_sort_and_agg: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub store: ::core::option::Option<bool>,
    #[prost(message, repeated, tag = "8")]
    pub field_schemas: ::prost::alloc::vec::Vec<FieldSchema>,
    #[prost(bool, optional, tag = "9")]
    pub is_array: ::core::option::Option<bool>,
    /// The message that belongs to the analyzer, serialized.
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub analyzer_parameter: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(bool, optional, tag = "11")]
    pub is_virtual_field: ::core::option::Option<bool>,
    #[prost(string, repeated, tag = "12")]
    pub source_field_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "13")]
    pub date_formats: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(bool, optional, tag = "14")]
    pub enable_highlighting: ::core::option::Option<bool>,
    #[prost(message, optional, tag = "15")]
    pub vector_options: ::core::option::Option<VectorOptions>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IndexSetting {
    #[prost(int32, optional, tag = "1")]
    pub number_of_shards: ::core::option::Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub routing_fields: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(int32, optional, tag = "3")]
    pub routing_partition_size: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct IndexSchema {
    #[prost(message, repeated, tag = "1")]
    pub field_schemas: ::prost::alloc::vec::Vec<FieldSchema>,
    #[prost(message, optional, tag = "2")]
    pub index_setting: ::core::option::Option<IndexSetting>,
    #[prost(message, optional, tag = "3")]
    pub index_sort: ::core::option::Option<Sort>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateSearchIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub schema: ::core::option::Option<IndexSchema>,
    /// An index of which this one takes the name over; refused.
    #[prost(string, optional, tag = "4")]
    pub source_index_name: ::core::option::Option<::prost::alloc::string::String>,
    /// In seconds.
    #[prost(int32, optional, tag = "5")]
    pub time_to_live: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateSearchIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
    /// These and the last one are refused.
    #[prost(string, optional, tag = "3")]
    pub switch_index_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub query_flow_weight: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "5")]
    pub time_to_live: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub added_field_schemas: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SearchIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListSearchIndexRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListSearchIndexResponse {
    #[prost(message, repeated, tag = "1")]
    pub indices: ::prost::alloc::vec::Vec<SearchIndexRequest>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SyncStat {
    #[prost(enumeration = "SearchPhase", optional, tag = "1")]
    pub sync_phase: ::core::option::Option<i32>,
    /// In ns since 1970.
    #[prost(int64, optional, tag = "2")]
    pub current_sync_timestamp: ::core::option::Option<i64>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MeteringInfo {
    #[prost(int64, optional, tag = "1")]
    pub storage_size: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub row_count: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub reserved_read_cu: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub timestamp: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct IndexStatus {
    #[prost(enumeration = "IndexStatusEnum", optional, tag = "1")]
    pub status: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub status_description: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DescribeSearchIndexResponse {
    #[prost(message, optional, tag = "1")]
    pub schema: ::core::option::Option<IndexSchema>,
    #[prost(message, optional, tag = "2")]
    pub sync_stat: ::core::option::Option<SyncStat>,
    #[prost(message, optional, tag = "3")]
    pub metering_info: ::core::option::Option<MeteringInfo>,
    #[prost(int64, optional, tag = "6")]
    pub create_time: ::core::option::Option<i64>,
    #[prost(int32, optional, tag = "7")]
    pub time_to_live: ::core::option::Option<i32>,
    #[prost(message, optional, tag = "8")]
    pub index_status: ::core::option::Option<IndexStatus>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SearchIndexSplitsOptions {
    #[prost(string, optional, tag = "1")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ComputeSplitsRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub search_index_splits_options: ::core::option::Option<SearchIndexSplitsOptions>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ComputeSplitsResponse {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub session_id: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub splits_size: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ScanQuery {
    #[prost(message, optional, tag = "1")]
    pub query: ::core::option::Option<Query>,
    #[prost(int32, optional, tag = "2")]
    pub limit: ::core::option::Option<i32>,
    /// In seconds.
    #[prost(int32, optional, tag = "3")]
    pub alive_time: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub token: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "5")]
    pub current_parallel_id: ::core::option::Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub max_parallel: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ParallelScanRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub columns_to_get: ::core::option::Option<ColumnsToGet>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub session_id: ::core::option::Option<::prost::bytes::Bytes>,
    /// A ScanQuery, serialized.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub scan_query: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "6")]
    pub timeout_ms: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ParallelScanResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub rows: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub next_token: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum QueryType {
    MatchQuery = 1,
    MatchPhraseQuery = 2,
    TermQuery = 3,
    RangeQuery = 4,
    PrefixQuery = 5,
    BoolQuery = 6,
    ConstScoreQuery = 7,
    FunctionScoreQuery = 8,
    NestedQuery = 9,
    WildcardQuery = 10,
    MatchAllQuery = 11,
    GeoBoundingBoxQuery = 12,
    GeoDistanceQuery = 13,
    GeoPolygonQuery = 14,
    TermsQuery = 15,
    ExistsQuery = 16,
    KnnVectorQuery = 17,
    FunctionsScoreQuery = 18,
    SuffixQuery = 19,
    DisMaxQuery = 20,
}
impl QueryType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::MatchQuery => "MATCH_QUERY",
            Self::MatchPhraseQuery => "MATCH_PHRASE_QUERY",
            Self::TermQuery => "TERM_QUERY",
            Self::RangeQuery => "RANGE_QUERY",
            Self::PrefixQuery => "PREFIX_QUERY",
            Self::BoolQuery => "BOOL_QUERY",
            Self::ConstScoreQuery => "CONST_SCORE_QUERY",
            Self::FunctionScoreQuery => "FUNCTION_SCORE_QUERY",
            Self::NestedQuery => "NESTED_QUERY",
            Self::WildcardQuery => "WILDCARD_QUERY",
            Self::MatchAllQuery => "MATCH_ALL_QUERY",
            Self::GeoBoundingBoxQuery => "GEO_BOUNDING_BOX_QUERY",
            Self::GeoDistanceQuery => "GEO_DISTANCE_QUERY",
            Self::GeoPolygonQuery => "GEO_POLYGON_QUERY",
            Self::TermsQuery => "TERMS_QUERY",
            Self::ExistsQuery => "EXISTS_QUERY",
            Self::KnnVectorQuery => "KNN_VECTOR_QUERY",
            Self::FunctionsScoreQuery => "FUNCTIONS_SCORE_QUERY",
            Self::SuffixQuery => "SUFFIX_QUERY",
            Self::DisMaxQuery => "DIS_MAX_QUERY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "MATCH_QUERY" => Some(Self::MatchQuery),
            "MATCH_PHRASE_QUERY" => Some(Self::MatchPhraseQuery),
            "TERM_QUERY" => Some(Self::TermQuery),
            "RANGE_QUERY" => Some(Self::RangeQuery),
            "PREFIX_QUERY" => Some(Self::PrefixQuery),
            "BOOL_QUERY" => Some(Self::BoolQuery),
            "CONST_SCORE_QUERY" => Some(Self::ConstScoreQuery),
            "FUNCTION_SCORE_QUERY" => Some(Self::FunctionScoreQuery),
            "NESTED_QUERY" => Some(Self::NestedQuery),
            "WILDCARD_QUERY" => Some(Self::WildcardQuery),
            "MATCH_ALL_QUERY" => Some(Self::MatchAllQuery),
            "GEO_BOUNDING_BOX_QUERY" => Some(Self::GeoBoundingBoxQuery),
            "GEO_DISTANCE_QUERY" => Some(Self::GeoDistanceQuery),
            "GEO_POLYGON_QUERY" => Some(Self::GeoPolygonQuery),
            "TERMS_QUERY" => Some(Self::TermsQuery),
            "EXISTS_QUERY" => Some(Self::ExistsQuery),
            "KNN_VECTOR_QUERY" => Some(Self::KnnVectorQuery),
            "FUNCTIONS_SCORE_QUERY" => Some(Self::FunctionsScoreQuery),
            "SUFFIX_QUERY" => Some(Self::SuffixQuery),
            "DIS_MAX_QUERY" => Some(Self::DisMaxQuery),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum QueryOperator {
    Or = 1,
    And = 2,
}
impl QueryOperator {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Or => "OR",
            Self::And => "AND",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "OR" => Some(Self::Or),
            "AND" => Some(Self::And),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ObjectScoreMode {
    ScoreModeNone = 1,
    ScoreModeAvg = 2,
    ScoreModeMax = 3,
    ScoreModeTotal = 4,
    ScoreModeMin = 5,
}
impl ObjectScoreMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ScoreModeNone => "SCORE_MODE_NONE",
            Self::ScoreModeAvg => "SCORE_MODE_AVG",
            Self::ScoreModeMax => "SCORE_MODE_MAX",
            Self::ScoreModeTotal => "SCORE_MODE_TOTAL",
            Self::ScoreModeMin => "SCORE_MODE_MIN",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SCORE_MODE_NONE" => Some(Self::ScoreModeNone),
            "SCORE_MODE_AVG" => Some(Self::ScoreModeAvg),
            "SCORE_MODE_MAX" => Some(Self::ScoreModeMax),
            "SCORE_MODE_TOTAL" => Some(Self::ScoreModeTotal),
            "SCORE_MODE_MIN" => Some(Self::ScoreModeMin),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FunctionModifier {
    FmNone = 1,
    FmLog = 2,
    FmLog1p = 3,
    FmLog2p = 4,
    FmLn = 5,
    FmLn1p = 6,
    FmLn2p = 7,
    FmSquare = 8,
    FmSqrt = 9,
    FmReciprocal = 10,
}
impl FunctionModifier {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::FmNone => "FM_NONE",
            Self::FmLog => "FM_LOG",
            Self::FmLog1p => "FM_LOG1P",
            Self::FmLog2p => "FM_LOG2P",
            Self::FmLn => "FM_LN",
            Self::FmLn1p => "FM_LN1P",
            Self::FmLn2p => "FM_LN2P",
            Self::FmSquare => "FM_SQUARE",
            Self::FmSqrt => "FM_SQRT",
            Self::FmReciprocal => "FM_RECIPROCAL",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FM_NONE" => Some(Self::FmNone),
            "FM_LOG" => Some(Self::FmLog),
            "FM_LOG1P" => Some(Self::FmLog1p),
            "FM_LOG2P" => Some(Self::FmLog2p),
            "FM_LN" => Some(Self::FmLn),
            "FM_LN1P" => Some(Self::FmLn1p),
            "FM_LN2P" => Some(Self::FmLn2p),
            "FM_SQUARE" => Some(Self::FmSquare),
            "FM_SQRT" => Some(Self::FmSqrt),
            "FM_RECIPROCAL" => Some(Self::FmReciprocal),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DateTimeUnit {
    Year = 1,
    QuarterYear = 2,
    Month = 3,
    Week = 4,
    Day = 5,
    Hour = 6,
    Minute = 7,
    Second = 8,
    Millisecond = 9,
}
impl DateTimeUnit {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Year => "YEAR",
            Self::QuarterYear => "QUARTER_YEAR",
            Self::Month => "MONTH",
            Self::Week => "WEEK",
            Self::Day => "DAY",
            Self::Hour => "HOUR",
            Self::Minute => "MINUTE",
            Self::Second => "SECOND",
            Self::Millisecond => "MILLISECOND",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "YEAR" => Some(Self::Year),
            "QUARTER_YEAR" => Some(Self::QuarterYear),
            "MONTH" => Some(Self::Month),
            "WEEK" => Some(Self::Week),
            "DAY" => Some(Self::Day),
            "HOUR" => Some(Self::Hour),
            "MINUTE" => Some(Self::Minute),
            "SECOND" => Some(Self::Second),
            "MILLISECOND" => Some(Self::Millisecond),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DecayParamType {
    DfDateParam = 1,
    DfNumericParam = 2,
    DfGeoParam = 3,
}
impl DecayParamType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::DfDateParam => "DF_DATE_PARAM",
            Self::DfNumericParam => "DF_NUMERIC_PARAM",
            Self::DfGeoParam => "DF_GEO_PARAM",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "DF_DATE_PARAM" => Some(Self::DfDateParam),
            "DF_NUMERIC_PARAM" => Some(Self::DfNumericParam),
            "DF_GEO_PARAM" => Some(Self::DfGeoParam),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DecayMathFunction {
    Gauss = 1,
    Exp = 2,
    Linear = 3,
}
impl DecayMathFunction {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Gauss => "GAUSS",
            Self::Exp => "EXP",
            Self::Linear => "LINEAR",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "GAUSS" => Some(Self::Gauss),
            "EXP" => Some(Self::Exp),
            "LINEAR" => Some(Self::Linear),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum MultiValueMode {
    MvmMax = 1,
    MvmMin = 2,
    MvmSum = 3,
    MvmAvg = 4,
}
impl MultiValueMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::MvmMax => "MVM_MAX",
            Self::MvmMin => "MVM_MIN",
            Self::MvmSum => "MVM_SUM",
            Self::MvmAvg => "MVM_AVG",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "MVM_MAX" => Some(Self::MvmMax),
            "MVM_MIN" => Some(Self::MvmMin),
            "MVM_SUM" => Some(Self::MvmSum),
            "MVM_AVG" => Some(Self::MvmAvg),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FunctionScoreMode {
    FsmAvg = 1,
    FsmMax = 2,
    FsmSum = 3,
    FsmMin = 4,
    FsmMultiply = 5,
    FsmFirst = 6,
}
impl FunctionScoreMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::FsmAvg => "FSM_AVG",
            Self::FsmMax => "FSM_MAX",
            Self::FsmSum => "FSM_SUM",
            Self::FsmMin => "FSM_MIN",
            Self::FsmMultiply => "FSM_MULTIPLY",
            Self::FsmFirst => "FSM_FIRST",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FSM_AVG" => Some(Self::FsmAvg),
            "FSM_MAX" => Some(Self::FsmMax),
            "FSM_SUM" => Some(Self::FsmSum),
            "FSM_MIN" => Some(Self::FsmMin),
            "FSM_MULTIPLY" => Some(Self::FsmMultiply),
            "FSM_FIRST" => Some(Self::FsmFirst),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FunctionCombineMode {
    FcmMultiply = 1,
    FcmAvg = 2,
    FcmMax = 3,
    FcmSum = 4,
    FcmMin = 5,
    FcmReplace = 6,
}
impl FunctionCombineMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::FcmMultiply => "FCM_MULTIPLY",
            Self::FcmAvg => "FCM_AVG",
            Self::FcmMax => "FCM_MAX",
            Self::FcmSum => "FCM_SUM",
            Self::FcmMin => "FCM_MIN",
            Self::FcmReplace => "FCM_REPLACE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FCM_MULTIPLY" => Some(Self::FcmMultiply),
            "FCM_AVG" => Some(Self::FcmAvg),
            "FCM_MAX" => Some(Self::FcmMax),
            "FCM_SUM" => Some(Self::FcmSum),
            "FCM_MIN" => Some(Self::FcmMin),
            "FCM_REPLACE" => Some(Self::FcmReplace),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SortOrder {
    Asc = 0,
    Desc = 1,
}
impl SortOrder {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Asc => "SORT_ORDER_ASC",
            Self::Desc => "SORT_ORDER_DESC",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SORT_ORDER_ASC" => Some(Self::Asc),
            "SORT_ORDER_DESC" => Some(Self::Desc),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SortMode {
    Min = 0,
    Max = 1,
    Avg = 2,
}
impl SortMode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Min => "SORT_MODE_MIN",
            Self::Max => "SORT_MODE_MAX",
            Self::Avg => "SORT_MODE_AVG",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SORT_MODE_MIN" => Some(Self::Min),
            "SORT_MODE_MAX" => Some(Self::Max),
            "SORT_MODE_AVG" => Some(Self::Avg),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum HighlightFragmentOrder {
    TextSequence = 1,
    Score = 2,
}
impl HighlightFragmentOrder {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::TextSequence => "TEXT_SEQUENCE",
            Self::Score => "SCORE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TEXT_SEQUENCE" => Some(Self::TextSequence),
            "SCORE" => Some(Self::Score),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum HighlightEncoder {
    PlainMode = 1,
    HtmlMode = 2,
}
impl HighlightEncoder {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::PlainMode => "PLAIN_MODE",
            Self::HtmlMode => "HTML_MODE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PLAIN_MODE" => Some(Self::PlainMode),
            "HTML_MODE" => Some(Self::HtmlMode),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ColumnReturnType {
    ReturnAll = 1,
    ReturnSpecified = 2,
    ReturnNone = 3,
    ReturnAllFromIndex = 4,
}
impl ColumnReturnType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::ReturnAll => "RETURN_ALL",
            Self::ReturnSpecified => "RETURN_SPECIFIED",
            Self::ReturnNone => "RETURN_NONE",
            Self::ReturnAllFromIndex => "RETURN_ALL_FROM_INDEX",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "RETURN_ALL" => Some(Self::ReturnAll),
            "RETURN_SPECIFIED" => Some(Self::ReturnSpecified),
            "RETURN_NONE" => Some(Self::ReturnNone),
            "RETURN_ALL_FROM_INDEX" => Some(Self::ReturnAllFromIndex),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum AggregationType {
    AggAvg = 1,
    AggMax = 2,
    AggMin = 3,
    AggSum = 4,
    AggCount = 5,
    AggDistinctCount = 6,
    AggTopRows = 7,
    AggPercentiles = 8,
}
impl AggregationType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::AggAvg => "AGG_AVG",
            Self::AggMax => "AGG_MAX",
            Self::AggMin => "AGG_MIN",
            Self::AggSum => "AGG_SUM",
            Self::AggCount => "AGG_COUNT",
            Self::AggDistinctCount => "AGG_DISTINCT_COUNT",
            Self::AggTopRows => "AGG_TOP_ROWS",
            Self::AggPercentiles => "AGG_PERCENTILES",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "AGG_AVG" => Some(Self::AggAvg),
            "AGG_MAX" => Some(Self::AggMax),
            "AGG_MIN" => Some(Self::AggMin),
            "AGG_SUM" => Some(Self::AggSum),
            "AGG_COUNT" => Some(Self::AggCount),
            "AGG_DISTINCT_COUNT" => Some(Self::AggDistinctCount),
            "AGG_TOP_ROWS" => Some(Self::AggTopRows),
            "AGG_PERCENTILES" => Some(Self::AggPercentiles),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum GroupByType {
    GroupByField = 1,
    GroupByRange = 2,
    GroupByFilter = 3,
    GroupByGeoDistance = 4,
    GroupByHistogram = 5,
    GroupByDateHistogram = 6,
    GroupByGeoGrid = 7,
    GroupByComposite = 8,
}
impl GroupByType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::GroupByField => "GROUP_BY_FIELD",
            Self::GroupByRange => "GROUP_BY_RANGE",
            Self::GroupByFilter => "GROUP_BY_FILTER",
            Self::GroupByGeoDistance => "GROUP_BY_GEO_DISTANCE",
            Self::GroupByHistogram => "GROUP_BY_HISTOGRAM",
            Self::GroupByDateHistogram => "GROUP_BY_DATE_HISTOGRAM",
            Self::GroupByGeoGrid => "GROUP_BY_GEO_GRID",
            Self::GroupByComposite => "GROUP_BY_COMPOSITE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "GROUP_BY_FIELD" => Some(Self::GroupByField),
            "GROUP_BY_RANGE" => Some(Self::GroupByRange),
            "GROUP_BY_FILTER" => Some(Self::GroupByFilter),
            "GROUP_BY_GEO_DISTANCE" => Some(Self::GroupByGeoDistance),
            "GROUP_BY_HISTOGRAM" => Some(Self::GroupByHistogram),
            "GROUP_BY_DATE_HISTOGRAM" => Some(Self::GroupByDateHistogram),
            "GROUP_BY_GEO_GRID" => Some(Self::GroupByGeoGrid),
            "GROUP_BY_COMPOSITE" => Some(Self::GroupByComposite),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FieldType {
    Long = 1,
    Double = 2,
    Boolean = 3,
    Keyword = 4,
    Text = 5,
    Nested = 6,
    GeoPoint = 7,
    Date = 8,
    Vector = 9,
    FuzzyKeyword = 10,
    Ip = 11,
    Json = 12,
    Flattened = 13,
}
impl FieldType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::Boolean => "BOOLEAN",
            Self::Keyword => "KEYWORD",
            Self::Text => "TEXT",
            Self::Nested => "NESTED",
            Self::GeoPoint => "GEO_POINT",
            Self::Date => "DATE",
            Self::Vector => "VECTOR",
            Self::FuzzyKeyword => "FUZZY_KEYWORD",
            Self::Ip => "IP",
            Self::Json => "JSON",
            Self::Flattened => "FLATTENED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "LONG" => Some(Self::Long),
            "DOUBLE" => Some(Self::Double),
            "BOOLEAN" => Some(Self::Boolean),
            "KEYWORD" => Some(Self::Keyword),
            "TEXT" => Some(Self::Text),
            "NESTED" => Some(Self::Nested),
            "GEO_POINT" => Some(Self::GeoPoint),
            "DATE" => Some(Self::Date),
            "VECTOR" => Some(Self::Vector),
            "FUZZY_KEYWORD" => Some(Self::FuzzyKeyword),
            "IP" => Some(Self::Ip),
            "JSON" => Some(Self::Json),
            "FLATTENED" => Some(Self::Flattened),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum VectorMetricType {
    VmEuclidean = 0,
    VmCosine = 1,
    VmDotProduct = 2,
}
impl VectorMetricType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::VmEuclidean => "VM_EUCLIDEAN",
            Self::VmCosine => "VM_COSINE",
            Self::VmDotProduct => "VM_DOT_PRODUCT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "VM_EUCLIDEAN" => Some(Self::VmEuclidean),
            "VM_COSINE" => Some(Self::VmCosine),
            "VM_DOT_PRODUCT" => Some(Self::VmDotProduct),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SearchPhase {
    Full = 1,
    Incr = 2,
}
impl SearchPhase {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Full => "SEARCH_PHASE_FULL",
            Self::Incr => "SEARCH_PHASE_INCR",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SEARCH_PHASE_FULL" => Some(Self::Full),
            "SEARCH_PHASE_INCR" => Some(Self::Incr),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum IndexStatusEnum {
    Pending = 1,
    Failed = 2,
    Running = 3,
}
impl IndexStatusEnum {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Failed => "FAILED",
            Self::Running => "RUNNING",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "PENDING" => Some(Self::Pending),
            "FAILED" => Some(Self::Failed),
            "RUNNING" => Some(Self::Running),
            _ => None,
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SqlQueryRequest {
    #[prost(string, optional, tag = "1")]
    pub query: ::core::option::Option<::prost::alloc::string::String>,
    /// Of the rows in the answer. Every SDK asks for FlatBuffers.
    #[prost(enumeration = "SqlPayloadVersion", optional, tag = "2")]
    pub version: ::core::option::Option<i32>,
    /// 1 and more: the client knows columns of dates and times.
    #[prost(int64, optional, tag = "3")]
    pub sql_version: ::core::option::Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub search_token: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableConsumedCapacity {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub consumed: ::core::option::Option<ConsumedCapacity>,
    #[prost(message, optional, tag = "3")]
    pub reserved_throughput: ::core::option::Option<ReservedThroughput>,
    #[prost(bool, optional, tag = "4")]
    pub is_timeseries_meta: ::core::option::Option<bool>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SearchConsumedCapacity {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub index_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "3")]
    pub consumed: ::core::option::Option<ConsumedCapacity>,
    #[prost(message, optional, tag = "4")]
    pub reserved_throughput: ::core::option::Option<ReservedThroughput>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SqlQueryResponse {
    #[prost(message, repeated, tag = "1")]
    pub consumes: ::prost::alloc::vec::Vec<TableConsumedCapacity>,
    /// Columns, as FlatBuffers; absent where a statement answers none.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub rows: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(enumeration = "SqlPayloadVersion", optional, tag = "3")]
    pub version: ::core::option::Option<i32>,
    #[prost(enumeration = "SqlStatementType", optional, tag = "4")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(message, repeated, tag = "5")]
    pub search_consumes: ::prost::alloc::vec::Vec<SearchConsumedCapacity>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SqlPayloadVersion {
    SqlPlainBuffer = 1,
    SqlFlatBuffers = 2,
}
impl SqlPayloadVersion {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::SqlPlainBuffer => "SQL_PLAIN_BUFFER",
            Self::SqlFlatBuffers => "SQL_FLAT_BUFFERS",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SQL_PLAIN_BUFFER" => Some(Self::SqlPlainBuffer),
            "SQL_FLAT_BUFFERS" => Some(Self::SqlFlatBuffers),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum SqlStatementType {
    SqlSelect = 1,
    SqlCreateTable = 2,
    SqlShowTable = 3,
    SqlDescribeTable = 4,
    SqlDropTable = 5,
    SqlAlterTable = 6,
}
impl SqlStatementType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::SqlSelect => "SQL_SELECT",
            Self::SqlCreateTable => "SQL_CREATE_TABLE",
            Self::SqlShowTable => "SQL_SHOW_TABLE",
            Self::SqlDescribeTable => "SQL_DESCRIBE_TABLE",
            Self::SqlDropTable => "SQL_DROP_TABLE",
            Self::SqlAlterTable => "SQL_ALTER_TABLE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "SQL_SELECT" => Some(Self::SqlSelect),
            "SQL_CREATE_TABLE" => Some(Self::SqlCreateTable),
            "SQL_SHOW_TABLE" => Some(Self::SqlShowTable),
            "SQL_DESCRIBE_TABLE" => Some(Self::SqlDescribeTable),
            "SQL_DROP_TABLE" => Some(Self::SqlDropTable),
            "SQL_ALTER_TABLE" => Some(Self::SqlAlterTable),
            _ => None,
        }
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesTableOptions {
    /// Seconds; -1 = for ever.
    #[prost(int32, optional, tag = "1")]
    pub time_to_live: ::core::option::Option<i32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesMetaOptions {
    #[prost(bool, optional, tag = "1")]
    pub allow_update_attributes: ::core::option::Option<bool>,
    /// Seconds; -1 = for ever.
    #[prost(int32, optional, tag = "2")]
    pub meta_time_to_live: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TimeseriesTableMeta {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub table_options: ::core::option::Option<TimeseriesTableOptions>,
    #[prost(string, optional, tag = "3")]
    pub status: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "4")]
    pub meta_options: ::core::option::Option<TimeseriesMetaOptions>,
    /// Columns that name a series; none = measurement, source and tags.
    #[prost(string, repeated, tag = "5")]
    pub timeseries_key_schema: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Fields that are part of a point's key.
    #[prost(message, repeated, tag = "6")]
    pub field_primary_key_schema: ::prost::alloc::vec::Vec<PrimaryKeySchema>,
    #[prost(bool, optional, tag = "7")]
    pub disable_hash_partition_key: ::core::option::Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub disable_timeseries_meta_index: ::core::option::Option<bool>,
}
/// What it says is not looked at: there are none.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesAnalyticalStore {
    #[prost(string, optional, tag = "1")]
    pub store_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LastpointIndexMeta {
    #[prost(string, optional, tag = "1")]
    pub index_table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateTimeseriesTableRequest {
    #[prost(message, optional, tag = "1")]
    pub table_meta: ::core::option::Option<TimeseriesTableMeta>,
    #[prost(message, repeated, tag = "3")]
    pub analytical_stores: ::prost::alloc::vec::Vec<TimeseriesAnalyticalStore>,
    #[prost(bool, optional, tag = "4")]
    pub enable_analytical_store: ::core::option::Option<bool>,
    #[prost(message, repeated, tag = "5")]
    pub lastpoint_index_metas: ::prost::alloc::vec::Vec<LastpointIndexMeta>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListTimeseriesTableRequest {
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListTimeseriesTableResponse {
    #[prost(message, repeated, tag = "1")]
    pub table_metas: ::prost::alloc::vec::Vec<TimeseriesTableMeta>,
}
/// DeleteTimeseriesTable and DescribeTimeseriesTable.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DescribeTimeseriesTableResponse {
    #[prost(message, required, tag = "1")]
    pub table_meta: TimeseriesTableMeta,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdateTimeseriesTableRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub table_options: ::core::option::Option<TimeseriesTableOptions>,
    #[prost(message, optional, tag = "3")]
    pub meta_options: ::core::option::Option<TimeseriesMetaOptions>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesTag {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub value: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TimeseriesKey {
    #[prost(string, optional, tag = "1")]
    pub measurement: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "2")]
    pub source: ::core::option::Option<::prost::alloc::string::String>,
    /// As older clients write the tags: `\["name=value"\]`.
    #[prost(string, optional, tag = "3")]
    pub tags: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "4")]
    pub tag_list: ::prost::alloc::vec::Vec<TimeseriesTag>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TimeseriesMeta {
    #[prost(message, optional, tag = "1")]
    pub time_series_key: ::core::option::Option<TimeseriesKey>,
    /// Written as tags are.
    #[prost(string, optional, tag = "2")]
    pub attributes: ::core::option::Option<::prost::alloc::string::String>,
    /// Microseconds since 1970.
    #[prost(int64, optional, tag = "3")]
    pub update_time: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetaQueryCondition {
    /// 1 composite, 2 measurement, 3 source, 4 tag, 5 time of update, 6 attribute.
    #[prost(int32, optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    /// A MetaQueryComposite, MetaQueryText or MetaQueryTime.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub proto_data: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MetaQueryComposite {
    /// 1 and, 2 or, 3 not.
    #[prost(int32, optional, tag = "1")]
    pub op: ::core::option::Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub sub_conditions: ::prost::alloc::vec::Vec<MetaQueryCondition>,
}
/// A measurement or a source.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetaQueryText {
    /// 1 =, 2 >, 3 >=, 4 <, 5 <=, 6 begins with.
    #[prost(int32, optional, tag = "1")]
    pub op: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub value: ::core::option::Option<::prost::alloc::string::String>,
}
/// A tag or an attribute.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetaQueryPair {
    #[prost(int32, optional, tag = "1")]
    pub op: ::core::option::Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub value: ::core::option::Option<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MetaQueryTime {
    #[prost(int32, optional, tag = "1")]
    pub op: ::core::option::Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub value: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct QueryTimeseriesMetaRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub condition: ::core::option::Option<MetaQueryCondition>,
    #[prost(bool, optional, tag = "3")]
    pub get_total_hit: ::core::option::Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub token: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "5")]
    pub limit: ::core::option::Option<i32>,
    /// 1 and more: the client knows tables with columns of their own.
    #[prost(int64, optional, tag = "6")]
    pub supported_table_version: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueryTimeseriesMetaResponse {
    #[prost(message, repeated, tag = "1")]
    pub timeseries_metas: ::prost::alloc::vec::Vec<TimeseriesMeta>,
    #[prost(int64, optional, tag = "2")]
    pub total_hit: ::core::option::Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub next_token: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesRows {
    /// 0 FlatBuffers, 1 PlainBuffer.
    #[prost(int32, optional, tag = "1")]
    pub r#type: ::core::option::Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub rows_data: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "3")]
    pub flatbuffer_crc32c: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PutTimeseriesDataRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub rows_data: ::core::option::Option<TimeseriesRows>,
    /// 1: series are not noted.
    #[prost(int32, optional, tag = "3")]
    pub meta_update_mode: ::core::option::Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub supported_table_version: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FailedRowInfo {
    #[prost(int32, required, tag = "1")]
    pub row_index: i32,
    #[prost(string, optional, tag = "2")]
    pub error_code: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(string, optional, tag = "3")]
    pub error_message: ::core::option::Option<::prost::alloc::string::String>,
}
/// PutTimeseriesData, UpdateTimeseriesMeta, DeleteTimeseriesMeta.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FailedRowsResponse {
    #[prost(message, repeated, tag = "1")]
    pub failed_rows: ::prost::alloc::vec::Vec<FailedRowInfo>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TimeseriesFieldsToGet {
    #[prost(string, optional, tag = "1")]
    pub name: ::core::option::Option<::prost::alloc::string::String>,
    /// 1 long, 2 boolean, 3 double, 4 string, 5 binary.
    #[prost(int32, optional, tag = "2")]
    pub r#type: ::core::option::Option<i32>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetTimeseriesDataRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, optional, tag = "2")]
    pub time_series_key: ::core::option::Option<TimeseriesKey>,
    #[prost(int64, optional, tag = "3")]
    pub begin_time: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub end_time: ::core::option::Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub specific_time: ::core::option::Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub token: ::core::option::Option<::prost::bytes::Bytes>,
    #[prost(int32, optional, tag = "7")]
    pub limit: ::core::option::Option<i32>,
    #[prost(bool, optional, tag = "8")]
    pub backward: ::core::option::Option<bool>,
    #[prost(message, repeated, tag = "9")]
    pub fields_to_get: ::prost::alloc::vec::Vec<TimeseriesFieldsToGet>,
    #[prost(int64, optional, tag = "10")]
    pub supported_table_version: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetTimeseriesDataResponse {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub rows_data: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub next_token: ::core::option::Option<::prost::bytes::Bytes>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UpdateTimeseriesMetaRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub timeseries_meta: ::prost::alloc::vec::Vec<TimeseriesMeta>,
    #[prost(int64, optional, tag = "3")]
    pub supported_table_version: ::core::option::Option<i64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DeleteTimeseriesMetaRequest {
    #[prost(string, optional, tag = "1")]
    pub table_name: ::core::option::Option<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "2")]
    pub timeseries_key: ::prost::alloc::vec::Vec<TimeseriesKey>,
    #[prost(int64, optional, tag = "3")]
    pub supported_table_version: ::core::option::Option<i64>,
}
