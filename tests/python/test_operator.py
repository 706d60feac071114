"""What an operator is told when the server can't start: one clear line on standard error, exit code 1, at once."""

import json
import os
import socket
import subprocess

import pytest

from certificates import DAY, Authority, now
from client import Client
from server import free_port


@pytest.fixture
def refusal(own_server):
    """Starts a server that must not start; returns its one line."""

    def run(data, port=None):
        ended = subprocess.run(
            [own_server.binary, "serve", "--data", str(data), "--listen", f"127.0.0.1:{port or free_port()}"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "TIDELINE_LOG": "error"},
        )
        assert ended.returncode == 1, (ended.returncode, ended.stderr)
        assert ended.stdout == ""
        lines = ended.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("tideline: "), lines
        assert "panicked" not in ended.stderr
        return lines[0]

    return run


def test_a_port_in_use(tmp_path, refusal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(tmp_path / "data", port)
    assert f"127.0.0.1:{port} is in use" in line and "--listen" in line
    assert not (tmp_path / "data").exists()


def test_a_directory_that_cannot_be_made_or_written(tmp_path, refusal):
    (tmp_path / "file").write_text("not a folder")
    for data in [tmp_path / "file", tmp_path / "file" / "data"]:
        line = refusal(data)
        assert str(data) in line and "cannot" in line
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_without_permission(tmp_path, refusal):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "denied" in refusal(tmp_path / "closed" / "data")


def test_a_directory_of_another_version_is_not_touched(own_server, refusal):
    own_server.start()
    own_server.stop()
    manifest = os.path.join(own_server.data, "directory.toml")
    with open(manifest) as file:
        text = file.read()
    assert "format = 3" in text
    newer = text.replace("format = 3", "format = 4") + "something_new = true\n"
    with open(manifest, "w") as file:
        file.write(newer)
    line = refusal(own_server.data)
    assert own_server.data in line and "format 4" in line and "format 3" in line
    with open(manifest) as file:
        assert file.read() == newer
    with open(manifest, "w") as file:
        file.write("format = ")
    line = refusal(own_server.data)
    assert "directory.toml" in line


def test_a_second_process_on_one_directory(own_server, refusal):
    own_server.start()
    line = refusal(own_server.data)
    assert "another process" in line and own_server.data in line
    for command in ["verify", "dump"]:
        ended = subprocess.run([own_server.binary, command, own_server.data], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and "another process" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    with Client(own_server) as client:
        assert client.append("t")["sequence"] == 1


def test_a_folder_with_other_things_in_it(tmp_path, refusal):
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    line = refusal(home)
    assert str(home) in line and "not a Tideline data directory" in line
    assert [entry.name for entry in home.iterdir()] == ["letter.txt"]


def test_an_address_that_others_reach_has_to_be_wanted(own_server, tmp_path):
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TIDELINE_")}

    def start(listen, *flags, **environment):
        process = subprocess.Popen(
            [own_server.binary, "serve", "--data", str(tmp_path / "data"), "--listen", listen, *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**ours, **environment},
        )
        said = ""
        for line in process.stderr:
            said += line
            if " ready " in line:
                process.terminate()
        return process.wait(60), said

    for listen in ["0.0.0.0:0", "[::]:0"]:
        code, said = start(listen)
        assert code == 1 and len(said.splitlines()) == 1, said
        assert "no authentication" in said and "--insecure" in said and "insecure = true" in said
        assert not (tmp_path / "data").exists()
    # The settings in force can be looked at all the same.
    command = [own_server.binary, "config", "--listen", "0.0.0.0:7070"]
    assert 'listen = "0.0.0.0:7070"' in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for code, said in [start("0.0.0.0:0", "--insecure"), start("0.0.0.0:0", TIDELINE_INSECURE="true")]:
        assert code == 0 and "WARN" in said and "insecure" in said, said
        assert "key development" not in said
    for listen in ["127.0.0.1:0", "localhost:0"]:
        code, said = start(listen)
        assert code == 0 and "WARN" not in said and "key development" in said, said
    code, said = start("127.0.0.1:0", TIDELINE_TABLESTORE_CREDENTIALS="me:a-secret-of-thirty-bytes-or-more")
    assert code == 0 and "key development" not in said, said


def test_an_address_that_is_none_is_refused_with_an_example(own_server, tmp_path):
    for listen in ["localhost", "7074", ":7074", "localhost:port", "127.0.0.1"]:
        command = [own_server.binary, "serve", "--data", str(tmp_path / "data"), "--listen", listen]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0 and "like 127.0.0.1:7070 or localhost:7070" in ended.stderr, ended.stderr


def test_a_refused_page_or_name_is_told_once_with_what_to_set(own_server):
    own_server.start()
    for _ in range(50):
        for headers in [{"Origin": "https://chat.example"}, {"Host": "tideline.example:7070"}]:
            status, _, body = own_server.get("/", headers)
            assert status == 403
    assert b'set allowed_hosts = ["tideline.example"]' in body
    warned = [line for line in own_server.log().splitlines() if "WARN" in line and "allowed_" in line]
    assert len(warned) == 2, warned
    assert 'allowed_origins = ["https://chat.example"]' in warned[0]
    assert 'allowed_hosts = ["tideline.example"]' in warned[1]


def test_looking_at_what_is_not_there_makes_nothing(own_server, tmp_path):
    for command in ["verify", "dump"]:
        missing = tmp_path / "missing"
        ended = subprocess.run([own_server.binary, command, str(missing)], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert len(ended.stderr.splitlines()) == 1 and str(missing) in ended.stderr
        assert "it has no directory.toml" in ended.stderr and "empty" not in ended.stderr
        assert not missing.exists()
        shown = subprocess.run([own_server.binary, command, "--help"], capture_output=True, text=True, timeout=60).stdout
        assert "--config" in shown and "--listen" not in shown and "--partitions" not in shown


def test_keys_of_a_directory_that_is_not_there_are_none(own_server, tmp_path):
    missing = tmp_path / "missing"
    command = lambda *words: subprocess.run([own_server.binary, "key", *words, "--data", str(missing)], capture_output=True, text=True, timeout=60)
    for words in (["list"], ["revoke", "abcdefghijkl"]):
        ended = command(*words)
        assert ended.returncode == 1 and ended.stdout == ""
        assert str(missing) in ended.stderr and "it has no directory.toml" in ended.stderr
        assert not missing.exists()
    # The first key makes it.
    assert command("create", "admin", "--allow", "*=admin").returncode == 0
    assert json.loads(command("list").stdout)["name"] == "admin"


def test_the_printed_number_of_partitions_fits_every_directory(own_server):
    # `tideline config` prints what fits every directory.
    printed = subprocess.run([own_server.binary, "config"], capture_output=True, text=True, timeout=60, env={})
    assert "partitions = 0\n" in printed.stdout


def test_a_name_that_others_have_needs_the_same(own_server):
    own_server.environment = {"TIDELINE_ALLOWED_HOSTS": "localhost,chat.example"}
    with pytest.raises(RuntimeError, match="allowed_hosts has `chat.example`.*insecure = true"):
        own_server.start()
    own_server.environment["TIDELINE_INSECURE"] = "true"
    own_server.start()
    assert own_server.get("/console/", {"Host": "chat.example"})[0] == 200


def test_the_doctor_says_what_would_hurt(own_server, tmp_path):
    def doctor(config, *flags):
        (tmp_path / "doctor.toml").write_text(config)
        command = [own_server.binary, "doctor", own_server.data, "--config", str(tmp_path / "doctor.toml"), *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout

    def state(config, check):
        code, said = doctor(config, "--json")
        found = [one for one in json.loads(said) if one["check"] == check]
        assert len(found) == 1, said
        assert (code == 1) == any(one["state"] == "fail" for one in json.loads(said))
        return found[0]["state"], found[0]

    code, said = doctor("")
    assert code == 0 and all(line[:4] in ("ok  ", "warn") for line in said.splitlines()), said
    for check in ["configuration", "descriptors", "file system", "disk sync", "map", "clock", "exposure"]:
        assert f" {check}: " in said
    assert not os.path.exists(own_server.data)
    # Beside a server, too.
    own_server.start()
    assert doctor("")[0] == 0
    assert state("heartbeat = 1\n", "configuration")[0] == "fail"
    assert state('listen = "0.0.0.0:7070"\n', "exposure")[0] == "fail"
    assert state('listen = "0.0.0.0:7070"\ninsecure = true\n', "exposure")[0] == "warn"
    vain = '[[policy]]\nprefix = "room/"\nothers = ["read"]\n'
    assert state(vain, "policies")[0] == "warn" and " policies: " not in doctor('[[policy]]\nprefix = "room/"\n')[1]
    authority = Authority(tmp_path)
    for end, expected in [(now() + 20 * DAY, "ok"), (now() + 10 * DAY, "warn"), (now() - DAY, "fail")]:
        certificate, key = authority.issue("served", end)
        tls = f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n'
        assert state(tls, "certificate")[0] == expected
        assert state(tls, "secret")[0] == "ok"
    os.chmod(key, 0o604)
    assert state(tls, "secret")[0] == "fail"
    with open(key) as text:
        assert not set(text.read().splitlines()) & set(json.dumps(state(tls, "certificate")[1]).split("\\n"))


def test_the_doctor_tries_keys_and_the_passphrase(own_server, tmp_path):
    def state(config, check):
        (tmp_path / "doctor.toml").write_text(config)
        command = [own_server.binary, "doctor", own_server.data, "--config", str(tmp_path / "doctor.toml"), "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        [found] = [one for one in json.loads(ended.stdout) if one["check"] == check]
        assert (ended.returncode == 1) == (found["state"] == "fail"), ended.stdout
        return found["state"], found["found"]

    def file(text, mode=0o600):
        path = tmp_path / "file"
        path.write_text(text)
        path.chmod(mode)
        return path

    def keys(setting):
        return state(f"[auth]\n{setting}\n", "token keys")

    shared = json.dumps({"keys": [{"kty": "oct", "kid": "a", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]})
    assert keys(f'public_key_files = ["{tmp_path}/none.pem"]')[0] == "fail"
    assert keys(f'public_key_files = ["{file("text")}"]')[0] == "fail"
    assert keys(f'jwks_file = "{tmp_path}/none.json"')[0] == "fail"
    assert keys(f'jwks_file = "{file("[]")}"')[0] == "fail"
    for mode, expected in [(0o644, "fail"), (0o600, "ok")]:
        found, said = keys(f'jwks_file = "{file(shared, mode)}"')
        assert found == expected and "MDEyMzQ1" not in said
    sealed = lambda path: state(f'backup_passphrase_file = "{path}"\n', "backup passphrase")[0]
    assert sealed(tmp_path / "none") == sealed(file("short")) == sealed(file("long enough for it", 0o644)) == "fail"
    assert sealed(file("long enough for it")) == "ok"
