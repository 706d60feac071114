"""PROTOCOL.md, slice 3, `[tls]`: the same server over TLS, from outside."""

import concurrent.futures
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from certificates import DAY, Authority, now
from client import Client, until
from server import Server


NEWEST = ssl.TLSVersion.TLSv1_3


def settings(pair, more=""):
    return f'[tls]\ncertificate_file = "{pair[0]}"\nkey_file = "{pair[1]}"\n{more}'


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def secured(tmp_path, authority):
    """Starts a server with TLS."""
    started = []

    def start(pair=None, more="", client=None):
        pair = pair or authority.issue("server")
        server = Server(tmp_path, config=settings(pair, more), tls=client or authority.client())
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.kill()


def handshake(server, context, **options):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", **options) as secure:
            # With TLS 1.3 a refusal comes behind what the client takes for the end of the handshake.
            secure.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert secure.recv(12) == b"HTTP/1.1 200"
            return secure.version(), secure.selected_alpn_protocol(), secure.getpeercert()["serialNumber"]


def test_everything_is_served_on_it(secured, name):
    server = secured()
    assert server.get("/console/")[0] == 200 and server.get("/healthz")[0] == 200
    body = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    assert b"time" in server.http("POST", "/v1/rpc", body, {"Content-Type": "application/json"})[2]
    assert b"OTSParameterInvalid" in server.http("POST", "/ListTable", b"")[2]
    with Client(server, user="ada") as writer, Client(server, packed=True) as reader:
        reader.call("subscribe", timeline=name, create=True)
        # Larger than what one record of TLS holds, one behind the other.
        texts = [str(n) * (10_000 * (1 + n % 9)) for n in range(40)]
        numbers = [writer.ask("message.append", timeline=name, entry={"text": text}) for text in texts]
        assert [writer.take(number)["sequence"] for number in numbers] == list(range(1, 41))
        assert [message["entry"]["text"] for message in reader.messages(name, 40)] == texts
    assert server.metric('tideline_tls_handshakes_total', '{result="ok"}') > 4
    assert 19 * 86_400 < server.metric("tideline_certificate_end_seconds") - time.time() < 21 * 86_400
    assert server.stop() == 0


def test_versions_and_protocols(secured, authority):
    server = secured()
    context = authority.client(version=NEWEST)
    context.set_alpn_protocols(["h2", "http/1.1"])
    assert handshake(server, context)[:2] == ("TLSv1.3", "http/1.1")
    context = authority.client()
    assert handshake(server, context)[:2] == ("TLSv1.2", None)
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        handshake(server, context)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(authority.file)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        handshake(server, old)
    # A client that does not trust the authority ends it, and one without TLS is not answered.
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, ssl.create_default_context())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"HTTP" not in plain.recv(1_000)
    assert server.metric('tideline_tls_handshakes_total', '{result="failed"}') >= 3


def test_a_slow_handshake_is_in_nobodys_way_and_ends(secured):
    server = secured()
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(50)]
    began = time.monotonic()
    assert server.get("/healthz")[0] == 200
    assert server.metric("tideline_tls_handshakes_total", '{result="too_slow"}') == 0
    for one in silent:
        assert one.recv(1) == b""
        one.close()
    assert time.monotonic() - began > 8
    assert server.metric('tideline_tls_handshakes_total', '{result="too_slow"}') == 50


def test_a_new_certificate_is_served_when_both_files_fit(secured, authority):
    pair = authority.issue("server")
    server = secured(pair)
    first = handshake(server, authority.client(version=NEWEST))[2]
    with Client(server) as before:
        other = authority.issue("other", now() + 5 * DAY)
        shutil.copy(other[0], pair[0])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.metric("tideline_certificate_unfit") == 1)
        assert handshake(server, authority.client(version=NEWEST))[2] == first
        shutil.copy(other[1], pair[1])
        # Without a signal, too.
        until(lambda: handshake(server, authority.client(version=NEWEST))[2] != first)
        assert server.metric("tideline_certificate_unfit") == 0
        assert server.metric("tideline_certificate_end_seconds") < time.time() + 6 * 86_400
        assert before.call("ping")
    assert "the old certificate is served on" in server.log()


def test_certificates_of_clients(secured, authority, tmp_path):
    trusted = Authority(tmp_path, "clients")
    more = f'client_ca_file = "{trusted.file}"\n'
    server = secured(more=more)
    # One is asked for, not demanded.
    assert handshake(server, authority.client(version=NEWEST))
    assert handshake(server, authority.client(trusted.issue("back-end", of_client=True), NEWEST))
    for pair in [
        authority.issue("foreign", of_client=True),
        trusted.issue("over", now() - DAY, of_client=True),
    ]:
        with pytest.raises((ssl.SSLError, OSError)):
            handshake(server, authority.client(pair, NEWEST))
    # No connection is resumed: its certificate would not be looked at again.
    context = authority.client()
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            session = secure.session
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure:
            assert not secure.session_reused


def test_what_can_not_be_served_refuses_the_start(authority, tmp_path):
    pair = authority.issue("server")

    def refused(config):
        server = Server(tmp_path, config=config)
        with pytest.raises(RuntimeError) as caught:
            server.start()
        os.remove(tmp_path / "server.log")
        return str(caught.value)

    assert "both of them" in refused(f'[tls]\ncertificate_file = "{pair[0]}"\n')
    assert "nothing.pem" in refused(settings((tmp_path / "nothing.pem", pair[1])))
    assert "no certificates in PEM" in refused(settings((pair[1], pair[1])))
    assert "tls: " in refused(settings((pair[0], authority.issue("other")[1])))
    os.chmod(pair[1], 0o644)
    why = refused(settings(pair))
    assert "server.key: others can read" in why
    with open(pair[1]) as key:
        assert not any(line in why for line in key.read().splitlines())


def test_many_handshakes_at_once(secured, authority):
    server = secured()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        done = [pool.submit(handshake, server, authority.client(version=NEWEST)) for _ in range(200)]
        assert all(one.result()[0] == "TLSv1.3" for one in done)


def test_export_over_it(secured, authority, name):
    server = secured()
    with Client(server) as client:
        client.fill(name, 3)
    command = [server.binary, "export", "timeline_message", "--prefix", name, "--server", server.origin]
    done = subprocess.run([*command, "--ca-file", authority.file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3, done.stderr
    # The system does not trust the authority.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "certificate" in done.stderr, done.stderr
