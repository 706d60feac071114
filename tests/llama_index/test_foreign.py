"""The tests that packages on top of Tablestore's searches come with, as they are: `tablestore-for-agent-memory`, and LlamaIndex's vector store.

Owns: how they are started. They lie in the packages' repositories only: `TIDELINE_AGENT_MEMORY` names the folder `python` of a checkout of
`aliyun/alibabacloud-tablestore-for-agent-memory`, `TIDELINE_VECTOR_STORE` the folder `tests` of that of the store in
`run-llama/llama_index`. Must not: change a line of them.
"""

import os
import subprocess
import sys

import pytest

from fixtures import own_server  # noqa: F401, pytest finds it here

# They sleep after each table and index, which here are there at once.
AT_ONCE = "import sys, time, pytest; time.sleep = lambda _: None; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.parametrize("folder, tests, count", [("TIDELINE_AGENT_MEMORY", "tests", 17), ("TIDELINE_VECTOR_STORE", ".", 2)])
def test_their_own_tests_pass(own_server, folder, tests, count):
    if folder not in os.environ:
        pytest.skip(f"{folder} says where they are")
    own_server.start()
    named = {
        "end_point": own_server.origin,
        "instance_name": "tideline",
        "access_key_id": "development",
        "access_key_secret": "development",
    }
    environment = {**os.environ, **named, **{f"tablestore_{name}": value for name, value in named.items()}}
    command = [sys.executable, "-c", AT_ONCE, "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=os.environ[folder])
    assert done.returncode == 0 and f"{count} passed" in done.stdout, done.stdout + done.stderr
