"""What is no object is no struct, at every door; JSON has one depth. By raw bytes, for a client library would not send them."""

import json
import subprocess

import pytest

from centrifuge_wire import Peer
from client import Client, Refused
from guarded import ALL, Guarded, token
from server import Server

API_KEY = "0123456789abcdef0123456789abcdef"
OPTIONS = f"""
centrifuge.http_api.key = "{API_KEY}"
[centrifuge.channel.without_namespace]
allow_subscribe_for_client = true
allow_subscribe_for_anonymous = true
allow_publish_for_client = true
allow_publish_for_anonymous = true
history_size = 100
history_ttl = "300s"
allow_history_for_client = true
allow_history_for_anonymous = true
presence = true
allow_presence_for_client = true
allow_presence_for_anonymous = true
[centrifuge.client]
insecure = true
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("decoding"), config=OPTIONS).start()
    yield running
    running.kill()


def api(server, method, text):
    headers = {"x-api-key": API_KEY, "content-type": "application/json"}
    status, _, body = server.http("POST", f"/api/{method}", text, headers)
    return status, json.loads(body) if body.startswith(b"{") else body


# Each was taken by position, or a word from an object.
BY_POSITION = [
    ("timeline.configure", {"timeline": "T", "settings": [[None, 7, None], True]}, "settings"),
    ("timeline.configure", {"timeline": "T", "settings": []}, "settings"),
    ("timeline.configure", {"timeline": "T", "settings": {"retention": [None, 7, None]}}, "settings.retention"),
    ("timeline.configure", {"timeline": "T", "settings": {"edit": ["sender", 5]}}, "settings.edit"),
    ("timeline.configure", {"timeline": "T", "settings": {"edit": {"by": {"sender": None}}}}, "settings.edit.by"),
    ("timeline.configure", {"timeline": "T", "settings": {"fan_out": {"read": None}}}, "settings.fan_out"),
    ("timeline.create", {"timeline": "T2", "settings": [[None, 7, None]]}, "settings"),
    ("timeline.create", {"timeline": "T2", "members": [["ann"]]}, "members[0]"),
    ("member.add", {"timeline": "T", "members": [{"user": "ann"}], "history": {"none": None}}, "history"),
    ("member.update", {"timeline": "T", "user": "ann", "attributes": [{"a": 1}, []]}, "attributes"),
    ("conversation.list", {"filter": [True, None]}, "filter"),
    ("conversation.count", {"filter": [True, None]}, "filter"),
    ("subscribe", {"timelines": {"T": [0]}}, "timelines.T"),
    ("sync", {"positions": {"T": [0]}}, "positions.T"),
    ("read.set", {"positions": {"T": [1, 1]}}, "positions.T"),
    ("row.range", {"table": "t", "filter": ["a", "=", 1]}, "filter"),
    ("log.tail", {"level": {"info": None}}, "level"),
    ("message.range", {"timeline": "T", "direction": {"forward": None}}, "direction"),
]


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
@pytest.mark.parametrize("method, params, field", BY_POSITION)
def test_an_array_is_no_object_and_an_object_no_word(house, packed, method, params, field):
    with Client(house, packed=packed, user="ann") as client:
        client.call("timeline.create", timeline="T")
        before = client.call("timeline.get", timeline="T")
        with pytest.raises(Refused) as refused:
            client.call(method, **params)
        assert (refused.value.code, refused.value.data["field"]) == (-32602, field)
        assert client.call("timeline.get", timeline="T") == before


def test_a_slip_deletes_no_history_by_any_door(house):
    """The settings by position keep one message; five are there before and after."""
    with Client(house, user="ann") as client:
        client.fill("kept", 5)
        before = client.call("timeline.get", timeline="kept")
        slip = {"timeline": "kept", "settings": [[None, 1, None], True]}
        with pytest.raises(Refused):
            client.call("timeline.configure", **slip)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "timeline.configure", "params": slip})
        status, _, answer = house.http("POST", "/v1/rpc", body, {"content-type": "application/json"})
        assert json.loads(answer)["error"]["code"] == -32602, answer
        batch = json.dumps([json.loads(body)])
        status, _, answer = house.http("POST", "/v1/rpc", batch, {"content-type": "application/json"})
        assert json.loads(answer)[0]["error"]["code"] == -32602, answer
        assert "error" in api(house, "rpc", json.dumps({"method": "timeline.configure", "params": slip}))[1]
        with Peer(house) as peer:
            assert "error" in peer.ask(rpc={"method": "timeline.configure", "data": slip})
        assert client.call("timeline.get", timeline="kept") == before and before["floor"] == 1


@pytest.mark.parametrize("params", [
    {"timeline": "T", "limit": 2**53},
    {"timeline": "T", "from": 2**53},
    {"timeline": "T", "limit": None},
    {"timeline": "T", "direction": None},
])
def test_null_and_large_numbers_are_refused_where_the_schema_has_none(house, params):
    with Client(house, user="ann") as client:
        client.call("timeline.create", timeline="T")
        with pytest.raises(Refused) as refused:
            client.call("message.range", **params)
        assert refused.value.code == -32602 and refused.value.data["field"] in params
        assert refused.value.data.get("actual", 0) < 2**53


def test_the_api_of_back_ends_takes_objects_only(house):
    for method, text in [
        ("publish", '["a",[],{"by":"position"}]'),
        ("presence", '["a"]'),
        ("rpc", '["ping",{}]'),
        ("subscribe", '{"channel":"a","user":"ann","override":[{"value":true}]}'),
        ("subscribe", '{"channel":"a","user":"ann","override":{"presence":[true]}}'),
        ("disconnect", '{"user":"ann","disconnect":[4500,"x"]}'),
    ]:
        status, answer = api(house, method, text)
        assert (status, answer.get("error", {}).get("code")) == (200, 107), (method, text, answer)
    assert api(house, "batch", '[[{"publish":{"channel":"a","data":1}}]]')[0] == 400


def test_commands_of_centrifuges_clients_are_objects(house):
    with Peer(house) as peer:
        peer.socket.send('{"id":9,"history":["a",1]}')
        assert peer.end()[0] == 3501


def test_a_tokens_claims_are_objects(tmp_path):
    running = Guarded(tmp_path).start()
    try:
        assert running.rpc(token(rights=ALL), "ping")[0] == 200
        assert running.rpc(token(rights=[["*", ["read", "append"]]]), "ping")[0] == 401
    finally:
        running.kill()


@pytest.mark.parametrize("text", [
    'webhook = [["a", "http://127.0.0.1:9/", "secret", ""]]',
    '[auth]\nrights = [["*", ["read"]]]',
    'limits = { user = [1, 2, 3] }',
    'tls = ["c", "k"]',
    '[[policy]]\nprefix = "a"\nretention = [1000, 7]',
    'centrifuge.client = [[], true]',
])
def test_tables_of_the_configuration_are_tables(house, tmp_path, text):
    path = tmp_path / "tideline.toml"
    path.write_text(text + "\n")
    done = subprocess.run([house.binary, "config", "--config", str(path)], capture_output=True, text=True)
    assert done.returncode != 0, done.stdout


def hidden(depth):
    """JSON that is so deep, with as many brackets closed within texts as are open."""
    return '["]",' * depth + "1" + "]" * depth


@pytest.mark.parametrize("depth", [29, 30, 101, 5_000])
def test_brackets_within_texts_hide_no_depth(house, depth):
    """A publication as deep as a native value may be is JSON to all; a deeper one is bytes to native readers, and one that
    decoders could not hold is bytes to Centrifuge's readers too."""
    channel, data = f"deep-{depth}", hidden(depth)
    assert api(house, "publish", f'{{"channel":"{channel}","data":{data}}}')[1].get("error") is None
    with Client(house, user="ann") as client:
        entry = client.call("message.get", timeline=channel, sequence=1)["message"]["entry"]
        assert (list(entry["publication"]) == ["$binary"]) == (depth > 29)
    answer = api(house, "history", f'{{"channel":"{channel}","limit":1}}')[1]
    shown = answer["result"]["publications"][0]["data"]
    assert (isinstance(shown, dict) and list(shown) == ["$binary"]) == (depth > 100)
