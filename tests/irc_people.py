"""What the IRC logs say of every nick, beside what a server said: `irc_people.py DIR ANSWERS`.

`tideline-load people DIR --answers ANSWERS` writes the answers. This script reads the logs itself, by the rules of
`load/src/people/plan.rs` and with nothing of its code, and computes each nick's list, unread counts and inbox. It
prints each difference, and exits with 1 if there is any. Plain Python, no packages.
"""

import json
import re
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

PREFIX, SUFFIX = "irc/", ".raw.txt"
RENAMED = re.compile(r"=== (.*?) is now known as (.*)", re.S)
MOVED = re.compile(r"=== (.*) \[.*?\]  has (joined|left|quit)(?: .*)?", re.S)
SAID = re.compile(r"(?:\[.{2}:.{2}\] )?<([^>]*)>.*", re.S)
DONE = re.compile(r"(?:\[.{2}:.{2}\] )? *\* +([^ ]*).*", re.S)


def nick_of(text):
    """The nick that a text names; nobody, if no user can have such a name."""
    nick = text.replace(" ", "")
    is_name = 0 < len(nick.encode()) <= 128 and not any(unicodedata.category(c) == "Cc" for c in nick)
    return nick if is_name else None


def deed_of(line):
    """Who says the line, who leaves before it, who joins before it."""
    if line.startswith("=== "):
        if renamed := RENAMED.fullmatch(line):
            return None, nick_of(renamed[1]), nick_of(renamed[2])
        if moved := MOVED.fullmatch(line):
            nick = nick_of(moved[1])
            return (None, None, nick) if moved[2] == "joined" else (None, nick, None)
        return None, None, None
    if said := SAID.fullmatch(line) or DONE.fullmatch(line):
        nick = nick_of(said[1])
        return nick, None, nick
    return None, None, None


class Room:
    """A log: who said which line, and who got which lines as a member."""

    def __init__(self, path, length):
        lines = path.read_bytes().split(b"\n")
        if not lines[-1]:
            lines.pop()
        self.senders, self.members, self.stays = [None], {}, defaultdict(list)
        for sequence, line in enumerate(lines[:length], 1):
            sender, leaves, joins = deed_of(line.decode(errors="replace"))
            self.senders.append(sender)
            if leaves is not None and leaves == joins:
                continue
            if leaves in self.members:
                self.stays[leaves].append((self.members.pop(leaves), sequence - 1))
            if joins is not None and joins not in self.members:
                self.members[joins] = sequence
        self.head = len(self.senders) - 1
        for nick, since in self.members.items():
            self.stays[nick].append((since, self.head))

    def unread(self, nick, read):
        above = max(read, self.members[nick] - 1)
        return sum(sender != nick for sender in self.senders[above + 1 :])


def expected(rooms, last_at, nick, reads):
    """A nick's list as the server's answer has it, and the runs of its inbox by timeline."""
    mine = [name for name, room in rooms.items() if nick in room.members]
    mine.sort(key=lambda name: (-last_at[name], name))
    shown = []
    for name in mine:
        room = rooms[name]
        shown.append([name, room.unread(nick, reads.get(name, 0)), len(room.members), room.head])
    runs = {}
    for name, room in rooms.items():
        stays = [stay for stay in room.stays.get(nick, []) if stay[0] <= stay[1]]
        if stays:
            runs[name] = joined(stays)
    return shown, runs


def joined(runs):
    """Runs, those that follow on each other as one."""
    whole = []
    for first, last in runs:
        if whole and whole[-1][1] + 1 == first:
            whole[-1][1] = last
        else:
            whole.append([first, last])
    return whole


def differences(folder, answers):
    """What the server said and should not have, as lines; how many nicks were compared."""
    with open(answers, encoding="utf-8") as file:
        heading = json.loads(next(file))
        said = {answer["nick"]: answer for answer in map(json.loads, file)}
    places = heading["timelines"]
    last_at = {name: place["last_at"] for name, place in places.items()}
    rooms = {}
    for name, place in places.items():
        rooms[name] = Room(Path(folder, name.removeprefix(PREFIX) + SUFFIX), place["lines"])
    nicks = {nick for room in rooms.values() for nick in room.stays}
    # A nick that leaves without having been there is asked for, too, and has nothing.
    for nick in sorted(nicks | set(said)):
        if nick not in said:
            yield f"{nick} was not asked for"
            continue
        answer = said[nick]
        shown, runs = expected(rooms, last_at, nick, answer["reads"])
        if answer["list"] != shown:
            yield f"{nick}: the list {answer['list']} instead of {shown}"
        got = defaultdict(list)
        for name, first, last in answer["inbox"]:
            got[name].append((first, last))
        got = {name: joined(of_name) for name, of_name in got.items()}
        if got != runs:
            yield f"{nick}: the inbox {got} instead of {runs}"
    print(f"{len(nicks)} nicks in {len(rooms)} logs compared")


def main():
    folder, answers = sys.argv[1:]
    found = 0
    for difference in differences(folder, answers):
        found += 1
        print(f"{difference:.500}")
    print(f"{found} differences")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
