//! Long messages that grow, and what must not cost more with their length.
//!
//! Owns: what the model of `commands.rs` is too small for: texts of many parts, resumes that do not fit, trims by
//! bytes. Promises: no test asserts on time; what was costly is counted in rows. Must not: repeat the model's rules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::timeline::{
    Append, AppendOne, Changed, Error, Extend, Finish, Limits, Open, Outcome, Resume, Retention,
    SettingsPatch, StoredTimelines, Target, Timelines,
};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_store::partition::{Options, Partitions};
use tideline_table::Source as _;

use super::super::EntryLimits;
use super::super::rows::tables::Name;

const LIMITS: EntryLimits = EntryLimits {
    entry_bytes_max: 65_536,
    entry_names_max: 100,
};

struct Bed {
    partitions: Partitions,
    timelines: Timelines,
}

impl Bed {
    fn open(dir: &Path) -> Bed {
        let clock = Arc::new(Clock::fixed(1_800_000_000_000));
        let limits = Limits::default();
        let rules = Timelines::rules(&limits);
        let options = Options::default();
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, clock);
        Bed {
            partitions,
            timelines,
        }
    }

    fn target(&self) -> Target {
        Target {
            timeline: "t".to_owned(),
            epoch: None,
            asker: "u".into(),
        }
    }

    async fn append(&self, open: bool) -> u64 {
        let idle_ms = 60_000;
        let open = open.then(|| Open {
            column: "text".to_owned(),
            idle_ms,
        });
        let append = Append {
            timeline: "t".to_owned(),
            asker: "u".into(),
            messages: vec![AppendOne {
                open,
                ..AppendOne::default()
            }],
            expect_head: None,
            create: true,
            epoch: None,
        };
        let (appended, _) = self.timelines.append(append).await.unwrap();
        appended[0].sequence
    }

    async fn keep_bytes(&self, bytes: u64) {
        let settings = SettingsPatch {
            retention: Some(Some(Retention {
                bytes: Some(bytes),
                ..Retention::default()
            })),
            ..SettingsPatch::default()
        };
        let configured = self
            .timelines
            .configure(self.target(), settings, None)
            .await;
        configured.unwrap();
    }

    async fn extend(&self, sequence: u64, part: u64, text: &str) {
        let extend = Extend {
            target: self.target(),
            sequence,
            part,
            text: text.to_owned(),
            limits: LIMITS,
        };
        self.timelines.extend(extend).await.unwrap();
    }

    async fn finish(&self, sequence: u64, parts: u64) -> Result<(), Error> {
        let finish = Finish {
            target: self.target(),
            sequence,
            parts,
            outcome: Outcome::Done,
            set: Vec::new(),
            remove: Vec::new(),
            limits: LIMITS,
        };
        self.timelines.finish(finish).await.map(|_| ())
    }

    async fn resume(&self, open: Vec<(u64, u64)>, parts: bool, bytes_max: usize) -> Changed {
        let resume = Resume {
            asker: Asker::default(),
            timeline: "t".to_owned(),
            after: None,
            rewind: None,
            epoch: None,
            changes_after: None,
            open,
            parts,
            limit: 100,
            bytes_max,
        };
        self.timelines.resume(resume).await.unwrap()
    }

    fn verified(&self) {
        let partition = PartitionId(0);
        let view = self.partitions.view(partition).unwrap();
        let stored = StoredTimelines::new(&view, self.partitions.origin());
        let mut problems = Vec::new();
        stored
            .verify(&mut |problem| problems.push(problem))
            .unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

/// The row of a message has the text but for the last few parts, so that whoever reads it, in the writer too, reads few
/// rows however long it is.
#[tokio::test]
async fn a_long_text_is_read_in_few_rows() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let sequence = bed.append(true).await;
    for part in 1..=38 {
        bed.extend(sequence, part, "ab").await;
    }
    {
        let view = bed.partitions.view(PartitionId(0)).unwrap();
        let head = super::super::rows::head::HeadRow::load(&view, &Name::new("t"));
        let head = head.unwrap().unwrap();
        let key = Name::new("t").message_key(head.incarnation, sequence);
        let row = view.row(&key).unwrap().unwrap();
        let message = super::super::rows::stored::message(sequence, &row, None).unwrap();
        assert_eq!(message.parts, Some(35));
    }
    assert!(matches!(
        bed.finish(sequence, 7).await,
        Err(Error::ConditionFailed { actual: 38 })
    ));
    bed.finish(sequence, 38).await.unwrap();
    let message = bed.timelines.get_message(bed.target(), sequence).await;
    let text = Value::String("ab".repeat(38));
    assert_eq!(message.unwrap().entry.unwrap(), [("text".to_owned(), text)]);
    bed.verified();
}

#[tokio::test]
async fn a_resume_that_does_not_fit_goes_on_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let mut has = BTreeMap::new();
    for _ in 0..3 {
        let sequence = bed.append(true).await;
        for part in 1..=30 {
            bed.extend(sequence, part, &format!("{part:09}")).await;
        }
        has.insert(sequence, 0);
    }
    let all = 30 * has.len() as u64;
    for _ in 0..100 {
        let open = has.iter().map(|(sequence, parts)| (*sequence, *parts));
        let page = bed.resume(open.collect(), false, 200).await;
        for grown in &page.grown {
            assert_eq!(grown.from, has[&grown.sequence] + 1);
            has.insert(grown.sequence, grown.parts);
        }
        let told: u64 = has.values().sum();
        assert_eq!(page.more, told < all);
        if !page.more {
            break;
        }
    }
    assert_eq!(has.values().sum::<u64>(), all);
    // A reader that names none and follows parts is told which it has to look for.
    let page = bed.resume(Vec::new(), true, 600).await;
    let whole = page.changed.unwrap_or_default();
    assert!(!whole.is_empty() && page.open.len() == 3);
    let missing = page
        .open
        .iter()
        .filter(|(_, parts)| *parts == super::super::NONE_YET);
    assert_eq!(missing.count() + whole.len(), 3);
}

#[tokio::test]
async fn retention_by_bytes_counts_what_grew_and_ends_what_it_passes() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let first = bed.append(true).await;
    bed.keep_bytes(4_000).await;
    for _ in 0..2 {
        let sequence = bed.append(true).await;
        for part in 1..=30 {
            bed.extend(sequence, part, &"x".repeat(100)).await;
        }
        bed.finish(sequence, 30).await.unwrap();
    }
    let head = bed.timelines.head("t").await.unwrap().unwrap();
    assert!(head.floor > first, "what grew counts");
    assert!(!bed.timelines.grows("t").await.unwrap());
    bed.verified();
}

fn of_bytes(bytes: usize, count: usize) -> Append {
    let text = Value::String("x".repeat(bytes));
    let one = AppendOne {
        entry: vec![("text".to_owned(), text)],
        ..AppendOne::default()
    };
    Append {
        timeline: "t".to_owned(),
        asker: "u".into(),
        messages: vec![one; count],
        expect_head: None,
        create: false,
        epoch: None,
    }
}

#[tokio::test]
async fn retention_by_bytes_that_becomes_much_smaller_leaves_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    bed.append(false).await;
    bed.keep_bytes(64 << 20).await;
    let append = async |bytes, count| {
        let append = of_bytes(bytes, count);
        bed.timelines.append(append).await.unwrap();
        bed.timelines.head("t").await.unwrap().unwrap()
    };
    append(50_000, 10).await;
    bed.keep_bytes(200_000).await;
    // This puts the first mark. Nothing lies above it, and no mark below says which of the older messages fit.
    let head = append(5_000, 1).await;
    assert!(head.floor <= head.head, "{}", head.floor);
    for _ in 0..50 {
        append(5_000, 1).await;
    }
    let head = append(5_000, 1).await;
    let kept = head.head + 1 - head.floor;
    assert!((36..=40).contains(&kept), "{kept}");
    bed.verified();
}

#[tokio::test]
async fn retention_by_bytes_keeps_what_fits_of_a_batch_that_is_larger() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    bed.append(false).await;
    bed.keep_bytes(65_536).await;
    let append = of_bytes(25_000, 3);
    bed.timelines.append(append).await.unwrap();
    let head = bed.timelines.head("t").await.unwrap().unwrap();
    assert_eq!(head.floor, 3, "the newest two of the batch fit");
    bed.verified();
}

#[tokio::test]
async fn retention_by_bytes_drops_what_grew_too_much_and_nothing_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let first = bed.append(false).await;
    bed.keep_bytes(10_000).await;
    let old = bed.append(true).await;
    let newer = bed.append(true).await;
    for part in 1..=30 {
        bed.extend(old, part, &"x".repeat(300)).await;
    }
    for part in 1..=7 {
        bed.extend(newer, part, &"x".repeat(300)).await;
    }
    let last = bed.append(false).await;
    let floor = async || bed.timelines.head("t").await.unwrap().unwrap().floor;
    bed.finish(newer, 7).await.unwrap();
    assert_eq!(floor().await, first, "not too much yet");
    bed.finish(old, 30).await.unwrap();
    assert_eq!(floor().await, newer, "only what is old goes");
    // One that is longer than the limit leaves those alone that come behind it.
    let huge = bed.append(true).await;
    for part in 1..=40 {
        bed.extend(huge, part, &"x".repeat(300)).await;
    }
    for _ in 0..10 {
        bed.append(false).await;
    }
    bed.finish(huge, 40).await.unwrap();
    for _ in 0..30 {
        bed.append(false).await;
    }
    assert!(last < huge);
    assert_eq!(floor().await, huge + 1);
    bed.verified();
}
