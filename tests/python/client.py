"""A client of the native protocol for the tests, on the `websockets` library: one object is one connection.

Owns: request numbers, and what came that was not asked for. Promises: nothing that the server sent is dropped or mended.
Must not: reconnect or repeat.
"""

import collections
import json
import secrets
import time

import msgpack
from websockets.sync.client import connect

#: Seconds that something may take that has to come: tests share a machine.
PATIENCE = 60


class Refused(Exception):
    """An error reply."""

    def __init__(self, error):
        super().__init__(json.dumps(error, default=repr))
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data") or {}

    @property
    def reason(self):
        return self.data.get("reason")


class Client:
    def __init__(self, server, packed=False, user=None, **options):
        self.packed = packed
        protocol = "tideline.v1.msgpack" if packed else "tideline.v1.json"
        options.setdefault("subprotocols", [protocol])
        options.setdefault("compression", None)
        options.setdefault("max_size", 8 << 20)
        options.setdefault("open_timeout", PATIENCE)
        options.setdefault("ping_interval", None)
        if server.tls:
            options.setdefault("ssl", server.tls)
        self.socket = connect(server.url, **options)
        self.number = 0
        self.around = {}  # further members of each request
        self.replies = {}
        self.pushes = collections.deque()
        if user is not None:
            self.call("session.open", user=user)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, message):
        """Sends an object, or ready-made text or bytes."""
        if not isinstance(message, (str, bytes)):
            message = msgpack.packb(message) if self.packed else json.dumps(message)
        self.socket.send(message)

    def receive(self, patience=PATIENCE):
        """The next message as an object, whatever it is. TimeoutError if none comes."""
        message = self.socket.recv(patience)
        if self.packed:
            assert isinstance(message, bytes), "a text frame on a MessagePack connection"
            return msgpack.unpackb(message)
        assert isinstance(message, str), "a binary frame on a JSON connection"
        return json.loads(message)

    def ask(self, method, **params):
        """Sends a request and returns its number."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params, **self.around})
        return self.number

    def take(self, number):
        """The reply to a request: its result, or Refused."""
        while number not in self.replies:
            self.sort(self.receive())
        reply = self.replies.pop(number)
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply["result"]

    def call(self, method, **params):
        return self.take(self.ask(method, **params))

    def sort(self, message):
        if isinstance(message, dict) and "id" in message and "method" not in message:
            self.replies[message["id"]] = message
        else:
            assert message["jsonrpc"] == "2.0" and "id" not in message
            self.pushes.append(message)

    def push(self, method=None, patience=PATIENCE):
        """The next push; its params if a method is given, which it then has to be."""
        while not self.pushes:
            try:
                self.sort(self.receive(patience))
            except TimeoutError as error:
                # A session that stands still, a push that was never made, or one that lay there: that tells them apart.
                begun, answer = time.monotonic(), self.call("ping")
                raise TimeoutError(f"no push; a ping took {time.monotonic() - begun:.3f} s: {answer}, {self.pushes}") from error
        push = self.pushes.popleft()
        if method is None:
            return push
        assert push["method"] == method, push
        return push["params"]

    def quiet(self, seconds=0.15):
        """Nothing has been pushed and nothing comes for a while. A ping first: its reply comes behind what was on the way."""
        self.call("ping")
        assert not self.pushes, list(self.pushes)
        try:
            message = self.receive(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"not quiet: {message}")

    def messages(self, timeline, count):
        """So many messages of `message` pushes, in the order of arrival."""
        got = []
        while len(got) < count:
            push = self.push("message")
            assert push["timeline"] == timeline
            assert push["head"] >= push["messages"][-1]["sequence"]
            got += push["messages"]
        assert len(got) == count, got
        return got

    def append(self, timeline, entry=None, **params):
        return self.call("message.append", timeline=timeline, entry=entry or {"text": "x"}, **params)

    def fill(self, timeline, count, start=1):
        """Appends count messages {n: …} in batches."""
        for first in range(start, start + count, 100):
            many = [{"entry": {"n": n}} for n in range(first, min(first + 100, start + count))]
            self.call("message.append_batch", timeline=timeline, messages=many)


def filler(count):
    """A text that takes as many bytes in the log: there is nothing in it twice."""
    return secrets.token_urlsafe(count)[:count]


def until(what, patience=PATIENCE):
    """Waits until what() is true, and gives what it gave. A look costs the server, so what takes long is looked at less often."""
    begun, pause = time.monotonic(), 0.02
    while time.monotonic() < begun + patience:
        found = what()
        if found:
            return found
        time.sleep(pause)
        pause = min(pause * 1.2, 0.2)
    raise AssertionError("it did not come")


def sequences(messages):
    return [message["sequence"] for message in messages]


def me(client):
    return client.call("session.open")["user"]


def room(client, timeline, user, count, history="all"):
    """A conversation of this user with so many messages."""
    client.call("timeline.create", timeline=timeline)
    client.fill(timeline, count)
    client.call("member.add", timeline=timeline, members=[{"user": user}], history=history)
    return client.call("timeline.get", timeline=timeline)["epoch"]
