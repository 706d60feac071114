"""PROTOCOL.md, the timeline methods: create, get, update, delete, trim, list, and promise 3 (epochs)."""

import time

from client import sequences


def test_create_and_get(client, name):
    made = client.call("timeline.create", timeline=name, meta={"title": "Tea", "n": 1})
    assert made["created"] is True and made["timeline"] == name
    assert abs(made["created_at"] - time.time() * 1000) < 60_000
    got = client.call("timeline.get", timeline=name)
    assert got["meta"] == {"title": "Tea", "n": 1}
    assert (got["head"], got["floor"], got["change_head"]) == (0, 1, 0)
    assert got["epoch"] == made["epoch"] and got["created_at"] == made["created_at"]
    assert "last_at" not in got
    told = client.append(name)
    assert told["epoch"] == made["epoch"]
    assert client.call("timeline.get", timeline=name)["last_at"] == told["timestamp"]


def test_create_again_leaves_the_meta_untouched(client, name):
    first = client.call("timeline.create", timeline=name, meta={"a": 1})
    again = client.call("timeline.create", timeline=name, meta={"a": 2})
    assert again == {**first, "created": False, "differs": ["meta"]}
    assert client.call("timeline.get", timeline=name)["meta"] == {"a": 1}


def test_unknown_timelines(client, name, refused):
    for method, params in [
        ("timeline.get", {}),
        ("timeline.update", {"meta": {"a": 1}}),
        ("timeline.trim", {"before": 1}),
        ("message.get", {"sequence": 1}),
        ("message.range", {}),
        ("message.update", {"sequence": 1, "set": {"a": 1}}),
        ("message.delete", {"sequence": 1}),
    ]:
        error = refused(client, method, 404, "timeline_not_found", timeline=name, **params)
        assert error.data["retry"] is False


def test_deleting_what_is_not_there_is_no_error(client, name):
    assert client.call("timeline.delete", timeline=name) == {"deleted": False}
    client.append(name)
    assert client.call("timeline.delete", timeline=name) == {"deleted": True}
    assert client.call("timeline.delete", timeline=name) == {"deleted": False}


def test_every_method_takes_an_epoch(client, name, refused):
    epoch = client.append(name)["epoch"]
    for method, params in [
        ("timeline.create", {}),
        ("timeline.get", {}),
        ("timeline.update", {"meta": {"a": 1}}),
        ("timeline.delete", {}),
        ("timeline.trim", {"before": 2}),
        ("message.append", {"entry": {}}),
        ("message.append_batch", {"messages": [{"entry": {}}]}),
        ("message.get", {"sequence": 1}),
        ("message.range", {}),
        ("message.update", {"sequence": 1, "set": {"a": 1}}),
        ("message.delete", {"sequence": 1}),
    ]:
        refused(client, method, 409, "epoch_changed", timeline=name, epoch="Another1", **params)
        refused(client, method, -32602, field="epoch", timeline=name, epoch="not an epoch!", **params)
    got = client.call("timeline.get", timeline=name, epoch=epoch)
    assert (got["head"], got["floor"], got["change_head"], got["meta"]) == (1, 1, 0, {})


def test_update_merges_and_counts(client, name, refused):
    client.call("timeline.create", timeline=name, meta={"a": 1, "b": 2})
    version = client.call("timeline.get", timeline=name)["version"]
    reply = client.call("timeline.update", timeline=name, meta={"b": None, "c": 3})
    assert reply == {"meta": {"a": 1, "c": 3}, "version": version + 1}
    error = refused(
        client, "timeline.update", 409, "condition_failed", timeline=name, meta={"d": 1}, expect_version=version
    )
    assert error.data["actual"] == version + 1
    reply = client.call("timeline.update", timeline=name, meta={"d": 1}, expect_version=version + 1)
    assert reply == {"meta": {"a": 1, "c": 3, "d": 1}, "version": version + 2}
    assert client.call("timeline.get", timeline=name)["version"] == version + 2


def test_meta_obeys_the_rules_of_entries(client, name, refused):
    refused(client, "timeline.create", -32602, timeline=name, meta={"$a": 1})
    refused(client, "timeline.create", -32602, timeline=name, meta={"a": None})
    refused(client, "timeline.create", -32602, timeline=name, meta=[1])
    refused(client, "timeline.get", 404, "timeline_not_found", timeline=name)


def test_delete_and_create_again_is_a_new_history(client, name, refused):
    first = client.append(name, {"a": 1}, message_id="m")
    client.fill(name, 20)
    assert client.call("timeline.delete", timeline=name) == {"deleted": True}
    refused(client, "timeline.get", 404, "timeline_not_found", timeline=name)
    refused(client, "message.range", 404, "timeline_not_found", timeline=name)
    refused(client, "message.get", 404, "timeline_not_found", timeline=name, sequence=1)
    again = client.append(name, {"b": 1}, message_id="m")
    assert again["sequence"] == 1 and not again["duplicate"]
    assert again["epoch"] != first["epoch"]
    page = client.call("message.range", timeline=name)
    assert [message["entry"] for message in page["messages"]] == [{"b": 1}]
    refused(client, "message.get", 409, "epoch_changed", timeline=name, sequence=1, epoch=first["epoch"])


def test_trim(client, name, refused):
    client.fill(name, 30)
    assert client.call("timeline.trim", timeline=name, before=11) == {"floor": 11}
    got = client.call("timeline.get", timeline=name)
    assert (got["floor"], got["head"]) == (11, 30)
    page = client.call("message.range", timeline=name)
    assert sequences(page["messages"]) == list(range(11, 31)) and page["floor"] == 11
    refused(client, "message.get", 404, "message_not_found", timeline=name, sequence=10)
    assert client.call("message.get", timeline=name, sequence=11)["message"]["sequence"] == 11
    # It never goes back.
    assert client.call("timeline.trim", timeline=name, before=5) == {"floor": 11}
    refused(client, "message.update", 404, "message_not_found", timeline=name, sequence=10, set={"a": 1})
    refused(client, "message.delete", 404, "message_not_found", timeline=name, sequence=10)


def test_trim_everything_keeps_the_numbers(client, name):
    client.fill(name, 5)
    assert client.call("timeline.trim", timeline=name, before=6) == {"floor": 6}
    page = client.call("message.range", timeline=name)
    assert page["messages"] == [] and (page["floor"], page["head"]) == (6, 5)
    assert client.append(name)["sequence"] == 6


def test_list_pages_in_order_by_prefix(client, name):
    names = sorted(f"{name}/{n:02}" for n in range(25))
    for one in names:
        client.call("timeline.create", timeline=one)
    client.append(names[3])
    client.call("timeline.delete", timeline=names[4])
    names.pop(4)
    got, after = [], None
    while True:
        params = {} if after is None else {"after": after}
        page = client.call("timeline.list", prefix=f"{name}/", limit=7, **params)
        assert len(page["timelines"]) <= 7
        got += page["timelines"]
        after = page.get("next")
        if after is None:
            break
    assert sorted(one["timeline"] for one in got) == names
    assert len({one["timeline"] for one in got}) == len(got)
    assert next(one for one in got if one["timeline"] == names[3])["head"] == 1
    assert client.call("timeline.list", prefix=f"{name}/nothing")["timelines"] == []


def test_list_limits(client, refused):
    refused(client, "timeline.list", -32602, field="limit", limit=0)
    refused(client, "timeline.list", -32602, field="limit", limit=-1)
    assert client.call("timeline.list", limit=10**9)["timelines"] is not None


def test_no_two_timelines_share_an_epoch(client, name):
    created = [client.ask("timeline.create", timeline=f"{name}/{n}") for n in range(200)]
    appended = [client.ask("message.append", timeline=f"{name}/{n}", entry={"n": n}) for n in range(200, 400)]
    epochs = [client.take(number)["epoch"] for number in created + appended]
    assert len(set(epochs)) == 400
    # Also not those of one name, deleted and made again in one batch.
    for _ in range(50):
        client.ask("timeline.delete", timeline=f"{name}/0")
        epochs.append(client.take(client.ask("timeline.create", timeline=f"{name}/0"))["epoch"])
    assert len(set(epochs)) == 450 and all(len(epoch) <= 32 for epoch in epochs)


def test_a_call_that_makes_says_what_is_not_as_it_asked(client, name):
    asked = {"meta": {"title": "Lobby"}, "settings": {"members_only": True}, "members": [{"user": "ann", "role": "owner"}, {"user": "ben"}]}
    create = lambda **params: client.call("timeline.create", timeline=name, **params)
    assert "differs" not in create(**asked)
    again = create(**asked)
    assert again["created"] is False and "differs" not in again and "differs" not in create()
    for part, other in [
        ("meta", {"title": "Hall"}), ("meta", {"title": "Lobby", "more": 1}), ("settings", {"members_only": False}), ("settings", {"fan_out": "write"}),
        ("members", [{"user": "ann", "role": "owner"}]), ("members", [{"user": "ann"}, {"user": "ben"}]), ("members", [{"user": "ann", "role": "owner"}, {"user": "cleo"}]),
    ]:
        assert create(**{part: other})["differs"] == [part], (part, other)
    client.call("member.add", timeline=name, members=[{"user": "mallory"}])
    client.call("timeline.configure", timeline=name, settings={"members_only": None})
    client.call("timeline.update", timeline=name, meta={"title": "Mine"})
    assert create(**asked)["differs"] == ["meta", "settings", "members"]
