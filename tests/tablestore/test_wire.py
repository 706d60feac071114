"""The HTTP below the SDK: who may ask, what a request must be, and what bad input gets.

Bodies and signatures are the SDK's own, then damaged. After each attempt the table must be as it was and the server alive.
"""

import base64
import hashlib
import http.client
import random
import time

import pytest
from tablestore import INF_MAX, INF_MIN, Row
from tablestore.protobuf import table_store_pb2 as pb

from sdk import IGNORE, call, connect, field, get, key, put, refused, scan, signed, values

PARAMETER = "OTSParameterInvalid"


def send(server, path, body=b"", headers=(), method="POST"):
    """Status, error code, text; a request that succeeds gives (200, "", body)."""
    status, answered, content = server.http(method, path, body, dict(headers))
    if status == 200:
        return status, "", content
    assert answered["x-ots-requestid"], answered
    error = pb.Error.FromString(content)
    return status, error.code, error.message


def attempt(server, client, operation, body, **changes):
    return send(server, "/" + operation, body, signed(client, operation, body, **changes))


def encoded(client, operation, *arguments):
    return client.protocol.encoder.encode_request(operation, *arguments).SerializeToString()


def put_body(client, table, text="a", columns=(("c", 1),)):
    return encoded(client, "PutRow", table, Row(key(text), list(columns)), IGNORE, None, None)


@pytest.fixture
def untouched(client, table):
    """A table with one row, which after the test it still has, and nothing else."""
    put(client, table, "kept", [("c", 1)])
    before = get(client, table, "kept")
    yield table
    assert get(client, table, "kept") == before
    assert scan(client, table) == [["kept"]]


def test_a_request_as_the_sdk_makes_it_passes(server, client, untouched):
    body = encoded(client, "GetRow", untouched, key("kept"), None, None, 1, None, None, None, None, None)
    status, _, content = attempt(server, client, "GetRow", body)
    assert status == 200 and pb.GetRowResponse.FromString(content).row


def test_both_signatures(server):
    for options in [{}, {"region": "cn-hangzhou"}, {"region": "anywhere", "sign_date": None}]:
        assert isinstance(connect(server, **options).list_table(), tuple)
        with refused("OTSAuthFailed", "Signature mismatch."):
            connect(server, secret="wrong", **options).list_table()
        # Which keys there are is not told.
        with refused("OTSAuthFailed", "Signature mismatch."):
            connect(server, key_id="nobody", **options).list_table()
        with refused("OTSAuthFailed", "The instance is not found."):
            connect(server, instance="nowhere", **options).list_table()


def test_answers_are_signed_and_dated(server, client):
    status, headers, body = server.http("POST", "/ListTable", b"", signed(client, "ListTable", b""))
    assert status == 200
    assert headers["x-ots-contentmd5"] == base64.b64encode(hashlib.md5(body).digest()).decode()
    assert headers["x-ots-contenttype"] == "protocol buffer"
    assert headers["authorization"].startswith("OTS development:")
    _, again, _ = server.http("POST", "/ListTable", b"", signed(client, "ListTable", b""))
    assert headers["x-ots-requestid"] != again["x-ots-requestid"]


def test_a_tampered_answer_would_be_noticed(server, monkeypatch):
    client = connect(server)
    own = client.connection.send_receive

    def tampered(*arguments):
        status, reason, headers, body = own(*arguments)
        return status, reason, {**headers, "x-ots-requestid": "another"}, body

    monkeypatch.setattr(client.connection, "send_receive", tampered)
    with pytest.raises(Exception, match="Invalid signature in response"):
        client.list_table()


@pytest.mark.parametrize(
    "header", ["x-ots-apiversion", "x-ots-accesskeyid", "x-ots-instancename", "x-ots-contentmd5", "x-ots-date"]
)
def test_a_header_is_missing(server, client, untouched, header):
    body = put_body(client, untouched)
    expected = (400, PARAMETER, f"Missing header: {header}.")
    assert attempt(server, client, "PutRow", body, **{header.replace("-", "_"): None}) == expected


def test_there_is_no_signature(server, client, untouched):
    body = put_body(client, untouched)
    headers = signed(client, "PutRow", body)
    del headers["x-ots-signature"]
    assert send(server, "/PutRow", body, headers) == (400, PARAMETER, "Missing header: x-ots-signature.")


def test_dates(server, client, untouched):
    body = put_body(client, untouched)
    for date in ["2020-01-02T03:04:05.000Z", "2120-01-02T03:04:05.000Z"]:
        expected = (403, "OTSAuthFailed", f"Mismatch between system time and x-ots-date: {date}.")
        assert attempt(server, client, "PutRow", body, x_ots_date=date) == expected
    for date in ["yesterday", "", "2026-13-01T00:00:00.000Z"]:
        expected = (400, PARAMETER, f"Invalid date format: {date}.")
        assert attempt(server, client, "PutRow", body, x_ots_date=date) == expected


def test_dates_as_other_sdks_write_them(server, client):
    # The one for Go takes month, day and hour for the fraction of the second; that for PHP writes zeros.
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    for fraction in ["", ".000", ".123", ".112312", ".11218", ".123456789"]:
        assert attempt(server, client, "ListTable", b"", x_ots_date=f"{seconds}{fraction}Z")[0] == 200


def test_what_was_signed_is_what_counts(server, client, untouched):
    body = put_body(client, untouched)
    mismatch = (403, "OTSAuthFailed", "Signature mismatch.")
    headers = signed(client, "PutRow", body)
    assert send(server, "/PutRow", body, {**headers, "x-ots-extra": "1"}) == mismatch
    assert send(server, "/UpdateRow", body, headers) == mismatch
    assert send(server, "/PutRow", body, {**headers, "x-ots-signature": headers["x-ots-signature"][:-1]}) == mismatch
    assert send(server, "/PutRow", body, {**headers, "x-ots-signature": ""}) == mismatch
    other = put_body(client, untouched, "b")
    text = "Mismatch between MD5 value of request body and x-ots-contentmd5 in header."
    assert send(server, "/PutRow", other, headers) == (403, "OTSAuthFailed", text)
    assert attempt(server, client, "PutRow", body, x_ots_contentmd5="AAAA")[1:] == ("OTSAuthFailed", text)


def test_headers_that_others_send_enter_the_signature(server, client, untouched):
    body = encoded(client, "GetRow", untouched, key("kept"), None, None, 1, None, None, None, None, None)
    extra = {"x_ots_sdk_traceid": "a-1", "x_ots_request_priority": "0", "x_ots_ststoken": "token"}
    assert attempt(server, client, "GetRow", body, **extra)[0] == 200


def test_the_documented_order_of_checks(server, client, untouched):
    nonsense = b"\xff\xff"
    old = "2020-01-02T03:04:05.000Z"
    wrong = connect(server, secret="wrong")
    nobody = connect(server, key_id="nobody", instance="nowhere")
    unknown = connect(server, key_id="nobody")
    assert attempt(server, nobody, "PutRow", nonsense, x_ots_date=old)[2].startswith("Mismatch between system time")
    assert attempt(server, nobody, "PutRow", nonsense)[2] == "The instance is not found."
    assert attempt(server, unknown, "PutRow", nonsense)[2] == "Signature mismatch."
    assert attempt(server, wrong, "PutRow", nonsense)[2] == "Signature mismatch."
    assert attempt(server, client, "PutRow", nonsense)[2] == "Parse PBMessage from RawString failed."


def test_operations_that_are_none(server, client, untouched):
    body = put_body(client, untouched)
    for operation in ["Nothing", "putrow", "search", "sqlquery", "BulkImport", "ScanTimeseriesData", "SplitTimeseriesScanTask"]:
        assert attempt(server, client, operation, body) == (400, PARAMETER, f"Unsupported operation: {operation}.")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_is_taken(server, client, untouched, method):
    body = put_body(client, untouched)
    expected = (405, "OTSMethodNotAllowed", "Only POST method for requests is supported.")
    assert send(server, "/PutRow", body, signed(client, "PutRow", body), method) == expected


def test_bodies_that_are_no_message(server, client, untouched):
    text = "Parse PBMessage from RawString failed."
    good = put_body(client, untouched)
    for body in [b"\xff", b"\xff\xff\xff\xff", b"\x0a\x05abc", b"{}", b"", good[:-1], good + b"\x0a"]:
        for operation in ["PutRow", "UpdateRow", "DeleteRow", "GetRow", "GetRange", "CreateTable", "DescribeTable"]:
            status, code, message = attempt(server, client, operation, body)
            assert (status, code) == (400, PARAMETER), (operation, body)
            if operation == "PutRow":
                assert message == text
    for operation in ["BatchGetRow", "BatchWriteRow"]:
        assert attempt(server, client, operation, b"\xff")[:2] == (400, PARAMETER)


def damaged_put(client, table, row):
    return field(1, table) + field(2, row) + field(3, field(1, 0))


def row_of(client, table, text="a"):
    return pb.PutRowRequest.FromString(put_body(client, table, text)).row


def test_rows_that_are_none(server, client, untouched):
    row = row_of(client, untouched)
    # header 4, row 1, cell 1, name 1 + 4 + 1, value 1 + 4, type 1, length 4, text 1, checksum 2, …
    assert row[4:6] == b"\x01\x03" and row[-2] == 0x09
    for label, bad in {
        "another header": b"\x76" + row[1:],
        "a wrong checksum of the row": row[:-1] + bytes([row[-1] ^ 1]),
        "a wrong checksum of a cell": row.replace(b"\x61\x0a", b"\x62\x0a", 1),
        "no checksum of the row": row[:-2],
        "a name longer than the rest": row.replace(b"\x04\x01\x00\x00\x00k", b"\x04\xff\xff\xff\x7fk", 1),
        "a name of negative length": row.replace(b"\x04\x01\x00\x00\x00k", b"\x04\xff\xff\xff\xffk", 1),
        "a value longer than the rest": row.replace(b"\x03\x01\x00\x00\x00a", b"\x03\xff\xff\xff\x7fa", 1),
        "an unknown type": row.replace(b"\x03\x01\x00\x00\x00a", b"\x55\x01\x00\x00\x00a", 1),
        "nothing": b"",
        "a header only": row[:4],
        "two rows": row + row[4:],
        "bytes behind it": row + b"\x00\x01",
    }.items():
        assert bad != row, label
        status, code, text = attempt(server, client, "PutRow", damaged_put(client, untouched, bad))
        assert (status, code) == (400, PARAMETER) and text, label
    text = attempt(server, client, "PutRow", damaged_put(client, untouched, b"\x76" + row[1:]))[2]
    assert text.startswith("Cell data broken, mismatch header, actual: ")
    bad = row[:-1] + bytes([row[-1] ^ 1])
    assert "checksum is mismatch" in attempt(server, client, "PutRow", damaged_put(client, untouched, bad))[2]


def test_a_row_cut_anywhere_or_with_a_flipped_bit_writes_nothing(server, client, untouched):
    row = row_of(client, untouched)
    for end in range(len(row)):
        got = attempt(server, client, "PutRow", damaged_put(client, untouched, row[:end]))
        assert got[:2] == (400, PARAMETER), end
    for at in range(len(row)):
        flipped = row[:at] + bytes([row[at] ^ 1 << at % 8]) + row[at + 1 :]
        got = attempt(server, client, "PutRow", damaged_put(client, untouched, flipped))
        assert got[0] in (400, 404), at


def test_delete_markers(server, client, untouched):
    delete = encoded(client, "DeleteRow", untouched, key("kept"), IGNORE, None, None)
    assert attempt(server, client, "PutRow", delete)[1:] == (
        PARAMETER,
        "Invalid request of put/update row: unexpected RowDeleteMarker in request.",
    )
    assert attempt(server, client, "DeleteRow", put_body(client, untouched, "kept"))[1:] == (
        PARAMETER,
        "Invalid request of delete row: missing RowDeleteMarker in request.",
    )
    got = field(1, untouched) + field(2, pb.DeleteRowRequest.FromString(delete).primary_key) + field(5, 1)
    assert attempt(server, client, "GetRow", got)[1:] == (PARAMETER, "Delete marker cannot be given.")
    got = field(1, untouched) + field(2, row_of(client, untouched)) + field(5, 1)
    text = "Attribute column cannot be given while reading data."
    assert attempt(server, client, "GetRow", got)[1:] == (PARAMETER, text)


def test_numbers_that_name_nothing(server, client, untouched):
    row = row_of(client, untouched)
    body = field(1, untouched) + field(2, row) + field(3, field(1, 7))
    assert attempt(server, client, "PutRow", body)[1:] == (PARAMETER, "Invalid row-existence expectation: 7.")
    body = field(1, untouched) + field(2, row) + field(3, field(1, 0)) + field(4, field(1, 9))
    assert attempt(server, client, "PutRow", body)[:2] == (400, PARAMETER)
    low = pb.GetRowRequest.FromString(
        encoded(client, "GetRow", untouched, key(INF_MIN), None, None, 1, None, None, None, None, None)
    ).primary_key
    high = pb.GetRowRequest.FromString(
        encoded(client, "GetRow", untouched, key(INF_MAX), None, None, 1, None, None, None, None, None)
    ).primary_key
    body = field(1, untouched) + field(2, 5) + field(5, 1) + field(7, low) + field(8, high)
    assert attempt(server, client, "GetRange", body)[:2] == (400, PARAMETER)


def test_times_of_which_half_is_given(server, client, untouched):
    body = encoded(client, "GetRow", untouched, key("kept"), None, None, None, None, None, None, None, None)
    assert attempt(server, client, "GetRow", body + field(4, field(1, 5)))[1:] == (
        PARAMETER,
        "Start and end time must be given at the same time.",
    )
    assert attempt(server, client, "GetRow", body + field(4, field(1, 5) + field(2, 9) + field(3, 7)))[1:] == (
        PARAMETER,
        "Specific tiemstamp and time range cannot be given at the same time.",
    )


def test_bodies_that_are_too_large(server, client, untouched):
    body = field(1, untouched) + field(15, bytes(9 << 20))
    status, code, text = attempt(server, client, "PutRow", body)
    assert (status, code, text) == (413, "OTSRequestBodyTooLarge", "The size of POST data is too large.")


def test_random_bodies_harm_nothing(server, client, untouched):
    dice = random.Random(7)
    seeds = [
        put_body(client, untouched, "a"),
        encoded(client, "GetRange", untouched, "FORWARD", key(INF_MIN), key(INF_MAX), ["c"], 2, None, 1, None, None,
                None, None, None),
        encoded(client, "DescribeTable", untouched),
    ]
    operations = [
        "CreateTable", "UpdateTable", "DescribeTable", "AddDefinedColumn", "DeleteDefinedColumn", "GetRow", "PutRow",
        "UpdateRow", "DeleteRow", "BatchGetRow", "BatchWriteRow", "GetRange",
    ]
    for _ in range(400):
        body = bytearray(dice.choice(seeds) if dice.random() < 0.7 else dice.randbytes(dice.randrange(60)))
        # Behind the table's name, so that no other table is made or deleted.
        for _ in range(dice.randrange(1, 5)):
            if len(body) > 20:
                body[dice.randrange(len(untouched) + 2, len(body))] = dice.randrange(256)
        body, operation = bytes(body), dice.choice(operations)
        if operation == "PutRow" and body in seeds:
            continue
        status, code, text = attempt(server, client, operation, body)
        assert status == 200 or (status in (400, 404) and code and text), (operation, body.hex())


def test_a_connection_is_used_again_also_after_refusals(server, client, untouched):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.connect()
    socket = connection.sock
    good = encoded(client, "GetRow", untouched, key("kept"), None, None, 1, None, None, None, None, None)
    for body, status in [(good, 200), (b"\xff", 400), (good, 200)] * 3:
        connection.request("POST", "/GetRow", body, signed(client, "GetRow", body))
        response = connection.getresponse()
        response.read()
        assert response.status == status and connection.sock is socket
    connection.close()


def test_what_the_sdk_has_no_method_for_goes_its_own_way(client, untouched):
    answer = call(client, "DescribeTable", field(1, untouched))
    assert pb.DescribeTableResponse.FromString(answer).table_meta.table_name == untouched
    assert values(client, untouched, "kept") == [("c", 1)]
