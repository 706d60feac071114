//! Clients that take and never read: what they asked for must not pile up in the server.
//!
//! One test in a process of its own, so that the process's peak of resident memory is that of the server under this
//! load. The bounds are a small part of what would pile up if nothing held it. Must not: run beside other tests.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::bed::{Bed, within};
use crate::client_frame::frame;
use crate::own_process::is_alone;

/// The process's peak of resident memory, MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse::<u64>().unwrap() / 1_024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_cost_little_memory() {
    if !is_alone("memory::clients_that_never_read_cost_little_memory") {
        return;
    }
    let bed = Bed::with(|config| config.socket_send_bytes = 16_384).await;
    let mut writer = bed.client().await;
    let entry = json!({"text": "x".repeat(20_000)});
    let append = json!({"timeline": "t", "entry": entry});
    for _ in 0..20 {
        writer.ok("message.append", append.clone()).await;
    }
    let begin = peak();
    // 10,000 pages of a quarter of a MiB are asked for on each of four connections: 10 GiB.
    let range = br#"{"jsonrpc":"2.0","id":1,"method":"message.range","params":{"timeline":"t"}}"#;
    let mut askers = Vec::new();
    for _ in 0..4 {
        let mut lazy = bed.upgraded().await;
        let requests = frame(0x81, range).repeat(10_000);
        // The server stops to read, so not all of it need go in.
        let _ = tokio::time::timeout(Duration::from_millis(500), lazy.write_all(&requests)).await;
        askers.push(lazy);
    }
    writer.ok("ping", json!({})).await;
    let asked = peak();
    assert!(asked < begin + 64, "{begin} MiB, then {asked} MiB");
    // 300 subscribers who never read, and a timeline that gets 8 MiB: 2.3 GiB.
    let subscribe = br#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"timeline":"t"}}"#;
    let mut followers = Vec::new();
    for _ in 0..300 {
        let mut lazy = bed.upgraded().await;
        lazy.write_all(&frame(0x81, subscribe)).await.unwrap();
        followers.push(lazy);
    }
    for _ in 0..400 {
        writer.ok("message.append", append.clone()).await;
    }
    let followed = peak();
    assert!(followed < asked + 192, "{asked} MiB, then {followed} MiB");
    // Nobody else is harmed.
    let mut reader = bed.client().await;
    let page = within(reader.ok("message.range", json!({"timeline": "t", "from": 420}))).await;
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    drop((writer, reader, askers, followers));
    bed.stop().await;
}
