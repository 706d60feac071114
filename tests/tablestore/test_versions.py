"""Versions: how they are given, how many and how long they are seen, and how a table's options change that."""

import time

import pytest
from tablestore import TableOptions

from sdk import get, invalid, key, now_ms, put, scan, update, values


def test_automatic_versions_of_a_column_rise(client, make_table):
    name = make_table(max_version=10)
    before = now_ms()
    for number in range(10):
        update(client, name, "a", PUT=[("c", number)])
    found = get(client, name, "a", max_version=10)
    assert [value for _, value, _ in found] == list(range(9, -1, -1))
    versions = [version for _, _, version in found]
    assert len(set(versions)) == 10 and versions == sorted(versions, reverse=True)
    assert before <= versions[-1] + 1 and versions[0] <= now_ms() + 10


def test_only_the_newest_versions_are_seen(client, make_table):
    name = make_table(max_version=3)
    now = now_ms()
    for back in [5, 1, 4, 2, 3]:
        update(client, name, "a", PUT=[("c", back, now - back)])
    every = [("c", back, now - back) for back in [1, 2, 3]]
    for asked in [1, 2, 3, 100]:
        assert get(client, name, "a", max_version=asked) == every[:asked]
    # What is older than the newest three is taken, and is not seen.
    update(client, name, "a", PUT=[("c", 9, now - 9)])
    assert get(client, name, "a", max_version=9) == every


def test_versions_are_counted_per_column(client, make_table):
    name = make_table(max_version=2)
    now = now_ms()
    put(client, name, "a", [(column, n, now - n) for column in "ab" for n in range(3)])
    assert get(client, name, "a", max_version=5) == [(column, n, now - n) for column in "ab" for n in range(2)]


def test_a_deleted_version_shows_the_one_below(client, make_table):
    name = make_table(max_version=3)
    now = now_ms()
    put(client, name, "a", [("c", n, now - n) for n in range(3)])
    update(client, name, "a", DELETE=[("c", None, now)])
    assert get(client, name, "a") == [("c", 1, now - 1)]


def test_times_are_read_from_and_up_to(client, make_table):
    name = make_table(max_version=10)
    now = now_ms()
    put(client, name, "a", [("c", n, now - n) for n in range(6)])

    def numbers(**selection):
        columns = get(client, name, "a", **selection)
        return columns and [value for _, value, _ in columns]

    assert numbers(max_version=None, time_range=(now - 3, now)) == [1, 2, 3]
    assert numbers(max_version=2, time_range=(now - 3, now)) == [1, 2]
    assert numbers(max_version=None, time_range=(0, now + 1)) == [0, 1, 2, 3, 4, 5]
    assert numbers(max_version=None, time_range=now - 4) == [4]
    assert not numbers(max_version=None, time_range=(0, 5))
    limit = 2**63 // 1000
    for time_range, text in [
        ((-1, 5), "Timestamp must be in range [0, INT64_MAX/1000)."),
        ((0, limit + 1), "Timestamp must be in range [0, INT64_MAX/1000)."),
        (-1, "Timestamp must be in range [0, INT64_MAX/1000)."),
    ]:
        with invalid(text):
            numbers(max_version=None, time_range=time_range)
    with invalid("Specific tiemstamp and max versions cannot be given at the same time."):
        numbers(max_version=1, time_range=now)
    with invalid("No version condition is specified."):
        numbers(max_version=None)
    with invalid("No version condition is specified."):
        scan(client, name, max_version=None)
    for versions in [0, -1]:
        with invalid(f"Invalid max versions: {versions} . Reason: Max versions must be positive."):
            numbers(max_version=versions)


def test_what_is_over_is_not_seen_nor_its_row(client, make_table):
    name = make_table(max_version=3)
    now = now_ms()
    put(client, name, "both", [("new", 1, now), ("old", 1, now - 50_000_000)])
    put(client, name, "old", [("old", 1, now - 50_000_000)])
    client.update_table(name, TableOptions(40_000, None, None))
    assert get(client, name, "both") == [("new", 1, now)]
    assert get(client, name, "old") is None
    assert scan(client, name) == [["both"]]
    # The version's own time counts, not that of the write: what would be over at once is refused.
    with invalid("Invalid timestamp. Cell:c."):
        put(client, name, "late", [("c", 1, now - 50_000_000)])
    client.update_table(name, TableOptions(30_000_000, None, None))
    assert get(client, name, "both")[0] == ("new", 1, now)


def test_a_row_goes_when_its_time_is_over(client, make_table):
    name = make_table(time_to_live=1)
    put(client, name, "a", [("c", 1)])
    deadline = time.monotonic() + 60
    while get(client, name, "a") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert scan(client, name) == []
    put(client, name, "a", [("d", 2)])


def test_fewer_versions_hide_at_once(client, make_table):
    name = make_table(max_version=5)
    now = now_ms()
    put(client, name, "a", [("c", n, now - n) for n in range(5)])
    client.update_table(name, TableOptions(None, 2, None))
    assert get(client, name, "a", max_version=5) == [("c", 0, now), ("c", 1, now - 1)]
    client.update_table(name, TableOptions(None, 5, None))
    # What was hidden may show again, until it is reclaimed.
    found = get(client, name, "a", max_version=5)
    every = [("c", n, now - n) for n in range(5)]
    assert found in [every[:count] for count in range(2, 6)]


@pytest.mark.parametrize("offset", [1000, 0])
def test_the_offset_of_versions_is_checked_when_they_are_written(client, make_table, offset):
    name = make_table(max_time_deviation=offset)
    now = now_ms()
    far = (offset + 3600) * 1000
    for version in [now - far, now + far]:
        with invalid("Invalid timestamp. Cell:c."):
            put(client, name, "a", [("b", 1), ("c", 1, version)])
        with invalid("Invalid timestamp. Cell:c."):
            update(client, name, "a", PUT=[("c", 1, version)])
    assert get(client, name, "a") is None
    put(client, name, "a", [("c", 1)] if offset == 0 else [("c", 1, now - 1000)])
    client.update_table(name, TableOptions(None, None, 2**63 // 1_000_000))
    put(client, name, "a", [("c", 2, 0), ("d", 2, now + far)])
    assert get(client, name, "a") == [("c", 2, 0), ("d", 2, now + far)]


def test_an_expired_cell_counts_as_none_for_conditions(client, make_table):
    name = make_table()
    put(client, name, "a", [("c", 1, now_ms() - 50_000_000)])
    client.update_table(name, TableOptions(40_000, None, None))
    update(client, name, "a", INCREMENT=[("c", 5)])
    assert values(client, name, key("a")) == [("c", 5)]
