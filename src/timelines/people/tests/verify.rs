//! What `verify` says of rows at users, of relay cursors, and of timelines whose rows they contradict.
//!
//! Owns: one bent row for each rule. Promises: every rule finds its damage; what the relay has not brought yet is none.
//! Must not: damage files.

use std::ops::Bound;

use super::super::conversations::conversation_row::ConversationRow;
use super::super::devices::stored::{DeviceRow, Place, PlaceRow};
use super::conversations::World;
use crate::people::tables::Home;
use crate::people::{
    Changed, DevicePosition, Follow, Report, SetPositions, StoredPartition, StoredPeople,
    VerifiedPeople,
};
use crate::timeline::{
    AddMembers, Append, AppendOne, Create, FanOut, Inbox, NewMember, Post, ReadMark, RemoveMembers,
    SettingsPatch, StoredTimelines, Target, Timelines,
};
use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_model::{Direction, ValueRef};
use tideline_store::partition::{Partitions, Purpose, Txn};
use tideline_table::{Key, RowWriter};

/// What a check of all partitions says: problems, then notes.
pub(super) fn verified(partitions: &Partitions) -> (Vec<String>, Vec<String>) {
    check(partitions).1
}

fn check(partitions: &Partitions) -> (VerifiedPeople, (Vec<String>, Vec<String>)) {
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let mut stored = Vec::new();
    for id in partitions.ids() {
        let (view, tail) = (partitions.view(id).unwrap(), partitions.tail(id));
        let timelines = StoredTimelines::new(&view, partitions.origin());
        timelines
            .verify(&mut |problem| problems.push(problem))
            .unwrap();
        let mut changed = Changed::default();
        for batch in tail.batches(Position::ZERO, usize::MAX).unwrap_or_default() {
            changed.take(&batch).unwrap();
        }
        stored.push((id, view, tail.position(), changed));
    }
    let stored = stored
        .iter()
        .map(|(id, view, last, changed)| StoredPartition {
            id: *id,
            view,
            last: *last,
            changed,
        });
    let map = partitions.map();
    let found =
        StoredPeople::new(stored.collect(), partitions.origin(), &map).verify(&mut Report {
            problem: &mut |problem| problems.push(problem),
            note: &mut |note| notes.push(note),
        });
    (found.unwrap(), (problems, notes))
}

fn member(user: &str) -> NewMember {
    NewMember {
        user: user.to_owned(),
        role: None,
        attributes: Vec::new(),
        visible_from: None,
        read: None,
    }
}

fn add(users: &[&str]) -> AddMembers {
    AddMembers {
        target: Target::from("room"),
        members: users.iter().map(|user| member(user)).collect(),
        history: None,
        announce: None,
    }
}

/// A room with a message, ada and ben in it, and ada's phone, which has a position; cay was in it.
async fn world(dir: &std::path::Path) -> World {
    let world = World::open(dir, tideline_base::clock::Clock::system().now_ms());
    let create = Create::from(Target::from("room"));
    let (info, _) = world.timelines.create(create).await.unwrap();
    let append = Append {
        timeline: "room".to_owned(),
        asker: "ada".into(),
        messages: vec![AppendOne::default()],
        expect_head: None,
        create: false,
        epoch: None,
    };
    world.timelines.append(append).await.unwrap();
    let added = world.timelines.add_members(add(&["ada", "ben", "cay"]));
    added.await.unwrap();
    let remove = RemoveMembers {
        target: Target::from("room"),
        users: vec!["cay".to_owned()],
        announce: None,
    };
    world.timelines.remove_members(remove).await.unwrap();
    let place = Place {
        epoch: info.epoch,
        after: 1,
        changes_after: Some(0),
    };
    let set = SetPositions {
        user: "ada".to_owned(),
        device: "phone".to_owned(),
        positions: vec![DevicePosition {
            timeline: "room".to_owned(),
            place,
        }],
        force: false,
    };
    world.people.set_positions(set).await.unwrap();
    world.caught_up().await;
    world
}

async fn write(
    partitions: &Partitions,
    at: PartitionId,
    write: impl FnOnce(&mut Txn<'_>) + Send + 'static,
) {
    let written = partitions.submit::<_, (), _>(Purpose::Adds, at, 99, move |txn| {
        write(txn);
        Ok(())
    });
    written.await.unwrap();
}

/// What is said after `bend` wrote at ada.
async fn bent(
    bend: impl FnOnce(&mut Txn<'_>, &Home) + Send + 'static,
) -> (Vec<String>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let home = Home::new("ada");
    let at = world.partitions.place(home.name().as_bytes());
    write(&world.partitions, at, move |txn| bend(txn, &home)).await;
    let said = verified(&world.partitions);
    world.close().await;
    let plain = |text: String| {
        let (_, text) = text
            .split_once(", user \"ada\"")
            .expect("all of it is ada's");
        text.trim_start_matches([',', ':', ' ']).to_owned()
    };
    let (problems, notes) = said;
    (
        problems.into_iter().map(plain).collect(),
        notes.into_iter().map(plain).collect(),
    )
}

async fn bent_conversation(change: impl Fn(&mut ConversationRow) + Send + 'static) -> Vec<String> {
    let (problems, notes) = bent(move |txn, home| {
        let key = home.conversation_key("room");
        let row = txn.get(key.as_bytes()).unwrap().unwrap();
        let mut row = ConversationRow::decode(&row).unwrap();
        change(&mut row);
        txn.put(key.as_bytes(), row.encode().finish(1));
    })
    .await;
    assert_eq!(notes, Vec::<String>::new());
    problems
}

async fn bent_place(change: impl Fn(&mut Place) + Send + 'static) -> (Vec<String>, Vec<String>) {
    bent(move |txn, home| {
        let key = home.position_key("phone", "room");
        let row = txn.get(key.as_bytes()).unwrap().unwrap();
        let mut position = PlaceRow::decode(&row).unwrap();
        change(&mut position.place);
        txn.put(key.as_bytes(), position.encode().finish(1));
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sound_users_have_no_problem_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let (found, said) = check(&world.partitions);
    assert_eq!(said, (Vec::new(), Vec::new()));
    assert_eq!((found.conversations, found.positions), (3, 1));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_not_as_the_membership_is_found() {
    let (missing, _) = bent(|txn, home| {
        txn.delete(home.conversation_key("room").as_bytes());
    })
    .await;
    assert_eq!(missing, ["the conversation with \"room\" is missing"]);
    let later = bent_conversation(|row| row.membership.joined += 1).await;
    assert_eq!(
        later,
        [
            "the conversation with \"room\" is of another membership",
            "the conversation with \"room\" has not ended, and the user is no member",
        ]
    );
    for (bend, what) in [
        (
            (|row| row.membership.joined -= 1) as fn(&mut ConversationRow),
            "is of another membership",
        ),
        (|row| row.removed = 5, "has ended, and the user is a member"),
        (
            |row| row.marks.read += 1,
            "says something else than the member's row",
        ),
        (
            |row| row.hidden = 3,
            "is hidden from beyond the timeline's head",
        ),
        (
            |row| row.position = 1 << 40,
            "was written beyond the end of the log",
        ),
    ] {
        let found = bent_conversation(bend).await;
        assert_eq!(found, [format!("the conversation with \"room\" {what}")]);
    }
    let (stray, _) = bent(|txn, home| {
        let room = txn.get(home.conversation_key("room").as_bytes());
        let key = home.conversation_key("hall");
        txn.put(key.as_bytes(), room.unwrap().unwrap());
    })
    .await;
    assert_eq!(
        stray,
        ["the conversation with \"hall\" is of a timeline that never was"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_did_not_end_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let home = Home::new("cay");
    let at = world.partitions.place(home.name().as_bytes());
    write(&world.partitions, at, move |txn| {
        let key = home.conversation_key("room");
        let row = txn.get(key.as_bytes()).unwrap().unwrap();
        let mut row = ConversationRow::decode(&row).unwrap();
        assert!(row.removed > 0);
        row.removed = 0;
        txn.put(key.as_bytes(), row.encode().finish(1));
    })
    .await;
    let problem = format!(
        "partition {at}, user \"cay\": the conversation with \"room\" has not ended, and the user is no member"
    );
    assert_eq!(verified(&world.partitions), (vec![problem], Vec::new()));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_relay_has_not_brought_is_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    world.relay.stop();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    world
        .timelines
        .add_members(add(&["cay", "dan"]))
        .await
        .unwrap();
    let remove = RemoveMembers {
        target: Target::from("room"),
        users: vec!["ben".to_owned()],
        announce: None,
    };
    world.timelines.remove_members(remove).await.unwrap();
    let mark = ReadMark {
        target: Target {
            asker: "ada".into(),
            ..Target::from("room")
        },
        read: Some(0),
        received: None,
        force: true,
    };
    let read = world.timelines.set_read(vec![mark]).await;
    assert!(read.iter().all(|(_, one)| one.is_ok()));
    assert_eq!(verified(&world.partitions), (Vec::new(), Vec::new()));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_and_devices_that_contradict_each_other_are_found() {
    let (problems, notes) = bent_place(|place| place.epoch.clear()).await;
    let at = "device \"phone\": the position in \"room\"";
    assert_eq!(problems, [format!("{at} has no epoch")]);
    assert_eq!(notes, Vec::<String>::new());
    let beyond =
        format!("{at} is beyond the head 1: a client said so, or the timeline has lost its end");
    for bend in [(|place| place.after = 2) as fn(&mut Place), |place| {
        place.changes_after = Some(1);
    }] {
        let (problems, notes) = bent_place(bend).await;
        assert_eq!((problems, notes), (Vec::new(), vec![beyond.clone()]));
    }
    let (problems, _) = bent(|txn, home| {
        txn.delete(home.device_key("phone").as_bytes());
    })
    .await;
    assert_eq!(
        problems,
        ["there are positions of \"phone\", which is no device"]
    );
    let (problems, _) = bent(|txn, home| {
        let key = home.device_key("phone");
        let row = DeviceRow::decode(&txn.get(key.as_bytes()).unwrap().unwrap()).unwrap();
        let row = DeviceRow { count: 2, ..row };
        txn.put(key.as_bytes(), row.encode().finish(1));
    })
    .await;
    assert_eq!(problems, ["device \"phone\": 1 positions instead of 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_cursors_beyond_their_logs_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let history = world.partitions.history().to_string();
    write(&world.partitions, PartitionId(1), move |txn| {
        for source in [0, 7] {
            let key = Key::new(tideline_base::ids::TableId(40), &[], 64)
                .number(1)
                .number(source)
                .string(&history);
            let mut row = RowWriter::new(0);
            row.put("$position", ValueRef::Integer(1 << 40));
            txn.put(key.as_bytes(), row.finish(1));
        }
    })
    .await;
    let last = world.partitions.tail(PartitionId(0)).position();
    let expected = [
        format!(
            "partition 1: the relay cursor of target 1 is at {} of partition 0, whose log ends at {last}",
            1_u64 << 40
        ),
        "partition 1: a relay cursor of target 1 is in the log of partition 7, which does not exist"
            .to_owned(),
    ];
    let (problems, notes) = verified(&world.partitions);
    assert_eq!((problems.as_slice(), notes.len()), (&expected[..], 0));
    world.close().await;
}

/// What is said of ada's follow of the room after `bend` wrote at her or at the room.
async fn bent_follow(
    bend: impl FnOnce(&mut Txn<'_>, &Home, &Timelines) + Send + 'static,
    at: &'static str,
) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let target = Target::from("room");
    let patch = SettingsPatch {
        fan_out: Some(Some(FanOut::Write)),
        ..SettingsPatch::default()
    };
    world
        .timelines
        .configure(target, patch, None)
        .await
        .unwrap();
    let found = world.timelines.incarnation(Target::from("room")).await;
    let followed = world.people.follow("ada", "room", found.unwrap(), 0);
    followed.await.unwrap();
    let append = Append {
        timeline: "room".to_owned(),
        asker: "ben".into(),
        messages: vec![AppendOne::default()],
        expect_head: None,
        create: false,
        epoch: None,
    };
    world.timelines.append(append).await.unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let is_back = || async {
        let follows = world.people.follows("ada").await.unwrap();
        let inbox = Target::from(Timelines::inbox_of("ada").as_str());
        let came = world.timelines.get(inbox).await.is_ok();
        came && follows.all()[0].inbox_from != u64::MAX
    };
    while !is_back().await {
        assert!(
            std::time::Instant::now() < until,
            "the relay does not get through"
        );
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(verified(&world.partitions).0, Vec::<String>::new());
    let home = Home::new("ada");
    let place = world.partitions.place(at.as_bytes());
    let timelines = world.timelines.clone();
    write(&world.partitions, place, move |txn| {
        bend(txn, &home, &timelines)
    })
    .await;
    let (problems, _) = verified(&world.partitions);
    world.close().await;
    problems
}

#[allow(clippy::too_many_lines)] // one case after the other
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_and_inboxes_that_are_not_as_the_timelines_say_are_found() {
    fn change(txn: &mut Txn<'_>, home: &Home, change: impl Fn(&mut Follow)) {
        let key = home.follow_key("room");
        let row = txn.get(key.as_bytes()).unwrap().unwrap();
        let mut follow = Follow::of("room".to_owned(), &row).unwrap();
        change(&mut follow);
        txn.put(key.as_bytes(), follow.encode().finish(1));
    }
    let inbox = "$inbox/ada";
    for (bend, what) in [
        (
            Box::new(|txn: &mut Txn<'_>, home: &Home, _: &Timelines| {
                change(txn, home, |one| one.number += 1)
            }) as Box<dyn Fn(&mut Txn<'_>, &Home, &Timelines) + Send>,
            "is another one than the timeline knows",
        ),
        (
            Box::new(|txn: &mut Txn<'_>, home: &Home, _: &Timelines| {
                change(txn, home, |one| one.inbox_from = 1)
            }),
            "takes messages from the inbox that are not there",
        ),
        (
            Box::new(|txn: &mut Txn<'_>, home: &Home, _: &Timelines| {
                change(txn, home, |one| one.from = 9)
            }),
            "begins beyond the timeline's head",
        ),
        (
            Box::new(|txn: &mut Txn<'_>, home: &Home, timelines: &Timelines| {
                // The message once more.
                let follow = txn
                    .get(home.follow_key("room").as_bytes())
                    .unwrap()
                    .unwrap();
                let follow = Follow::of("room".to_owned(), &follow).unwrap();
                let post = Post {
                    timeline: "room".to_owned(),
                    incarnation: follow.incarnation,
                    sequence: 2,
                    timestamp: 0,
                    version: 0,
                };
                let mut entry = timelines.inbox_entry(&post);
                let at = timelines.partition_of(home.name());
                let writer = timelines.inbox_writer(at);
                writer.put(txn, &Inbox::of("ada"), &mut entry).unwrap();
            }),
            "leads to a message that came before",
        ),
    ] {
        let problems = bent_follow(bend, inbox).await.join("\n");
        assert!(problems.contains(what), "{what}: {problems}");
    }
    let problems = bent_follow(
        |txn, _, _| {
            let followers = Key::new(TableId(20), &[], 1);
            let (from, to) = (followers.clone().below_all(), followers.above_all());
            let bounds = (
                Bound::Included(from.as_bytes()),
                Bound::Excluded(to.as_bytes()),
            );
            let row = txn.range(bounds.0, bounds.1, Direction::Forward).next();
            let (key, _) = row.unwrap().unwrap();
            txn.delete(key);
        },
        "room",
    )
    .await
    .join("\n");
    assert!(
        problems.contains("is not known to the timeline"),
        "{problems}"
    );
    assert!(
        problems.contains("0 followers, the head says 1"),
        "{problems}"
    );
}
