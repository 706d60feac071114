"""PROTOCOL.md, `POST /v1/rpc`: the same bodies over HTTP."""

import json

JSON = {"Content-Type": "application/json"}


def post(server, body, headers=JSON):
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    status, headers, answer = server.http("POST", "/v1/rpc", text, headers)
    if answer and status == 200:
        assert headers["Content-Type"].startswith("application/json")
        return status, json.loads(answer)
    return status, answer


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_a_conversation(server, name):
    status, reply = post(server, request("message.append", timeline=name, entry={"text": "hi"}))
    assert status == 200 and reply["result"]["sequence"] == 1
    status, reply = post(server, request("message.range", timeline=name))
    assert reply["result"]["messages"][0]["entry"] == {"text": "hi"}
    status, reply = post(server, [request("ping", 1), request("ping", "b")])
    assert {one["id"] for one in reply} == {1, "b"}


def test_content_type_must_be_json(server):
    body = request("ping")
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]:
        assert post(server, body, {"Content-Type": kind})[0] == 415
    assert post(server, body, {"Content-Type": "application/json; charset=utf-8"})[0] == 200
    assert post(server, body, {})[0] == 415


def test_204_where_nothing_is_to_be_answered(server, name):
    notification = {"jsonrpc": "2.0", "method": "message.append", "params": {"timeline": name, "entry": {"a": 1}}}
    assert post(server, notification) == (204, b"")
    assert post(server, [notification, notification]) == (204, b"")
    assert post(server, request("timeline.get", timeline=name))[1]["result"]["head"] == 3


def test_subscribe_and_unsubscribe_are_not_there(server, name):
    for method in ["subscribe", "unsubscribe"]:
        status, reply = post(server, request(method, timeline=name))
        assert reply["error"]["code"] == -32601


def test_the_header_names_the_sender(server, name):
    headers = {**JSON, "Tideline-User": "ada"}
    post(server, request("message.append", timeline=name, entry={"a": 1}), headers)
    post(server, request("message.append", timeline=name, entry={"a": 1}))
    messages = post(server, request("message.range", timeline=name))[1]["result"]["messages"]
    assert messages[0]["sender"] == "ada"
    assert not messages[1].get("sender")


def test_errors_are_json_rpc_errors(server):
    for body, code in [("{", -32700), ("[]", -32600), (request("nope"), -32601), (request("message.get"), -32602)]:
        status, reply = post(server, body)
        assert reply["error"]["code"] == code, (status, reply)


def test_invalid_utf8_is_a_parse_error(server):
    status, reply = post(server, b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}')
    assert reply["error"]["code"] == -32700


def test_too_large_a_body_is_refused(server):
    try:
        status, _ = post(server, b" " * ((4 << 20) + 1))
    except (BrokenPipeError, ConnectionResetError):
        return
    assert status == 413


def test_long_poll_over_http(server, name):
    post(server, request("message.append", timeline=name, entry={"n": 1}))
    reply = post(server, request("sync", positions={name: 0}, wait_ms=5000))[1]["result"]
    assert reply["timelines"][name]["position"] == 1
    reply = post(server, request("sync", positions={name: 1}, wait_ms=100))[1]["result"]
    assert reply["timelines"] == {}


def test_other_methods_and_paths(server):
    assert server.get("/v1/rpc")[0] == 405
    assert server.http("POST", "/v1/nothing", "{}", JSON)[0] == 404
    assert server.get("/v1/connect")[0] in (400, 405, 426)


def test_the_post_of_another_site_is_refused(server):
    headers = {**JSON, "Origin": "https://evil.example"}
    assert post(server, request("ping"), headers)[0] == 403
