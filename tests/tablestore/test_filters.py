"""What of a row is read: columns, filters of rows, and their limits."""

import pytest
from tablestore import (
    CastType, ComparatorType, CompositeColumnCondition, Condition, LogicalOperator, RegexRule, RowExistenceExpectation,
    SingleColumnCondition, SingleColumnRegexCondition,
)

from sdk import call, field, get, invalid, key, now_ms, put, scan, update, values

EQUAL, NOT_EQUAL = ComparatorType.EQUAL, ComparatorType.NOT_EQUAL
GREATER, GREATER_EQUAL = ComparatorType.GREATER_THAN, ComparatorType.GREATER_EQUAL
LESS, LESS_EQUAL = ComparatorType.LESS_THAN, ComparatorType.LESS_EQUAL


def composite(operator, *conditions):
    made = CompositeColumnCondition(operator)
    for condition in conditions:
        made.add_sub_condition(condition)
    return made


def every(*conditions):
    return composite(LogicalOperator.AND, *conditions)


def either(*conditions):
    return composite(LogicalOperator.OR, *conditions)


def negated(*conditions):
    return composite(LogicalOperator.NOT, *conditions)


@pytest.fixture
def row(client, table):
    put(client, table, "a", [("a", 1), ("b", "text"), ("c", 2.5), ("d", True), ("e", bytearray(b"\x01\x02"))])
    return table


def test_columns_to_get(client, row):
    assert values(client, row, "a", columns_to_get=["c", "a", "a", "unknown"]) == [("a", 1), ("c", 2.5)]
    assert len(values(client, row, "a", columns_to_get=[])) == 5
    # A row that has none of the columns is not returned; naming a key column makes each row qualify.
    assert values(client, row, "a", columns_to_get=["unknown"]) is None
    assert values(client, row, "a", columns_to_get=["k"]) == []
    assert values(client, row, "a", columns_to_get=["k", "d"]) == [("d", True)]
    assert scan(client, row, columns_to_get=["unknown"]) == []
    for name in ["", "#c", "x" * 256]:
        with invalid(f"Invalid column name: '{name}'."):
            get(client, row, "a", columns_to_get=[name])


def test_ranges_of_columns(client, row):
    def names(**selection):
        columns = values(client, row, "a", **selection)
        return columns and "".join(name for name, _ in columns)

    assert names(start_column="b") == "bcde"
    assert names(end_column="d") == "abc"
    assert names(start_column="b", end_column="d") == "bc"
    assert names(start_column="aa", end_column="cc") == "bc"
    assert names(start_column="b", end_column="d", columns_to_get=["a", "b", "e"]) == "b"


@pytest.mark.parametrize(
    "column, below, at, above",
    [
        ("a", 0, 1, 2),
        ("b", "tex", "text", "text\0"),
        ("c", -2.5, 2.5, 2.6),
        ("d", False, True, None),
        ("e", bytearray(b"\x01"), bytearray(b"\x01\x02"), bytearray(b"\xff")),
        ("k", "Z", "a", "b"),
    ],
)
def test_relations(client, row, column, below, at, above):
    def passes(value, comparator):
        return get(client, row, "a", column_filter=SingleColumnCondition(column, value, comparator)) is not None

    # Of each value: is the column equal, not equal, above, above or equal, below, below or equal?
    comparators = [EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL]
    for value, expected in [
        (below, [False, True, True, True, False, False]),
        (at, [True, False, False, True, False, True]),
        (above, [False, True, False, False, True, True]),
    ]:
        if value is not None:
            assert [passes(value, comparator) for comparator in comparators] == expected


def test_values_of_two_types_are_not_equal_and_in_no_order(client, row):
    for value in ["1", 1.0, True, bytearray(b"1")]:
        for comparator in [EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL]:
            condition = SingleColumnCondition("a", value, comparator)
            assert get(client, row, "a", column_filter=condition) is None


def test_missing_columns(client, row):
    def passes(**options):
        condition = SingleColumnCondition("missing", 1, EQUAL, **options)
        return get(client, row, "a", column_filter=condition) is not None

    assert passes()
    assert passes(pass_if_missing=True)
    assert not passes(pass_if_missing=False)


def test_a_filter_sees_only_what_was_selected(client, row):
    strict = SingleColumnCondition("a", 1, EQUAL, pass_if_missing=False)
    lax = SingleColumnCondition("a", 2, EQUAL, pass_if_missing=True)
    assert get(client, row, "a", columns_to_get=["a", "b"], column_filter=strict) is not None
    assert get(client, row, "a", columns_to_get=["b"], column_filter=strict) is None
    assert get(client, row, "a", columns_to_get=["b"], column_filter=lax) is not None
    assert get(client, row, "a", start_column="b", column_filter=strict) is None


def test_the_newest_version_or_any(client, make_table):
    name = make_table(max_version=3)
    now = now_ms()
    put(client, name, "a", [("c", n, now - n) for n in range(3)])

    def passes(value, latest, versions):
        condition = SingleColumnCondition("c", value, EQUAL, latest_version_only=latest)
        return get(client, name, "a", column_filter=condition, max_version=versions) is not None

    assert passes(0, True, 3) and passes(0, False, 3)
    assert not passes(2, True, 3)
    assert passes(2, False, 3)
    # Of the versions that are read.
    assert not passes(2, False, 1)


def test_and_or_not(client, row):
    def passes(condition):
        return get(client, row, "a", column_filter=condition) is not None

    yes, no = SingleColumnCondition("a", 1, EQUAL), SingleColumnCondition("b", "other", EQUAL)
    assert passes(every(yes, yes)) and not passes(every(yes, no))
    assert passes(either(no, yes)) and not passes(either(no, no))
    assert passes(negated(no)) and not passes(negated(yes))
    assert passes(every(yes, either(no, negated(no), yes), negated(every(yes, no)), yes))


def test_what_a_filter_may_not_be(client, row):
    leaf = SingleColumnCondition("a", 1, EQUAL)
    one = "Invalid NOT operator: the number of sub-filters must be 1."
    more = "Invalid AND/OR operator: the number of sub-filters must be more than 1."
    for condition, text in [
        (negated(), one),
        (negated(leaf, leaf), one),
        (every(), more),
        (every(leaf), more),
        (either(leaf), more),
        (every(*[leaf] * 32), "The count of filter exceeds the max: 32."),
        (SingleColumnCondition("", 1, EQUAL), "Invalid column name: ''."),
    ]:
        for attempt in [
            lambda: get(client, row, "a", column_filter=condition),
            lambda: scan(client, row, column_filter=condition),
            lambda: put(client, row, "a", [], Condition(RowExistenceExpectation.IGNORE, condition)),
        ]:
            with invalid(text):
                attempt()
    assert len(values(client, row, "a")) == 5
    assert get(client, row, "a", column_filter=every(*[leaf] * 31)) is not None
    nested = leaf
    for _ in range(31):
        nested = negated(nested)
    assert get(client, row, "a", column_filter=nested) is None
    with invalid("The count of filter exceeds the max: 32."):
        get(client, row, "a", column_filter=negated(nested))


def test_parts_of_texts_are_compared_as_other_types(client, table):
    put(client, table, "a", [("c", "t1:32,t2:5.5,t3:word")])

    def passes(pattern, comparator, value, cast):
        rule = RegexRule(pattern, cast)
        condition = SingleColumnRegexCondition("c", comparator, value, rule)
        return get(client, table, "a", column_filter=condition) is not None

    integer, double, string = CastType.VT_INTEGER, CastType.VT_DOUBLE, CastType.VT_STRING
    assert passes("t1:([0-9]+),", EQUAL, 32, integer)
    assert passes("t1:([0-9]+),", GREATER, 31, integer)
    assert not passes("t1:([0-9]+),", LESS, 32, integer)
    assert not passes("t1:([0-9]+),", EQUAL, "32", integer)
    assert passes("t2:([0-9.]+),", LESS_EQUAL, 5.5, double)
    assert passes("t3:([a-z]+)", EQUAL, "word", string)
    assert not passes("t3:([a-z]+)", EQUAL, 1, integer)
    assert not passes("t4:([a-z]+)", NOT_EQUAL, "word", string)
    exist, absent = ComparatorType.EXIST, ComparatorType.NOT_EXIST
    assert passes("t3:([a-z]+)", exist, None, string) and not passes("t3:([a-z]+)", absent, None, string)
    assert passes("t4:([a-z]+)", absent, None, string) and not passes("t4:([a-z]+)", exist, None, string)
    with invalid():
        passes("(", EQUAL, 1, integer)


def test_an_expression_takes_no_time_whatever_it_is(client, table):
    put(client, table, "a", [("c", "a" * 5000 + "!")])
    rule = RegexRule("((a+)+)+$", CastType.VT_STRING)
    condition = SingleColumnRegexCondition("c", ComparatorType.EXIST, None, rule)
    assert get(client, table, "a", column_filter=condition) is None


def test_filters_that_are_none(client, row):
    from tablestore.protobuf.table_store_pb2 import GetRowRequest

    own = client.protocol.encoder.api_encode_map["GetRow"]
    plain = own(row, key("a"), None, None, 1, None, None, None, None, None).SerializeToString()
    decode = client.protocol.decoder.api_decode_map["GetRow"]
    assert GetRowRequest.FromString(plain).max_versions == 1
    single, group, page = 1, 2, 3
    for filter, text in [
        (b"\xff\xff", "Deserialize filter failed."),
        (field(1, single) + field(2, b"\xff\xff"), "Deserialize relation filter failed."),
        (field(1, group) + field(2, b"\xff\xff"), None),
        (field(1, page) + field(2, b"\xff\xff"), "Deserialize column pagination filter failed."),
        (
            field(1, page) + field(2, field(1, 2**64 - 1) + field(2, 1)),
            "Offset in ColumnPaginationFilter must be greater than or equal to 0.",
        ),
        (field(1, page) + field(2, field(1, 0) + field(2, 0)), "Limit in ColumnPaginationFilter must be greater than 0."),
        (field(1, 9) + field(2, b""), None),
    ]:
        with invalid(text):
            call(client, "GetRow", plain + field(7, filter))
    # The SDK has no filter that pages columns; others have.
    paged = call(client, "GetRow", plain + field(7, field(1, page) + field(2, field(1, 1) + field(2, 2))))
    (_, found, _), _ = decode(paged, "")
    assert [name for name, _, _ in found.attribute_columns] == ["b", "c"]


def test_filtered_updates_see_the_row_before(client, table):
    put(client, table, "a", [("n", 1)])
    condition = Condition(RowExistenceExpectation.EXPECT_EXIST, SingleColumnCondition("n", 1, EQUAL))
    update(client, table, "a", condition, INCREMENT=[("n", 1)])
    with pytest.raises(Exception, match="Condition check failed"):
        update(client, table, "a", condition, INCREMENT=[("n", 1)])
    assert values(client, table, "a") == [("n", 2)]
