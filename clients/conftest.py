"""The packages as they ship, and a server: what the tests of all clients share.

Owns: `python -m build` and `npm pack`, each once, and where their packages were unpacked. Promises: what is tested is
what a user would install. Must not: need the network.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "conformance"), str(HERE / "python"), str(HERE.parent / "tests" / "python")]

from server import Server  # noqa: E402


def build_python(folder):
    """The wheel, made from the source archive, installed into a folder."""
    source = shutil.copytree(HERE / "python", folder / "source", ignore=shutil.ignore_patterns("__pycache__", "dist"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", at=source)
    assert len(list((folder / "dist").glob("*.tar.gz"))) == 1
    (wheel,) = (folder / "dist").glob("*.whl")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run(*pip, "--target", folder / "installed", wheel, at=folder)
    return folder / "installed"


def build_javascript(folder):
    npm = os.environ.get("TIDELINE_NPM", "npm").split()
    folder.mkdir()
    run(*npm, "pack", "--silent", "--pack-destination", folder, HERE / "javascript", at=folder)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    return folder / "package"


def run(*command, at):
    ran = subprocess.run(command, cwd=at, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"


@pytest.fixture(scope="session")
def packages(tmp_path_factory, worker_id):
    """Where the installed packages are, by client; made by the first worker that asks."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "packages"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        places = {}
        for name, build in (("python", build_python), ("javascript", build_javascript)):
            if not (HERE / name).is_dir():
                continue
            done = shared / f"{name}.done"
            if not done.exists():
                shutil.rmtree(shared / name, ignore_errors=True)
                done.write_text(str(build(shared / name)))
            places[name] = done.read_text()
    return places


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("shared")).start()
    yield running
    running.kill()
