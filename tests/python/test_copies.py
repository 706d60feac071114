"""Plain copies of a data directory: refused in a sentence when it was served, and taken as they are when it was not."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from client import Client
from server import Server
from test_backup import refusal
from test_partitions import run
from test_partitions_served import Writers

SAYS = "is a copy, file by file, of a data directory that was being served"


def append(server, count):
    """Appends so many messages; how many there are then, without a hole."""
    with Client(server) as client:
        for _ in range(count):
            head = client.call("message.append", timeline="room", entry={"text": "hello"})["sequence"]
        page = client.call("message.range", timeline="room", **{"from": 1, "limit": 1000})["messages"]
    assert [one["sequence"] for one in page] == list(range(1, head + 1))
    return head


def copied(server, where):
    """A server on a plain copy of another one's directory, not yet started."""
    where.mkdir()
    # What the server gives another name meanwhile is missed: that is what such copies are like.
    subprocess.run(["cp", "-r", server.data, where / "data"], capture_output=True)
    return Server(where)


def refused(server):
    ended = run(server, "serve", "--data", server.data, "--listen", f"127.0.0.1:{server.port}")
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1 and SAYS in last and "`tideline serve --accept-copy`" in last, ended


def accepting(server):
    """The server, started with --accept-copy by a program between."""
    program = pathlib.Path(server.directory) / "accepting"
    program.write_text(f'#!/bin/sh\nexec {server.binary} "$@" --accept-copy\n')
    program.chmod(0o755)
    binary, server.binary = server.binary, str(program)
    try:
        return server.start()
    finally:
        server.binary = binary


def test_a_copy_of_a_stopped_directory_is_as_good_as_the_directory(own_server, tmp_path):
    append(own_server.start(), 3)
    assert own_server.stop() == 0 and not os.path.exists(own_server.data + "/served")
    other = copied(own_server, tmp_path / "other")
    assert append(other.start(), 1) == 4
    assert other.stop() == 0
    # So it is after a command that opened it.
    assert run(own_server, "partition", "split", own_server.data, "0").returncode == 0
    another = copied(own_server, tmp_path / "another")
    assert append(another.start(), 1) == 4
    another.kill()


def test_a_kill_and_a_move_ask_nothing(own_server, tmp_path):
    append(own_server.start(), 3)
    for _ in range(2):
        own_server.restart(signal.SIGKILL)
    assert append(own_server, 1) == 4
    own_server.kill()
    moved = tmp_path / "moved"
    moved.mkdir()
    os.rename(own_server.data, moved / "data")
    other = Server(moved)
    assert append(other.start(), 1) == 5
    other.kill()


def test_a_copy_of_a_served_directory_is_refused(own_server, tmp_path):
    own_server.start()
    append(own_server, 3)
    writers = Writers(own_server, 2)
    with writers:
        under_load = copied(own_server, tmp_path / "under-load")
    refused(under_load)
    # Of one moment, but who could tell: a copy of files looks the same.
    own_server.process.send_signal(signal.SIGSTOP)
    standing = copied(own_server, tmp_path / "standing")
    own_server.process.send_signal(signal.SIGCONT)
    refused(standing)
    own_server.kill()
    killed = copied(own_server, tmp_path / "killed")
    refused(killed)
    for words in (["backup", tmp_path / "to", "--data", killed.data], ["partition", "split", killed.data, "0"]):
        assert SAYS in refusal(killed, *words)
    # The directory itself is not.
    with_all = append(own_server.start(), 1)
    own_server.stop()

    # Who only looks is told, and goes on.
    verified = run(killed, "verify", killed.data)
    assert verified.returncode == 0 and f"NOTE {killed.data} {SAYS}" in verified.stdout, verified.stdout
    dumped = run(killed, "dump", killed.data, "room")
    assert dumped.returncode == 0 and SAYS in dumped.stderr and '"hello"' in dumped.stdout
    looked = run(killed, "doctor", killed.data)
    assert looked.returncode == 1 and f"FAIL  copy: {killed.data} {SAYS}" in looked.stdout, looked.stdout

    # It is accepted once, by who says so, with another history.
    accepting(killed)
    assert append(killed, 1) == with_all
    assert "is accepted, with the new history" in killed.whole_log()
    killed.restart()
    killed.kill()
    assert run(killed, "verify", killed.data).stdout.endswith(" 0 problems\n")
    with Client(own_server.start()) as one, Client(killed.start()) as other:
        epochs = [client.call("timeline.get", timeline="room")["epoch"] for client in (one, other)]
    assert epochs[0] != epochs[1]
    killed.kill()


def test_a_damaged_copy_is_not_accepted(own_server, tmp_path):
    append(own_server.start(), 3)
    copy = copied(own_server, tmp_path / "copy")
    # What was copied before the rest was written.
    log = pathlib.Path(copy.data) / "partition-0000/log"
    segment = sorted(log.glob("*.log"))[-1]
    segment.write_bytes(b"\0" * segment.stat().st_size)
    (log / "log.state").write_bytes(b"")
    before = sorted(path.name for path in pathlib.Path(copy.data).rglob("*"))
    ended = run(copy, "serve", "--data", copy.data, "--accept-copy")
    assert ended.returncode == 1 and "PROBLEM" in ended.stdout, ended
    assert "the copy is damaged, and is not served" in ended.stderr
    assert sorted(path.name for path in pathlib.Path(copy.data).rglob("*")) == before
    refused(copy)


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_control_without_the_mark_a_copy_is_served(own_server, tmp_path):
    append(own_server.start(), 3)
    copy = copied(own_server, tmp_path / "copy")
    copy.environment = {"TIDELINE_FAULT": "copies_pass"}
    append(copy.start(), 1)
    copy.kill()
    shutil.rmtree(copy.data)
