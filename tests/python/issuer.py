"""Somebody who issues tokens: a set of keys that is published, and a key of it."""

import http.server
import ssl
import threading
import time

from cryptography.hazmat.primitives.asymmetric import ed25519

from guarded import encode, token
from server import free_port


class Issuer:
    """A server that publishes keys, and does as it is told."""

    def __init__(self, certificate=None):
        """`certificate`: the paths of its certificate and key, for https."""
        self.scheme = "https" if certificate else "http"
        self.port = free_port()
        self.fetches = self.redirected = 0
        self.body = b"{}"
        self.status = 200
        self.pause = 0
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.fetches += 1
                issuer.redirected += self.path == "/other"
                time.sleep(issuer.pause)
                self.send_response(issuer.status)
                if issuer.status == 302:
                    self.send_header("location", f"http://127.0.0.1:{issuer.port}/other")
                self.send_header("content-length", str(len(issuer.body)))
                self.end_headers()
                try:
                    self.wfile.write(issuer.body)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def setting(self):
        return f'jwks_url = "{self.scheme}://127.0.0.1:{self.port}/keys"'

    def close(self):
        self.server.shutdown()


class Ed25519:
    """A key pair."""

    def __init__(self, name):
        self.name = name
        self.private = ed25519.Ed25519PrivateKey.generate()

    def jwk(self):
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.name, "x": encode(self.private.public_key().public_bytes_raw())}

    def token(self, **claims):
        text = token(header={"alg": "EdDSA", "kid": self.name}, **claims).rsplit(".", 1)[0]
        return f"{text}.{encode(self.private.sign(text.encode()))}"
