"""What waits in a client has a bound, and a fault of the app is one of the app."""

import asyncio
import sqlite3

import pytest
from test_following import HAS, Asked, message
from tideline import MemoryStore, SqliteStore, sqlite, subscription
from tideline.errors import Refused
from tideline.outbox import Outbox
from tideline.place import Place, Step, after_push
from tideline.store import Outgoing
from tideline.stream import Stream
from tideline.wire import Growth


def messages(first, last):
    return [message(n) for n in range(first, last + 1)]


def test_events_that_nobody_takes_are_left_with_the_server(monkeypatch):
    monkeypatch.setattr(subscription, "EVENTS_MAX", 10)

    async def run():
        server = Asked()
        following, requests = server.following, server.requests
        followed = following.follow("t", {})
        requests.pop()[2]({"result": HAS | {"head": 0, "messages": []}})

        def push(first, last):
            following.pushed("message", {"timeline": "t", "epoch": "E1", "messages": messages(first, last), "head": last})

        push(1, 12)
        assert [method for method, _, _ in requests] == ["unsubscribe"]
        push(13, 13)
        following.disconnected()
        server.connects()
        assert len(requests) == 1, "it subscribes with events that wait"
        taken = [await followed.subscription.__anext__() for _ in range(13)]
        assert [event.message["sequence"] for event in taken[1:]] == list(range(1, 13))
        method, params, answered = requests.pop()
        assert (method, params["after"]) == ("subscribe", 12)
        answered({"result": HAS | {"head": 13, "messages": messages(13, 13)}})
        assert (await followed.subscription.__anext__()).message["sequence"] == 13

    asyncio.run(run())


def test_parts_that_nobody_takes_wait_as_one_event():
    async def run():
        server = Asked()
        followed = server.following.follow("t", {"with": ["parts"]})
        opened = [message(n) | {"open": True, "parts": 0} for n in (1, 2)]
        server.requests.pop()[2]({"result": HAS | {"head": 2, "messages": opened}})

        def grow(sequence, part):
            params = {"timeline": "t", "epoch": "E1", "sequence": sequence, "from": part, "parts": part, "text": f"{part},"}
            server.following.pushed("message.extended", params)

        def told():
            events = [followed.subscription._events.popleft() for _ in range(len(followed.subscription._events))]
            return [(event.kind, event.data.get("from"), event.data.get("parts"), event.text) for event in events]

        told()
        for part in (1, 2, 3):
            grow(1, part)
            grow(2, part)
        taken = await followed.subscription.__anext__()
        assert (taken.data, taken.message["entry"]) == ({"from": 1, "parts": 3, "text": "1,2,3,"}, {"text": "1,2,3,"})
        # What was taken, and what came before a change, stay as they are.
        grow(1, 4)
        changed = message(2) | {"open": True, "parts": 3, "change": 1, "entry": {"text": "1,2,3,"}}
        server.following.pushed("message.changed", {"timeline": "t", "epoch": "E1", "messages": [changed], "change_head": 1})
        grow(2, 4)
        assert taken.text == "1,2,3,"
        assert told() == [
            ("extended", 1, 3, "1,2,3,"), ("extended", 4, 4, "4,"), ("changed", None, None, ""), ("extended", 4, 4, "4,"),
        ]  # fmt: skip

    asyncio.run(run())


def test_a_page_with_an_open_message_is_subscribed_from():
    async def run():
        server = Asked()
        followed = server.following.follow("t", {"with": ["parts"], "rewind": 1})
        server.requests.pop()[2]({"result": HAS | {"head": 3, "messages": [message(3)]}})
        older = server.following._want_older(followed.subscription, "t", 2)
        _, _, answered = server.requests.pop()
        push = {"timeline": "t", "epoch": "E1", "sequence": 2, "from": 5, "parts": 5, "text": "e"}
        server.following.pushed("message.extended", push)  # not stored yet
        page = [message(2) | {"open": True, "parts": 4, "entry": {"text": "abcd"}}, message(1)]
        answered({"result": HAS | {"head": 3, "messages": page}})
        assert await older == 2
        (left, _, _), (method, params, answered) = server.requests
        assert (left, method, params["open"], params["after"]) == ("unsubscribe", "subscribe", {"2": 4}, 3)
        server.following.pushed("message.extended", push | {"from": 6, "parts": 6})  # of the subscription before
        grown = [{"sequence": 2, "from": 5, "parts": 6, "text": "ef"}]
        answered({"result": HAS | {"head": 3, "messages": [], "grown": grown}})
        assert server.store.message("t", 2)["entry"]["text"] == "abcdef"

    asyncio.run(run())


def test_growths_are_few_rows_of_a_store(tmp_path):
    store = SqliteStore(tmp_path / "ann.db")
    store.apply("t", Step(Place("E1", 1, 0, 1), {1: message(1) | {"open": True, "parts": 0}}))
    for part in range(1, 301):
        growth = Growth(1, part, part, f"{part},")
        store.apply("t", after_push("t", store.place("t"), lambda sequence: store.message("t", sequence), grown=[growth]))
        (rows,) = store._base.execute("SELECT COUNT(*) FROM part").fetchone()
        assert rows <= sqlite.ROWS_MAX + 1 and store.open_messages("t") == {1: part}
    assert store.messages("t")[0]["entry"]["text"] == "".join(f"{part}," for part in range(1, 301))
    store.close()


def test_events_are_not_kept_for_a_program_that_wants_the_store_only():
    async def run():
        server = Asked()
        followed = server.following.follow("t", {}, listen=False)
        server.requests.pop()[2]({"result": HAS | {"head": 3, "messages": messages(1, 3)}})
        assert server.store.place("t").position == 3 and not followed.subscription._events

    asyncio.run(run())


def test_an_exception_of_on_refused_is_one_of_the_app():
    async def run():
        store, sent = MemoryStore(), []
        for n in (1, 2):
            store.add_outgoing(Outgoing("t", f"m{n}", {"timeline": "t", "message_id": f"m{n}", "entry": {}}))

        def refused(outgoing, error):
            raise RuntimeError("of the app")

        outbox = Outbox(store, refused, lambda: 0.0)
        outbox.connected(lambda method, params, answered, /, traceparent=None: sent.append(answered))
        sent[0]({"error": Refused(403, "no", {"reason": "forbidden"})})
        sent[1]({"result": {"sequence": 1}})
        assert store.outbox() == []

    asyncio.run(run())


def test_what_an_earlier_run_left_is_sent_in_its_order():
    store, methods, sent = MemoryStore(), ["message.append", "reaction.add", "message.append"], []
    for n, method in enumerate(methods):
        store.add_outgoing(Outgoing("t", f"m{n}", {"timeline": "t", "message_id": f"m{n}"}, method))
    Outbox(store, lambda outgoing, error: None, lambda: 0.0).connected(lambda method, params, answered, /, traceparent=None: sent.append(method))
    assert sent == methods


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_store_of_an_earlier_version_is_taken_over(tmp_path, version):
    file = tmp_path / "ann.db"
    store = SqliteStore(file)
    store.add_outgoing(Outgoing("t", "m1", {"timeline": "t", "message_id": "m1", "entry": {}}))
    store.close()
    base = sqlite3.connect(file)
    base.execute("ALTER TABLE outbox DROP COLUMN traceparent")
    if version < 3:
        base.execute("DROP TABLE part")
    if version == 1:
        base.execute("ALTER TABLE outbox DROP COLUMN method")
    base.execute(f"PRAGMA user_version = {version}")
    base.commit()
    base.close()
    for _ in range(2):
        store = SqliteStore(file)
        assert [(one.message_id, one.method) for one in store.outbox()] == [("m1", "message.append")]
        assert store.open_messages("t") == {}
        store.close()


def test_a_stream_that_is_left_while_it_is_opened_is_closed():
    class Opener:
        _streams = set()
        asked = []
        is_connected = True

        async def connected(self):
            while not self.is_connected:
                await asyncio.Event().wait()
            return self

        def ask(self, method, params, answered):
            self.asked.append((method, params, answered))

        def _delay(self):
            return 0

    async def run():
        client = Opener()
        async with Stream(client, "room/"):
            [(method, _, answered)] = client.asked
        assert (method, len(client.asked)) == ("stream.open", 1)
        answered({"result": {"stream": 7, "position": "p"}})
        assert [(method, params) for method, params, _ in client.asked[1:]] == [("stream.close", {"stream": 7})]
        # Refused for now, or left before there is a connection: it is not opened any more.
        async with Stream(client, "room/"):
            pass
        client.asked[-1][2]({"error": Refused(503, "busy", {"reason": "busy", "retry": True})})
        client.is_connected = False
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(Stream(client, "room/").__aenter__(), 0.01)
        await asyncio.sleep(0.01)
        assert (len(client.asked), client._streams) == (3, set())

    asyncio.run(run())
