//! Controls: each planted bug must be found within some seeds; `DeafGuess` is found in `watch.rs`, step by step.
//!
//! Owns: which worlds find which bug, and within how many seeds. Promises: no plant outlives its test. Must not: accept
//! a world that fails without a plant; `seeds.rs` holds these.

use std::io::Write;

use super::world::{Kind, World};
use crate::plant::{Plant, plant};

/// Each with the kind of worlds that find it, and the seed from which these are tried, so that it is found soon;
/// `TIDELINE_TELL=1` prints what was seen.
const PLANTS: &[(Plant, Kind, u64)] = &[
    (Plant::ClaimAnywhere, Kind::Usual, 0),
    (Plant::SilenceIsFailure, Kind::Usual, 0),
    (Plant::AbsenceIsFailure, Kind::Usual, 0),
    (Plant::OtherBytes, Kind::Usual, 0),
    (Plant::SkipsGap, Kind::Usual, 0),
    (Plant::NoVoidRule, Kind::Usual, 0),
    (Plant::AckBeforeStored, Kind::Usual, 0),
    (Plant::NoMargin, Kind::Tense, 15),
    (Plant::NoHold, Kind::Tense, 0),
    (Plant::LeaseForEver, Kind::Tense, 0),
    (Plant::LeaseFromAck, Kind::Tense, 50),
    (Plant::ResignEndsAll, Kind::Tense, 18),
    (Plant::OwnLease, Kind::Tense, 18),
    (Plant::ResignLate, Kind::Tense, 275),
    (Plant::WokenFree, Kind::Tense, 0),
    (Plant::ClockStops, Kind::Tense, 78),
    (Plant::NoAttach, Kind::Disaster, 0),
    (Plant::HeardIgnored, Kind::Disaster, 425),
    (Plant::TrimsUncovered, Kind::Trims, 0),
    (Plant::StalledIsGone, Kind::Well, 0),
    (Plant::ClaimGoesOn, Kind::Quiet, 920),
];
const SEEDS: u64 = 3_000;

/// The first seed that finds the bug, and what was seen. Nothing is wrong with that world without it.
fn found(what: Plant, kind: Kind, from: u64) -> Option<(u64, String)> {
    let wrong = |seed, planted| {
        plant(planted);
        let wrong = World::new(seed, kind).run();
        plant(None);
        wrong
    };
    (from..from + SEEDS).find_map(|seed| {
        let found = wrong(seed, Some(what))?;
        wrong(seed, None).is_none().then_some((seed, found))
    })
}

#[test]
fn planted_bugs_are_found() {
    let is_printed = std::env::var_os("TIDELINE_TELL").is_some();
    let mut missed = Vec::new();
    for (what, kind, from) in PLANTS {
        match found(*what, *kind, *from) {
            Some((seed, wrong)) if is_printed => {
                let _ = writeln!(std::io::stderr(), "{what:?}: seed {seed}: {wrong}");
            }
            Some(_) => {}
            None => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
