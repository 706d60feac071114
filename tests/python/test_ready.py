"""`tideline ready`: what a health check without a shell gets."""

import http.server
import os
import signal
import subprocess
import threading

import pytest


def ready(url, *more):
    command = [os.environ["TIDELINE_BIN"], "ready", "--url", url, *more]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TIDELINE_")}
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    return told.returncode, told.stdout, told.stderr


def test_a_server_that_serves_is_ready(server):
    assert ready(server.origin) == (0, "ready\n", "")


def test_no_credential_is_needed(house):
    assert ready(house.origin) == (0, "ready\n", "")


def test_nobody_there_is_code_3():
    code, out, why = ready("http://127.0.0.1:1")
    assert (code, out) == (3, "") and "refused" in why


class Other(http.server.BaseHTTPRequestHandler):
    """Another server, whose answers are the path's."""

    answers = (200, b"hello")

    def do_GET(self):
        code, body = self.answers
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("answers, code, why", [
    ((200, b"hello"), 1, "no Tideline server"),
    ((200, b"ready" * 4096), 1, "no Tideline server"),
    ((404, b"no such page"), 1, "404 Not Found: no such page"),
    ((503, b"not ready: starting, or shutting down\n"), 3, "503 Service Unavailable: not ready: starting, or shutting down"),
])
def test_what_is_not_ready_says_why(answers, code, why):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Other,), {"answers": answers})) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        found, out, said = ready(f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert (found, out) == (code, "") and why in said


def test_one_that_hangs_is_given_up(own_server):
    own_server.start()
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        code, _, why = ready(own_server.origin)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
    assert code == 3 and "no answer" in why
