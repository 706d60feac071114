"""What the Centrifuge dialect costs beside the native one: `TIDELINE_BIN=… python bench.py [rounds]`.

Owns: two measurements, the deliveries a second and a processor second of a room of 1,000 in either dialect (JSON), and
how long 5,000 subscriptions in one first frame take. Promises: each delivery is received and counted, and one that is
missing is an error; rounds are pairs on servers of their own. Must not: be a test: what it finds depends on the machine.
"""

import contextlib
import json
import os
import selectors
import socket
import statistics
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "python"))
from server import Server  # noqa: E402

SUBSCRIBERS = 1_000
MESSAGES = 3_000
IN_FLIGHT = 50
CHANNELS = 5_000
SETTINGS = f"""
subscriptions_max = {CHANNELS}
[centrifuge.client]
insecure = true
[centrifuge.channel.without_namespace]
history_size = 100000
history_ttl = "24h"
"""


class Socket:
    """A WebSocket that counts, and reads no more than it has to."""

    def __init__(self, port, path, counted):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.counted, self.count, self.rest = counted, 0, b""
        lines = [f"GET {path} HTTP/1.1", "host: localhost", "upgrade: websocket", "connection: upgrade",
                 "sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.until(b"\r\n\r\n")

    def send(self, *messages):
        text = "\n".join(map(json.dumps, messages)).encode()
        size = len(text)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 65_536 else b"\xff" + size.to_bytes(8, "big")
        self.socket.sendall(b"\x81" + length + bytes(4) + text)

    def until(self, mark):
        """Reads until a text has come."""
        read = b""
        while mark not in read:
            data = self.socket.recv(1 << 20)
            assert data, read[-300:]
            read += data
        return read

    def take(self):
        """Counts what has come; a text may be cut in two by the end of a read."""
        data = self.socket.recv(1 << 20)
        assert data, "the server has closed a connection"
        whole = self.rest + data
        self.count += whole.count(self.counted)
        self.rest = whole[-len(self.counted) + 1:]


@contextlib.contextmanager
def running():
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory, config=SETTINGS).start()
        try:
            yield server.process.pid, server.port
        finally:
            server.kill()


def native(port, counted=b'"sequence":'):
    return Socket(port, "/v1/connect", counted)


def centrifuge(port):
    client = Socket(port, "/connection/websocket", b'"offset":')
    client.send({"id": 1, "connect": {}})
    client.until(b'"connect"')
    return client


def room(dialect):
    """Deliveries a second, and microseconds of the processor for each."""
    with running() as (pid, port):
        writer = native(port, b'"id":')
        writer.send({"jsonrpc": "2.0", "id": 1, "method": "timeline.create", "params": {"timeline": "room"}})
        writer.until(b'"id":')
        readers = []
        for _ in range(SUBSCRIBERS):
            if dialect is native:
                reader = native(port)
                reader.send({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"timeline": "room"}})
                reader.until(b'"result"')
            else:
                reader = centrifuge(port)
                reader.send({"id": 2, "subscribe": {"channel": "room", "recover": False}})
                reader.until(b'"subscribe"')
            readers.append(reader)
        ready = selectors.DefaultSelector()
        for one in [writer, *readers]:
            ready.register(one.socket, selectors.EVENT_READ, one)
        entry = {"text": "x" * 100}
        sent, wanted = 0, MESSAGES * SUBSCRIBERS
        used, began = processor(pid), time.monotonic()
        while writer.count < MESSAGES or sum(reader.count for reader in readers) < wanted:
            while sent < MESSAGES and sent - writer.count < IN_FLIGHT:
                sent += 1
                params = {"timeline": "room", "entry": entry}
                writer.send({"jsonrpc": "2.0", "id": sent, "method": "message.append", "params": params})
            events = ready.select(timeout=10)
            assert events, "deliveries are missing"
            for key, _ in events:
                key.data.take()
        took, used = time.monotonic() - began, processor(pid) - used
        assert all(reader.count == MESSAGES for reader in readers), "a reader has too many or too few"
        return wanted / took, used * 1e6 / wanted


def processor(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def subscriptions():
    """Seconds until all subscriptions of one first frame are answered."""
    with running() as (_, port):
        client = Socket(port, "/connection/websocket", b'"subscribe":')
        asks = [{"id": 2 + n, "subscribe": {"channel": f"many/{n}"}} for n in range(CHANNELS)]
        began = time.monotonic()
        client.send({"id": 1, "connect": {}}, *asks)
        while client.count < CHANNELS:
            client.take()
        return time.monotonic() - began


def main():
    rounds = int((sys.argv[1:] or ["5"])[0])
    ratios = {"deliveries/s": [], "deliveries per CPU second": []}
    for number in range(rounds):
        order = [native, centrifuge] if number % 2 else [centrifuge, native]
        found = {dialect: room(dialect) for dialect in order}
        (rate, cost), (own_rate, own_cost) = found[centrifuge], found[native]
        ratios["deliveries/s"].append(rate / own_rate)
        ratios["deliveries per CPU second"].append(own_cost / cost)
        print(f"native {own_rate:,.0f}/s at {own_cost:.2f} us, Centrifuge {rate:,.0f}/s at {cost:.2f} us", flush=True)
    for name, all_of in ratios.items():
        print(f"{name}, Centrifuge / native: median {statistics.median(all_of):.2f} of", *(f"{ratio:.2f}" for ratio in all_of))
    print(f"{CHANNELS} subscriptions in one frame:", *(f"{subscriptions():.2f} s" for _ in range(3)))


if __name__ == "__main__":
    main()
