"""PROTOCOL.md, "Slice 2: people": the user's list of conversations."""

import uuid

import pytest

from client import Client


@pytest.fixture
def ada(server):
    with Client(server, user=f"ada-{uuid.uuid4()}") as connected:
        yield connected


def test_without_conversations_everything_is_empty(ada):
    listed = ada.call("conversation.list")
    assert listed["conversations"] == [] and "next" not in listed
    synced = ada.call("conversation.sync", cursor=listed["cursor"])
    assert synced["conversations"] == [] and synced["removed"] == [] and synced["done"] and "reset" not in synced
    synced = ada.call("conversation.sync")
    assert synced["conversations"] == [] and synced["done"]
    assert ada.call("conversation.count") == {"conversations": 0, "unread_conversations": 0, "unread": 0, "mentions": 0}


def test_what_is_no_conversation_is_not_found(ada, name, refused):
    ada.call("message.append", timeline=name, entry={"text": "hello"})
    for conversation in [name, f"no-{name}"]:
        refused(ada, "conversation.get", 404, "conversation_not_found", timeline=conversation)
        refused(ada, "conversation.update", 404, "conversation_not_found", timeline=conversation, set={"pinned": True})
        refused(ada, "conversation.hide", 404, "conversation_not_found", timeline=conversation)
    assert ada.call("conversation.list")["conversations"] == []


def test_a_user_is_needed(client, name, refused):
    for method, params in [
        ("conversation.list", {}),
        ("conversation.sync", {}),
        ("conversation.count", {}),
        ("conversation.get", {"timeline": name}),
        ("conversation.update", {"timeline": name, "set": {"a": 1}}),
        ("conversation.hide", {"timeline": name}),
    ]:
        refused(client, method, 401, "unauthenticated", **params)


def test_a_cursor_of_another_user_or_of_nobody_is_refused(ada, server, refused):
    cursor = ada.call("conversation.list")["cursor"]
    assert len(cursor) <= 4096
    with Client(server, user="somebody-else") as other:
        refused(other, "conversation.sync", -32602, field="cursor", cursor=cursor)
    for wrong in ["", "x", cursor[1:], cursor + "A"]:
        refused(ada, "conversation.sync", -32602, field="cursor", cursor=wrong)
        refused(ada, "conversation.list", -32602, field="after", after=wrong)
    # Each for its own.
    refused(ada, "conversation.list", -32602, field="after", after=cursor)
    refused(ada, "conversation.sync", -32602, field="cursor", cursor="x" * 4097)


def test_params(ada, name, refused):
    for method in ["conversation.list", "conversation.sync"]:
        refused(ada, method, -32602, limit=0)
        refused(ada, method, -32602, field="columns", columns=["x"] * 129)
        assert ada.call(method, limit=10**9)["conversations"] == []
    refused(ada, "conversation.list", -32602, filter={"unred": True})
    refused(ada, "conversation.list", 413, "too_large", field="filter.attributes", filter={"attributes": {"x": "y" * 17_000}})
    refused(ada, "conversation.update", -32602, timeline=name)
    refused(ada, "conversation.update", -32602, field="set.a", timeline=name, set={"a": 1}, remove=["a"])
    refused(ada, "conversation.update", -32602, timeline=name, set={"$a": 1})
    for method in ["conversation.get", "conversation.hide"]:
        refused(ada, method, -32602, timeline="")


def test_a_sync_waits_for_news_and_not_in_a_batch(ada):
    cursor = ada.call("conversation.list")["cursor"]
    assert ada.call("conversation.sync", cursor=cursor, wait_ms=50)["done"]
    ada.send([{"jsonrpc": "2.0", "id": 1, "method": "conversation.sync", "params": {"wait_ms": 5}}])
    [reply] = ada.receive()
    assert reply["error"]["data"]["field"] == "wait_ms"
