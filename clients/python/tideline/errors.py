"""What a call can end with.

Owns: the exceptions of the package, and how one who waits gets one. Promises: everything that the package raises on purpose is a `TidelineError`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Mapping


class TidelineError(Exception):
    """Every error of this package."""


class Refused(TidelineError):
    """The server answered with an error: nothing was done, unless `reason` is `outcome_unknown`."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        reason = data.get("reason")
        super().__init__(f"{message} ({reason})")
        self.code = code
        self.message = message
        #: Switch on this; docs/API.md lists them all.
        self.reason = reason if isinstance(reason, str) else ""
        #: Whether the same call can succeed later, unchanged.
        self.retry = data.get("retry") is True
        after = data.get("retry_after_ms")
        self.retry_after_ms = after if isinstance(after, int) and after >= 0 else None
        #: All members that the server sent: `field`, `limit`, `actual` …
        self.data = dict(data)

    def wait(self, delay: float) -> float:
        """How long until the next try, s: as the server says, else `delay`."""
        return delay if self.retry_after_ms is None else self.retry_after_ms / 1000


class MessageClosed(Refused):
    """A message that was being written has ended from elsewhere: somebody stopped it, or no part came for too long."""

    def __init__(self, refused: Refused, message: Mapping[str, Any]) -> None:
        super().__init__(refused.code, refused.message, refused.data)
        #: In its newest form, with all text that was taken; empty if it could not be read.
        self.closed = message
        #: `cancelled`, `failed` or `done`.
        self.outcome: str | None = refused.data.get("outcome")
        #: Who stopped it, if somebody did; empty = nobody in particular.
        self.stopped_by: str | None = refused.data.get("stopped_by")
        #: The reason that they gave.
        self.why: str | None = message.get("reason")


class ConnectionLost(TidelineError):
    """The connection ended before the answer came: the call may have been carried out."""


class Stopped(TidelineError):
    """The client does not connect again: it was closed, or the server does not want it back as it is."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        #: The WebSocket's close code; 4500 also where the token was refused.
        self.code = code


class StoreError(TidelineError):
    """The store can't be used: of another version, another user's, or in use by another client."""


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """The one who waits gets the error; nobody needs to."""
    if not future.done():
        future.set_exception(error)
        future.exception()


class Lie(Exception):
    """The server broke the protocol. Inside of the package only: it ends the connection, and nothing is applied."""
