"""`tideline export`: every row of a table or of timelines, as of one position, while others write."""

import contextlib
import json
import os
import subprocess
import threading
import time

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, Row, TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, connect
from test_timelines import MESSAGES, METAS, rpc

CHAIN = 10


def export(server, table, *more, at=None, text=True):
    command = [server.binary, "export", table, "--server", at or f"127.0.0.1:{server.port}", *more]
    return subprocess.run(command, capture_output=True, text=text, timeout=60)


def rows_of(server, table, *more):
    done = export(server, table, *more)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr.startswith(f"{len(lines)} rows, as of ["), done.stderr
    return lines


def make(client, name, schema, **options):
    client.create_table(TableMeta(name, schema), TableOptions(**options), ReservedThroughput(CapacityUnit(0, 0)))


def fill(client, table, names):
    for begin in range(0, len(names), 200):
        request = BatchWriteRowRequest()
        items = [PutRowItem(Row([("k", name)], [("n", 0)]), IGNORE) for name in names[begin : begin + 200]]
        request.add(TableInBatchWriteRowItem(table, items))
        assert client.batch_write_row(request).is_all_succeed()


def all_rows(client, table):
    """All rows as key values and {column: value}."""
    names = [name for name, *_ in client.describe_table(table).table_meta.schema_of_primary_key]
    start, end = ([(name, bound) for name in names] for bound in (INF_MIN, INF_MAX))
    found = []
    while start:
        _, start, page, _ = client.get_range(table, "FORWARD", start, end, max_version=1)
        for row in page:
            columns = {name: value for name, value, _ in row.attribute_columns}
            found.append(([value for _, value in row.primary_key], columns))
    return found


def test_all_types_versions_and_keys_of_all_partitions(own_server):
    own_server.config = "partitions = 3\n"
    client = connect(own_server.start())
    make(client, "t", [("k", "STRING"), ("n", "INTEGER"), ("bytes", "BINARY")], max_version=2, max_time_deviation=2 * 10**9)
    make(client, "other", [("k", "STRING")])
    client.put_row("other", Row([("k", "x")], []), IGNORE)
    values = [("b", bytearray(b"\xff\0")), ("d", 1.5), ("i", -(2**63)), ("s", "é\n"), ("t", True)]
    expected = []
    for number in range(40):
        key = [("k", f"k{number:02}"), ("n", -number), ("bytes", bytearray([number]))]
        client.put_row("t", Row(key, values), IGNORE)
        expected.append(f"k{number:02}")
    client.put_row("t", Row(key, [("c", "old", 1_000_000), ("c", "new", 2_000_000)]), IGNORE)
    client.delete_row("t", Row([("k", "k00"), ("n", 0), ("bytes", bytearray([0]))]), IGNORE)
    client.put_row("t", Row([("k", "bare"), ("n", 1), ("bytes", bytearray())], []), IGNORE)
    lines = rows_of(own_server, "t")
    assert sorted(line["key"]["k"] for line in lines) == sorted(expected[1:] + ["bare"])
    by_key = {line["key"]["k"]: line for line in lines}
    assert by_key["k07"]["key"] == {"k": "k07", "n": -7, "bytes": {"base64": "Bw=="}}
    columns = by_key["k07"]["columns"]
    assert {name: cells[0]["value"] for name, cells in columns.items()} == {
        "b": {"base64": "/wA="}, "d": 1.5, "i": -(2**63), "s": "é\n", "t": True,
    }
    assert by_key["k39"]["columns"] == {
        "c": [{"version": 2_000_000, "value": "new"}, {"version": 1_000_000, "value": "old"}]
    }
    assert by_key["bare"]["columns"] == {}


def test_what_can_not_be_exported_is_said(own_server, tmp_path):
    other = tmp_path / "other"
    other.write_text("other\n")
    other.chmod(0o600)
    make(connect(own_server.start()), "numbers", [("n", "INTEGER")])
    for table, more, why in [
        ("nowhere", [], "OTSObjectNotExist: Requested table does not exist."),
        ("nowhere", ["--format", "parquet"], "OTSObjectNotExist: Requested table does not exist."),
        ("numbers", ["--prefix", "a"], "OTSInvalidPK"),
        ("t", ["--key-secret-file", str(other)], "OTSAuthFailed: Signature mismatch."),
    ]:
        done = export(own_server, table, *more)
        assert done.returncode != 0 and why in done.stderr and not done.stdout, done
    done = export(own_server, "t", at="127.0.0.1:1")
    assert done.returncode != 0 and "127.0.0.1:1: " in done.stderr


def test_timelines_by_the_beginning_of_their_names(own_server):
    own_server.config = "partitions = 2\n"
    client = connect(own_server.start())
    for name in ("room/1", "room/2", "room", "roon", "a"):
        rpc(own_server, "timeline.create", timeline=name, meta={"title": name})
        for number in range(4):
            rpc(own_server, "message.append", timeline=name, entry={"text": f"hi {number}", "n": number})
    rpc(own_server, "message.update", timeline="room/1", sequence=2, set={"text": "edited"})
    rpc(own_server, "message.delete", timeline="room/1", sequence=3)
    rpc(own_server, "timeline.trim", timeline="room/2", before=4)
    for table in (MESSAGES, METAS):
        for prefix in (None, "", "room/", "room", "roon", "none"):
            lines = rows_of(own_server, table, *(() if prefix is None else ("--prefix", prefix)))
            found = [
                ([line["key"][name] for name in ("timeline_id", "sequence_id") if name in line["key"]],
                 {name: cells[0]["value"] for name, cells in line["columns"].items()})
                for line in lines
            ]
            expected = [row for row in all_rows(client, table) if row[0][0].startswith(prefix or "")]
            assert sorted(found, key=str) == sorted(expected, key=str), (table, prefix)
    done = export(own_server, MESSAGES, "--prefix", "room/", "--format", "parquet", text=False)
    assert done.returncode == 0 and done.stderr.startswith(b"5 rows, as of ["), done.stderr
    assert done.stdout[:4] == done.stdout[-4:] == b"PAR1"


def test_timelines_are_exported_as_of_one_moment(own_server):
    """Messages go to one room and then to the other, which are trimmed, deleted and made again meanwhile: an export has of
    each timeline what one history of it held, without holes, and never more of the second than of the first."""
    own_server.start()
    filler = [{"entry": {"text": "x" * 1_000}} for _ in range(100)]
    for _ in range(60):  # several pages
        rpc(own_server, "message.append_batch", timeline="m", messages=filler)
    ended, turns = threading.Event(), []

    def write():
        while not ended.is_set():
            for turn in range(1, 40):
                for name in ("a", "z"):
                    rpc(own_server, "message.append", timeline=name, entry={"turn": turn})
                if turn % 10 == 0:
                    for name in ("a", "z"):
                        rpc(own_server, "timeline.trim", timeline=name, before=turn - 5)
                turns.append(turn)
            for name in ("z", "a"):
                rpc(own_server, "timeline.delete", timeline=name)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            before = len(turns)
            while len(turns) < before + 3:
                assert writer.is_alive()
            rows = {}
            for line in rows_of(own_server, MESSAGES):
                assert line["columns"]["__epoch"]
                rows.setdefault(line["key"]["timeline_id"], []).append(line)
            assert [line["key"]["sequence_id"] for line in rows.pop("m")] == list(range(1, 6_001))
            heads = {"a": 0, "z": 0}
            for name, lines in rows.items():
                sequences = [line["key"]["sequence_id"] for line in lines]
                assert sequences == list(range(sequences[0], sequences[-1] + 1)), (name, sequences)
                assert len({line["columns"]["__epoch"][0]["value"] for line in lines}) == 1
                assert [line["columns"]["turn"][0]["value"] for line in lines] == sequences
                heads[name] = sequences[-1]
            assert heads["a"] - heads["z"] in (0, 1) or heads["z"] == 0, heads
    finally:
        ended.set()
        writer.join()


def exports_amid_writes(own_server, count):
    """One client writes the same number into row after row, another makes rows and deletes them. Yields the keys of each export
    with their numbers, and the number that was in all rows of the first before it began; ends the clients when it is closed."""
    client = connect(own_server.start())
    make(client, "t", [("k", "STRING")])
    links = [f"{number}00000" for number in range(CHAIN)]
    fill(client, "t", links + [f"{number:05}x" for number in range(20_000)])
    ended = threading.Event()
    turns = []

    def write():
        own, turn = connect(own_server), 0
        while not ended.is_set():
            turn += 1
            for link in links:
                own.put_row("t", Row([("k", link)], [("n", turn)]), IGNORE)
            turns.append(turn)

    def come_and_go():
        own, turn = connect(own_server), 0
        while not ended.is_set():
            turn += 1
            key = [("k", f"{turn * 7919 % 100_000:05}y")]
            own.put_row("t", Row(key, [("n", turn)]), IGNORE)
            own.delete_row("t", Row(key), IGNORE)

    writers = [threading.Thread(target=run) for run in (write, come_and_go)]
    for writer in writers:
        writer.start()
    try:
        while len(turns) < 3:
            assert all(writer.is_alive() for writer in writers)
            time.sleep(0.01)
        for _ in range(count):
            before = turns[-1]
            lines = rows_of(own_server, "t")
            keys = [line["key"]["k"] for line in lines]
            assert keys == sorted(keys)
            yield {line["key"]["k"]: line["columns"]["n"][0]["value"] for line in lines}, before
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def is_of_one_moment(numbers):
    """At each moment the rows' numbers never rise from one to the next, and differ by one at most; never more than one of the
    rows that come and go is there."""
    chain = [numbers.get(f"{number}00000") for number in range(CHAIN)]
    come = [key for key in numbers if key.endswith("y")]
    return chain == sorted(chain, reverse=True) and chain[0] - chain[-1] <= 1 and len(come) <= 1


def test_an_export_is_of_one_moment_while_others_write(own_server):
    with contextlib.closing(exports_amid_writes(own_server, 4)) as exports:
        for numbers, before in exports:
            assert is_of_one_moment(numbers)
            assert numbers["000000"] >= before
            assert len([key for key in numbers if key.endswith("x")]) == 20_000


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")
def test_control_an_export_without_what_others_changed_meanwhile_is_noticed(own_server):
    own_server.environment = {"TIDELINE_FAULT": "export_no_changes"}
    with contextlib.closing(exports_amid_writes(own_server, 8)) as exports:
        assert not all(is_of_one_moment(numbers) for numbers, _ in exports)
