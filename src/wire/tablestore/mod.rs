//! Tablestore's HTTP API as types: operations and what they ask, rows and keys, filters, signatures, errors.
//!
//! Owns: everything between the bytes of a signed POST and a checked request in the words of [`crate::model`], and
//! between a reply and its bytes. A request that leaves this module keeps every rule that needs no table. Promises: no
//! input panics; every refusal is a [`Failure`] with the service's own code, status and text. Must not: do I/O, ask the
//! clock, know the store.

mod batch;
mod cells;
mod export;
mod failure;
mod fields;
mod filter;
mod index;
pub mod limits;
mod operation;
pub mod plainbuffer;
#[allow(missing_docs, unreachable_pub, clippy::all)] // as prost makes it
#[rustfmt::skip]
pub mod proto;
mod read;
mod refusal;
pub mod reply;
pub mod signature;
mod stream;
mod table;
mod transaction;
mod write;

pub use batch::{BatchGetRow, BatchWriteRow, TableReads, TableWrites};
pub use export::{Export, ExportTable};
pub use failure::{Code, Failure};
pub use index::CreateIndex;
pub use operation::{Operation, Request};
pub use read::{GetRange, GetRow};
pub use reply::Reply;
pub use stream::{
    DescribeStream, GetShardIterator, GetStreamRecord, Records, RecordsReply, StreamReply,
};
pub use transaction::StartTransaction;
pub use write::WriteRow;

#[cfg(test)]
mod tests;
