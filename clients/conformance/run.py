"""Plays scenarios by hand: `python run.py python`, `python run.py javascript a_gap_in_a_push`.

With `--bug NAME` the client has that planted bug, and something must fail.
"""

import argparse
import asyncio
import sys

import suite


async def main(client, names, bug):
    failed = await suite.play_all(client, [one for one in suite.scenarios() if not names or one["name"] in names], bug)
    for name, why in failed.items():
        print(f"FAILED {name}\n  {why}")
    print(f"{client}: {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=sorted(suite.CLIENTS))
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--bug")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.client, given.scenario, given.bug)))
