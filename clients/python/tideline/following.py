"""All that a client follows: what is asked again after each connect, and what replies and pushes do.

Owns: which timelines are followed, and whose events they are. Promises: a frame changes the store by one step of
`place`, and only then is the app told; pushes of what is not followed change nothing; where an app does not take its
events the server keeps what comes. Must not: connect, or keep a position in memory: the store has them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable

from . import wire
from .errors import Lie, Refused, Stopped, TidelineError, fail
from .older import Older
from .outbox import Ask
from .place import Event, Place, Step, after_push, after_reply, forgotten
from .store import Store
from .subscription import Subscription

#: Pushes that are not stored.
PASSING = ("signal", "presence", "receipt", "member.changed", "timeline.changed")
#: Positions in one `position.set`.
POSITIONS_MAX = 1000
#: Open messages that a subscribe names.
OPEN_MAX = 64
#: Reasons for which a history is forgotten.
REPLACED = ("epoch_changed", "deleted")


class Followed:
    """A subscription, and how far the asking is."""

    def __init__(self, subscription: Subscription, ready: asyncio.Future[None]) -> None:
        self.subscription = subscription
        self.ready = ready
        #: Pushes count only while this is so: between a request and its reply they are of an older subscription.
        self.is_on = False
        #: Not subscribed until the app has taken its events.
        self.is_paused = False


class Following:
    def __init__(self, store: Store, device: Callable[[], str], delay: Callable[[], float]) -> None:
        self._store = store
        self._device = device
        self._delay = delay
        self._ask: Ask | None = None
        #: There is no server to ask: the last attempt has failed.
        self._is_away = False
        self._followed: dict[str | None, Followed] = {}
        #: Of subscriptions that the app has ended: the events of the store's content that it had not taken.
        self._left: dict[str | None, list[Event]] = {}
        self._older = Older(store, self._live_ask, self._wait, self._commit, self._anew)
        #: Begun anew so often, without a message in between.
        self._restarts: dict[str | None, int] = {}

    # What the app and the client do.

    def follow(self, timeline: str | None, options: dict[str, object], listen: bool = True) -> Followed:
        """`ready` is done when the server has answered, or when there is none to answer."""
        if timeline in self._followed:
            raise ValueError(f"{timeline or 'all conversations'}: subscribed already")
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        followed = Followed(Subscription(timeline, options, self._store, self._want_older, self._emptied, listen), ready)
        self._followed[timeline] = followed
        for event in self._left.pop(timeline, []):
            followed.subscription.tell(event)
        if self._is_away:
            ready.set_result(None)
        self._begin(followed)
        return followed

    def unfollow(self, subscription: Subscription) -> None:
        timeline = subscription.timeline
        followed = self._followed.get(timeline)
        if followed is None or followed.subscription is not subscription:
            return
        del self._followed[timeline]
        self._restarts.pop(timeline, None)
        self._older.give_up(followed.subscription, TidelineError("the subscription was ended"))
        if left := followed.subscription.leave():
            self._left[timeline] = left
        self._unsubscribe(timeline)

    def connected(self, ask: Ask) -> None:
        self._ask, self._is_away = ask, False
        for followed in list(self._followed.values()):
            self._begin(followed)

    def disconnected(self) -> None:
        self._ask = None
        self._older.lost()
        for followed in self._followed.values():
            followed.is_on = False

    def away(self) -> None:
        """There is no server to ask: a subscription that waits for its answer begins with what is stored."""
        self._is_away = True
        for followed in self._followed.values():
            if not followed.ready.done():
                followed.ready.set_result(None)

    def stop(self, error: Stopped) -> None:
        self._ask = None
        for followed in self._followed.values():
            self._give_up(followed, error)
        self._followed.clear()

    # Asking.

    def _begin(self, followed: Followed) -> None:
        if self._ask is None or followed.is_paused:
            return
        ask, timeline = self._ask, followed.subscription.timeline
        followed.is_on = False
        if timeline is None:
            params = self._ask_for_all(ask, followed)
        else:
            params = self._params(timeline, followed.subscription.options)
        asked_with = self._store.place(timeline) if timeline is not None else None

        def answered(answer: dict[str, Any]) -> None:
            if self._followed.get(timeline) is not followed:
                return
            if "error" in answer:
                self._refused(followed, answer["error"])
            elif timeline is None:
                followed.is_on = True
                self._take_many(wire.record(answer["result"]))
                self._has_begun(followed)
            elif self._take_reply(followed, timeline, asked_with, answer["result"]):
                followed.is_on = True
                self._has_begun(followed)

        ask("subscribe", params, answered)

    def _unsubscribe(self, timeline: str | None) -> None:
        if self._ask is not None:
            what = {"conversations": True} if timeline is None else {"timeline": timeline}
            self._ask("unsubscribe", what, lambda _: None)

    def _pause(self, followed: Followed) -> None:
        """The server keeps what comes until the app has taken its events."""
        followed.is_on, followed.is_paused = False, True
        self._unsubscribe(followed.subscription.timeline)

    def _emptied(self, subscription: Subscription) -> None:
        followed = self._followed.get(subscription.timeline)
        if followed is not None and followed.subscription is subscription and followed.is_paused:
            followed.is_paused = False
            self._begin(followed)

    # Older ones.

    def _want_older(self, subscription: Subscription, timeline: str, count: int) -> asyncio.Future[int]:
        followed = self._followed.get(subscription.timeline)
        if followed is None or followed.subscription is not subscription:
            raise TidelineError("the subscription has ended")
        return self._older.want(subscription, timeline, count)

    def _anew(self, subscription: Subscription) -> None:
        followed = self._followed.get(subscription.timeline)
        is_by_name = followed is not None and subscription.timeline is not None
        if followed is not None and is_by_name and followed.is_on and follows_parts(subscription.options):
            self._unsubscribe(subscription.timeline)
            self._begin(followed)

    def _live_ask(self, subscription: Subscription) -> Ask | None:
        """For requests that need the subscription, if it is there now."""
        followed = self._followed.get(subscription.timeline)
        is_live = followed is not None and followed.subscription is subscription and followed.is_on
        return self._ask if is_live else None

    def _params(self, timeline: str, options: dict[str, object]) -> dict[str, Any]:
        params: dict[str, Any] = {"timeline": timeline} | options
        place = self._store.place(timeline)
        if place is not None:
            params.pop("rewind", None)
            params |= {"after": place.position, "epoch": place.epoch, "changes_after": place.changes}
            if follows_parts(options) and (grow := self._store.open_messages(timeline)):
                params["open"] = {str(sequence): parts for sequence, parts in list(grow.items())[-OPEN_MAX:]}
        elif "rewind" not in params:
            params |= {"after": 0, "changes_after": 0}
        return params

    def _ask_for_all(self, ask: Ask, followed: Followed) -> dict[str, Any]:
        """The server begins where it thinks that this device is, so it is told first."""
        device = self._device()
        places = [(timeline, self._store.place(timeline)) for timeline in self._store.timelines()]
        known = [(timeline, place) for timeline, place in places if place is not None]
        for first in range(0, len(known), POSITIONS_MAX):
            positions = {
                timeline: {"epoch": place.epoch, "after": place.position, "changes_after": place.changes}
                for timeline, place in known[first : first + POSITIONS_MAX]
            }
            ask("position.set", {"device": device, "positions": positions, "force": True}, lambda _: None)
        return {"conversations": True, "device": device} | followed.subscription.options

    def _has_begun(self, followed: Followed) -> None:
        followed.subscription.tell(Event("subscribed", followed.subscription.timeline or ""))
        if not followed.ready.done():
            followed.ready.set_result(None)
        self._older.resume(followed.subscription)
        if followed.subscription.is_full:
            self._pause(followed)

    def _wait(self, error: Refused | None = None) -> float:
        """How long until the next try, s: as the server says, else a random time."""
        return error.wait(self._delay()) if error else self._delay()

    def _again(self, followed: Followed, error: Refused | None = None) -> None:
        """Once more: at once the first time, later if that led to nothing."""
        timeline, ask = followed.subscription.timeline, self._ask
        self._restarts[timeline] = self._restarts.get(timeline, 0) + 1

        def begin() -> None:
            if self._followed.get(timeline) is followed and self._ask is ask:
                self._begin(followed)

        if self._restarts[timeline] == 1:
            begin()
        else:
            asyncio.get_running_loop().call_later(self._wait(error), begin)

    def _refused(self, followed: Followed, error: Refused) -> None:
        timeline = followed.subscription.timeline
        # A session without a user has no conversations; else it is the session's end.
        if error.reason == "unauthenticated" and (timeline is not None or self._store.note("user")):
            raise error
        if error.retry:
            self._restarts[timeline] = max(1, self._restarts.get(timeline, 0))
            self._again(followed, error)
        elif error.reason == "epoch_changed" and timeline is not None:
            self._start_over(followed, timeline, error.reason)
        else:
            del self._followed[timeline]
            self._give_up(followed, error)

    def _give_up(self, followed: Followed, error: TidelineError) -> None:
        self._older.give_up(followed.subscription, error)
        fail(followed.ready, error)
        if isinstance(error, Refused):
            followed.subscription.tell(Event("ended", followed.subscription.timeline or "", reason=error.reason))
            followed.subscription.end()
        else:
            followed.subscription.end(error)

    # Replies.

    def _take_reply(self, followed: Followed, timeline: str, asked_with: Place | None, result: Any) -> bool:
        """Whether there is a subscription now."""
        reply = wire.subscribed(result)
        if isinstance(reply, str):
            if reply != "epoch_changed" and self._ask is not None:
                # Of a later version of the protocol: perhaps there is one.
                self._ask("unsubscribe", {"timeline": timeline}, lambda _: None)
            self._start_over(followed, timeline, reply)
            return False
        is_rewind = asked_with is None and "rewind" in followed.subscription.options
        stored = self._stored(timeline)
        self._commit(timeline, after_reply(timeline, self._store.place(timeline), is_rewind, reply, stored))
        return True

    def _start_over(self, followed: Followed, timeline: str, reason: str) -> None:
        if self._store.place(timeline) is not None:
            self._commit(timeline, forgotten(timeline, reason))
        self._again(followed)

    def _take_many(self, params: dict[str, Any]) -> None:
        """Conversations that have news."""
        for timeline, value in wire.record(params.get("timelines")).items():
            if timeline in self._followed:
                continue
            value = wire.record(value)
            if "state" not in value:
                reason = wire.text(value, "reason")
                if reason != "already_subscribed":
                    self._tell(Event("ended", timeline, reason=reason))
                continue
            reply = wire.subscribed(value)
            if isinstance(reply, str):
                self._start_one_over(timeline, reply)
                continue
            # One that is new here begins wherever the server lets it.
            step = after_reply(timeline, self._store.place(timeline), True, reply, self._stored(timeline))
            self._commit(timeline, step)
            self._older.resume(self._followed[None].subscription, timeline)

    def _start_one_over(self, timeline: str, reason: str) -> None:
        """A conversation whose history was replaced."""
        if self._store.place(timeline) is not None:
            self._commit(timeline, forgotten(timeline, reason))
        self._one_again(timeline)

    def _one_again(self, timeline: str, refused: Refused | None = None) -> None:
        """One of all conversations, whose subscription ended while the others go on."""
        ask, followed = self._ask, self._followed[None]
        tries = self._restarts[timeline] = self._restarts.get(timeline, 0) + 1

        def answered(answer: dict[str, Any]) -> None:
            if self._followed.get(None) is not followed:
                return
            if "result" in answer:
                return self._take_many({"timelines": {timeline: answer["result"]}})
            error = answer["error"]
            if error.reason == "unauthenticated":
                raise error
            if error.retry:
                self._one_again(timeline, error)
            elif error.reason != "already_subscribed":
                self._tell(Event("ended", timeline, reason=error.reason))

        def begin() -> None:
            if ask is not None and self._ask is ask and self._followed.get(None) is followed:
                ask("subscribe", self._params(timeline, followed.subscription.options | {"create": False}), answered)

        if tries == 1:
            begin()
        else:
            asyncio.get_running_loop().call_later(self._wait(refused), begin)

    # Pushes.

    def pushed(self, method: str, params: dict[str, Any]) -> None:
        if method in ("subscribed", "conversation.changed"):
            everything = self._followed.get(None)
            if everything is not None and everything.is_on:
                if method == "subscribed":
                    self._take_many(params)
                else:
                    self._tell(Event(method, "", data=params))
                self._pause_if_full(everything)
            return
        if method not in PASSING and method not in PUSHES:
            return
        timeline = wire.text(params, "timeline")
        followed = self._owner(timeline)
        if followed is None or not followed.is_on:
            return
        if method in PASSING:
            followed.subscription.tell(Event(method, timeline, data=params))
        else:
            PUSHES[method](self, followed, timeline, params)
        self._pause_if_full(followed)

    def _pause_if_full(self, followed: Followed) -> None:
        if followed.is_on and followed.subscription.is_full:
            self._pause(followed)

    def _message(self, followed: Followed, timeline: str, params: dict[str, Any]) -> None:
        messages = wire.many(params, "messages", wire.message)
        wire.whole(params, "head")
        place = self._store.place(timeline)
        if place is None:
            if not messages:
                return
            # A conversation that was joined just now; what is by name has a place since its reply.
            first = messages[0]["sequence"]
            place = Place(wire.epoch(params), first - 1, 0, first)
        self._same_epoch(place, params)
        self._commit(timeline, after_push(timeline, place, self._stored(timeline), messages))

    def _changed(self, followed: Followed, timeline: str, params: dict[str, Any]) -> None:
        self._copies(timeline, params, wire.message)

    def _extended(self, followed: Followed, timeline: str, params: dict[str, Any]) -> None:
        growth, place = wire.growth(params), self._store.place(timeline)
        if place is not None:
            self._same_epoch(place, params)
            self._commit(timeline, after_push(timeline, place, self._stored(timeline), grown=[growth]))

    def _reaction(self, followed: Followed, timeline: str, params: dict[str, Any]) -> None:
        self._copies(timeline, params, wire.reacted)

    def _copies(self, timeline: str, params: dict[str, Any], one: Callable[[Any], wire.Message]) -> None:
        copies, head = wire.many(params, "messages", one), wire.whole(params, "change_head")
        place = self._store.place(timeline)
        if place is not None:
            self._same_epoch(place, params)
            self._commit(timeline, after_push(timeline, place, self._stored(timeline), changed=copies, change_head=head))

    def _ended(self, followed: Followed, timeline: str, params: dict[str, Any]) -> None:
        reason, comes_back = wire.text(params, "reason"), wire.flag(params, "resubscribe")
        is_one_of_all = followed.subscription.timeline is None
        if is_one_of_all and reason in REPLACED and comes_back:
            return self._start_one_over(timeline, reason)
        if reason in REPLACED and self._store.place(timeline) is not None:
            self._commit(timeline, forgotten(timeline, reason))
        if is_one_of_all and comes_back:
            return self._one_again(timeline)
        if not is_one_of_all:
            followed.is_on = False
        if comes_back:
            self._again(followed)
        else:
            followed.subscription.tell(Event("ended", timeline, reason=reason))
            if not is_one_of_all:
                del self._followed[timeline]
                self._older.give_up(followed.subscription, Refused(403, "the subscription has ended", {"reason": reason}))
                followed.subscription.end()

    # The store and the app.

    def _owner(self, timeline: str) -> Followed | None:
        return self._followed.get(timeline) or self._followed.get(None)

    def _stored(self, timeline: str) -> Callable[[int], wire.Message | None]:
        return lambda sequence: self._store.message(timeline, sequence)

    @staticmethod
    def _same_epoch(place: Place, params: dict[str, Any]) -> None:
        if wire.epoch(params) != place.epoch:
            raise Lie(f"a push of the epoch {params['epoch']} in {place.epoch}")

    def _commit(self, timeline: str, step: Step) -> None:
        """One step into the store, and then to the app."""
        if step.put or step.drop_below > 1 or step.place != self._store.place(timeline):
            self._store.apply(timeline, step)
        if step.below:
            self._older.changed(timeline, step.below)
        if step.place is None:
            self._older.forget(timeline)
        if step.put:
            self._restarts.pop(timeline, None)
            self._restarts.pop(None, None)
        for event in step.events:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        followed = self._owner(event.timeline)
        if followed is not None:
            followed.subscription.tell(event)


def follows_parts(options: dict[str, Any]) -> bool:
    return "parts" in options.get("with", ())


PUSHES: dict[str, Callable[[Following, Followed, str, dict[str, Any]], None]] = {
    "message": Following._message,
    "message.changed": Following._changed,
    "message.extended": Following._extended,
    "reaction": Following._reaction,
    "subscription.ended": Following._ended,
}
