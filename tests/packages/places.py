"""Where the packages' files are, and the binary that goes into them."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
BINARY = os.environ["TIDELINE_BIN"]
# Tests that take minutes, root or programs of Debian; packaging/README.md has the command.
IS_WHOLE = os.environ.get("TIDELINE_PACKAGES") == "all"


def only_whole(reason):
    return pytest.mark.skipif(not IS_WHOLE, reason=f"{reason}: TIDELINE_PACKAGES=all runs it")
