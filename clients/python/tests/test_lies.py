"""Random frames, true ones and lies, against both stores: what is stored is always an unbroken range of what was true."""

import asyncio
import copy
import random

from tideline import MemoryStore, SqliteStore, wire
from tideline.errors import Lie
from tideline.following import Following

ROUNDS = 300


class Truth:
    """A timeline as a server has it, with all that it ever showed."""

    def __init__(self, rng):
        self.rng = rng
        self.epochs = 0
        self.shown = set()
        self.begin()

    def begin(self):
        self.epochs += 1
        self.epoch, self.messages, self.changes, self.floor = f"E{self.epochs}", [], 0, 1

    def show(self, sequence):
        message = copy.deepcopy(self.messages[sequence - 1])
        self.shown.add((self.epoch, wire.encode(message)))
        return message

    def move(self):
        """Appends, grows, edits, trims, or begins anew."""
        kind = self.rng.random()
        if kind < 0.6 or not self.messages:
            sequence = len(self.messages) + 1
            message = {"sequence": sequence, "timestamp": 1, "message_id": f"m{sequence}", "entry": {"n": self.epochs}}
            if self.rng.random() < 0.3:
                message |= {"open": True, "parts": 0}
            self.messages.append(message)
        elif kind < 0.75 and (growing := [one for one in self.messages if one.get("open")]):
            message = self.rng.choice(growing)
            for _ in range(self.rng.randint(1, 3)):
                text = message["entry"].get("text", "")
                message |= {"parts": message["parts"] + 1, "entry": message["entry"] | {"text": f"{text}{self.rng.random()} "}}
                self.show(message["sequence"])
        elif kind < 0.9:
            self.changes += 1
            message = self.rng.choice(self.messages)
            if message.pop("open", False):
                message.update(change=self.changes, outcome="done")
            else:
                message.update(change=self.changes, entry={"n": self.rng.random()})
        elif kind < 0.96:
            self.floor = max(self.floor, self.rng.randint(1, len(self.messages) + 1))
        else:
            self.begin()

    def grown(self, known):
        """The parts that a reader does not have who has this copy of a message."""
        message = self.messages[known["sequence"] - 1]
        skipped = len((known["entry"]).get("text", ""))
        text = message["entry"]["text"][skipped:]
        return {"sequence": known["sequence"], "from": known["parts"] + 1, "parts": message["parts"], "text": text}

    def grows(self, known):
        return bool(known.get("open") and self.messages[known["sequence"] - 1].get("open")) and (
            known["parts"] < self.messages[known["sequence"] - 1]["parts"]
        )

    def reply(self, params, stored):
        """The true answer to a subscribe."""
        after, head = params["after"], len(self.messages)
        base = {"timeline": "t", "epoch": self.epoch, "floor": self.floor, "head": head, "change_head": self.changes}
        if params.get("epoch") not in (None, self.epoch) or after > head:
            return base | {"messages": [], "more": False, "state": "epoch_changed"}
        start = max(after + 1, self.floor)
        changed = [one for one in self.messages[: start - 1] if one.get("change", 0) > params["changes_after"]]
        grown = [one for one in stored if str(one["sequence"]) in params.get("open", {}) and one["sequence"] >= self.floor]
        return base | {
            "grown": [self.grown(one) for one in grown if self.grows(one)],
            "messages": [self.show(sequence) for sequence in range(start, head + 1)],
            "changed": [self.show(one["sequence"]) for one in sorted(changed, key=lambda one: one["change"])],
            "more": False,
            "state": "ok" if after + 1 >= self.floor else "too_old",
        }


def spoil(rng, frame, has_place):
    """A lie in its form: something is missing, of a wrong type, of another epoch, out of order, or repeated."""
    frame, true_epoch = copy.deepcopy(frame), frame["epoch"]
    messages = frame.get("messages") or []
    kind = rng.randrange(6)
    if kind == 0:
        del frame[rng.choice(list(frame))]
    elif kind == 1:
        # A text in place of another is no lie in its form.
        wrong = [None, -1, 1.5, [], {}, True, [None], 2**70] + ([] if "text" in frame else ["", "nonsense"])
        frame[rng.choice(list(frame))] = rng.choice(wrong)
    elif kind == 2:
        frame["epoch"] = "E0"
    elif kind == 3 and len(messages) > 1:
        del messages[rng.randrange(len(messages) - 1)]
    elif kind == 4:
        rng.shuffle(messages)
    elif messages:
        messages += messages[: rng.randrange(len(messages)) + 1]
    if not has_place and "epoch" in frame:
        # The first epoch that is heard of is believed.
        frame["epoch"] = true_epoch
    return frame


def check(store, truth):
    place = store.place("t")
    if place is None:
        assert store.messages("t") == []
        return
    stored = store.messages("t")
    assert [one["sequence"] for one in stored] == list(range(place.first, place.position + 1))
    for message in stored:
        assert (place.epoch, wire.encode(message)) in truth.shown


async def live(seed, tmp_path):
    rng = random.Random(seed)
    stores = [MemoryStore(), SqliteStore(tmp_path / f"{seed}.db")]
    told = []
    for store in stores:
        rng.seed(seed)
        truth = Truth(rng)
        asked = []
        following = Following(store, lambda: "device", lambda: 0.0)
        followed = following.follow("t", {"with": ["parts"]})
        online = False
        for _ in range(ROUNDS):
            if rng.random() < 0.3:
                truth.move()
            if not online or rng.random() < 0.05:
                following.disconnected()
                asked.clear()
                following.connected(lambda method, params, answered: asked.append((method, params, answered)))
                online = True
            before = (store.place("t"), store.messages("t"))
            frame = None
            try:
                if asked:
                    method, params, answered = asked.pop(0)
                    frame = truth.reply(params, before[1]) if method == "subscribe" else {}
                    answered({"result": spoil(rng, frame, before[0] is not None) if frame and rng.random() < 0.4 else frame})
                elif rng.random() < 0.4 and before[0] and before[0].epoch == truth.epoch and any(map(truth.grows, before[1])):
                    frame = {"timeline": "t", "epoch": truth.epoch} | truth.grown(next(filter(truth.grows, before[1])))
                    following.pushed("message.extended", spoil(rng, frame, True) if rng.random() < 0.4 else frame)
                elif truth.messages:
                    first = rng.randint(1, len(truth.messages))
                    shown = [truth.show(sequence) for sequence in range(first, len(truth.messages) + 1)]
                    method = rng.choice(["message", "message.changed"])
                    frame = {"timeline": "t", "epoch": truth.epoch, "messages": shown}
                    frame["head" if method == "message" else "change_head"] = truth.changes
                    following.pushed(method, spoil(rng, frame, before[0] is not None) if rng.random() < 0.4 else frame)
            except Lie:
                assert (store.place("t"), store.messages("t")) == before, "something of the frame was applied"
                online = False
            check(store, truth)
        told.append([(event.kind, event.message) for event in followed.subscription._events])
        # The app gets each message once of each history, in order.
        last, count, grown = 0, 0, 0
        for kind, message in told[-1]:
            if kind in ("reset", "too_old"):
                last = None
            elif kind == "message":
                assert last is None or message["sequence"] == last + 1
                last, count = message["sequence"], count + 1
            grown += kind == "extended"
        assert count > 10 and grown > 0
        assert store.open_messages("t") == {one["sequence"]: one["parts"] for one in store.messages("t") if one.get("open")}
    assert told[0] == told[1] and stores[0].messages("t") == stores[1].messages("t")
    assert stores[0].place("t") == stores[1].place("t")
    stores[1].close()


def test_lies_never_make_a_store_wrong(tmp_path):
    for seed in range(4):
        asyncio.run(live(seed, tmp_path))
