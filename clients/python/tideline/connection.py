"""One connection, from its handshake to its end.

Owns: request numbers, who waits for which reply, and signs of life. Promises: replies and pushes are dealt with one
after the other, in the order in which they came; who waits is told when it ends. Must not: come back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from . import wire
from .errors import ConnectionLost, Lie, Refused

#: Gets `{"result": …}` or `{"error": Refused}`, before the next frame is looked at.
Answered = Callable[["dict[str, Any]"], None]

#: A frame of the client at most, until the server has said what it takes.
OUTGOING_BYTES_MAX = 4 << 20
#: A frame of the server at most. Its own limit is 1 MiB unless it is configured otherwise.
FRAME_BYTES_MAX = 64 << 20


class Connection:
    def __init__(self, socket: ClientConnection, pushed: Callable[[str, dict[str, Any]], None]) -> None:
        self._socket = socket
        self._pushed = pushed
        self._number = 0
        self._asked: dict[int, Answered] = {}
        self._calls: set[asyncio.Future[Any]] = set()
        self._outgoing: deque[str] = deque()
        self._has_outgoing = asyncio.Event()
        self._heard = asyncio.get_running_loop().time()
        self._ended = False
        self._heartbeat = 25.0
        self._patience = 10.0
        self._frame_max = OUTGOING_BYTES_MAX
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, url: str, pushed: Callable[[str, dict[str, Any]], None], **options: Any) -> Connection:
        """Connects. OSError, TimeoutError or an exception of `websockets` if that fails."""
        socket = await connect(
            url,
            subprotocols=[Subprotocol("tideline.v1.json")],
            compression=None,
            max_size=FRAME_BYTES_MAX,
            # Signs of life are asked for by `watch`, which also hears what is no pong.
            ping_interval=None,
            close_timeout=2,
            **options,
        )
        return cls(socket, pushed)

    def ask(
        self, method: str, params: dict[str, Any], answered: Answered, /, traceparent: str | None = None
    ) -> None:
        """Sends a request. `answered` is never called if the connection ends before.

        What is larger than the server takes would cost the connection, so it is refused here.
        """
        if self._ended:
            return
        self._number += 1
        traced = {} if traceparent is None else {"traceparent": traceparent}
        text = wire.encode({"jsonrpc": "2.0", "id": self._number, **traced, "method": method, "params": params})
        self._asked[self._number] = answered
        if len(text) > self._frame_max:  # all of it is ASCII
            data = {"reason": "too_large", "retry": False, "limit": self._frame_max, "actual": len(text)}
            error = Refused(413, "larger than a frame may be", data)
            asyncio.get_running_loop().call_soon(self._answer, self._number, {"error": error})
            return
        self._outgoing.append(text)
        self._has_outgoing.set()

    def opened(self, heartbeat: float, limits: dict[str, Any]) -> None:
        """The session is open. After so many seconds of silence the server is asked for a sign of life."""
        self._heartbeat = heartbeat
        if limits.get("inbound_frame_bytes_max") is not None:
            self._frame_max = wire.whole(limits, "inbound_frame_bytes_max", 1)
        self._listen()

    async def call(self, method: str, params: dict[str, Any], traceparent: str | None = None) -> Any:
        """A request and its result; Refused, or ConnectionLost."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(answer: dict[str, Any]) -> None:
            if future.done():
                return
            if "error" in answer:
                future.set_exception(answer["error"])
            else:
                future.set_result(answer["result"])

        if self._ended:
            raise ConnectionLost("there is no connection")
        self.ask(method, params, answered, traceparent)
        # Only calls hear of the end: everything else is done once more by itself.
        self._calls.add(future)
        try:
            return await future
        finally:
            self._calls.discard(future)

    async def run(self, patience: float) -> int:
        """Reads until the end. Returns the close code, 1006 if there was none. Lie and Refused pass through."""
        tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]
        self._patience = patience
        self._watch(patience, self._socket.transport.abort)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            # A close frame that has come counts more than the writer that met it first.
            await self._socket.wait_closed()
            return self._socket.close_code or 1006
        finally:
            self._unwatch()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.end()

    def end(self) -> None:
        """Nothing is sent or dealt with any more."""
        self._ended = True
        self._asked.clear()
        for future in self._calls:
            if not future.done():
                future.set_exception(ConnectionLost("the connection ended before the answer came"))

    async def close(self, code: int = 1000) -> None:
        """Ends it with a close frame, whether or not the server answers that."""
        await self._socket.close(code)
        self.end()

    async def _read(self) -> None:
        try:
            while True:
                data = await self._socket.recv()
                self._heard = asyncio.get_running_loop().time()
                self._take(wire.frame(data))
        except ConnectionClosed:
            pass

    def _take(self, frame: dict[str, Any]) -> None:
        method = frame.get("method")
        if isinstance(method, str):
            if "id" not in frame:
                self._pushed(method, wire.record(frame.get("params")))
            return
        number = frame.get("id")
        if ("result" in frame) == ("error" in frame):
            raise Lie("neither a push nor a reply")
        if "result" in frame:
            return self._answer(number, {"result": frame["result"]})
        error = wire.record(frame["error"])
        code, message = error.get("code"), error.get("message")
        if type(code) is not int or not isinstance(message, str):
            raise Lie("an error without code or message")
        self._answer(number, {"error": Refused(code, message, wire.record(error.get("data") or {}))})

    def _answer(self, number: object, answer: dict[str, Any]) -> None:
        answered = self._asked.pop(number, None) if type(number) is int else None
        if answered is not None:
            answered(answer)

    async def _write(self) -> None:
        try:
            while True:
                while self._outgoing:
                    await self._socket.send(self._outgoing.popleft())
                self._has_outgoing.clear()
                await self._has_outgoing.wait()
        except ConnectionClosed:
            pass

    def _watch(self, after: float, then: Callable[[], None]) -> None:
        """One timer at a time; a timer can't be cancelled too late, as a task can."""
        self._unwatch()
        self._timer = asyncio.get_running_loop().call_later(max(0.001, after), then)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _listen(self) -> None:
        """Asks for a sign of life if there was none for a heartbeat; without an answer the connection ends."""
        left = self._heard + self._heartbeat - asyncio.get_running_loop().time()
        if left > 0:
            return self._watch(left, self._listen)
        heard = self._heard

        def judge() -> None:
            if self._heard == heard:
                self._socket.transport.abort()
            else:
                self._listen()

        self.ask("ping", {}, lambda _: None)
        self._watch(self._patience, judge)
