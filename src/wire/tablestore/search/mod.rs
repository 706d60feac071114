//! Search indexes on the wire: what requests say about them and what is answered.
//!
//! Owns: the messages of `search.proto`, each way. Promises: a query that leaves this module has a bounded number of
//! parts, each with all that it needs; what this server does not do is refused by its name. Must not: know which fields
//! an index has.

mod aggregate;
mod aggregated;
mod parts;
mod query;
mod refusal;
mod reply;
mod request;
mod schema;
mod scored;
mod show;
mod sort;
mod stepped;

pub use reply::{DescribedIndex, FoundPage, ScannedPage};
pub(super) use reply::{described, found, listed, scanned, splits};
pub use request::{CreateSearchIndex, NamedIndex, ScanIn, SearchIn, UpdateSearchIndex};
