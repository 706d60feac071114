"""Timelines, written through `POST /v1/rpc` and read as tables."""

import itertools
import json

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, ComparatorType, FieldSchema, FieldType,
    MatchAllQuery, PutRowItem, ReservedThroughput, Row, SearchIndexMeta, SearchQuery, SingleColumnCondition,
    TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, connect, get, key, refused, scan, values
from server import Server

MESSAGES, METAS = "timeline_message", "timeline_meta"
NUMBERS = itertools.count(1)


def rpc(server, method, **params):
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Content-Type": "application/json", "Tideline-User": "anna"}
    status, _, answer = server.http("POST", "/v1/rpc", json.dumps(call), headers)
    assert status == 200, answer
    return json.loads(answer)["result"]


@pytest.fixture
def room(server):
    """A timeline with five messages: the first trimmed away, the second edited, the fourth deleted."""
    name = f"room {next(NUMBERS)}"
    rpc(server, "timeline.create", timeline=name, meta={"title": "Lobby", "size": 3})
    for number in range(1, 6):
        entry = {"text": f"hi {number}", "n": number, "deep": [1, {"a": 2}]}
        rpc(server, "message.append", timeline=name, entry=entry, message_id=f"m{number}")
    rpc(server, "message.update", timeline=name, sequence=2, set={"text": "edited"}, remove=["deep"])
    rpc(server, "message.delete", timeline=name, sequence=4)
    rpc(server, "timeline.trim", timeline=name, before=2)
    return name


def meta_key(name):
    return [("timeline_id", name)]


def message_key(name, sequence):
    return [("timeline_id", name), ("sequence_id", sequence)]


def shown(message, epoch):
    """A message of the protocol as its row's columns."""
    columns = {name: value for name, value in message.get("entry", {}).items()}
    if "deep" in columns:
        columns["deep"] = json.dumps(columns["deep"], separators=(",", ":"))
    own = ("message_id", "timestamp", "sender", "change", "edited_at", "deleted")
    columns |= {f"__{name}": message[name] for name in own if name in message}
    columns["__epoch"] = epoch
    return [(name, value, message["timestamp"]) for name, value in sorted(columns.items())]


def test_a_row_is_what_the_protocol_shows_of_the_message(server, client, room):
    page = rpc(server, "message.range", timeline=room)
    assert [message["sequence"] for message in page["messages"]] == [2, 3, 4, 5]
    for message in page["messages"]:
        row = get(client, MESSAGES, message_key(room, message["sequence"]), max_version=1)
        assert row == shown(message, page["epoch"])
    for sequence in (-1, 0, 1, 6, 2**63 - 1):
        assert get(client, MESSAGES, message_key(room, sequence), max_version=1) is None


def test_a_timelines_row_is_what_the_protocol_shows_of_it(server, client, room):
    info = rpc(server, "timeline.get", timeline=room)
    own = ("epoch", "version", "head", "floor", "change_head", "created_at", "updated_at", "last_at")
    columns = {f"__{name}": info[name] for name in own} | info["meta"]
    expected = [(name, value, info["updated_at"]) for name, value in sorted(columns.items())]
    assert get(client, METAS, meta_key(room), max_version=1) == expected
    assert get(client, METAS, meta_key("nowhere"), max_version=1) is None


def test_ranges_go_both_ways_in_pages(client, room):
    expected = [[room, sequence] for sequence in range(2, 6)]
    for limit in (1, 3, None):
        names = ("timeline_id", "sequence_id")
        found = scan(client, MESSAGES, names, limit=limit, max_version=1)
        assert [one for one in found if one[0] == room] == expected
        assert scan(client, MESSAGES, names, "BACKWARD", limit=limit, max_version=1) == found[::-1]
        timelines = scan(client, METAS, ("timeline_id",), limit=limit, max_version=1)
        assert [room] in timelines and timelines == sorted(timelines)
        assert scan(client, METAS, ("timeline_id",), "BACKWARD", limit=limit, max_version=1) == timelines[::-1]


def test_columns_filters_and_batches(client, room):
    low, high = message_key(room, INF_MIN), message_key(room, INF_MAX)
    tombstones = SingleColumnCondition("__deleted", True, ComparatorType.EQUAL, pass_if_missing=False)
    for start, end, direction in ((low, high, "FORWARD"), (high, low, "BACKWARD")):
        _, following, rows, _ = client.get_range(
            MESSAGES, direction, start, end, max_version=1, column_filter=tombstones
        )
        assert ([row.primary_key for row in rows], following) == ([message_key(room, 4)], None)
    _, _, rows, _ = client.get_range(MESSAGES, "FORWARD", low, high, ["n"], max_version=1)
    assert [row.attribute_columns[0][1] for row in rows] == [2, 3, 5]
    assert values(client, MESSAGES, message_key(room, 3), columns_to_get=["n", "none"], max_version=1) == [("n", 3)]
    request = BatchGetRowRequest()
    keys = [message_key(room, sequence) for sequence in (1, 2)]
    request.add(TableInBatchGetRowItem(MESSAGES, keys, ["text"], max_version=1))
    trimmed, edited = client.batch_get_row(request).get_result_by_table(MESSAGES)
    assert trimmed.is_ok and trimmed.row is None
    assert [value for _, value, _ in edited.row.attribute_columns] == ["edited"]


def test_only_the_present_timeline_of_a_name_shows(server, client, room):
    before = values(client, METAS, meta_key(room), columns_to_get=["__epoch"], max_version=1)
    rpc(server, "timeline.delete", timeline=room)
    assert get(client, METAS, meta_key(room), max_version=1) is None
    assert get(client, MESSAGES, message_key(room, 3), max_version=1) is None
    names = ("timeline_id", "sequence_id")
    assert room not in {name for name, _ in scan(client, MESSAGES, names, max_version=1)}
    rpc(server, "message.append", timeline=room, entry={"n": 9})
    after = values(client, METAS, meta_key(room), columns_to_get=["__epoch"], max_version=1)
    assert after != before
    found = [sequence for name, sequence in scan(client, MESSAGES, names, max_version=1) if name == room]
    assert found == [1]
    assert values(client, MESSAGES, message_key(room, 1), columns_to_get=["__epoch"], max_version=1) == after


def test_they_are_described_and_take_no_writes(client, room, table):
    described = client.describe_table(MESSAGES).table_meta
    assert described.schema_of_primary_key == [("timeline_id", "STRING"), ("sequence_id", "INTEGER")]
    assert ("__message_id", "STRING") in described.defined_columns
    assert client.describe_table(METAS).table_meta.schema_of_primary_key == [("timeline_id", "STRING")]
    text = "The table shows timelines and can only be read."
    for name, primary_key in ((MESSAGES, message_key(room, 2)), (METAS, meta_key(room))):
        before = get(client, name, primary_key, max_version=1)
        with refused("OTSNoPermissionAccess", text):
            client.put_row(name, Row(primary_key, [("a", 1)]), IGNORE)
        with refused("OTSNoPermissionAccess", text):
            client.update_row(name, Row(primary_key, {"PUT": [("a", 1)]}), IGNORE)
        with refused("OTSNoPermissionAccess", text):
            client.delete_row(name, Row(primary_key), IGNORE)
        with refused("OTSNoPermissionAccess", text):
            client.update_table(name, TableOptions(86_400, 1))
        with refused("OTSNoPermissionAccess", text):
            client.delete_table(name)
        with refused("OTSObjectAlreadyExist"):
            meta = TableMeta(name, [("k", "STRING")])
            client.create_table(meta, TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        # In a batch only its own row is refused.
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(name, [PutRowItem(Row(primary_key, [("a", 1)]), IGNORE)]))
        request.add(TableInBatchWriteRowItem(table, [PutRowItem(Row(key(name), [("a", 1)]), IGNORE)]))
        answer = client.batch_write_row(request)
        (bad,), (good,) = (answer.get_put_by_table(one) for one in (name, table))
        assert (bad.is_ok, bad.error_code, good.is_ok) == (False, "OTSNoPermissionAccess", True)
        assert get(client, name, primary_key, max_version=1) == before


@pytest.mark.parametrize("settings", ["", "[search]\nmessages = true\n"])
def test_they_take_no_search_index_and_show_none_of_the_servers_own(tmp_path, settings):
    server = Server(tmp_path, config=settings).start()
    try:
        client = connect(server)
        for table, own in ((MESSAGES, "$messages"), (METAS, "$timelines")):
            made = SearchIndexMeta([FieldSchema("text", FieldType.TEXT)])
            with refused("OTSNoPermissionAccess", "The table shows timelines and can only be read."):
                client.create_search_index(table, "words", made)
            with refused("OTSNoPermissionAccess", "The table shows timelines and can only be read."):
                client.delete_search_index(table, "words")
            calls = [client.describe_search_index, client.compute_splits, lambda *of: client.search(*of, SearchQuery(MatchAllQuery()))]
            for call in calls:
                with refused("OTSMetaNotMatch", "search index [words] does not exist"):
                    call(table, "words")
            for call in [lambda *of: client.create_search_index(*of, made), client.delete_search_index, *calls]:
                with refused("OTSParameterInvalid", f"Invalid table name: '{own}'."):
                    call(table, own)
            assert client.list_search_index(table) == []
        assert client.list_search_index() == []
    finally:
        server.kill()
