//! The work of a partition that time brings, step by step.
//!
//! Owns: where a partition's due rows begin, and when the next one is due. Promises: a step is bounded work; what it
//! leaves undone is found again, also after a restart; between steps nothing is read. Must not: run by itself: the
//! task is `timers/`.

use std::sync::Arc;
use std::time::Duration;

use tideline_base::ids::{PartitionId, Position};
use tideline_model::access::CurrentRules;
use tideline_table::{Purpose, ReadError, Txn, View};

use super::super::write::Site;
use super::super::{Counted, Error, Timelines, counted};
use super::alarm::{Alarm, Noted, Time};
use super::changed_policies::{REST_MS, Walk};
use super::deliver::{Delivered, Delivery};
use super::due::{Due, Kind, due};
use super::message_expiry::warm;
use super::retention::warm_trim;

/// The timer of one partition.
pub struct Timer {
    timelines: Timelines,
    partition: PartitionId,
    alarm: Arc<Alarm>,
    /// By kind: a due row below this time is there only if it was announced after this was set.
    from_ms: [u64; KINDS.len()],
    /// When the next row may be due.
    wakes_at_ms: u64,
    /// When the last step was. A clock that shows less was set back, so it can't say how long the pause has been.
    stepped_at_ms: u64,
    /// By how much the clock was ahead of the steady one then, as far as it is known.
    ahead_ms: i64,
    /// After the clock was set back: from which time on rows of open messages are looked at before theirs.
    again_from_ms: Option<u64>,
    /// Rows that were noted and that a view may not show yet.
    unseen: Option<Noted>,
    /// Over timelines whose policy may have changed.
    walk: Walk,
}

const KINDS: [Kind; 4] = [Kind::Deliver, Kind::Expire, Kind::Trim, Kind::Abandon];

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Scheduled messages that were appended.
    pub delivered: u64,
    /// Scheduled messages that were refused.
    pub refused: u64,
    /// Messages that expired.
    pub expired: u64,
    /// Timelines whose oldest messages went because of their age, or that ended as streams.
    pub trimmed: u64,
    /// Open messages that were closed because no part came.
    pub abandoned: u64,
    /// By how much the step was late, if it did anything, ms.
    pub late_ms: Option<u64>,
}

/// What one view shows to be done.
struct Work {
    deliveries: Vec<Delivery>,
    /// By timeline.
    expired: Vec<Vec<Due>>,
    trims: Vec<Due>,
    abandoned: Vec<Due>,
    /// Of open messages, too: before their time, because the clock was set back.
    again: Vec<Due>,
    /// From when on the next of these are.
    again_from_ms: Option<u64>,
    /// The earliest time of all that.
    first_ms: Option<u64>,
    /// By kind: the earliest time that is left to later steps.
    next_ms: [Option<u64>; KINDS.len()],
}

impl Timelines {
    /// The timer of a partition.
    #[must_use]
    pub fn timer(&self, partition: PartitionId) -> Timer {
        Timer {
            timelines: self.clone(),
            partition,
            alarm: self.time().alarm(partition),
            from_ms: [0; KINDS.len()],
            // What a restart finds.
            wakes_at_ms: 0,
            stepped_at_ms: 0,
            // Before this process began it may have been.
            ahead_ms: i64::MAX,
            again_from_ms: None,
            unseen: None,
            walk: Walk::Unknown,
        }
    }

    /// Brings the gauge of open messages up to date. May block on the disk.
    pub fn observe(&self) {
        let partitions = &self.inner.partitions;
        let open = |partition| {
            let view = partitions.view(partition)?;
            let (open, _) = due(&view, Kind::Abandon, (0, u64::MAX), OPEN_COUNTED_MAX)?;
            Ok::<_, ReadError>(open.len() as u64)
        };
        let open = partitions.ids().map(open).filter_map(Result::ok).sum();
        partitions.metrics().growth.open.count(open);
    }

    pub(in crate::timeline) fn time(&self) -> &Time {
        &self.inner.time
    }
}

impl Timer {
    /// Which partition's.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Waits until something may be due. Cancel-safe.
    pub async fn wait(&mut self) {
        let alarm = Arc::clone(&self.alarm);
        loop {
            self.hear();
            let now = self.timelines.now_ms();
            if self.wakes_at_ms <= now || now < self.stepped_at_ms || self.is_set_back() {
                return;
            }
            alarm.arm(self.wakes_at_ms);
            // The clock may jump while the timer sleeps.
            let rest = Duration::from_millis((self.wakes_at_ms - now).min(CLOCK_LOOK_MS));
            if self.wakes_at_ms == u64::MAX {
                alarm.rung().await;
            } else {
                // It ends either way: by the bell or by the time.
                let _ = tokio::time::timeout(rest, alarm.rung()).await;
            }
        }
    }

    /// Does some of what is due. What was done is returned with a failure, too.
    pub async fn step(&mut self) -> Result<Done, (Done, Error)> {
        let mut done = Done::default();
        let result = self.work(&mut done).await;
        result.map(|()| done).map_err(|error| (done, error))
    }

    async fn work(&mut self, done: &mut Done) -> Result<(), Error> {
        self.hear();
        let is_seen = self.settle_in().await;
        let (partition, from_ms) = (self.partition, self.from_ms);
        let now_ms = self.timelines.now_ms();
        if self.is_set_back() {
            self.again_from_ms = Some(now_ms + 1);
        }
        self.stepped_at_ms = now_ms;
        self.ahead_ms = self.timelines.time().ahead_ms();
        let again_from_ms = self.again_from_ms;
        let rules = self.timelines.inner.rules.get().cloned();
        let work = self
            .timelines
            .read(partition, move |view| {
                Ok(Work::read(
                    view,
                    (partition, rules.as_ref()),
                    (from_ms, again_from_ms),
                    now_ms,
                )?)
            })
            .await?;
        done.late_ms = work.first_ms.map(|first| now_ms.saturating_sub(first));
        let mut next_ms = work.next_ms;
        let delivered = self.deliver(work.deliveries, done).await;
        let expired = self.expire(work.expired).await;
        let trim = |due: &mut Due, txn: &mut Txn<'_>, site: &Site| Ok(site.trim_old(txn, due)?);
        let trimmed = self.each(Purpose::MakesRoom, work.trims, trim).await;
        let abandon = |due: &mut Due, txn: &mut Txn<'_>, site: &Site| site.abandon(txn, due);
        let abandoned = self.each(Purpose::Adds, work.abandoned, abandon).await;
        let again = |due: &mut Due, txn: &mut Txn<'_>, site: &Site| site.abandon_again(txn, due);
        let abandoned_again = self.each(Purpose::Adds, work.again, again).await;
        // What finds no room must not hold up what makes room: a failure counts at the end, and only what failed, or
        // was left, is looked at again.
        next_ms[0] = (!matches!(delivered, Ok(true)))
            .then_some(from_ms[0])
            .or(next_ms[0]);
        let mut failed = delivered.err();
        let kinds = [(1, expired), (2, trimmed), (3, abandoned)];
        let [expired, trimmed, abandoned] = kinds.map(|(kind, (count, error))| {
            if let Some(error) = error {
                next_ms[kind] = Some(from_ms[kind]);
                failed = Some(error);
            }
            count
        });
        let (again, error) = abandoned_again;
        (done.expired, done.trimmed) = (expired, trimmed);
        done.abandoned = abandoned + again;
        match error {
            None => self.again_from_ms = work.again_from_ms,
            error => failed = error,
        }
        self.wakes_at_ms = self.again_from_ms.map_or(u64::MAX, |_| now_ms);
        for (from, next) in self.from_ms.iter_mut().zip(next_ms) {
            *from = next.unwrap_or(now_ms + 1);
            self.wakes_at_ms = self.wakes_at_ms.min(next.unwrap_or(u64::MAX));
        }
        if is_seen {
            self.unseen = None;
        } else if let Some(unseen) = self.unseen {
            self.tell(unseen.at_ms);
            self.wakes_at_ms = now_ms + UNSEEN_MS;
        }
        if self.walk != Walk::Done {
            self.wakes_at_ms = self.wakes_at_ms.min(now_ms + REST_MS);
            self.walk.step(&self.timelines, self.partition).await?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the clock was set back since the last step.
    fn is_set_back(&self) -> bool {
        self.timelines.time().ahead_ms().saturating_add(JITTER_MS) < self.ahead_ms
    }

    /// Takes in what the writer has noted.
    fn hear(&mut self) {
        let noted = self.alarm.take();
        if noted.at_ms == u64::MAX {
            return;
        }
        self.tell(noted.at_ms);
        let before = self.unseen.unwrap_or(noted);
        self.unseen = Some(Noted {
            at_ms: noted.at_ms.min(before.at_ms),
            position: noted.position.max(before.position),
        });
    }

    fn tell(&mut self, at_ms: u64) {
        self.wakes_at_ms = self.wakes_at_ms.min(at_ms);
        for from in &mut self.from_ms {
            *from = (*from).min(at_ms);
        }
    }

    /// Waits a little until views show what was noted: it may have been noted before its batch was on disk. `false` =
    /// they do not yet.
    async fn settle_in(&self) -> bool {
        let Some(unseen) = self.unseen else {
            return true;
        };
        let tail = self.timelines.inner.partitions.tail(self.partition);
        let before = Position(unseen.position.0 - 1);
        let waited = tokio::time::timeout(Duration::from_millis(UNSEEN_MS), tail.past(before));
        waited.await.unwrap_or(false)
    }

    /// `false` = some are left for another step.
    async fn deliver(&self, deliveries: Vec<Delivery>, done: &mut Done) -> Result<bool, Error> {
        if deliveries.is_empty() {
            return Ok(true);
        }
        let bytes = deliveries.iter().map(Delivery::bytes).sum();
        let run = |one: &mut Delivery, txn: &mut Txn<'_>, site: &Site| one.run(txn, site);
        let answers =
            self.timelines
                .submit_each(Purpose::Adds, self.partition, bytes, deliveries, run);
        let mut is_all = true;
        let mut failed = None;
        for answer in answers.await {
            match answer {
                Ok(Delivered::Appended) => done.delivered += 1,
                Ok(Delivered::Refused) => done.refused += 1,
                Ok(Delivered::Nothing) => is_all = false,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(is_all), Err)
    }

    async fn expire(&self, rows: Vec<Vec<Due>>) -> Counted {
        if rows.is_empty() {
            return (0, None);
        }
        let bytes = rows.len() * EXPIRED_BYTES;
        let run = |rows: &mut Vec<Due>, txn: &mut Txn<'_>, site: &Site| site.expire(txn, rows);
        let answers =
            self.timelines
                .submit_each(Purpose::MakesRoom, self.partition, bytes, rows, run);
        counted(answers.await)
    }

    /// Does what is due, row by row. Gives how many rows it was something for.
    async fn each(
        &self,
        purpose: Purpose,
        rows: Vec<Due>,
        run: impl Fn(&mut Due, &mut Txn<'_>, &Site) -> Result<bool, Error> + Send + 'static,
    ) -> Counted {
        if rows.is_empty() {
            return (0, None);
        }
        let bytes = rows.len() * ROW_BYTES;
        let answers = self
            .timelines
            .submit_each(purpose, self.partition, bytes, rows, run);
        counted(answers.await)
    }
}

impl Work {
    fn read(
        view: &View,
        (partition, rules): (PartitionId, Option<&Arc<CurrentRules>>),
        (from_ms, again_from_ms): ([u64; KINDS.len()], Option<u64>),
        now_ms: u64,
    ) -> Result<Work, ReadError> {
        let range = |kind: usize| (from_ms[kind], now_ms);
        let (delivered, deliver_next) = due(view, Kind::Deliver, range(0), DELIVERED_MAX)?;
        let (mut expired, expire_next) = due(view, Kind::Expire, range(1), EXPIRED_MAX)?;
        warm(view, &expired)?;
        let (trims, trim_next) = due(view, Kind::Trim, range(2), TRIMS_MAX)?;
        for due in &trims {
            warm_trim(view, due, now_ms)?;
        }
        let (abandoned, abandon_next) = due(view, Kind::Abandon, range(3), ABANDONED_MAX)?;
        let (again, again_from_ms) = again(view, again_from_ms)?;
        let first = [
            delivered.first(),
            expired.first(),
            trims.first(),
            abandoned.first(),
        ];
        let first_ms = first.into_iter().flatten().map(|due| due.at_ms).min();
        let deliver = |due| Delivery::read(view, (partition, rules), now_ms, due);
        expired.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        let of_one = |a: &Due, b: &Due| a.name.as_bytes() == b.name.as_bytes();
        let members = expired.chunk_by(of_one);
        let members = members.flat_map(|rows| rows.chunks(EXPIRED_AT_ONCE));
        Ok(Work {
            deliveries: delivered
                .into_iter()
                .map(deliver)
                .collect::<Result<_, _>>()?,
            expired: members.map(<[Due]>::to_vec).collect(),
            trims,
            abandoned,
            again,
            again_from_ms,
            first_ms,
            next_ms: [deliver_next, expire_next, trim_next, abandon_next],
        })
    }
}

/// Rows of open messages from a time on, and where the next ones begin.
fn again(view: &View, from_ms: Option<u64>) -> Result<(Vec<Due>, Option<u64>), ReadError> {
    let Some(from_ms) = from_ms else {
        return Ok((Vec::new(), None));
    };
    let (rows, next_ms) = due(view, Kind::Abandon, (from_ms, u64::MAX), ABANDONED_MAX)?;
    // Rows of one time that were written after the step, and are right, may be more than a step takes.
    Ok((rows, next_ms.map(|next_ms| next_ms.max(from_ms + 1))))
}

/// Scheduled messages of a step; each may be as large as an entry.
const DELIVERED_MAX: usize = 64;
/// Expired messages of a step. Tests go through the cut with few.
const EXPIRED_MAX: usize = if cfg!(test) { 3 } else { 512 };
/// Expired messages of one closure: other writes come between two.
const EXPIRED_AT_ONCE: usize = 32;
/// About what these hold in the queue.
const EXPIRED_BYTES: usize = EXPIRED_AT_ONCE * 128;
/// Open messages of a partition that are counted at a scrape.
const OPEN_COUNTED_MAX: usize = 10_000;
/// Open messages that a step looks at: each may be written with all its text. Tests go through the cut with few.
const ABANDONED_MAX: usize = if cfg!(test) { 2 } else { 32 };
/// By so much less the clock may be ahead of the steady one without having been set back.
const JITTER_MS: i64 = 500;
/// Timelines that a step trims.
const TRIMS_MAX: usize = 64;
/// About what a due row holds in the queue that is done by itself.
const ROW_BYTES: usize = 512;
/// A sleeping timer looks at the clock so often, in case it jumps.
const CLOCK_LOOK_MS: u64 = if cfg!(test) { 5 } else { 1_000 };
/// So long a step waits for the batch that was announced to it, before it goes on with what there is.
const UNSEEN_MS: u64 = 1_000;
