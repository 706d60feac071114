"""What packages are made of, looked at without making one: the unit, the settings, the container's files, the formula.

Promises: each file is read by the program that it is for, if this machine has it. Must not: need root or a package.
"""

import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from places import BINARY, PACKAGING, ROOT, needs

UNIT = PACKAGING / "systemd" / "tideline.service"
SETTINGS = PACKAGING / "systemd" / "tideline.toml"
CONTAINER = PACKAGING / "container"


def read_by_the_server(file):
    told = subprocess.run([BINARY, "config", "--config", file], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return tomllib.loads(told.stdout)


@needs("systemd-analyze")
@pytest.mark.parametrize("foreign, complaint", [("", ""), ("LimitDescriptors=9\n", "LimitDescriptors")])
def test_systemd_knows_the_unit(tmp_path, foreign, complaint):
    unit = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/usr/bin/tideline", BINARY).replace("[Service]\n", f"[Service]\n{foreign}")
    unit.write_text(text)
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    ours = [line for line in said.stderr.splitlines() if unit.name in line]
    assert complaint in "".join(ours) if complaint else (said.returncode == 0 and not ours), said.stderr


def test_the_server_reads_the_settings_as_they_come_and_with_what_they_suggest(tmp_path):
    known = read_by_the_server(SETTINGS)
    assert known["data"] == "/var/lib/tideline" and known["listen"] == "127.0.0.1:7070"
    whole = tmp_path / "whole.toml"
    text = SETTINGS.read_text().replace('\nlisten = "127.0.0.1:7070"\n', "\n")
    whole.write_text(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE))
    suggested = read_by_the_server(whole)
    assert suggested["listen"] == "0.0.0.0:7070" and suggested["tls"] and suggested["auth"] and suggested["allowed_hosts"]


def test_the_containers_of_compose_name_what_is_there():
    compose = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
    for service in compose["services"].values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (CONTAINER / source).exists() if "/" in source else source in compose["volumes"], mount
    server = compose["services"]["tideline"]
    assert (CONTAINER / server["build"]["context"] / server["build"]["dockerfile"]).samefile(CONTAINER / "Containerfile")
    # It serves without credentials: this machine alone may reach it.
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    rules = yaml.safe_load((ROOT / "grafana/prometheus/prometheus.yml").read_text())
    assert rules["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:7070"]


def test_what_the_container_is_built_from_is_all_that_cargo_needs(tmp_path):
    """Cargo reads the folder that a build is sent; whether it compiles is seen where a package is built."""
    kept = [line[1:] for line in (CONTAINER / "Containerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in kept:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("node_modules"))
        else:
            shutil.copy(ROOT / name, target)
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def test_one_version_is_everywhere():
    version = re.search(r'^\[workspace\.package\]\nversion = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    chart = yaml.safe_load((PACKAGING / "helm/tideline/Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert f"tideline-{version}.tar.gz" in (PACKAGING / "homebrew/tideline.rb").read_text()
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()


@needs("ruby")
def test_ruby_reads_the_formula():
    subprocess.run(["ruby", "-c", PACKAGING / "homebrew/tideline.rb"], check=True, capture_output=True)


@needs("shellcheck")
def test_the_scripts_are_clean():
    scripts = [*(PACKAGING / "debian").iterdir(), CONTAINER / "root.sh"]
    said = subprocess.run(["shellcheck", "-e", "SC1008", *scripts], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("script", ["debian/postinst", "debian/prerm", "debian/postrm", "container/root.sh"])
def test_a_shell_reads_the_scripts(script):
    subprocess.run(["sh", "-n", PACKAGING / script], check=True)


@pytest.mark.parametrize("arguments, why", [
    ([], "parameter not set"),
    (["/no/binary", "root"], "there is no binary"),
    ([BINARY, "."], "is there already"),
])
def test_a_root_is_not_made_in_part(tmp_path, arguments, why):
    said = subprocess.run([CONTAINER / "root.sh", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode != 0 and why in said.stderr and not list(tmp_path.iterdir())
