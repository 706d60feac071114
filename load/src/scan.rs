//! What timelines hold: as a run knows it, and as the server gives it back.
//!
//! Owns: the tally of what was acknowledged, and the history scan at the end of a run. Promises: what the server gave,
//! in the order it gave it, and nothing mended. Must not: stop early without saying so.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::history::Mark;
use crate::random::Random;
use crate::rpc::{CallError, Client, Message};
use crate::run::Run;
use crate::template::timeline_name;

/// The reason of a refusal that names a timeline without messages.
pub(crate) const ABSENT: &str = "timeline_not_found";
/// What was read back in this time is enough to know.
const READING_BACK: Duration = Duration::from_secs(60);

/// A page of `message.range`.
#[derive(Deserialize)]
pub(crate) struct Page<M = Message> {
    pub(crate) messages: Vec<M>,
    /// Where the next page begins.
    pub(crate) next: Option<u64>,
    pub(crate) head: u64,
    epoch: String,
}

/// Of a message, what says where it belongs.
#[derive(Debug, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
}

/// A timeline as it is stored; all of it empty if there is none.
#[derive(Default)]
pub(crate) struct Scan {
    /// Its messages from the first.
    pub(crate) marks: Vec<Mark>,
    /// The last page's head.
    pub(crate) head: u64,
    /// Its epoch.
    pub(crate) epoch: String,
}

/// Reads from the first message to the end.
pub(crate) async fn whole(client: &mut Client, timeline: &str) -> Result<Scan, CallError> {
    let (mut scan, mut next) = (Scan::default(), Some(1));
    while let Some(from) = next
        && let Some(page) = page(client, timeline, from, 1_000).await?
    {
        let odd = |odd| CallError::Lost(format!("{timeline}: {odd}"));
        for message in page.messages {
            scan.marks.push(Mark::of(message).map_err(odd)?);
        }
        (scan.head, scan.epoch, next) = (page.head, page.epoch, page.next);
        if next.is_some_and(|next| next <= from) {
            let what = format!("{timeline}: a page from {from} ends at {next:?}");
            return Err(CallError::Lost(what));
        }
    }
    Ok(scan)
}

/// One page; `None` if there is no such timeline.
pub(crate) async fn page(
    client: &mut Client,
    timeline: &str,
    from: u64,
    limit: u32,
) -> Result<Option<Page>, CallError> {
    let params = json!({ "timeline": timeline, "from": from, "limit": limit });
    match client.call("message.range", params).await {
        Err(CallError::Refused(refusal)) if refusal.data.reason == ABSENT => Ok(None),
        page => page.map(Some),
    }
}

/// A tally that all connections share.
pub type Tallied = Rc<RefCell<Tally>>;

/// What the timelines of a run hold, as far as the run knows.
#[derive(Debug, Default)]
pub struct Tally {
    /// Their names begin so.
    pub prefix: String,
    /// Appends that were refused as `busy`.
    pub busy: u64,
    /// Acknowledged messages, by timeline.
    pub acked: Vec<u32>,
}

impl Tally {
    /// So many timelines without messages.
    pub fn new(prefix: String, timelines: u64) -> Tally {
        Tally {
            prefix,
            busy: 0,
            acked: vec![0; timelines as usize],
        }
    }

    pub(crate) fn name(&self, timeline: u64) -> String {
        timeline_name(&self.prefix, timeline)
    }

    /// Messages of all timelines.
    pub(crate) fn total(&self) -> u64 {
        self.acked.iter().map(|count| u64::from(*count)).sum()
    }

    /// Timelines, chosen at random.
    pub(crate) fn sample(&self, run: &Run, count: usize) -> Vec<u64> {
        let mut random = Random::new(run.seed_of(1 << 32));
        let timelines = self.acked.len() as u64;
        (0..count).map(|_| random.below(timelines)).collect()
    }

    /// Asks what is there already of these timelines.
    pub(crate) async fn look(&mut self, run: &Run, sample: &[u64]) -> Result<(), CallError> {
        let mut client = Client::open(&run.url).await?;
        for timeline in sample {
            let page = page(&mut client, &self.name(*timeline), 1, 1).await?;
            self.acked[*timeline as usize] = page.map_or(0, |page| page.head as u32);
        }
        Ok(())
    }

    /// Reads timelines back: each must hold what was acknowledged. Of long ones fewer are read than are asked for; the
    /// count of checks says how many.
    pub(crate) async fn read_back(&self, run: &Run, sample: &[u64]) -> Result<(), CallError> {
        let mut client = Client::open(&run.url).await?;
        let began = Instant::now();
        let is_time = |_: &&u64| began.elapsed() < READING_BACK;
        for timeline in sample.iter().take_while(is_time) {
            let scan = whole(&mut client, &self.name(*timeline)).await?;
            self.check(run, *timeline, &scan);
        }
        Ok(())
    }

    /// A timeline must hold 1..=n with n = what was acknowledged, and nothing else.
    fn check(&self, run: &Run, timeline: u64, scan: &Scan) {
        let due = self.acked[timeline as usize].into();
        let (head, found) = (scan.head, scan.marks.len());
        if !scan.marks.iter().map(|mark| mark.sequence).eq(1..=due) || head != due {
            let name = self.name(timeline);
            run.checks.fault(format_args!(
                "{name}: {due} acknowledged, head {head}, {found} messages read back"
            ));
        }
        run.checks.made("messages read back", due);
        run.checks.made("timelines read back", 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::plain;

    #[test]
    fn a_timeline_that_lacks_a_message_or_has_one_too_many_is_a_fault() {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let mut tally = Tally::new("t/".into(), 2);
        tally.acked[1] = 3;
        let mark = |sequence: u64| Mark {
            sequence,
            timestamp: 1,
            id: String::new(),
            digest: 0,
        };
        for (sequences, head, faults) in [
            (&[1, 2, 3][..], 3, 0),
            (&[1, 3], 3, 1),
            (&[1, 2], 2, 2),
            (&[1, 2, 3, 4], 4, 3),
            (&[2, 1, 3], 3, 4),
            (&[1, 2, 3], 4, 5),
        ] {
            let scan = Scan {
                marks: sequences.iter().copied().map(mark).collect(),
                head,
                epoch: "e".into(),
            };
            tally.check(&run, 1, &scan);
            assert_eq!(run.checks.faults(), faults, "{sequences:?} {head}");
        }
    }
}
