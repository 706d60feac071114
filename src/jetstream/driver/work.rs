//! What the driver does beside its loop: looks, surveys, and the making of consumers.
//!
//! Owns: this work, and what becomes of its outcome. Promises: one look is under way; a person is told each thing once.
//! Must not: wait in the loop for any of it.

use std::time::Duration;

use futures_util::future::abortable;
use tideline_base::ids::Position;
use tideline_cluster::{Event, SteadyMs};
use tokio::time::timeout;

use super::run::{Done, Running};
use crate::steady::steady_now;
use crate::survey::{LOOK_PATIENCE, Survey, look};

/// Stream and servers are surveyed again after so long.
const SURVEY_MS: u64 = 10_000;
/// After a survey without a result.
const SURVEY_AGAIN_MS: u64 = 500;
/// After a consumer that could not be made.
const CONSUME_AGAIN: Duration = Duration::from_millis(200);

impl Running {
    pub(super) fn worked(&mut self, done: Done) {
        let now = steady_now();
        match done {
            Done::Looked(None) => {}
            Done::Looked(Some(Ok(facts))) => self.node.looked(&facts, now),
            Done::Looked(Some(Err(refused))) | Done::Surveyed(Survey::Refused(refused)) => {
                self.stopped = Some(refused);
            }
            Done::Surveyed(Survey::Good(notice)) => {
                self.is_attached = true;
                self.survey_at.get_or_insert(now.plus(SURVEY_MS));
                self.notice(notice);
            }
            Done::Surveyed(Survey::Unclear(what)) => {
                self.survey_at.get_or_insert(now.plus(SURVEY_AGAIN_MS));
                let refused = self.refused.iter().filter(|_| !self.link.is_up());
                let what = refused.fold(what, |what, why| format!("{what}: {why}"));
                self.notice(Some(what));
            }
            Done::Consumes {
                number,
                consumer,
                made,
            } if number == self.follow.number => match made {
                Ok(()) => self.follow.made(consumer, now),
                Err(_) => self.consume(self.node.place().position, now),
            },
            // Another one was begun meanwhile; this one goes by itself, as nobody pulls from it.
            Done::Consumes { .. } => {}
        }
    }

    /// Tells a person what is new.
    fn notice(&mut self, notice: Option<String>) {
        if self.noticed != notice {
            if let Some(what) = &notice {
                self.host.event(Event::Notice(what));
            }
            self.noticed = notice;
        }
    }

    /// Makes a consumer behind a position.
    pub(super) fn consume(&mut self, after: Position, now: SteadyMs) {
        let (number, old) = self.follow.begin(after, now);
        let consumer = format!("{}-{number}", self.consumers);
        let link = self.link.clone();
        self.work.push(Box::pin(async move {
            if let Some(old) = old {
                link.drop_consumer(&old).await;
            }
            let made = link.consume(&consumer, after).await;
            if made.is_err() {
                tokio::time::sleep(CONSUME_AGAIN).await;
            }
            Done::Consumes {
                number,
                consumer,
                made,
            }
        }));
    }

    /// Looks at the stream.
    pub(super) fn look(&mut self, number: u64, positions: Vec<Position>) {
        let link = self.link.clone();
        let place = self.node.place();
        let began = match place.began {
            Position::ZERO => place.position.next(),
            began => began,
        };
        let (looked, handle) = abortable(async move {
            let look = look(&link, number, &positions, began);
            timeout(LOOK_PATIENCE, look).await.ok().flatten()
        });
        // What the one before still asks for is not wanted any more.
        if let Some(before) = self.looking.replace(handle) {
            before.abort();
        }
        self.work.push(Box::pin(async move {
            Done::Looked(looked.await.ok().flatten())
        }));
    }
}
