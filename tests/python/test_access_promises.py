"""What access promises beside the decision itself: sets of keys, cookies, proxies, the audit log, revocation, secrets kept secret."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from certificates import Authority
from client import Client, Refused
from client import until as soon
from guarded import ALL, SECRET, closed, token, who
from issuer import Ed25519, Issuer
from test_events import Stream

SET_BYTES_MAX = 256 << 10
SET_KEYS_MAX = 100


def test_a_set_of_keys_is_taken_whole_and_from_where_it_is_said_to_be(guard):
    keys = [Ed25519(f"k{number}") for number in range(2)]
    server, issuer, reloads = guard(), Issuer(), iter(range(3_600, 9_999))

    def of(key, count=1):
        more = [{**keys[0].jwk(), "kid": f"more{number}"} for number in range(count - 1)]
        return json.dumps({"keys": [key.jwk(), *more]}).encode()

    def fetched(body, result):
        """Has the set fetched anew, and waits for how that ended."""
        issuer.body = body
        label = f'{{result="{result}"}}'
        before = server.metric("tideline_jwks_fetches_total", label)
        server.configure(f"{issuer.setting}\njwks_refresh_s = {next(reloads)}")
        server.process.send_signal(signal.SIGHUP)
        soon(lambda: server.metric("tideline_jwks_fetches_total", label) > before)

    try:
        issuer.body = of(keys[0])
        server.configure(issuer.setting)
        server.start()
        soon(lambda: server.rpc(keys[0].token(), "ping")[0] == 200)
        # It is where it is said to be: what a redirect leads to is not asked for.
        issuer.status = 302
        fetched(of(keys[1]), "failed")
        assert issuer.redirected == 0
        issuer.status = 200
        fetched(of(keys[1]).ljust(SET_BYTES_MAX + 1), "failed")
        fetched(of(keys[1], SET_KEYS_MAX + 1), "failed")
        assert server.rpc(keys[0].token(), "ping")[0] == 200
        assert server.metric("tideline_jwks_keys") == 1
        # The twins.
        fetched(of(keys[1]).ljust(SET_BYTES_MAX), "ok")
        assert server.rpc(keys[1].token(), "ping")[0] == 200
        fetched(of(keys[1], SET_KEYS_MAX), "ok")
        assert server.metric("tideline_jwks_keys") == SET_KEYS_MAX
    finally:
        issuer.close()


def test_a_set_of_keys_is_fetched_over_https_from_whom_the_system_trusts(guard, tmp_path):
    trusted, other = Authority(tmp_path, "trusted"), Authority(tmp_path, "other")
    key, failed = Ed25519("k"), '{result="failed"}'
    for authority, status in [(other, 503), (trusted, 200)]:
        issuer = Issuer(authority.issue("issuer"))
        issuer.body = json.dumps({"keys": [key.jwk()]}).encode()
        server = guard(auth=issuer.setting)
        server.environment = {"SSL_CERT_FILE": trusted.file}
        try:
            server.start()
            soon(lambda: server.metric("tideline_jwks_fetches_total") > 0)
            assert server.rpc(key.token(), "ping")[0] == status
            assert (server.metric("tideline_jwks_fetches_total", failed) > 0) == (status == 503)
            if status == 200:
                # One that does not answer is given up after 5 s, and what it gave before counts.
                issuer.pause = 60
                server.configure(f"{issuer.setting}\njwks_refresh_s = 3_600")
                server.process.send_signal(signal.SIGHUP)
                soon(lambda: server.metric("tideline_jwks_fetches_total", failed) > 0)
                assert "no answer within 5 s" in server.whole_log()
                assert server.rpc(key.token(), "ping")[0] == 200
        finally:
            server.kill()
            issuer.close()


def test_a_push_looks_nothing_up(guard):
    """However a right is given: by the token, by the policy for others, by a role."""
    policies = '[[policy]]\nprefix = "open/"\nothers = ["read"]\n[[policy]]\nprefix = "room/"\nmembers = ["read"]'
    server, count = guard(auth=policies).start(), 200
    reads = lambda: server.metric("tideline_reads_total")
    with server.open(server.admin) as writer:
        for name, reader in [("own/1", who("ida", "read", on="own/*")), ("open/1", who("eve")), ("room/1", who("ann"))]:
            writer.call("timeline.create", timeline=name, members=[{"user": "ann"}] if name == "room/1" else [])
            with server.open(reader) as client:
                client.call("subscribe", timeline=name)
                writer.append(name)
                client.messages(name, 1)
                before = reads()
                writer.fill(name, count)
                for _ in range(count):
                    writer.append(name)
                client.messages(name, 2 * count)
                # Others are the server's own.
                assert reads() - before < count / 4, name
                client.call("timeline.get", timeline=name)
                assert reads() > before


def test_a_push_of_an_inbox_reads_nothing_once_it_is_known_what_may_be_named(guard):
    policies = '[[policy]]\nprefix = "open/"\nothers = ["read"]\n[[policy]]\nprefix = "room/"\nmembers = ["read"]'
    server, inbox, count = guard(auth=policies).start(), "$inbox/ann", 50
    pages = lambda: server.metric("tideline_feed_store_pages_total")
    with server.open(server.admin) as writer:
        for name in ["open/1", "room/1"]:
            writer.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": "ann"}])
        writer.append("open/1")
        soon(lambda: server.rpc(who("ann"), "message.range", timeline=inbox)[0] == 200)
        with server.open(who("ann")) as client:
            client.call("subscribe", timeline=inbox)
            for name in ["open/1", "room/1"]:
                writer.append(name)
                client.messages(inbox, 1)
                before = pages()
                for _ in range(count):
                    writer.append(name)
                    assert client.messages(inbox, 1)[0]["entry"]["timeline"] == name
                assert pages() - before < count / 4, name
            # What they are there may have changed: it is looked up again, and another policy needs no look.
            writer.call("member.update", timeline="room/1", user="ann", role="guest")
            writer.append("room/1")
            assert client.messages(inbox, 1)[0]["entry"]["timeline"] == "room/1"
            assert pages() > before
            server.configure(policies.replace('members = ["read"]', "members = []"))
            server.process.send_signal(signal.SIGHUP)
            soon(lambda: "the settings were read again" in server.whole_log())
            writer.append("room/1")
            assert client.messages(inbox, 1)[0]["hidden"]
            writer.append("open/1")
            assert client.messages(inbox, 1)[0]["entry"]["timeline"] == "open/1"


def test_no_cookie_is_read_or_set(guard):
    server = guard().start()
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})
    headers = {"content-type": "application/json"}
    for bearer in [token(), server.admin]:
        cookie = {"cookie": f"authorization=Bearer {bearer}; token={bearer}; session={bearer}"}
        shown = {"authorization": f"Bearer {bearer}"}
        answers = [
            (server.http("POST", "/v1/rpc", ping, {**headers, **cookie}), 401),
            (server.get("/metrics", cookie), 401),
            (server.http("POST", "/v1/rpc", ping, {**headers, **cookie, **shown}), 200),
            (server.http("POST", "/v1/rpc", ping, {**headers, **shown, "cookie": "token=nonsense"}), 200),
            *((server.get(path, cookie), 200) for path in ["/console/", "/healthz", "/readyz"]),
        ]
        for (status, told, _), expected in answers:
            assert status == expected
            assert "set-cookie" not in told
    with Client(server, additional_headers={"cookie": f"token={server.admin}"}) as client:
        assert "set-cookie" not in client.socket.response.headers
        with pytest.raises(Refused) as refused:
            client.call("timeline.list")
        assert refused.value.reason == "unauthenticated"
    with server.open(server.admin) as client:
        assert "set-cookie" not in client.socket.response.headers


def own_address():
    """An address of this machine that is not loopback; none on a machine without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system only chooses where from.
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def test_without_tls_others_than_trusted_proxies_get_403(guard):
    address = own_address()
    if address.startswith("127."):
        pytest.skip("this machine has loopback only")

    def ask(server, host):
        request = f"GET /healthz HTTP/1.1\r\nhost: {host}:{server.port}\r\nconnection: close\r\n\r\n"
        with socket.create_connection((host, server.port), 20) as plain:
            plain.sendall(request.encode())
            return plain.makefile("rb").read().decode()

    server = guard()
    for trusted, expected in [("198.51.100.7", "403"), (address, "200")]:
        server.before = f'listen = "0.0.0.0:{server.port}"\ntrusted_proxies = ["{trusted}"]\n'
        server.configure("")
        # What the harness says on the command line wins over the file.
        command = [server.binary, "serve", "--data", server.data, "--config", server.config_path]
        server.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        soon(lambda: answers(server))
        said = ask(server, address)
        assert said.split()[1] == expected, said
        assert ("only trusted proxies" in said) == (expected == "403")
        # Who is on this machine is served.
        assert ask(server, "127.0.0.1").split()[1] == "200"
        server.kill()


def answers(server):
    try:
        return server.get("/readyz")[0] == 200
    except OSError:
        return False


def audited(server, *parts):
    """Whether a line of the audit log has all of these."""
    lines = [line for line in server.whole_log().splitlines() if " audit" in line]
    return any(all(part in line for part in parts) for line in lines)


def test_each_change_of_keys_and_sessions_is_audited(guard):
    server = guard().start()
    made = server.call(server.admin, "key.create", name="shop", rights=ALL, act_as=["shop-*"])
    server.call(server.admin, "key.list")
    server.call(server.admin, "session.revoke", user="eve")
    # A key that acts for a user, whatever it does; and one that may not.
    server.call(made["key"], "message.append", acting="shop-1", timeline="orders", entry={"canary": "canary"})
    assert server.rpc(made["key"], "message.range", acting="ann", timeline="orders")[0] == 403
    with server.open(made["key"]) as client:
        with pytest.raises(Refused):
            client.call("session.open", user="ben")
    with server.open(token("ann")) as client:
        session = client.call("session.open")["session"]
        server.call(server.admin, "session.close", session=session)
    server.call(server.admin, "key.revoke", id=made["id"])
    for method, params in [("key.create", {"name": "x", "rights": []}), ("key.revoke", {"id": made["id"]}), ("session.revoke", {"user": "bob"})]:
        with pytest.raises(Refused):
            server.call(token("eve2"), method, **params)
    admin, shop = f"$key/admin {server.admin[3:15]}", f"$key/shop {made['id']}"
    for parts in [
        (admin, "key.create", "127.0.0.1", '"shop"', "ok"),
        (admin, "key.list", "ok"),
        (admin, "session.revoke", '"eve"', "ok"),
        (admin, "session.close", session, "ok"),
        (admin, "key.revoke", made["id"], "ok"),
        (shop, "message.append", "shop-1", "orders", "ok"),
        (made["id"], '"ann"', "127.0.0.1", "forbidden"),
        (made["id"], '"ben"', "127.0.0.1", "forbidden"),
        ("eve2", "key.create", "forbidden"),
        ("eve2", "key.revoke", "forbidden"),
        ("eve2", "session.revoke", "forbidden"),
    ]:
        assert audited(server, *parts), parts
    assert not audited(server, "canary")


def test_each_call_of_a_key_that_acts_is_audited_on_every_way(guard):
    server = guard(before='trusted_proxies = ["127.0.0.0/8"]\n').start()
    made = server.call(server.admin, "key.create", name="shop", rights=ALL, act_as=["shop-*"])
    shop, admin = f"$key/shop {made['id']}", f"$key/admin {server.admin[3:15]}"
    with server.open(made["key"]) as client:
        client.append("own")
        client.call("session.open", user="shop-1")
        client.append("orders", {"canary": "canary"})
        client.call("message.append_batch", timeline="orders", messages=[{"entry": {"canary": 1}}] * 2)
        client.call("subscribe", timeline="orders")
        client.call("unsubscribe", timeline="orders")
        with pytest.raises(Refused):
            client.append("orders", expect_head=77)
        with pytest.raises(Refused):
            client.call("stream.open", timelines="orders")
    with server.open(server.admin) as client:
        client.call("stream.open", timelines="orders")
    told = {"Tideline_User": "shop-2", "X_Forwarded_For": "192.0.2.7"}
    with Stream(server, "timeline=orders&after=0", bearer=made["key"], **told) as stream:
        assert stream.wait("subscribed")
    blind = server.call(server.admin, "key.create", name="blind", rights=[], act_as=["shop-*"])
    with Stream(server, "timeline=orders&after=0", bearer=blind["key"], **told) as stream:
        assert stream.status == 404
    for parts in [
        (shop, "shop-1", "127.0.0.1", '"message.append"', '"orders"', '"ok"'),
        (shop, "shop-1", '"message.append_batch"', '"orders"', '"ok"'),
        (shop, "shop-1", '"subscribe"', '"orders"', '"ok"'),
        (shop, "shop-1", '"unsubscribe"', '"orders"', '"ok"'),
        (shop, "shop-1", '"message.append"', "condition_failed"),
        (shop, "shop-1", '"stream.open"', '"forbidden"'),
        (admin, '"stream.open"', '"ok"'),
        (shop, "shop-2", "192.0.2.7", '"subscribe"', '"orders"', '"ok"'),
        (blind["id"], "shop-2", "192.0.2.7", '"subscribe"', '"orders"', "timeline_not_found"),
    ]:
        soon(lambda: audited(server, *parts))
    assert not audited(server, '"own"') and not audited(server, "canary") and not audited(server, "not_answered")


def test_a_change_whose_caller_hangs_up_is_audited(guard):
    server = guard().start()
    made = server.call(server.admin, "key.create", name="shop", rights=ALL)
    with server.open(server.admin) as client:
        # The call and the goodbye at once: nobody waits for the answer.
        protocol = client.socket.protocol
        call = {"jsonrpc": "2.0", "id": 1, "method": "key.revoke", "params": {"id": made["id"]}}
        protocol.send_text(json.dumps(call).encode())
        protocol.send_close(1000)
        client.socket.socket.sendall(b"".join(protocol.data_to_send()))
        soon(lambda: server.rpc(made["key"], "ping")[0] == 401)
    soon(lambda: audited(server, "$key/admin", '"key.revoke"', made["id"], '"not_answered"'))


def test_a_batch_that_takes_its_own_key_back_is_answered(guard):
    server = guard().start()
    made = server.call(server.admin, "key.create", name="one", rights=[{"on": "*", "allow": ["admin"]}])
    calls = [("key.revoke", {"id": made["id"]}), ("key.list", {})]
    body = json.dumps([{"jsonrpc": "2.0", "id": method, "method": method, "params": params} for method, params in calls])
    headers = {"content-type": "application/json", "authorization": f"Bearer {made['key']}"}
    status, _, said = server.http("POST", "/v1/rpc", body, headers)
    assert status == 200, said
    done, listed = json.loads(said)
    assert done["result"] == {"revoked": True}
    # What is read after that is not told.
    assert listed["error"]["data"]["reason"] == "unauthenticated"
    assert server.rpc(made["key"], "ping")[0] == 401


@pytest.mark.parametrize("how", ["url", "file"])
def test_the_keys_of_before_count_until_another_place_has_answered(guard, how):
    old, new = Ed25519("old"), Ed25519("new")
    before, after, server = Issuer(), Issuer(), guard()
    failed = lambda: server.metric("tideline_jwks_fetches_total", '{result="failed"}')
    published = lambda *keys: json.dumps({"keys": [key.jwk() for key in keys]}).encode()
    try:
        before.body = published(old)
        setting = before.setting
        if how == "file":
            path = os.path.join(server.directory, "set.json")
            with open(path, "wb") as file:
                file.write(before.body)
            setting = f'jwks_file = "{path}"'
        server.configure(setting)
        server.start()
        soon(lambda: server.rpc(old.token(), "ping")[0] == 200)
        with server.open(old.token()) as client:
            after.status, after.body = 503, published(new)
            server.reconfigure(after.setting)
            soon(lambda: failed() > 0)
            client.call("ping")
            assert server.rpc(old.token(), "ping")[0] == 200
            # What has not come yet is not known yet.
            assert server.rpc(new.token(), "ping")[0] == 503
            after.status = 200
            server.reconfigure(after.setting + "\njwks_refresh_s = 3600")
            closed(client)
        soon(lambda: server.rpc(new.token(), "ping")[0] == 200)
        assert server.rpc(old.token(), "ping")[0] == 401
    finally:
        before.close()
        after.close()


def test_a_header_names_users_in_any_letters(guard, server):
    guarded = guard().start()
    key = guarded.call(guarded.admin, "key.create", name="shop", rights=ALL, act_as=["*"])["key"]
    for asked, bearer in [(server, None), (guarded, key)]:
        status, _, said = asked.rpc(bearer, "session.open", acting="zoë-東京".encode())
        assert status == 200 and json.loads(said)["result"]["user"] == "zoë-東京"
        assert asked.rpc(bearer, "session.open", acting=b"zo\xeb")[0] in (400, 403)


def test_what_is_revoked_is_revoked_before_it_is_answered(guard):
    """The process is killed with the answer, again and again."""
    server = guard().start()
    for number in range(4):
        made = server.call(server.admin, "key.create", name="shop", rights=ALL)
        user, old = f"user-{number}", token(f"user-{number}")
        assert server.rpc(made["key"], "ping")[0] == server.rpc(old, "ping")[0] == 200
        if number % 2:
            server.call(server.admin, "key.revoke", id=made["id"])
        else:
            server.call(server.admin, "session.revoke", user=user)
        server.restart(signal.SIGKILL)
        expected = (401, 200) if number % 2 else (200, 401)
        assert (server.rpc(made["key"], "ping")[0], server.rpc(old, "ping")[0]) == expected


def test_an_administrator_sees_the_sessions_of_keys(guard):
    server = guard().start()
    made = server.call(server.admin, "key.create", name="shop", rights=ALL, act_as=["shop-*"])
    with server.open(made["key"]) as own, server.open(made["key"], user="shop-1") as acting, server.open(token("ann")) as ann:
        sessions = [client.call("session.open")["session"] for client in (own, acting, ann)]
        listed = {one["session"]: one for one in server.call(server.admin, "session.list")["sessions"]}
        assert set(sessions) <= set(listed)
        assert [listed[session].get("key") for session in sessions] == [made["id"], made["id"], None]
        assert [listed[session].get("user") for session in sessions] == [None, "shop-1", "ann"]
        assert made["key"][-43:] not in json.dumps(listed)
        # Others see their own alone.
        assert {one["session"] for one in ann.call("session.list")["sessions"]} == {sessions[2]}
        assert sessions[2] not in json.dumps(own.call("session.list"))


def test_hidden_timelines_cost_a_list_nothing(guard):
    """Far more of them than a page looks at (4,096) lie between two that may be read; one page has both, and no other name."""
    server = guard(auth='[[policy]]\nprefix = "hidden/"\nmembers_only = true').start()
    with server.open(server.admin) as client:
        names = ["a/seen", *(f"hidden/{number:05}" for number in range(20_000)), "z/seen"]
        for first in range(0, len(names), 200):
            asked = [client.ask("timeline.create", timeline=name) for name in names[first : first + 200]]
            for number in asked:
                client.take(number)
    rights = [{"on": on, "allow": ["read"]} for on in ("a/*", "z/*")]
    listed = lambda **page: server.call(token("eve", rights=rights), "timeline.list", **page)
    page = listed(limit=2)
    assert [one["timeline"] for one in page["timelines"]] == ["a/seen", "z/seen"] and page.get("next") is None
    assert listed(limit=1)["next"] == "a/seen"
    assert listed(prefix="hidden/") == {"timelines": []}
    # Who may read them all but for their setting passes over so many in each page, and learns no name either.
    pages = [server.call(who("ida", "read", on="*"), "timeline.list")]
    while "next" in pages[-1]:
        pages.append(server.call(who("ida", "read", on="*"), "timeline.list", after=pages[-1]["next"]))
    assert [one["timeline"] for page in pages for one in page["timelines"]] == ["a/seen", "z/seen"]
    nexts = [page["next"] for page in pages[:-1]]
    assert nexts and all("hidden" not in one and len(one) < 512 for one in nexts)
    with pytest.raises(Refused) as refused:
        server.call(who("ida", "read", on="*"), "timeline.list", after=f"{[one for one in nexts if one[0] == '$'][0][:-2]}AA")
    assert refused.value.data["field"] == "after"
    # A twin that may read them has to go through them all.
    page = server.call(server.admin, "timeline.list", limit=1_000)
    assert len(page["timelines"]) > 100 and page["next"] == page["timelines"][-1]["timeline"]


def secrets_of(path):
    """The lines of a PEM file that hold the key."""
    with open(path) as file:
        return [line for line in file.read().splitlines() if not line.startswith("-----")]


def canary_server(guard, tmp_path, environment=None):
    """A server with TLS, a webhook, signing keys and tokens; what of it no one may see."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    webhook = base64.b64encode(b"canary-of-the-webhook-0123456789").decode()
    server = guard(tls=authority.client())
    server.secret_file("webhook.secret", f"whsec_{webhook}".encode())
    server.environment = environment or {}
    server.before = (
        f'log = "debug"\n[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n'
        f'[[webhook]]\nname = "search"\nurl = "http://127.0.0.1:9/"\nsecret_file = "{tmp_path}/webhook.secret"\ntimelines = ""\n'
    )
    server.configure("")
    signing = server.key("create", "tables", "--allow", "*=admin", "--signing")
    secrets = [*secrets_of(key), webhook, SECRET.decode(), server.admin[-43:], signing[-43:]]
    return server, authority, signing, secrets


def test_a_canary_is_in_no_command_either(guard, tmp_path):
    """Beside test_a_canary_is_nowhere: the key of TLS, webhooks, export, doctor, and commands that ask a server."""
    server, authority, signing, secrets = canary_server(guard, tmp_path)
    server.start()
    seen = []

    def run(*command, **environment):
        done = subprocess.run([server.binary, *command], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
        seen.extend([done.stdout, done.stderr])
        return done

    admin = server.admin
    # One character off: no key, but what it is must not be told either.
    wrong = admin[:-1] + ("a" if admin[-1] != "a" else "b")
    plain = server.call(admin, "key.create", name="plain", rights=ALL)["key"]
    asked = ["--url", server.origin, "--ca-file", authority.file]
    unknown = ["--url", server.origin]
    nobody = ["--url", "http://127.0.0.1:9"]
    for key, code in [(admin, 0), (wrong, 1), (plain, 1), (f"{wrong}\n{wrong}", 1)]:
        assert run("key", "list", *asked, TIDELINE_KEY=key).returncode == code
        assert run("partition", "list", *asked, TIDELINE_KEY=key).returncode == code
        for where in (unknown, nobody):
            assert run("key", "list", *where, TIDELINE_KEY=key).returncode == 1
            assert run("partition", "list", *where, TIDELINE_KEY=key).returncode == 1
        assert run("partition", "split", "77", *asked, TIDELINE_KEY=key).returncode == 1
        assert run("key", "revoke", "nothing", *asked, TIDELINE_KEY=key).returncode in (0, 1)
    server.call(admin, "message.append", timeline="t", entry={"a": 1})
    export = ["export", "timeline_message", "--server", server.origin, "--ca-file", authority.file, "--key-id", signing[3:15]]
    assert run(*export, TIDELINE_KEY_SECRET=signing[-43:]).returncode == 0
    assert run(*export, TIDELINE_KEY_SECRET=wrong[-43:]).returncode == 1
    run("export", "--help", TIDELINE_KEY_SECRET=signing[-43:])
    # A certificate and a key that do not fit each other, and secrets that others can read: the log and the doctor say so.
    run("doctor", server.data, "--config", server.config_path)
    tls_key = os.path.join(tmp_path, "server.key")
    other = authority.issue("other")
    shutil.copy(other[1], tls_key)
    server.process.send_signal(signal.SIGHUP)
    soon(lambda: server.metric("tideline_certificate_unfit") == 1)
    for name in ["server.key", "webhook.secret", "main.key"]:
        os.chmod(os.path.join(tmp_path, name), 0o644)
    assert run("doctor", server.data, "--config", server.config_path, "--json").returncode == 1
    assert run("config", "--config", server.config_path).returncode in (0, 1)
    seen.append(json.dumps(server.call(admin, "webhook.list")))
    seen.append(server.get("/metrics", {"authorization": f"Bearer {admin}"})[2].decode())
    server.stop()
    # Nor where a start is refused.
    assert run("serve", "--data", server.data, "--config", server.config_path).returncode == 1
    seen.append(server.whole_log())
    secrets += [*secrets_of(other[1]), wrong[-43:], plain[-43:]]
    for text in seen:
        for secret in secrets:
            assert secret not in text
