//! A live user's two devices: one is pushed to, the other polls. Both keep a store, read now and then, and come again.
//!
//! Owns: the client's loop of PROTOCOL.md for all of a user's conversations. Promises: a device is through when it has
//! all that its user may see, or nothing comes for too long, which is a loss. Must not: mend a hole.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::store::Store;
use super::{Crowd, Wrong};
use crate::exit::Stop;
use crate::random::Random;
use crate::rpc::{CallError, Client, Message, read};
use crate::run::Phase;
use crate::trial::wait;

/// A device without a position takes all that there is: no log is longer by much, and it looks often.
const REWIND: u64 = 1_000;
/// Without news for this long after the last line a device gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// What an ended stay may be answered with: not a member, and no timeline for others.
const GONE: [&str; 3] = ["not_a_member", "member_not_found", "timeline_not_found"];

struct Device<'a> {
    store: Store<'a>,
    name: &'static str,
    random: Random,
    /// When the server last did what it was asked for.
    heard: Instant,
    /// What was missing last, and since when.
    missing: (u64, Instant),
    /// By room: the last number of this connection's subscription.
    live: HashMap<usize, u64>,
    /// A `read.set` that is not answered yet.
    unsettled: Option<(usize, u64)>,
    /// A subscription ended that is to be begun again.
    is_broken: bool,
}

/// The lives of both.
pub(super) fn both(crowd: &Crowd, nick: usize) -> [impl Future<Output = Result<(), Stop>>; 2] {
    [("pushed", 0), ("polling", 1)].map(|(name, number)| {
        let now = Instant::now();
        let device = Device {
            store: Store::new(crowd, nick),
            name,
            random: Random::new(crowd.run.seed_of(nick as u64 * 2 + number)),
            heard: now,
            missing: (u64::MAX, now),
            live: HashMap::new(),
            unsettled: None,
            is_broken: false,
        };
        device.live()
    })
}

/// What is told of a timeline.
#[derive(Deserialize)]
struct News {
    /// In pushes.
    timeline: Option<String>,
    epoch: Option<String>,
    #[serde(default)]
    messages: Vec<Message>,
    state: Option<String>,
    /// It was refused.
    reason: Option<String>,
    /// In answers to `read.set`.
    read: Option<u64>,
}

#[derive(Deserialize)]
struct Several {
    timelines: HashMap<String, News>,
}

impl Device<'_> {
    async fn live(mut self) -> Result<(), Stop> {
        let crowd = self.store.crowd;
        while !self.is_through() {
            let lived = match self.name {
                "pushed" => self.listen().await,
                _ => self.poll().await,
            };
            crowd.run.add("reconnects", 1);
            let Err(error) = lived else { continue };
            if let CallError::Refused(refusal) = &error
                && !refusal.may_repeat()
            {
                crowd.wrong(Wrong::Lost, format_args!("{}: {refusal}", self.name));
            }
            wait(self.heard, &error).await?;
        }
        let missing = self.store.missing();
        if missing > 0 {
            let (nick, name) = (&crowd.plan.nicks[self.store.nick], self.name);
            let what = format_args!("{nick}, {name}: {missing} messages did not come");
            crowd.wrong(Wrong::Lost, what);
        }
        crowd.run.checks.made("devices through", 1);
        Ok(())
    }

    /// Whether nothing more is to come, or comes.
    fn is_through(&mut self) -> bool {
        if self.store.crowd.run.phase() != Phase::Ending {
            return false;
        }
        let missing = self.store.missing();
        if missing != self.missing.0 {
            self.missing = (missing, Instant::now());
        }
        missing == 0 || self.missing.1.elapsed() > PATIENCE
    }

    async fn connect(&self) -> Result<Client, CallError> {
        let crowd = self.store.crowd;
        let mut client = Client::open(&crowd.run.url).await?;
        let user = &crowd.plan.nicks[self.store.nick];
        client.become_user(&json!({ "user": user, "device": self.name }));
        Ok(client)
    }

    /// One connection's life that is pushed to; without error it ended by itself.
    async fn listen(&mut self) -> Result<(), CallError> {
        let mut client = self.connect().await?;
        self.live.clear();
        self.is_broken = false;
        let params = json!({ "conversations": true, "device": self.name, "rewind": REWIND });
        let subscribed = client.call_hearing("subscribe", params, |text| self.hear(text));
        let _: IgnoredAny = subscribed.await?;
        loop {
            self.heard = Instant::now();
            let pause = Duration::from_millis(100 + self.random.below(400));
            if let Ok(lost) = timeout(pause, client.hear(|text| self.hear(text))).await {
                return Err(CallError::Lost(lost.to_string()));
            }
            if self.is_through() || self.is_broken || self.random.below(40) == 0 {
                return Ok(());
            }
            if self.random.below(4) == 0 {
                let params = json!({ "device": self.name, "positions": self.untold() });
                let set = client.call_hearing("position.set", params, |text| self.hear(text));
                let _: IgnoredAny = set.await?;
                self.know();
            }
            self.read(&mut client).await?;
        }
    }

    /// One connection's life that polls; without error it ended by itself.
    async fn poll(&mut self) -> Result<(), CallError> {
        let mut client = self.connect().await?;
        loop {
            let params = json!({
                "device": self.name,
                "ack": self.untold(),
                "rewind": REWIND,
                "limit": 500,
                "wait_ms": 300,
            });
            let reply: Several = client.call("sync", params).await?;
            self.heard = Instant::now();
            self.know();
            for (name, news) in reply.timelines {
                match self.room(&name) {
                    Some(room) => self.synced(room, &news),
                    None => self.odd(format_args!("a reply with {name}")),
                }
            }
            if self.is_through() || self.random.below(60) == 0 {
                return Ok(());
            }
            self.read(&mut client).await?;
            sleep(Duration::from_millis(50 + self.random.below(250))).await;
        }
    }

    /// What a poll says of a room. All that was stored is acknowledged: only what is behind it may come.
    fn synced(&mut self, room: usize, news: &News) {
        let (state, position) = (news.state.as_deref(), self.store.position(room));
        // Who left sees nothing of it any more.
        let mut stays = self.store.crowd.plan.stays_in(self.store.nick, room);
        let left = state == Some("deleted") && stays.any(|stay| !stay.lasts());
        if !left && !matches!(state, Some("ok" | "new" | "too_old")) {
            let what = format!("its state is {state:?}");
            self.store.wrong(Wrong::Lost, room, what);
        }
        if let Some(first) = news.messages.first()
            && first.sequence <= position
        {
            let what = format!("{} comes again behind {position}", first.sequence);
            self.store.wrong(Wrong::Doubled, room, what);
        }
        self.take(room, news);
    }

    fn take(&mut self, room: usize, news: &News) {
        if let Some(epoch) = &news.epoch {
            self.store.crowd.is_epoch(room, epoch);
        }
        self.store.take(room, &news.messages);
    }

    /// A text that is no answer.
    fn hear(&mut self, text: &[u8]) {
        if let Err(odd) = self.pushed(text) {
            let text = String::from_utf8_lossy(text);
            self.odd(format_args!("{odd}, with {text:.300}"));
        }
    }

    fn pushed(&mut self, text: &[u8]) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Push<'a> {
            #[serde(borrow)]
            method: Cow<'a, str>,
            #[serde(borrow)]
            params: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Ended {
            timeline: String,
            resubscribe: bool,
        }
        let push: Push<'_> = serde_json::from_slice(text).map_err(|odd| odd.to_string())?;
        let params = push.params.get().as_bytes();
        match &*push.method {
            "message" => {
                let news: News = read(params)?;
                let name = news.timeline.as_deref().unwrap_or_default();
                let room = self.room(name).ok_or("a timeline of others")?;
                self.in_order(room, &news.messages);
                self.take(room, &news);
            }
            "subscribed" => {
                let several: Several = read(params)?;
                for (name, news) in several.timelines {
                    let room = self.room(&name).ok_or("a timeline of others")?;
                    if self.live.remove(&room).is_some() {
                        return Err("a second subscription".into());
                    }
                    let reason = news.reason.as_deref();
                    if reason.is_some_and(|why| !GONE.contains(&why)) {
                        return Err("refused".into());
                    }
                    self.in_order(room, &news.messages);
                    self.take(room, &news);
                }
            }
            "subscription.ended" => {
                let ended: Ended = read(params)?;
                self.is_broken |= ended.resubscribe;
                if let Some(room) = self.room(&ended.timeline) {
                    self.live.remove(&room);
                }
            }
            "conversation.changed" | "draining" => {}
            _ => return Err("an unknown push".into()),
        }
        Ok(())
    }

    /// A subscription pushes each number once: none comes again, also not below what is stored.
    fn in_order(&mut self, room: usize, messages: &[Message]) {
        for message in messages {
            let next = message.sequence;
            let Some(last) = self.live.insert(room, next) else {
                continue;
            };
            if next <= last {
                let what = format!("{next} was pushed behind {last}");
                self.store.wrong(Wrong::Doubled, room, what);
            } else if !self.store.follows(room, last, next) {
                let what = format!("{next} was pushed next to {last}");
                self.store.wrong(Wrong::Lost, room, what);
            }
        }
    }

    /// What is stored and not known to the server, which is told so.
    fn untold(&mut self) -> Map<String, Value> {
        let (timelines, mut untold) = (&self.store.crowd.timelines, Map::new());
        for (room, place) in &mut self.store.places {
            place.told = place.position;
            if place.known < place.told {
                let position = json!({ "epoch": timelines.epoch(*room), "after": place.told });
                untold.insert(timelines[*room].clone(), position);
            }
        }
        untold
    }

    /// The server took what it was told.
    fn know(&mut self) {
        let places = self.store.places.values_mut();
        places.for_each(|place| place.known = place.told);
    }

    /// Now and then says that all of a room is read; what is not answered is asked again, so that the outcome is known.
    async fn read(&mut self, client: &mut Client) -> Result<(), CallError> {
        let any = self.random.below(self.store.places.len() as u64) as usize;
        let is_time = self.random.below(6) == 0;
        let place = self.store.places.iter().nth(any).filter(|_| is_time);
        let chosen = || place.map(|(room, place)| (*room, place.position));
        let Some((room, position)) = self.unsettled.or_else(chosen) else {
            return Ok(());
        };
        self.unsettled = Some((room, position));
        let crowd = self.store.crowd;
        let name = &crowd.timelines[room];
        let params = json!({ "timeline": name, "read": position });
        let set = client.call_hearing("read.set", params, |text| self.hear(text));
        let reply: Several = set.await?;
        self.unsettled = None;
        let Some(News { read, reason, .. }) = reply.timelines.get(name) else {
            self.odd(format_args!("read.set without {name}"));
            return Ok(());
        };
        if read.is_some_and(|read| read >= position) {
            let mut reads = crowd.reads.borrow_mut();
            let known = reads.entry((self.store.nick, room)).or_default();
            *known = position.max(*known);
            crowd.run.checks.made("reads", 1);
        } else if reason.as_deref().is_none_or(|why| !GONE.contains(&why)) {
            let what = format!("read {position} was answered by {read:?}, {reason:?}");
            self.store.wrong(Wrong::Unread, room, what);
        }
        Ok(())
    }

    fn room(&self, name: &str) -> Option<usize> {
        self.store.crowd.timelines.number(name)
    }

    fn odd(&self, what: std::fmt::Arguments<'_>) {
        let crowd = self.store.crowd;
        let (nick, name) = (&crowd.plan.nicks[self.store.nick], self.name);
        crowd.wrong(Wrong::Altered, format_args!("{nick}, {name}: {what}"));
    }
}
