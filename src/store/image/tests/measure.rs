//! How fast flush, compaction and reads are. Ignored by default; run with
//! `cargo test --release -p tideline-store image::tests::measure -- --ignored --nocapture --test-threads 1`
//!
//! Owns: figures for rows of messages with 200 letters and digits, in no two the same. Promises: prints, asserts
//! nothing about time. Must not: run with the other tests.

use std::io::Write;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::super::{DropContext, Entry, Image, Options, Pieces, Rules, Verdict};
use tideline_base::entry::EntryKind;
use tideline_base::ids::Position;

/// Rules that keep everything; the partition key is the key's first 8 bytes.
struct Plain;

impl Rules for Plain {
    fn compose(&self, _key: &[u8], _older: &Entry, newer: &Entry) -> Entry {
        newer.clone()
    }

    fn verdict(&self, _key: &[u8], _entry: &Entry, _context: &DropContext<'_>) -> Verdict {
        Verdict::Keep
    }

    fn split(&self, _value: &Bytes, _piece_bytes_max: usize) -> Option<Pieces> {
        None
    }

    fn join(&self, _directory: &Bytes, _pieces: &[Bytes]) -> Result<Bytes, &'static str> {
        Err("never cut")
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..8)
    }

    fn filter_key(&self, _key: &[u8]) -> bool {
        std::env::var_os("KEYS").is_some()
    }
}

fn key(timeline: u64, sequence: u64) -> Bytes {
    let mut key = timeline.to_be_bytes().to_vec();
    key.extend_from_slice(&sequence.to_be_bytes());
    key.into()
}

/// A message's row: what all have, an ID, and letters of its own.
fn value(number: u64) -> Bytes {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut value = b"\x01\x01\x00\x00\x01\xa2\x1e\x92\x98\xd0\x01\x03$id\x15load-46-".to_vec();
    value.extend_from_slice(format!("{number:09}\x01\x04textxH").as_bytes());
    let mut bits = number + 1;
    for _ in 0..200 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        value.push(LETTERS[(bits >> 58) as usize]);
    }
    value.into()
}

#[test]
#[ignore = "a measurement"]
fn flush_merge_and_read() {
    let rows: u64 = std::env::var("ROWS").map_or(5_000_000, |rows| rows.parse().unwrap());
    for timelines in [10_000, 1_000_000] {
        measure(rows, timelines);
    }
}

#[allow(clippy::too_many_lines)] // a protocol read from top to bottom
fn measure(rows: u64, timelines: u64) {
    let dir = tempfile::tempdir_in(
        std::env::var_os("DIR").unwrap_or_else(|| std::env::temp_dir().into()),
    )
    .unwrap();
    let image = Image::open(dir.path(), Options::default(), Arc::new(Plain)).unwrap();
    let per_flush = 250_000;
    let mut out = std::io::stdout();
    let (mut flushing, mut merging, mut sorting) = (0.0, 0.0, 0.0);
    let (mut merged_bytes, mut flushed_bytes, mut slices, mut slowest) = (0, 0, 0, 0.0f64);
    for flush in 0..rows / per_flush {
        let start = Instant::now();
        let mut rows: Vec<(Bytes, Bytes)> = (0..per_flush)
            .map(|row| {
                let number = flush * per_flush + row;
                // Spread as by a multiplicative hash, so that every flush touches timelines all over.
                let timeline = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % timelines;
                (key(timeline, number), value(number))
            })
            .collect();
        rows.sort_unstable();
        sorting += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut entries = rows.into_iter().map(|(key, value)| {
            (
                key,
                Entry {
                    kind: EntryKind::Put,
                    value,
                },
            )
        });
        image
            .flush(
                Position(flush),
                Position(flush + 1),
                &mut entries,
                &mut || {},
            )
            .unwrap();
        flushed_bytes += per_flush * 260;
        flushing += start.elapsed().as_secs_f64();
        loop {
            let start = Instant::now();
            let done = image.compact(1, &|_| None).unwrap();
            let took = start.elapsed().as_secs_f64();
            if !done.more {
                break;
            }
            merging += took;
            slowest = slowest.max(took);
            slices += 1;
            merged_bytes += done.bytes_written;
        }
    }
    let pressure = image.pressure();
    writeln!(
        out,
        "{timelines} timelines, {rows} rows: flush {:.0} rows/s, flush + merge {:.0} rows/s, {:.2} bytes written per byte, \
         {slices} merge slices, slowest {:.0} ms, used {} MB, file {} MB, filters on disk, sorting {sorting:.1} s",
        rows as f64 / flushing,
        rows as f64 / (flushing + merging),
        1.0 + merged_bytes as f64 / flushed_bytes as f64,
        slowest * 1e3,
        pressure.bytes_used >> 20,
        pressure.file_bytes >> 20,
    )
    .unwrap();
    reads(&image, rows, timelines, &mut out);
}

fn reads(image: &Image, rows: u64, timelines: u64, out: &mut impl Write) {
    let runs = image.inner.catalog().runs.len();
    let (count, count_rows) = (100_000, rows as f64);
    for round in 0..2 {
        let start = Instant::now();
        let mut found = 0;
        for at in 0..count {
            let number = at * 7919 % rows;
            let timeline = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % timelines;
            let snapshot = image.snapshot().unwrap();
            // In the second round keys that are not there.
            snapshot
                .get(&key(timeline, number + round * rows), &mut |_| {
                    found += 1;
                    ControlFlow::Break(())
                })
                .unwrap();
        }
        let micros = start.elapsed().as_secs_f64() * 1e6 / count as f64;
        writeln!(
            out,
            "  get over {runs} runs: {micros:.2} us, {found} of {count} found"
        )
        .unwrap();
    }
    let start = Instant::now();
    let mut found = 0;
    for at in 0..count / 10 {
        let timeline = at * 7919 % timelines;
        let snapshot = image.snapshot().unwrap();
        let (low, high) = (key(timeline, 0), key(timeline, u64::MAX));
        let bounds = (Bound::Included(&low[..]), Bound::Included(&high[..]));
        let cursors = snapshot.cursors(bounds.0, bounds.1, true).unwrap();
        found += cursors
            .into_iter()
            .map(|cursor| cursor.take(20).count())
            .sum::<usize>();
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / (count / 10) as f64;
    let start = Instant::now();
    let snapshot = image.snapshot().unwrap();
    let cursors = snapshot.cursors(Bound::Unbounded, Bound::Unbounded, false);
    let rows = cursors.unwrap().into_iter().flatten();
    let bytes: usize = rows
        .map(|row| row.map_or(0, |(key, entry)| key.len() + entry.value.len()))
        .sum();
    let speed = bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
    writeln!(
        out,
        "  all rows: {speed:.0} MB/s, {:.0} bytes of pages a row",
        image.pressure().bytes_used as f64 / count_rows
    )
    .unwrap();
    writeln!(
        out,
        "  newest 20 of each run of a timeline: {micros:.2} us, {found} rows"
    )
    .unwrap();
    let filters = image.pressure().filter_bytes >> 10;
    writeln!(out, "  filters in memory: {filters} KiB").unwrap();
}
