"""Every client, as it ships, plays every scenario; and with a planted bug it fails."""

import asyncio
import itertools

import pytest

import suite

ALL = suite.scenarios()
FILES = {name: list(group) for name, group in itertools.groupby(ALL, key=lambda one: one["file"])}
#: The scenarios that a planted bug is to be found by.
CAUGHT_BY = {"no_gap_check": "reading", "new_ids": "outbox", "older_wins": "changes", "page_as_it_came": "older", "part_grows_on": "growing"}


def play(packages, client, wanted, **options):
    if client not in packages:
        pytest.skip(f"there is no client for {client}")
    return asyncio.run(suite.play_all(client, wanted, package=packages[client], **options))


@pytest.mark.parametrize("client", sorted(suite.CLIENTS))
@pytest.mark.parametrize("file", sorted(FILES))
def test_scenarios(packages, client, file):
    failed = play(packages, client, FILES[file])
    assert not failed, "\n\n".join(failed.values())


@pytest.mark.parametrize("client", sorted(suite.CLIENTS))
@pytest.mark.parametrize("bug", suite.BUGS)
def test_a_planted_bug_is_found(packages, client, bug):
    assert play(packages, client, FILES[CAUGHT_BY[bug]], bug=bug, until_failed=True)
