"""The blocks of a page: what is fenced or indented in it.

Owns: how a page is read. Promises: no block is left out. Must not: run anything.
"""

import dataclasses
import functools
import re
import subprocess


@dataclasses.dataclass
class Block:
    """`kind` is what the fence says; of an indented block it is `indented`."""

    line: int
    kind: str
    text: str
    before: str  # the page up to it


def blocks(page):
    """Each block, in order."""
    lines, at = page.splitlines(), 0
    while at < len(lines):
        fence = re.fullmatch(r"\s*```(.*)", lines[at])
        begin, before = at + 1, "\n".join(lines[:at])
        if fence:
            at += 1
            while lines[at].strip() != "```":
                at += 1
            yield Block(begin, fence[1], "\n".join(lines[begin:at]) + "\n", before)
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield Block(begin, "indented", re.sub("^    ", "", "\n".join(lines[begin - 1 : at]), flags=re.MULTILINE).strip() + "\n", before)
            continue
        at += 1


@functools.cache
def goes_on(command):
    """Whether the shell waits for the rest of it."""
    if command.startswith(("> ", "< ")):
        return False
    read = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
    return read.returncode != 0 or bool(read.stderr) or command.endswith("\\")


def commands(text):
    """Each command of a block, and what is printed below it. What a WebSocket's client sends and gets is two of them."""
    marks, found = ("$ ", "> ", "< ") if text.startswith(("$ ", "> ", "< ")) else ("",), []
    for line in text.splitlines():
        if found and goes_on(found[-1][0]):
            found[-1][0] += "\n" + line
        elif line.strip() and line.startswith(marks):
            found.append([line.removeprefix("$ "), ""])
        elif found:
            found[-1][1] += line + "\n"
    return found
