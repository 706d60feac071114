"""Short words around the official SDK, and the few messages that it has no method for.

Owns: how rows, keys and refusals are written in these tests. What goes over the wire is encoded, signed, sent, checked and
decoded by the SDK as it is; `call` and `atomic` only hand it a body, which it then signs and sends like its own.
"""

import contextlib
import time

import pytest
from tablestore import INF_MAX, INF_MIN, Condition, OTSClient, OTSServiceError, Row, RowExistenceExpectation
from tablestore.auth import RequestContext
from tablestore.encoder import NativeEncodedBytes
from tablestore.retry import NoRetryPolicy

STRING_KEY = [("k", "STRING")]
IGNORE = Condition(RowExistenceExpectation.IGNORE)
EXIST = Condition(RowExistenceExpectation.EXPECT_EXIST)
NOT_EXIST = Condition(RowExistenceExpectation.EXPECT_NOT_EXIST)

STATUS = {
    "OTSParameterInvalid": 400,
    "OTSInvalidPK": 400,
    "OTSMetaNotMatch": 400,
    "OTSUnsupportOperation": 400,
    "OTSSessionExpired": 400,
    "OTSDataOutOfRange": 400,
    "OTSSessionNotExist": 400,
    "OTSAuthFailed": 403,
    "OTSNoPermissionAccess": 403,
    "OTSConditionCheckFail": 403,
    "OTSQuotaExhausted": 403,
    "OTSCapacityUnitExhausted": 403,
    "OTSObjectNotExist": 404,
    "OTSTrimmedDataAccess": 404,
    "OTSMethodNotAllowed": 405,
    "OTSRowOperationConflict": 409,
    "OTSObjectAlreadyExist": 409,
    "OTSRequestBodyTooLarge": 413,
}


def connect(server, key_id="development", secret="development", instance="tideline", **options):
    """A client that tries nothing twice, so that a test sees every refusal."""
    return OTSClient(server.origin, key_id, secret, instance, retry_policy=NoRetryPolicy(), **options)


@contextlib.contextmanager
def refused(code, text=None):
    """What is within is refused with this code, its HTTP status and, where told, literally this text."""
    with pytest.raises(OTSServiceError) as caught:
        yield caught
    error = caught.value
    assert (error.code, error.http_status) == (code, STATUS[code]), error
    assert error.request_id, error
    if text is not None:
        assert error.message == text


def invalid(text=None):
    return refused("OTSParameterInvalid", text)


def now_ms():
    return int(time.time() * 1000)


def key(text):
    return [("k", text)]


def put(client, table, text, columns=(), condition=IGNORE):
    """Puts a row of a table whose key is one text; gives what it used."""
    consumed, row = client.put_row(table, Row(key(text), list(columns)), condition)
    assert row is None
    return consumed


def update(client, table, text, condition=IGNORE, **changes):
    consumed, row = client.update_row(table, Row(key(text), changes), condition)
    assert row is None
    return consumed


def get(client, table, primary_key, **selection):
    """The row's attributes as (name, value, version), or None where there is no row."""
    if isinstance(primary_key, str):
        primary_key = key(primary_key)
    _, row, _ = client.get_row(table, primary_key, **selection)
    if row is None:
        return None
    assert row.primary_key == primary_key
    return row.attribute_columns


def values(client, table, primary_key, **selection):
    """As `get`, without versions."""
    columns = get(client, table, primary_key, **selection)
    return None if columns is None else [(name, value) for name, value, _ in columns]


def scan(client, table, names=("k",), direction="FORWARD", **options):
    """All rows' primary keys, page by page."""
    low, high = [(name, INF_MIN) for name in names], [(name, INF_MAX) for name in names]
    start, end = (low, high) if direction == "FORWARD" else (high, low)
    found = []
    while start:
        _, start, rows, _ = client.get_range(table, direction, start, end, **options)
        found += [[value for _, value in row.primary_key] for row in rows]
    return found


def users_tables(client):
    """The names of all tables but those that show timelines, which are always there."""
    names = client.list_table()
    assert {"timeline_message", "timeline_meta"} <= set(names)
    return sorted(name for name in names if not name.startswith("timeline_"))


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, content):
    """A field of a protobuf message: an integer, a text, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def call(client, operation, body):
    """Sends an operation that the SDK has no method for through it: it signs, sends, and checks the signed answer.

    Gives the answer's body.
    """
    if operation not in client.protocol.api_list:
        client.protocol.api_list = client.protocol.api_list + [operation]
    client.protocol.encoder.api_encode_map[operation] = lambda: NativeEncodedBytes(body)
    client.protocol.decoder.api_decode_map[operation] = lambda answer, _request_id: (answer, None)
    return client._request_helper(operation)


def atomic(client, request):
    """A BatchWriteRow with `is_atomic`, which the SDK's message lacks: its own bytes, and one field more."""
    encoder = client.protocol.encoder.api_encode_map
    own = encoder["BatchWriteRow"]
    encoder["BatchWriteRow"] = lambda it: NativeEncodedBytes(own(it).SerializeToString() + field(3, 1))
    try:
        return client.batch_write_row(request)
    finally:
        encoder["BatchWriteRow"] = own


def signed(client, operation, body, **changes):
    """The headers of a request as the SDK makes them; `changes` (None leaves one out) are made before it signs."""
    context = RequestContext(client.credentials_provider.get_credentials())
    names = {name.replace("_", "-"): value for name, value in changes.items()}
    protocol, signer = client.protocol, client._signer
    before = protocol._make_request_headers(body, "/" + operation, signer, context)
    headers = {name: value for name, value in before.items() if name.startswith("x-ots-")}
    for name in ("x-ots-signature", "x-ots-signaturev4"):
        headers.pop(name, None)
    headers.update(names)
    headers = {name: value for name, value in headers.items() if value is not None}
    signer.make_request_signature_and_add_headers("/" + operation, headers, context)
    return headers
