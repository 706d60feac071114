"""The change feed for back ends: stream.open, its pushes, named cursors."""

import json
import os
import signal
import time

import pytest

from client import Client, Refused, filler, until


def opened(client, **params):
    return client.call("stream.open", **params)


def group(client, stream):
    """The next push of changes of a stream."""
    push = client.push("stream.changes")
    assert push["stream"] == stream and isinstance(push["more"], bool)
    return push


def changes(client, stream, count):
    """So many changes of a stream, and the position behind them; messages are told one by one."""
    got, position = [], None
    while len(got) < count:
        push = group(client, stream)
        position = push["position"]
        for change in push["changes"]:
            several = change.get("messages", [])
            got += [change | {"messages": [one]} for one in several] if several else [change]
    assert len(got) == count, got
    return got, position


def kinds(got):
    return [change["kind"] for change in got]


def test_everything_that_happens_to_timelines_of_a_prefix_is_told_once_in_order(client, other, name):
    stream = opened(client, timelines=f"{name}/")["stream"]
    room = f"{name}/1"
    epoch = other.call("timeline.create", timeline=room, meta={"title": "one"})["epoch"]
    other.append(f"elsewhere-{name}", {"n": 0})
    other.append(room, {"n": 1})
    other.call("message.update", timeline=room, sequence=1, set={"n": 2})
    other.call("timeline.update", timeline=room, meta={"title": "two"})
    other.call("timeline.configure", timeline=room, settings={"fan_out": "write"})
    other.call("member.add", timeline=room, members=[{"user": "ann"}, {"user": "ben"}])
    other.call("member.remove", timeline=room, users=["ben"])
    other.call("pin.add", timeline=room, sequence=1)
    other.call("message.delete", timeline=room, sequence=1)
    other.call("timeline.delete", timeline=room)
    got, _ = changes(client, stream, 10)
    assert kinds(got) == [
        "timeline.created",
        "message",
        "message.changed",
        "timeline.changed",
        "timeline.configured",
        "member.changed",
        "member.changed",
        "message.changed",
        "message.changed",
        "timeline.deleted",
    ]
    assert all(change["timeline"] == room for change in got)
    assert {change["epoch"] for change in got if "epoch" in change} == {epoch}
    created, message, edited, meta, configured, came, went, pinned, deleted, _ = got
    assert created["meta"] == {"title": "one"} and created["version"] == 1
    assert message["messages"][0]["entry"] == {"n": 1} and message["head"] == 1
    assert edited["messages"][0]["entry"] == {"n": 2} and edited["change_head"] == 1
    assert meta["meta"] == {"title": "two"} and meta["version"] == 2
    assert configured["settings"]["fan_out"] == "write" and configured["version"] == 1
    assert [member["user"] for member in came["members"]] == ["ann", "ben"] and came["members_count"] == 2
    assert came["members"][0]["role"] == "member" and came["removed"] == []
    assert went["removed"] == ["ben"] and went["members"] == [] and went["version"] == came["version"] + 1
    assert pinned["messages"][0]["pinned"] is True
    assert deleted["messages"][0]["deleted"] is True and "entry" not in deleted["messages"][0]


def test_reactions_and_receipts_are_told(server, client, name):
    stream = opened(client, timelines=name)["stream"]
    with Client(server, user="ann") as ann:
        ann.call("timeline.create", timeline=name, members=[{"user": "ann"}])
        ann.append(name)
        ann.call("reaction.add", timeline=name, sequence=1, reaction="+1")
        ann.call("read.set", timeline=name, read=1)
    got, _ = changes(client, stream, 5)
    assert kinds(got) == ["timeline.created", "member.changed", "message", "reaction", "receipt"]
    assert got[3]["messages"] == [{"sequence": 1, "change": 1, "reactions": {"+1": {"count": 1, "users": ["ann"]}}}]
    assert got[4]["receipts"] == [{"user": "ann", "read": 1, "received": 1}]


def test_the_server_s_own_timelines_are_not_told(server, client, name, refused):
    stream = opened(client, timelines="")["stream"]
    with Client(server, user=f"u-{name}") as user:
        user.call("timeline.create", timeline=name, settings={"fan_out": "write"}, members=[{"user": f"u-{name}"}])
        user.append(name)
    seen = []
    while not any(change.get("timeline") == name and change["kind"] == "message" for change in seen):
        seen += group(client, stream)["changes"]
    client.append(name, {"last": True})
    while not any(change["kind"] == "message" and change["messages"][-1]["entry"] == {"last": True} for change in seen):
        seen += group(client, stream)["changes"]
    assert not [change for change in seen if change["timeline"].startswith("$")]
    refused(client, "stream.open", 403, "forbidden", "timelines", timelines="$inbox/")


def test_a_stream_goes_on_behind_any_position(client, other, name):
    stream = opened(client, timelines=name)["stream"]
    other.fill(name, 250)
    whole, positions = [], []
    while len(whole) < 251:
        push = group(client, stream)
        got = sum((change.get("messages", [change]) for change in push["changes"]), [])
        whole += got
        positions.append((push["position"], len(whole)))
    client.call("stream.close", stream=stream)
    for position, told in positions:
        again = opened(other, timelines=name, position=position)
        assert again["position"] == position
        rest = [] if told == 251 else changes(other, again["stream"], 251 - told)[0]
        assert [change["messages"][0] for change in rest] == whole[told:]
        other.call("stream.close", stream=again["stream"])
    other.quiet()


def test_start_is_what_the_log_keeps_and_now_is_behind_it(client, other, name):
    client.append(name, {"n": 1})
    now = opened(client, timelines=name)["stream"]
    start = opened(other, timelines=name, **{"from": "start"})["stream"]
    assert kinds(changes(other, start, 2)[0]) == ["timeline.created", "message"]
    client.quiet()
    other.append(name, {"n": 2})
    got, _ = changes(client, now, 1)
    assert got[0]["messages"][0]["entry"] == {"n": 2}


def test_a_cursor_goes_on_after_a_restart_where_it_was_committed(own_server):
    server = own_server.start()
    with Client(server) as client:
        stream = opened(client, timelines="room/", cursor="billing")["stream"]
        client.fill("room/1", 5)
        got, position = changes(client, stream, 6)
        assert client.call("stream.commit", cursor="billing", position=position) == {"moved": True}
        assert client.call("stream.commit", cursor="billing", position=position) == {"moved": False}
        client.fill("room/1", 5, start=6)
        changes(client, stream, 5)
    server.restart(signal.SIGKILL)
    with Client(server) as client:
        client.fill("room/2", 3)
        again = opened(client, timelines="room/", cursor="billing")
        assert again["position"] == position
        got, behind = changes(client, again["stream"], 9)
        # Timelines of one partition come in the order of their commits, each in its own anyway.
        of = lambda room: [c["messages"][0]["entry"]["n"] for c in got if c["timeline"] == room and c["kind"] == "message"]
        assert of("room/1") == [6, 7, 8, 9, 10] and of("room/2") == [1, 2, 3]
        client.quiet()
        # Never backwards, unless asked.
        assert client.call("stream.commit", cursor="billing", position=behind) == {"moved": True}
        assert client.call("stream.commit", cursor="billing", position=position) == {"moved": False}
        assert client.call("stream.commit", cursor="billing", position=position, force=True) == {"moved": True}
        assert opened(client, timelines="room/", cursor="billing")["position"] == position


def test_a_cursor_is_made_where_the_stream_begins_and_keeps_its_place(server, name):
    with Client(server) as client:
        opened(client, timelines=name, cursor=name)
    with Client(server) as client:
        client.append(name)
        stream = opened(client, timelines=name, cursor=name)["stream"]
        assert kinds(changes(client, stream, 2)[0]) == ["timeline.created", "message"]


def test_cursors_are_listed_with_their_lag_and_forgotten(client, name, refused):
    names = [f"{name}-{letter}" for letter in "abc"]
    for one in names:
        opened(client, timelines=name, cursor=one)
    client.append(name)
    page = client.call("stream.cursors", after=f"{name}-", limit=2)
    assert [cursor["cursor"] for cursor in page["cursors"]] == names[:2] and page["next"] == names[1]
    first = page["cursors"][0]
    assert first["timelines"] == name and "table" not in first and first["lost"] is False
    assert first["behind"] >= 1 and first["lag_ms"] >= 0 and first["position"]
    for one in names:
        assert client.call("stream.forget", cursor=one) == {"forgotten": True}
        assert client.call("stream.forget", cursor=one) == {"forgotten": False}
    refused(client, "stream.commit", 404, "cursor_not_found", "cursor", cursor=names[0], position=first["position"])


def test_a_reader_that_does_not_read_is_behind_and_misses_nothing(server, client, name):
    with Client(server) as slow:
        stream = opened(slow, timelines=name)["stream"]
        for first in range(0, 3_000, 100):
            many = [{"entry": {"n": first + n, "text": filler(10_000)}} for n in range(100)]
            client.call("message.append_batch", timeline=name, messages=many)
        time.sleep(0.5)
        got, _ = changes(slow, stream, 3_001)
    assert [change["messages"][0]["entry"]["n"] for change in got[1:]] == list(range(3_000))


def test_no_push_comes_before_the_answer_or_after_the_close(client, name):
    client.append(name)
    number = client.ask("stream.open", timelines=name, **{"from": "start"})
    stream = client.take(number)["stream"]
    group(client, stream)
    assert client.call("stream.close", stream=stream) == {}
    assert client.call("stream.close", stream=stream) == {}
    client.append(name)
    client.quiet()


def test_messagepack_and_big_integers(server, packed, client, name):
    packed.call("session.open", integers="text")
    stream = opened(packed, timelines=name)["stream"]
    client.append(name, {"big": 2**60, "bytes": {"$binary": "AAE="}})
    got, _ = changes(packed, stream, 2)
    assert got[1]["messages"][0]["entry"] == {"big": {"$integer": str(2**60)}, "bytes": b"\x00\x01"}


def test_what_can_not_be_opened_is_refused(server, client, name, refused):
    refused(client, "stream.open", -32602, "invalid_params", "timelines")
    refused(client, "stream.open", -32602, "invalid_params", "timelines", timelines="a", table="b")
    refused(client, "stream.open", -32602, "invalid_params", "from", timelines="a", **{"from": "yesterday"})
    refused(client, "stream.open", -32602, "invalid_params", "timelines", timelines="x" * 256)
    refused(client, "stream.open", -32602, "invalid_params", "cursor", timelines="a", cursor="x" * 65)
    refused(client, "stream.open", -32602, "invalid_params", "position", timelines="a", position="nonsense")
    refused(client, "stream.open", -32602, "invalid_params", "position", timelines="a", position="x", cursor="c")
    refused(client, "stream.open", 404, "table_not_found", "table", table=f"no_{name}")
    refused(client, "stream.open", 409, "no_stream", None, table="timeline_meta")
    position = opened(client, timelines=name)["position"]
    history, rest = position.split(".", 1)
    refused(client, "stream.open", 409, "position_lost", None, timelines=name, position=f"{'0' * 32}.{rest}")
    far = f"{history}.t.0-{2**60}-0"
    refused(client, "stream.open", -32602, "invalid_params", "position", timelines=name, position=far)
    opened(client, timelines=name, cursor=name)
    refused(client, "stream.open", -32602, "invalid_params", "cursor", timelines="other", cursor=name)
    for _ in range(14):
        opened(client, timelines=name)
    error = refused(client, "stream.open", 413, "too_many", None, timelines=name)
    assert error.data["limit"] == 16


def test_streams_are_for_back_ends(server, client, name, refused):
    stream = opened(client, timelines=name)["stream"]
    client.call("session.open", user="ann")
    ended = client.push("stream.ended")
    assert ended["stream"] == stream and ended["reason"] == "forbidden" and ended["reopen"] is False
    for method, params in [
        ("stream.open", {"timelines": name}),
        ("stream.commit", {"cursor": name, "position": ended["position"]}),
        ("stream.cursors", {}),
        ("stream.forget", {"cursor": name}),
    ]:
        refused(client, method, 403, "forbidden", **params)


def test_over_http_there_are_cursors_but_no_streams(server):
    rpc = lambda method, **params: json.loads(server.rpc(None, method, **params)[2])
    for method, params in [("stream.open", {"timelines": ""}), ("stream.close", {"stream": 1})]:
        assert rpc(method, **params)["error"]["data"]["reason"] == "method_not_found"
    assert "cursors" in rpc("stream.cursors")["result"]


def test_a_place_that_the_log_has_let_go_of_is_told(own_server):
    own_server.config = 'segment_bytes = 1048576\nretention_bytes = 1048576\nretention_age_ms = 0\nmemtable_bytes = 65536\nstream_log_bytes_max = 1048576\n'
    server = own_server.start()
    with Client(server) as client:
        position = opened(client, timelines="a", cursor="slow")["position"]
        until = time.monotonic() + 60
        while not client.call("stream.cursors")["cursors"][0]["lost"]:
            assert time.monotonic() < until
            try:
                client.call("message.append_batch", timeline="a", messages=[{"entry": {"t": filler(50_000)}} for _ in range(20)])
            except Refused as refused:  # such small memtables are soon more than the flush keeps up with
                assert refused.reason == "busy"
                time.sleep(0.2)
        with pytest.raises(Refused) as caught:
            opened(client, timelines="a", position=position)
        assert caught.value.reason == "position_lost" and caught.value.code == 409
        with pytest.raises(Refused) as caught:
            opened(client, timelines="a", cursor="slow")
        assert caught.value.reason == "position_lost"
        # The way on: a new place for it.
        now = opened(client, timelines="a")["position"]
        assert client.call("stream.commit", cursor="slow", position=now, force=True) == {"moved": True}
        opened(client, timelines="a", cursor="slow")


def test_a_shutdown_says_draining_and_the_stream_goes_on_after_it(own_server):
    server = own_server.start()
    with Client(server) as client:
        stream = opened(client, timelines="a", cursor="c")["stream"]
        client.append("a")
        _, position = changes(client, stream, 2)
        client.call("stream.commit", cursor="c", position=position)
        server.process.send_signal(signal.SIGTERM)
        assert client.push("draining")["reconnect_in_ms"] > 0
    server.restart()
    with Client(server) as client:
        client.append("a", {"n": 2})
        stream = opened(client, timelines="a", cursor="c")["stream"]
        assert changes(client, stream, 1)[0][0]["messages"][0]["entry"] == {"n": 2}


def test_a_stream_goes_on_in_the_partitions_that_took_keys_over(own_server):
    """What was not read of partitions that ended comes first, then what is in those behind them; each once, in order."""
    rooms = [f"room/{n}" for n in range(8)]
    sent = {room: 0 for room in rooms}
    got = {room: [] for room in rooms}

    def write(client):
        for room in rooms:
            client.fill(room, 3, start=sent[room] + 1)
            sent[room] += 3

    def read(client):
        """Reads on from the cursor to the end, and moves it."""
        stream = opened(client, timelines="room/", cursor="copy")["stream"]
        while not got_all():
            push = group(client, stream)
            for change in push["changes"]:
                got[change["timeline"]] += [one["entry"]["n"] for one in change.get("messages", [])]
            client.call("stream.commit", cursor="copy", position=push["position"])
        client.call("stream.close", stream=stream)

    def got_all():
        return all(got[room] == list(range(1, sent[room] + 1)) for room in rooms)

    server = own_server.start()
    with Client(server) as client:
        client.call("stream.close", stream=opened(client, timelines="room/", cursor="copy")["stream"])
        write(client)
    for partitions in [2, 3, 1, 2]:
        server.kill()
        server.config = f"partitions = {partitions}\n"
        server.start()
        with Client(server) as client:
            listed = client.call("stream.cursors")["cursors"]
            assert [one["cursor"] for one in listed] == ["copy"]
            # Not each time: what several changes of the partitions have left unread is read in one go.
            if partitions == 1:
                read(client)
            write(client)
    with Client(server) as client:
        read(client)
        client.quiet()
    assert got_all()
    server.stop()


def listed(client, cursor):
    cursors = client.call("stream.cursors", limit=100)["cursors"]
    return next(one for one in cursors if one["cursor"] == cursor)


def test_a_cursor_is_behind_its_own_changes_only(server, client, name):
    with Client(server) as reader:
        opened(reader, timelines=f"{name}/", cursor=name)
        client.fill(f"elsewhere-{name}", 50)
        own = listed(client, name)
        assert (own["behind"], own["lag_ms"]) == (0, 0)
        client.append(f"{name}/1")
        client.fill(f"elsewhere-{name}", 50)
        client.append(f"{name}/1")
        time.sleep(0.01)
        own = listed(client, name)
        assert own["behind"] == 2 and own["lag_ms"] > 0
        client.call("stream.forget", cursor=name)


def test_a_cursor_is_carried_over_what_others_write(own_server):
    """It does not hold the log for others, and loses nothing of its own."""
    with Client(own_server.start()) as client:
        begun = opened(client, timelines="own/", cursor="idle")["position"]
        for _ in range(4):
            client.call("message.append_batch", timeline="else", messages=[{"entry": {"t": filler(50_000)}} for _ in range(10)])
        client.append("own/1", {"n": 1})
        committed_at = listed(client, "idle")["committed_at"]
        until(lambda: listed(client, "idle")["position"] != begun)
        now = listed(client, "idle")
        assert now["behind"] == 1 and now["committed_at"] == committed_at
        metrics = own_server.metrics()
        assert "tideline_change_cursors_lost 0\n" in metrics
    with Client(own_server) as client:
        stream = opened(client, timelines="own/", cursor="idle")["stream"]
        got, position = changes(client, stream, 2)
        assert kinds(got) == ["timeline.created", "message"]
        assert client.call("stream.commit", cursor="idle", position=position) == {"moved": True}
        assert listed(client, "idle")["behind"] == 0


def test_positions_are_taken_only_as_they_were_given(own_server, refused):
    with Client(own_server.start()) as client:
        stream = opened(client, timelines="a", cursor="c")["stream"]
        client.fill("a", 3)
        _, position = changes(client, stream, 4)
        text, _, seal = position.rpartition("~")
        history, kind, place = text.split(".")
        other = text.replace(place, "0-1-0")
        last = f"{history}.{kind}.0-{2**64 - 1}-0"
        forged = [text, other, last, f"{other}~{seal}", f"{text}~", f"{text}~{'A' * len(seal)}", "", "~", f"~{seal}"]
        for wrong in forged:
            for method, params in [("stream.open", {"timelines": "a"}), ("stream.commit", {"cursor": "c"})]:
                refused(client, method, -32602, "invalid_params", "position", position=wrong, **params)
        # Of another directory.
        elsewhere = position.replace(history, "0" * 32)
        refused(client, "stream.open", 409, "position_lost", timelines="a", position=elsewhere)
    own_server.restart()
    with Client(own_server) as client:
        assert opened(client, timelines="a", position=position)["position"] == position


def test_a_directory_of_before_takes_positions_without_a_seal(own_server, refused):
    with Client(own_server.start()) as client:
        stream = opened(client, timelines="a")["stream"]
        client.fill("a", 3)
        _, position = changes(client, stream, 4)
    own_server.stop()
    os.remove(os.path.join(own_server.data, "positions.key"))
    own_server.start()
    assert os.stat(os.path.join(own_server.data, "positions.key")).st_mode & 0o777 == 0o600
    with Client(own_server) as client:
        text = position.rpartition("~")[0]
        assert opened(client, timelines="a", position=text)["position"].startswith(f"{text}~")
        # The key is another one.
        refused(client, "stream.open", -32602, "invalid_params", "position", timelines="a", position=position)
        history = text.split(".")[0]
        for at in (2**64 - 1, 2**64 - 2, 10**6):
            far = f"{history}.t.0-{at}-{2**32 - 1}"
            refused(client, "stream.open", -32602, "invalid_params", "position", timelines="a", position=far)


def test_the_oldest_logs_go_first_and_readers_can_always_begin_now(own_server):
    """Logs of ended partitions beyond the bound: a small old one does not stay where a younger one has gone."""
    own_server.config = "stream_log_bytes_max = 1048576\n"
    with Client(own_server.start()) as away:
        opened(away, timelines="", cursor="slow")
    with Client(own_server) as client:
        client.append("small")

        def change(what, **partitions):
            client.call(f"partition.{what}", **partitions)
            while (change := client.call("partition.list")["change"])["state"] not in ("done", "failed"):
                time.sleep(0.01)
            assert change["state"] == "done", change

        def kept():
            return [one["partition"] for one in client.call("partition.list")["partitions"] if "ends" in one]

        change("split", partition=0)
        for n in range(40):
            client.call("message.append_batch", timeline=f"large-{n}", messages=[{"entry": {"t": filler(50_000)}} for _ in range(2)])
        change("merge", partition=1, **{"with": 2})
        until(lambda: not kept())
        stream = opened(client, timelines="", cursor="new")["stream"]
        client.append("small", {"n": 2})
        got, _ = changes(client, stream, 1)
        assert got[0]["messages"][0]["entry"] == {"n": 2}
        assert listed(client, "slow")["lost"] is True
