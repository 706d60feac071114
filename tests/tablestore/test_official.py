"""The tests that the SDKs themselves come with, as they are, against our server: those of SQL, in Python and in Node.

Owns: how they are found and started. The Python ones lie in the source archive of 6.1.0, which is fetched from PyPI once,
and run with the SDK of that archive and with ours; the Node ones lie in the package. Must not: change a line of them.
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
# They sleep for a minute after each table, which here is there at once.
AT_ONCE = "import sys, time, pytest; time.sleep = lambda _: None; sys.exit(pytest.main(sys.argv[1:]))"


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
@pytest.mark.parametrize("sdk", ["its own", "ours"])
def test_sql_of_python(server, archive, tmp_path, sdk):
    if sdk == "its own":
        path = [archive, archive / "tablestore" / "flatbuffer"]
    else:
        (tmp_path / "tests").symlink_to(archive / "tests")
        path = [tmp_path]
    environment = {
        **os.environ,
        "OTS_TEST_ENDPOINT": server.origin,
        "OTS_TEST_ACCESS_KEY_ID": "development",
        "OTS_TEST_ACCESS_KEY_SECRET": "development",
        "OTS_TEST_INSTANCE": "tideline",
        "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")]),
    }
    suite = [sys.executable, "-c", AT_ONCE, "-q", "-p", "no:cacheprovider", "--rootdir", str(path[0]), "tests/sql_query_test.py"]
    done = subprocess.run(suite, capture_output=True, text=True, timeout=120, env=environment, cwd=path[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.skipif("TIDELINE_NODE" not in os.environ, reason="cargo test says where Node is")
def test_sql_of_node(server):
    environment = {
        **os.environ,
        "accessKeyId": "development",
        "secretAccessKey": "development",
        "endpoint": server.origin,
        "instancename": "tideline",
    }
    suite = pathlib.Path(os.environ["NODE_PATH"]) / "tablestore" / "test" / "sql.test.js"
    command = [os.environ["TIDELINE_NODE"], "--require", str(HERE / "node" / "mocha.js"), str(suite)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^(# |ℹ )pass 8$", done.stdout, re.M), done.stdout
