"""The container's root file system: the server alone, run in it by chroot as a container's runtime would.

Promises: it needs nothing that is not in there. With `buildah` the image itself is built from it by the Containerfile.
Must not: pull an image.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from places import BINARY, PACKAGING, needs, only_whole
from server import free_port

pytestmark = only_whole("changes its root", "ldd", "strip")
CONTAINER = PACKAGING / "container"
IDS = "65532"


@pytest.fixture(scope="module")
def image_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("container") / "root"
    subprocess.run([CONTAINER / "root.sh", BINARY, root], check=True)
    # An image begins with a folder that its user may enter.
    root.chmod(0o755)
    return root


def inside(root, *command, **environment):
    # As a runtime does: without root, with no environment but the image's, without a shell.
    prefix = [shutil.which("chroot"), f"--userspec={IDS}:{IDS}", root]
    return [*prefix, "/usr/bin/tideline", *command], {"TIDELINE_DATA": "/var/lib/tideline", **environment}


def test_it_holds_the_server_and_no_other_program(image_root):
    programs = {path.name for path in image_root.rglob("*") if path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name}
    assert programs == {"tideline"}
    for user in (image_root / "etc/passwd").read_text().splitlines():
        assert user.split(":")[2] == IDS
    size = sum(path.stat().st_size for path in image_root.rglob("*") if path.is_file())
    print(f"\n{size / 1e6:.0f} MB in {sum(1 for path in image_root.rglob('*') if path.is_file())} files")


def test_it_serves_and_its_health_is_asked_by_itself(image_root):
    listen = f"0.0.0.0:{free_port()}"
    url = f"http://127.0.0.1:{listen.split(':')[1]}"
    command, environment = inside(image_root, "serve", "--insecure", TIDELINE_LISTEN=listen)
    check, _ = inside(image_root, "ready")
    assert subprocess.run(check, env={"TIDELINE_URL": url}, capture_output=True).returncode == 3
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 60
        while (asked := subprocess.run(check, env={"TIDELINE_URL": url}, capture_output=True, text=True)).returncode:
            assert time.monotonic() < until and server.poll() is None, asked.stderr
            time.sleep(0.1)
        assert asked.stdout == "ready\n"
        send, _ = inside(image_root, "send", "lobby", "the tide is in")
        said = subprocess.run(send, env={"TIDELINE_URL": url}, capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["sequence"] == 1
    finally:
        server.terminate()
        log, _ = server.communicate()
    assert server.returncode == 0, log


def test_without_a_word_on_who_may_come_it_does_not_serve(image_root):
    command, environment = inside(image_root, "serve", TIDELINE_LISTEN="0.0.0.0:7070")
    said = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert said.returncode == 1 and "[auth]" in said.stderr


def test_compose_takes_its_file(tmp_path):
    compose = pathlib.Path(sys.executable).with_name("docker-compose")
    if not compose.exists():
        pytest.skip("tests/packages/requirements.txt is not installed")
    said = subprocess.run([compose, "-f", CONTAINER / "compose.yaml", "config", "--format", "json"], capture_output=True, text=True)
    assert said.returncode == 0 and not said.stderr, said.stderr
    assert json.loads(said.stdout)["services"]["prometheus"]["depends_on"]["tideline"]["condition"] == "service_healthy"
    (tmp_path / "compose.yaml").write_text((CONTAINER / "compose.yaml").read_text().replace("read_only:", "readonly:"))
    # Its wrapper for Python swallows the exit code.
    assert "'readonly' not allowed" in subprocess.run([compose, "-f", tmp_path / "compose.yaml", "config"], capture_output=True, text=True).stderr


@needs("buildah")
def test_the_image_is_what_the_containerfile_says(tmp_path, image_root):
    """With a stage `build` that is there already: what compiles is an image of others, which is not pulled here."""
    (tmp_path / "build").mkdir()
    shutil.copytree(image_root, tmp_path / "build" / "root-of-image")
    storage = ["--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    final = (CONTAINER / "Containerfile").read_text().partition("FROM scratch")
    (tmp_path / "Containerfile").write_text("".join(final[1:]))
    build = ["buildah", *storage, "build", "--isolation", "chroot", "--format", "docker", "--build-context", f"build={tmp_path / 'build'}", "-t", "tideline"]
    built = subprocess.run([*build, "-f", tmp_path / "Containerfile", tmp_path], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    told = subprocess.run(["buildah", *storage, "inspect", "--type", "image", "tideline"], capture_output=True, text=True, check=True)
    config = json.loads(told.stdout)["Docker"]["config"]
    assert config["User"] == f"{IDS}:{IDS}" and config["Entrypoint"] == ["/usr/bin/tideline"] and config["Cmd"] == ["serve"]
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/tideline", "ready"]
    assert "/var/lib/tideline" in config["Volumes"] and "7070/tcp" in config["ExposedPorts"]
