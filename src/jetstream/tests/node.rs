//! A node as a process of its own: this program again, with one test that is none.
//!
//! Owns: what the process does on its standard input's lines, what it prints, its mirror. Promises: a line is printed
//! after what it says has happened, with the time (µs) at which it did; a restarted process goes on from its mirror.
//! Must not: judge anything.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tideline_base::ids::Position;
use tideline_cluster::{Content, Draft, Place, ReadProof};
use tideline_jetstream::{Access, CommitTime, Demands, Driver, Event, Frame, Host, Options};

use crate::servers::PATIENCE;
use crate::{before, genesis};

const SETTINGS: &str = "TIDELINE_TEST_NODE";
/// Between two writes.
const PAUSE_US: u64 = 4_000;
/// Bytes of a batch, unless it is told to write others.
const BATCH_BYTES: usize = 600;

/// What a node's process is told.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) servers: Vec<String>,
    pub(crate) user: (String, String),
    pub(crate) monitors: Vec<String>,
    pub(crate) is_unverified: bool,
    pub(crate) is_automatic: bool,
    pub(crate) mirror: PathBuf,
}

/// µs of a clock that all processes of this machine share.
pub(crate) fn now_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000
}

/// Prints a line that the test reads; others are libtest's.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may read any more.
    let _ = writeln!(out, "@{} {line}", now_us());
    let _ = out.flush();
}

/// The writer's side of a node.
struct Writer {
    prefix: String,
    count: u64,
    mirror: File,
    loads: Arc<AtomicBool>,
    batch_bytes: Arc<AtomicUsize>,
    owns: bool,
    wrote_us: u64,
    queue: VecDeque<String>,
    in_flight: Option<(Position, u128, String)>,
    unanswered: BTreeMap<Position, String>,
}

impl Host for Writer {
    fn next(&mut self, draft: &Draft, time: CommitTime) -> Option<Bytes> {
        let is_time = now_us() > self.wrote_us + PAUSE_US;
        if self.owns && is_time && self.queue.is_empty() && self.loads.load(Ordering::SeqCst) {
            self.count += 1;
            let id = format!("{}-{}", self.prefix, self.count);
            say(&format!("wrote {id}"));
            self.wrote_us = now_us();
            self.queue.push_back(id);
        }
        let id = self.queue.pop_front()?;
        let mut payload = format!("{id} ").into_bytes();
        payload.resize(self.batch_bytes.load(Ordering::SeqCst), b'.');
        let frame = Frame::seal(draft, time, &payload);
        self.in_flight = Some((draft.position, frame.sealed.hash, id));
        Some(frame.bytes)
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Taken { frame, is_void } => {
                let bytes = u32::try_from(frame.bytes.len()).expect("small");
                self.mirror.write_all(&bytes.to_be_bytes()).expect("room");
                self.mirror.write_all(&frame.bytes).expect("room");
                let at = frame.sealed.position;
                say(&format!(
                    "took {at} {} {} {is_void}",
                    frame.sealed.term, frame.sealed.crc
                ));
                let is_own = |sent: &mut (Position, u128, String)| sent.1 == frame.sealed.hash;
                if let Some((at, _, id)) = self.in_flight.take_if(is_own) {
                    self.unanswered.insert(at, id);
                }
            }
            Event::Owns => {
                self.owns = true;
                say("owns");
            }
            Event::Acknowledged(upto) => {
                let later = self.unanswered.split_off(&upto.next());
                for (at, id) in std::mem::replace(&mut self.unanswered, later) {
                    say(&format!("acked {id} {at}"));
                }
                // Only a planted bug acknowledges what was not taken.
                if let Some((at, _, id)) = self.in_flight.take_if(|sent| sent.0 <= upto) {
                    say(&format!("acked {id} {at}"));
                }
            }
            Event::Moved(_) => {
                self.owns = false;
                let sent = self.in_flight.take().map(|(_, _, id)| id);
                for id in self.queue.drain(..).chain(sent) {
                    say(&format!("refused {id}"));
                }
                say("moved");
            }
            Event::Again(_) => {
                let sent = self.in_flight.take().map(|(_, _, id)| id);
                sent.into_iter().for_each(|id| self.queue.push_front(id));
            }
            Event::Full(_) => {
                if let Some((_, _, id)) = self.in_flight.take() {
                    say(&format!("refused {id}"));
                }
            }
            Event::Notice(what) => say(&format!("notice {what}")),
            Event::Stopped(why) => say(&format!("stopped {why}")),
        }
    }
}

/// What is in a mirror, and where it ends.
fn replay(mirror: &Path) -> (Place, u64) {
    let (mut place, mut end) = (before(), 0);
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(mirror) {
        file.read_to_end(&mut bytes).expect("a file");
    }
    let bytes = Bytes::from(bytes);
    while let Some(length) = bytes.get(end..end + 4) {
        let length = u32::from_be_bytes(length.try_into().expect("four")) as usize;
        if bytes.len() < end + 4 + length {
            break;
        }
        let frame = Frame::read(bytes.slice(end + 4..end + 4 + length)).expect("whole");
        place.replay(&frame.sealed).expect("in order");
        end += 4 + length;
    }
    (place, end as u64)
}

#[test]
#[ignore = "a node's process, which other tests start"]
fn a_node() {
    let Ok(settings) = std::env::var(SETTINGS) else {
        return;
    };
    let settings: Settings = serde_json::from_str(&settings).expect("settings");
    let (place, end) = replay(&settings.mirror);
    let mut mirror = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&settings.mirror);
    mirror
        .as_mut()
        .expect("a mirror")
        .set_len(end)
        .expect("cut");
    say(&format!("begins {}", place.position));
    let boot = now_us();
    let loads = Arc::new(AtomicBool::new(false));
    let batch_bytes = Arc::new(AtomicUsize::new(BATCH_BYTES));
    let reads = Arc::new(AtomicBool::new(false));
    let writer = Writer {
        prefix: format!("{}-{boot}", settings.name),
        count: 0,
        mirror: mirror.expect("a mirror"),
        loads: loads.clone(),
        batch_bytes: batch_bytes.clone(),
        owns: false,
        wrote_us: 0,
        queue: VecDeque::new(),
        in_flight: None,
        unanswered: BTreeMap::new(),
    };
    let options = Options {
        access: Access {
            servers: settings.servers,
            user: Some(settings.user),
        },
        demands: Demands {
            monitors: settings.monitors,
            is_unverified: settings.is_unverified,
            frame_bytes_max: 1024 * 1024,
        },
        node: tideline_cluster::Options {
            node: settings.name,
            boot,
            genesis: genesis(),
            read_proof: ReadProof::Lease,
            read_lease_ms: 500,
            is_automatic: settings.is_automatic,
            is_drained: false,
            grace_ms: 0,
            claims_again: false,
            claims_new: false,
            owner_silence_ms: 800,
            attest_frames: 64,
            attest_ms: 1_000,
            trim: tideline_cluster::TrimOptions::default(),
            settings: BTreeMap::new(),
        },
    };
    let driver = Driver::begin(options, place, Box::new(writer)).expect("it begins");
    let driver = Arc::new(driver);
    let (reader, wanted) = (driver.clone(), reads.clone());
    let reader = std::thread::Builder::new().spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(5));
            if wanted.load(Ordering::SeqCst) {
                let asked = now_us();
                if let Some(at) = reader.read() {
                    say(&format!("read {at} {asked}"));
                }
            }
        }
    });
    drop(reader.expect("a thread"));
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("load", is_on) => loads.store(is_on == "on", Ordering::SeqCst),
            ("batches", bytes) => {
                batch_bytes.store(bytes.parse().expect("a number"), Ordering::SeqCst);
            }
            ("reads", is_on) => reads.store(is_on == "on", Ordering::SeqCst),
            ("take-over", _) => driver.take_over(),
            ("resign", to) => driver.resign(Some(to.to_owned())),
            (other, _) => panic!("{other}"),
        }
    }
    std::process::exit(0);
}

/// A line of a node: when, and its words.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) us: u64,
    pub(crate) text: String,
}

/// A node's process, as the test has it.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    fault: String,
    child: Option<Child>,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<Line>>>,
    now: Instant,
}

impl Node {
    pub(crate) fn begin(settings: Settings, fault: &str) -> Node {
        let mut node = Node {
            settings,
            fault: fault.to_owned(),
            child: None,
            input: None,
            lines: Arc::default(),
            now: Instant::now(),
        };
        node.start();
        node
    }

    /// Starts its process, perhaps once more.
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["node::a_node", "--exact", "--ignored", "--nocapture"]);
        command.env(
            SETTINGS,
            serde_json::to_string(&self.settings).expect("text"),
        );
        command.env("TIDELINE_FAULT", &self.fault);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().expect("this program runs");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let lines = self.lines.clone();
        let reader = std::thread::Builder::new().spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line = line.strip_prefix('@').and_then(|line| line.split_once(' '));
                let Some((us, text)) = line else {
                    continue;
                };
                let (us, text) = (us.parse().expect("a time"), text.to_owned());
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(Line { us, text });
            }
        });
        drop(reader.expect("a thread"));
        self.input = child.stdin.take();
        self.child = Some(child);
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it runs");
        writeln!(input, "{line}").expect("it reads");
    }

    /// Tells it, if it runs.
    pub(crate) fn hint(&mut self, line: &str) {
        if let (Some(_), Some(input)) = (&self.child, &mut self.input) {
            // It may have ended.
            let _ = writeln!(input, "{line}");
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it ran");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// All that it has printed.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.seen().clone()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last line that begins so, without these words.
    pub(crate) fn last(&self, begins: &str) -> Option<String> {
        let lines = self.seen();
        let mut newest = lines.iter().rev();
        let end = newest.find_map(|line| line.text.strip_prefix(begins));
        end.map(str::to_owned)
    }

    /// How many lines begin so.
    pub(crate) fn count(&self, begins: &str) -> usize {
        let lines = self.seen();
        let lines = lines.iter().filter(|line| line.text.starts_with(begins));
        lines.count()
    }

    /// Waits until `more` further lines begin so; an error says what it printed instead.
    pub(crate) fn wait(&self, begins: &str, more: usize) -> Result<(), String> {
        let wanted = self.count(begins) + more;
        self.wait_for(begins, wanted)
    }

    /// Waits until so many lines begin so, since its first start.
    pub(crate) fn wait_for(&self, begins: &str, wanted: usize) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while self.count(begins) < wanted {
            let stopped = self.stopped().filter(|_| begins != "stopped");
            if Instant::now() > until || stopped.is_some() {
                let lines = self.lines();
                let last: Vec<&str> = lines
                    .iter()
                    .rev()
                    .take(6)
                    .map(|line| line.text.as_str())
                    .collect();
                let (name, at) = (&self.settings.name, self.now.elapsed());
                return Err(format!(
                    "{name} has no {wanted} x {begins:?} after {at:?}: {last:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Why it stopped.
    pub(crate) fn stopped(&self) -> Option<String> {
        let lines = self.seen();
        let why = lines
            .iter()
            .find_map(|line| line.text.strip_prefix("stopped "));
        why.map(str::to_owned)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether a frame is a batch, and which write it holds.
pub(crate) fn write_of(frame: &Frame) -> Option<String> {
    if frame.sealed.content != Content::Batch {
        return None;
    }
    let payload = &frame.bytes[tideline_jetstream::HEADER_BYTES..];
    let text = std::str::from_utf8(payload).ok()?;
    Some(text.split(' ').next()?.to_owned())
}
