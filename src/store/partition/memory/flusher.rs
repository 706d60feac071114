//! The second thread of a partition: writes full memtables into the image and gives compaction its turns.
//!
//! Owns: the way from a frozen memtable to a run, and when compaction runs. Promises: memtables are flushed in commit
//! order, before any compaction slice; a memtable stays readable until its run is committed; a full disk is waited out,
//! any other failure of the image stops the partition. It also looks after the log's segments. Must not: append to the
//! log or touch the active memtable.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::super::commit::flush_lag::FlushLag;
use super::super::shared::Shared;
use super::super::{Options, Reason, Rules};
use super::memtable::Memtable;
use super::view::View;
use crate::image;
use crate::image::{Error, Image};
use crate::log::Keeper;
use tideline_base::clock::Clock;
use tideline_base::disk;

/// What wakes the flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Work {
    /// A memtable was frozen.
    Frozen,
    /// Flush what is frozen, then end.
    Close,
}

pub(in super::super) struct Flusher {
    pub(in super::super) shared: Arc<Shared>,
    pub(in super::super) image: Image,
    pub(in super::super) rules: Arc<dyn Rules>,
    pub(in super::super) clock: Arc<Clock>,
    pub(in super::super) options: Options,
    pub(in super::super) work: Receiver<Work>,
    pub(in super::super) keeper: Keeper,
    /// When the log was last looked after.
    pub(in super::super) kept: Instant,
    /// Before then nothing is merged.
    pub(in super::super) merge_from: Instant,
    /// Set while there is no room.
    pub(in super::super) full: Option<Full>,
    /// That writes wait for room was said.
    pub(in super::super) is_told: bool,
    /// How many steps in a row the system refused without a reason.
    pub(in super::super) failures: u32,
    /// The last flushed memtable, until its memory can be used again.
    pub(in super::super) flushed: Option<Arc<Memtable>>,
    /// When it was flushed.
    pub(in super::super) flushed_at: Instant,
}

/// How much room there was when it was too little.
#[derive(Clone, Copy)]
pub(in super::super) struct Full {
    left: Option<u64>,
    /// `None`: the reserve was given back since.
    tried: Option<Instant>,
}

/// How often the log's segments are looked after while there is other work.
const LOG_UPKEEP: Duration = Duration::from_millis(50);

/// Between two looks at age, retention and space when nothing else happens.
const TICK: Duration = Duration::from_millis(200);

/// A flushed memtable's memory is kept for so long. Where the next one takes longer to fill, page faults cost little.
const SPARE_KEPT: Duration = Duration::from_secs(10);

/// Without room a step is tried again when there are so many bytes more ...
const ROOM_STEP_BYTES: u64 = 1 << 20;
/// ... or after this time: room in the image itself does not show on the disk.
const FULL_RETRY: Duration = Duration::from_secs(2);

/// Frozen memtables at which new writes are answered `busy`; above half of it the writer slows down. One is being
/// flushed and one waits; more would only take memory while the disk is slower than the clients.
pub const FROZEN_MAX: usize = 4;

/// A step that the system refused without a reason is tried so often. Nothing of it stays, and room may have come
/// between the refusal and the question how much is left.
const TRIES: u32 = 3;

impl Flusher {
    pub(in super::super) fn run(mut self) {
        let mut is_closing = false;
        loop {
            let had_work = !self.shared.has_ended() && self.step(is_closing);
            if is_closing && (!had_work || self.shared.is_stopped()) {
                return;
            }
            let wait = if had_work {
                let rest = self.merge_from.saturating_duration_since(Instant::now());
                rest.min(LOG_UPKEEP)
            } else {
                TICK
            };
            match self.work.recv_timeout(wait) {
                Ok(Work::Frozen) => {}
                Ok(Work::Close) | Err(RecvTimeoutError::Disconnected) => is_closing = true,
                Err(RecvTimeoutError::Timeout) => {
                    if !had_work {
                        self.shared.queue.tick();
                    }
                }
            }
            self.recycle();
        }
    }

    /// Hands the memory of the last flushed memtable on, once the batch and the reads that saw it have ended. If little
    /// is written, the system gets it back.
    fn recycle(&mut self) {
        if let Some(flushed) = self.flushed.take() {
            match Arc::try_unwrap(flushed) {
                Ok(flushed) => self.shared.keep_spare(flushed.empty()),
                Err(still_read) => self.flushed = Some(still_read),
            }
        }
        if self.flushed_at.elapsed() > SPARE_KEPT {
            self.flushed = None;
            drop(self.shared.take_spare());
        }
    }

    /// The most urgent piece of work; whether there was one.
    fn step(&mut self, is_closing: bool) -> bool {
        if self.shared.is_stopped() {
            return false;
        }
        if self.kept.elapsed() >= LOG_UPKEEP {
            self.kept = Instant::now();
            let is_tight = self.shared.flush_lag.get() == FlushLag::Full
                || self.shared.reserve.take_log_full();
            self.keep_log(is_tight);
            if is_tight && self.shared.frozen() == 0 {
                // What is in the image needs no log, and what was trimmed leaves only by way of the image.
                self.shared.queue.rotate_soon();
            }
        }
        if self.full.is_some_and(|full| !self.may_try(full)) {
            return false;
        }
        let left = self.image.left();
        let done = match self.shared.oldest_frozen() {
            Some(memtable) => self.flush(memtable).map(|()| true),
            None if is_closing => Ok(false),
            None if Instant::now() < self.merge_from => Ok(true),
            None => self.compact(),
        };
        match done {
            Ok(had_work) => {
                self.failures = 0;
                if self.full.take().is_some() {
                    tracing::info!("there is room again");
                }
                self.shared.set_idle(!had_work);
                let image = self.image.pressure();
                let lag = self.lag(&image, !had_work);
                self.shared.flush_lag.set(lag);
                let is_full = lag == FlushLag::Full;
                if is_full && !self.is_told {
                    tracing::warn!(
                        "no room on the disk for flushes, merges and trims; writes wait until there is"
                    );
                }
                self.is_told = is_full;
                if image.level0_runs * 4 > self.options.image.level0_slow_runs * 3 {
                    self.merge_from = Instant::now();
                }
                had_work
            }
            Err(error) => {
                self.failed(&error, left);
                // At the close nothing is lost either: the log holds it all.
                false
            }
        }
    }

    /// After a step that failed: nothing of it stays, so it is tried again, unless the disk is broken. `left`: what the
    /// disk had before it.
    fn failed(&mut self, error: &Error, left: Option<u64>) {
        match error {
            Error::Full(_) => {
                if self.full.is_none() {
                    tracing::warn!(%error, "no room to flush or compact; writes wait until there is");
                }
                self.shared.flush_lag.set(FlushLag::Full);
                // For nothing else, or a trim would find it used up.
                let has_more =
                    self.shared.reserve.is_making_room() && self.shared.reserve.give_back();
                // Else what it has written so far would be missing at the next try.
                if let Err(error) = self.image.clear() {
                    tracing::debug!(%error, "what the step left stays for now");
                }
                self.full = Some(Full {
                    // The lower of the two, so that room that came while the step ran counts as new room.
                    left: self.image.left().min(left),
                    tried: (!has_more).then(Instant::now),
                });
            }
            Error::Io(source) if disk::is_no_descriptor(source) => {
                tracing::warn!(%error, "cannot flush or compact; trying again");
            }
            Error::Io(_) if self.failures < TRIES && !self.image.is_stopped() => {
                self.failures += 1;
                tracing::warn!(%error, "cannot flush or compact; trying again");
            }
            error => {
                tracing::error!(%error, "the image failed; the partition stops");
                self.shared.stop(format!("the image failed: {error}"));
            }
        }
    }

    /// Whether a step may succeed now that there was no room for. Writes go on as soon as there is some.
    fn may_try(&self, full: Full) -> bool {
        let more = self
            .image
            .left()
            .zip(full.left)
            .is_some_and(|(now, then)| now >= then.saturating_add(ROOM_STEP_BYTES));
        if more {
            let lag = self.lag(&self.image.pressure(), false);
            self.shared.flush_lag.set(lag);
        }
        more || full.tried.is_none_or(|at| at.elapsed() >= FULL_RETRY)
    }

    /// Lets old segments go and has the next one ready, so that the writer never waits for either.
    /// On a full disk the log keeps what a restart needs, and nothing for readers: they have the store.
    fn keep_log(&self, is_tight: bool) {
        let now_ms = if is_tight {
            u64::MAX
        } else {
            self.clock.now_ms()
        };
        let covered = self.shared.covered();
        if is_tight {
            // Not for more than what goes then: to let go is a write, too.
            self.shared.hold.ask(covered.min(self.keeper.spared()));
        }
        let unneeded = covered.min(self.shared.hold.above());
        let kept = self.keeper.retain(unneeded, now_ms);
        let prepared = self.keeper.prepare();
        let noted = self.keeper.note();
        // Before the image gets what the log has let go of.
        let has_room = self.keeper.keep_room();
        if let Err(error) = kept.and(prepared).and(noted).and(has_room) {
            tracing::warn!(%error, "the log's segments could not be looked after");
        }
    }

    fn flush(&mut self, memtable: Arc<Memtable>) -> Result<(), Error> {
        let started = Instant::now();
        // A flush takes long. A note that fails is tried again, and logged, by the log's upkeep.
        let mut note = || drop(self.keeper.note());
        if tideline_base::faults::is_named("retired_early") {
            self.shared.retire(&memtable);
        }
        flush(&self.image, &memtable, &*self.rules, &mut note)?;
        let metrics = &self.shared.metrics.memtables;
        metrics
            .flush_seconds
            .record(started.elapsed().as_secs_f64());
        metrics.flush_rows.increment(memtable.rows() as u64);
        metrics.flush_bytes.increment(memtable.bytes() as u64);
        self.shared.retire(&memtable);
        (self.flushed, self.flushed_at) = (Some(memtable), Instant::now());
        Ok(())
    }

    fn compact(&mut self) -> Result<bool, Error> {
        // What a merge may drop is marked in other rows (heads), and only marks in the image itself count: a reader of
        // what the merge leaves then sees the mark too, also through memtables that it took before.
        let nothing = Arc::new(Vec::new());
        let view = View::new(
            self.image.covered(),
            nothing,
            &self.image,
            Arc::clone(&self.rules),
        );
        // It begins a transaction: only the text has the reason.
        let view = view.map_err(|error| Error::Io(std::io::Error::other(error.0)))?;
        let read = |key: &[u8]| view.get(key).ok().flatten();
        let (started, tail) = (Instant::now(), self.shared.tail());
        let done = self.image.compact(self.clock.now_ms(), &read)?;
        // Beside writes, merging takes half of a processor's time; it goes on at full speed when they cease, or when so
        // many runs have piled up that writers are about to be slowed down.
        if self.shared.tail() != tail {
            self.merge_from = Instant::now() + started.elapsed();
        }
        if let Some(place) = &done.damaged {
            tracing::error!(%place, "compaction met damage; what it concerns stays as it is, and reads of it fail");
        }
        for place in self.image.damage() {
            tracing::error!(%place, "damage: a slot that was to be cleared is left alone");
        }
        let metrics = &self.shared.metrics.compaction;
        metrics.surveyed.increment(done.rows_surveyed);
        if done.rows_read > 0 {
            metrics.seconds.record(started.elapsed().as_secs_f64());
            metrics.bytes.increment(done.bytes_written);
            metrics.rows.increment(done.rows_read);
            let dropped = done.rows_read.saturating_sub(done.rows_written);
            metrics.dropped.increment(dropped);
            let families = &self.shared.metrics.all.families;
            for reason in Reason::ALL {
                let (tally, label) = (done.reclaimed.of(reason), [reason.name()]);
                families.reclaimed_rows.of(&label).increment(tally.rows);
                families.reclaimed_bytes.of(&label).increment(tally.bytes);
            }
        }
        Ok(done.more)
    }

    /// How far behind the image is, and whether there is room.
    fn lag(&self, image: &image::Pressure, is_idle: bool) -> FlushLag {
        let frozen = self.shared.frozen();
        let image_free = image.file_bytes.saturating_sub(image.bytes_used);
        // Too many runs and nothing to merge: there is no room for a merge.
        let has_room = self.shared.reserve.take(is_idle, image_free) && self.keeper.has_room();
        if !has_room || (image.busy && is_idle) {
            return FlushLag::Full;
        }
        if image_free >= self.options.reserve_bytes {
            // What was asked for has come.
            self.shared.reserve.set_making_room(false);
        }
        if image.busy || frozen >= FROZEN_MAX {
            FlushLag::Busy
        } else if image.slow {
            let steps = image
                .level0_runs
                .saturating_sub(self.options.image.level0_slow_runs)
                + 1;
            FlushLag::Slow(u16::try_from(steps).unwrap_or(u16::MAX))
        } else if frozen * 2 > FROZEN_MAX {
            FlushLag::Slow(1)
        } else {
            FlushLag::None
        }
    }
}

/// Writes a memtable into the image as its newest run. `between` is called now and then.
pub(in super::super) fn flush(
    image: &Image,
    memtable: &Memtable,
    rules: &dyn Rules,
    between: &mut dyn FnMut(),
) -> Result<(), Error> {
    let mut entries = memtable.collapsed(rules);
    image.flush(memtable.after(), memtable.last(), &mut entries, between)
}
