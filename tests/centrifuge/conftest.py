"""The two set-ups from which users of Centrifugo start; a server of each is shared by the tests of a file."""

import pytest

from sdk import INSECURE, TOKENS, Centrifuge
from through import pytest_collection_modifyitems  # noqa: F401, pytest finds it here


@pytest.fixture(scope="module")
def insecure(tmp_path_factory):
    running = Centrifuge(tmp_path_factory.mktemp("insecure"), config=INSECURE).start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    running = Centrifuge(tmp_path_factory.mktemp("tokens"), config=TOKENS).start()
    yield running
    running.kill()


@pytest.fixture
def own(tmp_path):
    """A server of the test's own, to be killed; not yet started."""
    running = Centrifuge(tmp_path, config=INSECURE)
    yield running
    running.kill()
