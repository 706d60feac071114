"""Makes a data directory as one release writes it, and keeps what that release answers from it.

    cd tests/tablestore && TIDELINE_BIN=<the release> PYTHONPATH=../python:../formats python ../formats/make.py v0.1.0

Owns: what such a directory holds, and the questions that `tests/tablestore/test_formats.py` asks again of every later
version. Needs the packages of `tests/tablestore/requirements.txt`. Promises: a few hundred kilobytes, with runs of two
flushes in the image and a tail of the log that no run holds. Must not: depend on the time of day in what it asks.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, CapacityUnit, ReservedThroughput, Row, TableMeta, TableOptions,
)

from sdk import IGNORE, connect
from server import Server

HOME = pathlib.Path(__file__).resolve().parent
CONFIG = "segment_bytes = 1048576\nreserve_bytes = 0\nmemtable_bytes = 65536\n"
TIMELINES = ["chat/会議", "edited", "empty", "long", "made again", "trimmed"]
TABLES = {"narrow": ["k"], "numbered": ["p", "n"], "wide": ["k"]}


def rpc(server, method, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    status, _, answer = server.http("POST", "/v1/rpc", body, {"content-type": "application/json"})
    answer = json.loads(answer)
    assert status == 200 and "result" in answer, answer
    return answer["result"]


def fill(server, timeline, first, last):
    many = [{"entry": {"n": n, "text": "x" * (n % 50)}, "message_id": f"{timeline}-{n}"} for n in range(first, last + 1)]
    rpc(server, "message.append_batch", timeline=timeline, messages=many)


def create(client, name, schema, options):
    client.create_table(TableMeta(name, schema), options, ReservedThroughput(CapacityUnit(0, 0)))


def numbered(client, partition, text):
    client.put_row("numbered", Row([("p", partition), ("n", PK_AUTO_INCR)], [("text", text)]), IGNORE)


def wide(client, first, last):
    columns = [(f"column_{n:04}", f"{n} " + "y" * 60) for n in range(first, last)]
    client.update_row("wide", Row([("k", "row")], {"PUT": columns}), IGNORE)


def first_life(server):
    for timeline in TIMELINES:
        rpc(server, "timeline.create", timeline=timeline, meta={"title": timeline, "big": 2**53 + 1})
    rpc(server, "message.append", timeline="chat/会議", entry={"text": "こんにちは 🌊", "n": 1.5, "list": [1, None, True]})
    fill(server, "long", 1, 90)
    for timeline in ["edited", "trimmed", "made again"]:
        fill(server, timeline, 1, 9)
    rpc(server, "message.update", timeline="edited", sequence=3, set={"text": "edited once"})
    rpc(server, "timeline.trim", timeline="trimmed", before=4)
    client = connect(server)
    create(client, "narrow", [("k", "STRING")], TableOptions(-1, 3))
    create(client, "numbered", [("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)], TableOptions(-1, 1))
    create(client, "wide", [("k", "STRING")], TableOptions(-1, 1))
    create(client, "dropped", [("k", "STRING")], TableOptions(-1, 1))
    for n in range(20):
        values = [("integer", n), ("double", n / 7), ("boolean", n % 2 == 0), ("text", f"行 {n}"), ("bytes", bytearray([n]))]
        client.put_row("narrow", Row([("k", f"row {n:02}")], values), IGNORE)
        numbered(client, "abc"[n % 3], f"text {n}")
    client.put_row("dropped", Row([("k", "row")], [("c", 1)]), IGNORE)
    for first in range(0, 400, 100):
        wide(client, first, first + 100)


def second_life(server):
    rpc(server, "timeline.delete", timeline="made again")
    fill(server, "made again", 1, 2)
    rpc(server, "message.update", timeline="edited", sequence=3, set={"text": "edited twice", "more": [1]}, remove=["n"])
    rpc(server, "message.delete", timeline="edited", sequence=5)
    rpc(server, "timeline.update", timeline="edited", meta={"title": "new", "more": {"a": [1, 2.5]}})
    client = connect(server)
    client.delete_table("dropped")
    for n in range(0, 20, 3):
        client.update_row("narrow", Row([("k", f"row {n:02}")], {"PUT": [("text", "newer")], "INCREMENT": [("integer", 100)]}), IGNORE)
        client.delete_row("narrow", Row([("k", f"row {n + 1:02}")]), IGNORE)
    wide(client, 37, 40)


def third_life(server):
    fill(server, "long", 91, 100)
    rpc(server, "message.update", timeline="edited", sequence=9, set={"text": "edited in the tail"})
    rpc(server, "timeline.trim", timeline="trimmed", before=6)
    client = connect(server)
    client.update_row("narrow", Row([("k", "row 00")], {"DELETE_ALL": ["double"], "PUT": [("text", "newest")]}), IGNORE)
    client.delete_row("narrow", Row([("k", "row 02")]), IGNORE)
    client.update_table("narrow", TableOptions(-1, 2))
    wide(client, 399, 401)
    for n in range(3):
        numbered(client, "a", f"tail {n}")


def plain(value):
    return f"bytes {bytes(value).hex()}" if isinstance(value, (bytes, bytearray)) else value


def rows(client, table, columns):
    """All rows of a table with all versions."""
    low, high = [(name, INF_MIN) for name in columns], [(name, INF_MAX) for name in columns]
    found = []
    while low:
        _, low, page, _ = client.get_range(table, "FORWARD", low, high, max_version=100)
        for row in page:
            cells = [[name, plain(value), version] for name, value, version in row.attribute_columns]
            found.append([[plain(value) for _, value in row.primary_key], cells])
    return found


def answers(server):
    """What the server answers to the questions of this file, as JSON would give it back."""
    client = connect(server)
    found = {"list": rpc(server, "timeline.list"), "tables": sorted(client.list_table())}
    for name in TIMELINES:
        found[f"timeline {name}"] = [
            rpc(server, "timeline.get", timeline=name),
            rpc(server, "message.range", timeline=name, limit=1_000),
            rpc(server, "sync", positions={name: {"after": 4, "changes_after": 0}}),
        ]
    for name, columns in TABLES.items():
        table = client.describe_table(name)
        options = table.table_options
        schema = [list(column) for column in table.table_meta.schema_of_primary_key]
        found[f"table {name}"] = [schema, options.time_to_live, options.max_version, rows(client, name, columns)]
    columns = ["column_0038", "column_0399", "column_0400"]
    _, row, _ = client.get_row("wide", [("k", "row")], columns_to_get=columns, max_version=1)
    found["cells"] = [list(cell) for cell in row.attribute_columns]
    return json.loads(json.dumps(found, default=lambda kind: kind.__name__))


def offline(binary, command, data):
    """The lines of `verify` or `dump`, which must end well."""
    ended = subprocess.run([binary, command, str(data)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


def main(name):
    """Makes the folder `name` beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, {"TIDELINE_PARTITIONS": "2"}, CONFIG)
        for life in [first_life, second_life, third_life]:
            life(server.start())
            if life is not third_life:
                assert server.stop() == 0
        found = answers(server)
        server.kill()
        expected = {"answers": found, "dump": offline(server.binary, "dump", server.data)}
        offline(server.binary, "verify", server.data)
        # What a start makes anew stays out.
        shutil.copytree(server.data, HOME / name / "data", ignore=shutil.ignore_patterns("lock", "*.lock", "lock.mdb", "served"))
        (HOME / name / "expected.json").write_text(json.dumps(expected, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
