"""The secrets of signing keys in a backup: there for who has the passphrase, and in no other way."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from guarded import Guarded, list_tables
from test_backup import Spoilt

PASSPHRASE = "a passphrase of the test"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A stopped server with a signing key, the key, and backups with and without its secret."""
    folder = tmp_path_factory.mktemp("secrets")
    server = Guarded(folder)
    key = server.key("create", "tables", "--allow", "*=admin", "--signing")
    with_secrets = backup(server, folder / "with", "--secrets", passphrase=PASSPHRASE)
    return server, key, with_secrets, backup(server, folder / "without")


def tideline(server, *words, passphrase=None):
    environment = {**os.environ, **({} if passphrase is None else {"TIDELINE_PASSPHRASE": passphrase})}
    command = [server.binary, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert "panicked" not in ended.stderr and PASSPHRASE not in ended.stdout + ended.stderr
    return ended


def done(server, *words, **options):
    ended = tideline(server, *words, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def refusal(server, *words, **options):
    ended = tideline(server, *words, **options)
    line = ended.stderr.strip()
    assert ended.returncode == 1 and line.startswith("tideline: ") and "\n" not in line, (ended.stdout, line)
    return line


def backup(server, to, *words, **options):
    return pathlib.Path(done(server, "backup", to, "--data", server.data, *words, **options).split(": ")[0])


def status(server, data, key):
    """What a signed request is answered by a server on a directory."""
    shutil.rmtree(server.data)
    shutil.move(data, server.data)
    server.start()
    try:
        return list_tables(server, key[3:15], key[-43:])
    finally:
        server.stop()


def test_secrets_come_back_with_the_passphrase(made, tmp_path):
    server, key, source, without = made
    assert "secrets are in it, sealed" in done(server, "verify", source)
    assert "secrets" not in done(server, "verify", without)
    secret = key[-43:].encode()
    files = [path for path in source.rglob("*") if path.is_file()]
    assert not [path for path in files if secret in path.read_bytes() or PASSPHRASE.encode() in path.read_bytes()]
    assert source.stat().st_mode & 0o077 == 0
    whole, plain = tmp_path / "whole", tmp_path / "plain"
    file = server.secret_file("passphrase", PASSPHRASE.encode())
    said = done(server, "restore", source, "--data", whole, "--secrets", "--passphrase-file", file)
    assert "secrets of 1 keys" in said
    restored = whole / "keys" / key[3:15]
    assert restored.read_bytes() == secret and restored.stat().st_mode & 0o777 == 0o600
    assert not (whole / "secrets.sealed").exists() and (whole / "positions.key").exists()
    # The same without: the key is there, and does not count.
    assert "secrets of" not in done(server, "restore", source, "--data", plain)
    assert not (plain / "keys").exists()
    assert status(server, plain, key) == 403
    assert status(server, whole, key) == 200


def test_what_does_not_open_them_is_refused_and_nothing_is_made(made, tmp_path):
    server, _, source, without = made
    data = tmp_path / "made"

    def refused(what, *words, of=source, **options):
        line = refusal(server, "restore", of, "--data", data, "--secrets", *words, **options)
        assert what in line and not data.exists(), line

    refused("the passphrase is not the one that it was sealed with", passphrase="another passphrase")
    refused("--secrets needs a passphrase: name its file with --passphrase-file, or set TIDELINE_PASSPHRASE")
    refused("11 bytes, but must have 12 or more", passphrase="x" * 11)
    refused("no-such-file: ", "--passphrase-file", tmp_path / "no-such-file")
    refused("others can read", "--passphrase-file", server.secret_file("open", PASSPHRASE.encode(), mode=0o644))
    refused("holds no secrets, because it was made without --secrets", of=without, passphrase=PASSPHRASE)
    for what, spoil in [
        ("instead of", lambda path: path.write_bytes(path.read_bytes()[:-1])),
        ("has other bytes", lambda path: path.write_bytes(b"x" + path.read_bytes()[1:])),
        ("is missing", lambda path: path.unlink()),
    ]:
        spoilt = Spoilt(source, tmp_path / "spoilt")
        path = spoilt.path / "data" / "secrets.sealed"
        path.chmod(0o600)
        path.parent.chmod(0o700)
        spoil(path)
        refused(what, of=spoilt.path, passphrase=PASSPHRASE)
        shutil.rmtree(spoilt.path)
    line = refusal(server, "backup", "x", "--url", server.origin, "--secrets", passphrase=PASSPHRASE)
    assert "set backup_passphrase_file there" in line
    refused_backup = tmp_path / "refused"
    words = ["backup", refused_backup, "--data", server.data, "--secrets"]
    assert "11 bytes" in refusal(server, *words, passphrase="x" * 11)
    assert not refused_backup.exists()


def test_a_server_seals_them_if_its_settings_say_so(tmp_path):
    backups = tmp_path / "backups"
    backups.mkdir()
    (tmp_path / "passphrase").write_text(PASSPHRASE + "\n")
    (tmp_path / "passphrase").chmod(0o600)
    settings = {"backup_directory": str(backups), "backup_passphrase_file": str(tmp_path / "passphrase")}
    server = Guarded(tmp_path, before="".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    key = server.key("create", "tables", "--allow", "*=admin", "--signing")
    server.start()
    try:
        words = ["backup", "all", "--url", server.origin]
        environment = {**os.environ, "TIDELINE_KEY": server.admin}
        ended = subprocess.run([server.binary, *words], capture_output=True, text=True, timeout=120, env=environment)
        assert ended.returncode == 0, ended.stderr
    finally:
        server.stop()
    source = pathlib.Path(ended.stdout.split(": ")[0])
    said = done(server, "restore", source, "--data", tmp_path / "whole", "--secrets", passphrase=PASSPHRASE)
    assert "secrets of 1 keys" in said
    assert status(server, tmp_path / "whole", key) == 200
    (tmp_path / "passphrase").write_text("short")
    with pytest.raises(RuntimeError) as why:
        server.start()
    assert "backup_passphrase_file: " in str(why.value) and "5 bytes" in str(why.value)
