//! Search indexes as far as tables know them: their definitions, and what their followers read of rows and logs.
//!
//! Owns: the definitions, as parts of their tables'; reads of changes and of rows as they are now; what followers still
//! need of the logs. Promises: a definition that was answered is seen by every later call; a log is kept until every
//! index has what it says, within the bound of the one that follows. Must not: know what an index is made of.

mod define;
mod follow;
mod hold;
mod needs;

pub use follow::{ChangedRows, RowNow};
pub(super) use needs::Needs;
