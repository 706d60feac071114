//! Running plans of SELECT.
//!
//! Owns: the trait that an executor is, and ours. Promises: each loop looks at the statement's deadline. Must not:
//! plan.

mod group;
mod index;
mod join;
mod scan;
mod select;

use crate::answer::Datum;
use crate::context::Run;
use crate::plan::Plan;
use crate::refusal::Refusal;
pub(crate) use select::Own;

/// Rows, one after the other.
pub(crate) type Rows<'r> = Box<dyn Iterator<Item = Result<Vec<Datum>, Refusal>> + 'r>;

/// Runs plans of SELECT. Ours is [`Own`]; another library's could stand in its place.
pub(crate) trait Executor {
    /// All rows of a plan, in its order.
    fn rows(&self, plan: &Plan, run: &Run) -> Result<Vec<Vec<Datum>>, Refusal>;
}
