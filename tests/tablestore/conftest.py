"""One shared server per worker with the configuration as shipped; tables that go away with their test.

`server` is the process handle of `tests/python/server.py`.
"""

import itertools

import pytest
from tablestore import CapacityUnit, OTSServiceError, ReservedThroughput, TableMeta, TableOptions

from agents import installed  # noqa: F401, pytest finds it here
from sdk import STRING_KEY, connect
from fixtures import own_server, server  # noqa: F401, pytest finds them here
from through import pytest_collection_modifyitems  # noqa: F401, pytest finds it here

NUMBERS = itertools.count(1)


@pytest.fixture
def client(server):
    return connect(server)


@pytest.fixture
def make_table(client):
    """Makes a table that no other test has, and deletes it after the test."""
    made = []

    def make(key=STRING_KEY, defined=None, throughput=(0, 0), indexes=(), **options):
        name = f"table_{next(NUMBERS)}"
        meta = TableMeta(name, list(key), defined)
        reserved = ReservedThroughput(CapacityUnit(*throughput))
        client.create_table(meta, TableOptions(**options), reserved, list(indexes))
        made.append(name)
        return name

    yield make
    for name in made:
        try:
            client.delete_table(name)
        except OTSServiceError as gone:
            assert gone.code == "OTSObjectNotExist", gone


@pytest.fixture
def table(make_table):
    """A table with one text as key."""
    return make_table()
