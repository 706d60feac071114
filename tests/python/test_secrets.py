"""What a secret must be, wherever one is set: closed to other users of the machine, and too long to be guessed."""

import os
import subprocess

import pytest

from centrifuge_wire import Peer, token
from client import Client
from server import Server, free_port

GOOD = "canary-0123456789abcdef0123456789"
SHORT = "canary-0123456789abcdef01234567"

WEBHOOK = '[[webhook]]\nname = "a"\nurl = "http://127.0.0.1:9/"\ntimelines = ""\nsecret_file = "{file}"\n'
AUTH = '[auth]\nhs256_secret_files = ["{file}"]\n'
HMAC = '[centrifuge.client.token]\nhmac_secret_key = "{secret}"\n'
HMAC_FILE = '[centrifuge.client.token]\nhmac_secret_key_file = "{file}"\n'
API = '[centrifuge.http_api]\nkey = "{secret}"\n'
API_FILE = '[centrifuge.http_api]\nkey_file = "{file}"\n'
TABLES = 'tablestore_credentials = ["me:{secret}"]\n'
OF_FILES = [WEBHOOK, AUTH, HMAC_FILE, API_FILE]
OF_SETTINGS = [HMAC, API, TABLES]


def written(path, text, mode):
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def started(tmp_path, template, secret, mode=0o600, config_mode=0o600):
    """Why the server does not start; None = it does."""
    file = written(tmp_path / "one.key", secret, mode)
    config = written(tmp_path / "tideline.toml", template.format(file=file, secret=secret), config_mode)
    command = [os.environ["TIDELINE_BIN"], "serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}"]
    process = subprocess.Popen([*command, "--config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = ""
    try:
        for line in process.stdout:
            told += line
            if " ready " in line:
                return None
        return told
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        assert "canary" not in told


@pytest.mark.parametrize("template", OF_FILES)
def test_a_file_with_a_secret_is_closed_to_others(tmp_path, template):
    assert started(tmp_path, template, GOOD) is None
    assert started(tmp_path, template, GOOD, mode=0o640, config_mode=0o644) is None
    for mode in [0o644, 0o606, 0o604]:
        assert "one.key: others can read or change this file" in started(tmp_path, template, GOOD, mode=mode)


@pytest.mark.parametrize("template", OF_SETTINGS)
def test_a_configuration_with_a_secret_is_closed_to_others(tmp_path, template):
    assert started(tmp_path, template, GOOD) is None
    for mode in [0o644, 0o604]:
        assert "tideline.toml: others can read or change this file" in started(tmp_path, template, GOOD, config_mode=mode)


@pytest.mark.parametrize("template", OF_FILES + OF_SETTINGS)
def test_a_secret_is_too_long_to_be_guessed(tmp_path, template):
    # Those of Alibaba Cloud have 30.
    bytes_min = 30 if template is TABLES else 32
    for secret in ["a", SHORT[:bytes_min - 1]]:
        assert f"must have {bytes_min} or more" in started(tmp_path, template, secret).replace("it must", "must")


def test_a_secret_is_set_once(tmp_path):
    both = '[centrifuge.http_api]\nkey = "{secret}"\nkey_file = "{file}"\n'
    assert "set it or http_api.key_file, not both" in started(tmp_path, both, GOOD)


def test_secrets_from_files_count_and_keys_in_urls_only_where_that_is_on(tmp_path):
    file = written(tmp_path / "one.key", GOOD, 0o600)
    common = f'[centrifuge.client.token]\nhmac_secret_key_file = "{file}"\n[centrifuge.http_api]\nkey_file = "{file}"\n'
    for more, status in [("", 401), ("key_in_url = true\n", 200)]:
        server = Server(tmp_path, config=common + more, environment={"TIDELINE_LOG": "trace"}).start()
        try:
            headers = {"content-type": "application/json"}
            assert server.http("POST", "/api/info", "{}", {**headers, "x-api-key": GOOD})[0] == 200
            assert server.http("POST", f"/api/info?api_key={GOOD}", "{}", headers)[0] == status
            assert server.http("POST", "/api/info?api_key=canary-other", "{}", headers)[0] == 401
            with Peer(server, token=token(GOOD, sub="ann")) as peer:
                assert peer.connection["client"]
            shown = subprocess.run([server.binary, "config", "--config", str(tmp_path / "tideline.toml")], capture_output=True, text=True)
            assert str(file) in shown.stdout and "canary" not in shown.stdout + shown.stderr
        finally:
            server.kill()
        with open(tmp_path / "server.log") as log:
            assert "canary" not in log.read()


def test_the_secret_of_an_export_is_in_no_argument(own_server, tmp_path):
    own_server.start()
    with Client(own_server) as client:
        client.append("t")
    file = written(tmp_path / "export.key", "development", 0o600)
    command = [own_server.binary, "export", "timeline_message", "--server", f"127.0.0.1:{own_server.port}"]

    def export(*more, **environment):
        return subprocess.run([*command, *more], capture_output=True, text=True, env={**os.environ, **environment})

    assert export("--key-secret-file", str(file)).returncode == 0
    assert export(TIDELINE_KEY_SECRET="development").returncode == 0
    assert "unexpected argument" in export("--key-secret", "development").stderr
    file.chmod(0o644)
    assert "others can read" in export("--key-secret-file", str(file)).stderr
