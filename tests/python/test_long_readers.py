"""Readers that take their time hold no pages of an image: a hundred that asked for history and read none of it, and a
backup that stands still.

The image is written over many times meanwhile, and its file stays as small as without them. The control is a backup that
keeps one view for all of its copy (`copy_holds_view`).
"""

import json
import os
import random
import socket
import time

import pytest
from client import Client
from server import Server

READERS = 100
#: Megabytes that are written before, and then in each of three parts.
ROUNDS = 40
BATCH = 100
SETTINGS = """
memtable_bytes = 1048576
memtable_age_ms = 1000
segment_bytes = 1048576
retention_bytes = 1048576
backup_directory = "{}"
"""


class Stalled:
    """Asks for a page of history, and reads none of it."""

    def __init__(self, server):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", server.port))
        params = {"timeline": "history", "from": 1, "limit": 1000}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message.range", "params": params})
        head = f"POST /v1/rpc HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.socket.sendall((head + body).encode())


def write(client, rng):
    """A megabyte, most of which is trimmed again: so many rows come and go, and few stay."""
    text = rng.randbytes(5_000).hex()
    messages = [{"entry": {"text": text[n:] + text[:n]}} for n in range(BATCH)]
    head = client.call("message.append_batch", timeline="churn", messages=messages)["messages"][-1]["sequence"]
    client.call("timeline.trim", timeline="churn", before=max(1, head - BATCH))


def figure(server, name):
    (line,) = [line for line in server.get("/metrics")[2].decode().splitlines() if line.startswith(name + "{")]
    return float(line.split()[-1])


def grown(folder, fault=""):
    """The bytes of the image's file after a part and after three parts beside the readers; and how old the oldest is then,
    in transactions."""
    backups = folder / "backups"
    backups.mkdir()
    server = Server(folder, {"TIDELINE_FAULT": fault}, SETTINGS.format(backups)).start()
    rng, readers = random.Random(7), []
    try:
        with Client(server) as client:
            for _ in range(10):
                messages = [{"entry": {"text": rng.randbytes(1_000).hex()}} for _ in range(100)]
                client.call("message.append_batch", timeline="history", messages=messages)
            for _ in range(ROUNDS):
                write(client, rng)
            client.call("backup.start", target="slow", bytes_per_s=1)
            while (status := client.call("backup.status")["backup"])["state"] != "copying":
                assert status["state"] in ("waiting", "copying"), status
                time.sleep(0.01)
            readers = [Stalled(server) for _ in range(READERS)]
            # Merges rest for a copy until runs pile up: then the file has what it needs.
            sizes = []
            for _ in range(3):
                for _ in range(ROUNDS):
                    write(client, rng)
                sizes.append(figure(server, "tideline_image_file_bytes"))
            held = figure(server, "tideline_image_oldest_reader_transactions")
            status = client.call("backup.status")["backup"]
            assert status["state"] in ("waiting", "copying"), status
            assert client.call("backup.cancel") == {"cancelled": True}
        return sizes[0], sizes[2], held
    finally:
        for reader in readers:
            reader.socket.close()
        server.kill()


def test_the_image_does_not_grow_for_readers_that_stand_still(tmp_path):
    early, late, held = grown(tmp_path)
    assert late < 2 * early, (early, late)
    assert held < 10, held


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_view_that_is_kept_is_noticed(tmp_path):
    early, late, held = grown(tmp_path, "copy_holds_view")
    assert held >= 10 or late >= 2 * early, (early, late, held)
