"""Drives the Python client by JSON lines, for the conformance suite; ADAPTER.md has the protocol.

Owns: the planted bugs. Promises: the client is the package as it is installed, unless a bug is asked for.
"""

import asyncio
import json
import os
import random
import sys
import time

sys.path.insert(0, os.environ.get("TIDELINE_CLIENT") or os.path.join(os.path.dirname(__file__), "..", "..", "python"))

import tideline  # noqa: E402
from tideline import answers, older, outbox, place  # noqa: E402

#: Between the return of `subscribe` and the first look at its events.
LATE_S = 0.03
#: What `closes_after` counts.
HEARD = ("message", "changed", "extended", "older", "too_old", "reset", "ended")


def slowly(store, ms):
    """A store that takes up to so long for whatever it is asked. It holds up all else, as a slow disk would."""
    if ms:
        for name in ("place", "message", "messages", "apply"):

            def slow(*args, quick=getattr(store, name)):
                time.sleep(random.random() * ms / 1000)
                return quick(*args)

            setattr(store, name, slow)
    return store


class NoGapCheck(place.Reader):
    def take_messages(self, messages):
        for message in messages:
            self.position = max(self.position, message["sequence"] - 1)
            super().take_messages([message])


class OlderWins(place.Reader):
    def take_copy(self, copy):
        if self.stored(copy["sequence"]) is not None:
            self.step.put[copy["sequence"]] = copy
            self.tell("changed", copy)


class NewIds(outbox.Outbox):
    def connected(self, ask, **about):
        def renamed(method, params, answered):
            again = {"message_id": params["message_id"] + "-again"} if "message_id" in params else {}
            ask(method, params | again, answered)

        is_again = getattr(self, "was_connected", False)
        self.was_connected = True
        super().connected(renamed if is_again else ask, **about)


def plant(bug):
    if bug == "no_gap_check":
        place.Reader = NoGapCheck
    elif bug == "older_wins":
        place.Reader = OlderWins
    elif bug == "page_as_it_came":
        after_page = older.after_page
        older.after_page = lambda at, page, below: after_page(at, page, [])
    elif bug == "part_grows_on":
        answers.Writing.joinable = property(lambda writing: writing.rows[-1] if writing.rows else None)
    elif bug == "new_ids":
        tideline.client.Outbox = NewIds
    else:
        raise ValueError(f"no such bug: {bug}")


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Adapter:
    def __init__(self):
        self.client = None
        self.subscriptions = {}
        self.answers = {}
        self.tasks = set()

    def spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def answer(self, command):
        number, name = command.pop("id"), command.pop("do")
        try:
            say({"id": number, "ok": await getattr(self, f"do_{name}")(**command)})
        except (tideline.TidelineError, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            told = {"reason": reason, "message": str(error)}
            if isinstance(error, tideline.MessageClosed):
                told |= {"stopped_by": error.stopped_by, "why": error.why}
            say({"id": number, "error": told})

    async def do_open(self, url, store, delay_ms, patience_ms=10_000, user=None, device=None, tokens=None, bug=None, slow_ms=0):
        if bug is not None:
            plant(bug)
        store = slowly(tideline.MemoryStore() if store is None else tideline.SqliteStore(store), slow_ms)
        token = None
        if tokens is not None:
            left = iter(tokens[:-1])

            def token():
                return next(left, tokens[-1])

        self.client = tideline.Client(
            url,
            store=store,
            user=user,
            device=device,
            token=token,
            delay_s=(delay_ms[0] / 1000, delay_ms[1] / 1000),
            patience_s=patience_ms / 1000,
            on_refused=self.refused,
        )
        self.client.start()
        self.spawn(self.tell_stopped(self.client))
        return {}

    @staticmethod
    def refused(outgoing, error):
        say({"event": "refused", "timeline": outgoing.timeline, "message_id": outgoing.message_id, "reason": error.reason})

    async def tell_stopped(self, client):
        stopped = await client.stopped()
        if self.client is not client:
            return  # closed by us
        say({"event": "stopped", "code": stopped.code, "message": str(stopped)})

    async def do_subscribe(self, timeline, rewind=None, closes_after=None, **options):
        subscription = await self.client.subscribe(timeline, rewind=rewind, also=tuple(options.get("with", ())))
        self.subscriptions[timeline] = subscription
        self.spawn(self.tell(self.client, subscription, closes_after))
        return {}

    async def do_older(self, timeline, count):
        return {"count": await self.subscriptions[timeline].older(count)}

    async def tell(self, client, subscription, closes_after):
        await asyncio.sleep(LATE_S)
        heard = 0
        try:
            async for event in subscription:
                said = {"event": event.kind, "timeline": event.timeline, **event.data}
                for name in ("message", "reason", "floor"):
                    if getattr(event, name) is not None:
                        said[name] = getattr(event, name)
                if event.messages:
                    said["messages"] = list(event.messages)
                say(said)
                heard += event.kind in HEARD
                if heard == closes_after:
                    client.unsubscribe(subscription)
                    self.subscriptions.pop(subscription.timeline)
                    say({"event": "closed", "timeline": subscription.timeline})
        except tideline.Stopped:
            pass

    async def do_unsubscribe(self, timeline):
        subscription = self.subscriptions.pop(timeline, None)
        if subscription is not None:
            self.client.unsubscribe(subscription)
        return {}

    async def do_append(self, timeline, entry, **params):
        return await self.client.append(timeline, entry, **params)

    async def do_grow(self, answer, timeline, entry=None, **params):
        self.answers[answer] = written = self.client.open(timeline, entry, **params)
        await written.__aenter__()
        return {"text": written.text, "parts": written.parts}

    async def do_write(self, answer, text):
        await self.answers[answer].write(text)
        return {}

    async def do_finish(self, answer, **params):
        return {"message": await self.answers[answer].finish(**params)}

    async def do_call(self, method, params=None):
        return {"result": await self.client.call(method, params)}

    async def do_dump(self):
        store = self.client.store
        timelines = {}
        for timeline in store.timelines():
            at = store.place(timeline)
            timelines[timeline] = {
                "epoch": at.epoch,
                "position": at.position,
                "changes": at.changes,
                "messages": store.messages(timeline),
            }
        messages, changes = self.client.outbox(), self.client.changes()
        outbox = [{"timeline": one.timeline, "message_id": one.message_id, "entry": one.params["entry"]} for one in messages]
        return {
            "timelines": timelines,
            "outbox": outbox,
            "changes": [{"method": one.method, "params": one.params} for one in changes],
        }

    async def do_close(self):
        client, self.client = self.client, None
        await client.close()
        self.subscriptions.clear()
        self.answers.clear()
        return {}


async def main():
    adapter = Adapter()
    reader = asyncio.StreamReader(limit=16 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        adapter.spawn(adapter.answer(json.loads(line)))


asyncio.run(main())
