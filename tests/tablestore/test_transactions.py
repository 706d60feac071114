"""Local transactions with the official SDK: what they see, what they keep away, how they end, and every refusal's text."""

import signal
import threading
import time

import pytest
from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, BatchWriteRowRequest, CapacityUnit, ComparatorType, Condition, DeleteRowItem, OTSServiceError,
    PutRowItem, ReservedThroughput, ReturnType, Row, RowExistenceExpectation, SingleColumnCondition, TableInBatchWriteRowItem,
    TableMeta, TableOptions, UpdateRowItem,
)

from sdk import EXIST, IGNORE, NOT_EXIST, call, connect, field, invalid, refused, values
from test_streams import DELETE, PUT, UPDATE, enabled, follow

KEY = [("p", "STRING"), ("k", "INTEGER")]


@pytest.fixture
def table(make_table):
    return make_table(KEY)


def key(number, first="a"):
    return [("p", first), ("k", number)]


def start(client, table, first="a"):
    return client.start_local_transaction(table, [("p", first)])


def put(client, table, number, value, transaction=None, first="a", condition=IGNORE):
    client.put_row(table, Row(key(number, first), [("c", value)]), condition, transaction_id=transaction)


def read(client, table, number, transaction=None, first="a"):
    found = values(client, table, key(number, first), transaction_id=transaction)
    return found and dict(found)["c"]


def read_range(client, table, transaction=None, direction="FORWARD", first="a", **options):
    low, high = [("p", first), ("k", INF_MIN)], [("p", first), ("k", INF_MAX)]
    bounds = (low, high) if direction == "FORWARD" else (high, low)
    _, follows, rows, _ = client.get_range(table, direction, *bounds, transaction_id=transaction, **options)
    return [(row.primary_key[1][1], dict((name, value) for name, value, _ in row.attribute_columns)) for row in rows], follows


def batch(client, table, items, transaction=None):
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(table, items))
    request.set_transaction_id(transaction)
    return client.batch_write_row(request)


def no_session():
    return refused("OTSSessionNotExist", "Session not exist or may be timeout.")


def conflict():
    return refused("OTSRowOperationConflict", "Data is being modified by the other request.")


def test_own_writes_are_seen_inside_and_by_others_after_the_commit(client, table):
    put(client, table, 1, "before")
    put(client, table, 2, "goes")
    transaction = start(client, table)
    assert isinstance(transaction, str) and transaction
    put(client, table, 1, "after", transaction)
    client.update_row(table, Row(key(3), {"PUT": [("c", "new")], "INCREMENT": [("n", 2)]}), NOT_EXIST, transaction_id=transaction)
    client.delete_row(table, Row(key(2)), EXIST, transaction_id=transaction)
    assert [read(client, table, number, transaction) for number in (1, 2, 3)] == ["after", None, "new"]
    assert [read(client, table, number) for number in (1, 2, 3)] == ["before", "goes", None]
    assert read_range(client, table, transaction) == ([(1, {"c": "after"}), (3, {"c": "new", "n": 2})], None)
    assert read_range(client, table, transaction, "BACKWARD", limit=1) == ([(3, {"c": "new", "n": 2})], key(1))
    assert read_range(client, table)[0] == [(1, {"c": "before"}), (2, {"c": "goes"})]
    client.commit_transaction(transaction)
    assert read_range(client, table)[0] == [(1, {"c": "after"}), (3, {"c": "new", "n": 2})]
    with no_session():
        client.commit_transaction(transaction)


def test_an_aborted_transaction_has_never_been(client, table):
    put(client, table, 1, "before")
    transaction = start(client, table)
    put(client, table, 1, "after", transaction)
    put(client, table, 2, "new", transaction)
    client.abort_transaction(transaction)
    assert read_range(client, table)[0] == [(1, {"c": "before"})]
    for act in (client.abort_transaction, client.commit_transaction):
        with no_session():
            act(transaction)
    with no_session():
        put(client, table, 1, "late", transaction)
    with no_session():
        read(client, table, 1, transaction)
    with no_session():
        read_range(client, table, transaction)
    with no_session():
        batch(client, table, [PutRowItem(Row(key(1), [("c", "late")]), IGNORE)], transaction)


def test_the_partition_key_is_locked_for_other_writes_and_for_nothing_else(client, table, make_table):
    other = make_table(KEY)
    put(client, table, 1, "before")
    transaction = start(client, table)
    with conflict():
        put(client, table, 1, "other")
    with conflict():
        client.update_row(table, Row(key(9), {"PUT": [("c", 1)]}), IGNORE)
    with conflict():
        client.delete_row(table, Row(key(1)), IGNORE)
    with conflict():
        start(client, table)
    items = [PutRowItem(Row(key(1, first), [("c", first)]), IGNORE) for first in ("a", "b")]
    answers = batch(client, table, items).get_put_by_table(table)
    assert [answer.is_ok for answer in answers] == [False, True]
    assert answers[0].error_code == "OTSRowOperationConflict"
    # Another key, another table, and all reads.
    put(client, table, 2, "free", first="b")
    put(client, other, 1, "free")
    second = start(client, table, "b")
    third = start(client, other)
    assert len({transaction, second, third}) == 3
    assert read(client, table, 1) == "before"
    for one in (transaction, second, third):
        client.commit_transaction(one)
    put(client, table, 1, "after")
    assert read(client, table, 1) == "after"


def test_conditions_see_the_transactions_own_rows_and_a_refusal_ends_nothing(client, table):
    put(client, table, 1, 5)
    transaction = start(client, table)
    put(client, table, 1, 6, transaction, condition=EXIST)
    is_six = Condition(RowExistenceExpectation.EXPECT_EXIST, SingleColumnCondition("c", 6, ComparatorType.EQUAL, False))
    put(client, table, 1, 7, transaction, condition=is_six)
    with refused("OTSConditionCheckFail", "Condition check failed."):
        put(client, table, 1, 8, transaction, condition=is_six)
    with refused("OTSConditionCheckFail"):
        put(client, table, 1, 8, transaction, condition=NOT_EXIST)
    client.update_row(table, Row(key(1), {"INCREMENT": [("c", 3)]}), IGNORE, transaction_id=transaction)
    assert read(client, table, 1, transaction) == 10
    client.commit_transaction(transaction)
    assert read(client, table, 1) == 10


def test_a_batch_in_a_transaction_is_done_as_a_whole(client, table):
    put(client, table, 1, "old")
    transaction = start(client, table)
    items = [
        PutRowItem(Row(key(2), [("c", "new")]), NOT_EXIST),
        UpdateRowItem(Row(key(1), {"PUT": [("d", 1)]}), EXIST),
        DeleteRowItem(Row(key(7)), IGNORE),
    ]
    assert batch(client, table, items, transaction).is_all_succeed()
    failing = [PutRowItem(Row(key(3), [("c", "x")]), IGNORE), PutRowItem(Row(key(4), [("c", "x")]), EXIST)]
    answers = batch(client, table, failing, transaction).get_put_by_table(table)
    assert [answer.error_code for answer in answers] == ["OTSConditionCheckFail"] * 2
    foreign = [PutRowItem(Row(key(3), [("c", "x")]), IGNORE), PutRowItem(Row(key(4, "b"), [("c", "x")]), IGNORE)]
    answers = batch(client, table, foreign, transaction).get_put_by_table(table)
    text = "Data out of scope of transaction. Transaction PartKey:a. Data PartKey:b"
    assert [(answer.error_code, answer.error_message) for answer in answers] == [("OTSDataOutOfRange", text)] * 2
    client.commit_transaction(transaction)
    assert read_range(client, table)[0] == [(1, {"c": "old", "d": 1}), (2, {"c": "new"})]


def test_what_is_not_of_the_transaction_is_refused(client, table, make_table):
    other = make_table(KEY)
    transaction = start(client, table)
    text = "Data out of scope of transaction. Transaction PartKey:a. Data PartKey:b"
    with refused("OTSDataOutOfRange", text):
        put(client, table, 1, 1, transaction, "b")
    with refused("OTSDataOutOfRange", text):
        read(client, table, 1, transaction, "b")
    with refused("OTSDataOutOfRange", text):
        client.get_range(table, "FORWARD", key(1), key(1, "b"), transaction_id=transaction)
    with refused("OTSDataOutOfRange", "Data out of scope of transaction. The row is of another table."):
        put(client, other, 1, 1, transaction)
    with refused("OTSObjectNotExist"):
        put(client, "nowhere", 1, 1, transaction)
    for unknown in ("", "fake_transaction_id", transaction.upper() + "x", transaction[:-1]):
        for act in (client.commit_transaction, client.abort_transaction):
            with invalid("TransactionID is invalid."):
                act(unknown)
        with invalid("TransactionID is invalid."):
            put(client, table, 1, 1, unknown)
        with invalid("TransactionID is invalid."):
            read(client, table, 1, unknown)
        with invalid("TransactionID is invalid."):
            read_range(client, table, unknown)
        with invalid("TransactionID is invalid."):
            batch(client, table, [PutRowItem(Row(key(1), [("c", 1)]), IGNORE)], unknown)
    client.commit_transaction(transaction)
    assert read_range(client, table)[0] == []


def test_a_start_names_one_partition_key_of_a_table(client, table):
    with invalid("StartLocalTransaction support only one primary key."):
        client.start_local_transaction(table, key(1))
    with refused("OTSInvalidPK", "Validate PK name fail. Input: q, Meta: p."):
        client.start_local_transaction(table, [("q", "a")])
    with refused("OTSInvalidPK", "Validate PK type fail. Input: VT_INTEGER, Meta: VT_STRING."):
        client.start_local_transaction(table, [("p", 1)])
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        start(client, "nowhere")
    with invalid("Invalid table name: ''."):
        start(client, "")
    with refused("OTSNoPermissionAccess"):
        client.start_local_transaction("timeline_message", [("timeline_id", "a")])


def test_a_table_may_be_made_without_transactions(client, table):
    """CreateTable's `enable_local_txn`, which the SDK for Python can't send: not given it means yes."""
    column = field(1, "p") + field(2, 2)
    for given, name in ((0, "without_transactions"), (1, "with_transactions")):
        body = field(1, field(1, name) + field(2, column)) + field(2, field(1, field(1, 0) + field(2, 0)))
        body += field(3, b"\x08" + b"\xff" * 9 + b"\x01" + field(2, 1)) + field(8, given)
        call(client, "CreateTable", body)
        try:
            if given:
                client.abort_transaction(start(client, name))
            else:
                text = "Try to call method using explicit transaction on explicit-transaction-disabled table."
                with invalid(text):
                    start(client, name)
        finally:
            client.delete_table(name)


def test_numbers_by_the_server_and_transactions_do_not_go_together(client, make_table):
    table = make_table([("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)])
    _, row = client.put_row(table, Row([("p", "a"), ("n", PK_AUTO_INCR)], [("c", 1)]), IGNORE, ReturnType.RT_PK)
    transaction = start(client, table)
    with invalid("Can't use transaction when modify row with pk auto increment."):
        client.put_row(table, Row([("p", "a"), ("n", PK_AUTO_INCR)], [("c", 2)]), IGNORE, transaction_id=transaction)
    client.update_row(table, Row(row.primary_key, {"PUT": [("c", 3)]}), IGNORE, transaction_id=transaction)
    client.commit_transaction(transaction)
    assert values(client, table, row.primary_key) == [("c", 3)]


def test_a_transaction_writes_at_most_4_mb(client, table):
    transaction = start(client, table)
    for number in range(2):
        put(client, table, number, "x" * 2_000_000, transaction)
    with invalid() as caught:
        put(client, table, 2, "x" * 200_000, transaction)
    text = "The total data size of the transaction exceeds the limit, limit size: 4194304, data size: "
    assert caught.value.message.startswith(text)
    put(client, table, 3, "y", transaction)
    client.commit_transaction(transaction)
    assert [number for number, _ in read_range(client, table)[0]] == [0, 1, 3]


def test_a_change_of_its_table_ends_a_transaction(client, make_table):
    table = make_table(KEY)
    transaction = start(client, table)
    put(client, table, 1, "x", transaction)
    client.update_table(table, TableOptions(max_version=5))
    # The key is free at once, and the transaction can't commit.
    put(client, table, 1, "y")
    with no_session():
        client.commit_transaction(transaction)
    assert read(client, table, 1) == "y"
    transaction = start(client, table)
    client.delete_table(table)
    client.create_table(TableMeta(table, KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    with no_session():
        put(client, table, 2, "x", transaction)
    start(client, table)


def test_a_stream_tells_what_was_committed_change_by_change(client, make_table):
    table = make_table(KEY)
    _, at = enabled(client, table, columns=["c"])
    put(client, table, 1, "old")
    for end in (client.abort_transaction, client.commit_transaction):
        transaction = start(client, table)
        put(client, table, 2, end.__name__, transaction)
        client.update_row(table, Row(key(1), {"PUT": [("c", "one")]}), IGNORE, transaction_id=transaction)
        client.update_row(table, Row(key(1), {"PUT": [("c", "two")]}), IGNORE, transaction_id=transaction)
        client.delete_row(table, Row(key(2)), IGNORE, transaction_id=transaction)
        end(transaction)
    put(client, table, 3, "new")
    found, _ = follow(client, at)
    told = [(one.action, one.key[1][1], [cell[1] for cell in one.cells], one.original) for one in found]
    assert told == [
        (PUT, 1, ["old"], None),
        (PUT, 2, ["commit_transaction"], None),
        (UPDATE, 1, ["one"], [("c", "old")]),
        (UPDATE, 1, ["two"], [("c", "one")]),
        (DELETE, 2, [], [("c", "commit_transaction")]),
        (PUT, 3, ["new"], None),
    ]


def test_one_request_of_a_transaction_at_a_time(server, client, table):
    """Of two requests at once one may be refused, which ends nothing; what was answered is there."""
    transaction = start(client, table)
    done, errors = [], []

    def write(lane):
        own = connect(server)
        for number in range(lane, 200, 4):
            try:
                put(own, table, number, number, transaction)
                done.append(number)
            except OTSServiceError as error:
                errors.append((error.code, error.message))

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors) <= {("OTSRowOperationConflict", "Data is being modified by the other request.")}
    client.commit_transaction(transaction)
    assert [number for number, _ in read_range(client, table)[0]] == sorted(done)


class Committer(threading.Thread):
    """Commits transactions of five rows on a key of its own until the server is gone."""

    def __init__(self, server, name):
        super().__init__()
        self.client, self.name = connect(server), name
        self.done, self.open = -1, -1

    def run(self):
        try:
            for turn in range(100_000):
                transaction = start(self.client, "t", self.name)
                for number in range(5):
                    put(self.client, "t", number, turn, transaction, self.name)
                self.open = turn
                self.client.commit_transaction(transaction)
                self.done = turn
        except Exception:
            return


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_after_the_end_of_the_server_a_transaction_is_there_as_a_whole_or_not_at_all(own_server, how):
    client = connect(own_server.start())
    client.create_table(TableMeta("t", KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    for life in range(3):
        committers = [Committer(own_server, f"{life}-{number}") for number in range(4)]
        for committer in committers:
            committer.start()
        lost = start(client, "t", f"lost-{life}")
        put(client, "t", 1, "lost", lost, f"lost-{life}")
        while min(committer.done for committer in committers) < 10:
            assert any(committer.is_alive() for committer in committers)
            time.sleep(0.01)
        own_server.stop(how)
        for committer in committers:
            committer.join(60)
        client = connect(own_server.start())
        for committer in committers:
            rows, _ = read_range(client, "t", first=committer.name)
            found = {columns["c"] for _, columns in rows}
            assert len(rows) == 5 and len(found) == 1, rows
            assert found <= {committer.done, committer.open}, (committer.done, committer.open, rows)
            # A restart ends all: the keys are free.
            put(client, "t", 9, "free", first=committer.name)
        with no_session():
            client.commit_transaction(lost)
        assert read(client, "t", 1, first=f"lost-{life}") is None
