"""PROTOCOL.md, slice 2: `with` of subscribe, signals, presence. Nothing of it is stored."""

import json
import socket
import time

import pytest

from client import Client, Refused, until


@pytest.fixture
def users(server):
    """Opens connections for users by name, and closes them."""
    opened = []

    def connect(user=None, device=None, packed=False):
        client = Client(server, packed=packed)
        opened.append(client)
        if user is not None:
            client.call("session.open", user=user, **({} if device is None else {"device": device}))
        return client

    yield connect
    for client in opened:
        client.close()


class Follower:
    """A session that follows a timeline and reads its answers only, by hand: a thousand of a library are as many threads."""

    def __init__(self, server, user, name):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.socket.sendall(
            b"GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: tideline.v1.json\r\n\r\n"
        )
        self.came = b""
        self.until(b"\r\n\r\n")
        assert self.came.startswith(b"HTTP/1.1 101 "), self.came
        self.call("session.open", user=user)
        self.call("subscribe", timeline=name)

    def until(self, text):
        while text not in self.came:
            more = self.socket.recv(4096)
            assert more, self.came
            self.came += more

    def call(self, method, **params):
        message = json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).encode()
        assert len(message) < 126  # longer ones have another head
        self.came = b""
        self.socket.sendall(bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message)
        self.until(b'"result":')

    def close(self):
        self.socket.close()


def follow(client, name, *lanes, **params):
    return client.call("subscribe", timeline=name, **({"with": list(lanes)} if lanes else {}), **params)


def online(client, name, **params):
    return client.call("presence.get", timelines=[name], **params)["timelines"][name]


def names(client, name):
    return [user["user"] for user in online(client, name)["users"]]


def test_unknown_pushes_are_refused(users, name, refused):
    ada = users("ada")
    for wrong in [["typing"], ["signals", "x"], [1], "signals", [None]]:
        refused(ada, "subscribe", -32602, "invalid_params", timeline=name, **{"with": wrong})
    assert follow(ada, name, "signals", "presence", "signals")["state"] == "ok"


def test_a_signal_goes_to_those_who_asked(users, name):
    ada, phone, ben, cleo, packed = users("ada", "desk"), users("ada", "phone"), users("ben"), users("cleo"), users("dan", packed=True)
    for client in (ada, phone, ben, packed):
        follow(client, name, "signals")
    follow(cleo, name)
    signal = {"typing": True, "n": 1, "half": 0.5, "in": {"a": [1, None]}}
    assert ada.call("signal", timeline=name, signal=signal) == {}
    pushed = {"timeline": name, "user": "ada", "device": "desk", "signal": signal}
    for client in (phone, ben, packed):
        assert client.push("signal") == pushed
    # Not to the connection that sent it, not to one that did not ask for it; and no device where none was named.
    ben.call("signal", timeline=name, signal={})
    assert ada.push("signal") == {"timeline": name, "user": "ben", "signal": {}}
    ada.quiet()
    cleo.quiet()


def test_signals_are_never_stored(users, name, server):
    ada, ben = users("ada"), users("ben")
    epoch = ada.append(name)["epoch"]
    follow(ben, name, "signals")
    ada.call("signal", timeline=name, signal={"a": 1})
    assert ben.push("signal")["signal"] == {"a": 1}
    got = ada.call("timeline.get", timeline=name)
    assert (got["head"], got["change_head"], got["epoch"]) == (1, 0, epoch)
    cleo = users("cleo")
    assert follow(cleo, name, "signals", after=0)["head"] == 1
    cleo.quiet()


def test_signals_of_a_connection_keep_their_order(users, name):
    ada, ben = users("ada"), users("ben")
    follow(ada, name)
    follow(ben, name, "signals")
    for number in [ada.ask("signal", timeline=name, signal={"n": n}) for n in range(10)]:
        ada.take(number)
    assert [ben.push("signal")["signal"]["n"] for _ in range(10)] == list(range(10))


def test_a_connection_may_send_ten_a_second(users, name):
    ada, ben = users("ada"), users("ben")
    follow(ada, name)
    follow(ben, name, "signals")
    # All in one frame: with pauses between them there would be room for another one.
    calls = [{"jsonrpc": "2.0", "id": f"s{n}", "method": "signal", "params": {"timeline": name, "signal": {"n": n}}} for n in range(11)]
    ada.send(calls)
    *sent, last = sorted(ada.receive(), key=lambda reply: int(reply["id"][1:]))
    assert all("result" in reply for reply in sent)
    limited = Refused(last["error"])
    assert (limited.code, limited.reason) == (429, "rate_limited")
    assert limited.data["retry"] is True and 0 < limited.data["retry_after_ms"] <= 101
    assert limited.data["limit"] == 10
    time.sleep(limited.data["retry_after_ms"] / 1000)
    ada.call("signal", timeline=name, signal={"n": 11})
    assert [ben.push("signal")["signal"]["n"] for _ in range(11)] == [*range(10), 11]


def test_a_timeline_takes_twenty_a_second_and_drops_the_others(users, name):
    ben = users("ben")
    follow(ben, name, "signals")
    senders = [users(f"u{n}") for n in range(5)]
    for sender in senders:
        follow(sender, name)
    begin = time.monotonic()
    asked = [(sender, sender.ask("signal", timeline=name, signal={"n": n})) for n in range(10) for sender in senders]
    # Their senders have done nothing wrong.
    assert all(sender.take(number) == {} for sender, number in asked)
    took = time.monotonic() - begin
    ben.call("ping")
    time.sleep(0.2)
    ben.call("ping")
    assert 20 <= len(ben.pushes) <= min(50, 21 + 20 * took), took


def test_a_signal_is_a_small_object_of_a_user(users, name, refused):
    ada, nobody = users("ada"), users()
    ada.append(name)
    refused(nobody, "signal", 401, "unauthenticated", timeline=name, signal={"a": 1})
    for wrong in [None, [], "x", 1, {"a": None}, {"$a": 1}]:
        refused(ada, "signal", -32602, "invalid_params", timeline=name, signal=wrong)
    refused(ada, "signal", -32602, "invalid_params", field="timeline", timeline="", signal={})
    refused(ada, "signal", -32602, "invalid_params", timeline=name)
    large = refused(ada, "signal", 413, "too_large", field="signal", timeline=name, signal={"a": "x" * 4096})
    assert large.data["limit"] == 4096 and large.data["actual"] > 4096
    assert ada.call("signal", timeline=name, signal={"a": "x" * (4096 - len('{"a":""}'))}) == {}
    refused(ada, "signal", 404, "timeline_not_found", timeline=name + "-none", signal={})
    refused(ada, "signal", 403, "forbidden", timeline="$inbox/ada", signal={})


def test_signals_and_presence_over_http(server, users, name):
    ben = users("ben", "phone")
    follow(ben, name, "signals")

    def post(method, user=None, **params):
        headers = {"content-type": "application/json"} | ({} if user is None else {"tideline-user": user})
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        status, _, reply = server.http("POST", "/v1/rpc", body, headers)
        assert status == 200
        return json.loads(reply)

    assert post("signal", "ada", timeline=name, signal={"a": 1})["result"] == {}
    assert ben.push("signal") == {"timeline": name, "user": "ada", "signal": {"a": 1}}
    # Also to the sender's connections.
    assert post("signal", "ben", timeline=name, signal={"a": 2})["result"] == {}
    assert ben.push("signal")["user"] == "ben"
    assert post("signal", timeline=name, signal={})["error"]["data"]["reason"] == "unauthenticated"
    got = post("presence.get", timelines=[name])["result"]
    assert got == {"timelines": {name: {"online": 1, "users": [{"user": "ben", "devices": ["phone"]}]}}}


def test_no_signal_before_the_reply_and_none_after_unsubscribe(users, name):
    ada, ben = users("ada"), users("ben")
    follow(ada, name)
    number = ben.ask("subscribe", timeline=name, **{"with": ["signals"]})
    for n in range(5):
        ada.call("signal", timeline=name, signal={"n": n})
    ben.take(number)
    ada.call("signal", timeline=name, signal={"n": 5})
    while ben.push("signal")["signal"]["n"] < 5:
        pass
    ben.call("unsubscribe", timeline=name)
    ada.call("signal", timeline=name, signal={"n": 6})
    ben.quiet()


def test_a_slow_reader_holds_nothing_up(users, name):
    ada, ben, slow = users("ada"), users("ben"), users("slow")
    follow(ada, name)
    follow(slow, name, "signals")
    follow(ben, name, "signals")
    for n in range(40):
        ada.call("signal", timeline=name, signal={"n": n, "text": "x" * 3000})
        assert ben.push("signal")["signal"]["n"] == n
        time.sleep(0.11)
    # It misses some, gets none twice, and they are in order.
    slow.call("ping")
    got = [push["params"]["signal"]["n"] for push in slow.pushes]
    assert got == sorted(set(got)) and got[-1] == 39


def test_presence_is_who_subscribes(users, name, refused):
    ada = users("ada", "desk")
    assert refused is not None
    ada.append(name)
    assert online(ada, name) == {"online": 0, "users": []}
    follow(ada, name)
    ben, phone, nobody = users("ben"), users("ada", "phone"), users()
    for client in (ben, phone, nobody):
        follow(client, name)
    users("cleo").call("session.open", user="cleo")
    got = online(ada, name)
    assert got == {
        "online": 2,
        "users": [{"user": "ada", "devices": ["desk", "phone"]}, {"user": "ben", "devices": []}],
    }
    assert online(nobody, name, limit=1) == {"online": 2, "users": got["users"][:1]}
    # Nobody has asked for presence, so nothing lingers.
    ben.call("unsubscribe", timeline=name)
    assert names(ada, name) == ["ada"]


def test_presence_of_many_timelines_each_for_itself(users, name, refused):
    ada = users("ada")
    follow(ada, name)
    got = ada.call("presence.get", timelines=[name, name + "-none"])["timelines"]
    assert got[name]["online"] == 1 and got[name + "-none"] == {"reason": "timeline_not_found"}
    assert ada.call("presence.get", timelines=[]) == {"timelines": {}}
    refused(ada, "presence.get", -32602, "invalid_params", field="timelines[1]", timelines=[name, name])
    refused(ada, "presence.get", -32602, "invalid_params", field="timelines[0]", timelines=[""])
    refused(ada, "presence.get", -32602, "invalid_params", field="limit", timelines=[name], limit=0)
    many = refused(ada, "presence.get", -32602, "invalid_params", timelines=[f"t{n}" for n in range(101)])
    assert (many.data["limit"], many.data["actual"]) == (100, 101)


def test_a_waiting_sync_is_not_online(users, name):
    ada, ben = users("ada"), users("ben")
    ada.append(name)
    number = ben.ask("sync", positions={name: 1}, wait_ms=2000)
    time.sleep(0.2)
    assert online(ada, name)["online"] == 0
    ada.append(name)
    ben.take(number)


def test_presence_is_pushed_to_those_who_asked(users, name):
    ada, cleo = users("ada"), users("cleo")
    follow(cleo, name, "signals")
    follow(ada, name, "presence")
    ben = users("ben", "phone")
    follow(ben, name)
    push = ada.push("presence")
    assert push == {"timeline": name, "online": 3, "joined": ["ben"], "left": []}
    # A second device is nobody new; who leaves and comes back within five seconds has not left.
    second = users("ben", "desk")
    follow(second, name)
    assert online(ada, name)["users"][1] == {"user": "ben", "devices": ["desk", "phone"]}
    ben.close()
    second.call("unsubscribe", timeline=name)
    time.sleep(1)
    follow(second, name)
    time.sleep(5)
    ada.quiet()
    assert online(ada, name)["users"][1] == {"user": "ben", "devices": ["desk"]}
    second.close()
    begin = time.monotonic()
    push = ada.push("presence")
    assert push == {"timeline": name, "online": 2, "joined": [], "left": ["ben"]}
    assert time.monotonic() - begin > 4
    cleo.quiet()


def test_at_most_one_presence_a_second(users, name):
    ada = users("ada")
    follow(ada, name, "presence")
    begin = time.monotonic()
    for n in range(30):
        follow(users(f"u{n:02}"), name)
        time.sleep(0.1)
    joined, count = [], 0
    while len(joined) < 30:
        push = ada.push("presence")
        joined += push["joined"]
        count += 1
        assert push["online"] == len(joined) + 1
    took = time.monotonic() - begin
    assert sorted(joined) == [f"u{n:02}" for n in range(30)]
    assert 2 <= count <= took + 1


def test_a_connection_counts_for_the_user_that_it_has(users, name):
    ada, other = users("ada"), users()
    follow(ada, name, "presence")
    follow(other, name)
    ada.quiet(1.2)
    other.call("session.open", user="ben")
    assert ada.push("presence")["joined"] == ["ben"]
    other.call("session.open", user="cleo", device="phone")
    assert ada.push("presence")["joined"] == ["cleo"]
    assert ada.push("presence")["left"] == ["ben"]
    assert online(ada, name)["users"][1] == {"user": "cleo", "devices": ["phone"]}


def test_a_device_is_short_text(users, refused):
    ada = users("ada")
    for wrong in ["", "x" * 65, "a\u0007"]:
        refused(ada, "session.open", -32602, "invalid_params", field="device", device=wrong)
    ada.call("session.open", device="é" * 32)


def test_a_crowd_is_pushed_as_a_number(users, name, server):
    ada = users("ada")
    follow(ada, name, "presence")
    crowd = []
    try:
        crowd += (Follower(server, f"u{n:04}", name) for n in range(1_003))
        pushes = [ada.push("presence")]
        while pushes[-1]["online"] < 1_004:
            pushes.append(ada.push("presence"))
        for push in pushes:
            assert ("joined" in push) == ("left" in push) == (push["online"] <= 1_000)
        got = online(ada, name, limit=5)
        assert got["online"] == 1_004 and [user["user"] for user in got["users"]] == ["ada", *(f"u{n:04}" for n in range(4))]
        assert len(online(ada, name, limit=9_999)["users"]) == 1_000
        for client in crowd[:10]:
            client.close()
        pushes = [ada.push("presence")]
        while pushes[-1]["online"] > 994:
            pushes.append(ada.push("presence"))
        # The first push below the mark has no names, those after it do.
        first = next(at for at, push in enumerate(pushes) if push["online"] <= 1_000)
        for at, push in enumerate(pushes):
            assert ("joined" in push) == ("left" in push) == (at > first)
        crowd[10].call("session.open", user="zoe")
        assert ada.push("presence")["joined"] == ["zoe"]
    finally:
        for client in crowd:
            client.close()


def test_member_changes_are_pushed_to_those_who_asked(users, name):
    ada, ben = users("ada"), users("ben")
    ada.call("timeline.create", timeline=name, members=[{"user": "ada"}, {"user": "ben"}])
    follow(ben, name, "presence")
    follow(ada, name, "members")
    added = ada.call("member.add", timeline=name, members=[{"user": "cleo", "role": "guest"}])
    push = ada.push("member.changed")
    assert (push["timeline"], push["removed"], push["members_count"], push["version"]) == (name, [], 3, added["version"])
    assert push["members"] == [ada.call("member.get", timeline=name, user="cleo")["member"]]
    ada.call("member.update", timeline=name, user="ben", role="owner")
    removed = ada.call("member.remove", timeline=name, users=["cleo"])
    members, gone = {}, []
    while "cleo" not in gone:
        push = ada.push("member.changed")
        members |= {member["user"]: member["role"] for member in push["members"]}
        gone += push["removed"]
    assert (members, push["version"], push["members_count"]) == ({"ben": "owner"}, removed["version"], 2)
    # Reading is no change of members.
    ben.append(name)
    ben.call("read.set", timeline=name, read=1)
    assert ada.push("message")["head"] == 1
    ada.quiet(1.5)
    assert not [push for push in ben.pushes if push["method"] == "member.changed"]


def test_many_member_changes_are_numbers(users, name):
    ada = users("ada")
    ada.call("timeline.create", timeline=name, members=[{"user": "ada"}])
    follow(ada, name, "members")
    ada.call("member.add", timeline=name, members=[{"user": f"u{n}"} for n in range(100)])
    push = ada.push("member.changed")
    assert len(push["members"]) == 100 and push["members_count"] == 101
    added = ada.call("member.add", timeline=name, members=[{"user": f"v{n}"} for n in range(101)])
    push = ada.push("member.changed")
    assert push == {"timeline": name, "version": added["version"], "members_count": 202}


def test_receipts_are_pushed_to_those_who_asked(users, name):
    ada, ben, cleo = users("ada"), users("ben"), users("cleo")
    ada.call("timeline.create", timeline=name, members=[{"user": "ada"}, {"user": "ben"}])
    ada.fill(name, 5)
    follow(ada, name, "receipts")
    follow(cleo, name, "members")
    ben.call("read.set", timeline=name, read=2, received=3)
    assert ada.push("receipt") == {"timeline": name, "receipts": [{"user": "ben", "read": 2, "received": 3}]}
    # What follows within the second comes together, the newest of each.
    for read in (3, 4, 5):
        ben.call("read.set", timeline=name, read=read)
    ada.call("read.set", timeline=name, read=4)
    got = {}
    while got.get("ben") != 5 or got.get("ada") != 4:
        got |= {one["user"]: one["read"] for one in ada.push("receipt")["receipts"]}
    cleo.quiet()


def test_large_timelines_have_no_receipts(users, name):
    ada = users("ada")
    ada.call("timeline.create", timeline=name, members=[{"user": "ada"}])
    ada.call("member.add", timeline=name, members=[{"user": f"u{n}"} for n in range(1_000)])
    ada.append(name)
    follow(ada, name, "receipts")
    ada.call("read.set", timeline=name, read=1)
    ada.quiet(1.5)
    ada.call("member.remove", timeline=name, users=["u0"])
    ada.append(name)
    ada.push("message")
    ada.call("read.set", timeline=name, read=2)
    assert ada.push("receipt")["receipts"] == [{"user": "ada", "read": 2, "received": 2}]


def test_who_may_not_read_learns_nothing(users, name, refused):
    ada, eve = users("ada"), users("eve")
    ada.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": "ada"}])
    refused(eve, "subscribe", 404, "timeline_not_found", timeline=name, **{"with": ["presence", "signals", "members", "receipts"]})
    refused(eve, "signal", 404, "timeline_not_found", timeline=name, signal={})
    follow(ada, name, "signals")
    assert online(eve, name) == {"reason": "timeline_not_found"}
    assert names(ada, name) == ["ada"]


def test_which_members_are_online_anywhere(users, name):
    """Whatever they subscribe to; told to who may read the timeline."""
    ann, ben, eve = users("ann-" + name), users("ben-" + name), users("eve-" + name)
    members = [f"{user}-{name}" for user in ["ann", "ben", "cleo"]]
    users().call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": user} for user in members])
    anywhere = lambda **params: online(ann, name, anywhere=True, **params)
    assert online(ann, name) == {"online": 0, "users": []}
    there = [{"user": user, "devices": []} for user in members]
    assert anywhere() == {"online": 2, "users": there[:2]} and anywhere(limit=1) == {"online": 2, "users": there[:1]}
    again = users("ben-" + name)
    ben.close()
    time.sleep(0.2)
    assert anywhere()["online"] == 2
    again.close()
    until(lambda: anywhere() == {"online": 1, "users": there[:1]})
    assert online(eve, name, anywhere=True) == online(eve, "no-" + name, anywhere=True) == {"reason": "timeline_not_found"}
