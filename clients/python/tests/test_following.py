"""What is asked when the subscription of one conversation ends, and the others go on."""

import asyncio

from tideline import MemoryStore
from tideline.errors import Refused
from tideline.following import Following

HAS = {"epoch": "E1", "floor": 1, "change_head": 0, "more": False, "state": "ok"}


def message(sequence):
    return {"sequence": sequence, "timestamp": 1, "message_id": f"m{sequence}", "entry": {}}


class Asked:
    """A server that says nothing by itself."""

    def __init__(self, delay=0.001):
        self.requests, self.store = [], MemoryStore()
        self.following = Following(self.store, lambda: "device", lambda: delay)
        self.connects()

    def connects(self):
        self.following.connected(lambda method, params, answered: self.requests.append((method, params, answered)))

    def follow_all(self):
        followed = self.following.follow(None, {"rewind": 20, "with": ["signals"]})
        _, _, answered = self.requests.pop()
        first = HAS | {"head": 1, "messages": [message(1)]}
        answered({"result": {"timelines": {"a": first, "b": first}, "more": False}})
        return followed

    def ends(self, reason, timeline="a"):
        ended = {"timeline": timeline, "epoch": "E1", "reason": reason, "resubscribe": True}
        self.following.pushed("subscription.ended", ended)


def kinds(followed):
    return [(event.kind, event.timeline) for event in followed.subscription._events]


def test_one_conversation_is_taken_up_again_from_its_place():
    async def run():
        server = Asked()
        followed = server.follow_all()
        server.ends("unavailable")
        ((method, params, answered),) = server.requests
        place = {"after": 1, "epoch": "E1", "changes_after": 0}
        assert (method, params) == ("subscribe", {"timeline": "a", "with": ["signals"], "create": False} | place)
        # The others have gone on.
        push = {"epoch": "E1", "messages": [message(2)], "head": 2}
        server.following.pushed("message", push | {"timeline": "b"})
        answered({"result": HAS | {"head": 2, "messages": [message(2)]}})
        assert kinds(followed)[-2:] == [("message", "b"), ("message", "a")]
        assert "ended" not in dict(kinds(followed))

    asyncio.run(run())


def test_what_is_refused_for_now_is_asked_again_and_for_good_is_told():
    async def run():
        server = Asked()
        followed = server.follow_all()
        server.ends("unavailable")
        server.requests.pop()[2]({"error": Refused(503, "busy", {"reason": "busy", "retry": True})})
        assert server.requests == []
        await asyncio.sleep(0.05)
        server.requests.pop()[2]({"error": Refused(404, "gone", {"reason": "timeline_not_found", "retry": False})})
        assert kinds(followed)[-1] == ("ended", "a")
        assert None in server.following._followed

    asyncio.run(run())


def test_a_refused_subscribe_is_repeated_when_the_server_says():
    async def run():
        server = Asked(delay=60)
        busy = Refused(503, "busy", {"reason": "busy", "retry": True, "retry_after_ms": 1})
        for timeline in ("a", None):
            server.following.follow(timeline, {})
            server.requests.pop()[2]({"error": busy})
            await asyncio.sleep(0.05)
            assert server.requests[-1][0] == "subscribe"

    asyncio.run(run())
