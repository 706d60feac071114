"""The program of docs/CLIENTS.md for the client's loop, as it is printed there, against the real binary."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from client import Client, until

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "CLIENTS.md"


def program(name, server):
    """The program that the page says to save by this name; only its address is another."""
    _, _, behind = PAGE.read_text().partition(f"as `{name}`")
    text = re.search(r"```python\n(.*?)```", behind, re.DOTALL)[1]
    assert "127.0.0.1:7070" in text
    return text.replace("127.0.0.1:7070", f"127.0.0.1:{server.port}")


def stands(folder):
    """Which files there are, as far as a look from outside tells them apart."""
    found = []
    for entry in os.scandir(folder):
        try:
            stat = entry.stat()
            found.append((entry.name, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            found.append((entry.name,))
    return sorted(found)


def test_the_chat_keeps_its_outbox_when_it_is_killed_while_it_writes(server, client, name, tmp_path):
    chat = tmp_path / "chat.py"
    chat.write_text(program("chat.py", server))
    home = tmp_path / "home"
    home.mkdir()
    file = home / "ann.json"
    # Much to write each time.
    client.call("message.append_batch", timeline=name, messages=[{"entry": {"text": "x" * 5000}}] * 100)
    expected = set()
    for round in range(40):
        if round >= 8 and len(expected) > 5:
            break
        texts = [f"{round}-{n}" for n in range(3)]
        before = stands(home)
        child = subprocess.Popen([sys.executable, chat, "ann", name, *texts], cwd=home, stdout=subprocess.DEVNULL)
        # In the middle of one of its writes, and each time of another one: a write is up to a hundred changes.
        patience = 20
        for _ in range(2 ** random.randint(0, 9)):
            until = time.monotonic() + patience
            while (now := stands(home)) == before and time.monotonic() < until and child.poll() is None:
                pass
            if now == before:
                break
            # It has begun, and soon has no more to write.
            before, patience = now, 0.2
        assert child.poll() is None, "it ended by itself"
        child.kill()
        child.wait()
        if file.exists():
            expected |= {entry["text"] for entry in json.loads(file.read_text())["outbox"].values()}
    child = subprocess.Popen([sys.executable, chat, "ann", name, "last"], cwd=home, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        said = {}
        while "last" not in said and time.monotonic() < until:
            time.sleep(0.1)
            said = json.loads(file.read_text())
            said = {} if said["outbox"] else {m["entry"]["text"]: 1 for m in said["messages"].values()}
        assert "last" in said
    finally:
        child.kill()
        child.wait()
    sent, place = [], 101
    while place:
        page = client.call("message.range", timeline=name, **{"from": place})
        sent += [message["entry"]["text"] for message in page["messages"]]
        place = page.get("next")
    assert expected <= set(sent) and len(expected) > 5
    assert len(sent) == len(set(sent)), "something was said twice"


def test_the_follower_is_told_everything_across_kills(own_server, tmp_path):
    server = own_server.start()
    (tmp_path / "follow.py").write_text(program("follow.py", server))
    out = tmp_path / "told"

    def start():
        command = [sys.executable, tmp_path / "follow.py", "room/", "search"]
        return subprocess.Popen(command, stdout=out.open("ab"), stderr=subprocess.DEVNULL)

    def sequences():
        told = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return [sequence for kind, _, sequence in told if kind == "message"]

    def comes(last):
        until(lambda: sequences()[-1:] == [last])

    def say(first, last):
        with Client(server) as client:
            client.call("message.append_batch", timeline="room/1", messages=[{"entry": {"n": 1}}] * (last - first + 1))
            client.append("elsewhere")

    child = start()
    try:
        with Client(server) as client:
            until(lambda: client.call("stream.cursors")["cursors"])
        say(1, 3)
        comes(3)
        child.kill()
        child.wait()
        say(4, 6)
        child = start()
        comes(6)
        server.restart(signal.SIGKILL)
        say(7, 9)
        comes(9)
        told = sequences()
        # What was not committed came again; nothing is missing, and nothing is out of order.
        assert sorted(set(told)) == list(range(1, 10))
        assert all(later <= earlier + 1 for earlier, later in zip(told, told[1:]))
    finally:
        child.kill()
        child.wait()
