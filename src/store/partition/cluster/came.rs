//! What comes of the log, applied.
//!
//! Owns: how taken frames become rows, and what they say of a batch on its way. Promises: each frame is judged here
//! once more, and one that does not follow ends the node's part; rows of a batch that is not in the log are gone before
//! another frame shows. Must not: answer "done" for anything that was not acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline_cluster::{Frame as WholeFrame, Place};

use super::super::StoreError;
use super::super::commit::job::closures_of;
use super::super::commit::writer::Writer;
use super::Role;
use super::line::Came;
use super::member::{Member, Sent};
use crate::log::Frame;
use tideline_base::ids::Position;

/// What comes is applied for so long, before the writer looks at the rest of its work.
const COME: Duration = Duration::from_millis(20);

impl Writer {
    /// Applies what came, for a while; whether there may be more. `false` also when the flusher is too far behind.
    pub(super) fn come(&mut self, member: &mut Member) -> bool {
        let began = Instant::now();
        while began.elapsed() < COME {
            if !member.owns && member.is_free() && self.is_full() {
                self.freeze_member(member);
                if member.is_lagging {
                    return false;
                }
            }
            let Some(came) = member.line.pop() else {
                return false;
            };
            if self.shared.is_stopped() {
                continue;
            }
            match came {
                Came::Taken { frame, is_void } => {
                    if let Err(why) = self.took(member, &frame, is_void) {
                        self.stop_member(member, why);
                    }
                }
                Came::Owns => {
                    member.owns = true;
                    self.shared.hold.set_follows(false);
                    self.tell_role(member);
                }
                Came::Acknowledged(upto) => self.acknowledged(member, upto),
                Came::Moved => {
                    member.owns = false;
                    self.shared.hold.set_follows(true);
                    self.stored_is_settled(member);
                    self.take_back(member, StoreError::Moved);
                    self.tell_role(member);
                }
                Came::Lost(position) => self.lost(member, position, StoreError::Busy),
                Came::Full(position) => self.lost(member, position, StoreError::StorageFull),
                Came::Stopped(why) => {
                    member.is_halted = true;
                    member.owned = member.owns;
                    self.stop_member(member, why);
                }
            }
        }
        true
    }

    /// Takes a frame that is in the log.
    fn took(
        &mut self,
        member: &mut Member,
        whole: &WholeFrame,
        is_void: bool,
    ) -> Result<(), String> {
        let sealed = &whole.sealed;
        let judged = member.place.replay(sealed);
        if judged != Ok(is_void) {
            let judged = judged.map_or_else(|what| what, |_| "it is not void here, or is");
            let position = sealed.position;
            return Err(format!(
                "frame {position} of the cluster's log can't be taken: {judged}"
            ));
        }
        let is_own = |sent: &&mut Sent| {
            let sent = (sent.frame.position, sent.frame.crc());
            sent == (sealed.position, sealed.crc) && !is_void
        };
        if let Some(sent) = member.sent.as_mut().filter(is_own) {
            let frame = Arc::clone(&sent.frame);
            sent.is_stored = true;
            return self.mirror(member, &frame);
        }
        // A batch of this node's is not where another frame is.
        self.stored_is_settled(member);
        let error = match is_void {
            true => StoreError::Busy,
            false => StoreError::Moved,
        };
        self.take_back(member, error);
        let frame = Frame::read(&whole.bytes, is_void)
            .ok_or_else(|| format!("frame {} of the cluster's log has no rows", sealed.position))?;
        self.mirror(member, &frame)?;
        self.memtable.insert(&frame, &*self.rules);
        self.position = frame.position;
        self.show(Arc::new(frame));
        // A claim or a resignation says who owns, and the last frame that nobody does.
        if !member.owns || member.place.is_ended {
            self.tell_role(member);
        }
        Ok(())
    }

    /// Shows a frame of the mirror to readers.
    fn show(&mut self, frame: Arc<Frame>) {
        let (position, bytes) = (frame.position, frame.bytes());
        self.log.publish(frame);
        self.shared.publish(position, bytes);
        self.tail_watch.send_replace(position);
    }

    /// The batch on its way is in the log, and another frame is behind it: only its answer is still open.
    fn stored_is_settled(&mut self, member: &mut Member) {
        if let Some(sent) = member.sent.take_if(|sent| sent.is_stored) {
            let at = sent.frame.position;
            self.show(sent.frame);
            member.unanswered.push_back((at, sent.answers));
        }
    }

    fn acknowledged(&mut self, member: &mut Member, upto: Position) {
        while let Some((_, answers)) = member.unanswered.pop_front_if(|(at, _)| *at <= upto) {
            answers.into_iter().for_each(|job| job.answer(Ok(())));
        }
        let is_it = |sent: &mut Sent| sent.is_stored && sent.frame.position <= upto;
        let Some(sent) = member.sent.take_if(is_it) else {
            return;
        };
        let metrics = &self.shared.metrics.commit;
        let took = sent.since.elapsed();
        metrics.sync_seconds.record(took.as_secs_f64());
        metrics.batches.increment(1);
        metrics.batch_closures.count(closures_of(&sent.answers));
        metrics.batch_bytes.record(sent.frame.bytes() as f64);
        self.show(sent.frame);
        for job in sent.answers {
            job.answer(Ok(()));
        }
    }

    /// The batch that was on its way for this position is not in the log.
    fn lost(&mut self, member: &mut Member, position: Position, error: StoreError) {
        let sent = member.sent.as_ref();
        if sent.is_some_and(|sent| sent.frame.position == position && !sent.is_stored) {
            self.take_back(member, error);
        }
    }

    /// Takes back the batch on its way, which is not in the log, and the one that was filled above it.
    pub(super) fn take_back(&mut self, member: &mut Member, error: StoreError) {
        if let Some(sent) = member.sent.take() {
            for job in sent.answers {
                job.answer(Err(error));
            }
            // None of its rows may stay.
            if !self.keeps_rows() {
                self.memtable.discard_above(self.log.settled());
            }
            self.position = self.log.settled();
        }
        member.filled = None;
        // It was not written, whatever became of the other.
        self.answer(Err(match error {
            StoreError::OutcomeUnknown => StoreError::Unavailable,
            known => known,
        }));
        self.pending.forget();
        member.line.release();
    }

    /// A planted bug.
    fn keeps_rows(&self) -> bool {
        #[cfg(any(test, feature = "faults"))]
        return self.options.fault == Some(super::super::Fault::MemberKeepsRows);
        #[cfg(not(any(test, feature = "faults")))]
        false
    }

    /// Ends this node's part in the log.
    pub(super) fn stop_member(&mut self, member: &mut Member, why: String) {
        tracing::error!("the cluster's log: {why}; the partition stops");
        self.shared.metrics.commit.failed.increment(1);
        self.shared.stop(why.clone());
        member.owns = false;
        member.line.close();
        self.take_back(member, StoreError::OutcomeUnknown);
        for (_, answers) in member.unanswered.drain(..) {
            for job in answers {
                job.answer(Err(StoreError::OutcomeUnknown));
            }
        }
        member.line.role.send_replace(Role::Stopped(why));
    }

    /// Tells what this node's part is now, if that is new.
    pub(super) fn tell_role(&self, member: &Member) {
        let Place {
            owner,
            term,
            is_ended,
            ..
        } = &member.place;
        let owner = owner.as_ref().map(|claim| &claim.node);
        member.line.role.send_if_modified(|role| {
            let is_same = match &*role {
                Role::Stopped(_) => true,
                Role::Ended => *is_ended,
                _ if *is_ended => false,
                Role::Owns { term: of } => member.owns && of == term,
                Role::Follows {
                    owner: by,
                    term: of,
                } => !member.owns && by.as_ref() == owner && of == term,
            };
            if !is_same {
                let (owner, term) = (owner.cloned(), *term);
                *role = match member.owns {
                    _ if *is_ended => Role::Ended,
                    true => Role::Owns { term },
                    false => Role::Follows { owner, term },
                };
            }
            !is_same
        });
    }
}
