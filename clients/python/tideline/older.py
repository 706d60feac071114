"""The pages below the ranges that are followed.

Owns: what the app has asked for by `Subscription.older`, and the pages that are on their way. Promises: one after the
other; a page continues the range downwards without a gap, and what has changed while it was on its way is laid on it, so
that it is as new as the range. Must not: subscribe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Callable, Iterable

from . import wire
from .errors import Refused, TidelineError, fail
from .outbox import Ask
from .place import Event, Step, after_page
from .store import Store
from .subscription import Subscription
from .wire import Message


class Wanted:
    """The pages of one timeline that the app of a subscription waits for, in order."""

    def __init__(self, subscription: Subscription, timeline: str) -> None:
        self.subscription = subscription
        self.timeline = timeline
        self.asked: deque[tuple[int, asyncio.Future[int]]] = deque()
        #: Changes of what the page may hold, while one is on its way; else None.
        self.below: list[Message] | None = None

    @property
    def end(self) -> int | None:
        """The first sequence that is not older; None where none was told."""
        return self.subscription.shown.get(self.timeline)

    def answer(self, count: int) -> None:
        _, future = self.asked.popleft()
        if not future.done():
            future.set_result(count)

    def refuse(self, error: TidelineError) -> None:
        fail(self.asked.popleft()[1], error)


class Older:
    def __init__(
        self,
        store: Store,
        ask: Callable[[Subscription], Ask | None],
        wait: Callable[[Refused], float],
        commit: Callable[[str, Step], None],
        anew: Callable[[Subscription], None],
    ) -> None:
        self._store = store
        #: Sends requests, if the subscription is there.
        self._ask = ask
        self._wait = wait
        self._commit = commit
        #: Subscribes once more, because a page has open messages: from where it has them, their parts are to come.
        self._anew = anew
        self._wanted: dict[tuple[Subscription, str], Wanted] = {}

    def want(self, subscription: Subscription, timeline: str, count: int) -> asyncio.Future[int]:
        """Resolves with how many came. Without a subscription it waits until there is one."""
        wanted = self._wanted.setdefault((subscription, timeline), Wanted(subscription, timeline))
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        wanted.asked.append((count, future))
        self._go_on(wanted)
        return future

    def resume(self, subscription: Subscription, timeline: str | None = None) -> None:
        """There is a subscription again."""
        for wanted in list(self._wanted.values()):
            if wanted.subscription is subscription and timeline in (None, wanted.timeline):
                self._go_on(wanted)

    def lost(self) -> None:
        """The connection is gone, and pages with it."""
        for wanted in self._wanted.values():
            wanted.below = None

    def forget(self, timeline: str) -> None:
        """The history is gone; a page of it does not count any more."""
        for wanted in self._wanted.values():
            if wanted.timeline == timeline:
                wanted.below = None

    def changed(self, timeline: str, below: Iterable[Message]) -> None:
        """Changes of messages below the range came."""
        for wanted in self._wanted.values():
            if wanted.timeline == timeline and wanted.below is not None:
                wanted.below.extend(below)

    def give_up(self, subscription: Subscription, error: TidelineError) -> None:
        for key, wanted in list(self._wanted.items()):
            if wanted.subscription is subscription:
                del self._wanted[key]
                while wanted.asked:
                    wanted.refuse(error)

    def _go_on(self, wanted: Wanted) -> None:
        """What is stored is told, else the server is asked."""
        while wanted.below is None and wanted.asked:
            count, future = wanted.asked[0]
            if future.done():  # the app has stopped waiting
                wanted.asked.popleft()
                continue
            stored = self._stored(wanted, count)
            place = self._store.place(wanted.timeline)
            if stored:
                wanted.subscription.tell(Event("older", wanted.timeline, messages=tuple(stored)))
            elif self._ask(wanted.subscription) is None or (place is not None and place.first > 1):
                return self._ask_for(wanted, count)
            wanted.answer(len(stored))

    def _stored(self, wanted: Wanted, count: int) -> list[Message]:
        place = self._store.place(wanted.timeline)
        if place is None:
            return []
        end = min(wanted.end or place.position + 1, place.position + 1)
        start = max(place.first, end - count)
        return self._store.messages(wanted.timeline, start, end - start) if start < end else []

    def _ask_for(self, wanted: Wanted, count: int) -> None:
        ask, place = self._ask(wanted.subscription), self._store.place(wanted.timeline)
        if ask is None or place is None:
            return
        below: list[Message] = []
        wanted.below = below

        def answered(answer: dict[str, Any]) -> None:
            if wanted.below is not below or not wanted.asked:
                return
            wanted.below = None
            if "error" in answer:
                return self._failed(wanted, answer["error"])
            now, page = self._store.place(wanted.timeline), wire.page(answer["result"])
            # Meanwhile the server may have trimmed more.
            if now is not None and now.first == place.first:
                self._take(wanted, after_page(now, page, below))
            self._go_on(wanted)

        limits = {"from": place.first - 1, "direction": "backward", "limit": count, "epoch": place.epoch}
        ask("message.range", {"timeline": wanted.timeline} | limits, answered)

    def _take(self, wanted: Wanted, step: Step) -> None:
        messages = tuple(message for _, message in sorted(step.put.items()))
        if messages:
            self._commit(wanted.timeline, step)
            wanted.subscription.tell(Event("older", wanted.timeline, messages=messages))
        wanted.answer(len(messages))
        if any(message.get("open") for message in messages):
            self._anew(wanted.subscription)

    def _failed(self, wanted: Wanted, error: Refused) -> None:
        if error.reason == "unauthenticated":
            raise error
        if error.retry:
            asyncio.get_running_loop().call_later(self._wait(error), self._go_on, wanted)
        elif error.reason != "epoch_changed":  # a subscription follows
            wanted.refuse(error)
            self._go_on(wanted)
