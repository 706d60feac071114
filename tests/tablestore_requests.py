"""Prints requests as the official Tablestore SDK for Python makes them, one a line: label, operation, body in hex.

Not part of the test command, since it needs the SDK (`pip install tablestore==6.4.8`):

    python3 tests/tablestore_requests.py > src/wire/tablestore/tests/sdk_requests.txt

The decoder's tests read that file. Nothing is sent: the SDK's request is taken before it reaches a connection.
"""

from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, CastType, ComparatorType,
    CompositeColumnCondition, Condition, DeleteRowItem, Direction, LogicalOperator, OTSClient, PutRowItem, RegexRule,
    ReservedThroughput, ReturnType, Row, RowExistenceExpectation, SingleColumnCondition, SingleColumnRegexCondition,
    TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta, TableOptions, UpdateRowItem,
)
from tablestore import metadata
from tablestore.timeseries_condition import (
    CompositeMetaQueryCondition, MeasurementMetaQueryCondition, MetaQueryCompositeOperator, MetaQuerySingleOperator,
    TagMetaQueryCondition, UpdateTimeMetaQueryCondition,
)


class Taken(Exception):
    """The request, instead of an answer to it."""


class Connection:
    def send_receive(self, path, _headers, body):
        raise Taken(path[1:], bytes(body))


client = OTSClient("http://127.0.0.1:7070", "development", "development", "tideline")
client.connection = Connection()

key = [("pk", "a"), ("id", 7), ("b", bytearray(b"\x01\x02"))]
numbered = [("pk", "a"), ("id", PK_AUTO_INCR), ("b", bytearray(b"\x01\x02"))]
low = [(name, INF_MIN) for name, _ in key]
high = [(name, INF_MAX) for name, _ in key]
columns = [("bin", bytearray(b"\x00\xff")), ("bool", True), ("dbl", 1.5), ("int", -3, 1700000000000), ("str", "消息")]
changes = {
    "PUT": [("c", 5), ("e", "x", 1700000000000)],
    "DELETE": [("k", None, 5)],
    "DELETE_ALL": ["z"],
    "INCREMENT": [("n", 3)],
}
ignore = Condition(RowExistenceExpectation.IGNORE)
exists = Condition(
    RowExistenceExpectation.EXPECT_EXIST, SingleColumnCondition("c", 1, ComparatorType.EQUAL, False)
)
absent = Condition(RowExistenceExpectation.EXPECT_NOT_EXIST)

part = RegexRule("t1:([0-9]+),", CastType.VT_INTEGER)
negated = CompositeColumnCondition(LogicalOperator.NOT)
negated.add_sub_condition(SingleColumnRegexCondition("str", ComparatorType.EQUAL, 5, part))
both = CompositeColumnCondition(LogicalOperator.AND)
both.add_sub_condition(SingleColumnCondition("int", -3, ComparatorType.GREATER_EQUAL, True, False))
both.add_sub_condition(negated)

meta = TableMeta(
    "t", [("pk", "STRING"), ("id", "INTEGER", PK_AUTO_INCR), ("b", "BINARY")], [("x", "INTEGER"), ("y", "STRING")]
)
reads = BatchGetRowRequest()
reads.add(TableInBatchGetRowItem("t", [key, [("pk", "z")], low], ["int"], both, 1))
reads.add(TableInBatchGetRowItem("u", [key], [], None, 2))
writes = BatchWriteRowRequest()
writes.add(
    TableInBatchWriteRowItem(
        "t",
        [
            PutRowItem(Row(numbered, columns), ignore, ReturnType.RT_PK),
            UpdateRowItem(Row(key, {"PUT": [("c", 5)]}), exists),
            DeleteRowItem(Row(key), ignore),
        ],
    )
)

series = metadata.TimeseriesKey("cpu", "host", {"tag1": "t1", "tag2": "t2"})
of_series = metadata.TimeseriesTableMeta(
    "t", metadata.TimeseriesTableOptions(86400), metadata.TimeseriesMetaOptions(604800, False), ["a", "_tags"], [("gid", "INTEGER")]
)
fields = {"l": 1, "s": "text", "b": True, "d": 0.5, "y": bytearray(b"bytes"), "l2": 2}
points = [metadata.TimeseriesRow(series, fields, 1700000000000001), metadata.TimeseriesRow(series, {"l": -1}, 1700000000000002)]
either = CompositeMetaQueryCondition(MetaQueryCompositeOperator.OP_OR, [
    MeasurementMetaQueryCondition(MetaQuerySingleOperator.OP_PREFIX, "c"),
    TagMetaQueryCondition(MetaQuerySingleOperator.OP_LESS_EQUAL, "tag1", "t"),
    UpdateTimeMetaQueryCondition(MetaQuerySingleOperator.OP_GREATER_THAN, 5),
])

calls = [
    ("create", lambda: client.create_table(
        meta, TableOptions(86400, 3, 1000), ReservedThroughput(CapacityUnit(0, 0)))),
    ("list", client.list_table),
    ("describe", lambda: client.describe_table("t")),
    ("update_table", lambda: client.update_table(
        "t", TableOptions(-1, None, None), ReservedThroughput(CapacityUnit(5, None)))),
    ("put", lambda: client.put_row("t", Row(numbered, columns), None, ReturnType.RT_PK)),
    ("put_empty", lambda: client.put_row("t", Row(key, []), absent)),
    ("update", lambda: client.update_row("t", Row(key, changes), exists)),
    ("delete", lambda: client.delete_row("t", Row(key), ignore)),
    ("delete_if", lambda: client.delete_row("t", Row(key), exists)),
    ("get_filtered", lambda: client.get_row("t", key, ["int", "str", "int"], both, 2)),
    ("get_times", lambda: client.get_row("t", key, None, None, None, (5, 1000), "a", "n")),
    ("get_specific", lambda: client.get_row("t", key, None, None, None, 5)),
    ("range", lambda: client.get_range("t", Direction.FORWARD, low, high, ["int"], 2, max_version=1)),
    ("range_back", lambda: client.get_range("t", Direction.BACKWARD, high, low, max_version=1)),
    ("batch_get", lambda: client.batch_get_row(reads)),
    ("batch_write", lambda: client.batch_write_row(writes)),
    ("delete_table", lambda: client.delete_table("t")),
    ("create_series", lambda: client.create_timeseries_table(metadata.CreateTimeseriesTableRequest(of_series))),
    ("update_series", lambda: client.update_timeseries_table(
        metadata.TimeseriesTableMeta("t", metadata.TimeseriesTableOptions(-1)))),
    ("put_series", lambda: client.put_timeseries_data("t", points)),
    ("get_series", lambda: client.get_timeseries_data(
        metadata.GetTimeseriesDataRequest("t", series, 1, 2, 3, None, True, {"l": 1, "s": 4}))),
    ("query_series", lambda: client.query_timeseries_meta(metadata.QueryTimeseriesMetaRequest("t", either, True, 7))),
    ("update_metas", lambda: client.update_timeseries_meta(
        metadata.UpdateTimeseriesMetaRequest("t", [metadata.TimeseriesMeta(series, {"x": "y"})]))),
    ("delete_metas", lambda: client.delete_timeseries_meta(metadata.DeleteTimeseriesMetaRequest("t", [series]))),
]

print("# Made by tests/tablestore_requests.py from the official Python SDK 6.4.8: label, operation, body in hex.")
for label, call in calls:
    try:
        call()
    except Taken as taken:
        operation, body = taken.args
        print(f"{label} {operation} {body.hex()}".rstrip())
