//! The verdict of `replay` and `crash`: what all connections of a run share, and what becomes of what they saw.
//!
//! Owns: the evidence of a run. Promises: every message that was sent is accounted for; a run in which no rule was
//! broken, on the wire or in a history, is the only one that holds. Must not: send anything but to read back.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::exit::Stop;
use crate::follower::Timelines;
use crate::history::{self, History, Rule, Sent, Span};
use crate::rpc::{CallError, Client};
use crate::scan;

/// How long a server that is away is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How many faults are told in words; the counts go on.
const TOLD_MAX: usize = 40;

/// What a writer sent, in order, each with its timeline.
pub(crate) type Wrote = Vec<(usize, Sent)>;
/// A subscriber's name, and its subscriptions by timeline.
pub(crate) type Saw = (String, BTreeMap<usize, Vec<Span>>);

/// What all writers and subscribers of a run share.
pub(crate) struct Shared {
    /// Where to connect.
    pub(crate) url: String,
    pub(crate) timelines: Arc<Timelines>,
    /// Acknowledged messages, by timeline.
    pub(crate) progress: Vec<AtomicU64>,
    /// Acknowledged messages.
    pub(crate) bar: ProgressBar,
    /// The writers are done: `progress` is how long each timeline is.
    pub(crate) written: AtomicBool,
    began: Instant,
    verdict: Mutex<Verdict>,
}

impl Shared {
    pub(crate) fn new(
        url: String,
        timelines: impl IntoIterator<Item = String>,
        bar: ProgressBar,
    ) -> Arc<Shared> {
        let timelines = Timelines::new(timelines);
        Arc::new(Shared {
            url,
            progress: timelines.iter().map(|_| AtomicU64::new(0)).collect(),
            timelines,
            bar,
            written: AtomicBool::new(false),
            began: Instant::now(),
            verdict: Mutex::default(),
        })
    }

    /// ns since the run began.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What was found so far.
    pub(crate) fn verdict(&self) -> MutexGuard<'_, Verdict> {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits before the next attempt to connect, longer each time, or says that it has been long enough. `away` is
    /// since when there is no server.
    pub(crate) async fn wait(
        &self,
        away: &mut Option<Instant>,
        why: &io::Error,
    ) -> Result<(), Stop> {
        let away = away.get_or_insert_with(Instant::now).elapsed();
        if away > PATIENCE {
            let what = format!("no server for {PATIENCE:?}: {why}");
            return Err(Stop::Unreachable(what));
        }
        let pause = away.clamp(Duration::from_millis(10), Duration::from_millis(500));
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Verdict {
    /// Seed of messages and times.
    pub seed: u64,
    /// From the first message to the last answer.
    pub seconds: f64,
    /// Times the server was killed.
    pub kills: u32,
    /// The longest time from a kill to ready again, ms.
    pub ready_ms_max: u64,
    /// Timelines looked at.
    pub timelines: u64,
    /// Messages stored in them.
    pub messages: u64,
    /// Lines of files with bytes that were not UTF-8.
    pub lines_replaced: u64,
    /// Acknowledgements that said `duplicate`.
    pub duplicates_answered: u64,
    /// Connections lost by writers.
    pub reconnects: u64,
    /// Refusals that allowed a repetition.
    pub refusals: u64,
    /// Subscriptions that went on from a position.
    pub resumes: u64,
    /// Messages that subscribers received.
    pub received: u64,
    /// How often each rule was broken.
    pub broken: BTreeMap<Rule, u64>,
    /// The first faults, in words.
    pub faults: Vec<String>,
}

impl Verdict {
    /// Nothing is wrong.
    #[must_use]
    pub fn held(&self) -> bool {
        self.broken.is_empty()
    }

    /// A rule was broken.
    pub(crate) fn fault(&mut self, rule: Rule, what: &str) {
        *self.broken.entry(rule).or_default() += 1;
        if self.faults.len() < TOLD_MAX {
            self.faults.push(format!("{rule:?}: {what}"));
        }
    }

    /// The lines at the end of a run.
    #[must_use]
    pub fn summary(&self) -> String {
        let broken = match self.held() {
            true => "nothing broken".to_owned(),
            false => format!("broken: {:?}", self.broken),
        };
        format!(
            "{} timelines, {} messages, {broken}\n\
             {} kills, ready again within {} ms; {} reconnects, {} refusals repeated, {} duplicates answered; {} \
             messages pushed over {} resumes; {} lines with invalid UTF-8 replaced; {:.1} s, {:.0} messages/s; seed {}",
            self.timelines,
            self.messages,
            self.kills,
            self.ready_ms_max,
            self.reconnects,
            self.refusals,
            self.duplicates_answered,
            self.received,
            self.resumes,
            self.lines_replaced,
            self.seconds,
            self.messages as f64 / self.seconds.max(0.001),
            self.seed,
        )
    }
}

/// Reads all timelines of the run back, puts them beside what writers and subscribers recorded, and judges.
pub(crate) async fn judge(
    shared: &Shared,
    wrote: Vec<Wrote>,
    saw: Vec<Saw>,
) -> Result<Verdict, Stop> {
    let stored = stored(shared).await;
    let unreachable = |error| Stop::Unreachable(format!("reading back: {error}"));
    let mut histories = stored.map_err(unreachable)?;
    for (timeline, sent) in wrote.into_iter().flatten() {
        histories[timeline].sent.push(sent);
    }
    let mut verdict = std::mem::take(&mut *shared.verdict());
    for (name, timelines) in saw {
        for (timeline, spans) in timelines {
            verdict.resumes += spans.iter().filter(|span| span.after > 0).count() as u64;
            let received = spans.iter().map(|span| span.marks.len() as u64);
            verdict.received += received.sum::<u64>();
            histories[timeline].watched.push((name.clone(), spans));
        }
    }
    for history in &histories {
        verdict.timelines += 1;
        verdict.messages += history.stored.len() as u64;
        for (rule, what) in history::check(history) {
            verdict.fault(rule, &what);
        }
    }
    Ok(verdict)
}

/// What each timeline holds now.
async fn stored(shared: &Shared) -> Result<Vec<History>, CallError> {
    let mut client = Client::open(&shared.url).await?;
    let mut histories = Vec::new();
    for (index, name) in shared.timelines.iter().enumerate() {
        let scan = scan::whole(&mut client, name).await?;
        let epoch = shared.timelines.epoch(index);
        if epoch.is_some_and(|epoch| epoch != scan.epoch) {
            let what = format!("{name}: its epoch changed");
            shared.verdict().fault(Rule::Wire, &what);
        }
        histories.push(History {
            name: name.clone(),
            stored: scan.marks,
            head: scan.head,
            ..History::default()
        });
    }
    Ok(histories)
}

/// The result of a task that can fail; a panic in it is an error of this tool.
///
/// # Errors
///
/// The task's.
pub async fn joined<T>(task: JoinHandle<Result<T, Stop>>) -> Result<T, Stop> {
    task.await
        .map_err(|error| Stop::Own(format!("a task failed: {error}")))?
}
