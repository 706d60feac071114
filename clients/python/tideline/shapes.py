"""What the server's results look like. Made by make_calls.py from schemas/openrpc.json: do not edit."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class SessionTicketResult(TypedDict):
    """What a page of a browser shows in the address of `/v1/events`, where it can set no header."""

    expires_at: int
    ticket: str


class _SessionListResult(TypedDict):
    sessions: list[Session]


class SessionListResult(_SessionListResult, total=False):
    """Sessions in the order that was asked for."""

    next: str


class _Session(TypedDict):
    address: str
    dialect: str
    in_flight: int
    lag_ms: int
    opened_at: int
    session: str
    subscriptions: int


class Session(_Session, total=False):
    """A session."""

    client: str
    device: str
    expires_at: int
    key: str
    user: str


class _SessionGetResult(TypedDict):
    positions: list[SessionPosition]
    session: Session


class SessionGetResult(_SessionGetResult, total=False):
    """A session, and a page of its positions."""

    next: str


class _SessionPosition(TypedDict):
    lag_ms: int
    position: int
    timeline: str


class SessionPosition(_SessionPosition, total=False):
    """How far a session is in a timeline."""

    head: int


class SessionCloseResult(TypedDict):
    """The session is no more."""

    closed: bool


class SessionRevokeResult(TypedDict):
    """The user's tokens are revoked."""

    issued_before: int


class KeyCreateResult(TypedDict):
    """The new key."""

    id: str
    key: str


class Grant(TypedDict):
    """What may be done where."""

    allow: list[str]
    on: str


class KeyListResult(TypedDict):
    """All keys, the oldest first."""

    keys: list[Key]


class _Key(TypedDict):
    act_as: list[str]
    created_at: int
    id: str
    name: str
    rights: list[Grant]
    signing: bool


class Key(_Key, total=False):
    """A key without its secret."""

    certificate: str


class KeyRevokeResult(TypedDict):
    """The key is no more."""

    revoked: bool


class PingResult(TypedDict):
    """The answer to a ping."""

    time: int


class _TimelineCreateResult(TypedDict):
    created: bool
    created_at: int
    epoch: str
    timeline: str


class TimelineCreateResult(_TimelineCreateResult, total=False):
    """The timeline is there."""

    differs: list[Literal['meta'] | Literal['settings'] | Literal['members']]


class _NewMember(TypedDict):
    user: str


class NewMember(_NewMember, total=False):
    """A user who is to become a member."""

    attributes: dict[str, Any]
    read: int
    role: str
    visible_from: int


class SettingsPatch(TypedDict, total=False):
    """A change of settings: what is left out stays, `null` goes back to the policy."""

    edit: Edit
    fan_out: Literal['read'] | Literal['write'] | Literal['auto']
    fan_out_members_max: int
    members_only: bool
    retention: Retention
    stop: Literal['anyone'] | Literal['sender']


class _Edit(TypedDict):
    by: Literal['anyone'] | Literal['sender']


class Edit(_Edit, total=False):
    """Who may edit and delete messages."""

    window_ms: int


class Retention(TypedDict, total=False):
    """Limits of what is kept; one that is left out does not count."""

    age_ms: int
    bytes: int
    messages: int


class _TimelineGetResult(TypedDict):
    change_head: int
    created_at: int
    epoch: str
    floor: int
    head: int
    members_count: int
    meta: dict[str, Any]
    settings: Settings
    settings_version: int
    timeline: str
    updated_at: int
    version: int


class TimelineGetResult(_TimelineGetResult, total=False):
    """What is known of a timeline."""

    closed: bool
    last_at: int


class _Settings(TypedDict):
    edit: Edit
    fan_out: Literal['read'] | Literal['write'] | Literal['auto']
    fan_out_members_max: int
    members_only: bool
    retention: Retention


class Settings(_Settings, total=False):
    """The settings in force: the timeline's own, else the policy's, else the defaults."""

    stop: Literal['anyone'] | Literal['sender']


class _TimelineUpdateResult(TypedDict):
    version: int


class TimelineUpdateResult(_TimelineUpdateResult, total=False):
    """The meta was updated."""

    meta: dict[str, Any]


class TimelineDeleteResult(TypedDict):
    """The timeline is gone."""

    deleted: bool


class TimelineTrimResult(TypedDict):
    """Messages below the floor are gone."""

    floor: int


class _TimelineListResult(TypedDict):
    timelines: list[TimelineGetResult]


class TimelineListResult(_TimelineListResult, total=False):
    """A page of timelines."""

    next: str


class _TimelinePrefixesResult(TypedDict):
    entries: list[LevelEntry]


class TimelinePrefixesResult(_TimelinePrefixesResult, total=False):
    """A page of one level."""

    next: str


class LevelEntry(TypedDict):
    """A timeline of the level, or all timelines whose IDs go on behind the delimiter. One name may be both, once with the delimiter at its end and once without."""

    below: bool
    name: str
    timeline: bool


class _TimelineReadersResult(TypedDict):
    at_head: int
    count: int
    slowest: list[TimelineReader]


class TimelineReadersResult(_TimelineReadersResult, total=False):
    """The live subscriptions of a timeline."""

    asked: int


class _TimelineReader(TypedDict):
    lag_ms: int
    position: int
    session: str


class TimelineReader(_TimelineReader, total=False):
    """A live subscription."""

    user: str


class TimelineConfigureResult(TypedDict):
    """The settings were changed."""

    settings: Settings
    version: int


class _MemberAddResult(TypedDict):
    added: int
    members_count: int
    version: int


class MemberAddResult(_MemberAddResult, total=False):
    """Members were added."""

    sequence: int


class MemberUpdateResult(TypedDict, total=False):
    """The member was changed, or was so already."""

    member: Member


class Member(TypedDict):
    """A member."""

    attributes: dict[str, Any]
    joined_at: int
    read: int
    received: int
    role: str
    user: str
    version: int
    visible_from: int


class AttributesPatch(TypedDict, total=False):
    """A change of attributes."""

    remove: list[str]
    set: dict[str, Any]


class _MemberRemoveResult(TypedDict):
    members_count: int
    removed: int
    version: int


class MemberRemoveResult(_MemberRemoveResult, total=False):
    """Members were removed."""

    sequence: int


class MemberGetResult(TypedDict):
    """A member."""

    member: Member


class _MemberListResult(TypedDict):
    members: list[Member]
    members_count: int
    version: int


class MemberListResult(_MemberListResult, total=False):
    """A page of members, or of what changed."""

    next: int | str
    removed: list[str]
    reset: bool


class MessageAppendBatchResult(TypedDict):
    """Where the messages went, in the order of the call."""

    epoch: str
    messages: list[AppendedOne]


class _AppendedOne(TypedDict):
    duplicate: bool
    message_id: str
    sequence: int
    timestamp: int


class AppendedOne(_AppendedOne, total=False):
    """Where one message of a batch went."""

    parts: int


class _BatchMessage(TypedDict):
    entry: dict[str, Any]


class BatchMessage(_BatchMessage, total=False):
    """One message of a batch."""

    expires_in_ms: int
    message_id: str
    open: bool | OpenWith


class OpenWith(TypedDict, total=False):
    """What grows of a message, and when it is given up."""

    column: str
    idle_ms: int


class MessageGetResult(TypedDict):
    """One message in its newest form."""

    message: Message


class _Message(TypedDict):
    message_id: str
    sequence: int
    timestamp: int


class Message(_Message, total=False):
    """A message in its newest form."""

    abandoned: bool
    change: int
    deleted: bool
    edited_at: int
    entry: dict[str, Any]
    expired: bool
    expires_at: int
    hidden: bool
    open: bool | MessageOpenColumn
    outcome: Literal['done'] | Literal['cancelled'] | Literal['failed']
    parts: int
    pinned: bool
    reactions: dict[str, Reaction]
    reason: str
    recalled_by: str
    sender: str
    stopped_by: str
    traceparent: str


class MessageOpenColumn(TypedDict):
    """What grows of an open message."""

    column: str


class _Reaction(TypedDict):
    count: int
    users: list[str]


class Reaction(_Reaction, total=False):
    """How many users have one reaction to a message, and some of them."""

    mine: bool


class _MessageRangeResult(TypedDict):
    change_head: int
    epoch: str
    floor: int
    head: int
    messages: list[Message]


class MessageRangeResult(_MessageRangeResult, total=False):
    """A page of messages."""

    next: int


class MessageUpdateResult(TypedDict):
    """One message in its newest form."""

    message: Message


class MessageDeleteResult(TypedDict):
    """The message is a tombstone."""

    deleted: bool


class MessageRecallResult(TypedDict):
    """The message is a tombstone."""

    deleted: bool


class MessageExtendResult(TypedDict):
    """The part is there."""

    duplicate: bool
    parts: int


class MessageFinishResult(TypedDict):
    """The message is closed."""

    duplicate: bool
    message: Message


class MessageStopResult(TypedDict):
    """One message in its newest form."""

    message: Message


class _MessageSearchResult(TypedDict):
    messages: list[SearchMessage]


class MessageSearchResult(_MessageSearchResult, total=False):
    """A page of messages. It may hold fewer than asked for, or none, though there are more."""

    behind: bool
    next: str


class SearchMessage(TypedDict):
    """A found message: as it is in its timeline now, and where in it the words are."""

    epoch: str
    found: list[SearchText]
    message: Message
    timeline: str


class SearchText(TypedDict):
    """A piece of a text in an entry."""

    name: str
    parts: list[SearchPart]


class _SearchPart(TypedDict):
    text: str


class SearchPart(_SearchPart, total=False):
    """A part of a piece."""

    hit: bool


class SearchCondition(TypedDict):
    """What has to hold of a name."""

    name: str
    op: Literal['='] | Literal['!='] | Literal['>'] | Literal['>='] | Literal['<'] | Literal['<=']
    value: Any


class _TimelineSearchResult(TypedDict):
    timelines: list[TimelineGetResult]


class TimelineSearchResult(_TimelineSearchResult, total=False):
    """A page of timelines. It may hold fewer than asked for, or none, though there are more."""

    behind: bool
    next: str


class ReactionAddResult(TypedDict, total=False):
    """The reactions that the message has now."""

    reactions: dict[str, Reaction]


class ReactionRemoveResult(TypedDict, total=False):
    """The reactions that the message has now."""

    reactions: dict[str, Reaction]


class _ReactionListResult(TypedDict):
    reactions: dict[str, Reaction]


class ReactionListResult(_ReactionListResult, total=False):
    """The reactions to a message."""

    next: str


class PinAddResult(TypedDict):
    """The message is pinned."""

    added: bool


class PinRemoveResult(TypedDict):
    """The message is not pinned."""

    removed: bool


class _PinListResult(TypedDict):
    messages: list[Message]


class PinListResult(_PinListResult, total=False):
    """Pinned messages."""

    next: int


class _ScheduleListResult(TypedDict):
    scheduled: list[Scheduled2]


class ScheduleListResult(_ScheduleListResult, total=False):
    """A page of scheduled messages."""

    next: str


class _Scheduled2(TypedDict):
    deliver_at: int
    entry: dict[str, Any]
    scheduled: str


class Scheduled2(_Scheduled2, total=False):
    """A message that waits for its time, or that was refused when it came."""

    expires_in_ms: int
    reason: Literal['parse_error'] | Literal['invalid_request'] | Literal['method_not_found'] | Literal['invalid_params'] | Literal['internal_error'] | Literal['unauthenticated'] | Literal['forbidden'] | Literal['not_a_member'] | Literal['timeline_not_found'] | Literal['message_not_found'] | Literal['member_not_found'] | Literal['session_not_found'] | Literal['conversation_not_found'] | Literal['table_not_found'] | Literal['cursor_not_found'] | Literal['webhook_not_found'] | Literal['dead_letter_not_found'] | Literal['partition_not_found'] | Literal['scheduled_not_found'] | Literal['condition_failed'] | Literal['timeline_closed'] | Literal['message_id_conflict'] | Literal['message_closed'] | Literal['part_conflict'] | Literal['epoch_changed'] | Literal['search_off'] | Literal['no_stream'] | Literal['not_configured'] | Literal['position_lost'] | Literal['already_subscribed'] | Literal['too_large'] | Literal['too_many'] | Literal['rate_limited'] | Literal['busy'] | Literal['unavailable'] | Literal['shutting_down'] | Literal['outcome_unknown'] | Literal['storage_full']
    refused_at: int


class MessageHideResult(TypedDict):
    """The messages are hidden."""

    hidden: int


class _MessageHiddenResult(TypedDict):
    sequences: list[int]


class MessageHiddenResult(_MessageHiddenResult, total=False):
    """What the user has hidden and could see otherwise."""

    next: int


class ConversationClearResult(TypedDict):
    """The conversation is cleared."""

    cleared: int
    unread: int


class ReadSetResult(TypedDict):
    """How far the user has come, by timeline."""

    timelines: dict[str, dict[str, Any]]


class ReadPosition(TypedDict, total=False):
    """How far the user has come in one timeline; at least one of `read` and `received`."""

    epoch: str
    read: int
    received: int


class _ReceiptListResult(TypedDict):
    members: list[Receipt]
    read_count: int
    received_count: int


class ReceiptListResult(_ReceiptListResult, total=False):
    """Who has received a message. Counts are of all members who can see it."""

    next: str


class Receipt(TypedDict):
    """How far one member has come."""

    read: int
    received: int
    user: str


class PositionSetResult(TypedDict, total=False):
    """What is stored now."""

    positions: dict[str, Place]


class _Place(TypedDict):
    after: int
    epoch: str


class Place(_Place, total=False):
    """How far a device has stored a timeline."""

    changes_after: int


class PositionListResult(TypedDict, total=False):
    """Positions of a device, or the devices that were used in the last 90 days."""

    devices: list[Device]
    next: str
    positions: dict[str, Place]


class Device(TypedDict):
    """A device of the user."""

    device: str
    positions: int
    used_at: int


class PositionRemoveResult(TypedDict):
    """The device is gone."""

    removed: bool


class _ConversationListResult(TypedDict):
    conversations: list[Conversation]
    cursor: str


class ConversationListResult(_ConversationListResult, total=False):
    """A page of conversations; may hold fewer than asked for though there are more."""

    next: str


class _Conversation(TypedDict):
    attributes: dict[str, Any]
    change_head: int
    cleared: int
    epoch: str
    floor: int
    head: int
    hidden: bool
    hides: int
    joined_at: int
    last_at: int
    members_count: int
    meta: dict[str, Any]
    read: int
    received: int
    role: str
    timeline: str
    unread: int
    version: int
    visible_from: int


class Conversation(_Conversation, total=False):
    """A timeline that the caller is a member of, as they see it."""

    last_message: Message
    mentions: int
    peer: str


class ConversationFilter(TypedDict, total=False):
    """Which conversations."""

    attributes: dict[str, Any]
    muted: bool
    unread: bool


class _ConversationSyncResult(TypedDict):
    conversations: list[Conversation]
    cursor: str
    done: bool
    removed: list[str]


class ConversationSyncResult(_ConversationSyncResult, total=False):
    """What has changed. A conversation may come again; none is left out."""

    reset: bool


class _ConversationCountResult(TypedDict):
    conversations: int
    mentions: int
    unread: int
    unread_conversations: int


class ConversationCountResult(_ConversationCountResult, total=False):
    """What the list holds. Muted conversations count by their mentions only; with a filter of `muted: false` not at all."""

    more: bool


class ConversationGetResult(TypedDict):
    """One conversation."""

    conversation: Conversation


class ConversationDirectResult(TypedDict):
    """The conversation of the two, which only its members may read."""

    created: bool
    epoch: str
    timeline: str


class ConversationUpdateResult(TypedDict, total=False):
    """The attributes were changed."""

    attributes: dict[str, Any]


class ConversationHideResult(TypedDict):
    """The conversation is off the list."""

    hidden: bool


#: The timeline is followed.
FeedFollowResult = TypedDict("FeedFollowResult", {"following": "bool", "from": "int"}, total=True)


class FeedUnfollowResult(TypedDict):
    """The timeline is not followed."""

    following: bool


class _FeedFollowingResult(TypedDict):
    timelines: list[Followed]


class FeedFollowingResult(_FeedFollowingResult, total=False):
    """A page of followed timelines."""

    next: str


#: A timeline that the caller follows.
Followed = TypedDict("Followed", {"from": "int", "timeline": "str"}, total=True)


class _FeedFollowersResult(TypedDict):
    followers_count: int
    users: list[str]


class FeedFollowersResult(_FeedFollowersResult, total=False):
    """A page of a timeline's followers."""

    next: str


class _FeedRangeResult(TypedDict):
    messages: list[FeedMessage]


class FeedRangeResult(_FeedRangeResult, total=False):
    """A page of a feed; may hold fewer than asked for though there are more. It ends 30 days ago."""

    next: str


class _FeedMessage(TypedDict):
    epoch: str
    message_id: str
    sequence: int
    timeline: str
    timestamp: int


class FeedMessage(_FeedMessage, total=False):
    """A message of a feed: as it is in its timeline now, and which that is."""

    abandoned: bool
    change: int
    deleted: bool
    edited_at: int
    entry: dict[str, Any]
    expired: bool
    expires_at: int
    hidden: bool
    open: bool | MessageOpenColumn
    outcome: Literal['done'] | Literal['cancelled'] | Literal['failed']
    parts: int
    pinned: bool
    reactions: dict[str, Reaction]
    reason: str
    recalled_by: str
    sender: str
    stopped_by: str
    traceparent: str


class SyncResult(TypedDict):
    """What is new."""

    more: bool
    timelines: dict[str, SyncedTimeline]


class _SyncedTimeline(TypedDict):
    change_head: int
    floor: int
    head: int
    messages: list[Message]
    more: bool
    position: int
    state: Literal['ok'] | Literal['too_old'] | Literal['epoch_changed'] | Literal['deleted'] | Literal['new'] | Literal['forbidden']


class SyncedTimeline(_SyncedTimeline, total=False):
    """What is new in one timeline."""

    changed: list[Message]
    epoch: str
    grown: list[Grown]


#: What came of an open message since a reader's place in it.
Grown = TypedDict("Grown", {"from": "int", "parts": "int", "sequence": "int", "text": "str"}, total=True)


class _LongPosition(TypedDict):
    after: int


class LongPosition(_LongPosition, total=False):
    """A position as an object; a bare number is its short form."""

    changes_after: int
    epoch: str
    open: dict[str, int]


class StreamCommitResult(TypedDict):
    """The cursor is there, or further."""

    moved: bool


class _StreamCursorsResult(TypedDict):
    cursors: list[StreamCursor]


class StreamCursorsResult(_StreamCursorsResult, total=False):
    """A page of cursors; may hold fewer than asked for though there are more."""

    next: str


class _StreamCursor(TypedDict):
    behind: int
    committed_at: int
    cursor: str
    lag_ms: int
    lost: bool
    position: str


class StreamCursor(_StreamCursor, total=False):
    """A named cursor."""

    table: str
    timelines: str


class StreamForgetResult(TypedDict):
    """There is no cursor of this name."""

    forgotten: bool


class WebhookListResult(TypedDict):
    """All webhooks, in the order of the configuration."""

    webhooks: list[Webhook]


class _Webhook(TypedDict):
    behind: int
    dead: int
    lag_ms: int
    name: str
    url: str


class Webhook(_Webhook, total=False):
    """A webhook."""

    failing: WebhookFailing
    position: str
    table: str
    timelines: str


class WebhookFailing(TypedDict):
    """A receiver that does not take what it is sent."""

    attempts: int
    error: str
    since: int


class _WebhookDeadResult(TypedDict):
    dead: list[DeadLetter]


class WebhookDeadResult(_WebhookDeadResult, total=False):
    """A page of dead letters."""

    next: int


#: Changes that a receiver did not take in time.
DeadLetter = TypedDict("DeadLetter", {"changes": "int", "error": "str", "failed_at": "int", "from": "str", "number": "int", "replaying": "bool", "to": "str"}, total=True)


class TableListResult(TypedDict):
    """All of them, in the order of their names."""

    tables: list[NamedTable]


class _NamedTable(TypedDict):
    is_virtual: bool
    name: str


class NamedTable(_NamedTable, total=False):
    """A table or an index."""

    index_of: str


class _TableGetResult(TypedDict):
    columns: list[DefinedColumn]
    indexes: list[TableIndex]
    is_virtual: bool
    key: list[KeyColumn]
    options: TableOptions
    table: str
    transactions: bool


class TableGetResult(_TableGetResult, total=False):
    """What a table is."""

    created_at: int
    index_of: str
    stream: TableStream


class DefinedColumn(TypedDict):
    """A defined column."""

    name: str
    type: Literal['integer'] | Literal['double'] | Literal['boolean'] | Literal['string'] | Literal['binary']


class TableIndex(TypedDict):
    """A secondary index."""

    columns: list[str]
    key: list[str]
    kind: Literal['global'] | Literal['local']
    name: str
    state: Literal['building'] | Literal['complete'] | Literal['since']


class KeyColumn(TypedDict):
    """A column of a primary key."""

    auto_increment: bool
    name: str
    type: Literal['integer'] | Literal['string'] | Literal['binary']


class _TableOptions(TypedDict):
    allow_update: bool
    version_offset_s: int
    versions: int


class TableOptions(_TableOptions, total=False):
    """What decides which versions of a table's columns live, and which may be written."""

    ttl_s: int


class TableStream(TypedDict):
    """A table's stream of changes."""

    columns: list[str]
    created_at: int
    hours: int
    id: str


class RowGetResult(TypedDict, total=False):
    """The row, if it is there."""

    row: Row


class _Row(TypedDict):
    columns: list[RowColumn]
    key: dict[str, Any]


class Row(_Row, total=False):
    """A row."""

    cut: bool


class _RowColumn(TypedDict):
    name: str


class RowColumn(_RowColumn, total=False):
    """A version of a column, or its end."""

    value: Any
    version: int


class _RowRangeResult(TypedDict):
    rows: list[Row]


class RowRangeResult(_RowRangeResult, total=False):
    """A page of rows."""

    next: dict[str, Any]


#: What has to hold of a row: a comparison, or one of `all`, `any` and `not`.
RowFilter = TypedDict("RowFilter", {"all": "list[RowFilter]", "any": "list[RowFilter]", "column": "str", "if_missing": "bool", "not": "RowFilter", "op": "Literal['='] | Literal['!='] | Literal['>'] | Literal['>='] | Literal['<'] | Literal['<=']", "value": "Any"}, total=False)


class RowPutResult(TypedDict):
    """The row was put."""

    key: dict[str, Any]


class _SqlQueryResult(TypedDict):
    columns: list[SqlColumn]
    rows: list[list[Any]]


class SqlQueryResult(_SqlQueryResult, total=False):
    """What a statement answers."""

    affected: int
    cut: bool


class SqlColumn(TypedDict):
    """A column of an answer."""

    name: str
    type: Literal['integer'] | Literal['double'] | Literal['boolean'] | Literal['string'] | Literal['binary'] | Literal['datetime'] | Literal['date'] | Literal['time']


class _PartitionListResult(TypedDict):
    partitions: list[Partition]


class PartitionListResult(_PartitionListResult, total=False):
    """All partitions, and the last change of them."""

    change: PartitionChange


class _PartitionChange(TypedDict):
    given_up: int
    partitions: list[int]
    since: int
    state: Literal['copying'] | Literal['catching_up'] | Literal['cutting'] | Literal['done'] | Literal['failed']


class PartitionChange(_PartitionChange, total=False):
    """A change of the partitions."""

    error: str
    pause_ms: int


class _Partition(TypedDict):
    begins: int
    bytes: int
    first: str
    last: str
    log_bytes: int
    parents: list[int]
    partition: int
    state: Literal['serving'] | Literal['slowed'] | Literal['busy'] | Literal['full'] | Literal['stopped'] | Literal['ended']


class Partition(_Partition, total=False):
    """A partition: a range of the hashes of keys."""

    ends: int
    feed: PartitionFeed
    image: PartitionImage
    jobs: int
    log: PartitionLog
    memtable: PartitionMemtable
    queue: PartitionQueue
    reason: str
    relay: PartitionRelay


class PartitionFeed(TypedDict):
    """A partition's pushes."""

    lag_ms: int


class PartitionImage(TypedDict):
    """A partition's sorted runs."""

    dead: int
    level0: int
    runs: int
    used: int


class PartitionLog(TypedDict):
    """The commit log of a partition."""

    bytes: int
    holds: list[PartitionHold]
    oldest: int
    position: int


class PartitionHold(TypedDict):
    """Somebody who has a log kept."""

    by: Literal['relay'] | Literal['streams'] | Literal['reshape'] | Literal['backup'] | Literal['search']
    position: int


class PartitionMemtable(TypedDict):
    """A partition's memtables."""

    bytes: int
    frozen: int


class PartitionQueue(TypedDict):
    """Writes that wait for a partition's writer."""

    bytes: int
    fill: float
    writes: int


class PartitionRelay(TypedDict):
    """What is derived from a partition's changes."""

    backlog: int
    lag_ms: int


class BackupStatusResult(TypedDict, total=False):
    """How far it is."""

    backup: Backup


class _Backup(TypedDict):
    done: int
    since: int
    state: Literal['waiting'] | Literal['copying'] | Literal['verifying'] | Literal['sending'] | Literal['done'] | Literal['cancelled'] | Literal['failed']
    target: str
    total: int


class Backup(_Backup, total=False):
    """A backup that was asked for."""

    as_of: int
    bytes: int
    error: str
    new_bytes: int
    path: str


class BackupCancelResult(TypedDict):
    """It ends."""

    cancelled: bool


class _ServerStatusResult(TypedDict):
    auth: bool
    listen: str
    name: str
    notices: list[ServerNotice]
    ready: bool
    started_at: int
    storage: ServerStorage
    version: str
    you: ServerCaller


class ServerStatusResult(_ServerStatusResult, total=False):
    """How the server is."""

    cluster: ServerCluster
    reason: str


class _ServerCluster(TypedDict):
    lag: int
    name: str
    node: str
    term: int


class ServerCluster(_ServerCluster, total=False):
    """A node's part in a cluster."""

    owner: str


class ServerNotice(TypedDict):
    """Something that is wrong, or will be."""

    advice: str
    severity: Literal['critical'] | Literal['warning'] | Literal['info']
    since: int
    what: str


class _ServerStorage(TypedDict):
    dead: int
    free: int
    live: int
    log: int


class ServerStorage(_ServerStorage, total=False):
    """What there is on the disk, in bytes."""

    disk_free: int
    full_in_s: int


class ServerCaller(TypedDict, total=False):
    """Whoever asks, as the server sees them."""

    key: str
    rights: list[GrantText]
    user: str


class GrantText(TypedDict):
    """A grant as it is said."""

    allow: list[str]
    on: str


#: The last hour, as far as the process is old.
ServerHistoryResult = TypedDict("ServerHistoryResult", {"append_seconds": "ServerBuckets", "from": "int", "series": "dict[str, list[float]]", "step_ms": "int"}, total=True)


class ServerBuckets(TypedDict):
    """A histogram as time goes by."""

    bounds: list[float]
    counts: list[list[int]]


class LogTailResult(TypedDict):
    """Lines of the log."""

    dropped: int
    lines: list[LogLine]
    next: int


class LogLine(TypedDict):
    """A line of the log."""

    at: int
    fields: dict[str, Any]
    level: Literal['error'] | Literal['warn'] | Literal['info'] | Literal['debug'] | Literal['trace']
    message: str
    number: int
    target: str


class PresenceGetResult(TypedDict):
    """Who is online."""

    timelines: dict[str, Online | Refused]


class Online(TypedDict):
    """Whose connections subscribe to the timeline, and for 5 s after; with `anywhere` which members are connected."""

    online: int
    users: list[User]


class User(TypedDict):
    """A user who is online."""

    devices: list[str]
    user: str


class Refused(TypedDict):
    """Why a timeline is refused."""

    reason: Literal['parse_error'] | Literal['invalid_request'] | Literal['method_not_found'] | Literal['invalid_params'] | Literal['internal_error'] | Literal['unauthenticated'] | Literal['forbidden'] | Literal['not_a_member'] | Literal['timeline_not_found'] | Literal['message_not_found'] | Literal['member_not_found'] | Literal['session_not_found'] | Literal['conversation_not_found'] | Literal['table_not_found'] | Literal['cursor_not_found'] | Literal['webhook_not_found'] | Literal['dead_letter_not_found'] | Literal['partition_not_found'] | Literal['scheduled_not_found'] | Literal['condition_failed'] | Literal['timeline_closed'] | Literal['message_id_conflict'] | Literal['message_closed'] | Literal['part_conflict'] | Literal['epoch_changed'] | Literal['search_off'] | Literal['no_stream'] | Literal['not_configured'] | Literal['position_lost'] | Literal['already_subscribed'] | Literal['too_large'] | Literal['too_many'] | Literal['rate_limited'] | Literal['busy'] | Literal['unavailable'] | Literal['shutting_down'] | Literal['outcome_unknown'] | Literal['storage_full']


#: An OpenRPC document.
RpcDiscoverResult = TypedDict("RpcDiscoverResult", {"components": "dict[str, Any]", "info": "dict[str, Any]", "methods": "list[Any]", "openrpc": "str", "x-close-codes": "list[Any]", "x-pushes": "list[Any]"}, total=True)
