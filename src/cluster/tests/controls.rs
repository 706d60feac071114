//! Controls: each planted bug must be found within some seeds.
//!
//! Owns: which worlds find which bug, and within how many seeds. Promises: no plant outlives its test. Must not: accept
//! a world that fails without a plant; `seeds.rs` holds these.

use std::io::Write;

use super::world::{Kind, World};
use crate::plant::{Plant, plant};

const USUAL: Kind = Kind {
    is_disaster: false,
    is_tense: false,
    loses: None,
};
const TENSE: Kind = Kind {
    is_disaster: false,
    is_tense: true,
    loses: None,
};
const DISASTER: Kind = Kind {
    is_disaster: true,
    is_tense: false,
    loses: None,
};

/// Each with worlds of a kind in which it is found, the first of them not far behind a seed; `TIDELINE_TELL=1` says
/// what is seen.
const PLANTS: &[(Plant, Kind, u64)] = &[
    (Plant::ClaimAnywhere, USUAL, 0),
    (Plant::SilenceIsFailure, USUAL, 0),
    (Plant::AbsenceIsFailure, USUAL, 0),
    (Plant::OtherBytes, USUAL, 0),
    (Plant::SkipsGap, USUAL, 0),
    (Plant::NoVoidRule, USUAL, 0),
    (Plant::AckBeforeStored, USUAL, 0),
    (Plant::NoMargin, TENSE, 15),
    (Plant::NoHold, TENSE, 0),
    (Plant::LeaseForEver, TENSE, 0),
    (Plant::LeaseFromAck, TENSE, 50),
    (Plant::ResignEndsAll, TENSE, 18),
    (Plant::OwnLease, TENSE, 18),
    (Plant::ResignLate, TENSE, 275),
    (Plant::WokenFree, TENSE, 0),
    (Plant::ClockStops, TENSE, 78),
    (Plant::NoAttach, DISASTER, 0),
    (Plant::HeardIgnored, DISASTER, 425),
];
const SEEDS: u64 = 3_000;

/// The first seed that finds the bug, and what was seen.
fn found(what: Plant, kind: Kind, from: u64) -> Option<(u64, String)> {
    plant(Some(what));
    let found = (from..from + SEEDS).find_map(|seed| {
        let wrong = World::new(seed, kind).run();
        wrong.map(|wrong| (seed, wrong))
    });
    plant(None);
    found
}

#[test]
fn planted_bugs_are_found() {
    let is_told = std::env::var_os("TIDELINE_TELL").is_some();
    let mut missed = Vec::new();
    for (what, kind, from) in PLANTS {
        match found(*what, *kind, *from) {
            Some((seed, wrong)) if is_told => {
                let _ = writeln!(std::io::stderr(), "{what:?}: seed {seed}: {wrong}");
            }
            Some(_) => {}
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
