"""T2 of docs/FAULTS.md: the server's process stands still (SIGSTOP), as a machine does that is moved or swaps. What was sent to it
then is done when it goes on, though its sender has gone and has sent it again elsewhere: once, all the same.
"""

import os
import signal
import time

import pytest

from client import Client
from server import Server

ROUNDS = 5


def heads_after_pauses(server):
    """Appends to a server that stands still, gives up, and appends again: how many messages there are after each."""
    heads = []
    for number in range(1, ROUNDS + 1):
        lost = Client(server)
        lost.append("room", {"n": 0}, message_id="first")
        server.process.send_signal(signal.SIGSTOP)
        lost.ask("message.append", timeline="room", entry={"n": number}, message_id=f"m-{number}")
        time.sleep(0.3)
        lost.socket.close_socket()
        server.process.send_signal(signal.SIGCONT)
        with Client(server) as client:
            client.append("room", {"n": number}, message_id=f"m-{number}")
            heads.append(client.call("timeline.get", timeline="room")["head"])
    return heads


def test_what_a_paused_server_was_sent_twice_is_done_once(own_server):
    assert heads_after_pauses(own_server.start()) == [number + 1 for number in range(1, ROUNDS + 1)]


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_control_a_message_that_is_done_twice_is_noticed(tmp_path):
    server = Server(tmp_path, environment={"TIDELINE_FAULT": "ids_forgotten"}).start()
    try:
        assert heads_after_pauses(server)[-1] > 2 * ROUNDS
    finally:
        server.kill()
