"""PROTOCOL.md, slice 2: what is unread, read positions, receipts, and what a member clears or hides."""

import pytest

from client import Client, sequences


@pytest.fixture
def room(server, name):
    """A room of ann and ben, who are connected; ann has posted five messages."""
    with Client(server, user="ann") as ann, Client(server, user="ben") as ben:
        ann.call("timeline.create", timeline=name)
        ann.fill(name, 5)
        ann.call("member.add", timeline=name, members=[{"user": "ann", "read": 0}, {"user": "ben", "read": 0}])
        yield name, ann, ben


def read(client, timeline, **marks):
    return client.call("read.set", timeline=timeline, **marks)["timelines"][timeline]


def unread(client, timeline):
    return read(client, timeline, received=0)["unread"]


def test_messages_of_others_are_unread_until_they_are_read(room):
    name, ann, ben = room
    assert read(ben, name, read=2) == {"read": 2, "received": 2, "unread": 3}
    ben.append(name)
    ann.append(name)
    assert unread(ben, name) == 4, "one's own do not count"
    assert unread(ann, name) == 1
    ann.call("message.delete", timeline=name, sequence=7)
    assert unread(ben, name) == 3, "nor do tombstones"
    assert read(ben, name, read=7)["unread"] == 0


def test_the_unread_of_an_old_timeline_are_right_from_the_first_member_on(client, server, name):
    client.fill(name, 150)
    client.call("message.delete", timeline=name, sequence=140)
    client.call("message.delete", timeline=name, sequence=3)
    with Client(server, user="cat") as cat:
        cat.call("member.add", timeline=name, members=[{"user": "cat", "read": 0}])
        assert unread(cat, name) == 148
        client.append(name)
        assert unread(cat, name) == 149
        assert read(cat, name, read=139)["unread"] == 11
        client.call("timeline.trim", timeline=name, before=150)
        assert read(cat, name, read=1, force=True)["unread"] == 2


def test_positions_go_forward_only_and_not_beyond_the_head(room):
    name, _, ben = room
    assert read(ben, name, read=3)["read"] == 3
    assert read(ben, name, read=1)["read"] == 3
    assert read(ben, name, received=99) == {"read": 3, "received": 5, "unread": 2}
    assert read(ben, name, read=99) == {"read": 5, "received": 5, "unread": 0}
    assert read(ben, name, read=1, force=True) == {"read": 1, "received": 5, "unread": 4}
    assert read(ben, name, received=0, force=True) == {"read": 1, "received": 1, "unread": 4}


def test_many_timelines_are_set_each_for_itself(room, client, server):
    name, ann, ben = room
    other, alien = f"{name}-2", f"{name}-3"
    for timeline in (other, alien):
        client.fill(timeline, 2)
    ann.call("member.add", timeline=other, members=[{"user": "ben", "read": 0}])
    epoch = ann.call("timeline.get", timeline=name)["epoch"]
    answer = ben.call(
        "read.set",
        positions={
            name: {"read": 4, "epoch": epoch},
            other: {"read": 1, "epoch": "other"},
            alien: {"read": 1},
            f"{name}-none": {"received": 1},
        },
    )
    assert answer["timelines"] == {
        name: {"read": 4, "received": 4, "unread": 1},
        other: {"reason": "epoch_changed"},
        alien: {"reason": "not_a_member"},
        f"{name}-none": {"reason": "timeline_not_found"},
    }
    assert unread(ben, other) == 2


def test_read_set_params(room, client, refused):
    name, _, ben = room
    refused(client, "read.set", 401, "unauthenticated", timeline=name, read=1)
    refused(ben, "read.set", -32602, timeline=name)
    refused(ben, "read.set", -32602)
    refused(ben, "read.set", -32602, positions={})
    refused(ben, "read.set", -32602, timeline=name, read=1, positions={name: {"read": 1}})
    refused(ben, "read.set", -32602, field="read", timeline=name, read=2**53)
    refused(ben, "read.set", -32602, field=f"positions.{name}.read", positions={name: {}})
    many = {f"t{number}": {"read": 1} for number in range(1_001)}
    error = refused(ben, "read.set", 413, "too_many", field="positions", positions=many)
    assert (error.data["limit"], error.data["actual"]) == (1_000, 1_001)


def test_who_got_a_message(room, server, refused):
    name, ann, ben = room
    read(ann, name, read=5)
    read(ben, name, read=1, received=4)
    listed = ann.call("receipt.list", timeline=name, sequence=4)
    assert listed == {
        "read_count": 1,
        "received_count": 2,
        "members": [{"user": "ann", "read": 5, "received": 5}, {"user": "ben", "read": 1, "received": 4}],
    }
    page = ann.call("receipt.list", timeline=name, sequence=4, limit=1)
    assert page["next"] == "ann" and page["received_count"] == 2
    page = ann.call("receipt.list", timeline=name, sequence=4, limit=1, after=page["next"])
    assert [member["user"] for member in page["members"]] == ["ben"] and "next" not in page
    assert ann.call("receipt.list", timeline=name, sequence=5)["received_count"] == 1
    refused(ann, "receipt.list", 404, "message_not_found", timeline=name, sequence=6)
    members = [{"user": f"user-{number}"} for number in range(999)]
    ann.call("member.add", timeline=name, members=members)
    error = refused(ann, "receipt.list", 413, "too_many", timeline=name, sequence=4)
    assert (error.data["limit"], error.data["actual"]) == (1_000, 1_001)


def test_what_is_cleared_is_shown_to_nobody_but_the_others(room, refused):
    name, ann, ben = room
    assert ben.call("conversation.clear", timeline=name, before=3) == {"cleared": 2, "unread": 3}
    page = ben.call("message.range", timeline=name)
    assert page["floor"] == 3 and sequences(page["messages"]) == [3, 4, 5]
    refused(ben, "message.get", 404, "message_not_found", timeline=name, sequence=2)
    assert sequences(ann.call("message.range", timeline=name)["messages"]) == [1, 2, 3, 4, 5]
    assert ben.call("conversation.clear", timeline=name, before=1)["cleared"] == 2, "nothing comes back"
    assert ben.call("conversation.clear", timeline=name) == {"cleared": 5, "unread": 0}
    assert ben.call("message.range", timeline=name)["messages"] == []
    ann.append(name)
    assert sequences(ben.call("message.range", timeline=name)["messages"]) == [6]


def test_hidden_messages_come_as_tombstones_on_all_devices_of_who_hid_them(room, server):
    name, ann, ben = room
    assert ben.call("message.hide", timeline=name, sequences=[4, 2, 4, 99]) == {"hidden": 2}
    assert ben.call("message.hide", timeline=name, sequences=[2, 5]) == {"hidden": 1}
    assert ben.call("message.hidden", timeline=name) == {"sequences": [4, 2, 5]}
    page = ben.call("message.hidden", timeline=name, limit=2)
    assert page == {"sequences": [4, 2], "next": 2}
    assert ben.call("message.hidden", timeline=name, after=page["next"]) == {"sequences": [5]}
    assert unread(ben, name) == 2
    with Client(server, user="ben") as phone:
        message = phone.call("message.get", timeline=name, sequence=4)["message"]
        assert message["hidden"] and message["deleted"] and "entry" not in message
        replies = [
            phone.call("message.range", timeline=name),
            phone.call("subscribe", timeline=name, after=0),
            phone.call("sync", positions={name: 0})["timelines"][name],
        ]
    for reply in replies:
        hidden = [message["sequence"] for message in reply["messages"] if message.get("hidden")]
        assert hidden == [2, 4, 5] and len(reply["messages"]) == 5
        assert all(("entry" in message) != (message.get("hidden", False)) for message in reply["messages"])
    assert not any("hidden" in message for message in ann.call("message.range", timeline=name)["messages"])


def test_a_hidden_message_stays_hidden_when_it_is_edited(room):
    name, ann, ben = room
    ben.call("message.hide", timeline=name, sequences=[3])
    ann.call("message.update", timeline=name, sequence=3, set={"text": "again"})
    changed = ben.call("sync", positions={name: {"after": 5, "changes_after": 0}})["timelines"][name]["changed"]
    assert [message["sequence"] for message in changed] == [3]
    assert changed[0]["hidden"] and "entry" not in changed[0]


def test_hide_params(room, client, refused):
    name, _, ben = room
    refused(client, "message.hide", 401, "unauthenticated", timeline=name, sequences=[1])
    refused(client, "message.hidden", 401, "unauthenticated", timeline=name)
    refused(client, "conversation.clear", 401, "unauthenticated", timeline=name)
    refused(ben, "message.hide", -32602, field="sequences", timeline=name, sequences=[])
    refused(ben, "message.hide", -32602, field="sequences[1]", timeline=name, sequences=[1, 0])
    many = list(range(1, 10_002))
    refused(ben, "message.hide", 413, "too_many", timeline=name, sequences=many)
    ben.call("timeline.create", timeline=f"{name}-2")
    for method, params in [("message.hide", {"sequences": [1]}), ("message.hidden", {}), ("conversation.clear", {})]:
        refused(ben, method, 403, "not_a_member", timeline=f"{name}-2", **params)
        missing = "conversation_not_found" if method == "conversation.clear" else "timeline_not_found"
        refused(ben, method, 404, missing, timeline=f"{name}-none", **params)


def test_ten_thousand_messages_can_be_hidden_and_no_more(client, server, name, refused):
    client.append(name)
    with Client(server, user="cat") as cat:
        cat.call("member.add", timeline=name, members=[{"user": "cat", "read": 0}])
        for _ in range(101):
            client.call("message.append_batch", timeline=name, messages=[{"entry": {}}] * 100)
        everything = list(range(1, 10_001))
        assert cat.call("message.hide", timeline=name, sequences=everything) == {"hidden": 10_000}
        assert cat.call("message.hide", timeline=name, sequences=everything) == {"hidden": 0}
        error = refused(cat, "message.hide", 413, "too_many", timeline=name, sequences=[10_001, 10_002])
        assert (error.data["limit"], error.data["actual"]) == (10_000, 10_002)
        assert unread(cat, name) == 101


def test_who_comes_back_has_hidden_and_cleared_nothing(room):
    name, ann, ben = room
    ben.call("message.hide", timeline=name, sequences=[4])
    ben.call("conversation.clear", timeline=name, before=3)
    read(ben, name, read=4)
    ann.call("member.remove", timeline=name, users=["ben"])
    ann.call("member.add", timeline=name, members=[{"user": "ben", "read": 0}])
    assert ben.call("message.hidden", timeline=name) == {"sequences": []}
    assert unread(ben, name) == 5
    assert len(ben.call("message.range", timeline=name)["messages"]) == 5
