"""PROTOCOL.md, Transport: sub-protocols, HTTP pages, Origin and Host, frames that are not allowed, sizes, pings."""

import json
import os
import socket
import struct
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from client import Client


def test_subprotocol_is_echoed(server):
    for wanted in ["tideline.v1.json", "tideline.v1.msgpack"]:
        with connect(server.url, subprotocols=[wanted], compression=None) as socket_:
            assert socket_.subprotocol == wanted


def test_first_known_subprotocol_is_taken_among_unknown_ones(server):
    with connect(server.url, subprotocols=["x.y", "tideline.v1.msgpack"], compression=None) as socket_:
        assert socket_.subprotocol == "tideline.v1.msgpack"


def test_without_subprotocol_it_is_json_and_none_is_echoed(server):
    with connect(server.url, compression=None) as socket_:
        assert socket_.subprotocol is None
        socket_.send('{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert "time" in json.loads(socket_.recv(60))["result"]


def test_only_unknown_subprotocols_are_400(server):
    with pytest.raises(InvalidStatus) as caught:
        connect(server.url, subprotocols=["tideline.v9.json"], compression=None)
    assert caught.value.response.status_code == 400


def test_no_extension_is_negotiated(server):
    with connect(server.url, compression="deflate") as socket_:
        assert "Sec-WebSocket-Extensions" not in socket_.response.headers


def test_pages(server):
    assert server.get("/healthz")[0] == 200
    assert server.get("/readyz")[0] == 200
    status, headers, body = server.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert b"# TYPE" in body
    status, headers, _ = server.get("/")
    assert status == 307 and headers["Location"] == "/console/"
    assert server.get("/nothing/here")[0] == 404


def test_foreign_origin_is_403_everywhere(server):
    for origin in ["http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"]:
        with pytest.raises(InvalidStatus) as caught:
            connect(server.url, origin=origin, compression=None)
        assert caught.value.response.status_code == 403
        assert server.get("/", {"Origin": origin})[0] == 403
        headers = {"Origin": origin, "Content-Type": "application/json"}
        assert server.http("POST", "/v1/rpc", b"{}", headers)[0] == 403


def test_own_origin_is_let_in(server):
    with connect(server.url, origin=server.origin, compression=None):
        pass
    local = f"localhost:{server.port}"
    assert server.get("/console/", {"Host": local, "Origin": f"http://{local}"})[0] == 200


def test_foreign_host_is_403(server):
    assert server.get("/", {"Host": "evil.example"})[0] == 403
    assert server.get("/", {"Host": f"evil.example:{server.port}"})[0] == 403
    assert server.get("/console/", {"Host": f"localhost:{server.port}"})[0] == 200


def closed_with(socket_):
    """The code of the close that comes; other messages before it are skipped."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket_.recv(60)
    return caught.value.rcvd.code if caught.value.rcvd else None


def test_binary_frame_on_a_json_connection_is_1003(server):
    with Client(server) as client:
        client.socket.send(b"\x00")
        assert closed_with(client.socket) == 1003


def test_text_frame_on_a_msgpack_connection_is_1003(server):
    with Client(server, packed=True) as client:
        client.socket.send("{}")
        assert closed_with(client.socket) == 1003


def test_invalid_utf8_in_a_text_frame_is_1007(server):
    with Client(server) as client:
        client.socket.send(b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}', text=True)
        assert closed_with(client.socket) == 1007


def test_a_frame_above_the_inbound_limit_is_1009(server):
    with Client(server) as client:
        limit = client.call("session.open")["limits"]["inbound_frame_bytes_max"]
        assert limit == 4 << 20
        client.send(" " * (limit + 1))
        assert closed_with(client.socket) == 1009


def raw(server):
    """A socket that has upgraded, to write frames on that no library would."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    plain.sendall(
        (
            f"GET /v1/connect HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += plain.recv(1)
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answer
    return plain


def raw_close_code(plain):
    frame = b""
    try:
        while chunk := plain.recv(4096):
            frame += chunk
    except ConnectionResetError:
        pass
    if not frame:
        return None
    assert frame[0] == 0x88, frame
    return struct.unpack(">H", frame[2:4])[0]


def test_unmasked_and_reserved_frames_are_1002(server):
    for frame in [b"\x81\x02{}", b"\xc1\x82\0\0\0\0{}", b"\x83\x80\0\0\0\0", b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126]:
        with raw(server) as plain:
            plain.sendall(frame)
            assert raw_close_code(plain) in (1002, None)


def test_a_length_of_four_gib_is_refused_before_it_comes(server):
    with raw(server) as plain:
        plain.sendall(b"\x81\xff" + struct.pack(">Q", 4 << 30) + b"\0\0\0\0")
        assert raw_close_code(plain) in (1009, None)


def test_a_text_in_fragments_is_one_message(server):
    with Client(server) as client:
        client.socket.send(iter(['{"jsonrpc":"2.0",', '"id":"frag",', '"method":"ping"}']))
        assert client.receive()["id"] == "frag"


def test_ping_frames_are_answered(server):
    with Client(server) as client:
        assert client.socket.ping(b"hello").wait(60)


def test_each_of_many_pings_has_a_pong(server):
    """They come together, so that many wait for the socket at once; of more than 16 the oldest may be left out."""
    ping = lambda number: b"\x89\x81\x00\x00\x00\x00" + bytes([number])
    for count in [10, 16]:
        with raw(server) as connection:
            connection.sendall(b"".join(ping(number) for number in range(count)))
            expected = b"".join(b"\x8a\x01" + bytes([number]) for number in range(count))
            got = b""
            while len(got) < len(expected):
                piece = connection.recv(4096)
                assert piece, got
                got += piece
            assert got == expected


def test_a_normal_close_is_answered(server):
    client = Client(server)
    client.close()
    assert client.socket.close_code == 1000


def test_a_client_that_goes_without_a_word_harms_nobody(server, client):
    for _ in range(20):
        gone = raw(server)
        gone.sendall(b"\x81")
        gone.close()
    assert "time" in client.call("ping")


def test_half_a_request_does_not_hold_others_up(server, client):
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"GET /v1/conn")
        assert server.get("/healthz")[0] == 200
        assert "time" in client.call("ping")


def test_a_client_that_never_reads_harms_nobody(server, client, name):
    client.fill(name, 300)
    big = {"text": "y" * 20_000}
    for _ in range(20):
        client.append(name, big)
    with raw(server) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        text = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "message.range", "params": {"timeline": name, "limit": 1000}}
        ).encode()
        frame = b"\x81\xfe" + struct.pack(">H", len(text)) + b"\0\0\0\0" + text
        deaf.setblocking(False)
        try:
            for _ in range(2_000):
                deaf.sendall(frame)
        except BlockingIOError:
            pass
        began = time.monotonic()
        for _ in range(50):
            client.append(name)
        assert client.call("timeline.get", timeline=name)["head"] == 370
        assert time.monotonic() - began < 60
        assert server.memory() < 700_000 << 10, "memory is not bounded"


def test_ten_thousand_requests_in_flight(server, name):
    """At the limit the server stops reading: no error, every request is answered."""
    with Client(server) as client:
        import threading

        def send():
            for number in range(10_000):
                client.socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}))

        sender = threading.Thread(target=send)
        sender.start()
        seen = {client.receive(60)["id"] for _ in range(10_000)}
        sender.join()
        assert seen == set(range(10_000))


def test_second_process_on_one_directory_is_refused(server):
    import subprocess

    from server import free_port

    command = [server.binary, "serve", "--data", server.data, "--listen", f"127.0.0.1:{free_port()}"]
    second = subprocess.run(command, capture_output=True, timeout=60, env=dict(os.environ))
    assert second.returncode != 0
    assert second.stderr or second.stdout


def test_port_in_use_is_said(server, tmp_path):
    import subprocess

    command = [server.binary, "serve", "--data", str(tmp_path / "d"), "--listen", f"127.0.0.1:{server.port}"]
    second = subprocess.run(command, capture_output=True, timeout=60, env=dict(os.environ))
    assert second.returncode != 0
    assert str(server.port) in (second.stderr + second.stdout).decode()
