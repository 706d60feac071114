"""The log as an operator's programs read it: lines of JSON, and the way from a client's complaint to its line."""

import json
import os
import re
import subprocess

import pytest

from client import Client, Refused
from guarded import token
from server import Server, free_port


@pytest.fixture
def served(tmp_path):
    """Starts a server on settings of its own."""
    started = []

    def start(config="", **environment):
        started.append(Server(tmp_path, environment=environment, config=config))
        return started[-1].start()

    yield start
    for server in started:
        server.kill()


def lines_of(text):
    """Each line, which must be an object of the five members."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line) == ["time", "level", "target", "message", "fields"], line
        assert line["time"].endswith("Z") and line["level"] in ["error", "warn", "info", "debug", "trace"], line
        assert isinstance(line["message"], str) and isinstance(line["fields"], dict), line
    return lines


def one(lines, **wanted):
    """The only line that has these members and fields."""
    found = [line for line in lines if wanted.items() <= {**line["fields"], **line}.items()]
    assert len(found) == 1, (wanted, found)
    return found[0]


@pytest.mark.skipif("TIDELINE_FAULTS" not in os.environ, reason="needs a build for tests")
def test_at_json_all_that_a_run_writes_is_objects(served):
    server = served('log_format = "json"\nlog = "debug"\n', TIDELINE_FAULT="panic_at_ping", TIDELINE_NOT_OURS="a\nb")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})
    with pytest.raises(OSError):
        server.http("POST", "/v1/rpc", body, {"content-type": "application/json", "x-request-id": "complaint"})
    with Client(server, user="ann") as client:
        client.append("room/1")
    assert server.stop() == 0
    lines = lines_of(server.whole_log())
    assert one(lines, message="ready", level="info")["fields"]["version"]
    assert one(lines, message="partition is open")["fields"]["reserve_bytes"] > 0
    panic = one(lines, message="panicked: panic_at_ping", level="error", target="tideline::logging")
    assert panic["fields"]["thread"].startswith("tokio") and "dispatch/server/mod.rs:" in panic["fields"]["place"]
    assert panic["fields"]["request"] == "complaint"
    assert one(lines, message="a connection ended in a panic", level="error")
    assert one(lines, message="session opened", level="debug")["fields"]["session"]
    assert lines[-1]["message"] == "stopped"


TRACE = "0af7651916cd43dd8448eb211c80319c"
LOUD = 'log_format = "json"\nlog = "info,tideline_gateway=debug"\n'


def test_an_answer_by_http_names_its_lines(guard):
    server = guard(before=LOUD).start()
    call = json.dumps({"jsonrpc": "2.0", "id": "no-7", "method": "key.list", "params": {}})
    asked = {"content-type": "application/json", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}

    def answered(path="/v1/rpc", body=call, **headers):
        _, told, _ = server.http("POST", path, body, {**asked, **headers})
        return told

    bearer = {"authorization": f"Bearer {token()}"}
    assert answered(**{"x-request-id": "complaint/7", **bearer})["x-request-id"] == "complaint/7"
    made = answered(**{"x-request-id": "two words", **bearer})["x-request-id"]
    assert re.fullmatch("[0-9a-f-]{36}", made)
    nobody = answered(authorization="Bearer nonsense")["x-request-id"]
    of_tables = answered("/ListTable", b"")
    assert of_tables["x-ots-requestid"] == of_tables["x-request-id"]
    assert answered("/none", b"")["x-request-id"] != made
    assert server.get("/healthz")[1]["x-request-id"]
    server.stop()
    lines = lines_of(server.whole_log())
    for request in ["complaint/7", made]:
        told = {"request": request, "trace": TRACE}
        assert one(lines, target="audit", **told)["fields"]["outcome"] == "forbidden"
        assert one(lines, message="refused a call", **told)["fields"]["call"] == "no-7"
        assert one(lines, message="answered", **told)["fields"]["status"] == 200
    assert one(lines, message="refused a credential", request=nobody)["fields"]["why"] == "malformed"
    assert one(lines, message="answered", path="/healthz").keys() and "trace" not in one(lines, path="/healthz")["fields"]


def test_a_session_names_its_lines(guard):
    server = guard(before=LOUD).start()
    with server.open(token()) as client:
        session = client.call("session.open")["session"]
        with pytest.raises(Refused):
            client.call("key.list")
    server.stop()
    lines = lines_of(server.whole_log())
    assert one(lines, target="audit", session=session)["fields"]["method"] == "key.list"
    told = one(lines, message="refused a call", session=session)["fields"]
    assert (told["method"], told["reason"]) == ("key.list", "forbidden") and told["call"]


@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_why_a_start_fails_is_an_object_too(own_server, tmp_path, how):
    own_server.start()
    file = tmp_path / "json.toml"
    file.write_text('log_format = "json"\n')
    said = {"flag": ["--log-format", "json"], "environment": [], "file": ["--config", str(file)]}[how]
    environment = {"environment": {"TIDELINE_LOG_FORMAT": "json"}}.get(how, {})
    command = [own_server.binary, "serve", "--data", own_server.data, "--listen", f"127.0.0.1:{free_port()}", *said]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment, "TIDELINE_LOG": "error"}
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = lines_of(ended.stderr)
    assert line["level"] == "error" and "another process" in line["message"]


def test_a_format_that_is_none_is_refused(own_server, tmp_path):
    ended = subprocess.run(
        [own_server.binary, "serve", "--data", str(tmp_path / "data")],
        capture_output=True, text=True, timeout=60, env={**os.environ, "TIDELINE_LOG_FORMAT": "xml"},
    )
    assert ended.returncode == 1 and not (tmp_path / "data").exists()
    assert ended.stderr.splitlines() == [
        'tideline: environment variable TIDELINE_LOG_FORMAT: log_format: expected "text" or "json", found "xml"'
    ]
