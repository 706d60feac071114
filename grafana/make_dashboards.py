#!/usr/bin/env python3
"""Writes grafana/dashboards/*.json from the short lists below: python3 grafana/make_dashboards.py

Owns: what each dashboard shows. Promises: the same files byte for byte each time; every panel has a unit, a description
and a place. Must not: know anything but names from docs/METRICS.md.
"""

import json
import pathlib

I = 'instance=~"$instance"'
WINDOW = "$__rate_interval"


def rate(name, by="", where=""):
    labels = I + ("," + where if where else "")
    return f"sum by ({by or 'instance'}) (rate({name}{{{labels}}}[{WINDOW}]))"


def gauge(name, where=""):
    return f"{name}{{{I}{',' + where if where else ''}}}"


def total(name):
    """A gauge that each partition has, summed over them."""
    return f"sum by (instance) ({gauge(name)})"


def worst(name, of="max", by="instance"):
    """A gauge that each partition has, where it is largest (or smallest)."""
    return f"{of} by ({by}) ({gauge(name)})"


def each(name):
    """A gauge that each partition has, and the legend of its series."""
    return (gauge(name), "{{instance}} partition {{partition}}")


def limit(name):
    return gauge("tideline_limit", f'limit="{name}"')


def quantiles(name, by="", where="", of=(0.5, 0.99, 0.999)):
    labels = I + ("," + where if where else "")
    group = "le" + (", " + by if by else "")
    tail = " {{" + by + "}}" if by else ""
    return [
        (f"histogram_quantile({q}, sum by ({group}) (rate({name}_bucket{{{labels}}}[{WINDOW}])))", f"p{q * 100:g}{tail}")
        for q in of
    ]


def mean(name):
    return f"{rate(name + '_sum')} / {rate(name + '_count')}"


def panel(title, unit, description, *targets, kind="timeseries", width=8, peak=None):
    return dict(title=title, unit=unit, description=description, targets=targets, kind=kind, width=width, peak=peak)


def stat(title, unit, description, *targets, red=None):
    return panel(title, unit, description, *targets, kind="stat", width=4, peak=red)


# What members, their devices and their apps ask.
PEOPLE = 'method=~"(conversation|member|read|receipt|position|message.(recall|hide|hidden)|reaction|pin|schedule|signal|presence|feed)[.]?.*"'
BOARDS = {
    "overview": ("Overview", [
        stat("Up", "bool_on_off", "Whether Prometheus reaches the server. Off: look whether the process runs, and at its log.",
             (f'up{{job="tideline",{I}}}', "{{instance}}")),
        stat("Stopped partitions", "short", "Partitions that a disk failure stopped. Must be 0.",
             (total("tideline_partitions_stopped"), "{{instance}}"), red=1),
        stat("Appends", "reqps", "Acknowledged message.append calls.",
             (rate("tideline_requests_total", where='method="message.append",result="ok"'), "{{instance}}")),
        stat("Deliveries", "ops", "Messages pushed to subscribers.", (rate("tideline_deliveries_total"), "{{instance}}")),
        stat("Connections", "short", "Open WebSocket connections.", (gauge("tideline_connections"), "{{instance}}")),
        stat("Running for", "s", "Time since the process started.",
             (f"time() - {gauge('process_start_time_seconds')}", "{{instance}}")),
        panel("Requests by method", "reqps", "What clients ask, successes and errors together.",
              (rate("tideline_requests_total", "method"), "{{method}}")),
        panel("Errors by reason", "reqps", "Answers other than ok. busy, storage_full and outcome_unknown are the disk's; others a client's.",
              (rate("tideline_requests_total", "result", 'result!="ok"'), "{{result}}")),
        panel("Append to acknowledgement", "s", "From the decoded request to the answer, sync included.",
              *quantiles("tideline_request_seconds", where='method="message.append"')),
        panel("Refusals", "ops", "Turned away at a limit, by the limit's name. Any lasting one deserves a look.",
              (rate("tideline_refusals_total", "limit"), "{{limit}}")),
        panel("Processors in use", "short", "Rate of processor seconds: 1 is one whole processor.",
              (rate("process_cpu_seconds_total"), "{{instance}}")),
        panel("Resident memory", "bytes", "Mapped pages of the LMDB file count too; they are given back under pressure.",
              (gauge("process_resident_memory_bytes"), "{{instance}}")),
        panel("Feed lag", "s", "Age of the oldest committed batch that the feed has not seen. Pushes are late by this.",
              (worst("tideline_feed_lag_seconds"), "{{instance}}")),
        panel("Disk sync", "s", "fdatasync of the commit log: no acknowledgement is faster.",
              *quantiles("tideline_commit_sync_seconds", of=(0.5, 0.99))),
        panel("Version", "short", "What runs; a change is an upgrade.",
              (f"count by (instance, version, arch) ({gauge('tideline_build_info')})", "{{instance}} {{version}} {{arch}}")),
    ]),
    "commit-path": ("Commit path", [
        panel("Append to acknowledgement", "s", "The whole way. What is above the sync is queueing and evaluation.",
              *quantiles("tideline_request_seconds", where='method="message.append"')),
        panel("Sync", "s", "fdatasync of the commit log. High: other writers on the disk, or a worn device.",
              *quantiles("tideline_commit_sync_seconds")),
        panel("Write", "s", "Handing a frame to the system. High: the disk's cache is full, or a segment is made anew.",
              *quantiles("tideline_commit_write_seconds")),
        panel("Fill", "s", "Evaluating the writes of a batch. Above the sync: the processor is the limit.",
              *quantiles("tideline_commit_fill_seconds")),
        panel("Batches", "ops", "Batches, so syncs, per second.", (rate("tideline_commit_batches_total"), "{{instance}}")),
        panel("Writes per batch", "short", "What gathers while the last batch syncs. 1 under load: clients wait for each answer.",
              (mean("tideline_commit_batch_closures"), "mean {{instance}}"),
              *quantiles("tideline_commit_batch_closures", of=(0.99,))),
        panel("Bytes per batch", "bytes", "Size of a frame in the log.",
              (mean("tideline_commit_batch_bytes"), "mean {{instance}}"), *quantiles("tideline_commit_batch_bytes", of=(0.99,))),
        panel("Batches by partition", "ops", "One far above the others: many writes go to few partition keys.",
              (rate("tideline_commit_batches_total", "instance, partition"), "{{instance}} partition {{partition}}")),
        panel("Fill by partition", "percentunit", "Share of a partition's writer's time that goes into evaluating writes. Near 1: it is the limit.",
              (rate("tideline_commit_fill_seconds_sum", "instance, partition"), "{{instance}} partition {{partition}}"), peak=1),
        panel("Log written", "Bps", "Bytes of frames written to the log.", (rate("tideline_commit_batch_bytes_sum"), "{{instance}}")),
        panel("Queue fill", "percentunit", "How full each partition's queue is. Near 1 clients hear busy.",
              each("tideline_commit_queue_fill_ratio"), peak=1),
        panel("Queue depth", "short", "Writes that wait for their partition's writer.", each("tideline_commit_queue_depth")),
        panel("Queue bytes", "bytes", "Bytes that waiting writes hold.", each("tideline_commit_queue_bytes")),
        panel("Refused writes", "ops", "Queue, compaction or disk space. Lasting: more is asked than the disk does.",
              (rate("tideline_refusals_total", "limit", 'limit=~"queue_.*|compaction|disk_space"'), "{{limit}}")),
        panel("Slowed batches", "ops", "Batches held back because flush or compaction is behind.",
              (rate("tideline_commit_slowed_batches_total"), "{{instance}}")),
        panel("Stopped partitions", "short", "Partitions, and how many of them stopped after a disk failure.",
              (gauge("tideline_partitions"), "all {{instance}}"), (total("tideline_partitions_stopped"), "stopped {{instance}}"),
              (total("tideline_commit_failed_total"), "failures {{instance}}")),
    ]),
    "delivery": ("Delivery", [
        panel("Deliveries", "ops", "Messages pushed to subscribers.", (rate("tideline_deliveries_total"), "{{instance}}")),
        panel("Commit to watchers", "s", "From a batch's begin to when its watchers were woken; the sync is part of it.",
              *quantiles("tideline_feed_delay_seconds")),
        panel("Feed lag", "s", "Age of the oldest batch the feed has not seen.", (worst("tideline_feed_lag_seconds"), "{{instance}}")),
        panel("Feed lag in batches", "short", "Committed batches not yet seen by the feed.", (total("tideline_feed_lag_batches"), "{{instance}}")),
        panel("Feed against commits", "ops", "The feed should keep pace with the commits.",
              (rate("tideline_feed_batches_total"), "feed {{instance}}"), (rate("tideline_commit_batches_total"), "commits {{instance}}")),
        panel("Fan-out", "short", "Watchers that one batch's messages in a timeline woke: the size of rooms in use.",
              *quantiles("tideline_feed_fanout_subscribers", of=(0.5, 0.99))),
        panel("Subscriptions and waits", "short", "Who follows: subscriptions, waiting syncs, and watched timelines.",
              (gauge("tideline_subscriptions"), "subscriptions {{instance}}"), (gauge("tideline_sync_waits"), "waiting syncs {{instance}}"),
              (gauge("tideline_feed_topics"), "timelines {{instance}}")),
        panel("Fresh messages", "bytes", "Memory for fresh messages, and its limit: at it readers that lag read the store.",
              (gauge("tideline_feed_ring_bytes"), "{{instance}}"), (limit("fresh_bytes_max"), "limit {{instance}}")),
        panel("Catch-ups", "ops", "Pages that subscriptions read from the store, and those taken from another reader.",
              (rate("tideline_feed_store_pages_total"), "read {{instance}}"),
              (rate("tideline_feed_store_pages_shared_total"), "shared {{instance}}")),
        panel("Page sizes", "short", "Median messages in a page, by what asked for it. Large pushes: readers are far behind.",
              *quantiles("tideline_page_messages", by="source", of=(0.5,))),
        panel("Resumes", "ops", "Subscribes by where the client stood. A burst: many came back at once.",
              (rate("tideline_resumes_total", "state"), "{{state}}")),
        panel("Open messages", "short", "Messages that grow at the moment. A timeline can have 1,000.", (gauge("tideline_open_messages"), "{{instance}}")),
        panel("Parts", "ops", "Parts by which messages grew, and pushes of them: a push has several parts where its reader is slow.",
              (rate("tideline_parts_total"), "parts {{instance}}"), (rate("tideline_part_pushes_total"), "pushes {{instance}}")),
        panel("Abandoned messages", "ops", "Open messages to which no part came for their idle time: what writes them dies or hangs.",
              (rate("tideline_abandoned_total"), "{{instance}}")),
        panel("Kept parts", "bytes", "Memory of parts for their readers. Beyond 32 MiB all are let go, and readers that lag read the store.",
              (gauge("tideline_part_kept_bytes"), "{{instance}}")),
        panel("Lost places", "ops", "A follower lost its place in the log. Should be 0: retention is too short or the log unreadable.",
              (rate("tideline_feed_resyncs_total"), "{{instance}}")),
    ]),
    "people": ("People", [
        panel("Conversation lists", "s", "conversation.list, from the decoded request to the answer. High: long lists of users who are not in memory, or a slow disk.",
              *quantiles("tideline_request_seconds", where='method="conversation.list"', of=(0.5, 0.99))),
        panel("Latency", "s", "99th percentile by method of what members ask. conversation.sync may wait on purpose.",
              *quantiles("tideline_request_seconds", by="method", where=PEOPLE, of=(0.99,))),
        panel("Requests", "reqps", "What members ask, by method.",
              (rate("tideline_requests_total", "method", PEOPLE), "{{method}}")),
        panel("Relay lag", "s", "Age of the oldest batch that is not derived and written everywhere, by target: lists, inboxes and followers are late by this.",
              (worst("tideline_relay_lag_seconds", by="instance, target"), "{{target}} {{instance}}")),
        panel("Relay backlog", "bytes", "Log that the relay has not done, and its limit: at it, what would feed the relay is refused.",
              (worst("tideline_relay_backlog_bytes", by="instance, target"), "{{target}} {{instance}}"),
              (limit("relay_backlog_bytes_max"), "limit {{instance}}")),
        panel("Relay failures", "ops", "Steps that failed and are tried again, by target. Many: a partition refuses writes.",
              (rate("tideline_relay_failures_total", "target"), "{{target}}")),
        panel("Derived writes", "ops", "Writes at users and timelines that changes led to, by target. Of inboxes one is for all of a message's in a partition.",
              (rate("tideline_relay_effects_total", "target"), "{{target}}")),
        panel("Inbox entries", "ops", "Entries written into inboxes: messages times those who get them.",
              (rate("tideline_inbox_entries_total"), "{{instance}}")),
        panel("Posts to many", "short", "Messages for more than 1,000 users that are not in all of their inboxes yet.",
              (total("tideline_inbox_jobs"), "{{instance}}")),
        panel("Feeds", "s", "feed.range, from the decoded request to the answer.",
              *quantiles("tideline_request_seconds", where='method="feed.range"', of=(0.5, 0.99))),
        panel("Polls by device", "ops", "Answers of sync with a device, by whether they had news. Mostly none: let clients wait or subscribe.",
              (rate("tideline_sync_answers_total", "news", 'by="device"'), "{{news}}")),
        panel("Presence", "short", "Users who are on-line, once in each timeline where somebody asked for presence.",
              (gauge("tideline_presence_users"), "{{instance}}")),
        panel("Gathering presence", "s", "Putting together what changed in a timeline's presence, members and receipts, at most once a second each.",
              *quantiles("tideline_presence_gather_seconds", of=(0.5, 0.99))),
        panel("Signals", "ops", "By what became of them. Dropped: more than 20 a second in a timeline, or slow readers.",
              (rate("tideline_signals_total", "result"), "{{result}}")),
        panel("Ephemeral pushes", "ops", "Signals, presence, members and receipts handed to connections, by kind.",
              (rate("tideline_ephemeral_pushes_total", "kind"), "{{kind}}")),
        panel("Ephemeral pushes missed", "ops", "What connections were too slow for, by kind.",
              (rate("tideline_ephemeral_missed_total", "kind"), "{{kind}}")),
        panel("Ephemeral pushes waiting", "bytes", "Memory of pushes that wait for slow readers. At 32 MiB signals are dropped.",
              (gauge("tideline_ephemeral_bytes"), "{{instance}}")),
        panel("What time brings", "ops", "Scheduled messages that were delivered and refused, messages that expired, trims by retention.",
              (rate("tideline_timer_delivered_total"), "delivered {{instance}}"), (rate("tideline_timer_refused_total"), "refused {{instance}}"),
              (rate("tideline_timer_expired_total"), "expired {{instance}}"), (rate("tideline_timer_trimmed_total"), "trims {{instance}}")),
        panel("Timers late", "s", "From when the oldest work of a step was due to the step. Above 1: more is due than is done.",
              *quantiles("tideline_timer_late_seconds", of=(0.5, 0.99))),
    ]),
    "store": ("Store", [
        panel("Memtables", "bytes", "Bytes not flushed yet; saws.", (total("tideline_memtable_bytes"), "{{instance}}")),
        panel("Memtable rows", "short", "Rows not flushed yet.", (total("tideline_memtable_rows"), "{{instance}}")),
        panel("Frozen memtables", "short", "At half of the limit writers are slowed, at it they hear busy.",
              each("tideline_memtables_frozen"), (limit("frozen_memtables_max"), "limit {{instance}}")),
        panel("Flush", "s", "Time to write a memtable as a run.", *quantiles("tideline_flush_seconds", of=(0.5, 0.99))),
        panel("Flushed and compacted", "Bps", "With the log's bytes: the write amplification.",
              (rate("tideline_flush_bytes_total"), "flush {{instance}}"), (rate("tideline_compaction_bytes_total"), "compaction {{instance}}"),
              (rate("tideline_commit_batch_bytes_sum"), "log {{instance}}")),
        panel("Rows", "ops", "Rows flushed, read by compaction, and dropped by it.",
              (rate("tideline_flush_rows_total"), "flushed {{instance}}"), (rate("tideline_compaction_rows_total"), "read {{instance}}"),
              (rate("tideline_compaction_dropped_rows_total"), "dropped {{instance}}")),
        panel("Reclaimed", "Bps", "What compaction gave up: expired, above max versions, of deleted tables, trimmed or deleted timelines.",
              (rate("tideline_reclaimed_bytes_total", "reason"), "{{reason}}")),
        panel("Dead, not reclaimed yet", "bytes", "An estimate. A run is rewritten when half of it is dead.",
              (total("tideline_image_dead_bytes"), "{{instance}}")),
        panel("Compaction slice", "s", "One slice; rises with disk load.", *quantiles("tideline_compaction_slice_seconds", of=(0.5, 0.99))),
        panel("Waiting for a merge", "bytes", "Ever more: the disk does not keep up.", (total("tideline_compaction_pending_bytes"), "{{instance}}")),
        panel("Runs", "short", "Sorted runs; level 0 in the partition with most, with the bounds where writers are slowed and refused.",
              (total("tideline_image_runs"), "all {{instance}}"), (worst("tideline_image_level0_runs"), "level 0 {{instance}}"),
              (limit("level0_slow_runs"), "slow {{instance}}"), (limit("level0_busy_runs"), "busy {{instance}}")),
        panel("LMDB file", "bytes", "File, data in it, and free pages. The file never shrinks; free pages are used again.",
              (total("tideline_image_file_bytes"), "file {{instance}}"), (total("tideline_image_used_bytes"), "used {{instance}}"),
              (total("tideline_image_free_bytes"), "free {{instance}}")),
        panel("Map used", "percentunit", "File against reserved address space: raise map_bytes before 1.",
              (f"{gauge('tideline_image_file_bytes')} / {gauge('tideline_image_map_bytes')}", "{{instance}} partition {{partition}}"), peak=1),
        panel("LMDB readers", "short", "Open read transactions; at 1,024 in a partition reads fail.", each("tideline_image_readers")),
        panel("Oldest reader", "s", "A read lives for a page; seconds mean a disk that hangs.",
              each("tideline_image_oldest_reader_seconds")),
        panel("Oldest reader behind", "short", "Transactions since it began; what they freed can't be used again yet.",
              each("tideline_image_oldest_reader_transactions")),
        panel("Free slots", "short", "Below two a partition's writers hear busy.", each("tideline_image_free_slots")),
        panel("Damage", "short", "Times that reads and merges have met damage in the image since the start: should be 0; tideline repair makes the image anew.", each("tideline_image_damage")),
        panel("Filters", "bytes", "Memory of loaded filters, and its limit.",
              (total("tideline_image_filter_bytes"), "{{instance}}"), (limit("filter_memory_bytes"), "limit {{instance}}")),
        panel("Log on disk", "bytes", "Saws around retention_bytes.", (total("tideline_log_bytes"), "{{instance}}")),
        panel("Log segments", "short", "Segments of the log.", (total("tideline_log_segments"), "{{instance}}")),
        panel("Log age", "s", "Age of the oldest batch: how long a follower may be away.", each("tideline_log_oldest_seconds")),
        panel("Log positions kept", "short", "Batches that the log still has.",
              (f"{gauge('tideline_log_position')} - {gauge('tideline_log_oldest_position')}", "{{instance}} partition {{partition}}")),
        panel("Log held for streams", "bytes", "What is kept of the log for the streams of tables, or would be kept anyway.",
              each("tideline_stream_log_bytes")),
        panel("Streams against their bound", "percentunit", "The same as a share of stream_log_bytes_max over the partitions. At 1 the oldest changes go before their time.",
              each("tideline_stream_log_fill_ratio"), peak=1),
        panel("Changes cut from streams", "ops", "Looks at the log that let go of changes before their time. Should be 0: raise stream_log_bytes_max or shorten streams.",
              (rate("tideline_stream_cut_total", "instance, partition"), "{{instance}} partition {{partition}}")),
        panel("Indexes being built", "short", "Rows from before them are being brought in; reads of them are refused until then.",
              (gauge("tideline_indexes_building"), "{{instance}}")),
        panel("Rows looked at for new indexes", "ops", "An index is complete when all rows of its table were looked at. Left out: no index can hold them.",
              (rate("tideline_index_backfill_rows_total"), "rows {{instance}}"),
              (rate("tideline_index_backfill_left_out_total"), "left out {{instance}}")),
        panel("Failures of building indexes", "ops", "Steps that failed and are tried again. Should be 0: the log has the error.",
              (rate("tideline_index_backfill_failures_total"), "{{instance}}")),
        panel("Search indexes", "short", "All; those into which rows from before them are brought; those that can't be filled: the log says why.",
              (gauge("tideline_search_indexes"), "all {{instance}}"), (gauge("tideline_search_indexes_building"), "building {{instance}}"),
              (gauge("tideline_search_indexes_stuck"), "stuck {{instance}}")),
        panel("Rows into search indexes", "ops", "Rows that were put in, and commits.",
              (rate("tideline_search_rows_total"), "rows {{instance}}"), (rate("tideline_search_commits_total"), "commits {{instance}}")),
        panel("Failures of search indexes", "ops", "Those that are made anew, and attempts that failed. Should be 0: the log has the error.",
              (rate("tideline_search_rebuilds_total"), "anew {{instance}}"), (rate("tideline_search_failures_total"), "failed {{instance}}")),
        panel("Searches", "ops", "Searches, and those among them that did not see all.",
              (rate("tideline_searches_total"), "all {{instance}}"), (rate("tideline_searches_incomplete_total"), "incomplete {{instance}}")),
        panel("Time of a search", "s", "With its wait for the index and for its turn.", *quantiles("tideline_search_seconds", of=(0.5, 0.99))),
        panel("Pause of a change of partitions", "s", "How long calls waited while new partitions took over. Below one; else a slow disk.",
              *quantiles("tideline_partition_pause_seconds", of=(0.5, 0.99))),
        panel("Changes of partitions", "short", "One is under way; splits and merges; cuts that were given up and are tried again, and changes that failed: then the log has the error.",
              (total("tideline_partition_change_running"), "under way"),
              *((f"increase({metric}{{{I}}}[{WINDOW}])", name) for metric, name in [
                  ("tideline_partition_splits_total", "splits"), ("tideline_partition_merges_total", "merges"),
                  ("tideline_partition_cuts_given_up_total", "given up"), ("tideline_partition_change_failures_total", "failed")])),
        panel("Backups", "short", "One is being made; those that were made and that failed. A failure: the log has the error.",
              (total("tideline_backup_running"), "under way"),
              *((f"increase({metric}{{{I}}}[{WINDOW}])", name) for metric, name in [
                  ("tideline_backups_total", "made"), ("tideline_backup_failures_total", "failed")])),
        panel("Age of the newest backup", "s", "What a lost disk would cost; 0 = none was made since the server's start. One by hand of a stopped directory does not count.",
              (f"(time() - tideline_backup_newest_seconds{{{I}}}) * (tideline_backup_newest_seconds{{{I}}} > bool 0)", "{{instance}}")),
        panel("Reads running", "short", "Against reads_max: at it reads queue.",
              (gauge("tideline_reads_running"), "{{instance}}"), (limit("reads_max"), "limit {{instance}}")),
    ]),
    "changes": ("Changes and webhooks", [
        panel("Open streams", "short", "Back ends that follow changes by stream.open.", (gauge("tideline_change_streams"), "{{instance}}")),
        panel("Changes pushed", "ops", "Changes that were pushed to them.", (rate("tideline_change_stream_changes_total"), "{{instance}}")),
        panel("Streams ended by the server", "ops", "The log had let go of their place, or what they follow is gone. Should be near 0: give them a cursor.",
              (rate("tideline_change_streams_ended_total"), "{{instance}}")),
        panel("Named cursors", "short", "All, and those whose place the log has let go of: their readers begin anew. Forget those that nobody uses.",
              (gauge("tideline_change_cursors"), "all {{instance}}"), (gauge("tideline_change_cursors_lost"), "lost {{instance}}")),
        panel("Cursors behind", "s", "Age of the oldest batch that some cursor has not passed. At stream_cursor_hours_max its changes go; stream.cursors says which it is.",
              (gauge("tideline_change_cursors_lag_seconds"), "{{instance}}")),
        panel("Log held for readers", "percentunit", "As a share of stream_log_bytes_max over the partitions. At 1 the oldest changes go before their time.",
              each("tideline_stream_log_fill_ratio"), peak=1),
        panel("Webhooks: taken", "ops", "Changes that the receivers have taken, repeats included.",
              (rate("tideline_webhook_changes_total", "instance, webhook"), "{{instance}} {{webhook}}")),
        panel("Webhooks: failures", "ops", "POSTs that were not answered with 2xx in time; they are repeated. webhook.list says what the receiver answers.",
              (rate("tideline_webhook_failures_total", "instance, webhook"), "{{instance}} {{webhook}}")),
        panel("Webhooks: late", "s", "Age of the oldest batch that was not passed at the last POST. Rises while the receiver is away or too slow.",
              (gauge("tideline_webhook_lag_seconds"), "{{instance}} {{webhook}}")),
        panel("Webhooks: failing", "bool_on_off", "On while the last attempt has failed. After give_up_ms changes become dead letters.",
              (gauge("tideline_webhook_failing"), "{{instance}} {{webhook}}")),
        panel("Webhooks: dead letters", "short", "POSTs that were given up. Should be 0: webhook.dead lists them, webhook.replay posts them again.",
              (gauge("tideline_webhook_dead"), "{{instance}} {{webhook}}")),
    ]),
    "cluster": ("Cluster", [
        stat("Owners", "short", "Nodes that own the log. 0: nobody serves; 2: one of them is cut off and does not know yet.",
             (f"sum({gauge('tideline_cluster_owner')})", "owners"), red=2),
        stat("Term", "short", "Rises with each take-over.", (f"max({gauge('tideline_cluster_term')})", "term")),
        stat("Furthest behind", "short", "Frames that the last of the nodes has not applied. A take-over by that one waits for them.",
             (f"max({gauge('tideline_cluster_lag_frames')})", "frames"), red=1000),
        stat("Nodes", "bool_on_off", "Whether Prometheus reaches each of them.", (f'up{{job="tideline",{I}}}', "{{instance}}")),
        panel("Who owns the log", "bool_on_off", "The node that serves. All off for longer than some seconds: no standby takes over; `tideline cluster status` says why.",
              (gauge("tideline_cluster_owner"), "{{instance}}")),
        panel("Terms", "short", "The last claim that each node has applied: the same on all. 0: it has stopped, or has not joined yet.",
              (gauge("tideline_cluster_term"), "{{instance}}")),
        panel("Frames behind", "short", "What each node knows to be in the log and has not applied. Near 0; it rises where a disk is too slow.",
              (gauge("tideline_cluster_lag_frames"), "{{instance}}")),
        panel("Silence of the owner", "s", "How long ago anybody heard it, as each standby knows. Below 0.4; at owner_silence_ms the standby of rank 0 claims.",
              (gauge("tideline_cluster_owner_silence_seconds"), "{{instance}}")),
        panel("Could not own the log", "bool_on_off", "On: drained, behind, cut off, has just begun, or its clock is off. On for all standbys: nobody follows the owner.",
              (gauge("tideline_cluster_unready"), "{{instance}}")),
        panel("Frames into the log", "s", "At the owner: from a batch's sending to its acknowledgement, which is synced by two NATS servers. Seconds: NATS looks for a leader.",
              *quantiles("tideline_commit_sync_seconds")),
        panel("Requests by result", "reqps", "outcome_unknown and unavailable: the log did not answer in time, or another node owns it.",
              (rate("tideline_requests_total", "result"), "{{result}}")),
        panel("Passed on", "reqps", "Requests that nodes which follow pass on to the owner. Lost: their answer was lost with the owner; refused: no owner was reached.",
              *[(rate(f"tideline_cluster_passed{end}_total", "instance"), "{{instance}}" + end.replace("_", " ")) for end in ["", "_lost", "_refused"]]),
        panel("Connections passed on", "short", "Each is one of a client here, and one to the owner.", (gauge("tideline_cluster_passing"), "{{instance}}")),
        panel("Requests that wait for an owner", "short", "Near 0 but for a hand-over's moment. At 1,024 further ones are refused.",
              (gauge("tideline_cluster_waiting"), "{{instance}}")),
        panel("Log position", "short", "The last frame that each node has, so where the lines meet nobody is behind.", each("tideline_log_position")),
    ]),
    "clients": ("Clients", [
        panel("Connections", "short", "Open, and the limit at which new ones are refused.",
              (gauge("tideline_connections"), "{{instance}}"), (limit("connections_max"), "limit {{instance}}")),
        panel("Accepts", "ops", "New TCP connections, and accepts that failed for want of descriptors.",
              (rate("tideline_connections_accepted_total"), "accepted {{instance}}"), (rate("tideline_accept_failed_total"), "failed {{instance}}")),
        panel("Closed by the server", "ops", "By close code. slow_consumer: clients that stopped reading.",
              (rate("tideline_closes_total", "reason"), "{{reason}}")),
        panel("Latency by method", "s", "99th percentile of decoded request to answer; sync may wait on purpose.",
              *quantiles("tideline_request_seconds", by="method", of=(0.99,))),
        panel("Requests by method and result", "reqps", "The whole table.",
              (rate("tideline_requests_total", "method, result"), "{{method}} {{result}}")),
        panel("In flight", "short", "Requests not answered yet.", (gauge("tideline_requests_in_flight"), "{{instance}}")),
        panel("Traffic", "Bps", "Received from clients, and replies to them; pushes are counted as deliveries.",
              (rate("tideline_received_bytes_total"), "in {{instance}}"), (rate("tideline_sent_bytes_total"), "out {{instance}}")),
        panel("Empty syncs", "percentunit", "Share of syncs without news. Near 1: clients should wait or subscribe.",
              (f"{rate('tideline_sync_answers_total', where='news=' + chr(34) + 'none' + chr(34))} / {rate('tideline_sync_answers_total')}", "{{instance}}"), peak=1),
        panel("Timelines per sync", "short", "Small ones in large numbers: clients could ask for all at once.",
              *quantiles("tideline_sync_positions", of=(0.5, 0.99))),
        panel("Refusals", "ops", "By the limit's name.", (rate("tideline_refusals_total", "limit"), "{{limit}}")),
        panel("Foreign origins", "ops", "A page is missing in allowed_origins, or someone tries.", (rate("tideline_refused_origin_total"), "{{instance}}")),
        panel("Panics", "ops", "Connections, writes and reads that ended in a panic: an error of the server's.", (rate("tideline_panics_total"), "{{instance}}")),
        panel("Descriptors", "short", "Open files against the process's limit.",
              (gauge("process_open_fds"), "{{instance}}"), (gauge("process_max_fds"), "limit {{instance}}")),
        panel("Threads", "short", "Threads of the process.", (gauge("process_threads"), "{{instance}}")),
        panel("Memory per connection", "bytes", "Resident memory by connection: says something only when there are thousands.",
              (f"{gauge('process_resident_memory_bytes')} / clamp_min({gauge('tideline_connections')}, 1)", "{{instance}}")),
    ]),
    "access": ("access", [
        panel("Certificate ends in", "s", "Until the certificate of [tls], or one of its chain, ends. Without TLS nothing is shown.",
              (f"({gauge('tideline_certificate_end_seconds')} > 0) - time()", "{{instance}}"), kind="stat"),
        panel("Certificate unfit", "short", "1 = the files have changed and can't be served; the old certificate is.",
              (gauge("tideline_certificate_unfit"), "{{instance}}"), kind="stat", peak=1),
        panel("Connections", "short", "Open WebSockets.", (gauge("tideline_connections"), "{{instance}}"), kind="stat"),
        panel("Refused at limits", "ops", "Connections and calls of addresses, users and API keys that were refused, by limit.",
              (rate("tideline_refusals_total", "limit", 'limit=~"address[.].*|user[.].*|key[.].*|arrivals|connections_max"'), "{{limit}}")),
        panel("TLS handshakes", "ops", "By result. Many failed after a renewal = clients do not trust the new certificate.",
              (rate("tideline_tls_handshakes_total", "result"), "{{result}}")),
        panel("Accepted connections", "ops", "TCP connections: beside handshakes, those that were turned away before.",
              (rate("tideline_connections_accepted_total"), "{{instance}}")),
        panel("Foreign requests", "ops", "Refused for their Host or Origin, or because a proxy passed them on. The log says which.",
              (rate("tideline_refused_origin_total"), "{{instance}}")),
        panel("Refused calls", "ops", "Answers unauthenticated, forbidden and rate_limited, by method.",
              (rate("tideline_requests_total", "method, result", 'result=~"unauthenticated|forbidden|rate_limited"'), "{{method}} {{result}}")),
        panel("Sessions", "ops", "session.open, by result.",
              (rate("tideline_requests_total", "result", 'method="session.open"'), "{{result}}")),
        panel("Credentials", "ops", "Tokens and API keys that were shown, by result: ok, or why they were refused. The log says whose key, and from where.",
              (rate("tideline_credentials_total", "by, result"), "{{by}} {{result}}")),
        panel("Fetches of keys", "ops", "Of the set of keys at jwks_url, by result. While they fail the set before counts.",
              (rate("tideline_jwks_fetches_total", "result"), "{{result}}")),
        panel("Keys and sessions", "short", "API keys, keys of the set at jwks_url, and sessions that have shown a credential.",
              (total("tideline_api_keys"), "{{instance}} API keys"), (total("tideline_jwks_keys"), "{{instance}} keys of tokens"),
              (total("tideline_sessions"), "{{instance}} sessions")),
    ]),
}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def laid_out(panels):
    x = y = row = 0
    for number, one in enumerate(panels, 1):
        height = 4 if one["kind"] == "stat" else 8
        if x + one["width"] > 24:
            x, y, row = 0, y + row, 0
        yield number, one, dict(x=x, y=y, w=one["width"], h=height)
        x, row = x + one["width"], max(row, height)


def rendered(number, one, place):
    steps = [{"color": "green", "value": None}]
    if one["peak"] is not None:
        steps.append({"color": "red", "value": 0.85 if one["unit"] == "percentunit" else one["peak"]})
    defaults = {"unit": one["unit"], "thresholds": {"mode": "absolute", "steps": steps}}
    if one["kind"] == "timeseries":
        defaults |= {"min": 0, "custom": {"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"}}
    if one["unit"] == "percentunit":
        defaults["max"] = 1
    targets = [
        {"refId": chr(65 + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend, "range": True}
        for at, (expr, legend) in enumerate(one["targets"])
    ]
    return {"id": number, "type": one["kind"], "title": one["title"], "description": one["description"],
            "datasource": SOURCE, "gridPos": place, "fieldConfig": {"defaults": defaults, "overrides": []}, "targets": targets}


def board(name, title, panels):
    variables = [
        {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus", "hide": 0},
        {"name": "instance", "label": "Server", "type": "query", "datasource": SOURCE, "refresh": 2, "sort": 1, "multi": True,
         "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
         "query": {"query": "label_values(tideline_build_info, instance)", "refId": "instances"}},
    ]
    return {"uid": f"tideline-{name}", "title": f"Tideline: {title}", "tags": ["tideline"], "schemaVersion": 39, "version": 1,
            "editable": True, "refresh": "10s", "time": {"from": "now-30m", "to": "now"}, "timezone": "browser",
            "links": [{"type": "dashboards", "title": "Tideline", "tags": ["tideline"], "asDropdown": True, "keepTime": True,
                       "includeVars": True}],
            "templating": {"list": variables}, "panels": [rendered(*one) for one in laid_out(panels)]}


def main():
    folder = pathlib.Path(__file__).parent / "dashboards"
    for name, (title, panels) in BOARDS.items():
        text = json.dumps(board(name, title, panels), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


main()
