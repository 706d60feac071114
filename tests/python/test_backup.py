"""Backups of a server under load, and what is restored of them: a prefix of every history, or a refusal in a sentence."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

from client import Client, Refused, filler, until
from drill import prepared, set_back
from guarded import signed
from server import CHANGE_PATIENCE, Server
from test_partitions import fill, run
from test_partitions_served import REST_S, Writers, numbers

USERS = ["ann", "ben", "cay", "dan"]


class BackedUp(Server):
    """A server whose administrators may have backups made."""

    def __init__(self, directory, **settings):
        super().__init__(directory)
        self.backups = pathlib.Path(directory) / "backups"
        self.backups.mkdir(exist_ok=True)
        settings = {"backup_directory": str(self.backups), **settings}
        self.config = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())

    def backup(self, target="all", *words):
        ended = run(self, "backup", target, "--url", self.origin, *words)
        assert ended.returncode == 0, ended.stderr + self.log()
        return pathlib.Path(ended.stdout.split(": ")[0])


@pytest.fixture
def backed_up(tmp_path):
    started = []

    def start(**settings):
        started.append(BackedUp(tmp_path, **settings))
        return started[-1].start()

    yield start
    for server in started:
        server.kill()


def restored(server, source, where, *words):
    """A server on a restored directory, not yet started."""
    where.mkdir()
    ended = run(server, "restore", source, "--data", where / "data", *words)
    assert ended.returncode == 0, ended.stderr
    other = Server(where)
    good(other, other.data)
    return other


def good(server, what):
    ended = run(server, "verify", what)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def refusal(server, *words):
    """The line of a command that does nothing."""
    ended = run(server, *words)
    line = ended.stderr.strip()
    assert ended.returncode == 1 and line.startswith("tideline: ") and "\n" not in line, (ended.stdout, line)
    return line


def make_table(server):
    """A table with a stream and an index."""
    field = lambda number, body: bytes([number << 3 | 2, len(body)]) + body
    column = lambda name, kind: field(1, name) + bytes([2 << 3, kind])
    meta = field(1, b"orders") + field(2, column(b"id", 1)) + field(3, column(b"state", 4))
    forever = bytes([1 << 3]) + b"\xff" * 9 + b"\x01"
    index = field(1, b"by_state") + field(2, b"state") + field(2, b"id") + bytes([4 << 3, 0, 5 << 3, 0])
    body = field(1, meta) + field(2, field(1, bytes([1 << 3, 0, 2 << 3, 0]))) + field(3, forever + bytes([2 << 3, 1]))
    body += field(5, bytes([1 << 3, 1, 2 << 3, 24])) + field(7, index)
    status, _, said = signed(server, "CreateTable", "development", "development", body)
    assert status == 200, said


class Rows(threading.Thread):
    """Puts rows 0, 1, 2 … into the table until it is told to stop."""

    def __init__(self, server):
        super().__init__()
        self.server, self.stopped, self.acked, self.failure = server, False, 0, None

    def run(self):
        try:
            with Client(self.server) as client:
                while not self.stopped:
                    key, columns = {"id": self.acked}, {"state": f"s{self.acked % 3}"}
                    client.call("row.put", table="orders", key=key, columns=columns)
                    self.acked += 1
                    time.sleep(REST_S)
        except Exception as failure:  # noqa: BLE001, shown by the test
            self.failure = failure


def counts(server, names):
    """How many messages each timeline has; they are those that were written there, in order and without a hole."""
    found = {}
    with Client(server) as client:
        for name in names:
            seen = []
            while True:
                page = client.call("message.range", timeline=name, **{"from": len(seen) + 1, "limit": 1000})["messages"]
                seen += [(one["sequence"], one["entry"]["n"]) for one in page]
                if not page:
                    break
            assert seen == [(n + 1, n) for n in range(len(seen))], name
            found[name] = len(seen)
    return found


def rows(server):
    with Client(server) as client:
        found, params = [], {}
        while True:
            page = client.call("row.range", table="orders", limit=1000, **params)
            found += [row["key"]["id"] for row in page["rows"]]
            if "next" not in page:
                return found
            params = {"from": page["next"]}


def test_what_is_restored_is_a_prefix_of_what_was_written(backed_up, tmp_path):
    server = backed_up(memtable_bytes=262_144, segment_bytes=1_048_576)
    fill(server)
    make_table(server)
    with Client(server) as client:
        epochs = {f"room-{n}": client.call("timeline.get", timeline=f"room-{n}")["epoch"] for n in range(12)}
        opened = client.call("stream.open", table="orders", **{"from": "start"})
    table = Rows(server)
    table.start()
    with Writers(server, count=2) as writers:
        until(lambda: len(writers.acked) == 16 or writers.failures)
        with Client(server) as client:
            # It waits for the split, and keeps the next one away.
            client.call("partition.split", partition=0)
            client.call("backup.start", target="all")
            until(lambda: client.call("partition.list")["change"]["state"] in ["done", "failed"], CHANGE_PATIENCE)
            before, rows_before = dict(writers.acked), table.acked
            state = until(lambda: (now := client.call("backup.status")["backup"])["state"] not in ["waiting", "copying", "verifying"] and now)
            assert state["state"] == "done", state
        first = pathlib.Path(state["path"])
        # One more, of two partitions, with the writers at their work.
        before, rows_before = dict(writers.acked), table.acked
        second = server.backup()
    table.stopped = True
    table.join()
    assert not writers.failures and not table.failure, (writers.failures, table.failure)
    server.stop()
    assert "every checksum fits" in good(server, first) and first < second
    assert " 0 problems" in good(server, second)
    other = restored(server, second, tmp_path / "other")
    other.start()
    assert len(numbers(other)) == 2
    found = counts(other, writers.acked)
    assert all(before[name] <= found[name] <= count for name, count in writers.acked.items())
    assert sum(before.values()) < sum(writers.acked.values())
    there = rows(other)
    assert there == list(range(len(there))) and rows_before <= len(there) <= table.acked
    with Client(other, user="ann") as client:
        for room, epoch in epochs.items():
            # Its history is another one, and a client that asks by the old one is told.
            shown = client.call("timeline.get", timeline=room)
            assert shown["epoch"] != epoch
            page = client.call("subscribe", timeline=room, after=1, epoch=epoch)
            assert page["state"] == "epoch_changed", page
    with Client(other) as client:
        with pytest.raises(Refused) as lost:
            client.call("stream.open", table="orders", position=opened["position"])
        assert lost.value.reason == "position_lost", lost.value
        for at in range(12):
            # Each room's members and reactions came along, and lists are made anew from them.
            members = client.call("member.list", timeline=f"room-{at}")["members"]
            assert [one["user"] for one in members] == [user for n, user in enumerate(USERS) if (n + at) % 3]
            message = client.call("message.get", timeline=f"room-{at}", sequence=1)["message"]
            assert message["reactions"]["+1"]["count"] == 1, message
    for user in USERS:
        mine = sum((USERS.index(user) + at) % 3 > 0 for at in range(12))
        with Client(other, user=user) as client:
            until(lambda: len(client.call("conversation.list", limit=100)["conversations"]) == mine)
    with Client(other) as client:
        for name, count in found.items():
            assert client.append(name, {"n": count})["sequence"] == count + 1
    other.stop()
    good(other, other.data)


def test_the_drill_as_a_client_of_json_rpc_sees_it(own_server):
    prepared(own_server).start()

    def talk(client, told):
        """Two messages; the IDs are the client's."""
        return [client.append("room", {"text": told}, message_id=f"{told}-{n}") for n in range(2)]

    with Client(own_server, user="ann") as ann, Client(own_server) as back_end:
        ann.call("timeline.create", timeline="room", members=[{"user": "ann"}, {"user": "ben"}])
        talk(ann, "kept")
        until(lambda: ann.call("conversation.list")["conversations"])
        ann.call("read.set", timeline="room", read=1)
        opened = back_end.call("stream.open", timelines="room", cursor="back end")
        epoch = ann.call("timeline.get", timeline="room")["epoch"]
        cursor = until(lambda: (page := ann.call("conversation.sync"))["done"] and page["cursor"])

        def lose():
            ann.call("read.set", timeline="room", read=3)
            ann.call("message.delete", timeline="room", sequence=1)
            ann.call("member.remove", timeline="room", users=["ben"])
            return talk(ann, "lost")

        lost = set_back(own_server, lose)
    with Client(own_server, user="ann") as ann, Client(own_server) as back_end:
        page = ann.call("sync", positions={"room": {"after": 4, "epoch": epoch}})["timelines"]["room"]
        assert page["state"] == "epoch_changed" and page["epoch"] != epoch, page
        assert ann.call("subscribe", timeline="room", after=4, epoch=epoch)["state"] == "epoch_changed"
        with pytest.raises(Refused) as caught:
            ann.call("message.update", timeline="room", sequence=2, set={"text": "edited"}, epoch=epoch)
        assert caught.value.reason == "epoch_changed", caught.value
        for source in [{"position": opened["position"]}, {"cursor": "back end"}]:
            with pytest.raises(Refused) as caught:
                back_end.call("stream.open", timelines="room", **source)
            assert caught.value.reason == "position_lost", caught.value
        texts = [one["entry"]["text"] for one in ann.call("message.range", timeline="room", **{"from": 1})["messages"]]
        assert texts == ["kept", "kept"]
        # Whoever repeats what was answered and is lost has it written; what is kept stays once.
        again = ann.append("room", {"text": "lost"}, message_id=lost[0]["message_id"])
        assert (again["sequence"], again["duplicate"]) == (3, False)
        assert ann.append("room", {"text": "kept"}, message_id="kept-0")["duplicate"]
        # By the cursor of the past all conversations come anew.
        found = until(lambda: (page := ann.call("conversation.sync", cursor=cursor))["done"] and page["conversations"] and page)
        assert found["reset"] and [one["timeline"] for one in found["conversations"]] == ["room"], found
        mine = until(lambda: (one := ann.call("conversation.get", timeline="room")["conversation"])["head"] == 3 and one)
        assert (mine["read"], mine["members_count"]) == (1, 2), mine


def test_a_backup_that_is_killed_is_none(backed_up):
    server = backed_up(backup_bytes_per_s=2 << 20)
    with Client(server) as client:
        client.call("timeline.create", timeline="t")
        for turn in range(12):
            many = [{"entry": {"text": filler(20_000)}} for _ in range(40)]
            client.call("message.append_batch", timeline="t", messages=many)
    target = server.backups / "all"
    for turn in range(3):
        with Client(server) as client:
            client.call("backup.start", target="all")
            until(lambda: client.call("backup.status")["backup"]["done"] > turn << 20)
            with pytest.raises(Refused) as busy:
                client.call("backup.start", target="all")
            assert busy.value.reason == "busy"
            with pytest.raises(Refused) as busy:
                client.call("backup.start", target="other")
            assert busy.value.reason == "busy"
        server.kill()
        [left] = [path for path in target.iterdir() if path.is_dir()]
        assert left.suffix == ".partial"
        assert "is not a backup" in refusal(server, "restore", left, "--data", server.directory + "/no")
        server.start()
    with Client(server) as client:
        client.call("backup.start", target="all")
        assert client.call("backup.cancel") == {"cancelled": True}
        until(lambda: client.call("backup.status")["backup"]["state"] == "cancelled")
        assert client.call("backup.cancel") == {"cancelled": False}
        # Another one takes its place before its caller looks again.
        words = [server.binary, "backup", "all", "--url", server.origin]
        caller = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        state = lambda: client.call("backup.status")["backup"]["state"]
        until(lambda: state() == "copying")
        caller.send_signal(signal.SIGSTOP)
        client.call("backup.cancel")
        until(lambda: state() == "cancelled")
        client.call("backup.start", target="other")
        caller.send_signal(signal.SIGCONT)
        said = caller.communicate(timeout=60)
        assert caller.returncode == 1 and "another backup, to other, has begun" in said[1], said
        client.call("backup.cancel")
        until(lambda: state() == "cancelled")
        # Its target vanishes.
        client.call("backup.start", target="all")
        until(lambda: client.call("backup.status")["backup"]["done"] > 1 << 20)
        shutil.rmtree(target)
        failed = until(lambda: (now := client.call("backup.status")["backup"])["state"] == "failed" and now)
        assert "all" in failed["error"]
        assert not target.exists() or not any(path.is_dir() for path in target.iterdir())
    made = server.backup("all", "--rate", "0")
    assert sorted(path.name for path in target.iterdir()) == sorted([made.name, "backup.lock"])
    good(server, made)
    # Somebody else's goes elsewhere.
    second = pathlib.Path(server.directory, "second")
    second.mkdir()
    other = Server(second).start()
    other.stop()
    line = refusal(other, "backup", target, "--data", other.data)
    assert "holds backups of another server" in line
    assert "is in the data directory" in refusal(other, "backup", other.data + "/backups", "--data", other.data)
    assert "another process is using" in refusal(server, "backup", server.directory + "/x", "--data", server.data)


def test_where_a_backup_may_go_and_who_may_make_one(server, backed_up):
    with Client(server) as client:
        with pytest.raises(Refused) as refused:
            client.call("backup.start", target="all")
        assert (refused.value.code, refused.value.reason) == (409, "not_configured")
        assert refused.value.data["field"] == "backup_directory" and not refused.value.data["retry"]
        assert "set backup_directory" in refused.value.message
        assert client.call("backup.status") == {}
    own = backed_up()
    with Client(own) as client:
        for target in ["", ".", "..", "../x", "/tmp/x", "a/b", "x" * 65, "ü"]:
            with pytest.raises(Refused) as refused:
                client.call("backup.start", target=target)
            assert refused.value.reason == "invalid_params" and refused.value.data["field"] == "target", target
    with Client(own, user="ann") as client:
        for method, params in [("backup.start", {"target": "x"}), ("backup.status", {}), ("backup.cancel", {})]:
            with pytest.raises(Refused) as refused:
                client.call(method, **params)
            assert refused.value.reason == "forbidden"
    assert list(own.backups.iterdir()) == []


class Spoilt:
    """A copy of a backup, with something done to it."""

    def __init__(self, source, where):
        self.path = where
        shutil.copytree(source, where)

    def file(self, ending):
        return next(path for path in sorted(self.path.rglob("*")) if path.name.endswith(ending))


def test_what_is_no_whole_backup_is_refused_and_nothing_is_made(backed_up, tmp_path):
    server = backed_up(segment_bytes=1_048_576, memtable_bytes=1_048_576)
    with Client(server) as client:
        client.call("timeline.create", timeline="t")
        for _ in range(5):
            client.call("message.append_batch", timeline="t", messages=[{"entry": {"text": filler(20_000)}} for _ in range(45)])
    made = server.backup()
    server.stop()
    data = tmp_path / "made"

    def check(what, spoil):
        spoilt = Spoilt(made, tmp_path / "spoilt")
        spoil(spoilt)
        for words in [["restore", spoilt.path, "--data", data], ["verify", spoilt.path]]:
            line = refusal(server, *words)
            assert what in line, line
            assert not data.exists()
        shutil.rmtree(spoilt.path)

    def flip(path, at):
        bytes_ = bytearray(path.read_bytes())
        bytes_[at] ^= 1
        path.write_bytes(bytes_)

    segments = sorted(path.name for path in made.rglob("*.log"))
    assert len(segments) >= 4
    check("data.mdb is missing", lambda one: one.file("data.mdb").unlink())
    check(f"{segments[1]} is missing", lambda one: one.file(segments[1]).unlink())
    check("bytes instead of", lambda one: os.truncate(one.file(segments[-1]), 100))
    check("has other bytes", lambda one: flip(one.file("data.mdb"), 70_000))
    check("has other bytes", lambda one: flip(one.file("log.state"), 60))
    check("is no part of it", lambda one: one.path.joinpath("data/more").write_bytes(b""))
    check("is damaged", lambda one: flip(one.path / "backup.json", 40))
    # Commands for something else leave nothing in it. What they left once does no harm.
    assert "is a backup; name the folder that holds it" in refusal(server, "backup", "prune", made, "--keep", "1")
    assert "is in a backup" in refusal(server, "repair", made / "data", "--dry-run")
    good(server, made)
    (made / "backup.lock").touch()
    (made / "data/lock").touch()
    good(server, made)
    newer = lambda one: (one.path / "backup.json").write_text((one.path / "backup.json").read_text().replace('"format":1', '"format":7'))
    check("has format 7, and this version reads format 1", newer)
    # A backup whose log was cut, by a hand that also knows the manifest, is not opened all the same.
    cut = Spoilt(made, tmp_path / "spoilt").path
    (cut / "backup.json").unlink()
    os.truncate(sorted(cut.rglob("*.log"))[-1], 0)
    ended = run(server, "verify", cut / "data")
    assert ended.returncode == 1 and "was in it" in ended.stdout + ended.stderr
    shutil.rmtree(cut)

    assert "is not a backup" in refusal(server, "restore", server.data, "--data", data)
    assert "is not a backup" in refusal(server, "restore", made.parent, "--data", data)
    assert "is in the backup" in refusal(server, "restore", made, "--data", made / "data/again")
    data.mkdir()
    (data / "mine").write_text("mine")
    assert "is not empty" in refusal(server, "restore", made, "--data", data)
    assert [path.name for path in data.iterdir()] == ["mine"]
    (data / "mine").unlink()
    # A file may not get that large: as on a full disk.
    small = ["bash", "-c", f'ulimit -f 2000; exec "{server.binary}" restore "{made}" --data "{data}"']
    ended = subprocess.run(small, capture_output=True, text=True)
    assert ended.returncode == 1 and "make room" in ended.stderr, ended.stderr
    assert list(data.iterdir()) == []
    assert run(server, "restore", made, "--data", data).returncode == 0
    good(server, data)


def test_a_copy_by_hand_is_no_backup(backed_up, tmp_path):
    """The control: what `cp -r` takes of a server at work is not restored as if it were one, whatever is in it."""
    server = backed_up()
    with Writers(server) as writers:
        until(lambda: len(writers.acked) == 32 or writers.failures)
        shutil.copytree(server.data, tmp_path / "copy", copy_function=shutil.copyfile)
    assert not writers.failures
    assert "is not a backup" in refusal(server, "restore", tmp_path / "copy", "--data", tmp_path / "made")


def test_a_backup_is_restored_to_a_point(backed_up, tmp_path):
    server = backed_up()
    with Client(server) as client:
        client.call("timeline.create", timeline="t")
        times = []
        for n in range(6):
            times.append(client.append("t", {"n": n})["timestamp"])
            time.sleep(0.03)
    made = server.backup()
    server.stop()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(times[3] // 1000)) + f".{times[3] % 1000:03}Z"
    for number, (at, count) in enumerate([(times[3], 4), (times[5] - 1, 5), (text, 4)]):
        other = restored(server, made, tmp_path / f"other-{number}", "--to", str(at))
        other.start()
        assert counts(other, ["t"]) == {"t": count}
        with Client(other) as client:
            assert client.append("t", {"n": count})["sequence"] == count + 1
        other.stop()
        good(other, other.data)
    data = tmp_path / "no"
    early = refusal(server, "restore", made, "--data", data, "--to", str(times[0] - 60_000))
    late = refusal(server, "restore", made, "--data", data, "--to", str(times[5] + 3_600_000))
    # Microseconds, by mistake.
    later = refusal(server, "restore", made, "--data", data, "--to", str(times[5] * 1000))
    assert "take an older backup" in early and not data.exists()
    assert all("the backup ends at" in line for line in [late, later])
    assert run(server, "restore", made, "--data", data, "--to", "yesterday").returncode == 2


def test_a_backup_is_restored_to_a_position(backed_up, tmp_path):
    server = backed_up(partitions=2)
    names = [f"t{n}" for n in range(8)]
    with Client(server) as client:
        for name in names:
            client.call("timeline.create", timeline=name)
        for n in range(4):
            for name in names:
                client.append(name, {"n": n})
                time.sleep(0.003)
    made = server.backup()
    server.stop()
    ended = run(server, "restore", made, "--data", tmp_path / "whole")
    last = {line.split()[1]: int(line.split()[-1]) for line in ended.stdout.splitlines() if line.startswith("partition ")}
    assert len(last) == 2 and min(last.values()) > 10, ended.stdout
    for number, partition in enumerate(last):
        at = last[partition] - 5
        where = tmp_path / f"cut-{number}"
        where.mkdir()
        ended = run(server, "restore", made, "--data", where / "data", "--to-position", f"{partition}{at}")
        assert ended.returncode == 0 and f"partition {partition} to {at}\n" in ended.stdout, ended.stdout + ended.stderr
        other = Server(where)
        good(other, other.data)
        other.start()
        found = counts(other, names)
        other.kill()
        # What was written one after the other is there up to one moment, over both partitions.
        there = [n < found[name] for n in range(4) for name in names]
        assert there == sorted(there, reverse=True) and 8 < sum(there) < 32, found
    data = tmp_path / "no"
    assert f"ends with position {last['0:']}" in refusal(server, "restore", made, "--data", data, "--to-position", f"0:{last['0:'] + 1}")
    assert "has no partition 9; it has 0, 1" in refusal(server, "restore", made, "--data", data, "--to-position", "9:1")
    assert run(server, "restore", made, "--data", data, "--to-position", "0:1", "--to", "1").returncode == 2 and not data.exists()


def test_a_second_backup_copies_what_is_new_and_needs_nothing_of_the_first(backed_up, tmp_path):
    server = backed_up(segment_bytes=1_048_576, memtable_bytes=1_048_576)

    def more(count):
        with Client(server) as client:
            for _ in range(count):
                client.call("message.append_batch", timeline="t", messages=[{"entry": {"text": filler(20_000)}} for _ in range(45)])
            return client.call("timeline.get", timeline="t")["head"]

    with Client(server) as client:
        client.call("timeline.create", timeline="t")
    heads = [more(5)]
    made = [server.backup()]
    heads.append(more(2))
    made.append(server.backup())
    heads.append(more(1))
    made.append(server.backup("all", "--full"))
    links = [{path.name: path.stat().st_nlink for path in one.rglob("*") if path.is_file()} for one in made]
    # The image and the segments that had ended are shared by the first two, and the third is by itself.
    assert links[1]["data.mdb"] == 2 and sum(count == 2 for count in links[1].values()) >= 4, links[1]
    assert set(links[2].values()) == {1}
    listed = run(server, "backup", "list", server.backups / "all").stdout.splitlines()
    assert [line.split(": ")[0] for line in listed] == [str(one) for one in made]
    shared = sum(path.stat().st_size for path in made[1].rglob("*") if path.is_file() and path.stat().st_nlink == 2)
    with Client(server) as client:
        last = client.call("backup.status")["backup"]
        assert last["bytes"] == last["new_bytes"]
    assert shared > 4 << 20
    # Each is a backup by itself, also without those before it.
    good(server, made[0])
    other = restored(server, made[1], tmp_path / "one").start()
    with Client(other) as client:
        assert client.call("timeline.get", timeline="t")["head"] == heads[1]
    other.kill()
    # A link to a backup is none that could be kept in its place.
    latest = server.backups / "all/latest"
    latest.symlink_to(made[2])
    pruned = run(server, "backup", "prune", server.backups / "all", "--keep", "2").stdout
    latest.unlink()
    assert pruned == f"removed {made[0]}\n" and not made[0].exists()
    for one, head in zip(made[1:], heads[1:]):
        other = restored(server, one, tmp_path / str(head)).start()
        with Client(other) as client:
            assert client.call("timeline.get", timeline="t")["head"] == head
        other.kill()
    run(server, "backup", "prune", server.backups / "all", "--keep", "1")
    assert [path for path in (server.backups / "all").iterdir() if path.is_dir()] == [made[2]]
    assert run(server, "backup", "prune", server.backups / "all", "--keep", "0").returncode == 2
    # One after the other, until it is ended.
    follower = subprocess.Popen([server.binary, "backup", "all", "--url", server.origin, "--every", "300ms"], stdout=subprocess.PIPE, text=True)
    lines = [follower.stdout.readline() for _ in range(3)]
    follower.kill()
    follower.communicate()
    assert all(" of them new, as of " in line for line in lines), lines
    assert server.metric("tideline_backups_total") >= 6 and server.metric("tideline_backup_newest_seconds") > time.time() - 60


def test_an_image_is_shared_although_the_log_behind_it_was_trimmed(backed_up, tmp_path):
    server = backed_up(segment_bytes=1_048_576, memtable_bytes=1_048_576, retention_bytes=2_097_152, partitions=1)
    log = pathlib.Path(server.data, "partition-0000/log")

    def more():
        with Client(server) as client:
            for _ in range(3):
                client.call("message.append_batch", timeline="t", messages=[{"entry": {"text": filler(20_000)}} for _ in range(15)])
            return client.call("timeline.get", timeline="t")["head"]

    def segments(folder):
        return sorted(int(path.stem) for path in folder.glob("*.log"))

    more()
    made = [server.backup()]
    covered = json.loads((made[0] / "backup.json").read_text())["backup"]["partitions"][0]["covered"]
    while segments(log)[0] <= covered + 1 and len(made) < 20:
        head = more()
        made.append(server.backup())
        time.sleep(1)
    head = more()
    made.append(server.backup())
    assert covered + 1 < segments(log)[0] and segments(made[-1] / "data/partition-0000/log")[0] <= covered + 1
    assert (made[-1] / "data/partition-0000/image/data.mdb").stat().st_nlink == len(made)
    for old in made[:-1]:
        shutil.rmtree(old)
    other = restored(server, made[-1], tmp_path / "one").start()
    with Client(other) as client:
        assert client.call("timeline.get", timeline="t")["head"] == head
        first = client.call("message.range", timeline="t", **{"from": 1, "limit": 1})["messages"]
        assert first[0]["sequence"] == 1
    other.kill()


def test_a_directory_that_was_set_back_shares_nothing_with_what_came_after(backed_up, tmp_path):
    server = backed_up()

    def append(texts):
        with Client(server) as client:
            for text in texts:
                client.append("t", {"text": text})
        server.stop()

    append(["old"])
    shutil.copytree(server.data, tmp_path / "older")
    server.start()
    append(["lost"] * 3)
    server.start()
    first = server.backup()
    server.stop()
    shutil.rmtree(server.data)
    shutil.copytree(tmp_path / "older", server.data)
    server.start()
    append(["kept"] * 5)
    server.start()
    second = server.backup()
    assert first.parent == second.parent
    assert all(path.stat().st_nlink == 1 for path in second.rglob("*") if path.is_file())
    other = restored(server, second, tmp_path / "other").start()
    with Client(other) as client:
        messages = client.call("message.range", timeline="t", **{"from": 1})["messages"]
    assert [one["entry"]["text"] for one in messages] == ["old"] + ["kept"] * 5
    other.kill()


def test_a_stopped_directory_is_backed_up(backed_up, tmp_path):
    server = backed_up()
    with Client(server) as client:
        client.append("t", {"n": 0})
    server.kill()
    ended = run(server, "backup", tmp_path / "elsewhere", "--data", server.data)
    assert ended.returncode == 0, ended.stderr
    made = pathlib.Path(ended.stdout.split(": ")[0])
    assert made.parent == tmp_path / "elsewhere" and made.stat().st_mode & 0o077 == 0
    other = restored(server, made, tmp_path / "other").start()
    assert counts(other, ["t"]) == {"t": 1}
    other.kill()
    assert "has no directory.toml" in refusal(server, "backup", tmp_path / "elsewhere", "--data", tmp_path / "none")
