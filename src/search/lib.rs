//! Search indexes of tables, and those of all messages and timelines.
//!
//! Owns: the files of indexes, what follows the logs for them, and searches in them. Promises: a search sees every
//! write that was answered before it, or says that it does not; an index that is damaged or too far behind is made
//! anew, never passed over. Must not: write a row, or be in the way of one. Alone names tantivy.

mod aggregate;
mod analyze;
mod asked;
mod checked;
mod collect;
mod covered;
mod deadline;
mod find;
mod follow;
#[cfg(feature = "faults")]
pub mod fuzz;
mod index;
mod messages;
mod named;
mod query;
mod scans;
mod searches;
mod verify;

#[cfg(test)]
mod tests;

pub use find::Hits;
pub use messages::{Ask, Condition, Door, FoundPlaces, MessageAnswer, Place, Which, Words};
pub use searches::{Options, Searches, Standing};
pub use verify::{StoredSource, VerifiedSearch, verify_search};
