"""A server that is a plain model: one timeline as a list, and what it says of it to whoever connects.

Owns: what subscribe, range and the pushes mean, in their simplest form. Promises: all that it says is true when it is
said; a page may be sent late, as a real server's may be, behind pushes of what has changed since. Must not: know any client.
"""

import copy
import json
import logging

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

# Connections that break are what is wanted here.
logging.getLogger("websockets").setLevel(logging.CRITICAL)
NAME = "t"
QUIET = {
    "session.open": {"session": "s", "user": "ann", "server": {"name": "model", "version": "1"}, "heartbeat_ms": 25000, "limits": {}},
    "ping": {"time": 1},
}


class Model:
    def __init__(self, rng):
        self.rng = rng
        self.histories = 0
        self.connection = None
        self.is_followed = False
        #: Pages that are not told yet: (connection, id, result).
        self.late = []
        self.begin()

    def begin(self):
        self.histories += 1
        self.epoch, self.messages, self.changes, self.floor = f"E{self.histories}", [], 0, 1

    @property
    def head(self):
        return len(self.messages)

    def shown(self, first, last):
        return copy.deepcopy(self.messages[first - 1 : last])

    # What happens to the timeline.

    async def append(self, count):
        first = self.head + 1
        for sequence in range(first, first + count):
            entry = {"n": self.rng.randrange(1000)}
            self.messages.append({"sequence": sequence, "timestamp": 1, "message_id": f"m-{sequence}", "sender": "ben", "entry": entry})
        await self.push("message", messages=self.shown(first, self.head), head=self.head)

    async def change(self):
        """An edit, a deletion or a reaction of any message that is there."""
        if self.floor > self.head:
            return
        first, last = self.floor, self.head
        if self.late and self.rng.random() < 0.7:
            # What is on its way is not sent anew: only this push says it.
            page = [one["sequence"] for one in self.late[-1][2]["messages"] if first <= one["sequence"] <= last]
            first, last = (page[-1], page[0]) if page else (first, last)
        message = self.messages[self.rng.randint(first, last) - 1]
        kind = self.rng.choice(["edit", "edit", "delete", "react", "react"])
        if "deleted" in message:
            return
        self.changes += 1
        message["change"] = self.changes
        if kind == "react":
            count = self.rng.randrange(3)
            message["reactions"] = {"+1": {"count": count, "users": ["ben"]}} if count else {}
            told = {"sequence": message["sequence"], "change": self.changes, "reactions": dict(message["reactions"])}
            if not count:
                del message["reactions"]
            return await self.push("reaction", messages=[told], change_head=self.changes)
        if kind == "delete":
            message["deleted"] = True
            del message["entry"]
        else:
            message["entry"] = {"n": self.rng.randrange(1000)}
        await self.push("message.changed", messages=[copy.deepcopy(message)], change_head=self.changes)

    def trim(self):
        self.floor = max(self.floor, self.rng.randint(1, self.head + 1))

    async def replace(self):
        """Another history in place of this one."""
        epoch = self.epoch
        self.begin()
        is_followed, self.is_followed = self.is_followed, False
        if is_followed:
            await self.say(method="subscription.ended", params={"timeline": NAME, "epoch": epoch, "reason": "epoch_changed", "resubscribe": True})

    # What is said.

    async def start(self):
        options = {"compression": None, "ping_interval": None, "close_timeout": 1}
        self.server = await serve(self.listen, "127.0.0.1", 0, select_subprotocol=lambda *_: "tideline.v1.json", **options)
        self.url = f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1/connect"

    async def stop(self):
        self.cut()
        self.server.close()
        await self.server.wait_closed()

    def cut(self):
        """The line is gone, without a close frame."""
        connection, self.connection, self.is_followed = self.connection, None, False
        if connection is not None:
            connection.transport.abort()

    async def listen(self, connection):
        self.cut()
        self.connection = connection
        try:
            async for text in connection:
                asked = json.loads(text)
                if connection is self.connection:
                    await self.answer(asked["id"], asked["method"], asked.get("params", {}))
        except ConnectionClosed:
            pass

    async def answer(self, number, method, params):
        if method in QUIET:
            await self.say(id=number, result=QUIET[method])
        elif method == "unsubscribe":
            self.is_followed = False
            await self.say(id=number, result={})
        elif method == "subscribe":
            await self.subscribe(number, params)
        elif params["epoch"] != self.epoch:
            await self.refuse(number, "epoch_changed", False)
        elif self.rng.random() < 0.1:
            await self.refuse(number, "busy", True)
        else:
            self.late.append((self.connection, number, self.page(params)))

    def page(self, params):
        last = params["from"]
        first = max(self.floor, last - params["limit"] + 1)
        messages = self.shown(first, last)[::-1] if first <= last else []
        return {"messages": messages, "head": self.head, "floor": self.floor, "change_head": self.changes, "epoch": self.epoch}

    async def tell_late(self):
        while self.late:
            connection, number, page = self.late.pop(0)
            if connection is self.connection:
                await self.say(id=number, result=page)

    async def subscribe(self, number, params):
        reply = {"timeline": NAME, "epoch": self.epoch, "floor": self.floor, "head": self.head, "change_head": self.changes}
        after = max(self.floor - 1, self.head - params["rewind"]) if "rewind" in params else params["after"]
        if params.get("epoch", self.epoch) != self.epoch or after > self.head:
            return await self.say(id=number, result=reply | {"messages": [], "more": False, "state": "epoch_changed"})
        since = params.get("changes_after", self.changes)
        changed = [one for one in self.messages[self.floor - 1 : after] if one.get("change", 0) > since]
        changed = copy.deepcopy(sorted(changed, key=lambda one: one["change"]))
        first = max(after + 1, self.floor)
        last = self.rng.choice([self.head, self.rng.randint(first, max(first, self.head))])
        if last < self.head:
            # No further than this reply reaches.
            reply["change_head"] = changed[-1]["change"] if changed else min(since, self.changes)
        state = "ok" if first == after + 1 else "too_old"
        result = reply | {"messages": self.shown(first, last), "changed": changed, "more": last < self.head, "state": state}
        self.is_followed = True
        await self.say(id=number, result=result)
        if last < self.head:
            await self.push("message", messages=self.shown(last + 1, self.head), head=self.head)

    async def refuse(self, number, reason, retry):
        data = {"reason": reason, "retry": retry, "retry_after_ms": 1}
        await self.say(id=number, error={"code": 1, "message": reason, "data": data})

    async def push(self, method, **params):
        if self.is_followed:
            await self.say(method=method, params={"timeline": NAME, "epoch": self.epoch, **params})

    async def say(self, **frame):
        try:
            await self.connection.send(json.dumps({"jsonrpc": "2.0", **frame}))
        except ConnectionClosed:
            pass
