//! The newest lines of the log, kept in memory for operators that watch.
//!
//! Owns: a ring of lines, and the layer of `tracing` that fills it with what standard error gets too. Promises: its
//! memory is bounded, by lines and by bytes; a line that is too long is cut and says so; what is no secret to the log
//! is none here. Must not: log or call anything that may, or it would feed itself and wait for itself. There is one for
//! the process, as there is one subscriber.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::ids::unchecked_ms;

/// Lines that are kept at most.
pub const LINES_MAX: usize = 2_000;
/// What they may take together: a line is 200 bytes mostly.
const BYTES_MAX: usize = 1 << 20;
/// Of a line's message, and of each of its fields.
const TEXT_BYTES_MAX: usize = 2_000;
/// Of a line's fields together; each is named all the same.
const FIELDS_BYTES_MAX: usize = 8_000;

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Above that of every earlier line, also of an earlier process.
    pub number: u64,
    /// When, ms since 1970.
    pub at: u64,
    /// How bad it is.
    pub level: Level,
    /// Which part of the server says it.
    pub target: &'static str,
    /// What it says.
    pub message: String,
    /// Of what, by name.
    pub fields: Map<String, Value>,
    bytes: usize,
}

/// Which lines are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// At least as bad as this.
    pub level: Level,
    /// Also those of the audit, which name users and what is theirs.
    pub audit: bool,
}

impl Wanted {
    fn has(self, line: &Line) -> bool {
        line.level <= self.level && (self.audit || line.target != "audit")
    }
}

/// Some of the lines.
#[derive(Debug, Default, PartialEq)]
pub struct Lines {
    /// In order.
    pub lines: Vec<Line>,
    /// Where to go on: the number of the last line that was looked at.
    pub next: u64,
    /// Lines of this process that were asked for and are not kept any more.
    pub dropped: u64,
}

/// The ring.
pub struct Journal {
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

struct Ring {
    /// The number of the process' first line.
    first: u64,
    lines: VecDeque<Line>,
    bytes: usize,
}

static JOURNAL: LazyLock<Journal> = LazyLock::new(|| Journal::new(unchecked_ms()));

/// That of this process.
#[must_use]
pub fn journal() -> &'static Journal {
    &JOURNAL
}

/// The layer that fills it.
#[must_use]
pub fn layer<S: Subscriber>() -> impl Layer<S> {
    Recorder(journal())
}

impl Journal {
    fn new(now_ms: u64) -> Journal {
        // Microseconds: no process writes a line in each, so the next process begins above this one's last.
        let first = now_ms * 1_000;
        let ring = Ring {
            first,
            lines: VecDeque::new(),
            bytes: 0,
        };
        Journal {
            ring: Mutex::new(ring),
            newest: watch::Sender::new(first),
        }
    }

    /// Sees the number of the newest line.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lines above `after` that are wanted, the oldest first: so many at most, and about so many bytes.
    #[must_use]
    pub fn read(
        &self,
        after: Option<u64>,
        wanted: Wanted,
        limit: usize,
        bytes_max: usize,
    ) -> Lines {
        let ring = self.ring();
        let newest = ring.lines.back().map_or(ring.first, |line| line.number);
        // A number that was never given is that of another process, whose clock was ahead.
        let after = after.filter(|after| *after <= newest);
        let begin = after.map_or(ring.first, |after| (after + 1).max(ring.first));
        let oldest = ring.lines.front().map_or(begin, |line| line.number);
        let mut read = Lines {
            lines: Vec::new(),
            next: after.unwrap_or(ring.first),
            dropped: after.map_or(0, |_| oldest.saturating_sub(begin)),
        };
        let mut bytes = 0;
        let skipped = ring.lines.partition_point(|line| line.number < begin);
        for line in ring.lines.iter().skip(skipped) {
            if wanted.has(line) {
                bytes += line.bytes;
                if read.lines.len() == limit || (bytes > bytes_max && !read.lines.is_empty()) {
                    break;
                }
                read.lines.push(line.clone());
            }
            read.next = line.number;
        }
        read
    }

    fn push(&self, level: Level, target: &'static str, said: Said) {
        let at = unchecked_ms();
        let mut ring = self.ring();
        let number = ring.lines.back().map_or(ring.first, |line| line.number + 1);
        let bytes = LINE_BYTES + said.message.len() + said.bytes;
        ring.bytes += bytes;
        ring.lines.push_back(Line {
            number,
            at,
            level,
            target,
            message: said.message,
            fields: said.fields,
            bytes,
        });
        while ring.lines.len() > LINES_MAX || ring.bytes > BYTES_MAX {
            let gone = ring.lines.pop_front();
            ring.bytes -= gone.map_or(0, |line| line.bytes);
        }
        drop(ring);
        // Of two that push at once the later one may come first.
        self.newest
            .send_modify(|newest| *newest = number.max(*newest));
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a line takes beside its texts.
const LINE_BYTES: usize = 150;

struct Recorder(&'static Journal);

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let about = event.metadata();
        self.0.push(*about.level(), about.target(), said);
    }
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
    bytes: usize,
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        self.bytes += field.name().len() + value.as_str().map_or(8, str::len);
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, exact(value.unsigned_abs(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, exact(value, value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = cut(text, TEXT_BYTES_MAX),
            _ => {
                let left = FIELDS_BYTES_MAX.saturating_sub(self.bytes);
                self.put(field, cut(text, left.min(TEXT_BYTES_MAX)).into());
            }
        }
    }
}

/// Numbers that a double does not hold are texts.
fn exact(size: u64, number: Value) -> Value {
    match size < 1 << 53 {
        true => number,
        false => number.to_string().into(),
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(" … (cut)");
    }
    text
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(write: impl FnOnce()) -> &'static Journal {
        let journal: &'static Journal = Box::leak(Box::new(Journal::new(1_000)));
        let subscriber = tracing_subscriber::registry().with(Recorder(journal));
        tracing::subscriber::with_default(subscriber, write);
        journal
    }

    fn from(level: Level) -> Wanted {
        Wanted { level, audit: true }
    }

    fn all(journal: &Journal, after: Option<u64>) -> Lines {
        journal.read(after, from(Level::TRACE), usize::MAX, usize::MAX)
    }

    #[test]
    fn a_line_has_its_message_and_fields() {
        let journal = logged(|| {
            tracing::warn!(partition = 3, share = 0.5, big = u64::MAX, name = "a\"b", flag = true, error = %"no room", "slowed {}", 1);
        });
        let read = all(journal, None);
        let line = &read.lines[0];
        assert_eq!(
            (line.number, line.level, &line.message[..]),
            (1_000_000, Level::WARN, "slowed 1")
        );
        assert!(line.at > 1_700_000_000_000 && line.at <= unchecked_ms());
        let fields = serde_json::json!({
            "partition": 3, "share": 0.5, "big": "18446744073709551615", "name": "a\"b", "flag": true, "error": "no room"
        });
        assert_eq!(Value::Object(line.fields.clone()), fields);
        assert_eq!(line.target, module_path!());
        assert_eq!((read.next, read.dropped), (1_000_000, 0));
        assert_eq!(*journal.watch().borrow(), 1_000_000);
    }

    #[test]
    fn pages_follow_each_other_and_levels_are_left_out() {
        let journal = logged(|| {
            for number in 0..10 {
                tracing::info!(number, "one");
                tracing::error!(number, "other");
            }
        });
        let read = journal.read(None, from(Level::WARN), 4, usize::MAX);
        let numbers = |read: &Lines| {
            read.lines
                .iter()
                .map(|line| line.number - 1_000_000)
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(&read), [1, 3, 5, 7]);
        let read = journal.read(Some(read.next), from(Level::WARN), 400, usize::MAX);
        assert_eq!(numbers(&read), [9 + 0, 11, 13, 15, 17, 19]);
        let end = journal.read(Some(read.next), from(Level::TRACE), 400, usize::MAX);
        assert_eq!((end.lines.len(), end.next), (0, read.next));
        let small = journal.read(None, from(Level::TRACE), 400, 1);
        assert_eq!(numbers(&small), [0]);
        // Of another process.
        assert_eq!(all(journal, Some(u64::MAX >> 11)).lines.len(), 20);
        assert_eq!(
            (
                all(journal, Some(5)).lines.len(),
                all(journal, Some(5)).dropped
            ),
            (20, 0)
        );
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_gone_is_counted() {
        let journal =
            logged(|| (0..LINES_MAX + 7).for_each(|number| tracing::info!(number, "line")));
        let read = all(journal, Some(999_999));
        assert_eq!((read.lines.len(), read.dropped), (LINES_MAX, 7));
        assert_eq!(read.lines[0].fields["number"], 7);
        assert_eq!(all(journal, None).dropped, 0);

        let long = "é".repeat(5_000);
        let journal = logged(|| {
            (0..LINES_MAX).for_each(|_| {
                tracing::info!(
                    a = long,
                    b = long,
                    c = long,
                    d = long,
                    e = long,
                    f = 7,
                    g = "",
                    "{long}"
                )
            })
        });
        let read = all(journal, None);
        let line = &read.lines[0];
        assert!(line.message.ends_with("é … (cut)") && line.message.len() < 2_100);
        let long = |letters: usize| Value::from("é".repeat(letters) + " … (cut)");
        let fields = [
            ("a", long(1_000)),
            ("b", long(1_000)),
            ("c", long(1_000)),
            // What the names and the marks of those before have left.
            ("d", long(983)),
            ("e", long(0)),
            ("f", 7.into()),
            ("g", "".into()),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(line.fields, Map::from_iter(fields));
        assert!(journal.ring().bytes <= BYTES_MAX && read.lines.len() > 90);
    }
}
