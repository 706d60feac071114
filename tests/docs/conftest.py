"""The pages, each with a shell of its own."""

import pathlib

import pytest

from shell import Shell

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def shell(tmp_path):
    running = Shell(tmp_path, ROOT)
    yield running
    running.end()
