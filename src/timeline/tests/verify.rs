//! What `verify` says of rows that were bent on purpose.
//!
//! Owns: one bent timeline for each rule. Promises: every rule finds its damage, and a whole timeline has none. Must
//! not: damage files.

use std::sync::Arc;

use super::commands::directory;
use crate::ids::{Clock, PartitionId};
use crate::model::Value;
use crate::partition::{Options, Partitions, Purpose, Txn};
use crate::table::{Key, RowWriter};
use crate::timeline::head::HeadRow;
use crate::timeline::stored::{IdRow, change_row};
use crate::timeline::tables::{Name, id_columns};
use crate::timeline::{
    Append, AppendOne, EntryLimits, Limits, React, StoredTimelines, Target, Timelines,
    UpdateMessage,
};

const AT: PartitionId = PartitionId(0);

/// The problems of a timeline of five messages after `bend` wrote into its rows. The fourth message was edited, the
/// fifth pinned, and it has two reactions.
fn with_timeline(bend: impl FnOnce(&mut Txn<'_>, &Name, HeadRow) + Send + 'static) -> Vec<String> {
    let home = directory();
    let limits = Limits {
        message_id_window_ms: 1_000,
        message_id_window_count: 100,
        heads_max: 10,
    };
    let clock = Arc::new(Clock::fixed(1_000_000));
    let rules = Timelines::rules(&limits);
    let options = Options::default();
    let partitions = Partitions::open(home.path(), options, rules, Arc::clone(&clock)).unwrap();
    let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
    let one = |n: i64| AppendOne {
        entry: vec![("n".to_owned(), Value::Integer(n))],
        message_id: Some(format!("m{n}")),
        ..AppendOne::default()
    };
    let append = |n: i64| Append {
        timeline: "room".to_owned(),
        sender: "u".to_owned(),
        messages: vec![one(n)],
        expect_head: None,
        create: true,
        epoch: None,
    };
    let edit = UpdateMessage {
        user: String::new(),
        timeline: "room".to_owned(),
        sequence: 4,
        set: vec![("n".to_owned(), Value::Integer(40))],
        remove: Vec::new(),
        expect_change: None,
        epoch: None,
        limits: EntryLimits {
            entry_bytes_max: 1_000,
            entry_names_max: 10,
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        for n in 1..=5 {
            clock.set(1_000_000 + n as u64);
            timelines.append(append(n)).await.unwrap();
        }
        timelines.update_message(edit).await.unwrap();
        assert!(timelines.pin("room".into(), 5, true).await.unwrap());
        for user in ["ada", "ben"] {
            let react = React {
                target: Target {
                    user: user.to_owned(),
                    ..Target::from("room")
                },
                sequence: 5,
                reaction: "+1".to_owned(),
                adds: true,
            };
            timelines.react(react).await.unwrap();
        }
        let bent = partitions.submit::<_, (), _>(Purpose::Adds, AT, 0, move |txn| {
            let name = Name::new("room");
            let head = txn.get(name.head_key().as_bytes()).unwrap().unwrap();
            bend(txn, &name, HeadRow::decode(&head).unwrap());
            Ok(())
        });
        bent.await.unwrap();
    });
    partitions.settle(AT);
    let view = partitions.view(AT).unwrap();
    let mut problems = Vec::new();
    let found = StoredTimelines::new(&view, AT, partitions.history())
        .verify(&mut |problem| problems.push(problem))
        .unwrap();
    assert_eq!(found.timelines, 1);
    drop(view);
    runtime.block_on(partitions.close());
    problems
}

fn bytes(key: &Key) -> Vec<u8> {
    key.as_bytes().to_vec()
}

#[test]
fn a_sound_timeline_has_no_problem() {
    assert_eq!(with_timeline(|_, _, _| ()), Vec::<String>::new());
}

#[test]
fn a_hole_is_found() {
    let problems = with_timeline(|txn, name, head| {
        txn.delete(bytes(&name.message_key(head.incarnation, 3)));
    });
    assert_eq!(
        problems,
        ["timeline \"room\": message 3 is missing, 4 is next"]
    );
}

#[test]
fn a_head_that_promises_more_or_less_than_there_is_is_found() {
    for (last, what) in [
        (7, "messages 6 to 7 are missing"),
        (4, "1 messages are beyond what the head says"),
        (4, "1 pins lead to no message"),
        (4, "2 reactions are to no message"),
    ] {
        let problems = with_timeline(move |txn, name, head| {
            let head = HeadRow { last, ..head };
            txn.put(bytes(&name.head_key()), head.encode().finish(1));
        });
        assert!(
            problems.contains(&format!("timeline \"room\": {what}")),
            "{problems:?}"
        );
    }
}

#[test]
fn rows_that_lead_nowhere_are_found() {
    let problems = with_timeline(|txn, name, head| {
        txn.delete(bytes(&name.change_key(head.incarnation, 1)));
        txn.put(
            bytes(&name.change_key(head.incarnation, 2)),
            change_row(1).finish(1),
        );
        let id = name.id_key(head.incarnation, &id_columns("u", "m2"));
        txn.put(bytes(&id), IdRow::encode(9, 1).finish(1));
    });
    let expected = [
        "timeline \"room\": change 1 of message 4 is not in its place",
        "timeline \"room\": change 2 leads to message 1, which does not say so",
        "timeline \"room\": a message ID leads to 9, beyond 5",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn time_that_falls_and_changes_beyond_the_head_are_found() {
    let problems = with_timeline(|txn, name, head| {
        let first = txn.get(name.message_key(head.incarnation, 1).as_bytes());
        txn.put(
            bytes(&name.message_key(head.incarnation, 3)),
            first.unwrap().unwrap(),
        );
        let head = HeadRow { change: 0, ..head };
        txn.put(bytes(&name.head_key()), head.encode().finish(1));
    });
    let expected = [
        "timeline \"room\": message 3 is older than the one before it",
        "timeline \"room\": message 4 has change 1, beyond 0",
        "timeline \"room\": message 5 has change 4, beyond 0",
        "timeline \"room\": 2 changes are beyond what the head says",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn marks_that_contradict_their_messages_are_found() {
    let problems = with_timeline(|txn, name, head| {
        let inc = head.incarnation;
        txn.delete(bytes(&name.pin_key(inc, 5)));
        txn.put(bytes(&name.pin_key(inc, 2)), RowWriter::new(0).finish(1));
        txn.delete(bytes(&name.reaction_keys(inc, 5, "+1").string("ada")));
        let row = txn.get(name.reaction_keys(inc, 5, "+1").string("ben").as_bytes());
        let stray = name.reaction_keys(inc, 3, "+1").string("cleo");
        txn.put(bytes(&stray), row.unwrap().unwrap());
    });
    let expected = [
        "timeline \"room\": message 2 says pinned = false, the list of pins true",
        "timeline \"room\": message 3 has reactions without a sum",
        "timeline \"room\": message 5 says pinned = true, the list of pins false",
        "timeline \"room\": the sum of reactions \"+1\" to message 5 is not that of the 1 users",
    ];
    assert_eq!(problems, expected);
}
