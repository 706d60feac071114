"""The Centrifuge dialect with [auth]: whose tokens count, what rights give, and who may call the HTTP API. Each refusal
stands beside an allowed twin."""

import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from centrifuge_wire import Closed, Peer
from centrifuge_wire import token as dialect_token
from client import Refused
from guarded import LIMITS, MESSAGE, OTHER, POLICIES, Guarded, token, who

BACK_END = "the key that back ends show the API"
OURS = "a secret of this dialect for tokens"
CENTRIFUGE = f"""
[centrifuge]
http_api.key = "{BACK_END}"
client.token.hmac_secret_key = "{OURS}"
channel.without_namespace = {{ presence = true }}
[[centrifuge.channel.namespaces]]
name = "chat"
presence = true
allow_subscribe_for_client = true
allow_publish_for_subscriber = true
allow_history_for_subscriber = true
allow_presence_for_client = true
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Of room/1 ann is a member, olga the owner, and bill one whose role gives nothing."""
    running = Guarded(tmp_path_factory.mktemp("house"), auth=POLICIES + CENTRIFUGE).start()
    members = [{"user": "ann"}, {"user": "olga", "role": "owner"}, {"user": "bill", "role": "blind"}]
    for timeline in ["room/1", "open/1", "news/1"]:
        append(running, timeline)
    running.call(running.admin, "member.add", timeline="room/1", members=members)
    yield running
    running.kill()


def append(house, timeline):
    return house.call(house.admin, "message.append", timeline=timeline, entry=MESSAGE)


def ours(**claims):
    return dialect_token(OURS, **claims)


def code(peer, **command):
    """The code of a refusal; 0 = it is not refused."""
    return peer.ask(**command).get("error", {"code": 0})["code"]


def all_codes(peer, channel):
    """Of subscribe, publish, history and presence."""
    said = [
        code(peer, subscribe={"channel": channel}),
        code(peer, publish={"channel": channel, "data": b'{"a": 1}'}),
        code(peer, history={"channel": channel, "limit": 1}),
        code(peer, presence={"channel": channel}),
    ]
    peer.ask(unsubscribe={"channel": channel})
    return said


def shown_in(peer, channel):
    return peer.result(history={"channel": channel, "limit": 100}).get("publications", [])


# Rights


@pytest.mark.parametrize("protobuf", [False, True], ids=["json", "protobuf"])
def test_rights_by_name(house, protobuf):
    of = lambda *rights: Peer(house, protobuf=protobuf, token=who("rita", *rights, on="news/*"))
    with of("read") as reader, of("read", "append") as writer, of("read", "append", "create") as maker, of() as nobody:
        assert all_codes(reader, "news/1") == [0, 103, 0, 0]
        assert all_codes(writer, "news/1") == [0, 0, 0, 0]
        assert all_codes(reader, "news/none") == all_codes(writer, "news/none") == [103, 103, 0, 0]
        assert all_codes(maker, f"news/{protobuf}") == [0, 0, 0, 0]
        # What is hidden is as what is missing, and has no history.
        assert all_codes(nobody, "news/1") == all_codes(nobody, "news/none") == [102, 102, 0, 103]
        assert shown_in(reader, "news/1") and not shown_in(nobody, "news/1")
        # A policy gives to all who have shown a token.
        assert all_codes(nobody, "open/1") == [0, 103, 0, 0]


def test_rights_by_membership(house):
    signed = [("ann", who("ann")), ("ann", ours(sub="ann")), ("olga", who("olga"))]
    for user, shown in signed:
        with Peer(house, token=shown) as member:
            # Who is there is told to those who may read by name.
            assert all_codes(member, "room/1") == [0, 0, 0, 103], user
            assert all_codes(member, "room/none") == [102, 102, 0, 103]
            assert shown_in(member, "room/1")
    for shown in [who("eve"), who("bill"), ours(sub="eve"), ours(sub="bill")]:
        with Peer(house, token=shown) as other:
            assert all_codes(other, "room/1") == all_codes(other, "room/none") == [102, 102, 0, 103]
            assert not shown_in(other, "room/1")
    with Peer(house, token=who("rita", "read", on="room/*")) as reader:
        assert all_codes(reader, "room/1") == [0, 103, 0, 0]


def test_who_is_put_out_hears_nothing_more(house):
    append(house, "room/2")
    house.call(house.admin, "member.add", timeline="room/2", members=[{"user": "ann"}, {"user": "max"}])
    with Peer(house, token=who("ann")) as ann, Peer(house, token=who("max")) as max_:
        for peer in [ann, max_]:
            peer.result(subscribe={"channel": "room/2"})
        house.call(house.admin, "member.remove", timeline="room/2", users=["ann"])
        append(house, "room/2")
        assert ann.push() == {"channel": "room/2", "unsubscribe": {"code": 2000, "reason": "server unsubscribe"}}
        assert max_.push()["pub"]["offset"] == 2
        assert code(ann, subscribe={"channel": "room/2"}) == 102
        house.call(house.admin, "member.add", timeline="room/2", members=[{"user": "ann"}])
        assert code(ann, subscribe={"channel": "room/2"}) == 0 and not ann.pushes


def test_options_give_what_rights_do_not(house):
    with Peer(house, token=who("ann")) as ann, Peer(house, token=ours()) as nobody:
        assert all_codes(ann, "chat:1") == [0, 0, 0, 0]
        # Of those who are not subscribed, as the options say.
        assert code(ann, publish={"channel": "chat:1", "data": b"1"}) == 102
        assert code(ann, presence={"channel": "chat:1"}) == 0
        assert all_codes(nobody, "chat:1") == [103, 103, 103, 103]


def test_members_only_is_above_tokens_and_options(house):
    house.call(house.admin, "timeline.create", timeline="chat:closed", members=[{"user": "ann"}], settings={"members_only": True})
    for user, allowed in [("ann", True), ("eve", False)]:
        with Peer(house, token=ours(sub=user)) as peer:
            for shown in ["", ours(sub=user, channel="chat:closed")]:
                said = code(peer, subscribe={"channel": "chat:closed", "token": shown})
                assert said == (0 if allowed else 102), (user, shown)
                assert (code(peer, publish={"channel": "chat:closed", "data": b"1"}) == 0) == allowed
                peer.ask(unsubscribe={"channel": "chat:closed"})
            # The token lets them into what is not for members only.
            assert code(peer, subscribe={"channel": "room/none", "token": ours(sub=user, channel="room/none")}) == 0


def test_a_subscription_token_may_be_signed_with_either_key(house):
    channel = "tokens/1"
    for connect in [ours(sub="ann"), who("ann")]:
        for shown, said in [
            (ours(sub="ann", channel=channel), 0),
            (token("ann", channel=channel), 0),
            (token("ann", channel=channel, secret=OTHER), 103),
            (dialect_token("other", sub="ann", channel=channel), 103),
            (ours(sub="ann", channel=channel, exp=1), 109),
            (token("ann", channel=channel, exp=1), 109),
        ]:
            with Peer(house, token=connect) as peer:
                assert code(peer, subscribe={"channel": channel, "token": shown}) == said
                # It is for a reader: nothing else comes with it.
                assert code(peer, publish={"channel": channel, "data": b"1"}) == 102
    for shown in [token("eve", channel=channel), ours(sub="ann", channel="tokens/2")]:
        with Peer(house, token=who("ann")) as peer:
            peer.send(peer.begin(subscribe={"channel": channel, "token": shown}))
            assert peer.end() == (3500, "invalid token")


def test_remote_calls_have_native_rights(house):
    def said(shown, method, **params):
        with Peer(house, token=shown) as peer:
            answer = peer.ask(rpc={"method": method, "data": json.dumps(params).encode()})
            return answer["error"]["message"].split(":")[0] if "error" in answer else "ok"

    for shown in [who("ann"), ours(sub="ann")]:
        assert said(shown, "message.append", timeline="room/1", entry=MESSAGE) == "ok"
        assert said(shown, "timeline.trim", timeline="room/1", before=1) == "forbidden"
    assert said(who("olga"), "timeline.trim", timeline="room/1", before=1) == "ok"
    assert said(who("eve"), "message.append", timeline="room/1", entry=MESSAGE) == "timeline_not_found"
    assert said(who("eve"), "key.list") == "forbidden"
    # Who has named nobody has no rights, though they may connect.
    assert said(ours(), "message.append", timeline="open/1", entry=MESSAGE) == "permission denied"
    assert said(ours(), "ping") == "permission denied" and said(ours(sub="ann"), "ping") == "ok"


# Keys


REFUSED = {
    "of nobody": lambda house: "",
    "an API key": lambda house: house.admin,
    "of another key": lambda house: token(secret=OTHER),
    "of another secret": lambda house: dialect_token("other", sub="ann"),
    "for somebody else": lambda house: token(aud="other"),
    "by somebody else": lambda house: token(iss="you"),
    "with rights that nobody gets": lambda house: token(rights=[{"on": "*", "allow": ["admin"]}]),
    "of a channel": lambda house: token(channel="news/1"),
    "of the server": lambda house: ours(sub="$inbox"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_which_tokens_count(house, kind):
    with Peer(house, connected=False) as peer:
        peer.send(peer.begin(connect={"token": REFUSED[kind](house)}))
        assert peer.end() == ((3501, "bad request") if kind == "of nobody" else (3500, "invalid token"))
    with Peer(house, connected=False) as peer:
        assert code(peer, connect={"token": token(exp=int(time.time()) - 30)}) == 109
        assert code(peer, connect={"token": token()}) == 0
    with Peer(house, token=ours(sub="ann")) as peer:
        assert "expires" not in peer.connection


def test_rights_are_claimed_with_the_keys_of_auth_only(house):
    rights = [{"on": "news/*", "allow": ["read"]}]
    with Peer(house, token=ours(sub="eve", rights=rights)) as claims, Peer(house, token=token("eve", rights=rights)) as has:
        assert code(claims, subscribe={"channel": "news/1"}) == 102
        assert code(has, subscribe={"channel": "news/1"}) == 0


def test_tokens_are_taken_back(house):
    old = {"iat": int(time.time()) - 10}
    signed = [token("rob", **old), ours(sub="rob", **old)]
    peers = [Peer(house, token=shown) for shown in [*signed, who("tom")]]
    house.call(house.admin, "session.revoke", user="rob", issued_before=int(time.time() * 1000) - 5000)
    for peer in peers[:2]:
        assert peer.end() == (3500, "invalid token")
    assert code(peers[2], rpc={"method": "ping"}) == 0
    peers[2].socket.close()
    for shown in signed:
        with Peer(house, connected=False) as peer:
            peer.send(peer.begin(connect={"token": shown}))
            assert peer.end() == (3500, "invalid token")
    for shown in [token("rob"), ours(sub="rob", iat=int(time.time()))]:
        with Peer(house, token=shown) as peer:
            assert peer.connection["client"]


def test_a_refresh_brings_other_rights(house):
    reads = [{"on": "news/*", "allow": ["read"]}]
    with Peer(house, token=token("ann", rights=[])) as peer:
        assert code(peer, subscribe={"channel": "news/1"}) == 102
        peer.result(refresh={"token": token("ann", rights=reads)})
        assert code(peer, subscribe={"channel": "news/1"}) == 0
        peer.result(refresh={"token": token("ann", rights=[])})
        append(house, "news/1")
        assert peer.push()["unsubscribe"]["code"] == 2000
        assert code(peer, subscribe={"channel": "news/1"}) == 102
        peer.send(peer.begin(refresh={"token": token("ann", exp=int(time.time()) - 30)}))
        assert peer.end() == (3005, "connection expired")
    with Peer(house, token=token("ann", rights=[])) as peer:
        peer.send(peer.begin(refresh={"token": token("eve")}))
        assert peer.end() == (3500, "invalid token")


def test_what_is_over_has_a_grace(house):
    """Connections end 25 s after their token with 3005, subscriptions with 2501, unless they are refreshed."""
    began = time.monotonic()
    ends = int(time.time()) + 4
    channel = f"grace/{os.getpid()}"
    subscribe = lambda: {"channel": channel, "token": ours(sub="ann", channel=channel, exp=ends)}
    over, kept = Peer(house, token=token("ann", exp=ends)), Peer(house, token=token("ann", exp=ends))
    dialect = Peer(house, token=ours(sub="ann", exp=ends))
    # What a back end wishes does not outlive the token.
    wished = Peer(house, token=token("wendy", exp=ends))
    assert call(house, BACK_END, "refresh", user="wendy", expire_at=ends + 600)[0] == 0
    one, other = Peer(house, token=who("ann")), Peer(house, token=who("ann"))
    for peer in [over, kept, dialect]:
        assert peer.connection["expires"] and peer.connection["ttl"] <= 4
    for peer in [one, other]:
        assert peer.result(subscribe=subscribe())["ttl"] <= 4
    time.sleep(max(0, ends + 3 - time.time()))
    # In the grace all goes on, and may be refreshed.
    append(house, channel)
    for peer in [one, other]:
        assert peer.push()["pub"]["offset"] == 1
    assert code(over, rpc={"method": "ping"}) == 0
    assert kept.result(refresh={"token": token("ann")})["ttl"] > 100
    renewed = ours(sub="ann", channel=channel, exp=ends + 600)
    assert other.result(sub_refresh={"channel": channel, "token": renewed})["ttl"] > 100
    assert one.push() == {"channel": channel, "unsubscribe": {"code": 2501, "reason": "subscription expired"}}
    assert time.time() >= ends + 25
    assert over.end() == dialect.end() == wished.end() == (3005, "connection expired")
    assert 25 < time.monotonic() - began < 45
    append(house, channel)
    assert other.push()["pub"]["offset"] == 2 and not one.pushes
    assert code(kept, rpc={"method": "ping"}) == 0 and code(one, subscribe=subscribe()) == 109
    for peer in [kept, one, other]:
        peer.socket.close()


# The HTTP API


def call(house, key, method, /, **params):
    """0 and the result, or a code and nothing, or the status that is not 200."""
    headers = {"X-API-Key": key} if key else {}
    status, _, body = house.http("POST", f"/api/{method}", json.dumps(params), headers)
    if status != 200:
        return status, None
    answer = json.loads(body)
    return answer.get("error", {"code": 0})["code"], answer.get("result")


@pytest.fixture(scope="module")
def keys(house):
    """Makes a key with rights on some names, once."""
    made = {}

    def key(*rights, on="news/*"):
        if (rights, on) not in made:
            given = [{"on": on, "allow": list(rights)}]
            made[rights, on] = house.call(house.admin, "key.create", name="back-end", rights=given)["key"]
        return made[rights, on]

    return key


NEWS = {"channel": "news/1"}
OF_CHANNELS = [
    ("publish", {**NEWS, "data": 1}, ["append"]),
    ("history", {**NEWS, "limit": 1}, ["read"]),
    ("history_remove", NEWS, ["read", "manage"]),
    ("presence", NEWS, ["read"]),
    ("presence_stats", NEWS, ["read"]),
    ("rpc", {"method": "message.append", "params": {"timeline": "news/1", "entry": MESSAGE}}, ["append"]),
]


@pytest.mark.parametrize("method, params, rights", OF_CHANNELS, ids=[one[0] for one in OF_CHANNELS])
def test_a_call_about_a_channel_needs_its_right(house, keys, method, params, rights):
    for key in [keys(*rights), keys(*rights, on="*"), house.admin, BACK_END]:
        said, result = call(house, key, method, **params)
        assert said == 0 and result is not None
    others = [right for right in ["append", "create", "manage", "read"] if right != rights[-1]]
    for key in [keys(*rights, on="other/*"), keys("create"), keys(*others)]:
        said, result = call(house, key, method, **params)
        # A history that is hidden is empty, as that of a channel where nothing was published.
        is_empty = method == "history" and said == 0 and not (result or {}).get("publications")
        assert said in (102, 103, 403, 404) or is_empty, (said, result)
    assert call(house, keys("append"), "broadcast", channels=["news/1", "other/1"], data=1)[1]["responses"][0]["result"]
    refused = call(house, keys("append"), "broadcast", channels=["news/1", "other/1"], data=1)[1]["responses"][1]
    assert refused["error"]["code"] in (102, 103)


def test_what_is_refused_is_not_done(house, keys):
    offset = append(house, "news/kept")["sequence"]
    for key in [keys("read"), keys("append"), keys("manage"), keys("read", "manage", on="other/*")]:
        assert call(house, key, "history_remove", channel="news/kept")[0] in (102, 103)
        assert call(house, key, "history_remove", channel="news/none")[0] in (102, 103)
        said, result = call(house, keys("read"), "history", channel="news/kept", limit=1)
        assert said == 0 and len(result["publications"]) == 1
    assert call(house, keys("read"), "publish", channel="news/kept", data=1)[0] == 103
    assert call(house, keys("read"), "history", channel="news/kept")[1]["offset"] == offset
    for channel in ["news/kept", "news/none"]:
        assert call(house, keys("read", "manage"), "history_remove", channel=channel)[0] == 0
    assert call(house, keys("read"), "history", channel="news/kept", limit=1)[1]["publications"] == []


def test_a_call_about_connections_needs_admin(house, keys):
    weak = keys("read", "append", "create", "manage", "observe", on="*")
    for good in [house.admin, BACK_END]:
        with Peer(house, token=who("conny")) as peer:
            commands = [
                ("subscribe", {"channel": "given/1"}, "subscribe"),
                ("unsubscribe", {"channel": "given/1"}, "unsubscribe"),
            ]
            for method, params, push in commands:
                assert call(house, weak, method, user="conny", **params)[0] == 103
                assert call(house, good, method, user="conny", **params)[0] == 0
                assert push in peer.push() and not peer.pushes
            for key, said in [(weak, 103), (good, 0)]:
                assert call(house, key, "refresh", user="conny", expire_at=int(time.time()) + 300)[0] == said
            assert code(peer, rpc={"method": "ping"}) == 0
            assert call(house, weak, "disconnect", user="conny")[0] == 103
            assert code(peer, rpc={"method": "ping"}) == 0
            assert call(house, good, "disconnect", user="conny")[0] == 0
            assert peer.end() == (3503, "force disconnect")


def test_a_call_about_the_server_needs_observe(house, keys):
    with Peer(house, token=who("ann")) as peer:
        peer.result(subscribe={"channel": "room/1"})
        for key in [keys("observe", on="*"), BACK_END]:
            assert "room/1" in call(house, key, "channels")[1]["channels"]
            assert call(house, key, "info")[1]["nodes"][0]["num_clients"] >= 1
        for method in ["channels", "info"]:
            assert call(house, keys("read", on="*"), method) == (103, None)


def test_channels_that_no_frame_holds_are_asked_for_by_a_pattern(house):
    names = [f"chat:{number:04}/{'x' * 230}" for number in range(4_000)]
    with Peer(house, token=who("ann")) as peer:
        for first in range(0, len(names), 100):
            commands = [peer.begin(subscribe={"channel": name}) for name in names[first : first + 100]]
            peer.send(*commands)
            assert not any("error" in peer.reply(command["id"]) for command in commands)
        assert call(house, BACK_END, "channels")[0] == 106
        found = call(house, BACK_END, "channels", pattern="chat:00??/x*")[1]["channels"]
        assert list(found) == names[:100]


def test_what_is_about_the_server_natively_is_for_api_keys(house, keys):
    listed = {"method": "key.list", "params": {}}
    assert call(house, house.admin, "rpc", **listed)[0] == 0
    assert call(house, BACK_END, "rpc", **listed)[0] == 103
    assert call(house, keys("append"), "rpc", **listed)[0] == 403


def test_the_key_of_the_configuration_is_for_channels_alone(house):
    """What needs a right about the server, a table, or a session of its own is refused before it is looked at."""
    with Peer(house, token=who("sam")) as peer:
        session = next(one for one in house.call(house.admin, "session.list")["sessions"] if one.get("user") == "sam")
        methods = house.call(house.admin, "rpc.discover")["methods"]
        refused = set()
        for method in methods:
            example = method["examples"][0]
            params = {one["name"]: one["value"] for one in example["params"]}
            if method["name"].startswith("session."):
                params |= {"session": session["session"]} if "session" in params else {}
            said, _ = call(house, BACK_END, "rpc", method=method["name"], params=params)
            if said == 103:
                refused.add(method["name"])
        of_channels = {"timeline", "message", "member", "reaction", "pin", "schedule", "read", "receipt", "signal", "presence", "sync"}
        others = {method["name"] for method in methods if method["name"].split(".")[0] not in of_channels}
        others |= {"timeline.readers", "message.search", "timeline.search"}
        known = {"ping", "rpc.discover", "session.open", "subscribe", "feed.follow", "feed.followers", "conversation.clear", "conversation.direct", "message.hide", "message.hidden"}
        assert refused == others - known
        assert code(peer, rpc={"method": "ping"}) == 0


def test_each_command_and_each_channel_is_a_request_of_its_key(house):
    made = house.call(house.admin, "key.create", name="greedy", rights=[{"on": "greedy/*", "allow": ["append", "create", "read"]}])
    house.limits = LIMITED
    house.reconfigure(POLICIES + CENTRIFUGE)
    try:
        for key in [made["key"], BACK_END]:
            for asks in [greedy_batch, greedy_broadcast, greedy_lines]:
                time.sleep(1.1)
                channel = f"greedy/{asks.__name__}/{key[:4]}"
                refused, head = asks(house, key, channel), head_of(house, channel)
                # A second's worth at once, and what has come since.
                assert 5 <= head < 25 and refused == 50 - head, asks
        time.sleep(1.1)
        # Several at a time: on a machine that does much else one after the other may be slow enough.
        with ThreadPoolExecutor(8) as callers:
            said = list(callers.map(lambda _: call(house, made["key"], "publish", channel="greedy/one", data=1)[0], range(40)))
        assert 429 in said and 0 in said
    finally:
        house.limits = LIMITS
        house.reconfigure(POLICIES + CENTRIFUGE)


LIMITED = "{ address = { failures_per_min = 0 }, key = { requests_per_s = 5 } }"


def greedy_batch(house, key, channel):
    commands = [{"publish": {"channel": channel, "data": 1}}] * 50
    return errors(post(house, key, "/api/batch", json.dumps({"commands": commands}))["replies"])


def greedy_broadcast(house, key, channel):
    return errors(post(house, key, "/api/broadcast", json.dumps({"channels": [channel] * 50, "data": 1}))["result"]["responses"])


def greedy_lines(house, key, channel):
    line = json.dumps({"method": "publish", "params": {"channel": channel, "data": 1}})
    status, _, body = house.http("POST", "/api", "\n".join([line] * 50), {"X-API-Key": key})
    assert status == 200
    return errors([json.loads(line) for line in body.decode().split("\n")])


def post(house, key, path, body):
    status, _, answer = house.http("POST", path, body, {"X-API-Key": key})
    assert status == 200
    return json.loads(answer)


def errors(replies):
    assert len(replies) == 50
    said = [one["error"]["code"] for one in replies if "error" in one]
    assert set(said) <= {111}
    return len(said)


def head_of(house, channel):
    return house.call(house.admin, "timeline.get", timeline=channel)["head"]


def test_a_refresh_moves_the_end_of_a_connection(house):
    for expired in [True, False]:
        with Peer(house, token=token("fred")) as peer, Peer(house, token=token("gina")) as other:
            # Within the grace it goes on for what is left of it.
            at = int(time.time()) - 23
            change = {"expired": True} if expired else {"expire_at": at}
            assert call(house, BACK_END, "refresh", user="fred", **change)[0] == 0
            assert peer.end() == (3005, "connection expired")
            assert expired or time.time() >= at + 25
            assert code(other, rpc={"method": "ping"}) == 0
    with Peer(house, token=token("fred")) as peer:
        assert call(house, BACK_END, "refresh", user="fred", expire_at=int(time.time()) - 17)[0] == 0
        assert peer.result(refresh={"token": token("fred")})["ttl"] > 100
        time.sleep(9)
        assert code(peer, rpc={"method": "ping"}) == 0


def test_who_may_call_at_all(house, keys):
    for key in [keys("observe", on="*"), house.admin, BACK_END]:
        assert call(house, key, "info")[0] == 0
    gone = house.call(house.admin, "key.create", name="gone", rights=[{"on": "*", "allow": ["observe"]}])
    assert call(house, gone["key"], "info")[0] == 0
    assert house.call(house.admin, "key.revoke", id=gone["id"]) == {"revoked": True}
    for key in ["", "other", gone["key"], BACK_END + "x", who("ann", "read", on="*"), ours(sub="ann"), OURS]:
        assert call(house, key, "info")[0] == 401, key
    with pytest.raises(Refused):
        house.call(BACK_END, "ping")


def test_a_batch_is_judged_call_by_call(house, keys):
    commands = [{"publish": {"channel": name, "data": 1}} for name in ["news/1", "other/1", "news/1"]]
    status, _, body = house.http("POST", "/api/batch", json.dumps({"commands": commands}), {"X-API-Key": keys("append")})
    replies = json.loads(body)["replies"]
    assert status == 200 and [list(one) for one in replies] == [["publish"], ["error"], ["publish"]]


def test_what_back_ends_order_is_done_in_its_order(house):
    """Also where the subscribe is still under way when the end of it is ordered."""
    with Peer(house, token=who("paul")) as peer:
        for number in range(30):
            channel = f"orders/{os.getpid()}/{number}"
            orders = [{name: {"user": "paul", "channel": channel}} for name in ["subscribe", "unsubscribe"]]
            post(house, BACK_END, "/api/batch", json.dumps({"commands": orders}))
            pushes = [peer.push(), peer.push()]
            assert ["subscribe" in push for push in pushes] == [True, False], pushes
            assert pushes[1]["unsubscribe"]["code"] == 2000
            append(house, channel)
        # Of a channel that the client itself is about to have.
        for number in range(30):
            channel = f"chat:{os.getpid()}-{number}"
            command = peer.begin(subscribe={"channel": channel})
            peer.send(command)
            assert call(house, BACK_END, "unsubscribe", user="paul", channel=channel)[0] == 0
            assert "subscribe" in peer.reply(command["id"])
            assert code(peer, rpc={"method": "ping"}) == 0
            is_ended = any(push["channel"] == channel and "unsubscribe" in push for push in peer.pushes)
            peer.pushes.clear()
            assert call(house, BACK_END, "publish", channel=channel, data=1)[0] == 0
            if not is_ended:
                # It was ordered before the subscribe was read.
                assert peer.push()["channel"] == channel
                peer.ask(unsubscribe={"channel": channel})
        assert code(peer, rpc={"method": "ping"}) == 0 and not peer.pushes


def test_what_a_back_end_has_recovered_comes_whole(house):
    channel = f"orders/{os.getpid()}/since"
    for _ in range(12):
        made = house.call(house.admin, "message.append_batch", timeline=channel, messages=[{"entry": MESSAGE}] * 10)
    for protobuf in [False, True]:
        with Peer(house, token=who("paul"), protobuf=protobuf) as peer:
            since = {"offset": 5, "epoch": made["epoch"]}
            assert call(house, BACK_END, "subscribe", user="paul", channel=channel, recover_since=since)[0] == 0
            assert peer.push()["subscribe"]["offset"] == 5
            head = append(house, channel)["sequence"]
            offsets = []
            while not offsets or offsets[-1] < head:
                offsets += [one["offset"] for one in peer.publications(1)]
            assert offsets == list(range(6, head + 1))


def test_older_back_ends_send_lines(house, keys):
    lines = [
        {"id": 1, "method": "publish", "params": {"channel": "news/1", "data": {"a": 1}}},
        {"method": "HISTORY", "params": {"channel": "news/1", "limit": 1, "reverse": True}},
        {"id": 3, "method": 9},
        {"params": {"channel": "news/1", "data": 2}},
        {"id": 5, "method": "nothing"},
        {"id": 6, "method": "publish", "params": {}},
    ]
    status, headers, body = house.http("POST", "/api", "\n".join(json.dumps(line) for line in lines), {"X-API-Key": BACK_END})
    assert status == 200 and headers["content-type"] == "application/json"
    replies = [json.loads(line) for line in body.decode().split("\n")]
    assert [one.get("id") for one in replies] == [1, None, 3, None, 5, 6]
    assert replies[0]["result"]["offset"] + 1 == replies[3]["result"]["offset"]
    assert replies[1]["result"]["publications"][0]["data"] == {"a": 1}
    assert replies[2]["result"]["nodes"][0]["name"] == "tideline"
    assert [replies[at]["error"]["code"] for at in (4, 5)] == [104, 107]
    # Nothing of a body that is not whole is done.
    head = head_of(house, "news/1")
    for broken in ["", " ", json.dumps(lines[0]) + "\n{", "[", json.dumps(lines[0]) + "x"]:
        assert house.http("POST", "/api", broken, {"X-API-Key": BACK_END})[0] == 400, broken
        assert house.http("POST", "/api/batch", broken, {"X-API-Key": BACK_END})[0] == 400, broken
    assert head_of(house, "news/1") == head
    assert house.http("POST", "/api", json.dumps(lines[0]), {"X-API-Key": "other"})[0] == 401


def peak_anew(house):
    """The server's memory; its peak is measured from now on."""
    with open(f"/proc/{house.process.pid}/clear_refs", "w") as refs:
        refs.write("5")
    return house.memory("VmHWM")


def test_of_the_answers_to_a_batch_one_is_in_memory(house):
    """The client reads nothing for a while, and then all."""
    channel, text, count = f"large/{os.getpid()}", "x" * 100_000, 200
    for _ in range(2):
        assert call(house, BACK_END, "publish", channel=channel, data=text)[0] == 0
    commands = [{"history": {"channel": channel, "limit": 2}}] * count
    before = peak_anew(house)
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=60)
    connection.request("POST", "/api/batch", json.dumps({"commands": commands}), {"X-API-Key": BACK_END})
    answer = connection.getresponse()
    time.sleep(1)
    replies = json.loads(answer.read())["replies"]
    connection.close()
    assert [len(one["history"]["publications"]) for one in replies] == [2] * count
    # All of them together have 40 MB.
    assert house.memory("VmHWM") - before < 25_000 << 10


def test_a_broadcast_writes_a_few_at_a_time(house):
    prefix, text, count = f"wide/{os.getpid()}", "x" * 50_000, 600
    channels = [f"{prefix}/{number % 4}" for number in range(300)]
    call(house, BACK_END, "publish", channel=channels[0], data=text, idempotency_key="same")
    # Nothing more is written: what is prepared for those under way is all that it takes.
    before = peak_anew(house)
    replies = call(house, BACK_END, "broadcast", channels=[channels[0]] * count, data=text, idempotency_key="same")[1]["responses"]
    assert [one["result"]["offset"] for one in replies] == [1] * count
    assert house.memory("VmHWM") - before < 25_000 << 10
    replies = call(house, BACK_END, "broadcast", channels=channels, data=1)[1]["responses"]
    assert [one["result"]["offset"] for one in replies][-4:] == [76, 75, 75, 75]


def test_without_the_section_they_are_not_served(guard):
    server = guard().start()
    with pytest.raises(Exception) as refused:
        Peer(server, token=token())
    assert not isinstance(refused.value, Closed)
    assert server.http("POST", "/api/info", "{}", {"X-API-Key": server.admin})[0] == 404
