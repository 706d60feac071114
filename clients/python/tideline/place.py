"""The rules of a reader: what a reply or a push does to one timeline.

Owns: positions, gaps, duplicates, which of two copies counts. Promises: nothing here changes anything; it returns a
`Step`, which a store applies whole or not at all, or raises `Lie`, and then nothing of the frame is applied.
Must not: send, store, or tell the app.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Mapping

from .errors import Lie
from .wire import Growth, Message, Page, Reply, change_of

#: The stored copy of a message of this timeline, if there is one.
Stored = Callable[[int], "Message | None"]


@dataclass(frozen=True)
class Place:
    """Where a reader is in a timeline. The store holds every message from `first` to `position`."""

    epoch: str
    position: int
    changes: int
    first: int


@dataclass
class Event:
    """Something that the app is told, after it was stored.

    `kind`: `message` (a new one), `changed` (an edit, deletion, pin, reaction or end of one that is stored), `extended` (one
    that is open has grown by `text`, the parts `data["from"]` to `data["parts"]`), `older` (the
    `messages` before the oldest one, oldest first, see `Subscription.older`), `too_old` (what was below `floor` is gone),
    `reset` (the history was replaced; nothing of the old one is stored any more), `ended` (the subscription is over, see
    `reason`), `subscribed` (connected and following); or, not stored, the name of a push: `signal`, `presence`, `receipt`,
    `member.changed`, `timeline.changed`, `conversation.changed`.
    """

    kind: str
    timeline: str
    message: Message | None = None
    messages: tuple[Message, ...] = ()
    reason: str | None = None
    floor: int | None = None
    #: The members of a push that is not stored, or of parts.
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """By what a message has grown."""
        return str(self.data.get("text", ""))


def newest(known: Message, later: Message) -> Message:
    """A copy with a later state laid on it: a whole message, or only its reactions."""
    if "message_id" in later:
        return later
    message = {name: value for name, value in known.items() if name != "reactions"}
    if later["reactions"]:
        message["reactions"] = later["reactions"]
    return message | {"change": later["change"]}


def counts(copy: Message, known: Message) -> bool:
    """Whether a copy takes the place of the stored one. One that is open may have other parts without a change."""
    if change_of(copy) != change_of(known):
        return change_of(copy) > change_of(known)
    return bool(copy.get("open") and known.get("open")) and copy["parts"] != known["parts"]


def grown(known: Message, growth: Growth) -> Message:
    """A message with more text."""
    entry = known.get("entry") or {}
    column = grows_in(known)
    before = entry.get(column, "")
    text = {column: before + growth.text} if isinstance(before, str) else {}
    return known | {"parts": growth.parts, "entry": entry | text}


def grows_in(message: Message) -> str:
    """Which column of an open message grows."""
    is_open = message.get("open")
    return str(is_open["column"]) if isinstance(is_open, dict) else "text"


@dataclass
class Step:
    """What happens to one timeline in one transaction."""

    #: Where the reader is afterwards; None = the timeline is forgotten, with all its messages.
    place: Place | None
    #: New messages, and new copies of stored ones.
    put: dict[int, Message] = field(default_factory=dict)
    #: What was added to the text of those in `put` that have only grown.
    grown: dict[int, str] = field(default_factory=dict)
    #: Stored messages below this are dropped.
    drop_below: int = 0
    #: What to tell the app afterwards.
    events: list[Event] = field(default_factory=list)
    #: Changes of messages below the place's first, which the store does not have.
    below: list[Message] = field(default_factory=list)


class Reader:
    """Applies one frame to a copy of a place."""

    def __init__(self, timeline: str, place: Place, stored: Stored) -> None:
        self.timeline = timeline
        self.stored = stored
        self.step = Step(place)
        self.position = place.position
        self.place = place

    def take_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            sequence = message["sequence"]
            if sequence > self.position + 1:
                raise Lie(f"a gap: {sequence} after {self.position}")
            if sequence <= self.position:
                self.take_copy(message)
            else:
                self.position = sequence
                self.step.put[sequence] = message
                self.tell("message", message)

    def take_copy(self, copy: Message) -> None:
        """A later state of a message up to the position: the higher change counts."""
        sequence = copy["sequence"]
        if sequence > self.position:
            raise Lie(f"a change of {sequence}, which is above {self.position}")
        known = self.step.put.get(sequence) or self.stored(sequence)
        if sequence < self.place.first:
            self.step.below.append(copy)
        elif known is not None and counts(copy, known):
            self.step.put[sequence] = newest(known, copy)
            self.step.grown.pop(sequence, None)
            self.tell("changed", self.step.put[sequence])

    def take_growth(self, growth: Growth) -> None:
        """Parts behind those that are stored."""
        sequence, step = growth.sequence, self.step
        known = step.put.get(sequence) or self.stored(sequence)
        if known is None or not known.get("open") or growth.parts <= known["parts"]:
            return
        if growth.first != known["parts"] + 1:
            raise Lie(f"the parts {growth.first} to {growth.parts} of {sequence}, which has {known['parts']}")
        if sequence not in step.put or sequence in step.grown:
            step.grown[sequence] = step.grown.get(sequence, "") + growth.text
        step.put[sequence] = grown(known, growth)
        data = {"from": growth.first, "parts": growth.parts, "text": growth.text}
        step.events.append(Event("extended", self.timeline, step.put[sequence], data=data))

    def tell(self, kind: str, message: Message) -> None:
        self.step.events.append(Event(kind, self.timeline, message))

    def finish(
        self,
        messages: Iterable[Message],
        changed: Iterable[Message],
        change_head: int,
        grown: Iterable[Growth] = (),
    ) -> Step:
        self.take_messages(messages)
        for copy in changed:
            self.take_copy(copy)
        for growth in grown:
            self.take_growth(growth)
        changes = max(self.place.changes, change_head)
        self.step.place = replace(self.place, position=self.position, changes=changes)
        return self.step


def after_reply(timeline: str, place: Place | None, is_rewind: bool, reply: Reply, stored: Stored) -> Step:
    """A subscription begins or goes on. Without a place it begins at 0, or by rewind wherever the reply does."""
    if place is None:
        position = 0
        if is_rewind and not reply.is_too_old:
            position = reply.messages[0]["sequence"] - 1 if reply.messages else reply.head
        place = Place(reply.epoch, position, 0, position + 1)
    if reply.epoch != place.epoch:
        raise Lie(f"the epoch {reply.epoch} in answer to {place.epoch}")
    if place.position > reply.head:
        raise Lie(f"a head of {reply.head} in answer to the position {place.position}")
    is_behind = place.position + 1 < reply.floor
    if is_behind != reply.is_too_old:
        raise Lie(f"too_old is {reply.is_too_old} with a floor of {reply.floor} for the position {place.position}")
    if is_behind:
        place = replace(place, position=reply.floor - 1)
    place = replace(place, first=max(place.first, reply.floor))
    reader = Reader(timeline, place, stored if not is_behind else lambda _: None)
    reader.step.drop_below = reply.floor
    if is_behind:
        reader.step.events.append(Event("too_old", timeline, floor=reply.floor))
    return reader.finish(reply.messages, reply.changed, reply.change_head, reply.grown)


def after_push(
    timeline: str,
    place: Place,
    stored: Stored,
    messages: Iterable[Message] = (),
    changed: Iterable[Message] = (),
    change_head: int = 0,
    grown: Iterable[Growth] = (),
) -> Step:
    """A push of new messages, of changed ones, of their reactions, or of parts."""
    return Reader(timeline, place, stored).finish(messages, changed, change_head, grown)


def after_page(place: Place, page: Page, below: Iterable[Message]) -> Step:
    """A page that continues the range downwards. `below` are changes that came while it was on its way."""
    first = place.first
    put: dict[int, Message] = {}
    for message in page.messages:
        first -= 1
        if message["sequence"] != first:
            raise Lie(f"a page with {message['sequence']} in place of {first}")
        put[first] = message
    if page.epoch != place.epoch:
        raise Lie(f"a page of the epoch {page.epoch} in {place.epoch}")
    if not put and page.floor < first:
        raise Lie(f"nothing below {first}, but the floor is {page.floor}")
    for copy in below:
        known = put.get(copy["sequence"])
        if known is not None and change_of(copy) > change_of(known):
            put[copy["sequence"]] = newest(known, copy)
    return Step(replace(place, first=first), put)


def forgotten(timeline: str, reason: str) -> Step:
    """The history was replaced or deleted."""
    return Step(None, events=[Event("reset", timeline, reason=reason)])
