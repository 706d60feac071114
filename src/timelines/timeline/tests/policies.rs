//! Policies that change between two starts, over timelines that nobody writes to.
//!
//! Owns: the starts. Promises: after a start with other policies each timeline is kept as its own settings and its
//! policy say; with the same ones nothing is written. Must not: look into rows.

use std::path::Path;
use std::sync::Arc;

use crate::timeline::{
    Append, AppendOne, Create, Limits, Policies, Policy, Retention, Settings, SettingsPatch,
    Target, Timelines,
};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::access::Asker;
use tideline_store::partition::{Options, Partitions};

const AT: PartitionId = PartitionId(0);
const START_MS: u64 = 1_000_000_000;
const NAMES: [&str; 5] = ["a", "b", "c/1", "c/2", "own"];

fn policy(prefix: &str, kept: Retention) -> Policy {
    Policy {
        prefix: prefix.to_owned(),
        settings: Settings {
            retention: Some(kept),
            ..Settings::default()
        },
    }
}

fn messages(messages: u64) -> Retention {
    Retention {
        messages: Some(messages),
        ..Retention::default()
    }
}

/// Starts, lets the timer work, and gives the floors, and where the log ended before and after.
async fn floors(
    dir: &Path,
    now_ms: u64,
    policies: Vec<Policy>,
) -> ([u64; NAMES.len()], [Position; 2]) {
    let limits = Limits::default();
    let clock = Arc::new(Clock::fixed(now_ms));
    let rules = Timelines::rules(&limits);
    let partitions = Partitions::open(dir, Options::default(), rules, Arc::clone(&clock)).unwrap();
    let before = partitions.tail(AT).position();
    let policies = Policies::new(policies);
    let timelines = Timelines::with_policies(partitions.clone(), limits, policies, clock);
    if before == Position::ZERO {
        fill(&timelines).await;
    }
    let mut timer = timelines.timer(AT);
    for _ in 0..9 {
        timer.step().await.unwrap();
    }
    let mut floors = [0; NAMES.len()];
    for (floor, name) in floors.iter_mut().zip(NAMES) {
        let info = timelines.get(Target::from(name)).await.unwrap();
        *floor = info.floor;
    }
    let ends = [before, partitions.tail(AT).position()];
    partitions.close().await;
    (floors, ends)
}

async fn fill(timelines: &Timelines) {
    let own = Create {
        settings: SettingsPatch {
            retention: Some(Some(messages(5))),
            ..SettingsPatch::default()
        },
        ..Create::from(Target::from("own"))
    };
    timelines.create(own).await.unwrap();
    for name in NAMES {
        let append = Append {
            timeline: name.to_owned(),
            asker: Asker::default(),
            messages: vec![AppendOne::default(); 6],
            expect_head: None,
            create: true,
            epoch: None,
        };
        timelines.append(append).await.unwrap();
    }
}

#[tokio::test]
async fn a_changed_policy_trims_timelines_that_nobody_writes_to() {
    let dir = tempfile::tempdir().unwrap();
    let later = START_MS + 10_000;
    let (none, _) = floors(dir.path(), START_MS, Vec::new()).await;
    assert_eq!(none, [1, 1, 1, 1, 2]);
    let (same, [before, after]) = floors(dir.path(), later, Vec::new()).await;
    assert_eq!((same, before), (none, after));
    let age = Retention {
        age_ms: Some(1_000),
        ..Retention::default()
    };
    let policies = || vec![policy("", age), policy("c/", messages(2))];
    let (changed, _) = floors(dir.path(), later, policies()).await;
    assert_eq!(changed, [7, 7, 5, 5, 2]);
    let (same, [before, after]) = floors(dir.path(), later, policies()).await;
    assert_eq!((same, before), (changed, after));
    let (fewer, _) = floors(dir.path(), later, vec![policy("c/2", messages(1))]).await;
    assert_eq!(fewer, [7, 7, 5, 6, 2]);
    let (none, _) = floors(dir.path(), later, Vec::new()).await;
    assert_eq!(none, fewer);
}
