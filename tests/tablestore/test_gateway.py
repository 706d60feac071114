"""The server around the tables: credentials, the rate of a partition key, shutdown, and timelines read as tables."""

import json

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, ComparatorType, PutRowItem, ReservedThroughput,
    Row, SingleColumnCondition, TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, STRING_KEY, connect, invalid, key, put, refused, scan, values
from server import Server

READ_ONLY = "The table shows timelines and can only be read."


def create(client, name):
    client.create_table(TableMeta(name, STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))


@pytest.fixture
def configured(tmp_path):
    """Starts a server with settings."""
    started = []

    def start(**settings):
        environment = {"TIDELINE_" + name.upper(): value for name, value in settings.items()}
        started.append(Server(tmp_path, environment).start())
        return started[-1]

    yield start
    for server in started:
        server.kill()


def test_own_keys_and_instances_replace_the_development_ones(configured):
    server = configured(
        tablestore_credentials="first:secret:with:colons,second:other", tablestore_instances="harbour,another-one"
    )
    for key_id, secret in [("first", "secret:with:colons"), ("second", "other")]:
        for instance in ["harbour", "another-one"]:
            for options in [{}, {"region": "somewhere"}]:
                assert connect(server, key_id, secret, instance, **options).list_table()
    with refused("OTSAuthFailed", "The AccessKeyID does not exist."):
        connect(server).list_table()
    with refused("OTSAuthFailed", "Signature mismatch."):
        connect(server, "first", "other", "harbour").list_table()
    with refused("OTSAuthFailed", "The instance is not found."):
        connect(server, "first", "secret:with:colons", "tideline").list_table()


def test_without_keys_nobody_may_call(configured):
    with refused("OTSAuthFailed", "The AccessKeyID does not exist."):
        connect(configured(tablestore_credentials="")).list_table()


def test_a_partition_key_that_is_too_fast_is_slowed_down(configured):
    client = connect(configured(tablestore_partition_key_units_max="20"))
    create(client, "limited")
    with refused("OTSCapacityUnitExhausted", "Capacity unit is not enough."):
        for number in range(100_000):
            put(client, "limited", "busy", [("c", number)])
    # Others go on meanwhile; in a batch the row fails alone.
    put(client, "limited", "another", [("c", 1)])
    put(client, "limited", "busy_too", [("c", "x" * 4096 * 400)])
    request = BatchWriteRowRequest()
    items = [PutRowItem(Row(key(text), [("c", 1)]), IGNORE) for text in ["busy_too", "third"]]
    request.add(TableInBatchWriteRowItem("limited", items))
    slowed, other = client.batch_write_row(request).get_put_by_table("limited")
    assert (slowed.error_code, slowed.error_message) == ("OTSCapacityUnitExhausted", "Capacity unit is not enough.")
    assert other.is_ok
    with refused("OTSCapacityUnitExhausted"):
        client.get_row("limited", key("busy_too"))


def test_a_server_that_stops_has_done_what_it_answered(own_server):
    client = connect(own_server.start())
    create(client, "plain")
    for number in range(50):
        put(client, "plain", f"r{number:02}", [("c", number)])
    assert own_server.stop() == 0
    client = connect(own_server.start())
    assert scan(client, "plain") == [[f"r{number:02}"] for number in range(50)]


@pytest.fixture
def timeline(server):
    """A timeline with three messages, and a way to call the server's own protocol."""

    def call(method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        _, _, answer = server.http("POST", "/v1/rpc", body, {"content-type": "application/json", "tideline-user": "ann"})
        return json.loads(answer)["result"]

    name = "sdk/room"
    call("timeline.create", timeline=name, meta={"title": "Harbour", "size": 3})
    for number in range(1, 4):
        call("message.append", timeline=name, message_id=f"m-{number}", entry={"text": f"tide {number}", "n": number})
    yield name
    call("timeline.delete", timeline=name)


def message(timeline, sequence):
    return [("timeline_id", timeline), ("sequence_id", sequence)]


def test_timelines_are_read_as_tables(client, timeline):
    schema = client.describe_table("timeline_message").table_meta.schema_of_primary_key
    assert schema == [("timeline_id", "STRING"), ("sequence_id", "INTEGER")]
    assert client.describe_table("timeline_meta").table_meta.schema_of_primary_key == schema[:1]
    found = dict(values(client, "timeline_message", message(timeline, 2)))
    assert (found["text"], found["n"], found["__message_id"], found["__sender"]) == ("tide 2", 2, "m-2", "ann")
    assert values(client, "timeline_message", message(timeline, 4)) is None
    meta = dict(values(client, "timeline_meta", [("timeline_id", timeline)]))
    assert (meta["title"], meta["size"], meta["__head"], meta["__floor"]) == ("Harbour", 3, 3, 1)
    low, high = message(timeline, INF_MIN), message(timeline, INF_MAX)
    _, after, rows, _ = client.get_range("timeline_message", "BACKWARD", high, low, ["text"], limit=2)
    assert [(row.primary_key[1][1], row.attribute_columns[0][1]) for row in rows] == [(3, "tide 3"), (2, "tide 2")]
    assert after == message(timeline, 1)
    above = SingleColumnCondition("n", 1, ComparatorType.GREATER_THAN)
    _, after, rows, _ = client.get_range("timeline_message", "FORWARD", low, high, column_filter=above)
    assert [row.primary_key[1][1] for row in rows] == [2, 3] and after is None
    request = BatchGetRowRequest()
    keys = [message(timeline, 3), message(timeline, 9)]
    request.add(TableInBatchGetRowItem("timeline_message", keys, ["n"], max_version=1))
    there, missing = client.batch_get_row(request).get_result_by_table("timeline_message")
    assert there.row.attribute_columns[0][:2] == ("n", 3) and missing.is_ok and missing.row is None


def test_timelines_are_not_written_as_tables(client, timeline):
    row = message(timeline, 2)
    before = values(client, "timeline_message", row)
    for attempt in [
        lambda: client.put_row("timeline_message", Row(row, [("text", "other")]), IGNORE),
        lambda: client.update_row("timeline_message", Row(row, {"PUT": [("text", "other")]}), IGNORE),
        lambda: client.delete_row("timeline_message", Row(row), IGNORE),
        lambda: client.put_row("timeline_meta", Row(row[:1], [("title", "other")]), IGNORE),
        lambda: client.update_table("timeline_message", TableOptions(86400, 1, 86400)),
        lambda: client.delete_table("timeline_meta"),
    ]:
        with refused("OTSNoPermissionAccess", READ_ONLY):
            attempt()
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem("timeline_message", [PutRowItem(Row(row, []), IGNORE)]))
    (answer,) = client.batch_write_row(request).get_put_by_table("timeline_message")
    assert (answer.error_code, answer.error_message) == ("OTSNoPermissionAccess", READ_ONLY)
    with refused("OTSObjectAlreadyExist"):
        create(client, "timeline_message")
    assert values(client, "timeline_message", row) == before


def test_transactions_never_began(client, table):
    for attempt in [
        lambda: client.get_row(table, key("a"), transaction_id="x"),
        lambda: client.put_row(table, Row(key("a"), []), IGNORE, transaction_id="x"),
        lambda: client.get_range(table, "FORWARD", key(INF_MIN), key(INF_MAX), transaction_id="x"),
    ]:
        with refused("OTSSessionNotExist", "Session not exist or may be timeout."):
            attempt()
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(table, [PutRowItem(Row(key("a"), []), IGNORE)]))
    request.set_transaction_id("x")
    with refused("OTSSessionNotExist"):
        client.batch_write_row(request)
    assert scan(client, table) == []


def test_capacity_units_have_a_most(client, table):
    client.update_table(table, reserved_throughput=ReservedThroughput(CapacityUnit(100_000, 100_000)))
    with invalid("Invalid Capacity Unit:100001 . Capacity Unit must be in range [0, 100000]."):
        client.update_table(table, reserved_throughput=ReservedThroughput(CapacityUnit(100_001, 0)))
