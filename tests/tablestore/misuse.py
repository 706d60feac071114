"""One caller with the least rights takes what it can of everything that callers share, while others go on.

As a program, a minute for each resource; the exit code is 1 if others were harmed, memory grew past its bound, or the
server did not recover. The attacks do little themselves: any program that keeps a processor busy harms others on the same
machine.

    TIDELINE_BIN=target/release/tideline PYTHONPATH=tests/python python tests/tablestore/misuse.py --seconds 60

Owns: an attack for each resource of `src/base/bounds.rs`, by the name of its bound; the others' calls, and how they are
measured. Must not: assert; `test_misuse.py` and `main` do.
"""

import argparse
import collections
import contextlib
import itertools
import json
import multiprocessing
import random
import socket
import sys
import tempfile
import time

from tablestore import (
    BatchGetRowRequest, BatchWriteRowRequest, CapacityUnit, CastType, ComparatorType, CompositeColumnCondition, FieldSchema, FieldSort,
    FieldType, LogicalOperator, MatchAllQuery, OTSClientError, OTSServiceError, PutRowItem, RegexRule, ReservedThroughput, Row,
    SearchIndexMeta, SearchQuery, SingleColumnRegexCondition, Sort, TableInBatchGetRowItem, TableInBatchWriteRowItem, TableMeta,
    TableOptions, TimeseriesKey, TimeseriesRow, TimeseriesTableMeta,
)
from tablestore import metadata
from tablestore.timeseries_condition import (
    CompositeMetaQueryCondition, MetaQueryCompositeOperator, MetaQuerySingleOperator, TagMetaQueryCondition,
)
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as open_socket

from client import Refused
from guarded import ADMIN, Guarded, token
from sdk import IGNORE, STRING_KEY, connect, key, signed

BYTES_OF_VALUE = 1_000_000
TABLE = "misused"
SEARCHED = "by_word"
SERIES = "misused_series"
# What a caller is refused with, and how a connection ends that was closed for it.
REFUSED = (OTSServiceError, OTSClientError, OSError, EOFError, WebSocketException)


class Bed(Guarded):
    """A server with [auth], a user and a key with the least rights who misuse it, and a user and a key who do not."""

    def __init__(self, directory, settings=""):
        super().__init__(directory, before=f"{settings}\n[search]\nmessages = true\n")
        rights = [word for name in (TABLE, SERIES) for word in ("--allow", f"{name}=tables:read,tables:write")] + ["--signing"]
        self.keys = {name: self.key("create", name, *rights) for name in ("mallory", "ann")}
        self.owner = self.key("create", "owner", *ADMIN, "--signing")
        self.tokens = {name: token(name, exp=int(time.time()) + 36_000) for name in ("mallory", "ann")}

    def start(self):
        super().start()
        client = self.tables(self.owner)
        meta = TableMeta(TABLE, STRING_KEY)
        client.create_table(meta, TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
        text = "".join(random.Random(7).choices("abcdefghij", k=BYTES_OF_VALUE))
        client.put_row(TABLE, Row(key("large"), [("c", text)]), IGNORE)
        client.put_row(TABLE, Row(key("small"), [("c", "x")]), IGNORE)
        client.create_search_index(TABLE, SEARCHED, SearchIndexMeta([FieldSchema("w", FieldType.KEYWORD)]))
        for part in range(3):
            rows = [PutRowItem(Row(key(f"{part}-{number:03}"), [("w", "w" * 4_000)]), IGNORE) for number in range(100)]
            batch = BatchWriteRowRequest()
            batch.add(TableInBatchWriteRowItem(TABLE, rows))
            client.batch_write_row(batch)
        client.create_timeseries_table(metadata.CreateTimeseriesTableRequest(TimeseriesTableMeta(SERIES)))
        for part in range(5):
            series = [TimeseriesKey("m", "", {f"tag{tag}": f"{part}-{number}-{tag}" for tag in range(20)}) for number in range(100)]
            client.put_timeseries_data(SERIES, [TimeseriesRow(key, {"v": 1}, 1) for key in series])
        page = [{"entry": {"text": "a b " * 2_250}} for _ in range(100)]
        for _ in range(3):
            self.call(self.tokens["ann"], "message.append_batch", timeline="pages", messages=page)
        return self

    def tables(self, made):
        return connect(self, made[3:15], made[-43:])

    def figures(self, name):
        """The members of a family by their bound."""
        headers = {"authorization": f"Bearer {self.admin}"}
        while True:
            # A connection that has not shown its credential yet may be the one that makes room.
            with contextlib.suppress(ConnectionError):
                text = self.get("/metrics", headers)[2].decode()
                break
        found = {}
        for line in text.splitlines():
            if line.startswith(f'{name}{{limit="'):
                found[line.split('"')[1]] = float(line.rsplit(" ", 1)[1])
        return found


class Misuse:
    """What an attack knows: where the server is, and the credentials of one caller."""

    def __init__(self, bed):
        self.url, self.origin, self.port = bed.url, bed.origin, bed.port
        self.bearer, self.made = bed.tokens["mallory"], bed.keys["mallory"]
        self.table = TABLE

    def tables(self, **options):
        return connect(self, self.made[3:15], self.made[-43:], **options)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def session(self):
        headers = {"authorization": f"Bearer {self.bearer}"}
        return open_socket(
            self.url, subprotocols=["tideline.v1.json"], compression=None, max_size=None, additional_headers=headers
        )

    def head(self, length):
        return (
            f"POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self.bearer}\r\n"
            f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        ).encode()


def call(method, number=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def again(goes_on, begin, hold=lambda one: None, count=8, pause=0.02):
    """Keeps `count` of something open, and begins anew what has ended."""
    with contextlib.ExitStack() as stack:
        held = []
        while goes_on():
            if len(held) < count:
                with contextlib.suppress(*REFUSED):
                    held.append(stack.enter_context(contextlib.closing(begin())))
                    continue
            for one in list(held):
                try:
                    hold(one)
                except TimeoutError:
                    pass
                except REFUSED:
                    held.remove(one)
                    with contextlib.suppress(*REFUSED):
                        one.close()
            time.sleep(pause)


def silent_connections(misuse, goes_on):
    """As many connections as the server has: each asks for a page once in a while, and is silent."""

    def hold(one):
        if one.asked + 4 < time.monotonic():
            one.asked = time.monotonic()
            one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            one.recv(4_096) or one.gone()

    class Silent(socket.socket):
        asked = 0.0

        def gone(self):
            raise OSError("closed by the server")

    def begin():
        one = Silent(socket.AF_INET, socket.SOCK_STREAM)
        one.settimeout(2)
        one.connect(("127.0.0.1", misuse.port))
        hold(one)
        return one

    again(goes_on, begin, hold, count=misuse.connections)


def own_sessions(misuse, goes_on):
    """As many sessions of one user as the server has connections, which ping twice a second."""
    upgrade = (
        f"GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {misuse.bearer}\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "sec-websocket-protocol: tideline.v1.json\r\n\r\n"
    ).encode()

    def begin():
        # By hand: 900 sessions of a library are as many threads.
        one = misuse.raw()
        one.sendall(upgrade)
        if not one.recv(4_096).startswith(b"HTTP/1.1 101"):
            raise OSError("refused")
        return one

    def hold(one):
        one.sendall(b"\x89\x80\0\0\0\0")

    again(goes_on, begin, hold, count=misuse.connections, pause=0.5)


def bodies(misuse, goes_on):
    """Requests of 4 MiB that never end."""

    def begin():
        one = misuse.raw()
        one.sendall(misuse.head(4 << 20) + b" " * (3 << 20))
        return one

    def hold(one):
        one.sendall(b" ")

    again(goes_on, begin, hold, count=64, pause=0.5)


def unread_answers(misuse, goes_on):
    """Pages and rows of a megabyte that nobody reads."""
    page = call("message.range", timeline="pages").encode()

    def begin():
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.settimeout(2)
        one.connect(("127.0.0.1", misuse.port))
        one.sendall((misuse.head(len(page)) + page) * 4)
        return one

    again(goes_on, begin, count=100)


def waits(misuse, goes_on):
    """16 waiting syncs for 10,000 timelines each on a WebSocket."""

    def begin():
        one = misuse.session()
        for number in range(16):
            positions = {f"w/{number}/{place}": 0 for place in range(10_000)}
            one.send(call("sync", number, positions=positions, wait_ms=60_000))
        return one

    again(goes_on, begin, lambda one: one.recv(0.01), count=8, pause=0.2)


def subscriptions(misuse, goes_on):
    """1,000 timelines on each of many WebSockets."""

    def begin():
        one = misuse.session()
        for first in range(0, 1_000, 100):
            timelines = {f"s/{place}": {} for place in range(first, first + 100)}
            one.send(call("subscribe", first, timelines=timelines))
        return one

    # As many as a caller's share by default has room for, and some more.
    again(goes_on, begin, count=min(misuse.connections, 300), pause=0.2)


def tickets(misuse, goes_on):
    """Tickets that nobody shows."""
    many = "[" + ",".join(call("session.ticket", number) for number in range(100)) + "]"

    def hold(one):
        one.send(many)
        one.recv(5)

    again(goes_on, misuse.session, hold, count=2)


def expression(length):
    """One that finds nothing in the large row, and is in many states at once on the way."""
    rule = RegexRule(f"([a-e][a-j]{{{length}}}\\d)", CastType.VT_STRING)
    return SingleColumnRegexCondition("c", ComparatorType.EXIST, None, rule)


def many(patterns):
    """What a row fulfils in which none of these finds anything."""
    every = CompositeColumnCondition(LogicalOperator.AND)
    for pattern in patterns:
        rule = RegexRule(pattern, CastType.VT_STRING)
        every.add_sub_condition(SingleColumnRegexCondition("c", ComparatorType.NOT_EXIST, None, rule))
    return every


def encoded(client, operation, *asked):
    """The body of a request, made once and sent often: the SDK's own work would keep a processor from the others."""
    return client.protocol.encoder.encode_request(operation, *asked).SerializeToString()


def request(client, operation, body):
    headers = "".join(f"{name}: {value}\r\n" for name, value in signed(client, operation, body).items())
    head = f"POST /{operation} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def expressions(misuse, goes_on):
    """17 reads at a time of a row of 1 MB with 30 expressions each, and with one that fits."""
    client = misuse.tables()
    # One that is refused, one that fits, and one that is as costly as any may be.
    filters = [many(f"(z{place})" for place in range(30)), expression(20), expression(80)]
    asked = [(misuse.table, key("large"), None, one, 1, None, None, None, None, None) for one in filters]
    bodies = itertools.cycle([encoded(client, "GetRow", *one) for one in asked])

    def begin():
        one = misuse.raw()
        one.sendall(request(client, "GetRow", next(bodies)))
        one.settimeout(0.01)
        return one

    def hold(one):
        # An answer, or an end without one: then the next.
        one.recv(4_096)
        raise EOFError

    again(goes_on, begin, hold, count=17)


def transactions(misuse, goes_on):
    """Transactions of one key, on as many partition keys as there may be."""
    client, number = misuse.tables(), 0
    while goes_on():
        number += 1
        try:
            client.start_local_transaction(misuse.table, key(f"t{number}"))
        except REFUSED:
            time.sleep(0.05)


def transaction_writes(misuse, goes_on):
    """4 MB in each of 24 transactions, again and again."""
    client, number, writes = misuse.tables(), 0, collections.deque()

    def begin(number):
        opened = client.start_local_transaction(misuse.table, key(f"w{number}"))
        row = Row(key(f"w{number}"), [("a", "x" * 1_900_000), ("b", "x" * 1_900_000)])
        return request(client, "PutRow", encoded(client, "PutRow", misuse.table, row, IGNORE, None, opened))

    while goes_on():
        with contextlib.suppress(*REFUSED):
            if len(writes) < 24:
                number += 1
                writes.append(begin(number))
            writes.rotate()
            with misuse.raw() as one:
                one.sendall(writes[0])
                # It lives for a minute.
                if b"OTSSessionNotExist" in one.recv(4_096):
                    writes.popleft()
        # By default 17 fill a caller's share. Sent faster they would only try how fast large bodies are read.
        time.sleep(1)


def batches(misuse, goes_on):
    """The same row of 1 MB a hundred times in each BatchGetRow, eight at a time, read as it comes."""
    batch = BatchGetRowRequest()
    batch.add(TableInBatchGetRowItem(misuse.table, [key("large")] * 100, max_version=1))
    repeated(misuse, goes_on, 8, "BatchGetRow", batch)


def repeated(misuse, goes_on, count, operation, *asked):
    """The same request, `count` at a time; each answer is read as it comes."""
    client = misuse.tables()
    body = encoded(client, operation, *asked)

    def begin():
        one = misuse.raw()
        one.sendall(request(client, operation, body))
        one.settimeout(0.01)
        return one

    def hold(one):
        if not one.recv(1 << 20):
            raise EOFError

    again(goes_on, begin, hold, count=count, pause=0)


def searches(misuse, goes_on, count=64):
    """Pages of 300 rows, sorted 32 times by words of 4 KB: 40 MB each."""
    page = SearchQuery(MatchAllQuery(), Sort([FieldSort("w")] * 32), limit=1_000)
    repeated(misuse, goes_on, count, "Search", misuse.table, SEARCHED, page, None, None, None)


def large_searches(misuse, goes_on):
    """The same, as many as a caller may have at a time."""
    searches(misuse, goes_on, count=4)


def message_searches(misuse, goes_on):
    """Phrases of words that every message has, 200 at a time."""
    many = "[" + ",".join(call("message.search", number, query='"a b"', order="best") for number in range(200)) + "]"

    def hold(one):
        one.send(many)
        one.recv(5)

    again(goes_on, misuse.session, hold, count=2, pause=0)


def statements(misuse, goes_on):
    """Joins of a table with itself, each row with each."""
    repeated(misuse, goes_on, 64, "SQLQuery", f"SELECT COUNT(*) FROM {misuse.table} a JOIN {misuse.table} b ON a.k <> b.k")


def series(misuse, goes_on):
    """Looks for series by 99 conditions on their tags, and counts all."""
    conditions = [TagMetaQueryCondition(MetaQuerySingleOperator.OP_PREFIX, f"tag{number % 20}", str(number % 5)) for number in range(99)]
    any_of = CompositeMetaQueryCondition(MetaQueryCompositeOperator.OP_OR, conditions)
    repeated(misuse, goes_on, 64, "QueryTimeseriesMeta", metadata.QueryTimeseriesMetaRequest(SERIES, any_of, True, 1_000))


def scans(misuse, goes_on):
    """Sessions of scans that nobody goes on with."""
    client = misuse.tables()
    while goes_on():
        try:
            client.compute_splits(misuse.table, SEARCHED)
        except REFUSED:
            time.sleep(0.05)


def log_lines(misuse, goes_on):
    """Calls that do nothing but be noted: the end of a session that is not there."""
    many = "[" + ",".join(call("session.close", number, session="nobody") for number in range(200)) + "]"

    def hold(one):
        one.send(many)
        one.recv(5)

    again(goes_on, misuse.session, hold, count=2, pause=0)


# By the bound that each goes for; None = by what is no resource of its own.
ATTACKS = {
    "connections_max": [silent_connections, own_sessions],
    "inbound_bytes_max": [bodies],
    "answers_bytes_max": [unread_answers],
    "watched_timelines_max": [waits, subscriptions],
    "tickets_max": [tickets],
    "tablestore_costly_reads_max": [expressions],
    "tablestore_transactions_max": [transactions],
    "tablestore_transaction_bytes_max": [transaction_writes],
    "searches_max": [searches, statements, series],
    "message_searches_max": [message_searches],
    "search_memory_bytes_max": [large_searches],
    "search_scans_max": [scans],
    None: [batches, log_lines],
}


# What a call of each method may hold besides its request and its answer, which all do (inbound_bytes_max, answers_bytes_max).
HOLDS = {
    "sync": "watched_timelines_max",
    "conversation.sync": "watched_timelines_max",
    "log.tail": "watched_timelines_max",
    "subscribe": "watched_timelines_max",
    "session.ticket": "tickets_max",
    "sql.query": "searches_max",
    "message.search": "message_searches_max",
    "timeline.search": "message_searches_max",
}
# Those that are over with their answer. stream.open is among them: a connection has 16 streams, for back ends only.
HOLD_NOTHING = """
session.open session.renew session.list session.get session.close session.revoke key.create key.list key.revoke
ping timeline.create timeline.get timeline.update timeline.delete timeline.trim timeline.list timeline.prefixes
timeline.readers timeline.configure member.add member.update member.remove member.get member.list message.append
message.append_batch message.extend message.finish message.stop message.get message.range message.update
message.delete message.recall reaction.add
reaction.remove reaction.list pin.add pin.remove pin.list schedule.list schedule.cancel message.hide
message.hidden conversation.clear read.set receipt.list position.set position.list position.remove
conversation.list conversation.count conversation.get conversation.direct conversation.update conversation.hide
feed.follow feed.unfollow feed.following feed.followers feed.range unsubscribe stream.open stream.close
stream.commit stream.cursors stream.forget webhook.list webhook.dead webhook.replay table.list table.get row.get
row.range row.put partition.list partition.split partition.merge backup.start backup.status backup.cancel
server.status server.history signal
presence.get rpc.discover
""".split()


def run(attack, misuse, stop):
    attack(misuse, lambda: not stop.is_set())


@contextlib.contextmanager
def misused(bed, attack, connections):
    """The attack is under way, in a process of its own."""
    misuse = Misuse(bed)
    misuse.connections = connections
    forked = multiprocessing.get_context("fork")
    stop = forked.Event()
    process = forked.Process(target=run, args=[attack, misuse, stop], daemon=True)
    process.start()
    try:
        yield process
    finally:
        stop.set()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()


class Others:
    """Somebody else's calls: over a new connection, by HTTP, and of the tables."""

    def __init__(self, bed):
        self.bed, self.number = bed, 0
        self.client = bed.tables(bed.keys["ann"])

    def once(self):
        """One of each; seconds that each took. Raises what it is refused with."""
        took = []
        bearer = self.bed.tokens["ann"]
        for what in (self.session, self.append, self.read, self.row):
            began = time.monotonic()
            what(bearer)
            took.append(time.monotonic() - began)
        return took

    def patiently(self):
        """The same as a client does it that comes back for 10 s."""
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.once()
            except (OSError, WebSocketException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def session(self, bearer):
        with self.bed.open(bearer) as client:
            client.call("subscribe", timeline="of-ann")
            client.call("sync", positions={"of-ann": 0})

    def append(self, bearer):
        self.number += 1
        self.bed.call(bearer, "message.append", timeline="of-ann", entry={"number": self.number})

    def read(self, bearer):
        self.bed.call(bearer, "message.range", timeline="of-ann", limit=10)

    def row(self, _):
        self.client.put_row(TABLE, Row(key("ann"), [("c", "mine")]), IGNORE)
        self.client.get_row(TABLE, key("ann"))


def p99(took):
    return sorted(took)[int(len(took) * 0.99)]


def measure(others, seconds):
    """The others' calls for so long: what the slowest of a hundred took. Who is not answered has waited for ever."""
    until, took = time.monotonic() + seconds, []
    while time.monotonic() < until:
        try:
            took += others.once()
        except (*REFUSED, Refused):
            took.append(float("inf"))
            time.sleep(0.1)
    return p99(took)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--seconds", type=float, default=60, help="of each attack")
    arguments.add_argument("--connections", type=int, default=900, help="connections_max of the server")
    arguments.add_argument("--only", help="one attack, by its name")
    asked = arguments.parse_args()
    failed = False
    print(f"{'attack':22} {'p99 before':>11} {'p99 under':>10} {'memory':>9} {'again in':>9}")
    for bound, attack in [(bound, attack) for bound, attacks in ATTACKS.items() for attack in attacks]:
        if asked.only not in (None, attack.__name__):
            continue
        with tempfile.TemporaryDirectory() as directory:
            bed = Bed(directory, settings=f"connections_max = {asked.connections}")
            try:
                bed.start()
                others = Others(bed)
                measure(others, 2)
                before, memory = measure(others, max(asked.seconds / 4, 5)), bed.memory()
                with misused(bed, attack, asked.connections + 50):
                    time.sleep(2)
                    under = measure(others, asked.seconds)
                    is_reached = bound in UNREFUSED or bed.figures("tideline_refusals_total").get(bound, 0) > 0
                grown, ended = bed.memory("VmHWM") - memory, time.monotonic()
                while measure(others, 0.5) > 2 * before and time.monotonic() < ended + 30:
                    pass
                recovered = time.monotonic() - ended
            finally:
                bed.kill()
        is_well = is_reached and under < 2 * before and grown < MEMORY_MAX and recovered < 5
        failed |= not is_well
        print(
            f"{attack.__name__:22} {before * 1000:8.1f} ms {under * 1000:7.1f} ms {grown >> 20:5} MiB {recovered:7.1f} s"
            f"{'' if is_well else '  FAILED'}",
            flush=True,
        )
    sys.exit(failed)


# Bounds at which nothing is refused that could be counted.
UNREFUSED = (None, "answers_bytes_max")
# A caller's share of each bound with the default settings, and as much again for what is being made of it.
MEMORY_MAX = 300 << 20

if __name__ == "__main__":
    main()
