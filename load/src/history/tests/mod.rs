//! Mutation tests of the checker: a good history passes; each way of breaking it is reported, at every place.
//!
//! Owns: the proof that a silent checker means a good run. Must not: share code with what it tests beyond its types.

use std::collections::HashSet;

use super::*;

const LENGTH: u64 = 40;

fn good() -> History {
    let mark = |n: u64| Mark {
        sequence: n,
        timestamp: 1_000 + n / 3,
        id: format!("m{n}"),
        digest: n * 7919,
    };
    let sent = (1..=LENGTH)
        .map(|n| Sent {
            id: format!("m{n}"),
            writer: n as usize % 3,
            digest: n * 7919,
            at: Duration::from_nanos(n * 10),
            ack: (n % 5 != 0).then_some(Ack {
                sequence: n,
                timestamp: 1_000 + n / 3,
                at: Duration::from_nanos(n * 10 + 35),
            }),
            refused: false,
        })
        .chain([Sent {
            id: "never answered".into(),
            writer: 0,
            digest: 1,
            at: Duration::from_nanos(500),
            ack: None,
            refused: false,
        }])
        .collect();
    History {
        name: "t".into(),
        sent,
        stored: (1..=LENGTH).map(mark).collect(),
        head: LENGTH,
        watched: vec![("subscriber".into(), (1..=LENGTH).map(mark).collect())],
    }
}

/// The rules that are broken, beside the one that a good history breaks on purpose.
fn rules(history: &History) -> HashSet<Rule> {
    let rules = check(history).into_iter().map(|(rule, _)| rule);
    rules.filter(|rule| *rule != Rule::Unanswered).collect()
}

fn at_each_place(broken: Rule, change: impl Fn(&mut History, usize)) {
    for place in 0..LENGTH as usize - 1 {
        let mut history = good();
        change(&mut history, place);
        let found = rules(&history);
        assert!(
            found.contains(&broken),
            "{broken:?} not found at {place}: {found:?}"
        );
    }
}

#[test]
fn a_good_history_passes() {
    let history = good();
    assert!(rules(&history).is_empty(), "{:?}", check(&history));
}

#[test]
fn each_message_that_was_never_acknowledged_is_reported() {
    let mut history = good();
    assert_eq!(check(&history).len(), LENGTH as usize / 5 + 1);
    for sent in &mut history.sent {
        sent.ack = None;
    }
    let faults = check(&history);
    let unanswered = |(rule, _): &(Rule, String)| *rule == Rule::Unanswered;
    assert!(faults.len() == history.sent.len() && faults.iter().all(unanswered));
}

#[test]
fn a_dropped_message_is_a_hole() {
    at_each_place(Rule::Hole, |history, place| {
        history.stored.remove(place);
    });
}

#[test]
fn a_dropped_and_closed_up_message_is_lost_or_seen_missing() {
    for place in 0..LENGTH as usize - 1 {
        let mut history = good();
        history.stored.remove(place);
        for mark in &mut history.stored[place..] {
            mark.sequence -= 1;
        }
        history.head -= 1;
        let found = rules(&history);
        assert!(found.contains(&Rule::Subscriber), "{found:?}");
        // The last acknowledged one has only an unanswered one behind it, which got no number.
        assert!(found.contains(&Rule::Moved) || place == 38, "{found:?}");
        let acked = good().sent[place].ack.is_some();
        assert_eq!(found.contains(&Rule::Lost), acked);
    }
}

#[test]
fn the_last_message_dropped_is_noticed() {
    let mut history = good();
    history.stored.pop();
    assert!(rules(&history).contains(&Rule::Hole));
    history.head -= 1;
    assert_eq!(rules(&history), HashSet::from([Rule::Subscriber]));
}

#[test]
fn a_duplicated_message_is_reported() {
    at_each_place(Rule::OutOfOrder, |history, place| {
        let twin = history.stored[place].clone();
        history.stored.insert(place + 1, twin);
    });
    at_each_place(Rule::Doubled, |history, place| {
        let mut twin = history.stored[place].clone();
        twin.sequence = LENGTH + 1;
        twin.timestamp = u64::MAX;
        history.head += 1;
        history.stored.push(twin);
    });
}

#[test]
fn two_swapped_messages_are_reported() {
    at_each_place(Rule::OutOfOrder, |history, place| {
        history.stored.swap(place, place + 1);
    });
    // The numbers in order, the contents swapped.
    at_each_place(Rule::Subscriber, |history, place| {
        let (low, high) = (
            history.stored[place].clone(),
            history.stored[place + 1].clone(),
        );
        history.stored[place] = Mark {
            sequence: low.sequence,
            ..high.clone()
        };
        history.stored[place + 1] = Mark {
            sequence: high.sequence,
            ..low
        };
    });
}

#[test]
fn a_writers_order_is_held_without_acknowledgements() {
    let mut history = good();
    history.watched.clear();
    for sent in &mut history.sent {
        sent.ack = None;
    }
    assert!(rules(&history).is_empty());
    history.stored.swap(3, 6);
    history.stored[3].sequence = 4;
    history.stored[6].sequence = 7;
    history.stored[3].timestamp = history.stored[4].timestamp;
    history.stored[6].timestamp = history.stored[5].timestamp;
    assert_eq!(rules(&history), HashSet::from([Rule::OutOfOrder]));
    for sent in &mut history.sent {
        sent.refused = true;
    }
    assert!(
        rules(&history).is_empty(),
        "a refused message may stand anywhere"
    );
}

#[test]
fn what_was_told_before_a_send_stands_before_it() {
    let mut history = good();
    history.watched.clear();
    // The last one was answered long before the first one was sent.
    let last = history.sent[LENGTH as usize - 2]
        .ack
        .as_mut()
        .expect("acknowledged");
    last.at = Duration::from_nanos(5);
    assert_eq!(rules(&history), HashSet::from([Rule::OutOfOrder]));
}

#[test]
fn a_renumbered_message_is_reported() {
    at_each_place(Rule::Hole, |history, place| {
        history.stored[place].sequence += 1_000;
    });
    at_each_place(Rule::Hole, |history, _| history.head += 1);
}

#[test]
fn an_altered_message_is_reported() {
    at_each_place(Rule::Altered, |history, place| {
        history.stored[place].digest ^= 1
    });
    at_each_place(Rule::Foreign, |history, place| {
        history.stored[place].id.push('x')
    });
    at_each_place(Rule::Subscriber, |history, place| {
        history.watched[0].1[place].digest ^= 1;
    });
    at_each_place(Rule::Subscriber, |history, place| {
        history.watched[0].1[place].timestamp += 1;
    });
}

#[test]
fn a_wrong_acknowledgement_is_reported() {
    for place in (0..LENGTH as usize).filter(|place| (place + 1) % 5 != 0) {
        let mut history = good();
        let ack = history.sent[place].ack.as_mut().expect("acknowledged");
        // Mostly that of another acknowledgement.
        ack.sequence += 1;
        assert!(rules(&history).contains(&Rule::Moved));
    }
}

#[test]
fn a_subscriber_that_missed_repeated_or_swapped_is_reported() {
    at_each_place(Rule::Subscriber, |history, place| {
        history.watched[0].1.remove(place);
    });
    at_each_place(Rule::Subscriber, |history, place| {
        let twin = history.watched[0].1[place].clone();
        history.watched[0].1.insert(place, twin);
    });
    at_each_place(Rule::Subscriber, |history, place| {
        history.watched[0].1.swap(place, place + 1);
    });
    let mut history = good();
    history.watched[0].1.pop();
    assert_eq!(rules(&history), HashSet::from([Rule::Subscriber]));
    let mut history = good();
    let twin = history.watched[0].1[LENGTH as usize - 1].clone();
    history.watched[0].1.push(twin);
    assert_eq!(rules(&history), HashSet::from([Rule::Subscriber]));
}

#[test]
fn the_digest_does_not_care_for_the_order_of_names_but_for_all_else() {
    let a: Value = serde_json::from_str(r#"{"a":1,"b":"x"}"#).expect("JSON");
    let b: Value = serde_json::from_str(r#"{"b":"x","a":1}"#).expect("JSON");
    let c: Value = serde_json::from_str(r#"{"b":"x","a":1.0}"#).expect("JSON");
    assert_eq!(
        digest(Some("u"), "i", Some(&a)),
        digest(Some("u"), "i", Some(&b))
    );
    assert_ne!(
        digest(Some("u"), "i", Some(&a)),
        digest(Some("u"), "i", Some(&c))
    );
    assert_ne!(
        digest(Some("u"), "i", Some(&a)),
        digest(Some("v"), "i", Some(&a))
    );
    assert_ne!(
        digest(Some("u"), "i", Some(&a)),
        digest(Some("u"), "j", Some(&a))
    );
    assert_ne!(
        digest(Some("u"), "i", Some(&a)),
        digest(Some("u"), "i", None)
    );
}
