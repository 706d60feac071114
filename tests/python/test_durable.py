"""Durable Streams' protocol at /v1/stream/: the same timelines by one more door."""

import http.client
import json
import os
import random
import signal
import threading
import time

import pytest

from certificates import Authority
from client import Refused, until
from guarded import token

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
AT = {"Stream-Expires-At": "2100-01-01T02:00:00+02:00"}


@pytest.fixture
def ask(server, name):
    def ask(method, query="", body=None, headers=None):
        status, headers, answer = server.http(method, f"/v1/stream/{name}{query}", body, headers)
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cross-Origin-Resource-Policy"]
        return status, headers, answer

    return ask


def by(producer, epoch, seq):
    return {"Producer-Id": producer, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}


def allowed(*rules):
    """A user with these rights, each on a name."""
    return {"Authorization": f"Bearer {token('ben', rights=[{'on': on, 'allow': list(allow)} for on, allow in rules])}"}


def offset(sequence):
    """Without saying of which stream it is."""
    return f"{sequence:016}_{0:016}"


def behind(headers):
    """The sequence of the offset that an answer gives."""
    return int(headers["Stream-Next-Offset"].partition("_")[0])


def test_bytes_come_back_as_they_came(ask):
    status, headers, _ = ask("PUT", body=b"one", headers=TEXT)
    assert status == 201 and headers["Location"].startswith("http://") and behind(headers) == 1
    assert ask("PUT", body=b"one", headers={"Content-Type": "TEXT/plain"})[0] == 200
    assert ask("PUT", headers=JSON)[0] == 409
    data = bytes(range(256)) + b'{"a": 1}\n'
    assert ask("POST", body=data, headers=TEXT)[0] == 204
    status, headers, body = ask("GET")
    assert (status, body) == (200, b"one" + data) and headers["Content-Type"] == "text/plain"
    assert behind(headers) == 2 and headers["Stream-Up-To-Date"] == "true"
    assert ask("GET", headers={"If-None-Match": headers["ETag"]})[0] == 304
    assert ask("GET", f"?offset={offset(1)}")[2] == data
    assert ask("GET", "?offset=now")[2] == b"" and behind(ask("HEAD")[1]) == 2
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


def test_a_message_that_grows_is_the_end_until_it_is_whole(ask, client, name):
    ask("PUT", body=b"[1]", headers=JSON)
    grown = client.call("message.append", timeline=name, entry={"text": "a"}, open=True)["sequence"]
    ask("POST", body=b"[2]", headers=JSON)
    client.call("message.extend", timeline=name, sequence=grown, part=1, text="b")
    status, headers, body = ask("GET")
    assert json.loads(body) == [1] and behind(headers) == 1 and headers["Stream-Up-To-Date"] == "true"
    fork = {**JSON, "Stream-Forked-From": f"/v1/stream/{name}"}
    assert ask("PUT", "-fork", headers=fork)[0] == 409
    # Who begins at an offset that is given meanwhile gets it, too.
    for given in [("GET", "?offset=now"), ("HEAD",), ("PUT", "", None, JSON), ("POST", "", b"[3]", JSON)]:
        assert behind(ask(*given)[1]) == 1, given
    finish = {"timeline": name, "sequence": grown, "parts": 1, "outcome": "done"}
    later = threading.Timer(0.3, lambda: client.call("message.finish", **finish))
    later.start()
    assert json.loads(ask("GET", "?offset=now&live=long-poll")[2]) == [{"text": "ab"}, 2, 3]
    later.join()
    assert behind(ask("HEAD")[1]) == behind(ask("GET", "?offset=now")[1]) == 4


def test_an_offset_of_an_earlier_stream_is_refused(ask, server, client, name, fork):
    ask("PUT", body=b"[1,2,3]", headers=JSON)
    first = ask("HEAD")[1]["Stream-Next-Offset"]
    assert ask("GET", f"?offset={first}")[0] == 200
    # A fork goes on by the offsets of its source.
    assert fork(None, None, to=f"{name}-fork")[0] == 201
    assert server.http("GET", f"/v1/stream/{name}-fork?offset={first}")[0] == 200
    assert server.http("DELETE", f"/v1/stream/{name}-fork")[0] == 204
    client.call("timeline.delete", timeline=name)
    ask("PUT", body=b"[1,2,3,4]", headers=JSON)
    second = ask("HEAD")[1]["Stream-Next-Offset"]
    for live in ["", "&live=long-poll", "&live=sse"]:
        assert ask("GET", f"?offset={first}{live}")[0] == 410
    assert json.loads(ask("GET", "?offset=-1")[2]) == [1, 2, 3, 4] and ask("GET", f"?offset={second}")[0] == 200
    assert second.partition("_")[2] != first.partition("_")[2]
    said = {"Stream-Forked-From": f"/v1/stream/{name}", "Stream-Fork-Offset": first}
    assert server.http("PUT", f"/v1/stream/{name}-late", headers=said)[0] == 410


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
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"/v1/stream/{name}?offset=-1&live=sse")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    lines = iter(lambda: answer.readline().rstrip(b"\n"), None)
    assert [next(lines) for _ in range(4)] == [b"event: data", b"data:a", b"data:b", b""]
    assert next(lines) == b"event: control"
    control = json.loads(next(lines).removeprefix(b"data:"))
    assert control["streamNextOffset"].startswith(f"{1:016}_") and control["upToDate"]
    next(lines)
    ask("POST", body=b"c", headers=TEXT)
    assert [next(lines) for _ in range(3)] == [b"event: data", b"data:c", b""]
    connection.close()


def test_events_of_a_text_reach_exactly_to_their_offset(server, ask, name):
    ask("PUT", body=b"a", headers=TEXT)
    ask("POST", body=b"caf\xc3", headers=TEXT)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", f"/v1/stream/{name}?offset=-1&live=sse")
    answer = connection.getresponse()

    def events():
        """The data of events up to the next control, and that."""
        lines = list(iter(lambda: answer.readline().decode().rstrip("\n"), ""))
        data = ""
        if lines[0] == "event: data":
            data = lines[1]
            lines = list(iter(lambda: answer.readline().decode().rstrip("\n"), ""))
        control = json.loads(lines[1].removeprefix("data:"))
        return data, int(control["streamNextOffset"].partition("_")[0]), control.get("upToDate", False)

    # The second message is cut within a character: a reader that came back behind it would get half of that.
    assert events() == ("data:a", 1, False)
    ask("POST", body=b"\xa9, ", headers=TEXT)
    assert events() == ("data:café, ", 3, True)
    ask("POST", body=b"\xe2", headers=TEXT)
    assert events() == ("", 3, False)
    ask("POST", body=b"\x82", headers=TEXT)
    assert events() == ("", 3, False)
    ask("POST", body=b"\xac\xc3", headers={**TEXT, "Stream-Closed": "true"})
    assert events() == ("data:€\ufffd", 6, True)
    connection.close()
    assert "data:acafé, €\ufffd\n" in ask("GET", "?offset=-1&live=sse")[2].decode()


def test_what_is_wrong_or_not_served_is_named(ask):
    ask("PUT", headers=JSON)
    for query in ["?offset=", "?offset=1", "?offset=a,b", f"?offset={offset(1)}&offset={offset(1)}", "?live=sse", "?offset=-1&live=x"]:
        assert ask("GET", query)[0] == 400, query
    for body, headers, status in [(b"", JSON, 400), (b"[]", JSON, 400), (b"{", JSON, 400), (b"1", {}, 400), (b"1", TEXT, 409)]:
        assert ask("POST", body=body, headers=headers)[0] == status, (body, headers)
    assert ask("POST", body=json.dumps("x" * 300_000), headers=JSON)[0] == 413
    for headers in [{"Stream-TTL": "01"}, {"Stream-TTL": "1.5"}, {"Stream-TTL": ""}, {"Stream-Expires-At": "2100-01-01"}, {"Stream-TTL": "1", **AT}]:
        assert ask("PUT", headers={**JSON, **headers})[0] == 400, headers
    bad = [{"Producer-Id": "p"}, {"Stream-Seq": ""}, {"Stream-Seq": "x" * 256}, by("", 0, 0), by("p" * 256, 0, 0), by("p", -1, 0), by("p", 0, 1 << 53)]
    for headers in bad:
        assert ask("POST", body=b"1", headers={**JSON, **headers})[0] == 400, headers
    assert json.loads(ask("GET")[2]) == []


def test_rights_are_those_of_the_timeline(guard, name):
    server = guard().start()
    only = lambda *rights: allowed((name, rights))
    ask = lambda method, headers, body=None: server.http(method, f"/v1/stream/{name}", body, headers)[0]
    assert ask("PUT", JSON) == 401 and ask("GET", {}) == 401
    # Rights are looked at before the body.
    assert ask("PUT", {**JSON, **only("read")}) == 403 and ask("PUT", {**JSON, **only("read")}, b"[") == 403
    assert ask("PUT", {**JSON, **only("create", "read")}) == 201
    assert ask("POST", {**JSON, **only("read")}, b"1") == 403 and ask("POST", {**JSON, **only("read")}, b"[") == 403
    assert ask("POST", {**JSON, **only("append")}, b"1") == 204
    assert ask("GET", only("read")) == 200 and ask("GET", {"Authorization": f"Bearer {token('eve', rights=[])}"}) == 404
    assert ask("DELETE", only("read", "append")) == 403 and ask("DELETE", only("read", "manage")) == 204


def test_a_location_is_as_the_client_has_reached_the_server(guard, name, tmp_path):
    server = guard(before='trusted_proxies = ["127.0.0.1"]\n').start()
    made = allowed((f"{name}/*", ["create", "read"]))
    where = lambda path, more: server.http("PUT", path, None, {**JSON, **made, **more})[1]["Location"].partition(":")[0]
    assert where(f"/v1/stream/{name}/a", {}) == "http"
    assert where(f"/v1/stream/{name}/b", {"X-Forwarded-Proto": "https"}) == "https"
    server.stop()
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server = guard(before=f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n', tls=authority.client()).start()
    assert where(f"/v1/stream/{name}/c", {}) == "https"


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


def test_a_closed_stream_ends_for_all(ask, client, name, refused):
    assert ask("PUT", headers=JSON)[0] == 201
    client.call("message.append", timeline=name, entry={"n": 0}, message_id="m")
    waits = {}
    waiting = threading.Thread(target=lambda: waits.update(answer=ask("GET", f"?offset={offset(1)}&live=long-poll")))
    waiting.start()
    status, headers, _ = ask("POST", headers={"Stream-Closed": "true"})
    assert status == 204 and headers["Stream-Closed"] == "true" and behind(headers) == 1
    waiting.join()
    assert waits["answer"][0] == 204 and waits["answer"][1]["Stream-Closed"] == "true"
    assert client.call("timeline.get", timeline=name)["closed"]
    refused(client, "message.append", 409, "timeline_closed", timeline=name, entry={"n": 1})
    refused(client, "message.append_batch", 409, "timeline_closed", timeline=name, messages=[{"entry": {"n": 1}}])
    assert client.call("message.append", timeline=name, entry={"n": 0}, message_id="m")["duplicate"]
    # Members change without an announcement only.
    member = {"timeline": name, "announce": {"n": 1}}
    refused(client, "member.add", 409, "timeline_closed", members=[{"user": "ann"}], **member)
    assert client.call("member.add", timeline=name, members=[{"user": "ann"}]) == {"added": 1, "members_count": 1, "version": 1}
    refused(client, "member.remove", 409, "timeline_closed", users=["ann"], **member)
    assert client.call("timeline.get", timeline=name)["members_count"] == 1
    status, headers, _ = ask("POST", body=b"1", headers=JSON)
    assert status == 409 and headers["Stream-Closed"] == "true" and behind(headers) == 1
    events = ask("GET", "?offset=-1&live=sse")[2].decode()
    assert events.endswith('"upToDate":true,"streamClosed":true}\n\n')
    assert ask("PUT", headers=JSON)[0] == 409 and ask("PUT", headers={**JSON, "Stream-Closed": "true"})[0] == 200
    assert ask("DELETE")[0] == 204 and ask("PUT", headers=JSON)[0] == 201 and ask("POST", body=b"1", headers=JSON)[0] == 204


def test_a_put_makes_and_fills_and_closes_in_one_step(ask):
    status, headers, _ = ask("PUT", body=b"[1, 2]", headers={**JSON, "Stream-Closed": "true"})
    assert status == 201 and headers["Stream-Closed"] == "true" and behind(headers) == 2
    assert json.loads(ask("GET")[2]) == [1, 2]


def test_producers_are_bounded(ask):
    ask("PUT", headers=JSON)
    answers = [ask("POST", body=b"1", headers={**JSON, **by(f"p{at}", 0, 0)})[0] for at in range(1_001)]
    assert answers == [200] * 1_000 + [413]
    assert ask("POST", body=b"1", headers={**JSON, **by("p0", 0, 1)})[0] == 200


def test_a_stream_ends_when_nobody_has_used_it(ask, client, name, refused):
    life = {"Stream-TTL": "1"}
    assert ask("PUT", body=b"a", headers={**TEXT, **life})[0] == 201
    assert ask("PUT", headers={**TEXT, **life})[0] == 200
    for other in [{}, {"Stream-TTL": "2"}, AT]:
        assert ask("PUT", headers={**TEXT, **other})[0] == 409
    assert ask("HEAD")[1]["Stream-TTL"] == "1"
    until(lambda: ask("HEAD")[0] == 404)
    assert ask("GET")[0] == 404 and ask("POST", body=b"b", headers=TEXT)[0] == 404 and ask("DELETE")[0] == 404
    assert ask("PUT", headers=JSON)[0] == 201 and ask("GET")[2] == b"[]"
    assert ask("DELETE")[0] == 204 and ask("PUT", headers={**TEXT, **life})[0] == 201

    def is_gone():
        try:
            client.call("timeline.get", timeline=name)
        except Refused as error:
            assert error.reason == "timeline_not_found"
            return True

    # The timer deletes it for all, without anybody asking for the stream.
    until(is_gone)


def test_a_stream_expires_at_its_time(ask):
    assert ask("PUT", headers={**TEXT, **AT})[0] == 201
    assert ask("HEAD")[1]["Stream-Expires-At"] == "2100-01-01T00:00:00.000Z"
    assert ask("PUT", headers={**TEXT, "Stream-Expires-At": "2100-01-01T00:00:00Z"})[0] == 200
    assert ask("DELETE")[0] == 204
    assert ask("PUT", headers={**TEXT, "Stream-Expires-At": "2001-01-01T00:00:00Z"})[0] == 201
    assert ask("GET")[0] == 404 and ask("PUT", headers=TEXT)[0] == 201


def test_reads_keep_a_stream_alive_through_a_kill(own_server, name):
    server, path = own_server.start(), f"/v1/stream/{name}"
    assert server.http("PUT", path, b"a", {**TEXT, "Stream-TTL": "2"})[0] == 201
    used = time.monotonic()
    for _ in range(7):
        began = time.monotonic()
        if server.get(path)[0] != 200:
            assert time.monotonic() - used > 2
            break
        used = began
        server.kill()
        time.sleep(0.35)
        server.start()
    until(lambda: server.http("HEAD", path)[0] == 404)


@pytest.fixture
def fork(server, name):
    def fork(at=None, sub=None, source=name, headers=None, body=None, to=f"{name}-fork"):
        said = {"Stream-Forked-From": f"/v1/stream/{source}", "Stream-Fork-Offset": at and offset(at), "Stream-Fork-Sub-Offset": sub and str(sub)}
        said = {key: value for key, value in {**said, **(headers or {})}.items() if value is not None}
        return server.http("PUT", f"/v1/stream/{to}", body, said)

    return fork


def test_a_fork_begins_with_its_source_and_goes_its_own_way(ask, server, client, name, fork):
    ask("PUT", body=b'[{"n": 1}, {"n": 2}]', headers=JSON)
    client.call("message.append", timeline=name, entry={"n": 3})
    ask("POST", body=b"[4, 5, 6]", headers={**JSON, **by("p", 0, 0)})
    client.call("message.delete", timeline=name, sequence=1)
    client.call("timeline.trim", timeline=name, before=1)
    status, headers, _ = fork(3, 2, body=b'"own"')
    assert status == 201 and behind(headers) == 6 and headers["Content-Type"] == "application/json"
    copy = f"/v1/stream/{name}-fork"
    assert json.loads(server.get(copy)[2]) == [{"n": 2}, {"n": 3}, 4, 5, "own"]
    assert json.loads(server.get(f"{copy}?offset={offset(3)}")[2]) == [4, 5, "own"]
    messages = client.call("message.range", timeline=f"{name}-fork")["messages"]
    assert [message["sequence"] for message in messages] == [1, 2, 3, 4, 5, 6] and messages[0]["deleted"]
    ask("POST", body=b"7", headers=JSON)
    assert server.http("POST", copy, b"8", {**JSON, **by("p", 0, 0)})[0] == 200
    assert json.loads(server.get(copy)[2])[-1] == 8 and json.loads(ask("GET")[2])[-1] == 7
    # What is left of an append that was cut is one append: no more of it can be taken.
    assert fork(3, 3, source=f"{name}-fork", to=f"{name}-2")[0] == 400
    assert fork(3, 2, source=f"{name}-fork", to=f"{name}-2")[0] == 201
    assert json.loads(server.get(f"/v1/stream/{name}-2")[2]) == [{"n": 2}, {"n": 3}, 4, 5]
    assert fork(3, 2)[0] == 200 and fork(3, 1)[0] == 409 and fork(2)[0] == 409 and fork()[0] == 409


def test_a_fork_of_bytes_is_cut_anywhere_and_begins_at_the_floor(ask, server, client, name, fork):
    ask("PUT", body=b"one", headers=TEXT)
    ask("POST", body=b"two", headers=TEXT)
    ask("POST", body=bytes(range(256)), headers=TEXT)
    client.call("timeline.trim", timeline=name, before=2)
    assert fork(2, 5)[0] == 201
    assert server.get(f"/v1/stream/{name}-fork")[2] == b"two" + bytes(range(5))
    assert server.get(f"/v1/stream/{name}-fork?offset={offset(1)}")[2] == b"two" + bytes(range(5))
    for at, sub, status in [(2, 257, 400), (3, 1, 400), (4, None, 400), (0, None, 410)]:
        assert fork(None, sub, headers={"Stream-Fork-Offset": offset(at)}, to=f"{name}-2")[0] == status, (at, sub)
    for headers, status in [({"Stream-Forked-From": "x"}, 400), ({"Stream-Fork-Offset": "x"}, 400), (JSON, 409)]:
        assert fork(headers=headers, to=f"{name}-2")[0] == status
    assert fork(source=f"{name}-none", to=f"{name}-2")[0] == 404 and ask("DELETE")[0] == 204


def test_the_name_of_a_source_is_kept_while_forks_live(ask, server, client, name, fork):
    ask("PUT", body=b"a", headers=TEXT)
    assert fork()[0] == 201 and fork(source=f"{name}-fork", to=f"{name}-2")[0] == 201
    assert ask("DELETE")[0] == 204
    assert server.http("DELETE", f"/v1/stream/{name}-fork")[0] == 204
    for method in ["GET", "HEAD", "DELETE"]:
        assert ask(method)[0] == 410 and server.http(method, f"/v1/stream/{name}-fork")[0] == 410
    assert ask("POST", body=b"b", headers=TEXT)[0] == 410 and ask("PUT", headers=TEXT)[0] == 409
    assert fork(to=f"{name}-3")[0] == 409
    # Whichever door it goes by.
    assert server.get(f"/v1/stream/{name}-2")[2] == b"a" and client.call("timeline.delete", timeline=f"{name}-2")["deleted"]
    assert ask("GET")[0] == 404 and ask("PUT", headers=JSON)[0] == 201 and fork(to=f"{name}-3")[0] == 201


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_source_that_ends_while_it_is_forked_keeps_its_name(own_server):
    """Whoever looks at the source then finds no fork that lives, and forgets the one that is being made."""
    # Each sync takes half a second: the source ends behind the fork's note and before the fork.
    own_server.environment = {"TIDELINE_FAULT": "late_sync"}
    own_server.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        source = f"/v1/stream/{random.random()}"
        assert own_server.http("PUT", source, b"a", TEXT)[0] == 201
        made, seen = [], []
        fork = threading.Thread(target=lambda: made.append(own_server.http("PUT", f"{source}-fork", None, {"Stream-Forked-From": source})[0]))
        end = threading.Timer(random.uniform(0.1, 1.0), own_server.http, ["DELETE", source])
        fork.start()
        end.start()
        while fork.is_alive():
            seen.append(own_server.http("HEAD", source)[0])
        end.join()
        assert own_server.http("PUT", source, None, TEXT)[0] == {201: 409, 404: 201}[made[0]], (made, seen)
        if made == [201] and 404 in seen:
            return
    # Each round held; on a machine that does much else the two may never meet.
    pytest.skip("the source was never seen without a fork")


def test_forks_that_are_gone_make_room_for_others(ask, server, name, fork):
    ask("PUT", headers=JSON)
    assert [fork(to=f"{name}-{at}")[0] for at in range(101)] == [201] * 100 + [413]
    assert server.http("DELETE", f"/v1/stream/{name}-7")[0] == 204
    assert fork(to=f"{name}-100")[0] == 201 and fork(to=f"{name}-101")[0] == 413


def test_forks_need_rights_on_both(guard, name):
    server = guard().start()
    path, copy = f"/v1/stream/{name}", f"/v1/stream/{name}-fork"
    assert server.http("PUT", path, b"1", {**JSON, **allowed((name, ["create", "append"]))})[0] == 201
    ask = lambda *rules: server.http("PUT", copy, None, {"Stream-Forked-From": path, **allowed(*rules)})[0]
    assert ask((f"{name}-fork", ["create", "read"])) == 404
    assert ask((name, ["read"]), (f"{name}-fork", ["read"])) == 403
    assert ask((name, ["read"]), (f"{name}-fork", ["create"])) == 201
    assert server.http("GET", copy, None, allowed((f"{name}-fork", ["read"])))[2] == b"[1]"
    assert server.http("DELETE", path, None, allowed((name, ["manage", "read"])))[0] == 204
    assert server.http("GET", path, None, allowed((name, ["read"])))[0] == 410
    assert server.http("GET", path, None, allowed(("other", ["read"])))[0] == 404


def produce(server, path, kills):
    """A producer that repeats what is not answered, while the server is killed, and at the end everything: each is read once."""
    server.start()
    assert server.http("PUT", path, None, TEXT)[0] == 201
    for seq in range(60):
        if seq % (60 // kills) == 7:
            timer = threading.Timer(random.random() / 50, server.kill)
            timer.start()
        while True:
            try:
                status = server.http("POST", path, f"{seq},".encode(), {**TEXT, **by("p", 3, seq)})[0]
                assert status in (200, 204), status
                break
            except (OSError, http.client.HTTPException):
                timer.join()
                server.start()
    # What was answered last may have been taken before a kill: repeats of all are known.
    timer.join()
    server.restart(signal.SIGKILL)
    again = [server.http("POST", path, b"again", {**TEXT, **by("p", 3, seq)})[0] for seq in range(60)]
    assert again == [204] * 60
    assert server.get(path)[2].decode() == "".join(f"{seq}," for seq in range(60))


def test_a_producer_is_exact_through_kills(own_server, name):
    produce(own_server, f"/v1/stream/{name}", 6)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_repeat_that_is_taken_is_noticed(own_server, name):
    own_server.environment["TIDELINE_FAULT"] = "producer_repeats_taken"
    with pytest.raises(AssertionError):
        produce(own_server, f"/v1/stream/{name}", 1)


def test_who_waits_learns_that_messages_are_gone(ask, client, name):
    ask("PUT", body=b"[1, 2]", headers=JSON)
    client.call("timeline.configure", timeline=name, settings={"retention": {"messages": 5}})
    answers = {}
    waits = lambda live: answers.update({live: ask("GET", f"?offset={offset(2)}&live={live}")})
    waiting = [threading.Thread(target=waits, args=(live,)) for live in ["long-poll", "sse"]]
    for one in waiting:
        one.start()
    time.sleep(0.3)
    ask("POST", body=json.dumps(["late"] * 57).encode(), headers=JSON)
    for one in waiting:
        one.join()
    assert answers["long-poll"][0] == 410 and b"late" not in answers["sse"][2]
    assert ask("GET", f"?offset={offset(2)}")[0] == 410 and ask("GET", f"?offset={offset(60)}")[0] == 410


def test_a_tag_counts_while_nothing_changes(ask, client, name):
    ask("PUT", body=b'[{"n": 1}, {"n": 2}, {"n": 3}]', headers=JSON)
    tag = lambda: ask("GET")[1]["ETag"]
    knows = lambda tag: ask("GET", headers={"If-None-Match": tag})[0]
    for change in [("message.delete", {"sequence": 2}), ("message.update", {"sequence": 3, "set": {"n": 4}}), ("timeline.trim", {"before": 2}), ("timeline.update", {"meta": {"content_type": "text/json"}})]:
        before = tag()
        assert knows(before) == knows(f"W/{before}") == 304
        client.call(change[0], timeline=name, **change[1])
        assert knows(before) == 200, change


def test_a_tag_is_of_what_its_reader_gets(ask, ben, name):
    ask("PUT", headers=TEXT)
    ask("POST", body=b"a" * 150_000, headers=TEXT)
    first = ask("GET")[1]
    assert first["Stream-Up-To-Date"] == "true" and ask("GET", headers={"If-None-Match": first["ETag"]})[0] == 304
    ask("POST", body=b"b" * 150_000, headers=TEXT)
    # The same bytes, but there is more now.
    status, headers, body = ask("GET", headers={"If-None-Match": first["ETag"]})
    assert (status, body) == (200, b"a" * 150_000) and "Stream-Up-To-Date" not in headers
    ben.call("member.add", timeline=name, members=[{"user": "ben"}])
    by_ben = lambda **more: ask("GET", headers={"Tideline-User": "ben", **more})
    known = {"If-None-Match": by_ben()[1]["ETag"]}
    assert by_ben(**known)[0] == 304
    ben.call("message.hide", timeline=name, sequences=[1])
    status, _, body = by_ben(**known)
    assert status == 200 and b"a" not in body


def test_bytes_among_json_are_shown_as_json(ask, client, name):
    ask("PUT", body=b"[1]", headers=JSON)
    client.call("message.append", timeline=name, entry={"publication": {"$binary": "bm90IGpzb24s"}})
    assert json.loads(ask("GET")[2]) == [1, {"$binary": "bm90IGpzb24s"}]


def test_a_producer_hears_first_that_it_is_shut_out_then_that_the_stream_is_closed(ask):
    ask("PUT", headers=JSON)
    assert ask("POST", body=b"1", headers={**JSON, **by("p", 1, 0)})[0] == 200
    assert ask("POST", body=b"1", headers={**TEXT, **by("p", 0, 0)})[0] == 403
    assert ask("POST", body=b"1", headers={**TEXT, **by("p", 1, 1)})[0] == 409 and ask("POST", body=b"1", headers=by("p", 1, 1))[0] == 400
    assert ask("POST", headers={"Stream-Closed": "true"})[0] == 204
    for headers in [{**TEXT, **by("p", 1, 1)}, by("p", 1, 1), TEXT, {}]:
        status, said, _ = ask("POST", body=b"1", headers=headers)
        assert status == 409 and said["Stream-Closed"] == "true" and behind(said) == 1, headers


def test_a_long_array_is_refused_whole(ask):
    ask("PUT", headers=JSON)
    assert ask("POST", body=b"[" + b"0," * 500_000 + b"0]", headers=JSON)[0] == 413
    assert ask("GET")[2] == b"[]"


def test_who_has_no_rights_learns_of_no_stream_and_fills_no_forks(guard, name):
    server = guard().start()
    path, copy = f"/v1/stream/{name}", f"/v1/stream/{name}-fork"
    of = lambda headers: {"Stream-Forked-From": path, **headers}
    reads, all_rights = allowed((name, ["read"])), allowed((f"{name}*", ["create", "append", "read", "manage"]))
    assert server.http("PUT", path, b"1", {**JSON, **all_rights})[0] == 201
    assert {server.http("PUT", f"{copy}{at}", None, of(reads))[0] for at in range(101)} == {404}
    assert server.http("PUT", copy, None, of(all_rights))[0] == 201
    nothing = {**JSON, **allowed(("other", ["read"]))}
    assert server.http("PUT", path, b"1", nothing)[0] == server.http("PUT", f"{path}-none", b"1", nothing)[0] == 404
    assert server.http("DELETE", path, None, all_rights)[0] == 204
    assert server.http("PUT", path, b"1", nothing)[0] == 404 and server.http("PUT", path, b"1", {**JSON, **all_rights})[0] == 409


def test_a_native_append_to_a_stream_that_is_over_is_no_part_of_it(ask, client, name, refused):
    ask("PUT", headers={**JSON, "Stream-Expires-At": "2001-01-01T00:00:00Z"})
    refused(client, "message.append", 404, "timeline_not_found", timeline=name, entry={"n": 1}, create=False)
