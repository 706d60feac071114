//! The driver against real NATS servers: three processes on loopback, each with a folder, and nodes as processes.
//!
//! Owns: what its files share. Promises: of the scenes that take longer than some seconds each is `#[ignore]`d;
//! `cargo test -p tideline-jetstream --features tideline-jetstream/faults --test servers long -- --ignored
//! --test-threads 1` runs them. Must not: look into a driver; nodes are seen by what they print and by the stream.

mod controls;
mod history;
mod long;
mod node;
mod proxy;
mod scene;
mod servers;
mod short;
mod stored;

use tideline_base::ids::{HistoryId, Position};
use tideline_cluster::{Genesis, Place};
use tideline_jetstream::{Beginning, CommitTime};

/// The log that all nodes of these tests share.
fn genesis() -> Genesis {
    Genesis {
        cluster: "chat".to_owned(),
        partition: 0,
        range: (0, u64::MAX),
        history: HistoryId([5; 16]),
        format: 3,
        rebuilt: None,
    }
}

/// In front of its first frame.
fn before() -> Place {
    Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0)
}

/// Its stream, with a first frame of these words.
fn beginning(genesis: Genesis) -> Beginning {
    Beginning {
        genesis,
        before: before(),
        time: CommitTime::default(),
        copies: 3,
    }
}
