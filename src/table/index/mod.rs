//! Secondary indexes.
//!
//! Owns: the rows of indexes. One lies in the partition of the row that it is of, and is written in the same batch, so
//! that no read finds an index behind its table. Promises: what an index has of a row (`projection.rs`) follows from
//! the stored row alone, whatever the time; so what is taken out (`follow.rs`) is what was put in. Must not: decide
//! about the row itself.

mod backfill;
mod change;
mod faults;
mod follow;
mod projection;
mod verify;

pub use backfill::Backfill;
pub(super) use backfill::{BACKFILLS, backfilled};
pub(super) use follow::follow;
pub(super) use projection::{Index, MARK};
pub use verify::{Indexed, verify_indexes};
