"""PROTOCOL.md, "Slice 2: people": whom I follow, and my feed."""

import random
import time
import uuid

import pytest

from client import Client, me

PATIENCE = 60


@pytest.fixture
def ben(server):
    with Client(server, user=f"ben-{uuid.uuid4()}") as connected:
        yield connected


def follow(client, timeline, **params):
    return client.call("feed.follow", timeline=timeline, **params)


def feed(client, limit=100):
    """All pages of a feed."""
    messages, before = [], {}
    while True:
        page = client.call("feed.range", limit=limit, **before)
        assert len(page["messages"]) <= limit
        messages += page["messages"]
        if "next" not in page:
            return messages
        assert page["messages"] or page["next"] != before.get("before")
        before = {"before": page["next"]}


def shown(messages):
    """Timeline and sequence of each."""
    return [(one["timeline"], one["sequence"]) for one in messages]


def place(message):
    return (-message["timestamp"], message["timeline"].encode(), -message["sequence"])


def soon(check):
    """Repeats a check until it holds."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


# Following.


def test_the_last_messages_and_all_that_come_are_in_the_feed(ada, ben, name):
    ben.fill(name, 5)
    assert follow(ada, name, copy=2) == {"following": True, "from": 4}
    assert shown(feed(ada)) == [(name, 5), (name, 4)]
    ben.append(name)
    assert shown(feed(ada)) == [(name, 6), (name, 5), (name, 4)]


def test_copy_is_100_unless_said_and_at_most_a_page(ada, ben, name):
    ben.fill(name, 120)
    ben.fill(f"{name}-2", 1_100)
    ben.call("timeline.create", timeline=f"{name}-3")
    assert follow(ada, name)["from"] == 21
    assert follow(ada, f"{name}-2", copy=10**9)["from"] == 101
    assert follow(ada, f"{name}-3")["from"] == 1
    assert follow(ben, name, copy=0)["from"] == 121
    assert feed(ben) == []
    ben.append(name)
    assert shown(feed(ben)) == [(name, 121)]


def test_a_second_follow_changes_nothing(ada, ben, name):
    ben.fill(name, 5)
    assert follow(ada, name, copy=2)["from"] == 4
    ben.append(name)
    for copy in [0, 1, 100]:
        assert follow(ada, name, copy=copy) == {"following": True, "from": 4}
    assert shown(feed(ada)) == [(name, 6), (name, 5), (name, 4)]
    assert ada.call("feed.following") == {"timelines": [{"timeline": name, "from": 4}]}


def test_after_unfollow_none_is(ada, ben, name):
    ben.fill(name, 3)
    ben.fill(f"{name}-2", 1)
    follow(ada, name)
    follow(ada, f"{name}-2")
    assert ada.call("feed.unfollow", timeline=name) == {"following": False}
    ben.append(name)
    assert shown(feed(ada)) == [(f"{name}-2", 1)]
    # What is so already is no error.
    for other in [name, f"{name}-none"]:
        assert ada.call("feed.unfollow", timeline=other) == {"following": False}
    assert follow(ada, name, copy=1)["from"] == 4
    assert shown(feed(ada)) == [(name, 4), (f"{name}-2", 1)]


def test_following_is_paged_in_the_order_of_names(ada, ben, name):
    rooms = [f"{name}-{letter}" for letter in ("a", "ab", "b", "é")]
    for room in rooms:
        ben.append(room)
    for room in reversed(rooms):
        follow(ada, room)
    assert ada.call("feed.following") == {"timelines": [{"timeline": room, "from": 1} for room in rooms]}
    page = ada.call("feed.following", limit=3)
    assert [one["timeline"] for one in page["timelines"]] == rooms[:3] and page["next"] == rooms[2]
    page = ada.call("feed.following", limit=3, after=page["next"])
    assert [one["timeline"] for one in page["timelines"]] == rooms[3:] and "next" not in page
    assert ben.call("feed.following") == {"timelines": []}


def test_followers_are_known_soon_and_paged(server, ada, ben, name):
    ben.append(name)
    assert ben.call("feed.followers", timeline=name) == {"users": [], "followers_count": 0}
    users = [f"{name}-{number}" for number in range(5)]
    for user in users:
        with Client(server, user=user) as one:
            follow(one, name)

    def known():
        got = ada.call("feed.followers", timeline=name)
        assert got == {"users": users, "followers_count": 5}

    soon(known)
    page = ada.call("feed.followers", timeline=name, limit=3)
    assert page == {"users": users[:3], "followers_count": 5, "next": users[2]}
    page = ada.call("feed.followers", timeline=name, limit=3, after=page["next"])
    assert page == {"users": users[3:], "followers_count": 5}
    with Client(server, user=users[1]) as one:
        one.call("feed.unfollow", timeline=name)

    def gone():
        got = ada.call("feed.followers", timeline=name)
        assert got == {"users": users[:1] + users[2:], "followers_count": 4}

    soon(gone)


# The reasons.


def test_a_user_is_needed(client, name, refused):
    client.append(name)
    for method, params in [
        ("feed.follow", {"timeline": name}),
        ("feed.unfollow", {"timeline": name}),
        ("feed.following", {}),
        ("feed.range", {}),
    ]:
        refused(client, method, 401, "unauthenticated", **params)
    # Of the timeline, not of me.
    assert client.call("feed.followers", timeline=name)["users"] == []


def test_an_unknown_timeline_is_not_found(ada, name, refused):
    refused(ada, "feed.follow", 404, "timeline_not_found", timeline=name)
    refused(ada, "feed.followers", 404, "timeline_not_found", timeline=name)
    assert ada.call("feed.following") == {"timelines": []}
    refused(ada, "timeline.get", 404, "timeline_not_found", timeline=name)


def test_a_timeline_that_one_may_not_read_is_not_found(ada, ben, name, refused):
    ben.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": me(ben)}])
    ben.append(name)
    refused(ada, "feed.follow", 404, "timeline_not_found", timeline=name)
    refused(ada, "feed.followers", 404, "timeline_not_found", timeline=name)
    assert follow(ben, name)["from"] == 1


def test_another_epoch_is_refused(ada, name, refused):
    ada.append(name)
    epoch = ada.call("timeline.get", timeline=name)["epoch"]
    refused(ada, "feed.follow", 409, "epoch_changed", timeline=name, epoch="x")
    refused(ada, "feed.followers", 409, "epoch_changed", timeline=name, epoch="x")
    assert follow(ada, name, epoch=epoch)["following"]
    assert ada.call("feed.followers", timeline=name, epoch=epoch)["followers_count"] <= 1


def test_params(ada, name, refused):
    ada.append(name)
    for method in ["feed.follow", "feed.unfollow"]:
        refused(ada, method, 403, "forbidden", field="timeline", timeline=f"$inbox/{me(ada)}")
        refused(ada, method, -32602, field="timeline", timeline="")
        refused(ada, method, -32602, field="timeline", timeline="x" * 256)
        refused(ada, method, -32602, timeline=name, other=1)
    for wrong in [-1, 1.5, "1"]:
        refused(ada, "feed.follow", -32602, field="copy", timeline=name, copy=wrong)
    refused(ada, "feed.follow", -32602, field="epoch", timeline=name, epoch="-")
    for method, params in [("feed.following", {}), ("feed.followers", {"timeline": name}), ("feed.range", {})]:
        for wrong in [0, -1]:
            refused(ada, method, -32602, field="limit", limit=wrong, **params)
        ada.call(method, limit=10**9, **params)
    refused(ada, "feed.following", -32602, field="after", after="x" * 256)
    refused(ada, "feed.followers", -32602, field="after", timeline=name, after="x" * 129)
    assert feed(ada) == []


def test_a_cursor_of_another_user_or_of_nobody_is_refused(ada, ben, name, refused):
    ben.fill(name, 3)
    follow(ada, name)
    cursor = ada.call("feed.range", limit=1)["next"]
    assert len(cursor) <= 4096
    refused(ben, "feed.range", -32602, field="before", before=cursor)
    for wrong in ["", "x", cursor[1:], cursor + "A", "x" * 4097]:
        refused(ada, "feed.range", -32602, field="before", before=wrong)
    listed = ada.call("conversation.list")["cursor"]
    refused(ada, "feed.range", -32602, field="before", before=listed)
    assert shown(ada.call("feed.range", before=cursor)["messages"]) == [(name, 2), (name, 1)]


def test_beyond_10000_follows_it_is_too_many(ada, name, refused):
    def each(method, count):
        for first in range(0, count, 200):
            asked = [ada.ask(method, timeline=f"{name}-{n}") for n in range(first, min(first + 200, count))]
            for number in asked:
                ada.take(number)

    each("timeline.create", 10_001)
    each("feed.follow", 10_000)
    error = refused(ada, "feed.follow", 413, "too_many", field="timeline", timeline=f"{name}-10000")
    assert (error.data["limit"], error.data["actual"]) == (10_000, 10_001)
    # One that is followed already is no more; and one less makes room.
    assert follow(ada, f"{name}-7")["following"]
    ada.call("feed.unfollow", timeline=f"{name}-7")
    assert follow(ada, f"{name}-10000")["following"]
    ada.append(f"{name}-10000")
    assert shown(feed(ada)) == [(f"{name}-10000", 1)]


# The feed.


def test_newest_first_across_timelines(ada, ben, name):
    rooms = [f"{name}-{letter}" for letter in "abc"]
    for room in rooms:
        ben.call("timeline.create", timeline=room)
        follow(ada, room)
    for turn in range(30):
        room = rooms[turn * turn % 3]
        ben.append(room, {"n": turn})
        if turn % 4 == 0:
            time.sleep(0.003)
    ben.append(f"{name}-unfollowed")
    whole = feed(ada)
    assert len(whole) == 30
    assert [place(one) for one in whole] == sorted(place(one) for one in whole)
    for one in whole:
        got = ben.call("message.get", timeline=one["timeline"], sequence=one["sequence"])["message"]
        epoch = ben.call("timeline.get", timeline=one["timeline"])["epoch"]
        assert one == got | {"timeline": one["timeline"], "epoch": epoch}
    for limit in [1, 7, 29, 30]:
        assert feed(ada, limit) == whole
    # What comes meanwhile does not disturb the pages behind.
    page = ada.call("feed.range", limit=10)
    ben.append(rooms[0])
    rest = ada.call("feed.range", before=page["next"])
    assert page["messages"] + rest["messages"] == whole and "next" not in rest


def test_no_tombstones_and_edits_show_at_once(ada, ben, name):
    ben.fill(name, 5)
    follow(ada, name)
    ben.call("message.update", timeline=name, sequence=2, set={"n": "two"})
    ben.call("message.delete", timeline=name, sequence=3)
    ben.call("message.recall", timeline=name, sequence=5)
    ben.call("reaction.add", timeline=name, sequence=4, reaction="👍")
    got = feed(ada)
    assert shown(got) == [(name, 4), (name, 2), (name, 1)]
    assert got[0]["reactions"] == {"👍": {"count": 1, "users": [me(ben)]}}
    assert got[1]["entry"] == {"n": "two"} and got[1]["change"] == 1 and "edited_at" in got[1]
    # Pages of them are full.
    page = ada.call("feed.range", limit=3)
    assert len(page["messages"]) == 3 and "next" not in page


def test_what_i_hid_or_cleared_or_may_not_see_is_not_in_it(ada, ben, name):
    ben.fill(name, 6)
    ben.call("member.add", timeline=name, members=[{"user": me(ada)}], history=4)
    follow(ada, name)
    assert shown(feed(ada)) == [(name, n) for n in (6, 5, 4, 3)]
    ada.call("message.hide", timeline=name, sequences=[5])
    assert shown(feed(ada)) == [(name, n) for n in (6, 4, 3)]
    ada.call("conversation.clear", timeline=name, before=4)
    assert shown(feed(ada)) == [(name, n) for n in (6, 4)]
    ben.call("timeline.trim", timeline=name, before=6)
    assert shown(feed(ada)) == [(name, 6)]


def test_what_has_expired_is_not_in_it(ada, ben, name):
    ben.append(name)
    ben.append(name, expires_in_ms=1)
    follow(ada, name)
    time.sleep(0.01)
    assert shown(feed(ada)) == [(name, 1)]


def test_a_timeline_that_closes_is_not_in_it(client, ada, ben, name):
    ben.fill(name, 2)
    follow(ada, name)
    ben.call("timeline.configure", timeline=name, settings={"members_only": True})
    assert feed(ada) == []
    client.call("member.add", timeline=name, members=[{"user": me(ada)}])
    assert shown(feed(ada)) == [(name, 2), (name, 1)]


def test_a_timeline_made_again_is_followed_anew(ada, ben, name):
    ben.fill(name, 2)
    follow(ada, name)
    ben.call("timeline.delete", timeline=name)
    assert feed(ada) == []
    ben.fill(name, 3)
    assert feed(ada) == []
    assert follow(ada, name, copy=1)["from"] == 3
    assert shown(feed(ada)) == [(name, 3)]


def test_a_page_ends_at_the_outbound_frame_and_holds_one_message(ada, ben, name):
    for _ in range(12):
        ben.append(name, {"text": "x" * 200_000})
    follow(ada, name)
    page = ada.call("feed.range")
    assert 0 < len(page["messages"]) < 12 and "next" in page
    assert shown(feed(ada)) == [(name, n) for n in range(12, 0, -1)]


def test_in_messagepack_it_is_the_same(server, ada, ben, name):
    ben.append(name, {"text": "x", "blob": {"$binary": "AAEC"}, "nested": {"a": [1, 2.0, None]}})
    follow(ada, name)
    with Client(server, packed=True, user=me(ada)) as packed:
        [one] = packed.call("feed.range")["messages"]
    assert one["entry"] == {"text": "x", "blob": b"\0\1\2", "nested": {"a": [1, 2.0, None]}}
    assert one["timeline"] == name and one["sequence"] == 1 and one["sender"] == me(ben)
    [one] = feed(ada)
    assert one["entry"] == {"text": "x", "blob": {"$binary": "AAEC"}, "nested": {"a": [1, 2.0, None]}}
    with Client(server) as text:
        text.call("session.open", user=me(ada), integers="text")
        ben.append(name, {"big": 2**60})
        assert feed(text)[0]["entry"] == {"big": {"$integer": str(2**60)}}


# From inbox or source, the reader can't tell.


def inbox(client):
    """What was fanned out to a user: timeline and sequence of each entry."""
    entries = []
    try:
        page = client.call("message.range", timeline=f"$inbox/{me(client)}", limit=1_000)
    except Exception as error:
        assert getattr(error, "reason", None) == "timeline_not_found", error
        return []
    for message in page["messages"]:
        entry = message["entry"]
        assert sorted(entry) == ["epoch", "sequence", "timeline", "timestamp"]
        entries.append((entry["timeline"], entry["sequence"]))
    return entries


def turn(client, timeline, fan_out, **settings):
    return client.call("timeline.configure", timeline=timeline, settings={"fan_out": fan_out, **settings})


def holds(client, wanted):
    """The feed is soon what it is to be, in pages of any size, each message once."""

    def check():
        for limit in [100, 3]:
            got = feed(client, limit)
            assert shown(got) == wanted
            assert [place(one) for one in got] == sorted(place(one) for one in got)

    soon(check)


def test_a_message_is_in_the_feed_once_whether_it_is_fanned_out_or_not(ada, ben, name):
    ben.fill(name, 2)
    follow(ada, name)
    turn(ben, name, "write")
    soon(lambda: follower_is_known(ben, name, me(ada)))
    ben.fill(name, 3, start=3)
    wanted = [(name, n) for n in range(5, 0, -1)]
    holds(ada, wanted)
    soon(lambda: has_all(inbox(ada), [(name, n) for n in (3, 4, 5)]))
    turn(ben, name, "read")
    ben.fill(name, 2, start=6)
    wanted = [(name, n) for n in range(7, 0, -1)]
    holds(ada, wanted)
    turn(ben, name, "write")
    ben.fill(name, 2, start=8)
    wanted = [(name, n) for n in range(9, 0, -1)]
    holds(ada, wanted)
    soon(lambda: has_all(inbox(ada), [(name, n) for n in (3, 4, 5, 8, 9)]))
    assert not set(inbox(ada)) & {(name, n) for n in (1, 2, 6, 7)}
    # Edits and recalls show at once: the inbox has references.
    ben.call("message.update", timeline=name, sequence=9, set={"n": "nine"})
    ben.call("message.recall", timeline=name, sequence=8)
    got = feed(ada)
    assert shown(got) == [(name, n) for n in (9, 7, 6, 5, 4, 3, 2, 1)]
    assert got[0]["entry"] == {"n": "nine"}


def follower_is_known(client, timeline, user):
    assert user in client.call("feed.followers", timeline=timeline)["users"]


def follower_is_gone(client, timeline, user):
    assert user not in client.call("feed.followers", timeline=timeline)["users"]


def has_all(entries, wanted):
    assert set(wanted) <= set(entries)
    assert len(set(entries)) == len(entries)


def test_auto_turns_to_read_above_its_number(server, ada, ben, name):
    ben.append(name)
    turn(ben, name, "auto", fan_out_members_max=1)
    follow(ada, name)
    soon(lambda: follower_is_known(ben, name, me(ada)))
    ben.append(name)
    soon(lambda: has_all(inbox(ada), [(name, 2)]))
    follow(ben, name)
    soon(lambda: follower_is_known(ben, name, me(ben)))
    ben.append(name)
    ben.append(name)
    for one in [ada, ben]:
        holds(one, [(name, n) for n in (4, 3, 2, 1)])
    assert (name, 4) not in inbox(ada)


def test_who_is_let_in_again_has_what_was_fanned_out_meanwhile(client, ada, ben, name, refused):
    ben.append(name)
    turn(ben, name, "write")
    follow(ada, name)
    soon(lambda: follower_is_known(ben, name, me(ada)))
    turn(client, name, "write", members_only=True)
    epoch = client.append(name)["epoch"]
    # A follower gets the reference, which says that there is something, but nothing of it.
    soon(lambda: has_all(inbox(ada), [(name, 2)]))
    assert feed(ada) == []
    refused(ada, "message.get", 404, "timeline_not_found", timeline=name, sequence=2)
    refused(ada, "message.get", 404, "timeline_not_found", timeline=name, sequence=2, epoch=epoch)
    client.call("member.add", timeline=name, members=[{"user": me(ada)}])
    holds(ada, [(name, 2), (name, 1)])
    # After unfollowing and leaving no reference comes either.
    ada.call("feed.unfollow", timeline=name)
    client.call("member.remove", timeline=name, users=[me(ada)])
    soon(lambda: follower_is_gone(client, name, me(ada)))
    client.append(name)
    turn(client, name, "write", members_only=None)
    follow(ada, name, copy=1)
    soon(lambda: follower_is_known(client, name, me(ada)))
    client.append(name)
    soon(lambda: has_all(inbox(ada), [(name, 4)]))
    assert (name, 3) not in inbox(ada)


def test_an_inbox_is_its_users(ada, ben, name, refused):
    ben.append(name)
    turn(ben, name, "write")
    follow(ada, name)
    soon(lambda: follower_is_known(ben, name, me(ada)))
    sent = ben.append(name)
    soon(lambda: has_all(inbox(ada), [(name, 2)]))
    mine = f"$inbox/{me(ada)}"
    [message] = ada.call("message.range", timeline=mine, direction="backward", limit=1)["messages"]
    epoch = ada.call("timeline.get", timeline=name)["epoch"]
    assert message["entry"] == {"timeline": name, "epoch": epoch, "sequence": 2, "timestamp": sent["timestamp"]}
    assert ada.call("subscribe", timeline=mine, after=0)["head"] >= 1
    ben.append(name)
    assert ada.messages(mine, 1)[0]["entry"]["sequence"] == 3
    for method in ["timeline.get", "message.range", "feed.followers"]:
        refused(ben, method, 404, "timeline_not_found", timeline=mine)


def test_switching_and_following_while_others_post_loses_and_doubles_nothing(server, ada, name):
    chance = random.Random(name)
    rooms = [f"{name}-{letter}" for letter in "abcd"]
    posted = {room: 0 for room in rooms}
    since = {}
    with Client(server, user="poster") as poster:
        for room in rooms:
            poster.append(room)
            posted[room] = 1
        for step in range(150):
            room = chance.choice(rooms)
            match chance.randrange(12):
                case 0 | 1:
                    turn(poster, room, chance.choice(["write", "read", "auto"]))
                case 2:
                    if room in since:
                        ada.call("feed.unfollow", timeline=room)
                        since.pop(room)
                    else:
                        copy = chance.randrange(4)
                        since[room] = follow(ada, room, copy=copy)["from"]
                        assert since[room] == max(posted[room] + 1 - copy, 1)
                case 3:
                    time.sleep(chance.random() / 20)
                case 4:
                    got = shown(feed(ada, chance.choice([2, 5, 100])))
                    assert len(set(got)) == len(got)
                    assert all(sequence >= since.get(one, 2**53) for one, sequence in got)
                case _:
                    poster.append(room, {"step": step})
                    posted[room] += 1

    def whole():
        for limit in [100, 4]:
            got = feed(ada, limit)
            assert [place(one) for one in got] == sorted(place(one) for one in got)
            wanted = [(room, n) for room in since for n in range(since[room], posted[room] + 1)]
            assert sorted(shown(got)) == sorted(wanted)

    soon(whole)


def test_a_feed_is_the_same_after_a_kill(own_server, name):
    own_server.start()
    with Client(own_server, user="ada") as ada, Client(own_server, user="ben") as ben:
        for room, fan_out in [(f"{name}-a", "write"), (f"{name}-b", "read")]:
            ben.append(room)
            turn(ben, room, fan_out)
            follow(ada, room)
            soon(lambda: follower_is_known(ben, room, "ada"))
            for _ in range(20):
                ben.append(room)
            time.sleep(0.01)  # The rooms' messages have different times, so one order only.
    own_server.kill()
    own_server.start()
    with Client(own_server, user="ada") as ada:
        rooms = [f"{name}-b", f"{name}-a"]
        holds(ada, [(room, n) for room in rooms for n in range(21, 0, -1)])
