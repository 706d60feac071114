"""Every command and program of the documents runs as it is printed there, and prints what is printed there.

Promises: a block of a page is run, or a table below says why it is not; so a new block cannot be left out. A page is read
from top to bottom in one shell and an empty directory. Only these differ: the port, paths of data, and what is random or
measured. Of the load tool two profiles are run, with a hundredth of their numbers; of the others it is seen that the
tool understands them.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import pytest
from websockets.sync.client import connect

import quickstart
from blocks import blocks, commands
from conftest import ROOT
from shell import free_port

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "clients/*/README.md", "clients/javascript/ai/README.md", "load/**/README*", "grafana/README.md", "packaging/README.md")
    for path in ROOT.glob(pattern)
)
# They are made from the schemas and the catalogue, whose tests hold every example of theirs.
MADE = {"docs/API.md", "docs/METRICS.md"}

BUILDS = "builds or tests the project, as the command does that runs this"
STORE = "it asks a store; tests/python/test_offsite.py has one"
MACHINE = "changes the machine: installs packages or copies files to /etc"
PIECE = "a piece of a program"
NO_COMMAND = "no command: it shows a format or a message"
MEASURES = "measures for minutes, and needs a release build"
IN_CLUSTER = "needs three NATS servers; tests/python/test_cluster_served.py has them"
IN_CENTRIFUGE = "tests/centrifuge/test_node.py runs it, beside the SDKs that it needs"
IN_TABLESTORE = "tests/tablestore/test_langgraph.py runs it, beside the packages that it needs"
IN_LLAMA_INDEX = "tests/llama_index/ runs it, beside the packages that it needs"
IN_PACKAGES = "tests/packages/ does it, where what it needs is installed"
IN_CONSOLE = "tests/console/chat.test.js runs it, beside the SDK that it needs"
IN_CLIENTS = "clients/javascript/test packs, installs and runs it"
# Of a page, what a command or a block begins with, and why it is not run.
NOT_RUN = {
    "README.md": {
        "cargo test": BUILDS,
        "docker": "needs a container's runtime; tests/packages/test_container.py runs the same root by chroot",
    },
    "ARCHITECTURE.md": {
        " client ── WebSocket": NO_COMMAND,
    },
    "docs/ACCESS.md": {
        '{"jsonrpc": "2.0", "id": 1, "method": "session.open"': NO_COMMAND,
    },
    "docs/BENCHMARKS.md": {
        "apt-get": MACHINE,
        "cargo": BUILDS,
        "TIDELINE_BIN=target/dist/tideline python3 tests/centrifuge/bench.py": MEASURES,
    },
    "docs/CENTRIFUGE.md": {
        "[centrifuge]": IN_CENTRIFUGE,
        "import asyncio": IN_CENTRIFUGE,
        "import { spawn": IN_CENTRIFUGE,
        "json 1 hello": IN_CENTRIFUGE,
    },
    "docs/BACKUP.md": {
        "tideline backup /mnt/backups": MACHINE,
        "tideline backup minutes": "goes on until it is ended; tests/python/test_backup.py runs it",
        "backups/nightly/2": NO_COMMAND,
        "tideline backup s3:": STORE,
        "tideline backup list s3:": STORE,
        "tideline verify s3:": STORE,
        "tideline restore s3:": STORE,
        "tideline backup prune s3:": STORE,
        "s3://my-bucket": NO_COMMAND,
    },
    "docs/CLUSTER.md": {
        "cd cluster": IN_CLUSTER,
        "tideline cluster status": IN_CLUSTER,
        "tideline send": IN_CLUSTER,
        "kill -9": IN_CLUSTER,
        "sleep 2": IN_CLUSTER,
        "tideline cluster adopt": IN_CLUSTER,
        "tideline cluster dissolve": IN_CLUSTER,
        "tideline history": IN_CLUSTER,
    },
    "docs/CONSOLE.md": {
        "apt-get": MACHINE,
        "cargo test": BUILDS,
        "TIDELINE_CONSOLE=disk": BUILDS,
    },
    "docs/FAULTS.md": {
        "cargo build": BUILDS,
        "sudo": "takes an hour or two; tests/store/faults.rs has the short forms",
    },
    "docs/FORMATS.md": {
        "20261126T": NO_COMMAND,
        "data/\n": NO_COMMAND,
        "[[partition]]": NO_COMMAND,
        "  0        4": NO_COMMAND,
    },
    "docs/INTERNALS.md": {
        "cargo test": BUILDS,
    },
    "docs/LOAD.md": {
        "cargo build": BUILDS,
        "target/release/tideline serve": "the page's server runs",
    },
    "docs/OPERATIONS.md": {
        "TIDELINE_BIN=target/release/tideline PYTHONPATH": "a minute for each attack; tests/tablestore/test_misuse.py is its short form",
    },
    "docs/PRODUCTION.md": {
        "apt-get": IN_PACKAGES,
        "systemctl": IN_PACKAGES,
        "editor": MACHINE,
        "runuser": IN_PACKAGES,
        "docker": "needs a container's runtime; tests/packages/test_container.py runs the same root by chroot",
        "pip install": IN_PACKAGES,
        "tideline serve": IN_PACKAGES,
        "[Service]": MACHINE,
        "map $http_upgrade": IN_PACKAGES,
        "chat.example.org {": IN_PACKAGES,
        "defaults": IN_PACKAGES,
        "helm": "needs a cluster; tests/packages/test_chart.py renders the chart",
    },
    "docs/QUICKSTART.md": {
        " browser ── name": NO_COMMAND,
    },
    "docs/PROTOCOL.md": {
        "{sequence, timestamp": NO_COMMAND,
    },
    "docs/SEARCH.md": {
        "let after;": PIECE,
    },
    "docs/STREAMS.md": {
        "let last": PIECE,
        "import { DurableStream": "tests/durable/run.js runs it, beside the package that it needs",
    },
    "docs/TABLESTORE.md": {
        "venv/bin/pip install llama": IN_LLAMA_INDEX,
        "from llama_index": IN_LLAMA_INDEX,
    },
    "docs/SIMULATION.md": {
        "F=": BUILDS,
    },
    "clients/conformance/README.md": {
        "cargo test": BUILDS,
        "cd clients && TIDELINE_BIN": "kills for many minutes; tests/suites/clients.rs does the same with four",
    },
    "clients/javascript/README.md": {
        "npm": IN_CLIENTS,
        "import { createInterface": IN_CLIENTS,
        "const answer = client.open": PIECE,
        "const timeline = await": PIECE,
    },
    "clients/python-langgraph/README.md": {
        "pip install": IN_TABLESTORE,
        "from typing": IN_TABLESTORE,
    },
    "clients/javascript/ai/README.md": {
        "npm": IN_CONSOLE,
        "import { Chat, useChat }": PIECE,
        "import { streamText": PIECE,
        "node example/serve.js": IN_CONSOLE,
    },
    "clients/python/README.md": {
        "async with client.open(": PIECE,
        "async with client.open_stream": PIECE,
    },
    "grafana/README.md": {
        "sudo": MACHINE,
    },
    "packaging/README.md": {
        "cargo": BUILDS,
        "rustup": BUILDS,
        "CC_x86_64": BUILDS,
        "python3": BUILDS,
        "docker": BUILDS,
        "cd tests/packages": BUILDS,
    },
}
# What stands in a command for something that differs; of all pages, then of one.
REPLACED = {
    "": {"/tmp/": "tmp/", " /data": " disk", "/etc/tideline/": "etc/", "--pid PID": "--pid $server"},
    "README.md": {"cargo run --release": "serve --data data"},
    "docs/BACKUP.md": {"$(pidof tideline)": "$server; wait $server 2> tmp/killed", "tideline serve --data data &": "serve --data data"},
    "docs/ACCESS.md": {"revoke ID": "revoke $(tideline key list --data ./data | grep -o '\"id\":\"[^\"]*' | cut -c 7- | tail -n 1)"},
    "docs/COMMANDS.md": {"do …; done": "do echo \"$line\"; done"},
    "clients/conformance/README.md": {
        "run.py python  ": "run.py python a_gap_in_a_push  ",
        "no_gap_check": "no_gap_check a_gap_in_a_push",
        "random_runs.py python 200": "random_runs.py python 2",
    },
    "docs/SEARCH.md": {"tideline serve --config settings.toml --data data &": "serve --config settings.toml --data data"},
    "docs/SQL.md": {"./data": "served"},
    "docs/PRODUCTION.md": {"-p PID": "-p $server"},
    "docs/OPERATIONS.md": {"tideline --config tideline.toml": "serve --config tideline.toml"},
    "docs/QUICKSTART.md": {"8000": str(free_port())},
    "grafana/README.md": {"prometheus --config": "prometheus --web.listen-address=127.0.0.1:0 --config", "=tmp/prometheus": "=tmp/prometheus 2>&1", "release/tideline-load": "release/tideline-load --seconds 12"},
}
# These pages start their server themselves.
STARTED = {"README.md", "docs/BACKUP.md", "docs/ACCESS.md", "docs/OPERATIONS.md", "docs/QUICKSTART.md", "docs/SEARCH.md"}
# What is tried once a page is read: it returns what the machine lacks for that.
TRIED = {"docs/QUICKSTART.md": quickstart.chat}
# What the words before a block say that is done, for the block that begins so.
APPEND = """curl -s 127.0.0.1:$PORT/v1/rpc -H 'content-type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"message.append",
    "params":{"timeline":"room/1","entry":{"text":"more"}}}'"""
HARBOUR = """tideline call timeline.create '{"timeline":"room/1","meta":{"title":"Harbour"},"members":[{"user":"ann"}]}' --user ann
tideline send room/1 '{"text":"the tide is in"}' --id a-1 --user ann
tideline send room/1 fog --user ann
tideline send room/1 calm --user ann
tideline call read.set '{"timeline":"room/1","read":2,"received":3}' --user ann"""
BEFORE = {
    "README.md": {
        '< {"jsonrpc":"2.0","method":"message"': [APPEND],
        '> {"jsonrpc":"2.0","id":1,"method":"subscribe"': ["away", APPEND, "back"],
    },
    # The page kills the server some time before.
    "docs/ACCESS.md": {"tideline key create shop": ["wait $server || true"]},
    "docs/BACKUP.md": {"$ mkdir -p backups": ["mkdir backups; serve --config settings.toml --data data", HARBOUR]},
    "docs/CONSOLE.md": {
        "$ tideline key create": [
            "stop; tideline key create admin --allow '*=admin' --data served > admin.key; export TIDELINE_KEY=$(cat admin.key)",
            "printf '[auth]\\n' > auth.toml; serve --config auth.toml --data served",
        ],
    },
    "docs/COMMANDS.md": {"$ tideline history room/1": ["tideline send logs/a storm"]},
    "docs/OPERATIONS.md": {
        "$ tideline partition list data": [HARBOUR, "stop"],
        "$ tideline partition split --url": ["serve --data other"],
        "$ tideline verify": ["stop"],
        "$ tideline repair": ["stop"],
        "$ curl -s localhost:7070/v1/rpc": ["serve --data data"],
        "$ tideline export": ["serve --data data"],
    },
    "docs/SQL.md": {"$ tideline sql --data": ["stop"]},
    "docs/UPGRADES.md": {"$ tideline serve --data newer": ["stop", "mkdir newer; echo 'format = 4' > newer/directory.toml"]},
}
# Programs that wait for something to happen, and what does.
POKED = {"follow.py": "tideline send room/1 more"}
# Commands that go on until they are ended, and what they print.
ENDLESS = {"tideline follow": ".+", "prometheus ": ".*Server is ready.*"}
# What comes a moment later is looked at again.
LOOKS = ("cat ", "tail ", "grep ", "readyz", "message.range", " ping ", "conversation.list", "feed.range")
# What is to fail, because the page says so.
FAILS = ("--bug",)
# Where numbers are measured.
MEASURED = {"docs/OPERATIONS.md"}
# Profiles that are run; the others are understood only: tests/load/profiles.rs and its like run all with small numbers.
SHORT = {"room", "chat"}
PATIENCE = 120
COMMANDS = ("console", "indented")


def reason(page, text):
    return next((why for start, why in NOT_RUN.get(page, {}).items() if text.startswith(start)), None)


def test_the_tables_name_only_what_is_there():
    for table in (NOT_RUN, BEFORE):
        for page, entries in table.items():
            found = list(blocks((ROOT / page).read_text()))
            starts = [block.text for block in found]
            starts += [command for block in found if block.kind in COMMANDS for command, _ in commands(block.text)]
            for start in entries:
                assert any(text.startswith(start) for text in starts), f"{page} has no block or command that begins with {start!r}"


def pattern(printed, is_measured=False):
    """An answer as it is printed: on broken lines, with … for what differs, and times as examples."""
    lines = re.sub(r"\n +", "", printed.strip("\n")).split("\n")
    text = "\n".join("(?s:.*)" if line == "…" else re.escape(line) for line in lines)
    text = re.sub(r"\d+" if is_measured else r"\d{13}", lambda found: r"\d{13}" if len(found[0]) == 13 else r"\d+", text)
    text = re.sub(r"\d{4}\\-\d\d\\-\d\d\\ \d\d:\d\d:\d\d", r"[-\\d]+ [:\\d]+", text)
    return text.replace("…", ".*?")


class Page:
    """A page that is read from top to bottom."""

    def __init__(self, name, shell):
        self.name, self.shell = name, shell
        self.text = (ROOT / name).read_text()
        self.epoch, self.socket, self.url, self.missing = "", None, "", set()

    def read(self):
        if self.name not in STARTED:
            self.done("serve --data served")
        found = [block for block in blocks(self.text) if block.kind in COMMANDS or not reason(self.name, block.text)]
        for block, behind in zip(found, [*found[1:], None]):
            for start, doings in BEFORE.get(self.name, {}).items():
                if block.text.startswith(start):
                    for doing in doings:
                        self.done(doing)
            match block.kind:
                case "toml":
                    self.settings(block)
                case "html" | "js" if name := self.named(block, block.kind):
                    (self.shell.directory / name).write_text(self.in_place(block.text))
                case "python" | "js":
                    self.program(block, behind.text if behind and behind.kind == "text" else None)
                case "json":
                    [json.loads(line) for line in block.text.splitlines()]
                case "indented" if block.text.startswith("["):
                    self.settings(block)
                case kind if kind in COMMANDS:
                    self.commands(block)
                case "text":
                    pass  # what the program before it prints
                case other:
                    raise AssertionError(f"{self.name}:{block.line}: how is a block of {other!r} run? Say so, or why not, in a table here")
        if self.name in TRIED:
            self.missing |= TRIED[self.name](self.shell.directory, self.in_place("http://localhost:8000/"))
        if self.missing:
            pytest.skip(f"all else is as {self.name} says; not installed: {', '.join(sorted(self.missing))}")

    def in_place(self, text):
        for old, new in (REPLACED[""] | REPLACED.get(self.name, {})).items():
            text = text.replace(old, new)
        return text.replace("7070", str(self.shell.port))

    def done(self, command):
        """Does what the words say."""
        if command == "away":
            self.socket.close()
        elif command == "back":
            self.socket = connect(self.url)
        else:
            said, code = self.shell.run(command)
            assert code == 0, f"{command}\n{said}"

    def named(self, block, end):
        """The name that the block is to be saved by: the last one that was said and is not taken."""
        names = re.findall(rf"as\s+`([\w./]+\.{end})`", block.before)
        return names[-1] if names and not (self.shell.directory / names[-1]).exists() else None

    def settings(self, block):
        name = self.named(block, "toml")
        (self.shell.directory / (name or "settings.toml")).write_text(self.in_place(block.text))
        if not name:
            said, code = self.shell.run("tideline config --config settings.toml")
            assert code == 0, f"{self.name}:{block.line}: {said}"

    def program(self, block, printed):
        end = {"python": "py", "js": "mjs"}[block.kind]
        name = self.named(block, end)
        (self.shell.directory / (name or f"program.{end}")).write_text(self.in_place(block.text))
        section = block.before.rpartition("\n## ")[2]
        runs = re.findall(rf"`([^`]+ {re.escape(name)}[^`]*)`", section) if name else [f"python program.{end}"]
        begun = [self.shell.begin(self.in_place(run)) for run in runs]
        poke = POKED.get(name)
        for one in begun:
            self.shell.sees(one, re.escape(printed.strip("\n")) if printed else ".+", poke and (lambda: self.shell.run(poke)))

    def commands(self, block):
        for command, printed in commands(block.text):
            if not reason(self.name, command):
                self.command(command, printed)

    def command(self, command, printed):
        if command.startswith("> "):
            self.socket.send(self.with_epoch(command[2:]))
        elif command.startswith("< "):
            self.answered(command, self.socket.recv(PATIENCE), command[2:] + "\n" + printed)
        elif " -m websockets " in command:
            self.url = self.in_place(command.split()[-1])
            self.socket = connect(self.url)
        elif "pip install" in command:
            self.installed(command)
        elif re.search(r"\btideline-(load|peers) ", command) and not re.search("tests/|-load check [^#]*$", command):
            self.load(command)
        elif missing := self.needs(command):
            self.missing.add(missing)
        else:
            self.asked(self.in_place(self.with_epoch(command)), printed)

    def with_epoch(self, command):
        """Where a command has … for an epoch, the reader puts that of the answers before."""
        return command.replace('"epoch":"…"', f'"epoch":"{self.epoch}"')

    def asked(self, command, printed):
        endless = next((shown for start, shown in ENDLESS.items() if command.startswith(start) and "|" not in command), None)
        wanted = pattern(printed, self.name in MEASURED)
        if endless:
            begun = self.shell.begin(command)
            return self.shell.sees(begun, wanted or endless, lambda: self.shell.run("tideline send lobby waves"))
        until = time.monotonic() + PATIENCE
        while True:
            got, code = self.shell.run(command)
            if re.fullmatch(wanted, got) if printed else (code != 0) == any(word in command for word in FAILS):
                self.remember(got)
                return
            is_soon = any(word in command for word in LOOKS) and time.monotonic() < until
            assert is_soon, f"{self.name}: {command}\nprinted {printed}\ngot {got} and code {code}"
            time.sleep(0.5)

    def answered(self, command, got, printed):
        assert re.fullmatch(pattern(printed), got), f"{self.name}: {command}\nprinted {printed}\ngot {got}"
        self.remember(got)

    def remember(self, got):
        if epochs := re.findall(r'"epoch":"(\w+)"', got):
            self.epoch = epochs[-1]

    def installed(self, command):
        """The suite has what pages install; versions that they name are its own."""
        pinned = (pathlib.Path(__file__).parent / "requirements.txt").read_text()
        for package, version in re.findall(r" ([\w-]+)==([\d.]+)", command):
            assert f"{package}=={version}\n" in pinned, command

    def needs(self, command):
        """A program that the command needs and this machine does not have."""
        words = shlex.split(command.replace("\n", " "), comments=True, posix=False)
        starts = [word for before, word in zip(["|", *words], words) if before in ("|", "&&", "sudo")]
        return next((word for word in starts if word in ("curl", "openssl", "jq", "prometheus", "node") and not shutil.which(word)), None)

    def load(self, command):
        """A command of the load tool, with a hundredth of its numbers; or only whether the tool understands it."""
        command = self.in_place(command.partition(" #")[0]).replace("--prefix …", "--prefix a/").replace("…", "").strip()
        tool, profile = command.split()[:2]
        if "peers" in tool or profile not in SHORT:
            command = f"TIDELINE_ONLY_UNDERSTAND=1 {command}"
        else:
            counts = r"(--(?:timelines|subscribers|users|rate) )(\d+)"
            command = re.sub(counts, lambda found: found[1] + str(max(2, int(found[2]) // 100)), command)
            command = command.replace("--members 2..50", "--members 2..4")
            command += f" --url ws://127.0.0.1:{self.shell.port}/v1/connect --quiet --warm-up 0.1 --seconds 0.3"
        said, code = self.shell.run(command)
        # Whether the schedule was kept depends on the machine.
        assert code in (0, 6), f"{self.name}: {command}\n{said}"


def test_dashboards_are_what_their_program_writes(tmp_path):
    there = tmp_path / "grafana"
    shutil.copytree(ROOT / "grafana", there)
    shutil.rmtree(there / "dashboards")
    (there / "dashboards").mkdir()
    subprocess.run([sys.executable, there / "make_dashboards.py"], check=True, capture_output=True)

    def bytes_of(folder):
        return {one.name: one.read_bytes() for one in folder.iterdir()}

    made, kept = bytes_of(there / "dashboards"), bytes_of(ROOT / "grafana/dashboards")
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []


@pytest.mark.parametrize("name", [name for name in PAGES if name not in MADE])
def test_the_page_runs_as_printed(shell, name):
    for folder in ("clients", "docs", "grafana", "load", "tests"):
        (shell.directory / folder).symlink_to(ROOT / folder)
    Page(name, shell).read()


@pytest.mark.parametrize("text", [
    "    tideline call nonsense\n",
    "```console\n$ echo the tide is in\nthe tide is out\n```\n",
    "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    "```toml\nno_such_setting = 1\n```\n",
    "```json\n{\n```\n",
    "```ruby\nputs 1\n```\n",
])
def test_a_block_that_is_wrong_or_new_is_found(shell, text, monkeypatch):
    monkeypatch.setattr("shell.PATIENCE", 2)
    page = Page("docs/CLIENTS.md", shell)
    page.text = f"A page.\n\n{text}"
    with pytest.raises((AssertionError, ValueError)):
        page.read()
