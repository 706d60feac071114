//! Deciding many subscriptions of one caller again with few looks at the store.
//!
//! Owns: what is asked about each, and what its answer means for it. Promises: what the answer does not settle is left
//! to a look at the subscription's own page, so that nothing goes out undecided. Must not: read messages.

use std::sync::Arc;

use super::Feed;
use super::subscription::{Ended, Subscription};
use crate::timeline::{Admission, Error};
use tideline_model::access::Asker;

/// What is asked about a subscription.
pub struct Doubt {
    timeline: Arc<str>,
    epoch: Arc<str>,
    /// The number of changes of readers that the answer takes into account.
    turn: u32,
}

/// The answer.
pub struct Decided {
    turn: u32,
    admitted: Result<Admission, Error>,
}

impl Feed {
    /// What a caller may see now. One look for all timelines of a partition; no answer if that failed.
    pub async fn decide(&self, asker: &Asker, doubts: &[Doubt]) -> Vec<Option<Decided>> {
        let wanted: Vec<(&str, &str)> = doubts
            .iter()
            .map(|doubt| (doubt.timeline.as_ref(), doubt.epoch.as_ref()))
            .collect();
        let Ok(admitted) = self.timelines.admissions(asker, &wanted).await else {
            return doubts.iter().map(|_| None).collect();
        };
        let turns = doubts.iter().map(|doubt| doubt.turn);
        let decided = turns.zip(admitted);
        decided
            .map(|(turn, admitted)| Some(Decided { turn, admitted }))
            .collect()
    }
}

impl Subscription {
    /// What is to be asked before anything newer goes out.
    #[must_use]
    pub fn doubt(&self) -> Doubt {
        Doubt {
            timeline: Arc::clone(self.timeline()),
            epoch: Arc::clone(&self.cursor.epoch),
            turn: self.watch.topic.seen().1,
        }
    }

    /// Takes the answer, if there is one. Gives why it ends.
    pub fn decided(&mut self, decided: Option<Decided>) -> Option<Ended> {
        let Decided { turn, admitted } = decided?;
        match admitted {
            Ok(admission) if admission.floor == self.cursor.floor => {
                self.take_turn(turn);
                None
            }
            Err(Error::TimelineNotFound)
                if !self.asker.reads_by_name(self.timeline().as_bytes()) =>
            {
                Some(Ended::Forbidden)
            }
            _ => None,
        }
    }
}
