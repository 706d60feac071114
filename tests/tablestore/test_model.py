"""Random requests through the SDK against a table of plain dictionaries, with kills and restarts and small memtables.

The model inside of the server (`src/table/tests/model.rs`) goes further into time and options; this one holds the whole way
from the SDK's encoder to the SDK's decoder, filters and conditions with it. A failure names its seed and its turn.
"""

import os
import random
import signal

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, Condition, DeleteRowItem, OTSServiceError,
    PutRowItem, ReservedThroughput, Row, RowExistenceExpectation, TableInBatchGetRowItem, TableInBatchWriteRowItem,
    TableMeta, TableOptions, UpdateRowItem,
)

from model import KEY, VERSIONS_MAX, Requests, cells, shortened
from sdk import IGNORE, atomic, connect, get, now_ms
from server import Server

TABLE = "model"
#: More by hand: TABLESTORE_MODEL_TURNS=20000.
TURNS = int(os.environ.get("TABLESTORE_MODEL_TURNS", "300"))


def full(key):
    return list(zip(KEY, key))


def same(found, expected):
    """Equal, and of equal types: True is no 1."""
    if found is None or expected is None:
        return found is expected
    return [(type(cell[1]), *cell) for cell in found] == [(type(cell[1]), *cell) for cell in expected]


class Play:
    def __init__(self, server, dice):
        self.dice, self.server, self.client = dice, server, connect(server)
        self.requests, self.rows = Requests(dice, now_ms() - 10_000_000), {}
        meta = TableMeta(TABLE, [("p", "STRING"), ("q", "INTEGER")])
        options = TableOptions(max_version=VERSIONS_MAX, max_time_deviation=86400 * 365)
        self.client.create_table(meta, options, ReservedThroughput(CapacityUnit(0, 0)))

    def write(self, key):
        """A write of a row, and a function that does it to the model and says whether its condition holds."""
        expected = self.dice.choice([RowExistenceExpectation.IGNORE] * 4 + ["EXPECT_EXIST", "EXPECT_NOT_EXIST"])
        filter = self.requests.filter() if self.dice.random() < 0.2 else None
        condition = Condition(expected, filter and filter[0])
        kind = self.dice.choice([PutRowItem, UpdateRowItem, UpdateRowItem, DeleteRowItem])
        change, after = None, lambda _row: None
        if kind is not DeleteRowItem:
            change, after = self.requests.put() if kind is PutRowItem else self.requests.update()

        def done():
            row = self.rows.get(key)
            if expected == "EXPECT_EXIST" and row is None or expected == "EXPECT_NOT_EXIST" and row is not None:
                return False
            if filter and not filter[1](key, cells(row or {})):
                return False
            self.rows[key] = after(row)
            if self.rows[key] is None:
                del self.rows[key]
            return True

        return kind(Row(full(key), change), condition), done

    def one_write(self):
        item, done = self.write(self.requests.key())
        call = {PutRowItem: self.client.put_row, UpdateRowItem: self.client.update_row}
        try:
            call.get(type(item), self.client.delete_row)(TABLE, item.row, item.condition)
            held = True
        except OTSServiceError as refused:
            assert refused.code == "OTSConditionCheckFail", refused
            held = False
        assert held == done()

    def batch(self):
        is_atomic, before = self.dice.random() < 0.4, dict(self.rows)
        keys = [self.requests.key() for _ in range(self.dice.randrange(1, 9))]
        writes = [self.write((keys[0][0], key[1]) if is_atomic else key) for key in keys]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(TABLE, [item for item, _ in writes]))
        response = atomic(self.client, request) if is_atomic else self.client.batch_write_row(request)
        answers = response.table_of_put[TABLE] + response.table_of_update[TABLE] + response.table_of_delete[TABLE]
        held = [answer.is_ok for answer in sorted(answers, key=lambda answer: answer.index)]
        expected = [done() for _, done in writes]
        if is_atomic and not all(expected):
            self.rows, expected = before, [False] * len(expected)
        assert held == expected

    def increment(self):
        key, name, by = self.requests.key(), self.dice.choice(["n", "a"]), self.dice.randrange(-3, 9)
        versions = self.rows.get(key, {}).get(name, {})
        before = versions[max(versions)] if versions else 0
        try:
            self.client.update_row(TABLE, Row(full(key), {"INCREMENT": [(name, by)]}), IGNORE)
        except OTSServiceError as refused:
            assert refused.code == "OTSParameterInvalid" and type(before) is not int
            return
        ((_, value, version),) = get(self.client, TABLE, full(key), columns_to_get=[name])
        assert type(before) is int and value == before + by and version > max(versions, default=0)
        self.rows[key] = shortened({**self.rows.get(key, {}), name: {**versions, version: value}})

    def read(self):
        key, (arguments, seen) = self.requests.key(), self.requests.selection()
        assert same(get(self.client, TABLE, full(key), **arguments), seen(key, self.rows.get(key)))

    def read_batch(self):
        keys, (arguments, seen) = [self.requests.key() for _ in range(5)], self.requests.selection()
        request = BatchGetRowRequest()
        request.add(TableInBatchGetRowItem(TABLE, [full(key) for key in keys], **arguments))
        for key, answer in zip(keys, self.client.batch_get_row(request).get_result_by_table(TABLE)):
            found = answer.row and answer.row.attribute_columns
            assert answer.is_ok and same(found, seen(key, self.rows.get(key)))

    def read_range(self):
        arguments, seen = self.requests.selection()
        bounds = [(INF_MIN, INF_MIN), (INF_MAX, INF_MAX), ("a", INF_MIN), ("b", INF_MAX), self.requests.key()]
        low, high = sorted(self.dice.sample(bounds, 2), key=rank)
        inside = sorted(key for key in self.rows if rank(low) <= rank(key) < rank(high))
        start, end, direction = low, high, "FORWARD"
        if self.dice.random() < 0.5:
            inside = sorted((key for key in self.rows if rank(low) < rank(key) <= rank(high)), reverse=True)
            start, end, direction = high, low, "BACKWARD"
        expected = [(key, seen(key, self.rows[key])) for key in inside]
        expected = [(key, row) for key, row in expected if row is not None]
        limit, found, start = self.dice.choice([None, 1, 2, 5]), [], full(start)
        while start:
            _, start, rows, _ = self.client.get_range(TABLE, direction, start, full(end), limit=limit, **arguments)
            assert limit is None or len(rows) <= limit
            found += rows
        assert [row.primary_key for row in found] == [full(key) for key, _ in expected]
        assert all(same(row.attribute_columns, wanted) for row, (_, wanted) in zip(found, expected))

    def restart(self):
        self.server.restart(self.dice.choice([signal.SIGTERM, signal.SIGKILL]))


def rank(key):
    return [(0, 0) if part is INF_MIN else (2, 0) if part is INF_MAX else (1, part) for part in key]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_requests_come_to_what_the_model_says(tmp_path, seed):
    server = Server(tmp_path, {"TIDELINE_MEMTABLE_BYTES": "65536"}).start()
    try:
        play = Play(server, random.Random(seed))
        moves = [play.one_write] * 8 + [play.read] * 6 + [play.read_range] * 4
        moves += [play.batch, play.batch, play.increment, play.read_batch]
        for turn in range(TURNS):
            try:
                play.restart() if turn % 100 == 99 else play.dice.choice(moves)()
            except Exception as failed:
                raise AssertionError(f"seed {seed}, turn {turn}") from failed
    finally:
        server.kill()
