"""The schemas and the server say the same of every method's parameters, case by random case.

What holds against its schema is not refused as -32602, but for the exceptions below, which no schema can say; what breaks
its schema by one mutation is refused. A method that is new is in both tests by itself.
"""

import base64
import collections
import json
import pathlib
import random
import re

import pytest
from jsonschema import Draft202012Validator

from client import Refused
from guarded import Guarded

SCHEMAS = pathlib.Path(__file__).parents[2] / "schemas"
METHODS = sorted(path.name.removesuffix(".params.json") for path in SCHEMAS.glob("*.params.json"))
INVALID = -32602
CASES = 25

# Which refusals of what is valid there may be: the name of the exception, and what the answer says. They depend on what the
# server has handed out, stored or is at, or compare one member with another.
EXCEPTIONS = [
    ("opaque: only what the server has handed out", "", "not a cursor that|not a position|no page gave this|cursor of this name|not a token of this search"),
    ("a search compares texts, numbers and booleans, and has an end of words", r"query|where\[", "more than 64 words|a text, a number"),
    ("the clock: a time to deliver at lies ahead", "deliver_at", ""),
    ("nobody and nothing is named twice", "", "stands twice|is there twice|both in set and in remove"),
    ("patterns, rights, users and DNS names have a form of their own", "rights|act_as|certificate", ""),
    ("partitions that are there", "partition|with", ""),
    ("places in messages that grow are for who follows their parts", "open", "only with parts"),
    ("the columns of the table's key", "", "key lacks|leave the last|is not within|must be an? "),
    ("a statement of SQL is more than a text", "statement", ""),
]


def patterned(rng, pattern, low, high):
    """A text that a pattern finds, of so many bytes."""
    if "AQgw" in pattern:
        return base64.b64encode(rng.randbytes(rng.randrange(9))).decode()
    letters = "abcXYZ0189" if pattern == "^[A-Za-z0-9]{1,32}$" else "abZ09._-/:*{}$ #ü😀\"\\"
    if "-?[1-9]" in pattern:
        return str(rng.randrange(-(10**18), 10**18))
    for _ in range(200):
        letters = letters if rng.random() < 0.8 else "abZ09_"
        length = rng.choice([low, rng.randint(low, max(low, min(high, 12))), rng.randint(low, high)])
        text = "".join(rng.choice(letters) for _ in range(length))
        # Limits count bytes, which no schema can.
        while len(text.encode()) > high:
            text = text[:-1]
        if len(text) >= low and re.search(pattern, text):
            return text
    raise AssertionError(pattern)


def nested(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 5:
        return [None, True, rng.randint(-(2**63), 2**63 - 1), rng.uniform(-1e9, 1e9), "tëxt"][kind]
    if kind == 5:
        return {f"n{at}": nested(rng, depth + 1) for at in range(rng.randrange(3))}
    return [nested(rng, depth + 1) for _ in range(rng.randrange(3))]


class Maker:
    """Makes values of a schema; those that its rules refuse are made anew."""

    def __init__(self, schema, rng):
        self.schema, self.rng = schema, rng
        self.validator = Draft202012Validator(schema)

    def valid(self):
        for _ in range(3000):
            self.share = self.rng.choice([0.1, 0.3, 0.5])
            made = self.value(self.schema)
            if self.validator.is_valid(made):
                return made
        raise AssertionError("no valid value")

    def value(self, schema, depth=0):
        rng = self.rng
        if schema is True:
            return nested(rng)
        if "$ref" in schema:
            return self.value(self.schema["$defs"][schema["$ref"].rsplit("/", 1)[1]], depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "properties" not in schema:
            for several in ("anyOf", "oneOf"):
                if several in schema:
                    return self.value(rng.choice(schema[several]), depth)
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        kind = rng.choice(types) if rng.random() < 0.3 else types[0]
        return getattr(self, kind)(schema, depth)

    def null(self, schema, depth):
        return None

    def boolean(self, schema, depth):
        return self.rng.random() < 0.5

    def number(self, schema, depth):
        return self.rng.choice([0, -1.5, 1e300, 2**63 - 1, -(2**63), self.rng.uniform(-9, 9)])

    def integer(self, schema, depth):
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**53 - 1)
        return self.rng.choice([low, min(low + 1, high), min(low + 7, high), self.rng.randint(low, high), high])

    def string(self, schema, depth):
        # Longer ones than these take longer to make than all calls do.
        low, high = schema.get("minLength", 0), min(schema.get("maxLength", 40), 8_192)
        return patterned(self.rng, schema.get("pattern", ""), low, high)

    def array(self, schema, depth):
        low, high = schema.get("minItems", 0), schema.get("maxItems", 4)
        count = self.rng.randint(low, max(low, min(high, 4 if depth < 4 else 0)))
        items = schema.get("items", True)
        return [self.value(items, depth + 1) for _ in range(count)]

    def object(self, schema, depth):
        made = {}
        required = schema.get("required", [])
        for name, member in schema.get("properties", {}).items():
            if name in required or (depth < 6 and self.rng.random() < self.share):
                made[name] = self.value(member, depth + 1)
        more = schema.get("additionalProperties", "properties" not in schema)
        for _ in range(self.rng.randrange(4) if more is not False else 0):
            names = {"type": "string", "maxLength": 20, "minLength": 1, **schema.get("propertyNames", {})}
            made[self.string(names, depth)] = self.value(more, depth + 1)
        return made

    def broken(self):
        """A valid value with one change by which it is none any more."""
        for _ in range(3000):
            made = self.valid()
            broken, what = self.mutated(made)
            if not self.validator.is_valid(broken):
                return broken, what
        raise AssertionError("nothing breaks it")

    def mutated(self, value):
        """A copy with one change somewhere in it, and which."""
        rng = self.rng
        inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
        if inner and rng.random() < 0.8:
            at, one = rng.choice(inner)
            changed = value.copy()
            changed[at], what = self.mutated(one)
            return changed, f"{at}.{what}"
        if isinstance(value, dict) and value and rng.random() < 0.4:
            gone = rng.choice(list(value))
            return {name: one for name, one in value.items() if name != gone}, f"without {gone}"
        if isinstance(value, dict) and rng.random() < 0.4:
            return {**value, "no_such": 1}, "no_such"
        if isinstance(value, dict) and rng.random() < 0.5:
            return list(value.values()), "by position"
        other = rng.choice([None, [], {}, "", "x" * 5000, -1, 2**53, 2**64 - 1, True, 1.5, "\x00", [None], {"$binary": "?"}])
        return other, repr(other)[:20]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("schemas"))
    running.acting = running.key("create", "acting", "--allow", "*=admin", "--act-as", "*")
    yield running.start()
    running.kill()


def patient(method, params):
    """The same call, which neither waits nor changes the partitions."""
    if isinstance(params, dict):
        params = {**params}
        if isinstance(params.get("wait_ms"), int) and 1 < params["wait_ms"] < 2**53:
            params["wait_ms"] = 1
        if method.startswith("partition.") and isinstance(params.get("partition"), int) and params["partition"] < 64:
            params["partition"] += 1_000
    return params


def exception(error):
    for name, field, says in EXCEPTIONS:
        if re.match(field, error.data.get("field", "")) and re.search(says, error.message):
            return name
    return None


def maker(method, seed):
    return Maker(json.loads((SCHEMAS / f"{method}.params.json").read_text()), random.Random(f"{method} {seed}"))


@pytest.mark.parametrize("method", METHODS)
def test_what_holds_against_its_schema_is_not_refused_as_invalid(house, method):
    making = maker(method, "valid")
    excepted = collections.Counter()
    for number in range(CASES if making.schema.get("properties") else 3):
        params = patient(method, making.valid())
        with house.open(house.acting, user="ann", packed=number % 2 == 1) if method.startswith("session.") else connection(house, number) as client:
            try:
                client.call(method, **params)
            except Refused as refused:
                name = exception(refused) if refused.code == INVALID else "another reason"
                assert name, (params, refused)
                excepted[name] += 1
    excepted.pop("another reason", None)
    print(method, dict(excepted))


@pytest.mark.parametrize("method", METHODS)
def test_what_breaks_its_schema_is_refused(house, method):
    making = maker(method, "broken")
    for number in range(CASES):
        broken, what = making.broken()
        broken = patient(method, broken)
        with connection(house, number) as client:
            client.number += 1
            client.send({"jsonrpc": "2.0", "id": client.number, "method": method, "params": broken})
            with pytest.raises(Refused):
                answer = client.take(client.number)
                raise AssertionError((what, broken, answer))


class connection:
    """One connection for all cases of an encoding, opened anew where a case has closed it."""

    kept = {}

    def __init__(self, house, number):
        self.house, self.packed = house, number % 2 == 1

    def __enter__(self):
        key = (id(self.house), self.packed)
        client = connection.kept.get(key)
        if client is None or client.socket.close_code is not None:
            client = connection.kept[key] = self.house.open(self.house.acting, user="ann", packed=self.packed)
        return client

    def __exit__(self, *_):
        pass
