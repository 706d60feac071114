//! A member's mirror and image.
//!
//! Owns: when the mirror is synced, and when the place is written. Promises: the image never runs ahead of the mirror
//! on disk, nor of the place that is written; the mirror is synced once a second, as its frames are in the log, too.
//! Must not: judge frames.

use std::time::{Duration, Instant};

use super::super::commit::writer::Writer;
use super::super::{FROZEN_MAX, StoreError};
use super::member::Member;
use super::place;
use crate::log::{AppendError, Frame};

/// What was taken is on the disk here after this time.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to write where there is no room.
const ROOM_AGAIN: Duration = Duration::from_millis(100);
/// A mirror, and a memtable that is full, wait so long for room on the disk.
const ROOM_WAIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

impl Writer {
    /// Writes a frame that is in the log to the mirror; why that can't be done. Waits a while for room.
    pub(super) fn mirror(&mut self, member: &mut Member, frame: &Frame) -> Result<(), String> {
        let started = Instant::now();
        let mut is_told = false;
        loop {
            match self.log.take(frame) {
                Ok(()) => {
                    member.is_dirty = true;
                    return Ok(());
                }
                Err(error @ (AppendError::Full(_) | AppendError::Busy(_)))
                    if started.elapsed() < ROOM_WAIT && !self.shared.queue.is_closed() =>
                {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(%error, "the mirror of the cluster's log waits");
                    }
                    std::thread::sleep(ROOM_AGAIN);
                }
                Err(error) => {
                    return Err(format!("the mirror of the cluster's log failed: {error}"));
                }
            }
        }
    }

    /// Syncs the mirror, if it is time.
    pub(super) fn sync_member(&mut self, member: &mut Member) {
        if member.is_dirty && member.synced.elapsed() >= SYNC_EVERY {
            self.sync_now(member);
        }
    }

    /// Whether all that was taken is on disk.
    fn sync_now(&mut self, member: &mut Member) -> bool {
        let synced = self.log.sync();
        (member.is_dirty, member.synced) = (false, Instant::now());
        member.line.covers(self.shared.covered());
        if let Err(error) = &synced {
            self.stop_member(
                member,
                format!("the mirror of the cluster's log failed: {error}"),
            );
        }
        synced.is_ok()
    }

    /// Freezes the memtable once mirror and place are on disk. Nothing is on its way.
    pub(super) fn freeze_member(&mut self, member: &mut Member) {
        // Who writes is told to wait by the queue; who follows waits itself.
        let is_stopped = self.shared.is_stopped();
        member.is_lagging = !is_stopped && !member.owns && self.shared.frozen() >= FROZEN_MAX;
        if member.is_lagging || is_stopped {
            return;
        }
        if self.memtable.is_empty() {
            self.rotate();
            return;
        }
        if !self.sync_now(member) {
            return;
        }
        let (folder, first) = &member.files;
        match place::write(folder, &member.place, first) {
            Ok(()) => {
                member.stuck = None;
                self.rotate();
            }
            Err(error) => {
                if member.stuck.is_none() {
                    tracing::warn!(%error, "the memtable can't be flushed; trying again");
                }
                if member.stuck.get_or_insert_with(Instant::now).elapsed() >= ROOM_WAIT {
                    // Another node may have room: nobody claims the log while this one owns it.
                    self.stop_member(member, format!("the memtable can't be flushed: {error}"));
                }
                std::thread::sleep(ROOM_AGAIN);
            }
        }
    }

    /// Before the writer ends: answers what is still open, and makes all that was taken durable here.
    pub(super) fn let_go(&mut self, member: &mut Member) {
        self.take_back(member, StoreError::OutcomeUnknown);
        for (_, answers) in std::mem::take(&mut member.unanswered) {
            for job in answers {
                job.answer(Err(StoreError::OutcomeUnknown));
            }
        }
        if self.shared.is_stopped() && !member.is_halted || !self.sync_now(member) {
            return;
        }
        let (folder, first) = &member.files;
        let owned = member.owns || member.owned;
        if let Err(error) = place::write_owned(folder, &member.place, first, owned) {
            // Nothing is flushed then; the next start has it all from the mirror.
            self.shared.stop(error.to_string());
        }
    }
}
