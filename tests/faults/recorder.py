"""The recorder (`disk.c`), its trace, and what a power cut leaves of a recorded disk.

Owns: the trace's format on this side, and the model of a disk. Promises to be as unkind as a disk may be: what no sync
covered is lost, kept, or torn at 512 bytes, each write on its own; each change of a name is lost or kept on its own,
and a file's content being durable says nothing of its name; what a failed sync should have covered stays in doubt for
ever. Must not: know whose files these are.
"""

import collections
import os
import re
import struct
import subprocess

WRITE, CUT, NAME, UNNAME, RENAME, BEGIN, BEGIN_ONE, END, REPLY, FAILED = range(1, 11)
HEAD = struct.Struct("<IiQqII")
# Calls that `DISK_FAIL` counts; an O_DSYNC write is one.
COUNTED = (WRITE, CUT, NAME, UNNAME, RENAME, BEGIN)
SECTOR = 512

Record = collections.namedtuple("Record", "kind result file at name data")


def library(folder):
    """Builds the recorder in a folder; its path."""
    made = os.path.join(folder, "disk.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "disk.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", made, source], check=True)
    return made


def read_trace(path):
    """All records. The last one may be cut."""
    with open(path, "rb") as file:
        text = file.read()
    records, at = [], 0
    while at + HEAD.size <= len(text):
        kind, result, inode, place, name_bytes, data_bytes = HEAD.unpack_from(text, at)
        name_at = at + HEAD.size
        data_at = name_at + name_bytes
        at = data_at + data_bytes
        if at > len(text):
            break
        records.append(Record(kind, result, inode, place, text[name_at:data_at].decode(), text[data_at:at]))
    return records


def answered(records):
    """Where in the trace each call was answered: its JSON-RPC number to the index of the record."""
    found = {}
    for at, record in enumerate(records):
        if record.kind == REPLY:
            for number in re.findall(rb'"jsonrpc":"2.0","id":(\d+)', record.data):
                found.setdefault(int(number), at)
    return found


class Change:
    """A change that is not durable yet, or not known to be."""

    __slots__ = ("apply", "durable", "doubtful", "torn")

    def __init__(self, apply, torn=None):
        self.apply, self.torn = apply, torn
        self.durable = self.doubtful = False


class Place:
    """A file's bytes or a folder's names: what is durable, and the changes since, oldest first."""

    def __init__(self, content):
        self.content, self.changes, self.gone = content, [], 0

    def count(self):
        return self.gone + len(self.changes)

    def cover(self, first, behind, result):
        for change in self.changes[max(0, first - self.gone) : behind - self.gone]:
            if result == 0 and not change.doubtful:
                change.durable = True
            elif result != 0 and not change.durable:
                change.doubtful = True
        while self.changes and self.changes[0].durable:
            self.changes.pop(0).apply(self.content)
            self.gone += 1

    def after_cut(self, dice, way):
        """The content after a power cut; `way`: "none" of the rest was done, "all", or "some"."""
        content = self.content.copy()
        for change in self.changes:
            fate = 1 if change.durable or way == "all" else 0 if way == "none" else dice.randrange(4)
            if fate == 1 or (fate > 1 and change.torn is None):
                change.apply(content)
            elif fate > 1:
                change.torn(content, dice)
        return content


def put_bytes(content, at, data):
    if len(content) < at + len(data):
        content.extend(bytes(at + len(data) - len(content)))
    content[at : at + len(data)] = data


def write_change(at, data):
    def torn(content, dice):
        # Each sector by itself.
        begin = 0
        while begin < len(data):
            end = min(len(data), begin + SECTOR - (at + begin) % SECTOR)
            if dice.randrange(2):
                put_bytes(content, at + begin, data[begin:end])
            begin = end

    return Change(lambda content: put_bytes(content, at, data), torn)


def cut_change(at):
    def apply(content):
        if len(content) > at:
            del content[at:]
        else:
            content.extend(bytes(at - len(content)))

    return Change(apply)


class Disk:
    """A disk while a trace is played to it."""

    def __init__(self, root):
        """`root`: the inode of the folder that was there, empty, when recording began."""
        self.root = (root, 0)
        self.places = {self.root: Place({})}
        self.folders = {self.root}
        # Inodes are used again: the newest place of each.
        self.newest = {root: self.root}
        self.tickets = {}
        self.torn_off = 0

    def place(self, inode):
        return self.places[self.newest[inode]]

    def play(self, record):
        kind = record.kind
        if kind == WRITE:
            self.place(record.file).changes.append(write_change(record.at, record.data))
        elif kind == CUT:
            self.place(record.file).changes.append(cut_change(record.at))
        elif kind == NAME:
            made = (record.at, self.newest.get(record.at, (0, 0))[1] + 1)
            self.newest[record.at] = made
            self.places[made] = Place({} if record.result else bytearray())
            if record.result:
                self.folders.add(made)
            self.named(record.file, lambda names, name=record.name: names.__setitem__(name, made))
        elif kind == UNNAME:
            self.named(record.file, lambda names, name=record.name: names.pop(name, None))
        elif kind == RENAME:
            self.rename(record)
        elif kind in (BEGIN, BEGIN_ONE):
            place = self.place(record.file)
            first = place.count() - 1 if kind == BEGIN_ONE else 0
            self.tickets[record.at] = (place, first, place.count())
        elif kind == END and record.at in self.tickets:
            place, first, behind = self.tickets.pop(record.at)
            place.cover(first, behind, record.result)

    def named(self, folder, apply):
        self.place(folder).changes.append(Change(apply))

    def rename(self, record):
        before, after = record.name.split("/")
        moved = self.newest[record.at]
        to = int.from_bytes(record.data, "little")
        if to != record.file:
            raise ValueError("a file went to another folder: the model of names has no such thing")

        def apply(names):
            names.pop(before, None)
            names[after] = moved

        self.named(record.file, apply)

    def after_cut(self, path, dice, way, left_out=()):
        """Writes what a power cut leaves into an empty folder."""
        todo = [(self.root, path)]
        while todo:
            folder, where = todo.pop()
            for name, place in self.places[folder].after_cut(dice, way).items():
                target = os.path.join(where, name)
                if place in self.folders:
                    os.mkdir(target)
                    todo.append((place, target))
                elif name not in left_out:
                    with open(target, "wb") as file:
                        file.write(self.places[place].after_cut(dice, way))
