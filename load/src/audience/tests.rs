//! What the account makes of answers and pushes, fed without a connection.
//!
//! Owns: a planted fault for each of its checks. Promises: the texts are as a server sends them. Must not: open a
//! socket.

use std::future::pending;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::*;
use crate::client::rpc::Answer;
use crate::follower::{Event, OWN, Timelines};
use crate::run::machine::wall_micros;
use crate::run::setup;
use crate::run::{Counts, Run};

/// An account of a timeline with two followers and one with one, which measures from the beginning on.
struct Bench {
    account: Rc<Account>,
    /// Two of the first, one of the second.
    members: Vec<Member>,
    began: Instant,
}

impl Bench {
    fn new(writers: Writers) -> Bench {
        let mut bench = Bench::at("ws://x".into(), writers);
        (0..3).for_each(|member| bench.subscribe(member, 0));
        bench
    }

    /// Nobody has come yet.
    fn at(url: String, writers: Writers) -> Bench {
        let run = Run::new(&setup::plain(), url, None);
        let began = Instant::now();
        run.window.begin(began);
        let follows = vec![vec![0], vec![0], vec![1]];
        let measured = Some(match writers {
            Writers::Others => Counts::Ended,
            _ => Counts::Scheduled,
        });
        let (account, members) = Account::new(&run, writers, measured, 8, "t/", follows);
        Bench {
            account,
            members,
            began,
        }
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
        let fed = follower.feed(text, |event| account.hear(&event, true));
        if let Err(fault) = fed {
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
            json!({ "sequence": sequence, "timestamp": wall_micros() / 1_000 - 300, "entry": self.entry(),
                "message_id": self.message_id(*number) })
        };
        let messages: Vec<Value> = messages.iter().map(one).collect();
        json!({ "jsonrpc": "2.0", "method": "message", "params": { "timeline": self.timelines()[timeline],
            "epoch": "e1", "messages": messages, "head": 99 } })
    }

    fn message_id(&self, number: usize) -> String {
        format!("{}{number:09}", self.account.run.tag)
    }

    fn entry(&self) -> Value {
        json!({ "text": self.account.texts.at(0) })
    }

    /// The answer to append `number` is that message `of` has this number.
    fn answer(&self, number: u64, of: usize, sequence: u64) -> Result<(), String> {
        self.answer_in("e1", number, of, sequence)
    }

    fn answer_in(&self, epoch: &str, number: u64, of: usize, sequence: u64) -> Result<(), String> {
        let text = json!({ "jsonrpc": "2.0", "id": OWN + number, "result": { "sequence": sequence, "timestamp": 1,
            "message_id": self.message_id(of), "epoch": epoch, "duplicate": false } });
        self.answered(number, &text.to_string())
    }

    fn answered(&self, number: u64, text: &str) -> Result<(), String> {
        let answer = Answer::read(text.as_bytes()).expect("an answer");
        let event = Event::Answered(number, &answer, Instant::now());
        self.account.hear(&event, true)
    }

    /// Messages and numbers that are not forgotten.
    fn kept(&self) -> usize {
        let numbers = self
            .account
            .written
            .iter()
            .map(|one| one.numbers.borrow().kept.len());
        self.account.sent.borrow().kept.len() + numbers.sum::<usize>()
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
    // What is done takes no memory, and is still compared with.
    assert_eq!(bench.account.sent(), 3);
    assert_eq!(bench.kept(), 0);
    bench.put(0);
    assert!(bench.answer(4, 4, 2).is_err(), "message 1 has this number");
    assert!(bench.answer(1, 1, 2).is_err(), "it is answered");
}

#[test]
fn an_append_that_is_answered_twice_is_a_fault() {
    for writers in [Writers::One, Writers::Many] {
        let bench = Bench::new(writers);
        bench.put(0);
        bench.put(0);
        assert_eq!(bench.answer(1, 1, 1), Ok(()));
        assert!(bench.answer(1, 1, 1).is_err());
        assert_eq!(bench.account.unanswered(), 1);
        assert!(bench.answer_in("e2", 2, 2, 2).is_err(), "another epoch");
    }
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
    (0..4).for_each(|_| bench.put(0));
    assert_eq!(bench.answer(1, 1, 1), Ok(()));
    assert!(bench.answer(2, 2, 3).is_err(), "it became another number");
    assert!(bench.answer(3, 1, 1).is_err(), "another ID");
    assert!(bench.answer(5, 5, 5).is_err(), "it was never sent");
    let refused = r#"{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
    assert!(bench.answered(4, refused).is_err());
    let bench = Bench::new(Writers::Many);
    bench.put(0);
    assert_eq!(bench.answered(1, refused), Ok(()));
    let counts = &bench.account.counts;
    assert_eq!((counts.answered.get(), counts.acked.get()), (1, 0));
    assert!(bench.complete() && bench.close().is_empty());
    assert_eq!(bench.kept(), 0);
}

#[test]
fn a_push_must_be_what_was_sent_in_every_part() {
    let mut bench = Bench::new(Writers::One);
    (0..5).for_each(|_| bench.put(0));
    let good = bench.pushed(0, &[(1, 1), (2, 2)]);
    let ids = [2, 3].map(|number| bench.message_id(number));
    let text = bench.account.texts.at(0)[..6].to_owned();
    for (from, to) in [(&*ids[0], &*ids[1]), (&text, "other-")] {
        let mut other = Bench::new(Writers::One);
        other.account = Rc::clone(&bench.account);
        let bad = good.to_string().replacen(from, to, 1);
        assert_ne!(bad, good.to_string());
        bench.account.counts.pushes.set(0);
        let hear = |event: Event<'_>| bench.account.hear(&event, true);
        let follower = &mut other.members[0].follower;
        let fed = follower.feed(&serde_json::from_str(&bad).expect("JSON"), hear);
        assert!(fed.is_err(), "{from}");
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
    // To another follower, one that the account does not know.
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
    end(&bench, "follower 1: t/000000000 came as far as 0 of 1");
    let bench = Bench::new(Writers::Others);
    bench.account.expect(|_| 1);
    end(&bench, "follower 2: t/000000001 came as far as 0 of 1");
    let mut bench = Bench::new(Writers::Many);
    bench.put(1);
    bench.put(1);
    bench.push(2, &[(1, 1), (2, 2)]);
    assert_eq!(bench.answer(1, 1, 1), Ok(()));
    end(&bench, "t/000000001: 1 appended, 2 seen");
    end(&bench, "follower 2: t/000000001 came as far as 2 of 1");
}

#[test]
fn latency_counts_from_the_scheduled_time_and_within_the_measurement() {
    let mut bench = Bench::new(Writers::One);
    let scheduled = bench.began + Duration::from_millis(5);
    let put = |at| bench.account.put(0, 0, at);
    (0..3).for_each(|_| put(scheduled));
    put(scheduled + Duration::from_secs(2));
    let window = &bench.account.run.window;
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
    assert_eq!(counts.deliveries.get(), 2);
    let delivery = bench.account.delivery.as_ref().expect("it counts");
    let (latency, _) = delivery.recorded();
    // One for the push, which says that they were committed 300 ms ago.
    assert_eq!(latency.len(), 1);
    assert!(latency.min() >= 299_000, "{}", latency.min());
    // What it missed while it was away is not timed, whether it comes in the reply or behind it.
    bench.account.expect(|_| 5);
    bench.subscribe(0, 4);
    bench.push(0, &[(3, 3), (4, 4)]);
    assert_eq!(bench.delivered(), 1);
    bench.push(0, &[(5, 5)]);
    assert_eq!(
        (bench.account.counts.measured.get(), bench.delivered()),
        (5, 2)
    );
    // Nothing of others' timelines is known to be complete.
    bench.close();
    let made = bench.account.run.checks.checked().made;
    assert!(!made.contains_key("timelines complete") && !made.contains_key("messages appended"));
}

/// A server's port, and its address.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, format!("ws://{address}/"))
}

/// Takes a connection, and answers what comes on it with these bytes, one after the other.
async fn serve(listener: &TcpListener, answers: &[&[u8]]) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    for answer in answers {
        assert!(stream.read(&mut [0; 1_000]).await.expect("a request") > 0);
        stream.write_all(answer).await.expect("written");
    }
    stream
}

const UPGRADED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[tokio::test]
async fn what_is_wrong_while_members_come_is_a_fault_and_no_connection_is_none() {
    let subscribed = json!({ "jsonrpc": "2.0", "id": 0, "result": { "timeline": "t/000000000", "epoch": "e1", "head": 5,
        "messages": [], "more": true, "state": "ok" } });
    let text = subscribed.to_string();
    let frame = [&[0x81, text.len() as u8], text.as_bytes()].concat();
    let (listener, url) = listen().await;
    let Bench {
        account, members, ..
    } = Bench::at(url, Writers::One);
    let first = members.into_iter().take(1).collect();
    let coming = async {
        let answers = [UPGRADED, &*frame];
        tokio::join!(open(&account, first), serve(&listener, &answers)).0
    };
    let came = LocalSet::new().run_until(coming).await;
    assert_eq!(came.expect("a result").len(), 1);
    assert_eq!(
        (account.run.checks.faults(), account.run.phase()),
        (1, Phase::Ending)
    );
    drop(listener);
    let Bench {
        account, members, ..
    } = Bench::at(account.run.url.clone(), Writers::One);
    let came = LocalSet::new().run_until(open(&account, members)).await;
    assert!(matches!(came, Err(Stop::Unreachable(_))));
}

#[tokio::test]
async fn what_comes_later_than_half_a_minute_after_the_end_is_a_fault() {
    let (listener, url) = listen().await;
    let Bench {
        account, members, ..
    } = Bench::at(url, Writers::Others);
    let mut member = members.into_iter().next().expect("a member");
    let (connected, _server) = tokio::join!(member.connect(None), serve(&listener, &[UPGRADED]));
    connected.expect("a connection");
    account.expect(|_| 1);
    tokio::time::pause();
    let began = Instant::now();
    let ending = async {
        let living = vec![member.live(async |_: &mut Member| pending().await)];
        end(&account, living).await
    };
    assert!(LocalSet::new().run_until(ending).await.is_ok());
    assert_eq!(began.elapsed().as_secs(), 30);
    let told = account.run.checks.checked().told;
    assert!(
        told[0].contains("timed out") && told[1].contains("0 of 1"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_backlog_at_the_rate_is_invalid_and_a_lost_answer_a_fault() {
    for lost in [false, true] {
        let bench = Bench::new(Writers::One);
        (0..20).for_each(|_| bench.put(0));
        let answering = async {
            for number in 1..=20 {
                sleep(Duration::from_secs(if lost { 1 } else { 3 })).await;
                if number < 20 || !lost {
                    let answer = bench.answer(number, number as usize, number);
                    assert_eq!(answer, Ok(()));
                }
            }
        };
        let (ended, ()) = tokio::join!(end(&bench.account, Vec::new()), answering);
        assert!(ended.is_ok());
        let outcome = bench.account.run.outcome("such", &json!({}));
        let outcome = outcome.expect("a result");
        assert_eq!((outcome.validity.valid, outcome.held()), (lost, !lost));
    }
}

#[tokio::test]
async fn at_a_clusters_nodes_a_member_that_only_follows_comes_again() {
    let (listener, url) = listen().await;
    // Nobody listens at the other address.
    let (gone, other) = listen().await;
    drop(gone);
    for (urls, writers, comes) in [
        (format!("{url},{other}"), Writers::Others, true),
        (format!("{url},{other}"), Writers::Many, false),
        (url.clone(), Writers::Others, false),
    ] {
        let Bench { members, .. } = Bench::at(urls, writers);
        let mut member = members.into_iter().next().expect("a member");
        let (connected, stream) = tokio::join!(member.connect(None), serve(&listener, &[UPGRADED]));
        connected.expect("a connection");
        drop(stream);
        let read = match comes {
            true => tokio::join!(member.read(), serve(&listener, &[UPGRADED])).0,
            false => member.read().await,
        };
        assert_eq!(read.is_ok(), comes, "{read:?}");
        let stage = member.follower.places()[0].stage;
        assert_eq!(stage, Stage::Joining, "subscribed anew, or as it was");
    }
}
