//! Random lives of rooms and their members, on the store and on a plain model: what is unread is the same at every
//! step.
//!
//! Owns: the model, which counts by looking at every message. Promises: joins, leaves, posts, edits, deletions, hides,
//! clears, read positions set forward and back, trims, deleted rooms, flushes and restarts come in any order; after
//! each step every count is compared, and at the end all rows. Must not: be in a build that is not a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::own_marks::put_marks;
use super::{Hidden, ReadMark, ReadState, Unread};
use crate::timeline::members::MemberRow;
use crate::timeline::write::{Site, put_head};
use crate::timeline::{
    Append, AppendOne, Appended, EntryLimits, Error, Limits, Message, Range, StoredTimelines,
    Target, Timelines, UpdateMessage,
};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_store::partition::{ImageOptions, Options, Partitions};
use tideline_table::{Purpose, Txn};

const AT: PartitionId = PartitionId(0);
const ROOMS: [&str; 2] = ["hall", "room"];
/// The first is nobody: a back end, which posts too.
const USERS: [&str; 4] = ["", "ann", "ben", "*"];
/// What may be mentioned: users, one that never comes, everybody.
const NAMES: [&str; 4] = ["ann", "ben", "zoe", "*"];

/// Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    /// Sender, how many, bits of names.
    Post(usize, u8, u8),
    Delete(u64),
    /// A message and bits of names.
    Edit(u64, u8),
    /// User, first visible from the head down, read from the head down.
    Join(usize, u64, u64),
    /// The same while others post so often and delete this one: their calls come between the slices of counting.
    JoinAmid(usize, u8, u64),
    /// A slice of counting for a member that never comes: the server stopped.
    Count,
    Leave(usize),
    Hide(usize, Vec<u64>),
    Clear(usize, Option<u64>),
    Read(usize, Option<u64>, Option<u64>, bool),
    Trim(u64),
    Drop,
    Flush,
    Restart,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    use proptest::option::of;
    let room = prop_oneof![5 => Just(0usize), 1 => Just(1)];
    let user = || 1..USERS.len();
    let number = || any::<u16>().prop_map(u64::from);
    let bits = || prop_oneof![3 => Just(0u8), 1 => 0u8..16];
    let step = prop_oneof![
        8 => (0..USERS.len(), prop_oneof![4 => 1u8..4, 1 => 1u8..90], bits())
            .prop_map(|(sender, count, names)| Step::Post(sender, count, names)),
        6 => number().prop_map(Step::Delete),
        2 => (number(), 0u8..16).prop_map(|(at, names)| Step::Edit(at, names)),
        5 => (user(), prop_oneof![Just(u64::MAX), 0u64..9], number())
            .prop_map(|(user, visible, read)| Step::Join(user, visible, read)),
        3 => (user(), 1u8..6, number())
            .prop_map(|(user, posts, deleted)| Step::JoinAmid(user, posts, deleted)),
        2 => Just(Step::Count),
        4 => user().prop_map(Step::Leave),
        4 => (user(), proptest::collection::vec(number(), 1..6))
            .prop_map(|(user, at)| Step::Hide(user, at)),
        1 => (user(), of(number())).prop_map(|(user, before)| Step::Clear(user, before)),
        4 => (user(), of(number()), of(number()), any::<bool>())
            .prop_map(|(user, read, received, force)| Step::Read(user, read, received, force)),
        2 => number().prop_map(Step::Trim),
        1 => Just(Step::Drop),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ];
    (room, step)
}

#[derive(Clone, Debug, Default)]
struct Post {
    sender: &'static str,
    gone: bool,
    names: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
struct Member {
    visible_from: u64,
    read: u64,
    received: u64,
    cleared: u64,
    hidden: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Room {
    posts: BTreeMap<u64, Post>,
    floor: u64,
    members: BTreeMap<&'static str, Member>,
}

impl Room {
    fn last(&self) -> u64 {
        self.posts.keys().next_back().copied().unwrap_or(0)
    }

    fn append(&mut self, sender: &'static str, count: u8, names: &[&'static str]) {
        let last = self.last();
        for sequence in last + 1..=last + u64::from(count) {
            let post = Post {
                sender,
                gone: false,
                names: names.to_vec(),
            };
            self.posts.insert(sequence, post);
        }
    }

    fn own_floor(&self, member: &Member) -> u64 {
        self.floor.max(member.visible_from).max(member.cleared + 1)
    }

    /// The one thing that all this is about.
    fn unread(&self, user: &str) -> Unread {
        let member = &self.members[user];
        let counts = |(sequence, post): &(&u64, &Post)| {
            **sequence > member.read
                && **sequence >= self.own_floor(member)
                && post.sender != user
                && !post.gone
                && !member.hidden.contains(sequence)
        };
        let posts = || self.posts.iter().filter(counts).map(|(_, post)| post);
        let mentions = |post: &&Post| post.names.iter().any(|name| *name == user || *name == "*");
        Unread {
            unread: posts().count() as u64,
            mentions: posts().filter(mentions).count().min(100) as u64,
        }
    }
}

struct Bed {
    runtime: tokio::runtime::Runtime,
    partitions: Partitions,
    timelines: Timelines,
    rooms: BTreeMap<&'static str, Room>,
    /// A control: deletions miss the sender's tree.
    misses_one_tree: bool,
}

fn open(dir: &Path) -> (Partitions, Timelines) {
    let limits = Limits::default();
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
    let clock = Arc::new(Clock::fixed(1_000_000));
    let rules = Timelines::rules(&limits);
    let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
    let timelines = Timelines::new(partitions.clone(), limits, clock);
    (partitions, timelines)
}

fn named(bits: u8) -> Vec<&'static str> {
    let is_set = |(at, _): &(usize, &&str)| bits & 1 << at != 0;
    NAMES
        .iter()
        .enumerate()
        .filter(is_set)
        .map(|(_, name)| *name)
        .collect()
}

fn entry(names: &[&str]) -> Vec<(String, Value)> {
    let text = serde_json::to_string(names).unwrap();
    vec![
        ("mentions".to_owned(), Value::Json(text)),
        ("text".to_owned(), Value::String("x".repeat(40))),
    ]
}

fn target(room: &str, user: &str) -> Target {
    Target {
        timeline: room.to_owned(),
        epoch: None,
        asker: user.into(),
    }
}

impl Bed {
    fn new(dir: &Path) -> Bed {
        let (partitions, timelines) = open(dir);
        Bed {
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            partitions,
            timelines,
            rooms: BTreeMap::new(),
            misses_one_tree: false,
        }
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, Error>>) -> T {
        self.runtime.block_on(call).unwrap()
    }

    fn restarted(self, dir: &Path) -> Bed {
        let Bed {
            runtime,
            partitions,
            timelines,
            rooms,
            misses_one_tree,
        } = self;
        drop(timelines);
        runtime.block_on(partitions.close());
        drop(partitions);
        let (partitions, timelines) = open(dir);
        Bed {
            runtime,
            partitions,
            timelines,
            rooms,
            misses_one_tree,
        }
    }

    fn step(&mut self, room: &'static str, step: &Step) {
        match step {
            Step::Post(sender, count, names) => self.post(room, USERS[*sender], *count, *names),
            Step::Flush => self.partitions.settle(AT),
            step => {
                let Some(mut model) = self.rooms.remove(room) else {
                    return;
                };
                if self.change(room, &mut model, step) {
                    self.rooms.insert(room, model);
                }
            }
        }
    }

    fn post(&mut self, room: &'static str, sender: &'static str, count: u8, bits: u8) {
        let names = named(bits);
        self.wait(self.append(room, sender, count, &names));
        let model = self.rooms.entry(room).or_insert_with(|| Room {
            floor: 1,
            ..Room::default()
        });
        model.append(sender, count, &names);
    }

    fn append(
        &self,
        room: &str,
        sender: &str,
        count: u8,
        names: &[&str],
    ) -> impl Future<Output = Result<(Vec<Appended>, String), Error>> + use<> {
        let one = |_| AppendOne {
            entry: entry(names),
            ..AppendOne::default()
        };
        self.timelines.append(Append {
            timeline: room.to_owned(),
            asker: sender.into(),
            messages: (0..count).map(one).collect(),
            expect_head: None,
            create: true,
            epoch: None,
        })
    }

    /// Changes a room that stands; `false` if it is gone then.
    fn change(&self, room: &'static str, model: &mut Room, step: &Step) -> bool {
        let last = model.last();
        match *step {
            Step::Delete(at) => self.delete(room, model, 1 + at % last),
            Step::Edit(at, bits) => self.edit(room, model, 1 + at % last, bits),
            Step::Join(user, visible, read) => {
                let visible_from = (last + 1).saturating_sub(visible);
                let read = last.saturating_sub(read % (last + 1));
                let member = Member {
                    visible_from,
                    read,
                    received: read,
                    ..Member::default()
                };
                self.wait(self.join(room, USERS[user], &member));
                model.members.entry(USERS[user]).or_insert(member);
            }
            Step::JoinAmid(user, posts, deleted) => {
                self.join_amid(room, model, (USERS[user], posts, 1 + deleted % last));
            }
            Step::Count => self.count(room),
            Step::Leave(user) => {
                self.leave(room, USERS[user]);
                model.members.remove(USERS[user]);
            }
            Step::Hide(user, ref at) => self.hide(room, model, USERS[user], at),
            Step::Clear(user, before) => {
                let before = before.map(|before| before % (last + 3));
                let call = self.timelines.clear(target(room, USERS[user]), before);
                let answer = self.runtime.block_on(call);
                let Some(member) = model.members.get_mut(USERS[user]) else {
                    assert!(matches!(answer, Err(Error::NotAMember)));
                    return true;
                };
                let cleared = before.map_or(last, |before| before.saturating_sub(1).min(last));
                member.cleared = member.cleared.max(cleared);
                let cleared = member.cleared;
                let answer = answer.unwrap();
                assert_eq!(
                    (answer.cleared, answer.unread),
                    (cleared, model.unread(USERS[user]))
                );
            }
            Step::Read(user, read, received, force) => {
                let bound = |to: Option<u64>| to.map(|to| to % (last + 3));
                let (read, received) = (bound(read), bound(received));
                self.read(room, model, USERS[user], (read, received, force));
            }
            Step::Trim(before) => {
                let before = before % (last + 3);
                self.wait(self.timelines.trim(target(room, ""), before));
                model.floor = before.min(last + 1).max(model.floor);
            }
            Step::Drop => {
                self.wait(self.timelines.delete(target(room, "")));
                return false;
            }
            Step::Post(..) | Step::Flush | Step::Restart => {}
        }
        true
    }

    fn delete(&self, room: &str, model: &mut Room, sequence: u64) {
        let call = self.timelines.delete_message(target(room, ""), sequence);
        let answer = self.runtime.block_on(call);
        if sequence < model.floor {
            assert!(matches!(answer, Err(Error::MessageNotFound)));
            return;
        }
        let post = model.posts.get_mut(&sequence).unwrap();
        assert_eq!(answer.unwrap(), !post.gone);
        post.gone = true;
        let sender = post.sender;
        if self.misses_one_tree && !sender.is_empty() {
            let name = Name::new(room);
            self.wait(self.timelines.submit(Purpose::Adds, AT, 99, move |txn, _| {
                let head = HeadRow::existing(txn, &name)?.ok_or(Error::TimelineNotFound)?;
                for level in 0..super::gone::LEVELS {
                    let (block, _) = super::gone::place(sequence, level);
                    txn.delete(
                        name.gone_key(head.incarnation, sender, level, block)
                            .as_bytes(),
                    );
                }
                Ok(())
            }));
        }
    }

    fn edit(&self, room: &str, model: &mut Room, sequence: u64, bits: u8) {
        let update = UpdateMessage {
            asker: Asker::default(),
            timeline: room.to_owned(),
            sequence,
            set: entry(&named(bits)),
            remove: Vec::new(),
            expect_change: None,
            epoch: None,
            limits: EntryLimits {
                entry_bytes_max: 4_096,
                entry_names_max: 8,
            },
        };
        let answer = self.runtime.block_on(self.timelines.update_message(update));
        let post = model.posts.get_mut(&sequence).unwrap();
        match answer {
            Ok(_) => post.names = named(bits),
            Err(Error::Deleted) => assert!(post.gone),
            Err(Error::MessageNotFound) => assert!(sequence < model.floor),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn join(
        &self,
        room: &str,
        user: &'static str,
        member: &Member,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let call = (Name::new(room), member.clone());
        let add = move |(name, member): &mut (Name, Member), txn: &mut Txn<'_>, site: &Site| {
            let found = HeadRow::existing(txn, name)?;
            let mut head = found.ok_or(Error::TimelineNotFound)?;
            if MemberRow::load(txn, name, &head, user)?.is_some() {
                return Ok(Some(()));
            }
            if !site.count_for_members(txn, name, &mut head)? {
                return Ok(None);
            }
            head.member_version += 1;
            head.set_members(head.members + 1);
            let row = MemberRow {
                joined: head.member_version,
                joined_at: 1,
                role: "member".to_owned(),
                attributes: Vec::new(),
                visible_from: member.visible_from,
                read: member.read,
                received: member.received,
                cleared: 0,
                hides: 0,
                version: head.member_version,
            };
            put_marks(txn, name, &head, user, &row);
            put_head(txn, name, &head);
            Ok(Some(()))
        };
        self.timelines.submit_with_members(AT, 99, call, add)
    }

    fn join_amid(
        &self,
        room: &'static str,
        model: &mut Room,
        (user, posts, deleted): (&'static str, u8, u64),
    ) {
        let member = Member::default();
        let join = self.join(room, user, &member);
        model.members.entry(user).or_insert(member);
        let names = vec!["*"];
        let appends = (0..posts).map(|_| self.append(room, "ben", 1, &names));
        let appends: Vec<_> = appends.collect();
        let delete = self.timelines.delete_message(target(room, ""), deleted);
        self.runtime.block_on(async {
            let (joined, appended, deleted) =
                tokio::join!(join, futures_util::future::join_all(appends), delete);
            joined.unwrap();
            appended
                .into_iter()
                .for_each(|answer| drop(answer.unwrap()));
            assert!(deleted.is_ok() || matches!(deleted, Err(Error::MessageNotFound)));
        });
        model.append("ben", posts, &names);
        if deleted >= model.floor {
            model.posts.get_mut(&deleted).unwrap().gone = true;
        }
    }

    fn count(&self, room: &str) {
        let name = Name::new(room);
        self.wait(
            self.timelines
                .submit(Purpose::Adds, AT, 99, move |txn, site| {
                    let found = HeadRow::existing(txn, &name)?;
                    let mut head = found.ok_or(Error::TimelineNotFound)?;
                    Ok(site.count_for_members(txn, &name, &mut head)?)
                }),
        );
    }

    fn leave(&self, room: &str, user: &'static str) {
        let name = Name::new(room);
        self.wait(self.timelines.submit(Purpose::Adds, AT, 99, move |txn, _| {
            let mut head = HeadRow::existing(txn, &name)?.ok_or(Error::TimelineNotFound)?;
            if MemberRow::load(txn, &name, &head, user)?.is_some() {
                head.member_version += 1;
                head.set_members(head.members - 1);
                txn.delete(name.member_key(head.incarnation, user).as_bytes());
                put_head(txn, &name, &head);
            }
            Ok(())
        }));
    }

    fn hide(&self, room: &str, model: &mut Room, user: &str, at: &[u64]) {
        let last = model.last();
        let at: Vec<u64> = at.iter().map(|at| 1 + at % (last + 2)).collect();
        let answer = self
            .runtime
            .block_on(self.timelines.hide(target(room, user), at.clone()));
        let Some(member) = model.members.get(user) else {
            assert!(matches!(answer, Err(Error::NotAMember)));
            return;
        };
        let floor = model.own_floor(member);
        let member = model.members.get_mut(user).unwrap();
        let before = member.hidden.len();
        for sequence in at {
            if (floor..=last).contains(&sequence) && !member.hidden.contains(&sequence) {
                member.hidden.push(sequence);
            }
        }
        assert_eq!(answer.unwrap(), (member.hidden.len() - before) as u64);
    }

    fn read(
        &self,
        room: &str,
        model: &mut Room,
        user: &str,
        (read, received, force): (Option<u64>, Option<u64>, bool),
    ) {
        let mark = ReadMark {
            target: target(room, user),
            read,
            received,
            force,
        };
        let mut answers = self.runtime.block_on(self.timelines.set_read(vec![mark]));
        let (_, answer) = answers.pop().unwrap();
        let last = model.last();
        let Some(member) = model.members.get_mut(user) else {
            assert!(matches!(answer, Err(Error::NotAMember)));
            return;
        };
        if let Some(read) = read {
            let read = read.min(last);
            member.read = if force { read } else { read.max(member.read) };
        }
        if let Some(received) = received {
            let received = received.min(last);
            member.received = if force {
                received
            } else {
                received.max(member.received)
            };
        }
        member.received = member.received.max(member.read);
        let (read, received) = (member.read, member.received);
        let unread = model.unread(user);
        assert_eq!(
            answer.unwrap(),
            ReadState {
                read,
                received,
                unread
            }
        );
    }

    /// Compares all that members see of their own side. Gives the first difference.
    fn compare(&self) -> Result<(), String> {
        let view = self.partitions.view(AT).unwrap();
        let site = self.timelines.site(AT);
        for room in ROOMS {
            for user in &USERS[1..] {
                let found = site.read_state(&view, &target(room, user));
                let model = self.rooms.get(room);
                let Some((model, member)) =
                    model.and_then(|model| Some((model, model.members.get(user)?)))
                else {
                    let none = matches!(found, Err(Error::TimelineNotFound | Error::NotAMember));
                    assert!(none, "{found:?}");
                    continue;
                };
                let (found, expected) = (found.unwrap().unread, model.unread(user));
                if found != expected {
                    return Err(format!("{user} in {room}: {found:?}, not {expected:?}"));
                }
                self.compare_hidden(room, user, model, member);
            }
        }
        Ok(())
    }

    fn compare_hidden(&self, room: &str, user: &str, model: &Room, member: &Member) {
        let floor = model.own_floor(member);
        let visible = |sequence: &u64| *sequence >= floor;
        let expected: Vec<u64> = member.hidden.iter().copied().filter(visible).collect();
        let (mut sequences, mut after) = (Vec::new(), 0);
        loop {
            let Hidden {
                sequences: page,
                next,
            } = self.wait(self.timelines.hidden(target(room, user), after, 3));
            sequences.extend(page);
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(sequences, expected);
        let page = self.wait(self.timelines.range(Range {
            asker: user.into(),
            timeline: room.to_owned(),
            from: None,
            to: None,
            limit: 10_000,
            bytes_max: 1 << 30,
            backward: false,
            columns: None,
            epoch: None,
        }));
        let hidden = |message: &&Message| message.hidden;
        let hidden: BTreeSet<u64> = page
            .messages
            .iter()
            .filter(hidden)
            .map(|message| message.sequence)
            .collect();
        assert_eq!(hidden, expected.into_iter().collect());
        let leaks = |message: &Message| message.hidden && message.entry.is_some();
        assert!(!page.messages.iter().any(leaks));
    }

    fn verify(&self) {
        let view = self.partitions.view(AT).unwrap();
        let mut problems = Vec::new();
        StoredTimelines::new(&view, self.partitions.origin())
            .verify(&mut |problem| problems.push(problem))
            .unwrap();
        assert_eq!(problems, Vec::<String>::new());
    }
}

fn live(steps: &[(usize, Step)], misses_one_tree: bool) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(dir.path());
    bed.misses_one_tree = misses_one_tree;
    let mut differs = Ok(());
    for (at, (room, step)) in steps.iter().enumerate() {
        match step {
            Step::Restart => bed = bed.restarted(dir.path()),
            step => bed.step(ROOMS[*room], step),
        }
        differs = bed
            .compare()
            .map_err(|what| format!("step {at}, {step:?}: {what}"));
        if differs.is_err() {
            break;
        }
    }
    if !misses_one_tree {
        bed.verify();
    }
    bed.runtime.block_on(bed.partitions.close());
    differs
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    proptest::collection::vec(step(), 1..80)
}

fn cases(default: u32) -> Config {
    let cases = std::env::var("UNREAD_MODEL_CASES").ok();
    Config {
        cases: cases
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(default),
        failure_persistence: None,
        ..Config::default()
    }
}

#[test]
fn what_is_unread_is_what_one_would_count() {
    let mut runner = TestRunner::new(cases(24));
    let holds = |steps: Vec<_>| live(&steps, false).map_err(TestCaseError::fail);
    runner.run(&steps(), holds).unwrap();
}

/// A control: the test above must be able to fail.
#[test]
fn a_deletion_that_misses_one_tree_is_noticed() {
    let mut runner = TestRunner::new(Config {
        max_shrink_iters: 0,
        ..cases(64)
    });
    let holds = |steps: Vec<_>| live(&steps, true).map_err(TestCaseError::fail);
    let found = runner.run(&steps(), holds).unwrap_err().to_string();
    // Another number, or one below zero, which is damage.
    let noticed = ["Unread", "Unavailable"];
    assert!(noticed.iter().any(|what| found.contains(what)), "{found}");
}

/// What the check says of a sound room after a row of it was bent.
fn bent(bend: impl Fn(&mut Txn<'_>, &Name, HeadRow) + Send + 'static) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(dir.path());
    bed.post("hall", "ann", 2, 0);
    bed.post("hall", "", 1, 0b10);
    bed.post("hall", "ben", 2, 0);
    let member = Member::default();
    bed.wait(bed.join("hall", "ann", &member));
    bed.wait(bed.join("hall", "ben", &member));
    let hide = bed.timelines.hide(target("hall", "ben"), vec![1]);
    assert_eq!(bed.wait(hide), 1);
    assert!(bed.wait(bed.timelines.delete_message(target("hall", ""), 2)));
    bed.wait(bed.timelines.submit(Purpose::Adds, AT, 99, move |txn, _| {
        let name = Name::new("hall");
        let head = HeadRow::existing(txn, &name)?.ok_or(Error::TimelineNotFound)?;
        bend(txn, &name, head);
        Ok(())
    }));
    let view = bed.partitions.view(AT).unwrap();
    let mut problems = Vec::new();
    StoredTimelines::new(&view, bed.partitions.origin())
        .verify(&mut |problem| problems.push(problem.replace("timeline \"hall\": ", "")))
        .unwrap();
    drop(view);
    bed.runtime.block_on(bed.partitions.close());
    problems
}

#[test]
fn a_row_that_says_something_else_than_the_messages_is_found() {
    assert_eq!(bent(|_, _, _| ()), Vec::<String>::new());
    let without_sender = bent(|txn, name, head| {
        txn.delete(
            name.sender_rows(head.incarnation, "ann")
                .number(1)
                .as_bytes(),
        );
    });
    let expected = [
        "message 1 has no row of its sender",
        "3 rows of senders instead of 4",
    ];
    assert_eq!(without_sender, expected);
    let other_ordinal = bent(|txn, name, head| {
        let rows = name.sender_rows(head.incarnation, "ben");
        let first = txn.get(rows.clone().number(4).as_bytes()).unwrap().unwrap();
        txn.put(rows.number(5).as_bytes(), first);
    });
    assert_eq!(
        other_ordinal,
        ["message 5 has another ordinal than the next"]
    );
    let more_mentions = bent(|txn, name, head| {
        let key = name.mention_rows(head.incarnation, "zoe").number(4);
        txn.put(key.as_bytes(), tideline_table::RowWriter::new(0).finish(1));
    });
    assert_eq!(more_mentions, ["2 rows of mentions instead of 1"]);
    let one_tree = bent(|txn, name, head| {
        txn.delete(name.gone_key(head.incarnation, "ann", 0, 0).as_bytes());
    });
    assert_eq!(
        one_tree,
        ["tombstones of \"ann\": block 0 of level 0 is missing"]
    );
    let other_tree = bent(|txn, name, head| {
        let node = txn.get(name.gone_key(head.incarnation, "ann", 1, 0).as_bytes());
        let key = name.gone_key(head.incarnation, "ben", 1, 0);
        txn.put(key.as_bytes(), node.unwrap().unwrap());
    });
    assert_eq!(
        other_tree,
        ["tombstones of \"ben\": block 0 of level 1 is wrong"]
    );
    let without_number = bent(|txn, name, head| {
        let numbers = name.hide_numbers(head.incarnation, ("ben", 2));
        txn.delete(numbers.number(1).as_bytes());
    });
    assert_eq!(
        without_number,
        ["what member \"ben\" hid at 1 has no number"]
    );
    let without_member = bent(|txn, name, head| {
        txn.delete(name.member_key(head.incarnation, "ann").as_bytes());
    });
    assert_eq!(without_member[0], "1 members instead of 2");
}
