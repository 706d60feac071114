"""The checkpointer: which rows a checkpoint and the writes of its tasks are, and how they are read again.

Owns: what is in a row. Promises: a checkpoint is there whole or not at all, and so are the writes of one `put_writes`; what
was put is there when the call returns, once, also if it was repeated. Must not: talk to the server; `tables.py` does.

A checkpoint is one row. Beside it, in the second table, is one row for each of its tasks, with all writes of the task. What is
longer than `PART` is in rows of its own, which are put before the row that names them and deleted after it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP, BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple,
    get_checkpoint_id, get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from tablestore import ComparatorType, Condition, OTSClient, SingleColumnCondition

from .server import Columns, Key
from .tables import PAGE, Tables

#: Bytes of one column; the server takes 2 MB.
PART = 1 << 20
#: Rows of tasks come before the parts that they name.
TASK, VALUE = "task/", "value/"
NO_SUCH = "checkpoint {} of thread {} lacks part of {}: it was deleted or changed by something else than this checkpointer"


class TidelineSaver(BaseCheckpointSaver[int]):
    """Keeps checkpoints in the tables `table` and `table_values`, with the index `table_runs`. Any number of threads may use it.

    `setup` makes the tables. A call that fails for now is repeated for `patience_s` seconds.
    """

    def __init__(
        self, client: OTSClient, *, table: str = "langgraph", patience_s: float = 60.0, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._tables = Tables(client, table, patience_s)

    def setup(self, *, ttl_s: int | None = None) -> None:
        """Makes the tables if they are not there. With `ttl_s` a checkpoint goes so many seconds after it was put.

        Raises `ValueError` if a table of that name has another key, or `ttl_s` is below 1.
        """
        if ttl_s is not None and ttl_s < 1:
            raise ValueError(f"ttl_s is a number of seconds, 1 or more, not {ttl_s}; without it nothing expires that did not before")
        self._tables.make(ttl_s)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        thread, namespace, parent = place_of(config)
        key = (thread, namespace, checkpoint["id"])
        kept = get_checkpoint_metadata(config, metadata)
        columns = {"metadata": bytearray(self._dump(kept)), **self._body(key, self._dump(checkpoint))}
        if parent:
            columns["parent"] = parent
        if run := kept.get("run_id"):
            columns["run"] = str(run)
        self._tables.put(self._tables.checkpoints, key, columns)
        return config_of(key)

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        thread, namespace, checkpoint = place_of(config)
        if not checkpoint:
            raise ValueError("put_writes needs the checkpoint_id of the checkpoint that the task began at")
        key = (thread, namespace, checkpoint)
        added = [(WRITES_IDX_MAP.get(channel, at), channel, task_path, self._dump(value)) for at, (channel, value) in enumerate(writes)]
        while added:
            seen = self._tables.get(self._tables.values, (*key, TASK + task_id))
            known = {write[0]: write for write in self._writes(key, seen, None)} if seen else {}
            # Of an ordinary write the first counts; of an error, an interrupt or a resume the last.
            merged = known | {write[0]: write for write in added if write[0] < 0 or write[0] not in known}
            body = self._body(key, ormsgpack.packb(list(merged.values())))
            if seen and seen["digest"] == body["digest"]:
                return
            if self._tables.put(self._tables.values, (*key, TASK + task_id), body, as_it_was(seen)):
                return

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace, checkpoint = place_of(config)
        if checkpoint:
            return self._get((thread, namespace, checkpoint))
        newest = next(self._tables.scan(self._tables.checkpoints, (thread, namespace), only="thread", last=(), page=1), None)
        return self._get(newest[0]) if newest else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The newest first. Without a `checkpoint_ns` in the config the keys of all that match are read before the first is returned."""
        page = min(limit or 1, PAGE) if limit is not None and not filter else PAGE
        keys = self._matching(config, filter or {}, get_checkpoint_id(before) if before else None, page)
        if not config or "checkpoint_ns" not in config["configurable"]:
            keys = iter(sorted(keys, key=lambda key: key[2], reverse=True))
        while limit is None or limit > 0:
            if (key := next(keys, None)) is None:
                return
            if found := self._get(key):
                yield found
                limit = None if limit is None else limit - 1

    def delete_thread(self, thread_id: str) -> None:
        for table in (self._tables.checkpoints, self._tables.values):
            self._tables.delete(table, self._tables.keys(table, (str(thread_id),)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for run in run_ids:
            self._delete([key[1:] for key in self._tables.keys(self._tables.runs, (str(run),))])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        # What checkpoints name comes before them.
        for table in (self._tables.values, self._tables.checkpoints):
            for key, columns in self._tables.scan(table, (str(source_thread_id),)):
                self._tables.put(table, (str(target_thread_id), *key[1:]), columns)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keeps of each namespace the latest checkpoint, and those before it that channels with deltas are made of; or nothing (`delete`)."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy is keep_latest or delete, not {strategy!r}")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            keys = self._tables.keys(self._tables.checkpoints, (thread,))
            latest = {key[1]: key for key in keys}
            kept = {key for newest in latest.values() for key in self._needed(newest)}
            self._delete([key for key in keys if key not in kept])

    def _needed(self, key: Key) -> Iterator[Key]:
        """The checkpoint, and its ancestors back to where each of its channels has a whole value."""
        found = self._get(key)
        # Of these channels a checkpoint holds deltas; one without a version was never written.
        missing = set(found.metadata.get("counters_since_delta_snapshot", ())) & found.checkpoint["channel_versions"].keys() if found else set()
        while found is not None:
            yield key_of(found.config)
            missing -= found.checkpoint["channel_values"].keys()
            found = self.get_tuple(found.parent_config) if missing and found.parent_config else None

    def _matching(self, config: RunnableConfig | None, filter: dict[str, Any], before: str | None, page: int) -> Iterator[Key]:
        """The keys of the checkpoints that are asked for, in the order of namespaces, the newest first."""
        wanted = (config or {}).get("configurable", {})
        prefix = (str(wanted["thread_id"]),) if config else ()
        if config and "checkpoint_ns" in wanted:
            prefix = (*prefix, wanted["checkpoint_ns"])
        last = (*prefix, before) if before and len(prefix) == 2 else ()
        only = wanted.get("checkpoint_id")
        for key, columns in self._tables.scan(self._tables.checkpoints, prefix, only="metadata", last=last, page=page):
            if (before and key[2] >= before) or (only and key[2] != only):
                continue
            metadata = self._load(columns["metadata"]) if filter else {}
            if all(metadata.get(name) == value for name, value in filter.items()):
                yield key

    def _get(self, key: Key) -> CheckpointTuple | None:
        # If parts are missing because the checkpoint is being deleted, its row is gone at the second look.
        for is_last in (False, True):
            row = self._tables.get(self._tables.checkpoints, key)
            if row is None:
                return None
            try:
                return self._tuple(key, row)
            except LookupError:
                if is_last:
                    raise
        return None

    def _tuple(self, key: Key, row: Columns) -> CheckpointTuple:
        items = dict(self._items(key))
        writes = [
            ((path, item.removeprefix(TASK), at), channel, value)
            for item, columns in items.items()
            if item.startswith(TASK)
            for at, channel, path, value in self._writes(key, columns, items)
        ]
        writes.sort(key=lambda write: write[0])
        return CheckpointTuple(
            config=config_of(key),
            checkpoint=self._load(self._whole(key, row, items)),
            metadata=self._load(row["metadata"]),
            parent_config=config_of((*key[:2], row["parent"])) if "parent" in row else None,
            pending_writes=[(place[1], channel, self._load(value)) for place, channel, value in writes],
        )

    def _items(self, key: Key) -> Iterator[tuple[str, Columns]]:
        return ((found[3], columns) for found, columns in self._tables.scan(self._tables.values, key))

    def _writes(self, key: Key, columns: Columns, items: dict[str, Columns] | None) -> Any:
        """All writes of a task's row; `items` are the rows beside it, if they were read already."""
        if items is None and "parts" in columns:
            items = dict(self._items(key))
        return ormsgpack.unpackb(self._whole(key, columns, items or {}))

    def _body(self, key: Key, body: bytes) -> Columns:
        """Columns that hold it, or name its parts, which are then on disk."""
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        if len(body) <= PART:
            return {"body": bytearray(body), "digest": digest}
        parts = [body[at : at + PART] for at in range(0, len(body), PART)]
        for at, part in enumerate(parts):
            self._tables.put(self._tables.values, (*key, part_of(digest, at)), {"body": bytearray(part)})
        return {"parts": len(parts), "digest": digest}

    def _whole(self, key: Key, columns: Columns, items: dict[str, Columns]) -> bytes:
        if "body" in columns:
            return bytes(columns["body"])
        try:
            return b"".join(items[part_of(columns["digest"], at)]["body"] for at in range(columns["parts"]))
        except KeyError as missing:
            raise LookupError(NO_SUCH.format(key[2], key[0], missing)) from None

    def _delete(self, keys: Sequence[Key]) -> None:
        self._tables.delete(self._tables.checkpoints, keys)
        for key in keys:
            self._tables.delete(self._tables.values, self._tables.keys(self._tables.values, key))

    def _dump(self, value: Any) -> bytes:
        return ormsgpack.packb(self.serde.dumps_typed(value))

    def _load(self, packed: bytes) -> Any:
        return self.serde.loads_typed(tuple(ormsgpack.unpackb(bytes(packed))))

    # The SDK's calls block, so they run in threads.

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


def as_it_was(seen: Columns | None) -> Condition:
    """That the row is still the one that was seen."""
    if seen is None:
        return Condition("EXPECT_NOT_EXIST")
    return Condition("EXPECT_EXIST", SingleColumnCondition("digest", seen["digest"], ComparatorType.EQUAL, pass_if_missing=False))


def part_of(digest: str, at: int) -> str:
    return f"{VALUE}{digest}/{at:08}"


def place_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread, namespace and, if it is named, checkpoint."""
    named = config["configurable"]
    return str(named["thread_id"]), named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def key_of(config: RunnableConfig) -> Key:
    named = config["configurable"]
    return named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"]


def config_of(key: Key) -> RunnableConfig:
    return {"configurable": dict(zip(("thread_id", "checkpoint_ns", "checkpoint_id"), key, strict=True))}
