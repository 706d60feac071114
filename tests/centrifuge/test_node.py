"""The SDK for JavaScript, and the scripts of docs/CENTRIFUGE.md as they are printed there."""

import collections
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading

import pytest

from drill import prepared, set_back
from sdk import KEY, SECRET
from server import free_port

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "CENTRIFUGE.md"
# Of clients, in node/kinds.mjs.
KINDS = ["json", "protobuf", "http_stream", "http_stream_protobuf", "sse"]

needs_node = pytest.mark.skipif("TIDELINE_NODE" not in os.environ, reason="cargo test says where Node is")


def node(script, folder, **environment):
    """Runs a module beside which the packages are."""
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(os.environ["TIDELINE_NODE_MODULES"])
    return [os.environ["TIDELINE_NODE"], *script], {**os.environ, **environment}


def beside(name, folder):
    """A copy of a module of ours where the packages will be."""
    shutil.copy(HERE / "node" / "kinds.mjs", folder)
    return shutil.copy(HERE / "node" / name, folder)


def run(command, environment, folder):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=folder)


@needs_node
def test_the_sdk_for_javascript(insecure, tmp_path):
    file = beside("sdk.test.mjs", tmp_path)
    environment = {"TIDELINE_ADDRESS": f"127.0.0.1:{insecure.port}", "TIDELINE_KEY": KEY, "TIDELINE_SECRET": SECRET}
    command, environment = node(["--test", file], tmp_path, **environment)
    done = run(command, environment, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


class Followers:
    """Clients of every transport and in both encodings, in one process; what each says, by its kind."""

    def __init__(self, server, folder):
        command, environment = node([beside("restored.mjs", folder)], folder, TIDELINE_ADDRESS=f"127.0.0.1:{server.port}")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder)
        self.said = collections.defaultdict(queue.Queue)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            kind, *what = json.loads(line)
            self.said[kind].put(what)

    def next(self, kind, event):
        found, what = self.said[kind].get(timeout=60)
        assert found == event, (kind, found, what)
        return what

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@needs_node
def test_who_follows_a_restored_server_is_told_that_it_began_anew(own, tmp_path):
    """The drill of docs/BACKUP.md."""
    prepared(own).start()
    publish = lambda values: [own.did("publish", channel="room", data=value)["offset"] for value in values]
    with Followers(own, tmp_path) as followers:
        before = {kind: followers.next(kind, "subscribed") for kind in KINDS}
        assert publish([1, 2, 3]) == [1, 2, 3]
        assert set_back(own, lambda: publish(["lost"] * 3)) == [4, 5, 6]
        for kind in KINDS:
            heard = [followers.next(kind, "publication") for _ in range(6)]
            assert heard == [[1, 1], [2, 2], [3, 3], [4, "lost"], [5, "lost"], [6, "lost"]], kind
            anew = followers.next(kind, "subscribed")
            # What it has may be of the past that is lost, so nothing is handed on as if it followed on that.
            assert (anew["wasRecovering"], anew["recovered"], anew["offset"]) == (True, False, 3), (kind, anew)
            assert anew["epoch"] != before[kind]["epoch"], kind
            before[kind] = anew
        assert publish(["new"]) == [4]
        for kind in KINDS:
            assert followers.next(kind, "publication") == [4, "new"], kind
        # Each hears what all of them publish, and the answer of its own call somewhere between.
        for kind in KINDS:
            said = [followers.said[kind].get(timeout=60) for _ in range(1 + len(KINDS))]
            published = [what for event, what in said if event == "publication"]
            assert [offset for offset, _ in published] == list(range(5, 5 + len(KINDS))), (kind, said)
            assert sorted(what for _, what in published) == sorted(KINDS), (kind, said)
            (history,) = [what for event, what in said if event == "history"]
            assert history["publications"][:4] == [[1, 1], [2, 2], [3, 3], [4, "new"]], (kind, history)
            assert history["epoch"] == before[kind]["epoch"], (kind, history)


@pytest.mark.parametrize("language", ["python", pytest.param("js", marks=needs_node)])
def test_the_scripts_of_the_page_run_as_printed(tmp_path, language):
    page = PAGE.read_text().split("\n## Begin\n", 1)[1].split("\n## ", 1)[0]
    (config,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    (script,) = re.findall(rf"```{language}\n(.*?)```", page, re.S)
    (shell,) = re.findall(r"```console\n\$ (.*?)\n```", page, re.S)
    subprocess.run(["bash", "-c", shell], cwd=tmp_path, check=True)
    (printed,) = re.findall(r"```text\n(.*?)```", page, re.S)
    assert len(script.splitlines()) <= 60 and script.count("127.0.0.1:7070") == 1
    (tmp_path / "centrifuge.toml").write_text(config)
    file = tmp_path / {"python": "script.py", "js": "script.mjs"}[language]
    file.write_text(script.replace("127.0.0.1:7070", f"127.0.0.1:{free_port()}"))
    binaries = pathlib.Path(os.environ["TIDELINE_BIN"]).parent
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    if language == "python":
        command, environment = [sys.executable, file], {**os.environ}
    else:
        command, environment = node([file], tmp_path)
    done = run(command, {**environment, "PATH": path}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
