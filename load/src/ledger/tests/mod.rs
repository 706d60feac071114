//! What the ledger and its intakes make of answers and pushes, fed without a connection.
//!
//! Owns: a planted fault for each of their checks. Promises: the texts are as a server sends them. Must not: open a
//! socket.

use std::rc::Rc;

use serde_json::{Value, json};

use super::*;
use crate::follower::Follower;
use crate::recorder::{self, Recorder};
use crate::setup;

/// A ledger of "a" with two followers and "b" with one, and an intake that measures from the beginning on.
struct Bench {
    run: Rc<Run>,
    ledger: Arc<Ledger>,
    intake: Intake,
    acks: Rc<Recorder>,
    delivery: Rc<Recorder>,
}

impl Bench {
    fn new(numbering: Numbering) -> Bench {
        let run = Run::new(&setup::plain(), "ws://x".into(), None);
        let timelines = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        let ledger = Ledger::new(&run, timelines, numbering, 1, 8);
        for timeline in 0..2 {
            assert!(ledger.timelines.is_epoch(timeline, "e1"));
        }
        run.window().begin(ledger.began);
        let recorder = |name| run.recorder(name, recorder::Counts::Scheduled);
        let (acks, delivery) = (recorder("ack"), recorder("delivery"));
        let intake = Intake::new(&ledger, 0, run.window(), 1)
            .acking(Rc::clone(&acks))
            .timing(Rc::clone(&delivery));
        Bench {
            run,
            ledger,
            intake,
            acks,
            delivery,
        }
    }

    /// Sends the next message to a timeline.
    fn put(&self, timeline: usize) {
        self.ledger.put(timeline, Instant::now(), &mut Vec::new());
    }

    /// A follower of a timeline, subscribed before its first message.
    fn follower(&self, timeline: usize) -> Follower {
        let mut follower = Follower::new(&self.ledger.timelines, [timeline]);
        follower.join_all();
        let result = json!({ "timeline": self.ledger.timelines[timeline], "epoch": "e1", "head": 0, "messages": [],
            "more": false, "state": "ok" });
        self.feed(
            &mut follower,
            &json!({ "jsonrpc": "2.0", "id": 0, "result": result }),
        );
        follower
    }

    fn feed(&self, follower: &mut Follower, text: &Value) {
        follower.feed(text, |event| self.intake.hear(&event));
        self.intake.settle(follower);
    }

    /// A push of messages, each as (sequence, number).
    fn push(&self, timeline: usize, messages: &[(u64, u64)]) -> Value {
        let one = |(sequence, number): &(u64, u64)| {
            let entry: Value = serde_json::from_str(self.ledger.entry.get()).expect("JSON");
            json!({ "sequence": sequence, "timestamp": 5, "entry": entry,
                "message_id": self.ledger.message_id(timeline, *number) })
        };
        let messages: Vec<Value> = messages.iter().map(one).collect();
        json!({ "jsonrpc": "2.0", "method": "message", "params": { "timeline": self.ledger.timelines[timeline],
            "epoch": "e1", "messages": messages, "head": 99 } })
    }

    fn answer(&self, number: u64, of: (usize, u64), sequence: u64) -> Result<(), String> {
        let message_id = self.ledger.message_id(of.0, of.1);
        let text = json!({ "jsonrpc": "2.0", "id": OWN + number, "result": { "sequence": sequence, "timestamp": 1,
            "message_id": message_id, "epoch": "e1", "duplicate": false } });
        let text = text.to_string();
        let answer = Answer::read(text.as_bytes()).expect("an answer");
        self.ledger.answered(number, &answer).map(drop)
    }

    /// How many faults there are in the end.
    fn close(&self) -> u64 {
        self.ledger.close(&self.run.checks, &self.intake.counts());
        self.run.checks.faults()
    }
}

#[test]
fn what_was_sent_and_came_to_all_is_complete() {
    let bench = Bench::new(Numbering::ById);
    let [mut one, mut two] = [bench.follower(0), bench.follower(0)];
    for timeline in [0, 1, 0] {
        bench.put(timeline);
    }
    assert_eq!(bench.answer(1, (0, 1), 2), Ok(()));
    assert!(!bench.ledger.complete());
    // A delivery may come before its acknowledgement.
    bench.feed(&mut one, &bench.push(0, &[(1, 3), (2, 1)]));
    assert_eq!(bench.answer(3, (0, 3), 1), Ok(()));
    assert_eq!(bench.answer(2, (1, 2), 1), Ok(()));
    bench.feed(&mut two, &bench.push(0, &[(1, 3)]));
    bench.feed(&mut two, &bench.push(0, &[(2, 1)]));
    assert!(!bench.ledger.complete());
    let mut three = bench.follower(1);
    bench.feed(&mut three, &bench.push(1, &[(1, 2)]));
    assert!(bench.ledger.complete() && !bench.ledger.failed());
    assert_eq!(
        (bench.delivery.count(), bench.intake.counts().compared),
        (5, 4)
    );
    assert_eq!(bench.close(), 0);
}

#[test]
fn a_number_that_two_messages_have_is_a_fault() {
    let pushes: [&[(u64, u64)]; 4] = [&[(1, 1), (2, 1)], &[(1, 2)], &[(1, 9)], &[(1, 3)]];
    for (case, push) in pushes.iter().enumerate() {
        let bench = Bench::new(Numbering::ById);
        let mut follower = bench.follower(0);
        bench.put(0);
        bench.put(0);
        bench.put(1);
        assert_eq!(bench.answer(1, (0, 1), 1), Ok(()));
        assert_eq!(bench.answer(2, (0, 2), 2), Ok(()));
        bench.feed(&mut follower, &bench.push(0, push));
        assert!(bench.ledger.failed(), "{case}");
    }
}

#[test]
fn an_answer_of_another_message_and_a_refusal_are_faults() {
    let bench = Bench::new(Numbering::InOrder);
    bench.put(0);
    bench.put(0);
    assert_eq!(bench.answer(1, (0, 1), 1), Ok(()));
    assert!(
        bench.answer(2, (0, 2), 3).is_err(),
        "it became another number"
    );
    assert!(bench.answer(2, (0, 1), 2).is_err(), "another ID");
    let refused = br#"{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
    let refused = Answer::read(refused).expect("an answer");
    assert!(bench.ledger.answered(2, &refused).is_err());
    let bench = Bench::new(Numbering::ById);
    bench.put(0);
    assert_eq!(bench.ledger.answered(1, &refused), Ok(None));
    assert_eq!((bench.ledger.busy(), bench.ledger.unanswered()), (1, 0));
}

#[test]
fn a_push_must_be_what_was_sent_in_every_part() {
    let bench = Bench::new(Numbering::InOrder);
    (0..5).for_each(|_| bench.put(0));
    let good = bench.push(0, &[(1, 1), (2, 2)]);
    let text = bench.ledger.entry.get();
    let tag = &bench.ledger.tag;
    let [of, instead] = [2, 3].map(|number| format!("{tag}-0-{number}"));
    for (from, to) in [(of.as_str(), instead.as_str()), (&text[9..15], "other-")] {
        let bad = good.to_string().replacen(from, to, 1);
        assert_ne!(bad, good.to_string());
        let fresh = Bench {
            ledger: Arc::clone(&bench.ledger),
            ..Bench::new(Numbering::InOrder)
        };
        let intake = Intake::new(&bench.ledger, 0, bench.run.window(), 1);
        let mut follower = fresh.follower(0);
        let bad: Value = serde_json::from_str(&bad).expect("JSON");
        follower.feed(&bad, |event| intake.hear(&event));
        assert_eq!(follower.faults().count(), 1, "{from}");
    }
    let mut follower = bench.follower(0);
    bench.feed(&mut follower, &good);
    assert!(!bench.ledger.failed());
    // More than was sent.
    bench.feed(
        &mut follower,
        &bench.push(0, &[(3, 3), (4, 4), (5, 5), (6, 6)]),
    );
    assert!(bench.ledger.failed());
}

#[test]
fn what_did_not_come_or_was_not_answered_is_a_fault_at_the_end() {
    let bench = Bench::new(Numbering::InOrder);
    bench.put(0);
    assert_eq!(bench.close(), 1, "no answer");
    let bench = Bench::new(Numbering::InOrder);
    bench.put(0);
    assert_eq!(bench.answer(1, (0, 1), 1), Ok(()));
    assert_eq!(bench.close(), 1, "no delivery");
    let bench = Bench::new(Numbering::Unknown);
    bench.ledger.expect(1);
    assert_eq!(bench.close(), 1, "no delivery of what others sent");
    let bench = Bench::new(Numbering::ById);
    let mut follower = bench.follower(1);
    bench.put(1);
    bench.put(1);
    bench.feed(&mut follower, &bench.push(1, &[(1, 1), (2, 2)]));
    assert_eq!(bench.answer(1, (1, 1), 1), Ok(()));
    assert!(bench.close() > 1, "delivered and not acknowledged");
}

#[test]
fn latency_counts_from_the_scheduled_time_and_within_the_measurement() {
    let bench = Bench::new(Numbering::InOrder);
    let before = bench.ledger.began;
    let scheduled = before + Duration::from_millis(5);
    for _ in 0..3 {
        bench.ledger.put(0, scheduled, &mut Vec::new());
    }
    bench.run.window().end(scheduled + Duration::from_secs(1));
    bench
        .ledger
        .put(0, scheduled + Duration::from_secs(2), &mut Vec::new());
    let mut follower = bench.follower(0);
    bench.feed(
        &mut follower,
        &bench.push(0, &[(1, 1), (2, 2), (3, 3), (4, 4)]),
    );
    assert!(!bench.ledger.failed());
    assert_eq!((bench.delivery.count(), bench.acks.count()), (3, 0));
}
