"""STREAMS.md: a subscription down one response, and back with `Last-Event-ID`."""

import collections
import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time
from urllib.parse import quote

import pytest

from client import Client, Refused, until
from guarded import token

Event = collections.namedtuple("Event", "name data id retry")


class Stream:
    """One response, read event by event."""

    def __init__(self, server, query, last=None, bearer=None, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if last is not None:
            headers["Last-Event-ID"] = last
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        self.connection.request("GET", f"/v1/events?{query}", headers=headers)
        self.answer = self.connection.getresponse()
        self.status, self.id, self.comments = self.answer.status, last, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.answer.close()
        self.connection.close()

    def refusal(self):
        return json.loads(self.answer.read())["error"]

    def next(self):
        """The next event; `None` = the stream has ended. What was cut is no event."""
        name, data, last, retry = None, None, None, None
        while line := self.answer.readline():
            if not line.endswith(b"\n"):
                break
            field, _, value = line.rstrip(b"\n").decode().partition(": ")
            if field == ":":
                self.comments += 1
            elif field == "event":
                name = value
            elif field == "data":
                data = json.loads(value)
            elif field == "id":
                last = value
            elif field == "retry":
                retry = int(value)
            elif not field and data is not None:
                self.id = last or self.id
                return Event(name, data, last, retry)
            elif not field:
                retry = None
        return None

    def wait(self, name):
        event = self.next()
        while event is not None and event.name != name:
            event = self.next()
        assert event is not None, f"the stream ended before {name}"
        return event


def texts(messages):
    return [message["entry"]["text"] for message in messages]


def call(server, method, user=None, **params):
    answer = json.loads(server.rpc(None, method, user, **params)[2])
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["result"]


def append(server, timeline, *all_texts):
    for text in all_texts:
        call(server, "message.append", timeline=timeline, entry={"text": text})


@pytest.fixture
def own(own_server):
    """Starts the test's own server with these settings."""

    def start(config=None, environment=None):
        own_server.config, own_server.environment = config, environment or {}
        return own_server.start()

    return start


def test_a_timeline_is_followed_and_gone_on_with(server, client, name):
    client.call("message.append", timeline=name, entry={"text": "one"})
    with Stream(server, f"timeline={quote(name)}&after=0") as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        assert stream.answer.headers["Date"] and stream.answer.headers["X-Content-Type-Options"] == "nosniff"
        assert stream.answer.headers["X-Accel-Buffering"] == "no" and stream.answer.headers["X-Request-ID"]
        assert "no-cache" in stream.answer.headers["Cache-Control"]
        first = stream.next()
        assert first.name == "subscribed" and first.retry and not first.data["more"]
        begun = first.data["timelines"][name]
        assert begun["state"] == "ok" and texts(begun["messages"]) == ["one"]
        assert first.id == f"timeline={name}&epoch={begun['epoch']}&after=1&changes_after=0"
        client.call("message.append", timeline=name, entry={"text": "two"})
        pushed = stream.next()
        assert pushed.name == "message" and texts(pushed.data["messages"]) == ["two"]
        assert "after=2" in pushed.id
        client.call("message.update", timeline=name, sequence=1, set={"text": "ONE"})
        changed = stream.wait("message.changed")
        assert changed.id == pushed.id.replace("changes_after=0", "changes_after=1")
        client.call("timeline.update", timeline=name, meta={"title": "x"})
        assert stream.wait("timeline.changed").id is None
        last = stream.id
    client.call("message.append", timeline=name, entry={"text": "three"})
    client.call("message.update", timeline=name, sequence=2, set={"text": "TWO"})
    for query, last in [(f"timeline={quote(name)}&after=0", last), (last, None)]:
        with Stream(server, query, last) as stream:
            begun = stream.next().data["timelines"][name]
            assert texts(begun["messages"]) == ["three"] and texts(begun["changed"]) == ["TWO"]


def test_several_timelines_share_a_stream(server, client, name):
    for at in "ab":
        client.call("message.append", timeline=f"{name}/{at}", entry={"text": at})
    query = f"timeline={name}/a&after=0&timeline={name}/none&timeline={name}/b&rewind=0&with=signals"
    with Stream(server, query) as stream:
        begun = stream.next()
        parts = begun.data["timelines"]
        assert texts(parts[f"{name}/a"]["messages"]) == ["a"] and parts[f"{name}/b"]["messages"] == []
        assert parts[f"{name}/none"] == {"reason": "timeline_not_found"} and "none" not in begun.id
        client.call("message.append", timeline=f"{name}/b", entry={"text": "c"})
        assert texts(stream.next().data["messages"]) == ["c"]
        with Client(server, user="ada") as ada:
            ada.call("signal", timeline=f"{name}/a", signal={"typing": True})
        signal = stream.next()
        assert signal.name == "signal" and signal.data["user"] == "ada" and signal.id is None
        last = stream.id
    append(server, f"{name}/a", "later")
    with Stream(server, query, last) as stream:
        parts = stream.next().data["timelines"]
        assert sorted(parts) == [f"{name}/a", f"{name}/b"]
        assert texts(parts[f"{name}/a"]["messages"]) == ["later"] and parts[f"{name}/b"]["messages"] == []


def test_what_is_asked_for_wrongly_is_refused(server, name):
    for query, status, reason in [
        ("", 400, "invalid_params"),
        ("after=1", 400, "invalid_params"),
        (f"timeline={name}&after=x", 400, "invalid_params"),
        ("conversations=true", 400, "invalid_params"),
        ("conversations=true&device=phone", 401, "unauthenticated"),
        (f"timeline={name}", 404, "timeline_not_found"),
        (f"timeline={name}&timeline={name}/b", 404, "timeline_not_found"),
        ("timeline=a&ticket=0b0f6a2f5d3b4e7c9a1d2c3b4a5f6e7d", 401, "unauthenticated"),
        ("&".join(f"timeline={name}/{at}" for at in range(90)), 413, "too_large"),
    ]:
        with Stream(server, query) as stream:
            assert (stream.status, stream.refusal()["data"]["reason"]) == (status, reason), query
    with Stream(server, f"timeline={name}", last="timeline=other&after=1") as stream:
        assert stream.status == 400 and stream.refusal()["data"]["field"] == "Last-Event-ID"
    for accept, status in [("application/json", 406), ("Text/Event-Stream; q=0.5", 404), ("text/event-stream;q=0", 406)]:
        with Stream(server, f"timeline={name}", Accept=accept) as stream:
            assert stream.status == status, accept
    twice = {"Last-Event-ID": f"timeline={name}&after=1", "last-event-id": f"timeline={name}&after=2"}
    assert server.http("GET", f"/v1/events?timeline={name}", headers=twice)[0] == 400
    assert server.http("POST", "/v1/events?timeline=a", "")[0] == 405
    assert server.http("GET", "/v1/events?timeline=a", headers={"Authorization": "Bearer x"})[0] == 401
    with Stream(server, f"timeline={name}&create=true") as stream:
        assert stream.status == 400 and stream.refusal()["data"]["field"] == "create"


def test_a_refused_stream_counts_as_refused(own):
    server = own()
    append(server, "a", "one")
    for query in ["timeline=a", "timeline=none"]:
        with Stream(server, query) as stream:
            stream.answer.readline()
    for result in ["ok", "timeline_not_found"]:
        assert server.metric("tideline_requests_total", f'{{method="subscribe",result="{result}"}}') == 1


def test_an_end_is_told_and_not_gone_on_with(server, client, name):
    append(server, name, "one")
    query = f"timeline={name}&after=0"
    with Stream(server, query) as stream:
        epoch = stream.next().data["timelines"][name]["epoch"]
        client.call("timeline.delete", timeline=name)
        ended = stream.next()
        assert ended.name == "subscription.ended" and ended.data["reason"] == "deleted"
        assert stream.next() is None
        last = stream.id
    with Stream(server, query, last) as stream:
        assert stream.status == 204
    append(server, name, "new")
    with Stream(server, query, f"timeline={name}&epoch={epoch}&after=1") as stream:
        started = stream.next()
        assert started.data["timelines"][name]["state"] == "epoch_changed" and stream.next() is None
    with Stream(server, query, started.id) as stream:
        assert texts(stream.next().data["timelines"][name]["messages"]) == ["new"]


def test_what_is_to_be_subscribed_again_ends_its_stream(server, name):
    for at in "ab":
        append(server, f"{name}/{at}", "one")
    query = f"timeline={name}/a&after=1&epoch=0b7cQ1p5&timeline={name}/b&after=0"
    with Stream(server, query) as stream:
        begun = stream.next()
        assert begun.data["timelines"][f"{name}/a"]["state"] == "epoch_changed" and begun.retry == 10
        assert texts(begun.data["timelines"][f"{name}/b"]["messages"]) == ["one"]
        assert stream.next() is None
    with Stream(server, query, begun.id) as stream:
        again = stream.next().data["timelines"]
        assert texts(again[f"{name}/a"]["messages"]) == ["one"] and again[f"{name}/b"]["messages"] == []
        append(server, f"{name}/a", "two")
        assert texts(stream.wait("message").data["messages"]) == ["two"]


def test_a_silent_stream_lives_and_the_end_of_the_server_is_told(own):
    server = own(config="heartbeat_ms = 100\n")
    append(server, "a", "one")
    with Stream(server, "timeline=a") as stream:
        stream.next()
        ended = threading.Timer(1, server.stop)
        ended.start()
        draining = stream.next()
        assert stream.comments >= 3
        assert draining.name == "draining" and draining.retry == draining.data["reconnect_in_ms"]
        assert stream.next() is None
        ended.join()


def test_a_stream_is_a_session_and_a_gone_client_gives_its_place_back(server, name):
    append(server, name, "one")
    # Those of the tests before have ended, but the server may not have heard yet.
    until(lambda: server.metric("tideline_event_streams") == 0)
    streams = [Stream(server, f"timeline={name}&after=0") for _ in range(5)]
    until(lambda: server.metric("tideline_event_streams") == 5)
    listed = call(server, "session.list")["sessions"]
    own = [one for one in listed if one["dialect"] == "tideline.v1.events"]
    assert len(own) >= 5 and all(one["subscriptions"] == 1 for one in own[-5:])
    for stream in streams:
        stream.close()
    until(lambda: server.metric("tideline_event_streams") == 0)


def test_who_may_not_read_gets_nothing(guard, name):
    server = guard().start()
    server.call(token(), "message.append", timeline=name, entry={"text": "one"})
    with Stream(server, f"timeline={name}") as stream:
        assert stream.status == 401 and stream.answer.headers["WWW-Authenticate"] == "Bearer"
    other = token("ben", rights=[{"on": "other", "allow": ["read"]}])
    with Stream(server, f"timeline={name}&after=0", bearer=other) as stream:
        assert stream.status == 404
    ticket = server.call(token(), "session.ticket")["ticket"]
    with Stream(server, f"timeline={name}&after=0&ticket={ticket}", bearer=token()) as stream:
        assert stream.status == 400
    with Stream(server, f"timeline={name}&after=0&ticket={ticket}") as stream:
        assert texts(stream.next().data["timelines"][name]["messages"]) == ["one"]
        with Stream(server, f"timeline={name}&after=0&ticket={ticket}") as again:
            refused = again.answer.read()
        with Stream(server, f"timeline={name}&after=0", bearer="other") as again:
            assert (again.status, again.answer.read()) == (401, refused)
        with Client(server) as client:
            client.call("session.open", token=token())
            second = client.call("session.ticket")["ticket"]
        server.call(server.admin, "session.revoke", user="ann", issued_before=int(time.time() * 1000) + 5_000)
        assert stream.next() is None
    with Stream(server, f"timeline={name}&ticket={second}") as stream:
        assert stream.status == 401
    key = server.call(server.admin, "key.create", name="back-end", rights=[{"on": name, "allow": ["read"]}], act_as=["*"])["key"]
    ticket = server.call(key, "session.ticket", acting="eve")["ticket"]
    with Stream(server, f"timeline={name}&after=0&ticket={ticket}") as stream:
        stream.next()
        until(lambda: any(one.get("user") == "eve" for one in server.call(server.admin, "session.list")["sessions"]))
    assert ticket not in server.whole_log()


def test_a_wrong_ticket_is_a_refused_credential(guard):
    server = guard(limits="{ address = { failures_per_min = 5 } }").start()
    heard = []
    for _ in range(15):
        with Stream(server, "timeline=a&ticket=0b0f6a2f5d3b4e7c9a1d2c3b4a5f6e7d") as stream:
            heard.append(stream.status)
    assert heard[:5] == [401] * 5 and heard[-1] == 429
    assert server.metric("tideline_credentials_total", '{by="ticket",result="revoked"}') == 15


def test_tickets_have_a_bound(guard):
    server = guard(before="tickets_max = 8\n").start()
    for _ in range(2):
        server.call(token(), "session.ticket")
    with pytest.raises(Refused) as refused:
        server.call(token(), "session.ticket")
    assert refused.value.reason == "too_many"
    server.call(token("ben"), "session.ticket")


def test_who_does_not_read_is_cut(own, name):
    server = own(config="slow_consumer_ms = 500\nsocket_send_bytes = 16384\n")
    with socket.create_connection(("127.0.0.1", server.port)) as slow, Client(server) as client:
        client.call("timeline.create", timeline=name)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET /v1/events?timeline={name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until(lambda: server.metric("tideline_event_streams") == 1)
        before, text = server.memory(), "x" * 100_000
        for _ in range(100):
            client.call("message.append", timeline=name, entry={"text": text})
        until(lambda: server.metric("tideline_event_streams") == 0)
        assert server.memory() - before < 64 << 20
    assert server.metric("tideline_closes_total", '{reason="slow_consumer"}') == 1


def test_who_sends_much_is_cut(server, name):
    append(server, name, "one")
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(f"GET /v1/events?timeline={name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 200")
        with pytest.raises(OSError):
            for _ in range(200):
                line.sendall(b"x" * 60_000)


def test_all_conversations_of_a_device(server, user):
    rooms = [f"{user}/{at}" for at in range(40)]
    for room in rooms:
        call(server, "timeline.create", timeline=room, members=[{"user": user}])
        append(server, room, "one")
    query, had, streams, last = "conversations=true&device=phone", collections.Counter(), 0, None
    until(lambda: call(server, "conversation.count", user=user)["conversations"] == len(rooms))

    def take(event):
        messages = []
        if event.name == "subscribed":
            messages = [(room, part["messages"]) for room, part in event.data["timelines"].items()]
        if event.name == "message":
            messages = [(event.data["timeline"], event.data["messages"])]
        had.update((room, one["sequence"]) for room, all_messages in messages for one in all_messages)

    while len(had) < len(rooms) + 1:
        streams += 1
        with Stream(server, query, last, tideline_user=user) as stream:
            assert stream.status == 200
            while len(had) < len(rooms) + 1 and (event := stream.next()):
                take(event)
                assert len(event.id or "") < 8_000
                if len(had) == len(rooms):
                    append(server, rooms[7], "two")
            last = stream.id
    assert streams > 1, "an ID that is full ends its stream"
    assert set(had.values()) == {1}
    append(server, rooms[9], "two")
    with Stream(server, query, last, tideline_user=user) as stream:
        while (rooms[9], 2) not in had:
            take(stream.wait("subscribed"))
    assert set(had.values()) == {1}


def test_a_conversation_with_nothing_to_tell_is_gone_on_with(server, user):
    rooms = [f"{user}/{at}" for at in "ab"]
    query = "conversations=true&device=phone"
    call(server, "timeline.create", timeline=rooms[0], members=[{"user": user}])
    until(lambda: call(server, "conversation.count", user=user)["conversations"] == 1)
    with Stream(server, query, tideline_user=user) as stream:
        assert rooms[0] in stream.wait("subscribed").id
        call(server, "timeline.create", timeline=rooms[1], members=[{"user": user}])
        while rooms[1] not in stream.id:
            stream.wait("subscribed")
    append(server, rooms[1], *map(str, range(25)))
    with Stream(server, query, stream.id, tideline_user=user) as stream:
        event = stream.wait("subscribed")
        assert texts(event.data["timelines"][rooms[1]]["messages"]) == [str(at) for at in range(25)]


def test_an_id_counts_before_what_the_device_has_stored(server, user):
    call(server, "timeline.create", timeline=user, members=[{"user": user}])
    append(server, user, "one")
    query = "conversations=true&device=phone"
    until(lambda: call(server, "conversation.count", user=user)["conversations"] == 1)
    with Stream(server, query, tideline_user=user) as stream:
        first = stream.wait("subscribed")
    append(server, user, "two")
    place = {"epoch": first.data["timelines"][user]["epoch"], "after": 2}
    for device in range(100):
        call(server, "position.set", user, device=f"other-{device}", positions={user: place})
    for query in [query, "conversations=true&device=other-1"]:
        with Stream(server, query, first.id, tideline_user=user) as stream:
            assert texts(stream.wait("subscribed").data["timelines"][user]["messages"]) == ["two"]


def follow(server, name, want, rounds):
    """Reads with cuts of the line until `want` messages are there; what came, and how often it came back."""
    had, last, streams = [], None, 0
    rng = random.Random(rounds)
    deadline = time.monotonic() + 60
    while len(had) < want and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            with Stream(server, f"timeline={name}&after=0", last) as stream:
                streams += 1
                left = rng.randrange(1, 30)
                while left and len(had) < want and stream.status == 200 and (event := stream.next()):
                    left -= 1
                    last = stream.id
                    if event.name == "subscribed":
                        had += event.data["timelines"][name]["messages"]
                    elif event.name == "message":
                        had += event.data["messages"]
                    assert event.name != "subscription.ended", event
                    if had and had[-1]["sequence"] > len(had):
                        return had, streams
        time.sleep(0.005)
    return had, streams


def followed_through_kills(server, name, count=400, kills=4):
    """What a reader got of a timeline while the server was killed."""
    call(server, "timeline.create", timeline=name)
    got = []
    reader = threading.Thread(target=lambda: got.append(follow(server, name, count, kills)))
    reader.start()
    for at in range(count):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, Refused):
                call(server, "message.append", timeline=name, message_id=f"m-{at}", entry={"text": str(at)})
                break
        if (at + 1) % (count // kills) == 0:
            server.kill()
            server.start()
        if not reader.is_alive():
            break
    reader.join()
    return got[0]


def test_nothing_is_lost_or_doubled_through_kills_of_the_server(own, name):
    had, streams = followed_through_kills(own(), name)
    assert [one["sequence"] for one in had] == list(range(1, 401))
    assert texts(had) == [str(at) for at in range(400)] and streams > 8


@pytest.mark.skipif("TIDELINE_FAULTS" not in os.environ, reason="needs a build with the feature faults")
def test_control_an_id_that_runs_ahead_loses_messages(own, name):
    had, _ = followed_through_kills(own(environment={"TIDELINE_FAULT": "event_id_ahead"}), name)
    assert [one["sequence"] for one in had] != list(range(1, 401))
