//! A live user's two devices: one is pushed to, the other polls. Both keep a store, read now and then, and come again.
//!
//! Owns: the client's loop of PROTOCOL.md for all of a user's conversations. Promises: a device is through when it has
//! all that its user may see, or nothing comes for too long, which is a loss. Must not: mend a hole.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::store::Store;
use super::{ALTERED, Crowd, LOST, UNREAD};
use crate::client::rpc::{CallError, Client, Message, read};
use crate::exit::Stop;
use crate::random::Random;
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
    polls: bool,
    random: Random,
    /// When the server last did what it was asked for.
    heard: Instant,
    /// What was missing last, and since when.
    missing: (u64, Instant),
    /// A `read.set` that is not answered yet.
    unsettled: Option<(usize, u64)>,
    /// A subscription ended that is to be begun again.
    is_broken: bool,
}

/// The lives of both.
pub(super) fn both(crowd: &Crowd, nick: usize) -> [impl Future<Output = Result<(), Stop>>; 2] {
    [("pushed", false), ("polling", true)].map(|(device, polls)| {
        let now = Instant::now();
        let device = Device {
            store: Store {
                crowd,
                nick,
                device,
                places: BTreeMap::new(),
            },
            polls,
            random: Random::new(crowd.run.seed_of(nick as u64 * 2 + u64::from(polls))),
            heard: now,
            missing: (u64::MAX, now),
            unsettled: None,
            is_broken: false,
        };
        device.live()
    })
}

/// What an answer says of a timeline.
#[derive(Debug, Deserialize)]
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

impl News {
    /// It was refused, as what concerns a conversation may be whose stay has ended.
    fn is_gone(&self) -> bool {
        let reason = self.reason.as_deref();
        reason.is_some_and(|why| GONE.contains(&why))
    }
}

#[derive(Deserialize)]
struct Several {
    timelines: HashMap<String, News>,
}

impl Device<'_> {
    async fn live(mut self) -> Result<(), Stop> {
        let run = &self.store.crowd.run;
        while !self.is_through() {
            let lived = self.session().await;
            run.add("reconnects", 1);
            let Err(error) = lived else { continue };
            if let CallError::Refused(refusal) = &error
                && !refusal.may_repeat()
            {
                self.store.wrong(LOST, refusal);
            }
            wait(self.heard, &error).await?;
        }
        let missing = self.store.missing();
        if missing > 0 {
            let what = format_args!("{missing} messages did not come");
            self.store.wrong(LOST, what);
        }
        run.checks.made("devices through", 1);
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

    /// One connection's life; without error it ended by itself.
    async fn session(&mut self) -> Result<(), CallError> {
        let (crowd, device) = (self.store.crowd, self.store.device);
        let client = &mut Client::open(&crowd.run.url).await?;
        let user = &crowd.plan.nicks[self.store.nick];
        client.become_user(json!({ "user": user, "device": device }));
        if !self.polls {
            self.is_broken = false;
            let places = self.store.places.values_mut();
            places.for_each(|place| place.last = None);
            let params = json!({ "conversations": true, "device": device, "rewind": REWIND });
            let _: IgnoredAny = self.ask(client, "subscribe", params).await?;
        }
        loop {
            if self.polls {
                self.poll(client).await?;
            } else if self.random.below(4) == 0 {
                let params = json!({ "device": device, "positions": self.untold() });
                let _: IgnoredAny = self.ask(client, "position.set", params).await?;
                self.know();
            }
            self.read(client).await?;
            // Only now: before the first call the answer to the session is still to come.
            let pause = Duration::from_millis(50 + self.random.below(400));
            if let Ok(lost) = timeout(pause, client.hear(|text| self.hear(text))).await {
                return Err(CallError::Lost(lost.to_string()));
            }
            if self.is_through() || self.is_broken || self.random.below(50) == 0 {
                return Ok(());
            }
        }
    }

    /// Asks, and hears what is pushed meanwhile.
    async fn ask<R: DeserializeOwned>(
        &mut self,
        client: &mut Client,
        method: &str,
        params: Value,
    ) -> Result<R, CallError> {
        let asked = client.call_hearing(method, params, |text| self.hear(text));
        let result = asked.await?;
        self.heard = Instant::now();
        Ok(result)
    }

    /// All that is stored is acknowledged: only what is behind it may come.
    async fn poll(&mut self, client: &mut Client) -> Result<(), CallError> {
        let params = json!({
            "device": self.store.device,
            "ack": self.untold(),
            "rewind": REWIND,
            "limit": 500,
            "wait_ms": 300,
        });
        let reply: Several = self.ask(client, "sync", params).await?;
        self.know();
        for (name, news) in reply.timelines {
            if let Err(odd) = self.synced(&name, &news) {
                self.store.wrong(ALTERED, format_args!("{name}: {odd}"));
            }
        }
        Ok(())
    }

    /// What a poll says of a timeline.
    fn synced(&mut self, name: &str, news: &News) -> Result<(), String> {
        let room = self.take(name, news)?;
        let state = news.state.as_deref();
        // A user that left sees nothing of it any more.
        let mut stays = self.store.crowd.plan.stays_in(self.store.nick, room);
        let left = state == Some("deleted") && stays.any(|stay| !stay.lasts());
        if left || matches!(state, Some("ok" | "new" | "too_old")) {
            return Ok(());
        }
        Err(format!("its state is {state:?}"))
    }

    /// Stores what came of a timeline. Returns its room.
    fn take(&mut self, name: &str, news: &News) -> Result<usize, String> {
        let crowd = self.store.crowd;
        let room = crowd.timelines.number(name);
        let room = room.ok_or("a timeline of others")?;
        if let Some(epoch) = &news.epoch {
            crowd.is_epoch(room, epoch);
        }
        self.store.take(room, &news.messages);
        Ok(room)
    }

    /// A text that is no answer.
    fn hear(&mut self, text: &[u8]) {
        if let Err(odd) = self.pushed(text) {
            let text = String::from_utf8_lossy(text);
            let what = format_args!("{odd}, with {text:.300}");
            self.store.wrong(ALTERED, what);
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
        let push: Push<'_> = read(text)?;
        let params = push.params.get().as_bytes();
        match &*push.method {
            "message" => {
                let news: News = read(params)?;
                let name = news.timeline.as_deref();
                self.take(name.unwrap_or_default(), &news)?;
            }
            "subscribed" => {
                for (name, news) in read::<Several>(params)?.timelines {
                    if self.ends(&name) {
                        return Err("a second subscription".into());
                    }
                    if news.reason.is_some() && !news.is_gone() {
                        return Err("refused".into());
                    }
                    self.take(&name, &news)?;
                }
            }
            "subscription.ended" => {
                let ended: Ended = read(params)?;
                self.is_broken |= ended.resubscribe;
                self.ends(&ended.timeline);
            }
            "conversation.changed" | "draining" => {}
            _ => return Err("an unknown push".into()),
        }
        Ok(())
    }

    /// Forgets what the subscription of a timeline has brought. Returns whether that was anything.
    fn ends(&mut self, name: &str) -> bool {
        let room = self.store.crowd.timelines.number(name);
        let place = room.and_then(|room| self.store.places.get_mut(&room));
        place.is_some_and(|place| place.last.take().is_some())
    }

    /// What is stored and not known to the server yet: the next call says it.
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

    /// The server took what that call said.
    fn know(&mut self) {
        let places = self.store.places.values_mut();
        places.for_each(|place| place.known = place.told);
    }

    /// Now and then says that all of a room is read; what is not answered is asked again, so that the outcome is known.
    async fn read(&mut self, client: &mut Client) -> Result<(), CallError> {
        let any = self.random.below(self.store.places.len() as u64) as usize;
        let is_time = self.random.below(6) == 0;
        let place = self.store.places.iter().nth(any).filter(|_| is_time);
        let chosen = place.map(|(room, place)| (*room, place.position));
        let Some((room, position)) = self.unsettled.or(chosen) else {
            return Ok(());
        };
        self.unsettled = Some((room, position));
        let crowd = self.store.crowd;
        let name = &crowd.timelines[room];
        let params = json!({ "timeline": name, "read": position });
        let reply: Several = self.ask(client, "read.set", params).await?;
        self.unsettled = None;
        let news = reply.timelines.get(name);
        let read = news.and_then(|news| news.read);
        if read >= Some(position) {
            let mut reads = crowd.reads.borrow_mut();
            let known = reads.entry((self.store.nick, room)).or_default();
            *known = position.max(*known);
            crowd.run.checks.made("reads", 1);
        } else if !news.is_some_and(News::is_gone) {
            let what = format_args!("{name}: read {position} was answered by {news:?}");
            self.store.wrong(UNREAD, what);
        }
        Ok(())
    }
}
