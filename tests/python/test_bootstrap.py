"""The first administrator's key of a running server: `tideline key create --bootstrap`, and all that it refuses."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import pytest

from client import until
from guarded import SECRET, Guarded
from server import Server, free_port

NOBODY = 65534
# One that every user may run.
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
FAULTS = pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")


class Keyless(Guarded):
    """A server with [auth] that no key opens yet."""

    def __init__(self, directory, environment=None):
        Server.__init__(self, directory, environment=environment)
        self.limits, self.before, self.auth = "{}", "", ""
        self.secret_file("main.key", SECRET)
        self.configure("")

    @property
    def socket(self):
        return os.path.join(self.data, "bootstrap.sock")

    def is_open(self):
        return os.path.exists(self.socket)

    def bootstrap(self, *more, check=True):
        return self.key("create", "first", "--bootstrap", *more, check=check)

    def refused(self, *more):
        done = self.bootstrap(*more, check=False)
        assert (done.returncode, done.stdout) == (1, ""), done
        [line] = done.stderr.splitlines()
        return line

    def audited(self):
        return [line for line in self.whole_log().splitlines() if " audit: " in line]


@pytest.fixture
def keyless():
    """Below a folder that every user may enter."""
    started = []

    def start(**environment):
        started.append(Keyless(tempfile.mkdtemp(dir="/tmp"), environment))
        os.chmod(started[-1].directory, 0o755)
        started[-1].start()
        until(started[-1].is_open)
        return started[-1]

    yield start
    for server in started:
        server.kill()
        shutil.rmtree(server.directory)


def ask(server, line):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(server.socket)
        client.sendall(line + b"\n")
        return json.loads(client.makefile().readline())


def call(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


def test_the_first_key_is_made_once(keyless):
    server = keyless()
    mode = os.stat(server.socket).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    key = server.bootstrap()
    assert [one["name"] for one in server.call(key, "key.list")["keys"]] == ["first"]
    [line] = server.audited()[:1]
    assert f'who="$key/bootstrap uid {os.geteuid()}"' in line and 'method="key.create"' in line and 'outcome="ok"' in line
    assert key not in server.whole_log()
    until(lambda: not server.is_open())
    assert "it has an administrator's key" in server.refused()
    # Nor after a SIGHUP, or a restart.
    server.reconfigure("")
    server.restart()
    assert not server.is_open() and len(server.call(key, "key.list")["keys"]) == 1


def test_what_is_no_first_key_is_refused_and_changes_nothing(keyless):
    server = keyless()
    assert "admin on *" in server.refused("--allow", "room/*=read")
    assert "without --url" in server.refused("--url", server.origin)
    for line, reason in [
        (b"", "parse_error"), (b"{", "parse_error"), (b"\xff", "parse_error"), (b"[]", "invalid_request"),
        (b"x" * 60_000, "parse_error"), (call("key.list"), "forbidden"), (call("key.create", name="a b"), "invalid_params"),
        (b"[" + call("key.create", name="a", rights=[{"on": "*", "allow": ["admin"]}]) + b"]", "invalid_request"),
        (call("key.create", name="a b", rights=[{"on": "*", "allow": ["admin"]}]), "invalid_params"),
    ]:
        assert ask(server, line)["error"]["data"]["reason"] == reason, line
    # One that says nothing does not keep others out for long.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(server.socket)
        key = server.bootstrap("--allow", "*=admin,read")
    assert len(server.call(key, "key.list")["keys"]) == 1


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv") or not PYTHON, reason="needs root, setpriv and Python")
def test_another_user_gets_no_key(keyless):
    server = keyless()
    program = (
        "import socket, sys; client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1]);"
        "client.sendall(sys.argv[2].encode() + b'\\n'); print(client.makefile().readline())"
    )
    line = call("key.create", name="thief", rights=[{"on": "*", "allow": ["admin"]}]).decode()
    tries = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", PYTHON, "-c", program]
    attempt = lambda: subprocess.run([*tries, server.socket, line], capture_output=True, text=True, timeout=60)
    # The file's mode keeps them out; and if it did not, the system says who they are.
    assert "PermissionError" in attempt().stderr
    os.chmod(server.data, 0o755)
    os.chmod(server.socket, 0o666)
    assert json.loads(attempt().stdout)["error"]["data"]["reason"] == "forbidden"
    [line] = server.audited()
    assert f'who="$bootstrap uid {NOBODY}"' in line and 'outcome="forbidden"' in line
    # The control: the same words of the right user.
    assert server.call(server.bootstrap(), "key.list")["keys"][0]["name"] == "first"


@FAULTS
def test_after_its_time_there_is_none_until_a_sighup(keyless):
    server = keyless(TIDELINE_FAULT="bootstrap_ms:1500")
    until(lambda: not server.is_open())
    assert "ten minutes ago" in server.refused()
    server.process.send_signal(signal.SIGHUP)
    until(server.is_open)
    assert server.bootstrap()


def test_a_second_server_a_kill_and_a_stop(keyless, tmp_path):
    server = keyless()
    command = [server.binary, "serve", "--config", server.config_path, "--data", server.data, "--listen"]
    second = subprocess.run([*command, f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and "another process" in second.stderr
    assert server.is_open(), "the second one has taken the first one's socket away"
    server.kill()
    assert "it is not running" in server.refused()
    server.start()
    until(lambda: "makes one" in server.whole_log().rpartition("ready")[2] or server.is_open())
    server.stop()
    assert not server.is_open() and "it is not running" in server.refused()
    assert server.start() and server.bootstrap()


def test_without_auth_there_is_none(keyless):
    server = keyless()
    server.stop()
    server.config = ""
    server.start()
    assert "no server with [auth] waits here" in server.refused() and not server.is_open()
