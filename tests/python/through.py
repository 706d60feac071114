"""A server that is reached through another node: what is started here is a cluster of two, and its standby is called.

Owns: the NATS servers of a run, the standby's process, and which tests can't be run so. Promises: to a suite it looks like
one server: the data, the log and the process are the owner's, the address is the standby's. Must not: test a hand-over.

`TIDELINE_THROUGH=standby python -m pytest tests/python/test_append.py` runs a suite like this.
"""

import atexit
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from nats import Nats

NAMES = itertools.count(1)
PATIENCE = 60


#: Tests and whole files, each with the reason.
NOT_THROUGH = {
    "test_a_location_is_as_the_client_has_reached_the_server": "a directory of a cluster is served with other settings",
    "test_a_silent_stream_lives_and_the_end_of_the_server_is_told": "a standby that ends cuts what it passes on",
    "test_who_follows_a_restored_server_is_told_that_it_began_anew": "a restored directory is no node's",
    "test_who_sends_much_is_cut": "a standby does not read what comes behind a request while its answer goes on, so nobody is cut",
    "test_answers_that_nobody_reads_are_bounded_over_all_connections": "a cluster takes 3,670,016 bytes in a write of rows",
    "test_bytes_of_a_value": "a cluster takes 3,670,016 bytes in a write of rows",
    "test_a_transaction_writes_at_most_4_mb": "a cluster takes 3,670,016 bytes in a write of rows",
    "test_a_key_that_is_taken_back_while_its_request_comes_does_nothing": "a standby passes a small request on once it is there",
    "test_all_types_versions_and_keys_of_all_partitions": "a cluster has one partition",
    "test_timelines_by_the_beginning_of_their_names": "a cluster has one partition",
    "test_indexes_are_equal_to_their_rows_and_messages_through_everything": "a cluster has one partition",
    "test_a_stream_has_a_shard_for_each_partition_and_outlives_the_server": "a cluster has one partition",
    "test_series_through_kills_and_a_split": "a cluster has one partition",
    "test_an_index_goes_on_through_a_split_a_merge_and_kills": "a cluster has one partition",
    "test_building_goes_on_wherever_the_process_ends": "a cluster has one partition",
    "test_readers_of_a_quiet_server_hold_nothing_of_what_has_ended": "a cluster has one partition",
    "test_split_and_merge_again_and_again": "a cluster has one partition",
    "test_formats": "a directory of an earlier release is no node's",
    "test_an_index_that_lost_a_message_is_found": "a node's directory is served as a node only",
    "test_on_a_full_disk_the_index_alone_stops_and_goes_on_by_itself": "the standby's disk fills beside it",
    "test_control_a_place_that_is_written_before_its_rows_loses_them": "its process ends, and the standby goes on without the fault",
    "test_a_page_does_not_bring_back_what_has_changed": "its fault waits for a batch that a cluster has not",
    "test_a_server_that_answers_before_it_writes_is_noticed": "its process ends, and the standby goes on without the fault",
    "test_restored": "a restored directory is no node's",
    "test_partitions": "a cluster has one partition",
    "test_partitions_served": "a cluster has one partition",
    "test_tls": "the standby's address is called without TLS here; test_cluster_passed.py has a test with TLS",
}


def pytest_collection_modifyitems(items):
    """For the conftest.py of a suite."""
    if os.environ.get("TIDELINE_THROUGH") == "standby":
        # Here only: servers are started by programs too, on a machine where nothing but Python is installed.
        import pytest

        for item in items:
            why = NOT_THROUGH.get(item.originalname, NOT_THROUGH.get(item.path.stem))
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


#: By the data of their servers: another one on it is of the same cluster.
KNOWN = {}


def through(server, free_port):
    """The one of a server. Those of servers that do not run rest meanwhile: a run would fill the machine with them."""
    for one in KNOWN.values():
        if one.server.process and one.server.process.poll() is not None:
            one.nats.close()
    if server.data not in KNOWN:
        KNOWN[server.data] = Through(server, free_port)
    KNOWN[server.data].server = server
    return KNOWN[server.data]


class Through:
    """The second node of a server, and the NATS servers of both."""

    def __init__(self, server, free_port):
        self.server = server
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="through-", dir=server.directory))
        self.nats = Nats(self.folder, server.binary, f"c{next(NAMES)}")
        self.owner_port = free_port()
        self.process = None
        self.is_made = False
        atexit.register(self.close)

    def settings(self, server, node):
        ports = {"n1": self.owner_port, "n2": server.port}
        nodes = ", ".join(f'{name} = "http://127.0.0.1:{port}"' for name, port in ports.items())
        return f'{server.config or ""}\n[cluster]\nnode = "{node}"\nnodes = {{ {nodes} }}\n{self.nats.settings()}'

    def write(self, server):
        """The settings of both, and where they are."""
        paths = {}
        for node in ["n1", "n2"]:
            paths[node] = os.path.join(server.directory, f"{node}.toml")
            with open(os.open(paths[node], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(self.settings(server, node))
        return paths

    def start(self, server, environment):
        """The owner's command, once the standby runs."""
        paths = self.write(server)
        for name, process in list(self.nats.servers.items()):
            if process.poll() is not None:
                self.nats.start(name)
        until = time.monotonic() + PATIENCE
        while not self.is_made:
            # A key was made, perhaps, before it was served.
            what = ["adopt", "--data", server.data] if os.path.exists(server.data) else ["create"]
            words = [server.binary, "cluster", *what, "--config", paths["n1"], "--login", self.nats.login]
            ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
            self.is_made = ran.returncode == 0 or "already" in ran.stderr
            assert self.is_made or time.monotonic() < until, ran.stderr
        data = server.data + "-2"
        command = [server.binary, "serve", "--data", data, "--listen", f"{server.listen}:{server.port}", "--config", paths["n2"]]
        with open(os.path.join(server.directory, "standby.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        listen = f"{server.listen}:{self.owner_port}"
        return [server.binary, "serve", "--data", server.data, "--listen", listen, "--config", paths["n1"]]

    def stop(self, how):
        """Before the owner: it is not to be one."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()

    def close(self):
        self.stop(signal.SIGKILL)
        self.nats.close()
        shutil.rmtree(self.folder, ignore_errors=True)
