//! The records of a history.
//!
//! Owns: their shape in JSON. Promises: what is unknown in a line of the final dump is passed over, so that lines of
//! `tideline dump` are read as they are; in an event it is an error. Must not: judge.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::Digest;

/// What a client did or was shown: when, in ns of one clock that all clients share and that never goes back; who, a
/// session, which may not see undone what it saw; and what. In JSON an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event(pub u64, pub String, pub What);

/// What an event is. The numbers are those of a client's operations, each used once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It calls; all calls of an operation take effect together, or none. Sent again, the operation keeps its number.
    Invoke(u64, Vec<Call>),
    /// The operation was done; one answer for each call.
    Ok(u64, Vec<Answer>),
    /// The operation was refused, and is never done. The reason `condition_failed` is checked.
    Fail(u64, String),
    /// The operation may have been done or not, and may yet be. One that is just not answered is the same, but its
    /// place among others of its client is held: these were sent in order over one connection after another.
    Unknown(u64, String),
    /// It begins to be pushed what follows this sequence of a timeline; pushes before this do not count any more.
    Subscribe(String, u64),
    /// It was pushed messages of a timeline, as they came.
    Push(String, Vec<Message>),
    /// It is pushed no more of a timeline.
    Unsubscribe(String),
    /// It has waited long enough: what its subscriptions did not bring by now will not come.
    Settled,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// Appends a message. Answered with `sequence`, and perhaps `timestamp`.
    Append {
        /// Where.
        timeline: String,
        /// Unique for the sender.
        message_id: String,
        /// As whom.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        sender: String,
        /// What, or its digest.
        #[serde(skip_serializing_if = "Option::is_none")]
        entry: Option<Value>,
        /// That of the entry.
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// Only behind this sequence.
        #[serde(skip_serializing_if = "Option::is_none")]
        expect_head: Option<u64>,
    },
    /// Puts another entry in the place of a message's; without one, a tombstone.
    Edit {
        /// Where.
        timeline: String,
        /// Which message.
        sequence: u64,
        /// What, or its digest.
        #[serde(skip_serializing_if = "Option::is_none")]
        entry: Option<Value>,
        /// That of the entry.
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    },
    /// Reads on from a sequence. Answered with `head` and `messages`.
    Read {
        /// Where.
        timeline: String,
        /// The first sequence that is asked for.
        from: u64,
    },
    /// Moves a user's read position, which never goes back.
    Mark {
        /// Whose.
        user: String,
        /// Where.
        timeline: String,
        /// To where.
        sequence: u64,
    },
    /// Makes a user a member.
    Join {
        /// Who.
        user: String,
        /// Of what.
        timeline: String,
    },
    /// Ends a membership.
    Leave {
        /// Whose.
        user: String,
        /// Of what.
        timeline: String,
    },
    /// Lists a user's conversations. Answered with `conversations`, perhaps not all of them.
    List {
        /// Whose.
        user: String,
    },
}

/// What is answered to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// Of an append.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Of an append, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// Of a read: the last sequence there was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
    /// Of a read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Of a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conversations: Vec<Conversation>,
}

/// A message as it was shown or is stored; as the native protocol writes it, perhaps with `digest` in place of `entry`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its place.
    pub sequence: u64,
    /// ms; 0 is not compared.
    #[serde(default)]
    pub timestamp: u64,
    /// Unique for the sender.
    pub message_id: String,
    /// As whom.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
    /// Absent in a tombstone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Value>,
    /// That of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// A conversation in a user's list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Which.
    pub timeline: String,
    /// The last sequence there was.
    pub head: u64,
    /// The user's read position.
    pub read: u64,
    /// The lowest sequence that the user may see.
    #[serde(default)]
    pub visible_from: u64,
    /// Messages above both that are of others and no tombstones.
    pub unread: u64,
}

/// A member in the final dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub user: String,
    /// The read position.
    #[serde(default)]
    pub read: u64,
}

/// What is stored in the end, as `tideline dump` writes it or as it was read from the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Final {
    /// A message, behind its timeline.
    Message {
        /// Where.
        timeline: String,
        /// All of it.
        message: Message,
    },
    /// A member, behind its timeline.
    Member {
        /// Of what.
        timeline: String,
        /// Who.
        member: Member,
    },
    /// A timeline; a second time, that of another node, whose dump must be the same.
    Timeline {
        /// Its name.
        timeline: String,
        /// Its last sequence.
        head: u64,
        /// Its lowest sequence that is kept.
        floor: u64,
    },
    /// All conversations of a user, after all that follows from writes has happened.
    Conversations {
        /// Whose.
        user: String,
        /// All of them.
        conversations: Vec<Conversation>,
    },
}
