"""BatchWriteRow and BatchGetRow: per-row answers, what fails a whole batch, and all-or-none batches."""

import pytest
from tablestore import (
    INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, ComparatorType, Condition, DeleteRowItem, PutRowItem, Row,
    RowExistenceExpectation, SingleColumnCondition, TableInBatchGetRowItem, TableInBatchWriteRowItem, UpdateRowItem,
)

from sdk import EXIST, IGNORE, NOT_EXIST, atomic, call, field, get, invalid, key, put, scan, values


def writes(*tables):
    """A request of (table, items)."""
    request = BatchWriteRowRequest()
    for table, items in tables:
        request.add(TableInBatchWriteRowItem(table, list(items)))
    return request


def reads(*tables, **selection):
    """A request of (table, keys)."""
    selection.setdefault("max_version", 1)
    request = BatchGetRowRequest()
    for table, keys in tables:
        request.add(TableInBatchGetRowItem(table, list(keys), **selection))
    return request


def put_item(text, columns=(("c", 1),), condition=IGNORE):
    return PutRowItem(Row(key(text), list(columns)), condition)


def update_item(text, condition=IGNORE, **changes):
    return UpdateRowItem(Row(key(text), changes), condition)


def delete_item(text, condition=IGNORE):
    return DeleteRowItem(Row(key(text)), condition)


def told(items):
    """What the answers of rows say: True, or code and text."""
    return [item.is_ok or (item.error_code, item.error_message) for item in items]


FAILED = ("OTSConditionCheckFail", "Condition check failed.")
MISSING = ("OTSObjectNotExist", "Requested table does not exist.")


def test_rows_are_answered_each_for_itself_in_their_order(client, make_table):
    one, other = make_table(), make_table()
    put(client, one, "there", [("c", 1)])
    response = client.batch_write_row(
        writes(
            (
                one,
                [
                    put_item("a"),
                    put_item("there", condition=NOT_EXIST),
                    update_item("b", INCREMENT=[("n", 3)]),
                    update_item("missing", EXIST, PUT=[("c", 1)]),
                    delete_item("there"),
                    delete_item("missing", EXIST),
                    put_item("z"),
                ],
            ),
            (other, [delete_item("nobody"), put_item("x", [])]),
            ("no_such_table", [put_item("a")]),
        )
    )
    assert told(response.get_put_by_table(one)) == [True, FAILED, True]
    assert told(response.get_update_by_table(one)) == [True, FAILED]
    assert told(response.get_delete_by_table(one)) == [True, FAILED]
    assert told(response.get_delete_by_table(other)) == [True] and told(response.get_put_by_table(other)) == [True]
    assert told(response.get_put_by_table("no_such_table")) == [MISSING]
    assert not response.is_all_succeed()
    assert response.get_put_by_table(one)[0].consumed.write == 1
    assert scan(client, one) == [["a"], ["b"], ["z"]] and scan(client, other) == [["x"]]


def test_a_row_may_come_again_and_the_last_wins(client, table):
    items = [put_item("a", [("c", n)]) for n in range(5)] + [delete_item("a"), update_item("a", PUT=[("d", 1)])]
    assert client.batch_write_row(writes((table, items))).is_all_succeed()
    assert values(client, table, "a") == [("d", 1)]
    twice = client.batch_get_row(reads((table, [key("a"), key("a")])))
    assert told(twice.get_result_by_table(table)) == [True, True]


def test_an_incremented_row_comes_once(client, table):
    items = [update_item("a", INCREMENT=[("n", 1)]), update_item("a", PUT=[("c", 1)])]
    with invalid():
        client.batch_write_row(writes((table, items)))
    assert get(client, table, "a") is None


def test_a_key_that_is_not_the_tables_fails_its_row(client, table):
    wrong = [("other", "a")]
    text = ("OTSInvalidPK", "Validate PK name fail. Input: other, Meta: k.")
    response = client.batch_write_row(writes((table, [put_item("a"), PutRowItem(Row(wrong, []), IGNORE)])))
    assert told(response.get_put_by_table(table)) == [True, text]
    response = client.batch_get_row(reads((table, [wrong, key("a"), [("k", 1)], [("k", "a"), ("l", 1)]])))
    assert told(response.get_result_by_table(table)) == [
        text,
        True,
        ("OTSInvalidPK", "Validate PK type fail. Input: VT_INTEGER, Meta: VT_STRING."),
        ("OTSInvalidPK", "Validate PK size fail. Input: 2, Meta: 1."),
    ]


@pytest.mark.parametrize(
    "bad, text",
    [
        (put_item("b", [("#c", 1)]), "Invalid column name: '#c'."),
        (put_item("b", [("k", 1)]), "Duplicated attribute column name with primary key column: k."),
        (PutRowItem(Row(key(INF_MIN), []), IGNORE), "VT_INF_MIN is an invalid type for the primary key."),
        (UpdateRowItem(Row(key("b"), {}), IGNORE), "Attribute column is missing."),
        (put_item("x" * 1025), "The length of primary key column: 'k' exceeds the MaxLength:1024 with CurrentLength:1025."),
    ],
)
def test_malformed_content_fails_the_whole_batch(client, table, bad, text):
    with invalid(text):
        client.batch_write_row(writes((table, [put_item("a"), bad])))
    assert scan(client, table) == []


def test_what_a_batch_may_not_be(client, table):
    for request, text in [
        (writes(), "No row is specified in BatchWriteRow."),
        (writes((table, [])), f"No operation is specified for table: '{table}'."),
        (writes((table, [put_item("a")]), ("bad-name", [put_item("a")])), "Invalid table name: 'bad-name'."),
        (writes((table, [put_item(f"r{n}") for n in range(201)])), "Rows count exceeds the upper limit: 200."),
        (
            writes((table, [put_item(f"r{n}") for n in range(200)]), ("x", [put_item("a")])),
            "Rows count exceeds the upper limit: 200.",
        ),
    ]:
        with invalid(text):
            client.batch_write_row(request)
    assert scan(client, table) == []
    own = client.protocol.encoder.api_encode_map["BatchWriteRow"]
    body = own(writes((table, [put_item("a")]))).SerializeToString()
    with invalid(f"Duplicated table name: {table}."):
        call(client, "BatchWriteRow", body + body)
    with invalid("The modify type is invalid."):
        call(client, "BatchWriteRow", body.replace(b"\x08\x01", b"\x08\x09", 1))
    assert scan(client, table) == []


def test_200_rows_are_written_and_100_read(client, table):
    columns = [("c", "x" * 100)]
    items = [put_item(f"r{n:03}", columns) for n in range(200)]
    assert client.batch_write_row(writes((table, items))).is_all_succeed()
    response = client.batch_get_row(reads((table, [key(f"r{n:03}") for n in range(0, 200, 2)])))
    found = response.get_result_by_table(table)
    assert [item.row.primary_key for item in found] == [key(f"r{n:03}") for n in range(0, 200, 2)]
    assert all(item.row.attribute_columns[0][:2] == columns[0] and item.consumed.read == 1 for item in found)
    with invalid("Rows count exceeds the upper limit: 100."):
        client.batch_get_row(reads((table, [key("a")] * 101)))


def test_reads_are_answered_each_for_itself(client, make_table):
    one, other = make_table(max_version=2), make_table()
    put(client, one, "a", [("c", 1), ("d", 2)])
    put(client, one, "b", [("d", 2)])
    put(client, other, "a")
    response = client.batch_get_row(
        reads((one, [key("b"), key("missing"), key("a")]), (other, [key("a")]), ("no_such_table", [key("a"), key("b")]))
    )
    found = response.get_result_by_table(one)
    assert told(found) == [True, True, True]
    assert [item.row and [column[:2] for column in item.row.attribute_columns] for item in found] == [
        [("d", 2)],
        None,
        [("c", 1), ("d", 2)],
    ]
    assert [item.consumed.read for item in found] == [1, 1, 1]
    assert response.get_result_by_table(other)[0].row.attribute_columns == []
    assert told(response.get_result_by_table("no_such_table")) == [MISSING, MISSING]


def test_reads_select_and_filter(client, table):
    for text, number in [("a", 1), ("b", 2)]:
        put(client, table, text, [("c", number), ("d", number)])
    above = SingleColumnCondition("c", 1, ComparatorType.GREATER_THAN)
    response = client.batch_get_row(
        reads((table, [key("a"), key("b")]), columns_to_get=["c"], column_filter=above)
    )
    first, second = response.get_result_by_table(table)
    assert first.is_ok and first.row is None
    assert [column[:2] for column in second.row.attribute_columns] == [("c", 2)]


def test_bad_selections_fail_rows_but_no_versions_fail_the_batch(client, table):
    put(client, table, "a", [("c", 1)])
    for keys, selection, text in [
        ([key("a")], {"columns_to_get": ["#c"]}, "Invalid column name: '#c'."),
        ([key(INF_MIN)], {}, None),
    ]:
        (item,) = client.batch_get_row(reads((table, keys), **selection)).get_result_by_table(table)
        assert not item.is_ok and item.error_code == "OTSParameterInvalid"
        assert text is None or item.error_message == text
    with invalid("No version condition is specified while querying row."):
        client.batch_get_row(reads((table, [key("a")]), max_version=None))
    with invalid("No row specified in the request of BatchGetRow."):
        client.batch_get_row(reads())
    assert client.batch_get_row(reads((table, []))).get_result_by_table(table) in (None, [])
    own = client.protocol.encoder.api_encode_map["BatchGetRow"]
    body = own(reads((table, [key("a")]))).SerializeToString()
    with invalid(f"Duplicated table name: {table}."):
        call(client, "BatchGetRow", body + body)


@pytest.fixture
def pairs(make_table):
    return make_table([("p", "INTEGER"), ("r", "INTEGER")])


def pair_item(partition, row, condition=IGNORE, columns=(("c", 1),)):
    return PutRowItem(Row([("p", partition), ("r", row)], list(columns)), condition)


def test_an_atomic_batch_is_all_or_none(client, pairs):
    response = atomic(client, writes((pairs, [pair_item(0, n) for n in range(5)])))
    assert told(response.get_put_by_table(pairs)) == [True] * 5
    assert len(scan(client, pairs, "pr")) == 5
    column = Condition(RowExistenceExpectation.IGNORE, SingleColumnCondition("c", 2, ComparatorType.EQUAL))
    for condition in [NOT_EXIST, column]:
        items = [pair_item(0, 7), pair_item(0, 3, condition), pair_item(0, 8)]
        response = atomic(client, writes((pairs, items)))
        answers = told(response.get_put_by_table(pairs))
        assert FAILED in answers and True not in answers
    assert len(scan(client, pairs, "pr")) == 5


def test_an_atomic_batch_is_of_one_partition_key(client, pairs):
    response = atomic(client, writes((pairs, [pair_item(0, 1), pair_item(0, 2), pair_item(1, 1)])))
    text = "Data out of scope of atomic. Atomic PartKey:0. Data PartKey:1"
    assert told(response.get_put_by_table(pairs)) == [("OTSDataOutOfRange", text)] * 3
    assert scan(client, pairs, "pr") == []


def test_an_atomic_batch_is_of_one_table(client, pairs, make_table):
    other = make_table([("p", "INTEGER"), ("r", "INTEGER")])
    response = atomic(client, writes((pairs, [pair_item(0, 1)]), (other, [pair_item(0, 1)])))
    for table in [pairs, other]:
        ((code, _),) = told(response.get_put_by_table(table))
        assert code == "OTSDataOutOfRange"
        assert scan(client, table, "pr") == []


def test_a_bad_row_fails_an_atomic_batch(client, pairs):
    wrong = PutRowItem(Row([("p", 0), ("other", 1)], []), IGNORE)
    response = atomic(client, writes((pairs, [pair_item(0, 1), wrong])))
    assert True not in told(response.get_put_by_table(pairs))
    assert scan(client, pairs, "pr") == []


def test_a_put_without_condition_is_none(client, table):
    # The message must have one; the SDK always sends it.
    own = client.protocol.encoder.api_encode_map["BatchWriteRow"](writes((table, [put_item("a")]))).SerializeToString()
    without = own.replace(field(3, field(1, 0)), b"")
    assert without != own
    with invalid():
        call(client, "BatchWriteRow", without)
    assert scan(client, table) == []
