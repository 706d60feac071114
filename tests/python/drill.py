"""The drill of docs/BACKUP.md: a disk is lost, and the server is there again at its address, as it was a little before.

Owns: the commands that do it. Must not: know what clients see; each suite looks at its own.
"""

import pathlib
import shutil
import signal
import subprocess
import time


def prepared(server):
    """Its settings, with a place for backups; the server is not yet started."""
    place = pathlib.Path(server.directory) / "backups"
    place.mkdir()
    server.config = f'backup_directory = "{place}"\n' + (server.config or "")
    return server


def set_back(server, lose):
    """What `lose` writes is lost; all that was written before is there again. Returns what `lose` returned."""
    # Whole moments: what came before is before the point, what is to be lost is behind it.
    time.sleep(0.05)
    point = int(time.time() * 1000)
    time.sleep(0.05)
    lost = lose()
    made = command(server, "backup", "drill", "--url", server.origin).split(": ")[0]
    server.stop(signal.SIGKILL)
    shutil.rmtree(server.data)
    command(server, "restore", made, "--data", server.data, "--to", str(point))
    server.start()
    return lost


def command(server, *words):
    ran = subprocess.run([server.binary, *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr + server.log()
    return ran.stdout
