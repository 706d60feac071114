"""Damages copies of a data directory's LMDB file and asks the real server for everything.

    TIDELINE_BIN=target/debug/tideline python3 tests/damage_pages.py [COPIES] [SEED]

Owns: one healthy directory and what it answers, and per copy one damage: a bit anywhere, in a page's first 48 bytes or
in a name, pages of zeros or noise, swapped or repeated pages, meta pages, a file cut short. Promises: exit code 0 only
if no answer differed from the healthy ones (an error "unavailable" or a refused start that names file and page is no
answer), no process ended by a signal and `tideline verify` found whatever was answered "unavailable". Must not: know
LMDB's format beyond the size of a page.
"""

import collections
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PAGE = 4096
BINARY = os.environ.pop("TIDELINE_BIN")
TIMELINES, TURNS, GROUP = 200, 3, 50
CONFIG = """
memtable_bytes = 65536
log = "warn"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One process on one directory."""

    def __init__(self, root):
        self.port = free_port()
        self.log = os.path.join(root, "log")
        config = os.path.join(root, "config.toml")
        with open(config, "w") as file:
            file.write(CONFIG)
        command = [BINARY, "--config", config, "--data", os.path.join(root, "data")]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def is_ready(self):
        """Waits until it is ready; False = it has ended."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.process.send_signal(signal.SIGALRM)
                self.process.wait()
            try:
                self.connection.request("GET", "/readyz")
                answer = self.connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return True
            except OSError:
                self.connection.close()
            time.sleep(0.005)
        return False

    def call(self, calls):
        """Calls in groups; gives a result or the error's reason each. None = the process has ended."""
        results = []
        for begin in range(0, len(calls), GROUP):
            batch = [
                {"jsonrpc": "2.0", "id": at, "method": method, "params": params}
                for at, (method, params) in enumerate(calls[begin : begin + GROUP])
            ]
            headers = {"content-type": "application/json"}
            try:
                self.connection.request("POST", "/v1/rpc", json.dumps(batch), headers)
                answers = json.loads(self.connection.getresponse().read())
            except (OSError, http.client.HTTPException, ValueError):
                return None
            by_id = {answer["id"]: answer for answer in answers}
            for at in range(len(batch)):
                answer = by_id[at]
                results.append(
                    answer["result"] if "result" in answer else answer["error"]["data"]["reason"]
                )
        return results

    def stop(self):
        """Ends it in order; its exit code, below 0 if a signal ended it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -signal.SIGALRM


def name(number):
    # Long ones, so that keys are not small; each begins otherwise.
    return f"{number:04d}-timeline-" + "n" * (number % 7 * 10)


def appends():
    """Every message that there is, in order."""
    noise = random.Random(1)
    for turn in range(TURNS):
        for number in range(TIMELINES):
            size = 30_000 if number % 40 == turn else noise.randrange(20, 900)
            text = "".join(noise.choices("abcdefghij klmnop", k=size))
            params = {
                "timeline": name(number),
                "message_id": f"{number}-{turn}",
                "entry": {"text": text, "turn": turn},
            }
            yield "message.append", params


def questions(epochs):
    calls = []
    for number in range(TIMELINES):
        calls.append(("message.range", {"timeline": name(number), "from": 1}))
        sequence = number % TURNS + 1
        calls.append(("message.get", {"timeline": name(number), "sequence": sequence}))
        position = {"after": 0, "epoch": epochs[name(number)], "changes_after": 0}
        calls.append(("sync", {"positions": {name(number): position}}))
    calls.append(("timeline.list", {"limit": 500}))
    # Known message IDs again: each is a duplicate, with the sequence of before.
    return calls + list(appends())[::7]


def build(root):
    """A healthy directory: several runs, pieces, slots to be cleared. Gives what it answers."""
    for calls in (list(appends()), None):
        server = Server(root)
        assert server.is_ready(), open(server.log).read()
        if calls:
            epochs = {}
            for begin in range(0, len(calls), GROUP):
                group = calls[begin : begin + GROUP]
                # A slow machine's compaction is behind at times; what stands already is told as a duplicate.
                while "busy" in (results := server.call(group)):
                    time.sleep(0.05)
                for (_, params), result in zip(group, results):
                    epochs[params["timeline"]] = result["epoch"]
        else:
            answers = server.call(questions(epochs))
            assert not any(isinstance(answer, str) for answer in answers), answers
        assert server.stop() == 0
    return questions(epochs), answers


def damage(path, chance):
    """Changes the file; says how."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    pages = len(data) // PAGE
    page = chance.randrange(pages) * PAGE
    other = chance.randrange(pages) * PAGE
    kind = chance.choices(
        ["bit", "head", "meta", "zeros", "noise", "swap", "repeat", "cut", "name"],
        [25, 30, 8, 6, 6, 6, 6, 5, 8],
    )[0]
    if kind in ("bit", "head", "meta"):
        at = {
            "bit": lambda: chance.randrange(len(data)),
            "head": lambda: page + chance.randrange(48),
            "meta": lambda: chance.randrange(2) * PAGE + chance.randrange(160),
        }[kind]()
        bit = chance.randrange(8)
        data[at] ^= 1 << bit
        text = f"bit {bit} of byte {at % PAGE} of page {at // PAGE}"
    elif kind == "zeros":
        data[page : page + PAGE] = bytes(PAGE)
        text = f"page {page // PAGE}"
    elif kind == "noise":
        data[page : page + PAGE] = chance.randbytes(PAGE)
        text = f"page {page // PAGE}"
    elif kind == "swap":
        one, two = data[page : page + PAGE], data[other : other + PAGE]
        data[page : page + PAGE], data[other : other + PAGE] = two, one
        text = f"pages {page // PAGE} and {other // PAGE}"
    elif kind == "repeat":
        data[page : page + PAGE] = data[other : other + PAGE]
        text = f"page {other // PAGE} onto {page // PAGE}"
    elif kind == "cut":
        length = chance.randrange(len(data))
        data = data[: length - chance.choice([0, length % PAGE])]
        text = f"after {len(data)} bytes"
    else:
        places = []
        text = name(chance.randrange(TIMELINES)).encode()[:13]
        at = data.find(text)
        while at >= 0:
            places.append(at)
            at = data.find(text, at + 1)
        at = chance.choice(places or [page]) + chance.randrange(13)
        data[at] ^= 1 << chance.randrange(8)
        text = f"byte {at % PAGE} of page {at // PAGE}"
    with open(path, "wb") as file:
        file.write(data)
    return kind, text


def differs(expected, found):
    """Whether an answer is another one than it was. Errors that promise nothing are none."""
    if found in ("unavailable", "busy"):
        return False
    if isinstance(expected, dict) and "duplicate" in expected:
        return not isinstance(found, dict) or any(
            found[field] != value for field, value in expected.items() if field != "duplicate"
        ) or not found["duplicate"]
    return found != expected


def attempt(healthy, calls, answers, chance):
    """One damaged copy: how it went, and the details of what must not be."""
    with tempfile.TemporaryDirectory() as root:
        data = os.path.join(root, "data")
        shutil.copytree(healthy, data)
        image = os.path.join(data, "partition-0000", "image", "data.mdb")
        kind, text = damage(image, chance)
        faults = []
        verified = subprocess.run([BINARY, "verify", data], capture_output=True, text=True)
        told = verified.stdout + verified.stderr
        if verified.returncode not in (0, 1) or "signal" in told:
            faults.append(f"verify ended with {verified.returncode}: {told[-300:]}")
        server = Server(root)
        outcome = "answered"
        if not server.is_ready():
            outcome = "refused"
            log = open(server.log).read()
            if server.process.returncode < 0:
                outcome = "signal"
                faults.append(f"the start ended by signal {-server.process.returncode}: {log[-300:]}")
            # A file of at most two pages is none.
            elif not any(place in log for place in ("data.mdb, page", "image is damaged", "there is no image in")):
                faults.append(f"the refusal names no place: {log[-300:]}")
        else:
            found = server.call(calls)
            if found is not None:
                for call, expected, answer in zip(calls, answers, found):
                    if differs(expected, answer):
                        outcome = "wrong"
                        text_of = json.dumps(answer)[:200]
                        faults.append(f"{call[0]} {json.dumps(call[1])[:120]}: {text_of}")
                if outcome == "answered" and "unavailable" in found:
                    outcome = "unavailable"
                    if verified.returncode == 0:
                        faults.append("verify has not found it")
                new = [("message.append", {"timeline": "new", "entry": {"text": "goes on"}})]
                going_on = server.call(new * 2)
                if going_on is not None and not all(isinstance(one, dict) for one in going_on):
                    faults.append(f"nothing new can be written: {going_on}")
            code = server.stop()
            if code < 0:
                outcome = "signal"
                faults.append(f"it ended by signal {-code}: {open(server.log).read()[-300:]}")
        return kind, text, outcome, faults


def main():
    copies = int(sys.argv[1]) if len(sys.argv) > 1 else 560
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    counted = collections.Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as root:
        calls, answers = build(root)
        healthy = os.path.join(root, "data")
        size = os.path.getsize(os.path.join(healthy, "partition-0000", "image", "data.mdb"))
        print(f"seed {seed}, {size // PAGE} pages, {len(calls)} calls a copy", flush=True)
        for number in range(copies):
            chance = random.Random(f"{seed} {number}")
            kind, text, outcome, faults = attempt(healthy, calls, answers, chance)
            counted[kind, outcome] += 1
            if faults:
                bad += 1
                print(f"copy {number}, {kind}, {text}: {outcome}")
                for fault in faults[:3]:
                    print(f"    {fault}", flush=True)
    for outcome in ("answered", "unavailable", "refused", "wrong", "signal"):
        by_kind = {kind: count for (kind, what), count in sorted(counted.items()) if what == outcome}
        print(f"{outcome}: {sum(by_kind.values())} {by_kind}")
    print(f"{copies} copies, {bad} with faults")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
