"""What the app holds of a subscription: an iterator of events.

Owns: the events that the app has not taken yet, and the oldest message that it was told of each timeline. Promises: what
happens between `subscribe` and the first `async for` waits here; each event comes once, in order, and the parts of a
message that wait as one. Must not: know how events come about.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import AsyncIterator, Callable

from .answer import Answer
from .errors import TidelineError
from .parts import Parts
from .place import Event
from .store import Store

#: Events that wait at most, beside those of the frame that passes this: then the subscription pauses.
EVENTS_MAX = 10_000
#: These come of the store's content; the others are of the moment.
STORED = ("message", "changed", "extended", "older", "reset", "too_old")


class Subscription(AsyncIterator[Event]):
    """The events of a timeline, or of all conversations. `async for` ends after an `ended` event, or with `Stopped`."""

    def __init__(
        self,
        timeline: str | None,
        options: dict[str, object],
        store: Store,
        want_older: Callable[[Subscription, str, int], asyncio.Future[int]],
        emptied: Callable[[Subscription], None],
        listen: bool = True,
    ) -> None:
        #: None = all conversations.
        self.timeline = timeline
        #: What was asked for beside the place: `rewind`, `with` …
        self.options = options
        #: The oldest message that was told, by timeline.
        self.shown: dict[str, int] = {}
        #: `client.open` of this timeline.
        self.open: Callable[..., Answer]
        self._store = store
        self._want_older = want_older
        self._emptied = emptied
        self._listens = listen
        self._events: deque[Event] = deque()
        #: Events of parts that wait and take more, by timeline and sequence.
        self._growing: dict[tuple[str, int], Event] = {}
        self._readers: weakref.WeakSet[Parts] = weakref.WeakSet()
        self._came = asyncio.Event()
        self._end: TidelineError | None = None
        self._has_ended = False

    async def older(self, count: int = 100, timeline: str | None = None) -> int:
        """Has up to `count` messages come as one event `older`: those before the oldest that came here.

        They are taken from the store, else from the server, and all changes of them come from then on. Returns how many;
        0 = there are none. Of all conversations it is to be said of which `timeline`.
        """
        name = self.timeline or timeline
        if name is None or timeline not in (None, name):
            raise ValueError("older: of which timeline of all conversations?")
        if count < 1:
            raise ValueError("older: a count from 1")
        return await self._want_older(self, name, count)

    def parts(self, sequence: int, timeline: str | None = None) -> Parts:
        """The text of a stored message piece by piece, from its beginning to its end: `async for text in room.parts(7)`.

        It asks for `parts` in `also`. Of all conversations it is to be said of which `timeline`.
        """
        name = self.timeline or timeline
        message = self._store.message(name, sequence) if name is not None else None
        if name is None or message is None:
            raise ValueError(f"parts: no message {sequence} of {name} is stored")
        parts = Parts(name, message)
        self._readers.add(parts)
        if self._has_ended:
            parts.end(self._end)
        return parts

    @property
    def is_full(self) -> bool:
        return len(self._events) >= EVENTS_MAX

    def tell(self, event: Event) -> None:
        if event.kind == "message" and event.message is not None:
            self.shown.setdefault(event.timeline, event.message["sequence"])
        elif event.kind == "older":
            self.shown[event.timeline] = event.messages[0]["sequence"]
        elif event.kind in ("reset", "too_old"):
            self.shown.pop(event.timeline, None)
        for reader in list(self._readers):
            reader.tell(event)
        if self._listens and not self._is_joined(event):
            self._events.append(event)
            self._came.set()

    def _is_joined(self, event: Event) -> bool:
        """Whether parts were added to those of the message that wait."""
        if event.kind in STORED and event.kind not in ("message", "extended"):
            self._growing.clear()
        if event.kind != "extended" or event.message is None:
            return False
        waiting = self._growing.setdefault((event.timeline, event.message["sequence"]), event)
        if waiting is event:
            return False
        waiting.message = event.message
        waiting.data = {**event.data, "from": waiting.data["from"], "text": waiting.text + event.text}
        return True

    def end(self, error: TidelineError | None = None) -> None:
        """No more events come; with an error, that is raised behind those that wait."""
        self._has_ended, self._end = True, self._end or error
        for reader in list(self._readers):
            reader.end(self._end)
        self._came.set()

    def leave(self) -> list[Event]:
        """Ends at once. Returns the events that come of the store and were not taken."""
        left = [event for event in self._events if event.kind in STORED]
        self._events.clear()
        self._growing.clear()
        self.end()
        return left

    async def __anext__(self) -> Event:
        self._listens = True
        while not self._events:
            if self._end is not None:
                raise self._end
            if self._has_ended:
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        event = self._events.popleft()
        if event.kind == "extended" and event.message is not None:
            self._growing.pop((event.timeline, event.message["sequence"]), None)
        if not self._events:
            self._emptied(self)
        return event
