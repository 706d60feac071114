"""PROTOCOL.md, "Time" and retention: messages that expire, are appended later, or go because they are too many or too old."""

import time
import uuid

import pytest

from client import Client, Refused, sequences, until


def now_ms():
    return int(time.time() * 1000)


def messages(client, timeline):
    return client.call("message.range", timeline=timeline)["messages"]


def scheduled(client, timeline):
    return client.call("schedule.list", timeline=timeline)["scheduled"]


# Expiry


def test_a_message_says_when_it_expires(client, name):
    before = now_ms()
    client.append(name, {"n": 1}, expires_in_ms=60_000)
    message = client.call("message.get", timeline=name, sequence=1)["message"]
    assert before + 60_000 - 5_000 <= message["expires_at"] <= now_ms() + 60_000 + 5_000
    assert message["entry"] == {"n": 1} and "expired" not in message
    client.append(name, {"n": 2})
    assert "expires_at" not in client.call("message.get", timeline=name, sequence=2)["message"]


def test_after_its_time_nobody_is_shown_the_entry_and_the_server_deletes_it(client, other, name):
    client.append(name, {"n": 1}, expires_in_ms=300)
    client.append(name, {"n": 2})
    joined = other.call("subscribe", timeline=name, rewind=10)
    assert joined["messages"][0]["entry"] == {"n": 1}
    expires_at = joined["messages"][0]["expires_at"]
    push = other.push("message.changed")
    assert now_ms() >= expires_at - 5_000
    gone = push["messages"][0]
    assert gone["sequence"] == 1 and gone["deleted"] and gone["expired"] and "entry" not in gone
    assert gone["expires_at"] == expires_at and push["change_head"] == gone["change"] == 1
    assert client.call("message.get", timeline=name, sequence=1)["message"] == gone
    first, second = messages(client, name)
    assert first == gone and second["entry"] == {"n": 2}
    # A reader that was away hears of it as of any change.
    late = client.call("sync", positions={name: {"after": 2, "changes_after": 0}})["timelines"][name]
    assert late["changed"] == [gone] and late["change_head"] == 1


def test_it_is_not_shown_from_its_time_on_also_before_the_sweep(client, name):
    client.append(name, {"n": 1}, expires_in_ms=1)
    client.append(name, {"n": 2})
    # The timestamps of two appends in a row may be equal; a read behind a short wait is later than the first.
    time.sleep(0.005)
    for message in [
        client.call("message.get", timeline=name, sequence=1)["message"],
        messages(client, name)[0],
        client.call("sync", positions={name: 0})["timelines"][name]["messages"][0],
        client.call("message.range", timeline=name, columns=["n"])["messages"][0],
    ]:
        assert message["expired"] and message["deleted"] and "entry" not in message


def test_an_expired_message_is_a_tombstone_to_edits_and_deletions(client, name, refused):
    client.append(name, {"n": 1}, expires_in_ms=1)
    time.sleep(0.005)
    refused(client, "message.update", 404, "message_not_found", timeline=name, sequence=1, set={"n": 2})
    assert client.call("message.delete", timeline=name, sequence=1) == {"deleted": False}


def test_an_edit_keeps_the_time_and_a_deletion_comes_first(client, name):
    client.append(name, {"n": 1}, expires_in_ms=400)
    client.append(name, {"n": 2}, expires_in_ms=400)
    edited = client.call("message.update", timeline=name, sequence=1, set={"n": 3})["message"]
    assert edited["expires_at"] >= edited["timestamp"]
    client.call("message.delete", timeline=name, sequence=2)
    until(lambda: "expired" in messages(client, name)[0])
    first, second = until(lambda: messages(client, name)[0].get("change") == 3 and messages(client, name))
    assert first["expired"] and "expired" not in second and second["change"] == 2


def test_the_message_id_is_compared_with_the_entry_only(client, name):
    first = client.append(name, {"n": 1}, message_id="m", expires_in_ms=60_000)
    again = client.append(name, {"n": 1}, message_id="m", expires_in_ms=5)
    assert again == {**first, "duplicate": True}
    assert client.append(name, {"n": 1}, message_id="m")["duplicate"]


def test_members_of_a_batch_expire_each_for_itself(client, name):
    batch = [{"entry": {"n": 1}}, {"entry": {"n": 2}, "expires_in_ms": 1}, {"entry": {"n": 3}, "expires_in_ms": 60_000}]
    client.call("message.append_batch", timeline=name, messages=batch)
    time.sleep(0.005)
    one, two, three = messages(client, name)
    assert "expires_at" not in one and two["expired"] and three["entry"] == {"n": 3} and three["expires_at"]


def test_many_that_expire_at_once_are_all_deleted(client, name):
    for _ in range(3):
        batch = [{"entry": {"n": n}, "expires_in_ms": 50} for n in range(100)]
        client.call("message.append_batch", timeline=name, messages=batch)
    until(lambda: client.call("timeline.get", timeline=name)["change_head"] == 300)
    page = client.call("message.range", timeline=name, limit=1000)["messages"]
    assert len(page) == 300 and all(one["expired"] for one in page)
    assert sorted(one["change"] for one in page) == list(range(1, 301))


def test_messages_that_expire_while_the_server_is_down_are_deleted_at_its_start(own_server, name):
    with Client(own_server.start()) as client:
        client.append(name, {"n": 1}, expires_in_ms=100)
    own_server.kill()
    time.sleep(0.12)
    with Client(own_server.start()) as client:
        assert messages(client, name)[0]["expired"]
        until(lambda: client.call("timeline.get", timeline=name)["change_head"] == 1)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "1", 100 * 365 * 86_400_000 + 1])
def test_a_bad_time_to_live_is_refused(client, name, refused, bad):
    refused(client, "message.append", -32602, field="expires_in_ms", timeline=name, entry={"n": 1}, expires_in_ms=bad)
    batch = [{"entry": {}}, {"entry": {}, "expires_in_ms": bad}]
    refused(
        client, "message.append_batch", -32602, field="messages[1].expires_in_ms", timeline=name, messages=batch
    )


# Scheduled messages


def test_a_scheduled_message_is_appended_when_its_time_comes(client, name):
    client.call("subscribe", timeline=name)
    at = now_ms() + 300
    told = client.append(name, {"n": 1}, message_id="m", deliver_at=at, expires_in_ms=60_000)
    assert told == {"scheduled": "m", "deliver_at": at, "duplicate": False}
    assert scheduled(client, name) == [
        {"scheduled": "m", "deliver_at": at, "expires_in_ms": 60_000, "entry": {"n": 1}}
    ]
    assert messages(client, name) == []
    (message,) = client.messages(name, 1)
    assert message["message_id"] == "m" and message["entry"] == {"n": 1} and message["sequence"] == 1
    assert message["timestamp"] >= at - 5_000 and message["expires_at"] >= message["timestamp"] + 59_000
    assert scheduled(client, name) == []


def test_without_an_id_the_server_makes_one_and_it_becomes_the_messages(client, name):
    told = client.append(name, {"n": 1}, deliver_at=now_ms() + 300)
    assert uuid.UUID(told["scheduled"]).version == 7
    (message,) = until(lambda: messages(client, name))
    assert message["message_id"] == told["scheduled"]


def test_it_is_the_senders_own(server, name, refused):
    at = now_ms() + 60_000
    with Client(server, user="ada") as ada, Client(server, user="bob") as bob, Client(server) as nobody:
        ada.append(name, {"n": 1}, message_id="m", deliver_at=at)
        assert scheduled(bob, name) == scheduled(nobody, name) == []
        refused(bob, "schedule.cancel", 404, "scheduled_not_found", timeline=name, scheduled="m")
        bob.append(name, {"n": 2}, message_id="m", deliver_at=at)
        nobody.append(name, {"n": 3}, message_id="m", deliver_at=at)
        assert [one["entry"]["n"] for who in (ada, bob, nobody) for one in scheduled(who, name)] == [1, 2, 3]


def test_the_message_has_its_sender(server, name):
    with Client(server, user="ada") as ada:
        ada.append(name, {"n": 1}, deliver_at=now_ms() + 300)
        (message,) = until(lambda: messages(ada, name))
        assert message["sender"] == "ada"


def test_a_repeat_is_a_duplicate_before_and_after_delivery(client, name):
    at = now_ms() + 300
    again = dict(message_id="m", deliver_at=at)
    client.append(name, {"n": 1}, **again)
    other_time = client.append(name, {"n": 1}, message_id="m", deliver_at=at + 9)
    assert other_time == {"scheduled": "m", "deliver_at": at, "duplicate": True}
    until(lambda: messages(client, name))
    # Its time lies in the past by now; the ID is looked up first.
    late = client.append(name, {"n": 1}, **again)
    assert late["duplicate"] and late["sequence"] == 1 and late["message_id"] == "m"
    assert client.append(name, {"n": 1}, message_id="m")["sequence"] == 1
    assert len(messages(client, name)) == 1


def test_the_id_is_taken_while_the_message_waits(client, name, refused):
    at = now_ms() + 60_000
    client.append(name, {"n": 1}, message_id="m", deliver_at=at)
    conflict = ("message.append", 409, "message_id_conflict", "message_id")
    refused(client, *conflict, timeline=name, entry={"n": 2}, message_id="m", deliver_at=at)
    # An append now is not what was asked for before.
    refused(client, *conflict, timeline=name, entry={"n": 1}, message_id="m")
    batch = [{"entry": {"n": 1}, "message_id": "m"}]
    refused(
        client, "message.append_batch", 409, "message_id_conflict", "messages[0].message_id",
        timeline=name, messages=batch,
    )  # fmt: skip
    client.append(name, {"n": 5}, message_id="n")
    told = client.append(name, {"n": 5}, message_id="n", deliver_at=at)
    assert told["duplicate"] and told["sequence"] == 1


def test_a_cancelled_message_never_comes_and_its_id_is_free(client, name, refused):
    client.append(name, {"n": 1}, message_id="m", deliver_at=now_ms() + 300)
    assert client.call("schedule.cancel", timeline=name, scheduled="m") == {}
    assert scheduled(client, name) == []
    refused(client, "schedule.cancel", 404, "scheduled_not_found", timeline=name, scheduled="m")
    assert client.append(name, {"n": 2}, message_id="m")["sequence"] == 1
    time.sleep(0.5)
    assert sequences(messages(client, name)) == [1]


def test_what_was_delivered_can_not_be_cancelled(client, name, refused):
    client.append(name, {"n": 1}, message_id="m", deliver_at=now_ms() + 300)
    until(lambda: messages(client, name))
    refused(client, "schedule.cancel", 404, "scheduled_not_found", timeline=name, scheduled="m")


def test_the_past_and_more_than_a_year_ahead_are_refused(client, name, refused):
    for at in [now_ms() - 60_000, 0, now_ms() + 367 * 86_400_000]:
        refused(client, "message.append", -32602, field="deliver_at", timeline=name, entry={}, deliver_at=at)
    for at in [-1, 1.5, "soon", 1 << 53]:
        refused(client, "message.append", -32602, field="deliver_at", timeline=name, entry={}, deliver_at=at)
    # Nothing half done: no timeline either.
    refused(client, "timeline.get", 404, "timeline_not_found", timeline=name)
    year = now_ms() + 365 * 86_400_000
    assert client.append(name, {"n": 1}, deliver_at=year)["deliver_at"] == year


def test_deliver_at_is_for_single_appends_without_a_condition(client, name, refused):
    at = now_ms() + 60_000
    refused(
        client, "message.append", -32602, field="expect_head",
        timeline=name, entry={}, deliver_at=at, expect_head=0,
    )  # fmt: skip
    batch = [{"entry": {}, "deliver_at": at}]
    refused(client, "message.append_batch", -32602, timeline=name, messages=batch)
    refused(client, "message.append_batch", -32602, timeline=name, messages=[{"entry": {}}], deliver_at=at)


def test_a_hundred_of_a_user_in_a_timeline(server, name, refused):
    at = now_ms() + 60_000
    with Client(server, user="ada") as ada, Client(server, user="bob") as bob:
        asked = [
            ada.ask("message.append", timeline=name, entry={"n": n}, message_id=f"{n:03}", deliver_at=at)
            for n in range(100)
        ]
        assert [ada.take(one)["scheduled"] for one in asked] == [f"{n:03}" for n in range(100)]
        more = dict(timeline=name, entry={"n": 100}, message_id="more", deliver_at=at)
        error = refused(ada, "message.append", 413, "too_many", **more)
        assert error.data["limit"] == 100 and error.data["actual"] == 101
        # A repeat is none more.
        repeat = ada.call("message.append", timeline=name, entry={"n": 7}, message_id="007", deliver_at=at)
        assert repeat["duplicate"]
        bob.call("message.append", **more)
        ada.call("schedule.cancel", timeline=name, scheduled="050")
        assert ada.call("message.append", **more)["scheduled"] == "more"
        pages, after = [], None
        while True:
            page = ada.call("schedule.list", timeline=name, limit=7, **({"after": after} if after else {}))
            pages += page["scheduled"]
            after = page.get("next")
            if after is None:
                break
        assert [one["scheduled"] for one in pages] == [f"{n:03}" for n in range(100) if n != 50] + ["more"]


def test_the_timeline_is_made_at_once_and_only_if_asked(client, name, refused):
    at = now_ms() + 60_000
    params = dict(timeline=name, entry={"n": 1}, deliver_at=at)
    refused(client, "message.append", 404, "timeline_not_found", create=False, **params)
    refused(client, "schedule.list", 404, "timeline_not_found", timeline=name)
    refused(client, "schedule.cancel", 404, "timeline_not_found", timeline=name, scheduled="m")
    client.call("message.append", **params)
    told = client.call("timeline.get", timeline=name)
    assert told["head"] == 0
    for method in ["schedule.list", "schedule.cancel", "message.append"]:
        rest = {"schedule.cancel": {"scheduled": "m"}, "message.append": {"entry": {}, "deliver_at": at}}.get(method, {})
        refused(client, method, 409, "epoch_changed", timeline=name, epoch="other", **rest)
    assert client.call("schedule.list", timeline=name, epoch=told["epoch"])["scheduled"]


@pytest.mark.parametrize("made_again", [False, True])
def test_if_the_timeline_is_gone_it_is_listed_with_the_reason(client, name, made_again):
    at = now_ms() + 200
    client.append(name, {"n": 1}, message_id="m", deliver_at=at)
    client.call("timeline.delete", timeline=name)
    if made_again:
        client.append(name, {"n": 2})
    (refused_one,) = until(lambda: [one for one in scheduled(client, name) if "reason" in one])
    reason = "epoch_changed" if made_again else "timeline_not_found"
    assert refused_one["reason"] == reason and refused_one["refused_at"] >= at - 5_000
    assert refused_one["scheduled"] == "m" and refused_one["entry"] == {"n": 1}
    # It can be taken off the list; and its name can be used again.
    if made_again:
        assert [one["entry"] for one in messages(client, name)] == [{"n": 2}]
        client.append(name, {"n": 3}, message_id="m")
    client.call("schedule.cancel", timeline=name, scheduled="m")
    with pytest.raises(Refused) as caught:
        client.call("schedule.cancel", timeline=name, scheduled="m")
    assert caught.value.reason == ("scheduled_not_found" if made_again else "timeline_not_found")


def test_the_servers_own_timelines_take_none(client, refused):
    refused(
        client, "message.append", 403, "forbidden", timeline="$x", entry={}, deliver_at=now_ms() + 60_000
    )
    refused(client, "schedule.cancel", 403, "forbidden", timeline="$x", scheduled="m")


def test_a_notification_schedules_too(client, name):
    at = now_ms() + 300
    params = {"timeline": name, "entry": {"n": 1}, "deliver_at": at}
    client.send({"jsonrpc": "2.0", "method": "message.append", "params": params})
    client.call("ping")
    until(lambda: "error" not in probe(client, name) and messages(client, name))


def probe(client, name):
    try:
        return client.call("timeline.get", timeline=name)
    except Refused as error:
        return {"error": error.reason}


def test_in_messagepack_it_is_the_same(packed, name):
    at = now_ms() + 60_000
    told = packed.append(name, {"n": 1}, message_id="m", deliver_at=at)
    assert told == {"scheduled": "m", "deliver_at": at, "duplicate": False}
    assert scheduled(packed, name) == [{"scheduled": "m", "deliver_at": at, "entry": {"n": 1}}]


def test_each_is_delivered_once_though_the_server_is_killed(own_server, name):
    """Kills at random moments while messages become due: each ID is in the timeline once, and none waits."""
    count = 60
    own_server.start()
    with Client(own_server, user="ada") as client:
        start = now_ms() + 2_000
        asked = [client.ask("message.append", timeline=name, entry={"n": n}, message_id=f"m{n}", deliver_at=start + n * 25) for n in range(count)]
        for one in asked:
            client.take(one)
        until(lambda: messages(client, name))
    for round in range(6):
        time.sleep(0.15 + round * 0.03)
        own_server.kill()
        own_server.start()
    with Client(own_server, user="ada") as client:
        found = until(lambda: len(got := messages(client, name)) >= count and got)
        assert sorted(one["message_id"] for one in found) == sorted(f"m{n}" for n in range(count))
        assert scheduled(client, name) == []
        for n in range(count):
            again = client.append(name, {"n": n}, message_id=f"m{n}", deliver_at=start + n * 25)
            assert again["duplicate"] and found[again["sequence"] - 1]["entry"] == {"n": n}


# Retention


def limited(client, name, **retention):
    client.call("timeline.create", timeline=name, settings={"retention": retention})


def floor(client, name):
    return client.call("timeline.get", timeline=name)["floor"]


def test_by_number_the_newest_are_kept(client, name):
    limited(client, name, messages=5)
    client.fill(name, 5)
    assert floor(client, name) == 1
    client.fill(name, 3, start=6)
    told = client.call("timeline.get", timeline=name)
    assert (told["head"], told["floor"]) == (8, 4)
    assert sequences(messages(client, name)) == [4, 5, 6, 7, 8]
    client.fill(name, 20, start=9)
    assert sequences(messages(client, name)) == list(range(24, 29))


def test_readers_hear_of_it_as_of_a_trim(client, name, refused):
    limited(client, name, messages=3)
    client.fill(name, 10)
    refused(client, "message.get", 404, "message_not_found", timeline=name, sequence=7)
    late = client.call("sync", positions={name: 2})["timelines"][name]
    assert late["state"] == "too_old" and late["floor"] == 8 and sequences(late["messages"]) == [8, 9, 10]
    assert client.call("subscribe", timeline=name, after=2)["state"] == "too_old"


def test_by_age_what_is_too_old_goes_in_the_background(client, name):
    limited(client, name, age_ms=400)
    client.fill(name, 3)
    assert sequences(messages(client, name)) == [1, 2, 3]
    until(lambda: floor(client, name) == 4)
    client.fill(name, 2)
    assert sequences(messages(client, name)) == [4, 5]
    until(lambda: floor(client, name) == 6)


def test_by_bytes_about_so_many_are_kept(client, name):
    limited(client, name, bytes=64_000)
    for n in range(200):
        client.append(name, {"text": "x" * 1_000})
        kept = 1 + n - floor(client, name) + 1
        assert kept <= 64
    # No more than a 64th part of the limit and a message go too early.
    assert kept >= 58


def test_a_tighter_retention_trims_soon_without_an_append(client, name):
    client.fill(name, 10)
    time.sleep(0.3)
    client.call("timeline.configure", timeline=name, settings={"retention": {"messages": 4}})
    assert floor(client, name) == 7
    client.call("timeline.configure", timeline=name, settings={"retention": {"age_ms": 100}})
    until(lambda: floor(client, name) == 11)
    # Without a retention nothing goes any more.
    client.call("timeline.configure", timeline=name, settings={"retention": None})
    client.fill(name, 3)
    time.sleep(0.3)
    assert sequences(messages(client, name)) == [11, 12, 13]


def test_a_trim_that_became_due_while_the_server_was_down_is_done_at_its_start(own_server, name):
    with Client(own_server.start()) as client:
        limited(client, name, age_ms=500)
        client.fill(name, 3)
    own_server.kill()
    time.sleep(0.6)
    with Client(own_server.start()) as client:
        until(lambda: floor(client, name) == 4)


def test_a_policy_limits_all_timelines_of_its_prefix(own_server):
    own_server.config = '[[policy]]\nprefix = "log/"\nretention = { messages = 3 }\n'
    with Client(own_server.start()) as client:
        for timeline in ["log/a", "logs"]:
            client.fill(timeline, 5)
        assert (floor(client, "log/a"), floor(client, "logs")) == (3, 1)
        client.call("timeline.configure", timeline="log/a", settings={"retention": {"messages": 100}})
        client.fill("log/a", 5)
        assert floor(client, "log/a") == 3
