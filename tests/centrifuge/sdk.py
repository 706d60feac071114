"""The set-ups, tokens, calls of the HTTP API, and a client that notes what it hears."""

import asyncio
import base64
import hashlib
import hmac
import itertools
import json

from centrifuge import Client, ClientEventHandler, SubscriptionEventHandler

from server import Server

SECRET = "what tokens of these set-ups are signed with"
KEY = "what back ends of these set-ups show"
NUMBERS = itertools.count(1)

INSECURE = f"""
[centrifuge]
http_api.key = "{KEY}"
http_stream.enabled = true
sse.enabled = true
[centrifuge.client]
insecure = true
token.hmac_secret_key = "{SECRET}"
[centrifuge.channel.without_namespace]
presence = true
join_leave = true
history_size = 100
history_ttl = "300s"
force_recovery = true
allowed_delta_types = ["fossil"]
delta_publish = true
[[centrifuge.channel.namespaces]]
name = "recovery"
history_size = 2
history_ttl = "300s"
force_recovery = true
allow_subscribe_for_client = true
"""

TOKENS = f"""
[centrifuge]
http_api.key = "{KEY}"
[centrifuge.client]
token.hmac_secret_key = "{SECRET}"
subscribe_to_user_personal_channel.enabled = true
[centrifuge.channel.without_namespace]
presence = true
join_leave = true
force_push_join_leave = true
history_size = 100
history_ttl = "300s"
force_recovery = true
allowed_delta_types = ["fossil"]
allow_publish_for_subscriber = true
allow_presence_for_subscriber = true
allow_history_for_subscriber = true
[[centrifuge.channel.namespaces]]
name = "open"
allow_subscribe_for_client = true
"""


def encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def token(**claims):
    head = encoded(b'{"alg":"HS256","typ":"JWT"}')
    signed = f"{head}.{encoded(json.dumps(claims).encode())}"
    signature = hmac.new(SECRET.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{encoded(signature)}"


def name(prefix=""):
    """A channel that no other test has."""
    return f"{prefix}channel-{next(NUMBERS)}"


class Centrifuge(Server):
    @property
    def address(self):
        return f"ws://127.0.0.1:{self.port}/connection/websocket"

    def api(self, called, headers=None, /, **params):
        """The status, and the body as JSON or text."""
        headers = {"X-API-Key": KEY, **(headers or {})}
        status, _, body = self.http("POST", f"/api/{called}", json.dumps(params), headers)
        try:
            return status, json.loads(body)
        except ValueError:
            return status, body.decode()

    def did(self, called, /, **params):
        status, answer = self.api(called, **params)
        assert status == 200 and "result" in answer, answer
        return answer["result"]

    def refused(self, called, /, **params):
        status, answer = self.api(called, **params)
        assert status == 200, answer
        return answer["error"]["code"]


class Heard(SubscriptionEventHandler, ClientEventHandler):
    """Puts what it hears into a queue, each as its kind and its context."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def next(self, kind):
        """The next one of a kind; what comes before it is passed over."""
        async with asyncio.timeout(20):
            while True:
                found, context = await self.queue.get()
                if found == kind:
                    return context


def heard(kind):
    async def handler(self, context):
        await self.queue.put((kind, context))

    return handler


for kind in [
    "connecting", "connected", "disconnected", "error", "subscribing", "subscribed", "unsubscribed", "publication",
    "join", "leave",
]:
    setattr(Heard, f"on_{kind}", heard(kind))


class Person:
    """A client in one encoding, and data as it wants it."""

    def __init__(self, server, is_protobuf=False, **options):
        self.is_protobuf = is_protobuf
        self.heard = Heard()
        self.client = Client(
            server.address, self.heard, use_protobuf=is_protobuf, max_reconnect_delay=0.5, proxy=None, **options
        )

    async def __aenter__(self):
        await self.client.connect()
        return self

    async def __aexit__(self, *_):
        await self.client.disconnect()

    def data(self, value):
        return json.dumps(value).encode() if self.is_protobuf else value

    def read(self, value):
        return json.loads(value) if self.is_protobuf else value

    async def subscribe(self, channel, **options):
        heard = Heard()
        subscription = self.client.new_subscription(channel, heard, **options)
        await subscription.subscribe()
        return subscription, heard
