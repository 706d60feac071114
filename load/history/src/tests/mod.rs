//! Good histories pass; each way of breaking one is found under its name.
//!
//! Owns: the proof that a silent checker means a good history: over seeds, and at places that the seed chooses.

mod by_hand;
mod model;

use self::model::{Random, good};
use crate::{
    Anomaly, Answer, Call, Checker, Conversation, Event, Final, Message, Place, Report, Stored,
    What,
};

/// Each is a history, and one more for each mutation.
const SEEDS: u64 = 60;

type History = (Vec<Event>, Vec<Final>);

/// Checks records, each of which is a line: of file 0 what is stored, of file 1 the events.
fn check((events, stored): &History) -> Report {
    let place = |file, at| Place {
        file,
        line: at as u32 + 1,
    };
    let mut finals = Stored::new();
    for (at, record) in stored.iter().enumerate() {
        finals.take(record, place(0, at)).expect("a dump");
    }
    events.iter().for_each(|event| finals.expect(event));
    let mut checker = Checker::new(finals);
    for (at, event) in events.iter().enumerate() {
        checker
            .event(event, place(1, at))
            .expect("an event that fits");
    }
    checker.end()
}

/// One of those that `choose` finds, if there is any.
fn one<'h, T, R>(
    random: &mut Random,
    all: &'h mut [T],
    choose: impl Fn(&'h mut T) -> Option<R>,
) -> Option<R> {
    let mut found: Vec<R> = all.iter_mut().filter_map(choose).collect();
    let at = random.below(found.len());
    (at < found.len()).then(|| found.swap_remove(at))
}

fn stored(record: &mut Final) -> Option<&mut Message> {
    match record {
        Final::Message { message, .. } => Some(message),
        _ => None,
    }
}

fn list(record: &mut Final) -> Option<&mut Vec<Conversation>> {
    match record {
        Final::Conversations { conversations, .. } => Some(conversations),
        _ => None,
    }
}

fn pushed(Event(.., what): &mut Event) -> Option<&mut Vec<Message>> {
    match what {
        What::Push(_, messages) => Some(messages),
        _ => None,
    }
}

/// The answer to some operation that is such a call alone.
fn answer<'h>(
    random: &mut Random,
    events: &'h mut [Event],
    is_such: fn(&Call) -> bool,
) -> Option<&'h mut What> {
    let such = events
        .iter()
        .filter_map(|Event(_, client, what)| match what {
            What::Invoke(op, calls) if calls.len() == 1 && is_such(&calls[0]) => {
                Some((client.clone(), *op))
            }
            _ => None,
        });
    let such = Vec::from_iter(such);
    one(random, events, |Event(_, client, what)| match what {
        What::Ok(op, _) if such.contains(&(client.clone(), *op)) => Some(what),
        _ => None,
    })
}

fn first(what: &mut What) -> Option<&mut Answer> {
    match what {
        What::Ok(_, answers) => answers.first_mut(),
        _ => None,
    }
}

const MUTATIONS: usize = 22;

#[allow(clippy::too_many_lines)] // one arm for each way
/// Breaks a history in one of the ways, if it has what is broken. Returns the name that this must be found under.
fn mutate(way: usize, (events, all): &mut History, random: &mut Random) -> Option<Anomaly> {
    let is_append: fn(&Call) -> bool = |call| matches!(call, Call::Append { .. });
    let is_read: fn(&Call) -> bool = |call| matches!(call, Call::Read { .. });
    let is_list: fn(&Call) -> bool = |call| matches!(call, Call::List { .. });
    let several = |event| pushed(event).filter(|messages| messages.len() > 1);
    Some(match way {
        0 => {
            let place = all.iter_mut().position(|record| {
                let message = stored(record);
                message.is_some_and(|message| random.below(20) == message.sequence as usize % 20)
            });
            all.remove(place?);
            Anomaly::Gap
        }
        1 => {
            let is_same = |pair: &[Final]| {
                let [
                    Final::Message { message: one, .. },
                    Final::Message { message: other, .. },
                ] = pair
                else {
                    return false;
                };
                one.timestamp == other.timestamp
            };
            let at = all.windows(2).position(is_same)?;
            all.swap(at, at + 1);
            Anomaly::Reordered
        }
        2 => {
            one(random, all, stored)?.sequence += 1_000;
            Anomaly::Gap
        }
        3 => {
            one(random, all, |record| stored(record)?.entry.as_mut())?["text"] = "y".into();
            Anomaly::Corrupt
        }
        4 => {
            one(random, all, stored)?.message_id.push('x');
            Anomaly::Unexpected
        }
        5 => {
            one(random, all, |record| {
                stored(record).filter(|one| one.sequence > 1)
            })?
            .timestamp = 1;
            Anomaly::TimeReversal
        }
        6 => {
            let mut twin = all.clone();
            one(random, &mut twin, stored)?.timestamp += 1;
            all.extend(twin);
            Anomaly::Diverged
        }
        7 => {
            *first(answer(random, events, is_append)?)?
                .sequence
                .as_mut()? += 1_000;
            Anomaly::Misplaced
        }
        8 => {
            *first(answer(random, events, is_append)?)?
                .timestamp
                .as_mut()? += 1;
            Anomaly::Corrupt
        }
        9 => {
            answer(random, events, |call| {
                matches!(
                    call,
                    Call::Append {
                        expect_head: Some(_),
                        ..
                    }
                )
            })?;
            for Event(.., what) in events {
                if let What::Invoke(_, calls) = what
                    && let [
                        Call::Append {
                            expect_head: Some(head),
                            ..
                        },
                    ] = &mut calls[..]
                {
                    *head += 1;
                }
            }
            Anomaly::WrongCondition
        }
        10 => {
            let what = answer(random, events, is_append)?;
            let What::Ok(op, _) = what else { return None };
            *what = What::Fail(*op, "busy".into());
            Anomaly::G1a
        }
        11 => {
            let at = events.last()?.0;
            let client = || "new".to_owned();
            let calls = vec![Call::Read {
                timeline: "b".into(),
                from: 1_000,
            }];
            events.push(Event(at, client(), What::Invoke(1, calls)));
            let answer = Answer {
                head: Some(0),
                ..Answer::default()
            };
            events.push(Event(at, client(), What::Ok(1, vec![answer])));
            Anomaly::Stale
        }
        12 => {
            let messages = &mut first(answer(random, events, is_read)?)?.messages;
            (messages.len() > 2).then(|| messages.remove(1))?;
            Anomaly::Gap
        }
        13 => {
            let messages = one(random, events, several)?;
            // What is missing at the end of a subscription may come with the next one.
            messages.remove(random.below(messages.len() - 1));
            Anomaly::Gap
        }
        14 => {
            let messages = one(random, events, pushed)?;
            messages.push(messages[random.below(messages.len())].clone());
            Anomaly::Duplicate
        }
        15 => {
            one(random, events, several)?.swap(0, 1);
            Anomaly::Reordered
        }
        16 => {
            one(random, events, |event| pushed(event)?.first_mut())?.entry = Some("other".into());
            Anomaly::Corrupt
        }
        17 => {
            one(random, events, |event| pushed(event)?.first_mut())?
                .message_id
                .push('x');
            Anomaly::Lost
        }
        18 => {
            one(random, all, |record| list(record)?.first_mut())?.unread += 1;
            Anomaly::WrongUnread
        }
        19 => {
            first(answer(random, events, is_list)?)?
                .conversations
                .first_mut()?
                .unread += 1_000;
            Anomaly::WrongUnread
        }
        20 => {
            one(random, all, |record| list(record)?.first_mut())?.read += 1_000;
            Anomaly::WrongMark
        }
        _ => {
            let is_open = |Event(.., what): &Event| matches!(what, What::Unknown(..));
            (!events.iter().any(is_open)).then_some(())?;
            one(random, all, |record| {
                list(record).filter(|all| !all.is_empty())
            })?
            .pop();
            Anomaly::WrongList
        }
    })
}

#[test]
fn good_histories_pass_and_every_mutation_is_found_under_its_name() {
    let mut made = [0; MUTATIONS];
    for seed in 0..SEEDS {
        let history = good(seed);
        let report = check(&history);
        assert_eq!(report.total(), 0, "seed {seed}: {report}");
        for (way, made) in made.iter_mut().enumerate() {
            let mut broken = history.clone();
            let Some(anomaly) = mutate(way, &mut broken, &mut Random(seed)) else {
                continue;
            };
            *made += 1;
            let report = check(&broken);
            let found = report
                .violations
                .iter()
                .find(|found| found.anomaly == anomaly);
            let is_proven = found.is_some_and(|found| !found.proof.is_empty());
            assert!(is_proven, "seed {seed}, way {way}, {anomaly:?}: {report}");
        }
    }
    assert!(made.iter().all(|made| *made > 0), "{made:?}");
}
