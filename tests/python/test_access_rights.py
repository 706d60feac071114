"""Who may do what: each refusal beside an allowed twin, and the same bytes for what is hidden and what is missing."""

import contextlib
import json
import os
import signal
import time

import pytest

from client import Refused, until
from guarded import MESSAGE, POLICIES, house_in, said, who, without_names


# Every method that names a timeline, with a right that ann, who is a member, has not where she may read (`forbidden`),
# or has (`ok`).
OF_TIMELINES = [
    ("timeline.get", {}, "ok"),
    ("timeline.update", {"meta": {"a": 1}}, "forbidden"),
    ("timeline.trim", {"before": 1}, "forbidden"),
    ("timeline.configure", {"settings": {"members_only": False}, "expect_version": 77}, "forbidden"),
    ("member.add", {"members": [{"user": "zoe"}]}, "forbidden"),
    ("member.update", {"user": "ann", "role": "owner"}, "forbidden"),
    ("member.remove", {"users": ["olga"]}, "forbidden"),
    ("member.get", {"user": "ann"}, "ok"),
    ("member.list", {}, "ok"),
    ("message.append", {"entry": MESSAGE}, "ok"),
    ("message.append", {"entry": MESSAGE, "create": False, "expect_head": 99}, "condition_failed"),
    ("message.append_batch", {"messages": [{"entry": MESSAGE}]}, "ok"),
    ("message.get", {"sequence": 1}, "ok"),
    ("message.range", {}, "ok"),
    ("message.update", {"sequence": 1, "set": {"a": 1}}, "forbidden"),
    ("message.recall", {"sequence": 1}, "forbidden"),
    ("message.extend", {"sequence": 1, "part": 1, "text": "x"}, "message_closed"),
    ("message.stop", {"sequence": 1}, "message_closed"),
    ("reaction.add", {"sequence": 1, "reaction": "+1"}, "ok"),
    ("reaction.list", {"sequence": 1}, "ok"),
    ("reaction.remove", {"sequence": 1, "reaction": "+1"}, "ok"),
    ("pin.add", {"sequence": 1}, "forbidden"),
    ("pin.remove", {"sequence": 1}, "forbidden"),
    ("pin.list", {}, "ok"),
    ("message.hide", {"sequences": [1]}, "ok"),
    ("message.hidden", {}, "ok"),
    ("conversation.get", {}, "ok"),
    ("conversation.clear", {"before": 1}, "ok"),
    ("receipt.list", {"sequence": 1}, "ok"),
    ("feed.follow", {}, "ok"),
    ("feed.followers", {}, "ok"),
    ("signal", {"signal": {"typing": True}}, "ok"),
    ("schedule.list", {}, "ok"),
]


@pytest.mark.parametrize("method,params,of_ann", OF_TIMELINES, ids=[f"{one[0]}-{index}" for index, one in enumerate(OF_TIMELINES)])
def test_the_matrix_over_http(house, method, params, of_ann):
    check_matrix(lambda bearer, timeline: json.loads(house.rpc(bearer, method, timeline=timeline, **params)[2]), of_ann)


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
@pytest.mark.parametrize("method,params,of_ann", OF_TIMELINES, ids=[f"{one[0]}-{index}" for index, one in enumerate(OF_TIMELINES)])
def test_the_matrix_over_a_websocket(house, method, params, of_ann, packed):
    def call(bearer, timeline):
        with house.open(bearer, packed=packed) as client:
            try:
                return {"result": client.call(method, timeline=timeline, **params)}
            except Refused as refused:
                return {"error": {"code": refused.code, "message": refused.message, "data": refused.data}}

    check_matrix(call, of_ann)


def check_matrix(call, of_ann):
    assert said(call(who("ann"), "room/1")) == of_ann
    # Nobody's user, another's timeline, a member whose role gives nothing, a right on another prefix.
    for bearer in [who("eve"), who("bill"), who("eve", "read", "append", "manage", "members", "moderate", "react", "signal", on="rooms/*")]:
        hidden, missing = call(bearer, "room/1"), call(bearer, "room/none")
        assert said(hidden).endswith("not_found"), hidden
        assert without_names(hidden, "room/1") == without_names(missing, "room/none")


def test_a_hidden_timeline_is_not_deleted(house):
    assert house.call(who("eve"), "timeline.delete", timeline="room/1") == {"deleted": False}
    assert house.call(who("eve"), "timeline.delete", timeline="room/none") == {"deleted": False}
    with pytest.raises(Refused) as refused:
        house.call(who("ann"), "timeline.delete", timeline="room/1")
    assert refused.value.reason == "forbidden"
    house.call(house.admin, "message.append", timeline="room/gone", entry=MESSAGE)
    assert house.call(who("eve", "read", "manage", on="room/*"), "timeline.delete", timeline="room/gone") == {"deleted": True}


def test_sync_says_forbidden_and_lists_leave_out(house):
    positions = {name: {"after": 0} for name in ["open/1", "open/none", "room/1", "room/none"]}
    timelines = house.call(who("eve"), "sync", positions=positions)["timelines"]
    assert timelines.pop("open/1")["state"] == "ok"
    assert {name: one["state"] for name, one in timelines.items()} == {"room/1": "forbidden", "room/none": "forbidden"}
    hidden, missing = timelines["room/1"], timelines["room/none"]
    assert hidden == missing
    assert house.call(who("ann"), "sync", positions={"room/1": {"after": 0}})["timelines"]["room/1"]["state"] == "ok"
    listed = lambda bearer: [one["timeline"] for one in house.call(bearer, "timeline.list")["timelines"]]
    assert listed(who("eve")) == ["open/1"]
    assert "room/1" in listed(who("eve", "read", on="room/*"))
    conversations = lambda user: [one["timeline"] for one in house.call(who(user), "conversation.list")["conversations"]]
    until(lambda: conversations("ann") == ["room/1"])
    assert conversations("bill") == [] and house.call(who("bill"), "conversation.count")["conversations"] == 0


def test_what_one_follows_and_may_not_read_any_more_is_left_out(house):
    names = ["feeds/a", "feeds/b", "feeds/c"]
    sees = who("fay", "read", on="feeds/*")
    for name in names:
        house.call(house.admin, "message.append", timeline=name, entry=MESSAGE)
        house.call(sees, "feed.follow", timeline=name)
    following = lambda bearer, **page: house.call(bearer, "feed.following", **page)
    assert [one["timeline"] for one in following(sees)["timelines"]] == names
    some = who("fay", "read", on="feeds/b")
    assert [one["timeline"] for one in following(some)["timelines"]] == ["feeds/b"]
    assert following(who("fay"))["timelines"] == []
    page = following(some, limit=1)
    assert [one["timeline"] for one in page["timelines"]] == ["feeds/b"] and page.get("next") is None
    assert following(sees, limit=1)["next"] == "feeds/a"


def test_maps_say_it_for_each(house):
    marks = {name: {"read": 1} for name in ["room/1", "room/none"]}
    answer = house.call(who("eve"), "read.set", positions=marks)["timelines"]
    assert answer == {name: {"reason": "timeline_not_found"} for name in marks}
    online = house.call(who("eve"), "presence.get", timelines=["open/1", "room/1", "room/none"])["timelines"]
    assert online["room/1"] == online["room/none"] == {"reason": "timeline_not_found"} and "online" in online["open/1"]
    with house.open(who("eve")) as client:
        many = client.call("subscribe", timelines={name: {} for name in ["open/1", "room/1", "room/none"]}, create=False)["timelines"]
        assert many["room/1"] == many["room/none"] == {"reason": "timeline_not_found"} and many["open/1"]["state"] == "ok"


def test_making_needs_create(house):
    for params, method in [({}, "timeline.create"), ({"entry": MESSAGE}, "message.append")]:
        with pytest.raises(Refused) as refused:
            house.call(who("eve", "read", "append", on="made/*"), method, timeline="made/1", **params)
        assert refused.value.reason == "forbidden"
    assert house.call(who("eve", "create", on="made/*"), "timeline.create", timeline="made/1")["created"]
    # Who may create learns which names are taken.
    with pytest.raises(Refused) as refused:
        house.call(who("eve", "create", on="room/*"), "timeline.create", timeline="room/1")
    assert refused.value.reason == "forbidden"
    # As the creator, in the role of creators.
    made = house.call(who("ada", "create", on="room/*"), "timeline.create", timeline="room/ada", members=[{"user": "ben"}], settings={"members_only": True})
    assert made["created"]
    assert house.call(who("ada"), "member.get", timeline="room/ada", user="ada")["member"]["role"] == "owner"
    assert house.call(who("ben"), "message.range", timeline="room/ada")["messages"] == []
    for given in [{"members": [{"user": "ben"}]}, {"settings": {"members_only": True}}]:
        with pytest.raises(Refused) as refused:
            house.call(who("ada", "create", "read", on="open/*"), "timeline.create", timeline="open/ada", **given)
        assert refused.value.reason == "forbidden"
    with pytest.raises(Refused) as refused:
        house.call(who("eve"), "conversation.direct", user="ann")
    assert refused.value.reason == "conversation_not_found"
    assert house.call(who("eve", "create", on="direct/*"), "conversation.direct", user="ann")["created"]


def test_users_make_direct_conversations_by_their_own_call_only(house):
    append = {"entry": MESSAGE}
    makes = lambda user, *more: who(user, "create", "append", *more, on="direct/*")
    ours = house.call(makes("dan"), "conversation.direct", user="deb")
    assert ours == {"timeline": "direct/dan/deb", "epoch": ours["epoch"], "created": True}
    waits = {**append, "message_id": "later", "deliver_at": int(time.time() * 1000) + 3_600_000}
    for method, params in [("timeline.create", {}), ("message.append", append), ("message.append", waits), ("message.append_batch", {"messages": [append]})]:
        answers = [json.loads(house.rpc(makes("eve"), method, timeline=name, **params)[2]) for name in ["direct/dan/deb", "direct/dan/dora"]]
        assert said(answers[0]) == "timeline_not_found"
        assert without_names(answers[0], "direct/dan/deb") == without_names(answers[1], "direct/dan/dora")
        assert said(json.loads(house.rpc(makes("eve", "read"), method, timeline="direct/dan/dora", **params)[2])) == "forbidden"
    with house.open(makes("eve", "read")) as client:
        with pytest.raises(Refused) as refused:
            client.call("subscribe", timeline="direct/dan/dora")
        assert refused.value.reason == "forbidden"
    actor = house.call(house.admin, "key.create", name="actor", rights=[{"on": "direct/*", "allow": ["create", "append"]}], act_as=["*"])["key"]
    with pytest.raises(Refused) as refused:
        house.call(actor, "message.append", acting="eve", timeline="direct/dan/dora", **append)
    assert refused.value.reason == "timeline_not_found"
    # The twins: the two, whose conversation it is, a back end, and other names.
    assert house.call(makes("dan"), "conversation.direct", user="dora")["created"]
    assert house.call(actor, "conversation.direct", acting="fred", user="gus")["created"]
    assert not house.call(makes("dan"), "timeline.create", timeline="direct/dan/deb")["created"]
    house.call(who("dan"), "message.append", timeline="direct/dan/deb", entry=MESSAGE)
    assert len(house.call(who("deb"), "message.range", timeline="direct/dan/deb")["messages"]) == 1
    assert house.call(actor, "message.append", timeline="direct/back/end", **append)["sequence"] == 1
    assert house.call(who("eve", "create", on="directly/*"), "timeline.create", timeline="directly/dan/dora")["created"]


def test_who_reacts_without_reading_is_told_of_their_own_reaction(house):
    reacts = lambda user, *more: who(user, "react", *more, on="marks/*")
    go = lambda bearer, verb: house.call(bearer, f"reaction.{verb}", timeline="marks/1", sequence=1, reaction="x")["reactions"]
    house.call(house.admin, "message.append", timeline="marks/1", entry=MESSAGE)
    assert go(reacts("ann", "read"), "add") == {"x": {"count": 1, "users": ["ann"]}}
    for _ in range(2):
        assert go(reacts("rae"), "add") == {"x": {"count": 1, "users": ["rae"]}}
    assert go(reacts("rae", "read"), "add") == {"x": {"count": 2, "users": ["rae", "ann"]}}
    for _ in range(2):
        assert go(reacts("rae"), "remove") == {}
    assert go(reacts("rae", "read"), "remove") == {"x": {"count": 1, "users": ["ann"]}}


def test_roles_are_given_by_those_who_have_their_rights(house):
    house.call(house.admin, "message.append", timeline="room/roles", entry=MESSAGE)
    house.call(house.admin, "member.add", timeline="room/roles", members=[{"user": "olga", "role": "owner"}, {"user": "mia"}])
    adds = who("mia", "members", on="room/*")
    with pytest.raises(Refused) as refused:
        house.call(adds, "member.add", timeline="room/roles", members=[{"user": "x", "role": "owner"}])
    assert refused.value.reason == "forbidden"
    with pytest.raises(Refused) as refused:
        house.call(adds, "member.update", timeline="room/roles", user="mia", role="owner")
    assert refused.value.reason == "forbidden"
    with pytest.raises(Refused) as refused:
        house.call(adds, "member.remove", timeline="room/roles", users=["olga"])
    assert refused.value.reason == "forbidden"
    assert house.call(adds, "member.add", timeline="room/roles", members=[{"user": "x"}])["added"] == 1
    assert house.call(who("olga"), "member.update", timeline="room/roles", user="x", role="owner")["member"]["role"] == "owner"
    assert house.call(who("mia"), "member.remove", timeline="room/roles", users=["mia"])["removed"] == 1


def test_the_server_is_for_administrators(house):
    for method, params in [("stream.cursors", {}), ("webhook.list", {}), ("key.list", {}), ("session.revoke", {"user": "nobody"})]:
        for bearer in [who("eve", "read", on="*"), who("eve", "observe", on="*")]:
            with pytest.raises(Refused) as refused:
                house.call(bearer, method, **params)
            assert refused.value.reason == "forbidden", method
        house.call(house.admin, method, **params)
    with house.open(who("eve", "read", on="*")) as client:
        with pytest.raises(Refused) as refused:
            client.call("stream.open", timelines="")
        assert refused.value.reason == "forbidden"
    with house.open(house.admin) as client:
        assert client.call("stream.open", timelines="")["stream"]


def test_a_subscription_ends_with_its_right(tmp_path):
    """A change of membership, a reloaded policy, a renewed token: nothing newer comes."""
    house = house_in(tmp_path)
    try:
        openings = who("ann"), who("eve"), who("ida", "read", on="open/*"), who("olga")
        with contextlib.ExitStack() as stack:
            by_role, by_policy, by_token, keeps = (stack.enter_context(house.open(bearer)) for bearer in openings)
            # More than one look decides on.
            many = [f"open/{number}" for number in range(1, 601)]
            for name in many[1:]:
                house.call(house.admin, "timeline.create", timeline=name)
            for client, names in [(keeps, ["room/1", *many[:300]]), (by_policy, many)]:
                part = client.call("subscribe", timelines={name: {} for name in names})
                while part["more"]:
                    part = client.push("subscribed")
            by_role.call("subscribe", timeline="room/1")
            by_token.call("subscribe", timeline="open/1")
            house.call(house.admin, "member.update", timeline="room/1", user="ann", role="blind")
            house.call(house.admin, "message.append", timeline="room/1", entry={"text": "secret"})
            assert ended(by_role) == "forbidden" and keeps.messages("room/1", 1)
            house.auth = POLICIES.replace('others = ["read"]', "others = []")
            house.configure(house.auth)
            house.process.send_signal(signal.SIGHUP)
            assert [ended(by_policy) for _ in many] == ["forbidden"] * 600
            assert [ended(keeps) for _ in range(300)] == ["forbidden"] * 300
            sequence = house.call(house.admin, "message.append", timeline="open/1", entry={"text": "secret"})["sequence"]
            pushed = by_token.receive()
            assert pushed["method"] == "message" and pushed["params"]["messages"][-1]["sequence"] == sequence
            by_token.call("session.renew", token=who("ida"))
            house.call(house.admin, "message.append", timeline="open/1", entry={"text": "secret"})
            assert ended(by_token) == "forbidden"
            house.call(house.admin, "message.append", timeline="room/1", entry={"text": "for members"})
            assert keeps.messages("room/1", 1)[0]["entry"] == {"text": "for members"}
    finally:
        house.kill()


def ended(client):
    """What ends a subscription; no message may come before it."""
    deadline = time.monotonic() + 60
    while True:
        pushed = client.pushes.popleft() if client.pushes else client.receive(max(deadline - time.monotonic(), 0.01))
        assert pushed["method"] != "message", pushed
        if pushed["method"] == "subscription.ended":
            return pushed["params"]["reason"]


def test_a_waiting_sync_is_answered_when_the_rules_change(tmp_path):
    house = house_in(tmp_path)
    try:
        head = house.call(who("eve"), "timeline.get", timeline="open/1")["head"]
        with house.open(who("eve")) as client:
            asked = client.ask("sync", positions={"open/1": {"after": head}}, wait_ms=60_000)
            time.sleep(0.3)
            house.auth = POLICIES.replace('others = ["read"]', "others = []")
            house.configure(house.auth)
            began = time.monotonic()
            house.process.send_signal(signal.SIGHUP)
            assert client.take(asked)["timelines"]["open/1"]["state"] == "forbidden"
            assert time.monotonic() - began < 55
    finally:
        house.kill()


def test_a_scheduled_message_is_decided_when_it_is_due(tmp_path):
    house = house_in(tmp_path)
    try:
        at = int(time.time() * 1000) + 6000
        for name, user in [("may", "ann"), ("may_not", "olga")]:
            house.call(who(user), "message.append", timeline="room/1", entry=MESSAGE, message_id=name, deliver_at=at)
        house.call(house.admin, "member.update", timeline="room/1", user="olga", role="blind")
        ids = lambda: [one["message_id"] for one in house.call(house.admin, "message.range", timeline="room/1")["messages"]]
        until(lambda: "may" in ids())
        house.call(house.admin, "member.update", timeline="room/1", user="olga", role="owner")
        refused = lambda: [one.get("reason") for one in house.call(who("olga"), "schedule.list", timeline="room/1")["scheduled"]]
        until(lambda: refused() == ["timeline_not_found"])
        assert "may_not" not in ids()
    finally:
        house.kill()


def test_what_was_scheduled_with_a_credential_that_was_taken_back_is_not_appended(tmp_path):
    house = house_in(tmp_path)
    try:
        on = lambda name: [{"on": name, "allow": ["read", "append"]}]
        make = lambda name: house.call(house.admin, "key.create", name=name, rights=on("room/*"))
        kept, lost = make("kept"), make("lost")
        may = lambda user: who(user, "read", "append", on="room/*")
        at = int(time.time() * 1000) + 6000
        shown = {"stays": may("fay"), "goes": may("eve"), "kept": kept["key"], "lost": lost["key"]}
        for name, bearer in shown.items():
            house.call(bearer, "message.append", timeline="room/1", entry=MESSAGE, message_id=name, deliver_at=at)
        house.call(house.admin, "session.revoke", user="eve")
        house.call(house.admin, "key.revoke", id=lost["id"])
        house.restart(signal.SIGKILL)
        ids = lambda: {one["message_id"] for one in house.call(house.admin, "message.range", timeline="room/1")["messages"]}
        until(lambda: {"stays", "kept"} <= ids())
        refused = lambda bearer: [one.get("reason") for one in house.call(bearer, "schedule.list", timeline="room/1")["scheduled"]]
        until(lambda: house.rpc(may("eve"), "ping")[0] == 200)
        until(lambda: refused(may("eve")) == ["timeline_not_found"])
        until(lambda: refused(make("lost")["key"]) == ["timeline_not_found"])
        assert not {"goes", "lost"} & ids()
    finally:
        house.kill()


def test_what_one_caller_is_refused_does_not_fill_the_audit_log(house):
    for user, times in [("dora", 150), ("emil", 1)]:
        body = [{"jsonrpc": "2.0", "id": 1, "method": "key.list", "params": {}} for _ in range(times)]
        headers = {"content-type": "application/json", "authorization": f"Bearer {who(user)}"}
        assert house.http("POST", "/v1/rpc", json.dumps(body), headers)[2].count(b"forbidden") >= times
    house.call(house.admin, "key.list")
    lines = lambda user: [line for line in house.whole_log().splitlines() if " audit" in line and user in line]
    # A minute may begin meanwhile.
    assert 60 <= len(lines('"dora"')) <= 120 and len(lines('"emil"')) == 1 and lines("$key/admin")


def test_who_may_not_read_a_conversation_is_told_apart_from_who_left_it(house):
    house.call(house.admin, "timeline.create", timeline="room/both", members=[{"user": "stayer"}, {"user": "goer"}])
    with house.open(who("stayer")) as stays, house.open(who("goer")) as goes:
        for client in [stays, goes]:
            until(lambda: client.call("conversation.count")["conversations"] == 1)
            client.call("subscribe", conversations=True)
        house.call(house.admin, "message.append", timeline="room/both", entry=MESSAGE)
        for client in [stays, goes]:
            while client.push()["method"] != "message":
                pass
        house.call(house.admin, "member.update", timeline="room/both", user="stayer", role="blind")
        house.call(house.admin, "member.remove", timeline="room/both", users=["goer"])
        house.call(house.admin, "message.append", timeline="room/both", entry={"text": "secret"})
        assert (ended(stays), ended(goes)) == ("forbidden", "not_a_member")


def test_audit_lines(house):
    house.call(who("olga"), "pin.add", timeline="room/1", sequence=1)
    with pytest.raises(Refused):
        house.call(who("ann"), "timeline.update", timeline="room/1", meta={"canary": "canary"})
    lines = [line for line in house.whole_log().splitlines() if "audit" in line]
    assert any("pin.add" in line and "olga" in line and "ok" in line for line in lines)
    assert any("timeline.update" in line and "ann" in line and "forbidden" in line for line in lines)
    assert not any("canary" in line for line in lines)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_the_matrix_would_notice_a_skipped_decision(tmp_path):
    """The control: a server that skips the decision fails the matrix."""
    house = house_in(tmp_path, {"TIDELINE_FAULT": "skip_decision"})
    try:
        failed = 0
        for method, params, of_ann in OF_TIMELINES:
            call = lambda bearer, timeline: json.loads(house.rpc(bearer, method, timeline=timeline, **params)[2])
            try:
                check_matrix(call, of_ann)
            except AssertionError:
                failed += 1
        assert failed > len(OF_TIMELINES) // 2
    finally:
        house.kill()


