"""An image that neither log nor backup can make anew: what can be read of it is kept, and what is not is said."""

import json
import os
import pathlib
import random
import re
import shutil
import string

import pytest

from client import Client, until
from server import Server
from test_backup import refusal
from test_partitions import run
from test_repair import backup, fill, image, is_taken, log_begins

CONFIG = "segment_bytes = 1048576\nmemtable_bytes = 65536\nretention_bytes = 1048576\nretention_age_ms = 1\n"
PAGE = 4096
faulty = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="no faults in this binary")
ROOMS = [f"room/{number:03}" for number in range(60)]
ENDED = re.compile(r"LOST partition \d, timeline (\".*?\"): .*(it is deleted)$", re.M)
TRIMMED = re.compile(r"LOST partition \d, timeline (\".*?\"): .*it begins with message (\d+) instead of \d+", re.M)
EMPTIED = re.compile(r"LOST partition \d, timeline (\".*?\"): .*its meta can't be read", re.M)


def told(server):
    """What each timeline is, as a dump says: itself, its messages, its members."""
    ended = run(server, "dump", server.data)
    assert ended.returncode == 0, ended.stderr
    rooms = {}
    for line in ended.stdout.splitlines():
        row = json.loads(line)
        if "timeline" not in row or "user" in row:
            continue
        room = rooms.setdefault(row["timeline"], {"messages": {}, "members": {}})
        if "message" in row:
            room["messages"][row["message"]["sequence"]] = row["message"]
        elif "member" in row:
            room["members"][row["member"]["user"]] = row["member"]
        elif "epoch" in row:
            room["about"] = row
    return rooms


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A stopped server whose log does not reach back, and what is in it."""
    server = Server(tmp_path_factory.mktemp("loss"), config=CONFIG).start()
    noise = random.Random(7)
    with Client(server) as client:
        for number, room in enumerate(ROOMS):
            users = [{"user": f"user-{number}-{user}"} for user in range(number % 4)]
            client.call("timeline.create", timeline=room, meta={"name": "n" * (number % 9 * 20)}, members=users)
        for turn in range(3):
            for room in ROOMS:
                texts = ["".join(noise.choices(string.ascii_letters, k=noise.randrange(20, 600))) for _ in range(20)]
                many = [{"message_id": f"{turn}-{at}", "entry": {"text": text}} for at, text in enumerate(texts)]
                until(lambda: is_taken(client, room, many))
        for room in ROOMS[::3]:
            client.call("message.update", timeline=room, sequence=7, set={"text": "edited"})
            client.call("message.delete", timeline=room, sequence=9)
    fill(server, "filler", 4000, 1000)
    assert server.stop() == 0
    assert log_begins(server) > 1
    before = told(server)
    yield server, before
    server.kill()


def copied(whole, to):
    server = Server(to, config=CONFIG)
    shutil.copytree(whole.data, server.data)
    shutil.copy(whole.config_path, server.config_path)
    return server


def damage(server, pages, noise):
    """Noise in some of the pages that name a room."""
    file = image(server)
    bytes = bytearray(file.read_bytes())
    used = [at for at in range(2, len(bytes) // PAGE) if b"room/" in bytes[at * PAGE : (at + 1) * PAGE]]
    for at in noise.sample(used, pages):
        bytes[at * PAGE : (at + 1) * PAGE] = noise.randbytes(PAGE)
    file.write_bytes(bytes)


def repaired(server):
    """Repairs it; what was said, or None if there was nothing to do, or nothing could be done."""
    ended = run(server, "repair", server.data, "--accept-loss", "--config", server.config_path)
    if "nothing to repair" in ended.stdout:
        return None
    if ended.returncode != 0:
        assert re.search(r"nothing was changed$|^tideline: nothing of the image", ended.stderr, re.M), ended
        return None
    assert ended.stdout.endswith(" 0 problems\n"), ended.stdout
    return ended.stdout


def check(before, after, said):
    """All that is kept is right, and all that is missing is said."""
    gone = {json.loads(name) for name, _ in ENDED.findall(said)}
    floors = {json.loads(name): int(floor) for name, floor in TRIMMED.findall(said)}
    emptied = {json.loads(name) for name in EMPTIED.findall(said)}
    assert set(after) == set(before) - gone
    for name, room in after.items():
        was, floor = before[name], floors.get(name, before[name]["about"]["floor"])
        assert room["messages"] == {at: one for at, one in was["messages"].items() if at >= floor}, name
        assert room["members"] == was["members"], name
        about, then = room["about"], was["about"]
        assert about["epoch"] != then["epoch"] and about["head"] == then["head"] and about["floor"] == floor, name
        assert about["meta"] == ({} if name in emptied else then["meta"]), name
        assert about["version"] == then["version"] or name in emptied and about["version"] > then["version"]
    return gone, floors, emptied


def test_what_can_be_read_is_kept_and_what_can_not_is_said(whole, tmp_path):
    server, before = whole
    done = []
    # What lies on the pages differs from run to run, and so does whether anything can be done.
    for seed in range(1, 30):
        if len(done) >= 3 and any(floors for _, _, (_, floors, _) in done):
            break
        noise = random.Random(seed)
        (tmp_path / str(seed)).mkdir()
        copy = copied(server, tmp_path / str(seed))
        damage(copy, 1 + seed % 3, noise)
        if (said := repaired(copy)) is not None:
            done.append((copy, said, check(before, told(copy), said)))
    assert len(done) >= 3 and any(floors for _, _, (_, floors, _) in done), [said for _, said, _ in done]
    copy, _, (gone, floors, _) = next(one for one in done if one[2][1])
    with Client(copy.start()) as client:
        for room, floor in floors.items():
            was = before[room]["about"]
            state = client.call("sync", positions={room: position(was)})["timelines"][room]
            assert state["state"] == "epoch_changed", state
            answer = client.call("message.append", timeline=room, entry={"text": "on"})
            assert answer["sequence"] == was["head"] + 1
            page = client.call("message.range", timeline=room, **{"from": 1})
            assert page["messages"][0]["sequence"] == floor
        for room in gone:
            assert client.call("message.append", timeline=room, entry={"text": "anew"})["sequence"] == 1
    assert copy.stop() == 0
    ended = run(copy, "verify", copy.data)
    assert ended.stdout.endswith(" 0 problems\n"), ended.stdout
    kept = pathlib.Path(copy.data) / "partition-0000/image.damaged/data.mdb"
    assert kept.exists()


def position(about):
    return {"after": about["head"], "epoch": about["epoch"], "changes_after": 0}


def hit(server, text):
    """Bends a text in every page that it is in."""
    bytes = image(server).read_bytes()
    assert text in bytes
    image(server).write_bytes(bytes.replace(text, text.upper()))


@pytest.fixture
def hit_copy(whole, tmp_path):
    """A copy with one message that can't be read; which one."""
    server, before = whole
    copy = copied(server, tmp_path)
    text = before[ROOMS[20]]["messages"][30]["entry"]["text"].encode()[:40]
    hit(copy, text)
    return copy


def test_one_message_takes_what_is_before_it_and_nothing_is_done_unasked(whole, hit_copy):
    _, before = whole
    line = refusal(hit_copy, "repair", hit_copy.data)
    assert "with --accept-loss: nothing was changed" in line, line
    bytes = image(hit_copy).read_bytes()
    plan = run(hit_copy, "repair", hit_copy.data, "--accept-loss", "--dry-run")
    # Those in its block go with it.
    lost = rf'LOST partition 0, timeline "{ROOMS[20]}": messages (\d+) to (\d+) can\'t be read; it begins with message (\d+) instead of 1\n'
    told_first = re.search(lost + r"\Z", plan.stdout)
    assert plan.returncode == 0 and told_first, plan
    first, last, floor = map(int, told_first.groups())
    assert first <= 30 <= last == floor - 1 and last - first < 16, plan
    assert image(hit_copy).read_bytes() == bytes
    said = repaired(hit_copy)
    assert said.count("LOST") == 1 and told_first[0] in said
    check(before, told(hit_copy), said)
    assert "nothing to repair" in run(hit_copy, "repair", hit_copy.data, "--accept-loss").stdout


@faulty
def test_control_a_hole_that_is_left_in_a_timeline_is_found(hit_copy, monkeypatch):
    monkeypatch.setenv("TIDELINE_FAULT", "loss_unsettled")
    ended = run(hit_copy, "repair", hit_copy.data, "--accept-loss")
    assert ended.returncode != 0 and re.search(r"message (\d+) is missing, \d+ is next", ended.stdout), ended


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A stopped server with two partitions whose images are hit, what was in it, and a backup that helps one of them."""
    server = Server(tmp_path_factory.mktemp("two"), config=CONFIG + "partitions = 2\n").start()
    texts, noise = {}, random.Random(8)
    with Client(server) as client:
        for number in range(8):
            room = f"room/{number}"
            texts[room] = ["".join(noise.choices(string.ascii_letters, k=200)) for _ in range(20)]
            many = [{"message_id": f"{at}", "entry": {"text": text}} for at, text in enumerate(texts[room])]
            client.call("timeline.create", timeline=room, meta={"name": room})
            client.call("message.append_batch", timeline=room, messages=many)
    for filler in range(6):
        fill(server, f"filler/{filler}", 1500, 1000)
    assert server.stop() == 0
    made = backup(server, server.directory + "/backup")
    homes = {}
    for partition in range(2):
        bytes = (partition_of(server, partition) / "image/data.mdb").read_bytes()
        homes.update({room: partition for room in texts if texts[room][10].encode() in bytes})
    assert sorted(homes) == sorted(texts) and set(homes.values()) == {0, 1}, homes
    # The log of one of them goes on to where the backup helps no more.
    behind = next(room for room in homes if homes[room] == 1)
    fill(server.start(), behind, 4000, 1000)
    # The log lets go of what the image has about once a second, and not when it stops.
    until(lambda: len(list((partition_of(server, 1) / "log").glob("*.log"))) <= 2)
    assert server.stop() == 0
    before = told(server)
    for partition in range(2):
        file = partition_of(server, partition) / "image/data.mdb"
        bytes = file.read_bytes()
        for text in (texts[room][10].encode() for room in texts if homes[room] == partition):
            bytes = bytes.replace(text, text.upper())
        file.write_bytes(bytes)
    yield server, before, made, homes
    server.kill()


def partition_of(server, number):
    return pathlib.Path(server.data) / f"partition-{number:04}"


@faulty
def test_a_repair_that_is_killed_anywhere_goes_on(two, tmp_path, monkeypatch):
    server, before, made, homes = two
    for at in range(1, 100):
        (tmp_path / str(at)).mkdir()
        copy = copied(server, tmp_path / str(at))
        words = ["repair", copy.data, "--from", made, "--accept-loss", "--config", copy.config_path]
        monkeypatch.setenv("TIDELINE_FAULT", f"repair_step:{at}")
        killed = run(copy, *words)
        monkeypatch.delenv("TIDELINE_FAULT")
        if killed.returncode == 0:
            break
        assert killed.returncode == -6, killed
        again = run(copy, *words)
        assert again.returncode == 0 and again.stdout.endswith(" 0 problems\n"), again
        check(before, told(copy), killed.stdout + again.stdout)
        for number in range(2):
            kept = (partition_of(copy, number) / "image.damaged/data.mdb").read_bytes()
            room = next(room for room in homes if homes[room] == number)
            assert before[room]["messages"][11]["entry"]["text"].upper().encode() in kept
    assert at == 7 and "nothing to repair" in run(copy, "repair", copy.data).stdout
    assert re.search(r"partition 1: .* rows can't be read, and the backup does not help: it ends with batch \d+, ", killed.stdout)


def test_swapped_partitions_are_no_damage(two, tmp_path):
    server, before, _, _ = two
    copy = copied(server, tmp_path)
    away = tmp_path / "away"
    zero, one = [partition_of(copy, number) for number in range(2)]
    for what in [".", "image"]:
        for source, to in [(zero / what, away), (one / what, zero / what), (away, one / what)]:
            source.rename(to)
        line = refusal(copy, "repair", copy.data, "--accept-loss")
        assert "partition-0000/image is partition 1 of 2" in line and "put it back where it belongs" in line, line
        for source, to in [(zero / what, away), (one / what, zero / what), (away, one / what)]:
            source.rename(to)
    said = repaired(copy)
    check(before, told(copy), said)


def test_what_nothing_is_left_of_is_said(tmp_path):
    """In the image nothing is left of a timeline to which the log goes on, and of what users have set of another."""
    server = Server(tmp_path, config=CONFIG).start()
    # Long names, so that few rows share a block, and messages, so that something is left of those that do.
    noise = random.Random(9)
    rooms = [f"zz/{number}-" + "".join(noise.choices(string.ascii_letters, k=150)) for number in range(10, 40)]
    users, victim, noted = [f"user-{number}" for number in range(3)], rooms[6], rooms[20]
    with Client(server) as client:
        for room in rooms:
            client.call("timeline.create", timeline=room, members=[{"user": user} for user in users])
    for room in rooms:
        if room != victim:
            fill(server, room, 12)
    for user in users:
        with Client(server, user=user) as client:
            until(lambda: len(client.call("conversation.list", limit=100)["conversations"]) == len(rooms))
            client.call("conversation.update", timeline=noted, set={"note": "pinned-by-me"})
    until(lambda: fill(server, "filler", 500, 1000) or log_begins(server) > 1)
    assert server.stop() == 0
    before = told(server)
    with Client(server.start()) as client:
        client.call("message.append", timeline=victim, entry={"text": "behind"})
    server.kill()
    hit(server, b"pinned-by-me")
    hit(server, victim[6:].encode())
    said = repaired(server)
    assert re.search(r'^LOST partition 0, users from "user-0" to "user-0": conversations can\'t be read', said, re.M), said
    assert re.search(r'^LOST partition 0, timelines from "zz/1\d.*" to "zz/[12]\d.*": heads can\'t be read', said, re.M), said
    gone, floors, _ = check(before, told(server), said)
    assert victim in gone and noted not in gone and len(gone) < 16 and not floors, said
