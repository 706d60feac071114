"""The Centrifuge dialect, sentence by sentence, in raw frames of JSON and protobuf."""

import json
import os
import signal
import time

import pytest

from centrifuge_wire import SECRET, Peer, token
from client import until
from server import Server

TOKENS = f"""
[centrifuge.client.token]
hmac_secret_key = "{SECRET}"
[centrifuge.client.subscribe_to_user_personal_channel]
enabled = true
[centrifuge.channel.without_namespace]
presence = true
join_leave = true
force_push_join_leave = true
history_size = 100
history_ttl = "300s"
allow_publish_for_subscriber = true
allow_presence_for_subscriber = true
allow_history_for_subscriber = true
[[centrifuge.channel.namespaces]]
name = "open"
allow_subscribe_for_client = true
"""

faulty = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")


@pytest.fixture(params=[False, True], ids=["json", "protobuf"])
def peer(request, server):
    with Peer(server, protobuf=request.param) as connected:
        yield connected


@pytest.fixture
def another(server, peer):
    with Peer(server, protobuf=peer.protobuf) as connected:
        yield connected


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server whose clients show tokens."""
    running = Server(tmp_path_factory.mktemp("tokens"), config=TOKENS).start()
    yield running
    running.kill()


@pytest.fixture
def ann(guarded):
    with Peer(guarded, token=token(sub="ann")) as connected:
        assert connected.push()["channel"] == "#ann"
        yield connected


def publish(peer, channel, count, start=1):
    for number in range(start, start + count):
        assert peer.result(publish={"channel": channel, "data": b'{"n": %d}' % number}) == {}


def numbers(publications):
    return [json.loads(one["data"])["n"] for one in publications]


def rpc(peer, method, **params):
    data = peer.result(rpc={"method": method, "data": json.dumps(params).encode()})["data"]
    return json.loads(data)


# Handshakes and frames


def test_a_get_without_upgrade_is_answered_400(server):
    assert server.get("/connection/websocket")[0] == 400
    assert server.http("POST", "/connection/websocket")[0] == 405


@pytest.mark.parametrize("offered", ["centrifuge-json", "centrifuge-protobuf"])
def test_an_offered_sub_protocol_is_echoed(server, offered):
    with Peer(server, protobuf=offered.endswith("protobuf"), subprotocols=[offered]) as peer:
        assert peer.socket.subprotocol == offered


def test_the_query_names_protobuf(server):
    for query in ["?format=protobuf", "?a=b&cf_protocol=protobuf"]:
        with Peer(server, protobuf=True, query=query) as peer:
            assert peer.connection["client"]


def test_the_first_frame_may_have_all_subscriptions(server, name):
    for protobuf in [False, True]:
        with Peer(server, protobuf=protobuf, connected=False) as peer:
            commands = [peer.begin(connect={})]
            commands += [peer.begin(subscribe={"channel": f"{name}-{n}", "flag": 1}) for n in range(5000)]
            peer.send(*commands)
            connected = peer.reply(1)["connect"]
            assert connected["client"] and connected["version"] and connected["ping"] and connected["pong"]
            assert "session" not in connected and "expires" not in connected
            for number in range(2, 5002):
                subscribed = peer.reply(number)["subscribe"]
                assert subscribed["recoverable"] and subscribed["positioned"] and subscribed["epoch"]
            assert not peer.pushes
            assert peer.code(subscribe={"channel": f"{name}-0"}) == 105


def test_ten_thousand_commands_in_a_frame_are_answered(peer, name):
    commands = [peer.begin(presence_stats={"channel": name}) for _ in range(10000)]
    peer.send(*commands)
    for command in commands:
        assert "presence_stats" in peer.reply(command["id"])


GARBAGE = {
    False: ["", "x", "[]", '{"id":1}\n\n{"id":2}', '{"id":', '{"id":"1","ping":{}}'],
    True: [b"", b"\x05", b"\xff" * 12, b"\x02\x0a\xff", b"\x03\x2a\x01\x08", b"\x80"],
}


def test_garbage_ends_its_connection_only(peer, another, server, name):
    another.result(subscribe={"channel": name})
    for frame in GARBAGE[peer.protobuf]:
        with Peer(server, protobuf=peer.protobuf) as wild:
            wild.socket.send(frame)
            assert wild.end() == (3501, "bad request"), frame
    with Peer(server, protobuf=peer.protobuf) as wild:
        wild.socket.send(b"{}" if not peer.protobuf else "{}")
        assert wild.end()[0] == 3501
    publish(peer, name, 1)
    assert numbers(another.publications(1)) == [1]


@pytest.mark.parametrize(
    "command, code",
    [
        ({"id": 2, "connect": {}}, 3501),
        ({"presence": {"channel": "a"}}, 3501),
        ({"id": 2, "subscribe": {}}, 3501),
        ({"id": 2, "publish": {"data": b"1"}}, 3501),
        ({"id": 2, "unsubscribe": {}}, 3501),
        ({"id": 2, "refresh": {}}, 3501),
        ({"id": 2, "refresh": {"token": "a.b.c"}}, 3500),
        ({"send": {"data": b"1"}}, 3508),
    ],
)
def test_what_breaks_a_rule_ends_the_connection(server, command, code):
    with Peer(server) as peer:
        peer.send(command)
        closed, reason = peer.end()
        assert closed == code and reason


def test_nothing_is_done_before_the_connect(server):
    for command in [{"id": 1, "subscribe": {"channel": "a"}}, {"id": 1, "rpc": {"method": "ping"}}, {"connect": {}}]:
        with Peer(server, connected=False) as peer:
            peer.send(command)
            assert peer.end()[0] == 3501


def test_a_pong_that_nobody_asked_for_is_no_fault(peer):
    peer.send({})
    assert peer.code(ping={}) == 108
    peer.send({"id": 99})
    assert peer.reply(99)["error"]["code"] == 104


# Publications


def test_a_reply_comes_before_the_pushes_of_its_channel(peer, another, name):
    commands = [peer.begin(subscribe={"channel": name})]
    commands += [peer.begin(publish={"channel": name, "data": b'{"n": %d}' % n}) for n in range(1, 50)]
    commands += [peer.begin(history={"channel": name, "limit": -1}), peer.begin(unsubscribe={"channel": name})]
    commands += [peer.begin(publish={"channel": name, "data": b'{"n": 50}'})]
    peer.send(*commands)
    order = []
    while not order or order[-1] != "publish 50":
        frame = peer.socket.recv(60)
        for message in peer.messages(frame):
            kind = next((kind for kind in ("push", "subscribe", "unsubscribe") if kind in message), "other")
            order.append("publish 50" if message.get("id") == commands[-1]["id"] else kind)
    assert "push" not in order[: order.index("subscribe")]
    assert "push" not in order[order.index("unsubscribe") :]
    publish(peer, name, 3, start=51)
    assert not peer.pushes
    assert numbers(peer.result(history={"channel": name, "limit": 60})["publications"]) == list(range(1, 54))


PAYLOADS = [b'{"input": "test"}', b"[1,  2]", b"null", b'"a"', b"1.50", b'{"a":1,"a":2}', b'{"$binary": "x"}', b"true"]


@pytest.mark.parametrize("publisher", [False, True], ids=["by_json", "by_protobuf"])
def test_what_was_published_comes_back_byte_for_byte(server, peer, name, publisher):
    peer.result(subscribe={"channel": name})
    with Peer(server, protobuf=publisher) as sender:
        for data in PAYLOADS:
            sender.result(publish={"channel": name, "data": data})
        client = sender.connection["client"]
    live = peer.publications(len(PAYLOADS))
    stored = peer.result(history={"channel": name, "limit": -1})["publications"]
    peer.result(unsubscribe={"channel": name})
    recovered = peer.result(subscribe={"channel": name, "recover": True})["publications"]
    for publications in [live, stored, recovered]:
        assert [one["data"] for one in publications] == PAYLOADS
        assert [one["offset"] for one in publications] == list(range(1, len(PAYLOADS) + 1))
        assert all(one["info"]["client"] == client for one in publications)


def test_bytes_that_are_no_json_are_binary_to_json_clients(server, name):
    pretty = b'{\n  "a": 1\n}'
    with Peer(server, protobuf=True) as bytewise, Peer(server) as texts:
        for data in [b"\xff\x00", pretty]:
            bytewise.result(publish={"channel": name, "data": data})
        stored = bytewise.result(history={"channel": name, "limit": 9})["publications"]
        assert [one["data"] for one in stored] == [b"\xff\x00", pretty]
        shown = texts.result(history={"channel": name, "limit": 9})["publications"]
        assert [json.loads(one["data"]) for one in shown] == [{"$binary": "/wA="}, {"a": 1}]


def test_native_clients_and_these_share_timelines(peer, client, name):
    peer.result(subscribe={"channel": name})
    client.call("message.append", timeline=name, entry={"text": "hi", "n": 1})
    peer.result(publish={"channel": name, "data": b'{"a": [1]}'})
    first, second = peer.publications(2)
    assert (first["data"], first["offset"]) == (b'{"n":1,"text":"hi"}', 1) and "info" not in first
    assert second["data"] == b'{"a": [1]}'
    page = client.call("message.range", timeline=name)["messages"]
    assert [one["entry"] for one in page] == [{"n": 1, "text": "hi"}, {"publication": {"a": [1]}}]
    # An edit has no word here, a tombstone is not shown.
    client.call("message.update", timeline=name, sequence=1, set={"text": "ho"})
    client.call("message.delete", timeline=name, sequence=2)
    peer.result(publish={"channel": name, "data": b"3"})
    assert peer.publications(1)[0]["offset"] == 3
    shown = peer.result(history={"channel": name, "limit": 2})["publications"]
    assert [(one["offset"], one["data"]) for one in shown] == [(1, b'{"n":1,"text":"ho"}'), (3, b"3")]


def test_what_can_not_be_published_is_refused(peer, name):
    assert peer.code(publish={"channel": name, "data": b"1", "type": 1}) == 108
    assert peer.code(publish={"channel": name, "data": b'"%s"' % (b"x" * (300 << 10))}) == 106
    assert peer.code(publish={"channel": "x" * 256, "data": b"1"}) == 107
    assert peer.code(publish={"channel": "$inbox/ann", "data": b"1"}) == 103
    if peer.protobuf:
        assert peer.code(publish={"channel": name, "data": b""}) == 107
    assert peer.result(history={"channel": name, "limit": 1})["publications"] == [] if not peer.protobuf else True


# Recovery


def recover(peer, channel, offset, epoch="", **more):
    peer.result(unsubscribe={"channel": channel})
    return peer.ask(subscribe={"channel": channel, "recover": True, "offset": offset, "epoch": epoch, **more})


def test_a_fresh_subscribe_begins_at_the_top(peer, name):
    first = peer.result(subscribe={"channel": name})
    assert first.get("offset", 0) == 0 and not first.get("was_recovering") and not first.get("recovered")
    assert json.loads(first["data"]) == {"head": 0}
    publish(peer, name, 3)
    peer.publications(3)
    peer.result(unsubscribe={"channel": name})
    again = peer.result(subscribe={"channel": name})
    assert (again["offset"], again["epoch"]) == (3, first["epoch"]) and "publications" not in again


def test_what_was_missed_is_recovered(peer, name):
    epoch = peer.result(subscribe={"channel": name})["epoch"]
    publish(peer, name, 5)
    peer.publications(5)
    for given in [epoch, ""]:
        got = recover(peer, name, 2, given)["subscribe"]
        assert got["was_recovering"] and got["recovered"] and got["offset"] == 2 and got["epoch"] == epoch
        assert numbers(got["publications"]) == [3, 4, 5]
        got = recover(peer, name, 5, given)["subscribe"]
        assert got["was_recovering"] and got["recovered"] and got["offset"] == 5 and "publications" not in got
    got = recover(peer, name, 0, epoch)["subscribe"]
    assert got["recovered"] and got.get("offset", 0) == 0 and numbers(got["publications"]) == [1, 2, 3, 4, 5]
    publish(peer, name, 1, start=6)
    assert numbers(peer.publications(1)) == [6]


def test_what_can_not_be_recovered_is_said(peer, name):
    epoch = peer.result(subscribe={"channel": name})["epoch"]
    publish(peer, name, 5)
    peer.publications(5)
    for offset, given in [(2, "other"), (2, "_"), (6, epoch), (6, ""), (2**63, epoch)]:
        assert recover(peer, name, offset, given, flag=3)["error"]["code"] == 112
        got = recover(peer, name, offset, given, flag=1)["subscribe"]
        assert got["was_recovering"] and not got.get("recovered") and "publications" not in got
        assert (got["offset"], got["epoch"]) == (5, epoch)
    publish(peer, name, 1, start=6)
    assert numbers(peer.publications(1)) == [6]


def test_below_the_floor_nothing_is_recovered(peer, name):
    epoch = peer.result(subscribe={"channel": name})["epoch"]
    publish(peer, name, 5)
    peer.publications(5)
    rpc(peer, "timeline.trim", timeline=name, before=4)
    got = recover(peer, name, 2, epoch)["subscribe"]
    assert not got.get("recovered") and got["offset"] == 5 and "publications" not in got
    assert recover(peer, name, 2, epoch, flag=2)["error"]["code"] == 112
    got = recover(peer, name, 3, epoch)["subscribe"]
    assert got["recovered"] and numbers(got["publications"]) == [4, 5]


def test_another_history_is_not_recovered(peer, another, name):
    epoch = peer.result(subscribe={"channel": name})["epoch"]
    publish(another, name, 2)
    peer.publications(2)
    rpc(another, "timeline.delete", timeline=name)
    assert peer.push() == {"channel": name, "unsubscribe": {"code": 2000, "reason": "server unsubscribe"}}
    assert peer.result(unsubscribe={"channel": name}) == {}
    assert recover(peer, name, 2, epoch, flag=2)["error"]["code"] == 112
    got = recover(peer, name, 2, epoch)["subscribe"]
    assert not got.get("recovered") and got.get("offset", 0) == 0 and got["epoch"] != epoch
    publish(another, name, 1)
    assert peer.publications(1)[0]["offset"] == 1


def test_a_long_history_comes_as_a_page_and_pushes(peer, client, name):
    for start in range(0, 1200, 100):
        messages = [{"entry": {"n": number}} for number in range(start + 1, start + 101)]
        client.call("message.append_batch", timeline=name, messages=messages)
    got = peer.result(subscribe={"channel": name, "recover": True})
    assert got["recovered"] and got.get("offset", 0) == 0 and json.loads(got["data"]) == {"head": 1200}
    first = got["publications"]
    assert 1 <= len(first) <= 100
    publish(peer, name, 1, start=1201)
    rest = peer.publications(1201 - len(first))
    assert numbers(first + rest) == list(range(1, 1202))
    assert [one["offset"] for one in first + rest] == list(range(1, 1202))


def test_a_kill_loses_nothing(own_server, name):
    own_server.start()
    with Peer(own_server) as peer:
        epoch = peer.result(subscribe={"channel": name})["epoch"]
        publish(peer, name, 20)
        own_server.restart(signal.SIGKILL)
    with Peer(own_server) as peer:
        got = peer.result(subscribe={"channel": name, "recover": True, "offset": 7, "epoch": epoch})
        assert got["recovered"] and numbers(got["publications"]) == list(range(8, 21))
        own_server.process.send_signal(signal.SIGTERM)
        assert peer.end() == (3001, "shutdown")


@faulty
def test_the_first_subscription_of_a_channel_waits_for_no_disk(own_server, name):
    """Each sync takes half a second. What is asked about the channel then waits for that itself."""
    own_server.environment = {"TIDELINE_FAULT": "late_sync"}
    own_server.start()
    with Peer(own_server) as peer, Peer(own_server) as other:
        took = []
        for number in range(5):
            began = time.monotonic()
            peer.result(subscribe={"channel": f"{name}/{number}"})
            took.append(time.monotonic() - began)
            # What is written next is on disk only when that is.
            peer.result(publish={"channel": f"{name}/{number}", "data": b"1"})
        assert min(took) < 0.5, "each has waited for a sync"
        peer.result(subscribe={"channel": name})
        assert list(peer.result(presence={"channel": name})["presence"]) == [peer.connection["client"]]
        since = {"epoch": peer.result(subscribe={"channel": name + "/past"})["epoch"], "offset": 0}
        assert peer.result(history={"channel": name + "/past", "limit": 9, "since": since}) == {**since, "publications": []}
        peer.result(subscribe={"channel": name + "/next"})
        # Whoever comes second finds the same channel.
        assert other.result(subscribe={"channel": name + "/next"})["epoch"]
        peer.result(publish={"channel": name, "data": b"1"})
        assert [one["offset"] for one in peer.publications(6)] == [1] * 6


# History


def test_history(peer, name):
    empty = peer.result(history={"channel": name, "limit": 10})
    assert not empty.get("publications") and not empty.get("offset")
    epoch = peer.result(subscribe={"channel": name})["epoch"]
    publish(peer, name, 9)

    def asked(**more):
        got = peer.result(history={"channel": name, **more})
        assert (got["offset"], got["epoch"]) == (9, epoch)
        return numbers(got.get("publications", []))

    assert asked() == [] and asked(limit=0, since={"offset": 3, "epoch": epoch}) == []
    assert asked(limit=3) == [1, 2, 3] and asked(limit=3, reverse=True) == [9, 8, 7]
    assert asked(limit=-1) == list(range(1, 10)) and asked(limit=100000) == list(range(1, 10))
    assert asked(limit=2, since={"offset": 3, "epoch": epoch}) == [4, 5]
    assert asked(limit=2, since={"offset": 3, "epoch": epoch}, reverse=True) == [2, 1]
    assert asked(limit=2, since={"offset": 1, "epoch": ""}, reverse=True) == []
    assert asked(limit=2, since={"offset": 9, "epoch": epoch}) == [] == asked(limit=2, since={"offset": 99})
    assert asked(limit=1, since={"offset": 4}) == [5]
    assert peer.code(history={"channel": name, "limit": 1, "since": {"offset": 0}, "reverse": True}) == 107
    assert peer.code(history={"channel": name, "limit": 1, "since": {"offset": 1, "epoch": "other"}}) == 112
    assert peer.code(history={"channel": name + "-", "limit": 1, "since": {"offset": 1, "epoch": "other"}}) == 112


# Presence


def test_presence_joins_and_leaves(peer, another, server, name):
    assert peer.result(presence={"channel": name}).get("presence", {}) == {}
    assert sum(peer.result(presence_stats={"channel": name}).values()) == 0
    mine, theirs = peer.connection["client"], another.connection["client"]
    peer.result(subscribe={"channel": name, "join_leave": True})
    joined = peer.push()
    assert (joined["channel"], joined["join"]["info"]["client"]) == (name, mine)
    assert list(peer.result(presence={"channel": name})["presence"]) == [mine]
    another.result(subscribe={"channel": name})
    assert peer.push()["join"]["info"]["client"] == theirs
    shown = peer.result(presence={"channel": name})["presence"]
    assert {info["client"] for info in shown.values()} == set(shown) == {mine, theirs}
    assert peer.result(presence_stats={"channel": name}) == {"num_clients": 2, "num_users": 1}
    another.result(unsubscribe={"channel": name})
    assert peer.push()["leave"]["info"]["client"] == theirs
    with Peer(server) as third:
        third.result(subscribe={"channel": name})
        assert peer.push()["join"]["info"]["client"] == third.connection["client"]
    assert "leave" in peer.push()
    assert list(peer.result(presence={"channel": name})["presence"]) == [mine]
    assert not another.pushes


def test_repeated_subscribes_leave_nothing_behind(peer, another, server, name):
    one, other = {"subscribe": {"channel": name, "join_leave": True}}, {"unsubscribe": {"channel": name}}
    commands = [peer.begin(**command) for _ in range(10) for command in [one, other]]
    peer.send(*commands)
    for command in commands:
        assert "error" not in peer.reply(command["id"])
    assert peer.result(presence_stats={"channel": name}).get("num_clients", 0) == 0
    for _ in range(10):
        with Peer(server, connected=False) as fleeting:
            fleeting.send(fleeting.begin(connect={}), fleeting.begin(subscribe={"channel": name}))
    another.result(subscribe={"channel": name})
    until(lambda: another.result(presence_stats={"channel": name})["num_clients"] == 1)
    publish(peer, name, 1)
    assert numbers(another.publications(1)) == [1]
    assert not [push for push in peer.pushes if "pub" in push]


class SinceReply(dict):
    """Replies, each of which makes its connection forget the pushes that came before it."""

    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    def __setitem__(self, number, message):
        self.peer.pushes.clear()
        super().__setitem__(number, message)


def test_an_end_of_one_subscription_is_not_the_end_of_the_next(peer, another, client, name):
    """The timeline is deleted while the client leaves its channel and subscribes again, in one frame."""
    peer.replies = SinceReply(peer)
    for number in range(60):
        channel = f"{name}-{number}"
        peer.result(subscribe={"channel": channel})
        deleted = client.ask("timeline.delete", timeline=channel)
        for _ in range(3):
            commands = [peer.begin(unsubscribe={"channel": channel}), peer.begin(subscribe={"channel": channel})]
            peer.send(*commands)
            answers = [peer.reply(command["id"]) for command in commands]
        client.take(deleted)
        if "error" not in answers[-1]:
            # It goes on, or the client is told that it does not.
            publish(another, channel, 1)
            assert peer.push()["channel"] == channel


# Refusals and remote calls


def test_what_a_subscribe_must_not_ask_for(peer, name):
    # Map and shared-poll subscriptions.
    for kind in range(1, 5):
        assert peer.code(subscribe={"channel": name, "type": kind}) == 108
    assert peer.code(subscribe={"channel": name, "tf": {"op": "and"}}) == 107
    assert peer.code(subscribe={"channel": "x" * 256}) == 107
    assert peer.code(subscribe={"channel": "a\u0001b"}) == 107
    assert peer.code(subscribe={"channel": "$inbox/ann"}) == 103
    peer.result(subscribe={"channel": name})
    assert peer.code(subscribe={"channel": name}) == 105
    assert peer.result(unsubscribe={"channel": "never"}) == {}


def test_a_remote_call_is_the_native_method(peer, name):
    done = rpc(peer, "message.append", timeline=name, entry={"a": 1}, message_id="m", expect_head=0)
    assert done["sequence"] == 1 and done["message_id"] == "m"
    assert rpc(peer, "timeline.get", timeline=name)["head"] == 1
    assert peer.code(rpc={"method": "nothing", "data": b"{}"}) == 108
    assert peer.code(rpc={"method": "", "data": b"{}"}) == 108
    for method in ["subscribe", "session.open"]:
        assert peer.code(rpc={"method": method, "data": json.dumps({"timeline": name} if method[1] == "u" else {}).encode()}) == 108
    refused = peer.ask(rpc={"method": "message.append", "data": json.dumps(
        {"timeline": name, "entry": {"a": 1}, "expect_head": 0}).encode()})["error"]
    assert refused["code"] == 409 and refused["message"].startswith("condition_failed")
    refused = peer.ask(rpc={"method": "timeline.get", "data": b'{"timeline": 1}'})["error"]
    assert refused["code"] == 400 and "(timeline)" in refused["message"]
    assert peer.code(rpc={"method": "timeline.get", "data": b"[" * 90 + b"]" * 90}) in range(400, 2000)
    if peer.protobuf:
        assert peer.code(rpc={"method": "timeline.get", "data": b"\xff}}"}) == 400
        assert json.loads(peer.result(rpc={"method": "ping"})["data"])["time"]


# Tokens


def test_a_bad_token_closes(guarded):
    for shown, code in [("a.b.c", 3500), (token("other", sub="ann"), 3500), (token(channel="a"), 3500), ("", 3501)]:
        with Peer(guarded, connected=False) as peer:
            peer.send({"id": 1, "connect": {"token": shown}})
            assert peer.end()[0] == code
    with Peer(guarded, connected=False) as peer:
        assert peer.code(connect={"token": token(sub="ann", exp=1)}) == 109
        # It may come with another.
        assert peer.result(connect={"token": token(sub="ann")})["client"]


def test_who_has_no_token_may_not(guarded, ann, name):
    assert ann.code(subscribe={"channel": name}) == 103
    assert ann.code(subscribe={"channel": f"none:{name}"}) == 102
    assert ann.code(publish={"channel": name, "data": b"1"}) == 103
    assert ann.code(history={"channel": name, "limit": 1}) == 103
    assert ann.code(presence={"channel": name}) == 103
    assert ann.code(presence={"channel": f"open:{name}"}) == 108
    ann.result(subscribe={"channel": f"open:{name}"})
    assert ann.code(publish={"channel": f"open:{name}", "data": b"1"}) == 103
    with Peer(guarded, token=token()) as nobody:
        assert nobody.code(subscribe={"channel": f"open:{name}"}) == 103
        assert nobody.code(subscribe={"channel": name, "token": token(channel=name, exp=1)}) == 109
        shown = token(channel=name, info={"a": 1})
        nobody.result(subscribe={"channel": name, "token": shown})
        info = nobody.push()["join"]["info"]
        assert (info["user"], info["chan_info"]) == ("", b'{"a": 1}')
        assert nobody.code(publish={"channel": name, "data": b"1"}) == 103


def test_a_subscription_token_decides(ann, name):
    subscribed = ann.result(subscribe={"channel": name, "token": token(sub="ann", channel=name)})
    assert "expires" not in subscribed
    assert ann.push()["join"]["info"]["user"] == "ann"
    publish(ann, name, 1)
    assert ann.publications(1)[0]["info"]["user"] == "ann"
    assert ann.result(presence_stats={"channel": name})["num_users"] == 1
    assert ann.code(subscribe={"channel": name + "2", "token": token("other", sub="ann", channel=name + "2")}) == 103
    ann.send(ann.begin(subscribe={"channel": name + "2", "token": token(sub="ann", channel=name)}))
    assert ann.end() == (3500, "invalid token")


def test_tokens_are_renewed(guarded, name):
    end = int(time.time()) + 1000
    with Peer(guarded, token=token(sub="ann", exp=end)) as peer:
        assert peer.connection["expires"] and 0 < peer.connection["ttl"] <= 1000
        renewed = peer.result(refresh={"token": token(sub="ann", exp=end + 1000)})
        assert renewed["client"] == peer.connection["client"] and renewed["expires"] and renewed["ttl"] > 1000
        got = peer.result(subscribe={"channel": name, "token": token(sub="ann", channel=name, exp=end)})
        assert got["expires"] and 0 < got["ttl"] <= 1000
        got = peer.result(sub_refresh={"channel": name, "token": token(sub="ann", channel=name, exp=end + 1000)})
        assert got["expires"] and got["ttl"] > 1000
        # An SDK tries again with another token after what is temporary, and gives up after all else.
        over = peer.ask(sub_refresh={"channel": name, "token": token(sub="ann", channel=name, exp=1)})["error"]
        assert over["code"] == 109 and over["temporary"]
        publish(peer, name, 1)
        while "pub" not in (push := peer.push()):
            assert "unsubscribe" not in push
        assert push["channel"] == name
        assert peer.code(sub_refresh={"channel": name, "token": "a.b.c"}) == 103
        assert peer.code(sub_refresh={"channel": "other", "token": token(sub="ann", channel="other")}) == 103
        peer.send(peer.begin(refresh={"token": token(sub="bob")}))
        assert peer.end() == (3500, "invalid token")


@pytest.mark.parametrize("claims", [{"exp": 1}, {"exp": 9_999_999_999, "expire_at": 1}], ids=["exp", "expire_at"])
def test_who_is_late_with_a_newer_token_comes_back(guarded, claims):
    """An SDK connects again after 3005; after an error it would stop for good."""
    with Peer(guarded, token=token(sub="ann", exp=9_999_999_999)) as peer:
        peer.send(peer.begin(refresh={"token": token(sub="ann", **claims)}))
        assert peer.end() == (3005, "connection expired")


@pytest.mark.parametrize("asks_by", ["subs", "channels"])
def test_channels_follow_the_newest_token(guarded, name, asks_by):
    one, two, three = (f"{name}-{number}" for number in range(3))
    of = lambda *names: {asks_by: list(names) if asks_by == "channels" else {each: {} for each in names}}
    user = f"u{time.time_ns()}"
    with Peer(guarded, token=token(sub=user, **of(one, two))) as peer, Peer(guarded, token=token(sub="ann", **of(one, two, three))) as other:
        assert sorted(peer.connection["subs"]) == sorted([f"#{user}", one, two])
        peer.result(refresh={"token": token(sub=user, **of(two, three))})
        said = []
        while len(said) < 2:
            push = peer.push()
            if "unsubscribe" in push:
                assert push["unsubscribe"] == {"code": 2000, "reason": "server unsubscribe"}
            if "unsubscribe" in push or "subscribe" in push:
                said.append((push["channel"], "subscribe" in push))
        assert said == [(one, False), (three, True)]
        for channel in [one, two, three]:
            publish(other, channel, 1)
        heard = set()
        while heard != {two, three}:
            push = peer.push()
            if "pub" in push:
                heard.add(push["channel"])
        # What is its user's own, or a back end's wish, is no token's to take away.
        peer.result(refresh={"token": token(sub=user)})
        publish(peer, f"#{user}", 1)
        gone = set()
        while gone != {two, three}:
            push = peer.push()
            assert push["channel"] != f"#{user}" or "unsubscribe" not in push
            if "unsubscribe" in push:
                gone.add(push["channel"])
        publish(peer, f"#{user}", 1, 2)


def test_what_is_over_is_refused(guarded, ann, name):
    # `exp` says for how long the token can be shown, `expire_at` when what it gives is over.
    now = int(time.time())
    shown = token(sub="ann", channel=name, exp=now + 600, expire_at=now - 60)
    assert ann.code(subscribe={"channel": name, "token": shown}) == 109
    with Peer(guarded, connected=False) as peer:
        assert peer.code(connect={"token": token(sub="ann", exp=now + 600, expire_at=now - 60)}) == 109
        assert "expires" not in peer.result(connect={"token": token(sub="ann", exp=now + 600, expire_at=0)})


def test_the_server_pings_and_gives_up(tmp_path):
    server = Server(tmp_path, config="heartbeat_ms = 1000").start()
    try:
        with Peer(server) as text, Peer(server, protobuf=True) as binary:
            for peer, ping in [(text, "{}"), (binary, b"\x00")]:
                assert peer.connection["ping"] == 1
                assert peer.socket.recv(60) == ping
            for peer in [text, binary]:
                assert peer.end() == (3012, "no pong")
    finally:
        server.kill()


def test_the_personal_channel(guarded):
    user = f"u{time.time_ns()}"
    with Peer(guarded, token=token(sub=user)) as peer:
        own = peer.connection["subs"][f"#{user}"]
        assert own["recoverable"] and own["positioned"] and own["epoch"]
        assert peer.push()["join"]["info"]["user"] == user
        publish(peer, f"#{user}", 3)
        assert numbers(peer.publications(3)) == [1, 2, 3]
        assert peer.code(subscribe={"channel": f"#{user}"}) == 105
    with Peer(guarded, connected=False) as peer:
        position = {"recover": True, "offset": 1, "epoch": own["epoch"]}
        subs = peer.result(connect={"token": token(sub=user), "subs": {f"#{user}": position, "no": position}})["subs"]
        assert list(subs) == [f"#{user}"]
        assert subs[f"#{user}"]["recovered"] and numbers(subs[f"#{user}"]["publications"]) == [2, 3]
    with Peer(guarded, token=token(sub="ann", subs={"given": {"data": {"x": 1}}})) as peer:
        assert sorted(peer.connection["subs"]) == ["#ann", "given"]
        assert peer.connection["subs"]["given"]["data"] == b'{"x": 1}'
        publish(peer, "given", 1)


def test_an_end_does_not_take_the_position_where_the_server_subscribes(guarded):
    """A trim overtakes a client that does not read. It connects again, and is told that there is a gap."""
    user = f"u{time.time_ns()}"
    channel, count = f"#{user}", 150
    with Peer(guarded, token=token(sub=user)) as peer, Peer(guarded, token=token(sub="back")) as back:
        epoch = peer.connection["subs"][channel]["epoch"]
        for _ in range(count):
            rpc(back, "message.append", timeline=channel, entry={"text": "x" * 200_000})
        rpc(back, "timeline.trim", timeline=channel, before=count + 1)
        assert peer.end() == (3010, "insufficient state")
        pushes = [push for push in peer.pushes if "join" not in push]
    assert [push for push in pushes if "pub" not in push] == []
    offset = pushes[-1]["pub"]["offset"]
    assert offset < count
    with Peer(guarded, connected=False) as peer:
        position = {"recover": True, "offset": offset, "epoch": epoch}
        got = peer.result(connect={"token": token(sub=user), "subs": {channel: position}})["subs"][channel]
        assert got["was_recovering"] and not got.get("recovered") and got["offset"] == count


def test_commands_are_counted(server, peer, name):
    publish(peer, name, 1)
    text = server.metrics()
    assert "tideline_centrifuge_connections" in text
    assert 'tideline_requests_total{method="message.append",result="ok"}' in text
