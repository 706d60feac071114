//! What a node commands, done.
//!
//! Owns: the bytes of the frame in flight, and of the frame that has just come. Promises: the same frame is sent with
//! the same bytes each time; a taken frame reaches the host with its bytes. Must not: answer for the stream.

use tideline_base::faults;
use tideline_cluster::{Answer, Command, CommitTime, Content, Draft, Event, Frame, Sealed};

use super::run::Running;
use crate::beat;
use crate::steady::steady_now;

impl Running {
    /// Does what the node commands, until it commands nothing.
    pub(super) async fn obey(&mut self) {
        loop {
            let commands = self.node.commands();
            if commands.is_empty() || self.stopped.is_some() {
                return;
            }
            for command in commands {
                self.obey_one(command).await;
            }
        }
    }

    async fn obey_one(&mut self, command: Command) {
        match command {
            // An owner's own frames wait for the batch that is being filled; it is wanted again at the next tick.
            Command::Seal(draft) if is_between(&draft) && !self.host.yields() => {}
            Command::Seal(draft) => {
                let frame = Frame::seal(&draft, self.next_time(), &[]);
                self.hand_over(frame);
            }
            Command::Send(frame) => self.send(&frame).await,
            Command::Fetch(position) => self.link.get(position).await,
            Command::Follow(after) => {
                let now = steady_now();
                if !self.follow.is_at(after, now) {
                    self.consume(after, now);
                }
            }
            Command::Look { number, positions } => self.look(number, positions),
            Command::Take { frame, is_void } => self.take(&frame, is_void),
            Command::Own => self.host.event(Event::Owns),
            Command::Acknowledge(upto) => self.host.event(Event::Acknowledged(upto)),
            Command::Moved(position) => self.host.event(Event::Moved(position)),
            Command::Again(position) => self.host.event(Event::Again(position)),
            Command::Full(position) => self.host.event(Event::Full(position)),
            Command::Say(beat) => self.link.say(beat::encode(&beat)).await,
            Command::Purge(upto) => self.link.purge(upto).await,
            Command::Stop(halt) => self.stopped = Some(halt.to_string()),
        }
    }

    /// Sends the host's next batch, if the node may send one now.
    pub(super) async fn feed(&mut self) {
        let Some(draft) = self.node.draft(Content::Batch, steady_now()) else {
            return;
        };
        let Some(bytes) = self.host.next(&draft, self.next_time()) else {
            return;
        };
        let fits = bytes.len() as u64 <= self.frame_bytes_max;
        let frame = Frame::read(bytes).filter(|frame| fits && is_of(frame, &draft));
        match frame {
            Some(frame) => {
                let position = frame.sealed.position;
                if !self.hand_over(frame) {
                    self.host.event(Event::Again(position));
                }
                self.obey().await;
            }
            None => {
                let position = draft.position;
                self.stopped = Some(format!(
                    "the batch for {position} was not sealed as it must be; this is a bug of Tideline"
                ));
            }
        }
    }

    /// The commit time of a frame that is sealed now.
    fn next_time(&self) -> CommitTime {
        self.time.next(self.clock.now_ms())
    }

    /// Hands a sealed frame to the node, which commands its sending.
    fn hand_over(&mut self, frame: Frame) -> bool {
        let is_taken = self.node.send(frame.sealed.clone(), steady_now());
        if is_taken {
            self.sent = Some((frame, 0));
        }
        is_taken
    }

    async fn send(&mut self, sealed: &Sealed) {
        let Some((frame, copies)) = &mut self.sent else {
            return;
        };
        debug_assert_eq!(frame.sealed, *sealed, "one frame is in flight");
        *copies += 1;
        let (is_again, position) = (*copies > 1, sealed.position);
        let mut bytes = frame.bytes.clone();
        if is_again && faults::is_named("cluster_OtherBytes") {
            let draft = draft_of(sealed);
            let payload = frame.bytes.slice(crate::HEADER_BYTES..);
            bytes = Frame::seal(&draft, frame.time.next(0), &payload).bytes;
        }
        let is_claim = matches!(sealed.content, Content::Claim(_));
        let is_anywhere = is_claim && faults::is_named("cluster_ClaimAnywhere");
        if !is_again && faults::is_named("cluster_AckBeforeStored") {
            self.host.event(Event::Acknowledged(position));
        }
        if !self.link.publish(position, bytes, is_anywhere).await {
            self.node.answered(position, Answer::Failed, steady_now());
        }
    }

    fn take(&mut self, sealed: &Sealed, is_void: bool) {
        let is_same = |frame: &&Frame| frame.sealed.hash == sealed.hash;
        let came = self.came.as_ref().filter(is_same);
        let sent = self.sent.as_ref().map(|(frame, _)| frame).filter(is_same);
        let Some(frame) = came.or(sent) else {
            let position = sealed.position;
            self.stopped = Some(format!(
                "the frame at {position} was taken and is not there; this is a bug of Tideline"
            ));
            return;
        };
        self.time = self.time.max(frame.time);
        self.host.event(Event::Taken { frame, is_void });
    }
}

/// Whether a control frame goes between an owner's batches.
fn is_between(draft: &Draft) -> bool {
    !matches!(draft.content, Content::Claim(_) | Content::Resign { .. })
}

/// Whether a frame is what this draft becomes.
fn is_of(frame: &Frame, draft: &Draft) -> bool {
    draft_of(&frame.sealed) == *draft
}

fn draft_of(sealed: &Sealed) -> Draft {
    let Sealed {
        log,
        position,
        term,
        previous_crc,
        crc: _,
        hash: _,
        content,
    } = sealed.clone();
    Draft {
        log,
        position,
        term,
        previous_crc,
        content,
    }
}
