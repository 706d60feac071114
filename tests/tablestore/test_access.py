"""Rights at the tables, with keys that the official SDK signs with: each refusal beside an allowed twin."""

import http.client
import json
import os
import socket
import subprocess
import time

import pytest
from tablestore import (
    BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, ComparatorType, Condition, FieldSchema, FieldType, MatchAllQuery,
    PutRowItem, ReservedThroughput, Row, RowExistenceExpectation, SearchIndexMeta, SearchQuery, SecondaryIndexMeta, SingleColumnCondition, TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta, TableOptions,
    UpdateTableResponse,
)

from client import until
from guarded import signed
from sdk import EXIST, IGNORE, STRING_KEY, connect, get, key, put, refused, scan
from sdk import signed as headers_of
from server import Server

# This machine is one address, from which the tests show many wrong signatures.
CONFIG = "limits = { address = { failures_per_min = 0 } }\n[auth]\n"
KEYS = {
    "admin": ["*=admin"],
    "reader": ["shop_*=tables:read"],
    "writer": ["shop_*=tables:write"],
    "both": ["shop_*=tables:read,tables:write"],
    "maker": ["shop_*=tables:manage"],
    "mixed": ["shop_*=tables:manage", "mine_*=tables:read,tables:manage"],
    "owner": ["shop_*=tables:read,tables:manage", "mine_*=tables:read,tables:manage"],
    "rooms": ["*=tables:read", "open/*=read"],
    "inbox": ["*=tables:read", "$inbox/ann=read"],
    "two": ["*=tables:read", "aisle/*=read", "stage/*=read"],
    "blind": ["*=read"],
}


class Guarded(Server):
    """A server with [auth]; a client for each of KEYS."""

    def __init__(self, directory, **options):
        super().__init__(directory, config=CONFIG, **options)
        self.made = {name: self.key(name, rights) for name, rights in KEYS.items()}

    def key(self, name, rights):
        allowed = [argument for right in rights for argument in ("--allow", right)]
        command = [self.binary, "key", "create", name, *allowed, "--signing", "--data", self.data]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def client(self, name):
        made = self.made[name]
        return connect(self, made[3:15], made[-43:])


def rpc(server, method, by="admin", **params):
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"content-type": "application/json", "authorization": f"Bearer {server.made[by]}"}
    status, _, body = server.http("POST", "/v1/rpc", json.dumps(call), headers)
    assert status == 200
    return json.loads(body).get("result")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("house")).start()
    admin = running.client("admin")
    for name in ["shop_a", "bank_a"]:
        create(admin, name)
        put(admin, name, "row", [("c", 1)])
    for timeline in ["open/1", "room/1"]:
        rpc(running, "message.append", timeline=timeline, entry={"a": 1})
    yield running
    running.kill()


def create(client, name, defined=None, indexes=()):
    client.create_table(TableMeta(name, STRING_KEY, defined), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)), list(indexes))


def denied():
    return refused("OTSNoPermissionAccess")


def batch_get(client, *tables):
    request = BatchGetRowRequest()
    for table in tables:
        request.add(TableInBatchGetRowItem(table, [key("row")], max_version=1))
    return client.batch_get_row(request)


def batch_write(client, *tables):
    request = BatchWriteRowRequest()
    for table in tables:
        request.add(TableInBatchWriteRowItem(table, [PutRowItem(Row(key("b"), [("c", 1)]), IGNORE)]))
    return client.batch_write_row(request)


READS = {
    "GetRow": lambda client, table: get(client, table, "row"),
    "GetRange": lambda client, table: scan(client, table),
    "BatchGetRow": lambda client, table: batch_get(client, table),
}
WRITES = {
    "PutRow": lambda client, table: put(client, table, "w", [("c", 1)]),
    "UpdateRow": lambda client, table: client.update_row(table, Row(key("w"), {"PUT": [("c", 2)]}), IGNORE),
    "DeleteRow": lambda client, table: client.delete_row(table, Row(key("w")), IGNORE),
    "BatchWriteRow": lambda client, table: batch_write(client, table),
    "StartLocalTransaction": lambda client, table: client.abort_transaction(client.start_local_transaction(table, key("t"))),
}
ANY = {"DescribeTable": lambda client, table: client.describe_table(table)}


@pytest.mark.parametrize("name", [*READS, *WRITES, *ANY])
def test_who_may_do_what_with_which_tables(house, name):
    does = {**READS, **WRITES, **ANY}[name]
    allowed = {"admin", "reader", "both"} if name in READS else {"admin", "writer", "both"}
    if name in ANY:
        allowed = {"admin", "reader", "writer", "both", "maker"}
    for who in ["admin", "reader", "writer", "both", "maker", "blind"]:
        client = house.client(who)
        if who in allowed:
            does(client, "shop_a")
        else:
            with denied():
                does(client, "shop_a")
        if who == "admin":
            continue
        # A table of others, and one that is not there, are the same.
        said = []
        for table in ["bank_a", "bank_none"]:
            with denied() as caught:
                does(client, table)
            said.append(caught.value.message)
        assert said[0] == said[1]
        if who not in allowed:
            with denied():
                does(client, "shop_none")


def test_a_batch_is_refused_as_a_whole(house):
    both = house.client("both")
    with denied():
        batch_write(both, "shop_a", "bank_a")
    with denied():
        batch_get(both, "shop_a", "bank_a")
    assert get(house.client("admin"), "bank_a", "b") is None
    assert batch_write(both, "shop_a").is_all_succeed()


def test_what_tells_of_rows_needs_to_read_them(house):
    writer, both = house.client("writer"), house.client("both")
    condition = Condition(RowExistenceExpectation.IGNORE, SingleColumnCondition("c", 1, ComparatorType.EQUAL))
    row = Row(key("row"), {"PUT": [("d", 1)]})
    with denied():
        writer.update_row("shop_a", row, condition)
    both.update_row("shop_a", row, condition)
    # That a row is there is part of writing it.
    writer.update_row("shop_a", Row(key("row"), {"PUT": [("d", 2)]}), EXIST)


def test_tables_are_made_and_dropped_by_those_who_manage_them(house):
    maker = house.client("maker")
    for who in ["both", "blind"]:
        with denied():
            create(house.client(who), "shop_new")
    with denied():
        create(maker, "bank_new")
    create(maker, "shop_new")
    assert isinstance(maker.update_table("shop_new", TableOptions(time_to_live=86_400)), UpdateTableResponse)
    with denied():
        maker.update_table("bank_a", TableOptions(time_to_live=86_400))
    with denied():
        put(maker, "shop_new", "a")
    for who in ["both", "blind"]:
        with denied():
            house.client(who).delete_table("shop_new")
    maker.delete_table("shop_new")
    lines = [line for line in open(os.path.join(house.directory, "server.log")) if "audit" in line]
    assert any("CreateTable" in line and "shop_new" in line and "$key/maker" in line and "ok" in line for line in lines)
    assert any("CreateTable" in line and "bank_new" in line and "OTSNoPermissionAccess" in line for line in lines)
    assert all("127.0.0.1" in line for line in lines if "Table" in line)


def test_an_index_is_made_and_read_by_those_who_may_so_with_its_table(house):
    maker, mixed, owner, reader = (house.client(who) for who in ["maker", "mixed", "owner", "reader"])
    of, defined, names = lambda name: SecondaryIndexMeta(name, ["c"], []), [("c", "INTEGER")], ("c", "k")
    create(maker, "shop_i", defined, [of("shop_by_c")])
    # Names of others are refused alike, taken or not.
    said = set()
    for name in ["bank_a", "bank_none"]:
        for make in [lambda: maker.create_secondary_index("shop_i", of(name), False), lambda: create(maker, "shop_j", defined, [of(name)])]:
            with denied() as caught:
                make()
            said.add(caught.value.message)
    assert len(said) == 1
    maker.create_secondary_index("shop_i", of("shop_too"), False)
    # Who makes one under a name of their own does not read by it what they may not read.
    mixed.create_secondary_index("shop_i", of("mine_by_c"), False)
    put(house.client("admin"), "shop_i", "row", [("c", 1)])
    row = [("c", 1), ("k", "row")]
    batch = BatchGetRowRequest()
    batch.add(TableInBatchGetRowItem("mine_by_c", [row], max_version=1))
    reads = [lambda client: get(client, "mine_by_c", row), lambda client: scan(client, "mine_by_c", names), lambda client: client.batch_get_row(batch)]
    for read in reads:
        for who in [mixed, reader]:
            with denied():
                read(who)
        assert read(owner) is not None
    assert scan(owner, "mine_by_c", names) == scan(reader, "shop_by_c", names) == [[1, "row"]]
    # Nor is its name told to those who have no right to it.
    named = lambda client: sorted(index.index_name for index in client.describe_table("shop_i").secondary_indexes)
    assert named(owner) == ["mine_by_c", "shop_by_c", "shop_too"] and named(reader) == ["shop_by_c", "shop_too"]
    maker.delete_table("shop_i")


def test_lists_leave_out(house):
    assert list(house.client("reader").list_table()) == ["shop_a"]
    assert set(house.client("admin").list_table()) >= {"shop_a", "bank_a", "timeline_message"}
    assert list(house.client("blind").list_table()) == []


def test_a_transaction_is_ended_by_those_who_may_write(house):
    both, reader = house.client("both"), house.client("reader")
    for end in ["commit_transaction", "abort_transaction"]:
        transaction = both.start_local_transaction("shop_a", key("t"))
        both.put_row("shop_a", Row(key("t"), [("c", end)]), IGNORE, transaction_id=transaction)
        for other in [reader, house.client("blind")]:
            with refused("OTSSessionNotExist"):
                getattr(other, end)(transaction)
        getattr(house.client("writer") if end.startswith("commit") else both, end)(transaction)
    assert dict((name, value) for name, value, _ in get(reader, "shop_a", "t"))["c"] == "commit_transaction"


def test_a_transaction_of_others_is_one_that_is_not_there(house):
    both, reader, admin = house.client("both"), house.client("reader"), house.client("admin")
    of_bank = admin.start_local_transaction("bank_a", key("t"))
    of_shop = both.start_local_transaction("shop_a", key("u"))
    both.put_row("shop_a", Row(key("u"), [("c", "not committed")]), IGNORE, transaction_id=of_shop)
    gone = both.start_local_transaction("shop_a", key("v"))
    both.abort_transaction(gone)
    said = set()
    for client, transaction in [(both, of_bank), (reader, of_shop), (both, gone), (reader, gone)]:
        for does in [
            lambda: get(client, "shop_a", "u", transaction_id=transaction),
            lambda: client.get_range("shop_a", "FORWARD", key("a"), key("z"), transaction_id=transaction),
        ]:
            with refused("OTSSessionNotExist") as caught:
                does()
            said.add(caught.value.message)
    for transaction in [of_bank, gone]:
        with refused("OTSSessionNotExist") as caught:
            both.put_row("shop_a", Row(key("t"), [("c", 1)]), IGNORE, transaction_id=transaction)
        said.add(caught.value.message)
    assert len(said) == 1
    # Its own is there, and what is in it.
    found = get(both, "shop_a", "u", transaction_id=of_shop)
    assert [value for name, value, _ in found if name == "c"] == ["not committed"]
    both.abort_transaction(of_shop)
    admin.abort_transaction(of_bank)


def test_tables_of_timelines_show_what_may_be_read(house):
    rooms, admin = house.client("rooms"), house.client("admin")
    names = ("timeline_id",)
    assert scan(rooms, "timeline_meta", names) == [["open/1"]]
    assert scan(rooms, "timeline_meta", names, "BACKWARD") == [["open/1"]]
    assert ["room/1"] in scan(admin, "timeline_meta", names)
    messages = ("timeline_id", "sequence_id")
    assert scan(rooms, "timeline_message", messages) == [["open/1", 1]]
    for name in ["room/1", "room/none"]:
        assert get(rooms, "timeline_message", [("timeline_id", name), ("sequence_id", 1)], max_version=1) is None
        assert get(rooms, "timeline_meta", [("timeline_id", name)], max_version=1) is None
    assert get(rooms, "timeline_message", [("timeline_id", "open/1"), ("sequence_id", 1)], max_version=1)
    assert get(admin, "timeline_message", [("timeline_id", "room/1"), ("sequence_id", 1)], max_version=1)
    # To read timelines is not to read tables.
    with denied():
        scan(house.client("blind"), "timeline_meta", names)


def test_an_inbox_is_read_as_a_timeline_only(house):
    """There each of its entries is decided."""
    rpc(house, "timeline.create", timeline="wire/1", settings={"fan_out": "write"}, members=[{"user": "ann"}])
    rpc(house, "message.append", timeline="wire/1", entry={"a": 1})
    read = until(lambda: rpc(house, "message.range", by="inbox", timeline="$inbox/ann"))
    assert [message.get("hidden") for message in read["messages"]] == [True]
    client = house.client("inbox")
    assert scan(client, "timeline_meta", ("timeline_id",)) == scan(client, "timeline_message", ("timeline_id", "sequence_id")) == []
    assert get(client, "timeline_message", [("timeline_id", "$inbox/ann"), ("sequence_id", 1)], max_version=1) is None
    assert get(client, "timeline_meta", [("timeline_id", "$inbox/ann")], max_version=1) is None


def test_a_range_over_timelines_passes_over_what_lies_between(house):
    names = ["aisle/1", "aisle/2", "between/1", "stage/1", "tail/1"]
    for name in names:
        rpc(house, "message.append", timeline=name, entry={"a": 1})
    seen = [[name] for name in names if name.startswith(("aisle/", "stage/"))]
    two = house.client("two")
    assert scan(two, "timeline_meta", ("timeline_id",)) == seen
    assert scan(two, "timeline_meta", ("timeline_id",), "BACKWARD") == seen[::-1]


def test_a_search_needs_the_rights_of_its_table(house):
    meta = SearchIndexMeta([FieldSchema("c", FieldType.LONG)])
    everything = SearchQuery(MatchAllQuery(), limit=100)
    for name in ["reader", "writer", "both", "blind"]:
        with refused("OTSNoPermissionAccess"):
            house.client(name).create_search_index("shop_a", "index", meta)
    with refused("OTSNoPermissionAccess"):
        house.client("maker").create_search_index("bank_a", "index", meta)
    house.client("maker").create_search_index("shop_a", "index", meta)
    house.client("admin").create_search_index("bank_a", "index", meta)
    try:
        for name in ["reader", "both", "owner", "rooms"]:
            found = house.client(name).search("shop_a", "index", everything)
            # Other tests leave rows of theirs.
            assert key("row") in [row[0] for row in found.rows], name
        for name, table in [("writer", "shop_a"), ("maker", "shop_a"), ("blind", "shop_a"), ("reader", "bank_a"), ("reader", "nowhere")]:
            client = house.client(name)
            with refused("OTSNoPermissionAccess"):
                client.search(table, "index", everything)
            with refused("OTSNoPermissionAccess"):
                client.compute_splits(table, "index")
        assert house.client("reader").list_search_index() == [("shop_a", "index")]
        with refused("OTSNoPermissionAccess"):
            house.client("reader").delete_search_index("shop_a", "index")
    finally:
        for table in ["shop_a", "bank_a"]:
            house.client("admin").delete_search_index(table, "index")


OPERATIONS = [
    "CreateTable", "UpdateTable", "DescribeTable", "ListTable", "DeleteTable", "AddDefinedColumn", "DeleteDefinedColumn",
    "CreateIndex", "DropIndex", "ListSearchIndex", "GetRow", "PutRow", "UpdateRow", "DeleteRow", "BatchGetRow",
    "BatchWriteRow", "GetRange", "ListStream", "DescribeStream", "GetShardIterator", "GetStreamRecord",
    "StartLocalTransaction", "CommitTransaction", "AbortTransaction", "ExportTable", "CreateSearchIndex", "UpdateSearchIndex",
    "DescribeSearchIndex", "DeleteSearchIndex", "Search", "ComputeSplits", "ParallelScan", "SQLQuery",
    "CreateTimeseriesTable", "ListTimeseriesTable", "DescribeTimeseriesTable", "UpdateTimeseriesTable", "DeleteTimeseriesTable",
    "PutTimeseriesData", "GetTimeseriesData", "QueryTimeseriesMeta", "UpdateTimeseriesMeta", "DeleteTimeseriesMeta",
]


def test_no_operation_is_done_with_a_bad_signature(house):
    secret, of_admin = house.made["both"][-43:], house.made["admin"]
    plain = rpc(house, "key.create", name="plain", rights=[{"on": "*", "allow": ["admin"]}])["key"]
    gone = rpc(house, "key.create", name="gone", rights=[{"on": "*", "allow": ["admin"]}], signing=True)["key"]
    rpc(house, "key.revoke", id=gone[3:15])
    bad = {
        "unknown": ("nosuchkey000", secret),
        "another's secret": (of_admin[3:15], secret),
        "cut short": (of_admin[3:15], of_admin[-43:-1]),
        "not for signing": (plain[3:15], plain[-43:]),
        "revoked": (gone[3:15], gone[-43:]),
        "without [auth]": ("development", "development"),
    }
    for operation in OPERATIONS:
        for how, (key_id, secret) in bad.items():
            status, _, body = signed(house, operation, key_id, secret)
            assert status == 403 and b"OTSAuthFailed" in body, (operation, how)
        # The twin.
        status, _, body = signed(house, operation, of_admin[3:15], of_admin[-43:])
        assert b"OTSAuthFailed" not in body and b"OTSNoPermissionAccess" not in body, operation


def test_keys_that_count_no_more(house):
    shop = house.made["reader"]
    with refused("OTSAuthFailed"):
        connect(house, shop[3:15], shop[-43:][::-1]).list_table()
    with refused("OTSAuthFailed"):
        connect(house).list_table()
    assert list(connect(house, shop[3:15], shop[-43:]).list_table()) == ["shop_a"]


def slowly(server, client, operation, body, meanwhile):
    """A request whose body comes in two pieces, and what is done between them: the status and the body of its answer."""
    headers = {**headers_of(client, operation, body), "host": "localhost", "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"POST /{operation} HTTP/1.1\r\n{head}\r\n".encode() + body[:5])
        # The head has come, and its signature was right.
        time.sleep(0.3)
        meanwhile()
        connection.sendall(body[5:])
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read()


def rows_of(client):
    """A request of each kind that reads or writes rows, as the SDK encodes it."""
    encode = lambda operation, *arguments: client.protocol.encoder.encode_request(operation, *arguments).SerializeToString()
    gets, writes = BatchGetRowRequest(), BatchWriteRowRequest()
    gets.add(TableInBatchGetRowItem("shop_a", [key("row")], max_version=1))
    writes.add(TableInBatchWriteRowItem("shop_a", [PutRowItem(Row(key(f"late{number}"), [("c", 1)]), IGNORE) for number in range(3)]))
    return {
        "GetRow": encode("GetRow", "shop_a", key("row"), None, None, 1, None, None, None, None, None),
        "BatchGetRow": encode("BatchGetRow", gets),
        "PutRow": encode("PutRow", "shop_a", Row(key("late"), [("c", 1)]), IGNORE, None, None),
        "BatchWriteRow": encode("BatchWriteRow", writes),
        "DeleteTable": encode("DeleteTable", "shop_a"),
    }


@pytest.mark.parametrize("operation", ["GetRow", "BatchGetRow", "PutRow", "BatchWriteRow", "DeleteTable"])
def test_a_key_that_is_taken_back_while_its_request_comes_does_nothing(house, operation):
    made = rpc(house, "key.create", name="late", rights=[{"on": "*", "allow": ["admin"]}], signing=True)["key"]
    client, before = connect(house, made[3:15], made[-43:]), scan(house.client("admin"), "shop_a")
    body = rows_of(client)[operation]
    if operation != "DeleteTable":
        assert slowly(house, client, operation, body, lambda: None)[0] == 200
        for late in ["late", "late0", "late1", "late2"]:
            house.client("admin").delete_row("shop_a", Row(key(late)), IGNORE)
    status, answer = slowly(house, client, operation, body, lambda: rpc(house, "key.revoke", id=made[3:15]))
    assert status == 403 and b"OTSNoPermissionAccess" in answer
    assert scan(house.client("admin"), "shop_a") == before


def test_a_transaction_of_a_key_that_was_taken_back_is_not_committed(house):
    made = rpc(house, "key.create", name="late", rights=[{"on": "shop_*", "allow": ["tables:read", "tables:write"]}], signing=True)["key"]
    client = connect(house, made[3:15], made[-43:])
    transaction = client.start_local_transaction("shop_a", key("w-late"))
    client.put_row("shop_a", Row(key("w-late"), [("c", 1)]), IGNORE, transaction_id=transaction)
    rpc(house, "key.revoke", id=made[3:15])
    with refused("OTSAuthFailed"):
        client.commit_transaction(transaction)
    assert get(house.client("admin"), "shop_a", "w-late") is None
    house.client("both").abort_transaction(transaction)
    assert get(house.client("admin"), "shop_a", "w-late") is None


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_skipped_decision_would_be_seen(tmp_path):
    """The control: a server that skips the decision lets them all in."""
    house = Guarded(tmp_path, environment={"TIDELINE_FAULT": "skip_decision"}).start()
    try:
        create(house.client("blind"), "shop_a")
        put(house.client("reader"), "shop_a", "row")
        assert get(house.client("blind"), "shop_a", "row") == []
    finally:
        house.kill()
