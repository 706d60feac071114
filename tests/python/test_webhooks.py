"""Webhooks: a real HTTP server gets the changes, and fails, hangs, is away and comes back."""

import base64
import hashlib
import hmac
import json
import signal
import threading
import time

import pytest

from client import Client, until as soon
from listener import Listener
from server import free_port

SECRET = b"0123456789abcdef0123456789abcdef"
PATIENCE = 60


class Receiver:
    """An HTTP server on a port of its own that keeps what it has answered with 2xx, and does as it is told."""

    def __init__(self):
        self.port = free_port()
        self.taken, self.refused, self.problems, self.traces = [], 0, [], []
        self.answer = 204
        self.hold = None
        self.listener = None
        self.start()

    def start(self):
        self.listener = Listener(self.answers, self.port)

    def stop(self):
        if self.listener:
            self.listener.close()
            self.listener = None

    def answers(self, _, headers, body):
        if self.hold is not None:
            self.hold.wait(PATIENCE)
        if not self.checked(headers, body):
            self.problems.append(dict(headers))
        answer = self.answer(headers) if callable(self.answer) else self.answer
        if answer // 100 == 2:
            self.traces.append(headers["traceparent"])
            self.taken.append((headers["webhook-id"], json.loads(body)))
        else:
            self.refused += 1
        return answer

    @staticmethod
    def checked(headers, body):
        """Whether the headers are those of Standard Webhooks, signed with the secret."""
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
        is_now = abs(int(headers["webhook-timestamp"]) - time.time()) < 60
        return is_now and headers["webhook-signature"] == f"v1,{expected}" and headers["content-type"] == "application/json"

    def changes(self):
        return [change for _, changes in self.taken for change in changes]

    def numbers(self, timeline):
        """What was said in a timeline, in the order in which it was taken; repeats are left out."""
        told = []
        for change in self.changes():
            if change["kind"] == "message" and change["timeline"] == timeline:
                told += [message["entry"]["n"] for message in change["messages"]]
        return list(dict.fromkeys(told))


def cursors(client):
    return {one["cursor"]: one["position"] for one in client.call("stream.cursors")["cursors"]}


def until(what):
    return soon(what, PATIENCE)


@pytest.fixture
def receiver():
    running = Receiver()
    yield running
    running.stop()


@pytest.fixture
def hooked(own_server, receiver, tmp_path):
    """A server with a webhook for `room/`, started."""
    (tmp_path / "secret").write_text("whsec_" + base64.b64encode(SECRET).decode() + "\n")
    (tmp_path / "secret").chmod(0o600)
    own_server.config = f"""
[[webhook]]
name = "search"
url = "http://127.0.0.1:{receiver.port}/changes?key=hidden"
secret_file = "{tmp_path / 'secret'}"
timelines = "room/"
changes_max = 20
timeout_ms = 500
retry_ms_max = 300
give_up_ms = 600000
"""
    own_server.start()
    until(lambda: status(own_server).get("position"))
    return own_server


def status(server):
    with Client(server) as client:
        return client.call("webhook.list")["webhooks"][0]


def test_changes_are_posted_signed_and_in_order(hooked, receiver):
    with Client(hooked) as client:
        client.fill("room/1", 50)
        client.fill("elsewhere", 5)
        client.call("message.delete", timeline="room/1", sequence=3)
    until(lambda: "message.changed" in [change["kind"] for change in receiver.changes()])
    got = receiver.changes()
    assert got[0]["kind"] == "timeline.created" and {change["timeline"] for change in got} == {"room/1"}
    assert receiver.numbers("room/1") == list(range(1, 51))
    assert not receiver.problems
    ids = [id for id, _ in receiver.taken]
    assert len(set(ids)) == len(ids) and all(len(changes) <= 20 for _, changes in receiver.taken)
    told = until(lambda: (told := status(hooked))["behind"] == 0 and told)
    assert told["name"] == "search" and told["timelines"] == "room/" and told["dead"] == 0 and "failing" not in told
    assert told["url"] == f"http://127.0.0.1:{receiver.port}/changes", "the query may hold a key"


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_receiver_that_was_down_gets_a_minute_of_changes_in_order(hooked, receiver, partitions):
    """After a kill, also where other partitions have taken the timelines over."""
    receiver.stop()
    with Client(hooked) as client:
        for second in range(60):
            for room in ("room/1", "room/2"):
                client.append(room, {"n": second})
    failing = until(lambda: status(hooked).get("failing"))
    assert failing["attempts"] >= 1 and failing["error"]
    if partitions:
        hooked.config = f"partitions = {partitions}\n{hooked.config}"
    hooked.restart(signal.SIGKILL)
    receiver.start()
    for room in ("room/1", "room/2"):
        until(lambda: len(receiver.numbers(room)) == 60)
        assert receiver.numbers(room) == list(range(60))
    until(lambda: "failing" not in status(hooked))
    assert not receiver.problems


def test_what_fails_or_hangs_is_repeated_with_the_same_id(hooked, receiver):
    seen = []

    def answer(headers):
        seen.append(headers["webhook-id"])
        return [500, 302, 429, 204][min(len(seen), 4) - 1]

    receiver.answer = answer
    with Client(hooked) as client:
        client.append("room/1", {"n": 1})
        until(lambda: receiver.numbers("room/1") == [1])
        assert len(set(seen[:4])) == 1 and receiver.refused == 3
        # One that hangs is asked again, too.
        receiver.hold = threading.Event()
        client.append("room/1", {"n": 2})
        until(lambda: "no answer within" in status(hooked).get("failing", {}).get("error", ""))
        receiver.hold.set()
        receiver.hold = None
        until(lambda: receiver.numbers("room/1") == [1, 2])


def test_what_is_not_taken_in_time_is_a_dead_letter_and_delivery_goes_on(hooked, receiver, refused):
    hooked.config = hooked.config.replace("give_up_ms = 600000", "give_up_ms = 1000")
    hooked.restart()
    with Client(hooked) as client:
        receiver.answer = 503
        client.append("room/1", {"n": 1})
        dead = until(lambda: client.call("webhook.dead", name="search")["dead"])[0]
        assert dead["number"] == 1 and dead["changes"] == 2 and "503" in dead["error"] and dead["replaying"] is False
        assert dead["from"] != dead["to"] and dead["failed_at"] > 0
        # The log is kept for it, as for a back end.
        assert until(lambda: cursors(client).get("$webhook/search/dead")) == dead["from"]
        receiver.answer = 200
        client.append("room/1", {"n": 2})
        until(lambda: receiver.numbers("room/1") == [2])
        assert status(hooked)["dead"] == 1
        metrics = hooked.metrics()
        assert 'tideline_webhook_dead{webhook="search"} 1' in metrics
        # It is posted once more when somebody asks for it.
        assert client.call("webhook.replay", name="search", dead=1) == {}
        until(lambda: receiver.numbers("room/1") == [2, 1])
        until(lambda: not client.call("webhook.dead", name="search")["dead"])
        until(lambda: list(cursors(client)) == ["$webhook/search"])
        refused(client, "webhook.replay", 404, "dead_letter_not_found", "dead", name="search", dead=1)
        receiver.answer = 503
        client.append("room/1", {"n": 3})
        dead = until(lambda: client.call("webhook.dead", name="search")["dead"])
    hooked.config = f"partitions = 2\n{hooked.config}"
    hooked.restart()
    with Client(hooked) as client:
        assert client.call("webhook.dead", name="search")["dead"] == dead


def test_many_dead_letters_are_posted_while_what_came_later_fails(hooked, receiver):
    patient = hooked.config.replace("changes_max = 20", "changes_max = 1").replace("timeout_ms = 500", "timeout_ms = 30000")
    hooked.config = patient.replace("give_up_ms = 600000", "give_up_ms = 1000")
    hooked.restart()
    receiver.answer = 503
    with Client(hooked) as client:
        for room in range(18):
            client.append(f"room/{room}", {"n": room})
        until(lambda: len(client.call("webhook.dead", name="search")["dead"]) >= 18)
    hooked.config = patient
    hooked.restart()
    fails = set()
    receiver.answer = lambda headers: fails.add(headers["webhook-id"]) or 503
    with Client(hooked) as client:
        client.append("room/more", {"n": 1})
        until(lambda: fails)
        letters = client.call("webhook.dead", name="search")["dead"]
        # All are asked for while one post is under way: more than are posted between two attempts.
        receiver.hold = threading.Event()
        for letter in letters:
            client.call("webhook.replay", name="search", dead=letter["number"])
        receiver.answer = lambda headers: 503 if headers["webhook-id"] in fails else 200
        receiver.hold.set()
        until(lambda: not client.call("webhook.dead", name="search")["dead"])
        assert not receiver.numbers("room/more")


def test_everything_behind_a_position_is_posted_again(hooked, receiver):
    begin = status(hooked)["position"]
    with Client(hooked) as client:
        client.fill("room/1", 30)
        until(lambda: receiver.numbers("room/1") == list(range(1, 31)))
        until(lambda: status(hooked)["behind"] == 0)
        receiver.taken.clear()
        assert client.call("webhook.replay", name="search", position=begin) == {}
        until(lambda: receiver.numbers("room/1") == list(range(1, 31)))


def test_a_position_can_be_set_while_the_receiver_fails(hooked, receiver):
    receiver.answer = 500
    with Client(hooked) as client:
        client.append("room/1", {"n": 1})
        until(lambda: status(hooked).get("failing"))
        now = client.call("stream.open", timelines="room/")["position"]
        client.call("webhook.replay", name="search", position=now)
        receiver.answer = 200
        client.append("room/1", {"n": 2})
        until(lambda: receiver.numbers("room/1"))
        assert receiver.numbers("room/1") == [2]


def test_webhooks_are_for_back_ends_and_have_names(hooked, refused):
    with Client(hooked) as client:
        refused(client, "webhook.dead", 404, "webhook_not_found", "name", name="other")
        refused(client, "webhook.replay", 404, "webhook_not_found", "name", name="other", dead=1)
        refused(client, "webhook.replay", -32602, "invalid_params", "position", name="search")
        refused(client, "webhook.replay", -32602, "invalid_params", "position", name="search", position="nonsense")
        refused(client, "stream.forget", 403, "forbidden", "cursor", cursor="$webhook/search")
    with Client(hooked, user="ann") as ann:
        for method, params in [("webhook.list", {}), ("webhook.dead", {"name": "search"}), ("webhook.replay", {"name": "search", "dead": 1})]:
            refused(ann, method, 403, "forbidden", **params)


def test_a_secret_is_nowhere_to_be_seen(hooked, receiver):
    receiver.answer = 500
    with Client(hooked) as client:
        client.append("room/1", {"n": 1})
        until(lambda: status(hooked).get("failing"))
    coded = base64.b64encode(SECRET).decode()
    assert coded not in hooked.log() and "hidden" not in hooked.log()


def test_a_post_is_a_part_of_the_trace_of_the_append(hooked, receiver):
    trace, by_http = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    said = []

    def told():
        return [message.get("traceparent") for change in receiver.changes() if change["kind"] == "message" for message in change["messages"]]

    def append(number, **headers):
        call = {"jsonrpc": "2.0", "id": 1, "method": "message.append", "params": {"timeline": "room/1", "entry": {"n": number}}}
        _, _, body = hooked.http("POST", "/v1/rpc", json.dumps(call), {"content-type": "application/json", **headers})
        assert "result" in json.loads(body)

    with Client(hooked) as client:
        for number, around in enumerate([{"traceparent": trace}, {}, {"traceparent": trace.upper()}]):
            client.around = around
            client.append("room/1", {"n": number})
            said.append(around.get("traceparent") if around.get("traceparent") == trace else None)
            # One POST for each, so that its head is the message's own.
            until(lambda: len(told()) == len(said))
    append(3, traceparent=by_http)
    until(lambda: len(told()) == 4)
    # It is repeated with what it had.
    receiver.answer = 503
    append(4, traceparent=trace)
    until(lambda: receiver.refused >= 2)
    receiver.answer = 204
    until(lambda: len(told()) == 5)
    assert told() == [*said, by_http, trace]
    assert [one for one in receiver.traces if one] == [trace, by_http, trace]
    # It is no part of the message.
    with Client(hooked) as client:
        kept = client.call("message.range", timeline="room/1")["messages"]
    assert len(kept) == 5 and not any("traceparent" in message for message in kept)
    assert not receiver.problems
