"""The proxies of docs/PRODUCTION.md, each as it is printed there, before a real server.

Promises: through each a WebSocket lives and is pushed to, a call waits, a large body passes, and the server knows the
client's address. Only ports and paths differ from the page. Must not: use a proxy that the machine itself runs.
"""

import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import pytest

from places import ROOT, only_whole

sys.path.append(str(ROOT / "tests" / "docs"))
pytestmark = only_whole("needs a proxy")
websockets = pytest.importorskip("websockets.sync.client", reason="tests/packages/requirements.txt is not installed")
certificates = pytest.importorskip("certificates", reason="tests/packages/requirements.txt is not installed")

from blocks import blocks  # noqa: E402, its folder is on the path only now
from server import Server, free_port  # noqa: E402

HOST = "localhost"
PAGE = (ROOT / "docs" / "PRODUCTION.md").read_text()
PROXIES = {
    "nginx": lambda file: ["nginx", "-e", f"{file}.errors", "-c", file],
    "caddy": lambda file: ["caddy", "run", "--config", file, "--adapter", "caddyfile"],
    "haproxy": lambda file: ["haproxy", "-db", "-f", file],
}


def printed(kind):
    return next(block.text for block in blocks(PAGE) if block.kind == kind)


def whole(kind, folder, server, port):
    """The page's block, with this test's ports and paths, and what such a file needs around it."""
    text = printed(kind).replace("127.0.0.1:7070", f"127.0.0.1:{server.port}").replace("/etc/tideline/", f"{folder}/")
    match kind:
        case "nginx":
            text = text.replace("443 ssl", f"127.0.0.1:{port} ssl").replace("chat.example.org", HOST)
            paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            return f"user root;\ndaemon off;\npid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}}}\n"
        case "caddy":
            return "{\n    admin off\n    auto_https disable_redirects\n}\n" + text.replace("chat.example.org", f"https://{HOST}:{port}")
        case "haproxy":
            return text.replace("bind :443", f"bind 127.0.0.1:{port}")


@pytest.fixture(params=PROXIES)
def behind(request, tmp_path):
    """A server behind the proxy, and the proxy's port."""
    kind = request.param
    if not shutil.which(kind):
        pytest.skip(f"{kind} is not installed")
    authority = certificates.Authority(tmp_path)
    certificate, key = authority.issue("server")
    shutil.copy(certificate, tmp_path / "certificate.pem")
    shutil.copy(key, tmp_path / "key.pem")
    (tmp_path / "both.pem").write_bytes(b"".join((tmp_path / name).read_bytes() for name in ("certificate.pem", "key.pem")))
    settings = next(block.text for block in blocks(PAGE) if block.kind == "toml")
    server = Server(tmp_path, config=re.sub("^listen.*", "", settings, flags=re.M).replace("chat.example.org", HOST) + "insecure = true\n").start()
    port = free_port()
    file = tmp_path / f"{kind}.conf"
    file.write_text(whole(kind, tmp_path, server, port))
    with (tmp_path / "proxy.log").open("wb") as log:
        proxy = subprocess.Popen(PROXIES[kind](str(file)), stdout=log, stderr=log, env={"HOME": str(tmp_path), "PATH": "/usr/sbin:/usr/bin"})
    until = time.monotonic() + 60
    while not reached(port):
        assert proxy.poll() is None and time.monotonic() < until, (tmp_path / "proxy.log").read_text()
        time.sleep(0.1)
    yield server, port, ssl.create_default_context(cafile=authority.file)
    proxy.terminate()
    proxy.wait()
    server.kill()


def reached(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(socket, number, method, **params):
    socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    while (frame := json.loads(socket.recv(20))).get("id") != number:
        pass
    assert "result" in frame, frame
    return frame["result"]


def test_all_of_the_protocol_comes_through(behind):
    server, port, trusted = behind
    through = Through(port, trusted)
    until = time.monotonic() + 60
    while through.http("GET", "/readyz")[2].strip() != b"ready":  # HAProxy has not looked yet
        assert time.monotonic() < until
        time.sleep(0.2)
    url = f"wss://{HOST}:{port}/v1/connect"
    # From another address than the proxy's, which is trusted.
    with websockets.connect(url, ssl=trusted, subprotocols=["tideline.v1.json"], source_address=("127.0.0.2", 0)) as socket:
        opened = ask(socket, 1, "session.open", user="ann")
        ask(socket, 2, "timeline.create", timeline="room/1")
        ask(socket, 3, "subscribe", timeline="room/1", after=0)
        status, _, body = through.call("message.append", {"timeline": "room/1", "entry": {"text": "the tide is in"}})
        assert status == 200 and json.loads(body)["result"]["sequence"] == 1, (status, body)
        pushed = json.loads(socket.recv(20))
        assert pushed["method"] == "message" and pushed["params"]["messages"][0]["sequence"] == 1
        session = ask(socket, 4, "session.get", session=opened["session"])["session"]
        assert session["address"] == "127.0.0.2"
    # It waits, and is answered by nothing new.
    began = time.monotonic()
    status, _, body = through.call("sync", {"positions": {"room/1": 1}, "wait_ms": 3000})
    assert status == 200 and "error" not in json.loads(body) and time.monotonic() - began > 2.5
    # More than a proxy takes by default.
    messages = [{"entry": {"text": "x" * 200_000}} for _ in range(5)]
    status, _, body = through.call("message.append_batch", {"timeline": "room/1", "messages": messages})
    assert status == 200 and "result" in json.loads(body), body[:400]


class Through(Server):
    """The server, as its clients see it."""

    def __init__(self, port, trusted):
        self.port, self.tls = port, trusted

    def http(self, method, path, body=None, headers=None):
        return super().http(method, path, body, {"host": f"{HOST}:{self.port}", **(headers or {})})

    def call(self, method, params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.http("POST", "/v1/rpc", body, {"content-type": "application/json"})
