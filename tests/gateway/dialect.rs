//! A third dialect, made of lines of plain words, runs over a real session beside JSON-RPC.
//!
//! Owns: that dialect. Promises: fails when a session needs anything of a dialect that `wire::Dialect` does not have:
//! calls that share a frame and are answered each by itself, ids of another kind, pushes that are shared. Must not:
//! test JSON-RPC.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::borrow::Cow;
use std::io::Write as _;

use bytes::Bytes;
use futures_util::SinkExt as _;
use serde_json::json;
use tideline::wire::jsonrpc::JSON;
use tideline::wire::messages::message;
use tideline::wire::server::session;
use tideline::wire::timelines::sync;
use tideline::wire::{
    Call, Dialect, Failure, Frames, Id, Incoming, Integers, Limits, Push, Reason, Reply, Request,
};
use tokio_tungstenite::tungstenite::Message;

use crate::bed::{Bed, Client};

/// `7 ping`, `7 append t Hello`, `7 subscribe t`; `-` in place of a number asks for no answer. Lines of one frame are
/// calls of their own.
#[derive(Debug)]
struct Lines;

impl Dialect for Lines {
    fn subprotocol(&self) -> &'static str {
        "lines"
    }

    fn frames(&self) -> Frames {
        Frames::Text
    }

    fn decode(&self, bytes: &[u8], _: &Limits) -> Result<Incoming, Failure> {
        let text = std::str::from_utf8(bytes).map_err(|_| Failure::new(Reason::ParseError))?;
        if text == "?" {
            return Err(Reason::ParseError.into());
        }
        Ok(Incoming::Several(text.lines().map(call).collect()))
    }

    fn answer(&self, out: &mut Vec<u8>, id: &Id, answer: Result<&Reply, &Failure>) {
        let id = match id {
            Id::Integer(number) => number.to_string(),
            _ => "?".to_owned(),
        };
        match answer {
            Ok(Reply::Ping(_)) => write!(out, "{id} pong"),
            Ok(Reply::MessageAppend(message::AppendOutcome::Appended(appended))) => {
                write!(out, "{id} is {}", appended.sequence)
            }
            Ok(Reply::Subscribe(sync::Following::One(subscribed))) => {
                write!(out, "{id} follows {}", subscribed.head)
            }
            Ok(_) => write!(out, "{id} done"),
            Err(failure) => write!(out, "{id} no: {}", failure.reason.name()),
        }
        .unwrap();
    }

    fn push(&self, push: &Push<'_>) -> Bytes {
        let Push::Message(news) = push else {
            return Bytes::from_static(b"something");
        };
        let line = |message: &Cow<'_, message::Message>| {
            let columns = message.entry.as_ref().unwrap();
            format!("{} {} {:?}", news.timeline, message.sequence, columns[0].1)
        };
        let lines: Vec<String> = news.messages.iter().map(line).collect();
        lines.join("\n").into()
    }

    fn forms(&self) -> usize {
        1
    }

    fn form(&self, _: Integers) -> usize {
        0
    }
}

fn call(line: &str) -> Call {
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    let id = match words[0] {
        "-" => None,
        number => Some(number.parse().map_or(Id::Null, Id::Integer)),
    };
    let request = match words[1..] {
        ["ping"] => Ok(Request::Ping(session::Nothing {})),
        ["append", timeline, text] => {
            let entry = json!({ "text": text }).to_string();
            Ok(Request::MessageAppend(Box::new(message::Append {
                timeline: timeline.to_owned(),
                entry: serde_json::from_str(&entry).unwrap(),
                message_id: None,
                expect_head: None,
                expires_in_ms: None,
                deliver_at: None,
                open: None,
                create: true,
                epoch: None,
            })))
        }
        ["subscribe", timeline] => Ok(Request::Subscribe(Box::new(sync::Subscribe {
            timeline: Some(timeline.to_owned()),
            timelines: None,
            conversations: None,
            device: None,
            after: None,
            rewind: None,
            epoch: None,
            changes_after: None,
            open: sync::OpenPlaces::default(),
            limit: 1,
            create: true,
            with: Vec::new(),
            window_ms: None,
        }))),
        _ => Err(Reason::MethodNotFound.into()),
    };
    Call {
        traceparent: None,
        id,
        method: request.as_ref().ok().map(Request::method),
        request,
    }
}

static DIALECTS: [&dyn Dialect; 2] = [&JSON, &Lines];

async fn line(client: &mut Client) -> String {
    match client.frame().await {
        Some(Message::Text(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_dialect_is_spoken_beside_json_rpc() {
    let bed = Bed::speaking(&DIALECTS, |_| {}).await;
    let address = bed.server.address();
    let mut json = bed.client().await;
    json.ok("subscribe", json!({"timeline": "t"})).await;
    let (mut one, mut two) = (
        Client::connect(address, Some("lines")).await,
        Client::connect(address, Some("lines")).await,
    );
    one.send("7 ping\n8 fly\n-1 ping\n- ping").await;
    for expected in ["7 pong", "8 no: method_not_found", "-1 pong"] {
        assert_eq!(line(&mut one).await, expected);
    }
    one.send("").await;
    one.send("?").await;
    assert_eq!(line(&mut one).await, "? no: parse_error");
    for client in [&mut one, &mut two] {
        client.send("1 subscribe t\n2 subscribe t").await;
        let mut answers = [line(client).await, line(client).await];
        answers.sort();
        assert_eq!(answers, ["1 follows 0", "2 no: already_subscribed"]);
    }
    one.send("3 append t Good day\n- append t and\n4 append t good bye")
        .await;
    let mut lines = Vec::new();
    while lines.len() < 5 {
        lines.extend(line(&mut one).await.lines().map(str::to_owned));
    }
    lines.sort();
    assert_eq!(lines[..2], ["3 is 1", "4 is 3"]);
    let news = [
        r#"t 1 String("Good day")"#,
        r#"t 2 String("and")"#,
        r#"t 3 String("good bye")"#,
    ];
    assert_eq!(lines[2..], news);
    let mut lines = Vec::new();
    while lines.len() < 3 {
        lines.extend(line(&mut two).await.lines().map(str::to_owned));
    }
    assert_eq!(lines, news);
    assert_eq!(json.push().await["params"]["timeline"], "t");
    two.socket.send(Message::binary(vec![1])).await.unwrap();
    assert_eq!(two.closed().await, Some(1003));
    drop((one, two, json));
    bed.stop().await;
}
