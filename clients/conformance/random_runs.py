"""Random runs of a client against a plain model: `python random_runs.py python 200`, or one again by its seed:
`python random_runs.py javascript 1 --seed 4711`.

Owns: what an app does and sees in a run, and what must be so. Promises: a seed gives the same choices. In a run messages
are appended, changed, deleted, reacted to, above and below what the client follows; pages come late, the line breaks, the
store is slow, the subscription is closed in the middle of what it is told and begun again, the process is killed, and the
history is trimmed and replaced. An app that believes its events then shows exactly what the server has, and so does the
store. Must not: know any client.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile

import suite
from harness import Failed
from model import NAME, Model

STEPS = 60
PATIENCE = 60


class View:
    """What an app shows that does nothing but what the events say."""

    def __init__(self):
        self.messages = {}

    def take(self, event):
        kind = event["event"]
        if kind == "message":
            message = event["message"]
            sequence = message["sequence"]
            wrong = self.messages and sequence != max(self.messages) + 1
            self.expect(not wrong, f"{sequence} after {max(self.messages, default=None)}")
            self.messages[sequence] = message
        elif kind == "older":
            sequences = [one["sequence"] for one in event["messages"]]
            self.expect(sequences == list(range(sequences[0], sequences[-1] + 1)), f"a page of {sequences}")
            reaches = not self.messages or sequences[-1] >= min(self.messages) - 1
            self.expect(reaches, f"a page of {sequences} below {min(self.messages, default=None)}")
            for message in event["messages"]:
                known = self.messages.get(message["sequence"], message)
                self.expect(change_of(message) >= change_of(known), f"{message} is older than {known}")
                self.messages[message["sequence"]] = message
        elif kind == "changed":
            message = event["message"]
            known = self.messages.get(message["sequence"])
            self.expect(known is None or change_of(message) > change_of(known), f"{message} again, or older than {known}")
            if known is not None:
                self.messages[message["sequence"]] = message
        elif kind == "reset":
            self.messages.clear()
        elif kind == "too_old":
            self.messages = {n: one for n, one in self.messages.items() if n >= event["floor"]}
        else:
            self.expect(kind in ("state", "subscribed", "closed"), f"{event}")

    @staticmethod
    def expect(holds, what):
        if not holds:
            raise Failed(f"the app was told {what}")


def change_of(message):
    return message.get("change", 0)


class Run:
    def __init__(self, client, seed, package=None, bug=None):
        self.rng = random.Random(seed)
        self.model = Model(self.rng)
        self.adapter = suite.adapter(client, package)
        self.folder = tempfile.mkdtemp(prefix="random-")
        self.options = {"slow_ms": self.rng.choice([0, 0, 3]), "delay_ms": [1, 10], "user": "ann", "bug": bug}
        self.rewind = self.rng.choice([None, 0, 2, 3, 5])
        self.is_subscribed = False
        self.asked = []

    async def run(self):
        await self.model.start()
        try:
            await self.model.append(self.rng.randrange(40))
            await self.begin()
            for _ in range(STEPS):
                await self.step()
            await asyncio.wait_for(self.finish(), PATIENCE)
            await self.adapter.call("close")
            await self.adapter.end()
        finally:
            await self.adapter.kill()
            await self.model.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def begin(self):
        await self.adapter.start()
        self.view, self.seen = View(), 0
        await self.adapter.call("open", url=self.model.url, store=os.path.join(self.folder, "store"), **self.options)
        await self.subscribe()

    async def subscribe(self, **options):
        if self.rewind is not None:
            options["rewind"] = self.rewind
        self.look()  # that one before has closed itself
        await self.adapter.call("subscribe", timeline=NAME, **options)
        self.is_subscribed = True

    def look(self):
        """Takes the events that came."""
        while self.seen < len(self.adapter.events):
            event = self.adapter.events[self.seen]
            self.seen += 1
            self.view.take(event)
            if event["event"] == "closed":
                self.is_subscribed = False

    async def step(self):
        self.look()
        await self.rng.choices(
            [
                lambda: self.model.append(self.rng.randint(1, 4)),
                self.model.change,
                self.model.tell_late,
                self.older,
                self.close,
                self.settle,
                self.cut,
                self.trim,
                self.model.replace,
                self.kill,
            ],
            [8, 20, 6, 10, 3, 6, 2, 0.7, 0.5, 0.7],
        )[0]()

    async def older(self):
        if not self.is_subscribed:
            return
        page = self.adapter.send("older", timeline=NAME, count=self.rng.randint(1, 8))
        self.asked.append(page)
        if self.rng.random() < 0.8:
            # Until it is on its way, if it is to come from the server.
            for _ in range(100):
                if page.done() or self.model.late:
                    break
                await asyncio.sleep(0.002)

    async def close(self):
        """In the middle, or between; and another one."""
        if self.is_subscribed:
            await self.adapter.call("unsubscribe", timeline=NAME)
            # What it was sent before is on its way already.
            self.is_subscribed = False
        await self.subscribe(**self.rng.choice([{}, {"closes_after": self.rng.randint(1, 5)}]))

    async def settle(self):
        await asyncio.wait_for(self.adapter.send("call", method="ping", params={}), PATIENCE)

    async def cut(self):
        self.model.cut()

    async def trim(self):
        self.model.trim()

    async def kill(self):
        await self.adapter.kill()
        await self.begin()

    async def finish(self):
        """Everything comes to rest, down to the oldest; then all three are the same."""
        await asyncio.sleep(0.05)  # whatever closes itself has begun to listen
        await self.settle()
        self.look()
        if self.is_subscribed:
            await self.adapter.call("unsubscribe", timeline=NAME)
        await self.subscribe()
        came = None
        while came != 0:
            page = self.adapter.send("older", timeline=NAME, count=7)
            while not page.done():
                await self.model.tell_late()
                await asyncio.sleep(0.002)
            came = page.result()["ok"]["count"]
        for asked in self.asked:
            await asyncio.wait([asked])
        await asyncio.sleep(0.05)
        while not await self.is_same():
            await asyncio.sleep(0.01)

    async def is_same(self):
        await self.settle()
        self.look()
        model, dump = self.model, (await self.adapter.call("dump"))["timelines"].get(NAME)
        if dump is None or (dump["epoch"], dump["position"]) != (model.epoch, model.head):
            return False
        stored = {one["sequence"]: one for one in dump["messages"]}
        told = model.shown(1, model.head)
        for whose, have in (("store", stored), ("app", self.view.messages)):
            for message in told[model.floor - 1 :]:
                got = have.get(message["sequence"])
                if got != message:
                    raise Failed(f"the {whose} has {got} in place of {message}")
        return True


async def play(client, seeds, package=None, bug=None):
    """What failed, by seed."""
    failed = {}
    for seed in seeds:
        try:
            await asyncio.wait_for(Run(client, seed, package, bug).run(), 2 * PATIENCE)
        except (Failed, asyncio.TimeoutError, KeyError) as error:
            failed[seed] = repr(error)
            print(f"FAILED seed {seed}: {error!r}", flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=sorted(suite.CLIENTS))
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--bug", help="a planted one, which must be found")
    given = parser.parse_args()
    found = asyncio.run(play(given.client, range(given.seed, given.seed + given.runs), bug=given.bug))
    print(f"{given.client}: {len(found)} of {given.runs} runs with a difference")
    sys.exit(bool(found))
