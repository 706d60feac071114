"""`tideline verify` and `tideline dump` on directories that a server left behind."""

import subprocess

from client import Client


def test_verify_and_dump_agree(own_server):
    own_server.start()
    with Client(own_server) as client:
        client.fill("t", 250)
        client.call("message.delete", timeline="t", sequence=7)
        client.append("other", {"text": "ü"})
    own_server.stop()
    verify = subprocess.run([own_server.binary, "verify", own_server.data], capture_output=True, timeout=60)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    dump = subprocess.run([own_server.binary, "dump", own_server.data, "t"], capture_output=True, timeout=60)
    assert dump.returncode == 0
    assert len(dump.stdout.decode().splitlines()) >= 250


def test_verify_after_a_kill(own_server):
    own_server.start()
    with Client(own_server) as client:
        client.fill("t", 500)
    own_server.kill()
    verify = subprocess.run([own_server.binary, "verify", own_server.data], capture_output=True, timeout=60)
    assert verify.returncode == 0, verify.stdout + verify.stderr
