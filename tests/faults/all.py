#!/usr/bin/env python3
"""The long fault tests, one after the other: a line for each says what was injected, what came out, which controls were
noticed.

    cargo build --workspace --features tideline/faults
    sudo python3 tests/faults/all.py [--list] [ID …]

Owns: which command each id of `docs/FAULTS.md` has, and which controls. Takes `target/debug/tideline`, or TIDELINE_BIN,
and `tideline-load` beside it; the server must have the feature `faults`. D3, D5, C3 and C8 need root, and all
but C8 loop devices; D9 and C1 to C8 the packages of tests/tablestore/requirements.txt and tests/python/requirements.txt. Exit
code 0 only if all held and each control was noticed. Must not: judge; each program does.
"""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.path.abspath(os.environ.get("TIDELINE_BIN", TESTS.parent / "target" / "debug" / "tideline"))
LOAD = os.path.join(os.path.dirname(BINARY), "tideline-load")

# `commands`: each must end with 0. `controls`: the fault, the command, its environment, and the exit code that says
# that it was noticed.
Test = collections.namedtuple("Test", "injects commands controls")


def python(program, *words):
    return [sys.executable, str(TESTS / program), *map(str, words)]


def crash(rounds, seed, *more):
    words = ["--quiet", "--rounds", str(rounds), "--seed", str(seed), "--binary", BINARY]
    return [LOAD, "crash", *words, "--data", "DATA/data", "--history", "DATA/history.jsonl", *more]


def control(fault, program, *words):
    """Of a program that takes the fault itself, and ends with 0 if it notices it."""
    return (fault, python(program, *words), {}, 0)


def cluster(*faults):
    """Of `faults/cluster.py`, the words for these."""
    return ["faults/cluster.py", *[word for fault in faults for word in ("--fault", fault)]]


IMAGES = "faults/crash_images.py"
ALL = {
    "D1": Test(
        "kill -9 under 16 writers and 4 subscribers, 1,000 times",
        [crash(200, seed) for seed in range(1, 6)],
        [("ack_before_log", crash(20, 9, "--env", "TIDELINE_FAULT=ack_before_log"), {}, 1)],
    ),
    "D2": Test(
        "power cuts: 10,000 images of ten recorded runs, five of them with a split",
        [
            python(IMAGES, "--images", 1_000, "--calls", 150, "--seed", seed, *["--split"] * (seed > 5))
            for seed in range(1, 11)
        ],
        [
            control(fault, IMAGES, "--images", 60, "--control", fault)
            for fault in ("ack_before_sync", "log_unsynced", "image_unsynced")
        ],
    ),
    "D3": Test(
        "live power cuts of a loop device",
        [python("faults/power_cut.py", "--rounds", 20)],
        [control("log_unsynced", "faults/power_cut.py", "--rounds", 3, "--control")],
    ),
    "D4": Test(
        "each call to the disk fails: EIO, ENOSPC, by half, all syncs from it on",
        [python("faults/failing_calls.py")],
        [control("log_sync_unchecked", "faults/failing_calls.py", "--short", 20, "--control")],
    ),
    "D5": Test(
        "a disk that is full",
        [python("full_disk.py", "--binary", BINARY, "--fills", 30)],
        [("ack_before_log", python("full_disk.py", "--binary", BINARY, "--fills", 1), {"TIDELINE_FAULT": "ack_before_log"}, 1)],
    ),
    "D8": Test(
        "bits, pages and lengths of an image, 1,000 copies",
        [python("damage_pages.py", 1_000, 1)],
        [("rows_unchecked", python("damage_pages.py", 300, 7), {"TIDELINE_FAULT": "rows_unchecked"}, 1)],
    ),
    "D9": Test(
        "backups of a server at work that is killed, in a folder and in a bucket that fails",
        [python("faults/backups.py"), python("faults/backups.py", "--bucket", "--seed", 2)],
        [control("later marks, ended_not_held", "faults/backups.py", "--rounds", 3, "--control")],
    ),
    "C1": Test(
        "a cluster's owner, standbys and NATS servers are killed, frozen, told to end, drained",
        [
            python(*cluster("kill-owner", "kill-standby", "kill-leader", "kill-follower", "kill-both")),
            python(*cluster("drain", "term", "freeze-owner", "freeze-leader")),
        ],
        [control("member_answers_early", *cluster("kill-both"), "--rounds", 5, "--control", "member_answers_early")],
    ),
    "C2": Test(
        "machines of a cluster are cut off, both ways or one, or slow",
        [python(*cluster("cut-owner", "cut-leader", "cut-all", "deaf-owner", "deaf-pair", "slow"))],
        [control("member_proves_itself", *cluster("cut-owner"), "--rounds", 5, "--control", "member_proves_itself")],
    ),
    "C3": Test(
        "power cuts of one, two and three machines of a cluster",
        [python(*cluster("power-1", "power-2", "power-3"))],
        [control("sync_interval", *cluster("power-3"), "--rounds", 3, "--control", "sync_interval")],
    ),
    "C4": Test("bytes of a NATS server's store are others, or its files are cut", [python(*cluster("rot"))], []),
    "C5": Test(
        "messages of NATS are lost on their way to the nodes",
        [python(*cluster("lost-answers"))],
        [control("cluster_SilenceIsFailure", *cluster("lost-answers"), "--rounds", 5, "--control", "cluster_SilenceIsFailure")],
    ),
    "C8": Test("full disks of nodes and of NATS servers", [python(*cluster("full-data", "full-store"))], []),
}


def run(command, environment=None):
    """Runs a command in a directory of its own; its exit code and what it says last."""
    with tempfile.TemporaryDirectory(prefix="faults-") as data:
        words = [word.replace("DATA", data) for word in command]
        given = {**os.environ, "TIDELINE_BIN": BINARY, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
        ran = subprocess.run(words, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = ran.stdout.strip().splitlines()
    if ran.returncode != 0 and environment is None:
        print(ran.stdout, file=sys.stderr)
    return ran.returncode, lines[-1] if lines else "nothing"


def judge(name, test):
    """Runs a test and its controls; whether all held."""
    began, said, holds = time.monotonic(), [], True
    for command in test.commands:
        code, last = run(command)
        holds &= code == 0
        said.append(last if code == 0 else f"exit code {code}: {last}")
    for fault, command, environment, noticed in test.controls:
        code, last = run(command, environment)
        holds &= code == noticed
        said.append(f"control {fault} {'noticed' if code == noticed else f'NOT noticed, exit code {code}: {last}'}")
    minutes = (time.monotonic() - began) / 60
    outcome = "held" if holds else "BROKEN"
    print(f"{name}  {test.injects}: {outcome} in {minutes:.0f} min; {'; '.join(said)}", flush=True)
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"of {' '.join(ALL)}; none = all")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options = parser.parse_args()
    unknown = set(options.ids) - set(ALL)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    chosen = {name: ALL[name] for name in options.ids or ALL}
    if options.list:
        for name, test in chosen.items():
            print(f"{name}  {test.injects}")
            for command in test.commands:
                print(f"    {' '.join(command)}")
            for _, command, environment, _ in test.controls:
                given = [f"{key}={value}" for key, value in environment.items()]
                print(f"    control: {' '.join([*given, *command])}")
        return
    for program in [BINARY, LOAD]:
        if not shutil.which(program):
            sys.exit(f"there is no {program}: cargo build --workspace --features tideline/faults, or set TIDELINE_BIN")
    # All of them run, whatever came out of those before.
    sys.exit(not all([judge(name, test) for name, test in chosen.items()]))


if __name__ == "__main__":
    main()
