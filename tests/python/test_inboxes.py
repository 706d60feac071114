"""PROTOCOL.md, "Slice 2: people": inboxes and `fan_out`."""

import time
import uuid

import pytest

from client import Client, until


@pytest.fixture
def people(server):
    """Three users, each with a connection."""
    users = [f"{name}-{uuid.uuid4()}" for name in ("ann", "ben", "cay")]
    clients = [Client(server, user=user) for user in users]
    for connected in clients:
        connected.__enter__()
    yield list(zip(users, clients))
    for connected in clients:
        connected.__exit__(None, None, None)


def entries(client, user, count):
    """What is in a user's inbox, once it holds as many."""
    def there():
        messages = client.call("message.range", timeline=f"$inbox/{user}")["messages"]
        return len(messages) >= count and [message["entry"] for message in messages]

    return until(there) if count else []


def sequences(client, user, count):
    return [entry["sequence"] for entry in entries(client, user, count)]


def post(client, name, text="hello"):
    return client.call("message.append", timeline=name, entry={"text": text})


@pytest.fixture
def patient(client):
    """Waits for the first entry of an inbox that may not be there yet."""

    def wait(user, count):
        def there():
            got = client.call("sync", positions={f"$inbox/{user}": 0})["timelines"]
            messages = got[f"$inbox/{user}"]["messages"] if got else []
            return len(messages) >= count and [message["entry"]["sequence"] for message in messages]

        return until(there)

    return wait


def test_with_write_each_message_comes_into_the_inbox_of_the_members_at_its_place(client, people, name, patient):
    (ann, _), (ben, _), (cay, _) = people
    epoch = client.call(
        "timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": ann}, {"user": ben}]
    )["epoch"]
    first = post(client, name)
    client.call("member.add", timeline=name, members=[{"user": cay}], announce={"text": "cay is here"})
    client.call("member.remove", timeline=name, users=[ben], announce={"text": "ben has left"})
    last = post(client, name)
    assert patient(ann, 4) == [1, 2, 3, 4]
    assert patient(cay, 3) == [2, 3, 4]
    assert patient(ben, 2) == [1, 2]
    message = client.call("message.range", timeline=f"$inbox/{ann}")["messages"][0]
    assert message["entry"] == {
        "timeline": name, "epoch": epoch, "sequence": 1, "timestamp": first["timestamp"],
    }
    assert (message["sequence"], "sender" in message) == (1, False)
    assert last["sequence"] == 4


def test_with_read_nothing_comes_and_switching_counts_from_the_next_message_on(client, people, name, patient):
    (ann, _), _, _ = people
    client.call("timeline.create", timeline=name, members=[{"user": ann}])
    post(client, name)
    for fan_out in ("write", "read", "write", None, "auto"):
        client.call("timeline.configure", timeline=name, settings={"fan_out": fan_out})
        post(client, name)
    assert patient(ann, 3) == [2, 4, 6]


def test_auto_writes_until_there_are_too_many_and_then_not_until_configured(client, people, name, patient):
    (ann, _), (ben, _), (cay, _) = people
    auto = {"fan_out": "auto", "fan_out_members_max": 2}
    client.call("timeline.create", timeline=name, settings=auto, members=[{"user": ann}, {"user": ben}])
    post(client, name)
    client.call("member.add", timeline=name, members=[{"user": cay}])
    post(client, name)
    client.call("member.remove", timeline=name, users=[cay, ben])
    post(client, name)
    client.call("timeline.configure", timeline=name, settings={"fan_out": "auto"})
    post(client, name)
    assert patient(ann, 2) == [1, 4]
    assert patient(ben, 1) == [1]


def test_an_inbox_is_its_users_and_read_like_any_timeline(client, people, name, refused, patient):
    (ann, a), (ben, b), _ = people
    inbox = f"$inbox/{ann}"
    refused(a, "message.range", 404, "timeline_not_found", timeline=inbox)
    client.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": ann}, {"user": ben}])
    post(b, name)
    patient(ann, 1)
    assert entries(a, ann, 1)[0]["sequence"] == 1
    got = a.call("timeline.get", timeline=inbox)
    assert got["head"] == 1 and got["settings"]["retention"] == {"age_ms": 30 * 86_400_000}
    for method, params in [
        ("timeline.get", {}),
        ("message.range", {}),
        ("message.get", {"sequence": 1}),
        ("subscribe", {"create": False}),
        ("subscribe", {}),
    ]:
        refused(b, method, 404, "timeline_not_found", timeline=inbox, **params)
    assert b.call("sync", positions={inbox: 0})["timelines"] == {}
    for method, params in [
        ("message.append", {"entry": {"text": "x"}}),
        ("message.delete", {"sequence": 1}),
        ("timeline.trim", {"before": 2}),
        ("timeline.configure", {"settings": {"retention": None}}),
    ]:
        refused(a, method, 403, "forbidden", field="timeline", timeline=inbox, **params)
    assert name in [one["timeline"] for one in a.call("timeline.list", prefix=name)["timelines"]]
    assert a.call("timeline.list", prefix="$")["timelines"] == []


def test_entries_are_pushed_and_lead_to_the_newest_form(client, people, name):
    (ann, a), (ben, b), _ = people
    reply = a.call("subscribe", timeline=f"$inbox/{ann}")
    assert (reply["head"], reply["messages"]) == (0, [])
    client.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": ann}, {"user": ben}])
    sequence = post(b, name, "helo")["sequence"]
    push = a.push("message")
    entry = push["messages"][0]["entry"]
    assert (push["timeline"], entry["timeline"], entry["sequence"]) == (f"$inbox/{ann}", name, sequence)
    b.call("message.update", timeline=name, sequence=sequence, set={"text": "hello"})
    read = a.call("message.get", timeline=entry["timeline"], sequence=entry["sequence"])
    assert read["message"]["entry"] == {"text": "hello"}


def test_one_who_leaves_and_comes_back_gets_what_comes_then(client, people, name, patient):
    (ann, _), (ben, _), _ = people
    client.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": ann}, {"user": ben}])
    for _ in range(5):
        post(client, name)
        client.call("member.remove", timeline=name, users=[ben])
        post(client, name)
        client.call("member.add", timeline=name, members=[{"user": ben}])
    assert patient(ann, 10) == list(range(1, 11))
    assert patient(ben, 5) == [1, 3, 5, 7, 9]


def test_a_group_of_thousands_gets_each_message_once_and_in_order(client, people, name, patient):
    (ann, _), (ben, _), _ = people
    crowd = [{"user": f"crowd-{number}-{name}"} for number in range(2_500)]
    client.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=crowd[:1_500])
    client.call("member.add", timeline=name, members=[*crowd[1_500:], {"user": ann}, {"user": ben}])
    for _ in range(3):
        post(client, name)
    client.call("member.remove", timeline=name, users=[ben, *[one["user"] for one in crowd[500:]]])
    post(client, name)
    assert patient(ann, 4) == [1, 2, 3, 4]
    assert patient(ben, 3) == [1, 2, 3]
    for number in (0, 499):
        assert patient(crowd[number]["user"], 4) == [1, 2, 3, 4]
    for number in (500, 1_499, 1_500, 2_499):
        assert patient(crowd[number]["user"], 3) == [1, 2, 3]
    time.sleep(0.2)
    assert patient(ben, 3) == [1, 2, 3]
