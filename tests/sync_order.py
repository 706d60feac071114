#!/usr/bin/env python3
"""Shows with strace that no append is answered before its frame is on disk.

    cargo build --release && python3 tests/sync_order.py target/release/tideline

Starts the server under strace on an empty directory, sends 200 appends one after the other, and reads the system calls back:
each append must be a write to a log segment, then an fdatasync of that segment, then the reply on the socket, in this order.
Needs strace (Debian: apt-get install strace); everything else is Python's own library. Exit code 0 = it holds.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

APPENDS = 200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(port):
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit("the server did not become ready")


def append_all(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for number in range(APPENDS):
        call = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "message.append",
            "params": {"timeline": "sync-order", "entry": {"number": number}, "message_id": f"m{number}"},
        }
        connection.request("POST", "/v1/rpc", json.dumps(call), {"Content-Type": "application/json"})
        reply = json.load(connection.getresponse())
        assert reply["result"]["sequence"] == number + 1, reply


def phases(trace):
    """The interesting calls in the order in which they ended, as W (log write), S (log sync), R (reply to a client)."""
    pending, found = {}, []
    for line in trace:
        thread = line.split(" ", 1)[0]
        if "<unfinished" in line:
            pending[thread] = line
            continue
        if "resumed>" in line:
            line = pending.pop(thread, "") + line
        call = re.search(r"(pwrite64|pwritev|write|writev|sendto|sendmsg|fdatasync)\((.*)", line)
        if not call:
            continue
        name, rest = call.groups()
        target = rest.split(">", 1)[0]
        if "/log/" in target:
            found.append("S" if name == "fdatasync" else "W")
        elif "TCP" in rest and 'id\\":' in rest:  # strace escapes the quotes
            found.append("R")
    return "".join(found)


def stop(strace):
    """Tells the server itself: strace with `-o` keeps the signals that are meant for it."""
    with open(f"/proc/{strace.pid}/task/{strace.pid}/children", encoding="ascii") as children:
        for child in children.read().split():
            os.kill(int(child), signal.SIGTERM)


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/tideline")
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        trace = os.path.join(home, "trace")
        calls = "trace=pwrite64,pwritev,write,writev,sendto,sendmsg,fdatasync"
        server = subprocess.Popen(
            ["strace", "-f", "-yy", "-s", "200", "-e", calls, "-o", trace]
            + [binary, "serve", "--data", os.path.join(home, "data"), "--listen", f"127.0.0.1:{port}"],
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until_ready(port)
            append_all(port)
        finally:
            stop(server)
            server.wait(30)
        with open(trace, encoding="utf-8", errors="replace") as lines:
            seen = phases(lines)
    syncs = seen.count("S")
    ordered = len(re.findall(r"W+S+(?=[WS]*R)", seen))
    early = len(re.findall(r"W+R", seen)) + len(re.findall(r"RR", seen))
    print(f"{APPENDS} appends: {syncs} syncs, {ordered} times write, sync, reply; {early} replies without a sync before")
    if syncs < APPENDS or ordered < APPENDS or early:
        sys.exit("an append was answered before its sync")


if __name__ == "__main__":
    main()
