"""Each client, as it ships, in random runs against a plain model. `TIDELINE_RANDOM_RUNS` says how many; few by default.

What fails prints its seed: `python random_runs.py CLIENT 1 --seed SEED` is that run again.
"""

import asyncio
import os
import random

import pytest

import random_runs
import suite

RUNS = int(os.environ.get("TIDELINE_RANDOM_RUNS", "5"))


@pytest.mark.parametrize("client", sorted(suite.CLIENTS))
def test_random_runs_end_as_the_model(packages, client):
    if client not in packages:
        pytest.skip(f"there is no client for {client}")
    first = random.randrange(1 << 32)
    assert asyncio.run(random_runs.play(client, range(first, first + RUNS), packages[client])) == {}
