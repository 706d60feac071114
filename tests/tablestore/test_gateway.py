"""The server around the tables: credentials, the rate of a partition key, what is asked of it and not there."""

import socket

import pytest
from tablestore import (
    INF_MAX, INF_MIN, BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, Row, TableInBatchWriteRowItem,
    TableMeta, TableOptions,
)

from sdk import IGNORE, STRING_KEY, connect, get, invalid, key, put, refused, scan, signed
from server import Server


def create(client, name):
    client.create_table(TableMeta(name, STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))


@pytest.fixture
def configured(tmp_path):
    """Starts a server with settings."""
    started = []

    def start(**settings):
        environment = {"TIDELINE_" + name.upper(): value for name, value in settings.items()}
        started.append(Server(tmp_path, environment).start())
        return started[-1]

    yield start
    for server in started:
        server.kill()


COLONS = "a:secret:with:colons:in:all:of:it"
OTHER = "another-secret-of-thirty-bytes"


def test_own_keys_and_instances_replace_the_development_ones(configured):
    server = configured(
        tablestore_credentials=f"first:{COLONS},second:{OTHER}", tablestore_instances="harbour,another-one"
    )
    for key_id, secret in [("first", COLONS), ("second", OTHER)]:
        for instance in ["harbour", "another-one"]:
            for options in [{}, {"region": "somewhere"}]:
                assert connect(server, key_id, secret, instance, **options).list_table()
    # Whether there is such a key is not told; which instances there are is no secret.
    for key_id in ["development", "first"]:
        with refused("OTSAuthFailed", "Signature mismatch."):
            connect(server, key_id, "development", "harbour").list_table()
    with refused("OTSAuthFailed", "The instance is not found."):
        connect(server).list_table()
    with refused("OTSAuthFailed", "Signature mismatch."):
        connect(server, "first", OTHER, "harbour").list_table()
    with refused("OTSAuthFailed", "The instance is not found."):
        connect(server, "first", COLONS, "tideline").list_table()


def test_the_development_key_is_for_this_machine_alone(configured):
    server = configured(allowed_hosts="tideline.example", insecure="true")
    client = connect(server)

    def ask(**more):
        return server.http("POST", "/ListTable", b"", {**signed(client, "ListTable", b""), **more})

    assert ask()[0] == 200
    for name, value in [
        ("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https"), ("Via", "1.1 x"),
        ("Host", "tideline.example"),
    ]:
        status, _, body = ask(**{name: value})
        assert status == 403 and b"Signature mismatch" in body, (name, body)
    assert "tablestore_credentials" in server.log()
    # One's own keys count there, and nobody else's beside them.
    server.kill()
    server = configured(tablestore_credentials=f"me:{OTHER},development:development")
    assert connect(server, "me", OTHER).list_table()
    with refused("OTSAuthFailed", "Signature mismatch."):
        connect(server).list_table()


def test_without_keys_nobody_may_call(configured):
    with refused("OTSAuthFailed", "Signature mismatch."):
        connect(configured(tablestore_credentials="")).list_table()


def test_a_partition_key_that_is_too_fast_is_slowed_down(configured):
    client = connect(configured(tablestore_partition_key_units_max="20"))
    create(client, "limited")
    with refused("OTSCapacityUnitExhausted", "Capacity unit is not enough."):
        for number in range(100_000):
            put(client, "limited", "busy", [("c", number)])
    # Others go on meanwhile; in a batch the row fails alone.
    put(client, "limited", "another", [("c", 1)])
    put(client, "limited", "busy_too", [("c", "x" * 4096 * 400)])
    request = BatchWriteRowRequest()
    items = [PutRowItem(Row(key(text), [("c", 1)]), IGNORE) for text in ["busy_too", "third"]]
    request.add(TableInBatchWriteRowItem("limited", items))
    slowed, other = client.batch_write_row(request).get_put_by_table("limited")
    assert (slowed.error_code, slowed.error_message) == ("OTSCapacityUnitExhausted", "Capacity unit is not enough.")
    assert other.is_ok
    with refused("OTSCapacityUnitExhausted"):
        client.get_row("limited", key("busy_too"))


def test_answers_that_nobody_reads_are_bounded_over_all_connections(configured):
    # The first must still wait when the last asks, also on a slow machine.
    server = configured(answers_bytes_max=str(128 << 20), request_ms_max="600000")
    client = connect(server)
    create(client, "wide")
    put(client, "wide", "small", [("c", 1)])
    for number in range(9):
        client.update_row("wide", Row(key("row"), {"put": [(f"c{number}", bytearray(2_000_000))]}), IGNORE)
    encoder = client.protocol.encoder
    body = encoder.encode_request("GetRow", "wide", key("row"), None, None, 1, None, None, None, None, None)
    body = body.SerializeToString()
    headers = "".join(f"{name}: {value}\r\n" for name, value in signed(client, "GetRow", body).items())
    head = f"POST /GetRow HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    refusals, lazy = 0, []
    for _ in range(12):
        reader = socket.create_connection(("127.0.0.1", server.port), 20)
        reader.sendall(head.encode() + body)
        refusals += reader.recv(12) == b"HTTP/1.1 503"
        lazy.append(reader)
    # An answer takes 18 MB: seven of them fit.
    assert refusals == 5
    assert get(client, "wide", "small")
    for reader in lazy:
        reader.close()
    # The SDK tries again until there is room.
    assert len(get(client, "wide", "row")) == 9


def test_capacity_units_have_a_most(client, table):
    client.update_table(table, reserved_throughput=ReservedThroughput(CapacityUnit(100_000, 100_000)))
    with invalid("Invalid Capacity Unit:100001 . Capacity Unit must be in range [0, 100000]."):
        client.update_table(table, reserved_throughput=ReservedThroughput(CapacityUnit(100_001, 0)))
