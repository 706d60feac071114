"""The SDK for Python: talk, history, presence, recovery, in JSON and in protobuf."""

import asyncio
import json

import pytest
from centrifuge import DeltaType, ReplyError

from drill import prepared, set_back
from sdk import Person, name

BOTH = pytest.mark.parametrize("is_protobuf", [False, True])


@BOTH
def test_a_talk(insecure, is_protobuf):
    async def talk():
        channel = name()
        async with Person(insecure, is_protobuf) as ann, Person(insecure, is_protobuf) as bob:
            room, heard = await ann.subscribe(channel, join_leave=True)
            subscribed = await heard.next("subscribed")
            assert subscribed.recoverable and subscribed.stream_position.offset == 0
            other, news = await bob.subscribe(channel)
            await news.next("subscribed")
            joined = await heard.next("join")
            assert joined.info.user == ""
            for number in range(3):
                await room.publish(ann.data({"number": number}))
                for one in [heard, news]:
                    publication = (await one.next("publication")).pub
                    assert publication.offset == number + 1
                    assert ann.read(publication.data) == {"number": number}
            history = await other.history(limit=-1)
            assert [one.offset for one in history.publications] == [1, 2, 3] and history.offset == 3
            newest = await other.history(limit=1, reverse=True)
            assert [bob.read(one.data)["number"] for one in newest.publications] == [2]
            assert len((await room.presence()).clients) == 2
            stats = await room.presence_stats()
            assert (stats.num_clients, stats.num_users) == (2, 1)
            await other.unsubscribe()
            await heard.next("leave")
            assert len((await room.presence()).clients) == 1
            with pytest.raises(ReplyError) as refused:
                await ann.client.rpc("no.such", ann.data({}))
            assert refused.value.code == 108
            called = await ann.client.rpc("ping", ann.data({}))
            assert ann.read(called.data)["time"] > 0

    asyncio.run(talk())


def test_bytes_come_back_as_they_were_sent(insecure):
    async def talk():
        channel = name()
        async with Person(insecure, True) as ann, Person(insecure) as bob:
            room, heard = await ann.subscribe(channel)
            _, news = await bob.subscribe(channel)
            await heard.next("subscribed"), await news.next("subscribed")
            sent = b'{"b": 1,  "a": [1.50]}'
            await room.publish(sent)
            assert (await heard.next("publication")).pub.data == sent
            assert (await news.next("publication")).pub.data == json.loads(sent)
            assert [one.data for one in (await room.history(limit=-1)).publications] == [sent]

    asyncio.run(talk())


@BOTH
def test_who_was_away_gets_all_of_it_after_a_kill(own, is_protobuf):
    own.start()

    async def talk():
        async with Person(own, is_protobuf) as ann:
            room, heard = await ann.subscribe("room")
            before = await heard.next("subscribed")
            await room.publish(ann.data(1))
            assert (await heard.next("publication")).pub.offset == 1
            own.kill()
            await heard.next("subscribing")
            # The SDK reads on while this thread waits for the server.
            await asyncio.to_thread(own.start)
            for number in range(2, 30):
                assert own.did("publish", channel="room", data=number)["offset"] == number
            got = [(await heard.next("publication")).pub for _ in range(2, 30)]
            assert [one.offset for one in got] == list(range(2, 30))
            assert [ann.read(one.data) for one in got] == list(range(2, 30))
            history = await room.history(limit=0)
            assert (history.epoch, history.offset) == (before.stream_position.epoch, 29)

    asyncio.run(talk())


@BOTH
def test_who_follows_a_restored_server_is_told_that_it_began_anew(own, is_protobuf):
    """The drill of docs/BACKUP.md."""
    prepared(own).start()
    told = lambda channel, values: [own.did("publish", channel=channel, data=value)["offset"] for value in values]

    async def talk():
        async with Person(own, is_protobuf) as ann:
            room, heard = await ann.subscribe("room")
            before = (await heard.next("subscribed")).stream_position
            assert await asyncio.to_thread(told, "room", [1, 2, 3]) == [1, 2, 3]
            lose = lambda: told("room", ["lost", "lost", "lost"])
            assert await asyncio.to_thread(set_back, own, lose) == [4, 5, 6]
            got = [(await heard.next("publication")).pub for _ in range(6)]
            assert [ann.read(one.data) for one in got] == [1, 2, 3, "lost", "lost", "lost"]
            anew = await heard.next("subscribed")
            # What it has may be of the past that is lost, so nothing is handed on as if it followed on that.
            assert anew.was_recovering and not anew.recovered
            assert anew.stream_position.epoch != before.epoch and anew.stream_position.offset == 3
            await room.publish(ann.data("new"))
            new = (await heard.next("publication")).pub
            assert (new.offset, ann.read(new.data)) == (4, "new")
            history = await room.history(limit=-1)
            assert [ann.read(one.data) for one in history.publications] == [1, 2, 3, "new"]
            assert (history.epoch, history.offset) == (anew.stream_position.epoch, 4)

    asyncio.run(talk())


def test_what_is_kept_by_number_is_kept_at_once(insecure):
    async def talk():
        channel = name("recovery:")
        async with Person(insecure) as ann:
            room, heard = await ann.subscribe(channel)
            await heard.next("subscribed")
            await room.unsubscribe()
            for number in range(2):
                insecure.did("publish", channel=channel, data=number)
            await room.subscribe()
            recovered = await heard.next("subscribed")
            assert recovered.was_recovering and recovered.recovered
            assert [(await heard.next("publication")).pub.offset for _ in range(2)] == [1, 2]
            await room.unsubscribe()
            for number in range(3):
                insecure.did("publish", channel=channel, data=number)
            await room.subscribe()
            lost = await heard.next("subscribed")
            assert lost.was_recovering and not lost.recovered
            left = await room.history(limit=-1)
            assert [one.offset for one in left.publications] == [4, 5]

    asyncio.run(talk())


@BOTH
def test_deltas_lead_to_what_was_published(insecure, is_protobuf):
    async def talk():
        channel = name()
        text = {"text": "a long text, of which not much changes, with ü and 😀 in it", "number": 0}
        async with Person(insecure, is_protobuf) as ann:
            _, heard = await ann.subscribe(channel, delta=DeltaType.FOSSIL)
            await heard.next("subscribed")
            for number in range(4):
                text["number"] = number
                insecure.did("publish", channel=channel, data=text)
                got = (await heard.next("publication")).pub.data
                assert (json.loads(got) if isinstance(got, (str, bytes)) else got) == text

    asyncio.run(talk())
