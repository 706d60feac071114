//! `tideline follow TIMELINE...`: what comes, as it comes.
//!
//! Owns: the client's loop over connections, of which `place.rs` has the rule. Promises: each message is shown once, in
//! order, over restarts of the server; what can't be shown is reported. Must not: write anything to the server.

use std::collections::{HashMap, VecDeque};

use clap::Args;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::address::At;
use super::failure::{Failure, Refusal};
use super::message::{Kind, Message, Source, event, tell};
use super::pace::Pace;
use super::plain::json;
use super::screen::{Form, Look, Screen, note, unread};
use super::session::{Heard, Session, parsed};
use place::{Begun, Place, Start, Subscribed};

mod place;

/// What to follow.
#[derive(Debug, Args)]
pub struct Follow {
    /// The timelines' IDs.
    #[arg(value_name = "TIMELINE", required = true)]
    timelines: Vec<String>,
    /// Begin behind this sequence: 0 is the beginning.
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "rewind")]
    after: Option<u64>,
    /// Begin with so many of the newest messages of each.
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rewind: u64,
    /// Make a timeline that is not there, in place of an error.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

/// One of the timelines.
struct Followed {
    name: String,
    place: Place,
    has_ended: bool,
}

struct Follower {
    what: Follow,
    screen: Screen,
    followed: Vec<Followed>,
    pace: Pace,
}

/// Parts that a message grew by.
#[derive(Deserialize)]
struct Grown {
    timeline: Option<String>,
    sequence: u64,
    parts: u64,
    text: String,
}

#[derive(Deserialize)]
struct Pushed {
    timeline: String,
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
    change_head: Option<u64>,
    reason: Option<String>,
    resubscribe: Option<bool>,
    meta: Option<Box<RawValue>>,
}

/// Subscriptions that are asked for at a time: what both ends may send before they read.
const AT_ONCE: usize = 16;

impl Follow {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let start = self.after.map_or(Start::Rewind(self.rewind), Start::After);
        let mut names = self.timelines.clone();
        names.sort_unstable();
        names.dedup();
        let followed = names.into_iter().map(|name| Followed {
            name,
            place: Place::new(start),
            has_ended: false,
        });
        let mut follower = Follower {
            followed: followed.collect(),
            screen: Screen::new(&self.form),
            pace: Pace::default(),
            what: self,
        };
        let stop = |kind| signal(kind).map_err(|error| Failure::Wrong(error.to_string()));
        let (mut interrupt, mut terminate) = (
            stop(SignalKind::interrupt())?,
            stop(SignalKind::terminate())?,
        );
        tokio::select! {
            done = follower.run() => done,
            gone = unread() => Err(gone),
            // There is no other end, so this one is no failure.
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    }
}

impl Follower {
    async fn run(&mut self) -> Result<(), Failure> {
        loop {
            let ended = match Session::open(&self.what.at).await {
                Ok(mut session) => self.listen(&mut session).await,
                Err(failure) => Err(failure),
            };
            match ended {
                Err(Failure::Away { why, back_in }) => self.wait(&why, back_in).await,
                Err(Failure::Refused(refusal)) if refusal.may_retry() => {
                    self.wait(&refusal.to_string(), refusal.retry_after()).await;
                }
                Err(failure) => return Err(failure),
                Ok(()) => return Err(Failure::Wrong("nothing is left to follow".into())),
            }
        }
    }

    async fn wait(&mut self, why: &str, back_in: Option<std::time::Duration>) {
        let wait = self.pace.next();
        let wait = back_in.unwrap_or(wait);
        self.pace.say(why, wait);
        sleep(wait).await;
    }

    /// Follows all over one connection, to its end. `Ok` = no timeline is left.
    async fn listen(&mut self, session: &mut Session) -> Result<(), Failure> {
        let left = |(_, one): &(usize, &Followed)| !one.has_ended;
        let mut waiting: VecDeque<usize> = self
            .followed
            .iter()
            .enumerate()
            .filter(left)
            .map(|(at, _)| at)
            .collect();
        let mut asked: HashMap<u64, usize> = HashMap::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some(at) = waiting.pop_front()
            {
                let one = &self.followed[at];
                let params = one.place.asked(&one.name, self.what.create);
                asked.insert(session.ask("subscribe", &params).await?, at);
            }
            if self.followed.iter().all(|one| one.has_ended) {
                return Ok(());
            }
            let again = match session.next().await? {
                Heard::Reply(id, result) => match asked.remove(&id) {
                    Some(at) => self.replied(at, result)?.then_some(at),
                    None => None,
                },
                Heard::Push(method, params) => self.pushed(&method, &params)?,
            };
            waiting.extend(again);
            self.screen.flush()?;
        }
    }

    /// Whether to subscribe once more.
    fn replied(
        &mut self,
        at: usize,
        result: Result<Box<RawValue>, Refusal>,
    ) -> Result<bool, Failure> {
        let one = &mut self.followed[at];
        let raw = match result {
            Ok(raw) => raw,
            Err(refusal) if refusal.may_retry() || !one.place.has_begun() => {
                return Err(Failure::Refused(refusal).about(&one.name));
            }
            Err(refusal) => {
                note(&format!("{}: {refusal}", one.name));
                one.has_ended = true;
                return Ok(false);
            }
        };
        let reply: Subscribed = parsed(&raw)?;
        let first = reply
            .messages
            .first()
            .map(|raw| parsed::<Message>(raw))
            .transpose()?;
        let begun = one
            .place
            .subscribed(&reply, first.map(|first| first.sequence));
        let begun = begun.map_err(|failure| failure.about(&one.name))?;
        self.pace.reset();
        let (name, floor) = (one.name.clone(), reply.floor);
        match begun {
            Begun::There => {}
            Begun::Later => self.say_state(
                &name,
                "too_old",
                &format!("messages before #{floor} are gone, and were not shown"),
            )?,
            Begun::Anew => {
                self.say_state(
                    &name,
                    "epoch_changed",
                    "the history is another one now; it follows from its start",
                )?;
                return Ok(true);
            }
        }
        self.show(at, Kind::New, &reply.messages)?;
        self.show(at, Kind::Changed, &reply.changed)?;
        for raw in &reply.grown {
            self.show_grown(at, raw, &parsed(raw)?)?;
        }
        Ok(false)
    }

    /// Which timeline to subscribe once more, if one.
    fn pushed(&mut self, method: &str, raw: &RawValue) -> Result<Option<usize>, Failure> {
        let kind = match method {
            "message" => Kind::New,
            "message.changed" => Kind::Changed,
            "reaction" => Kind::Reacted,
            "timeline.changed" | "subscription.ended" => return self.happened(method, raw),
            "message.extended" => {
                let grown: Grown = parsed(raw)?;
                let at = grown
                    .timeline
                    .as_deref()
                    .and_then(|name| self.place_of(name));
                if let Some(at) = at {
                    self.show_grown(at, raw, &grown)?;
                }
                return Ok(None);
            }
            // Of a newer server.
            _ => return Ok(None),
        };
        let pushed: Pushed = parsed(raw)?;
        let Some(at) = self.place_of(&pushed.timeline) else {
            return Ok(None);
        };
        self.show(at, kind, &pushed.messages)?;
        let place = &mut self.followed[at].place;
        place.changed_to(pushed.change_head.unwrap_or(0));
        Ok(None)
    }

    fn happened(&mut self, method: &str, raw: &RawValue) -> Result<Option<usize>, Failure> {
        let pushed: Pushed = parsed(raw)?;
        let Some(at) = self.place_of(&pushed.timeline) else {
            return Ok(None);
        };
        let reason = pushed.reason.unwrap_or_default();
        if self.screen.json {
            self.screen.line(&event(method, &[], raw))?;
        } else if let Some(meta) = pushed.meta {
            self.say(&pushed.timeline, &format!("meta {}", json(&meta)))?;
        } else {
            self.say(&pushed.timeline, &format!("ended: {reason}"))?;
        }
        if method != "subscription.ended" {
            return Ok(None);
        }
        let one = &mut self.followed[at];
        if matches!(reason.as_str(), "epoch_changed" | "deleted") {
            one.place.forget();
        }
        match pushed.resubscribe.unwrap_or(false) {
            true => Ok(Some(at)),
            false => {
                one.has_ended = true;
                Ok(None)
            }
        }
    }

    fn place_of(&self, timeline: &str) -> Option<usize> {
        let found = |one: &Followed| one.name == timeline && !one.has_ended;
        self.followed.iter().position(found)
    }

    /// What a program has to know of a timeline, too.
    fn say_state(&mut self, timeline: &str, state: &str, text: &str) -> Result<(), Failure> {
        if self.screen.json {
            let state = to_raw_value(&serde_json::json!({ "state": state })).expect("JSON");
            return self
                .screen
                .line(&event("state", &[("timeline", timeline)], &state));
        }
        self.say(timeline, text)
    }

    /// What is no message, on a line of its own.
    fn say(&mut self, timeline: &str, text: &str) -> Result<(), Failure> {
        let name = self.screen.part(Look::Timeline, timeline);
        let line = format!("-- {name} {}", self.screen.part(Look::Dim, text));
        self.screen.line(&line)
    }

    /// Shows how a message goes on.
    fn show_grown(&mut self, at: usize, raw: &RawValue, grown: &Grown) -> Result<(), Failure> {
        let is_one_of_many = self.followed.len() > 1;
        let Followed { name, place, .. } = &mut self.followed[at];
        place.showed(grown.sequence, Some(grown.parts));
        if self.screen.json {
            let of = [("timeline", name.as_str()), ("epoch", place.epoch())];
            let of = if grown.timeline.is_some() {
                &[][..]
            } else {
                &of
            };
            return self.screen.line(&event("message.extended", of, raw));
        }
        let of = if is_one_of_many {
            self.screen.part(Look::Timeline, name) + " "
        } else {
            String::new()
        };
        let start = of
            + &self
                .screen
                .part(Look::Dim, &format!("+#{}", grown.sequence))
            + " ";
        self.screen.grow((at, grown.sequence), &start, &grown.text)
    }

    /// Shows messages of one timeline that are new, or changes.
    fn show(&mut self, at: usize, kind: Kind, messages: &[Box<RawValue>]) -> Result<(), Failure> {
        let is_one_of_many = self.followed.len() > 1;
        let Followed { name, place, .. } = &mut self.followed[at];
        for raw in messages {
            let message: Message = parsed(raw)?;
            if kind == Kind::New && !place.take(message.sequence)? {
                continue;
            }
            let parts = message.open.then(|| message.parts.unwrap_or(0));
            let shown = match kind {
                // It says nothing of the text.
                Kind::Reacted => None,
                _ => place.showed(message.sequence, parts),
            };
            let source = Source {
                timeline: name,
                epoch: place.epoch(),
                is_one_of_many,
            };
            let is_whole = shown.is_some() && parts.is_none() && shown == message.parts;
            let kind = if kind == Kind::Changed && is_whole {
                Kind::Ended
            } else {
                kind
            };
            tell(&mut self.screen, kind, &source, raw, &message)?;
            if kind != Kind::New {
                place.changed_to(message.change.unwrap_or(0));
            }
        }
        Ok(())
    }
}
