//! Controls: each planted bug must be found within some seeds.
//!
//! Owns: which worlds find which bug, and within how many seeds. Promises: no plant outlives its test. Must not: accept
//! a world that fails without a plant; `seeds.rs` holds these.

use super::world::{Kind, World};
use crate::plant::{Plant, plant};

/// The first seed that finds the bug, and what was seen.
fn found(what: Plant, is_disaster: bool, seeds: u64) -> Option<(u64, String)> {
    plant(Some(what));
    let found = (0..seeds).find_map(|seed| {
        let wrong = World::new(seed, Kind { is_disaster }).run();
        wrong.map(|wrong| (seed, wrong))
    });
    plant(None);
    found
}

const PLANTS: &[(Plant, bool)] = &[
    (Plant::ClaimAnywhere, false),
    (Plant::SilenceIsFailure, false),
    (Plant::AbsenceIsFailure, false),
    (Plant::OtherBytes, false),
    (Plant::SkipsGap, false),
    (Plant::NoVoidRule, false),
    (Plant::AckBeforeStored, false),
    (Plant::NoMargin, false),
    (Plant::NoHold, false),
    (Plant::LeaseForEver, false),
    (Plant::LeaseFromAck, false),
    (Plant::ResignEndsAll, false),
    (Plant::OwnLease, false),
    (Plant::ResignLate, false),
    (Plant::WokenFree, false),
    (Plant::NoAttach, true),
    (Plant::LossIgnored, true),
    (Plant::HeardIgnored, true),
];

#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for (what, is_disaster) in PLANTS {
        match found(*what, *is_disaster, 3000) {
            Some((seed, wrong)) => println!("{what:?}: seed {seed}: {wrong}"),
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
