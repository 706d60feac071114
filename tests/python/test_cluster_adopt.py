"""A directory of a server that was alone, taken into a cluster, and a cluster's that serves alone again.

docs/CLUSTER.md: clients go on with their epochs and positions, at whatever node owns the log; a directory that does not
belong is refused with one sentence, and what was interrupted is repeated by the same command.
"""

import os
import shutil
import signal
import subprocess

import pytest

from client import Client, Refused, until
from clustered import Cluster, Writer, soon
from server import Server

FAULTS = os.environ.get("TIDELINE_FAULTS") == "1"
ROOM = "room"


class Clients:
    """What clients have of a server, to go on with elsewhere."""

    def __init__(self, server):
        with Client(server, user="ann") as ann, Client(server) as back_end:
            ann.call("timeline.create", timeline=ROOM, members=[{"user": "ann"}, {"user": "ben"}])
            self.sequences, self.heads = {}, 0
            for name in ["a", "b"]:
                self.append(ann, name)
            ann.call("read.set", timeline=ROOM, read=1)
            self.epoch = ann.call("timeline.get", timeline=ROOM)["epoch"]
            self.position = back_end.call("stream.open", timelines=ROOM)["position"]
            self.cursor = until(lambda: (page := ann.call("conversation.sync"))["done"] and page["cursor"])
            self.after, self.since = 2, []
            for name in ["c", "d"]:
                self.append(ann, name)
                self.since.append(name)

    def append(self, client, name):
        self.sequences[name] = client.append(ROOM, {"name": name}, message_id=name)["sequence"]

    def go_on(self, server, *new):
        """All of them at another server, which they take for the one of before; then some append more."""
        with Client(server, user="ann") as ann, Client(server) as back_end:
            page = ann.call("sync", positions={ROOM: {"after": self.after, "epoch": self.epoch}})["timelines"][ROOM]
            assert page["state"] == "ok" and page["epoch"] == self.epoch, page
            assert [one["message_id"] for one in page["messages"]] == self.since
            assert ann.call("subscribe", timeline=ROOM, after=self.after, epoch=self.epoch)["state"] == "ok"
            ann.call("message.update", timeline=ROOM, sequence=1, set={"seen": new[0]}, epoch=self.epoch)
            assert until(lambda: (page := ann.call("conversation.sync", cursor=self.cursor))["done"] and page["cursor"])
            for name, sequence in self.sequences.items():
                again = ann.append(ROOM, {"name": name}, message_id=name)
                assert (again["sequence"], again.get("duplicate")) == (sequence, True)
            for name in new:
                self.append(ann, name)
                self.since.append(name)
            stream = back_end.call("stream.open", timelines=ROOM, position=self.position)["stream"]
            told = []
            while len(told) < len(self.since):
                push = back_end.push("stream.changes")
                assert push["stream"] == stream
                told += [one["message_id"] for change in push["changes"] if change["kind"] == "message" for one in change["messages"]]
            assert told == self.since
        with Client(server, user="ben") as ben:
            unread = len(self.sequences)
            until(lambda: [one["unread"] for one in ben.call("conversation.list")["conversations"]] == [unread])
        return self


@pytest.fixture
def place(tmp_path):
    """NATS servers without a stream, and a server that is alone."""
    (tmp_path / "alone").mkdir()
    with Cluster(tmp_path, is_made=False) as cluster:
        alone = Server(tmp_path / "alone")
        yield cluster, alone
        alone.kill()


def refused(ran, *words):
    said = ran.stderr.strip()
    assert ran.returncode == 1 and "\n" not in said, ran
    assert all(word in said for word in words), said


def copy(server, place):
    return shutil.copytree(server.data, place)


def adopted(cluster, data):
    """NATS is perhaps not ready yet."""
    return soon(lambda: (ran := cluster.adopt(data)).returncode == 0 and ran.stdout)


def test_clients_go_on_where_a_directory_becomes_a_clusters(place, tmp_path):
    cluster, alone = place
    clients = Clients(alone.start())
    refused(cluster.adopt(alone.data), "another process is using")
    alone.stop()
    older = copy(alone, tmp_path / "older")
    alone.start()
    clients.go_on(alone, "e").go_on(alone, "f")
    refused(soon(lambda: (ran := cluster.adopt(copy(alone, tmp_path / "served"))).returncode and ran), "is a copy")
    alone.stop()
    refused(cluster.adopt(alone.data, login=tmp_path / "nats" / "node.login"), "stream TL_chat_0")
    other = Server(alone.directory)
    other.data = copy(alone, tmp_path / "other")
    try:
        with Client(other.start(), user="ann") as ann:
            ann.append("elsewhere")
    finally:
        other.stop()
    plain = copy(alone, tmp_path / "plain")

    # Killed at each step, and typed again: before and behind the stream's making, its first frame, the directory's file.
    for point in [1, 2, 2, 1, 2] if FAULTS else []:
        killed = soon(lambda: (ran := cluster.adopt(alone.data, f"adopt_step:{point}")).returncode != 1 and ran)
        assert killed.returncode == -signal.SIGABRT, (point, killed)
    said = adopted(cluster, alone.data)
    assert f"{alone.data} is a part of cluster chat" in said
    assert f"{alone.data} is a part of cluster chat already" in adopted(cluster, alone.data)
    served = subprocess.run([alone.binary, "serve", "--data", alone.data], capture_output=True, text=True, timeout=60)
    assert served.returncode == 1 and "belongs to a cluster" in served.stdout + served.stderr

    # What does not belong is refused: it is older, has gone on, or is another one.
    refused(cluster.adopt(older), "it is an older copy")
    refused(cluster.adopt(other.data), "was served since it was copied")
    stranger = Server(tmp_path / "alone")
    stranger.data = tmp_path / "stranger"
    stranger.start().stop()
    refused(cluster.adopt(stranger.data), "goes on behind another directory")
    refused(cluster.adopt(tmp_path / "none"), "none")

    # One node has a copy of before, which is adopted too, one the directory itself; the third takes a snapshot.
    n1, n2, n3 = cluster.nodes
    adopted(cluster, plain)
    shutil.move(plain, n2.data)
    shutil.move(alone.data, n1.data)
    # While nobody gives it one, it hears that it is to end.
    n3.start()
    assert n3.status()["role"] == "joining" and n3.stop() == 0
    cluster.start().first()
    soon(lambda: n3.status()["role"] == "follower")
    assert "took a snapshot" in n3.whole_log()
    clients.go_on(n1, "g", "h")
    n1.kill()
    cluster.take_over("n2")
    clients.go_on(n2, "i")
    cluster.take_over("n3", "--force")
    clients.go_on(n3, "j")
    n1.start()
    soon(lambda: len({node.status()["applied"] for node in cluster.nodes}) == 1)
    assert {node.status()["role"] for node in cluster.nodes} == {"owner", "follower"}


@pytest.mark.skipif(not FAULTS, reason="a build without faults")
def test_clients_notice_another_history(place):
    """The control: a directory whose history is not kept."""
    cluster, alone = place
    clients = Clients(alone.start())
    alone.stop()
    soon(lambda: cluster.adopt(alone.data, "adopt_renews").returncode == 0)
    n1 = cluster.nodes[0]
    shutil.move(alone.data, n1.data)
    n1.start()
    soon(n1.ready)
    with pytest.raises((AssertionError, Refused), match="epoch_changed"):
        clients.go_on(n1, "e")


def test_a_directory_of_several_partitions_is_refused(place):
    cluster, alone = place
    alone.start().stop()
    subprocess.run([alone.binary, "partition", "split", alone.data, "0"], check=True, capture_output=True)
    refused(soon(lambda: (ran := cluster.adopt(alone.data)).returncode and ran), "has other partitions")
    # It serves alone as before.
    alone.start().stop()


def stopped(node):
    status = node.status()
    return status["role"] == "stopped" and status["reason"]


def test_a_cluster_ends_and_its_directory_serves_alone(tmp_path):
    with Cluster(tmp_path) as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        clients = Clients(n1)
        n3.stop()
        clients.go_on(n1, "e")
        refused(cluster.dissolve(n3.data), "n1 owns the log and lives")
        n1.kill()
        refused(cluster.dissolve(n2.data), "another process is using")
        theirs = tmp_path / "theirs.toml"
        theirs.write_text(n3.config.replace('name = "chat"', 'name = "theirs"'))
        refused(cluster.dissolve(n3.data, config=theirs), "is a part of cluster chat, not of theirs")

        # Killed at each step: before and behind the log's last frame, before and behind the directory's leave.
        for point in [1, 2, 3, 4] if FAULTS else []:
            killed = cluster.dissolve(n3.data, fault=f"dissolve_step:{point}")
            assert killed.returncode == -signal.SIGABRT, (point, killed)
        for _ in range(2):
            ended = cluster.dissolve(n3.data)
            assert ended.returncode == 0 and "cluster chat has ended" in ended.stdout, ended
        # One that was there, and one that was the last owner and comes later.
        n1.start()
        for node in [n1, n2]:
            assert "cluster chat was dissolved" in soon(lambda: stopped(node))
            assert b"was dissolved" in node.get("/readyz")[2]
        refused(cluster.run("take-over", "n2", "--config", cluster.config), "was dissolved")
        n1.stop()
        n2.stop()
        # Two directories would contradict each other, so a second one has to be asked for.
        refused(cluster.dissolve(n2.data), "the cluster has ended already", "use --force")
        assert cluster.dissolve(n2.data, "--force").returncode == 0
        alone = cluster.serves_alone(n3)
        clients.go_on(alone.start(), "f", "g")
        alone.stop()
        verified = subprocess.run([alone.binary, "verify", alone.data], capture_output=True, text=True, timeout=60)
        assert verified.returncode == 0, verified
        refused(cluster.dissolve(n3.data), "belongs to no cluster")

        # And into a cluster again, whose name is the same.
        refused(cluster.adopt(n3.data), "that was dissolved", "delete the stream")
        cluster.delete_stream()
        adopted(cluster, n3.data)
        for node in [n1, n2]:
            shutil.rmtree(node.data)
            copy(n3, node.data)
        cluster.start().first()
        clients.go_on(n1, "h")
        cluster.take_over("n3", "--force")
        clients.go_on(n3, "i")


@pytest.mark.skipif(not FAULTS, reason="a build without faults")
def test_a_cluster_ends_whose_stream_has_lost_its_beginning(tmp_path):
    with Cluster(tmp_path, "memtable_age_ms = 1000\n", {"TIDELINE_FAULT": "cluster_trims_soon"}) as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        clients = Clients(n1)
        n3.stop()
        writer = Writer(n1, "t", "more")
        writer.has(30)
        end = n1.status()["applied"]
        soon(lambda: cluster.stream()["first_seq"] > end)
        writer.end()
        stranger = Server(cluster.folder("alone"))
        stranger.start().stop()
        refused(cluster.adopt(stranger.data), "there is a stream TL_chat_0 already", "its first frame is gone")
        refused(cluster.run("create", "--config", cluster.config, "--login", cluster.login), "there is a stream TL_chat_0 already")
        n1.stop()
        n2.stop()
        refused(cluster.dissolve(n3.data), "lacks what has gone from the stream")
        ended = cluster.dissolve(n2.data)
        assert ended.returncode == 0 and "cluster chat has ended" in ended.stdout, ended
        # One that has all, one that was away, and one that has nothing.
        n1.start()
        assert "cluster chat was dissolved" in soon(lambda: stopped(n1))
        for data in [n3.data, tmp_path / "none"]:
            words = [n3.binary, "serve", "--config", n3.config_path, "--data", data, "--listen", f"127.0.0.1:{n3.port}"]
            late = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert late.returncode == 1 and "chat was dissolved" in late.stdout + late.stderr
        rebuilt = ["rebuild", "--config", cluster.config, "--login", cluster.login, "--from", n1.data]
        n1.stop()
        cluster.delete_stream()
        refused(cluster.run(*rebuilt), "its cluster was dissolved")
        alone = cluster.serves_alone(n2)
        clients.go_on(alone.start(), "e")
        alone.stop()
        verified = subprocess.run([alone.binary, "verify", alone.data], capture_output=True, text=True, timeout=60)
        assert verified.returncode == 0, verified


@pytest.mark.skipif(not FAULTS, reason="a build without faults")
def test_a_cluster_that_ends_without_a_word_goes_on(tmp_path):
    """The control: the log does not say that it has ended."""
    with Cluster(tmp_path) as cluster:
        n1, _, n3 = cluster.start().first().nodes
        soon(lambda: n3.status()["applied"] == n1.status()["applied"])
        n3.stop()
        n1.kill()
        ended = cluster.dissolve(n3.data, fault="dissolve_quietly")
        assert ended.returncode == 0, ended
        alone = cluster.serves_alone(n3).start()
        cluster.take_over("n2")
        assert alone.get("/readyz")[0] == 200
