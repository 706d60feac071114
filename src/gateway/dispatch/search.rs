//! The searches: `message.search`, `timeline.search`.
//!
//! Owns: the calls behind these methods. Promises: what is found is shown as the caller may read it, and a page fits
//! into a frame. Must not: look into an index.

use std::sync::Arc;

use super::super::Shared;
use super::{Caller, Work};
use tideline_wire::search::{Messages, Timelines};
use tideline_wire::{Failure, Reason};

pub(super) fn messages(_: &Arc<Shared>, _: &Caller, _: Messages) -> Work {
    Work::Now(Err(Failure::new(Reason::SearchOff)))
}

pub(super) fn timelines(_: &Arc<Shared>, _: &Caller, _: Timelines) -> Work {
    Work::Now(Err(Failure::new(Reason::SearchOff)))
}
