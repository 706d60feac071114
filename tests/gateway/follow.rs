//! Those who follow a timeline: what they may store as their position, and every way in which a subscription ends or
//! goes on.
//!
//! Through real sockets against a whole server in this process. Nothing here asserts on time: waits end, or the test
//! fails.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{Bed, Client, sequences, within};

/// Sends all, then waits for all: as many requests in flight as the server takes.
async fn all(client: &mut Client, method: &str, params: Vec<Value>) -> Vec<Value> {
    let mut asked = Vec::new();
    for params in params {
        asked.push(client.ask(method, params).await);
    }
    let mut results = Vec::new();
    for id in asked {
        let answer = client.answer(id).await;
        assert!(answer.get("error").is_none(), "{answer}");
        results.push(answer["result"].clone());
    }
    results
}

/// What PROTOCOL's loop keeps of a timeline.
#[derive(Default)]
struct Copy {
    epoch: Option<String>,
    position: u64,
    changes: u64,
    /// Text and change number by sequence.
    messages: BTreeMap<u64, (String, u64)>,
}

impl Copy {
    fn resume(&self) -> Value {
        let mut params = json!({"timeline": "t", "after": self.position, "limit": 5});
        params["changes_after"] = json!(self.changes);
        if let Some(epoch) = &self.epoch {
            params["epoch"] = json!(epoch);
        }
        params
    }

    fn reply(&mut self, reply: &Value) {
        assert_eq!(reply["state"], "ok", "{reply}");
        self.epoch = reply["epoch"].as_str().map(str::to_owned);
        self.store(&reply["messages"]);
        self.change(&reply["changed"]);
        self.changes = reply["change_head"].as_u64().unwrap();
    }

    fn push(&mut self, push: &Value) {
        let params = &push["params"];
        match push["method"].as_str() {
            Some("message") => self.store(&params["messages"]),
            Some("message.changed") => {
                self.change(&params["messages"]);
                let reached = params["change_head"].as_u64().unwrap();
                assert!(reached >= self.changes, "{reached} after {}", self.changes);
                self.changes = reached;
            }
            _ => panic!("{push}"),
        }
    }

    fn store(&mut self, messages: &Value) {
        for message in messages.as_array().unwrap() {
            assert_eq!(message["sequence"], self.position + 1);
            self.position += 1;
            self.keep(message);
        }
    }

    fn change(&mut self, messages: &Value) {
        for message in messages.as_array().unwrap() {
            assert!(message["sequence"].as_u64().unwrap() <= self.position);
            self.keep(message);
        }
    }

    fn keep(&mut self, message: &Value) {
        let change = message["change"].as_u64().unwrap_or(0);
        let text = message["entry"]["text"].as_str().unwrap_or("deleted");
        let kept = self
            .messages
            .entry(message["sequence"].as_u64().unwrap())
            .or_default();
        if change >= kept.1 {
            *kept = (text.to_owned(), change);
        }
    }
}

/// The form of every message, read page by page.
async fn history(client: &mut Client) -> BTreeMap<u64, (String, u64)> {
    let mut copy = Copy::default();
    let mut from = json!(1);
    while !from.is_null() {
        let page = client
            .ok("message.range", json!({"timeline": "t", "from": from}))
            .await;
        copy.store(&page["messages"]);
        from = page["next"].clone();
    }
    copy.messages
}

#[tokio::test]
async fn a_reader_that_is_cut_while_it_catches_up_with_edits_loses_none() {
    const COUNT: u64 = 300;
    let bed = Bed::start().await;
    let mut writer = bed.client().await;
    let body = "x".repeat(8_000);
    let text = |n: u64| json!({"text": format!("{n} {body}")});
    let appends = (1..=COUNT).map(|n| json!({"timeline": "t", "entry": text(n)}));
    all(&mut writer, "message.append", appends.collect()).await;
    let mut copy = Copy::default();
    let mut reader = bed.client().await;
    copy.reply(&reader.ok("subscribe", copy.resume()).await);
    while copy.position < COUNT {
        let push = reader.push().await;
        copy.push(&push);
    }
    drop(reader);
    // All are edited, the last first, while nobody follows.
    let edit = |n: u64| json!({"timeline": "t", "sequence": n, "set": text(n + 1_000)});
    all(
        &mut writer,
        "message.update",
        (1..=COUNT).rev().map(edit).collect(),
    )
    .await;
    let mut cuts = 0;
    while copy.changes < COUNT + 40 {
        let mut reader = bed.client().await;
        let reply = reader.ok("subscribe", copy.resume()).await;
        copy.reply(&reply);
        // Each time it hears a little more than the reply, and is cut in the midst of the rest.
        for _ in 0..2 {
            if copy.changes < COUNT && reply["more"] == true {
                let push = reader.push().await;
                copy.push(&push);
            }
        }
        drop(reader);
        if cuts < 40 {
            cuts += 1;
            all(&mut writer, "message.update", vec![edit(cuts * 7)]).await;
        }
    }
    assert_eq!(copy.changes, COUNT + 40);
    assert_eq!(copy.messages, history(&mut writer).await);
    drop(writer);
    bed.stop().await;
}

#[tokio::test]
async fn a_sync_tells_how_far_its_changes_reach() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let appends = (1..=50).map(|n| json!({"timeline": "t", "entry": {"text": n.to_string()}}));
    all(&mut client, "message.append", appends.collect()).await;
    let edits =
        (1..=50).map(|n| json!({"timeline": "t", "sequence": n, "set": {"text": "edited"}}));
    all(&mut client, "message.update", edits.collect()).await;
    let mut copy = Copy {
        position: 50,
        ..Copy::default()
    };
    let mut calls = 0;
    loop {
        let position = json!({"after": copy.position, "changes_after": copy.changes});
        let params = json!({"positions": {"t": position}, "limit": 7});
        let news = client.ok("sync", params).await["timelines"]["t"].clone();
        if news.is_null() {
            break;
        }
        let count = sequences(&news["changed"]).len() as u64;
        assert_eq!(news["change_head"].as_u64().unwrap(), copy.changes + count);
        assert_eq!(news["more"], copy.changes + count < 50);
        copy.reply(&news);
        calls += 1;
    }
    assert_eq!(
        (calls, copy.changes, copy.messages),
        (8, 50, history(&mut client).await)
    );
    drop(client);
    bed.stop().await;
}

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Sends a batch; its answers must fit into one frame.
async fn batch(client: &mut Client, calls: Vec<Value>) -> Vec<Value> {
    client.send(Value::Array(calls).to_string()).await;
    let frame = client.frame().await.unwrap();
    assert!(frame.len() <= 1 << 20, "{}", frame.len());
    let answers: Value = serde_json::from_str(frame.to_text().unwrap()).unwrap();
    answers.as_array().expect("an array").clone()
}

#[tokio::test]
async fn the_answers_of_a_batch_never_pass_the_outbound_limit() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let body = "x".repeat(200_000);
    for _ in 0..9 {
        client.append("t", &body).await;
    }
    // Edits are done all the same, and told: the first ones whole, those that find no room in short.
    let edit = |n: u64| json!({"timeline": "t", "sequence": n, "set": {"n": n}});
    let mut calls: Vec<_> = (1..=9)
        .map(|n| call(n, "message.update", edit(n)))
        .collect();
    calls.push(call(
        10,
        "message.get",
        json!({"timeline": "t", "sequence": 1}),
    ));
    calls.push(call(11, "subscribe", json!({"timeline": "t", "after": 0})));
    calls.push(call(12, "ping", json!({})));
    let answers = batch(&mut client, calls).await;
    for (answer, n) in answers[..9].iter().zip(1u64..) {
        let message = &answer["result"]["message"];
        assert_eq!(message["sequence"], n, "{answer}");
        assert_eq!(message["change"], n);
        assert!(message.get("deleted").is_none());
    }
    assert_eq!(answers[0]["result"]["message"]["entry"]["n"], 1);
    assert!(answers[8]["result"]["message"].get("entry").is_none());
    for refused in &answers[9..11] {
        assert_eq!(refused["error"]["data"]["reason"], "too_large", "{refused}");
    }
    assert!(answers[11]["result"]["time"].is_u64());
    // What was refused did not subscribe.
    client.append("t", "unheard").await;
    assert!(client.is_quiet().await);
    let reply = client.ok("subscribe", json!({"timeline": "t"})).await;
    assert_eq!(reply["head"], 10);
    client.ok("unsubscribe", json!({"timeline": "t"})).await;
    // The same for the meta of timelines.
    let meta = |n: u64| json!({"timeline": "t", "meta": {"text": format!("{n}{body}")}});
    let calls = (1..=9).map(|n| call(n, "timeline.update", meta(n)));
    let calls: Vec<_> = calls.collect();
    for half in calls.chunks(5) {
        for answer in batch(&mut client, half.to_vec()).await {
            assert!(answer["result"]["version"].is_u64(), "{answer}");
        }
    }
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn a_write_whose_answer_might_not_fit_is_refused_before_it_is_done() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let id = |n: u64, m: u64| format!("{:\u{1}<60}{n:02}{m:02}", "");
    let append = |n: u64| {
        let one = |m| json!({"entry": {}, "message_id": id(n, m)});
        let messages: Vec<_> = (0..100).map(one).collect();
        json!({"timeline": "t", "messages": messages})
    };
    let calls = (0..60).map(|n| call(n, "message.append_batch", append(n)));
    let answers = batch(&mut client, calls.collect()).await;
    let done = answers
        .iter()
        .filter(|answer| answer.get("result").is_some());
    let refused = answers
        .iter()
        .filter(|answer| answer["error"]["data"]["reason"] == "too_large");
    let (done, refused) = (done.count(), refused.count());
    assert!(
        done > 5 && refused > 5 && done + refused == 60,
        "{done} {refused}"
    );
    let head = client.ok("timeline.get", json!({"timeline": "t"})).await["head"].clone();
    assert_eq!(head, done * 100);
    // Many calls that are refused with much to say.
    let name = "\u{7f}\\".repeat(120);
    let wrong = json!({"timeline": "t", "entry": {}, name: 1});
    let ids: Vec<String> = (0..256).map(|n| format!("{:\u{1}<60}{n}", "")).collect();
    let calls = ids
        .iter()
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "message.append", "params": wrong}));
    let answers = batch(&mut client, calls.collect()).await;
    assert!(
        answers
            .iter()
            .zip(&ids)
            .all(|(answer, id)| answer["id"] == *id)
    );
    assert!(
        answers
            .iter()
            .all(|answer| answer["error"]["code"] == -32602)
    );
    drop(client);
    bed.stop().await;
}

/// A client whose sockets hold little: what it does not read stays with the server.
async fn narrow(bed: &Bed) -> Client {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16_384).unwrap();
    let socket = socket.connect(bed.server.address()).await.unwrap();
    Client::over(socket, None).await
}

/// Pushes of a subscription until it ends: the last sequence of an unbroken run from `position`, and the ending.
async fn to_the_end(client: &mut Client, mut position: u64) -> (u64, Value) {
    loop {
        let push = client.push().await;
        if push["method"] == "subscription.ended" {
            return (position, push["params"].clone());
        }
        assert_eq!(push["method"], "message", "{push}");
        for sequence in sequences(&push["params"]["messages"]) {
            assert_eq!(sequence, position + 1);
            position = sequence;
        }
    }
}

#[tokio::test]
async fn a_slow_reader_hears_why_its_subscription_is_over() {
    let bed = Bed::with(|config| config.socket_send_bytes = 16_384).await;
    let mut writer = bed.client().await;
    for (timeline, reason) in [
        ("trimmed", "too_old"),
        ("anew", "epoch_changed"),
        ("gone", "deleted"),
    ] {
        let params = json!({"timeline": timeline, "entry": {"text": "x".repeat(50_000)}});
        all(&mut writer, "message.append", vec![params; 100]).await;
        let mut reader = narrow(&bed).await;
        let params = json!({"timeline": timeline, "after": 0, "limit": 1});
        let reply = reader.ok("subscribe", params).await;
        assert_eq!(reply["more"], true);
        let this = json!({"timeline": timeline});
        if reason == "too_old" {
            let params = json!({"timeline": timeline, "before": 90});
            writer.ok("timeline.trim", params).await;
        } else {
            writer.ok("timeline.delete", this.clone()).await;
        }
        if reason == "epoch_changed" {
            writer.ok("timeline.create", this.clone()).await;
            writer.append(timeline, "another history").await;
        }
        let (position, ended) = to_the_end(&mut reader, 1).await;
        assert!(position < 89, "{position}");
        // Who is told before there is another one hears only of the end.
        let is_early = reason == "epoch_changed" && ended["reason"] == "deleted";
        assert!(is_early || ended["reason"] == reason, "{ended}");
        assert_eq!(ended["epoch"], reply["epoch"]);
        assert_eq!(ended["resubscribe"], ended["reason"] != "deleted");
        assert!(reader.is_quiet().await);
        // Its place is free, and the loop of a client goes on.
        let params =
            json!({"timeline": timeline, "after": position, "epoch": reply["epoch"], "limit": 1});
        let again = reader.ok("subscribe", params).await;
        let state = if reason == "too_old" {
            "too_old"
        } else {
            "epoch_changed"
        };
        assert_eq!(again["state"], state);
        if reason == "too_old" {
            assert_eq!(sequences(&again["messages"]), [90]);
        }
    }
    drop(writer);
    bed.stop().await;
}

#[tokio::test]
async fn a_reader_at_the_head_hears_of_meta_and_of_another_history() {
    let bed = Bed::start().await;
    let mut writer = bed.client().await;
    let mut reader = bed.client().await;
    writer.append("t", "one").await;
    let reply = reader.ok("subscribe", json!({"timeline": "t"})).await;
    // A trim of all there is does not touch who has read it.
    writer
        .ok("timeline.trim", json!({"timeline": "t", "before": 2}))
        .await;
    for version in 2..=9u64 {
        let params = json!({"timeline": "t", "meta": {"n": version}});
        writer.ok("timeline.update", params).await;
    }
    // Each version once at most, rising, the newest for sure.
    let mut last = 1;
    while last < 9 {
        let push = reader.push().await;
        assert_eq!(push["method"], "timeline.changed");
        let version = push["params"]["version"].as_u64().unwrap();
        assert!(version > last && push["params"]["meta"]["n"] == version);
        last = version;
    }
    // Deleted and made anew at one go: one end, whichever of the two it meets.
    let calls = vec![
        call(100, "timeline.delete", json!({"timeline": "t"})),
        call(101, "message.append", json!({"timeline": "t", "entry": {}})),
    ];
    writer.send(Value::Array(calls).to_string()).await;
    let (_, ended) = to_the_end(&mut reader, 1).await;
    let reason = ended["reason"].as_str().unwrap();
    assert!(["deleted", "epoch_changed"].contains(&reason), "{ended}");
    assert_eq!(ended["epoch"], reply["epoch"]);
    assert!(reader.is_quiet().await);
    drop((writer, reader));
    bed.stop().await;
}

#[tokio::test]
async fn an_unsubscribe_in_the_midst_of_catching_up_is_the_end() {
    let bed = Bed::with(|config| config.socket_send_bytes = 16_384).await;
    let mut client = narrow(&bed).await;
    let params = json!({"timeline": "t", "entry": {"text": "x".repeat(20_000)}});
    all(&mut client, "message.append", vec![params; 200]).await;
    let mut position = 0;
    for round in 1..=10u64 {
        let params = json!({"timeline": "t", "after": position, "limit": 3});
        let subscribe = client.ask("subscribe", params).await;
        // Some rounds do not even wait for the reply.
        if round % 3 == 0 {
            client.ok("ping", json!({})).await;
        }
        let unsubscribe = client.ask("unsubscribe", json!({"timeline": "t"})).await;
        client.answer(unsubscribe).await;
        let told = client.answer(subscribe).await;
        for sequence in sequences(&told["result"]["messages"]) {
            assert_eq!(sequence, position + 1);
            position = sequence;
        }
        for push in client.drain() {
            for sequence in sequences(&push["params"]["messages"]) {
                assert_eq!(sequence, position + 1, "round {round}");
                position = sequence;
            }
        }
        client.append("t", "more").await;
        assert!(client.is_quiet().await, "round {round}");
    }
    drop(client);
    bed.stop().await;
}

/// Follows until it has all appends and all changes, through cuts if it is to have some.
async fn follow(mut client: Client, address: SocketAddr, slow: bool, cuts: u32) -> Copy {
    let mut copy = Copy::default();
    for cut in 0..=cuts {
        copy.reply(&client.ok("subscribe", copy.resume()).await);
        let mut pushes = 0;
        while (copy.position < APPENDS || copy.changes < CHANGES) && (cut == cuts || pushes < 10) {
            if slow {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            copy.push(&client.push().await);
            pushes += 1;
        }
        if cut < cuts {
            client = Client::connect(address, None).await;
        }
    }
    copy
}

const APPENDS: u64 = 600;
const CHANGES: u64 = 300;

#[tokio::test]
async fn all_who_follow_a_timeline_end_with_the_same_copy() {
    let bed = Bed::with(|config| {
        config.socket_send_bytes = 16_384;
        // So little that those who lag must read the store.
        config.fresh_bytes_max = 1 << 20;
    })
    .await;
    let address = bed.server.address();
    let mut followers = tokio::task::JoinSet::new();
    for n in 0..60u32 {
        let slow = n % 10 == 0;
        let client = if slow {
            narrow(&bed).await
        } else {
            bed.client().await
        };
        followers.spawn(follow(client, address, slow, n % 4));
    }
    let mut writer = bed.client().await;
    let (mut seed, mut appended, mut changed) = (7u64, 0, 0);
    let mut gone = BTreeSet::new();
    while appended < APPENDS || changed < CHANGES - 1 {
        let mut asked = Vec::new();
        for _ in 0..20 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (kind, at) = (seed >> 60, 2 + (seed >> 33) % appended.max(1));
            let body = "x".repeat(usize::try_from(seed >> 51).unwrap());
            let text = format!("{appended} {changed} {body}");
            if appended < APPENDS && (kind < 10 || appended < 20) {
                let params = json!({"timeline": "t", "entry": {"text": text}});
                asked.push(writer.ask("message.append", params).await);
                appended += 1;
            } else if changed < CHANGES - 1 && at <= appended && !gone.contains(&at) {
                let mut params = json!({"timeline": "t", "sequence": at});
                let method = if kind == 15 {
                    gone.insert(at);
                    "message.delete"
                } else {
                    params["set"] = json!({"text": text});
                    "message.update"
                };
                asked.push(writer.ask(method, params).await);
                changed += 1;
            }
        }
        for id in asked {
            let answer = writer.answer(id).await;
            assert!(answer.get("error").is_none(), "{answer}");
        }
    }
    // The last change is of a message that all have passed, so all are told of it.
    let last = json!({"timeline": "t", "sequence": 1, "set": {"text": "the end"}});
    assert_eq!(
        writer.ok("message.update", last).await["message"]["change"],
        CHANGES
    );
    let stands = history(&mut writer).await;
    assert_eq!(stands.len() as u64, APPENDS);
    while let Some(copy) = within(followers.join_next()).await {
        assert_eq!(copy.unwrap().messages, stands);
    }
    drop(writer);
    bed.stop().await;
}
