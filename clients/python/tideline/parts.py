"""The text of one message, piece by piece, as it grows.

Owns: what the app has taken of it. Promises: the pieces joined are the text of the message, however slowly they are taken;
only its newest form waits. Must not: know where it comes from.
"""

from __future__ import annotations

import asyncio
from typing import AsyncIterator

from .errors import TidelineError
from .place import Event, grows_in
from .wire import Message


class Parts(AsyncIterator[str]):
    """`async for text in room.parts(sequence)`; then `message` is how it ended, or is `open` if the subscription ended before."""

    def __init__(self, timeline: str, message: Message) -> None:
        self.timeline = timeline
        #: In its newest form.
        self.message = message
        #: What was taken.
        self.text = ""
        #: Of the column that grows, which a closed message does not say.
        self._column = grows_in(message)
        self._has_ended = False
        self._end: TidelineError | None = None
        self._came = asyncio.Event()

    def tell(self, event: Event) -> None:
        sequence = self.message["sequence"]
        if event.timeline != self.timeline:
            return
        if event.message is not None and event.message["sequence"] == sequence:
            self.message = event.message
            self._came.set()
        elif event.kind in ("reset", "ended") or (event.floor is not None and event.floor > sequence):
            self.end()

    def end(self, error: TidelineError | None = None) -> None:
        """It is not followed any more."""
        self._has_ended, self._end = True, self._end or error
        self._came.set()

    async def __anext__(self) -> str:
        while True:
            text = (self.message.get("entry") or {}).get(self._column, "")
            # What was edited behind its end is another text.
            if isinstance(text, str) and len(text) > len(self.text) and text.startswith(self.text):
                piece, self.text = text[len(self.text) :], text
                return piece
            if self._end is not None:
                raise self._end
            if self._has_ended or not self.message.get("open"):
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
