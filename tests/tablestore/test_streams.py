"""Streams: enabling and describing them, reading them by iterators, what their records say, and what is refused.

The SDK for Python has none of it: requests are its own signing and sending around bodies that are made here, and answers
are read by the few lines below.
"""

import collections
import os
import struct
import time

import pytest
from tablestore import BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, Row, TableInBatchWriteRowItem
from tablestore import TableMeta, TableOptions, UpdateRowItem, DeleteRowItem

from sdk import IGNORE, atomic, call, connect, field, invalid, key, put, refused, update

PUT, UPDATE, DELETE = 1, 2, 3
DELETE_ALL, DELETE_ONE = 1, 3

Record = collections.namedtuple("Record", "action key cells deleted sequence original")
Page = collections.namedtuple("Page", "records next consumed more")


def fields(message):
    """A protobuf message as {number: [values]}."""
    found, at = collections.defaultdict(list), 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            found[tag >> 3].append(varint())
        else:
            length = varint()
            found[tag >> 3].append(message[at:at + length])
            at += length
    return found


def plain_row(buffer):
    """Key cells, attribute cells as (name, value, operation, version), delete marker and sequence of a PlainBuffer."""
    assert buffer[:4] == struct.pack("<I", 0x75)
    at, key_cells, attributes, deleted, sequence = 4, [], [], False, None
    cells = None

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, buffer, at)
        at += struct.calcsize("<" + form)
        return values[0]

    def text():
        nonlocal at
        length = take("i")
        at += length
        return buffer[at - length:at]

    def value():
        take("i")
        kind = take("B")
        return {0: lambda: take("q"), 1: lambda: take("d"), 2: lambda: bool(take("B")), 3: lambda: text().decode(), 7: text}[kind]()

    while at < len(buffer):
        tag = take("B")
        if tag == 0x01:
            cells = key_cells
        elif tag == 0x02:
            cells = attributes
        elif tag == 0x03:
            assert take("B") == 0x04
            cell = {"name": text().decode(), "value": None, "operation": None, "version": None}
            while (tag := take("B")) != 0x0A:
                if tag == 0x05:
                    cell["value"] = value()
                elif tag == 0x06:
                    cell["operation"] = take("B")
                else:
                    assert tag == 0x07
                    cell["version"] = take("q")
            take("B")
            cells.append(tuple(cell.values()))
        elif tag == 0x08:
            deleted = True
        elif tag == 0x0B:
            take("i")
            assert (take("B"), take("i")) == (0x0C, 19)
            assert take("B") == 0x0D
            epoch = take("i")
            assert take("B") == 0x0E
            micros = take("q")
            assert take("B") == 0x0F
            sequence = (epoch, micros, take("i"))
        else:
            assert tag == 0x09
            take("B")
            assert at == len(buffer)
    return [(name, value) for name, value, _, _ in key_cells], attributes, deleted, sequence


def record(message):
    read = fields(message)
    key_cells, attributes, deleted, sequence = plain_row(read[2][0])
    original = None
    if read[3]:
        of, cells, is_deleted, no_sequence = plain_row(read[3][0])
        assert (of, is_deleted, no_sequence) == (key_cells, False, None)
        original = [(name, value) for name, value, _, _ in cells]
    return Record(read[1][0], key_cells, attributes, deleted, sequence, original)


def specification(enable=True, hours=24, columns=()):
    message = field(1, int(enable)) + (field(2, hours) if hours is not None else b"")
    return message + b"".join(field(3, column) for column in columns)


def specify(client, table, **spec):
    """Asks for a stream; gives the answer's details: enabled, ID, hours, time, columns."""
    answer = call(client, "UpdateTable", field(1, table) + field(4, specification(**spec)))
    return details(fields(answer)[3][0])


def details(message):
    read = fields(message)
    stream = read[2][0].decode() if read[2] else None
    hours, micros = (read[number][0] if read[number] else None for number in (3, 4))
    return bool(read[1][0]), stream, hours, micros, [name.decode() for name in read[5]]


def described(client, table):
    return details(fields(call(client, "DescribeTable", field(1, table)))[5][0])


def list_streams(client, table=None):
    answer = call(client, "ListStream", field(1, table) if table else b"")
    streams = [fields(stream) for stream in fields(answer)[1]]
    return [(one[1][0].decode(), one[2][0].decode(), one[3][0]) for one in streams]


def describe_stream(client, stream, more=b""):
    return fields(call(client, "DescribeStream", field(1, stream) + more))


def shards(client, stream):
    found = describe_stream(client, stream)[6]
    for shard in found:
        assert set(fields(shard)) == {1}, "a shard that no other one was before"
    return [fields(shard)[1][0].decode() for shard in found]


def iterator(client, stream, shard=None, since=None):
    shard = shard or shards(client, stream)[0]
    body = field(1, stream) + field(2, shard) + (field(3, since) if since is not None else b"")
    answer = fields(call(client, "GetShardIterator", body))
    assert not answer[2]
    return answer[1][0].decode()


def records(client, at, limit=None, table=None):
    body = field(1, at) + (field(2, limit) if limit else b"") + (field(3, table) if table else b"")
    answer = fields(call(client, "GetStreamRecord", body))
    consumed = fields(fields(answer[3][0])[1][0])
    found = [record(message) for message in answer[1]]
    return Page(found, answer[2][0].decode(), (consumed[1][0], consumed[2][0]), bool(answer[4][0]))


def follow(client, at, limit=None):
    """All records from an iterator on, and the iterator that comes back equal."""
    found = []
    while True:
        page = records(client, at, limit)
        found += page.records
        assert limit is None or len(page.records) <= limit
        if page.next == at:
            assert (page.records, page.more) == ([], False)
            return found, at
        at = page.next


def enabled(client, table, **spec):
    """A new stream of a table, and an iterator at its beginning."""
    stream = specify(client, table, **spec)[1]
    return stream, iterator(client, stream)


def test_a_stream_is_described_as_it_was_asked_for(client, make_table):
    name = make_table()
    assert described(client, name) == (False, None, None, None, [])
    before = time.time_ns() // 1000
    told = specify(client, name, hours=48, columns=["a", "b"])
    is_enabled, stream, hours, micros, columns = told
    assert (is_enabled, hours, columns) == (True, 48, ["a", "b"])
    assert before - 5_000_000 < micros < before + 60_000_000
    assert described(client, name) == told
    assert list_streams(client, name) == [(stream, name, micros)]
    assert (stream, name, micros) in list_streams(client)
    one = describe_stream(client, stream)
    assert [one[number][0] for number in (1, 2, 3, 4, 5)] == [stream.encode(), 48, name.encode(), micros, 2]
    assert len(shards(client, stream)) == 1 and not one[7]
    # Asked for in another way it is the same stream.
    assert specify(client, name, hours=1) == (True, stream, 1, micros, [])
    assert specify(client, name, enable=False, hours=None) == (False, None, None, None, [])
    assert list_streams(client, name) == []
    again = specify(client, name)
    assert again[1] not in (None, stream) and again[3] > micros


def test_a_table_is_made_with_a_stream(client):
    meta = field(1, "streamed") + field(2, field(1, "k") + field(2, 2))
    options = field(1, 2**64 - 1) + field(2, 1)
    body = field(1, meta) + field(2, field(1, field(1, 0) + field(2, 0))) + field(3, options)
    call(client, "CreateTable", body + field(5, specification(hours=168)))
    try:
        _, stream, hours, _, _ = described(client, "streamed")
        assert hours == 168
        put(client, "streamed", "a", [("c", 1)])
        found, _ = follow(client, iterator(client, stream))
        assert [(one.action, one.key) for one in found] == [(PUT, [("k", "a")])]
    finally:
        client.delete_table("streamed")
    assert (stream, "streamed") not in [one[:2] for one in list_streams(client)]


@pytest.mark.parametrize("hours", [None, 0, 169, 2**64 - 1])
def test_no_stream_lives_for(client, table, hours):
    with invalid("Invalid stream expiration time."):
        specify(client, table, hours=hours)
    with invalid("Invalid column name: '#a'."):
        specify(client, table, columns=["#a"])
    with invalid("The number of original columns of a stream must be in range: [0, 32]."):
        specify(client, table, columns=[f"c{number}" for number in range(33)])
    assert described(client, table)[0] is False


def test_records_say_what_was_done(client, make_table):
    name = make_table(max_version=3)
    _, begin = enabled(client, name)
    before = time.time_ns() // 1000
    put(client, name, "a", [("text", "x"), ("old", 1.5, int(time.time() * 1000) - 5), ("flag", True), ("raw", bytearray(b"\0"))])
    update(client, name, "a", PUT=[("text", "y")], INCREMENT=[("n", 7)])
    update(client, name, "a", DELETE=[("old", None, 1)], DELETE_ALL=["flag"])
    client.delete_row(name, Row(key("a")), IGNORE)
    first, second, third, last = follow(client, begin)[0]
    assert [one.action for one in (first, second, third, last)] == [PUT, UPDATE, UPDATE, DELETE]
    assert all(one.key == [("k", "a")] and one.original is None for one in (first, second, third, last))
    values = {cell: (value, operation) for cell, value, operation, _ in first.cells}
    assert values == {"text": ("x", None), "old": (1.5, None), "flag": (True, None), "raw": (b"\0", None)}
    versions = {cell: version for cell, _, _, version in first.cells}
    assert versions["text"] == versions["flag"] == versions["old"] + 5 or versions["text"] >= versions["old"] + 5
    assert [cell[:3] for cell in second.cells] == [("n", 7, None), ("text", "y", None)]
    assert ("flag", None, DELETE_ALL, None) in third.cells
    assert ("old", None, DELETE_ONE, 1) in third.cells
    assert (last.cells, last.deleted) == ([], True)
    assert not any(one.deleted for one in (first, second, third))
    sequences = [one.sequence for one in (first, second, third, last)]
    assert sequences == sorted(set(sequences))
    assert all(epoch == 0 and row == 0 and before - 5_000_000 < at < before + 60_000_000 for epoch, at, row in sequences)


def test_rows_of_one_write_have_numbers_and_their_own_content(client, make_table):
    name = make_table()
    _, begin = enabled(client, name, columns=["c"])
    request = BatchWriteRowRequest()
    request.add(TableInBatchWriteRowItem(name, [
        PutRowItem(Row(key("a"), [("c", 1)]), IGNORE),
        PutRowItem(Row(key("a"), [("c", 2), ("d", 0)]), IGNORE),
        UpdateRowItem(Row(key("a"), {"PUT": [("c", 3)]}), IGNORE),
        DeleteRowItem(Row(key("a")), IGNORE),
        PutRowItem(Row(key("a"), [("c", 4)]), IGNORE),
    ]))
    assert atomic(client, request).is_all_succeed()
    found, _ = follow(client, begin, 2)
    assert [one.action for one in found] == [PUT, PUT, UPDATE, DELETE, PUT]
    assert [dict(cell[:2] for cell in one.cells).get("c") for one in found] == [1, 2, 3, None, 4]
    assert [one.original for one in found] == [None, [("c", 1)], [("c", 2)], [("c", 3)], None]
    assert [one.sequence[2] for one in found] == [0, 1, 2, 3, 4]
    assert len({one.sequence[:2] for one in found}) == 1


def test_original_columns_are_those_before_the_change(client, make_table):
    name = make_table(max_version=2)
    put(client, name, "a", [("x", 1), ("y", 2), ("z", 3)])
    _, begin = enabled(client, name, columns=["y", "x", "none"])
    update(client, name, "a", PUT=[("x", 10)])
    update(client, name, "a", PUT=[("z", 30)], DELETE_ALL=["y"])
    put(client, name, "a", [("z", 4)])
    put(client, name, "a", [])
    client.delete_row(name, Row(key("a")), IGNORE)
    client.delete_row(name, Row(key("a")), IGNORE)
    assert [one.original for one in follow(client, begin)[0]] == [
        [("x", 1), ("y", 2)], [("x", 10), ("y", 2)], [("x", 10)], [], [], None,
    ]


def test_reading_keeps_nothing_and_iterators_stand_still_at_the_end(client, make_table):
    name = make_table()
    stream, begin = enabled(client, name)
    other = make_table()
    specify(client, other)
    assert records(client, begin) == Page([], begin, (1, 0), False) or records(client, begin).next == begin
    for number in range(7):
        put(client, name, str(number), [("c", number)])
        put(client, other, str(number), [("c", -number)])
    page = records(client, begin, 3)
    assert [one.key for one in page.records] == [key(str(number)) for number in range(3)]
    assert page.more and page.next != begin
    assert records(client, begin, 3) == page
    found, end = follow(client, begin, 3)
    assert [one.key for one in found] == [key(str(number)) for number in range(7)]
    put(client, other, "later", [])
    assert records(client, end).next == end
    put(client, name, "later", [])
    assert [one.key for one in records(client, end, table=name).records] == [key("later")]
    assert follow(client, begin)[0][:7] == found
    # From a time on: at or after.
    third = found[3].sequence[1]
    assert follow(client, iterator(client, stream, since=third))[0][0] == found[3]
    assert follow(client, iterator(client, stream, since=third + 1))[0][0] == found[4]
    assert follow(client, iterator(client, stream, since=0))[0][:7] == found
    assert follow(client, iterator(client, stream, since=2**63 - 1))[0] == []


def test_writes_before_and_after_a_stream_are_not_in_it(client, table):
    put(client, table, "before")
    first, begin = enabled(client, table)
    put(client, table, "first")
    assert [one.key for one in follow(client, begin)[0]] == [key("first")]
    specify(client, table, enable=False)
    put(client, table, "between")
    second, again = enabled(client, table)
    put(client, table, "second")
    assert [one.key for one in follow(client, again)[0]] == [key("second")]
    assert first != second
    trimmed = "Requested stream data is already trimmed or does not exist."
    with refused("OTSTrimmedDataAccess", trimmed):
        records(client, begin)
    with invalid("Invalid shard iterator."):
        records(client, again.replace(second, first))
    client.delete_table(table)
    with refused("OTSTrimmedDataAccess", trimmed):
        records(client, again)


def test_what_is_not_there_and_what_is_malformed(client, make_table):
    name, other = make_table(), make_table()
    stream, begin = enabled(client, name)
    shard = shards(client, stream)[0]
    missing = "Requested stream does not exist."
    for attempt in [lambda: describe_stream(client, "none"), lambda: iterator(client, "none", shard)]:
        with refused("OTSObjectNotExist", missing):
            attempt()
    no_shard = "Requested stream shard does not exist."
    for attempt in [
        lambda: iterator(client, stream, "none"),
        lambda: iterator(client, stream, shard[:-1] + "7"),
        lambda: iterator(client, stream, "0" * 32 + "-0"),
        lambda: describe_stream(client, stream, field(2, "none")),
    ]:
        with refused("OTSObjectNotExist", no_shard):
            attempt()
    with refused("OTSObjectNotExist", "Requested table does not exist."):
        list_streams(client, "no_such_table")
    for at in ["", "none", begin + ".0", begin + "0" * 30, begin.upper() + "-", begin.rsplit(".", 2)[0] + ".0.0"]:
        with invalid("Invalid shard iterator."):
            records(client, at)
    # Whether there is a table of another name is not told: it may be hidden from the caller.
    for another in [other, "no_such_table"]:
        with refused("OTSTrimmedDataAccess"):
            records(client, begin, table=another)
    with invalid("The limit must be greater than 0."):
        call(client, "GetStreamRecord", field(1, begin) + field(2, 2**64 - 1))
    with invalid("The limit must be greater than 0."):
        describe_stream(client, stream, field(3, 0) if False else field(3, 2**64 - 1))
    with invalid("Invalid timestamp."):
        iterator(client, stream, since=2**64 - 1)
    with invalid("Invalid token."):
        call(client, "GetShardIterator", field(1, stream) + field(2, shard) + field(4, "t"))
    for operation in ["DescribeStream", "GetShardIterator", "GetStreamRecord"]:
        with invalid("Parse PBMessage from RawString failed."):
            call(client, operation, b"")
    for timelines in ["timeline_message", "timeline_meta"]:
        with refused("OTSNoPermissionAccess"):
            specify(client, timelines)


def test_a_stream_has_a_shard_for_each_partition_and_outlives_the_server(own_server):
    own_server.config = "partitions = 3\n"
    client = connect(own_server.start())
    client.create_table(TableMeta("t", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    stream = specify(client, "t")[1]
    names = shards(client, stream)
    assert len(set(names)) == 3
    page = describe_stream(client, stream, field(2, names[1]) + field(3, 1))
    assert [fields(shard)[1][0].decode() for shard in page[6]] == [names[1]]
    assert page[7][0].decode() == names[2]
    begins = [iterator(client, stream, name) for name in names]
    for number in range(60):
        put(client, "t", str(number), [("c", number)])
    before = [follow(client, begin) for begin in begins]
    assert all(found for found, _ in before)
    assert sorted(one.key[0][1] for found, _ in before for one in found) == sorted(map(str, range(60)))
    own_server.kill()
    client = connect(own_server.start())
    assert shards(client, stream) == names
    assert [follow(client, begin) for begin in begins] == before
    put(client, "t", "later")
    assert [one.key for _, end in before for one in follow(client, end)[0]] == [key("later")]


def test_an_iterator_is_taken_only_as_it_was_given(own_server):
    """Also in a directory from before iterators were sealed: there no place is taken that was never reached."""
    client = connect(own_server.start())
    client.create_table(TableMeta("t", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    stream = specify(client, "t")[1]
    begin = iterator(client, stream)
    put(client, "t", "a")
    begun, _, seal = begin.partition("~")
    before = begun.rsplit(".", 2)[0]
    numbers = [2**64 - 1, 2**64 - 2, 2**64 - 1_024, 2**63, 2**53, 1_000]
    far = [f"{before}.{position}.{index}" for position in numbers for index in (0, 2**32 - 1)]
    for _ in range(2):
        for text in far + [f"{text}~{seal}" for text in [*far, f"{before}.1.0"]]:
            with invalid("Invalid shard iterator."):
                records(client, text)
        own_server.stop()
        key_file = os.path.join(own_server.data, "positions.key")
        if os.path.exists(key_file):
            os.remove(key_file)
        client = connect(own_server.start())
    assert len(records(client, begun).records) == 1
