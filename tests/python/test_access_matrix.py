"""The matrix of doors, credentials and what is asked for: every verb, on every transport and encoding.

The verbs are those of schemas/examples, which has one for each method. Beside each refusal is a twin that is allowed. What
is there (methods, paths, operations) is asked of the server or looked for in its sources, so that nothing new is left out.
"""

import http.client
import json
import os
import re
import threading
import time

import pytest

from centrifuge_wire import Peer
from client import Client, Refused, until
from guarded import ALL, BAD, MESSAGE, POLICIES, Guarded, closed, house_in, said, signed, token, who, without_names

SCHEMAS = os.path.join(os.path.dirname(__file__), "..", "..", "schemas")


def read_json(*path):
    with open(os.path.join(SCHEMAS, *path)) as file:
        return json.load(file)


def verbs():
    """Each method with parameters that count, and the right that it needs."""
    for name in sorted(os.listdir(os.path.join(SCHEMAS, "examples"))):
        if not name.startswith("push."):
            request = read_json("examples", name)["request"]
            method = request["method"]
            # These are not to wait.
            params = {name: value for name, value in request.get("params", {}).items() if name != "wait_ms"}
            yield method, params, read_json(f"{method}.params.json")["x-right"]


VERBS = list(verbs())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    server = Guarded(tmp_path_factory.mktemp("guarded")).start()
    made = server.call(server.admin, "key.create", name="lost", rights=ALL)
    server.call(server.admin, "key.revoke", id=made["id"])
    server.call(server.admin, "session.revoke", user="rev", issued_before=int(time.time() * 1000) + 3_600_000)
    signing = server.call(server.admin, "key.create", name="tables", rights=ALL, signing=True)["key"]
    server.taken_back = {"a revoked key": made["key"], "revoked": token("rev"), "revoked, without a date": token("rev", iat=None)}
    server.taken_back["another key's secret"] = server.admin[:16] + signing[16:]
    yield server
    server.kill()


TAKEN_BACK = ["a revoked key", "revoked", "revoked, without a date", "another key's secret"]
HOW = [*BAD, *TAKEN_BACK]


def shown(server, how):
    return BAD[how]() if how in BAD else server.taken_back[how]


def what_there_is(server):
    ask = lambda method, **params: server.call(server.admin, method, **params)
    made = [ask("timeline.list"), ask("key.list"), ask("stream.cursors")]
    listed = ask("partition.list")
    # Without what they do at this moment.
    made += [listed.get("change"), [[one["partition"], one["first"], one["last"]] for one in listed["partitions"]]]
    return json.dumps([*made, ask("webhook.list")], sort_keys=True)


class Bodies:
    """Calls over one connection of HTTP that stays open."""

    def __init__(self, server, bearer, user=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.headers = {"content-type": "application/json"}
        if bearer is not None:
            self.headers["authorization"] = f"Bearer {bearer}"
        if user is not None:
            self.headers["tideline-user"] = user

    def call(self, method, params, batch=False):
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        body = json.dumps([call] if batch else call)
        try:
            response = self.asked(body)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            # It has been quiet for longer than the server keeps it.
            self.connection.close()
            response = self.asked(body)
        return response.status, response.read()

    def asked(self, body):
        self.connection.request("POST", "/v1/rpc", body=body, headers=self.headers)
        return self.connection.getresponse()


@pytest.mark.parametrize("how", ["nothing", *HOW])
def test_no_verb_is_done_over_http_with_a_bad_credential(guarded, how):
    before = what_there_is(guarded)
    bad = Bodies(guarded, None if how == "nothing" else shown(guarded, how))
    nothing = guarded.rpc(None, "ping")[2]
    for method, params, _ in VERBS:
        assert bad.call(method, params) == (401, nothing), method
    assert what_there_is(guarded) == before


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
@pytest.mark.parametrize("how", ["nothing", *HOW])
def test_no_verb_is_done_over_a_websocket_with_a_bad_credential(guarded, how, packed):
    before = what_there_is(guarded)
    open_it = ("session.open", {"token": shown(guarded, how)}) if how != "nothing" else ("ping", {})
    calls = [open_it, *((method, params) for method, params, _ in VERBS if method not in ["ping", "session.open"])]
    # What is wrong with a call is not looked at either.
    calls += [("timeline.get", {"timeline": 7}), ("sync", {"positions": {}, "wait_ms": 10}), ("nonsense", {})]
    batch = [{"jsonrpc": "2.0", "id": number, "method": method, "params": params} for number, (method, params) in enumerate(calls)]
    with Client(guarded, packed=packed) as client:
        client.send(batch)
        answers = {answer["id"]: answer for answer in client.receive()}
        assert len(answers) == len(calls)
        refused = set()
        for number, (method, _) in enumerate(calls):
            assert method == "ping" or said(answers[number]) == "unauthenticated", (method, answers[number])
            refused.add(json.dumps(answers[number].get("error"), sort_keys=True))
        assert len(refused) == (2 if how == "nothing" else 1)
        if how != "nothing":
            closed(client)
    assert what_there_is(guarded) == before


def test_their_twin_is_answered_on_every_transport(tmp_path):
    """With a token that counts no verb is `unauthenticated`; what needs `admin` is forbidden to it, and not to a key that has it."""
    server = Guarded(tmp_path).start()
    try:
        of_users = [{"on": "*", "allow": ["read", "append", "react", "signal", "create", "edit", "moderate", "members", "manage", "observe"]}]
        good = token("ada", rights=of_users)
        user, admin = Bodies(server, good), Bodies(server, server.admin)
        of_session = ["session.open", "session.renew", "session.close"]
        for method, params, right in VERBS:
            if method in of_session:
                continue
            status, body = user.call(method, params)
            reason = said(json.loads(body))
            assert status == 200 and reason != "unauthenticated", method
            assert not right.startswith("admin") or reason in ["forbidden", "method_not_found"], (method, reason)
            if right.startswith("admin") and method not in ["session.revoke", "partition.split", "partition.merge"]:
                assert said(json.loads(admin.call(method, params)[1])) != "forbidden", method
        for packed in [False, True]:
            with server.open(good, packed=packed) as client:
                for method, params, right in VERBS:
                    if method in of_session:
                        continue
                    reason = "ok"
                    try:
                        client.call(method, **params)
                    except Refused as refused:
                        reason = refused.reason
                    assert reason != "unauthenticated", method
                    assert reason == "forbidden" or not right.startswith("admin"), (method, reason)
    finally:
        server.kill()


# What a timeline hides, by every door


CENTRIFUGE = """
[centrifuge]
client.token.hmac_secret_key = "a secret of this dialect, long enough"
channel.without_namespace = { presence = true }
"""
HIDDEN, MISSING = "room/1", "room/no"
# Methods that are about no timeline that the caller names; other tests look at what they tell.
ELSEWHERE = """
backup.cancel backup.start backup.status
conversation.count conversation.direct conversation.list conversation.sync feed.following feed.range key.create key.list
key.revoke log.tail message.search partition.list partition.merge partition.split ping position.list position.remove row.get row.put
row.range rpc.discover server.history server.status session.close session.get session.list session.open session.renew
session.revoke session.ticket sql.query stream.close stream.commit stream.cursors stream.forget stream.open table.get table.list timeline.list
timeline.prefixes timeline.search webhook.dead webhook.list webhook.replay
""".split()
# What is one's own, whether the timeline is there or not; and what is not there is not deleted.
OWN = ["feed.unfollow", "position.set", "unsubscribe", "timeline.delete"]


def about(method, params, name):
    """The same parameters about another timeline; None if there is none in them."""
    schema = read_json(f"{method}.params.json").get("properties", {})
    if method in ELSEWHERE:
        return None
    if "positions" in params:
        one = dict(next(iter(params["positions"].values()))) if method == "position.set" else {"after": 0} if method == "sync" else {"read": 1}
        return {**params, "positions": {name: one}}
    if "timelines" in params:
        return {**params, "timelines": [name]}
    assert "timeline" in schema, f"{method}: is it about a timeline?"
    return {**params, "timeline": name}


def variants(method, params):
    """As the example is, without an epoch, and with one that is not the timeline's: it does not count before the right does."""
    plain = {name: value for name, value in params.items() if name != "epoch"}
    yield plain
    if "epoch" in read_json(f"{method}.params.json").get("properties", {}) and "positions" not in params:
        yield {**plain, "epoch": "0b7cQ1p5"}


class Hall:
    """A server with all doors, and connections to them that stay open."""

    def __init__(self, directory):
        self.server = server = Guarded(directory, auth=POLICIES + CENTRIFUGE).start()
        for _ in range(3):
            server.call(server.admin, "message.append", timeline=HIDDEN, entry=MESSAGE)
        roles = [{"user": "ann"}, {"user": "ben"}, {"user": "bill", "role": "blind"}]
        server.call(server.admin, "member.add", timeline=HIDDEN, members=roles)
        key = lambda **params: server.call(server.admin, "key.create", name="stranger", **params)["key"]
        elsewhere = [{"on": "rooms/*", "allow": ["read", "append", "create", "manage", "members", "moderate"]}]
        # A bearer, and the user that it acts for.
        self.strangers = {
            "a user": (who("eve"), None),
            "a user with rights elsewhere": (who("eve", "read", "append", "create", "manage", "members", "moderate", "react", "signal", on="rooms/*"), None),
            "a member without rights": (who("bill"), None),
            "a key with rights elsewhere": (key(rights=elsewhere), None),
            "a key that acts for a member": (key(rights=[], act_as=["ann"]), "ann"),
        }
        self.kept = {}

    def keep(self, door, stranger, make):
        if (door, stranger) not in self.kept:
            self.kept[door, stranger] = make(*self.strangers[stranger])
        return self.kept[door, stranger]

    def close(self):
        for kept in self.kept.values():
            if hasattr(kept, "close"):
                kept.close()
        self.server.kill()


def over_a_websocket(packed, batch):
    def ask(hall, stranger, method, params):
        client = hall.keep(f"websocket {packed}", stranger, lambda bearer, user: hall.server.open(bearer, user, packed=packed))
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        client.send([call] if batch else call)
        while True:
            answer = client.receive()
            if isinstance(answer, list):
                return answer[0]
            if "id" in answer:
                return answer

    return ask


def over_http(batch):
    def ask(hall, stranger, method, params):
        bodies = hall.keep("http", stranger, lambda bearer, user: Bodies(hall.server, bearer, user))
        body = bodies.call(method, params, batch=batch)[1]
        return json.loads(body)[0] if batch else json.loads(body)

    return ask


def refusal(error):
    """An error of Centrifuge's, as the native one that it is made of."""
    return {"error": {"data": {"reason": error["message"].split(":")[0].replace(" ", "_")}, "text": error}}


def over_centrifuge(hall, stranger, method, params):
    if hall.strangers[stranger][0].startswith("tl_"):
        return None
    peer = hall.keep("centrifuge", stranger, lambda bearer, _: Peer(hall.server, token=bearer))
    answer = peer.ask(rpc={"method": method, "data": json.dumps(params).encode()})
    if "error" in answer:
        return refusal(answer["error"])
    return {"result": json.loads(answer["rpc"]["data"])}


def over_the_api(hall, stranger, method, params):
    bearer, user = hall.strangers[stranger]
    if not bearer.startswith("tl_") or user is not None:
        return None
    headers = {"content-type": "application/json", "x-api-key": bearer}
    status, _, body = hall.server.http("POST", "/api/rpc", json.dumps({"method": method, "params": params}), headers)
    answer = json.loads(body)
    assert status == 200, (status, body)
    if "error" in answer:
        return refusal(answer["error"])
    return {"result": answer["result"]["data"]}


DOORS = {
    "websocket": over_a_websocket(False, False),
    "websocket, msgpack": over_a_websocket(True, False),
    "websocket, batch": over_a_websocket(False, True),
    "http": over_http(False),
    "http, batch": over_http(True),
    "centrifuge": over_centrifuge,
    "api": over_the_api,
}
STRANGERS_ALL = ["a user", "a user with rights elsewhere", "a member without rights", "a key with rights elsewhere", "a key that acts for a member"]
# What is said of a timeline that one may not read.
UNKNOWN = ["timeline_not_found", "conversation_not_found", "forbidden"]


@pytest.fixture(scope="module")
def hall(tmp_path_factory):
    made = Hall(tmp_path_factory.mktemp("hall"))
    yield made
    made.close()


@pytest.mark.parametrize("stranger", STRANGERS_ALL)
@pytest.mark.parametrize("door", DOORS)
def test_a_hidden_timeline_is_as_a_missing_one_by_every_door(hall, door, stranger):
    asked = 0
    for method, example, _ in VERBS:
        if about(method, example, HIDDEN) is None:
            continue
        for params in variants(method, example):
            hidden, missing = [DOORS[door](hall, stranger, method, about(method, params, name)) for name in [HIDDEN, MISSING]]
            if hidden is None:
                continue
            asked += 1
            assert without_names(hidden, HIDDEN) == without_names(missing, MISSING), (method, params)
            heard = of_one(hidden, HIDDEN)
            # Some are nobody's who is no user, or of no session of this kind.
            assert method in OWN or heard in [*UNKNOWN, "unauthenticated", "method_not_found", "not_available"], (method, hidden)
    is_key = "key" in stranger
    open_to_it = {"centrifuge": not is_key, "api": stranger == "a key with rights elsewhere"}.get(door, True)
    assert (asked > 40) == open_to_it
    there = hall.server.call(hall.server.admin, "timeline.get", timeline=HIDDEN)
    assert (there["head"], there["change_head"], there["members_count"]) == (3, 0, 3)


@pytest.mark.parametrize("stranger", STRANGERS_ALL)
def test_a_hidden_timeline_has_no_events(hall, stranger):
    bearer, user = hall.strangers[stranger]
    headers = {"authorization": f"Bearer {bearer}"} | ({"tideline-user": user} if user else {})
    for behind in ["", "&after=0", "&rewind=1", "&after=1&epoch=0b7cQ1p5", "&with=presence"]:
        heard = []
        for name in [HIDDEN, MISSING]:
            status, _, body = hall.server.http("GET", f"/v1/events?timeline={name}{behind}", headers=headers)
            heard.append((status, body.replace(name.encode(), b"")))
        assert heard[0] == heard[1] and heard[0][0] in (403, 404), (behind, heard)


def test_nothing_is_left_out_of_the_matrix(hall):
    """Methods, paths and operations that are there, and those that the matrix knows."""
    methods = {method["name"] for method in hall.server.call(hall.server.admin, "rpc.discover")["methods"]}
    assert methods == {method for method, _, _ in VERBS} and set(ELSEWHERE) <= methods
    paths = set()
    for name in ["http/mod.rs", "entrance/mod.rs", "centrifuge/emulation.rs"]:
        with open(os.path.join(SCHEMAS, "..", "src", "gateway", name)) as file:
            paths.update(re.findall(r'"(/[a-z0-9_]+(?:/[a-z0-9_]*)?)"', file.read().split("#[cfg(test)]")[0]))
    doors = {"/v1/connect", "/v1/rpc", "/v1/events", "/connection/websocket", "/connection/http_stream", "/connection/sse", "/emulation", "/api", "/api/"}
    assert paths - {"/console", "/demo", "/healthz", "/readyz", "/metrics"} == doors


def test_a_twin_who_may_is_answered(hall):
    """What is asked for in the matrix makes sense: an administrator is not told that the timeline is not there."""
    admin = Bodies(hall.server, hall.server.call(hall.server.admin, "key.create", name="all", rights=[{"on": "*", "allow": ["admin"]}], act_as=["ann"])["key"], "ann")
    for number, (method, example, _) in enumerate(VERBS):
        name = f"room/twin-{number}"
        params = about(method, {key: value for key, value in example.items() if key != "epoch"}, name)
        if params is None:
            continue
        for _ in range(3):
            hall.server.call(hall.server.admin, "message.append", timeline=name, entry=MESSAGE)
        hall.server.call(hall.server.admin, "member.add", timeline=name, members=[{"user": "ann", "role": "owner"}, {"user": "ben"}])
        answer = json.loads(admin.call(method, params)[1])
        heard = of_one(answer, name)
        assert heard not in ["timeline_not_found", "conversation_not_found", "forbidden", "invalid_params", "unauthenticated"], (method, answer)


def operations():
    with open(os.path.join(SCHEMAS, "..", "src", "wire", "tablestore", "operation.rs")) as file:
        return re.findall(r'Operation::\w+ => "(\w+)"', file.read())


def test_no_operation_of_tablestore_tells_which_keys_there_are(hall):
    made = hall.server.call(hall.server.admin, "key.create", name="tables", rights=[], signing=True)
    lost = hall.server.call(hall.server.admin, "key.create", name="lost", rights=ALL, signing=True)
    hall.server.call(hall.server.admin, "key.revoke", id=lost["id"])
    names = operations()
    assert len(names) > 20
    for name in names:
        bad = [(made["id"], "other"), ("nobody", "other"), ("nobody", ""), (lost["id"], lost["key"].split("_", 2)[2])]
        heard = {signed(hall.server, name, *shown)[::2] for shown in bad}
        assert len(heard) == 1 and next(iter(heard))[0] == 403, (name, heard)
    assert signed(hall.server, "ListTable", made["id"], made["key"].split("_", 2)[2])[0] == 200


# Ways to follow a timeline, or to wait for what is new in it. What ann, who is a member, hears.
FOLLOWS = [
    ("subscribe", lambda name: {"timeline": name}),
    ("subscribe", lambda name: {"timeline": name, "create": False}),
    ("subscribe", lambda name: {"timeline": name, "after": 0, "create": False}),
    ("subscribe", lambda name: {"timeline": name, "rewind": 1, "create": False}),
    ("subscribe", lambda name: {"timeline": name, "after": 1, "epoch": "0" * 32, "create": False}),
    ("subscribe", lambda name: {"timeline": name, "after": 1, "epoch": "0" * 32}),
    ("subscribe", lambda name: {"timeline": name, "after": 1}),
    ("subscribe", lambda name: {"timelines": {name: {}}, "create": False}),
    ("subscribe", lambda name: {"timelines": {name: {"after": 1, "epoch": "0" * 32}}}),
    ("subscribe", lambda name: {"timelines": {name: {"after": 1}}, "create": False}),
    ("sync", lambda name: {"positions": {name: {"after": 0}}}),
    ("sync", lambda name: {"positions": {name: {"after": 0}}, "wait_ms": 100}),
    ("presence.get", lambda name: {"timelines": [name]}),
]
STRANGERS = [
    lambda: who("eve"),
    lambda: who("bill"),
    lambda: who("eve", "read", "append", "create", "manage", "members", "moderate", "react", "signal", on="rooms/*"),
]


def of_one(answer, name):
    """What is said of a timeline: of an answer about many, its part."""
    part = answer.get("result", {}).get("timelines", {}).get(name)
    if part is None:
        return said(answer)
    return part.get("reason") or part.get("state") or "ok"


def check_follow(house, method, params, packed):
    def call(bearer, name, quiet):
        with house.open(bearer, packed=packed) as client:
            try:
                answer = {"result": client.call(method, **params(name))}
            except Refused as refused:
                answer = {"error": {"code": refused.code, "message": refused.message, "data": refused.data}}
            if quiet:
                house.call(house.admin, "message.append", timeline="room/1", entry={"text": "secret"})
                client.quiet(0.02)
            return answer

    allowed = of_one(call(who("ann"), "room/1", False), "room/1")
    assert allowed in ["ok", "epoch_changed"], allowed
    for stranger in STRANGERS:
        hidden, missing = call(stranger(), "room/1", True), call(stranger(), "room/none", False)
        assert of_one(hidden, "room/1") in ["timeline_not_found", "forbidden"], hidden
        assert without_names(hidden, "room/1") == without_names(missing, "room/none")
        assert "secret" not in json.dumps(hidden)


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
@pytest.mark.parametrize("method,params", FOLLOWS, ids=[f"{one[0]}-{index}" for index, one in enumerate(FOLLOWS)])
def test_what_is_hidden_can_not_be_followed(house, method, params, packed):
    check_follow(house, method, params, packed)


def resumes(house, user, packed):
    """Subscribes and goes; then what a resume from there hears."""
    house.call(house.admin, "member.add", timeline="room/1", members=[{"user": user}])
    with house.open(who(user), packed=packed) as client:
        state = client.call("subscribe", timeline="room/1")
    place = {"after": state["head"], "epoch": state["epoch"], "create": False}

    def resume(name):
        with house.open(who(user), packed=packed) as client:
            try:
                return {"result": client.call("subscribe", timeline=name, **place)}
            except Refused as refused:
                return {"error": {"code": refused.code, "message": refused.message, "data": refused.data}}

    return resume


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
def test_a_resume_is_decided_anew(house, packed):
    user = f"rex{packed}"
    resume = resumes(house, user, packed)
    assert said(resume("room/1")) == "ok"
    house.call(house.admin, "member.update", timeline="room/1", user=user, role="blind")
    hidden, missing = resume("room/1"), resume("room/none")
    assert said(hidden) == "timeline_not_found"
    assert without_names(hidden, "room/1") == without_names(missing, "room/none")


@pytest.mark.parametrize("way", ["http", "json", "msgpack"])
def test_a_wait_is_decided_anew(house, way):
    """One who waits and loses the right learns nothing of what comes then; one who keeps it does."""
    answers = {}

    def wait(user):
        head = house.call(house.admin, "timeline.get", timeline="room/1")["head"]
        params = {"positions": {"room/1": {"after": head}}, "wait_ms": 20_000}
        if way == "http":
            answers[user] = house.call(who(user), "sync", **params)
        else:
            with house.open(who(user), packed=way == "msgpack") as client:
                answers[user] = client.call("sync", **params)

    users = [f"waits-{way}", f"keeps-{way}"]
    house.call(house.admin, "member.add", timeline="room/1", members=[{"user": user} for user in users])
    threads = [threading.Thread(target=wait, args=(user,)) for user in users]
    [thread.start() for thread in threads]
    time.sleep(0.3)
    house.call(house.admin, "member.update", timeline="room/1", user=users[0], role="blind")
    house.call(house.admin, "message.append", timeline="room/1", entry={"text": "secret"})
    [thread.join(60) for thread in threads]
    lost, kept = (answers[user]["timelines"]["room/1"] for user in users)
    assert lost["state"] == "forbidden" and "secret" not in json.dumps(lost)
    assert kept["state"] == "ok"


def test_a_wait_goes_by_the_newest_token(house):
    """A session that is renewed takes its waits along: with fewer rights they learn nothing of what comes then."""
    for number, (rights, state) in enumerate([(["read"], "ok"), ([], "forbidden")]):
        name = f"waits/{number}"
        house.call(house.admin, "timeline.create", timeline=name)
        with house.open(who("wes", "read", on="waits/*")) as client:
            asked = client.ask("sync", positions={name: {"after": 0}}, wait_ms=20_000)
            client.call("session.renew", token=who("wes", *rights, on="waits/*"))
            house.call(house.admin, "message.append", timeline=name, entry={"text": "secret"})
            answer = client.take(asked)["timelines"][name]
            assert answer["state"] == state and ("secret" in json.dumps(answer)) == (state == "ok")


def test_what_is_a_users_own_is_nobody_elses(house):
    epoch = house.call(who("ann"), "timeline.get", timeline="room/1")["epoch"]
    for user in ["ann", "eve"]:
        house.call(who(user), "position.set", device=f"{user}-1", positions={"room/1": {"after": 1, "epoch": epoch}})
    devices = lambda bearer: json.dumps(house.call(bearer, "position.list"))
    assert "ann-1" in devices(who("ann")) and "ann-1" not in devices(who("eve"))
    house.call(who("eve"), "position.remove", device="ann-1")
    assert "ann-1" in devices(who("ann"))
    until(lambda: house.call(who("ann"), "conversation.list")["conversations"])
    assert house.call(who("eve"), "conversation.list")["conversations"] == []
    assert house.call(who("eve"), "conversation.count")["conversations"] == 0
    assert house.call(who("eve"), "conversation.sync")["conversations"] == []
    for method, params in [("conversation.update", {"set": {"pinned": True}}), ("conversation.hide", {}), ("conversation.get", {})]:
        heard = []
        for name in ["room/1", "room/none"]:
            with pytest.raises(Refused) as refused:
                house.call(who("eve"), method, timeline=name, **params)
            heard.append(str(refused.value).replace(name, "NAME"))
        assert "conversation_not_found" in heard[0] and heard[0] == heard[1]
    assert house.call(who("ann"), "conversation.update", timeline="room/1", set={"pinned": True})["attributes"]
    # A key acts only for whom it may.
    key = house.call(house.admin, "key.create", name="shop", rights=[], act_as=["shop-*"])["key"]
    assert house.rpc(key, "position.list", acting="ann")[0] == 403
    assert house.rpc(key, "position.list", acting="shop-1")[0] == 200


def test_what_the_relay_brought_is_decided_when_it_is_read(house):
    """What is in one's feed already leaves it with the right to read where it is from."""
    sees = who("flo", "read", on="news/*")
    for name in ["news/a", "news/b"]:
        house.call(house.admin, "timeline.create", timeline=name)
        house.call(sees, "feed.follow", timeline=name)
        house.call(house.admin, "message.append", timeline=name, entry={"text": f"in {name}"})
    feed = lambda bearer: json.dumps(house.call(bearer, "feed.range"))
    until(lambda: "in news/a" in feed(sees) and "in news/b" in feed(sees))
    some = who("flo", "read", on="news/b")
    assert "in news/b" in feed(some) and "in news/a" not in feed(some)
    assert "in news" not in feed(who("flo")) and "in news" not in feed(who("eve", "read", on="news/*"))
    assert "in news/a" in feed(sees)


def test_an_inbox_names_what_may_be_read_only(house):
    """An entry is shown to who may read its timeline: in pages, by a sync, when it is pushed. Others get a tombstone."""
    inbox, names, of_one = "$inbox/ivy", ["wire/b", "wire/a", "wire/b"], ["wire/b", None, "wire/b"]
    both, one = (lambda: who("ivy", "read", on="wire/*")), (lambda: who("ivy", "read", on="wire/b"))
    backs = [house.call(house.admin, "key.create", name="back", rights=rights, act_as=["ivy"])["key"] for rights in [GRANT, []]]
    append = lambda name: house.call(house.admin, "message.append", timeline=name, entry={"text": "x"})
    for name in ["wire/a", "wire/b"]:
        house.call(house.admin, "timeline.create", timeline=name, settings={"fan_out": "write"})
        house.call(both(), "feed.follow", timeline=name)
        until(lambda: house.call(house.admin, "feed.followers", timeline=name)["users"] == ["ivy"])
    append("wire/b")
    # It is there, and empty, from the follow on.
    until(lambda: house.call(both(), "sync", positions={inbox: {"after": 0}})["timelines"].get(inbox, {}).get("head") == 1)
    with house.open(both()) as sees, house.open(one()) as some:
        for client in [sees, some]:
            assert client.call("subscribe", timeline=inbox, after=1)["state"] == "ok"
        for name, of_some in list(zip(names, of_one))[1:]:
            append(name)
            assert [named(client.push("message")["messages"]) for client in [sees, some]] == [[name], [of_some]]
    reads = [
        lambda bearer, **acting: house.call(bearer, "message.range", timeline=inbox, **acting)["messages"],
        lambda bearer, **acting: [house.call(bearer, "message.get", timeline=inbox, sequence=at, **acting)["message"] for at in [1, 2, 3]],
        lambda bearer, **acting: house.call(bearer, "sync", positions={inbox: {"after": 0}}, **acting)["timelines"][inbox]["messages"],
    ]
    epoch = house.call(house.admin, "timeline.get", timeline="wire/a")["epoch"]
    for read in reads:
        assert named(read(both())) == named(read(backs[0], acting="ivy")) == names
        assert epoch in json.dumps(read(both())) and epoch not in json.dumps(read(one()))
        assert named(read(one())) == of_one
        assert named(read(who("ivy"))) == named(read(backs[1], acting="ivy")) == [None] * 3
    for bearer, expected in [(both(), names), (one(), of_one)]:
        with house.open(bearer) as client:
            assert named(client.call("subscribe", timeline=inbox, after=0)["messages"]) == expected
    # What is asked for of an entry does not matter.
    columns = lambda bearer: [message.get("entry") for message in house.call(bearer, "message.range", timeline=inbox, columns=["sequence"])["messages"]]
    assert columns(both()) == [{"sequence": 1}, {"sequence": 1}, {"sequence": 2}] and columns(one()) == [{"sequence": 1}, None, {"sequence": 2}]
    # Nor do rights by name, where only members may read.
    house.call(house.admin, "timeline.configure", timeline="wire/b", settings={"members_only": True})
    assert named(reads[0](both())) == [None, "wire/a", None]
    house.call(house.admin, "member.add", timeline="wire/b", members=[{"user": "ivy"}])
    assert named(reads[0](both())) == names
    # A timeline of that name that was made anew is another one.
    house.call(house.admin, "timeline.delete", timeline="wire/a")
    house.call(house.admin, "timeline.create", timeline="wire/a")
    assert named(reads[0](both())) == of_one


GRANT = [{"on": "wire/*", "allow": ["read"]}]


def named(messages):
    """What the entries of an inbox name; None for a tombstone."""
    assert all(("entry" in message) != message.get("hidden", False) for message in messages), messages
    return [message.get("entry", {}).get("timeline") for message in messages]


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_following_would_notice_a_skipped_decision(tmp_path):
    """The control: a server that skips the decision lets strangers follow."""
    house = house_in(tmp_path, {"TIDELINE_FAULT": "skip_decision"})
    try:
        for method, params in FOLLOWS:
            with pytest.raises(AssertionError):
                check_follow(house, method, params, False)
    finally:
        house.kill()
