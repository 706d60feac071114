//! Measuring how segments are best prepared: appended to, zeroed ahead, or written over.
//!
//! Owns: one ignored test, run by hand on the disk that counts:
//! `LOG_DIR=/data/x cargo test --release -p tideline-store log::tests::measure -- --ignored --nocapture`.
//! Must not: be part of a test run, or assert on time.

use std::io::Write as _;
use std::time::Instant;

use super::*;

const MESSAGE_BYTES: usize = 350;
const ROUNDS: usize = 5;

/// How a segment comes to be.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Appended,
    Zeroed,
    Reused,
}

const WAYS: [(&str, Way); 3] = [
    ("appended", Way::Appended),
    ("zeroed before", Way::Zeroed),
    ("reused", Way::Reused),
];

fn run(way: Way, messages: usize, batches: usize) -> Vec<f64> {
    let base = std::env::var("LOG_DIR").unwrap_or_else(|_| ".".to_owned());
    let directory = tempfile::tempdir_in(base).unwrap();
    let options = Options {
        segment_bytes: 16 * 1024 * 1024,
        retention_bytes: 0,
        spare_segments: if way == Way::Appended { 0 } else { 4 },
        room_bytes: 0,
        ..Options::default()
    };
    let storage = Arc::new(LocalStorage::new(directory.path()).unwrap());
    let (mut log, _) = Log::open(storage, options, Position::ZERO).unwrap();
    let keeper = log.keeper();
    let value = vec![7u8; MESSAGE_BYTES];
    // Past the first segments, so that there is one to write over.
    let warm = 3 * 16 * 1024 * 1024 / (messages * MESSAGE_BYTES);
    let mut micros = Vec::with_capacity(batches);
    for batch in 0..warm + batches {
        let mut draft = Draft::default();
        for number in 0..messages as u64 {
            let key = [&b"a key of a timeline"[..], &number.to_be_bytes()].concat();
            let kind = EntryKind::Put;
            draft.push(KeyedEntry {
                key: &key,
                kind,
                value: &value,
            });
        }
        let begun = Instant::now();
        let frame = log.append(0, draft).unwrap();
        if batch >= warm {
            micros.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        match way {
            Way::Appended => {}
            Way::Zeroed => drop(keeper.prepare().unwrap()),
            Way::Reused => drop(keeper.retain(frame.position, 0).unwrap()),
        }
        log.publish(frame);
    }
    micros
}

#[test]
#[ignore = "a measurement, by hand"]
fn appended_against_zeroed_against_reused() {
    let mut out = std::io::stderr();
    // Larger frames get no zeros.
    for (messages, batches) in [(16, 3000), (64, 2000), (128, 1000)] {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
        for round in 0..ROUNDS {
            for step in 0..WAYS.len() {
                let way = (step + round) % WAYS.len();
                all[way].extend(run(WAYS[way].1, messages, batches));
            }
        }
        for (way, micros) in WAYS.iter().zip(&mut all) {
            micros.sort_by(f64::total_cmp);
            let at = |part: f64| micros[(micros.len() as f64 * part) as usize];
            let mean = micros.iter().sum::<f64>() / micros.len() as f64;
            writeln!(
                out,
                "{messages:4} messages, {:20} p50 {:7.0} us  p99 {:7.0} us  p99.9 {:7.0}  mean {mean:7.0} us = {:7.0} messages/s",
                way.0,
                at(0.5),
                at(0.99),
                at(0.999),
                messages as f64 / mean * 1e6,
            )
            .unwrap();
        }
    }
}
