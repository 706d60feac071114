"""PROTOCOL.md, Slice 2: members and settings: member.*, timeline.configure, what timeline.create and .get gain."""

import pytest

from client import Client, Refused, sequences

DEFAULTS = {
    "retention": {},
    "members_only": False,
    "fan_out": "read",
    "fan_out_members_max": 500,
    "edit": {"by": "anyone"},
}


def users(listed):
    return [member["user"] for member in listed["members"]]


def test_adding_members_and_who_is_one_stays_as_they_are(client, name):
    client.call("timeline.create", timeline=name)
    added = client.call(
        "member.add", timeline=name, members=[{"user": "ann", "role": "owner", "attributes": {"a": 1}}, {"user": "ben"}]
    )
    assert added == {"added": 2, "members_count": 2, "version": 2}
    again = client.call("member.add", timeline=name, members=[{"user": "ann", "role": "x"}, {"user": "cleo"}])
    assert again == {"added": 1, "members_count": 3, "version": 3}
    member = client.call("member.get", timeline=name, user="ann")["member"]
    assert member.pop("joined_at") > 0
    assert member == {
        "user": "ann",
        "role": "owner",
        "attributes": {"a": 1},
        "visible_from": 1,
        "read": 0,
        "received": 0,
        "version": 1,
    }
    assert client.call("member.get", timeline=name, user="ben")["member"]["role"] == "member"
    assert client.call("timeline.get", timeline=name)["members_count"] == 3


def test_history_visible_from_and_read(client, name, server):
    client.fill(name, 10)
    for user, params, visible_from, read in [
        ("all", {}, 1, 10),
        ("none", {"history": "none"}, 11, 10),
        ("three", {"history": 3}, 8, 10),
        ("many", {"history": 99}, 1, 10),
    ]:
        client.call("member.add", timeline=name, members=[{"user": user}], **params)
        member = client.call("member.get", timeline=name, user=user)["member"]
        assert (member["visible_from"], member["read"], member["received"]) == (visible_from, read, read)
    client.call(
        "member.add",
        timeline=name,
        history="none",
        members=[{"user": "own", "visible_from": 5, "read": 2}, {"user": "far", "visible_from": 99, "read": 99}],
    )
    own = client.call("member.get", timeline=name, user="own")["member"]
    far = client.call("member.get", timeline=name, user="far")["member"]
    assert (own["visible_from"], own["read"]) == (5, 2)
    assert (far["visible_from"], far["read"]) == (11, 10)


def test_an_announcement_comes_behind_and_only_if_anybody_was_added(client, name, ann):
    ann.call("timeline.create", timeline=name)
    ann.append(name)
    call = {"timeline": name, "members": [{"user": "ben"}], "announce": {"text": "ben is here"}}
    assert ann.call("member.add", **call) == {"added": 1, "members_count": 1, "version": 1, "sequence": 2}
    assert ann.call("member.add", **call) == {"added": 0, "members_count": 1, "version": 1}
    message = ann.call("message.get", timeline=name, sequence=2)["message"]
    assert (message["entry"], message["sender"]) == ({"text": "ben is here"}, "ann")
    call = {"timeline": name, "users": ["ben"], "announce": {"text": "ben has left"}}
    assert ann.call("member.remove", **call) == {"removed": 1, "members_count": 0, "version": 2, "sequence": 3}
    assert ann.call("member.remove", **call) == {"removed": 0, "members_count": 0, "version": 2}
    assert ann.call("timeline.get", timeline=name)["head"] == 3


def test_who_comes_back_begins_anew(client, name):
    client.fill(name, 3)
    client.call("member.add", timeline=name, members=[{"user": "ann", "role": "owner", "attributes": {"a": 1}}])
    client.call("member.remove", timeline=name, users=["ann"])
    client.call("member.add", timeline=name, members=[{"user": "ann"}], history="none")
    member = client.call("member.get", timeline=name, user="ann")["member"]
    assert (member["role"], member["attributes"], member["visible_from"]) == ("member", {}, 4)


def test_a_timeline_made_again_has_no_members(client, name, refused):
    client.call("timeline.create", timeline=name, members=[{"user": "ann"}], settings={"members_only": True})
    client.call("timeline.delete", timeline=name)
    client.call("timeline.create", timeline=name)
    got = client.call("timeline.get", timeline=name)
    assert (got["members_count"], got["settings"], got["settings_version"]) == (0, DEFAULTS, 0)
    assert client.call("member.list", timeline=name) == {"members": [], "version": 0, "members_count": 0}
    refused(client, "member.get", 404, "member_not_found", timeline=name, user="ann")


def test_update(client, name, refused):
    client.call("timeline.create", timeline=name, members=[{"user": "ann", "attributes": {"a": 1, "b": 2}}])
    updated = client.call(
        "member.update", timeline=name, user="ann", role="owner", attributes={"set": {"c": 3}, "remove": ["a", "z"]}
    )["member"]
    assert (updated["role"], updated["attributes"], updated["version"]) == ("owner", {"b": 2, "c": 3}, 2)
    same = client.call("member.update", timeline=name, user="ann", role="owner", expect_version=2)["member"]
    assert same == updated
    error = refused(
        client, "member.update", 409, "condition_failed", timeline=name, user="ann", role="x", expect_version=1
    )
    assert error.data["actual"] == 2
    refused(client, "member.update", 404, "member_not_found", timeline=name, user="ben", role="x")
    refused(client, "member.update", -32602, field="attributes", timeline=name, user="ann")
    set_it = {"set": {"x": "y" * 4090}}
    error = refused(client, "member.update", 413, "too_large", "attributes", timeline=name, user="ann", attributes=set_it)
    assert error.data["limit"] == 4096


def test_what_is_refused(client, name, refused):
    client.call("timeline.create", timeline=name)

    def bad(field, members, code=-32602, reason=None, **params):
        return refused(client, "member.add", code, reason, field, timeline=name, members=members, **params)

    bad("members", [])
    bad("members[1].user", [{"user": "a"}, {"user": "a"}])
    bad("members[0].user", [{"user": ""}])
    bad("members[0].user", [{"user": "u" * 129}])
    bad("members[0].user", [{"user": "a\nb"}])
    bad("members[0].role", [{"user": "a", "role": ""}])
    bad("members[0].role", [{"user": "a", "role": "r" * 65}])
    bad("members[0].visible_from", [{"user": "a", "visible_from": 0}])
    bad("members[0].attributes", [{"user": "a", "attributes": {"x": "y" * 4096}}], 413, "too_large")
    bad("members[0].colour", [{"user": "a", "colour": 1}])
    bad("history", [{"user": "a"}], history="some")
    bad("announce.$x", [{"user": "a"}], announce={"$x": 1})
    error = bad("members", [{"user": str(n)} for n in range(10_001)], 413, "too_many")
    assert (error.data["limit"], error.data["actual"]) == (10_000, 10_001)
    refused(client, "member.remove", -32602, field="users", timeline=name, users=[])
    refused(client, "member.remove", -32602, field="users[1]", timeline=name, users=["a", "a"])
    refused(client, "member.list", -32602, field="after", timeline=name, since=0, after="a")
    # Nothing of it was done.
    assert client.call("member.list", timeline=name) == {"members": [], "version": 0, "members_count": 0}
    for method, params in [
        ("member.add", {"members": [{"user": "a"}]}),
        ("member.update", {"user": "a", "role": "x"}),
        ("member.remove", {"users": ["a"]}),
        ("member.get", {"user": "a"}),
        ("member.list", {}),
        ("timeline.configure", {"settings": {}}),
    ]:
        refused(client, method, 404, "timeline_not_found", timeline=name + "?", **params)
        refused(client, method, 409, "epoch_changed", timeline=name, epoch="Another1", **params)
        if method not in ("member.get", "member.list"):
            refused(client, method, 403, "forbidden", timeline="$own", **params)


def test_ten_thousand_members_in_one_call(client, name):
    client.call("timeline.create", timeline=name)
    everybody = [{"user": f"u{n:05}"} for n in range(10_000)]
    added = client.call("member.add", timeline=name, members=everybody, announce={"n": 10_000})
    assert added == {"added": 10_000, "members_count": 10_000, "version": 10_000, "sequence": 1}
    got, after = [], {}
    while True:
        page = client.call("member.list", timeline=name, limit=1_000, **after)
        got += users(page)
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert got == [member["user"] for member in everybody]


def test_the_list_by_pages_roles_and_versions(client, name):
    client.call("timeline.create", timeline=name)
    for user, role in [("dan", "owner"), ("ann", "member"), ("cleo", "member"), ("ben", "owner")]:
        client.call("member.add", timeline=name, members=[{"user": user, "role": role}])
    first = client.call("member.list", timeline=name, limit=3)
    assert (users(first), first["next"], first["version"], first["members_count"]) == (["ann", "ben", "cleo"], "cleo", 4, 4)
    rest = client.call("member.list", timeline=name, after=first["next"])
    assert users(rest) == ["dan"] and "next" not in rest and "removed" not in rest
    assert users(client.call("member.list", timeline=name, role="owner")) == ["ben", "dan"]

    since = {"since": first["version"]}
    assert client.call("member.list", timeline=name, **since) == {
        "members": [],
        "removed": [],
        "version": 4,
        "members_count": 4,
    }
    client.call("member.remove", timeline=name, users=["ann", "cleo"])
    client.call("member.update", timeline=name, user="dan", role="member")
    client.call("member.add", timeline=name, members=[{"user": "cleo"}])
    news = client.call("member.list", timeline=name, **since)
    assert (users(news), news["removed"], news["version"]) == (["dan", "cleo"], ["ann"], 8)
    # By pages; `next` is the next `since`.
    removed, changed, at = set(), {}, 4
    while True:
        page = client.call("member.list", timeline=name, since=at, limit=1)
        assert len(page["members"]) + len(page["removed"]) <= 1
        changed.update((member["user"], member) for member in page["members"])
        removed.update(page["removed"])
        if "next" not in page:
            break
        assert page["next"] > at
        at = page["next"]
    assert (set(changed), removed) == ({"dan", "cleo"}, {"ann"})
    # Of a role: who has another one now is gone from that list.
    owners = client.call("member.list", timeline=name, role="owner", **since)
    assert (users(owners), owners["removed"]) == ([], ["ann", "cleo", "dan"])
    # Of another history: the whole list.
    whole = client.call("member.list", timeline=name, since=99)
    assert whole["reset"] is True and users(whole) == ["ben", "cleo", "dan"]


def test_settings(client, name, refused):
    created = client.call("timeline.create", timeline=name, settings={"edit": {"by": "sender"}})
    assert created["created"] is True
    got = client.call("timeline.get", timeline=name)
    assert (got["settings"], got["settings_version"]) == ({**DEFAULTS, "edit": {"by": "sender"}}, 1)
    # What stands is untouched.
    again = client.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": "x"}])
    assert again["created"] is False
    assert client.call("timeline.get", timeline=name)["members_count"] == 0
    configured = client.call(
        "timeline.configure",
        timeline=name,
        settings={"retention": {"age_ms": 1000, "bytes": 5}, "fan_out": "auto", "fan_out_members_max": 7, "edit": None},
        expect_version=1,
    )
    expected = {**DEFAULTS, "retention": {"age_ms": 1000, "bytes": 5}, "fan_out": "auto", "fan_out_members_max": 7}
    assert configured == {"settings": expected, "version": 2}
    assert client.call("timeline.configure", timeline=name, settings={}) == configured
    error = refused(
        client, "timeline.configure", 409, "condition_failed", timeline=name, settings={}, expect_version=1
    )
    assert error.data["actual"] == 2
    listed = client.call("timeline.list", prefix=name)["timelines"]
    assert [(one["settings"], one["members_count"]) for one in listed] == [(expected, 0)]
    for settings, field in [
        ({"retention": {"age_ms": 0}}, "settings.retention.age_ms"),
        ({"fan_out_members_max": 0}, "settings.fan_out_members_max"),
        ({"fan_out": "push"}, "settings.fan_out"),
        ({"edit": {"window_ms": 5}}, "settings.edit.by"),
        ({"colour": 1}, "settings.colour"),
    ]:
        refused(client, "timeline.configure", -32602, field=field, timeline=name, settings=settings)


def test_who_may_edit(client, name, ann, ben, refused):
    client.call("timeline.create", timeline=name, settings={"edit": {"by": "sender"}})
    ann.append(name)
    ann.append(name)
    for method, params in [("message.update", {"set": {"a": 1}}), ("message.delete", {}), ("message.recall", {})]:
        refused(ben, method, 403, "forbidden", timeline=name, sequence=1, **params)
    assert ann.call("message.update", timeline=name, sequence=1, set={"a": 1})["message"]["change"] == 1
    # A back end is not bound.
    client.call("message.update", timeline=name, sequence=1, set={"a": 2})
    assert ann.call("message.delete", timeline=name, sequence=1) == {"deleted": True}
    assert ben.call("message.delete", timeline=name, sequence=1) == {"deleted": False}
    client.call("timeline.configure", timeline=name, settings={"edit": {"by": "anyone", "window_ms": 0}})
    import time

    time.sleep(0.02)
    refused(ann, "message.update", 403, "forbidden", timeline=name, sequence=2, set={"a": 1})
    client.call("message.update", timeline=name, sequence=2, set={"a": 1})
    client.call("timeline.configure", timeline=name, settings={"edit": None})
    assert ben.call("message.delete", timeline=name, sequence=2) == {"deleted": True}


def test_policies(own_server, name, tmp_path):
    own_server.config = """
[[policy]]
prefix = "room/"
members_only = true
edit = { by = "sender" }
[[policy]]
prefix = "room/open/"
retention = { messages = 1000 }
"""
    own_server.start()
    with Client(own_server) as client, Client(own_server, user="ann") as ann:
        client.call("timeline.create", timeline="room/1", members=[{"user": "ann"}])
        got = ann.call("timeline.get", timeline="room/1")
        assert got["settings"] == {**DEFAULTS, "members_only": True, "edit": {"by": "sender"}}
        assert got["settings_version"] == 0
        client.call("timeline.create", timeline="room/open/1")
        got = ann.call("timeline.get", timeline="room/open/1")
        assert got["settings"] == {**DEFAULTS, "retention": {"messages": 1000}}
        # null goes back to the policy.
        set_it = client.call("timeline.configure", timeline="room/1", settings={"members_only": False})
        assert set_it["settings"]["members_only"] is False
        back = client.call("timeline.configure", timeline="room/1", settings={"members_only": None})
        assert back["settings"]["members_only"] is True
        # Nobody brings about what they could not read.
        for method, params in [("message.append", {"entry": {}}), ("subscribe", {})]:
            with pytest.raises(Refused) as caught:
                ann.call(method, timeline="room/2", **params)
            assert caught.value.reason == "timeline_not_found"
        assert ann.call("timeline.create", timeline="room/3", members=[{"user": "ann"}])["created"] is True
        assert ann.append("room/3")["sequence"] == 1


def test_members_outlive_a_kill(own_server, name):
    own_server.start()
    with Client(own_server) as client:
        client.fill("t", 5)
        client.call("member.add", timeline="t", members=[{"user": "ann"}, {"user": "ben"}], history=2)
        client.call("timeline.configure", timeline="t", settings={"members_only": True})
        client.call("member.remove", timeline="t", users=["ben"], announce={"x": 1})
    own_server.kill()
    own_server.start()
    with Client(own_server, user="ann") as ann, Client(own_server, user="ben") as ben:
        page = ann.call("message.range", timeline="t")
        assert (sequences(page["messages"]), page["floor"]) == ([4, 5, 6], 4)
        with pytest.raises(Refused) as caught:
            ben.call("message.range", timeline="t")
        assert caught.value.reason == "timeline_not_found"
        listed = ann.call("member.list", timeline="t", since=2)
        # Leaving and the change of who may read are versions too.
        assert (users(listed), listed["removed"], listed["version"]) == ([], ["ben"], 4)
