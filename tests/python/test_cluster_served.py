"""A cluster of three real nodes over three real NATS servers, and a person who has one of them own the log.

docs/CLUSTER.md: what was acknowledged is there once and in order at each owner that follows, a standby serves no call and
says who does, and an owner that was deposed while it lives acknowledges nothing more.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from client import Client
from clustered import Cluster, Writer, faults, messages, soon
from guarded import SECRET, closed, list_tables, token
from issuer import Ed25519, Issuer


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as made:
        yield made.start().first()


@pytest.fixture
def issuer():
    made = Issuer()
    yield made
    made.close()


def test_a_person_has_another_node_take_over(cluster):
    n1, n2, n3 = cluster.nodes
    assert "n1 owns the log already" in cluster.command("take-over", "n1", "--config", cluster.config)
    cluster.command("check", "--config", cluster.config)

    _, _, body = n1.rpc(None, "server.status")
    now = json.loads(body)["result"]["cluster"]
    assert (now["name"], now["node"], now["owner"], now["term"], now["lag"]) == ("chat", "n1", "n1", 1, 0)

    # A standby says who owns it; what it passes on is in test_cluster_passed.py.
    soon(n2.passes)
    assert b"node n2 follows; the owner is n1, at " + n1.origin.encode() in n2.get("/readyz")[2]
    assert n2.get("/console/")[0] == 200
    assert n2.get("/v1/clusterx")[0] == n1.get("/v1/clusterx")[0] == 404
    assert n2.metric("tideline_cluster_owner") == 0 and n1.metric("tideline_cluster_owner") == 1

    # The owner is killed amid writes, and comes back as a standby once another one owns the log.
    first = Writer(n1, "t", "first")
    first.has(50)
    refused = cluster.run("take-over", "n2", "--config", cluster.config)
    assert refused.returncode == 1 and "n1 owns the log and lives" in refused.stderr
    n1.kill()
    first.end()
    checked = cluster.run("check", "--config", cluster.config)
    assert checked.returncode == 1 and "n1 does not answer" in checked.stderr, checked.stdout + checked.stderr
    assert "n2 owns the log, in term 2" in cluster.take_over("n2")
    found, epoch = messages(n2, "t")
    assert faults(found, [first]) == []
    second = Writer(n2, "t", "second")
    second.has(50)
    n1.start()
    soon(lambda: n1.status()["role"] == "follower" and n1.status()["owner"] == "n2")
    assert not n1.ready()

    # One that lives hands it over when it is told to; its connections are closed so that clients come again.
    with Client(n2) as client:
        client.call("ping")
        assert "n2 hands the log over" in cluster.take_over("n1", "--force")
        closed(client, 4002)
    second.end()
    third = Writer(n1, "t", "third")
    third.has(20)
    third.end()
    found, same = messages(n1, "t")
    assert faults(found, [first, second, third]) == [] and same == epoch

    # A message ID of before is known to an owner of after.
    name, sequence = first.acknowledged[-1]
    _, _, body = n1.rpc(None, "message.append", timeline="t", entry={"name": name}, message_id=name)
    assert json.loads(body)["result"] == {**json.loads(body)["result"], "sequence": sequence, "duplicate": True}
    soon(lambda: len({node.status()["applied"] for node in cluster.nodes}) == 1)

    # Partitions stay as they are.
    _, _, body = n1.rpc(None, "partition.split", partition=0)
    assert json.loads(body)["error"]["data"]["reason"] == "forbidden"


def role(node):
    try:
        return node.status()["role"]
    except OSError:
        return None


class Waits(threading.Thread):
    """Stands before a NATS server, and is silent to whoever comes after so many connections."""

    def __init__(self, behind, passes):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.behind, self.passes, self.kept = behind, passes, []
        self.is_waited_for = threading.Event()
        self.start()

    def run(self):
        while True:
            came, _ = self.listener.accept()
            self.kept.append(came)
            if len(self.kept) > self.passes:
                self.is_waited_for.set()
                continue
            nats = socket.create_connection(self.behind)
            for one, other in [(came, nats), (nats, came)]:
                threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    def copy(self, one, other):
        try:
            while more := one.recv(65536):
                other.sendall(more)
        except OSError:
            pass
        other.close()


@pytest.mark.parametrize("answers", [0, 1])
def test_a_node_that_waits_for_nats_hears_that_it_is_to_end(tmp_path, answers):
    """Where the stream begins is asked for first, then what its first frame says."""
    with Cluster(tmp_path) as cluster:
        node = cluster.nodes[0]
        host, port = json.loads(re.search(r"nats = (\[.*?\])", node.config)[1])[0].split(":")
        nats = Waits((host, int(port)), answers)
        node.config = re.sub(r"nats = \[.*?\]", f'nats = ["{nats.address}"]', node.config)
        node.write_config()
        command = [node.binary, "serve", "--config", node.config_path, "--data", node.data, "--listen", f"127.0.0.1:{node.port}"]
        node.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        assert nats.is_waited_for.wait(60)
        node.process.send_signal(signal.SIGTERM)
        # Without an answer within ten seconds it would end with an error.
        assert node.process.wait(60) == 0


def test_a_node_that_does_not_come_to_join_says_why(cluster):
    n3 = cluster.nodes[2]
    soon(lambda: n3.status()["role"] == "follower")
    assert n3.stop() == 0
    login = pathlib.Path(n3.directory, "other.login")
    login.write_text("node:" + 32 * "x" + "\n")
    login.chmod(0o600)
    n3.config = re.sub(r'nats_login_file = ".*?"', f'nats_login_file = "{login}"', n3.config)
    n3.start()
    reason = soon(lambda: "authorization" in (n3.status().get("reason") or "") and n3.status()["reason"])
    assert reason.startswith("there is no connection to NATS: "), reason
    assert f"({reason})" in cluster.run("status", "--config", cluster.config).stdout


def test_a_deposed_owner_that_wakes_acknowledges_nothing(cluster):
    n1, n2, _ = cluster.nodes
    first = Writer(n1, "t", "first")
    first.has(50)
    n1.process.send_signal(signal.SIGSTOP)
    cluster.take_over("n2")
    second = Writer(n2, "t", "second")
    second.has(50)
    n1.process.send_signal(signal.SIGCONT)
    soon(lambda: role(n1) == "follower")
    first.end(), second.end()
    found, _ = messages(n2, "t")
    assert faults(found, [first, second]) == []
    soon(lambda: n1.status()["applied"] == n2.status()["applied"])


def test_an_owner_that_is_started_again_owns_again(cluster):
    n1, n2, _ = cluster.nodes
    writer = Writer(n1, "t", "first")
    writer.has(20)
    n1.stop()
    writer.end()
    n1.start()
    soon(n1.ready)
    assert n1.status()["term"] == 2 and not n2.ready()
    found, _ = messages(n1, "t")
    assert faults(found, [writer]) == []


def test_an_owner_that_is_cut_off_is_not_ready(cluster):
    n1, n2, _ = cluster.nodes
    for process in cluster.nats.values():
        process.send_signal(signal.SIGSTOP)
    soon(lambda: not n1.ready())
    assert b"can it reach NATS?" in n1.get("/readyz")[2]
    soon(lambda: n2.status().get("notice"))
    checked = cluster.run("check", "--config", cluster.config)
    assert checked.returncode == 1 and "can it reach NATS?" in checked.stderr
    for process in cluster.nats.values():
        process.send_signal(signal.SIGCONT)
    soon(n1.ready)
    soon(lambda: cluster.run("check", "--config", cluster.config).returncode == 0)


def test_an_owner_that_stopped_for_good_waits_for_a_person(cluster):
    n1, _, _ = cluster.nodes
    cluster.delete_stream()
    # Its server ends, and it does not begin again by itself.
    soon(lambda: says(n1, b"restart it when that is mended"))
    reason = n1.status()["reason"]
    time.sleep(1)
    assert (n1.status()["role"], n1.status()["reason"]) == ("stopped", reason) and n1.status()["applied"] == 0
    n1.stop()


def says(node, words):
    try:
        return words in node.get("/readyz")[2]
    except OSError:
        return False


def test_what_a_cluster_is_made_of_is_made_once(cluster):
    again = cluster.run("create", "--config", cluster.config, "--login", cluster.directory / "nats" / "operator.login")
    assert again.returncode == 1 and "there is a stream TL_chat_0 already" in again.stderr
    by_node = cluster.run("create", "--config", cluster.config, "--login", cluster.directory / "nats" / "node.login")
    assert by_node.returncode == 1
    unknown = cluster.run("take-over", "n9", "--config", cluster.config)
    assert unknown.returncode == 1 and "n9 is no node of the cluster" in unknown.stderr


def test_settings_that_differ_are_found(tmp_path):
    with Cluster(tmp_path) as cluster:
        cluster.node("n3").config = "entry_bytes_max = 2048\n" + cluster.node("n3").config
        cluster.start().first()
        checked = cluster.run("check", "--config", cluster.config)
        assert checked.returncode == 1 and "limits is set otherwise on n" in checked.stderr
        soon(lambda: "limits is set otherwise on n3 than on n1" in (cluster.node("n1").status().get("warning") or ""))
        # What only an owner needs is looked at when a standby starts.
        n3 = cluster.node("n3")
        n3.stop()
        n3.config = f'{n3.config}\n[[webhook]]\nname = "w"\nurl = "http://127.0.0.1:1/"\ntimelines = "t"\nsecret_file = "{tmp_path}/none"\n'
        n3.write_config()
        words = [n3.binary, "serve", "--config", n3.config_path, "--data", n3.data, "--listen", f"127.0.0.1:{n3.port}"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and 'the webhook "w"' in ended.stdout + ended.stderr
        # If it is lost after that, the node can't serve: it does not keep the log.
        (tmp_path / "none").write_text("a secret of thirty-two characters")
        (tmp_path / "none").chmod(0o600)
        n3.start()
        soon(lambda: n3.status()["role"] == "follower")
        (tmp_path / "none").unlink()
        assert cluster.run("take-over", "n3", "--config", cluster.config, "--force", "--wait", "5").returncode == 1
        assert n3.process.wait(60) == 1 and "it hands the log over, and ends" in n3.whole_log()
        assert "n1 owns the log, in term 3" in cluster.take_over("n1")


@pytest.mark.parametrize("fault", ["", "member_answers_early"])
def test_all_nats_servers_are_killed_with_a_frame_on_its_way(tmp_path, fault):
    """The control acknowledges what is not in the log, and is found out."""
    if fault and os.environ.get("TIDELINE_FAULTS") != "1":
        pytest.skip("a build without faults")
    with Cluster(tmp_path, environment={"TIDELINE_FAULT": fault}) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        first = Writer(n1, "t", "first")
        first.has(20)
        first.end()
        # Nothing of it is on its way any more.
        time.sleep(1)
        for process in cluster.nats.values():
            process.send_signal(signal.SIGSTOP)
        last = Writer(n1, "t", "last")
        if fault:
            last.has(1)
        else:
            time.sleep(0.5)
            assert not last.acknowledged
        n1.kill()
        last.end()
        for name, process in list(cluster.nats.items()):
            process.kill()
            process.wait()
            cluster.start_nats(name)
        cluster.take_over("n2")
        found, _ = messages(n2, "t")
        wrong = faults(found, [first, last])
        assert any("lost" in one for one in wrong) if fault else wrong == []


def test_only_an_administrator_has_the_log_move(tmp_path):
    secret = tmp_path / "main.key"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    auth = f'[auth]\nissuer = "me"\naudience = ["chat"]\nhs256_secret_files = ["{secret}"]\n'
    with Cluster(tmp_path, auth, is_made=False) as cluster:
        n1, n2, n3 = cluster.nodes
        key = lambda *words: subprocess.run([cluster.binary, "key", *words], capture_output=True, text=True, check=True).stdout.strip()
        # Of before there was a cluster: its secret is in a file of this directory alone.
        old = key("create", "old", "--allow", "*=tables:read", "--signing", "--data", n1.data)
        soon(lambda: cluster.adopt(n1.data).returncode == 0)
        cluster.start().first()
        made = key("create", "first", "--bootstrap", "--data", n1.data)
        move = lambda name: cluster.run("take-over", name, "--config", cluster.config, "--force")
        for cluster.key in ["", token(), made[:-4] + "AAAA"]:
            assert "an administrator's key is asked for" in move("n2").stderr
        for node in [n1, n2]:
            assert node.http("POST", "/v1/cluster/take-over")[0] == 401
            assert node.http("POST", "/v1/cluster/resign", headers={"authorization": f"Bearer {token()}"})[0] == 403
            assert node.get("/metrics")[0] == 401
        # What an owner would not take, a standby does not take either.
        good = n2.config
        bad = {"whether there is [auth]": good.replace(auth, ""), "no.key": good.replace(str(secret), "/no.key")}
        for why, n2.config in bad.items():
            n2.write_config()
            n2.process.send_signal(signal.SIGHUP)
            soon(lambda: why in n2.whole_log())
            assert n2.get("/metrics")[0] == n2.http("POST", "/v1/cluster/take-over")[0] == 401
        n2.config = good
        n2.write_config()
        n2.process.send_signal(signal.SIGHUP)
        soon(lambda: "the settings were read again" in n2.whole_log())
        # A snapshot has all that is stored: it is for nodes, which have no key.
        for node in [n1, n2]:
            assert node.get("/v1/cluster/snapshot", {"authorization": f"Bearer {made}"})[0] == 403
        # Keys are rows of the log: a standby knows those of the owner, and an owner those of before.
        cluster.key = made
        assert "n2 owns the log, in term 3" in move("n2").stdout
        soon(n2.ready)
        assert "cluster.take-over" in n2.whole_log()
        soon(lambda: cluster.run("check", "--config", cluster.config).returncode == 0)
        # So are, sealed, the secrets of keys that sign requests.
        new = json.loads(n2.rpc(made, "key.create", name="new", rights=[{"on": "*", "allow": ["admin"]}], signing=True)[2])["result"]["key"]
        assert "n3 owns the log, in term 4" in move("n3").stdout
        soon(n3.ready)
        for one in [old, new]:
            assert list_tables(n3, one[3:15], one[-43:]) == 200
            assert list_tables(n3, one[3:15], "S" * 43) == 403
            secret = pathlib.Path(n3.data, "keys", one[3:15])
            assert secret.read_text() == one[-43:] and secret.stat().st_mode & 0o777 == 0o600
        assert "n2 owns the log, in term 5" in move("n2").stdout
        soon(n2.ready)
        identity = next(one["id"] for one in json.loads(n2.rpc(made, "key.list")[2])["result"]["keys"] if one["name"] == "first")
        # What is revoked keeps its secret nowhere, and what is not keeps it.
        files = [[pathlib.Path(node.data, "keys", one[3:15]) for node in [n1, n2, n3]] for one in [old, new]]
        assert n2.rpc(made, "key.revoke", id=new[3:15])[0] == 200
        soon(lambda: not any(file.exists() for file in files[1]))
        assert all(file.exists() for file in files[0][1:])
        assert n2.rpc(made, "key.revoke", id=identity)[0] == 200
        soon(lambda: n1.get("/v1/cluster", {"authorization": f"Bearer {made}"})[0] == 401)


def test_strangers_keep_nobody_from_what_a_standby_says(tmp_path, issuer):
    known, forged = Ed25519("known"), Ed25519("forged")
    issuer.body = json.dumps({"keys": [known.jwk()]}).encode()
    with Cluster(tmp_path, f'[auth]\nissuer = "me"\naudience = ["chat"]\n{issuer.setting}\n') as cluster:
        n2 = cluster.start().first().nodes[1]
        ask = lambda key, path="/metrics": n2.get(path, {"authorization": f"Bearer {key.token()}"})[0]
        # Of a key that it does not have it asks once for all who come, and not again so soon.
        assert ask(known) == 403
        time.sleep(10.5)
        fetches, issuer.pause = issuer.fetches, 4
        strangers = [threading.Thread(target=ask, args=[forged]) for _ in range(8)]
        [one.start() for one in strangers]
        soon(lambda: issuer.fetches > fetches)
        assert ask(known) == 403 and all(one.is_alive() for one in strangers)
        [one.join() for one in strangers]
        assert ask(forged, "/v1/cluster") == 401 and issuer.fetches <= fetches + 2
        # What has left the set counts no more, as on the owner.
        issuer.pause = 0
        n2.config = n2.config.replace(issuer.setting, issuer.setting + "\njwks_refresh_s = 1")
        n2.write_config()
        n2.process.send_signal(signal.SIGHUP)
        soon(lambda: "the settings were read again" in n2.whole_log())
        soon(lambda: ask(known) == 403)
        issuer.body = json.dumps({"keys": [forged.jwk()]}).encode()
        soon(lambda: ask(known) == 401 and ask(forged) == 403)
