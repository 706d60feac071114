"""The JavaScript client's own tests, in Node."""

import os
import pathlib
import subprocess

import pytest

HOME = pathlib.Path(__file__).resolve().parent / "javascript"


@pytest.mark.skipif(not HOME.is_dir(), reason="there is none")
def test_its_own_suite():
    ran = subprocess.run([os.environ.get("TIDELINE_NODE", "node"), "--test", "test/"], cwd=HOME, capture_output=True, text=True)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
