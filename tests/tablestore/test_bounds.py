"""What one request, and one key, may take of the tables: each refusal, and what goes on beside it."""

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, CastType, ComparatorType, Condition,
    PutRowItem, RegexRule, ReservedThroughput, Row, RowExistenceExpectation, SingleColumnRegexCondition,
    TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from misuse import many
from sdk import IGNORE, STRING_KEY, connect, get, invalid, key, put, refused
from server import Server

TEXT = "abcdefghij" * 100_000
TOO_MUCH = "The total data size that the regular expressions of the filter look at exceeds the limit, limit size: {}, data size: {}."


@pytest.fixture
def bounded(tmp_path):
    """Starts a server with settings, and makes a table."""
    started = []

    def start(**settings):
        environment = {"TIDELINE_" + name.upper(): str(value) for name, value in settings.items()}
        started.append(Server(tmp_path, environment).start())
        client = connect(started[-1])
        client.create_table(TableMeta("bounded", STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        return client

    yield start
    for server in started:
        server.kill()


def expression(pattern, comparator=ComparatorType.NOT_EXIST):
    return SingleColumnRegexCondition("c", comparator, None, RegexRule(pattern, CastType.VT_STRING))


def test_expressions_look_at_so_much_and_no_more(client, table):
    put(client, table, "large", [("c", TEXT)])
    put(client, table, "small", [("c", TEXT[:1000])])
    thirty = [f"(z{number})" for number in range(30)]
    with invalid(TOO_MUCH.format(8_388_608, 30_000_000)):
        get(client, table, "large", column_filter=many(thirty))
    assert get(client, table, "small", column_filter=many(thirty)) is not None
    # An expression of up to 4 KiB counts each byte once, a larger one more often.
    assert get(client, table, "large", column_filter=many(thirty[:8])) is not None
    with refused("OTSParameterInvalid") as caught:
        get(client, table, "large", column_filter=expression(r"(\w{3}z)"))
    assert caught.value.message in [TOO_MUCH.format(8_388_608, times * 1_000_000) for times in (16, 64)]
    with invalid("The total size of the regular expressions of the filter exceeds the limit, limit size: 262144."):
        get(client, table, "small", column_filter=many([rf"(\w{{2}}z{number})" for number in range(30)]))
    batch = BatchGetRowRequest()
    keys = [key(text) for text in ["small", "large", "small"]]
    batch.add(TableInBatchGetRowItem(table, keys, column_filter=many(thirty), max_version=1))
    rows = client.batch_get_row(batch).get_result_by_table(table)
    assert [row.error_code for row in rows] == [None, "OTSParameterInvalid", None]


def test_a_range_ends_its_page_where_expressions_would_look_at_too_much(bounded):
    client = bounded(tablestore_expression_bytes_max=2_500_000)
    for number in range(5):
        put(client, "bounded", f"r{number}", [("c", TEXT)])
    start, found, pages = [("k", INF_MIN)], [], 0
    while start:
        _, start, rows, _ = client.get_range(
            "bounded", "FORWARD", start, [("k", INF_MAX)], column_filter=expression("(z)"), max_version=1
        )
        found += [row.primary_key[0][1] for row in rows]
        pages += 1
    assert (found, pages) == ([f"r{number}" for number in range(5)], 3)
    put(client, "bounded", "r3", [("c", TEXT * 2), ("d", 1)])
    with invalid(TOO_MUCH.format(2_500_000, 4_000_000)):
        both = many(["(y)", "(z)"])
        client.get_range("bounded", "FORWARD", key("r3"), [("k", INF_MAX)], column_filter=both, max_version=1)


def test_conditions_of_writes_count_together(bounded):
    client = bounded(tablestore_expression_bytes_max=2_500_000)
    for number in range(3):
        put(client, "bounded", f"r{number}", [("c", TEXT)])
    condition = Condition(RowExistenceExpectation.IGNORE, expression("(z)"))
    request = BatchWriteRowRequest()
    items = [PutRowItem(Row(key(f"r{number}"), [("d", 1)]), condition) for number in range(3)]
    request.add(TableInBatchWriteRowItem("bounded", items))
    done = client.batch_write_row(request).get_put_by_table("bounded")
    assert [one.is_ok for one in done] == [True, True, False]
    assert (done[2].error_code, done[2].error_message) == ("OTSParameterInvalid", TOO_MUCH.format(2_500_000, 3_000_000))


def test_a_batch_of_reads_has_an_answer_of_a_page(client, table):
    put(client, table, "large", [("c", TEXT)])
    batch = BatchGetRowRequest()
    batch.add(TableInBatchGetRowItem(table, [key("large")] * 100, max_version=1))
    rows = client.batch_get_row(batch).get_result_by_table(table)
    assert 4 <= sum(row.is_ok for row in rows) <= 6
    last = rows[-1]
    assert (last.error_code, last.error_message) == (
        "OTSOutOfRowSizeLimit", "The rows before this one fill the answer; ask for it in another request.",
    )


def test_one_key_opens_its_share_of_transactions(bounded):
    client = bounded(tablestore_transactions_max=8, caller_share_percent=50)
    client.delete_table("bounded")
    meta, reserved = TableMeta("local", STRING_KEY), ReservedThroughput(CapacityUnit(0, 0))
    client.create_table(meta, TableOptions(), reserved)
    opened = [client.start_local_transaction("local", key(f"p{number}")) for number in range(4)]
    with pytest.raises(Exception) as caught:
        client.start_local_transaction("local", key("more"))
    assert caught.value.code == "OTSServerBusy"
    client.abort_transaction(opened.pop())
    opened.append(client.start_local_transaction("local", key("more")))
    # What is outside of them goes on.
    put(client, "local", "other", [("c", 1)])


def test_reads_with_expressions_have_places_of_their_own(bounded):
    client = bounded(tablestore_costly_reads_max=1)
    put(client, "bounded", "large", [("c", TEXT)])
    put(client, "bounded", "small", [("c", "x")], IGNORE)
    # No more than one at a time, and small ones need no such place.
    assert get(client, "bounded", "large", column_filter=expression("(z)")) is not None
    assert get(client, "bounded", "small", column_filter=expression("(z)")) is not None
