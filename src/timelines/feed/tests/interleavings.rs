//! Every order in which a reader that subscribes and falls asleep meets what is published.
//!
//! Owns: the walks, and their controls: a mailbox that looks before it can be woken, a topic that wakes before it
//! knows, a reader that reads before it watches. Promises: the real topic and mailbox. Must not: know the store; a
//! number stands for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use tideline_base::faults::point;
use tideline_base::faults::turns::{Actor, Scene, explore};
use tideline_base::metrics::Metrics;

use crate::feed::cursor::{Cursor, Next};
use crate::feed::mailbox::Mailbox;
use crate::feed::registry::publish;
use crate::feed::topic::Topic;
use crate::feed::topic::budget::Budget;
use crate::timeline::{Head, Message, Standing, TimelineEvent};

const MESSAGES: u64 = 3;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A session with one subscription.
struct Reader {
    topic: Arc<Topic>,
    store: Arc<AtomicU64>,
    mailbox: Arc<Mailbox>,
    woken: Arc<Woken>,
    cursor: Cursor,
    got: Vec<u64>,
}

impl Reader {
    fn take(&mut self, upto: u64) {
        self.got.extend(self.cursor.sequence + 1..=upto);
        self.cursor.sequence = upto;
    }

    fn read(&mut self) {
        self.cursor.epoch = Arc::from("A");
        self.take(self.store.load(Ordering::SeqCst));
    }

    fn subscribe(&mut self, reads_first: bool) {
        if reads_first {
            self.read();
            point();
        }
        self.topic.watchers.join(&self.mailbox, 0);
        let (doubt, turn, meta_version) = self.topic.seen();
        let (epoch, sequence) = (Arc::clone(&self.cursor.epoch), self.cursor.sequence);
        self.cursor = Cursor::begin(doubt, turn, meta_version);
        (self.cursor.epoch, self.cursor.sequence) = (epoch, sequence);
        if !reads_first {
            point();
            self.read();
        }
    }

    /// Goes on until there is nothing to do; then it sleeps until it is woken.
    fn run(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            self.woken.0.store(false, Ordering::SeqCst);
            let mut context = Context::from_waker(&waker);
            if self
                .mailbox
                .poll_take(&mut context, &mut Vec::new())
                .is_ready()
            {
                self.look();
            } else if !self.woken.0.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn look(&mut self) {
        loop {
            match self.topic.next(&mut self.cursor, "") {
                Next::Fresh(fresh) => self.take(fresh.last()),
                Next::Read { doubt, .. } => {
                    self.cursor.doubt = doubt;
                    self.read();
                }
                _ => return,
            }
        }
    }
}

fn event(head: u64) -> TimelineEvent {
    let message = Message {
        sequence: head,
        timestamp: 1,
        entry: Some(Vec::new()),
        ..Message::default()
    };
    TimelineEvent {
        timeline: "t".to_owned(),
        head: Some(Head {
            epoch: "A".to_owned(),
            head,
            floor: 1,
            change_head: 0,
        }),
        members: Standing::default(),
        meta_version: None,
        appended: vec![message],
        changed: Vec::new(),
        reacted: false,
        configured: false,
    }
}

fn subscribing(reads_first: bool) -> Scene {
    let (topic, store) = (
        Arc::new(Topic::new(Arc::from("t"))),
        Arc::new(AtomicU64::new(0)),
    );
    let reader = Arc::new(Mutex::new(Reader {
        topic: Arc::clone(&topic),
        store: Arc::clone(&store),
        mailbox: Arc::default(),
        woken: Arc::default(),
        cursor: Cursor::begin(0, 0, 0),
        got: Vec::new(),
    }));
    let reads: Actor = {
        let reader = Arc::clone(&reader);
        Box::new(move || {
            let mut reader = reader.lock().expect("whole");
            reader.subscribe(reads_first);
            reader.run();
        })
    };
    let writes: Actor = Box::new(move || {
        let budget = Budget::new(1 << 20, Metrics::default().feed.ring_bytes);
        for head in 1..=MESSAGES {
            // Durable and visible first, then told.
            store.store(head, Ordering::SeqCst);
            point();
            publish(&topic, event(head), &budget);
        }
    });
    let judge = Box::new(move || {
        let mut reader = reader.lock().expect("whole");
        if reader.woken.0.load(Ordering::SeqCst) {
            reader.run();
        }
        match reader.got == (1..=MESSAGES).collect::<Vec<_>>() {
            true => Ok(()),
            false => Err(format!("it sleeps and has {:?}", reader.got)),
        }
    });
    Scene {
        actors: vec![reads, writes],
        judge,
    }
}

#[test]
fn a_subscriber_is_woken_for_all_that_it_has_not_read() {
    assert!(explore("", || subscribing(false)).expect("right in every order") > 100);
    for (plant, reads_first) in [
        ("mailbox_looks_first", false),
        ("wakes_first", false),
        ("", true),
    ] {
        let wrong = explore(plant, || subscribing(reads_first)).expect_err("found");
        assert!(wrong.starts_with("it sleeps and has ["), "{plant}: {wrong}");
    }
}
