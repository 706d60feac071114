"""The client: comes back as long as it may, and puts the parts together.

Owns: when to connect, and when not to any more. Promises: every call ends, at the latest when the client stops.
Must not: know what is in a timeline.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import uuid
from typing import Any, Callable

from websockets.exceptions import InvalidStatus, WebSocketException

from . import wire
from .answer import Answer
from .answers import Answers
from .calls import Calls
from .connection import Connection
from .errors import ConnectionLost, Lie, Refused, Stopped, StoreError, TidelineError
from .following import Following
from .outbox import Outbox, is_change
from .session import Session, Token
from .sqlite import SqliteStore
from .store import MemoryStore, Outgoing, Store
from .stream import Stream
from .subscription import Subscription
from .wire import Message

LOG = logging.getLogger("tideline")
#: Close codes after which a client does not come back as it is, beside 4500 to 4999.
FINAL = (1000, 1002, 1003, 1007, 1008, 1009, 1010)
UNAUTHENTICATED = 4500
#: Words at the end of methods that only read, so that they can be asked again.
READS = ("get", "list", "range", "sync", "count", "followers", "following", "hidden", "cursors", "ping", "discover")
#: These are asked by parts of the client, which count on their replies.
OWN = ("session.open", "session.renew", "subscribe", "unsubscribe", "stream.open", "stream.close")


class Client(Calls):
    """A connection that comes back, with a store. Use it with `async with`, or call `start` and `close`.

    `url`: `ws://…/v1/connect` or `wss://…`. `store`: a file's name, a `Store`, or nothing for one in memory.
    `user` is who the client is where the server asks nobody (or an API key acts for them), `token` a token or API key,
    or a function that returns the next one. `device` names this device; it is made up and kept where none is given.
    `on_refused` is told of a message or a change of the outbox that was refused after a restart, when nobody waits for it.
    `delay_s` bounds the random time between two attempts, `patience_s` the time that a ping waits. `options` go to
    `websockets.connect` (`ssl`, `additional_headers`, `proxy` …).
    """

    def __init__(
        self,
        url: str,
        *,
        store: Store | str | os.PathLike[str] | None = None,
        user: str | None = None,
        device: str | None = None,
        token: Token | None = None,
        on_refused: Callable[[Outgoing, Refused], None] | None = None,
        delay_s: tuple[float, float] = (0.5, 20.0),
        patience_s: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__(self.call)
        if store is None:
            store = MemoryStore()
        elif isinstance(store, (str, os.PathLike)):
            store = SqliteStore(store)
        #: What the client has: `store.messages(timeline)`.
        self.store: Store = store
        self._url = url
        self._options = options
        self._delay_s = delay_s
        self._patience_s = patience_s
        self._drain_s: float | None = None
        self._session = Session(user, device, token)
        self._given_device = device
        self._answers = Answers(store, on_refused or self._log_refused, self._delay)
        self._outbox = Outbox(store, on_refused or self._log_refused, self._delay, self._answers.opened)
        self._following = Following(store, self._device, self._delay)
        self._streams: set[Stream] = set()
        self._connection: Connection | None = None
        self._ready = asyncio.Event()
        self._stopped: Stopped | None = None
        self._has_stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._renewals: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Client:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # What the app does.

    def start(self) -> None:
        """Begins to connect; returns at once."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Ends the connection and closes the store. Unanswered messages stay in it."""
        self._stop(Stopped("the client was closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, *self._renewals, return_exceptions=True)
        self.store.close()

    async def stopped(self) -> Stopped:
        """Waits until the client does not come back, and says why."""
        await self._has_stopped.wait()
        assert self._stopped is not None
        return self._stopped

    async def subscribe(
        self,
        timeline: str,
        *,
        rewind: int | None = None,
        also: tuple[str, ...] = (),
        window_ms: int = 0,
        create: bool = True,
        listen: bool = True,
    ) -> Subscription:
        """Follows a timeline, from where the store is; else from the beginning, or the newest `rewind` messages.

        `also`: of `parts`, `signals`, `presence`, `members`, `receipts`. `window_ms`: `parts` that come within it come together.
        `listen=False`: only the store is to be kept, events do not wait for somebody who takes them. Returns when the server
        has answered, or when there is none to answer: then with what the store has. What comes waits in the subscription.
        Refused if it may not be read.
        """
        options: dict[str, object] = {} if create else {"create": False}
        if rewind is not None:
            options["rewind"] = rewind
        return await self._follow(timeline, options | _lanes(also, window_ms), listen)

    async def subscribe_conversations(
        self, *, rewind: int = 20, also: tuple[str, ...] = (), window_ms: int = 0, listen: bool = True
    ) -> Subscription:
        """Follows all conversations of the user, also those joined later, from where the store is.

        One that the store does not have begins with its newest `rewind` messages. An event `ended` is of one of them.
        """
        return await self._follow(None, {"rewind": rewind} | _lanes(also, window_ms), listen)

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more events come. The store keeps what it has; what was not taken of it comes with the next subscription."""
        self._following.unfollow(subscription)

    def append(
        self, timeline: str, entry: dict[str, Any], *, traceparent: str | None = None, **params: Any
    ) -> asyncio.Future[dict[str, Any]]:
        """Appends a message. Await it: `{sequence, timestamp, message_id, epoch, duplicate}` when the server has it.

        When this returns the message is in the outbox, and is sent until it is answered, whatever breaks, with the same
        `message_id`: to stop waiting takes nothing back. Refused if the server will never take it. `traceparent` is as in
        `call`; it is kept with the message.
        """
        return asyncio.shield(self._add({"timeline": timeline, "entry": entry} | params, traceparent))

    def open(
        self,
        timeline: str,
        entry: dict[str, Any] | None = None,
        *,
        message_id: str | None = None,
        idle_ms: int | None = None,
        traceparent: str | None = None,
        **params: Any,
    ) -> Answer:
        """A message whose `text` is written bit by bit: `async with client.open("room/1") as answer: …`

        With a `message_id` that is there already, writing goes on where an earlier run was, see `Answer.text`; so the block
        then begins when the server has answered. Without a part for `idle_ms` (60,000) the server ends it as `failed`.
        """
        if "deliver_at" in params:
            raise ValueError("open: a message that grows can't be scheduled")
        params |= {"timeline": timeline, "entry": entry or {}, "message_id": message_id or str(uuid.uuid4())}
        params["open"] = True if idle_ms is None else {"idle_ms": idle_ms}
        add = functools.partial(self._add, traceparent=checked(traceparent))
        return Answer(self._answers, add, self.call, params, message_id is not None)

    def _add(self, params: dict[str, Any], traceparent: str | None) -> asyncio.Future[dict[str, Any]]:
        if self._stopped is not None:
            raise self._stopped
        return self._outbox.add(params, checked(traceparent))

    def outbox(self) -> list[Outgoing]:
        """Messages that are not answered yet."""
        return self._outbox.messages()

    def changes(self) -> list[Outgoing]:
        """Edits, deletions, stops, reactions, pins and read positions that are not answered yet."""
        return self._outbox.changes()

    def messages(self, timeline: str, start: int = 1, limit: int | None = None) -> list[Message]:
        """Messages of the store."""
        return self.store.messages(timeline, start, limit)

    def open_stream(self, timelines: str | None = None, **options: Any) -> Stream:
        """The changes of all timelines whose IDs begin so (or with `table`, of its rows), for back ends.

        With `cursor` the server keeps the place: see `Stream.commit`. `start` is `"now"` or `"start"`.
        """
        return Stream(self, timelines, **options)

    def traced(self, traceparent: str) -> Calls:
        """The methods of the protocol by their names, as parts of a trace: `client.traced(parent).member.list("room/1")`."""
        return Calls(functools.partial(self.call, traceparent=checked(traceparent)))

    async def call(
        self, method: str, params: dict[str, Any] | None = None, *, traceparent: str | None = None
    ) -> Any:
        """Any other method. Waits for a connection. Reads are repeated if it breaks; else it is ConnectionLost.

        What comes to the same if it is done twice (see `changes`) is kept and repeated as messages are. `traceparent` says
        which step of a W3C trace the call is a part of; the server ignores one that is not well formed.
        """
        checked(traceparent)
        if method in OWN:
            raise ValueError(f"{method} is the client's own")
        if is_change(method, params or {}):
            if self._stopped is not None:
                raise self._stopped
            return await asyncio.shield(self._outbox.change(method, params or {}, traceparent))
        while True:
            connection = await self.connected()
            try:
                return await connection.call(method, params or {}, traceparent)
            except ConnectionLost:
                if self._stopped is not None:
                    raise self._stopped from None
                if method.rpartition(".")[2] not in READS:
                    raise

    async def connected(self) -> Connection:
        """Waits for a connection; Stopped if there will be none."""
        while True:
            if self._stopped is not None:
                raise self._stopped
            if self._connection is not None:
                return self._connection
            self._ready.clear()
            await self._ready.wait()

    async def _follow(self, timeline: str | None, options: dict[str, object], listen: bool) -> Subscription:
        if self._stopped is not None:
            raise self._stopped
        followed = self._following.follow(timeline, options, listen)
        try:
            await followed.ready
        except asyncio.CancelledError:
            self._following.unfollow(followed.subscription)
            raise
        if timeline is not None:
            followed.subscription.open = functools.partial(self.open, timeline)
        return followed.subscription

    # The loop.

    async def _run(self) -> None:
        try:
            while True:
                pause = await self._once()
                self._following.away()
                await asyncio.sleep(pause)
        except Stopped as stopped:
            self._stop(stopped)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            LOG.exception("stopped")
            end = Stopped(f"{type(error).__name__}: {error}")
            end.__cause__ = error
            self._stop(end)

    async def _once(self) -> float:
        """One connection. Returns how long to wait before the next, s; or raises Stopped."""
        try:
            await self._session.prepare()
        except TidelineError:
            raise
        except Exception as error:
            LOG.warning("no token: %s", error)
            return self._delay()
        try:
            connection = await Connection.open(self._url, self._pushed, **self._options)
        except InvalidStatus as error:
            return self._turned_away(error)
        except (OSError, TimeoutError, asyncio.TimeoutError, WebSocketException) as error:
            LOG.info("not connected: %s", error)
            return self._delay()
        self._drain_s = None
        try:
            connection.ask("session.open", self._session.params(), lambda answer: self._opened(connection, answer))
            code = await connection.run(self._patience_s)
        except Lie as error:
            LOG.warning("the server broke the protocol: %s", error)
            self._gone()
            await connection.close(1002)
            return self._delay()
        except Refused as error:
            self._gone()
            await connection.close()
            return self._not_let_in(error)
        finally:
            self._gone()
            await connection.close()
        return self._closed(code)

    def _gone(self) -> None:
        self._connection = None
        self._following.disconnected()
        self._outbox.disconnected()
        self._answers.disconnected()

    def _delay(self) -> float:
        return random.uniform(*self._delay_s)

    def _closed(self, code: int) -> float:
        LOG.info("the connection was closed with %d", code)
        if code == UNAUTHENTICATED:
            self._session.refused("the token was refused")
            return self._delay()
        if code in FINAL or 4500 < code < 5000:
            raise Stopped(f"the server closed the connection with {code}", code)
        return self._delay() if self._drain_s is None else self._drain_s

    def _not_let_in(self, error: Refused) -> float:
        if error.reason == "unauthenticated":
            self._session.refused(error.message)
        elif not error.retry:
            raise Stopped(f"session.open: {error}")
        return error.wait(self._delay())

    def _turned_away(self, error: InvalidStatus) -> float:
        status = error.response.status_code
        LOG.info("not connected: HTTP %d", status)
        if status == 401:
            self._session.refused("HTTP 401")
        elif 400 <= status < 500 and status not in (404, 408, 425, 429):
            raise Stopped(f"the server answered HTTP {status}")
        return self._delay()

    def _opened(self, connection: Connection, answer: dict[str, Any]) -> None:
        if "error" in answer:
            raise answer["error"]
        result = wire.record(answer["result"])
        connection.opened(wire.whole(result, "heartbeat_ms", 1) / 1000, wire.record(result.get("limits") or {}))
        self._session.opened(result)
        user = result.get("user")
        self._check_owner(user)
        self._connection = connection
        self._following.connected(connection.ask)
        self._outbox.connected(connection.ask, has_user=user is not None)
        self._answers.connected(connection.ask)
        for stream in list(self._streams):
            stream.connected(connection.ask)
        self._ready.set()

    def _check_owner(self, user: object) -> None:
        """A store is one user's: positions and unanswered messages are theirs."""
        name = user if isinstance(user, str) else ""
        owner = self.store.note("user")
        if owner is None:
            self.store.set_note("user", name)
        elif owner != name:
            raise StoreError(f"the store is that of {owner!r}, and the server knows the client as {name!r}")

    def _pushed(self, method: str, params: dict[str, Any]) -> None:
        if method == "draining":
            self._drain_s = wire.whole(params, "reconnect_in_ms") / 1000
        elif method == "session.expiring":
            if self._connection is not None:
                task = asyncio.ensure_future(self._session.renew(self._connection))
                self._renewals.add(task)
                task.add_done_callback(self._renewals.discard)
        elif method in ("stream.changes", "stream.ended"):
            for stream in list(self._streams):
                stream.pushed(method, params)
        else:
            self._following.pushed(method, params)

    def _stop(self, stopped: Stopped) -> None:
        if self._stopped is not None:
            return
        self._stopped = stopped
        self._following.stop(stopped)
        self._outbox.stop(stopped)
        self._answers.stop(stopped)
        for stream in list(self._streams):
            stream.stop(stopped)
        self._has_stopped.set()
        self._ready.set()

    def _device(self) -> str:
        if self._given_device is not None:
            return self._given_device
        known = self.store.note("device")
        if known is None:
            known = str(uuid.uuid4())
            self.store.set_note("device", known)
        return known

    @staticmethod
    def _log_refused(outgoing: Outgoing, error: Refused) -> None:
        LOG.error("%s of %s was refused: %s", outgoing.method, outgoing.timeline, error)


def _lanes(also: tuple[str, ...], window_ms: int) -> dict[str, object]:
    """What a subscribe asks for by `with`."""
    return ({"with": list(also)} if also else {}) | ({"window_ms": window_ms} if window_ms else {})


def checked(traceparent: str | None) -> str | None:
    """TypeError, before anything was kept, for what is no text."""
    if traceparent is not None and not isinstance(traceparent, str):
        raise TypeError(f"traceparent: a str, not {type(traceparent).__name__}")
    return traceparent
