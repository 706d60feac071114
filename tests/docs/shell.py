"""The session of docs/ACCESS.md in one shell, as it is printed there: its commands and programs, its settings, and what they print.

Only the port is another, and `pip install` is left out: the suite has its packages.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from test_readme import pattern, section

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "ACCESS.md"
TITLE = "From nothing to a server with TLS, tokens and keys"
END = "-- the end of a command --"
# What changes nothing is looked at again: a reload and a push come a moment later.
LOOKS = ("cat ", "tail ", "grep ", "readyz", "message.range", " ping ")


def blocks(text):
    """Each block of the section with its kind, and the name that it is to be saved by."""
    for found in re.finditer(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        names = re.findall(r"as\s+`([\w.]+)`", text[: found.start()])
        yield found[1], found[2], names[-1] if names else None


def commands(block):
    """Each command of a console block, and what is printed below it."""
    for call in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = call.splitlines()
        # A command is as long as the shell says that it goes on.
        for length in range(1, len(lines) + 1):
            command = "\n".join(lines[:length])
            read = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
            if read.returncode == 0 and not read.stderr and not command.endswith("\\"):
                break
        # An answer on broken lines is one line.
        yield command, re.sub(r"\n +", "", "\n".join(lines[length:]))


class Shell:
    """One shell for the whole page, in an empty directory."""

    def __init__(self, directory):
        home = os.path.dirname(os.environ["TIDELINE_BIN"])
        foreign = re.compile("tideline_.*|pythonpath|.*_proxy", re.IGNORECASE)
        kept = {name: text for name, text in os.environ.items() if not foreign.fullmatch(name)}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={**kept, "PATH": f"{home}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command):
        """What it prints."""
        self.process.stdin.write(f"{command}\necho; echo '{END}'\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line == f"{END}\n":
                return "".join(said).strip("\n")
            said.append(line)
        raise AssertionError(f"the shell ended at: {command}")

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def shell(tmp_path):
    # In place of the environment that the page makes: an interpreter with the suite's packages.
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{os.pathsep.join(filter(None, sys.path))}' exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o700)
    running = Shell(tmp_path)
    yield running
    running.end()


def check(shell, command, printed):
    # A line that is … alone stands for any number of them.
    wanted = "\n".join("(?s:.*)" if line == "…" else pattern(line) for line in printed.splitlines())
    until = time.monotonic() + 20
    while not re.fullmatch(wanted, got := shell.run(command)):
        is_soon = any(word in command for word in LOOKS) and time.monotonic() < until
        assert is_soon, f"{command}\nprinted {printed}\ngot {got}"
        time.sleep(0.5)


@pytest.mark.skipif(not all(map(shutil.which, ["bash", "curl", "openssl"])), reason="the page needs bash, curl and openssl")
def test_the_page_runs_as_it_is_printed(shell, tmp_path):
    count = 0
    with socket.socket() as held:
        # The server starts late: until then nobody else is to get its port.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        for kind, text, name in blocks(section(TITLE, PAGE).replace("7070", port)):
            if kind != "console":
                (tmp_path / name).write_text(text)
                continue
            for command, printed in commands(text):
                if not command.startswith("python3 -m venv"):
                    check(shell, command, printed)
                    count += 1
    assert count > 40
