"""What all commands have in common: how a server is named, and readers of their output that go."""

import json
import os
import subprocess

import pytest

from client import Client
from test_command_line import environment


@pytest.fixture
def stopped(own_server):
    with Client(own_server.start()) as client:
        for number in range(300):
            client.append(f"room/{number}", {"text": "x" * 300})
    own_server.stop()
    return own_server


def unread(server, *words, **more):
    """A command whose reader has gone before it begins: its exit code, and what it says about it."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([server.binary, *words], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, env=environment(server, **more))
    os.close(writing)
    return done.returncode, done.stderr


def test_a_reader_that_has_seen_enough_is_no_failure(stopped):
    for words in (
        ["config"],
        ["completion", "bash"],
        ["doctor", stopped.data, "--json"],
        ["dump", stopped.data],
        ["verify", stopped.data],
        ["key", "list", "--data", stopped.data],
        ["partition", "list", stopped.data],
    ):
        assert unread(stopped, *words) == (0, ""), words
    stopped.start()
    for words in (
        ["export", "timeline_message"],
        ["export", "timeline_message", "--format", "parquet"],
        ["partition", "list", "--url", stopped.origin],
        ["history", "room/1"],
        ["timelines"],
        ["call", "ping"],
    ):
        assert unread(stopped, *words) == (0, ""), words


def test_what_changes_or_judges_something_does_it_though_nobody_reads(stopped):
    assert unread(stopped, "partition", "split", stopped.data, "0") == (0, "")
    listed = subprocess.run([stopped.binary, "partition", "list", stopped.data], capture_output=True, text=True, timeout=60)
    assert len(listed.stdout.splitlines()) == 2
    assert unread(stopped, "key", "create", "shop", "--allow", "*=read", "--data", stopped.data) == (0, "")
    keys = subprocess.run([stopped.binary, "key", "list", "--data", stopped.data], capture_output=True, text=True, timeout=60)
    assert json.loads(keys.stdout)["name"] == "shop"
    images = [os.path.join(folder, name) for folder, _, names in os.walk(stopped.data) for name in names if name == "data.mdb"]
    os.truncate(images[0], 0)
    code, why = unread(stopped, "verify", stopped.data)
    assert code == 1 and why


def test_a_key_that_nobody_was_shown_is_a_failure(stopped):
    with open("/dev/full", "w") as full:
        command = [stopped.binary, "key", "create", "shop", "--allow", "*=read", "--data", stopped.data]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "space" in done.stderr


def test_every_command_names_a_server_alike(own_server):
    server = own_server.start()
    with Client(server) as client:
        client.append("room/1", {"text": "a"})
    address = f"127.0.0.1:{server.port}"
    for words in (["history", "room/1"], ["export", "timeline_meta"], ["partition", "list"], ["call", "ping"]):
        for option in ("--url", "--server"):
            for url in (address, f"http://{address}", f"ws://{address}/", f"http://{address}/v1/rpc", f"ws://{address}/v1/connect"):
                command = [server.binary, *words, option, url]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, (command, done.stderr)
        for wrong in ("ftp://host", "http://ann:secret@host", "http://host:99999"):
            done = subprocess.run([server.binary, *words, "--url", wrong], capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and "--url" in done.stderr, done
    # Commands that have a server of their own if none is named take the one of the environment.
    for words in (["history", "room/1"], ["export", "timeline_meta"]):
        assert subprocess.run([server.binary, *words], capture_output=True, timeout=60, env=environment(server)).returncode == 0


def test_free_space_is_what_a_user_can_use(own_server):
    server = own_server.start()

    def free():
        disk = os.statvfs(server.data)
        return disk.f_bavail * disk.f_frsize

    with Client(server) as client:
        before, said, after = free(), client.call("server.status")["storage"]["disk_free"], free()
    slack = 1 << 30  # others write meanwhile
    assert min(before, after) - slack <= said <= max(before, after) + slack
    disk = os.statvfs(server.data)
    doctor = subprocess.run([server.binary, "doctor", server.data, "--json"], capture_output=True, text=True, timeout=60)
    (room,) = [finding for finding in json.loads(doctor.stdout) if finding["check"] == "room"]
    assert abs(float(room["found"].split()[0]) * 2**30 - disk.f_bavail * disk.f_frsize) < slack
