"""Messages that are written bit by bit, and their readers, with the real server: every token is there once and in order,
whoever is killed in between. `TIDELINE_KILLS` says how often; few by default.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
import tideline
from proxy import Proxy
from server import Server, free_port
from test_people import PATIENCE, client, name, played, until  # noqa: F401, a fixture

KILLS = int(os.environ.get("TIDELINE_KILLS", "6"))
TOKENS = [f"{n} " for n in range(120 * (KILLS + 1))]
needs_faults = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")


class OneWay(Proxy):
    """A line that can lose what the server says."""

    is_mute = False

    async def pass_on(self, reader, writer):
        is_request = writer.get_extra_info("peername")[1] == self.target_port
        try:
            while data := await reader.read(4096):
                if is_request or not self.is_mute:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        writer.transport.abort()


async def get(ann, name, sequence):
    return (await ann.message.get(name, sequence))["message"]


@played
async def test_readers_see_it_grow_and_end(server, name):  # noqa: F811
    async with client(server, f"ann-{name}") as ann, client(server, f"ben-{name}") as ben:
        room = await ben.subscribe(name, also=("parts",), window_ms=20)
        own = await ann.subscribe(name)
        pieces, joined = [], ""
        async with own.open({"role": "model", "text": "> "}, idle_ms=30_000) as answer:
            opened = (await until(room, "message")).message
            assert opened["open"] and opened["entry"] == {"role": "model", "text": "> "}
            parts = room.parts(opened["sequence"])
            assert await anext(parts) == "> "
            for token in ("Hel", "lo ", "wörld 🌊"):
                await answer.write(token)
                await answer.flush()
                event = await until(room, "extended")
                joined += event.text
                assert event.message["entry"]["text"] == "> " + joined == "> " + answer.text
                assert event.data["parts"] == event.message["parts"] == answer.parts
                pieces.append(await anext(parts))
            assert ben.messages(name)[0]["entry"]["text"] == "> Hello wörld 🌊"
            closed = await answer.finish(set={"usage": 3})
            with pytest.raises(tideline.TidelineError):
                await answer.write("more")
        assert closed["outcome"] == "done" and closed["entry"]["usage"] == 3 and answer.sequence == closed["sequence"]
        assert [piece async for piece in parts] == [] and parts.message["outcome"] == "done"
        assert pieces == ["Hel", "lo ", "wörld 🌊"]
        assert (await until(room, "changed")).message == closed == await get(ann, name, closed["sequence"])
        # The iterator of one that is whole gives it at once.
        assert [piece async for piece in room.parts(closed["sequence"])] == ["> Hello wörld 🌊"]
        with pytest.raises(ValueError):
            room.parts(99)
        for wrong in ("\ud83d", 5):
            async with own.open() as answer:
                with pytest.raises((ValueError, TypeError)):
                    await answer.write(wrong)
        assert ann.outbox() == [] and ann.store.outbox() == []


@played
async def test_what_grows_is_the_column_that_the_message_names(server, name):  # noqa: F811
    async with client(server, f"ann-{name}") as ann, client(server, f"ben-{name}") as ben:
        room = await ben.subscribe(name, also=("parts",))
        await ann.message.append_batch(name, [{"entry": {"text": "title", "body": "a"}, "open": {"column": "body"}}])
        opened = (await until(room, "message")).message
        place = opened["sequence"]
        assert opened["open"] == {"column": "body"}
        parts = room.parts(place)
        await ann.message.extend(name, 1, place, "bc")
        assert (await until(room, "extended")).message["entry"] == {"text": "title", "body": "abc"}
        await ann.message.finish(name, 1, place)
        await until(room, "changed")
        assert "".join([piece async for piece in parts]) == "abc"


@played
async def test_who_follows_all_conversations_reloads_in_the_middle(server, name, tmp_path):  # noqa: F811
    ben, rooms = f"ben-{name}", [f"{name}/1", f"{name}/2"]
    async with client(server, f"ann-{name}") as ann:
        for room in rooms:
            await ann.timeline.create(room, members=[{"user": f"ann-{name}"}, {"user": ben}])
        async with ann.open(rooms[0]) as one, ann.open(rooms[1]) as other:
            shown = ["", ""]
            for token in ("a", "b", "c"):
                await one.write(token)
                await other.write(token.upper())
                await asyncio.gather(one.flush(), other.flush())
                async with client(server, ben, store=tmp_path / "ben.db") as reader:
                    events = await reader.subscribe_conversations(also=("parts",), window_ms=20)
                    while shown != [one.text, other.text]:
                        for at, room in enumerate(rooms):
                            for message in reader.messages(room):
                                shown[at] = message["entry"].get("text", "")
                        if shown != [one.text, other.text]:
                            await anext(events)
                    await one.write("-")
                    await one.flush()
                    event = await until(events, "extended", lambda event: event.message["entry"]["text"] == one.text)  # noqa: B023
                    assert event.text == "-" and event.timeline == rooms[0]


@played
async def test_a_slow_line_joins_tokens_and_makes_the_writer_wait(server, name):  # noqa: F811
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with tideline.Client(f"ws://127.0.0.1:{proxy.port}/v1/connect", user="ann") as ann:
            await ann.ping()
            proxy.delay = 0.02
            tokens = [f"{n} " for n in range(1000)]
            async with ann.open(name) as answer:
                for token in tokens:
                    await answer.write(token)
                await answer.flush()
                assert answer.parts <= 3, "each token is a part of its own"
                # What waits has a bound: while one part is on its way, so much and no more.
                proxy.delay = 0.2
                await answer.write("x")
                await answer.write("y" * (64 << 10))
                waits = asyncio.ensure_future(answer.write("z"))
                await asyncio.sleep(0.01)
                assert not waits.done()
                proxy.delay = 0.0
                await waits
            stored = await get(ann, name, answer.sequence)
            assert stored["entry"]["text"] == answer.text == "".join(tokens) + "x" + "y" * (64 << 10) + "z"
            assert stored["outcome"] == "done" and stored["parts"] == answer.parts <= 6
    finally:
        await proxy.stop()


@played
async def test_a_stop_from_elsewhere_ends_the_writer_with_its_reason(server, name):  # noqa: F811
    async with client(server, "ann") as ann, client(server, "ben") as ben:
        with pytest.raises(tideline.MessageClosed) as closed:
            async with ann.open(name) as answer:
                await answer.write("one ")
                await answer.flush()
                await ben.message.stop(name, answer.sequence, reason="too long")
                while True:
                    await answer.write("two ")
                    await answer.flush()
        error = closed.value
        assert (error.outcome, error.stopped_by, error.why) == ("cancelled", "ben", "too long")
        assert error.closed == await get(ben, name, answer.sequence) and error.closed["entry"]["text"] == "one "
        assert ann.store.outbox() == []
        # One that the server gave up, as nothing came.
        with pytest.raises(tideline.MessageClosed) as closed:
            async with ann.open(name, idle_ms=1) as answer:
                while True:
                    await answer.write("x")
                    await answer.flush()
                    await asyncio.sleep(0.1)
        assert closed.value.outcome == "failed" and closed.value.closed["abandoned"] and closed.value.stopped_by is None


@played
async def test_however_the_block_is_left_the_message_ends(server, name):  # noqa: F811
    async with client(server, "ann") as ann:

        async def write(error):
            async with ann.open(name) as answer:
                answers.append(answer)
                await answer.write("some")
                if error is not None:
                    raise error
                await asyncio.sleep(PATIENCE)

        answers, ends = [], []
        with pytest.raises(KeyError):
            await write(KeyError("of the app"))
        task = asyncio.ensure_future(write(None))
        while len(answers) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # One that gets too large ends with what was taken.
        with pytest.raises(tideline.Refused) as refused:
            async with ann.open(name) as answer:
                answers.append(answer)
                await answer.write("some")
                await answer.flush()
                await answer.write("x" * 300_000)
                await answer.flush()
        assert refused.value.reason == "too_large"
        for answer in answers:
            stored = await get(ann, name, answer.sequence)
            ends.append((stored["outcome"], stored["entry"]["text"]))
        assert ends == [("failed", "some"), ("cancelled", "some"), ("failed", "some")]
        with pytest.raises(tideline.Refused):
            async with ann.open(name, {"$no": 1}) as answer:
                await answer.write("some")
                await answer.flush()
        with pytest.raises(tideline.Refused) as refused:
            async with ann.open(name) as answer:
                await answer.write("some")
                await answer.flush()
                await ann.message.recall(name, sequence=answer.sequence)
                await answer.write("more")
                await answer.flush()
        assert refused.value.reason == "message_not_found"
        async with ann.open(name, message_id="m"):
            with pytest.raises(tideline.TidelineError):
                await ann.open(name, message_id="m").__aenter__()
        with pytest.raises(ValueError):
            ann.open(name, deliver_at=1)
        assert ann.store.outbox() == [] and ann._answers._writings == {}


@played
async def test_what_was_written_without_a_server_goes_first_in_the_next_run(server, name, tmp_path):  # noqa: F811
    away = tideline.Client(f"ws://127.0.0.1:{free_port()}/v1/connect", user="ann", store=tmp_path / "ann.db")
    away.start()
    answer = await away.open(name, {"role": "model"}).__aenter__()
    for token in ("a", "b", "c"):
        await answer.write(token)
    await away.close()
    with pytest.raises(tideline.Stopped):
        await answer.write("d")
    async with client(server, "ann", store=tmp_path / "ann.db") as ann:
        async with ann.open(name, {"role": "model"}, message_id=answer.message_id) as again:
            assert (again.text, again.parts) == ("abc", 1)
            await again.write("d")
        assert (await get(ann, name, again.sequence))["entry"] == {"role": "model", "text": "abcd"}
        # Once more, when it has ended: nothing is written, and it is as it was.
        async with ann.open(name, {"role": "model"}, message_id=answer.message_id) as again:
            assert again.text == "abcd"
        with pytest.raises(tideline.MessageClosed) as closed:
            async with ann.open(name, {"role": "model"}, message_id=answer.message_id) as again:
                await again.write("e")
                await again.flush()
        assert closed.value.outcome == "done"


@played
async def test_another_entry_under_the_id_is_refused_and_what_was_written_goes_on(server, name, tmp_path):  # noqa: F811
    proxy = OneWay(server.port)
    await proxy.start()
    url, options = f"ws://127.0.0.1:{proxy.port}/v1/connect", {"user": "ann", "delay_s": (0.001, 0.02)}
    ann = tideline.Client(url, store=tmp_path / "ann.db", **options)
    ann.start()
    answer = await ann.open(name, {"role": "model"}).__aenter__()
    await answer.write("a")
    await answer.flush()
    await proxy.stop()
    await answer.write("b")
    await answer.write("c")
    await ann.close()
    async with client(server, "ann", store=tmp_path / "ann.db") as ann:
        with pytest.raises(tideline.Refused) as refused:
            async with ann.open(name, {"role": "other"}, message_id=answer.message_id):
                pass
        assert refused.value.reason == "message_id_conflict"
        async with ann.open(name, {"role": "model"}, message_id=answer.message_id) as again:
            assert again.text == "abc"


async def repeated(tmp_path, environment=None):
    """A part whose answer is lost is repeated, in another run of the program; the text in the end."""
    running = await asyncio.to_thread(Server(tmp_path, environment=environment).start)
    proxy = OneWay(running.port)
    await proxy.start()
    url, options = f"ws://127.0.0.1:{proxy.port}/v1/connect", {"user": "ann", "delay_s": (0.001, 0.02)}
    try:
        ann = tideline.Client(url, store=tmp_path / "ann.db", **options)
        ann.start()
        answer = await ann.open("t", {"text": "> "}, message_id="m").__aenter__()
        proxy.is_mute = True
        await answer.write("a")
        while not await asyncio.to_thread(running.metric, "tideline_parts_total"):
            await asyncio.sleep(0.01)
        await answer.write("b")
        await ann.close()
        proxy.is_mute = False
        async with tideline.Client(url, store=tmp_path / "ann.db", **options) as ann:
            async with ann.open("t", {"text": "> "}, message_id="m") as answer:
                assert (answer.text, answer.parts) == ("ab", 2)
                await answer.write("c")
            return (await get(ann, "t", answer.sequence))["entry"]["text"]
    finally:
        await proxy.stop()
        running.kill()


@played
async def test_a_part_that_may_have_been_taken_is_repeated(tmp_path):
    assert await repeated(tmp_path) == "> abc"


@needs_faults
@played
async def test_control_a_repeat_is_taken_twice(tmp_path):
    with pytest.raises(AssertionError):
        assert await repeated(tmp_path, {"TIDELINE_FAULT": "part_repeated"}) == "> abc"


async def resumed(tmp_path, environment=None):
    """A reader is away for two parts of three; what it has in the end."""
    running = await asyncio.to_thread(Server(tmp_path, environment=environment).start)
    try:
        async with client(running, "ann") as ann, ann.open("t") as answer:
            for tokens in ("a", "bc"):
                for token in tokens:
                    await answer.write(token)
                    await answer.flush()
                async with client(running, "ben", store=tmp_path / "ben.db") as ben:
                    room = await ben.subscribe("t", also=("parts",))
                    await until(room, "subscribed")
                    (stored,) = ben.messages("t")
        return stored["parts"], stored["entry"]["text"]
    finally:
        running.kill()


@played
async def test_a_reader_that_was_away_has_each_part(tmp_path):
    assert await resumed(tmp_path) == (3, "abc")


@needs_faults
@played
async def test_control_a_resume_begins_one_part_late(tmp_path):
    with pytest.raises(AssertionError):
        assert await resumed(tmp_path, {"TIDELINE_FAULT": "grown_late"}) == (3, "abc")


WRITER = """
import asyncio, sys, tideline
url, store, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def main():
    async with tideline.Client(url, user="ann", store=store, delay_s=(0, 0.05)) as client:
        async with client.open("room/1", {"role": "model"}, message_id="answer") as answer:
            for n in range(answer.text.count(" "), count):
                await answer.write(f"{n} ")
                print(n, flush=True)
                await asyncio.sleep(0.001)

asyncio.run(main())
"""
VIEWER = """
import asyncio, json, sys, tideline

async def main():
    async with tideline.Client(sys.argv[1], user="ben", store=sys.argv[2], delay_s=(0, 0.05)) as client:
        for message in client.messages("room/1"):
            print(json.dumps({"kind": "stored", "message": message}), flush=True)
        async for event in await client.subscribe("room/1", also=("parts",)):
            if event.message:
                told = {"kind": event.kind, "message": event.message, "text": event.text, "from": event.data.get("from")}
                print(json.dumps(told), flush=True)

asyncio.run(main())
"""


class Run:
    """A program that is killed and run again, and what it says."""

    def __init__(self, program, out, *arguments):
        self.command = [sys.executable, "-c", program, *map(str, arguments)]
        self.out = out
        self.begin()

    def begin(self):
        with open(self.out, "ab") as out:
            # Behind what a kill may have left of a line.
            out.write(b"\n")
            out.flush()
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def lines(self):
        return [line for line in self.out.read_text().split("\n")[:-1] if line]


def check_viewer(lines):
    """The text at each moment is the one before and what was told; returns how often it grew, and the closed message."""
    before, grown, last = None, 0, None
    for line in lines:
        assert line.startswith("{"), line
        if not line.endswith("}"):
            continue  # cut off by a kill
        told = json.loads(line)
        message = told["message"]
        text = message["entry"].get("text", "")
        if told["kind"] == "stored":
            assert text.startswith(before or ""), "what was told was not stored"
        elif told["kind"] == "extended":
            grown += 1
            assert told["from"] == last["parts"] + 1 and text == before + told["text"], told
        elif told["kind"] == "changed":
            assert message["outcome"] == "done" and text.startswith(before)
            return grown, message
        before, last = text, message
    return grown, None


def under_kills(tmp_path, victims):
    running = Server(tmp_path).start()
    runs = {
        "writer": Run(WRITER, tmp_path / "ann.out", running.url, tmp_path / "ann.db", len(TOKENS)),
        "viewer": Run(VIEWER, tmp_path / "ben.out", running.url, tmp_path / "ben.db"),
    }

    def wait(holds):
        for _ in range(PATIENCE * 50):
            if holds():
                return
            runs["writer"].process.poll()
            asyncio.run(asyncio.sleep(0.02))
        raise TimeoutError([run.lines()[-3:] for run in runs.values()])

    try:
        for number, victim in enumerate(victims, 1):
            share = len(TOKENS) * number // (len(victims) + 1)
            wait(lambda: len(runs["writer"].lines()) >= share)  # noqa: B023
            wait(lambda: any('"extended"' in line for line in runs["viewer"].lines()))
            if victim == "server":
                running.restart(signal.SIGKILL)
            else:
                runs[victim].kill()
                runs[victim].begin()
        wait(lambda: check_viewer(runs["viewer"].lines())[1] is not None)
        assert runs["writer"].process.wait(PATIENCE) == 0
        grown, message = check_viewer(runs["viewer"].lines())
        assert grown > len(victims) and message["entry"] == {"role": "model", "text": "".join(TOKENS)}
        # What `write` has returned for was not written again by a later run.
        numbers = [int(line) for line in runs["writer"].lines()]
        assert numbers == sorted(set(numbers))
        stored = tideline.SqliteStore(tmp_path / "ann.db")
        assert stored.outbox() == []
        stored.close()
    finally:
        for run in runs.values():
            run.kill()
        running.kill()


def test_no_token_is_lost_or_doubled_when_anybody_is_killed(tmp_path, monkeypatch, packages):
    monkeypatch.setenv("PYTHONPATH", packages["python"])
    under_kills(tmp_path, (["server", "writer", "viewer"] * KILLS)[:KILLS])
