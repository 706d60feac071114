"""The console and the demo as files: every one of the folders, by its path, with the headers of docs/ACCESS.md."""

import gzip
import pathlib
import posixpath
import re

import pytest

from client import until

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
KINDS = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}


def served():
    """Each file with the path that it is served by."""
    client = ROOT / "clients" / "javascript"
    for file in sorted((ROOT / "console").rglob("*")):
        below = file.relative_to(ROOT / "console").as_posix()
        if file.is_file() and file.suffix in KINDS and not below.startswith(("scripts/", "test/")):
            yield file, f"/{below}" if below.startswith("demo/") else f"/console/{below}"
    for name in ["index.js", "connection.js", "store/memory.js", "store/indexeddb.js"]:
        yield client / name, f"/console/client/{name}"


FILES = list(served())


@pytest.mark.parametrize("file, path", FILES, ids=[path for _, path in FILES])
def test_each_file_is_served_whole_with_its_headers(server, file, path):
    content = file.read_bytes()
    status, headers, body = server.get(path)
    assert (status, body) == (200, content)
    assert headers["Content-Type"].split(";")[0] == KINDS[file.suffix]
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-cache" and headers["Vary"].lower() == "accept-encoding"
    assert "Content-Encoding" not in headers and "Set-Cookie" not in headers

    status, packed, body = server.get(path, {"Accept-Encoding": "gzip, deflate, br"})
    assert status == 200 and packed["ETag"] == headers["ETag"] and packed["Vary"].lower() == "accept-encoding"
    if packed["Content-Encoding"] == "gzip":
        assert len(body) < len(content) and gzip.decompress(body) == content
    else:
        assert body == content

    status, head, body = server.http("HEAD", path)
    assert (status, body) == (200, b"") and int(head["Content-Length"]) == len(content)

    for known in [headers["ETag"], f'"another", {headers["ETag"]}', "*"]:
        status, again, body = server.get(path, {"If-None-Match": known})
        assert (status, body) == (304, b"") and again["ETag"] == headers["ETag"], known
        assert again["Content-Security-Policy"] == POLICY
    assert server.get(path, {"If-None-Match": '"another"'})[0] == 200


def test_no_two_files_have_one_etag(server):
    tags = {server.get(path)[1]["ETag"] for _, path in FILES}
    assert len(tags) == len({file.read_bytes() for file, _ in FILES})


def test_a_folder_is_its_index_and_slashes_are_put_right(server):
    assert server.get("/console/")[2] == server.get("/console/index.html")[2]
    for path, to in [("/", "/console/"), ("/console", "/console/"), ("/demo", "/demo/")]:
        status, headers, _ = server.get(path)
        assert (status, headers["Location"]) == (307, to)
        assert headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("path", [
    "/console/none.js", "/console/client/", "/console/client/bench.js", "/console/client/store/file.js", "/console/client/test/script.js",
    "/console/scripts/serve.js", "/console/test/", "/console/../Cargo.toml", "/console/%2e%2e/Cargo.toml", "/console//main.js", "/console/main.js/",
    "/demo/../console/main.js", "/style.css",
])
def test_nothing_else_is_there(server, path):
    status, headers, body = server.get(path)
    assert status == 404 and b"no such page" in body
    assert headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_files_are_only_read(server, method):
    status, headers, _ = server.http(method, "/console/main.js", b"x")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("coding, is_packed", [("gzip", True), ("GZIP;q=0.3", True), ("gzip;q=0", False), ("br", False), ("", False)])
def test_gzip_is_for_those_who_take_it(server, coding, is_packed):
    headers = server.get("/console/main.js", {"Accept-Encoding": coding})[1]
    assert (headers["Content-Encoding"] == "gzip") == is_packed


def test_files_need_no_credential_and_data_does(guard):
    server = guard().start()
    assert server.get("/console/")[0] == 200 and server.get("/console/client/index.js")[0] == 200
    assert server.get("/console/", {"Authorization": "Bearer nonsense"})[0] == 200
    assert server.get("/metrics")[0] == 401
    assert server.rpc(None, "server.status")[0] == 401


def test_the_page_is_small_on_the_wire(server):
    """What a browser fetches until it shows the overview: 60 KB at most, the client's modules included."""
    fetched = {}

    def fetch(path):
        if path in fetched:
            return
        status, headers, body = server.get(path, {"Accept-Encoding": "gzip"})
        assert status == 200, path
        fetched[path] = len(body)
        text = (gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body).decode()
        if path.endswith(".js"):
            named = re.findall(r"^\s*(?:import|export)\b[^;'\"]*?['\"](\.[^'\"]+)['\"]", text, re.MULTILINE)
        else:
            named = re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
        for name in named:
            fetch(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))

    fetch("/console/index.html")
    fetch("/console/screens/overview.js")
    assert len(fetched) > 10 and sum(fetched.values()) <= 60_000, fetched


def test_the_start_says_where_the_console_and_the_demo_are(own_server):
    own_server.start()
    for page in ["console", "demo"]:
        # It is told a moment after the server is ready.
        until(lambda: f"http://127.0.0.1:{own_server.port}/{page}/" in own_server.log())
