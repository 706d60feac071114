"""A partition that is split and merged again and again costs its readers nothing: each way back is looked at once, and
what nobody needs is forgotten.

By hand, as many pairs as wanted: `LINEAGE_PAIRS=200 LINEAGE_PAUSE_S=2 pytest test_lineage.py -s` prints how long each
reader waited for its news, the memory and the size of what the server says of itself, every ten pairs. A partition that
has ended can be read for a minute; after the first one, all of these should stay as they are, and memory must. Without
the pause there are more such partitions than the address space has room for.
"""

import os
import re
import time

import pytest
from tablestore import CapacityUnit, ReservedThroughput, TableMeta, TableOptions

from client import Client, until
from server import CHANGE_PATIENCE
from sdk import STRING_KEY, connect, put
from test_partitions import Consumer
from test_streams import specify

PAIRS = int(os.environ.get("LINEAGE_PAIRS", "30"))
PAUSE_S = float(os.environ.get("LINEAGE_PAUSE_S", "0"))
# So long a push may take on a busy machine. With two ways back for each pair it would take hours.
PATIENCE = 60
# By then as many partitions have ended as can be read at a time, with the pause of two seconds.
SETTLED = 60
# What memory may grow by from then on. It grew by half of itself over 140 pairs before LMDB's lists were given back.
GROWTH_MAX = 1.25


def numbers(server):
    """The partitions that are served, in the order of their ranges."""
    with Client(server) as client:
        listed = client.call("partition.list")["partitions"]
    served = sorted((one["first"], one["partition"]) for one in listed if "ends" not in one)
    return [number for _, number in served]


def change(server, what, **partitions):
    with Client(server) as client:
        client.call(f"partition.{what}", **partitions)
    # Calls wait while partitions are cut, on a busy machine for longer than a client's patience.
    deadline = time.monotonic() + CHANGE_PATIENCE
    while time.monotonic() < deadline:
        try:
            with Client(server) as client:
                change = client.call("partition.list")["change"]
        except TimeoutError:
            continue
        if change["state"] in ("done", "failed"):
            break
        time.sleep(0.005)
    assert change["state"] == "done", str(change)


class Readers:
    """A reader of each kind; each is told of each message or row once."""

    def __init__(self, server):
        self.server, self.turn, self.longest = server, 0, {}
        self.writer = Client(server, user="ann")
        self.writer.call("timeline.create", timeline="room", settings={"fan_out": "write"})
        self.writer.call("member.add", timeline="room", members=[{"user": "ben"}])
        self.back = Client(server)
        self.tables = connect(server)
        options = (TableMeta("table", STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        self.tables.create_table(*options)
        self.shards = Consumer(specify(self.tables, "table")[1])
        self.stream, self.named, self.rows = Client(server), Client(server), Client(server)
        self.stream.call("stream.open", timelines="room")
        self.named.call("stream.open", timelines="room", cursor="named")
        # Nobody moves this one.
        self.named.call("stream.open", timelines="nothing", cursor="idle")
        self.rows.call("stream.open", table="table", cursor="rows")
        self.watcher = Client(server)
        self.watcher.call("subscribe", timeline="room")
        self.ben = Client(server, user="ben")
        self.cursor = self.synced(None, 0)

    def step(self):
        """Writes, and waits until each reader has it."""
        self.turn += 1
        self.writer.append("room", {"n": self.turn})
        put(self.tables, "table", str(self.turn), [("n", self.turn)])
        is_it = lambda change: change["kind"] == "message" and change["messages"][-1]["entry"]["n"] == self.turn
        self.timed("stream", lambda: self.told(self.stream, is_it))
        position = self.timed("cursor", lambda: self.told(self.named, is_it))
        assert len(position) < 4_096
        self.back.call("stream.commit", cursor="named", position=position)
        of_row = lambda change: change["key"] == {"k": str(self.turn)}
        position = self.timed("table", lambda: self.told(self.rows, of_row))
        self.back.call("stream.commit", cursor="rows", position=position)
        self.timed("watch", lambda: self.watcher.push("message", PATIENCE))
        # The relay brings it into ben's list.
        self.timed("sync", lambda: self.synced(self.cursor, self.turn))
        self.timed("list", lambda: self.back.call("stream.cursors"))
        self.timed("shards", lambda: self.shards.follow(self.tables))
        assert self.shards.seen == self.turn

    def timed(self, what, wait):
        begun = time.monotonic()
        found = wait()
        self.longest[what] = max(self.longest.get(what, 0), time.monotonic() - begun)
        return found

    def told(self, client, is_it):
        """Reads until this change comes, and gives the position behind it."""
        while True:
            push = client.push("stream.changes", PATIENCE)
            if any(is_it(change) for change in push["changes"]):
                return push["position"]

    def synced(self, cursor, head):
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.ben.call("conversation.sync", limit=10, **({"cursor": cursor} if cursor else {}))
            heads = [one["head"] for one in answer["conversations"]]
            assert not answer.get("reset")
            if head == 0 or heads == [head]:
                self.cursor = answer["cursor"]
                return answer["cursor"]
            assert time.monotonic() < deadline, answer

    def close(self):
        for client in [self.writer, self.back, self.stream, self.named, self.rows, self.watcher, self.ben]:
            client.close()


def sizes(server):
    """What is kept of partitions: series of metrics, folders, bytes of the directory's list."""
    series = len(re.findall(r'^tideline_image_free_slots\{', server.get("/metrics")[2].decode(), re.M))
    folders = len([name for name in os.listdir(server.data) if name.startswith("partition-")])
    return series, folders, os.path.getsize(os.path.join(server.data, "directory.toml"))


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")
def test_readers_of_a_quiet_server_hold_nothing_of_what_has_ended(own_server):
    """What is read of a partition that ended goes with its minute, here a second, though no reader has got news since: ten
    have been there. What a layer keeps of the first one goes when that layer is asked about the last.
    """
    own_server.environment = {"TIDELINE_FAULT": "ended_go_soon"}
    own_server.start()
    readers = Readers(own_server)
    readers.step()
    for _ in range(3):
        [whole] = numbers(own_server)
        change(own_server, "split", partition=whole)
        one, other = numbers(own_server)
        change(own_server, "merge", partition=one, **{"with": other})
    until(lambda: images(own_server) <= 2)
    readers.step()
    until(lambda: images(own_server) == 1)
    readers.close()


def images(server):
    """The images that the process has in its memory, those of removed files too."""
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return maps.read().count("data.mdb")


def test_split_and_merge_again_and_again(own_server):
    own_server.config = "stream_log_bytes_max = 67108864\n"
    own_server.start()
    readers = Readers(own_server)
    readers.step()
    memory = {}
    for pair in range(PAIRS):
        [whole] = numbers(own_server)
        change(own_server, "split", partition=whole)
        one, other = numbers(own_server)
        change(own_server, "merge", partition=one, **{"with": other})
        readers.step()
        time.sleep(PAUSE_S)
        if "LINEAGE_PAIRS" in os.environ and pair % 10 == 9:
            shown = {what: round(seconds * 1e3) for what, seconds in readers.longest.items()}
            memory[pair + 1] = own_server.memory() >> 20
            print(f"{pair + 1} pairs: longest wait {shown} ms, {memory[pair + 1]} MiB, {sizes(own_server)}", flush=True)
            readers.longest.clear()
    series, _, _ = sizes(own_server)
    assert series == 1, "metrics of partitions that ended"
    late = [mib for pairs, mib in memory.items() if pairs >= SETTLED]
    assert not late or late[-1] <= late[0] * GROWTH_MAX, memory
    readers.close()
    assert own_server.stop() == 0
