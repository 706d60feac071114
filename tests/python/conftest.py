"""One shared server per worker, a fresh connection and a fresh timeline name per test."""

import itertools
import os
import uuid

import pytest

from client import Client, Refused
from fixtures import own_server, server  # noqa: F401, pytest finds them here
from guarded import Guarded, house_in
from through import pytest_collection_modifyitems  # noqa: F401, pytest finds it here

NUMBERS = itertools.count(1)


@pytest.fixture
def client(server):
    with Client(server) as connected:
        yield connected


@pytest.fixture
def other(server):
    with Client(server) as connected:
        yield connected


@pytest.fixture
def user():
    """One that no other test has."""
    return f"ada-{uuid.uuid4()}"


@pytest.fixture
def ada(server, user):
    with Client(server, user=user) as connected:
        yield connected


@pytest.fixture
def ann(server):
    with Client(server, user="ann") as connected:
        yield connected


@pytest.fixture
def ben(server):
    with Client(server, user="ben") as connected:
        yield connected


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A server with rules; the suites that need other ones have a house of their own."""
    running = house_in(tmp_path_factory.mktemp("house"))
    yield running
    running.kill()


@pytest.fixture
def packed(server):
    with Client(server, packed=True) as connected:
        yield connected


@pytest.fixture
def guard(tmp_path):
    """Starts a server with [auth] and other settings."""
    started = []

    def start(**options):
        started.append(Guarded(tmp_path, **options))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def name():
    """A timeline that no other test has, and whose name begins no other name."""
    return f"t-{os.getpid()}-{next(NUMBERS):05}"


@pytest.fixture
def refused():
    """Calls and checks that it is refused, with code, reason and, where told, field."""

    def check(client, method, code, reason=None, field=None, **params):
        with pytest.raises(Refused) as caught:
            client.call(method, **params)
        error = caught.value
        assert error.code == code, error
        assert isinstance(error.message, str) and error.message
        if reason is not None:
            assert error.reason == reason, error
        if field is not None:
            assert error.data.get("field") == field, error
        if code != -32602 or error.data:
            assert isinstance(error.data.get("retry"), bool), error
        return error

    return check
