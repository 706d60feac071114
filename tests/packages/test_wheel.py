"""The wheel that carries the server: built, installed into an environment of its own, and run from there."""

import json
import re
import subprocess
import sys
import zipfile

import pytest

from places import BINARY, IS_WHOLE, PACKAGING
from server import Server

BUILD = PACKAGING / "wheel" / "build.py"
sys.path.insert(0, str(BUILD.parent))

import build  # noqa: E402, its folder is on the path only now


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # A release packs as small as it can; the test command has no time for that.
    return build.build(type(BUILD)(BINARY), tmp_path_factory.mktemp("wheel"), level=9 if IS_WHOLE else 1)


def test_its_name_says_what_it_runs_on(wheel):
    assert re.fullmatch(r"tideline_server-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as files:
        assert files.testzip() is None
        assert {name.split("/", 1)[1] for name in files.namelist()} == {"scripts/tideline", "METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}


def test_pip_puts_the_server_on_the_path(tmp_path, wheel, monkeypatch):
    packages = tmp_path / "prefix"
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--prefix", packages, wheel]
    subprocess.run(command, check=True)
    installed = packages / "bin" / "tideline"
    # The binary itself, no program of Python that starts it.
    assert installed.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("TIDELINE_BIN", str(installed))
    server = Server(tmp_path).start()
    try:
        said = subprocess.run([installed, "send", "lobby", "hello", "--url", server.origin], capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["sequence"] == 1
    finally:
        assert server.stop() == 0


def test_what_is_no_binary_of_linux_is_refused(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for arguments in ([], [tmp_path / "nothing", tmp_path / "out"], [tmp_path / "script", tmp_path / "out"]):
        said = subprocess.run([sys.executable, BUILD, *arguments], capture_output=True, text=True)
        assert said.returncode != 0 and said.stderr and not (tmp_path / "out").exists()
