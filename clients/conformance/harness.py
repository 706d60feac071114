"""Plays a scenario: a scripted server on one side of a client, its adapter on the other.

Owns: the language of the scenarios (README.md). Promises: nothing depends on time but how long is waited for what must
come; what must not come is looked for behind a barrier. Must not: know any client.
"""

import asyncio
import json
import os
import re
import shutil
import tempfile

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response
from websockets.datastructures import Headers

from proxy import reset

#: How long something may take that has to come, s.
PATIENCE = 60
#: The same where something is to fail.
PATIENCE_WITH_BUG = 5
BIG = 2**53 - 1
#: Answered by the script itself, unless a scenario expects the method.
BY_ITSELF = {
    "session.open": {"session": "s", "server": {"name": "script", "version": "1"}, "heartbeat_ms": 25000, "limits": {}},
    "ping": {"time": 1},
    "unsubscribe": {},
    "position.set": {"positions": {}},
}

#: What a subscribe is answered, but for what a scenario says of it.
SUBSCRIBED = {"timeline": "t", "epoch": "E1", "floor": 1, "change_head": 0, "messages": [], "more": False, "state": "ok"}


class Failed(AssertionError):
    """The client did not do what the scenario says."""


def plain(value):
    """Integers as numbers, however they came: `{"$integer": "…"}` is what JavaScript can write."""
    if isinstance(value, dict):
        if set(value) == {"$integer"}:
            return int(value["$integer"])
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def told(value, as_text):
    """What a server sends: large integers as text where the client asked for it."""
    if isinstance(value, dict):
        return {name: told(one, as_text) for name, one in value.items()}
    if isinstance(value, list):
        return [told(one, as_text) for one in value]
    is_large = type(value) is int and abs(value) > BIG
    return {"$integer": str(value)} if is_large and as_text else value


def message(short):
    """`3` is message 3; an object may say more, or other, of it."""
    given = {"sequence": short} if isinstance(short, int) else short
    sequence = given.get("sequence")
    whole = {
        "sequence": sequence,
        "timestamp": 1000,
        "message_id": f"m-{sequence}",
        "sender": "ben",
        "entry": {"n": sequence},
    }
    if given.get("deleted"):
        del whole["entry"]
    return whole | given


def spelled(value):
    """Shorthand written out: whatever stands in `messages`, `changed` or `message`."""
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, one in value.items():
        if name in ("messages", "changed") and isinstance(one, list) and not value.get("as_written"):
            out[name] = [message(short) if isinstance(short, (int, dict)) else short for short in one]
        elif name == "message" and isinstance(one, (int, dict)):
            out[name] = message(one)
        else:
            out[name] = spelled(one)
    out.pop("as_written", None)
    return out


def holds(wanted, got):
    """Whether `got` has everything that `wanted` has; `null` stands for absent."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return all(got.get(name) is None if one is None else name in got and holds(one, got[name]) for name, one in wanted.items())
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(map(holds, wanted, got))
    if isinstance(wanted, str) and wanted.startswith("~") and isinstance(got, str):
        return re.fullmatch(wanted[1:], got) is not None
    return type(wanted) is type(got) and wanted == got


class Adapter:
    """A process with a client in it."""

    def __init__(self, command, environment):
        self.command, self.environment = command, environment
        self.process = None

    async def start(self):
        self.number, self.waiting, self.events = 0, {}, []
        self.changed = asyncio.Event()
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
            limit=64 << 20,
        )
        self.reader = asyncio.ensure_future(self.read())

    async def read(self):
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            if "event" in said:
                self.events.append(plain(said))
                self.changed.set()
            else:
                future = self.waiting.pop(said["id"])
                if not future.done():
                    future.set_result(plain(said))
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(Failed("the adapter ended"))
                future.exception()  # who waits gets it; nobody needs to
        self.waiting.clear()

    def send(self, do, **params):
        """A future of the answer."""
        self.number += 1
        self.waiting[self.number] = future = asyncio.get_running_loop().create_future()
        self.process.stdin.write(json.dumps({"id": self.number, "do": do, **params}).encode() + b"\n")
        return future

    async def call(self, do, **params):
        answer = await asyncio.wait_for(self.send(do, **params), PATIENCE)
        if "error" in answer:
            raise Failed(f"{do}: {answer['error']}")
        return answer["ok"]

    async def kill(self):
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        if self.process is not None:
            await self.process.wait()
            await self.reader

    async def end(self):
        """In order: it exits by itself when nothing more is said to it."""
        if self.process is None:
            return
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), PATIENCE)
        except asyncio.TimeoutError:
            await self.kill()
            raise Failed("the adapter does not exit") from None
        await self.reader


class ScriptedServer:
    """Says what it is told to say; keeps what it was asked."""

    def __init__(self, expected):
        self.by_itself = {name: one for name, one in BY_ITSELF.items() if name not in expected}
        self.requests = []
        self.changed = asyncio.Event()
        self.connections = []
        self.refusals = []
        self.is_deaf = False
        self.heartbeat_ms = None

    async def start(self):
        self.server = await serve(
            self.serve, "127.0.0.1", 0, process_request=self.enter, compression=None, ping_interval=None, close_timeout=1,
            select_subprotocol=lambda _, offered: "tideline.v1.json" if "tideline.v1.json" in offered else None,
        )
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self):
        for connection in self.connections:
            connection.transport.abort()
        self.server.close()
        await self.server.wait_closed()

    def enter(self, _, request):
        if self.refusals:
            status = self.refusals.pop(0)
            self.changed.set()
            return Response(status, "no", Headers([("Content-Length", "0"), ("Connection", "close")]), b"")
        return None

    async def serve(self, connection):
        connection.as_text = False
        self.connections.append(connection)
        self.changed.set()
        try:
            async for text in connection:
                asked = json.loads(text)
                if self.is_deaf:
                    continue
                params = asked.get("params", {})
                if asked["method"] == "session.open":
                    connection.as_text = params.get("integers") == "text"
                if asked["method"] in self.by_itself:
                    result = self.by_itself[asked["method"]]
                    if asked["method"] == "session.open":
                        result = result | {key: params[key] for key in ("user",) if key in params}
                        if self.heartbeat_ms:
                            result = result | {"heartbeat_ms": self.heartbeat_ms}
                    await connection.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
                else:
                    self.requests.append((connection, asked["id"], asked["method"], plain(params)))
                    self.changed.set()
        except ConnectionClosed:
            pass

    @property
    def last(self):
        return self.connections[-1]

    async def say(self, frame, to=None):
        to = to or self.last
        try:
            await to.send(json.dumps({"jsonrpc": "2.0", **told(frame, to.as_text)}))
        except ConnectionClosed:
            raise Failed("the client has left before it was told something") from None


class Play:
    """One scenario with one client."""

    def __init__(self, scenario, adapter, folder, bug=None):
        self.scenario, self.adapter, self.bug = scenario, adapter, bug
        self.store = os.path.join(folder, "store")
        expected = {step["expect"] for step in scenario["steps"] if "expect" in step}
        self.server = ScriptedServer(expected)
        self.patience = PATIENCE if bug is None else PATIENCE_WITH_BUG
        self.asked = {}
        self.seen = 0

    async def run(self):
        await self.server.start()
        if self.adapter.process is None or self.adapter.process.returncode is not None:
            await self.adapter.start()
        self.seen = len(self.adapter.events)
        try:
            await self.open()
            for number, step in enumerate(self.scenario["steps"], 1):
                verb = next(iter(step))
                try:
                    await getattr(self, f"step_{verb}")(step)
                except (Failed, asyncio.TimeoutError) as error:
                    since = self.adapter.events[self.seen :]
                    raise Failed(
                        f"{self.scenario['name']}, step {number} {json.dumps(step)}:\n{error or 'it did not come'}\n"
                        f"not yet looked at: events {since}, requests {[one[2:] for one in self.server.requests]}"
                    ) from None
            self.no_more()
            await self.adapter.call("close")
        finally:
            await self.server.stop()

    async def open(self):
        about = {"delay_ms": [1, 10], "user": "ann"} | self.scenario.get("open", {})
        self.server.heartbeat_ms = about.pop("heartbeat_ms", None)
        bug = {"bug": self.bug} if self.bug else {}
        url = f"ws://127.0.0.1:{self.server.port}/v1/connect"
        await self.adapter.call("open", url=url, store=self.store, **about, **bug)

    async def until(self, what, changed):
        async def wait():
            while (found := what()) is None:
                changed.clear()
                await changed.wait()
            return found

        return await asyncio.wait_for(wait(), self.patience)

    # What the app does, and what it must be answered.

    async def step_do(self, step):
        params = {name: one for name, one in step.items() if name not in ("do", "as")}
        self.asked[step.get("as", step["do"])] = self.adapter.send(step["do"], **params)

    async def step_answered(self, step):
        answer = await asyncio.wait_for(self.asked.pop(step["answered"]), self.patience)
        if "error" in answer or not holds(step.get("with", {}), answer["ok"]):
            raise Failed(f"it was answered {answer}")

    async def step_failed(self, step):
        answer = await asyncio.wait_for(self.asked.pop(step["failed"]), self.patience)
        wanted = {name: one for name, one in step.items() if name != "failed"}
        if "error" not in answer or not holds(wanted, answer["error"]):
            raise Failed(f"it was answered {answer}")

    # What the server is asked, and what it says.

    async def step_expect(self, step):
        def found():
            for place, request in enumerate(self.server.requests):
                if request[2] == step["expect"] and holds(step.get("of", {}), request[3]):
                    return self.server.requests.pop(place)
            return None

        connection, number, method, params = await self.until(found, self.server.changed)
        if not holds(step.get("with", {}), params):
            raise Failed(f"it was asked {method} {params}")
        self.request = connection, number
        if method == "message.append":
            self.appended = params
        if "as" in step:
            self.asked[step["as"]] = self.request

    async def step_subscribes(self, step):
        """A subscribe with these members; its reply reaches as far as its messages."""
        given = step.get("reply", {})
        await self.step_expect({"expect": "subscribe", "with": step["subscribes"]})
        last = (given.get("messages") or [step["subscribes"].get("after", 0)])[-1]
        head = last["sequence"] if isinstance(last, dict) else last
        await self.step_reply({"reply": SUBSCRIBED | {"head": head} | given})

    async def step_same_append(self, _):
        """The last append once more, whatever its ID is."""
        await self.step_expect({"expect": "message.append", "with": self.appended})

    async def answer(self, step, **what):
        connection, number = self.asked[step["to"]] if "to" in step else self.request
        await self.server.say({"id": number, **what}, connection)

    async def step_reply(self, step):
        await self.answer(step, result=spelled(step["reply"]))

    async def step_refuse(self, step):
        data = {"retry": False, **step["refuse"]}
        await self.answer(step, error={"code": step.get("code", 409), "message": "no", "data": data})

    async def step_push(self, step):
        await self.server.say({"method": step["push"], "params": spelled(step["params"])})

    async def step_extended(self, step):
        """Parts of message 1, or what is said to be some."""
        await self.server.say({"method": "message.extended", "params": {"timeline": "t", "epoch": "E1", "sequence": 1} | step["extended"]})

    async def step_frame(self, step):
        """Text as it is."""
        await self.server.last.send(step["frame"])

    async def step_bytes(self, step):
        await self.server.last.send(bytes.fromhex(step["bytes"]))

    async def step_drawn_out(self, step):
        """A reply in pieces, with other frames nowhere in between: WebSocket fragments."""
        connection, number = self.request
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": told(spelled(step["drawn_out"]), connection.as_text)})

        async def pieces():
            for at in range(0, len(text), 7):
                yield text[at : at + 7]
                await asyncio.sleep(0.001)

        await connection.send(pieces())

    async def step_fill(self, step):
        """A place in the store, by a subscription: messages 1 to `fill`, or with `rewind` the newest so many of them."""
        timeline, head = step.get("timeline", "t"), step["fill"]
        begin = {"rewind": step["rewind"]} if "rewind" in step else {}
        first = head + 1 - begin.get("rewind", head)
        await self.step_do({"do": "subscribe", "timeline": timeline, **begin})
        await self.step_expect({"expect": "subscribe", "of": {"timeline": timeline}, "with": begin and begin | {"after": None}})
        messages = list(range(first, head + 1))
        await self.step_reply({"reply": SUBSCRIBED | {"timeline": timeline, "head": head, "messages": messages}})
        await self.step_answered({"answered": "subscribe"})
        await self.step_sees({"sees": [{"event": "message", "message": n} for n in messages]})

    # How the line breaks.

    async def step_close(self, step):
        await self.server.last.close(step["close"])

    async def step_cut(self, _):
        reset(self.server.last.transport)

    async def step_half_close(self, _):
        """The server's side ends without a close frame; the client's stays open."""
        self.server.last.transport.write_eof()

    async def step_deaf(self, step):
        """From now on nothing is answered, as on a line that is dead."""
        self.server.is_deaf = step["deaf"]

    async def step_turn_away(self, step):
        """The next handshakes are answered with these HTTP statuses."""
        self.server.refusals = list(step["turn_away"])

    async def step_turned_away(self, _):
        await self.until(lambda: None if self.server.refusals else True, self.server.changed)

    async def step_connects(self, step):
        """Waits for so many connections since the beginning."""
        wanted = step["connects"]
        await self.until(lambda: len(self.server.connections) >= wanted or None, self.server.changed)

    async def step_kill(self, _):
        """The client's process, and a new one with the same store."""
        await self.adapter.kill()
        await self.adapter.start()
        self.seen = 0
        await self.open()

    async def step_again(self, step):
        """The line is cut, or the client is killed and subscribes again."""
        if step["again"] == "cut":
            return await self.step_cut(step)
        await self.step_kill(step)
        await self.step_do({"do": "subscribe", "timeline": "t", "with": step["with"]})

    async def step_stays_away(self, _):
        count = len(self.server.connections)
        await self.adapter.call("dump")
        await asyncio.sleep(0.05)
        if len(self.server.connections) != count:
            raise Failed("it came back")

    # What the app must have seen, and what the store must hold.

    async def step_sees(self, step):
        for wanted in spelled(step["sees"]):
            wanted = {"timeline": "t"} | wanted if wanted["event"] not in ("stopped",) else wanted
            got = await self.until(self.next_event, self.adapter.changed)
            if not holds(wanted, got):
                raise Failed(f"the app saw {got} in place of {wanted}")

    def next_event(self):
        while self.seen < len(self.adapter.events):
            event = self.adapter.events[self.seen]
            self.seen += 1
            if event["event"] in ("message", "changed", "extended", "older", "too_old", "reset", "ended", "closed", "refused", "stopped", "signal", "receipt"):
                return event
        return None

    async def step_settled(self, step):
        """All that the server has said was dealt with: behind it, a call was answered."""
        if "ping" not in self.server.by_itself:
            raise Failed("a scenario that expects ping can't be settled by one")
        await self.step_unseen(step)
        self.no_more()

    async def step_unseen(self, _):
        """As `settled`, but there may be requests."""
        await self.adapter.call("call", method="ping", params={})
        # What the adapter listens to late has come by then.
        await asyncio.sleep(0.04)
        self.no_event()

    def no_event(self):
        event = self.next_event()
        if event is not None:
            raise Failed(f"the app saw {event}")

    def no_more(self):
        self.no_event()
        if self.server.requests:
            raise Failed(f"it was asked {[one[2:] for one in self.server.requests]}")

    async def step_store(self, step):
        """Exactly these messages, and the place."""
        dump = await self.adapter.call("dump")
        for timeline, wanted in step["store"].items():
            got = dump["timelines"].get(timeline)
            if wanted is None:
                if got is not None:
                    raise Failed(f"the store has {got}")
                continue
            wanted = spelled(wanted)
            if got is None or {name: got[name] for name in wanted} != wanted:
                raise Failed(f"the store has {got} in place of {wanted}")

    async def step_outbox(self, step):
        """What waits there: messages as `outbox`, all else as `changes`."""
        verb = next(iter(step))
        waits = (await self.adapter.call("dump"))[verb]
        if not holds(step[verb], waits):
            raise Failed(f"the outbox has {waits}")

    step_changes = step_outbox


async def play(scenario, adapter, bug=None):
    folder = tempfile.mkdtemp(prefix="conformance-")
    try:
        await Play(scenario, adapter, folder, bug).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
