"""Search indexes of a table and of messages while everything happens at once: eight writers, searches, kills, splits, a merge,
a rebuild and a restore; and `tideline verify` afterwards, which holds each index against what it is of.

Owns: the promise that a search has what was answered before it, whatever goes on. The control: an index that lost a row, or a
message, is found. `TIDELINE_LONG=1` does it with 20 kills and two splits.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
import uuid

import pytest
from tablestore import (
    CapacityUnit, FieldSchema, FieldType, MatchAllQuery, MatchQuery, ReservedThroughput, Row, SearchIndexMeta, SearchQuery, SyncPhase,
    TableMeta, TableOptions, TermQuery,
)

from sdk import IGNORE, connect
from server import Server
from test_partitions import leaves, served as partitions
from test_search import put, verified

WRITERS = 8
LONG = "TIDELINE_LONG" in os.environ
KILLS, SPLITS = (20, 2) if LONG else (3, 1)
FIELDS = [FieldSchema("number", FieldType.LONG), FieldSchema("word", FieldType.KEYWORD), FieldSchema("text", FieldType.TEXT)]
SETTINGS = '[search]\nmessages = true\nwhere = ["topic"]\n'
INDEX = ("ships", "index")


def call(server, method, **params):
    status, _, body = server.rpc(None, method, **params)
    answer = json.loads(body)
    assert status == 200 and "result" in answer, answer
    return answer["result"]


def made(server):
    client = connect(server)
    client.create_table(TableMeta("ships", [("k", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    client.create_search_index(*INDEX, SearchIndexMeta(FIELDS))
    for writer in range(WRITERS):
        call(server, "timeline.create", timeline=f"harbour/{writer}")


class Writer(threading.Thread):
    """Writes a row and a message, and looks for each of them; now and then it deletes the row."""

    def __init__(self, server, number, stop):
        super().__init__()
        self.server, self.number, self.stop_at = server, number, stop
        self.rows = self.messages = self.searched = 0
        self.wrong = []

    def run(self):
        client = connect(self.server)
        while not self.stop_at.is_set():
            # The server may be killed under each step: whether it was done then is not known.
            try:
                self.row(client)
                self.message()
            except AssertionError as wrong:
                self.wrong.append(str(wrong))
                return
            except Exception:
                time.sleep(0.05)
                client = connect(self.server)

    def row(self, client):
        self.rows += 1
        key, word = f"{self.number}/{self.rows % 50:03}", f"w{uuid.uuid4().hex}"
        put(client, "ships", key, number=self.rows, word=word, text=f"the {word} of {self.number}")
        self.looked(client.search(*INDEX, SearchQuery(MatchQuery("text", word))), [key])
        if self.rows % 5 == 0:
            client.delete_row("ships", Row([("k", key)]), IGNORE)
            self.looked(client.search(*INDEX, SearchQuery(TermQuery("word", word))), [])

    def looked(self, found, due):
        if found.is_all_succeed:
            keys = [row[0][0][1] for row in found.rows]
            assert keys == due, (keys, due)
            self.searched += 1

    def message(self):
        timeline, word = f"harbour/{self.number}", f"m{uuid.uuid4().hex}"
        sent = call(self.server, "message.append", timeline=timeline, entry={"text": f"a {word}", "topic": "sea"})
        self.messages += 1
        found = call(self.server, "message.search", query=word)
        if "behind" not in found:
            places = [(hit["timeline"], hit["message"]["sequence"]) for hit in found["messages"]]
            assert places == [(timeline, sent["sequence"])], (places, sent)
            self.searched += 1


@contextlib.contextmanager
def writers(server):
    stop = threading.Event()
    all_of_them = [Writer(server, number, stop) for number in range(WRITERS)]
    for one in all_of_them:
        one.start()
    try:
        yield all_of_them
        # Each has done something, however slow the machine is.
        while any(one.is_alive() and one.searched < 4 for one in all_of_them):
            time.sleep(0.1)
    finally:
        stop.set()
        for one in all_of_them:
            one.join()
    wrong = [text for one in all_of_them for text in one.wrong]
    assert not wrong, wrong[:3]
    rows, messages, searched = (sum(getattr(one, what) for one in all_of_them) for what in ("rows", "messages", "searched"))
    print(f"{rows} rows and {messages} messages written, {searched} searches held")
    assert searched >= 4 * WRITERS


def caught_up(server):
    client = connect(server)
    while not (found := client.search(*INDEX, SearchQuery(MatchAllQuery(), limit=0, get_total_count=True))).is_all_succeed:
        time.sleep(0.1)
    while "behind" in call(server, "message.search", query="sea", limit=1):
        time.sleep(0.1)
    while client.describe_search_index(*INDEX)[1].sync_phase != SyncPhase.INCR:
        time.sleep(0.1)
    return found.total_count


def held(server, code=0):
    """What verify says of the indexes: those of the table, of messages and of metas, all whole."""
    said = verified(server, code)
    indexes, documents, rows, unfinished = re.search(
        r"(\d+) search indexes, (\d+) documents of (\d+) rows and messages, (\d+) indexes not whole", said
    ).groups()
    assert (indexes, unfinished) == ("3", "0"), said
    print(f"verify: {documents} documents of {rows} rows and messages")
    return int(documents), int(rows), said


def test_indexes_are_equal_to_their_rows_and_messages_through_everything(tmp_path):
    (tmp_path / "backups").mkdir()
    server = Server(tmp_path, config=f'backup_directory = "{tmp_path}/backups"\n{SETTINGS}').start()
    try:
        made(server)
        with writers(server):
            kills = iter(range(KILLS))
            for _ in range(SPLITS):
                done = partitions(server, "split", leaves(server)[0])
                assert done.returncode == 0, done.stderr
            for _ in kills:
                time.sleep(2 if LONG else 0.5)
                server.kill()
                server.start()
            # Those that the last split has made.
            done = partitions(server, "merge", *leaves(server)[-2:])
            assert done.returncode == 0, done.stderr
        rows = caught_up(server)
        assert server.metric("tideline_search_rebuilds_total") == 0
        server.stop()
        documents, due, _ = held(server)
        assert documents == due > rows + 2 * WRITERS
        # Made anew from nothing, while others write.
        for folder in (tmp_path / "data" / "search").iterdir():
            shutil.rmtree(folder)
        server.start()
        with writers(server):
            time.sleep(1)
        caught_up(server)
        server.stop()
        documents, due, _ = held(server)
        assert documents == due
        restored(server, tmp_path)
    finally:
        server.kill()


def run(server, *words):
    done = subprocess.run([server.binary, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def restored(server, tmp_path):
    """A backup of a server at work has no indexes; a server that is restored from it makes them."""
    server.start()
    with writers(server):
        time.sleep(0.5)
        backup = run(server, "backup", "all", "--url", server.origin).split(": ")[0]
    server.stop()
    (tmp_path / "second").mkdir()
    again = Server(tmp_path / "second", config=SETTINGS)
    run(server, "restore", backup, "--data", again.data)
    again.start()
    try:
        with writers(again):
            time.sleep(1)
        caught_up(again)
        again.stop()
        documents, due, _ = held(again)
        assert documents == due
    finally:
        again.kill()


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build for tests")
def test_an_index_that_lost_a_message_is_found(tmp_path):
    server = Server(tmp_path, config=SETTINGS).start()
    try:
        made(server)
        for attempt in range(9):
            caught_up(server)
            server.stop()
            # A place is committed before its rows, and the server ends between both; it may be that of the metas.
            server.environment = {"TIDELINE_FAULT": "search_place_first,search_placed:1"}
            server.start()
            with contextlib.suppress(Exception):
                call(server, "message.append", timeline="harbour/0", entry={"text": "lost"})
                call(server, "message.search", query="lost")
            server.process.wait(60)
            server.kill()
            done = subprocess.run([server.binary, "verify", server.data], capture_output=True, text=True, timeout=60)
            if done.returncode:
                break
            server.environment = {}
            server.start()
        documents, due, said = held(server, 1)
        assert documents < due and "the search index $messages does not have it so" in said, said
    finally:
        server.kill()
