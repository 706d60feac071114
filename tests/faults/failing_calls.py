#!/usr/bin/env python3
"""D4: the N-th call that a real server makes to its disk fails, for every N of a scripted run.

    TIDELINE_BIN=target/debug/tideline python3 tests/faults/failing_calls.py [--short 30] [--seed 1]

Each run starts a server on an empty directory under the recorder (`disk.c`), which fails one call: with EIO, with
ENOSPC, or a write by half; or every sync from there on (`workload.py` writes, four writers at once). What must hold:
nothing that was refused is there, whatever was acknowledged is; nobody waits for an answer; the process goes on,
refuses, or ends by itself, not by a signal; where it refused or ended, a line of its log has the error. Then a server
without faults is started on the directory, and another one on what a power cut after the run would have left, where
what a failed sync should have covered may be lost: both must have all that was acknowledged, and go on.

With `--control` the server passes over failed syncs of its log (`TIDELINE_FAULT=log_sync_unchecked`, a build with the
feature `faults`), and exit code 0 says that it was noticed.
"""

import argparse
import collections
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile

import recorder
import workload

CONTROL = "log_sync_unchecked"
KINDS = ["eio", "enospc", "short", "syncs"]
# What the log says of the error: the system's, the standard library's for a write by half, LMDB's.
TOLD = ["os error 5", "os error 28", "failed to write whole buffer", "Input/output error", "no room", "disk is full"]
# Large, so that few calls come to flushes, merges and new segments.
SIZES = [20, 2_000, 20_000, 40_000]


class Attempt:
    """One run with one failing call."""

    def __init__(self, options, number, kind):
        self.options, self.number, self.kind = options, number, kind
        self.folder = tempfile.mkdtemp(prefix=f"{number}-{kind}-", dir=options.work)
        self.data = os.path.join(self.folder, "data")
        self.trace = os.path.join(self.folder, "trace")
        os.mkdir(self.data)
        self.root = os.stat(self.data).st_ino
        self.load = workload.Load(f"{options.seed} {number}", options.calls, SIZES)
        self.faults, self.outcome = [], ""

    def run(self):
        try:
            self.under_fault()
            records = recorder.read_trace(self.trace)
            reached = any(record.kind == recorder.FAILED for record in records)
            if not reached:
                self.outcome = "not reached"
            self.afterwards("a restart", self.folder)
            self.afterwards("a power cut", self.after_power_cut(records))
            self.calls = sum(record.kind in recorder.COUNTED for record in records)
        finally:
            if not (self.faults and self.options.keep):
                shutil.rmtree(self.folder)
        told = [f"call {self.number}, {self.kind}, {self.outcome}: {fault}" for fault in self.faults]
        return self.outcome, self.calls, told

    def under_fault(self):
        environment = {
            "LD_PRELOAD": self.options.library,
            "DISK_ROOT": self.data,
            "DISK_TRACE": self.trace,
            "DISK_FAIL": f"{self.number}:{self.kind}",
        }
        if self.options.control:
            environment["TIDELINE_FAULT"] = CONTROL
        server = workload.Server(self.folder, environment=environment, config=workload.CONFIG)
        try:
            server.start()
            if self.load.make_table(server):
                self.load.run(server, "under a fault")
            ended = server.process.poll()
            if ended is None and "no answer" in self.load.reasons:
                self.faults.append(f"no answer, and it goes on: {self.load.reasons}")
            # A slow machine's compaction is behind at times.
            refused = set(self.load.reasons) - {"busy"}
            self.outcome = "ended" if ended is not None else "refused" if refused else "went on"
            code = server.stop()
        except RuntimeError:
            self.outcome, code = "no start", server.process.poll()
        except subprocess.TimeoutExpired:
            self.faults.append("it does not stop")
            code = 0
        finally:
            server.kill()
        log = server.whole_log()
        if code is None or code < 0 or "panicked" in log:
            self.faults.append(f"it ended with {code}: {log[-600:]}")
        if self.outcome != "went on" and not any(words in log for words in TOLD):
            self.faults.append(f"no line has the error, {self.load.reasons}: {log[-600:]}")

    def after_power_cut(self, records):
        disk = recorder.Disk(self.root)
        for record in records:
            disk.play(record)
        dice = random.Random(f"{self.options.seed} {self.number} {self.kind}")
        folder = os.path.join(self.folder, "cut")
        os.makedirs(os.path.join(folder, "data"))
        disk.after_cut(os.path.join(folder, "data"), dice, dice.choice(["none", "some"]), ["served", "served.part"])
        return folder

    def afterwards(self, what, folder):
        try:
            server = workload.start(folder)
        except RuntimeError as error:
            self.faults.append(f"no start after {what}: {error}")
            return
        self.faults += [f"after {what}: {fault}" for fault in self.load.judge(server)]
        server.kill()


def attempt(work):
    return Attempt(*work).run()


def todo(options, calls):
    """The calls that fail, and how: all, or some spread over the run."""
    every = [(number, kind) for number in range(options.first, min(calls, options.last or calls) + 1) for kind in KINDS]
    if not options.short:
        return every
    dice = random.Random(f"{options.seed} spread")
    numbers = [1 + (calls - 1) * at // max(1, options.short - 1) for at in range(options.short)]
    kinds = ["syncs"] if options.control else KINDS
    return [(number, dice.choice(kinds)) for number in numbers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", type=int, default=0, help="only so many calls, spread over the run")
    parser.add_argument("--first", type=int, default=1, help="only from this call on")
    parser.add_argument("--last", type=int, default=0, help="only to this call")
    parser.add_argument("--calls", type=int, default=30, help="that each of the four writers makes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true", help=f"with {CONTROL}, which must be noticed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="keep the directories that were wrong")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    options.work = tempfile.mkdtemp(prefix="failing-calls-")
    options.library = recorder.library(options.work)
    outcomes, bad, runs = collections.Counter(), 0, 0
    try:
        # How many there are, without a fault.
        _, calls, faults = Attempt(options, 1 << 40, "eio").run()
        if faults and not options.control:
            sys.exit("wrong without a fault:\n" + "\n".join(faults))
        work = [(options, number, kind) for number, kind in todo(options, calls)]
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for outcome, _, faults in pool.imap_unordered(attempt, work):
                runs += 1
                outcomes[outcome] += 1
                bad += bool(faults)
                if faults and not options.control:
                    print("\n    ".join(faults[:4]), flush=True)
                if options.progress and runs % 100 == 0:
                    print(f"{runs} of {len(work)}, {bad} with violations", file=sys.stderr, flush=True)
        print(
            f"D4: {calls} calls of a run, {runs} runs with one that fails: {dict(sorted(outcomes.items()))}; "
            f"{bad} with violations" + (f" under {CONTROL}" if options.control else "")
        )
    finally:
        workload.leave(options, bad)
    sys.exit(bool(bad) != bool(options.control))


if __name__ == "__main__":
    main()
