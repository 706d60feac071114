//! A log in memory that nodes share, and what drives one node's part in it: the real decisions, a thread, and a stream
//! that appends on condition, loses answers and requests, and does some of them late.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tideline_cluster::{
    Answer, Command, CommitTime, Content, Draft, Event, Frame, Genesis, HEADER_BYTES, Host, Node,
    Options, Place, ReadProof, Sealed, SteadyMs, StreamFacts,
};

use super::super::random::Random;
use tideline_base::clock::Clock;
use tideline_base::ids::{HistoryId, Position};

/// The log that all share.
#[derive(Clone, Default)]
pub(super) struct Stream {
    frames: Arc<Mutex<Vec<Frame>>>,
    late: Arc<Mutex<Vec<(Instant, Frame)>>>,
    /// How many of a hundred requests, and of answers, are lost; and how many are done late.
    pub(super) trouble: Arc<AtomicU8>,
    /// Behind each claim comes a batch of the term before.
    pub(super) has_void: Arc<AtomicBool>,
}

pub(super) fn genesis() -> Genesis {
    Genesis {
        cluster: "chat".to_owned(),
        partition: 0,
        range: (0, u64::MAX),
        history: HistoryId([5; 16]),
        format: 3,
        rebuilt: None,
    }
}

impl Stream {
    /// With its genesis.
    pub(super) fn new() -> Stream {
        let before = Place::before_genesis(HistoryId([7; 16]), Position::ZERO, 0, 0);
        let time = CommitTime { ms: 1, in_ms: 0 };
        let first = Frame::seal(&before.draft(Content::Genesis(genesis())), time, &[]);
        let stream = Stream::default();
        stream.lock().push(first);
        stream
    }

    pub(super) fn frames(&self) -> Vec<Frame> {
        self.lock().clone()
    }

    pub(super) fn at(&self, position: Position) -> Option<Frame> {
        let index = usize::try_from(position.0.checked_sub(1)?).ok()?;
        self.lock().get(index).cloned()
    }

    pub(super) fn last(&self) -> Position {
        Position(self.lock().len() as u64)
    }

    /// Appends, if the last sequence is the one before the frame's.
    pub(super) fn append(&self, frame: &Frame) -> Answer {
        let mut frames = self.lock();
        let last = Position(frames.len() as u64);
        if last.next() != frame.sealed.position {
            return Answer::WrongLast(last);
        }
        frames.push(frame.clone());
        if matches!(frame.sealed.content, Content::Claim(_))
            && self.has_void.load(Ordering::Relaxed)
        {
            let void = void_behind(&frames);
            frames.push(void);
        }
        Answer::Stored(frame.sealed.position)
    }

    /// The same with the troubles of a network.
    fn publish(&self, frame: &Frame, random: &mut Random) -> Option<Answer> {
        let trouble = u64::from(self.trouble.load(Ordering::Relaxed));
        self.arrive();
        if random.percent(trouble) {
            return None;
        }
        if random.percent(trouble) {
            let until = Instant::now() + Duration::from_millis(random.below(60));
            self.lock_late().push((until, frame.clone()));
            return None;
        }
        let answer = self.append(frame);
        (!random.percent(trouble)).then_some(answer)
    }

    /// What was late arrives.
    pub(super) fn arrive(&self) {
        let now = Instant::now();
        let mut late = self.lock_late();
        let due: Vec<Frame> = late
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, frame)| frame)
            .collect();
        drop(late);
        for frame in &due {
            self.append(frame);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_late(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Frame)>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a deposed owner of another version might have had in flight: an earlier batch, once more.
fn void_behind(frames: &[Frame]) -> Frame {
    let claim = frames.last().expect("a claim");
    let batches = frames
        .iter()
        .rev()
        .filter(|frame| frame.sealed.content == Content::Batch);
    let payload = batches
        .map(|frame| frame.bytes.slice(HEADER_BYTES..))
        .next();
    let draft = Draft {
        log: claim.sealed.log,
        position: claim.sealed.position.next(),
        term: claim.sealed.term - 1,
        previous_crc: 77,
        content: Content::Batch,
    };
    Frame::seal(
        &draft,
        claim.time.next(0),
        &payload.unwrap_or(Bytes::from_static(&[0, 0])),
    )
}

enum Ask {
    TakeOver,
    Resign(Option<String>),
}

/// What drives one node.
pub(super) struct Drive {
    asks: Sender<Ask>,
    /// Nothing goes on, as in a stopped process.
    pub(super) is_frozen: Arc<AtomicBool>,
    /// Frames do not come.
    pub(super) is_deaf: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drive {
    pub(super) fn begin(
        name: &str,
        seed: u64,
        stream: &Stream,
        place: Place,
        host: Box<dyn Host>,
    ) -> Drive {
        let (asks, asked) = channel();
        let (is_frozen, is_deaf) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let ends = Arc::<AtomicBool>::default();
        let options = Options {
            node: name.to_owned(),
            boot: seed,
            genesis: genesis(),
            read_proof: ReadProof::Lease,
            read_lease_ms: 40,
            is_automatic: false,
            is_drained: false,
            grace_ms: 0,
            claims_again: false,
            claims_new: false,
            owner_silence_ms: 800,
            attest_frames: 16,
            attest_ms: 50,
            trim: tideline_cluster::TrimOptions::default(),
            settings: std::collections::BTreeMap::new(),
        };
        let place_at = place.position;
        let driven = Driven {
            node: Node::new(options, place, now()),
            host,
            stream: stream.clone(),
            random: Random(seed),
            sent: None,
            time: stream
                .at(place_at)
                .map_or_else(CommitTime::default, |frame| frame.time),
            is_stopped: false,
            ends: Arc::clone(&ends),
            flags: [Arc::clone(&is_frozen), Arc::clone(&is_deaf)],
        };
        let thread = std::thread::Builder::new().spawn(move || driven.run(&asked));
        Drive {
            asks,
            is_frozen,
            is_deaf,
            ends,
            thread: Some(thread.expect("a thread")),
        }
    }

    pub(super) fn take_over(&self) {
        let _ = self.asks.send(Ask::TakeOver);
    }

    pub(super) fn resign(&self, to: &str) {
        let _ = self.asks.send(Ask::Resign(Some(to.to_owned())));
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            assert!(
                thread.join().is_ok() || std::thread::panicking(),
                "a driver"
            );
        }
    }
}

struct Driven {
    node: Node,
    host: Box<dyn Host>,
    stream: Stream,
    random: Random,
    sent: Option<Frame>,
    time: CommitTime,
    is_stopped: bool,
    ends: Arc<AtomicBool>,
    flags: [Arc<AtomicBool>; 2],
}

fn now() -> SteadyMs {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let began = BEGAN.get_or_init(Instant::now);
    SteadyMs(1_000_000 + began.elapsed().as_millis() as u64)
}

impl Driven {
    fn run(mut self, asked: &Receiver<Ask>) {
        let mut ticked = now();
        while !self.ends.load(Ordering::SeqCst) && !self.is_stopped {
            let [is_frozen, is_deaf] = self
                .flags
                .each_ref()
                .map(|flag| flag.load(Ordering::SeqCst));
            if is_frozen {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            for ask in asked.try_iter() {
                match ask {
                    Ask::TakeOver => self.node.take_over(now()),
                    Ask::Resign(to) => self.node.resign(to),
                }
            }
            self.stream.arrive();
            let next = self.node.place().position.next();
            let came = self.stream.at(next).filter(|_| !is_deaf);
            let goes_on = came.is_some();
            if let Some(frame) = came {
                self.node.received(next, frame.sealed, now());
            }
            if now() > ticked {
                ticked = now();
                self.node.tick(now(), Clock::system().now_ms());
            }
            self.obey();
            self.feed();
            if !goes_on {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn obey(&mut self) {
        loop {
            let commands = self.node.commands();
            if commands.is_empty() || self.is_stopped {
                return;
            }
            commands
                .into_iter()
                .for_each(|command| self.obey_one(command));
        }
    }

    fn obey_one(&mut self, command: Command) {
        match command {
            Command::Seal(draft) => {
                let is_between =
                    !matches!(draft.content, Content::Claim(_) | Content::Resign { .. });
                if is_between && !self.host.yields() {
                    return;
                }
                let frame = Frame::seal(&draft, self.time.next(Clock::system().now_ms()), &[]);
                self.hand_over(frame);
            }
            Command::Send(sealed) => self.send(&sealed),
            Command::Fetch(position) => {
                let found = self.stream.at(position).map(|frame| frame.sealed);
                self.node.fetched(position, found, now());
            }
            Command::Follow(_) | Command::Say(_) | Command::Purge(_) => {}
            Command::Look { number, positions } => {
                let crc = |at| self.stream.at(at).map(|frame| frame.sealed.crc);
                let facts = StreamFacts {
                    number,
                    first: Position(1),
                    last: self.stream.last(),
                    genesis: Some(genesis()),
                    crcs: positions.into_iter().map(crc).collect(),
                };
                self.node.looked(&facts, now());
            }
            Command::Take { frame, is_void } => {
                let found = self.stream.at(frame.position).expect("it was taken");
                self.time = self.time.max(found.time);
                let frame = &found;
                self.host.event(Event::Taken { frame, is_void });
            }
            Command::Own => self.host.event(Event::Owns),
            Command::Acknowledge(upto) => self.host.event(Event::Acknowledged(upto)),
            Command::Moved(position) => self.host.event(Event::Moved(position)),
            Command::Again(position) => self.host.event(Event::Again(position)),
            Command::Full(position) => self.host.event(Event::Full(position)),
            Command::Stop(halt) => {
                self.is_stopped = true;
                self.host.event(Event::Stopped(&halt.to_string()));
            }
        }
    }

    fn feed(&mut self) {
        let Some(draft) = self.node.draft(Content::Batch, now()) else {
            return;
        };
        let time = self.time.next(Clock::system().now_ms());
        let Some(bytes) = self.host.next(&draft, time) else {
            return;
        };
        let frame = read(bytes, &draft);
        let position = frame.sealed.position;
        if !self.hand_over(frame) {
            self.host.event(Event::Again(position));
        }
        self.obey();
    }

    fn hand_over(&mut self, frame: Frame) -> bool {
        let is_taken = self.node.send(frame.sealed.clone(), now());
        if is_taken {
            self.sent = Some(frame);
        }
        is_taken
    }

    fn send(&mut self, sealed: &Sealed) {
        let frame = self.sent.as_ref().filter(|frame| frame.sealed == *sealed);
        let frame = frame.expect("it was handed over").clone();
        if let Some(answer) = self.stream.publish(&frame, &mut self.random) {
            self.node.answered(sealed.position, answer, now());
        }
    }
}

/// A batch, which must be what the draft becomes.
fn read(bytes: Bytes, draft: &Draft) -> Frame {
    let frame = Frame::read(bytes).expect("a frame");
    let Sealed { crc, hash, .. } = frame.sealed;
    assert_eq!(
        frame.sealed,
        draft.clone().sealed(crc, hash),
        "sealed for this place"
    );
    frame
}
