//! What a clock that was wrong once leaves behind.
//!
//! Owns: the story of one reading ten years ahead that stamped every timeline, new ones too, for ever; how long open
//! messages have been silent, and what ends them though something else that is due finds no room. Promises: only what
//! was written meanwhile is stamped so. Must not: know how the clock judges readings; its own tests do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::timeline::EntryLimits;
use crate::timeline::{
    Append, AppendOne, Create, Error, FanOut, Limits, Open, SettingsPatch, Target, Timelines,
    UpdateMessage,
};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::access::Asker;
use tideline_store::partition::{Options, Partitions};
use tideline_table::Purpose;

const NOW_MS: u64 = 1_800_000_000_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const AHEAD_MS: u64 = NOW_MS + 10 * 365 * 86_400_000;

struct Bed {
    partitions: Partitions,
    timelines: Timelines,
    clock: Arc<Clock>,
}

impl Bed {
    fn open(dir: &Path) -> Bed {
        let clock = Arc::new(Clock::fixed(NOW_MS));
        let limits = Limits::default();
        let rules = Timelines::rules(&limits);
        let options = Options::default();
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        Bed {
            partitions,
            timelines,
            clock,
        }
    }

    /// Appends a message; gives its timestamp.
    async fn append(&self, timeline: &str) -> u64 {
        self.append_one(timeline, AppendOne::default()).await
    }

    /// Appends a message that ends by itself when no part comes for a minute.
    async fn append_open(&self, timeline: &str) {
        let open = Open {
            column: "text".to_owned(),
            idle_ms: MINUTE_MS,
        };
        let one = AppendOne {
            open: Some(open),
            ..AppendOne::default()
        };
        self.append_one(timeline, one).await;
    }

    async fn append_one(&self, timeline: &str, one: AppendOne) -> u64 {
        let append = Append {
            timeline: timeline.to_owned(),
            asker: "u".into(),
            messages: vec![one],
            expect_head: None,
            create: true,
            epoch: None,
        };
        let (appended, _) = self.timelines.append(append).await.unwrap();
        appended[0].timestamp
    }

    async fn edit(&self, timeline: &str) -> Result<Option<u64>, Error> {
        let update = UpdateMessage {
            asker: Asker::default(),
            timeline: timeline.to_owned(),
            sequence: 1,
            set: Vec::new(),
            remove: Vec::new(),
            expect_change: None,
            epoch: None,
            limits: EntryLimits {
                entry_bytes_max: 4_096,
                entry_names_max: 100,
            },
        };
        Ok(self.timelines.update_message(update).await?.edited_at)
    }
}

#[tokio::test]
async fn one_wrong_time_is_not_every_timelines() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    assert_eq!(bed.append("before").await, NOW_MS);
    bed.clock.set(AHEAD_MS);
    assert_eq!(bed.append("meanwhile").await, AHEAD_MS);
    assert_eq!(bed.edit("before").await.unwrap(), Some(AHEAD_MS));
    bed.clock.set(NOW_MS + 1);
    assert_eq!(bed.append("before").await, NOW_MS + 1);
    assert_eq!(bed.append("after").await, NOW_MS + 1);
    // What was stamped stays in order.
    assert_eq!(bed.append("meanwhile").await, AHEAD_MS);
    assert_eq!(bed.edit("before").await.unwrap(), Some(AHEAD_MS));
    assert_eq!(bed.edit("after").await.unwrap(), Some(NOW_MS + 1));
    let info = bed.timelines.get("after".into()).await.unwrap();
    assert_eq!(
        (info.created_at, info.last_at),
        (NOW_MS + 1, Some(NOW_MS + 1))
    );
    // The log's own times never fall: a search for one finds one place.
    let tail = bed.partitions.tail(PartitionId(0));
    let batches = tail.batches(Position::ZERO, usize::MAX).unwrap();
    assert!(batches.is_sorted_by_key(|batch| batch.commit_ms));
    bed.partitions.close().await;
    drop((bed, tail));

    let bed = Bed::open(dir.path());
    assert_eq!(bed.append("before").await, NOW_MS + 1);
    assert_eq!(bed.append("later").await, NOW_MS);
    assert_eq!(bed.append("meanwhile").await, AHEAD_MS);
    bed.partitions.close().await;
}

#[tokio::test]
async fn an_open_message_has_been_silent_for_as_long_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let mut timer = bed.timelines.timer(PartitionId(0));
    let mut ended = async || timer.step().await.unwrap().abandoned;
    bed.append_open("a").await;
    // What the writer remembers of rows goes with a closure that fails, and when another node writes the log.
    let failing = bed
        .timelines
        .submit(Purpose::Adds, PartitionId(0), 0, |_, _| -> Result<(), _> {
            panic!("a closure that fails")
        });
    assert!(failing.await.is_err());
    bed.clock.step(2 * HOUR_MS.cast_signed());
    assert_eq!(ended().await, 0);
    let now_ms = NOW_MS + 2 * HOUR_MS;
    bed.clock.set(now_ms + MINUTE_MS - 1);
    assert_eq!(ended().await, 0);
    bed.clock.set(now_ms + MINUTE_MS);
    assert_eq!(ended().await, 1);
    bed.append_open("b").await;
    bed.partitions.close().await;
    drop((bed, timer));

    // Its part is of a time that is to come, as far as anybody knows now.
    let bed = Bed::open(dir.path());
    let mut timer = bed.timelines.timer(PartitionId(0));
    let mut ended = async || timer.step().await.unwrap().abandoned;
    assert_eq!(ended().await, 0);
    bed.clock.set(NOW_MS + MINUTE_MS);
    assert_eq!(ended().await, 1);
    bed.partitions.close().await;
}

#[tokio::test]
async fn a_delivery_that_finds_no_room_holds_nothing_else_up() {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::open(dir.path());
    let has_room = Arc::new(AtomicBool::new(true));
    let room = Arc::clone(&has_room);
    let room = move |_| room.load(Ordering::Relaxed);
    bed.timelines.refuse_posts_unless(room);
    let create = Create {
        settings: SettingsPatch {
            fan_out: Some(Some(FanOut::Write)),
            ..SettingsPatch::default()
        },
        ..Create::from(Target::from("posts"))
    };
    bed.timelines.create(create).await.unwrap();
    let later = AppendOne {
        deliver_at: Some(NOW_MS + 1),
        ..AppendOne::default()
    };
    bed.append_one("posts", later).await;
    bed.append_open("a").await;
    bed.clock.set(NOW_MS + MINUTE_MS);
    has_room.store(false, Ordering::Relaxed);
    let mut timer = bed.timelines.timer(PartitionId(0));
    let (done, _) = timer.step().await.unwrap_err();
    assert_eq!((done.delivered, done.abandoned), (0, 1));
    has_room.store(true, Ordering::Relaxed);
    let done = timer.step().await.unwrap();
    // It has ended in the first step.
    assert_eq!((done.delivered, done.abandoned), (1, 0));
    bed.partitions.close().await;
}
