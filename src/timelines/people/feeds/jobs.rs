//! The long work of inboxes: messages that many get, slice by slice.
//!
//! Owns: the rows of jobs in the partition of the inboxes, and a task per partition that does them. Promises: a slice
//! and the move of its job are one batch, so each inbox gets an entry once; the jobs of a timeline are done in order,
//! those of different timelines in turns; nothing else waits for them. Must not: decide what is a job; `inboxes` does.
//!
//! ```text
//! 41 jobs   (source partition, timeline, incarnation, sequence)   $after (the last user who has it), $at, $version
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::timeline::{Inbox, Post, Timelines};
use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_base::metrics;
use tideline_base::metrics::Counter;
use tideline_base::ordered::Reader;
use tideline_model::{Direction, ValueRef};
use tideline_table::{
    Each, Key, Malformed, Partitions, Purpose, ReadError, Row, RowWriter, StoreError, SubmitError,
    Txn, View, delete, load, put, read_row, scan, scan_all, split_key,
};

pub(in super::super) const JOBS: TableId = TableId(41);
/// Members and as many followers that a slice looks at. Tests have few users.
const SLICE_USERS: usize = if cfg!(test) { 2 } else { 1_000 };
/// About what an entry writes.
pub(in super::super) const ENTRY_BYTES: usize = 256;
/// With so many jobs in a partition, messages that go into inboxes are refused.
const JOBS_MAX: usize = 1_000;
/// Timelines whose jobs are in turns.
const TURNS_MAX: usize = 64;
/// How long the task waits for a batch with jobs that may have failed.
const UNSEEN: Duration = Duration::from_secs(1);
/// After a failure.
const REST: Duration = Duration::from_millis(200);

/// A message that goes into inboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Job {
    /// The partition of its timeline.
    pub(in super::super) source: PartitionId,
    pub(in super::super) post: Post,
}

/// A job as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Found {
    job: Job,
    /// The last user that has it.
    after: Option<String>,
}

const AFTER: &str = "$after";
const TIMESTAMP: &str = "$at";
const VERSION: &str = "$version";
const WHAT: &str = "not a job";

impl Job {
    fn all_of(source: PartitionId, timeline: &str, incarnation: u64) -> Key {
        Key::new(JOBS, &[], timeline.len() + 32)
            .number(u64::from(source.0))
            .string(timeline)
            .number(incarnation)
    }

    fn of_timeline(&self) -> Key {
        Job::all_of(self.source, &self.post.timeline, self.post.incarnation)
    }

    fn key(&self) -> Key {
        self.of_timeline().number(self.post.sequence)
    }

    fn store(&self, txn: &mut Txn<'_>, after: Option<&str>) {
        let mut row = RowWriter::new(64);
        if let Some(after) = after {
            row.put(AFTER, ValueRef::String(after));
        }
        let number = |number: u64| ValueRef::Integer(number.cast_signed());
        row.put(TIMESTAMP, number(self.post.timestamp));
        row.put(VERSION, number(self.post.version));
        let now = txn.now_ms().cast_signed();
        put(txn, self.key(), row, now);
    }
}

impl Found {
    pub(in super::super) fn decode(columns: &[u8], value: &[u8]) -> Result<Found, Malformed> {
        let mut key = Reader::new(columns);
        let source = PartitionId(u16::try_from(key.u64()?)?);
        let mut post = Post {
            timeline: key.string()?.into_owned(),
            incarnation: key.u64()?,
            sequence: key.u64()?,
            timestamp: 0,
            version: 0,
        };
        let mut after = None;
        for cell in Row::parse(value)?.columns() {
            let cell = cell?;
            match (cell.name, cell.value) {
                (AFTER, ValueRef::String(user)) => after = Some(user.to_owned()),
                (TIMESTAMP, ValueRef::Integer(at)) => post.timestamp = at.cast_unsigned(),
                (VERSION, ValueRef::Integer(version)) => post.version = version.cast_unsigned(),
                _ => return Err(Malformed),
            }
        }
        let job = Job { source, post };
        Ok(Found { job, after })
    }

    fn load(txn: &Txn<'_>, job: &Job) -> Result<Option<Found>, ReadError> {
        let key = job.key();
        load(txn, &key, WHAT, |value| {
            let (_, columns) = split_key(key.as_bytes()).ok_or(Malformed)?;
            Found::decode(columns, value)
        })
    }
}

/// What is known of one partition's jobs.
struct Desk {
    /// The newest batch with a new job. It may not be on disk yet.
    noted: AtomicU64,
    /// [`Desk::noted`] when there was no job; [`u64::MAX`] = nobody has looked, or there are some.
    done: AtomicU64,
    /// How many there were at the last look, up to a bound.
    count: AtomicU64,
    bell: Notify,
    metrics: metrics::Inboxes,
}

impl Desk {
    /// Whether nothing is left to do of what was noted.
    fn is_idle(&self) -> bool {
        self.done.load(Ordering::SeqCst) == self.noted.load(Ordering::SeqCst)
    }
}

/// The jobs of all partitions.
pub struct Jobs {
    partitions: Partitions,
    timelines: Timelines,
    desks: Each<Desk>,
    stop: CancellationToken,
}

impl Jobs {
    /// On these partitions. Nothing is done before [`Jobs::start`].
    #[must_use]
    pub fn new(partitions: Partitions, timelines: Timelines) -> Arc<Jobs> {
        let desk = |partitions: &Partitions, id: PartitionId| Desk {
            noted: AtomicU64::new(0),
            done: AtomicU64::new(u64::MAX),
            count: AtomicU64::new(0),
            bell: Notify::new(),
            metrics: partitions.metrics().inboxes(id.0),
        };
        Arc::new(Jobs {
            desks: Each::new(&partitions, desk),
            partitions,
            timelines,
            stop: CancellationToken::new(),
        })
    }

    /// Starts a task per partition on the current runtime.
    pub fn start(self: &Arc<Jobs>, tasks: &TaskTracker) {
        let jobs = Arc::clone(self);
        self.partitions.for_each(tasks, &self.stop, move |life| {
            let jobs = Arc::clone(&jobs);
            async move {
                let work = jobs.run(life.partition);
                let _ended = life.ends.run_until_cancelled(work).await;
            }
        });
    }

    /// Ends the tasks. What they have not done comes after the next start.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether there are not too many in any partition.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let is_full = |desk: &Desk| desk.count.load(Ordering::Relaxed) >= JOBS_MAX as u64;
        !self.desks.made().values().any(|desk| is_full(desk))
    }

    /// How many a partition had at the last look, up to a bound.
    #[must_use]
    pub fn count(&self, at: PartitionId) -> u64 {
        let desks = self.desks.made();
        let count = |desk: &Arc<Desk>| desk.count.load(Ordering::Relaxed);
        desks.get(&at).map_or(0, count)
    }

    /// Whether nothing is left to do of what was noted.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let mut all = self.partitions.ids().map(|id| self.desks.of(id));
        all.all(|desk| desk.is_idle())
    }

    /// Whether these partitions have no jobs left, and the others none that began in these. May block on the disk.
    pub fn are_done(&self, partitions: &[PartitionId]) -> Result<bool, ReadError> {
        for id in self.partitions.ids() {
            let view = self.partitions.view(id)?;
            let all = Key::new(JOBS, &[], 1);
            let of = |source: &PartitionId| Key::new(JOBS, &[], 16).number(u64::from(source.0));
            let mut jobs = match partitions.contains(&id) {
                true => vec![all],
                false => partitions.iter().map(of).collect(),
            };
            let found = jobs.drain(..).find_map(|key| scan_all(&view, &key).next());
            if found.transpose()?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts entries of a partition's inboxes.
    pub(in super::super) fn entries(&self, at: PartitionId) -> Counter {
        self.desks.of(at).metrics.entries.clone()
    }

    /// Leaves a message to the task.
    pub(in super::super) fn add(&self, txn: &mut Txn<'_>, at: PartitionId, job: &Job) {
        job.store(txn, None);
        let desk = self.desks.of(at);
        desk.noted.fetch_max(txn.position().0, Ordering::SeqCst);
        desk.bell.notify_one();
    }

    /// Whether there are jobs of a message's timeline, behind which it must come.
    pub(in super::super) fn has_of(
        &self,
        txn: &Txn<'_>,
        at: PartitionId,
        job: &Job,
    ) -> Result<bool, ReadError> {
        if self.desks.of(at).is_idle() {
            return Ok(false);
        }
        let first = scan_all(txn, &job.of_timeline()).next();
        Ok(first.transpose()?.is_some())
    }

    async fn run(&self, at: PartitionId) {
        let desk = self.desks.of(at);
        loop {
            match self.round(at).await {
                Ok(true) => {}
                Ok(false) => desk.bell.notified().await,
                Err(error) => {
                    tracing::debug!(partition = %at, ?error, "long work of inboxes; tried again");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Does a slice of the first job of each of some timelines; `false` = there is none.
    async fn round(&self, at: PartitionId) -> Result<bool, StoreError> {
        let desk = self.desks.of(at);
        let noted = desk.noted.load(Ordering::SeqCst);
        let tail = self.partitions.tail(at);
        let seen = tail.past(Position(noted.saturating_sub(1)));
        // If the batch has failed, the relay sends it again.
        let is_seen = noted == 0 || tokio::time::timeout(UNSEEN, seen).await.is_ok();
        let read = self
            .partitions
            .read(at, |view| Ok((first_jobs(view)?, count(view)?)));
        let (jobs, count) = read.await.map_err(|_| StoreError::Unavailable)?;
        desk.count.store(count, Ordering::Relaxed);
        desk.metrics.jobs.count(count);
        if jobs.is_empty() {
            if is_seen {
                desk.done.store(noted, Ordering::SeqCst);
            }
            return Ok(!is_seen);
        }
        for found in jobs {
            self.slice(at, found).await?;
        }
        Ok(true)
    }

    /// Writes a message into the inboxes of the next slice of its recipients, and moves its job behind them, in one
    /// batch.
    async fn slice(&self, at: PartitionId, found: Found) -> Result<(), StoreError> {
        let Found { job, after } = found.clone();
        let post = job.post.clone();
        let read = self.partitions.read(job.source, move |view| {
            Timelines::recipients(view, &post, after.as_deref(), SLICE_USERS)
        });
        let page = read.await.map_err(|_| StoreError::Unavailable)?;
        let is_here = |user: &&String| {
            let inbox = Timelines::inbox_of(user);
            self.timelines.partition_of(&inbox) == at
        };
        let inboxes: Vec<Inbox> = page
            .users
            .iter()
            .filter(is_here)
            .map(|user| Inbox::of(user))
            .collect();
        let count = inboxes.len() as u64;
        let writer = self.timelines.inbox_writer(at);
        let mut entry = self.timelines.inbox_entry(&job.post);
        let bytes = ENTRY_BYTES * (inboxes.len() + 1);
        let write = move |txn: &mut Txn<'_>| -> Result<bool, ReadError> {
            // It was done already: the answer of the last write was lost.
            if Found::load(txn, &job)?.as_ref() != Some(&found) {
                return Ok(false);
            }
            for inbox in &inboxes {
                writer.put(txn, inbox, &mut entry)?;
            }
            match &page.next {
                Some(next) => job.store(txn, Some(next)),
                None => drop(delete(txn, job.key())),
            }
            Ok(true)
        };
        let written = self
            .partitions
            .submit(Purpose::Derives, at, bytes, write)
            .await;
        match written {
            Ok(true) => self.desks.of(at).metrics.entries.increment(count),
            Ok(false) => {}
            Err(SubmitError::Failed(error)) => return Err(error),
            Err(_) => return Err(StoreError::Internal),
        }
        Ok(())
    }
}

/// The first job of each of some timelines.
fn first_jobs(view: &View) -> Result<Vec<Found>, ReadError> {
    let end = Key::new(JOBS, &[], 1).above_all();
    let mut from = Key::new(JOBS, &[], 1).below_all();
    let mut jobs = Vec::new();
    while jobs.len() < TURNS_MAX {
        let Some(row) = scan(view, &from, &end, Direction::Forward).next() else {
            break;
        };
        let found = read_row(&row?, WHAT, Found::decode)?;
        from = found.job.of_timeline().above_all();
        jobs.push(found);
    }
    Ok(jobs)
}

fn count(view: &View) -> Result<u64, ReadError> {
    let all = Key::new(JOBS, &[], 1);
    let rows = scan_all(view, &all).take(JOBS_MAX);
    rows.map(|row| row.map(|_| 1)).sum()
}
