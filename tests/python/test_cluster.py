"""`tideline cluster nats-config`: its files, and what nats-server makes of them.

The servers that run with such files are in src/jetstream/tests.
"""

import os
import shutil
import subprocess
import sys

import pytest

NATS = shutil.which("nats-server", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
PEERS = "a=127.0.0.1,b=127.0.0.2,c=127.0.0.3"


def run(binary, *words):
    done = subprocess.run([binary, "cluster", "nats-config", *map(str, words)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def binary():
    return os.environ["TIDELINE_BIN"]


def test_it_writes_a_file_for_each_machine_that_nats_server_accepts(binary, tmp_path):
    out = tmp_path / "nats"
    code, said, complained = run(binary, "--peers", PEERS, "--name", "chat", "--out", out, "--store", tmp_path / "store")
    assert (code, complained) == (0, "")
    names = ["a.conf", "b.conf", "c.conf", "node.login", "operator.login"]
    assert said.split() == [str(out / name) for name in names]
    assert sorted(path.name for path in out.iterdir()) == names
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in out.iterdir())
    user, password = (out / "node.login").read_text().strip().split(":")
    assert user == "node" and len(password) == 64
    assert password != (out / "operator.login").read_text().strip().split(":")[1]
    for name in names[:3]:
        text = (out / name).read_text()
        assert "sync_interval: always" in text and "max_payload: 8MB" in text and password in text
        checked = subprocess.run([NATS, "-t", "-c", out / name], capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stderr


def test_a_file_that_is_there_is_not_written_over(binary, tmp_path):
    (tmp_path / "b.conf").write_text("mine")
    code, _, complained = run(binary, "--peers", "a,b,c", "--out", tmp_path)
    assert code == 1 and "b.conf is there already" in complained
    assert [path.name for path in tmp_path.iterdir()] == ["b.conf"]
    assert (tmp_path / "b.conf").read_text() == "mine"


@pytest.mark.parametrize(
    "words, said",
    [
        (["--peers", "a,b"], "names 2 machines: name three"),
        (["--peers", "a,b,a"], "names a or its host twice"),
        (["--peers", "a=x,b=x,c"], "names b or its host twice"),
        (["--peers", 'a,b,c="'], "NAME=HOST"),
        (["--peers", "a,b,c", "--name", "A.b"], "a-z, 0-9 and -"),
        (["--peers", "a,b,c", "--store", "here"], "a path from the root"),
        ([], "--peers"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(binary, tmp_path, words, said):
    code, _, complained = run(binary, *words, "--out", tmp_path / "out")
    assert code != 0 and said in complained
    assert not (tmp_path / "out").exists()
