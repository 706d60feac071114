#!/usr/bin/env python3
"""D9: backups of a server at work, killed again and again, and what is restored of them.

    TIDELINE_BIN=target/release/tideline python3 tests/faults/backups.py [--rounds 30] [--bucket] [--rate 5000] [--seed 1]

Owns: the writers, and the judgement of what is restored. Each writer does one thing after the other, so what it has done
is a number: messages at `--rate` a second, members, edits, rows with an index and a stream, transactions of three rows.
Promises: exit code 0 only if every backup that was made `verify`s, is restored whole and to a moment before it, and
each writer's number, in its rows as in their index, is then at least what was acknowledged before (the backup began, the moment) and at most what was sent
until (it ended, the moment); and the stream, read from its beginning, has each number of each row up to that one, in order. In each round
partitions are split or merged, and in seven of ten the server or the command that waits is killed at some moment. With `--bucket` backups go to an S3-compatible store that fails one request in ten.
With `--control` each backup is held against what was acknowledged after it, and the logs of partitions that ended go at
once (`TIDELINE_FAULT=ended_not_held`, a build with the feature `faults`), so streams have lost their beginnings: 0 says that both were noticed.

Needs the packages of tests/tablestore/requirements.txt, and with --bucket those of tests/python/requirements.txt.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
# In this order: some tests of both have the same names.
sys.path += [str(HERE.parent / "tablestore"), str(HERE.parent / "python")]

from tablestore import (  # noqa: E402
    INF_MAX, INF_MIN, CapacityUnit, OTSClientError, OTSServiceError, ReservedThroughput, Row, SecondaryIndexMeta, TableMeta, TableOptions,
)

from client import Client, Refused, filler  # noqa: E402
from sdk import IGNORE, connect, values  # noqa: E402
from server import Server  # noqa: E402
from test_partitions import Consumer  # noqa: E402
from test_streams import specify  # noqa: E402

# Small, so that seconds have flushes, merges and ends of segments.
CONFIG = "partitions = 2\nmemtable_bytes = 4194304\nsegment_bytes = 16777216\nbackup_bytes_per_s = 0\n"
BATCH = 50
CONTROL = "ended_not_held"
GONE = (OSError, Refused, OTSServiceError, OTSClientError, AssertionError, ValueError, EOFError)


class Writer(threading.Thread):
    """Does the same thing again and again, each time with the next number, until it is told to stop."""

    pause = 0.002

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name_of, self.sent, self.acked, self.stopped, self.due = name, 0, 0, False, 0
        # What was sent again, because its answer did not come.
        self.repeated = set()

    def begin(self, server):
        self.server = server
        self.start()

    def run(self):
        client = None
        while not self.stopped:
            self.sent = self.acked + 1
            try:
                client = client or self.connect()
                self.do(client, self.sent)
                self.acked = self.sent
                # What was late is made up for, but not what a server that was down could not take.
                self.due = max(self.due, time.monotonic() - 1) + self.pause
                time.sleep(max(0, self.due - time.monotonic()))
            except Exception as gone:  # noqa: BLE001, a connection that ended is of many kinds; `stuck` says if it never goes on
                self.failure = gone
                self.repeated.add(self.sent)
                # Thousands that nobody closed, each with its threads, once were the load of the machine.
                with contextlib.suppress(Exception):
                    client.close()
                client = None
                time.sleep(0.05)

    def connect(self):
        return Client(self.server)


class Messages(Writer):
    """Numbers of 50 messages each; they come to the rate together."""

    def __init__(self, name, rate):
        super().__init__(name)
        self.pause = BATCH / rate

    def do(self, client, number):
        first = BATCH * (number - 1)
        messages = [{"entry": {"n": first + n, "text": filler(150)}, "message_id": f"{self.name_of}-{first + n}"} for n in range(BATCH)]
        client.call("message.append_batch", timeline=self.name_of, messages=messages)

    def found(self, client):
        seen = []
        while True:
            page = at_most(client, "message.range", timeline=self.name_of, **{"from": len(seen) + 1, "limit": 1000})
            if not page or not page["messages"]:
                break
            seen += [(one["sequence"], one["entry"]["n"]) for one in page["messages"]]
        assert seen == [(n + 1, n) for n in range(len(seen))], f"{self.name_of} has a hole, or two of one"
        # A batch is one write.
        assert len(seen) % BATCH == 0, f"{self.name_of} has a part of a batch: {len(seen)}"
        return len(seen) // BATCH


class Members(Writer):
    def do(self, client, number):
        client.call("member.add", timeline=self.name_of, members=[{"user": f"user-{number}"}])

    def found(self, client):
        seen, after = 0, {}
        while (page := at_most(client, "member.list", timeline=self.name_of, limit=1000, **after)) and page["members"]:
            seen += len(page["members"])
            if not page.get("next"):
                break
            after = {"next": page["next"]}
        return seen


class Edits(Writer):
    def do(self, client, number):
        client.append(self.name_of, {"n": 0}, message_id="the one")
        client.call("message.update", timeline=self.name_of, sequence=1, set={"n": number})

    def found(self, client):
        got = at_most(client, "message.get", timeline=self.name_of, sequence=1)
        return got["message"]["entry"]["n"] if got else 0


class Rows(Writer):
    keys = 1

    def connect(self):
        return connect(self.server)

    def do(self, client, number):
        client.put_row("rows", self.row(0, number), IGNORE)

    def row(self, place, number):
        return Row([("p", self.name_of), ("k", place)], [("v", number)])

    def found(self, _):
        client = connect(self.server)
        rows = [values(client, "rows", [("p", self.name_of), ("k", place)]) for place in range(self.keys)]
        numbers = {row[0][1] if row else 0 for row in rows}
        assert len(numbers) == 1, f"{self.name_of}: a transaction was done in part: {numbers}"
        number = numbers.pop()
        # Rows of an index may lie in another partition: the restored server brings them there, and what was there goes.
        should, patience = [(number, place) for place in range(self.keys)] if number else [], time.monotonic() + 20
        while (there := self.indexed(client)) != should and time.monotonic() < patience:
            time.sleep(0.05)
        assert there == should, f"{self.name_of}: the index has {there} instead of {should}"
        return number

    def check_stream(self, told, number):
        """The stream has all that was put into each row up to now, from the beginning on."""
        for place in range(self.keys):
            row = told[self.name_of, place]
            once = [one for at, one in enumerate(row) if row[at - 1:at] != [one] or one not in self.repeated]
            if once != list(range(1, number + 1)):
                wrong = [one for at, one in enumerate(once, 1) if one != at]
                yield f"{self.name_of}, {place}: the stream, which should have 1 to {number}, has {len(once)}; out of place: {wrong[:3]}"

    def indexed(self, client):
        ends = [[(name, end) for name in ("v", "p", "k")] for end in (INF_MIN, INF_MAX)]
        keys = [dict(row.primary_key) for row in client.xget_range("by_v", "FORWARD", *ends, CapacityUnit(0, 0))]
        return sorted((key["v"], key["k"]) for key in keys if key["p"] == self.name_of)


class Transactions(Rows):
    keys = 3

    def do(self, client, number):
        transaction = client.start_local_transaction("rows", [("p", self.name_of)])
        for place in range(self.keys):
            client.put_row("rows", self.row(place, number), IGNORE, transaction_id=transaction)
        client.commit_transaction(transaction)


class Told(Consumer):
    """What a stream tells of each row, in order."""

    def __init__(self, stream):
        super().__init__(stream)
        self.of = collections.defaultdict(list)

    def take(self, change):
        self.of[tuple(value for _, value in change.key)].append(change.cells[0][1])


def at_most(client, method, **params):
    """The answer; None where there is no such timeline or message."""
    try:
        return client.call(method, **params)
    except Refused as refused:
        if refused.reason in ("timeline_not_found", "message_not_found"):
            return None
        raise


class Made:
    """A backup, and what each writer knew: before it began, at a moment that it reaches back to, when it was there."""

    def __init__(self, path, before, middle, after):
        self.path, self.before, self.middle, self.after = path, before, middle, after


class Run:
    def __init__(self, options, folder):
        self.options, self.dice = options, random.Random(options.seed)
        self.store = None
        place = pathlib.Path(folder, "backups")
        place.mkdir()
        config, environment = CONFIG + f'backup_directory = "{place}"\n', {}
        if options.bucket:
            from bucket import Store, refusal

            self.store = Store()
            self.store.harm = lambda *_: self.dice.choice([refusal(500, "InternalError"), "cut", 0.2]) if self.dice.random() < 0.1 else None
            config += 'backup_bucket = "s3://backups/of/tests"\n'
            environment = self.store.environment()
        self.where = "s3://backups/of/tests/all" if options.bucket else str(place / "all")
        if options.control:
            environment["TIDELINE_FAULT"] = CONTROL
        self.server = Server(folder, environment=environment, config=config)
        self.writers = [Messages(f"messages-{n}", options.rate / 2) for n in range(2)]
        self.writers += [Members("members"), Edits("edits"), Rows("rows"), Transactions("transactions")]
        self.made, self.faults, self.kills = [], [], 0

    def tideline(self, *words, kill_after=None):
        process = subprocess.Popen(
            [self.server.binary, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **self.server.environment},
        )
        try:
            out, err = process.communicate(timeout=kill_after or 300)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        return process.returncode, out, err

    def look(self):
        """A moment (ms), what was acknowledged before it, and what was sent until a little later."""
        time.sleep(0.005)
        acked = self.marks()[0]
        time.sleep(0.005)
        at = int(time.time() * 1000)
        time.sleep(0.005)
        return at, acked, self.marks()[1]

    def marks(self):
        """What is acknowledged, and behind it what was sent. Read in the order that leaves no doubt."""
        acked = [writer.acked for writer in self.writers]
        return acked, [writer.sent for writer in self.writers]

    def make_table(self):
        client = connect(self.server)
        meta = TableMeta("rows", [("p", "STRING"), ("k", "INTEGER")], [("v", "INTEGER")])
        index = SecondaryIndexMeta("by_v", ["v"], [])
        client.create_table(meta, TableOptions(), ReservedThroughput(CapacityUnit(0, 0)), [index])
        self.stream = specify(client, "rows")[1]

    def reshape(self, number):
        """A split or a merge; while a backup is made it waits, or is refused."""
        try:
            with Client(self.server) as client:
                ids = [one["partition"] for one in client.call("partition.list")["partitions"]]
                if number % 2 or len(ids) < 2:
                    client.call("partition.split", partition=ids[0])
                else:
                    client.call("partition.merge", partition=ids[-1], **{"with": ids[-2]})
        except GONE:
            pass

    def round(self, number):
        self.reshape(number)
        middle = self.look()
        time.sleep(self.dice.uniform(0.1, 1))
        is_killed = self.dice.random() < 0.7
        self.kills += is_killed
        patience = self.dice.uniform(0.05, 1.5) if is_killed else None
        killer = None
        if is_killed and self.dice.random() < 0.7:
            killer = threading.Timer(patience, self.server.kill)
            killer.start()
            patience = None
        while True:
            before = self.marks()[0]
            code, out, err = self.tideline("backup", "all", "--url", self.server.origin, kill_after=patience)
            after = self.marks()[1]
            # The command of the round before was killed; the server goes on with its backup, and there is one at a time.
            if is_killed or "another backup is being made" not in err:
                break
            time.sleep(0.2)
        if killer:
            killer.join()
            self.server.start()
        if code == 0:
            self.made.append(Made(out.split(": ")[0], before, middle, after))
        elif not is_killed:
            self.faults.append(f"round {number}: no backup: {err.strip()}")

    def judge(self, made, folder):
        """Restores a backup whole, and to the moment; what is wrong, in words."""
        if self.options.control:
            made.before = [writer.acked for writer in self.writers]
        faults = []
        code, out, err = self.tideline("verify", made.path)
        if code != 0:
            return [f"{made.path}: {out}{err}"]
        at, acked, sent = made.middle
        for words, low, high in [((), made.before, made.after), (("--to", at), acked, sent)]:
            data = os.path.join(folder, "data")
            code, out, err = self.tideline("restore", made.path, "--data", data, *words)
            if code != 0:
                # An image can't be cut: a moment that lies before its end is refused, and says so.
                is_early = words and "take an older backup" in err
                self.early += bool(is_early)
                faults += [] if is_early else [f"{made.path} {words}: {out}{err}"]
                continue
            server = Server(folder, config=CONFIG)
            try:
                faults += [f"{made.path} {words}: {fault}" for fault in self.differences(server, low, high)]
            finally:
                server.stop()
                code, out, err = self.tideline("verify", data)
                if code != 0:
                    faults.append(f"{made.path} {words}, restored: {out}{err}")
                shutil.rmtree(data)
        return faults

    def differences(self, server, low, high):
        server.start()
        numbers = {}
        with Client(server) as client:
            for writer, least, most in zip(self.writers, low, high, strict=True):
                writer.server = server
                try:
                    found = writer.found(client)
                except AssertionError as fault:
                    yield str(fault)
                    continue
                if not least <= found <= most:
                    yield f"{writer.name_of}: {found} is not within {least} (acknowledged) to {most} (sent)"
                if isinstance(writer, Rows):
                    numbers[writer] = found
        told = Told(self.stream)
        try:
            told.follow(connect(server))
        except OTSServiceError as refused:
            yield f"the stream, which should be there from its beginning on, is refused: {refused}"
            return
        for writer, number in numbers.items():
            yield from writer.check_stream(told.of, number)

    def all(self, folder):
        self.early = 0
        try:
            self.server.start()
            self.make_table()
            began = time.monotonic()
            for writer in self.writers:
                writer.begin(self.server)
            for number in range(self.options.rounds):
                self.round(number)
            for writer in self.writers:
                writer.stopped = True
                writer.join(30)
            seconds = time.monotonic() - began
        finally:
            self.server.kill()
        messages = BATCH * sum(writer.acked for writer in self.writers[:2])
        if not self.made:
            self.faults.append("no backup was made")
        code, out, err = self.tideline("backup", "list", self.where)
        listed = [line.split(": ")[0] for line in out.splitlines()]
        if code != 0 or not {made.path for made in self.made} <= set(listed):
            self.faults.append(f"list names {listed}, made were {[made.path for made in self.made]}: {err}")
        other = os.path.join(folder, "other")
        os.mkdir(other)
        for made in self.made:
            self.faults += self.judge(made, other)
        # A backup that nobody waited for until its end is one, or it is not in the list.
        for path in set(listed) - {made.path for made in self.made}:
            code, out, err = self.tideline("verify", path)
            self.faults += [] if code == 0 else [f"{path}: {out}{err}"]
        print(
            f"backups{' in a bucket' if self.store else ''}: {self.options.rounds} rounds, {self.kills} kills of the server or the command, {messages} messages, {messages / seconds:.0f}/s with all ends, "
            f"{len(self.made)} backups of {len(listed)} restored twice ({self.early} moments lay before an image's end): {len(self.faults)} faults"
        )
        if self.store:
            self.store.close()
        return self.faults


def run(**given):
    options = argparse.Namespace(**{"rounds": 30, "bucket": False, "rate": 5_000, "seed": 1, "control": False} | given)
    with tempfile.TemporaryDirectory(prefix="tideline-backups-") as folder:
        return Run(options, folder).all(folder)


def noticed(faults):
    """Whether it was noticed that marks were too late, and that the stream had lost its beginning."""
    return [any(words in fault for fault in faults) for words in ("is not within", "the stream, which")]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--rate", type=int, default=5_000, help="messages a second")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--bucket", action="store_true")
    options.add_argument("--control", action="store_true")
    options = options.parse_args()
    faults = run(**vars(options))
    print("\n".join(faults[:20]))
    sys.exit(not all(noticed(faults)) if options.control else bool(faults))


if __name__ == "__main__":
    main()
