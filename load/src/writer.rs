//! A writer: sends messages pipelined over one connection, keeps those unanswered in an outbox, and repeats them in
//! order.
//!
//! Owns: the client's half of "known outcome": after a lost connection or a refusal that allows it, the same messages
//! go out again with the same IDs. Promises: per timeline the order of the source is kept; a run ends only when every
//! message of the source is answered, or with the reason. Must not: hide a refusal that the protocol does not allow.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::exit::Stop;
use crate::follower::{Event, Follower, OWN, Timelines};
use crate::history::{Ack, Sent};
use crate::rpc::{Appended, Refusal, put_request};

/// The first few complaints tell the story; a broken server could give millions.
pub(crate) const COMPLAINTS_MAX: usize = 1_000;

/// How long the answer to `session.open` may take.
const ANSWER: Duration = Duration::from_secs(20);

/// One message to append.
pub struct Outgoing {
    /// Index of its timeline in the run's list.
    pub timeline: usize,
    /// Its message ID.
    pub id: String,
    /// Its entry, as JSON.
    pub entry: Box<RawValue>,
    /// Its digest.
    pub digest: u64,
    /// Append only behind this head.
    pub expect_head: Option<u64>,
}

/// Where messages come from.
pub trait Source: Send {
    /// The next message; `None` = none for now.
    fn next(&mut self) -> Option<Outgoing>;
    /// Nothing will come any more.
    fn finished(&self) -> bool;
}

/// What all writers and subscribers of a run share.
pub struct Shared {
    /// Where to connect.
    pub url: String,
    /// The timelines.
    pub timelines: Arc<Timelines>,
    /// Acknowledged messages, by timeline.
    pub progress: Vec<AtomicU64>,
    /// The writers are done: `progress` is how long each timeline is.
    pub written: AtomicBool,
    /// When the run began: the zero of all `_ns`.
    pub began: Instant,
    /// How long a server that is away is waited for.
    pub patience: Duration,
}

/// How one writer works.
pub struct Options {
    /// Its number in the histories.
    pub number: u32,
    /// The user its session opens as.
    pub user: String,
    /// Messages on the way at once.
    pub window: usize,
}

/// What a writer did.
#[derive(Default)]
pub struct Outcome {
    /// Every message it sent, by timeline, in order.
    pub sent: BTreeMap<usize, Vec<Sent>>,
    /// Broken promises that are seen here only.
    pub complaints: Vec<String>,
    /// Acknowledgements that said `duplicate`.
    pub duplicates: u64,
    /// Times the connection was lost.
    pub reconnects: u64,
    /// Refusals that allowed a repetition.
    pub refusals: u64,
}

struct Pending {
    message: Outgoing,
    /// The place of its record in `Outcome::sent[timeline]`.
    record: usize,
    on_the_way: bool,
}

struct Writer<'a> {
    shared: &'a Shared,
    options: Options,
    /// Sent and not answered, in the order of the source; the key is the request's number.
    outbox: BTreeMap<u64, Pending>,
    next: u64,
    on_the_way: usize,
    /// After a refusal: send nothing new before all is answered, then repeat in order.
    fence: Option<Duration>,
    outcome: Outcome,
}

#[derive(Serialize)]
struct Append<'a> {
    timeline: &'a str,
    entry: &'a RawValue,
    message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect_head: Option<u64>,
}

/// Sends all that `source` gives, whatever happens to the connection; ends when the source has finished and all is
/// answered.
pub async fn run(
    shared: Arc<Shared>,
    options: Options,
    mut source: impl Source,
) -> Result<Outcome, Stop> {
    let mut writer = Writer {
        shared: &shared,
        options,
        outbox: BTreeMap::new(),
        next: 1,
        on_the_way: 0,
        fence: None,
        outcome: Outcome::default(),
    };
    let mut backoff = Backoff::new(shared.patience);
    while !(source.finished() && writer.outbox.is_empty()) {
        if let Err(error) = writer.session(&mut source, &mut backoff).await {
            writer.outcome.reconnects += 1;
            backoff.wait(&error.to_string()).await?;
        }
    }
    Ok(writer.outcome)
}

impl Writer<'_> {
    /// One connection's life.
    async fn session(&mut self, source: &mut impl Source, backoff: &mut Backoff) -> io::Result<()> {
        self.on_the_way = 0;
        self.fence = None;
        for pending in self.outbox.values_mut() {
            pending.on_the_way = false;
        }
        let mut follower = Follower::new(&self.shared.timelines, []);
        follower.connect(&self.shared.url, None).await?;
        self.introduce(&mut follower).await?;
        self.repeat(follower.out());
        loop {
            if self.on_the_way == 0
                && let Some(pause) = self.fence.take()
            {
                tokio::time::sleep(pause).await;
                self.repeat(follower.out());
            }
            self.fill(follower.out(), source);
            if self.on_the_way == 0 {
                if source.finished() && self.outbox.is_empty() {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            }
            let read = follower.read(|event| self.take(&event)).await;
            follower.faults().for_each(|what| self.complain(what));
            read?;
            backoff.reset();
        }
    }

    /// Says who the session's user is, before anything is sent in this name.
    async fn introduce(&mut self, follower: &mut Follower) -> io::Result<()> {
        let user = json!({ "user": self.options.user });
        put_request(follower.out(), OWN, "session.open", &user);
        let mut opened = None;
        while opened.is_none() {
            let each = |event: Event<'_>| match event {
                Event::Answered(0, answer, _) => {
                    opened = Some(answer.result::<IgnoredAny>());
                    Ok(())
                }
                other => self.take(&other),
            };
            timeout(ANSWER, follower.read(each)).await??;
        }
        follower.faults().for_each(|what| self.complain(what));
        opened.map_or(Ok(()), |it| it.map(drop).map_err(io::Error::other))
    }

    /// Sends again, in order, what is not on the way.
    fn repeat(&mut self, out: &mut Vec<u8>) {
        for (id, pending) in &mut self.outbox {
            if !pending.on_the_way {
                pending.on_the_way = true;
                self.on_the_way += 1;
                pending.message.put(self.shared, *id, out);
            }
        }
    }

    /// Sends new messages while there is room.
    fn fill(&mut self, out: &mut Vec<u8>, source: &mut impl Source) {
        while self.fence.is_none() && self.on_the_way < self.options.window {
            let Some(message) = source.next() else { break };
            let records = self.outcome.sent.entry(message.timeline).or_default();
            records.push(Sent {
                id: message.id.clone(),
                writer: self.options.number,
                digest: message.digest,
                sent_ns: self.shared.now_ns(),
                ack: None,
                refused: false,
            });
            let pending = Pending {
                record: records.len() - 1,
                message,
                on_the_way: true,
            };
            let id = self.next;
            self.next += 1;
            self.on_the_way += 1;
            pending.message.put(self.shared, id, out);
            self.outbox.insert(id, pending);
        }
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Answered(id, ..) if !self.outbox.get(id).is_some_and(|one| one.on_the_way) => {
                Err(format!("a reply to {id}, which is not on the way"))
            }
            Event::Answered(id, answer, _) => match &answer.outcome {
                Ok(_) => self.acknowledged(*id, answer.result()),
                Err(refusal) => self.refused(*id, refusal),
            },
            draining if draining.is_draining() => Ok(()),
            other => other.expected(),
        }
    }

    fn acknowledged(&mut self, id: u64, answer: Result<Appended, String>) -> Result<(), String> {
        let at_ns = self.shared.now_ns();
        let Some(Pending {
            message, record, ..
        }) = self.outbox.remove(&id)
        else {
            return Ok(());
        };
        self.on_the_way -= 1;
        let appended = answer?;
        self.outcome.duplicates += u64::from(appended.duplicate);
        self.shared.progress[message.timeline].fetch_add(1, Ordering::Relaxed);
        if let Some(records) = self.outcome.sent.get_mut(&message.timeline) {
            records[record].ack = Some(Ack {
                sequence: appended.sequence,
                timestamp: appended.timestamp,
                at_ns,
            });
        }
        if appended.message_id != message.id {
            return Err(format!(
                "{} was acknowledged as {}",
                message.id, appended.message_id
            ));
        }
        Ok(())
    }

    fn refused(&mut self, id: u64, refusal: &Refusal) -> Result<(), String> {
        let Some(pending) = self.outbox.get_mut(&id) else {
            return Ok(());
        };
        pending.on_the_way = false;
        self.on_the_way -= 1;
        let timeline = pending.message.timeline;
        if let Some(records) = self.outcome.sent.get_mut(&timeline) {
            records[pending.record].refused = true;
        }
        // A conditional append behind a refused one of its timeline must fail too; it goes out again behind it.
        let reason = refusal.data.reason.as_str();
        let behind = reason == "condition_failed"
            && self
                .outbox
                .range(..id)
                .any(|(_, before)| before.message.timeline == timeline && !before.on_the_way);
        if refusal.data.retry || behind || reason == "outcome_unknown" {
            self.outcome.refusals += 1;
            let pause = refusal.data.retry_after_ms.unwrap_or(20).min(1_000);
            self.fence = Some(Duration::from_millis(pause));
            return Ok(());
        }
        self.outbox.remove(&id);
        let name = &self.shared.timelines[timeline];
        Err(format!("{name}: refused: {refusal}"))
    }

    fn complain(&mut self, what: String) {
        if self.outcome.complaints.len() < COMPLAINTS_MAX {
            self.outcome.complaints.push(what);
        }
    }
}

impl Outgoing {
    fn put(&self, shared: &Shared, id: u64, out: &mut Vec<u8>) {
        let append = Append {
            timeline: &shared.timelines[self.timeline],
            entry: &self.entry,
            message_id: &self.id,
            expect_head: self.expect_head,
        };
        put_request(out, OWN + id, "message.append", &append);
    }
}

impl Shared {
    /// What a run on these timelines shares.
    #[must_use]
    pub fn new(
        url: String,
        timelines: impl IntoIterator<Item = String>,
        patience: Duration,
    ) -> Arc<Shared> {
        let timelines = Timelines::new(timelines);
        Arc::new(Shared {
            url,
            progress: timelines.iter().map(|_| AtomicU64::new(0)).collect(),
            timelines,
            written: AtomicBool::new(false),
            began: Instant::now(),
            patience,
        })
    }

    /// ns since the run began.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Pauses between attempts to connect, longer each time, until the patience is used up.
pub struct Backoff {
    pause: Duration,
    waiting_since: Option<Instant>,
    patience: Duration,
}

impl Backoff {
    /// Starts with 10 ms, doubles up to 500 ms.
    #[must_use]
    pub fn new(patience: Duration) -> Backoff {
        Backoff {
            pause: Duration::from_millis(10),
            waiting_since: None,
            patience,
        }
    }

    /// The server answered.
    pub fn reset(&mut self) {
        *self = Backoff::new(self.patience);
    }

    /// Waits before the next attempt, or says that it has been long enough.
    pub async fn wait(&mut self, why: &str) -> Result<(), Stop> {
        let since = self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.patience {
            let patience = self.patience;
            return Err(Stop::Unreachable(format!(
                "no server for {patience:?}: {why}"
            )));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(500));
        Ok(())
    }
}
