"""`tideline verify` and `tideline dump` on directories that a server left behind, whole and damaged."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from client import Client, filler
from server import Server

PAGE = 4096


def verify(server, data):
    """Exit code and all lines."""
    ended = subprocess.run([server.binary, "verify", str(data)], capture_output=True, text=True, errors="replace", timeout=60)
    assert "panicked" not in ended.stderr
    return ended.returncode, (ended.stdout + ended.stderr).splitlines()


def told(server, data, *words):
    """The check must fail, with one line that has all these words."""
    code, lines = verify(server, data)
    assert code == 1, lines
    assert any(all(word in line for word in words) for line in lines), (words, lines)
    return lines


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))


def segments(data):
    """The segments of the log, oldest first."""
    folder = os.path.join(data, "partition-0000", "log")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if re.fullmatch(r"[0-9]{20}\.log", name)]


def image(data):
    return os.path.join(data, "partition-0000", "image", "data.mdb")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A directory whose process was killed: three segments of log, the image covers the first part. Not to be changed."""
    config = "segment_bytes = 1048576\nmemtable_bytes = 700000\n"
    running = Server(tmp_path_factory.mktemp("killed"), config=config).start()
    with Client(running, user="ada") as client:
        for batch in range(32):
            many = [
                {"entry": {"n": n, "text": filler(700)}, "message_id": f"{batch}-{n}"} for n in range(100)
            ]
            client.call("message.append_batch", timeline=f"t{batch % 3}", messages=many)
        client.call("message.delete", timeline="t1", sequence=7)
        client.call("timeline.trim", timeline="t2", before=50)
    running.kill()
    assert len(segments(running.data)) == 3
    return running


@pytest.fixture
def copy(killed, tmp_path):
    """What the kill left, to be damaged; a copy, without the mark by which it would be known as one."""
    return shutil.copytree(killed.data, tmp_path / "data", ignore=shutil.ignore_patterns("served"))


def test_verify_and_dump_agree(own_server):
    own_server.start()
    with Client(own_server) as client:
        client.fill("t", 250)
        client.call("message.delete", timeline="t", sequence=7)
        client.append("other", {"text": "ü"})
    own_server.stop()
    code, lines = verify(own_server, own_server.data)
    assert code == 0, lines
    assert "2 timelines, 251 messages, 0 message IDs, 0 problems" in lines
    dump = subprocess.run([own_server.binary, "dump", own_server.data, "t"], capture_output=True, timeout=60)
    assert dump.returncode == 0
    assert len(dump.stdout.decode().splitlines()) == 251


def test_what_lies_at_users_is_verified_and_dumped(own_server):
    own_server.start()
    with Client(own_server, user="ann") as ann:
        later = int(time.time() * 1000) + 3_600_000
        ann.call("timeline.create", timeline="t", settings={"members_only": True}, members=[{"user": "ann"}, {"user": "ben"}])
        ann.append("t", {"text": "one"}, message_id="m1")
        ann.call("message.append", timeline="t", entry={"text": "two"}, message_id="m2", deliver_at=later)
        ann.call("read.set", timeline="t", read=1)
        ann.call("conversation.update", timeline="t", set={"pinned": True})
        epoch = ann.call("timeline.get", timeline="t")["epoch"]
        ann.call("position.set", device="phone", positions={"t": {"epoch": epoch, "after": 7}})
        ann.call("member.remove", timeline="t", users=["ben"])
        ann.call("conversation.list")
    own_server.stop()
    code, lines = verify(own_server, own_server.data)
    assert code == 0, lines
    assert "1 members, 1 scheduled messages, 2 conversations, 1 device positions, 0 inbox entries" in lines
    notes = [line for line in lines if line.startswith("NOTE")]
    assert len(notes) == 1 and '"phone": the position in "t" is beyond the head 1' in notes[0], lines
    dump = subprocess.run([own_server.binary, "dump", own_server.data], capture_output=True, timeout=60)
    told = [json.loads(line) for line in dump.stdout.splitlines()]
    assert told[0]["settings"]["members_only"] is True
    members = [line["member"] for line in told if "member" in line]
    assert [(one["user"], one["read"], one["joined"]) for one in members] == [("ann", 1, 2)]
    assert {"timeline": "t", "sender": "ann", "scheduled": {"scheduled": "m2", "deliver_at": later, "entry": {"text": "two"}}} in told
    mine = {line["user"]: line["conversation"] for line in told if "conversation" in line}
    assert (mine["ann"]["attributes"], mine["ann"]["read"]) == ({"pinned": True}, 1)
    assert "removed_at" in mine["ben"] and "removed_at" not in mine["ann"]
    assert any(line.get("device", {}).get("device") == "phone" for line in told)
    assert {"user": "ann", "position": {"device": "phone", "timeline": "t", "epoch": epoch, "after": 7}} in told
    assert any("relay" in line for line in told)


def test_a_directory_after_a_kill_is_whole(killed, copy):
    code, lines = verify(killed, killed.data)
    assert code == 0, lines
    assert any("image to" in line and " 0 runs" not in line for line in lines), "nothing was flushed"
    # And again after a restart and an orderly end.
    again = Server(os.path.dirname(copy))
    again.start()
    assert again.stop(signal.SIGTERM) == 0
    code, lines = verify(again, copy)
    assert code == 0, lines


def test_a_byte_in_the_middle_of_the_log(killed, copy):
    path = segments(copy)[0]
    for part in (3, 2):
        flip(path, os.path.getsize(path) // part)
        told(killed, copy, os.path.basename(path), "damaged at byte")


def test_a_segment_that_is_missing(killed, copy):
    path = segments(copy)[1]
    os.remove(path)
    told(killed, copy, "log", ".log")


def test_the_newest_segment_that_is_missing_after_an_orderly_end(copy):
    server = Server(os.path.dirname(copy))
    server.start()
    with Client(server) as client:
        client.append("t0")
    assert server.stop(signal.SIGTERM) == 0
    newest = segments(copy)[-1]
    os.remove(newest)
    told(server, copy, os.path.basename(newest), "missing")


def test_the_oldest_segment_may_go_where_the_image_covers_it(killed, copy):
    os.remove(segments(copy)[0])
    code, lines = verify(killed, copy)
    assert code == 0, lines


def test_a_log_that_is_cut(killed, copy):
    path = segments(copy)[0]
    os.truncate(path, os.path.getsize(path) // 2)
    told(killed, copy, "log", os.path.basename(path))


def test_no_log_no_image(killed, copy):
    log = os.path.join(copy, "partition-0000", "log")
    os.rename(log, log + "-away")
    told(killed, copy, log)
    os.rename(log + "-away", log)
    picture = os.path.dirname(image(copy))
    os.rename(picture, picture + "-away")
    told(killed, copy, picture)


def test_parts_that_do_not_belong_together(killed, copy, tmp_path):
    manifest = os.path.join(copy, "directory.toml")
    with open(manifest) as file:
        text = file.read()
    digit = text.split('history = "')[1][0]
    with open(manifest, "w") as file:
        file.write(text.replace(f'history = "{digit}', 'history = "%x' % (int(digit, 16) ^ 1)))
    told(killed, copy, "PROBLEM partition 0", "of history", manifest)
    with open(manifest, "w") as file:
        high = '[[partition]]\nnumber = 1\nhashes = ["8000000000000000", "ffffffffffffffff"]\nbegins = 1\n'
        file.write(text.replace("roots = 1", "roots = 2").replace("ffffffffffffffff", "7fffffffffffffff") + high)
    told(killed, copy, "PROBLEM partition 1", "partition-0001 is missing")
    with open(manifest, "w") as file:
        file.write(text)
    shutil.copytree(os.path.join(copy, "partition-0000"), os.path.join(copy, "partition-0001"))
    told(killed, copy, "PROBLEM", "partition-0001 is there", manifest)


def state_of(folder):
    found = {}
    for path, folders, files in os.walk(folder):
        for name in files:
            told = os.stat(os.path.join(path, name))
            found[os.path.join(path, name)] = (told.st_size, told.st_mtime_ns, told.st_ctime_ns)
        for name in folders:
            found[os.path.join(path, name)] = os.stat(os.path.join(path, name)).st_mtime_ns
    return found


@pytest.mark.parametrize("without", [[], ["lock", "partition-0000/image/image.lock", "partition-0000/image/lock.mdb"]])
def test_a_copy_that_cannot_be_written_to(killed, copy, without):
    for name in without:
        os.remove(os.path.join(copy, name))
    subprocess.run(["chmod", "-R", "a-w", str(copy)], check=True)
    before = state_of(copy)
    code, lines = verify(killed, copy)
    assert code == 0 and any(", 0 problems" in line for line in lines), lines
    dump = subprocess.run([killed.binary, "dump", str(copy)], capture_output=True, timeout=60)
    assert dump.returncode == 0 and len(dump.stdout.splitlines()) > 3_000
    # Root could have written, and has not either.
    assert state_of(copy) == before
    subprocess.run(["chmod", "-R", "u+w", str(copy)], check=True)


def test_bytes_of_the_image(killed, copy):
    """Wherever a page of the image is used, damage in it is told: in its head, in its pointers, in its data."""
    path = image(copy)
    pages = os.path.getsize(path) // PAGE
    tried, seen = 0, 0
    for page in range(3, pages, max(1, pages // 6)):
        for within in (10, 12, 16, 18, PAGE // 2):
            flip(path, page * PAGE + within)
            code, lines = verify(killed, copy)
            flip(path, page * PAGE + within)
            assert code in (0, 1), (page, within, code, lines)
            tried += 1
            if code == 1:
                seen += 1
                assert any("image" in line or "timeline" in line or "row" in line for line in lines), lines
    assert seen >= tried // 2, f"{seen} of {tried}"
    assert verify(killed, copy)[0] == 0


def test_what_lmdb_does_not_survive_is_told(killed, copy):
    path = image(copy)
    with open(path, "r+b") as file:
        for page in range(3, os.path.getsize(path) // PAGE):
            # Every page of rows is full of pointers that lead out of it.
            file.seek(page * PAGE + 16)
            file.write(b"\xff" * 64)
    told(killed, copy, "image")


def test_an_image_that_is_cut_or_of_zeros(killed, copy):
    path = image(copy)
    size = os.path.getsize(path)
    os.truncate(path, size // 2 // PAGE * PAGE)
    told(killed, copy, "image")
    os.truncate(path, size)
    told(killed, copy, "image")
    os.truncate(path, 0)
    told(killed, copy, "image", "there is no image")
    assert os.path.getsize(path) == 0


def test_a_dump_into_a_closed_pipe_ends_quietly(killed):
    command = f'"{killed.binary}" dump "{killed.data}" | head -n 1; exit ${{PIPESTATUS[0]}}'
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and ended.stderr == "", ended
    assert len(ended.stdout.splitlines()) == 1
