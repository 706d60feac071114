"""One shell for a page, in an empty directory, with a port of its own in place of 7070.

Owns: the shell, what it started, and the programs that a page takes for granted. Promises: all of it ends with the page.
Must not: know a page.
"""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

END = "-- the end of a command --"
PATIENCE = 120
COMMAND_S = 300
# `serve` is a server in the directory; with [tls] the page waits by itself.
PRELUDE = """
serve() { tideline serve "$@" 2>> server.log & server=$!; until curl -sf 127.0.0.1:$PORT/readyz > ready; do sleep 0.05; done; }
stop() { kill $server; wait $server 2> /dev/null; }
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)


class Shell:
    def __init__(self, directory, root):
        self.directory = directory
        # The server starts late: until then nobody else is to get its port.
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))
        self.port = self.held.getsockname()[1]
        self.running = []
        bin = directory / "bin"
        # In place of the environment that pages make: an interpreter with the suite's packages and the client.
        packages = os.pathsep.join([str(root / "clients" / "python"), *filter(None, sys.path)])
        python = f"#!/bin/sh\nPYTHONPATH='{packages}' exec '{sys.executable}' \"$@\"\n"
        for path in (directory / "venv" / "bin" / "python", bin / "python", bin / "python3"):
            program(path, python)
        for name, variable in (("tideline", "BIN"), ("tideline-load", "LOAD"), ("tideline-peers", "PEERS")):
            (bin / name).symlink_to(os.environ[f"TIDELINE_{variable}"])
        for folder in ("debug", "release"):
            (directory / "target" / folder).mkdir(parents=True)
            for name in ("tideline", "tideline-load", "tideline-peers"):
                (directory / "target" / folder / name).symlink_to(bin / name)
        for folder in ("tmp", "disk", "etc"):
            (directory / folder).mkdir()
        program(bin / "journalctl", "#!/bin/sh\necho 'a line of the log'\n")
        foreign = re.compile("tideline_.*|pythonpath|.*_proxy", re.IGNORECASE)
        kept = {name: text for name, text in os.environ.items() if not foreign.fullmatch(name)}
        self.environment = {
            **kept, "PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(directory), "PORT": str(self.port), "NO_COLOR": "1", "TERM": "xterm",
            "TIDELINE_LISTEN": f"127.0.0.1:{self.port}", "TIDELINE_URL": f"http://127.0.0.1:{self.port}",
        }
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=directory, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        self.run(PRELUDE)

    def run(self, command):
        """What it prints, and its exit code."""
        late = threading.Timer(COMMAND_S, lambda: os.killpg(self.process.pid, signal.SIGKILL))
        late.start()
        try:
            return self.answer(command)
        finally:
            late.cancel()

    def answer(self, command):
        self.process.stdin.write(f"{command}\ncode=$?; echo; echo '{END}' $code\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line.startswith(END):
                return "".join(said).strip("\n"), int(line.split()[-1])
            said.append(line)
        raise AssertionError(f"the shell ended at: {command}")

    def begin(self, command):
        """Runs it beside the shell, on a terminal, until the page ends."""
        ours, its = pty.openpty()
        with (self.directory / "complaints").open("ab") as complaints:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self.directory, env=self.environment, stdin=its, stdout=its, stderr=complaints, start_new_session=True
            )
        os.close(its)
        self.running.append((process, ours))
        return process, ours

    def sees(self, begun, wanted, meanwhile=None):
        """Waits until it has printed what the pattern says, and does something meanwhile, again and again."""
        (process, ours), said, until = begun, b"", time.monotonic() + PATIENCE
        while not re.fullmatch(wanted, text := said.decode(errors="replace").replace("\r", "").strip("\n"), re.DOTALL):
            is_early = time.monotonic() < until and process.poll() in (None, 0)
            assert is_early, f"printed {text!r} in place of {wanted!r}; {(self.directory / 'complaints').read_text()[-2000:]}"
            if meanwhile:
                meanwhile()
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    said += os.read(ours, 1 << 16)
                except OSError:  # it has ended
                    time.sleep(0.1)

    def end(self):
        for process, ours in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ours)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.held.close()
