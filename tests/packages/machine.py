"""Bare Debian in a folder: entered by chroot, or booted with systemd in namespaces of its own.

Owns: the folder, what runs in it, and its control group. Promises: nothing is left running or mounted. Must not: need
a container's runtime, or reach the network from inside. Needs root, `mmdebstrap` and, once, a mirror of Debian.
"""

import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

from places import ROOT

# Made once: a minute each.
CACHE = pathlib.Path(os.environ.get("TIDELINE_TREES", ROOT / "target" / "tmp" / "trees"))
PACKAGES = {"bare": "", "booted": "systemd,systemd-sysv,dbus"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 60
# As process 1 of its namespaces: the folder becomes the root.
BOOT = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm
mount -t tmpfs tmpfs dev/shm
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
ip link set lo up
mkdir -p old
pivot_root . old
umount -l old
exec env -i container=other PATH="$2" /sbin/init
"""


def suite():
    """The release that this machine runs: a binary that was built here fits it."""
    return re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)[1]


class Tree:
    """Debian's smallest installation, without compilers."""

    def __init__(self, kind, folder):
        self.folder = folder
        archive = CACHE / f"{kind}-{suite()}.tar"
        if not archive.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(".part.tar")
            wanted = [f"--include={PACKAGES[kind]}"] if PACKAGES[kind] else []
            subprocess.run(["mmdebstrap", "--variant=minbase", *wanted, suite(), part], check=True, capture_output=True)
            part.rename(archive)
        folder.mkdir()
        subprocess.run(["tar", "-xpf", archive, "-C", folder, "--exclude=./dev/*"], check=True)

    def end(self):
        shutil.rmtree(self.folder)

    def put(self, file):
        """Copies a file into the root, and returns its name there."""
        shutil.copy(file, self.folder)
        return f"/{pathlib.Path(file).name}"

    def prefix(self, user=None):
        return ["chroot", *([f"--userspec={user}:{user}"] if user else []), str(self.folder)]

    def begin(self, *command, user=None):
        environment = {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return subprocess.Popen([*self.prefix(user), *command], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *command, fails=False, user=None):
        """What it prints, if it ends well; what it complains of, if it is to fail, and does."""
        process = self.begin(*command, user=user)
        late = threading.Timer(PATIENCE, process.kill)
        late.start()
        said, complaints = process.communicate()
        late.cancel()
        assert (process.returncode != 0) == fails, f"{command} ended with {process.returncode}: {said}{complaints}"
        return complaints if fails else said


class Booted(Tree):
    """The same, with systemd as its first process and no network but its own loopback."""

    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        self.group = self.own_group()
        enter = f"echo $$ > {self.group}/cgroup.procs; exec unshare --fork --pid --mount --ipc --uts --net --cgroup bash -c '{BOOT}' boot \"$@\""
        self.starter = subprocess.Popen(["bash", "-c", enter, "boot", folder, PATH], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while not (state := self.state()) and time.monotonic() < until:
            time.sleep(0.2)
        assert state in ("running", "degraded"), state

    def own_group(self):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        top = next(pathlib.Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2")
        group = top / f"tideline-{os.getpid()}"
        group.mkdir()
        return group

    def state(self):
        children = pathlib.Path(f"/proc/{self.starter.pid}/task/{self.starter.pid}/children").read_text().split()
        if not children or pathlib.Path(f"/proc/{children[0]}/comm").read_text() != "systemd\n":
            return None
        self.first = children[0]
        asked = subprocess.run([*self.prefix(), "systemctl", "is-system-running"], capture_output=True, text=True)
        return asked.stdout.strip() if asked.stdout.strip() in ("running", "degraded") else None

    def prefix(self, user=None):
        enter = ["nsenter", "-t", self.first, "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        return [*enter, *(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else [])]

    def shows(self, unit, what):
        return self.run("systemctl", "show", "-P", what, unit).strip()

    def becomes(self, unit, what, wanted):
        until = time.monotonic() + PATIENCE
        while (found := self.shows(unit, what)) != wanted:
            assert time.monotonic() < until, f"{what} of {unit} is {found}, not {wanted}: {self.log(unit)}"
            time.sleep(0.1)

    def log(self, unit):
        return self.run("journalctl", "-q", "-o", "cat", "--no-pager", "-u", unit)

    def end(self):
        # The first process of a namespace takes all others with it.
        subprocess.run(["kill", "-KILL", self.first], check=False)
        self.starter.wait()
        for folder, _, _ in os.walk(self.group, topdown=False):
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except OSError:  # what was in it is just ending
                    time.sleep(0.1)
        super().end()
