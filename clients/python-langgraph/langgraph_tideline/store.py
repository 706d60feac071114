"""The store: what agents remember over all threads, put by namespace and key, and found by values or by what it means.

Owns: the operations of LangGraph's stores, and what is embedded. Promises: what was put is there when the call returns, and every
search after it sees it; reads of a batch see nothing of its writes. Must not: talk to the server; `items.py` does.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

from langgraph.store.base import (
    BaseStore, GetOp, IndexConfig, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchItem, SearchOp,
    TTLConfig, ensure_embeddings, get_text_at_path,
)
from tablestore import OTSClient

from .filters import checked, fits, indexed, needed
from .items import FOUND, VECTORS_MAX, Items, now_us
from .server import Columns, Key

MINUTE_US = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Vectors = dict[str, Sequence[float]]


class TidelineStore(BaseStore):
    """Keeps items in the table `table`, with the search index `table_search`. Any number of threads may use it.

    `setup` makes both. With `index` items are found by what they mean. A call that fails for now is repeated for `patience_s` seconds.
    """

    supports_ttl = True

    def __init__(
        self, client: OTSClient, *, table: str = "langgraph_store", index: IndexConfig | None = None, ttl: TTLConfig | None = None,
        patience_s: float = 60.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.index_config, self.ttl_config = index, ttl
        self.embeddings = ensure_embeddings(index["embed"]) if index else None
        self._items = Items(client, table, index["dims"] if index else None, patience_s)
        self._swept = time.monotonic()

    def setup(self) -> None:
        """Makes the table and its index if they are not there.

        Raises `ValueError` if a table of that name has another key, or vectors of other dimensions.
        """
        self._items.make()

    def sweep_ttl(self) -> int:
        """Deletes what has expired, which nobody sees any more. Returns how many items that were."""
        swept = 0
        while (found := self._items.sweep()) > 0:
            swept += found
        return swept

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops, texts, queries = self._asked(ops)
        vectors = dict(zip(texts, self.embeddings.embed_documents(texts), strict=True)) if self.embeddings and texts else {}
        meant = {query: self.embeddings.embed_query(query) for query in queries} if self.embeddings else {}
        return self._run(ops, vectors, meant)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        # The SDK's calls block, so they run in a thread.
        ops, texts, queries = self._asked(ops)
        vectors = dict(zip(texts, await self.embeddings.aembed_documents(texts), strict=True)) if self.embeddings and texts else {}
        meant = {query: await self.embeddings.aembed_query(query) for query in queries} if self.embeddings else {}
        return await asyncio.to_thread(self._run, ops, vectors, meant)

    def _asked(self, ops: Iterable[Op]) -> tuple[list[Op], list[str], list[str]]:
        """The operations, all of which are well-formed, and the texts of items and of queries that have to be embedded."""
        ops = list(ops)
        texts: list[str] = []
        queries: list[str] = []
        for op in ops:
            check(op)
            if isinstance(op, PutOp):
                texts += self._texts(op)
            elif isinstance(op, SearchOp) and op.query:
                queries.append(op.query)
        return ops, list(dict.fromkeys(texts)), list(dict.fromkeys(queries))

    def _texts(self, op: PutOp) -> list[str]:
        """What of an item is embedded."""
        if op.value is None or op.index is False or self.index_config is None:
            return []
        paths = self.index_config.get("fields") or ["$"] if op.index is None else op.index
        texts = list(dict.fromkeys(text for path in paths for text in get_text_at_path(op.value, path)))
        if len(texts) > VECTORS_MAX:
            raise ValueError(f"of an item up to {VECTORS_MAX} texts are embedded, not {len(texts)}: {op.key} of {op.namespace}")
        return texts

    def _run(self, ops: list[Op], vectors: Vectors, meant: Vectors) -> list[Result]:
        got = self._items.get(key_of(op) for op in ops if isinstance(op, GetOp))
        read = {key_of(op) for op in ops if isinstance(op, GetOp) and op.refresh_ttl}
        used = {key: row for key, row in got.items() if key in read}
        results: list[Result] = []
        for op in ops:
            if isinstance(op, GetOp):
                results.append(Item(**shown(key_of(op), got[key_of(op)])) if key_of(op) in got else None)
            elif isinstance(op, SearchOp):
                found = self._search(op, meant)
                used |= {key: row for key, row, _ in found} if op.refresh_ttl else {}
                results.append([SearchItem(**shown(key, row), score=score) for key, row, score in found])
            elif isinstance(op, ListNamespacesOp):
                results.append(self._list(op))
            else:
                results.append(None)
        self._items.refresh(used.items())
        # Of two writes of a key the last counts.
        self._put({key_of(op): op for op in ops if isinstance(op, PutOp)}, vectors)
        return results

    def _search(self, op: SearchOp, meant: Vectors) -> list[tuple[Key, Columns, float | None]]:
        filter = checked(op.filter)
        vector = floats(meant[op.query], self._items.dims) if op.query in meant else None
        until = op.offset + op.limit
        found = self._items.search(tuple(op.namespace_prefix), needed(filter), vector, FOUND if filter else until)
        if filter:
            found = (one for one in found if fits(json.loads(one[1]["value"]), filter))
        return list(islice(found, op.offset, until))

    def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefix: tuple[str, ...] = ()
        for path in (condition.path for condition in conditions if condition.match_type == "prefix"):
            prefix = max(prefix, tuple(path[: path.index("*")] if "*" in path else path), key=len)
        all_of_them = (tuple(text.split(".")) for text in self._items.namespaces(prefix))
        found = {one[: op.max_depth] for one in all_of_them if all(suits(one, condition) for condition in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _put(self, ops: dict[Key, PutOp], vectors: Vectors) -> None:
        before = self._items.get((key for key, op in ops.items() if op.value is not None), ["created", "updated", "expires"])
        self._items.write([(key, None if op.value is None else self._row(op, before.get(key), vectors)) for key, op in ops.items()])
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        if ops and minutes and time.monotonic() > self._swept + 60 * minutes:
            # What is left of more than a page the next write takes.
            self._swept = time.monotonic() if self._items.sweep() < FOUND else self._swept

    def _row(self, op: PutOp, before: Columns | None, vectors: Vectors) -> Columns:
        now, value = now_us(), dict(op.value or {})
        row: Columns = {"value": json.dumps(value, ensure_ascii=False), "created": now, "updated": now, **indexed(value)}
        if before:
            row |= {"created": before["created"], "updated": max(now, before["updated"] + 1)}
        if op.ttl is not None:
            row |= {"ttl": round(op.ttl * MINUTE_US), "expires": now + round(op.ttl * MINUTE_US)}
        texts = self._texts(op)
        for at, text in enumerate(texts):
            numbers = floats(vectors[text], self._items.dims)
            row[f"vector_{at}"] = bytearray(struct.pack(f"<{len(numbers)}f", *numbers))
        return row | ({"vectors": len(texts)} if texts else {})


def check(op: Op) -> None:
    if isinstance(op, (GetOp, PutOp)):
        labels: Sequence[str] = op.namespace
        if not labels and isinstance(op, PutOp):
            raise InvalidNamespaceError("an item has a namespace of at least one label")
    elif isinstance(op, SearchOp):
        labels = op.namespace_prefix
        checked(op.filter)
    elif isinstance(op, ListNamespacesOp):
        labels = [label for condition in op.match_conditions or () for label in condition.path]
        for kind in {condition.match_type for condition in op.match_conditions or ()} - {"prefix", "suffix"}:
            raise ValueError(f"namespaces are matched by prefix or suffix, not {kind!r}")
    else:
        raise ValueError(f"an operation is a GetOp, PutOp, SearchOp or ListNamespacesOp, not {type(op).__name__}")
    for label in labels:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidNamespaceError(f"a label of a namespace is a text with at least one character and no dot, not {label!r}")


def suits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path, count = condition.path, len(condition.path)
    part = namespace[:count] if condition.match_type == "prefix" else namespace[max(len(namespace) - count, 0) :]
    return len(part) == count and all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def floats(vector: Sequence[float], dims: int | None) -> list[float]:
    numbers = [float(number) for number in vector]
    if len(numbers) != dims or not all(map(math.isfinite, numbers)):
        raise ValueError(f"embed returns vectors of {dims} finite numbers, as dims says, not one of {len(numbers)} like {numbers[:3]}")
    return numbers


def key_of(op: GetOp | PutOp) -> Key:
    return ".".join(op.namespace), op.key


def shown(key: Key, row: Columns) -> dict[str, Any]:
    times = {f"{name}_at": EPOCH + timedelta(microseconds=row[name]) for name in ("created", "updated")}
    return {"namespace": tuple(key[0].split(".")), "key": key[1], "value": json.loads(row["value"]), **times}
