//! The end of a run: all is read, and held against what clients saw.
//!
//! Owns: the calls of the last reader, and what is wrong in words. Promises: what is scheduled and due is looked for,
//! too. Must not: have rules of its own for histories; `tideline_history` does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tideline_history::{Checker, Event, Final, Member, Place, Stored, What};

use super::{LATE, MS, Phase, World};
use crate::client::{Line, Waits, conversations, messages};

impl World<'_> {
    /// Reads all, one call after the other; begins anew after a cut.
    pub(super) fn ask_dump(&mut self) {
        if self.clients[0].line != Line::Up || !self.clients[0].waits.is_empty() {
            return;
        }
        self.finals.clear();
        self.inboxes.clear();
        self.dump.clear();
        for timeline in &self.plan.timelines {
            self.dump.push((
                "message.range",
                json!({"timeline": timeline, "from": 1, "limit": 1000}),
            ));
            self.dump
                .push(("member.list", json!({"timeline": timeline, "limit": 1000})));
        }
        for user in &self.plan.users {
            self.dump.push(("session.open", json!({"user": user})));
            self.dump
                .push(("conversation.list", json!({"limit": 1000})));
            let inbox = format!("$inbox/{user}");
            let params = json!({"timeline": inbox, "from": 1, "limit": 1000});
            self.dump.push(("message.range", params));
        }
        self.dump_step(0);
    }

    fn dump_step(&mut self, step: usize) {
        let Some((method, params)) = self.dump.get(step) else {
            self.phase = Phase::Over;
            return;
        };
        let (method, params) = (*method, params.clone());
        self.clients[0].request(method, &params, Waits::Dump(step));
        self.flush(0);
    }

    pub(super) fn dumped(&mut self, step: usize, message: &Value) {
        let (method, params) = self.dump[step].clone();
        let timeline = params["timeline"].as_str().unwrap_or_default().to_owned();
        let result = &message["result"];
        let reason = message["error"]["data"]["reason"].as_str();
        match (method, reason) {
            (_, Some("timeline_not_found")) => {}
            (_, Some(_)) => return,
            ("message.range", _) => {
                let (head, floor) = (result["head"].as_u64(), result["floor"].as_u64());
                let (head, floor) = (head.unwrap_or_default(), floor.unwrap_or_default());
                let inbox = timeline.strip_prefix("$inbox/");
                if params["from"] == 1 && inbox.is_none() {
                    let timeline = timeline.clone();
                    self.finals.push(Final::Timeline {
                        timeline,
                        head,
                        floor,
                    });
                }
                for message in messages(&result["messages"]) {
                    match (inbox, &message.entry) {
                        (Some(user), Some(entry)) => {
                            let of = entry["timeline"].as_str().unwrap_or_default().to_owned();
                            let sequence = entry["sequence"].as_u64().unwrap_or_default();
                            self.inboxes.push((user.to_owned(), of, sequence));
                        }
                        (Some(_), None) => {}
                        (None, _) => self.finals.push(Final::Message {
                            timeline: timeline.clone(),
                            message,
                        }),
                    }
                }
                if let Some(next) = result.get("next") {
                    let mut rest = params;
                    rest["from"] = next.clone();
                    self.dump.insert(step + 1, (method, rest));
                }
            }
            ("member.list", _) => {
                for member in result["members"].as_array().into_iter().flatten() {
                    let user = member["user"].as_str().unwrap_or_default().to_owned();
                    let read = member["read"].as_u64().unwrap_or_default();
                    let (timeline, member) = (timeline.clone(), Member { user, read });
                    self.finals.push(Final::Member { timeline, member });
                }
            }
            ("conversation.list", _) => {
                let user = self.dump[step - 1].1["user"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let conversations = conversations(&result["conversations"]);
                self.finals.push(Final::Conversations {
                    user,
                    conversations,
                });
            }
            _ => {}
        }
        self.dump_step(step + 1);
    }

    pub(super) fn judge(&mut self) {
        if !self.wrong.is_empty() {
            return;
        }
        let place = |file, at| Place {
            file,
            line: at as u32 + 1,
        };
        let mut stored = Stored::new();
        for (at, record) in self.finals.iter().enumerate() {
            stored.take(record, place(0, at)).expect("a dump");
        }
        self.events.iter().for_each(|event| stored.expect(event));
        let mut checker = Checker::new(stored);
        for (at, event) in self.events.iter().enumerate() {
            if let Err(odd) = checker.event(event, place(1, at)) {
                self.wrong.push(odd.to_string());
            }
        }
        let report = checker.end();
        for violation in &report.violations {
            self.wrong
                .push(format!("{}: {}", violation.anomaly.name(), violation.what));
            if self.task.is_traced {
                for place in violation.proof.iter().filter(|place| place.line > 0) {
                    match place.file {
                        0 => eprintln!("> proof {:?}", self.finals.get(place.line as usize - 1)),
                        _ => eprintln!("> proof {:?}", self.events.get(place.line as usize - 1)),
                    }
                }
            }
        }
        self.judge_inboxes();
    }

    /// What is due has come by now, without a restart: the late follower was shown it.
    pub(super) fn judge_scheduled(&mut self) {
        let mut shown = BTreeSet::new();
        for Event(_, client, what) in &self.events {
            if let What::Push(timeline, messages) = what
                && client == LATE
            {
                shown.extend(messages.iter().map(|one| (timeline, &one.message_id)));
            }
        }
        let wall_ms = self.now.wrapping_add(self.ahead) / MS;
        let mut due = self.scheduled.iter();
        let missing = due
            .find(|(timeline, id, due)| due + 5_000 < wall_ms && !shown.contains(&(timeline, id)));
        if let Some((timeline, id, due)) = missing {
            let what = format!("{timeline}: {id} was scheduled for {due} and has not come");
            self.fault(what);
        }
    }
}
