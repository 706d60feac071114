//! Partitions on a log of real servers: what one node was answered is in the rows of all, whoever takes over.
//!
//! Owns: that scene, of three nodes in this process. Promises: rows of all nodes are compared at its end. Must not:
//! know rows of the layers above.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use tideline_base::clock::Clock;
use tideline_base::entry::Entry;
use tideline_base::ids::{PartitionId, Position};
use tideline_cluster::ReadProof;
use tideline_jetstream::{Access, Demands, Driver, Options, genesis as read_genesis};
use tideline_store::partition::{
    Direction, DropContext, MemberOptions, Options as StoreOptions, Partitions, Pieces, Purpose,
    Role, Rules, StoreError, SubmitError, Txn, Verdict,
};

use crate::proxy::{Mode, Proxy};
use crate::servers::{PATIENCE, Servers};

const HOME: PartitionId = PartitionId(0);
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Rows that are written whole.
struct PlainRules;

impl Rules for PlainRules {
    fn compose(&self, _: &[u8], _: &Entry, newer: &Entry) -> Entry {
        newer.clone()
    }

    fn verdict(&self, _: &[u8], _: &Entry, _: &DropContext<'_>) -> Verdict {
        Verdict::Keep
    }

    fn split(&self, _: &Bytes, _: usize) -> Option<Pieces> {
        None
    }

    fn join(&self, _: &Bytes, _: &[Bytes]) -> Result<Bytes, &'static str> {
        Err("plain rows are never cut")
    }

    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..1)
    }

    fn filter_key(&self, _: &[u8]) -> bool {
        true
    }
}

/// A node. The partition ends before its driver.
struct Stored {
    partitions: Partitions,
    driver: Driver,
}

impl Stored {
    fn open(home: &TempDir, number: usize, servers: &Servers, access: Access) -> Stored {
        let name = format!("n{number}");
        let member = MemberOptions {
            first: Some(read_genesis(&access, "chat", 0).expect("a genesis")),
            forward_ms_max: 15_000,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let options = StoreOptions {
            memtable_bytes: 64 << 10,
            ..StoreOptions::default()
        };
        let (rules, clock) = (Arc::new(PlainRules), Arc::new(Clock::system()));
        let folder = home.path().join(&name);
        let opened = Partitions::open_member(&folder, options, rules, clock, member);
        let (partitions, seat) = opened.expect("it opens");
        let options = Options {
            access,
            demands: Demands {
                monitors: servers.monitors(),
                is_unverified: false,
                frame_bytes_max: FRAME_BYTES_MAX as u64,
            },
            node: tideline_cluster::Options {
                node: name,
                boot: crate::node::now_us(),
                genesis: seat.genesis,
                read_proof: ReadProof::Lease,
                read_lease_ms: 500,
                is_automatic: false,
                is_drained: false,
                grace_ms: 0,
                claims_again: false,
                claims_new: false,
                owner_silence_ms: 800,
                attest_frames: 64,
                attest_ms: 500,
                trim: tideline_cluster::TrimOptions::default(),
                settings: BTreeMap::new(),
            },
        };
        let driver = Driver::begin(options, seat.place, Box::new(seat.host)).expect("it begins");
        let limit = Duration::from_secs(10);
        partitions.attach(driver.waker(), driver.prover(), driver.reader(limit));
        Stored { partitions, driver }
    }

    fn owns(&self) {
        self.driver.take_over();
        let role = self.partitions.role().expect("a member");
        let until = Instant::now() + PATIENCE;
        while !matches!(*role.borrow(), Role::Owns { .. }) {
            assert!(Instant::now() < until, "it owns: {:?}", role.borrow());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(self) {
        runtime().block_on(self.partitions.close());
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// What writers were answered, by key; `None` = not written.
type Heard = BTreeMap<String, Option<bool>>;

/// Writes in a few threads, until `meanwhile` has ended, which is given what waits for so many further writes.
fn write(node: &Stored, name: &str, meanwhile: impl FnOnce(&dyn Fn(usize)), heard: &mut Heard) {
    let (ends, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (ends, done, partitions) = (&ends, &done, &node.partitions);
                scope.spawn(move || {
                    let (runtime, mut heard) = (runtime(), Heard::new());
                    for number in 0.. {
                        if ends.load(Ordering::SeqCst) {
                            break;
                        }
                        let key = format!("{name} {writer} {number}");
                        let row = key.clone();
                        let closure = move |txn: &mut Txn<'_>| {
                            txn.put(&row, [b'x'; 200]);
                            Ok::<(), ()>(())
                        };
                        let answer =
                            runtime.block_on(partitions.submit(Purpose::Adds, HOME, 300, closure));
                        let is_there = match answer {
                            Ok(()) => Some(true),
                            Err(SubmitError::Failed(StoreError::OutcomeUnknown)) => Some(false),
                            Err(_) => None,
                        };
                        match is_there {
                            Some(true) => drop(done.fetch_add(1, Ordering::SeqCst)),
                            _ => pause(5),
                        }
                        heard.insert(key, is_there);
                    }
                    heard
                })
            })
            .collect();
        let more = |count: usize| {
            let wanted = done.load(Ordering::SeqCst) + count;
            let until = Instant::now() + PATIENCE;
            while done.load(Ordering::SeqCst) < wanted && Instant::now() < until {
                pause(5);
            }
        };
        meanwhile(&more);
        ends.store(true, Ordering::SeqCst);
        let written = writers
            .into_iter()
            .map(|writer| writer.join().expect("it writes"));
        written.collect::<Vec<Heard>>()
    });
    heard.extend(written.into_iter().flatten());
}

/// How many writes of this name were done.
fn done(heard: &Heard, name: &str) -> usize {
    let heard = heard.iter().filter(|(key, _)| key.starts_with(name));
    heard.filter(|(_, there)| **there == Some(true)).count()
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// All rows, once the node has all of the log up to a position.
fn rows(node: &Stored, upto: Position) -> BTreeMap<String, usize> {
    let until = Instant::now() + PATIENCE;
    while node.partitions.tail(HOME).position() < upto {
        let role = node.partitions.role().expect("a member");
        assert!(Instant::now() < until, "it has {upto}: {:?}", role.borrow());
        pause(5);
    }
    let view = node.partitions.view(HOME).expect("a view");
    let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    let rows = rows.map(|row| row.expect("no damage"));
    let text = |key: Bytes| String::from_utf8(key.to_vec()).expect("text");
    rows.map(|(key, value)| (text(key), value.len())).collect()
}

#[test]
fn what_was_answered_is_in_the_rows_of_every_node_whoever_takes_over() {
    let mut servers = Servers::begin();
    servers.create();
    let home = TempDir::with_prefix("tideline-stored").expect("a folder");
    let proxy = Proxy::begin(&servers.address((servers.leader() + 1) % 3));
    let proxied = Access {
        servers: vec![format!("nats://{}", proxy.address)],
        ..servers.node()
    };
    let one = Stored::open(&home, 1, &servers, proxied);
    let two = Stored::open(&home, 2, &servers, servers.node());
    let three = Stored::open(&home, 3, &servers, servers.node());
    let mut heard = Heard::new();
    one.owns();
    let lost_answers = |more: &dyn Fn(usize)| {
        more(10);
        for mode in [Mode::Deaf, Mode::Mute] {
            proxy.for_ms(mode, 250);
            more(10);
        }
    };
    write(&one, "one", lost_answers, &mut heard);
    assert!(done(&heard, "one") >= 30);
    // A read of what nobody writes any more is proven.
    pause(700);
    let read = |view: &tideline_store::partition::View| view.get(b"one 0 0");
    let found = runtime().block_on(one.partitions.read(HOME, read));
    assert!(found.expect("proven").is_some());
    // Handed over while it is written to: each write has an answer, and the next node goes on.
    write(
        &one,
        "handed",
        |more| {
            more(5);
            one.driver.resign(Some("n2".to_owned()));
            pause(200);
        },
        &mut heard,
    );
    two.owns();
    let found = runtime().block_on(one.partitions.read(HOME, read));
    assert!(found.is_err(), "another node owns");
    // The stream's leader is lost while it is written to.
    let leader = servers.leader();
    write(
        &two,
        "two",
        |more| {
            more(10);
            servers.kill(leader);
            more(10);
        },
        &mut heard,
    );
    assert!(done(&heard, "two") >= 20);
    // The owner ends without a word; a person names another.
    let Stored { partitions, driver } = two;
    drop(driver);
    runtime().block_on(partitions.close());
    drop(partitions);
    three.owns();
    write(&three, "three", |more| more(10), &mut heard);
    assert!(done(&heard, "three") >= 10);
    servers.start(leader);
    let two = Stored::open(&home, 2, &servers, servers.node());
    let upto = three.partitions.tail(HOME).position();
    let expected = rows(&three, upto);
    for node in [&one, &two] {
        assert_eq!(rows(node, upto), expected);
    }
    for (key, is_there) in &heard {
        match is_there {
            Some(true) => assert!(expected.contains_key(key), "{key} is lost"),
            Some(false) => {}
            None => assert!(!expected.contains_key(key), "{key} was refused"),
        }
    }
    for node in [one, two, three] {
        node.close();
    }
}
