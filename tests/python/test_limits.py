"""PROTOCOL.md, slice 3, `[limits]`, proxies and the door: what one address and one user may take."""

import signal
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client import Client, Refused, until
from guarded import token
from server import Server
from test_http import JSON, post, request


@pytest.fixture
def limited(tmp_path):
    """Starts a server with settings."""
    started = []

    def start(config):
        started.append(Server(tmp_path, config=config).start())
        return started[-1]

    yield start
    for server in started:
        server.kill()


def refusals(server, limit):
    return server.metric("tideline_refusals_total", f'{{limit="{limit}"}}')


def patiently(connect):
    """The server learns a moment later that a connection is closed."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return connect()
        except (InvalidStatus, ConnectionClosed):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def raw(server):
    """What the server says to a connection that asks for a page."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        said = b""
        while part := plain.recv(4_096):
            said += part
        return said.decode()


def test_connections_of_an_address(limited):
    server = limited("[limits]\naddress = { connections = 3 }\n")
    clients = [patiently(lambda: Client(server)) for _ in range(3)]
    said = raw(server)
    assert said.startswith("HTTP/1.1 429 ") and "retry-after: 5" in said
    assert clients[0].call("ping")
    clients.pop().close()
    until(lambda: raw(server).startswith("HTTP/1.1 200 "))
    for client in clients:
        client.close()
    assert refusals(server, "address.connections") >= 1


def test_handshakes_of_an_address(limited):
    server = limited("[limits]\naddress = { handshakes_per_s = 20 }\n")
    time.sleep(1.1)
    said = [raw(server)[:12] for _ in range(60)]
    assert said.count("HTTP/1.1 200") >= 20 and "HTTP/1.1 429" in said
    time.sleep(1.1)
    assert raw(server).startswith("HTTP/1.1 200 ")
    time.sleep(1.1)
    assert refusals(server, "address.handshakes_per_s") == said.count("HTTP/1.1 429")


def test_connections_of_a_user(limited):
    server = limited("[limits]\nuser = { connections = 2 }\n")
    with Client(server, user="ada") as one, Client(server, user="ada"), Client(server) as third:
        with pytest.raises(Refused) as caught:
            third.call("session.open", user="ada")
        assert caught.value.reason == "rate_limited" and caught.value.code == 429
        assert caught.value.data["retry_after_ms"] > 0 and caught.value.data["limit"] == 2
        third.call("session.open", user="bob")
        # Said again it is no other connection, and another user leaves a place.
        one.call("session.open", user="ada", device="phone")
        one.call("session.open", user="cyd")
        third.call("session.open", user="ada")
    assert refusals(server, "user.connections") == 1


def test_requests_of_a_user(limited, name):
    server = limited("[limits]\nuser = { requests_per_s = 10 }\n")
    with Client(server, user="ada") as one, Client(server, user="ada") as two, Client(server, user="bob") as bob:
        asked = [(client, client.ask("message.append", timeline=name, entry={"n": n})) for n in range(20) for client in (one, two)]
        taken, late = 0, []
        for client, number in asked:
            try:
                client.take(number)
                taken += 1
            except Refused as refused:
                assert refused.reason == "rate_limited"
                late.append(refused.data["retry_after_ms"])
        assert 10 <= taken <= 20 and all(0 < wait <= 1_000 for wait in late)
        # Nothing of those that were refused was done; others are not slowed down, and it is over with time.
        assert bob.call("timeline.get", timeline=name)["head"] == taken
        time.sleep(max(late) / 1_000)
        assert one.append(name)["sequence"] == taken + 1
    # The same over HTTP, each call of a batch by itself.
    reply = post(server, [request("ping", n) for n in range(30)], {**JSON, "Tideline-User": "cyd"})[1]
    reasons = [one["error"]["data"]["reason"] for one in reply if "error" in one]
    assert len(reasons) >= 19 and set(reasons) == {"rate_limited"}
    assert len(post(server, [request("ping", n) for n in range(30)])[1]) == 30
    assert refusals(server, "user.requests_per_s") == len(late) + len(reasons)


def test_a_frame_counts_for_the_user_that_it_begins_with(guard):
    server = guard(limits="{ user = { requests_per_s = 10 } }").start()
    with Client(server) as client:
        client.send([request("session.open", 0, token=token("ada")), *(request("ping", n) for n in range(1, 31))])
        opened, *pings = client.receive()
    assert opened["result"]["user"] == "ada"
    reasons = [one["error"]["data"]["reason"] for one in pings if "error" in one]
    assert 19 <= len(reasons) <= 20 and set(reasons) == {"rate_limited"}
    assert refusals(server, "user.requests_per_s") == len(reasons)


def test_bytes_of_a_user(limited, name):
    server = limited("[limits]\nuser = { bytes_per_s = 20000 }\n")
    with Client(server, user="ada") as ada:
        ada.append(name, {"text": "x" * 15_000})
        with pytest.raises(Refused) as caught:
            ada.append(name, {"text": "x" * 15_000})
        assert caught.value.reason == "rate_limited"
        assert 0 < caught.value.data["retry_after_ms"] <= 1_000
        time.sleep(1)
        # One that is larger than a second's worth costs a second.
        assert ada.append(name, {"text": "x" * 60_000})["sequence"] == 2
        with pytest.raises(Refused):
            ada.append(name, {"text": "x" * 1_000})


def test_requests_to_streams_count_however_they_end(limited, name):
    server = limited("[limits]\nuser = { requests_per_s = 2 }\n")
    path = f"/v1/stream/{name}"
    assert server.http("PUT", path, b"[1]", JSON)[0] == 201
    fork = {"Stream-Forked-From": path}
    cases = [("PUT", "-fork", b"{", fork, 400), ("POST", "", b"{", {}, 400), ("DELETE", "-none", None, {}, 404)]
    cases += [("GET", "?live=bad", None, {}, 400), ("HEAD", "", None, {}, 200)]
    refused = 0
    for method, to, body, headers, status in cases:
        headers = {**JSON, "Tideline-User": method, **headers}
        statuses = [server.http(method, path + to, body, headers)[0] for _ in range(30)]
        assert set(statuses) == {status, 429}, method
        refused += statuses.count(429)
    assert refusals(server, "user.requests_per_s") == refused


def test_limits_change_while_it_runs_and_bad_ones_do_not(limited, tmp_path):
    server = limited("[limits]\nuser = { connections = 1 }\n")

    def reread(config, said):
        (tmp_path / "tideline.toml").write_text(config)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: said in server.log())

    def opens():
        with Client(server) as second:
            try:
                return bool(second.call("session.open", user="ada"))
            except Refused:
                return False

    with Client(server, user="ada"):
        assert not opens()
        reread("[limits]\nuser = { connections = -1 }\n", "stay as they were")
        assert not opens()
        reread("[limits]\nuser = { connections = 2 }\n", "the settings were read again")
        assert opens()
        reread('heartbeat_ms = 1000\n[limits]\nuser = { connections = 1 }\n', 'waiting=["heartbeat_ms"]')
        assert not opens()


def test_what_came_through_a_proxy_is_refused(server):
    for header, value in [("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.1"), ("Via", "1.1 proxy")]:
        for path in ["/", "/healthz", "/metrics", "/v1/connect"]:
            status, _, body = server.get(path, {header: value})
            assert status == 403 and b"insecure = true" in body, (header, path)
        assert post(server, request("ping"), {**JSON, header: value})[0] == 403
        with pytest.raises(InvalidStatus):
            Client(server, additional_headers={header: value})
    assert server.get("/console/", {"X-Forwarded-Proto": "https"})[0] == 200


def test_a_trusted_proxy_says_whose_connection_it_is(limited):
    server = limited('insecure = true\ntrusted_proxies = ["127.0.0.0/8"]\n[limits]\naddress = { connections = 1 }\n')

    def behind(address):
        return Client(server, additional_headers={"X-Forwarded-For": address})

    with behind("192.0.2.1"), behind("9.9.9.9, 192.0.2.2"), behind("2001:db8::1"):
        # What a client wrote into the header itself does not make it another, nor does another address of its /64.
        for address in ["192.0.2.1", "9.9.9.9, 192.0.2.1", "192.0.2.1, 127.0.0.9", "2001:db8::2"]:
            with pytest.raises(InvalidStatus) as caught:
                behind(address)
            answer = caught.value.response
            assert answer.status_code == 429 and answer.headers["Retry-After"] == "5", address
        behind("2001:db8:0:1::1").close()
    # The proxy's own connections are not counted.
    assert [server.get("/healthz")[0] for _ in range(5)] == [200] * 5
    assert refusals(server, "address.connections") == 4


def test_nobody_else_is_believed(limited):
    server = limited("insecure = true\n[limits]\naddress = { connections = 1 }\n")
    with patiently(lambda: Client(server, additional_headers={"X-Forwarded-For": "192.0.2.1"})):
        assert raw(server).startswith("HTTP/1.1 429 ")


def test_connections_that_ask_for_nothing_make_room(server):
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(1_030)]
    assert server.get("/healthz")[0] == 200
    for one in silent:
        one.close()
    assert refusals(server, "arrivals") > 0


# ---- what callers share -------------------------------------------------------------------------------------------


def follows(server, count):
    """Waits until so many timelines are followed: a call waits only after its first look."""
    until(lambda: server.metric("tideline_held", '{limit="watched_timelines_max"}') == count)


def positions(of, count):
    return {f"{of}/{number}": 0 for number in range(count)}


def test_waiting_calls_and_subscriptions_follow_so_many_timelines(limited):
    server = limited("watched_timelines_max = 40004\n")
    with Client(server, user="ada") as ada, Client(server, user="bob") as bob, Client(server) as nobody:
        waiting = ada.ask("sync", positions=positions("a", 10_000), wait_ms=30_000)
        follows(server, 10_001)
        with pytest.raises(Refused) as caught:
            ada.call("sync", positions=positions("b", 10_000), wait_ms=1_000)
        assert (caught.value.reason, caught.value.data["limit"]) == ("too_many", 10_001)
        with pytest.raises(Refused) as caught:
            ada.call("subscribe", timeline="a/0")
        assert caught.value.reason == "too_many"
        # A poll that does not wait follows nothing, and others have their own shares.
        assert ada.call("sync", positions=positions("b", 10_000))["timelines"] == {}
        bob.call("subscribe", timeline="a/1")
        for of in range(3):
            nobody.ask("sync", positions=positions(f"c{of}", 9_990), wait_ms=30_000)
        follows(server, 10_001 + 1 + 3 * 9_991)
        with pytest.raises(Refused) as caught:
            bob.call("sync", positions=positions("d", 1_000), wait_ms=1_000)
        assert caught.value.reason == "busy" and caught.value.data["retry_after_ms"] > 0
        nobody.append("a/9999")
        assert list(ada.take(waiting)["timelines"]) == ["a/9999"]
        ada.call("subscribe", timeline="a/0")
    assert refusals(server, "watched_timelines_max") == 3


def test_a_wait_in_a_batch_is_refused_whatever_it_waits_for(limited):
    server = limited("")
    calls = [request("log.tail", 1, wait_ms=5), request("sync", 2, positions={}, wait_ms=5)]
    for reply in post(server, calls)[1]:
        assert (reply["error"]["data"]["reason"], reply["error"]["data"]["field"]) == ("invalid_params", "wait_ms")


def test_strangers_give_their_places_to_those_who_ask_for_something(limited):
    server = limited("connections_max = 8\n")
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(8)]
    for one in silent[:4]:
        one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert one.recv(15) == b"HTTP/1.1 200 OK"
    with Client(server, user="ada") as ada, Client(server, user="bob") as bob:
        assert ada.call("ping") and bob.call("ping")
        # Of those who are known none leaves for a stranger.
        more = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(8)]
        assert raw(server).startswith("HTTP/1.1 200 ")
        assert ada.call("ping") and bob.call("ping")
    for one in silent + more:
        one.close()
    assert refusals(server, "connections_max") >= 2
