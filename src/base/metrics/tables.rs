//! The list goes on: what users' tables have beside their rows.
//!
//! Owns: the texts. Promises: a name is written here once; `docs/METRICS.md` is made from it. Must not: know how a
//! handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge, Histogram};
use super::registry::Registry;

groups! {
    "Streams" by ["partition"]
    /// Handles of the streams of tables in one partition.
    Streams {
        log_bytes: Gauge, "tideline_stream_log_bytes"
            "Bytes of the commit log that are kept for the streams of tables, or would be kept anyway.",
            "Rises to what is written in the hours of the longest stream.";
        log_fill: Gauge, "tideline_stream_log_fill_ratio"
            "The same as a share of what streams may hold in this partition: stream_log_bytes_max over the partitions.",
            "At 0.8 raise stream_log_bytes_max or shorten streams: at 1 the oldest changes go before their time.";
        cut: Counter, "tideline_stream_cut_total"
            "Looks at the log, one every 10 s, that found changes above the bound and let go of them before their time.",
            "Should be 0. Readers that had not come so far get OTSTrimmedDataAccess: raise stream_log_bytes_max or shorten streams.";
    }

    "Change feed" by []
    /// Handles of those who follow the changes of timelines or of a table.
    Follows {
        open: Gauge, "tideline_change_streams"
            "Open change streams (stream.open) of all connections.",
            "Follows the number of back ends.";
        changes: Counter, "tideline_change_stream_changes_total"
            "Changes that were pushed to them.",
            "The change feed's work.";
        ended: Counter, "tideline_change_streams_ended_total"
            "Change streams that the server ended: the log had let go of their place, their table or its stream went, or it could not be read.",
            "Should be near 0. If it rises readers are too slow for what the log keeps: give them a cursor, or raise stream_log_bytes_max.";
        cursors: Gauge, "tideline_change_cursors"
            "Named cursors.",
            "Follows what back ends make. Those that nobody uses any more: stream.forget.";
        lost: Gauge, "tideline_change_cursors_lost"
            "Named cursors whose place the log has let go of.",
            "Should be 0. Their readers begin anew: raise stream_log_bytes_max or stream_cursor_hours_max, or forget them.";
        lag_seconds: Gauge, "tideline_change_cursors_lag_seconds"
            "Age of the oldest commit of its own that some named cursor has not passed.",
            "Rises while a back end is away. At stream_cursor_hours_max its changes go; stream.cursors says which it is.";
    }

    "Webhooks" by ["webhook"]
    /// Handles of one webhook.
    Webhook {
        delivered: Counter, "tideline_webhook_changes_total"
            "Changes that the receiver has taken, repeats included.",
            "Load.";
        failed: Counter, "tideline_webhook_failures_total"
            "POSTs that were not answered with 2xx in time; they are repeated.",
            "Should be near 0. webhook.list says what the receiver answers.";
        failing: Gauge, "tideline_webhook_failing"
            "1 while the last attempt has failed.",
            "If it stays 1 the receiver is away: after give_up_ms its changes become dead letters.";
        lag_seconds: Gauge, "tideline_webhook_lag_seconds"
            "Age of the oldest batch that was not passed when the receiver was last posted to.",
            "Rises while the receiver is away or too slow.";
        dead: Gauge, "tideline_webhook_dead"
            "Dead letters: POSTs that were given up.",
            "Should be 0. webhook.dead says which; webhook.replay posts them again, as long as the log has them.";
    }

    "Cluster" by []
    /// Handles of a node's part in a cluster.
    Cluster {
        owner: Gauge, "tideline_cluster_owner"
            "1 if this node owns the cluster's log, else 0.",
            "The sum over all nodes should be 1. 0 for longer than a few seconds = nobody serves, and no standby takes over: `tideline cluster status` says why.";
        term: Gauge, "tideline_cluster_term"
            "The term of the last claim that this node has applied; 0 = none, or the node has stopped.",
            "Rises with each take-over, and is the same on all nodes.";
        lag: Gauge, "tideline_cluster_lag_frames"
            "Frames that this node knows to be in the log and has not applied.",
            "Near 0. On a standby it is what a take-over waits for.";
        silence: Gauge, "tideline_cluster_owner_silence_seconds"
            "For how long nobody has heard the owner, as far as this node can tell; 0 on the owner, and on a node that is cut off itself.",
            "Below 0.4. A standby takes over at owner_silence_ms, by its rank.";
        unready: Gauge, "tideline_cluster_unready"
            "1 if this node could not own the log if the owner was gone: it is drained, behind or cut off, has just begun, or its clock is off.",
            "0 on all, but for a moment: `tideline cluster status` says why. With 1 on all standbys nobody follows the owner.";
        passed: Counter, "tideline_cluster_passed_total"
            "Requests that this node has passed on to the owner, WebSockets among them, and that were answered.",
            "Load that came to a node that follows.";
        passed_lost: Counter, "tideline_cluster_passed_lost_total"
            "Requests that were passed on, and whose answer was lost with the owner.",
            "Rises when an owner dies. Else its connections break: look at the network between the nodes.";
        passed_refused: Counter, "tideline_cluster_passed_refused_total"
            "Requests that were not passed on, as no owner was reached in time or too many were waiting.",
            "Should be 0. This node must reach the owner at its address in `nodes`, and that name must be in the owner's allowed_hosts.";
        passing: Gauge, "tideline_cluster_passing"
            "Open connections to the owner, one for each client's connection that has asked for something.",
            "Load. At half of connections_max strangers leave first, as on an owner.";
        waiting: Gauge, "tideline_cluster_waiting"
            "Requests that wait for an owner.",
            "Near 0 but for a hand-over's moment. At 1,024 further ones are refused.";
    }

    "Transactions" by []
    /// Handles of local transactions of tables.
    Transactions {
        open: Gauge, "tideline_transactions_open"
            "Open local transactions; each locks its partition key.",
            "Follows the clients. At tablestore_transactions_max, or a caller's share of it (tideline_share), starts are refused: clients start and do not end, and it takes 60 s until the server does.";
        bytes: Gauge, "tideline_transactions_bytes"
            "Bytes of memory that the writes of open transactions take, but for those of running requests.",
            "At tablestore_transaction_bytes_max, or a caller's share of it, writes in transactions are refused with `OTSServerBusy`.";
        started: Counter, "tideline_transactions_started_total"
            "Transactions that were started.",
            "Load.";
        committed: Counter, "tideline_transactions_committed_total"
            "Transactions whose commit has reached a batch, or that had written nothing.",
            "Load. Against those that were started: the rest was given up.";
        aborted: Counter, "tideline_transactions_aborted_total"
            "Transactions that a client gave up, or that ended because their table was changed.",
            "Follows what clients do.";
        expired: Counter, "tideline_transactions_expired_total"
            "Transactions that were over for their age of 60 s.",
            "Should be near 0: clients die between start and commit, or hold transactions while they wait for something.";
        conflicts: Counter, "tideline_transactions_conflicts_total"
            "Starts and writes that were refused because another transaction has the partition key.",
            "Many = hot partition keys: shorter transactions, or smaller partition keys.";
    }

    "Changes of partitions" by []
    /// Handles of splits and merges of a running server.
    Reshapes {
        running: Gauge, "tideline_partition_change_running"
            "1 while a partition is split or two are merged, else 0.",
            "As long as it takes to write their rows anew. `tideline partition list` says how far it is.";
        splits: Counter, "tideline_partition_splits_total"
            "Partitions that were split while they were served.",
            "By hand, or by partition_split_bytes and partition_split_bytes_per_s.";
        merges: Counter, "tideline_partition_merges_total"
            "Times that two partitions became one while they were served.",
            "By hand.";
        given_up: Counter, "tideline_partition_cuts_given_up_total"
            "Times that calls have waited in vain: what had to be done meanwhile took too long. It is tried again.",
            "A few under load are normal. Many = lists and inboxes are far behind (tideline_relay_lag_seconds), or the disk is slow.";
        failures: Counter, "tideline_partition_change_failures_total"
            "Changes of partitions that have failed; all stayed as it was.",
            "Should be 0. The log has the error, and `tideline partition list` the last one.";
        pause_seconds: Histogram, "tideline_partition_pause_seconds"
            "Seconds for which calls have waited while new partitions took over.",
            "Below one. Long = a slow disk: some ten syncs are in it.";
    }

    "Backups" by []
    /// Handles of the backups that a running server makes.
    Backups {
        running: Gauge, "tideline_backup_running"
            "1 while a backup is made, else 0.",
            "As long as it takes to copy what there is. backup.status says how far it is.";
        made: Counter, "tideline_backups_total"
            "Backups that were made.",
            "One for each that was asked for.";
        failures: Counter, "tideline_backup_failures_total"
            "Backups that failed, those that were cancelled left out. Nothing of them is left.",
            "Should be 0. The log has the error, and backup.status the last one: a full or missing disk or bucket, credentials that a store refuses, or damage that the backup has met.";
        newest: Gauge, "tideline_backup_newest_seconds"
            "The moment that the newest backup since the start shows, s since 1970; 0 = there is none.",
            "time() minus it is what a lost disk would cost. An alert on it is yours to set: only you know how often one is to be made.";
        bytes: Gauge, "tideline_backup_bytes"
            "Bytes of the newest backup.",
            "Grows with the data. Keep room for as many as you keep.";
    }

    "Secondary indexes" by []
    /// Handles of what brings rows into indexes that were made later.
    Backfill {
        building: Gauge, "tideline_indexes_building"
            "Indexes into which rows from before them are being brought; reads of them are refused.",
            "Back to 0 after CreateIndex. If it stays, look at tideline_index_backfill_failures_total.";
        rows: Counter, "tideline_index_backfill_rows_total"
            "Rows that were looked at for an index that was made after them.",
            "The progress: an index is complete when it has risen by the rows of its table.";
        left_out: Counter, "tideline_index_backfill_left_out_total"
            "Rows among them that no index can hold: a value too long for a key, or more columns than its rows may have.",
            "Such rows are found in their table only. New ones are refused when they are written.";
        failures: Counter, "tideline_index_backfill_failures_total"
            "Steps that failed; they are tried again.",
            "Should be 0. The log has the error: a full disk, a stopped partition.";
    }
}
