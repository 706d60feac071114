"""An owner that is cut off from the log, while another one takes over and acknowledges writes: docs/CLUSTER.md, "What each
loss does". Whatever answers there, from rows, memory or the log, none of it may be from before: it is refused.

The control believes itself without asking the log.
"""

import json
import os
import re
import signal
import threading
import time
import urllib.request

import pytest

from clustered import Cluster, soon
from tables import a_table, field, signed, STRING


@pytest.mark.parametrize("fault", ["", "member_proves_itself"])
def test_an_owner_that_is_cut_off_says_nothing_old(tmp_path, fault):
    if fault and os.environ.get("TIDELINE_FAULTS") != "1":
        pytest.skip("a build without faults")
    with Cluster(tmp_path, environment={"TIDELINE_FAULT": fault}) as cluster:
        n1, n2, n3 = cluster.nodes
        # One server is its only way to the log, and nobody else's; it leads nothing, so the others go on at once.
        lone = follower(cluster)
        for node in cluster.nodes:
            listed = re.search(r"(?m)^nats = (.*)$", node.config)[1]
            own = [one for name, one in zip(cluster.nats, json.loads(listed)) if (name == lone) == (node is n1)]
            node.config = node.config.replace(f"nats = {listed}", f"nats = {json.dumps(own)}")
        cluster.start().first()
        table(n1, "orders")
        row(n1, "before")
        append(n1, "before")
        ok(lambda: n1.rpc(None, "member.add", timeline="t", members=[{"user": "ann"}]))
        seen = ok(lambda: n1.rpc(None, "timeline.get", timeline="t"))
        positions = {"t": {"after": seen["head"], "epoch": seen["epoch"]}}
        iterator = shard_iterator(n1)
        lists = ok(lambda: n1.rpc(None, "conversation.sync", acting="ann"))["cursor"]
        call = lambda method, acting=None, **params: lambda: n1.rpc(None, method, acting, **params)
        reads = {
            "sync": call("sync", positions=positions),
            "a sync that waits": call("sync", positions=positions, wait_ms=100),
            "timeline.get": call("timeline.get", timeline="t"),
            "message.range": call("message.range", timeline="t"),
            "conversation.sync": call("conversation.sync", "ann", cursor=lists),
            "conversation.sync that waits": call("conversation.sync", "ann", cursor=lists, wait_ms=100),
            "table.list": call("table.list"),
            "row.range": call("row.range", table="orders"),
            "ListTable": lambda: tablestore(n1, "ListTable"),
            "GetStreamRecord": lambda: tablestore(n1, "GetStreamRecord", field(1, iterator)),
        }
        # All of it is in memory, and answered.
        for name, read in reads.items():
            status, _, body = read()
            assert status == 200 and b'"error"' not in body, (name, body)
        cluster.nats[lone].send_signal(signal.SIGSTOP)
        assert n2.http("POST", "/v1/cluster/take-over")[0] == 204
        soon(n2.ready)
        append(n2, "after")
        table(n2, "after")
        row(n2, "after")
        answers = {}
        asking = [threading.Thread(target=ask, args=(answers, *read), daemon=True) for read in reads.items()]
        for thread in asking:
            thread.start()
        # Long enough for answers out of memory; the others wait for the log.
        time.sleep(1)
        cluster.nats[lone].send_signal(signal.SIGCONT)
        for thread in asking:
            thread.join(60)
            assert not thread.is_alive()
        # One that is refused then is perhaps answered by n2.
        is_new = lambda body: b"after" in body or b'"head":2' in body
        stale = sorted(name for name, (status, body) in answers.items() if not is_refused(status, body) and not is_new(body))
        if fault:
            assert stale == sorted(reads)
        else:
            assert stale == [] and len(answers) == len(reads), [answers[name] for name in stale]
            soon(lambda: n1.answers() and n1.status()["role"] == "follower")


def follower(cluster):
    """A NATS server that leads neither the stream nor the servers, or at least not the stream."""
    monitors = json.loads(re.search(r"(?m)^nats_monitors = (.*)$", cluster.nodes[0].config)[1])

    def leaders():
        with urllib.request.urlopen(f"http://{monitors[0]}/jsz?streams=1", timeout=10) as answer:
            told = json.load(answer)
        streams = [one for account in told.get("account_details", []) for one in account["stream_detail"]]
        led = [one["cluster"].get("leader") for one in streams if one["name"] == "TL_chat_0"]
        return [*led, told["meta_cluster"].get("leader")] if led and led[0] else None

    by_stream, by_servers = soon(leaders)
    others = [name for name in cluster.nats if name != by_stream]
    return next((name for name in others if name != by_servers), others[0])


def ask(answers, name, read):
    try:
        status, _, body = read()
        answers[name] = status, body
    except OSError:
        answers[name] = 503, b"it closed the connection"


def is_refused(status, body):
    return status == 503 or b'"reason":"unavailable"' in body


def ok(call):
    """What a call gives, once NATS has a leader that answers."""

    def tried():
        status, _, body = call()
        if not is_refused(status, body) and b'"outcome_unknown"' not in body:
            return json.loads(body)

    return soon(tried)["result"]


def append(node, name):
    ok(lambda: node.rpc(None, "message.append", timeline="t", entry={"name": name}, message_id=name))


def row(node, key):
    ok(lambda: node.rpc(None, "row.put", table="orders", key={"id": key}, columns={"n": 1}))


def table(node, name):
    with_stream = field(5, bytes([1 << 3, 1, 2 << 3, 24]))
    soon(lambda: tablestore(node, "CreateTable", a_table(name, id=STRING) + with_stream)[0] == 200)


def tablestore(node, operation, body=b""):
    return signed(node, operation, "development", "development", body)


def shard_iterator(node):
    asked = lambda operation, body: tablestore(node, operation, body)[2]
    stream = first(first(asked("ListStream", field(1, b"orders")), 1), 1)
    shard = first(first(asked("DescribeStream", field(1, stream)), 6), 1)
    return first(asked("GetShardIterator", field(1, stream) + field(2, shard)), 1)


def first(body, wanted):
    """The bytes of a message's first field of a number."""
    at = 0
    while at < len(body):
        number, kind = body[at] >> 3, body[at] & 7
        length, at = varint(body, at + 1)
        if kind == 2:
            if number == wanted:
                return body[at : at + length]
            at += length
    raise AssertionError((body, wanted))


def varint(body, at):
    value, shift = 0, 0
    while True:
        value |= (body[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if body[at - 1] < 128:
            return value, at
