//! What a log's driver calls.
//!
//! Owns: the way of events into the line. Promises: each is on its way when the call returns; a driver that is gone
//! counts as one that has stopped. Must not: apply anything: that is the writer's.

use std::sync::Arc;

use bytes::Bytes;
use tideline_cluster::{CommitTime, Draft, Event, Host};

use super::line::{Came, Line};
use tideline_base::ids::Position;

/// A member's end of its line, for the driver.
pub struct MemberHost {
    line: Arc<Line>,
}

impl MemberHost {
    pub(super) fn new(line: Arc<Line>) -> MemberHost {
        MemberHost { line }
    }
}

impl Host for MemberHost {
    fn next(&mut self, draft: &Draft, _: CommitTime) -> Option<Bytes> {
        self.line.next(draft)
    }

    fn yields(&mut self) -> bool {
        self.line.yields()
    }

    fn covered(&mut self) -> Position {
        self.line.covered()
    }

    fn event(&mut self, event: Event<'_>) {
        self.line.push(match event {
            Event::Taken { frame, is_void } => Came::Taken {
                frame: frame.clone(),
                is_void,
            },
            Event::Owns => Came::Owns,
            Event::Acknowledged(upto) => Came::Acknowledged(upto),
            Event::Moved(_) => Came::Moved,
            // The writer can't run the batch's closures again: its callers are told to try again.
            Event::Again(position) => Came::Lost(position),
            Event::Full(position) => Came::Full(position),
            Event::Notice(what) => return tracing::warn!("cluster: {what}"),
            Event::Stopped(why) => Came::Stopped(why.to_owned()),
        });
    }
}

impl Drop for MemberHost {
    fn drop(&mut self) {
        let why = "what drives the cluster's log has ended".to_owned();
        self.line.push(Came::Stopped(why));
    }
}
