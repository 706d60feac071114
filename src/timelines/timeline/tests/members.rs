//! Members against a plain map: joins, leaves, changes, and readers that follow the list by versions.
//!
//! Owns: these commands. Promises: a reader that applies incremental answers has what the whole list is; what a user
//! may see is what the map says. Must not: be in a build that is not a test.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::commands::{World, directory, runtime};
use crate::timeline::{
    AddMembers, Append, AppendOne, Create, Error, ListMembers, MembersChanged, NewMember,
    NextMembers, Range, RemoveMembers, SettingsPatch, Target, Timelines, UpdateMember,
};
use tideline_model::Value;

const USERS: [&str; 6] = ["ann", "ben", "cleo", "dan", "eve", "fay"];
const ROLES: [&str; 3] = ["member", "owner", "guest"];
const DAY_MS: u64 = 86_400_000;

#[derive(Clone, Debug)]
enum Command {
    /// Users, history, whether it is announced.
    Add(BTreeSet<usize>, Option<u64>, bool),
    Remove(BTreeSet<usize>, bool),
    Update(usize, usize),
    Append(usize),
    OnlyMembers(Option<bool>),
    /// Reader, limit, role.
    Follow(usize, usize, Option<usize>),
    Wait(u64),
    MakeAgain,
}

fn command() -> impl Strategy<Value = Command> {
    use proptest::option::of;
    let users = || proptest::collection::btree_set(0..USERS.len(), 1..4);
    prop_oneof![
        4 => (users(), of(0u64..4), any::<bool>()).prop_map(|(a, b, c)| Command::Add(a, b, c)),
        3 => (users(), any::<bool>()).prop_map(|(a, b)| Command::Remove(a, b)),
        3 => (0..USERS.len(), 0..ROLES.len()).prop_map(|(a, b)| Command::Update(a, b)),
        4 => (0..USERS.len()).prop_map(Command::Append),
        2 => of(any::<bool>()).prop_map(Command::OnlyMembers),
        5 => (0usize..3, 1usize..4, of(0..ROLES.len())).prop_map(|(a, b, c)| Command::Follow(a, b, c)),
        1 => (1u64..20).prop_map(|days| Command::Wait(days * DAY_MS)),
        1 => Just(Command::MakeAgain),
    ]
}

/// What the map says of a member.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    role: &'static str,
    visible_from: u64,
    read: u64,
}

/// A reader's own list, and the version that it is of.
#[derive(Clone, Debug, Default)]
struct Copy {
    epoch: String,
    role: Option<usize>,
    version: Option<u64>,
    members: BTreeMap<String, String>,
}

#[derive(Default)]
struct Plainly {
    epoch: String,
    head: u64,
    members: BTreeMap<&'static str, Plain>,
    members_only: Option<bool>,
    readers: Vec<Copy>,
}

fn target(user: &str) -> Target {
    Target {
        asker: user.into(),
        ..Target::from("room")
    }
}

fn new(user: &str) -> NewMember {
    NewMember {
        user: user.to_owned(),
        role: None,
        attributes: Vec::new(),
        visible_from: None,
        read: None,
    }
}

fn announcement(is_announced: bool) -> Option<crate::timeline::Columns> {
    is_announced.then(|| vec![("text".to_owned(), Value::Integer(1))])
}

impl Plainly {
    async fn run(&mut self, timelines: &Timelines, command: Command) {
        match command {
            Command::Add(users, history, announced) => {
                let fresh: Vec<_> = users.iter().map(|at| USERS[*at]).collect();
                let add = AddMembers {
                    target: target(""),
                    members: fresh.iter().map(|user| new(user)).collect(),
                    history,
                    announce: announcement(announced),
                };
                let changed = timelines.add_members(add).await.unwrap();
                let mut count = 0;
                for user in fresh {
                    let visible = history.map_or(1, |n| (self.head + 1).saturating_sub(n).max(1));
                    let member = Plain {
                        role: "member",
                        visible_from: visible,
                        read: self.head,
                    };
                    if !self.members.contains_key(user) {
                        self.members.insert(user, member);
                        count += 1;
                    }
                }
                self.changed(changed, count, announced);
            }
            Command::Remove(users, announced) => {
                let users: Vec<_> = users.iter().map(|at| USERS[*at]).collect();
                let remove = RemoveMembers {
                    target: target(""),
                    users: users.iter().map(|user| (*user).to_owned()).collect(),
                    announce: announcement(announced),
                };
                let changed = timelines.remove_members(remove).await.unwrap();
                let gone = users
                    .iter()
                    .filter(|user| self.members.remove(*user).is_some());
                let count = gone.count() as u64;
                self.changed(changed, count, announced);
            }
            Command::Update(at, role) => {
                let update = UpdateMember {
                    target: target(""),
                    user: USERS[at].to_owned(),
                    role: Some(ROLES[role].to_owned()),
                    set: Vec::new(),
                    remove: Vec::new(),
                    expect_version: None,
                };
                let real = timelines.update_member(update).await;
                match (real, self.members.get_mut(USERS[at])) {
                    (Ok(row), Some(member)) => {
                        member.role = ROLES[role];
                        assert_eq!(row.role, member.role);
                    }
                    (Err(Error::MemberNotFound), None) => {}
                    other => panic!("{other:?}"),
                }
            }
            Command::Append(at) => self.append(timelines, USERS[at]).await,
            Command::OnlyMembers(only) => {
                let patch = SettingsPatch {
                    members_only: Some(only),
                    ..SettingsPatch::default()
                };
                let configured = timelines.configure(target(""), patch, None).await.unwrap();
                assert_eq!(configured.settings.members_only, only);
                self.members_only = only;
            }
            Command::Follow(reader, limit, role) => {
                self.follow(timelines, reader, limit, role).await;
            }
            Command::Wait(_) => {}
            Command::MakeAgain => {
                assert!(timelines.delete(target("")).await.unwrap());
                let readers = std::mem::take(&mut self.readers);
                *self = Plainly::make(timelines).await;
                self.readers = readers;
            }
        }
    }

    async fn make(timelines: &Timelines) -> Plainly {
        let create = Create::from(target(""));
        let (info, made) = timelines.create(create).await.unwrap();
        assert!(made.created);
        Plainly {
            epoch: info.epoch,
            ..Plainly::default()
        }
    }

    fn changed(&mut self, real: MembersChanged, count: u64, announced: bool) {
        let says = announced && count > 0;
        self.head += u64::from(says);
        let expected = (count, self.members.len() as u64, says.then_some(self.head));
        assert_eq!((real.changed, real.members, real.sequence), expected);
    }

    fn may_read(&self, user: &str) -> bool {
        self.members_only != Some(true) || self.members.contains_key(user)
    }

    async fn append(&mut self, timelines: &Timelines, user: &str) {
        let append = Append {
            timeline: "room".to_owned(),
            asker: user.into(),
            messages: vec![AppendOne::default()],
            expect_head: None,
            create: true,
            epoch: None,
        };
        match timelines.append(append).await {
            Ok(_) if self.may_read(user) => self.head += 1,
            Err(Error::TimelineNotFound) if !self.may_read(user) => {}
            other => panic!("{other:?}"),
        }
    }

    /// What each user may see is what the map says.
    async fn check(&self, timelines: &Timelines) {
        for user in USERS {
            let range = Range {
                asker: user.into(),
                timeline: "room".to_owned(),
                from: None,
                to: None,
                limit: 1_000,
                bytes_max: usize::MAX,
                backward: false,
                columns: None,
                epoch: None,
            };
            let page = timelines.range(range).await;
            let info = timelines.get(target(user)).await;
            let (page, info) = match (page, info) {
                (Ok(page), Ok(info)) if self.may_read(user) => (page, info),
                (Err(Error::TimelineNotFound), Err(Error::TimelineNotFound)) => {
                    assert!(!self.may_read(user));
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let member = self.members.get(user);
            let floor = member.map_or(1, |member| member.visible_from);
            let seen: Vec<_> = page.messages.iter().map(|one| one.sequence).collect();
            assert_eq!(seen, (floor..=self.head).collect::<Vec<_>>());
            assert_eq!((page.head.floor, info.floor), (floor, floor));
            let row = timelines.member(target(""), user.to_owned()).await;
            let row = row.ok().map(|row| (row.role, row.visible_from, row.read));
            let plain =
                member.map(|member| (member.role.to_owned(), member.visible_from, member.read));
            assert_eq!(row, plain);
        }
    }

    async fn follow(
        &mut self,
        timelines: &Timelines,
        reader: usize,
        limit: usize,
        role: Option<usize>,
    ) {
        self.readers.resize(3, Copy::default());
        let mut copy = self.readers[reader].clone();
        if copy.epoch != self.epoch || copy.role != role {
            // Versions are of an epoch, and a list of a role.
            copy = Copy {
                epoch: self.epoch.clone(),
                role,
                ..Copy::default()
            };
        }
        let (mut since, mut after, mut first) = (copy.version, None, None);
        for _ in 0..1_000 {
            let list = ListMembers {
                target: target(""),
                since: since.filter(|_| after.is_none()),
                after: after.take(),
                role: role.map(|role| ROLES[role].to_owned()),
                limit,
                bytes_max: usize::MAX,
            };
            let page = timelines.list_members(list).await.unwrap();
            assert!(page.members.len() <= limit);
            assert_eq!(page.members_count, self.members.len() as u64);
            if page.reset {
                copy.members.clear();
                (since, first) = (None, None);
            }
            for user in page.removed.iter().flatten() {
                copy.members.remove(user);
            }
            for member in page.members {
                copy.members.insert(member.user, member.role);
            }
            let reached = *first.get_or_insert(page.version);
            match page.next {
                Some(NextMembers::After(user)) => after = Some(user),
                Some(NextMembers::Since(version)) => {
                    since = Some(version);
                    first = None;
                }
                None => {
                    copy.version = Some(reached);
                    let with_role =
                        |member: &&Plain| role.is_none_or(|at| ROLES[at] == member.role);
                    let plain = self.members.iter().filter(|(_, member)| with_role(member));
                    let plain: BTreeMap<_, _> = plain
                        .map(|(user, member)| ((*user).to_owned(), member.role.to_owned()))
                        .collect();
                    assert_eq!(copy.members, plain);
                    self.readers[reader] = copy;
                    return;
                }
            }
        }
        panic!("a list does not come to its end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn members_are_as_a_plain_map_says(commands in proptest::collection::vec(command(), 1..60)) {
        let dir = directory();
        runtime().block_on(async {
            let world = World::open(dir.path(), 1);
            let mut plainly = Plainly::make(&world.timelines).await;
            for command in commands {
                if let Command::Wait(ms) = command {
                    world.clock.set(world.clock.now_ms() + ms);
                }
                plainly.run(&world.timelines, command).await;
                plainly.check(&world.timelines).await;
            }
            for reader in 0..3 {
                plainly.follow(&world.timelines, reader, 2, None).await;
            }
            world.partitions.close().await;
        });
    }
}
