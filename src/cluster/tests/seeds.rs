//! Worlds from many seeds, in which every promise must hold.
//!
//! Owns: how many, and that they are worth something: that there were claims, void frames, reads under leases. Promises:
//! a failure names its seed. Must not: plant bugs; `controls.rs` does.

use super::world::{Kind, World};

/// One world with what happens in it: `TIDELINE_SEED=130 TIDELINE_DISASTER=1 cargo test -p tideline-cluster one_world --
/// --nocapture`.
#[test]
fn one_world() {
    let Ok(seed) = std::env::var("TIDELINE_SEED") else {
        return;
    };
    let seed = seed.parse().expect("a number");
    let is_disaster = std::env::var_os("TIDELINE_DISASTER").is_some();
    let mut world = World::new(seed, Kind { is_disaster });
    world.is_told = true;
    let wrong = world.run();
    assert_eq!(wrong, None, "seed {seed}");
}

fn count(usual: u64) -> u64 {
    let wanted = std::env::var("TIDELINE_SEEDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn promises_hold_in_all_worlds() {
    let (mut reads, mut acks, mut claims, mut voids) = (0, 0, 0, 0);
    let seeds = count(300);
    for seed in 0..seeds {
        let mut world = World::new(seed, Kind::default());
        if let Some(wrong) = world.run() {
            panic!("seed {seed}: {wrong}");
        }
        reads += world.checker.reads;
        acks += world.checker.acks;
        claims += world.checker.claims;
        voids += world.checker.voids;
    }
    let worth = format!("{reads} reads, {acks} acks, {claims} claims, {voids} void in {seeds}");
    assert!(
        reads > 100 * seeds && acks > 100 * seeds && claims > 3 * seeds && voids > seeds / 10,
        "{worth}"
    );
}

#[test]
fn after_a_disaster_who_knows_more_stops() {
    let seeds = count(200);
    let is_disaster = true;
    for seed in 0..seeds {
        let mut world = World::new(seed, Kind { is_disaster });
        if let Some(wrong) = world.run() {
            panic!("seed {seed}: {wrong}");
        }
    }
}
