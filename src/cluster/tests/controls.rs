//! Controls: each planted bug must be found within some seeds.
//!
//! Owns: which worlds find which bug, and within how many seeds. Promises: no plant outlives its test. Must not: accept
//! a world that fails without a plant; `seeds.rs` holds these.

use super::world::{Kind, World};
use crate::plant::{Plant, plant};

const USUAL: Kind = Kind {
    is_disaster: false,
    is_tense: false,
};
const TENSE: Kind = Kind {
    is_disaster: false,
    is_tense: true,
};
const DISASTER: Kind = Kind {
    is_disaster: true,
    is_tense: false,
};

const PLANTS: &[(Plant, Kind)] = &[
    (Plant::ClaimAnywhere, USUAL),
    (Plant::SilenceIsFailure, USUAL),
    (Plant::AbsenceIsFailure, USUAL),
    (Plant::OtherBytes, USUAL),
    (Plant::SkipsGap, USUAL),
    (Plant::NoVoidRule, USUAL),
    (Plant::AckBeforeStored, USUAL),
    (Plant::NoMargin, TENSE),
    (Plant::NoHold, TENSE),
    (Plant::LeaseForEver, TENSE),
    (Plant::LeaseFromAck, TENSE),
    (Plant::ResignEndsAll, TENSE),
    (Plant::OwnLease, TENSE),
    (Plant::ResignLate, TENSE),
    (Plant::WokenFree, TENSE),
    (Plant::NoAttach, DISASTER),
    (Plant::HeardIgnored, DISASTER),
];

/// The first seed that finds the bug, and what was seen.
fn found(what: Plant, kind: Kind, seeds: u64) -> Option<(u64, String)> {
    plant(Some(what));
    let found = (0..seeds).find_map(|seed| {
        let wrong = World::new(seed, kind).run();
        wrong.map(|wrong| (seed, wrong))
    });
    plant(None);
    found
}

#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for (what, kind) in PLANTS {
        match found(*what, *kind, 2_000) {
            Some((seed, wrong)) => println!("{what:?}: seed {seed}: {wrong}"),
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
