"""A damaged image is named, the rest is served, and `tideline repair` makes it anew where nothing is lost by it."""

import os
import pathlib
import re
import shutil

import pytest

from client import Client, Refused, filler, until
from server import Server
from test_backup import refusal
from test_partitions import run

CONFIG = "segment_bytes = 1048576\nmemtable_bytes = 65536\nretention_bytes = 1048576\n"
VICTIM = b"the one that is hit"


def is_taken(client, room, many):
    try:
        client.call("message.append_batch", timeline=room, messages=many)
        return True
    except Refused as refused:
        assert refused.reason == "busy"
        return False


def fill(server, room, count, bytes=300):
    with Client(server) as client:
        for begin in range(0, count, 100):
            many = [{"entry": {"text": filler(bytes)}} for _ in range(min(100, count - begin))]
            until(lambda: is_taken(client, room, many))


def dumped(server):
    ended = run(server, "dump", server.data)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def image(server):
    return pathlib.Path(server.data) / "partition-0000/image/data.mdb"


def hit(server):
    """Bends the message in every page that it is in, those that are free too."""
    file = image(server)
    whole = file.read_bytes()
    assert VICTIM in whole
    file.write_bytes(whole.replace(VICTIM, VICTIM.upper()))


@pytest.fixture
def damaged(tmp_path):
    """A stopped server with a damaged image, and its dump of before."""
    server = Server(tmp_path, config=CONFIG).start()
    fill(server, "before", 150)
    with Client(server) as client:
        client.call("message.append", timeline="hit", entry={"text": VICTIM.decode()})
    fill(server, "behind", 150)
    assert server.stop() == 0
    whole = dumped(server)
    hit(server)
    yield server, whole
    server.kill()


def mended(server, whole, *words):
    ended = run(server, "repair", server.data, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith(" 0 problems\n") and dumped(server) == whole
    return ended.stdout


def test_the_rest_is_served_and_the_log_mends_it(damaged):
    server, whole = damaged
    with Client(server.start()) as client:
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                client.call("message.range", timeline="hit", **{"from": 1})
            assert refused.value.reason == "unavailable"
        assert len(client.call("message.range", timeline="before", limit=200, **{"from": 1})["messages"]) == 150
        assert client.call("message.append", timeline="before", entry={"text": "on"})["sequence"] == 151
        assert server.metric("tideline_image_damage") >= 2
        told = lambda: [one for one in client.call("server.status")["notices"] if "partition 0 is damaged" in one["what"]]
        assert "tideline repair" in until(told)[0]["advice"]
    assert re.search(r"read failed.*partition-0000/image/data.mdb, page \d+ \(run \d+,.*block of rows from key ", server.whole_log())
    assert server.stop() == 0

    before = image(server).read_bytes()
    plan = run(server, "repair", server.data, "--dry-run")
    assert plan.returncode == 0 and "PROBLEM partition 0, image, run " in plan.stdout, plan
    assert plan.stdout.endswith("its image is made anew from its log, which reaches back to the first batch\n")
    assert image(server).read_bytes() == before
    said = run(server, "repair", server.data)
    assert said.returncode == 0 and said.stdout.endswith(" 0 problems\n"), said
    kept = pathlib.Path(server.data) / "partition-0000/image.damaged"
    assert f"the damaged image is in {kept}" in said.stdout and (kept / "data.mdb").read_bytes() == before
    with_new = dumped(server)
    assert VICTIM.decode() in with_new and [line for line in whole.splitlines() if '"hit"' in line] == [
        line for line in with_new.splitlines() if '"hit"' in line
    ]
    assert "nothing to repair" in run(server, "repair", server.data).stdout
    # It ended between its two renames.
    shutil.rmtree(image(server).parent)
    mended(server, with_new)
    # One that was kept is never written over.
    shutil.rmtree(image(server).parent)
    os.rename(kept, kept.parent / "image")
    shutil.copytree(kept.parent / "image", kept)
    assert f"{kept} is there from an earlier repair" in refusal(server, "repair", server.data)
    shutil.rmtree(kept)
    mended(server, with_new)
    with Client(server.start()) as client:
        assert client.call("message.range", timeline="hit", **{"from": 1})["messages"][0]["entry"]["text"] == VICTIM.decode()


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_control_without_checksums_damage_is_answered(damaged):
    server, _ = damaged
    server.environment = {"TIDELINE_FAULT": "rows_unchecked"}
    with Client(server.start()) as client:
        message = client.call("message.range", timeline="hit", **{"from": 1})["messages"][0]
    assert message["entry"]["text"] == VICTIM.decode().upper()


def backup(server, where):
    made = run(server, "backup", where, "--data", server.data, "--config", server.config_path)
    assert made.returncode == 0, made.stderr
    return made.stdout.split(": ")[0]


def log_begins(server):
    segments = sorted(pathlib.Path(server.data).glob("partition-0000/log/*.log"))
    return int(segments[0].stem)


def test_a_backup_mends_it(tmp_path):
    server = Server(tmp_path, config=CONFIG + "retention_age_ms = 1\n").start()
    with Client(server) as client:
        client.call("message.append", timeline="hit", entry={"text": VICTIM.decode()})
    fill(server, "before", 3000, 1000)
    assert server.stop() == 0
    first = backup(server, tmp_path / "first")
    fill(server.start(), "between", 4000, 1000)
    assert server.stop() == 0
    second = backup(server, tmp_path / "second")
    fill(server.start(), "behind", 200)
    assert server.stop() == 0
    whole, history = dumped(server), (pathlib.Path(server.data) / "directory.toml").read_text()
    hit(server)
    assert 1 < log_begins(server)
    line = refusal(server, "repair", server.data)
    assert "the image of partition 0 is damaged" in line and "name a backup of this directory with --from" in line
    line = refusal(server, "repair", server.data, "--from", first)
    assert re.search(r"so batches \d+ to \d+ are in neither", line), line
    said = mended(server, whole, "--from", second)
    assert re.search(r"made anew from the backup's, to \d+, and the logs from there", said), said
    # Nothing was lost, so no client has to be told.
    assert (pathlib.Path(server.data) / "directory.toml").read_text() == history
    other = Server(tmp_path / "other")
    os.mkdir(other.directory)
    other.start().stop()
    shutil.rmtree(other.data + "/partition-0000/image")
    assert "is a backup of history" in refusal(server, "repair", other.data, "--from", second)

    # A log is not mended.
    log = sorted(pathlib.Path(server.data).glob("partition-0000/log/*.log"))[0]
    with open(log, "r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    line = refusal(server, "repair", server.data, "--from", second)
    assert f"log {log.name} is damaged at byte" in line and "restore the newest backup" in line


def test_a_copy_of_a_served_directory_is_not_mended(own_server, tmp_path):
    own_server.start()
    shutil.copytree(own_server.data, tmp_path / "copy", copy_function=shutil.copyfile)
    assert "is a copy, file by file" in refusal(own_server, "repair", tmp_path / "copy")
    assert "another process" in refusal(own_server, "repair", own_server.data)
