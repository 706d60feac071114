"""A cluster on this machine: three NATS servers and three nodes, made with the commands that a person types.

Owns: their processes. Promises: none is left when it is closed; a node's files outlive its process. Must not: know what
clients see.
"""

import collections
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from nats import Nats
from server import Server

NAMES = ["n1", "n2", "n3"]
PATIENCE = 60


def soon(look, patience=PATIENCE):
    """What `look` returns, once it is true."""
    until = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


class Node(Server):
    """One that need not be ready."""

    def start(self):
        self.write_config()
        command = [self.binary, "serve", "--config", self.config_path, "--data", self.data, "--listen", f"127.0.0.1:{self.port}"]
        with open(os.path.join(self.directory, "server.log"), "ab") as log:
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        soon(self.answers)
        return self

    def ready(self):
        """Whether it serves as the owner."""
        return self.said() == (200, b"ready\n")

    def passes(self):
        """Whether calls are served that come here, by whomever."""
        return self.said()[0] == 200

    def said(self):
        try:
            status, _, body = self.get("/readyz")
        except OSError:
            return None, b""
        return status, body

    def status(self):
        status, _, body = self.get("/v1/cluster")
        assert status == 200, body
        return json.loads(body)


class Cluster:
    def __init__(self, directory, settings="", environment=None, is_made=True, take_over="by hand", tls=None, own={}, more=""):
        """`is_made`: with a new log; else a directory is adopted. `take_over`: who says which standby is to own the log.
        `tls`: what clients trust. `own`: settings of one node alone. `more`: of [cluster]."""
        self.directory = pathlib.Path(directory)
        self.binary = os.environ["TIDELINE_BIN"]
        # Servers on directories that have left.
        self.alone = []
        # What the commands show.
        self.key = ""
        made = Nats(self.directory, self.binary)
        self.nats, self.start_nats, self.login = made.servers, made.start, made.login
        self.nodes = [Node(self.folder(name), environment, tls=tls) for name in NAMES]
        places = ", ".join(f'{name} = "{node.origin}"' for name, node in zip(NAMES, self.nodes))
        for name, node in zip(NAMES, self.nodes):
            node.config = (
                f'{own.get(name, "")}\n{settings}\n[cluster]\nnode = "{name}"\nnodes = {{ {places} }}\n{made.settings()}take_over = "{take_over}"\n{more}'
            )
            node.write_config()
        self.config = self.nodes[0].config_path
        if is_made:
            soon(self.create)

    def folder(self, name):
        (self.directory / name).mkdir()
        return self.directory / name

    def create(self):
        ran = self.run("create", "--config", self.config, "--login", self.login)
        return ran.returncode == 0 and ran.stdout

    def adopt(self, data, fault="", login=None):
        return self.run("adopt", "--config", self.config, "--login", login or self.login, "--data", data, fault=fault)

    def serves_alone(self, node):
        """A server without the cluster's settings on a node's directory."""
        self.alone.append(Server(node.directory))
        return self.alone[-1]

    def dissolve(self, data, *words, fault="", config=None):
        return self.run("dissolve", "--config", config or self.config, "--data", data, *words, fault=fault)

    def stream(self):
        """Where the log's stream begins and ends."""
        return self.asked("INFO")["state"]

    def delete_stream(self):
        assert self.asked("DELETE")["success"]

    def asked(self, what):
        """By NATS' own protocol, as an operator may."""
        user, password = self.login.read_text().strip().split(":")
        found = re.search(r"nats = (\[.*?\])", self.nodes[0].config)[1]
        alive = [name for name, process in self.nats.items() if process.poll() is None]
        host, port = json.loads(found)[list(self.nats).index(alive[0])].split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as nats:
            login = json.dumps({"user": user, "pass": password, "verbose": False, "pedantic": False})
            nats.sendall(f"CONNECT {login}\r\nSUB _INBOX.test 1\r\nPUB $JS.API.STREAM.{what}.TL_chat_0 _INBOX.test 0\r\n\r\n".encode())
            said = b""
            while True:
                more = nats.recv(65536)
                assert more, f"no answer: {said}"
                said += more
                found = re.search(rb"MSG _INBOX.test 1 (\d+)\r\n", said)
                if found and len(said) >= found.end() + int(found[1]):
                    return json.loads(said[found.end() : found.end() + int(found[1])])

    def run(self, *words, fault=""):
        words = [self.binary, "cluster", *map(str, words)]
        environment = {**os.environ, "TIDELINE_FAULT": fault, **({"TIDELINE_KEY": self.key} if self.key else {})}
        return subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE, env=environment)

    def command(self, *words):
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def take_over(self, name, *words):
        said = self.command("take-over", name, "--config", self.config, *words)
        soon(self.node(name).ready)
        return said

    def owner(self):
        """The node that serves, once there is one."""
        return soon(lambda: next((node for node in self.nodes if node.process.poll() is None and node.ready()), None))

    def owner_but(self, gone):
        """The same; one other than this, which may be frozen."""
        others = [node for node in self.nodes if node is not gone]
        return soon(lambda: next((node for node in others if node.ready()), None))

    def leader(self):
        """The NATS server that leads the stream."""
        return self.asked("INFO")["cluster"]["leader"]

    def node(self, name):
        return self.nodes[NAMES.index(name)]

    def start(self):
        for node in self.nodes:
            node.start()
        return self

    def first(self):
        """Once the first node owns the new log."""
        soon(self.nodes[0].ready)
        return self

    def close(self):
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
            node.kill()
        for server in self.alone:
            server.kill()
        for process in self.nats.values():
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Writer(threading.Thread):
    """Appends one message after the other at a node, and notes those that were acknowledged, in order."""

    def __init__(self, node, timeline, prefix):
        super().__init__(daemon=True)
        self.node, self.timeline, self.prefix = node, timeline, prefix
        self.acknowledged, self.refused, self.unknown, self.reasons = [], [], [], []
        self.ends = threading.Event()
        self.start()

    def run(self):
        number = 0
        while not self.ends.is_set():
            number += 1
            name = f"{self.prefix}-{number}"
            try:
                params = {"timeline": self.timeline, "entry": {"name": name}, "message_id": name}
                status, _, body = self.node.rpc(None, "message.append", **params)
            except OSError:
                self.unknown.append(name)
                time.sleep(0.01)
                continue
            reply = json.loads(body)
            if status == 200 and "result" in reply:
                self.acknowledged.append((name, reply["result"]["sequence"]))
            elif reply["error"]["data"]["reason"] == "outcome_unknown":
                self.unknown.append(name)
            else:
                self.refused.append(name)
                self.reasons.append((time.monotonic(), reply["error"]))
                time.sleep(0.01)

    def has(self, count):
        return soon(lambda: len(self.acknowledged) >= count)

    def end(self):
        self.ends.set()
        self.join(PATIENCE)
        assert not self.is_alive()
        return self


class Roamer(threading.Thread):
    """A client that keeps to the protocol: each message goes with its message ID until it is acknowledged, to whichever node
    takes it. A node that does not answer for a second is left."""

    def __init__(self, nodes, timeline, prefix):
        super().__init__(daemon=True)
        self.nodes, self.timeline, self.prefix = nodes, timeline, prefix
        self.acknowledged, self.refused, self.times = [], [], []
        self.answers = collections.Counter()
        self.ends = threading.Event()
        self.start()

    def run(self):
        number, at = 0, 0
        while not self.ends.is_set():
            number += 1
            name = f"{self.prefix}-{number}"
            while not self.ends.is_set():
                reply = self.append(self.nodes[at], name)
                if "result" in reply:
                    self.acknowledged.append((name, reply["result"]["sequence"]))
                    self.times.append(time.monotonic())
                    break
                self.answers[reply["error"]] += 1
                at = (at + 1) % len(self.nodes)
                time.sleep(0.005)

    def append(self, node, name):
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=1)
        params = {"timeline": self.timeline, "entry": {"name": name}, "message_id": name}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message.append", "params": params})
        try:
            connection.request("POST", "/v1/rpc", body, {"content-type": "application/json"})
            reply = json.loads(connection.getresponse().read())
            return reply if "result" in reply else {"error": reply["error"]["data"]["reason"]}
        except (OSError, ValueError, http.client.HTTPException) as error:
            return {"error": type(error).__name__}
        finally:
            connection.close()

    def has(self, count):
        return soon(lambda: len(self.acknowledged) >= count)

    def pause(self, event):
        """For how long nothing was acknowledged around an event, in ms, once writes go on."""
        began, count = time.monotonic(), len(self.acknowledged)
        event()
        soon(lambda: self.times and self.times[-1] > began + 0.05 and len(self.acknowledged) > count + 20)
        # What was on its way when it began may have been acknowledged a moment later.
        times = [at for at in self.times if at > began - 1]
        return max(later - earlier for earlier, later in zip(times, times[1:])) * 1000

    def end(self):
        self.ends.set()
        self.join(PATIENCE)
        assert not self.is_alive()
        return self


def messages(node, timeline):
    """All of a timeline, as `(name, sequence)`, and its epoch."""
    found, start = [], 1
    while True:
        _, _, body = node.rpc(None, "message.range", timeline=timeline, limit=1000, **{"from": start})
        page = json.loads(body)["result"]
        found += [(message["entry"]["name"], message["sequence"]) for message in page["messages"]]
        if not page["messages"] or found[-1][1] >= page["head"]:
            return found, page["epoch"]
        start = found[-1][1] + 1


def faults(found, writers):
    """What is wrong with a timeline, given who wrote to it."""
    wrong = []
    if [sequence for _, sequence in found] != list(range(1, len(found) + 1)):
        wrong.append("gaps")
    names = [name for name, _ in found]
    if len(set(names)) != len(names):
        wrong.append("doubled")
    there = dict(found)
    for writer in writers:
        lost = [name for name, sequence in writer.acknowledged if there.get(name) != sequence]
        if lost:
            wrong.append(f"lost {lost[:5]}")
        if any(name in there for name in writer.refused):
            wrong.append("refused ones are there")
    return wrong
