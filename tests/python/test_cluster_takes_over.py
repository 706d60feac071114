"""A cluster whose standbys take over by themselves.

docs/CLUSTER.md: an owner that is killed, frozen, told to end or drained is followed by a standby without a person; what was
acknowledged is there once and in order, and a client that keeps to the protocol goes on. Pauses are printed, and not judged.
"""

import resource
import signal
import time

import pytest

from clustered import Cluster, Roamer, faults, messages, soon


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, take_over="by itself") as made:
        yield made.start().first()


@pytest.fixture
def tell(capfd):
    def tell(what, pause):
        with capfd.disabled():
            print(f"\n{what}: writes paused for {pause:.0f} ms", end="", flush=True)

    return tell


def name(cluster, node):
    return cluster.nodes.index(node) + 1


def all_follow(cluster, owner):
    """All nodes are there, and have what the owner has."""
    soon(lambda: cluster.run("check", "--config", cluster.config).returncode == 0)
    soon(lambda: len({node.status()["applied"] for node in cluster.nodes}) == 1)
    assert cluster.owner() is owner


def test_an_owner_that_ends_drains_or_is_killed_is_followed(cluster, tell):
    writer = Roamer(cluster.nodes, "t", "one")
    writer.has(30)
    first = cluster.owner()
    standby = next(node for node in cluster.nodes if node is not first)
    status = standby.status()
    assert status["rank"] in (0, 1) and status["silent_ms"] < 10_000 and status["since_ms"] > 0

    # Told to end: it hands over first.
    tell("SIGTERM", writer.pause(lambda: first.process.send_signal(signal.SIGTERM)))
    assert first.process.wait(60) == 0 and "hands the log over" in first.whole_log()
    second = cluster.owner()
    assert second is not first and second.status()["term"] == 2
    first.start()
    soon(lambda: first.status()["role"] == "follower")

    # Drained: it hands over, and does not claim again by itself.
    drained = f"n{name(cluster, second)}"
    said = []
    tell("drain", writer.pause(lambda: said.append(cluster.command("drain", drained, "--config", cluster.config))))
    assert f"{drained} is drained; n" in said[0], said
    third = cluster.owner()
    assert third is not second
    soon(lambda: second.status().get("unready") == "it is drained")
    assert "would not claim: it is drained" in cluster.command("status", "--config", cluster.config)

    # Killed, and its successor after it: only nodes that are there and not drained own the log.
    tell("kill -9", writer.pause(third.kill))
    fourth = cluster.owner()
    assert fourth not in (second, third)
    third.start()
    soon(lambda: third.status()["role"] == "follower")
    tell("kill -9, a second time", writer.pause(fourth.kill))
    assert cluster.owner() is third
    assert "takes its turn again" in cluster.command("undrain", drained, "--config", cluster.config)
    fourth.start()
    writer.end()
    all_follow(cluster, third)
    found, _ = messages(third, "t")
    assert faults(found, [writer]) == []
    assert third.metric("tideline_cluster_unready") == 0 and third.metric("tideline_cluster_owner") == 1


def test_a_standby_without_room_is_given_no_log(cluster):
    n1, n2, n3 = cluster.nodes
    all_follow(cluster, n1)
    writer = Roamer(cluster.nodes, "t", "one")
    writer.has(10)
    # Nothing that it writes has room. By its name it would come first.
    resource.prlimit(n2.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    soon(lambda: n2.status()["role"] == "stopped")
    for end in [n1.stop, n1.start, n3.kill]:
        end()
        writer.has(len(writer.acknowledged) + 10)
    assert cluster.owner() is n1
    writer.end()
    found, _ = messages(n1, "t")
    assert faults(found, [writer]) == []


def test_an_owner_that_is_frozen_or_loses_its_nats_server_is_followed(cluster, tell):
    writer = Roamer(cluster.nodes, "t", "one")
    writer.has(30)
    first = cluster.owner()
    frozen = time.monotonic()
    tell("SIGSTOP", writer.pause(lambda: first.process.send_signal(signal.SIGSTOP)))
    second = cluster.owner_but(first)
    # It wakes amid the writes of another one.
    time.sleep(max(0, frozen + 6 - time.monotonic()))
    first.process.send_signal(signal.SIGCONT)
    soon(lambda: first.answers() and first.status()["role"] == "follower")
    assert second.ready() and second.status()["term"] == 2

    def both():
        server = cluster.nats[leader]
        second.kill()
        server.kill()
        server.wait()

    leader = cluster.leader()
    tell("kill -9 with the NATS server that leads the stream", writer.pause(both))
    third = cluster.owner_but(second)
    cluster.start_nats(leader)
    second.start()
    writer.end()
    all_follow(cluster, third)
    found, _ = messages(third, "t")
    assert faults(found, [writer]) == []


def test_a_node_that_could_not_serve_what_it_owns_does_not_start(tmp_path):
    bucket = f'backup_directory = "{tmp_path}"\nbackup_bucket = "s3://backups/of/tests"'
    own = {"n1": 'backup_passphrase_file = "/none"', "n2": bucket}
    says = ["backup_passphrase_file: /none", "there are no credentials", "OTEL_EXPORTER_OTLP_PROTOCOL is grpc"]
    environment = {"AWS_ACCESS_KEY_ID": "", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with Cluster(tmp_path, environment=environment, is_made=False, own=own) as cluster:
        for node, why in zip(cluster.nodes, says):
            with pytest.raises(RuntimeError, match=why):
                node.start()


def test_standbys_by_hand_follow_nobody(tmp_path):
    with Cluster(tmp_path) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        n1.kill()
        time.sleep(3)
        assert n2.status()["unready"] == 'take_over is "by hand"' and not n2.ready()
        assert "n2 owns the log, in term 2" in cluster.take_over("n2")
