"""An S3-compatible store for tests: moto's server, behind a proxy that checks each request and can do harm to it.

Owns: both servers, and the keys that the store takes. Promises: what reaches moto was signed with the secret, body and
all; nothing listens beyond 127.0.0.1. Must not: know what is stored.
"""

import hashlib
import hmac
import http.client
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET, REGION = "tideline-test", "a secret of the test", "us-east-1"


def refusal(status, code, message="not now"):
    return status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


def signature(method, target, headers, secret):
    """What Signature Version 4 says for a request."""
    path, _, query = target.partition("?")
    about = dict(part.strip().split("=", 1) for part in headers["Authorization"].split(" ", 1)[1].split(","))
    _, date, region, service, _ = about["Credential"].split("/")
    names = about["SignedHeaders"].split(";")
    query = "&".join(sorted(part if "=" in part else part + "=" for part in query.split("&") if part))
    shown = "".join(f"{name}:{headers[name].strip()}\n" for name in names)
    whole = "\n".join([method, path, query, shown, ";".join(names), headers["X-Amz-Content-Sha256"]])
    scope = f"{date}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], scope, hashlib.sha256(whole.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in [date, region, service, "aws4_request", text]:
        key = hmac.new(key, part.encode(), "sha256").digest()
    return key.hex() == about["Signature"]


class Store:
    """Harm is a function of method, target and body, and gives None, an answer, "cut" or a number of seconds."""

    def __init__(self):
        # Each worker imports each file, and this is large.
        from moto.server import ThreadedMotoServer

        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        _, self.inner = self.moto.get_host_and_port()
        self.harm, self.asked, self.aged = None, [], False
        store = self

        class Proxy(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                store.asked.append((self.command, self.path))
                harm = store.harm and store.harm(self.command, self.path, body)
                if harm == "cut":
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if isinstance(harm, float):
                    time.sleep(harm)
                    harm = None
                status, kind, said = (harm[0], "application/xml", harm[1]) if harm else store.forward(self, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                for name in ["ETag", "Last-Modified"]:
                    if not harm and store.headers.get(name):
                        self.send_header(name, store.headers[name])
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                try:
                    self.wfile.write(said)
                except OSError:
                    # A caller that was cancelled or killed.
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.proxy.daemon_threads = True
        threading.Thread(target=self.proxy.serve_forever, args=(0.01,), daemon=True).start()
        self.ask("PUT", "/backups")

    _headers = threading.local()

    @property
    def headers(self):
        return self._headers.of

    def forward(self, request, body):
        headers, self._headers.of = request.headers, {}
        if f"Credential={KEY}/" not in headers.get("Authorization", ""):
            return 403, "application/xml", refusal(403, "InvalidAccessKeyId")[1]
        is_signed = hashlib.sha256(body).hexdigest() == headers["X-Amz-Content-Sha256"]
        if not is_signed or not signature(request.command, request.path, headers, SECRET):
            return 403, "application/xml", refusal(403, "SignatureDoesNotMatch")[1]
        return self.pass_on(request.command, request.path, body, dict(headers))

    def pass_on(self, method, path, body=None, headers=None):
        inner = http.client.HTTPConnection("127.0.0.1", self.inner)
        inner.request(method, path, body, headers or {"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/{REGION}/s3/aws4_request"})
        answer = inner.getresponse()
        said = answer.read()
        self._headers.of = answer.headers
        inner.close()
        if self.aged and b"<LastModified>" in said:
            said = re.sub(rb"<LastModified>20\d\d", b"<LastModified>2020", said)
        return answer.status, answer.headers.get("Content-Type", "application/xml"), said

    def ask(self, method, path, body=None):
        """By the test itself, with no harm."""
        status, _, said = self.pass_on(method, path, body)
        assert status < 300, (status, said)
        return said

    def keys(self):
        return re.findall(r"<Key>([^<]*)</Key>", self.ask("GET", "/backups?list-type=2").decode())

    def backups(self):
        return [key for key in self.keys() if key.endswith("backup.json")]

    def unfinished(self):
        """Uploads in parts that were neither completed nor aborted."""
        return self.ask("GET", "/backups?uploads").decode().count("<Upload>")

    def environment(self, **other):
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server_address[1]}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            **other,
        }

    def close(self):
        self.proxy.shutdown()
        self.proxy.server_close()
        self.moto.stop()
