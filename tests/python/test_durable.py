"""Durable Streams' protocol at /v1/stream/: the same timelines by one more door."""

import http.client
import json
import threading


import pytest


from guarded import token

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture
def ask(server, name):
    def ask(method, query="", body=None, headers=None):
        status, headers, answer = server.http(method, f"/v1/stream/{name}{query}", body, headers)
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cross-Origin-Resource-Policy"]
        return status, headers, answer

    return ask


def offset(sequence):
    return f"{sequence:016}_{0:016}"


def test_bytes_come_back_as_they_came(ask):
    status, headers, _ = ask("PUT", body=b"one", headers=TEXT)
    assert status == 201 and headers["Location"].startswith("http://") and headers["Stream-Next-Offset"] == offset(1)
    assert ask("PUT", body=b"one", headers={"Content-Type": "TEXT/plain"})[0] == 200
    assert ask("PUT", headers=JSON)[0] == 409
    data = bytes(range(256)) + b'{"a": 1}\n'
    assert ask("POST", body=data, headers=TEXT)[0] == 204
    status, headers, body = ask("GET")
    assert (status, body) == (200, b"one" + data) and headers["Content-Type"] == "text/plain"
    assert headers["Stream-Next-Offset"] == offset(2) and headers["Stream-Up-To-Date"] == "true"
    assert ask("GET", headers={"If-None-Match": headers["ETag"]})[0] == 304
    assert ask("GET", f"?offset={offset(1)}")[2] == data
    assert ask("GET", "?offset=now")[2] == b"" and ask("HEAD")[1]["Stream-Next-Offset"] == offset(2)
    assert ask("DELETE")[0] == 204 and ask("DELETE")[0] == 404 and ask("GET")[0] == 404


def test_native_messages_and_those_of_streams_are_the_same(ask, client, name):
    assert ask("PUT", body=b'[{"n": 1}, [1, 2]]', headers=JSON)[0] == 201
    client.call("message.append", timeline=name, entry={"text": "hi", "n": 2})
    assert ask("POST", body=b' "three" ', headers=JSON)[0] == 204
    assert json.loads(ask("GET")[2]) == [{"n": 1}, [1, 2], {"n": 2, "text": "hi"}, "three"]
    entries = [message["entry"] for message in client.call("message.range", timeline=name)["messages"]]
    assert entries == [{"publication": {"n": 1}}, {"publication": [1, 2]}, {"n": 2, "text": "hi"}, {"publication": "three"}]
    client.call("message.delete", timeline=name, sequence=2)
    assert json.loads(ask("GET", "?offset=-1")[2]) == [{"n": 1}, {"n": 2, "text": "hi"}, "three"]
    client.call("timeline.trim", timeline=name, before=3)
    assert ask("GET", f"?offset={offset(1)}")[0] == 410
    assert json.loads(ask("GET", f"?offset={offset(2)}")[2]) == [{"n": 2, "text": "hi"}, "three"]


def test_a_reader_waits_for_what_comes(ask, name):
    ask("PUT", headers=JSON)
    later = threading.Timer(0.3, lambda: ask("POST", body=b"[7]", headers=JSON))
    later.start()
    status, headers, body = ask("GET", "?offset=now&live=long-poll")
    assert (status, body) == (200, b"[7]") and headers["Stream-Cursor"].isdigit()
    again = ask("GET", f"?offset=-1&live=long-poll&cursor={headers['Stream-Cursor']}")[1]["Stream-Cursor"]
    assert int(again) > int(headers["Stream-Cursor"])


def test_events_of_a_stream(server, ask, name):
    ask("PUT", body=b"a\r\nb", headers=TEXT)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", f"/v1/stream/{name}?offset=-1&live=sse")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    lines = iter(lambda: answer.readline().rstrip(b"\n"), None)
    assert [next(lines) for _ in range(4)] == [b"event: data", b"data:a", b"data:b", b""]
    assert next(lines) == b"event: control"
    control = json.loads(next(lines).removeprefix(b"data:"))
    assert control["streamNextOffset"] == offset(1) and control["upToDate"]
    next(lines)
    ask("POST", body=b"c", headers=TEXT)
    assert [next(lines) for _ in range(3)] == [b"event: data", b"data:c", b""]
    connection.close()


def test_what_is_wrong_or_not_served_is_named(ask):
    ask("PUT", headers=JSON)
    for query in ["?offset=", "?offset=1", "?offset=a,b", f"?offset={offset(1)}&offset={offset(1)}", "?live=sse", "?offset=-1&live=x"]:
        assert ask("GET", query)[0] == 400, query
    for body, headers, status in [(b"", JSON, 400), (b"[]", JSON, 400), (b"{", JSON, 400), (b"1", {}, 400), (b"1", TEXT, 409)]:
        assert ask("POST", body=body, headers=headers)[0] == status, (body, headers)
    assert ask("POST", body=json.dumps("x" * 300_000), headers=JSON)[0] == 413
    for name, value in [("Producer-Id", "p"), ("Stream-Seq", "1"), ("Stream-Closed", "true")]:
        status, _, body = ask("POST", body=b"1", headers={**JSON, name: value})
        assert status == 501 and b"not served" in body or b"can't be closed" in body, name
    assert json.loads(ask("GET")[2]) == []


def test_rights_are_those_of_the_timeline(guard, name):
    server = guard().start()
    only = lambda *rights: {"Authorization": f"Bearer {token('ben', rights=[{'on': name, 'allow': list(rights)}])}"}
    ask = lambda method, headers, body=None: server.http(method, f"/v1/stream/{name}", body, headers)[0]
    assert ask("PUT", JSON) == 401 and ask("GET", {}) == 401
    assert ask("PUT", {**JSON, **only("read")}) == 403
    assert ask("PUT", {**JSON, **only("create", "read")}) == 201
    assert ask("POST", {**JSON, **only("read")}, b"1") == 403
    assert ask("POST", {**JSON, **only("append")}, b"1") == 204
    assert ask("GET", only("read")) == 200 and ask("GET", {"Authorization": f"Bearer {token('eve', rights=[])}"}) == 404
    assert ask("DELETE", only("read", "append")) == 403 and ask("DELETE", only("read", "manage")) == 204


def test_a_put_that_is_repeated_appends_once_and_nothing_is_lost_by_a_kill(own_server, name):
    server = own_server.start()
    path = f"/v1/stream/{name}"
    assert server.http("PUT", path, b"first", TEXT)[0] == 201
    for at in range(20):
        assert server.http("POST", path, f"{at},".encode(), TEXT)[0] == 204
    server.kill()
    server.start()
    assert server.http("PUT", path, b"first", TEXT)[0] == 200
    assert server.get(path)[2].decode() == "first" + "".join(f"{at}," for at in range(20))
