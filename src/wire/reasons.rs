//! Every reason for which the server refuses a call, in one place: its code, whether to retry, and what to do about it.
//!
//! Owns: the list. Promises: a reason is never renamed, never reused and is here once; `schemas/error.json` is made
//! from it. Must not: carry details of one refusal; those are in `Failure`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

listed! {
    /// Why a call was refused. Clients switch on it; one that they don't know they treat by its `retry`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Reason {
        /// The bytes are not JSON (or MessagePack). Repair the encoder.
        ParseError,
        /// Not a JSON-RPC 2.0 request, or its id is neither text up to 64 bytes nor an integer of 64 bits. Repair it.
        InvalidRequest,
        /// No such method, or not on this transport. Ask `rpc.discover`.
        MethodNotFound,
        /// A parameter is missing, unknown, ill-typed or out of range; `field` says which. Repair the call.
        InvalidParams,
        /// A fault of the server; nothing was written. Report it.
        InternalError,
        /// No valid token. Get a new one, then open the session again.
        Unauthenticated,
        /// This user may not do this. Don't repeat it.
        Forbidden,
        /// The user may read this, but is not a member. Add the user first, or leave it.
        NotAMember,
        /// No such timeline. Create it, or drop the name.
        TimelineNotFound,
        /// No such message: beyond `head`, below `floor`, or deleted and therefore not to be edited.
        MessageNotFound,
        /// No such member. Read the list of members again.
        MemberNotFound,
        /// No such session, or none that the caller may see. Ask `session.list`.
        SessionNotFound,
        /// The caller is no member of this timeline, or there is none. Drop it from the list.
        ConversationNotFound,
        /// No such table. Create it, by Tablestore's API.
        TableNotFound,
        /// No named cursor of this name. Make it by `stream.open`.
        CursorNotFound,
        /// No webhook of this name is configured. Ask `webhook.list`.
        WebhookNotFound,
        /// The webhook has no dead letter of this number: it was taken, or never was. Ask `webhook.dead`.
        DeadLetterNotFound,
        /// No partition of this number is served: it was split or merged, or never was. Ask `partition.list`.
        PartitionNotFound,
        /// No such message is scheduled by this user: appended, cancelled or never scheduled. Read the timeline.
        ScheduledNotFound,
        /// `expect_head`, `expect_version` or `expect_change` did not hold; `actual` is the current one. Read, decide
        /// again.
        ConditionFailed,
        /// Nothing is appended to the timeline any more. Use another one.
        TimelineClosed,
        /// The message ID was taken by another entry. Choose another ID, or find out why two entries share one.
        MessageIdConflict,
        /// The message does not grow, or not any more; `outcome`, `parts` and `stopped_by` say how it ended. Stop
        /// writing to it.
        MessageClosed,
        /// Another text was taken as this part; `actual` is the number of parts. Read the message: two writers share
        /// it.
        PartConflict,
        /// The given epoch is not the current one: the history was replaced. Forget the timeline and start over.
        EpochChanged,
        /// The server keeps no index of messages. Switch it on: `[search] messages`.
        SearchOff,
        /// The table has no stream. Enable it, by Tablestore's API.
        NoStream,
        /// The server lacks a setting for this; `field` names it. Set it, and start the server again.
        NotConfigured,
        /// The log has let go of what follows this position, or it is of a history that was replaced. Read anew what
        /// the changes are of, and open the stream from now.
        PositionLost,
        /// This connection has a subscription on this timeline. Unsubscribe first, to move it.
        AlreadySubscribed,
        /// Larger than a limit; `limit` and `actual` say by how much. Send less.
        TooLarge,
        /// More of something than there may be; `limit` and `actual` say how many. Take some away first.
        TooMany,
        /// Too many calls. Wait for `retry_after_ms`.
        RateLimited,
        /// More work is queued than the server accepts. Wait a little longer each time, then repeat.
        Busy,
        /// This part of the store can't write (or read) now. Repeat later.
        Unavailable,
        /// The server stops. Reconnect after a random time and repeat.
        ShuttingDown,
        /// Perhaps written, perhaps not: the only reason that leaves this open. Repeat with the same message ID.
        OutcomeUnknown,
        /// The disk is full. Repeat later.
        StorageFull,
    }
}

impl Reason {
    /// The class of the reason, the `code` of an error: JSON-RPC's own numbers, else as HTTP's.
    #[must_use]
    pub fn code(self) -> i32 {
        self.facts().0
    }

    /// Whether the same call can succeed later, unchanged.
    #[must_use]
    pub fn retry(self) -> bool {
        self.facts().1
    }

    /// The text of the reason on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().2
    }

    /// A message for failures that have none of their own.
    #[must_use]
    pub fn message(self) -> &'static str {
        self.facts().3
    }

    /// Code, retry, name, message.
    fn facts(self) -> (i32, bool, &'static str, &'static str) {
        use Reason::*;
        match self {
            ParseError => (-32700, false, "parse_error", "not well-formed"),
            InvalidRequest => (-32600, false, "invalid_request", "not a request"),
            MethodNotFound => (-32601, false, "method_not_found", "no such method"),
            InvalidParams => (-32602, false, "invalid_params", "a parameter is wrong"),
            InternalError => (-32603, false, "internal_error", "a fault of the server"),
            Unauthenticated => (401, false, "unauthenticated", "no valid token"),
            Forbidden => (403, false, "forbidden", "not allowed"),
            NotAMember => (403, false, "not_a_member", "the user is not a member"),
            TimelineNotFound => (404, false, "timeline_not_found", "no such timeline"),
            MessageNotFound => (404, false, "message_not_found", "no such message"),
            MemberNotFound => (404, false, "member_not_found", "no such member"),
            SessionNotFound => (404, false, "session_not_found", "no such session"),
            ConversationNotFound => (404, false, "conversation_not_found", "no such conversation"),
            TableNotFound => (404, false, "table_not_found", "no such table"),
            CursorNotFound => (404, false, "cursor_not_found", "no such cursor"),
            WebhookNotFound => (404, false, "webhook_not_found", "no such webhook"),
            DeadLetterNotFound => (404, false, "dead_letter_not_found", "no such dead letter"),
            PartitionNotFound => (404, false, "partition_not_found", "no such partition"),
            ScheduledNotFound => (
                404,
                false,
                "scheduled_not_found",
                "no such scheduled message",
            ),
            ConditionFailed => (
                409,
                false,
                "condition_failed",
                "the condition does not hold",
            ),
            TimelineClosed => (409, false, "timeline_closed", "the timeline is closed"),
            MessageIdConflict => (
                409,
                false,
                "message_id_conflict",
                "the message ID was taken by another entry",
            ),
            MessageClosed => (409, false, "message_closed", "the message does not grow"),
            PartConflict => (409, false, "part_conflict", "this part has another text"),
            EpochChanged => (
                409,
                false,
                "epoch_changed",
                "the epoch is not the current one",
            ),
            SearchOff => (
                409,
                false,
                "search_off",
                "messages are not indexed: [search] messages is off",
            ),
            NoStream => (409, false, "no_stream", "the table has no stream"),
            NotConfigured => (
                409,
                false,
                "not_configured",
                "the server is not set up for this",
            ),
            PositionLost => (
                409,
                false,
                "position_lost",
                "the log has let go of what follows this position",
            ),
            AlreadySubscribed => (409, false, "already_subscribed", "subscribed already"),
            TooLarge => (413, false, "too_large", "larger than the limit"),
            TooMany => (413, false, "too_many", "more than there may be"),
            RateLimited => (429, true, "rate_limited", "too many calls"),
            Busy => (503, true, "busy", "more is queued than can be taken"),
            Unavailable => (503, true, "unavailable", "not possible at the moment"),
            ShuttingDown => (503, true, "shutting_down", "the server is shutting down"),
            OutcomeUnknown => (
                503,
                true,
                "outcome_unknown",
                "perhaps written: repeat with the same message ID",
            ),
            StorageFull => (507, true, "storage_full", "the storage is full"),
        }
    }
}
