//! Where a follower is in a timeline: the client's loop, without the network.
//!
//! Owns: epoch, position and change position. Promises: a message is new once, in order; a gap is never ignored;
//! another history is begun from its start. Must not: print, or send.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::failure::Failure;

/// Where to begin the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With so many of the newest messages; 0 = from now.
    Rewind(u64),
    /// Behind this sequence.
    After(u64),
}

/// The place in one timeline.
#[derive(Debug)]
pub(super) struct Place {
    start: Start,
    /// Absent before the first subscription.
    at: Option<At>,
    /// Messages that grow, and how many parts of each were shown.
    open: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct At {
    epoch: String,
    after: u64,
    changes_after: u64,
}

/// What is asked of `subscribe`.
#[derive(Debug, Serialize)]
pub(super) struct Asked<'a> {
    timeline: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewind: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes_after: Option<u64>,
    limit: u64,
    create: bool,
    with: [&'static str; 1],
    /// Open messages that were shown, and how many parts of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<u64, u64>,
}

/// What `subscribe` answers.
#[derive(Debug, Deserialize)]
pub(super) struct Subscribed {
    epoch: String,
    pub(super) floor: u64,
    pub(super) head: u64,
    change_head: u64,
    pub(super) messages: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) changed: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) grown: Vec<Box<RawValue>>,
    pub(super) state: String,
}

/// How a subscription began.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Where it was asked to.
    There,
    /// Messages before the floor are gone, unseen.
    Later,
    /// It did not: the history is another one. The next one begins at its start.
    Anew,
}

/// Messages in a reply at most; the server has a limit of its own.
const PAGE: u64 = 1_000;

impl Place {
    pub(super) fn new(start: Start) -> Place {
        Place {
            start,
            at: None,
            open: BTreeMap::new(),
        }
    }

    /// Whether there was a subscription.
    pub(super) fn has_begun(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn epoch(&self) -> &str {
        self.at.as_ref().map_or("", |at| &at.epoch)
    }

    /// The next subscription.
    pub(super) fn asked<'a>(&'a self, timeline: &'a str, create: bool) -> Asked<'a> {
        let mut asked = Asked {
            timeline,
            after: None,
            rewind: None,
            epoch: None,
            changes_after: None,
            limit: PAGE,
            create,
            with: ["parts"],
            open: BTreeMap::new(),
        };
        match (&self.at, self.start) {
            (Some(at), _) => {
                asked.after = Some(at.after);
                asked.epoch = Some(&at.epoch);
                asked.changes_after = Some(at.changes_after);
                // As many as the server takes; it tells the others whole.
                asked.open = self
                    .open
                    .iter()
                    .rev()
                    .take(64)
                    .map(|(at, parts)| (*at, *parts))
                    .collect();
            }
            (None, Start::After(after)) => asked.after = Some(after),
            (None, Start::Rewind(0)) => {}
            (None, Start::Rewind(rewind)) => asked.rewind = Some(rewind),
        }
        asked
    }

    /// Takes the answer; its messages and changes are still to be taken. `first` = the sequence of its first message.
    pub(super) fn subscribed(
        &mut self,
        reply: &Subscribed,
        first: Option<u64>,
    ) -> Result<Begun, Failure> {
        let asked = match (&self.at, self.start) {
            (Some(at), _) => Some(at.after),
            (None, Start::After(after)) => Some(after),
            (None, Start::Rewind(_)) => None,
        };
        let (begun, after) = match reply.state.as_str() {
            "ok" => (
                Begun::There,
                asked.unwrap_or_else(|| first.map_or(reply.head, |first| first.saturating_sub(1))),
            ),
            "too_old" => (Begun::Later, reply.floor.saturating_sub(1)),
            // Another history, and whatever a newer server says: begin anew.
            _ => return self.another(reply),
        };
        self.at = Some(At {
            epoch: reply.epoch.clone(),
            after,
            changes_after: reply.change_head,
        });
        Ok(begun)
    }

    fn another(&mut self, reply: &Subscribed) -> Result<Begun, Failure> {
        match (self.at.take(), self.start) {
            (None, Start::After(after)) if after > 0 => {
                let end = reply.head;
                Err(Failure::Wrong(format!(
                    "--after {after} is behind the last message, #{end}"
                )))
            }
            (None, _) => Err(Failure::Wrong(format!(
                "the server can't begin: {}",
                reply.state
            ))),
            (Some(_), _) => {
                self.forget();
                Ok(Begun::Anew)
            }
        }
    }

    /// The history is gone; what follows is read from its start.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.at = None;
        self.start = Start::After(0);
    }

    /// Whether a message is new. A gap is a reason to subscribe again.
    pub(super) fn take(&mut self, sequence: u64) -> Result<bool, Failure> {
        let Some(at) = &mut self.at else {
            return Ok(false);
        };
        match sequence.checked_sub(at.after) {
            Some(1) => {
                at.after = sequence;
                Ok(true)
            }
            Some(more) if more > 1 => {
                let why = format!("#{} should come, and #{sequence} came", at.after + 1);
                Err(Failure::away(why))
            }
            _ => Ok(false),
        }
    }

    /// A message was shown, with so many parts if it is open. Gives how many were shown of it before, if it grew.
    pub(super) fn showed(&mut self, sequence: u64, open: Option<u64>) -> Option<u64> {
        match open {
            Some(parts) => self.open.insert(sequence, parts),
            None => self.open.remove(&sequence),
        }
    }

    /// All changes up to this number were shown.
    pub(super) fn changed_to(&mut self, change: u64) {
        if let Some(at) = &mut self.at {
            at.changes_after = at.changes_after.max(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(state: &str, epoch: &str, floor: u64, head: u64, change_head: u64) -> Subscribed {
        Subscribed {
            epoch: epoch.to_owned(),
            floor,
            head,
            change_head,
            messages: Vec::new(),
            changed: Vec::new(),
            grown: Vec::new(),
            state: state.to_owned(),
        }
    }

    fn at(place: &Place) -> (&str, u64, u64) {
        let at = place.at.as_ref().unwrap();
        (&at.epoch, at.after, at.changes_after)
    }

    #[test]
    fn a_place_is_resumed() {
        let mut place = Place::new(Start::Rewind(10));
        let asked = serde_json::to_string(&place.asked("a", false)).unwrap();
        assert_eq!(
            asked,
            r#"{"timeline":"a","rewind":10,"limit":1000,"create":false,"with":["parts"]}"#
        );
        assert_eq!(
            place
                .subscribed(&reply("ok", "e", 1, 7, 3), Some(5))
                .unwrap(),
            Begun::There
        );
        assert_eq!(at(&place), ("e", 4, 3));
        assert!(place.take(5).unwrap());
        assert!(!place.take(5).unwrap());
        assert!(!place.take(0).unwrap());
        assert!(place.take(7).is_err());
        assert!(place.take(6).unwrap());
        place.changed_to(9);
        place.changed_to(8);
        assert_eq!(place.showed(6, Some(2)), None);
        assert_eq!(place.showed(6, Some(3)), Some(2));
        let asked = serde_json::to_string(&place.asked("a", true)).unwrap();
        assert_eq!(
            asked,
            r#"{"timeline":"a","after":6,"epoch":"e","changes_after":9,"limit":1000,"create":true,"with":["parts"],"open":{"6":3}}"#
        );
        assert_eq!(
            place
                .subscribed(&reply("too_old", "e", 20, 30, 9), Some(20))
                .unwrap(),
            Begun::Later
        );
        assert_eq!(at(&place), ("e", 19, 9));
    }

    #[test]
    fn from_now_is_behind_the_last() {
        let mut place = Place::new(Start::Rewind(0));
        place.subscribed(&reply("ok", "e", 1, 7, 3), None).unwrap();
        assert_eq!(at(&place), ("e", 7, 3));
    }

    #[test]
    fn another_history_is_begun_at_its_start() {
        for state in ["epoch_changed", "something new"] {
            let mut place = Place::new(Start::Rewind(1));
            place.subscribed(&reply("ok", "e", 1, 7, 3), None).unwrap();
            assert_eq!(
                place.subscribed(&reply(state, "f", 1, 2, 0), None).unwrap(),
                Begun::Anew
            );
            assert!(!place.has_begun() && !place.take(1).unwrap());
            let asked = serde_json::to_string(&place.asked("a", false)).unwrap();
            assert_eq!(
                asked,
                r#"{"timeline":"a","after":0,"limit":1000,"create":false,"with":["parts"]}"#
            );
            // A server that does not let it begin there either is not asked for ever.
            assert!(place.subscribed(&reply(state, "f", 1, 2, 0), None).is_err());
        }
    }

    #[test]
    fn a_place_behind_the_end_is_a_mistake() {
        let mut place = Place::new(Start::After(9));
        assert!(
            place
                .subscribed(&reply("epoch_changed", "e", 1, 7, 3), None)
                .is_err()
        );
    }
}
