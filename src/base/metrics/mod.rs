//! Every metric of the server: the list, the handles, and the text that Prometheus reads.
//!
//! Owns: what there is to count, and one registry for each server. Promises: a handle is bound once and cheap to touch;
//! each metric is shown from the start, before its first event; a scrape waits for no writer. Label values are texts of
//! enums or a partition's number, never anything a client sent. Must not: import anything of ours, open a port, keep a
//! registry for the whole process.

#[macro_use]
mod groups;

mod access;
mod catalogue;
mod centrifuge;
mod growth;
mod handles;
mod members;
mod process;
mod reference;
mod registry;
mod search;
mod spans;
mod tables;
mod tls;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use ::metrics::Label;

pub use access::Access;
pub use catalogue::*;
pub use centrifuge::Centrifuge;
pub use growth::Growth;
pub use handles::{Counter, Family, Gauge, Held, Histogram, Seconds};
pub use members::*;
pub use process::Process;
pub use reference::reference;
use registry::Registry;
pub use search::Search;
pub use spans::Spans;
pub use tables::{Backfill, Backups, Cluster, Follows, Reshapes, Streams, Transactions, Webhook};
pub use tls::Tls;

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

/// All metrics by part of the server.
fn groups_of_metrics() -> impl Iterator<Item = &'static (&'static str, &'static [Metric])> {
    let rest = tables::GROUPS.iter().chain(tls::GROUPS);
    let rest = rest.chain(centrifuge::GROUPS);
    let rest = rest.chain(growth::GROUPS);
    let rest = rest.chain(access::GROUPS).chain(process::GROUPS);
    let rest = rest.chain(spans::GROUPS).chain(search::GROUPS);
    catalogue::GROUPS.iter().chain(rest)
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

/// All metrics of one server. Each layer is handed them in its options; a test that looks at figures makes its own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Metrics by labels of their own.
    pub families: Families,
    /// Sizes of pages.
    pub pages: Pages,
    /// Answers of `sync`.
    pub sync_answers: SyncAnswers,
    /// Signals, and pushes that are never stored.
    pub ephemeral: Ephemeral,
    /// The server as a whole.
    pub server: Server,
    /// Local transactions of tables.
    pub transactions: Transactions,
    /// Those who follow changes.
    pub follows: Follows,
    /// Watched timelines and their subscribers.
    pub feed: Feed,
    /// Sockets and sessions.
    pub gateway: Gateway,
    /// Credentials.
    pub access: Access,
    /// Of messages that grow.
    pub growth: Growth,
    /// Connections of the Centrifuge dialect.
    pub centrifuge: Centrifuge,
    /// Spans that are sent to a collector.
    pub spans: Spans,
    /// Who comes in, and how.
    pub tls: Tls,
    process: Process,
}

/// The metrics of one partition.
#[derive(Debug)]
pub struct Partition {
    /// All of the server.
    pub all: Arc<Metrics>,
    /// The commit path.
    pub commit: Commit,
    /// Memtables and their flush.
    pub memtables: Memtables,
    /// Reclaiming.
    pub compaction: Compaction,
    /// The sorted runs.
    pub image: Image,
    /// The commit log.
    pub log: Log,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let registry = Registry::new();
        let families = Families::bind(&registry, &[]);
        families.bind_known();
        let access = Access::bind(&registry, &[]);
        access.bind_known();
        let tls = Tls::bind(&registry, &[]);
        tls.bind_known();
        Metrics {
            pages: Pages::of(&families),
            sync_answers: SyncAnswers::of(&families),
            ephemeral: Ephemeral::of(&families),
            families,
            server: Server::bind(&registry, &[]),
            transactions: Transactions::bind(&registry, &[]),
            follows: Follows::bind(&registry, &[]),
            feed: Feed::bind(&registry, &[]),
            gateway: Gateway::bind(&registry, &[]),
            access,
            growth: Growth::bind(&registry, &[]),
            centrifuge: Centrifuge::bind(&registry, &[]),
            spans: Spans::bind(&registry, &[]),
            tls,
            process: Process::bind(&registry, &[]),
            registry,
        }
    }
}

impl Metrics {
    /// The metrics of the partition with this number.
    #[must_use]
    pub fn partition(self: &Arc<Metrics>, number: u16) -> Partition {
        let by = [Label::new(PARTITION, number.to_string())];
        Partition {
            commit: Commit::bind(&self.registry, &by),
            memtables: Memtables::bind(&self.registry, &by),
            compaction: Compaction::bind(&self.registry, &by),
            image: Image::bind(&self.registry, &by),
            log: Log::bind(&self.registry, &by),
            all: Arc::clone(self),
        }
    }

    /// Forgets the metrics of a partition that has ended.
    pub fn forget(&self, number: u16) {
        self.registry.forget(number);
    }

    /// The metrics of bringing rows into indexes.
    #[must_use]
    pub fn backfill(&self) -> Backfill {
        Backfill::bind(&self.registry, &[])
    }

    /// The metrics of search indexes.
    #[must_use]
    pub fn search(&self) -> Search {
        Search::bind(&self.registry, &[])
    }

    /// The metrics of a node of a cluster.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        Cluster::bind(&self.registry, &[])
    }

    /// The metrics of backups.
    #[must_use]
    pub fn backups(&self) -> Backups {
        Backups::bind(&self.registry, &[])
    }

    /// The metrics of splits and merges.
    #[must_use]
    pub fn reshapes(&self) -> Reshapes {
        Reshapes::bind(&self.registry, &[])
    }

    /// The metrics of the feed's follower of a partition.
    #[must_use]
    pub fn follower(&self, number: u16) -> Follower {
        Follower::bind(&self.registry, &[Label::new(PARTITION, number.to_string())])
    }

    /// The metrics of what the relay derives from the partition with this number for a target.
    #[must_use]
    pub fn relay(&self, target: &'static str, number: u16) -> Relay {
        let target = Label::from_static_parts("target", target);
        let partition = Label::new(PARTITION, number.to_string());
        Relay::bind(&self.registry, &[target, partition])
    }

    /// The metrics of the streams of tables in a partition.
    #[must_use]
    pub fn streams(&self, number: u16) -> Streams {
        Streams::bind(&self.registry, &[Label::new(PARTITION, number.to_string())])
    }

    /// The metrics of a webhook; its name is from the configuration.
    #[must_use]
    pub fn webhook(&self, name: &str) -> Webhook {
        Webhook::bind(&self.registry, &[Label::new("webhook", name.to_owned())])
    }

    /// The metrics of the inboxes of a partition.
    #[must_use]
    pub fn inboxes(&self, number: u16) -> Inboxes {
        Inboxes::bind(&self.registry, &[Label::new(PARTITION, number.to_string())])
    }

    /// The metrics of the timer of a partition.
    #[must_use]
    pub fn timer(&self, number: u16) -> Timer {
        Timer::bind(&self.registry, &[Label::new(PARTITION, number.to_string())])
    }

    /// Counts what was refused at a limit.
    pub fn refused(&self, limit: &'static str, count: u64) {
        self.families.refusals.of(&[limit]).increment(count);
    }

    /// The text in Prometheus' format. Reads some files of `/proc`, nothing else that could wait.
    #[must_use]
    pub fn render(&self) -> String {
        self.process.observe();
        self.registry.render()
    }

    /// Counts the waiting samples of histograms into their buckets.
    pub fn upkeep(&self) {
        self.registry.upkeep();
    }

    /// Starts a thread that does the upkeep each second, so that samples do not pile up without scrapes. It ends
    /// when what is returned is dropped.
    pub fn start_upkeep(self: &Arc<Metrics>) -> io::Result<Upkeep> {
        let (stop, stopped) = sync_channel(0);
        let metrics = Arc::clone(self);
        Builder::new().name("metrics".to_owned()).spawn(move || {
            while stopped.recv_timeout(UPKEEP) == Err(RecvTimeoutError::Timeout) {
                metrics.upkeep();
            }
        })?;
        Ok(Upkeep { _stop: stop })
    }
}

/// The thread that [`Metrics::start_upkeep`] has started.
#[derive(Debug)]
pub struct Upkeep {
    _stop: SyncSender<()>,
}

const PARTITION: &str = "partition";
/// A sample takes 16 bytes until then: at a million a second 16 MB.
const UPKEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let mut seen = std::collections::HashSet::new();
        for metric in catalogue() {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.starts_with("tideline_") || name.starts_with("process_"));
            let total = name.ends_with("_total");
            assert_eq!(total, metric.kind == Kind::Counter, "{name}");
            for scaled in ["_ms", "_millis", "_micros", "_kb", "_mb", "_percent"] {
                assert!(!name.contains(scaled), "{name} is not in a base unit");
            }
            assert!(metric.help.ends_with('.') && metric.moves.ends_with('.'));
            for foreign in ["user", "timeline", "sender", "connection"] {
                assert!(!metric.labels.contains(&foreign), "{name} by {foreign}");
            }
        }
    }

    #[test]
    fn everything_is_rendered_from_the_start_and_sorted() {
        let metrics = Arc::new(Metrics::default());
        let _bound = (
            metrics.partition(0),
            metrics.follower(0),
            metrics.relay("lists", 0),
            metrics.inboxes(0),
            metrics.timer(0),
            metrics.streams(0),
            metrics.backfill(),
            metrics.search(),
            metrics.webhook("search"),
            metrics.reshapes(),
            metrics.backups(),
            metrics.cluster(),
        );
        // Set by the server, from its configuration.
        metrics.families.limit.of(&["reads_max"]).count(1);
        metrics.families.share.of(&["connections_max"]).count(1);
        let _held = metrics.families.held.of(&["connections_max"]);
        let text = metrics.render();
        for metric in catalogue() {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let Metric { name, help, .. } = metric;
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}");
            assert_eq!(text.matches(&head).count(), 1, "{head} in {text}");
        }
        let names: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# HELP"))
            .collect();
        assert!(names.is_sorted() && names.len() == catalogue().count());
    }

    #[test]
    fn a_sample_is_in_its_bucket() {
        let metrics = Metrics::default();
        let ping = metrics.families.request_seconds.of(&["ping"]);
        ping.record(0.0005);
        ping.record(31.0);
        let text = metrics.render();
        for (le, count) in [("0.0002", 0), ("0.0005", 1), ("30", 1), ("+Inf", 2)] {
            let line =
                format!("tideline_request_seconds_bucket{{method=\"ping\",le=\"{le}\"}} {count}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains("tideline_request_seconds_sum{method=\"ping\"} 31.0005\n"));
    }

    #[test]
    fn partitions_and_registries_are_told_apart() {
        let (one, other) = (Arc::new(Metrics::default()), Metrics::default());
        one.partition(3).commit.batches.increment(2);
        // The same figure, however often it is bound.
        one.partition(3).commit.batches.increment(5);
        let _bound = one.partition(4);
        let text = one.render();
        assert!(text.contains("tideline_commit_batches_total{partition=\"3\"} 7\n"));
        assert!(text.contains("tideline_commit_batches_total{partition=\"4\"} 0\n"));
        assert!(!other.render().contains("tideline_commit_batches_total"));
    }

    #[test]
    fn what_is_held_is_given_back() {
        let metrics = Metrics::default();
        let shows = |figure: &str| {
            metrics
                .render()
                .contains(&format!("tideline_sync_waits {figure}\n"))
        };
        let held = metrics.feed.waits.hold(3);
        assert!(shows("3"));
        drop(held);
        assert!(shows("0"));
    }
}
