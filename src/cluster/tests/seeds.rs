//! Worlds from many seeds, in which every promise must hold.
//!
//! Owns: how many, and that they are worth something: that there were claims, void frames, reads under leases.
//! Promises: a failure names its seed. Must not: plant bugs; `controls.rs` does.

use std::io::Write as _;

use super::world::{Kind, Loss, World};

/// One world, printed: `TIDELINE_SEED=130 TIDELINE_KIND=tense cargo test -p tideline-cluster one_world
/// -- --nocapture`.
#[test]
fn one_world() {
    let Ok(seed) = std::env::var("TIDELINE_SEED") else {
        return;
    };
    let seed = seed.parse().expect("a number");
    let kind = std::env::var("TIDELINE_KIND").unwrap_or_default();
    let kind = match kind.as_str() {
        "disaster" => Kind::Disaster,
        "tense" => Kind::Tense,
        "trims" => Kind::Trims,
        "well" => Kind::Well,
        "quiet" => Kind::Quiet,
        loss => {
            let named = LOSSES.iter().find(|(of, _)| format!("{of:?}") == loss);
            named.map_or(Kind::Usual, |(loss, _)| Kind::Loses(*loss))
        }
    };
    let mut world = World::new(seed, kind);
    world.is_printed = true;
    let wrong = world.run();
    assert_eq!(wrong, None, "seed {seed}");
}

fn count(usual: u64) -> u64 {
    let wanted = std::env::var("TIDELINE_SEEDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Worlds of a kind; what their checkers have counted: reads, acks, claims, void frames; and how many frames went.
fn hold(kind: Kind, seeds: u64) -> [u64; 5] {
    let mut sums = [0; 5];
    for seed in 0..seeds {
        let mut world = World::new(seed, kind);
        if let Some(wrong) = world.run() {
            panic!("seed {seed}: {wrong}");
        }
        let checker = &world.checker;
        let purged = world.stream.purged.0.saturating_sub(world.stream.base);
        let counts = [checker.reads, checker.acks, checker.claims, checker.voids];
        let counts = counts.into_iter().chain([purged]);
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    sums
}

#[test]
fn promises_hold_in_all_worlds() {
    let seeds = count(300);
    let [reads, acks, claims, voids, _] = hold(Kind::Usual, seeds);
    let counts = format!("{reads} reads, {acks} acks, {claims} claims, {voids} void");
    let is_worth = reads > 50 * seeds && acks > 50 * seeds && claims > 3 * seeds;
    assert!(is_worth && voids > seeds / 10, "{counts} in {seeds} worlds");
}

#[test]
fn no_read_is_old_when_owners_follow_each_other_within_leases() {
    let seeds = count(200);
    let [reads, _, claims, ..] = hold(Kind::Tense, seeds);
    assert!(
        reads > 50 * seeds && claims > 5 * seeds,
        "{reads} reads, {claims} claims in {seeds} worlds"
    );
}

/// Hosts are away meanwhile, and come back.
#[test]
fn what_all_images_have_goes_and_nobody_is_left_behind() {
    let seeds = count(150);
    let [.., purged] = hold(Kind::Trims, seeds);
    assert!(purged > 20 * seeds, "{purged} frames in {seeds} worlds");
}

#[test]
fn nodes_that_know_more_stop_after_a_disaster() {
    hold(Kind::Disaster, count(200));
}

/// For how long no write is answered at most, in ms of the world, at the default settings. Some of the first 300
/// worlds take longer: a standby misses two beats in a row, takes itself for cut off and counts the silence anew, or
/// a last frame that comes late counts as a word of the owner.
const LOSSES: &[(Loss, u64)] = &[
    (Loss::Killed, 800),
    (Loss::KilledClockOff, 1_000),
    (Loss::KilledWithStream, 9_700),
    (Loss::Frozen, 1_200),
    (Loss::CutOff, 1_200),
    (Loss::Mute, 1_200),
    (Loss::Stalled, 3_500),
    (Loss::HandsOver, 300),
    (Loss::Resigns, 1_400),
];

#[test]
fn a_lost_owner_is_followed_in_time_and_by_one() {
    let mut slow = Vec::new();
    for (loss, ms_max) in LOSSES {
        let mut longest = (0, 0);
        for seed in 0..count(20) {
            let mut world = World::new(seed, Kind::Loses(*loss));
            assert_eq!(world.run(), None, "seed {seed}, {loss:?}");
            let pause_ms = world.pause.expect("it was followed") / 1_000;
            longest = longest.max((pause_ms, seed));
        }
        let (pause_ms, seed) = longest;
        let told = format!("{loss:?}: {pause_ms} ms, seed {seed}");
        if std::env::var_os("TIDELINE_TELL").is_some() {
            let _ = writeln!(std::io::stderr(), "{told}");
        }
        slow.extend((pause_ms > *ms_max).then_some(told));
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn nobody_follows_an_owner_that_is_well() {
    let [_, acks, claims, ..] = hold(Kind::Well, count(60));
    assert!(acks > 100 * claims, "{acks} acks, {claims} claims");
    hold(Kind::Quiet, count(30));
}
