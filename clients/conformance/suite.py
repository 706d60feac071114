"""The scenarios, and the clients that they are played against.

Owns: where the adapters are, and how scenarios with several values are written out. Must not: know pytest.
"""

import json
import os
import pathlib
import sys

from harness import Adapter, Failed, play

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = {
    "python": [sys.executable, str(HERE / "adapters" / "python.py")],
    "javascript": [os.environ.get("TIDELINE_NODE", "node"), str(HERE / "adapters" / "javascript.mjs")],
}
BUGS = ("no_gap_check", "new_ids", "older_wins", "page_as_it_came", "part_grows_on")


def adapter(client, package=None):
    """A process with the client of an installed package; without one with that of the source beside this."""
    return Adapter(CLIENTS[client], {"TIDELINE_CLIENT": str(package)} if package else {})


def with_value(steps, value):
    """Steps in which `"$"` stands for a value."""
    if isinstance(steps, list):
        return [with_value(one, value) for one in steps]
    if isinstance(steps, dict):
        return {name: with_value(one, value) for name, one in steps.items()}
    return value if steps == "$" else steps


def scenarios():
    """All, with `for` and `each` written out."""
    found = []
    for path in sorted((HERE / "scenarios").glob("*.json")):
        for scenario in json.loads(path.read_text()):
            steps = []
            for step in scenario["steps"]:
                if "each" in step:
                    steps += [one for value in step["each"] for one in with_value(step["steps"], value)]
                else:
                    steps.append(step)
            for value in scenario.get("for", [None]):
                name = scenario["name"] if value is None else f"{scenario['name']}_{value}"
                found.append(scenario | {"file": path.stem, "name": name, "steps": with_value(steps, value) if value is not None else steps})
    return found


async def play_all(client, wanted, bug=None, until_failed=False, package=None):
    """Plays them in one process of the client, as far as they leave it alive. What failed, and why, by name."""
    failed, driven = {}, adapter(client, package)
    for scenario in wanted:
        try:
            await play(scenario, driven, bug)
        except Failed as error:
            failed[scenario["name"]] = str(error)
            await driven.kill()
            if until_failed:
                break
    await driven.end()
    return failed
