"""What was answered is there after kill -9, and after an orderly stop: rows, batches, numbers, tables and their options."""

import signal
import threading
import time

import pytest
from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, ReturnType, Row,
    TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, connect, get, refused, scan, users_tables


def create(client, name, schema, options=None):
    client.create_table(TableMeta(name, schema), options or TableOptions(), ReservedThroughput(CapacityUnit(1, 2)))


class Writer(threading.Thread):
    """Writes until the server is gone, and keeps what was answered."""

    def __init__(self, server, number):
        super().__init__()
        self.client = connect(server)
        self.number = number
        self.rows, self.numbered, self.stopped = {}, [], None

    def run(self):
        try:
            for turn in range(100_000):
                self.write(turn)
        except Exception as stopped:
            self.stopped = stopped

    def write(self, turn):
        name = f"{self.number}-{turn}"
        self.client.put_row("plain", Row([("k", name)], [("c", turn)]), IGNORE)
        self.rows[name] = turn
        items = [PutRowItem(Row([("k", f"{name}-{n}")], [("c", n)]), IGNORE) for n in range(5)]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem("plain", items))
        assert self.client.batch_write_row(request).is_all_succeed()
        self.rows.update({f"{name}-{n}": n for n in range(5)})
        row = Row([("p", "a"), ("n", PK_AUTO_INCR)], [("c", name)])
        _, returned = self.client.put_row("numbered", row, IGNORE, ReturnType.RT_PK)
        self.numbered.append((returned.primary_key[1][1], name))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_answered_is_there_after_the_end(own_server, how):
    client = connect(own_server.start())
    create(client, "plain", [("k", "STRING")])
    create(client, "numbered", [("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)], TableOptions(-1, 3, 500))
    create(client, "deleted", [("k", "STRING")])
    client.put_row("deleted", Row([("k", "a")], []), IGNORE)
    client.delete_table("deleted")
    client.update_table("numbered", TableOptions(100_000, 4, None))
    rows, numbered = {}, {}
    for life in range(2):
        writers = [Writer(own_server, f"{life}-{number}") for number in range(4)]
        for writer in writers:
            writer.start()
        while min(len(writer.numbered) for writer in writers) < 20:
            assert any(writer.is_alive() for writer in writers), [writer.stopped for writer in writers]
            time.sleep(0.01)
        code = own_server.stop(how)
        assert how == signal.SIGKILL or code == 0
        for writer in writers:
            writer.join(60)
            rows.update(writer.rows)
            numbered.update(writer.numbered)
        client = connect(own_server.start())
        found = dict(every_row(client, "plain", ["k"]))
        assert {name: found.get((name,)) for name in rows} == rows
        found = dict(every_row(client, "numbered", ["p", "n"]))
        # No number was given twice, none has no row, and of those that were answered each has its row.
        assert sorted(number for _, number in found) == list(range(1, len(found) + 1))
        assert {number: found["a", number] for number in numbered} == numbered
    options = client.describe_table("numbered").table_options
    assert (options.time_to_live, options.max_version, options.max_time_deviation) == (100_000, 4, 500)
    assert users_tables(client) == ["numbered", "plain"]
    with refused("OTSObjectNotExist"):
        get(client, "deleted", "a")
    create(client, "deleted", [("k", "STRING")])
    assert scan(client, "deleted") == []


def every_row(client, table, names):
    used = CapacityUnit(0, 0)
    low, high = [(name, INF_MIN) for name in names], [(name, INF_MAX) for name in names]
    for row in client.xget_range(table, "FORWARD", low, high, used):
        yield tuple(value for _, value in row.primary_key), row.attribute_columns[0][1]
