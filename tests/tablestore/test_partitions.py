"""Tables, indexes and streams while the directory gets other numbers of partitions and its process is killed."""

import os
import subprocess
import threading
import time

from tablestore import (
    CapacityUnit, INF_MAX, INF_MIN, ReservedThroughput, Row, SecondaryIndexMeta, SecondaryIndexType, TableMeta,
    TableOptions,
)

from sdk import IGNORE, call, connect, field, put, refused, update
from server import CHANGE_PATIENCE
from test_indexes import ready
from test_streams import PUT, DELETE, describe_stream, fields, iterator, record, specify

ROWS = 60


def verified(server):
    ended = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def lineage(client, stream):
    """Each shard with its parents, in the order of the answer."""
    found = {}
    for shard in describe_stream(client, stream)[6]:
        told = fields(shard)
        name, parents = told[1][0].decode(), [told[at][0].decode() for at in (2, 3) if at in told]
        found[name] = parents
    return found


class Consumer:
    """Follows a stream as its SDKs do: a shard after its parents, and from the places where it was."""

    def __init__(self, stream):
        self.stream, self.places, self.done, self.rows, self.seen = stream, {}, set(), {}, 0

    def follow(self, client):
        went_on = True
        while went_on:
            went_on = False
            shards = lineage(client, self.stream)
            for name, parents in shards.items():
                if name in self.done or any(parent not in self.done for parent in parents):
                    continue
                if name not in self.places:
                    self.places[name] = iterator(client, self.stream, name)
                while True:
                    answer = fields(call(client, "GetStreamRecord", field(1, self.places[name])))
                    for one in answer[1]:
                        self.take(record(one))
                    if not answer[2]:
                        self.done.add(name)
                        went_on = True
                        break
                    following = answer[2][0].decode()
                    if following == self.places[name]:
                        break
                    self.places[name] = following

    def take(self, change):
        self.seen += 1
        key = change.key[0][1]
        if change.action == DELETE:
            self.rows.pop(key, None)
        else:
            assert change.action == PUT
            self.rows[key] = {name: value for name, value, _, _ in change.cells}


def table_rows(client, name):
    rows, start = {}, [("k", INF_MIN)]
    while start:
        _, start, page, _ = client.get_range(name, "FORWARD", start, [("k", INF_MAX)], max_version=1)
        for row in page:
            rows[row.primary_key[0][1]] = {column[0]: column[1] for column in row.attribute_columns}
    return rows


def test_a_stream_goes_on_in_the_children_of_its_shards(own_server):
    client = connect(own_server.start())
    client.create_table(TableMeta("t", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    stream = specify(client, "t")[1]
    consumer, late = Consumer(stream), Consumer(stream)
    written = 0
    for turn, partitions in enumerate([1, 2, 3, 1, 2]):
        own_server.config = f"partitions = {partitions}\n"
        own_server.kill()
        client = connect(own_server.start())
        for number in range(ROWS):
            if (number + turn) % 7 == 6:
                client.delete_row("t", Row([("k", str(number))]), IGNORE)
            else:
                put(client, "t", str(number), [("turn", turn), ("n", number)])
            written += 1
        if turn % 2:
            consumer.follow(client)
        told = lineage(client, stream)
        assert len([name for name in told if not any(name in parents for parents in told.values())]) == partitions
    consumer.follow(client)
    late.follow(client)
    rows = table_rows(client, "t")
    assert consumer.rows == rows and late.rows == rows
    assert consumer.seen == written and late.seen == written
    roots = [name for name, parents in lineage(client, stream).items() if not parents]
    assert len(roots) == 1
    own_server.stop()
    assert "which has ended: log " in verified(own_server)
    # Without a stream nobody needs them.
    client = connect(own_server.start())
    specify(client, "t", enable=False)
    own_server.restart()
    deadline = time.monotonic() + 60
    while os.path.exists(os.path.join(own_server.data, "partition-0000")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    own_server.stop()
    listed = subprocess.run([own_server.binary, "partition", "list", own_server.data], capture_output=True, text=True)
    assert "ended" not in listed.stdout
    verified(own_server)


def served(server, *words):
    return subprocess.run(
        [server.binary, "partition", *map(str, words), "--url", server.origin],
        capture_output=True,
        text=True,
        timeout=CHANGE_PATIENCE,
    )


def leaves(server):
    """The partitions that are served."""
    listed = served(server, "list")
    assert listed.returncode == 0, listed.stderr
    lines = [line for line in listed.stdout.splitlines() if line.startswith("partition ")]
    return [int(line.split()[1].rstrip(":")) for line in lines if ", ended" not in line]


class Writer(threading.Thread):
    """Writes rows of its own, each again and again until it is answered."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number, self.stopped, self.rows, self.turn = server, number, False, {}, 0
        self.failure = None

    def run(self):
        try:
            client = connect(self.server)
            while not self.stopped:
                self.turn += 1
                key = f"{self.number}-{self.turn * 7 % 40}"
                self.until_done(lambda: self.write(client, key))
        except Exception as failure:  # noqa: BLE001, shown by the test
            self.failure = failure

    def write(self, client, key):
        if self.turn % 5 == 4:
            client.delete_row("t", Row([("k", key)]), IGNORE)
            self.rows.pop(key, None)
        else:
            put(client, "t", key, [("n", self.turn)])
            self.rows[key] = {"n": self.turn}

    def until_done(self, step):
        deadline = time.monotonic() + 60
        while True:
            try:
                return step()
            except Exception:  # noqa: BLE001, the server is away for a moment
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


class Following(threading.Thread):
    """Follows the stream while all goes on."""

    def __init__(self, server, consumer):
        super().__init__()
        self.server, self.consumer, self.stopped = server, consumer, False

    def run(self):
        client = connect(self.server)
        while not self.stopped:
            try:
                self.consumer.follow(client)
            except AssertionError:
                raise
            except Exception:  # noqa: BLE001, the server is away for a moment
                pass
            time.sleep(0.02)


def test_a_consumer_rebuilds_the_table_through_splits_a_merge_and_kills(own_server):
    client = connect(own_server.start())
    client.create_table(TableMeta("t", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    stream = specify(client, "t")[1]
    consumer, late = Consumer(stream), Consumer(stream)
    following = Following(own_server, consumer)
    following.start()
    writers = [Writer(own_server, number) for number in range(8)]
    for writer in writers:
        writer.start()

    def rest():
        turns = [writer.turn for writer in writers]
        deadline = time.monotonic() + 60
        while any(writer.turn < turn + 30 for writer, turn in zip(writers, turns)):
            assert time.monotonic() < deadline and not any(writer.failure for writer in writers)
            time.sleep(0.02)

    try:
        rest()
        assert served(own_server, "split", 0).returncode == 0
        rest()
        own_server.kill()
        own_server.start()
        rest()
        ended = served(own_server, "split", leaves(own_server)[-1])
        assert ended.returncode == 0, ended.stderr
        # Killed while it changes.
        one, other = leaves(own_server)[0], leaves(own_server)[1]
        asked = threading.Thread(target=served, args=(own_server, "split", one))
        asked.start()
        time.sleep(0.03)
        own_server.kill()
        asked.join()
        own_server.start()
        rest()
        one, other = leaves(own_server)[-2:]
        ended = served(own_server, "merge", one, other)
        assert ended.returncode == 0, ended.stderr
        rest()
        own_server.kill()
        own_server.start()
        rest()
    finally:
        for thread in [*writers, following]:
            thread.stopped = True
        for thread in [*writers, following]:
            thread.join()
    assert not any(writer.failure for writer in writers)
    client = connect(own_server)
    consumer.follow(client)
    late.follow(client)
    rows = table_rows(client, "t")
    expected = {key: row for writer in writers for key, row in writer.rows.items()}
    assert rows == expected
    assert consumer.rows == rows and late.rows == rows
    assert consumer.seen == late.seen
    own_server.stop()
    verified(own_server)


class IndexedWriter(Writer):
    """Writes what indexes are of: whole rows, parts of rows, deletions."""

    def write(self, client, key):
        if self.turn % 5 == 4:
            client.delete_row("t", Row([("k", key)]), IGNORE)
            self.rows.pop(key, None)
        elif self.turn % 5 == 3:
            update(client, "t", key, PUT=[("n", self.turn % 7)])
            self.rows.setdefault(key, {})["n"] = self.turn % 7
        else:
            row = {"n": self.turn % 11, "s": f"{key}-{self.turn}"}
            put(client, "t", key, list(row.items()))
            self.rows[key] = row


def test_indexes_go_on_through_splits_and_a_merge(own_server):
    client = connect(own_server.start())

    def meta(column, *held):
        return SecondaryIndexMeta(f"by_{column}", [column], list(held), SecondaryIndexType.GLOBAL_INDEX)

    table = TableMeta("t", [("k", "STRING")], [("n", "INTEGER"), ("s", "STRING")])
    throughput = ReservedThroughput(CapacityUnit(0, 0))
    client.create_table(table, TableOptions(), throughput, [meta("n", "s")])
    writers = [IndexedWriter(own_server, number) for number in range(4)]
    for writer in writers:
        writer.start()

    def rest():
        turns = [writer.turn for writer in writers]
        deadline = time.monotonic() + 60
        while any(writer.turn < turn + 50 for writer, turn in zip(writers, turns)):
            assert time.monotonic() < deadline and not any(writer.failure for writer in writers)
            time.sleep(0.02)

    def change(*words):
        ended = served(own_server, *words)
        assert ended.returncode == 0, ended.stderr

    try:
        rest()
        change("split", 0)
        rest()
        # An index of all rows is made while partitions are split or merged.
        client.create_secondary_index("t", meta("s", "n"), True)
        change("split", leaves(own_server)[-1])
        rest()
        change("merge", *leaves(own_server)[:2])
        rest()
    finally:
        for writer in writers:
            writer.stopped = True
        for writer in writers:
            writer.join()
    assert not any(writer.failure for writer in writers)
    expected = {key: row for writer in writers for key, row in writer.rows.items()}

    def check(client):
        rows = table_rows(client, "t")
        assert rows == expected
        for column, held in [("n", "s"), ("s", "n")]:
            projected = {
                (row[column], key): {name: row[name] for name in [held] if name in row}
                for key, row in rows.items()
                if column in row
            }
            found = ready(client, f"by_{column}", max_version=1)
            assert found == sorted(projected.items())

    check(client)
    own_server.stop()
    verified(own_server)
    check(connect(own_server.start()))


def test_an_open_transaction_goes_on_through_a_split_and_a_merge(own_server):
    client = connect(own_server.start())
    key = [("p", "STRING"), ("k", "INTEGER")]
    client.create_table(TableMeta("t", key), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    firsts = [f"key-{number}" for number in range(12)]

    def write(first, number, transaction=None):
        row = Row([("p", first), ("k", number)], [("c", number)])
        client.put_row("t", row, IGNORE, transaction_id=transaction)

    def read(first, number):
        return client.get_row("t", [("p", first), ("k", number)], max_version=1)[1]

    opened = {first: client.start_local_transaction("t", [("p", first)]) for first in firsts}
    for first, transaction in opened.items():
        write(first, 1, transaction)
    assert served(own_server, "split", 0).returncode == 0
    for first, transaction in opened.items():
        write(first, 2, transaction)
        assert read(first, 1) is None
        # Its key is locked as before.
        with refused("OTSRowOperationConflict"):
            write(first, 3)
    assert served(own_server, "merge", *leaves(own_server)).returncode == 0
    for first, transaction in opened.items():
        client.commit_transaction(transaction)
        assert read(first, 1) and read(first, 2) and read(first, 3) is None
        write(first, 3)
    own_server.stop()
    verified(own_server)
