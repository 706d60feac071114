"""Tables: making, describing, listing, changing, deleting them, and everything that they may not be."""

import pytest
from tablestore import (
    PK_AUTO_INCR, CapacityUnit, ReservedThroughput, Row, SSEKeyType, SSESpecification, TableMeta,
    TableOptions,
)

from sdk import (
    EXIST, STRING_KEY, call, connect, field, get, invalid, key, now_ms, put, refused, scan, update,
    users_tables, values,
)

NOTHING_RESERVED = ReservedThroughput(CapacityUnit(0, 0))
EVERY_TYPE = [("a", "INTEGER"), ("b", "DOUBLE"), ("c", "BOOLEAN"), ("d", "STRING"), ("e", "BINARY")]


def create(client, name="refused", schema=STRING_KEY, defined=None, options=None, throughput=NOTHING_RESERVED):
    client.create_table(TableMeta(name, list(schema), defined), options or TableOptions(), throughput)


def test_a_table_is_described_as_it_was_made(client, make_table):
    schema = [("k1", "STRING"), ("k2", "INTEGER", PK_AUTO_INCR), ("k3", "BINARY"), ("k4", "INTEGER")]
    before = now_ms() // 1000
    name = make_table(
        schema, EVERY_TYPE, (3, 4), time_to_live=86400, max_version=3, max_time_deviation=1000, allow_update=False
    )
    told = client.describe_table(name)
    assert told.table_meta.table_name == name
    assert told.table_meta.schema_of_primary_key == schema
    assert told.table_meta.defined_columns == EVERY_TYPE
    options = told.table_options
    assert (options.time_to_live, options.max_version, options.max_time_deviation) == (86400, 3, 1000)
    assert options.allow_update is False
    reserved = told.reserved_throughput_details
    assert (reserved.capacity_unit.read, reserved.capacity_unit.write) == (3, 4)
    assert abs(reserved.last_increase_time - before) < 600
    assert not reserved.last_decrease_time
    assert told.secondary_indexes == []
    assert name in client.list_table()


def test_options_have_the_documented_defaults(client, table):
    options = client.describe_table(table).table_options
    assert (options.time_to_live, options.max_version, options.max_time_deviation) == (-1, 1, 86400)
    assert options.allow_update is True


def test_a_deleted_table_is_gone_and_its_name_is_free(client, make_table):
    name = make_table()
    put(client, name, "a", [("c", 1)])
    client.delete_table(name)
    assert name not in client.list_table()
    missing = "Requested table does not exist."
    for attempt in [
        lambda: client.describe_table(name),
        lambda: client.delete_table(name),
        lambda: client.update_table(name, TableOptions(-1, 2, 86400)),
        lambda: get(client, name, "a"),
        lambda: put(client, name, "a"),
        lambda: update(client, name, "a", PUT=[("c", 1)]),
        lambda: client.delete_row(name, Row(key("a")), EXIST),
        lambda: scan(client, name),
        lambda: call(client, "AddDefinedColumn", field(1, name) + field(2, field(1, "c") + field(2, 1))),
        lambda: call(client, "DeleteDefinedColumn", field(1, name) + field(2, "c")),
    ]:
        with refused("OTSObjectNotExist", missing):
            attempt()
    create(client, name)
    assert get(client, name, "a") is None


def test_a_name_is_given_once(client, table):
    with refused("OTSObjectAlreadyExist", "Requested table already exists."):
        create(client, table, [("other", "INTEGER")])
    assert client.describe_table(table).table_meta.schema_of_primary_key == STRING_KEY


@pytest.mark.parametrize("name", ["", "9a", "a-b", "a b", "ä", "#a", "a.b", "x" * 256])
def test_tables_may_not_be_called(client, name):
    text = f"Invalid table name: '{name}'."
    for attempt in [
        lambda: create(client, name),
        lambda: client.describe_table(name),
        lambda: client.delete_table(name),
        lambda: client.update_table(name, TableOptions(-1, 2, 86400)),
        lambda: get(client, name, "a"),
        lambda: put(client, name, "a"),
        lambda: scan(client, name),
    ]:
        with invalid(text):
            attempt()


def test_names_differ_by_case_and_may_be_long(client):
    names = ["_", "Case", "case", "y" * 255]
    for name in names:
        create(client, name)
    listed = client.list_table()
    for name in names:
        assert listed.count(name) == 1
        client.delete_table(name)


def test_options_that_no_table_has(client):
    for options, text in [
        (TableOptions(None, 1), "Time-to-live is missing while creating table."),
        (TableOptions(-1, None), "MaxVersions is missing while creating table."),
        (TableOptions(0, 1), "TimeToLive cannot be 0 or less than -1."),
        (TableOptions(-2, 1), "TimeToLive cannot be 0 or less than -1."),
        (TableOptions(-1, 0), "The maximum versions cannot be less than or equal to 0."),
        (TableOptions(-1, -1), "The maximum versions cannot be less than or equal to 0."),
        (TableOptions(-1, 1, -1), "The maximum deviation must be in range [0, INT64_MAX/1000000]."),
        (TableOptions(-1, 1, 2**63 // 1_000_000 + 1), "The maximum deviation must be in range [0, INT64_MAX/1000000]."),
    ]:
        with invalid(text):
            create(client, options=options)
    assert "refused" not in client.list_table()


def test_keys_that_no_table_has(client):
    text = "STRING"
    for schema, message in [
        ([], "The number of primary key columns must be in range: [1, 4]."),
        ([(f"k{n}", text) for n in range(5)], "The number of primary key columns must be in range: [1, 4]."),
        ([("k", text), ("k", "INTEGER")], "Duplicated primary key name: 'k'."),
        ([("", text)], "Invalid column name: ''."),
        ([("#k", text)], "Invalid column name: '#k'."),
        ([("x" * 256, text)], f"Invalid column name: '{'x' * 256}'."),
        ([("k", text), ("n", text, PK_AUTO_INCR)], "AUTO_INCREMENT primary key must be integer."),
        (
            [("k", text), ("n", "INTEGER", PK_AUTO_INCR), ("m", "INTEGER", PK_AUTO_INCR)],
            "AUTO_INCREMENT primary key count must <= 1.",
        ),
        ([("n", "INTEGER", PK_AUTO_INCR)], "First primary key can't be auto increment, table: refused."),
        ([("k", "BOOLEAN")], None),
    ]:
        with invalid(message):
            create(client, schema=schema)
    assert "refused" not in client.list_table()


def test_defined_columns_that_no_table_has(client):
    with invalid("The number of defined columns must be in range: [0, 32]."):
        create(client, defined=[(f"c{n}", "STRING") for n in range(33)])
    with invalid("Duplicated attribute column name with primary key column: k."):
        create(client, defined=[("k", "STRING")])
    with invalid("Invalid column name: '#c'."):
        create(client, defined=[("#c", "STRING")])
    with invalid():
        create(client, defined=[("c", "STRING"), ("c", "INTEGER")])
    assert "refused" not in client.list_table()


def test_32_defined_columns_are_kept(client, make_table):
    defined = [(f"c{n}", "STRING") for n in range(32)]
    assert client.describe_table(make_table(defined=defined)).table_meta.defined_columns == defined


def test_throughput_is_kept_and_returned(client, make_table):
    name = make_table(throughput=(0, 0))
    answer = client.update_table(name, reserved_throughput=ReservedThroughput(CapacityUnit(5, None)))
    reserved = answer.reserved_throughput_details.capacity_unit
    assert (reserved.read, reserved.write) == (5, 0)
    client.update_table(name, reserved_throughput=ReservedThroughput(CapacityUnit(2, 7)))
    told = client.describe_table(name).reserved_throughput_details
    assert (told.capacity_unit.read, told.capacity_unit.write) == (2, 7)
    assert told.last_decrease_time
    text = "Invalid Capacity Unit:-1 . Capacity Unit must be nonnegative."
    with invalid(text):
        create(client, throughput=ReservedThroughput(CapacityUnit(-1, 0)))
    with invalid(text):
        client.update_table(name, reserved_throughput=ReservedThroughput(CapacityUnit(0, -1)))


def test_an_update_changes_what_it_names_and_answers_with_all(client, make_table):
    name = make_table(time_to_live=-1, max_version=2, max_time_deviation=500)
    for change, expected in [
        (TableOptions(90000, None, None), (90000, 2, 500, True)),
        (TableOptions(None, 5, None), (90000, 5, 500, True)),
        (TableOptions(None, None, 7), (90000, 5, 7, True)),
        (TableOptions(None, None, None, False), (90000, 5, 7, False)),
        (TableOptions(-1, 1, 86400, True), (-1, 1, 86400, True)),
    ]:
        for options in [client.update_table(name, change).table_options, client.describe_table(name).table_options]:
            told = (options.time_to_live, options.max_version, options.max_time_deviation, options.allow_update)
            assert told == expected


def test_updates_that_no_table_takes(client, table):
    for options, text in [
        (None, "No parameter is specified in table options."),
        (TableOptions(None, None, None), "No parameter is specified in table options."),
        (TableOptions(0, None, None), "TimeToLive cannot be 0 or less than -1."),
        (TableOptions(None, 0, None), "The maximum versions cannot be less than or equal to 0."),
        (TableOptions(None, None, -1), "The maximum deviation must be in range [0, INT64_MAX/1000000]."),
    ]:
        with invalid(text):
            client.update_table(table, options)
    # The SDK has no `update_full_row`; others send it, and it can be chosen only when a table is made.
    with invalid() as caught:
        call(client, "UpdateTable", field(1, table) + field(3, field(7, 1)))
    assert "contain updateFullRow" in caught.value.message
    del client.protocol.encoder.api_encode_map["UpdateTable"]


def test_what_is_not_there_yet_is_refused_and_not_left_out(client):
    with invalid("Server side encryption is not supported."):
        client.create_table(
            TableMeta("refused", STRING_KEY), TableOptions(), NOTHING_RESERVED,
            sse_spec=SSESpecification(True, SSEKeyType.SSE_KMS_SERVICE),
        )
    assert "refused" not in client.list_table()
    # Splits only say how the original is to spread a table over its machines.
    meta = TableMeta("split", [("n", "INTEGER")])
    client._create_table_ex(meta, TableOptions(), NOTHING_RESERVED, split_points=[100, 200])
    client.delete_table("split")


def test_no_table_has_a_search_index_by_itself(client, table):
    assert client.list_search_index() == []
    assert client.list_search_index(table) == []
    with invalid("table [nowhere] does not exist"):
        client.list_search_index("nowhere")


def test_a_table_without_updates_takes_none(client, make_table):
    name = make_table(allow_update=False)
    put(client, name, "a", [("c", 1)])
    with invalid():
        update(client, name, "a", PUT=[("c", 2)])
    assert values(client, name, "a") == [("c", 1)]


def test_defined_columns_are_added_and_deleted(client, make_table):
    name = make_table(defined=[("a", "INTEGER")])
    put(client, name, "row", [("b", "text")])

    def add(column, kind):
        call(client, "AddDefinedColumn", field(1, name) + field(2, field(1, column) + field(2, kind)))

    def delete(*columns):
        call(client, "DeleteDefinedColumn", field(1, name) + b"".join(field(2, column) for column in columns))

    def defined():
        return client.describe_table(name).table_meta.defined_columns

    for column, kind in [("b", 4), ("c", 2), ("d", 3), ("e", 7)]:
        add(column, kind)
    every = [("a", "INTEGER"), ("b", "STRING"), ("c", "DOUBLE"), ("d", "BOOLEAN"), ("e", "BINARY")]
    assert defined() == every
    delete("a", "d")
    assert defined() == [every[1], every[2], every[4]]
    # The columns' data is nobody's business here.
    assert values(client, name, "row") == [("b", "text")]
    with invalid("Duplicated defined column name: 'b'."):
        add("b", 4)
    with invalid("Column does not exist:nowhere."):
        delete("nowhere")
    with invalid("Invalid column name: '#c'."):
        add("#c", 4)
    with invalid("The number of defined columns must be in range: [0, 32]."):
        more = b"".join(field(2, field(1, f"more{n}") + field(2, 1)) for n in range(30))
        call(client, "AddDefinedColumn", field(1, name) + more)
    assert defined() == [every[1], every[2], every[4]]


def test_an_instance_has_64_tables(own_server):
    client = connect(own_server.start())
    for number in range(64):
        create(client, f"t{number}")
    for _ in range(2):
        with refused("OTSQuotaExhausted", "Number of tables exceeds the quota:64."):
            create(client, "one_more")
    assert users_tables(client) == sorted(f"t{number}" for number in range(64))
    client.delete_table("t7")
    create(client, "one_more")
    assert "one_more" in client.list_table()
