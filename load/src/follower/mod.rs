//! A connection that follows timelines: the protocol's client loop, for every profile and check that subscribes.
//!
//! Owns: the connection, a position in each timeline, joining, leaving, being cut, resuming. Promises: it reads all
//! that comes; of each reply and push it checks that timeline, epoch and state are the right ones, that each message is
//! the one after the last, and that heads fit; anything else is a fault, and comes out all the same. Must not: mend
//! anything, keep messages, or allocate for a push: some profiles read millions a second on the server's own machine.
//!
//! Use: `new`, `connect`, `join` each, then `read` in a loop, which hands on [`Event`]s and faults. After a lost
//! connection, `connect` and `join` go on from the positions. One without timelines is a connection for the caller's
//! own requests.

mod heard;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use tokio::time::Instant;

use self::heard::News;
use crate::client::frame::texts;
use crate::client::pipe::{Pipe, Way};
use crate::client::request::DRAINING;
use crate::client::rpc::{Answer, open, put_request};
pub(crate) use heard::{Event, Heard};

/// Request numbers: below are joins (the number of the place), from here on leaves.
const LEAVE: u64 = 1 << 32;
/// From here on they are the caller's own.
pub(crate) const OWN: u64 = 1 << 33;
/// The timelines of a run, for all threads: as a slice, their names.
pub(crate) struct Timelines {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The first that any follower was given.
    epochs: Vec<OnceLock<String>>,
}

impl Timelines {
    /// Those with these names.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Arc<Timelines> {
        let names: Vec<String> = names.into_iter().collect();
        Arc::new(Timelines {
            numbers: names.iter().cloned().zip(0..).collect(),
            epochs: vec![OnceLock::new(); names.len()],
            names,
        })
    }

    /// The number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The epoch of a timeline, once a follower was given it.
    pub(crate) fn epoch(&self, timeline: usize) -> Option<&str> {
        self.epochs[timeline].get().map(String::as_str)
    }

    /// Whether this is the epoch that all followers were given; the first one makes it so.
    pub(crate) fn is_epoch(&self, timeline: usize, epoch: &str) -> bool {
        self.epochs[timeline].get_or_init(|| epoch.to_owned()) == epoch
    }
}

impl Deref for Timelines {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.names
    }
}

pub(crate) struct Follower {
    /// Its user, if it has one.
    pub(crate) user: Option<String>,
    places: Places,
    pipe: Option<Pipe>,
    /// What has come of a text in fragments.
    parts: Vec<u8>,
    out: Vec<u8>,
}

/// How far it is in each of its timelines.
struct Places {
    timelines: Arc<Timelines>,
    /// By timeline.
    all: Vec<Place>,
}

/// How far a follower is in one timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) timeline: usize,
    /// The last number that came.
    pub(crate) position: u64,
    /// The head when the subscription began.
    head: u64,
    pub(crate) stage: Stage,
}

/// How far a subscription is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is none.
    #[default]
    Out,
    /// It is asked for.
    Joining,
    /// It is answered: pushes may come.
    Live,
    /// Its end is asked for: pushes may still come.
    Leaving,
}

impl Follower {
    /// One that follows these timelines, from their beginnings; not connected yet.
    pub(crate) fn new(
        timelines: &Arc<Timelines>,
        follows: impl IntoIterator<Item = usize>,
    ) -> Follower {
        let place = |timeline| Place {
            timeline,
            ..Place::default()
        };
        let mut all: Vec<Place> = follows.into_iter().map(place).collect();
        all.sort_by_key(|place| place.timeline);
        let timelines = Arc::clone(timelines);
        Follower {
            user: None,
            places: Places { timelines, all },
            pipe: None,
            parts: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Connects, in place of the connection it had.
    pub(crate) async fn connect(&mut self, url: &str, way: Way) -> io::Result<()> {
        self.cut();
        self.pipe = Some(open(url, way, self.user.as_deref()).await?);
        Ok(())
    }

    /// Drops the connection, as a network does that is gone.
    pub(crate) fn cut(&mut self) {
        self.pipe = None;
        self.parts.clear();
        self.out.clear();
        for place in &mut self.places.all {
            place.stage = Stage::Out;
        }
    }

    /// The timelines it follows, and how far it is.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places.all
    }

    /// Asks for a subscription from its position, with at most `limit` messages in the reply.
    pub(crate) fn join(&mut self, number: usize, limit: Option<u64>) {
        let Places { timelines, all } = &mut self.places;
        let place = &mut all[number];
        place.stage = Stage::Joining;
        let name = &timelines[place.timeline];
        let mut params = json!({ "timeline": name, "after": place.position });
        if let Some(epoch) = timelines.epoch(place.timeline) {
            params["epoch"] = epoch.into();
        }
        if let Some(limit) = limit {
            params["limit"] = limit.into();
        }
        put_request(&mut self.out, number as u64, "subscribe", &params);
    }

    /// Asks for the end of one.
    pub(crate) fn leave(&mut self, number: usize) {
        let Places { timelines, all } = &mut self.places;
        all[number].stage = Stage::Leaving;
        let params = json!({ "timeline": timelines[all[number].timeline] });
        put_request(&mut self.out, LEAVE + number as u64, "unsubscribe", &params);
    }

    /// Where the caller puts frames of its own requests, for the next `read` to send.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what there is to send, waits until something comes, and hands all of that to `each`, whose errors are
    /// faults; faults go to `fault`. Cancel-safe. It is an error if there is no connection any more
    /// (`frame::close_code` reads a goodbye).
    pub(crate) async fn read(
        &mut self,
        mut each: impl FnMut(Event<'_>) -> Result<(), String>,
        mut fault: impl FnMut(String),
    ) -> io::Result<()> {
        let (places, parts) = (&mut self.places, &mut self.parts);
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let texts = |bytes: &[u8], out: &mut Vec<u8>| {
            let now = Instant::now();
            texts(bytes, out, parts, |text| {
                if let Err(what) = places.take(text, now, &mut each) {
                    let text = String::from_utf8_lossy(text);
                    fault(format!("{what}, with {text:.300}"));
                }
            })
        };
        pipe.exchange(&mut self.out, texts).await
    }
}

impl Places {
    /// A text came: it moves the positions and goes to `each`. The error is what is wrong with it.
    fn take(
        &mut self,
        text: &[u8],
        now: Instant,
        each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        if let Some(answer) = Answer::read(text) {
            return match answer.id.checked_sub(OWN) {
                Some(number) => each(Event::Answered(number, &answer, now)),
                None => self.answered(&answer, now, each),
            };
        }
        let Some(news) = News::pushed(text) else {
            let is_end = text.starts_with(DRAINING.as_bytes());
            return each(if is_end {
                Event::Draining
            } else {
                Event::Other
            });
        };
        let place = self.find(&news.timeline);
        let place = &mut self.all[place.ok_or("a push of a timeline that is not followed")?];
        if matches!(place.stage, Stage::Out | Stage::Joining) {
            return Err("a push outside of a subscription".into());
        }
        if self.timelines.epoch(place.timeline) != Some(&news.epoch) {
            return Err("a push of another epoch".into());
        }
        hear(place, &news, true, now, each)
    }

    /// The place of a timeline.
    fn find(&self, name: &str) -> Option<usize> {
        // A subscriber of a room has one timeline only: it does without a search.
        if let [only] = &*self.all {
            return (self.timelines[only.timeline] == name).then_some(0);
        }
        let timeline = self.timelines.number(name)?;
        let at = |place: &Place| place.timeline;
        self.all.binary_search_by_key(&timeline, at).ok()
    }

    /// A reply to a subscribe or an unsubscribe.
    fn answered(
        &mut self,
        answer: &Answer<'_>,
        now: Instant,
        each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let expected = match answer.id {
            ..LEAVE => Stage::Joining,
            _ => Stage::Leaving,
        };
        let place = self.all.get_mut((answer.id % LEAVE) as usize);
        let place = place.filter(|place| place.stage == expected);
        let place = place.ok_or("a reply to what was not asked")?;
        place.stage = Stage::Out;
        let result = match &answer.outcome {
            Err(refusal) => return each(Event::Refused(refusal)),
            Ok(_) if expected == Stage::Leaving => return Ok(()),
            Ok(result) => serde_json::from_slice::<News>(result),
        };
        let news = result.map_err(|odd| format!("not what subscribe answers: {odd}"))?;
        let (timeline, after, head) = (place.timeline, place.position, news.head);
        (place.stage, place.head) = (Stage::Live, head);
        each(Event::Joined {
            timeline,
            after,
            head,
        })?;
        let (name, epoch, state) = (&news.timeline, &news.epoch, news.state.as_deref());
        let same = self.timelines[timeline] == **name && self.timelines.is_epoch(timeline, epoch);
        if !same || state != Some("ok") {
            return Err(format!(
                "subscribed after {after}: {state:?}, {name}, epoch {epoch}"
            ));
        }
        hear(place, &news, false, now, each)?;
        let (last, more) = (place.position, news.more);
        if more != Some(last < head) {
            return Err(format!("it ends at {last} of {head}, more: {more:?}"));
        }
        Ok(())
    }
}

/// Messages came for a place.
fn hear(
    place: &mut Place,
    news: &News<'_>,
    live: bool,
    now: Instant,
    each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let after = place.position;
    let heard = Heard::read(place, news.messages, live, now)?;
    if heard.count > 0 {
        each(Event::Heard(&heard))?;
    } else if live {
        return Err("a push without messages".into());
    }
    let (first, last) = (heard.first, heard.last);
    if !heard.in_order {
        return Err(format!("{first} to {last} came after {after}"));
    }
    if news.head < last {
        return Err(format!("head {} below {last}", news.head));
    }
    Ok(())
}
