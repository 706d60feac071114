//! What `verify` says of rows that were bent on purpose.
//!
//! Owns: one bent timeline for each rule. Promises: every rule finds its damage, and a whole timeline has none. Must
//! not: damage files.

use std::sync::Arc;

use super::super::rows::head::{HAS_REACTIONS, HAS_SETTINGS, HeadRow, MEMBERS_ONLY};
use super::super::rows::stored::{IdRow, change_row};
use super::super::rows::tables::{DUE, Name, id_columns};
use super::commands::directory;
use crate::timeline::time::{Due, Kind, due_key, expiry_columns};
use crate::timeline::{
    AddMembers, Append, AppendOne, EntryLimits, Limits, MemberRow, NewMember, React, RemoveMembers,
    Retention, SettingsPatch, StoredTimelines, Target, Timelines, UpdateMessage,
};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;
use tideline_model::{Direction, Value, ValueRef};
use tideline_store::partition::{Options, Partitions, Purpose, Txn};
use tideline_table::{Key, RowWriter, scan, split_key};

const AT: PartitionId = PartitionId(0);

/// The problems of a timeline of six messages after `bend` wrote into its rows. The fourth message was edited, the
/// fifth pinned, and it has two reactions; the sixth expires, and a seventh is scheduled. Ada is a member, ben was one.
fn with_timeline(bend: impl FnOnce(&mut Txn<'_>, &Name, HeadRow) + Send + 'static) -> Vec<String> {
    let home = directory();
    let limits = Limits {
        message_id_window_ms: 1_000,
        message_id_window_count: 100,
        heads_max: 10,
    };
    let now_ms = Clock::system().now_ms();
    let clock = Arc::new(Clock::fixed(now_ms));
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
        asker: "u".into(),
        messages: vec![one(n)],
        expect_head: None,
        create: true,
        epoch: None,
    };
    let edit = UpdateMessage {
        asker: Asker::default(),
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
            clock.set(now_ms + n as u64);
            timelines.append(append(n)).await.unwrap();
        }
        timelines.update_message(edit).await.unwrap();
        let members = ["ada", "ben"].map(|user| NewMember {
            user: user.to_owned(),
            role: None,
            attributes: Vec::new(),
            visible_from: None,
            read: None,
        });
        let add = AddMembers {
            target: Target::from("room"),
            members: members.into(),
            history: None,
            announce: None,
        };
        timelines.add_members(add).await.unwrap();
        let remove = RemoveMembers {
            target: Target::from("room"),
            users: vec!["ben".to_owned()],
            announce: None,
        };
        timelines.remove_members(remove).await.unwrap();
        let kept = Retention {
            age_ms: Some(1 << 40),
            bytes: Some(6_400),
            ..Retention::default()
        };
        let patch = SettingsPatch {
            retention: Some(Some(kept)),
            members_only: Some(Some(false)),
            ..SettingsPatch::default()
        };
        let configured = timelines.configure(Target::from("room"), patch, None);
        configured.await.unwrap();
        let later = AppendOne {
            deliver_at: Some(now_ms + 1_000_000),
            ..one(7)
        };
        let short = AppendOne {
            expires_in_ms: Some(2_000_000),
            ..one(6)
        };
        for one in [short, later] {
            let append = Append {
                messages: vec![one],
                ..append(0)
            };
            timelines.append(append).await.unwrap();
        }
        assert!(timelines.pin("room".into(), 5, true).await.unwrap());
        for user in ["ada", "ben"] {
            let react = React {
                target: Target {
                    asker: user.into(),
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
    let found = StoredTimelines::new(&view, partitions.origin())
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
    let expected = [
        "timeline \"room\": message 3 is missing, 4 is next",
        "timeline \"room\": message 4 has another ordinal than the next",
        "timeline \"room\": 6 rows of senders instead of 5",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn a_head_that_promises_more_or_less_than_there_is_is_found() {
    for (last, what) in [
        (8, "messages 7 to 8 are missing"),
        (4, "2 messages are beyond what the head says"),
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
        "timeline \"room\": a message ID leads to 9, beyond 6",
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

/// The same problems without the timeline's name.
fn found(bend: impl FnOnce(&mut Txn<'_>, &Name, HeadRow) + Send + 'static) -> Vec<String> {
    let problems = with_timeline(bend).into_iter();
    let plain = |text: String| text.replace("timeline \"room\": ", "");
    problems.map(plain).collect()
}

#[test]
fn settings_that_contradict_the_head_are_found() {
    let missing = found(|txn, name, head| {
        txn.delete(bytes(&name.settings_key(head.incarnation)));
    });
    assert_eq!(missing, ["its settings are missing"]);
    let malformed = found(|txn, name, head| {
        let mut row = RowWriter::new(0);
        row.put("$only", ValueRef::String("yes"));
        txn.put(bytes(&name.settings_key(head.incarnation)), row.finish(1));
    });
    assert_eq!(malformed, ["its settings can't be read"]);
    for (flags, what) in [
        (0, "there are settings of which the head does not know"),
        (
            HAS_SETTINGS | MEMBERS_ONLY,
            "the head and the settings differ in who may read",
        ),
    ] {
        let found = found(move |txn, name, head| {
            let flags = head.flags & HAS_REACTIONS | flags;
            let head = HeadRow { flags, ..head };
            txn.put(bytes(&name.head_key()), head.encode().finish(1));
        });
        assert_eq!(found, [what]);
    }
}

#[test]
fn members_and_changes_that_contradict_each_other_are_found() {
    // 1 ada joined, 2 ben joined, 3 ben left, 4 the right to read.
    let change = |version: u64| {
        move |txn: &mut Txn<'_>, name: &Name, head: HeadRow| {
            let key = name.member_change_key(head.incarnation, version);
            txn.delete(bytes(&key));
        }
    };
    assert_eq!(found(change(1)), ["member \"ada\" has no change 1"]);
    assert_eq!(found(change(2)), ["changes 2 to 2 of members are missing"]);
    let gone = found(change(3));
    let expected = [
        "changes 3 to 3 of members are missing",
        "change 2 of members leads to \"ben\", who is none",
    ];
    assert_eq!(gone, expected);
    assert_eq!(found(change(4)), ["changes 4 to 4 of members are missing"]);
    let beyond = found(|txn, name, head| {
        let row = txn.get(name.member_change_key(head.incarnation, 4).as_bytes());
        let key = name.member_change_key(head.incarnation, 5);
        txn.put(bytes(&key), row.unwrap().unwrap());
    });
    assert_eq!(beyond, ["a change of members, 5, is beyond version 4"]);
    let other = found(|txn, name, head| {
        let key = name.member_key(head.incarnation, "ada");
        let row = MemberRow::load(txn, name, &head, "ada").unwrap().unwrap();
        let row = MemberRow { version: 4, ..row };
        txn.put(bytes(&key), row.encode().finish(1));
    });
    assert_eq!(
        other,
        ["member \"ada\" is of version 4, the last change of it 1"]
    );
    let stray = found(|txn, name, head| {
        let row = txn.get(name.member_key(head.incarnation, "ada").as_bytes());
        let key = name.member_key(head.incarnation, "zoe");
        txn.put(bytes(&key), row.unwrap().unwrap());
    });
    assert_eq!(
        stray,
        ["2 members instead of 1", "member \"zoe\" has no change 1"]
    );
}

/// The only due row of a kind.
fn due_of(txn: &Txn<'_>, kind: Kind) -> Due {
    let all = || Key::new(DUE, &[], 9).number(kind as u64);
    let (from, to) = (all().below_all(), all().above_all());
    let rows = scan(txn, &from, &to, Direction::Forward);
    let rows: Vec<_> = rows.map(|row| row.unwrap().0).collect();
    assert_eq!(rows.len(), 1);
    Due::of(split_key(&rows[0]).unwrap().1).unwrap()
}

#[test]
fn due_rows_that_are_missing_are_found() {
    for (kind, what) in [
        (Kind::Deliver, "what is scheduled for AT has no due row"),
        (Kind::Expire, "message 6 has no due row to expire by"),
        (Kind::Trim, "there is no due row to trim it by at AT"),
    ] {
        let (at, is_at) = std::sync::mpsc::channel();
        let found = found(move |txn, name, _| {
            let due = due_of(txn, kind);
            txn.delete(bytes(&due_key(kind, due.at_ms, name, &due.columns)));
            at.send(due.at_ms).unwrap();
        });
        let at = is_at.recv().unwrap().to_string();
        assert_eq!(found, [what.replace("AT", &at)]);
    }
}

#[test]
fn due_rows_that_lead_nowhere_are_found() {
    for (kind, what) in [
        (Kind::Deliver, "no message that is scheduled for then"),
        (Kind::Expire, "a message that does not expire then"),
        (Kind::Trim, "a timeline that is not to be trimmed then"),
    ] {
        let found = found(move |txn, name, _| {
            let due = due_of(txn, kind);
            let key = due_key(kind, 5, name, &due.columns);
            txn.put(bytes(&key), RowWriter::new(0).finish(1));
        });
        assert_eq!(found, [format!("the due row for 5 leads to {what}")]);
    }
    let beyond = found(|txn, name, head| {
        let columns = expiry_columns(head.incarnation, 7);
        let key = due_key(Kind::Expire, 5, name, &columns);
        txn.put(bytes(&key), RowWriter::new(0).finish(1));
    });
    assert_eq!(
        beyond,
        ["the due row for 5 leads to a message beyond the head"]
    );
    let endless = found(|txn, name, head| {
        let columns = expiry_columns(head.incarnation, 0);
        let key = due_key(Kind::Trim, 5, name, &columns);
        txn.put(bytes(&key), RowWriter::new(0).finish(1));
    });
    assert_eq!(
        endless,
        ["the due row for 5 leads to a stream that does not end then"]
    );
    let never = with_timeline(|txn, _, head| {
        let columns = expiry_columns(head.incarnation, 1);
        let key = due_key(Kind::Expire, 5, &Name::new("hall"), &columns);
        txn.put(bytes(&key), RowWriter::new(0).finish(1));
    });
    assert_eq!(
        never,
        ["timeline \"hall\": the due row for 5 leads to a timeline that never was"]
    );
}

#[test]
fn producers_that_are_not_counted_are_found() {
    let uncounted = found(|txn, name, head| {
        let key = name.stream_key(head.incarnation, "p");
        txn.put(bytes(&key), RowWriter::new(0).finish(1));
    });
    assert_eq!(
        uncounted,
        ["1 producers are there, and the stream counts 0"]
    );
}

#[test]
fn scheduled_messages_and_sums_of_bytes_that_contradict_are_found() {
    let unnamed = found(|txn, name, head| {
        let id = name.id_key(head.incarnation, &id_columns("u", "m7"));
        txn.delete(bytes(&id));
    });
    assert_eq!(unnamed.len(), 1);
    assert!(
        unnamed[0].ends_with("has not its message ID"),
        "{unnamed:?}"
    );
    let gone = found(|txn, name, _| {
        txn.delete(bytes(&name.scheduled_key(&id_columns("u", "m7"))));
    });
    assert_eq!(
        gone[0],
        "a message ID leads to a scheduled message that is not there"
    );
    assert!(gone[1].ends_with("leads to no message that is scheduled for then"));
    let sum = found(|txn, name, head| {
        let mut row = RowWriter::new(0);
        row.put("$sum", ValueRef::Integer(1 << 40));
        txn.put(bytes(&name.mark_key(head.incarnation, 2)), row.finish(1));
    });
    assert_eq!(
        sum[0],
        "the sum of bytes at 2 is not between those beside it"
    );
}
