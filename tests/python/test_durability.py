"""PROTOCOL.md, promises 1 to 5 over restarts: SIGKILL, SIGTERM, draining; and what an operator is told."""

import signal
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed

from client import Client, Refused, sequences


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_everything_answered_is_there_after_a_restart(own_server, how):
    own_server.start()
    with Client(own_server, user="ada") as client:
        first = client.append("t", {"a": 1, "b": {"$binary": "AAE="}}, message_id="m")
        client.fill("t", 150, start=2)
        client.call("message.update", timeline="t", sequence=5, set={"n": "edited"})
        client.call("message.delete", timeline="t", sequence=6)
        client.call("timeline.create", timeline="u", meta={"title": "x"})
        client.call("timeline.update", timeline="u", meta={"more": 1})
        client.fill("trimmed", 10)
        client.call("timeline.trim", timeline="trimmed", before=4)
        client.append("gone")
        client.call("timeline.delete", timeline="gone")
        before = [
            client.call("message.range", timeline="t", limit=1000),
            client.call("timeline.get", timeline="t"),
            client.call("timeline.get", timeline="u"),
            client.call("message.range", timeline="trimmed"),
            client.call("timeline.list"),
        ]
    own_server.restart(how)
    with Client(own_server, user="ada") as client:
        after = [
            client.call("message.range", timeline="t", limit=1000),
            client.call("timeline.get", timeline="t"),
            client.call("timeline.get", timeline="u"),
            client.call("message.range", timeline="trimmed"),
            client.call("timeline.list"),
        ]
        assert after == before
        entry = {"a": 1, "b": {"$binary": "AAE="}}
        assert client.append("t", entry, message_id="m") == {**first, "duplicate": True}
        with pytest.raises(Refused) as caught:
            client.append("t", {"a": 2}, message_id="m")
        assert caught.value.reason == "message_id_conflict"
        assert client.append("t")["sequence"] == 152
        assert client.call("message.update", timeline="t", sequence=1, set={"z": 1})["message"]["change"] == 3
        with pytest.raises(Refused):
            client.call("timeline.get", timeline="gone")


def test_a_resume_after_a_kill_has_no_gap(own_server):
    own_server.start()
    with Client(own_server) as client:
        client.fill("t", 20)
        reply = client.call("subscribe", timeline="t", after=0)
        position, epoch = reply["messages"][-1]["sequence"], reply["epoch"]
        assert position == 20
        client.append("t")
    own_server.restart(signal.SIGKILL)
    with Client(own_server) as client:
        client.append("t")
        reply = client.call("subscribe", timeline="t", after=position, epoch=epoch)
        assert reply["state"] == "ok" and sequences(reply["messages"]) == [21, 22]


def test_kill_under_load_and_repeat_with_the_same_ids(own_server):
    """The client's outbox: everything is sent again until answered; nothing is lost or doubled."""
    own_server.start()
    acked = {}

    def write(number):
        for n in range(10_000):
            while True:
                try:
                    with Client(own_server, user=f"w{number}", open_timeout=2) as client:
                        while n < 400:
                            told = client.append("t", {"w": number, "n": n}, message_id=f"{number}-{n}")
                            acked[f"{number}-{n}"] = told["sequence"]
                            n += 1
                        return
                except (ConnectionClosed, OSError, TimeoutError, EOFError):
                    time.sleep(0.02)
                except Exception as error:
                    if type(error).__name__ not in ("InvalidMessage", "InvalidHandshake"):
                        raise
                    time.sleep(0.02)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(3):
        time.sleep(0.25)
        own_server.restart(signal.SIGKILL)
    for writer in writers:
        writer.join(60)
    with Client(own_server) as client:
        got, at = [], 1
        while at is not None:
            page = client.call("message.range", timeline="t", limit=1000, **{"from": at})
            got += page["messages"]
            at = page.get("next")
    assert sequences(got) == list(range(1, 1_601))
    assert {message["message_id"]: message["sequence"] for message in got} == acked
    for number in range(4):
        assert [m["entry"]["n"] for m in got if m["entry"]["w"] == number] == list(range(400))


def test_shutdown_says_draining_answers_waiting_syncs_and_closes_with_4002(own_server):
    own_server.start()
    with Client(own_server) as client:
        client.append("t")
        client.call("subscribe", timeline="t")
        number = client.ask("sync", positions={"t": 1}, wait_ms=60_000)
        client.call("ping")
        own_server.process.send_signal(signal.SIGTERM)
        push = client.push("draining")
        assert push["reconnect_in_ms"] >= 0
        assert "timelines" in client.take(number)
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                client.receive()
        assert caught.value.rcvd.code == 4002
    assert own_server.process.wait(60) == 0


def test_sigint_ends_it_too(own_server):
    own_server.start()
    assert own_server.stop(signal.SIGINT) == 0


def test_configuration_changes_limits(tmp_path):
    from server import Server

    running = Server(tmp_path, config="entry_bytes_max = 2000\n")
    try:
        running.start()
        with Client(running) as client:
            assert client.call("session.open")["limits"]["entry_bytes_max"] == 2000
            with pytest.raises(Refused) as caught:
                client.append("t", {"t": "x" * 2000})
            assert caught.value.reason == "too_large"
    finally:
        running.kill()


def test_a_silent_client_is_closed_and_one_that_answers_pings_is_not(tmp_path):
    from server import Server
    from test_transport import raw

    running = Server(tmp_path, config="heartbeat_ms = 1000\n")
    try:
        running.start()
        with Client(running) as client:
            silent = raw(running)
            frame = b""
            while chunk := silent.recv(4096):
                frame += chunk
            silent.close()
            # Pings came, then the close: 4001 idle.
            assert frame.startswith(b"\x89")
            assert b"\x0f\xa1" in frame
            assert client.call("ping")
    finally:
        running.kill()
