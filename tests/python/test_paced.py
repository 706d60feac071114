"""PROTOCOL.md: what is pushed at most once a second (reactions, receipts, members, presence) is held back and never kept back: after
bursts, and then silence, readers have been told of all there is.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import Client

TIMELINES = [f"t{number}" for number in range(20)]
USERS = [f"u{number}" for number in range(4)]
BURSTS = 4
MESSAGES = 100


@pytest.fixture
def house(own_server):
    own_server.start()
    with Client(own_server) as client:
        for timeline in TIMELINES:
            client.append(timeline)
            client.call("member.add", timeline=timeline, members=[{"user": user} for user in USERS])
        yield own_server, client


class Reader:
    """One connection that subscribes to all timelines, and what it was told of each last."""

    def __init__(self, server, lane=None):
        self.client = Client(server, user="reader")
        self.told = {timeline: {} for timeline in TIMELINES}
        for timeline in TIMELINES:
            self.client.call("subscribe", timeline=timeline, **({"with": [lane]} if lane else {}))

    def hears(self, take, truth):
        """Takes pushes until all that was told is the truth; says where it is not."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                while True:
                    push = self.client.pushes.popleft() if self.client.pushes else self.client.receive(0.3)
                    take(self.told[push["params"]["timeline"]], push)
            except TimeoutError:
                wrong = [(timeline, self.told[timeline], truth(timeline)) for timeline in TIMELINES]
                wrong = [one for one in wrong if one[1] != one[2]]
                if not wrong:
                    return []
        return wrong


def bursts(server, step):
    """Each user calls step(client, its name, a number), each time more than a second long, with pauses of various lengths."""

    def run(user):
        with Client(server, user=user) as client:
            number = 0
            for burst in range(BURSTS):
                ends = time.monotonic() + 1.2
                while time.monotonic() < ends:
                    asked = []
                    for _ in range(len(TIMELINES)):
                        number += 1
                        asked.append(step(client, user, number))
                    for one in asked:
                        client.take(one)
                time.sleep(0.3 + 0.2 * burst)

    with ThreadPoolExecutor(len(USERS)) as threads:
        list(threads.map(run, USERS))


def nth(number):
    return TIMELINES[number % len(TIMELINES)]


def test_reactions_of_a_burst_are_all_pushed(house):
    server, client = house
    reader = Reader(server)

    def react(client, user, number):
        method = "reaction.add" if number // len(TIMELINES) % 3 < 2 else "reaction.remove"
        return client.ask(method, timeline=nth(number), sequence=1, reaction=f"r{number // len(TIMELINES) % 5}")

    def take(told, push):
        if push["method"] == "reaction":
            told["reactions"] = push["params"]["messages"][-1]["reactions"]

    bursts(server, react)
    assert reader.hears(take, lambda timeline: client.call("reaction.list", timeline=timeline, sequence=1)) == []


def test_receipts_of_a_burst_are_all_pushed(house):
    server, client = house
    for timeline in TIMELINES:
        client.fill(timeline, MESSAGES)
    reader = Reader(server, "receipts")

    def read(client, user, number):
        return client.ask("read.set", timeline=nth(number), read=1 + number // len(TIMELINES) % MESSAGES, force=True)

    def take(told, push):
        if push["method"] == "receipt":
            told.update({one["user"]: one["read"] for one in push["params"]["receipts"]})

    def truth(timeline):
        members = client.call("member.list", timeline=timeline)["members"]
        return {one["user"]: one["read"] for one in members}

    bursts(server, read)
    assert reader.hears(take, truth) == []


def test_members_of_a_burst_are_all_pushed(house):
    server, client = house
    reader = Reader(server, "members")

    def change(client, user, number):
        return client.ask("member.update", timeline=nth(number), user=user, attributes={"set": {"n": number}})

    def take(told, push):
        if push["method"] == "member.changed":
            told.update({one["user"]: one["attributes"] for one in push["params"]["members"]})

    def truth(timeline):
        members = client.call("member.list", timeline=timeline)["members"]
        return {one["user"]: one["attributes"] for one in members}

    bursts(server, change)
    assert reader.hears(take, truth) == []


def test_presence_of_a_burst_is_all_pushed(house):
    server, client = house
    reader = Reader(server, "presence")
    for told in reader.told.values():
        told["reader"] = True

    def come_and_go(client, user, number):
        method = "unsubscribe" if (number - 1) // len(TIMELINES) % 2 else "subscribe"
        return client.ask(method, timeline=nth(number))

    def take(told, push):
        if push["method"] == "presence":
            told.update({user: True for user in push["params"].get("joined", [])})
            for user in push["params"].get("left", []):
                told.pop(user, None)

    bursts(server, come_and_go)
    # All have closed: five seconds later only the reader is there.
    assert reader.hears(take, lambda timeline: {"reader": True}) == []
