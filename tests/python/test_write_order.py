"""Writes of one connection take effect in the order in which they were sent, whatever they have to read before.

Each method has a story: calls that lead elsewhere in another order. It is told three times on fresh names: each call
behind the answer to the one before, all of them at once, and all in one batch. Answers and what is there afterwards
must be the same. A method that has no story and is not known to write nothing fails the test.
"""

import itertools
import json
import re

import pytest

from client import Refused
from guarded import Guarded, signed
from tables import one_key_table

NUMBERS = itertools.count(1)
# Stories are told so often: what is wrong in one of ten shows.
ROUNDS = 6
MANY = 12

# Methods that write nothing, or nothing that an order could show.
READS = """
backup.status conversation.count conversation.get conversation.list conversation.sync feed.followers feed.following feed.range key.list
log.tail member.get member.list message.get message.hidden message.range message.search partition.list pin.list ping position.list
presence.get reaction.list receipt.list row.get row.range rpc.discover schedule.list server.history server.status
session.get session.list stream.cursors subscribe sync table.get table.list timeline.get timeline.list timeline.prefixes
timeline.search
timeline.readers webhook.dead webhook.list stream.open
""".split()


def call(method, **params):
    return method, params


def append(name, text, **more):
    return call("message.append", timeline=name, entry={"text": text}, **more)


def made(name):
    return call("timeline.create", timeline=name, members=[{"user": "ann"}, {"user": "cat"}])


def attributes(name, _):
    updates = [call("conversation.update", timeline=name, set={"n": number}) for number in range(MANY)]
    return [made(name)], updates, [call("conversation.get", timeline=name)]


def attributes_of_one_just_made(name, _):
    calls = [made(name), call("conversation.update", timeline=name, set={"n": 1}), call("conversation.update", timeline=name, remove=["n"])]
    return [], calls, [call("conversation.get", timeline=name)]


def hidden_behind(name, _):
    return [made(name)], [append(name, "a"), call("conversation.hide", timeline=name)], [call("conversation.get", timeline=name)]


def hidden_before(name, _):
    return [made(name)], [call("conversation.hide", timeline=name), append(name, "a")], [call("conversation.get", timeline=name)]


def follows(name, _):
    both = [call("feed.follow", timeline=name), call("feed.unfollow", timeline=name)]
    return [made(name)], both * MANY, [call("feed.following")]


def follows_at_last(name, _):
    both = [call("feed.unfollow", timeline=name), call("feed.follow", timeline=name, copy=1)]
    return [made(name)], [append(name, "a"), *both * MANY], [call("feed.following"), both[0]]


def follows_from_the_newest(name, _):
    calls = [append(name, "a"), append(name, "b"), call("feed.follow", timeline=name, copy=1), append(name, "c")]
    return [made(name)], calls, [call("feed.unfollow", timeline=name)]


def direct(name, _):
    id = f"direct/ann/{name}"
    calls = [
        call("conversation.direct", user=name),
        append(id, "a", create=False),
        call("member.remove", timeline=id, users=["ann"]),
        call("conversation.direct", user=name),
        call("conversation.update", timeline=id, set={"a": 1}),
    ]
    return [], calls, [call("member.list", timeline=id), call("conversation.get", timeline=id)]


def metas(name, _):
    calls = [call("timeline.create", timeline=name, meta={"n": 0})]
    calls += [call("timeline.update", timeline=name, meta={"n": number}) for number in range(1, MANY)]
    calls += [call("timeline.create", timeline=name, meta={"n": 99})]
    return [], calls, [call("timeline.get", timeline=name)]


def deleted(name, _):
    calls = [append(name, "a"), call("timeline.delete", timeline=name), append(name, "b"), call("timeline.trim", timeline=name, before=2), append(name, "c")]
    return [], calls, [call("message.range", timeline=name)]


def settings(name, _):
    calls = [call("timeline.configure", timeline=name, settings={"retention": {"messages": number}}) for number in range(5, 15)]
    return [made(name)], calls, [call("timeline.get", timeline=name)]


def members(name, _):
    add = call("member.add", timeline=name, members=[{"user": "ben"}])
    calls = [add, call("member.update", timeline=name, user="ben", role="a"), call("member.remove", timeline=name, users=["ben"]), add]
    return [made(name)], calls + [call("member.update", timeline=name, user="ben", role="b")], [call("member.list", timeline=name)]


def messages(name, _):
    two = call("message.append_batch", timeline=name, messages=[{"entry": {"text": "b"}}, {"entry": {"text": "c"}}])
    calls = [append(name, "a"), two, append(name, "d"), call("message.update", timeline=name, sequence=1, set={"text": "x"})]
    calls += [call("message.update", timeline=name, sequence=1, set={"text": "y"}), call("message.delete", timeline=name, sequence=2)]
    calls += [call("message.recall", timeline=name, sequence=2), call("message.recall", timeline=name, sequence=3, reason="r")]
    return [], calls, [call("message.range", timeline=name)]


def marks(name, _):
    of = {"timeline": name, "sequence": 1}
    add, remove = call("reaction.add", **of, reaction="+"), call("reaction.remove", **of, reaction="+")
    pins = [call("pin.add", **of), call("pin.remove", **of), call("pin.add", **of)]
    return [], [append(name, "a"), add, remove, add, *pins], [call("reaction.list", **of), call("pin.list", timeline=name)]


def scheduled(name, context):
    later = append(name, "later", message_id="m", deliver_at=context.later)
    cancel = call("schedule.cancel", timeline=name, scheduled="m")
    return [made(name)], [later, cancel, later, cancel, cancel, later], [call("schedule.list", timeline=name)]


def own_side(name, _):
    calls = [append(name, "a"), append(name, "b"), call("message.hide", timeline=name, sequences=[1]), call("read.set", timeline=name, read=2)]
    calls += [call("read.set", timeline=name, read=1, force=True), call("conversation.clear", timeline=name), append(name, "c")]
    return [made(name)], calls, [call("conversation.get", timeline=name), call("message.hidden", timeline=name)]


def positions(name, _):
    set_to = lambda after: call("position.set", device=name, positions={name: {"after": after, "epoch": "x"}}, force=True)
    forget = call("position.remove", device=name)
    return [], [set_to(1), set_to(2), forget, set_to(3), set_to(4)], [call("position.list", device=name)]


def subscriptions(name, _):
    both = [call("subscribe", timeline=name), call("unsubscribe", timeline=name)]
    return [made(name)], both + both, []


def cursors(name, context):
    commit = lambda at: call("stream.commit", cursor=name, position=context.positions[at], force=True)
    looked = [call("stream.cursors"), call("stream.forget", cursor=name)]
    return [call("stream.open", timelines="none/", cursor=name)], [commit(at % 2) for at in range(MANY)], looked


def cursors_forgotten(name, context):
    calls = [call("stream.commit", cursor=name, position=context.positions[0], force=True), call("stream.forget", cursor=name), call("stream.forget", cursor=name)]
    return [call("stream.open", timelines="none/", cursor=name)], calls, []


def rows(name, context):
    put = lambda number, **more: call("row.put", table=context.table, key={"id": name}, columns={"n": number}, **more)
    calls = [put(0, expect="absent"), *[put(number) for number in range(1, MANY)], put(99, expect="absent")]
    return [], calls, [call("row.get", table=context.table, key={"id": name})]


def statements(name, context):
    ask = lambda statement: call("sql.query", statement=statement.format(table=context.table, key=f"id = '{name}'", name=name))
    made = ask("CREATE TABLE IF NOT EXISTS {table} (id VARCHAR(1024), n BIGINT, PRIMARY KEY(id))")
    insert = "INSERT INTO {table} (id, n) VALUES ('{name}', 0)"
    change = "UPDATE {table} SET n = %d WHERE {key}"
    calls = [ask(insert), *[ask(change % number) for number in range(1, MANY)], ask("DELETE FROM {table} WHERE {key}"), ask(insert), ask(insert)]
    return [made], calls, [call("row.get", table=context.table, key={"id": name})]


def keys(name, context):
    revoke = call("key.revoke", id=context.spare.pop())
    return [], [revoke, revoke, call("key.create", name=name, rights=[])], []


def tokens_taken_back(name, _):
    return [], [call("session.revoke", user=name, issued_before=at) for at in [1_000, 3_000, 2_000, 4_000]], []


def of_session(name, context):
    opened = [call("session.open", device=f"{name}-{number}") for number in range(3)]
    return [], [*opened, call("session.renew", token=context.key), call("session.ticket"), call("session.close", session=name)], []


def signals(name, _):
    return [], [call("signal", timeline=name, signal={"n": number}) for number in range(8)], []


def partitions(*_):
    return [], [call("partition.split", partition=999), call("partition.merge", partition=998, **{"with": 999})], []


def backups(*_):
    return [], [call("backup.start", target="none"), call("backup.cancel")], []


def streams(*_):
    return [], [call("stream.close", stream=77), call("webhook.replay", name="none", dead=1)], []


def growing(name, _):
    def opened():
        return append(name, "a", open=True)

    def part(sequence, number, text):
        return call("message.extend", timeline=name, sequence=sequence, part=number, text=text)

    calls = [opened(), part(1, 1, "b"), opened(), part(2, 1, "b"), part(1, 2, "c")]
    calls += [call("message.finish", timeline=name, sequence=1, parts=2, outcome="done"), part(1, 3, "late")]
    calls += [call("message.stop", timeline=name, sequence=2), part(2, 2, "late"), append(name, "d")]
    return [made(name)], calls, [call("message.range", timeline=name)]


STORIES = {
    attributes: ["conversation.update"],
    attributes_of_one_just_made: [],
    hidden_behind: ["conversation.hide"],
    hidden_before: [],
    follows: ["feed.follow", "feed.unfollow"],
    follows_at_last: [],
    follows_from_the_newest: [],
    direct: ["conversation.direct"],
    metas: ["timeline.create", "timeline.update"],
    deleted: ["timeline.delete", "timeline.trim"],
    settings: ["timeline.configure"],
    members: ["member.add", "member.update", "member.remove"],
    messages: ["message.append", "message.append_batch", "message.update", "message.delete", "message.recall"],
    growing: ["message.extend", "message.finish", "message.stop"],
    marks: ["reaction.add", "reaction.remove", "pin.add", "pin.remove"],
    scheduled: ["schedule.cancel"],
    own_side: ["message.hide", "read.set", "conversation.clear"],
    positions: ["position.set", "position.remove"],
    subscriptions: ["unsubscribe"],
    cursors: ["stream.commit"],
    cursors_forgotten: ["stream.forget"],
    rows: ["row.put"],
    statements: ["sql.query"],
    keys: ["key.create", "key.revoke"],
    tokens_taken_back: ["session.revoke"],
    of_session: ["session.open", "session.renew", "session.ticket", "session.close"],
    signals: ["signal"],
    partitions: ["partition.split", "partition.merge"],
    backups: ["backup.start", "backup.cancel"],
    streams: ["stream.close", "webhook.replay"],
}


class Context:
    """A server, a key that may do everything and acts for ann, and what stories need."""

    def __init__(self, directory):
        self.server = server = Guarded(directory).start()
        every = [{"on": "*", "allow": ["admin"]}]
        create = lambda **params: server.call(server.admin, "key.create", rights=every, **params)
        self.key = create(name="all", act_as=["*"])["key"]
        self.spare = [create(name="spare")["id"] for _ in range(3 * ROUNDS)]
        self.later = server.call(server.admin, "ping")["time"] + 3_600_000
        self.table = "orders"
        _, key_id, secret = create(name="tables", signing=True)["key"].split("_", 2)
        status, _, body = signed(server, "CreateTable", key_id, secret, one_key_table(self.table))
        assert status == 200, body
        self.positions = []
        with server.open(server.admin) as client:
            for text in "ab":
                self.positions.append(client.call("stream.open", timelines="none/")["position"])
                client.call("message.append", timeline="none/1", entry={"text": text})

    def open(self):
        return self.server.open(self.key, user="ann")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    made = Context(tmp_path_factory.mktemp("order"))
    yield made
    made.server.kill()


def answer(reply):
    return reply["result"] if "result" in reply else reply["error"]["data"].get("reason")


def awaited(client, calls):
    got = []
    for method, params in calls:
        try:
            got.append(client.call(method, **params))
        except Refused as refused:
            got.append(refused.reason)
    return got


def at_once(client, calls):
    numbers = [client.ask(method, **params) for method, params in calls]
    while not all(number in client.replies for number in numbers):
        client.sort(client.receive())
    return [answer(client.replies.pop(number)) for number in numbers]


def in_one_batch(client, calls):
    client.send([{"jsonrpc": "2.0", "id": at, "method": method, "params": params} for at, (method, params) in enumerate(calls)])
    while True:
        message = client.receive()
        if isinstance(message, list):
            return [answer(reply) for reply in sorted(message, key=lambda reply: reply["id"])]
        client.sort(message)


# The answers of these say what is so by then.
LATER = ["read.set"]
# What no two runs have in common.
VARYING = re.compile(
    r'"(timestamp|created_at|updated_at|edited_at|joined_at|expires_at|committed_at|last_at|lag_ms|behind|issued_before_now)": \d+'
    r'|"version": \d{13}'  # of a row's column: a time
    r'|"(epoch|message_id|id|key|session|ticket|position|next)": "[^"]*"'
)


def told(story, context, way):
    """A story's answers and what is there afterwards, without what differs by name and time."""
    name = f"order-{next(NUMBERS):06}"
    before, calls, after = story(name, context)
    heard = []
    with context.open() as client, context.server.open(context.server.admin) as back, context.open() as ear:
        hears = story is signals
        if hears:
            ear.call("subscribe", timeline=name, **{"with": ["signals"]})
        of_back = story in [cursors, cursors_forgotten]
        caller = back if of_back else client
        awaited(caller, before)
        got = way(caller, calls)
        if hears:
            heard = [ear.push("signal")["signal"]["n"] for _ in calls]
        looked = awaited(caller, after)
    got = [one for one, (method, _) in zip(got, calls) if method not in LATER]
    text = json.dumps([got, looked, heard], sort_keys=True).replace(name, "NAME")
    for at, position in enumerate(context.positions):
        text = text.replace(position, f"POSITION {at}")
    return VARYING.sub(lambda found: "" if "POSITION" not in found[0] else found[0], text)


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
def test_writes_take_effect_in_the_order_in_which_they_were_sent(context, story):
    for _ in range(ROUNDS):
        expected = told(story, context, awaited)
        assert told(story, context, at_once) == expected
        if story is not subscriptions:
            assert told(story, context, in_one_batch) == expected


def test_every_method_has_its_story(context):
    methods = {method["name"] for method in context.server.call(context.server.admin, "rpc.discover")["methods"]}
    in_stories = {method for methods in STORIES.values() for method in methods}
    assert in_stories | set(READS) == methods and not in_stories & set(READS)
