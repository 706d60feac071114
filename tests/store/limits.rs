//! The real binary under limits of the process: a file's size (a full disk without a disk), open files, address space,
//! the image's own size.
//!
//! Owns: the proof that a limit refuses calls, and neither stops a partition nor is told as damage. Promises: no root,
//! no file system of its own (`tests/full_disk.py` has those). Must not: assert on time.

#![allow(clippy::unwrap_used)] // a failed step is a failed test

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const SMALL: &str = "memtable_bytes = 1048576\nsegment_bytes = 1048576\nretention_bytes = 1048576\n\
    memtable_age_ms = 1000\nreserve_bytes = 0\n";

struct Server {
    child: Child,
    address: String,
    client: Client,
}

impl Server {
    /// Starts a server in a shell that has set a limit; gives its log if it does not start.
    fn start(dir: &Path, limit: &str, settings: &str) -> Result<Server, String> {
        let config = dir.join("tideline.toml");
        fs::write(&config, settings).unwrap();
        let log = fs::File::create(dir.join("log")).unwrap();
        let script = format!("{limit} && exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args([
                "-c",
                &script,
                env!("CARGO_BIN_EXE_tideline"),
                "serve",
                "--listen",
                "127.0.0.1:0",
            ])
            .arg("--config")
            .arg(&config)
            .arg("--data")
            .arg(dir.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(dir.join("log")).unwrap();
            let ready = text.lines().find(|line| line.contains("ready address="));
            if let Some(address) = ready.and_then(|line| line.split("address=").nth(1)) {
                let address = address.split(' ').next().unwrap().to_owned();
                let client = Client::connect(&address);
                return Ok(Server {
                    child,
                    address,
                    client,
                });
            }
            if child.try_wait().unwrap().is_some() {
                return Err(fs::read_to_string(dir.join("log")).unwrap());
            }
            assert!(Instant::now() < deadline, "neither ready nor ended: {text}");
            sleep(Duration::from_millis(5));
        }
    }

    fn append(&mut self, bytes: usize) -> Result<u64, String> {
        let entry = json!({"text": "x".repeat(bytes)});
        let done = self
            .client
            .call("message.append", json!({"timeline": "t", "entry": entry}));
        done.map(|done| done["sequence"].as_u64().unwrap())
    }

    /// Appends until a call is refused; gives the last sequence and the reason.
    fn fill(&mut self) -> (u64, String) {
        let mut last = 0;
        loop {
            match self.append(100_000) {
                Ok(sequence) => last = sequence,
                Err(reason) if reason == "busy" => sleep(Duration::from_millis(20)),
                Err(reason) => return (last, reason),
            }
        }
    }

    fn append_when_possible(&mut self) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.append(1_000) {
                Ok(sequence) => return sequence,
                Err(reason) => assert!(Instant::now() < deadline, "{reason}"),
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Every message up to `last` is there.
    fn check(&mut self, last: u64) {
        for sequence in 1..=last {
            let params = json!({"timeline": "t", "sequence": sequence});
            self.client.call("message.get", params).unwrap();
        }
    }

    fn metric(&mut self, line: &str) -> f64 {
        let text = self.client.get("/metrics");
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        found
            .unwrap_or_else(|| panic!("no {line}"))
            .trim()
            .parse()
            .unwrap()
    }

    fn set(&self, resource: Resource, limit: Option<u64>) {
        let pid = Pid::from_child(&self.child);
        let maximum = getrlimit(resource).maximum;
        prlimit(
            Some(pid),
            resource,
            Rlimit {
                current: limit,
                maximum,
            },
        )
        .unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(socket))
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let head = "POST /v1/rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        self.send(&format!(
            "{head}content-length: {}\r\n\r\n{body}",
            body.len()
        ));
        let answer: Value = serde_json::from_str(&self.answer()).unwrap();
        match answer.get("error") {
            None => Ok(answer["result"].clone()),
            Some(error) => Err(error["data"]["reason"].as_str().unwrap_or("?").to_owned()),
        }
    }

    fn get(&mut self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
        self.answer()
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).unwrap() > 0,
                "the connection ended"
            );
            if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = told.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

/// LMDB reports a write that was done in part as EIO. With a file's size limited that happens at the limit, as on a
/// full disk; before, it stopped the partition until a restart, or the signal ended the process.
#[test]
fn a_file_that_may_not_grow_is_a_full_disk_and_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), "true", SMALL).unwrap();
    // Not a whole number of pages, so that a write is done in part.
    server.set(Resource::Fsize, Some(6 * 1024 * 1024 + 1_536));
    let (last, reason) = server.fill();
    assert_eq!(reason, "storage_full");
    for _ in 0..20 {
        sleep(Duration::from_millis(50));
        let again = server.append(100_000);
        assert!(
            again
                .as_ref()
                .err()
                .is_none_or(|why| why == "storage_full" || why == "busy"),
            "{again:?}"
        );
    }
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
    server.check(last);
    // A restart there serves too, and does not speak of damage.
    let _ = server.child.kill();
    let _ = server.child.wait();
    drop(server);
    // 12,291 blocks of 512 bytes: the same limit, in a shell's words.
    let mut server = Server::start(dir.path(), "ulimit -S -f 12291", SMALL).unwrap();
    server.check(last);
    server.set(Resource::Fsize, None);
    assert!(server.append_when_possible() > last);
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
    server.check(last);
}

/// Idle connections took all descriptors, and the next segment's refusal stopped the partition.
#[test]
fn connections_leave_descriptors_for_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), "ulimit -n 256", SMALL).unwrap();
    let limit = server.metric("tideline_limit{limit=\"connections_max\"}");
    assert!((1.0..256.0).contains(&limit), "{limit}");
    // A connection that has only looked at a page would have to make room, too.
    let mut last = server.append(1).unwrap();
    let idle: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    for _ in 0..50 {
        last = server.append(100_000).unwrap();
    }
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
    // The first ones have made room.
    let mut said = String::new();
    let mut socket = idle.first().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    drop(idle);
    server.check(last);
    let text = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(text.contains("ulimit -n"), "{text}");
}

/// When descriptors run out all the same, the log's next segment waits for one.
#[test]
fn a_missing_descriptor_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), "true", SMALL).unwrap();
    let first = server.append(1_000).unwrap();
    // As if others had all of them: nothing can be opened any more, what is open stays.
    server.set(Resource::Nofile, Some(3));
    let (last, reason) = {
        let mut last = first;
        let refused = loop {
            match server.append(100_000) {
                Ok(sequence) => last = sequence,
                Err(reason) => break reason,
            }
        };
        (last, refused)
    };
    assert_eq!(reason, "busy");
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
    server.check(last);
    server.set(Resource::Nofile, Some(1_024));
    assert!(server.append_when_possible() > last);
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
}

#[test]
fn too_little_address_space_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // A debug build's threads need some; a map of 1 TiB does not fit in any case.
    let log = Server::start(dir.path(), "ulimit -v 8000000", "")
        .err()
        .unwrap();
    assert!(
        log.contains("map_bytes") && log.contains("ulimit -v"),
        "{log}"
    );
    assert!(!log.contains("damaged"), "{log}");
}

/// A full map could not even be opened: the first step of a start is a write.
#[test]
fn a_full_map_refuses_writes_and_grows_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("{SMALL}map_bytes = 16777216\n");
    let mut server = Server::start(dir.path(), "true", &settings).unwrap();
    let (last, reason) = server.fill();
    assert_eq!(reason, "storage_full");
    server.check(last);
    drop(server);
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        log.contains("map_bytes") && !log.contains("damaged"),
        "{log}"
    );
    let mut server = Server::start(dir.path(), "true", &settings).unwrap();
    assert!(server.append_when_possible() > last);
    server.check(last);
    assert!(server.metric("tideline_partitions_stopped{partition=\"0\"}") < 1.0);
}
