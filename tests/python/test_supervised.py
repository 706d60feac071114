"""What a server tells who has started it: systemd, or another program that listens at `NOTIFY_SOCKET`."""

import os
import socket
import subprocess
import time

import pytest

from client import Client
from server import Server


class Supervisor:
    """As systemd: a socket for datagrams, by a path or by a name without a file."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0"))
        self.socket.settimeout(20)

    def hears(self):
        return self.socket.recv(4096).decode()

    def has_heard(self):
        """All that lies there."""
        self.socket.setblocking(False)
        said = []
        try:
            while True:
                said.append(self.hears())
        except BlockingIOError:
            self.socket.settimeout(20)
            return said


@pytest.fixture
def supervised(tmp_path):
    """Starts a server with variables of systemd."""
    started = []

    def start(**environment):
        started.append(Server(tmp_path, environment=environment))
        return started[-1].start()

    start.of = started.append
    yield start
    for server in started:
        server.kill()


def server_command(server):
    """What its `start` begins, which then waits until it is ready: here that is left to the supervisor."""
    return [server.binary, "serve", "--data", server.data, "--listen", f"127.0.0.1:{server.port}"]


@pytest.mark.parametrize("named", [False, True])
def test_ready_comes_when_it_serves_and_stopping_when_it_begins_to_drain(tmp_path, supervised, named):
    address = f"@tideline-{os.getpid()}-{tmp_path.name}" if named else str(tmp_path / "notify")
    supervisor = Supervisor(address)
    server = Server(tmp_path)
    server.process = subprocess.Popen(server_command(server), env={**os.environ, "NOTIFY_SOCKET": address}, stderr=subprocess.DEVNULL)
    supervised.of(server)
    assert supervisor.hears() == "READY=1"
    # The first call is answered: nobody has to try again.
    assert server.get("/readyz")[0] == 200
    with Client(server) as client:
        server.process.terminate()
        assert supervisor.hears() == "STOPPING=1"
        assert server.process.poll() is None
        assert client.push("draining")
    assert server.process.wait(60) == 0
    # Without WATCHDOG_USEC there is nothing between the two.
    assert supervisor.has_heard() == []


def test_one_that_cannot_start_is_never_ready(tmp_path):
    supervisor = Supervisor(str(tmp_path / "notify"))
    server = Server(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.port))
        taken.listen()
        ended = subprocess.run(server_command(server), env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"tideline: 127.0.0.1:{server.port} is in use by another program; choose another with --listen" in ended.stderr
    assert supervisor.has_heard() == []


def test_it_says_again_and_again_that_it_lives(tmp_path, supervised):
    supervisor = Supervisor(str(tmp_path / "notify"))
    server = supervised(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="300000")
    assert [supervisor.hears() for _ in range(4)] == ["READY=1", *["WATCHDOG=1"] * 3]
    server.stop()


def test_a_watchdog_of_another_process_hears_nothing(tmp_path, supervised):
    supervisor = Supervisor(str(tmp_path / "notify"))
    server = supervised(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="3000", WATCHDOG_PID="1")
    time.sleep(0.1)
    assert supervisor.has_heard() == ["READY=1"]
    assert server.stop() == 0


@pytest.mark.parametrize("variables, why", [
    ({"NOTIFY_SOCKET": "/nowhere/notify"}, "NOTIFY_SOCKET cannot be used"),
    ({"NOTIFY_SOCKET": "@nobody-listens-here"}, "NOTIFY_SOCKET cannot be used"),
    ({"NOTIFY_SOCKET": "vsock:2:9"}, "neither a path from / nor a name after @"),
    ({"NOTIFY_SOCKET": "/" + "x" * 200}, "NOTIFY_SOCKET cannot be used"),
    ({"WATCHDOG_USEC": "soon"}, "WATCHDOG_USEC is no number of microseconds"),
])
def test_a_supervisor_that_cannot_be_told_holds_nothing_up(supervised, variables, why):
    server = supervised(**variables)
    assert why in server.whole_log()
    assert server.stop() == 0


def test_a_supervisor_that_goes_holds_nothing_up(tmp_path, supervised):
    supervisor = Supervisor(str(tmp_path / "notify"))
    server = supervised(NOTIFY_SOCKET=str(tmp_path / "notify"))
    assert supervisor.hears() == "READY=1"
    supervisor.socket.close()
    assert server.stop() == 0
    assert "the supervisor could not be told" in server.whole_log()
