//! Tablestore's HTTP API as types: operations and what they ask, rows and keys, filters, signatures, errors.
//!
//! Owns: everything between the bytes of a signed POST and a checked request in the words of [`tideline_model`], and
//! between a reply and its bytes. A request that leaves this module keeps every rule that needs no table. Promises: no
//! input panics; every refusal is a [`Failure`] with the service's own code, status and text. Must not: do I/O, ask the
//! clock, know the store.

mod decode;
mod export;
mod failure;
mod fields;
pub mod limits;
mod operation;
pub mod plainbuffer;
#[allow(missing_docs, unreachable_pub, clippy::all)] // as prost makes it
#[rustfmt::skip]
pub mod proto;
mod refusal;
pub mod reply;
mod request;
mod search;
mod series;
pub mod signature;
mod sql;
mod units;

pub use decode::Request;
pub use export::{Export, ExportTable};
pub use failure::{Code, Failure};
pub use operation::Operation;
pub use reply::Reply;
pub use request::batch::{BatchGetRow, BatchWriteRow, TableReads, TableWrites};
pub use request::index::CreateIndex;
pub use request::read::{GetRange, GetRow};
pub use request::stream::{
    DescribeStream, GetShardIterator, GetStreamRecord, Records, RecordsReply, StreamReply,
};
pub use request::transaction::StartTransaction;
pub use request::write::WriteRow;
pub use search::{
    CreateSearchIndex, DescribedIndex, FoundPage, NamedIndex, ScanIn, ScannedPage, SearchIn,
    UpdateSearchIndex,
};
pub use series::{SeriesReply, SeriesRequest, SeriesRows};
pub use sql::{SqlCells, SqlColumn, SqlConsumed, SqlQuery, SqlReply, SqlStatement};

#[cfg(test)]
mod tests;
