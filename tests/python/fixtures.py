"""The servers that every suite's tests run against.

`server` is shared by a worker and has the configuration as shipped; `own_server` is a test's own.
"""

import pytest

from server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("shared")).start()
    yield running
    running.kill()


@pytest.fixture
def own_server(tmp_path):
    """A server of the test's own, to be stopped and killed; not yet started."""
    running = Server(tmp_path)
    yield running
    running.kill()
