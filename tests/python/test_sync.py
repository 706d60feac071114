"""PROTOCOL.md, `sync`: many timelines in one call, long poll, states, limits."""

import threading
import time

from client import sequences


def test_only_timelines_with_news_are_in_the_reply(client, name):
    a, b, c = (f"{name}/{x}" for x in "abc")
    epoch = {}
    for one, count in [(a, 3), (b, 2), (c, 1)]:
        client.fill(one, count)
        epoch[one] = client.call("timeline.get", timeline=one)["epoch"]
    reply = client.call("sync", positions={a: 1, b: {"after": 2, "epoch": epoch[b]}, c: {"after": 0}})
    assert set(reply["timelines"]) == {a, c} and reply["more"] is False
    news = reply["timelines"][a]
    assert sequences(news["messages"]) == [2, 3]
    assert (news["position"], news["head"], news["floor"], news["change_head"]) == (3, 3, 1, 0)
    assert (news["epoch"], news["more"], news["state"]) == (epoch[a], False, "ok")


def test_limit_is_per_timeline_and_more_says_so(client, name):
    client.fill(name, 10)
    position, got = 0, []
    while True:
        news = client.call("sync", positions={name: position}, limit=4)["timelines"][name]
        assert len(news["messages"]) <= 4 and news["position"] == news["messages"][-1]["sequence"]
        got += sequences(news["messages"])
        position = news["position"]
        if not news["more"]:
            break
    assert got == list(range(1, 11))
    assert client.call("sync", positions={name: 10})["timelines"] == {}


def test_states(client, name):
    client.fill(name, 10)
    client.call("timeline.trim", timeline=name, before=6)
    old = client.call("sync", positions={name: 2})["timelines"][name]
    assert old["state"] == "too_old" and sequences(old["messages"]) == [6, 7, 8, 9, 10] and old["floor"] == 6
    for position in [{"after": 10, "epoch": "Other1"}, 11]:
        other = client.call("sync", positions={name: position})["timelines"][name]
        assert other["state"] == "epoch_changed" and other["messages"] == []


def test_unknown_timelines_are_nothing_yet_or_deleted(client, name):
    assert client.call("sync", positions={name: 0})["timelines"] == {}
    gone = client.call("sync", positions={name: 3})["timelines"][name]
    assert gone["state"] == "deleted"
    gone = client.call("sync", positions={name: {"after": 0, "epoch": "Other1"}})["timelines"][name]
    assert gone["state"] == "deleted"


def test_a_deleted_timeline_is_told(client, name):
    epoch = client.append(name)["epoch"]
    client.call("timeline.delete", timeline=name)
    assert client.call("sync", positions={name: {"after": 1, "epoch": epoch}})["timelines"][name]["state"] == "deleted"


def test_wait_wakes_at_an_append(client, other, name):
    client.append(name)
    number = client.ask("sync", positions={name: 1}, wait_ms=20_000)
    time.sleep(0.2)
    # The waiting call does not stop others of the connection.
    assert client.call("ping")
    assert number not in client.replies
    other.append(name, {"a": 1})
    news = client.take(number)["timelines"][name]
    assert sequences(news["messages"]) == [2]


def test_wait_wakes_at_the_first_append_of_an_unknown_timeline(client, other, name):
    number = client.ask("sync", positions={name: 0}, wait_ms=20_000)
    time.sleep(0.1)
    other.append(name)
    assert sequences(client.take(number)["timelines"][name]["messages"]) == [1]


def test_wait_wakes_at_a_change_and_at_a_deletion(client, other, name):
    other.append(name, {"a": 1})
    number = client.ask("sync", positions={name: {"after": 1, "changes_after": 0}}, wait_ms=20_000)
    time.sleep(0.1)
    other.call("message.update", timeline=name, sequence=1, set={"a": 2})
    assert sequences(client.take(number)["timelines"][name]["changed"]) == [1]
    number = client.ask("sync", positions={name: {"after": 1, "changes_after": 1}}, wait_ms=20_000)
    time.sleep(0.1)
    other.call("timeline.delete", timeline=name)
    assert client.take(number)["timelines"][name]["state"] == "deleted"


def test_wait_ends_empty_when_the_time_is_up(client, name):
    client.append(name)
    reply = client.call("sync", positions={name: 1}, wait_ms=150)
    assert reply == {"timelines": {}, "more": False}


def test_wait_with_news_answers_at_once(client, name):
    client.append(name)
    began = time.monotonic()
    client.call("sync", positions={name: 0}, wait_ms=60_000)
    assert time.monotonic() - began < 55


def test_params(client, name, refused):
    refused(client, "sync", -32602)
    refused(client, "sync", -32602, field="limit", positions={name: 0}, limit=0)
    refused(client, "sync", -32602, positions={name: -1})
    refused(client, "sync", -32602, positions={name: "x"})
    refused(client, "sync", -32602, positions={name: {"epoch": "E1"}})
    refused(client, "sync", -32602, positions={"a\nb": 0})
    assert client.call("sync", positions={})["timelines"] == {}


def test_ten_thousand_positions_fit_and_one_more_does_not(client, name, refused):
    client.append(f"{name}/5000")
    positions = {f"{name}/{n}": 0 for n in range(10_000)}
    assert set(client.call("sync", positions=positions)["timelines"]) == {f"{name}/5000"}
    positions["more"] = 0
    error = None
    try:
        client.call("sync", positions=positions)
    except Exception as caught:
        error = caught
    assert error is not None and error.code in (413, -32602)


def test_many_timelines_with_news_all_come_in_the_end(client, name):
    """A reply ends before 1 MiB; `more` says so, and no timeline starves."""
    names = [f"{name}/{n}" for n in range(40)]
    for one in names:
        client.append(one, {"t": "x" * 100_000})
    positions, seen, rounds = {one: 0 for one in names}, {}, 0
    while True:
        rounds += 1
        reply = client.call("sync", positions=positions)
        for one, news in reply["timelines"].items():
            seen.setdefault(one, []).extend(sequences(news["messages"]))
            positions[one] = news["position"]
        if not reply["more"]:
            break
        assert rounds < 60
    assert seen == {one: [1] for one in names}
    assert rounds > 1


def test_none_starves_without_moving_positions(client, name):
    names = [f"{name}/{n}" for n in range(30)]
    for one in names:
        client.append(one, {"t": "x" * 100_000})
    seen = set()
    for _ in range(60):
        seen |= set(client.call("sync", positions={one: 0 for one in names})["timelines"])
        if len(seen) == 30:
            break
    assert seen == set(names)


def test_what_comes_and_goes_is_not_deleted_for_who_never_heard_of_it(client, other, name):
    ended = threading.Event()

    def come_and_go():
        while not ended.is_set():
            other.append(name)
            other.call("timeline.delete", timeline=name)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(100):
            asked = [client.ask("sync", positions={name: 0}) for _ in range(20)]
            for timelines in [client.take(number)["timelines"] for number in asked]:
                assert all(one["state"] == "ok" for one in timelines.values()), timelines
    finally:
        ended.set()
        thread.join()
    assert client.call("sync", positions={name: 1})["timelines"][name]["state"] == "deleted"
