//! Tablestore's HTTP API as types: operations and what they ask, rows and keys, filters, signatures, errors.
//!
//! Owns: everything between the bytes of a signed POST and a checked request, and between a reply and its bytes. A
//! request that leaves this module obeys the limits and shapes that need no table to be known; what depends on a
//! table's schema is checked by whoever has the schema. Promises: no input panics; every refusal is
//! a [`Failure`] with the service's own code, status and text. Must not: do I/O, ask the clock, know the store.

mod attribute;
mod batch;
pub mod capacity;
pub mod change;
pub mod condition;
mod failure;
mod fields;
pub mod filter;
mod key;
pub mod limits;
mod name;
mod operation;
pub mod options;
pub mod plainbuffer;
#[allow(missing_docs, unreachable_pub, clippy::all)] // as prost makes it
#[rustfmt::skip]
pub mod proto;
pub mod read;
pub mod reply;
pub mod signature;
pub mod table;
pub mod write;

pub use attribute::into_variant;
pub use batch::{BatchGetRow, BatchWriteRow, TableReads, TableWrites};
pub use failure::{Code, Failure};
pub use key::{BoundValue, Key, KeyColumn, KeySchema, KeyType, KeyValue, WriteKeyValue};
pub use operation::{Operation, Request};
pub use reply::Reply;
