"""The chat program of the top-level README, as it is printed there, loses and doubles nothing when it or the server is
killed. `TIDELINE_KILLS` says how often; few by default.

Only its address is another, and the random time before it comes back.
"""

import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from server import Server

PAGE = pathlib.Path(__file__).resolve().parents[3] / "README.md"
KILLS = int(os.environ.get("TIDELINE_KILLS", "4"))
PATIENCE = 60


@pytest.fixture
def own_server(tmp_path):
    running = Server(tmp_path).start()
    yield running
    running.kill()


def program(server):
    _, _, behind = PAGE.read_text().partition("## A chat program")
    text = re.search(r"```python\n(.*?)```", behind, re.DOTALL)[1]
    assert len([line for line in text.splitlines() if line.strip()]) <= 20
    assert "127.0.0.1:7070" in text and "user=user" in text
    return text.replace("127.0.0.1:7070", f"127.0.0.1:{server.port}").replace("user=user", "user=user, delay_s=(0, 0.1)")


def outbox(file):
    """The texts that a store promises to send. Nobody else may use it meanwhile."""
    if not file.exists():
        return set()
    base = sqlite3.connect(file)
    try:
        return {json.loads(params)["entry"]["text"] for (params,) in base.execute("SELECT params FROM outbox")}
    except sqlite3.OperationalError as error:
        assert "no such table" in str(error)
        return set()
    finally:
        base.close()


def test_the_chat_loses_nothing_when_anything_is_killed(own_server, packages, tmp_path):
    (tmp_path / "chat.py").write_text(program(own_server))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([packages["python"], os.environ.get("PYTHONPATH", "")])}
    rng, running, promised, said = random.Random(), {}, set(), 0

    def start(user, count):
        nonlocal said
        texts = [f"{user} {said + n}" for n in range(count)]
        said += count
        command = [sys.executable, tmp_path / "chat.py", user, "room/1", *texts]
        out = (tmp_path / f"{user}.out").open("ab")
        running[user] = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=out, env=environment)

    def kill(user):
        assert running[user].poll() is None, (tmp_path / f"{user}.out").read_text()[-2000:]
        running[user].kill()
        running[user].wait()
        promised.update(outbox(tmp_path / f"{user}.db"))

    try:
        for user in ("ann", "ben"):
            start(user, 5)
        for _ in range(KILLS):
            time.sleep(rng.random() * 0.6)
            victim = rng.choice(["server", "ann", "ben"])
            if victim == "server":
                own_server.restart(signal.SIGKILL)
            else:
                kill(victim)
                start(victim, rng.randint(0, 20))
        # Each says a last thing, and then has nothing more to send.
        until = time.monotonic() + PATIENCE
        for user in ("ann", "ben"):
            kill(user)
            start(user, 1)
        while True:
            answer = json.loads(own_server.rpc(None, "message.range", timeline="room/1", limit=1000)[2])
            sent = answer["result"]["messages"] if "result" in answer else []
            texts = [message["entry"]["text"] for message in sent]
            shown = [(tmp_path / f"{user}.out").read_text() for user in ("ann", "ben")]
            last = [f"\n{message['sequence']} {message['sender']} " for message in sent[-1:]]
            if promised <= set(texts) and last and all(last[0] in out for out in shown):
                break
            assert time.monotonic() < until, (promised - set(texts), shown[0][-500:])
            time.sleep(0.05)
        assert len(texts) == len(set(texts)), "something was said twice"
        for user in ("ann", "ben"):
            kill(user)
            base = sqlite3.connect(tmp_path / f"{user}.db")
            stored = [json.loads(body) for (body,) in base.execute("SELECT body FROM message ORDER BY sequence")]
            base.close()
            assert stored[: len(sent)] == sent
    finally:
        for child in running.values():
            child.kill()
            child.wait()
