"""Partitions of a running server are split and merged: clients go on, whenever it is killed."""

import json
import os
import threading
import time

import pytest
from websockets.sync.server import serve

from client import Client, until
from server import Server
from test_partitions import People, add, fill, run, verified

faulty = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")


def partition(server, *words):
    return run(server, "partition", *words, "--url", server.origin)


def change(server, *words):
    """Splits or merges; what was printed."""
    ended = partition(server, *words)
    assert ended.returncode == 0, ended.stderr + server.log()
    return ended.stdout


def numbers(server):
    """The partitions that are served, in the order of their ranges."""
    with Client(server) as client:
        listed = client.call("partition.list")["partitions"]
    served = sorted((one["first"], one["partition"]) for one in listed if "ends" not in one)
    return [number for _, number in served]


#: Seconds between two rounds of a writer: without it, writers take a whole processor from what they run beside.
REST_S = 0.005


class Writers:
    """Append to timelines of their own until they are told to stop, 16 messages at a time; nothing may be refused."""

    def __init__(self, server, count=4, rest=REST_S):
        self.server, self.stopped, self.acked, self.failures = server, False, {}, []
        self.rest = rest
        self.longest = 0
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        for thread in self.threads:
            thread.join()

    def write(self, number):
        names = [f"written-{number}-{n}" for n in range(8)]
        try:
            with Client(self.server, user="ann") as client:
                turn = 0
                while not self.stopped:
                    begun = time.monotonic()
                    asked = []
                    for name in names:
                        asked.append(client.ask("message.append", timeline=name, entry={"n": turn}))
                        asked.append(client.ask("message.append", timeline=name, entry={"n": turn + 1}))
                    answers = [client.take(one)["sequence"] for one in asked]
                    # The calls of a connection keep their order.
                    assert answers == [turn + 1, turn + 2] * len(names)
                    turn += 2
                    self.longest = max(self.longest, time.monotonic() - begun)
                    for name in names:
                        self.acked[name] = turn
                    time.sleep(self.rest)
        except Exception as failure:  # noqa: BLE001, shown by the test
            self.failures.append(failure)

    def check(self, server):
        assert not self.failures, self.failures
        with Client(server) as client:
            for name, count in self.acked.items():
                found = []
                while True:
                    asked = {"timeline": name, "from": len(found) + 1, "limit": 1000}
                    page = client.call("message.range", **asked)["messages"]
                    found += [(one["sequence"], one["entry"]["n"]) for one in page]
                    if not page:
                        break
                assert found == [(n + 1, n) for n in range(count)], name


class BackEnd(threading.Thread):
    """Follows all changes of some timelines by `stream.open`, and notes the messages of each."""

    def __init__(self, server, prefix):
        super().__init__()
        self.client, self.seen, self.stopped = Client(server), {}, False
        self.client.call("stream.open", timelines=prefix, **{"from": "start"})

    def run(self):
        while not self.stopped:
            try:
                push = self.client.receive(0.1)
            except TimeoutError:
                continue
            assert push["method"] == "stream.changes", push
            for change in push["params"]["changes"]:
                if change["kind"] == "message":
                    seen = self.seen.setdefault(change["timeline"], [])
                    seen += [message["sequence"] for message in change["messages"]]

    def end(self, acked):
        expected = {name: list(range(1, count + 1)) for name, count in acked.items()}
        deadline = time.monotonic() + 60
        while self.seen != expected and time.monotonic() < deadline and self.is_alive():
            time.sleep(0.05)
        self.stopped = True
        self.join()
        self.client.close()
        assert self.seen == expected


class Follower(threading.Thread):
    """Subscribes to a timeline and notes what is pushed."""

    def __init__(self, server, name):
        super().__init__()
        self.client, self.seen, self.stopped = Client(server), [], False
        self.note(self.client.call("subscribe", timeline=name, after=0))

    def run(self):
        for push in self.client.pushes:
            self.note(push.get("params", {}))
        while not self.stopped:
            try:
                push = self.client.receive(0.1)
            except TimeoutError:
                continue
            self.note(push.get("params", {}))

    def note(self, params):
        for message in params.get("messages", []):
            self.seen.append(message["sequence"])

    def end(self, count):
        deadline = time.monotonic() + 60
        while len(self.seen) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        self.stopped = True
        self.join()
        self.client.close()
        assert self.seen == list(range(1, count + 1))


def test_clients_go_on_through_splits_and_merges(own_server):
    own_server.start()
    fill(own_server)
    people = People()
    people.learn(own_server)
    with Writers(own_server) as writers:
        while len(writers.acked) < 32 and not writers.failures:
            time.sleep(0.01)
        followers = [Follower(own_server, f"written-{n}-0") for n in range(4)]
        back_end = BackEnd(own_server, "written-")
        for thread in [*followers, back_end]:
            thread.start()
        told = change(own_server, "split", "0")
        assert "partition 1: hashes 0000000000000000 to 7fffffffffffffff" in told and "calls waited for" in told
        assert numbers(own_server) == [1, 2]
        change(own_server, "split", "2")
        assert numbers(own_server) == [1, 3, 4]
        people.check(own_server)
        change(own_server, "merge", "3", "1")
        assert numbers(own_server) == [5, 4]
        change(own_server, "merge", "5", "4")
        assert numbers(own_server) == [6]
        change(own_server, "split", "6")
        time.sleep(0.2)
    writers.check(own_server)
    for number, follower in enumerate(followers):
        follower.end(writers.acked[f"written-{number}-0"])
    back_end.end(writers.acked)
    people.check(own_server)
    add(own_server, "after all")
    metrics = own_server.metrics()
    assert "tideline_partition_splits_total 3\n" in metrics and "tideline_partition_merges_total 2\n" in metrics
    assert "tideline_partition_pause_seconds_count 5\n" in metrics
    assert own_server.stop() == 0
    verified(own_server)
    own_server.start()
    writers.check(own_server)
    add(own_server, "after a restart")
    own_server.stop()
    verified(own_server)


def test_what_cannot_be_changed_is_refused(own_server, refused):
    own_server.start()
    with Client(own_server) as client, Client(own_server, user="ann") as user:
        refused(client, "partition.split", 404, "partition_not_found", "partition", partition=7)
        refused(client, "partition.merge", 404, "partition_not_found", "partition", partition=0, **{"with": 7})
        refused(client, "partition.merge", -32602, "invalid_params", "with", partition=0, **{"with": 0})
        refused(client, "partition.split", -32602, "invalid_params", "partition", partition=-1)
        for method, params in [("split", {"partition": 0}), ("merge", {"partition": 0, "with": 1})]:
            refused(user, f"partition.{method}", 403, "forbidden", **params)
        listed = client.call("partition.list")
        assert "change" not in listed and [one["partition"] for one in listed["partitions"]] == [0]
    for words, why in [(("split", "9"), "partition_not_found"), (("merge", "0", "0"), "invalid_params")]:
        ended = partition(own_server, *words)
        assert ended.returncode == 1 and why in ended.stderr, ended.stderr
    neither = run(own_server, "partition", "split", "0")
    assert neither.returncode == 1 and "either a data directory or a running server" in neither.stderr
    nobody = run(own_server, "partition", "list", "--url", "http://127.0.0.1:1")
    assert nobody.returncode == 1 and "127.0.0.1:1" in nobody.stderr


def test_the_end_of_another_change_is_not_told_as_ones_own(own_server):
    """The server is played: between two looks at a real one nothing else can be made to begin for certain."""
    seen = lambda partition, since, state: {"partitions": [partition], "since": since, "state": state, "given_up": 0}
    limits = {"batch_messages_max": 1, "batch_bytes_max": 1, "page_messages_max": 1}
    own = [seen(0, 1, "copying")]
    for changes, code in [
        ([*own, seen(0, 1, "done"), seen(0, 1, "done")], 0),
        ([seen(7, 1, "done"), seen(7, 1, "done")], 1),
        ([*own, seen(7, 2, "failed")], 1),
        ([*own, seen(0, 2, "done"), seen(0, 2, "done")], 1),
    ]:
        looks = iter(changes)

        def play(socket):
            for text in socket:
                asked = json.loads(text)
                result = {
                    "session.open": lambda: {"heartbeat_ms": 60_000, "limits": limits},
                    "partition.split": lambda: {},
                    "partition.list": lambda: {"partitions": [], "change": next(looks)},
                }[asked["method"]]()
                socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))

        with serve(play, "127.0.0.1", 0, subprotocols=["tideline.v1.json"], compression=None) as played:
            threading.Thread(target=played.serve_forever, daemon=True).start()
            ended = run(own_server, "partition", "split", "0", "--url", f"http://127.0.0.1:{played.socket.getsockname()[1]}")
        assert ended.returncode == code, (changes, ended.stderr)
        assert ("another change of the partitions has begun" in ended.stderr) == (code == 1), ended.stderr


def test_a_stop_ends_a_change_soon_and_leaves_nothing_half(own_server):
    own_server.start()
    fill(own_server)
    for delay in [0, 0.005, 0.02, 0.05, 0.1]:
        before = numbers(own_server)
        with Client(own_server) as client:
            client.call("partition.split", partition=before[0])
        time.sleep(delay)
        assert own_server.stop() == 0
        verified(own_server)
        assert not os.path.exists(os.path.join(own_server.data, "directory.toml.new"))
        own_server.start()
        assert len(numbers(own_server)) in (len(before), len(before) + 1)
    add(own_server, "after all")


def test_a_large_partition_is_split_by_itself(own_server):
    own_server.config = "partition_split_bytes = 200000\n"
    own_server.start()
    with Client(own_server) as client:
        for number in range(300):
            client.call("message.append", timeline=f"t-{number}", entry={"text": "x" * 1000})
        until(lambda: len(numbers(own_server)) >= 2)
        for number in range(300):
            assert client.call("timeline.get", timeline=f"t-{number}")["head"] == 1
    own_server.stop()
    own_server.config = "partition_split_bytes = 200000\npartitions = 2\n"
    with pytest.raises(RuntimeError, match="must be 0 where partitions are split by themselves"):
        own_server.start()


POINTS = ["announced", "loaded", "paused", "sealed", "brought", "made", "opened", "counted", "served", "resumed"]


@faulty
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("merges", [False, True])
def test_a_kill_at_any_step(tmp_path, point, merges):
    """The directory has the partitions of before or those of after, whole, with all that was answered."""
    server = Server(tmp_path).start()
    try:
        fill(server)
        people = People()
        people.learn(server)
        if merges:
            change(server, "split", "0")
        server.environment = {"TIDELINE_FAULT": f"reshape_{point}:1"}
        server.restart()
        with Writers(server, 2) as writers:
            while len(writers.acked) < 16 and not writers.failures:
                time.sleep(0.01)
            ended = partition(server, *(("merge", "1", "2") if merges else ("split", "0")))
            if point != "resumed":
                assert ended.returncode != 0, ended.stdout
            server.process.wait(60)
        writers.failures.clear()
        count = {False: (1, 2), True: (2, 1)}[merges]
        done = POINTS.index(point) >= POINTS.index("counted")
        server.environment = {}
        verified(server)
        server.start()
        assert len(numbers(server)) == count[done]
        with Client(server) as client:
            for name, least in writers.acked.items():
                # The last ones were perhaps not answered.
                first = max(1, least - 50)
                page = client.call("message.range", timeline=name, limit=1000, **{"from": first})["messages"]
                sequences = [one["sequence"] for one in page]
                assert sequences == list(range(first, sequences[-1] + 1)) and sequences[-1] >= least
        people.check(server)
        change(server, "split", str(numbers(server)[0]))
        people.check(server)
        add(server, "after the kill")
        assert server.stop() == 0
        verified(server)
    finally:
        server.kill()


@faulty
def test_a_control_loses_what_was_written_meanwhile(tmp_path):
    def loses(folder):
        folder.mkdir()
        server = Server(folder, environment={"TIDELINE_FAULT": "reshape_forgets"}).start()
        try:
            with Writers(server, 2, rest=0) as writers:
                while len(writers.acked) < 16 and not writers.failures:
                    time.sleep(0.01)
                change(server, "split", "0")
                time.sleep(0.1)
            try:
                writers.check(server)
            except AssertionError:
                return True
            return False
        finally:
            server.kill()

    # The change is short: on a busy machine it may be that nobody wrote meanwhile.
    assert any(loses(tmp_path / str(turn)) for turn in range(10))


@faulty
def test_a_cut_that_takes_too_long_is_tried_again(tmp_path):
    """Calls have waited in vain, nothing is lost of what was written since, and then the change is done."""
    server = Server(tmp_path, environment={"TIDELINE_FAULT": "late_cut"}).start()
    try:
        fill(server)
        people = People()
        people.learn(server)
        with Writers(server, 2) as writers:
            while len(writers.acked) < 16 and not writers.failures:
                time.sleep(0.01)
            told = change(server, "split", "0")
            assert "calls waited for" in told
            change(server, "merge", "1", "2")
        assert numbers(server) == [3]
        metrics = server.metrics()
        assert "tideline_partition_cuts_given_up_total 1\n" in metrics
        assert "tideline_partition_change_failures_total 0\n" in metrics
        writers.check(server)
        people.check(server)
        assert server.stop() == 0
        verified(server)
        server.start()
        writers.check(server)
        add(server, "after a restart")
        assert server.stop() == 0
    finally:
        server.kill()


@faulty
def test_calls_go_on_if_nobody_follows_the_new_partitions(tmp_path):
    """What begins tasks for new partitions has ended: the wait for them has an end, and no further change begins."""
    server = Server(tmp_path, environment={"TIDELINE_FAULT": "births_end"}).start()
    try:
        with Client(server) as client:
            client.append("a")
            change(server, "split", "0")
            assert client.append("a")["sequence"] == 2
            ended = partition(server, "split", "1")
            assert ended.returncode == 1 and "restart" in ended.stdout + ended.stderr
            assert numbers(server) == [1, 2]
            assert client.append("a")["sequence"] == 3
        assert server.stop() == 0
        verified(server)
    finally:
        server.kill()
