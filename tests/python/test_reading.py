"""PROTOCOL.md, message.get and message.range: positions, directions, pages, columns, sizes."""

import pytest

from client import sequences


@pytest.fixture
def filled(client, name):
    client.fill(name, 250)
    return name


def test_get(client, name, refused):
    told = client.append(name, {"a": 1}, message_id="m")
    message = client.call("message.get", timeline=name, sequence=1)["message"]
    assert message.pop("sender", "") in ("", None)
    assert message == {"sequence": 1, "timestamp": told["timestamp"], "message_id": "m", "entry": {"a": 1}}
    refused(client, "message.get", 404, "message_not_found", timeline=name, sequence=2)
    refused(client, "message.get", -32602, field="sequence", timeline=name, sequence=0)


def test_range_defaults(client, filled):
    page = client.call("message.range", timeline=filled)
    assert sequences(page["messages"]) == list(range(1, 101)) and page["next"] == 101
    assert (page["head"], page["floor"], page["change_head"]) == (250, 1, 0) and page["epoch"]


def test_forward_and_backward_pages_cover_everything_once(client, filled):
    for direction, expected in [("forward", list(range(1, 251))), ("backward", list(range(250, 0, -1)))]:
        got, at = [], {}
        while True:
            page = client.call("message.range", timeline=filled, limit=33, direction=direction, **at)
            got += sequences(page["messages"])
            if page.get("next") is None:
                break
            at = {"from": page["next"]}
        assert got == expected


def test_from_is_inclusive_and_to_exclusive_both_ways(client, filled):
    def got(**params):
        page = client.call("message.range", timeline=filled, **params)
        return sequences(page["messages"]), page.get("next")

    assert got(**{"from": 10, "to": 13}) == ([10, 11, 12], None)
    assert got(**{"from": 13, "to": 10, "direction": "backward"}) == ([13, 12, 11], None)
    assert got(**{"from": 10, "to": 10}) == ([], None)
    assert got(**{"from": 249, "limit": 5}) == ([249, 250], None)
    assert got(**{"from": 251}) == ([], None)
    assert got(**{"from": 10_000}) == ([], None)
    assert got(**{"from": 2, "direction": "backward"}) == ([2, 1], None)
    assert got(**{"from": 10, "to": 20, "limit": 4}) == ([10, 11, 12, 13], 14)
    assert got(**{"from": 1000, "direction": "backward", "limit": 2}) == ([250, 249], 248)


def test_range_begins_at_the_floor(client, filled):
    client.call("timeline.trim", timeline=filled, before=200)
    assert sequences(client.call("message.range", timeline=filled, **{"from": 1})["messages"])[0] == 200
    back = client.call("message.range", timeline=filled, direction="backward", limit=1000)
    assert sequences(back["messages"]) == list(range(250, 199, -1)) and back.get("next") is None


def test_limits_are_clamped_or_refused(client, filled, refused):
    assert len(client.call("message.range", timeline=filled, limit=10**12)["messages"]) == 250
    refused(client, "message.range", -32602, field="limit", timeline=filled, limit=0)
    refused(client, "message.range", -32602, field="limit", timeline=filled, limit=-5)


def test_a_page_holds_at_most_1000(client, name):
    client.fill(name, 1_100)
    page = client.call("message.range", timeline=name, limit=5_000)
    assert len(page["messages"]) == 1_000 and page["next"] == 1_001


def test_columns(client, name):
    client.append(name, {"a": 1, "b": 2, "c": 3})
    page = client.call("message.range", timeline=name, columns=["a", "c", "nothing"])
    assert page["messages"][0]["entry"] == {"a": 1, "c": 3}


def test_no_frame_passes_one_mebibyte_and_a_page_holds_at_least_one(client, name):
    for _ in range(12):
        client.append(name, {"t": "x" * 200_000})
    got, at = [], {}
    while True:
        number = client.ask("message.range", timeline=name, limit=1_000, **at)
        text = client.socket.recv(60)
        assert len(text.encode()) <= 1 << 20
        import json

        page = json.loads(text)["result"]
        assert page["messages"] and json.loads(text)["id"] == number
        got += sequences(page["messages"])
        if page.get("next") is None:
            break
        at = {"from": page["next"]}
    assert got == list(range(1, 13))


def test_an_entry_at_its_limit_is_read_and_pushed_in_one_frame(client, other, name):
    other.call("subscribe", timeline=name)
    # Control characters are six bytes each in JSON: the entry's size counts the text.
    entry = {"t": "x" * 262_136}
    client.append(name, entry)
    assert client.call("message.get", timeline=name, sequence=1)["message"]["entry"] == entry
    assert other.messages(name, 1)[0]["entry"] == entry
