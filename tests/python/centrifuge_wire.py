"""Raw frames of the Centrifuge client protocol, in JSON and in protobuf by hand: one object is one connection.

Owns: field numbers, as the protocol has them. Promises: nothing that the server sent is dropped or mended. Must not:
reconnect, or answer pings.
"""

import base64
import collections
import hashlib
import hmac
import json

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PATIENCE = 60

# Name: number and kind. A kind is int, str, bytes, a message's name, [a message's name], or {str: a kind}.
POSITION = {"offset": (1, int), "epoch": (2, str)}
INFO = {"user": (1, str), "client": (2, str), "conn_info": (3, bytes), "chan_info": (4, bytes)}
CHANNEL = {"channel": (1, str)}
PUBLICATION = {"data": (4, bytes), "info": (5, INFO), "offset": (6, int), "tags": (7, {"": str}), "delta": (8, int)}
SUBSCRIBE = {
    "channel": (1, str), "token": (2, str), "recover": (3, int), "epoch": (6, str), "offset": (7, int),
    "join_leave": (11, int), "delta": (12, str), "tf": (13, {"op": (1, str)}), "flag": (14, int), "type": (15, int),
}
SUBSCRIBED = {
    "expires": (1, int), "ttl": (2, int), "recoverable": (3, int), "epoch": (6, str), "publications": (7, [PUBLICATION]),
    "recovered": (8, int), "offset": (9, int), "positioned": (10, int), "data": (11, bytes), "was_recovering": (12, int),
    "delta": (13, int),
}
COMMAND = {
    "id": (1, int),
    "connect": (4, {"token": (1, str), "data": (2, bytes), "subs": (3, {"": SUBSCRIBE}), "name": (4, str)}),
    "subscribe": (5, SUBSCRIBE),
    "unsubscribe": (6, CHANNEL),
    "publish": (7, {"channel": (1, str), "data": (2, bytes), "type": (3, int)}),
    "presence": (8, CHANNEL),
    "presence_stats": (9, CHANNEL),
    "history": (10, {"channel": (1, str), "limit": (7, int), "since": (8, POSITION), "reverse": (9, int)}),
    "ping": (11, {"-": (1, int)}),
    "send": (12, {"data": (1, bytes)}),
    "rpc": (13, {"data": (1, bytes), "method": (2, str)}),
    "refresh": (14, {"token": (1, str)}),
    "sub_refresh": (15, {"channel": (1, str), "token": (2, str)}),
}
PUSH = {
    "channel": (2, str), "pub": (4, PUBLICATION), "join": (5, {"info": (1, INFO)}), "leave": (6, {"info": (1, INFO)}),
    "unsubscribe": (7, {"code": (2, int), "reason": (3, str)}),
    "subscribe": (9, {"recoverable": (1, int), "epoch": (4, str), "offset": (5, int), "positioned": (6, int), "data": (7, bytes)}),
}
REPLY = {
    "id": (1, int),
    "error": (2, {"code": (1, int), "message": (2, str), "temporary": (3, int)}),
    "push": (4, PUSH),
    "connect": (5, {
        "client": (1, str), "version": (2, str), "expires": (3, int), "ttl": (4, int), "subs": (6, {"": SUBSCRIBED}),
        "ping": (7, int), "pong": (8, int), "session": (9, str), "node": (10, str),
    }),
    "subscribe": (6, SUBSCRIBED),
    "unsubscribe": (7, {"-": (1, int)}),
    "publish": (8, {"-": (1, int)}),
    "presence": (9, {"presence": (1, {"": INFO})}),
    "presence_stats": (10, {"num_clients": (1, int), "num_users": (2, int)}),
    "history": (11, {"publications": (1, [PUBLICATION]), "epoch": (2, str), "offset": (3, int)}),
    "rpc": (13, {"data": (1, bytes)}),
    "refresh": (14, {"client": (1, str), "version": (2, str), "expires": (3, int), "ttl": (4, int)}),
    "sub_refresh": (15, {"expires": (1, int), "ttl": (2, int)}),
}


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        number, shift, at = number | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return number, at


def is_map(kind):
    return isinstance(kind, dict) and "" in kind


def delimited(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def pack(message, schema):
    out = b""
    for name, value in message.items():
        number, kind = schema[name]
        if kind is int:
            out += varint(number << 3) + varint(int(value))
        elif is_map(kind):
            entry = {"key": (1, str), "value": (2, kind[""])}
            out += b"".join(delimited(number, pack({"key": key, "value": one}, entry)) for key, one in value.items())
        else:
            body = pack(value, kind) if isinstance(kind, dict) else value.encode() if kind is str else value
            out += delimited(number, body)
    return out


def unpack(data, schema):
    """A message with names. What is not there is left out, as in JSON; `data` and the like stay bytes."""
    by_number = {number: (name, kind) for name, (number, kind) in schema.items()}
    out, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        name, kind = by_number[tag >> 3]
        if is_map(kind):
            entry = unpack(value, {"key": (1, str), "value": (2, kind[""])})
            out.setdefault(name, {})[entry.get("key", "")] = entry.get("value", {})
        elif isinstance(kind, list):
            out.setdefault(name, []).append(unpack(value, kind[0]))
        elif isinstance(kind, dict):
            out[name] = unpack(value, kind)
        else:
            out[name] = value.decode() if kind is str else value
    return out


class Closed(Exception):
    """The server has closed."""

    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class Peer:
    """Payloads are bytes on both sides of this class, whatever the encoding."""

    def __init__(self, server, protobuf=False, connected=True, token=None, subprotocols=None, query=""):
        self.protobuf = protobuf
        if protobuf and subprotocols is None and not query:
            query = "?format=protobuf"
        url = server.origin.replace("http", "ws", 1) + "/connection/websocket" + query
        self.socket = connect(url, compression=None, max_size=8 << 20, subprotocols=subprotocols)
        self.number = 0
        self.pushes = collections.deque()
        self.replies = {}
        if connected:
            self.connection = self.ask(connect={"token": token} if token else {})["connect"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frame(self, *commands):
        """The bytes or text of a frame."""
        if self.protobuf:
            packed = [pack(command, COMMAND) for command in commands]
            return b"".join(varint(len(one)) + one for one in packed)
        return "\n".join(write(command) for command in commands)

    def send(self, *commands):
        self.socket.send(self.frame(*commands))

    def begin(self, **command):
        """A command with the next number."""
        self.number += 1
        return {"id": self.number, **command}

    def ask(self, **command):
        command = self.begin(**command)
        self.send(command)
        return self.reply(command["id"])

    def result(self, **command):
        """The result of a command that is not refused."""
        (name,) = command
        return self.ask(**command)[name]

    def code(self, **command):
        """The code of a command that is refused."""
        error = self.ask(**command)["error"]
        assert error["message"]
        return error["code"]

    def reply(self, number):
        while number not in self.replies:
            self.receive()
        return self.replies.pop(number)

    def push(self):
        while not self.pushes:
            self.receive()
        return self.pushes.popleft()

    def publications(self, count):
        """So many publications that are pushed next."""
        return [self.push()["pub"] for _ in range(count)]

    def receive(self):
        """Sorts what comes next into replies and pushes."""
        try:
            frame = self.socket.recv(PATIENCE)
        except ConnectionClosed as closed:
            raise Closed(closed.rcvd.code, closed.rcvd.reason) from None
        for message in self.messages(frame):
            if "id" in message:
                self.replies[message.pop("id")] = message
            elif "push" in message:
                self.pushes.append(message["push"])
            else:
                assert message == {}, message

    def messages(self, frame):
        if not self.protobuf:
            assert isinstance(frame, str)
            return [read(line) for line in frame.split("\n")]
        assert isinstance(frame, bytes)
        out, at = [], 0
        while at < len(frame):
            length, at = read_varint(frame, at)
            out.append(unpack(frame[at : at + length], REPLY))
            at += length
        return out

    def end(self):
        """With which code and reason the server closes."""
        while True:
            try:
                self.receive()
            except Closed as closed:
                return closed.code, closed.reason


RAW = ("data", "conn_info", "chan_info")


def write(value):
    """JSON in which bytes are embedded as they are."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{write(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)


def read(text):
    """JSON whose payloads are the bytes that stand there."""
    return raw(json.loads(text), text)


def raw(value, text):
    if isinstance(value, dict):
        return {name: cut(name, one, text) if name in RAW else raw(one, text) for name, one in value.items()}
    return [raw(one, text) for one in value] if isinstance(value, list) else value


def cut(name, value, text):
    """The bytes of a payload: where one of its spellings stands in the text, that one."""
    at = 0
    decoder = json.JSONDecoder()
    while (at := text.find(f'"{name}":', at)) >= 0:
        begin = at + len(name) + 3
        found, end = decoder.raw_decode(text, begin)
        if found == value and type(found) is type(value):
            return text[begin:end].encode()
        at = begin
    raise AssertionError(f"{name} is not in {text}")


# What these tests sign such tokens with.
SECRET = "a secret of the Centrifuge dialect"


def token(secret=SECRET, **claims):
    encode = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    head = encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    text = f"{head}.{encode(json.dumps(claims).encode())}"
    return f"{text}.{encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())}"
