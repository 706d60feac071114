"""The store's filters: which items one lets through, and what of that the search index can answer.

Owns: how values are compared, and which of an item's values are in the index. Promises: `fits` decides, and every item that
fits is among the rows that `needed` finds. Must not: talk to the server.

The index has the numbers, texts and booleans at the top of an item, texts and names by their beginnings only. So it may find too
much, never too little, and what it finds is compared once more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tablestore import BoolQuery, FieldSchema, FieldType, NestedQuery, Query, RangeQuery, TermQuery

#: Of how many characters of a text and of a name the index knows.
TEXT, NAME = 256, 64
#: Values of an item that the index takes, and their bytes.
VALUES_MAX, BYTES_MAX = 256, 256 << 10

SCHEMA = [
    FieldSchema("partial", FieldType.BOOLEAN),
    FieldSchema("values", FieldType.NESTED, sub_field_schemas=[
        FieldSchema("name", FieldType.KEYWORD), FieldSchema("text", FieldType.KEYWORD), FieldSchema("number", FieldType.DOUBLE),
    ]),
]  # fmt: skip


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(value: Any, operand: Any) -> bool:
    # In JSON true is no number.
    return isinstance(value, bool) == isinstance(operand, bool) and value == operand


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers are compared with numbers and texts with texts; nothing else has an order."""

    def compared(value: Any, operand: Any) -> bool:
        are_alike = (is_number(value) and is_number(operand)) or (isinstance(value, str) and isinstance(operand, str))
        return are_alike and compare(value, operand)

    return compared


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": equal,
    "$ne": lambda value, operand: not equal(value, operand),
    "$gt": ordered(lambda value, operand: value > operand),
    "$gte": ordered(lambda value, operand: value >= operand),
    "$lt": ordered(lambda value, operand: value < operand),
    "$lte": ordered(lambda value, operand: value <= operand),
}


def checked(filter: Mapping[str, Any] | None) -> dict[str, Any]:
    """The filter as JSON says it. Raises `ValueError` for an operator that is none."""
    read: dict[str, Any] = json.loads(json.dumps(dict(filter or {})))
    for wanted in read.values():
        _check(wanted)
    return read


def _check(wanted: Any) -> None:
    if has_operators(wanted):
        for name in wanted.keys() - OPERATORS.keys():
            raise ValueError(f"the operators of a filter are {', '.join(OPERATORS)}, not {name}")
    elif isinstance(wanted, (dict, list)):
        for inner in wanted.values() if isinstance(wanted, dict) else wanted:
            _check(inner)


def has_operators(wanted: Any) -> bool:
    return isinstance(wanted, dict) and any(name.startswith("$") for name in wanted)


def fits(value: Any, wanted: Any) -> bool:
    """Whether a value is as the filter wants it; of an object only what the filter names."""
    if has_operators(wanted):
        return all(OPERATORS[name](value, operand) for name, operand in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(fits(value.get(name), inner) for name, inner in wanted.items())
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(fits, value, wanted))
    return equal(value, wanted)


def indexed(value: dict[str, Any]) -> dict[str, Any]:
    """The columns of an item by which `needed` finds it."""
    found = []
    for name, one in value.items():
        known = _known(one)
        if known:
            found.append({"name": name[:NAME], known[0]: known[1]})
    text = json.dumps(found, ensure_ascii=False)
    if len(found) > VALUES_MAX or len(text.encode()) > BYTES_MAX:
        return {"partial": True}
    return {"values": text} if found else {}


def needed(filter: dict[str, Any]) -> list[Query]:
    """What all rows match whose items may fit."""
    found: list[Query] = []
    for name, wanted in filter.items():
        for operator, operand in (wanted if has_operators(wanted) else {"$eq": wanted}).items():
            if query := _looked_up(operator, operand):
                found.append(NestedQuery("values", BoolQuery(filter_queries=[TermQuery("values.name", name[:NAME]), query])))
    return [BoolQuery(should_queries=[BoolQuery(filter_queries=found), TermQuery("partial", True)])] if found else []


def _looked_up(operator: str, operand: Any) -> Query | None:
    known = _known(operand)
    if known is None or operator == "$ne":
        return None
    field, bound = f"values.{known[0]}", known[1]
    if operator == "$eq":
        return TermQuery(field, bound)
    # With the bound itself: what is above a text may begin with the same characters.
    return RangeQuery(field, bound, None, True, True) if operator.startswith("$gt") else RangeQuery(field, None, bound, True, True)


def _known(value: Any) -> tuple[str, Any] | None:
    """How the index knows a value, if it does: never in another order than the values have."""
    if isinstance(value, bool):
        return "text", str(value)
    if isinstance(value, str):
        return "text", value[:TEXT]
    if not is_number(value) or value != value:  # a NaN
        return None
    most = sys.float_info.max
    return "number", float(min(max(value, -most), most))
