//! The timelines of a run: filled in before it, counted meanwhile, read back at the end.
//!
//! Owns: what was acknowledged of them, and the scan of a stored timeline. Promises: each batch that goes in first is
//! acknowledged, or the run ends; a scan is what the server gave, in its order, and nothing mended. Must not: stop
//! early without saying so, or count what goes in first for a figure of the server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::generator::count;
use crate::client::pipe::Way;
use crate::client::rpc::{CallError, Client, Message};
use crate::client::template::timeline_name;
use crate::exit::Stop;
use crate::random::Random;
use crate::run::{Better, Run};

/// The reason of a refusal that names a timeline without messages.
pub(crate) const ABSENT: &str = "timeline_not_found";
/// Connections that set up, each with one call on the way.
const CONNECTIONS: u64 = 64;
/// Messages and bytes in a batch; the protocol's default limits are 100 and 1 MiB.
const BATCH_MAX: (usize, usize) = (100, 900_000);
/// Reading back ends after this time.
const READING_BACK: Duration = Duration::from_secs(60);

/// Messages that are to be there first: flags of a profile.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Stock {
    /// Append so many messages first, in batches
    #[arg(long, default_value_t = 0)]
    preload: u64,
    /// Spread evenly over so many timelines; the first ones have the remainder
    #[arg(long, default_value_t = 1_000_000, value_parser = count::<u64>)]
    preload_timelines: u64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 200)]
    pub(crate) size: usize,
    /// Messages carry no ID of the client's own: the server makes them
    #[arg(long)]
    pub(crate) no_message_ids: bool,
    /// Seconds between preloading and measuring
    #[arg(long, default_value_t = 0.0)]
    settle: f64,
    /// Names of the timelines begin so [default: one of this run's own]
    #[arg(long)]
    prefix: Option<String>,
}

impl Stock {
    /// What is there when it was filled in.
    pub(crate) fn tally(&self, run: &Run, kind: &str) -> Tally {
        let prefix = self.prefix.clone();
        let prefix = prefix.unwrap_or_else(|| run.prefix(kind));
        Tally::new(prefix, self.preload_timelines, self.preload)
    }

    /// Fills in, waits until the server has settled, and enters how fast it was.
    pub(crate) async fn fill(&self, run: &Run, tally: &Tally) -> Result<(), Stop> {
        if self.preload > 0 {
            let began = Instant::now();
            tally.fill(run, self.size, !self.no_message_ids).await?;
            let rate = self.preload as f64 / began.elapsed().as_secs_f64().max(0.001);
            run.figure("preloaded", self.preload as f64, "1", Better::Neither);
            run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
        }
        run.pass(self.settle).await;
        Ok(())
    }
}

#[derive(Serialize)]
struct Batch<'a> {
    timeline: &'a str,
    messages: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    entry: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

/// A tally that all connections share.
pub(crate) type Tallied = Rc<RefCell<Tally>>;

/// What the timelines of a run hold, as far as the run knows.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Their names begin so.
    pub(crate) prefix: String,
    /// Appends that were refused as `busy`.
    pub(crate) busy: u64,
    /// Acknowledged messages, by timeline.
    pub(crate) acked: Vec<u32>,
    /// The user that fills them in; without one, a back end.
    pub(crate) by: Option<String>,
}

impl Tally {
    /// So many timelines, with so many messages spread evenly.
    pub(crate) fn new(prefix: String, timelines: u64, messages: u64) -> Tally {
        let length = |timeline| messages.saturating_sub(timeline).div_ceil(timelines) as u32;
        Tally {
            prefix,
            acked: (0..timelines).map(length).collect(),
            ..Tally::default()
        }
    }

    pub(crate) fn name(&self, timeline: u64) -> String {
        timeline_name(&self.prefix, timeline)
    }

    /// Messages of all timelines.
    pub(crate) fn total(&self) -> u64 {
        self.acked.iter().map(|count| u64::from(*count)).sum()
    }

    /// Appends all that it says, perhaps with message IDs.
    pub(crate) async fn fill(&self, run: &Run, size: usize, ids: bool) -> Result<(), Stop> {
        run.tell("filling timelines");
        let entry = &json!({ "text": Random::new(run.seed).text(size) });
        let (messages_max, bytes_max) = BATCH_MAX;
        let most = (bytes_max / (entry.to_string().len() + 100)).clamp(1, messages_max);
        let (user, count) = (self.by.as_deref(), self.acked.len() as u64);
        spread(run, user, count, async |client, timeline| {
            let name = &self.name(timeline);
            let id = |number| format!("{}-p{timeline}-{number}", run.tag);
            let one = |number| One {
                entry,
                message_id: ids.then(|| id(number)),
            };
            let length = self.acked[timeline as usize] as usize;
            for begin in (0..length).step_by(most) {
                let batch = Batch {
                    timeline: name,
                    messages: (begin..length.min(begin + most)).map(one).collect(),
                };
                let method = "message.append_batch";
                client.insist::<IgnoredAny>(method, &batch).await?;
            }
            Ok(())
        })
        .await
    }

    /// Timelines, chosen at random: the same ones each time.
    fn sample(&self, run: &Run, count: usize) -> Vec<u64> {
        let mut random = Random::new(run.seed_of(1 << 32));
        let timelines = self.acked.len() as u64;
        (0..count).map(|_| random.below(timelines)).collect()
    }

    /// Asks what is there already of a sample of so many timelines.
    pub(crate) async fn look(&mut self, run: &Run, count: usize) -> Result<(), CallError> {
        let mut client = Client::open(&run.url).await?;
        for timeline in self.sample(run, count) {
            let head = head(&mut client, &self.name(timeline)).await?;
            self.acked[timeline as usize] = head as u32;
        }
        Ok(())
    }

    /// Reads a sample of so many timelines back: each must hold what was acknowledged. Of long ones fewer are read than
    /// are asked for; the result says how many were left out.
    pub(crate) async fn read_back(&self, run: &Run, count: usize) -> Result<(), CallError> {
        let mut client = Client::open(&run.url).await?;
        let (began, mut left) = (Instant::now(), self.sample(run, count));
        while began.elapsed() < READING_BACK
            && let Some(timeline) = left.pop()
        {
            let scan = whole(&mut client, &self.name(timeline)).await?;
            self.check(run, timeline, &scan);
        }
        run.detail("timelines_not_read_back", left.len());
        Ok(())
    }

    /// A timeline must hold 1..=n with n = what was acknowledged, and nothing else.
    fn check(&self, run: &Run, timeline: u64, scan: &Page) {
        let due = self.acked[timeline as usize].into();
        let (head, found) = (scan.head, scan.messages.len());
        let sequences = scan.messages.iter().map(|message| message.sequence);
        if !sequences.eq(1..=due) || head != due {
            let name = self.name(timeline);
            run.checks.fault(format_args!(
                "{name}: {due} acknowledged, head {head}, {found} messages read back"
            ));
        }
        run.checks.made("messages read back", due);
        run.checks.made("timelines read back", 1);
    }
}

/// Makes calls for each number, over many connections: of this user, or of a back end.
pub(crate) async fn spread(
    run: &Run,
    user: Option<&str>,
    count: u64,
    call: impl AsyncFn(&mut Client, u64) -> Result<(), CallError>,
) -> Result<(), Stop> {
    let lanes = CONNECTIONS.min(count);
    let lane = async |lane| {
        let mut client = Client::open_as(&run.url, Way::Plain, user).await?;
        for number in (lane..count).step_by(lanes as usize) {
            call(&mut client, number).await?;
        }
        Ok::<(), Stop>(())
    };
    try_join_all((0..lanes).map(lane)).await.map(drop)
}

/// A page of `message.range`, or all pages of a timeline.
#[derive(Deserialize)]
pub(crate) struct Page<M = Message> {
    pub(crate) messages: Vec<M>,
    /// Where the next page begins.
    pub(crate) next: Option<u64>,
    pub(crate) head: u64,
    pub(crate) epoch: String,
}

/// Of a message, what says where it belongs.
#[derive(Debug, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
}

/// Reads from the first message to the end; of a timeline that does not exist, nothing.
pub(crate) async fn whole<M: DeserializeOwned>(
    client: &mut Client,
    timeline: &str,
) -> Result<Page<M>, CallError> {
    let mut whole = Page {
        messages: Vec::new(),
        next: Some(1),
        head: 0,
        epoch: String::new(),
    };
    while let Some(from) = whole.next
        && let Some(mut page) = page(client, timeline, from, 1_000).await?
    {
        let is_other = from > 1 && page.epoch != whole.epoch;
        whole.messages.append(&mut page.messages);
        (whole.head, whole.epoch, whole.next) = (page.head, page.epoch, page.next);
        if is_other || whole.next.is_some_and(|next| next <= from) {
            let (next, epoch) = (whole.next, whole.epoch);
            let what = format!("{timeline}: a page from {from} ends at {next:?} in epoch {epoch}");
            return Err(CallError::Lost(what));
        }
    }
    Ok(whole)
}

/// The number of the last message; 0 if there is no such timeline.
pub(crate) async fn head(client: &mut Client, timeline: &str) -> Result<u64, CallError> {
    let page: Option<Page<IgnoredAny>> = page(client, timeline, 1, 1).await?;
    Ok(page.map_or(0, |page| page.head))
}

/// One page; `None` if there is no such timeline.
pub(crate) async fn page<M: DeserializeOwned>(
    client: &mut Client,
    timeline: &str,
    from: u64,
    limit: u32,
) -> Result<Option<Page<M>>, CallError> {
    let params = json!({ "timeline": timeline, "from": from, "limit": limit });
    match client.read("message.range", params).await {
        Err(CallError::Refused(refusal)) if refusal.data.reason == ABSENT => Ok(None),
        page => page.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::plain;
    use super::*;

    #[test]
    fn a_timeline_that_lacks_a_message_or_has_one_too_many_is_a_fault() {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let mut tally = Tally::new("t/".into(), 2, 0);
        tally.acked[1] = 3;
        let message = |sequence: u64| {
            let read = json!({ "sequence": sequence, "timestamp": 1, "message_id": "m" });
            serde_json::from_value(read).expect("a message")
        };
        serde_json::from_str::<Message>(r#"{"sequence":1,"timestamp":1}"#).expect_err("no ID");
        for (sequences, head, faults) in [
            (&[1, 2, 3][..], 3, 0),
            (&[1, 3], 3, 1),
            (&[1, 2], 2, 2),
            (&[1, 2, 3, 4], 4, 3),
            (&[2, 1, 3], 3, 4),
            (&[1, 2, 3], 4, 5),
        ] {
            let scan = Page {
                messages: sequences.iter().copied().map(message).collect(),
                next: None,
                head,
                epoch: "e".into(),
            };
            tally.check(&run, 1, &scan);
            assert_eq!(run.checks.faults(), faults, "{sequences:?} {head}");
        }
    }
}
