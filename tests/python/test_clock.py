"""OPERATIONS.md, "When the clock is set": the real binary under Debian's libfaketime, which steps the system's clock while the server
runs. The steady clocks go on: `CLOCK_MONOTONIC` because libfaketime is told so, `CLOCK_BOOTTIME` because the server asks the kernel.

Needs libfaketime. It is installed where that can be done (root, apt-get); elsewhere these tests are skipped and say so.
"""

import glob
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import Client, Refused, until
from server import Server

LIBRARIES = ["/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1"]
WRITERS = 16
HOUR = 3600
YEARS = 10 * 365 * 24 * HOUR
# So long a jump forward is not followed; see `src/base/ids.rs`.
DOUBT = 10


def library():
    def found():
        return os.environ.get("TIDELINE_FAKETIME") or next((path for one in LIBRARIES for path in glob.glob(one)), None)

    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        for arguments in [["update"], ["install", "-y", "--no-install-recommends", "libfaketime"]]:
            subprocess.run(["apt-get", "-q", *arguments], capture_output=True, timeout=300)
    return found() or pytest.skip("no libfaketime: apt-get install libfaketime, or name the library in TIDELINE_FAKETIME")


class Stepped(Server):
    """A server whose system clock the test sets."""

    def __init__(self, directory, **environment):
        self.offset_path = os.path.join(directory, "offset")
        self.set(0)
        super().__init__(
            directory,
            environment={
                "LD_PRELOAD": library(),
                "FAKETIME_TIMESTAMP_FILE": self.offset_path,
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
                **environment,
            },
        )

    def set(self, seconds):
        """Sets the system's clock to so many seconds ahead of the true time."""
        self.say(f"{seconds:+d}")
        self.offset = seconds

    def stop_time(self):
        """The system's clock stands still, at a whole second."""
        self.say(time.strftime("%Y-%m-%d %H:%M:%S"))

    def say(self, text):
        with open(self.offset_path + ".new", "w") as file:
            file.write(text + "\n")
        os.rename(self.offset_path + ".new", self.offset_path)


class Callers:
    """Connections that call all the time, each from a thread of its own."""

    def __init__(self, server):
        self.server, self.ends, self.failed = server, False, []
        # How long a call has taken at most: since the last quiet time, and in quiet times.
        self.longest, self.quiet = 0.0, 0.0
        self.threads = [threading.Thread(target=self.run, args=[self.write, f"w-{number}"]) for number in range(WRITERS)]
        self.threads.append(threading.Thread(target=self.run, args=[self.look, "w-0"]))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        for thread in self.threads:
            thread.join()

    def run(self, call, timeline):
        try:
            with Client(self.server) as client:
                while not self.ends:
                    began = time.monotonic()
                    call(client, timeline)
                    self.longest = max(self.longest, time.monotonic() - began)
                    time.sleep(0.05)
        except Exception as error:
            self.failed.append(f"{timeline}: {error!r}")

    def write(self, client, timeline):
        client.append(timeline, {"text": "x"}, expires_in_ms=1_000)

    def look(self, client, timeline):
        client.call("ping")
        if has(client, timeline):
            client.call("message.range", timeline=timeline, limit=1)

    def rest(self):
        """Looks how long calls take on this machine at the moment, while nobody sets the clock."""
        self.longest = 0.0
        time.sleep(1.5)
        self.quiet, self.longest = max(self.quiet, self.longest), 0.0

    def check(self, what):
        assert not self.failed, (what, self.failed)
        assert self.longest < 1 + 3 * self.quiet, (what, self.longest, self.quiet)


@pytest.fixture
def stepped(tmp_path):
    running = Stepped(str(tmp_path)).start()
    yield running
    running.kill()


def is_at(client, offset):
    """Whether a new message is stamped with the true time and so many seconds."""
    timeline, before = f"now-{time.monotonic_ns()}", time.time()
    client.append(timeline)
    stamp = client.call("message.get", timeline=timeline, sequence=1)["message"]["timestamp"] / 1000 - offset
    return before - 1 < stamp < time.time() + 1


def followed(client, offset):
    """A batch that was begun before the step still has the time from then."""
    until(lambda: is_at(client, offset))


def schedule(client, timeline, ahead):
    """A message that is due in so many seconds of the server's time."""
    client.call("timeline.create", timeline=timeline)
    now = client.call("ping")["time"]
    client.append(timeline, {"n": 1}, deliver_at=now + ahead * 1000)


def has(client, timeline):
    try:
        return client.call("timeline.get", timeline=timeline)["head"] > 0
    except Refused:
        return False


def expiries(client):
    return client.call("timeline.get", timeline="w-0")["change_head"]


def jump_forward(client, callers, server, to, number):
    """It is not followed before it lasts; until then time and timers go on as if there had been none."""
    before, soon, later = server.offset, f"soon-{number}", f"later-{number}"
    # Due when the jump is followed.
    schedule(client, later, HOUR)
    schedule(client, soon, 2)
    server.set(to)
    since = time.monotonic()
    until(lambda: has(client, soon))
    expired = expiries(client)
    while time.monotonic() < since + DOUBT - 3:
        was_at, came = is_at(client, before), has(client, later)
        callers.check(f"a step to {to} s")
        # A busy machine may have been too slow for a look.
        assert (was_at and not came) or time.monotonic() > since + DOUBT - 1, to
        time.sleep(0.2)
    until(lambda: expiries(client) > expired)
    followed(client, to)
    until(lambda: has(client, later))


def set_back(client, server, to, number):
    """It is followed at once: what was due soon waits until its time is there again, and what is due from now on comes in time."""
    soon, later = f"soon-{number}", f"later-{number}"
    schedule(client, soon, 60)
    server.set(to)
    followed(client, to)
    expired = expiries(client)
    schedule(client, later, 1)
    until(lambda: has(client, later))
    until(lambda: expiries(client) > expired)
    assert not has(client, soon)


def by_steps(server, steps):
    """The clock is set again and again; each step is looked at until it is followed."""
    with Client(server) as client, Callers(server) as callers:
        until(lambda: has(client, "w-0"))
        for number, to in enumerate(steps):
            callers.rest()
            if to > server.offset:
                jump_forward(client, callers, server, to, number)
            else:
                set_back(client, server, to, number)
            callers.check(f"a step to {to} s")


def by_small_steps(server):
    with Client(server) as client, Callers(server) as callers:
        until(lambda: has(client, "w-0"))
        callers.rest()
        for small in [1, -1, 5, 30, -20, 35, 10, -40, 3, 0]:
            schedule(client, f"small{small}", 1)
            server.set(small)
            followed(client, small)
        until(lambda: all(has(client, f"small{small}") for small in [1, 5, 10]))
        callers.check("small steps")


def test_steps_of_the_clock_stop_nothing(tmp_path):
    """Each on a server of its own, all at once, as they wait for most of their time."""
    library()  # here, as it may have to be installed
    walks = [lambda server, step=step: by_steps(server, [step, 0]) for step in [2 * HOUR, YEARS, -2 * HOUR, -YEARS]]

    def walked(number, walk):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = Stepped(str(folder)).start()
        try:
            walk(server)
            assert server.stop() == 0
            assert "panicked" not in server.whole_log()
        finally:
            server.kill()

    with ThreadPoolExecutor() as pool:
        for walk in [pool.submit(walked, *one) for one in enumerate([*walks, by_small_steps])]:
            walk.result()


def test_a_clock_that_stands_still_stops_nothing_but_time(stepped):
    with Client(stepped) as client, Callers(stepped) as callers:
        until(lambda: has(client, "w-0"))
        callers.rest()
        stepped.stop_time()
        # One look at the clock may still be on its way.
        until(lambda: client.call("ping")["time"] % 1000 == 0)
        now = client.call("ping")["time"]
        schedule(client, "soon", 1)
        time.sleep(3)
        assert client.call("ping")["time"] == now
        assert not has(client, "soon")
        stamps = [client.append("still") and client.call("message.get", timeline="still", sequence=n)["message"]["timestamp"] for n in (1, 2)]
        assert stamps == [now, now]
        stepped.set(0)
        until(lambda: has(client, "soon"))
        callers.check("a clock that stood still")
    assert stepped.stop() == 0


def test_a_step_of_the_clock_neither_closes_an_answer_nor_leaves_a_dead_one_open(stepped):
    def open_message(client, idle_s):
        return client.append("t", {"kind": "answer"}, open={"idle_ms": idle_s * 1000})["sequence"]

    def get(client, sequence):
        return client.call("message.get", timeline="t", sequence=sequence)["message"]

    def ends(client, sequence):
        closed = until(lambda: next((m for m in [get(client, sequence)] if "open" not in m), None))
        assert (closed["outcome"], closed["abandoned"]) == ("failed", True)

    with Client(stepped, user="ann") as ann:
        slow, silent, dead = open_message(ann, 60), open_message(ann, 60), open_message(ann, 25)
        ann.call("message.extend", timeline="t", sequence=slow, part=1, text="a")
        # An edit writes its row anew, and is no part.
        ann.call("message.update", timeline="t", sequence=slow, set={"kind": "other"})
        stepped.set(2 * HOUR)
        until(lambda: is_at(ann, 2 * HOUR))
        # The timer has looked at all of them by now.
        schedule(ann, "soon", 1)
        until(lambda: has(ann, "soon"))
        assert get(ann, slow)["open"] and get(ann, silent)["open"]
        assert not ann.call("message.extend", timeline="t", sequence=slow, part=2, text="b")["duplicate"]
        ends(ann, dead)
        late = open_message(ann, 8)
        ann.call("message.extend", timeline="t", sequence=late, part=1, text="a")
        stepped.set(0)
        followed(ann, 0)
        ends(ann, late)
        assert get(ann, slow)["open"] and get(ann, slow)["parts"] == 2
        # The step may not be seen by what it is less than the time since the timer's last look.
        soon = open_message(ann, 4)
        time.sleep(1)
        stepped.set(-30)
        ends(ann, soon)
    # A server that does not run sees no step at all.
    for offset in [2 * HOUR, 0]:
        stepped.stop()
        stepped.set(offset)
        stepped.start()
        with Client(stepped, user="ann") as ann:
            if offset:
                ahead = open_message(ann, 4)
            else:
                ends(ann, ahead)
    assert stepped.stop() == 0


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_control_a_server_that_a_step_stops_is_noticed(tmp_path):
    server = Stepped(str(tmp_path), TIDELINE_FAULT="clock_deadlock").start()
    try:
        with Client(server) as client, Callers(server) as callers:
            until(lambda: has(client, "w-0"))
            callers.rest()
            server.set(2 * HOUR)
            # A call gives up after a minute.
            until(lambda: callers.failed, 180)
        with pytest.raises(AssertionError):
            callers.check("a step")
    finally:
        server.kill()


def test_the_log_says_once_what_the_clock_did(stepped):
    with Client(stepped) as client:
        assert is_at(client, 0)
        stepped.set(2 * HOUR)
        assert all(is_at(client, 0) for _ in range(3))
        until(lambda: client.call("log.tail", level="error")["lines"])
        lines = client.call("log.tail", level="error")["lines"]
        jumps = [line["fields"] for line in lines if "jumped forward" in line["message"]]
        assert len(jumps) == 1, lines
        assert abs(jumps[0]["wall_ms"] - jumps[0]["clock_ms"] - 2 * HOUR * 1000) < 1000
        stepped.set(-2 * HOUR)
        followed(client, -2 * HOUR)
        until(lambda: stepped.whole_log().count("was set back; followed") == 1)
    assert stepped.stop(signal.SIGTERM) == 0
