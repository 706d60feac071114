"""Where the packages' files are, the binary that goes into them, and what a test needs of the machine."""

import os
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
BINARY = os.environ["TIDELINE_BIN"]
# Tests that take a minute, root or programs of Debian; packaging/README.md has the command.
IS_WHOLE = os.environ.get("TIDELINE_PACKAGES") == "all"


def only_whole(reason, *programs):
    """Left out by the test command, and where a program is missing or nobody is root."""
    if not IS_WHOLE:
        return pytest.mark.skip(reason=f"{reason}: TIDELINE_PACKAGES=all runs it")
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"{reason}: run it as root") if has(*programs) else needs(*programs)


def has(*programs):
    return all(shutil.which(program) for program in programs)


def needs(*programs):
    return pytest.mark.skipif(not has(*programs), reason=f"not installed: {' '.join(one for one in programs if not has(one))}")
