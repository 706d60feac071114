//! The array that answers a batch: it never passes the outbound limit.
//!
//! Owns: how the room of the array is shared out. Promises: the answer of a write says what was done, if need be in
//! short; a write whose shortest answer might find no room is refused before it does anything; what can be asked for
//! again gives way. Answers are in the order of the calls. Must not: begin or await calls.

use bytes::Bytes;

use super::super::messages::message::Message;
use super::super::messages::{grow, message, reaction};
use super::super::people::{conversation, position, receipt};
use super::super::server::session;
use super::super::tables::{row, sql};
use super::super::timelines::{member, timeline};
use super::encode::{self, Encoding};
use crate::dialect::{Call, Id, Together};
use crate::failure::Failure;
use crate::limits::Limits;
use crate::methods::{ExtraBytes, Reply, Request, Shorten};

/// The array, with the answers that it has so far.
#[derive(Debug)]
pub(super) struct Array {
    encoding: Encoding,
    /// Of the whole array, bytes.
    limit: u64,
    out: Vec<u8>,
    /// Bytes that are reserved for the answers that are not here yet; those of the next answer are last.
    reserves: Vec<usize>,
    reserved: usize,
    count: usize,
}

impl Array {
    /// Reserves room for the shortest answer of each call. Calls for which there is none become refusals.
    pub(super) fn new(calls: &mut [Call], encoding: Encoding, limits: &Limits) -> Array {
        let limit = limits.outbound_frame_bytes_max;
        let mut room = size(limit).saturating_sub(ARRAY_BYTES + calls.len() * SHORT_BYTES);
        let mut reserves = Vec::with_capacity(calls.len());
        for call in calls.iter_mut().filter(|call| call.id.is_some()) {
            let more = call.request.as_ref().map_or(0, Request::extra_bytes);
            if more <= room {
                room -= more;
                reserves.push(SHORT_BYTES + more);
            } else {
                let actual = limit.saturating_add((more - room) as u64);
                call.request = Err(too_large(limit, actual));
                reserves.push(SHORT_BYTES);
            }
        }
        reserves.reverse();
        let mut out = Vec::new();
        encode::array_begin(&mut out, reserves.len(), encoding);
        Array {
            encoding,
            limit,
            out,
            reserved: reserves.iter().sum(),
            reserves,
            count: 0,
        }
    }
}

impl Together for Array {
    fn add(&mut self, id: &Id, answer: Result<Reply, Failure>) -> bool {
        self.reserved -= self.reserves.pop().unwrap_or(0);
        if self.count > 0 {
            encode::array_next(&mut self.out, self.encoding);
        }
        self.count += 1;
        let begin = self.out.len();
        // An answer may take all that is not reserved for those behind it.
        let end_max = size(self.limit).saturating_sub(self.reserved + ARRAY_BYTES);
        encode::answer(&mut self.out, id, answer.as_ref(), self.encoding);
        if self.out.len() <= end_max {
            return true;
        }
        let actual = self.limit + (self.out.len() - end_max) as u64;
        self.out.truncate(begin);
        let short = shorter(answer, self.limit, actual);
        encode::answer(&mut self.out, id, short.as_ref(), self.encoding);
        debug_assert!(self.out.len() <= end_max, "an answer passes its reserve");
        false
    }

    fn finish(mut self: Box<Self>) -> Option<Bytes> {
        encode::array_end(&mut self.out, self.encoding);
        (self.count > 0).then(|| Bytes::from(self.out))
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn too_large(limit: u64, actual: u64) -> Failure {
    Failure::too_large("", "outbound_frame_bytes_max", limit, actual)
        .saying("the batch's answers pass outbound_frame_bytes_max; send this call by itself")
}

/// An answer that fits into its reserve: in short what a write has done, and a refusal instead of what can be asked
/// again.
fn shorter(answer: Result<Reply, Failure>, limit: u64, actual: u64) -> Result<Reply, Failure> {
    match answer {
        Ok(reply) => reply.shortened().ok_or_else(|| too_large(limit, actual)),
        // Without the texts that may be long.
        Err(failure) => Err(Failure {
            message: failure.reason.message().into(),
            field: None,
            ..failure
        }),
    }
}

impl ExtraBytes for session::Open {
    /// The user and the limits.
    fn extra_bytes(&self) -> usize {
        SHORT_BYTES
    }
}

impl ExtraBytes for message::AppendBatch {
    fn extra_bytes(&self) -> usize {
        let ids = self.messages.iter().map(|one| one.message_id.as_deref());
        ids.map(|id| APPENDED_BYTES + id.map_or(0, |id| ESCAPED * id.len()))
            .sum()
    }
}

impl ExtraBytes for receipt::ReadSet {
    fn extra_bytes(&self) -> usize {
        let timelines = self.timeline.iter().chain(self.positions.keys());
        timelines
            .map(|timeline| READ_STATE_BYTES + ESCAPED * timeline.len())
            .sum()
    }
}

impl ExtraBytes for row::Put {
    /// The key, and a number in it.
    fn extra_bytes(&self) -> usize {
        self.key.0.encoded_bytes_max() + SHORT_BYTES
    }
}

impl Shorten for message::Got {
    fn shorten(&mut self) {
        shorten(&mut self.message);
    }
}

impl Shorten for grow::Finished {
    fn shorten(&mut self) {
        shorten(&mut self.message);
    }
}

fn shorten(message: &mut Message) {
    (message.entry, message.reactions) = (None, None);
    (message.reason, message.stopped_by) = (None, None);
    message.sender.clear();
}

impl Shorten for timeline::Updated {
    fn shorten(&mut self) {
        self.meta = None;
    }
}

impl Shorten for reaction::Reacted {
    fn shorten(&mut self) {
        self.reactions = None;
    }
}

impl Shorten for conversation::Updated {
    fn shorten(&mut self) {
        self.attributes = None;
    }
}

impl Shorten for position::Stored {
    fn shorten(&mut self) {
        self.positions = None;
    }
}

impl Shorten for sql::Answer {
    fn shorten(&mut self) {
        self.cut |= !self.rows.is_empty();
        (self.columns, self.rows) = (Vec::new(), Vec::new());
    }
}

impl Shorten for member::Updated {
    fn shorten(&mut self) {
        self.member = None;
    }
}

/// Brackets of the array, or its header.
const ARRAY_BYTES: usize = 8;
/// More than the shortest answer to most calls and the comma before it: a refusal without details, or a result of some
/// numbers and an ID or two, all of them as long as they may be and escaped. Batches have at most as many calls as have
/// room for this.
const SHORT_BYTES: usize = Limits::BATCH_ANSWER_BYTES;
/// One message in the answer of `message.append_batch`: names, numbers, an ID that the server made.
const APPENDED_BYTES: usize = 160;
/// One timeline in the answer of `read.set`: names and numbers, or a reason.
const READ_STATE_BYTES: usize = 100;
/// A control character is a byte and becomes six, `\u0001`.
const ESCAPED: usize = 6;
