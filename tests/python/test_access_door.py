"""Credentials at the door: certificates of clients, addresses behind proxies, limits, and who may change the server."""

import json
import socket
import subprocess
import time

import pytest
from websockets.exceptions import InvalidStatus

from certificates import Authority
from client import Client, Refused, until
from guarded import ALL, LIMITS, OTHER, closed, list_tables, token, works
from server import CHANGE_PATIENCE


def test_a_key_with_a_certificate_counts_with_it_alone(guard, tmp_path):
    authority, clients = Authority(tmp_path), Authority(tmp_path, "clients")
    certificate, key = authority.issue("server")
    tls = f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\nclient_ca_file = "{clients.file}"\n'
    server = guard(before=tls, tls=authority.client())
    bound = server.key("create", "shop", "--allow", "*=read,append,create", "--certificate", "shop.example")
    signing = server.key("create", "tables", "--allow", "*=admin", "--signing", "--certificate", "shop.example")
    server.start()
    contexts = {
        "none": authority.client(),
        "its own": authority.client(clients.issue("shop.example", of_client=True)),
        "another": authority.client(clients.issue("other.example", of_client=True)),
    }
    for name, context in contexts.items():
        server.tls, counts = context, name == "its own"
        assert server.rpc(bound, "ping")[0] == (200 if counts else 401), name
        assert list_tables(server, signing[3:15], signing[-43:]) == (200 if counts else 403), name
        # A certificate alone is nobody; a credential without one counts with any.
        assert server.rpc(None, "ping")[0] == 401
        assert server.rpc(token(), "ping")[0] == 200
        if counts:
            with server.open(bound) as client:
                works(client)
            with Client(server) as client:
                client.call("session.open", token=bound)
                client.call("session.renew", token=bound)
                works(client)
            # Who shows a ticket need not show the certificate.
            with pytest.raises(Refused) as refused:
                server.call(bound, "session.ticket")
            assert refused.value.reason == "forbidden" and "--certificate" in refused.value.message
        else:
            with pytest.raises(InvalidStatus) as refused:
                server.open(bound)
            assert refused.value.response.status_code == 401
            with Client(server) as client:
                with pytest.raises(Refused) as refused:
                    client.call("session.open", token=bound)
                assert refused.value.reason == "unauthenticated"
                closed(client)
    command = [server.binary, "key", "list", "--url", server.origin, "--ca-file", authority.file]
    done = subprocess.run(command, capture_output=True, text=True, env={"TIDELINE_KEY": server.admin})
    assert done.returncode == 0 and "shop.example" in done.stdout, done.stderr


def test_an_exposed_address_needs_tls_or_a_trusted_proxy(guard):
    server = guard()
    server.listen = "0.0.0.0"

    def refused(before):
        server.before = before
        server.configure("")
        try:
            server.start()
        except RuntimeError as ended:
            return str(ended)
        server.kill()
        return None

    assert "[tls]" in refused("")
    assert refused('trusted_proxies = ["10.0.0.0/8"]\n') is None
    assert refused("insecure = true\n") is None


def test_the_address_is_that_of_the_client(guard):
    server = guard(before='trusted_proxies = ["127.0.0.0/8"]\n').start()
    headers = {"authorization": f"Bearer {token()}", "x-forwarded-for": "203.0.113.9, 192.0.2.7"}
    with Client(server, additional_headers=headers) as client:
        assert [one["address"] for one in client.call("session.list")["sessions"]] == ["192.0.2.7"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "key.list", "params": {}})
        told = {**headers, "content-type": "application/json", "authorization": f"Bearer {server.admin}"}
        assert server.http("POST", "/v1/rpc", body, told)[0] == 200
        assert server.http("POST", "/v1/rpc", body, {**told, "authorization": f"Bearer {token(secret=OTHER)}"})[0] == 401
    log = server.whole_log()
    assert any("key.list" in line and "192.0.2.7" in line for line in log.splitlines() if "audit" in line)
    assert any("refused credentials" in line and "192.0.2.7" in line for line in log.splitlines())


def test_refused_credentials_of_an_address_are_limited(guard):
    server = guard(limits="{ address = { failures_per_min = 5 } }", before='trusted_proxies = ["127.0.0.0/8"]\n').start()
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})

    def ask(address, bearer):
        headers = {"content-type": "application/json", "x-forwarded-for": address}
        if bearer:
            headers["authorization"] = f"Bearer {bearer}"
        return server.http("POST", "/v1/rpc", ping, headers)

    bad = token(secret=OTHER)
    assert [ask("192.0.2.1", bad)[0] for _ in range(7)] == [401] * 5 + [429] * 2
    status, headers, body = ask("192.0.2.1", bad)
    assert status == 429 and int(headers["retry-after"]) > 0
    assert json.loads(body)["error"]["data"]["reason"] == "rate_limited"
    with Client(server, additional_headers={"x-forwarded-for": "192.0.2.1"}) as client:
        with pytest.raises(Refused) as refused:
            client.call("session.open", token=bad)
        assert refused.value.reason == "rate_limited"
        closed(client)
    # Those that count do, also from there; none is no failure; another address has its own, and its own line in the log.
    assert ask("192.0.2.1", token())[0] == 200
    assert [ask("192.0.2.2", None)[0] for _ in range(7)] == [401] * 7
    assert ask("192.0.2.2", bad)[0] == 401
    lines = [line for line in server.whole_log().splitlines() if "refused credentials" in line]
    assert len([line for line in lines if "192.0.2.2" in line]) == 1
    assert 1 <= len([line for line in lines if "192.0.2.1" in line]) < 5


def test_refused_signatures_are_refused_credentials(guard):
    limits = "{ address = { failures_per_min = 5 }, key = { requests_per_s = 1 } }"
    server = guard(limits=limits)
    right, slow = (server.key("create", name, "--allow", "*=admin", "--signing") for name in ["right", "slow"])
    server.start()
    wrong = OTHER.decode().replace(" ", "x")
    assert [list_tables(server, right[3:15], wrong) for _ in range(7)] == [403] * 5 + [429] * 2
    assert list_tables(server, "nosuchkey000", wrong) == 429
    # One that is right counts, also from there.
    assert list_tables(server, right[3:15], right[-43:]) == 200
    assert server.metric("tideline_credentials_total", '{by="signature",result="signature"}') == 7
    assert server.metric("tideline_credentials_total", '{by="signature",result="unknown_key"}') == 1
    assert server.metric("tideline_credentials_total", '{by="signature",result="ok"}') == 1
    lines = [line for line in server.whole_log().splitlines() if "refused credentials" in line]
    assert any(right[3:15] in line and "127.0.0.1" in line for line in lines) and len(lines) < 8
    assert wrong not in server.whole_log()
    assert any(list_tables(server, slow[3:15], slow[-43:]) == 429 for _ in range(20))


def test_a_key_has_limits_whomever_it_acts_for(guard):
    server = guard(limits="{ key = { connections = 2, requests_per_s = 20 } }")
    made = server.key("create", "shop", "--allow", "*=read", "--act-as", "*")
    server.start()
    one, two = server.open(made, user="ann"), server.open(made)
    with pytest.raises(InvalidStatus) as refused:
        server.open(made, user="bob")
    assert refused.value.response.status_code == 429
    with Client(server) as third:
        with pytest.raises(Refused) as refused:
            third.call("session.open", token=made)
        assert refused.value.reason == "rate_limited"
        two.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                third.call("session.open", token=made)
                break
            except Refused as still:
                assert still.reason == "rate_limited" and time.monotonic() < deadline
                time.sleep(0.05)
    one.close()
    time.sleep(1.1)
    batch = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "ping", "params": {}} for number in range(40)])
    headers = {"content-type": "application/json", "authorization": f"Bearer {made}", "tideline-user": "cyd"}
    answers = json.loads(server.http("POST", "/v1/rpc", batch, headers)[2])
    reasons = [answer["error"]["data"]["reason"] for answer in answers if "error" in answer]
    assert 15 <= len(reasons) <= 20 and set(reasons) == {"rate_limited"}
    assert server.rpc(token(), "ping")[0] == 200


def test_a_user_has_limits_on_every_way_in(guard):
    server = guard(limits="{ user = { connections = 1 } }").start()
    with server.open(token("ann")):
        with pytest.raises(InvalidStatus) as refused:
            server.open(token("ann"))
        assert refused.value.response.status_code == 429
        with Client(server) as second:
            with pytest.raises(Refused) as refused:
                second.call("session.open", token=token("ann"))
            assert refused.value.reason == "rate_limited"
            # It may still show another.
            assert second.call("session.open", token=token("bob"))["user"] == "bob"


@pytest.mark.parametrize("before", ["", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_connections_without_a_credential_make_room(guard, before):
    server = guard().start()
    request = before + (
        "GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    silent = []
    for _ in range(1_030):
        silent.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        silent[-1].sendall(request.encode())
    assert server.rpc(token(), "ping")[0] == 200
    with server.open(token()) as client:
        works(client)
    if before:
        assert server.metric("tideline_refusals_total", '{limit="arrivals"}') > 0
    for one in silent:
        one.close()


def test_partitions_are_changed_by_administrators(guard):
    server = guard().start()
    for method, params in [("partition.list", {}), ("partition.split", {"partition": 77}), ("partition.merge", {"partition": 77, "with": 78})]:
        for bearer in [token(rights=[{"on": "*", "allow": ["read", "manage", "tables:manage"]}])]:
            with pytest.raises(Refused) as refused:
                server.call(bearer, method, **params)
            assert refused.value.reason == "forbidden", method
    assert len(server.call(server.admin, "partition.list")["partitions"]) == 1
    for method, params in [("partition.split", {"partition": 77}), ("partition.merge", {"partition": 77, "with": 78})]:
        with pytest.raises(Refused) as refused:
            server.call(server.admin, method, **params)
        assert refused.value.reason == "partition_not_found"

    def command(key):
        run = [server.binary, "partition", "list", "--url", server.origin]
        return subprocess.run(run, capture_output=True, text=True, env={"TIDELINE_KEY": key} if key else {})

    assert command(server.admin).stdout.startswith("partition 0")
    assert command(None).returncode == 1
    other = server.call(server.admin, "key.create", name="x", rights=ALL)["key"]
    refused = command(other)
    assert refused.returncode == 1 and "forbidden" in refused.stderr and other[-43:] not in refused.stderr


def test_credentials_go_along_when_partitions_are_split(guard):
    server = guard(limits=LIMITS).start()
    made = [server.call(server.admin, "key.create", name=f"k{number}", rights=ALL)["key"] for number in range(8)]
    eve = token("eve")
    server.call(server.admin, "session.revoke", user="eve", issued_before=int(time.time() * 1000) + 1000)
    with server.open(made[0]) as client:
        server.call(server.admin, "partition.split", partition=0)
        until(lambda: (server.call(server.admin, "partition.list").get("change") or {}).get("state") == "done", CHANGE_PATIENCE)
        works(client)
        more = server.call(server.admin, "key.create", name="later", rights=ALL)["key"]
        server.call(server.admin, "key.revoke", id=made[1][3:15])
    server.restart()
    for key in [made[0], *made[2:], more]:
        assert server.rpc(key, "ping")[0] == 200
    assert server.rpc(made[1], "ping")[0] == 401
    assert server.rpc(eve, "ping")[0] == 401 and server.rpc(token("ann"), "ping")[0] == 200


def test_two_keys_of_one_name_are_one_sender(guard):
    server = guard()
    first, second = (server.key("create", "shop", "--allow", "*=read,append,create") for _ in range(2))
    server.start()
    params = {"timeline": "orders", "entry": {"n": 1}, "message_id": "order-1"}
    assert server.call(first, "message.append", **params)["sequence"] == 1
    again = server.call(second, "message.append", **params)
    assert again["sequence"] == 1 and again["duplicate"]
    assert server.call(second, "message.get", timeline="orders", sequence=1)["message"]["sender"] == "$key/shop"
    server.call(server.admin, "key.revoke", id=first[3:15])
    assert server.rpc(first, "ping")[0] == 401
    assert server.call(second, "message.append", **params)["duplicate"]
