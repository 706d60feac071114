"""A stream of changes, for back ends: opened again after each connect, where it was.

Owns: the position behind what came, and what the app has not taken. Promises: within one process each change comes
once; after a restart those come again that were not committed. No more than `BATCHES_MAX` batches wait: an app that is
slower makes the stream pause. Must not: connect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, AsyncIterator, Protocol

from . import wire
from .connection import Connection
from .errors import ConnectionLost, Refused, Stopped, TidelineError
from .outbox import Ask

BATCHES_MAX = 64


class Opener(Protocol):
    """What a stream needs of its client."""

    _streams: set[Stream]

    async def connected(self) -> Connection: ...

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any: ...

    def _delay(self) -> float: ...


@dataclass(frozen=True)
class Batch:
    """Changes in the order of their commits, and the position behind them."""

    changes: list[dict[str, Any]]
    position: str


class Stream(AsyncIterator[Batch]):
    """`async with client.open_stream("room/", cursor="search") as stream: async for batch in stream: …`"""

    def __init__(
        self,
        client: Opener,
        timelines: str | None = None,
        *,
        table: str | None = None,
        cursor: str | None = None,
        position: str | None = None,
        start: str | None = None,
    ) -> None:
        if (timelines is None) == (table is None):
            raise ValueError("either timelines or a table")
        self._client = client
        self._source: dict[str, Any] = {"timelines": timelines} if table is None else {"table": table}
        self._begin = {"cursor": cursor, "from": start}
        self._cursor = cursor
        #: Behind the last batch that came.
        self._position = position
        self._ask: Ask | None = None
        self._number: int | None = None
        self._batches: deque[Batch] = deque()
        self._came = asyncio.Event()
        self._end: TidelineError | None = None
        self._taken: str | None = None
        self._is_left = False

    async def __aenter__(self) -> Stream:
        self._client._streams.add(self)
        self._is_left = False
        try:
            connection = await self._client.connected()
        except BaseException:
            self._leave()
            raise
        if self._ask != connection.ask:
            self.connected(connection.ask)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    async def __anext__(self) -> Batch:
        while not self._batches:
            if self._end is not None:
                raise self._end
            if self._ask is not None and self._number is None:
                self._open(self._ask)
            self._came.clear()
            await self._came.wait()
        batch = self._batches.popleft()
        self._taken = batch.position
        return batch

    async def commit(self) -> None:
        """Has the server keep, under the cursor's name, that the app is done with all that it took."""
        if self._cursor is None:
            raise ValueError("a stream without a cursor: keep `position` yourself")
        while self._taken is not None:
            try:
                # Never back: to say it twice does no harm.
                await self._client.call("stream.commit", {"cursor": self._cursor, "position": self._taken})
                return
            except ConnectionLost:
                continue

    # What the client does.

    def connected(self, ask: Ask) -> None:
        self._ask, self._number = ask, None
        if self._end is None and not self._batches:
            self._open(ask)

    def pushed(self, method: str, params: dict[str, Any]) -> None:
        if wire.whole(params, "stream") != self._number:
            return
        if method == "stream.ended":
            reason = wire.text(params, "reason")
            self._number = None
            if not wire.flag(params, "reopen"):
                self.stop(Refused(409, "the stream has ended", {"reason": reason, "retry": False}))
            elif self._ask is not None:
                asyncio.get_running_loop().call_later(self._client._delay(), self._reopen, self._ask)
            return
        batch = Batch(wire.many(params, "changes", wire.record), wire.text(params, "position"))
        self._position = batch.position
        self._batches.append(batch)
        self._came.set()
        if len(self._batches) >= BATCHES_MAX:
            self._close()

    def stop(self, error: Stopped | Refused) -> None:
        self._end = self._end or error
        self._came.set()

    def _reopen(self, ask: Ask) -> None:
        if self._ask is ask and self._number is None:
            self._open(ask)

    def _leave(self) -> None:
        self._client._streams.discard(self)
        self._is_left = True
        self._close()

    def _open(self, ask: Ask) -> None:
        if self._is_left:
            return
        params = dict(self._source)
        if self._position is not None:
            params["position"] = self._position
        else:
            params |= {name: value for name, value in self._begin.items() if value is not None}
        # Taken until the reply has another: one that is being opened is not opened twice.
        self._number = 0

        def answered(answer: dict[str, Any]) -> None:
            if self._ask is not ask:
                return
            if "result" in answer:
                result = wire.record(answer["result"])
                self._number = wire.whole(result, "stream")
                if self._position is None:
                    self._position = wire.text(result, "position")
                if self._is_left:
                    self._close()
                return
            error = answer["error"]
            if error.reason == "unauthenticated":
                raise error
            self._number = None
            if error.retry:
                asyncio.get_running_loop().call_later(self._client._delay(), self._reopen, ask)
            else:
                self.stop(error)

        ask("stream.open", params, answered)

    def _close(self) -> None:
        if self._ask is not None and self._number:
            self._ask("stream.close", {"stream": self._number}, lambda _: None)
            self._number = None
