//! What the server says without being asked.
//!
//! Owns: the one list of pushes, from which the enum [`Push`], the names and the schemas are made, and their shapes.
//! Promises: clients ignore pushes that they don't know, so new ones may come. Must not: decide who gets them, or when.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::messages::entry::Entry;
pub use super::messages::grow::MessageExtended;
use super::people::conversation::Conversation;
pub use super::tables::changes::StreamChanges;
pub use super::timelines::news::{
    Changed, MemberChanged, Messages, Reacted, ReactedMessage, Receipt, Receipts, TimelineChanged,
};
pub use super::timelines::subscriptions::SubscribedMany;
pub use tideline_model::timelines::Ended;

/// Makes everything that there is once for each push.
macro_rules! pushes {
    ($($push:ident($params:ident $(<$life:lifetime>)?), $name:literal, $summary:literal;)*) => {
        /// A push. Serialises as its parameters alone.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Push<'a> {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $push($params $(<$life>)?),)*
        }

        impl Push<'_> {
            /// Its name on the wire.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Push::$push(_) => $name,)* }
            }
        }

        /// Every push: its name, when it comes, and the schema of its parameters.
        pub(crate) const PUSHES: &[Described] = &[$(($name, $summary, $params::json_schema),)*];
    };
}

/// Name, summary, and what makes the schema of the parameters.
pub(crate) type Described = (
    &'static str,
    &'static str,
    fn(&mut SchemaGenerator) -> Schema,
);

pushes! {
    Message(Messages<'a>), "message", "New messages of a subscription";
    MessageChanged(Changed<'a>), "message.changed", "Edits and deletions up to the reader's position";
    MessageExtended(MessageExtended<'a>), "message.extended", "Parts of an open message that the reader was told of; only with `parts`";
    Reaction(Reacted<'a>), "reaction", "Reactions up to the reader's position, at most one push a second";
    TimelineChanged(TimelineChanged<'a>), "timeline.changed", "The meta was updated";
    Subscribed(SubscribedMany), "subscribed", "More of the timelines that were subscribed together";
    ConversationChanged(ConversationChanged), "conversation.changed", "What no other push tells of the user's conversations";
    Signal(Signal<'a>), "signal", "Something that a user said in passing; only with `signals`";
    Presence(Presence<'a>), "presence", "Who came and went; only with `presence`";
    MemberChanged(MemberChanged<'a>), "member.changed", "Members came, changed or went; only with `members`";
    Receipt(Receipts<'a>), "receipt", "Members have read; only with `receipts`, in timelines of up to 1,000 members";
    StreamChanges(StreamChanges<'a>), "stream.changes", "Changes of a stream, and the position behind them";
    StreamEnded(StreamEnded), "stream.ended", "Nothing of the stream follows";
    SubscriptionEnded(SubscriptionEnded<'a>), "subscription.ended", "Nothing of it follows";
    SessionExpiring(SessionExpiring), "session.expiring", "The session's token ends soon";
    Draining(Draining), "draining", "The server shuts down soon";
}

/// Something that a user said in passing. It is not stored, and may not come to everybody. The connection that sent it
/// does not get it; the sender's other connections do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.signal")]
pub struct Signal<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// Who said it.
    pub user: Cow<'a, str>,
    /// On which device; absent if its connection named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Cow<'a, str>>,
    /// What was said.
    pub signal: Entry<'a>,
}

/// Who came and went since the push before, at most once a second. `joined` and `left` are there together or not at
/// all: while more than 1,000 users are online, at the first push when they no longer are, and where this connection
/// was too slow for pushes before, there is only the number. To know the names again, ask `presence.get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.presence")]
pub struct Presence<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// How many users are online.
    pub online: u64,
    /// Users who are online and were not at the push before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<Vec<Cow<'a, str>>>,
    /// Users who were online then and are not any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<Cow<'a, str>>>,
}

/// What no other push tells of the user's conversations: membership, own attributes, read position, hides. Not for
/// messages, which a client counts by itself. Only to subscriptions with `conversations`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.conversation.changed")]
pub struct ConversationChanged {
    /// As they are now.
    pub conversations: Vec<Conversation>,
    /// Timelines that are none of the user's conversations any more.
    pub removed: Vec<String>,
}

/// The subscription ended; nothing of it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.subscription.ended")]
pub struct SubscriptionEnded<'a> {
    /// The timeline's ID.
    pub timeline: Cow<'a, str>,
    /// The epoch that the subscription was of.
    pub epoch: Cow<'a, str>,
    /// Why.
    pub reason: Ended,
    /// Whether to subscribe again.
    pub resubscribe: bool,
}

/// A stream of changes ended; nothing of it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.stream.ended")]
pub struct StreamEnded {
    /// The stream's number on this connection.
    pub stream: u64,
    /// Why.
    pub reason: StreamEnd,
    /// Behind what was pushed.
    pub position: String,
    /// Whether to open it again from there.
    pub reopen: bool,
}

/// Why a stream of changes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// The log has let go of what comes next: the reader was too slow.
    PositionLost,
    /// The table was deleted, or has no stream any more.
    NoStream,
    /// The connection has named a user.
    Forbidden,
    /// The log can't be read now.
    Unavailable,
}

impl StreamEnd {
    /// Whether to open it again from where it ended.
    #[must_use]
    pub fn reopen(self) -> bool {
        self == StreamEnd::Unavailable
    }
}

/// The session's token ends soon: show a newer one by `session.renew`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.session.expiring")]
pub struct SessionExpiring {
    /// The connection is closed with 4500 after about this long, ms.
    pub in_ms: u64,
}

/// The server shuts down soon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "push.draining")]
pub struct Draining {
    /// Come back after this long, ms; different for each connection.
    pub reconnect_in_ms: u64,
}
