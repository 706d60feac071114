"""Three NATS servers on this machine, with the settings that `tideline cluster nats-config` writes.

Owns: their processes. Promises: each has a folder of its own; none is left when they are closed. Must not: know a node.
"""

import json
import os
import shutil
import subprocess
import sys

from ports import free_port

NATS = shutil.which("nats-server", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
PATIENCE = 60


class Nats:
    """Three NATS servers for one cluster."""

    def __init__(self, directory, binary, name="chat"):
        self.directory, self.name, self.servers = directory, name, {}
        client, route, monitor = (free_port() for _ in range(3))
        self.hosts = {name: f"127.0.0.{number}" for number, name in enumerate(["m1", "m2", "m3"], 1)}
        self.clients, self.monitors = [[f"{host}:{port}" for host in self.hosts.values()] for port in (client, monitor)]
        self.login = directory / "nats" / "operator.login"
        words = [
            "--peers", ",".join(f"{name}={host}" for name, host in self.hosts.items()), "--name", name, "--out", directory / "nats",
            "--store", directory / "store", "--client-port", client, "--route-port", route, "--monitor-port", monitor,
        ]
        subprocess.run([binary, "cluster", "nats-config", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)
        for machine in self.hosts:
            path = directory / "nats" / f"{machine}.conf"
            # One machine's folder for each: they share a disk here.
            path.write_text(path.read_text().replace(f"{directory}/store", f"{directory}/store-{machine}"))
            self.start(machine)

    def settings(self):
        """What a node's table [cluster] says of them."""
        return (
            f'name = "{self.name}"\nnats = {json.dumps(self.clients)}\nnats_monitors = {json.dumps(self.monitors)}\n'
            f'nats_login_file = "{self.directory}/nats/node.login"\n'
        )

    def start(self, name):
        with open(self.directory / f"{name}.log", "ab") as log:
            self.servers[name] = subprocess.Popen([NATS, "-c", self.directory / "nats" / f"{name}.conf"], stdout=log, stderr=log)

    def close(self):
        for process in self.servers.values():
            process.kill()
            process.wait()
