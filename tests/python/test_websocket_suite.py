"""The WebSocket below the protocol, by a suite of others: kosoku, which has the cases of Autobahn's.

A build with faults answers each message with itself (`TIDELINE_FAULT=echoes`); all else is the server as it is. What is
not offered, compression, is left out, as are messages above a frame's limit. The control is a server that does not echo.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from server import Server

SUITE = shutil.which("kosoku") or shutil.which("kosoku", path=pathlib.Path(sys.executable).parent)
#: All but those about messages of megabytes (9) and about compression (12, 13).
CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
pytestmark = [
    pytest.mark.skipif(SUITE is None, reason="kosoku is not installed"),
    pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults"),
]


def behaviours(folder, cases, fault):
    """How the server behaved in each case."""
    server = Server(folder, environment={"TIDELINE_FAULT": fault or ""}).start()
    try:
        chosen = [word for case in cases for word in ("-i", case)]
        out = folder / "reports"
        ran = subprocess.run([SUITE, "-p", "4", "-o", out, *chosen, server.url], capture_output=True, text=True)
        (index,) = out.rglob("index.json")
        (found,) = json.loads(index.read_text()).values()
        assert found, ran.stdout + ran.stderr
        return {case: (said["behavior"], said["behaviorClose"]) for case, said in found.items()}
    finally:
        server.kill()


def test_no_case_fails(tmp_path):
    found = behaviours(tmp_path, CASES, "echoes")
    assert len(found) >= 240
    bad = {case: said for case, said in found.items() if {*said} - {"OK", "NON-STRICT", "INFORMATIONAL"}}
    assert bad == {}


def test_the_suite_notices_a_server_that_does_not_echo(tmp_path):
    found = behaviours(tmp_path, ["1.1.*"], None)
    assert "FAILED" in {said for said, _ in found.values()}
