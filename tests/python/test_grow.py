"""PROTOCOL.md, slice 4: messages that grow, part by part, and their readers."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed

from client import PATIENCE, Client, Refused, until
from test_backup import BackedUp, restored
from test_events import Stream
from test_partitions_served import change, numbers


def open_message(client, timeline, open=True, entry=None, **params):
    told = client.call("message.append", timeline=timeline, entry=entry or {"kind": "answer"}, open=open, **params)
    assert told["parts"] == 0 and not told["duplicate"]
    return told["sequence"]


def extend(client, timeline, sequence, part, text):
    return client.call("message.extend", timeline=timeline, sequence=sequence, part=part, text=text)


def grow(client, timeline, sequence, texts, start=1):
    for part, text in enumerate(texts, start):
        assert extend(client, timeline, sequence, part, text) == {"parts": part, "duplicate": False}


def finish(client, timeline, sequence, parts, **params):
    return client.call("message.finish", timeline=timeline, sequence=sequence, parts=parts, **params)


def stop(client, timeline, sequence, **params):
    return client.call("message.stop", timeline=timeline, sequence=sequence, **params)["message"]


def get(client, timeline, sequence):
    return client.call("message.get", timeline=timeline, sequence=sequence)["message"]


def refusal(call, *args, **params):
    with pytest.raises(Refused) as caught:
        call(*args, **params)
    return caught.value


def is_sound(server):
    said = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


# The writer


@pytest.mark.parametrize("packed", [False, True])
def test_a_message_grows_and_is_closed_with_its_whole_text(server, name, packed):
    with Client(server, packed=packed, user="ann") as ann:
        sequence = open_message(ann, name)
        message = get(ann, name, sequence)
        assert message["open"] is True and message["parts"] == 0 and message["entry"] == {"kind": "answer"}
        grow(ann, name, sequence, ["Hel", "lo ", "wörld\n", "\"\x01"])
        message = get(ann, name, sequence)
        assert message["entry"]["text"] == "Hello wörld\n\"\x01" and message["parts"] == 4 and message["open"]
        assert ann.call("message.range", timeline=name)["messages"] == [message]
        only = ann.call("message.range", timeline=name, columns=["kind"])["messages"][0]
        assert only["entry"] == {"kind": "answer"} and only["parts"] == 4
        assert "change" not in message
        told = finish(ann, name, sequence, 4, set={"usage": 17})
        closed = told["message"]
        assert not told["duplicate"] and closed["outcome"] == "done" and "open" not in closed and closed["change"] == 1
        assert closed["entry"] == {"kind": "answer", "text": "Hello wörld\n\"\x01", "usage": 17} and closed["parts"] == 4
        assert "edited_at" not in closed and get(ann, name, sequence) == closed
        assert finish(ann, name, sequence, 4) == {"message": closed, "duplicate": True}
        # From now on it is a message like any other.
        edited = ann.call("message.update", timeline=name, sequence=sequence, set={"text": "short"})["message"]
        assert edited["entry"]["text"] == "short" and edited["change"] == 2 and edited["outcome"] == "done"


def test_parts_are_taken_once_and_in_turn(ann, name):
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a", "b"])
    for part, text in [(1, "a"), (2, "b"), (1, "a")]:
        assert extend(ann, name, sequence, part, text) == {"parts": 2, "duplicate": True}
    for part in (1, 2):
        other = refusal(extend, ann, name, sequence, part, "c")
        assert (other.code, other.reason, other.data["actual"]) == (409, "part_conflict", 2)
    early = refusal(extend, ann, name, sequence, 4, "d")
    assert (early.code, early.reason, early.data["actual"]) == (409, "condition_failed", 2)
    wrong = refusal(finish, ann, name, sequence, 3)
    assert (wrong.reason, wrong.data["actual"]) == ("condition_failed", 2)
    assert get(ann, name, sequence)["entry"]["text"] == "ab"
    closed = finish(ann, name, sequence, 2, outcome="failed")["message"]
    assert closed["outcome"] == "failed" and "abandoned" not in closed
    late = refusal(extend, ann, name, sequence, 3, "c")
    assert (late.code, late.reason, late.data["outcome"], late.data["parts"]) == (409, "message_closed", "failed", 2)
    assert "stopped_by" not in late.data and not late.data["retry"]
    assert refusal(finish, ann, name, sequence, 2, outcome="done").reason == "message_closed"


def test_several_parts_of_one_connection_go_in_order(ann, name):
    sequence = open_message(ann, name)
    asked = [
        ann.ask("message.extend", timeline=name, sequence=sequence, part=part, text=f"{part},") for part in range(1, 201)
    ]
    asked.append(ann.ask("message.finish", timeline=name, sequence=sequence, parts=200))
    for number in asked[:-1]:
        assert not ann.take(number)["duplicate"]
    text = "".join(f"{part}," for part in range(1, 201))
    assert ann.take(asked[-1])["message"]["entry"]["text"] == text


def test_whoever_may_append_stops_it_and_the_writer_learns_it(ann, ben, name):
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["one "])
    for call in (lambda: extend(ben, name, sequence, 2, "x"), lambda: finish(ben, name, sequence, 1)):
        assert refusal(call).reason == "forbidden"
    stopped = stop(ben, name, sequence, reason="too long")
    assert (stopped["outcome"], stopped["stopped_by"], stopped["reason"]) == ("cancelled", "ben", "too long")
    assert stopped["entry"]["text"] == "one "
    late = refusal(extend, ann, name, sequence, 2, "two")
    assert late.reason == "message_closed" and late.data["stopped_by"] == "ben" and late.data["outcome"] == "cancelled"
    # What is so already is no error.
    assert stop(ann, name, sequence) == stopped
    assert refusal(finish, ann, name, sequence, 1, outcome="cancelled").reason == "message_closed"


def test_settings_leave_the_stop_to_its_sender(ann, ben, client, name):
    client.call("timeline.create", timeline=name, settings={"stop": "sender"})
    assert client.call("timeline.get", timeline=name)["settings"]["stop"] == "sender"
    sequence = open_message(ann, name)
    assert refusal(stop, ben, name, sequence).reason == "forbidden"
    assert stop(ann, name, sequence)["stopped_by"] == "ann"
    client.call("timeline.configure", timeline=name, settings={"stop": None})
    assert stop(ben, name, open_message(ann, name))["stopped_by"] == "ben"


def test_a_back_end_may_go_on_in_its_name(ann, client, name):
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a"])
    grow(client, name, sequence, ["b"], start=2)
    assert finish(client, name, sequence, 2)["message"]["entry"]["text"] == "ab"


def test_how_it_is_opened(ann, name):
    body = {"open": {"column": "body", "idle_ms": 1000}, "entry": {"body": "> ", "text": 1}}
    sequence = open_message(ann, name, **body)
    grow(ann, name, sequence, ["x"])
    assert finish(ann, name, sequence, 1)["message"]["entry"] == {"body": "> x", "text": 1}
    many = [{"entry": {"n": 1}, "open": True, "message_id": "a"}, {"entry": {"n": 2}}, {"entry": {"n": 3}, "open": False}]
    told = ann.call("message.append_batch", timeline=name, messages=many)["messages"]
    assert [one.get("parts") for one in told] == [0, None, None]
    first = told[0]["sequence"]
    grow(ann, name, first, ["x", "y"])
    again = ann.call("message.append", timeline=name, entry={"n": 1}, open=True, message_id="a")
    assert again["duplicate"] and again["sequence"] == first and again["parts"] == 2
    fields = [
        ({"open": True, "entry": {"text": 5}}, "entry.text"),
        ({"open": {"column": "$x"}}, "open.column"),
        ({"open": {"column": ""}}, "open.column"),
        ({"open": {"idle_ms": 0}}, "open.idle_ms"),
        ({"open": {"idle_ms": 3_600_001}}, "open.idle_ms"),
        ({"open": True, "deliver_at": int(time.time() * 1000) + 9_000}, "open"),
    ]
    for params, field in fields:
        wrong = refusal(ann.append, name, **params)
        assert (wrong.code, wrong.data["field"]) == (-32602, field)
    for params in ({"part": 0, "text": "x"}, {"part": 1, "text": ""}, {"part": 1, "text": 5}, {"part": 1}):
        wrong = refusal(ann.call, "message.extend", timeline=name, sequence=first, **params)
        assert wrong.code == -32602
    # Half a surrogate is no text.
    ann.send('{"jsonrpc":"2.0","id":7777,"method":"message.extend","params":'
             f'{{"timeline":"{name}","sequence":{first},"part":3,"text":"\\ud83d"}}}}')
    reply = ann.receive()
    assert reply["error"]["code"] in (-32700, -32602)
    assert get(ann, name, first)["parts"] == 2


def test_a_reader_learns_which_column_grows(ann, other, name):
    other.call("subscribe", timeline=name, **{"with": ["parts"]})
    sequence = open_message(ann, name, open={"column": "body"}, entry={"body": "> ", "text": "title"})
    assert other.push("message")["messages"][0]["open"] == {"column": "body"}
    grow(ann, name, sequence, ["a", "b"])
    shown = get(other, name, sequence)
    assert shown["open"] == {"column": "body"} and shown["entry"] == {"body": "> ab", "text": "title"}
    assert ann.call("message.range", timeline=name)["messages"] == [shown]
    closed = finish(ann, name, sequence, 2)["message"]
    assert "open" not in closed and closed["entry"]["body"] == "> ab"
    # Also the usual one, if it is named.
    assert get(other, name, open_message(ann, name, open={"column": "text"}))["open"] is True


def test_what_does_not_grow(ann, name):
    plain = ann.append(name)["sequence"]
    closed = refusal(extend, ann, name, plain, 1, "x")
    assert closed.reason == "message_closed" and "outcome" not in closed.data
    assert refusal(stop, ann, name, plain).reason == "message_closed"
    assert refusal(extend, ann, name, 99, 1, "x").reason == "message_not_found"
    assert refusal(extend, ann, f"{name}-none", 1, 1, "x").reason == "timeline_not_found"
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["abc"])
    for params, field in [({"set": {"text": "x"}}, "set"), ({"remove": ["text"]}, "remove")]:
        wrong = refusal(ann.call, "message.update", timeline=name, sequence=sequence, **params)
        assert (wrong.code, wrong.data["field"]) == (-32602, field)
    edited = ann.call("message.update", timeline=name, sequence=sequence, set={"kind": "other"})["message"]
    assert edited["open"] and edited["parts"] == 1 and edited["entry"] == {"kind": "other", "text": "abc"}
    assert extend(ann, name, sequence, 1, "abc")["duplicate"]
    grow(ann, name, sequence, ["d"], start=2)
    ann.call("pin.add", timeline=name, sequence=sequence)
    grow(ann, name, sequence, ["e"], start=3)
    assert get(ann, name, sequence)["entry"]["text"] == "abcde"
    ann.call("message.recall", timeline=name, sequence=sequence)
    gone = get(ann, name, sequence)
    assert gone["deleted"] and "open" not in gone and "parts" not in gone
    for call in (lambda: extend(ann, name, sequence, 4, "x"), lambda: finish(ann, name, sequence, 3), lambda: stop(ann, name, sequence)):
        assert refusal(call).reason == "message_not_found"


def test_the_end_of_room(ann, name):
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["x" * 200_000])
    large = refusal(extend, ann, name, sequence, 2, "\n" * 40_000)
    assert (large.reason, large.data["limit"]) == ("too_large", 256 << 10)
    assert extend(ann, name, sequence, 2, "y")["parts"] == 2
    assert refusal(extend, ann, name, sequence, 3, "z" * 300_000).reason == "too_large"
    assert refusal(finish, ann, name, sequence, 2, set={"more": "z" * 90_000}).reason == "too_large"
    many = [{"entry": {"n": n}, "open": True} for n in range(100)]
    for _ in range(9):
        ann.call("message.append_batch", timeline=name, messages=many)
    ann.call("message.append_batch", timeline=name, messages=many[:99])
    full = refusal(open_message, ann, name)
    assert (full.code, full.reason, full.data["limit"], full.data["actual"]) == (413, "too_many", 1_000, 1_001)
    # Nothing half done: neither of these is appended.
    head = ann.call("timeline.get", timeline=name)["head"]
    assert refusal(ann.call, "message.append_batch", timeline=name, messages=[{"entry": {}}, many[0]]).reason == "too_many"
    assert ann.call("timeline.get", timeline=name)["head"] == head
    finish(ann, name, sequence, 2)
    first = open_message(ann, name)
    ann.call("timeline.trim", timeline=name, before=first)
    assert len([open_message(ann, name) for _ in range(5)]) == 5
    assert refusal(extend, ann, name, sequence, 3, "x").reason == "message_not_found"


# Its readers


class Copy:
    """What a client of `parts` has of a timeline: the text of each message, as it was told."""

    def __init__(self):
        self.text, self.parts, self.closed, self.pushes = {}, {}, {}, 0

    def message(self, message):
        sequence = message["sequence"]
        self.text[sequence] = (message.get("entry") or {}).get("text", "")
        self.parts.pop(sequence, None)
        if message.get("open"):
            assert message["parts"] >= 0
            self.parts[sequence] = message["parts"]
        else:
            self.closed[sequence] = message

    def grown(self, told):
        sequence = told["sequence"]
        assert sequence not in self.closed, "a part after the end"
        assert told["from"] == self.parts[sequence] + 1, ("a hole or a repeat", told, self.parts)
        assert told["parts"] >= told["from"]
        self.text[sequence] += told["text"]
        self.parts[sequence] = told["parts"]

    def reply(self, told):
        for message in told["messages"] + (told.get("changed") or []):
            self.message(message)
        for grown in told.get("grown", []):
            self.grown(grown)

    def take(self, push):
        if push["method"] in ("message", "message.changed"):
            for message in push["params"]["messages"]:
                self.message(message)
        elif push["method"] == "message.extended":
            self.pushes += 1
            self.grown(push["params"])

    def open(self):
        return {str(sequence): parts for sequence, parts in self.parts.items()}


def test_a_subscription_with_parts_gets_each_once(ann, other, ben, name):
    copy, plain = Copy(), Copy()
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a", "b"])
    reply = other.call("subscribe", timeline=name, after=0, changes_after=0, **{"with": ["parts"]})
    copy.reply(reply)
    assert copy.parts == {sequence: 2} and copy.text[sequence] == "ab"
    ben.call("subscribe", timeline=name, rewind=0, changes_after=0)
    grow(ann, name, sequence, ["c", "d"], start=3)
    while copy.parts.get(sequence) != 4:
        copy.take(other.push())
    assert copy.text[sequence] == "abcd"
    second = open_message(ann, name, entry={"text": "> "})
    grow(ann, name, second, ["x"])
    ann.call("message.update", timeline=name, sequence=sequence, set={"kind": "other"})
    grow(ann, name, sequence, ["e"], start=5)
    finish(ann, name, sequence, 5)
    ann.call("reaction.add", timeline=name, sequence=second, reaction="+1")
    grow(ann, name, second, ["y"], start=2)
    while sequence not in copy.closed or copy.parts.get(second) != 2:
        copy.take(other.push())
    assert copy.text == {sequence: "abcde", second: "> xy"}
    # Who did not ask for parts hears of the beginning and the end.
    while sequence not in plain.closed:
        plain.take(ben.push())
    assert plain.pushes == 0 and plain.text[sequence] == "abcde"
    other.call("unsubscribe", timeline=name)
    grow(ann, name, second, ["z"], start=3)
    assert [push for push in other.pushes if push["method"] == "message.extended"] == []


def test_a_push_says_what_the_protocol_says(ann, packed, name):
    packed.call("subscribe", timeline=name, **{"with": ["parts", "signals"]})
    epoch = ann.append(name, open=True)["epoch"]
    extend(ann, name, 1, 1, "tok")
    assert packed.push("message")["messages"][0]["open"] is True
    told = packed.push("message.extended")
    assert told == {"timeline": name, "epoch": epoch, "sequence": 1, "from": 1, "parts": 1, "text": "tok"}


def test_a_slow_reader_gets_several_at_once(ann, other, name):
    other.call("subscribe", timeline=name, **{"with": ["parts"]})
    sequence = open_message(ann, name)
    copy, texts = Copy(), [f"{part} {'x' * 300}\n" for part in range(1, 601)]
    asked = []
    for part, text in enumerate(texts, 1):
        asked.append(ann.ask("message.extend", timeline=name, sequence=sequence, part=part, text=text))
        if len(asked) == 100:
            for number in asked:
                ann.take(number)
            asked = []
    while copy.parts.get(sequence) != 600:
        copy.take(other.push())
    assert copy.text[sequence] == "".join(texts)


def test_what_many_have_grown_by_comes_in_frames_of_a_bounded_size(ann, other, name):
    names, text = [f"{name}-{n}" for n in range(20)], "x" * 200_000
    for one in names:
        grow(ann, one, open_message(ann, one), [text])
    place = {"after": 1, "changes_after": 0, "open": {"1": 0}}
    other.ask("subscribe", timelines={one: place for one in names}, **{"with": ["parts"]})
    grown = {}
    while len(grown) < len(names):
        frame = other.socket.recv(PATIENCE)
        # A page, and one text above it.
        assert len(frame) < (1 << 20) + 210_000
        said = json.loads(frame)
        for one, told in (said.get("result") or said["params"])["timelines"].items():
            grown |= {one: part["text"] for part in told["grown"]}
    assert grown == {one: text for one in names}


def parts_of(client, timeline, window_ms=None, **place):
    """Follows a timeline with parts that gather; what the client has of it, and its reply."""
    copy, window = Copy(), {} if window_ms is None else {"window_ms": window_ms}
    reply = client.call("subscribe", timeline=timeline, **place, **window, **{"with": ["parts"]})
    copy.reply(reply)
    return copy


def test_parts_gather_for_a_window_and_come_together(ann, other, ben, name):
    each, gathered = parts_of(other, name), parts_of(ben, name, 400)
    sequence = open_message(ann, name)
    texts = [f"{part} " for part in range(1, 61)]
    for part, text in enumerate(texts, 1):
        extend(ann, name, sequence, part, text)
    for client, copy in ((other, each), (ben, gathered)):
        while copy.parts.get(sequence) != 60:
            copy.take(client.push())
        assert copy.text[sequence] == "".join(texts)
    # The first part does not wait, the others do.
    assert 2 <= gathered.pushes < each.pushes
    # After a pause nothing waits: the next one finds no window.
    time.sleep(0.5)
    extend(ann, name, sequence, 61, "z")
    while gathered.parts[sequence] != 61:
        gathered.take(ben.push())


@pytest.mark.parametrize("end", ["finish", "stop", "recall", "delete", "edit", "trim"])
def test_what_ends_or_changes_a_message_does_not_wait_for_its_window(ann, other, name, end):
    copy = parts_of(other, name, 1_000)
    sequence = open_message(ann, name)
    extend(ann, name, sequence, 1, "a")
    while copy.parts.get(sequence) != 1:
        copy.take(other.push())
    grow(ann, name, sequence, ["b", "c"], start=2)
    if end == "finish":
        finish(ann, name, sequence, 3)
    elif end == "stop":
        stop(ann, name, sequence)
    elif end == "edit":
        ann.call("message.update", timeline=name, sequence=sequence, set={"kind": "other"})
    elif end == "trim":
        ann.call("timeline.trim", timeline=name, before=sequence + 1)
    else:
        ann.call("message.delete" if end == "delete" else "message.recall", timeline=name, sequence=sequence)
    if end != "trim":
        seen = None
        while seen != "message.changed":
            push = other.push()
            seen = push["method"]
            copy.take(push)
    if end in ("finish", "stop", "edit"):
        assert copy.text[sequence] == "abc"
    if end == "edit":
        extend(ann, name, sequence, 4, "d")
        while copy.parts[sequence] != 4:
            copy.take(other.push())
        assert copy.text[sequence] == "abcd"
    else:
        # What had gathered does not come after the end.
        ann.append(name, {"last": True})
        while other.push()["method"] != "message":
            pass
        time.sleep(1.2)
        other.call("ping")
        assert not [push for push in other.pushes if push["method"] == "message.extended"]


def test_a_message_does_not_wait_for_a_window_nor_overtakes_it(ann, other, name):
    copy = parts_of(other, name, 1_000)
    sequence = open_message(ann, name)
    extend(ann, name, sequence, 1, "a")
    while copy.parts.get(sequence) != 1:
        copy.take(other.push())
    grow(ann, name, sequence, ["b", "c"], start=2)
    ann.append(name, {"n": 2})
    seen = []
    while "message" not in seen:
        push = other.push()
        seen.append(push["method"])
        copy.take(push)
    assert copy.text[sequence] == "abc", seen


def test_resuming_in_the_middle_of_a_window(ann, server, name):
    sequence = open_message(ann, name)
    extend(ann, name, sequence, 1, "a")
    with Client(server, user="cut") as cut:
        copy = parts_of(cut, name, 1_000, after=0, changes_after=0)
        grow(ann, name, sequence, ["b", "c", "d"], start=2)
        while copy.parts[sequence] < 2:
            copy.take(cut.push())
    assert copy.parts[sequence] in (2, 3, 4)
    with Client(server, user="cut") as again:
        place = {"after": sequence, "changes_after": 0, "open": copy.open()}
        copy.reply(again.call("subscribe", timeline=name, window_ms=50, **place, **{"with": ["parts"]}))
        assert copy.text[sequence] == "abcd"
        grow(ann, name, sequence, ["e", "f"], start=5)
        while copy.parts[sequence] != 6:
            copy.take(again.push())
    assert copy.text[sequence] == "abcdef"


def test_which_windows_there_are(ann, other, name):
    open_message(ann, name)
    refused = refusal(other.call, "subscribe", timeline=name, window_ms=50)
    assert (refused.code, refused.data["field"]) == (-32602, "window_ms")
    for window_ms in (-1, 1.5, "50", True):
        params = {"timeline": name, "window_ms": window_ms, "with": ["parts"]}
        assert refusal(other.call, "subscribe", **params).code == -32602
    for window_ms in (None, 0, 1, 1_000, 5_000, 2**53 - 1):
        params = {"timeline": name, "window_ms": window_ms, "with": ["parts"]}
        assert other.call("subscribe", **params)["state"] == "ok"
        other.call("unsubscribe", timeline=name)
    many = other.call("subscribe", timelines={name: {}, f"{name}/2": {}}, window_ms=100, **{"with": ["parts"]})
    assert len(many["timelines"]) == 2


@pytest.mark.parametrize("how", ["subscribe", "sync"])
def test_resuming_goes_on_behind_the_parts_that_the_reader_has(ann, other, name, how):
    first, second, third = [open_message(ann, name) for _ in range(3)]
    epoch = ann.call("timeline.get", timeline=name)["epoch"]
    grow(ann, name, first, ["a", "b", "c"])
    grow(ann, name, second, ["x", "y"])
    grow(ann, name, third, ["1"])
    finish(ann, name, second, 2)
    copy = Copy()
    copy.parts = {first: 1, second: 1, third: 1}
    copy.text = {first: "a", second: "x", third: "1"}
    place = {"after": 3, "epoch": epoch, "open": copy.open()}
    if how == "subscribe":
        reply = other.call("subscribe", timeline=name, **place, **{"with": ["parts"]})
    else:
        reply = other.call("sync", positions={name: place})["timelines"][name]
    assert reply["grown"] == [{"sequence": first, "from": 2, "parts": 3, "text": "bc"}]
    assert [message["sequence"] for message in reply["changed"]] == [second]
    copy.reply(reply)
    assert copy.text == {first: "abc", second: "xy", third: "1"}
    grow(ann, name, third, ["2"], start=2)
    grow(ann, name, first, ["d"], start=4)
    while copy.text[first] != "abcd" or copy.text[third] != "12":
        if how == "subscribe":
            copy.take(other.push())
        else:
            place["open"] = copy.open()
            copy.reply(other.call("sync", positions={name: place}, wait_ms=10_000)["timelines"][name])
    wrong = [{"0": 1}, {"x": 1}, {"-1": 1}, {"01": 1}, {str(n): 0 for n in range(1, 66)}, {"1": -1}]
    for places in wrong:
        assert refusal(other.call, "sync", positions={name: {"after": 3, "open": places}}).code == -32602
    params = {"timeline": f"{name}-other", "after": 0, "open": {"1": 1}}
    assert refusal(other.call, "subscribe", **params).data["field"] == "open"


def test_a_waiting_sync_wakes_for_a_part(ann, other, name):
    sequence = open_message(ann, name)
    place = {"after": sequence, "changes_after": 0, "open": {str(sequence): 0}}
    number = other.ask("sync", positions={name: place}, wait_ms=20_000)
    other.call("ping")
    extend(ann, name, sequence, 1, "tok")
    told = other.take(number)["timelines"][name]
    assert told["grown"] == [{"sequence": sequence, "from": 1, "parts": 1, "text": "tok"}]
    assert told["messages"] == [] and told["state"] == "ok" and not told["more"]
    place["open"] = {str(sequence): 1}
    number = other.ask("sync", positions={name: place}, wait_ms=20_000)
    other.call("ping")
    finish(ann, name, sequence, 1)
    told = other.take(number)["timelines"][name]
    assert told["changed"][0]["outcome"] == "done" and "grown" not in told


def test_a_member_gets_parts_from_joining_to_leaving(ann, ben, name):
    ann.call("timeline.create", timeline=name, settings={"members_only": True}, members=[{"user": "ann"}, {"user": "ben"}])
    ben.call("subscribe", timeline=name, **{"with": ["parts"]})
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a"])
    assert ben.push("message") and ben.push("message.extended")["text"] == "a"
    ann.call("member.remove", timeline=name, users=["ben"])
    extend(ann, name, sequence, 2, "b")
    assert ben.push("subscription.ended")["reason"] == "forbidden"
    ben.quiet()


def test_a_duplicate_says_whether_the_message_grows(ann, name):
    ann.append(name, {"n": 1}, message_id="plain")
    again = ann.call("message.append", timeline=name, entry={"n": 1}, message_id="plain", open=True)
    assert again["duplicate"] and "parts" not in again


def test_who_follows_parts_gets_what_is_open_whole(ann, other, name):
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a", "b"])
    closed = open_message(ann, name)
    finish(ann, name, closed, 0)
    copy = Copy()
    reply = other.call("subscribe", timeline=name, **{"with": ["parts"]})
    assert reply["messages"] == [] and [one["sequence"] for one in reply["changed"]] == [sequence]
    copy.reply(reply)
    grow(ann, name, sequence, ["c"], start=3)
    while copy.text.get(sequence) != "abc":
        copy.take(other.push())
    other.call("unsubscribe", timeline=name)
    # More than a reply holds: the rest comes in pushes.
    large = [open_message(ann, name) for _ in range(6)]
    for one in large:
        grow(ann, name, one, ["x" * 200_000])
    copy = Copy()
    copy.reply(other.call("subscribe", timeline=name, changes_after=0, **{"with": ["parts"]}))
    assert 0 < len(copy.text) < 8
    for one in large:
        grow(ann, name, one, ["y"], start=2)
    while not all(copy.text.get(one, "").endswith("y") for one in large):
        copy.take(other.push())
    assert all(copy.text[one] == "x" * 200_000 + "y" for one in large)


def test_a_reaction_that_is_held_back_does_not_stand_for_its_message(server, ann, other, name):
    first, second = (open_message(ann, name) for _ in range(2))
    for one in (first, second):
        grow(ann, name, one, ["x" * 200_000])
    ends = threading.Event()

    def react():
        with Client(server, user="cleo") as cleo:
            while not ends.is_set():
                for verb in ("add", "remove"):
                    cleo.call(f"reaction.{verb}", timeline=name, sequence=second, reaction="+1")

    reacts = threading.Thread(target=react)
    reacts.start()
    try:
        for _ in range(20):
            copy = Copy()
            # Of the second the reply has no room.
            copy.reply(other.call("subscribe", timeline=name, **{"with": ["parts"]}))
            while second not in copy.text:
                copy.take(other.push())
            assert copy.text == {first: "x" * 200_000, second: "x" * 200_000}
            other.call("unsubscribe", timeline=name)
            other.pushes.clear()
    finally:
        ends.set()
        reacts.join()


def test_all_conversations_with_parts(ann, ben, client, name):
    client.call("timeline.create", timeline=name, members=[{"user": "ann"}, {"user": "ben"}])
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a", "b"])
    until(lambda: any(one["timeline"] == name for one in ben.call("conversation.list", limit=1000)["conversations"]))
    copy, more = Copy(), True
    ben.call("subscribe", conversations=True, **{"with": ["parts"]})
    while more:
        told = ben.push("subscribed")
        more = told["more"]
        if name in told["timelines"]:
            copy.reply(told["timelines"][name])
    assert copy.text == {sequence: "ab"}
    grow(ann, name, sequence, ["c"], start=3)
    while copy.text[sequence] != "abc":
        copy.take(ben.push())


def test_what_is_hidden_grows_no_more(server, ann, ben, client, name):
    client.call("timeline.create", timeline=name, members=[{"user": "ann"}, {"user": "ben"}])
    ben.call("subscribe", timeline=name, **{"with": ["parts"]})
    first, second = open_message(ann, name), open_message(ann, name)
    grow(ann, name, first, ["a"])
    grow(ann, name, second, ["x"])
    copy = Copy()
    while copy.parts != {first: 1, second: 1}:
        copy.take(ben.push())
    with Client(server, user="ben") as phone:
        phone.call("message.hide", timeline=name, sequences=[first])
    grow(ann, name, first, ["b", "c"], start=2)
    grow(ann, name, second, ["y"], start=2)
    while copy.text[second] != "xy":
        copy.take(ben.push())
    assert copy.text[first] == "a"
    # Nor for one who comes back.
    for places in ({}, {str(first): 1}):
        ben.call("unsubscribe", timeline=name)
        reply = ben.call("subscribe", timeline=name, open=places, **{"with": ["parts"]})
        told = [one["sequence"] for one in [*reply.get("grown", []), *reply.get("changed", [])]]
        assert first not in told


def test_a_stream_of_events_with_parts(server, ann, name):
    copy = Copy()
    sequence = open_message(ann, name)
    grow(ann, name, sequence, ["a"])

    def follow(stream, text):
        while copy.text.get(sequence) != text:
            event = stream.next()
            if event.name == "subscribed":
                copy.reply(event.data["timelines"][name])
            else:
                copy.take({"method": event.name, "params": event.data})

    with Stream(server, f"timeline={name}&with=parts") as stream:
        follow(stream, "a")
        grow(ann, name, sequence, ["b", "c"], start=2)
        follow(stream, "abc")
        last = stream.id
    grow(ann, name, sequence, ["d"], start=4)
    with Stream(server, f"timeline={name}&with=parts&window_ms=300", last) as stream:
        follow(stream, "abcd")
        grow(ann, name, sequence, ["e"], start=5)
        follow(stream, "abcde")
        finish(ann, name, sequence, 5)
        while sequence not in copy.closed:
            copy.take({"method": (event := stream.next()).name, "params": event.data})
    assert copy.text[sequence] == "abcde"


# Elsewhere


def test_open_messages_are_in_backups_and_go_on_there(tmp_path):
    server = BackedUp(tmp_path).start()
    try:
        with Client(server, user="ann") as ann:
            sequence = open_message(ann, "t")
            grow(ann, "t", sequence, ["a", "b"])
        other = restored(server, server.backup(), tmp_path / "other")
    finally:
        server.kill()
    try:
        other.start()
        with Client(other, user="ann") as ann:
            assert get(ann, "t", sequence)["entry"]["text"] == "ab"
            assert extend(ann, "t", sequence, 2, "b")["duplicate"]
            grow(ann, "t", sequence, ["c"], start=3)
            assert finish(ann, "t", sequence, 3)["message"]["entry"]["text"] == "abc"
    finally:
        other.kill()


def test_open_messages_go_through_a_split_with_their_readers(own_server):
    own_server.start()
    names = [f"t{n}" for n in range(20)]
    with Client(own_server, user="ann") as ann, Client(own_server) as reader:
        copies = {name: Copy() for name in names}
        for name in names:
            reader.call("subscribe", timeline=name, **{"with": ["parts"]})
            grow(ann, name, open_message(ann, name), ["a"])
        change(own_server, "split", "0")
        assert len(numbers(own_server)) == 2
        for name in names:
            assert extend(ann, name, 1, 1, "a")["duplicate"]
            grow(ann, name, 1, ["b"], start=2)
            finish(ann, name, 1, 2)
        while not all(1 in copy.closed for copy in copies.values()):
            push = reader.push()
            copies[push["params"]["timeline"]].take(push)
        assert {copy.text[1] for copy in copies.values()} == {"ab"}
        for name in names:
            open_message(ann, name, open={"idle_ms": 400})
        until(lambda: all(get(ann, name, 2).get("abandoned") for name in names))
    own_server.stop()
    is_sound(own_server)


# The end that time brings


def test_without_parts_it_is_abandoned(ann, other, name):
    other.call("subscribe", timeline=name, **{"with": ["parts"]})
    sequence = open_message(ann, name, open={"idle_ms": 500})
    begun = time.monotonic()
    for part in range(1, 6):
        extend(ann, name, sequence, part, f"{part}")
        time.sleep(0.15)
    copy = Copy()
    while sequence not in copy.closed:
        copy.take(other.push())
    assert time.monotonic() - begun >= 0.5 + 4 * 0.15
    closed = copy.closed[sequence]
    assert closed["outcome"] == "failed" and closed["abandoned"] and closed["entry"]["text"] == "12345"
    late = refusal(extend, ann, name, sequence, 6, "x")
    assert late.reason == "message_closed" and late.data["outcome"] == "failed" and late.data["parts"] == 5
    assert refusal(finish, ann, name, sequence, 5, outcome="failed").reason == "message_closed"


def test_it_is_abandoned_also_after_a_restart_and_operators_see_it(own_server):
    own_server.start()
    with Client(own_server, user="ann") as ann:
        sequence = open_message(ann, "t", open={"idle_ms": 4000})
        grow(ann, "t", sequence, ["a", "b"])
        kept = open_message(ann, "t")
        grow(ann, "t", kept, ["x"])
        assert own_server.metric("tideline_open_messages") == 2 and own_server.metric("tideline_parts_total") == 3
    own_server.restart(signal.SIGKILL)
    with Client(own_server, user="ann") as ann:
        closed = until(lambda: next((m for m in [get(ann, "t", sequence)] if "outcome" in m), None))
        assert closed["abandoned"] and closed["entry"]["text"] == "ab"
        assert extend(ann, "t", kept, 1, "x")["duplicate"]
        grow(ann, "t", kept, ["y"], start=2)
        assert get(ann, "t", kept)["entry"]["text"] == "xy"
        assert own_server.metric("tideline_open_messages") == 1
        assert own_server.metric("tideline_abandoned_total") == 1
    own_server.stop()
    is_sound(own_server)


def test_while_the_server_is_down_no_writer_is_silent(own_server):
    own_server.start()
    with Client(own_server, user="ann") as ann:
        kept, dead = (open_message(ann, "t", open={"idle_ms": 8000}) for _ in range(2))
        grow(ann, "t", kept, ["a"])
    own_server.stop()
    time.sleep(8.5)
    own_server.start()
    with Client(own_server, user="ann") as ann:
        # The timer has looked by now.
        ann.call("message.append", timeline="t", entry={"text": "later"}, deliver_at=ann.call("ping")["time"] + 100)
        until(lambda: ann.call("timeline.get", timeline="t")["head"] == 3)
        grow(ann, "t", kept, ["b"], start=2)
        assert get(ann, "t", dead)["open"]
        until(lambda: get(ann, "t", dead).get("abandoned"))
    own_server.stop()
    is_sound(own_server)


# Kills


class Writer(threading.Thread):
    """Writes answers token by token, and repeats what was not answered."""

    def __init__(self, server, number, answers, parts):
        super().__init__()
        self.server, self.number, self.answers, self.parts = server, number, answers, parts
        self.done, self.failed, self.count = {}, None, 0

    def run(self):
        try:
            for answer in range(self.answers):
                self.write(f"{self.number}-{answer}")
        except Exception as error:  # noqa: BLE001, the test shows it
            self.failed = error

    def write(self, named):
        texts = [f"{named}:{part} " for part in range(1, self.parts + 1)]
        part = 0
        while True:
            try:
                with Client(self.server, user=f"w{self.number}", open_timeout=2) as client:
                    told = client.append("t", {"named": named}, message_id=named, open=True)
                    sequence = told["sequence"]
                    assert told["parts"] >= part, ("an answered part is gone", told, part)
                    while part < self.parts:
                        # A repeat for each part that may be there.
                        assert extend(client, "t", sequence, part + 1, texts[part])["parts"] >= part + 1
                        part += 1
                        self.count += 1
                    finish(client, "t", sequence, self.parts)
                    self.done[sequence] = "".join(texts)
                    return
            except (ConnectionClosed, OSError, TimeoutError, EOFError):
                time.sleep(0.02)
            except Exception as error:
                if type(error).__name__ not in ("InvalidMessage", "InvalidHandshake"):
                    raise
                time.sleep(0.02)


class Viewer(threading.Thread):
    """Follows the timeline with parts and resumes where it was, from nothing at first; each time with another window."""

    def __init__(self, server, until_closed):
        super().__init__()
        self.server, self.until_closed, self.random = server, until_closed, random.Random(until_closed)
        self.copy, self.failed = Copy(), None

    def run(self):
        place = {"after": 0, "changes_after": 0}
        while len(self.copy.closed) < self.until_closed:
            try:
                with Client(self.server, open_timeout=2) as client:
                    open_places = dict(list(self.copy.open().items())[:64])
                    how = {"with": ["parts"], "window_ms": self.random.choice([0, 5, 40, 250, 1_000])}
                    reply = client.call("subscribe", timeline="t", **place, open=open_places, **how)
                    place["epoch"] = reply["epoch"]
                    self.copy.reply(reply)
                    place["after"] = max([place["after"], *(m["sequence"] for m in reply["messages"])])
                    place["changes_after"] = reply["change_head"]
                    while len(self.copy.closed) < self.until_closed:
                        push = client.push(patience=20)
                        self.copy.take(push)
                        if push["method"] == "message":
                            place["after"] = push["params"]["messages"][-1]["sequence"]
                        if push["method"] == "message.changed":
                            place["changes_after"] = push["params"]["change_head"]
            except (ConnectionClosed, OSError, TimeoutError, EOFError):
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001, the test shows it
                if type(error).__name__ not in ("InvalidMessage", "InvalidHandshake"):
                    self.failed = error
                    return
                time.sleep(0.02)


def under_kills(server, kills=3, answers=4, parts=60):
    """Writers and viewers while the server is killed; what the store has, what was written, and what was seen."""
    server.start()
    writers = [Writer(server, number, answers, parts) for number in range(2)]
    viewers = [Viewer(server, 2 * answers) for _ in range(2)]
    for thread in writers + viewers:
        thread.daemon = True
        thread.start()
    for kill in range(1, kills + 1):
        # In the middle of answers.
        share = 2 * answers * parts * kill // (kills + 1)
        until(lambda: sum(writer.count for writer in writers) >= share)
        server.restart(signal.SIGKILL)
    for thread in writers + viewers:
        thread.join(60)
        assert thread.failed is None, repr(thread.failed)
        assert not thread.is_alive()
    written = {sequence: text for writer in writers for sequence, text in writer.done.items()}
    with Client(server) as client:
        messages = client.call("message.range", timeline="t", limit=1000)["messages"]
    stored = {message["sequence"]: message["entry"].get("text", "") for message in messages}
    assert stored == written
    for viewer in viewers:
        assert {sequence: viewer.copy.text[sequence] for sequence in written} == written
        assert viewer.copy.pushes > 0


def test_no_part_is_lost_or_doubled_by_kills(own_server):
    under_kills(own_server)
    own_server.stop()
    is_sound(own_server)


needs_faults = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")


@needs_faults
def test_control_a_repeat_is_taken_twice(own_server):
    own_server.environment["TIDELINE_FAULT"] = "part_repeated"
    own_server.start()
    with Client(own_server, user="ann") as ann:
        sequence = open_message(ann, "t")
        extend(ann, "t", sequence, 1, "a")
        with pytest.raises(AssertionError):
            assert extend(ann, "t", sequence, 1, "a")["duplicate"]
        with pytest.raises(AssertionError):
            assert get(ann, "t", sequence)["entry"]["text"] == "a"


@needs_faults
def test_control_a_resume_begins_one_part_late(own_server):
    own_server.environment["TIDELINE_FAULT"] = "grown_late"
    own_server.start()
    with Client(own_server, user="ann") as ann:
        sequence = open_message(ann, "t")
        grow(ann, "t", sequence, ["a", "b", "c"])
        copy = Copy()
        copy.parts, copy.text = {sequence: 1}, {sequence: "a"}
        place = {"after": 1, "open": copy.open()}
        copy.reply(ann.call("sync", positions={"t": place})["timelines"]["t"])
        with pytest.raises(AssertionError):
            assert copy.text[sequence] == "abc"


@needs_faults
def test_control_a_window_forgets_its_last_parts(own_server):
    own_server.environment["TIDELINE_FAULT"] = "window_forgets"
    own_server.start()
    with Client(own_server, user="ann") as ann, Client(own_server, user="ben") as ben:
        copy = parts_of(ben, "t", 1_000)
        sequence = open_message(ann, "t")
        with pytest.raises(TimeoutError):
            # One that comes within a window of the push before waits for ever.
            for part in range(1, 10):
                extend(ann, "t", sequence, part, "x")
                while copy.parts.get(sequence) != part:
                    copy.take(ben.push(patience=3))


@needs_faults
def test_control_a_part_is_answered_before_the_sync(own_server):
    own_server.environment["TIDELINE_FAULT"] = "ack_before_sync,late_sync"
    own_server.start()
    with Client(own_server, user="ann") as ann:
        sequence = open_message(ann, "t")
        extend(ann, "t", sequence, 1, "a")
        # What was answered is on disk, and then it is seen.
        with pytest.raises((AssertionError, Refused)):
            assert get(ann, "t", sequence)["parts"] == 1
