"""What the app holds of a message that it writes bit by bit.

Owns: how writing begins, goes on after a restart, and ends. Promises: however the block is left, the message is ended, and
by what the block was left for; a stop from elsewhere is raised with who did it and why. Must not: send.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Awaitable, Callable

from .answers import Answers, Writing
from .errors import MessageClosed, Refused, Stopped, TidelineError
from .wire import Message

#: How long a block that is left by an exception waits for the answer to the end that is on its way, s.
LAST_WORD_S = 2.0


class Answer:
    """`async with client.open("room/1") as answer: await answer.write("tok")`

    The block's end is the message's, as `done`; an exception ends it as `failed`, and a cancellation as `cancelled`.
    """

    def __init__(
        self,
        answers: Answers,
        append: Callable[[dict[str, Any]], asyncio.Future[dict[str, Any]]],
        call: Callable[[str, dict[str, Any]], Awaitable[Any]],
        params: dict[str, Any],
        goes_on: bool,
    ) -> None:
        self._answers = answers
        self._append = append
        self._call = call
        self._params = params
        self._goes_on = goes_on
        self._texts: list[str] = []
        self._writing: Writing | None = None
        self._has_ended = False

    @property
    def message_id(self) -> str:
        """What a later run passes to go on."""
        return str(self._params["message_id"])

    @property
    def sequence(self) -> int | None:
        """The message's number, once the server has it."""
        place = self._writing.place if self._writing else None
        return place["sequence"] if place else None

    @property
    def text(self) -> str:
        """All that was written, also by earlier runs."""
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def parts(self) -> int:
        """In how many parts, with the one that waits."""
        return self._writing.last if self._writing else 0

    async def __aenter__(self) -> Answer:
        if self._writing is not None:
            raise TidelineError("one block writes a message; open it again with its message_id")
        timeline = self._params["timeline"]
        writing = self._writing = self._answers.begin(timeline, self.message_id)
        try:
            appended = self._append(self._params)
            # Its refusal is the writing's.
            appended.add_done_callback(lambda done: done.cancelled() or done.exception())
            if self._goes_on and ((await asyncio.shield(appended))["duplicate"] or writing.rows):
                # What an earlier run has left goes first, also of a message that was never sent.
                await writing.until(lambda: not writing.rows)
                if writing.error is not None and not is_closed(writing.error):
                    raise writing.error
                self._begin_with(await self._get(writing))
        except BaseException:
            self._answers.leave(writing)
            raise
        return self

    def _begin_with(self, message: Message) -> None:
        """What earlier runs have written."""
        assert self._writing is not None
        text = (message.get("entry") or {}).get("text", "")
        before = self._params["entry"].get("text", "")
        # What it was appended with is not written.
        self._texts = [text[len(before) :]] if isinstance(text, str) else []
        self._writing.last = self._writing.answered = message.get("parts") or 0

    async def write(self, text: str) -> None:
        """Returns when the text is kept. Waits while 64 Ki characters wait behind a part that is on its way.

        MessageClosed if it was stopped from elsewhere, or given up by the server; Refused if it takes no more.
        """
        if not isinstance(text, str):
            raise TypeError("write: a text")
        if not text:
            return
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError("write: half a surrogate is no text; write whole characters") from error
        writing = await self._held()
        await writing.until(lambda: not writing.is_full)
        writing = await self._held()
        self._texts.append(text)
        self._answers.write(writing, text)

    async def flush(self) -> None:
        """Waits until the server has all that was written."""
        writing = await self._held()
        await writing.until(lambda: not writing.rows)
        await self._held()

    async def finish(
        self, outcome: str = "done", *, set: dict[str, Any] | None = None, remove: list[str] | None = None
    ) -> Message:
        """Ends the message as `done`, `failed` or `cancelled`, and returns it when the server has that.

        With `set` and `remove` other columns change in the same step. It is kept and repeated as what is written.
        """
        writing = await self._held()
        self._end(writing, outcome, set, remove)
        return await self._ended(writing)

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        writing = self._writing
        assert writing is not None
        try:
            if self._has_ended:
                return
            if error is None:
                await self.finish()
                return
            is_over = isinstance(writing.error, Stopped) or is_closed(writing.error)
            if is_over or (writing.error is not None and writing.place is None):
                return
            # Of a part that was refused: what was taken before it is what there is.
            writing.error = None
            self._end(writing, "cancelled" if isinstance(error, asyncio.CancelledError) else "failed")
            try:
                await asyncio.wait_for(self._ended(writing), LAST_WORD_S)
            except (TidelineError, asyncio.TimeoutError):
                pass
        finally:
            self._answers.leave(writing)

    def _end(
        self, writing: Writing, outcome: str, set: dict[str, Any] | None = None, remove: list[str] | None = None
    ) -> None:
        given = {"outcome": outcome, "set": set, "remove": remove}
        self._answers.end(writing, {name: value for name, value in given.items() if value is not None})
        self._has_ended = True

    async def _ended(self, writing: Writing) -> Message:
        await writing.until(lambda: writing.message is not None)
        if writing.message is None:
            await self._raise(writing)
        assert writing.message is not None
        return writing.message

    async def _held(self) -> Writing:
        """The writing, if it can go on."""
        writing = self._writing
        if writing is None:
            raise TidelineError("write within `async with`")
        if writing.error is not None:
            await self._raise(writing)
        if self._has_ended or not writing.is_held:
            raise TidelineError("the message has been ended here")
        return writing

    async def _raise(self, writing: Writing) -> None:
        error = writing.error
        if isinstance(error, Refused) and is_closed(error) and not isinstance(error, MessageClosed):
            try:
                message = await self._get(writing)
            except TidelineError:
                message = {}
            error = writing.error = MessageClosed(error, message)
        assert error is not None
        raise error

    async def _get(self, writing: Writing) -> Message:
        sequence = (writing.place or {})["sequence"]
        got = await self._call("message.get", {"timeline": writing.timeline, "sequence": sequence})
        return dict(got["message"])


def is_closed(error: TidelineError | None) -> bool:
    return isinstance(error, Refused) and error.reason == "message_closed"
