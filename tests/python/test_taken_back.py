"""What is taken away while a call waits, runs in a batch or streams, at every door: a key, a token, a membership, a policy.

Each door begins something that waits, the right is taken away, and only then there is news. Nothing of that news is
told, and nothing that stood behind the wait is done. Each case has a twin from which nothing is taken away: it is told.
"""

import contextlib
import http.client
import itertools
import json
import socket
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from client import until
from guarded import Guarded, token, who

SECRET = "told-too-late"
WAIT_MS = 1_500
POLICY = """
[[policy]]
prefix = "member/"
others = []
members = ["read", "append"]
[[policy]]
prefix = "open/"
others = [OTHERS]
"""
# A batch must not wait, so that it is made of calls that take their time.
BULK = [f"bulk/{number}" for number in range(250)]
CENTRIFUGE = """
[centrifuge]
http_stream.enabled = true
sse.enabled = true
channel.without_namespace = { presence = true }
"""
NUMBERS = itertools.count(1)


def settings(others):
    return POLICY.replace("OTHERS", others) + CENTRIFUGE


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("house"), auth=settings('"read"')).start()
    with running.open(running.admin) as client:
        for number in [client.ask("message.append", timeline=name, entry={"n": 1}) for name in BULK]:
            client.take(number)
    yield running
    running.kill()


def admin(house, method, **params):
    return house.call(house.admin, method, **params)


# What can be taken away. Each has the name of what its caller reads.


class Key:
    prefix = "of-keys/"

    def __init__(self, house, room):
        self.made = admin(house, "key.create", name="back-end", rights=[{"on": "*", "allow": ["admin"]}])
        self.bearer = self.made["key"]

    def take_away(self, house):
        assert admin(house, "key.revoke", id=self.made["id"]) == {"revoked": True}


class Token:
    prefix = "of-users/"

    def __init__(self, house, room):
        self.user = f"ann{next(NUMBERS)}"
        admin(house, "member.add", timeline=room, members=[{"user": self.user}])
        self.bearer = token(self.user, iat=int(time.time()) - 5)

    def take_away(self, house):
        admin(house, "session.revoke", user=self.user)


class Membership:
    prefix = "member/"

    def __init__(self, house, room):
        self.user, self.room = f"ben{next(NUMBERS)}", room
        admin(house, "member.add", timeline=room, members=[{"user": self.user}])
        self.bearer = who(self.user)

    def take_away(self, house):
        admin(house, "member.remove", timeline=self.room, users=[self.user])


class Policy:
    prefix = "open/"

    def __init__(self, house, room):
        self.bearer = who(f"eve{next(NUMBERS)}")

    def take_away(self, house):
        rules(house, "")


def rules(house, others):
    """Puts another policy in force."""
    house.reconfigure(settings(others))


# The doors. What they tell is text, whatever it comes in; `over` is set when nothing more can come.


class Door:
    def __init__(self, house, caller, room):
        self.house, self.bearer, self.room = house, caller.bearer, room
        self.told, self.over = "", threading.Event()
        self.open()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.begun()

    def run(self):
        try:
            self.listen()
        except (ConnectionClosed, OSError, http.client.HTTPException):
            pass
        self.over.set()

    def open(self):
        pass

    def begun(self):
        """It waits by now; if it did not, the case would be an easier one."""
        time.sleep(0.3)

    def sync(self):
        head = admin(self.house, "timeline.get", timeline=self.room)["head"]
        return "sync", {"positions": {self.room: head}, "wait_ms": WAIT_MS}

    def conversations(self):
        """From now on, if the caller has conversations."""
        listed = lambda: self.house.call(self.bearer, "conversation.list")["conversations"]
        until(lambda: self.room in [one["timeline"] for one in listed()])
        page = self.house.call(self.bearer, "conversation.sync")
        while not page["done"]:
            page = self.house.call(self.bearer, "conversation.sync", cursor=page["cursor"])
        return "conversation.sync", {"cursor": page["cursor"], "wait_ms": WAIT_MS}

    def tail(self):
        page = admin(self.house, "log.tail")
        while page["lines"]:
            page = admin(self.house, "log.tail", after=page["next"])
        return "log.tail", {"after": page["next"], "level": "info", "wait_ms": WAIT_MS}

    def many(self):
        method, params = self.sync()
        del params["wait_ms"]
        params["positions"] |= dict.fromkeys(BULK, 1)
        return [(method, params)] * 200

    def done(self, number):
        return "message.append", {"timeline": f"{self.room}/done", "entry": {"number": number}}


def native(*calls):
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls, 1)
    ]
    return json.dumps(calls[0] if len(calls) == 1 else calls)


class Http(Door):
    path, key = "/v1/rpc", None

    def open(self):
        self.body = self.calls()

    def listen(self):
        headers = {"content-type": "application/json"}
        headers |= {self.key: self.bearer} if self.key else {"authorization": f"Bearer {self.bearer}"}
        self.told += self.house.http("POST", self.path, self.body, headers)[2].decode()


class HttpSync(Http):
    def calls(self):
        return native(self.sync())


class HttpConversations(Http):
    def calls(self):
        return native(self.conversations())


class HttpLog(Http):
    def calls(self):
        return native(self.tail())


class HttpBatch(Http):
    def calls(self):
        return native(*self.many())


class ApiRpc(Http):
    path, key = "/api/rpc", "x-api-key"

    def calls(self):
        method, params = self.sync()
        return json.dumps({"method": method, "params": params})


class ApiRpcLog(Http):
    path, key = "/api/rpc", "x-api-key"

    def calls(self):
        method, params = self.tail()
        return json.dumps({"method": method, "params": params})


def made_by(room):
    """The name of a key that is made behind a wait."""
    return room.replace("/", "-")


def several(door):
    """A wait, and behind it whatever this API can do and tell."""
    method, params = door.sync()
    behind, made = door.done(1)
    return [
        ("rpc", {"method": method, "params": params}),
        ("publish", {"channel": f"{door.room}/done", "data": {"number": 2}}),
        ("broadcast", {"channels": [f"{door.room}/done"] * 3, "data": {"number": 3}}),
        ("rpc", {"method": behind, "params": made}),
        ("rpc", {"method": "key.create", "params": {"name": made_by(door.room), "rights": [{"on": "*", "allow": ["admin"]}]}}),
        ("history", {"channel": door.room, "limit": 10}),
    ]


class ApiBatch(Http):
    path, key = "/api/batch", "x-api-key"

    def calls(self):
        return json.dumps({"commands": [{name: params} for name, params in several(self)]})


class ApiLines(Http):
    path, key = "/api", "x-api-key"

    def calls(self):
        return "\n".join(json.dumps({"method": name, "params": params}) for name, params in several(self))


class Socket(Door):
    def open(self):
        headers = {"authorization": f"Bearer {self.bearer}"}
        self.socket = connect(self.house.url, additional_headers=headers, compression=None, subprotocols=["tideline.v1.json"])
        self.socket.send(self.calls())

    def listen(self):
        while True:
            self.told += self.socket.recv() + "\n"
            if self.ends_with_its_answer:
                return

    ends_with_its_answer = True


class SocketSync(Socket):
    def calls(self):
        return native(self.sync())


class SocketConversations(Socket):
    def calls(self):
        return native(self.conversations())


class SocketLog(Socket):
    def calls(self):
        return native(self.tail())


class SocketBatch(Socket):
    def calls(self):
        return native(*self.many())


class Streaming:
    """It goes on until it is ended."""

    ends_with_its_answer = False

    def begun(self):
        until(lambda: self.is_there in self.told)


class Subscription(Streaming, Socket):
    is_there = '"epoch"'

    def calls(self):
        return native(("subscribe", {"timeline": self.room}))


class AllConversations(Streaming, Socket):
    # The reply says only that they will be looked up.
    is_there = '"more":false'

    def calls(self):
        # What it joins later is followed from then on, so without what was written before.
        self.conversations()
        return native(("subscribe", {"conversations": True}))


class StreamOfChanges(Streaming, Socket):
    is_there = '"result"'

    def calls(self):
        return native(("stream.open", {"timelines": self.room}))


class Dialect(Door):
    """The Centrifuge protocol on a WebSocket."""

    def open(self):
        url = self.house.origin.replace("http", "ws", 1) + "/connection/websocket"
        self.socket = connect(url, compression=None)
        self.socket.send("\n".join(json.dumps(command) for command in self.frame()))

    def frame(self):
        behind = [{"id": number, **command} for number, command in enumerate(self.commands(), 2)]
        return [{"id": 1, "connect": {"token": self.bearer}}, *behind]

    def listen(self):
        while True:
            self.told += self.socket.recv() + "\n"


class DialectRpc(Dialect):
    def commands(self):
        method, params = self.sync()
        return [{"rpc": {"method": method, "data": params}}]


class DialectBatch(Dialect):
    def commands(self):
        calls = [self.sync(), ("conversation.count", {})]
        return [{"rpc": {"method": method, "data": params}} for method, params in calls]


class DialectSubscription(Streaming, Dialect):
    is_there = '"subscribe"'

    def commands(self):
        return [{"subscribe": {"channel": self.room}}]


class DialectEvents(DialectSubscription):
    """The same down an HTTP response."""

    path, kind = "/connection/sse", "text/event-stream"

    def open(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.house.port, timeout=60)
        body = "\n".join(json.dumps(command) for command in self.frame())
        self.connection.request("POST", self.path, body, {"content-type": "application/json"})
        self.response = self.connection.getresponse()
        assert self.response.status == 200

    def listen(self):
        while piece := self.response.read1(65_536):
            self.told += piece.decode()


class DialectStream(DialectEvents):
    path = "/connection/http_stream"


OF_KEYS = [
    HttpSync, HttpLog, HttpBatch, SocketSync, SocketLog, SocketBatch, Subscription, StreamOfChanges,
    ApiRpc, ApiRpcLog, ApiBatch, ApiLines,
]
OF_USERS = [
    HttpSync, HttpConversations, HttpBatch, SocketSync, SocketConversations, SocketBatch, Subscription, AllConversations,
    DialectRpc, DialectBatch, DialectSubscription, DialectEvents, DialectStream,
]
BATCHES = [HttpBatch, SocketBatch]
OF_MEMBERS = [door for door in OF_USERS if door not in BATCHES]
OF_OTHERS = [door for door in OF_MEMBERS if "Conversations" not in door.__name__]
CASES = [
    (taken, door)
    for taken, doors in [(Key, OF_KEYS), (Token, OF_USERS), (Membership, OF_MEMBERS), (Policy, OF_OTHERS)]
    for door in doors
]
TWINS = [(taken, door) for taken, door in CASES if door not in BATCHES]
named = lambda cases: {"argvalues": cases, "ids": [f"{taken.__name__}-{door.__name__}" for taken, door in cases]}


def begin(house, taken, door):
    room = f"{taken.prefix}{next(NUMBERS)}"
    admin(house, "message.append", timeline=room, entry={"text": "before"})
    caller = taken(house, room)
    return room, caller, door(house, caller, room)


def tell(house, room):
    """There is news: in the timeline, and in the log."""
    admin(house, "message.append", timeline=room, entry={"text": SECRET})
    admin(house, "key.create", name=SECRET, rights=[])


def end(opened):
    if hasattr(opened, "socket"):
        opened.socket.close()
    if hasattr(opened, "connection"):
        # A close would take the response away while the thread reads it.
        with contextlib.suppress(OSError):
            opened.connection.sock.shutdown(socket.SHUT_RDWR)
        opened.over.wait(5)
        opened.connection.close()


@pytest.mark.parametrize("taken, door", **named(CASES))
def test_nothing_is_done_or_told_after_it_was_taken_away(house, taken, door):
    room, caller, opened = begin(house, taken, door)
    try:
        caller.take_away(house)
        tell(house, room)
        # A wait ends by itself; what goes on is given the time to tell it.
        opened.over.wait(0.7 if isinstance(opened, (Streaming, Dialect)) else 60)
        time.sleep(0.2)
        assert SECRET not in opened.told
        assert b"timeline_not_found" in house.rpc(house.admin, "message.range", timeline=f"{room}/done")[2]
        assert made_by(room) not in [key["name"] for key in admin(house, "key.list")["keys"]]
    finally:
        end(opened)
        if taken is Policy:
            rules(house, '"read"')


@pytest.mark.parametrize("taken, door", **named(TWINS))
def test_what_nobody_takes_away_is_done_and_told(house, taken, door):
    room, _, opened = begin(house, taken, door)
    try:
        tell(house, room)
        until(lambda: SECRET in opened.told)
        if door in [ApiBatch, ApiLines]:
            assert opened.over.wait(60)
            assert admin(house, "timeline.get", timeline=f"{room}/done")["head"] == 5
            assert made_by(room) in [key["name"] for key in admin(house, "key.list")["keys"]]
    finally:
        end(opened)
