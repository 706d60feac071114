"""A real server process on a temporary directory, for the tests to start, stop, kill and restart.

Owns: the child process. Promises: it is gone when the handle is closed. Must not: know the protocol beyond HTTP.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import time

from ports import free_port
from through import through

#: Seconds for a change of partitions: it is tried again after 1, 2, 4 … 30 s where calls would wait too long for it.
CHANGE_PATIENCE = 300
#: A directory is copied by some tests, and by default 256 MiB of it are empty.
RESERVE = str(4 << 20)


class Server:
    def __init__(self, directory, environment=None, config=None, tls=None):
        self.binary = os.environ["TIDELINE_BIN"]
        self.directory = str(directory)
        self.data = os.path.join(self.directory, "data")
        self.port = free_port()
        self.listen = "127.0.0.1"
        self.environment = environment or {}
        self.config = config
        # What a client of a server with TLS trusts: an ssl.SSLContext.
        self.tls = tls
        self.process = None
        # The second node, which is the one that is called.
        self.through = None

    @property
    def url(self):
        return f"{'wss' if self.tls else 'ws'}://127.0.0.1:{self.port}/v1/connect"

    @property
    def origin(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def config_path(self):
        return os.path.join(self.directory, "tideline.toml")

    def write_config(self):
        # It may hold secrets.
        with open(os.open(self.config_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self.config)
        if self.through:
            self.through.write(self)

    def start(self):
        command = [self.binary, "serve", "--data", self.data, "--listen", f"{self.listen}:{self.port}"]
        if self.config is not None:
            self.write_config()
            command += ["--config", self.config_path]
        environment = {"TIDELINE_RESERVE_BYTES": RESERVE, **os.environ, **self.environment}
        if os.environ.get("TIDELINE_THROUGH") == "standby":
            self.through = through(self, free_port)
            command = self.through.start(self, environment)
        with open(os.path.join(self.directory, "server.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.answers("/readyz"):
                return self
            time.sleep(0.01)
        raise RuntimeError(f"the server was not ready in time: {self.log()}")

    def answers(self, path="/healthz"):
        """Whether it does by now; it must not have ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended: {self.log()}")
        try:
            return self.get(path)[0] == 200
        except OSError:
            return False

    def whole_log(self):
        with open(os.path.join(self.directory, "server.log"), errors="replace") as log:
            return log.read()

    def log(self):
        return self.whole_log()[-4000:]

    def memory(self, what="VmRSS"):
        """Resident bytes of the process; with `VmHWM` the most that there have been."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith(what))
        return int(line.split()[1]) << 10

    def stop(self, how=signal.SIGTERM):
        """Ends the process and returns its exit code."""
        if self.process is None:
            return None
        if self.through:
            self.through.stop(how)
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def kill(self):
        self.stop(signal.SIGKILL)

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        return self.start()

    def http(self, method, path, body=None, headers=None):
        """One HTTP request; returns (status, headers, body bytes)."""
        # Figures are each node's own.
        port = self.through.owner_port if self.through and path == "/metrics" else self.port
        if self.tls:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=self.tls)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.http("GET", path, headers=headers)

    def rpc(self, bearer, method, acting=None, **params):
        """A call over HTTP, with a credential or None: status, headers and body."""
        headers = {"content-type": "application/json"}
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        if acting is not None:
            headers["tideline-user"] = acting
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.http("POST", "/v1/rpc", body, headers)

    def metrics(self):
        return self.get("/metrics")[2].decode()

    def metric(self, name, labels=""):
        """The sum of a metric, or of the series whose labels begin so."""
        series = re.escape(name + labels) if labels else name + "[ {]"
        return sum(float(line.rsplit(" ", 1)[1]) for line in re.findall(f"^{series}.*", self.metrics(), re.M))
