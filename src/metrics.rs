//! Every metric of the server: name, unit, labels, meaning, and the handle through which a layer moves it.
//!
//! Owns: the catalogue. Promises: a name stands here once, with what to do when it moves; handles are bound once and
//! are cheap to touch (an atomic each). Label values are texts of enums, never IDs or anything a client sent. Must not:
//! import anything of ours, open a port. `install` comes first in the process; handles touched before it stay silent
//! for ever.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One line of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As in `/metrics`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts, and its unit.
    pub help: &'static str,
    /// What to look at when it moves.
    pub moves: &'static str,
}

/// Makes one kind of handle from a name.
trait Bind {
    const KIND: Kind;
    fn bind(name: &'static str, help: &'static str) -> Self;
}

impl Bind for Counter {
    const KIND: Kind = Kind::Counter;
    fn bind(name: &'static str, help: &'static str) -> Counter {
        ::metrics::describe_counter!(name, help);
        ::metrics::counter!(name)
    }
}

impl Bind for Gauge {
    const KIND: Kind = Kind::Gauge;
    fn bind(name: &'static str, help: &'static str) -> Gauge {
        ::metrics::describe_gauge!(name, help);
        ::metrics::gauge!(name)
    }
}

impl Bind for Histogram {
    const KIND: Kind = Kind::Histogram;
    fn bind(name: &'static str, help: &'static str) -> Histogram {
        ::metrics::describe_histogram!(name, unit_of(name), help);
        ::metrics::histogram!(name)
    }
}

macro_rules! handles {
    ($( $(#[$doc:meta])* $group:ident $accessor:ident { $(
        $field:ident: $kind:ident $name:literal $help:literal, $moves:literal;
    )+ } )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $group { $( #[doc = $help] pub $field: $kind, )+ }

            $(#[$doc])*
            pub fn $accessor() -> &'static $group {
                static BOUND: OnceLock<$group> = OnceLock::new();
                BOUND.get_or_init(|| {
                    // A handle that is bound before there is a recorder stays mute for ever.
                    recorder();
                    $group { $( $field: <$kind as Bind>::bind($name, $help), )+ }
                })
            }
        )+
        /// Binds every handle, so that a metric is at `/metrics` from the start and not from its first event.
        fn bind_all() { $( $accessor(); )+ }

        const HANDLES: &[Metric] = &[$( $( Metric {
            name: $name, kind: <$kind as Bind>::KIND, labels: &[], help: $help, moves: $moves,
        }, )+ )+];
    };
}

handles! {
    /// Handles of the commit path: one partition's writer and all partitions together.
    Commit commit {
        batches: Counter "tideline_commit_batches_total"
            "Batches written to commit logs.",
            "Its rate is the rate of syncs; compare with tideline_commit_batch_closures.";
        batch_closures: Histogram "tideline_commit_batch_closures"
            "Writes per batch.",
            "1 under load = nothing gathers: the clients wait for each answer. High and slow = the disk's sync is slow.";
        batch_bytes: Histogram "tideline_commit_batch_bytes"
            "Bytes per batch frame.",
            "Near the configured maximum = batches are cut by size: large messages.";
        write_seconds: Histogram "tideline_commit_write_seconds"
            "Seconds to hand a frame to the operating system.",
            "Rises when the disk's cache is full or a segment is made instead of reused.";
        sync_seconds: Histogram "tideline_commit_sync_seconds"
            "Seconds of an fdatasync of the commit log.",
            "Every acknowledgement waits for it. Look for other writers on the disk, or a worn device.";
        queue_depth: Gauge "tideline_commit_queue_depth"
            "Writes that wait for their partition's writer.",
            "Steadily high = more is asked than the writer does; near its limit clients see `busy`.";
        refused_busy: Counter "tideline_commit_refused_busy_total"
            "Writes refused because the queue was full or compaction was behind.",
            "Clients repeat them. Look at queue depth, sync seconds, runs.";
        refused_full: Counter "tideline_commit_refused_full_total"
            "Writes refused because the disk is full.",
            "Make room: reads go on, writes do again as soon as there is space.";
        failed: Counter "tideline_commit_failed_total"
            "Partitions that stopped after a disk failure.",
            "Needs a human: see the log; restart after the disk was looked at.";
        flush_seconds: Histogram "tideline_flush_seconds"
            "Seconds to write one memtable as a sorted run.",
            "Rises with disk load. If flushes do not keep up, writers are slowed down.";
        compaction_bytes: Counter "tideline_compaction_bytes_total"
            "Bytes of rows that compaction wrote, about; what LMDB adds for its pages is not in it.",
            "Against the bytes of batches it tells the write amplification.";
        memtable_bytes: Gauge "tideline_memtable_bytes"
            "Bytes in memtables, flushed ones excluded.",
            "Should saw between 0 and a few times the memtable's size.";
    }

    /// Handles of the image: the sorted runs of all partitions together, as their flushers last saw them.
    Image image {
        runs: Gauge "tideline_image_runs"
            "Sorted runs in the image.",
            "Each is one more place to look for a reader. A few per level are normal; ever more = compaction is behind.";
        level0_runs: Gauge "tideline_image_level0_runs"
            "Sorted runs of level 0: flushed memtables that no merge has taken yet.",
            "Where one partition has level0_slow_runs of them its writers are slowed down, at level0_busy_runs they hear `busy`.";
        used_bytes: Gauge "tideline_image_used_bytes"
            "Bytes of the pages that runs take.",
            "The data. Compare with tideline_image_file_bytes: the rest is free pages, used again by the next writes.";
        file_bytes: Gauge "tideline_image_file_bytes"
            "Bytes of the LMDB files, free pages included.",
            "They never shrink. Rising while tideline_image_used_bytes stays = a reader keeps old pages, or merges are large.";
        map_bytes: Gauge "tideline_image_map_bytes"
            "Bytes of address space that are reserved for the LMDB files.",
            "The files can't grow past it: raise map_bytes when they come near.";
        free_slots: Gauge "tideline_image_free_slots"
            "Sub-databases that runs could still take; a part of a run takes two.",
            "Without two in one partition its writers hear `busy`.";
        filter_bytes: Gauge "tideline_image_filter_bytes"
            "Bytes of memory that loaded filters take.",
            "At filter_memory_bytes runs are read without a filter: more reads of the disk for message IDs.";
    }

    /// Handles of the feed: followers of the log and their subscribers.
    Feed feed {
        batches: Counter "tideline_feed_batches_total"
            "Batches that the feed has taken from the logs.",
            "Should keep pace with tideline_commit_batches_total.";
        lag: Gauge "tideline_feed_lag_batches"
            "Batches that are committed and not yet seen by the feed.",
            "Should be near 0: pushes are late by this much.";
        topics: Gauge "tideline_feed_topics"
            "Timelines that someone watches.",
            "Follows the number of clients.";
        subscriptions: Gauge "tideline_subscriptions"
            "Open subscriptions.",
            "Follows the number of clients.";
        waits: Gauge "tideline_sync_waits"
            "Waiting sync calls.",
            "Follows the number of polling clients.";
        ring_bytes: Gauge "tideline_feed_ring_bytes"
            "Bytes of fresh messages that are kept for subscribers.",
            "At its limit, readers that lag read from the store.";
        store_pages: Counter "tideline_feed_store_pages_total"
            "Pages that subscriptions read from the store.",
            "Rising = readers lag behind the ring, or many resume at once.";
        store_pages_shared: Counter "tideline_feed_store_pages_shared_total"
            "Pages that a subscription took from another one's read.",
            "High after many clients resumed at the same place.";
        deliveries: Counter "tideline_deliveries_total"
            "Messages pushed to subscribers.",
            "The fan-out's work.";
        resyncs: Counter "tideline_feed_resyncs_total"
            "Times that a follower lost its place in the log and told all its readers to read the store.",
            "Should be 0: the feed was behind the log's retention, or the log could not be read.";
    }

    /// Handles of the gateway: sockets and sessions.
    Gateway gateway {
        connections: Gauge "tideline_connections"
            "Open WebSocket connections.",
            "At connections_max new ones are refused.";
        accepted: Counter "tideline_connections_accepted_total"
            "Accepted TCP connections.",
            "A steep rise = a reconnect storm or an attack.";
        accept_failed: Counter "tideline_accept_failed_total"
            "Failed accepts, mostly for want of file descriptors.",
            "Raise the limit of open files (ulimit -n).";
        refused: Counter "tideline_connections_refused_total"
            "Connections refused because connections_max was reached.",
            "Raise the limit or add a server.";
        refused_origin: Counter "tideline_refused_origin_total"
            "Requests with a foreign Origin or Host.",
            "A page of yours is missing in allowed_origins or allowed_hosts, or someone tries.";
        in_flight: Gauge "tideline_requests_in_flight"
            "Requests that are not answered yet.",
            "Rises with latency.";
        append_seconds: Histogram "tideline_append_seconds"
            "Seconds from a decoded append to its answer, the sync included.",
            "Compare with tideline_commit_sync_seconds: the rest is queueing.";
        received_bytes: Counter "tideline_received_bytes_total"
            "Bytes of messages from clients.",
            "Load.";
        sent_bytes: Counter "tideline_sent_bytes_total"
            "Bytes of messages to clients.",
            "Load; the fan-out's share is in tideline_deliveries_total.";
        slow_closes: Counter "tideline_slow_closes_total"
            "Connections closed because the client did not keep up (4000).",
            "Clients on bad networks, or a client that stopped reading.";
        idle_closes: Counter "tideline_idle_closes_total"
            "Connections closed after two silent heartbeats (4001).",
            "Clients that went away without a word: normal on phones.";
        protocol_closes: Counter "tideline_protocol_closes_total"
            "Connections closed for a breach of the protocol (1002, 1003, 1007, 1009).",
            "A client with an error, or someone who tries.";
        panics: Counter "tideline_panics_total"
            "Connections that ended in a panic.",
            "An error of ours: report it with the log.";
    }
}

/// Requests by method and result: bound by the gateway, one per pair.
const REQUESTS: Metric = Metric {
    name: "tideline_requests_total",
    kind: Kind::Counter,
    labels: &["method", "result"],
    help: "Answered requests by method and result (`ok` or an error's reason).",
    moves: "The reason says it: `busy` and `outcome_unknown` need a look at the disk, others at a client.",
};

/// The counter of one method and one result; both are texts of enums. Bind once and keep it.
pub fn requests(method: &'static str, result: &'static str) -> Counter {
    ::metrics::describe_counter!(REQUESTS.name, REQUESTS.help);
    ::metrics::counter!(REQUESTS.name, "method" => method, "result" => result)
}

/// All metrics.
pub fn catalogue() -> impl Iterator<Item = &'static Metric> {
    HANDLES.iter().chain(std::iter::once(&REQUESTS))
}

/// Counts something that is held: up now, down when dropped, also by a panic.
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    /// One more.
    #[must_use]
    pub fn one(gauge: &Gauge) -> Held {
        gauge.increment(1.0);
        Held(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// One partition's part of a gauge that all partitions add up to; gone when dropped.
#[derive(Debug)]
pub struct Share {
    gauge: Gauge,
    part: f64,
}

impl Share {
    /// A part of 0.
    #[must_use]
    pub fn of(gauge: &Gauge) -> Share {
        Share {
            gauge: gauge.clone(),
            part: 0.0,
        }
    }

    /// Changes this part, whatever the others are.
    pub fn set(&mut self, part: f64) {
        self.gauge.increment(part - self.part);
        self.part = part;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0.0);
    }
}

/// What `/metrics` shows.
#[derive(Clone)]
pub struct Exposition(PrometheusHandle);

impl Exposition {
    /// The text in Prometheus' format.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Moves samples of histograms into their buckets; without it they pile up until the next `render`.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// How often [`Exposition::upkeep`] is due.
pub const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Sets the process's recorder and binds all handles; again in the same process (tests) it returns the first one's.
pub fn install() -> Exposition {
    bind_all();
    recorder().clone()
}

fn recorder() -> &'static Exposition {
    static INSTALLED: OnceLock<Exposition> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
            .and_then(|it| it.set_buckets_for_metric(Matcher::Suffix("_bytes".to_owned()), BYTES))
            .and_then(|builder| builder.set_buckets(COUNTS))
            .expect("the bucket lists are not empty")
            .build_recorder();
        let exposition = Exposition(recorder.handle());
        // Fails only if a recorder stands already, which a program that embeds us may want.
        let _ = ::metrics::set_global_recorder(recorder);
        exposition
    })
}

/// The catalogue as a table for the reference.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from("| metric | kind | what | when it moves |\n|---|---|---|---|\n");
    for metric in catalogue() {
        let _ = writeln!(
            out,
            "| `{}`{} | {:?} | {} | {} |",
            metric.name,
            metric.labels.iter().fold(String::new(), |mut text, label| {
                let _ = write!(text, " `{label}`");
                text
            }),
            metric.kind,
            metric.help,
            metric.moves
        );
    }
    out
}

const SECONDS: &[f64] = &[
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0,
];
const BYTES: &[f64] = &[
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
];
const COUNTS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0,
];

fn unit_of(name: &str) -> Unit {
    match name {
        name if name.ends_with("_seconds") => Unit::Seconds,
        name if name.ends_with("_bytes") => Unit::Bytes,
        _ => Unit::Count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut seen = std::collections::HashSet::new();
        for metric in catalogue() {
            assert!(seen.insert(metric.name), "{} stands twice", metric.name);
            assert!(metric.name.starts_with("tideline_"), "{}", metric.name);
            let total = metric.name.ends_with("_total");
            assert_eq!(total, metric.kind == Kind::Counter, "{}", metric.name);
            assert!(metric.help.ends_with('.') && metric.moves.ends_with('.'));
        }
    }

    #[test]
    fn everything_is_rendered_from_the_start() {
        let exposition = install();
        requests("ping", "ok").increment(1);
        let held = Held::one(&gateway().connections);
        commit().sync_seconds.record(0.0003);
        exposition.upkeep();
        let text = exposition.render();
        for metric in catalogue() {
            assert!(text.contains(metric.name), "{} is not shown", metric.name);
        }
        assert!(text.contains("method=\"ping\",result=\"ok\""));
        drop(held);
    }

    #[test]
    fn partitions_add_up() {
        let exposition = install();
        let shown = || {
            let text = exposition.render();
            let line = text
                .lines()
                .find(|line| line.starts_with("tideline_test_shares "));
            line.map(|line| line.to_owned())
        };
        let gauge = ::metrics::gauge!("tideline_test_shares");
        let (mut one, mut other) = (Share::of(&gauge), Share::of(&gauge));
        one.set(5.0);
        other.set(3.0);
        one.set(4.0);
        assert_eq!(shown().unwrap(), "tideline_test_shares 7");
        drop(one);
        assert_eq!(shown().unwrap(), "tideline_test_shares 3");
    }
}
