"""SQL on tables over the native protocol: answers against SQLite's on the same rows, writes, bad input, the command.

Owns: how random statements are made. What MySQL and SQLite do differently is not among them: division, sums of integers
(ours are doubles), LIKE's case, and texts compared with numbers.
"""

import base64
import json
import os
import pathlib
import random
import sqlite3

import pytest

from client import Client, Refused
from fixtures import own_server, server  # noqa: F401, pytest finds them here
from tables import BINARY, INTEGER, STRING, a_table, signed
from test_command_line import fails, tideline, works

STATEMENT_BYTES_MAX = 256 << 10
NUMBERS = iter(range(1_000_000))
KINDS = {INTEGER: "BIGINT", STRING: "VARCHAR(1024)", BINARY: "VARBINARY(1024)"}


def make_table(server, native, columns, **key):
    """A table with a mapping; its name."""
    name = f"sql_{next(NUMBERS)}"
    status, _, said = signed(server, "CreateTable", "development", "development", a_table(name, **key))
    assert status == 200, said
    parts = [f"{column} {KINDS[kind]}" for column, kind in key.items()] + [f"{column} {kind}" for column, kind in columns.items()]
    ask(native, f"CREATE TABLE {name} ({', '.join(parts)}, PRIMARY KEY({', '.join(key)}))")
    return name


def ask(native, statement):
    return native.call("sql.query", statement=statement)


def rows(native, statement):
    answer = ask(native, statement)
    assert "cut" not in answer
    return answer["rows"]


def refused(native, reason, statement, *words):
    with pytest.raises(Refused) as caught:
        ask(native, statement)
    error = caught.value
    assert error.reason == reason, error
    assert error.data.get("field") in ("statement", None), error
    assert all(word in error.message for word in words), error
    return error


@pytest.fixture
def native(server):
    with Client(server) as connected:
        yield connected


# Random statements.

COLUMNS = {"i": "BIGINT", "j": "BIGINT", "d": "DOUBLE", "s": "MEDIUMTEXT"}
WORDS = ["", "a", "ab", "abc", "b", "ba", "zz", "a_b", "a%b"]


def fill(rng, native, name, oracle, count):
    """The same rows here and there."""
    oracle.execute(f"CREATE TABLE {name} (k TEXT, n INTEGER, i INTEGER, j INTEGER, d REAL, s TEXT, PRIMARY KEY (k, n))")
    keys = {(rng.choice("abcd"), rng.randrange(-5, 20)) for _ in range(count)}
    for k, n in keys:
        row = {"i": rng.randrange(-4, 9), "j": rng.randrange(3), "d": rng.randrange(-20, 20) / 4, "s": rng.choice(WORDS)}
        row = {column: value for column, value in row.items() if rng.random() < 0.8}
        native.call("row.put", table=name, key={"k": k, "n": n}, columns=row)
        oracle.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?)", [k, n, *(row.get(column) for column in COLUMNS)])


class Maker:
    """Statements that mean the same to both."""

    def __init__(self, rng, tables):
        self.rng, self.tables, self.prefix = rng, tables, [""]

    def column(self, *names):
        return self.rng.choice(self.prefix) + self.rng.choice(names)

    def number(self, depth=2):
        kind = self.rng.randrange(9 if depth else 3)
        inner = lambda: self.number(depth - 1)
        if kind < 2:
            return self.column("n", "i", "j")
        if kind == 2:
            return str(self.rng.randrange(-3, 9))
        if kind == 3:
            return f"({inner()} {self.rng.choice('+-*')} {inner()})"
        if kind == 4:
            return f"ABS({inner()})"
        if kind == 5:
            return f"CASE WHEN {self.condition(depth - 1)} THEN {inner()} ELSE {inner()} END"
        if kind == 6:
            return f"COALESCE({inner()}, {inner()})"
        if kind == 7:
            return f"LENGTH({self.text(depth - 1)})"
        return f"({inner()} % {inner()})"

    def text(self, depth=1):
        kind = self.rng.randrange(6 if depth else 2)
        if kind < 2:
            return self.column("k", "s")
        if kind == 2:
            return f"'{self.rng.choice(WORDS)}'"
        if kind == 3:
            return f"{self.rng.choice(['UPPER', 'LOWER', 'TRIM'])}({self.text(depth - 1)})"
        if kind == 4:
            return f"COALESCE({self.text(depth - 1)}, 'none')"
        return f"SUBSTR({self.text(depth - 1)}, {self.rng.randrange(1, 4)}, {self.rng.randrange(3)})"

    def condition(self, depth=2):
        compare = lambda: self.rng.choice(["=", "<>", "!=", "<", "<=", ">", ">="])
        kind = self.rng.randrange(11 if depth > 0 else 7)
        if kind == 0:
            return f"{self.number(max(depth - 1, 0))} {compare()} {self.number(0)}"
        if kind == 1:
            return f"{self.text(0)} {compare()} '{self.rng.choice(WORDS)}'"
        if kind == 2:
            return f"{self.column('d')} {compare()} {self.rng.randrange(-8, 8) / 2}"
        if kind == 3:
            return f"{self.column('n', 'i', 'd', 's')} IS {self.rng.choice(['', 'NOT '])}NULL"
        if kind == 4:
            listed = ", ".join(str(self.rng.randrange(-3, 9)) for _ in range(3))
            return f"{self.column('n', 'i')} {self.rng.choice(['', 'NOT '])}IN ({listed})"
        if kind == 5:
            return f"{self.column('n', 'i')} {self.rng.choice(['', 'NOT '])}BETWEEN {self.rng.randrange(-3, 4)} AND {self.rng.randrange(9)}"
        if kind == 6:
            pattern = self.rng.choice(["a%", "%b", "_", "%a%", "a_", "%", "", "ab%c"])
            return f"{self.column('k', 's')} {self.rng.choice(['', 'NOT '])}LIKE '{pattern}'"
        if kind == 7:
            return f"NOT ({self.condition(depth - 1)})"
        if kind == 8:
            # The key's first columns, as one would look a row up.
            k = f"{self.column('k')} = '{self.rng.choice('abcd')}'"
            return f"({k} AND {self.column('n')} {compare()} {self.rng.randrange(20)})"
        return f"({self.condition(depth - 1)} {self.rng.choice(['AND', 'OR'])} {self.condition(depth - 1)})"

    def source(self):
        first, second = self.tables
        kind = self.rng.randrange(5)
        if kind < 2:
            self.prefix = self.rng.choice([[""], [f"{first}."]])
            return first
        if kind == 4:
            self.prefix = [""]
            inner = f"SELECT * FROM {first} WHERE {self.condition()}"
            self.prefix = self.rng.choice([[""], ["x."]])
            return f"({inner}) AS x"
        self.prefix = ["x.", "y."]
        join = "JOIN" if kind == 2 else self.rng.choice(["LEFT JOIN", "RIGHT JOIN"])
        on = self.rng.choice(["x.i = y.i", "x.k = y.k AND x.n = y.n", "x.j = y.i AND y.d > 0", "x.s = y.s"])
        return f"{first} AS x {join} {second} y ON {on}"

    def statement(self):
        if self.rng.random() < 0.1:
            # A range of keys, from its end on.
            k, low, count = self.rng.choice("abcd"), self.rng.randrange(-5, 15), self.rng.randrange(1, 9)
            return f"SELECT n, i FROM {self.tables[0]} WHERE k = '{k}' AND n >= {low} AND n < {low + count} ORDER BY n DESC", True
        source = self.source()
        where = f" WHERE {self.condition()}" if self.rng.random() < 0.7 else ""
        if self.rng.random() < 0.4:
            groups = [self.column("j", "s", "k", "i") for _ in range(self.rng.randrange(3))]
            fold = lambda: self.rng.choice([
                "COUNT(*)", f"COUNT({self.column('i', 's')})", f"COUNT(DISTINCT {self.column('j', 's')})", f"SUM({self.column('i', 'd')})",
                f"AVG({self.column('i', 'd')})", f"MIN({self.column('i', 's', 'd')})", f"MAX({self.column('n', 's')})",
            ])
            shown = groups + [fold() for _ in range(self.rng.randrange(1, 4))]
            behind = f" GROUP BY {', '.join(groups)}" if groups else ""
            if groups and self.rng.random() < 0.4:
                behind += f" HAVING {self.rng.choice(['COUNT(*) > 1', f'MIN({groups[0]}) IS NOT NULL', 'COUNT(*) < 5'])}"
        else:
            shown = [self.rng.choice([self.number, self.text])() for _ in range(self.rng.randrange(1, 5))]
            behind = ""
        distinct = "DISTINCT " if self.rng.random() < 0.2 else ""
        named = ", ".join(f"{one} AS c{at}" for at, one in enumerate(shown))
        order = [f"{at + 1}{self.rng.choice(['', ' ASC', ' DESC'])}" for at in range(len(shown))]
        order = f" ORDER BY {', '.join(order)}" if self.rng.random() < 0.6 else ""
        limit = self.rng.choice(["", f" LIMIT {self.rng.randrange(9)}", f" LIMIT {self.rng.randrange(9)} OFFSET {self.rng.randrange(5)}"])
        return f"SELECT {distinct}{named} FROM {source}{where}{behind}{order}{limit if order else ''}", bool(order)


def alike(found, is_ordered):
    """In one form: numbers as doubles of ten digits."""
    value = lambda one: (1, float(f"{one:.10g}")) if isinstance(one, (int, float)) else (0, "") if one is None else (2, one)
    shaped = [tuple(map(value, row)) for row in found]
    return shaped if is_ordered else sorted(shaped)


@pytest.mark.parametrize("seed", [1, 2, 3, None])
def test_answers_are_as_sqlites(server, native, seed):
    seed = seed or random.randrange(1 << 30)
    rng, oracle = random.Random(seed), sqlite3.connect(":memory:")
    oracle.execute("PRAGMA case_sensitive_like = ON")
    tables = [make_table(server, native, COLUMNS, k=STRING, n=INTEGER) for _ in range(2)]
    for name, count in zip(tables, [60, 15]):
        fill(rng, native, name, oracle, count)
    for number in range(150):
        statement, is_ordered = Maker(rng, tables).statement()
        expected = alike(oracle.execute(statement).fetchall(), is_ordered)
        found = alike(rows(native, statement), is_ordered)
        assert found == expected, f"seed {seed}, statement {number}: {statement}"


# By hand.


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
def test_values_are_those_of_the_protocol(server, packed):
    wrap = (lambda data: data) if packed else (lambda data: {"$binary": base64.b64encode(data).decode()})
    with Client(server, packed=packed) as native:
        name = make_table(server, native, {"i": "BIGINT", "d": "DOUBLE", "t": "BOOL", "s": "MEDIUMTEXT", "b": "MEDIUMBLOB"}, k=BINARY, n=INTEGER)
        columns = {"i": (1 << 53) + 1, "d": 1.0, "t": True, "s": "ä\0\u202e", "b": wrap(b"\x00\xff")}
        native.call("session.open", integers="text")
        big = lambda number: {"$integer": str(number)}
        native.call("row.put", table=name, key={"k": wrap(b"\xfe"), "n": big(-(1 << 63))}, columns={**columns, "i": big(columns["i"])})
        native.call("row.put", table=name, key={"k": wrap(b"\xff"), "n": 1}, columns={"i": "a text"})
        answer = ask(native, f"SELECT * FROM {name}")
        kinds = dict(k="binary", n="integer", i="integer", d="double", t="boolean", s="string", b="binary")
        assert {one["name"]: one["type"] for one in answer["columns"]} == kinds
        named = [dict(zip([one["name"] for one in answer["columns"]], row)) for row in answer["rows"]]
        assert named[0] == {"k": wrap(b"\xfe"), "n": big(-(1 << 63)), **columns, "i": big(columns["i"])}
        assert named[1] == {"k": wrap(b"\xff"), "n": 1, **dict.fromkeys(columns)}
        assert isinstance(named[0]["d"], float) and isinstance(named[1]["n"], int)
        assert "affected" not in answer and "cut" not in answer


def test_writes(server, native):
    name = make_table(server, native, {"i": "BIGINT", "s": "MEDIUMTEXT"}, k=STRING, n=INTEGER)
    written = ask(native, f"INSERT INTO {name} (k, n, i, s) VALUES ('a', 1, 5, 'it''s')")
    assert written == {"columns": [], "rows": [], "affected": 1}
    refused(native, "condition_failed", f"INSERT INTO {name} (k, n, i) VALUES ('a', 1, 6)")
    assert ask(native, f"UPDATE {name} SET i = 7 WHERE k = 'a' AND n = 1")["affected"] == 1
    assert rows(native, f"SELECT k, n, i, s FROM {name}") == [["a", 1, 7, "it's"]]
    for statement in [f"UPDATE {name} SET i = 7 WHERE k = 'a'", f"DELETE FROM {name}", f"DELETE FROM {name} WHERE n = 1"]:
        with pytest.raises(Refused) as caught:
            ask(native, statement)
        assert caught.value.reason == "invalid_params", caught.value
    assert ask(native, f"DELETE FROM {name} WHERE n = 1 AND k = 'a';")["affected"] == 1
    assert rows(native, f"SELECT * FROM {name}") == []


def test_bad_input_is_refused(server, native):
    name = make_table(server, native, {"i": "BIGINT"}, k=STRING)
    for statement in [
        "SELECT", "SELECT (", "SELECT 'a", f"SELECT * FROM {name} WHERE", f"INSERT INTO {name}", "UPDATE", ";", " ", "/* nothing */", "SELECT 1; SELECT 2",
        "nonsense", "\0", "SELECT \0", "'", "`", "(" * 1_000 + "1" + ")" * 1_000, "SELECT " + "(" * 1_000 + "1" + ")" * 1_000,
        "SELECT " + "NOT " * 1_000 + "1", "SELECT " + "-" * 1_001 + "1", "SELECT " + "1+" * 100_000 + "1", "SELECT " + "CASE WHEN 1 THEN " * 1_000,
        f"SELECT nothing FROM {name}", f"SELECT i FROM {name} GROUP BY", "SELECT NO_FUNCTION(1)", "SELECT ABS()", "SELECT ABS(1, 2)", "SELECT COUNT(COUNT(1))",
        f"SELECT * FROM {name} LIMIT -1", f"SELECT i, FROM {name}", "GRANT ALL ON x TO y", "BEGIN", "SET x = 1", "LOAD DATA INFILE '/etc/passwd' INTO TABLE x",
        f"TRUNCATE TABLE {name}", f"DROP TABLE {name}", f"SELECT * FROM {name} WHERE TEXT_MATCH(i, 'a')", f"SELECT {', '.join(['i'] * 100_000)} FROM {name}",
    ]:
        try:
            answer = ask(native, statement)
            assert len(json.dumps(answer)) < 1 << 20, statement[:80]
        except Refused as error:
            assert error.reason in ("invalid_params", "too_large"), (statement[:80], error)
            assert len(str(error)) < 4_000
    refused(native, "table_not_found", "SELECT * FROM nothing", "nothing")
    error = refused(native, "invalid_params", f"SELECT *\nFROM {name}\nWHERE (i = 1", "line")
    assert error.data["field"] == "statement"
    # The native protocol's own bounds.
    refused(native, "invalid_params", "")
    for text in ["SELECT '" + "x" * STATEMENT_BYTES_MAX + "'", "SELECT 1 -- " + "x" * (1 << 20)]:
        with pytest.raises(Refused) as caught:
            ask(native, text)
        assert caught.value.data["field"] == "statement"
    almost = "SELECT '" + "x" * (STATEMENT_BYTES_MAX - 9) + "'"
    assert len(almost) == STATEMENT_BYTES_MAX
    assert len(rows(native, almost)[0][0]) == STATEMENT_BYTES_MAX - 9
    with pytest.raises(Refused):
        native.call("sql.query")
    with pytest.raises(Refused):
        native.call("sql.query", statement=1)


def test_an_answer_that_is_too_large_is_cut_and_says_so(server, native):
    name = make_table(server, native, {"s": "MEDIUMTEXT"}, n=INTEGER)
    for number in range(40):
        native.call("row.put", table=name, key={"n": number}, columns={"s": "x" * 50_000})
    answer = ask(native, f"SELECT n, s FROM {name}")
    assert answer["cut"] is True and 10 < len(answer["rows"]) < 40
    assert [row[0] for row in answer["rows"]] == list(range(len(answer["rows"])))
    assert rows(native, f"SELECT COUNT(*), SUM(LENGTH(s)) FROM {name}") == [[40, 2_000_000.0]]
    # In a batch with others it gives way.
    call = lambda number: {"jsonrpc": "2.0", "id": number, "method": "sql.query", "params": {"statement": f"SELECT n, s FROM {name} LIMIT 15"}}
    status, _, body = server.http("POST", "/v1/rpc", json.dumps([call(1), call(2)]), {"content-type": "application/json"})
    first, second = (one["result"] for one in json.loads(body))
    assert status == 200 and len(body) < 1 << 20
    assert len(first["rows"]) == 15 and "cut" not in first
    assert second == {"columns": [], "rows": [], "cut": True}


def test_the_command(server, native):
    name = make_table(server, native, {"i": "BIGINT", "b": "MEDIUMBLOB", "s": "MEDIUMTEXT"}, k=STRING)
    written = works(server, "sql", f"INSERT INTO {name} (k, i) VALUES ('a', 5)")
    assert written == [{"columns": [], "rows": [], "affected": 1}]
    binary = {"$binary": base64.b64encode(b"\x01\xff").decode()}
    native.call("row.put", table=name, key={"k": "b\x1b[2J"}, columns={"i": -12, "b": binary})
    piped = f"-- two; statements\nSELECT k, i, b\nFROM {name};\n\nSELECT 'a;b' AS t"
    done = tideline(server, "sql", "--text", "-", input=piped)
    assert done.out.splitlines() == [
        "| k          | i   | b      |",
        "|------------|-----|--------|",
        "| a          |   5 | NULL   |",
        "| b\\u{1b}[2J | -12 | 0x01ff |",
        "(2 rows)",
        "| t   |",
        "|-----|",
        "| a;b |",
        "(1 row)",
    ], done.out
    assert works(server, "sql", input=f"SELECT i FROM {name} WHERE k = 'a'")[0]["rows"] == [[5]]
    # None is done behind one that was refused; the line is that of the input, then that of the statement.
    broken = f"SELECT 1;\n\nSELECT k\nFROM {name} WHERE (;\nINSERT INTO {name} (k) VALUES ('z');\n"
    done = tideline(server, "sql", input=broken)
    assert done.returncode == 1, done
    assert json.loads(done.out.splitlines()[0])["rows"] == [[1]] and len(done.out.splitlines()) == 1
    assert "the statement of line 3" in done.told and "line 2" in done.told, done.told
    assert rows(native, f"SELECT k FROM {name} WHERE k = 'z'") == []
    assert "table_not_found" in fails(server, 1, "sql", "SELECT * FROM nowhere")
    assert tideline(server, "sql", input="").returncode == 0


def directory(data):
    """All files of a data directory, with what is in them."""
    found = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = pathlib.Path(folder, name)
            found[str(path.relative_to(data))] = path.read_bytes()
    return found


def test_the_command_on_a_directory_that_no_server_uses(own_server, tmp_path):
    server = own_server.start()
    with Client(server) as native:
        name = make_table(server, native, {"i": "BIGINT", "s": "MEDIUMTEXT"}, k=STRING, n=INTEGER)
        for number in range(30):
            native.call("row.put", table=name, key={"k": "ab"[number % 2], "n": number}, columns={"i": number, "s": "x" * 100_000})
        native.call("timeline.create", timeline="room/1")
        native.call("message.append", timeline="room/1", entry={"text": "fog"})
        statements = [f"SELECT n, i FROM {name} WHERE k = 'a' AND n > 20", f"SELECT k, COUNT(*), SUM(i) FROM {name} GROUP BY k", "SELECT timeline_id, sequence_id FROM timeline_message", f"DESCRIBE {name}", "SHOW TABLES"]
        expected = [ask(native, statement) for statement in statements]
        error = refused(native, "invalid_params", "SELECT *\nFROM (", "line")
    on = lambda *words, **more: works(server, "sql", "--data", server.data, *words, **more)
    refusal = lambda *words, **more: fails(server, 1, "sql", "--data", server.data, *words, **more)
    # While it is served nobody else opens it.
    assert "another process is using" in refusal("SELECT 1")
    own_server.stop()
    assert on(input=";\n".join(statements)) == expected
    for statement in [f"INSERT INTO {name} (k, n) VALUES ('z', 1)", f"UPDATE {name} SET i = 1 WHERE k = 'a' AND n = 0", f"DELETE FROM {name} WHERE k = 'a' AND n = 0", f"DROP MAPPING TABLE {name}", f"ALTER TABLE {name} ADD z BIGINT"]:
        assert "only read" in refusal(statement), statement
    # What is refused is refused as by a server.
    assert error.message in refusal("SELECT *\nFROM (") and "line 2" in refusal("SELECT *\nFROM (")
    assert "table_not_found" in refusal("SELECT * FROM nowhere")
    # No frame bounds an answer.
    whole = on(f"SELECT n, s FROM {name}")[0]
    assert len(whole["rows"]) == 30 and "cut" not in whole
    before = directory(server.data)
    assert on(f"SELECT COUNT(*) FROM {name}")[0]["rows"] == [[30]]
    changed = {os.path.basename(path) for path, bytes in directory(server.data).items() if before.get(path) != bytes}
    assert changed <= {"lock", "lock.mdb", "log.state"}, changed
    # Nothing is made where nothing is, and what is no directory of ours is told.
    assert "is not a Tideline data directory" in fails(server, 1, "sql", "--data", str(tmp_path / "nothing"), "SELECT 1")
    assert not (tmp_path / "nothing").exists()
    server.start()
    with Client(server) as native:
        assert [ask(native, statement) for statement in statements] == expected


# Statements that are small and ask for much.


def text_of_4_mb():
    """A call that makes a text of 4 MB."""
    return f"REPLACE('{'a' * 1000}', 'a', '{'b' * 4000}')"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM {table} WHERE n" + " BETWEEN 0 AND 1" * 40,
        "SELECT " + "NULLIF(" * 28 + "n" + ", 9)" * 28 + " FROM {table}",
        "SELECT " + "IF(1, CASE " * 28 + "n" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END, 0)" * 28 + " FROM {table}",
        f"SELECT {text_of_4_mb()} AS a FROM {{table}} HAVING a IN ({', '.join('a' * 1_900)})",
        f"SELECT {text_of_4_mb()} AS a FROM {{table}} ORDER BY {', '.join('a' * 1_900)}",
        f"SELECT CASE {text_of_4_mb()}{' WHEN 1 THEN 1' * 300} END",
        f"SELECT CONCAT({', '.join([text_of_4_mb()] * 50)})",
        "SELECT 1" + " + 1" * 20_000,
        "SELECT 1" + " + 1" * 1_900 + " AS a",
        "SELECT 1" + " + 1" * 1_900,
        "SELECT n FROM {table} LIMIT 1" + " + 1" * 1_900,
        "UPDATE {table} SET i = 1" + " + 1" * 1_900 + " WHERE k = 'a' AND n = 1",
        "EXPLAIN SELECT 1" + " + 1" * 1_900,
    ],
)
def test_small_statements_that_ask_for_much_are_refused(server, native, statement):
    table = make_table(server, native, {"i": "BIGINT"}, k=STRING, n=INTEGER)
    native.call("row.put", table=table, key={"k": "a", "n": 1}, columns={"i": 1})
    with pytest.raises(Refused) as caught:
        ask(native, statement.format(table=table))
    assert caught.value.reason in ("invalid_params", "too_large", "overloaded"), caught.value
    assert rows(native, f"SELECT n FROM {table}") == [[1]]
