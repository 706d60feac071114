//! What a stream of changes waits for.
//!
//! Owns: how its waits and reads end. Must not: know which streams there are.

use futures_util::future::BoxFuture;

use crate::feed::{ChangeGroup, ChangeReader};
use crate::table::FollowError;

/// A step of a stream that is done.
pub(in super::super) enum Step {
    /// It was closed while it waited.
    Closed,
    /// There is news.
    News(Box<ChangeReader>),
    /// It has read.
    Read(Box<ChangeReader>, Result<ChangeGroup, FollowError>),
}

/// The way of a step.
pub(in super::super) type Stepping = BoxFuture<'static, Step>;
