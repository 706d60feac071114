//! Timelines on their way through flushes and merges: what has ended leaves the image, and no reader can tell.
//!
//! Owns: the proof that trim, delete, new incarnations and the window of message IDs give their space back, with
//! readers beside it all the time. Promises: counts are those of the image's own check, per table. Must not: repeat
//! `commands.rs`, which holds every answer against a model, or assert on time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::rows::tables::{CHANGES, IDS, MESSAGES};
use crate::timeline::{
    Append, AppendOne, EntryLimits, Error, Limits, Message, Range, StoredTimelines, Timelines,
    UpdateMessage,
};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, TableId};
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_store::partition::{ImageOptions, Options, Partitions, StoreError};

const AT: PartitionId = PartitionId(0);
const NAMES: [&str; 5] = ["busy", "chat", "gone", "quiet", "room"];
const WINDOW_MS: u64 = 100;
const WINDOW_COUNT: u64 = 8;

struct Bed {
    runtime: tokio::runtime::Runtime,
    partitions: Partitions,
    timelines: Timelines,
    clock: Arc<Clock>,
    now_ms: u64,
}

impl Bed {
    /// Small memtables, parts and slices, and no patience with what has ended: the same code, many more turns.
    fn open(dir: &Path, now_ms: u64) -> Bed {
        let limits = Limits {
            message_id_window_ms: WINDOW_MS,
            message_id_window_count: WINDOW_COUNT,
            heads_max: 3,
        };
        let options = Options {
            memtable_bytes: 12 << 10,
            image: ImageOptions {
                part_bytes_max: 64 << 10,
                slice_bytes: 64 << 10,
                fan_in: 3,
                dead_percent: 1,
                survey_rest_ms: 0,
                ..ImageOptions::default()
            },
            ..Options::default()
        };
        let clock = Arc::new(Clock::fixed(now_ms));
        let rules = Timelines::rules(&limits);
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        Bed {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .build()
                .unwrap(),
            timelines: Timelines::new(partitions.clone(), limits, Arc::clone(&clock)),
            partitions,
            clock,
            now_ms,
        }
    }

    fn close(self) {
        self.runtime.block_on(self.partitions.close());
    }

    /// Answers are awaited: `busy` is no answer here, the bed waits until compaction has caught up.
    fn run<T, F>(&self, call: impl Fn(&Timelines) -> F) -> T
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            match self.runtime.block_on(call(&self.timelines)) {
                Ok(done) => return done,
                Err(Error::Store(StoreError::Busy)) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn append(&self, name: &str, ids: std::ops::Range<u64>) -> u64 {
        let append = Append {
            timeline: name.to_owned(),
            asker: "u".into(),
            messages: ids.map(one).collect(),
            expect_head: None,
            create: true,
            epoch: None,
        };
        let (appended, _) = self.run(|timelines| timelines.append(append.clone()));
        appended.last().expect("not empty").sequence
    }

    fn edit(&self, name: &str, sequence: u64) {
        let update = || UpdateMessage {
            asker: Asker::default(),
            timeline: name.to_owned(),
            sequence,
            set: vec![("edited".to_owned(), Value::Integer(1))],
            remove: Vec::new(),
            expect_change: None,
            epoch: None,
            limits: EntryLimits {
                entry_bytes_max: 4_096,
                entry_names_max: 8,
            },
        };
        self.run(|timelines| timelines.update_message(update()));
    }

    fn trim(&self, name: &str, before: u64) {
        self.run(|timelines| timelines.trim(name.into(), before));
    }

    fn delete(&self, name: &str) {
        assert!(self.run(|timelines| timelines.delete(name.into())));
    }

    /// One round of life: every timeline grows and changes; some are trimmed, some deleted and made again; time passes.
    fn round(&mut self, round: u64) {
        for (at, name) in (0..).zip(NAMES) {
            let mut last = 0;
            for batch in 0..6 {
                let first = (round * 6 + batch) * 10;
                last = self.append(name, first..first + 10);
            }
            for back in [1, 5, 9, 9] {
                self.edit(name, last - back);
            }
            self.run(|timelines| timelines.delete_message(name.into(), last - 2));
            if (round + at).is_multiple_of(2) {
                self.trim(name, last - 19);
            }
            if (round + at).is_multiple_of(3) {
                self.delete(name);
            }
            if (round + at).is_multiple_of(6) {
                self.append(name, 0..10);
            }
            self.now_ms += 40;
            self.clock.set(self.now_ms);
        }
    }

    /// All that a client can see.
    fn visible(&self) -> BTreeMap<&'static str, Vec<Message>> {
        let read = |name| Some((name, whole(&self.runtime, &self.timelines, name)?));
        NAMES.into_iter().filter_map(read).collect()
    }

    fn rows(&self, table: TableId) -> u64 {
        let tables = self.partitions.in_image(AT);
        let counts = tables.iter().find(|counts| counts.table == table);
        counts.map_or(0, |counts| counts.rows)
    }

    /// Waits until the image holds so many rows of a table: the image looks for what has ended only now and then.
    fn wait_for(&self, table: TableId, rows: u64) {
        for _ in 0..2_000 {
            if self.rows(table) == rows {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} rows of {table:?}, not {rows}", self.rows(table));
    }
}

fn one(id: u64) -> AppendOne {
    let text = format!("{id} {}", "x".repeat(60 + id as usize % 50));
    AppendOne {
        entry: vec![("text".to_owned(), Value::String(text))],
        message_id: Some(format!("m{id}")),
        ..AppendOne::default()
    }
}

/// A timeline from floor to head; `None` if there is none. A hole, a message of another page twice, or any error but
/// "there is no such timeline" is a failure.
fn whole(
    runtime: &tokio::runtime::Runtime,
    timelines: &Timelines,
    name: &str,
) -> Option<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    let mut epoch = None;
    let mut from = None;
    loop {
        let range = Range {
            asker: Asker::default(),
            timeline: name.to_owned(),
            from,
            to: None,
            limit: 25,
            bytes_max: 1 << 20,
            backward: false,
            columns: None,
            epoch: epoch.clone(),
        };
        let page = match runtime.block_on(timelines.range(range)) {
            Ok(page) => page,
            Err(Error::TimelineNotFound | Error::EpochChanged { .. }) => return None,
            Err(error) => panic!("timeline {name}: {error:?}"),
        };
        for message in page.messages {
            let first = messages.is_empty() || message.sequence >= page.head.floor;
            assert!(first, "below the floor");
            if let Some(last) = messages.last() {
                let next = (last.sequence + 1).max(page.head.floor);
                assert_eq!(message.sequence, next, "timeline {name}");
            }
            messages.push(message);
        }
        epoch = Some(page.head.epoch);
        match page.next {
            Some(next) => from = Some(next),
            None => return Some(messages),
        }
    }
}

/// Threads that read every timeline again and again until they are stopped; each gives how many it read.
fn readers(bed: &Bed, is_over: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<u64>> {
    let reader = |_| {
        let (timelines, is_over) = (bed.timelines.clone(), Arc::clone(is_over));
        let pool = bed.runtime.handle().clone();
        let read = move || {
            let own = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let _pool = pool.enter();
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                for name in NAMES {
                    whole(&own, &timelines, name);
                    reads += 1;
                }
            }
            reads
        };
        std::thread::Builder::new().spawn(read).expect("a thread")
    };
    (0..2).map(reader).collect()
}

#[test]
fn what_is_over_leaves_the_image_and_what_is_seen_stays() {
    let dir = super::commands::directory();
    let mut bed = Bed::open(dir.path(), 1_000_000);
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = readers(&bed, &is_over);
    for round in 0..12 {
        bed.round(round);
        let before = bed.visible();
        bed.partitions.settle(AT);
        assert_eq!(bed.visible(), before, "round {round}");
    }
    is_over.store(true, Ordering::Relaxed);
    let reads = readers
        .into_iter()
        .map(|reader| reader.join().expect("no reader fails"));
    assert!(reads.sum::<u64>() > 100);
    // One timeline stands and is trimmed at the very end, so that the last thing to be dropped is not a crumb.
    bed.append("busy", 1_000..1_040);
    let last = bed.append("busy", 1_040..1_080);
    bed.trim("busy", last - 39);
    bed.now_ms += WINDOW_MS;
    bed.clock.set(bed.now_ms);
    bed.partitions.settle(AT);

    let seen = bed.visible();
    let all = || seen.values().flatten();
    bed.wait_for(MESSAGES, all().count() as u64);
    bed.wait_for(
        CHANGES,
        all().filter(|message| message.change > 0).count() as u64,
    );
    bed.wait_for(
        IDS,
        seen.values()
            .map(|messages| (messages.len() as u64).min(WINDOW_COUNT))
            .sum(),
    );
    for counts in bed.partitions.in_image(AT) {
        assert_eq!((counts.tombstones, counts.deltas), (0, 0), "{counts:?}");
    }
    // What is remembered is remembered by the image now.
    let again = Append {
        timeline: "busy".to_owned(),
        asker: "u".into(),
        messages: vec![one(1_079)],
        expect_head: None,
        create: false,
        epoch: None,
    };
    let (appended, _) = bed.run(|timelines| timelines.append(again.clone()));
    assert!(appended[0].duplicate && appended[0].sequence == last);

    let (now_ms, origin) = (bed.now_ms, bed.partitions.origin());
    bed.close();
    let bed = Bed::open(dir.path(), now_ms);
    assert_eq!(bed.visible(), seen);
    let view = bed.partitions.view(AT).unwrap();
    let found = StoredTimelines::new(&view, origin).verify(&mut |problem| panic!("{problem}"));
    assert_eq!(found.unwrap().messages, all().count() as u64);
    drop(view);
    bed.close();
}

#[test]
fn space_comes_back_round_after_round() {
    let dir = super::commands::directory();
    let bed = Bed::open(dir.path(), 1_000_000);
    let mut file_bytes = Vec::new();
    for round in 0..50u64 {
        for name in NAMES {
            for batch in 0..30 {
                let first = (round * 30 + batch) * 10;
                bed.append(name, first..first + 10);
            }
        }
        // Two ways to give up everything, and one that leaves a little.
        for (at, name) in NAMES.into_iter().enumerate() {
            if at % 2 == 0 {
                bed.delete(name);
            } else {
                let last = bed.append(name, 1_000_000 + round * 10..1_000_001 + round * 10);
                bed.trim(name, last);
            }
        }
        bed.clock.set(1_000_000 + (round + 1) * 2 * WINDOW_MS);
        bed.partitions.settle(AT);
        bed.wait_for(MESSAGES, 2);
        file_bytes.push(bed.partitions.image_bytes(AT).0);
    }
    let used = bed.partitions.image_bytes(AT).1;
    assert!(used < 1 << 20, "{used} bytes for what is left");
    // A round needs three times its data: a merge's inputs, its output, and a run that is flushed beside it, as it
    // falls; more if merges come late because the machine is busy. From then on freed pages are used again; without
    // that the file would grow to fifty times its data.
    let (first, later) = file_bytes.split_at(3);
    assert!(
        later.iter().max() <= first.iter().map(|bytes| bytes * 10).max().as_ref(),
        "{file_bytes:?}"
    );
    bed.close();
}
