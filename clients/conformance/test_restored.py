"""Each client of ours through the drill of docs/BACKUP.md: the server's disk is lost, and it is as it was a little before.

Promises looked at: the app is told of each timeline that it begins anew, nothing of what is lost stays in a store, numbers
that are given out again mean the new messages, and what is written afterwards is there once.
"""

import asyncio

import pytest

import suite
from drill import prepared, set_back
from server import Server
from test_kills import PATIENCE, ROOMS, Person, ranges

KEPT, LOST, NEW = 8, 6, 4


async def run(client, package, folder):
    server = prepared(Server(folder))
    await asyncio.to_thread(server.start)
    people = [Person(user, client, package, folder, server.port) for user in ("ann", "ben")]
    try:
        for person in people:
            await person.begin()
            await asyncio.wait_for(asyncio.gather(*person.subscribing), PATIENCE)

        async def written(count):
            """Each writes, and all have it."""
            for person in people:
                person.write(count)
            for person in people:
                await person.at_rest()
            whole = await asyncio.to_thread(ranges, server)
            return [await person.caught_up(whole) for person in people], whole

        await written(KEPT)
        here = asyncio.get_running_loop()
        _, before = await asyncio.to_thread(
            set_back, server, lambda: asyncio.run_coroutine_threadsafe(written(LOST), here).result(PATIENCE)
        )
        stores, after = await written(NEW)
        for person in people:
            await person.adapter.call("close")
            await person.adapter.end()
        return people, stores, before, after
    finally:
        for person in people:
            await person.adapter.kill()
        server.kill()


@pytest.mark.parametrize("client", sorted(suite.CLIENTS))
def test_a_restored_server_is_followed_from_where_it_is(packages, client, tmp_path):
    if client not in packages:
        pytest.skip(f"there is no client for {client}")
    people, stores, before, after = asyncio.run(run(client, packages[client], tmp_path))
    for room in ROOMS:
        ids = lambda messages: [one["message_id"] for one in messages]
        kept = KEPT  # of both people together, half of what each wrote
        assert len(before[room]) == KEPT + LOST and len(after[room]) == KEPT + NEW
        assert ids(after[room][:kept]) == ids(before[room][:kept])
        # The same numbers, other messages.
        assert not set(ids(after[room][kept:])) & set(ids(before[room]))
        assert [one["sequence"] for one in after[room]] == list(range(1, KEPT + NEW + 1))
        for person, store in zip(people, stores, strict=True):
            assert ids(store[room]) == ids(after[room])
            told = [one for one in person.adapter.events if one["event"] == "reset" and one["timeline"] == room]
            assert [one["reason"] for one in told] == ["epoch_changed"], told
