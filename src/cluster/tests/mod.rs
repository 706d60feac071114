//! The simulation: nodes, clocks, a network and a stream that follow from a seed.
//!
//! Owns: what its files share. Promises: the same seed is the same world. Must not: know more of a node than its events
//! and commands. `TIDELINE_SEEDS=20000 cargo test -p tideline-cluster seeds` tries more seeds than the test command.

mod checker;
mod controls;
mod node;
#[path = "../../../tests/simulation/random.rs"]
mod random;
mod seeds;
mod stream;
mod world;

use tideline_base::ids::HistoryId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::frame::{Draft, Genesis, Sealed};

pub(crate) fn genesis() -> Genesis {
    Genesis {
        cluster: "chat".to_owned(),
        partition: 0,
        range: (0, u64::MAX),
        history: HistoryId([5; 16]),
        format: 2,
        rebuilt: None,
    }
}

/// A frame whose checksums depend on all of it, and on what it holds.
pub(crate) fn seal(draft: Draft, holds: u64) -> Sealed {
    let bytes = format!("{draft:?} {holds}");
    let crc = u32::try_from(xxh3_64(bytes.as_bytes()) >> 32).expect("32 bits");
    draft.sealed(crc, xxh3_128(bytes.as_bytes()))
}
