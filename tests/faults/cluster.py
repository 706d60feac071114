#!/usr/bin/env python3
"""C1 to C8: a cluster of three NATS servers and three nodes, which is broken again and again under its clients.

    TIDELINE_BIN=target/debug/tideline python3 tests/faults/cluster.py [--fault NAME …] [--rounds 20] [--rest 0] [--seed 1]

In each round three writers append to a timeline, each message with its ID until it is acknowledged, at any of the three
nodes; two readers subscribe to it, and one asks for its head. Amid that a fault comes (`FAULTS`), and goes. Then nothing that
was acknowledged may be lost, doubled or out of order, the subscribers have each message once and in order, no head was below
what was acknowledged before, and all nodes have applied the same. After all rounds each timeline is as it was, and the dumps
of the three directories are the same, byte for byte.

Pauses are told, and not judged. With `--chat DIR` the clients are `tideline-load`'s, which lies beside the server: logs of
chats from DIR, and its profile `mixed`, while a node is killed each minute, for as many minutes as there are rounds. With
`--control NAME` the cluster breaks its word, and exit code 0 says that this was noticed. `power-*` and `full-*` mount file
systems: they need root.

Owns: the faults, and what is to hold after each. Promises: no process and no mount is left, also if it is told to end. Must
not: ask more of a client than docs/CLUSTER.md does, or judge how long anything took.
"""

import argparse
import collections
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "python"))

from client import Client, Refused  # noqa: E402
from clustered import Cluster, Roamer, faults, messages, soon  # noqa: E402
from cut import Ways  # noqa: E402
from power_cut import run  # noqa: E402
from websockets.exceptions import WebSocketException  # noqa: E402

#: A machine that does much else, and an election of NATS.
PATIENCE = 240
#: What is wrong on purpose is not waited for so long.
PATIENCE_WITH_CONTROL = 60
MACHINES = ["m1", "m2", "m3"]
FROZEN_S = 15
FULL_BYTES = 96 << 20
MACHINE_BYTES = 768 << 20


class Wrong(Exception):
    """A promise that was broken, or something that did not come."""


def comes(what, look):
    """What `look` returns once it is true."""
    try:
        return soon(look, PATIENCE)
    except AssertionError as error:
        raise Wrong(f"{what} did not come within {PATIENCE} s" if "in time" in str(error) else f"{what}: {error}") from None


class Subscriber(threading.Thread):
    """One that follows a timeline at whichever node takes it, and comes again with its position."""

    def __init__(self, nodes, timeline):
        super().__init__(daemon=True)
        self.nodes, self.timeline, self.ends = nodes, timeline, threading.Event()
        self.got, self.epoch, self.wrong = [], None, []
        self.start()

    def run(self):
        at = 0
        while not self.ends.is_set():
            at += 1
            try:
                with Client(self.nodes[at % len(self.nodes)], open_timeout=2, close_timeout=0.2) as client:
                    self.follow(client)
            except (OSError, TimeoutError, Refused, WebSocketException):
                time.sleep(0.02)

    def follow(self, client):
        client.ask("subscribe", timeline=self.timeline, after=len(self.got), **({"epoch": self.epoch} if self.epoch else {}))
        asked = 0
        while not self.ends.is_set():
            try:
                came = client.receive(2)
            except TimeoutError:
                # One that is frozen says nothing to this, either.
                if asked > 1:
                    return
                asked += 1
                client.ask("ping")
                continue
            asked = 0
            if "error" in came:
                raise Refused(came["error"])
            given = came.get("result") or came.get("params") or {}
            if came.get("method") == "subscription.ended" or given.get("state", "ok") != "ok":
                if given.get("state") in ("epoch_changed", "too_old"):
                    self.wrong.append(f"a subscriber was told {given['state']}")
                return
            self.epoch = given.get("epoch", self.epoch)
            for message in given.get("messages", []):
                if message["sequence"] != len(self.got) + 1:
                    self.wrong.append(f"a subscriber with {len(self.got)} messages was given {message['sequence']}")
                self.got.append((message["entry"]["name"], message["sequence"]))


class Looker(threading.Thread):
    """One that asks any node for the head, which is never below what somebody was told before."""

    def __init__(self, nodes, timeline, writers):
        super().__init__(daemon=True)
        self.nodes, self.timeline, self.writers, self.ends = nodes, timeline, writers, threading.Event()
        self.looks, self.wrong = 0, []
        self.start()

    def run(self):
        # A thread for each node.
        threads = [threading.Thread(target=self.look, args=[node], daemon=True) for node in self.nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def look(self, node):
        while not self.ends.is_set():
            known = max((writer.acknowledged[-1][1] for writer in self.writers if writer.acknowledged), default=0)
            # It asks a node that is frozen again and again.
            connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=2)
            try:
                body = {"jsonrpc": "2.0", "id": 1, "method": "timeline.get", "params": {"timeline": self.timeline}}
                connection.request("POST", "/v1/rpc", json.dumps(body), {"content-type": "application/json"})
                head = json.loads(connection.getresponse().read())["result"]["head"]
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                head = None
            finally:
                connection.close()
            if head is not None and head < known:
                self.wrong.append(f"a node said {head} where {known} was acknowledged")
            self.looks += head is not None
            time.sleep(0.01 if head is not None else 0.05)


class Siege:
    """A cluster, and what has come to it."""

    def __init__(self, work, options, fault):
        self.work, self.options, self.fault = pathlib.Path(work), options, fault
        self.mounts, self.ways, self.known, self.notes, self.pauses = {}, None, {}, collections.Counter(), []
        # What the clients of a chat say.
        self.told = []
        self.acknowledged = self.looks = 0
        control = options.control
        environment = {"TIDELINE_RESERVE_BYTES": str(4 << 20), "TIDELINE_FAULT": control or ""}
        self.cluster = Cluster(self.work, "memtable_age_ms = 20000\n", environment, is_made=False, take_over="by itself")
        self.nodes = self.cluster.nodes

    def begin(self):
        # They run by now, with settings and on disks that are not ours.
        for name in MACHINES:
            self.kill_nats(name)
            shutil.rmtree(self.work / f"store-{name}", ignore_errors=True)
        if self.options.control == "sync_interval":
            self.rewrite(lambda text: text.replace("sync_interval: always", 'sync_interval: "2m"'))
            for node in self.nodes:
                node.config = re.sub(r"(?m)^nats_monitors = .*$", "nats_monitors = []\nnats_sync_unverified = true", node.config)
        kind = self.fault.split("-")[0]
        {"power": self.mount_machines, "full": self.mount_small}.get(kind, lambda: None)()
        if kind in ("cut", "deaf", "slow", "lost"):
            self.put_ways()
        for node in self.nodes:
            node.write_config()
        for name in MACHINES:
            self.cluster.start_nats(name)
        comes("the stream", self.cluster.create)
        self.cluster.start()
        comes("an owner", lambda: self.owner() is self.nodes[0])

    def rewrite(self, change):
        """The settings of all NATS servers."""
        for name in MACHINES:
            path = self.work / "nats" / f"{name}.conf"
            path.write_text(change(path.read_text()))

    def mount(self, place, *words):
        place.mkdir(parents=True, exist_ok=True)
        run("mount", *map(str, words), str(place))
        self.mounts[place] = words

    def unmount(self, place):
        if self.mounts.pop(place, None):
            run("umount", str(place))

    def mount_small(self):
        """A file system for each store of NATS, and each node's data, that can be filled."""
        for name, node in zip(MACHINES, self.nodes):
            for place in [self.work / f"store-{name}", pathlib.Path(node.directory) / "disk"]:
                self.mount(place, "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "siege")
            node.data = f"{node.directory}/disk/data"

    def mount_machines(self):
        """A disk for each machine, with the store of its NATS server and the data of its node."""
        for name, node in zip(MACHINES, self.nodes):
            image = self.work / f"{name}.image"
            with open(image, "wb") as file:
                file.truncate(MACHINE_BYTES)
            run("mkfs.ext4", "-q", "-F", str(image))
            self.mount(self.work / f"store-{name}", "-o", "loop,commit=300", image)
            node.data = f"{self.work}/store-{name}/data"

    def put_ways(self):
        """Everything that goes from a machine to another one goes through `self.ways`; NATS tells nobody other ways."""
        self.ways = ways = Ways(self.options.seed)
        texts = {name: (self.work / "nats" / f"{name}.conf").read_text() for name in MACHINES}
        listens = {name: re.search(r'cluster \{.*?listen: "(.*?)"', text, re.S)[1] for name, text in texts.items()}
        clients = json.loads(re.search(r"(?m)^nats = (.*)$", self.nodes[0].config)[1])
        monitors = json.loads(re.search(r"(?m)^nats_monitors = (.*)$", self.nodes[0].config)[1])
        for name, node in zip(MACHINES, self.nodes):
            text = texts[name].replace('cluster {\n', 'cluster {\n  no_advertise: true\n  advertise: "127.0.0.1:1"\n', 1)
            for other, listen in listens.items():
                if other != name:
                    text = text.replace(f"@{listen}", f"@{ways.through(name, other, listen)}")
            (self.work / "nats" / f"{name}.conf").write_text(text)
            pairs = list(zip(MACHINES, clients, monitors, self.nodes))
            near = [ways.through(name, other, at, is_nats=True) for other, at, _, _ in pairs]
            far = [ways.through(name, other, at) for other, _, at, _ in pairs]
            config = node.config.replace(json.dumps(clients), json.dumps(near)).replace(json.dumps(monitors), json.dumps(far))
            for other, _, _, peer in pairs:
                if peer is not node:
                    config = config.replace(peer.origin, f"http://{ways.through(name, other, f'127.0.0.1:{peer.port}')}")
            node.config = config
        # A person's commands go past all this.
        self.cluster.config = str(self.work / "person.toml")
        person = re.sub(r"(?m)^nats = .*$", f"nats = {json.dumps(clients)}", self.nodes[0].config)
        person = re.sub(r"(?m)^nats_monitors = .*$", f"nats_monitors = {json.dumps(monitors)}", person)
        with open(os.open(self.cluster.config, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(person)

    # What is there.

    def owner(self, but=None):
        """The node that serves by itself, or None."""
        for node in self.nodes:
            if node is not but and node.process.poll() is None:
                try:
                    if node.ready():
                        return node
                except OSError:
                    pass

    def an_owner(self, but=None):
        return comes("an owner", lambda: self.owner(but))

    def standby(self, dice):
        owner = self.an_owner()
        return dice.choice([node for node in self.nodes if node is not owner])

    def leader(self):
        return comes("a leader of the stream", self.leads)

    def leads(self):
        try:
            return self.cluster.leader()
        except (OSError, KeyError, TypeError, AssertionError, ValueError, IndexError):
            return None

    def follower(self, dice):
        leader = self.leader()
        return dice.choice([name for name in MACHINES if name != leader])

    def machine(self, node):
        return MACHINES[self.nodes.index(node)]

    # What is done to it.

    def kill_nats(self, name):
        self.cluster.nats[name].kill()
        self.cluster.nats[name].wait()

    def freeze(self, process):
        process.send_signal(signal.SIGSTOP)

    def wake(self, process):
        process.send_signal(signal.SIGCONT)

    def go_on(self, count=10):
        """Each writer gets so many more acknowledgements."""
        before = [len(writer.acknowledged) for writer in self.writers]
        comes("writes", lambda: all(len(writer.acknowledged) >= had + count for writer, had in zip(self.writers, before)))

    def stay(self, seconds):
        time.sleep(seconds)

    # A round.

    def round(self, number):
        dice = random.Random(f"{self.options.seed} {self.fault} {number}")
        timeline = f"{self.fault}-{number}"
        turned = [self.nodes[at:] + self.nodes[:at] for at in range(3)]
        self.writers = [Roamer(nodes, timeline, f"w{at}") for at, nodes in enumerate(turned)]
        subscribers = [Subscriber(nodes, timeline) for nodes in turned[:2]]
        looker = Looker(self.nodes, timeline, self.writers)
        everybody = [*self.writers, *subscribers, looker]
        try:
            self.go_on()
            began = time.monotonic()
            FAULTS[self.fault](self, dice)
            self.go_on()
            for writer in self.writers:
                times = [at for at in writer.times if at > began - 1]
                self.pauses.append(max(later - earlier for earlier, later in zip(times, times[1:])))
            self.whole()
            for writer in self.writers:
                writer.ends.set()
                writer.join(PATIENCE)
            owner = self.an_owner()
            found, _ = messages(owner, timeline)
            wrong = faults(found, self.writers) + looker.wrong
            for writer in self.writers:
                numbers = [int(name.split("-")[1]) for name, _ in found if name.startswith(writer.prefix + "-")]
                wrong += ["out of order"] * (numbers != sorted(numbers))
            for subscriber in subscribers:
                comes("all to a subscriber", lambda: len(subscriber.got) >= len(found) or subscriber.wrong)
                wrong += subscriber.wrong or ["a subscriber has something else"] * (subscriber.got != found)
            self.same()
            self.known[timeline] = found
            self.acknowledged += sum(len(writer.acknowledged) for writer in self.writers)
            self.looks += looker.looks
            if wrong:
                raise Wrong("; ".join(wrong[:6]))
        finally:
            for one in everybody:
                one.ends.set()

    def whole(self):
        """All is there again: each node owns, or follows."""

        def roles():
            return sorted(self.role(node) for node in self.nodes) == ["follower", "follower", "owner"]

        comes(f"three nodes at work ({[self.role(node) for node in self.nodes]})", roles)

    def role(self, node):
        if node.process.poll() is not None:
            return f"ended with {node.process.poll()}"
        try:
            return node.status()["role"]
        except (OSError, AssertionError, ValueError) as error:
            return f"gone: {type(error).__name__}"

    def same(self):
        comes("the same end at all nodes", lambda: len({node.status()["applied"] for node in self.nodes}) == 1)

    def end(self):
        """The histories of all nodes, at the owner and in their directories."""
        owner = self.an_owner()
        for timeline, found in self.known.items():
            if messages(owner, timeline)[0] != found:
                raise Wrong(f"{timeline} is not as it was")
        self.same()
        dumps = {}
        for node in self.nodes:
            node.stop()
            ran = subprocess.run([node.binary, "dump", node.data], capture_output=True, timeout=PATIENCE)
            if ran.returncode != 0:
                raise Wrong(f"no dump of {node.data}: {ran.stderr.decode()}")
            dumps[node.data] = hashlib.sha256(ran.stdout).hexdigest(), len(ran.stdout.splitlines())
        if len(set(dumps.values())) != 1:
            raise Wrong(f"the dumps differ: {dumps}")
        return next(iter(dumps.values()))[1]

    def close(self):
        if self.ways:
            self.ways.close()
        for process in self.cluster.nats.values():
            if process.poll() is None:
                self.wake(process)
        self.cluster.close()
        for place in list(self.mounts):
            subprocess.run(["umount", str(place)])


# Faults: each leaves all processes running.


def kill_owner(siege, dice):
    owner = siege.an_owner()
    owner.kill()
    siege.an_owner(but=owner)
    siege.go_on(dice.randrange(20))
    owner.start()


def kill_standby(siege, dice):
    standby = siege.standby(dice)
    standby.kill()
    siege.go_on(dice.randrange(20))
    standby.start()


def kill_nats(siege, name, dice):
    siege.kill_nats(name)
    siege.go_on(dice.randrange(20))
    siege.cluster.start_nats(name)


def kill_both(siege, dice):
    owner, leader = siege.an_owner(), siege.leader()
    ends = [owner.kill, lambda: siege.kill_nats(leader)]
    dice.shuffle(ends)
    ends[0]()
    siege.stay(dice.choice([0, dice.uniform(0, 0.5)]))
    ends[1]()
    siege.an_owner(but=owner)
    siege.go_on(dice.randrange(20))
    siege.cluster.start_nats(leader)
    owner.start()


def freeze_owner(siege, _):
    owner = siege.an_owner()
    siege.freeze(owner.process)
    until = time.monotonic() + FROZEN_S
    siege.an_owner(but=owner)
    siege.go_on()
    siege.stay(max(0, until - time.monotonic()))
    siege.wake(owner.process)


def freeze_leader(siege, _):
    process = siege.cluster.nats[siege.leader()]
    siege.freeze(process)
    siege.stay(FROZEN_S)
    siege.wake(process)


def patient(siege, event):
    """No client that waits for its answer is told anything else while the log changes hands, at whichever node."""
    timeline = f"patient-{time.monotonic_ns()}"
    said, ends = [], threading.Event()

    def write(node):
        number = 0
        while not ends.is_set():
            number += 1
            try:
                status, _, body = node.rpc(None, "message.append", timeline=timeline, entry={"name": f"{node.port}-{number}"})
                said.append((node, status, body if status != 200 or b'"result"' not in body else b""))
            except OSError as error:
                said.append((node, 0, repr(error).encode()))
                time.sleep(0.05)

    threads = [threading.Thread(target=write, args=[node], daemon=True) for node in siege.nodes]
    for thread in threads:
        thread.start()
    owner = siege.an_owner()
    event(owner)
    siege.an_owner(but=owner)
    siege.go_on()
    ends.set()
    for thread in threads:
        thread.join(PATIENCE)
    # Whoever comes to a process that has gone finds nobody there.
    nobody = [node is owner and body.startswith(b"ConnectionRefusedError") for node, _, body in said]
    siege.notes["calls with patience"] += len(said)
    siege.notes["connections refused once the process had ended"] += sum(nobody)
    if told := [body for (_, _, body), was_nobody in zip(said, nobody) if body and not was_nobody]:
        raise Wrong(f"a client that waits was told {told[:3]}")
    return owner


def drain(siege, _):
    name = lambda node: f"n{siege.nodes.index(node) + 1}"
    owner = patient(siege, lambda owner: siege.cluster.command("drain", name(owner), "--config", siege.cluster.config))
    siege.cluster.command("undrain", name(owner), "--config", siege.cluster.config)


def term(siege, _):
    owner = patient(siege, lambda owner: owner.process.send_signal(signal.SIGTERM))
    if (code := owner.process.wait(PATIENCE)) != 0:
        raise Wrong(f"the owner ended with {code}")
    owner.start()


def others_than(machine):
    return [other for other in MACHINES if other != machine]


def around(machine):
    return [pair for other in others_than(machine) for pair in [(machine, other), (other, machine)]]


def cut(siege, dice, ways):
    siege.ways.set(ways, is_open=False)
    siege.stay(dice.choice([1, 4, 12]))
    siege.ways.heal()


def cut_owner(siege, dice):
    machine = siege.machine(siege.an_owner())
    cut(siege, dice, around(machine))


def cut_leader(siege, dice):
    machine = siege.leader()
    cut(siege, dice, around(machine))


def cut_all(siege, dice):
    """No machine reaches another one."""
    cut(siege, dice, [(of, to) for of in MACHINES for to in others_than(of)])


def deaf_owner(siege, dice):
    """What goes to the owner's machine is lost, or what comes from it."""
    machine = siege.machine(siege.an_owner())
    is_deaf = dice.random() < 0.5
    cut(siege, dice, [(other, machine) if is_deaf else (machine, other) for other in others_than(machine)])


def deaf_pair(siege, dice):
    """Two machines do not reach each other, one way or both; each reaches the third."""
    of, to = dice.sample(MACHINES, 2)
    cut(siege, dice, [(of, to), (to, of)][: dice.randint(1, 2)])


def slow(siege, dice):
    siege.ways.set([(of, to) for of in MACHINES for to in MACHINES if of != to], delay=dice.choice([0.005, 0.02, 0.05]))
    siege.go_on(5)
    siege.stay(3)
    siege.ways.heal()


def lost_answers(siege, dice):
    siege.ways.set([(of, to) for of in MACHINES for to in MACHINES], loses=dice.uniform(0.01, 0.3))
    siege.go_on()
    siege.stay(4)
    siege.ways.heal()
    siege.notes["messages of NATS lost"] = siege.ways.lost


def fill(place):
    """Nothing more has room there; what the file is called that took it."""
    path = pathlib.Path(place) / "filler"
    with open(path, "wb", buffering=0) as file:
        for size in [1 << 20, 4096]:
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return path


def full_data(siege, dice):
    """The disk of a node's data."""
    node = dice.choice([siege.an_owner(), siege.standby(dice)])
    siege.notes["disks of owners"] += node is siege.an_owner()
    told = node.whole_log().count("No space left")
    path = fill(f"{node.directory}/disk")
    siege.go_on()
    siege.stay(3)
    siege.go_on()
    path.unlink()
    if (more := node.whole_log().count("No space left") - told) > 20:
        raise Wrong(f"a full disk was told {more} times")
    if node.process.poll() is not None or siege.role(node) not in ("owner", "follower"):
        siege.notes["nodes that stopped"] += 1
        node.stop()
        node.start()


def full_store(siege, dice):
    """The disk of a NATS server: the one that leads, or another one."""
    name = dice.choice([siege.leader(), siege.follower(dice)])
    path = fill(siege.work / f"store-{name}")
    siege.go_on()
    siege.stay(3)
    siege.go_on()
    path.unlink()
    # It has turned its JetStream off, until it is started again.
    siege.kill_nats(name)
    siege.cluster.start_nats(name)


def power(count):
    def fails(siege, dice):
        machines = dice.sample(list(zip(MACHINES, siege.nodes)), count)
        if siege.options.control:
            # There is a stream afterwards, without its end.
            for name, _ in machines:
                run("sync", "-f", str(siege.work / f"store-{name}"))
            siege.go_on()
        siege.stay(dice.uniform(0, 3))
        # At one moment: they stand still, and nothing runs on.
        processes = [process for name, node in machines for process in [siege.cluster.nats[name], node.process]]
        for process in processes:
            siege.freeze(process)
        for process in processes:
            process.kill()
            process.wait()
        for name, _ in machines:
            run("cp", "--sparse=always", str(siege.work / f"{name}.image"), str(siege.work / f"{name}.copy"))
        if count == 1:
            siege.go_on(dice.randrange(20))
        for name, node in machines:
            place = siege.work / f"store-{name}"
            siege.unmount(place)
            os.replace(siege.work / f"{name}.copy", siege.work / f"{name}.image")
            siege.mount(place, "-o", "loop,commit=300", siege.work / f"{name}.image")
            siege.cluster.start_nats(name)
        for _, node in machines:
            node.start()

    return fails


def rot(siege, dice):
    """A byte of a NATS server's store is another one, or a file is cut, while it is down."""
    name = dice.choice(MACHINES)
    siege.kill_nats(name)
    siege.go_on(dice.randrange(20))
    store = siege.work / f"store-{name}"
    # The stream's own, and those of what the servers have agreed on.
    kind = dice.choice(["streams/TL_chat_0/msgs/*.blk", "_js_/S-R3F*/msgs/*.blk"])
    path = dice.choice([found for found in sorted(store.rglob(kind)) if found.stat().st_size])
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    if dice.random() < 0.5:
        data[at] ^= 1 << dice.randrange(8)
        how = "flipped"
    else:
        del data[at:]
        how = "cut"
    path.write_bytes(data)
    siege.notes[f"{'stream' if 'streams' in kind else 'agreement'} {how}"] += 1
    siege.cluster.start_nats(name)
    siege.go_on()
    # Whoever leads now has it.
    if dice.random() < 0.5 and siege.leader() != name:
        other = siege.leader()
        siege.kill_nats(other)
        siege.go_on()
        siege.cluster.start_nats(other)


FAULTS = {
    "kill-owner": kill_owner,
    "kill-standby": kill_standby,
    "kill-leader": lambda siege, dice: kill_nats(siege, siege.leader(), dice),
    "kill-follower": lambda siege, dice: kill_nats(siege, siege.follower(dice), dice),
    "kill-both": kill_both,
    "drain": drain,
    "term": term,
    "freeze-owner": freeze_owner,
    "freeze-leader": freeze_leader,
    "cut-owner": cut_owner,
    "cut-leader": cut_leader,
    "cut-all": cut_all,
    "deaf-owner": deaf_owner,
    "deaf-pair": deaf_pair,
    "slow": slow,
    "lost-answers": lost_answers,
    "full-data": full_data,
    "full-store": full_store,
    "power-1": power(1),
    "power-2": power(2),
    "power-3": power(3),
    "rot": rot,
}


def chat(siege, options):
    """Chats and `mixed` at all three nodes, one of which is killed each minute; what went wrong, in words."""
    load = os.path.join(os.path.dirname(siege.cluster.binary), "tideline-load")
    url = ",".join(node.url for node in siege.nodes)
    until = time.monotonic() + 60 * options.rounds
    small = "--rate 20 --connections 6 --timelines 100 --subscribers 12 --pollers 3 --poll-rate 5"
    small += " --readers 3 --page-rate 5 --idle 0"
    mixed = [load, "mixed", "--url", url, "--quiet", "--seconds", str(60 * options.rounds), *small.split()]
    ran = collections.Counter()
    said = []

    def follow(words):
        done = subprocess.run([*map(str, words)], capture_output=True, text=True)
        ran[words[1]] += 1
        # 6: a machine that was too busy for the figures.
        to = said if done.returncode not in (0, 6) else siege.told
        to.append(f"{words[1]}, exit code {done.returncode}: {done.stdout}{done.stderr}")

    def replay():
        while time.monotonic() < until and not said:
            words = "--connections 8 --in-flight 32"
            follow([load, "replay", options.chat, "--url", url, "--quiet", "--prefix", f"chat-{ran['replay']}/", *words.split()])

    threads = [threading.Thread(target=replay), threading.Thread(target=follow, args=[mixed])]
    for thread in threads:
        thread.start()
    dice = random.Random(options.seed)
    for minute in range(options.rounds):
        time.sleep(max(0, until - 60 * (options.rounds - minute) + 30 - time.monotonic()))
        node = dice.choice(siege.nodes)
        siege.notes["owners killed"] += node is siege.an_owner()
        siege.notes["nodes killed"] += 1
        node.kill()
        time.sleep(dice.uniform(1, 10))
        node.start()
        siege.whole()
    for thread in threads:
        thread.join()
    siege.notes["chats, each once more"] = ran["replay"]
    if said:
        raise Wrong("; ".join(said))


def besiege(options, fault):
    """All rounds of a fault; what went wrong, in words."""
    with tempfile.TemporaryDirectory(prefix=f"siege-{fault}-") as work:
        began, number, said = time.monotonic(), 0, None
        siege = Siege(work, options, fault)
        try:
            siege.begin()
            if options.chat:
                chat(siege, options)
                number = options.rounds
            for number in range(1, options.rounds * (not options.chat) + 1):
                siege.stay(options.rest)
                siege.round(number)
            lines = siege.end()
        except Wrong as wrong:
            said = f"round {number}: {wrong}"
            if options.keep:
                images = shutil.ignore_patterns("*.image", "*.copy")
                shutil.copytree(work, f"{options.keep}/{fault}-{number}", symlinks=True, ignore=images, dirs_exist_ok=True)
        finally:
            siege.close()
    pauses = sorted(siege.pauses)
    longest = f"; writes waited for {pauses[len(pauses) // 2]:.1f} s, at most {pauses[-1]:.1f} s" if pauses else ""
    notes = "".join(f", {count} {what}" for what, count in siege.notes.items())
    print(
        f"{fault}: {said or f'held, {lines} lines in each dump'}; {number} rounds in {time.monotonic() - began:.0f} s,"
        f" {siege.acknowledged} acknowledged, {siege.looks} heads{longest}{notes}",
        flush=True,
    )
    if siege.told:
        print("\n".join(siege.told), flush=True)
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rest", type=float, default=0, metavar="SECONDS", help="before each round: nodes that have begun know each other")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="these only; else all")
    parser.add_argument("--control", help="a TIDELINE_FAULT, or sync_interval: NATS syncs every two minutes; it must be noticed")
    parser.add_argument("--chat", metavar="DIR", help="tideline-load's clients, with the logs in DIR; a round is a minute")
    parser.add_argument("--keep", help="a folder, which gets the files of what went wrong")
    options = parser.parse_args()
    # Whoever ends it early gets its processes and mounts ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.control:
        globals()["PATIENCE"] = PATIENCE_WITH_CONTROL
    chosen = ["chat"] if options.chat else options.fault or list(FAULTS)
    wrong = [fault for fault in chosen if besiege(options, fault)]
    control = f" under {options.control}" if options.control else ""
    print(f"{len(chosen)} faults, {options.rounds} rounds of each{control}: {len(wrong)} broken {' '.join(wrong)}")
    sys.exit(bool(wrong) != bool(options.control))


if __name__ == "__main__":
    main()
