"""SQL with the SDK: how answers are encoded, what was used, what is refused and with which code, and who may do what.

Statements against a model are in tests/python/test_sql.py, the SDKs' own tests in test_official.py.
"""

import json
import os
import struct
import time

import pytest
from tablestore import FieldSchema, FieldType, Row, SearchIndexMeta, SyncPhase
from tablestore.protobuf import table_store_pb2 as pb

from sdk import IGNORE, call, field, invalid, refused, varint
from test_access import create, house, key, put  # noqa: F401, pytest finds the fixture here

TYPES = [("k", "STRING"), ("n", "INTEGER")]
LONG, BOOLEAN, DOUBLE, STRING, BINARY = 1, 2, 3, 4, 5
MAPPED = "k VARCHAR(1024), n BIGINT, i BIGINT, d DOUBLE, t BOOL, s MEDIUMTEXT, b MEDIUMBLOB"


def ask(client, statement):
    """The rows as lists of (name, value), and the names of the tables and indexes that were read."""
    rows, tables, indexes = client.exe_sql_query(statement)
    return [row.attribute_columns for row in rows], tables, indexes


def values(client, statement):
    return [[value for _, value in row] for row in ask(client, statement)[0]]


def query(statement, version=2, sql_version=None, token=None):
    body = field(1, statement) + (b"" if version is None else field(2, version))
    body += b"" if sql_version is None else field(3, sql_version)
    return body + (b"" if token is None else field(5, token))


def answered(client, statement, **options):
    message = pb.SQLQueryResponse()
    message.ParseFromString(call(client, "SQLQuery", query(statement, **options)))
    return message


@pytest.fixture
def raw(server):
    """A client whose SQLQuery is sent as bytes: `call` changes it."""
    from sdk import connect

    return connect(server)


class Buffer:
    """A FlatBuffer, read by its rules alone: a table's slots, vectors, texts."""

    def __init__(self, data, at=None):
        self.data = data
        self.at = self.u32(0) if at is None else at

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def slot(self, number):
        """Where a field of the table begins; None if it has none."""
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        size = struct.unpack_from("<H", self.data, vtable)[0]
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
        return self.at + offset if offset else None

    def number(self, number, kind):
        return struct.unpack_from("<" + kind, self.data, self.slot(number))[0]

    def below(self, number):
        at = self.slot(number)
        return Buffer(self.data, at + self.u32(at))

    def vector(self, number, kind):
        at = self.slot(number)
        if at is None:
            return None
        at += self.u32(at)
        count = self.u32(at)
        if kind != "table":
            assert (at + 4) % struct.calcsize(kind) == 0 or kind in "b?", "aligned"
            return list(struct.unpack_from(f"<{count}{kind}", self.data, at + 4))
        return [Buffer(self.data, at + 4 + 4 * one + self.u32(at + 4 + 4 * one)) for one in range(count)]

    def text(self):
        return self.data[self.at + 4 : self.at + 4 + self.u32(self.at)].decode()


def columns_of(rows):
    """Name, type, what Java and Go read beside it, nulls, and which vectors are there with how many values."""
    root, found = Buffer(rows), []
    for column in root.vector(0, "table"):
        held, more = column.below(2), column.below(3)
        vectors = {slot: len(held.vector(slot, kind)) for slot, kind in enumerate("?q?d", 0) if held.vector(slot, kind) is not None}
        vectors |= {slot: len(held.vector(slot, "table")) for slot in (4, 5) if held.vector(slot, "table") is not None}
        found.append((column.below(0).text(), column.number(1, "b"), (more.number(0, "b"), more.number(1, "b")), held, vectors))
    return found, root.number(1, "q")


@pytest.fixture
def table(client, make_table):
    name = make_table(TYPES)
    client.exe_sql_query(f"CREATE TABLE {name} ({MAPPED}, PRIMARY KEY(k, n));")
    full = [("i", -5), ("d", 0.5), ("t", True), ("s", "ä"), ("b", bytearray(b"\0\x7f"))]
    client.put_row(name, Row([("k", "a"), ("n", 1)], full), IGNORE)
    client.put_row(name, Row([("k", "b"), ("n", -(1 << 63))], []), IGNORE)
    client.put_row(name, Row([("k", "c"), ("n", 3)], [("i", "a text"), ("s", 5)]), IGNORE)
    return name


def test_each_type_is_read_by_the_sdk(client, table):
    rows, tables, indexes = ask(client, f"select k, n, i, d, t, s, b from {table}")
    assert rows[0] == [("k", "a"), ("n", 1), ("i", -5), ("d", 0.5), ("t", True), ("s", "ä"), ("b", bytearray(b"\0\x7f"))]
    empty = [(name, None) for name in "idtsb"]
    assert rows[1:] == [[("k", "b"), ("n", -(1 << 63)), *empty], [("k", "c"), ("n", 3), *empty]]
    assert [(name, used.read > 0, used.write) for name, used in tables] == [(table, True, 0)] and indexes == []
    assert ask(client, f"select k from {table} where n = 17")[0] == []
    assert ask(client, f"select count(*) from {table}")[0] == [[("count(*)", 3)]]


def test_the_buffer_has_what_the_other_sdks_cannot_do_without(raw, table):
    answer = answered(raw, f"select k, n, d, t, b, s, k as again from {table}")
    assert (answer.type, answer.version) == (1, 2)
    columns, count = columns_of(answer.rows)
    assert count == 3
    assert [(name, kind) for name, kind, *_ in columns] == [("k", 4), ("n", 1), ("d", 3), ("t", 2), ("b", 5), ("s", 4), ("again", 4)]
    # The slot of the vector of each type.
    of_type = {LONG: 1, BOOLEAN: 2, DOUBLE: 3, STRING: 4, BINARY: 5}
    for name, kind, more, held, vectors in columns:
        assert more == (0, kind), name
        assert vectors == {0: 3, of_type[kind]: 3}, name
    assert columns[2][3].vector(0, "?") == [False, True, True]
    # None found: the columns are there all the same.
    columns, count = columns_of(answered(raw, f"select k, n from {table} where k = 'none'").rows)
    assert count == 0 and [(name, vectors) for name, *_, vectors in columns] == [("k", {0: 0, 4: 0}), ("n", {0: 0, 1: 0})]


def test_moments_are_columns_of_their_own_for_those_who_know_them(raw):
    statement = "select from_unixtime(86400.5) as m, date('2026-01-31') as d, timediff('01:00:00', '00:30:00') as t"
    columns, _ = columns_of(answered(raw, statement, sql_version=1).rows)
    assert [(name, kind, more) for name, kind, more, *_ in columns] == [("m", 7, (1, 1)), ("d", 7, (2, 1)), ("t", 7, (3, 1))]
    held = [held.vector(1, "q")[0] for *_, held, _ in columns]
    assert held == [86_400_500_000, 1_769_817_600, 1_800_000_000_000]
    columns, _ = columns_of(answered(raw, statement).rows)
    assert [(kind, more, held.vector(4, "table")[0].text()[:10]) for _, kind, more, held, _ in columns] == [
        (4, (0, 4), "1970-01-02"), (4, (0, 4), "2026-01-31"), (4, (0, 4), "00:30:00"[:10]),
    ]


def test_what_kind_of_statement_it_was(raw, make_table):
    name = make_table(TYPES)
    for statement, kind, has_rows in [
        (f"create table {name} ({MAPPED}, primary key(k, n))", 2, False),
        ("show tables", 3, True),
        (f"describe {name}", 4, True),
        (f"alter table {name} add x bigint", 6, False),
        (f"select * from {name}", 1, True),
        (f"drop mapping table {name}", 5, False),
    ]:
        answer = answered(raw, statement)
        assert (answer.type, bool(answer.rows), answer.version) == (kind, has_rows, 2), statement


def test_writes_say_how_many(client, table):
    assert ask(client, f"insert into {table} (k, n, s) values ('d', 1, 'x')")[0] == [[("affected_rows", 1)]]
    with refused("OTSConditionCheckFail"):
        client.exe_sql_query(f"insert into {table} (k, n, s) values ('d', 1, 'y')")
    _, tables, _ = ask(client, f"update {table} set s = 'z' where k = 'd' and n = 1")
    assert [(name, used.write > 0) for name, used in tables] == [(table, True)]
    assert values(client, f"select s from {table} where k = 'd'") == [["z"]]
    assert ask(client, f"delete from {table} where k = 'd' and n = 1")[0] == [[("affected_rows", 1)]]


def test_an_index_leads_to_rows(client, table):
    client.create_search_index(table, "by_s", SearchIndexMeta([FieldSchema("s", FieldType.KEYWORD), FieldSchema("i", FieldType.LONG)]))
    try:
        while client.describe_search_index(table, "by_s")[1].sync_phase != SyncPhase.INCR:
            time.sleep(0.02)
        rows, tables, indexes = ask(client, f"select k, s from {table} where s = 'ä'")
        assert rows == [[("k", "a"), ("s", "ä")]]
        # One of the two led to it, and was paid for.
        assert [name for name, _ in tables + indexes] == [table]
    finally:
        client.delete_search_index(table, "by_s")


def test_what_is_refused_and_with_which_code(client, raw, table):
    for statement in ["select", "nonsense", "select nothing from " + table, "select '", "", f"select * from {table} where ("]:
        with invalid():
            client.exe_sql_query(statement)
    with refused("OTSParameterInvalid") as caught:
        client.exe_sql_query("select * from nowhere")
    assert "table [nowhere] does not exist" in caught.value.message
    with refused("OTSParameterInvalid") as caught:
        client.exe_sql_query(f"select *\nfrom {table} where (i = 1")
    assert "line" in caught.value.message.lower()
    for options in [{"version": None}, {"version": 1}, {"version": 77}, {"token": "x"}]:
        with refused("OTSUnsupportOperation") as caught:
            answered(raw, "select 1", **options)
        assert caught.value.message.startswith("Operation not supported: ")
    for statement in ["grant all on x to y", f"truncate table {table}", "begin", "select nofunction(1)"]:
        with pytest.raises(Exception) as caught:
            client.exe_sql_query(statement)
        assert caught.value.code in ("OTSUnsupportOperation", "OTSParameterInvalid"), caught.value
    for body in [b"", b"\xff", field(2, 2), field(1, b"\xff\xfe") + field(2, 2), varint(1 << 3) + b"\0"]:
        with invalid():
            call(raw, "SQLQuery", body)
    with refused("OTSRequestBodyTooLarge"):
        client.exe_sql_query("select '" + "x" * (1 << 20) + "'")
    with refused("OTSParameterInvalid"):
        client.exe_sql_query("select " + "(" * 1_000 + "1" + ")" * 1_000)


def test_a_mapping_is_of_the_tables_own_key(client, make_table):
    name = make_table(TYPES)
    for columns in ["k VARCHAR(1024), PRIMARY KEY(k)", "k BIGINT, n BIGINT, PRIMARY KEY(k, n)", "n BIGINT, k VARCHAR(1024), PRIMARY KEY(n, k)"]:
        with invalid():
            client.exe_sql_query(f"create table {name} ({columns})")
    with refused("OTSParameterInvalid"):
        client.exe_sql_query(f"create table nowhere ({MAPPED}, primary key(k, n))")
    # Without a mapping, there is the key; and what is not there is dropped without harm.
    client.put_row(name, Row([("k", "a"), ("n", 1)], [("i", 1)]), IGNORE)
    assert values(client, f"select * from {name}") == [["a", 1]]
    client.exe_sql_query(f"drop mapping table {name}")


# Who may.

READ, WRITE, MANAGE = "select * from {}", "insert into {} (k, c) values ('w{}', 1)", "create table if not exists {} (k varchar(1024), c bigint, primary key(k))"


def test_rights_are_those_of_the_operations_that_do_the_same(house):
    admin = house.client("admin")
    create(admin, "shop_sql")
    put(admin, "shop_sql", "row", [("c", 1)])
    admin.exe_sql_query(MANAGE.format("shop_sql"))
    matrix = {
        "select c from {} where k = 'row'": {"admin", "reader", "both", "owner"},
        "select count(*) from {}": {"admin", "reader", "both", "owner"},
        "select * from {} a join {} b on a.k = b.k": {"admin", "reader", "both", "owner"},
        "describe {}": {"admin", "reader", "writer", "both", "maker", "owner"},
        "insert into {} (k, c) values ('{who}', 1)": {"admin", "writer", "both"},
        "delete from {} where k = '{who}'": {"admin", "writer", "both"},
        "alter table {} add x{who} bigint": {"admin", "maker", "owner"},
        "alter table {} drop x{who} bigint": {"admin", "maker", "owner"},
        "create table if not exists {} (k varchar(1024), primary key(k))": {"admin", "maker", "owner"},
    }
    try:
        for statement, allowed in matrix.items():
            for who in ["admin", "reader", "writer", "both", "maker", "owner", "blind"]:
                client = house.client(who)
                of = lambda table: statement.replace("{}", table).replace("{who}", who)
                if who in allowed:
                    client.exe_sql_query(of("shop_sql"))
                else:
                    with refused("OTSNoPermissionAccess"):
                        client.exe_sql_query(of("shop_sql"))
                if who == "admin":
                    continue
                said = set()
                for table in ["bank_a", "bank_none"]:
                    with refused("OTSNoPermissionAccess") as caught:
                        client.exe_sql_query(of(table))
                    said.add(caught.value.message)
                assert len(said) == 1, (who, statement, said)
        # Each table of a join counts, and each in a subquery.
        for statement in ["select * from shop_sql a join bank_a b on a.k = b.k", "select (select count(*) from bank_a) from shop_sql"]:
            with pytest.raises(Exception) as caught:
                house.client("reader").exe_sql_query(statement)
            assert caught.value.code in ("OTSNoPermissionAccess", "OTSUnsupportOperation"), caught.value
    finally:
        admin.delete_table("shop_sql")


def test_show_tables_leaves_out(house):
    shown = lambda who: {row[0] for row in values(house.client(who), "show tables")}
    assert shown("reader") == {"shop_a"} and shown("blind") == set()
    assert shown("admin") >= {"shop_a", "bank_a"}


def test_tables_of_timelines_show_what_may_be_read(house):
    rooms, admin = house.client("rooms"), house.client("admin")
    assert values(rooms, "select timeline_id from timeline_meta") == [["open/1"]]
    assert ["room/1"] in values(admin, "select timeline_id from timeline_meta")
    assert values(rooms, "select timeline_id, sequence_id from timeline_message") == [["open/1", 1]]
    assert values(rooms, "select count(*) from timeline_message") == [[1]]
    for name in ["room/1", "room/none"]:
        assert values(rooms, f"select * from timeline_message where timeline_id = '{name}' and sequence_id = 1") == []
        assert values(rooms, f"select m.timeline_id from timeline_meta m join timeline_message o on m.timeline_id = o.timeline_id where m.timeline_id = '{name}'") == []
    with refused("OTSNoPermissionAccess"):
        house.client("blind").exe_sql_query("select * from timeline_meta")
    with pytest.raises(Exception) as caught:
        admin.exe_sql_query("delete from timeline_meta where timeline_id = 'open/1'")
    assert caught.value.code in ("OTSNoPermissionAccess", "OTSUnsupportOperation", "OTSParameterInvalid"), caught.value


def test_rights_are_the_same_over_json(house):
    def asked(who, statement):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sql.query", "params": {"statement": statement}})
        headers = {"content-type": "application/json", "authorization": f"Bearer {house.made[who]}"}
        reply = json.loads(house.http("POST", "/v1/rpc", body, headers)[2])
        return reply["result"]["rows"] if "result" in reply else reply["error"]["data"]["reason"]

    assert asked("reader", "select c from shop_a where k = 'row'") != "forbidden"
    for who, statement in [
        ("reader", "select * from bank_a"), ("reader", "select * from bank_none"), ("writer", "select * from shop_a"), ("blind", "select * from shop_a"),
        ("reader", "insert into shop_a (k) values ('x')"), ("both", "create table shop_a (k varchar(1024), primary key(k))"),
    ]:
        assert asked(who, statement) == "forbidden", (who, statement)
    assert asked("rooms", "select timeline_id from timeline_meta") == [["open/1"]]


def test_who_changed_a_mapping_is_in_the_log(house):
    maker, reader = house.client("maker"), house.client("reader")
    maker.exe_sql_query("create table shop_a (k varchar(1024), primary key(k))")
    with refused("OTSNoPermissionAccess"):
        reader.exe_sql_query("drop mapping table shop_a")
    maker.exe_sql_query("drop mapping table shop_a")
    lines = [line for line in open(os.path.join(house.directory, "server.log")) if "audit" in line and "SQLQuery" in line]
    assert any("shop_a" in line and "$key/maker" in line and "ok" in line for line in lines), lines
    assert any("shop_a" in line and "$key/reader" in line and "OTSNoPermissionAccess" in line for line in lines), lines
