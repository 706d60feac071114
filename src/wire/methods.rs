//! Every method: its name, what it does, the types of its parameters and its result.
//!
//! Owns: the one list of methods, from which the enums [`Method`], [`Request`] and [`Reply`], the names, the decoding
//! of parameters, the schemas and the labels of the metrics are made. Promises: a method is one line here, and
//! what has to treat each of them matches on an enum, so that a forgotten place does not compile; a request that is
//! read here has passed its family's checks. Must not: know ids, batches or encodings; a dialect does.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::check::Check;
use super::failure::Failure;
use super::messages::{grow, hide, message, pin, reaction, schedule};
use super::needs::Needs;
use super::people::{conversation, feed, position, receipt};
use super::search;
use super::server;
use super::server::{backup, key, log, partition, session, sessions, webhook};
use super::tables::{row, stream, table};
use super::timelines::{member, prefixes, readers, signal, sync, timeline};
use tideline_model::access::{Right, Rights};

/// Where the parameters of a call are read from.
pub trait Params {
    /// Reads and checks them.
    fn read<T: DeserializeOwned + Check>(self) -> Result<T, Failure>;
}

/// Parameters by which the shortest answer is longer than that of most methods.
pub(crate) trait ExtraBytes {
    /// By how many bytes at most.
    fn extra_bytes(&self) -> usize;
}

/// A result with parts that may be long and can be read again.
pub(crate) trait Shorten {
    /// Leaves them out.
    fn shorten(&mut self);
}

// What each word means is said in `listed.rs`.
methods! {
    SessionOpen(session::Open) -> Box<session::Opened>,
        "session.open", extends, Nothing[], "Name the user, get the limits";
    SessionRenew(sessions::Renew) -> sessions::Renewed,
        "session.renew", changes, Session[], "Show a newer token, so that the session goes on";
    SessionTicket(session::Nothing) -> sessions::Ticket,
        "session.ticket", changes, Session[], "Get what stands for the credential in the address of `/v1/events`, once";
    SessionList(sessions::List) -> sessions::Listed,
        "session.list", answers, Session[], "List sessions";
    SessionGet(sessions::Get) -> Box<sessions::Got>,
        "session.get", answers, Session[], "Read one session, and how far it is in its timelines";
    SessionClose(sessions::Close) -> sessions::Closed,
        "session.close", changes, Session[], "Close a session";
    SessionRevoke(sessions::Revoke) -> sessions::Revoked,
        "session.revoke", changes, Server[Admin], "Take a user's tokens back";
    KeyCreate(key::Create) -> key::Created,
        "key.create", changes, Server[Admin], "Make an API key";
    KeyList(key::List) -> key::Listed,
        "key.list", answers, Server[Admin], "List the API keys";
    KeyRevoke(key::Revoke) -> key::Revoked,
        "key.revoke", changes, Server[Admin], "Take an API key back";
    Ping(session::Nothing) -> session::Pong,
        "ping", counts, Nothing[], "Ask for a sign of life";
    TimelineCreate(Box<timeline::Create>) -> timeline::Created,
        "timeline.create", changes, Any[Create], "Make a timeline, or find it";
    TimelineGet(timeline::Get) -> Box<timeline::Info>,
        "timeline.get", answers, Any[Read], "Read what is known of a timeline";
    TimelineUpdate(timeline::Update) -> timeline::Updated,
        "timeline.update", shortens, Any[Manage], "Change the meta";
    TimelineDelete(timeline::Delete) -> timeline::Deleted,
        "timeline.delete", changes, Any[Manage], "Delete a timeline";
    TimelineTrim(timeline::Trim) -> timeline::Trimmed,
        "timeline.trim", changes, Any[Manage], "Drop the oldest messages";
    TimelineList(timeline::List) -> timeline::Listed,
        "timeline.list", answers, Any[Read], "List timelines by ID";
    TimelinePrefixes(prefixes::Prefixes) -> prefixes::Level,
        "timeline.prefixes", answers, Any[Read], "List one level of the IDs of timelines";
    TimelineReaders(readers::Readers) -> readers::Read,
        "timeline.readers", answers, Server[Observe], "Read who follows a timeline now, and how far behind";
    TimelineConfigure(Box<timeline::Configure>) -> timeline::Configured,
        "timeline.configure", changes, Any[Manage], "Change the settings";
    MemberAdd(member::Add) -> member::Added,
        "member.add", changes, Any[Members], "Add members, all or none";
    MemberUpdate(Box<member::Update>) -> Box<member::Updated>,
        "member.update", shortens, Any[Members], "Change a member's role and attributes";
    MemberRemove(member::Remove) -> member::Removed,
        "member.remove", changes, Any[Members], "Remove members, or leave";
    MemberGet(member::Get) -> Box<member::Got>,
        "member.get", answers, Any[Read], "Read one member";
    MemberList(member::List) -> member::Listed,
        "member.list", answers, Any[Read], "Read the members, or what changed among them";
    MessageAppend(Box<message::Append>) -> message::AppendOutcome,
        "message.append", changes, Any[Append], "Append a message";
    MessageAppendBatch(message::AppendBatch) -> message::AppendedBatch,
        "message.append_batch", extends, Any[Append], "Append messages, all or none";
    MessageGet(message::Get) -> Box<message::Got>,
        "message.get", answers, Any[Read], "Read one message";
    MessageRange(message::Range) -> message::Page,
        "message.range", answers, Any[Read], "Read a page of messages";
    MessageUpdate(Box<message::Update>) -> Box<message::Got>,
        "message.update", shortens, Any[Edit, Moderate], "Edit a message";
    MessageDelete(message::Delete) -> message::Deleted,
        "message.delete", changes, Any[Edit, Moderate], "Make a message a tombstone";
    MessageRecall(message::Recall) -> message::Deleted,
        "message.recall", changes, Any[Edit, Moderate], "Take a message back, and say so in its place";
    MessageExtend(grow::Extend) -> grow::Extended,
        "message.extend", changes, Any[Append], "Extend an open message by a part";
    MessageFinish(Box<grow::Finish>) -> Box<grow::Finished>,
        "message.finish", shortens, Any[Append], "Close an open message";
    MessageStop(grow::Stop) -> Box<message::Got>,
        "message.stop", shortens, Any[Append], "Stop an open message that somebody else writes";
    MessageSearch(Box<search::Messages>) -> search::FoundMessages,
        "message.search", answers, Session[], "Find messages by their words";
    TimelineSearch(search::Timelines) -> search::FoundTimelines,
        "timeline.search", answers, Session[], "Find timelines by the words of their metas";
    ReactionAdd(reaction::Add) -> reaction::Reacted,
        "reaction.add", shortens, Any[React], "React to a message";
    ReactionRemove(reaction::Remove) -> reaction::Reacted,
        "reaction.remove", shortens, Any[React], "Take a reaction back";
    ReactionList(reaction::List) -> reaction::Listed,
        "reaction.list", answers, Any[Read], "Read who has reacted to a message";
    PinAdd(pin::Add) -> pin::Added,
        "pin.add", changes, Any[Moderate], "Pin a message for all";
    PinRemove(pin::Remove) -> pin::Removed,
        "pin.remove", changes, Any[Moderate], "Take the pin of a message away";
    PinList(pin::List) -> pin::Listed,
        "pin.list", answers, Any[Read], "Read the pinned messages";
    ScheduleList(schedule::List) -> schedule::Listed,
        "schedule.list", answers, Any[Append], "List the messages that one has scheduled";
    ScheduleCancel(schedule::Cancel) -> schedule::Cancelled,
        "schedule.cancel", changes, Any[Append], "Take back a scheduled message";
    MessageHide(hide::Hide) -> hide::Hid,
        "message.hide", changes, Any[Read], "Hide messages from oneself";
    MessageHidden(hide::Hidden) -> hide::HiddenPage,
        "message.hidden", answers, Any[Read], "Read what one has hidden";
    ConversationClear(hide::Clear) -> hide::Cleared,
        "conversation.clear", changes, Any[Read], "Clear a conversation for oneself";
    ReadSet(receipt::ReadSet) -> receipt::ReadStates,
        "read.set", extends, Any[Read], "Say how far one has read";
    ReceiptList(receipt::List) -> receipt::Listed,
        "receipt.list", answers, Any[Read], "Read who got a message";
    PositionSet(position::Set) -> position::Stored,
        "position.set", shortens, Session[], "Store how far a device is";
    PositionList(position::List) -> position::Listed,
        "position.list", answers, Session[], "Read a device's positions, or list the devices";
    PositionRemove(position::Remove) -> position::Removed,
        "position.remove", changes, Session[], "Forget a device";
    ConversationList(conversation::List) -> conversation::Listed,
        "conversation.list", answers, Session[], "List one's conversations";
    ConversationSync(conversation::Sync) -> conversation::Synced,
        "conversation.sync", answers, Session[], "Read which conversations have changed";
    ConversationCount(conversation::Count) -> conversation::Counted,
        "conversation.count", counts, Session[], "Count conversations and what is unread";
    ConversationGet(conversation::Get) -> Box<conversation::Got>,
        "conversation.get", answers, Session[], "Read one conversation";
    ConversationDirect(conversation::Direct) -> conversation::DirectMade,
        "conversation.direct", changes, Any[Create], "Make the conversation with one user, or find it";
    ConversationUpdate(conversation::Update) -> conversation::Updated,
        "conversation.update", shortens, Session[], "Change one's own attributes of a conversation";
    ConversationHide(conversation::Hide) -> conversation::Hidden,
        "conversation.hide", changes, Session[], "Take a conversation off one's list until a message comes";
    FeedFollow(feed::Follow) -> feed::Followed,
        "feed.follow", changes, Any[Read], "Bring a timeline into one's feed";
    FeedUnfollow(feed::Unfollow) -> feed::Unfollowed,
        "feed.unfollow", changes, Session[], "Take a timeline out of one's feed";
    FeedFollowing(feed::Following) -> feed::FollowingPage,
        "feed.following", answers, Session[], "List the timelines that one follows";
    FeedFollowers(feed::Followers) -> feed::FollowersPage,
        "feed.followers", answers, Any[Read], "List who follows a timeline";
    FeedRange(feed::Range) -> feed::Page,
        "feed.range", answers, Session[], "Read one's feed, newest first";
    Sync(Box<sync::Sync>) -> sync::Synced,
        "sync", answers, Any[Read], "Read what is new in many timelines";
    Subscribe(Box<sync::Subscribe>) -> sync::Following,
        "subscribe", answers, Any[Read], "Resume a timeline and follow it";
    Unsubscribe(sync::Unsubscribe) -> sync::Unsubscribed,
        "unsubscribe", changes, Session[], "End a subscription";
    StreamOpen(stream::Open) -> stream::Opened,
        "stream.open", answers, Server[Admin], "Follow all changes of many timelines, or of a table";
    StreamClose(stream::Close) -> stream::Closed,
        "stream.close", changes, Server[Admin], "End a stream of changes";
    StreamCommit(stream::Commit) -> stream::Committed,
        "stream.commit", changes, Server[Admin], "Store how far a reader of changes is, under a name";
    StreamCursors(stream::Cursors) -> stream::CursorsPage,
        "stream.cursors", answers, Server[Admin], "List the named cursors, and how far they are behind";
    StreamForget(stream::Forget) -> stream::Forgotten,
        "stream.forget", changes, Server[Admin], "Forget a named cursor";
    WebhookList(webhook::List) -> webhook::Listed,
        "webhook.list", answers, Server[Admin], "List the webhooks, and how they are doing";
    WebhookDead(webhook::Dead) -> webhook::DeadPage,
        "webhook.dead", answers, Server[Admin], "List changes that a webhook's receiver did not take";
    WebhookReplay(webhook::Replay) -> webhook::Replaying,
        "webhook.replay", changes, Server[Admin], "Have a webhook post changes again";
    TableList(table::List) -> table::Listed,
        "table.list", answers, Session[], "List the tables that one has a right to";
    TableGet(table::Get) -> Box<table::Info>,
        "table.get", answers, Any[TablesRead, TablesWrite, TablesManage], "Read what a table is";
    RowGet(row::Get) -> row::Got,
        "row.get", answers, Any[TablesRead], "Read one row of a table";
    RowRange(Box<row::Range>) -> row::Page,
        "row.range", answers, Any[TablesRead], "Read a range of a table's rows";
    RowPut(row::Put) -> row::Stored,
        "row.put", extends, Any[TablesWrite], "Put a row into a table";
    PartitionList(partition::List) -> partition::Listed,
        "partition.list", answers, Server[Observe], "List the partitions, what they do, and how far a change of them is";
    PartitionSplit(partition::Split) -> partition::Begun,
        "partition.split", changes, Server[Admin], "Begin to make two partitions of one";
    PartitionMerge(partition::Merge) -> partition::Begun,
        "partition.merge", changes, Server[Admin], "Begin to make one partition of two neighbours";
    BackupStart(backup::Start) -> backup::Begun,
        "backup.start", changes, Server[Admin], "Begin a backup, while all is served";
    BackupStatus(backup::Status) -> Box<backup::StatusNow>,
        "backup.status", answers, Server[Admin], "Read how far the backup is, or the last one";
    BackupCancel(backup::Cancel) -> backup::Cancelled,
        "backup.cancel", changes, Server[Admin], "End the backup that is being made";
    ServerStatus(server::Status) -> Box<server::StatusNow>,
        "server.status", answers, Server[Observe], "Read how the server is, and what is wrong";
    ServerHistory(server::History) -> server::Past,
        "server.history", answers, Server[Observe], "Read the figures of the last hour";
    LogTail(log::Tail) -> log::Tailed,
        "log.tail", answers, Server[Observe], "Read the newest lines of the log, and perhaps wait for one";
    Signal(signal::Signal) -> signal::Signalled,
        "signal", changes, Any[Signal], "Say something in passing";
    PresenceGet(signal::Get) -> signal::Got,
        "presence.get", answers, Any[Read], "Read who is online";
    Discover(session::Nothing) -> session::Discovered,
        "rpc.discover", answers, Session[], "Read this description";
}
