"""`tideline export`: every row of a table as lines of JSON, as of one position, while others write."""

import json
import subprocess
import threading

from tablestore import (
    BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, Row, TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, connect

CHAIN = 10


def export(server, table, *more, at=None):
    command = [server.binary, "export", table, "--server", at or f"127.0.0.1:{server.port}", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def rows_of(server, table):
    done = export(server, table)
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


def test_what_can_not_be_exported_is_said(own_server):
    own_server.start()
    for table, more, why in [
        ("nowhere", [], "OTSObjectNotExist: Requested table does not exist."),
        ("timeline_message", [], "OTSNoPermissionAccess"),
        ("t", ["--key-secret", "other"], "OTSAuthFailed: Signature mismatch."),
    ]:
        done = export(own_server, table, *more)
        assert done.returncode != 0 and why in done.stderr and not done.stdout, done
    done = export(own_server, "t", at="127.0.0.1:1")
    assert done.returncode != 0 and "127.0.0.1:1: " in done.stderr


def test_an_export_is_of_one_moment_while_others_write(own_server):
    """One client writes the same number into row after row; so at each moment the rows' numbers never rise from one to the
    next, and differ by one at most. Another makes rows and deletes them: never more than one of its is there."""
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
        for _ in range(4):
            before = turns[-1]
            lines = rows_of(own_server, "t")
            keys = [line["key"]["k"] for line in lines]
            assert keys == sorted(keys)
            numbers = {line["key"]["k"]: line["columns"]["n"][0]["value"] for line in lines}
            chain = [numbers[link] for link in links]
            assert chain == sorted(chain, reverse=True) and chain[0] - chain[-1] <= 1, chain
            assert chain[0] >= before
            assert len([key for key in keys if key.endswith("x")]) == 20_000
            assert len([key for key in keys if key.endswith("y")]) <= 1
    finally:
        ended.set()
        for writer in writers:
            writer.join()
