//! Feeds against a plain model: all messages, sorted.
//!
//! Owns: the model, and readers that page through a feed while it changes. Promises: whatever was in the feed when a
//! reader began, and still is when they end, came to them once and in order; nothing came twice, and nothing that was
//! not in the feed then; with messages that go into the inbox and ones that don't, switches between the two, late,
//! repeated and stray entries, deletions, hides, trims, timelines made again or closed to the user. Must not: know how
//! rows are encoded.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Deref;
use std::path::Path;

use proptest::prelude::*;

use super::super::feeds::feed::{Source, Sources};
use super::bed::Bed;
use crate::people::{FeedPage, FeedRange};
use crate::timeline::{
    AddMembers, Append, AppendOne, Columns, Error, Limits, NewMember, SettingsPatch, Target,
    Timelines,
};
use tideline_model::Value;
use tideline_model::access::Asker;

const USER: &str = "ada";
const NAMES: [&str; 4] = ["a", "ab", "b", "é"];
/// The timeline that the user is a member of.
const OWN: usize = 2;
/// The timeline that is closed to the user at times.
const CLOSED: usize = 0;
const START_MS: u64 = 1_700_000_000_000;
const DAY_MS: u64 = 86_400_000;

#[derive(Clone, Debug)]
enum Command {
    /// After so many ms; `true`: an entry of it comes into the inbox in any case.
    Post(usize, u64, bool),
    /// The next entry of a timeline comes into the inbox; `true`: and comes again.
    Deliver(usize, bool),
    /// From now on messages go into the inbox, or don't.
    Turn(usize, bool),
    /// Of the last messages.
    Delete(usize, u64),
    Hide(u64),
    Trim(usize, u64),
    MakeAgain(usize),
    Close(bool),
    /// The reader takes the next page, of so many.
    Page(usize),
    Wait(u64),
    Flush,
}

fn command() -> impl Strategy<Value = Command> {
    let at = 0..NAMES.len();
    prop_oneof![
        12 => (at.clone(), prop_oneof![Just(0u64), 0u64..3, 0u64..3_000], prop::bool::weighted(0.1))
            .prop_map(|(at, ms, stray)| Command::Post(at, ms, stray)),
        8 => (at.clone(), prop::bool::weighted(0.1)).prop_map(|(at, again)| Command::Deliver(at, again)),
        4 => (at.clone(), any::<bool>()).prop_map(|(at, write)| Command::Turn(at, write)),
        2 => (at.clone(), 0u64..6).prop_map(|(at, back)| Command::Delete(at, back)),
        1 => (0u64..6).prop_map(Command::Hide),
        1 => (at.clone(), 0u64..6).prop_map(|(at, back)| Command::Trim(at, back)),
        1 => at.prop_map(Command::MakeAgain),
        1 => any::<bool>().prop_map(Command::Close),
        6 => (1usize..5).prop_map(Command::Page),
        2 => prop_oneof![Just(12_000u64), Just(12 * DAY_MS)].prop_map(Command::Wait),
        1 => Just(Command::Flush),
    ]
}

/// A message by its place in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: Reverse<u64>,
    timeline: usize,
    sequence: Reverse<u64>,
    /// Which of its name the timeline is.
    made: usize,
}

struct Room {
    made: usize,
    epoch: String,
    incarnation: u64,
    from: u64,
    floor: u64,
    inbox_from: u64,
    /// Times, and whether the user may see the message.
    messages: Vec<(u64, bool)>,
    /// On their way into the inbox.
    pending: VecDeque<Columns>,
}

struct Reader {
    must: BTreeSet<Key>,
    got: Vec<Key>,
    next: Option<String>,
    pages: usize,
}

struct World {
    bed: Bed,
    now_ms: u64,
    rooms: Vec<Room>,
    /// Sequences of entries that are in the inbox: epoch and sequence.
    came: BTreeSet<(String, u64)>,
    is_closed: bool,
    reader: Option<Reader>,
}

impl Deref for World {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl World {
    async fn open(dir: &Path) -> World {
        let mut world = World {
            bed: Bed::open(dir, (2, false), Limits::default(), START_MS),
            now_ms: START_MS,
            rooms: Vec::new(),
            came: BTreeSet::new(),
            is_closed: false,
            reader: None,
        };
        for at in 0..NAMES.len() {
            let room = world.make(at, 0).await;
            world.rooms.push(room);
        }
        world
    }

    /// Makes a timeline, with one message that is no part of the feed.
    async fn make(&self, at: usize, made: usize) -> Room {
        let (_, epoch) = self.append(NAMES[at], Columns::new()).await;
        if at == OWN {
            let add = AddMembers {
                target: Target::from(NAMES[at]),
                members: vec![NewMember {
                    user: USER.to_owned(),
                    role: None,
                    attributes: Columns::new(),
                    visible_from: None,
                    read: None,
                }],
                history: None,
                announce: None,
            };
            self.timelines.add_members(add).await.unwrap();
        }
        let found = self.timelines.incarnation(Target::from(NAMES[at])).await;
        Room {
            made,
            epoch,
            incarnation: found.unwrap().0,
            from: 2,
            floor: 1,
            inbox_from: u64::MAX,
            messages: vec![(self.now_ms, true)],
            pending: VecDeque::new(),
        }
    }

    async fn append(&self, timeline: &str, entry: Columns) -> (u64, String) {
        let append = Append {
            timeline: timeline.to_owned(),
            asker: Asker::default(),
            messages: vec![AppendOne {
                entry,
                ..AppendOne::default()
            }],
            expect_head: None,
            create: true,
            epoch: None,
        };
        let (appended, epoch) = self.timelines.append(append).await.unwrap();
        (appended[0].timestamp, epoch)
    }

    async fn close(self) {
        self.bed.close().await;
    }

    fn key(&self, at: usize, sequence: u64) -> Key {
        let room = &self.rooms[at];
        Key {
            at: Reverse(room.messages[usize::try_from(sequence - 1).unwrap()].0),
            timeline: at,
            sequence: Reverse(sequence),
            made: room.made,
        }
    }

    /// What is in the feed; `false`: also what is still on its way.
    fn feed(&self, arrived: bool) -> BTreeSet<Key> {
        let mut feed = BTreeSet::new();
        for (at, room) in self.rooms.iter().enumerate() {
            if at == CLOSED && self.is_closed {
                continue;
            }
            for (sequence, (time, is_visible)) in (1..).zip(&room.messages) {
                let is_in = *is_visible
                    && sequence >= room.from.max(room.floor)
                    && *time + 30 * DAY_MS >= self.now_ms;
                let is_there = !arrived
                    || sequence < room.inbox_from
                    || self.came.contains(&(room.epoch.clone(), sequence));
                if is_in && is_there {
                    feed.insert(self.key(at, sequence));
                }
            }
        }
        feed
    }

    fn sources(&self) -> Sources {
        let source = |(at, room): (usize, &Room)| {
            let source = Source {
                from: room.from.max(room.floor),
                inbox_from: room.inbox_from,
                head: room.messages.len() as u64,
                last_at: room.messages.last().map_or(0, |(at, _)| *at),
            };
            (NAMES[at].to_owned(), room.incarnation, source)
        };
        Sources::new(self.rooms.iter().enumerate().map(source))
    }

    #[allow(clippy::too_many_lines)] // one command after the other
    async fn run(&mut self, command: Command) {
        match command {
            Command::Post(at, ms, stray) => {
                self.pass(ms);
                let (time, epoch) = self.append(NAMES[at], Columns::new()).await;
                let room = &mut self.rooms[at];
                room.messages.push((time, true));
                let sequence = room.messages.len() as u64;
                if stray || sequence >= room.inbox_from {
                    let number = |number: u64| Value::Integer(number.cast_signed());
                    let entry = [
                        ("epoch", Value::String(epoch)),
                        ("sequence", number(sequence)),
                        ("timeline", Value::String(NAMES[at].to_owned())),
                        ("timestamp", number(time)),
                    ];
                    let entry = entry.map(|(name, value)| (name.to_owned(), value));
                    room.pending.push_back(entry.to_vec());
                }
            }
            Command::Deliver(at, again) => {
                let Some(entry) = self.rooms[at].pending.pop_front() else {
                    return;
                };
                let (Value::String(epoch), Value::Integer(sequence)) = (&entry[0].1, &entry[1].1)
                else {
                    unreachable!()
                };
                self.came.insert((epoch.clone(), sequence.cast_unsigned()));
                for _ in 0..=usize::from(again) {
                    self.append(&Timelines::inbox_of(USER), entry.clone()).await;
                }
            }
            Command::Turn(at, write) => {
                let room = &mut self.rooms[at];
                let is_write = room.inbox_from != u64::MAX;
                if is_write != write {
                    let next = room.messages.len() as u64 + 1;
                    room.inbox_from = if write { next } else { u64::MAX };
                }
            }
            Command::Delete(at, back) => {
                let room = &mut self.rooms[at];
                let last = room.messages.len() as u64;
                let sequence = last.saturating_sub(back).max(room.floor);
                if sequence <= last {
                    let deleted = self
                        .bed
                        .timelines
                        .delete_message(NAMES[at].into(), sequence);
                    deleted.await.unwrap();
                    room.messages[usize::try_from(sequence - 1).unwrap()].1 = false;
                }
            }
            Command::Hide(back) => {
                let room = &mut self.rooms[OWN];
                let last = room.messages.len() as u64;
                let sequence = last.saturating_sub(back).max(room.floor);
                if sequence <= last {
                    let target = Target {
                        asker: USER.into(),
                        ..Target::from(NAMES[OWN])
                    };
                    let hidden = self.bed.timelines.hide(target, vec![sequence]);
                    hidden.await.unwrap();
                    room.messages[usize::try_from(sequence - 1).unwrap()].1 = false;
                }
            }
            Command::Trim(at, back) => {
                let room = &mut self.rooms[at];
                let before = (room.messages.len() as u64 + 1).saturating_sub(back).max(1);
                let trimmed = self.bed.timelines.trim(NAMES[at].into(), before).await;
                room.floor = trimmed.unwrap();
            }
            Command::MakeAgain(at) => {
                self.timelines.delete(NAMES[at].into()).await.unwrap();
                let mut room = self.make(at, self.rooms[at].made + 1).await;
                // What was on its way comes all the same.
                room.pending = std::mem::take(&mut self.rooms[at].pending);
                self.rooms[at] = room;
                if at == CLOSED {
                    self.is_closed = false;
                }
            }
            Command::Close(is_closed) => {
                let patch = SettingsPatch {
                    members_only: Some(Some(is_closed)),
                    ..SettingsPatch::default()
                };
                let configured = self.timelines.configure(NAMES[CLOSED].into(), patch, None);
                configured.await.unwrap();
                self.is_closed = is_closed;
            }
            Command::Page(limit) => self.page(limit).await,
            Command::Wait(ms) => self.pass(ms),
            Command::Flush => self.flush().await,
        }
        let feed = self.feed(false);
        if let Some(reader) = &mut self.reader {
            // What has gone since the reader began need not come.
            reader.must.retain(|key| feed.contains(key));
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.clock.set(self.now_ms);
    }

    /// The reader begins, or goes on. At the end all that must have come has.
    async fn page(&mut self, limit: usize) {
        let mut reader = self.reader.take().unwrap_or_else(|| Reader {
            must: self.feed(true),
            got: Vec::new(),
            next: None,
            pages: 0,
        });
        let asked = FeedRange {
            asker: USER.into(),
            before: reader.next.take(),
            limit,
            bytes_max: 1 << 20,
        };
        let page = self.people.merged(&self.sources(), asked).await;
        let FeedPage { messages, next } = page.unwrap();
        assert!(messages.len() <= limit);
        let feed = self.feed(false);
        for one in messages {
            let at = NAMES.iter().position(|name| *name == one.timeline).unwrap();
            assert_eq!(one.epoch, self.rooms[at].epoch);
            let key = self.key(at, one.message.sequence);
            assert!(feed.contains(&key), "{key:?} is not in the feed");
            assert!(
                reader.got.last().is_none_or(|last| *last < key),
                "{key:?} after {:?}",
                reader.got.last()
            );
            reader.got.push(key);
        }
        reader.pages += 1;
        assert!(reader.pages < 500, "the pages have no end");
        reader.next = next;
        if reader.next.is_some() {
            self.reader = Some(reader);
            return;
        }
        let got: BTreeSet<Key> = reader.got.into_iter().collect();
        let lost: Vec<&Key> = reader.must.difference(&got).collect();
        assert!(lost.is_empty(), "lost {lost:?}");
    }

    /// The reader comes to the end.
    async fn end(&mut self, limit: usize) {
        while self.reader.is_some() {
            self.page(limit).await;
        }
    }
}

fn in_a_world<F: AsyncFnOnce(&mut World)>(run: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::open(dir.path()).await;
        run(&mut world).await;
        world.close().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_those_of_the_model(commands in prop::collection::vec(command(), 1..90), limit in 1usize..6) {
        in_a_world(async |world| {
            for command in commands {
                world.run(command).await;
            }
            world.end(limit).await;
            // And once more without changes meanwhile.
            world.page(limit).await;
            world.end(limit).await;
        });
    }
}

#[test]
fn a_page_ends_at_its_bytes_and_holds_one_message() {
    in_a_world(async |world| {
        for _ in 0..3 {
            world.run(Command::Post(0, 1, false)).await;
        }
        let mut before = None;
        for last in [false, false, true] {
            let asked = FeedRange {
                asker: USER.into(),
                before,
                limit: 10,
                bytes_max: 1,
            };
            let page = world.people.merged(&world.sources(), asked).await.unwrap();
            assert_eq!(page.messages.len(), 1);
            assert_eq!(page.next.is_none(), last);
            before = page.next;
        }
    });
}

#[test]
fn a_cursor_is_its_users() {
    in_a_world(async |world| {
        for _ in 0..3 {
            world.run(Command::Post(1, 1, false)).await;
        }
        let asked = |user: &str, before| FeedRange {
            asker: user.into(),
            before,
            limit: 1,
            bytes_max: 1 << 20,
        };
        let sources = world.sources();
        let next = world.people.merged(&sources, asked(USER, None)).await;
        let next = next.unwrap().next;
        for (user, before) in [("ben", next), (USER, Some("x".to_owned()))] {
            let refused = world.people.merged(&sources, asked(user, before)).await;
            assert!(matches!(refused, Err(Error::WrongCursor("before"))));
        }
    });
}
