"""PROTOCOL.md, "Slice 2: people": one subscription to all conversations of a user."""

import time

from client import Client, room, sequences, until


def known(client, names):
    """The relay tells the user of conversations soon."""
    listed = lambda: {one["timeline"] for one in client.call("conversation.list", limit=1_000)["conversations"]}
    until(lambda: listed() >= set(names))


def follow(client, **params):
    """Subscribes; what was told of each timeline with news."""
    assert client.call("subscribe", conversations=True, **params) == {"timelines": {}, "more": True}
    told, more = {}, True
    while more:
        push = client.push("subscribed")
        assert not set(push["timelines"]) & set(told)
        told.update(push["timelines"])
        more = push["more"]
    return told


def pushed(client, method):
    """The next push of this kind; others are passed over."""
    while True:
        push = client.push()
        if push["method"] == method:
            return push["params"]


def test_from_now_nothing_is_told_and_all_is_pushed(ada, other, user, name):
    names = [f"{name}/{n}" for n in range(5)]
    for one in names:
        room(other, one, user, 3)
    known(ada, names)
    assert follow(ada) == {}
    for one in names:
        other.append(one)
    got = [ada.push("message") for _ in names]
    assert {push["timeline"]: sequences(push["messages"]) for push in got} == {one: [4] for one in names}
    assert ada.call("unsubscribe", conversations=True) == {}
    other.append(names[0])
    ada.quiet()


def test_from_the_positions_of_a_device_only_those_with_news(ada, other, user, name):
    a, b, c = (f"{name}/{x}" for x in "abc")
    epochs = {one: room(other, one, user, 3) for one in [a, b, c]}
    known(ada, [a, b, c])
    places = {a: {"epoch": epochs[a], "after": 3}, b: {"epoch": epochs[b], "after": 1}}
    ada.call("position.set", device="phone", positions=places)
    told = follow(ada, device="phone", rewind=2)
    assert {one: sequences(part["messages"]) for one, part in told.items()} == {b: [2, 3], c: [2, 3]}
    other.append(a)
    assert sequences(ada.push("message")["messages"]) == [4]


def test_joining_adds_and_leaving_ends(ada, other, user, name):
    a, b = f"{name}/a", f"{name}/b"
    room(other, a, user, 1)
    known(ada, [a])
    assert follow(ada, rewind=0) == {}
    room(other, b, user, 2)
    changed = pushed(ada, "conversation.changed")
    assert [one["timeline"] for one in changed["conversations"]] == [b] and changed["removed"] == []
    # Its subscription begins soon; from then on it is pushed.
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        other.append(b)
        try:
            push = ada.push(patience=0.2)
        except TimeoutError:
            continue
        if push["method"] == "message":
            assert push["params"]["timeline"] == b
            break
    other.call("member.remove", timeline=a, users=[user])
    ended = pushed(ada, "subscription.ended")
    assert (ended["timeline"], ended["reason"], ended["resubscribe"]) == (a, "not_a_member", False)
    assert pushed(ada, "conversation.changed")["removed"] == [a]
    other.append(a)
    ada.pushes.clear()
    ada.quiet()


def test_what_changes_on_another_device_is_told(ada, other, server, user, name):
    room(other, name, user, 3)
    known(ada, [name])
    follow(ada)
    with Client(server, user=user) as tablet:
        tablet.call("conversation.update", timeline=name, set={"pinned": True})
    (one,) = pushed(ada, "conversation.changed")["conversations"]
    assert one["timeline"] == name and one["attributes"] == {"pinned": True}
    # Messages are not told so.
    other.append(name)
    assert ada.push("message")["timeline"] == name
    ada.quiet()


def test_what_was_subscribed_by_name_stays_what_it_is(ada, other, user, name):
    room(other, name, user, 1)
    known(ada, [name])
    ada.call("subscribe", timeline=name)
    assert follow(ada, rewind=1) == {}
    other.append(name)
    assert sequences(ada.push("message")["messages"]) == [2]
    ada.call("unsubscribe", conversations=True)
    other.append(name)
    assert sequences(ada.push("message")["messages"]) == [3]
    ada.quiet()


def test_many_conversations(ada, other, user, name, refused):
    names = [f"{name}/{n:04}" for n in range(1_200)]
    numbers = []
    for one in names:
        numbers.append(other.ask("timeline.create", timeline=one))
        numbers.append(other.ask("member.add", timeline=one, members=[{"user": user}]))
        if len(numbers) >= 200:
            for number in numbers:
                other.take(number)
            numbers = []
    for number in numbers:
        other.take(number)
    until(lambda: ada.call("conversation.count")["conversations"] >= 1_200)
    assert follow(ada) == {}
    # They don't count as subscriptions by name.
    assert ada.call("subscribe", timeline=f"{name}/by-name")["state"] == "ok"
    other.append(names[-1])
    assert ada.push("message")["timeline"] == names[-1]


def test_refusals(ada, client, refused):
    refused(client, "subscribe", 401, "unauthenticated", conversations=True)
    follow(ada)
    refused(ada, "subscribe", 409, "already_subscribed", conversations=True)
    refused(ada, "subscribe", -32602, field="conversations", conversations=False)
    refused(ada, "subscribe", -32602, field="timeline", conversations=True, timeline="a")
    refused(ada, "subscribe", -32602, field="timelines", conversations=True, after=1)
    refused(ada, "subscribe", -32602, field="device", timeline="a", device="phone")
    refused(ada, "subscribe", -32602, field="with", conversations=True, **{"with": ["presence"]})
    ada.call("unsubscribe", conversations=True)
    assert follow(ada) == {}
