"""A cluster whose machines do not hear each other, or lose messages of NATS: the short form of tests/faults/cluster.py, of
what no other test does to real servers.

docs/CLUSTER.md: what was acknowledged is there once and in order, at all nodes alike, and nobody is told anything old.
"""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "faults" / "cluster.py"


def besieged(*words):
    ran = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_owner_that_hears_nobody_or_is_not_heard_and_answers_that_are_lost():
    said = besieged("--rounds", "1", "--fault", "deaf-owner", "--fault", "lost-answers")
    assert "2 faults, 1 rounds of each: 0 broken" in said


def test_an_acknowledgement_before_the_logs_is_noticed():
    if os.environ.get("TIDELINE_FAULTS") != "1":
        pytest.skip("a build without faults")
    said = besieged("--rounds", "5", "--fault", "kill-both", "--control", "member_answers_early")
    assert "was acknowledged" in said or "lost" in said
