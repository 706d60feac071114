"""The HTTP API, as back ends of Centrifugo's users call it."""

import json
from urllib.parse import quote

from sdk import KEY, name


def test_a_key_is_needed(insecure):
    def status(path="/api/info", **headers):
        return insecure.http("POST", path, "{}", headers)[0]

    assert status() == 401
    assert status(**{"X-API-Key": "other"}) == 401
    assert status(Authorization="apikey other") == 401
    assert status(**{"X-API-Key": KEY}) == 200
    assert status(Authorization=f"apikey {KEY}") == 200
    # URLs are logged by proxies: no key counts there unless the configuration says so.
    assert status(f"/api/info?api_key={quote(KEY)}") == 401
    assert status("/api/nothing", **{"X-API-Key": KEY}) == 404
    assert insecure.get("/api/info", {"X-API-Key": KEY})[0] == 405
    assert insecure.http("POST", "/api/batch", "[", {"X-API-Key": KEY})[0] == 400


def test_publications_and_their_history(insecure):
    channel = name()
    first = insecure.did("publish", channel=channel, data={"a": 1}, tags={"t": "1"})
    assert first["offset"] == 1 and first["epoch"]
    again = [insecure.did("publish", channel=channel, data=2, idempotency_key="k") for _ in range(2)]
    assert [one["offset"] for one in again] == [2, 2]
    assert insecure.refused("publish", channel=channel, data=3, idempotency_key="k") == 113
    sent = insecure.did("broadcast", channels=[channel, "unknown:a", name()], data=3)["responses"]
    assert sent[0]["result"]["offset"] == 3 and sent[1]["error"]["code"] == 102 and "result" in sent[2]
    insecure.did("publish", channel=channel, b64data="ImhpIg==")
    history = insecure.did("history", channel=channel, limit=-1)
    assert [one["data"] for one in history["publications"]] == [{"a": 1}, 2, 3, "hi"]
    assert history["publications"][0]["tags"] == {"t": "1"}
    assert (history["offset"], history["epoch"]) == (4, first["epoch"])
    assert insecure.did("history", channel=channel)["publications"] == []
    since = {"offset": 1, "epoch": first["epoch"]}
    some = insecure.did("history", channel=channel, limit=2, since=since)
    assert [one["offset"] for one in some["publications"]] == [2, 3]
    assert insecure.refused("history", channel=channel, limit=1, since={"offset": 1, "epoch": "x"}) == 112
    assert insecure.did("history_remove", channel=channel) == {}
    left = insecure.did("history", channel=channel, limit=-1)
    assert (left["publications"], left["offset"], left["epoch"]) == ([], 4, first["epoch"])
    assert insecure.did("history_remove", channel=name()) == {}


def test_json_of_several_lines_is_json_to_native_readers(insecure):
    channel, told = name(), {"a": [1, {"b": "c\n"}]}
    bodies = [json.dumps({"channel": channel, "data": told}, indent=end) for end in ("\t", 2)]
    bodies.append(bodies[1].replace("\n", "\r\n"))
    for body in bodies:
        assert insecure.http("POST", "/api/publish", body, {"X-API-Key": KEY})[0] == 200
    batch = json.dumps({"commands": [{"publish": {"channel": channel, "data": told}}]}, indent=1)
    assert insecure.http("POST", "/api/batch", batch, {"X-API-Key": KEY})[0] == 200
    ask = {"jsonrpc": "2.0", "id": 1, "method": "message.range", "params": {"timeline": channel}}
    rpc = insecure.http("POST", "/v1/rpc", json.dumps(ask), {"Content-Type": "application/json"})
    page = json.loads(rpc[2])["result"]["messages"]
    assert [one["entry"] for one in page] == [{"publication": told}] * 4
    history = insecure.did("history", channel=channel, limit=-1)["publications"]
    assert [one["data"] for one in history] == [told] * 4


def test_what_is_wrong_is_said_both_ways(insecure):
    for method, params, code, status in [
        ("publish", {}, 107, 400),
        ("publish", {"channel": "a"}, 107, 400),
        ("publish", {"channel": "unknown:a", "data": 1}, 102, 404),
        ("publish", {"channel": "a", "data": 1, "version": 3}, 108, 400),
        ("broadcast", {"data": 1}, 107, 400),
        ("presence", {"channel": "recovery:a"}, 108, 400),
        ("unsubscribe", {}, 107, 400),
        ("channels", {"pattern": "["}, 107, 400),
        ("rpc", {"method": "no.such"}, 104, 404),
    ]:
        assert insecure.refused(method, **params) == code, method
        found, error = insecure.api(method, {"X-Centrifugo-Error-Mode": "transport"}, **params)
        assert (found, error["code"]) == (status, code) and error["message"]


def test_a_batch_and_the_native_methods(insecure):
    channel = name()
    status, answer = insecure.api("batch", commands=[
        {"publish": {"channel": channel, "data": 1}},
        {"publish": {"channel": "unknown:a", "data": 1}},
        {"history": {"channel": channel, "limit": 10}},
        {"nothing": {}},
    ])
    published, unknown, history, nothing = answer["replies"]
    assert status == 200 and published["publish"]["offset"] == 1
    assert unknown["error"]["code"] == 102 and nothing["error"]["code"] == 104
    assert [one["data"] for one in history["history"]["publications"]] == [1]
    appended = insecure.did(
        "rpc", method="message.append", params={"timeline": channel, "entry": {"text": "native"}}
    )["data"]
    assert appended["sequence"] == 2
    shown = insecure.did("history", channel=channel, limit=1, reverse=True)["publications"]
    assert [one["data"] for one in shown] == [{"text": "native"}]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message.range", "params": {"timeline": channel}})
    native = insecure.http("POST", "/v1/rpc", body, {"Content-Type": "application/json"})[2]
    assert len(json.loads(native)["result"]["messages"]) == 2
