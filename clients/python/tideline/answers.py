"""Messages that the app writes bit by bit: their parts, and their ends.

Owns: what was written and is not answered. Promises: it is in the store when `write` returns, and synced before it is sent;
one part of a message is on its way at a time, and what is written meanwhile is one part; a part that was sent never
changes, and is repeated until it is answered; of a message three requests wait at most. Must not: append, or connect.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from dataclasses import replace
from typing import Any, Callable

from . import wire
from .errors import Lie, Refused, TidelineError
from .outbox import Ask, Key
from .store import Outgoing, Store

LOG = logging.getLogger("tideline")
EXTEND, FINISH = "message.extend", "message.finish"
#: Characters that wait behind a part that is on its way; then `write` waits.
WAITING_MAX = 64 << 10


class Writing:
    """One message that is being written, by the app or by what an earlier run left."""

    def __init__(self, timeline: str, message_id: str) -> None:
        self.timeline = timeline
        self.message_id = message_id
        #: `sequence` and `epoch`, once the message is appended.
        self.place: dict[str, Any] | None = None
        #: Parts and the end, in order. Only the first is ever sent.
        self.rows: deque[Outgoing] = deque()
        #: The first may have been sent, so it stays as it is.
        self.is_sent = False
        #: It is on its way on this connection, or waits for its next try.
        self.is_asked = False
        #: The last part that was numbered, and the last that was answered.
        self.last = self.answered = 0
        #: The app is writing.
        self.is_held = False
        self.error: TidelineError | None = None
        #: In its newest form, once the end was answered.
        self.message: wire.Message | None = None
        #: Something was answered, or failed.
        self.moved = asyncio.Event()

    @property
    def joinable(self) -> Outgoing | None:
        """The part that takes more text, if one waits that was never sent."""
        if not self.rows or self.rows[-1].method != EXTEND or (self.is_sent and len(self.rows) == 1):
            return None
        return self.rows[-1]

    @property
    def is_full(self) -> bool:
        joinable = self.joinable
        return joinable is not None and len(joinable.params["text"]) >= WAITING_MAX

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until this is so, or it has failed."""
        while self.error is None and not holds():
            self.moved.clear()
            await self.moved.wait()


class Answers:
    def __init__(self, store: Store, refused: Callable[[Outgoing, Refused], None], delay: Callable[[], float]) -> None:
        self._store = store
        #: Is told of a refusal when the app does not write the message any more.
        self._refused = refused
        self._delay = delay
        self._ask: Ask | None = None
        self._writings: dict[Key, Writing] = {}
        for row in store.outbox():
            if row.method in (EXTEND, FINISH):
                self._load(row)

    # What the app does.

    def begin(self, timeline: str, message_id: str) -> Writing:
        writing = self._writings.setdefault((timeline, message_id), Writing(timeline, message_id))
        if writing.is_held:
            raise TidelineError(f"{message_id} of {timeline} is being written already")
        writing.is_held = True
        return writing

    def write(self, writing: Writing, text: str) -> None:
        """Keeps text, and sends it if nothing of the message is on its way."""
        joinable = writing.joinable
        if joinable is not None:
            row = replace(joinable, params=joinable.params | {"text": joinable.params["text"] + text})
            writing.rows[-1] = row
        else:
            writing.last += 1
            row = self._row(writing, EXTEND, {"part": writing.last, "text": text})
            writing.rows.append(row)
        if not self._pump(writing):
            self._store.add_outgoing(row, is_synced=False)

    def end(self, writing: Writing, params: dict[str, Any]) -> None:
        """Keeps the end. It is sent behind the last part."""
        row = self._row(writing, FINISH, {"parts": writing.last} | params)
        writing.rows.append(row)
        if not self._pump(writing):
            self._store.add_outgoing(row)

    def leave(self, writing: Writing) -> None:
        """The app does not write any more; what it has written goes out."""
        writing.is_held = False
        self._settle(writing)

    # What the client and the outbox do.

    def opened(self, message: Outgoing, answer: dict[str, Any] | Refused) -> None:
        """The message itself was answered, and is about to leave the store."""
        writing = self._writings.get((message.timeline, message.message_id))
        if writing is None:
            return
        if isinstance(answer, Refused):
            # One that is there already, whose parts wait, is not the one that was refused.
            if writing.place is None:
                self._give_up(writing, answer)
            return
        writing.place = {"sequence": wire.whole(answer, "sequence", 1), "epoch": wire.epoch(answer)}
        # From here on only these say of which message they are. One that says it already may be of another history.
        writing.rows = deque(replace(row, params=writing.place | row.params) for row in writing.rows)
        for row in writing.rows:
            self._store.add_outgoing(row)
        self._pump(writing)

    def connected(self, ask: Ask) -> None:
        """A new connection: of each message the first that is not answered is sent once more."""
        self._ask = ask
        for writing in list(self._writings.values()):
            writing.is_asked = False
            self._pump(writing)

    def disconnected(self) -> None:
        self._ask = None

    def stop(self, error: TidelineError) -> None:
        """What is not answered stays in the store."""
        self._ask = None
        for writing in self._writings.values():
            writing.error = writing.error or error
            writing.moved.set()

    # Rows on their way.

    def _load(self, row: Outgoing) -> None:
        key = row.timeline, row.params["message_id"]
        writing = self._writings.setdefault(key, Writing(*key))
        writing.rows.append(row)
        writing.is_sent = True
        if "sequence" in row.params:
            writing.place = {name: row.params[name] for name in ("sequence", "epoch")}
        writing.last = row.params["part"] if row.method == EXTEND else row.params["parts"]

    @staticmethod
    def _row(writing: Writing, method: str, params: dict[str, Any]) -> Outgoing:
        about = {"timeline": writing.timeline, "message_id": writing.message_id} | (writing.place or {})
        return Outgoing(writing.timeline, str(uuid.uuid4()), wire.decode(wire.encode(about | params)), method)

    def _pump(self, writing: Writing) -> bool:
        """Sends the first row, if it is time. Whether it did: then it is in the store, synced."""
        ask = self._ask
        if ask is None or writing.place is None or writing.is_asked or not writing.rows:
            return False
        row = writing.rows[0]
        if not writing.is_sent:
            self._store.add_outgoing(row)
        writing.is_sent = writing.is_asked = True

        def answered(answer: dict[str, Any]) -> None:
            if "error" in answer:
                return self._failed(writing, row, ask, answer["error"])
            self._done(writing, row, wire.record(answer["result"]))
            self._pump(writing)

        ask(row.method, {name: value for name, value in row.params.items() if name != "message_id"}, answered)
        return True

    def _done(self, writing: Writing, row: Outgoing, result: dict[str, Any]) -> None:
        if row.method == FINISH:
            writing.message = wire.message(result.get("message"))
        elif wire.whole(result, "parts") < row.params["part"]:
            raise Lie(f"the part {row.params['part']} is answered with {result['parts']}")
        else:
            writing.answered = row.params["part"]
        self._store.remove_outgoing(row)
        writing.rows.popleft()
        writing.is_sent = writing.is_asked = False
        writing.moved.set()
        self._settle(writing)

    def _failed(self, writing: Writing, row: Outgoing, ask: Ask, error: Refused) -> None:
        if error.reason == "unauthenticated":
            raise error
        if not error.retry:
            self._give_up(writing, error)
            if not writing.is_held:
                self._tell(replace(row, message_id=writing.message_id), error)
            return

        def again() -> None:
            if self._ask is ask:
                writing.is_asked = False
                self._pump(writing)

        asyncio.get_running_loop().call_later(error.wait(self._delay()), again)

    def _give_up(self, writing: Writing, error: Refused) -> None:
        """Nothing more of the message is sent."""
        for row in writing.rows:
            self._store.remove_outgoing(row)
        writing.rows.clear()
        writing.last = writing.answered
        writing.is_sent = writing.is_asked = False
        writing.error = error
        writing.moved.set()
        self._settle(writing)

    def _settle(self, writing: Writing) -> None:
        if not writing.rows and not writing.is_held:
            self._writings.pop((writing.timeline, writing.message_id), None)

    def _tell(self, outgoing: Outgoing, error: Refused) -> None:
        try:
            self._refused(outgoing, error)
        except Exception:
            LOG.exception("what is told of a refusal failed")
