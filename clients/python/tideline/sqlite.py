"""The store in an SQLite file.

Owns: its tables. Promises: each method is one transaction; a file belongs to one client at a time; a file of another
version is refused. A killed process loses nothing. A power cut may take back the newest messages, which then come
again, but never one of the outbox: those are synced.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from .errors import StoreError
from .place import Place, Step, grown
from .store import Outgoing
from .wire import Growth, Message, decode, encode

VERSION = 4
#: Growths of a message that are rows of their own at most; then its body is written anew.
ROWS_MAX = 64
#: A row for each open message with as many parts as its body has, and one for each growth since.
PARTS = """
CREATE TABLE part (timeline TEXT, sequence INTEGER, parts INTEGER, text TEXT NOT NULL,
    PRIMARY KEY (timeline, sequence, parts)) WITHOUT ROWID;
"""
TABLES = f"""{PARTS}
CREATE TABLE place (timeline TEXT PRIMARY KEY, epoch TEXT NOT NULL, position INTEGER NOT NULL,
    changes INTEGER NOT NULL, first INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE message (timeline TEXT, sequence INTEGER, body TEXT NOT NULL,
    PRIMARY KEY (timeline, sequence)) WITHOUT ROWID;
CREATE TABLE outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, timeline TEXT NOT NULL, message_id TEXT NOT NULL,
    params TEXT NOT NULL, method TEXT NOT NULL DEFAULT 'message.append', traceparent TEXT, UNIQUE (timeline, message_id));
CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class SqliteStore:
    """Keeps everything in one file, which programs can read when no client uses it."""

    def __init__(self, path: str | os.PathLike[str], *, patience_s: float = 5.0) -> None:
        """Opens or makes the file. StoreError if another client keeps it for so long."""
        # The client's own statements begin and end transactions; it may be used in another thread than it was made in.
        self._base = sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)
        try:
            self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("BEGIN IMMEDIATE")
            (version,) = self._base.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for table in TABLES.split(";"):
                    self._base.execute(table)
                self._base.execute(f"PRAGMA user_version = {VERSION}")
            elif version in (1, 2, 3):
                if version == 1:
                    self._base.execute("ALTER TABLE outbox ADD COLUMN method TEXT NOT NULL DEFAULT 'message.append'")
                if version < 3:
                    self._base.execute(PARTS)
                self._base.execute("ALTER TABLE outbox ADD COLUMN traceparent TEXT")
                self._base.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise StoreError(f"{os.fspath(path)} is a store of version {version}, this is version {VERSION}")
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            self._base.close()
            raise StoreError(f"{os.fspath(path)}: {error}") from error
        except StoreError:
            self._base.close()
            raise

    def timelines(self) -> list[str]:
        return [row[0] for row in self._base.execute("SELECT timeline FROM place ORDER BY timeline")]

    def place(self, timeline: str) -> Place | None:
        row = self._base.execute(
            "SELECT epoch, position, changes, first FROM place WHERE timeline = ?", (timeline,)
        ).fetchone()
        return Place(*row) if row else None

    def message(self, timeline: str, sequence: int) -> Message | None:
        row = self._base.execute(
            "SELECT body FROM message WHERE timeline = ? AND sequence = ?", (timeline, sequence)
        ).fetchone()
        return self._grown(timeline, {sequence: decode(row[0])})[sequence] if row else None

    def messages(self, timeline: str, start: int = 1, limit: int | None = None) -> list[Message]:
        rows = self._base.execute(
            "SELECT sequence, body FROM message WHERE timeline = ? AND sequence >= ? ORDER BY sequence LIMIT ?",
            (timeline, start, -1 if limit is None else limit),
        )
        return list(self._grown(timeline, {sequence: decode(body) for sequence, body in rows}).values())

    def _grown(self, timeline: str, found: dict[int, Message]) -> dict[int, Message]:
        """Messages in order, with what they have grown by since their bodies were written."""
        last: dict[int, int] = {}
        texts: dict[int, list[str]] = {}
        if found:
            rows = self._base.execute(
                "SELECT sequence, parts, text FROM part WHERE timeline = ? AND sequence BETWEEN ? AND ?"
                " AND text != '' ORDER BY sequence, parts",
                (timeline, min(found), max(found)),
            )
            for sequence, parts, text in rows:
                last[sequence] = parts
                texts.setdefault(sequence, []).append(text)
        for sequence, pieces in texts.items():
            growth = Growth(sequence, last[sequence], last[sequence], "".join(pieces))
            found[sequence] = grown(found[sequence], growth)
        return found

    def open_messages(self, timeline: str) -> dict[int, int]:
        rows = "SELECT sequence, MAX(parts) FROM part WHERE timeline = ? GROUP BY sequence ORDER BY sequence"
        return dict(self._base.execute(rows, (timeline,)))

    def apply(self, timeline: str, step: Step) -> None:
        place = step.place
        statements: list[tuple[str, tuple[Any, ...]]] = []
        if place is None:
            statements.append(("DELETE FROM message WHERE timeline = ?", (timeline,)))
            statements.append(("DELETE FROM part WHERE timeline = ?", (timeline,)))
            statements.append(("DELETE FROM place WHERE timeline = ?", (timeline,)))
        else:
            if step.drop_below > 1:
                for table in ("message", "part"):
                    drop = f"DELETE FROM {table} WHERE timeline = ? AND sequence < ?"
                    statements.append((drop, (timeline, step.drop_below)))
            for sequence, message in step.put.items():
                text = step.grown.get(sequence, "")
                if not text or self._has_many(timeline, sequence):
                    text = ""
                    put = "INSERT OR REPLACE INTO message VALUES (?, ?, ?)"
                    statements.append((put, (timeline, sequence, encode(message))))
                    statements.append(("DELETE FROM part WHERE timeline = ? AND sequence = ?", (timeline, sequence)))
                if message.get("open"):
                    part = (timeline, sequence, message["parts"], text)
                    statements.append(("INSERT INTO part VALUES (?, ?, ?, ?)", part))
            values = (timeline, place.epoch, place.position, place.changes, place.first)
            statements.append(("INSERT OR REPLACE INTO place VALUES (?, ?, ?, ?, ?)", values))
        self._write(statements, is_synced=False)

    def _has_many(self, timeline: str, sequence: int) -> bool:
        rows = "SELECT COUNT(*) FROM part WHERE timeline = ? AND sequence = ?"
        return bool(self._base.execute(rows, (timeline, sequence)).fetchone()[0] > ROWS_MAX)

    def outbox(self) -> list[Outgoing]:
        rows = self._base.execute("SELECT timeline, message_id, params, method, traceparent FROM outbox ORDER BY number")
        return [Outgoing(timeline, message_id, decode(params), *rest) for timeline, message_id, params, *rest in rows]

    def add_outgoing(self, outgoing: Outgoing, is_synced: bool = True) -> None:
        add = (
            "INSERT INTO outbox (timeline, message_id, params, method, traceparent) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (timeline, message_id) DO UPDATE SET params = excluded.params"
        )
        params = encode(outgoing.params)
        values = (outgoing.timeline, outgoing.message_id, params, outgoing.method, outgoing.traceparent)
        self._write([(add, values)], is_synced)

    def remove_outgoing(self, outgoing: Outgoing) -> None:
        remove = "DELETE FROM outbox WHERE timeline = ? AND message_id = ?"
        self._write([(remove, (outgoing.timeline, outgoing.message_id))], is_synced=False)

    def note(self, name: str) -> str | None:
        row = self._base.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def set_note(self, name: str, value: str) -> None:
        self._write([("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, value))], is_synced=False)

    def close(self) -> None:
        self._base.close()

    def _write(self, statements: list[tuple[str, tuple[Any, ...]]], is_synced: bool) -> None:
        """One transaction; a failure takes all of it back."""
        self._base.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        self._base.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in statements:
                self._base.execute(statement, values)
            self._base.execute("COMMIT")
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
