"""Secondary indexes: making, describing, reading and ending them, what they may not be, and that they are never behind."""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, Condition, DeleteRowItem, OTSServiceError,
    PutRowItem, ReservedThroughput, Row, SecondaryIndexMeta, SecondaryIndexType, TableInBatchGetRowItem,
    TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, atomic, call, connect, field, invalid, refused, scan, users_tables
from server import Server

KEY = [("gid", "INTEGER"), ("uid", "STRING")]
DEFINED = [("i", "INTEGER"), ("bool", "BOOLEAN"), ("d", "DOUBLE"), ("s", "STRING"), ("b", "BINARY")]
NOTHING_RESERVED = ReservedThroughput(CapacityUnit(0, 0))
BUILDING = "Disallow read index table in building base state"


def create(client, name, indexes=(), key=KEY, defined=DEFINED, **options):
    meta = TableMeta(name, list(key), list(defined))
    client.create_table(meta, TableOptions(**options), NOTHING_RESERVED, list(indexes))


@pytest.fixture
def indexed(make_table):
    """Makes a table with these indexes, which goes after the test."""
    return lambda *indexes, key=KEY, defined=DEFINED, **options: make_table(key, defined, indexes=indexes, **options)


def unique(name):
    return f"{name}_{random.randrange(1 << 40)}"


def by(key, columns=(), kind=SecondaryIndexType.GLOBAL_INDEX):
    return SecondaryIndexMeta(unique("by_" + "_".join(key)), list(key), list(columns), kind)


def put(client, table, gid, uid, **columns):
    client.put_row(table, Row([("gid", gid), ("uid", uid)], list(columns.items())), IGNORE)


def update(client, table, gid, uid, **changes):
    client.update_row(table, Row([("gid", gid), ("uid", uid)], changes), IGNORE)


def delete(client, table, gid, uid):
    client.delete_row(table, Row([("gid", gid), ("uid", uid)]), IGNORE)


def rows(client, table, direction="FORWARD", **options):
    """All rows as (key values, {column: value})."""
    names = [name for name, _, *_ in client.describe_table(table).table_meta.schema_of_primary_key]
    low, high = [(name, INF_MIN) for name in names], [(name, INF_MAX) for name in names]
    start, end = (low, high) if direction == "FORWARD" else (high, low)
    found = []
    while start:
        _, start, page, _ = client.get_range(table, direction, start, end, **options)
        for row in page:
            columns = {name: value for name, value, _ in row.attribute_columns}
            found.append((tuple(value for _, value in row.primary_key), columns))
    return found


def ready(client, index, **options):
    """The rows of an index, once it has all."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return rows(client, index, **options)
        except OTSServiceError as error:
            assert (error.code, error.http_status, error.message) == ("OTSParameterInvalid", 400, BUILDING)
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_table_with_indexes_is_described_as_it_was_made(client, indexed):
    metas = [by(["i", "s"], ["bool", "b", "d"]), by(["gid", "s"], [], SecondaryIndexType.LOCAL_INDEX)]
    table = indexed(*metas)
    told = client.describe_table(table)
    assert told.table_meta.defined_columns == DEFINED
    for told_index, meta in zip(told.secondary_indexes, metas, strict=True):
        assert told_index.index_name == meta.index_name
        assert told_index.primary_key_names == meta.primary_key_names
        assert told_index.defined_column_names == meta.defined_column_names
        assert told_index.index_type == meta.index_type
    # As a table each has its whole key, of columns with their types, and the columns that it holds.
    first, second = (client.describe_table(meta.index_name) for meta in metas)
    assert first.table_meta.schema_of_primary_key == [("i", "INTEGER"), ("s", "STRING"), *KEY]
    assert first.table_meta.defined_columns == [DEFINED[1], DEFINED[2], DEFINED[4]]
    assert second.table_meta.schema_of_primary_key == [("gid", "INTEGER"), ("s", "STRING"), ("uid", "STRING")]
    assert first.secondary_indexes == [] and first.table_options.max_version == 1
    assert {table, *(meta.index_name for meta in metas)} <= set(client.list_table())
    client.delete_table(table)
    assert not {table, *(meta.index_name for meta in metas)} & set(client.list_table())
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        client.describe_table(metas[0].index_name)


def test_an_index_follows_every_write(client, indexed):
    index = by(["s"], ["i"])
    table, index = indexed(index), index.index_name
    put(client, table, 2, "b", s="m", i=1, d=0.5)
    put(client, table, 1, "a", s="z", i=2)
    put(client, table, 1, "c", i=3)  # has no s
    assert rows(client, index) == [(("m", 2, "b"), {"i": 1}), (("z", 1, "a"), {"i": 2})]
    update(client, table, 2, "b", PUT=[("s", "zz")])
    assert rows(client, index) == [(("z", 1, "a"), {"i": 2}), (("zz", 2, "b"), {"i": 1})]
    update(client, table, 2, "b", INCREMENT=[("i", 41)])
    update(client, table, 1, "a", DELETE_ALL=["i"])
    assert rows(client, index) == [(("z", 1, "a"), {}), (("zz", 2, "b"), {"i": 42})]
    update(client, table, 1, "a", DELETE_ALL=["s"])
    update(client, table, 1, "c", PUT=[("s", "a")])
    assert rows(client, index) == [(("a", 1, "c"), {"i": 3}), (("zz", 2, "b"), {"i": 42})]
    put(client, table, 1, "c", s=7)  # of another type than the defined one
    delete(client, table, 2, "b")
    delete(client, table, 2, "nobody")
    assert rows(client, index) == []
    with refused("OTSConditionCheckFail"):
        row = Row([("gid", 9), ("uid", "x")], [("s", "never")])
        client.put_row(table, row, Condition("EXPECT_EXIST"))
    assert rows(client, index) == []


def test_batches_and_increments_take_their_indexes_with_them(client, indexed):
    index = by(["i"])
    table, index = indexed(index), index.index_name
    items = [PutRowItem(Row([("gid", n % 3), ("uid", str(n))], [("i", n)]), IGNORE) for n in range(50)]
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(table, items))
    assert client.batch_write_row(request).is_all_succeed()
    assert [key[0] for key, _ in rows(client, index)] == list(range(50))
    assert [key[0] for key, _ in rows(client, index, "BACKWARD", limit=7)] == list(range(50))[::-1]

    def both(condition):
        request = BatchWriteRowRequest()
        one = PutRowItem(Row([("gid", 0), ("uid", "0")], [("i", 100)]), IGNORE)
        other = DeleteRowItem(Row([("gid", 0), ("uid", "3")]), condition)
        request.add(TableInBatchWriteRowItem(table, [one, other]))
        return atomic(client, request).is_all_succeed()

    assert not both(Condition("EXPECT_NOT_EXIST"))
    assert [key[0] for key, _ in rows(client, index)] == list(range(50))
    assert both(Condition("EXPECT_EXIST"))
    assert [key[0] for key, _ in rows(client, index)] == [n for n in range(1, 50) if n != 3] + [100]
    update(client, table, 1, "1", INCREMENT=[("i", 200)])
    assert rows(client, index)[-1][0] == (201, 1, "1")


def test_an_index_is_read_like_a_table(client, indexed):
    index = by(["b", "gid"], ["i", "s"])
    table, index = indexed(index), index.index_name
    for n in range(20):
        put(client, table, n % 2, f"u{n}", b=bytearray([n // 5]), i=n, s=str(n))
    key = [("b", bytearray([1])), ("gid", 1), ("uid", "u7")]
    _, row, _ = client.get_row(index, key)
    assert row.primary_key == key and [cell[:2] for cell in row.attribute_columns] == [("i", 7), ("s", "7")]
    of_table = client.get_row(table, [("gid", 1), ("uid", "u7")])[1].attribute_columns
    assert {name: version for name, _, version in of_table}["i"] == row.attribute_columns[0][2]
    _, row, _ = client.get_row(index, key, columns_to_get=["s"])
    assert [cell[:2] for cell in row.attribute_columns] == [("s", "7")]
    _, row, _ = client.get_row(index, key, columns_to_get=["uid"])
    assert row.primary_key == key and row.attribute_columns == []
    assert client.get_row(index, key, columns_to_get=["d"])[1] is None
    assert client.get_row(index, [("b", bytearray([1])), ("gid", 0), ("uid", "u7")])[1] is None
    low, high = ([("b", bytearray([2])), ("gid", gid), ("uid", end)] for gid, end in [(0, INF_MIN), (0, INF_MAX)])
    _, _, page, _ = client.get_range(index, "FORWARD", low, high)
    assert [row.primary_key[2][1] for row in page] == ["u10", "u12", "u14"]
    request = BatchGetRowRequest()
    asked = [[("b", bytearray([n // 5])), ("gid", n % 2), ("uid", f"u{n}")] for n in (3, 19, 0)]
    request.add(TableInBatchGetRowItem(index, asked, max_version=1))
    answers = client.batch_get_row(request).get_result_by_table(index)
    assert [answer.row.attribute_columns[0][1] for answer in answers] == [3, 19, 0]
    with refused("OTSInvalidPK", "Validate PK size fail. Input: 2, Meta: 3."):
        client.get_row(index, key[:2])


def test_an_index_is_not_written(client, indexed):
    index = by(["s"], ["i"])
    table, index = indexed(index), index.index_name
    put(client, table, 1, "a", s="x", i=1)
    row = Row([("s", "x"), ("gid", 1), ("uid", "a")], [("i", 2)])
    text = "Can't write index table directly."
    for attempt in [
        lambda: client.put_row(index, row, IGNORE),
        lambda: client.update_row(index, Row(row.primary_key, {"PUT": [("i", 2)]}), IGNORE),
        lambda: client.delete_row(index, Row(row.primary_key), IGNORE),
    ]:
        with invalid(text):
            attempt()
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(index, [PutRowItem(row, IGNORE)]))
    request.add(TableInBatchWriteRowItem(table, [PutRowItem(Row([("gid", 2), ("uid", "b")], [("s", "y")]), IGNORE)]))
    response = client.batch_write_row(request)
    (failed,) = response.table_of_put[index]
    assert (failed.error_code, failed.error_message) == ("OTSParameterInvalid", text)
    assert response.table_of_put[table][0].is_ok
    for attempt in [
        lambda: client.update_table(index, TableOptions(-1, 1, 500)),
        lambda: client.delete_table(index),
        lambda: client.create_secondary_index(index, by(["i"]), False),
        lambda: client.delete_secondary_index(index, index),
    ]:
        with invalid("Can't change index table directly."):
            attempt()
    assert rows(client, index) == [(("x", 1, "a"), {"i": 1}), (("y", 2, "b"), {})]


def test_an_index_made_later_is_of_the_rows_from_then_on_or_of_all(client, indexed):
    table, since, of_all = indexed(), by(["i"], ["s"]), by(["i"], ["s"])
    for first in range(0, 1200, 200):
        keys = [[("gid", n % 7), ("uid", f"u{n}")] for n in range(first, first + 200)]
        items = [PutRowItem(Row(key, [("i", first + at), ("s", "old")]), IGNORE) for at, key in enumerate(keys)]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(table, items))
        assert client.batch_write_row(request).is_all_succeed()
    client.create_secondary_index(table, since, False)
    client.create_secondary_index(table, of_all, True)
    put(client, table, 9, "new", i=-1, s="new")
    update(client, table, 0, "u0", PUT=[("i", 5000)])
    assert rows(client, since.index_name) == [((-1, 9, "new"), {"s": "new"}), ((5000, 0, "u0"), {"s": "old"})]
    found = ready(client, of_all.index_name)
    assert [key[0] for key, _ in found] == [-1, *range(1, 1200), 5000]
    told = client.describe_table(table).secondary_indexes
    assert [index.index_name for index in told] == [since.index_name, of_all.index_name]
    client.delete_secondary_index(table, since.index_name)
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        rows(client, since.index_name)
    with refused("OTSObjectNotExist", "Requested index does not exist."):
        client.delete_secondary_index(table, since.index_name)
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        client.delete_secondary_index("nowhere", since.index_name)
    # Under the same name another one, that has nothing of the first.
    client.create_secondary_index(table, SecondaryIndexMeta(since.index_name, ["s"], []), False)
    assert rows(client, since.index_name) == []


def test_building_goes_on_beside_writes_and_is_told(client, indexed):
    table, index = indexed(), by(["s"], ["i"])
    for first in range(0, 6000, 200):
        items = [
            PutRowItem(Row([("gid", n % 11), ("uid", f"{n:05}")], [("s", f"{n % 97}"), ("i", n)]), IGNORE)
            for n in range(first, first + 200)
        ]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(table, items))
        assert client.batch_write_row(request).is_all_succeed()
    client.create_secondary_index(table, index, True)
    dice = random.Random(7)
    for turn in range(150):
        n = dice.randrange(6000)
        [
            lambda: put(client, table, n % 11, f"{n:05}", s="put", i=turn),
            lambda: update(client, table, n % 11, f"{n:05}", PUT=[("s", "updated")]),
            lambda: delete(client, table, n % 11, f"{n:05}"),
            lambda: put(client, table, 20, f"{turn}", s="fresh", i=turn),
        ][turn % 4]()
    assert ready(client, index.index_name) == projected(rows(client, table), ["s"], ["i"])
    body = call(client, "DescribeTable", field(1, table))
    assert field(6, 2) in body  # INCR
    del client.protocol.encoder.api_encode_map["DescribeTable"]


def projected(table_rows, key, columns):
    found = []
    for (gid, uid), cells in table_rows:
        named = {"gid": gid, "uid": uid, **cells}
        if all(name in named for name in key):
            whole = [*key, *(name for name in ("gid", "uid") if name not in key)]
            held = {name: cells[name] for name in columns if name in cells}
            found.append((tuple(named[name] for name in whole), held))
    return sorted(found, key=lambda row: row[0])


def test_indexes_that_no_table_has(client, indexed):
    table = indexed()
    many = [(f"c{n}", "STRING") for n in range(32)]
    key_count = "The number of primary key columns must be in range: [1, 4] in index."
    column_count = "The number of attribute columns must be in range: [0, 32] in index."
    for meta, text in [
        (by([], ["i"]), key_count),
        (by(["i", "s", "b", "gid", "uid"]), key_count),
        (by(["gid"], [f"c{n}" for n in range(33)]), column_count),
        (by(["i", "i"]), "Duplicated primary key name: 'i'."),
        (by(["i"], ["s", "s"]), "Duplicated defined column name: 's'."),
        (by(["i"], ["i"]), "Duplicated attribute column name with primary key column: i."),
        (by(["nowhere"]), "Column does not exist:nowhere."),
        (by(["i"], ["nowhere"]), "Column does not exist:nowhere."),
        (by(["i"], ["uid"]), "Column does not exist:uid."),
        (by(["d"]), "Invalid type of primary key column in index: 'd'."),
        (by(["bool"]), "Invalid type of primary key column in index: 'bool'."),
        (by(["i"], [], SecondaryIndexType.LOCAL_INDEX),
         "The first primary key column of a local index must be that of its table."),
        (SecondaryIndexMeta("a-b", ["i"], []), "Invalid table name: 'a-b'."),
    ]:
        with invalid(text):
            client.create_secondary_index(table, meta, False)
        with invalid(text):
            create(client, unique("refused"), [meta])
    assert client.describe_table(table).secondary_indexes == []
    # The counts are checked before the table is looked for.
    with invalid(key_count):
        client.create_secondary_index("nowhere", by([]), False)
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        client.create_secondary_index("nowhere", by(["i"]), False)
    with refused("OTSNoPermissionAccess"):
        client.create_secondary_index("timeline_meta", by(["timeline_id"]), False)
    wide = by(["gid"], [name for name, _ in many])
    name = indexed(wide, defined=many)
    assert client.describe_table(name).secondary_indexes[0].defined_column_names == wide.defined_column_names


def test_an_index_has_the_key_of_its_table_behind_its_own(client, indexed):
    whole = [("a", "STRING"), ("b", "INTEGER"), ("c", "STRING"), ("d", "INTEGER")]
    index = by(["w", "x", "y", "z"])
    table = indexed(index, key=whole, defined=[(name, "INTEGER") for name in "wxyz"], max_version=1)
    key = [("a", "p"), ("b", 1), ("c", "q"), ("d", 2)]
    client.put_row(table, Row(key, [(name, at) for at, name in enumerate("wxyz")]), IGNORE)
    own = [("w", 0), ("x", 1), ("y", 2), ("z", 3)]
    values = tuple(value for _, value in own + key)
    for direction in ["FORWARD", "BACKWARD"]:
        assert ready(client, index.index_name, direction=direction) == [(values, {})]
    _, row, _ = client.get_row(index.index_name, own + key, max_version=1)
    assert row.primary_key == own + key
    request = BatchGetRowRequest()
    request.add(TableInBatchGetRowItem(index.index_name, [own + key], max_version=1))
    [got] = client.batch_get_row(request).get_result_by_table(index.index_name)
    assert got.is_ok and got.row.primary_key == own + key
    with invalid("The number of primary key columns must be in range: [1, 4]."):
        client.put_row(table, Row(own + key[:1], []), IGNORE)


def test_names_are_shared_and_a_table_has_5_indexes(client, indexed):
    table, first = indexed(), by(["i"])
    client.create_secondary_index(table, first, False)
    for attempt in [
        lambda: client.create_secondary_index(table, first, True),
        lambda: client.create_secondary_index(table, SecondaryIndexMeta(table, ["i"], []), False),
        lambda: client.create_secondary_index(table, SecondaryIndexMeta("timeline_meta", ["i"], []), False),
        lambda: create(client, first.index_name),
        lambda: create(client, unique("t"), [SecondaryIndexMeta(first.index_name, ["i"], [])]),
    ]:
        with refused("OTSObjectAlreadyExist", "Requested table already exists."):
            attempt()
    name = unique("same")
    with refused("OTSObjectAlreadyExist"):
        create(client, name, [SecondaryIndexMeta(name, ["i"], [])])
    for _ in range(4):
        client.create_secondary_index(table, by(["s"]), False)
    quota = "Number of index per table exceeds the quota:5."
    with invalid(quota):
        client.create_secondary_index(table, by(["b"]), False)
    with invalid(quota):
        create(client, unique("t"), [by(["i"]) for _ in range(6)])
    assert len(client.describe_table(table).secondary_indexes) == 5


def test_indexes_count_among_the_tables(own_server):
    client = connect(own_server.start())
    for number in range(12):
        create(client, f"t{number}", [by(["i"]) for _ in range(4)])
    create(client, "last", [by(["i"]) for _ in range(2)])
    assert len(users_tables(client)) == 63
    full = "Number of tables exceeds the quota:64."
    with refused("OTSQuotaExhausted", full):
        create(client, "more", [by(["i"])])
    client.create_secondary_index("last", by(["s"]), True)
    with refused("OTSQuotaExhausted", full):
        client.create_secondary_index("last", by(["s"]), False)
    with refused("OTSQuotaExhausted", full):
        create(client, "more")
    client.delete_table("t3")
    create(client, "more", [by(["i"])])


def test_what_an_index_asks_of_its_table(client, indexed):
    versions = "Max versions must be 1 in a table with indexes."
    life = "A table with indexes can have a time to live only if it does not allow updates."
    for options, text in [({"max_version": 2}, versions), ({"time_to_live": 86400}, life)]:
        with invalid(text):
            create(client, unique("refused"), [by(["i"])], **options)
        table = indexed(**options)
        with invalid(text):
            client.create_secondary_index(table, by(["i"]), False)
    table = indexed(by(["i"]), time_to_live=86400, allow_update=False)
    for change, text in [
        (TableOptions(None, 2, None), versions),
        (TableOptions(None, None, None, True), life),
    ]:
        with invalid(text):
            client.update_table(table, change)
    client.update_table(table, TableOptions(-1, None, None, True))
    with invalid(life):
        client.update_table(table, TableOptions(86400, None, None))
    with invalid("Column is used by an index:i."):
        call(client, "DeleteDefinedColumn", field(1, table) + field(2, "i"))
    call(client, "DeleteDefinedColumn", field(1, table) + field(2, "d"))
    assert ("d", "DOUBLE") not in client.describe_table(table).table_meta.defined_columns


def test_what_is_too_long_for_a_key_is_refused(client, indexed):
    index = by(["s"], ["i"])
    table, index = indexed(index), index.index_name
    put(client, table, 1, "a", s="x" * 1024, i=1)
    text = "The length of primary key column: 's' exceeds the MaxLength:1024 with CurrentLength:1025."
    with invalid(text):
        put(client, table, 1, "b", s="x" * 1025)
    with invalid(text):
        update(client, table, 1, "a", PUT=[("s", "x" * 1025)])
    assert rows(client, index) == [(("x" * 1024, 1, "a"), {"i": 1})]
    assert [key for key, _ in rows(client, table)] == [(1, "a")]
    # A row that was there before the index stays, and is not in it.
    other, late = indexed(), by(["s"])
    put(client, other, 1, "long", s="x" * 1025)
    put(client, other, 1, "short", s="x")
    client.create_secondary_index(other, late, True)
    assert [key[2] for key, _ in ready(client, late.index_name)] == ["short"]
    update(client, other, 1, "long", PUT=[("i", 1)])
    update(client, other, 1, "long", PUT=[("s", "y")])
    assert [key[2] for key, _ in rows(client, late.index_name)] == ["short", "long"]


def test_rows_of_an_index_expire_with_the_rows_that_they_are_of(client, indexed):
    index = by(["s"], ["i"])
    table = indexed(index, time_to_live=2, allow_update=False)
    index, now = index.index_name, int(time.time() * 1000)
    cells = [("s", "soon", now - 500), ("i", 1, now + 60_000)]
    client.put_row(table, Row([("gid", 1), ("uid", "a")], cells), IGNORE)
    client.put_row(table, Row([("gid", 1), ("uid", "b")], [("s", "late", now + 60_000), ("i", 2, now - 500)]), IGNORE)
    assert rows(client, index) == [(("late", 1, "b"), {"i": 2}), (("soon", 1, "a"), {"i": 1})]
    time.sleep(2)
    assert rows(client, table) == [((1, "a"), {"i": 1}), ((1, "b"), {"s": "late"})]
    assert rows(client, index) == [(("late", 1, "b"), {})]
    # What had expired does not come back to one of the two.
    client.update_table(table, TableOptions(-1, None, None))
    assert rows(client, table) == [((1, "a"), {"i": 1}), ((1, "b"), {"s": "late"})]
    assert rows(client, index) == [(("late", 1, "b"), {})]


def verified(server):
    done = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", [1, 2])
def test_an_index_is_right_after_every_kill(tmp_path, seed):
    """Clients write while indexes are made, and the server is killed at any moment: an index is what its table says."""
    server = Server(tmp_path, {"TIDELINE_MEMTABLE_BYTES": "262144"}).start()
    dice = random.Random(seed)
    try:
        client = connect(server)
        made = {"by_s": (["s"], ["i"]), "by_i_uid": (["i", "uid"], ["s", "b"]), "by_uid": (["uid"], ["d"])}
        metas = {name: SecondaryIndexMeta(name, *parts) for name, parts in made.items()}
        create(client, "base", [metas["by_s"]])
        later = ["by_i_uid", "by_uid"]
        for life in range(5):
            stop, threads = threading.Event(), []

            def write(number):
                own, rng = connect(server), random.Random(f"{seed} {life} {number}")
                while not stop.is_set():
                    gid, uid = rng.randrange(5), f"u{rng.randrange(300)}"
                    try:
                        [
                            lambda: put(own, "base", gid, uid, s=rng.choice("xyz"), i=rng.randrange(50), d=0.5),
                            lambda: put(own, "base", gid, uid, s=rng.choice("xyz"), b=bytearray(rng.randrange(3000))),
                            lambda: update(own, "base", gid, uid, PUT=[("i", rng.randrange(50))]),
                            lambda: update(own, "base", gid, uid, DELETE_ALL=[rng.choice("sib")]),
                            lambda: delete(own, "base", gid, uid),
                        ][rng.randrange(5)]()
                    except OTSServiceError:
                        raise
                    except Exception:
                        return  # the server is gone

            for number in range(4):
                threads.append(threading.Thread(target=write, args=[number]))
                threads[-1].start()
            time.sleep(0.3 + dice.random() / 4)
            if later and life >= 1:
                name = later.pop()
                client.create_secondary_index("base", metas[name], True)
                time.sleep(dice.random() / 50)
            server.stop(signal.SIGKILL)
            stop.set()
            for thread in threads:
                thread.join(60)
            verified(server)
            client = connect(server.start())
            for index in client.describe_table("base").secondary_indexes:
                found = ready(client, index.index_name)
                assert found == projected(rows(client, "base"), *made[index.index_name]), (seed, life)
        assert server.stop() == 0
        assert "rows of indexes" in verified(server)
    finally:
        server.kill()


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")
@pytest.mark.parametrize("point", ["found", "submitted", "brought", "through", "complete"])
def test_building_goes_on_wherever_the_process_ends(tmp_path, point):
    """The process ends at a point of the building, again and again; an index is complete and right in the end."""
    server = Server(tmp_path, config="partitions = 2\n").start()
    try:
        client = connect(server)
        create(client, "base")
        for first in range(0, 3000, 200):
            items = [
                PutRowItem(Row([("gid", n), ("uid", "u")], [("s", f"{n % 97}"), ("i", n)]), IGNORE)
                for n in range(first, first + 200)
            ]
            request = BatchWriteRowRequest()
            request.add(TableInBatchWriteRowItem("base", items))
            assert client.batch_write_row(request).is_all_succeed()
        assert server.stop() == 0
        # From the third start on it goes on with what the one before left.
        for turn, count in enumerate([1, 1, 2, 3] if point in ("found", "submitted", "brought") else [1, 1]):
            server.environment = {"TIDELINE_FAULT": f"backfill_{point}:{count}"}
            with contextlib.suppress(RuntimeError):  # it may end before it is ready
                server.start()
            if turn in (0, 1):
                with contextlib.suppress(Exception):
                    connect(server).create_secondary_index("base", SecondaryIndexMeta(f"by_{turn}", ["s"], ["i"]), True)
            assert server.process.wait(60) == -signal.SIGABRT, server.log()
            verified(server)
        server.environment = {}
        client = connect(server.start())
        put(client, "base", -1, "late", s="0", i=-1)
        expected = projected(rows(client, "base"), ["s"], ["i"])
        assert len(expected) == 3001
        made = [index.index_name for index in client.describe_table("base").secondary_indexes]
        assert made == ["by_0", "by_1"] or made == ["by_0"]
        for name in made:
            assert ready(client, name) == expected
        assert server.stop() == 0
        verified(server)
    finally:
        server.kill()


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")
def test_control_a_place_that_is_written_before_its_rows_loses_them(tmp_path):
    """By a kill between the two batches: the index goes on behind rows that it does not have."""
    fault = "backfill_place_first,backfill_brought:3"
    server = Server(tmp_path).start()
    try:
        client = connect(server)
        create(client, "base")
        for first in range(0, 2000, 200):
            items = [PutRowItem(Row([("gid", n), ("uid", "u")], [("s", "s"), ("i", n)]), IGNORE) for n in range(first, first + 200)]
            request = BatchWriteRowRequest()
            request.add(TableInBatchWriteRowItem("base", items))
            assert client.batch_write_row(request).is_all_succeed()
        server.stop()
        server.environment = {"TIDELINE_FAULT": fault}
        client = connect(server.start())
        with contextlib.suppress(Exception):
            client.create_secondary_index("base", SecondaryIndexMeta("by_s", ["s"], ["i"]), True)
        assert server.process.wait(60) == -signal.SIGABRT, server.log()
        server.environment = {}
        client = connect(server.start())
        found = ready(client, "by_s")
        assert len(found) < 2000 and found != projected(rows(client, "base"), ["s"], ["i"])
        server.stop()
        with pytest.raises(AssertionError):
            verified(server)
    finally:
        server.kill()
