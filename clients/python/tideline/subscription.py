"""What the app holds of a subscription: an iterator of events.

Owns: the events that the app has not taken yet. Promises: what happens between `subscribe` and the first `async for`
waits here; each event comes once, in order. Must not: know how events come about.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import AsyncIterator

from .errors import TidelineError
from .place import Event


class Subscription(AsyncIterator[Event]):
    """The events of a timeline, or of all conversations. `async for` ends after an `ended` event, or with `Stopped`."""

    def __init__(self, timeline: str | None, options: dict[str, object]) -> None:
        #: None = all conversations.
        self.timeline = timeline
        #: What was asked for beside the place: `rewind`, `with` …
        self.options = options
        self._events: deque[Event] = deque()
        self._came = asyncio.Event()
        self._end: TidelineError | None = None
        self._has_ended = False

    def tell(self, event: Event) -> None:
        self._events.append(event)
        self._came.set()

    def end(self, error: TidelineError | None = None) -> None:
        """No more events come; with an error, that is raised behind those that wait."""
        self._has_ended, self._end = True, self._end or error
        self._came.set()

    async def __anext__(self) -> Event:
        while not self._events:
            if self._end is not None:
                raise self._end
            if self._has_ended:
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        return self._events.popleft()
