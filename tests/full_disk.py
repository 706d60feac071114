#!/usr/bin/env python3
"""Fills small ext4 images with a real server until `storage_full`, makes room, and checks that nothing stopped or was lost.

    cargo build && sudo python3 tests/full_disk.py --binary target/debug/tideline --fills 30

Needs root (loop devices) and only Python's own library. Each fill makes a file system, takes a random part of it with a
ballast file, appends from several threads until the disk is full, perhaps kills and restarts the server there, removes
the ballast, waits for the first append that succeeds, and reads everything back. With `--trim` no ballast is removed:
half of the timelines are trimmed instead. Exit code 1 if a partition stopped, a message is missing, or writes did not
go on. Not part of the test command: it takes minutes.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1024 * 1024
TIMELINES = 64
WRITERS = 4
SMALL = """
memtable_bytes = 1048576
memtable_age_ms = 1000
segment_bytes = 1048576
retention_bytes = 1048576
"""


class Server:
    def __init__(self, binary, data, log, config, extra):
        self.binary, self.data, self.log = binary, data, log
        self.config = log.with_suffix(".toml")
        self.config.write_text(f"data = {json.dumps(str(data))}\n" + config + extra)
        self.process = None

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [self.binary, "serve", "--config", str(self.config), "--listen", f"127.0.0.1:{self.port}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            try:
                if self.get("/healthz")[0] == 200:
                    return True
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the server did not answer in two minutes")

    def stop(self, how):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                return self.process.wait(180)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return "hung"
        return self.process and self.process.returncode

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def stopped(self):
        found = re.search(r"^tideline_partitions_stopped\{[^}]*\} (\d+)", self.get("/metrics")[1], re.M)
        return int(found.group(1)) if found else -1


class Client:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def call(self, method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self.connection.request("POST", "/v1/rpc", body, {"content-type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        if "error" in answer:
            return None, answer["error"].get("data", {}).get("reason", answer["error"])
        return answer["result"], None


class Model:
    """What was acknowledged: per timeline, sequence to the entry's number. Each timeline has one writer."""

    def __init__(self, dice):
        self.dice = dice
        self.acked = {f"t/{number}": {} for number in range(TIMELINES)}
        self.floors = dict.fromkeys(self.acked, 1)
        self.number = 0
        self.lock = threading.Lock()

    def entries(self, dice):
        kind = dice.random()
        sizes = [dice.randrange(100, 2_000)] * 100 if kind < 0.5 else [dice.randrange(5_000, 60_000)] * 12
        with self.lock:
            first = self.number
            self.number += len(sizes)
        return [{"n": first + at, "text": chr(97 + (first + at) % 26) * size} for at, size in enumerate(sizes)]


def write_once(client, model, entries, timeline):
    """Appends a batch; gives the reason of a refusal. An unknown outcome is settled by repeating with the same IDs."""
    messages = [{"entry": entry, "message_id": str(entry["n"])} for entry in entries]
    done, reason = client.call("message.append_batch", timeline=timeline, messages=messages)
    if done is None:
        return reason
    for entry, message in zip(entries, done["messages"]):
        model.acked[timeline][message["sequence"]] = entry
    return None


class Fill:
    def __init__(self, server, model, seed):
        self.server, self.model, self.seed = server, model, seed
        self.over = threading.Event()
        self.full_since = [None] * WRITERS
        self.succeeded = [0.0] * WRITERS
        self.reasons = {}

    def writer(self, number):
        dice = random.Random(self.seed * 100 + number)
        own = [f"t/{at}" for at in range(number, TIMELINES, WRITERS)]
        client, batch = Client(self.server), None
        while not self.over.is_set():
            batch = batch or (self.model.entries(dice), dice.choice(own))
            try:
                reason = write_once(client, self.model, *batch)
            except (OSError, http.client.HTTPException, ValueError):
                # A server that was ended, or a machine so busy that no answer came in a minute.
                client = Client(self.server)
                time.sleep(0.1)
                continue
            batch, now = None, time.monotonic()
            if reason is None:
                self.succeeded[number], self.full_since[number] = now, None
                continue
            self.reasons[str(reason)] = self.reasons.get(str(reason), 0) + 1
            if reason == "storage_full" and self.full_since[number] is None:
                self.full_since[number] = now
            time.sleep(0.02)

    def start(self):
        self.threads = [threading.Thread(target=self.writer, args=(at,)) for at in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def wait_full(self, seconds, limit):
        """Until every writer has heard nothing but refusals for so long."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            now = time.monotonic()
            if all(since is not None and now - since > seconds for since in self.full_since):
                return True
            if "unavailable" in self.reasons or "outcome_unknown" in self.reasons:
                return True
            time.sleep(0.05)
        return False

    def wait_success(self, after, limit):
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if max(self.succeeded) > after:
                return max(self.succeeded) - after
            time.sleep(0.005)
        return None

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def check(server, model):
    """Messages that were acknowledged and are not there as they were; holes."""
    client, lost = Client(server), 0
    for timeline, acked in model.acked.items():
        found, at = {}, model.floors[timeline]
        while True:
            page, reason = client.call("message.range", timeline=timeline, **{"from": at}, limit=1000)
            if page is None:
                if reason == "timeline_not_found" and not acked:
                    break
                raise RuntimeError(f"cannot read {timeline}: {reason}")
            for message in page["messages"]:
                if message["sequence"] in found or (found and message["sequence"] - 1 not in found):
                    lost += 1
                found[message["sequence"]] = message["entry"]
            if page.get("next") is None:
                break
            at = page["next"]
        lost += sum(found.get(at) != entry for at, entry in acked.items() if at >= model.floors[timeline])
    return lost


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def allocate(path, size):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def trim_half(server, model, errors, patience=60):
    """Each trim is repeated for so long, s: one that is refused for good is an error."""
    client, deadline = Client(server), time.monotonic() + patience
    for number, timeline in enumerate(sorted(model.acked)):
        if number % 2 and model.acked[timeline]:
            head = max(model.acked[timeline])
            done, reason = client.call("timeline.trim", timeline=timeline, before=head + 1)
            while done is None and time.monotonic() < deadline:
                time.sleep(0.1)
                done, reason = client.call("timeline.trim", timeline=timeline, before=head + 1)
            if done is None:
                errors.append(f"trim: {reason}")
            else:
                model.floors[timeline] = head + 1


def fill(options, kind, number, work):
    seed = options.seed + number
    dice = random.Random(f"{seed} {kind}")
    size = options.image_mb if kind == "default" else options.small_image_mb
    image, mount = work / "image", work / "mount"
    mount.mkdir(exist_ok=True)
    if options.tmpfs:
        run("mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", mount)
    else:
        with open(image, "wb") as file:
            file.truncate(size * MIB)
        run("mkfs.ext4", "-q", "-F", *(["-b", dice.choice(["1024", "4096"])]), image)
        run("mount", "-o", "loop", image, mount)
    result = {"settings": kind, "fill": number, "stops": 0, "lost": 0, "seconds": None, "errors": []}
    errors = result["errors"]
    log = work / f"{kind}-{number}.log"
    server = Server(options.binary, mount / "data", log, SMALL if kind == "small" else "", options.config)
    model = Model(dice)
    try:
        free = os.statvfs(mount)
        free = free.f_bfree * free.f_frsize
        ballast = mount / "ballast"
        if not options.trim:
            allocate(ballast, int(free * dice.uniform(0.1, 0.7)))
        if not server.start():
            raise RuntimeError("the server did not start")
        writing = Fill(server, model, seed)
        writing.start()
        if not writing.wait_full(2.0, options.patience):
            errors.append(f"never full: {writing.reasons}")
        if not options.trim and dice.random() < 0.4:
            # A restart in the middle of it: by the signal that asks, or the one that does not.
            how = dice.choice([signal.SIGTERM, signal.SIGKILL])
            result["restart"] = how.name
            stops = server.stopped()
            result["stops"] += stops
            writing.over.set()
            server.stop(how)
            writing.end()
            if not server.start():
                raise RuntimeError("no start on a full disk: " + log.read_text(errors="replace").splitlines()[-1])
            writing = Fill(server, model, seed + 7)
            writing.start()
            time.sleep(dice.uniform(0.2, 2.0))
        writing_client = Client(server)
        if writing_client.call("timeline.list", limit=10)[0] is None:
            errors.append("no reads on the full disk")
        at = time.monotonic()
        if options.trim:
            trim_half(server, model, errors)
        else:
            ballast.unlink()
        result["seconds"] = writing.wait_success(at, 240 if options.trim else 20)
        if result["seconds"] is None:
            errors.append(f"writes did not go on: {writing.reasons}")
        if options.trim:
            # Not by the reserve alone: megabytes go in again, once the walk over all rows has found what is dead.
            before, deadline = sum(len(acked) for acked in model.acked.values()), time.monotonic() + 180
            while time.monotonic() < deadline and result.get("more", 0) < 1_000:
                time.sleep(1)
                result["more"] = sum(len(acked) for acked in model.acked.values()) - before
            if result["more"] < 1_000:
                errors.append(f"the trim gave no room: {result['more']} messages")
        else:
            time.sleep(0.5)
        writing.end()
        result["reasons"] = writing.reasons
        result["messages"] = sum(len(acked) for acked in model.acked.values())
        result["stops"] += server.stopped()
        result["lost"] = check(server, model)
        ended = server.stop(signal.SIGTERM)
        if ended != 0:
            errors.append(f"ended with {ended}")
        verify = subprocess.run([options.binary, "verify", str(mount / "data")], capture_output=True, text=True)
        if verify.returncode != 0:
            errors.append("verify: " + verify.stdout[-300:] + verify.stderr[-300:])
    except Exception as error:  # the campaign goes on
        errors.append(repr(error))
    finally:
        try:
            writing.over.set()
        except NameError:
            pass
        server.stop(signal.SIGKILL)
        run("umount", mount)
        image.unlink(missing_ok=True)
    if not (errors or result["stops"] or result["lost"] or options.keep):
        log.unlink()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--fills", type=int, default=30, help="of each kind of settings")
    parser.add_argument("--settings", choices=["default", "small", "both"], default="both")
    parser.add_argument("--image-mb", type=int, default=700)
    parser.add_argument("--small-image-mb", type=int, default=96)
    parser.add_argument("--tmpfs", action="store_true", help="of memory, not an ext4 image")
    parser.add_argument("--trim", action="store_true", help="make room by trimming, not by removing a file")
    parser.add_argument("--config", default="", help="more lines of configuration")
    parser.add_argument("--patience", type=int, default=300, help="seconds until a disk must be full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help="a folder for images and logs")
    parser.add_argument("--keep", action="store_true", help="keep every log")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="full-disk-", dir=options.work))
    kinds = ["default", "small"] if options.settings == "both" else [options.settings]
    results = []
    for kind in kinds:
        for number in range(options.fills):
            results.append(fill(options, kind, number, work))
            print(json.dumps(results[-1]), flush=True)
    bad = [result for result in results if result["errors"] or result["stops"] or result["lost"]]
    seconds = sorted(result["seconds"] for result in results if result["seconds"] is not None)
    print(
        f"{len(results)} fills: {sum(result['stops'] for result in results)} stops, "
        f"{sum(result['lost'] for result in results)} lost messages, {len(bad)} fills with an error; writes went on "
        f"after at most {seconds[-1]:.2f} s (median {seconds[len(seconds) // 2]:.2f} s)" if seconds else "no fill ended well"
    )
    if bad:
        print(f"logs: {work}")
        sys.exit(1)
    if not options.keep:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
