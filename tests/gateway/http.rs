//! What the server answers over plain HTTP: pages, `POST /v1/rpc`, refusals, and clients that take their time.
//!
//! Through real sockets against a whole server in this process. Statuses and headers are part of the protocol.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use bytes::BufMut as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bed::{Bed, HANDSHAKE, read_answer, rpc_request, within};

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

#[tokio::test]
async fn pages_are_there_and_other_paths_and_methods_are_refused() {
    let bed = Bed::start().await;
    for (request, expected, holds) in [
        ("GET / HTTP/1.1", "307", "location: /console/"),
        ("GET /console HTTP/1.1", "307", "location: /console/"),
        ("GET /demo HTTP/1.1", "307", "location: /demo/"),
        ("GET /console/ HTTP/1.1", "200", "content-type: text/html"),
        (
            "GET /console/main.js HTTP/1.1",
            "200",
            "content-type: text/javascript",
        ),
        (
            "GET /console/client/index.js HTTP/1.1",
            "200",
            "cache-control: no-cache",
        ),
        ("HEAD /console/ HTTP/1.1", "200", "etag: W/"),
        ("POST /console/ HTTP/1.1", "405", "allow: GET, HEAD"),
        ("GET /console/none.js HTTP/1.1", "404", ""),
        ("GET /console/scripts/serve.js HTTP/1.1", "404", ""),
        ("GET /healthz HTTP/1.1", "200", "ok"),
        ("GET /readyz HTTP/1.1", "200", "ready"),
        ("GET /metrics HTTP/1.1", "200", "tideline_connections "),
        ("HEAD /healthz HTTP/1.1", "200", ""),
        ("GET /nothing HTTP/1.1", "404", ""),
        ("POST / HTTP/1.1", "405", "allow: GET, HEAD"),
        ("GET /v1/rpc HTTP/1.1", "405", "allow: POST"),
        ("POST /v1/connect HTTP/1.1", "405", "allow: GET"),
        (
            "GET /v1/connect HTTP/1.1",
            "426",
            "sec-websocket-version: 13",
        ),
    ] {
        let answer = bed
            .http(format!(
                "{request}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(status(&answer), expected, "{request}: {answer}");
        assert!(answer.contains(holds), "{request}: {answer}");
        assert!(
            answer.contains("x-content-type-options: nosniff"),
            "{answer}"
        );
        if expected == "200" || expected == "404" {
            let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                          img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                          require-trusted-types-for 'script'; trusted-types 'none'\r\n";
            assert!(answer.contains(policy), "{answer}");
            assert!(answer.contains("referrer-policy: no-referrer"), "{answer}");
            assert!(
                answer.contains("cross-origin-opener-policy: same-origin"),
                "{answer}"
            );
            assert!(
                answer.contains("cross-origin-resource-policy: same-origin"),
                "{answer}"
            );
        }
    }
    bed.stop().await;
}

#[tokio::test]
async fn a_foreign_origin_or_host_gets_403_everywhere() {
    let bed = Bed::with(|config| {
        config.allowed_origins = vec!["https://chat.example".to_owned()];
        config.allowed_hosts = vec!["tideline.example".to_owned()];
        config.insecure = true;
    })
    .await;
    let connect = HANDSHAKE.trim_end();
    for (headers, expected) in [
        ("origin: https://evil.example", "403"),
        ("origin: null", "403"),
        ("origin: http://localhost", "101"),
        ("origin: https://chat.example", "101"),
    ] {
        let answer = bed.http(format!("{connect}\r\n{headers}\r\n\r\n")).await;
        assert_eq!(status(&answer), expected, "{headers}");
    }
    for (host, expected) in [
        ("evil.example", "403"),
        ("tideline.example", "200"),
        ("127.0.0.1:1", "200"),
    ] {
        for path in ["/console/", "/metrics"] {
            let request =
                format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            assert_eq!(status(&bed.http(&request).await), expected, "{host} {path}");
        }
    }
    bed.stop().await;
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_call_and_read_every_answer() {
    let bed = Bed::with(|config| {
        config.allowed_origins = vec!["https://Chat.example".to_owned()];
    })
    .await;
    let page = "host: localhost\r\norigin: https://chat.example\r\nconnection: close\r\n";
    let asks =
        "access-control-request-method: POST\r\naccess-control-request-headers: content-type";
    for path in ["/v1/rpc", "/metrics", "/GetRow"] {
        let answer = bed.http(format!("OPTIONS {path} HTTP/1.1\r\n{page}{asks}\r\n\r\n"));
        let answer = answer.await;
        assert_eq!(status(&answer), "204", "{answer}");
        for line in [
            "access-control-allow-origin: https://chat.example\r\n",
            "access-control-allow-methods: GET, HEAD, POST, PUT, DELETE\r\n",
            "access-control-allow-headers: content-type, tideline-user, authorization, last-event-id, if-none-match, x-request-id, traceparent, stream-seq, \
             stream-ttl, stream-expires-at, stream-closed, producer-id, producer-epoch, producer-seq, stream-forked-from, \
             stream-fork-offset, stream-fork-sub-offset\r\n",
            "access-control-max-age: ",
            "vary: origin\r\n",
        ] {
            assert!(answer.contains(line), "{path}: {answer}");
        }
        assert!(!answer.contains("private-network"), "{answer}");
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let json = format!(
        "content-type: application/json\r\ncontent-length: {}",
        ping.len()
    );
    for (request, expected) in [
        (
            format!("POST /v1/rpc HTTP/1.1\r\n{page}{json}\r\n\r\n{ping}"),
            "200",
        ),
        (
            format!("POST /v1/rpc HTTP/1.1\r\n{page}content-length: 0\r\n\r\n"),
            "415",
        ),
        (format!("GET /v1/rpc HTTP/1.1\r\n{page}\r\n"), "405"),
        (format!("GET /nothing HTTP/1.1\r\n{page}\r\n"), "404"),
        (format!("OPTIONS /v1/rpc HTTP/1.1\r\n{page}\r\n"), "405"),
    ] {
        let answer = bed.http(&request).await;
        assert_eq!(status(&answer), expected, "{request}: {answer}");
        assert!(
            answer.contains("access-control-allow-origin: https://chat.example\r\n"),
            "{answer}"
        );
        assert!(answer.contains("vary: origin\r\n"), "{answer}");
        assert!(
            answer.contains("access-control-expose-headers: retry-after"),
            "{answer}"
        );
    }
    bed.stop().await;
}

#[tokio::test]
async fn a_page_of_another_origin_hears_only_what_to_set() {
    let bed = Bed::with(|config| {
        config.allowed_origins = vec!["https://chat.example".to_owned()];
    })
    .await;
    let asks = "access-control-request-method: POST";
    // Who is no page hears nothing of it, and who is a foreign one is not let in.
    let answer = bed.http("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(!answer.await.contains("access-control"));
    for origin in [
        "https://evil.example",
        "null",
        "https://chat.example, https://chat.example",
    ] {
        let head = format!("host: localhost\r\norigin: {origin}\r\nconnection: close\r\n{asks}");
        let answer = bed.http(format!("OPTIONS /v1/rpc HTTP/1.1\r\n{head}\r\n\r\n"));
        let answer = answer.await;
        assert_eq!(status(&answer), "403", "{answer}");
        assert!(!answer.contains("access-control-allow"), "{answer}");
        assert!(answer.contains("allowed_origins"), "{answer}");
    }
    let foreign = "GET / HTTP/1.1\r\nhost: Chat.Example:7070\r\nconnection: close\r\n\r\n";
    let answer = bed.http(foreign).await;
    assert!(
        answer.contains(r#"set allowed_hosts = ["chat.example"]"#),
        "{answer}"
    );
    // A browser asks more for a page of the internet.
    let private = "access-control-request-private-network: true";
    let request = format!(
        "OPTIONS /v1/rpc HTTP/1.1\r\nhost: localhost\r\norigin: https://chat.example\r\nconnection: close\r\n{asks}\r\n{private}\r\n\r\n"
    );
    let answer = bed.http(request).await;
    assert!(
        answer.contains("access-control-allow-private-network: true"),
        "{answer}"
    );
    bed.stop().await;
}

#[tokio::test]
async fn a_token_that_nobody_can_check_is_refused() {
    let bed = Bed::start().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (authorization, expected) in [
        ("Bearer abc", "401"),
        ("bearer abc", "401"),
        // That of a proxy in front, which passes it on.
        ("Basic YW5uOnNlY3JldA==", "200"),
    ] {
        let headers = format!("connection: close\r\nauthorization: {authorization}\r\n");
        let request = rpc_request(&headers, ping);
        let answer = bed.http(&request).await;
        assert_eq!(status(&answer), expected, "{authorization}: {answer}");
        assert_eq!(answer.contains("no authentication"), expected == "401");
    }
    let connect = HANDSHAKE.trim_end();
    let answer = bed.http(format!("{connect}\r\nauthorization: Bearer abc\r\n\r\n"));
    let answer = answer.await;
    assert_eq!(status(&answer), "401", "{answer}");
    assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
    for open in [json!({"token": "abc"}), json!({"token": "", "user": "ann"})] {
        let open = json!({"jsonrpc": "2.0", "id": 1, "method": "session.open", "params": open});
        let error = &bed.post(&open).await["error"];
        assert_eq!(error["code"], 401, "{error}");
        assert_eq!(error["data"]["reason"], "unauthenticated");
        assert_eq!(error["data"]["field"], "token");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("no authentication"),
            "{error}"
        );
    }
    bed.stop().await;
}

#[tokio::test]
async fn rpc_answers_requests_batches_and_notifications() {
    let bed = Bed::start().await;
    let append = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "message.append",
               "params": {"timeline": "t", "entry": {"n": id}}})
    };
    assert_eq!(bed.post(&append(1)).await["result"]["sequence"], 1);
    let mut silent = append(2);
    silent.as_object_mut().unwrap().remove("id");
    assert!(bed.post(&silent).await.is_null());
    let range = json!({"jsonrpc": "2.0", "id": "r", "method": "message.range", "params": {"timeline": "t"}});
    let answers = bed
        .post(&json!([append(3), silent, append(4), range]))
        .await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[0]["result"]["sequence"], 3);
    assert_eq!(answers[1]["result"]["sequence"], 5);
    assert_eq!(
        answers[2]["result"]["messages"].as_array().unwrap().len(),
        5
    );
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"timeline": "t"}});
    assert_eq!(bed.post(&subscribe).await["error"]["code"], -32601);
    assert_eq!(bed.post(&json!([])).await["error"]["code"], -32600);
    drop(silent);
    bed.stop().await;
}

#[tokio::test]
async fn rpc_stamps_the_user_of_the_header() {
    let bed = Bed::start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message.append",
                      "params": {"timeline": "t", "entry": {}}})
    .to_string();
    let head = "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json; charset=utf-8";
    let length = body.len();
    let answer = bed
        .http(format!(
            "{head}\r\ntideline-user: ada\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    assert_eq!(status(&answer), "200");
    let get = json!({"jsonrpc": "2.0", "id": 1, "method": "message.get",
                     "params": {"timeline": "t", "sequence": 1}});
    assert_eq!(bed.post(&get).await["result"]["message"]["sender"], "ada");
    let answer = bed
        .http(format!(
            "{head}\r\ntideline-user: \r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    assert_eq!(status(&answer), "400");
    bed.stop().await;
}

#[tokio::test]
async fn bodies_of_the_wrong_kind_or_size_are_refused() {
    let bed = Bed::start().await;
    let post = "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let json_type = "content-type: application/json\r\n";
    let over = 4 * 1024 * 1024 + 1;
    for (request, expected) in [
        (
            format!("{post}content-type: text/plain\r\ncontent-length: 2\r\n\r\n{{}}"),
            "415",
        ),
        (format!("{post}content-length: 2\r\n\r\n{{}}"), "415"),
        (
            format!("{post}{json_type}content-length: {over}\r\n\r\n"),
            "413",
        ),
        (
            format!("{post}{json_type}content-length: 99999999999999999999\r\n\r\n"),
            "400",
        ),
    ] {
        assert_eq!(status(&bed.http(&request).await), expected, "{request}");
    }
    // A body that grows beyond the limit without having said so.
    let mut socket = bed.raw().await;
    let head = format!("{post}{json_type}transfer-encoding: chunked\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
    for _ in 0..5 {
        if socket.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    assert_eq!(status(&read_answer(&mut socket).await), "413");
    let malformed = bed
        .http(format!("{post}{json_type}content-length: 1\r\n\r\n{{"))
        .await;
    assert!(malformed.contains("-32700"), "{malformed}");
    drop(socket);
    bed.stop().await;
}

/// A 4.5 MB POST of a client that writes all of it before it reads, and what it gets.
async fn post_large(bed: &Bed, head: &str, body: &[u8]) -> std::io::Result<String> {
    let mut socket = bed.raw().await;
    let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes()).await?;
    within(socket.write_all(body)).await?;
    let mut answer = String::new();
    within(socket.read_to_string(&mut answer)).await?;
    Ok(answer)
}

/// Of each kind 8, or as many as REFUSED_POSTS says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_arrives_though_its_body_is_not_wanted() {
    let bed = Bed::start().await;
    let tries = std::env::var("REFUSED_POSTS").map_or(8, |tries| tries.parse().unwrap());
    let body = vec![b'x'; 4_500_000];
    let host = "HTTP/1.1\r\nhost: localhost";
    let kind = "content-type: application/json";
    for (head, expected) in [
        (
            format!("POST /v1/rpc HTTP/1.1\r\nhost: evil.example\r\n{kind}"),
            "403",
        ),
        (format!("POST /nothing {host}"), "404"),
        (format!("POST / {host}"), "405"),
        (format!("POST /v1/rpc {host}\r\n{kind}"), "413"),
        (format!("POST /v1/rpc {host}"), "415"),
        (
            format!("POST /v1/rpc {host}\r\n{kind}\r\ntideline-user: "),
            "400",
        ),
        (format!("POST /GetRow {host}"), "400"),
        (format!("POST /ListTable {host}"), "400"),
    ] {
        for attempt in 0..tries {
            let answer = post_large(&bed, &head, &body).await;
            let answer = answer.unwrap_or_else(|error| panic!("{head}, {attempt}: {error}"));
            assert_eq!(status(&answer), expected, "{head}, {attempt}: {answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        }
    }
    bed.stop().await;
}

#[tokio::test]
async fn a_connection_goes_on_after_a_small_body_that_was_not_wanted() {
    let bed = Bed::with(|config| config.request_ms_max = 300).await;
    let mut socket = bed.raw().await;
    for _ in 0..3 {
        let head = "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30000\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&[b'x'; 30_000]).await.unwrap();
        let answer = read_answer(&mut socket).await;
        assert_eq!(status(&answer), "415");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    // A body that never comes, and one that the client holds back until it is asked for.
    let head = "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30000\r\n";
    let json_type = "content-type: application/json\r\n";
    for (headers, expected) in [(json_type, "408"), ("expect: 100-continue\r\n", "415")] {
        let answer = bed.http(format!("{head}{headers}\r\n")).await;
        assert_eq!(status(&answer), expected);
        assert!(answer.contains("connection: close"), "{answer}");
    }
    drop(socket);
    bed.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_read_by_the_byte_is_cut() {
    let bed = Bed::with(|config| {
        config.request_ms_max = 500;
        config.socket_send_bytes = 16_384;
    })
    .await;
    let mut writer = bed.client().await;
    let entry = json!({"text": "x".repeat(200_000)});
    for _ in 0..6 {
        let append = json!({"timeline": "t", "entry": entry});
        writer.ok("message.append", append).await;
    }
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"message.range","params":{"timeline":"t"}}"#;
    let request = rpc_request("", body);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut socket = socket.connect(bed.server.address()).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // At this pace the answer would take half a minute.
    while let Ok(1..) = within(socket.read_buf(&mut (&mut answer).limit(512))).await {
        tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    }
    assert!(answer.len() < 500_000, "{} bytes came", answer.len());
    drop((writer, socket));
    bed.stop().await;
}

#[tokio::test]
async fn heads_that_dribble_or_never_come_end_at_the_deadline() {
    let bed = Bed::with(|config| config.request_ms_max = 300).await;
    let mut silent = bed.raw().await;
    let mut dribbling = bed.raw().await;
    let dribble = async {
        for byte in b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "
            .iter()
            .chain([b'x'; 1000].iter())
        {
            if dribbling.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let mut answer = [0; 1024];
            if matches!(dribbling.try_read(&mut answer), Ok(0)) {
                break;
            }
        }
    };
    within(dribble).await;
    let mut rest = Vec::new();
    within(silent.read_to_end(&mut rest)).await.unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    assert_eq!(status(&bed.http(&long).await), "431");
    assert_eq!(
        status(
            &bed.http("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .await
        ),
        "200"
    );
    drop((silent, dribbling));
    bed.stop().await;
}

#[tokio::test]
async fn beyond_connections_max_clients_are_told_to_come_back() {
    let bed = Bed::with(|config| config.connections_max = 2).await;
    let first = bed.upgraded().await;
    let _second = bed.upgraded().await;
    let mut third = bed.raw().await;
    assert_eq!(status(&read_answer(&mut third).await), "503");
    drop(first);
    // The place is free as soon as the server has seen the end.
    within(async {
        loop {
            let answer =
                bed.http("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            if status(&answer.await) == "200" {
                break;
            }
        }
    })
    .await;
    drop((_second, third));
    bed.stop().await;
}
