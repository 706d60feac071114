"""What one may not read is told by nothing: not by lists, waits and pushes, not by who is there, not by which answer comes.

Each case stands beside its twin: somebody who may, and is told.
"""

import json
import time

import pytest

from centrifuge_wire import Peer
from centrifuge_wire import token as dialect_token
from client import Refused, until
from guarded import MESSAGE, POLICIES, Guarded, said, token, who

OURS = "a secret of this dialect, long enough"
CENTRIFUGE = f"""
[centrifuge]
client.token.hmac_secret_key = "{OURS}"
client.subscribe_to_user_personal_channel.enabled = true
channel.without_namespace = {{ presence = true, allow_subscribe_for_client = true, allow_publish_for_client = true, allow_presence_for_client = true, allow_history_for_client = true }}
"""
SEES = {"ann": "member", "bill": "blind"}


def ours(**claims):
    return dialect_token(OURS, **claims)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("hidden"), auth=POLICIES + CENTRIFUGE).start()
    yield running
    running.kill()


def append(house, timeline, **more):
    return house.call(house.admin, "message.append", timeline=timeline, entry=MESSAGE, **more)


def hall(house, name):
    """A timeline of which ann is a member who reads, and bill one who does not; both are in `NAME/open`."""
    of = lambda role: {"role": role} if role != "member" else {}
    members = [{"user": user, **of(role)} for user, role in SEES.items()]
    append(house, f"{name}/open")
    house.call(house.admin, "member.add", timeline=f"{name}/open", members=[{"user": user} for user in SEES])
    append(house, name)
    house.call(house.admin, "member.add", timeline=name, members=members)
    for user in SEES:
        until(lambda user=user: name + "/open" in json.dumps(house.call(who(user), "conversation.sync")))
    until(lambda: f'"{name}"' in json.dumps(house.call(who("ann"), "conversation.sync")))
    return name


def names_in(answer, name):
    return f'"{name}"' in json.dumps(answer)


# Members who may not read


def test_a_sync_of_conversations_does_not_name_it(house):
    name = hall(house, "room/sync")
    for user, told in [("ann", True), ("bill", False)]:
        cursor = house.call(who(user), "conversation.sync")["cursor"]
        append(house, name)
        began = time.monotonic()
        answer = house.call(who(user), "conversation.sync", cursor=cursor, wait_ms=700)
        assert names_in(answer, name) == told, (user, answer)
        # Nor by when it comes.
        assert told or time.monotonic() - began > 0.65
        append(house, f"{name}/open")
        assert names_in(house.call(who(user), "conversation.sync", cursor=cursor), f"{name}/open")


def test_a_sync_by_device_does_not_name_it(house):
    name = hall(house, "room/device")
    for user, told in [("ann", True), ("bill", False)]:
        answer = house.call(who(user), "sync", device="phone")
        assert names_in(answer, f"{name}/open") and names_in(answer, name) == told, (user, answer)
        ack = {one: {"after": state["head"], "epoch": state["epoch"]} for one, state in answer["timelines"].items() if state["state"] in ["ok", "new"]}
        house.call(who(user), "sync", device="phone", ack=ack)
        began = time.monotonic()
        append(house, name)
        answer = house.call(who(user), "sync", device="phone", wait_ms=700)
        assert names_in(answer, name) == told, (user, answer)
        assert told or time.monotonic() - began > 0.65


def test_pushes_of_conversations_do_not_name_it(house):
    name = hall(house, "room/push")
    for user, told in [("ann", True), ("bill", False)]:
        with house.open(who(user)) as client:
            client.call("subscribe", conversations=True, rewind=1)
            heard = []
            # What is appended before a timeline was read for its subscription comes with that.
            while not any(push["method"] == "subscribed" and not push["params"]["more"] for push in heard):
                heard.append(client.push())
            append(house, name)
            append(house, f"{name}/open")
            while not any(push["method"] == "message" and names_in(push, f"{name}/open") for push in heard):
                heard.append(client.push())
            house.call(house.admin, "member.update", timeline=name, user=user, attributes={"set": {"a": 1}})
            append(house, name)
            house.call(house.admin, "timeline.update", timeline=f"{name}/open", meta={"a": 1})
            while not any(push["method"] == "timeline.changed" for push in heard):
                heard.append(client.push())
            assert names_in(heard, name) == told, (user, heard)


def test_who_loses_the_right_is_told_once(house):
    name = hall(house, "room/lost")
    cursor = house.call(who("ann"), "conversation.sync")["cursor"]
    with house.open(who("ann")) as client:
        client.call("subscribe", conversations=True)
        until(lambda: any(push["method"] == "subscribed" and not push["params"]["more"] for push in pushed(client)))
        house.call(house.admin, "member.update", timeline=name, user="ann", role="blind")
        until(lambda: any(push["method"] == "conversation.changed" and push["params"]["removed"] == [name] for push in pushed(client)))
        until(lambda: [push for push in pushed(client) if push["method"] == "subscription.ended"])
        ended = [push["params"]["reason"] for push in client.pushes if push["method"] == "subscription.ended"]
        assert ended == ["forbidden"]
        client.pushes.clear()
        answer = {}

        def removed():
            answer.update(house.call(who("ann"), "conversation.sync", cursor=cursor))
            return name in answer["removed"]

        until(removed)
        append(house, name)
        client.quiet(0.3)
        assert not names_in(house.call(who("ann"), "conversation.sync", cursor=answer["cursor"], wait_ms=300), name)
        # Who may read again is shown it again.
        house.call(house.admin, "member.update", timeline=name, user="ann", role="member")
        until(lambda: names_in(house.call(who("ann"), "conversation.sync", cursor=answer["cursor"])["conversations"], name))
        until(lambda: any(push["method"] in ["subscribed", "conversation.changed"] and names_in(push, name) for push in pushed(client)))


def pushed(client):
    client.call("ping")
    return list(client.pushes)


def test_a_conversation_is_cleared_by_who_reads_it(house):
    name = hall(house, "room/clear")
    assert house.call(who("ann"), "conversation.clear", timeline=name)["cleared"] == 1
    for user, timeline in [("bill", name), ("bill", "room/none"), ("eve", name), ("eve", "room/none")]:
        with pytest.raises(Refused) as refused:
            house.call(who(user), "conversation.clear", timeline=timeline)
        assert refused.value.reason == "conversation_not_found", (user, timeline)


# Keys that act for a user


def test_a_key_meets_what_its_user_has_scheduled_where_it_has_the_right(house):
    name = hall(house, "room/later")
    later = house.call(house.admin, "ping")["time"] + 3_600_000
    house.call(who("ann"), "message.append", timeline=name, entry=MESSAGE, message_id="m", deliver_at=later)
    keys = {}
    for rights in [[], ["read"], ["read", "append"]]:
        grants = [{"on": "room/*", "allow": rights}] if rights else []
        keys[len(rights)] = house.call(house.admin, "key.create", name="acts", rights=grants, act_as=["ann"])["key"]

    def reason(key, method, timeline, **params):
        return said(json.loads(house.rpc(key, method, acting="ann", timeline=timeline, **params)[2]))

    for method, params in [("schedule.list", {}), ("schedule.cancel", {"scheduled": "m"})]:
        assert reason(keys[0], method, name, **params) == reason(keys[0], method, "room/none", **params) == "timeline_not_found"
        assert reason(keys[1], method, name, **params) == reason(keys[1], method, "room/none", **params) == "forbidden"
    assert [one["scheduled"] for one in house.call(who("ann"), "schedule.list", timeline=name)["scheduled"]] == ["m"]
    assert reason(keys[2], "schedule.list", name) == "ok"
    assert reason(keys[2], "schedule.cancel", name, scheduled="m") == "ok"
    assert house.call(who("ann"), "schedule.list", timeline=name)["scheduled"] == []


# Resumes


def test_a_history_is_gone_only_for_who_may_read_it(house):
    """With an epoch or a position: who may not read is not told that it has changed, or they would throw away what they hold."""
    name = hall(house, "room/resume")
    epoch = house.call(house.admin, "timeline.get", timeline=name)["epoch"]
    house.call(house.admin, "timeline.create", timeline="closed", settings={"members_only": True}, members=[{"user": "ann"}])
    may_make = lambda: who("eve", "read", "append", "create", on="closed*")
    places = [{"after": 1, "epoch": epoch}, {"after": 0, "epoch": "other"}, {"after": 7}]
    for place in places:
        for bearer, timeline, expected in [
            (who("bill"), name, "timeline_not_found"), (who("eve"), name, "timeline_not_found"), (who("eve"), "room/none", "timeline_not_found"),
            (may_make(), "closed", "timeline_not_found"), (may_make(), "closed-none", "epoch_changed"),
            (who("eve", "read", on="closed*"), "closed", "forbidden"), (who("eve", "read", on="closed*"), "closed-none", "forbidden"),
        ]:
            with house.open(bearer) as client:
                number = client.ask("subscribe", timeline=timeline, **place)
                try:
                    heard = client.take(number)["state"]
                except Refused as refused:
                    heard = refused.reason
                assert heard == expected, (place, timeline)
        if "epoch" in place:
            for bearer, timeline, expected in [(may_make(), "closed", "timeline_not_found"), (may_make(), "closed-none", "epoch_changed")]:
                params = {"timeline": timeline, "entry": MESSAGE, "epoch": place["epoch"]}
                assert said(json.loads(house.rpc(bearer, "message.append", **params)[2])) == expected
    with house.open(who("ann")) as client:
        assert client.call("subscribe", timeline=name, **places[1])["state"] == "epoch_changed"
    assert "closed-none" not in json.dumps(house.call(house.admin, "timeline.list"))


# Credentials


def test_a_token_for_one_channel_is_none_to_log_in_with(house):
    for claims, status in [({"channel": "news/1"}, 401), ({"channel": "news/1", "client": "x"}, 401), ({"channel": ""}, 200), ({}, 200)]:
        assert house.rpc(token("ann", **claims), "ping")[0] == status, claims
    with Peer(house, token=who("ann", "read", on="news/*")) as peer:
        append(house, "news/1")
        assert "error" not in peer.ask(subscribe={"channel": "news/1", "token": token("ann", channel="news/1", rights=[])})


def test_a_token_that_was_issued_in_the_future_counts_by_no_door(house):
    ahead = int(time.time()) + 3_600
    for shown in [ours(sub="ian", iat=ahead), token("ian", iat=ahead)]:
        with Peer(house, connected=False) as peer:
            peer.send(peer.begin(connect={"token": shown}))
            assert peer.end() == (3500, "invalid token")
    with Peer(house, token=ours(sub="ian", iat=int(time.time()) + 10)) as peer:
        assert peer.connection["client"]


# The Centrifuge dialect


def test_who_is_in_a_hidden_channel_is_not_told(house):
    house.call(house.admin, "timeline.create", timeline="club", members=[{"user": "ann"}], settings={"members_only": True})
    with Peer(house, token=ours(sub="ann")) as ann, Peer(house, token=ours(sub="eve")) as eve:
        ann.result(subscribe={"channel": "club"})
        nobody = [eve.ask(presence={"channel": "club-none"}), eve.ask(presence_stats={"channel": "club-none"})]
        heard = [eve.ask(presence={"channel": "club"}), eve.ask(presence_stats={"channel": "club"})]
        without_ids = lambda answers: [{name: value for name, value in answer.items() if name != "id"} for answer in answers]
        assert without_ids(heard) == without_ids(nobody) and "ann" not in repr(heard)
        assert [info["user"] for info in ann.result(presence={"channel": "club"})["presence"].values()] == ["ann"]
        assert ann.result(presence_stats={"channel": "club"})["num_users"] == 1


@pytest.mark.parametrize("user,has", [("al", True), ("a,b", False), ("x#al", False), ("50%", True)])
def test_a_personal_channel_is_of_one_user(house, user, has):
    with Peer(house, token=ours(sub=user)) as peer:
        assert list(peer.connection.get("subs", {})) == ([f"#{user}"] if has else [])
    for other in ["a", "b", "al"]:
        if has and user == other:
            continue
        with Peer(house, token=ours(sub=other)) as peer:
            assert f"#{user}" not in peer.connection.get("subs", {})


# Who comes first


def codes(peer, channel):
    asked = [{"subscribe": {"channel": channel}}, {"publish": {"channel": channel, "data": b"1"}}]
    return [peer.ask(**command).get("error", {"code": 0})["code"] for command in asked]


def test_options_make_no_timeline_that_a_policy_does_not_give(house):
    with Peer(house, token=ours(sub="mallory")) as mallory, Peer(house, token=who("mallory", "create", "read", on="room/*")) as maker:
        for channel in ["room/first", "open/first", "direct/dora/ed", "direct/dora/mallory"]:
            assert codes(mallory, channel) == [103, 103], channel
        assert codes(mallory, "news/first") == [0, 0]
        assert codes(maker, "room/own")[0] == 0
        # Nor by a token for it, where two others may be going to talk.
        shown = ours(sub="mallory", channel="direct/dora/ed")
        assert mallory.ask(subscribe={"channel": "direct/dora/ed", "token": shown})["error"]["code"] == 103
        made = house.call(who("dora", "create", on="direct/*"), "conversation.direct", user="ed")
        assert made["created"]
        house.call(who("dora"), "message.append", timeline=made["timeline"], entry={"text": "secret"})
        assert "secret" not in repr([mallory.ask(history={"channel": made["timeline"], "limit": 1}), mallory.ask(subscribe={"channel": made["timeline"]})])


def test_a_direct_conversation_is_closed_and_of_two(house):
    fay = lambda: who("fay", "create", on="direct/*")
    direct = lambda user: house.call(fay(), "conversation.direct", user=user)
    members = lambda timeline: [one["user"] for one in house.call(house.admin, "member.list", timeline=timeline)["members"]]
    # What was open is closed, and theirs.
    append(house, "direct/fay/gus")
    made = direct("gus")
    assert not made["created"] and members(made["timeline"]) == ["fay", "gus"]
    assert house.call(house.admin, "timeline.get", timeline=made["timeline"])["settings"]["members_only"]
    house.call(who("gus"), "message.append", timeline=made["timeline"], entry=MESSAGE)
    # Who has left comes back by their own call, and nobody else.
    for leaves, there in [("gus", ["fay"]), ("fay", ["fay"])]:
        house.call(who(leaves), "member.remove", timeline=made["timeline"], users=[leaves])
        assert not direct("gus")["created"] and members(made["timeline"]) == there
    # One with somebody else in it is no direct conversation.
    append(house, "direct/fay/hal")
    house.call(house.admin, "member.add", timeline="direct/fay/hal", members=[{"user": "mallory"}])
    with pytest.raises(Refused) as refused:
        direct("hal")
    assert refused.value.reason == "forbidden" and members("direct/fay/hal") == ["mallory"]
    house.call(house.admin, "member.remove", timeline="direct/fay/hal", users=["mallory"])
    assert direct("hal") and members("direct/fay/hal") == ["fay", "hal"]
