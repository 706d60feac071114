"""LangGraph's memory in a table, by our package as it is installed: what its own store in memory answers, also while the server is killed."""

import asyncio
import itertools
import math
import os
import random
import signal
import threading

import pytest
from tablestore import CapacityUnit, OTSClient, OTSServiceError, ReservedThroughput, TableMeta, TableOptions
from urllib3.exceptions import HTTPError

from agents import Kills
from sdk import STRING_KEY

LETTERS = "abcdefgh"
MIB = 1 << 20
NUMBERS = itertools.count(1)


def embed(texts):
    return [[text.count(letter) for letter in LETTERS] for text in texts]


INDEX = {"embed": embed, "dims": len(LETTERS), "fields": ["text", "more[*]"]}


def client_of(server):
    return OTSClient(server.origin, "development", "development", "tideline")


def store_of(client, **options):
    from langgraph_tideline import TidelineStore

    made = TidelineStore(client, **{"table": f"store_{next(NUMBERS)}", "index": INDEX, **options})
    made.setup()
    return made


@pytest.fixture
def store(installed, server):
    made = store_of(client_of(server))
    yield made
    made._items._client.delete_search_index(made._items.table, made._items.index)
    made._items._client.delete_table(made._items.table)


@pytest.fixture
def clock(installed, monkeypatch):
    """Moves the clock of the program by these minutes."""
    from langgraph_tideline import items, store

    real, moved = items.now_us, [0]
    for module in items, store:
        monkeypatch.setattr(module, "now_us", lambda: real() + moved[0])

    def move(minutes):
        moved[0] += round(minutes * 60_000_000)

    return move


def keys(found):
    return [item.key for item in found]


def raw(store, key, namespace="a"):
    """The columns of an item's row."""
    _, row, _ = store._items._client.get_row(store._items.table, [("namespace", namespace), ("key", key)], max_version=1)
    return row and {name: value for name, value, _ in row.attribute_columns}


class Model:
    """Random operations, done by a store of ours and by LangGraph's in memory."""

    LABELS = ["foo", "foobar", "Foo", "fo", "user_1", "userX1", "a%b", "a-b", "star*", "alice", "alice\n", "潮"]
    WORDS = ["abc", "aab", "bcd", "dde", "fgh", "hhh", "", "xyz"]

    def __init__(self, store, seed):
        from langgraph.store.memory import InMemoryStore

        self.store, self.memory, self.chance = store, InMemoryStore(index=INDEX), random.Random(seed)
        # What was put last comes first.
        self.order, self.done = [], 0

    def namespace(self, least=1):
        return tuple(self.chance.choice(self.LABELS) for _ in range(self.chance.randint(least, 3)))

    def value(self):
        chance = self.chance
        # No text twice: the store in memory takes none.
        text, *more = chance.sample(self.WORDS, chance.randint(1, 4))
        value = {"n": chance.choice([chance.randint(-5, 5), chance.random() * 5]), "text": text}
        extras = {
            "more": more, "open": chance.random() < 0.5,
            "where": {"lat": chance.randint(0, 2), "deep": {"x": [1, {"y": "潮"}]}}, "none": None, "a.b": "dots",
            "long": "t" * 300 + chance.choice("xy"),
        }  # fmt: skip
        return value | {name: extra for name, extra in extras.items() if chance.random() < 0.4}

    def filter(self):
        chance = self.chance
        # The store in memory knows an order of numbers only, and of values that are there.
        wanted = {
            "n": chance.choice([2, {"$gt": chance.randint(-5, 5)}, {"$gte": 1, "$lt": 3.5}, {"$lte": chance.random()}, {"$eq": 1}, {"$ne": 1}]),
            "text": chance.choice(["abc", {"$ne": "abc"}, {"$eq": ""}]), "open": chance.choice([True, False, {"$ne": True}]),
            "where": chance.choice([{"lat": 1}, {"lat": {"$gte": 1}, "deep": {"x": [1, {"y": "潮"}]}}]), "none": None, "a.b": "dots",
            "long": "t" * 300 + "x", "more": ["abc"], "absent": {"$ne": 3},
        }  # fmt: skip
        if chance.random() < 0.3:
            return None
        names = chance.sample(sorted(wanted), chance.randint(1, 2))
        return {name: wanted[name] for name in names}

    def op(self):
        from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

        chance, known = self.chance, self.order and self.chance.random() < 0.6
        namespace, key = chance.choice(self.order) if known else (self.namespace(), str(chance.randint(0, 2)))
        match chance.choice(["put"] * 5 + ["delete", "get", "search", "search", "list"]):
            case "put":
                return PutOp(namespace, key, self.value(), index=chance.choice([None, None, False, ["text"], ["long", "where.lat"]]))
            case "delete":
                return PutOp(namespace, key, None)
            case "get":
                return GetOp(namespace, key)
            case "search":
                prefix = namespace[: chance.randint(0, 2)]
                return SearchOp(prefix, self.filter(), limit=10_000, query=chance.choice([None, "", "aab", "hhd"]))
        kinds = [kind for kind in ("prefix", "suffix") if chance.random() < 0.4]
        conditions = [MatchCondition(kind, tuple(chance.choice([label, "*"]) for label in self.namespace())) for kind in kinds]
        return ListNamespacesOp(tuple(conditions), chance.choice([None, 1, 2]), chance.choice([3, 100]), chance.choice([0, 2]))

    def turn(self):
        from langgraph.store.base import ListNamespacesOp, PutOp, SearchOp

        ops = [self.op() for _ in range(self.chance.randint(1, 4))]
        # It would keep vectors that an item had before.
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        due = self.memory.batch([op for op in ops if not isinstance(op, PutOp)])
        self.memory.batch([op._replace(value=None) for op in puts.values()])
        for op in puts.values():
            self.memory.batch([op])
        got = [one for one, op in zip(self.store.batch(ops), ops, strict=True) if not isinstance(op, PutOp)]
        for op, ours, theirs in zip([op for op in ops if not isinstance(op, PutOp)], got, due, strict=True):
            if isinstance(op, ListNamespacesOp):
                # Namespaces of which every item is deleted stay in memory.
                continue
            self.same(op, ours, theirs) if isinstance(op, SearchOp) else self.same(op, [ours], [theirs])
        for place, op in puts.items():
            self.order = ([place] if op.value is not None else []) + [one for one in self.order if one != place]
        self.done += len(ops)

    def same(self, op, ours, theirs):
        def shown(items, what):
            return {item and (item.namespace, item.key): getattr(item, what, None) for item in items}

        assert shown(ours, "value") == shown(theirs, "value"), op
        assert shown(ours, "score") == pytest.approx(shown(theirs, "score"), abs=1e-5), op
        scores = [item.score for item in ours if hasattr(item, "score")]
        assert len(ours) == len(theirs) and scores == sorted(scores, key=lambda score: math.inf if score is None else -score), op
        if hasattr(op, "query") and not op.query:
            places = [(item.namespace, item.key) for item in ours]
            assert places == [place for place in self.order if place in places], op

    def namespaces(self):
        from langgraph.store.base import ListNamespacesOp
        from langgraph.store.memory import InMemoryStore

        # Of what is there now.
        memory = InMemoryStore()
        for namespace, key in self.order:
            memory.put(namespace, key, {})
        ops = [op for op in (self.op() for _ in range(200)) if isinstance(op, ListNamespacesOp)]
        assert self.store.batch(ops) == memory.batch(ops)
        return len(ops)

    def run(self, turns):
        for _ in range(turns):
            self.turn()
        return self


def test_random_operations_are_answered_as_by_the_store_in_memory(store):
    model = Model(store, 1).run(80)
    assert model.namespaces() > 5 and len(model.order) > 20


def test_the_model_notices_what_is_lost(store):
    """The control of the model: some rows are not written."""
    written, write = itertools.count(1), store._items._write_page
    store._items._write_page = lambda page: next(written) % 9 and write(page)
    with pytest.raises(AssertionError):
        Model(store, 3).run(120)


def test_nothing_is_lost_while_the_server_is_killed(installed, own_server):
    store = store_of(client_of(own_server.start()))
    line = Kills(own_server, store._items._client, every=12)
    model = Model(store, 4)
    while line.kills < 6:
        model.turn()
    assert model.done > 20


def test_a_store_that_repeats_nothing_fails_then(installed, own_server):
    """The control of the kills."""
    store = store_of(client_of(own_server.start()), patience_s=0)
    Kills(own_server, store._items._client, every=12)
    with pytest.raises((OTSServiceError, HTTPError, OSError)):
        Model(store, 4).run(100)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_server_that_answers_before_it_writes_is_noticed(installed, own_server):
    """The control of what is answered."""
    store = store_of(client_of(own_server.start()))
    own_server.environment = {"TIDELINE_FAULT": "ack_before_log"}
    own_server.restart(signal.SIGKILL)
    Kills(own_server, store._items._client, every=5)
    with pytest.raises(AssertionError):
        Model(store, 4).run(200)


def test_an_item_keeps_when_it_was_made_and_each_put_is_later(store, clock):
    store.put(("a", "b"), "k", {"n": 1})
    first = store.get(("a", "b"), "k")
    clock(-5)
    store.put(("a", "b"), "k", {"n": 2})
    second = store.get(("a", "b"), "k")
    assert second.created_at == first.created_at and second.updated_at > first.updated_at and second.value == {"n": 2}
    assert first.created_at.utcoffset().total_seconds() == 0 and first.namespace == ("a", "b")
    store.delete(("a", "b"), "k")
    store.delete(("a", "b"), "k")
    assert store.get(("a", "b"), "k") is None and store.search(()) == [] and store.list_namespaces() == []


def test_filters_compare_alike_with_alike(store):
    items = {
        "int": 3, "float": 3.5, "large": 2**60, "larger": 2**60 + 1, "text": "3", "date": "2026-11-28", "true": True, "one": 1,
        "list": [1, 2], "none": None,
    }  # fmt: skip
    for key, value in items.items():
        store.put(("a",), key, {"v": value, "other": 0})
    store.put(("a",), "absent", {})

    def found(wanted, **more):
        return set(keys(store.search(("a",), filter={"v": wanted, **more}, limit=100)))

    assert found({"$gt": 3}) == {"float", "large", "larger"} and found({"$gte": 3, "$lt": 2**60}) == {"int", "float"}
    assert found(2**60) == {"large"} and found({"$gt": 2**60}) == {"larger"}
    assert found({"$lt": float("inf")}) == {"int", "float", "large", "larger", "one"}
    assert found({"$gte": "2026-11-01", "$lt": "2026-12"}) == {"date"} and found("3") == {"text"} and found({"$gt": 10**400}) == set()
    assert found(True) == {"true"} and found(1) == {"one"} and found([1, 2]) == {"list"} and found(None) == {"none", "absent"}
    assert found({"$ne": 3}) == (items.keys() | {"absent"}) - {"int"} and found(3, other=1) == set() and found({"$eq": float("nan")}) == set()


def test_an_item_with_more_values_than_the_index_takes_is_found(store):
    store.put(("a",), "wide", {f"v{n}": n for n in range(300)})
    store.put(("a",), "long", {f"v{n}": "🌊" * 1000 for n in range(250)})
    assert "values" not in raw(store, "wide").keys() | raw(store, "long").keys()
    assert keys(store.search(("a",), filter={"v299": {"$gt": 298}})) == ["wide"]
    assert keys(store.search(("a",), filter={"v7": "🌊" * 1000})) == ["long"]


def test_what_expires_is_seen_by_nobody_and_what_is_read_stays(store, clock):
    for key, ttl in ("short", 10), ("long", 30), ("ever", None), ("read", 10), ("found", 10):
        store.put(("a",) if key != "short" else ("b",), key, {"text": "abc", "key": key}, ttl=ttl)
    clock(9)
    assert store.get(("b",), "short", refresh_ttl=False) and store.get(("a",), "read")
    assert keys(store.search((), filter={"key": "found"})) == ["found"] and len(store.search((), refresh_ttl=False)) == 5
    clock(2)
    assert store.get(("b",), "short") is None and store.list_namespaces() == [("a",)]
    assert keys(store.search((), refresh_ttl=False)) == ["found", "read", "ever", "long"]
    # Of one score by key.
    assert keys(store.search((), query="abc", refresh_ttl=False)) == ["ever", "found", "long", "read"]
    assert keys(store.search((), filter={"key": {"$ne": "long"}}, limit=2, offset=1, refresh_ttl=False)) == ["read", "ever"]
    before = store.get(("a",), "long", refresh_ttl=False)
    assert raw(store, "short", "b") and store.sweep_ttl() == 1 and raw(store, "short", "b") is None
    clock(20)
    assert keys(store.search((), refresh_ttl=False)) == ["ever"] and store.sweep_ttl() == 3 and store.sweep_ttl() == 0
    store.put(("a",), "long", {}, ttl=None)
    assert store.get(("a",), "long").created_at > before.created_at


def test_a_read_gives_no_time_to_what_was_put_meanwhile(store, clock):
    store.put(("a",), "k", {"n": 1}, ttl=10)
    seen = store._items.get([("a", "k")])
    store.put(("a",), "k", {"n": 2})
    store._items.refresh(seen.items())
    store.put(("a",), "gone", {"n": 1}, ttl=10)
    seen = store._items.get([("a", "gone")])
    store.delete(("a",), "gone")
    store._items.refresh(seen.items())
    clock(11)
    assert store.get(("a",), "k").value == {"n": 2} and store.get(("a",), "gone") is None


def test_times_to_live_of_the_store(store, clock):
    store.ttl_config = {"default_ttl": 10, "refresh_on_read": False, "sweep_interval_minutes": 1e-9}
    for key, more in ("default", {}), ("own", {"ttl": 30}), ("ever", {"ttl": None}):
        store.put(("a",), key, {}, **more)
    clock(9)
    assert len(store.search(())) == 3 and store.get(("a",), "default")
    clock(2)
    assert keys(store.search(())) == ["ever", "own"] and raw(store, "default")
    store.put(("a",), "more", {})
    assert raw(store, "default") is None and raw(store, "own")


def test_of_several_texts_the_nearest_counts(store):
    store.put(("a",), "two", {"text": "aaa", "more": ["bbb", "ccd"]})
    store.put(("a",), "one", {"text": "bbc"})
    store.put(("a",), "none", {"text": "bbb"}, index=False)
    found = store.search(("a",), query="bbb")
    assert [(item.key, item.score and round(item.score, 3)) for item in found] == [("two", 1), ("one", 0.894), ("none", None)]
    assert keys(store.search(("a",), query="bbb", limit=1)) == ["two"]
    assert keys(store.search(("a",), query="bbb", limit=2, offset=1)) == ["one", "none"]
    store.put(("a",), "two", {"text": "aaa"})
    assert keys(store.search(("a",), query="bbb")) == ["one", "two", "none"]
    assert keys(store.search(("a",), query="bbb", filter={"text": {"$gt": "aaaa"}})) == ["one", "none"]


def test_what_can_not_be_embedded_is_refused_before_anything_is_written(store):
    from langgraph.store.base import PutOp

    with pytest.raises(ValueError, match="of an item up to 8 texts are embedded, not 9: many"):
        store.batch([PutOp(("a",), "k", {}), PutOp(("a",), "many", {"more": list("abcdefghi")})])
    wrong = {**INDEX, "embed": lambda texts: [[1, 2] for _ in texts]}, {**INDEX, "embed": lambda texts: [[math.nan] * 8 for _ in texts]}
    for index in wrong:
        other = type(store)(store._items._client, table=store._items.table, index=index)
        with pytest.raises(ValueError, match="embed returns vectors of 8 finite numbers"):
            other.put(("a",), "k", {"text": "abc"})
        with pytest.raises(ValueError, match="embed returns vectors of 8 finite numbers"):
            other.search(("a",), query="abc")
    assert store.search(()) == []


def test_more_than_a_request_takes(store):
    from langgraph.store.base import GetOp, PutOp

    store.batch([PutOp(("a", str(n % 3)), f"{n:03}", {"n": n, "text": LETTERS[n % 8]}) for n in range(250)])
    got = store.batch([GetOp(("a", str(n % 3)), f"{n:03}") for n in range(251)])
    assert [item and item.value["n"] for item in got] == [*range(250), None]
    assert keys(store.search(("a",), limit=3, offset=240)) == [f"{n:03}" for n in (9, 8, 7)] and len(store.search(("a",), limit=1000)) == 250
    found = store.search(("a",), query="c", filter={"n": {"$lt": 240}}, limit=1000)
    assert len(found) == len({item.key for item in found}) == 240 and [item.score for item in found] == [1] * 30 + [0] * 210
    large = [PutOp(("large",), str(n), {"text": str(n) * (5 * MIB // 4)}, index=False) for n in range(4)]
    store.batch(large)
    assert [item.value for item in store.batch([GetOp(op.namespace, op.key) for op in large])] == [op.value for op in large]
    assert keys(store.search(("large",))) == list("3210")


def test_a_search_whose_index_has_not_all_rows_is_asked_again(store):
    store.put(("a",), "k", {})
    search, asked = store._items._client.search, []

    def late(*args):
        answer = search(*args)
        asked.append(answer)
        answer.is_all_succeed = len(asked) > 2
        return answer

    store._items._client.search = late
    assert keys(store.search(())) == ["k"] and len(asked) == 3
    store._items._patience_s, asked[:] = 0, []
    with pytest.raises(OTSServiceError, match="has not all rows yet"):
        store.list_namespaces()


def test_what_is_wrong_is_refused(store):
    from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp

    client, table = store._items._client, store._items.table
    for namespace in ("a.b",), ("",), (), (1,):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "k", {})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "a"), "k", {})
    for filter in {"n": {"$near": 1}}, {"o": {"n": {"$near": 1}}}, {"n": {"$gt": 1, "and": 2}}:
        with pytest.raises(ValueError, match=r"the operators of a filter are \$eq, .*, not (\$near|and)"):
            store.search((), filter=filter)
    with pytest.raises(ValueError, match="by prefix or suffix, not 'middle'"):
        store.batch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])
    with pytest.raises(ValueError, match="an operation is a GetOp"):
        store.batch([None])
    with pytest.raises(TypeError, match="not JSON serializable"):
        store.put(("a",), "k", {"clock": object()})
    for key, value in ("k" * 1025, {}), ("k", {"text": "t" * 2 * MIB}):
        with pytest.raises(OTSServiceError, match="exceeds"):
            store.put(("a",), key, value, index=False)
    store.setup()
    store_of(client, table=table, index=None)
    with pytest.raises(ValueError, match="has vectors of 8 numbers, not 4: name another table"):
        store_of(client, table=table, index={**INDEX, "dims": 4})
    client.create_table(TableMeta("other_key", STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    with pytest.raises(ValueError, match="the table other_key has the key .*: name another table"):
        store_of(client, table="other_key")
    with pytest.raises(OTSServiceError, match="table does not exist"):
        type(store)(client, table="never_set_up").put(("a",), "k", {})
    assert store.search(()) == []


def test_asynchronous_calls_and_embeddings(store):
    from langgraph.graph import START, StateGraph
    from langgraph.store.base import BaseStore

    threads = set()

    async def aembed(texts):
        threads.add(threading.current_thread())
        return embed(texts)

    other = type(store)(store._items._client, table=store._items.table, index={**INDEX, "embed": aembed})

    async def remember(state: dict, *, store: BaseStore) -> dict:
        await asyncio.gather(*[store.aput(("a", str(n)), "k", {"text": LETTERS[n], "n": n}) for n in range(8)])
        found = await store.asearch(("a",), query="cd", filter={"n": {"$gt": 2}}, limit=2)
        await store.adelete(("a", "7"), "k")
        one = await store.aget(("a", "3"), "k")
        return {"found": [item.value["n"] for item in found], "one": one.value["text"], "all": await store.alist_namespaces(prefix=("a",), limit=3)}

    graph = StateGraph(dict).add_node(remember).add_edge(START, "remember").compile(store=other)
    came = asyncio.run(graph.ainvoke({}))
    assert came["found"][0] == 3 and len(came["found"]) == 2 and came["one"] == "d" and came["all"] == [("a", "0"), ("a", "1"), ("a", "2")]
    assert threads == {threading.main_thread()} and len(store.search(("a",))) == 7
