"""Rows that the server numbers: 1, 2, 3 … for each partition key."""

import threading

import pytest
from tablestore import (
    PK_AUTO_INCR, BatchWriteRowRequest, ComparatorType, Condition, PutRowItem, ReturnType, Row, RowExistenceExpectation,
    SingleColumnCondition, TableInBatchWriteRowItem, UpdateRowItem,
)

from sdk import EXIST, IGNORE, NOT_EXIST, connect, get, invalid, refused, scan, values

SCHEMA = [("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR), ("x", "STRING")]


@pytest.fixture
def numbered(make_table):
    return make_table(SCHEMA, max_version=2)


def row_key(partition, number=PK_AUTO_INCR, last="x"):
    return [("p", partition), ("n", number), ("x", last)]


def append(client, table, partition, last="x", **columns):
    row = Row(row_key(partition, last=last), list(columns.items()))
    _, returned = client.put_row(table, row, IGNORE, ReturnType.RT_PK)
    assert returned.attribute_columns == []
    return dict(returned.primary_key)["n"]


def test_numbers_have_no_holes_and_are_counted_per_partition_key(client, numbered):
    assert [append(client, numbered, "a") for _ in range(5)] == [1, 2, 3, 4, 5]
    assert [append(client, numbered, "b") for _ in range(2)] == [1, 2]
    # Not per key: what stands behind the number does not count.
    assert append(client, numbered, "a", "other") == 6
    assert [key[1] for key in scan(client, numbered, "pnx")] == [1, 2, 3, 4, 5, 6, 1, 2]


def test_a_number_is_never_given_again(client, numbered):
    for _ in range(3):
        append(client, numbered, "a")
    client.delete_row(numbered, Row(row_key("a", 3)), IGNORE)
    assert append(client, numbered, "a") == 4


def test_an_update_and_a_batch_are_numbered_too(client, numbered):
    update = Row(row_key("a"), {"PUT": [("c", 1)], "INCREMENT": [("i", 2)]})
    _, returned = client.update_row(numbered, update, IGNORE, ReturnType.RT_PK)
    assert returned.primary_key == row_key("a", 1)
    assert values(client, numbered, row_key("a", 1)) == [("c", 1), ("i", 2)]
    items = [PutRowItem(Row(row_key("a"), [("c", n)]), IGNORE, ReturnType.RT_PK) for n in range(3)]
    items.append(UpdateRowItem(Row(row_key("b"), {"PUT": [("c", 9)]}), IGNORE, ReturnType.RT_PK))
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(numbered, items))
    response = client.batch_write_row(request)
    puts = response.get_put_by_table(numbered)
    assert [item.row.primary_key for item in puts] == [row_key("a", n) for n in [2, 3, 4]]
    assert response.get_update_by_table(numbered)[0].row.primary_key == row_key("b", 1)


def test_a_given_number_means_a_row_that_is_there(client, numbered):
    number = append(client, numbered, "a", c=1)
    client.update_row(numbered, Row(row_key("a", number), {"PUT": [("d", 2)]}), IGNORE)
    client.put_row(numbered, Row(row_key("a", number), [("e", 3)]), EXIST)
    assert values(client, numbered, row_key("a", number)) == [("e", 3)]
    for attempt in [
        lambda: client.update_row(numbered, Row(row_key("a", 77), {"PUT": [("d", 2)]}), IGNORE),
        lambda: client.put_row(numbered, Row(row_key("a", 77), [("d", 2)]), IGNORE),
        lambda: client.put_row(numbered, Row(row_key("nobody", 1), [("d", 2)]), IGNORE),
    ]:
        with refused("OTSConditionCheckFail", "Condition check failed."):
            attempt()
    client.delete_row(numbered, Row(row_key("a", 77)), IGNORE)
    with invalid("Invalid expect: EXPECT_NOT_EXIST when modify a specific row for table with pk auto increment."):
        client.put_row(numbered, Row(row_key("a", 77), []), NOT_EXIST)
    assert append(client, numbered, "a") == 2


def test_what_the_place_of_a_number_may_not_be_in(client, numbered, make_table):
    condition = SingleColumnCondition("c", 1, ComparatorType.EQUAL)
    for attempt, text in [
        (lambda: client.get_row(numbered, row_key("a")), "PKAutoIncr can't be used for read operations."),
        (
            lambda: client.delete_row(numbered, Row(row_key("a")), IGNORE),
            "Invalid row to delete which with pk auto increment.",
        ),
        # It would take a number for a row that is not made.
        (
            lambda: client.update_row(numbered, Row(row_key("a"), {"DELETE_ALL": ["c"]}), IGNORE),
            "Invalid row to delete which with pk auto increment.",
        ),
        (
            lambda: client.put_row(numbered, Row(row_key("a"), []), EXIST),
            "Invalid expect:EXPECT_EXIST when modify row with pk auto increment.",
        ),
        (
            lambda: client.put_row(numbered, Row(row_key("a"), []), NOT_EXIST),
            "Invalid expect:EXPECT_NOT_EXIST when modify row with pk auto increment.",
        ),
        (
            lambda: client.put_row(
                numbered, Row(row_key("a"), []), Condition(RowExistenceExpectation.IGNORE, condition)
            ),
            "Can't set condition when modify row with pk auto increment.",
        ),
    ]:
        with invalid(text):
            attempt()
    plain = make_table([("p", "STRING"), ("n", "INTEGER"), ("x", "STRING")])
    with pytest.raises(Exception) as caught:
        client.put_row(plain, Row(row_key("a"), []), IGNORE)
    assert caught.value.http_status == 400
    assert append(client, numbered, "a") == 1


def test_writers_side_by_side_get_each_number_once(server, numbered):
    got, threads = [], []

    def write():
        own = connect(server)
        for _ in range(25):
            got.append(append(own, numbered, "a", c=1))

    for _ in range(4):
        threads.append(threading.Thread(target=write))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(1, 101))
    assert get(connect(server), numbered, row_key("a", 100)) is not None
