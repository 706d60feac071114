"""PROTOCOL.md, Values: what goes in comes out; what does not fit is refused; MessagePack says the same."""

import base64
import json
import math

import msgpack
import pytest

from client import Client


def echo(client, timeline, entry):
    sequence = client.append(timeline, entry)["sequence"]
    return client.call("message.get", timeline=timeline, sequence=sequence)["message"]["entry"]


@pytest.mark.parametrize(
    "value",
    [
        "", "text", "🦀 \u0000 \" \\ \u2028", 0, 1, -1, 2**53 - 1, 1.0, 1.5, -0.5, 1e300, 5e-324, True, False, [], {}, [1, "a", None],
        {"a": {"b": [1.5, None, {"$c": 1}]}}, {"$a": 1, "b": 2},
    ],
)  # fmt: skip
def test_values_come_back_the_same(client, name, value):
    back = echo(client, name, {"v": value})["v"]
    assert back == value and type(back) is type(value)


def test_integers_and_doubles_stay_apart(client, name):
    client.send(
        '{"jsonrpc":"2.0","id":1,"method":"message.append","params":{"timeline":"%s","entry":{"i":1,"d":1.0,"e":1e2}}}' % name
    )
    client.receive()
    client.send('{"jsonrpc":"2.0","id":2,"method":"message.get","params":{"timeline":"%s","sequence":1}}' % name)
    entry = json.loads(client.socket.recv(60))["result"]["message"]["entry"]
    assert [type(entry[key]) for key in "ide"] == [int, float, float]


def test_binary_and_integer_are_typed_values(client, name):
    blob = base64.b64encode(bytes(range(256))).decode()
    entry = {"b": {"$binary": blob}, "i": {"$integer": "-9223372036854775808"}}
    back = echo(client, name, entry)
    assert back["b"] == {"$binary": blob}
    assert back["i"] == -(2**63)


@pytest.mark.parametrize(
    "value",
    [
        {"$binary": "not base64!"}, {"$binary": 5}, {"$binary": "YQ"}, {"$integer": "1.5"}, {"$integer": "9223372036854775808"},
        {"$integer": 5}, {"$date": "x"}, {"$": 1},
    ],
)  # fmt: skip
def test_other_typed_values_are_refused(client, name, refused, value):
    refused(client, "message.append", -32602, field="entry.v", timeline=name, entry={"v": value})


def test_large_integers_come_back_exactly_or_as_text(server, name):
    large = 2**53 + 1
    with Client(server) as plain:
        assert echo(plain, name, {"n": large, "m": -(2**63)}) == {"n": large, "m": -(2**63)}
    with Client(server) as script:
        script.call("session.open", integers="text")
        entry = script.call("message.get", timeline=name, sequence=1)["message"]["entry"]
        assert entry == {"n": {"$integer": str(large)}, "m": {"$integer": str(-(2**63))}}
        assert echo(script, name, {"n": 2**53 - 1})["n"] == 2**53 - 1


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1e999", "NaN", "Infinity"])
def test_numbers_that_do_not_fit_are_refused(client, name, number):
    client.send('{"jsonrpc":"2.0","id":1,"method":"message.append","params":{"timeline":"%s","entry":{"n":%s}}}' % (name, number))
    assert client.receive()["error"]["code"] in (-32602, -32700)


def test_null_is_refused_at_the_top_and_kept_below(client, name, refused):
    refused(client, "message.append", -32602, field="entry.n", timeline=name, entry={"n": None})
    assert echo(client, name, {"n": [None]}) == {"n": [None]}


@pytest.mark.parametrize("bad", ["", "$a", "__a", "x" * 256, "é" * 128])
def test_names_that_are_refused(client, name, refused, bad):
    refused(client, "message.append", -32602, timeline=name, entry={bad: 1})


def test_names_that_are_fine(client, name):
    entry = {"_a": 1, "a$": 2, "x" * 255: 3, "漢": 4, " ": 5, "a.b[0]": 6}
    assert echo(client, name, entry) == entry


def test_at_most_128_names(client, name, refused):
    entry = {f"n{n}": n for n in range(128)}
    assert echo(client, name, entry) == entry
    entry["one more"] = 1
    refused(client, "message.append", -32602, timeline=name, entry=entry)


def test_messagepack_round_trip(packed, client, name):
    entry = {"b": b"\x00\xff", "i": 2**63 - 1, "d": 1.0, "s": "ü", "t": True, "a": [1, [2.5, None]], "m": {"k": "v"}}
    back = echo(packed, name, entry)
    assert back == entry
    assert type(back["d"]) is float and type(back["i"]) is int and type(back["b"]) is bytes
    json_side = client.call("message.get", timeline=name, sequence=1)["message"]["entry"]
    assert json_side == {**entry, "b": {"$binary": base64.b64encode(entry["b"]).decode()}}


def test_json_and_messagepack_are_the_same_entry(client, packed, name):
    first = client.append(name, {"a": 1, "d": 1.0, "b": {"$binary": "AAE="}}, message_id="m")
    again = packed.append(name, {"b": b"\x00\x01", "d": 1.0, "a": 1}, message_id="m")
    assert again == {**first, "duplicate": True}


@pytest.mark.parametrize(
    "value", [[b"x"], {"k": b"x"}, msgpack.ExtType(5, b"x"), [msgpack.ExtType(5, b"x")], math.nan, math.inf, [math.inf], 2**64 - 1]
)
def test_messagepack_values_that_are_refused(packed, name, refused, value):
    refused(packed, "message.append", -32602, timeline=name, entry={"v": value})


def test_messagepack_that_is_malformed(packed):
    for bad in [b"", b"\xc1", b"\x81", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 100_000]:
        packed.send(bad)
        assert packed.receive()["error"]["code"] in (-32700, -32600)
    assert packed.call("ping")


def test_messagepack_pushes(packed, client, name):
    packed.call("subscribe", timeline=name)
    client.append(name, {"b": {"$binary": "AAE="}})
    (message,) = packed.messages(name, 1)
    assert message["entry"] == {"b": b"\x00\x01"}


def test_messagepack_batch(packed, name):
    append = {"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": {"a": 1}}}
    packed.send([{**append, "id": 1}, append, {**append, "id": "b"}])
    replies = packed.receive()
    assert {reply["id"]: reply["result"]["sequence"] for reply in replies} == {1: 1, "b": 3}


def test_session_open_tells_the_limits(client):
    reply = client.call("session.open", user="ada", device="d", client="tests/1")
    assert reply["user"] == "ada" and reply["server"]["name"] and reply["server"]["version"]
    assert isinstance(reply["session"], str) and reply["heartbeat_ms"] == 25_000
    expected = {
        "entry_bytes_max": 262_144, "batch_messages_max": 100, "batch_bytes_max": 1 << 20, "inbound_frame_bytes_max": 4 << 20,
        "outbound_frame_bytes_max": 1 << 20, "page_messages_max": 1_000, "subscriptions_max": 1_000,
        "requests_in_flight_max": 256, "sync_positions_max": 10_000, "wait_ms_max": 60_000, "json_depth_max": 32,
    }  # fmt: skip
    assert reply["limits"].items() >= expected.items()


def test_session_open_refuses_what_it_does_not_know(client, refused):
    refused(client, "session.open", -32602, field="integers", integers="roman")
    refused(client, "session.open", -32602, field="colour", colour="red")
