//! Subscribers that are cut again and again and go on where they were.
//!
//! Owns: their positions. Promises: from the first subscription to the end each message must come once, in order, over
//! all connections of a subscriber; at the end it must have come as far as was acknowledged. Must not: look into
//! entries; that is `replay`'s and `crash`'s matter.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit::Stop;
use crate::frame::{Lean, put_text};
use crate::machine::wall_micros;
use crate::push::{self, Messages, Push};
use crate::random::Random;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};
use crate::template::timeline_name;

/// How long a subscriber may take to subscribe, and to catch up at the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often one that waits for the end looks whether it is there.
const LOOK: Duration = Duration::from_millis(100);

/// All subscribers of a run.
pub(super) struct Audience {
    run: Rc<Run>,
    prefix: Rc<str>,
    cut_seconds: f64,
    deliveries: Rc<Recorder>,
    connected: Rc<Cell<f64>>,
    /// Subscribers that have all subscriptions, at least once.
    live: Cell<usize>,
    /// How long each timeline became, once all is written.
    lengths: RefCell<Option<Vec<u64>>>,
    ended: Cell<Ended>,
}

/// What they did, in the measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// Messages that were delivered.
    pub(super) messages: u64,
    /// Connections that were cut.
    pub(super) cuts: u64,
    /// Subscriptions that went on from a position.
    pub(super) resumed: u64,
}

/// One subscription.
struct Sub {
    timeline: u64,
    name: String,
    epoch: Option<String>,
    position: u64,
    live: bool,
}

struct Subscriber {
    audience: Rc<Audience>,
    number: usize,
    subs: Vec<Sub>,
    by_name: HashMap<String, usize>,
    random: Random,
}

#[derive(Deserialize)]
struct Reply {
    id: usize,
    result: Option<Subscribed>,
}

#[derive(Deserialize)]
struct Subscribed {
    epoch: String,
    state: String,
    messages: Vec<Numbered>,
}

#[derive(Deserialize)]
struct Numbered {
    sequence: u64,
}

impl Audience {
    pub(super) fn new(run: &Rc<Run>, prefix: &Rc<str>, cut_seconds: f64) -> Rc<Audience> {
        Rc::new(Audience {
            run: Rc::clone(run),
            prefix: Rc::clone(prefix),
            cut_seconds,
            deliveries: run.recorder("delivery", Counts::Ended),
            connected: run.gauge("subscribers"),
            live: Cell::new(0),
            lengths: RefCell::new(None),
            ended: Cell::default(),
        })
    }

    /// Waits until so many subscribers have their subscriptions.
    pub(super) async fn all_live(&self, count: usize) -> Result<(), Stop> {
        let until = Instant::now() + PATIENCE;
        while self.live.get() < count {
            if Instant::now() > until {
                let told = self.run.checks.checked().told;
                let why = told.first().cloned().unwrap_or_default();
                return Err(Stop::Unreachable(format!(
                    "subscribers did not come to be: {why}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// All is written: this is how long the timelines are.
    pub(super) fn written(&self, lengths: Vec<u64>) {
        *self.lengths.borrow_mut() = Some(lengths);
    }

    /// What they did.
    pub(super) fn ended(&self) -> Ended {
        self.ended.get()
    }

    fn count(&self, what: impl FnOnce(&mut Ended)) {
        if self.run.phase() == Phase::Measuring {
            let mut ended = self.ended.get();
            what(&mut ended);
            self.ended.set(ended);
        }
    }

    /// One subscriber's life.
    pub(super) async fn follow(self: Rc<Audience>, number: usize, timelines: Vec<u64>) {
        let subs: Vec<Sub> = timelines
            .into_iter()
            .map(|timeline| Sub {
                timeline,
                name: timeline_name(&self.prefix, timeline),
                epoch: None,
                position: 0,
                live: false,
            })
            .collect();
        let by_name = subs
            .iter()
            .enumerate()
            .map(|(at, sub)| (sub.name.clone(), at))
            .collect();
        let mut subscriber = Subscriber {
            random: Random::new(self.run.seed_of((1 << 38) + number as u64)),
            audience: self,
            number,
            subs,
            by_name,
        };
        subscriber.live().await;
    }
}

impl Subscriber {
    async fn live(&mut self) {
        let mut first = true;
        loop {
            let audience = Rc::clone(&self.audience);
            let ended = self.session(first).await;
            audience.connected.set(audience.connected.get() - 1.0);
            match ended {
                Ok(true) => return,
                Ok(false) => audience.count(|ended| ended.cuts += 1),
                Err(error) => {
                    let checks = &audience.run.checks;
                    return checks.fault(format_args!("subscriber {}: {error}", self.number));
                }
            }
            first = false;
        }
    }

    /// One connection's life. True: all has come; false: it was cut.
    async fn session(&mut self, first: bool) -> io::Result<bool> {
        let audience = Rc::clone(&self.audience);
        audience.connected.set(audience.connected.get() + 1.0);
        let mut socket = timeout(PATIENCE, Lean::open(&audience.run.url)).await??;
        self.subscribe(&mut socket).await?;
        let mut unready = first;
        let cut_at = self.cut_at();
        let mut look = tokio::time::interval(LOOK);
        let mut waiting_since = None;
        loop {
            tokio::select! {
                read = socket.read(|text| self.take(text)) => read?,
                () = sleep_until(cut_at), if audience.run.phase() != Phase::Ending => {
                    return Ok(false);
                }
                _ = look.tick() => {}
            }
            if unready && self.subs.iter().all(|sub| sub.live) {
                unready = false;
                audience.live.set(audience.live.get() + 1);
            }
            if let Some(lengths) = &*audience.lengths.borrow() {
                let since = *waiting_since.get_or_insert_with(Instant::now);
                if self.arrived(lengths, since.elapsed() > PATIENCE) {
                    return Ok(true);
                }
            }
        }
    }

    fn cut_at(&mut self) -> Instant {
        let never = Duration::from_secs(1 << 33);
        let mean = self.audience.cut_seconds;
        // Between half and one and a half of the mean.
        let share = 0.5 + self.random.below(1_000) as f64 / 1_000.0;
        let after = if mean > 0.0 {
            Duration::from_secs_f64(mean * share)
        } else {
            never
        };
        Instant::now() + after
    }

    async fn subscribe(&mut self, socket: &mut Lean) -> io::Result<()> {
        let mut out = Vec::new();
        for (id, sub) in self.subs.iter_mut().enumerate() {
            sub.live = false;
            let mut params = serde_json::json!({ "timeline": sub.name, "after": sub.position });
            if let Some(epoch) = &sub.epoch {
                params["epoch"] = epoch.as_str().into();
            }
            let request = serde_json::json!(
                { "jsonrpc": "2.0", "id": id, "method": "subscribe", "params": params }
            );
            put_text(&mut out, request.to_string().as_bytes());
        }
        socket.write(&out).await
    }

    /// Whether everything has come, or it has been waited for long enough; then what is missing is a fault.
    fn arrived(&self, lengths: &[u64], impatient: bool) -> bool {
        let missing = |sub: &&Sub| !sub.live || sub.position != lengths[sub.timeline as usize];
        let first = self.subs.iter().find(missing);
        let checks = &self.audience.run.checks;
        match first {
            Some(_) if !impatient => return false,
            Some(sub) => {
                let (name, position) = (&sub.name, sub.position);
                let length = lengths[sub.timeline as usize];
                let number = self.number;
                checks.fault(format_args!(
                    "subscriber {number}: {name} came as far as {position} of {length}"
                ));
            }
            None => {}
        }
        checks.made("subscriptions up to the end", self.subs.len() as u64);
        true
    }

    fn take(&mut self, text: &[u8]) {
        let fault = match push::read(text) {
            Push::Messages(messages) => self.pushed(&messages),
            Push::Broken(messages) => Err(format!(
                "{}: a push from {} to {} has holes",
                messages.timeline, messages.first, messages.last
            )),
            Push::Other => self.replied(text),
        };
        if let Err(what) = fault {
            let number = self.number;
            self.audience
                .run
                .checks
                .fault(format_args!("subscriber {number}: {what}"));
        }
    }

    fn pushed(&mut self, messages: &Messages<'_>) -> Result<(), String> {
        let Messages {
            timeline,
            first,
            last,
            timestamp,
        } = messages;
        let sub = self
            .by_name
            .get(&**timeline)
            .and_then(|at| self.subs.get_mut(*at));
        let Some(sub) = sub.filter(|sub| sub.live) else {
            return Err(format!("{timeline}: a push outside of a subscription"));
        };
        let before = std::mem::replace(&mut sub.position, *last);
        let count = last - first + 1;
        let audience = &self.audience;
        audience.run.checks.made("messages pushed in order", count);
        audience.count(|ended| ended.messages += count);
        // The server's clock is this machine's, in ms.
        let took = Duration::from_micros(wall_micros().saturating_sub(timestamp * 1_000));
        let now = Instant::now();
        audience
            .deliveries
            .record(now.checked_sub(took).unwrap_or(now), now);
        if *first == before + 1 {
            Ok(())
        } else {
            Err(format!("{timeline}: {first} was pushed after {before}"))
        }
    }

    fn replied(&mut self, text: &[u8]) -> Result<(), String> {
        let odd = || format!("unexpected: {:.200}", String::from_utf8_lossy(text));
        let reply: Reply = serde_json::from_slice(text).map_err(|_| odd())?;
        let (Some(result), Some(sub)) = (reply.result, self.subs.get_mut(reply.id)) else {
            return Err(odd());
        };
        let Sub {
            name,
            epoch,
            position,
            live,
            ..
        } = sub;
        let resumed = epoch.is_some();
        let same = epoch.as_ref().is_none_or(|epoch| *epoch == result.epoch);
        let after = *position;
        let got = result.messages.len() as u64;
        let numbers = result.messages.iter().map(|message| message.sequence);
        let in_order = numbers.eq(after + 1..after + 1 + got);
        *position = result
            .messages
            .last()
            .map_or(after, |message| message.sequence);
        *epoch = Some(result.epoch);
        *live = true;
        let what = (result.state != "ok" || !same || !in_order).then(|| {
            format!(
                "{name}: subscribed after {after}: {}, in order: {in_order}",
                result.state
            )
        });
        let audience = &self.audience;
        audience.run.checks.made("messages resumed in order", got);
        audience.count(|ended| {
            ended.messages += got;
            ended.resumed += u64::from(resumed);
        });
        what.map_or(Ok(()), Err)
    }
}
