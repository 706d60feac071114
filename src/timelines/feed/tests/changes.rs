//! What readers of all changes are given, against a plain model of timelines.
//!
//! Owns: the model, which knows only what each call does, and how several things that one batch did to one message
//! become one change. Promises: a reader that is never behind gets what the model did; others, with pages of any size,
//! from positions and named cursors, through restarts, flushes and other numbers of partitions, get exactly the same in
//! the same order of each timeline; a planted bug is found. Must not: look into logs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::feed::{Begin, ChangeReader, Changes};
use crate::timeline::{
    AddMembers, Append, AppendOne, Columns, Create, EntryLimits, Limits, Message, NewMember,
    PLANTED_PAGE_BYTES, React, ReadMark, RemoveMembers, SettingsPatch, Target, TimelineChange,
    Timelines, UpdateMember, UpdateMessage, UpdateMeta, What,
};
use tideline_base::clock::Clock;
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_store::partition::{ImageOptions, Options, Partitions, Reshape};
use tideline_table::{Catalog, Followed, PageBounds, Tables};

const NAMES: [&str; 4] = ["a", "ab", "b", "é"];
const USERS: [&str; 3] = ["ann", "ben", "cay"];
const REACTIONS: [&str; 2] = ["+", "👍"];
const START_MS: u64 = 1_700_000_000_000;
/// A page ends by its count only.
const PAGE_BYTES: usize = 1 << 20;
/// The prefix that each reader follows, and whether it has a named cursor.
const READERS: [(&str, bool); 4] = [("", false), ("a", false), ("", true), ("b", true)];

#[derive(Clone, Debug)]
enum Step {
    One(usize, Act),
    /// Without waiting for any: mostly one batch.
    Burst(Vec<(usize, Act)>),
    Create(usize),
    Configure(usize),
    Join(usize, usize),
    Leave(usize, usize),
    Role(usize, usize),
    Read(usize, usize),
    Trim(usize, u64),
    /// Reader, changes in a page, pages.
    Follow(usize, usize, usize),
    Commit(usize),
    Flush,
    Restart,
    /// The next start has so many partitions.
    Reshape(u16),
}

/// What a burst may hold. `u64`: so many messages before the last one.
#[derive(Clone, Debug)]
enum Act {
    Append(usize),
    Edit(u64),
    Bury(u64, bool),
    React(u64, usize, usize),
    Pin(u64),
    Meta,
    Delete,
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let back = || 0..5u64;
    let act = prop_oneof![
        6 => (1..4usize).prop_map(Act::Append),
        3 => back().prop_map(Act::Edit),
        2 => (back(), any::<bool>()).prop_map(|(back, recalls)| Act::Bury(back, recalls)),
        4 => (back(), 0..USERS.len(), 0..REACTIONS.len()).prop_map(|(a, b, c)| Act::React(a, b, c)),
        2 => back().prop_map(Act::Pin),
        2 => Just(Act::Meta),
        1 => Just(Act::Delete),
    ];
    (prop_oneof![4 => Just(0), 1 => 0..NAMES.len()], act)
}

fn step() -> impl Strategy<Value = Step> {
    let (at, user) = (|| 0..NAMES.len(), || 0..USERS.len());
    prop_oneof![
        16 => act().prop_map(|(at, act)| Step::One(at, act)),
        6 => prop::collection::vec(act(), 2..12).prop_map(Step::Burst),
        1 => at().prop_map(Step::Create),
        2 => at().prop_map(Step::Configure),
        3 => (at(), user()).prop_map(|(a, b)| Step::Join(a, b)),
        2 => (at(), user()).prop_map(|(a, b)| Step::Leave(a, b)),
        2 => (at(), user()).prop_map(|(a, b)| Step::Role(a, b)),
        3 => (at(), user()).prop_map(|(a, b)| Step::Read(a, b)),
        1 => (at(), 0..5u64).prop_map(|(a, b)| Step::Trim(a, b)),
        8 => (0..READERS.len(), 1..5usize, 1..6usize).prop_map(|(a, b, c)| Step::Follow(a, b, c)),
        2 => (0..READERS.len()).prop_map(Step::Commit),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
        1 => (1..5u16).prop_map(Step::Reshape),
    ]
}

/// A change as the model knows it. Times, message IDs and the versions that the server counts are left out.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Created(Columns, u64),
    Deleted,
    Appended(Said),
    Changed(Said),
    Reacted {
        sequence: u64,
        change: u64,
        reactions: Vec<(String, u64, Vec<String>)>,
    },
    Updated(Columns, u64),
    /// The limit of `auto`.
    Configured(Option<u64>),
    /// Their role, and how many members there are.
    Member(String, Option<String>, u64),
    Read(String, u64),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    sequence: u64,
    change: u64,
    /// `None` = a tombstone.
    entry: Option<Columns>,
    recalled: bool,
    pinned: bool,
}

impl Told {
    fn of(what: What) -> Told {
        let said = |message: Message| {
            assert_eq!(message.reactions, None);
            let recalled = message.recalled_by.is_some();
            Said {
                sequence: message.sequence,
                change: message.change,
                entry: message.entry,
                recalled,
                pinned: message.pinned,
            }
        };
        match what {
            What::Created { meta, version, .. } => Told::Created(meta, version),
            What::Deleted => Told::Deleted,
            What::Appended(message, head) => {
                assert!(head >= message.sequence);
                Told::Appended(said(message))
            }
            What::Changed(message) => Told::Changed(said(message)),
            What::Reacted {
                sequence,
                change,
                reactions,
            } => {
                let reactions = reactions.into_iter();
                Told::Reacted {
                    sequence,
                    change,
                    reactions: reactions
                        .map(|one| (one.name, one.count, one.users))
                        .collect(),
                }
            }
            What::Updated { meta, version } => Told::Updated(meta, version),
            What::Configured { settings, .. } => Told::Configured(settings.fan_out_members_max),
            What::Member {
                user,
                row,
                standing,
            } => Told::Member(user, row.map(|row| row.role), standing.members),
            What::Read { user, read, .. } => Told::Read(user, read),
        }
    }
}

/// By timeline: the epoch, and the changes that readers got, in order.
type Seen = BTreeMap<String, Vec<(String, Told)>>;

/// What a burst comes to if it was one batch; the same of any pages of it.
fn together(all: Vec<(String, Told)>) -> Vec<(String, Told)> {
    let mut kept: Vec<(String, Told)> = Vec::new();
    for (epoch, told) in all {
        match &told {
            // Nobody hears of what is gone at the batch's end.
            Told::Created(..) | Told::Deleted => kept.clear(),
            Told::Updated(meta, version) => {
                if let Some((_, Told::Created(of, at))) = kept.first_mut() {
                    (*of, *at) = (meta.clone(), *version);
                    continue;
                }
                kept.retain(|(_, told)| !matches!(told, Told::Updated(..)));
            }
            Told::Changed(said) => {
                let of_it = |told: &Told| matches!(told, Told::Reacted { sequence, .. } if *sequence == said.sequence);
                kept.retain(|(_, told)| said.entry.is_some() || !of_it(told));
                let appended = kept.iter_mut().find_map(|(_, told)| match told {
                    Told::Appended(of) if of.sequence == said.sequence => Some(of),
                    _ => None,
                });
                if let Some(appended) = appended {
                    *appended = said.clone();
                    continue;
                }
                kept.retain(
                    |(_, told)| !matches!(told, Told::Changed(of) if of.sequence == said.sequence),
                );
            }
            Told::Reacted { sequence: at, .. } => {
                kept.retain(
                    |(_, told)| !matches!(told, Told::Reacted { sequence, .. } if sequence == at),
                );
            }
            _ => {}
        }
        kept.push((epoch, told));
    }
    kept
}

/// A timeline, plainly.
#[derive(Clone, Debug, Default)]
struct Room {
    head: u64,
    floor: u64,
    change: u64,
    meta_version: u64,
    messages: BTreeMap<u64, Said>,
    reacted: BTreeMap<(u64, usize), Vec<String>>,
    members: BTreeMap<&'static str, (String, u64)>,
}

fn columns(n: i64) -> Columns {
    vec![("n".to_owned(), Value::Integer(n))]
}

fn target(at: usize, user: &str) -> Target {
    Target {
        asker: user.into(),
        ..Target::from(NAMES[at])
    }
}

const LIMITS: EntryLimits = EntryLimits {
    entry_bytes_max: 1_000,
    entry_names_max: 10,
};

/// A call that must succeed; an append gives the epoch.
type Answer = BoxFuture<'static, Option<String>>;

fn done<R>(
    call: impl Future<Output = Result<R, crate::timeline::Error>> + Send + 'static,
) -> Answer {
    async move {
        call.await.unwrap();
        None
    }
    .boxed()
}

#[derive(Default)]
struct Model {
    rooms: BTreeMap<usize, Room>,
    /// How many timelines each name had.
    made: [usize; NAMES.len()],
    /// The epoch of each of them.
    epochs: BTreeMap<(usize, usize), String>,
    /// What the last step did: a name's timelines by number.
    did: Vec<(usize, usize, Told)>,
    count: i64,
}

impl Model {
    fn tell(&mut self, at: usize, told: Told) {
        self.did.push((at, self.made[at], told));
    }

    fn make(&mut self, at: usize) {
        self.made[at] += 1;
        let room = Room {
            floor: 1,
            meta_version: 1,
            ..Room::default()
        };
        self.rooms.insert(at, room);
        self.tell(at, Told::Created(Vec::new(), 1));
    }

    fn message(&mut self, at: usize, back: u64) -> Option<&mut Said> {
        let room = self.rooms.get_mut(&at)?;
        let sequence = room.head.checked_sub(back)?;
        let message = room.messages.get_mut(&sequence);
        message.filter(|message| message.entry.is_some())
    }

    /// A message becomes another one: gives its sequence.
    fn change(&mut self, at: usize, back: u64, change: impl FnOnce(&mut Said)) -> Option<u64> {
        self.message(at, back)?;
        let room = self.rooms.get_mut(&at)?;
        room.change += 1;
        let number = room.change;
        let said = self.message(at, back)?;
        said.change = number;
        change(said);
        let said = said.clone();
        let sequence = said.sequence;
        self.tell(at, Told::Changed(said));
        Some(sequence)
    }

    /// Begins a call, if the model can do it.
    fn begin(&mut self, timelines: &Timelines, at: usize, act: &Act) -> Option<Answer> {
        self.count += 1;
        let n = self.count;
        match *act {
            Act::Append(count) => Some(self.append(timelines, at, count)),
            Act::Edit(back) => {
                let sequence = self.change(at, back, |said| said.entry = Some(columns(n)))?;
                Some(done(timelines.update_message(UpdateMessage {
                    asker: Asker::default(),
                    timeline: NAMES[at].to_owned(),
                    sequence,
                    set: columns(n),
                    remove: Vec::new(),
                    expect_change: None,
                    epoch: None,
                    limits: LIMITS,
                })))
            }
            Act::Bury(back, recalls) => {
                let sequence = self.change(at, back, |said| {
                    (said.entry, said.recalled, said.pinned) = (None, recalls, false);
                })?;
                let reason = Some("typo".to_owned());
                Some(match recalls {
                    true => done(timelines.recall_message(target(at, ""), sequence, reason)),
                    false => done(timelines.delete_message(target(at, ""), sequence)),
                })
            }
            Act::React(back, user, reaction) => self.react(timelines, at, back, (user, reaction)),
            Act::Pin(back) => {
                let pins = !self.message(at, back)?.pinned;
                let sequence = self.change(at, back, |said| said.pinned = pins)?;
                Some(done(timelines.pin(target(at, ""), sequence, pins)))
            }
            Act::Meta => {
                let room = self.rooms.get_mut(&at)?;
                room.meta_version += 1;
                let version = room.meta_version;
                self.tell(at, Told::Updated(columns(n), version));
                Some(done(timelines.update(UpdateMeta {
                    asker: Asker::default(),
                    timeline: NAMES[at].to_owned(),
                    set: columns(n),
                    remove: Vec::new(),
                    expect_version: None,
                    epoch: None,
                    limits: LIMITS,
                })))
            }
            Act::Delete => {
                self.rooms.remove(&at)?;
                self.tell(at, Told::Deleted);
                Some(done(timelines.delete(target(at, ""))))
            }
        }
    }

    fn append(&mut self, timelines: &Timelines, at: usize, count: usize) -> Answer {
        if !self.rooms.contains_key(&at) {
            self.make(at);
        }
        let mut messages = Vec::new();
        for _ in 0..count {
            self.count += 1;
            let entry = columns(self.count);
            let room = self.rooms.get_mut(&at).expect("it is there");
            room.head += 1;
            let said = Said {
                sequence: room.head,
                entry: Some(entry.clone()),
                ..Said::default()
            };
            room.messages.insert(room.head, said.clone());
            self.tell(at, Told::Appended(said));
            messages.push(AppendOne {
                entry,
                ..AppendOne::default()
            });
        }
        let append = timelines.append(Append {
            timeline: NAMES[at].to_owned(),
            asker: Asker::default(),
            messages,
            expect_head: None,
            create: true,
            epoch: None,
        });
        async move { Some(append.await.unwrap().1) }.boxed()
    }

    fn react(
        &mut self,
        timelines: &Timelines,
        at: usize,
        back: u64,
        (user, reaction): (usize, usize),
    ) -> Option<Answer> {
        let sequence = self.message(at, back)?.sequence;
        let room = self.rooms.get_mut(&at)?;
        room.change += 1;
        let users = room.reacted.entry((sequence, reaction)).or_default();
        let name = USERS[user].to_owned();
        let adds = !users.contains(&name);
        match adds {
            true => users.insert(0, name),
            false => users.retain(|other| *other != name),
        }
        let of_this = room.reacted.range((sequence, 0)..(sequence + 1, 0));
        let some = of_this.filter(|(_, users)| !users.is_empty());
        let reactions = some.map(|((_, reaction), users)| {
            let name = REACTIONS[*reaction].to_owned();
            (name, users.len() as u64, users.clone())
        });
        let (change, reactions) = (room.change, reactions.collect());
        self.tell(
            at,
            Told::Reacted {
                sequence,
                change,
                reactions,
            },
        );
        Some(done(timelines.react(React {
            target: target(at, USERS[user]),
            sequence,
            reaction: REACTIONS[reaction].to_owned(),
            adds,
        })))
    }

    /// A step that is not for bursts.
    fn alone(&mut self, timelines: &Timelines, step: &Step) -> Option<Answer> {
        self.count += 1;
        let n = self.count.unsigned_abs();
        match *step {
            Step::Create(at) => {
                if !self.rooms.contains_key(&at) {
                    self.make(at);
                }
                let create = timelines.create(Create::from(target(at, "")));
                Some(async move { Some(create.await.unwrap().0.epoch) }.boxed())
            }
            Step::Configure(at) => {
                self.rooms.get(&at)?;
                self.tell(at, Told::Configured(Some(n)));
                let patch = SettingsPatch {
                    fan_out_members_max: Some(Some(n)),
                    ..SettingsPatch::default()
                };
                Some(done(timelines.configure(target(at, ""), patch, None)))
            }
            Step::Join(at, user) => {
                let room = self.rooms.get_mut(&at)?;
                if room.members.contains_key(USERS[user]) {
                    return None;
                }
                let role = "member".to_owned();
                room.members.insert(USERS[user], (role.clone(), room.head));
                let members = room.members.len() as u64;
                self.tell(
                    at,
                    Told::Member(USERS[user].to_owned(), Some(role), members),
                );
                let new = NewMember {
                    user: USERS[user].to_owned(),
                    role: None,
                    attributes: Vec::new(),
                    visible_from: None,
                    read: None,
                };
                Some(done(timelines.add_members(AddMembers {
                    target: target(at, ""),
                    members: vec![new],
                    history: None,
                    announce: None,
                })))
            }
            Step::Leave(at, user) => {
                let room = self.rooms.get_mut(&at)?;
                room.members.remove(USERS[user])?;
                let members = room.members.len() as u64;
                self.tell(at, Told::Member(USERS[user].to_owned(), None, members));
                Some(done(timelines.remove_members(RemoveMembers {
                    target: target(at, ""),
                    users: vec![USERS[user].to_owned()],
                    announce: None,
                })))
            }
            Step::Role(at, user) => {
                let room = self.rooms.get_mut(&at)?;
                let members = room.members.len() as u64;
                let (role, _) = room.members.get_mut(USERS[user])?;
                *role = format!("role-{n}");
                let role = role.clone();
                let told = Told::Member(USERS[user].to_owned(), Some(role.clone()), members);
                self.tell(at, told);
                Some(done(timelines.update_member(UpdateMember {
                    target: target(at, ""),
                    user: USERS[user].to_owned(),
                    role: Some(role),
                    set: Vec::new(),
                    remove: Vec::new(),
                    expect_version: None,
                })))
            }
            Step::Read(at, user) => {
                let room = self.rooms.get_mut(&at)?;
                let head = room.head;
                let (_, read) = room.members.get_mut(USERS[user])?;
                if *read == head {
                    return None;
                }
                *read = head;
                self.tell(at, Told::Read(USERS[user].to_owned(), head));
                let mark = ReadMark {
                    target: target(at, USERS[user]),
                    read: Some(head),
                    received: None,
                    force: false,
                };
                let set = timelines.set_read(vec![mark]);
                Some(async move { set.await.pop().unwrap().1.map(|_| None).unwrap() }.boxed())
            }
            Step::Trim(at, back) => {
                let room = self.rooms.get_mut(&at)?;
                room.floor = room.floor.max((room.head + 1).saturating_sub(back));
                room.messages = room.messages.split_off(&room.floor);
                Some(done(timelines.trim(target(at, ""), room.floor)))
            }
            _ => None,
        }
    }
}

/// A reader: where it is, what it has seen; of a named cursor also how much of it when it was committed.
#[derive(Default)]
struct Reader {
    open: Option<ChangeReader>,
    position: Option<String>,
    seen: Seen,
    committed: BTreeMap<String, usize>,
}

struct World {
    partitions: Partitions,
    timelines: Timelines,
    tables: Tables,
    kept: Kept,
}

/// What stays through a restart.
#[derive(Default)]
struct Kept {
    model: Model,
    /// Never behind.
    first: Reader,
    readers: [Reader; READERS.len()],
    page_bytes: usize,
}

impl World {
    /// So many partitions, or as many as there are (0).
    fn open(dir: &Path, partitions: u16, kept: Kept) -> World {
        let image = ImageOptions {
            map_bytes: 4 << 30,
            ..ImageOptions::default()
        };
        let options = Options {
            partitions,
            image,
            ..Options::default()
        };
        let (clock, catalog) = (Arc::new(Clock::fixed(START_MS)), Catalog::default());
        let limits = Limits::default();
        let rules = Timelines::rules_with(&limits, catalog.clone());
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        let tables = Tables::open(partitions.clone(), catalog, timelines.tables(), clock).unwrap();
        World {
            partitions,
            timelines,
            tables,
            kept,
        }
    }

    async fn close(self) -> Kept {
        let mut kept = self.kept;
        for reader in kept.readers.iter_mut().chain([&mut kept.first]) {
            reader.open = None;
        }
        self.partitions.close().await;
        kept
    }

    async fn reader(&self, reader: &mut Reader, (prefix, cursor): (&str, Option<&str>)) {
        if reader.open.is_some() {
            return;
        }
        let begin = match (&reader.position, cursor) {
            (Some(position), None) => Begin::At(self.tables.read_position(position).unwrap()),
            _ => Begin::Start,
        };
        if cursor.is_some() {
            // What was seen behind the cursor comes again.
            for (name, seen) in &mut reader.seen {
                seen.truncate(reader.committed.get(name).copied().unwrap_or_default());
            }
        }
        let of = (&self.tables, &self.timelines);
        let followed = Followed::Timelines(prefix.to_owned());
        let opened = ChangeReader::open(of, followed, &begin, cursor).await;
        reader.open = Some(opened.unwrap());
    }

    /// Reads so many pages of so many changes, or up to the end.
    async fn follow(&self, reader: &mut Reader, count: usize, pages: usize) {
        let open = reader.open.as_mut().expect("it is open");
        for _ in 0..pages {
            let bounds = PageBounds {
                count,
                bytes: self.kept.page_bytes,
                cell_bytes: 0,
            };
            let group = open.read(bounds).await.unwrap();
            let Changes::Timelines(changes) = group.changes else {
                panic!("rows of no table")
            };
            assert!(changes.len() <= count);
            let is_end = changes.is_empty() && !group.is_more;
            for TimelineChange {
                timeline,
                epoch,
                what,
            } in changes
            {
                let seen = reader.seen.entry(timeline).or_default();
                seen.push((epoch, Told::of(what)));
            }
            reader.position = Some(group.position);
            if is_end {
                return;
            }
        }
    }

    /// The first reader reads on, and gets what the last step did.
    async fn check(&mut self, is_burst: bool) {
        let mut first = std::mem::take(&mut self.kept.first);
        self.reader(&mut first, ("", None)).await;
        let before: BTreeMap<_, _> = first
            .seen
            .iter()
            .map(|(name, all)| (name.clone(), all.len()))
            .collect();
        let bytes = std::mem::replace(&mut self.kept.page_bytes, PAGE_BYTES);
        self.follow(&mut first, 1_000, usize::MAX).await;
        self.kept.page_bytes = bytes;
        let mut did: Seen = BTreeMap::new();
        for (at, number, told) in std::mem::take(&mut self.kept.model.did) {
            let epoch = self.kept.model.epochs.get(&(at, number)).cloned();
            let all = did.entry(NAMES[at].to_owned()).or_default();
            // Of a timeline that was gone at once no reader got the epoch.
            all.push((epoch.unwrap_or_default(), told));
        }
        for (name, all) in &first.seen {
            let new = all[before.get(name).copied().unwrap_or_default()..].to_vec();
            let expected = did.remove(name).unwrap_or_default();
            let (new, expected) = match is_burst {
                true => (together(new), together(expected)),
                false => (new, expected),
            };
            assert_eq!(new, expected, "{name}");
        }
        assert_eq!(did, Seen::new(), "not told");
        self.kept.first = first;
    }

    async fn run(&mut self, step: &Step) {
        let mut begun = Vec::new();
        let model = &mut self.kept.model;
        match step {
            Step::One(at, act) => begun.push((*at, model.begin(&self.timelines, *at, act))),
            Step::Burst(acts) => {
                for (at, act) in acts {
                    let answer = model.begin(&self.timelines, *at, act);
                    begun.push((*at, answer));
                }
            }
            Step::Follow(at, count, pages) => return self.read(*at, *count, *pages).await,
            Step::Commit(at) => return self.commit(*at).await,
            Step::Flush => return self.flush().await,
            step => {
                let (Step::Create(at)
                | Step::Configure(at)
                | Step::Join(at, _)
                | Step::Leave(at, _)
                | Step::Role(at, _)
                | Step::Read(at, _)
                | Step::Trim(at, _)) = step
                else {
                    unreachable!("it is done by its caller")
                };
                begun.push((*at, model.alone(&self.timelines, step)));
            }
        }
        // The epochs of a name come in the order of its timelines.
        for (at, answer) in begun {
            let Some(answer) = answer else { continue };
            if let Some(epoch) = answer.await {
                let epochs = &mut self.kept.model.epochs;
                let of_name = || epochs.range((at, 0)..(at + 1, 0));
                if !of_name().any(|(_, known)| *known == epoch) {
                    let number = of_name().count() + 1;
                    epochs.insert((at, number), epoch);
                }
            }
        }
        self.check(matches!(step, Step::Burst(_))).await;
    }

    async fn read(&mut self, at: usize, count: usize, pages: usize) {
        let mut reader = std::mem::take(&mut self.kept.readers[at]);
        let (prefix, is_named) = READERS[at];
        let name = is_named.then(|| format!("cursor-{at}"));
        self.reader(&mut reader, (prefix, name.as_deref())).await;
        self.follow(&mut reader, count, pages).await;
        self.kept.readers[at] = reader;
    }

    async fn commit(&mut self, at: usize) {
        let reader = &mut self.kept.readers[at];
        if let (true, Some(position)) = (READERS[at].1, &reader.position) {
            let places = self.tables.read_position(position).unwrap();
            let name = format!("cursor-{at}");
            let committed = self.tables.commit_cursor(&name, places, false);
            committed.await.unwrap();
            let counts = reader
                .seen
                .iter()
                .map(|(name, seen)| (name.clone(), seen.len()));
            reader.committed = counts.collect();
        }
    }

    async fn flush(&self) {
        for id in self.partitions.ids() {
            let partitions = self.partitions.clone();
            let flushed = tokio::task::spawn_blocking(move || partitions.rotate(id));
            flushed.await.unwrap();
        }
    }

    async fn reshape(&self, count: u16) {
        let partitions = self.partitions.clone();
        let reshape = move || partitions.reshape(&Reshape::equal(count), true);
        let reshaped = tokio::task::spawn_blocking(reshape).await.unwrap();
        reshaped.unwrap();
    }

    /// All readers come to the end, and have the same.
    async fn end(mut self) {
        for (at, (prefix, _)) in READERS.iter().enumerate() {
            self.read(at, 3, usize::MAX).await;
            let mut expected = self.kept.first.seen.clone();
            expected.retain(|name, _| name.starts_with(prefix));
            assert_eq!(self.kept.readers[at].seen, expected, "reader {at}");
        }
        self.close().await;
    }
}

fn play(steps: &[Step], partitions: u16, page_bytes: usize) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let kept = Kept {
            page_bytes,
            ..Kept::default()
        };
        let mut world = World::open(dir.path(), partitions, kept);
        for step in steps {
            match step {
                Step::Restart => {}
                Step::Reshape(count) => world.reshape(*count).await,
                step => {
                    world.run(step).await;
                    continue;
                }
            }
            let kept = world.close().await;
            world = World::open(dir.path(), 0, kept);
            // What other partitions took over is no change.
            world.check(false).await;
        }
        world.end().await;
    });
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_of_changes_are_told_what_was_done(steps in steps(), partitions in 1u16..4) {
        play(&steps, partitions, PAGE_BYTES);
    }
}

/// The control: with pages of this size a page that ends within a batch loses a change.
#[test]
fn control_a_change_that_is_lost_between_two_pages_is_found() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&steps(), |steps| {
        play(&steps, 2, PLANTED_PAGE_BYTES);
        Ok(())
    });
    assert!(found.is_err());
}
