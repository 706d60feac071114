"""Another number of partitions for a directory that is there: nothing of it changes for clients, whatever ends when."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest

from client import Client
from server import CHANGE_PATIENCE, Server

ROOMS = [f"room-{n}" for n in range(12)]
USERS = ["ann", "ben", "cay", "dan"]


def run(server, *words):
    ended = subprocess.run([server.binary, *map(str, words)], capture_output=True, text=True, timeout=CHANGE_PATIENCE)
    assert "panicked" not in ended.stderr
    return ended


def dumped(server):
    """All lines but how far the relay is, which partitions have of their own."""
    ended = run(server, "dump", server.data)
    assert ended.returncode == 0, ended.stderr
    return sorted(line for line in ended.stdout.splitlines() if "relay" not in json.loads(line))


def verified(server):
    ended = run(server, "verify", server.data)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def numbers(server):
    listed = run(server, "partition", "list", server.data)
    assert listed.returncode == 0, listed.stderr
    return [int(number) for number in re.findall(r"^partition (\d+): ", listed.stdout, re.M)]


def fill(server):
    with Client(server, user="ann") as client:
        for at, room in enumerate(ROOMS):
            users = [user for n, user in enumerate(USERS) if (n + at) % 3]
            client.call("timeline.create", timeline=room, settings={"fan_out": "write"}, meta={"at": at})
            client.call("member.add", timeline=room, members=[{"user": user} for user in users])
            for number in range(1 + at):
                client.call("message.append", timeline=room, entry={"n": number}, message_id=f"{room}-{number}")
            client.call("reaction.add", timeline=room, sequence=1, reaction="+1")


class People:
    """What each user's device knows, as a client would keep it."""

    def __init__(self):
        self.cursors, self.epochs = {}, {}

    def learn(self, server):
        deadline = time.monotonic() + 60
        for user in USERS:
            mine = [at for at in range(len(ROOMS)) if (USERS.index(user) + at) % 3]
            with Client(server, user=user) as client:
                while True:
                    # Lists and inboxes come a moment later than what they are made of.
                    inbox = client.call("message.range", timeline=f"$inbox/{user}", limit=1000)["messages"]
                    answer = client.call("conversation.sync", limit=1000)
                    if len(answer["conversations"]) == len(mine) and len(inbox) == sum(1 + at for at in mine):
                        break
                    assert time.monotonic() < deadline
                assert answer["done"]
                self.cursors[user] = answer["cursor"]
        with Client(server) as client:
            for room in ROOMS:
                self.epochs[room] = client.call("timeline.get", timeline=room)["epoch"]

    def check(self, server):
        """Nothing is new to them, and what comes now is."""
        for user in USERS:
            with Client(server, user=user) as client:
                answer = client.call("conversation.sync", limit=1000, cursor=self.cursors[user])
                assert answer["conversations"] == [] and not answer.get("reset"), (user, answer)
                inbox = client.call("message.range", timeline=f"$inbox/{user}", limit=1000)["messages"]
                mine = [at for at in range(len(ROOMS)) if (USERS.index(user) + at) % 3]
                assert len(inbox) >= sum(1 + at for at in mine)
        with Client(server, user="ann") as client:
            for at, room in enumerate(ROOMS):
                shown = client.call("timeline.get", timeline=room, epoch=self.epochs[room])
                assert shown["epoch"] == self.epochs[room]
                again = client.call("message.append", timeline=room, entry={"n": 0}, message_id=f"{room}-0")
                assert again["duplicate"] and again["sequence"] == 1


def add(server, text):
    """A message into each room, and it reaches lists and inboxes."""
    with Client(server, user="ann") as client:
        heads = {
            room: client.call("message.append", timeline=room, entry={"text": text})["sequence"] for room in ROOMS
        }
    deadline = time.monotonic() + 60
    for user in USERS:
        with Client(server, user=user) as client:
            mine = {room for at, room in enumerate(ROOMS) if (USERS.index(user) + at) % 3}
            while True:
                inbox = client.call("message.range", timeline=f"$inbox/{user}", limit=1000)["messages"]
                last = {one["entry"]["timeline"]: one["entry"]["sequence"] for one in inbox}
                if last == {room: heads[room] for room in mine}:
                    break
                assert time.monotonic() < deadline
                time.sleep(0.02)


def test_the_number_of_partitions_can_change(own_server):
    own_server.start()
    fill(own_server)
    people = People()
    people.learn(own_server)
    own_server.stop()
    before = dumped(own_server)
    for partitions in [2, 3, 1, 4]:
        own_server.config = f"partitions = {partitions}\n"
        own_server.start()
        people.check(own_server)
        own_server.stop()
        assert len(numbers(own_server)) == partitions
        assert dumped(own_server) == before
        verified(own_server)
    own_server.config = None
    own_server.start()
    people.check(own_server)
    add(own_server, "after all")
    own_server.stop()
    verified(own_server)


def test_split_and_merge_by_hand(own_server):
    own_server.start()
    fill(own_server)
    people = People()
    people.learn(own_server)
    line = run(own_server, "partition", "split", own_server.data, "0").stderr
    assert "another process" in line
    own_server.kill()
    told = run(own_server, "partition", "split", own_server.data, "0")
    assert told.returncode == 0, told.stderr
    assert "1 partition ends; about" in told.stdout
    assert numbers(own_server) == [1, 2]
    before = dumped(own_server)
    assert run(own_server, "partition", "split", own_server.data, "2").returncode == 0
    assert run(own_server, "partition", "merge", own_server.data, "3", "1").returncode == 0
    assert numbers(own_server) == [4, 5]
    assert dumped(own_server) == before
    for words, why in [(("split", "2"), "no partition 2"), (("merge", "4", "4"), "not neighbours")]:
        refused = run(own_server, "partition", words[0], own_server.data, *words[1:])
        assert refused.returncode == 1 and why in refused.stderr
    missing = run(own_server, "partition", "list", own_server.data + "-not")
    assert missing.returncode == 1 and "it has no directory.toml" in missing.stderr
    own_server.start()
    people.check(own_server)
    own_server.stop()
    verified(own_server)


def manifest(server):
    with open(os.path.join(server.data, "directory.toml")) as file:
        return file.read()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A stopped server's directory, what its users know, and its dump. Not to be changed."""
    running = Server(tmp_path_factory.mktemp("filled")).start()
    fill(running)
    people = People()
    people.learn(running)
    running.stop()
    return running, people, dumped(running)


PIECES = ["directory.toml.new", "partition-0001/log", "partition-0001/image", "partition-0002", "partition-0003/image"]


@pytest.mark.parametrize("piece", [*PIECES, None])
def test_a_kill_while_the_number_changes(filled, tmp_path, piece):
    """At any moment the directory has the partitions of before or those of after, whole. Killed once this is there."""
    original, people, before = filled
    copy = Server(tmp_path, config="partitions = 3\n")
    shutil.copytree(original.data, copy.data)
    command = [copy.binary, "serve", "--data", copy.data, "--listen", f"127.0.0.1:{copy.port}", "--partitions", "3"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while "number = 3" not in manifest(copy) and not (piece and os.path.exists(os.path.join(copy.data, piece))):
            assert time.monotonic() < deadline and process.poll() is None
    finally:
        process.kill()
        process.wait()
    left = len(numbers(copy))
    assert left == 3 if piece is None else left in (1, 3)
    verified(copy)
    assert dumped(copy) == before
    copy.start()
    try:
        people.check(copy)
    finally:
        assert copy.stop() == 0
    assert len(numbers(copy)) == 3 and not os.path.exists(os.path.join(copy.data, "directory.toml.new"))
    assert dumped(copy) == before
    verified(copy)


@pytest.mark.parametrize("partitions", ["65", "-1", "x"])
def test_a_number_that_is_none_is_refused(own_server, partitions):
    refused = run(own_server, "serve", "--data", own_server.data, "--partitions", partitions)
    assert refused.returncode != 0 and not os.path.exists(own_server.data)
