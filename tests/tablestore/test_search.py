"""Search indexes with the SDK: making, describing and ending them, queries, orders, pages, scans, what is refused."""

import contextlib
import math
import os
import random
import struct
import subprocess
import threading
import time

import pytest
from tablestore import (
    Avg, BatchWriteRowRequest, BoolQuery, CapacityUnit, ColumnReturnType, ColumnsToGet, Count, DistinctCount, ExistsQuery, FieldRange, FieldSchema, FieldSort, FieldType, GeoBoundingBoxQuery,
    GeoDistanceQuery, GeoDistanceSort, GroupByField, GroupByFilter, GroupByHistogram, GroupByRange, GroupKeySort, MatchAllQuery, MatchPhraseQuery,
    MatchQuery, Max, Min, Percentiles, PrefixQuery, PrimaryKeySort, PutRowItem, QueryOperator,
    RangeQuery, ReservedThroughput, Row, ScanQuery, ScoreSort, SearchIndexMeta, SearchQuery, Sort, SortOrder, Sum, SyncPhase, TableInBatchWriteRowItem, TableMeta, TableOptions, TermQuery, TermsQuery,
    WildcardQuery,
)
from tablestore.aggregation import TopRows
from tablestore.group_by import DateTimeValue, GeoPoint, GroupByComposite, GroupByDateHistogram, GroupByGeoDistance, GroupByGeoGrid
from tablestore.metadata import (
    DateTimeUnit, DocSort, FieldValueFactor, FunctionScoreQuery, GeoHashPrecision, Highlight, HighlightEncoder, HighlightParameter, InnerHits,
    KnnVectorQuery, NestedQuery, VectorDataType, VectorMetricType, VectorOptions,
)

from sdk import IGNORE, connect, invalid, refused
from server import Server
from test_partitions import leaves, served as partitions

FIELDS = [
    FieldSchema("long", FieldType.LONG, index=True, enable_sort_and_agg=True),
    FieldSchema("double", FieldType.DOUBLE),
    FieldSchema("flag", FieldType.BOOLEAN),
    FieldSchema("word", FieldType.KEYWORD),
    FieldSchema("words", FieldType.KEYWORD, is_array=True),
    FieldSchema("text", FieldType.TEXT),
    FieldSchema("point", FieldType.GEOPOINT),
    FieldSchema("day", FieldType.DATE, date_formats=["yyyy-MM-dd"]),
]
SHIPS = [
    ("ada", dict(long=1, double=0.5, flag=True, word="red", text="A red ship at sea", point="52.5,13.4", day="2024-02-01")),
    ("bea", dict(long=2, double=1.5, flag=False, word="green", text="green ship, red sea", words='["a", "b"]')),
    ("cleo", dict(long=3, word="redder", text="中文 ship", point="48.1,11.5", day="2024-03-01", words="[]")),
    ("dora", dict(long="three", double=2.5, word="blue")),
]


@contextlib.contextmanager
def served(directory, **environment):
    """A server of one's own."""
    server = Server(directory, environment=environment).start()
    try:
        yield server
    finally:
        server.kill()


def put(client, table, name, **columns):
    client.put_row(table, Row([("k", name)], list(columns.items())), IGNORE)


@contextlib.contextmanager
def an_index(client, table, fields=FIELDS, until=SyncPhase.INCR, **options):
    """An index that has all rows, or is being built, and goes afterwards."""
    name = f"index_{random.randrange(1 << 40)}"
    client.create_search_index(table, name, SearchIndexMeta(list(fields), **options))
    while until is not None and client.describe_search_index(table, name)[1].sync_phase != until:
        time.sleep(0.02)
    yield name
    with contextlib.suppress(Exception):
        client.delete_search_index(table, name)


@pytest.fixture
def ships(client, make_table):
    table = make_table([("k", "STRING")])
    for name, columns in SHIPS:
        put(client, table, name, **columns)
    with an_index(client, table) as index:
        yield table, index


def find(client, where, query, sort=None, columns=None, **options):
    options = {"get_total_count": True, **options}
    return client.search(*where, SearchQuery(query, sort, **options), columns)


def keys(found):
    return [row[0][0][1] for row in found.rows]


def test_each_query_finds_its_rows(client, ships):
    for query, expected in [
        (MatchAllQuery(), "ada bea cleo dora"),
        (TermQuery("word", "red"), "ada"),
        (TermQuery("long", 2), "bea"),
        (TermQuery("long", "2"), "bea"),
        (TermQuery("double", 2.5), "dora"),
        (TermQuery("flag", True), "ada"),
        (TermQuery("words", "b"), "bea"),
        (TermQuery("text", "red"), "ada bea"),
        (TermQuery("text", "A red ship at sea"), ""),
        (TermsQuery("long", [1, 3, 9]), "ada cleo"),
        (RangeQuery("long", 1, 3), "ada bea"),
        (RangeQuery("long", 1, 3, include_lower=False, include_upper=True), "bea cleo"),
        (RangeQuery("double", range_from=1), "bea dora"),
        (RangeQuery("word", range_to="h"), "bea dora"),
        (RangeQuery("day", "2024-02-01", "2024-03-01"), "ada"),
        (PrefixQuery("word", "red"), "ada cleo"),
        (WildcardQuery("word", "*e?"), "ada bea cleo"),
        (MatchQuery("text", "RED green"), "ada bea"),
        (MatchQuery("text", "red green", operator=QueryOperator.AND), "bea"),
        (MatchQuery("text", "red green sea ship", minimum_should_match=4), "bea"),
        (MatchQuery("text", "中"), "cleo"),
        (MatchPhraseQuery("text", "red ship"), "ada"),
        (MatchPhraseQuery("text", "中文"), "cleo"),
        (ExistsQuery("double"), "ada bea dora"),
        (ExistsQuery("words"), "bea"),
        (ExistsQuery("long"), "ada bea cleo"),
        (GeoBoundingBoxQuery("point", "53,13", "52,14"), "ada"),
        (GeoDistanceQuery("point", "48.1, 11.5", 1_000), "cleo"),
        (GeoDistanceQuery("point", "48.1, 11.5", 600_000), "ada cleo"),
        (BoolQuery(must_queries=[MatchQuery("text", "ship")], must_not_queries=[TermQuery("long", 2)]), "ada cleo"),
        (BoolQuery(should_queries=[TermQuery("long", 1), TermQuery("word", "blue")]), "ada dora"),
        (BoolQuery(filter_queries=[ExistsQuery("long")], should_queries=[TermQuery("long", 1)], minimum_should_match=1), "ada"),
    ]:
        found = find(client, ships, query)
        assert keys(found) == expected.split(), query.__dict__
        assert (found.total_count, found.is_all_succeed) == (len(expected.split()), True)
        assert len(found.search_hits) == len(found.rows)
        assert all(math.isnan(hit.score) for hit in found.search_hits)


def test_words_of_chinese_are_found_by_a_dictionary(client, make_table):
    table = make_table([("k", "STRING")])
    put(client, table, "ada", text="我来到北京清华大学", same="我来到北京清华大学")
    put(client, table, "bea", text="北京的大学", same="北京的大学")
    fields = [FieldSchema("text", FieldType.TEXT, analyzer="max_word"), FieldSchema("same", FieldType.TEXT, analyzer="min_word")]
    with an_index(client, table, fields) as index:
        described = client.describe_search_index(table, index)[0].fields
        assert [field.analyzer for field in described] == ["max_word", "min_word"]
        for query, expected in [
            (MatchQuery("text", "大学"), "ada bea"),
            (MatchQuery("same", "大学"), "bea"),
            (MatchQuery("same", "清华大学"), "ada"),
            (MatchQuery("text", "京"), ""),
            (MatchPhraseQuery("text", "北京清华"), "ada"),
            (MatchPhraseQuery("text", "清华大学"), "ada"),
        ]:
            assert keys(find(client, (table, index), query)) == expected.split(), query.__dict__


def test_a_search_that_holds_too_much_is_refused(client, ships):
    table, index = ships
    rows = [PutRowItem(Row([("k", f"z{number:03}")], [("word", "w" * 4_000)]), IGNORE) for number in range(600)]
    for part in range(0, 600, 200):
        batch = BatchWriteRowRequest()
        batch.add(TableInBatchWriteRowItem(table, rows[part : part + 200]))
        client.batch_write_row(batch)
    asked = lambda limit: find(client, ships, MatchAllQuery(), Sort([FieldSort("word", SortOrder.DESC)] * 32), limit=limit)
    assert len(asked(100).rows) == 100
    with refused("OTSQuotaExhausted"):
        asked(1_000)
    assert len(asked(100).rows) == 100


def test_orders_and_columns(client, ships):
    everything = MatchAllQuery()
    for sorters, expected in [
        ([PrimaryKeySort(SortOrder.DESC)], "dora cleo bea ada"),
        ([FieldSort("long")], "ada bea cleo dora"),
        ([FieldSort("long", SortOrder.DESC)], "cleo bea ada dora"),
        ([FieldSort("word", SortOrder.DESC)], "cleo ada bea dora"),
        ([FieldSort("flag"), FieldSort("long", SortOrder.DESC)], "bea ada cleo dora"),
        ([GeoDistanceSort("point", ["48,11"])], "cleo ada bea dora"),
    ]:
        assert keys(find(client, ships, everything, Sort(sorters))) == expected.split()
    scored = find(client, ships, MatchQuery("text", "red ship"), Sort([ScoreSort()]))
    scores = [hit.score for hit in scored.search_hits]
    assert sorted(keys(scored)) == ["ada", "bea", "cleo"] and scores == sorted(scores, reverse=True) and scores[-1] > 0
    one = TermQuery("long", 2)
    columns = lambda *given: {name: value for name, value, _ in find(client, ships, one, columns=ColumnsToGet(*given)).rows[0][1]}
    assert columns(["word", "nothing"], ColumnReturnType.SPECIFIED) == {"word": "green"}
    assert columns([], ColumnReturnType.NONE) == {}
    assert columns([], ColumnReturnType.ALL) == dict(SHIPS[1][1])
    assert columns([], ColumnReturnType.ALL_FROM_INDEX) == dict(SHIPS[1][1])


def test_pages_go_on_by_their_tokens(client, ships):
    table, index = ships
    for number in range(30):
        put(client, table, f"e{number:02}", long=number % 3)
    query, sort = RangeQuery("long", range_from=-1), Sort([FieldSort("long", SortOrder.DESC)])
    expected = keys(find(client, ships, query, sort, limit=100))
    assert len(expected) == 33
    page = find(client, ships, query, sort, limit=10)
    found = keys(page)
    while page.next_token:
        token = page.next_token
        page = find(client, ships, query, limit=10, next_token=token)
        found += keys(page)
    assert found == expected
    assert keys(find(client, ships, query, sort, offset=30, limit=10)) == expected[30:]
    with invalid():
        find(client, ships, MatchAllQuery(), next_token=token)
    with invalid():
        find(client, ships, query, next_token=b"no token")
    with invalid():
        find(client, ships, query, next_token=token, offset=1)
    # The order of the first page may be said once more; another may not.
    assert keys(find(client, ships, query, sort, limit=10, next_token=token)) == expected[30:]
    with invalid("The sort can't be given with a token."):
        find(client, ships, query, Sort([FieldSort("long")]), next_token=token)
    assert find(client, ships, query, limit=0).total_count == 33


def test_a_search_sees_what_was_answered_before_it(client, ships):
    table, _ = ships
    for number in range(15):
        put(client, table, "eve", long=1000 + number)
        assert keys(find(client, ships, TermQuery("long", 1000 + number))) == ["eve"]
        assert keys(find(client, ships, TermQuery("long", 999 + number))) == []
    client.delete_row(table, [("k", "eve")], IGNORE)
    assert keys(find(client, ships, RangeQuery("long", range_from=1000))) == []


def test_a_scan_keeps_what_it_began_with(client, ships):
    table, index = ships
    session, splits = client.compute_splits(table, index)
    assert splits == 1
    seen, token = [], None
    while True:
        page = client.parallel_scan(table, index, ScanQuery(MatchAllQuery(), 2, token, 0, 1), session)
        if not page.rows:
            assert not page.next_token
            break
        seen += keys(page)
        token = page.next_token
        put(client, table, "zoe", long=1)
    assert seen == ["ada", "bea", "cleo", "dora"]
    with refused("OTSSessionExpired"):
        client.parallel_scan(table, index, ScanQuery(MatchAllQuery(), 2, token, 0, 1), "another")
    with invalid("[parallel_scan.max_parallel_id] must in (0 ,1], current max_parallel_id is 2"):
        client.parallel_scan(table, index, ScanQuery(MatchAllQuery(), 2, None, 0, 2), session)
    with invalid("[search index splits options] must not be null"):
        client.compute_splits(table, None)


def test_what_is_described_is_what_was_asked_for(client, make_table):
    table = make_table([("k", "STRING")])
    with an_index(client, table) as index:
        meta, stat = client.describe_search_index(table, index)
        assert [(field.field_name, field.field_type) for field in meta.fields] == [
            (field.field_name, field.field_type) for field in FIELDS
        ]
        assert [type(sorter) for sorter in meta.index_sort.sorters] == [PrimaryKeySort]
        assert meta.fields[5].analyzer == "single_word" and meta.time_to_live == -1
        assert abs(stat.current_sync_timestamp / 1e9 - time.time()) < 20
        assert client.list_search_index(table) == [(table, index)]
        with refused("OTSObjectAlreadyExist"):
            client.create_search_index(table, index, SearchIndexMeta(FIELDS))
        with invalid():
            client.delete_table(table)
    assert client.list_search_index(table) == []
    with refused("OTSMetaNotMatch", f"search index [{index}] does not exist"):
        find(client, (table, index), MatchAllQuery())
    with refused("OTSObjectNotExist"):
        client.delete_search_index(table, index)


def test_what_an_index_can_not_do_is_refused(client, ships):
    table, index = ships
    for query in [
        TermQuery("nothing", 1),
        TermQuery("long", "many"),
        TermQuery("flag", 1.5),
        PrefixQuery("long", "1"),
        GeoDistanceQuery("word", "1,1", 5),
        GeoDistanceQuery("point", "91,1", 5),
        WildcardQuery("word", "*" * 33),
        NestedQuery("long", MatchAllQuery()),
        KnnVectorQuery("long", 1, [1.0]),
        BoolQuery(must_queries=[MatchAllQuery()] * 1_100),
    ]:
        with invalid():
            find(client, ships, query)
    for sorter in [FieldSort("text"), FieldSort("nothing"), FieldSort("point"), GeoDistanceSort("word", ["1,1"])]:
        with invalid():
            find(client, ships, MatchAllQuery(), Sort([sorter]))
    with invalid():
        find(client, ships, MatchAllQuery(), limit=101, columns=ColumnsToGet([], ColumnReturnType.ALL))
    with invalid("table [nowhere] does not exist"):
        find(client, ("nowhere", index), MatchAllQuery())
    for fields in [
        [],
        [FieldSchema("a", FieldType.LONG)] * 2,
        [FieldSchema("a", FieldType.TEXT, analyzer="no_word")],
        [FieldSchema("a", FieldType.LONG, analyzer="single_word")],
        [FieldSchema("a", FieldType.DATE, date_formats=["yyyy-MMM"])],
    ]:
        with invalid():
            client.create_search_index(table, "refused", SearchIndexMeta(fields))


MEMORIES = [
    FieldSchema("user", FieldType.KEYWORD),
    FieldSchema("text", FieldType.TEXT),
    FieldSchema("votes", FieldType.LONG),
    FieldSchema("vector", FieldType.VECTOR, vector_options=VectorOptions(VectorDataType.VD_FLOAT_32, VectorMetricType.VM_EUCLIDEAN, 2)),
    FieldSchema("tags", FieldType.NESTED, sub_field_schemas=[
        FieldSchema("name", FieldType.KEYWORD), FieldSchema("weight", FieldType.LONG),
    ]),
]


@pytest.fixture
def memories(client, make_table):
    table = make_table([("k", "STRING")])
    put(client, table, "a", user="x", text="red ship", votes=1, vector="[0, 0]", tags='[{"name": "p", "weight": 1}, {"name": "q", "weight": 2}]')
    put(client, table, "b", user="x", text="red sea", votes=9, vector="[1, 0]", tags='[{"name": "p", "weight": 2}]')
    put(client, table, "c", user="x", text="green", votes=3, vector=bytearray(struct.pack("<2f", 3, 0)))
    put(client, table, "d", user="y", text="green", vector="[0, 1]")
    put(client, table, "e", user="y", text="no vector", vector="[0, 1, 2]")
    with an_index(client, table, MEMORIES) as index:
        yield table, index


def scored(client, where, query, **options):
    found = find(client, where, query, Sort([ScoreSort(SortOrder.DESC)]), **options)
    return list(zip(keys(found), [round(hit.score, 4) for hit in found.search_hits]))


def test_vectors_objects_and_functions(client, memories):
    near = KnnVectorQuery("vector", 2, [0, 0], TermQuery("user", "x"))
    assert scored(client, memories, near, limit=2) == [("a", 1), ("b", 0.5)]
    # More than top_k: all of them.
    assert scored(client, memories, near) == [("a", 1), ("b", 0.5), ("c", 0.1)]
    assert scored(client, memories, KnnVectorQuery("vector", 9, [0, 0.0]), limit=9)[-1] == ("c", 0.1)
    both = BoolQuery(should_queries=[TermQuery("text", "red"), KnnVectorQuery("vector", 2, [1, 0], TermQuery("user", "x"))])
    assert scored(client, memories, both, limit=2) == [("b", 2), ("a", 1.5)]
    inner = BoolQuery(must_queries=[TermQuery("tags.name", "p"), TermQuery("tags.weight", 2)])
    assert keys(find(client, memories, NestedQuery("tags", inner))) == ["b"]
    assert scored(client, memories, FunctionScoreQuery(ExistsQuery("votes"), FieldValueFactor("votes"))) == [("b", 9), ("c", 3), ("a", 1)]
    for query in [KnnVectorQuery("vector", 2, [0]), KnnVectorQuery("vector", 0, [0, 0]), TermQuery("tags.name", "p"), NestedQuery("user", MatchAllQuery())]:
        with invalid():
            find(client, memories, query)


def test_an_index_goes_on_after_a_kill(tmp_path):
    with served(tmp_path) as server:
        client = connect(server)
        client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        client.create_search_index("ships", "index", SearchIndexMeta(FIELDS))
        where, written = ("ships", "index"), 0
        for round in range(3):
            for _ in range(40):
                put(client, "ships", f"{written:04}", long=written)
                written += 1
            if round < 2:
                assert find(client, where, MatchAllQuery(), limit=0).total_count == written
            server.kill()
            server.start()
            client = connect(server)
            found = find(client, where, MatchAllQuery(), limit=0)
            assert (found.total_count, found.is_all_succeed) == (written, True)


def test_an_index_goes_on_through_a_split_a_merge_and_kills(own_server):
    own_server.start()
    client = connect(own_server)
    client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    client.create_search_index("ships", "index", SearchIndexMeta(FIELDS))
    stop, written, wrong = threading.Event(), [0], []

    def write():
        """Each search sees what was answered before it, whatever goes on."""
        own = connect(own_server)
        while not stop.is_set():
            number = written[0] + 1
            put(own, "ships", f"{number % 300:04}", long=number)
            written[0] = number
            found = find(own, ("ships", "index"), TermQuery("long", number))
            if not (found.is_all_succeed and len(found.rows) == 1):
                wrong.append((number, found.is_all_succeed, len(found.rows)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        changed(own_server, "split", 0)
        changed(own_server, "merge", *leaves(own_server))
        changed(own_server, "split", *leaves(own_server))
    finally:
        stop.set()
        writer.join()
    assert not wrong and written[0] > 0
    rebuilds = own_server.metric("tideline_search_rebuilds_total")
    for _ in range(2):
        own_server.kill()
        own_server.start()
        client = connect(own_server)
        found = find(client, ("ships", "index"), MatchAllQuery(), limit=0)
        assert (found.total_count, found.is_all_succeed) == (min(written[0], 300), True)
        rebuilds += own_server.metric("tideline_search_rebuilds_total")
    assert rebuilds == 0
    own_server.kill()
    assert f"1 search indexes, {min(written[0], 300)} documents" in verified(own_server, 0)


def changed(server, *words):
    done = partitions(server, *words)
    assert done.returncode == 0, done.stderr


def test_on_a_full_disk_the_index_alone_stops_and_goes_on_by_itself(tmp_path):
    folder = tmp_path / "data" / "search"
    with served(tmp_path) as server:
        connect(server).create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        server.stop()
        folder.mkdir(exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True).returncode:
            pytest.skip("file systems can't be mounted here")
        try:
            server.start()
            a_full_disk(server, folder)
        finally:
            server.kill()
            subprocess.run(["umount", folder], check=True)


def a_full_disk(server, folder):
    client, where = connect(server), ("ships", "index")
    client.create_search_index(*where, SearchIndexMeta(FIELDS))
    put(client, "ships", "last", long=1)
    dice, written = random.Random(1), 0

    def is_stuck():
        # An index that stops removes what a failed merge has left, and may go on for a while.
        stuck = server.metric("tideline_search_indexes_stuck")
        return stuck and not client.search(*where, SearchQuery(TermQuery("long", 1)), timeout_s=1).is_all_succeed

    while not is_stuck():
        put(client, "ships", f"{written:05}", word=dice.randbytes(1500).hex())
        written += 1
        assert written < 20_000
    assert "the disk is full, make room" in server.whole_log()
    subprocess.run(["mount", "-o", "remount,size=256m", folder], check=True)
    found = find(client, where, MatchAllQuery(), limit=0)
    while not found.is_all_succeed:
        found = find(client, where, MatchAllQuery(), limit=0)
    assert found.total_count == written + 1
    assert [server.metric(f"tideline_search_{name}") for name in ("indexes_stuck", "rebuilds_total")] == [0, 0]
    server.kill()
    assert f"1 search indexes, {written + 1} documents" in verified(server, 0)


def verified(server, code):
    done = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def an_ended_index(tmp_path, fault, code):
    """How many of three rows a search finds after the server has ended at the second one, and what is said of the index."""
    with served(tmp_path, TIDELINE_FAULT=fault) as server:
        client = connect(server)
        client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        client.create_search_index("ships", "index", SearchIndexMeta(FIELDS))
        while client.describe_search_index("ships", "index")[1].sync_phase != SyncPhase.INCR:
            time.sleep(0.02)
        put(client, "ships", "ada", long=1)
        assert find(client, ("ships", "index"), MatchAllQuery()).total_count == 1
        # The index may have it, and end the server, before it is answered.
        with contextlib.suppress(Exception):
            put(client, "ships", "bea", long=2)
        server.process.wait(60)
        server.kill()
        server.environment = {}
        server.start()
        client = connect(server)
        put(client, "ships", "cleo", long=3)
        found = find(client, ("ships", "index"), MatchAllQuery())
        assert found.is_all_succeed
        server.kill()
        return keys(found), verified(server, code)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")
def test_a_place_is_never_without_its_rows(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    found, said = an_ended_index(tmp_path / "a", "search_put:2", 0)
    assert found == ["ada", "bea", "cleo"] and "1 search indexes, 3 documents" in said
    # The control: the place is committed first.
    found, said = an_ended_index(tmp_path / "b", "search_place_first,search_placed:2", 1)
    assert found == ["ada", "cleo"] and "bea" in said and said.count("PROBLEM") == 1, said


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")
@pytest.mark.parametrize("fault", ["", "search_page_last"])
def test_a_page_does_not_bring_back_what_has_changed(tmp_path, fault):
    with served(tmp_path, TIDELINE_FAULT=fault) as server:
        client = connect(server)
        client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        put(client, "ships", "ada", long=0)

        def found(newest):
            with an_index(client, "ships", until=None) as index:
                for number in range(newest - 39, newest + 1):
                    put(client, "ships", "ada", long=number)
                while client.describe_search_index("ships", index)[1].sync_phase != SyncPhase.INCR:
                    time.sleep(0.02)
                return keys(find(client, ("ships", index), TermQuery("long", newest)))

        # With the control the first page of rows comes in last, and is older, unless it was read behind the last write.
        is_right = all(found(40 * turn) == ["ada"] for turn in range(1, 21 if fault else 4))
        assert is_right != bool(fault)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")
@pytest.mark.parametrize("turn", [0, 1, 4])
def test_an_index_whose_follower_panics_is_made_anew(tmp_path, turn):
    with served(tmp_path, TIDELINE_FAULT=f"search_follower_panics:{turn}") as server:
        client, where = connect(server), ("ships", "index")
        client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        client.create_search_index(*where, SearchIndexMeta(FIELDS))
        for number in range(6):
            put(client, "ships", f"{number}", long=number)
            found = find(client, where, MatchAllQuery(), limit=0)
            while not found.is_all_succeed:
                found = find(client, where, MatchAllQuery(), limit=0)
            assert found.total_count == number + 1
        # 0 is the control: no turn panics.
        assert server.metric("tideline_search_rebuilds_total") == (turn > 0)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")
def test_a_search_that_waits_for_nothing_is_behind(tmp_path):
    with served(tmp_path, TIDELINE_FAULT="search_waits_not") as server:
        client = connect(server)
        client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        client.create_search_index("ships", "index", SearchIndexMeta(FIELDS))
        behind = 0
        for number in range(200):
            put(client, "ships", "eve", long=number)
            behind += keys(find(client, ("ships", "index"), TermQuery("long", number))) == []
            if behind:
                return
        raise AssertionError("the control has found everything")


def test_aggregations_and_groups(client, ships):
    where = ships
    ask = lambda query=MatchAllQuery(), **options: find(client, where, query, limit=0, **options)
    metrics = [
        Max("long"), Min("long"), Avg("double", name="mean"), Sum("long"), Sum("long", missing_value=10, name="filled"), Count("words"),
        DistinctCount("flag"), Percentiles("long", [50, 100]), Sum("double", name="none"), Max("double", name="nothing"),
    ]
    values = lambda results: {result.name: result.value for result in results}
    everything = values(ask(aggs=metrics[:8]).agg_results)
    halves = [(item.key, item.value) for item in everything.pop("percentiles")]
    assert halves == [(50.0, 2), (100.0, 3)]
    assert everything == {"max": 3, "min": 1, "mean": 1.5, "sum": 6, "filled": 16, "count": 2, "distinct_count": 2}
    assert values(ask(TermQuery("word", "no"), aggs=metrics[8:]).agg_results) == {"none": 0, "nothing": 0}
    rows = lambda group: [(item.key, item.row_count) for item in group.items]
    groups = [
        GroupByField("word", name="words", sub_aggs=[Sum("long")], sub_group_bys=[GroupByField("flag")]),
        GroupByField("word", size=2, group_by_sort=[GroupKeySort(SortOrder.DESC)], name="last"),
        GroupByRange("long", [(2, 9), (float("-inf"), 2)], name="ranges"),
        GroupByFilter([TermQuery("word", "red"), ExistsQuery("long")], name="filters"),
        GroupByHistogram("double", 1.0, FieldRange(0.0, 4.0), min_doc_count=0, name="steps"),
    ]
    words, last, ranges, filters, steps = ask(group_bys=groups).group_by_results
    assert rows(words) == [("blue", 1), ("green", 1), ("red", 1), ("redder", 1)]
    assert [item.sub_aggs[0].value for item in words.items] == [0, 2, 1, 3]
    assert [rows(item.sub_group_bys[0]) for item in words.items] == [[], [("false", 1)], [("true", 1)], []]
    assert rows(last) == [("redder", 1), ("red", 1)]
    assert [(item.range_from, item.range_to, item.row_count) for item in ranges.items] == [(-math.inf, 2, 1), (2, 9, 2)]
    assert [item.row_count for item in filters.items] == [1, 3]
    assert [(item.key, item.value) for item in steps.items] == [(0.0, 1), (1.0, 1), (2.0, 1), (3.0, 0), (4.0, 0)]
    for aggs, text in [
        ([Sum("word")], "[sum agg] field_name:word type:keyword is invalid, allow [long, double]"),
        ([Avg("no")], "[avg agg] field: no does not exist"),
        ([Count("long"), Count("long")], "The name of an aggregation is empty or used twice: [count]."),
        ([Count("long", name=f"c{number}") for number in range(11)], None),
    ]:
        with invalid(text):
            ask(aggs=aggs)
    with invalid("[group by geo grid] field_name:word type:keyword is invalid, allow [geo_point]"):
        ask(group_bys=[GroupByGeoGrid("word", GeoHashPrecision.GHP_5009KM_4992KM_1)])


def test_groups_by_place_and_date_and_the_first_rows_of_each(client, ships):
    ask = lambda *groups: find(client, ships, MatchAllQuery(), limit=0, group_bys=list(groups)).group_by_results
    far, cells, months = ask(
        GroupByGeoDistance("point", GeoPoint(52.5, 13.4), [(500_000, 1e6), (float("-inf"), 1)]),
        GroupByGeoGrid("point", GeoHashPrecision.GHP_156KM_156KM_3),
        GroupByDateHistogram("day", DateTimeValue(1, DateTimeUnit.MONTH), time_zone="+01:00", min_doc_count=0),
    )
    assert [(item.range_from, item.range_to, item.row_count) for item in far.items] == [(500_000, 1e6, 1), (0, 1, 1)]
    assert [(item.key, item.row_count) for item in cells.items] == [("u28", 1), ("u33", 1)]
    corner = cells.items[1].geo_grid.top_left
    assert 52.5 < corner.lat < 54 and 12 < corner.lon < 13.4
    hour = 3_600_000
    assert [(item.timestamp, item.row_count) for item in months.items] == [(1706745600000 - hour, 1), (1709251200000 - hour, 1)]
    sources = [GroupByField("flag", name="flag"), GroupByHistogram("long", 2, FieldRange(0, 9), name="steps")]
    found, token = [], None
    while True:
        (page,) = ask(GroupByComposite(sources, size=2, next_token=token, sub_aggs=[TopRows(1, Sort([PrimaryKeySort(SortOrder.DESC)]))]))
        assert page.source_group_by_names == ["flag", "steps"]
        found += [(item.keys, item.row_count, item.sub_aggs[0].value[0][0][0][1]) for item in page.items]
        token = page.next_token
        if not token:
            break
    assert found == [([None, None], 1, "dora"), ([None, "2"], 1, "cleo"), (["false", "2"], 1, "bea"), (["true", "0"], 1, "ada")]
    with invalid():
        ask(GroupByComposite(sources[:1], next_token="0"))


def test_words_are_marked_and_objects_that_match_are_shown(client, make_table):
    table = make_table([("k", "STRING")])
    texts = [FieldSchema("text", FieldType.TEXT, enable_highlighting=True)]
    fields = [*texts, FieldSchema("plain", FieldType.TEXT), FieldSchema("tags", FieldType.NESTED, sub_field_schemas=texts)]
    put(client, table, "ada", text="A <red> ship & a red sea", tags='[{"text": "green"}, {"text": "red tide"}, {"text": "Red"}]')
    put(client, table, "bea", text="green", tags="[]")
    with an_index(client, table, fields) as index:
        marked = Highlight([HighlightParameter("text", pre_tag="<b>", post_tag="</b>")], HighlightEncoder.HTML_MODE)
        inner = InnerHits(Sort([DocSort(SortOrder.DESC)]), 0, 9, Highlight([HighlightParameter("tags.text")]))
        query = BoolQuery(should_queries=[MatchQuery("text", "red"), NestedQuery("tags", MatchQuery("tags.text", "red"), inner_hits=inner)])
        (hit,) = find(client, (table, index), query, highlight=marked).search_hits
        fragments = lambda hit: [(field.field_name, list(field.field_fragments)) for field in hit.highlight_result.highlight_fields]
        assert fragments(hit) == [("text", ["A &lt;<b>red</b>&gt; ship &amp; a <b>red</b> sea"])]
        (inside,) = hit.search_inner_hits
        shown = [(one.nested_doc_offset, fragments(one)[0][1]) for one in inside.search_hits]
        assert inside.path == "tags" and shown == [(2, ["<em>Red</em>"]), (1, ["<em>red</em> tide"])]
        for field in ("plain", "none", "tags.text"):
            with invalid(f"highlighting is not supported for field[{field}]"):
                find(client, (table, index), query, highlight=Highlight([HighlightParameter(field)]))
