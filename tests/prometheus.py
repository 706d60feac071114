#!/usr/bin/env python3
"""Evaluates every panel and alert of grafana/ on a real Prometheus that scrapes a real server under load.

    python3 tests/prometheus.py --binary target/release/tideline --load target/release/tideline-load
    python3 tests/prometheus.py --target 127.0.0.1:7070 --watch 600      # a server that runs, for ten minutes

Needs Debian's prometheus and openssl (apt-get install prometheus openssl) and Python's own library. The server has what the
panels show: subscribers, members, webhooks that are taken and refused, a split; a second one has TLS and keys. Promises: ends
only what it started, and all of that, also when it fails. Exit code 0 = everything evaluates, has data where it should, and a stopped server is noticed;
with --target: everything evaluates, each metric that a query names is there, and no alert fired. What a server that others
drive never did (errors, slow closes) is reported as "nothing happened".
"""

import argparse
import base64
import contextlib
import http.client
import http.server
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python"))
from tables import one_key_index, one_key_table, search_for_all, signed  # noqa: E402

GRAFANA = pathlib.Path(__file__).resolve().parent.parent / "grafana"
RULES = GRAFANA / "prometheus"
WINDOW = "10m"
# A webhook whose receiver takes everything, and one whose receiver never does: its changes become dead letters.
WEBHOOKS = """
[[webhook]]
name = "{name}"
url = "http://127.0.0.1:{port}/{name}"
secret_file = "{folder}/webhook.secret"
timelines = "watch/"
retry_ms_max = 250
give_up_ms = 1000
"""
GUARDED = """
[tls]
certificate_file = "{folder}/tls.pem"
key_file = "{folder}/tls.key"
[auth]
"""
CHILDREN = []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(log, *command, **environment):
    with open(log, "ab") as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                 env=os.environ | environment)
    CHILDREN.append(child)
    return child


def stop(child):
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_for(what, patience, ready):
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            if ready():
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.3)
    raise SystemExit(f"{what}: not within {patience} s")


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what is posted to /taken, and refuses the rest."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204 if self.path == "/taken" else 500)
        self.end_headers()

    def log_message(self, *_):
        pass


def receiver():
    """Its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def guarded(options, folder):
    """A server with TLS and keys, which refuses somebody now and then; as a job of Prometheus."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "90", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=DNS:localhost", "-keyout", folder / "tls.key", "-out", folder / "tls.pem"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    (folder / "guarded.toml").write_text(GUARDED.format(folder=folder))
    data = ["--data", folder / "guarded"]
    made = subprocess.run([options.binary, "key", "create", "watch", "--allow", "*=observe", *data], check=True, capture_output=True, text=True)
    address, trusted = f"localhost:{free_port()}", ssl.create_default_context(cafile=folder / "tls.pem")
    start(folder / "guarded.log", options.binary, "--listen", address, "--config", folder / "guarded.toml", *data)

    def ask(path, key=None):
        request = urllib.request.Request(f"https://{address}{path}", headers={"authorization": f"Bearer {key}"} if key else {})
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
            return answer.read()

    def refused():
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask("/metrics", "nonsense")
            time.sleep(1)

    wait_for("the server with keys", 30, lambda: ask("/readyz"))
    threading.Thread(target=refused, daemon=True).start()
    return f"""
  - job_name: guarded
    scheme: https
    tls_config: {{ca_file: {folder}/tls.pem}}
    authorization: {{credentials: {made.stdout.strip()}}}
    static_configs: [{{targets: ['{address}']}}]
"""


class Traffic(threading.Thread):
    """What tideline-load append does not ask: subscriptions, syncs, pages, searches, an error."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.host, port = target.rsplit(":", 1)
        self.port, self.ended, self.fault = int(port), threading.Event(), None

    def run(self):
        try:
            self.call("timeline.create", timeline="watch/1", settings={"fan_out": "write"})
            self.call("member.add", timeline="watch/1", members=[{"user": "watcher"}])
            self.table("CreateTable", one_key_table("watched"))
            self.table("CreateSearchIndex", one_key_index("watched", "by_key"))
            subscribers = [self.subscriber("watcher") for _ in range(3)]
            for number in itertools.count():
                if self.ended.wait(0.1):
                    break
                self.people(number)
                self.table("Search", search_for_all("watched", "by_key"))
                head = self.call("message.append", timeline="watch/1", entry={"text": "hello"})["sequence"]
                self.call("sync", positions={"watch/1": head - 1})
                self.call("sync", positions={"watch/1": head})
                self.call("message.range", timeline="watch/1")
                self.call("message.get", refused="message_not_found", timeline="watch/1", sequence=head + 99)
                self.call("key.list", refused="forbidden")  # there are none without [auth]
                for one in subscribers:
                    one.recv(1 << 20)
        except (OSError, KeyError, ValueError, http.client.HTTPException) as why:
            if not self.ended.is_set():
                self.fault = f"own traffic: {why!r}"

    def people(self, number):
        """What members do: one comes, types and goes; lists, a device, messages that time brings and takes."""
        self.subscriber(f"visitor {number}").close()
        self.call("signal", user="watcher", timeline="watch/1", signal={"typing": True})
        for method in ("conversation.list", "conversation.sync", "feed.range"):
            self.call(method, user="watcher")
        self.call("sync", user="watcher", device="phone")
        self.call("message.append", timeline="watch/1", entry={}, expires_in_ms=100)
        self.call("message.append", timeline="watch/1", entry={}, deliver_at=int(time.time() * 1000) + 500)

    def call(self, method, refused=None, user=None, **params):
        """The result, or the refusal that is wanted. What the server can't take now (its memtables are small) is repeated."""
        until = time.monotonic() + 20
        while True:
            answer = self.post(method, params, user)
            error = answer.get("error", {}).get("data", {})
            if error.get("reason") == refused:
                return answer.get("result")
            if not error.get("retry") or time.monotonic() > until:
                raise ValueError(f"{method} was answered {answer}")
            self.ended.wait(error.get("retry_after_ms", 200) / 1000)

    def table(self, operation, body):
        signed(self, operation, "development", "development", body)

    def http(self, method, path, body, headers):
        request = urllib.request.Request(f"http://{self.host}:{self.port}{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()

    def post(self, method, params, user):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        request = urllib.request.Request(f"http://{self.host}:{self.port}/v1/rpc", body.encode(),
                                         {"content-type": "application/json"} | ({"tideline-user": user} if user else {}))
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def subscriber(self, user):
        one = socket.create_connection((self.host, self.port), 20)
        key = base64.b64encode(os.urandom(16)).decode()
        one.sendall((f"GET /v1/connect HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        if b" 101 " not in one.recv(4096):
            raise OSError("no WebSocket")
        for number, (method, params) in enumerate([("session.open", {"user": user}),
                                                   ("subscribe", {"timeline": "watch/1", "after": 0, "with": ["presence", "signals"]})]):
            text = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
            # A masked frame with a mask of zeros.
            one.sendall(b"\x81" + struct.pack("!BH", 0x80 | 126, len(text)) + bytes(4) + text)
        return one


def panels():
    for path in sorted((GRAFANA / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                expr = target["expr"].replace("$__rate_interval", WINDOW).replace("$instance", ".*")
                yield f"{path.stem}: {panel['title']} {target['refId']}", expr


def alerts():
    """Each rule, and every series that it names: an alert is silent, its series are not."""
    for name, expr in re.findall(r"- alert: (\w+)\n\s+expr: '((?:[^']|'')*)'", (RULES / "alerts.yml").read_text()):
        yield f"alert {name}", expr.replace("''", "'"), False
        for series in sorted(set(re.findall(r"\b(?:tideline|process)_\w+(?:\{[^}]*\})?", expr))):
            yield f"alert {name}: {series}", series, True


def ask(prometheus, expr):
    answer = json.loads(get(f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expr})))
    return answer["data"]["result"]


def known(prometheus, expr):
    """Whether each metric that a query names is scraped, with whatever labels."""
    names = set(re.findall(r"\b(?:tideline|process)_\w+|\bup\b", expr))
    return bool(names) and all(ask(prometheus, name) for name in names)


def evaluate(prometheus, owned):
    """(name, state, detail) of each; a state in capitals is a failure."""
    queries = [(name, expr, True) for name, expr in panels()] + list(alerts())
    for name, expr, data in queries:
        try:
            values = [float(one["value"][1]) for one in ask(prometheus, expr)]
        except urllib.error.HTTPError as error:
            yield name, "ERROR", error.read().decode()[:200]
            continue
        numbers = [value for value in values if not math.isnan(value)]
        if not data:
            yield name, "holds" if values else "quiet", ""
        elif not values and "tideline_cluster_" in expr:
            # alerts_test.yml has a cluster.
            yield name, "no cluster", ""
        elif not values:
            yield (name, "EMPTY", expr) if owned or not known(prometheus, expr) else (name, "nothing happened", "")
        elif not numbers and owned:
            yield name, "NAN", expr
        else:
            yield name, "data" if numbers else "nothing happened", f"{len(values)} series, {numbers[:1]}"


def report(rows):
    bad = [row for row in rows if row[1].isupper()]
    for name, state, detail in rows:
        print(f"{state:16} {name:58} {detail}")
    states = [state for _, state, _ in rows]
    print(", ".join(f"{states.count(one)} {one}" for one in sorted(set(states))), flush=True)
    return bool(bad)


def watch(prometheus, seconds):
    """Evaluates every 10 s; at the end one verdict over all rounds."""
    until, evaluations, seen, bad = time.monotonic() + seconds, 0, {}, []
    while time.monotonic() < until:
        time.sleep(min(10, max(0, until - time.monotonic())))
        for name, state, detail in evaluate(prometheus, False):
            evaluations += 1
            seen.setdefault(name, set()).add(state)
            if state.isupper():
                bad.append(name)
                print(f"{state:16} {name:58} {detail}", flush=True)
    data = sum("data" in states for states in seen.values())
    conditions = sum(states <= {"quiet", "holds"} for states in seen.values())
    idle = sorted(name for name, states in seen.items() if states == {"nothing happened"})
    window = f"{int(seconds) + 60}s"
    fired = sorted({one["metric"]["alertname"] for one in ask(
        prometheus, f'last_over_time(ALERTS{{alertstate="firing"}}[{window}])')})
    print(f"watched for {seconds:.0f} s: {len(seen)} queries evaluated {evaluations} times, {data} returned data, "
          f"{conditions} are conditions of alerts, {len(idle)} had nothing to tell, {len(bad)} errors")
    print("nothing to tell: " + ("; ".join(idle) or "none"))
    print("alerts that fired: " + (", ".join(fired) or "none"), flush=True)
    return bool(bad or fired)


def checked(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    print(" ".join(map(str, command[:3])) + (": ok" if done.returncode == 0 else f": FAILED\n{done.stdout}{done.stderr}"))
    return done.returncode != 0


def run(options, folder):
    failed = False
    config = folder / "prometheus.yml"
    target = options.target or f"127.0.0.1:{free_port()}"
    text = (RULES / "prometheus.yml").read_text()
    config.write_text(text.replace("127.0.0.1:7070", target).replace("scrape_interval: 5s", "scrape_interval: 2s")
                      .replace("evaluation_interval: 15s", "evaluation_interval: 2s"))
    # In the test the waiting is cut short, so that it need not last minutes; a server of others is judged as it would be.
    alerts_text = (RULES / "alerts.yml").read_text()
    (folder / "alerts.yml").write_text(alerts_text if options.target else re.sub(r"for: \w+", "for: 2s", alerts_text))
    failed |= checked(["promtool", "check", "config", RULES / "prometheus.yml"])
    failed |= checked(["promtool", "check", "rules", RULES / "alerts.yml"])
    failed |= checked(["promtool", "test", "rules", RULES / "alerts_test.yml"])
    owned, server, traffic = not options.target, None, None
    if owned:
        # Small memtables, so that flushes and merges happen within seconds; two partitions, so that series are several.
        port = receiver()
        (folder / "webhook.secret").touch(0o600)
        (folder / "webhook.secret").write_text("a secret of more than thirty-two letters")
        settings = "".join(WEBHOOKS.format(name=name, port=port, folder=folder) for name in ("taken", "refused"))
        (folder / "server.toml").write_text(settings)
        server = start(folder / "server.log", options.binary, "--listen", target, "--data", folder / "data", "--config", folder / "server.toml",
                       TIDELINE_MEMTABLE_BYTES="1048576", TIDELINE_MEMTABLE_AGE_MS="1000", TIDELINE_PARTITIONS="2")
        wait_for("the server", 30, lambda: get(f"http://{target}/readyz"))
        with config.open("a") as jobs:
            jobs.write(guarded(options, folder))
    port = free_port()
    prometheus = f"http://127.0.0.1:{port}"
    start(folder / "prometheus.log", "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
          f"--web.listen-address=127.0.0.1:{port}")
    wait_for("prometheus", 30, lambda: get(f"{prometheus}/-/ready"))
    if owned:
        traffic = Traffic(target)
        traffic.start()
        load = start(folder / "load.log", options.load, "append", "--url", f"ws://{target}/v1/connect", "--connections", 8,
                     "--in-flight", 4, "--timelines", 1000, "--seconds", options.seconds + 10)
    wait_for("first scrapes", 60, lambda: b'"value"' in get(
        f"{prometheus}/api/v1/query?query=rate(tideline_commit_batches_total[{WINDOW}])"))
    if owned:
        traffic.call("partition.split", partition=0)  # behind a first scrape: what no scrape saw before has no rate
    time.sleep(options.seconds)
    failed |= report(list(evaluate(prometheus, owned)))
    if options.watch:
        failed |= watch(prometheus, options.watch)
    if owned:
        if load.wait(120) != 0:
            print("FAILED: the load tool\n" + (folder / "load.log").read_text())
            failed = True
        traffic.ended.set()
        traffic.join(30)
        if traffic.fault:
            print("FAILED: " + traffic.fault)
            failed = True
        stop(server)
        firing = urllib.parse.urlencode({"query": 'ALERTS{alertname="TidelineDown",alertstate="firing"}'})
        wait_for("TidelineDown after the server was stopped", 60, lambda: b'"value"' in get(f"{prometheus}/api/v1/query?{firing}"))
        print("TidelineDown fires after the server was stopped")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the server to start")
    parser.add_argument("--load", help="tideline-load")
    parser.add_argument("--target", metavar="HOST:PORT", help="a running server instead")
    parser.add_argument("--watch", type=float, default=0, metavar="SECONDS", help="evaluate again and again for so long")
    parser.add_argument("--seconds", type=int, default=25, help="load before the evaluation")
    options = parser.parse_args()
    if not options.target and not (options.binary and options.load):
        parser.error("--binary and --load, or --target")
    if missing := [program for program in ("prometheus", "promtool", "openssl") if not shutil.which(program)]:
        sys.exit(f"{', '.join(missing)}: not installed; apt-get install prometheus openssl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tideline-prometheus-") as folder:
        try:
            failed = run(options, pathlib.Path(folder))
        finally:
            for child in reversed(CHILDREN):
                stop(child)
    print("FAILED" if failed else "all held")
    sys.exit(1 if failed else 0)


main()
