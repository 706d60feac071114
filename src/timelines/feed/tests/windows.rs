//! Readers with windows of all lengths, of messages that grow, in a time that is counted.
//!
//! Owns: a model of what each reader must have, and when. Promises: the real topic, watchers and mailboxes; readers
//! look only when they are woken. Must not: know the store or a clock; a list of texts and a number stand for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};

use proptest::prelude::*;
use tideline_base::metrics::Metrics;

use crate::feed::cursor::{Cursor, Next};
use crate::feed::mailbox::Mailbox;
use crate::feed::registry::publish;
use crate::feed::topic::Topic;
use crate::feed::topic::budget::Budget;
use crate::feed::topic::grown::{GrownTotal, NextParts, Told};
use crate::timeline::{Growth, Head, Message, Open, Standing, TimelineEvent};

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A new message, open.
    Open,
    /// So many parts come together to one of the open messages.
    Grow(usize, u64),
    Edit(usize),
    Close(usize),
    Trim(u64),
    /// So many ticks pass.
    Wait(u64),
    /// A reader comes with a window of so many ticks.
    Join(u8),
    Leave(usize),
    /// What is kept goes, for want of room.
    Forget,
    /// The follower has lost its place in the log.
    Doubt,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let window = prop_oneof![Just(0), 1..=4u8, Just(10), Just(200)];
    let step = prop_oneof![
        2 => Just(Step::Open),
        20 => (any::<usize>(), 1..=3u64).prop_map(|(at, parts)| Step::Grow(at, parts)),
        1 => any::<usize>().prop_map(Step::Edit),
        1 => any::<usize>().prop_map(Step::Close),
        1 => (1..=3u64).prop_map(Step::Trim),
        10 => prop_oneof![Just(1), 1..=15u64, Just(300)].prop_map(Step::Wait),
        2 => window.prop_map(Step::Join),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => Just(Step::Forget),
        1 => Just(Step::Doubt),
    ];
    proptest::collection::vec(step, 1..200)
}

/// A message, as the store has it.
#[derive(Clone, Default)]
struct Stored {
    is_open: bool,
    text: String,
    /// When each part came, and how long the text was then.
    parts: Vec<(u64, usize)>,
}

struct Reader {
    window: u8,
    place: usize,
    mailbox: Arc<Mailbox>,
    cursor: Cursor,
    told: Told,
    /// Of each message its text and its parts.
    copy: BTreeMap<u64, (String, usize)>,
}

struct World {
    topic: Arc<Topic>,
    budget: Budget,
    total: GrownTotal,
    stored: BTreeMap<u64, Stored>,
    head: Head,
    readers: Vec<Reader>,
    tick: u64,
    due: Vec<u64>,
    /// The error that is planted: what has gathered wakes nobody.
    forgets: bool,
}

impl World {
    fn new(forgets: bool) -> World {
        World {
            topic: Arc::new(Topic::new(Arc::from("t"))),
            budget: Budget::new(1 << 20, Metrics::default().feed.ring_bytes),
            total: GrownTotal::default(),
            stored: BTreeMap::new(),
            head: Head {
                epoch: "A".to_owned(),
                head: 0,
                floor: 1,
                change_head: 0,
            },
            readers: Vec::new(),
            tick: 1_000,
            due: Vec::new(),
            forgets,
        }
    }

    fn publish(&self, appended: Vec<Message>, changed: Vec<u64>) {
        let event = TimelineEvent {
            timeline: "t".to_owned(),
            head: Some(self.head.clone()),
            members: Standing::default(),
            meta_version: None,
            appended,
            changed,
            reacted: false,
            configured: false,
        };
        publish(&self.topic, event, &self.budget);
    }

    /// One of the open messages.
    fn open(&self, at: usize) -> Option<u64> {
        let open = self.stored.iter().filter(|(_, one)| one.is_open);
        let open: Vec<u64> = open.map(|(sequence, _)| *sequence).collect();
        open.get(at % open.len().max(1)).copied()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Open => {
                self.head.head += 1;
                let sequence = self.head.head;
                let one = Stored {
                    is_open: true,
                    ..Stored::default()
                };
                self.stored.insert(sequence, one);
                let message = Message {
                    sequence,
                    timestamp: 1,
                    entry: Some(Vec::new()),
                    open: Some(Box::new(Open {
                        column: "text".to_owned(),
                        idle_ms: 60_000,
                    })),
                    parts: Some(0),
                    ..Message::default()
                };
                self.publish(vec![message], Vec::new());
            }
            Step::Grow(at, count) => {
                if let Some(sequence) = self.open(at) {
                    self.grow(sequence, count);
                }
            }
            Step::Edit(at) | Step::Close(at) => {
                let Some(sequence) = self.open(at) else {
                    return;
                };
                self.head.change_head += 1;
                let closes = matches!(step, Step::Close(_));
                self.stored
                    .entry(sequence)
                    .and_modify(|one| one.is_open &= !closes);
                self.publish(Vec::new(), vec![sequence]);
            }
            Step::Trim(by) => {
                self.head.floor = (self.head.floor + by).min(self.head.head + 1);
                self.stored = self.stored.split_off(&self.head.floor);
                self.publish(Vec::new(), Vec::new());
            }
            Step::Wait(ticks) => {
                for _ in 0..ticks {
                    self.pass();
                }
            }
            Step::Join(window) => self.join(window),
            Step::Leave(at) => {
                if !self.readers.is_empty() {
                    let gone = self.readers.swap_remove(at % self.readers.len());
                    let now = std::time::Instant::now();
                    self.topic.watchers.leave(gone.place, now);
                }
            }
            Step::Forget => self.topic.forget_parts(),
            Step::Doubt => self.topic.doubt(),
        }
    }

    fn grow(&mut self, sequence: u64, count: u64) {
        let tick = self.tick;
        let Some(one) = self.stored.get_mut(&sequence) else {
            return;
        };
        let (before, known) = (one.text.len(), one.parts.len() as u64);
        for part in known + 1..=known + count {
            one.text.push_str(&format!("{sequence}.{part} "));
            one.parts.push((tick, one.text.len()));
        }
        let growth = Growth {
            timeline: "t".to_owned(),
            epoch: "A".to_owned(),
            sequence,
            from: known + 1,
            parts: known + count,
            text: one.text[before..].to_owned(),
        };
        self.topic.grew(&growth, &self.total);
        let due = |at| self.due.push(at);
        self.topic.watchers.parts_came(tick, due);
    }

    fn pass(&mut self) {
        self.tick += 1;
        let tick = self.tick;
        let waiting = self.due.len();
        self.due.retain(|due| *due > tick);
        if self.due.len() < waiting && !self.forgets {
            self.topic.watchers.parts_gathered(tick);
        }
        self.look();
        self.check();
    }

    fn join(&mut self, window: u8) {
        let mailbox = Arc::new(Mailbox::default());
        let place = self.topic.watchers.join(&mailbox, 0);
        self.topic.watchers.ask_parts(place, window);
        let (doubt, turn, meta_version) = self.topic.seen();
        let mut cursor = Cursor::begin(doubt, turn, meta_version);
        cursor.epoch = Arc::from("A");
        let mut reader = Reader {
            window,
            place,
            mailbox,
            cursor,
            told: Told::default(),
            copy: BTreeMap::new(),
        };
        reader.read(&self.stored, &self.head);
        self.readers.push(reader);
    }

    /// Those that are woken look.
    fn look(&mut self) {
        for reader in &mut self.readers {
            let mut context = Context::from_waker(Waker::noop());
            let woken = reader.mailbox.poll_take(&mut context, &mut Vec::new());
            if woken.is_ready() {
                reader.look(&self.topic, &self.total, &self.stored, &self.head);
            }
        }
    }

    /// What every reader has is right, and what it has not yet is younger than its window.
    fn check(&self) {
        for reader in &self.readers {
            let window = u64::from(reader.window);
            for (sequence, one) in &self.stored {
                let (text, parts) = reader.copy.get(sequence).expect("messages do not wait");
                let length = parts.checked_sub(1).map_or(0, |last| one.parts[last].1);
                assert_eq!(*text, one.text[..length], "{parts} parts of {sequence}");
                let missing = one.parts.get(*parts);
                assert!(
                    missing.is_none_or(|(came, _)| one.is_open && came + window > self.tick),
                    "{missing:?} has not come to a window of {window} at {}",
                    self.tick
                );
            }
        }
    }

    fn run(steps: &[Step], forgets: bool) {
        let mut world = World::new(forgets);
        world.join(0);
        world.join(10);
        for step in steps {
            world.step(step);
            world.look();
            world.check();
        }
        for _ in 0..256 {
            world.pass();
        }
        world.readers.clear();
        drop(world.topic);
        assert_eq!(world.total.bytes(), 0, "all of it is given back");
    }
}

impl Reader {
    /// Takes all there is from the store.
    fn read(&mut self, stored: &BTreeMap<u64, Stored>, head: &Head) {
        self.copy.clear();
        for (sequence, one) in stored {
            let parts = one.parts.len();
            self.copy.insert(*sequence, (one.text.clone(), parts));
            let open = one.is_open.then_some(parts as u64);
            self.told.of(*sequence, open, self.cursor.doubt);
        }
        (self.cursor.sequence, self.cursor.change) = (head.head, head.change_head);
    }

    fn extend(&mut self, sequence: u64, from: u64, parts: u64, text: &str) {
        let (known, count) = self.copy.get_mut(&sequence).expect("it was told as open");
        assert_eq!(*count as u64 + 1, from, "the next part of {sequence}");
        assert!(parts >= from);
        known.push_str(text);
        *count = parts as usize;
        self.told.of(sequence, Some(parts), self.cursor.doubt);
    }

    fn look(
        &mut self,
        topic: &Topic,
        total: &GrownTotal,
        stored: &BTreeMap<u64, Stored>,
        head: &Head,
    ) {
        loop {
            match topic.next(&mut self.cursor, "") {
                Next::Fresh(fresh) => {
                    for message in &fresh.messages {
                        self.copy.insert(message.sequence, Default::default());
                        let doubt = self.cursor.doubt;
                        self.told.of(message.sequence, Some(0), doubt);
                    }
                    self.cursor.sequence = fresh.last();
                }
                Next::Read { doubt, .. } => {
                    self.cursor.doubt = doubt;
                    self.read(stored, head);
                }
                Next::CaughtUp => match topic.next_parts(&self.cursor, &mut self.told, total) {
                    NextParts::None => return,
                    NextParts::Parts(grown) => {
                        self.extend(grown.sequence, grown.from, grown.parts, &grown.text);
                    }
                    NextParts::Read {
                        sequence, after, ..
                    } => {
                        let one = &stored[&sequence];
                        let from = (after as usize).checked_sub(1);
                        let from = from.map_or(0, |last| one.parts[last].1);
                        let parts = one.parts.len() as u64;
                        if parts > after {
                            self.extend(sequence, after + 1, parts, &one.text[from..]);
                        } else {
                            self.told.of(sequence, Some(after), self.cursor.doubt);
                        }
                    }
                },
                other => panic!("{other:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_reader_gets_every_part_once_and_none_later_than_its_window(steps in steps()) {
        World::run(&steps, false);
    }
}

#[test]
fn a_window_that_forgets_its_last_parts_is_found() {
    let steps = [Step::Open, Step::Grow(0, 1), Step::Grow(0, 1)];
    World::run(&steps, false);
    let planted = std::panic::catch_unwind(|| World::run(&steps, true));
    assert!(planted.is_err(), "the second part never came");
}
