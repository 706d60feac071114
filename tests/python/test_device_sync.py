"""PROTOCOL.md, "Slice 2: people": `sync` by device, over all conversations from its stored positions."""

import time

from client import Client, room, sequences, until


def poll(client, **params):
    """The relay tells the user of a conversation soon."""
    deadline = time.monotonic() + 60
    while True:
        reply = client.call("sync", device="phone", **params)
        if reply["timelines"] or time.monotonic() > deadline:
            return reply
        time.sleep(0.02)


def acks(reply):
    return {
        name: {"epoch": one["epoch"], "after": one["position"], "changes_after": one["change_head"]}
        for name, one in reply["timelines"].items()
    }


def test_new_conversations_then_what_comes_behind_the_ack(ada, other, user, name):
    epoch = room(other, name, user, 30)
    new = poll(ada)["timelines"][name]
    assert new["state"] == "new" and sequences(new["messages"]) == list(range(11, 31))
    assert (new["position"], new["head"], new["epoch"]) == (30, 30, epoch)
    # A reply moves nothing: it comes again until it is acknowledged.
    again = ada.call("sync", device="phone", rewind=2)
    assert sequences(again["timelines"][name]["messages"]) == [29, 30]
    assert ada.call("sync", device="phone", ack=acks(again)) == {"timelines": {}, "more": False}
    other.append(name)
    other.call("message.update", timeline=name, sequence=3, set={"a": 2})
    news = ada.call("sync", device="phone")["timelines"][name]
    assert news["state"] == "ok" and sequences(news["messages"]) == [31] and sequences(news["changed"]) == [3]
    # Late acks do not move it back.
    late = {name: {"epoch": epoch, "after": 5}}
    assert sequences(ada.call("sync", device="phone", ack=late)["timelines"][name]["messages"]) == [31]
    assert ada.call("position.list", device="phone")["positions"][name]["after"] == 30
    # Another device is elsewhere.
    assert ada.call("sync", device="tablet")["timelines"][name]["state"] == "new"
    ada.call("position.set", device="tablet", positions={name: {"epoch": epoch, "after": 31}})
    assert ada.call("sync", device="tablet")["timelines"] == {}


def test_members_see_what_they_may(ada, other, user, name):
    room(other, name, user, 10, history=3)
    new = poll(ada)["timelines"][name]
    assert (new["state"], new["floor"], sequences(new["messages"])) == ("new", 8, [8, 9, 10])


def test_nothing_of_conversations_without_messages_or_of_others(ada, other, user, name):
    room(other, f"{name}/empty", user, 0)
    other.fill(f"{name}/not-mine", 3)
    room(other, name, user, 1)
    assert set(poll(ada)["timelines"]) == {name}


def test_a_removed_member_gets_no_more(ada, other, user, name):
    room(other, name, user, 3)
    ada.call("sync", device="phone", ack=acks(poll(ada)))
    other.call("member.remove", timeline=name, users=[user])
    until(lambda: other.append(name) and not ada.call("sync", device="phone")["timelines"])


def test_wait_wakes_at_a_message_and_at_a_new_conversation(ada, other, user, name):
    room(other, name, user, 1)
    seen = acks(poll(ada))
    number = ada.ask("sync", device="phone", ack=seen, wait_ms=20_000)
    time.sleep(0.2)
    other.append(name)
    news = ada.take(number)
    assert sequences(news["timelines"][name]["messages"]) == [2]
    number = ada.ask("sync", device="phone", ack=acks(news), wait_ms=20_000)
    time.sleep(0.2)
    room(other, f"{name}/b", user, 2)
    assert ada.take(number)["timelines"][f"{name}/b"]["state"] == "new"
    number = ada.ask("sync", device="phone", wait_ms=20_000, ack={f"{name}/b": acks(poll(ada))[f"{name}/b"]})
    time.sleep(0.2)
    # Of the conversation that was joined during a wait too.
    other.append(f"{name}/b")
    assert sequences(ada.take(number)["timelines"][f"{name}/b"]["messages"]) == [3]
    other.call("message.get", timeline=name, sequence=1)


def test_a_deleted_conversation_is_told_once(ada, other, user, name):
    room(other, name, user, 2)
    ada.call("sync", device="phone", ack=acks(poll(ada)))
    other.call("timeline.delete", timeline=name)
    assert ada.call("sync", device="phone")["timelines"][name]["state"] == "deleted"
    until(lambda: not ada.call("sync", device="phone")["timelines"])


def test_what_one_has_left_and_may_not_read_is_as_if_it_were_deleted(ada, other, user, name):
    epoch = room(other, name, user, 2)
    other.call("timeline.configure", timeline=name, settings={"members_only": True})
    ada.call("sync", device="phone", ack=acks(poll(ada)))
    other.call("member.remove", timeline=name, users=[user])
    other.append(name)
    # Other users get `timeline_not_found`, which in a sync is `deleted`: by device, too, until the relay has told the
    # user's list that it is no conversation of theirs any more.
    deadline = time.monotonic() + 60
    while told := ada.call("sync", device="phone")["timelines"]:
        assert (told[name]["state"], told[name]["messages"], told[name]["head"]) == ("deleted", [], 0)
        assert time.monotonic() < deadline
    for asked in [name, name + "?"]:
        position = {asked: {"after": 2, "epoch": epoch}}
        assert ada.call("sync", positions=position)["timelines"][asked]["state"] == "deleted"
    # Who comes back begins anew.
    other.call("member.add", timeline=name, members=[{"user": user}])
    assert sequences(poll(ada)["timelines"][name]["messages"])[-1] == 3


def test_positions_outlive_a_kill(own_server):
    own_server.start()
    with Client(own_server, user="ada") as ada:
        room(ada, "a", "ada", 5)
        ada.call("sync", device="phone", ack=acks(poll(ada)))
    own_server.kill()
    own_server.start()
    with Client(own_server, user="ada") as ada:
        assert ada.call("sync", device="phone")["timelines"] == {}
        ada.append("a")
        assert sequences(ada.call("sync", device="phone")["timelines"]["a"]["messages"]) == [6]


def test_a_user_is_needed(client, refused):
    refused(client, "sync", 401, "unauthenticated", device="phone")


def test_params(ada, refused):
    refused(ada, "sync", -32602, field="positions", device="phone", positions={})
    refused(ada, "sync", -32602, field="positions")
    refused(ada, "sync", -32602, field="device", device="")
    refused(ada, "sync", -32602, field="ack", positions={}, ack={})
    refused(ada, "sync", -32602, field="rewind", positions={}, rewind=1)
    refused(ada, "sync", -32602, field="ack.a.epoch", device="phone", ack={"a": {"after": 1}})
    assert ada.call("position.list") == {"devices": []}
