"""Time series through the SDK: points, pages, what is known of series, limits, and tables that others do not see.

Owns: these, against a plain model of what was written. The SDK's own tests are in test_official.py. The SDK can't read
failed rows (it makes its result without what that needs), so these are read by its messages here.
"""

import operator
import os
import random
import subprocess
import threading
import time

import pytest
from tablestore import (
    CapacityUnit, OTSServiceError, ReservedThroughput, TableMeta, TableOptions, TimeseriesKey, TimeseriesRow, TimeseriesTableMeta,
)
from tablestore import metadata
from tablestore.protobuf import timeseries_pb2 as pb
from tablestore.timeseries_condition import (
    AttributeMetaQueryCondition, CompositeMetaQueryCondition, DataSourceMetaQueryCondition, MeasurementMetaQueryCondition,
    MetaQueryCompositeOperator, MetaQuerySingleOperator, TagMetaQueryCondition, UpdateTimeMetaQueryCondition,
)

from sdk import STRING_KEY, call, connect, invalid, refused
from test_access import house, rpc  # noqa: F401, pytest finds the fixture here
from test_partitions import leaves, served, verified

DAY_S = 86_400
NOW_US = int(time.time() * 1_000_000)
SOURCE_TEXT = "The length of the data source exceeds the MaxLength:256 with CurrentLength:257."
COMPARE = {
    "OP_EQUAL": operator.eq, "OP_GREATER_THAN": operator.gt, "OP_GREATER_EQUAL": operator.ge, "OP_LESS_THAN": operator.lt,
    "OP_LESS_EQUAL": operator.le, "OP_PREFIX": lambda value, prefix: value.startswith(prefix),
}


def named(measurement="m", source="", **tags):
    return TimeseriesKey(measurement, source, tags)


def make(client, name, life_s=-1, metas=None, keys=None, fields=None):
    options = metadata.TimeseriesTableOptions(life_s)
    meta = TimeseriesTableMeta(name, options, metas and metadata.TimeseriesMetaOptions(*metas), keys, fields)
    client.create_timeseries_table(metadata.CreateTimeseriesTableRequest(meta))


@pytest.fixture
def series(client, request):
    """A table of series that no other test has."""
    name = "series_" + request.node.name.split("[")[0][5:40]
    make(client, name)
    yield name
    client.delete_timeseries_table(name)


def point(client, table, key, at, **fields):
    client.put_timeseries_data(table, [TimeseriesRow(key, fields, at)])


def pages(client, table, key, limit=0, **options):
    """All points that are asked for, page by page, as (time, fields)."""
    asked = metadata.GetTimeseriesDataRequest(table, key, 0, 2**62, limit)
    for name, value in options.items():
        setattr(asked, name, value)
    found, many = [], True
    while many:
        page = client.get_timeseries_data(asked)
        rows = page.rows or []
        assert not limit or len(rows) <= limit
        for row in rows:
            assert row.timeseries_key.tags == key.tags
        found += [(row.time_in_us, row.fields) for row in rows]
        asked.nextToken = page.nextToken
        many = page.nextToken is not None
    return found


def identity(key):
    return key.measurement_name or "", key.data_source or "", tuple(sorted((key.tags or {}).items()))


def query(client, table, condition=None, limit=None):
    """The series that are found, by their names, with their attributes."""
    asked = metadata.QueryTimeseriesMetaRequest(table, condition, True, limit)
    found = {}
    while True:
        page = client.query_timeseries_meta(asked)
        for meta in page.timeseriesMetas:
            name = identity(meta.timeseries_key)
            assert name not in found
            found[name] = meta.attributes or {}
        asked.nextToken = page.nextToken
        if page.nextToken is None:
            assert page.totalHits == len(found)
            return found


def failed(client, operation, *asked):
    """What a request answers about its failed rows."""
    body = client.protocol.encoder.encode_request(operation, *asked).SerializeToString()
    own = client.protocol.encoder.api_encode_map[operation], client.protocol.decoder.api_decode_map[operation]
    try:
        message = pb.PutTimeseriesDataResponse.FromString(call(client, operation, body))
    finally:
        client.protocol.encoder.api_encode_map[operation], client.protocol.decoder.api_decode_map[operation] = own
    return [(row.row_index, row.error_code, row.error_message) for row in message.failed_rows]


def test_points_are_replaced_and_read_with_their_types(client, series):
    key = named("cpu", "host", os="é, \\ and more", n="1")
    fields = {"l": -(2**63), "d": 0.25, "b": True, "s": "温度\t\"", "y": bytearray(b"\x00\xff")}
    point(client, series, key, 1, **fields)
    assert pages(client, series, TimeseriesKey("cpu", "host", key.tags | {"os": "x"})) == []
    (at, got), = client_rows(client, series, key)
    assert (at, got) == (1, fields)
    # A point replaces the one of its time, with all its fields.
    point(client, series, key, 1, l="text now")
    assert client_rows(client, series, key) == [(1, {"l": "text now"})]
    assert pages_of_types(client, series, key, l=4) == [(1, {"l": "text now"})]
    assert pages_of_types(client, series, key, l=1) == []
    # Of two points of one time in a request the last counts.
    client.put_timeseries_data(series, [TimeseriesRow(key, {"l": number}, 2) for number in range(5)])
    assert client_rows(client, series, key)[1] == (2, {"l": 4})


def client_rows(client, table, key):
    """As `pages`, but the SDK can't take tags with commas apart."""
    body = pb.GetTimeseriesDataRequest(table_name=table, begin_time=0, end_time=2**62, supported_table_version=1)
    client.protocol.encoder._make_timeseries_key(body.time_series_key, key)
    answer = pb.GetTimeseriesDataResponse.FromString(raw(client, "GetTimeseriesData", body))
    from tablestore.plainbuffer.plain_buffer_coded_stream import PlainBufferCodedInputStream
    from tablestore.plainbuffer.plain_buffer_stream import PlainBufferInputStream

    rows = PlainBufferCodedInputStream(PlainBufferInputStream(answer.rows_data)).read_rows() if answer.rows_data else []
    found = []
    for row in rows:
        told = dict((cell[0], cell[1]) for cell in row.primary_key)
        assert (told["_m_name"], told["_data_source"]) == (key.measurement_name, key.data_source)
        assert told["_tags"] == "[" + ",".join(f'"{name}={value}"' for name, value in sorted(key.tags.items())) + "]"
        found.append((told["_time"], {cell[0].split(":")[0]: cell[1] for cell in row.attribute_columns}))
    return found


def pages_of_types(client, table, key, **kinds):
    body = pb.GetTimeseriesDataRequest(table_name=table, begin_time=0, end_time=2**62, supported_table_version=1)
    client.protocol.encoder._make_timeseries_key(body.time_series_key, key)
    for name, kind in kinds.items():
        body.fields_to_get.add(name=name, type=kind)
    answer = pb.GetTimeseriesDataResponse.FromString(raw(client, "GetTimeseriesData", body))
    return client_rows(client, table, key)[:1] if answer.rows_data else []


def raw(client, operation, body):
    own = client.protocol.encoder.api_encode_map[operation], client.protocol.decoder.api_decode_map[operation]
    try:
        return call(client, operation, body.SerializeToString())
    finally:
        client.protocol.encoder.api_encode_map[operation], client.protocol.decoder.api_decode_map[operation] = own


@pytest.mark.parametrize("fields", [None, [("g", "INTEGER"), ("h", "STRING")]])
def test_pages_either_way_are_those_of_a_plain_list(client, request, fields):
    table = "series_pages" if fields is None else "series_pages_of_keys"
    make(client, table, keys=["_m_name", "a"], fields=fields)
    dice, model = random.Random(7), {}
    keys = [TimeseriesKey("m", None, {"a": str(number)}) for number in range(3)]
    for number in range(90):
        key, at, g = dice.choice(keys), dice.randrange(30), dice.randrange(3)
        told = {"v": number, **({"g": g, "h": "x" * g} if fields else {})}
        point(client, table, key, at, **told)
        model[identity(key), at, g if fields else 0] = told
    for key in keys:
        own = [(at, told) for (name, at, _), told in sorted(model.items()) if name == identity(key)]
        for begin, end, limit in [(0, 2**62, 0), (0, 2**62, 7), (0, 2, 1), (5, 17, 0), (5, 17, 3), (29, 30, 1), (30, 31, 0)]:
            inside = [(at, told) for at, told in own if begin <= at < end]
            times = {"beginTimeInUs": begin, "endTimeInUs": end}
            assert pages(client, table, key, limit, **times) == inside
            assert pages(client, table, key, limit, backward=True, **times) == inside[::-1]
        wanted = [(at, {name: told[name] for name in told if name != "w"}) for at, told in own]
        assert pages(client, table, key, 7, fieldsToGet={"v": 1}) == wanted
        assert pages(client, table, key, 7, fieldsToGet={"w": 1}) == []
    # A token goes on with what was asked for, and with nothing else.
    first = client.get_timeseries_data(metadata.GetTimeseriesDataRequest(table, keys[0], 0, 2**62, 1))
    for asked in [
        metadata.GetTimeseriesDataRequest(table, keys[1], 0, 2**62, 1, first.nextToken),
        metadata.GetTimeseriesDataRequest(table, keys[0], 0, 1, 1, first.nextToken),
        metadata.GetTimeseriesDataRequest(table, keys[0], 0, 2**62, 1, b"\x01nonsense"),
        metadata.GetTimeseriesDataRequest(table, keys[0], 0, 2**62, 1, b"\x02" + first.nextToken[1:]),
        metadata.GetTimeseriesDataRequest(table, keys[0], 0, 2**62, 1, b""),
    ]:
        with invalid("Invalid token."):
            client.get_timeseries_data(asked)
    client.delete_timeseries_table(table)


def condition_of(dice, depth=2):
    """A condition for the SDK, and the same as a function of what is known of a series."""
    if depth and dice.random() < 0.5:
        how = dice.choice(["AND", "OR", "NOT"])
        parts = [condition_of(dice, depth - 1) for _ in range(1 if how == "NOT" else dice.randrange(1, 4))]
        fold = {"AND": all, "OR": any, "NOT": lambda held: not any(held)}[how]
        asked = CompositeMetaQueryCondition(MetaQueryCompositeOperator[f"OP_{how}"], [asked for asked, _ in parts])
        return asked, lambda meta: fold([holds(meta) for _, holds in parts])
    name = dice.choice(list(COMPARE))
    compare, op = COMPARE[name], MetaQuerySingleOperator[name]
    value = dice.choice(["", "a", "aa", "b", "ba", "c", "é"])
    kind = dice.choice(["measurement", "source", "tag", "attribute"])
    if kind == "measurement":
        return MeasurementMetaQueryCondition(op, value), lambda meta: compare(meta[0][0], value)
    if kind == "source":
        return DataSourceMetaQueryCondition(op, value), lambda meta: compare(meta[0][1], value)
    tag = dice.choice(["t", "tt", "u"])
    if kind == "tag":
        return TagMetaQueryCondition(op, tag, value), lambda meta: tag in dict(meta[0][2]) and compare(dict(meta[0][2])[tag], value)
    return AttributeMetaQueryCondition(op, tag, value), lambda meta: tag in meta[1] and compare(meta[1][tag], value)


@pytest.mark.parametrize("keys", [None, ["u", "_data_source", "_m_name", "_tags"]])
def test_series_are_found_as_in_a_plain_list(client, keys):
    table = "series_conditions" if keys is None else "series_conditions_of_keys"
    make(client, table, keys=keys)
    dice, model = random.Random(11), {}
    text = lambda: "".join(dice.choices("abcé", k=dice.randrange(1, 3)))  # noqa: E731
    for number in range(60):
        tags = {name: text() for name in ["t", "tt", "u"] if name == "u" or dice.random() < 0.6}
        key = TimeseriesKey(text(), dice.choice(["", text()]), tags)
        attributes = {name: text() for name in ["t", "u"] if dice.random() < 0.5}
        if number % 3:
            point(client, table, key, number, v=number)
            model.setdefault(identity(key), {})
        if number % 3 != 1:
            client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest(table, [metadata.TimeseriesMeta(key, attributes)]))
            model[identity(key)] = attributes
        if number % 7 == 6:
            client.delete_timeseries_meta(metadata.DeleteTimeseriesMetaRequest(table, [key]))
            del model[identity(key)]
    assert query(client, table) == query(client, table, limit=7) == model
    for _ in range(80):
        asked, holds = condition_of(dice)
        expected = {name: attributes for name, attributes in model.items() if holds((name, attributes))}
        assert query(client, table, asked, dice.choice([None, 7])) == expected, vars(asked)
    for op, count in [("OP_GREATER_THAN", 0), ("OP_LESS_EQUAL", len(model))]:
        later = UpdateTimeMetaQueryCondition(MetaQuerySingleOperator[op], int(time.time() * 1_000_000) + 1_000)
        assert len(query(client, table, later)) == count
    # Series that were deleted keep their points, and come back with the next one.
    gone = TimeseriesKey("gone", "", {"u": "x"})
    point(client, table, gone, 1, v=1)
    client.delete_timeseries_meta(metadata.DeleteTimeseriesMetaRequest(table, [gone]))
    assert identity(gone) not in query(client, table)
    assert pages(client, table, gone) == [(1, {"v": 1})]
    point(client, table, gone, 2, v=2)
    assert identity(gone) in query(client, table)
    client.delete_timeseries_table(table)


def test_a_series_keeps_its_attributes_and_is_not_noted_where_that_is_not_wanted(client, series):
    key = named(a="1")
    client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest(series, [metadata.TimeseriesMeta(key, {"x": "C:\\y z"})]))
    point(client, series, key, 1, v=1)
    body = pb.QueryTimeseriesMetaResponse.FromString(raw(client, "QueryTimeseriesMeta", pb.QueryTimeseriesMetaRequest(table_name=series)))
    meta, = body.timeseries_metas
    assert meta.attributes == '["x=C:\\y z"]' and not body.HasField("total_hit")
    assert abs(meta.update_time - time.time() * 1_000_000) < 60_000_000
    put = client.protocol.encoder._encode_put_timeseries_data(series, [TimeseriesRow(named("quiet"), {"v": 1}, 1)])
    put.meta_update_mode = pb.MUM_IGNORE
    raw(client, "PutTimeseriesData", put)
    assert pages(client, series, named("quiet")) == [(1, {"v": 1})]
    assert len(query(client, series)) == 1


LIMITS = {
    "measurement": (lambda n: TimeseriesRow(named("m" * n), {"v": 1}, 1), 128, "Invalid measurement name: '" + "m" * 129 + "'."),
    "source": (lambda n: TimeseriesRow(named("m", "s" * n), {"v": 1}, 1), 256, SOURCE_TEXT),
    "tags": (
        lambda n: TimeseriesRow(named(k="v" * (n - 6)), {"v": 1}, 1), 512,
        "The length of the tags exceeds the MaxLength:512 with CurrentLength:513.",
    ),
    "field": (lambda n: TimeseriesRow(named(), {"f" * n: 1}, 1), 128, "Invalid field name: '" + "f" * 129 + "'."),
    "fields": (
        lambda n: TimeseriesRow(named(), {f"f{number}": 1 for number in range(n)}, 1), 1024,
        "The number of attribute columns exceeds the limit, limit count: 1024, column count: 1025.",
    ),
    "text": (
        lambda n: TimeseriesRow(named(), {"f": "x" * n}, 1), 2 << 20,
        "The length of attribute column: 'f' exceeds the MaxLength:2097152 with CurrentLength:2097153.",
    ),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_point_has_the_documented_limits(client, series, what):
    build, most, text = LIMITS[what]
    client.put_timeseries_data(series, [build(most)])
    with invalid(text):
        client.put_timeseries_data(series, [build(most + 1)])


@pytest.mark.parametrize("row, text", [
    (TimeseriesRow(named("a b"), {"v": 1}, 1), "Invalid measurement name: 'a b'."),
    (TimeseriesRow(named("a#b"), {"v": 1}, 1), "Invalid measurement name: 'a#b'."),
    (TimeseriesRow(named(""), {"v": 1}, 1), "Invalid measurement name: ''."),
    (TimeseriesRow(named(k='"'), {"v": 1}, 1), "Invalid tag or attribute: 'k'."),
    (TimeseriesRow(named(k="a=b"), {"v": 1}, 1), "Invalid tag or attribute: 'k'."),
    (TimeseriesRow(named(k=""), {"v": 1}, 1), "Invalid tag or attribute: 'k'."),
    (TimeseriesRow(named(é="1"), {"v": 1}, 1), "Invalid tag or attribute: 'é'."),
    (TimeseriesRow(named(), {"V": 1}, 1), "Invalid field name: 'V'."),
    (TimeseriesRow(named(), {"1v": 1}, 1), "Invalid field name: '1v'."),
    (TimeseriesRow(named(), {"_time": 1}, 1), "Invalid field name: '_time'."),
    (TimeseriesRow(named(), {}, 1), "No field is specified in a row."),
    (TimeseriesRow(named(), {"v": 1}, -1), "Invalid time of a row: -1."),
    (TimeseriesRow(named(), {"v": float("nan")}, 1), "NaN can't be set to double value."),
])
def test_a_point_that_breaks_a_rule(client, series, row, text):
    good = TimeseriesRow(named(), {"v": 1}, 1)
    with invalid(text):
        client.put_timeseries_data(series, [good, row])
    # It refuses all, as a batch of rows with a malformed one is refused.
    assert pages(client, series, named()) == []


def test_a_request_has_the_documented_limits(client, series):
    rows = [TimeseriesRow(named(), {"v": number}, number) for number in range(201)]
    client.put_timeseries_data(series, rows[:200])
    with invalid("Rows count exceeds the upper limit: 200."):
        client.put_timeseries_data(series, rows)
    with invalid("No row is specified in the request."):
        client.put_timeseries_data(series, [])
    large = [TimeseriesRow(named("large"), {"v": "x" * (2 << 20)}, number) for number in range(3)]
    client.put_timeseries_data(series, [TimeseriesRow(named("large"), {"v": "x" * ((2 << 20) - 16)}, at) for at in range(2)])
    with refused("OTSParameterInvalid") as caught:
        client.put_timeseries_data(series, large)
    assert caught.value.message.startswith("The total data size of the request exceeds the limit, limit size: 4194304")
    keys = [named(str(number)) for number in range(201)]
    for request in [
        lambda some: client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest(series, [metadata.TimeseriesMeta(key, {"a": "b"}) for key in some])),
        lambda some: client.delete_timeseries_meta(metadata.DeleteTimeseriesMetaRequest(series, some)),
    ]:
        request(keys[:200])
        with invalid("Rows count exceeds the upper limit: 200."):
            request(keys)
        with invalid("No row is specified in the request."):
            request([])
    for limit, least in [(5_000, 5_001), (1, -2)]:
        asked = metadata.GetTimeseriesDataRequest(series, named(), 0, 1, limit)
        assert len(client.get_timeseries_data(asked).rows) == 1
        body = client.protocol.encoder._encode_get_timeseries_data(asked)
        body.limit = least
        with invalid("Limit must be in range: [1, 5000]."):
            raw(client, "GetTimeseriesData", body)
    client.query_timeseries_meta(metadata.QueryTimeseriesMetaRequest(series, limit=1_000))
    with invalid("Limit must be in range: [1, 1000]."):
        client.query_timeseries_meta(metadata.QueryTimeseriesMetaRequest(series, limit=1_001))
    for begin, end in [(1, 1), (2, 1), (-1, 5)]:
        with invalid("Begin time must not be negative and must be less than end time."):
            client.get_timeseries_data(metadata.GetTimeseriesDataRequest(series, named(), begin, end))


def nest(depth, op=MetaQueryCompositeOperator.OP_NOT):
    asked = MeasurementMetaQueryCondition(MetaQuerySingleOperator.OP_EQUAL, "m")
    for _ in range(depth - 1):
        asked = CompositeMetaQueryCondition(op, [asked])
    return asked


def test_conditions_are_bounded(client, series):
    many = [MeasurementMetaQueryCondition(MetaQuerySingleOperator.OP_EQUAL, str(number)) for number in range(100)]
    any_of = MetaQueryCompositeOperator.OP_OR
    query(client, series, nest(10))
    query(client, series, CompositeMetaQueryCondition(any_of, many[:99]))
    for wrong in [
        nest(11), CompositeMetaQueryCondition(any_of, many), CompositeMetaQueryCondition(any_of, []),
        CompositeMetaQueryCondition(MetaQueryCompositeOperator.OP_NOT, many[:2]),
        UpdateTimeMetaQueryCondition(MetaQuerySingleOperator.OP_PREFIX, 1),
    ]:
        with invalid("Invalid condition of metadata."):
            query(client, series, wrong)
    # A token of another query.
    for number in range(3):
        point(client, series, named(str(number)), 1, v=1)
    first = client.query_timeseries_meta(metadata.QueryTimeseriesMetaRequest(series, limit=1))
    with refused("OTSParameterInvalid"):
        client.query_timeseries_meta(metadata.QueryTimeseriesMetaRequest(series, many[0], limit=1, nextToken=first.nextToken))


def test_broken_rows_are_refused(client, series):
    put = client.protocol.encoder._encode_put_timeseries_data(series, [TimeseriesRow(named(), {"v": 1}, 1)])
    put.rows_data.flatbuffer_crc32c += 1
    with invalid("Check crc32c of rows data failed."):
        raw(client, "PutTimeseriesData", put)
    put.rows_data.ClearField("flatbuffer_crc32c")
    whole, dice = put.rows_data.rows_data, random.Random(3)
    for length in range(0, len(whole) // 2, 5):
        put.rows_data.rows_data = whole[:length]
        with refused("OTSParameterInvalid"):
            raw(client, "PutTimeseriesData", put)
    for _ in range(100):
        broken = bytearray(whole)
        broken[dice.randrange(len(broken))] = dice.randrange(256)
        put.rows_data.rows_data = bytes(broken[: len(broken) - dice.randrange(3)])
        try:
            raw(client, "PutTimeseriesData", put)
        except OTSServiceError as error:
            assert error.code == "OTSParameterInvalid", error
    put.rows_data.type = pb.RST_PLAIN_BUFFER
    with refused("OTSUnsupportOperation"):
        raw(client, "PutTimeseriesData", put)


def test_points_that_have_expired_fail_alone(client):
    table = "series_of_a_day"
    make(client, table, life_s=DAY_S)
    rows = [TimeseriesRow(named(), {"v": at}, NOW_US - at * DAY_S * 400_000) for at in range(4)]
    gone = failed(client, "PutTimeseriesData", table, rows)
    assert gone == [(3, "OTSParameterInvalid", "Invalid timestamp. Cell:v:long.")]
    assert [told["v"] for _, told in pages(client, table, named())] == [2, 1, 0]
    client.update_timeseries_table(TimeseriesTableMeta(table, metadata.TimeseriesTableOptions(2 * DAY_S)))
    assert failed(client, "PutTimeseriesData", table, rows) == []
    client.update_timeseries_table(TimeseriesTableMeta(table, metadata.TimeseriesTableOptions(DAY_S)))
    assert [told["v"] for _, told in pages(client, table, named())] == [2, 1, 0]
    client.delete_timeseries_table(table)


def test_tables_have_the_documented_limits(client):
    make(client, "s" * 128)
    client.delete_timeseries_table("s" * 128)
    for name in ["s" * 129, "1s", "s-s", ""]:
        with invalid(f"Invalid table name: '{name}'."):
            make(client, name)
    six, four = [f"k{number}" for number in range(6)], [(f"f{number}", "INTEGER") for number in range(4)]
    make(client, "series_wide", keys=six, fields=four)
    client.delete_timeseries_table("series_wide")
    for options, text in [
        ({"keys": [*six, "k6"]}, "The number of timeseries key columns must be in range: [0, 6]."),
        ({"fields": [*four, ("f4", "INTEGER")]}, "The number of field primary key columns must be in range: [0, 4]."),
        ({"keys": ["K"]}, "Invalid field name: 'K'."),
        ({"keys": ["a", "a"]}, "Duplicated name: 'a'."),
        ({"keys": ["a"], "fields": [("a", "STRING")]}, "Duplicated name: 'a'."),
        ({"fields": [("_tags", "STRING")]}, "Invalid field name: '_tags'."),
        ({"life_s": DAY_S - 1}, "TimeToLive must be -1 or not less than 86400."),
        ({"life_s": 0}, "TimeToLive must be -1 or not less than 86400."),
        ({"metas": (604_799, False)}, "TimeToLive must be -1 or not less than 604800."),
        ({"life_s": DAY_S, "metas": (604_800, True)}, METAS_LIFE),
        ({"metas": (604_800, False)}, METAS_LIFE),
        ({"life_s": 604_801, "metas": (604_800, False)}, METAS_LIFE),
    ]:
        with invalid(text):
            make(client, "series_wrong", **options)
    for stores, lastpoints in [([metadata.TimeseriesAnalyticalStore("a")], None), (None, [metadata.LastpointIndexMeta("l")])]:
        with refused("OTSUnsupportOperation"):
            meta = TimeseriesTableMeta("series_wrong")
            client.create_timeseries_table(metadata.CreateTimeseriesTableRequest(meta, stores, lastpoints))
    assert "series_wrong" not in [table.timeseries_table_name for table in client.list_timeseries_table()]


METAS_LIFE = "TimeToLive of metadata needs allow_update_attributes to be false and must not be less than that of the data."


def test_tables_are_described_and_changed(client):
    make(client, "series_told", 2 * DAY_S, (604_800, False), ["a", "_tags"], [("g", "INTEGER")])
    told = client.describe_timeseries_table("series_told").table_meta
    assert (told.timeseries_keys, told.field_primary_keys, told.status) == (["a", "_tags"], [("g", "INTEGER")], "CREATED")
    assert told.timeseries_table_options.time_to_live == 2 * DAY_S
    assert (told.timeseries_meta_options.meta_time_to_live, told.timeseries_meta_options.allow_update_attributes) == (604_800, False)
    assert [vars(table)["status"] for table in client.list_timeseries_table() if table.timeseries_table_name == "series_told"] == ["CREATED"]
    key = TimeseriesKey(None, None, {"a": "1", "b": "2"})
    with invalid("Attributes can't be updated: allow_update_attributes of the table is false."):
        client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest("series_told", [metadata.TimeseriesMeta(key, {"x": "y"})]))
    change = lambda points, metas: client.update_timeseries_table(TimeseriesTableMeta("series_told", points, metas))  # noqa: E731
    points, metas = metadata.TimeseriesTableOptions, metadata.TimeseriesMetaOptions
    for asked in [(None, None), (points(DAY_S), metas(-1))]:
        with invalid("Exactly one of table options and meta options must be specified."):
            change(*asked)
    for asked in [(points(604_801), None), (None, metas(604_800, True)), (points(-1), None)]:
        with invalid(METAS_LIFE):
            change(*asked)
    change(None, metas(-1, True))
    change(points(-1), None)
    client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest("series_told", [metadata.TimeseriesMeta(key, {"x": "y"})]))
    assert query(client, "series_told") == {identity(key): {"x": "y"}}
    for wrong, text in [
        (TimeseriesKey("m", None, {"a": "1"}), "The timeseries key of the table has no measurement."),
        (TimeseriesKey(None, "s", {"a": "1"}), "The timeseries key of the table has no data source."),
        (TimeseriesKey(None, None, {"b": "1"}), "missing timeseries key: a."),
    ]:
        with invalid(text):
            client.get_timeseries_data(metadata.GetTimeseriesDataRequest("series_told", wrong, 0, 1))
    with invalid("missing primary key fields: g."):
        point(client, "series_told", key, 1, v=1)
    with invalid("Invalid type of field: 'g'."):
        point(client, "series_told", key, 1, g="text", v=1)
    # Clients that do not know of such tables would misread them.
    body = pb.GetTimeseriesDataRequest(table_name="series_told", end_time=1)
    client.protocol.encoder._make_timeseries_key(body.time_series_key, key)
    with invalid("The table needs supported_table_version to be 1 at least."):
        raw(client, "GetTimeseriesData", body)
    client.delete_timeseries_table("series_told")
    for gone in [
        lambda: client.describe_timeseries_table("series_told"), lambda: client.delete_timeseries_table("series_told"),
        lambda: change(points(-1), None), lambda: query(client, "series_told"), lambda: point(client, "series_told", key, 1, v=1),
    ]:
        with refused("OTSObjectNotExist"):
            gone()


def test_to_operations_on_tables_there_are_none(client, series, make_table):
    point(client, series, named(), 1, v=1)
    names = client.list_table()
    assert series not in names and not [name for name in names if ":" in name]
    table = make_table()
    for does in [
        lambda name: client.describe_table(name), lambda name: client.delete_table(name),
        lambda name: client.get_row(name, [("_#h", "x")]), lambda name: client.list_search_index(name),
        lambda name: client.exe_sql_query(f"CREATE TABLE `{name}` (`_#h` VARCHAR(1024), PRIMARY KEY(`_#h`))"),
        lambda name: client.delete_search_index(name, "meta"),
    ]:
        for name in [series, f"{series}::meta"]:
            with pytest.raises(OTSServiceError):
                does(name)
    assert not [name for name, _ in client.list_search_index() if name.startswith(series)]
    with refused("OTSObjectAlreadyExist"):
        client.create_table(TableMeta(series, STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    with refused("OTSObjectAlreadyExist"):
        make(client, series)
    with refused("OTSObjectAlreadyExist"):
        make(client, table)
    with refused("OTSObjectNotExist"):
        client.describe_timeseries_table(table)
    with refused("OTSObjectNotExist"):
        client.delete_timeseries_table(table)
    assert pages(client, series, named()) == [(1, {"v": 1})]


def test_who_may_do_what_with_series(house):
    admin = house.client("admin")
    key = named("m")
    for name in ["shop_series", "bank_series"]:
        make(admin, name)
        point(admin, name, key, 1, v=1)
    reads = [
        lambda client, name: pages(client, name, key),
        lambda client, name: query(client, name),
    ]
    writes = [
        lambda client, name: point(client, name, key, 2, v=2),
        lambda client, name: client.update_timeseries_meta(metadata.UpdateTimeseriesMetaRequest(name, [metadata.TimeseriesMeta(key, {"a": "b"})])),
        lambda client, name: client.delete_timeseries_meta(metadata.DeleteTimeseriesMetaRequest(name, [key])),
    ]
    manages = [lambda client, name: client.update_timeseries_table(TimeseriesTableMeta(name, metadata.TimeseriesTableOptions(-1)))]
    describes = [lambda client, name: client.describe_timeseries_table(name)]
    holders = {
        0: (reads, {"admin", "reader", "both", "owner"}), 1: (writes, {"admin", "writer", "both"}),
        2: (manages, {"admin", "maker", "mixed", "owner"}),
        3: (describes, {"admin", "reader", "writer", "both", "maker", "mixed", "owner"}),
    }
    for does, allowed in holders.values():
        for do in does:
            for who in house.made:
                client = house.client(who)
                for name in ["shop_series", "bank_series", "bank_nothing"]:
                    if who in ("rooms", "inbox", "two") and do in reads + describes:
                        continue
                    if who == "admin" and name == "bank_nothing":
                        continue
                    if who == "admin" or (who in allowed and name == "shop_series"):
                        do(client, name)
                    else:
                        with refused("OTSNoPermissionAccess"):
                            do(client, name)
    assert [table.timeseries_table_name for table in house.client("reader").list_timeseries_table()] == ["shop_series"]
    assert house.client("blind").list_timeseries_table() == []
    with refused("OTSNoPermissionAccess"):
        make(house.client("writer"), "shop_more")
    with refused("OTSNoPermissionAccess"):
        house.client("writer").delete_timeseries_table("shop_series")
    for name in ["shop_series", "bank_series"]:
        house.client("admin").delete_timeseries_table(name)
    lines = [line for line in open(os.path.join(house.directory, "server.log")) if "audit" in line and "TimeseriesTable" in line]
    assert {word for line in lines for word in ["Create", "Update", "Delete"] if f"{word}TimeseriesTable" in line} == {"Create", "Update", "Delete"}


class Meter(threading.Thread):
    """Writes points of series of its own, each again and again until it is answered."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number, self.stopped = server, number, False
        self.points, self.metas, self.failure = {}, {}, None

    def run(self):
        try:
            client, dice = connect(self.server), random.Random(self.number)
            while not self.stopped:
                self.until_done(self.one(client, dice))
        except Exception as failure:  # noqa: BLE001, shown by the test
            self.failure = failure

    def one(self, client, dice):
        key = named(f"m{self.number}", "", n=str(dice.randrange(20)))
        name, at = identity(key), dice.randrange(50)
        turn = dice.random()
        if turn < 0.8:
            rows = [TimeseriesRow(key, {"v": dice.randrange(1_000)}, at + step) for step in range(3)]
            return lambda: (client.put_timeseries_data("kept", rows), self.put(name, rows))
        if turn < 0.9:
            attributes = {"x": str(dice.randrange(1_000))}
            request = metadata.UpdateTimeseriesMetaRequest("kept", [metadata.TimeseriesMeta(key, attributes)])
            return lambda: (client.update_timeseries_meta(request), self.metas.update({name: attributes}))
        request = metadata.DeleteTimeseriesMetaRequest("kept", [key])
        return lambda: (client.delete_timeseries_meta(request), self.metas.pop(name, None))

    def put(self, name, rows):
        self.points.setdefault(name, {}).update({row.time_in_us: dict(row.fields) for row in rows})
        self.metas.setdefault(name, {})

    def until_done(self, does):
        while True:
            try:
                return does()
            except Exception as failure:  # noqa: BLE001, killed, or the partition is handed over
                code = getattr(failure, "code", None)
                if code not in (None, "OTSServerBusy", "OTSServerUnavailable", "OTSPartitionUnavailable", "OTSTimeout"):
                    raise
                time.sleep(0.05)


def test_series_through_kills_and_a_split(own_server):
    client = connect(own_server.start())
    make(client, "kept")
    meters = [Meter(own_server, number) for number in range(3)]
    for meter in meters:
        meter.start()
    try:
        for turn in range(4):
            time.sleep(1)
            own_server.kill()
            own_server.start()
            if turn == 1:
                done = served(own_server, "split", leaves(own_server)[0])
                assert done.returncode == 0, done.stdout + done.stderr
    finally:
        for meter in meters:
            meter.stopped = True
        for meter in meters:
            meter.join()
    assert [meter.failure for meter in meters] == [None] * 3
    assert sum(len(points) for meter in meters for points in meter.points.values()) > 100
    client = connect(own_server)
    known = query(client, "kept")
    assert known == {name: attributes for meter in meters for name, attributes in meter.metas.items()}
    for meter in meters:
        for (measurement, source, tags), points in meter.points.items():
            key = TimeseriesKey(measurement, source, dict(tags))
            assert pages(client, "kept", key, 10) == sorted(points.items())
    own_server.stop()
    assert "search" in verified(own_server)
