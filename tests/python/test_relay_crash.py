"""The relay under `kill -9`: the real process ends at each of its named points, and lists and inboxes are right all the same.

Needs a binary with the feature `faults` (tests/suites/protocol.rs says whether it is one). The controls break a promise of the
relay and must be noticed.
"""

import contextlib
import os
import subprocess
import time

import pytest
from websockets.exceptions import WebSocketException

from client import PATIENCE, Client
from server import Server

pytestmark = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")

USERS = ["ann", "ben", "cay", "dan", "eve"]
ROOMS = [f"room-{n}" for n in range(6)]


class Model:
    """What is asked of the server, step by step, and what must come of it. Each step may be repeated."""

    def __init__(self):
        self.members = {room: [] for room in ROOMS}
        self.posts = {room: 0 for room in ROOMS}
        self.inboxes = {user: [] for user in USERS}

    def steps(self):
        for turn in range(4):
            for at, room in enumerate(ROOMS):
                if turn == 0:
                    yield "timeline.create", {"timeline": room, "settings": {"fan_out": "write"}}
                joining = [user for n, user in enumerate(USERS) if (n + at + turn) % 3 != 0]
                leaving = [user for user in USERS if user not in joining]
                yield "member.add", {"timeline": room, "members": [{"user": user} for user in joining]}
                yield "member.remove", {"timeline": room, "users": leaving}
                self.members[room] = joining
                self.posts[room] += 1
                message_id = f"{room}-{self.posts[room]}"
                yield "message.append", {"timeline": room, "entry": {"n": turn}, "message_id": message_id}
                for user in joining:
                    self.inboxes[user].append((room, self.posts[room]))

    def list(self, user):
        return sorted(room for room in ROOMS if user in self.members[room])


def found(server, model, patience=PATIENCE):
    """Each user's list and inbox, as they are once the relay has got there, and what `verify` says."""
    lists, inboxes = {}, {}
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        clients = {user: stack.enter_context(Client(server, user=user)) for user in USERS}
        for user, client in clients.items():
            # After a change of members lists wait for everything before it; this one changes nothing.
            for room in ROOMS:
                client.call("member.remove", timeline=room, users=["nobody"])
            shown = client.call("conversation.list", limit=1000)["conversations"]
            lists[user] = sorted(one["timeline"] for one in shown)
        for user, client in clients.items():
            while len(inbox(client, user)) < len(model.inboxes[user]) and time.monotonic() < deadline:
                time.sleep(0.02)
        time.sleep(0.2)
        for user, client in clients.items():
            inboxes[user] = inbox(client, user)
    assert server.stop() == 0
    ended = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True, timeout=60)
    return lists, inboxes, [line for line in ended.stdout.splitlines() if line.startswith("PROBLEM")]


def inbox(client, user):
    page = client.call("message.range", timeline=f"$inbox/{user}", limit=1000)["messages"]
    return sorted((one["entry"]["timeline"], one["entry"]["sequence"]) for one in page)


def live(directory, faults, always=""):
    """Lives the model's steps with a process that ends by each of `faults` in turn. Gives the model, what was found, and how
    often the process ended."""
    server = Server(directory, config="partitions = 2\n")
    model, ends = Model(), 0
    faults = list(faults)

    def start():
        nonlocal ends
        fault = faults.pop(0) if faults else ""
        server.environment = {"TIDELINE_FAULT": ",".join(part for part in (fault, always) if part)}
        try:
            server.start()
        except RuntimeError:
            ends += 1
            assert server.process.poll() == -6, server.log()
            start()

    start()
    try:
        client = None
        for method, params in model.steps():
            while True:
                try:
                    client = client or Client(server)
                    client.call(method, **params)
                    break
                except (WebSocketException, OSError):
                    ends += 1
                    assert server.process.wait(60) == -6, server.log()
                    client = None
                    start()
        server.kill()
        server.environment = {"TIDELINE_FAULT": always}
        server.start()
        # What loses on purpose is not waited for.
        return model, found(server, model, 3 if "relay_cursor_first" in always else PATIENCE), ends
    finally:
        server.kill()


def assert_right(model, seen):
    lists, inboxes, problems = seen
    assert problems == []
    for user in USERS:
        assert lists[user] == model.list(user), user
        assert inboxes[user] == sorted(model.inboxes[user]), user


@pytest.mark.parametrize("point", ["read", "derived", "submitted", "answered", "held"])
def test_lists_and_inboxes_are_right_wherever_the_process_ends(tmp_path, point):
    model, seen, ends = live(tmp_path, [f"relay_{point}:{count}" for count in (1, 3, 9, 14)])
    assert_right(model, seen)
    assert ends >= 3, "the process hardly ever ended there"


def test_lists_are_right_when_the_process_ends_while_they_are_made_anew(tmp_path):
    model, seen, _ = live(tmp_path, [])
    server = Server(tmp_path, config="partitions = 2\n", environment={"TIDELINE_FAULT": "relay_anew"})
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            server.start()
        assert server.process.wait(60) == -6, server.log()
    server.environment = {}
    server.start()
    try:
        lists, _, problems = found(server, model)
    finally:
        server.kill()
    assert (lists, problems) == ({user: model.list(user) for user in USERS}, [])


def test_writes_that_are_sent_twice_count_once(tmp_path):
    model, seen, ends = live(tmp_path, ["relay_answered:5", "relay_submitted:9"], always="relay_twice")
    assert_right(model, seen)
    assert ends == 2


def test_control_a_cursor_that_moves_in_a_batch_before_the_write_loses(tmp_path):
    """By a kill between the two."""
    faults = ["relay_submitted:3", "relay_submitted:5", "relay_submitted:9"]
    model, (lists, inboxes, problems), ends = live(tmp_path, faults, always="relay_cursor_first")
    lost = [user for user in USERS if set(model.list(user)) - set(lists[user]) or set(model.inboxes[user]) - set(inboxes[user])]
    assert lost or problems
    assert ends == 3


def test_control_without_the_check_against_the_cursor_what_is_sent_twice_counts_twice(tmp_path):
    _, (_, inboxes, _), _ = live(tmp_path, [], always="relay_twice,relay_no_check")
    assert any(len(entries) > len(set(entries)) for entries in inboxes.values())
