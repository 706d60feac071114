"""Backups in an S3-compatible store: they go there whole or not at all, and come back as they were, or not at all."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import threading
import time

import pytest

from bucket import Store, refusal
from client import Client, filler, until
from server import Server
from test_backup import counts, good

WHERE = "s3://backups/of/tests"
FILES = "of/tests/files/"


@pytest.fixture(scope="module")
def whole_store():
    store = Store()
    yield store
    store.close()


@pytest.fixture
def store(whole_store):
    whole_store.harm, whole_store.asked, whole_store.aged = None, [], False
    for key in whole_store.keys():
        whole_store.ask("DELETE", f"/backups/{key}")
    return whole_store


class Offsite(Server):
    """A server that sends its backups to the store."""

    def __init__(self, directory, store, **settings):
        super().__init__(directory, environment=store.environment())
        pathlib.Path(directory, "staging").mkdir(exist_ok=True)
        settings = {"backup_directory": str(pathlib.Path(directory, "staging")), "backup_bucket": WHERE, "backup_bytes_per_s": 0, **settings}
        self.config = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())

    def staged(self):
        return [path.name for path in pathlib.Path(self.directory, "staging/.staging").glob("*/*Z*")]


def tideline(of, *words, environment=None):
    environment = {**os.environ, **of.environment(), **(environment or {})}
    ended = subprocess.run([os.environ["TIDELINE_BIN"], *map(str, words)], capture_output=True, text=True, timeout=120, env=environment)
    assert "panicked" not in ended.stderr
    return ended


def done(of, *words):
    ended = tideline(of, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def refused(of, *words, environment=None):
    """The line of a command that does nothing."""
    ended = tideline(of, *words, environment=environment)
    line = ended.stderr.strip()
    assert ended.returncode == 1 and line.startswith("tideline: ") and "\n" not in line, (ended.stdout, line)
    assert "a secret of the test" not in line
    return line


@pytest.fixture
def served(store, tmp_path):
    started = []

    def start(name="one", **settings):
        (tmp_path / name).mkdir()
        started.append(Offsite(tmp_path / name, store, **settings))
        return started[-1].start()

    yield start
    for server in started:
        server.kill()


def fill(server, batches, text=lambda: filler(20_000)):
    with Client(server) as client:
        for _ in range(batches):
            client.call("message.append_batch", timeline="t", messages=[{"entry": {"text": text()}} for _ in range(45)])
        return client.call("timeline.get", timeline="t")["head"]


def restored(store, source, where, *words):
    """How many messages there are in what is restored."""
    where.mkdir()
    done(store, "restore", source, "--data", where / "data", *words)
    other = Server(where)
    assert " 0 problems" in good(other, other.data)
    assert sorted(path.name for path in pathlib.Path(other.data).iterdir() if "partial" in path.name) == []
    other.start()
    try:
        with Client(other) as client:
            return client.call("timeline.get", timeline="t")["head"]
    finally:
        other.kill()


def backup(store, server, *words):
    said = done(store, "backup", "nightly", "--url", server.origin, *words)
    where, rest = said.split(": ")
    assert where.startswith(f"{WHERE}/nightly/"), said
    return where, int(rest.split(" bytes, ")[1].split()[0])


def stopped(store, tmp_path, name="stopped"):
    """A data directory with a few messages, which no server uses."""
    (tmp_path / name).mkdir()
    server = Server(tmp_path / name).start()
    with Client(server) as client:
        for n in range(3):
            client.append("t", {"n": n})
    server.stop()
    return server.data


def test_backups_go_and_come_back(store, served, tmp_path):
    server = served(segment_bytes=1_048_576, memtable_bytes=1_048_576)
    dice = random.Random(7)
    heads = [fill(server, 14, lambda: dice.randbytes(10_000).hex())]
    first, new = backup(store, server)
    assert new > 9 << 20 and any("uploads" in target for _, target in store.asked)
    heads.append(fill(server, 2))
    store.asked.clear()
    second, new = backup(store, server)
    # What is new, and no more, is sent; a manifest is sent last.
    assert new < 4 << 20
    puts = [target for method, target in store.asked if method == "PUT"]
    assert puts[-1].endswith("backup.json") and sum("backup.json" in target for target in puts) == 1
    assert len(server.staged()) == 1
    assert server.metric("tideline_backups_total") == 2 and server.metric("tideline_backup_newest_seconds") > time.time() - 60
    listed = done(store, "backup", "list", f"{WHERE}/nightly")
    assert [line.split(": ")[0] for line in listed.splitlines()] == [first, second]
    assert "every checksum fits" in done(store, "verify", second)
    # The machine is lost.
    server.kill()
    shutil.rmtree(server.directory)
    for number, (one, head) in enumerate(zip([first, second], heads)):
        assert restored(store, one, tmp_path / f"back-{number}") == head
    # To a position, and no further.
    said = done(store, "restore", second, "--data", tmp_path / "whole")
    last = int(said.split("partition 0: to ")[1].split()[0])
    assert restored(store, second, tmp_path / "cut", "--to-position", f"0:{last - 1}") == heads[1] - 45
    data = tmp_path / "no"
    line = refused(store, "restore", second, "--data", data, "--to-position", f"0:{last + 1}")
    assert f"ends with position {last}" in line
    assert "from " in refused(store, "restore", second, "--data", data, "--to-position", "0:1")
    assert "has no partition 7" in refused(store, "restore", second, "--data", data, "--to-position", "7:1")
    # What no backup needs goes, but not within a day.
    files = {key for key in store.keys() if "/files/" in key}
    place = f"/backups/{first.removeprefix('s3://backups/')}/backup.json"
    removed = store.ask("GET", place)
    assert f"removed {first}\nremoved 0 files" in done(store, "backup", "prune", f"{WHERE}/nightly", "--keep", "1")
    assert {key for key in store.keys() if "/files/" in key} == files

    # One that comes while it is looked which files are needed keeps its own.
    def comes(method, target, _):
        if method == "GET" and "backup.json" in target:
            store.ask("PUT", place, removed)

    store.aged, store.harm = True, comes
    assert "removed 0 files" in done(store, "backup", "prune", f"{WHERE}/nightly", "--keep", "2")
    store.aged, store.harm = False, None
    assert "every checksum fits" in done(store, "verify", first)
    store.aged = True
    assert "removed 0 files" not in done(store, "backup", "prune", f"{WHERE}/nightly", "--keep", "1")
    store.aged = False
    assert {key for key in store.keys() if "/files/" in key} < files and len(store.backups()) == 1
    assert restored(store, second, tmp_path / "kept") == heads[1]


def test_a_store_that_fails_now_and_then_is_asked_again(store, served, tmp_path):
    server = served(memtable_bytes=1_048_576)
    dice = random.Random(8)
    head = fill(server, 11, lambda: dice.randbytes(10_000).hex())
    failed, harms = set(), [refusal(500, "InternalError"), refusal(503, "SlowDown"), "cut", 0.2]

    def harm(method, target, _):
        # Each request that is asked for the first time.
        if (method, target) not in failed:
            failed.add((method, target))
            return harms[len(failed) % len(harms)]

    store.harm = harm
    where, _ = backup(store, server)
    failed.clear()
    assert restored(store, where, tmp_path / "back") == head
    assert len(failed) > 3 and store.unfinished() == 0


def test_what_a_store_refuses_leaves_no_backup(store, tmp_path):
    data = stopped(store, tmp_path)
    words = ["backup", WHERE, "--data", data]

    def no_backup(says, *more, harm=None, place=None, environment=None):
        store.harm = harm
        line = refused(store, *(words if place is None else ["backup", place, "--data", data]), *more, environment=environment)
        store.harm = None
        assert says in line, line
        assert store.backups() == [] and sorted(path.name for path in tmp_path.iterdir()) == ["stopped"], line
        assert not pathlib.Path(data + ".backup-staging").exists()

    no_backup("refuses the credentials", environment={"AWS_SECRET_ACCESS_KEY": "another"})
    no_backup("refuses the credentials", environment={"AWS_ACCESS_KEY_ID": "another"})
    no_backup("there are no credentials", environment={"AWS_ACCESS_KEY_ID": ""})
    no_backup("the bucket is not there", place="s3://none/of/tests")
    no_backup("without TLS", environment={"AWS_ENDPOINT_URL": "http://192.0.2.1:9000"})
    no_backup("refused", environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    no_backup("no place in a bucket", place="s3://backups/../x")
    is_file = lambda method, target: method == "PUT" and "/files/" in target
    full = refusal(507, "QuotaExceeded", "the bucket's quota")
    no_backup("the bucket is full", harm=lambda method, target, _: full if is_file(method, target) else None)
    no_files = lambda method, target, _: refusal(403, "AccessDenied") if is_file(method, target) else None
    no_backup("refuses the credentials", harm=no_files)
    # The control: a manifest that goes before its files.
    with pytest.raises(AssertionError, match="backup.json"):
        no_backup("refuses the credentials", harm=no_files, environment={"TIDELINE_FAULT": "manifest_first"})
    [early] = store.backups()
    assert "not whole" in done(store, "backup", "list", WHERE)
    store.ask("DELETE", f"/backups/{early}")
    no_backup("AccessDenied", harm=lambda method, target, _: refusal(403, "AccessDenied") if "backup.json" in target and method == "PUT" else None)

    def vanishes(method, target, body):
        if method == "PUT" and "backup.json" in target:
            store.ask("DELETE", f"/backups/{FILES}{json.loads(body)['backup']['files'][0]['sha256']}")

    no_backup("is missing in the bucket, though it was sent; try again", harm=vanishes)
    # What was sent of these is used, and all is well in the end.
    sent = [key for key in store.keys() if key.startswith(FILES)]
    assert sent
    store.asked.clear()
    where = done(store, *words).split(": ")[0]
    assert not any(f"/backups/{key}" in target for key in sent for method, target in store.asked if method == "PUT")
    assert "every checksum fits" in done(store, "verify", where)
    assert "is a backup" in refused(store, "backup", where, "--data", data)
    # The same is there already: nothing is sent, unless it is to be.
    assert ", 0 of them new" in done(store, *words)
    assert ", 0 of them new" not in done(store, *words, "--full")


def test_secrets_come_back_from_a_store(store, tmp_path):
    data, files = stopped(store, tmp_path), [tmp_path / "right", tmp_path / "wrong"]
    for file in files:
        file.write_text(f"a passphrase, {file.name}")
        file.chmod(0o600)
    said = done(store, "backup", f"{WHERE}/sealed", "--data", data, "--secrets", "--passphrase-file", files[0])
    made, whole = said.split(": ")[0], tmp_path / "whole"
    assert "secrets are in it, sealed" in done(store, "verify", made)
    words = ["restore", made, "--data", whole, "--secrets", "--passphrase-file"]
    assert "the passphrase is not the one" in refused(store, *words, files[1])
    assert not whole.exists()
    assert "secrets of 0 keys" in done(store, *words, files[0])
    assert not (whole / "secrets.sealed").exists()


def test_a_cut_upload_is_none(store, served):
    server = served(memtable_bytes=1_048_576)
    dice = random.Random(9)
    fill(server, 11, lambda: dice.randbytes(10_000).hex())
    store.harm = lambda method, target, _: "cut" if "partNumber=2" in target else None
    line = refused(store, "backup", "nightly", "--url", server.origin)
    assert line.startswith(f"tideline: {WHERE}") and store.backups() == [] and store.unfinished() == 0
    # Cancelled while it is sent.
    store.harm = lambda method, target, _: 0.5 if method == "PUT" else None
    with Client(server) as client:
        status = lambda: client.call("backup.status")["backup"]
        client.call("backup.start", target="nightly")
        until(lambda: status()["state"] == "sending")
        assert client.call("backup.cancel") == {"cancelled": True}
        until(lambda: status()["state"] == "cancelled")
        assert store.backups() == [] and len(server.staged()) == 1
        # Killed while it is sent.
        client.call("backup.start", target="nightly")
        until(lambda: status()["state"] == "sending")
        server.kill()
    store.harm = None
    assert store.backups() == []
    server.start()
    where, _ = backup(store, server)
    assert "every checksum fits" in done(store, "verify", where) and len(server.staged()) == 1
    # A caller names no other place, and what was made for the folder stays.
    line = refused(store, "backup", WHERE, "--url", server.origin)
    assert 'set backup_bucket = "s3://backups/of/tests"' in line


def test_what_was_passed_on_of_another_history_keeps_no_backup_away(store, served):
    # As after a restore: the folder has the newest backup of the old history, and the bucket has another place.
    one = served()
    fill(one, 1)
    backup(store, one)
    old = one.staged()
    one.stop()
    two = served("two", backup_directory=f"{one.directory}/staging", backup_bucket=f"{WHERE}/again")
    assert done(store, "backup", "nightly", "--url", two.origin).startswith(f"{WHERE}/again/nightly/")
    assert len(one.staged()) == 1 and one.staged() != old


def test_backups_of_another_server_are_not_mixed_with(store, tmp_path):
    one, two = stopped(store, tmp_path, "one"), stopped(store, tmp_path, "two")
    # Two of one history at once: each is whole.
    shutil.copytree(one, tmp_path / "copy")
    made = []

    def make(data):
        ended = tideline(store, "backup", WHERE, "--data", data)
        if "in the same millisecond; try again" in ended.stderr:
            ended = tideline(store, "backup", WHERE, "--data", data)
        made.append(ended.stdout)

    threads = [threading.Thread(target=make, args=(data,)) for data in [one, tmp_path / "copy"]]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(made) == 2 == len(store.backups())
    for said in made:
        assert "every checksum fits" in done(store, "verify", said.split(": ")[0])
    store.asked.clear()
    assert "holds backups of another server" in refused(store, "backup", WHERE, "--data", two)
    assert not any(method in ["PUT", "POST"] for method, _ in store.asked)


def test_what_is_no_whole_backup_is_refused(store, tmp_path):
    data = stopped(store, tmp_path)
    where = done(store, "backup", WHERE, "--data", data).split(": ")[0]
    key = "/backups/" + where.removeprefix("s3://backups/") + "/backup.json"
    text = store.ask("GET", key)
    manifest = json.loads(text)["backup"]
    image = max(manifest["files"], key=lambda file: file["bytes"])
    file = f"/backups/{FILES}{image['sha256']}"
    whole = store.ask("GET", file)
    to = tmp_path / "made"

    def check(says, is_listed=True):
        for words in [["restore", where, "--data", to], ["verify", where]]:
            line = refused(store, *words)
            assert says in line, line
            assert not to.exists()
        if is_listed:
            assert done(store, "backup", "list", WHERE).startswith(f"{where}: not whole: ")

    store.ask("DELETE", file)
    check("is missing in the bucket")
    store.ask("PUT", file, whole[:-1])
    check("bytes in the bucket instead of")
    # Only whole ones are counted: the newest that is whole stays, whatever comes behind it.
    later = "/backups/of/tests/29991231T000000.000Z/backup.json"
    store.ask("PUT", file, whole)
    broken = json.loads(text)
    broken["backup"]["files"][0]["sha256"] = "0" * 64
    seal = lambda backup: json.dumps({"backup": backup, "sha256": hashlib.sha256(json.dumps(backup, separators=(",", ":")).encode()).hexdigest()}, separators=(",", ":")).encode()
    store.ask("PUT", later, seal(broken["backup"]))
    store.aged = True
    assert "removed s3" not in done(store, "backup", "prune", WHERE, "--keep", "1")
    store.aged = False
    assert "every checksum fits" in done(store, "verify", where)
    store.ask("PUT", later, b"{}")
    assert "nothing was removed" in refused(store, "backup", "prune", WHERE, "--keep", "1")
    store.ask("DELETE", later)
    # The control: a changed byte, which a length does not show. A full backup sends the file once more.
    store.ask("PUT", file, whole[:-1] + bytes([whole[-1] ^ 1]))
    check("has other bytes in the bucket", is_listed=False)
    done(store, "backup", WHERE, "--data", data, "--full")
    assert restored(store, where, tmp_path / "healed") == 3
    # A manifest that leads out of the folder, by a hand that knows how it is sealed.
    for path in ["data/../../../escaped", "/tmp/escaped", "../escaped"]:
        hostile = json.loads(text)["backup"]
        hostile["files"][0]["path"] = path
        store.ask("PUT", key, seal(hostile))
        check("is damaged", is_listed=False)
    assert not (tmp_path / "escaped").exists()
    store.ask("PUT", key, seal({**manifest, "format": 7}))
    check("has format 7", is_listed=False)
    assert "is not a backup" in refused(store, "restore", WHERE, "--data", to)
    assert "is a bucket" in refused(store, "verify", "s3://backups")
    store.ask("PUT", key, text)
    # It is not restored over anything, and its staging goes if it fails.
    to.mkdir()
    (to / "mine").write_text("mine")
    assert "is not empty" in refused(store, "restore", where, "--data", to)
    (to / "mine").unlink()
    small = f'ulimit -f 20; exec "{os.environ["TIDELINE_BIN"]}" restore "{where}" --data "{to}"'
    ended = subprocess.run(["bash", "-c", small], capture_output=True, text=True, env={**os.environ, **store.environment()})
    assert ended.returncode == 1 and list(to.iterdir()) == [], ended.stderr


def test_a_server_says_at_its_start_what_is_missing(store, tmp_path):
    for settings, environment, says in [
        ({}, {"AWS_SECRET_ACCESS_KEY": ""}, "there are no credentials"),
        ({"backup_directory": ""}, {}, "needs backup_directory"),
        ({"backup_bucket": "backups"}, {}, "is no place in a bucket"),
    ]:
        server = Offsite(tmp_path, store, **settings)
        server.environment = store.environment(**environment)
        with pytest.raises(RuntimeError, match=says):
            server.start()
