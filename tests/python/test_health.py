"""What the server says of itself: `server.status`, `server.history`, `partition.list`, `log.tail`. The figures are held against what the
test does to a real server: partitions that stop, readers that do not read, a disk without room.
"""

import contextlib
import json
import os
import resource
import socket
import subprocess
import threading
import time

import pytest

from client import Client, Refused, until
from guarded import token
from server import CHANGE_PATIENCE, Server

faulty = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")

FIGURES = {
    "appends", "deliveries", "requests", "refusals", "reads", "syncs", "received_bytes", "sent_bytes", "cpu", "connections", "subscriptions",
    "in_flight", "queue", "memory_bytes", "used_bytes", "dead_bytes", "log_bytes", "disk_free_bytes", "feed_lag_s", "relay_lag_s",
}


@contextlib.contextmanager
def running(tmp_path, config="", **environment):
    server = Server(tmp_path, environment=environment, config=config)
    try:
        yield server.start()
    finally:
        server.kill()


def status(server):
    with Client(server) as client:
        return client.call("server.status")


def notices(server):
    return [notice["what"] for notice in status(server)["notices"]]


def notice(server, beginning):
    """The notice that begins so, once it is there."""
    found = lambda: next((one for one in status(server)["notices"] if one["what"].startswith(beginning)), None)
    until(found)
    told = found()
    assert told["advice"].endswith(".") and told["since"] <= time.time() * 1000 + 1000, told
    return told


# server.status

def test_a_new_server_is_well(tmp_path):
    begun = time.time() * 1000
    with running(tmp_path) as server:
        told = status(server)
        assert told["name"] == socket.gethostname()
        version = subprocess.run([server.binary, "--version"], capture_output=True, text=True).stdout
        assert version.split()[1] == told["version"]
        assert begun - 1000 <= told["started_at"] <= time.time() * 1000
        assert told["listen"] == f"127.0.0.1:{server.port}"
        assert (told["auth"], told["ready"], "reason" in told) == (False, True, False)
        assert told["you"] == {}
        with Client(server, user="ann") as client:
            assert client.call("server.status")["you"] == {"user": "ann"}


def test_storage_is_what_is_on_the_disk(server):
    storage = status(server)["storage"]
    room = os.statvfs(server.data)
    # Root may write more than others.
    assert room.f_bavail - (1 << 18) < storage["disk_free"] / room.f_frsize < room.f_bfree + (1 << 18)
    logs = lambda: [os.path.join(folder, name) for folder, _, names in os.walk(server.data) for name in names if name.endswith(".log")]

    def agrees():
        """What tests before this one began may still be written."""
        storage, on_disk = status(server)["storage"], sum(map(os.path.getsize, logs()))
        rows = server.metric("tideline_image_used_bytes") - server.metric("tideline_image_dead_bytes")
        return storage["log"] == server.metric("tideline_log_bytes") and storage["log"] <= (on_disk or storage["log"]) and storage["live"] == rows

    until(agrees)
    assert "full_in_s" not in storage, "nobody knows after so short a time"


def test_a_caller_is_told_who_they_are(guard):
    server = guard(auth="[[auth.rights]]\non = \"room/*\"\nallow = [\"read\"]\n").start()
    all_of = lambda *allow: [{"on": "*", "allow": list(allow)}]
    key = server.call(server.admin, "key.create", name="ops", rights=all_of("observe", "read"))["key"]
    told = server.call(key, "server.status")
    assert told["auth"] is True
    assert told["you"]["key"] == "ops" and "user" not in told["you"]
    assert [(one["on"], sorted(one["allow"])) for one in told["you"]["rights"]] == [("*", ["observe", "read"])]
    told = server.call(token("ann", rights=all_of("observe")), "server.status")["you"]
    assert told == {"user": "ann", "rights": [*all_of("observe"), {"on": "room/*", "allow": ["read"]}]}


METHODS = ["server.status", "server.history", "partition.list", "log.tail"]


@pytest.mark.parametrize("method", METHODS)
def test_they_are_for_those_who_may_observe(guard, method):
    server = guard().start()
    every = ["read", "append", "react", "signal", "create", "edit", "moderate", "members", "manage"]
    with pytest.raises(Refused) as refused:
        server.call(token(rights=[{"on": "*", "allow": every}]), method)
    assert refused.value.reason == "forbidden"
    server.call(token(rights=[{"on": "*", "allow": ["observe"]}]), method)
    server.call(server.admin, method)
    assert server.rpc(None, method)[0] == 401


@pytest.mark.parametrize("method, params, field", [
    ("server.status", {"x": 1}, "x"),
    ("server.history", {"since": -1}, "since"),
    ("server.history", {"since": 2**53}, "since"),
    ("server.history", {"since": "now"}, "since"),
    ("log.tail", {"after": 2**53}, "after"),
    ("log.tail", {"level": "fatal"}, "level"),
    ("log.tail", {"limit": 0}, "limit"),
    ("log.tail", {"wait_ms": -1}, "wait_ms"),
    ("log.tail", {"until": 1}, "until"),
])
def test_bad_parameters_are_refused_with_their_field(client, refused, method, params, field):
    refused(client, method, -32602, "invalid_params", field, **params)


@faulty
def test_a_stopped_partition_is_told_with_its_reason(tmp_path):
    with running(tmp_path, TIDELINE_FAULT="log_fails:30") as server:
        with Client(server) as client:
            with pytest.raises(Refused) as refused:
                for number in range(60):
                    client.append(f"t-{number}")
            # Whose batch it is does not matter.
            assert refused.value.reason in ["outcome_unknown", "unavailable"]
            with pytest.raises(Refused) as refused:
                client.append("t")
            assert refused.value.reason == "unavailable"
            told = client.call("server.status")
            assert told["ready"] is False and "disk failure" in told["reason"]
            until(lambda: client.call("server.status")["notices"])
            first, *_ = client.call("server.status")["notices"]
            assert first["severity"] == "critical"
            assert first["what"] == "Partition 0 takes no writes: the log failed: a fault." and "dmesg" in first["advice"]
            listed, = client.call("partition.list")["partitions"]
            assert listed["state"] == "stopped" and listed["reason"] == "the log failed: a fault"
            line = client.call("log.tail", level="error")["lines"][-1]
            assert line["message"] == "the log failed; the partition stops" and line["level"] == "error"
            # It keeps its beginning.
            time.sleep(1.5)
            assert client.call("server.status")["notices"][0]["since"] == first["since"]


def test_a_disk_that_is_nearly_full_is_told(tmp_path):
    """The largest file that a process may write counts as room, too."""
    limit = 300 << 20
    server = Server(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    try:
        told = notice(server, "The disk is nearly full: 315 MB are left.")
        assert told["severity"] == "critical" and "Make room" in told["advice"]
        assert status(server)["storage"]["disk_free"] == limit
    finally:
        server.kill()


def test_a_reader_that_does_not_read_is_told_and_then_forgotten(tmp_path):
    with running(tmp_path, config="slow_consumer_ms = 8000\nsocket_send_bytes = 4096\n") as server, Client(server) as writer:
        lagging = Client(server)
        lagging.call("subscribe", timeline="flood")
        stop = threading.Event()

        def write():
            with Client(server) as own:
                while not stop.is_set():
                    own.append("flood", {"text": "x" * 20_000})

        # Nobody reads what this socket gets: its library's thread is stopped by a full queue.
        thread = threading.Thread(target=write)
        thread.start()
        try:
            told = notice(server, "Clients that do not keep up with what they are sent: 1.")
            assert told["severity"] == "warning" and "Sessions" in told["advice"]
            assert server.metric("tideline_readers_behind") == 1
            told = notice(server, "Clients were cut because they did not read what they were sent: 1.")
            assert told["severity"] == "info"
        finally:
            stop.set()
            thread.join()
        until(lambda: server.metric("tideline_readers_behind") == 0)
        assert not any("do not keep up" in one for one in notices(server))


def test_refusals_are_told_with_their_limit(tmp_path):
    with running(tmp_path, config="[limits]\naddress = { connections = 2 }\n") as server:
        with Client(server), Client(server) as client:
            for _ in range(3):
                with pytest.raises(Exception):
                    Client(server)
            told = lambda: [(one["severity"], one["what"]) for one in client.call("server.status")["notices"]]
            until(lambda: told() == [("info", "Callers were turned away at the limit address.connections: 3.")])


def test_a_webhook_whose_receiver_is_away_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        (tmp_path / "secret").write_text("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n")
        (tmp_path / "secret").chmod(0o600)
        config = f'[[webhook]]\nname = "search"\nurl = "{url}"\nsecret_file = "{tmp_path / "secret"}"\ntimelines = ""\n'
        with running(tmp_path, config=config) as server, Client(server) as client:
            client.append("t")
            told = notice(server, "The receiver of webhook search does not take what it is sent")
            assert told["severity"] == "warning" and "webhook.list" in told["advice"]


def test_keys_that_were_never_fetched_are_told(guard):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = guard(auth=f'jwks_url = "http://127.0.0.1:{taken.getsockname()[1]}/keys"\n').start()
        found = lambda: server.call(server.admin, "server.status")["notices"]
        until(found)
        assert found()[0]["severity"] == "critical" and "jwks_url" in found()[0]["what"]


def test_an_open_server_says_so(tmp_path):
    server = Server(tmp_path, environment={"TIDELINE_INSECURE": "true"})
    server.listen = "0.0.0.0"
    try:
        told, = status(server.start())["notices"]
        assert told["severity"] == "warning" and "read, write and delete everything" in told["what"]
    finally:
        server.kill()


# server.history

def test_history_has_a_value_for_each_step(own_server):
    server = own_server.start()
    with Client(server) as client:
        client.call("subscribe", timeline="t")
        ended = time.monotonic() + 17
        appended = 0
        while time.monotonic() < ended:
            client.call("message.append_batch", timeline="t", messages=[{"entry": {"n": n}} for n in range(5)])
            client.append("t")
            appended += 6
            time.sleep(0.05)
        client.append("u", message_id="twice")
        client.append("u", message_id="twice")
        until(lambda: len(client.call("server.history")["series"].get("cpu", [])) >= 4)
        past = client.call("server.history")
        series, steps = past["series"], len(past["series"]["cpu"])
        assert set(series) == FIGURES and {len(values) for values in series.values()} == {steps}
        assert past["step_ms"] == 5000 and steps in [4, 5]
        assert past["from"] == client.call("server.status")["started_at"] + 5000
        assert all(value is not None for values in series.values() for value in values)
        assert server.metric("tideline_messages_total") == appended + 1
        # Rates and what they were made from, over all steps; the first look was before the first append.
        assert abs(sum(series["appends"]) * 5 - (appended + 1)) <= 0.05 * appended
        assert abs(sum(series["deliveries"]) * 5 - appended) <= 0.05 * appended
        assert max(series["connections"]) >= 1 and max(series["subscriptions"]) == 1
        assert series["memory_bytes"][-1] > 1 << 20 and max(series["cpu"]) > 0
        assert series["disk_free_bytes"][-1] > 0
        buckets = past["append_seconds"]
        assert len(buckets["counts"]) == steps and {len(one) for one in buckets["counts"]} == {len(buckets["bounds"]) + 1}
        assert buckets["bounds"] == sorted(buckets["bounds"])
        assert sum(map(sum, buckets["counts"])) == appended // 6 + 2

        second = past["from"] + 5000
        later = client.call("server.history", since=past["from"])
        assert later["from"] == second and later["series"]["cpu"][: steps - 1] == series["cpu"][1:]
        none = client.call("server.history", since=past["from"] + 3_600_000)
        assert (none["from"], none["series"], none["append_seconds"]["counts"]) == (0, {}, [])
    server.restart()
    with Client(server) as client:
        assert client.call("server.history", since=second)["from"] in [0, client.call("server.status")["started_at"] + 5000]


# partition.list

def test_partitions_say_what_they_do(tmp_path):
    with running(tmp_path, TIDELINE_PARTITIONS="3") as server, Client(server) as client:
        for number in range(60):
            client.append(f"t-{number}")
        listed = client.call("partition.list")["partitions"]
        assert [one["partition"] for one in listed] == [0, 1, 2]
        for one in listed:
            label = f'{{partition="{one["partition"]}"}}'
            assert one["state"] == "serving" and "reason" not in one and "ends" not in one
            assert one["log"]["position"] >= server.metric("tideline_log_position", label) > 0
            assert one["log"]["oldest"] == 1 and one["log"]["bytes"] == one["log_bytes"]
            assert (one["queue"]["writes"], one["queue"]["bytes"], one["queue"]["fill"]) == (0, 0, 0)
            assert one["memtable"]["bytes"] > 0 and one["memtable"]["frozen"] == 0
            assert one["image"]["runs"] == server.metric("tideline_image_runs", label)
            assert one["feed"]["lag_ms"] < 1000 and one["relay"]["lag_ms"] < 5000 and one["jobs"] == 0
        printed = subprocess.run([server.binary, "partition", "list", "--url", server.origin], capture_output=True, text=True, timeout=60)
        assert printed.returncode == 0 and len(printed.stdout.splitlines()) == 3, printed.stderr


def test_a_cursor_that_is_behind_holds_the_log(tmp_path):
    with running(tmp_path) as server, Client(server) as client:
        client.call("stream.open", timelines="", cursor="search")
        for number in range(20):
            client.append(f"t-{number}")
        holds = lambda: [hold for hold in client.call("partition.list")["partitions"][0]["log"]["holds"] if hold["by"] == "streams"]
        until(lambda: holds() and holds()[0]["position"] < 20)


def test_an_ended_partition_says_so(tmp_path):
    with running(tmp_path) as server, Client(server) as client:
        client.call("stream.open", timelines="", cursor="search")
        client.append("t")
        client.call("partition.split", partition=0)
        until(lambda: client.call("partition.list").get("change", {}).get("state") == "done", CHANGE_PATIENCE)
        parent, *children = client.call("partition.list")["partitions"]
        assert parent["state"] == "ended" and "log" not in parent and "queue" not in parent and parent["ends"] > 0
        assert [one["state"] for one in children] == ["serving"] * 2


# log.tail

def test_the_log_is_read_page_by_page(own_server):
    server = own_server.start()
    with Client(server) as client:
        whole = client.call("log.tail")
        messages = [line["message"] for line in whole["lines"]]
        assert messages[-1] == "ready" and whole["dropped"] == 0
        ready = whole["lines"][-1]
        assert ready["level"] == "info" and ready["target"] == "tideline::server::start_log"
        assert ready["fields"]["address"] == f"127.0.0.1:{server.port}" and ready["fields"]["console"].endswith("/console/")
        assert all(one["at"] <= ready["at"] for one in whole["lines"])
        # The same lines as in the file.
        for line in whole["lines"]:
            assert line["message"] in server.log()
        read, after = [], None
        while True:
            page = client.call("log.tail", limit=2, **({} if after is None else {"after": after}))
            if not page["lines"]:
                break
            assert len(page["lines"]) <= 2
            read, after = read + page["lines"], page["next"]
        assert read == whole["lines"]
        assert client.call("log.tail", level="error")["lines"] == []
    last = ready["number"]
    server.restart()
    with Client(server) as client:
        again = client.call("log.tail", after=last)
        assert again["lines"][-1]["message"] == "ready" and again["dropped"] == 0
        assert all(line["number"] > last for line in again["lines"])


def test_a_wait_ends_with_the_first_line_that_is_asked_for(own_server):
    server = own_server.start()
    with Client(server) as client, Client(server) as other:
        after = client.call("log.tail")["next"]
        begun = time.monotonic()
        assert client.call("log.tail", after=after, wait_ms=300)["lines"] == []
        assert time.monotonic() - begun > 0.25
        number = client.ask("log.tail", after=after, level="warn", wait_ms=60_000)
        begun = time.monotonic()
        # A page of somebody else's is a warning.
        assert server.get("/", {"Host": "evil.example"})[0] == 403
        waited = client.take(number)
        assert time.monotonic() - begun < 60
        assert [line["level"] for line in waited["lines"]] == ["warn"] and waited["next"] > after
        number = other.ask("log.tail", after=waited["next"], wait_ms=20_000)
        # Calls begin in order: with this answer the wait has begun.
        other.call("ping")
        server.process.terminate()
        assert "stopping" in [line["message"] for line in other.take(number)["lines"]]


def test_what_is_not_kept_any_more_is_counted(own_server):
    own_server.environment = {"TIDELINE_LOG": "debug"}
    server = own_server.start()
    with Client(server) as client:
        first = client.call("log.tail", limit=1)["lines"][0]["number"]
        lines = lambda: client.call("log.tail", after=first, limit=1)
        # Each connection that ends early is a line of debug.
        begun = time.monotonic()
        while not lines()["dropped"] and time.monotonic() < begun + 60:
            for _ in range(100):
                with socket.create_connection(("127.0.0.1", server.port)) as raw:
                    raw.sendall(b"nonsense\r\n\r\n")
                    raw.recv(100)
        page = lines()
        assert page["dropped"] > 0 and page["lines"][0]["number"] == first + page["dropped"] + 1


def test_no_secret_is_in_the_log(guard):
    server = guard().start()
    made = server.call(server.admin, "key.create", name="shop", rights=[{"on": "*", "allow": ["read"]}])
    bad = token(secret=b"x" * 32)
    server.rpc(bad, "ping")
    server.rpc(made["key"][:-3] + "aaa", "ping")
    told = json.dumps(server.call(server.admin, "log.tail"))
    assert "shop" in told and made["key"] not in told and made["key"][16:] not in told and bad not in told and server.admin not in told


def test_the_audit_is_for_administrators(guard):
    server = guard().start()
    observer = token(rights=[{"on": "*", "allow": ["observe"]}])
    server.call(server.admin, "message.append", timeline="hidden/1", entry={"a": 1})
    server.call(server.admin, "timeline.delete", timeline="hidden/1")
    names = lambda bearer: [line["fields"].get("name") for line in server.call(bearer, "log.tail")["lines"]]
    assert "hidden/1" in names(server.admin)
    assert names(observer) and "hidden/1" not in names(observer)


def test_who_loses_the_right_while_they_wait_gets_no_line(guard):
    server = guard().start()
    key = server.call(server.admin, "key.create", name="eye", rights=[{"on": "*", "allow": ["observe"]}])
    after = server.call(key["key"], "log.tail")["next"]
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(server.rpc(key["key"], "log.tail", after=after, wait_ms=1_500)))
    waiting.start()
    time.sleep(0.3)
    server.call(server.admin, "key.revoke", id=key["id"])
    waiting.join()
    status_, _, body = answers[0]
    assert status_ == 401 or "result" not in json.loads(body), body
