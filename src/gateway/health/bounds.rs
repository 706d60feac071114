//! Troubles that one figure shows: its bound, what it says, what to do.
//!
//! Owns: the tables. Promises: a line of them is all that a new one needs; each figure is in the catalogue of metrics,
//! which a test holds. Must not: remember anything.

use super::notices::{Found, Memory, Severity};
use super::sample::{Line, Sample};
use super::words::{count, span};

use Severity::{Critical, Info, Warning};

pub(super) const MAKE_ROOM: &str = "Make room on the disk of the data directory; writes go on by themselves. Trim or delete timelines, or lower retention_bytes.";

/// A gauge that should not be above a bound.
pub(super) struct Gauge {
    pub(super) metric: &'static str,
    pub(super) above: f64,
    after_s: u64,
    severity: Severity,
    /// With `{value}` as the unit says, and the names of labels in braces.
    pub(super) what: &'static str,
    unit: fn(f64) -> String,
    advice: &'static str,
}

impl Gauge {
    pub(super) fn found(&self, line: &Line<'_>) -> Found {
        let mut what = self.what.replace("{value}", &(self.unit)(line.value));
        for label in ["partition", "target", "webhook"] {
            let value = line.label(label).unwrap_or_default();
            what = what.replace(&format!("{{{label}}}"), value);
        }
        let key = format!("{} {}", self.metric, line.labels());
        Found::new(key, self.severity, self.after_s, what, self.advice)
    }
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 100.0).round())
}

#[rustfmt::skip] // a table
pub(super) const GAUGES: &[Gauge] = &[
    Gauge { metric: "tideline_readers_behind", above: 0.0, after_s: 0, severity: Warning, unit: count,
        what: "Clients that do not keep up with what they are sent: {value}. After slow_consumer_ms they are cut, and resume.",
        advice: "Sessions, the furthest behind first, shows which. One: its network, or a client that has stopped reading. Many: this server's network or processors." },
    Gauge { metric: "tideline_image_damage", above: 0.0, after_s: 0, severity: Critical, unit: count,
        what: "The image of partition {partition} is damaged: reads and merges have met it, times: {value}. What needs the place is answered `unavailable`, all else goes on.",
        advice: "The log names the place. Look at the disk; then stop the server, and `tideline repair` makes the image anew, from the log or a backup." },
    Gauge { metric: "tideline_feed_lag_seconds", above: 5.0, after_s: 5, severity: Warning, unit: span,
        what: "Pushes of partition {partition} are {value} late.",
        advice: "See whether the processors are saturated, or reads of the disk hang." },
    Gauge { metric: "tideline_relay_lag_seconds", above: 10.0, after_s: 5, severity: Warning, unit: span,
        what: "What changes in partition {partition} lead to elsewhere ({target}) is {value} late, and the log is held for it.",
        advice: "See whether another partition takes no writes, or the disk is saturated. It is caught up with by itself." },
    Gauge { metric: "tideline_stream_log_fill_ratio", above: 0.8, after_s: 0, severity: Warning, unit: percent,
        what: "Readers of changes hold {value} of what they may of the log of partition {partition}; above 100 % the oldest changes are lost to them.",
        advice: "stream.cursors says who is behind: start that reader, or stream.forget it. Or raise stream_log_bytes_max." },
    Gauge { metric: "tideline_change_cursors_lag_seconds", above: 3_600.0, after_s: 0, severity: Warning, unit: span,
        what: "A named cursor is {value} behind, and the log is held for it.",
        advice: "stream.cursors says which: start its reader, or stream.forget it. $webhook/NAME is a webhook's." },
    Gauge { metric: "tideline_change_cursors_lost", above: 0.0, after_s: 0, severity: Warning, unit: count,
        what: "Named cursors whose place the log has let go of: {value}. Their readers have missed changes.",
        advice: "stream.cursors says which. Have the reader begin anew, or stream.forget it; raise stream_log_bytes_max if it happens again." },
    Gauge { metric: "tideline_search_indexes_stuck", above: 0.0, after_s: 5, severity: Warning, unit: count,
        what: "Search indexes that can't be filled: {value}. Searches in them say that they do not find all.",
        advice: "The log names the index and says why: make room on the disk, or see why rows can't be read. It goes on by itself." },
    Gauge { metric: "tideline_webhook_failing", above: 0.0, after_s: 0, severity: Warning, unit: count,
        what: "The receiver of webhook {webhook} does not take what it is sent; after give_up_ms changes become dead letters.",
        advice: "webhook.list says what the receiver answers: mend it." },
    Gauge { metric: "tideline_webhook_lag_seconds", above: 60.0, after_s: 5, severity: Warning, unit: span,
        what: "Webhook {webhook} is {value} behind.",
        advice: "See that its receiver answers quickly: a POST waits for the answer to the one before." },
    Gauge { metric: "tideline_webhook_dead", above: 0.0, after_s: 0, severity: Warning, unit: count,
        what: "Webhook {webhook} has given up POSTs: {value} dead letters.",
        advice: "webhook.dead lists them with the last error. Mend the receiver, then webhook.replay." },
    Gauge { metric: "tideline_certificate_unfit", above: 0.0, after_s: 30, severity: Warning, unit: count,
        what: "The certificate's files have changed and do not fit each other; the old certificate is served until it ends.",
        advice: "The log names the file. Put certificate, chain and key of one another into the files." },
    Gauge { metric: "tideline_image_oldest_reader_seconds", above: 30.0, after_s: 0, severity: Warning, unit: span,
        what: "A read of partition {partition} is {value} old; pages that are freed meanwhile can't be used again.",
        advice: "See whether reads of the disk hang (iostat -x). If not, restart the server and report it with the log." },
];

/// A gauge near a limit that another figure says.
pub(super) struct Share {
    pub(super) metric: &'static str,
    pub(super) limit: &'static str,
    /// The label `limit` of that figure, if it has one.
    of: &'static str,
    above: f64,
    severity: Severity,
    what: &'static str,
    advice: &'static str,
}

impl Share {
    pub(super) fn found(&self, sample: &Sample<'_>) -> Vec<Found> {
        let used = sample.each(self.metric).iter();
        let limit = |line: &Line<'_>| match line.label("partition") {
            Some(partition) => sample.of(self.limit, "partition", partition),
            None if self.of.is_empty() => sample.sum(self.limit),
            None => sample.of(self.limit, "limit", self.of),
        };
        let shares = used.filter_map(|line| {
            Some((line, line.value / limit(line))).filter(|(_, share)| share.is_finite())
        });
        let above = shares.filter(|(_, share)| *share > self.above);
        above
            .map(|(line, share)| {
                let what = self.what.replace("{value}", &percent(share));
                let what = what.replace("{partition}", line.label("partition").unwrap_or_default());
                Found::new(
                    format!("{} {}", self.metric, line.labels()),
                    self.severity,
                    5,
                    what,
                    self.advice,
                )
            })
            .collect()
    }
}

#[rustfmt::skip] // a table
pub(super) const SHARES: &[Share] = &[
    Share { metric: "tideline_image_file_bytes", limit: "tideline_image_map_bytes", of: "", above: 0.85, severity: Critical,
        what: "The image of partition {partition} takes {value} of its address space; at 100 % writes stop.",
        advice: "Raise map_bytes and restart: it is address space, not disk. Or split the partition." },
    Share { metric: "tideline_connections", limit: "tideline_limit", of: "connections_max", above: 0.9, severity: Warning,
        what: "{value} of the connections are in use; further ones are refused.",
        advice: "Raise connections_max and the limit of open files (ulimit -n), mind the memory." },
    Share { metric: "process_open_fds", limit: "process_max_fds", of: "", above: 0.85, severity: Warning,
        what: "{value} of the file descriptors are in use; without one no connection can be accepted.",
        advice: "Raise the limit of open files (LimitNOFILE, ulimit -n) above connections_max." },
];

/// A counter that should not rise.
pub(super) struct Counter {
    pub(super) metric: &'static str,
    /// Its label that `{label}` in the text is, and the beginnings of values that the rule is for; none = all.
    pub(super) label: &'static str,
    values: &'static [&'static str],
    /// So much within the window is nothing.
    above: f64,
    window_s: u64,
    severity: Severity,
    what: &'static str,
    advice: &'static str,
}

impl Counter {
    pub(super) fn found(&self, line: &Line<'_>, memory: &mut Memory, now: u64) -> Option<Found> {
        let label = line.label(self.label).unwrap_or_default();
        let is_of = |start: &&str| label.starts_with(*start);
        if !self.values.is_empty() && !self.values.iter().any(is_of) {
            return None;
        }
        let key = format!("{} {}", self.metric, line.labels());
        let rise = memory.rise(&key, line.value, self.window_s, now)?;
        if rise.by() <= self.above {
            return None;
        }
        let what = self
            .what
            .replace("{value}", &count(rise.by()))
            .replace("{label}", label);
        Some(Found {
            since: Some(rise.since),
            ..Found::new(key, self.severity, 0, what, self.advice)
        })
    }
}

/// A burst is reported until so long after its end.
const RECENT_S: u64 = 300;

#[rustfmt::skip] // a table
pub(super) const COUNTERS: &[Counter] = &[
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["disk_space"], above: 0.0, window_s: RECENT_S, severity: Critical,
        what: "Writes were refused because the disk is full: {value}.", advice: MAKE_ROOM },
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["queue_", "compaction", "relay_backlog"], above: 0.0, window_s: RECENT_S, severity: Warning,
        what: "Writes were refused with busy at {label}: {value}.",
        advice: "More is asked than the disk does. Partitions shows which waits; split it, write less, or use a faster disk." },
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["connections_max", "arrivals"], above: 0.0, window_s: RECENT_S, severity: Warning,
        what: "Connections were refused, or gave their place to others, at {label}: {value}.",
        advice: "Raise connections_max and the limit of open files (ulimit -n). If so many are not expected: an attack, or clients that come back too quickly." },
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["inbound_bytes_max", "answers_bytes_max"], above: 0.0, window_s: RECENT_S, severity: Warning,
        what: "Requests were refused because those under way take too much memory ({label}): {value}.",
        advice: "Slow senders or readers of much. Sessions shows who is behind; raise {label} if the machine has the memory." },
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["watched_timelines_max", "tablestore_costly_reads_max", "tablestore_transaction"], above: 0.0, window_s: RECENT_S, severity: Info,
        what: "Callers were refused at {label}: {value}.",
        advice: "One caller at its share (tideline_share), or more clients than the bound is for: raise {label} if the machine has room." },
    Counter { metric: "tideline_refusals_total", label: "limit", values: &["address.", "user.", "key."], above: 0.0, window_s: RECENT_S, severity: Info,
        what: "Callers were turned away at the limit {label}: {value}.",
        advice: "The log names them: a client with an error, many behind one address, or an attack. The limits are in [limits]." },
    Counter { metric: "tideline_closes_total", label: "reason", values: &["slow_consumer"], above: 0.0, window_s: RECENT_S, severity: Info,
        what: "Clients were cut because they did not read what they were sent: {value}.",
        advice: "They come back and resume, and nothing is lost. Many at once: a network, or a version of a client." },
    Counter { metric: "tideline_credentials_total", label: "result", values: &["audience", "expired", "issuer", "malformed", "not_yet", "revoked", "signature", "unknown"], above: 20.0, window_s: RECENT_S, severity: Warning,
        what: "Credentials were refused ({label}): {value}.",
        advice: "The log says which key and from where: clients that do not renew, keys that were rotated, or somebody who tries." },
    Counter { metric: "tideline_stream_cut_total", label: "partition", values: &[], above: 0.0, window_s: RECENT_S, severity: Warning,
        what: "Changes in partition {label} went before their time: readers of changes hold more of the log than they may.",
        advice: "Raise stream_log_bytes_max, shorten streams, or forget cursors that nobody uses (stream.cursors)." },
    Counter { metric: "tideline_timer_failures_total", label: "partition", values: &[], above: 0.0, window_s: RECENT_S, severity: Warning,
        what: "Scheduled and expiring messages of partition {label} wait: {value} tries have failed.",
        advice: "The log has the error: a full disk, or a stopped partition." },
    Counter { metric: "tideline_backup_failures_total", label: "", values: &[], above: 0.0, window_s: 3_600, severity: Warning,
        what: "Backups have failed: {value}.",
        advice: "The log and backup.status have the error: a full or missing disk or bucket, credentials that a store refuses, or damage that the backup has met." },
    Counter { metric: "tideline_feed_resyncs_total", label: "partition", values: &[], above: 0.0, window_s: RECENT_S, severity: Info,
        what: "Pushes of partition {label} were so late that subscribers read from the store; nothing is lost.",
        advice: "See the log for a failed read, and whether the processors are saturated." },
    Counter { metric: "tideline_accept_failed_total", label: "", values: &[], above: 0.0, window_s: RECENT_S, severity: Critical,
        what: "Connections could not be accepted: {value}.",
        advice: "Mostly the limit of open files: raise it (ulimit -n) and restart." },
    Counter { metric: "tideline_panics_total", label: "", values: &[], above: 0.0, window_s: 3_600, severity: Critical,
        what: "Calls or connections ended in an error of the server: {value}. All others go on.",
        advice: "Keep the log around the panic and report it." },
];
