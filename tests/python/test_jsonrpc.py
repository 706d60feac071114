"""PROTOCOL.md, JSON-RPC: ids, params, notifications, batches, discovery, malformed input."""

import json

import pytest


def answer(client, text):
    client.send(text)
    return client.receive()


@pytest.mark.parametrize(
    "number", ["1", "0", "-1", "9223372036854775807", "-9223372036854775808", '"a"', '""', f'"{"x" * 64}"', '"\\u00e9\\n"']
)
def test_ids_are_echoed_exactly(client, number):
    client.send('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % number)
    text = client.socket.recv(60)
    reply = json.loads(text)
    assert reply["id"] == json.loads(number) and type(reply["id"]) is type(json.loads(number))
    assert set(reply) == {"jsonrpc", "id", "result"}
    assert isinstance(reply["result"]["time"], int)


@pytest.mark.parametrize(
    "number", ["null", "1.5", "1.0", "true", "[]", "{}", "18446744073709551616", "1e3", f'"{"x" * 65}"']
)
def test_other_ids_are_invalid_requests(client, number):
    reply = answer(client, '{"jsonrpc":"2.0","id":%s,"method":"ping"}' % number)
    assert reply["error"]["code"] == -32600
    assert reply["id"] is None


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"1.0","id":1,"method":"ping"}',
        '{"id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","id":1,"method":5}',
        '"ping"',
        "5",
        "null",
        "[]",
    ],
)
def test_what_is_no_request_is_32600(client, text):
    reply = answer(client, text)
    assert reply["error"]["code"] == -32600


@pytest.mark.parametrize("text", ["", "{", "{]", "nul", '{"jsonrpc":"2.0","id":1,"method":"ping"', '{"a":1}}', '{"a":"\x01"}'])
def test_what_is_no_json_is_32700(client, text):
    reply = answer(client, text)
    assert reply["error"]["code"] == -32700
    assert reply["id"] is None
    assert client.call("ping")


def test_depth_of_100000_is_refused_and_harmless(client):
    for text in ["[" * 100_000, '{"a":' * 100_000, '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + "[" * 100_000]:
        assert answer(client, text)["error"]["code"] in (-32700, -32600, -32602)
    assert client.call("ping")


def test_depth_limit_is_on_the_whole_message(client, name):
    deep = "[" * 40 + "]" * 40
    text = '{"jsonrpc":"2.0","id":9,"method":"message.append","params":{"timeline":"%s","entry":{"x":%s}}}'
    assert answer(client, text % (name, deep))["error"]["code"] in (413, -32700, -32600, -32602)
    fine = "[" * 20 + "]" * 20
    assert "result" in answer(client, text % (name, fine))


def test_unknown_method_is_32601(client, refused):
    error = refused(client, "message.explode", -32601, "method_not_found")
    methods = [method["name"] for method in client.call("rpc.discover")["methods"]]
    family = [method for method in methods if method.startswith("message.")]
    assert error.message == "unknown method `message.explode`, expected one of " + ", ".join(family)
    for other in ["é" * 4000, "messages", ".", "x.y"]:
        long = refused(client, other, -32601, "method_not_found")
        assert long.message.endswith("`; rpc.discover lists all") and len(long.message) < 100
    refused(client, "", -32601)


def test_params_may_be_absent_but_not_something_else(client):
    assert "result" in answer(client, '{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert "result" in answer(client, '{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}')
    for params in ["[]", "[1]", "5", '"x"', "true"]:
        reply = answer(client, '{"jsonrpc":"2.0","id":1,"method":"ping","params":%s}' % params)
        assert reply["error"]["code"] in (-32600, -32602)


def test_unknown_members_of_params_are_refused_by_path(client, refused, name):
    refused(client, "ping", -32602, field="extra", extra=1)
    refused(client, "message.append", -32602, field="colour", timeline=name, entry={}, colour="red")
    messages = [{"entry": {}}, {"entry": {}}, {"entry": {}}, {"entry": {}, "colour": 1}]
    refused(client, "message.append_batch", -32602, field="messages[3].colour", timeline=name, messages=messages)
    messages[3] = {"entry": 5}
    refused(client, "message.append_batch", -32602, field="messages[3].entry", timeline=name, messages=messages)


def test_missing_and_ill_typed_members_name_their_field(client, refused, name):
    refused(client, "message.append", -32602, timeline=name)
    refused(client, "message.append", -32602, field="entry", timeline=name, entry=[])
    refused(client, "message.append", -32602, field="timeline", timeline=5, entry={})
    refused(client, "message.get", -32602, field="sequence", timeline=name, sequence="1")
    refused(client, "message.get", -32602, field="sequence", timeline=name, sequence=-1)
    refused(client, "message.get", -32602, field="sequence", timeline=name, sequence=1.5)
    refused(client, "message.get", -32602, field="sequence", timeline=name, sequence=2**53)
    refused(client, "message.range", -32602, field="direction", timeline=name, direction="sideways")


def test_a_notification_is_never_answered(client, name):
    client.send({"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": {"a": 1}}})
    client.send({"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": 5}})
    client.send({"jsonrpc": "2.0", "method": "no.such.method"})
    client.quiet()
    assert client.append(name)["sequence"] == 2


def test_subscribe_and_sync_as_notifications_are_ignored(client, name):
    client.append(name)
    client.send({"jsonrpc": "2.0", "method": "subscribe", "params": {"timeline": name, "after": 0}})
    client.send({"jsonrpc": "2.0", "method": "sync", "params": {"positions": {name: 0}}})
    client.call("ping")
    client.append(name)
    client.quiet()


def test_a_batch_is_answered_by_one_array(client, name):
    append = {"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": {"a": 1}}}
    client.send([{**append, "id": 1}, append, {"jsonrpc": "2.0", "id": "x", "method": "no.such"}, 7, {**append, "id": 2}])
    replies = client.receive()
    assert isinstance(replies, list) and len(replies) == 4
    by_id = {reply["id"]: reply for reply in replies}
    assert [by_id[1]["result"]["sequence"], by_id[2]["result"]["sequence"]] == [1, 3]
    assert by_id["x"]["error"]["code"] == -32601
    assert by_id[None]["error"]["code"] == -32600


def test_a_batch_of_notifications_is_not_answered_and_an_empty_one_is_refused(client, name):
    append = {"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": {"a": 1}}}
    client.send([append, append])
    client.quiet()
    assert client.append(name)["sequence"] == 3
    reply = answer(client, "[]")
    assert isinstance(reply, dict) and reply["error"]["code"] == -32600


def test_wait_ms_in_a_batch_is_refused(client, name):
    sync = {"jsonrpc": "2.0", "id": 1, "method": "sync", "params": {"positions": {name: 0}, "wait_ms": 50}}
    client.send([sync])
    (reply,) = client.receive()
    assert reply["error"]["code"] == -32602 and reply["error"]["data"]["field"] == "wait_ms"


def test_pushes_of_a_subscribe_in_a_batch_wait_for_the_array(client, other, name):
    other.fill(name, 30)
    subscribe = {"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"timeline": name, "after": 0, "limit": 3}}
    slower = [
        {"jsonrpc": "2.0", "id": n, "method": "message.append", "params": {"timeline": name, "entry": {"n": n}}}
        for n in range(2, 12)
    ]
    client.send([subscribe, *slower])
    first = client.receive()
    assert isinstance(first, list) and len(first) == 11
    result = next(reply["result"] for reply in first if reply["id"] == 1)
    got = [message["sequence"] for message in result["messages"]]
    got += [message["sequence"] for message in client.messages(name, 40 - len(got))]
    assert got == list(range(1, 41))


def test_discover_is_an_openrpc_document_with_every_method(client):
    document = client.call("rpc.discover")
    assert document["openrpc"].startswith("1.")
    names = {method["name"] for method in document["methods"]}
    assert names >= {
        "session.open", "ping", "timeline.create", "timeline.get", "timeline.update", "timeline.delete", "timeline.trim",
        "timeline.list", "message.append", "message.append_batch", "message.get", "message.range", "message.update",
        "message.delete", "sync", "subscribe", "unsubscribe",
    }  # fmt: skip


def test_duplicate_members_of_a_request_do_not_pass(client, name):
    text = '{"jsonrpc":"2.0","id":1,"method":"message.append","params":{"timeline":"%s","entry":{"a":1,"a":2}}}'
    assert answer(client, text % name)["error"]["code"] == -32602
