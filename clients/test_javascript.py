"""The own tests of the JavaScript packages, in Node."""

import os
import pathlib
import subprocess

import pytest

HOME = pathlib.Path(__file__).resolve().parent / "javascript"


@pytest.mark.skipif(not HOME.is_dir(), reason="there is none")
@pytest.mark.parametrize("folder", [HOME, HOME / "ai"], ids=["tideline", "tideline-ai"])
def test_its_own_suite(folder):
    ran = subprocess.run([os.environ.get("TIDELINE_NODE", "node"), "--test", "test/"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
