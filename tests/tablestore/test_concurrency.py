"""Many clients at once: conditions let one through, increments add up, a reader that asks for more sees every number."""

import threading

from tablestore import (
    INF_MAX, PK_AUTO_INCR, BatchWriteRowRequest, OTSServiceError, PutRowItem, Row, TableInBatchWriteRowItem,
)

from sdk import IGNORE, NOT_EXIST, atomic, connect, put, scan, update, values

WRITERS = 4


def together(server, work):
    """Runs `work(client, number)` on as many threads as there are writers; gives what each returned."""
    answers, start = [None] * WRITERS, threading.Barrier(WRITERS)

    def run(number):
        client = connect(server)
        client.list_table()
        start.wait()
        answers[number] = work(client, number)

    threads = [threading.Thread(target=run, args=[number]) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert None not in answers, answers
    return answers


def test_of_those_that_expect_no_row_one_makes_it(server, client, table):
    def work(own, number):
        won = []
        for name in range(25):
            try:
                put(own, table, f"r{name}", [("by", number)], NOT_EXIST)
                won.append(name)
            except OTSServiceError as lost:
                assert lost.code == "OTSConditionCheckFail"
        return won

    answers = together(server, work)
    assert sorted(name for won in answers for name in won) == list(range(25))
    for number, won in enumerate(answers):
        assert all(values(client, table, f"r{name}") == [("by", number)] for name in won)


def test_increments_add_up(server, client, make_table):
    table = make_table(max_version=1000)

    def work(own, _number):
        for _ in range(25):
            update(own, table, "counter", INCREMENT=[("n", 3)])
        return True

    together(server, work)
    assert values(client, table, "counter") == [("n", 3 * 25 * WRITERS)]
    # Each made a version of its own.
    found = values(client, table, "counter", max_version=1000)
    assert [value for _, value in found] == [3 * n for n in range(25 * WRITERS, 0, -1)]


def test_a_reader_that_asks_for_what_is_above_sees_every_number(server, client, make_table):
    table = make_table([("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)])
    done, seen = threading.Event(), []

    def follow():
        own, ended = connect(server), False
        while not ended:
            ended = done.is_set()
            start, end = [("p", "a"), ("n", len(seen) + 1)], [("p", "a"), ("n", INF_MAX)]
            _, _, rows, _ = own.get_range(table, "FORWARD", start, end)
            seen.extend(row.primary_key[1][1] for row in rows)
            assert seen == list(range(1, len(seen) + 1))

    reader = threading.Thread(target=follow)
    reader.start()

    def work(own, _number):
        for _ in range(50):
            own.put_row(table, Row([("p", "a"), ("n", PK_AUTO_INCR)], [("c", 1)]), IGNORE)
        return True

    together(server, work)
    done.set()
    reader.join(60)
    assert len(seen) == 50 * WRITERS


def test_nobody_sees_half_of_an_atomic_batch(server, client, make_table):
    rows = 20
    table = make_table([("p", "STRING"), ("n", "INTEGER")])

    def batch(value):
        request = BatchWriteRowRequest()
        items = [PutRowItem(Row([("p", "a"), ("n", n)], [("c", value)]), IGNORE) for n in range(rows)]
        request.add(TableInBatchWriteRowItem(table, items))
        return request

    atomic(client, batch(-1))

    def work(own, number):
        for turn in range(20):
            if number == 0:
                low, high = [("p", "a"), ("n", 0)], [("p", "a"), ("n", INF_MAX)]
                _, _, found, _ = own.get_range(table, "FORWARD", low, high)
                assert len(found) == rows and len({row.attribute_columns[0][1] for row in found}) == 1
            else:
                assert atomic(own, batch(number * 100 + turn)).is_all_succeed()
        return True

    together(server, work)
    assert len(scan(client, table, "pn")) == rows
