#!/usr/bin/env python3
"""D3: a live power cut. Needs root and loop devices; a few seconds a round.

    sudo TIDELINE_BIN=target/debug/tideline python3 tests/faults/power_cut.py [--rounds 20] [--seed 1]

A round makes an ext4 file system in a file (its journal is committed every 300 s, or by a sync), has four writers
load a real server on it (`workload.py`), kills the server at some moment, and copies the file at once: what no sync has
brought there is truly absent. The copy is mounted, a server is started on it, and must have all that was acknowledged,
and go on. With `--control` the log's syncs are left out (`TIDELINE_FAULT=log_unsynced`, a build with the feature
`faults`), and exit code 0 says that it was noticed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import workload

CONTROL = "log_unsynced"
BYTES = 256 << 20


def run(*command):
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}: {ran.stderr.strip()} (root and loop devices are needed)")


class Mounted:
    """A file with a file system, mounted as long as it is used."""

    def __init__(self, image, place):
        self.image, self.place = image, place
        os.makedirs(place, exist_ok=True)

    def __enter__(self):
        run("mount", "-o", "loop,commit=300", self.image, self.place)
        return self

    def __exit__(self, *_):
        run("umount", self.place)


def server_on(place, folder, environment):
    """A server whose data is in the file system; its log and configuration are not."""
    os.makedirs(folder, exist_ok=True)
    server = workload.Server(folder, environment=environment, config=workload.CONFIG)
    server.data = os.path.join(place, "data")
    return server


def cut(options, number, work):
    """One round: how much was acknowledged, and what is wrong with the copy, in words."""
    dice = random.Random(f"{options.seed} {number}")
    image, copy = os.path.join(work, "image"), os.path.join(work, "copy")
    with open(image, "wb") as file:
        file.truncate(BYTES)
    run("mkfs.ext4", "-q", "-F", image)
    load = workload.Load(f"{options.seed} {number}", 1_000_000)
    with Mounted(image, os.path.join(work, "before")) as before:
        server = server_on(before.place, os.path.join(work, "server"), options.environment).start()
        try:
            if not load.make_table(server):
                raise SystemExit("no table could be made")
            writing = threading.Thread(target=load.run, args=[server, number])
            writing.start()
            time.sleep(dice.uniform(0.2, 3.0))
        finally:
            server.kill()
        run("cp", "--sparse=always", image, copy)
        writing.join()
    with Mounted(copy, os.path.join(work, "after")) as after:
        server = server_on(after.place, os.path.join(work, "server"), {})
        try:
            server.start()
            faults = load.judge(server)
        except RuntimeError as error:
            faults = [f"no start: {error}"]
        finally:
            server.kill()
    return load.acked, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true", help=f"with {CONTROL}, which must be noticed")
    options = parser.parse_args()
    options.environment = {"TIDELINE_FAULT": CONTROL} if options.control else {}
    if os.geteuid() != 0:
        sys.exit("power_cut.py mounts file systems: it must be run as root")
    acked = bad = 0
    with tempfile.TemporaryDirectory(prefix="power-cut-") as work:
        for number in range(options.rounds):
            done, faults = cut(options, number, work)
            acked += done
            bad += bool(faults)
            if faults and not options.control:
                print(f"round {number}: " + "\n    ".join(faults[:4]), flush=True)
    print(
        f"D3: {acked} acknowledged calls, {options.rounds} power cuts; {bad} with violations"
        + (f" under {CONTROL}" if options.control else "")
    )
    sys.exit(bool(bad) != bool(options.control))


if __name__ == "__main__":
    main()
