//! Message IDs for messages whose senders gave none.
//!
//! Owns: making UUIDv7 texts. Promises: no two are alike. Must not: be asked for anything that must be hard to guess.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tideline_base::clock::Clock;

/// Makes UUIDv7 texts without asking the system for each: the random part is a hash of a seed and a counter.
pub(in crate::timeline) struct IdMaker {
    pub(in crate::timeline) clock: Arc<Clock>,
    seed: [u8; 16],
    counter: AtomicU64,
}

impl IdMaker {
    pub(in crate::timeline) fn new(clock: Arc<Clock>) -> IdMaker {
        IdMaker {
            clock,
            seed: *uuid::Uuid::new_v4().as_bytes(),
            counter: AtomicU64::new(0),
        }
    }

    pub(in crate::timeline) fn next(&self) -> String {
        let mut input = [0; 24];
        input[..16].copy_from_slice(&self.seed);
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        input[16..].copy_from_slice(&count.to_be_bytes());
        let hash = xxhash_rust::xxh3::xxh3_128(&input).to_be_bytes();
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        uuid::Builder::from_unix_timestamp_millis(self.clock.now_ms(), &random)
            .into_uuid()
            .hyphenated()
            .to_string()
    }
}
