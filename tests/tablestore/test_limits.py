"""The limits of the service: what is exactly at one passes, one more is refused with its text, and nothing is written."""

from tablestore import (
    BatchWriteRowRequest, ComparatorType, PutRowItem, Row, SingleColumnCondition, TableInBatchWriteRowItem,
)

from sdk import IGNORE, get, invalid, key, now_ms, put, scan, update, values

VALUE = 2 << 20
REQUEST = 4 << 20


def test_bytes_of_a_key(client, make_table):
    name = make_table([("pk_0", "STRING"), ("pk_1", "BINARY"), ("pk_2", "STRING"), ("pk_3", "STRING")])
    longest = [("pk_0", "x" * 1024), ("pk_1", bytearray(b"\0" * 1024)), ("pk_2", "ä" * 512), ("pk_3", "\xff" * 512)]
    client.put_row(name, Row(longest, [("c", 1)]), IGNORE)
    assert values(client, name, longest) == [("c", 1)]
    assert scan(client, name, ["pk_0", "pk_1", "pk_2", "pk_3"]) == [[value for _, value in longest]]
    for at, value in [(0, "x" * 1025), (1, bytearray(b"\0" * 1025)), (2, "ä" * 512 + "x")]:
        longer = list(longest)
        longer[at] = (longer[at][0], value)
        text = f"The length of primary key column: 'pk_{at}' exceeds the MaxLength:1024 with CurrentLength:1025."
        for attempt in [
            lambda: client.put_row(name, Row(longer, [("c", 1)]), IGNORE),
            lambda: client.update_row(name, Row(longer, {"PUT": [("c", 1)]}), IGNORE),
            lambda: client.delete_row(name, Row(longer), IGNORE),
            lambda: client.get_row(name, longer),
        ]:
            with invalid(text):
                attempt()


def test_bytes_of_a_value(client, table):
    put(client, table, "text", [("attr", "x" * VALUE)])
    assert values(client, table, "text") == [("attr", "x" * VALUE)]
    update(client, table, "bytes", PUT=[("attr", bytearray(VALUE))])
    assert values(client, table, "bytes") == [("attr", bytearray(VALUE))]
    text = "The length of attribute column: 'attr' exceeds the MaxLength:2097152 with CurrentLength:2097153."
    for value in ["x" * (VALUE + 1), bytearray(VALUE + 1)]:
        with invalid(text):
            put(client, table, "a", [("attr", value)])
    with invalid(text):
        update(client, table, "a", PUT=[("attr", "x" * (VALUE + 1))])
    assert get(client, table, "a") is None
    with invalid():
        condition = SingleColumnCondition("attr", "x" * (VALUE + 1), ComparatorType.EQUAL)
        get(client, table, "text", column_filter=condition)


def test_bytes_of_a_write(client, table):
    for operation, attempt in [
        ("PutRow", lambda columns: put(client, table, "a", columns)),
        ("UpdateRow", lambda columns: update(client, table, "a", PUT=columns)),
    ]:
        with invalid() as caught:
            attempt([(name, "x" * (VALUE - 100)) for name in "abc"])
        said = caught.value.message
        assert said.startswith(
            f"The total data size of {operation} request exceeds the limit, limit size: 4194304, data size: 6"
        )
    assert get(client, table, "a") is None


def test_bytes_of_a_batch(client, table):
    def batch(extra):
        # Key's name and value, column's name, and 8 for the version, of each row.
        each = (REQUEST // 4) - len("k") - len("a") - len("c") - 8
        items = [PutRowItem(Row(key(text), [("c", "x" * each)]), IGNORE) for text in "abc"]
        items.append(PutRowItem(Row(key("d"), [("c", "x" * (each + extra))]), IGNORE))
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(table, items))
        return client.batch_write_row(request)

    text = "The total data size of BatchWriteRow request exceeds the limit, limit size: 4194304, data size: 4194305."
    with invalid(text):
        batch(1)
    assert scan(client, table) == []
    assert batch(0).is_all_succeed()
    assert scan(client, table) == [["a"], ["b"], ["c"], ["d"]]


def test_columns_of_a_write(client, table):
    def columns(prefix, count):
        return [(f"{prefix}{number:04}", number) for number in range(count)]

    put(client, table, "a", columns("a", 1024))
    text = "The number of attribute columns exceeds the limit, limit count: 1024, column count: 1025."
    with invalid(text):
        put(client, table, "b", columns("a", 1025))
    with invalid(text):
        update(client, table, "b", PUT=columns("a", 1025))
    assert get(client, table, "b") is None
    # A row may have any number of them.
    for prefix in "bcd":
        update(client, table, "a", PUT=columns(prefix, 1024))
    found = values(client, table, "a")
    assert found == [column for prefix in "abcd" for column in columns(prefix, 1024)]


def test_columns_to_get(client, table):
    put(client, table, "a", [("c0001", 1)])
    names = [f"c{number:04}" for number in range(1025)]
    assert values(client, table, "a", columns_to_get=names[:1024]) == [("c0001", 1)]
    text = "The number of columns from the request exceeds the limit, limit count: 1024, column count: 1025."
    with invalid(text):
        get(client, table, "a", columns_to_get=names)
    with invalid(text):
        scan(client, table, columns_to_get=names)


def test_many_versions(client, make_table):
    name = make_table(max_version=500, max_time_deviation=86400)
    now = now_ms()
    put(client, name, "a", [("c", n, now - n) for n in range(500)])
    put_more = [("c", -n, now + n) for n in range(1, 11)]
    update(client, name, "a", PUT=put_more)
    found = get(client, name, "a", max_version=1000)
    assert [version for _, _, version in found] == [now + 10 - n for n in range(500)]
