"""What is on its way: messages, and those changes that do no harm if they are made twice.

Owns: what is sent when, and who waits for its answer. Promises: it is in the store before it is sent, and leaves it only
with an answer of the server; a message keeps its ID for ever; all is sent in the order in which it was added, of the
changes of a timeline one at a time, and what the server can't take yet holds up what is behind it. Must not: connect.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections import deque
from typing import Any, Callable, Mapping, Protocol

from . import wire
from .errors import Refused, fail
from .store import Outgoing, Store

LOG = logging.getLogger("tideline")
#: Requests in flight at most; the server takes 256 of a connection.
IN_FLIGHT_MAX = 64
APPEND = "message.append"
CHANGES = (
    "message.update", "message.delete", "message.recall", "message.hide",
    "message.stop", "reaction.add", "reaction.remove", "pin.add", "pin.remove", "read.set",
)  # fmt: skip

Answered = Callable[["dict[str, Any]"], None]
Key = tuple[str, str]
#: Gets a message that was appended open, and its answer, before it leaves the store.
Opened = Callable[[Outgoing, "dict[str, Any] | Refused"], None]


class Ask(Protocol):
    """Sends a request; the callback gets its answer if one comes on this connection."""

    def __call__(
        self, method: str, params: dict[str, Any], answered: Answered, /, traceparent: str | None = None
    ) -> None: ...


def is_change(method: str, params: Mapping[str, Any]) -> bool:
    """Whether a call is kept and repeated: a change of one timeline that comes to the same if it is made twice."""
    is_plain = params.get("expect_change") is None and params.get("force") is not True
    return method in CHANGES and isinstance(params.get("timeline"), str) and is_plain


class Outbox:
    def __init__(
        self,
        store: Store,
        refused: Callable[[Outgoing, Refused], None],
        delay: Callable[[], float],
        opened: Opened = lambda message, answer: None,
    ) -> None:
        self._store = store
        self._opened = opened
        #: Is told of a refusal that nobody waits for.
        self._refused = refused
        self._delay = delay
        self._ask: Ask | None = None
        self._has_user = True
        self._waiting: dict[Key, asyncio.Future[Any]] = {}
        self._all: dict[Key, Outgoing] = {key_of(one): one for one in store.outbox() if one.method in (APPEND, *CHANGES)}
        self._queue: deque[Outgoing] = deque()
        self._in_flight: set[Key] = set()
        #: Timelines of which a change is in flight.
        self._changing: set[str] = set()
        #: Until when nothing is sent, because the server said so; the loop's time.
        self._paused_until = 0.0

    def add(self, params: dict[str, Any], traceparent: str | None = None) -> asyncio.Future[dict[str, Any]]:
        """Keeps a message and sends it as soon as there is a connection. What is returned gets the answer."""
        message_id = params.setdefault("message_id", str(uuid.uuid4()))
        # A copy of its own, and an error now if it can't be sent.
        params = wire.decode(wire.encode(params))
        outgoing = Outgoing(params["timeline"], message_id, params, traceparent=traceparent)
        key = key_of(outgoing)
        known = self._all.get(key)
        if known is not None and known.params != params:
            data = {"reason": "message_id_conflict", "retry": False}
            raise Refused(409, "another message with this ID is not answered yet", data)
        if known is None:
            return self._keep(outgoing)
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        return self._waiting[key]

    def change(
        self, method: str, params: Mapping[str, Any], traceparent: str | None = None
    ) -> asyncio.Future[Any]:
        """The same for a call. The change is one of the history that the store has."""
        kept: dict[str, Any] = wire.decode(wire.encode(params))
        place = self._store.place(kept["timeline"])
        if kept.get("epoch") is None and place is not None:
            kept["epoch"] = place.epoch
        outgoing = Outgoing(kept["timeline"], str(uuid.uuid4()), kept, method, traceparent)
        waiting = self._superseded(outgoing) if method == "read.set" else []
        future = self._keep(outgoing)
        for earlier in waiting:
            future.add_done_callback(functools.partial(settle, earlier))
        return future

    def messages(self) -> list[Outgoing]:
        return [one for one in self._store.outbox() if one.method == APPEND]

    def changes(self) -> list[Outgoing]:
        return [one for one in self._store.outbox() if one.method in CHANGES]

    def connected(self, ask: Ask, has_user: bool = True) -> None:
        """A new connection: all that is unanswered is sent once more, with the same IDs."""
        self._ask, self._has_user, self._paused_until = ask, has_user, 0.0
        self._in_flight.clear()
        self._changing.clear()
        self._queue = deque(self._all.values())
        self._pump()

    def disconnected(self) -> None:
        self._ask = None

    def stop(self, error: Exception) -> None:
        """Nobody is left waiting; what is unanswered stays in the store."""
        self._ask = None
        for future in self._waiting.values():
            fail(future, error)
        self._waiting.clear()

    def _keep(self, outgoing: Outgoing) -> asyncio.Future[Any]:
        self._store.add_outgoing(outgoing)
        key = key_of(outgoing)
        self._all[key] = outgoing
        self._queue.append(outgoing)
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._pump()
        return future

    def _superseded(self, later: Outgoing) -> list[asyncio.Future[Any]]:
        """Gives up the read positions that are not sent and that a later one covers. Returns their waiters."""

        def is_covered(one: Outgoing) -> bool:
            if one.method != "read.set" or one.timeline != later.timeline or key_of(one) in self._in_flight:
                return False
            mine, its = one.params, later.params
            is_same = mine.get("epoch") == its.get("epoch")
            return is_same and all((mine.get(name) or 0) <= (its.get(name) or 0) for name in ("read", "received"))

        given_up = [one for one in self._all.values() if is_covered(one)]
        if given_up:
            self._queue = deque(one for one in self._queue if one not in given_up)
        waiting = [self._forget(one) for one in given_up]
        return [future for future in waiting if future is not None]

    def _pump(self) -> None:
        while self._ask is not None and not self._paused_until and self._queue and len(self._in_flight) < IN_FLIGHT_MAX:
            outgoing = self._queue[0]
            if outgoing.method != APPEND:
                if outgoing.timeline in self._changing:
                    return
                self._changing.add(outgoing.timeline)
            self._send(self._queue.popleft(), self._ask)

    def _send(self, outgoing: Outgoing, ask: Ask) -> None:
        self._in_flight.add(key_of(outgoing))

        def answered(answer: dict[str, Any]) -> None:
            self._in_flight.discard(key_of(outgoing))
            if outgoing.method != APPEND:
                self._changing.discard(outgoing.timeline)
            if "error" in answer:
                self._failed(outgoing, ask, answer["error"])
            else:
                self._done(outgoing, answer["result"])
            self._pump()

        ask(outgoing.method, outgoing.params, answered, traceparent=outgoing.traceparent)

    def _done(self, outgoing: Outgoing, result: Any) -> None:
        if outgoing.method == APPEND and "scheduled" not in wire.record(result):
            wire.whole(result, "sequence", 1)
        if outgoing.params.get("open"):
            self._opened(outgoing, result)
        future = self._forget(outgoing)
        if future is not None and not future.done():
            future.set_result(result)

    def _failed(self, outgoing: Outgoing, ask: Ask, error: Refused) -> None:
        # A session without a user has no read positions and no reactions; that is no fault of its token.
        if error.reason == "unauthenticated" and (outgoing.method == APPEND or self._has_user):
            # Of the session, not of the message: it goes out again with the next token.
            raise error
        if error.retry:
            return self._pause(ask, error.wait(self._delay()))
        if outgoing.params.get("open"):
            self._opened(outgoing, error)
        future = self._forget(outgoing)
        if future is not None and not future.done():
            return future.set_exception(error)
        try:
            self._refused(outgoing, error)
        except Exception:
            LOG.exception("what is told of a refusal failed")

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

    def _forget(self, outgoing: Outgoing) -> asyncio.Future[Any] | None:
        key = key_of(outgoing)
        self._store.remove_outgoing(outgoing)
        self._all.pop(key, None)
        return self._waiting.pop(key, None)


def key_of(outgoing: Outgoing) -> Key:
    return outgoing.timeline, outgoing.message_id


def settle(earlier: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
    """What came of a call, for one that it has superseded."""
    if earlier.done() or done.cancelled():
        return
    error = done.exception()
    if error is None:
        earlier.set_result(done.result())
    else:
        fail(earlier, error)
