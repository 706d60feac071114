"""Who comes in: tokens, API keys, sessions and their end, each refusal beside a twin that is taken."""

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client import Client, Refused, until
from guarded import ALL, BAD, OTHER, SECRET, Guarded, closed, encode, list_tables, token, works
from issuer import Ed25519, Issuer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("guarded")).start()
    yield running
    running.kill()


@pytest.fixture
def own_guarded(tmp_path):
    running = Guarded(tmp_path)
    yield running
    running.kill()


@pytest.mark.parametrize("how", BAD)
def test_a_bad_credential_gets_the_same_bytes_whatever_is_wrong(guarded, how):
    bad = BAD[how]()
    status, headers, body = guarded.rpc(bad, "ping")
    assert status == 401 and headers["www-authenticate"] == "Bearer"
    assert body == guarded.rpc(None, "ping")[2]
    answer = json.loads(body)
    assert answer["id"] is None and answer["error"]["data"]["reason"] == "unauthenticated"
    with pytest.raises(InvalidStatus) as refused:
        guarded.open(bad)
    response = refused.value.response
    assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    assert response.body == body
    with Client(guarded) as client:
        with pytest.raises(Refused) as refused:
            client.call("session.open", token=bad)
        assert json.loads(str(refused.value)) == answer["error"]
        closed(client)
    # The twin.
    assert guarded.rpc(token(), "ping")[0] == 200
    assert len(bad) < 20 or bad[-20:] not in guarded.whole_log()


def test_a_good_token_works_on_every_way_in(guarded):
    good = token()
    assert guarded.call(good, "timeline.create", timeline="room")["timeline"] == "room"
    with guarded.open(good) as client:
        works(client)
        opened = client.call("session.open", device="phone")
        assert opened["user"] == "ann" and opened["expires_at"] % 1000 == 0
    for packed in [False, True]:
        with Client(guarded, packed=packed) as client:
            opened = client.call("session.open", token=good, user="ann", device="phone", client="t/1")
            assert opened["user"] == "ann"
            works(client)


def test_before_a_credential_only_ping_is_answered(guarded):
    with Client(guarded) as client:
        assert client.call("ping")["time"] > 0
        for method, params in [
            ("message.append", {"timeline": "t", "entry": {"a": 1}}),
            ("message.append_batch", {"timeline": "t", "messages": [{"entry": {"a": 1}}]}),
            ("subscribe", {"timeline": "t"}),
            ("sync", {"positions": {"t": 0}}),
            ("stream.open", {"timelines": ""}),
            ("signal", {"timeline": "t", "signal": {"a": 1}}),
            ("session.list", {}),
            ("session.renew", {"token": token()}),
            ("key.create", {"name": "x", "rights": []}),
            ("rpc.discover", {}),
            # What is wrong with a call is not looked at before.
            ("message.append", {}),
            ("timeline.get", {"timeline": 7, "nonsense": True}),
            ("sync", {"positions": {}, "deep": json.loads("[" * 40 + "]" * 40)}),
            ("nonsense", {}),
        ]:
            with pytest.raises(Refused) as refused:
                client.call(method, **params)
            assert refused.value.reason == "unauthenticated", method
        for method, params in [("ping", {"x": 1}), ("session.open", {"token": 7})]:
            with pytest.raises(Refused) as refused:
                client.call(method, **params)
            assert refused.value.code == -32602, method
        # In a batch too; what is behind the session.open counts.
        batch = [
            {"jsonrpc": "2.0", "id": 101, "method": "timeline.list", "params": {}},
            {"jsonrpc": "2.0", "id": 102, "method": "session.open", "params": {"token": token()}},
            {"jsonrpc": "2.0", "id": 103, "method": "timeline.create", "params": {"timeline": "b"}},
        ]
        client.send(batch)
        answers = client.receive()
        assert ["error" in answer for answer in answers] == [True, False, False]
        works(client)


def test_who_shows_nothing_is_closed_after_ten_seconds(guarded):
    with Client(guarded) as client:
        began = time.monotonic()
        client.call("ping")
        closed(client)
        assert time.monotonic() - began > 9


def test_a_user_beside_a_token_must_be_its_own(guarded):
    good = token("ann")
    assert guarded.rpc(good, "ping", acting="ann")[0] == 200
    status, _, body = guarded.rpc(good, "ping", acting="bob")
    assert status == 403 and json.loads(body)["error"]["data"]["reason"] == "forbidden"
    with pytest.raises(InvalidStatus) as refused:
        guarded.open(good, user="bob")
    assert refused.value.response.status_code == 403
    with Client(guarded) as client:
        with pytest.raises(Refused) as refused:
            client.call("session.open", token=good, user="bob")
        assert refused.value.reason == "forbidden"
        assert client.call("session.open", token=good, user="ann")["user"] == "ann"
        # A connection's user never changes.
        for params in [{"token": token("bob")}, {"user": "bob"}, {"token": guarded.admin}]:
            with pytest.raises(Refused) as refused:
                client.call("session.open", **params)
            assert refused.value.reason == "forbidden"
        works(client)


def test_a_header_that_could_be_taken_in_two_ways_counts_not(guarded):
    def raw(*headers):
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        head = [f"POST /v1/rpc HTTP/1.1\r\nhost: 127.0.0.1:{guarded.port}\r\ncontent-type: application/json",
                f"content-length: {len(body)}\r\nconnection: close", *headers]
        with socket.create_connection(("127.0.0.1", guarded.port), 10) as connection:
            connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            return int(connection.makefile("rb").readline().split()[1])

    good = token()
    assert raw(f"authorization: Bearer {good}") == 200
    assert raw(f"authorization: bearer {good}") == 200
    assert raw("authorization: Basic YTpi", f"authorization: Bearer {good}") == 200
    assert raw(f"authorization: Bearer {good}", f"authorization: Bearer {good}") == 401
    assert raw("authorization: Basic YTpi") == 401
    assert raw(f"authorization: {good}") == 401
    assert raw(f"cookie: token={good}") == 401
    assert guarded.http("POST", f"/v1/rpc?token={good}&access_token={good}", "{}", {"content-type": "application/json"})[0] == 401


def test_a_key_acts_with_its_rights_and_for_its_users(guarded):
    made = guarded.call(guarded.admin, "key.create", name="shop", rights=ALL, act_as=["shop-*"])
    key = made["key"]
    assert key.startswith(f"tl_{made['id']}_") and len(key) == 59
    assert guarded.rpc(key, "ping")[0] == 200
    assert guarded.rpc(key, "ping", acting="shop-1")[0] == 200
    assert guarded.rpc(key, "ping", acting="ann")[0] == 403
    assert guarded.rpc(key[:-1] + ("a" if key[-1] != "a" else "b"), "ping")[0] == 401
    with Client(guarded) as client:
        with pytest.raises(Refused) as refused:
            client.call("session.open", token=key, user="ann")
        assert refused.value.reason == "forbidden"
        assert client.call("session.open", token=key, user="shop-2")["user"] == "shop-2"
        works(client)
    with guarded.open(key) as client:
        assert "user" not in client.call("session.open")
        assert client.call("session.open", user="shop-3")["user"] == "shop-3"
        with pytest.raises(Refused):
            client.call("session.open", user="shop-4")
    listed = {one["id"]: one for one in guarded.call(guarded.admin, "key.list")["keys"]}
    assert listed[made["id"]]["act_as"] == ["shop-*"] and listed[made["id"]]["rights"] == ALL
    assert key[-43:] not in json.dumps(listed)


def test_only_an_administrator_looks_after_keys(guarded):
    plain = guarded.call(guarded.admin, "key.create", name="plain", rights=ALL)["key"]
    for bearer in [token(), plain]:
        for method, params in [
            ("key.create", {"name": "x", "rights": []}),
            ("key.list", {}),
            ("key.revoke", {"id": "abcdefghijkl"}),
            ("session.revoke", {"user": "ann"}),
        ]:
            with pytest.raises(Refused) as refused:
                guarded.call(bearer, method, **params)
            assert refused.value.reason == "forbidden", method
    for params, field in [
        ({"name": "a b", "rights": []}, "name"),
        ({"name": "a", "rights": [{"on": "a*", "allow": ["admin"]}]}, "rights[0].allow[0]"),
        ({"name": "a", "rights": [{"on": "*", "allow": ["fly"]}]}, "rights[0].allow[0]"),
        ({"name": "a", "rights": [{"on": "a*b", "allow": ["read"]}]}, "rights[0].on"),
        ({"name": "a", "rights": [], "act_as": ["$x"]}, "act_as"),
        ({"name": "a", "rights": [], "certificate": "*"}, "certificate"),
    ]:
        with pytest.raises(Refused) as refused:
            guarded.call(guarded.admin, "key.create", **params)
        assert (refused.value.code, refused.value.data["field"]) == (-32602, field)


def test_a_revoked_key_ends_at_once_and_stays_revoked(own_guarded):
    server = own_guarded.start()
    made = server.call(server.admin, "key.create", name="a", rights=ALL)
    with server.open(made["key"]) as client, server.open(server.admin) as other:
        works(client)
        assert server.metric("tideline_sessions") == 2
        assert server.call(server.admin, "key.revoke", id=made["id"]) == {"revoked": True}
        closed(client)
        other.call("ping")
    assert server.rpc(made["key"], "ping")[0] == 401
    assert server.call(server.admin, "key.revoke", id=made["id"]) == {"revoked": False}
    server.restart(signal.SIGKILL)
    assert server.rpc(made["key"], "ping")[0] == 401
    assert server.rpc(server.admin, "ping")[0] == 200


def test_a_revocation_is_whole_although_its_caller_hangs_up(own_guarded):
    server = own_guarded.start()
    keys = [server.call(server.admin, "key.create", name="a", rights=ALL) for _ in range(16)]
    for number, made in enumerate(keys):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "key.revoke", "params": {"id": made["id"]}})
        head = f"POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {server.admin}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            # So that it is reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            time.sleep(number * 0.0002)
    # It has its turn behind them.
    server.call(server.admin, "key.create", name="b", rights=ALL)
    counted = [server.rpc(made["key"], "ping")[0] for made in keys]
    server.restart()
    assert [server.rpc(made["key"], "ping")[0] for made in keys] == counted


def test_a_key_leaves_for_a_user_where_it_has_the_right(own_guarded):
    server = own_guarded.start()
    server.call(server.admin, "timeline.create", timeline="team", members=[{"user": "ann"}, {"user": "bob"}])
    blind, seeing = (
        server.call(server.admin, "key.create", name="a", rights=rights, act_as=["*"])["key"]
        for rights in [[], [{"on": "*", "allow": ["read", "members"]}]]
    )
    with pytest.raises(Refused) as refused:
        server.call(blind, "member.remove", acting="ann", timeline="team", users=["ann"])
    assert refused.value.reason == "timeline_not_found"
    assert server.call(seeing, "member.remove", acting="ann", timeline="team", users=["ann"])["removed"] == 1
    # Users need no right to leave.
    assert server.call(token("bob", rights=None), "member.remove", timeline="team", users=["bob"])["removed"] == 1


def test_a_stranger_sends_no_large_message(own_guarded):
    server = own_guarded.start()
    entry = {"text": "x" * (65 << 10)}
    with Client(server) as client:
        client.call("session.open", token=token())
        assert client.call("message.append", timeline="large", entry=entry)["sequence"] == 1
    with Client(server) as client:
        client.socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": entry}))
        with pytest.raises(ConnectionClosed) as closed_by:
            client.socket.recv(60)
        assert closed_by.value.rcvd.code == 1009


def test_who_is_revoked_while_the_body_comes_does_nothing(own_guarded):
    server = own_guarded.start()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message.append", "params": {"timeline": "slow", "entry": {"n": 1}}})

    def slowly(bearer, meanwhile):
        head = f"POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {bearer}\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body[:9]}".encode())
            # The head has come, and its credential was good.
            time.sleep(0.3)
            meanwhile()
            connection.sendall(body[9:].encode())
            return connection.recv(4096).split(b" ", 2)[1]

    made = server.call(server.admin, "key.create", name="a", rights=ALL)
    assert slowly(made["key"], lambda: None) == b"200"
    assert slowly(made["key"], lambda: server.call(server.admin, "key.revoke", id=made["id"])) == b"401"
    assert slowly(token(iat=int(time.time()) - 5), lambda: server.call(server.admin, "session.revoke", user="ann")) == b"401"
    assert server.call(server.admin, "message.range", timeline="slow")["head"] == 1
    assert server.metric("tideline_api_keys") == 1


def test_revoked_tokens_end_at_once_and_stay_revoked(own_guarded):
    server = own_guarded.start()
    old, ageless, of_bob = token(), token(iat=None), token("bob")
    waiting = threading.Thread(target=lambda: answers.append(server.rpc(old, "sync", positions={"none": 0}, wait_ms=60000)))
    answers = []
    waiting.start()
    with server.open(old) as client, server.open(ageless) as second, server.open(of_bob) as other:
        works(client)
        time.sleep(0.3)
        revoked = server.call(server.admin, "session.revoke", user="ann")
        assert abs(revoked["issued_before"] - time.time() * 1000) < 5000
        closed(client)
        closed(second)
        works(other)
    waiting.join(60)
    assert answers and answers[0][0] == 401
    time.sleep(1.1)
    new = token()
    for how in [signal.SIGTERM, signal.SIGKILL]:
        assert server.rpc(old, "ping")[0] == 401
        assert server.rpc(ageless, "ping")[0] == 401
        assert server.rpc(new, "ping")[0] == 200
        assert server.rpc(of_bob, "ping")[0] == 200
        # An earlier time takes nothing back.
        again = server.call(server.admin, "session.revoke", user="ann", issued_before=1)
        assert again == revoked
        server.restart(how)


def test_a_token_ends_with_a_warning_and_can_be_renewed(guarded):
    soon = int(time.time()) + 3
    with guarded.open(token(exp=soon)) as client:
        assert 0 <= client.push("session.expiring")["in_ms"] <= 3000
        with pytest.raises(Refused) as refused:
            client.call("session.renew", token=token("bob"))
        assert refused.value.reason == "forbidden"
        with pytest.raises(Refused) as refused:
            client.call("session.renew", token=token(exp=1))
        assert refused.value.reason == "unauthenticated"
        later = int(time.time()) + 600
        assert client.call("session.renew", token=token(exp=later)) == {"expires_at": later * 1000}
        time.sleep(max(soon + 2.5 - time.time(), 0))
        works(client)
    soon = int(time.time()) + 3
    with guarded.open(token(exp=soon)) as client:
        client.ask("sync", positions={"none": 0}, wait_ms=60000)
        closed(client)
        assert time.time() > soon
    soon = int(time.time()) + 3
    status, _, _ = guarded.rpc(token(exp=soon), "sync", positions={"none": 0}, wait_ms=60000)
    assert status == 401 and soon < time.time() < soon + 30


def test_sessions_are_listed_and_closed_by_their_users(guarded):
    with guarded.open(token("cleo")) as phone, guarded.open(token("cleo")) as laptop, guarded.open(token("dan")) as other:
        mine = phone.call("session.open", device="phone", client="t/1")["session"]
        theirs = other.call("session.open")["session"]
        listed = phone.call("session.list")["sessions"]
        assert len(listed) == 2 and {one["user"] for one in listed} == {"cleo"}
        one = next(one for one in listed if one["session"] == mine)
        assert one["device"] == "phone" and one["client"] == "t/1" and one["address"] == "127.0.0.1"
        assert one["opened_at"] <= time.time() * 1000 < one["expires_at"]
        assert phone.call("session.close", session=theirs) == {"closed": False}
        assert phone.call("session.close", session="nothing") == {"closed": False}
        assert laptop.call("session.close", session=mine) == {"closed": True}
        closed(phone)
        works(other)
        admin = guarded.call(guarded.admin, "session.list", user="dan")["sessions"]
        assert [one["session"] for one in admin] == [theirs]
        assert guarded.call(guarded.admin, "session.close", session=theirs) == {"closed": True}
        closed(other)
        assert len(laptop.call("session.list")["sessions"]) == 1
        # A back end that acts for her is somebody else, and she to it.
        key = guarded.call(guarded.admin, "key.create", name="backend", rights=ALL, act_as=["cleo"])["key"]
        with guarded.open(key, user="cleo") as backend, guarded.open(key, user="cleo") as second:
            its, hers = (client.call("session.open")["session"] for client in [backend, laptop])
            assert laptop.call("session.close", session=its) == backend.call("session.close", session=hers) == {"closed": False}
            assert [one["session"] for one in laptop.call("session.list")["sessions"]] == [hers]
            assert hers not in [one["session"] for one in backend.call("session.list")["sessions"]]
            assert second.call("session.close", session=its) == {"closed": True}
            closed(backend)
        works(laptop)


def test_the_command_makes_keys_by_directory_and_by_url(own_guarded):
    first = own_guarded.admin
    assert own_guarded.key("create", "x", "--allow", "*=fly", check=False).returncode == 1
    listed = [json.loads(line) for line in own_guarded.key("list").splitlines()]
    assert [one["name"] for one in listed] == ["admin"] and first[-43:] not in json.dumps(listed)
    server = own_guarded.start()
    busy = server.key("list", check=False)
    assert busy.returncode == 1 and busy.stdout == ""
    with_key = {"TIDELINE_KEY": first}
    made = server.key("create", "shop", "--allow", "room/*=read,append", "--act-as", "shop-*", "--url", server.origin, environment=with_key)
    assert server.rpc(made, "ping", acting="shop-1")[0] == 200
    listed = [json.loads(line) for line in server.key("list", "--url", server.origin, environment=with_key).splitlines()]
    assert listed[1]["rights"] == [{"on": "room/*", "allow": ["read", "append"]}]
    server.key("revoke", listed[1]["id"], "--url", server.origin, environment=with_key)
    assert server.rpc(made, "ping")[0] == 401
    refused = server.key("list", "--url", server.origin, environment={"TIDELINE_KEY": made}, check=False)
    assert refused.returncode == 1 and made[-43:] not in refused.stderr
    server.stop()
    server.key("revoke", listed[0]["id"])
    server.start()
    assert server.rpc(first, "ping")[0] == 401


def test_metrics_are_for_those_who_may_observe(guarded):
    key = guarded.call(guarded.admin, "key.create", name="eye", rights=[{"on": "*", "allow": ["observe"]}])["key"]
    assert guarded.get("/metrics", {"authorization": f"Bearer {key}"})[0] == 200
    assert guarded.get("/metrics")[0] == 401
    assert guarded.get("/metrics", {"authorization": f"Bearer {token()}"})[0] == 403
    for path in ["/console/", "/healthz", "/readyz"]:
        assert guarded.get(path)[0] == 200
    before = guarded.metric("tideline_credentials_total", '{by="token",result="expired"}')
    guarded.rpc(token(exp=1), "ping")
    assert guarded.metric("tideline_credentials_total", '{by="token",result="expired"}') == before + 1


def test_a_reload_takes_keys_in_and_out(own_guarded):
    server = own_guarded.start()
    with server.open(token()) as client:
        works(client)
        server.secret_file("next.key", OTHER)
        new = token(secret=OTHER, kid="next")
        assert server.rpc(new, "ping")[0] == 401
        server.configure("", ["main.key", "next.key"])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.rpc(new, "ping")[0] == 200)
        works(client)
        # A bad one changes nothing.
        server.configure("", ["main.key", "missing.key"])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "the settings stay as they were" in server.log())
        assert server.rpc(new, "ping")[0] == 200
        server.configure("", ["next.key"])
        server.process.send_signal(signal.SIGHUP)
        closed(client)
        assert server.rpc(token(), "ping")[0] == 401
        assert server.rpc(new, "ping")[0] == 200


@pytest.mark.parametrize(
    "auth, secret, mode, why",
    [
        ("", SECRET[:31], 0o600, "31 bytes"),
        ("", SECRET, 0o644, "others can read"),
        ("issuers = 1", SECRET, 0o600, "issuers"),
        ("jwks_url = \"http://example.org/\"", SECRET, 0o600, "https://"),
        ("rights = [{ on = \"*\", allow = [\"admin\"] }]", SECRET, 0o600, "only keys"),
    ],
)
def test_what_cannot_be_meant_refuses_the_start(own_guarded, auth, secret, mode, why):
    own_guarded.configure(auth)
    own_guarded.secret_file("main.key", secret, mode)
    with pytest.raises(RuntimeError) as refused:
        own_guarded.start()
    assert why in str(refused.value) and secret.decode() not in str(refused.value)


def test_credentials_of_tablestore_are_keys(tmp_path):
    refused = Guarded(tmp_path, before='tablestore_credentials = ["me:canary-secret"]')
    with pytest.raises(RuntimeError) as why:
        refused.start()
    assert "beside [auth]" in str(why.value) and "canary" not in str(why.value)
    server = refused
    server.before = ""
    server.configure("")
    key = server.key("create", "tables", "--allow", "*=admin", "--signing")
    plain = server.key("create", "plain", "--allow", "*=admin")
    secret = os.path.join(server.data, "keys", key[3:15])
    assert open(secret).read() == key[-43:] and os.stat(secret).st_mode & 0o777 == 0o600
    server.start()
    try:
        assert list_tables(server, key[3:15], key[-43:]) == 200
        assert list_tables(server, key[3:15], "wrong") == 403
        assert list_tables(server, plain[3:15], plain[-43:]) == 403
        assert list_tables(server, "development", "development") == 403
        server.call(server.admin, "key.revoke", id=key[3:15])
        assert list_tables(server, key[3:15], key[-43:]) == 403
        assert not os.path.exists(secret)
    finally:
        server.kill()


@pytest.fixture
def issuer():
    running = Issuer()
    yield running
    running.close()


def test_keys_are_fetched_and_leave_with_their_set(own_guarded, issuer):
    keys = [Ed25519(f"k{number}") for number in range(3)]

    def publish(*published):
        issuer.body = json.dumps({"keys": [key.jwk() for key in published] + [{"kty": "oct", "kid": "s", "k": encode(OTHER)}]}).encode()

    publish(keys[0])
    own_guarded.configure(issuer.setting + "\njwks_refresh_s = 3600")
    server = own_guarded.start()
    first = keys[0].token()
    until(lambda: server.rpc(first, "ping")[0] == 200)
    assert server.rpc(token(), "ping")[0] == 200
    # A secret that a server publishes is none.
    assert server.rpc(token(secret=OTHER, kid="s"), "ping")[0] == 401
    # A key that is not there yet is asked for once, for all who wait.
    fetched = issuer.fetches
    publish(keys[0], keys[1])
    second = keys[1].token()
    issuer.pause = 1
    if fetched > 1:
        time.sleep(10.5)  # the unknown `s` has had its fetch
    fetched, answers = issuer.fetches, []
    threads = [threading.Thread(target=lambda: answers.append(server.rpc(second, "ping")[0])) for _ in range(8)]
    with Client(server) as client:
        [thread.start() for thread in threads]
        number = client.ask("session.open", token=second)
        behind = client.ask("timeline.create", timeline="behind")
        assert client.take(number)["user"] == "ann"
        assert client.take(behind)["timeline"] == "behind"
        [thread.join() for thread in threads]
        assert answers == [200] * 8
        assert issuer.fetches == fetched + 1
        # And then not again within 10 s, whatever is shown.
        unknown = keys[2].token()
        for _ in range(20):
            assert server.rpc(unknown, "ping")[0] == 401
        assert issuer.fetches == fetched + 1
        # A failed fetch leaves the set as it was.
        for number, (body, status) in enumerate([(b"", 500), (b"{}", 200), (b"", 302), (b"x" * 300_000, 200)]):
            issuer.body, issuer.status = body, status
            server.configure(issuer.setting + f"\njwks_refresh_s = {3601 + number}")
            failed = server.metric("tideline_jwks_fetches_total", '{result="failed"}')
            server.process.send_signal(signal.SIGHUP)
            until(lambda: server.metric("tideline_jwks_fetches_total", '{result="failed"}') > failed)
            assert server.rpc(second, "ping")[0] == 200
        client.call("ping")
        # Sessions whose key has left the set are closed.
        publish(keys[2])
        issuer.status = 200
        server.configure(issuer.setting + "\njwks_refresh_s = 60")
        server.process.send_signal(signal.SIGHUP)
        closed(client)
    assert server.rpc(first, "ping")[0] == 401
    assert server.rpc(keys[2].token(), "ping")[0] == 200


def test_before_the_first_set_tokens_are_unavailable(own_guarded, issuer):
    key = Ed25519("k")
    issuer.status = 500
    own_guarded.configure(issuer.setting + "\njwks_refresh_s = 1")
    server = own_guarded.start()
    status, _, body = server.rpc(key.token(), "ping")
    assert status == 503 and json.loads(body)["error"]["data"] == {"reason": "unavailable", "retry": True}
    # Keys that the configuration names are known.
    assert server.rpc(token(), "ping")[0] == 200
    assert server.rpc(server.admin, "ping")[0] == 200
    with Client(server) as client:
        with pytest.raises(Refused) as refused:
            client.call("session.open", token=key.token())
        assert refused.value.reason == "unavailable"
        issuer.status, issuer.body = 200, json.dumps({"keys": [key.jwk()]}).encode()
        until(lambda: server.rpc(key.token(), "ping")[0] == 200)
        assert client.call("session.open", token=key.token())["user"] == "ann"


def test_a_canary_is_nowhere(tmp_path):
    """Secrets of tokens, keys and signing keys are in no log, error, metric, page, configuration or dump."""
    server = Guarded(tmp_path)
    server.config = 'log = "debug"\n' + server.config
    with open(server.config_path, "w") as file:
        file.write(server.config)
    signing = server.key("create", "tables", "--allow", "*=admin", "--signing")
    server.start()
    seen = []
    try:
        made = server.call(server.admin, "key.create", name="shop", rights=ALL)["key"]
        good, bad = token(), token(secret=OTHER)
        wrong = made[:-1] + ("a" if made[-1] != "a" else "b")
        for bearer in [good, bad, made, wrong, server.admin]:
            for answer in [server.rpc(bearer, "key.list"), server.rpc(bearer, "session.list"), server.rpc(bearer, "nonsense", token=bearer)]:
                seen.append(answer[2].decode())
            with Client(server) as client:
                try:
                    client.call("session.open", token=bearer)
                    client.call("session.renew", token=bearer)
                    seen.append(json.dumps(client.call("session.list")))
                except (Refused, ConnectionClosed) as error:
                    seen.append(str(error))
        list_tables(server, signing[3:15], signing[-43:])
        seen.append(server.get("/metrics", {"authorization": f"Bearer {server.admin}"})[2].decode())
        seen += [server.get(path)[2].decode() for path in ["/", "/healthz", "/readyz"]]
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
    finally:
        server.stop()
    seen.append(server.whole_log())
    run = lambda *command: subprocess.run([server.binary, *command], capture_output=True, text=True)
    for done in [run("config", "--config", server.config_path), run("dump", server.data), run("verify", server.data)]:
        assert done.returncode == 0, done.stderr
        seen += [done.stdout, done.stderr]
    seen.append(server.key("list"))
    secrets = [SECRET.decode(), OTHER.decode(), *(key[-43:] for key in [signing, made, wrong, server.admin])]
    secrets += [part for bearer in [good, bad] for part in bearer.split(".")[1:]]
    for text in seen:
        for secret in secrets:
            assert secret not in text


def write_public(key, path):
    made = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with open(path, "wb") as file:
        file.write(made)


def signature(key, text):
    """As JWTs have it."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(text)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    parts = utils.decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
    return b"".join(part.to_bytes(32, "big") for part in parts)


def test_public_keys_of_each_kind_and_no_other(own_guarded):
    at = lambda name: os.path.join(own_guarded.directory, name)
    keys = {
        "rsa": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
    }
    for name, key in keys.items():
        write_public(key, at(f"{name}.pem"))
    files = json.dumps([at(f"{name}.pem") for name in keys])
    own_guarded.configure(f"public_key_files = {files}")
    server = own_guarded.start()

    def signed(name, algorithm):
        text = token(header={"alg": algorithm, "kid": name}).rsplit(".", 1)[0]
        return f"{text}.{encode(signature(keys[name], text.encode()))}"

    algorithms = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}
    for name, algorithm in algorithms.items():
        assert server.rpc(signed(name, algorithm), "ping")[0] == 200, name
        for other in {"RS256", "ES256", "EdDSA", "HS256", "RS512", "PS256", "none"} - {algorithm}:
            assert server.rpc(signed(name, other), "ping")[0] == 401, (name, other)
        # What everybody may know is no secret.
        with open(at(f"{name}.pem"), "rb") as file:
            public = file.read()
        for secret in [public, public.strip()]:
            assert server.rpc(token(secret=secret, kid=name), "ping")[0] == 401
    server.stop()
    for key, why in [
        (rsa.generate_private_key(65537, 1024), "1024 bits"),
        (ec.generate_private_key(ec.SECP384R1()), "P-256"),
    ]:
        write_public(key, at("ec.pem"))
        with pytest.raises(RuntimeError) as refused:
            server.start()
        assert why in str(refused.value)


def test_without_auth_nothing_changes(server):
    with Client(server, user="ann") as client:
        works(client)
        for method, params in [
            ("key.create", {"name": "x", "rights": [{"on": "*", "allow": ["admin"]}]}),
            ("key.list", {}),
            ("key.revoke", {"id": "x"}),
            ("session.revoke", {"user": "ann"}),
            ("session.renew", {"token": "x"}),
        ]:
            with pytest.raises(Refused) as refused:
                client.call(method, **params)
            assert refused.value.reason == "forbidden", method
    assert server.get("/metrics")[0] == 200
    assert server.http("POST", "/v1/rpc", "{}", {"content-type": "application/json", "authorization": "Bearer x"})[0] == 401
