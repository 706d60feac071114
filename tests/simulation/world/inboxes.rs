//! Timelines whose messages are written into the inboxes of their members.
//!
//! Owns: who makes them so, and what must be in inboxes in the end. Promises: the inbox of a member that never leaves
//! has each message that was sent after both were certain, once; no inbox has a message twice. Must not: ask for
//! anything in the end; the reader does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tideline_history::{Call, Event, Final, What};

use super::World;
use crate::client::{Waits, comes_and_goes};

impl World<'_> {
    /// The back end has timelines written into inboxes, until each is.
    pub(super) fn fan_out(&mut self, at: usize) {
        for timeline in self.plan.fanned.clone() {
            if self.fanned.contains_key(&timeline) {
                continue;
            }
            let params = json!({"timeline": timeline, "settings": {"fan_out": "write"}});
            self.clients[at].request("timeline.create", &params, Waits::Nothing);
            self.clients[at].request("timeline.configure", &params, Waits::Fans(timeline));
        }
    }

    pub(super) fn judge_inboxes(&mut self) {
        let mut wrong = Vec::new();
        let (sent, joined) = self.sent_and_joined();
        let mut stored: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for record in &self.finals {
            if let Final::Message { timeline, message } = record {
                let at = sent.get(&message.message_id).copied().unwrap_or_default();
                let messages = stored.entry(timeline).or_default();
                messages.push((message.sequence, at));
            }
        }
        let mut there = BTreeSet::new();
        for (user, timeline, sequence) in &self.inboxes {
            if !there.insert((user, timeline, *sequence)) {
                wrong.push(format!("inbox of {user}: {timeline} {sequence} twice"));
            }
        }
        for ((user, timeline), joined) in &joined {
            let Some(fanned) = self.fanned.get(timeline) else {
                continue;
            };
            let since = *fanned.max(joined);
            let messages = stored.get(&**timeline).map_or(&[][..], Vec::as_slice);
            let behind = messages.iter().skip_while(|(_, at)| *at <= since);
            let missing = behind
                .filter(|(sequence, _)| !there.contains(&(user, timeline, *sequence)))
                .map(|(sequence, _)| format!("inbox of {user}: {timeline} {sequence} is missing"));
            wrong.extend(missing);
        }
        self.wrong.extend(wrong);
    }

    /// When each message was sent first, and since when each who never leaves is a member for certain.
    fn sent_and_joined(&self) -> (BTreeMap<String, u64>, BTreeMap<(String, String), u64>) {
        let (mut asked, mut sent, mut joined) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for Event(at, client, what) in &self.events {
            match what {
                What::Invoke(op, calls) => {
                    asked.insert((client, op), calls);
                    for call in calls {
                        if let Call::Append { message_id, .. } = call {
                            sent.entry(message_id.clone()).or_insert(*at);
                        }
                    }
                }
                What::Ok(op, _) => {
                    for call in asked.get(&(client, op)).into_iter().copied().flatten() {
                        if let Call::Join { user, timeline } = call
                            && !comes_and_goes(user, timeline)
                        {
                            let of = (user.clone(), timeline.clone());
                            joined.entry(of).or_insert(*at);
                        }
                    }
                }
                _ => {}
            }
        }
        (sent, joined)
    }
}
