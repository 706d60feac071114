"""PROTOCOL.md, "Slice 2: people": the user's list of conversations."""

import uuid

import pytest

from client import Client, me


def test_without_conversations_everything_is_empty(ada):
    listed = ada.call("conversation.list")
    assert listed["conversations"] == [] and "next" not in listed
    synced = ada.call("conversation.sync", cursor=listed["cursor"])
    assert synced["conversations"] == [] and synced["removed"] == [] and synced["done"] and "reset" not in synced
    synced = ada.call("conversation.sync")
    assert synced["conversations"] == [] and synced["done"]
    assert ada.call("conversation.count") == {"conversations": 0, "unread_conversations": 0, "unread": 0, "mentions": 0}


def test_what_is_no_conversation_is_not_found(ada, name, refused):
    ada.call("message.append", timeline=name, entry={"text": "hello"})
    for conversation in [name, f"no-{name}"]:
        refused(ada, "conversation.get", 404, "conversation_not_found", timeline=conversation)
        refused(ada, "conversation.update", 404, "conversation_not_found", timeline=conversation, set={"pinned": True})
        refused(ada, "conversation.hide", 404, "conversation_not_found", timeline=conversation)
    assert ada.call("conversation.list")["conversations"] == []


def test_a_user_is_needed(client, name, refused):
    for method, params in [
        ("conversation.list", {}),
        ("conversation.sync", {}),
        ("conversation.count", {}),
        ("conversation.get", {"timeline": name}),
        ("conversation.update", {"timeline": name, "set": {"a": 1}}),
        ("conversation.hide", {"timeline": name}),
    ]:
        refused(client, method, 401, "unauthenticated", **params)


def test_a_cursor_of_another_user_or_of_nobody_is_refused(ada, server, refused):
    cursor = ada.call("conversation.list")["cursor"]
    assert len(cursor) <= 4096
    with Client(server, user="somebody-else") as other:
        refused(other, "conversation.sync", -32602, field="cursor", cursor=cursor)
    for wrong in ["", "x", cursor[1:], cursor + "A"]:
        refused(ada, "conversation.sync", -32602, field="cursor", cursor=wrong)
        refused(ada, "conversation.list", -32602, field="after", after=wrong)
    # Each for its own.
    refused(ada, "conversation.list", -32602, field="after", after=cursor)
    refused(ada, "conversation.sync", -32602, field="cursor", cursor="x" * 4097)


def test_params(ada, name, refused):
    for method in ["conversation.list", "conversation.sync"]:
        refused(ada, method, -32602, limit=0)
        refused(ada, method, -32602, field="columns", columns=["x"] * 129)
        assert ada.call(method, limit=10**9)["conversations"] == []
    refused(ada, "conversation.list", -32602, filter={"unred": True})
    refused(ada, "conversation.list", 413, "too_large", field="filter.attributes", filter={"attributes": {"x": "y" * 17_000}})
    refused(ada, "conversation.update", -32602, timeline=name)
    refused(ada, "conversation.update", -32602, field="set.a", timeline=name, set={"a": 1}, remove=["a"])
    refused(ada, "conversation.update", -32602, timeline=name, set={"$a": 1})
    for method in ["conversation.get", "conversation.hide"]:
        refused(ada, method, -32602, timeline="")


def test_a_sync_waits_for_news_and_not_in_a_batch(ada):
    cursor = ada.call("conversation.list")["cursor"]
    assert ada.call("conversation.sync", cursor=cursor, wait_ms=50)["done"]
    ada.send([{"jsonrpc": "2.0", "id": 1, "method": "conversation.sync", "params": {"wait_ms": 5}}])
    [reply] = ada.receive()
    assert reply["error"]["data"]["field"] == "wait_ms"


@pytest.fixture
def ben(server):
    with Client(server, user=f"ben-{uuid.uuid4()}") as connected:
        yield connected


def names(listed):
    return [one["timeline"] for one in listed["conversations"]]


def test_a_list_shows_at_once_what_its_connection_has_changed(ada, name):
    for number in range(5):
        room = f"{name}-{number}"
        ada.call("timeline.create", timeline=room)
        ada.call("member.add", timeline=room, members=[{"user": me(ada)}])
        assert room in names(ada.call("conversation.list"))
    assert names(ada.call("conversation.list")) == [f"{name}-{number}" for number in (4, 3, 2, 1, 0)]
    ada.call("member.remove", timeline=f"{name}-3", users=[me(ada)])
    assert f"{name}-3" not in names(ada.call("conversation.list"))
    assert ada.call("conversation.count")["conversations"] == 4
    ada.call("timeline.delete", timeline=f"{name}-4")
    # A membership that has ended never shows.
    assert names(ada.call("conversation.list")) == [f"{name}-{number}" for number in (2, 1, 0)]


def test_a_list_shows_at_once_what_its_user_has_made_and_set_back(ada, ben, name):
    for number in range(20):
        ada.call("timeline.create", timeline=f"{name}-{number}", settings={"members_only": True})
        assert ada.call("conversation.count")["conversations"] == number + 1
    ada.call("member.add", timeline=f"{name}-0", members=[{"user": me(ben)}])
    ben.append(f"{name}-0", {"text": "hello"})
    for _ in range(20):
        ada.call("read.set", timeline=f"{name}-0", read=1)
        # The list waits for this one, and so for the other, too.
        ada.call("member.add", timeline=f"{name}-0", members=[{"user": me(ben)}])
        assert ada.call("conversation.count")["unread"] == 0
        ada.call("read.set", timeline=f"{name}-0", read=0, force=True)
        assert ada.call("conversation.count")["unread"] == 1
        assert names(ada.call("conversation.list", filter={"unread": True})) == [f"{name}-0"]


def test_a_conversation_shows_the_timeline_and_my_side(ada, ben, name):
    ada.call("timeline.create", timeline=name, meta={"title": "Lunch"})
    ada.call("member.add", timeline=name, members=[{"user": me(ada)}, {"user": me(ben), "role": "owner"}])
    ada.append(name, {"text": "one"})
    ada.append(name, {"text": "two", "mentions": [me(ben)]})
    ada.call("conversation.list")
    [shown] = ben.call("conversation.list", columns=["text"])["conversations"]
    assert shown["timeline"] == name and shown["meta"] == {"title": "Lunch"} and shown["role"] == "owner"
    assert (shown["head"], shown["unread"], shown["mentions"], shown["members_count"]) == (2, 2, 1, 2)
    assert shown["last_message"]["entry"] == {"text": "two"} and shown["last_at"] == shown["last_message"]["timestamp"]
    assert shown["attributes"] == {} and shown["hidden"] is False and "peer" not in shown
    assert ben.call("conversation.count") == {"conversations": 1, "unread_conversations": 1, "unread": 2, "mentions": 1}
    assert ben.call("conversation.update", timeline=name, set={"muted": True, "n": 1}) == {"attributes": {"muted": True, "n": 1}}
    assert ben.call("conversation.update", timeline=name, remove=["n"]) == {"attributes": {"muted": True}}
    # Muted ones count by mentions only.
    assert ben.call("conversation.count")["unread"] == 1
    # Mine alone.
    assert ada.call("conversation.get", timeline=name)["conversation"]["attributes"] == {}
    assert ben.call("conversation.hide", timeline=name) == {"hidden": True}
    assert ben.call("conversation.list")["conversations"] == []
    assert ben.call("conversation.get", timeline=name)["conversation"]["hidden"] is True
    ada.append(name, {"text": "three"})
    assert names(ben.call("conversation.list")) == [name]
    # Leaving ends my side, too.
    ben.call("member.remove", timeline=name, users=[me(ben)])
    ben.call("member.add", timeline=name, members=[{"user": me(ben)}])
    [shown] = ben.call("conversation.list")["conversations"]
    assert shown["attributes"] == {} and shown["unread"] == 0


def test_a_sync_tells_what_changed_and_what_is_gone(ada, ben, name):
    rooms = [f"{name}-{number}" for number in range(3)]
    for room in rooms:
        ada.call("timeline.create", timeline=room, members=[{"user": me(ada)}, {"user": me(ben)}])
    cursor = ada.call("conversation.list")["cursor"]
    while (synced := ada.call("conversation.sync", cursor=cursor))["conversations"]:
        cursor = synced["cursor"]
    waiting = ada.ask("conversation.sync", cursor=cursor, wait_ms=10_000)
    ben.append(rooms[1], {"text": "hello"})
    synced = ada.take(waiting)
    assert names(synced) == [rooms[1]] and synced["removed"] == [] and synced["done"]
    assert synced["conversations"][0]["unread"] == 1
    # My read position moves it, soon.
    waiting = ada.ask("conversation.sync", cursor=synced["cursor"], wait_ms=10_000)
    ada.call("read.set", timeline=rooms[1], read=1)
    synced = ada.take(waiting)
    assert names(synced) == [rooms[1]] and synced["conversations"][0]["unread"] == 0
    waiting = ada.ask("conversation.sync", cursor=synced["cursor"], wait_ms=10_000)
    ben.call("member.remove", timeline=rooms[2], users=[me(ada)])
    assert ada.take(waiting)["removed"] == [rooms[2]]
    ben.call("timeline.delete", timeline=rooms[0])
    assert rooms[0] in ada.call("conversation.sync", cursor=synced["cursor"])["removed"]


def test_pages_of_a_list_and_of_a_sync_hold_each_once(ada, name):
    rooms = {f"{name}-{number}" for number in range(7)}
    for room in rooms:
        ada.call("timeline.create", timeline=room, members=[{"user": me(ada)}])
    ada.call("conversation.update", timeline=f"{name}-2", set={"pinned": True})
    listed = ada.call("conversation.list", limit=3)
    found = names(listed)
    assert found[0] == f"{name}-2"
    while "next" in listed:
        listed = ada.call("conversation.list", limit=3, after=listed["next"])
        found += names(listed)
    assert len(found) == 7 and set(found) == rooms
    synced = ada.call("conversation.sync", limit=2)
    found = names(synced)
    while not synced["done"]:
        synced = ada.call("conversation.sync", limit=2, cursor=synced["cursor"])
        found += names(synced)
    assert len(found) == 7 and set(found) == rooms
    assert names(ada.call("conversation.list", filter={"attributes": {"pinned": True}})) == [f"{name}-2"]


def test_a_direct_conversation_is_one_of_two(ada, ben, server, refused, client):
    made = ada.call("conversation.direct", user=me(ben))
    assert made["created"] and made["timeline"] == "direct/" + "/".join(sorted([me(ada), me(ben)]))
    again = ben.call("conversation.direct", user=me(ada))
    assert again == {**made, "created": False}
    [shown] = ada.call("conversation.list")["conversations"]
    assert shown["peer"] == me(ben) and shown["members_count"] == 2
    ada.append(made["timeline"], {"text": "hello"})
    # Others get nothing of it.
    with Client(server, user=f"cay-{uuid.uuid4()}") as other:
        refused(other, "message.range", 404, "timeline_not_found", timeline=made["timeline"])
    # Who has left comes back by asking; the other one is not brought back.
    ada.call("member.remove", timeline=made["timeline"], users=[me(ada)])
    assert ada.call("conversation.list")["conversations"] == []
    assert not ada.call("conversation.direct", user=me(ben))["created"]
    assert names(ada.call("conversation.list")) == [made["timeline"]]
    refused(ada, "conversation.direct", -32602, field="user", user=me(ada))
    refused(ada, "conversation.direct", -32602, field="user", user="x" * 129)
    refused(client, "conversation.direct", 401, "unauthenticated", user="ben")


def test_lists_outlive_a_kill(own_server):
    own_server.start()
    with Client(own_server, user="ada") as ada:
        for number in range(20):
            ada.call("timeline.create", timeline=f"room-{number}", members=[{"user": "ada"}, {"user": "ben"}])
    own_server.kill()
    own_server.start()
    with Client(own_server, user="ben") as ben:
        synced = ben.call("conversation.sync")
        while len(synced["conversations"]) < 20:
            more = ben.call("conversation.sync", cursor=synced["cursor"], wait_ms=5_000)
            synced = {**more, "conversations": synced["conversations"] + more["conversations"]}
        assert set(names(synced)) == {f"room-{number}" for number in range(20)}


def test_muted_conversations_leave_the_totals_when_asked(ada, client, name):
    user = ada.call("session.open")["user"]
    for number, muted in enumerate([True, False, 1, 1 << 50]):
        timeline = f"{name}/{number}"
        client.call("timeline.create", timeline=timeline, members=[{"user": user, "read": 0}])
        client.call("message.append", timeline=timeline, entry={"mentions": [user]})
        ada.call("conversation.update", timeline=timeline, set={"muted": muted})
    count = lambda **filter: ada.call("conversation.count", filter=filter)
    all_of_them = {"conversations": 4, "unread_conversations": 4, "unread": 4, "mentions": 4}
    assert count() == all_of_them
    # The third was muted until a time that is over.
    assert count(muted=False) == {name: value // 2 for name, value in all_of_them.items()} == count(muted=True)
    assert count(muted=False, attributes={"muted": False})["conversations"] == 1
    listed = lambda **filter: sorted(one["timeline"][-1] for one in ada.call("conversation.list", filter=filter)["conversations"])
    assert (listed(muted=True), listed(muted=False)) == (["0", "3"], ["1", "2"])
