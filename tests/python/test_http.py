"""PROTOCOL.md, `POST /v1/rpc`: the same bodies over HTTP."""

import json
import socket
import time
import zlib

import pytest

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


CENTRIFUGE = """
[centrifuge]
http_api.key = "the key of the back ends of these tests"
http_stream.enabled = true
"""


@pytest.mark.parametrize("path", ["/v1/rpc", "/api/publish", "/api/batch", "/connection/http_stream", "/emulation"])
def test_a_compressed_body_is_refused_as_such(own_server, path):
    own_server.config = CENTRIFUGE
    own_server.start()
    headers = {**JSON, "X-API-Key": "the key of the back ends of these tests"}
    packed = zlib.compress(json.dumps(request("ping")).encode())
    for encoding in ["gzip", "deflate", "br", "identity, gzip"]:
        status, told, said = own_server.http("POST", path, packed, {**headers, "Content-Encoding": encoding})
        assert status == 415 and told["Accept-Encoding"] == "identity", said
    status, _, _ = own_server.http("POST", path, json.dumps(request("ping")), {**headers, "Content-Encoding": "identity"})
    assert status != 415


# A client that has ended its side of the connection.


def half_closed(server, head, body=b"", pause=0.0):
    """Sends a request, ends the own side, and reads all there is; gives it and how long it took."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw:
        raw.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        began = time.monotonic()
        raw.shutdown(socket.SHUT_WR)
        time.sleep(pause)
        answer = b""
        while part := raw.recv(1 << 16):
            answer += part
        return answer, time.monotonic() - began


def half_closed_call(server, pause=0.0, **call):
    body = json.dumps(request(**call)).encode()
    head = f"POST /v1/rpc HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: {len(body)}\n"
    answer, took = half_closed(server, head, body, pause)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), answer
    return json.loads(body)["result"], took


def test_who_has_said_all_is_answered(server, name):
    for sequence in [1, 2, 3]:
        result, took = half_closed_call(server, method="message.append", timeline=name, entry={"text": "x"})
        assert result["sequence"] == sequence
    answer, _ = half_closed(server, "GET /healthz HTTP/1.1\nHost: localhost\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok\n")
    # Two at once, and then the end.
    answer, _ = half_closed(server, "GET /healthz HTTP/1.1\nHost: localhost\n\nGET /readyz HTTP/1.1\nHost: localhost\n")
    assert answer.count(b"HTTP/1.1 200 ") == 2


def test_who_has_said_all_gets_the_answers_to_a_whole_batch(own_server):
    own_server.config = CENTRIFUGE
    own_server.start()
    commands = [{"publish": {"channel": "room", "data": {"n": number}}} for number in range(30)]
    body = json.dumps({"commands": commands}).encode()
    head = f"POST /api/batch HTTP/1.1\nHost: localhost\nX-API-Key: the key of the back ends of these tests\nContent-Length: {len(body)}\n"
    answer, _ = half_closed(own_server, head, body)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.count(b'"offset"') == 30 and answer.endswith(b"0\r\n\r\n"), answer


def test_it_is_answered_after_a_wait_and_at_its_own_pace(server, name):
    post(server, request("message.append", timeline=name, entry={"n": 1}))
    result, took = half_closed_call(server, method="sync", positions={name: 1}, wait_ms=1000)
    assert result["timelines"] == {} and took > 0.9
    # More than the buffers of two sockets take, and a reader that begins late.
    for _ in range(12):
        post(server, request("message.append", timeline=name, entry={"text": "x" * 200_000}))
    result, _ = half_closed_call(server, 1.0, method="message.range", timeline=name, limit=20)
    assert len(result["messages"]) > 1 and result["messages"][-1]["entry"]["text"].endswith("xx")


def test_who_may_be_gone_is_not_waited_for_long(server, name):
    post(server, request("message.append", timeline=name, entry={"n": 1}))
    body = json.dumps(request("sync", positions={name: 1}, wait_ms=30_000)).encode()
    head = f"POST /v1/rpc HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: {len(body)}\n"
    answer, took = half_closed(server, head, body)
    assert answer == b"" and 2 < took < 20
    # An end behind half a request is one.
    answer, took = half_closed(server, head, body[:-1])
    assert b" 200 " not in answer and took < 20


def test_a_foreign_name_in_the_target_is_refused(server):
    for target, host, status in [
        ("/healthz", "localhost", 200),
        (f"http://localhost:{server.port}/healthz", "evil.example", 200),
        ("http://evil.example/healthz", "localhost", 403),
        ("http://evil.example/v1/connect", f"localhost:{server.port}", 403),
        ("http://localhost@evil.example/healthz", "localhost", 403),
    ]:
        answer, _ = half_closed(server, f"GET {target} HTTP/1.1\nHost: {host}\n")
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (target, answer)
