#!/usr/bin/env python3
"""D2: what a power cut can leave of a data directory, at any point of a run, and a real server's start on it.

    TIDELINE_BIN=target/debug/tideline python3 tests/faults/crash_images.py [--images 100] [--seed 1]

Records a scripted load on the real server (`disk.c`, `workload.py`): it is killed in the middle, in the place of one of
its calls, started again on what it left, and stopped in order. Then it builds images: a point of the trace, everything
that was synced by then, and of the later writes any part, torn at 512 bytes; names that no sync of their folder covers
may be missing. On each image the real server is started and must have exactly what was acknowledged by then, and go on.

With `--split` there is one partition, and after the restart it is split under the load.

The mark `served` is left out of images: it names its own inode, and would be a foreign copy's. With `--control` the
server breaks a promise (`TIDELINE_FAULT`, a build with the feature `faults`), and exit code 0 says that it was noticed.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile

import recorder
import workload

CONTROLS = ["ack_before_sync", "log_unsynced", "image_unsynced"]
LEFT_OUT = ("served", "served.part")


class Run:
    """A recorded run: the trace, and what the load knows."""

    def __init__(self, options):
        work, seed, calls, fault = options.work, options.seed, options.calls, options.control
        self.config = workload.SMALL if options.split else workload.CONFIG
        folder = os.path.join(work, "recorded")
        data = os.path.join(folder, "data")
        os.makedirs(data)
        self.root = os.stat(data).st_ino
        trace = os.path.join(work, "trace")
        environment = {
            "LD_PRELOAD": recorder.library(work),
            "DISK_ROOT": data,
            "DISK_TRACE": trace,
            "DISK_FAIL": f"{random.Random(seed).randrange(4, 7) * calls}:kill",
        }
        if fault:
            environment["TIDELINE_FAULT"] = fault
        self.load = workload.Load(seed, calls)
        server = workload.start(folder, environment, self.config)
        try:
            if not self.load.make_table(server):
                raise SystemExit("no table could be made")
            self.load.run(server, "before the kill")
            if server.process.wait(20) >= 0:
                raise SystemExit("the server was not killed")
            del server.environment["DISK_FAIL"]
            server.start()
            self.load.settle(server)
            if options.split:
                workload.Caller(server).call("partition.split", partition=0)
            self.load.run(server, "after the kill")
            # A control may break what is seen here already; it is judged by its images.
            faults = [] if fault else self.load.judge(server, goes_on=False)
            if faults:
                raise SystemExit("wrong without a power cut:\n" + "\n".join(faults))
            if server.stop() != 0:
                raise SystemExit("the server did not stop in order")
        finally:
            server.kill()
        self.records = recorder.read_trace(trace)
        self.answered = recorder.answered(self.records)
        shutil.rmtree(folder)


def attempts(images, points, seed):
    """Which image is made when: the point, its number. In the order of points."""
    dice = random.Random(f"{seed} points")
    return sorted((dice.randrange(points + 1), number) for number in range(images))


def build(disk, image, seed, number):
    """Writes an image; how unkind the power cut was."""
    dice = random.Random(f"{seed} image {number}")
    way = dice.choices(["none", "all", "some"], [1, 1, 4])[0]
    os.makedirs(os.path.join(image, "data"))
    disk.after_cut(os.path.join(image, "data"), dice, way, LEFT_OUT)
    return way


def attempt(run, disk, point, number, options):
    """One image: what is wrong with it, in words."""
    image = os.path.join(options.work, f"image-{number}")
    way = build(disk, image, options.seed, number)
    acked = lambda call: run.answered.get(call, len(run.records)) < point
    try:
        server = workload.start(image, config=run.config)
    except RuntimeError as error:
        faults = [f"no start: {error}"]
    else:
        faults = run.load.judge(server, acked)
        server.kill()
    if not (faults and options.keep):
        shutil.rmtree(image)
    return [f"image {number}, point {point} of {len(run.records)}, of the rest {way}: {fault}" for fault in faults]


def share(work):
    """Some of the images, by one process."""
    run, todo, options = work
    disk, at, found = recorder.Disk(run.root), 0, []
    for point, number in todo:
        for record in run.records[at:point]:
            disk.play(record)
        at = point
        found.append(attempt(run, disk, point, number, options))
        if options.progress and len(found) % 500 == 0:
            print(f"{len(found)} of {len(todo)}, {sum(map(bool, found))} with faults", file=sys.stderr, flush=True)
    return found


def campaign(run, options):
    """All images; what was wrong with each."""
    todo = attempts(options.images, len(run.records), options.seed)
    shares = [(run, todo[at :: options.jobs], options) for at in range(options.jobs)]
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        return [faults for part in pool.map(share, shares, chunksize=1) for faults in part]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=60, help="of each writer, before the kill and after it")
    parser.add_argument("--control", choices=CONTROLS, help="a promise to break, which must be noticed")
    parser.add_argument("--split", action="store_true", help="split the partition meanwhile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="keep the images that were wrong")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    options.work = tempfile.mkdtemp(prefix="crash-images-")
    try:
        run = Run(options)
        found = campaign(run, options)
        bad = [faults for faults in found if faults]
        for faults in [] if options.control else bad[:20]:
            print("\n    ".join(faults[:4]))
        kinds = collections.Counter(fault.split(": ", 2)[1].split(":")[0] for faults in bad for fault in faults[:1])
        syncs = sum(record.kind == recorder.END for record in run.records)
        print(
            f"D2: {run.load.acked} acknowledged calls, {len(run.records)} records, {syncs} syncs; {len(found)} images, "
            f"{len(bad)} with violations {dict(kinds)}" + (f" under {options.control}" if options.control else "")
        )
    finally:
        workload.leave(options, any(pathlib.Path(options.work).glob("image-*")))
    sys.exit(bool(bad) != bool(options.control))


if __name__ == "__main__":
    main()
