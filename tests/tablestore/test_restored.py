"""The drill of docs/BACKUP.md, as a back end sees it that uses Tablestore's SDK; and D9 of docs/FAULTS.md, in short."""

import os
import pathlib
import sys

import pytest
from tablestore import (
    INF_MAX, INF_MIN, PK_AUTO_INCR, CapacityUnit, OTSServiceError, ReservedThroughput, ReturnType, Row, TableMeta, TableOptions,
)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "faults"))

import backups
from drill import prepared, set_back
from sdk import IGNORE, connect, values
from test_series import identity, make, named, pages, point, query
from test_streams import enabled, follow, iterator, records, shards


def numbered(client, count, text):
    """Puts so many rows with numbers that the server gives; returns the numbers."""
    found = []
    for _ in range(count):
        row = Row([("p", "a"), ("n", PK_AUTO_INCR)], [("c", text)])
        found.append(client.put_row("numbered", row, IGNORE, ReturnType.RT_PK)[1].primary_key[1][1])
    return found


def test_a_restored_server_has_the_rows_of_then_and_says_that_streams_are_lost(own_server):
    client = connect(prepared(own_server).start())
    schema = [("p", "STRING"), ("n", "INTEGER", PK_AUTO_INCR)]
    client.create_table(TableMeta("numbered", schema), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    stream, at = enabled(client, "numbered")
    kept = numbered(client, 5, "kept")
    read, at = follow(client, at)
    assert len(read) == 5

    def lose():
        client.delete_row("numbered", Row([("p", "a"), ("n", kept[0])]), IGNORE)
        client.update_row("numbered", Row([("p", "a"), ("n", kept[1])], {"PUT": [("c", "lost")]}), IGNORE)
        return numbered(client, 3, "lost")

    lost = set_back(own_server, lose)
    # The same client goes on.
    found = {}
    for row in client.xget_range(
        "numbered", "FORWARD", [("p", "a"), ("n", INF_MIN)], [("p", "a"), ("n", INF_MAX)], CapacityUnit(0, 0)
    ):
        found[row.primary_key[1][1]] = row.attribute_columns[0][1]
    assert found == dict.fromkeys(kept, "kept")
    assert values(client, "numbered", [("p", "a"), ("n", lost[0])]) is None
    # What was read of the stream may be of the past that is lost: no iterator goes on as if nothing had been.
    with pytest.raises(OTSServiceError) as refused:
        records(client, at)
    assert refused.value.code == "OTSTrimmedDataAccess", refused.value
    new = numbered(client, 4, "new")
    assert sorted({*kept, *new}) == list(range(kept[0], kept[0] + 9))
    (shard,) = shards(client, stream)
    seen = [one.cells[0][1] for one in follow(client, iterator(client, stream, shard))[0]]
    assert "lost" not in seen and seen[-4:] == ["new"] * 4


def test_series_come_back_with_what_is_known_of_them(own_server):
    client = connect(prepared(own_server).start())
    make(client, "series")
    for number in range(5):
        point(client, "series", named(n=str(number)), number, v=number)

    def lose():
        point(client, "series", named("late"), 1, v=1)
        client.delete_timeseries_table("series")
        make(client, "series", keys=["a"])

    set_back(own_server, lose)
    assert query(client, "series") == {identity(named(n=str(number))): {} for number in range(5)}
    assert pages(client, "series", named(n="3")) == [(3, {"v": 3})]


@pytest.mark.parametrize("control", [False, True])
def test_what_is_restored_of_a_server_at_work_is_a_prefix_of_each_history(control):
    faults = backups.run(rounds=3, rate=1_000 if control else 500, control=control)
    if control:
        expected = [True, os.environ.get("TIDELINE_FAULTS") == "1"]
        assert backups.noticed(faults) == expected, faults
    else:
        assert not faults
