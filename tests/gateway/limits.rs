//! What clients cost who send much and finish nothing, and what happens to clients while the server is away.
//!
//! Against the real binary, for its allocator and its signals. Bounds on memory are a small part of what would pile up
//! if nothing held it. Must not: assert on speed; deadlines are only waited for.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

struct Server {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(settings: &[(&str, &str)]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_tideline"))
            .arg("serve")
            .arg("--data")
            .arg(dir.path().join("data"))
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .env("TIDELINE_LOG", "error")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server {
            child,
            port,
            _dir: dir,
        };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "the server does not start");
            sleep(Duration::from_millis(10));
        }
        server
    }

    fn raw(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    fn upgraded(&self) -> TcpStream {
        let mut socket = self.raw();
        let handshake = "GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\n\
            upgrade: websocket\r\nsec-websocket-version: 13\r\n\
            sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        socket.write_all(handshake.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        socket
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Resident memory, MiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.unwrap().parse::<u64>().unwrap() / 1_024
    }

    /// The value of a metric without labels, or with those that are given.
    fn metric(&self, name: &str) -> f64 {
        let mut socket = self.raw();
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        socket.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    fn small_calls_work(&self) {
        let mut socket = self.upgraded();
        let append = br#"{"jsonrpc":"2.0","id":1,"method":"message.append","params":{"timeline":"t","entry":{}}}"#;
        socket.write_all(&frame(TEXT, append)).unwrap();
        let (opcode, answer) = receive(&mut socket).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(opcode == 1 && answer.contains("sequence"), "{answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client's frame: masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len());
    bytes.extend(payload);
    bytes
}

fn head(first: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    if length < 126 {
        bytes.push(0x80 | u8::try_from(length).unwrap());
    } else {
        bytes.push(0x80 | 127);
        bytes.extend((length as u64).to_be_bytes());
    }
    bytes.extend([0; 4]);
    bytes
}

/// The next frame, or `None` at the end.
fn receive(socket: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    socket.read_exact(&mut head).ok()?;
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut more = [0; 2];
        socket.read_exact(&mut more).ok()?;
        length = usize::from(u16::from_be_bytes(more));
    }
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload).ok()?;
    Some((head[0] & 0x0f, payload))
}

/// Reads to the close frame and gives its code.
fn close_code(socket: &mut TcpStream) -> Option<u16> {
    loop {
        let (opcode, payload) = receive(socket)?;
        if opcode == 8 {
            return Some(u16::from_be_bytes([payload[0], payload[1]]));
        }
    }
}

const MIB: usize = 1 << 20;

#[test]
fn what_is_not_a_whole_request_is_bounded_over_all_connections() {
    let server = Server::start(&[("TIDELINE_INBOUND_BYTES_MAX", "16777216")]);
    server.small_calls_work();
    let before = server.resident();
    let most = vec![b' '; 4 * MIB - 1];
    // Whole frames of a message that does not end, frames that do not end, and bodies.
    let mut sockets = Vec::new();
    for number in 0..60 {
        let mut socket = server.upgraded();
        let bytes = match number % 2 {
            0 => [head(TEXT, 4 * MIB), most.clone()].concat(),
            _ => [frame(0x01, &most[..2 * MIB]), frame(0x00, &most[..MIB])].concat(),
        };
        let _ = socket.write_all(&bytes);
        sockets.push(socket);
    }
    let mut posts = Vec::new();
    for _ in 0..20 {
        let mut socket = server.raw();
        let head = format!(
            "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            4 * MIB
        );
        socket.write_all(head.as_bytes()).unwrap();
        let _ = socket.write_all(&most);
        posts.push(socket);
    }
    // The server may still have to read what the system holds for it.
    sleep(Duration::from_millis(300));
    let after = server.resident();
    assert!(after < before + 64, "{before} MiB, then {after} MiB");
    server.small_calls_work();
    assert!(server.metric("tideline_inbound_bytes") <= 16.0 * 1024.0 * 1024.0);
    assert!(server.metric(r#"tideline_refusals_total{limit="inbound_bytes_max"}"#) >= 50.0);
    let mut last = sockets.pop().unwrap();
    assert_eq!(close_code(&mut last), Some(1013));
    let mut answer = [0; 12];
    posts.pop().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    // Once they are gone there is room again.
    drop((sockets, posts));
    let end = Instant::now() + PATIENCE;
    while server.metric("tideline_inbound_bytes") > 0.0 {
        assert!(Instant::now() < end, "the room does not come back");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn pages_that_nobody_reads_are_bounded_over_all_connections() {
    let server = Server::start(&[("TIDELINE_ANSWERS_BYTES_MAX", "134217728")]);
    let mut writer = server.upgraded();
    let text = "x".repeat(200_000);
    let append = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"message.append","params":{{"timeline":"t","entry":{{"text":"{text}"}}}}}}"#
    );
    for _ in 0..8 {
        writer.write_all(&frame(TEXT, append.as_bytes())).unwrap();
        receive(&mut writer).unwrap();
    }
    let range = br#"{"jsonrpc":"2.0","id":1,"method":"message.range","params":{"timeline":"t"}}"#;
    let mut lazy = Vec::new();
    for _ in 0..20 {
        let mut socket = server.upgraded();
        socket.write_all(&frame(TEXT, range).repeat(20)).unwrap();
        lazy.push(socket);
    }
    // They are cut long before the minute that a slow reader has otherwise.
    let end = Instant::now() + PATIENCE;
    while server.metric(r#"tideline_closes_total{reason="slow_consumer"}"#) < 1.0 {
        assert!(Instant::now() < end, "nobody is cut");
        sleep(Duration::from_millis(100));
    }
    server.small_calls_work();
    drop(lazy);
    while server.metric("tideline_unread_bytes") > 0.0 {
        assert!(Instant::now() < end, "the room does not come back");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_subscription_is_small_beside_its_timeline() {
    let server = Server::start(&[]);
    let starts: Vec<String> = (0..1_000).map(|n| format!(r#""room/{n}":{{}}"#)).collect();
    let params = format!(r#"{{"timelines":{{{}}}}}"#, starts.join(","));
    let subscribe = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{params}}}"#);
    let subscribed = || {
        let mut socket = server.upgraded();
        let bytes = frame(TEXT, subscribe.as_bytes());
        socket.write_all(&bytes).unwrap();
        // Frames of all messages one behind the other: long ones come in several.
        let mut answers = String::new();
        while !answers.ends_with(r#""more":false}}"#) {
            let (_, answer) = receive(&mut socket).unwrap();
            answers.push_str(std::str::from_utf8(&answer).unwrap());
        }
        assert_eq!(answers.matches(r#""state":"ok""#).count(), 1_000);
        socket
    };
    // The first ones make the timelines, and what reads take.
    let mut sockets: Vec<_> = (0..10).map(|_| subscribed()).collect();
    let before = server.resident();
    sockets.extend((0..40).map(|_| subscribed()));
    let more = server.resident() - before;
    // 40,000 of up to 400 bytes, and 40 connections.
    assert!(more <= 20, "{more} MiB");
}

#[test]
fn memory_of_large_messages_is_given_back() {
    let server = Server::start(&[]);
    let before = server.resident();
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let message = [&ping[..], &vec![b' '; 4 * MIB - ping.len()]].concat();
    let mut sockets = Vec::new();
    for number in 0..60 {
        let mut socket = server.upgraded();
        let bytes = match number % 2 {
            0 => frame(TEXT, &message),
            _ => [
                frame(0x01, &message[..3 * MIB]),
                frame(0x80, &message[3 * MIB..]),
            ]
            .concat(),
        };
        socket.write_all(&bytes).unwrap();
        assert_eq!(receive(&mut socket).unwrap().0, 1);
        sockets.push(socket);
    }
    let end = Instant::now() + PATIENCE;
    while server.resident() >= before + 48 {
        let after = server.resident();
        assert!(Instant::now() < end, "{before} MiB, then {after} MiB");
        sleep(Duration::from_millis(100));
        server.small_calls_work();
    }
}

#[test]
fn a_message_must_be_whole_in_time_and_control_frames_do_not_prolong_it() {
    let server = Server::start(&[("TIDELINE_REQUEST_MS_MAX", "500")]);
    let mut slow = server.upgraded();
    let mut patient = server.upgraded();
    slow.write_all(&frame(0x01, b"{")).unwrap();
    let mut cut = server.upgraded();
    cut.write_all(&head(TEXT, 1_000)).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let end = Instant::now() + PATIENCE;
    let mut answer = [0; 4];
    loop {
        assert!(Instant::now() < end, "it may take as long as it likes");
        let _ = slow.write_all(&frame(PONG, b""));
        match slow.read_exact(&mut answer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            read => break read.unwrap(),
        }
    }
    assert_eq!(answer[0], 0x88);
    assert_eq!(u16::from_be_bytes([answer[2], answer[3]]), 4003);
    assert_eq!(close_code(&mut cut), Some(4003));
    // Who has begun nothing has as long as he likes.
    patient.write_all(&frame(PING, b"")).unwrap();
    assert_eq!(receive(&mut patient).unwrap().0, 10);
}

#[test]
fn a_pause_of_the_server_is_nobody_elses_silence() {
    let server = Server::start(&[("TIDELINE_HEARTBEAT_MS", "300")]);
    let is_over = AtomicBool::new(false);
    scope(|threads| {
        // Some talk all the time, some only answer pings.
        let talkers: Vec<_> = (0..8)
            .map(|_| {
                let mut socket = server.upgraded();
                socket
                    .set_read_timeout(Some(Duration::from_millis(50)))
                    .unwrap();
                let is_over = &is_over;
                threads.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        socket.write_all(&frame(PING, b"")).unwrap();
                        let mut bytes = [0; 4_096];
                        match socket.read(&mut bytes) {
                            // No frame of the server's is as long as a close frame but that.
                            Ok(read) => {
                                assert!(read > 0 && !bytes[..read].contains(&0x88), "closed")
                            }
                            Err(error) => assert!(
                                matches!(
                                    error.kind(),
                                    ErrorKind::WouldBlock
                                        | ErrorKind::TimedOut
                                        | ErrorKind::Interrupted
                                ),
                                "{error}"
                            ),
                        }
                    }
                })
            })
            .collect();
        let answerers: Vec<_> = (0..8)
            .map(|_| {
                let mut socket = server.upgraded();
                socket
                    .set_read_timeout(Some(Duration::from_millis(1)))
                    .unwrap();
                let is_over = &is_over;
                threads.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut head = [0; 2];
                        match socket.read(&mut head) {
                            Ok(read) => {
                                assert!(read > 0 && head[0] != 0x88, "closed");
                                socket.write_all(&frame(PONG, b"")).unwrap();
                            }
                            Err(_) => sleep(Duration::from_millis(5)),
                        }
                    }
                })
            })
            .collect();
        sleep(Duration::from_millis(500));
        for _ in 0..3 {
            server.signal("-STOP");
            sleep(Duration::from_millis(1_200));
            server.signal("-CONT");
            sleep(Duration::from_millis(400));
        }
        is_over.store(true, Ordering::Relaxed);
        for client in talkers.into_iter().chain(answerers) {
            client.join().unwrap();
        }
    });
    let mut silent = server.upgraded();
    assert_eq!(close_code(&mut silent), Some(4001));
}
