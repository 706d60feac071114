//! The rules against figures as they come: what is reported, in which order, and that nothing is reported of a server
//! that is well.
//!
//! Owns: the sentences that operators read. Promises: each rule's figure is in the catalogue. Must not: need a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::bounds::{COUNTERS, Counter, GAUGES, Gauge, SHARES, Share};
use super::notices::{
    Memory,
    Severity::{Critical, Warning},
};
use super::rules::{DAY_S, find, keys};
use super::sample::Sample;
use super::storage::Storage;
use super::{FAILED, Health, Look};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics::{Metrics, catalogue};
use tideline_store::partition::{Doing, Options, Partitions, State};
use tideline_timelines::timeline::{Limits, Timelines};

#[test]
fn every_figure_of_a_rule_is_in_the_catalogue_with_its_labels() {
    let find = |name: &str| {
        let metric = catalogue().find(|metric| metric.name == name);
        metric.unwrap_or_else(|| panic!("there is no {name}"))
    };
    for Gauge { metric, what, .. } in GAUGES {
        for label in ["partition", "target", "webhook"] {
            let is_named = what.contains(&format!("{{{label}}}"));
            assert_eq!(
                find(metric).labels.contains(&label) || is_by(metric, label),
                is_named,
                "{metric} {label}"
            );
        }
    }
    for Share { metric, limit, .. } in SHARES {
        let _ = (find(metric), find(limit));
    }
    for Counter { metric, label, .. } in COUNTERS {
        let _ = find(metric);
        assert!(
            label.is_empty() || find(metric).labels.contains(label) || is_by(metric, label),
            "{metric} {label}"
        );
    }
}

/// Whether all of a group of metrics have a label.
fn is_by(metric: &str, label: &str) -> bool {
    let metrics = everything();
    let text = metrics.render();
    Sample::read(&text)
        .each(metric)
        .iter()
        .any(|line| line.label(label).is_some())
}

fn everything() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::default());
    let _bound = (
        metrics.partition(0),
        metrics.follower(0),
        metrics.relay("lists", 0),
        metrics.timer(0),
        metrics.streams(0),
        metrics.webhook("search"),
    );
    metrics
}

fn doing(state: State) -> Doing {
    Doing {
        state,
        position: Position(9),
        oldest: Position(1),
        holds: Vec::new(),
        queue_writes: 0,
        queue_bytes: 0,
        queue_fill: 0.0,
        memtable_bytes: 0,
        frozen: 2,
        runs: 12,
        level0_runs: 11,
        used_bytes: 0,
        dead_bytes: 0,
    }
}

fn plenty() -> Storage {
    Storage {
        disk_free: Some(1 << 40),
        disk_bytes: Some(1 << 41),
        ..Storage::default()
    }
}

/// What is reported at the second of two looks.
fn told(
    metrics: &Metrics,
    partitions: &[(PartitionId, Doing)],
    storage: Storage,
    before: impl FnOnce(),
) -> Vec<String> {
    let mut memory = Memory::default();
    let mut look = |now: u64| {
        let text = metrics.render();
        let found = find(&Sample::read(&text), partitions, &storage, &mut memory, now);
        memory.told(found, now)
    };
    look(1_700_000_000_000);
    before();
    let told = look(1_700_000_060_000);
    assert!(
        told.iter()
            .all(|notice| !notice.advice.is_empty() && notice.what.ends_with('.'))
    );
    told.into_iter()
        .map(|notice| format!("{:?}: {}", notice.severity, notice.what))
        .collect()
}

#[test]
fn nothing_is_wrong_with_a_new_server() {
    let serving = [(PartitionId(0), doing(State::Serving))];
    assert_eq!(told(&everything(), &serving, plenty(), || {}), [""; 0]);
}

#[test]
fn a_partition_that_takes_no_writes_says_why() {
    let states = [
        State::Slowed,
        State::Busy,
        State::Full,
        State::Stopped("the log failed: EIO".to_owned()),
    ];
    let partitions: Vec<_> = (0..).map(PartitionId).zip(states.map(doing)).collect();
    assert_eq!(
        told(&everything(), &partitions, plenty(), || {}),
        [
            "Critical: Partition 1 refuses writes with busy: 11 sorted runs of level 0 and 2 full memtables wait for the disk.",
            "Critical: Partition 2 takes no writes: the disk is full.",
            "Critical: Partition 3 takes no writes: the log failed: EIO.",
            "Warning: Partition 0 is slowed: 11 sorted runs of level 0 and 2 full memtables wait for the disk.",
        ]
    );
    let full = Doing {
        queue_fill: 0.91,
        ..doing(State::Serving)
    };
    let told = told(&everything(), &[(PartitionId(4), full)], plenty(), || {});
    assert!(
        told[0].starts_with("Warning: The write queue of partition 4 is 91 % full"),
        "{told:?}"
    );
}

#[test]
fn a_disk_is_nearly_full_by_its_bytes_its_share_or_its_pace() {
    for (free, total, full_in_s, expected) in [
        (1_u64 << 40, 1_u64 << 41, None, None),
        (1 << 40, 1 << 41, Some(7 * DAY_S), None),
        (
            1 << 40,
            1 << 41,
            Some(2 * DAY_S),
            Some(
                "Warning: The disk is nearly full: 1.1 TB are left. This server's data takes 3.0 GB. As this server wrote in the last hour, it is full in 2 days.",
            ),
        ),
        (
            1 << 35,
            1 << 40,
            None,
            Some(
                "Warning: The disk is nearly full: 34.4 GB are left. This server's data takes 3.0 GB.",
            ),
        ),
        (
            1 << 29,
            1 << 30,
            None,
            Some(
                "Warning: The disk is nearly full: 537 MB are left. This server's data takes 3.0 GB.",
            ),
        ),
        (
            1 << 27,
            1 << 28,
            None,
            Some(
                "Critical: The disk is nearly full: 134 MB are left. This server's data takes 3.0 GB.",
            ),
        ),
    ] {
        let storage = Storage {
            live: 2_000_000_000,
            log: 1_000_000_000,
            disk_free: Some(free),
            disk_bytes: Some(total),
            full_in_s,
            ..Storage::default()
        };
        assert_eq!(
            told(&everything(), &[], storage, || {})
                .first()
                .map(String::as_str),
            expected
        );
    }
}

#[test]
fn what_gauges_counters_and_limits_say_is_told() {
    let metrics = everything();
    let found = told(&metrics, &[], plenty(), || {
        metrics.webhook("search").failing.count(1);
        metrics.webhook("search").dead.count(2);
        metrics.follower(0).lag_seconds.set(12.0);
        metrics.relay("lists", 0).lag_seconds.set(300.0);
        metrics.follows.lag_seconds.set(7_300.0);
        metrics.families.limit.of(&["connections_max"]).count(100);
        metrics.gateway.connections.set(91.0);
        metrics.refused("compaction", 7);
        metrics.refused("user.bytes_per_s", 1);
        metrics.families.closes.of(&["slow_consumer"]).increment(3);
        metrics.families.closes.of(&["idle"]).increment(3);
        metrics.access.jwks_fetches.of(&["failed"]).increment(1);
        metrics.server.panics.increment(1);
        metrics
            .tls
            .certificate_end
            .count(1_700_000_060 + 86_400 + 3_600);
    });
    // Those that must last are not reported yet.
    assert_eq!(
        found,
        [
            "Critical: The certificate ends in 25 h; clients then refuse the server.",
            "Critical: The keys of the tokens' issuer (jwks_url) were never fetched: no token of theirs can be verified.",
            "Critical: Calls or connections ended in an error of the server: 1. All others go on.",
            "Warning: A named cursor is 2 h behind, and the log is held for it.",
            "Warning: The receiver of webhook search does not take what it is sent; after give_up_ms changes become dead letters.",
            "Warning: Webhook search has given up POSTs: 2 dead letters.",
            "Warning: Writes were refused with busy at compaction: 7.",
            "Info: Callers were turned away at the limit user.bytes_per_s: 1.",
            "Info: Clients were cut because they did not read what they were sent: 3.",
        ]
    );
    let lasting = told(&metrics, &[], plenty(), || {});
    for expected in [
        "Warning: Pushes of partition 0 are 12 s late.",
        "Warning: What changes in partition 0 lead to elsewhere (lists) is 5 min late, and the log is held for it.",
        "Warning: 91 % of the connections are in use; further ones are refused.",
    ] {
        assert!(
            lasting.iter().any(|one| one == expected),
            "{expected} in {lasting:?}"
        );
    }
}

#[test]
fn keys_that_were_fetched_again_are_no_trouble() {
    let metrics = everything();
    let mut memory = Memory::default();
    let fetches = &metrics.access.jwks_fetches;
    let mut look = |now: u64| {
        let text = metrics.render();
        keys(&Sample::read(&text), &mut memory, now).map(|found| found.severity)
    };
    assert_eq!(look(1), None);
    fetches.of(&["failed"]).increment(1);
    assert_eq!(look(2), Some(Critical));
    fetches.of(&["ok"]).increment(1);
    metrics.access.jwks_keys.count(2);
    assert_eq!(look(3), None);
    fetches.of(&["failed"]).increment(4);
    assert_eq!(look(4), Some(Warning));
    assert_eq!(look(900_000_000), Some(Warning));
}

#[tokio::test]
async fn a_look_that_failed_says_so_and_keeps_what_was_known() {
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::fixed(1_000));
    let rules = Timelines::rules(&Limits::default());
    let partitions =
        Partitions::open(home.path(), Options::default(), rules, Arc::clone(&clock)).unwrap();
    let looks = AtomicU32::new(0);
    let scrape = move || match looks.fetch_add(1, Ordering::SeqCst) {
        1 | 4 => "tideline_panics_total 1\ntideline_log_bytes 7\n".to_owned(),
        _ => panic!("this look fails"),
    };
    let health = Health::new(
        &partitions,
        Arc::new(scrape),
        &clock,
        home.path().to_owned(),
        Vec::new(),
    );
    let told = |look: &Look| {
        let notices = look.notices.iter();
        let begun = notices.map(|notice| (notice.what == FAILED, notice.since));
        (begun.collect::<Vec<_>>(), look.storage.log)
    };
    assert_eq!(told(&*health.look(true).await), (vec![(true, 1_000)], 0));
    clock.set(2_000);
    assert_eq!(told(&*health.look(true).await), (vec![(false, 2_000)], 7));
    for now_ms in [3_000, 4_000] {
        clock.set(now_ms);
        let failed = (vec![(true, 3_000), (false, 2_000)], 7);
        assert_eq!(told(&*health.look(true).await), failed);
    }
    assert_eq!(told(&*health.look(true).await), (vec![(false, 2_000)], 7));
}
