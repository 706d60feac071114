"""Who the client is: `session.open`, tokens and their renewal.

Owns: the token in use, and when another is asked for. Promises: the app's function is asked at the first connect,
when the token expires, and when it was refused, and not else. Must not: reconnect.
"""

from __future__ import annotations

import inspect
import logging
import time
from typing import Any, Awaitable, Callable, Union

from . import wire
from .connection import Connection
from .errors import Stopped

VERSION = "0.1.0"
LOG = logging.getLogger("tideline")
#: A token, or a function that returns the next one.
Token = Union[str, Callable[[], Union[str, Awaitable[str]]]]


class Session:
    def __init__(self, user: str | None, device: str | None, token: Token | None) -> None:
        self._user = user
        self._device = device
        self._source = token
        self._token: str | None = None
        self._expires_at: int | None = None
        self._was_refused = False

    def refused(self, message: str) -> None:
        """The server does not take the token any more. Stopped if there can't be another."""
        if not callable(self._source):
            raise Stopped(message, 4500)
        self._was_refused = True

    async def prepare(self) -> None:
        """Before a connect: sees to it that there is a token that may be good."""
        if self._source is None:
            return
        is_over = self._expires_at is not None and self._expires_at <= time.time() * 1000
        if self._token is None or self._was_refused or is_over:
            token = await self._next()
            if self._was_refused and token == self._token:
                raise Stopped("the token was refused, and there is no other", 4500)
            self._token, self._was_refused, self._expires_at = token, False, None

    def params(self) -> dict[str, Any]:
        """Of `session.open`."""
        named = {"user": self._user, "device": self._device, "token": self._token}
        return {"client": f"tideline-python/{VERSION}"} | {name: one for name, one in named.items() if one is not None}

    def opened(self, result: dict[str, Any]) -> None:
        expires_at = result.get("expires_at")
        self._expires_at = wire.whole(result, "expires_at") if expires_at is not None else None

    async def renew(self, connection: Connection) -> None:
        """Shows the next token. If that fails, the server ends the connection in time, and the next one is asked for."""
        if callable(self._source):
            try:
                token = await self._next()
                result = wire.record(await connection.call("session.renew", {"token": token}))
            except Exception as error:
                LOG.warning("the token was not renewed: %s", error)
                return
            self._token = token
            self.opened(result)

    async def _next(self) -> str:
        if not callable(self._source):
            return str(self._source)
        token = self._source()
        return await token if inspect.isawaitable(token) else token
