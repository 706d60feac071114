"""Single rows: values, keys, puts, updates, increments, deletes, conditions, what they use and what they may not be."""

import math

import pytest
from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, ComparatorType, Condition, ReturnType, Row, RowExistenceExpectation,
    SingleColumnCondition,
)

from sdk import EXIST, IGNORE, NOT_EXIST, connect, get, invalid, key, now_ms, put, refused, scan, update, values

FAILED = "Condition check failed."


def if_column(name, value, comparator=ComparatorType.EQUAL, **options):
    return Condition(RowExistenceExpectation.IGNORE, SingleColumnCondition(name, value, comparator, **options))


@pytest.mark.parametrize("native", [True, False])
def test_values_of_five_types_come_back_as_they_went(server, table, native):
    client = connect(server, enable_native=native)
    columns = [
        ("binary", bytearray(b"\x00\xff")),
        ("binary_empty", bytearray()),
        ("boolean_false", False),
        ("boolean_true", True),
        ("double_large", 1.7976931348623157e308),
        ("double_negative", -0.5),
        ("double_small", 5e-324),
        ("integer_max", 2**63 - 1),
        ("integer_min", -(2**63)),
        ("integer_zero", 0),
        ("string", "潮线 \n\0 🌊"),
        ("string_empty", ""),
    ]
    put(client, table, "a", columns)
    found = values(client, table, "a")
    assert found == columns
    assert [type(value) for _, value in found] == [type(value) for _, value in columns]
    client.put_row(table, Row(key("b"), [("zero", -0.0)]), IGNORE)
    assert math.copysign(1, values(client, table, "b")[0][1]) == -1


def test_columns_come_in_the_order_of_their_names(client, table):
    names = ["z", "a", "B", "a1", "_", "a-b", "0", "a b", "a\n", "~"]
    put(client, table, "a", [(name, 1) for name in names])
    assert [name for name, _ in values(client, table, "a")] == sorted(names)


def test_keys_of_all_types_and_the_empty_ones(client, make_table):
    name = make_table([("s", "STRING"), ("i", "INTEGER"), ("b", "BINARY")])
    keys = [
        [("s", text), ("i", number), ("b", bytearray(data))]
        for text in ["", "a", "a\0", "ab", "ä", "潮"]
        for number in [-(2**63), -1, 0, 1, 2**63 - 1]
        for data in [b"", b"\0", b"\0\xff", b"\xff"]
    ]
    for primary_key in keys:
        client.put_row(name, Row(primary_key, [("c", "x")]), NOT_EXIST)
    for primary_key in keys[::17]:
        assert values(client, name, primary_key) == [("c", "x")]
    expected = [[value for _, value in primary_key] for primary_key in keys]
    assert scan(client, name, "sib") == expected
    assert scan(client, name, "sib", "BACKWARD") == expected[::-1]


def test_a_put_replaces_the_whole_row(client, make_table):
    name = make_table(max_version=5)
    now = now_ms()
    put(client, name, "a", [("c", 1, now - 2), ("c", 2, now - 1), ("d", "x")])
    put(client, name, "a", [("e", True)])
    assert values(client, name, "a", max_version=5) == [("e", True)]


def test_a_row_without_columns_is_there(client, table):
    put(client, table, "a")
    assert get(client, table, "a") == []
    put(client, table, "b", [("c", 1)])
    put(client, table, "b")
    assert get(client, table, "b") == []
    assert scan(client, table) == [["a"], ["b"]]
    with refused("OTSConditionCheckFail", FAILED):
        put(client, table, "a", condition=NOT_EXIST)


def test_of_a_column_put_twice_at_one_time_the_last_counts(client, table):
    now = now_ms()
    put(client, table, "a", [("c", 1, now), ("c", 2, now)])
    assert get(client, table, "a") == [("c", 2, now)]


def test_an_update_changes_what_it_names(client, make_table):
    name = make_table(max_version=3)
    now = now_ms()
    update(client, name, "a", PUT=[("c", 1, now - 2), ("c", 2, now - 1), ("c", 3, now), ("d", "x"), ("n", 40)])
    update(client, name, "a", DELETE=[("c", None, now)], DELETE_ALL=["d"], INCREMENT=[("n", 2)], PUT=[("e", 1.5)])
    found = get(client, name, "a", max_version=3)
    assert [(column, value) for column, value, _ in found if column != "n"] == [("c", 2), ("c", 1), ("e", 1.5)]
    assert [value for column, value, _ in found if column == "n"] == [42, 40]


def test_changes_take_effect_in_their_order(client, table):
    put(client, table, "a", [("c", 1)])
    update(client, table, "a", DELETE_ALL=["c"], PUT=[("c", 2)])
    assert values(client, table, "a") == [("c", 2)]
    update(client, table, "a", PUT=[("c", 3)], DELETE_ALL=["c"])
    assert get(client, table, "a") == []


def test_an_update_makes_a_row_but_deletes_alone_do_not(client, table):
    now = now_ms()
    update(client, table, "deletes", DELETE=[("c", None, now)], DELETE_ALL=["d"])
    assert get(client, table, "deletes") is None
    update(client, table, "puts", PUT=[("c", 1)])
    update(client, table, "increments", INCREMENT=[("n", -3)])
    assert values(client, table, "puts") == [("c", 1)]
    assert values(client, table, "increments") == [("n", -3)]


def test_a_row_whose_last_column_is_deleted_is_still_there(client, table):
    put(client, table, "a", [("c", 1)])
    update(client, table, "a", DELETE_ALL=["c"])
    assert get(client, table, "a") == []
    assert scan(client, table) == [["a"]]


def test_an_absent_version_is_deleted_without_effect(client, table):
    now = now_ms()
    put(client, table, "a", [("c", 1, now)])
    update(client, table, "a", DELETE=[("c", None, now - 1), ("d", None, now)])
    assert get(client, table, "a") == [("c", 1, now)]


def test_increments(client, table):
    for by, expected in [(5, 5), (-7, -2), (2**63 - 1, 2**63 - 3), (2, 2**63 - 1)]:
        update(client, table, "a", INCREMENT=[("n", by)])
        assert values(client, table, "a") == [("n", expected)]
    with invalid():
        update(client, table, "a", INCREMENT=[("n", 1)], PUT=[("other", 1)])
    assert values(client, table, "a") == [("n", 2**63 - 1)]
    put(client, table, "b", [("c", "text")])
    with invalid():
        update(client, table, "b", INCREMENT=[("c", 1)], PUT=[("d", 1)])
    assert values(client, table, "b") == [("c", "text")]
    for changes in [
        {"INCREMENT": [("n", 1), ("n", 1)]},
        {"INCREMENT": [("n", 1)], "PUT": [("n", 1)]},
        {"DELETE_ALL": ["n"], "INCREMENT": [("n", 1)]},
        {"INCREMENT": [("n", "1")]},
        {"INCREMENT": [("n", 1.0)]},
    ]:
        with invalid():
            update(client, table, "c", **changes)
    assert get(client, table, "c") is None


def test_deletes(client, table):
    put(client, table, "a", [("c", 1)])
    client.delete_row(table, Row(key("a")), EXIST)
    assert get(client, table, "a") is None
    client.delete_row(table, Row(key("a")), IGNORE)
    client.delete_row(table, Row(key("a")), NOT_EXIST)
    with refused("OTSConditionCheckFail", FAILED):
        client.delete_row(table, Row(key("a")), EXIST)
    put(client, table, "a", [("c", 1)])
    with refused("OTSConditionCheckFail", FAILED):
        client.delete_row(table, Row(key("a")), NOT_EXIST)
    assert values(client, table, "a") == [("c", 1)]


def test_no_delete_hides_what_is_written_later_with_an_older_time(client, make_table):
    name = make_table(max_version=3)
    then = now_ms() - 60_000
    put(client, name, "a", [("c", 1)])
    client.delete_row(name, Row(key("a")), IGNORE)
    put(client, name, "a", [("c", 2, then)])
    assert get(client, name, "a") == [("c", 2, then)]
    update(client, name, "a", PUT=[("d", 1)])
    update(client, name, "a", DELETE_ALL=["d"])
    update(client, name, "a", PUT=[("d", 2, then)])
    assert get(client, name, "a") == [("c", 2, then), ("d", 2, then)]


def test_existence_is_checked(client, table):
    with refused("OTSConditionCheckFail", FAILED):
        put(client, table, "a", [("c", 1)], EXIST)
    with refused("OTSConditionCheckFail", FAILED):
        update(client, table, "a", EXIST, PUT=[("c", 1)])
    assert get(client, table, "a") is None
    update(client, table, "a", NOT_EXIST, PUT=[("c", 1)])
    with refused("OTSConditionCheckFail", FAILED):
        put(client, table, "a", [("c", 2)], NOT_EXIST)
    with refused("OTSConditionCheckFail", FAILED):
        update(client, table, "a", NOT_EXIST, PUT=[("c", 2)])
    assert values(client, table, "a") == [("c", 1)]
    put(client, table, "a", [("c", 2)], EXIST)
    assert values(client, table, "a") == [("c", 2)]


def test_columns_are_checked(client, table):
    put(client, table, "a", [("c", 1)])
    for condition in [
        if_column("c", 2),
        if_column("c", 1, ComparatorType.NOT_EQUAL),
        if_column("c", "1"),
        if_column("missing", 1, pass_if_missing=False),
        Condition(RowExistenceExpectation.EXPECT_NOT_EXIST, SingleColumnCondition("c", 1, ComparatorType.EQUAL)),
    ]:
        for attempt in [
            lambda: put(client, table, "a", [("c", 9)], condition),
            lambda: update(client, table, "a", condition, PUT=[("c", 9)]),
            lambda: client.delete_row(table, Row(key("a")), condition),
        ]:
            with refused("OTSConditionCheckFail", FAILED):
                attempt()
    assert values(client, table, "a") == [("c", 1)]
    put(client, table, "a", [("c", 2)], if_column("c", 1))
    update(client, table, "a", if_column("c", 2), PUT=[("c", 3)])
    update(client, table, "a", if_column("missing", 1), PUT=[("c", 4)])
    assert values(client, table, "a") == [("c", 4)]
    client.delete_row(table, Row(key("a")), if_column("c", 4, ComparatorType.GREATER_EQUAL))
    assert get(client, table, "a") is None


def test_of_a_row_that_is_not_there_every_column_is_missing(client, table):
    with refused("OTSConditionCheckFail", FAILED):
        put(client, table, "a", [("c", 1)], if_column("c", 1, pass_if_missing=False))
    put(client, table, "a", [("c", 1)], if_column("c", 2, pass_if_missing=True))
    assert values(client, table, "a") == [("c", 1)]


def test_the_key_is_returned_where_asked(client, table):
    for answer in [
        client.put_row(table, Row(key("a"), [("c", 1)]), IGNORE, ReturnType.RT_PK),
        client.update_row(table, Row(key("a"), {"PUT": [("c", 1)]}), IGNORE, ReturnType.RT_PK),
        client.delete_row(table, Row(key("a")), IGNORE, ReturnType.RT_PK),
    ]:
        _, row = answer
        assert row.primary_key == key("a") and row.attribute_columns == []


def test_what_rows_use(client, table):
    def used(consumed):
        return consumed.read, consumed.write

    name_and_key = len("k") + 1
    fits = "x" * (4096 - name_and_key - len("c"))
    assert used(put(client, table, "a")) == (0, 1)
    assert used(put(client, table, "a", [("c", fits)])) == (0, 1)
    assert used(put(client, table, "b", [("c", fits + "x" * 8193)])) == (0, 4)
    assert used(put(client, table, "a", [("c", fits)], EXIST)) == (1, 1)
    assert used(put(client, table, "c", [], NOT_EXIST)) == (1, 1)
    assert used(client.get_row(table, key("a"))[0]) == (1, 0)
    assert used(client.get_row(table, key("b"))[0]) == (4, 0)
    assert used(client.get_row(table, key("nobody"))[0]) == (1, 0)
    assert used(update(client, table, "a", PUT=[("c", 1)])) == (0, 1)
    assert used(update(client, table, "b", EXIST, PUT=[("d", 1)])) == (4, 1)
    assert used(client.delete_row(table, Row(key("b")), IGNORE)[0]) == (0, 1)
    read, write = used(client.delete_row(table, Row(key("a")), EXIST)[0])
    assert read >= 1 and write == 1


@pytest.mark.parametrize("options", [{"max_version": 2}, {"time_to_live": 86400}])
def test_a_version_counts_where_there_may_be_another_or_an_end(client, make_table, options):
    plain, versioned = make_table(), make_table(**options)
    fits = "x" * (4096 - len("k") - 1 - len("c"))
    for table, units in [(plain, 1), (versioned, 2)]:
        assert put(client, table, "a", [("c", fits)]).write == units
        assert client.get_row(table, key("a"))[0].read == units
        assert client.get_range(table, "FORWARD", key("a"), key("b"))[0].read == units
        assert put(client, table, "a", [("c", 1)], EXIST).read == units
        put(client, table, "a", [("c", fits[:-8])])
        assert client.get_row(table, key("a"))[0].read == 1


def test_keys_that_the_table_does_not_have(client, make_table):
    name = make_table([("PK0", "STRING"), ("PK1", "INTEGER")])
    for primary_key, text in [
        ([("PK0", "a")], "Validate PK size fail. Input: 1, Meta: 2."),
        ([("PK0", "a"), ("PK1", 1), ("PK2", 1)], "Validate PK size fail. Input: 3, Meta: 2."),
        ([("PK2", "a"), ("PK1", 1)], "Validate PK name fail. Input: PK2, Meta: PK0."),
        ([("PK1", 1), ("PK0", "a")], "Validate PK name fail. Input: PK1, Meta: PK0."),
        ([("PK0", "a"), ("PK1", bytearray(b"1"))], "Validate PK type fail. Input: VT_BLOB, Meta: VT_INTEGER."),
        ([("PK0", 1), ("PK1", 1)], "Validate PK type fail. Input: VT_INTEGER, Meta: VT_STRING."),
        ([("PK0", 1), ("PK2", 1)], "Validate PK name fail. Input: PK2, Meta: PK1."),
    ]:
        for attempt in [
            lambda: client.get_row(name, primary_key),
            lambda: client.put_row(name, Row(primary_key, [("c", 1)]), IGNORE),
            lambda: client.update_row(name, Row(primary_key, {"PUT": [("c", 1)]}), IGNORE),
            lambda: client.delete_row(name, Row(primary_key), IGNORE),
        ]:
            with refused("OTSInvalidPK", text):
                attempt()
    assert scan(client, name, ["PK0", "PK1"]) == []


def test_what_a_row_may_not_be(client, table):
    now = now_ms()
    for row, text in [
        (Row(key("a"), [("", 1)]), "Invalid column name: ''."),
        (Row(key("a"), [("#c", 1)]), "Invalid column name: '#c'."),
        (Row(key("a"), [("x" * 256, 1)]), f"Invalid column name: '{'x' * 256}'."),
        (Row(key("a"), [("k", 1)]), "Duplicated attribute column name with primary key column: k."),
        (Row(key("a"), [("c", float("nan"))]), "NaN can't be set to double value."),
        (Row(key("a"), [("c", float("inf"))]), "Infinity can't be set to double value."),
        (Row(key("a"), [("c", float("-inf"))]), "Infinity can't be set to double value."),
        (Row(key("a"), [("c", 1, -1)]), "Timestamp must be in range [0, INT64_MAX/1000)."),
        (Row(key("a"), [("c", 1, 2**63 // 1000)]), "Timestamp must be in range [0, INT64_MAX/1000)."),
        (Row(key("a"), [("c", 1, now - 2 * 86_400_000)]), "Invalid timestamp. Cell:c."),
        (Row(key("a"), [("c", 1, now + 2 * 86_400_000)]), "Invalid timestamp. Cell:c."),
        (Row(key(INF_MIN), [("c", 1)]), "VT_INF_MIN is an invalid type for the primary key."),
        (Row(key(INF_MAX), [("c", 1)]), "VT_INF_MAX is an invalid type for the primary key."),
        (Row([("#k", "a")], [("c", 1)]), "Invalid column name: '#k'."),
    ]:
        with invalid(text):
            client.put_row(table, row, IGNORE)
        with invalid(text):
            client.update_row(table, Row(row.primary_key, {"PUT": row.attribute_columns}), IGNORE)
    for bound in [INF_MIN, INF_MAX]:
        with invalid():
            client.get_row(table, key(bound))
        with invalid():
            client.delete_row(table, Row(key(bound)), IGNORE)
    with invalid("PKAutoIncr can't be used for read operations."):
        client.get_row(table, key(PK_AUTO_INCR))
    assert scan(client, table) == []


def test_what_an_update_may_not_be(client, table):
    now = now_ms()
    put(client, table, "a", [("c", 1, now)])
    for changes, text in [
        ({}, "Attribute column is missing."),
        ({"PUT": []}, "Attribute column is missing."),
        ({"DELETE": ["c"]}, "Timestamp must be given when type is DELETE_ONE_VERSION."),
        (
            {"DELETE": [("c", 1, now)]},
            "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.",
        ),
        ({"DELETE_ALL": [("c", None, now)]}, "Timestamp cannot be given when type is DELETE_ALL_VERSION."),
        (
            {"DELETE_ALL": [("c", 1)]},
            "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.",
        ),
        ({"DELETE_ALL": ["#c"]}, "Invalid column name: '#c'."),
        ({"DELETE_ALL": ["k"]}, "Duplicated attribute column name with primary key column: k."),
    ]:
        with invalid(text):
            update(client, table, "a", **changes)
    assert get(client, table, "a") == [("c", 1, now)]


def test_odd_names_of_columns_are_fine(client, table):
    # The SDK counts characters, not bytes, when it makes room for names: only ASCII gets through it.
    names = ["9", "a b", "a#", "\n", "'", "a.b", "x" * 255]
    put(client, table, "a", [(name, 1) for name in names])
    assert [name for name, _ in values(client, table, "a")] == sorted(names)
