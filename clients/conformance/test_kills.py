"""Each client against the real server through a line that breaks, with kills of both: at the end each store equals
`tideline dump`, and nothing that was sent is missing or there twice, no token of a message that grows either.

`TIDELINE_KILLS` says how many; few by default.
"""

import asyncio
import json
import os
import random
import subprocess
import time

import pytest

import suite
from harness import Failed
from proxy import Proxy
from server import Server

KILLS = int(os.environ.get("TIDELINE_KILLS", "4"))
ROOMS = ("room/1", "room/2")
#: Here messages grow.
ANSWERS = "answers/1"
ALL = (*ROOMS, ANSWERS)
#: Of one that grows.
TOKENS = 15 * KILLS
PATIENCE = 60


class Person:
    """A client that follows the rooms and writes into them, and is killed."""

    def __init__(self, user, client, package, folder, port):
        self.user, self.port = user, port
        self.store = str(folder / user)
        self.adapter = suite.adapter(client, package)
        self.sent = 0
        #: IDs of messages that must be there in the end: answered, or seen in the outbox.
        self.promised = set()
        self.pending = {}
        #: Another one after each kill, None in between.
        self.life = None
        self.calls = []

    async def begin(self):
        await self.adapter.start()
        url = f"ws://127.0.0.1:{self.port}/v1/connect"
        await self.adapter.call("open", url=url, store=self.store, user=self.user, delay_ms=[1, 50])
        self.subscribing = [self.adapter.send("subscribe", timeline=room, **{"with": ["parts"]}) for room in ALL]
        self.life = object()

    def write(self, count):
        for _ in range(count):
            self.sent += 1
            message_id = f"{self.user}-{self.sent}"
            entry = {"text": f"{self.user} {self.sent}", "big": {"$integer": str(2**62 + self.sent)}}
            room = ROOMS[self.sent % 2]
            self.pending[message_id] = self.adapter.send("append", timeline=room, entry=entry, message_id=message_id)

    async def recite(self):
        """Writes an answer token by token, and goes on with it after each kill. Returns its text."""
        answer, at, has_ended = f"{self.user}-answer", None, False
        tokens = [f"{answer}:{n} " for n in range(TOKENS)]
        while True:
            life = self.life

            async def ask(do, life=life, **params):
                if life is None or life is not self.life:
                    raise Failed("the adapter ended")
                return await self.adapter.call(do, answer=answer, **params)

            try:
                at = await ask("grow", timeline=ANSWERS, message_id=answer, entry={"by": self.user})
                for token in tokens[at["text"].count(" ") :]:
                    await ask("write", text=token)
                    await asyncio.sleep(0.01)
                has_ended = True
                await ask("finish")
                return "".join(tokens)
            except Failed as error:
                if has_ended and "message_closed" in str(error):
                    return "".join(tokens)
                if str(error) != "the adapter ended":
                    raise AssertionError(f"{answer} behind {at}") from error
                await asyncio.sleep(0.02)

    async def change(self, rng):
        """Edits, deletions and reactions; they may fail, as what they are of may not be there."""
        for _ in range(3):
            room, sequence = rng.choice(ROOMS), rng.randint(1, 40)
            method, params = rng.choice(
                [
                    ("message.update", {"set": {"text": f"edited {rng.random()}"}}),
                    ("message.delete", {}),
                    ("reaction.add", {"reaction": "+1"}),
                    ("reaction.remove", {"reaction": "+1"}),
                    ("pin.add", {}),
                ]
            )
            call = self.adapter.send("call", method=method, params={"timeline": room, "sequence": sequence, **params})
            self.calls.append(call)

    async def at_rest(self):
        """Waits until nothing more is on its way to the server."""
        await asyncio.wait_for(asyncio.gather(*self.pending.values(), *self.calls, return_exceptions=True), PATIENCE)
        self.settle()
        assert not self.pending

        async def sent():
            while (await self.adapter.call("dump"))["outbox"]:
                await asyncio.sleep(0.02)

        await asyncio.wait_for(sent(), PATIENCE)

    async def kill(self):
        self.life = None
        await self.adapter.kill()
        self.settle()
        await self.begin()
        for one in (await self.adapter.call("dump"))["outbox"]:
            self.promised.add(one["message_id"])

    def settle(self):
        for message_id, future in list(self.pending.items()):
            if future.done():
                del self.pending[message_id]
                if future.exception() is None and "ok" in future.result():
                    self.promised.add(message_id)

    async def caught_up(self, whole):
        """Waits until the store has all that the server has, and the outbox is empty."""
        until = asyncio.get_running_loop().time() + PATIENCE
        while True:
            dump = await self.adapter.call("dump")
            stored = {room: dump["timelines"].get(room, {"messages": []})["messages"] for room in ALL}
            if not dump["outbox"] and all(list(map(without_users, stored[room])) == whole[room] for room in ALL):
                return stored
            if asyncio.get_running_loop().time() > until:
                for room in ALL:
                    stored[room] = list(map(without_users, stored[room]))
                    assert stored[room] == whole[room], (self.user, room)
                raise AssertionError(f"unanswered: {dump['outbox']}")
            await asyncio.sleep(0.05)


def without_users(message):
    """The dump names all users of a reaction elsewhere; which ten a copy shows is its own affair."""
    if "reactions" in message:
        counts = {name: one["count"] for name, one in message["reactions"].items()}
        message = message | {"reactions": counts}
    return message


def ask(server, method, **params):
    return json.loads(server.rpc(None, method, **params)[2])["result"]


def await_killed(server):
    """Waits until all is done that killed clients have asked for: their lines have ended, so it is queued, and what is
    queued later is done later."""
    until = time.monotonic() + PATIENCE
    while b"\ntideline_connections 2\n" not in server.get("/metrics")[2]:
        assert time.monotonic() < until, "a line of a killed client has not ended"
        time.sleep(0.02)
    for room in ROOMS:
        ask(server, "message.append", timeline=room, entry={"text": "the last one"}, message_id=f"last of {room}")


def ranges(server):
    """What the server shows of each room."""
    found = {room: [] for room in ALL}
    for room in ALL:
        place = 1
        while place is not None:
            page = ask(server, "message.range", timeline=room, **{"from": place}, limit=1000)
            found[room] += map(without_users, page["messages"])
            place = page.get("next")
    return found


def dumped(server):
    ran = subprocess.run([server.binary, "dump", server.data], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = {room: [] for room in ALL}
    for line in ran.stdout.splitlines():
        said = json.loads(line)
        if "message" in said:
            found[said["timeline"]].append(said["message"])
    return found


async def run(client, package, folder, seed):
    rng = random.Random(seed)
    server = await asyncio.to_thread(Server(folder).start)
    proxy = Proxy(server.port)
    await proxy.start()
    people = [Person(user, client, package, folder, proxy.port) for user in ("ann", "ben")]
    try:
        for person in people:
            await person.begin()
        # Something is stored everywhere before the first kill.
        for person in people:
            person.write(4)
            await asyncio.wait_for(asyncio.gather(*person.subscribing, *person.pending.values()), PATIENCE)
        reciting = asyncio.gather(*(person.recite() for person in people))
        for kill in range(KILLS):
            for person in people:
                person.write(rng.randint(1, 20))
                await person.change(rng)
            proxy.delay = rng.choice([0.0, 0.0, 0.002])
            await asyncio.sleep(rng.random() * 0.1)
            rng.choice([proxy.cut, proxy.half_close, lambda: None])()
            await asyncio.sleep(rng.random() * 0.05)
            if kill % 2 == 0:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            else:
                await rng.choice(people).kill()
        proxy.delay = 0.0
        texts = await asyncio.wait_for(reciting, PATIENCE)
        for person in people:
            await person.at_rest()
        await asyncio.to_thread(await_killed, server)
        whole = await asyncio.to_thread(ranges, server)
        dumps = [await person.caught_up(whole) for person in people]
        for person in people:
            await person.adapter.call("close")
            await person.adapter.end()
        server.stop()
        return people, dumps, dumped(server), texts
    finally:
        for person in people:
            await person.adapter.kill()
        await proxy.stop()
        server.kill()


@pytest.mark.parametrize("client", sorted(suite.CLIENTS))
def test_each_store_equals_the_dump(packages, client, tmp_path):
    if client not in packages:
        pytest.skip(f"there is no client for {client}")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    people, dumps, whole, texts = asyncio.run(run(client, packages[client], tmp_path, seed))
    for person, dump in zip(people, dumps, strict=True):
        for room in ALL:
            stored = [without_users(one) for one in dump[room]]
            assert stored == [without_users(one) for one in whole[room]], (person.user, room)
    assert sorted(one["entry"]["text"] for one in whole[ANSWERS]) == sorted(texts)
    assert [one["outcome"] for one in whole[ANSWERS]] == ["done", "done"]
    ids = [one["message_id"] for room in ALL for one in whole[room]]
    assert len(ids) == len(set(ids)), "something is there twice"
    for person in people:
        assert person.promised <= set(ids), person.promised - set(ids)
        assert len(person.promised) >= 4
