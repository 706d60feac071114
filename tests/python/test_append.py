"""PROTOCOL.md, promises 1, 2, 5 and 6 as a writer sees them: append, append_batch, message IDs, expect_head, senders."""

import re
import threading
import time
import uuid

import pytest

from client import Client, Refused, sequences


def test_numbers_are_1_2_3_and_times_do_not_fall(client, name):
    told = [client.append(name, {"n": n}) for n in range(1, 21)]
    assert [one["sequence"] for one in told] == list(range(1, 21))
    times = [one["timestamp"] for one in told]
    assert times == sorted(times) and abs(times[0] - time.time() * 1000) < 60_000
    assert all(set(one) == {"sequence", "timestamp", "message_id", "epoch", "duplicate"} for one in told)
    assert len({one["epoch"] for one in told}) == 1 and re.fullmatch("[A-Za-z0-9]{1,32}", told[0]["epoch"])
    assert not any(one["duplicate"] for one in told)


def test_without_an_id_the_server_makes_a_uuid7(client, name):
    made = [client.append(name)["message_id"] for _ in range(3)]
    assert len(set(made)) == 3
    assert all(uuid.UUID(one).version == 7 for one in made)


def test_a_taken_id_returns_the_first_sequence_and_time(client, name):
    first = client.append(name, {"a": 1, "b": 2.5}, message_id="m-1")
    client.append(name)
    again = client.append(name, {"b": 2.5, "a": 1}, message_id="m-1")
    assert again == {**first, "duplicate": True}
    assert client.call("timeline.get", timeline=name)["head"] == 2


def test_another_entry_under_a_taken_id_is_a_conflict(client, name, refused):
    client.append(name, {"a": 1}, message_id="m-1")
    for entry in [{"a": 2}, {"a": 1.0}, {"a": "1"}, {"a": 1, "b": 1}, {}, {"a": True}]:
        error = refused(
            client, "message.append", 409, "message_id_conflict", timeline=name, entry=entry, message_id="m-1"
        )
        assert error.data["retry"] is False
    assert client.call("timeline.get", timeline=name)["head"] == 1


def test_compared_is_the_entry_as_first_appended_also_after_edit_and_deletion(client, name, refused):
    client.append(name, {"a": 1}, message_id="m-1")
    client.call("message.update", timeline=name, sequence=1, set={"a": 2})
    assert client.append(name, {"a": 1}, message_id="m-1")["duplicate"]
    refused(client, "message.append", 409, "message_id_conflict", timeline=name, entry={"a": 2}, message_id="m-1")
    client.call("message.delete", timeline=name, sequence=1)
    assert client.append(name, {"a": 1}, message_id="m-1")["duplicate"]
    refused(client, "message.append", 409, "message_id_conflict", timeline=name, entry={"a": 2}, message_id="m-1")


def test_an_id_is_unique_per_timeline_and_sender(server, name):
    with Client(server, user="ada") as ada, Client(server, user="bob") as bob:
        assert ada.append(name, {"a": 1}, message_id="same")["sequence"] == 1
        assert bob.append(name, {"b": 1}, message_id="same")["sequence"] == 2
        assert ada.append(f"{name}-2", {"c": 1}, message_id="same")["sequence"] == 1
        messages = ada.call("message.range", timeline=name)["messages"]
        assert [message["sender"] for message in messages] == ["ada", "bob"]


def test_an_id_is_known_to_another_connection_of_the_sender(server, name):
    with Client(server, user="eve") as one:
        first = one.append(name, {"a": 1}, message_id="m")
    with Client(server, user="eve") as two:
        assert two.append(name, {"a": 1}, message_id="m") == {**first, "duplicate": True}


def test_expect_head(client, name, refused):
    assert client.append(name, expect_head=0)["sequence"] == 1
    error = refused(
        client, "message.append", 409, "condition_failed", timeline=name, entry={}, expect_head=0
    )
    assert error.data["actual"] == 1
    assert client.append(name, expect_head=1)["sequence"] == 2


def test_a_repeated_conditional_append_is_a_duplicate_not_a_failure(client, name):
    first = client.append(name, {"a": 1}, message_id="m", expect_head=0)
    assert client.append(name, {"a": 1}, message_id="m", expect_head=0) == {**first, "duplicate": True}


def test_the_id_is_tested_before_expect_head(client, name, refused):
    client.append(name, {"a": 1}, message_id="m")
    refused(
        client, "message.append", 409, "message_id_conflict", timeline=name, entry={"a": 2}, message_id="m", expect_head=9
    )


def test_create_false_on_an_unknown_timeline(client, name, refused):
    refused(client, "message.append", 404, "timeline_not_found", timeline=name, entry={}, create=False)
    refused(client, "message.append_batch", 404, "timeline_not_found", timeline=name, messages=[{"entry": {}}], create=False)
    refused(client, "timeline.get", 404, "timeline_not_found", timeline=name)
    client.append(name)
    assert client.append(name, create=False)["sequence"] == 2


def test_a_wrong_epoch_does_nothing(client, name, refused):
    epoch = client.append(name)["epoch"]
    refused(client, "message.append", 409, "epoch_changed", timeline=name, entry={}, epoch="other")
    assert client.append(name, epoch=epoch)["sequence"] == 2


def test_a_batch_is_a_run_of_numbers(client, name):
    reply = client.call(
        "message.append_batch", timeline=name, messages=[{"entry": {"n": n}, "message_id": f"m{n}"} for n in range(100)]
    )
    assert set(reply) == {"messages", "epoch"}
    assert sequences(reply["messages"]) == list(range(1, 101))
    assert [one["message_id"] for one in reply["messages"]] == [f"m{n}" for n in range(100)]
    assert all(set(one) == {"sequence", "timestamp", "message_id", "duplicate"} for one in reply["messages"])


def test_known_ids_of_a_batch_are_duplicates_and_the_new_ones_are_numbered(client, name):
    client.append(name, {"n": 1}, message_id="b")
    messages = [{"entry": {"n": n}, "message_id": i} for n, i in [(0, "a"), (1, "b"), (2, "c")]]
    reply = client.call("message.append_batch", timeline=name, messages=messages)
    assert [(one["sequence"], one["duplicate"]) for one in reply["messages"]] == [(2, False), (1, True), (3, False)]
    again = client.call("message.append_batch", timeline=name, messages=messages, expect_head=0)
    assert [(one["sequence"], one["duplicate"]) for one in again["messages"]] == [(2, True), (1, True), (3, True)]


def test_a_batch_is_all_or_none(client, name, refused):
    client.append(name, {"n": 1}, message_id="b")
    messages = [{"entry": {"n": 5}}, {"entry": {"n": 2}, "message_id": "b"}]
    refused(client, "message.append_batch", 409, "message_id_conflict", timeline=name, messages=messages)
    refused(
        client, "message.append_batch", 409, "condition_failed", timeline=name, messages=[{"entry": {}}, {"entry": {}}],
        expect_head=7,
    )  # fmt: skip
    assert client.call("timeline.get", timeline=name)["head"] == 1


def test_one_id_twice_in_a_batch_is_refused(client, name, refused):
    messages = [{"entry": {"n": 1}, "message_id": "x"}, {"entry": {"n": 1}, "message_id": "x"}]
    refused(client, "message.append_batch", -32602, timeline=name, messages=messages)


def test_batch_limits(client, name, refused):
    refused(client, "message.append_batch", -32602, timeline=name, messages=[])
    error = refused(client, "message.append_batch", 413, "too_large", timeline=name, messages=[{"entry": {}}] * 101)
    assert (error.data["limit"], error.data["actual"]) == (100, 101)
    big = [{"entry": {"t": "x" * 150_000}}] * 8
    refused(client, "message.append_batch", 413, "too_large", timeline=name, messages=big)


def test_entry_limit_is_on_the_compact_json_text(client, name, refused):
    fits = {"t": "x" * (262_144 - len('{"t":""}'))}
    assert client.append(name, fits)["sequence"] == 1
    fits["t"] += "x"
    error = refused(client, "message.append", 413, "too_large", timeline=name, entry=fits)
    assert (error.data["limit"], error.data["actual"]) == (262_144, 262_145)


def test_message_ids_are_1_to_64_bytes(client, name, refused):
    assert client.append(name, message_id="é" * 32)["message_id"] == "é" * 32
    for bad in ["", "x" * 65, "é" * 33]:
        refused(client, "message.append", -32602, field="message_id", timeline=name, entry={}, message_id=bad)
    refused(
        client, "message.append_batch", -32602, field="messages[1].message_id", timeline=name,
        messages=[{"entry": {}}, {"entry": {}, "message_id": ""}],
    )  # fmt: skip


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\nb", "a\u0000b", "a\u0085b", "\u007f"])
def test_timeline_ids(client, refused, bad):
    refused(client, "message.append", -32602, field="timeline", timeline=bad, entry={})


def test_timelines_of_the_server_are_forbidden(client, refused):
    refused(client, "message.append", 403, "forbidden", timeline="$internal", entry={})


def test_a_long_and_odd_timeline_id_works(client, name):
    odd = (name + "/ü 漢字 🦀 %?#" + "y" * 255).encode()[:255].decode(errors="ignore")
    assert client.append(odd)["sequence"] == 1
    assert client.call("timeline.get", timeline=odd)["timeline"] == odd


def test_pipelined_appends_keep_their_order(client, name):
    numbers = [client.ask("message.append", timeline=name, entry={"n": n}) for n in range(500)]
    told = [client.take(number)["sequence"] for number in numbers]
    assert told == list(range(1, 501))
    messages = client.call("message.range", timeline=name, limit=1000)["messages"]
    assert [message["entry"]["n"] for message in messages] == list(range(500))


def test_a_refused_append_does_not_stop_those_behind_it(client, name):
    numbers = [
        client.ask("message.append", timeline=name, entry={"n": n}, **({"expect_head": 99} if n == 3 else {}))
        for n in range(6)
    ]
    outcomes = []
    for number in numbers:
        try:
            outcomes.append(client.take(number)["sequence"])
        except Refused as error:
            outcomes.append(error.reason)
    assert outcomes == [1, 2, 3, "condition_failed", 4, 5]


def test_different_kinds_of_writes_of_one_connection_keep_their_order(client, name):
    asked = [
        client.ask("message.append", timeline=name, entry={"n": 1}),
        client.ask("message.update", timeline=name, sequence=1, set={"n": 2}),
        client.ask("message.append", timeline=name, entry={"n": 3}),
        client.ask("message.delete", timeline=name, sequence=2),
        client.ask("message.append_batch", timeline=name, messages=[{"entry": {}}, {"entry": {}}]),
        client.ask("timeline.trim", timeline=name, before=2),
    ]
    results = [client.take(number) for number in asked]
    assert results[1]["message"]["entry"] == {"n": 2}
    assert results[3] == {"deleted": True}
    assert sequences(results[4]["messages"]) == [3, 4]
    assert results[5] == {"floor": 2}


def test_many_writers_on_one_timeline_leave_no_hole(server, name):
    told = []

    def write():
        with Client(server) as mine:
            asked = [mine.ask("message.append", timeline=name, entry={"n": n}) for n in range(100)]
            mine_told = [mine.take(number)["sequence"] for number in asked]
            assert mine_told == sorted(mine_told)
            told.extend(mine_told)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == list(range(1, 801))


def test_a_read_sees_what_was_answered_before(client, other, name):
    for n in range(1, 30):
        client.append(name)
        assert other.call("timeline.get", timeline=name)["head"] == n
        assert other.call("message.get", timeline=name, sequence=n)["message"]["sequence"] == n
