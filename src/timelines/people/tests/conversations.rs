//! Conversations: lists and syncs against a plain model of members and messages.
//!
//! Owns: the model and the clients that keep a copy by what syncs tell them. Promises: after each round the list, the
//! count and every client's copy equal the model, with joins, leaves, rejoins, timelines deleted and made again,
//! restarts and flushes. Must not: know how rows are encoded.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::bed::Bed;
use crate::people::{Filter, ListConversations, Shown, SyncConversations, SyncedConversations};
use crate::timeline::{
    AddMembers, Append, AppendOne, Columns, Error, Limits, NewMember, RemoveMembers, Target,
};
use tideline_base::ids::{PartitionId, Position};
use tideline_model::Value;
use tideline_store::partition::{Purpose, Txn};

use super::verify::verified;

const USERS: [&str; 3] = ["ada", "ben", "cay"];
const NAMES: [&str; 5] = ["a", "ab", "b", "direct/ada/ben", "é"];
const START_MS: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Command {
    Post(usize, usize),
    Join(usize, Vec<usize>),
    Leave(usize, usize),
    Delete(usize),
    Own(usize, usize, &'static str, Option<bool>),
    Hide(usize, usize),
    /// A client looks, with pages of so many.
    Sync(usize, usize),
    Flush,
    Restart,
    /// The next start has so many partitions.
    Reshape(u16),
    /// From now on there are so many.
    Served(u16),
}

fn command() -> impl Strategy<Value = Command> {
    let (timeline, user) = (0..NAMES.len(), 0..USERS.len());
    let one = (timeline.clone(), user.clone());
    prop_oneof![
        6 => one.clone().prop_map(|(at, by)| Command::Post(at, by)),
        4 => (timeline.clone(), prop::collection::vec(user.clone(), 1..3))
            .prop_map(|(at, who)| Command::Join(at, who)),
        3 => one.clone().prop_map(|(at, who)| Command::Leave(at, who)),
        1 => timeline.prop_map(Command::Delete),
        3 => (one.clone(), prop_oneof![Just("pinned"), Just("muted"), Just("x")], any::<Option<bool>>())
            .prop_map(|((at, who), name, value)| Command::Own(at, who, name, value)),
        1 => one.prop_map(|(at, who)| Command::Hide(at, who)),
        4 => (user, 1usize..4).prop_map(|(who, limit)| Command::Sync(who, limit)),
        1 => Just(Command::Flush),
        1 => Just(Command::Restart),
        1 => (1..5u16).prop_map(Command::Reshape),
        1 => (1..5u16).prop_map(Command::Served),
    ]
}

/// What a user sees of a conversation, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    head: u64,
    unread: u64,
    members: usize,
    hidden: bool,
    attributes: BTreeMap<String, bool>,
    last_at: u64,
}

impl From<Shown> for Seen {
    fn from(shown: Shown) -> Seen {
        let last_at = shown.last_at();
        let attribute = |(name, value): (String, Value)| (name, value == Value::Boolean(true));
        Seen {
            head: shown.conversation.info.head,
            unread: shown.conversation.unread.unread,
            members: usize::try_from(shown.conversation.members_count).unwrap(),
            hidden: shown.hidden,
            attributes: shown.attributes.into_iter().map(attribute).collect(),
            last_at,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Member {
    read: usize,
    joined_at: u64,
    hidden_at: Option<usize>,
    attributes: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, Default)]
struct Room {
    senders: Vec<usize>,
    last_at: u64,
    members: BTreeMap<usize, Member>,
}

#[derive(Default)]
struct Model {
    rooms: BTreeMap<usize, Room>,
}

impl Model {
    fn seen(&self, user: usize) -> BTreeMap<String, Seen> {
        let mut all = BTreeMap::new();
        for (at, room) in &self.rooms {
            let Some(member) = room.members.get(&user) else {
                continue;
            };
            let unread = room.senders[member.read..].iter().filter(|by| **by != user);
            let seen = Seen {
                head: room.senders.len() as u64,
                unread: unread.count() as u64,
                members: room.members.len(),
                hidden: member.hidden_at == Some(room.senders.len()),
                attributes: member.attributes.clone(),
                last_at: room.last_at.max(member.joined_at),
            };
            all.insert(NAMES[*at].to_owned(), seen);
        }
        all
    }
}

/// A client's copy.
#[derive(Default)]
struct Copy {
    cursor: Option<String>,
    /// Since the client began anew.
    fresh: Option<BTreeMap<String, Seen>>,
    seen: BTreeMap<String, Seen>,
}

impl Copy {
    fn take(&mut self, synced: SyncedConversations) {
        if synced.reset {
            self.fresh.get_or_insert_default();
        }
        let seen = self.fresh.as_mut().unwrap_or(&mut self.seen);
        for name in synced.removed {
            seen.remove(&name);
        }
        for shown in synced.conversations {
            seen.insert(shown.conversation.info.timeline.clone(), Seen::from(shown));
        }
        if synced.done
            && let Some(fresh) = self.fresh.take()
        {
            self.seen = fresh;
        }
        self.cursor = Some(synced.cursor);
    }
}

pub(super) struct World {
    bed: Bed,
    now_ms: u64,
}

impl Deref for World {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl World {
    pub(super) fn open(dir: &Path, now_ms: u64) -> World {
        World::with(dir, 2, now_ms)
    }

    fn with(dir: &Path, partitions: u16, now_ms: u64) -> World {
        let limits = Limits {
            heads_max: 6,
            ..Limits::default()
        };
        let bed = Bed::open(dir, (partitions, true), limits, now_ms);
        World { bed, now_ms }
    }

    pub(super) async fn close(self) {
        self.bed.close().await;
    }

    /// Every user's list is as their timelines are.
    pub(super) async fn caught_up(&self) {
        let ends: Vec<(PartitionId, Position)> = self
            .partitions
            .ids()
            .map(|id| (id, self.partitions.tail(id).position()))
            .collect();
        for user in USERS {
            let reached = self.people.lists_reached(user, &ends);
            tokio::time::timeout(Duration::from_secs(60), reached)
                .await
                .unwrap();
        }
    }

    #[allow(clippy::too_many_lines)] // one command after the other
    async fn run(&mut self, model: &mut Model, copies: &mut [Copy], command: Command) {
        if !matches!(command, Command::Sync(..)) {
            // A batch that has begun keeps its time: the relay's, or one that marks what has ended.
            self.caught_up().await;
            for id in self.partitions.ids() {
                let nothing = |_: &mut Txn<'_>| Ok::<(), ()>(());
                let behind = self.partitions.submit(Purpose::Adds, id, 1, nothing);
                behind.await.unwrap();
            }
            self.now_ms += 10;
            self.clock.set(self.now_ms);
        }
        let target = |at: usize| Target::from(NAMES[at]);
        match command {
            Command::Post(at, by) => {
                let message = AppendOne {
                    entry: Columns::new(),
                    message_id: None,
                    ..AppendOne::default()
                };
                let append = Append {
                    timeline: NAMES[at].to_owned(),
                    asker: USERS[by].into(),
                    messages: vec![message],
                    expect_head: None,
                    create: true,
                    epoch: None,
                };
                self.timelines.append(append).await.unwrap();
                let room = model.rooms.entry(at).or_default();
                room.senders.push(by);
                room.last_at = self.now_ms;
            }
            Command::Join(at, mut who) => {
                who.sort_unstable();
                who.dedup();
                let member = |who: &usize| NewMember {
                    user: USERS[*who].to_owned(),
                    role: None,
                    attributes: Columns::new(),
                    visible_from: None,
                    read: None,
                };
                let add = AddMembers {
                    target: target(at),
                    members: who.iter().map(member).collect(),
                    history: None,
                    announce: None,
                };
                let added = self.timelines.add_members(add).await;
                match model.rooms.get_mut(&at) {
                    None => assert!(matches!(added, Err(Error::TimelineNotFound))),
                    Some(room) => {
                        added.unwrap();
                        let (read, joined_at) = (room.senders.len(), self.now_ms);
                        for who in who {
                            room.members.entry(who).or_insert_with(|| Member {
                                read,
                                joined_at,
                                ..Member::default()
                            });
                        }
                    }
                }
            }
            Command::Leave(at, who) => {
                let remove = RemoveMembers {
                    target: target(at),
                    users: vec![USERS[who].to_owned()],
                    announce: None,
                };
                let removed = self.timelines.remove_members(remove).await;
                assert_eq!(removed.is_ok(), model.rooms.contains_key(&at));
                if let Some(room) = model.rooms.get_mut(&at) {
                    room.members.remove(&who);
                }
            }
            Command::Delete(at) => {
                let deleted = self.timelines.delete(target(at)).await.unwrap();
                assert_eq!(deleted, model.rooms.remove(&at).is_some());
            }
            Command::Own(at, who, name, value) => {
                let set = value.map(|value| (name.to_owned(), Value::Boolean(value)));
                let remove = if value.is_none() {
                    vec![name.to_owned()]
                } else {
                    Vec::new()
                };
                let set = set.into_iter().collect();
                let people = &self.people;
                let asker = USERS[who].into();
                let updated = match people.own(&asker, NAMES[at]).await {
                    Ok(own) => people.update_attributes(own, set, remove).await,
                    Err(error) => Err(error),
                };
                match (updated, model.member(at, who)) {
                    (Ok(attributes), Some(member)) => {
                        match value {
                            Some(value) => member.attributes.insert(name.to_owned(), value),
                            None => member.attributes.remove(name),
                        };
                        assert_eq!(attributes.len(), member.attributes.len());
                    }
                    (Err(Error::ConversationNotFound), None) => {}
                    (other, _) => panic!("{other:?}"),
                }
            }
            Command::Hide(at, who) => {
                let hidden = match self.people.own(&USERS[who].into(), NAMES[at]).await {
                    Ok(own) => self.people.hide(own).await,
                    Err(error) => Err(error),
                };
                let head = model.rooms.get(&at).map(|room| room.senders.len());
                let member = model.member(at, who);
                assert_eq!(hidden.is_ok(), member.is_some());
                if let Some(member) = member {
                    member.hidden_at = head;
                }
            }
            Command::Sync(who, limit) => {
                self.sync(&mut copies[who], who, limit, false).await;
            }
            Command::Flush => self.flush().await,
            Command::Served(count) => self.bed.reshape_served(count).await,
            Command::Restart | Command::Reshape(_) => unreachable!("by the caller"),
        }
    }

    /// One look of a client, or as many as it takes.
    async fn sync(&self, copy: &mut Copy, who: usize, limit: usize, is_all: bool) {
        loop {
            let asked = SyncConversations {
                asker: USERS[who].into(),
                cursor: copy.cursor.clone(),
                limit,
                columns: None,
                bytes_max: 1 << 20,
            };
            let synced = self.people.sync(asked).await.unwrap();
            // What came since the first page of a sync comes with the next sync.
            let is_behind = !synced.is_empty();
            assert!(
                !synced.reset,
                "a cursor counts, whatever became of partitions"
            );
            assert!(synced.conversations.len() + synced.removed.len() <= limit);
            copy.take(synced);
            if !is_behind || !is_all {
                return;
            }
        }
    }

    async fn compare(&self, model: &Model, copies: &mut [Copy]) {
        self.caught_up().await;
        assert_eq!(verified(&self.partitions), (Vec::new(), Vec::new()));
        for (who, copy) in copies.iter_mut().enumerate() {
            let seen = model.seen(who);
            self.sync(copy, who, 2, true).await;
            assert_eq!(copy.seen, seen, "{}'s copy", USERS[who]);
            let mut order: Vec<_> = seen.iter().filter(|(_, one)| !one.hidden).collect();
            let is_pinned = |one: &Seen| one.attributes.get("pinned") == Some(&true);
            order.sort_by_key(|(name, one)| (Reverse(is_pinned(one)), Reverse(one.last_at), *name));
            let listed = self.list(who, Filter::default()).await;
            let wanted: Vec<_> = order
                .iter()
                .map(|(name, one)| ((*name).clone(), (*one).clone()))
                .collect();
            assert_eq!(listed, wanted, "{}'s list", USERS[who]);
            let unread = Filter {
                unread: Some(true),
                ..Filter::default()
            };
            let with_unread = wanted.iter().filter(|(_, one)| one.unread > 0);
            assert_eq!(
                self.list(who, unread).await,
                with_unread.cloned().collect::<Vec<_>>()
            );
            let pinned = Filter {
                attributes: vec![("pinned".to_owned(), Value::Boolean(true))],
                ..Filter::default()
            };
            let with_pin = wanted.iter().filter(|(_, one)| is_pinned(one));
            assert_eq!(
                self.list(who, pinned).await,
                with_pin.cloned().collect::<Vec<_>>()
            );
            let count = self
                .people
                .count(&USERS[who].into(), Filter::default())
                .await
                .unwrap();
            let is_muted = |one: &Seen| one.attributes.get("muted") == Some(&true);
            let counting = wanted
                .iter()
                .map(|(_, one)| if is_muted(one) { 0 } else { one.unread });
            assert_eq!(count.conversations, wanted.len() as u64);
            assert_eq!(count.unread, counting.clone().sum::<u64>());
            assert_eq!(
                count.unread_conversations,
                counting.filter(|one| *one > 0).count() as u64
            );
            for (name, one) in &seen {
                let got = self
                    .people
                    .conversation(&USERS[who].into(), name)
                    .await
                    .unwrap();
                assert_eq!(Seen::from(got), *one);
            }
        }
    }

    async fn list(&self, who: usize, filter: Filter) -> Vec<(String, Seen)> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let asked = ListConversations {
                asker: USERS[who].into(),
                after,
                limit: 2,
                filter: filter.clone(),
                columns: None,
                bytes_max: 1 << 20,
            };
            let listed = self.people.list(asked).await.unwrap();
            let named = |one: Shown| (one.conversation.info.timeline.clone(), Seen::from(one));
            all.extend(listed.conversations.into_iter().map(named));
            match listed.next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }
}

impl Model {
    fn member(&mut self, at: usize, who: usize) -> Option<&mut Member> {
        self.rooms.get_mut(&at)?.members.get_mut(&who)
    }
}

fn check(commands: Vec<Command>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::open(dir.path(), START_MS);
        let mut model = Model::default();
        let mut copies: Vec<Copy> = USERS.iter().map(|_| Copy::default()).collect();
        for (turn, command) in commands.into_iter().enumerate() {
            let now_ms = world.now_ms;
            match command {
                Command::Restart => {
                    world.close().await;
                    world = World::with(dir.path(), 0, now_ms);
                }
                Command::Reshape(count) => {
                    world.bed.reshape(count).await;
                    world = World::with(dir.path(), 0, now_ms);
                }
                command => world.run(&mut model, &mut copies, command).await,
            }
            if turn % 7 == 6 {
                world.compare(&model, &mut copies).await;
            }
        }
        world.compare(&model, &mut copies).await;
        world.close().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lists_syncs_and_counts_are_those_of_the_model(commands in prop::collection::vec(command(), 1..60)) {
        check(commands);
    }
}

#[test]
fn a_cursor_that_is_too_old_starts_over() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::open(dir.path(), START_MS);
        let (mut model, mut copies) = (
            Model::default(),
            vec![Copy::default(), Copy::default(), Copy::default()],
        );
        for command in [
            Command::Post(0, 1),
            Command::Post(1, 1),
            Command::Join(0, vec![0]),
            Command::Join(1, vec![0]),
        ] {
            world.run(&mut model, &mut copies, command).await;
        }
        world.compare(&model, &mut copies).await;
        world
            .run(&mut model, &mut copies, Command::Leave(0, 0))
            .await;
        world.now_ms += 31 * 24 * 60 * 60 * 1_000;
        world.clock.set(world.now_ms);
        world.caught_up().await;
        let asked = SyncConversations {
            asker: USERS[0].into(),
            cursor: copies[0].cursor.clone(),
            limit: 100,
            columns: None,
            bytes_max: 1 << 20,
        };
        let synced = world.people.sync(asked).await.unwrap();
        assert!(synced.reset && synced.done && synced.removed.is_empty());
        assert_eq!(synced.conversations.len(), 1);
        world.close().await;
    });
}
