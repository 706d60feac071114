"""Every method of the protocol, by its name. Made by make_calls.py from schemas/openrpc.json: do not edit.

docs/API.md says what each does. What is None is not sent.
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, List, Literal

from .shapes import (AttributesPatch, Backup, BackupCancelResult, BackupStatusResult, BatchMessage, Conversation, ConversationClearResult, ConversationCountResult, ConversationDirectResult, ConversationFilter, ConversationGetResult, ConversationHideResult, ConversationListResult, ConversationSyncResult, ConversationUpdateResult, Edit, FeedFollowResult, FeedFollowersResult, FeedFollowingResult, FeedRangeResult, FeedUnfollowResult, Grant, Key, KeyCreateResult, KeyListResult, KeyRevokeResult, LogTailResult, LongPosition, Member, MemberAddResult, MemberGetResult, MemberListResult, MemberRemoveResult, MemberUpdateResult, Message, MessageAppendBatchResult, MessageDeleteResult, MessageExtendResult, MessageFinishResult, MessageGetResult, MessageHiddenResult, MessageHideResult, MessageRangeResult, MessageRecallResult, MessageSearchResult, MessageStopResult, MessageUpdateResult, NewMember, Partition, PartitionListResult, PinAddResult, PinListResult, PinRemoveResult, PingResult, Place, PositionListResult, PositionRemoveResult, PositionSetResult, PresenceGetResult, Reaction, ReactionAddResult, ReactionListResult, ReactionRemoveResult, ReadPosition, ReadSetResult, Receipt, ReceiptListResult, Row, RowFilter, RowGetResult, RowPutResult, RowRangeResult, RpcDiscoverResult, ScheduleListResult, SearchCondition, ServerHistoryResult, ServerStatusResult, Session, SessionCloseResult, SessionGetResult, SessionListResult, SessionRevokeResult, SessionTicketResult, Settings, SettingsPatch, SqlQueryResult, StreamCommitResult, StreamCursor, StreamCursorsResult, StreamForgetResult, SyncResult, TableGetResult, TableListResult, TimelineConfigureResult, TimelineCreateResult, TimelineDeleteResult, TimelineGetResult, TimelineListResult, TimelinePrefixesResult, TimelineReader, TimelineReadersResult, TimelineSearchResult, TimelineTrimResult, TimelineUpdateResult, Webhook, WebhookDeadResult, WebhookListResult)

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


class Space:
    def __init__(self, call: Call) -> None:
        self._call = call


class SessionCalls(Space):
    """`session.…`."""

    async def ticket(self) -> SessionTicketResult:
        """Get what stands for the credential in the address of `/v1/events`, once."""
        return await self._call("session.ticket", _given({}))

    async def list(self, *, after: str | None = None, limit: int | None = None, order: Literal['opened'] | Literal['lag'] | Literal['subscriptions'] | Literal['in_flight'] | None = None, user: str | None = None) -> SessionListResult:
        """List sessions."""
        return await self._call("session.list", _given({"after": after, "limit": limit, "order": order, "user": user}))

    async def get(self, session: str, *, after: str | None = None, limit: int | None = None) -> SessionGetResult:
        """Read one session, and how far it is in its timelines."""
        return await self._call("session.get", _given({"session": session, "after": after, "limit": limit}))

    async def close(self, session: str) -> SessionCloseResult:
        """Close a session."""
        return await self._call("session.close", _given({"session": session}))

    async def revoke(self, user: str, *, issued_before: int | None = None) -> SessionRevokeResult:
        """Take a user's tokens back."""
        return await self._call("session.revoke", _given({"user": user, "issued_before": issued_before}))


class KeyCalls(Space):
    """`key.…`."""

    async def create(self, name: str, rights: List[Grant], *, act_as: List[str] | None = None, certificate: str | None = None, signing: bool | None = None) -> KeyCreateResult:
        """Make an API key."""
        return await self._call("key.create", _given({"name": name, "rights": rights, "act_as": act_as, "certificate": certificate, "signing": signing}))

    async def list(self) -> KeyListResult:
        """List the API keys."""
        return await self._call("key.list", _given({}))

    async def revoke(self, id: str) -> KeyRevokeResult:
        """Take an API key back."""
        return await self._call("key.revoke", _given({"id": id}))


class TimelineCalls(Space):
    """`timeline.…`."""

    async def create(self, timeline: str, *, epoch: str | None = None, members: List[NewMember] | None = None, meta: dict[str, Any] | None = None, settings: SettingsPatch | None = None) -> TimelineCreateResult:
        """Make a timeline, or find it."""
        return await self._call("timeline.create", _given({"timeline": timeline, "epoch": epoch, "members": members, "meta": meta, "settings": settings}))

    async def get(self, timeline: str, *, epoch: str | None = None) -> TimelineGetResult:
        """Read what is known of a timeline."""
        return await self._call("timeline.get", _given({"timeline": timeline, "epoch": epoch}))

    async def update(self, timeline: str, meta: dict[str, Any], *, epoch: str | None = None, expect_version: int | None = None) -> TimelineUpdateResult:
        """Change the meta."""
        return await self._call("timeline.update", _given({"timeline": timeline, "meta": meta, "epoch": epoch, "expect_version": expect_version}))

    async def delete(self, timeline: str, *, epoch: str | None = None) -> TimelineDeleteResult:
        """Delete a timeline."""
        return await self._call("timeline.delete", _given({"timeline": timeline, "epoch": epoch}))

    async def trim(self, timeline: str, before: int, *, epoch: str | None = None) -> TimelineTrimResult:
        """Drop the oldest messages."""
        return await self._call("timeline.trim", _given({"timeline": timeline, "before": before, "epoch": epoch}))

    async def list(self, *, after: str | None = None, limit: int | None = None, prefix: str | None = None) -> TimelineListResult:
        """List timelines by ID."""
        return await self._call("timeline.list", _given({"after": after, "limit": limit, "prefix": prefix}))

    async def prefixes(self, *, after: str | None = None, delimiter: str | None = None, limit: int | None = None, prefix: str | None = None) -> TimelinePrefixesResult:
        """List one level of the IDs of timelines."""
        return await self._call("timeline.prefixes", _given({"after": after, "delimiter": delimiter, "limit": limit, "prefix": prefix}))

    async def readers(self, timeline: str, *, limit: int | None = None) -> TimelineReadersResult:
        """Read who follows a timeline now, and how far behind."""
        return await self._call("timeline.readers", _given({"timeline": timeline, "limit": limit}))

    async def configure(self, timeline: str, settings: SettingsPatch, *, epoch: str | None = None, expect_version: int | None = None) -> TimelineConfigureResult:
        """Change the settings."""
        return await self._call("timeline.configure", _given({"timeline": timeline, "settings": settings, "epoch": epoch, "expect_version": expect_version}))

    async def search(self, *, after: str | None = None, limit: int | None = None, prefix: str | None = None, query: str | None = None, where: List[SearchCondition] | None = None) -> TimelineSearchResult:
        """Find timelines by the words of their metas."""
        return await self._call("timeline.search", _given({"after": after, "limit": limit, "prefix": prefix, "query": query, "where": where}))


class MemberCalls(Space):
    """`member.…`."""

    async def add(self, timeline: str, members: List[NewMember], *, announce: dict[str, Any] | None = None, epoch: str | None = None, history: int | Literal['all'] | Literal['none'] | None = None) -> MemberAddResult:
        """Add members, all or none."""
        return await self._call("member.add", _given({"timeline": timeline, "members": members, "announce": announce, "epoch": epoch, "history": history}))

    async def update(self, timeline: str, user: str, *, attributes: AttributesPatch | None = None, epoch: str | None = None, expect_version: int | None = None, role: str | None = None) -> MemberUpdateResult:
        """Change a member's role and attributes."""
        return await self._call("member.update", _given({"timeline": timeline, "user": user, "attributes": attributes, "epoch": epoch, "expect_version": expect_version, "role": role}))

    async def remove(self, timeline: str, users: List[str], *, announce: dict[str, Any] | None = None, epoch: str | None = None) -> MemberRemoveResult:
        """Remove members, or leave."""
        return await self._call("member.remove", _given({"timeline": timeline, "users": users, "announce": announce, "epoch": epoch}))

    async def get(self, timeline: str, user: str, *, epoch: str | None = None) -> MemberGetResult:
        """Read one member."""
        return await self._call("member.get", _given({"timeline": timeline, "user": user, "epoch": epoch}))

    async def list(self, timeline: str, *, after: str | None = None, epoch: str | None = None, limit: int | None = None, role: str | None = None, since: int | None = None) -> MemberListResult:
        """Read the members, or what changed among them."""
        return await self._call("member.list", _given({"timeline": timeline, "after": after, "epoch": epoch, "limit": limit, "role": role, "since": since}))


class MessageCalls(Space):
    """`message.…`."""

    async def append_batch(self, timeline: str, messages: List[BatchMessage], *, create: bool | None = None, epoch: str | None = None, expect_head: int | None = None) -> MessageAppendBatchResult:
        """Append messages, all or none."""
        return await self._call("message.append_batch", _given({"timeline": timeline, "messages": messages, "create": create, "epoch": epoch, "expect_head": expect_head}))

    async def get(self, timeline: str, sequence: int, *, epoch: str | None = None) -> MessageGetResult:
        """Read one message."""
        return await self._call("message.get", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch}))

    async def range(self, timeline: str, *, columns: List[str] | None = None, direction: Literal['forward'] | Literal['backward'] | None = None, epoch: str | None = None, from_: int | None = None, limit: int | None = None, to: int | None = None) -> MessageRangeResult:
        """Read a page of messages."""
        return await self._call("message.range", _given({"timeline": timeline, "columns": columns, "direction": direction, "epoch": epoch, "from": from_, "limit": limit, "to": to}))

    async def update(self, timeline: str, sequence: int, *, epoch: str | None = None, expect_change: int | None = None, remove: List[str] | None = None, set: dict[str, Any] | None = None) -> MessageUpdateResult:
        """Edit a message."""
        return await self._call("message.update", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch, "expect_change": expect_change, "remove": remove, "set": set}))

    async def delete(self, timeline: str, sequence: int, *, epoch: str | None = None) -> MessageDeleteResult:
        """Make a message a tombstone."""
        return await self._call("message.delete", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch}))

    async def recall(self, timeline: str, sequence: int, *, epoch: str | None = None, reason: str | None = None) -> MessageRecallResult:
        """Take a message back, and say so in its place."""
        return await self._call("message.recall", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch, "reason": reason}))

    async def extend(self, timeline: str, part: int, sequence: int, text: str, *, epoch: str | None = None) -> MessageExtendResult:
        """Extend an open message by a part."""
        return await self._call("message.extend", _given({"timeline": timeline, "part": part, "sequence": sequence, "text": text, "epoch": epoch}))

    async def finish(self, timeline: str, parts: int, sequence: int, *, epoch: str | None = None, outcome: Literal['done'] | Literal['cancelled'] | Literal['failed'] | None = None, remove: List[str] | None = None, set: dict[str, Any] | None = None) -> MessageFinishResult:
        """Close an open message."""
        return await self._call("message.finish", _given({"timeline": timeline, "parts": parts, "sequence": sequence, "epoch": epoch, "outcome": outcome, "remove": remove, "set": set}))

    async def stop(self, timeline: str, sequence: int, *, epoch: str | None = None, reason: str | None = None) -> MessageStopResult:
        """Stop an open message that somebody else writes."""
        return await self._call("message.stop", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch, "reason": reason}))

    async def search(self, *, after: str | None = None, from_: int | None = None, limit: int | None = None, order: Literal['newest'] | Literal['best'] | None = None, prefix: str | None = None, query: str | None = None, sender: str | None = None, timelines: List[str] | None = None, to: int | None = None, where: List[SearchCondition] | None = None) -> MessageSearchResult:
        """Find messages by their words."""
        return await self._call("message.search", _given({"after": after, "from": from_, "limit": limit, "order": order, "prefix": prefix, "query": query, "sender": sender, "timelines": timelines, "to": to, "where": where}))

    async def hide(self, timeline: str, sequences: List[int], *, epoch: str | None = None) -> MessageHideResult:
        """Hide messages from oneself."""
        return await self._call("message.hide", _given({"timeline": timeline, "sequences": sequences, "epoch": epoch}))

    async def hidden(self, timeline: str, *, after: int | None = None, epoch: str | None = None, limit: int | None = None) -> MessageHiddenResult:
        """Read what one has hidden."""
        return await self._call("message.hidden", _given({"timeline": timeline, "after": after, "epoch": epoch, "limit": limit}))


class ReactionCalls(Space):
    """`reaction.…`."""

    async def add(self, timeline: str, reaction: str, sequence: int, *, epoch: str | None = None) -> ReactionAddResult:
        """React to a message."""
        return await self._call("reaction.add", _given({"timeline": timeline, "reaction": reaction, "sequence": sequence, "epoch": epoch}))

    async def remove(self, timeline: str, reaction: str, sequence: int, *, epoch: str | None = None) -> ReactionRemoveResult:
        """Take a reaction back."""
        return await self._call("reaction.remove", _given({"timeline": timeline, "reaction": reaction, "sequence": sequence, "epoch": epoch}))

    async def list(self, timeline: str, sequence: int, *, after: str | None = None, epoch: str | None = None, limit: int | None = None, reaction: str | None = None) -> ReactionListResult:
        """Read who has reacted to a message."""
        return await self._call("reaction.list", _given({"timeline": timeline, "sequence": sequence, "after": after, "epoch": epoch, "limit": limit, "reaction": reaction}))


class PinCalls(Space):
    """`pin.…`."""

    async def add(self, timeline: str, sequence: int, *, epoch: str | None = None) -> PinAddResult:
        """Pin a message for all."""
        return await self._call("pin.add", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch}))

    async def remove(self, timeline: str, sequence: int, *, epoch: str | None = None) -> PinRemoveResult:
        """Take the pin of a message away."""
        return await self._call("pin.remove", _given({"timeline": timeline, "sequence": sequence, "epoch": epoch}))

    async def list(self, timeline: str, *, after: int | None = None, epoch: str | None = None, limit: int | None = None) -> PinListResult:
        """Read the pinned messages."""
        return await self._call("pin.list", _given({"timeline": timeline, "after": after, "epoch": epoch, "limit": limit}))


class ScheduleCalls(Space):
    """`schedule.…`."""

    async def list(self, timeline: str, *, after: str | None = None, epoch: str | None = None, limit: int | None = None) -> ScheduleListResult:
        """List the messages that one has scheduled."""
        return await self._call("schedule.list", _given({"timeline": timeline, "after": after, "epoch": epoch, "limit": limit}))

    async def cancel(self, timeline: str, scheduled: str, *, epoch: str | None = None) -> dict[str, Any]:
        """Take back a scheduled message."""
        return await self._call("schedule.cancel", _given({"timeline": timeline, "scheduled": scheduled, "epoch": epoch}))


class ConversationCalls(Space):
    """`conversation.…`."""

    async def clear(self, timeline: str, *, before: int | None = None, epoch: str | None = None) -> ConversationClearResult:
        """Clear a conversation for oneself."""
        return await self._call("conversation.clear", _given({"timeline": timeline, "before": before, "epoch": epoch}))

    async def list(self, *, after: str | None = None, columns: List[str] | None = None, filter: ConversationFilter | None = None, limit: int | None = None) -> ConversationListResult:
        """List one's conversations."""
        return await self._call("conversation.list", _given({"after": after, "columns": columns, "filter": filter, "limit": limit}))

    async def sync(self, *, columns: List[str] | None = None, cursor: str | None = None, limit: int | None = None, wait_ms: int | None = None) -> ConversationSyncResult:
        """Read which conversations have changed."""
        return await self._call("conversation.sync", _given({"columns": columns, "cursor": cursor, "limit": limit, "wait_ms": wait_ms}))

    async def count(self, *, filter: ConversationFilter | None = None) -> ConversationCountResult:
        """Count conversations and what is unread."""
        return await self._call("conversation.count", _given({"filter": filter}))

    async def get(self, timeline: str) -> ConversationGetResult:
        """Read one conversation."""
        return await self._call("conversation.get", _given({"timeline": timeline}))

    async def direct(self, user: str) -> ConversationDirectResult:
        """Make the conversation with one user, or find it."""
        return await self._call("conversation.direct", _given({"user": user}))

    async def update(self, timeline: str, *, remove: List[str] | None = None, set: dict[str, Any] | None = None) -> ConversationUpdateResult:
        """Change one's own attributes of a conversation."""
        return await self._call("conversation.update", _given({"timeline": timeline, "remove": remove, "set": set}))

    async def hide(self, timeline: str) -> ConversationHideResult:
        """Take a conversation off one's list until a message comes."""
        return await self._call("conversation.hide", _given({"timeline": timeline}))


class ReadCalls(Space):
    """`read.…`."""

    async def set(self, *, timeline: str | None = None, epoch: str | None = None, force: bool | None = None, positions: dict[str, ReadPosition] | None = None, read: int | None = None, received: int | None = None) -> ReadSetResult:
        """Say how far one has read."""
        return await self._call("read.set", _given({"timeline": timeline, "epoch": epoch, "force": force, "positions": positions, "read": read, "received": received}))


class ReceiptCalls(Space):
    """`receipt.…`."""

    async def list(self, timeline: str, sequence: int, *, after: str | None = None, epoch: str | None = None, limit: int | None = None) -> ReceiptListResult:
        """Read who got a message."""
        return await self._call("receipt.list", _given({"timeline": timeline, "sequence": sequence, "after": after, "epoch": epoch, "limit": limit}))


class PositionCalls(Space):
    """`position.…`."""

    async def set(self, device: str, positions: dict[str, Place], *, force: bool | None = None) -> PositionSetResult:
        """Store how far a device is."""
        return await self._call("position.set", _given({"device": device, "positions": positions, "force": force}))

    async def list(self, *, after: str | None = None, device: str | None = None) -> PositionListResult:
        """Read a device's positions, or list the devices."""
        return await self._call("position.list", _given({"after": after, "device": device}))

    async def remove(self, device: str) -> PositionRemoveResult:
        """Forget a device."""
        return await self._call("position.remove", _given({"device": device}))


class FeedCalls(Space):
    """`feed.…`."""

    async def follow(self, timeline: str, *, copy: int | None = None, epoch: str | None = None) -> FeedFollowResult:
        """Bring a timeline into one's feed."""
        return await self._call("feed.follow", _given({"timeline": timeline, "copy": copy, "epoch": epoch}))

    async def unfollow(self, timeline: str) -> FeedUnfollowResult:
        """Take a timeline out of one's feed."""
        return await self._call("feed.unfollow", _given({"timeline": timeline}))

    async def following(self, *, after: str | None = None, limit: int | None = None) -> FeedFollowingResult:
        """List the timelines that one follows."""
        return await self._call("feed.following", _given({"after": after, "limit": limit}))

    async def followers(self, timeline: str, *, after: str | None = None, epoch: str | None = None, limit: int | None = None) -> FeedFollowersResult:
        """List who follows a timeline."""
        return await self._call("feed.followers", _given({"timeline": timeline, "after": after, "epoch": epoch, "limit": limit}))

    async def range(self, *, before: str | None = None, limit: int | None = None) -> FeedRangeResult:
        """Read one's feed, newest first."""
        return await self._call("feed.range", _given({"before": before, "limit": limit}))


class StreamCalls(Space):
    """`stream.…`."""

    async def commit(self, cursor: str, position: str, *, force: bool | None = None) -> StreamCommitResult:
        """Store how far a reader of changes is, under a name."""
        return await self._call("stream.commit", _given({"cursor": cursor, "position": position, "force": force}))

    async def cursors(self, *, after: str | None = None, limit: int | None = None) -> StreamCursorsResult:
        """List the named cursors, and how far they are behind."""
        return await self._call("stream.cursors", _given({"after": after, "limit": limit}))

    async def forget(self, cursor: str) -> StreamForgetResult:
        """Forget a named cursor."""
        return await self._call("stream.forget", _given({"cursor": cursor}))


class WebhookCalls(Space):
    """`webhook.…`."""

    async def list(self) -> WebhookListResult:
        """List the webhooks, and how they are doing."""
        return await self._call("webhook.list", _given({}))

    async def dead(self, name: str, *, after: int | None = None, limit: int | None = None) -> WebhookDeadResult:
        """List changes that a webhook's receiver did not take."""
        return await self._call("webhook.dead", _given({"name": name, "after": after, "limit": limit}))

    async def replay(self, name: str, *, dead: int | None = None, position: str | None = None) -> dict[str, Any]:
        """Have a webhook post changes again."""
        return await self._call("webhook.replay", _given({"name": name, "dead": dead, "position": position}))


class TableCalls(Space):
    """`table.…`."""

    async def list(self) -> TableListResult:
        """List the tables that one has a right to."""
        return await self._call("table.list", _given({}))

    async def get(self, table: str) -> TableGetResult:
        """Read what a table is."""
        return await self._call("table.get", _given({"table": table}))


class RowCalls(Space):
    """`row.…`."""

    async def get(self, key: dict[str, Any], table: str, *, columns: List[str] | None = None, versions: int | None = None) -> RowGetResult:
        """Read one row of a table."""
        return await self._call("row.get", _given({"key": key, "table": table, "columns": columns, "versions": versions}))

    async def range(self, table: str, *, backward: bool | None = None, columns: List[str] | None = None, filter: RowFilter | None = None, from_: dict[str, Any] | None = None, limit: int | None = None, to: dict[str, Any] | None = None, versions: int | None = None, within: dict[str, Any] | None = None) -> RowRangeResult:
        """Read a range of a table's rows."""
        return await self._call("row.range", _given({"table": table, "backward": backward, "columns": columns, "filter": filter, "from": from_, "limit": limit, "to": to, "versions": versions, "within": within}))

    async def put(self, columns: dict[str, Any], key: dict[str, Any], table: str, *, expect: Literal['exist'] | Literal['absent'] | None = None) -> RowPutResult:
        """Put a row into a table."""
        return await self._call("row.put", _given({"columns": columns, "key": key, "table": table, "expect": expect}))


class SqlCalls(Space):
    """`sql.…`."""

    async def query(self, statement: str) -> SqlQueryResult:
        """Do a statement of SQL on tables."""
        return await self._call("sql.query", _given({"statement": statement}))


class PartitionCalls(Space):
    """`partition.…`."""

    async def list(self) -> PartitionListResult:
        """List the partitions, what they do, and how far a change of them is."""
        return await self._call("partition.list", _given({}))

    async def split(self, partition: int) -> dict[str, Any]:
        """Begin to make two partitions of one."""
        return await self._call("partition.split", _given({"partition": partition}))

    async def merge(self, partition: int, with_: int) -> dict[str, Any]:
        """Begin to make one partition of two neighbours."""
        return await self._call("partition.merge", _given({"partition": partition, "with": with_}))


class BackupCalls(Space):
    """`backup.…`."""

    async def start(self, target: str, *, bytes_per_s: int | None = None, full: bool | None = None) -> dict[str, Any]:
        """Begin a backup, while all is served."""
        return await self._call("backup.start", _given({"target": target, "bytes_per_s": bytes_per_s, "full": full}))

    async def status(self) -> BackupStatusResult:
        """Read how far the backup is, or the last one."""
        return await self._call("backup.status", _given({}))

    async def cancel(self) -> BackupCancelResult:
        """End the backup that is being made."""
        return await self._call("backup.cancel", _given({}))


class ServerCalls(Space):
    """`server.…`."""

    async def status(self) -> ServerStatusResult:
        """Read how the server is, and what is wrong."""
        return await self._call("server.status", _given({}))

    async def history(self, *, since: int | None = None) -> ServerHistoryResult:
        """Read the figures of the last hour."""
        return await self._call("server.history", _given({"since": since}))


class LogCalls(Space):
    """`log.…`."""

    async def tail(self, *, after: int | None = None, level: Literal['error'] | Literal['warn'] | Literal['info'] | Literal['debug'] | Literal['trace'] | None = None, limit: int | None = None, wait_ms: int | None = None) -> LogTailResult:
        """Read the newest lines of the log, and perhaps wait for one."""
        return await self._call("log.tail", _given({"after": after, "level": level, "limit": limit, "wait_ms": wait_ms}))


class PresenceCalls(Space):
    """`presence.…`."""

    async def get(self, timelines: List[str], *, anywhere: bool | None = None, limit: int | None = None) -> PresenceGetResult:
        """Read who is online."""
        return await self._call("presence.get", _given({"timelines": timelines, "anywhere": anywhere, "limit": limit}))


class RpcCalls(Space):
    """`rpc.…`."""

    async def discover(self) -> RpcDiscoverResult:
        """Read this description."""
        return await self._call("rpc.discover", _given({}))


class Calls(Space):
    """All of them."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.session = SessionCalls(call)
        self.key = KeyCalls(call)
        self.timeline = TimelineCalls(call)
        self.member = MemberCalls(call)
        self.message = MessageCalls(call)
        self.reaction = ReactionCalls(call)
        self.pin = PinCalls(call)
        self.schedule = ScheduleCalls(call)
        self.conversation = ConversationCalls(call)
        self.read = ReadCalls(call)
        self.receipt = ReceiptCalls(call)
        self.position = PositionCalls(call)
        self.feed = FeedCalls(call)
        self.stream = StreamCalls(call)
        self.webhook = WebhookCalls(call)
        self.table = TableCalls(call)
        self.row = RowCalls(call)
        self.sql = SqlCalls(call)
        self.partition = PartitionCalls(call)
        self.backup = BackupCalls(call)
        self.server = ServerCalls(call)
        self.log = LogCalls(call)
        self.presence = PresenceCalls(call)
        self.rpc = RpcCalls(call)

    async def ping(self) -> PingResult:
        """Ask for a sign of life."""
        return await self._call("ping", _given({}))

    async def sync(self, *, ack: dict[str, Place] | None = None, device: str | None = None, limit: int | None = None, positions: dict[str, int | LongPosition] | None = None, rewind: int | None = None, wait_ms: int | None = None) -> SyncResult:
        """Read what is new in many timelines."""
        return await self._call("sync", _given({"ack": ack, "device": device, "limit": limit, "positions": positions, "rewind": rewind, "wait_ms": wait_ms}))

    async def signal(self, timeline: str, signal: dict[str, Any]) -> dict[str, Any]:
        """Say something in passing."""
        return await self._call("signal", _given({"timeline": timeline, "signal": signal}))
