//! What the account makes of answers and pushes, fed without a connection.
//!
//! Owns: a planted fault for each of its checks. Promises: the texts are as a server sends them. Must not: open a
//! socket.

use serde_json::{Value, json};

use super::*;
use crate::follower::{Event, OWN, Timelines};
use crate::machine::wall_micros;
use crate::rpc::Answer;
use crate::run::{Counts, Run};
use crate::setup;

/// An account of "a" with two followers and "b" with one, which measures from the beginning on.
struct Bench {
    account: Rc<Account>,
    /// Two of "a", one of "b".
    members: Vec<Member>,
    began: Instant,
}

impl Bench {
    fn new(writers: Writers) -> Bench {
        let run = Run::new(&setup::plain(), "ws://x".into(), None);
        let began = Instant::now();
        run.window().begin(began);
        let timelines = ["a", "b"].map(str::to_owned);
        let follows = vec![vec![0], vec![0], vec![1]];
        let measured = Some(match writers {
            Writers::Others => Counts::Ended,
            _ => Counts::Scheduled,
        });
        let (account, members) = Account::new(&run, writers, measured, 8, timelines, follows);
        let mut bench = Bench {
            account,
            members,
            began,
        };
        (0..3).for_each(|member| bench.subscribe(member, 0));
        bench
    }

    fn timelines(&self) -> &Timelines {
        &self.account.timelines
    }

    /// A member's subscribe is answered, with this head.
    fn subscribe(&mut self, member: usize, head: u64) {
        let timeline = member / 2;
        assert!(self.timelines().is_epoch(timeline, "e1"));
        let result = json!({ "timeline": self.timelines()[timeline], "epoch": "e1", "head": head, "messages": [],
            "more": head > 0, "state": "ok" });
        self.members[member].follower.join(0, None);
        self.feed(
            member,
            &json!({ "jsonrpc": "2.0", "id": 0, "result": result }),
        );
    }

    /// Sends the next message to a timeline.
    fn put(&self, timeline: usize) {
        self.account.put(0, timeline, self.began);
    }

    fn feed(&mut self, member: usize, text: &Value) {
        let (account, follower) = (&self.account, &mut self.members[member].follower);
        follower.feed(text, |event| account.hear(&event, true));
        for fault in follower.faults() {
            account.run.checks.fault(fault);
        }
    }

    /// Messages, each as (sequence, number), are pushed to a member.
    fn push(&mut self, member: usize, messages: &[(u64, usize)]) {
        let text = self.pushed(member / 2, messages);
        self.feed(member, &text);
    }

    fn pushed(&self, timeline: usize, messages: &[(u64, usize)]) -> Value {
        let one = |(sequence, number): &(u64, usize)| {
            json!({ "sequence": sequence, "timestamp": wall_micros() / 1_000 - 300, "entry": self.account.entry,
                "message_id": self.account.message_id(*number) })
        };
        let messages: Vec<Value> = messages.iter().map(one).collect();
        json!({ "jsonrpc": "2.0", "method": "message", "params": { "timeline": self.timelines()[timeline],
            "epoch": "e1", "messages": messages, "head": 99 } })
    }

    /// The answer to append `number` is that message `of` has this number.
    fn answer(&self, number: u64, of: usize, sequence: u64) -> Result<(), String> {
        let text = json!({ "jsonrpc": "2.0", "id": OWN + number, "result": { "sequence": sequence, "timestamp": 1,
            "message_id": self.account.message_id(of), "epoch": "e1", "duplicate": false } });
        self.answered(number, &text.to_string())
    }

    fn answered(&self, number: u64, text: &str) -> Result<(), String> {
        let answer = Answer::read(text.as_bytes()).expect("an answer");
        let event = Event::Answered(number, &answer, Instant::now());
        self.account.hear(&event, true)
    }

    fn failed(&self) -> bool {
        self.account.run.checks.faults() > 0
    }

    fn complete(&self) -> bool {
        let counts = &self.account.counts;
        self.account.unanswered() == 0 && counts.reached == counts.acked
    }

    fn delivered(&self) -> u64 {
        let delivery = self.account.delivery.as_ref();
        delivery.map_or(0, |delivery| delivery.count())
    }

    fn acks(&self) -> u64 {
        self.account.acks.as_ref().map_or(0, |acks| acks.count())
    }

    /// The faults at the end.
    fn close(&self) -> Vec<String> {
        self.account.close(&self.members);
        self.account.run.checks.checked().told
    }
}

#[test]
fn what_was_sent_and_came_to_all_is_complete() {
    let mut bench = Bench::new(Writers::Many);
    [0, 1, 0].iter().for_each(|timeline| bench.put(*timeline));
    assert_eq!(bench.answer(1, 1, 2), Ok(()));
    assert!(!bench.complete());
    // A delivery may come before its acknowledgement.
    bench.push(0, &[(1, 3), (2, 1)]);
    assert_eq!(bench.answer(3, 3, 1), Ok(()));
    assert_eq!(bench.answer(2, 2, 1), Ok(()));
    bench.push(1, &[(1, 3)]);
    bench.push(1, &[(2, 1)]);
    assert_eq!(bench.account.counts.reached.get(), 2);
    assert!(!bench.complete());
    bench.push(2, &[(1, 2)]);
    assert!(bench.complete() && !bench.failed());
    assert_eq!((bench.delivered(), bench.acks()), (5, 3));
    assert!(bench.close().is_empty());
}

#[test]
fn a_number_that_two_messages_have_is_a_fault() {
    let pushes: [&[(u64, usize)]; 4] = [&[(1, 1), (2, 1)], &[(1, 2)], &[(1, 9)], &[(1, 3)]];
    for (case, push) in pushes.iter().enumerate() {
        let mut bench = Bench::new(Writers::Many);
        [0, 0, 1].iter().for_each(|timeline| bench.put(*timeline));
        assert_eq!(bench.answer(1, 1, 1), Ok(()));
        assert_eq!(bench.answer(2, 2, 2), Ok(()));
        bench.push(0, push);
        assert!(bench.failed(), "{case}");
    }
}

#[test]
fn an_answer_of_another_message_and_a_refusal_are_faults() {
    let bench = Bench::new(Writers::One);
    bench.put(0);
    bench.put(0);
    assert_eq!(bench.answer(1, 1, 1), Ok(()));
    assert!(bench.answer(2, 2, 3).is_err(), "it became another number");
    assert!(bench.answer(2, 1, 1).is_err(), "another ID");
    assert!(bench.answer(3, 3, 3).is_err(), "it was never sent");
    let refused = r#"{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
    assert!(bench.answered(2, refused).is_err());
    let bench = Bench::new(Writers::Many);
    bench.put(0);
    assert_eq!(bench.answered(1, refused), Ok(()));
    let counts = &bench.account.counts;
    assert_eq!((counts.answered.get(), counts.acked.get()), (1, 0));
    assert!(bench.complete() && bench.close().is_empty());
}

#[test]
fn a_push_must_be_what_was_sent_in_every_part() {
    let mut bench = Bench::new(Writers::One);
    (0..5).for_each(|_| bench.put(0));
    let good = bench.pushed(0, &[(1, 1), (2, 2)]);
    let ids = [2, 3].map(|number| bench.account.message_id(number));
    let text = bench.account.entry.to_string()[9..15].to_owned();
    for (from, to) in [(&*ids[0], &*ids[1]), (&text, "other-")] {
        let mut other = Bench::new(Writers::One);
        other.account = Rc::clone(&bench.account);
        let bad = good.to_string().replacen(from, to, 1);
        assert_ne!(bad, good.to_string());
        bench.account.counts.pushes.set(0);
        let hear = |event: Event<'_>| bench.account.hear(&event, true);
        let follower = &mut other.members[0].follower;
        follower.feed(&serde_json::from_str(&bad).expect("JSON"), hear);
        assert_eq!(follower.faults().count(), 1, "{from}");
    }
    bench.account.counts.pushes.set(0);
    bench.push(0, &[(1, 1), (2, 2)]);
    assert!(!bench.failed());
    // More than was sent.
    bench.push(0, &[(3, 3), (4, 4), (5, 5), (6, 6)]);
    assert!(bench.failed());
}

#[test]
fn a_head_above_what_was_sent_and_a_message_that_comes_again_are_faults() {
    let mut bench = Bench::new(Writers::One);
    bench.put(0);
    bench.subscribe(0, 1);
    assert!(!bench.failed());
    bench.subscribe(0, 2);
    assert!(bench.failed());
    let mut bench = Bench::new(Writers::One);
    bench.put(1);
    bench.push(2, &[(1, 1)]);
    // To another follower, of whom the account does not know.
    bench.members[2].follower = Follower::new(&bench.account.timelines, [1]);
    bench.subscribe(2, 0);
    assert!(!bench.failed());
    bench.push(2, &[(1, 1)]);
    assert!(bench.failed());
}

#[test]
fn what_did_not_come_or_was_not_answered_is_a_fault_at_the_end() {
    let end = |bench: &Bench, fault: &str| {
        let faults = bench.close();
        assert!(faults.iter().any(|one| one.contains(fault)), "{faults:?}");
    };
    let bench = Bench::new(Writers::One);
    bench.put(0);
    end(&bench, "1 appends without an answer");
    assert_eq!(bench.answer(1, 1, 1), Ok(()));
    end(&bench, "follower 1: a came as far as 0 of 1");
    let bench = Bench::new(Writers::Others);
    bench.account.expect(|_| 1);
    end(&bench, "follower 2: b came as far as 0 of 1");
    let mut bench = Bench::new(Writers::Many);
    bench.put(1);
    bench.put(1);
    bench.push(2, &[(1, 1), (2, 2)]);
    assert_eq!(bench.answer(1, 1, 1), Ok(()));
    end(&bench, "b: 1 appended, 2 seen");
    end(&bench, "follower 2: b came as far as 2 of 1");
}

#[test]
fn latency_counts_from_the_scheduled_time_and_within_the_measurement() {
    let mut bench = Bench::new(Writers::One);
    let scheduled = bench.began + Duration::from_millis(5);
    let put = |at| bench.account.put(0, 0, at);
    (0..3).for_each(|_| put(scheduled));
    put(scheduled + Duration::from_secs(2));
    let window = bench.account.run.window();
    window.end(scheduled + Duration::from_secs(1));
    bench.push(0, &[(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert!(!bench.failed());
    assert_eq!((bench.delivered(), bench.acks()), (3, 0));
}

#[test]
fn what_others_appended_counts_from_its_commit() {
    let mut bench = Bench::new(Writers::Others);
    bench.account.expect(|_| 2);
    bench.push(0, &[(1, 1), (2, 2)]);
    assert!(!bench.failed());
    let counts = &bench.account.counts;
    assert_eq!((counts.deliveries.get(), counts.resumed.get()), (2, 0));
    let delivery = bench.account.delivery.as_ref().expect("it counts");
    let (latency, _) = delivery.recorded();
    assert_eq!(latency.count, 2);
    // The push says that they were committed 300 ms ago.
    assert!(latency.min >= 299_000, "{}", latency.min);
}
