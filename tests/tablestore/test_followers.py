"""The changes of a table as back ends get them over the native protocol: stream.open {table}."""

import time

import pytest
from tablestore import Row

from client import Client, Refused
from sdk import IGNORE, put
from test_streams import enabled, specify


@pytest.fixture
def follow(server):
    """Opens a stream of changes of a table on a connection of the native protocol."""
    with Client(server) as connected:
        yield lambda table, **params: (connected, connected.call("stream.open", table=table, **params)["stream"])


def followed(connected, stream, count):
    """So many changes of a stream, and the position behind them."""
    got, position = [], None
    while len(got) < count:
        push = connected.push("stream.changes")
        assert push["stream"] == stream
        got, position = got + push["changes"], push["position"]
    assert len(got) == count, got
    return got, position


def test_a_back_end_follows_a_table(client, make_table, follow):
    name = make_table(key=[("k", "STRING"), ("n", "INTEGER")], max_version=3)
    enabled(client, name, columns=["a"])
    connected, stream = follow(name)
    row = [("k", "x"), ("n", 7)]
    client.put_row(name, Row(row, [("a", 1), ("b", bytearray(b"\0\1")), ("c", "text")]), IGNORE)
    client.update_row(name, Row(row, {"PUT": [("a", 2.5)], "DELETE_ALL": ["b"]}), IGNORE)
    client.delete_row(name, Row(row), IGNORE)
    (put_, updated, deleted), position = followed(connected, stream, 3)
    assert [change["kind"] for change in (put_, updated, deleted)] == ["row.put", "row.updated", "row.deleted"]
    for change in (put_, updated, deleted):
        assert change["table"] == name and change["key"] == {"k": "x", "n": 7}
        assert abs(change["timestamp"] / 1000 - time.time()) < 600
    values = {column["name"]: column.get("value") for column in put_["columns"]}
    assert values == {"a": 1, "b": {"$binary": "AAE="}, "c": "text"}
    assert "original" not in put_
    first, second = updated["columns"]
    assert (first["name"], first["value"]) == ("a", 2.5) and second == {"name": "b"}
    assert [(cell["name"], cell["value"]) for cell in updated["original"]] == [("a", 1)]
    assert deleted["columns"] == []
    # From the start of the stream, and behind each position.
    again = connected.call("stream.open", table=name, **{"from": "start"})["stream"]
    assert followed(connected, again, 3)[0] == [put_, updated, deleted]
    rest = connected.call("stream.open", table=name, position=position)["stream"]
    client.put_row(name, Row(row, [("a", 3)]), IGNORE)
    told = {push["stream"]: push["changes"] for push in (connected.push("stream.changes") for _ in range(3))}
    assert set(told) == {stream, again, rest} and len(told[rest]) == 1


def test_a_position_of_one_table_is_none_of_another(client, make_table, follow):
    one, two = make_table(), make_table()
    for name in (one, two):
        enabled(client, name)
    connected, _ = follow(one)
    position = connected.call("stream.open", table=one)["position"]
    for source in ({"table": two}, {"timelines": ""}):
        with pytest.raises(Refused) as caught:
            connected.call("stream.open", position=position, **source)
        assert caught.value.data["field"] == "position"


def test_a_follower_is_told_when_the_stream_ends(client, make_table, follow):
    name = make_table()
    enabled(client, name)
    connected, stream = follow(name, cursor=f"of-{name}")
    put(client, name, "a", [("c", 1)])
    followed(connected, stream, 1)
    assert specify(client, name, enable=False, hours=None)[0] is False
    put(client, name, "b", [("c", 1)])
    ended = connected.push("stream.ended")
    assert (ended["stream"], ended["reason"], ended["reopen"]) == (stream, "no_stream", False)
    # A new stream of it: what lies between is in neither.
    enabled(client, name)
    with pytest.raises(Refused) as caught:
        connected.call("stream.open", table=name, cursor=f"of-{name}")
    assert caught.value.reason == "position_lost"
    connected.call("stream.forget", cursor=f"of-{name}")


def test_a_follower_passes_over_large_pages(client, make_table, follow):
    name = make_table()
    enabled(client, name)
    connected, stream = follow(name)
    for number in range(60):
        put(client, name, f"{number:03}", [("text", "x" * 50_000)])
    got, _ = followed(connected, stream, 60)
    assert [change["key"]["k"] for change in got] == [f"{number:03}" for number in range(60)]
