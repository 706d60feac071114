//! A client: what it asks, what it makes of the answers, and how it goes on after a cut.
//!
//! Owns: one session after another of one user. Promises: everything that it asks and is shown is in the history; an
//! append without an answer is sent again under its ID, before all that is new. Must not: know time or the network; the
//! world carries its bytes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tideline_history::{Answer, Call, Conversation, Message, What};

use crate::client_frame::frame;
use crate::plan::{CALLS, Does};
use crate::random::Random;

/// A call that the history knows.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) op: u64,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) calls: Vec<Call>,
    /// It was sent before, and nobody knows what came of that.
    is_again: bool,
}

impl Asked {
    /// Whether it may be sent twice.
    fn is_repeated(&self) -> bool {
        self.method.starts_with("message.append") && !self.is_scheduled()
    }

    pub(crate) fn is_scheduled(&self) -> bool {
        self.params.get("deliver_at").is_some()
    }
}

/// What an answer is awaited to.
pub(crate) enum Waits {
    Session,
    Subscribe(String, u64),
    Unsubscribe(String),
    Stream,
    /// Which partitions there are.
    Partitions,
    /// Messages of this timeline go into inboxes.
    Fans(String),
    Asked(Asked),
    /// Whatever it is, nothing hangs on it.
    Nothing,
    /// To the reader of the end.
    Dump(usize),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Down,
    Dialled,
    /// The handshake is done, the session is not open.
    Greeting,
    Up,
}

pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) line: Line,
    pub(crate) connection: u32,
    pub(crate) waits: BTreeMap<u64, Waits>,
    pub(crate) again: BTreeMap<u64, Asked>,
    /// Timelines that it follows: the last sequence that it was shown, and whether it is subscribed on this connection.
    pub(crate) follows: BTreeMap<String, (u64, bool)>,
    /// Its messages that it may edit: where they are and what is in them.
    pub(crate) own: Vec<(String, u64, Value)>,
    pub(crate) heads: BTreeMap<String, u64>,
    /// For a reader of the stream of all changes: whether it has begun.
    pub(crate) stream: Option<bool>,
    pub(crate) appended: u64,
    next: u64,
    out: Vec<u8>,
}

impl Client {
    pub(crate) fn new(name: String, user: String) -> Client {
        Client {
            name,
            user,
            line: Line::Down,
            connection: 0,
            waits: BTreeMap::new(),
            again: BTreeMap::new(),
            follows: BTreeMap::new(),
            own: Vec::new(),
            heads: BTreeMap::new(),
            stream: None,
            appended: 0,
            next: 0,
            out: Vec::new(),
        }
    }

    /// A number that it has not used.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// What it has to send by now.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn write(&mut self, opcode: u8, payload: &[u8]) {
        self.out.extend(frame(0x80 | opcode, payload));
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value, waits: Waits) {
        let id = self.number();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(1, request.to_string().as_bytes());
        self.waits.insert(id, waits);
    }

    /// Its first words on a connection. The answers come in order, so all goes out at once.
    pub(crate) fn greet(&mut self) {
        self.line = Line::Greeting;
        let params = match self.user.as_str() {
            "" => json!({}),
            user => json!({"user": user}),
        };
        self.request("session.open", &params, Waits::Session);
        for asked in std::mem::take(&mut self.again).into_values() {
            self.ask(asked);
        }
        for (timeline, (after, _)) in self.follows.clone() {
            self.subscribe(&timeline, after);
        }
        if self.stream.is_some() {
            let params = json!({"timelines": "", "cursor": "audit", "from": "start"});
            self.request("stream.open", &params, Waits::Stream);
        }
    }

    pub(crate) fn subscribe(&mut self, timeline: &str, after: u64) {
        self.follows.insert(timeline.to_owned(), (after, false));
        let params = json!({"timeline": timeline, "after": after, "limit": 5});
        self.request(
            "subscribe",
            &params,
            Waits::Subscribe(timeline.to_owned(), after),
        );
    }

    pub(crate) fn ask(&mut self, asked: Asked) {
        let (method, params) = (asked.method, asked.params.clone());
        self.request(method, &params, Waits::Asked(asked));
    }

    /// The connection is gone: what the history has to say of what was on its way.
    pub(crate) fn cut(&mut self) -> Vec<What> {
        self.line = Line::Down;
        self.out.clear();
        for (_, is_on) in self.follows.values_mut() {
            *is_on = false;
        }
        let mut events = Vec::new();
        for waits in std::mem::take(&mut self.waits).into_values() {
            match waits {
                Waits::Asked(asked) if asked.is_repeated() => self.ask_again(asked),
                Waits::Asked(asked) => events.push(What::Unknown(asked.op, "cut".to_owned())),
                Waits::Unsubscribe(timeline) => {
                    self.follows.remove(&timeline);
                    events.push(What::Unsubscribe(timeline));
                }
                _ => {}
            }
        }
        events
    }

    fn ask_again(&mut self, asked: Asked) {
        let is_again = true;
        self.again.insert(asked.op, Asked { is_again, ..asked });
    }

    /// What the history has to say of an answer.
    pub(crate) fn answered(&mut self, asked: Asked, reply: &Value) -> What {
        if let Some(error) = reply.get("error") {
            let reason = error["data"]["reason"]
                .as_str()
                .unwrap_or("none")
                .to_owned();
            if reason == "outcome_unknown" {
                let op = asked.op;
                if asked.is_repeated() {
                    self.ask_again(asked);
                }
                return What::Unknown(op, reason);
            }
            // A repeat that is not looked at says nothing of what was sent first.
            if asked.is_again && error["data"]["retry"] == true {
                return What::Unknown(asked.op, reason);
            }
            return What::Fail(asked.op, reason);
        }
        let refusal = |one: &Value| one["reason"].as_str().map(str::to_owned);
        let many = reply["result"]["timelines"].as_object();
        if let Some(reason) = many.and_then(|many| many.values().find_map(refusal)) {
            return What::Fail(asked.op, reason);
        }
        if asked.is_scheduled() {
            return What::Unknown(asked.op, "scheduled".to_owned());
        }
        let result = &reply["result"];
        let many = result["messages"].as_array();
        let mut answers = Vec::new();
        for (at, call) in asked.calls.iter().enumerate() {
            let one = many.filter(|_| asked.method == "message.append_batch");
            let one = one.map_or(result, |many| &many[at]);
            answers.push(self.answer(call, one));
        }
        What::Ok(asked.op, answers)
    }

    fn answer(&mut self, call: &Call, result: &Value) -> Answer {
        let mut answer = Answer::default();
        match call {
            Call::Append {
                timeline, entry, ..
            } => {
                answer.sequence = result["sequence"].as_u64();
                answer.timestamp = result["timestamp"].as_u64();
                self.appended += 1;
                let entry = entry.clone().unwrap_or_default();
                let sequence = answer.sequence.unwrap_or_default();
                self.saw(timeline, sequence);
                self.own.push((timeline.clone(), sequence, entry));
            }
            Call::Read { timeline, .. } => {
                answer.head = result["head"].as_u64();
                answer.messages = messages(&result["messages"]);
                self.saw(timeline, answer.head.unwrap_or_default());
            }
            Call::List { .. } => answer.conversations = conversations(&result["conversations"]),
            _ => {}
        }
        answer
    }

    pub(crate) fn saw(&mut self, timeline: &str, head: u64) {
        let known = self.heads.entry(timeline.to_owned()).or_default();
        *known = head.max(*known);
    }

    /// Pushed messages of a timeline that it follows: moves its place.
    pub(crate) fn shown(&mut self, timeline: &str, messages: &[Message]) {
        let last = messages.last().map_or(0, |last| last.sequence);
        self.saw(timeline, last);
        if let Some((after, _)) = self.follows.get_mut(timeline) {
            *after = last.max(*after);
        }
    }

    /// Has it nothing on its way?
    pub(crate) fn is_idle(&self) -> bool {
        self.line == Line::Up && self.waits.is_empty() && self.again.is_empty()
    }
}

/// Messages as the protocol writes them.
pub(crate) fn messages(value: &Value) -> Vec<Message> {
    serde_json::from_value(value.clone()).expect("messages")
}

/// Conversations likewise.
pub(crate) fn conversations(value: &Value) -> Vec<Conversation> {
    serde_json::from_value(value.clone()).expect("conversations")
}

/// What a client may ask next, by chance.
pub(crate) struct Chooser<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) timelines: &'a [String],
    pub(crate) users: &'a [String],
    pub(crate) clients: usize,
    pub(crate) calls: &'a [u64],
    pub(crate) sizes: (u64, u64),
    pub(crate) wall_ms: u64,
}

impl Chooser<'_> {
    /// A call of a client.
    pub(crate) fn call(&mut self, client: &mut Client) -> Asked {
        let timeline = self.random.one(self.timelines).clone();
        let mut at = self.random.below(self.calls.iter().sum());
        let is_it = |weight: &u64| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        };
        let chosen = self.calls.iter().position(is_it).unwrap_or_default();
        match CALLS[chosen].0 {
            Does::Append => self.append(client, &timeline, 1),
            Does::Batch => {
                let count = 2 + self.random.below(4);
                self.append(client, &timeline, count)
            }
            Does::Conditional => self.conditional(client, &timeline),
            Does::Schedule => self.scheduled(client, &timeline),
            Does::Read => self.read(client, &timeline),
            Does::Edit => self.edit(client, &timeline),
            Does::Mark => self.mark(client, &timeline),
            Does::Member => self.member(client, &timeline),
            Does::List => {
                let user = client.user.clone();
                let call = Call::List { user };
                asked(client, "conversation.list", json!({}), vec![call])
            }
        }
    }

    fn mark(&mut self, client: &mut Client, timeline: &str) -> Asked {
        let head = client.heads.get(timeline).copied().unwrap_or_default();
        let sequence = self.random.below(head + 1);
        let (user, timeline) = (client.user.clone(), timeline.to_owned());
        if comes_and_goes(&user, &timeline) {
            return self.read(client, &timeline);
        }
        let params = json!({"timeline": timeline, "read": sequence});
        let call = Call::Mark {
            user,
            timeline,
            sequence,
        };
        asked(client, "read.set", params, vec![call])
    }

    pub(crate) fn append(&mut self, client: &mut Client, timeline: &str, count: u64) -> Asked {
        let mut calls = Vec::new();
        let mut messages = Vec::new();
        for _ in 0..count {
            let number = client.number();
            let message_id = format!("{}-{number}", client.name);
            let (most, tenth) = self.sizes;
            let size = if self.random.percent(10) { tenth } else { most };
            let text = "x".repeat(self.random.below(size) as usize);
            let entry = json!({"n": client.number(), "text": text});
            messages.push(json!({"message_id": message_id, "entry": entry}));
            calls.push(Call::Append {
                timeline: timeline.to_owned(),
                message_id,
                sender: client.user.clone(),
                entry: Some(entry),
                digest: None,
                expect_head: None,
            });
        }
        if count > 1 {
            let params = json!({"timeline": timeline, "messages": messages});
            return asked(client, "message.append_batch", params, calls);
        }
        let mut params = messages.remove(0);
        params["timeline"] = timeline.into();
        asked(client, "message.append", params, calls)
    }

    fn conditional(&mut self, client: &mut Client, timeline: &str) -> Asked {
        let mut asked = self.append(client, timeline, 1);
        let head = client.heads.get(timeline).copied().unwrap_or_default();
        asked.params["expect_head"] = head.into();
        if let Call::Append { expect_head, .. } = &mut asked.calls[0] {
            *expect_head = Some(head);
        }
        asked
    }

    fn scheduled(&mut self, client: &mut Client, timeline: &str) -> Asked {
        let mut asked = self.append(client, timeline, 1);
        let due = *self.random.one(&[300, 4_000]);
        asked.params["deliver_at"] = (self.wall_ms + 50 + self.random.below(due)).into();
        asked
    }

    pub(crate) fn read(&mut self, client: &mut Client, timeline: &str) -> Asked {
        let head = client.heads.get(timeline).copied().unwrap_or_default();
        let from = 1 + self.random.below(head + 2);
        let params = json!({"timeline": timeline, "from": from, "limit": 20});
        let timeline = timeline.to_owned();
        asked(
            client,
            "message.range",
            params,
            vec![Call::Read { timeline, from }],
        )
    }

    fn edit(&mut self, client: &mut Client, timeline: &str) -> Asked {
        if client.own.is_empty() {
            return self.append(client, timeline, 1);
        }
        let at = self.random.below(client.own.len() as u64) as usize;
        let dies = self.random.percent(40);
        let (timeline, sequence, entry) = match dies {
            true => client.own.swap_remove(at),
            false => client.own[at].clone(),
        };
        let mut params = json!({"timeline": timeline, "sequence": sequence});
        let mut call = |entry, params| {
            let (timeline, digest) = (timeline.clone(), None);
            let method = if dies {
                "message.delete"
            } else {
                "message.update"
            };
            let call = Call::Edit {
                timeline,
                sequence,
                entry,
                digest,
            };
            asked(client, method, params, vec![call])
        };
        if dies {
            return call(None, params);
        }
        let version = self.random.next() >> 20;
        let mut entry = entry;
        entry["v"] = version.into();
        params["set"] = json!({"v": version});
        call(Some(entry), params)
    }

    fn member(&mut self, client: &mut Client, timeline: &str) -> Asked {
        let user = self.random.one(self.users).clone();
        let timeline = timeline.to_owned();
        // One client alone has a say, so that the order of what it asks is the order of what happens.
        let owner = letters(&user, &timeline) as usize / 2 % self.clients;
        if client.name != format!("c{owner}") {
            return self.append(client, &timeline, 1);
        }
        if !comes_and_goes(&user, &timeline) || self.random.percent(60) {
            let params = json!({"timeline": timeline, "members": [{"user": user, "read": 0}]});
            return asked(
                client,
                "member.add",
                params,
                vec![Call::Join { user, timeline }],
            );
        }
        let params = json!({"timeline": timeline, "users": [user]});
        asked(
            client,
            "member.remove",
            params,
            vec![Call::Leave { user, timeline }],
        )
    }
}

/// Who leaves loses what was read, so these mark nothing: with both at once nothing is certain.
pub(crate) fn comes_and_goes(user: &str, timeline: &str) -> bool {
    letters(user, timeline) % 2 == 1
}

fn letters(user: &str, timeline: &str) -> u32 {
    user.bytes().chain(timeline.bytes()).map(u32::from).sum()
}

fn asked(client: &mut Client, method: &'static str, params: Value, calls: Vec<Call>) -> Asked {
    let op = client.number();
    Asked {
        op,
        method,
        params,
        calls,
        is_again: false,
    }
}
