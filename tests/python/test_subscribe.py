"""PROTOCOL.md, promise 4: subscriptions from now, from a position, by rewind; more, too_old, epoch_changed, endings."""

import threading

import pytest

from client import Client, sequences


def test_from_now(client, other, name):
    client.fill(name, 3)
    reply = other.call("subscribe", timeline=name)
    assert (reply["timeline"], reply["head"], reply["floor"], reply["change_head"]) == (name, 3, 1, 0)
    assert reply["messages"] == [] and reply["more"] is False and reply["state"] == "ok"
    told = client.append(name, {"a": 1}, message_id="m")
    push = other.push("message")
    assert (push["timeline"], push["head"], push["epoch"]) == (name, 4, told["epoch"])
    (message,) = push["messages"]
    message.pop("sender", None)
    assert message == {"sequence": 4, "timestamp": told["timestamp"], "message_id": "m", "entry": {"a": 1}}
    other.quiet()


def test_after_resumes_without_gap_or_repetition(client, other, name):
    client.fill(name, 10)
    reply = other.call("subscribe", timeline=name, after=4)
    assert sequences(reply["messages"]) == [5, 6, 7, 8, 9, 10] and reply["more"] is False
    client.append(name)
    assert sequences(other.messages(name, 1)) == [11]


def test_more_follows_as_pushes_up_to_head(client, other, name):
    client.fill(name, 500)
    reply = other.call("subscribe", timeline=name, after=0, limit=7)
    assert sequences(reply["messages"]) == list(range(1, 8))
    assert reply["more"] is True and reply["head"] == 500
    assert sequences(other.messages(name, 493)) == list(range(8, 501))
    client.append(name)
    assert sequences(other.messages(name, 1)) == [501]
    other.quiet()


def test_rewind(client, other, name):
    client.fill(name, 10)
    reply = other.call("subscribe", timeline=name, rewind=3)
    assert sequences(reply["messages"]) == [8, 9, 10]
    other.call("unsubscribe", timeline=name)
    reply = other.call("subscribe", timeline=name, rewind=99)
    assert sequences(reply["messages"]) == list(range(1, 11)) and reply["state"] == "ok"
    other.call("unsubscribe", timeline=name)
    assert other.call("subscribe", timeline=name, rewind=0)["messages"] == []


def test_rewind_stops_at_the_floor(client, other, name):
    client.fill(name, 10)
    client.call("timeline.trim", timeline=name, before=9)
    reply = other.call("subscribe", timeline=name, rewind=5)
    assert sequences(reply["messages"]) == [9, 10]


def test_after_and_rewind_together_are_refused(client, name, refused):
    refused(client, "subscribe", -32602, timeline=name, after=1, rewind=1)
    refused(client, "subscribe", -32602, field="limit", timeline=name, limit=0)
    refused(client, "subscribe", -32602, field="after", timeline=name, after=-1)


def test_a_second_subscription_is_refused(client, name, refused):
    client.call("subscribe", timeline=name)
    refused(client, "subscribe", 409, "already_subscribed", timeline=name)
    client.call("unsubscribe", timeline=name)
    client.call("subscribe", timeline=name)


def test_unknown_timelines_are_created_durably_or_refused(client, other, name, refused):
    refused(client, "subscribe", 404, "timeline_not_found", timeline=name, create=False)
    reply = client.call("subscribe", timeline=name)
    assert (reply["head"], reply["floor"], reply["messages"]) == (0, 1, [])
    assert other.call("timeline.get", timeline=name)["epoch"] == reply["epoch"]
    other.append(name)
    assert sequences(client.messages(name, 1)) == [1]


def test_too_old_says_so_and_goes_on_from_the_floor(client, other, name):
    client.fill(name, 20)
    client.call("timeline.trim", timeline=name, before=11)
    reply = other.call("subscribe", timeline=name, after=5)
    assert reply["state"] == "too_old" and reply["floor"] == 11
    assert sequences(reply["messages"]) == list(range(11, 21))
    client.append(name)
    assert sequences(other.messages(name, 1)) == [21]


def test_after_floor_minus_one_is_not_too_old(client, other, name):
    client.fill(name, 20)
    client.call("timeline.trim", timeline=name, before=11)
    reply = other.call("subscribe", timeline=name, after=10)
    assert reply["state"] == "ok" and sequences(reply["messages"])[0] == 11


@pytest.mark.parametrize("params", [{"after": 0, "epoch": "Other1"}, {"after": 99}])
def test_epoch_changed_is_no_subscription(client, other, name, params, refused):
    client.fill(name, 3)
    reply = other.call("subscribe", timeline=name, **params)
    assert reply["state"] == "epoch_changed" and reply["messages"] == []
    client.append(name)
    other.quiet()
    assert other.call("subscribe", timeline=name)["state"] == "ok"


def test_the_right_epoch_resumes(client, other, name):
    epoch = client.append(name)["epoch"]
    client.append(name)
    assert sequences(other.call("subscribe", timeline=name, after=1, epoch=epoch)["messages"]) == [2]


def test_nothing_follows_an_unsubscribe(client, other, name):
    other.call("subscribe", timeline=name)
    assert other.call("unsubscribe", timeline=name) == {}
    client.append(name)
    other.quiet()
    # Unsubscribing what is not subscribed is no error that a client could use.
    assert other.call("unsubscribe", timeline=name) == {}


def test_deletion_ends_the_subscription(client, other, name):
    client.append(name)
    other.call("subscribe", timeline=name)
    client.call("timeline.delete", timeline=name)
    push = other.push("subscription.ended")
    assert push["timeline"] == name and push["reason"] == "deleted" and isinstance(push["resubscribe"], bool)
    assert push["epoch"]
    client.append(name)
    other.quiet()


def test_own_messages_are_pushed_once(client, name):
    client.call("subscribe", timeline=name)
    asked = [client.ask("message.append", timeline=name, entry={"n": n}) for n in range(50)]
    for number in asked:
        client.take(number)
    assert sequences(client.messages(name, 50)) == list(range(1, 51))
    client.quiet()


def test_many_timelines_on_one_connection(client, other, name):
    names = [f"{name}/{n}" for n in range(200)]
    for number in [client.ask("subscribe", timeline=one) for one in names]:
        client.take(number)
    for number in [other.ask("message.append", timeline=one, entry={"n": n}) for n, one in enumerate(names)]:
        other.take(number)
    got = {}
    while len(got) < 200:
        push = client.push("message")
        assert push["timeline"] not in got
        got[push["timeline"]] = push["messages"][0]["entry"]["n"]
    assert got == {one: n for n, one in enumerate(names)}


def test_at_most_1000_subscriptions(server, name, refused):
    with Client(server) as client:
        for number in [client.ask("subscribe", timeline=f"{name}/{n}") for n in range(1_000)]:
            client.take(number)
        with pytest.raises(Exception) as caught:
            client.call("subscribe", timeline=f"{name}/more")
        assert caught.value.code in (413, 429)
        client.call("unsubscribe", timeline=f"{name}/0")
        client.call("subscribe", timeline=f"{name}/more")


def test_join_while_others_write_sees_each_number_once(server, name):
    stop = threading.Event()

    def write():
        with Client(server) as writer:
            while not stop.is_set():
                asked = [writer.ask("message.append", timeline=name, entry={"n": 1}) for _ in range(20)]
                for number in asked:
                    writer.take(number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(15):
            with Client(server) as reader:
                position, epoch = 0, None
                for _ in range(3):
                    resumed = {} if epoch is None else {"epoch": epoch}
                    reply = reader.call("subscribe", timeline=name, after=position, limit=10, **resumed)
                    epoch = reply["epoch"]
                    got = reply["messages"]
                    target = reply["head"] + 20
                    while not got or got[-1]["sequence"] < target:
                        got += reader.push("message")["messages"]
                    number = reader.ask("unsubscribe", timeline=name)
                    reader.take(number)
                    while reader.pushes:
                        got += reader.pushes.popleft()["params"]["messages"]
                    assert sequences(got) == list(range(position + 1, position + 1 + len(got)))
                    position = got[-1]["sequence"]
    finally:
        stop.set()
        writer.join()


def test_a_trim_overtaking_a_caught_up_reader_ends_nothing(client, other, name):
    client.fill(name, 5)
    other.call("subscribe", timeline=name)
    client.call("timeline.trim", timeline=name, before=6)
    client.append(name)
    assert sequences(other.messages(name, 1)) == [6]


def test_every_subscriber_sees_the_same(server, client, name):
    readers = [Client(server) for _ in range(20)]
    try:
        for reader in readers:
            reader.call("subscribe", timeline=name, after=0)
        client.fill(name, 300)
        first = readers[0].messages(name, 300)
        for reader in readers[1:]:
            assert reader.messages(name, 300) == first
    finally:
        for reader in readers:
            reader.close()


def test_a_position_in_a_history_that_is_gone_creates_nothing(client, name, refused):
    for params in [{"epoch": "Other1"}, {"epoch": "Other1", "after": 0}, {"after": 5, "changes_after": 2}]:
        reply = client.call("subscribe", timeline=name, **params)
        assert (reply["state"], reply["epoch"], reply["head"], reply["messages"]) == ("epoch_changed", "", 0, [])
        refused(client, "timeline.get", 404, "timeline_not_found", timeline=name)
    # As the client's loop goes on: it starts over.
    assert client.call("subscribe", timeline=name, after=0)["state"] == "ok"
    client.append(name)
    assert sequences(client.messages(name, 1)) == [1]


def test_a_subscribe_that_creates_is_never_told_that_there_is_nothing(client, other, name):
    delete = {"jsonrpc": "2.0", "method": "timeline.delete", "params": {"timeline": name}}
    for _ in range(100):
        for _ in range(100):
            other.send(delete)
        reply = client.call("subscribe", timeline=name, after=0, changes_after=0)
        assert (reply["state"], reply["head"], reply["messages"], reply["changed"]) == ("ok", 0, [], [])
        client.call("unsubscribe", timeline=name)
    other.call("ping")
    # What it was told is so: it stands, or it ends with the epoch of the reply.
    client.pushes.clear()
    reply = client.call("subscribe", timeline=name)
    other.call("timeline.delete", timeline=name)
    push = client.push("subscription.ended")
    assert (push["reason"], push["epoch"]) == ("deleted", reply["epoch"])


def test_many_at_once_each_as_by_itself(client, other, name, refused):
    a, b, c, d = (f"{name}/{x}" for x in "abcd")
    client.fill(a, 5)
    client.fill(b, 3)
    epoch = client.call("timeline.get", timeline=a)["epoch"]
    client.call("subscribe", timeline=d)
    starts = {a: {"after": 3, "epoch": epoch}, b: {"rewind": 1}, c: {}, d: {}}
    reply = client.call("subscribe", timelines=starts)
    assert set(reply) == {"timelines", "more"} and reply["more"] is False
    got = reply["timelines"]
    assert sequences(got[a]["messages"]) == [4, 5] and got[a]["state"] == "ok" and got[a]["timeline"] == a
    assert sequences(got[b]["messages"]) == [3] and got[c]["head"] == 0
    assert got[d] == {"reason": "already_subscribed"}
    for one in [a, b, c]:
        other.append(one)
    pushed = [client.push("message") for _ in range(3)]
    assert {push["timeline"]: sequences(push["messages"]) for push in pushed} == {a: [6], b: [4], c: [1]}
    # Each for itself: a history that is gone is no subscription, an unknown timeline is not made where that is not asked.
    e, f = f"{name}/e", f"{name}/f"
    client.append(e)
    got = client.call("subscribe", timelines={e: {"after": 1, "epoch": "Other1"}, f: {}}, create=False)["timelines"]
    assert got[e]["state"] == "epoch_changed" and got[f] == {"reason": "timeline_not_found"}
    client.append(e)
    client.quiet()
    assert client.call("unsubscribe", timelines=[a, b, "never"]) == {}
    other.append(a)
    other.append(c)
    assert client.push("message")["timeline"] == c
    client.quiet()


def test_what_does_not_fit_into_the_reply_comes_in_pushes(client, other, name):
    names = [f"{name}/{n:02}" for n in range(30)]
    for one in names:
        client.append(one, {"t": "x" * 60_000})
    reply = client.call("subscribe", timelines={one: {"after": 0} for one in names})
    assert reply["more"] is True and 0 < len(reply["timelines"]) < 30
    # What is appended meanwhile comes behind the timeline's own part, whenever that is.
    for one in names:
        other.append(one, {"n": 2})
    seen = {one: sequences(part["messages"]) for one, part in reply["timelines"].items()}
    more, pushes = True, 0
    while more or any(len(got) < 2 for got in seen.values()):
        push = client.push()
        params = push["params"]
        if push["method"] == "subscribed":
            assert not set(params["timelines"]) & set(seen)
            more, pushes = params["more"], pushes + 1
            seen.update({one: sequences(part["messages"]) for one, part in params["timelines"].items()})
        else:
            assert push["method"] == "message"
            seen[params["timeline"]] += sequences(params["messages"])
    assert pushes > 1 and seen == {one: [1, 2] for one in names}


def test_unsubscribed_while_its_part_is_still_to_come(client, name):
    names = [f"{name}/{n:02}" for n in range(20)]
    for one in names:
        client.append(one, {"t": "x" * 100_000})
    number = client.ask("subscribe", timelines={one: {"after": 0} for one in names})
    client.call("unsubscribe", timelines=names)
    more = client.take(number)["more"]
    while more:
        push = client.push("subscribed")
        assert push["timelines"] == {}
        more = push["more"]
    client.append(names[-1])
    client.quiet()


def test_many_up_to_the_limit(client, name, refused):
    for n in range(10):
        client.call("subscribe", timeline=f"{name}/single/{n}")
    reply = client.call("subscribe", timelines={f"{name}/{n:04}": {} for n in range(1_000)})
    got, more = reply["timelines"], reply["more"]
    while more:
        push = client.push("subscribed")
        got.update(push["timelines"])
        more = push["more"]
    refusals = [one for one, part in got.items() if "reason" in part]
    assert len(got) == 1_000 and len(refusals) == 10
    assert all(got[one] == {"reason": "too_large"} for one in refusals)
    refused(client, "subscribe", 413, "too_large", timeline=f"{name}/one")
    refused(client, "subscribe", 413, "too_large", field="timelines", timelines={f"{n}": {} for n in range(1_001)})
    client.call("unsubscribe", timelines=list(got))
    assert client.call("subscribe", timeline=f"{name}/one")["state"] == "ok"


def test_params_of_many(client, name, refused):
    refused(client, "subscribe", -32602, field="timeline")
    refused(client, "subscribe", -32602, field="timeline", timeline=name, timelines={})
    refused(client, "subscribe", -32602, field="timelines", timelines={name: {}}, after=1)
    refused(client, "subscribe", -32602, field=f"timelines.{name}.rewind", timelines={name: {"after": 1, "rewind": 1}})
    refused(client, "subscribe", -32602, field=f"timelines.{name}.epoch", timelines={name: {"epoch": "-"}})
    refused(client, "subscribe", -32602, timelines={name: {"create": True}})
    refused(client, "subscribe", -32602, timelines={"": {}})
    refused(client, "unsubscribe", -32602, field="timeline")
    refused(client, "unsubscribe", -32602, field="epoch", timelines=[name], epoch="E1")
    refused(client, "unsubscribe", -32602, field="timelines[1]", timelines=[name, "a\nb"])
    assert client.call("subscribe", timelines={}) == {"timelines": {}, "more": False}
    assert client.call("unsubscribe", timelines=[]) == {}


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_push_is_a_part_of_the_trace_of_the_append(client, other, name):
    other.call("subscribe", timeline=name, create=True)

    def pushed(traceparent, count=1):
        client.around = {"traceparent": traceparent}
        client.fill(name, count)
        return [message.get("traceparent") for message in other.messages(name, count)]

    assert pushed(TRACE) == [TRACE]
    assert pushed(TRACE.replace("319c", "319d"), count=3) == [TRACE.replace("319c", "319d")] * 3
    # A later version may say more, and is passed on as the one that we know.
    assert pushed(TRACE.replace("00-0af", "01-0af") + "-more") == [TRACE]
    # As the standard says, what is no traceparent is none: no call is refused for it.
    for wrong in [TRACE[:-1], TRACE + "-x", TRACE.upper(), "00-" + "0" * 32 + TRACE[35:], "", 7, None, [TRACE], {"a": TRACE}]:
        assert pushed(wrong) == [None], wrong
    client.around = {}
    client.append(name)
    assert "traceparent" not in other.messages(name, 1)[0]
    # A call of a batch has its own.
    calls = [{"jsonrpc": "2.0", "id": f"b{at}", "method": "message.append", "params": {"timeline": name, "entry": {}}} for at in range(2)]
    client.send([{**calls[0], "traceparent": TRACE}, calls[1]])
    assert {reply["id"] for reply in client.receive()} == {"b0", "b1"}
    assert [message.get("traceparent") for message in other.messages(name, 2)] == [TRACE, None]


def test_a_trace_is_no_part_of_the_message(client, other, name):
    client.around = {"traceparent": TRACE}
    told = client.append(name, {"a": 1}, message_id="m")
    client.around = {}
    assert "traceparent" not in client.call("message.get", timeline=name, sequence=1)["message"]
    # A repeat is the same message, and tells nothing new.
    other.call("subscribe", timeline=name)
    client.around = {"traceparent": TRACE.replace("319c", "319d")}
    assert client.append(name, {"a": 1}, message_id="m") == {**told, "duplicate": True}
    other.quiet()
