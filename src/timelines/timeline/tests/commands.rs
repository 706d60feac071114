//! Random commands on timelines and on the model; every answer must be the same.
//!
//! Owns: the commands, the readers that follow along with small pages, and the events that a follower of the log must
//! see. Promises: also the readers' own copies are compared: a reader that keeps to the protocol has what the server
//! has. Must not: be in a build that is not a test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::model::{GROWS, Model, grow};
use crate::timeline::{
    Append, AppendOne, Burial, Columns, Create, EntryLimits, Extend, Finish, Limits, List, Message,
    Open, Outcome, Pinned, Range, React, ReactionsOf, Resume, ResumeState, Standing, SyncAsker,
    SyncPosition, SyncState, Target, TimelineEvent, Timelines, UpdateMessage, UpdateMeta,
};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_model::timelines::Grown;
use tideline_store::partition::{ImageOptions, Options, Partitions};
use tideline_table::{Catalog, Tables};

pub(super) const NAMES: [&str; 6] = ["a", "ab", "abc", "b", "$own", "é"];
pub(super) const START_MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Epoch {
    None,
    Current,
    Other,
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Append {
        sender: &'static str,
        messages: Vec<(Option<u8>, Columns)>,
        expect_head: Option<i64>,
        create: bool,
    },
    /// Sender, ID, entry.
    Open(&'static str, Option<u8>, Columns),
    /// User, message, the part behind the last one and how far from it, text.
    Extend(&'static str, u64, i64, String),
    /// User, message, its parts and how far from that, outcome, what is set.
    Finish(&'static str, u64, i64, Outcome, Columns),
    Stop(u64),
    /// Where, message, how many parts the reader has.
    ResumeOpen(Option<u64>, u64, u64),
    Create(Option<Columns>),
    UpdateMeta(Columns, Vec<String>, Option<i64>),
    Delete,
    Trim(u64),
    Edit(u64, Columns, Vec<String>, Option<u64>),
    DeleteMessage(u64),
    Recall(u64, &'static str),
    /// Message, reaction, user, adds.
    React(u64, &'static str, u8, bool),
    Pin(u64, bool),
    ReactionsOf(u64, Option<&'static str>, Option<u8>, usize),
    Pinned(u64, usize),
    Wait(u64),
    Get(u64),
    Range(Option<u64>, Option<u64>, usize, bool, Option<Vec<String>>),
    Resume(Option<u64>, Option<u64>, Option<u64>, usize),
    List(&'static str, &'static str, usize),
    /// Reader, page limit.
    Follow(usize, usize),
    /// Reader, bytes.
    Poll(usize, usize),
    Feed,
}

fn columns() -> impl Strategy<Value = Columns> {
    let value = prop_oneof![
        Just(Value::Integer(1)),
        Just(Value::Double(1.0)),
        "[xy]{0,30}".prop_map(Value::String),
        Just(Value::Json("[1]".to_owned())),
    ];
    let map = proptest::collection::btree_map("[#km]", value, 0..3);
    (map, any::<bool>()).prop_map(|(map, reversed)| {
        let mut columns: Columns = map.into_iter().collect();
        if reversed {
            columns.reverse();
        }
        columns
    })
}

fn reaction() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("👍"), 1 => Just("$change"), 1 => Just("+")]
}

fn sender() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(""), 1 => Just("u")]
}

fn beside() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0), 1 => -2i64..3]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![Just(Outcome::Done), Just(Outcome::Failed)]
}

fn user(number: u8) -> String {
    format!("u{number}")
}

fn command() -> impl Strategy<Value = Command> {
    use proptest::option::of;
    let message = (of(0u8..6), columns());
    let sequence = || 0u64..12;
    let names = || proptest::collection::vec("[n-p]", 0..2);
    let prefix = prop_oneof![Just(""), Just("a"), Just("ab"), Just("$"), Just("x")];
    prop_oneof![
        10 => (
            prop_oneof![Just(""), Just("u")],
            proptest::collection::vec(message, 1..4),
            proptest::option::weighted(0.2, -1i64..2),
            proptest::bool::weighted(0.9),
        ).prop_map(|(sender, mut messages, expect_head, create)| {
            let mut seen = Vec::new();
            for (id, _) in &mut messages {
                *id = id.filter(|id| !seen.contains(id));
                seen.extend(*id);
            }
            Command::Append { sender, messages, expect_head, create }
        }),
        4 => (sender(), of(0u8..6), columns()).prop_map(|(a, b, mut entry)| {
            let is_text = |value: &Value| matches!(value, Value::String(_));
            entry.retain(|(name, value)| name != GROWS || is_text(value));
            Command::Open(a, b, entry)
        }),
        12 => (sender(), sequence(), beside(), "[xy\"]{1,4}")
            .prop_map(|(a, b, c, d)| Command::Extend(a, b, c, d)),
        3 => (sender(), sequence(), beside(), outcome(), columns())
            .prop_map(|(a, b, c, d, e)| Command::Finish(a, b, c, d, e)),
        1 => sequence().prop_map(Command::Stop),
        2 => (of(sequence()), sequence(), 0u64..6)
            .prop_map(|(a, b, c)| Command::ResumeOpen(a, b, c)),
        1 => of(columns()).prop_map(Command::Create),
        2 => (columns(), names(), of(-1i64..1)).prop_map(|(a, b, c)| Command::UpdateMeta(a, b, c)),
        1 => Just(Command::Delete),
        1 => sequence().prop_map(Command::Trim),
        4 => (sequence(), columns(), names(), proptest::option::weighted(0.2, 0u64..3))
            .prop_map(|(a, b, c, d)| Command::Edit(a, b, c, d)),
        2 => sequence().prop_map(Command::DeleteMessage),
        1 => (sequence(), prop_oneof![Just(""), Just("typo")]).prop_map(|(a, b)| Command::Recall(a, b)),
        6 => (sequence(), reaction(), 0u8..12, proptest::bool::weighted(0.7))
            .prop_map(|(a, b, c, d)| Command::React(a, b, c, d)),
        2 => (sequence(), proptest::bool::weighted(0.7)).prop_map(|(a, b)| Command::Pin(a, b)),
        1 => (sequence(), of(reaction()), of(0u8..12), 1usize..12)
            .prop_map(|(a, b, c, d)| Command::ReactionsOf(a, b, c.filter(|_| b.is_some()), d)),
        1 => (sequence(), 1usize..4).prop_map(|(a, b)| Command::Pinned(a, b)),
        2 => (1u64..40).prop_map(Command::Wait),
        1 => sequence().prop_map(Command::Get),
        3 => (of(sequence()), of(sequence()), 1usize..5, any::<bool>(), of(proptest::collection::vec("[#km]", 0..3)))
            .prop_map(|(a, b, c, d, e)| Command::Range(a, b, c, d, e)),
        3 => (of(sequence()), of(sequence()), of(0u64..8), prop_oneof![1usize..4, Just(1000)])
            .prop_map(|(a, b, c, d)| Command::Resume(a, b, c, d)),
        1 => (prefix, prop_oneof![Just(""), Just("a"), Just("abb")], 1usize..4)
            .prop_map(|(a, b, c)| Command::List(a, b, c)),
        3 => (0..READERS, 1usize..5).prop_map(|(a, b)| Command::Follow(a, b)),
        3 => (0..READERS, prop_oneof![1usize..1_000, Just(1 << 20)])
            .prop_map(|(a, b)| Command::Poll(a, b)),
        1 => Just(Command::Feed),
    ]
}

pub(super) fn step() -> impl Strategy<Value = (usize, Epoch, Command)> {
    let epoch = prop_oneof![
        8 => Just(Epoch::None),
        2 => Just(Epoch::Current),
        1 => Just(Epoch::Other),
    ];
    let name = prop_oneof![6 => Just(0), 1 => 0..NAMES.len()];
    (name, epoch, command())
}

const READERS: usize = 3;

fn target(timeline: &str, epoch: &Option<String>) -> Target {
    Target {
        epoch: epoch.clone(),
        ..timeline.into()
    }
}

/// What a reader keeps of one timeline.
#[derive(Clone, Debug, Default)]
struct Copy {
    epoch: Option<String>,
    position: u64,
    changes: u64,
    messages: BTreeMap<u64, Message>,
}

impl Copy {
    /// The open messages in it, and how many parts it has of each.
    fn open(&self) -> Vec<(u64, u64)> {
        let open = self.messages.values().filter(|one| one.open.is_some());
        open.map(|one| (one.sequence, one.parts.unwrap_or(0)))
            .collect()
    }

    fn grow(&mut self, grown: &[Grown]) {
        for grown in grown {
            let message = self.messages.get_mut(&grown.sequence).expect("it has it");
            assert_eq!(message.parts.map(|parts| parts + 1), Some(grown.from));
            message.parts = Some(grown.parts);
            grow(message.entry.as_mut().expect("it is open"), &grown.text);
        }
    }

    fn apply(&mut self, messages: &[Message], changed: Option<&Vec<Message>>) {
        for message in changed.into_iter().flatten() {
            let have = self.messages.get(&message.sequence);
            if have.is_none_or(|have| have.change < message.change) {
                self.messages.insert(message.sequence, message.clone());
            }
        }
        for message in messages {
            assert!(message.sequence > self.position, "a message came twice");
            self.position = message.sequence;
            self.messages.insert(message.sequence, message.clone());
        }
    }

    fn check(&mut self, model: &Model, name: &str) {
        let timeline = &model.timelines[name];
        self.messages = self.messages.split_off(&timeline.head.floor);
        assert_eq!(self.messages, timeline.messages);
    }
}

pub(super) struct World {
    pub(super) timelines: Timelines,
    pub(super) tables: Tables,
    pub(super) partitions: Partitions,
    pub(super) clock: Arc<Clock>,
    pub(super) model: Model,
    readers: Vec<BTreeMap<&'static str, Copy>>,
    /// What a follower of each partition has to see, and how far it followed.
    expected: Vec<VecDeque<TimelineEvent>>,
    fed: Vec<Position>,
}

fn same<T: std::fmt::Debug>(real: T, model: T) {
    assert_eq!(format!("{real:?}"), format!("{model:?}"));
}

impl World {
    pub(super) fn open(dir: &std::path::Path, partitions: u16) -> World {
        let limits = Limits {
            message_id_window_ms: 50,
            message_id_window_count: 3,
            heads_max: 4,
        };
        let clock = Arc::new(Clock::fixed(START_MS));
        let image = ImageOptions {
            map_bytes: 4 << 30,
            fan_in: 2,
            slice_rows: 20,
            ..ImageOptions::default()
        };
        let options = Options {
            partitions,
            image,
            ..Options::default()
        };
        let catalog = Catalog::default();
        let rules = Timelines::rules_with(&limits, catalog.clone());
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let ids: Vec<_> = partitions.ids().collect();
        let timelines = Timelines::new(partitions.clone(), limits.clone(), Arc::clone(&clock));
        let shown = timelines.tables();
        let tables = Tables::open(partitions.clone(), catalog, shown, Arc::clone(&clock)).unwrap();
        World {
            timelines,
            tables,
            clock,
            model: Model {
                timelines: BTreeMap::new(),
                limits,
                now: START_MS,
                epochs: Default::default(),
            },
            readers: vec![BTreeMap::new(); READERS],
            expected: vec![VecDeque::new(); ids.len()],
            fed: vec![Position::ZERO; ids.len()],
            partitions,
        }
    }

    /// Closes all and opens it again; the model goes on.
    pub(super) async fn restart(self, dir: &std::path::Path) -> World {
        let count = u16::try_from(self.partitions.ids().count()).unwrap();
        self.partitions.close().await;
        // The old handles hold the directory's lock.
        drop((self.timelines, self.tables, self.partitions));
        let world = World::open(dir, count);
        world.clock.set(self.model.now);
        World {
            model: self.model,
            readers: self.readers,
            expected: self.expected,
            fed: self.fed,
            ..world
        }
    }

    fn epoch(&self, name: &str, epoch: Epoch) -> Option<String> {
        match epoch {
            Epoch::None => None,
            Epoch::Current => {
                let timeline = self.model.timelines.get(name);
                Some(
                    timeline
                        .map_or_else(|| "gone".to_owned(), |timeline| timeline.head.epoch.clone()),
                )
            }
            Epoch::Other => Some("other".to_owned()),
        }
    }

    pub(super) async fn run(&mut self, name: &'static str, epoch: Epoch, command: Command) {
        let epoch = self.epoch(name, epoch);
        match command {
            Command::Append {
                sender,
                messages,
                expect_head,
                create,
            } => {
                let head = self
                    .model
                    .timelines
                    .get(name)
                    .map_or(0, |timeline| timeline.head.head);
                let one = |(id, entry): (Option<u8>, Columns)| AppendOne {
                    entry,
                    message_id: id.map(|id| format!("m{id}")),
                    ..AppendOne::default()
                };
                let append = Append {
                    timeline: name.to_owned(),
                    asker: sender.into(),
                    messages: messages.into_iter().map(one).collect(),
                    expect_head: expect_head.map(|by| head.saturating_add_signed(by)),
                    create,
                    epoch,
                };
                self.append(append).await;
            }
            Command::Open(sender, id, entry) => {
                let message = AppendOne {
                    entry,
                    message_id: id.map(|id| format!("m{id}")),
                    open: Some(Open {
                        column: GROWS.to_owned(),
                        idle_ms: 1_000_000,
                    }),
                    ..AppendOne::default()
                };
                let append = Append {
                    timeline: name.to_owned(),
                    asker: sender.into(),
                    messages: vec![message],
                    expect_head: None,
                    create: true,
                    epoch,
                };
                self.append(append).await;
            }
            Command::Extend(..) | Command::Finish(..) | Command::Stop(_) => {
                self.grow(name, epoch, command).await;
            }
            Command::Create(_) | Command::UpdateMeta(..) | Command::Delete | Command::Trim(_) => {
                self.manage(name, epoch, command).await;
            }
            Command::React(..) | Command::Pin(..) => self.mark(name, epoch, command).await,
            Command::Edit(..) | Command::DeleteMessage(_) | Command::Recall(..) => {
                self.edit(name, epoch, command).await;
            }
            Command::Wait(ms) => {
                self.model.now += ms;
                self.clock.set(self.model.now);
            }
            Command::Follow(reader, limit) => self.follow(reader, name, limit).await,
            Command::Poll(reader, bytes) => self.poll(reader, bytes).await,
            Command::Feed => self.feed(),
            read => self.read(name, epoch, read).await,
        }
    }

    /// Appends, and remembers the event that this must make.
    async fn append(&mut self, append: Append) {
        let name = append.timeline.clone();
        let before = self
            .model
            .timelines
            .get(&name)
            .map_or(0, |timeline| timeline.head.head);
        let real = self.timelines.append(append.clone()).await;
        let predicted = self.model.append(&append);
        let (real, mut predicted) = match (real, predicted) {
            (Ok(real), Ok(predicted)) => (real, predicted),
            (real, predicted) => return same(real.map(|_| ()), predicted.map(|_| ())),
        };
        for (predicted, real) in predicted.iter_mut().zip(&real.0) {
            if predicted.message_id.is_empty() {
                let uuid = uuid::Uuid::try_parse(&real.message_id).unwrap();
                assert_eq!(uuid.get_version_num(), 7);
                predicted.message_id.clone_from(&real.message_id);
            }
        }
        assert_eq!(real.0, predicted);
        self.model.learn(&name, &real.0, &real.1);
        let appended = self.model.timelines[&name].messages.range(before + 1..);
        let appended: Vec<_> = appended.map(|(_, message)| message.clone()).collect();
        if real.0.iter().any(|answer| !answer.duplicate) {
            self.expect(&name, None, appended, vec![]);
        }
    }

    async fn manage(&mut self, name: &'static str, epoch: Option<String>, command: Command) {
        let owned = name.to_owned();
        match command {
            Command::Create(meta) => {
                let real = self
                    .timelines
                    .create(Create {
                        meta: meta.clone().unwrap_or_default(),
                        ..target(name, &epoch).into()
                    })
                    .await
                    .map(|(info, made)| (info, made.created));
                let predicted = self.model.create(name, meta, &epoch);
                if let Ok((info, true)) = &real {
                    self.model.learn(name, &[], &info.epoch);
                    self.expect(name, None, vec![], vec![]);
                }
                let info = predicted.and_then(|made| Ok((self.model.info(name, &None)?, made)));
                same(real, info);
            }
            Command::UpdateMeta(set, remove, expect) => {
                let version = self
                    .model
                    .timelines
                    .get(name)
                    .map_or(1, |it| it.info.version);
                let update = UpdateMeta {
                    asker: Asker::default(),
                    timeline: owned,
                    set,
                    remove,
                    expect_version: expect.map(|by| version.saturating_add_signed(by)),
                    epoch,
                    limits: LIMITS,
                };
                let real = self.timelines.update(update.clone()).await;
                same(&real, &self.model.update(&update));
                if let Ok((_, version)) = real {
                    self.expect(name, Some(version), vec![], vec![]);
                }
            }
            Command::Delete => {
                let real = self.timelines.delete(target(name, &epoch)).await;
                same(&real, &self.model.delete(name, &epoch));
                if let Ok(true) = real {
                    self.expect(name, None, vec![], vec![]);
                }
            }
            Command::Trim(before) => {
                let floor = self.model.timelines.get(name).map_or(0, |it| it.head.floor);
                let real = self.timelines.trim(target(name, &epoch), before).await;
                same(&real, &self.model.trim(name, before, &epoch));
                if real.is_ok_and(|real| real > floor) {
                    self.expect(name, None, vec![], vec![]);
                }
            }
            other => panic!("{other:?} is not about a timeline"),
        }
    }

    async fn edit(&mut self, name: &'static str, epoch: Option<String>, command: Command) {
        let (sequence, done) = match command {
            Command::Edit(sequence, set, remove, expect_change) => {
                let update = UpdateMessage {
                    asker: Asker::default(),
                    timeline: name.to_owned(),
                    sequence,
                    set,
                    remove,
                    expect_change,
                    epoch,
                    limits: LIMITS,
                };
                let real = self.timelines.update_message(update.clone()).await;
                same(&real, &self.model.update_message(&update));
                (sequence, real.is_ok())
            }
            Command::DeleteMessage(sequence) => {
                let real = self
                    .timelines
                    .delete_message(target(name, &epoch), sequence)
                    .await;
                let model = self.model.bury(name, sequence, Burial::Deleted, &epoch);
                same(&real, &model);
                (sequence, matches!(real, Ok(true)))
            }
            Command::Recall(sequence, reason) => {
                let reason = (!reason.is_empty()).then(|| reason.to_owned());
                let user = "u".to_owned();
                let recalled = Target {
                    asker: user.clone().into(),
                    ..target(name, &epoch)
                };
                let real = self
                    .timelines
                    .recall_message(recalled, sequence, reason.clone())
                    .await;
                let burial = Burial::Recalled { by: user, reason };
                same(&real, &self.model.bury(name, sequence, burial, &epoch));
                (sequence, matches!(real, Ok(true)))
            }
            other => panic!("{other:?} is no edit"),
        };
        if done {
            self.expect(name, None, vec![], vec![sequence]);
        }
    }

    /// Parts and ends of open messages.
    async fn grow(&mut self, name: &'static str, epoch: Option<String>, command: Command) {
        let by = |user: &str| Target {
            asker: user.into(),
            ..target(name, &epoch)
        };
        let parts = |world: &World, sequence| {
            let timeline = world.model.timelines.get(name);
            let message = timeline.and_then(|timeline| timeline.messages.get(&sequence));
            message.and_then(|message| message.parts).unwrap_or(0)
        };
        match command {
            Command::Extend(user, sequence, beside, text) => {
                let extend = Extend {
                    target: by(user),
                    sequence,
                    part: (parts(self, sequence) + 1)
                        .saturating_add_signed(beside)
                        .max(1),
                    text,
                    limits: LIMITS,
                };
                let real = self.timelines.extend(extend.clone()).await;
                same(real, self.model.extend(&extend));
            }
            Command::Finish(user, sequence, beside, outcome, set) => {
                let finish = Finish {
                    target: by(user),
                    sequence,
                    parts: parts(self, sequence).saturating_add_signed(beside),
                    outcome,
                    set,
                    remove: Vec::new(),
                    limits: LIMITS,
                };
                let real = self.timelines.finish(finish.clone()).await;
                same(&real, &self.model.finish(&finish));
                if real.is_ok_and(|real| !real.duplicate) {
                    self.expect(name, None, vec![], vec![sequence]);
                }
            }
            Command::Stop(sequence) => {
                let timeline = self.model.timelines.get(name);
                let message = timeline.and_then(|timeline| timeline.messages.get(&sequence));
                let was_open = message.is_some_and(|message| message.open.is_some());
                let real = self.timelines.stop(by("u"), sequence, None).await;
                same(&real, &self.model.stop(&by("u"), sequence));
                if real.is_ok() && was_open {
                    self.expect(name, None, vec![], vec![sequence]);
                }
            }
            other => panic!("{other:?} is no growth"),
        }
    }

    /// Reactions and pins.
    async fn mark(&mut self, name: &'static str, epoch: Option<String>, command: Command) {
        let changes = |world: &World| {
            let timeline = world.model.timelines.get(name);
            timeline.map_or(0, |timeline| timeline.head.change_head)
        };
        let before = changes(self);
        match command {
            Command::React(sequence, reaction, number, adds) => {
                let react = React {
                    target: Target {
                        asker: user(number).into(),
                        ..target(name, &epoch)
                    },
                    sequence,
                    reaction: reaction.to_owned(),
                    adds,
                };
                let real = self.timelines.react(react.clone()).await;
                same(real, self.model.react(&react));
                if changes(self) > before {
                    self.expect(name, None, vec![], vec![]);
                    let at = usize::from(self.timelines.place(name).0);
                    let event = self.expected[at].back_mut().expect("just put there");
                    event.reacted = true;
                }
            }
            Command::Pin(sequence, pins) => {
                let target = target(name, &epoch);
                let real = self.timelines.pin(target.clone(), sequence, pins).await;
                same(&real, &self.model.pin(&target, sequence, pins));
                if changes(self) > before {
                    self.expect(name, None, vec![], vec![sequence]);
                }
            }
            other => panic!("{other:?} is no mark"),
        }
    }

    fn expect(
        &mut self,
        name: &str,
        meta_version: Option<u64>,
        appended: Vec<Message>,
        changed: Vec<u64>,
    ) {
        let at = usize::from(self.timelines.place(name).0);
        let timeline = self.model.timelines.get(name);
        self.expected[at].push_back(TimelineEvent {
            timeline: name.to_owned(),
            head: timeline.map(|timeline| timeline.head.clone()),
            members: Standing::default(),
            meta_version,
            appended,
            changed,
            reacted: false,
            configured: false,
        });
    }

    fn feed(&mut self) {
        for id in self.partitions.ids() {
            let at = usize::from(id.0);
            let tail = self.partitions.tail(id);
            while self.fed[at] < tail.position() {
                for batch in tail.batches(self.fed[at], 1_000).unwrap() {
                    self.fed[at] = batch.position;
                    for mut event in self.timelines.events(id, &batch, |_| true) {
                        // The log's positions are in it, which the model does not know.
                        event.members = Standing::default();
                        same(Some(event), self.expected[at].pop_front());
                    }
                }
            }
            assert_eq!(self.expected[at].len(), 0, "an event is missing");
        }
    }

    async fn read(&self, name: &'static str, epoch: Option<String>, command: Command) {
        let head = self.timelines.head(name).await.unwrap();
        let known = self
            .model
            .timelines
            .get(name)
            .map(|timeline| timeline.head.clone());
        assert_eq!(head, known);
        match command {
            Command::Get(sequence) => {
                let real = self.timelines.get(target(name, &epoch)).await;
                same(real, self.model.info(name, &epoch));
                let real = self
                    .timelines
                    .get_message(target(name, &epoch), sequence)
                    .await;
                same(real, self.model.message(name, sequence, &epoch));
            }
            Command::Range(from, to, limit, backward, columns) => {
                let range = Range {
                    asker: Asker::default(),
                    timeline: name.to_owned(),
                    from,
                    to,
                    limit,
                    bytes_max: usize::MAX,
                    backward,
                    columns,
                    epoch,
                };
                same(
                    self.timelines.range(range.clone()).await,
                    self.model.range(&range),
                );
            }
            Command::Resume(after, rewind, changes_after, limit) => {
                let resume = Resume {
                    asker: Asker::default(),
                    timeline: name.to_owned(),
                    after: after.filter(|_| rewind.is_none()),
                    rewind,
                    epoch,
                    changes_after,
                    open: Vec::new(),
                    parts: false,
                    limit,
                    bytes_max: usize::MAX,
                };
                let predicted = self.model.resume(&resume);
                let changed = predicted.iter().flat_map(|page| &page.changed).flatten();
                if changed.count() <= limit {
                    let real = self.timelines.resume(resume.clone()).await;
                    let is_cut = real
                        .iter()
                        .any(|real| real.change_position < real.head.change_head);
                    if !is_cut {
                        same(real, predicted);
                    }
                }
            }
            Command::ResumeOpen(after, sequence, has) => {
                let resume = Resume {
                    asker: Asker::default(),
                    timeline: name.to_owned(),
                    after,
                    rewind: None,
                    epoch,
                    changes_after: None,
                    open: vec![(sequence, has)],
                    parts: false,
                    limit: 1_000,
                    bytes_max: usize::MAX,
                };
                let real = self.timelines.resume(resume.clone()).await;
                same(real, self.model.resume(&resume));
            }
            Command::ReactionsOf(sequence, reaction, after, limit) => {
                let of = ReactionsOf {
                    target: target(name, &epoch),
                    sequence,
                    reaction: reaction.map(str::to_owned),
                    after: after.map(user),
                    limit,
                    bytes_max: usize::MAX,
                };
                let real = self.timelines.reactions(of.clone()).await;
                same(real, self.model.reactions(&of));
            }
            Command::Pinned(after, limit) => {
                let pinned = Pinned {
                    target: target(name, &epoch),
                    after,
                    limit,
                    bytes_max: usize::MAX,
                };
                let real = self.timelines.pinned(pinned.clone()).await;
                same(real, self.model.pinned(&pinned));
            }
            Command::List(prefix, after, limit) => self.list(prefix, after, limit).await,
            other => panic!("{other:?} is no read"),
        }
    }

    /// All pages of a list, one after the other.
    async fn list(&self, prefix: &str, after: &str, limit: usize) {
        let (mut real, mut next) = (Vec::new(), Some(after.to_owned()));
        while let Some(after) = next {
            let list = List {
                asker: Asker::default(),
                prefix: prefix.to_owned(),
                after: Some(after),
                limit,
                bytes_max: 1_000,
            };
            let page = self.timelines.list(list).await.unwrap();
            assert!(page.timelines.len() <= limit);
            assert!(page.next.is_none() || !page.timelines.is_empty());
            real.extend(page.timelines);
            next = page.next;
        }
        assert_eq!(real, self.model.list(prefix, after));
    }

    /// A reader catches up with one timeline in small pages, as a subscription does.
    async fn follow(&mut self, reader: usize, name: &'static str, limit: usize) {
        let copy = self.readers[reader].entry(name).or_default();
        for _ in 0..1_000 {
            let resume = Resume {
                asker: Asker::default(),
                timeline: name.to_owned(),
                after: Some(copy.position),
                rewind: None,
                epoch: copy.epoch.clone(),
                changes_after: Some(copy.changes),
                open: copy.open(),
                parts: false,
                limit,
                bytes_max: 300 * limit,
            };
            let Ok(page) = self.timelines.resume(resume).await else {
                assert!(!self.model.timelines.contains_key(name));
                *copy = Copy::default();
                return;
            };
            assert_eq!(page.head, self.model.timelines[name].head);
            match page.state {
                ResumeState::EpochChanged => {
                    assert_ne!(copy.epoch.as_ref(), Some(&page.head.epoch));
                    *copy = Copy::default();
                    continue;
                }
                ResumeState::TooOld => assert!(copy.position + 1 < page.head.floor),
                ResumeState::Ok => assert!(copy.position + 1 >= page.head.floor),
            }
            let has_progress = page.position > copy.position
                || page.change_position > copy.changes
                || !page.grown.is_empty();
            assert!(has_progress || !page.more);
            copy.epoch = Some(page.head.epoch.clone());
            copy.grow(&page.grown);
            copy.apply(&page.messages, page.changed.as_ref());
            (copy.position, copy.changes) = (page.position, page.change_position);
            if !page.more {
                copy.check(&self.model, name);
                return;
            }
        }
        panic!("a reader does not come to the end");
    }

    /// A reader asks for all timelines at once until nothing is new.
    async fn poll(&mut self, reader: usize, bytes: usize) {
        let copies = &mut self.readers[reader];
        for name in NAMES {
            copies.entry(name).or_default();
        }
        for start in 0..1_000 {
            let open: Vec<_> = copies.values().map(Copy::open).collect();
            let positions: Vec<_> = copies
                .iter()
                .zip(&open)
                .map(|((name, copy), open)| SyncPosition {
                    timeline: name,
                    after: copy.position,
                    epoch: copy.epoch.as_deref(),
                    changes_after: Some(copy.changes),
                    open,
                    rewind: None,
                })
                .collect();
            let first = &positions[start % NAMES.len()];
            let asker = SyncAsker {
                asker: &Asker::default(),
                is_member: false,
                limit: 2,
            };
            let first_has_news = self.model.sync(first, 2).is_some();
            let (synced, more) = self
                .timelines
                .sync(&positions, asker, bytes, start)
                .await
                .unwrap();
            let names: Vec<_> = synced
                .iter()
                .map(|synced| synced.timeline.as_str())
                .collect();
            assert!(!first_has_news || names.contains(&first.timeline));
            for position in &positions {
                let predicted = self.model.sync(position, 2);
                let is_shown = names.contains(&position.timeline);
                let fits = is_shown || more;
                assert!(
                    predicted.is_none_or(|_| fits),
                    "news of {position:?} left out"
                );
                assert!(!is_shown || self.model.sync(position, 2).is_some());
            }
            let is_done = synced.is_empty() && !more;
            for synced in synced {
                let copy = copies.get_mut(synced.timeline.as_str()).unwrap();
                match (synced.state, synced.page) {
                    (SyncState::Ok | SyncState::TooOld, Some(page)) => {
                        assert_eq!(page.head, self.model.timelines[&synced.timeline].head);
                        copy.epoch = Some(page.head.epoch.clone());
                        copy.grow(&page.grown);
                        copy.apply(&page.messages, page.changed.as_ref());
                        (copy.position, copy.changes) = (page.position, page.change_position);
                    }
                    (SyncState::EpochChanged, Some(_)) | (SyncState::Deleted, None) => {
                        *copy = Copy::default();
                    }
                    odd => panic!("{odd:?}"),
                }
            }
            if is_done {
                for (name, copy) in copies {
                    if self.model.timelines.contains_key(*name) && copy.epoch.is_some() {
                        copy.check(&self.model, name);
                    }
                }
                return;
            }
        }
        panic!("a polling reader does not come to the end");
    }
}

const LIMITS: EntryLimits = EntryLimits {
    entry_bytes_max: 60,
    entry_names_max: 3,
};

/// In memory where the system has such a place: nothing here is about the disk, and each write is one sync.
pub(super) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn timelines_answer_as_the_model_does(
        steps in proptest::collection::vec(step(), 1..120),
        partitions in 1u16..4,
    ) {
        let dir = directory();
        runtime().block_on(async {
            let mut world = World::open(dir.path(), partitions);
            for (name, epoch, command) in steps {
                world.run(NAMES[name], epoch, command).await;
            }
            world.feed();
            for reader in 0..READERS {
                for name in NAMES {
                    world.follow(reader, name, 3).await;
                }
                world.poll(reader, 1 << 20).await;
            }
            world.partitions.close().await;
        });
    }
}

#[test]
fn writes_take_effect_in_the_order_of_the_calls_and_events_tell_all() {
    let dir = directory();
    runtime().block_on(async {
        let world = World::open(dir.path(), 1);
        let append = |n: i64, create| Append {
            timeline: "room".to_owned(),
            asker: Asker::default(),
            messages: vec![AppendOne {
                entry: vec![("n".to_owned(), Value::Integer(n))],
                message_id: Some(format!("{n}")),
                ..AppendOne::default()
            }],
            expect_head: None,
            create,
            epoch: None,
        };
        let mut writes = Vec::new();
        for n in 1..=100 {
            writes.push(world.timelines.append(append(n, true)));
        }
        let edit = world.timelines.delete_message("room".into(), 40);
        let deleted = world.timelines.delete("room".into());
        let refused = world.timelines.append(append(101, false));
        let last = world.timelines.append(append(7, true));
        assert!(edit.await.unwrap() && deleted.await.unwrap());
        assert!(refused.await.is_err());
        let mut epochs = Vec::new();
        for (n, write) in writes.into_iter().enumerate() {
            let (answers, epoch) = write.await.unwrap();
            assert_eq!(answers[0].sequence, n as u64 + 1);
            epochs.push(epoch);
        }
        epochs.dedup();
        let (answers, epoch) = last.await.unwrap();
        assert_eq!((answers[0].sequence, answers[0].duplicate), (1, false));
        assert!(epochs.len() == 1 && epochs[0] != epoch);
        let batches = world
            .partitions
            .tail(PartitionId(0))
            .batches(Position::ZERO, usize::MAX);
        let batches = batches.unwrap();
        let last = batches.last().unwrap();
        let unwatched = world.timelines.events(PartitionId(0), last, |_| false);
        assert!(unwatched.is_empty());
        let event = world.timelines.events(PartitionId(0), last, |_| true);
        let event = event.into_iter().next_back().unwrap();
        assert_eq!(event.head.unwrap().epoch, epoch);
        let appended: Vec<_> = event
            .appended
            .iter()
            .map(|message| message.sequence)
            .collect();
        assert_eq!((appended, event.changed), (vec![1], vec![]));
        world.partitions.close().await;
    });
}

#[test]
fn pages_end_at_their_bytes_but_hold_one_message() {
    let dir = directory();
    runtime().block_on(async {
        let world = World::open(dir.path(), 1);
        let one = |bytes: usize| AppendOne {
            entry: vec![("t".to_owned(), Value::String("x".repeat(bytes)))],
            message_id: None,
            ..AppendOne::default()
        };
        let append = Append {
            timeline: "room".to_owned(),
            asker: Asker::default(),
            messages: vec![one(3_000), one(100), one(100), one(3_000)],
            expect_head: Some(0),
            create: true,
            epoch: None,
        };
        world.timelines.append(append).await.unwrap();
        let mut range = Range {
            asker: Asker::default(),
            timeline: "room".to_owned(),
            from: None,
            to: None,
            limit: 10,
            bytes_max: 1_000,
            backward: false,
            columns: None,
            epoch: None,
        };
        let mut pages: Vec<Vec<u64>> = Vec::new();
        for backward in [false, true] {
            (range.from, range.backward) = (None, backward);
            loop {
                let page = world.timelines.range(range.clone()).await.unwrap();
                pages.push(
                    page.messages
                        .iter()
                        .map(|message| message.sequence)
                        .collect(),
                );
                range.from = page.next;
                if page.next.is_none() {
                    break;
                }
            }
        }
        let expected: [Vec<u64>; 6] = [vec![1], vec![2, 3], vec![4], vec![4], vec![3, 2], vec![1]];
        assert_eq!(pages, expected);
        world.partitions.close().await;
    });
}
