"""Tables as JSON: table.* and row.* of the native protocol, over the same rows as the official SDK has."""

import base64
import random
import time

import pytest
from tablestore import ComparatorType, Row, SecondaryIndexMeta, SecondaryIndexType, SingleColumnCondition

from client import Client, Refused
from sdk import IGNORE, connect, get, key, put, scan
from test_access import Guarded, rpc

TWO = [("p", "STRING"), ("n", "INTEGER")]


@pytest.fixture
def native(server):
    with Client(server) as connected:
        yield connected


@pytest.fixture
def refused():
    def check(call, reason, field=None, **params):
        with pytest.raises(Refused) as caught:
            call(**params)
        error = caught.value
        assert (error.reason, error.data.get("field")) == (reason, field), error
        return error

    return check


def of(native, method):
    return lambda **params: native.call(method, **params)


def plain(rows):
    return [(list(row["key"].values()), {one["name"]: one["value"] for one in row["columns"]}) for row in rows]


def binary(data):
    return {"$binary": base64.b64encode(data).decode()}


def test_a_table_is_described(client, native, make_table, refused):
    index = SecondaryIndexMeta("by_i", ["i"], ["s"], SecondaryIndexType.GLOBAL_INDEX)
    name = make_table(TWO, [("i", "INTEGER"), ("s", "STRING")], indexes=[index], max_version=1)
    listed = {one["name"]: one for one in native.call("table.list")["tables"]}
    assert listed[name] == {"name": name, "is_virtual": False}
    assert listed["by_i"] == {"name": "by_i", "index_of": name, "is_virtual": False}
    assert listed["timeline_meta"]["is_virtual"] and list(listed) == sorted(listed)
    told = native.call("table.get", table=name)
    assert told["key"] == [{"name": "p", "type": "string", "auto_increment": False}, {"name": "n", "type": "integer", "auto_increment": False}]
    assert told["columns"] == [{"name": "i", "type": "integer"}, {"name": "s", "type": "string"}]
    assert told["options"] == {"versions": 1, "version_offset_s": 86400, "allow_update": True}
    assert told["indexes"] == [{"name": "by_i", "kind": "global", "state": "complete", "key": ["i"], "columns": ["s"]}]
    assert abs(told["created_at"] - time.time() * 1000) < 60_000 and "stream" not in told and "index_of" not in told
    of_index = native.call("table.get", table="by_i")
    assert of_index["index_of"] == name and [one["name"] for one in of_index["key"]] == ["i", "p", "n"]
    shown = native.call("table.get", table="timeline_message")
    assert shown["is_virtual"] and "created_at" not in shown and [one["name"] for one in shown["key"]] == ["timeline_id", "sequence_id"]
    refused(of(native, "table.get"), "table_not_found", "table", table="none")
    refused(of(native, "table.get"), "invalid_params", "table", table="no-word")
    refused(of(native, "table.get"), "invalid_params", "table", table="")


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
def test_values_come_back_as_they_went(server, client, make_table, packed):
    table = make_table([("k", "BINARY"), ("n", "INTEGER")], max_version=1)
    with Client(server, packed=packed) as native:
        native.call("session.open", integers="text")
        wrap = (lambda data: data) if packed else binary
        key = {"k": wrap(b"\0\xff"), "n": {"$integer": str(-(1 << 63))}}
        columns = {"i": {"$integer": str((1 << 63) - 1)}, "small": -3, "d": 1.0, "s": "ä\0\u202e", "t": True, "b": wrap(b"\x00\x01"), "__x": 1, "$y": "z"}
        assert native.call("row.put", table=table, key=key, columns=columns) == {"key": key}
        row = native.call("row.get", table=table, key=key)["row"]
        assert row["key"] == key and {one["name"]: one["value"] for one in row["columns"]} == columns
        assert [one["name"] for one in row["columns"]] == sorted(columns)
        assert all(abs(one["version"] - time.time() * 1000) < 60_000 for one in row["columns"])
        assert isinstance(next(one for one in row["columns"] if one["name"] == "d")["value"], float)
        has = {"column": "b", "op": "=", "value": wrap(b"\x00\x01")}
        lacks = {"not": {"any": [has, {"all": [has, has]}]}}
        for filter, count in [(has, 1), (lacks, 0)]:
            page = native.call("row.range", table=table, within={"k": wrap(b"\0\xff")}, filter=filter)
            assert [row["key"] for row in page["rows"]] == [key] * count
    # The SDK sees the same row.
    found = get(client, table, [("k", bytearray(b"\0\xff")), ("n", -(1 << 63))])
    assert {name: value for name, value, _ in found} == {
        "i": (1 << 63) - 1, "small": -3, "d": 1.0, "s": "ä\0\u202e", "t": True, "b": bytearray(b"\x00\x01"), "__x": 1, "$y": "z"
    }


def test_a_put_replaces_and_may_expect(native, table, refused):
    put = of(native, "row.put")
    at = {"table": table, "key": {"k": "a"}}
    refused(put, "condition_failed", **at, columns={"a": 1}, expect="exist")
    put(**at, columns={"a": 1, "b": 2}, expect="absent")
    refused(put, "condition_failed", **at, columns={"a": 1}, expect="absent")
    put(**at, columns={"b": 3}, expect="exist")
    row = native.call("row.get", **at)["row"]
    assert plain([row]) == [(["a"], {"b": 3})]
    put(**at, columns={})
    assert native.call("row.get", **at)["row"]["columns"] == []
    assert native.call("row.get", table=table, key={"k": "none"}) == {}


def test_the_server_numbers_rows(native, make_table, refused):
    from tablestore import PK_AUTO_INCR

    table = make_table([("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)])
    put = of(native, "row.put")
    numbers = [put(table=table, key={"p": "a"}, columns={"at": at})["key"]["n"] for at in range(3)]
    assert numbers == sorted(set(numbers))
    assert [row["key"]["n"] for row in native.call("row.range", table=table)["rows"]] == numbers
    refused(put, "invalid_params", "expect", table=table, key={"p": "a"}, columns={}, expect="absent")
    refused(of(native, "row.get"), "invalid_params", "key.n", table=table, key={"p": "a"})


def pages(native, **params):
    rows, start = [], {}
    while True:
        page = native.call("row.range", **params, **start)
        rows += page["rows"]
        if "next" not in page:
            return rows
        start = {"from": page["next"]}


def test_ranges(client, native, make_table):
    table = make_table(TWO)
    for p in "abc":
        for n in range(4):
            client.put_row(table, Row([("p", p), ("n", n)], [("v", n), ("w", p)]), IGNORE)
    keys = lambda rows: [f"{row['key']['p']}{row['key']['n']}" for row in rows]
    ask = lambda **params: keys(pages(native, table=table, limit=3, **params))
    everything = [f"{p}{n}" for p in "abc" for n in range(4)]
    assert ask() == everything and ask(backward=True) == everything[::-1]
    assert ask(within={"p": "b"}) == ["b0", "b1", "b2", "b3"] == ask(within={"p": "b"}, backward=True)[::-1]
    once = lambda **params: keys(native.call("row.range", table=table, **params)["rows"])
    assert once(**{"from": {"p": "b"}}) == everything[4:] and once(to={"p": "b"}) == everything[:4]
    assert once(**{"from": {"p": "b"}}, backward=True) == everything[:8][::-1]
    assert once(to={"p": "b"}, backward=True) == everything[8:][::-1]
    assert once(**{"from": {"p": "a", "n": 2}}, to={"p": "b", "n": 1}) == ["a2", "a3", "b0"]
    assert once(within={"p": "c"}, **{"from": {"p": "c", "n": 3}}) == ["c3"]
    assert once(columns=["none"]) == everything and native.call("row.range", table=table, columns=["v"], limit=1)["rows"][0]["columns"][0]["name"] == "v"


def test_filters_mean_what_the_sdks_do(client, native, make_table):
    table = make_table(TWO)
    some = random.Random(7)
    for n in range(40):
        columns = [(name, some.choice([1, 2, 3, 1.5, "x", True])) for name in "abc" if some.random() < 0.7]
        client.put_row(table, Row([("p", "a"), ("n", n)], columns), IGNORE)
    numbers = lambda filter, **params: [row["key"]["n"] for row in pages(native, table=table, limit=7, filter=filter, **params)]
    kinds = [("=", ComparatorType.EQUAL), ("!=", ComparatorType.NOT_EQUAL), (">", ComparatorType.GREATER_THAN)]
    kinds += [(">=", ComparatorType.GREATER_EQUAL), ("<", ComparatorType.LESS_THAN), ("<=", ComparatorType.LESS_EQUAL)]
    for op, kind in kinds:
        for if_missing in [False, True]:
            theirs = SingleColumnCondition("a", 2, kind, pass_if_missing=if_missing, latest_version_only=True)
            expected = [n for _, n in scan(client, table, ("p", "n"), max_version=1, column_filter=theirs)]
            one = {"column": "a", "op": op, "value": 2, "if_missing": if_missing}
            assert numbers(one) == expected == numbers(one, columns=["c"]) == numbers({"not": {"not": one}})
    one, other = {"column": "a", "op": "=", "value": 1}, {"column": "b", "op": "=", "value": "x"}
    a, b = set(numbers(one)), set(numbers(other))
    assert a and b and set(numbers({"all": [one, other]})) == a & b and set(numbers({"any": [one, other]})) == a | b
    assert set(numbers({"not": one})) == set(range(40)) - a
    # Of a key, and what is not selected is not shown.
    assert numbers({"column": "n", "op": "<", "value": 3}) == [0, 1, 2]
    page = native.call("row.range", table=table, columns=["c"], filter=one)
    assert {one["name"] for row in page["rows"] for one in row["columns"]} <= {"c"}


def test_versions(native, make_table, refused):
    table = make_table(max_version=3)
    for value in range(4):
        native.call("row.put", table=table, key={"k": "a"}, columns={"v": value})
        time.sleep(0.005)
    values = lambda **params: [one["value"] for one in native.call("row.get", table=table, key={"k": "a"}, **params)["row"]["columns"]]
    assert values() == [3] and values(versions=9)[0] == 3
    refused(of(native, "row.get"), "invalid_params", "versions", table=table, key={"k": "a"}, versions=0)


def test_what_is_too_large_for_an_answer_is_cut(client, native, table):
    """No page passes the limit of a frame, and nothing is lost for it."""
    big = "x" * 300_000
    for row in "abcdefgh":
        put(client, table, row, [(f"c{at}", big) for at in range(2)])
    rows = pages(native, table=table)
    assert [row["key"]["k"] for row in rows] == list("abcdefgh") and not any("cut" in row for row in rows)
    assert all(len(row["columns"]) == 2 for row in rows)
    put(client, table, "wide", [(f"c{at}", big) for at in range(6)])
    row = native.call("row.get", table=table, key={"k": "wide"})["row"]
    assert row["cut"] is True and 1 <= len(row["columns"]) < 6
    row = native.call("row.get", table=table, key={"k": "wide"}, columns=["c5"])["row"]
    assert [one["name"] for one in row["columns"]] == ["c5"] and "cut" not in row
    put(client, table, "huge", [("c", bytearray(1_500_000))])
    assert len(native.call("row.get", table=table, key={"k": "huge"})["row"]["columns"][0]["value"]["$binary"]) == 2_000_000


def test_timelines_as_tables(native):
    native.call("message.append", timeline="json/1", entry={"text": "hi", "deep": {"a": [1]}})
    row = native.call("row.get", table="timeline_message", key={"timeline_id": "json/1", "sequence_id": 1})["row"]
    columns = {one["name"]: one["value"] for one in row["columns"]}
    assert columns["text"] == "hi" and columns["deep"] == {"a": [1]} and columns["__timestamp"] > 0
    page = native.call("row.range", table="timeline_meta", **{"from": {"timeline_id": "json/"}}, to={"timeline_id": "json0"})
    assert [row["key"] for row in page["rows"]] == [{"timeline_id": "json/1"}]
    native.call("message.append", timeline="json/1", entry={"text": "ho"})
    page = native.call("row.range", table="timeline_message", within={"timeline_id": "json/1"}, backward=True, columns=["text"])
    assert plain(page["rows"]) == [(["json/1", 2], {"text": "ho"}), (["json/1", 1], {"text": "hi"})]


def test_what_is_wrong_is_refused(native, make_table, refused):
    table = make_table(TWO, [("i", "INTEGER")], indexes=[SecondaryIndexMeta("wrong_by_i", ["i"], [], SecondaryIndexType.GLOBAL_INDEX)])
    at = {"p": "a", "n": 1}
    get, scan, write = (of(native, f"row.{name}") for name in ["get", "range", "put"])
    for call in [get, scan, write]:
        given = {} if call is scan else {"key": at}
        columns = {"columns": {}} if call is write else {}
        refused(call, "table_not_found", "table", table="none", **given, **columns)
        refused(call, "invalid_params", "table", table="9", **given, **columns)
    for key, field in [
        ({"p": "a"}, "key.n"),
        ({"p": "a", "n": 1, "x": 1}, "key.x"),
        ({"p": 1, "n": 1}, "key.p"),
        ({"p": "a", "n": "1"}, "key.n"),
        ({"p": "a", "n": 1.0}, "key.n"),
        ({"p": {"a": 1}, "n": 1}, "key.p"),
        ({"p": "a", "n": None}, "key.n"),
        ({str(n): 1 for n in range(9)}, "key"),
    ]:
        refused(get, "invalid_params", field, table=table, key=key)
        refused(write, "invalid_params", field, table=table, key=key, columns={})
    error = refused(get, "too_large", "key.p", table=table, key={"p": "x" * 1025, "n": 1})
    assert (error.data["limit"], error.data["actual"]) == (1024, 1025)
    for columns, field in [({"#a": 1}, "columns.#a"), ({"": 1}, "columns."), ({"a": [1]}, "columns.a"), ({"p": 1}, "columns.p")]:
        refused(write, "invalid_params", field, table=table, key=at, columns=columns)
    error = refused(write, "invalid_params", "columns", table=table, key=at, columns={str(n): 1 for n in range(1025)})
    assert (error.data["limit"], error.data["actual"]) == (1024, 1025)
    refused(write, "too_large", "columns.a", table=table, key=at, columns={"a": "x" * ((2 << 20) + 1)})
    refused(write, "invalid_params", "expect", table=table, key=at, columns={}, expect="ignore")
    refused(write, "forbidden", "table", table="wrong_by_i", key={"i": 1, **at}, columns={})
    refused(write, "forbidden", "table", table="timeline_meta", key={"timeline_id": "x"}, columns={})
    compare = {"column": "a", "op": "=", "value": 1}
    deep = compare
    for _ in range(8):
        deep = {"not": deep}
    for params, field in [
        ({"limit": 0}, "limit"),
        ({"versions": 0}, "versions"),
        ({"columns": ["a", "#"]}, "columns[1]"),
        ({"from": {"n": 1}}, "from.p"),
        ({"to": {"x": 1}}, "to.x"),
        ({"within": {"p": 1}}, "within.p"),
        ({"within": at}, "within"),
        ({"within": {"p": "b"}, "from": {"p": "a"}}, "from"),
        ({"within": {"p": "b"}, "to": {"p": "c"}}, "to"),
        ({"within": {"x": 1}, "from": at, "to": at}, "within.x"),
        ({"from": {"p": "b"}, "to": {"p": "a"}}, "from"),
        ({"backward": True, "from": {"p": "a"}, "to": {"p": "b"}}, "from"),
        ({"filter": {}}, "filter"),
        ({"filter": {"column": "a"}}, "filter.op"),
        ({"filter": {"column": "a", "op": "="}}, "filter.value"),
        ({"filter": {"op": "=", "value": 1}}, "filter.column"),
        ({"filter": {"column": "a", "op": "~", "value": 1}}, "filter.op"),
        ({"filter": {**compare, "value": [1]}}, "filter.value"),
        ({"filter": {**compare, "column": "#"}}, "filter.column"),
        ({"filter": {**compare, "not": compare}}, "filter"),
        ({"filter": {"all": [compare]}}, "filter.all"),
        ({"filter": {"any": [compare, {"all": [compare, {}]}]}}, "filter.any[1].all[1]"),
        ({"filter": {"any": [compare] * 32}}, "filter"),
        ({"filter": [compare]}, "filter"),
    ]:
        refused(scan, "invalid_params", field, table=table, **params)
    assert native.call("row.range", table=table, filter=deep) == {"rows": []}


def test_rights_are_those_of_tables(tmp_path):
    server = Guarded(tmp_path)
    server.start()
    try:
        admin = server.client("admin")
        from tablestore import CapacityUnit, ReservedThroughput, TableMeta, TableOptions

        index = SecondaryIndexMeta("shop_by_i", ["i"], [], SecondaryIndexType.GLOBAL_INDEX)
        for name, indexes in [("shop_a", []), ("mine_a", [index])]:
            meta = TableMeta(name, [("k", "STRING")], [("i", "INTEGER")])
            admin.create_table(meta, TableOptions(max_version=1), ReservedThroughput(CapacityUnit(0, 0)), indexes)
        call = lambda by, method, **params: said(server, by, method, **params)
        key = {"key": {"k": "a"}}
        for by, table, got, ranged, written, told in [
            ("admin", "shop_a", "ok", "ok", "ok", "ok"),
            ("reader", "shop_a", "ok", "ok", "forbidden", "ok"),
            ("writer", "shop_a", "forbidden", "forbidden", "ok", "ok"),
            ("both", "shop_a", "ok", "ok", "ok", "ok"),
            ("maker", "shop_a", "forbidden", "forbidden", "forbidden", "ok"),
            ("both", "mine_a", "forbidden", "forbidden", "forbidden", "forbidden"),
            # Whether it is there or not.
            ("both", "mine_none", "forbidden", "forbidden", "forbidden", "forbidden"),
            ("both", "shop_none", "table_not_found", "table_not_found", "table_not_found", "table_not_found"),
            ("blind", "shop_a", "forbidden", "forbidden", "forbidden", "forbidden"),
        ]:
            assert call(by, "row.get", table=table, **key) == got, (by, table)
            assert call(by, "row.range", table=table) == ranged, (by, table)
            assert call(by, "row.put", table=table, columns={"a": 1}, **key) == written, (by, table)
            assert call(by, "table.get", table=table) == told, (by, table)
        names = lambda by: [one["name"] for one in rpc(server, "table.list", by)["tables"]]
        assert "mine_a" in names("admin") and names("both") == ["shop_a", "shop_by_i"] and names("blind") == []
        # Whose rows an index has is not for those who have no right there.
        of_index = lambda by: [one.get("index_of") for one in rpc(server, "table.list", by)["tables"] if one["name"] == "shop_by_i"]
        assert of_index("admin") == ["mine_a"] and of_index("both") == [None]
        assert rpc(server, "table.get", "admin", table="shop_by_i")["index_of"] == "mine_a"
        assert "index_of" not in rpc(server, "table.get", "both", table="shop_by_i")
        # Nor is an index named to those who have no right to it.
        hidden = SecondaryIndexMeta("mine_by_i", ["i"], [], SecondaryIndexType.GLOBAL_INDEX)
        admin.create_secondary_index("shop_a", hidden, False)
        indexes = lambda by, table: [one["name"] for one in rpc(server, "table.get", by, table=table)["indexes"]]
        assert indexes("admin", "shop_a") == ["mine_by_i"] and indexes("both", "shop_a") == []
        assert indexes("admin", "mine_a") == ["shop_by_i"]
        # Of timelines what may be read by name.
        for name in ["open/1", "closed/1"]:
            rpc(server, "message.append", timeline=name, entry={"a": 1})
        metas = lambda by: [row["key"]["timeline_id"] for row in rpc(server, "row.range", by, table="timeline_meta")["rows"]]
        assert metas("admin") == ["closed/1", "open/1"] and metas("rooms") == ["open/1"]
        hidden = rpc(server, "row.get", "rooms", table="timeline_meta", key={"timeline_id": "closed/1"})
        assert hidden == rpc(server, "row.get", "rooms", table="timeline_meta", key={"timeline_id": "closed/none"}) == {}
    finally:
        server.kill()


def said(server, by, method, **params):
    with Client(server, additional_headers={"authorization": f"Bearer {server.made[by]}"}) as client:
        try:
            client.call(method, **params)
        except Refused as refused:
            return refused.reason
        return "ok"
