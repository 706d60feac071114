"""Slice 2, tokens, streams and stores with the real server."""

import asyncio
import itertools
import os
import signal
import time

import pytest
import tideline
from guarded import Guarded, token
from server import Server

NUMBERS = itertools.count()
PATIENCE = 60


@pytest.fixture
def name():
    return f"c-{os.getpid()}-{next(NUMBERS)}"


def client(server, user=None, **options):
    return tideline.Client(server.url, user=user, **({"delay_s": (0.001, 0.02)} | options))


def played(test):
    """Runs an async test, for so long at most."""

    def run(**given):
        asyncio.run(asyncio.wait_for(test(**given), PATIENCE))

    # pytest looks at the parameters for fixtures.
    import inspect

    run.__signature__ = inspect.signature(test)
    run.__name__ = test.__name__
    return run


async def until(events, kind, holds=lambda event: True):
    """The next event of this kind; others are passed over."""
    async for event in events:
        if event.kind == kind and holds(event):
            return event
    raise AssertionError(f"no {kind}")


async def soon(ask, holds):
    """What is relayed follows soon."""
    while True:
        got = await ask()
        if holds(got):
            return got
        await asyncio.sleep(0.02)


@played
async def test_older_ones_are_followed_once_they_are_there(server, name):
    async with client(server, f"ann-{name}") as ann, client(server, f"ben-{name}") as ben:
        for n in range(1, 13):
            await ann.append(name, {"n": n})
        room = await ben.subscribe(name, rewind=2)
        assert [await room.older(4), await room.older(50), await room.older(50)] == [4, 6, 0]
        await ann.call("message.delete", {"timeline": name, "sequence": 8})
        await ann.call("reaction.add", {"timeline": name, "sequence": 1, "reaction": "+1"})
        assert (await until(room, "changed")).message["deleted"]
        assert "+1" in (await until(room, "changed")).message["reactions"]
        assert [one["sequence"] for one in ben.messages(name) if one.get("deleted")] == [8]


@played
async def test_a_conversation_with_all_that_belongs_to_it(server, name):
    async with client(server, f"ann-{name}", device="desk") as ann, client(server, f"ben-{name}") as ben:
        users = [f"ann-{name}", f"ben-{name}"]
        members = [{"user": user} for user in users]
        assert (await ann.timeline.create(name, members=members, settings={"members_only": True}))["created"]
        everything = await ben.subscribe_conversations(also=("signals", "receipts", "members"))
        room = await ann.subscribe(name, also=("signals", "presence", "receipts", "members"))
        await until(room, "subscribed")
        told = await ann.append(name, {"text": "lunch?", "mentions": [users[1]]})
        assert (told["sequence"], told["duplicate"]) == (1, False)
        # Whether it comes as a push or as news of a conversation: once.
        event = await until(everything, "message")
        assert (event.timeline, event.message["sequence"], event.message["sender"]) == (name, 1, users[0])
        (listed,) = (await soon(ben.conversation.list, lambda got: got["conversations"]))["conversations"]
        assert (listed["timeline"], listed["unread"], listed["mentions"]) == (name, 1, 1)
        assert (await ben.conversation.count())["unread"] == 1
        assert (await ben.read.set(timeline=name, read=1))["timelines"][name]["unread"] == 0
        receipt = await until(room, "receipt")
        assert {"user": users[1], "read": 1, "received": 1} in receipt.data["receipts"]
        await ben.signal(name, {"typing": True})
        signal = await until(room, "signal")
        assert (signal.data["user"], signal.data["signal"]) == (users[1], {"typing": True})
        online = await ann.presence.get([name])
        assert online["timelines"][name]["online"] == 2
        # Marks are changes of the message, on both sides.
        await ben.reaction.add(name, reaction="+1", sequence=1)
        changed = await until(room, "changed", lambda event: "reactions" in event.message)
        assert changed.message["reactions"]["+1"]["count"] == 1
        await ann.pin.add(name, sequence=1)
        await until(room, "changed", lambda event: event.message.get("pinned"))
        await ann.message.recall(name, sequence=1)
        recalled = await until(everything, "changed", lambda event: event.message.get("deleted"))
        assert recalled.message["recalled_by"] == users[0]
        await soon(lambda: asyncio.sleep(0, ann.messages(name)), lambda stored: stored[0].get("deleted"))
        assert (await ann.member.list(name))["members_count"] == 2
        await ann.member.remove(name, users=[users[1]])
        assert (await until(everything, "ended")).timeline == name
        with pytest.raises(tideline.Refused) as refused:
            await ben.subscribe(name)
        assert refused.value.reason == "timeline_not_found" and not refused.value.retry


@played
async def test_all_conversations_go_on_where_the_store_is(server, name, tmp_path):
    store, user, other = tmp_path / "ben.db", f"ben-{name}", f"ann-{name}"
    rooms = [f"{name}/{n}" for n in range(3)]
    async with client(server, other) as ann:
        for room in rooms:
            await ann.timeline.create(room, members=[{"user": user}, {"user": other}])
            await ann.append(room, {"n": 1})
        for n in (2, 3):
            async with client(server, user, store=store) as ben:
                await soon(ben.conversation.list, lambda got: len(got["conversations"]) == 3)
                events = await ben.subscribe_conversations()
                if n == 2:
                    seen = [await until(events, "message") for _ in rooms]
                    assert sorted(event.timeline for event in seen) == rooms
                else:
                    # What came while it was away.
                    event = await until(events, "message")
                    assert (event.timeline, event.message["entry"]) == (rooms[0], {"n": "away"})
                await ann.append(rooms[1], {"n": n})
                event = await until(events, "message")
                assert (event.timeline, event.message["entry"]) == (rooms[1], {"n": n})
            if n == 2:
                await ann.append(rooms[0], {"n": "away"})
        stored = tideline.SqliteStore(store)
        assert [len(stored.messages(room)) for room in rooms] == [2, 3, 1]
        stored.close()


@played
async def test_feeds_and_inboxes(server, name):
    async with client(server, f"ann-{name}") as ann, client(server, f"ben-{name}") as ben:
        posts = f"posts/{name}"
        await ann.timeline.create(posts, settings={"fan_out": "write"})
        await ann.append(posts, {"text": "high water"})
        assert (await ben.feed.follow(posts, copy=10))["following"]
        inbox = await ben.subscribe(f"$inbox/ben-{name}")
        await ann.append(posts, {"text": "ebb"})
        await until(inbox, "message", lambda event: event.message["entry"]["sequence"] == 2)
        page = await soon(ben.feed.range, lambda got: len(got["messages"]) == 2)
        assert [one["entry"]["text"] for one in page["messages"]] == ["ebb", "high water"]


@played
async def test_a_token_is_renewed_and_replaced(tmp_path):
    guarded = await asyncio.to_thread(Guarded(tmp_path).start)
    tokens = []

    async def next_token():
        # Expires within a minute, so that the server says so at once; the second is good for long.
        tokens.append(token(exp=int(time.time()) + (40 if not tokens else 600)))
        return tokens[-1]

    try:
        async with client(guarded, token=next_token) as ann:
            room = await ann.subscribe("room/1")
            await soon(lambda: asyncio.sleep(0, tokens), lambda got: len(got) == 2)
            assert (await ann.append("room/1", {"n": 1}))["sequence"] == 1
            # All that was issued up to now is revoked: closed with 4500, and back with another.
            await asyncio.to_thread(guarded.call, guarded.admin, "session.revoke", user="ann", issued_before=int(time.time() * 1000) - 1000)
            (await until(room, "message"))
            await asyncio.to_thread(guarded.restart, signal.SIGKILL)
            assert (await ann.append("room/1", {"n": 2}))["sequence"] == 2
        async with client(guarded, token=token(secret=b"another secret of thirty-two bytes")) as nobody:
            assert (await nobody.stopped()).code == 4500
            with pytest.raises(tideline.Stopped):
                await nobody.ping()
    finally:
        guarded.kill()


@played
async def test_a_stream_goes_on_across_a_kill_of_the_server(tmp_path):
    running = await asyncio.to_thread(Server(tmp_path).start)

    async def take(stream, last, got):
        async for batch in stream:
            got += [one["sequence"] for change in batch.changes if change["kind"] == "message" for one in change["messages"]]
            if got and got[-1] == last:
                return

    try:
        async with client(running, "ann") as ann, client(running) as back_end:
            first, second = [], []
            async with back_end.open_stream("room/", cursor="search", start="start") as stream:
                for n in range(3):
                    await ann.append("room/1", {"n": n})
                await take(stream, 3, first)
                await stream.commit()
                await asyncio.to_thread(running.restart, signal.SIGKILL)
                for n in range(3):
                    await ann.append("room/1", {"n": n})
                await take(stream, 6, first)
                assert first == [1, 2, 3, 4, 5, 6]
            # What was not committed comes again.
            async with back_end.open_stream("room/", cursor="search") as stream:
                await take(stream, 6, second)
                await stream.commit()
            assert second == [4, 5, 6]
            (cursor,) = (await back_end.stream.cursors())["cursors"]
            assert cursor["cursor"] == "search"
            with pytest.raises(tideline.Refused) as refused:
                async with ann.open_stream("room/") as stream:
                    await anext(stream)
            assert refused.value.reason == "forbidden"
    finally:
        running.kill()


@played
async def test_a_store_belongs_to_one_user_and_one_client(server, name, tmp_path):
    store = tmp_path / "ann.db"
    async with client(server, f"ann-{name}", store=store) as ann:
        await ann.append(name, {"n": 1})
        with pytest.raises(tideline.StoreError):
            tideline.SqliteStore(store, patience_s=0.1)
    async with client(server, f"ben-{name}", store=store) as ben:
        stopped = await ben.stopped()
        assert isinstance(stopped.__cause__, tideline.StoreError)


@played
async def test_what_can_not_be_sent_is_refused_at_once(server, name):
    async with client(server) as ann:
        for entry in ({"n": float("nan")}, {"n": object()}, {"n": b"bytes"}):
            with pytest.raises((ValueError, TypeError)):
                ann.append(name, entry)
        assert ann.outbox() == []
        with pytest.raises(tideline.Refused) as refused:
            await ann.append(name, {"$no": 1})
        assert refused.value.code == -32602 and ann.outbox() == []
        blob = {"blob": tideline.binary(b"\x89PNG"), "big": 2**63 - 1, "one": 1.0}
        await ann.append(name, blob)
        room = await ann.subscribe(name)
        stored = (await until(room, "message")).message["entry"]
        assert tideline.data_of(stored["blob"]) == b"\x89PNG" and stored["big"] == 2**63 - 1
        assert isinstance(stored["one"], float)
        with pytest.raises(tideline.Refused):
            await ann.subscribe_conversations()
        with pytest.raises(ValueError):
            await ann.subscribe(name)
        with pytest.raises(ValueError):
            await ann.call("subscribe", {"timeline": name})
    with pytest.raises(tideline.Stopped):
        ann.append(name, {})


def test_the_calls_are_those_of_the_schemas():
    import make_calls

    for file, text in make_calls.made().items():
        assert (make_calls.HERE / "tideline" / file).read_text() == text, f"{file}: run make_calls.py"
