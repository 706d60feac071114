"""The .deb in bare Debian: what it holds, how soon there is a first message, and the server as a service of systemd.

Promises: the unit's limits and hardening are those that the server really ran under. TIDELINE_DEB names the package,
else `cargo deb` is asked to make one of TIDELINE_BIN. Must not: touch the machine that it runs on.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from machine import Booted, Tree
from places import BINARY, ROOT, only_whole
from server import free_port

pytestmark = only_whole("installs Debian into folders", "mmdebstrap", "cargo-deb", "unshare", "nsenter", "ip")
UNIT = "tideline.service"
FIRST_MESSAGE_S = 60


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    if given := os.environ.get("TIDELINE_DEB"):
        return pathlib.Path(given).resolve()
    folder = tmp_path_factory.mktemp("deb")
    # As if Cargo had just built it.
    (folder / "release").mkdir()
    shutil.copy(BINARY, folder / "release" / "tideline")
    command = ["cargo", "deb", "--no-build", "--profile", "release", "--fast", "--locked", "-q", "-o", folder / "tideline.deb"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "CARGO_TARGET_DIR": str(folder)}, check=True)
    return folder / "tideline.deb"


@pytest.fixture
def bare(tmp_path):
    tree = Tree("bare", tmp_path / "root")
    yield tree
    tree.end()


@pytest.fixture(scope="module")
def machine(tmp_path_factory, deb):
    booted = Booted("booted", tmp_path_factory.mktemp("machine") / "root")
    try:
        booted.run("dpkg", "-i", booted.put(deb))
        booted.becomes(UNIT, "ActiveState", "active")
        yield booted
    finally:
        booted.end()


def message(tree, text):
    said = tree.run("tideline", "send", "lobby", text)
    return json.loads(said)["sequence"]


def test_what_it_holds(deb):
    fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, check=True).stdout
    depends = re.search(r"^Depends: (.*)", fields, re.M)[1]
    assert re.search(r"\blibc6 \(>= 2\.\d+\)", depends) and {"libgcc-s1", "passwd"} <= set(depends.split(", ")), depends
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    files = {line.split()[5]: line.split()[0] for line in listed.splitlines()}
    for path, mode in {"./usr/bin/tideline": "-rwxr-xr-x", "./etc/tideline/tideline.toml": "-rw-r-----"}.items():
        assert files[path] == mode
    assert "./usr/lib/systemd/system/tideline.service" in files
    control = subprocess.run(["dpkg-deb", "--ctrl-tarfile", deb], capture_output=True, check=True).stdout
    assert b"/etc/tideline/tideline.toml" in control


def test_the_first_message_without_systemd(bare, deb):
    assert not (bare.folder / "usr/bin/cc").exists() and not (bare.folder / "usr/bin/systemctl").exists()
    began = time.monotonic()
    bare.run("dpkg", "-i", bare.put(deb))
    listen = f"127.0.0.1:{free_port()}"
    command = ["tideline", "serve", "--config", "/etc/tideline/tideline.toml", "--listen", listen]
    server = bare.begin(*command, user="tideline")
    try:
        said = bare.run("tideline", "send", "lobby", "the tide is in", "--url", f"http://{listen}")
        took = time.monotonic() - began
        assert json.loads(said)["sequence"] == 1
        print(f"\nfirst message {took:.1f} s after the .deb was there")
        assert took <= FIRST_MESSAGE_S
    finally:
        server.terminate()
        _, log = server.communicate()
    assert server.returncode == 0, log


def test_it_serves_as_soon_as_it_is_installed(machine):
    machine.becomes(UNIT, "ActiveState", "active")
    assert machine.run("tideline", "ready") == "ready\n"
    assert message(machine, "one") == 1
    assert machine.run("systemctl", "is-enabled", UNIT) == "enabled\n"
    assert machine.shows(UNIT, "WatchdogTimestampMonotonic") != "0"


def test_it_runs_within_its_limits(machine):
    process = machine.shows(UNIT, "MainPID")
    limits = machine.run("cat", f"/proc/{process}/limits")
    # A sandbox without CAP_SYS_RESOURCE can raise nothing: there it stays at what the sandbox has.
    files = re.search(r"^Max open files +\d+ +(\d+)", machine.run("cat", "/proc/1/limits"), re.M)[1]
    for name, most in {"open files": f"(1048576|{files})", "address space": "unlimited", "core file size": "0"}.items():
        assert re.search(rf"^Max {name} +{most} ", limits, re.M), limits
    status = machine.run("cat", f"/proc/{process}/status")
    for name, wanted in {"CapEff": "0{16}", "CapBnd": "0{16}", "NoNewPrivs": "1", "Seccomp": "2"}.items():
        assert re.search(rf"^{name}:\t{wanted}$", status, re.M), status
    assert machine.run("stat", "-c", "%U", f"/proc/{process}").strip() == "tideline"
    log = machine.log(UNIT)
    assert " WARN " not in log and " ERROR " not in log, log
    # Others do not get at what it holds, nor at its settings.
    for path, mode in {"/var/lib/tideline": "700", "/etc/tideline": "750", "/etc/tideline/tideline.toml": "640"}.items():
        assert machine.run("stat", "-c", "%a", path).strip() == mode
    assert "Permission denied" in machine.run("ls", "/var/lib/tideline", user="65534", fails=True)


def test_a_first_key_is_made_as_the_page_says(machine):
    page = (ROOT / "docs" / "PRODUCTION.md").read_text()
    lines = re.findall(r"^    (runuser .+)$", page, re.M)
    assert len(lines) == 2
    machine.run("systemctl", "stop", UNIT)
    for line in lines:
        machine.run("sh", "-c", f"cd /root && {line}")
    assert machine.run("cat", "/root/admin.key").startswith("tl_")
    machine.run("systemctl", "start", UNIT)


def test_what_has_ended_badly_is_started_again(machine):
    at = message(machine, "before")
    before, restarts = machine.shows(UNIT, "MainPID"), int(machine.shows(UNIT, "NRestarts"))
    machine.run("systemctl", "kill", "-s", "KILL", "--kill-who=main", UNIT)
    machine.becomes(UNIT, "NRestarts", str(restarts + 1))
    machine.becomes(UNIT, "ActiveState", "active")
    assert machine.shows(UNIT, "MainPID") != before
    assert message(machine, "behind") == at + 1


def test_one_that_hangs_is_started_again(machine):
    drop_ins = machine.folder / f"etc/systemd/system/{UNIT}.d"
    drop_ins.mkdir()
    (drop_ins / "watchdog.conf").write_text("[Service]\nWatchdogSec=2\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", UNIT)
    before, restarts = machine.shows(UNIT, "MainPID"), int(machine.shows(UNIT, "NRestarts"))
    # One that is well is left alone …
    time.sleep(4)
    assert machine.shows(UNIT, "MainPID") == before
    # … and one whose threads stand still is not.
    machine.run("systemctl", "kill", "-s", "STOP", UNIT)
    machine.becomes(UNIT, "NRestarts", str(restarts + 1))
    machine.becomes(UNIT, "ActiveState", "active")
    assert "Watchdog timeout" in machine.log(UNIT)
    shutil.rmtree(drop_ins)
    machine.run("systemctl", "daemon-reload")


def test_a_reload_reads_the_settings_again(machine):
    machine.run("systemctl", "reload", UNIT)
    until = time.monotonic() + 60
    while "the settings were read again" not in machine.log(UNIT):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("environment, why", [
    ("TIDELINE_HEARTBEAT_MS=soon\n", "heartbeat_ms"),
    ("TIDELINE_LISTEN=0.0.0.0:7070\n", "auth"),
    ("TIDELINE_LISTEN=127.0.0.1:7979\n", "127.0.0.1:7979 is in use by another program"),
])
def test_a_start_that_fails_says_why(machine, environment, why):
    machine.run("systemctl", "stop", UNIT)
    machine.run("systemd-run", "--unit=other", "tideline", "serve", "--data", "/tmp/other", "--listen", "127.0.0.1:7979")
    machine.run("sh", "-c", "until tideline ready --url http://127.0.0.1:7979; do sleep 0.1; done")
    (machine.folder / "etc/default/tideline").write_text(environment)
    try:
        machine.run("systemctl", "start", UNIT, fails=True)
        assert why in machine.log(UNIT).rsplit("Starting ", 1)[1]
    finally:
        (machine.folder / "etc/default/tideline").unlink()
        machine.run("systemctl", "stop", "other", UNIT)
        machine.run("systemctl", "reset-failed", UNIT)
    machine.run("systemctl", "start", UNIT)


def test_other_data_and_a_low_port_as_the_page_says(machine):
    page = (ROOT / "docs" / "PRODUCTION.md").read_text()
    drop_ins = machine.folder / f"etc/systemd/system/{UNIT}.d"
    drop_ins.mkdir()
    (drop_ins / "override.conf").write_text(re.search(r"```ini\n(.+?)```", page, re.DOTALL)[1])
    (machine.folder / "etc/default/tideline").write_text("TIDELINE_LISTEN=127.0.0.1:443\nTIDELINE_DATA=/srv/tideline\n")
    machine.run("install", "-d", "-o", "tideline", "/srv/tideline")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", UNIT)
    assert machine.run("tideline", "ready", "--url", "http://127.0.0.1:443") == "ready\n"
    assert (machine.folder / "srv/tideline/directory.toml").exists()
    shutil.rmtree(drop_ins)
    (machine.folder / "etc/default/tideline").unlink()
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", UNIT)


def test_an_upgrade_keeps_messages_and_settings(machine, deb):
    settings = machine.folder / "etc/tideline/tideline.toml"
    settings.write_text(settings.read_text() + "heartbeat_ms = 20000\n")
    at = message(machine, "before")
    before = machine.shows(UNIT, "MainPID")
    machine.run("dpkg", "-i", machine.put(deb))
    machine.becomes(UNIT, "ActiveState", "active")
    assert machine.shows(UNIT, "MainPID") != before
    assert message(machine, "behind") == at + 1
    assert "heartbeat_ms = 20000" in settings.read_text()


def test_a_removal_stops_it_and_leaves_the_messages(machine):
    machine.run("dpkg", "-r", "tideline")
    assert machine.shows(UNIT, "ActiveState") == "inactive"
    log = machine.log(UNIT)
    assert log.rstrip().splitlines()[-1].startswith("Stopped") or "stopped" in log
    said = machine.run("sh", "-c", "dpkg --purge tideline 2>&1")
    assert "the messages stay in /var/lib/tideline" in said
    assert (machine.folder / "var/lib/tideline/directory.toml").exists() and not (machine.folder / "etc/tideline/tideline.toml").exists()
