"""A server with [auth] for tests, the credentials that it takes, and those that it refuses."""

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import time

from websockets.exceptions import ConnectionClosed

from client import PATIENCE, Client, Refused, until
from server import Server
from tables import signed

SECRET = b"0123456789abcdef0123456789abcdef"
OTHER = b"another secret of thirty-two bytes"
ADMIN = ["--allow", "*=admin"]
# This machine is one address, from which the tests show many bad credentials.
LIMITS = "{ address = { failures_per_min = 0 } }"
ALL = [{"on": "*", "allow": ["read", "append", "create"]}]


def encode(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(sub="ann", secret=SECRET, kid="main", header=None, **claims):
    """A token of HS256. A claim of None is left out."""
    now = time.time()
    claims = {"sub": sub, "iss": "me", "aud": "chat", "iat": int(now), "exp": int(now) + 600, "rights": ALL, **claims}
    claims = {name: value for name, value in claims.items() if value is not None}
    header = header or {"alg": "HS256", "typ": "JWT", "kid": kid}
    text = f"{encode(header)}.{encode(claims)}"
    return f"{text}.{encode(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


class Guarded(Server):
    """A server with [auth], a shared secret and an administrator's key."""

    def __init__(self, directory, auth="", before="", limits=LIMITS, tls=None):
        super().__init__(directory, tls=tls)
        self.limits = limits
        self.secret_file("main.key", SECRET)
        self.auth = auth
        self.before = before
        self.configure(auth)
        self.admin = self.key("create", "admin", *ADMIN)

    def configure(self, auth, files=("main.key",)):
        paths = json.dumps([os.path.join(self.directory, name) for name in files])
        self.config = (
            f"limits = {self.limits}\n{self.before}\n[auth]\nissuer = \"me\"\naudience = [\"chat\"]\nleeway_s = 1\n"
            f"hs256_secret_files = {paths}\n{auth}\n"
        )
        self.write_config()

    def reconfigure(self, auth):
        """The same while it runs: it has read these settings again."""
        said = "the settings were read again"
        before = self.whole_log().count(said)
        self.configure(auth)
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.whole_log().count(said) > before)

    def secret_file(self, name, secret, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(secret + b"\n")
        os.chmod(path, mode)
        return path

    def key(self, *arguments, environment=None, check=True):
        command = [self.binary, "key", *arguments]
        if "--url" not in arguments:
            command += ["--data", self.data]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
        if check:
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
        return done

    def call(self, bearer, method, acting=None, **params):
        status, _, body = self.rpc(bearer, method, acting, **params)
        answer = json.loads(body)
        if "error" in answer:
            raise Refused(answer["error"])
        assert status == 200
        return answer["result"]

    def open(self, bearer, user=None, **options):
        headers = {"authorization": f"Bearer {bearer}"}
        if user is not None:
            headers["tideline-user"] = user
        return Client(self, additional_headers=headers, **options)

    def metrics(self):
        return self.get("/metrics", {"authorization": f"Bearer {self.admin}"})[2].decode()


def closed(client, code=4500):
    """Reads until the connection closes, with this code."""
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            client.receive(max(deadline - time.monotonic(), 0.01))
    except ConnectionClosed as end:
        assert end.rcvd is not None and end.rcvd.code == code, end


def works(client):
    assert client.append(f"guarded-{os.getpid()}-{time.monotonic_ns()}")["sequence"] == 1


BAD = {
    "expired": lambda: token(exp=int(time.time()) - 5),
    "not yet valid": lambda: token(nbf=int(time.time()) + 60),
    "issued ahead": lambda: token(iat=int(time.time()) + 60),
    "no issuer": lambda: token(iss=None),
    "wrong issuer": lambda: token(iss="you"),
    "a list as issuer": lambda: token(iss=["me"]),
    "no audience": lambda: token(aud=None),
    "wrong audience": lambda: token(aud="other"),
    "alg none": lambda: token(header={"alg": "none", "kid": "main"}),
    "alg none, unsigned": lambda: token(header={"alg": "none"}).rsplit(".", 1)[0] + ".",
    "unknown key": lambda: token(kid="other"),
    "another key's ID": lambda: token(secret=OTHER),
    "exp as text": lambda: token(exp=str(int(time.time()) + 600)),
    "no exp": lambda: token(exp=None),
    "crit": lambda: token(header={"alg": "HS256", "kid": "main", "crit": ["x"], "x": 1}),
    "no sub": lambda: token(sub=None),
    "the server's own name": lambda: token(sub="$inbox"),
    "admin": lambda: token(rights=[{"on": "*", "allow": ["admin"]}]),
    "an unknown right": lambda: token(rights=[{"on": "*", "allow": ["fly"]}]),
    "a malformed pattern": lambda: token(rights=[{"on": "dm-{user}", "allow": ["read"]}]),
    "too long": lambda: token(more="x" * 9000),
    "no token": lambda: "nonsense",
    "a key that is none": lambda: "tl_abcdefghijkl_" + "a" * 43,
    "a key cut short": lambda: "tl_abcdefghijkl_" + "a" * 42,
}


def list_tables(server, key_id, secret):
    """The status of a signed ListTable."""
    return signed(server, "ListTable", key_id, secret)[0]


POLICIES = """
[[policy]]
prefix = "room/"
others = []
members = ["read", "append", "react", "signal"]
roles = { owner = ["read", "append", "react", "signal", "edit", "moderate", "members", "manage"], blind = [] }
creator = "owner"
[[policy]]
prefix = "open/"
others = ["read"]
[[policy]]
prefix = "direct/"
others = []
members = ["read", "append"]
creator = "member"
"""
MESSAGE = {"text": "x"}


def who(user, *rights, on="x"):
    """A token with these rights and no others."""
    return token(sub=user, rights=[{"on": on, "allow": list(rights)}] if rights else [])


def house_in(directory, environment=None):
    running = Guarded(directory, auth=POLICIES)
    running.environment = environment or {}
    running.start()
    call = lambda method, **params: running.call(running.admin, method, **params)
    call("message.append", timeline="room/1", entry=MESSAGE)
    call("message.append", timeline="open/1", entry=MESSAGE)
    call("member.add", timeline="room/1", members=[{"user": "ann"}, {"user": "olga", "role": "owner"}, {"user": "bill", "role": "blind"}])
    return running


def said(answer):
    return answer["error"]["data"]["reason"] if "error" in answer else "ok"


def without_names(answer, timeline):
    return json.dumps(answer).replace(timeline, "NAME")
