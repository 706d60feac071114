//! A small server and its clients, by a seed: good histories of all kinds of calls.
//!
//! Owns: what a right server does. Must not: share code with the checker beyond the records.

use std::collections::BTreeMap;

use crate::{Answer, Call, Conversation, Event, Final, Member, Message, What};
use serde_json::json;

/// Numbers by a seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

const WRITERS: usize = 4;
const SUBSCRIBERS: usize = 2;
pub(super) const TIMELINES: [&str; 2] = ["a", "b"];
const STEPS: usize = 500;

#[derive(Default)]
struct Timeline {
    messages: Vec<Message>,
    /// Members, and their read positions.
    members: BTreeMap<String, u64>,
}

/// A call on its way.
struct Pending {
    op: u64,
    calls: Vec<Call>,
    /// Once it took effect.
    done: Option<Result<Vec<Answer>, String>>,
}

/// Server, clients, and what they recorded.
pub(super) struct Model {
    random: Random,
    pub(super) events: Vec<Event>,
    timelines: BTreeMap<&'static str, Timeline>,
    pending: Vec<Vec<Pending>>,
    /// By subscriber and timeline.
    positions: BTreeMap<(usize, &'static str), u64>,
    next: u64,
}

/// Events, and the final dump.
pub(super) fn good(seed: u64) -> (Vec<Event>, Vec<Final>) {
    let mut model = Model {
        random: Random(seed),
        events: Vec::new(),
        timelines: TIMELINES.map(|name| (name, Timeline::default())).into(),
        pending: (0..WRITERS).map(|_| Vec::new()).collect(),
        positions: BTreeMap::new(),
        next: 0,
    };
    for _ in 0..STEPS {
        model.step();
    }
    model.end();
    let stored = model.stored();
    (model.events, stored)
}

impl Model {
    fn at(&self) -> u64 {
        self.events.len() as u64 * 10
    }

    fn step(&mut self) {
        let client = self.random.below(WRITERS);
        let open = self.pending[client].iter().filter(|one| one.done.is_none());
        match (self.random.below(8), open.count()) {
            (0 | 1, 0..3) => self.ask(client),
            (2 | 3, 1..) => self.take_effect(client),
            (4 | 5, _) => self.answer(client),
            (6, _) => self.push(client % SUBSCRIBERS, 3),
            (7, _) if self.random.below(10) == 0 => self.subscribe(client % SUBSCRIBERS),
            _ => {}
        }
    }

    fn timeline(&mut self) -> &'static str {
        TIMELINES[self.random.below(TIMELINES.len())]
    }

    fn call(&mut self, client: usize) -> Call {
        let (name, user) = (self.timeline(), format!("u{client}"));
        let timeline = name.to_owned();
        let length = self.timelines[name].messages.len();
        let sequence = 1 + self.random.below(length) as u64;
        self.next += 1;
        let entry = Some(json!({ "n": self.next, "text": "x" }));
        match self.random.below(16) {
            0 | 1 if length > 0 => {
                let entry = entry.filter(|_| self.random.below(2) == 0);
                Call::Edit {
                    timeline,
                    sequence,
                    entry,
                    digest: None,
                }
            }
            2..=4 => Call::Read {
                timeline,
                from: sequence,
            },
            5 if length > 0 => Call::Mark {
                user,
                timeline,
                sequence,
            },
            6 => Call::Join { user, timeline },
            7 | 8 => Call::List { user },
            other => Call::Append {
                timeline,
                message_id: format!("m{}", self.next),
                sender: user,
                entry,
                digest: None,
                expect_head: (other == 9).then_some(sequence),
            },
        }
    }

    fn ask(&mut self, client: usize) {
        let several = if self.random.below(4) == 0 { 3 } else { 1 };
        let calls = Vec::from_iter((0..several).map(|_| self.call(client)));
        // A refused operation of several calls is undone by nobody here.
        let is_plain = |call: &Call| match call {
            Call::Append { expect_head, .. } => expect_head.is_none(),
            Call::Edit { .. } | Call::Mark { .. } => false,
            _ => true,
        };
        let calls = if several == 1 {
            calls
        } else {
            calls.into_iter().filter(is_plain).collect()
        };
        self.next += 1;
        let (op, at) = (self.next, self.at());
        let event = Event(at, format!("w{client}"), What::Invoke(op, calls.clone()));
        self.events.push(event);
        self.pending[client].push(Pending {
            op,
            calls,
            done: None,
        });
    }

    fn take_effect(&mut self, client: usize) {
        let at = self.pending[client]
            .iter()
            .position(|one| one.done.is_none())
            .expect("open");
        let calls = self.pending[client][at].calls.clone();
        let busy = self.random.below(12) == 0;
        let done = if busy {
            Err("busy".to_owned())
        } else {
            calls.iter().map(|call| self.apply(call)).collect()
        };
        self.pending[client][at].done = Some(done);
    }

    #[allow(clippy::too_many_lines)] // one arm for each kind of call
    fn apply(&mut self, call: &Call) -> Result<Answer, String> {
        let mut answer = Answer::default();
        let time = self.at() / 50;
        let timelines = &mut self.timelines;
        match call.clone() {
            Call::Append {
                timeline,
                message_id,
                sender,
                entry,
                expect_head,
                ..
            } => {
                let messages = &mut timelines.get_mut(&*timeline).expect("known").messages;
                let head = messages.len() as u64;
                if expect_head.is_some_and(|expected| expected != head) {
                    return Err("condition_failed".to_owned());
                }
                let sequence = head + 1;
                let timestamp = 1_000 + time;
                (answer.sequence, answer.timestamp) = (Some(sequence), Some(timestamp));
                let digest = None;
                messages.push(Message {
                    sequence,
                    timestamp,
                    message_id,
                    sender,
                    entry,
                    digest,
                });
            }
            Call::Edit {
                timeline,
                sequence,
                entry,
                ..
            } => {
                let messages = &mut timelines.get_mut(&*timeline).expect("known").messages;
                let message = &mut messages[sequence as usize - 1];
                if message.entry.is_none() {
                    return Err("message_deleted".to_owned());
                }
                message.entry = entry;
            }
            Call::Read { timeline, from } => {
                let messages = &timelines[&*timeline].messages;
                answer.head = Some(messages.len() as u64);
                answer.messages = messages
                    .iter()
                    .skip(from as usize - 1)
                    .take(5)
                    .cloned()
                    .collect();
            }
            Call::Mark {
                user,
                timeline,
                sequence,
            } => {
                let members = &mut timelines.get_mut(&*timeline).expect("known").members;
                let read = members.get_mut(&user).ok_or("not a member")?;
                *read = sequence.max(*read);
            }
            Call::Join { user, timeline } => {
                let members = &mut timelines.get_mut(&*timeline).expect("known").members;
                members.entry(user).or_default();
            }
            Call::Leave { user, timeline } => {
                timelines
                    .get_mut(&*timeline)
                    .expect("known")
                    .members
                    .remove(&user);
            }
            Call::List { user } => answer.conversations = self.list(&user),
        }
        Ok(answer)
    }

    fn list(&self, user: &str) -> Vec<Conversation> {
        let one = |(name, of): (&&str, &Timeline)| {
            let read = *of.members.get(user)?;
            let above = of.messages.iter().skip(read as usize);
            let unread = above
                .filter(|one| one.sender != user && one.entry.is_some())
                .count();
            let (head, unread) = (of.messages.len() as u64, unread as u64);
            let timeline = (*name).to_owned();
            Some(Conversation {
                timeline,
                head,
                read,
                visible_from: 1,
                unread,
            })
        };
        self.timelines.iter().filter_map(one).collect()
    }

    fn answer(&mut self, client: usize) {
        let pending = &mut self.pending[client];
        if pending.first().is_none_or(|one| one.done.is_none()) {
            return;
        }
        let Pending { op, done, .. } = pending.remove(0);
        let (at, client) = (self.at(), format!("w{client}"));
        let unknown = self.random.below(20) == 0;
        let what = match done.expect("done") {
            _ if unknown => What::Unknown(op, "connection lost".into()),
            Ok(answers) => What::Ok(op, answers),
            Err(reason) => What::Fail(op, reason),
        };
        self.events.push(Event(at, client, what));
    }

    fn subscribe(&mut self, number: usize) {
        let (at, timeline) = (self.at(), self.timeline());
        let position = self
            .positions
            .get(&(number, timeline))
            .copied()
            .unwrap_or(0);
        let after = position - self.random.below(position as usize + 1).min(3) as u64;
        self.positions.insert((number, timeline), after);
        let (client, timeline) = (format!("s{number}"), timeline.to_owned());
        self.events
            .push(Event(at, client, What::Subscribe(timeline, after)));
    }

    fn push(&mut self, number: usize, most: usize) {
        let (at, timeline) = (self.at(), self.timeline());
        let Some(position) = self.positions.get_mut(&(number, timeline)) else {
            return;
        };
        let news = self.timelines[timeline]
            .messages
            .iter()
            .skip(*position as usize);
        let messages: Vec<Message> = news.take(most).cloned().collect();
        *position += messages.len() as u64;
        if !messages.is_empty() {
            let (client, timeline) = (format!("s{number}"), timeline.to_owned());
            self.events
                .push(Event(at, client, What::Push(timeline, messages)));
        }
    }

    fn end(&mut self) {
        for client in 0..WRITERS {
            while self.pending[client].iter().any(|one| one.done.is_none()) {
                self.take_effect(client);
            }
            while !self.pending[client].is_empty() {
                self.answer(client);
            }
        }
        for number in 0..SUBSCRIBERS {
            for _ in 0..20 {
                self.push(number, usize::MAX);
            }
            let at = self.at();
            self.events
                .push(Event(at, format!("s{number}"), What::Settled));
        }
    }

    fn stored(&self) -> Vec<Final> {
        let mut stored = Vec::new();
        for (name, of) in &self.timelines {
            let timeline = || (*name).to_owned();
            let head = of.messages.len() as u64;
            stored.push(Final::Timeline {
                timeline: timeline(),
                head,
                floor: 1,
            });
            let messages = of.messages.iter().cloned();
            stored.extend(messages.map(|message| Final::Message {
                timeline: timeline(),
                message,
            }));
            stored.extend(of.members.iter().map(|(user, read)| {
                let member = Member {
                    user: user.clone(),
                    read: *read,
                };
                Final::Member {
                    timeline: timeline(),
                    member,
                }
            }));
        }
        stored.extend((0..WRITERS).map(|client| {
            let user = format!("u{client}");
            let conversations = self.list(&user);
            Final::Conversations {
                user,
                conversations,
            }
        }));
        stored
    }
}
