//! Subscriptions as server-sent events: from the query of a request to what it follows, and from pushes to events.
//!
//! Owns: the query, the IDs of events, and the dialect in which the pushes of a session become events. Promises: an ID
//! is the query by which a client goes on behind its event, and is short enough for a header; an event is one line of
//! data, which no text in it can end; what is unknown, given twice or out of place is refused by name. Must not: know a
//! socket, or who asks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as Unknown, StrDeserializer};

use super::check::{Check as _, NUMBER_MAX};
use super::dialect::{Dialect, Frames, Id};
use super::failure::Failure;
use super::limits::Limits;
use super::messages::entry::Integers;
use super::methods::{Reply, Request};
use super::params::page_default;
use super::people::position;
use super::push::Push;
use super::reasons::Reason;
use super::timelines::open_places::OpenPlaces;
use super::timelines::sync::{Start, Subscribe};
use tideline_base::decode::{self, query};
use tideline_model::timelines::Lane;

/// The dialect of server-sent events.
#[derive(Clone, Copy, Debug)]
pub struct Events;

/// The same, as a session has it.
pub static EVENTS: &dyn Dialect = &Events;

impl Dialect for Events {
    /// No handshake asks for it: lists of sessions name it.
    fn subprotocol(&self) -> &'static str {
        "tideline.v1.events"
    }

    fn frames(&self) -> Frames {
        Frames::None
    }

    /// Nothing is called, so nothing is answered.
    fn answer(&self, _: &mut Vec<u8>, _: &Id, _: Result<&Reply, &Failure>) {}

    fn push(&self, push: &Push<'_>) -> Bytes {
        let mut out = Vec::with_capacity(256);
        if let Push::Draining(draining) = push {
            out.extend_from_slice(&retry(draining.reconnect_in_ms));
        }
        for part in ["event: ", push.name(), "\ndata: "] {
            out.extend_from_slice(part.as_bytes());
        }
        serde_json::to_writer(&mut out, push).expect("our types have text names");
        out.extend_from_slice(b"\n\n");
        Bytes::from(out)
    }

    fn forms(&self) -> usize {
        2
    }

    fn form(&self, integers: Integers) -> usize {
        match integers {
            Integers::Number => 0,
            Integers::Text => 1,
        }
    }
}

/// A line that tells when to come back after the stream has ended.
#[must_use]
pub fn retry(in_ms: u64) -> Bytes {
    Bytes::from(format!("retry: {in_ms}\n"))
}

/// A sign of life.
pub static COMMENT: &[u8] = b":\n\n";

/// What a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// What it follows: `timelines`, or all conversations.
    pub subscribe: Subscribe,
    /// Of all conversations: the places that the address or the ID names. They count before what the device has stored.
    pub places: BTreeMap<String, Start>,
    /// The places of an ID that has no room for more: to be stored as the device's.
    pub stored: Option<position::Set>,
    /// How large integers come.
    pub integers: Integers,
    /// In place of a credential.
    pub ticket: Option<String>,
}

/// Bytes of an event's ID, at most. A stream of all conversations ends behind the event whose ID is longer.
pub const ID_BYTES_MAX: usize = 4_000;
/// From one event to the next an ID grows by so many bytes and those of one timeline, at most: proxies take headers of
/// 8 KiB.
pub const ID_GROWS_MAX: usize = 2_000;
/// What an ID says of a timeline beside its name.
const PLACE_BYTES: usize = 128;

/// About as many bytes as an ID has for a timeline, at most.
#[must_use]
pub fn place_bytes(timeline: &str) -> usize {
    id([(&timeline, &Start::default())]).len() + PLACE_BYTES
}

/// Reads the query of a request, and the ID of the last event that the client has. `None` = nothing of what it followed
/// goes on.
///
/// # Errors
/// What is wrong with it.
pub fn read(query: &str, last: Option<&str>, limits: &Limits) -> Result<Option<Asked>, Failure> {
    let mut asked = Reading::new("");
    asked.read(query)?;
    if let Some(last) = last.filter(|last| !last.is_empty()) {
        let mut behind = Reading::new(LAST_EVENT_ID);
        behind.read(last)?;
        behind.goes_on(&asked)?;
        if behind.is_over {
            return Ok(None);
        }
        asked.starts = behind.starts;
    }
    if asked.is_over {
        return Ok(None);
    }
    let starts: BTreeMap<String, Start> = asked.starts.into_iter().collect();
    let mut subscribe = asked.subscribe;
    let (mut places, mut stored) = (BTreeMap::new(), None);
    if subscribe.conversations == Some(true) {
        let Some(device) = subscribe.device.clone() else {
            let why = "name the device, whose positions the stream goes on from";
            return Err(Failure::invalid("device", why));
        };
        if !starts.is_empty() {
            let set = set(device, &starts, limits)?;
            match id(starts.iter()).len() > ID_BYTES_MAX {
                true => stored = Some(set),
                false => places = starts,
            }
        }
    } else if subscribe.conversations.is_none() {
        // By their names alone, so that a stream that has begun can also be gone on with.
        let bytes: usize = starts.keys().map(|name| place_bytes(name)).sum();
        if bytes > ID_BYTES_MAX {
            let why = "an event's ID does not hold so many positions: use several streams";
            let too_large = Failure::new(Reason::TooLarge).about("timeline").saying(why);
            return Err(too_large.over(ID_BYTES_MAX as u64, bytes as u64));
        }
        subscribe.timelines = (!starts.is_empty()).then_some(starts);
    }
    subscribe.check(limits)?;
    Ok(Some(Asked {
        subscribe,
        places,
        stored,
        integers: asked.integers,
        ticket: asked.ticket,
    }))
}

/// What a device has stored, as a call of it would say it.
fn set(
    device: String,
    starts: &BTreeMap<String, Start>,
    limits: &Limits,
) -> Result<position::Set, Failure> {
    let positions = serde_json::to_value(starts).and_then(decode::from);
    let mut set = position::Set {
        device,
        positions: positions
            .map_err(|_| Failure::invalid("timeline", "say after which message it is stored"))?,
        force: false,
    };
    set.check(limits)?;
    Ok(set)
}

/// The ID of an event behind which the client is in these places; with none it says that nothing goes on.
pub fn id<'a, T: AsRef<str> + 'a>(places: impl IntoIterator<Item = (&'a T, &'a Start)>) -> String {
    let mut out = String::new();
    for (timeline, start) in places {
        let separator = if out.is_empty() { "" } else { "&" };
        let _ = write!(out, "{separator}timeline=");
        query::encode(&mut out, timeline.as_ref());
        if let Some(epoch) = &start.epoch {
            let _ = write!(out, "&epoch={epoch}");
        }
        let numbers = [
            ("after", start.after),
            ("rewind", start.rewind),
            ("changes_after", start.changes_after),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                let _ = write!(out, "&{name}={number}");
            }
        }
    }
    match out.is_empty() {
        true => OVER.to_owned(),
        false => out,
    }
}

/// The header in which a client says behind which event it is.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
/// Says that nothing goes on.
const OVER: &str = "over";

/// A query, as far as it was read.
struct Reading {
    /// The header that it came in; empty = it is the address's.
    of: &'static str,
    starts: Vec<(String, Start)>,
    subscribe: Subscribe,
    integers: Integers,
    ticket: Option<String>,
    is_over: bool,
    /// Names that may be there once.
    seen: Vec<String>,
}

impl Reading {
    fn new(of: &'static str) -> Reading {
        Reading {
            of,
            starts: Vec::new(),
            subscribe: Subscribe {
                timeline: None,
                timelines: None,
                conversations: None,
                device: None,
                after: None,
                rewind: None,
                epoch: None,
                changes_after: None,
                open: OpenPlaces::default(),
                limit: page_default(),
                // An address makes nothing: any page can have a browser ask for one.
                create: false,
                with: Vec::new(),
                window_ms: None,
            },
            integers: Integers::default(),
            ticket: None,
            is_over: false,
            seen: Vec::new(),
        }
    }

    fn read(&mut self, query: &str) -> Result<(), Failure> {
        for (name, value) in query::pairs(query) {
            let read = match (name, value) {
                (OVER, None) => {
                    self.is_over = true;
                    Ok(())
                }
                (_, Some(value)) => self.take(name, value),
                (_, None) => Err(Failure::invalid(name, "not a value in an address")),
            };
            read.map_err(|failure| match self.of {
                "" => failure,
                of => failure.about(of),
            })?;
        }
        Ok(())
    }

    /// An ID names no other timelines than the address, if that names any.
    fn goes_on(&self, asked: &Reading) -> Result<(), Failure> {
        let is_asked = |name: &String| asked.starts.iter().any(|(one, _)| one == name);
        let mut names = self.starts.iter().map(|(name, _)| name);
        let is_own = asked.subscribe.conversations.is_some()
            || asked.starts.is_empty()
            || names.all(is_asked);
        match is_own && self.seen.is_empty() {
            true => Ok(()),
            false => Err(Failure::invalid(
                self.of,
                "not an ID of this stream's events",
            )),
        }
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), Failure> {
        if name == "timeline" {
            if self.starts.iter().any(|(one, _)| *one == value) {
                return Err(Failure::invalid(name, "a timeline is there twice"));
            }
            self.starts.push((value, Start::default()));
            return Ok(());
        }
        if name == "with" {
            return value.split(',').try_for_each(|one| self.with(one));
        }
        if let Some((_, start)) = self.starts.last_mut()
            && let Some(taken) = start_of(start, name, &value)
        {
            return taken;
        }
        once(name, self.seen.iter().all(|one| one != name))?;
        let subscribe = &mut self.subscribe;
        match name {
            "conversations" => subscribe.conversations = Some(boolean(name, &value)?),
            "device" => subscribe.device = Some(value),
            "rewind" => subscribe.rewind = Some(number(name, &value)?),
            "limit" => subscribe.limit = number(name, &value)?,
            "window_ms" => subscribe.window_ms = Some(number(name, &value)?),
            "integers" => self.integers = word(name, &value)?,
            "ticket" => self.ticket = Some(value),
            "after" | "epoch" | "changes_after" => {
                return Err(Failure::invalid(name, "it belongs behind its timeline"));
            }
            _ => return Err(Failure::invalid(name, "no such parameter")),
        }
        self.seen.push(name.to_owned());
        Ok(())
    }

    fn with(&mut self, name: &str) -> Result<(), Failure> {
        let lane: Lane = word("with", name)?;
        self.subscribe.with.push(lane);
        Ok(())
    }
}

/// Takes what says where a timeline begins; `None` = it is something else.
fn start_of(start: &mut Start, name: &str, value: &str) -> Option<Result<(), Failure>> {
    let place = match name {
        "after" => &mut start.after,
        "rewind" => &mut start.rewind,
        "changes_after" => &mut start.changes_after,
        "epoch" => {
            let before = start.epoch.replace(value.to_owned());
            return Some(once(name, before.is_none()));
        }
        _ => return None,
    };
    Some(number(name, value).and_then(|number| once(name, place.replace(number).is_none())))
}

fn once(name: &str, is_first: bool) -> Result<(), Failure> {
    match is_first {
        true => Ok(()),
        false => Err(Failure::invalid(name, "it is there twice")),
    }
}

fn number(name: &str, text: &str) -> Result<u64, Failure> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text
        .parse()
        .ok()
        .filter(|number| digits && *number <= NUMBER_MAX);
    number.ok_or_else(|| Failure::invalid(name, "not a number up to 2^53-1"))
}

fn boolean(name: &str, text: &str) -> Result<bool, Failure> {
    let parsed = text.parse();
    parsed.map_err(|_| Failure::invalid(name, "true or false"))
}

/// One of a few words.
fn word<'t, T: serde::Deserialize<'t>>(name: &str, text: &'t str) -> Result<T, Failure> {
    let from: StrDeserializer<'t, Unknown> = text.into_deserializer();
    decode::from(from).map_err(|unknown| Failure::invalid(name, unknown.to_string()))
}

impl Asked {
    /// The request that its limits count.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::Subscribe(Box::new(self.subscribe.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, last: Option<&str>) -> Result<Option<Asked>, String> {
        read(query, last, &Limits::DEFAULT).map_err(|failure| {
            let field = failure.field.unwrap_or_default();
            format!("{field}: {}", failure.message)
        })
    }

    fn start(epoch: &str, after: u64) -> Start {
        Start {
            after: Some(after),
            epoch: Some(epoch.to_owned()),
            changes_after: Some(2),
            ..Start::default()
        }
    }

    #[test]
    fn an_id_is_the_query_that_goes_on() {
        let places = [
            ("room 1".to_owned(), start("E1", 7)),
            ("b&c".to_owned(), start("E2", 0)),
        ];
        let id = id(places.iter().map(|(name, start)| (name, start)));
        assert_eq!(
            id,
            "timeline=room%201&epoch=E1&after=7&changes_after=2&timeline=b%26c&epoch=E2&after=0&changes_after=2"
        );
        let url = "timeline=room%201&after=3&timeline=b%26c&with=signals";
        let both = asked(url, Some(&id)).unwrap().unwrap();
        assert_eq!(both.subscribe.timelines, Some(places.into_iter().collect()));
        assert_eq!(both.subscribe.with, [Lane::Signals]);
        let alone = asked(&format!("{id}&with=signals"), None).unwrap().unwrap();
        assert_eq!(alone, both);
        let none = super::id(std::iter::empty::<(&String, &Start)>());
        assert_eq!(asked("timeline=a", Some(&none)), Ok(None));
        assert_eq!(asked(&none, None), Ok(None));
        let foreign = asked("timeline=a", Some(&id)).unwrap_err();
        assert_eq!(foreign, "Last-Event-ID: not an ID of this stream's events");
        assert!(asked("timeline=a", Some("timeline=a&after=1&limit=2")).is_err());
        let names = (0..27).map(|number| format!("room/{number:04}"));
        let places: Vec<_> = names
            .map(|name| (name, start("0b7cQ1p5", 70_000)))
            .collect();
        let url = places.iter().map(|(name, _)| format!("timeline={name}&"));
        let url: String = url.collect();
        assert!(asked(&url, None).is_ok());
        let full = super::id(places.iter().map(|(name, start)| (name, start)));
        assert!(asked(&url, Some(&full)).is_ok());
        assert!(
            asked("timeline=a", Some("17"))
                .unwrap_err()
                .starts_with("Last-Event-ID: ")
        );
    }

    #[test]
    fn the_device_of_conversations_says_what_it_has() {
        let url = "conversations=true&device=phone&rewind=5";
        let fresh = asked(url, None).unwrap().unwrap();
        assert!(fresh.subscribe.timelines.is_none() && fresh.stored.is_none());
        let behind = asked(url, Some("timeline=a&epoch=E1&after=7&changes_after=2"));
        let behind = behind.unwrap().unwrap();
        let place = ("a".to_owned(), start("E1", 7));
        assert_eq!(behind.places, BTreeMap::from([place]));
        assert!(behind.stored.is_none() && behind.subscribe.timelines.is_none());
        let many = (0..99).map(|number| (format!("timeline/{number:02}"), start("E1", number)));
        let many: Vec<_> = many.collect();
        let full = id(many.iter().map(|(name, start)| (name, start)));
        let full = asked(url, Some(&full)).unwrap().unwrap();
        let stored = full.stored.unwrap();
        let place = stored.positions.get(7).unwrap();
        assert_eq!(
            (place.timeline, place.epoch, place.after),
            ("timeline/07", Some("E1"), 7)
        );
        assert!(full.places.is_empty() && stored.positions.len() == 99);
        for lacking in ["timeline=a&epoch=E1", "timeline=a&after=7"] {
            assert!(asked(url, Some(lacking)).is_err(), "{lacking}");
        }
        assert!(
            asked("conversations=true", None)
                .unwrap_err()
                .starts_with("device: ")
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let many = "&timeline=0123456789".replace('9', "");
        let many: String = (0..40).map(|number| format!("{many}{number}")).collect();
        for (query, why) in [
            ("", "timeline: "),
            (
                "timeline=a&timeline=a",
                "timeline: a timeline is there twice",
            ),
            ("timeline=a&after=1&after=2", "after: it is there twice"),
            ("timeline=a&after=-1", "after: not a number"),
            ("timeline=a&after=9007199254740992", "after: not a number"),
            ("timeline=a&after=1&rewind=1", "timelines.a.rewind: either"),
            (
                "after=1&timeline=a",
                "after: it belongs behind its timeline",
            ),
            ("timeline=a&with=pings", "with: unknown variant"),
            ("timeline=a&limit=0", "limit: "),
            ("timeline=a&create=true", "create: no such parameter"),
            (
                "timeline=a&window_ms=9",
                "window_ms: only with parts in with",
            ),
            (
                "timeline=a&with=parts&window_ms=1.5",
                "window_ms: not a number",
            ),
            ("timeline=a&device=d", "device: only with conversations"),
            ("timeline=%ff", "timeline: not a value"),
            ("conversations=true&device=d&with=presence", "with: "),
            (&many, "timeline: an event's ID"),
        ] {
            let refused = asked(query, None).expect_err(query);
            assert!(refused.starts_with(why), "{query}: {refused}");
        }
    }
}
