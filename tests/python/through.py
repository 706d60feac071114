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


#: What can't be run so, and why: tests, some of them with a parameter, and whole files.
WHY = {
    "a directory of a cluster is served with other settings": "test_a_location_is_as_the_client_has_reached_the_server",
    "a standby that ends cuts what it passes on": "test_a_silent_stream_lives_and_the_end_of_the_server_is_told",
    "an owner that ends hands over first, and what waits there hears it": """
        test_shutdown_says_draining_answers_waiting_syncs_and_closes_with_4002
        test_a_shutdown_says_draining_and_the_stream_goes_on_after_it""",
    "a standby does not read what comes behind a request while its answer goes on, so nobody is cut": "test_who_sends_much_is_cut",
    "a cluster takes 3,670,016 bytes in a write of rows": """
        test_answers_that_nobody_reads_are_bounded_over_all_connections test_bytes_of_a_value
        test_a_transaction_writes_at_most_4_mb""",
    "a standby passes a small request on once it is there": "test_a_key_that_is_taken_back_while_its_request_comes_does_nothing",
    "a cluster has one partition": """
        test_partitions test_partitions_served test_relay_crash test_repair_with_loss
        test_a_backup_is_restored_to_a_position test_a_receiver_that_was_down_gets_a_minute_of_changes_in_order[3]
        test_a_split_loses_and_doubles_nothing test_a_stream_goes_on_in_the_partitions_that_took_keys_over
        test_a_stream_has_a_shard_for_each_partition_and_outlives_the_server
        test_all_types_versions_and_keys_of_all_partitions test_an_ended_partition_says_so
        test_an_index_goes_on_through_a_split_a_merge_and_kills test_building_goes_on_wherever_the_process_ends
        test_credentials_go_along_when_partitions_are_split
        test_indexes_are_equal_to_their_rows_and_messages_through_everything
        test_open_messages_go_through_a_split_with_their_readers test_partitions_are_changed_by_administrators
        test_partitions_say_what_they_do test_readers_of_a_quiet_server_hold_nothing_of_what_has_ended
        test_series_through_kills_and_a_split test_split_and_merge_again_and_again
        test_the_oldest_logs_go_first_and_readers_can_always_begin_now
        test_timelines_by_the_beginning_of_their_names test_what_is_restored_is_a_prefix_of_what_was_written""",
    "a node's directory is for a node: no command and no other server opens it": """
        test_copies test_repair test_formats test_restored test_a_backup_that_is_killed_is_none test_a_canary_is_nowhere
        test_a_directory_after_a_kill_is_whole test_a_directory_of_before_takes_positions_without_a_seal
        test_a_directory_that_was_set_back_shares_nothing_with_what_came_after
        test_a_key_that_nobody_was_shown_is_a_failure test_a_reader_that_has_seen_enough_is_no_failure
        test_a_second_server_a_kill_and_a_stop test_a_server_seals_them_if_its_settings_say_so
        test_a_set_of_keys_is_fetched_over_https_from_whom_the_system_trusts test_a_stopped_directory_is_backed_up
        test_an_index_that_lost_a_message_is_found test_backups_of_another_server_are_not_mixed_with
        test_secrets_come_back_from_a_store test_secrets_come_back_with_the_passphrase
        test_the_command_makes_keys_by_directory_and_by_url test_the_command_on_a_directory_that_no_server_uses
        test_the_drill_as_a_client_of_json_rpc_sees_it test_the_newest_segment_that_is_missing_after_an_orderly_end
        test_what_a_store_refuses_leaves_no_backup test_what_changes_or_judges_something_does_it_though_nobody_reads
        test_what_is_no_whole_backup_is_refused test_who_follows_a_restored_server_is_told_that_it_began_anew""",
    "its process or partition ends, and the standby goes on without the fault": """
        test_a_server_that_answers_before_it_writes_is_noticed test_a_stopped_partition_is_told_with_its_reason
        test_at_json_all_that_a_run_writes_is_objects test_control_a_part_is_answered_before_the_sync
        test_control_a_place_that_is_written_before_its_rows_loses_them""",
    "its fault waits for a batch that a cluster has not": "test_a_page_does_not_bring_back_what_has_changed",
    "the standby's disk fills beside it": "test_on_a_full_disk_the_index_alone_stops_and_goes_on_by_itself",
    "a node's health, figures, log and places for connections are its own": """
        test_ready test_supervised test_a_new_server_is_well test_an_answer_by_http_names_its_lines
        test_a_refused_page_or_name_is_told_once_with_what_to_set
        test_a_wait_ends_with_the_first_line_that_is_asked_for test_connections_of_an_address
        test_connections_that_ask_for_nothing_make_room test_handshakes_of_an_address test_nobody_else_is_believed
        test_others_are_answered_and_memory_stays_within_its_bounds[silent_connections]
        test_others_are_answered_and_memory_stays_within_its_bounds[own_sessions]
        test_strangers_give_their_places_to_those_who_ask_for_something test_the_log_is_read_page_by_page
        test_the_start_says_where_the_console_and_the_demo_are test_what_is_not_kept_any_more_is_counted
        test_what_is_not_taken_in_time_is_a_dead_letter_and_delivery_goes_on""",
    "the settings that it changes, or that refuse a start, are in another file": """
        test_credentials_of_tablestore_are_keys test_limits_change_while_it_runs_and_bad_ones_do_not
        test_what_cannot_be_meant_refuses_the_start""",
    "it is a cluster of its own": "test_cluster_adopt",
    "the standby's address is called without TLS here; test_cluster_passed.py has a test with TLS": """
        test_tls test_a_canary_is_in_no_command_either test_a_key_with_a_certificate_counts_with_it_alone test_over_tls""",
}
NOT_THROUGH = {name: why for why, names in WHY.items() for name in names.split()}


def pytest_collection_modifyitems(items):
    """For the conftest.py of a suite."""
    if os.environ.get("TIDELINE_THROUGH") == "standby":
        # Here only: servers are started by programs too, on a machine where nothing but Python is installed.
        import pytest

        for item in items:
            names = [item.name, item.originalname, item.path.stem]
            if why := next((NOT_THROUGH[name] for name in names if name in NOT_THROUGH), None):
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
