"""Tablestore's API as far as tests need it without its SDK: a signed request, and a table.

Owns: nothing. Must not: need more than Python's own library.
"""

import base64
import hashlib
import hmac
import time

# Types of key columns.
INTEGER, STRING, BINARY = 1, 2, 3


def signed(server, operation, key_id, secret, body=b""):
    """A signed request to Tablestore's API: status, headers and body."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    headers = {
        "x-ots-accesskeyid": key_id,
        "x-ots-apiversion": "2015-12-31",
        "x-ots-contentmd5": base64.b64encode(hashlib.md5(body).digest()).decode(),
        "x-ots-date": now,
        "x-ots-instancename": "tideline",
    }
    text = f"/{operation}\nPOST\n\n" + "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()
    headers["x-ots-signature"] = base64.b64encode(signature).decode()
    return server.http("POST", f"/{operation}", body, headers)


def field(number, body):
    """A text, bytes or a message in a message."""
    return bytes([number << 3 | 2, len(body)]) + body


def one_key_index(table, index):
    """The parameters of CreateSearchIndex, over the key of such a table."""
    column = field(1, b"id") + bytes([2 << 3, 4])
    return field(1, table.encode()) + field(2, index.encode()) + field(3, field(1, column))


def search_for_all(table, index):
    """The parameters of Search."""
    return field(1, table.encode()) + field(2, index.encode()) + field(4, b"")


def one_key_table(name):
    """The parameters of CreateTable, with one key column `id` of text."""
    return a_table(name, id=STRING)


def a_table(name, **key):
    """The parameters of CreateTable, with these key columns and their types."""
    columns = b"".join(field(2, field(1, column.encode()) + bytes([2 << 3, kind])) for column, kind in key.items())
    meta = field(1, name.encode()) + columns
    throughput = field(1, bytes([1 << 3, 0, 2 << 3, 0]))
    forever = bytes([1 << 3]) + b"\xff" * 9 + b"\x01"
    return field(1, meta) + field(2, throughput) + field(3, forever + bytes([2 << 3, 1]))
