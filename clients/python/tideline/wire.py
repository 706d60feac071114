"""The border: text of the server becomes values that are known to have the right shape, or a `Lie`.

Owns: what a frame, a message and a subscription's reply must look like. Promises: what it returns has the members and
types that the rest of the package relies on, and can be stored: what can't is left out of its message alone. Must not:
know what a client has stored.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import re
from dataclasses import dataclass
from typing import Any, Callable, NoReturn, TypeVar

from .errors import Lie

#: A message as the server sent it: `sequence`, `timestamp`, `message_id`, `sender`, `entry` …
Message = dict[str, Any]
T = TypeVar("T")

LOG = logging.getLogger("tideline")
INTEGER_MAX = 2**53 - 1
#: Levels of a value of an entry at most; the server's own default is 32.
NESTED_MAX = 256
#: Python has a limit for integers that are text.
DIGITS_MAX = 4000
BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
EPOCH = re.compile(r"[A-Za-z0-9]{1,32}")


def encode(value: Any) -> str:
    """Compact JSON. NaN and infinities are no JSON and raise ValueError."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def decode(text: str) -> Any:
    """What JSON text says; ValueError if it is none."""

    def refuse(name: str) -> NoReturn:
        raise json.JSONDecodeError(name, text, 0)

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def binary(data: bytes) -> dict[str, str]:
    """Bytes as a value of an entry."""
    return {"$binary": base64.b64encode(data).decode()}


def data_of(value: Any) -> bytes:
    """The bytes of a binary value of an entry."""
    return base64.b64decode(value["$binary"], validate=True)


def frame(data: str | bytes) -> dict[str, Any]:
    """One frame of the server: a reply or a push."""
    if not isinstance(data, str):
        raise Lie("a binary frame")
    try:
        try:
            value = decode(data)
        except json.JSONDecodeError:
            raise
        except ValueError:
            value = decode_in_part(data)
    except ValueError as error:
        raise Lie(f"not JSON: {error}") from error
    return record(value)


def decode_in_part(text: str) -> Any:
    """What JSON text says, with NaN for what Python can't decode: a value nested too deeply, or an integer too long."""
    pieces, start, depth, depth_max = [], 0, 0, NESTED_MAX + 16
    for found in BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == depth_max:
                pieces += [text[start : found.start()], "NaN"]
        elif found[0] in "]}":
            if depth == depth_max:
                start = found.end()
            depth -= 1
    pieces.append(text[start:])

    def integer(digits: str) -> int | float:
        return int(digits) if len(digits) <= DIGITS_MAX else math.nan

    return json.loads("".join(pieces), parse_int=integer, parse_constant=lambda _: math.nan)


def can_be_kept(entry: dict[str, Any]) -> bool:
    """Whether an entry can be written as JSON, and read again."""
    level = list(entry.values())
    for _ in range(NESTED_MAX + 1):
        if any(type(value) is float and not math.isfinite(value) for value in level):
            return False
        inner = [value for value in level if isinstance(value, (dict, list))]
        if not inner:
            return True
        level = [one for value in inner for one in (value.values() if isinstance(value, dict) else value)]
    return False


def record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Lie(f"not an object: {value!r:.80}")
    return value


def text(of: dict[str, Any], name: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise Lie(f"{name} is not text: {value!r:.80}")
    return value


def whole(of: dict[str, Any], name: str, least: int = 0) -> int:
    value = of.get(name)
    if type(value) is not int or not least <= value <= INTEGER_MAX:
        raise Lie(f"{name} is no number from {least}: {value!r:.80}")
    return value


def flag(of: dict[str, Any], name: str) -> bool:
    value = of.get(name)
    if not isinstance(value, bool):
        raise Lie(f"{name} is neither true nor false: {value!r:.80}")
    return value


def epoch(of: dict[str, Any]) -> str:
    value = text(of, "epoch")
    if not EPOCH.fullmatch(value):
        raise Lie(f"no epoch: {value!r:.80}")
    return value


def many(of: dict[str, Any], name: str, one: Callable[[Any], T]) -> list[T]:
    value = of.get(name)
    if not isinstance(value, list):
        raise Lie(f"{name} is no array: {value!r:.80}")
    return [one(item) for item in value]


def change_of(message: Message) -> int:
    """The number of a message's last change; 0 if it never changed."""
    return message.get("change") or 0


def message(said: Any) -> Message:
    value = record(said)
    whole(value, "sequence", 1)
    whole(value, "timestamp")
    text(value, "message_id")
    if value.get("change") is not None:
        whole(value, "change")
    is_open = value.get("open")
    if isinstance(is_open, dict):
        text(is_open, "column")
    if is_open is not None and (isinstance(is_open, dict) or flag(value, "open")):
        whole(value, "parts")
    entry = value.get("entry")
    if entry is not None and not isinstance(entry, dict):
        raise Lie(f"no entry: {entry!r:.80}")
    if entry and not can_be_kept(entry):
        LOG.warning("the entry of message %d can't be decoded", value["sequence"])
        return value | {"entry": {}, "undecoded": True}
    return value


def reacted(said: Any) -> Message:
    value = record(said)
    whole(value, "sequence", 1)
    whole(value, "change")
    record(value.get("reactions"))
    return value


@dataclass(frozen=True)
class Growth:
    """Parts of an open message, `first` to `parts`, and their texts one behind the other."""

    sequence: int
    first: int
    parts: int
    text: str


def growth(said: Any) -> Growth:
    value = record(said)
    first = whole(value, "from", 1)
    return Growth(whole(value, "sequence", 1), first, whole(value, "parts", first), text(value, "text"))


@dataclass(frozen=True)
class Page:
    """The messages before a range, newest first."""

    epoch: str
    floor: int
    messages: list[Message]


def page(value: Any) -> Page:
    value = record(value)
    return Page(epoch(value), whole(value, "floor", 1), many(value, "messages", message))


@dataclass(frozen=True)
class Reply:
    """A subscribe reply that leads to a subscription."""

    epoch: str
    floor: int
    head: int
    change_head: int
    messages: list[Message]
    changed: list[Message]
    grown: list[Growth]
    is_too_old: bool


def subscribed(value: Any) -> Reply | str:
    """A subscribe reply, or the `state` that says why there is no subscription to go on with."""
    value = record(value)
    state = text(value, "state")
    if state not in ("ok", "too_old"):
        return state
    flag(value, "more")
    reply = Reply(
        epoch=epoch(value),
        floor=whole(value, "floor", 1),
        head=whole(value, "head"),
        change_head=whole(value, "change_head"),
        messages=many(value, "messages", message),
        changed=many(value, "changed", message) if value.get("changed") is not None else [],
        grown=many(value, "grown", growth) if value.get("grown") is not None else [],
        is_too_old=state == "too_old",
    )
    if reply.floor > reply.head + 1:
        raise Lie(f"a floor of {reply.floor} with a head of {reply.head}")
    return reply
