//! Bringing a run's evidence together: scans every timeline, puts it beside what writers and subscribers recorded, and
//! counts.
//!
//! Owns: the verdict of `replay` and `crash`. Promises: every message that was sent is accounted for; a run without
//! writers' or subscribers' complaints, unanswered messages or broken rules is the only one that holds. Must not: send
//! anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::task::JoinHandle;

use crate::exit::Stop;
use crate::history::{self, History, Rule};
use crate::rpc::Client;
use crate::scan::{self, Scan};
use crate::writer::Shared;
use crate::{subscriber, writer};

/// How many faults are told in words; the counts go on.
const TOLD_MAX: usize = 40;
const SCANNERS: usize = 4;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Verdict {
    /// Timelines looked at.
    pub timelines: u64,
    /// Messages stored in them.
    pub messages: u64,
    /// Acknowledged or sent, and not there; holes.
    pub lost: u64,
    /// There twice.
    pub doubled: u64,
    /// In the wrong order or at another number than told.
    pub out_of_order: u64,
    /// Other bytes than sent, or sent by nobody.
    pub altered: u64,
    /// Subscribers that saw something else.
    pub subscriber_faults: u64,
    /// Errors and oddities on the wire.
    pub complaints: u64,
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
    /// The first faults, in words.
    pub faults: Vec<String>,
}

impl Verdict {
    /// Nothing is wrong.
    #[must_use]
    pub fn held(&self) -> bool {
        self.broken().iter().all(|(count, _)| *count == 0)
    }

    /// How often each rule was broken, and the rule in words.
    fn broken(&self) -> [(u64, &'static str); 6] {
        [
            (self.lost, "lost"),
            (self.doubled, "doubled"),
            (self.out_of_order, "out of order"),
            (self.altered, "altered"),
            (self.subscriber_faults, "subscriber faults"),
            (self.complaints, "other faults"),
        ]
    }

    /// How often each rule was broken, in words.
    #[must_use]
    pub fn counts(&self) -> String {
        let words = self.broken().map(|(count, rule)| format!("{count} {rule}"));
        words.join(", ")
    }

    fn complain(&mut self, what: String) {
        self.complaints += 1;
        self.tell(what);
    }

    fn tell(&mut self, what: String) {
        if self.faults.len() < TOLD_MAX {
            self.faults.push(what);
        }
    }

    fn count(&mut self, rule: Rule) {
        *match rule {
            Rule::Hole | Rule::Lost => &mut self.lost,
            Rule::Doubled => &mut self.doubled,
            Rule::Moved | Rule::OutOfOrder => &mut self.out_of_order,
            Rule::Altered | Rule::Foreign => &mut self.altered,
            Rule::Subscriber => &mut self.subscriber_faults,
        } += 1;
    }
}

/// Scans all timelines of the run and judges.
pub async fn judge(
    shared: &Arc<Shared>,
    writers: Vec<writer::Outcome>,
    subscribers: Vec<subscriber::Outcome>,
) -> Result<Verdict, Stop> {
    let scans = scan_all(shared).await?;
    let mut verdict = Verdict::default();
    let mut histories: Vec<History> = shared
        .timelines
        .iter()
        .map(|name| History {
            name: name.clone(),
            ..History::default()
        })
        .collect();
    for (index, scan) in scans.into_iter().enumerate() {
        verdict.timelines += 1;
        verdict.messages += scan.marks.len() as u64;
        histories[index].stored = scan.marks;
        histories[index].head = scan.head;
        let epoch = shared.timelines.epoch(index);
        if epoch.is_some_and(|epoch| *epoch != scan.epoch) {
            verdict.complain(format!("{}: its epoch changed", histories[index].name));
        }
    }
    for outcome in writers {
        verdict.duplicates_answered += outcome.duplicates;
        verdict.reconnects += outcome.reconnects;
        verdict.refusals += outcome.refusals;
        outcome
            .complaints
            .into_iter()
            .for_each(|what| verdict.complain(what));
        for (timeline, sent) in outcome.sent {
            for sent in sent.iter().filter(|sent| sent.ack.is_none()) {
                verdict.lost += 1;
                verdict.tell(format!(
                    "{}: {} was never acknowledged",
                    histories[timeline].name, sent.id
                ));
            }
            histories[timeline].sent.extend(sent);
        }
    }
    for outcome in subscribers {
        verdict.resumes += outcome.resumes;
        verdict.received += outcome.received;
        outcome
            .complaints
            .into_iter()
            .for_each(|what| verdict.complain(what));
        for (timeline, watched) in outcome.watched {
            histories[timeline].watched.push(watched);
        }
    }
    for fault in histories.iter().flat_map(history::check) {
        verdict.count(fault.rule);
        verdict.tell(fault.to_string());
    }
    Ok(verdict)
}

async fn scan_all(shared: &Arc<Shared>) -> Result<Vec<Scan>, Stop> {
    let count = shared.timelines.len();
    let mut tasks = Vec::new();
    for first in 0..SCANNERS.min(count) {
        let shared = Arc::clone(shared);
        tasks.push(tokio::spawn(async move {
            let unreachable = |error| Stop::Unreachable(format!("history scan: {error}"));
            let mut client = Client::open(&shared.url).await.map_err(unreachable)?;
            let mut scans = Vec::new();
            for index in (first..count).step_by(SCANNERS) {
                let name = &shared.timelines[index];
                scans.push((
                    index,
                    scan::whole(&mut client, name).await.map_err(unreachable)?,
                ));
            }
            Ok::<_, Stop>(scans)
        }));
    }
    let all: BTreeMap<usize, Scan> = all(tasks).await?.into_iter().flatten().collect();
    Ok(all.into_values().collect())
}

/// A task that can fail.
pub type Running<T> = JoinHandle<Result<T, Stop>>;

/// The result of a task; a panic in it is an error of this tool.
pub async fn joined<T>(task: Running<T>) -> Result<T, Stop> {
    task.await
        .map_err(|error| Stop::Own(format!("a task failed: {error}")))?
}

/// The results of all, in order.
pub(crate) async fn all<T>(tasks: Vec<Running<T>>) -> Result<Vec<T>, Stop> {
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(joined(task).await?);
    }
    Ok(results)
}
