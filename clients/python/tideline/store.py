"""Where a client keeps what it has: the interface, and the store in memory.

Owns: what a store has to promise. Promises of each: `apply` and the methods of the outbox are atomic, and durable if
the store outlives the process. Must not: judge; `place` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .place import Place, Step
from .wire import Message


@dataclass(frozen=True)
class Outgoing:
    """A message, or a change, that the server has not answered yet."""

    timeline: str
    #: Of a change: what names it in the store.
    message_id: str
    #: All parameters of its method.
    params: dict[str, Any]
    method: str = "message.append"
    #: The step of a W3C trace that it is a part of.
    traceparent: str | None = None


class Store(Protocol):
    """What a client needs of a store. All methods return when it is done; one client uses a store at a time."""

    def timelines(self) -> list[str]:
        """All that have a place."""

    def place(self, timeline: str) -> Place | None:
        """Where the reader is."""

    def message(self, timeline: str, sequence: int) -> Message | None:
        """One stored message."""

    def messages(self, timeline: str, start: int = 1, limit: int | None = None) -> list[Message]:
        """Stored messages from `start`, in order."""

    def open_messages(self, timeline: str) -> dict[int, int]:
        """How many parts each stored message has that is open, by sequence, in order."""

    def apply(self, timeline: str, step: Step) -> None:
        """Place and messages in one transaction: drops what is below `drop_below`, then puts; without a place all goes.

        A page of older messages has a place with a lower `first` than before, and comes without a gap. Of what has only
        grown a store may write what came (`grown`) in place of the whole.
        """

    def outbox(self) -> list[Outgoing]:
        """What is not answered, in the order in which it was added."""

    def add_outgoing(self, outgoing: Outgoing, is_synced: bool = True) -> None:
        """Adds a message, a change or a part, or puts it in the place of the one of its ID.

        When this returns it survives a kill, and if it is to be synced a power cut, with all that was added before.
        """

    def remove_outgoing(self, outgoing: Outgoing) -> None:
        """It was answered."""

    def note(self, name: str) -> str | None:
        """A value that the client noted."""

    def set_note(self, name: str, value: str) -> None:
        """Notes a value."""

    def close(self) -> None:
        """Nothing is asked of it afterwards."""


class MemoryStore:
    """Forgets everything with the process."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._messages: dict[str, dict[int, Message]] = {}
        self._outbox: dict[tuple[str, str], Outgoing] = {}
        self._notes: dict[str, str] = {}

    def timelines(self) -> list[str]:
        return sorted(self._places)

    def place(self, timeline: str) -> Place | None:
        return self._places.get(timeline)

    def message(self, timeline: str, sequence: int) -> Message | None:
        return self._messages.get(timeline, {}).get(sequence)

    def messages(self, timeline: str, start: int = 1, limit: int | None = None) -> list[Message]:
        place = self._places.get(timeline)
        if place is None:
            return []
        kept, first = self._messages[timeline], max(start, place.first)
        end = place.position if limit is None else min(place.position, first + limit - 1)
        return [kept[sequence] for sequence in range(first, end + 1)]

    def open_messages(self, timeline: str) -> dict[int, int]:
        kept = self._messages.get(timeline, {})
        return {sequence: one["parts"] for sequence, one in sorted(kept.items()) if one.get("open")}

    def apply(self, timeline: str, step: Step) -> None:
        if step.place is None:
            self._places.pop(timeline, None)
            self._messages.pop(timeline, None)
            return
        before, kept = self._places.get(timeline), self._messages.setdefault(timeline, {})
        if before is not None:
            for sequence in range(before.first, min(step.drop_below, before.position + 1)):
                del kept[sequence]
        kept.update(step.put)
        self._places[timeline] = step.place

    def outbox(self) -> list[Outgoing]:
        return list(self._outbox.values())

    def add_outgoing(self, outgoing: Outgoing, is_synced: bool = True) -> None:
        self._outbox[outgoing.timeline, outgoing.message_id] = outgoing

    def remove_outgoing(self, outgoing: Outgoing) -> None:
        self._outbox.pop((outgoing.timeline, outgoing.message_id), None)

    def note(self, name: str) -> str | None:
        return self._notes.get(name)

    def set_note(self, name: str, value: str) -> None:
        self._notes[name] = value

    def close(self) -> None:
        pass
