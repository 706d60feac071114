//! Inboxes and feeds against a plain model of members, followers and posts.
//!
//! Owns: the model. Promises: after each round every inbox holds each message that went to its user, once, those of one
//! timeline in order, and every feed, page by page, what its user follows; with deletions, trims, joins, leaves,
//! rejoins, follows while others post, switches, timelines deleted and made again, restarts and flushes. Messages for
//! more than two users are jobs here. Must not: know how rows are encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use proptest::prelude::*;

use super::bed::Bed;
use crate::people::FeedRange;
use crate::timeline::{
    AddMembers, Append, AppendOne, Columns, Create, Error, FanOut, FeedMessage, Limits, NewMember,
    Range, RemoveMembers, SettingsPatch, Target, Timelines,
};
use tideline_model::Value;
use tideline_model::access::Asker;

const USERS: [&str; 5] = ["ada", "ben", "cay", "dan", "eve"];
const NAMES: [&str; 3] = ["a", "b", "é"];
const START_MS: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    Post {
        timeline: usize,
    },
    Join {
        timeline: usize,
        user: usize,
    },
    Leave {
        timeline: usize,
        user: usize,
    },
    Follow {
        timeline: usize,
        user: usize,
    },
    Unfollow {
        timeline: usize,
        user: usize,
    },
    /// The relay gets through.
    Settle,
    Delete {
        timeline: usize,
        back: i64,
    },
    Trim {
        timeline: usize,
        back: i64,
    },
    Turn {
        timeline: usize,
        fan_out: u8,
    },
    /// Several of those before, without waiting for any: mostly one batch.
    Burst(Vec<Step>),
    Recreate {
        timeline: usize,
    },
    Restart,
    /// The next start has so many partitions.
    Reshape(u16),
    /// From now on there are so many.
    Served(u16),
    Flush,
}

fn quick() -> impl Strategy<Value = Step> {
    let (timeline, user) = (|| 0..NAMES.len(), || 0..USERS.len());
    prop_oneof![
        8 => timeline().prop_map(|timeline| Step::Post { timeline }),
        6 => (timeline(), user()).prop_map(|(timeline, user)| Step::Join { timeline, user }),
        4 => (timeline(), user()).prop_map(|(timeline, user)| Step::Leave { timeline, user }),
        3 => (timeline(), 0..3u8).prop_map(|(timeline, fan_out)| Step::Turn { timeline, fan_out }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (timeline, user) = (|| 0..NAMES.len(), || 0..USERS.len());
    prop_oneof![
        16 => quick(),
        6 => prop::collection::vec(quick(), 2..20).prop_map(Step::Burst),
        3 => (timeline(), user()).prop_map(|(timeline, user)| Step::Follow { timeline, user }),
        1 => (timeline(), user()).prop_map(|(timeline, user)| Step::Unfollow { timeline, user }),
        1 => Just(Step::Settle),
        2 => (timeline(), 0..6i64).prop_map(|(timeline, back)| Step::Delete { timeline, back }),
        1 => (timeline(), 3..9i64).prop_map(|(timeline, back)| Step::Trim { timeline, back }),
        1 => timeline().prop_map(|timeline| Step::Recreate { timeline }),
        1 => Just(Step::Restart),
        1 => (1..5u16).prop_map(Step::Reshape),
        1 => (1..5u16).prop_map(Step::Served),
        1 => Just(Step::Flush),
    ]
}

/// What a timeline should do.
#[derive(Clone, Debug, Default)]
struct Room {
    epoch: String,
    head: i64,
    members: BTreeSet<&'static str>,
    /// The followers that the timeline knows.
    followers: BTreeSet<&'static str>,
    /// Users that it will know or will no longer know, once the relay gets through.
    moving: BTreeMap<&'static str, bool>,
    /// Of each follower, the first sequence in the feed.
    follows: BTreeMap<&'static str, i64>,
    deleted: BTreeSet<i64>,
    floor: i64,
    fan_out: u8,
    too_many: bool,
}

/// Up to so many `auto` writes.
const AUTO_MAX: usize = 3;

impl Room {
    fn turn(&mut self) {
        let count = self.members.len() + self.followers.len();
        self.too_many |= self.fan_out == 2 && count > AUTO_MAX;
    }

    fn writes(&self) -> bool {
        self.fan_out == 1 || (self.fan_out == 2 && !self.too_many)
    }
}

/// Resolves when a write is done; it must not fail.
type Answer = BoxFuture<'static, ()>;

fn answer<R>(call: impl Future<Output = Result<R, Error>> + Send + 'static) -> Answer {
    async move { drop(call.await.unwrap()) }.boxed()
}

/// By timeline and epoch: sequences, in order; in the model, whether they must be there.
type Held<S = i64> = BTreeMap<(String, String), Vec<S>>;

struct World {
    bed: Bed,
    rooms: Vec<Room>,
    inboxes: BTreeMap<&'static str, Held<(i64, bool)>>,
}

impl Deref for World {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl World {
    fn open(dir: &Path, partitions: u16) -> World {
        World {
            bed: Bed::open(dir, (partitions, true), Limits::default(), START_MS),
            rooms: vec![Room::default(); NAMES.len()],
            inboxes: BTreeMap::new(),
        }
    }

    async fn close(self) {
        self.bed.close().await;
    }

    async fn create(&mut self, at: usize) {
        let (info, made) = self
            .timelines
            .create(Create::from(Target::from(NAMES[at])))
            .await
            .unwrap();
        assert!(made.created);
        self.rooms[at] = Room {
            epoch: info.epoch,
            ..Room::default()
        };
    }

    async fn run(&mut self, step: &Step) {
        match step {
            Step::Burst(steps) => {
                let mut answers = Vec::new();
                for step in steps {
                    let is_first = matches!(step, Step::Join { timeline, .. } if self.rooms[*timeline].members.is_empty());
                    let answer = self.start(step);
                    if is_first {
                        // What stands is indexed in slices first, and what is queued meanwhile may come before them.
                        answer.await;
                    } else {
                        answers.push(answer);
                    }
                }
                for answer in answers {
                    answer.await;
                }
            }
            Step::Follow { timeline, user } => {
                let (name, user) = (NAMES[*timeline], USERS[*user]);
                let found = self.timelines.incarnation(Target::from(name)).await;
                let followed = self.people.follow(user, name, found.unwrap(), 2);
                let from = followed.await.unwrap();
                let room = &mut self.rooms[*timeline];
                let first = *room
                    .follows
                    .entry(user)
                    .or_insert_with(|| (room.head - 1).max(1));
                assert_eq!(from.cast_signed(), first);
                room.moving.insert(user, true);
                self.count_if_auto(*timeline).await;
            }
            Step::Unfollow { timeline, user } => {
                let (name, user) = (NAMES[*timeline], USERS[*user]);
                let ended = self.people.unfollow(user, name).await.unwrap();
                let room = &mut self.rooms[*timeline];
                let was = room.follows.remove(user).is_some();
                // A follow of an earlier timeline of the name is still there.
                assert!(ended || !was);
                room.moving.insert(user, false);
                self.count_if_auto(*timeline).await;
            }
            Step::Settle => self.settle().await,
            Step::Delete { timeline, back } => {
                let room = &mut self.rooms[*timeline];
                let sequence = room.head - back;
                if sequence < room.floor.max(1) || !room.deleted.insert(sequence) {
                    return;
                }
                let target = Target::from(NAMES[*timeline]);
                let deleted = self
                    .timelines
                    .delete_message(target, sequence.cast_unsigned());
                assert!(deleted.await.unwrap());
            }
            Step::Trim { timeline, back } => {
                let room = &mut self.rooms[*timeline];
                room.floor = room.floor.max(room.head - back);
                let before = room.floor.max(1).cast_unsigned();
                let trimmed = self.timelines.trim(Target::from(NAMES[*timeline]), before);
                assert_eq!(trimmed.await.unwrap(), before);
            }
            Step::Recreate { timeline } => {
                // What is not in inboxes yet would be gone with it.
                self.settle().await;
                let deleted = self.timelines.delete(Target::from(NAMES[*timeline])).await;
                assert!(deleted.unwrap());
                self.create(*timeline).await;
            }
            step => self.start(step).await,
        }
    }

    /// Queues a write, which takes effect in the order of the calls.
    fn start(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Post { timeline } => self.post(timeline),
            Step::Join { timeline, user } => {
                let member = NewMember {
                    user: USERS[user].to_owned(),
                    role: None,
                    attributes: Columns::new(),
                    visible_from: None,
                    read: None,
                };
                let add = AddMembers {
                    target: Target::from(NAMES[timeline]),
                    members: vec![member],
                    history: None,
                    announce: None,
                };
                self.rooms[timeline].members.insert(USERS[user]);
                self.rooms[timeline].turn();
                answer(self.timelines.add_members(add))
            }
            Step::Leave { timeline, user } => {
                let remove = RemoveMembers {
                    target: Target::from(NAMES[timeline]),
                    users: vec![USERS[user].to_owned()],
                    announce: None,
                };
                self.rooms[timeline].members.remove(USERS[user]);
                answer(self.timelines.remove_members(remove))
            }
            Step::Turn { timeline, fan_out } => {
                // With `auto` it matters how many followers there are.
                let is_unsure = !self.rooms[timeline].moving.is_empty();
                let fan_out = if is_unsure { fan_out % 2 } else { fan_out };
                let how = [FanOut::Read, FanOut::Write, FanOut::Auto][usize::from(fan_out)];
                let patch = SettingsPatch {
                    fan_out: Some(Some(how)),
                    fan_out_members_max: Some(Some(AUTO_MAX as u64)),
                    ..SettingsPatch::default()
                };
                let room = &mut self.rooms[timeline];
                (room.fan_out, room.too_many) = (fan_out, false);
                room.turn();
                answer(
                    self.timelines
                        .configure(Target::from(NAMES[timeline]), patch, None),
                )
            }
            ref other => panic!("{other:?} is not queued"),
        }
    }

    fn post(&mut self, timeline: usize) -> Answer {
        let message = AppendOne {
            entry: vec![("text".to_owned(), Value::String("hi".to_owned()))],
            ..AppendOne::default()
        };
        let append = Append {
            timeline: NAMES[timeline].to_owned(),
            asker: Asker::default(),
            messages: vec![message],
            expect_head: None,
            create: false,
            epoch: None,
        };
        let room = &mut self.rooms[timeline];
        room.head += 1;
        if room.writes() {
            for user in USERS {
                let is_sure = room.members.contains(user)
                    || (room.followers.contains(user) && !room.moving.contains_key(user));
                if is_sure || room.followers.contains(user) || room.moving.contains_key(user) {
                    let of = (NAMES[timeline].to_owned(), room.epoch.clone());
                    let held = self.inboxes.entry(user).or_default();
                    held.entry(of).or_default().push((room.head, is_sure));
                }
            }
        }
        answer(self.timelines.append(append))
    }

    async fn held(&self, user: &str) -> Held {
        let range = Range {
            timeline: Timelines::inbox_of(user),
            asker: user.into(),
            from: None,
            to: None,
            limit: 10_000,
            bytes_max: 1 << 30,
            backward: false,
            columns: None,
            epoch: None,
        };
        let page = match self.timelines.range(range).await {
            Err(Error::TimelineNotFound) => return Held::new(),
            page => page.unwrap(),
        };
        let mut held = Held::new();
        for message in page.messages {
            let entry: BTreeMap<String, Value> = message.entry.unwrap().into_iter().collect();
            let text = |name: &str| match &entry[name] {
                Value::String(text) => text.clone(),
                other => panic!("{other:?}"),
            };
            assert_eq!(entry["timestamp"], Value::Integer(START_MS.cast_signed()));
            let Value::Integer(sequence) = entry["sequence"] else {
                panic!("{entry:?}");
            };
            let of = (text("timeline"), text("epoch"));
            held.entry(of).or_default().push(sequence);
        }
        held
    }

    /// The relay gets through, and the timelines know their followers.
    async fn settle(&mut self) {
        self.through().await;
        for room in &mut self.rooms {
            for (user, follows) in std::mem::take(&mut room.moving) {
                if follows {
                    room.followers.insert(user);
                } else {
                    room.followers.remove(user);
                }
            }
        }
    }

    /// With `auto` it matters at once how many followers there are.
    async fn count_if_auto(&mut self, timeline: usize) {
        if self.rooms[timeline].fan_out == 2 {
            self.settle().await;
            self.rooms[timeline].turn();
        }
    }

    async fn check(&mut self) {
        self.settle().await;
        let (problems, _) = super::verify::verified(&self.partitions);
        assert_eq!(problems, Vec::<String>::new());
        for user in USERS {
            let mut held = self.held(user).await;
            for (of, expected) in self.inboxes.get(user).cloned().unwrap_or_default() {
                let sequences = held.remove(&of).unwrap_or_default();
                let may: Vec<i64> = expected.iter().map(|one| one.0).collect();
                let mut may = may.iter();
                // A part of what may be there, in order.
                let all_may = sequences.iter().all(|one| may.any(|other| other == one));
                let must = |(sequence, must): &(i64, bool)| !must || sequences.contains(sequence);
                let has_all = expected.iter().all(must);
                assert!(
                    all_may && has_all,
                    "{user} {of:?}: {sequences:?}, not {expected:?}"
                );
            }
            assert_eq!(held, Held::new(), "{user}");
            assert_eq!(self.feed(user).await, self.expected_feed(user), "{user}");
        }
        for (room, name) in self.rooms.iter().zip(NAMES) {
            let followers = self.timelines.followers(Target::from(name), None, 99);
            let (users, count, _) = followers.await.unwrap();
            let expected: Vec<&str> = room.followers.iter().copied().collect();
            assert_eq!(
                (
                    users.iter().map(String::as_str).collect::<Vec<_>>(),
                    count as usize
                ),
                (expected, room.followers.len())
            );
        }
    }

    /// All messages have one time: so by timeline, then the newest first.
    fn expected_feed(&self, user: &str) -> Vec<(String, String, i64)> {
        let mut feed = Vec::new();
        for (room, name) in self.rooms.iter().zip(NAMES) {
            let from = room
                .follows
                .get(user)
                .map_or(i64::MAX, |from| (*from).max(room.floor));
            for sequence in (from..=room.head).rev() {
                if !room.deleted.contains(&sequence) {
                    feed.push((name.to_owned(), room.epoch.clone(), sequence));
                }
            }
        }
        feed
    }

    async fn feed(&self, user: &str) -> Vec<(String, String, i64)> {
        let (mut feed, mut before) = (Vec::new(), None);
        loop {
            let range = FeedRange {
                asker: user.into(),
                before,
                limit: 3,
                bytes_max: 1 << 20,
            };
            let page = self.people.feed(range).await.unwrap();
            assert!(page.messages.len() <= 3);
            let place =
                |one: FeedMessage| (one.timeline, one.epoch, one.message.sequence.cast_signed());
            feed.extend(page.messages.into_iter().map(place));
            match page.next {
                Some(next) => before = Some(next),
                None => return feed,
            }
        }
    }
}

async fn play(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path(), 2);
    for at in 0..NAMES.len() {
        world.create(at).await;
    }
    for (count, step) in steps.iter().enumerate() {
        match step {
            Step::Restart | Step::Reshape(_) => {
                // A restart: in the middle of whatever the relay does.
                let (rooms, inboxes) = (world.rooms.clone(), world.inboxes.clone());
                match step {
                    Step::Reshape(count) => world.bed.reshape(*count).await,
                    _ => world.close().await,
                }
                world = World {
                    rooms,
                    inboxes,
                    ..World::open(dir.path(), 0)
                };
            }
            Step::Flush => world.flush().await,
            Step::Served(count) => world.bed.reshape_served(*count).await,
            step => world.run(step).await,
        }
        if count % 16 == 15 {
            world.check().await;
        }
    }
    world.check().await;
    world.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn inboxes_hold_what_went_to_their_users(steps in prop::collection::vec(step(), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps));
    }
}
