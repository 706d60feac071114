"""The tests that the SDKs themselves come with, as they are, against our server: those of searches, of SQL and of
time series, in Python, and the first two in Node.

Owns: how they are found and started. The Python ones lie in the source archive of 6.1.0, which is fetched from PyPI once,
and run with the SDK of that archive, those of SQL and of time series with ours too; the Node ones lie in the package. Most of the Python ones write their
rows one by one before each test: `TIDELINE_LONG=1` runs these too. Must not: change a line of them.
"""

import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

HERE = pathlib.Path(__file__).parent
VERSION = "6.1.0"
# They sleep for minutes after each table and index, which here are there at once; one sleeps until a scan has expired.
# One reads the clock twice in a row and wants two points of it: each reading is of a microsecond of its own.
AT_ONCE = """
import sys, time, pytest
real, clock = time.sleep, time.time
time.time = lambda: (real(2e-6), clock())[1]
time.sleep = lambda seconds: real(seconds) if sys._getframe(1).f_code.co_name.endswith("_expired") else None
sys.exit(pytest.main(sys.argv[1:]))
"""
LONG = "TIDELINE_LONG" in os.environ


@pytest.fixture(scope="module")
def archive():
    """The unpacked source archive of the Python SDK."""
    home = pathlib.Path(os.environ["TIDELINE_SUITES"])
    unpacked = home / f"tablestore-{VERSION}"
    if not unpacked.exists():
        home.mkdir(parents=True, exist_ok=True)
        download = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "tablestore"]
        done = subprocess.run([sys.executable, *download, f"tablestore=={VERSION}", "-d", home], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        with tarfile.open(home / f"{unpacked.name}.tar.gz") as packed:
            packed.extractall(home, filter="data")
    return unpacked


@pytest.mark.skipif("TIDELINE_SUITES" not in os.environ, reason="cargo test says where the suites are kept")
@pytest.mark.parametrize(
    "suite, sdk, count",
    [("timeseries_api", sdk, 3) for sdk in ["its own", "ours"]]
    + [("timeseries_meta_condition", sdk, 1) for sdk in ["its own", "ours"]]
    + [("sql_query", "its own", 2), ("sql_query", "ours", 2), ("search_index", "its own", 2), ("full_text_search", "its own", 2)]
    + [(suite, "its own", count) for suite, count in [("parallel_scan", 9), ("agg", 17), ("group_by", 6)] if LONG],
)
def test_suites_of_python(own_server, archive, tmp_path, suite, sdk, count):
    if sdk == "its own":
        path = [archive, archive / "tablestore" / "flatbuffer"]
    else:
        (tmp_path / "tests").symlink_to(archive / "tests")
        path = [tmp_path]
    own_server.start()
    environment = {
        **os.environ,
        "OTS_TEST_ENDPOINT": own_server.origin,
        "OTS_TEST_ACCESS_KEY_ID": "development",
        "OTS_TEST_ACCESS_KEY_SECRET": "development",
        "OTS_TEST_INSTANCE": "tideline",
        "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", AT_ONCE, "-q", "-p", "no:cacheprovider", "--rootdir", str(path[0]), f"tests/{suite}_test.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, cwd=path[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout, done.stdout


@pytest.mark.skipif("TIDELINE_NODE" not in os.environ, reason="cargo test says where Node is")
@pytest.mark.parametrize("suite, count", [("sql", 8), ("search", 13), ("search_old", 28)])
def test_suites_of_node(own_server, suite, count):
    own_server.start()
    environment = {
        **os.environ,
        "accessKeyId": "development",
        "secretAccessKey": "development",
        "endpoint": own_server.origin,
        "instancename": "tideline",
    }
    suite = pathlib.Path(os.environ["NODE_PATH"]) / "tablestore" / "test" / f"{suite}.test.js"
    command = [os.environ["TIDELINE_NODE"], "--require", str(HERE / "node" / "mocha.js"), str(suite)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^(# |ℹ )pass {count}$", done.stdout, re.M), done.stdout
