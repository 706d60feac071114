"""PROTOCOL.md, slice 2: reactions and pins."""

import time

import pytest

from client import Client, Refused, sequences


def react(client, name, sequence=1, reaction="👍", method="reaction.add"):
    return client.call(method, timeline=name, sequence=sequence, reaction=reaction)["reactions"]


def message(client, name, sequence=1):
    return client.call("message.get", timeline=name, sequence=sequence)["message"]


def change_head(client, name):
    return client.call("timeline.get", timeline=name)["change_head"]


def test_a_message_carries_its_reactions(ann, ben, name):
    ann.fill(name, 3)
    assert react(ann, name, 2) == {"👍": {"count": 1, "users": ["ann"]}}
    both = {"👍": {"count": 2, "users": ["ben", "ann"]}}
    assert react(ben, name, 2) == both
    assert react(ben, name, 2, "🎉") == both | {"🎉": {"count": 1, "users": ["ben"]}}
    got = message(ann, name, 2)
    assert got["reactions"] == both | {"🎉": {"count": 1, "users": ["ben"]}}
    assert got["change"] == 3 and got["entry"] == {"n": 2} and "edited_at" not in got
    for direction in ["forward", "backward"]:
        page = ann.call("message.range", timeline=name, direction=direction, columns=["none"])
        carried = {one["sequence"]: one.get("reactions") for one in page["messages"]}
        assert carried == {1: None, 2: got["reactions"], 3: None}
    assert react(ben, name, 2, "🎉", "reaction.remove") == both
    assert react(ann, name, 2, method="reaction.remove") == {"👍": {"count": 1, "users": ["ben"]}}
    assert react(ben, name, 2, method="reaction.remove") == {}
    got = message(ann, name, 2)
    assert "reactions" not in got and got["change"] == 6


def test_one_of_each_per_user_and_a_repeat_is_no_change(ann, ben, name):
    ann.fill(name, 1)
    assert react(ann, name, method="reaction.remove") == {}
    assert change_head(ann, name) == 0
    react(ann, name)
    assert react(ann, name) == {"👍": {"count": 1, "users": ["ann"]}}
    assert react(ben, name, method="reaction.remove") == {"👍": {"count": 1, "users": ["ann"]}}
    assert react(ann, name, reaction="🎉", method="reaction.remove") == {"👍": {"count": 1, "users": ["ann"]}}
    assert change_head(ann, name) == 1
    react(ann, name, reaction="🎉")
    assert change_head(ann, name) == 2


def test_a_message_tells_of_the_last_ten_users(server, client, name):
    client.fill(name, 1)
    users = [f"u{number:02}" for number in range(12)]
    for user in users:
        with Client(server, user=user) as one:
            react(one, name)
    got = message(client, name)["reactions"]["👍"]
    assert got == {"count": 12, "users": users[:1:-1]}
    # Who takes it back makes room for the one before the ten.
    with Client(server, user="u07") as one:
        react(one, name, method="reaction.remove")
    left = [user for user in reversed(users) if user != "u07"]
    assert message(client, name)["reactions"]["👍"] == {"count": 11, "users": left[:10]}
    everybody = client.call("reaction.list", timeline=name, sequence=1, reaction="👍")
    assert everybody == {"reactions": {"👍": {"count": 11, "users": sorted(left)}}}
    first = client.call("reaction.list", timeline=name, sequence=1, reaction="👍", limit=6)
    assert first["reactions"]["👍"]["users"] == sorted(left)[:6] and first["next"] == sorted(left)[5]
    rest = client.call("reaction.list", timeline=name, sequence=1, reaction="👍", limit=6, after=first["next"])
    assert rest == {"reactions": {"👍": {"count": 11, "users": sorted(left)[6:]}}}
    assert client.call("reaction.list", timeline=name, sequence=1, reaction="none") == {"reactions": {}}
    assert client.call("reaction.list", timeline=name, sequence=1) == {
        "reactions": {"👍": {"count": 11, "users": left[:10]}}
    }


def test_at_most_64_names_a_message(ann, ben, name, refused):
    ann.fill(name, 2)
    for number in range(64):
        react(ann, name, reaction=f"r{number}")
    with pytest.raises(Refused) as caught:
        react(ann, name, reaction="one more")
    data = caught.value.data
    assert (caught.value.code, data["reason"], data["limit"], data["actual"]) == (413, "too_many", 64, 65)
    assert len(react(ben, name, reaction="r63")) == 64
    assert change_head(ann, name) == 65
    assert len(react(ann, name, reaction="r0", method="reaction.remove")) == 63
    assert len(react(ann, name, reaction="one more")) == 64
    assert len(react(ann, name, 2, reaction="r0")) == 1


def test_reaction_params(ann, client, name, refused):
    ann.fill(name, 2)
    for method in ["reaction.add", "reaction.remove"]:
        for bad in ["", "x" * 65, "a\nb", "\u0085", 7, None]:
            refused(ann, method, -32602, field="reaction", timeline=name, sequence=1, reaction=bad)
        refused(ann, method, -32602, field="sequence", timeline=name, sequence=0, reaction="👍")
        refused(ann, method, -32602, field="user", timeline=name, sequence=1, reaction="👍", user="x")
        refused(client, method, 401, "unauthenticated", timeline=name, sequence=1, reaction="👍")
        refused(ann, method, 404, "message_not_found", timeline=name, sequence=3, reaction="👍")
        refused(ann, method, 404, "timeline_not_found", timeline=name + "-none", sequence=1, reaction="👍")
        refused(ann, method, 409, "epoch_changed", timeline=name, sequence=1, reaction="👍", epoch="other")
        refused(ann, method, 403, "forbidden", timeline="$own", sequence=1, reaction="👍")
    refused(ann, "reaction.list", -32602, field="after", timeline=name, sequence=1, after="ann")
    refused(ann, "reaction.list", -32602, field="limit", timeline=name, sequence=1, reaction="👍", limit=0)
    refused(ann, "reaction.list", -32602, field="reaction", timeline=name, sequence=1, reaction="")
    refused(ann, "reaction.list", 404, "message_not_found", timeline=name, sequence=3)
    refused(ann, "reaction.list", 404, "timeline_not_found", timeline=name + "-none", sequence=1)
    assert change_head(ann, name) == 0
    longest = "👍" * 16
    assert react(ann, name, reaction=longest) == {longest: {"count": 1, "users": ["ann"]}}


def test_a_tombstone_has_no_reactions(ann, client, name, refused):
    ann.fill(name, 3)
    for sequence, method in [(1, "message.delete"), (2, "message.recall")]:
        react(ann, name, sequence)
        assert client.call(method, timeline=name, sequence=sequence) == {"deleted": True}
        assert "reactions" not in message(client, name, sequence)
        for asked in ["reaction.add", "reaction.remove"]:
            refused(ann, asked, 404, "message_not_found", timeline=name, sequence=sequence, reaction="👍")
        refused(ann, "reaction.list", 404, "message_not_found", timeline=name, sequence=sequence)
    react(ann, name, 3)
    client.call("timeline.trim", timeline=name, before=4)
    refused(ann, "reaction.add", 404, "message_not_found", timeline=name, sequence=3, reaction="👍")


def test_an_edit_keeps_reactions_and_takes_the_next_change(ann, name, refused):
    ann.fill(name, 1)
    react(ann, name)
    refused(ann, "message.update", 409, "condition_failed", timeline=name, sequence=1, set={"a": 1}, expect_change=0)
    edited = ann.call("message.update", timeline=name, sequence=1, set={"a": 1}, expect_change=1)["message"]
    assert edited["change"] == 2 and edited["reactions"] == {"👍": {"count": 1, "users": ["ann"]}}
    assert message(ann, name) == edited
    assert react(ann, name, reaction="🎉")
    assert message(ann, name)["change"] == 3 and message(ann, name)["entry"] == {"a": 1, "n": 1}


def test_a_reaction_is_a_change_for_whoever_was_away(ann, client, name):
    ann.fill(name, 4)
    client.call("message.update", timeline=name, sequence=1, set={"n": 9})
    react(ann, name, 2)
    react(ann, name, 1)
    react(ann, name, 4)
    got = client.call("sync", positions={name: {"after": 3, "changes_after": 0}})["timelines"][name]
    # Each once, in its newest form; what is above the position carries its reactions itself.
    assert [(one["sequence"], one["change"]) for one in got["changed"]] == [(2, 2), (1, 3)]
    assert all(one["reactions"] == {"👍": {"count": 1, "users": ["ann"]}} for one in got["changed"])
    assert got["messages"][0]["reactions"] and got["change_head"] == 4
    reply = client.call("subscribe", timeline=name, after=4, changes_after=2)
    assert [(one["sequence"], one["change"]) for one in reply["changed"]] == [(1, 3), (4, 4)]


def test_reactions_are_pushed_without_the_message(ann, ben, client, name):
    ann.fill(name, 2)
    client.call("subscribe", timeline=name)
    react(ann, name, 2)
    push = client.push("reaction")
    assert push == {
        "timeline": name,
        "epoch": push["epoch"],
        "messages": [{"sequence": 2, "change": 1, "reactions": {"👍": {"count": 1, "users": ["ann"]}}}],
        "change_head": 1,
    }
    react(ann, name, 2, method="reaction.remove")
    push = client.push("reaction")
    assert push["messages"] == [{"sequence": 2, "change": 2, "reactions": {}}] and push["change_head"] == 2
    client.quiet()


def test_at_most_one_reaction_push_a_second(ann, client, name):
    ann.fill(name, 40)
    client.call("subscribe", timeline=name)
    begin = time.monotonic()
    for sequence in range(1, 41):
        react(ann, name, sequence)
    took = time.monotonic() - begin
    seen, pushes, change = [], 0, 0
    while change < 40:
        push = client.push("reaction")
        pushes += 1
        change = push["change_head"]
        seen += sequences(push["messages"])
    assert seen == list(range(1, 41))
    assert pushes <= 2 + took + 1
    client.quiet()


def test_an_edit_brings_reactions_along(ann, client, name):
    ann.fill(name, 3)
    client.call("subscribe", timeline=name)
    react(ann, name, 1)
    assert client.push("reaction")["change_head"] == 1
    # Within the second that reactions wait: the edit is pushed at once, and no change number is left out.
    react(ann, name, 2)
    ann.call("message.update", timeline=name, sequence=3, set={"n": 30})
    react(ann, name, 3, "🎉")
    kinds, reached = {}, 0
    while reached < 4:
        push = client.push()
        assert push["method"] in ("reaction", "message.changed")
        for one in push["params"]["messages"]:
            kinds.setdefault(one["sequence"], []).append((push["method"], one["change"], one.get("reactions")))
        assert push["params"]["change_head"] >= reached
        reached = push["params"]["change_head"]
    assert [kind[0] for kind in kinds[2]] == ["reaction"]
    assert kinds[3][0][0] == "message.changed"
    assert kinds[3][-1][2] == {"🎉": {"count": 1, "users": ["ann"]}}


def test_a_new_message_may_be_pushed_with_reactions_or_before_them(ann, client, name):
    ann.fill(name, 1)
    client.call("subscribe", timeline=name)
    for sequence in range(2, 6):
        ann.append(name)
        react(ann, name, sequence)
    copies = {}
    while len(copies) < 4 or not all("reactions" in copy for copy in copies.values()):
        for one in client.push()["params"]["messages"]:
            copies.setdefault(one["sequence"], {}).update(one)
    assert sorted(copies) == [2, 3, 4, 5]
    assert all(copy["reactions"]["👍"]["count"] == 1 for copy in copies.values())


def test_a_pin_is_a_change_of_the_message(ann, client, name):
    ann.fill(name, 3)
    client.call("subscribe", timeline=name)
    assert ann.call("pin.add", timeline=name, sequence=2) == {"added": True}
    push = client.push("message.changed")
    assert push["messages"] == [message(ann, name, 2)] and push["change_head"] == 1
    assert push["messages"][0]["pinned"] is True and push["messages"][0]["entry"] == {"n": 2}
    assert "edited_at" not in push["messages"][0]
    assert ann.call("pin.add", timeline=name, sequence=2) == {"added": False}
    assert ann.call("pin.remove", timeline=name, sequence=1) == {"removed": False}
    assert change_head(ann, name) == 1
    # For all, also without a user; an edit keeps it.
    assert client.call("pin.add", timeline=name, sequence=1) == {"added": True}
    assert client.push("message.changed")["change_head"] == 2
    assert ann.call("message.update", timeline=name, sequence=2, set={"n": 20})["message"]["pinned"]
    assert client.push("message.changed")["messages"][0]["pinned"]
    listed = ann.call("pin.list", timeline=name)
    assert listed == {"messages": [message(ann, name, 1), message(ann, name, 2)]}
    assert ann.call("pin.remove", timeline=name, sequence=2) == {"removed": True}
    assert "pinned" not in client.push("message.changed")["messages"][0]
    assert sequences(ann.call("pin.list", timeline=name)["messages"]) == [1]


def test_pins_are_listed_in_pages(ann, name, refused):
    ann.fill(name, 6)
    for sequence in [5, 1, 3]:
        ann.call("pin.add", timeline=name, sequence=sequence)
    react(ann, name, 3)
    first = ann.call("pin.list", timeline=name, limit=2)
    assert sequences(first["messages"]) == [1, 3] and first["next"] == 3
    assert first["messages"][1]["reactions"]
    rest = ann.call("pin.list", timeline=name, limit=2, after=first["next"])
    assert sequences(rest["messages"]) == [5] and "next" not in rest
    ann.call("timeline.trim", timeline=name, before=4)
    assert sequences(ann.call("pin.list", timeline=name)["messages"]) == [5]
    refused(ann, "pin.list", -32602, field="limit", timeline=name, limit=0)
    refused(ann, "pin.list", 404, "timeline_not_found", timeline=name + "-none")


def test_up_to_100_pins(ann, name):
    ann.fill(name, 102)
    for sequence in range(1, 101):
        ann.call("pin.add", timeline=name, sequence=sequence)
    with pytest.raises(Refused) as caught:
        ann.call("pin.add", timeline=name, sequence=101)
    data = caught.value.data
    assert (caught.value.code, data["reason"], data["limit"], data["actual"]) == (413, "too_many", 100, 101)
    assert ann.call("pin.add", timeline=name, sequence=100) == {"added": False}
    # Trimmed, deleted and unpinned ones make room.
    ann.call("timeline.trim", timeline=name, before=2)
    ann.call("pin.add", timeline=name, sequence=101)
    ann.call("message.delete", timeline=name, sequence=5)
    ann.call("pin.add", timeline=name, sequence=102)
    assert change_head(ann, name) == 103


def test_a_tombstone_is_unpinned(ann, name, refused):
    ann.fill(name, 2)
    for sequence, method in [(1, "message.delete"), (2, "message.recall")]:
        ann.call("pin.add", timeline=name, sequence=sequence)
        ann.call(method, timeline=name, sequence=sequence)
        assert "pinned" not in message(ann, name, sequence)
        refused(ann, "pin.add", 404, "message_not_found", timeline=name, sequence=sequence)
        assert ann.call("pin.remove", timeline=name, sequence=sequence) == {"removed": False}
    assert ann.call("pin.list", timeline=name) == {"messages": []}


def test_pin_params(ann, name, refused):
    ann.fill(name, 1)
    for method in ["pin.add", "pin.remove"]:
        refused(ann, method, -32602, field="sequence", timeline=name, sequence=0)
        refused(ann, method, -32602, field="reaction", timeline=name, sequence=1, reaction="👍")
        refused(ann, method, 404, "message_not_found", timeline=name, sequence=2)
        refused(ann, method, 404, "timeline_not_found", timeline=name + "-none", sequence=1)
        refused(ann, method, 409, "epoch_changed", timeline=name, sequence=1, epoch="other")
        refused(ann, method, 403, "forbidden", timeline="$own", sequence=1)
    assert change_head(ann, name) == 0


def test_marks_in_messagepack(packed, name):
    packed.call("session.open", user="ann")
    packed.fill(name, 1)
    packed.call("subscribe", timeline=name)
    assert react(packed, name) == {"👍": {"count": 1, "users": ["ann"]}}
    assert packed.push("reaction")["messages"][0]["reactions"] == {"👍": {"count": 1, "users": ["ann"]}}
    packed.call("pin.add", timeline=name, sequence=1)
    assert packed.push("message.changed")["messages"][0]["pinned"] is True


def test_ones_own_reaction_is_told_when_others_are_named(server, ann, name):
    ann.fill(name, 1)
    react(ann, name)
    others = [f"user-{number}" for number in range(12)]
    for number, user in enumerate(others):
        with Client(server, user=user) as other:
            react(other, name)
            # As long as the ten that are named are all, or name them, nothing else need be said.
            is_told = number >= 9
            carried = message(ann, name)["reactions"]["👍"]
            assert carried["count"] == number + 2 and carried.get("mine", False) == is_told == ("ann" not in carried["users"])
            assert "mine" not in message(other, name)["reactions"]["👍"]
    own = {"count": 13, "users": others[:1:-1], "mine": True}
    for reactions in [
        message(ann, name)["reactions"],
        ann.call("message.range", timeline=name)["messages"][0]["reactions"],
        ann.call("sync", positions={name: 0})["timelines"][name]["messages"][0]["reactions"],
        ann.call("subscribe", timeline=name, after=0)["messages"][0]["reactions"],
        ann.call("reaction.list", timeline=name, sequence=1)["reactions"],
        react(ann, name),
    ]:
        assert reactions == {"👍": own}
    with Client(server) as nobody:
        assert "mine" not in message(nobody, name)["reactions"]["👍"]
    assert "mine" not in react(ann, name, method="reaction.remove")["👍"] and "mine" not in message(ann, name)["reactions"]["👍"]
