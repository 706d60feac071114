"""Our package for LangGraph, as it is installed, and a line to the server on which that is killed."""

import itertools
import pathlib
import random
import signal
import subprocess
import sys
import threading

import pytest
from urllib3.exceptions import ProtocolError

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python-langgraph"


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The package, from its own wheel."""
    place = tmp_path_factory.mktemp("langgraph")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", place, PACKAGE], check=True, capture_output=True)
    sys.path.append(str(place))
    return place


class Kills:
    """Lies between the SDK and the server: each so-many-th request meets a kill, before, during or after it, and in the last case
    its answer is lost."""

    def __init__(self, server, client, every):
        self.server, self.every = server, every
        self.hows, self.count, self.kills = itertools.cycle(["before", "during", "after"]), itertools.count(1), 0
        self.chance, self.lock = random.Random(7), threading.Lock()
        connection = client.connection
        self.send, connection.send_receive = connection.send_receive, self.send_receive

    def send_receive(self, *request):
        with self.lock:
            if next(self.count) % self.every:
                return self.send(*request)
            self.kills += 1
            return getattr(self, next(self.hows))(*request)

    def before(self, *request):
        self.server.kill()
        try:
            return self.send(*request)
        finally:
            self.server.start()

    def during(self, *request):
        killer = threading.Timer(self.chance.uniform(0, 0.003), self.server.process.send_signal, [signal.SIGKILL])
        killer.start()
        try:
            return self.send(*request)
        finally:
            killer.join()
            self.server.restart(signal.SIGKILL)

    def after(self, *request):
        self.send(*request)
        self.server.restart(signal.SIGKILL)
        raise ProtocolError("the answer is lost")
