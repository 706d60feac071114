"""PROTOCOL.md, promise 7: edits, deletions, the change sequence, and their pushes."""

import pytest

from client import Client, Refused, sequences


def test_an_edit_takes_the_next_change_number(client, name):
    client.fill(name, 3)
    first = client.call("message.update", timeline=name, sequence=2, set={"text": "new"}, remove=["n"])["message"]
    assert first["entry"] == {"text": "new"} and first["change"] == 1 and first["edited_at"] > 0
    second = client.call("message.update", timeline=name, sequence=2, set={"more": 1})["message"]
    assert second["entry"] == {"text": "new", "more": 1} and second["change"] == 2
    assert second["timestamp"] == first["timestamp"]
    got = client.call("timeline.get", timeline=name)
    assert (got["head"], got["change_head"]) == (3, 2)
    assert client.call("message.get", timeline=name, sequence=2)["message"] == second
    page = client.call("message.range", timeline=name)
    assert page["change_head"] == 2 and page["messages"][1] == second
    assert "change" not in page["messages"][0]


def test_update_params(client, name, refused):
    client.append(name, {"a": 1})
    refused(client, "message.update", -32602, timeline=name, sequence=1)
    refused(client, "message.update", -32602, timeline=name, sequence=1, set={"a": 1}, remove=["a"])
    refused(client, "message.update", -32602, timeline=name, sequence=1, set={"$a": 1})
    refused(client, "message.update", -32602, field="sequence", timeline=name, sequence=0, set={"a": 1})
    refused(client, "message.update", 404, "message_not_found", timeline=name, sequence=2, set={"a": 1})
    assert client.call("timeline.get", timeline=name)["change_head"] == 0


def test_null_in_an_update_removes_the_name(client, name):
    client.append(name, {"a": 1, "b": 2})
    message = client.call("message.update", timeline=name, sequence=1, set={"a": None, "c": 3})["message"]
    assert message["entry"] == {"b": 2, "c": 3}


def test_expect_change(client, name, refused):
    client.append(name, {"a": 1})
    assert client.call("message.update", timeline=name, sequence=1, set={"a": 2}, expect_change=0)["message"]["change"] == 1
    error = refused(
        client, "message.update", 409, "condition_failed", timeline=name, sequence=1, set={"a": 3}, expect_change=0
    )
    assert error.data["actual"] == 1
    assert client.call("message.get", timeline=name, sequence=1)["message"]["entry"] == {"a": 2}


def test_a_deleted_message_keeps_its_number(client, name, refused):
    client.fill(name, 3)
    assert client.call("message.delete", timeline=name, sequence=2) == {"deleted": True}
    assert client.call("message.delete", timeline=name, sequence=2) == {"deleted": False}
    tombstone = client.call("message.get", timeline=name, sequence=2)["message"]
    assert tombstone["deleted"] and tombstone["change"] == 1 and "entry" not in tombstone
    page = client.call("message.range", timeline=name)
    assert sequences(page["messages"]) == [1, 2, 3] and page["messages"][1] == tombstone
    assert page["change_head"] == 1
    assert client.append(name)["sequence"] == 4
    refused(client, "message.delete", 404, "message_not_found", timeline=name, sequence=9)
    refused(client, "message.update", 404, "message_not_found", timeline=name, sequence=2, set={"a": 1})


def test_an_edit_cannot_grow_past_the_entry_limit(client, name, refused):
    client.append(name, {"a": "x" * 150_000})
    refused(client, "message.update", 413, "too_large", timeline=name, sequence=1, set={"b": "y" * 150_000})
    assert client.call("timeline.get", timeline=name)["change_head"] == 0


def test_changes_are_pushed_up_to_the_position(client, other, name):
    client.fill(name, 3)
    other.call("subscribe", timeline=name)
    client.call("message.update", timeline=name, sequence=1, set={"n": 9})
    push = other.push("message.changed")
    assert push["timeline"] == name and push["change_head"] == 1 and push["epoch"]
    assert sequences(push["messages"]) == [1] and push["messages"][0]["entry"] == {"n": 9}
    client.call("message.delete", timeline=name, sequence=2)
    push = other.push("message.changed")
    assert push["change_head"] == 2 and push["messages"][0]["deleted"]
    client.append(name, {"n": 4})
    assert sequences(other.messages(name, 1)) == [4]


def test_a_resume_tells_what_changed_behind_the_position(client, other, name):
    client.fill(name, 5)
    for sequence, n in [(1, 10), (3, 30), (1, 11), (5, 50)]:
        client.call("message.update", timeline=name, sequence=sequence, set={"n": n})
    reply = other.call("subscribe", timeline=name, after=3, changes_after=0)
    # Each once, in its newest form, in change order; what is above the position comes as a message.
    assert [(one["sequence"], one["entry"]["n"], one["change"]) for one in reply["changed"]] == [(3, 30, 2), (1, 11, 3)]
    assert [(one["sequence"], one["entry"]["n"]) for one in reply["messages"]] == [(4, 4), (5, 50)]
    assert reply["change_head"] == 4
    other.call("unsubscribe", timeline=name)
    reply = other.call("subscribe", timeline=name, after=5, changes_after=3)
    assert [(one["sequence"], one["change"]) for one in reply["changed"]] == [(5, 4)]
    other.call("unsubscribe", timeline=name)
    reply = other.call("subscribe", timeline=name, after=5, changes_after=4)
    assert not reply.get("changed")


def test_sync_tells_changes_too(client, name):
    client.fill(name, 5)
    client.call("message.update", timeline=name, sequence=2, set={"n": 20})
    reply = client.call("sync", positions={name: {"after": 5, "changes_after": 0}})["timelines"][name]
    assert reply["messages"] == [] and sequences(reply["changed"]) == [2] and reply["change_head"] == 1
    assert client.call("sync", positions={name: {"after": 5, "changes_after": 1}})["timelines"] == {}


def test_meta_changes_are_pushed(client, other, name):
    client.call("timeline.create", timeline=name, meta={"a": 1})
    other.call("subscribe", timeline=name)
    reply = client.call("timeline.update", timeline=name, meta={"b": 2})
    push = other.push("timeline.changed")
    assert push["timeline"] == name and push["meta"] == {"a": 1, "b": 2} and push["version"] == reply["version"]


def test_a_recalled_message_says_by_whom_and_why(client, server, name, refused):
    with Client(server, user="ann") as ann, Client(server) as reader:
        client.fill(name, 3)
        reader.call("subscribe", timeline=name)
        assert ann.call("message.recall", timeline=name, sequence=2, reason="wrong room") == {"deleted": True}
        tombstone = client.call("message.get", timeline=name, sequence=2)["message"]
        assert tombstone["deleted"] and tombstone["change"] == 1 and "entry" not in tombstone
        assert (tombstone["recalled_by"], tombstone["reason"]) == ("ann", "wrong room")
        push = reader.push("message.changed")
        assert push["messages"] == [tombstone] and push["change_head"] == 1
        # Twice, or after a deletion: the first one stays.
        assert ann.call("message.recall", timeline=name, sequence=2, reason="again") == {"deleted": False}
        assert client.call("message.delete", timeline=name, sequence=2) == {"deleted": False}
        assert client.call("message.get", timeline=name, sequence=2)["message"] == tombstone
        assert client.call("message.delete", timeline=name, sequence=1) == {"deleted": True}
        assert ann.call("message.recall", timeline=name, sequence=1) == {"deleted": False}
        assert "recalled_by" not in client.call("message.get", timeline=name, sequence=1)["message"]
        # Without a user, without a reason.
        assert client.call("message.recall", timeline=name, sequence=3) == {"deleted": True}
        tombstone = client.call("message.get", timeline=name, sequence=3)["message"]
        assert tombstone["recalled_by"] == "" and "reason" not in tombstone
        refused(client, "message.update", 404, "message_not_found", timeline=name, sequence=3, set={"a": 1})
        resumed = client.call("sync", positions={name: {"after": 3, "changes_after": 0}})["timelines"][name]
        assert [(one["sequence"], one.get("recalled_by")) for one in resumed["changed"]] == [
            (2, "ann"),
            (1, None),
            (3, ""),
        ]


def test_recall_params(client, name, refused):
    client.append(name)
    for reason in ["", "x" * 1_025, 7]:
        with pytest.raises(Refused) as caught:
            client.call("message.recall", timeline=name, sequence=1, reason=reason)
        assert caught.value.code == -32602 and caught.value.data["field"] == "reason"
    refused(client, "message.recall", -32602, field="sequence", timeline=name, sequence=0)
    refused(client, "message.recall", -32602, field="why", timeline=name, sequence=1, why="x")
    refused(client, "message.recall", 404, "message_not_found", timeline=name, sequence=2)
    refused(client, "message.recall", 404, "timeline_not_found", timeline=name + "-none", sequence=1)
    refused(client, "message.recall", 409, "epoch_changed", timeline=name, sequence=1, epoch="other")
    refused(client, "message.recall", 403, "forbidden", timeline="$own", sequence=1)
    assert client.call("timeline.get", timeline=name)["change_head"] == 0
    reason = "é" * 512
    assert client.call("message.recall", timeline=name, sequence=1, reason=reason) == {"deleted": True}
    assert client.call("message.get", timeline=name, sequence=1)["message"]["reason"] == reason
