"""GetRange: order over all partitions, bounds, pages, filters."""

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchWriteRowRequest, CapacityUnit, ComparatorType, PutRowItem, Row, SingleColumnCondition,
    TableInBatchWriteRowItem,
)

from sdk import IGNORE, invalid, key, now_ms, put, refused, scan

FORWARD_ERROR = "Begin key must less than end key in FORWARD"
BACKWARD_ERROR = "Begin key must more than end key in BACKWARD"


def write(client, table, rows):
    """Puts rows of (key, columns), 200 at a time."""
    for start in range(0, len(rows), 200):
        items = [PutRowItem(Row(primary_key, columns), IGNORE) for primary_key, columns in rows[start : start + 200]]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(table, items))
        assert client.batch_write_row(request).is_all_succeed()


@pytest.fixture
def grid(client, make_table):
    """Rows (text, number) for 40 texts and 5 numbers: enough texts to lie in every partition."""
    name = make_table([("s", "STRING"), ("n", "INTEGER")])
    keys = [[("s", f"s{text:02}"), ("n", number)] for text in range(40) for number in range(5)]
    write(client, name, [(primary_key, [("c", primary_key[1][1])]) for primary_key in keys])
    return name


def pair(text, number):
    return [("s", text), ("n", number)]


def read(client, table, start, end, direction="FORWARD", **options):
    _, next_key, rows, _ = client.get_range(table, direction, start, end, **options)
    return [tuple(value for _, value in row.primary_key) for row in rows], next_key


def test_rows_come_in_the_order_of_their_keys_both_ways(client, grid):
    expected = [[f"s{text:02}", number] for text in range(40) for number in range(5)]
    assert scan(client, grid, "sn") == expected
    assert scan(client, grid, "sn", limit=7) == expected
    assert scan(client, grid, "sn", "BACKWARD") == expected[::-1]
    assert scan(client, grid, "sn", "BACKWARD", limit=7) == expected[::-1]


def test_the_start_belongs_to_a_range_and_the_end_does_not(client, grid):
    assert read(client, grid, pair("s03", 2), pair("s03", 4)) == ([("s03", 2), ("s03", 3)], None)
    assert read(client, grid, pair("s03", 4), pair("s03", 2), "BACKWARD") == ([("s03", 4), ("s03", 3)], None)
    assert read(client, grid, pair("s03", 4), pair("s04", 1)) == ([("s03", 4), ("s04", 0)], None)
    assert read(client, grid, pair("s04", 0), pair("s03", 3), "BACKWARD") == ([("s04", 0), ("s03", 4)], None)
    # Bounds need not be rows.
    assert read(client, grid, pair("s03x", -9), pair("s04", 1)) == ([("s04", 0)], None)
    assert read(client, grid, pair("t", 0), pair("u", 0)) == ([], None)


def test_infinities_stand_in_any_column(client, grid):
    whole = [("s03", number) for number in range(5)]
    assert read(client, grid, pair("s03", INF_MIN), pair("s03", INF_MAX)) == (whole, None)
    assert read(client, grid, pair("s03", INF_MAX), pair("s03", INF_MIN), "BACKWARD") == (whole[::-1], None)
    assert read(client, grid, pair("s03", INF_MAX), pair("s04", 1)) == ([("s04", 0)], None)
    assert read(client, grid, pair("s38", INF_MAX), pair(INF_MAX, INF_MIN))[0] == [("s39", n) for n in range(5)]
    assert read(client, grid, pair(INF_MIN, INF_MAX), pair("s00", 2))[0] == [("s00", 0), ("s00", 1)]
    assert read(client, grid, pair(INF_MIN, 3), pair("s00", 2))[0] == [("s00", 0), ("s00", 1)]


def test_a_page_tells_where_the_next_begins(client, grid):
    rows, next_key = read(client, grid, pair("s03", 3), pair("s05", 0), limit=3)
    assert rows == [("s03", 3), ("s03", 4), ("s04", 0)] and next_key == pair("s04", 1)
    rows, next_key = read(client, grid, next_key, pair("s05", 0), limit=4)
    assert rows == [("s04", n) for n in range(1, 5)] and next_key is None
    rows, next_key = read(client, grid, pair("s03", 1), pair("s02", 3), "BACKWARD", limit=2)
    assert rows == [("s03", 1), ("s03", 0)] and next_key == pair("s02", 4)


def test_bounds_that_no_range_has(client, grid):
    low, high = pair("s03", 1), pair("s03", 2)
    everything = pair(INF_MIN, INF_MIN), pair(INF_MAX, INF_MAX)
    for start, end in [(high, low), (low, low), everything[::-1], (pair("b", INF_MIN), pair("a", INF_MAX))]:
        with invalid(FORWARD_ERROR):
            read(client, grid, start, end)
    for start, end in [(low, high), (low, low), everything]:
        with invalid(BACKWARD_ERROR):
            read(client, grid, start, end, "BACKWARD")
    for limit in [0, -1]:
        with invalid("The limit must be greater than 0."):
            read(client, grid, low, high, limit=limit)
    with refused("OTSInvalidPK", "Validate PK size fail. Input: 1, Meta: 2."):
        read(client, grid, [("s", "a")], [("s", "b")])
    with refused("OTSInvalidPK", "Validate PK name fail. Input: x, Meta: n."):
        read(client, grid, [("s", "a"), ("x", 1)], high)
    with refused("OTSInvalidPK", "Validate PK type fail. Input: VT_STRING, Meta: VT_INTEGER."):
        read(client, grid, low, pair("s03", "text"))


def test_filters_columns_and_versions(client, grid):
    start, end = pair("s03", INF_MIN), pair("s04", INF_MAX)
    odd = SingleColumnCondition("c", 3, ComparatorType.GREATER_EQUAL)
    rows, next_key = read(client, grid, start, end, column_filter=odd)
    assert rows == [("s03", 3), ("s03", 4), ("s04", 3), ("s04", 4)] and next_key is None
    _, _, found, _ = client.get_range(grid, "FORWARD", start, end, columns_to_get=["s"], limit=1)
    assert found[0].attribute_columns == []
    assert read(client, grid, start, end, columns_to_get=["none"]) == ([], None)
    assert read(client, grid, start, end, max_version=None, time_range=(0, 10)) == ([], None)
    everything = (0, now_ms() + 1000)
    assert len(read(client, grid, start, end, max_version=None, time_range=everything)[0]) == 10


def test_the_iterator_of_the_sdk_reads_everything(client, grid):
    used = CapacityUnit(0, 0)
    low, high = pair(INF_MIN, INF_MIN), pair(INF_MAX, INF_MAX)
    rows = list(client.xget_range(grid, "FORWARD", low, high, used))
    assert len(rows) == 200 and used.read >= 1 and used.write == 0
    assert len(list(client.xget_range(grid, "BACKWARD", high, low, used, None, 17))) == 17


def test_a_page_looks_at_5000_rows(client, make_table):
    name = make_table([("n", "INTEGER")])
    write(client, name, [([("n", number)], []) for number in range(5003)])
    low, high = [("n", INF_MIN)], [("n", INF_MAX)]
    rows, next_key = read(client, name, low, high)
    assert len(rows) == 5000 and next_key == [("n", 5000)]
    rows, next_key = read(client, name, low, high, limit=6000)
    assert len(rows) == 5000 and next_key == [("n", 5000)]
    rows, next_key = read(client, name, [("n", 3)], high)
    assert len(rows) == 5000 and next_key is None
    # A filtered page may be empty and yet not be the last one.
    nothing = SingleColumnCondition("c", 1, ComparatorType.EQUAL, pass_if_missing=False)
    rows, next_key = read(client, name, low, high, column_filter=nothing)
    assert rows == [] and next_key == [("n", 5000)]
    rows, next_key = read(client, name, next_key, high, column_filter=nothing)
    assert rows == [] and next_key is None
    rows, next_key = read(client, name, high, low, "BACKWARD")
    assert len(rows) == 5000 and next_key == [("n", 2)]


def test_a_page_has_4_mib(client, table):
    megabyte = "x" * (1 << 20)
    for number in range(6):
        put(client, table, f"r{number}", [("c", megabyte)])
    _, next_key, rows, _ = client.get_range(table, "FORWARD", key(INF_MIN), key(INF_MAX))
    assert len(rows) == 4 and next_key == key("r4")
    consumed, next_key, rows, _ = client.get_range(table, "FORWARD", next_key, key(INF_MAX))
    assert len(rows) == 2 and next_key is None and consumed.read >= 512
    with invalid(FORWARD_ERROR):
        client.get_range(table, "FORWARD", key(INF_MAX), key("r0"))
