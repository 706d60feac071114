"""The commands for people, `tideline send` and its like, as a shell runs them: in pipes and on a terminal.

Nothing here waits for a time to pass: each wait is for something that is said.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import termios
import threading
import unicodedata

import pytest

from certificates import Authority
from client import Client, until
from guarded import token
from server import Server

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "COMMANDS.md"
PATIENCE = 60
# Clears the screen, names the window, turns the direction, in both sets of controls.
HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x9b2J\x7f\u202ec\u2028\r\n\td"


def environment(server, **more):
    foreign = ("TIDELINE_URL", "TIDELINE_USER", "TIDELINE_KEY", "NO_COLOR")
    kept = {name: text for name, text in os.environ.items() if name not in foreign}
    return {**kept, "TERM": "xterm", "TIDELINE_URL": server.origin, **more}


def tideline(server, *arguments, input=None, **more):
    """What a command prints in a pipe."""
    command = [os.environ["TIDELINE_BIN"], *arguments]
    bytes = input.encode() if isinstance(input, str) else input
    done = subprocess.run(
        command, input=bytes if input is not None else b"", capture_output=True, timeout=PATIENCE, env=environment(server, **more)
    )
    done.out, done.told = done.stdout.decode(), done.stderr.decode()
    assert "panicked" not in done.told
    return done


def works(server, *arguments, **more):
    """The lines of JSON that it prints."""
    done = tideline(server, *arguments, **more)
    assert done.returncode == 0 and not done.told, done
    return [json.loads(line) for line in done.out.splitlines()]


def fails(server, code, *arguments, **more):
    done = tideline(server, *arguments, **more)
    assert done.returncode == code, done
    return done.told


class Running:
    """A command that runs, in a pipe or on a terminal of its own."""

    def __init__(self, server, *arguments, terminal=False, **more):
        command = [os.environ["TIDELINE_BIN"], *arguments]
        self.text, self.told, self.readers = "", "", []
        if terminal:
            self.terminal, own = pty.openpty()

            def take_terminal():
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

            self.process = subprocess.Popen(
                command, stdin=own, stdout=own, stderr=own, preexec_fn=take_terminal, env=environment(server, **more)
            )
            os.close(own)
            self.reads(self.terminal, "text")
        else:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(server, **more)
            )
            self.reads(self.process.stdout.fileno(), "text")
            self.reads(self.process.stderr.fileno(), "told")

    def reads(self, file, into):
        def read():
            rest = b""
            while True:
                try:
                    got = os.read(file, 1 << 16)
                except OSError:
                    got = b""
                if not got:
                    return
                rest += got
                # A letter may be cut.
                whole = rest.decode(errors="ignore")
                rest = rest[len(whole.encode()) :]
                setattr(self, into, getattr(self, into) + whole)

        self.readers.append(threading.Thread(target=read, daemon=True))
        self.readers[-1].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def lines(self, count):
        """So many lines, when they are there."""
        until(lambda: self.text.count("\n") >= count or self.process.poll() is not None, PATIENCE)
        lines = self.text.splitlines()
        assert len(lines) >= count, (self.text, self.told)
        return lines

    def sees(self, text):
        until(lambda: text in self.text, PATIENCE)

    def types(self, text):
        os.write(self.terminal, text.encode())

    def ends(self):
        """Its exit code, when all that it said has been read."""
        code = self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        return code


def without_colours(text):
    return re.sub(r"\x1b\[\d{1,2}m", "", text)


def texts(value):
    """All texts in it."""
    if isinstance(value, dict):
        value = list(value.values())
    return [value] if isinstance(value, str) else [text for one in value for text in texts(one)] if isinstance(value, list) else []


def is_plain(text):
    odd = [at for at in text if unicodedata.category(at) in ("Cc", "Cf", "Zl", "Zp") and at != "\n"]
    assert not odd, (odd, text)


def test_a_message_is_sent_as_it_is_given(server, name, client):
    [sent] = works(server, "send", name, "the tide is in", "--user", "ann")
    assert sent["sequence"] == 1 and sent["duplicate"] is False
    entry = '{"text":"x","double":1.0,"integer":9223372036854775807,"nested":[1.5,null]}'
    works(server, "send", name, entry, "--user", "zoë")
    works(server, "send", name, "{not", "JSON", "--as", "text")
    first, second, third = works(server, "history", name)
    assert (first["sender"], first["entry"]) == ("ann", {"text": "the tide is in"})
    assert second["sender"] == "zoë"
    assert third["entry"] == {"text": "{not JSON"} and "sender" not in third
    # To the last digit.
    raw = tideline(server, "history", name).out.splitlines()[1]
    assert '"double":1.0' in raw and '"integer":9223372036854775807' in raw
    assert first == client.call("message.get", timeline=name, sequence=1)["message"]


def test_a_message_with_an_id_is_sent_once(server, name):
    works(server, "send", name, "x", "--id", "a-1", "--user", "ann")
    [again] = works(server, "send", name, "x", "--id", "a-1", "--user", "ann")
    assert again["duplicate"] is True and again["sequence"] == 1
    assert "message_id_conflict" in fails(server, 1, "send", name, "y", "--id", "a-1", "--user", "ann")
    assert "--id" in fails(server, 1, "send", name, "-", "--id", "a-2", input="y\n")


def test_each_line_of_a_pipe_is_a_message(server, name):
    text = "one\n\ntwo\r\n" + '{"text":"three","n":3}\n' + "".join(f"{n}\n" for n in range(350)) + "no end"
    sent = works(server, "send", name, "-", input=text)
    assert [one["sequence"] for one in sent] == list(range(1, 355))
    said = [message["entry"] for message in works(server, "history", name)]
    assert said[:4] == [{"text": "one"}, {"text": "two"}, {"text": "three", "n": 3}, {"text": "0"}]
    assert said[-1] == {"text": "no end"}
    assert works(server, "send", name, "-", input="") == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"a":', "line 5: no JSON"),
        ("\xff", "line 5: not UTF-8"),
        ('{"$a":1}', "line 5: "),
        ('{"text":"' + "x" * 300_000 + '"}', "(too_large, "),
        ("x" * (4 << 20), "line 5: longer"),
    ],
    ids=["no JSON", "not UTF-8", "a bad name", "too large", "endless"],
)
def test_a_bad_line_stops_there(server, name, bad, why):
    text = ("1\n2\n3\n4\n" + bad + "\n6\n").encode("latin-1")
    told = fails(server, 1, "send", name, "-", input=text)
    assert why in told and "line 5" in told and told.startswith("tideline: ") and told.count("\n") == 1
    assert [message["entry"]["text"] for message in works(server, "history", name)] == ["1", "2", "3", "4"]


class Cutting:
    """A way to the server that loses the first answer to an append, and the connection with it."""

    def __init__(self, server):
        self.server, self.cuts = server, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near = self.listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", self.server.port))
            for one, other in [(near, far), (far, near)]:
                threading.Thread(target=self.carry, args=(one, other, near), daemon=True).start()

    def carry(self, one, other, near):
        try:
            while got := one.recv(1 << 16):
                if one is not near and b'"duplicate":false' in got and not self.cuts:
                    self.cuts += 1
                    break
                other.sendall(got)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.mark.parametrize("piped", [False, True])
def test_a_lost_answer_is_asked_for_again(server, name, piped):
    way = Cutting(server)
    arguments = ["send", name, "-"] if piped else ["send", name, "a"]
    done = tideline(way, *arguments, input="a\n" if piped else None)
    assert done.returncode == 0 and way.cuts == 1 and "again in" in done.told, done
    assert json.loads(done.out)["duplicate"] is True
    assert [message["entry"] for message in works(server, "history", name)] == [{"text": "a"}]


def test_a_server_that_is_not_there(tmp_path):
    nobody = Server(tmp_path)
    assert "refused" in fails(nobody, 3, "history", "a")
    told = fails(nobody, 3, "send", "a", "x", "--patience", "0")
    assert "refused" in told and "nothing was sent" in told
    listener = socket.create_server(("127.0.0.1", nobody.port))

    def answer():
        while True:
            near = listener.accept()[0]
            near.recv(1 << 16)
            near.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot\x1b here")
            near.close()

    threading.Thread(target=answer, daemon=True).start()
    for command in (["history", "a"], ["follow", "a"], ["send", "a", "x"]):
        told = fails(nobody, 1, *command)
        assert "404" in told
        is_plain(told)
    listener.close()


def test_the_range_of_a_history(server, name, client):
    client.fill(name, 2_500)
    numbers = lambda *arguments: [one["sequence"] for one in works(server, "history", name, *arguments)]
    assert numbers() == list(range(1, 2_501))
    assert numbers("--last", "3") == [2_498, 2_499, 2_500]
    assert numbers("--last", "3", "--reverse") == [2_500, 2_499, 2_498]
    assert numbers("--last", "0") == []
    assert len(numbers("--last", "9999")) == 2_500
    assert numbers("--from", "5", "--to", "8") == [5, 6, 7]
    assert numbers("--reverse", "--from", "8", "--to", "5") == [8, 7, 6]
    assert numbers("--reverse")[-1] == 1
    client.call("timeline.trim", timeline=name, before=2_000)
    assert numbers("--last", "9999") == list(range(2_000, 2_501))
    assert "timeline_not_found" in fails(server, 1, "history", name + "-none")
    assert "--last" in fails(server, 2, "history", name, "--last", "1", "--from", "1")


def test_a_reader_that_goes_ends_it_silently(server, name, client):
    client.fill(name, 5_000)
    follow = ["follow", name]
    # The last has nothing to write any more when its reader goes.
    for command in (["history", name], [*follow, "--after", "0"], ["timelines"], [*follow, "--rewind", "1"]):
        command = [os.environ["TIDELINE_BIN"], *command]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(server))
        try:
            assert process.stdout.readline().startswith(b"{")
            process.stdout.close()
            assert process.wait(PATIENCE) == 0 and process.stderr.read() == b""
        finally:
            process.kill()
            process.wait()


def test_any_method_is_called(server, name, client):
    client.append(name, {"text": "x"})
    [got] = works(server, "call", "timeline.get", json.dumps({"timeline": name}))
    assert got == client.call("timeline.get", timeline=name)
    [got] = works(server, "call", "message.append", "-", input=f'{{"timeline":"{name}",\n"entry":{{"n":1.0}}}}')
    assert got["sequence"] == 2
    assert '"n":1.0' in tideline(server, "history", name, "--last", "1").out
    assert works(server, "call", "ping")[0]["time"] > 0
    assert works(server, "call", "conversation.list", "--user", "nobody")[0]["conversations"] == []
    told = fails(server, 1, "call", "timeline.list", '{"limit":0}')
    assert told == "tideline: must be at least 1 (invalid_params, limit)\n"
    assert "method_not_found" in fails(server, 1, "call", "no.method")
    for bad in ("{", "[]", "5", "nonsense", '{"a":1}x'):
        assert "JSON" in fails(server, 2, "call", "ping", bad)
        assert "JSON" in fails(server, 1, "call", "ping", "-", input=bad)


def test_lists(server, name, client):
    for number in range(3):
        members = [{"user": f"{name}-ann"}, {"user": f"{name}-ben"}]
        client.call("timeline.create", timeline=f"{name}/{number}", meta={"title": f"Room {number}"}, members=members)
    with Client(server, user=f"{name}-ben") as ben:
        ben.append(f"{name}/1", {"text": "lunch?", "mentions": [f"{name}-ann"]})
        ben.append(f"{name}/1", {"text": "x" * 200})
    listed = works(server, "timelines", f"{name}/")
    assert [one["timeline"] for one in listed] == [f"{name}/{number}" for number in range(3)]
    lines = tideline(server, "timelines", f"{name}/", "--text").out.splitlines()
    assert re.fullmatch(rf"{name}/1  #2  .* 2 members  Room 1", lines[1]), lines
    ann = ["--user", f"{name}-ann"]
    # Lists follow the log.
    [one] = until(lambda: [one for one in works(server, "conversations", *ann, "--unread") if one["unread"] == 2])
    assert (one["timeline"], one["mentions"]) == (f"{name}/1", 1)
    assert len(until(lambda: works(server, "conversations", *ann)[2:] and works(server, "conversations", *ann))) == 3
    line = tideline(server, "conversations", *ann, "--text").out.splitlines()[0]
    assert line.startswith(f"{name}/1  2 new, @1  ") and f"Room 1  {name}-ben: {'x' * 80}…" in line
    assert f"{name}/1" in tideline(server, "conversations", "--text", TIDELINE_USER=f"{name}-ann").out
    told = fails(server, 1, "conversations")
    assert "--user" in told and "unauthenticated" in told


def test_messages_are_searched(own_server):
    server = own_server
    server.config = "[search]\nmessages = true\n"
    server.start()
    for user, timeline, entry in [
        ("ann", "harbour/1", "the tide is in at noon"), ("ben", "harbour/1", "The tide turns at six"), ("ann", "harbour/2", "明天港口的潮水很高"),
        ("eve", "harbour/2", json.dumps({"text": f"foul tide {HOSTILE}", "note": "at the mole"})),
    ]:
        works(server, "send", timeline, entry, "--user", user)
    where = lambda *arguments: [(one["timeline"], one["message"]["sequence"]) for one in works(server, "search", *arguments)]
    assert where("tide") == [("harbour/2", 2), ("harbour/1", 2), ("harbour/1", 1)]
    assert where("tide", "turns") == where('"tide turns"') == where("tide -noon -foul") == where("tu*") == [("harbour/1", 2)]
    assert where("港口") == [("harbour/2", 1)] and where("--", "-tide") == [("harbour/2", 1)] and where("nosuchword") == []
    assert where("tide", "--timeline", "harbour/1", "--limit", "1") == [("harbour/1", 2)]
    assert where("tide", "--timeline", "harbour/1", "--timeline", "harbour/2", "--sender", "ann") == [("harbour/1", 1)]
    assert where("--prefix", "harbour/2") == [("harbour/2", 2), ("harbour/2", 1)]
    assert where("tide", "--from", "1h", "--best") and where("tide", "--to", "1h") == where("tide", "--from", "2999-01-01") == []
    assert len(where("tide", "--from", "2020-01-01 00:00:00", "--to", "2999-01-01")) == 3
    [hit] = works(server, "search", "six")
    assert hit == works(server, "call", "message.search", '{"query":"six"}')[0]["messages"][0]
    # People see what was found, and what hides in it.
    lines = tideline(server, "search", "tide", "--text").out.splitlines()
    assert re.fullmatch(r"[-\d]+ [:\d]+ harbour/1 #2 ben: The tide turns at six", lines[1]), lines
    assert lines[0].split(" ", 2)[2].startswith("harbour/2 #2 eve: foul tide ")
    is_plain(lines[0])
    assert "note: at the mole" in tideline(server, "search", "mole", "--text").out
    assert "there may be more" in tideline(server, "search", "tide", "--text", "--limit", "2").told
    with Running(server, "search", "turns", terminal=True) as running:
        assert running.ends() == 0 and "\x1b[1mturns\x1b[0m" in running.text
    # More than a page.
    works(server, "send", "many", "-", input="".join(f"many {n}\n" for n in range(230)))
    assert [one for _, one in where("many", "--limit", "1000")] == list(range(230, 0, -1)) and len(where("many", "--limit", "150")) == 150
    works(server, "call", "timeline.create", '{"timeline":"harbour/3","meta":{"title":"Lighthouse watch"}}')
    assert [one["timeline"] for one in works(server, "timelines", "--find", "lighthouse")] == ["harbour/3"]
    assert works(server, "timelines", "many", "--find", "lighthouse") == []
    for bad in (["--limit", "0"], ["--from", "soon"], ["-x"]):
        assert bad[0] in fails(server, 2, "search", "tide", *bad)
    assert "query" in fails(server, 1, "search", "x" * 5_000)


def test_a_search_that_is_off_says_so(server):
    assert "search_off" in fails(server, 1, "search", "tide") and "search_off" in fails(server, 1, "timelines", "--find", "x")


def test_a_follower_is_shown_everything_once_over_restarts(own_server):
    server = own_server.start()

    def say(timeline, *texts):
        with Client(server, user="ben") as ben:
            for text in texts:
                ben.append(timeline, {"text": text})

    say("a", "1", "2", "3")
    say("b", "1")
    seen = 0

    def shown(running, count):
        """The next lines: what they say, and of which message."""
        nonlocal seen
        events = [json.loads(line) for line in running.lines(seen + count)[seen:]]
        seen += count
        assert len(events) == count, events
        return sorted((e["timeline"], e["kind"], e["sequence"], e.get("entry", {}).get("text")) for e in events)

    with Running(server, "follow", "a", "b", "--rewind", "2") as running:
        assert shown(running, 3) == [("a", "message", 2, "2"), ("a", "message", 3, "3"), ("b", "message", 1, "1")]
        say("a", "4")
        assert shown(running, 1) == [("a", "message", 4, "4")]
        server.restart(signal.SIGKILL)
        say("a", "5")
        say("b", "2")
        with Client(server) as client:
            client.call("message.update", timeline="a", sequence=1, set={"text": "edited"})
        assert shown(running, 3) == [("a", "message", 5, "5"), ("a", "message.changed", 1, "edited"), ("b", "message", 2, "2")]
        with Client(server, user="cleo") as cleo:
            cleo.call("message.delete", timeline="b", sequence=1)
            assert shown(running, 1) == [("b", "message.changed", 1, None)]
            cleo.call("reaction.add", timeline="a", sequence=2, reaction="+1")
            assert shown(running, 1) == [("a", "reaction", 2, None)]
            # What is gone when it comes back is told.
            server.stop(signal.SIGKILL)
        until(lambda: "again in" in running.told)
        server.start()
        assert len(running.text.splitlines()) == seen
        say("a", "6")
        assert shown(running, 1) == [("a", "message", 6, "6")]
        with Client(server) as client:
            client.call("timeline.delete", timeline="a")
            ended = json.loads(running.lines(seen + 1)[seen])
            assert (ended["kind"], ended["timeline"], ended["reason"]) == ("subscription.ended", "a", "deleted")
            client.call("timeline.delete", timeline="b")
        assert running.ends() == 1 and "nothing is left" in running.told
        assert set(re.findall(r"tideline: (\w+)", running.told)) <= {"ws", "the", "nothing"} and "answered again" in running.told


def test_what_is_followed_must_be_there(server, name, client):
    assert "timeline_not_found" in fails(server, 1, "follow", name)
    client.fill(name, 3)
    assert "behind the last message, #3" in fails(server, 1, "follow", name, "--after", "9")
    with Running(server, "follow", name, "--after", "1") as running:
        assert [json.loads(line)["sequence"] for line in running.lines(2)] == [2, 3]
        running.process.send_signal(signal.SIGINT)
        assert running.ends() == 0 and running.told == ""
    with Running(server, "follow", name + "-new", "--create") as running:
        until(lambda: works(server, "timelines", name + "-new"))
        client.append(name + "-new")
        running.lines(1)
        running.process.send_signal(signal.SIGTERM)
        assert running.ends() == 0


def test_people_see_text_and_colours(server, name, client):
    works(server, "send", name, '{"text":"the tide is in","n":1}', "--user", "ann")
    with Running(server, "follow", name, terminal=True) as running:
        running.sees("the tide is in")
        assert "\x1b[" in running.text and '"timestamp"' not in running.text
        [line] = without_colours(running.text).splitlines()
        assert re.fullmatch(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d #1 ann: the tide is in {"n":1}', line), line
        client.call("message.update", timeline=name, sequence=1, set={"text": "the tide is out"})
        running.sees("the tide is out")
        assert '~#1 ann: the tide is out {"n":1} (edited)' in without_colours(running.text)
        client.call("message.recall", timeline=name, sequence=1, reason="wrong window")
        running.sees("wrong window")
        client.call("timeline.update", timeline=name, meta={"title": "Harbour"})
        running.sees("Harbour")
        running.types("\x03")
        assert running.ends() == 0
    with Running(server, "follow", name, terminal=True, NO_COLOR="1") as running:
        running.sees("#1")
        assert "\x1b" not in running.text
    with Running(server, "history", name, "--json", terminal=True) as running:
        assert running.ends() == 0
        until(lambda: "\n" in running.text)
        assert json.loads(without_colours(running.text))["deleted"] is True
    with Running(server, "call", "ping", terminal=True) as running:
        assert running.ends() == 0
        until(lambda: "}" in running.text)
        assert re.fullmatch(r'{\r\n  "time": \d+\r\n}\r\n', running.text)
    with Running(server, "send", name, "-", terminal=True) as running:
        running.types("typed\n")
        running.sees("#2")
        running.types("\x03")
        assert running.ends() == 130
    with Running(server, "history", name + "-none", terminal=True) as running:
        assert running.ends() == 1
        running.sees("tideline: no such timeline (timeline_not_found)")


def test_an_answer_grows_as_it_comes_in(server, name, client):
    client.call("timeline.create", timeline=name)
    with Running(server, "follow", name, terminal=True) as people, Running(server, "follow", name) as program:
        with Running(server, "send", name, "-", "--open", "--user", "bot") as sender:
            typed = sender.process.stdin
            # What is there when the message is met is shown with it.
            people.sees("(open)")
            until(lambda: program.text)
            for text in ("It is ", "hïgh\n", "\x1b[31mtide"):
                typed.write(text.encode())
                typed.flush()
                people.sees(text.strip().replace("\x1b", "\\u{1b}"))
            assert "+#1 It is hïgh\\n\\u{1b}[31mtide" in without_colours(people.text)
            typed.close()
            assert sender.ends() == 0 and not sender.told
            finished = json.loads(sender.text)["message"]
            assert finished["outcome"] == "done" and finished["entry"]["text"] == "It is hïgh\n\x1b[31mtide"
        people.sees("~#1")
        assert "bot: (open)" in without_colours(people.text)
        until(lambda: "message.changed" in program.text)
        lines = [json.loads(line) for line in program.lines(3)]
        grown = [line for line in lines if line["kind"] == "message.extended"]
        assert "".join(line["text"] for line in grown) == finished["entry"]["text"]
        with Running(server, "send", name, "-", "--open") as sender:
            people.sees("#2")
            client.call("message.stop", timeline=name, sequence=2)
            sender.process.stdin.write(b"x")
            sender.process.stdin.flush()
            assert sender.ends() == 1 and "message_closed" in sender.told
        assert "give - as the message" in fails(server, 1, "send", name, "x", "--open")
        done = tideline(server, "send", name, "-", "--open", input=b"ab\xff")
        assert done.returncode == 1 and "not UTF-8" in done.told
        until(lambda: "(failed)" in people.text)


def test_nothing_hostile_reaches_the_terminal(server, name, client):
    client.call("timeline.create", timeline=name, meta={"title": HOSTILE}, members=[{"user": name}])
    client.append(name, {"text": HOSTILE, "rest": HOSTILE})
    client.append(name, {"nested": [HOSTILE]})
    for command in (["history", name], ["timelines", name], ["conversations", "--user", name]):
        shown = tideline(server, *command, "--text").out
        is_plain(shown)
        assert "\\u{1b}[2J" in shown and "\\u{9b}2J\\u{7f}\\u{202e}" in shown, shown
        # JSON that is escaped is the same value.
        is_plain(tideline(server, *command).out)
        assert HOSTILE in texts(works(server, *command))
    for options in ([], ["--json"]):
        with Running(server, "follow", name, *options, terminal=True) as running:
            until(lambda: running.text.count("\n") == 2)
            is_plain(without_colours(running.text).replace("\r\n", "\n"))
    for command in (["call", HOSTILE], ["history", HOSTILE], ["history", name, "--user", HOSTILE]):
        is_plain(fails(server, 1, *command))


def test_with_authentication_a_key_is_needed(guard, tmp_path):
    server = guard().start()
    key = server.key("create", "news", "--allow", "news/*=create,read,append", "--act-as", "desk-*", "--url", server.origin,
                     environment={"TIDELINE_KEY": server.admin})
    for bad in ({}, {"TIDELINE_KEY": "tl_abcdefghijkl_" + "a" * 43}, {"TIDELINE_KEY": "nonsense"}, {"TIDELINE_KEY": token(exp=1)}):
        for command in (["history", "news/1"], ["send", "news/1", "x"], ["follow", "news/1"], ["call", "timeline.list"]):
            told = fails(server, 1, *command, **bad)
            assert "unauthenticated" in told, told
            assert not bad or bad["TIDELINE_KEY"] not in told
    assert "no key" in fails(server, 1, "history", "news/1", TIDELINE_KEY="a\nb")
    [sent] = works(server, "send", "news/1", "storm", TIDELINE_KEY=key)
    works(server, "send", "news/1", "calm", "--user", "desk-1", TIDELINE_KEY=key)
    assert [one["sender"] for one in works(server, "history", "news/1", TIDELINE_KEY=key)] == ["$key/news", "desk-1"]
    assert "forbidden" in fails(server, 1, "send", "news/1", "x", "--user", "ann", TIDELINE_KEY=key)
    assert "timeline_not_found" in fails(server, 1, "history", "room/1", TIDELINE_KEY=key)
    works(server, "send", "room/1", "x", TIDELINE_KEY=token())
    assert works(server, "history", "room/1", TIDELINE_KEY=token())[0]["sender"] == "ann"
    # A credential that ends, ends it: coming back with the same one would not help.
    with Running(server, "follow", "news/1", TIDELINE_KEY=key) as running:
        running.lines(2)
        server.key("revoke", key.split("_")[1], "--url", server.origin, environment={"TIDELINE_KEY": server.admin})
        assert running.ends() == 1 and "4500" in running.told


def test_over_tls(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server = Server(tmp_path, config=f'[tls]\ncertificate_file = "{certificate}"\nkey_file = "{key}"\n', tls=authority.client())
    try:
        server.start()
        trust = ["--ca-file", authority.file]
        works(server, "send", "a", "x", *trust)
        for origin in (server.origin, server.origin.replace("https", "wss"), server.url):
            assert len(works(server, "history", "a", *trust, "--url", origin)) == 1
        for command in (["history", "a"], ["follow", "a"], ["send", "a", "x"]):
            assert "ertificate" in fails(server, 1, *command)
        # The same port without TLS.
        assert tideline(server, "history", "a", "--url", server.origin.replace("https", "http")).returncode in (1, 3)
    finally:
        server.kill()


def test_shells_complete_it(server, tmp_path):
    for shell in ("bash", "zsh", "fish"):
        done = tideline(server, "completion", shell)
        assert done.returncode == 0 and all(word in done.out for word in ("follow", "rewind", "conversations"))
        if shutil.which(shell):
            script = tmp_path / shell
            script.write_text(done.out)
            assert subprocess.run([shell, "-n", script]).returncode == 0
    assert "powershell" in fails(server, 2, "completion", "nonsense")


def test_the_options_of_the_page_are_there(server):
    for name in re.findall(r"`(--[a-z-]+)`", PAGE.read_text()):
        helps = (tideline(server, command, "--help").out for command in ("send", "follow", "history", "search", "timelines", "key"))
        assert any(name in said for said in helps), name


def test_what_help_says(server):
    split = tideline(server, "partition", "split", "--help").out
    assert "tideline partition split [OPTIONS] --url <URL> <PARTITION>" in split
    told = fails(server, 2, "history", "a", "--url", "ftp://host")
    assert "http://" in told
    assert "credential" in fails(server, 2, "history", "a", "--url", "http://ann:secret@host")
    assert fails(server, 2, "follow") and fails(server, 2, "send", "a")
