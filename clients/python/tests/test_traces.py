"""A call's place in a trace goes out with it, and is kept with what is repeated."""

import asyncio
import os

import pytest
import tideline
from tideline import wire

PATIENCE = 60
ONE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TWO = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"


def client(url, user, **options):
    return tideline.Client(url, user=user, delay_s=(0.001, 0.02), **options)


async def traces(events, count):
    """The traces of the next messages."""
    got = []
    async for event in events:
        if event.kind == "message":
            got.append(event.message.get("traceparent"))
            if len(got) == count:
                return got


def test_what_is_pushed_has_the_trace_of_the_append(server):
    async def run():
        name = f"traced-{os.getpid()}"
        async with client(server.url, "ann") as ann, client(server.url, "ben") as ben:
            room = await ben.subscribe(name)
            await ann.append(name, {"n": 1}, traceparent=ONE)
            await ann.traced(TWO).message.append_batch(name, [{"entry": {"n": 2}}])
            batch = {"timeline": name, "messages": [{"entry": {"n": 3}}]}
            await ann.call("message.append_batch", batch, traceparent=ONE)
            await ann.append(name, {"n": 4}, traceparent="no trace")
            async with ann.open(name, {"n": 5}, traceparent=TWO) as answer:
                await answer.write("tide")
            assert await traces(room, 5) == [ONE, TWO, ONE, None, TWO]

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_repeat_by_the_next_run_carries_it(server, tmp_path):
    async def run():
        name = f"retraced-{os.getpid()}"
        async with client("ws://127.0.0.1:1/v1/connect", "ann", store=tmp_path / "ann.db") as away:
            lost = [away.append(name, {"n": 1}, traceparent=ONE), away.append(name, {"n": 2})]
            change = {"timeline": name, "sequence": 1, "reaction": "+1"}
            lost.append(asyncio.ensure_future(away.call("reaction.add", change, traceparent=TWO)))
            await asyncio.sleep(0)
            assert [one.traceparent for one in [*away.outbox(), *away.changes()]] == [ONE, None, TWO]
        for one in await asyncio.gather(*lost, return_exceptions=True):
            assert isinstance(one, tideline.Stopped)
        async with client(server.url, "ben") as ben:
            room = await ben.subscribe(name)
            async with client(server.url, "ann", store=tmp_path / "ann.db") as ann:
                assert [one.traceparent for one in [*ann.outbox(), *ann.changes()]] == [ONE, None, TWO]
                assert await traces(room, 2) == [ONE, None]

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_what_is_sent_says_it_beside_the_id(monkeypatch, server):
    sent = []
    encode = wire.encode
    monkeypatch.setattr(wire, "encode", lambda value: sent.append(value) or encode(value))

    async def run():
        async with client(server.url, "ann") as ann:
            await ann.traced(ONE).timeline.list()
            await ann.timeline.list()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    asked = [one for one in sent if one.get("method") == "timeline.list"]
    assert [one.get("traceparent") for one in asked] == [ONE, None]
    assert all("traceparent" not in one["params"] for one in asked)
    assert "traceparent" not in asked[1]


@pytest.mark.parametrize("wrong", [7, b"00-", {}])
def test_what_is_no_text_is_refused_before_anything_is_kept(wrong):
    async def run():
        ann = client("ws://127.0.0.1:1/v1/connect", "ann")
        for ask in (ann.append, ann.open):
            with pytest.raises(TypeError):
                ask("room", {}, traceparent=wrong)
        with pytest.raises(TypeError):
            ann.traced(wrong)
        for method, params in (("ping", {}), ("read.set", {"timeline": "room", "read": 1})):
            with pytest.raises(TypeError):
                await ann.call(method, params, traceparent=wrong)
        assert (ann.outbox(), ann.changes()) == ([], [])
        await ann.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
