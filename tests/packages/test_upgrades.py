"""Back and forth between two versions on one directory: the release before writes, this one goes on, that one again.

Promises: nothing is lost or renumbered on the way, whoever serves, and `verify` has nothing to say; where a format
has risen, the older version says so and changes nothing. TIDELINE_OLD names the binary of the release before. Must not:
guess whether a format has risen; the older program's refusal says so.
"""

import json
import os
import subprocess

import pytest

from places import BINARY
from server import Server

OLD = os.environ.get("TIDELINE_OLD")


def life(folder, binary, number):
    """One server's: what it finds of the lives before, and what it adds."""
    server = Server(folder)
    server.binary = binary
    server.start()

    def asked(*command):
        said = subprocess.run([binary, *command, "--url", server.origin], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in said.stdout.splitlines()]

    found = [(one["sequence"], one["entry"]["text"]) for one in asked("history", "log", "--last", "1000")] if number else []
    answers = asked("send", "log", f"life {number}", "--id", f"life-{number}")
    # A repeat of what another version took is the same message.
    again = asked("send", "log", "life 0", "--id", "life-0")[0]
    assert server.stop() == 0
    verified = subprocess.run([binary, "verify", server.data], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return found, answers[0], again


def is_refused(data):
    """Whether a format has risen: then the older version names the number, and leaves everything as it is."""
    if subprocess.run([OLD, "verify", data], capture_output=True).returncode == 0:
        return False
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    served = subprocess.run([OLD, "serve", "--data", data, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
    assert served.returncode != 0 and " format " in served.stderr.splitlines()[-1], served.stderr
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    return True


@pytest.mark.skipif(not OLD, reason="TIDELINE_OLD names no binary of the release before")
def test_an_older_version_goes_on_with_what_a_newer_one_wrote(tmp_path):
    lives = [life(tmp_path, binary, number) for number, binary in enumerate([OLD, BINARY])]
    rest = [BINARY] if is_refused(tmp_path / "data") else [OLD, BINARY]
    lives += [life(tmp_path, binary, number) for number, binary in enumerate(rest, 2)]
    for number, (found, answer, again) in enumerate(lives):
        assert found == [(one + 1, f"life {one}") for one in range(number)]
        assert answer["sequence"] == number + 1 and answer["epoch"] == lives[0][1]["epoch"]
        assert again["sequence"] == 1 and again["duplicate"] is True
