"""The page's first program runs as it is printed."""

import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_the_first_program_runs_as_printed(packages, server, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([packages["python"], os.environ.get("PYTHONPATH", "")])}
    text = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert "127.0.0.1:7070" in text
    (tmp_path / "first.py").write_text(text.replace("127.0.0.1:7070", f"127.0.0.1:{server.port}"))
    for expected in ("1 the tide is in\n", "2 the tide is in\n"):
        command = [sys.executable, "first.py"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert (ran.stdout, ran.stderr) == (expected, "")
