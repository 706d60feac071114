"""What operators look at: levels of names, the readers of a timeline, sessions and how far they are."""

import socket
import time
from contextlib import ExitStack

import pytest

from client import Client, Refused, until
from guarded import token, who


def level(client, **params):
    """All entries of a level, in pages of two."""
    names, after = [], {}
    while True:
        page = client.call("timeline.prefixes", limit=2, **params, **after)
        assert len(page["entries"]) <= 2 and all(one["timeline"] != one["below"] for one in page["entries"])
        names += [(one["name"], "below" if one["below"] else "timeline") for one in page["entries"]]
        if "next" not in page:
            return names
        assert page["entries"] and page["next"] == names[-1][0]
        after = {"after": page["next"]}


def test_a_level_shows_each_name_once(client, name):
    for rest in ["", "/", "/1", "/2/a", "/2/b", "/2/b/c", "-x", "0", "/é/1"]:
        client.call("timeline.create", timeline=name + rest)
    client.call("timeline.create", timeline=f"{name}/gone/1")
    client.call("timeline.delete", timeline=f"{name}/gone/1")
    assert level(client, prefix=name) == [(name, "timeline"), (f"{name}-x", "timeline"), (f"{name}/", "below"), (f"{name}0", "timeline")]
    below = [("/", "timeline"), ("/1", "timeline"), ("/2/", "below"), ("/é/", "below")]
    assert level(client, prefix=f"{name}/") == [(name + rest, what) for rest, what in below]
    assert level(client, prefix=f"{name}/2/") == [(f"{name}/2/a", "timeline"), (f"{name}/2/b", "timeline"), (f"{name}/2/b/", "below")]
    assert level(client, prefix=f"{name}/2", delimiter="b") == [(f"{name}/2/a", "timeline"), (f"{name}/2/b", "below")]
    assert level(client, prefix=f"{name}/none") == []
    # Behind a name that is no entry comes what is above it.
    assert client.call("timeline.prefixes", prefix=f"{name}/", after=f"{name}/2/a")["entries"][0]["name"] == f"{name}/2/"


def test_a_level_is_refused_what_is_wrong(client, refused):
    for params, field in [
        ({"delimiter": ""}, "delimiter"),
        ({"delimiter": "x" * 17}, "delimiter"),
        ({"prefix": "x" * 256}, "prefix"),
        ({"after": "x" * 513}, "after"),
        ({"after": "$next/AAAA"}, "after"),
        ({"limit": 0}, "limit"),
    ]:
        refused(client, "timeline.prefixes", -32602, "invalid_params", field, **params)


def test_a_level_tells_of_nothing_hidden(guard):
    server = guard().start()
    for name in ["room/1", "room/2/a", "hall/1", "$inbox", "secret/x/1"]:
        if not name.startswith("$"):
            server.call(server.admin, "timeline.create", timeline=name)
    server.call(server.admin, "timeline.create", timeline="room/3/b", settings={"members_only": True})
    ask = lambda bearer, **params: [one["name"] for one in server.call(bearer, "timeline.prefixes", **params)["entries"]]
    assert ask(server.admin) == ["hall/", "room/", "secret/"]
    assert ask(server.admin, prefix="room/") == ["room/1", "room/2/", "room/3/"]
    eve = who("eve", "read", on="room/*")
    assert ask(eve) == ["room/"] and ask(eve, prefix="secret/") == [] == ask(eve, prefix="hall/")
    assert ask(eve, prefix="room/") == ["room/1", "room/2/"]
    server.call(server.admin, "member.add", timeline="room/3/b", members=[{"user": "eve"}])
    assert ask(eve, prefix="room/") == ["room/1", "room/2/", "room/3/"]
    assert ask(who("eve", "read", on="room/2/a")) == ["room/"]
    assert ask(who("bob")) == []


def test_the_readers_of_a_timeline(server, client, name):
    assert client.append(name)["sequence"] == 1
    readers = lambda **params: client.call("timeline.readers", timeline=name, **params)
    assert readers() == {"count": 0, "at_head": 0, "slowest": []}
    with Client(server, user="ann") as ann, Client(server) as back_end, Client(server, user="ben") as ben:
        ann.call("subscribe", timeline=name, after=0)
        back_end.call("subscribe", timeline=name)
        # Who waits for a sync is no subscription.
        ben.ask("sync", positions={name: {"after": 1}}, wait_ms=20_000)
        until(lambda: readers()["at_head"] == 2)
        found = readers()
        assert found["count"] == 2 and "asked" not in found
        assert sorted(one.get("user", "") for one in found["slowest"]) == ["", "ann"]
        assert all(one["position"] == 1 and one["lag_ms"] == 0 for one in found["slowest"])
        assert len(readers(limit=1)["slowest"]) == 1
        hers = next(one["session"] for one in found["slowest"] if one.get("user") == "ann")
        assert client.call("session.get", session=hers)["positions"] == [{"timeline": name, "position": 1, "head": 1, "lag_ms": 0}]
        client.append(name)
        until(lambda: [one["position"] for one in readers()["slowest"]] == [2, 2])


def test_a_reader_that_does_not_read_is_the_slowest(server, client, name):
    narrow, count = socket.socket(), 150
    # So that little is on its way to who does not read.
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.connect(("127.0.0.1", server.port))
    with Client(server, user="quick") as quick, Client(server, user="slow", max_queue=1, sock=narrow) as slow:
        for one in [quick, slow]:
            one.call("subscribe", timeline=name)
        entry = {"text": "x" * 50_000}
        for _ in range(count):
            client.append(name, entry)
            quick.push("message")
        lag = lambda: client.call("timeline.readers", timeline=name)["slowest"][0]
        first = until(lambda: lag() if lag()["lag_ms"] > 0 else None)
        assert first["user"] == "slow" and first["position"] < count
        assert client.call("timeline.readers", timeline=name)["at_head"] == 1
        listed = client.call("session.list", order="lag", limit=1)["sessions"]
        assert [one["session"] for one in listed] == [first["session"]] and listed[0]["lag_ms"] > 0
        got = client.call("session.get", session=first["session"])
        assert got["session"]["user"] == "slow" and got["positions"][0]["head"] == count
        assert got["positions"][0]["lag_ms"] >= first["lag_ms"]


def test_sessions_say_what_they_do(server, client, name):
    """Without [auth] everybody may look after everything."""
    with ExitStack() as both:
        one = both.enter_context(Client(server))
        # Their age is in whole milliseconds; of the same age they come in any order.
        time.sleep(0.005)
        other = both.enter_context(Client(server, packed=True))
        opened = one.call("session.open", user=f"u-{name}", device="phone", client="test/1")
        other.call("session.open", user=f"u-{name}")
        names = sorted(f"{name}/{number}" for number in range(5))
        for timeline in names:
            client.append(timeline)
            one.call("subscribe", timeline=timeline, after=0)
        one.ask("sync", positions={names[0]: {"after": 1}}, wait_ms=20_000)
        listed = lambda **params: client.call("session.list", user=f"u-{name}", **params)
        first, second = until(lambda: (lambda all: all if all[0]["in_flight"] and all[0]["subscriptions"] == 5 else None)(listed()["sessions"]))
        assert first["session"] == opened["session"] and "next" not in listed()
        assert (first["device"], first["client"], first["dialect"]) == ("phone", "test/1", "tideline.v1.json")
        assert second["dialect"] == "tideline.v1.msgpack" and second["subscriptions"] == 0
        page = listed(limit=1)
        assert [one["session"] for one in page["sessions"]] == [first["session"]]
        last = listed(limit=1, after=page["next"])
        assert [one["session"] for one in last["sessions"]] == [second["session"]] and "next" not in last
        for order in ["subscriptions", "in_flight"]:
            assert listed(order=order, limit=1)["sessions"][0]["session"] == first["session"]
        positions = lambda **params: client.call("session.get", session=first["session"], **params)
        until(lambda: all(one["position"] == 1 for one in positions()["positions"]))
        page = positions(limit=3)
        assert [one["timeline"] for one in page["positions"]] == names[:3] and page["next"] == names[2]
        last = positions(limit=3, after=page["next"])
        assert [one["timeline"] for one in last["positions"]] == names[3:] and "next" not in last
        client.call("timeline.delete", timeline=names[4])
        assert one.push("subscription.ended")["timeline"] == names[4]
        until(lambda: [one["timeline"] for one in positions()["positions"]] == names[:4])
        assert client.call("session.close", session=second["session"]) == {"closed": True}
        until(lambda: len(listed()["sessions"]) == 1)
        assert client.call("session.close", session=second["session"]) == {"closed": False}


def test_sessions_are_refused_what_is_wrong(client, refused):
    for params, field in [
        ({"order": "age"}, "order"),
        ({"after": "x"}, "after"),
        ({"after": "1-x", "order": "lag"}, "after"),
        ({"after": "x" * 65}, "after"),
        ({"limit": 0}, "limit"),
        ({"user": ""}, "user"),
    ]:
        refused(client, "session.list", -32602, "invalid_params", field, **params)
    refused(client, "session.get", 404, "session_not_found", session="x")
    refused(client, "session.get", -32602, "invalid_params", "session", session="x" * 65)
    refused(client, "session.get", -32602, "invalid_params", "limit", session="x", limit=0)
    refused(client, "session.get", -32602, "invalid_params", "after", session="x", after="x" * 513)
    refused(client, "timeline.readers", 404, "timeline_not_found", timeline="none")
    refused(client, "timeline.readers", -32602, "invalid_params", "limit", timeline="none", limit=0)
    refused(client, "timeline.readers", -32602, "invalid_params", "timeline", timeline="")


def test_who_may_look(guard):
    server = guard().start()
    for name in ["room/1", "hall/1"]:
        server.call(server.admin, "message.append", timeline=name, entry={"a": 1})
    observer = token("oscar", rights=[{"on": "*", "allow": ["observe"]}, {"on": "room/*", "allow": ["read"]}])
    with server.open(who("ann", "read", on="*")) as ann:
        hers = ann.call("session.open")["session"]
        for name in ["room/1", "hall/1"]:
            ann.call("subscribe", timeline=name)
        ask = lambda bearer, method, **params: server.call(bearer, method, **params)
        until(lambda: len(ann.call("session.get", session=hers)["positions"]) == 2)
        of = lambda bearer: [one["timeline"] for one in ask(bearer, "session.get", session=hers)["positions"]]
        assert of(who("ann")) == ["hall/1", "room/1"], "her own"
        assert of(server.admin) == ["hall/1", "room/1"] and of(observer) == ["room/1"]
        # Nor does the end of a page tell of what is left out.
        page = ask(observer, "session.get", session=hers, limit=1)
        assert page["positions"] == [] and page["next"].startswith("$next/"), page
        page = ask(observer, "session.get", session=hers, limit=1, after=page["next"])
        assert [one["timeline"] for one in page["positions"]] == ["room/1"] and "next" not in page
        assert ask(server.admin, "session.get", session=hers, limit=1)["next"] == "hall/1"
        for bearer in [observer, server.admin]:
            assert [one["session"] for one in ask(bearer, "session.list")["sessions"]] == [hers]
            assert ask(bearer, "timeline.readers", timeline="room/1")["slowest"][0]["user"] == "ann"
        assert ask(who("eve", "read", on="*"), "session.list")["sessions"] == []
        for bearer, method, params, reason in [
            (who("eve", "read", on="*"), "session.get", {"session": hers}, "session_not_found"),
            (who("eve", "read", on="*"), "timeline.readers", {"timeline": "room/1"}, "forbidden"),
            # To observe is not to read.
            (observer, "timeline.readers", {"timeline": "hall/1"}, "timeline_not_found"),
            (observer, "timeline.readers", {"timeline": "hall/none"}, "timeline_not_found"),
        ]:
            with pytest.raises(Refused) as refused:
                ask(bearer, method, **params)
            assert refused.value.reason == reason, (method, params)
        # Nor to close what is somebody else's.
        assert ask(observer, "session.close", session=hers) == {"closed": False}
        time.sleep(0.05)
        assert ann.call("ping")["time"] > 0
        assert ask(server.admin, "session.close", session=hers) == {"closed": True}
