"""Data directories that earlier releases wrote, kept in `tests/formats/`: each is whole, answers as its release did, and goes on."""

import json
import pathlib
import shutil
import sys

import pytest
from tablestore import PK_AUTO_INCR, ReturnType, Row

from sdk import IGNORE, connect, put, values

FORMATS = pathlib.Path(__file__).resolve().parent.parent / "formats"
sys.path.append(str(FORMATS))

from make import CONFIG, answers, offline, rpc  # noqa: E402

RELEASES = sorted(path.parent.name for path in FORMATS.glob("*/expected.json"))


def assert_holds(now, then):
    """Everything that was said then is said now; objects may have got more members since."""
    if isinstance(then, dict):
        for name, value in then.items():
            assert_holds(now[name], value)
    elif isinstance(then, list):
        assert len(now) == len(then)
        for one, other in zip(now, then):
            assert_holds(one, other)
    elif isinstance(then, str) and then.startswith("{"):
        assert_holds(json.loads(now), json.loads(then))
    else:
        assert now == then


@pytest.mark.parametrize("release", RELEASES)
def test_a_directory_of_an_earlier_release_is_served(own_server, release):
    expected = json.loads((FORMATS / release / "expected.json").read_text())
    shutil.copytree(FORMATS / release / "data", own_server.data)
    offline(own_server.binary, "verify", own_server.data)
    assert_holds(offline(own_server.binary, "dump", own_server.data), expected["dump"])
    own_server.config = CONFIG
    assert_holds(answers(own_server.start()), expected["answers"])
    # Now with everything in the image.
    assert own_server.stop() == 0
    offline(own_server.binary, "verify", own_server.data)
    assert_holds(offline(own_server.binary, "dump", own_server.data), expected["dump"])
    assert_holds(answers(own_server.start()), expected["answers"])
    goes_on(own_server, expected["answers"])
    assert own_server.stop() == 0
    offline(own_server.binary, "verify", own_server.data)


def test_control_a_directory_that_answers_otherwise_is_noticed(own_server):
    release = RELEASES[-1]
    expected = json.loads((FORMATS / release / "expected.json").read_text())
    shutil.copytree(FORMATS / release / "data", own_server.data)
    own_server.config = CONFIG
    appended = rpc(own_server.start(), "message.append", timeline="edited", entry={"text": "one more"})
    assert appended["sequence"] == expected["answers"]["timeline edited"][0]["head"] + 1
    with pytest.raises(AssertionError):
        assert_holds(answers(own_server), expected["answers"])


def goes_on(server, found):
    """Numbers follow those that were given, and rows can be written."""
    for name in ["edited", "long", "trimmed"]:
        before = found[f"timeline {name}"][0]
        appended = rpc(server, "message.append", timeline=name, entry={"text": "new"})
        assert (appended["sequence"], appended["epoch"]) == (before["head"] + 1, before["epoch"])
    client = connect(server)
    given = [key[1] for key, _ in found["table numbered"][3] if key[0] == "a"]
    row = Row([("p", "a"), ("n", PK_AUTO_INCR)], [("text", "new")])
    _, returned = client.put_row("numbered", row, IGNORE, ReturnType.RT_PK)
    assert returned.primary_key == [("p", "a"), ("n", max(given) + 1)]
    put(client, "narrow", "row 00", [("c", 1)])
    assert values(client, "narrow", "row 00") == [("c", 1)]
