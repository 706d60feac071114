//! The array that answers a batch: it never passes the outbound limit.
//!
//! Owns: how the room of the array is shared out. Promises: the answer of a write says what was done, if need be in
//! short; a write whose shortest answer might find no room is refused before it does anything; what can be asked for
//! again gives way. Answers are in the order of the calls. Must not: begin or await calls.

use bytes::Bytes;

use super::encode::{self, Encoding};
use crate::wire::dialect::{Call, Id, Together};
use crate::wire::failure::Failure;
use crate::wire::limits::Limits;
use crate::wire::methods::{Reply, Request};

/// The array, with the answers that it has so far.
#[derive(Debug)]
pub(super) struct Array {
    encoding: Encoding,
    /// Of the whole array, bytes.
    limit: u64,
    out: Vec<u8>,
    /// What the answers that are not here yet are sure of, the next one's last.
    claims: Vec<usize>,
    claimed: usize,
    count: usize,
}

impl Array {
    /// Claims room for the shortest answer of each call. Calls for which there is none become refusals.
    pub(super) fn new(calls: &mut [Call], encoding: Encoding, limits: &Limits) -> Array {
        let limit = limits.outbound_frame_bytes_max;
        let mut room = size(limit).saturating_sub(ARRAY_BYTES + calls.len() * SHORT_BYTES);
        let mut claims = Vec::with_capacity(calls.len());
        for call in calls.iter_mut().filter(|call| call.id.is_some()) {
            let more = call.request.as_ref().map_or(0, beyond_short);
            if more <= room {
                room -= more;
                claims.push(SHORT_BYTES + more);
            } else {
                let actual = limit.saturating_add((more - room) as u64);
                call.request = Err(too_large(limit, actual));
                claims.push(SHORT_BYTES);
            }
        }
        claims.reverse();
        let mut out = Vec::new();
        encode::array_begin(&mut out, claims.len(), encoding);
        Array {
            encoding,
            limit,
            out,
            claimed: claims.iter().sum(),
            claims,
            count: 0,
        }
    }
}

impl Together for Array {
    fn add(&mut self, id: &Id, answer: Result<Reply, Failure>) -> bool {
        self.claimed -= self.claims.pop().unwrap_or(0);
        if self.count > 0 {
            encode::array_next(&mut self.out, self.encoding);
        }
        self.count += 1;
        let begin = self.out.len();
        // Each may have what those behind it are not sure of.
        let end_max = size(self.limit).saturating_sub(self.claimed + ARRAY_BYTES);
        encode::answer(&mut self.out, id, answer.as_ref(), self.encoding);
        if self.out.len() <= end_max {
            return true;
        }
        let actual = self.limit + (self.out.len() - end_max) as u64;
        self.out.truncate(begin);
        let short = shorter(answer, self.limit, actual);
        encode::answer(&mut self.out, id, short.as_ref(), self.encoding);
        debug_assert!(self.out.len() <= end_max, "an answer passes its claim");
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

/// What the shortest answer of a call may take beyond [`SHORT_BYTES`].
fn beyond_short(request: &Request) -> usize {
    match request {
        // The user and the limits.
        Request::SessionOpen(_) => SHORT_BYTES,
        Request::MessageAppendBatch(batch) => batch
            .messages
            .iter()
            .map(|message| {
                let id = message.message_id.as_deref();
                APPENDED_BYTES + id.map_or(0, |id| ESCAPED * id.len())
            })
            .sum(),
        Request::ReadSet(set) => {
            let state = |timeline: &String| READ_STATE_BYTES + ESCAPED * timeline.len();
            set.timeline
                .iter()
                .chain(set.positions.keys())
                .map(state)
                .sum()
        }
        Request::Ping(_)
        | Request::TimelineCreate(_)
        | Request::TimelineGet(_)
        | Request::TimelineUpdate(_)
        | Request::TimelineDelete(_)
        | Request::TimelineTrim(_)
        | Request::TimelineList(_)
        | Request::TimelineConfigure(_)
        | Request::MemberAdd(_)
        | Request::MemberUpdate(_)
        | Request::MemberRemove(_)
        | Request::MemberGet(_)
        | Request::MemberList(_)
        | Request::MessageAppend(_)
        | Request::MessageGet(_)
        | Request::MessageRange(_)
        | Request::MessageUpdate(_)
        | Request::MessageDelete(_)
        | Request::MessageRecall(_)
        | Request::ReactionAdd(_)
        | Request::ReactionRemove(_)
        | Request::ReactionList(_)
        | Request::PinAdd(_)
        | Request::PinRemove(_)
        | Request::PinList(_)
        | Request::ConversationList(_)
        | Request::ConversationSync(_)
        | Request::ConversationCount(_)
        | Request::ConversationGet(_)
        | Request::ConversationDirect(_)
        | Request::ConversationUpdate(_)
        | Request::ConversationHide(_)
        | Request::FeedFollow(_)
        | Request::FeedUnfollow(_)
        | Request::FeedFollowing(_)
        | Request::FeedFollowers(_)
        | Request::FeedRange(_)
        | Request::ScheduleList(_)
        | Request::ScheduleCancel(_)
        | Request::MessageHide(_)
        | Request::MessageHidden(_)
        | Request::ConversationClear(_)
        | Request::ReceiptList(_)
        | Request::PositionSet(_)
        | Request::PositionList(_)
        | Request::PositionRemove(_)
        | Request::Sync(_)
        | Request::Subscribe(_)
        | Request::Unsubscribe(_)
        | Request::Signal(_)
        | Request::PresenceGet(_)
        | Request::Discover(_) => 0,
    }
}

/// An answer that fits into its claim: in short what a write has done, and a refusal instead of what can be asked
/// again.
fn shorter(answer: Result<Reply, Failure>, limit: u64, actual: u64) -> Result<Reply, Failure> {
    match answer {
        // Without the texts that may be long.
        Err(failure) => Err(Failure {
            message: failure.reason.message().into(),
            field: None,
            ..failure
        }),
        Ok(Reply::MessageUpdate(mut got)) => {
            got.message.entry = None;
            got.message.sender = None;
            got.message.reactions = None;
            Ok(Reply::MessageUpdate(got))
        }
        Ok(Reply::TimelineUpdate(mut updated)) => {
            updated.meta = None;
            Ok(Reply::TimelineUpdate(updated))
        }
        Ok(Reply::ReactionAdd(mut reacted)) => {
            reacted.reactions = None;
            Ok(Reply::ReactionAdd(reacted))
        }
        Ok(Reply::ReactionRemove(mut reacted)) => {
            reacted.reactions = None;
            Ok(Reply::ReactionRemove(reacted))
        }
        Ok(Reply::ConversationUpdate(mut updated)) => {
            updated.attributes = None;
            Ok(Reply::ConversationUpdate(updated))
        }
        Ok(Reply::PositionSet(mut stored)) => {
            stored.positions = None;
            Ok(Reply::PositionSet(stored))
        }
        Ok(Reply::MemberUpdate(mut updated)) => {
            updated.member = None;
            Ok(Reply::MemberUpdate(updated))
        }
        // Within their claims as they are.
        Ok(
            short @ (Reply::SessionOpen(_)
            | Reply::TimelineCreate(_)
            | Reply::TimelineDelete(_)
            | Reply::TimelineTrim(_)
            | Reply::TimelineConfigure(_)
            | Reply::MemberAdd(_)
            | Reply::MemberRemove(_)
            | Reply::MessageAppend(_)
            | Reply::MessageAppendBatch(_)
            | Reply::ScheduleCancel(_)
            | Reply::MessageDelete(_)
            | Reply::MessageRecall(_)
            | Reply::PinAdd(_)
            | Reply::PinRemove(_)
            | Reply::ConversationCount(_)
            | Reply::ConversationDirect(_)
            | Reply::ConversationHide(_)
            | Reply::FeedFollow(_)
            | Reply::FeedUnfollow(_)
            | Reply::MessageHide(_)
            | Reply::ConversationClear(_)
            | Reply::ReadSet(_)
            | Reply::PositionRemove(_)
            | Reply::Unsubscribe(_)
            | Reply::Signal(_)
            | Reply::Ping(_)),
        ) => Ok(short),
        Ok(
            Reply::Discover(_)
            | Reply::TimelineGet(_)
            | Reply::TimelineList(_)
            | Reply::MemberGet(_)
            | Reply::MemberList(_)
            | Reply::MessageGet(_)
            | Reply::MessageRange(_)
            | Reply::ReactionList(_)
            | Reply::PinList(_)
            | Reply::ConversationList(_)
            | Reply::ConversationSync(_)
            | Reply::ConversationGet(_)
            | Reply::FeedFollowing(_)
            | Reply::FeedFollowers(_)
            | Reply::FeedRange(_)
            | Reply::ScheduleList(_)
            | Reply::MessageHidden(_)
            | Reply::ReceiptList(_)
            | Reply::PositionList(_)
            | Reply::Sync(_)
            | Reply::PresenceGet(_)
            | Reply::Subscribe(_),
        ) => Err(too_large(limit, actual)),
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
