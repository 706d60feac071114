"""Messages on their way: kept before they are sent, repeated until they are answered.

Owns: which message is sent when, and who waits for its answer. Promises: a message is in the store before it is sent,
leaves it only with an answer of the server, and keeps its ID for ever; messages are sent in the order in which they
were added, and one that the server can't take yet holds up those behind it. Must not: connect.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import Any, Callable

from . import wire
from .errors import Refused
from .store import Outgoing, Store

#: Requests in flight at most; the server takes 256 of a connection.
IN_FLIGHT_MAX = 64

#: Sends a request; the callback gets its answer if one comes on this connection.
Ask = Callable[[str, "dict[str, Any]", Callable[["dict[str, Any]"], None]], None]


class Outbox:
    def __init__(self, store: Store, refused: Callable[[Outgoing, Refused], None], delay: Callable[[], float]) -> None:
        self._store = store
        #: Is told of a refusal that nobody waits for.
        self._refused = refused
        self._delay = delay
        self._ask: Ask | None = None
        self._waiting: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}
        self._all: dict[tuple[str, str], Outgoing] = {(one.timeline, one.message_id): one for one in store.outbox()}
        self._queue: deque[Outgoing] = deque()
        self._in_flight: set[tuple[str, str]] = set()
        #: Until when nothing is sent, because the server said so; the loop's time.
        self._paused_until = 0.0

    def add(self, params: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Keeps a message and sends it as soon as there is a connection. What is returned gets the answer."""
        message_id = params.setdefault("message_id", str(uuid.uuid4()))
        # A copy of its own, and an error now if it can't be sent.
        params = wire.decode(wire.encode(params))
        outgoing = Outgoing(params["timeline"], message_id, params)
        key = (outgoing.timeline, message_id)
        known = self._all.get(key)
        if known is not None and known.params != params:
            data = {"reason": "message_id_conflict", "retry": False}
            raise Refused(409, "another message with this ID is not answered yet", data)
        if known is None:
            self._store.add_outgoing(outgoing)
            self._all[key] = outgoing
            self._queue.append(outgoing)
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        self._pump()
        return self._waiting[key]

    def connected(self, ask: Ask) -> None:
        """A new connection: all that is unanswered is sent once more, with the same IDs."""
        self._ask, self._paused_until = ask, 0.0
        self._in_flight.clear()
        self._queue = deque(self._all.values())
        self._pump()

    def disconnected(self) -> None:
        self._ask = None

    def stop(self, error: Exception) -> None:
        """Nobody is left waiting; what is unanswered stays in the store."""
        self._ask = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # the one who waits gets it; nobody needs to
        self._waiting.clear()

    def _pump(self) -> None:
        while self._ask is not None and not self._paused_until and self._queue and len(self._in_flight) < IN_FLIGHT_MAX:
            self._send(self._queue.popleft(), self._ask)

    def _send(self, outgoing: Outgoing, ask: Ask) -> None:
        key = (outgoing.timeline, outgoing.message_id)
        self._in_flight.add(key)

        def answered(answer: dict[str, Any]) -> None:
            self._in_flight.discard(key)
            if "error" in answer:
                self._failed(outgoing, ask, answer["error"])
            else:
                self._done(outgoing, answer["result"])
            self._pump()

        ask("message.append", outgoing.params, answered)

    def _done(self, outgoing: Outgoing, result: Any) -> None:
        if "scheduled" not in wire.record(result):
            wire.whole(result, "sequence", 1)
        future = self._forget(outgoing)
        if future is not None and not future.done():
            future.set_result(result)

    def _failed(self, outgoing: Outgoing, ask: Ask, error: Refused) -> None:
        if error.reason == "unauthenticated":
            # Of the session, not of the message: it goes out again with the next token.
            raise error
        if not error.retry:
            future = self._forget(outgoing)
            if future is not None and not future.done():
                future.set_exception(error)
            else:
                self._refused(outgoing, error)
            return
        after = error.retry_after_ms
        self._pause(ask, self._delay() if after is None else after / 1000)

    def _pause(self, ask: Ask, seconds: float) -> None:
        """Nothing is sent for so long; then all that is not on its way, in order."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until <= self._paused_until:
            return
        self._paused_until = until

        def again() -> None:
            if self._ask is ask and self._paused_until == until:
                self._paused_until = 0.0
                self._queue = deque(one for key, one in self._all.items() if key not in self._in_flight)
                self._pump()

        loop.call_later(seconds, again)

    def _forget(self, outgoing: Outgoing) -> asyncio.Future[dict[str, Any]] | None:
        key = (outgoing.timeline, outgoing.message_id)
        self._store.remove_outgoing(outgoing)
        self._all.pop(key, None)
        return self._waiting.pop(key, None)


