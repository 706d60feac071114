//! The list: name, labels, meaning and what to do when it moves, of every metric.
//!
//! Owns: the texts. Promises: a name is written here once; `docs/METRICS.md` is made from it. Must not: know how a
//! handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Family, Gauge, Histogram};
use super::registry::Registry;

/// All metrics.
pub fn catalogue() -> impl Iterator<Item = &'static Metric> {
    super::groups_of_metrics().flat_map(|(_, metrics)| *metrics)
}

groups! {
    "By label" by []
    /// Metrics with labels of their own.
    Families {
        requests: Family<Counter>, "tideline_requests_total" ["method", "result"]
            "Answered requests by method and result (`ok` or an error's reason).",
            "The reason says it: `busy` and `outcome_unknown` need a look at the disk, others at a client.";
        request_seconds: Family<Histogram>, "tideline_request_seconds" ["method"]
            "Seconds from a decoded request to its answer, the wait for its turn and the sync of a write included.",
            "`message.append` is the time to acknowledgement: against tideline_commit_sync_seconds the rest is queueing. Reads: the disk, or reads_max.";
        refusals: Family<Counter>, "tideline_refusals_total" ["limit"]
            "Requests, writes and connections that were refused at a limit, by the limit's name (or `compaction`, `disk_space`).",
            "`queue_…` and `compaction`: more is asked than the disk does. `disk_space`: make room. `connections_max`: raise it or add a server. `inbound_bytes_max`, `answers_bytes_max`: slow senders or readers of much, or one caller at its share (tideline_share). `address.…`, `user.…`: what [limits] says. `arrivals`: connections that asked for nothing while 1,024 others waited. Others: a client asks for too much at once.";
        capacity_units: Family<Counter>, "tideline_capacity_units_total" ["kind"]
            "Capacity units (of 4 KiB) that Tablestore's operations used: `read`, `write`.",
            "What clients would be billed for elsewhere; beside tideline_requests_total it shows how large rows are.";
        closes: Family<Counter>, "tideline_closes_total" ["reason"]
            "Connections that the server closed, by the close code's name.",
            "`slow_consumer`: bad networks, or a client that stopped reading. `idle`: clients went without a word, normal on phones. `protocol_error`, `too_big`…: a client with an error.";
        sync_by_news: Family<Counter>, "tideline_sync_answers_total" ["by", "news"]
            "Answered syncs with some news and with none, by what they asked with: `positions`, or a `device`.",
            "Mostly `none` = clients poll more often than there is news: let them wait (wait_ms) or subscribe.";
        resumes: Family<Counter>, "tideline_resumes_total" ["state"]
            "Subscribes by where the client stood: `ok`, `too_old` (trimmed meanwhile), `epoch_changed` (made anew).",
            "A burst of `ok` = many came back at once. `too_old` = clients are away for longer than you keep messages.";
        page_messages: Family<Histogram>, "tideline_page_messages" ["source"]
            "Messages in one page from the store, by what asked: `range`, `feed`, `sync` (timelines with news), `subscribe`, `push` (a lagging subscription).",
            "Small pages of `push` in large numbers = readers lag by a little all the time. At the page's limit = they are far behind.";
        signals: Family<Counter>, "tideline_signals_total" ["result"]
            "Signals by what became of them: `sent`, `unheard` (nobody asked for signals of the timeline), `dropped` (more than the timeline's 20 a second, or all that wait take too much memory).",
            "`dropped` = rooms so large that not all can be seen typing; raise nothing. A connection that sends too many gets `rate_limited` instead.";
        ephemeral_pushes: Family<Counter>, "tideline_ephemeral_pushes_total" ["kind"]
            "Pushes that are never stored, handed to connections, by kind: `signal`, `presence`, `member`, `receipt`.",
            "The cost of signals and presence: compare with tideline_deliveries_total. High `presence` = large groups whose clients all ask for it.";
        ephemeral_missed: Family<Counter>, "tideline_ephemeral_missed_total" ["kind"]
            "Pushes that are never stored and that a connection did not get because it was too slow, by kind.",
            "Clients on bad networks. After missed ones a client is sent numbers alone, and asks for the rest.";
        reclaimed_rows: Family<Counter>, "tideline_reclaimed_rows_total" ["reason"]
            "Rows that compaction gave up whole, by reason: `expired`, `table_deleted`, `marked` (trimmed or deleted timelines, message IDs past their window); `surplus` shortens rows only.",
            "Follows what expires and what is deleted, with the delay of merges.";
        reclaimed_bytes: Family<Counter>, "tideline_reclaimed_bytes_total" ["reason"]
            "Bytes of keys and values that compaction gave up, those of shortened rows too, by reason: `expired`, `surplus` (versions above max versions), `table_deleted`, `marked`.",
            "As the rows. Flat while tideline_image_dead_bytes rises = compaction does not come to it.";
        limit: Family<Gauge>, "tideline_limit" ["limit"]
            "Limits in force, by name: settings and constants. Those of memtables, runs and filters are per partition.",
            "To hold a gauge against: the alerts do.";
        share: Family<Gauge>, "tideline_share" ["limit"]
            "How much of what callers share one caller may hold: one user, or one API key.",
            "caller_share_percent of tideline_limit. Whoever comes to it is refused; others are not.";
        held: Family<Gauge>, "tideline_held" ["limit"]
            "How much callers hold together of what they share, for what has no gauge of its own.",
            "Against tideline_limit: at it callers are refused, with the name in tideline_refusals_total.";
        build_info: Family<Gauge>, "tideline_build_info" ["version", "arch"]
            "1, with what was built in the labels.",
            "Changes at an upgrade.";
    }

    "Commit" by ["partition"]
    /// Handles of the commit path of one partition.
    Commit {
        batches: Counter, "tideline_commit_batches_total"
            "Batches written to commit logs.",
            "Its rate is the rate of syncs; compare with tideline_commit_batch_closures.";
        batch_closures: Histogram, "tideline_commit_batch_closures"
            "Writes per batch.",
            "1 under load = nothing gathers: the clients wait for each answer. High and slow = the disk's sync is slow.";
        batch_bytes: Histogram, "tideline_commit_batch_bytes"
            "Bytes per batch frame.",
            "Near 4 MiB = batches are cut by size: large messages.";
        fill_seconds: Histogram, "tideline_commit_fill_seconds"
            "Seconds to evaluate the writes of a batch.",
            "Above the sync's time = the processor is the limit, not the disk.";
        write_seconds: Histogram, "tideline_commit_write_seconds"
            "Seconds to hand a frame to the operating system.",
            "Rises when the disk's cache is full or a segment is made instead of reused.";
        sync_seconds: Histogram, "tideline_commit_sync_seconds"
            "Seconds of an fdatasync of the commit log.",
            "Every acknowledgement waits for it. Look for other writers on the disk, or a worn device.";
        queue_depth: Gauge, "tideline_commit_queue_depth"
            "Writes that wait for the partition's writer.",
            "Steadily high = more is asked than the writer does; at queue_jobs_max clients hear `busy`.";
        queue_bytes: Gauge, "tideline_commit_queue_bytes"
            "Bytes that waiting writes hold.",
            "As the depth; at queue_bytes_max clients hear `busy`.";
        queue_fill: Gauge, "tideline_commit_queue_fill_ratio"
            "How full the queue is, in writes or bytes, 0 to 1.",
            "Near 1 clients hear `busy`. Look at sync and fill seconds, and at level 0.";
        slowed: Counter, "tideline_commit_slowed_batches_total"
            "Batches that were held back a little because flush, compaction or a change of partitions is behind.",
            "Rising = the disk does not keep up with flush and compaction, or partitions are split or merged under load.";
        failed: Counter, "tideline_commit_failed_total"
            "Failures of the disk that stopped the partition.",
            "Needs a human: see the log; restart after the disk was looked at.";
        stopped: Gauge, "tideline_partitions_stopped"
            "1 if the partition takes no more writes after a failure of the disk, else 0.",
            "Must be 0. Reads go on; see the log, look at the disk, restart.";
    }

    "Memtables and flush" by ["partition"]
    /// Handles of memtables and their flush, of one partition.
    Memtables {
        bytes: Gauge, "tideline_memtable_bytes"
            "Bytes in memtables that are not flushed yet.",
            "Should saw between 0 and a few times memtable_bytes.";
        rows: Gauge, "tideline_memtable_rows"
            "Rows in memtables that are not flushed yet.",
            "As the bytes.";
        frozen: Gauge, "tideline_memtables_frozen"
            "Full memtables that wait to be flushed.",
            "Above half of frozen_memtables_max writers are slowed down, at it they hear `busy`: the disk is behind.";
        flush_seconds: Histogram, "tideline_flush_seconds"
            "Seconds to write one memtable as a sorted run.",
            "Rises with disk load. If flushes do not keep up, writers are slowed down.";
        flush_rows: Counter, "tideline_flush_rows_total"
            "Rows written by flushes.",
            "Load; some rows for each message.";
        flush_bytes: Counter, "tideline_flush_bytes_total"
            "Bytes of memtables that were flushed.",
            "Load. With the log's and compaction's bytes it shows the write amplification.";
    }

    "Reclaiming" by ["partition"]
    /// Handles of compaction, of one partition.
    Compaction {
        seconds: Histogram, "tideline_compaction_slice_seconds"
            "Seconds of one slice of compaction.",
            "Rises with disk load.";
        bytes: Counter, "tideline_compaction_bytes_total"
            "Bytes of rows that compaction wrote, about; what LMDB adds for its pages is not in it.",
            "Against tideline_flush_bytes_total it shows the write amplification.";
        rows: Counter, "tideline_compaction_rows_total"
            "Rows that compaction read.",
            "Its work.";
        dropped: Counter, "tideline_compaction_dropped_rows_total"
            "Rows that compaction did not write again: older versions, and what was trimmed, was deleted or has expired.",
            "Follows trims, deletions and the age of message IDs, with the delay of merges.";
        pending: Gauge, "tideline_compaction_pending_bytes"
            "Bytes of runs that wait for a merge: level 0, and inputs of running merges.",
            "Ever more = the disk does not keep up; level 0 then slows writers down.";
        surveyed: Counter, "tideline_survey_rows_total"
            "Rows that were looked at, while there was nothing to merge, for what can be given up.",
            "At most 50,000 a second while a walk over all rows lasts, then a minute of rest.";
        survey_age: Gauge, "tideline_survey_age_seconds"
            "Seconds since the last walk over all rows ended; 0 before the first one.",
            "The walk finds what was trimmed, marked or is surplus. (What expires or was deleted with its table is known without it.) Ever older = merges leave no time for it.";
    }

    "Image (LMDB)" by ["partition"]
    /// Handles of the image, the sorted runs of one partition.
    Image {
        runs: Gauge, "tideline_image_runs"
            "Sorted runs in the image.",
            "Each is one more place to look for a reader. A few per level are normal; ever more = compaction is behind.";
        level0_runs: Gauge, "tideline_image_level0_runs"
            "Flushed memtables that no merge has taken yet (level 0).",
            "At level0_slow_runs writers are slowed down, at level0_busy_runs they hear `busy`.";
        used_bytes: Gauge, "tideline_image_used_bytes"
            "Bytes of the pages that runs take.",
            "The data. Compare with tideline_image_file_bytes: the rest is free pages, used again by the next writes.";
        dead_bytes: Gauge, "tideline_image_dead_bytes"
            "Bytes of the pages of runs that hold what has expired or was deleted, as far as that is known: an estimate.",
            "A run is rewritten when half of it is dead; from an eighth on when a quarter of the image is. Lasting above that = compaction is behind.";
        file_bytes: Gauge, "tideline_image_file_bytes"
            "Bytes of the LMDB file, free pages included.",
            "It never shrinks. Rising while tideline_image_used_bytes stays = a reader keeps old pages, or merges are large.";
        free_bytes: Gauge, "tideline_image_free_bytes"
            "Bytes of pages that hold nothing any more, LMDB's list of them included.",
            "Used again by later writes, unless an old reader still may see them.";
        map_bytes: Gauge, "tideline_image_map_bytes"
            "Bytes of address space that are reserved for the LMDB file.",
            "The file can't grow past it: raise map_bytes when it comes near.";
        readers: Gauge, "tideline_image_readers"
            "Open read transactions.",
            "Follows the number of reads under way; at 1024 reads fail.";
        reader_seconds: Gauge, "tideline_image_oldest_reader_seconds"
            "Age of the oldest read transaction, seconds; 0 without one.",
            "A read lives for a page. Seconds = a disk that hangs, or an error of ours: the file grows meanwhile.";
        reader_transactions: Gauge, "tideline_image_oldest_reader_transactions"
            "Transactions committed since the oldest reader began.",
            "The pages that these freed can't be used again before it ends.";
        damage: Gauge, "tideline_image_damage"
            "Times since the start that a read or a merge has met damage in the image.",
            "Should be 0. The log names the place, and `tideline verify` all of them; `tideline repair` makes the image anew.";
        free_slots: Gauge, "tideline_image_free_slots"
            "Sub-databases that runs could still take; a part of a run takes two.",
            "Below two writers hear `busy`.";
        filter_bytes: Gauge, "tideline_image_filter_bytes"
            "Bytes of memory that loaded filters take.",
            "At filter_memory_bytes runs are read without a filter: more reads of the disk for message IDs.";
    }

    "Log" by ["partition"]
    /// Handles of the commit log of one partition.
    Log {
        position: Gauge, "tideline_log_position"
            "Position of the newest visible batch.",
            "Rises by one with each batch.";
        oldest_position: Gauge, "tideline_log_oldest_position"
            "Position of the oldest batch that the log still has.",
            "Steps up when retention lets a segment go. A follower that is below it must start anew.";
        oldest_seconds: Gauge, "tideline_log_oldest_seconds"
            "Age of the oldest batch that the log still has, seconds; 0 while empty.",
            "Below retention_age_ms = retention_bytes cuts: raise it if followers need longer.";
        bytes: Gauge, "tideline_log_bytes"
            "Bytes of the log's segments on disk.",
            "Saws around retention_bytes. Above = the image is behind, or something holds the log.";
        segments: Gauge, "tideline_log_segments"
            "Segments of the log.",
            "As its bytes.";
    }

    "Server" by []
    /// Handles of the server as a whole.
    Server {
        partitions: Gauge, "tideline_partitions"
            "Partitions of the data directory.",
            "Never, while the server runs.";
        panics: Counter, "tideline_panics_total" "Connections, writes and reads that ended in a panic.",
            "An error of ours: report it with the log.";
        messages: Counter, "tideline_messages_total"
            "Messages that were appended and acknowledged; repeats and scheduled ones are not counted, delivered ones are.",
            "Load. Against tideline_deliveries_total it shows how many readers a message has.";
        reads_running: Gauge, "tideline_reads_running"
            "Reads of the store that run now; reads_max is the bound, others wait.",
            "Steadily at reads_max = reads queue: a slow disk, or too many resumes at once.";
        reads: Counter, "tideline_reads_total"
            "Reads of the store, each of one view of a partition.",
            "Grows with calls, catch-ups and waits, not with pushes: what is fresh is pushed from memory.";
        sync_positions: Histogram, "tideline_sync_positions"
            "Timelines asked for in one sync.",
            "Small ones in large numbers = clients could ask for all their timelines at once.";
    }

    "Feed, by partition" by ["partition"]
    /// Handles of the feed's follower of one partition's log.
    Follower {
        batches: Counter, "tideline_feed_batches_total"
            "Batches that the feed has taken from the log.",
            "Should keep pace with tideline_commit_batches_total.";
        lag: Gauge, "tideline_feed_lag_batches"
            "Batches that are committed and not yet seen by the feed.",
            "Should be near 0: pushes are late by this much.";
        lag_seconds: Gauge, "tideline_feed_lag_seconds"
            "Age of the oldest committed batch that the feed has not seen, seconds; 0 if there is none.",
            "Should be near 0. Rising = the feed's processor share is too small, or the disk hangs where it reads the log.";
        delay_seconds: Histogram, "tideline_feed_delay_seconds"
            "Seconds from a batch's begin (its commit time, whole milliseconds) to when its watchers were woken.",
            "Holds the sync. Far above tideline_commit_sync_seconds = the feed is late.";
        resyncs: Counter, "tideline_feed_resyncs_total"
            "Times that the feed lost its place in the log and had all readers read the store.",
            "Should be 0: the feed was behind the log's retention, or the log could not be read.";
    }

    "Relay" by ["target", "partition"]
    /// Handles of what the relay derives from one partition for one target.
    Relay {
        position: Gauge, "tideline_relay_position"
            "Position in the partition's log up to which everything is derived and written.",
            "Keeps pace with tideline_log_position.";
        lag_seconds: Gauge, "tideline_relay_lag_seconds"
            "Age of the oldest committed batch that is not derived and written everywhere, seconds; 0 if there is none.",
            "Should be below a second: lists, inboxes and followers are late by this much. Rising = a partition that can't write, or more changes than the disk takes.";
        backlog_bytes: Gauge, "tideline_relay_backlog_bytes"
            "What is left to do: bytes of the log that are not read yet, and bytes to be written of those that are.",
            "At relay_backlog_bytes_max changes of members and messages that go into inboxes are refused with `busy`.";
        effects: Counter, "tideline_relay_effects_total"
            "Writes in other partitions that changes have led to.",
            "Load: beside tideline_commit_batches_total it shows how far changes spread.";
        failures: Counter, "tideline_relay_failures_total"
            "Steps of the relay that failed and are tried again.",
            "A few `busy` under load are normal. Many = a partition refuses writes: see its log.";
    }

    "Inboxes" by ["partition"]
    /// Handles of the inboxes of one partition.
    Inboxes {
        entries: Counter, "tideline_inbox_entries_total"
            "Entries that were written into inboxes.", "Messages of timelines with fan_out, times those who get them. Beside tideline_relay_lag_seconds of the target inboxes it shows what the disk takes.";
        jobs: Gauge, "tideline_inbox_jobs" "Messages for more than 1,000 users that are not in all of their inboxes yet, up to 1,000.",
            "Back to 0 soon after a post in a large group. At 1,000 messages that go into inboxes are refused with `busy`.";
    }

    "Timers" by ["partition"]
    /// Handles of the timer of one partition.
    Timer {
        delivered: Counter, "tideline_timer_delivered_total"
            "Scheduled messages that were appended when their time came.",
            "Follows what clients schedule.";
        refused: Counter, "tideline_timer_refused_total"
            "Scheduled messages that were refused when their time came: the timeline was gone, or the sender no member of it any more.",
            "Much of it = an application schedules into timelines that do not last. `schedule.list` shows the reasons to the senders.";
        expired: Counter, "tideline_timer_expired_total"
            "Messages that were made tombstones because their time was over.",
            "Follows what clients append with expires_in_ms.";
        trimmed: Counter, "tideline_timer_trimmed_total"
            "Trims of a timeline by the age that its retention sets, and ends of durable streams by their time.",
            "Follows how many timelines with such a retention are written to, and how many streams end.";
        late_seconds: Histogram, "tideline_timer_late_seconds"
            "Seconds from when the oldest work of a step was due to the step, of steps that found some.",
            "Should be below 1. Rising = more is due than the writer does beside its other work, or the server was stopped when it was due.";
        failures: Counter, "tideline_timer_failures_total"
            "Steps that failed; they are tried again.",
            "Should be 0. The log has the error: a full disk, a stopped partition.";
    }

    "Feed" by []
    /// Handles of the feed: watched timelines and their subscribers.
    Feed {
        topics: Gauge, "tideline_feed_topics"
            "Timelines that someone watches.",
            "Follows the number of clients.";
        subscriptions: Gauge, "tideline_subscriptions"
            "Open subscriptions.",
            "Follows the number of clients.";
        waits: Gauge, "tideline_sync_waits"
            "Waiting sync calls.",
            "Follows the number of polling clients.";
        presence_users: Gauge, "tideline_presence_users"
            "Users who are online, counted once in each timeline where a subscription asked for presence.",
            "Follows the number of clients. What presence keeps in memory is about 200 bytes for each.";
        ephemeral_bytes: Gauge, "tideline_ephemeral_bytes"
            "Bytes of pushes that are never stored (signals, presence, members, receipts) and wait for slow readers, about.",
            "At 32 MiB signals are dropped, and the others are numbers without names.";
        gather_seconds: Histogram, "tideline_presence_gather_seconds"
            "Seconds to put together what changed in one timeline's presence, members and receipts and to wake who asked for it.",
            "At most once a second and timeline. Rises with the number of subscribers.";
        ring_bytes: Gauge, "tideline_feed_ring_bytes"
            "Bytes of fresh messages that are kept for subscribers.",
            "At fresh_bytes_max readers that lag read from the store.";
        fanout: Histogram, "tideline_feed_fanout_subscribers"
            "Watchers that one batch's messages in one timeline woke.",
            "The size of rooms in use. Large and frequent = the processor goes into pushes.";
        store_pages: Counter, "tideline_feed_store_pages_total"
            "Catch-ups: pages that subscriptions read from the store.",
            "Rising = readers lag behind the ring, or many resume at once.";
        store_pages_shared: Counter, "tideline_feed_store_pages_shared_total"
            "Catch-ups that took the page which another subscription was reading.",
            "High after many clients resumed at the same place.";
        deliveries: Counter, "tideline_deliveries_total"
            "Messages pushed to subscribers.",
            "The fan-out's work.";
    }

    "Gateway" by []
    /// Handles of the gateway: sockets and sessions.
    Gateway {
        connections: Gauge, "tideline_connections"
            "Open WebSocket connections and event streams.",
            "At connections_max those give their places up that have shown no credential, then those of a caller above its share; then new ones are refused.";
        event_streams: Gauge, "tideline_event_streams"
            "Open responses of /v1/events.",
            "A part of tideline_connections. Rising without clients that come: a proxy keeps streams open whose clients are gone.";
        accepted: Counter, "tideline_connections_accepted_total"
            "Accepted TCP connections.",
            "A steep rise = a reconnect storm or an attack.";
        accept_failed: Counter, "tideline_accept_failed_total"
            "Failed accepts, mostly for want of file descriptors.",
            "Raise the limit of open files (ulimit -n).";
        refused_origin: Counter, "tideline_refused_origin_total"
            "Requests with a foreign Origin or Host, or through a proxy where none may be.",
            "A page of yours is missing in allowed_origins or allowed_hosts, or someone tries. The log says which.";
        readers_behind: Gauge, "tideline_readers_behind"
            "WebSocket connections whose client does not keep up: for more than a quarter of slow_consumer_ms it has not read, or a subscription of it lags.",
            "Clients on bad networks. Many at once = this server's network or processors. session.list says which.";
        in_flight: Gauge, "tideline_requests_in_flight"
            "Requests that are not answered yet.",
            "Rises with latency.";
        inbound: Gauge, "tideline_inbound_bytes"
            "Bytes of requests that come in or are not answered yet, over all connections; up to 16 KiB of each are not counted.",
            "At inbound_bytes_max large requests are refused. A client that sends large messages slowly, or an attack.";
        answers: Gauge, "tideline_unread_bytes"
            "Bytes of answers that wait for clients that do not read them, over all connections; up to 16 KiB of each are not counted.",
            "At answers_bytes_max large reads are refused and slow readers are cut.";
        received_bytes: Counter, "tideline_received_bytes_total"
            "Bytes of messages from clients.",
            "Load.";
        sent_bytes: Counter, "tideline_sent_bytes_total"
            "Bytes of replies to clients.",
            "Load; pushes are counted in tideline_deliveries_total.";
    }
}
