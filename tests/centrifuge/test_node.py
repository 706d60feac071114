"""The SDK for JavaScript, and the scripts of docs/CENTRIFUGE.md as they are printed there."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from sdk import KEY, SECRET
from server import free_port

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "CENTRIFUGE.md"

needs_node = pytest.mark.skipif("TIDELINE_NODE" not in os.environ, reason="cargo test says where Node is")


def node(script, folder, **environment):
    """Runs a module beside which the packages are."""
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(os.environ["TIDELINE_NODE_MODULES"])
    return [os.environ["TIDELINE_NODE"], *script], {**os.environ, **environment}


def run(command, environment, folder):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=folder)


@needs_node
def test_the_sdk_for_javascript(insecure, tmp_path):
    file = shutil.copy(HERE / "node" / "sdk.test.mjs", tmp_path)
    environment = {"TIDELINE_ADDRESS": f"127.0.0.1:{insecure.port}", "TIDELINE_KEY": KEY, "TIDELINE_SECRET": SECRET}
    command, environment = node(["--test", file], tmp_path, **environment)
    done = run(command, environment, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("language", ["python", pytest.param("js", marks=needs_node)])
def test_the_scripts_of_the_page_run_as_printed(tmp_path, language):
    page = PAGE.read_text().split("\n## Begin\n", 1)[1].split("\n## ", 1)[0]
    (config,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    (script,) = re.findall(rf"```{language}\n(.*?)```", page, re.S)
    (shell,) = re.findall(r"```console\n\$ (.*?)\n```", page, re.S)
    subprocess.run(["bash", "-c", shell], cwd=tmp_path, check=True)
    (printed,) = re.findall(r"```text\n(.*?)```", page, re.S)
    assert len(script.splitlines()) <= 60 and script.count("127.0.0.1:7070") == 1
    (tmp_path / "centrifuge.toml").write_text(config)
    file = tmp_path / {"python": "script.py", "js": "script.mjs"}[language]
    file.write_text(script.replace("127.0.0.1:7070", f"127.0.0.1:{free_port()}"))
    binaries = pathlib.Path(os.environ["TIDELINE_BIN"]).parent
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    if language == "python":
        command, environment = [sys.executable, file], {**os.environ}
    else:
        command, environment = node([file], tmp_path)
    done = run(command, {**environment, "PATH": path}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
