"""A scripted load on a real server, and the judgement of what a server has afterwards.

Owns: what is written, and what may be there. Promises: each timeline or row that one writer has is exactly as after its
last acknowledged call, or as after the one that it had sent then (V1 to V3 of `docs/FAULTS.md`, and edits, deletions,
members, trims, a table's rows); in the one that all write to each message is there once, at the sequence that was told,
without a gap. Must not: know how a fault is made.
"""

import copy
import http.client
import itertools
import json
import os
import random
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from server import Server  # noqa: E402
from tables import signed, one_key_table  # noqa: E402

# Small, so that seconds have many flushes, merges and segments.
SMALL = """
memtable_bytes = 65536
memtable_age_ms = 1000
segment_bytes = 1048576
retention_bytes = 1048576
retention_age_ms = 0
reserve_bytes = 1048576
map_bytes = 67108864
"""
# Two logs, two images.
CONFIG = "partitions = 2" + SMALL
WRITERS = 4
ALL = "all"
TABLE = "rows"
# So many times in a row a call may be refused before a writer gives up.
PATIENCE = 3
GONE = (OSError, http.client.HTTPException, ValueError)


class Refused(Exception):
    """The server has said that it did not do it, to the call with this number."""

    def __init__(self, reason, number):
        super().__init__(reason)
        self.number = number


class Unknown(Exception):
    """Nobody knows whether it was done."""


class Caller:
    """One connection. Each call has a number that no other has."""

    numbers = itertools.count(1)

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def call(self, method, **params):
        """The call's number and the result."""
        number = next(Caller.numbers)
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            self.connection.request("POST", "/v1/rpc", body, {"content-type": "application/json"})
            answer = json.loads(self.connection.getresponse().read())
        except GONE as error:
            raise Unknown(repr(error)) from error
        if "result" in answer:
            return number, answer["result"]
        reason = answer["error"]["data"]["reason"]
        if answer["error"]["code"] == -32602:
            raise ValueError(f"{method} {params}: {answer}")
        raise Unknown(reason) if reason == "outcome_unknown" else Refused(reason, number)


class Line:
    """What one writer alone writes to: the states that it has had, each with the number of the call that told so. A
    state without a number is one that may have come about."""

    def __init__(self):
        self.states = [(0, None)]

    def state(self):
        return self.states[-1][1]

    def is_known(self):
        return self.states[-1][0] is not None

    def allowed(self, acked):
        """The states that may be found: `acked` says of a number whether it counts."""
        last = max(at for at, (number, _) in enumerate(self.states) if number == 0 or (number and acked(number)))
        found = [self.states[last][1]]
        for number, state in self.states[last + 1 :]:
            found.append(state)
            if number is not None:
                break
        return found


class Load:
    """The writers, and all that they know. `calls`: how many each makes; `sizes`: of texts, bytes."""

    def __init__(self, seed, calls, sizes=(20, 200, 2_000, 2_000, 6_000)):
        self.seed, self.calls, self.sizes = seed, calls, sizes
        self.lines = {f"own/{number}": Line() for number in range(2 * WRITERS)}
        self.lines |= {f"row {number}": Line() for number in range(WRITERS)}
        # Of the timeline that all write to: message ID to entry, the number of the call that told, the sequence.
        self.sent = {}
        self.refused = set()
        self.reasons = {}
        self.acked = 0

    def make_table(self, server):
        status, _, body = signed(server, "CreateTable", "development", "development", one_key_table(TABLE))
        return status == 200 or b"Exist" in body

    def run(self, server, part):
        """Has all writers write until they are done or can't go on."""
        errors = []

        def write(number):
            try:
                Writer(self, server, number, random.Random(f"{self.seed} {part} {number}")).run()
            except Exception as error:  # of this program: the run proves nothing
                errors.append(error)

        threads = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def settle(self, server):
        """After a restart: what has become of calls whose outcome is unknown."""
        caller = Caller(server)
        for name, line in self.lines.items():
            if not line.is_known():
                number, found = read_line(caller, name)
                if found not in line.allowed(lambda _: True):
                    raise AssertionError(wrong(name, found, line.allowed(lambda _: True)))
                line.states.append((number, found))
        for message_id, (entry, number, _) in list(self.sent.items()):
            if number is None and message_id not in self.refused:
                number, told = caller.call("message.append", timeline=ALL, entry=entry, message_id=message_id)
                self.sent[message_id] = (entry, number, told["sequence"])

    def judge(self, server, acked=lambda _: True, goes_on=True):
        """What is wrong with what the server has, in words. `acked`: which calls count as acknowledged."""
        caller, faults = Caller(server), []
        try:
            for name, line in self.lines.items():
                allowed = line.allowed(acked)
                _, found = read_line(caller, name)
                if found not in allowed:
                    faults.append(wrong(name, found, allowed))
            faults += self.judge_all(read_line(caller, ALL)[1], acked)
            if goes_on and not faults:
                faults += self.go_on(caller, acked)
        except (Refused, Unknown) as error:
            # A process that has just ended shows it a moment later.
            time.sleep(1)
            ended = server.process.poll()
            state = "it goes on" if ended is None else f"it has ended with {ended}"
            faults.append(f"it can't be read: {error!r}; {state}: {server.log()}")
        return faults

    def judge_all(self, found, acked):
        faults, seen = [], {}
        messages = found["messages"] if found else []
        for place, (sequence, message_id, entry) in enumerate(messages, 1):
            if sequence != place:
                faults.append(f"gap: {ALL} has {sequence} at place {place}")
                break
            if message_id in seen:
                faults.append(f"duplicate: {message_id} at {seen[message_id]} and {sequence}")
            seen[message_id] = sequence
            sent = self.sent.get(message_id)
            if sent is None or sent[0] != entry or message_id in self.refused:
                faults.append(f"unexpected: {message_id} at {sequence}")
        for message_id, (_, number, sequence) in self.sent.items():
            if number is not None and acked(number) and seen.get(message_id) != sequence:
                faults.append(f"lost: {message_id} was told at {sequence}, it is at {seen.get(message_id)}")
        return faults

    def go_on(self, caller, acked):
        """A repeated message is found again, and a new one is taken."""
        told = [(one, entry, at) for one, (entry, number, at) in self.sent.items() if number and acked(number)]
        for message_id, entry, sequence in told[-1:]:
            _, again = caller.call("message.append", timeline=ALL, entry=entry, message_id=message_id)
            if not again["duplicate"] or again["sequence"] != sequence:
                return [f"a repeated message was not found: {message_id} at {sequence}: {again}"]
        _, one = caller.call("message.append", timeline="new", entry={"n": 1})
        _, other = caller.call("message.append", timeline="new", entry={"n": 2})
        if other["sequence"] != one["sequence"] + 1:
            return [f"two new messages are at {one['sequence']} and {other['sequence']}"]
        return []


class Writer:
    """One of the writers: two timelines and a row of its own, and the timeline of all."""

    def __init__(self, load, server, number, dice):
        self.load, self.number, self.dice = load, number, dice
        self.caller = Caller(server)
        self.made = 0

    def run(self):
        refusals = 0
        for _ in range(self.load.calls):
            try:
                self.one()
                self.load.acked += 1
                refusals = 0
            except Refused as refused:
                reason = str(refused)
                self.load.reasons[reason] = self.load.reasons.get(reason, 0) + 1
                refusals += 1
                if refusals > PATIENCE:
                    return
                time.sleep(0.02)
            except Unknown as unknown:
                reason = str(unknown) if str(unknown) == "outcome_unknown" else "no answer"
                self.load.reasons[reason] = self.load.reasons.get(reason, 0) + 1
                return

    def entry(self):
        self.made += 1
        size = self.dice.choice(self.load.sizes)
        piece = "".join(self.dice.choices("abcdefgh ijklm", k=67))
        return {"n": self.made, "text": (piece * (size // 67 + 1))[:size]}

    def one(self):
        kind = self.dice.random()
        if kind < 0.25:
            self.append_to_all()
        elif kind < 0.35:
            name, entry = f"row {self.number}", self.entry()["text"]
            columns = {"text": entry}
            self.change(name, entry, "row.put", table=TABLE, key={"id": name}, columns=columns)
        else:
            self.write_own(f"own/{2 * self.number + self.dice.randrange(2)}")

    def append_to_all(self):
        message_id, entry = f"{self.dice.getrandbits(60):x}", self.entry()
        self.load.sent[message_id] = (entry, None, None)
        try:
            number, told = self.caller.call("message.append", timeline=ALL, entry=entry, message_id=message_id)
        except Refused:
            self.load.refused.add(message_id)
            raise
        self.load.sent[message_id] = (entry, number, told["sequence"])

    def write_own(self, name):
        state = copy.deepcopy(self.load.lines[name].state())
        kind = self.dice.random()
        if state is None or kind < 0.5:
            many = self.dice.choice([1, 1, 1, 5])
            state = state or {"floor": 1, "messages": [], "members": []}
            messages = [{"entry": self.entry(), "message_id": f"{self.dice.getrandbits(60):x}"} for _ in range(many)]
            head = state["messages"][-1][0] if state["messages"] else state["floor"] - 1
            for place, message in enumerate(messages, 1):
                state["messages"].append([head + place, message["message_id"], message["entry"]])
            if many == 1:
                self.change(name, state, "message.append", timeline=name, **messages[0])
            else:
                self.change(name, state, "message.append_batch", timeline=name, messages=messages)
            return
        alive = [message for message in state["messages"] if message[2] is not None]
        if kind < 0.65 and alive:
            message = self.dice.choice(alive)
            message[2]["text"] = self.entry()["text"]
            text = {"text": message[2]["text"]}
            self.change(name, state, "message.update", timeline=name, sequence=message[0], set=text)
        elif kind < 0.75 and alive:
            message = self.dice.choice(alive)
            message[2] = None
            self.change(name, state, "message.delete", timeline=name, sequence=message[0])
        elif kind < 0.9:
            user = f"user-{self.dice.randrange(6)}"
            if user in state["members"]:
                state["members"].remove(user)
                self.change(name, state, "member.remove", timeline=name, users=[user])
            else:
                state["members"] = sorted([*state["members"], user])
                self.change(name, state, "member.add", timeline=name, members=[{"user": user}])
        elif kind < 0.96 and len(state["messages"]) > 3:
            state["messages"] = state["messages"][2:]
            state["floor"] = state["messages"][0][0]
            self.change(name, state, "timeline.trim", timeline=name, before=state["floor"])
        else:
            self.change(name, None, "timeline.delete", timeline=name)

    def change(self, name, state, method, **params):
        line = self.load.lines[name]
        try:
            number, _ = self.caller.call(method, **params)
        except Unknown:
            line.states.append((None, state))
            raise
        line.states.append((number, state))


def read_line(caller, name):
    """What there is of a timeline or a row: the number of the last call that told, and the state."""
    try:
        if name.startswith("row "):
            number, got = caller.call("row.get", table=TABLE, key={"id": name})
            row = got.get("row")
            return number, row and row["columns"][0]["value"]
        number, info = caller.call("timeline.get", timeline=name)
    except Refused as refused:
        if str(refused) in ("timeline_not_found", "table_not_found"):
            return refused.number, None
        raise
    messages, at = [], info["floor"]
    while at is not None and at <= info["head"]:
        _, page = caller.call("message.range", timeline=name, limit=1000, **{"from": at})
        messages += [[one["sequence"], one["message_id"], one.get("entry")] for one in page["messages"]]
        at = page.get("next")
    number, members = caller.call("member.list", timeline=name)
    users = sorted(member["user"] for member in members["members"])
    return number, {"floor": info["floor"], "messages": messages, "members": users}


def wrong(name, found, allowed):
    """In words, how a state is none of those that may be."""

    def short(state):
        if not isinstance(state, dict):
            return "nothing" if state is None else f"{state[:12]}…"
        return f"{state['floor']} to {state['floor'] + len(state['messages']) - 1}, {len(state['members'])} members"

    return f"wrong: {name} is {short(found)}, allowed is {' or '.join(map(short, allowed))}"


def leave(options, is_kept):
    """Removes a run's folder, or says where it is kept."""
    if options.keep and is_kept:
        print(f"kept: {options.work}")
    else:
        shutil.rmtree(options.work)


def start(folder, environment=None, config=CONFIG):
    """A server on `folder`/data; raises RuntimeError with its log if it does not start."""
    return Server(folder, environment=environment, config=config).start()
