"""PROTOCOL.md, Slice 2: members_only and a member's own floor, on every method, page, catch-up, sync and push."""

import contextlib
import os
import time

import pytest

from client import Client, Refused, sequences

# Needs a binary with the feature `faults`; tests/suites/protocol.rs says whether it is one.
faulty = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")


def calls(name):
    return [
        ("timeline.create", {}),
        ("timeline.get", {}),
        ("timeline.update", {"meta": {"a": 1}}),
        ("timeline.configure", {"settings": {"members_only": False}}),
        ("timeline.trim", {"before": 2}),
        ("member.add", {"members": [{"user": "ben"}]}),
        ("member.update", {"user": "ann", "role": "x"}),
        ("member.remove", {"users": ["ann"]}),
        ("member.get", {"user": "ann"}),
        ("member.list", {}),
        ("message.append", {"entry": {}}),
        ("message.append", {"entry": {}, "create": False}),
        ("message.append_batch", {"messages": [{"entry": {}}]}),
        ("message.get", {"sequence": 1}),
        ("message.range", {}),
        ("message.update", {"sequence": 1, "set": {"a": 1}}),
        ("message.delete", {"sequence": 1}),
        ("message.recall", {"sequence": 1}),
        ("message.extend", {"sequence": 1, "part": 1, "text": "x"}),
        ("message.finish", {"sequence": 1, "parts": 0}),
        ("message.stop", {"sequence": 1}),
        ("subscribe", {}),
        ("subscribe", {"after": 0, "create": False}),
    ]


def test_to_others_the_timeline_does_not_exist(client, ann, ben, name, refused):
    client.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": "ann"}])
    ann.fill(name, 3)
    for method, params in calls(name):
        hidden = refused(ben, method, 404, "timeline_not_found", timeline=name, **params)
        if method not in ("timeline.create", "message.append", "message.append_batch", "subscribe"):
            unknown = refused(ben, method, 404, "timeline_not_found", timeline=name + "?", **params)
            assert (hidden.message, hidden.data) == (unknown.message, unknown.data)
    assert ben.call("timeline.delete", timeline=name) == {"deleted": False}
    # With an epoch, too: it does not count before the right to read does.
    epoch = client.call("timeline.get", timeline=name)["epoch"]
    refused(ben, "timeline.get", 404, "timeline_not_found", timeline=name, epoch="Another1")
    refused(ben, "message.append", 404, "timeline_not_found", timeline=name, epoch="Another1", entry={})
    refused(ben, "message.append", 409, "epoch_changed", timeline=name + "?", epoch="Another1", entry={})
    # It is left out of lists, and says nothing in sync.
    assert ben.call("timeline.list", prefix=name) == {"timelines": []}
    assert [one["timeline"] for one in ann.call("timeline.list", prefix=name)["timelines"]] == [name]
    assert ben.call("sync", positions={name: 0}) == {"timelines": {}, "more": False}
    for position in [{"after": 3, "epoch": epoch}, 3, 2]:
        told = ben.call("sync", positions={name: position})["timelines"][name]
        assert (told["state"], told["messages"], told["head"]) == ("deleted", [], 0)
    # A member and a back end are let in; nothing was done meanwhile.
    for connected in (ann, client):
        assert connected.call("timeline.get", timeline=name)["head"] == 3
        assert connected.call("timeline.get", timeline=name)["members_count"] == 1
        page = connected.call("message.range", timeline=name)
        assert sequences(page["messages"]) == [1, 2, 3]
    assert ann.call("sync", positions={name: {"after": 3, "epoch": epoch}}) == {"timelines": {}, "more": False}


def test_a_member_has_a_floor_of_their_own(client, ann, ben, name, refused):
    client.fill(name, 10)
    client.call("message.update", timeline=name, sequence=2, set={"a": 1})
    client.call("message.update", timeline=name, sequence=8, set={"a": 1})
    client.call("member.add", timeline=name, members=[{"user": "ann"}], history=4)
    for user in (ben, client):
        assert user.call("timeline.get", timeline=name)["floor"] == 1
    got = ann.call("timeline.get", timeline=name)
    assert (got["floor"], got["head"]) == (7, 10)
    assert ann.call("timeline.list", prefix=name)["timelines"][0]["floor"] == 7
    assert ann.call("timeline.create", timeline=name)["created"] is False
    page = ann.call("message.range", timeline=name, limit=2)
    assert (sequences(page["messages"]), page["floor"], page["next"]) == ([7, 8], 7, 9)
    assert sequences(ann.call("message.range", timeline=name, to=1)["messages"]) == []
    assert sequences(ann.call("message.range", timeline=name, direction="backward")["messages"]) == [10, 9, 8, 7]
    for sequence in (6, 2):
        for method, params in [("message.get", {}), ("message.update", {"set": {"x": 1}}), ("message.delete", {})]:
            refused(ann, method, 404, "message_not_found", timeline=name, sequence=sequence, **params)
    told = ann.call("sync", positions={name: {"after": 3, "changes_after": 0}})["timelines"][name]
    assert (told["state"], sequences(told["messages"]), told["floor"]) == ("too_old", [7, 8, 9, 10], 7)
    told = ann.call("sync", positions={name: {"after": 9, "changes_after": 0}})["timelines"][name]
    assert (told["state"], sequences(told["messages"]), sequences(told["changed"])) == ("ok", [10], [8])
    reply = ann.call("subscribe", timeline=name, after=2, changes_after=0)
    assert (reply["state"], sequences(reply["messages"]), reply["floor"]) == ("too_old", [7, 8, 9, 10], 7)
    # A trim moves the floor of all; below one's own it shows nothing.
    assert ann.call("timeline.trim", timeline=name, before=3) == {"floor": 7}
    assert client.call("timeline.get", timeline=name)["floor"] == 3
    assert client.call("timeline.trim", timeline=name, before=9) == {"floor": 9}
    assert ann.call("timeline.get", timeline=name)["floor"] == 9


def test_changes_below_ones_floor_are_not_pushed(client, ann, ben, name):
    client.fill(name, 10)
    client.call("member.add", timeline=name, members=[{"user": "ann"}], history=4)
    client.call("member.add", timeline=name, members=[{"user": "ben"}])
    for user in (ann, ben):
        user.call("subscribe", timeline=name, after=10)
    client.call("message.update", timeline=name, sequence=2, set={"a": 1})
    client.call("message.update", timeline=name, sequence=8, set={"a": 1})

    def changed(user, count):
        got = []
        while len(got) < count:
            got += sequences(user.push("message.changed")["messages"])
        return got

    assert changed(ben, 2) == [2, 8]
    assert changed(ann, 1) == [8]
    ann.quiet()


def test_who_joins_with_less_history_sees_no_more_of_it(client, ann, name):
    client.fill(name, 5)
    ann.call("subscribe", timeline=name, after=5)
    client.call("member.add", timeline=name, members=[{"user": "ann"}], history="none")
    client.call("message.update", timeline=name, sequence=3, set={"a": 1})
    client.append(name)
    assert sequences(ann.messages(name, 1)) == [6]
    client.call("message.update", timeline=name, sequence=6, set={"a": 1})
    assert sequences(ann.push("message.changed")["messages"]) == [6]
    ann.quiet()


def test_removal_ends_a_subscription(client, ann, ben, name):
    settings = {"members_only": True}
    members = [{"user": "ann"}, {"user": "ben"}]
    epoch = client.call("timeline.create", timeline=name, settings=settings, members=members)["epoch"]
    for user in (ann, ben):
        user.call("subscribe", timeline=name)
    client.append(name)
    assert sequences(ann.messages(name, 1)) == sequences(ben.messages(name, 1)) == [1]
    client.call("member.remove", timeline=name, users=["ben"], announce={"text": "ben was removed"})
    client.append(name)
    client.call("timeline.update", timeline=name, meta={"a": 1})
    ended = ben.push("subscription.ended")
    assert ended == {"timeline": name, "epoch": epoch, "reason": "forbidden", "resubscribe": False}
    ben.quiet()
    assert sequences(ann.messages(name, 2)) == [2, 3]
    # A subscription that ended leaves room for another one.
    client.call("member.add", timeline=name, members=[{"user": "ben"}], history="none")
    reply = ben.call("subscribe", timeline=name)
    assert (reply["head"], reply["floor"]) == (3, 4)
    client.append(name)
    assert sequences(ben.messages(name, 1)) == [4]


def test_nothing_newer_than_the_removal_is_pushed(client, server, name):
    """Many removals, each amid appends: what was pushed ends at the removal."""
    client.call("timeline.create", timeline=name, settings={"members_only": True})
    for turn in range(20):
        user = f"u{turn}"
        client.call("member.add", timeline=name, members=[{"user": user}])
        with Client(server, user=user) as reader:
            reader.call("subscribe", timeline=name)
            numbers = [client.ask("message.append", timeline=name, entry={"n": n}) for n in range(turn)]
            removal = client.ask("member.remove", timeline=name, users=[user], announce={"gone": user})
            numbers += [client.ask("message.append", timeline=name, entry={"n": n}) for n in range(5)]
            last = client.take(removal)["sequence"]
            [client.take(number) for number in numbers]
            while True:
                push = reader.push()
                if push["method"] == "subscription.ended":
                    assert push["params"]["reason"] == "forbidden"
                    break
                assert push["method"] == "message"
                assert push["params"]["messages"][-1]["sequence"] < last
            reader.quiet(0.02)


def test_closing_a_timeline_to_others_ends_theirs(client, ann, ben, name):
    client.call("timeline.create", timeline=name, members=[{"user": "ann"}])
    for user in (ann, ben):
        user.call("subscribe", timeline=name)
    client.call("timeline.configure", timeline=name, settings={"members_only": True})
    client.append(name)
    assert ben.push("subscription.ended")["reason"] == "forbidden"
    assert sequences(ann.messages(name, 1)) == [1]
    client.call("timeline.configure", timeline=name, settings={"members_only": None})
    assert ben.call("subscribe", timeline=name)["head"] == 1
    # Where others may read, leaving ends no subscription.
    client.call("member.remove", timeline=name, users=["ann"])
    client.append(name)
    assert sequences(ann.messages(name, 1)) == sequences(ben.messages(name, 1)) == [2]


def test_a_waiting_sync_learns_of_a_removal_and_of_a_joining(client, ben, name):
    settings = {"members_only": True}
    client.call("timeline.create", timeline=name, settings=settings, members=[{"user": "ben"}])
    client.append(name)
    waiting = ben.ask("sync", positions={name: 1}, wait_ms=10_000)
    ben.call("ping")
    client.call("member.remove", timeline=name, users=["ben"])
    assert ben.take(waiting)["timelines"][name]["state"] == "deleted"
    waiting = ben.ask("sync", positions={name: 0}, wait_ms=10_000)
    ben.call("ping")
    client.append(name)
    client.call("member.add", timeline=name, members=[{"user": "ben"}])
    told = ben.take(waiting)["timelines"][name]
    assert (told["state"], sequences(told["messages"])) == ("ok", [1, 2])


def test_a_deleted_timeline_ends_as_before(client, ann, name):
    client.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": "ann"}])
    ann.call("subscribe", timeline=name)
    client.call("timeline.delete", timeline=name)
    assert ann.push("subscription.ended")["reason"] == "deleted"


def test_a_writer_is_asked_at_the_place_of_the_write(client, ben, name):
    """Of many appends amid joining and leaving exactly those between the two are taken."""
    client.call("timeline.create", timeline=name, settings={"members_only": True})
    for _ in range(20):
        client.call("member.add", timeline=name, members=[{"user": "ben"}])
        assert ben.append(name)["duplicate"] is False
        client.call("member.remove", timeline=name, users=["ben"])
        with pytest.raises(Refused) as caught:
            ben.append(name)
        assert caught.value.reason == "timeline_not_found"


def test_what_is_cleared_is_not_pushed(client, ann, ben, name):
    members = [{"user": "ann"}, {"user": "ben"}]
    client.call("timeline.create", timeline=name, settings={"members_only": True}, members=members)
    client.fill(name, 10)
    for user in (ann, ben):
        user.call("subscribe", timeline=name, after=10)
    assert ann.call("conversation.clear", timeline=name, before=8)["cleared"] == 7
    client.call("message.update", timeline=name, sequence=3, set={"a": 1})
    client.call("message.update", timeline=name, sequence=9, set={"a": 1})
    client.append(name)
    assert sequences(ann.push("message.changed")["messages"]) == [9]
    assert sequences(ann.messages(name, 1)) == [11]
    ann.quiet()
    told = []
    while len(told) < 3:
        # Both edits may come together.
        told += sequences(ben.push()["params"]["messages"])
    assert told == [3, 9, 11]


def test_a_subscription_that_is_behind_goes_on_above_what_was_cleared(client, ann, name):
    client.call("timeline.create", timeline=name, members=[{"user": "ann"}])
    client.fill(name, 400)
    reply = ann.call("subscribe", timeline=name, after=0, limit=1)
    assert (sequences(reply["messages"]), reply["more"]) == ([1], True)
    cleared = ann.ask("conversation.clear", timeline=name, before=390)
    ann.take(cleared)
    before = [push for push in ann.pushes if push["method"] == "message"]
    ann.pushes.clear()
    reached = max([1] + [one["sequence"] for push in before for one in push["params"]["messages"]])
    client.append(name)
    rest = sequences(ann.messages(name, 401 - max(reached, 389)))
    assert rest == list(range(max(reached, 389) + 1, 402))
    ann.quiet()


def test_a_removal_ends_what_is_asked_for_by_with_too(client, ann, ben, name):
    members = [{"user": "ann"}, {"user": "ben"}]
    client.call("timeline.create", timeline=name, settings={"members_only": True}, members=members)
    for user in (ann, ben):
        user.call("subscribe", timeline=name, **{"with": ["signals", "members"]})
    client.call("member.remove", timeline=name, users=["ben"])
    ann.call("signal", timeline=name, signal={"a": 1})
    assert ben.push()["method"] == "subscription.ended"
    ben.quiet()


def test_a_removal_is_heard_however_many_there_are(client, ann, ben, name):
    others = [{"user": f"u{n}"} for n in range(200)]
    members = [{"user": "ann"}, {"user": "ben"}, *others]
    client.call("timeline.create", timeline=name, settings={"members_only": True}, members=members)
    for user in (ann, ben):
        user.call("subscribe", timeline=name)
    client.call("member.remove", timeline=name, users=["ben", *(one["user"] for one in others)])
    client.append(name)
    assert ben.push()["params"]["reason"] == "forbidden"
    assert sequences(ann.messages(name, 1)) == [1]


def until_the_end(user):
    """What a user is pushed before their subscription ends."""
    told = []
    while (push := user.push())["method"] != "subscription.ended":
        told.append(push)
    assert push["params"]["reason"] == "forbidden"
    user.quiet()
    return told


@faulty
def test_nothing_that_is_said_after_a_removal_reaches_the_removed_or_comes_from_them(own_server, name):
    """However late the feed tells of the removal."""
    own_server.environment = {"TIDELINE_FAULT": "late_feed"}
    own_server.start()
    with Client(own_server, user="ann") as ann, Client(own_server, user="ben") as ben:
        members = [{"user": "ann"}, {"user": "ben"}]
        ann.call("timeline.create", timeline=name, settings={"members_only": True}, members=members)
        for user in (ann, ben):
            user.call("subscribe", timeline=name, **{"with": ["signals"]})
        for number in range(5):
            ann.call("signal", timeline=name, signal={"n": number})
        assert [ben.push("signal")["signal"] for _ in range(5)] == [{"n": number} for number in range(5)]
        ann.call("member.remove", timeline=name, users=["ben"])
        # One that does not subscribe sends one, too.
        with Client(own_server, user="ann") as phone:
            phone.call("signal", timeline=name, signal={"late": True})
        ann.call("signal", timeline=name, signal={"late": True})
        # Refused, or sent to nobody, by what his session has heard.
        with contextlib.suppress(Refused):
            ben.call("signal", timeline=name, signal={"late": True})
        assert until_the_end(ben) == []
        assert ann.push("signal") == {"timeline": name, "user": "ann", "signal": {"late": True}}
        ann.quiet()


@faulty
def test_who_comes_after_a_removal_is_not_shown_to_the_removed(own_server, name):
    own_server.environment = {"TIDELINE_FAULT": "late_feed"}
    own_server.start()
    with Client(own_server, user="ann") as ann, Client(own_server, user="ben") as ben, Client(own_server, user="cay") as cay:
        members = [{"user": user} for user in ("ann", "ben", "cay")]
        ann.call("timeline.create", timeline=name, settings={"members_only": True}, members=members)
        for user in (ann, ben):
            user.call("subscribe", timeline=name, **{"with": ["presence"]})
        time.sleep(1.5)  # what has gathered was pushed
        ann.call("member.remove", timeline=name, users=["ben"])
        cay.call("subscribe", timeline=name)
        assert "cay" not in str(until_the_end(ben))
        while "cay" not in str(ann.push("presence")):
            pass


def test_who_makes_one_is_a_member(ann, ben, client, name, refused):
    assert ann.call("timeline.create", timeline=name, settings={"members_only": True})["created"]
    assert [one["user"] for one in ann.call("member.list", timeline=name)["members"]] == ["ann"]
    ann.call("message.append", timeline=name, entry={})
    refused(ben, "timeline.get", 404, "timeline_not_found", timeline=name)
    # In the role that they give themselves; a back end is no member.
    ann.call("timeline.create", timeline=name + "/2", settings={"members_only": True}, members=[{"user": "ben"}, {"user": "ann", "role": "owner"}])
    assert ann.call("member.get", timeline=name + "/2", user="ann")["member"]["role"] == "owner"
    client.call("timeline.create", timeline=name + "/3", settings={"members_only": True})
    assert client.call("member.list", timeline=name + "/3")["members"] == []
    ann.call("timeline.create", timeline=name + "/4")
    assert ann.call("member.list", timeline=name + "/4")["members"] == []
