"""A node that follows passes HTTP and WebSockets on to the owner, so that any address serves.

docs/CLUSTER.md: every door is the same door, whichever node is called; what was sent and not answered is never said to be
undone; while nobody owns the log calls wait.
"""

import asyncio
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from centrifuge_wire import Peer
from certificates import Authority
from client import Client, filler
from clustered import Cluster, Writer, faults, messages, soon
from guarded import SECRET, closed, token
from tables import one_key_table, signed
from test_events import Stream

sys.path.append(str(pathlib.Path(__file__).parents[2] / "clients/python"))
import tideline  # noqa: E402


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Its owner is n1, and n2 follows."""
    with Cluster(tmp_path_factory.mktemp("passed"), "entry_bytes_max = 1048576\ncentrifuge = { client = { insecure = true } }") as made:
        made.start().first()
        soon(lambda: all(node.passes() for node in made.nodes))
        yield made


def source(node, address):
    """A connection from an address of this machine."""
    return http.client.HTTPConnection("127.0.0.1", node.port, timeout=60, source_address=(address, 0))


def whole(node, place):
    """All pages of a durable stream."""
    body, after = b"", "-1"
    while True:
        status, headers, page = node.get(f"{place}?offset={after}")
        assert status == 200
        body, after = body + page, headers["Stream-Next-Offset"]
        if headers.get("Stream-Up-To-Date") == "true":
            return body


def reason(answer):
    return json.loads(answer)["error"]["data"]["reason"]


def test_each_protocol_passes_a_standby(cluster):
    n1, n2, _ = cluster.nodes
    assert b"node n2 follows; the owner is n1" in n2.get("/readyz")[2]
    status, _, body = n2.rpc(None, "message.append", timeline="t", entry={"text": "x"})
    assert status == 200 and json.loads(body)["result"]["sequence"] == 1
    assert json.loads(n2.rpc(None, "server.status")[2])["result"]["cluster"]["node"] == "n1"
    for packed in [False, True]:
        with Client(n2, packed=packed) as client:
            assert client.call("subscribe", timeline="t", after=0)["messages"][0]["entry"] == {"text": "x"}
            n1.rpc(None, "message.append", timeline="t", entry={"text": "x"})
            assert client.messages("t", 1)[0]["entry"] == {"text": "x"}
    with Stream(n2, "timeline=t&after=0") as stream:
        assert stream.next().data["timelines"]["t"]["messages"][0]["sequence"] == 1
        n1.rpc(None, "message.append", timeline="t", entry={"text": "y"})
        assert stream.wait("message").data["messages"][0]["entry"] == {"text": "y"}
    status, _, body = signed(n2, "CreateTable", "development", "development", one_key_table("one"))
    assert status == 200, body
    assert signed(n2, "ListTable", "development", "development")[2] == signed(n1, "ListTable", "development", "development")[2]
    assert signed(n2, "ListTable", "development", "another")[0] == 403
    with Peer(n2) as peer:
        assert peer.result(subscribe={"channel": "c"}) is not None
    # Pages and figures are the node's own.
    assert n2.get("/console/")[0] == 200 and n2.metric("tideline_cluster_owner") == 0
    assert n2.get("/nothing")[0] == 404


def test_a_large_body_passes_both_ways_and_one_too_large_is_refused_alike(cluster):
    n1, n2, _ = cluster.nodes
    text = {"Content-Type": "text/plain"}
    for node in [n1, n2]:
        place = f"/v1/stream/large-{node.port}"
        assert node.http("PUT", place, headers=text)[0] == 201
        data = filler(700_000).encode()
        for _ in range(4):
            assert node.http("POST", place, data, text)[0] == 204
        assert whole(node, place) == 4 * data
        chunks = (data[at : at + 10_000] for at in range(0, len(data), 10_000))
        assert node.http("POST", place, chunks, text)[0] == 204
        for large in [bytes(9 << 20), (bytes(1 << 20) for _ in range(9))]:
            assert node.http("POST", place, large, text)[0] == 413
    # A reader that waits for what comes next.
    offset = n2.get(f"{place}?offset=now")[1]["Stream-Next-Offset"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waits = pool.submit(n2.get, f"{place}?offset={offset}&live=long-poll")
        time.sleep(0.3)
        assert n1.http("POST", place, b"next", text)[0] == 204
        assert waits.result()[2] == b"next"
    # Several requests on one connection, the standby's own pages among them.
    connection = source(n2, "127.0.0.1")
    for path in ["/healthz", place, "/metrics", place, "/v1/cluster", place]:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200 and len(answer.read()) > 1


def test_nobody_but_a_node_says_whose_connection_it_is(cluster):
    n1, n2, _ = cluster.nodes

    def challenged(node):
        stranger = socket.create_connection(("127.0.0.1", node.port), timeout=60)
        stranger.sendall(b"GET /v1/cluster/pass HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: tideline-pass\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += stranger.recv(4096)
        return stranger, head

    stranger, head = challenged(n1)
    assert head.startswith(b"HTTP/1.1 101 ") and b"tideline-challenge: " in head
    said = json.dumps({"node": "n2", "client": "192.0.2.1", "local": "127.0.0.1", "is_secure": True, "certificates": ["admin"]}).encode()
    stranger.sendall(struct.pack(">I", len(said)) + said + bytes(32) + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert stranger.recv(4096) == b""
    soon(lambda: "refused a connection that is no node's" in n1.whole_log())
    # A standby passes nothing on for another one, and no second time.
    stranger, head = challenged(n2)
    assert head.startswith(b"HTTP/1.1 404 ")


def test_an_owner_that_is_killed_amid_calls(tmp_path):
    with Cluster(tmp_path, "centrifuge = { client = { insecure = true } }") as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        soon(lambda: n2.passes() and n3.passes())
        n2.rpc(None, "message.append", timeline="t", entry={"n": 1})
        status, _, body = signed(n2, "CreateTable", "development", "development", one_key_table("one"))
        assert status == 200, body
        n2.http("PUT", "/v1/stream/s", headers={"Content-Type": "text/plain"})
        offset = n2.get("/v1/stream/s")[1]["Stream-Next-Offset"]
        native, peer = Client(n2), Peer(n2)
        stream = socket.create_connection(("127.0.0.1", n2.port), timeout=60)
        stream.sendall(b"GET /v1/events?timeline=t&after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        said = b""
        while b"event: subscribed" not in said:
            said += stream.recv(4096)
        # Nothing is answered that the log has not taken.
        for process in cluster.nats.values():
            process.send_signal(signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            append = pool.submit(n2.rpc, None, "message.append", timeline="t", entry={"n": 2})
            table = pool.submit(signed, n2, "CreateTable", "development", "development", one_key_table("two"))
            waits = pool.submit(n2.get, f"/v1/stream/s?offset={offset}&live=long-poll")
            time.sleep(1)
            n1.kill()
            status, _, body = append.result()
            assert (status, reason(body)) == (503, "outcome_unknown")
            status, _, body = table.result()
            assert status == 503 and b"OTSTimeout" in body
            status, _, body = waits.result()
            assert (status, reason(body)) == (503, "unavailable")
        closed(native, 4002)
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                peer.socket.recv(60)
        assert caught.value.rcvd.code == 3001
        with contextlib.suppress(ConnectionResetError):
            while stream.recv(4096):
                pass
        for process in cluster.nats.values():
            process.send_signal(signal.SIGCONT)
        # Calls wait for the next owner.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = [pool.submit(node.rpc, None, "message.append", timeline="t", entry={"n": 3}) for node in cluster.nodes[1:]]
            time.sleep(0.5)
            cluster.run("take-over", "n2", "--config", cluster.config)
            assert [wait.result()[0] for wait in waits] == [200, 200]


def test_a_hand_over_is_no_error_for_calls_of_http(tmp_path):
    with Cluster(tmp_path) as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        soon(lambda: n2.passes() and n3.passes())
        # The node that hands over has clients, the one that takes over, and one that never owns.
        writers = [Writer(node, "t", name) for node, name in zip([n1, n1, n2, n2, n3, n3], "abcdef")]
        for name in ["n2", "n1"]:
            for writer in writers:
                writer.has(len(writer.acknowledged) + 10)
            cluster.take_over(name, "--force")
        for writer in writers:
            writer.has(len(writer.acknowledged) + 10)
            writer.end()
        assert [(writer.reasons, writer.unknown) for writer in writers] == [([], [])] * 6
        found, _ = messages(n2, "t")
        assert faults(found, writers) == []


def test_a_hand_over_is_no_error_for_a_client_of_ours(tmp_path):
    """It keeps to one node's address, whether that owns the log, takes over, ends and is started again, or never owns it."""
    with Cluster(tmp_path, take_over="by itself") as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        soon(lambda: n2.passes() and n3.passes())

        def hand_overs():
            yield cluster.take_over("n2", "--force")
            n2.stop()
            n2.start()
            soon(n2.passes)
            owner = cluster.owner()
            yield cluster.command("drain", f"n{cluster.nodes.index(owner) + 1}", "--config", cluster.config)
            yield cluster.owner_but(owner)

        asyncio.run(asyncio.wait_for(amid(cluster.nodes, tmp_path, hand_overs()), 180))


async def amid(nodes, directory, steps):
    """Takes the steps, between which a client at each of the nodes appends and reads."""
    sent, read = [[] for _ in nodes], [[] for _ in nodes]

    async def write(client, sent):
        while True:
            sent.append((await client.append("t", {"n": len(sent)}))["sequence"])

    async def follow(subscription, read):
        async for event in subscription:
            if event.kind == "message":
                read.append(event.message["sequence"])

    async def more():
        counts = [len(one) + 10 for one in [*sent, *read]]
        while any(len(one) < count for one, count in zip([*sent, *read], counts)):
            ended = [task.exception() for task in tasks if task.done()]
            assert not ended, ended
            await asyncio.sleep(0.05)

    async with contextlib.AsyncExitStack() as stack:
        tasks = []
        for number, node in enumerate(nodes):
            url, store = f"ws://127.0.0.1:{node.port}/v1/connect", str(directory / f"client-{number}.db")
            client = await stack.enter_async_context(tideline.Client(url, user=f"u{number}", store=store, delay_s=(0.1, 0.5)))
            subscription = await client.subscribe("t")
            tasks += [asyncio.create_task(write(client, sent[number])), asyncio.create_task(follow(subscription, read[number]))]
        await more()
        while await asyncio.to_thread(next, steps, True) is not True:
            await more()
        await more()
        for task in tasks:
            task.cancel()
    numbers = sorted(number for one in sent for number in one)
    assert len(set(numbers)) == len(numbers) and numbers[-1] - numbers[0] < len(numbers) + len(nodes)
    assert all(one == list(range(one[0], one[0] + len(one))) for one in read)


def test_a_hand_over_refuses_nothing_that_came_over_a_websocket(tmp_path):
    """Not what had begun, which is answered, nor what comes meanwhile, which has no answer before 4002."""
    with Cluster(tmp_path, take_over="by itself") as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        soon(lambda: n2.passes() and n3.passes())
        n1.rpc(None, "message.append", timeline="t", entry={"name": "first"})
        talkers = [Talker(node, f"{name}{number}") for name, node in zip("abc", cluster.nodes) for number in range(3)]

        def go_on():
            counts = [len(talker.acknowledged) + 50 for talker in talkers]
            soon(lambda: all(len(talker.acknowledged) >= count for talker, count in zip(talkers, counts)))

        for step in ["stop", "drain", "take-over"] * 2:
            go_on()
            owner = cluster.owner()
            name, other = (f"n{(cluster.nodes.index(owner) + more) % 3 + 1}" for more in [0, 1])
            if step == "stop":
                owner.stop()
                owner.start()
                soon(owner.passes)
            elif step == "drain":
                cluster.command("drain", name, "--config", cluster.config)
                cluster.owner_but(owner)
                cluster.command("undrain", name, "--config", cluster.config)
            else:
                cluster.take_over(other, "--force")
        go_on()
        for talker in talkers:
            talker.end()
        assert [talker.errors for talker in talkers] == [[]] * len(talkers)
        assert {code for talker in talkers for code in talker.closed} == {4002}
        # There are others who serve, and few who come.
        away_ms = [ms for talker in talkers for ms in talker.away_ms]
        assert away_ms and max(away_ms) < 100, away_ms
        found, _ = messages(n2, "t")
        assert [sequence for _, sequence in found] == list(range(1, len(found) + 1))
        names = {name for name, _ in found}
        assert len(names) == len(found) and all(talker.acknowledged <= names for talker in talkers)


class Talker(threading.Thread):
    """Many appends on their way over one WebSocket, pages, and two calls of `sync` that wait, one of them for what all write.
    What has no answer when it is closed is sent again, by its message ID."""

    def __init__(self, node, prefix):
        super().__init__(daemon=True)
        self.node, self.prefix = node, prefix
        self.acknowledged, self.errors, self.closed, self.away_ms = set(), [], [], []
        self.ends = threading.Event()
        self.unanswered, self.names = {}, (f"{prefix}-{number}" for number in itertools.count())
        self.start()

    def run(self):
        while not self.ends.is_set():
            try:
                # The library reads no goodbye behind what nobody reads.
                with Client(self.node, close_timeout=0.1) as client:
                    self.talk(client)
            except ConnectionClosed as closed:
                self.closed.append(closed.rcvd and closed.rcvd.code)
            except (OSError, InvalidHandshake):
                # It has stopped, and is started again.
                time.sleep(0.05)

    def talk(self, client):
        asked = {client.ask("message.append", **params): params for params in self.unanswered.values()}
        since = dict.fromkeys(asked, time.monotonic())
        others, head = {}, 0
        while not self.ends.is_set():
            for what, method, params in [
                ("page", "message.range", {"timeline": "t", "from": 1, "limit": 20}),
                ("quiet", "sync", {"positions": {f"quiet-{self.prefix}": 0}, "wait_ms": 20_000}),
                ("busy", "sync", {"positions": {"t": head}, "limit": 1, "wait_ms": 20_000}),
            ]:
                if what not in others.values():
                    others[client.ask(method, **params)] = what
                    since[client.number] = time.monotonic()
            while len(asked) < 32:
                name = next(self.names)
                params = self.unanswered[name] = {"timeline": "t", "entry": {"name": name}, "message_id": name}
                asked[client.ask("message.append", **params)] = params
                since[client.number] = time.monotonic()
            said = client.receive()
            if "error" in said:
                took, what = time.monotonic() - since[said["id"]], others.get(said["id"], "append")
                # So long the owner waits for calls that do not wait themselves.
                if took < 0.5 or what in ["quiet", "busy"]:
                    self.errors.append((took, what, said))
            if said.get("method") == "draining":
                self.away_ms.append(said["params"]["reconnect_in_ms"])
            others.pop(said.get("id"), None)
            params = asked.pop(said.get("id"), None)
            if params and "result" in said:
                self.acknowledged.add(params["message_id"])
                self.unanswered.pop(params["message_id"])
                head = max(head, said["result"]["sequence"])

    def end(self):
        self.ends.set()
        self.join(60)
        assert not self.is_alive()


def test_the_same_door(tmp_path):
    secret = tmp_path / "main.key"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    settings = (
        'trusted_proxies = ["127.0.0.2"]\n[limits]\naddress = { connections = 2, failures_per_min = 3 }\n'
        f'[auth]\nissuer = "me"\naudience = ["chat"]\nhs256_secret_files = ["{secret}"]\n'
    )
    with Cluster(tmp_path, settings) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        soon(n2.passes)
        bearer = {"authorization": f"Bearer {token()}", "content-type": "application/json"}

        def ask(address, headers, method="session.revoke", **params):
            connection = source(n2, address)
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            connection.request("POST", "/v1/rpc", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

        # The log says from where a call has come, and a header is believed from a proxy only.
        forwarded = {"x-forwarded-for": "192.0.2.9"}
        for address, more, shown in [("127.0.0.5", {}, "127.0.0.5"), ("127.0.0.6", forwarded, "127.0.0.6"), ("127.0.0.2", forwarded, "192.0.2.9")]:
            ask(address, {**bearer, **more}, user="bob")
            soon(lambda: f"from={shown}" in n1.whole_log() or f'from":"{shown}"' in n1.whole_log())
        # Credentials that are refused count for the address.
        said = [ask("127.0.0.7", {**bearer, "authorization": "Bearer x"})[0] for _ in range(5)]
        assert said == [401] * 3 + [429] * 2
        assert ask("127.0.0.8", {**bearer, "authorization": "Bearer x"})[0] == 401
        # So do connections.
        held = [source(n2, "127.0.0.9") for _ in range(3)]
        statuses = []
        for connection in held:
            connection.request("POST", "/v1/rpc", b"{}", bearer)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        assert statuses == [200, 200, 429]


def test_limits_of_addresses_hold_for_who_runs_beside_a_node(tmp_path):
    with Cluster(tmp_path, "[limits]\naddress = { connections = 2 }\n") as cluster:
        n1, n2, _ = cluster.start().first().nodes
        soon(n2.passes)

        def statuses(node, address, count):
            held = [source(node, address) for _ in range(count)]
            said = []
            for connection in held:
                connection.request("GET", "/v1/stream/none")
                answer = connection.getresponse()
                answer.read()
                said.append(answer.status)
            return held, said

        # From where the nodes are, straight to the owner.
        held, said = statuses(n1, "127.0.0.1", 4)
        assert said == [404, 404, 429, 429]
        # What nodes ask of each other has its own way, and keeps no connection.
        for _ in range(2):
            idle = source(n1, "127.0.0.1")
            idle.request("GET", "/readyz")
            answer = idle.getresponse()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        passed, said = statuses(n2, "127.0.0.3", 3)
        assert said == [404, 404, 429]
        # A connection that a client has left makes room.
        for connection in held:
            connection.close()
        soon(lambda: statuses(n1, "127.0.0.1", 1)[1] == [404])


def test_a_connection_outlasts_the_patience_of_an_owner_with_clients(tmp_path):
    with Cluster(tmp_path, own={"n1": "request_ms_max = 500"}) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        soon(n2.passes)

        def is_kept():
            connection, used = source(n2, "127.0.0.1"), []
            for pause in [0, 1]:
                # As long as a client is idle.
                time.sleep(pause)
                connection.request("GET", "/v1/stream/none")
                answer = connection.getresponse()
                assert answer.status == 404 and answer.read()
                used.append(passing(n1))
            connection.close()
            return used[0] == used[1]

        # On a machine that does much else a client may be idle for too long.
        soon(is_kept)


def passing(owner):
    """The connections that an owner has, by their other ends."""
    with open(f"/proc/{owner.process.pid}/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    local = f"0100007F:{owner.port:04X}"
    return {row[2] for row in rows if row[1] == local and row[3] == "01"}


def test_a_standby_that_is_told_to_end_answers_what_it_has_passed_on(tmp_path):
    with Cluster(tmp_path) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        soon(n2.passes)
        assert n2.rpc(None, "message.append", timeline="t", entry={"n": 1})[0] == 200
        for process in cluster.nats.values():
            process.send_signal(signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            append = pool.submit(n2.rpc, None, "message.append", timeline="t", entry={"n": 2})
            soon(lambda: passing(n1))
            n2.process.send_signal(signal.SIGTERM)
            soon(lambda: n2.said()[0] is None)
            for process in cluster.nats.values():
                process.send_signal(signal.SIGCONT)
            assert append.result()[0] == 200
        assert n2.process.wait(60) == 0


def test_nodes_pass_on_by_tls_and_say_the_names_of_a_clients_certificate(tmp_path):
    authority, people = Authority(tmp_path), Authority(tmp_path, "people")
    certificate, key = authority.issue("server")
    settings = (
        f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\nclient_ca_file = "{people.file}"\n'
        '[auth]\nissuer = "me"\naudience = ["chat"]\n'
    )
    with Cluster(tmp_path, settings, tls=authority.client(), more=f'nodes_ca_file = "{authority.file}"\n') as cluster:
        n1, n2, _ = cluster.start().first().nodes
        soon(n2.passes)
        words = [cluster.binary, "key", "create", "first", "--bootstrap", "--data", n1.data]
        admin = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        bound = json.loads(n2.rpc(admin, "key.create", name="bound", certificate="back-end", rights=[{"on": "*", "allow": ["append", "create", "read"]}])[2])
        bound = bound["result"]["key"]
        names = {"back-end": 200, "other": 401, None: 401}
        for name, expected in names.items():
            pair = name and people.issue(name, of_client=True)
            n2.tls = authority.client(pair)
            assert n2.rpc(bound, "message.append", timeline="t", entry={"by": name})[0] == expected
            with contextlib.ExitStack() as stack:
                if expected == 200:
                    client = stack.enter_context(Client(n2, additional_headers={"Authorization": f"Bearer {bound}"}))
                    assert client.call("subscribe", timeline="t", after=0)["messages"][0]["entry"] == {"by": name}
