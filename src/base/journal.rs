//! The newest lines of the log, kept in memory for operators that watch; and the log as lines of JSON.
//!
//! Owns: a ring of lines, and the layer of `tracing` that fills it with what standard error gets too, and writes that
//! as JSON if it is asked to. Promises: its memory is bounded, by lines and by bytes; a line that is too long is cut
//! and says so; a line of JSON is one write; what is no secret to the log is none here. Must not: log or call anything
//! that may, or it would feed itself and wait for itself. There is one for the process, as there is one subscriber.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::unchecked_ms;
use crate::log_event::Said;
use crate::request::Request;

/// Lines that are kept at most.
pub const LINES_MAX: usize = 2_000;
/// What they may take together: a line is 200 bytes mostly.
const BYTES_MAX: usize = 1 << 20;

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

/// The layer that fills it; `writes_json` = and writes each line to standard error.
#[must_use]
pub fn layer<S>(writes_json: bool) -> impl Layer<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    Recorder {
        journal: journal(),
        writes_json,
    }
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

    fn push(&self, at: u64, level: Level, target: &'static str, said: Said) {
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

struct Recorder {
    journal: &'static Journal,
    writes_json: bool,
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut said = Said::default();
            attributes.record(&mut said);
            span.extensions_mut().insert(said);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Said::default();
        // What an event says wins over what the spans around it say.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Said>() {
                said.add(around);
            }
        }
        Request::current(|request| said.add_request(request));
        event.record(&mut said);
        let (at, about) = (unchecked_ms(), event.metadata());
        if self.writes_json {
            // Where standard error is gone, there is nobody to say it to.
            let line = Written::of(at, *about.level(), about.target(), &said).line();
            let _ = io::stderr().write_all(&line);
        }
        self.journal.push(at, *about.level(), about.target(), said);
    }
}

/// A line of the log as JSON.
#[derive(Serialize)]
struct Written<'a> {
    time: String,
    level: String,
    target: &'a str,
    message: &'a str,
    fields: &'a Map<String, Value>,
}

impl Written<'_> {
    fn of<'a>(at: u64, level: Level, target: &'a str, said: &'a Said) -> Written<'a> {
        let time = UNIX_EPOCH + Duration::from_millis(at);
        Written {
            time: humantime::format_rfc3339_millis(time).to_string(),
            level: level.as_str().to_ascii_lowercase(),
            target,
            message: &said.message,
            fields: &said.fields,
        }
    }

    /// With its end.
    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(write: impl FnOnce()) -> &'static Journal {
        let journal: &'static Journal = Box::leak(Box::new(Journal::new(1_000)));
        let subscriber = tracing_subscriber::registry().with(Recorder {
            journal,
            writes_json: false,
        });
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
    fn a_line_has_what_is_said_of_the_request_around_it() {
        let journal = logged(|| {
            let around = tracing::error_span!("http", request = "7f", trace = None::<&str>);
            let _outer = around.enter();
            let inner = tracing::debug_span!("session", session = "9", request = "inner").entered();
            tracing::info!(session = "own", "one");
            drop(inner);
            tracing::info!("two");
        });
        let fields = all(journal, None).lines.into_iter().map(|line| line.fields);
        let fields: Vec<_> = fields.map(Value::Object).collect();
        assert_eq!(
            fields,
            [
                serde_json::json!({"request": "inner", "session": "own"}),
                serde_json::json!({"request": "7f"})
            ]
        );
    }

    #[test]
    fn a_line_of_json_is_one_line_whatever_is_in_it() {
        let mut said = Said {
            message: "two\nlines \"and\" \u{7} é".to_owned(),
            ..Said::default()
        };
        said.fields.insert("key".to_owned(), "a\nb".into());
        said.fields.insert("level".to_owned(), 7.into());
        let line = Written::of(1_793_180_000_007, Level::WARN, "audit", &said).line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: Value = serde_json::from_slice(&line).unwrap();
        let expected = serde_json::json!({
            "time": "2026-10-28T09:33:20.007Z", "level": "warn", "target": "audit", "message": said.message,
            "fields": {"key": "a\nb", "level": 7},
        });
        assert_eq!(read, expected);
        assert!(line.starts_with(b"{\"time\":"));
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
