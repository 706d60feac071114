//! What bad input gets on a WebSocket: the right close code or a typed error, and everybody else is unharmed.
//!
//! Through real sockets against a whole server in this process; frames are made by hand where a library would not.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::bed::{Bed, Client, close_code, within};
use crate::client_frame::frame;

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
/// The server's inbound_frame_bytes_max.
const FRAME_BYTES_MAX: usize = 4 << 20;

#[tokio::test]
async fn frames_that_break_the_protocol_get_their_close_code() {
    let bed = Bed::start().await;
    let unmasked = vec![TEXT, 2, b'{', b'}'];
    let big_length = {
        let mut bytes = vec![TEXT, 0x80 | 127];
        bytes.extend((4u64 << 30).to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    };
    let close = |code: u16, reason: &[u8]| {
        let payload = [&code.to_be_bytes()[..], reason].concat();
        frame(CLOSE, &payload)
    };
    let table: [(&str, Vec<u8>, u16); 26] = [
        ("unmasked", unmasked, 1002),
        ("unmasked close", vec![CLOSE, 0], 1002),
        ("first reserved bit", frame(TEXT | 0x40, b"{}"), 1002),
        ("second reserved bit", frame(TEXT | 0x20, b"{}"), 1002),
        ("third reserved bit", frame(PING | 0x10, b""), 1002),
        ("long close", frame(CLOSE, &[3; 126]), 1002),
        ("close of one byte", frame(CLOSE, &[3]), 1002),
        ("close with 999", close(999, b""), 1002),
        ("close with no status", close(1005, b""), 1002),
        ("close with an abnormal end", close(1006, b""), 1002),
        ("close with a code of TLS", close(1015, b""), 1002),
        ("close with a reserved code", close(2999, b""), 1002),
        ("close with 5000", close(5000, b""), 1002),
        ("close with no text", close(1000, &[0xc3]), 1007),
        ("close of an application", close(4999, b"bye"), 4999),
        (
            "fragmented continuation of a ping",
            [frame(0x01, b"{"), frame(0x09, b"")].concat(),
            1002,
        ),
        ("reserved opcode", frame(0x83, b""), 1002),
        ("reserved control opcode", frame(0x8b, b""), 1002),
        ("fragmented ping", frame(0x09, b""), 1002),
        ("long ping", frame(0x89, &[0; 126]), 1002),
        ("continuation of nothing", frame(0x80, b"x"), 1002),
        (
            "new message within a message",
            [frame(0x01, b"{"), frame(0x81, b"}")].concat(),
            1002,
        ),
        ("invalid UTF-8", frame(TEXT, &[b'"', 0xff, b'"']), 1007),
        (
            "invalid UTF-8 over fragments",
            [frame(0x01, &[0xc3]), frame(0x80, &[0x28])].concat(),
            1007,
        ),
        (
            "a binary frame on a JSON connection",
            frame(BINARY, b"{}"),
            1003,
        ),
        ("a length of 4 GiB", big_length, 1009),
    ];
    for (what, bytes, code) in table {
        let mut socket = bed.upgraded().await;
        socket.write_all(&bytes).await.unwrap();
        assert_eq!(close_code(&mut socket).await, Some(code), "{what}");
    }
    let mut client = bed.client().await;
    assert_eq!(client.append("t", "still alive").await, 1);
    drop(client);
    bed.stop().await;
}

/// What the server sends, frame by frame: first byte and payload.
async fn receive(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    within(socket.read_exact(&mut head)).await.unwrap();
    assert!(head[1] <= 125, "a short frame");
    let mut payload = vec![0; usize::from(head[1])];
    within(socket.read_exact(&mut payload)).await.unwrap();
    (head[0], payload)
}

#[tokio::test]
async fn what_the_protocol_allows_is_taken() {
    let bed = Bed::start().await;
    let mut socket = bed.upgraded().await;
    let request = r#"{"jsonrpc":"2.0","id":"ü","method":"ping"}"#.as_bytes();
    let inside = request.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    // In the middle of a character, with control frames between.
    let mut bytes = frame(0x01, &request[..inside]);
    bytes.extend(frame(PING, &[7; 125]));
    bytes.extend(frame(0x8a, b"a pong that answers nothing"));
    bytes.extend(frame(0x80, &request[inside..]));
    // Lengths need not be as short as they can be, and any mask is a mask.
    for length in [&[0xff, 0, 0, 0, 0, 0, 0, 0][..], &[0xfe, 0]] {
        let mask = [0x12, 0x34, 0x56, 0x78];
        bytes.push(TEXT);
        bytes.extend(length);
        bytes.push(u8::try_from(request.len()).unwrap());
        bytes.extend(mask);
        bytes.extend(
            request
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
    }
    bytes.extend(frame(CLOSE, b""));
    // As slow as can be: every byte comes by itself.
    socket.set_nodelay(true).unwrap();
    for byte in bytes {
        socket.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(receive(&mut socket).await, (0x8a, vec![7; 125]));
    for _ in 0..3 {
        let (first, answer) = receive(&mut socket).await;
        assert_eq!(first, TEXT);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["id"], "ü");
    }
    assert_eq!(receive(&mut socket).await, (CLOSE, Vec::new()));
    drop(socket);
    bed.stop().await;
}

#[tokio::test]
async fn a_message_over_the_limit_gets_1009_whole_or_in_fragments() {
    let bed = Bed::start().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let fitting = format!("{ping}{}", " ".repeat(FRAME_BYTES_MAX - ping.len()));
    let mut client = bed.client().await;
    client.send(fitting.clone()).await;
    assert!(client.answer(1).await["result"]["time"].is_u64());
    client.send(format!("{fitting} ")).await;
    assert_eq!(client.closed().await, Some(1009));
    let mut socket = bed.upgraded().await;
    socket
        .write_all(&frame(0x01, &vec![b' '; FRAME_BYTES_MAX - 192]))
        .await
        .unwrap();
    socket.write_all(&frame(0x00, &[b' '; 193])).await.unwrap();
    assert_eq!(close_code(&mut socket).await, Some(1009));
    drop((client, socket));
    bed.stop().await;
}

#[tokio::test]
async fn many_tiny_fragments_make_one_message() {
    let bed = Bed::start().await;
    let mut socket = bed.upgraded().await;
    let request = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let mut bytes = frame(0x01, b"");
    for byte in request {
        bytes.extend(frame(0x00, &[*byte]));
        bytes.extend(frame(0x00, b"").repeat(100));
    }
    bytes.extend(frame(0x80, b""));
    socket.write_all(&bytes).await.unwrap();
    let (_, answer) = receive(&mut socket).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["id"], 7);
    drop(socket);
    bed.stop().await;
}

#[tokio::test]
async fn a_text_frame_on_a_messagepack_connection_gets_1003() {
    let bed = Bed::start().await;
    let mut client = Client::connect(bed.server.address(), Some("tideline.v1.msgpack")).await;
    client.send("{}").await;
    assert_eq!(client.closed().await, Some(1003));
    drop(client);
    bed.stop().await;
}

/// Requests that can't be served, each with the code of its error.
fn meaningless() -> Vec<(String, i64)> {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let long_id = "x".repeat(300);
    let append = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message.append","params":{params}}}"#)
    };
    vec![
        ("{".to_owned(), -32700),
        (deep, 413),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"no.such"}"#.to_owned(),
            -32601,
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned(),
            -32600,
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(),
            -32600,
        ),
        ("[]".to_owned(), -32600),
        ("17".to_owned(), -32600),
        (append("{}"), -32602),
        (append(r#"{"timeline":"t"}"#), -32602),
        (append(r#"{"timeline":7,"entry":{}}"#), -32602),
        (append(r#"{"timeline":"","entry":{}}"#), -32602),
        (
            append(&format!(r#"{{"timeline":"{long_id}","entry":{{}}}}"#)),
            -32602,
        ),
        (append(r#"{"timeline":"t","entry":{"a":1,"a":2}}"#), -32602),
        (
            append(r#"{"timeline":"t","entry":{},"surprise":1}"#),
            -32602,
        ),
        (
            append(r#"{"timeline":"t","entry":{},"expect_head":-1}"#),
            -32602,
        ),
        (
            append(r#"{"timeline":"t","entry":{},"expect_head":9223372036854775808}"#),
            -32602,
        ),
        (
            append(&format!(
                r#"{{"timeline":"t","entry":{{"a":"{}"}}}}"#,
                "x".repeat(300_000)
            )),
            413,
        ),
    ]
}

#[tokio::test]
async fn requests_that_mean_nothing_get_typed_errors_and_the_connection_goes_on() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    for (text, code) in meaningless() {
        let shown: String = text.chars().take(100).collect();
        client.send(text).await;
        let Some(Message::Text(answer)) = client.frame().await else {
            panic!("{shown}")
        };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let error = &answer["error"];
        assert_eq!(error["code"], code, "{shown}: {answer}");
        assert!(
            error["data"]["reason"].is_string() && error["data"]["retry"] == false,
            "{answer}"
        );
    }
    assert_eq!(
        client
            .refused("message.range", json!({"timeline": "t", "limit": 0}))
            .await,
        "invalid_params"
    );
    assert_eq!(
        client
            .refused("message.range", json!({"timeline": "nobody"}))
            .await,
        "timeline_not_found"
    );
    assert_eq!(client.append("t", "fine").await, 1);
    drop(client);
    bed.stop().await;
}

#[tokio::test]
async fn sub_protocols_are_chosen_echoed_or_refused() {
    let bed = Bed::start().await;
    let handshake = crate::bed::HANDSHAKE.trim_end();
    for (offer, status, echo) in [
        (
            "tideline.v1.json",
            "101",
            Some("sec-websocket-protocol: tideline.v1.json"),
        ),
        (
            "chat, tideline.v1.msgpack",
            "101",
            Some("sec-websocket-protocol: tideline.v1.msgpack"),
        ),
        ("chat", "400", None),
    ] {
        let answer = bed.http(format!(
            "{handshake}\r\nsec-websocket-protocol: {offer}\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n"
        ));
        let answer = answer.await.to_lowercase();
        assert!(
            answer.starts_with(&format!("http/1.1 {status}")),
            "{answer}"
        );
        assert_eq!(
            answer.contains("sec-websocket-protocol:"),
            echo.is_some(),
            "{answer}"
        );
        assert!(echo.is_none_or(|echo| answer.contains(echo)), "{answer}");
        assert!(!answer.contains("sec-websocket-extensions"), "{answer}");
    }
    bed.stop().await;
}

#[tokio::test]
async fn messagepack_speaks_the_same_objects() {
    use futures_util::SinkExt as _;
    let bed = Bed::start().await;
    let mut client = Client::connect(bed.server.address(), Some("tideline.v1.msgpack")).await;
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "message.append",
                         "params": {"timeline": "t", "entry": {"text": "packed"}}});
    let bytes = rmp_serde::to_vec(&request).unwrap();
    client.socket.send(Message::binary(bytes)).await.unwrap();
    let Some(Message::Binary(answer)) = client.frame().await else {
        panic!("no binary answer")
    };
    let answer: Value = rmp_serde::from_slice(&answer).unwrap();
    assert_eq!(answer["result"]["sequence"], 1);
    let mut json = bed.client().await;
    let message = json
        .ok("message.get", json!({"timeline": "t", "sequence": 1}))
        .await;
    assert_eq!(message["message"]["entry"]["text"], "packed");
    drop((client, json));
    bed.stop().await;
}

#[tokio::test]
async fn bytes_that_came_with_the_handshake_are_not_lost() {
    let bed = Bed::start().await;
    let mut socket = bed.raw().await;
    let mut bytes = crate::bed::HANDSHAKE.as_bytes().to_vec();
    bytes.extend(frame(TEXT, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    socket.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}}") {
        assert!(within(socket.read_buf(&mut answer)).await.unwrap() > 0);
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("HTTP/1.1 101") && text.contains(r#""result":{"time":"#),
        "{text}"
    );
    socket
        .write_all(&frame(0x88, &1000u16.to_be_bytes()))
        .await
        .unwrap();
    assert_eq!(close_code(&mut socket).await, Some(1000));
    drop(socket);
    bed.stop().await;
}
