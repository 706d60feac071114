//! Sessions: order, batches, limits, subscriptions and their resumption, long polls, clients that do not read,
//! shutdown.
//!
//! Through real sockets against a whole server in this process. Nothing here asserts on time: waits end, or the test
//! fails.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::collections::HashSet;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bed::{Bed, Client, close_code, sequences, within};
use crate::client_frame::frame;

/// The sequences of `message` pushes, until `last` has come.
async fn pushed_up_to(client: &mut Client, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let push = client.push().await;
        assert_eq!(push["method"], "message", "{push}");
        seen.extend(sequences(&push["params"]["messages"]));
    }
    seen
}

#[tokio::test]
async fn a_session_tells_its_limits_and_stamps_its_user() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let opened = client
        .ok("session.open", json!({"user": "ada", "client": "test"}))
        .await;
    assert_eq!(opened["user"], "ada");
    assert_eq!(opened["heartbeat_ms"], 25_000);
    assert_eq!(opened["limits"]["page_messages_max"], 1_000);
    client.append("t", "hello").await;
    let got = client
        .ok("message.get", json!({"timeline": "t", "sequence": 1}))
        .await;
    assert_eq!(got["message"]["sender"], "ada");
    assert!(client.ok("rpc.discover", json!({})).await["openrpc"].is_string());
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn writes_take_effect_in_the_order_in_which_they_were_sent() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let mut ids = Vec::new();
    for n in 0..1_000 {
        ids.push(
            client
                .ask(
                    "message.append",
                    json!({"timeline": "t", "entry": {"n": n}}),
                )
                .await,
        );
    }
    for (n, id) in (1u64..).zip(ids) {
        assert_eq!(client.answer(id).await["result"]["sequence"], n);
    }
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn appends_that_come_together_are_answered_each_for_itself() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let entry = |n: u64| json!({"timeline": "t", "entry": {"n": n}});
    let conditional =
        |n: u64, head: u64| json!({"timeline": "t", "entry": {"n": n}, "expect_head": head});
    for round in 0..50u64 {
        let base = 5 * round;
        let first = client.ask("message.append", entry(1)).await;
        let refused = client.ask("message.append", conditional(2, base)).await;
        let unfit = client.ask("message.append", json!({"timeline": "t"})).await;
        let unheard = json!({"jsonrpc": "2.0", "method": "message.append", "params": entry(3)});
        client.send(unheard.to_string()).await;
        let held = client.ask("message.append", conditional(4, base + 2)).await;
        let two = json!({"timeline": "t", "messages": [{"entry": {"n": 5}}, {"entry": {"n": 6}}]});
        let batch = client.ask("message.append_batch", two).await;
        // Another write must not overtake them, and they must not overtake it.
        let trim = json!({"timeline": "t", "before": base + 5});
        let trim = client.ask("timeline.trim", trim).await;
        let other = client
            .ask("message.append", json!({"timeline": "u", "entry": {}}))
            .await;
        let answer = client.answer(first).await;
        assert_eq!(answer["result"]["sequence"], base + 1);
        let answer = client.answer(refused).await;
        assert_eq!(answer["error"]["data"]["reason"], "condition_failed");
        assert_eq!(answer["error"]["data"]["actual"], base + 1);
        assert_eq!(client.answer(unfit).await["error"]["code"], -32602);
        assert_eq!(client.answer(held).await["result"]["sequence"], base + 3);
        let answer = client.answer(batch).await;
        assert_eq!(answer["result"]["messages"][1]["sequence"], base + 5);
        assert_eq!(client.answer(trim).await["result"]["floor"], base + 5);
        assert_eq!(client.answer(other).await["result"]["sequence"], round + 1);
    }
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn a_subscriber_sees_every_message_once_and_in_order_whenever_it_came() {
    let bed = Bed::start().await;
    let mut writer = bed.client().await;
    let mut early = bed.client().await;
    let reply = early.ok("subscribe", json!({"timeline": "t"})).await;
    assert_eq!((&reply["head"], &reply["state"]), (&json!(0), &json!("ok")));
    let mut asked = Vec::new();
    for n in 0..300 {
        asked.push(
            writer
                .ask(
                    "message.append",
                    json!({"timeline": "t", "entry": {"n": n}}),
                )
                .await,
        );
    }
    // In the midst of it, with a small page: part of it comes in the reply, part from the store, part fresh.
    let mut late = bed.client().await;
    let reply = late
        .ok(
            "subscribe",
            json!({"timeline": "t", "after": 0, "limit": 7}),
        )
        .await;
    let first = sequences(&reply["messages"]);
    assert!(first.iter().copied().eq(1..=first.len() as u64) && first.len() <= 7);
    for id in asked {
        writer.answer(id).await;
    }
    let all: Vec<u64> = (1..=300).collect();
    assert_eq!(pushed_up_to(&mut early, 300).await, all);
    let rest = pushed_up_to(&mut late, 300).await;
    assert_eq!([first, rest].concat(), all);
    // A resumption goes on behind its position; one from now has nothing to tell.
    let mut resumed = bed.client().await;
    let epoch = reply["epoch"].clone();
    let params = json!({"timeline": "t", "after": 298, "epoch": epoch});
    let reply = resumed.ok("subscribe", params).await;
    assert_eq!(sequences(&reply["messages"]), [299, 300]);
    assert_eq!(reply["more"], false);
    assert!(resumed.is_quiet().await);
    drop((writer, early, late, resumed));
    bed.stop().await;
}

#[tokio::test]
async fn nothing_is_pushed_before_the_subscribe_reply_or_after_the_unsubscribe_reply() {
    let bed = Bed::start().await;
    let mut writer = bed.client().await;
    let mut reader = bed.client().await;
    for round in 0..20u64 {
        for n in 0..10 {
            writer
                .ask(
                    "message.append",
                    json!({"timeline": "t", "entry": {"n": n}}),
                )
                .await;
        }
        let subscribe = reader
            .ask("subscribe", json!({"timeline": "t", "after": 0}))
            .await;
        let other = writer.ask("ping", json!({})).await;
        let reply = loop {
            let Some(message) = reader.frame().await else {
                panic!("closed")
            };
            let value: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            assert!(
                value.get("method").is_none(),
                "a push before the reply: {value}"
            );
            if value["id"] == subscribe {
                break value;
            }
        };
        let mut position = sequences(&reply["result"]["messages"]).len() as u64;
        writer.answer(other).await;
        let unsubscribe = reader.ask("unsubscribe", json!({"timeline": "t"})).await;
        loop {
            let Some(message) = reader.frame().await else {
                panic!("closed")
            };
            let value: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if value["id"] == unsubscribe {
                break;
            }
            for sequence in sequences(&value["params"]["messages"]) {
                assert_eq!(sequence, position + 1, "round {round}");
                position = sequence;
            }
        }
        writer.append("t", "unseen").await;
        assert!(reader.is_quiet().await);
    }
    drop((writer, reader));
    bed.stop().await;
}

#[tokio::test]
async fn changes_meta_and_the_end_are_told() {
    let bed = Bed::start().await;
    let mut writer = bed.client().await;
    let mut reader = bed.client().await;
    writer.append("t", "one").await;
    let reply = reader
        .ok("subscribe", json!({"timeline": "t", "after": 0}))
        .await;
    assert_eq!(sequences(&reply["messages"]), [1]);
    assert_eq!(
        reader.refused("subscribe", json!({"timeline": "t"})).await,
        "already_subscribed"
    );
    let edit = json!({"timeline": "t", "sequence": 1, "set": {"text": "edited"}});
    writer.ok("message.update", edit).await;
    let push = reader.push().await;
    assert_eq!(push["method"], "message.changed");
    assert_eq!(push["params"]["messages"][0]["entry"]["text"], "edited");
    assert_eq!(push["params"]["change_head"], 1);
    writer
        .ok("message.delete", json!({"timeline": "t", "sequence": 1}))
        .await;
    let push = reader.push().await;
    assert_eq!(push["params"]["messages"][0]["deleted"], true);
    writer
        .ok(
            "timeline.update",
            json!({"timeline": "t", "meta": {"title": "T"}}),
        )
        .await;
    let push = reader.push().await;
    assert_eq!(push["method"], "timeline.changed");
    assert_eq!(push["params"]["meta"]["title"], "T");
    writer.append("t", "two").await;
    assert_eq!(pushed_up_to(&mut reader, 2).await, [2]);
    writer.ok("timeline.delete", json!({"timeline": "t"})).await;
    let push = reader.push().await;
    assert_eq!(push["method"], "subscription.ended");
    assert_eq!(push["params"]["reason"], "deleted");
    assert_eq!(push["params"]["resubscribe"], false);
    // Its place is free again, and the name begins anew.
    let fresh = reader
        .ok("subscribe", json!({"timeline": "t", "after": 2}))
        .await;
    assert_eq!(fresh["state"], "epoch_changed");
    let fresh = reader.ok("subscribe", json!({"timeline": "t"})).await;
    assert_ne!(fresh["epoch"], reply["epoch"]);
    writer.append("t", "new").await;
    assert_eq!(pushed_up_to(&mut reader, 1).await, [1]);
    drop((writer, reader));
    bed.stop().await;
}

#[tokio::test]
async fn pushes_of_a_subscribe_in_a_batch_wait_for_the_array() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let call = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let mut batch = vec![call(
        1_000,
        "subscribe",
        json!({"timeline": "t", "after": 0}),
    )];
    for id in 1_001..1_050 {
        batch.push(call(
            id,
            "message.append",
            json!({"timeline": "t", "entry": {}}),
        ));
    }
    batch.push(call(
        1_050,
        "sync",
        json!({"positions": {"t": 0}, "wait_ms": 1}),
    ));
    client.send(Value::Array(batch).to_string()).await;
    let first = client.frame().await.unwrap();
    let answers: Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
    let answers = answers.as_array().expect("the array comes first");
    assert_eq!(answers.len(), 51);
    let ids: Vec<u64> = answers
        .iter()
        .map(|answer| answer["id"].as_u64().unwrap())
        .collect();
    assert!(ids.iter().copied().eq(1_000..=1_050));
    assert_eq!(
        answers[50]["error"]["code"], -32602,
        "a batch does not wait"
    );
    let mut position = sequences(&answers[0]["result"]["messages"]).len() as u64;
    if position < 49 {
        for sequence in pushed_up_to(&mut client, 49).await {
            assert_eq!(sequence, position + 1);
            position = sequence;
        }
    }
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn ten_thousand_requests_in_flight_are_all_answered() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let (mut sink, mut stream) = futures_util::StreamExt::split(client.socket);
    let send = async move {
        use futures_util::SinkExt as _;
        for id in 0..10_000 {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "message.append",
                                 "params": {"timeline": format!("t{}", id % 7), "entry": {}}});
            sink.send(request.to_string().into()).await.unwrap();
        }
        sink
    };
    let receive = async {
        use futures_util::StreamExt as _;
        let mut seen = HashSet::new();
        while seen.len() < 10_000 {
            let message = stream.next().await.unwrap().unwrap();
            // On a slow machine there is time for one.
            if message.is_ping() {
                continue;
            }
            let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            assert!(answer.get("error").is_none(), "{answer}");
            assert!(seen.insert(answer["id"].as_u64().unwrap()));
        }
    };
    let both = async { tokio::join!(send, receive) };
    drop(
        tokio::time::timeout(4 * crate::bed::PATIENCE, both)
            .await
            .expect("it hangs"),
    );
    drop(stream);
    bed.stop().await;
}

/// Waiting syncs of one connection.
const WAITS_MAX: usize = 16;

#[tokio::test]
async fn subscriptions_and_waits_have_their_limits() {
    let bed = Bed::with(|config| config.subscriptions_max = 3).await;
    let mut client = bed.client().await;
    for n in 0..3 {
        client
            .ok("subscribe", json!({"timeline": format!("t{n}")}))
            .await;
    }
    assert_eq!(
        client.refused("subscribe", json!({"timeline": "t3"})).await,
        "too_large"
    );
    client.ok("unsubscribe", json!({"timeline": "t1"})).await;
    client.ok("subscribe", json!({"timeline": "t3"})).await;
    let wait = json!({"positions": {"later": 0}, "wait_ms": 60_000});
    let waiting = client.ask("sync", wait.clone()).await;
    for _ in 1..WAITS_MAX {
        client.ask("sync", wait.clone()).await;
    }
    assert_eq!(client.refused("sync", wait).await, "rate_limited");
    client.append("later", "x").await;
    let answer = client.answer(waiting).await;
    assert_eq!(
        sequences(&answer["result"]["timelines"]["later"]["messages"]),
        [1]
    );
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn a_waiting_sync_ends_with_news_with_its_time_and_with_the_server() {
    let bed = Bed::start().await;
    let mut reader = bed.client().await;
    let mut writer = bed.client().await;
    writer.append("busy", "1").await;
    let positions = json!({"busy": 1, "not yet": 0});
    let nothing = reader
        .ok("sync", json!({"positions": positions, "wait_ms": 50}))
        .await;
    assert_eq!(nothing["timelines"], json!({}));
    for timeline in ["not yet", "busy"] {
        let waiting = reader
            .ask("sync", json!({"positions": positions, "wait_ms": 60_000}))
            .await;
        reader.ok("ping", json!({})).await;
        writer.append(timeline, "news").await;
        let answer = reader.answer(waiting).await;
        assert!(
            answer["result"]["timelines"][timeline]["messages"].is_array(),
            "{answer}"
        );
        // The second round waits for the other one.
        if timeline == "not yet" {
            writer
                .ok("timeline.delete", json!({"timeline": "not yet"}))
                .await;
        }
    }
    let waiting = reader
        .ask(
            "sync",
            json!({"positions": {"never": 0}, "wait_ms": 60_000}),
        )
        .await;
    reader.ok("ping", json!({})).await;
    drop(writer);
    let stopped = tokio::spawn(bed.server.stop());
    assert_eq!(
        reader.answer(waiting).await["result"]["timelines"],
        json!({})
    );
    let push = reader.push().await;
    assert_eq!(push["method"], "draining");
    // Of few connections all may come back at once, when it has started again.
    let in_ms = push["params"]["reconnect_in_ms"].as_u64();
    assert!((500..600).contains(&in_ms.unwrap()), "{in_ms:?}");
    assert_eq!(reader.closed().await, Some(4002));
    drop(reader);
    within(stopped).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_answers_what_it_took_and_a_new_start_has_it() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let mut asked = Vec::new();
    for n in 0..200 {
        asked.push(
            client
                .ask(
                    "message.append",
                    json!({"timeline": "t", "entry": {"n": n}}),
                )
                .await,
        );
    }
    // The first answer shows that the server has begun to read.
    let mut last = client.answer(asked[0]).await["result"]["sequence"]
        .as_u64()
        .unwrap();
    let Bed { server, dir } = bed;
    let stopped = tokio::spawn(server.stop());
    while let Some(message) = client.frame().await {
        let Ok(text) = message.to_text() else {
            continue;
        };
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            continue;
        };
        if let Some(sequence) = value["result"]["sequence"].as_u64() {
            last = last.max(sequence);
        }
    }
    drop(client);
    within(stopped).await.unwrap();
    let config = tideline::config::Config {
        data: dir.path().join("data"),
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        ..tideline::config::Config::default()
    };
    let server = tideline::server::Server::start(&config).await.unwrap();
    let mut client = Client::connect(server.address(), None).await;
    let info = client.ok("timeline.get", json!({"timeline": "t"})).await;
    assert!(info["head"].as_u64().unwrap() >= last);
    drop(client);
    within(server.stop()).await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_and_harms_nobody() {
    let bed = Bed::with(|config| {
        config.slow_consumer_ms = 400;
        config.socket_send_bytes = 16_384;
    })
    .await;
    let mut writer = bed.client().await;
    let mut lazy = bed.upgraded().await;
    let subscribe = br#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"timeline":"t"}}"#;
    lazy.write_all(&frame(0x81, subscribe)).await.unwrap();
    let mut diligent = bed.client().await;
    diligent.ok("subscribe", json!({"timeline": "t"})).await;
    let body = "x".repeat(60_000);
    let write = async {
        for n in 1..=100u64 {
            assert_eq!(writer.append("t", &body).await, n);
        }
    };
    let (seen, ()) = tokio::join!(pushed_up_to(&mut diligent, 100), write);
    assert_eq!(seen.len(), 100);
    // It did not read a byte; now that it does, it finds the end of the connection and not all the messages.
    let received = within(async {
        let (mut received, mut buffer) = (0, vec![0; 65_536]);
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        while let Ok(count @ 1..) = lazy.read(&mut buffer).await {
            received += count;
        }
        received
    })
    .await;
    assert!(received < 100 * body.len(), "{received}");
    drop((writer, diligent, lazy));
    bed.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_and_never_reads_is_cut() {
    let bed = Bed::with(|config| {
        config.slow_consumer_ms = 400;
        config.socket_send_bytes = 16_384;
    })
    .await;
    let mut writer = bed.client().await;
    for _ in 0..10 {
        writer.append("t", &"x".repeat(100_000)).await;
    }
    let mut lazy = bed.upgraded().await;
    let range = br#"{"jsonrpc":"2.0","id":1,"method":"message.range","params":{"timeline":"t"}}"#;
    let requests = frame(0x81, range).repeat(1_000);
    // Writing may stall as well, since the server stops reading; either way the connection ends.
    let ended = async {
        let _ = lazy.write_all(&requests).await;
        let mut byte = [0; 1];
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            if lazy.write_all(&frame(0x8a, b"")).await.is_err() {
                break;
            }
            let _ = lazy.try_read(&mut byte[..0]);
        }
    };
    within(ended).await;
    writer.append("t", "goes on").await;
    drop((writer, lazy));
    bed.stop().await;
}

#[tokio::test]
async fn a_silent_client_is_closed_and_one_that_answers_pings_is_not() {
    let bed = Bed::with(|config| config.heartbeat_ms = 150).await;
    let mut silent = bed.upgraded().await;
    let mut alive = bed.client().await;
    let closed = async { assert_eq!(close_code(&mut silent).await, Some(4001)) };
    // The library answers pings whenever it is polled.
    let watch = async {
        let quiet = tokio::time::timeout(
            std::time::Duration::from_millis(1_500),
            futures_util::StreamExt::for_each(&mut alive.socket, |message| {
                assert!(message.is_ok_and(|message| message.is_ping()));
                std::future::ready(())
            }),
        );
        assert!(quiet.await.is_err(), "the connection ended");
    };
    tokio::join!(closed, watch);
    alive.ok("ping", json!({})).await;
    drop((silent, alive));
    bed.stop().await;
}

#[tokio::test]
async fn pages_end_early_and_no_message_passes_the_limit() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let body = "\u{1}".repeat(20_000);
    for _ in 0..40 {
        client.append("t", &body).await;
    }
    let id = client
        .ask("message.range", json!({"timeline": "t", "limit": 1000}))
        .await;
    let message = client.frame().await.unwrap();
    assert!(message.len() <= 1 << 20, "{}", message.len());
    let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
    assert_eq!(answer["id"], id);
    assert!(answer["result"]["next"].is_u64());
    let reply = client
        .ok(
            "subscribe",
            json!({"timeline": "t", "after": 0, "limit": 1}),
        )
        .await;
    assert_eq!(reply["more"], true);
    let mut position = 1;
    while position < 40 {
        let message = client.frame().await.unwrap();
        if message.is_ping() {
            continue;
        }
        assert!(message.len() <= 1 << 20, "{}", message.len());
        let push: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        for sequence in sequences(&push["params"]["messages"]) {
            assert_eq!(sequence, position + 1);
            position = sequence;
        }
    }
    drop(client);
    bed.stop().await;
}
