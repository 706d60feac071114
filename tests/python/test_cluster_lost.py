"""What a cluster's nodes do when something is gone: a node's data, the stream's beginning, all of the stream.

docs/CLUSTER.md: what all images have goes from the stream; who then lacks it takes a snapshot of another node, and has every
acknowledged message at its position; `rebuild` makes a lost stream again behind the best mirror.
"""

import os
import shutil

import pytest

from clustered import Cluster, Node, Writer, faults, messages, soon

SOON = "memtable_age_ms = 1000\n"


def needs_faults():
    if os.environ.get("TIDELINE_FAULTS") != "1":
        pytest.skip("a build without faults")


def test_who_lacks_what_the_stream_has_lost_takes_a_snapshot(tmp_path):
    needs_faults()
    # The first piece that each node gives has another byte than it had.
    environment = {"TIDELINE_FAULT": "cluster_trims_soon,snapshot_spoilt"}
    with Cluster(tmp_path, SOON, environment) as cluster:
        n1, n2, n3 = cluster.start().first().nodes
        assert n1.http("GET", "/v1/cluster/snapshot")[0] == 403
        assert n2.get("/v1/cluster/snapshot?of=follower", {"authorization": "Tideline-Node n3 1 00"})[0] == 403
        writer = Writer(n1, "t", "first")
        soon(lambda: cluster.stream()["first_seq"] > 1)
        # Wiped, under load.
        n3.kill()
        shutil.rmtree(n3.data)
        n3.start()
        soon(lambda: follows(n3))
        spoilt = [node for node in [n1, n2] if "has other bytes than it had" in n3.whole_log()]
        assert spoilt and "took a snapshot" in n3.whole_log()
        # Away for so long that nobody waits for it.
        n2.stop()
        end = n1.status()["applied"]
        soon(lambda: cluster.stream()["first_seq"] > end + 2)
        n2.start()
        soon(lambda: follows(n2))
        assert "took a snapshot" in n2.whole_log()
        found, epoch = messages(n1, "t")
        writers = [writer]
        for node in [n2, n3]:
            cluster.take_over(name(node), "--force")
            writer.end()
            found, same = messages(node, "t")
            assert faults(found, writers) == [] and same == epoch
            writer = Writer(node, "t", name(node))
            writer.has(5)
            writers.append(writer)
        writer.end()


@pytest.mark.parametrize("case", ["halted", "killed", "one"])
def test_a_lost_stream_is_made_again(tmp_path, case):
    with Cluster(tmp_path) as cluster:
        n1, n2, _ = cluster.start().first().nodes
        writer = Writer(n1, "t", "first")
        writer.has(30)
        _, epoch = messages(n1, "t")
        end = {"killed": Node.kill, "one": Node.stop}.get(case)
        if end:
            for node in cluster.nodes:
                end(node)
        writer.end()
        cluster.delete_stream()
        if not end:
            for node in cluster.nodes:
                soon(lambda: stopped(node))
            for node in cluster.nodes:
                node.stop()
        words = ["rebuild", "--config", cluster.config, "--login", cluster.login]
        given = cluster.nodes if case != "one" else [n2]
        said = cluster.command(*words, *[word for node in given for word in ["--from", node.data]])
        again = cluster.run(*words, "--from", n1.data)
        assert again.returncode == 1 and "there is a stream TL_chat_0 already" in again.stderr
        kept = {"halted": "go on with their epochs", "killed": "no directory has surely all", "one": "1 of 3 directories"}
        assert kept[case] in said, said
        best = next(node for node in given if node.data in said)
        # Frames of before count for nobody else.
        others = [node for node in cluster.nodes if node is not best]
        for node in others:
            shutil.rmtree(node.data)
        for node in [best, *others]:
            node.start()
        cluster.take_over(name(best))
        found, now = messages(best, "t")
        assert faults(found, [writer]) == []
        assert (now == epoch) == (case == "halted")
        after = Writer(best, "t", "after")
        after.has(5)
        after.end()
        for node in others:
            soon(lambda: follows(node))
            assert "took a snapshot" in node.whole_log()
        cluster.take_over(name(others[0]), "--force")
        found, same = messages(others[0], "t")
        assert faults(found, [writer, after]) == [] and same == now


def name(node):
    return os.path.basename(node.directory)


def follows(node):
    try:
        return node.status()["role"] == "follower"
    except OSError:
        assert node.process.poll() is None, node.log()


def stopped(node):
    try:
        return b"restart it when that is mended" in node.get("/readyz")[2]
    except OSError:
        return False
