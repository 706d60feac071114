"""The conversations of README, as they are printed there, against the real binary."""

import json
import pathlib
import re
import shlex
import time
import urllib.request

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def section(title, page=README):
    _, _, behind = page.read_text().partition(f"\n## {title}\n")
    assert behind, f"{page.name} has no section {title!r}"
    return behind.partition("\n## ")[0]


def calls(text):
    """Each curl command of a section's console blocks, and the answer printed below it."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for call in block.split("$ ")[1:]:
            if call.startswith("curl "):
                command, _, answer = call.partition("'\n")
                yield shlex.split(command + "'"), answer.strip()


def said(server, command):
    """What the command would print."""
    request = urllib.request.Request(f"http://{command[2].replace('7070', str(server.port))}")
    for option, value in zip(command[3::2], command[4::2], strict=True):
        if option == "-H":
            request.add_header(*value.split(": ", 1))
        else:
            assert option == "-d"
            request.data = value.encode()
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def pattern(printed):
    """An answer as it is printed: on broken lines, with … for what differs, and times as examples."""
    text = re.escape(re.sub(r"\n\s*", "", printed))
    return re.sub(r"\d{13}", r"\\d{13}", text.replace("…", ".*?"))


def converse(server, title):
    count, epoch = 0, ""
    for command, printed in calls(section(title)):
        # Where a command has …, the reader puts the epoch of the answers before.
        command = [part.replace("…", epoch) for part in command]
        until = time.monotonic() + 5
        # Lists and inboxes follow soon.
        while not re.fullmatch(pattern(printed), got := said(server, command), re.DOTALL):
            wanted = f"{command}\nprinted {printed}\ngot {got}"
            is_soon = "conversation.list" in wanted or "feed.range" in wanted
            assert is_soon and time.monotonic() < until, wanted
        epoch = re.search(r'"epoch":"(\w+)"', got)[1] if '"epoch"' in got else epoch
        json.loads(got)
        count += 1
    return count


def test_the_small_chat_runs_as_it_is_printed(own_server):
    assert converse(own_server.start(), "A small chat") == 8


def test_the_small_feed_runs_as_it_is_printed(own_server):
    assert converse(own_server.start(), "A small feed") == 7
