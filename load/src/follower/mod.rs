//! A connection that follows timelines: the protocol's client loop, for every profile and check that subscribes.
//!
//! Owns: the connection, a position in each timeline, joining, leaving, being cut, resuming. Promises: it reads all
//! that comes; of each reply and push it checks that timeline, epoch and state are the right ones, that each message is
//! the one after the last, and that heads fit; anything else is a fault, and comes out all the same. Must not: mend
//! anything, keep messages, or allocate for a push: some profiles read millions a second on the server's own machine.
//!
//! Use: `new`, `connect`, `join_all`, then `read` in a loop, each call followed by `faults`; the caller gets
//! [`Event`]s. After a lost connection, `connect` and `join_all` go on from the positions. One without timelines is a
//! connection for the caller's own requests.

mod heard;
mod push;
mod timelines;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use self::heard::Origin;
use crate::frame::Lean;
use crate::rpc::{Answer, put_request};
pub use heard::{Event, Heard, Message};
pub use timelines::Timelines;

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(20);
/// More faults of one read say nothing new.
const FAULTS_MAX: usize = 20;
/// Request numbers: below are joins (the number of the place), from here on leaves.
const LEAVE: u64 = 1 << 32;
/// From here on they are the caller's own.
pub const OWN: u64 = 1 << 33;

/// See the top.
pub struct Follower {
    timelines: Arc<Timelines>,
    /// By timeline.
    places: Vec<Place>,
    socket: Option<Lean>,
    out: Vec<u8>,
    faults: Vec<String>,
}

/// One timeline of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which.
    pub timeline: usize,
    /// The last number that came.
    pub position: u64,
    /// Whether it is subscribed.
    pub stage: Stage,
}

/// How far a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    Out,
    /// It is asked for.
    Joining,
    /// It is answered: pushes may come.
    Live,
    /// Its end is asked for: pushes may still come.
    Leaving,
}

#[derive(Serialize)]
struct Subscribe<'a> {
    timeline: &'a str,
    after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Unsubscribe<'a> {
    timeline: &'a str,
}

#[derive(Deserialize)]
struct Subscribed<'a> {
    #[serde(borrow)]
    timeline: Cow<'a, str>,
    #[serde(borrow)]
    epoch: Cow<'a, str>,
    head: u64,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    more: bool,
    #[serde(borrow)]
    state: Cow<'a, str>,
}

impl Follower {
    /// One that follows these timelines, from their beginnings; not connected yet.
    #[must_use]
    pub fn new(timelines: &Arc<Timelines>, follows: impl IntoIterator<Item = usize>) -> Follower {
        let place = |timeline| Place {
            timeline,
            position: 0,
            stage: Stage::Out,
        };
        let mut places: Vec<Place> = follows.into_iter().map(place).collect();
        places.sort_by_key(|place| place.timeline);
        Follower {
            timelines: Arc::clone(timelines),
            places,
            socket: None,
            out: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Connects, in place of the connection it had. With `receive_bytes`, the server notices soon when it stops
    /// reading.
    ///
    /// # Errors
    ///
    /// There is no server.
    pub async fn connect(&mut self, url: &str, receive_bytes: Option<u32>) -> io::Result<()> {
        self.cut();
        let opening = async {
            match receive_bytes {
                None => Lean::open(url).await,
                Some(bytes) => Lean::open_narrow(url, bytes).await,
            }
        };
        self.socket = Some(timeout(CONNECT, opening).await??);
        Ok(())
    }

    /// Drops the connection, as a network does that is gone.
    pub fn cut(&mut self) {
        self.socket = None;
        self.out.clear();
        for place in &mut self.places {
            place.stage = Stage::Out;
        }
    }

    /// The timelines it follows, and how far it is.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Whether all of its subscriptions are answered.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.places.iter().all(|place| place.stage == Stage::Live)
    }

    /// Asks for all subscriptions, from its positions.
    pub fn join_all(&mut self) {
        (0..self.places.len()).for_each(|place| self.join(place, None));
    }

    /// Asks for one, with at most `limit` messages in the reply.
    pub fn join(&mut self, place: usize, limit: Option<u64>) {
        let Place {
            timeline, position, ..
        } = self.places[place];
        self.places[place].stage = Stage::Joining;
        let params = Subscribe {
            timeline: &self.timelines[timeline],
            after: position,
            epoch: self.timelines.epoch(timeline),
            limit,
        };
        put_request(&mut self.out, place as u64, "subscribe", &params);
    }

    /// Asks for the end of one.
    pub fn leave(&mut self, place: usize) {
        self.places[place].stage = Stage::Leaving;
        let timeline = &self.timelines[self.places[place].timeline];
        let params = Unsubscribe { timeline };
        put_request(&mut self.out, LEAVE + place as u64, "unsubscribe", &params);
    }

    /// Where the caller puts frames of its own requests, for the next `read` to send.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what there is to send, waits until something comes, and hands all of that to `each`, whose errors are
    /// faults. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection ended (`frame::close_code` reads a goodbye), or there is none.
    pub async fn read(
        &mut self,
        mut each: impl FnMut(Event<'_>) -> Result<(), String>,
    ) -> io::Result<()> {
        let Follower {
            timelines,
            places,
            socket,
            out,
            faults,
        } = self;
        let socket = socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut now = None;
        let take = |text: &[u8]| {
            let now = *now.get_or_insert_with(Instant::now);
            if let Err(what) = take(timelines, places, text, now, &mut each)
                && faults.len() < FAULTS_MAX
            {
                let text = String::from_utf8_lossy(text);
                faults.push(format!("{what}, with {text:.300}"));
            }
        };
        socket.exchange(out, take).await
    }

    /// Takes the faults since the last call.
    pub fn faults(&mut self) -> impl Iterator<Item = String> {
        self.faults.drain(..)
    }
}

/// A text came: it moves the positions and goes to `each`. The error is what is wrong with it.
fn take(
    timelines: &Timelines,
    places: &mut [Place],
    text: &[u8],
    now: Instant,
    each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
) -> Result<(), String> {
    if let Some(answer) = Answer::read(text) {
        return match answer.id.checked_sub(OWN) {
            Some(number) => each(Event::Answered(number, &answer, now)),
            None => answered(timelines, places, &answer, now, each),
        };
    }
    let Some(found) = push::read(text) else {
        return each(Event::Other(text));
    };
    let place = find(timelines, places, &found.timeline);
    let place = place.ok_or("a push of a timeline that is not followed")?;
    if matches!(place.stage, Stage::Out | Stage::Joining) {
        return Err("a push outside of a subscription".into());
    }
    if timelines.epoch(place.timeline) != Some(&found.epoch) {
        return Err("a push of another epoch".into());
    }
    let after = std::mem::replace(&mut place.position, found.last);
    let heard = Heard {
        timeline: place.timeline,
        after,
        first: found.first,
        last: found.last,
        timestamp: found.timestamp,
        in_order: found.in_order && found.first == after + 1,
        now,
        origin: Origin::Push(text),
    };
    hand_on(heard, found.head, each)
}

/// The place of a timeline.
fn find<'a>(timelines: &Timelines, places: &'a mut [Place], name: &str) -> Option<&'a mut Place> {
    // A subscriber of a room has one timeline only: it does without a search.
    let at = match &*places {
        [only] => (timelines[only.timeline] == name).then_some(0)?,
        _ => {
            let timeline = timelines.number(name)?;
            let at = places.binary_search_by_key(&timeline, |place| place.timeline);
            at.ok()?
        }
    };
    places.get_mut(at)
}

fn hand_on(
    heard: Heard<'_>,
    head: u64,
    each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
) -> Result<(), String> {
    each(Event::Heard(&heard))?;
    let Heard {
        after, first, last, ..
    } = heard;
    if !heard.in_order {
        return Err(format!("{first} to {last} came after {after}"));
    }
    if head < last {
        return Err(format!("head {head} below {last}"));
    }
    Ok(())
}

/// A reply to a subscribe or an unsubscribe.
fn answered(
    timelines: &Timelines,
    places: &mut [Place],
    answer: &Answer<'_>,
    now: Instant,
    each: &mut impl FnMut(Event<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let place = places.get_mut((answer.id % LEAVE) as usize);
    let expected = if answer.id < LEAVE {
        Stage::Joining
    } else {
        Stage::Leaving
    };
    let place = place.filter(|place| place.stage == expected);
    let place = place.ok_or("a reply to what was not asked")?;
    let timeline = place.timeline;
    place.stage = Stage::Out;
    let result = match &answer.outcome {
        Err(refusal) => return each(Event::Refused(timeline, refusal)),
        Ok(_) if expected == Stage::Leaving => return Ok(()),
        Ok(result) => serde_json::from_slice::<Subscribed>(result),
    };
    let Subscribed {
        timeline: name,
        epoch,
        head,
        messages,
        more,
        state,
    } = result.map_err(|odd| format!("not what subscribe answers: {odd}"))?;
    place.stage = Stage::Live;
    let after = place.position;
    each(Event::Joined {
        timeline,
        after,
        head,
    })?;
    let same = timelines.is_epoch(timeline, &epoch);
    if state != "ok" || !same || timelines[timeline] != *name {
        return Err(format!(
            "subscribed after {after}: {state}, {name}, epoch {epoch}"
        ));
    }
    let last = messages.last().map_or(after, |message| message.sequence);
    if more != (last < head) {
        return Err(format!("it ends at {last} of {head}, more: {more}"));
    }
    let Some((first, timestamp)) = messages.first().map(|one| (one.sequence, one.timestamp)) else {
        return Ok(());
    };
    place.position = last;
    let heard = Heard {
        timeline,
        after,
        first,
        last,
        timestamp,
        in_order: messages.iter().map(|one| one.sequence).eq(after + 1..=last),
        now,
        origin: Origin::Reply(messages),
    };
    hand_on(heard, head, each)
}
