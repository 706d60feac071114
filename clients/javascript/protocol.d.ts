// Made by scripts/types.js from schemas/openrpc.json; not to be edited.

/** What was found in place of what was expected or allowed: a number, or an epoch. */
export type Actual = (number | string);

/** Where the message went. */
export type Appended = {
  /** It was there already. */
  "duplicate": boolean;
  /** The timeline's epoch. */
  "epoch": string;
  /** The client's ID or the server's. */
  "message_id": string;
  /** How many parts it has; only if it was to be open. Absent from a duplicate of one that never was. */
  "parts"?: number | null;
  /** Its number. */
  "sequence": number;
  /** When it was committed, ms since 1970. */
  "timestamp": number;
};

/** Where one message of a batch went. */
export type AppendedOne = {
  /** It was there already. */
  "duplicate": boolean;
  /** The client's ID or the server's. */
  "message_id": string;
  /** How many parts it has; only if it was to be open. Absent from a duplicate of one that never was. */
  "parts"?: number | null;
  /** Its number. */
  "sequence": number;
  /** When it was committed, ms since 1970. */
  "timestamp": number;
};

/** A change of attributes. */
export type AttributesPatch = {
  /** Names that go away. */
  "remove"?: Array<string>;
  /** New values. */
  "set"?: (Entry | null);
};

/** One message of a batch. */
export type BatchMessage = {
  /** What the message holds. */
  "entry": Entry;
  /** So long from now nobody is shown the entry any more, and the server makes the message a tombstone; up to 100 years. */
  "expires_in_ms"?: number | null;
  /** Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7. */
  "message_id"?: string | null;
  /** Append it open: its text grows by `message.extend` until `message.finish`. `true`, or how. */
  "open"?: (Opening | null);
};

/** What programs read of an error. */
export type Details = {
  /** What it was instead. */
  "actual"?: (Actual | null);
  /** Path of the parameter at fault. */
  "field"?: string | null;
  /** The value of the limit that was passed. */
  "limit"?: number | null;
  /** Of a message that does not grow any more: how it went; absent = it never was open. */
  "outcome"?: (Outcome | null);
  /** Of a node of a cluster: the address of the node that owns it and can do this. */
  "owner"?: string | null;
  /** How many parts it has. */
  "parts"?: number | null;
  /** Switch on this. */
  "reason": Reason;
  /** Whether the same call can succeed later, unchanged. */
  "retry": boolean;
  /** Wait this long before, ms. */
  "retry_after_ms"?: number | null;
  /** Who stopped it, if somebody did; empty = nobody in particular. */
  "stopped_by"?: string | null;
};

/** A device of the user. */
export type Device = {
  /** Its name. */
  "device": string;
  /** How many positions it has. */
  "positions": number;
  /** Its last use, exact to a day, ms since 1970. */
  "used_at": number;
};

/** In which order a range is read. */
export type Direction = ("forward" | "backward");

/** Who may edit and delete messages. */
export type Edit = {
  /** Whose messages. */
  "by": EditBy;
  /** How long after the append, ms; without it for ever. */
  "window_ms"?: number | null;
};

/** Whose messages a user may edit and delete, or stop. */
export type EditBy = ("anyone" | "sender");

/** Why a subscription ended. */
export type Ended = ("deleted" | "epoch_changed" | "too_old" | "forbidden" | "not_a_member" | "unavailable");

/** How messages reach inboxes. */
export type FanOut = ("read" | "write" | "auto");

/** A grant as it is said. */
export type GrantText = {
  /** What may be done there. */
  "allow": Array<string>;
  /** A name, or a prefix and `*`; a segment `{user}` is the caller's user. */
  "on": string;
};

/** What came of an open message since a reader's place in it. */
export type Grown = {
  /** The first of these parts. */
  "from": number;
  /** The last of them. */
  "parts": number;
  /** The message's number. */
  "sequence": number;
  /** Their texts, one behind the other. */
  "text": string;
};

/** How many earlier messages new members see. */
export type History = (number | HistoryWord);

/** All or none of the earlier messages. */
export type HistoryWord = ("all" | "none");

/** How integers beyond ±(2^53−1) come back. */
export type Integers = ("number" | "text");

/** Limits of one server. Clients may rely on them for the life of a session. */
export type Limits = {
  /** Entries of one `message.append_batch` together, bytes. */
  "batch_bytes_max": number;
  /** Messages of one `message.append_batch`. */
  "batch_messages_max": number;
  /** Compact JSON text of one entry or meta, bytes. */
  "entry_bytes_max": number;
  /** One message from the client, bytes. */
  "inbound_frame_bytes_max": number;
  /** Nesting of one request; the request object itself is 1. */
  "json_depth_max": number;
  /** One message to the client, bytes: pages end early. */
  "outbound_frame_bytes_max": number;
  /** Messages of one page; a `limit` above it is clamped. */
  "page_messages_max": number;
  /** Requests in flight of one connection, also the members of one batch. */
  "requests_in_flight_max": number;
  /** Subscriptions of one connection. */
  "subscriptions_max": number;
  /** Positions of one `sync`. */
  "sync_positions_max": number;
  /** How long a `sync` may wait, ms; a `wait_ms` above it is clamped. */
  "wait_ms_max": number;
};

/** A position as an object; a bare number is its short form. */
export type LongPosition = {
  /** Everything above this sequence is asked for. */
  "after": number;
  /** Also what changed at or below `after`, above this change number. */
  "changes_after"?: number | null;
  /** The epoch that `after` belongs to. */
  "epoch"?: string | null;
  /** Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only in `sync`. */
  "open"?: { [name: string]: number };
};

/** A member. */
export type Member = {
  /** The app's. */
  "attributes": Entry;
  /** When they became a member, ms since 1970. */
  "joined_at": number;
  /** Up to here they have read. */
  "read": number;
  /** Up to here they have received; not below `read`. */
  "received": number;
  /** Free text. */
  "role": string;
  /** Who. */
  "user": string;
  /** The list's version at the last change of this member. */
  "version": number;
  /** The first sequence that they may see. */
  "visible_from": number;
};

/** That a message is open, as clients are shown it. */
export type MessageOpen = (boolean | MessageOpenColumn);

/** What grows of an open message. */
export type MessageOpenColumn = {
  /** The column. */
  "column": string;
};

/** A user who is to become a member. */
export type NewMember = {
  /** The app's, up to 4 KiB. */
  "attributes"?: (Entry | null);
  /** Up to here they have read; without it all that is there when they join. Clamped to `head`. */
  "read"?: number | null;
  /** Free text, 1 to 64 bytes; default `member`. */
  "role"?: string | null;
  /** Who, 1 to 128 bytes. */
  "user": string;
  /** The first sequence that they may see; without it as `history` says. Clamped to `head` + 1. */
  "visible_from"?: number | null;
};

/** Where the next page of members starts. */
export type Next = (number | string);

/** Whose connections subscribe to the timeline, and for 5 s after; with `anywhere` which members are connected. */
export type Online = {
  /** How many users; one with many connections counts once, connections without a user do not. */
  "online": number;
  /** The first of them by name; fewer than `limit` too where the reply would become too long. */
  "users": Array<User>;
};

/** What grows of a message, and when it is given up. */
export type OpenWith = {
  /** The column that grows; a text in the entry, or not there. Default `text`. */
  "column"?: string | null;
  /** Without a part for so long the server closes it as `failed`, ms; default 60,000, at most an hour. */
  "idle_ms"?: number | null;
};

/** How a message is opened. */
export type Opening = (boolean | OpenWith);

/** Which sessions come first. */
export type Order = ("opened" | "lag" | "subscriptions" | "in_flight");

/** How a message that was open has ended. */
export type Outcome = ("done" | "cancelled" | "failed");

/** How far a device has stored a timeline. */
export type Place = {
  /** Everything up to this sequence is stored. */
  "after": number;
  /** Every change up to this number is stored. */
  "changes_after"?: number | null;
  /** The epoch that the numbers belong to. */
  "epoch": string;
};

/** Who is online in one timeline, or why that is not said. */
export type Presence = (Online | Refused);

/** How far the user has come in one timeline; at least one of `read` and `received`. */
export type ReadPosition = {
  /** Refuse unless this is the current one. */
  "epoch"?: string | null;
  /** Up to here the user has read; clamped to the head. */
  "read"?: number | null;
  /** Up to here the user's devices have received; clamped to the head, and never below `read`. */
  "received"?: number | null;
};

/** How far the user has come in one timeline, or why it was refused. */
export type ReadState = ({
  /** Up to here the user has read. */
  "read": number;
  /** Up to here the user's devices have received. */
  "received": number;
  /** How many messages are left to be read. */
  "unread": number;
} | {
  /** Why. */
  "reason": Reason;
});

/** Why a call was refused. Clients switch on it; one that they don't know they treat by its `retry`. */
export type Reason = ("parse_error" | "invalid_request" | "method_not_found" | "invalid_params" | "internal_error" | "unauthenticated" | "forbidden" | "not_a_member" | "timeline_not_found" | "message_not_found" | "member_not_found" | "session_not_found" | "conversation_not_found" | "table_not_found" | "cursor_not_found" | "webhook_not_found" | "dead_letter_not_found" | "partition_not_found" | "scheduled_not_found" | "condition_failed" | "timeline_closed" | "message_id_conflict" | "message_closed" | "part_conflict" | "epoch_changed" | "search_off" | "no_stream" | "not_configured" | "position_lost" | "already_subscribed" | "too_large" | "too_many" | "rate_limited" | "busy" | "unavailable" | "shutting_down" | "outcome_unknown" | "storage_full");

/** How far one member has come. */
export type Receipt = {
  /** Up to here they have read. */
  "read": number;
  /** Up to here they have received. */
  "received": number;
  /** Who. */
  "user": string;
};

/** How far a member has read. */
export type Receipt2 = {
  /** Up to here they have read. */
  "read": number;
  /** Up to here they have received. */
  "received": number;
  /** The member. */
  "user": string;
};

/** Why a timeline is refused. */
export type Refused = {
  /** As in an error. */
  "reason": Reason;
};

/** Limits of what is kept; one that is left out does not count. */
export type Retention = {
  /** No message is older, ms; at least 1. */
  "age_ms"?: number | null;
  /** No more bytes of stored messages; at least 1. */
  "bytes"?: number | null;
  /** No more messages; at least 1. */
  "messages"?: number | null;
};

/** When the message will be appended. */
export type Scheduled = {
  /** When, ms since 1970. */
  "deliver_at": number;
  /** It was scheduled already. */
  "duplicate": boolean;
  /** Its message ID, the client's or the server's: what `schedule.cancel` takes. */
  "scheduled": string;
};

/** A message that waits for its time, or that was refused when it came. */
export type Scheduled2 = {
  /** When it is appended, ms since 1970. */
  "deliver_at": number;
  /** What it holds. */
  "entry": Entry;
  /** How long its entry will be shown from then on, ms. */
  "expires_in_ms"?: number | null;
  /** Why it was not appended: `timeline_not_found` (deleted, or the sender was no member of it any more) or `epoch_changed` (made again). Absent = it still waits. */
  "reason"?: (Reason | null);
  /** When it was refused, ms since 1970; it is listed for 7 days from then on. */
  "refused_at"?: number | null;
  /** Its message ID. */
  "scheduled": string;
};

/** The server's software. */
export type Server = {
  /** `tideline`. */
  "name": string;
  /** Its version. */
  "version": string;
};

/** The settings in force: the timeline's own, else the policy's, else the defaults. */
export type Settings = {
  /** Who may edit and delete messages. */
  "edit": Edit;
  /** How messages reach inboxes. */
  "fan_out": FanOut;
  /** Up to how many members `auto` writes into inboxes. */
  "fan_out_members_max": number;
  /** Only members may read and write; to other users the timeline does not exist. */
  "members_only": boolean;
  /** How much is kept; empty = everything. */
  "retention": Retention;
  /** Whose open messages a user may stop; absent = everybody's. */
  "stop"?: (EditBy | null);
};

/** A change of settings: what is left out stays, `null` goes back to the policy. */
export type SettingsPatch = {
  /** Who may edit and delete messages. */
  "edit"?: (Edit | null);
  /** How messages reach inboxes. */
  "fan_out"?: (FanOut | null);
  /** Up to how many members `auto` writes into inboxes; 1 to 1,000,000. */
  "fan_out_members_max"?: number | null;
  /** Only members may read and write; to other users the timeline does not exist. */
  "members_only"?: boolean | null;
  /** How much is kept; empty = everything. */
  "retention"?: (Retention | null);
  /** Whose open messages a user may stop. */
  "stop"?: (EditBy | null);
};

/** Where one of many subscriptions begins. Neither `after` nor `rewind`: from now. */
export type Start = {
  /** Everything above this sequence; not with `rewind`. */
  "after"?: number | null;
  /** Also what changed at or below `after`, above this change number. */
  "changes_after"?: number | null;
  /** The epoch that `after` belongs to. If it is not the current one, the answer's `state` says so. */
  "epoch"?: string | null;
  /** Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only with `parts` in `with`. */
  "open"?: { [name: string]: number };
  /** The newest so many messages; not with `after`. */
  "rewind"?: number | null;
};

/** How a position was answered. An unknown one means: start over. */
export type State = ("ok" | "too_old" | "epoch_changed" | "deleted" | "new" | "forbidden");

/** Why a stream of changes ended. */
export type StreamEnd = ("position_lost" | "no_stream" | "forbidden" | "unavailable");

/** One of many. */
export type SubscribedOne = (SubscribeResult | {
  /** Why. */
  "reason": Reason;
});

/** What is new in one timeline. */
export type SyncedTimeline = {
  /** What to pass as `changes_after` next time: the last change number, or while `changed` could not hold all of them (`more`) the number up to which it does. */
  "change_head": number;
  /** What changed at or below the position, newest form, in change order; only if asked for. */
  "changed"?: Array<Message> | null;
  /** The timeline's epoch; absent if it was deleted. */
  "epoch"?: string | null;
  /** The lowest readable sequence. */
  "floor": number;
  /** Parts that came to the messages in `open`. One that is not open any more is in `changed`. */
  "grown"?: Array<Grown>;
  /** The last sequence, 0 if none. */
  "head": number;
  /** Messages above the position, without gap. */
  "messages": Array<Message>;
  /** There is more in this timeline. */
  "more": boolean;
  /** What to pass as `after` next time. */
  "position": number;
  /** How it went. */
  "state": State;
};

/** A user who is online. */
export type User = {
  /** The names of their devices, up to 100; those of connections that named none are missing. */
  "devices": Array<string>;
  /** Their name. */
  "user": string;
};

/** Pushes that a subscription asks for. */
export type With = ("signals" | "presence" | "members" | "receipts" | "parts");

/** A backup that was asked for. */
export type Backup = {
  /** The moment that it shows, ms: later writes are not in it. Absent = it is not made. */
  "as_of"?: number | null;
  /** Its bytes; absent = it is not made. */
  "bytes"?: number | null;
  /** Bytes that were copied. */
  "done": number;
  /** Why it has failed. */
  "error"?: string | null;
  /** Of these, the bytes that no backup before it has; absent = it is not made. */
  "new_bytes"?: number | null;
  /** Where it is: a folder on the server's machine, or `s3://…`; absent = it is not made. */
  "path"?: string | null;
  /** When it was asked for, ms. */
  "since": number;
  /** How far it is. */
  "state": BackupState;
  /** The folder that it goes to. */
  "target": string;
  /** About how many there are to copy. */
  "total": number;
};

/** How far a backup is. */
export type BackupState = ("waiting" | "copying" | "verifying" | "sending" | "done" | "cancelled" | "failed");

/** Name to value, none nested. Names: 1 to 255 bytes, not starting with `#`. */
export type Cells = { [name: string]: Scalar };

/** The declared type of a column. */
export type ColumnType = ("integer" | "double" | "boolean" | "string" | "binary");

/** A timeline that the caller is a member of, as they see it. */
export type Conversation = {
  /** The caller's own, on all their devices. */
  "attributes": Entry;
  /** The last change number, 0 if none. */
  "change_head": number;
  /** Nothing at or below is shown to the caller. */
  "cleared": number;
  /** Tells this history of the name from earlier ones. */
  "epoch": string;
  /** The lowest sequence that the caller may see. */
  "floor": number;
  /** The last sequence, 0 if none. */
  "head": number;
  /** Off the list until a message comes. */
  "hidden": boolean;
  /** How many messages the caller hid. */
  "hides": number;
  /** When the caller joined, ms since 1970. */
  "joined_at": number;
  /** The newest activity: the last message or the caller's joining, ms since 1970. */
  "last_at": number;
  /** The last message, if the caller may see it. */
  "last_message"?: (Message | null);
  /** How many members there are. */
  "members_count": number;
  /** Those of them that mention the caller, up to 100. */
  "mentions"?: number;
  /** The timeline's meta. */
  "meta": Entry;
  /** The other user of a direct conversation. */
  "peer"?: string | null;
  /** Up to here the caller has read. */
  "read": number;
  /** Up to here the caller has received. */
  "received": number;
  /** The caller's role. */
  "role": string;
  /** The timeline's ID. */
  "timeline": string;
  /** Messages above `read` and `floor` that are neither the caller's nor deleted nor hidden. */
  "unread": number;
  /** Of the meta. */
  "version": number;
  /** The first sequence that the caller may see by their membership. */
  "visible_from": number;
};

/** Which conversations. */
export type ConversationFilter = {
  /** Only those whose own attributes have all of these values. */
  "attributes"?: (Entry | null);
  /** Only those that are muted now; `false`: only the others, so that no muted one counts at all. */
  "muted"?: boolean | null;
  /** Only those with something unread; `false`: only those without. */
  "unread"?: boolean | null;
};

/** Changes that a receiver did not take in time. */
export type DeadLetter = {
  /** How many there are; 0 = not known, the log had let go of them. */
  "changes": number;
  /** Why the last attempt failed. */
  "error": string;
  /** When that was, ms. */
  "failed_at": number;
  /** The position before its changes. */
  "from": string;
  /** Its number among the webhook's. */
  "number": number;
  /** It waits to be posted again. */
  "replaying": boolean;
  /** The position behind them. */
  "to": string;
};

/** A defined column. */
export type DefinedColumn = {
  /** Its name. */
  "name": string;
  /** Its declared type. */
  "type": ColumnType;
};

/** Name to value. Names: 1 to 255 bytes, not starting with `$` or `__`. */
export type Entry = { [name: string]: Value };

/** A failure as it is said: the `error` member of an answer. */
export type Error = {
  /** The class of the reason. */
  "code": number;
  /** For programs. */
  "data": Details;
  /** For people. */
  "message": string;
};

/** A message of a feed: as it is in its timeline now, and which that is. */
export type FeedMessage = {
  /** `true` if the server closed it because no part came any more, else absent. */
  "abandoned"?: boolean;
  /** The number of its last change; absent = never changed. */
  "change"?: number | null;
  /** `true` in a tombstone, else absent. */
  "deleted"?: boolean;
  /** When it was last edited, ms since 1970. */
  "edited_at"?: number | null;
  /** What it holds; absent in a tombstone, and (with `sender`, without `deleted`) in the answer to a `message.update` if the array that answers its batch has no room for it. */
  "entry"?: (Entry | null);
  /** The timeline's epoch. */
  "epoch": string;
  /** `true` in the tombstone of a message whose time was over, else absent. */
  "expired"?: boolean;
  /** From then on nobody is shown its entry, ms since 1970. */
  "expires_at"?: number | null;
  /** `true` in the tombstone that a user gets in place of a message that they have hidden, or of an inbox's entry that names a timeline which they may not read; else absent. */
  "hidden"?: boolean;
  /** The client's ID or a UUIDv7 of the server. */
  "message_id": string;
  /** `true` while it is open: its text grows by `message.extend`; `{"column": …}` if that is not the column `text`; else absent. */
  "open"?: (MessageOpen | null);
  /** How it ended, if it was open once. */
  "outcome"?: (Outcome | null);
  /** By how many parts its text has grown; absent unless it was appended open. */
  "parts"?: number | null;
  /** `true` if it is pinned, else absent. */
  "pinned"?: boolean;
  /** The reactions to it, by name; absent = none. */
  "reactions"?: ({ [name: string]: Reaction } | null);
  /** The reason that they gave, or the one who stopped it. */
  "reason"?: string | null;
  /** In the tombstone of a message that was recalled: by whom; empty = by nobody in particular. */
  "recalled_by"?: string | null;
  /** Who sent it. */
  "sender"?: string | null;
  /** 1, 2, 3 … without holes. */
  "sequence": number;
  /** Of one that was stopped: by whom; empty = by nobody in particular. */
  "stopped_by"?: string | null;
  /** The timeline's ID. */
  "timeline": string;
  /** When it was committed, ms since 1970; never falls within a timeline. */
  "timestamp": number;
  /** The `traceparent` of the call that appended it: in a push or a webhook's POST within a minute of that, else absent. */
  "traceparent"?: string | null;
};

/** How a column is compared. */
export type FilterOp = ("=" | "!=" | ">" | ">=" | "<" | "<=");

/** A timeline that the caller follows. */
export type Followed = {
  /** The first sequence that is in the feed. */
  "from": number;
  /** Its ID. */
  "timeline": string;
};

/** What may be done where. */
export type Grant = {
  /** Rights, like `read`. */
  "allow": Array<string>;
  /** A name, or a prefix and `*`; a segment `{user}` is the caller's user. */
  "on": string;
};

/** What an index may begin with. */
export type IndexKind = ("global" | "local");

/** Which rows an index has. */
export type IndexState = ("building" | "complete" | "since");

/** A key without its secret. */
export type Key = {
  /** Users that it may act for. */
  "act_as": Array<string>;
  /** The DNS name of the certificate that it needs. */
  "certificate"?: string | null;
  /** When it was made, ms since 1970. */
  "created_at": number;
  /** Its ID. */
  "id": string;
  /** Its name. */
  "name": string;
  /** What it may do. */
  "rights": Array<Grant>;
  /** Whether Tablestore's requests are signed with it. */
  "signing": boolean;
};

/** A column of a primary key. */
export type KeyColumn = {
  /** The server numbers it. */
  "auto_increment": boolean;
  /** Its name. */
  "name": string;
  /** Its type. */
  "type": KeyType;
};

/** The type of a key's column. */
export type KeyType = ("integer" | "string" | "binary");

/** A timeline of the level, or all timelines whose IDs go on behind the delimiter. One name may be both, once with the delimiter at its end and once without. */
export type LevelEntry = {
  /** It is the prefix of one or more timelines: pass it as `prefix` to see them. */
  "below": boolean;
  /** The timeline's ID, or the prefix of the next level, up to its delimiter. */
  "name": string;
  /** It is a timeline. */
  "timeline": boolean;
};

/** How bad what a line says is. */
export type LogLevel = ("error" | "warn" | "info" | "debug" | "trace");

/** A line of the log. */
export type LogLine = {
  /** When it was written, ms since 1970. */
  "at": number;
  /** Of what: texts, numbers (as texts from 2^53 on) and booleans by name. A text above 2,000 bytes is cut and says so, as are the last ones when all take more than 8,000. */
  "fields": { [name: string]: unknown };
  /** How bad it is. */
  "level": LogLevel;
  /** What it says; above 2,000 bytes it is cut, and says so. */
  "message": string;
  /** Higher than that of the line before, also after a restart. */
  "number": number;
  /** Which part of the server wrote it. */
  "target": string;
};

/** A message in its newest form. */
export type Message = {
  /** `true` if the server closed it because no part came any more, else absent. */
  "abandoned"?: boolean;
  /** The number of its last change; absent = never changed. */
  "change"?: number | null;
  /** `true` in a tombstone, else absent. */
  "deleted"?: boolean;
  /** When it was last edited, ms since 1970. */
  "edited_at"?: number | null;
  /** What it holds; absent in a tombstone, and (with `sender`, without `deleted`) in the answer to a `message.update` if the array that answers its batch has no room for it. */
  "entry"?: (Entry | null);
  /** `true` in the tombstone of a message whose time was over, else absent. */
  "expired"?: boolean;
  /** From then on nobody is shown its entry, ms since 1970. */
  "expires_at"?: number | null;
  /** `true` in the tombstone that a user gets in place of a message that they have hidden, or of an inbox's entry that names a timeline which they may not read; else absent. */
  "hidden"?: boolean;
  /** The client's ID or a UUIDv7 of the server. */
  "message_id": string;
  /** `true` while it is open: its text grows by `message.extend`; `{"column": …}` if that is not the column `text`; else absent. */
  "open"?: (MessageOpen | null);
  /** How it ended, if it was open once. */
  "outcome"?: (Outcome | null);
  /** By how many parts its text has grown; absent unless it was appended open. */
  "parts"?: number | null;
  /** `true` if it is pinned, else absent. */
  "pinned"?: boolean;
  /** The reactions to it, by name; absent = none. */
  "reactions"?: ({ [name: string]: Reaction } | null);
  /** The reason that they gave, or the one who stopped it. */
  "reason"?: string | null;
  /** In the tombstone of a message that was recalled: by whom; empty = by nobody in particular. */
  "recalled_by"?: string | null;
  /** Who sent it. */
  "sender"?: string | null;
  /** 1, 2, 3 … without holes. */
  "sequence": number;
  /** Of one that was stopped: by whom; empty = by nobody in particular. */
  "stopped_by"?: string | null;
  /** When it was committed, ms since 1970; never falls within a timeline. */
  "timestamp": number;
  /** The `traceparent` of the call that appended it: in a push or a webhook's POST within a minute of that, else absent. */
  "traceparent"?: string | null;
};

/** A table or an index. */
export type NamedTable = {
  /** The table whose rows it shows; absent = it is no index. */
  "index_of"?: string | null;
  /** It shows timelines or their messages, and can only be read. */
  "is_virtual": boolean;
  /** Its name. */
  "name": string;
};

/** A partition: a range of the hashes of keys. */
export type Partition = {
  /** The first position of its log. */
  "begins": number;
  /** About the bytes of its rows; 0 = it has ended. */
  "bytes": number;
  /** The last one; absent = it is served. */
  "ends"?: number | null;
  /** Pushes to subscribers. */
  "feed"?: (PartitionFeed | null);
  /** The lowest hash that it owns, or owned: 16 hexadecimal digits. */
  "first": string;
  /** Its sorted runs. */
  "image"?: (PartitionImage | null);
  /** Messages for more than 1,000 users that are not in all of their inboxes yet, up to 1,000. */
  "jobs"?: number | null;
  /** The highest one. */
  "last": string;
  /** Its log. This and what follows are absent where it has ended. */
  "log"?: (PartitionLog | null);
  /** The bytes of its log. */
  "log_bytes": number;
  /** What is not in the image yet. */
  "memtable"?: (PartitionMemtable | null);
  /** Whose keys it took over; empty = it was there from the beginning. */
  "parents": Array<number>;
  /** Its number, which is never used again. */
  "partition": number;
  /** Writes that wait for its writer. */
  "queue"?: (PartitionQueue | null);
  /** Why it does not, or why it is slowed. */
  "reason"?: string | null;
  /** What its changes lead to in other partitions: lists, inboxes, followers. */
  "relay"?: (PartitionRelay | null);
  /** Whether it takes writes. */
  "state": PartitionState;
};

/** A change of the partitions. */
export type PartitionChange = {
  /** Why it has failed. */
  "error"?: string | null;
  /** How often calls have waited in vain, because what changes lead to elsewhere was not written in time. */
  "given_up": number;
  /** Those that end by it: one is split, two become one. */
  "partitions": Array<number>;
  /** For how long calls have waited, ms; absent = it is not done. */
  "pause_ms"?: number | null;
  /** When it was asked for, ms. */
  "since": number;
  /** How far it is. */
  "state": PartitionChangeState;
};

/** How far a change is. */
export type PartitionChangeState = ("copying" | "catching_up" | "cutting" | "done" | "failed");

/** A partition's pushes. */
export type PartitionFeed = {
  /** The age of the oldest batch that is not pushed yet, ms; 0 = there is none. */
  "lag_ms": number;
};

/** Somebody who has a log kept. */
export type PartitionHold = {
  /** Who. */
  "by": PartitionHolder;
  /** All batches above this position are kept. */
  "position": number;
};

/** Who may have a log kept. */
export type PartitionHolder = ("relay" | "streams" | "reshape" | "backup" | "search");

/** A partition's sorted runs. */
export type PartitionImage = {
  /** Of these, bytes of what has expired or was deleted, as far as that is known. */
  "dead": number;
  /** Of these, flushed memtables that no merge has taken yet. */
  "level0": number;
  /** How many. */
  "runs": number;
  /** Bytes of their pages. */
  "used": number;
};

/** The commit log of a partition. */
export type PartitionLog = {
  /** Its bytes. */
  "bytes": number;
  /** Who has batches kept that the log would let go of some time, furthest behind first; those who are at the newest batch are left out. */
  "holds": Array<PartitionHold>;
  /** The oldest batch that is kept. */
  "oldest": number;
  /** The newest batch. */
  "position": number;
};

/** A partition's memtables. */
export type PartitionMemtable = {
  /** Bytes that are not flushed yet. */
  "bytes": number;
  /** Full memtables that wait for their flush. */
  "frozen": number;
};

/** Writes that wait for a partition's writer. */
export type PartitionQueue = {
  /** What they hold. */
  "bytes": number;
  /** How full the queue is, in writes or bytes, 0 to 1. */
  "fill": number;
  /** How many. */
  "writes": number;
};

/** What is derived from a partition's changes. */
export type PartitionRelay = {
  /** Bytes that are left to read and to write for it. */
  "backlog": number;
  /** The age of the oldest batch that is not derived and written everywhere, ms; 0 = there is none. */
  "lag_ms": number;
};

/** Whether a partition takes writes. */
export type PartitionState = ("serving" | "slowed" | "busy" | "full" | "stopped" | "ended");

/** Name to its new value, or to `null`, which removes it. Names as in an entry. */
export type Patch = { [name: string]: (Value | null) };

/** The position of a reader in one timeline: `after`, or an object. */
export type Position = (number | LongPosition);

/** Members who came, changed or went since the push before, at most once a second. `members` and `removed` are there together or not at all: after more than 100 changes, and where this connection was too slow for pushes before, there are only the numbers. Then ask `member.list` with the version that you know as `since`. */
export type PushMemberChanged = {
  /** Those who came or changed, as they are now. */
  "members"?: Array<Member> | null;
  /** How many members there are. */
  "members_count": number;
  /** Those who went. */
  "removed"?: Array<string> | null;
  /** The timeline's ID. */
  "timeline": string;
  /** The version of the list of members. */
  "version": number;
};

/** New messages of a subscription: every sequence above the last one of the reply, once, in order. */
export type PushMessage = {
  /** Its epoch. */
  "epoch": string;
  /** The last sequence. */
  "head": number;
  /** In order, without gap. */
  "messages": Array<Message>;
  /** The timeline's ID. */
  "timeline": string;
};

/** Edits and deletions of anything up to the subscription's position. */
export type PushMessageChanged = {
  /** What to pass as `changes_after` when resuming: up to this change number everything was sent. */
  "change_head": number;
  /** Its epoch. */
  "epoch": string;
  /** Newest form, in change order. */
  "messages": Array<Message>;
  /** The timeline's ID. */
  "timeline": string;
};

/** Reactions to anything up to the subscription's position that was not changed otherwise. They are gathered: at most one a second and timeline, and one beside a `message.changed`. */
export type PushReaction = {
  /** What to pass as `changes_after` when resuming: up to this change number everything was sent. */
  "change_head": number;
  /** Its epoch. */
  "epoch": string;
  /** In change order, each once. */
  "messages": Array<ReactedMessage>;
  /** The timeline's ID. */
  "timeline": string;
};

/** How far members have read, of those who did since the push before; at most once a second. */
export type PushReceipt = {
  /** One for each member who has read; absent = this connection was too slow for some, so ask `member.list`. */
  "receipts"?: Array<Receipt2> | null;
  /** The timeline's ID. */
  "timeline": string;
};

/** Of many subscriptions those that fit into a frame. */
export type PushSubscribed = {
  /** The others follow in `subscribed` pushes. */
  "more": boolean;
  /** By timeline. */
  "timelines": { [name: string]: SubscribedOne };
};

/** The meta was updated. */
export type PushTimelineChanged = {
  /** The whole new meta. */
  "meta": Entry;
  /** The timeline's ID. */
  "timeline": string;
  /** Its version. */
  "version": number;
};

/** The reactions to one message. */
export type ReactedMessage = {
  /** The number of its last change. */
  "change": number;
  /** All reactions to it now, by name; empty = none is left. */
  "reactions": { [name: string]: Reaction };
  /** The message's number. */
  "sequence": number;
};

/** How many users have one reaction to a message, and some of them. */
export type Reaction = {
  /** How many. */
  "count": number;
  /** The caller has it too, and is not among the users that are named. Pushes, which many share, do not say it. */
  "mine"?: boolean;
  /** The last ten, newest first, or all if there are fewer. While there are more than 1,000, one who takes it back is not replaced until others come. In the answer to a `reaction.list` of one reaction: a page of all, by name. */
  "users": Array<string>;
};

/** A row. */
export type Row = {
  /** Its columns in the order of their names, versions newest first. */
  "columns": Array<RowColumn>;
  /** The last columns did not fit into the answer: ask for them by name. */
  "cut"?: boolean;
  /** Its primary key, in the order of the table's. */
  "key": Cells;
};

/** A change of a table's row. */
export type RowChange = {
  /** What changed: columns in the order of their names, versions newest first. */
  "columns": Array<RowColumn>;
  /** The primary key, name to value. */
  "key": Entry;
  /** What the stream's original columns held before; absent = nothing, or it was not asked for. */
  "original"?: Array<RowColumn> | null;
  /** The table. */
  "table": string;
  /** When it was committed, ms. */
  "timestamp": number;
};

/** A version of a column, or its end. */
export type RowColumn = {
  /** The column's name. */
  "name": string;
  /** Its value; absent = deleted. */
  "value"?: (Scalar | null);
  /** The version, ms mostly; absent = all versions were deleted. */
  "version"?: number | null;
};

/** What has to be so of a row that is put. */
export type RowExpect = ("exist" | "absent");

/** What has to hold of a row: a comparison, or one of `all`, `any` and `not`. */
export type RowFilter = {
  /** All of these hold; two at least. */
  "all"?: Array<RowFilter>;
  /** One of these holds; two at least. */
  "any"?: Array<RowFilter>;
  /** The column that is compared, also one of the key. Any of the versions that are asked for may fulfil it. */
  "column"?: string | null;
  /** Whether it holds of rows that have no such column. */
  "if_missing"?: boolean;
  /** This does not hold. */
  "not"?: (RowFilter | null);
  /** How it is compared. */
  "op"?: (FilterOp | null);
  /** With what. Values of two types are not equal, and neither is above the other. */
  "value"?: (Scalar | null);
};

/** String, 64-bit integer, double, boolean, or a typed value: binary, or an integer as decimal text. In MessagePack binary is bin. */
export type Scalar = string | number | bigint | boolean | Uint8Array;

/** What has to hold of a name. */
export type SearchCondition = {
  /** The name. */
  "name": string;
  /** How its value is compared. Names that are not there fulfil nothing. */
  "op": FilterOp;
  /** With what: a text of at most 1,024 bytes, a number, or `true` or `false`. Numbers compare as numbers; values of two kinds are not equal, and neither is above the other. */
  "value": Scalar;
};

/** A found message: as it is in its timeline now, and where in it the words are. */
export type SearchMessage = {
  /** The timeline's epoch. */
  "epoch": string;
  /** Pieces of its texts around the words, a few at most; none if the query has no words. */
  "found": Array<SearchText>;
  /** The message. */
  "message": Message;
  /** The timeline's ID. */
  "timeline": string;
};

/** The order of found messages. */
export type SearchOrder = ("newest" | "best");

/** A part of a piece. */
export type SearchPart = {
  /** It is what was looked for. */
  "hit"?: boolean;
  /** The text. */
  "text": string;
};

/** A piece of a text in an entry. */
export type SearchText = {
  /** The name in the entry that the text is of, or in whose value it is. */
  "name": string;
  /** The piece, cut where words begin and end. Joined it reads as in the text. */
  "parts": Array<SearchPart>;
};

/** A histogram as time goes by. */
export type ServerBuckets = {
  /** Upper bounds of the buckets, seconds. */
  "bounds": Array<number>;
  /** Of each step the calls by bucket; the last bucket is that above all bounds. */
  "counts": Array<Array<number> | null>;
};

/** Whoever asks, as the server sees them. */
export type ServerCaller = {
  /** The name of their API key. */
  "key"?: string | null;
  /** What their credential and the configuration give them; a timeline may give its members more. Absent = no credentials are asked for, and everybody may do everything. */
  "rights"?: Array<GrantText> | null;
  /** Their user. */
  "user"?: string | null;
};

/** A node's part in a cluster. */
export type ServerCluster = {
  /** Frames that are in the log and not applied here. */
  "lag": number;
  /** The cluster's name. */
  "name": string;
  /** The node's. */
  "node": string;
  /** The node that owns the log, as far as this one knows. */
  "owner"?: string | null;
  /** The term of its claim. */
  "term": number;
};

/** Something that is wrong, or will be. */
export type ServerNotice = {
  /** What to do about it. */
  "advice": string;
  /** How bad it is. */
  "severity": ServerSeverity;
  /** When it was first seen, ms since 1970. */
  "since": number;
  /** What it is, in a sentence. */
  "what": string;
};

/** How bad something is. */
export type ServerSeverity = ("critical" | "warning" | "info");

/** What there is on the disk, in bytes. */
export type ServerStorage = {
  /** Of rows that have expired or were deleted, as far as that is known; compaction reclaims them. */
  "dead": number;
  /** What an ordinary user may still write, as `df` shows; absent = not known. */
  "disk_free"?: number | null;
  /** Of pages that hold nothing and are used again. */
  "free": number;
  /** Seconds until there is no room, if the server writes as in the last hour; absent = not within a year, or the server has run for less than ten minutes. */
  "full_in_s"?: number | null;
  /** Of rows that count. */
  "live": number;
  /** Of the commit logs. */
  "log": number;
};

/** A session. */
export type Session = {
  /** Where it comes from. */
  "address": string;
  /** Name and version of the client's software. */
  "client"?: string | null;
  /** What the client calls its device. */
  "device"?: string | null;
  /** The sub-protocol that it speaks. */
  "dialect": string;
  /** When its token ends, ms since 1970; absent = never. */
  "expires_at"?: number | null;
  /** Its calls that are not answered yet. */
  "in_flight": number;
  /** The ID of its API key; absent = it has shown a token, or nothing. */
  "key"?: string | null;
  /** For how long the oldest has waited that is still to go out to it, ms; 0 = it has everything. */
  "lag_ms": number;
  /** Since when, ms since 1970. */
  "opened_at": number;
  /** As `session.open` returned it. */
  "session": string;
  /** How many timelines it is subscribed to. */
  "subscriptions": number;
  /** Its user; absent = a back end that acts for nobody. */
  "user"?: string | null;
};

/** How far a session is in a timeline. */
export type SessionPosition = {
  /** The timeline's last sequence; absent = it is gone. */
  "head"?: number | null;
  /** For how long something newer has waited, ms; 0 = nothing does. */
  "lag_ms": number;
  /** The last sequence that went out to it. */
  "position": number;
  /** The timeline's ID. */
  "timeline": string;
};

/** A column of an answer. */
export type SqlColumn = {
  /** Its alias, or its text as it was written. */
  "name": string;
  /** What its values are. */
  "type": SqlType;
};

/** The type of a column of an answer. */
export type SqlType = ("integer" | "double" | "boolean" | "string" | "binary" | "datetime" | "date" | "time");

/** A change. Ignore kinds that you don't know. */
export type StreamChange = (PushMessage & {
  "kind": "message";
} | PushMessageChanged & {
  "kind": "message.changed";
} | PushReaction & {
  "kind": "reaction";
} | TimelineCreated & {
  "kind": "timeline.created";
} | PushTimelineChanged & {
  "kind": "timeline.changed";
} | TimelineConfigured & {
  "kind": "timeline.configured";
} | TimelineDeleted & {
  "kind": "timeline.deleted";
} | PushMemberChanged & {
  "kind": "member.changed";
} | PushReceipt & {
  "kind": "receipt";
} | RowChange & {
  "kind": "row.put";
} | RowChange & {
  "kind": "row.updated";
} | RowChange & {
  "kind": "row.deleted";
});

/** A named cursor. */
export type StreamCursor = {
  /** Commits of what it follows that it has not passed. Behind the first MiB of the log all commits count. */
  "behind": number;
  /** When it was set last, ms. */
  "committed_at": number;
  /** Its name. */
  "cursor": string;
  /** How long ago the first of them was, ms; 0 = there is none. */
  "lag_ms": number;
  /** The log has let go of its place: begin anew. */
  "lost": boolean;
  /** Where it is. */
  "position": string;
  /** Of a table: its name. */
  "table"?: string | null;
  /** Of timelines: how their IDs begin. */
  "timelines"?: string | null;
};

/** Where a stream begins. */
export type StreamFrom = ("start" | "now");

/** The subscription, unless `state` says otherwise. */
export type SubscribeResult = {
  /** What to pass as `changes_after` when resuming: the last change number, or while `changed` could not hold all of them (`more`) the number up to which it does; the pushes of the rest carry it on. */
  "change_head": number;
  /** What changed at or below the position, newest form, in change order; only if asked for. */
  "changed"?: Array<Message> | null;
  /** Its epoch; empty if a position in a history that is gone was given and there is no such timeline now. */
  "epoch": string;
  /** The lowest readable sequence. */
  "floor": number;
  /** Parts that came to the messages in `open`. One that is not open any more is in `changed`. */
  "grown"?: Array<Grown>;
  /** The last sequence; the reader has caught up when it reaches it. */
  "head": number;
  /** Messages above the position, without gap. */
  "messages": Array<Message>;
  /** The rest up to `head` follows as pushes. */
  "more": boolean;
  /** How it went. */
  "state": State;
  /** The timeline's ID. */
  "timeline": string;
};

/** A secondary index. */
export type TableIndex = {
  /** The columns that its rows hold besides. */
  "columns": Array<string>;
  /** The columns that order it. */
  "key": Array<string>;
  /** What it may begin with. */
  "kind": IndexKind;
  /** Its name: it is read like a table. */
  "name": string;
  /** Which rows it has. */
  "state": IndexState;
};

/** What decides which versions of a table's columns live, and which may be written. */
export type TableOptions = {
  /** Rows can be updated, not only put and deleted. */
  "allow_update": boolean;
  /** Seconds that a version lives, from its own time on; absent = for ever. */
  "ttl_s"?: number | null;
  /** How far from now a version may be that is written, seconds. */
  "version_offset_s": number;
  /** How many versions of a column live. */
  "versions": number;
};

/** A table's stream of changes. */
export type TableStream = {
  /** Each change tells what these columns held before it. */
  "columns": Array<string>;
  /** When it was enabled, ms since 1970. */
  "created_at": number;
  /** For how many hours its changes are kept at least. */
  "hours": number;
  /** Never used again, not by the same table either. */
  "id": string;
};

/** A part of a `timeline.create`. */
export type TimelineDiffers = ("meta" | "settings" | "members");

/** What is known of a timeline. */
export type TimelineGetResult = {
  /** The last change number, 0 if none. */
  "change_head": number;
  /** `true` = nothing is appended any more. */
  "closed"?: boolean;
  /** ms since 1970. */
  "created_at": number;
  /** Tells this history of the name from earlier ones. */
  "epoch": string;
  /** The lowest readable sequence; `head` + 1 if nothing is kept. */
  "floor": number;
  /** The last sequence, 0 if none. */
  "head": number;
  /** The timestamp of the last message, ms since 1970. */
  "last_at"?: number | null;
  /** How many members there are; 0 = it is no conversation. */
  "members_count": number;
  /** Its meta. */
  "meta": Entry;
  /** The settings in force. */
  "settings": Settings;
  /** The version of the timeline's own settings; 0 = none were ever set. */
  "settings_version": number;
  /** Its ID. */
  "timeline": string;
  /** When the meta was last updated, ms since 1970. */
  "updated_at": number;
  /** Of the meta: 1 at creation, one more by each update. */
  "version": number;
};

/** The settings of a timeline were changed. */
export type TimelineConfigured = {
  /** Its epoch. */
  "epoch": string;
  /** Those in force. */
  "settings": Settings;
  /** The timeline's ID. */
  "timeline": string;
  /** Their version. */
  "version": number;
};

/** A timeline was made. */
export type TimelineCreated = {
  /** When, ms. */
  "created_at": number;
  /** Its epoch. */
  "epoch": string;
  /** Its meta. */
  "meta": Entry;
  /** The timeline's ID. */
  "timeline": string;
  /** The meta's version. */
  "version": number;
};

/** A timeline was deleted. */
export type TimelineDeleted = {
  /** The epoch that ended. */
  "epoch": string;
  /** The timeline's ID. */
  "timeline": string;
};

/** A live subscription. */
export type TimelineReader = {
  /** For how long something newer has waited, ms; 0 = nothing does. */
  "lag_ms": number;
  /** The last sequence that went out to it. */
  "position": number;
  /** Its session, for `session.get`. */
  "session": string;
  /** Whose it is; absent = a back end's. */
  "user"?: string | null;
};

/** String, 64-bit integer, double, boolean, nested array or object, or a typed value: binary, or an integer as decimal text. In MessagePack binary is bin. */
export type Value = string | number | bigint | boolean | Uint8Array | unknown[] | { [name: string]: unknown };

/** A webhook. */
export type Webhook = {
  /** Commits of what it follows that it has not passed. Behind the first MiB of the log all commits count. */
  "behind": number;
  /** Dead letters. */
  "dead": number;
  /** Its receiver does not take what it is sent; absent = it does. */
  "failing"?: (WebhookFailing | null);
  /** How long ago the first of them was, ms; 0 = there is none. */
  "lag_ms": number;
  /** Its name. */
  "name": string;
  /** Behind what its receiver has taken; absent = it has not begun. */
  "position"?: string | null;
  /** Of a table: its name. */
  "table"?: string | null;
  /** Of timelines: how their IDs begin. */
  "timelines"?: string | null;
  /** Where it posts, without a query. */
  "url": string;
};

/** A receiver that does not take what it is sent. */
export type WebhookFailing = {
  /** How often it was tried. */
  "attempts": number;
  /** What came of the last attempt. */
  "error": string;
  /** Since when, ms. */
  "since": number;
};

/** Parameters and result of each method, by its name. */
export interface Methods {
  /** Name the user, get the limits */
  "session.open": {
    params: {
      /** Name and version of the client's software, up to 255 bytes. */
      "client"?: string | null;
      /** Names the device, 1 to 64 bytes; others see it in presence and signals. */
      "device"?: string | null;
      /** How integers beyond ±(2^53−1) come back; default `number`. */
      "integers"?: (Integers | null);
      /** Proves who the user is, or is an API key; refused while no authentication is configured. */
      "token"?: string | null;
      /** The user who sends, 1 to 128 bytes. An API key may act for some; beside a token it must be its own. */
      "user"?: string | null;
    };
    result: {
      /** When the token ends, ms since 1970; absent = never. Show a newer one by `session.renew` before. */
      "expires_at"?: number | null;
      /** The server pings this often, ms; a client silent for two intervals is closed. */
      "heartbeat_ms": number;
      /** What may be sent and is sent. */
      "limits": Limits;
      /** The server's software. */
      "server": Server;
      /** Names this session in the server's logs. */
      "session": string;
      /** The user who sends; absent = none. */
      "user"?: string | null;
    };
  };
  /** Show a newer token, so that the session goes on */
  "session.renew": {
    params: {
      /** The token. */
      "token": string;
    };
    result: {
      /** When the token ends, ms since 1970; absent = never. */
      "expires_at"?: number | null;
    };
  };
  /** Get what stands for the credential in the address of `/v1/events`, once */
  "session.ticket": {
    params: {};
    result: {
      /** Until when it counts, ms since 1970. */
      "expires_at": number;
      /** It counts once, as this call's credential would. */
      "ticket": string;
    };
  };
  /** List sessions */
  "session.list": {
    params: {
      /** Only sessions after this: `next` of the page before. Only with the order `opened`. */
      "after"?: string | null;
      /** Sessions at most; clamped to 1,000. */
      "limit"?: number;
      /** Which come first. */
      "order"?: Order;
      /** Only of this user. */
      "user"?: string | null;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all, or the order has no pages. */
      "next"?: string | null;
      /** What is known of each. */
      "sessions": Array<Session>;
    };
  };
  /** Read one session, and how far it is in its timelines */
  "session.get": {
    params: {
      /** As `session.list` returned it. */
      "session": string;
      /** Only timelines after this one: `next` of the page before. As in `timeline.list`. */
      "after"?: string | null;
      /** Positions at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** How far it is in the timelines that it is subscribed to, in the order of their IDs; of somebody else's session only those that the caller may read by name. */
      "positions": Array<SessionPosition>;
      /** The session. */
      "session": Session;
    };
  };
  /** Close a session */
  "session.close": {
    params: {
      /** As `session.list` returned it. */
      "session": string;
    };
    result: {
      /** Whether there was one that the caller may close. */
      "closed": boolean;
    };
  };
  /** Take a user's tokens back */
  "session.revoke": {
    params: {
      /** The user. */
      "user": string;
      /** Those that were issued before (by `iat`), ms since 1970; a token that does not say it counts as old. Absent = all that were issued up to now. */
      "issued_before"?: number | null;
    };
    result: {
      /** Those that were issued before, ms since 1970. Never earlier than what an earlier call has set. */
      "issued_before": number;
    };
  };
  /** Make an API key */
  "key.create": {
    params: {
      /** Its name, 1 to 64 letters, digits, `.`, `_` and `-`; several keys may share one. */
      "name": string;
      /** What it may do. */
      "rights": Array<Grant>;
      /** Users that it may act for, each a user, or a prefix and `*`; at most 64. */
      "act_as"?: Array<string>;
      /** It counts only on connections whose client certificate has this DNS name. */
      "certificate"?: string | null;
      /** Whether Tablestore's requests are signed with it. Its secret is kept then, in a file of the server's. */
      "signing"?: boolean;
    };
    result: {
      /** Its ID; Tablestore's AccessKeyID. */
      "id": string;
      /** The key itself, which nobody is told again. What is behind its second `_` is Tablestore's secret. */
      "key": string;
    };
  };
  /** List the API keys */
  "key.list": {
    params: {};
    result: {
      /** What is known of each. */
      "keys": Array<Key>;
    };
  };
  /** Take an API key back */
  "key.revoke": {
    params: {
      /** Its ID. */
      "id": string;
    };
    result: {
      /** Whether there was one. */
      "revoked": boolean;
    };
  };
  /** Ask for a sign of life */
  "ping": {
    params: {};
    result: {
      /** The server's clock, ms since 1970. */
      "time": number;
    };
  };
  /** Make a timeline, or find it */
  "timeline.create": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Its members, if it is made now; up to 10,000, nobody twice. */
      "members"?: Array<NewMember>;
      /** Its meta, if it is made now. */
      "meta"?: (Entry | null);
      /** Its settings, if it is made now; what is left out is as the policy says. */
      "settings"?: (SettingsPatch | null);
    };
    result: {
      /** `false` if it was there already; its meta, settings and members are untouched then. */
      "created": boolean;
      /** ms since 1970. */
      "created_at": number;
      /** What of the call is not so in the timeline that was there already; absent = nothing. */
      "differs"?: Array<TimelineDiffers>;
      /** Its epoch. */
      "epoch": string;
      /** Its ID. */
      "timeline": string;
    };
  };
  /** Read what is known of a timeline */
  "timeline.get": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: TimelineGetResult;
  };
  /** Change the meta */
  "timeline.update": {
    params: {
      /** What to set and remove. */
      "meta": Patch;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless the meta has this version. */
      "expect_version"?: number | null;
    };
    result: {
      /** The whole new meta; absent only if the array that answers a batch has no room for it. */
      "meta"?: (Entry | null);
      /** Its version. */
      "version": number;
    };
  };
  /** Delete a timeline */
  "timeline.delete": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** `false` if there was none. */
      "deleted": boolean;
    };
  };
  /** Drop the oldest messages */
  "timeline.trim": {
    params: {
      /** The first sequence to keep. */
      "before": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** The lowest readable sequence. */
      "floor": number;
    };
  };
  /** List timelines by ID */
  "timeline.list": {
    params: {
      /** Only IDs after this one: `next` of the page before. */
      "after"?: string | null;
      /** Timelines at most; clamped to the page limit. */
      "limit"?: number;
      /** Only IDs that start with this. */
      "prefix"?: string | null;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all. Mostly the last ID; where timelines that the caller may not see are passed over, a text that counts until the server's next start. */
      "next"?: string | null;
      /** In the order of their IDs' bytes. May be none although there are more. */
      "timelines": Array<TimelineGetResult>;
    };
  };
  /** List one level of the IDs of timelines */
  "timeline.prefixes": {
    params: {
      /** Only what comes behind this: `next` of the page before. */
      "after"?: string | null;
      /** What ends a level; `/` if it is left out. */
      "delimiter"?: string | null;
      /** Entries at most; clamped to the page limit. */
      "limit"?: number;
      /** Only IDs that start with this; the level begins behind it. */
      "prefix"?: string | null;
    };
    result: {
      /** In the order of their names' bytes. May be none although there are more. */
      "entries": Array<LevelEntry>;
      /** What to pass as `after` for the next page; absent = that was all. As in `timeline.list`. */
      "next"?: string | null;
    };
  };
  /** Read who follows a timeline now, and how far behind */
  "timeline.readers": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Of the slowest at most so many; clamped to 1,000. */
      "limit"?: number;
    };
    result: {
      /** Only so many of them have said how far they are; absent = all. */
      "asked"?: number | null;
      /** Of those that have said it, how many have everything. */
      "at_head": number;
      /** How many there are. */
      "count": number;
      /** Those that lag most first, then those that are furthest behind. */
      "slowest": Array<TimelineReader>;
    };
  };
  /** Change the settings */
  "timeline.configure": {
    params: {
      /** What to set, and what to give back. */
      "settings": SettingsPatch;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless the settings have this version; 0 = none were ever set. */
      "expect_version"?: number | null;
    };
    result: {
      /** Those in force now. */
      "settings": Settings;
      /** The version of the timeline's own settings; a call that changes nothing leaves it. */
      "version": number;
    };
  };
  /** Add members, all or none */
  "member.add": {
    params: {
      /** Who; up to 10,000, nobody twice. */
      "members": Array<NewMember>;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** A message that is appended behind in the same batch, if anybody was added. */
      "announce"?: (Entry | null);
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** How many earlier messages they see: `"all"` (the default), `"none"` or a number. */
      "history"?: (History | null);
    };
    result: {
      /** How many were no members before. */
      "added": number;
      /** How many members there are now. */
      "members_count": number;
      /** The announcement's number, if it was appended. */
      "sequence"?: number | null;
      /** The version of the list of members. */
      "version": number;
    };
  };
  /** Change a member's role and attributes */
  "member.update": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Whose, 1 to 128 bytes. */
      "user": string;
      /** What to set and remove; the whole may be up to 4 KiB. */
      "attributes"?: (AttributesPatch | null);
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless the member has this version. */
      "expect_version"?: number | null;
      /** The new role, 1 to 64 bytes. */
      "role"?: string | null;
    };
    result: {
      /** As it is now; absent only if the array that answers a batch has no room for it. */
      "member"?: (Member | null);
    };
  };
  /** Remove members, or leave */
  "member.remove": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Who; up to 10,000, nobody twice. */
      "users": Array<string>;
      /** A message that is appended behind in the same batch, if anybody was removed. */
      "announce"?: (Entry | null);
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** How many members there are now. */
      "members_count": number;
      /** How many were members before. */
      "removed": number;
      /** The announcement's number, if it was appended. */
      "sequence"?: number | null;
      /** The version of the list of members. */
      "version": number;
    };
  };
  /** Read one member */
  "member.get": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Who, 1 to 128 bytes. */
      "user": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** As it is now. */
      "member": Member;
    };
  };
  /** Read the members, or what changed among them */
  "member.list": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only users after this one: `next` of the page before. */
      "after"?: string | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Members at most; clamped to the page limit. */
      "limit"?: number;
      /** Only members with this role; with `since` those who changed and have another one are in `removed`. */
      "role"?: string | null;
      /** Only what changed after this version; not with `after`. */
      "since"?: number | null;
    };
    result: {
      /** In the order of their users' bytes; with `since` in the order of their changes. */
      "members": Array<Member>;
      /** How many members there are. */
      "members_count": number;
      /** What to pass as `after` for the next page, or as `since` if that was given; absent = that was all. */
      "next"?: (Next | null);
      /** With `since`: users who left. */
      "removed"?: Array<string> | null;
      /** `since` is older than 30 days, or of another history: this is the whole list from its start. */
      "reset"?: boolean;
      /** The version of the list. That of the first page of a whole list is what to pass as `since` once all pages are there. */
      "version": number;
    };
  };
  /** Append a message */
  "message.append": {
    params: {
      /** What the message holds. */
      "entry": Entry;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Make the timeline if there is none, also if the message comes later; default `true`. */
      "create"?: boolean;
      /** Append the message at this time, ms since 1970, by the rights that the caller has then; up to 366 days ahead, up to 100 messages of a user in a timeline. `expires_in_ms` counts from then on. Not together with `expect_head`. */
      "deliver_at"?: number | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless this is the last sequence. */
      "expect_head"?: number | null;
      /** So long from now nobody is shown the entry any more, and the server makes the message a tombstone; up to 100 years. */
      "expires_in_ms"?: number | null;
      /** Unique per timeline and sender, 1 to 64 bytes; without one the server makes a UUIDv7. */
      "message_id"?: string | null;
      /** Append it open: its text grows by `message.extend` until `message.finish`. `true`, or how. Not together with `deliver_at`. */
      "open"?: (Opening | null);
    };
    result: (Appended | Scheduled);
  };
  /** Append messages, all or none */
  "message.append_batch": {
    params: {
      /** In order; at least one. */
      "messages": Array<BatchMessage>;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Make the timeline if there is none; default `true`. */
      "create"?: boolean;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless this is the last sequence; not tested if all message IDs are known. */
      "expect_head"?: number | null;
    };
    result: {
      /** The timeline's epoch. */
      "epoch": string;
      /** One for each message of the call. */
      "messages": Array<AppendedOne>;
    };
  };
  /** Read one message */
  "message.get": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** The message. */
      "message": Message;
    };
  };
  /** Read a page of messages */
  "message.range": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only these columns of each entry. */
      "columns"?: Array<string> | null;
      /** Default `forward`. */
      "direction"?: Direction;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** The first sequence; default: the floor forward, the head backward. */
      "from"?: number | null;
      /** Messages at most; clamped to the page limit. */
      "limit"?: number;
      /** Where to end; default: at the end. */
      "to"?: number | null;
    };
    result: {
      /** The last change number. */
      "change_head": number;
      /** The timeline's epoch. */
      "epoch": string;
      /** The lowest readable sequence. */
      "floor": number;
      /** The last sequence, 0 if none. */
      "head": number;
      /** In the asked order; tombstones too. */
      "messages": Array<Message>;
      /** What to pass as `from` for the next page; absent = that was all. */
      "next"?: number | null;
    };
  };
  /** Edit a message */
  "message.update": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Refuse unless this is the message's change number (0 = never changed). */
      "expect_change"?: number | null;
      /** What to remove; no name that is also in `set`. */
      "remove"?: Array<string>;
      /** What to set; `null` removes the name. */
      "set"?: Patch;
    };
    result: {
      /** The message. */
      "message": Message;
    };
  };
  /** Make a message a tombstone */
  "message.delete": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** `false` if it was one already. */
      "deleted": boolean;
    };
  };
  /** Take a message back, and say so in its place */
  "message.recall": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Why, for those who read the tombstone: 1 to 1,024 bytes. */
      "reason"?: string | null;
    };
    result: {
      /** `false` if it was one already. */
      "deleted": boolean;
    };
  };
  /** Extend an open message by a part */
  "message.extend": {
    params: {
      /** The part's number: 1, 2, 3 …; up to 100,000. */
      "part": number;
      /** The message's number. */
      "sequence": number;
      /** What comes behind the text so far; not empty. With it the entry must not pass `entry_bytes_max`. */
      "text": string;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** It was there already. */
      "duplicate": boolean;
      /** How many parts there are. */
      "parts": number;
    };
  };
  /** Close an open message */
  "message.finish": {
    params: {
      /** How many parts it has; refused if that is not so. */
      "parts": number;
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** How it went; default `done`. */
      "outcome"?: Outcome;
      /** What to remove with it; no name that is also in `set`. */
      "remove"?: Array<string>;
      /** What to set with it; `null` removes the name. */
      "set"?: Patch;
    };
    result: {
      /** It was closed so already. */
      "duplicate": boolean;
      /** In its newest form. */
      "message": Message;
    };
  };
  /** Stop an open message that somebody else writes */
  "message.stop": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Why, for those who read the message: 1 to 1,024 bytes. */
      "reason"?: string | null;
    };
    result: {
      /** The message. */
      "message": Message;
    };
  };
  /** Find messages by their words */
  "message.search": {
    params: {
      /** `next` of the page before; everything else must be as it was then. */
      "after"?: string | null;
      /** Only messages from this time on, ms since 1970. */
      "from"?: number | null;
      /** Messages at most; clamped to 100. */
      "limit"?: number;
      /** In which order. */
      "order"?: SearchOrder;
      /** Only in timelines whose IDs start with this. */
      "prefix"?: string | null;
      /** Words that all occur; `"a phrase"`, `-without`, `begin*`. Anything else is text. Absent: every message matches. */
      "query"?: string | null;
      /** Only messages of this user. */
      "sender"?: string | null;
      /** Only in these timelines. */
      "timelines"?: Array<string> | null;
      /** Only messages before this time, ms since 1970. */
      "to"?: number | null;
      /** What has to hold of names of the entry, all of it; only names that the operator lets be asked for, in `[search] where`. */
      "where"?: Array<SearchCondition>;
    };
    result: {
      /** Something may be missing: the index did not have all that was answered before, or the work was too much. */
      "behind"?: boolean;
      /** In order, each as the caller sees it now. */
      "messages": Array<SearchMessage>;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
    };
  };
  /** Find timelines by the words of their metas */
  "timeline.search": {
    params: {
      /** `next` of the page before; everything else must be as it was then. */
      "after"?: string | null;
      /** Timelines at most; clamped to 100. */
      "limit"?: number;
      /** Only timelines whose IDs start with this. */
      "prefix"?: string | null;
      /** As in `message.search`. Absent: every timeline matches. */
      "query"?: string | null;
      /** What has to hold of names of the meta, all of it. */
      "where"?: Array<SearchCondition>;
    };
    result: {
      /** Something may be missing: the index did not have all that was answered before, or the work was too much. */
      "behind"?: boolean;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** In the order of their IDs' bytes, as `timeline.get` gives them. */
      "timelines": Array<TimelineGetResult>;
    };
  };
  /** React to a message */
  "reaction.add": {
    params: {
      /** The name of the reaction, mostly an emoji: 1 to 64 bytes without control characters. */
      "reaction": string;
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** By name; at most 64. Absent if the array that answers the batch has no room for it. */
      "reactions"?: ({ [name: string]: Reaction } | null);
    };
  };
  /** Take a reaction back */
  "reaction.remove": {
    params: {
      /** The name of the reaction, mostly an emoji: 1 to 64 bytes without control characters. */
      "reaction": string;
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** By name; at most 64. Absent if the array that answers the batch has no room for it. */
      "reactions"?: ({ [name: string]: Reaction } | null);
    };
  };
  /** Read who has reacted to a message */
  "reaction.list": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only users above this one: `next` of the page before. Only with `reaction`. */
      "after"?: string | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Users at most; clamped to the page limit. */
      "limit"?: number;
      /** All users of this one, in the order of their names; absent = every reaction with its last users. */
      "reaction"?: string | null;
    };
    result: {
      /** What to pass as `after` for the next page of users; absent = that was all. */
      "next"?: string | null;
      /** All, or the one that was asked for if there is such a one. */
      "reactions": { [name: string]: Reaction };
    };
  };
  /** Pin a message for all */
  "pin.add": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** `false` if it was already. */
      "added": boolean;
    };
  };
  /** Take the pin of a message away */
  "pin.remove": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** `false` if it was not. */
      "removed": boolean;
    };
  };
  /** Read the pinned messages */
  "pin.list": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only those above this sequence: `next` of the page before. */
      "after"?: number | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Messages at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** In the order of their numbers. */
      "messages": Array<Message>;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: number | null;
    };
  };
  /** List the messages that one has scheduled */
  "schedule.list": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** What the page before gave as `next`. */
      "after"?: string | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Messages at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** In the order of their IDs (UUIDs behind the others). */
      "scheduled": Array<Scheduled2>;
    };
  };
  /** Take back a scheduled message */
  "schedule.cancel": {
    params: {
      /** The message ID that `message.append` gave as `scheduled`. */
      "scheduled": string;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: { [name: string]: unknown };
  };
  /** Hide messages from oneself */
  "message.hide": {
    params: {
      /** The messages' numbers; a member can hide up to 10,000 messages. */
      "sequences": Array<number>;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** How many of them were not hidden before. */
      "hidden": number;
    };
  };
  /** Read what one has hidden */
  "message.hidden": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only what was hidden after so many: `next` of the page before, or the `hides` of a conversation. */
      "after"?: number;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Messages at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: number | null;
      /** In the order of hiding. */
      "sequences": Array<number>;
    };
  };
  /** Clear a conversation for oneself */
  "conversation.clear": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** The first sequence to keep; default: none is kept. */
      "before"?: number | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** Nothing at or below is shown to the user. */
      "cleared": number;
      /** How many messages are left to be read. */
      "unread": number;
    };
  };
  /** Say how far one has read */
  "read.set": {
    params: {
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Set it back too: what was read is unread again. */
      "force"?: boolean;
      /** The same by timeline; up to 1,000. */
      "positions"?: { [name: string]: ReadPosition };
      /** Up to here the user has read; clamped to the head. */
      "read"?: number | null;
      /** Up to here the user's devices have received; clamped to the head, and never below `read`. */
      "received"?: number | null;
      /** The timeline's ID, 1 to 255 bytes; not with `positions`. */
      "timeline"?: string | null;
    };
    result: {
      /** Each timeline that was named; one that was refused does not hinder the others. */
      "timelines": { [name: string]: ReadState };
    };
  };
  /** Read who got a message */
  "receipt.list": {
    params: {
      /** The message's number. */
      "sequence": number;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only users after this one: `next` of the page before. */
      "after"?: string | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Members at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** Those who have received it, by user. */
      "members": Array<Receipt>;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** How many members have read it. */
      "read_count": number;
      /** How many have received it. */
      "received_count": number;
    };
  };
  /** Store how far a device is */
  "position.set": {
    params: {
      /** The device's name, 1 to 64 bytes. One that is new is added; a user has up to 100. */
      "device": string;
      /** Positions by timeline; up to 10,000 of a device. */
      "positions": { [name: string]: Place };
      /** Also backwards, and without a change number where none is given. */
      "force"?: boolean;
    };
    result: {
      /** Of the timelines that were named; one that was ahead of the call stays there. Absent in a JSON-RPC batch whose answers would pass the outbound frame. */
      "positions"?: ({ [name: string]: Place } | null);
    };
  };
  /** Read a device's positions, or list the devices */
  "position.list": {
    params: {
      /** Only timelines after this one: `next` of the page before. */
      "after"?: string | null;
      /** The device's name; without it the devices are listed. */
      "device"?: string | null;
    };
    result: {
      /** In the order of their names; only if none was named. */
      "devices"?: Array<Device> | null;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** By timeline; none of a device that is not there. */
      "positions"?: ({ [name: string]: Place } | null);
    };
  };
  /** Forget a device */
  "position.remove": {
    params: {
      /** The device's name, 1 to 64 bytes. */
      "device": string;
    };
    result: {
      /** `false` if there was none. */
      "removed": boolean;
    };
  };
  /** List one's conversations */
  "conversation.list": {
    params: {
      /** `next` of the page before. */
      "after"?: string | null;
      /** Only these names of the last messages. */
      "columns"?: Array<string> | null;
      /** Which of them. */
      "filter"?: ConversationFilter;
      /** Conversations at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** In order. */
      "conversations": Array<Conversation>;
      /** What to pass to `conversation.sync` to hear what has changed since: that of the first page. */
      "cursor": string;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
    };
  };
  /** Read which conversations have changed */
  "conversation.sync": {
    params: {
      /** Only these names of the last messages. */
      "columns"?: Array<string> | null;
      /** Of the last sync or of a list; absent = all come. */
      "cursor"?: string | null;
      /** Conversations at most; clamped to the page limit. */
      "limit"?: number;
      /** Wait up to this long until there is something, ms; clamped; not in a batch. */
      "wait_ms"?: number | null;
    };
    result: {
      /** Their newest state. */
      "conversations": Array<Conversation>;
      /** What to pass next time. */
      "cursor": string;
      /** That is all; otherwise call again at once. */
      "done": boolean;
      /** Timelines that are no conversation of the caller any more. */
      "removed": Array<string>;
      /** The cursor is too old, or of another history: all come, and what has not by `done` is gone. */
      "reset"?: boolean;
    };
  };
  /** Count conversations and what is unread */
  "conversation.count": {
    params: {
      /** Which of them. */
      "filter"?: ConversationFilter;
    };
    result: {
      /** Conversations on the list. */
      "conversations": number;
      /** Those that mention the caller. */
      "mentions": number;
      /** More than 1,000 have news, and not all of them are counted. */
      "more"?: boolean;
      /** Unread messages in all of them. */
      "unread": number;
      /** Those with something unread. */
      "unread_conversations": number;
    };
  };
  /** Read one conversation */
  "conversation.get": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
    };
    result: {
      /** It. */
      "conversation": Conversation;
    };
  };
  /** Make the conversation with one user, or find it */
  "conversation.direct": {
    params: {
      /** The other user, 1 to 128 bytes. */
      "user": string;
    };
    result: {
      /** `false` if it was there already. A caller who had left it is a member again. */
      "created": boolean;
      /** Its epoch. */
      "epoch": string;
      /** Its ID, made from both names. Users make timelines whose ID begins with `direct/` by this call only. */
      "timeline": string;
    };
  };
  /** Change one's own attributes of a conversation */
  "conversation.update": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** What to remove; no name that is also in `set`. */
      "remove"?: Array<string>;
      /** What to set; `null` removes the name. */
      "set"?: Patch;
    };
    result: {
      /** All of them; absent only if the array that answers a batch has no room for it. */
      "attributes"?: (Entry | null);
    };
  };
  /** Take a conversation off one's list until a message comes */
  "conversation.hide": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
    };
    result: {
      /** `true`. */
      "hidden": boolean;
    };
  };
  /** Bring a timeline into one's feed */
  "feed.follow": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** So many of its last messages come into the feed too; clamped to the page limit. */
      "copy"?: number;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
    };
    result: {
      /** `true`. */
      "following": boolean;
      /** The first sequence that is in the feed. A second follow gives that of the first. */
      "from": number;
    };
  };
  /** Take a timeline out of one's feed */
  "feed.unfollow": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
    };
    result: {
      /** `false`. */
      "following": boolean;
    };
  };
  /** List the timelines that one follows */
  "feed.following": {
    params: {
      /** Only IDs after this one: `next` of the page before. */
      "after"?: string | null;
      /** Timelines at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** In the order of their IDs' bytes. */
      "timelines": Array<Followed>;
    };
  };
  /** List who follows a timeline */
  "feed.followers": {
    params: {
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
      /** Only users after this one: `next` of the page before. */
      "after"?: string | null;
      /** Refuse unless this is the current one. */
      "epoch"?: string | null;
      /** Users at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** How many follow it in all. */
      "followers_count": number;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
      /** In the order of their bytes. */
      "users": Array<string>;
    };
  };
  /** Read one's feed, newest first */
  "feed.range": {
    params: {
      /** `next` of the page before. */
      "before"?: string | null;
      /** Messages at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** Newest first; no tombstones, and none that the caller has hidden. */
      "messages": Array<FeedMessage>;
      /** What to pass as `before` for the next page; absent = that was all. */
      "next"?: string | null;
    };
  };
  /** Read what is new in many timelines */
  "sync": {
    params: {
      /** Positions that the device has stored: they are set first, as by `position.set`. Nothing else moves them. */
      "ack"?: ({ [name: string]: Place } | null);
      /** The user's device whose stored positions count, in all of the user's conversations; 1 to 64 bytes. */
      "device"?: string | null;
      /** Messages per timeline at most; clamped to the page limit. */
      "limit"?: number;
      /** The reader's positions, by timeline; or `device`. */
      "positions"?: ({ [name: string]: Position } | null);
      /** So many of the newest messages of a conversation in which the device has no position; default 20. */
      "rewind"?: number | null;
      /** Wait up to this long until there is something, ms; clamped; not in a batch. */
      "wait_ms"?: number | null;
    };
    result: {
      /** Timelines that are not shown may have news: call again. */
      "more": boolean;
      /** Only timelines with something after their position, or changed, or whose position is not of their history. */
      "timelines": { [name: string]: SyncedTimeline };
    };
  };
  /** Resume a timeline and follow it */
  "subscribe": {
    params: {
      /** Everything above this sequence; not with `rewind`, and not with `timelines`, which have their own. */
      "after"?: number | null;
      /** Also what changed at or below `after`, above this change number. */
      "changes_after"?: number | null;
      /** All conversations of the user, also those that they join later; `subscribed` pushes tell those with news. */
      "conversations"?: true | null;
      /** Make a timeline if there is none; default `true`. */
      "create"?: boolean;
      /** With `conversations`: from the positions of this device; else from now. */
      "device"?: string | null;
      /** The epoch that `after` belongs to. If it is not the current one, the answer's `state` says so. */
      "epoch"?: string | null;
      /** Messages of a timeline in the reply at most; clamped to the page limit. The rest follows as pushes. */
      "limit"?: number;
      /** Open messages at or below `after`, and how many parts of each the reader has: also what came since. Only with `parts` in `with`. */
      "open"?: { [name: string]: number };
      /** The newest so many messages; not with `after`. With `device` of conversations where it has no position (default 20). */
      "rewind"?: number | null;
      /** The timeline's ID, 1 to 255 bytes; or `timelines`. */
      "timeline"?: string | null;
      /** Many at once, each for itself: where it begins, by timeline. */
      "timelines"?: ({ [name: string]: Start } | null);
      /** Parts of open messages may gather for so long before they are pushed, those of a message together, ms; clamped to 1,000; default 0. Only with `parts` in `with`. */
      "window_ms"?: number | null;
      /** Pushes of this subscription that come only if they are asked for. */
      "with"?: Array<With>;
    };
    result: (SubscribeResult | PushSubscribed);
  };
  /** End a subscription */
  "unsubscribe": {
    params: {
      /** All conversations, as they were subscribed. */
      "conversations"?: true | null;
      /** The epoch that is thought to be current; another one is refused. Only with `timeline`. */
      "epoch"?: string | null;
      /** The timeline's ID, 1 to 255 bytes; or `timelines`. */
      "timeline"?: string | null;
      /** Many at once. */
      "timelines"?: Array<string> | null;
    };
    result: { [name: string]: unknown };
  };
  /** Follow all changes of many timelines, or of a table */
  "stream.open": {
    params: {
      /** At the named cursor, 1 to 64 bytes. One that is not there is made first, at `from`. */
      "cursor"?: string | null;
      /** Where to begin: `"now"` (the default), or `"start"`, the first change that the log keeps. */
      "from"?: (StreamFrom | null);
      /** Behind this position, of a push or of `stream.cursors`; not with `from` or `cursor`. */
      "position"?: string | null;
      /** The rows of this table, which must have a stream. */
      "table"?: string | null;
      /** The timelines whose IDs begin so; empty = all. None of the server's own (`$…`). Or `table`. */
      "timelines"?: string | null;
    };
    result: {
      /** Where it begins. */
      "position": string;
      /** Its number on this connection. */
      "stream": number;
    };
  };
  /** End a stream of changes */
  "stream.close": {
    params: {
      /** Its number on this connection. */
      "stream": number;
    };
    result: { [name: string]: unknown };
  };
  /** Store how far a reader of changes is, under a name */
  "stream.commit": {
    params: {
      /** The cursor's name. */
      "cursor": string;
      /** The position of a push of a stream of the same source. */
      "position": string;
      /** Also back; without it the further place counts. */
      "force"?: boolean;
    };
    result: {
      /** `false` = it was there or further before. */
      "moved": boolean;
    };
  };
  /** List the named cursors, and how far they are behind */
  "stream.cursors": {
    params: {
      /** Only names above this one: `next` of the page before. */
      "after"?: string | null;
      /** Cursors at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** In the order of their names' bytes. */
      "cursors": Array<StreamCursor>;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: string | null;
    };
  };
  /** Forget a named cursor */
  "stream.forget": {
    params: {
      /** The cursor's name. */
      "cursor": string;
    };
    result: {
      /** `false` = there was none. */
      "forgotten": boolean;
    };
  };
  /** List the webhooks, and how they are doing */
  "webhook.list": {
    params: {};
    result: {
      /** How each is doing. */
      "webhooks": Array<Webhook>;
    };
  };
  /** List changes that a webhook's receiver did not take */
  "webhook.dead": {
    params: {
      /** The webhook's name. */
      "name": string;
      /** Only above this number: `next` of the page before. */
      "after"?: number | null;
      /** Dead letters at most; clamped to 50. */
      "limit"?: number;
    };
    result: {
      /** In the order of their numbers. */
      "dead": Array<DeadLetter>;
      /** What to pass as `after` for the next page; absent = that was all. */
      "next"?: number | null;
    };
  };
  /** Have a webhook post changes again */
  "webhook.replay": {
    params: {
      /** The webhook's name. */
      "name": string;
      /** The dead letter of this number, once. */
      "dead"?: number | null;
      /** Everything behind this position; or `dead`. */
      "position"?: string | null;
    };
    result: { [name: string]: unknown };
  };
  /** List the tables that one has a right to */
  "table.list": {
    params: {};
    result: {
      /** Tables, and indexes, which are read like tables. */
      "tables": Array<NamedTable>;
    };
  };
  /** Read what a table is */
  "table.get": {
    params: {
      /** Its name, or an index's. */
      "table": string;
    };
    result: {
      /** Columns with a declared type, which indexes may hold. Rows may have others, and other types. */
      "columns": Array<DefinedColumn>;
      /** When it was made, ms since 1970; absent = it shows timelines. */
      "created_at"?: number | null;
      /** The table whose rows it shows; absent = it is no index. */
      "index_of"?: string | null;
      /** Its secondary indexes, but for those that the caller has no right to. */
      "indexes": Array<TableIndex>;
      /** It shows timelines or their messages, and can only be read. */
      "is_virtual": boolean;
      /** The columns of its primary key, in their order; the first decides in which partition a row is. */
      "key": Array<KeyColumn>;
      /** What decides which versions live. */
      "options": TableOptions;
      /** Its stream; absent = it has none. */
      "stream"?: (TableStream | null);
      /** Its name. */
      "table": string;
      /** It takes local transactions. */
      "transactions": boolean;
    };
  };
  /** Read one row of a table */
  "row.get": {
    params: {
      /** The whole primary key. */
      "key": Cells;
      /** The table, or an index. */
      "table": string;
      /** Only these columns; none = all. */
      "columns"?: Array<string>;
      /** So many of the newest versions of each column; 1 if it is left out. */
      "versions"?: number;
    };
    result: {
      /** Absent = there is none. */
      "row"?: (Row | null);
    };
  };
  /** Read a range of a table's rows */
  "row.range": {
    params: {
      /** The table, or an index. */
      "table": string;
      /** From the highest key to the lowest. */
      "backward"?: boolean;
      /** Only these columns; none = all. */
      "columns"?: Array<string>;
      /** Only rows that it is true of. */
      "filter"?: (RowFilter | null);
      /** From this key on, in the direction that is asked for: `next` of the page before. Columns at its end may be left out. */
      "from"?: (Cells | null);
      /** Rows at most; clamped to the page limit. */
      "limit"?: number;
      /** Up to this key, without it. Columns at its end may be left out: then without all rows that have the others. */
      "to"?: (Cells | null);
      /** So many of the newest versions of each column; 1 if it is left out. */
      "versions"?: number;
      /** Only rows whose key begins with these values of its first columns; not of all of them. */
      "within"?: (Cells | null);
    };
    result: {
      /** What to pass as `from` for the next page; absent = that was all. */
      "next"?: (Cells | null);
      /** In the direction that was asked for. May be none although there are more. */
      "rows": Array<Row>;
    };
  };
  /** Put a row into a table */
  "row.put": {
    params: {
      /** Its columns, 1,024 at most. */
      "columns": Cells;
      /** The whole primary key. A column that the server numbers is left out, and the row is new. */
      "key": Cells;
      /** The table; not an index. */
      "table": string;
      /** Refuse unless the row is there, or is not. */
      "expect"?: (RowExpect | null);
    };
    result: {
      /** Its primary key, with what the server has numbered. */
      "key": Cells;
    };
  };
  /** Do a statement of SQL on tables */
  "sql.query": {
    params: {
      /** The statement, in MySQL's dialect; a `;` may end it. */
      "statement": string;
    };
    result: {
      /** How many rows of a table were written; absent = the statement writes none by its kind. */
      "affected"?: number | null;
      /** In the order of the statement; two may have one name. None = the statement has no rows by its kind. */
      "columns": Array<SqlColumn>;
      /** The last rows did not fit into the answer: ask for fewer at a time. */
      "cut"?: boolean;
      /** As many values in each as there are columns; `null` = NULL. */
      "rows": Array<Array<(Scalar | null)>>;
    };
  };
  /** List the partitions, what they do, and how far a change of them is */
  "partition.list": {
    params: {};
    result: {
      /** The change that is under way, or the last one since the server's start; absent = there was none. */
      "change"?: (PartitionChange | null);
      /** Those that are served, and those that have ended and whose logs are kept for readers of changes; parents before children. */
      "partitions": Array<Partition>;
    };
  };
  /** Begin to make two partitions of one */
  "partition.split": {
    params: {
      /** The partition's number. */
      "partition": number;
    };
    result: { [name: string]: unknown };
  };
  /** Begin to make one partition of two neighbours */
  "partition.merge": {
    params: {
      /** The number of one of them. */
      "partition": number;
      /** The number of the other. */
      "with": number;
    };
    result: { [name: string]: unknown };
  };
  /** Begin a backup, while all is served */
  "backup.start": {
    params: {
      /** The folder that it goes to, below `backup_directory`, or `backup_bucket` where that is set: 1 to 64 letters, digits, `.`, `_` and `-`, and no `.` at the beginning. Made if it is not there. */
      "target": string;
      /** Bytes a second at most, 0 = no bound; absent = as `backup_bytes_per_s` says. */
      "bytes_per_s"?: number | null;
      /** Whether all is copied, also what is the same in the backup before. */
      "full"?: boolean;
    };
    result: { [name: string]: unknown };
  };
  /** Read how far the backup is, or the last one */
  "backup.status": {
    params: {};
    result: {
      /** Absent = none was asked for since the server's start. */
      "backup"?: (Backup | null);
    };
  };
  /** End the backup that is being made */
  "backup.cancel": {
    params: {};
    result: {
      /** Whether one was being made. */
      "cancelled": boolean;
    };
  };
  /** Read how the server is, and what is wrong */
  "server.status": {
    params: {};
    result: {
      /** Whether credentials are asked for. */
      "auth": boolean;
      /** Its part in a cluster; absent = it is alone. */
      "cluster"?: (ServerCluster | null);
      /** Where it listens: an address and a port. */
      "listen": string;
      /** The machine's name. */
      "name": string;
      /** What is wrong or will be, the worst first. */
      "notices": Array<ServerNotice>;
      /** Whether writes can be committed. */
      "ready": boolean;
      /** Why they can't. */
      "reason"?: string | null;
      /** When it started, ms since 1970. */
      "started_at": number;
      /** What there is on the disk. */
      "storage": ServerStorage;
      /** The version of the server. */
      "version": string;
      /** Who asks. */
      "you": ServerCaller;
    };
  };
  /** Read the figures of the last hour */
  "server.history": {
    params: {
      /** Only steps after this time, ms since 1970; absent = all that are kept. */
      "since"?: number | null;
    };
    result: {
      /** How long `message.append` took. */
      "append_seconds": ServerBuckets;
      /** When the first value was, ms since 1970; 0 = there is none. */
      "from": number;
      /** Values of each figure; null = nobody looked then. A second: `appends` (messages), `deliveries`, `requests`, `refusals`, `reads` (of the store), `syncs`, `received_bytes`, `sent_bytes`, `cpu` (processors in use). At that time: `connections`, `subscriptions`, `in_flight` (requests), `queue` (writes that wait), `memory_bytes`, `used_bytes` and of these `dead_bytes`, `log_bytes`, `disk_free_bytes`, `feed_lag_s`, `relay_lag_s`. */
      "series": { [name: string]: Array<number | null> };
      /** Time from a value to the next one, ms. */
      "step_ms": number;
    };
  };
  /** Read the newest lines of the log, and perhaps wait for one */
  "log.tail": {
    params: {
      /** Only lines above this number: `next` of the answer before. Absent = from the oldest one that is kept. */
      "after"?: number | null;
      /** Only lines of this level and worse; absent = all. */
      "level"?: (LogLevel | null);
      /** Lines at most. */
      "limit"?: number;
      /** How long to wait for a line if there is none, ms; absent = not at all; clamped; not in a batch. */
      "wait_ms"?: number | null;
    };
    result: {
      /** Lines above `after`, of any level, that are not kept any more. */
      "dropped": number;
      /** In the order in which they were written. */
      "lines": Array<LogLine>;
      /** Where to go on: `after` of the next call. */
      "next": number;
    };
  };
  /** Say something in passing */
  "signal": {
    params: {
      /** What to say: names and values as in an entry, up to 4 KiB as compact JSON text. */
      "signal": Entry;
      /** The timeline's ID, 1 to 255 bytes. */
      "timeline": string;
    };
    result: { [name: string]: unknown };
  };
  /** Read who is online */
  "presence.get": {
    params: {
      /** The timelines' IDs, up to 100, none twice. */
      "timelines": Array<string>;
      /** Members who have a connection, whatever it subscribes to, in place of those who subscribe to the timeline. Devices are not named then, and of a timeline with more than 1,000 members the answer is `too_many`. */
      "anywhere"?: boolean;
      /** Users per timeline at most; clamped to the page limit. */
      "limit"?: number;
    };
    result: {
      /** Each timeline that was asked for. */
      "timelines": { [name: string]: Presence };
    };
  };
  /** Read this description */
  "rpc.discover": {
    params: {};
    result: {
      /** What they name, and the errors. */
      "components": { [name: string]: unknown };
      /** What this is. */
      "info": { [name: string]: unknown };
      /** Parameters, result and an example of each method. */
      "methods": unknown[];
      /** The version of OpenRPC. */
      "openrpc": string;
      /** Why connections are closed. */
      "x-close-codes": unknown[];
      /** Each push. */
      "x-pushes": unknown[];
    };
  };
}

/** Parameters of each push, by its name. */
export interface Pushes {
  "message": PushMessage;
  "message.changed": PushMessageChanged;
  "message.extended": {
    /** Its epoch. */
    "epoch": string;
    /** The first of these parts. */
    "from": number;
    /** The last of them: how many there are now. */
    "parts": number;
    /** The message's number. */
    "sequence": number;
    /** Their texts, one behind the other. */
    "text": string;
    /** The timeline's ID. */
    "timeline": string;
  };
  "reaction": PushReaction;
  "timeline.changed": PushTimelineChanged;
  "subscribed": PushSubscribed;
  "conversation.changed": {
    /** As they are now. */
    "conversations": Array<Conversation>;
    /** Timelines that are none of the user's conversations any more. */
    "removed": Array<string>;
  };
  "signal": {
    /** On which device; absent if its connection named none. */
    "device"?: string | null;
    /** What was said. */
    "signal": Entry;
    /** The timeline's ID. */
    "timeline": string;
    /** Who said it. */
    "user": string;
  };
  "presence": {
    /** Users who are online and were not at the push before. */
    "joined"?: Array<string> | null;
    /** Users who were online then and are not any more. */
    "left"?: Array<string> | null;
    /** How many users are online. */
    "online": number;
    /** The timeline's ID. */
    "timeline": string;
  };
  "member.changed": PushMemberChanged;
  "receipt": PushReceipt;
  "stream.changes": {
    /** In the order of their commits, each once. Perhaps none: then only the position moved. */
    "changes": Array<StreamChange>;
    /** There was more when this was read; `false` = the reader has caught up. */
    "more": boolean;
    /** What to commit, or to pass as `position`, to go on behind them. */
    "position": string;
    /** The stream's number on this connection. */
    "stream": number;
  };
  "stream.ended": {
    /** Behind what was pushed. */
    "position": string;
    /** Why. */
    "reason": StreamEnd;
    /** Whether to open it again from there. */
    "reopen": boolean;
    /** The stream's number on this connection. */
    "stream": number;
  };
  "subscription.ended": {
    /** The epoch that the subscription was of. */
    "epoch": string;
    /** Why. */
    "reason": Ended;
    /** Whether to subscribe again. */
    "resubscribe": boolean;
    /** The timeline's ID. */
    "timeline": string;
  };
  "session.expiring": {
    /** The connection is closed with 4500 after about this long, ms. */
    "in_ms": number;
  };
  "draining": {
    /** Come back after this long, ms; different for each connection. */
    "reconnect_in_ms": number;
  };
}
