"""An HTTP server of a test, to which the server under test posts.

Owns: the connection. Must not: know what is posted; `answers` says what becomes of it.
"""

import http.server
import threading


class Listener:
    def __init__(self, answers, port=0):
        """`answers(path, headers, body)` gives the status that a POST is answered with, when it likes."""

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                status = answers(self.path, self.headers, self.rfile.read(int(self.headers["content-length"])))
                try:
                    self.send_response(status)
                    self.send_header("content-length", "0")
                    self.end_headers()
                except OSError:
                    pass  # it has not waited

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
