//! What was written of each answer, and when: what the viewers' copies are held against.
//!
//! Owns: the schedule of every token, and which tokens are in which part. Promises: a token is here before it is sent.
//! Must not: know who reads it.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::text::tokens;
use crate::outcome::recorder::Recorder;
use crate::run::{Counts, Phase, Run};

/// How it is written and read.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    /// Tokens of a whole answer.
    pub(super) length: u64,
    /// One of so many parts is sent twice; 0 = none.
    pub(super) repeats: u64,
    /// One part of an answer is on its way at a time; what falls due meanwhile is the next one.
    pub(super) is_joined: bool,
    /// How long parts may gather for a viewer.
    pub(super) window_ms: u64,
}

/// All that writers and viewers share.
pub(super) struct Book {
    pub(super) run: Rc<Run>,
    pub(super) lanes: Vec<Lane>,
    pub(super) ways: Ways,
    /// From a token's time to its acknowledgement, and until a viewer has it.
    pub(super) acks: Rc<Recorder>,
    pub(super) shown: Rc<Recorder>,
    /// Viewers that follow their timeline.
    pub(super) following: Cell<u64>,
    /// Within the measurement: parts that were acknowledged, tokens that viewers got, and bytes that came to them.
    pub(super) parts: Cell<u64>,
    pub(super) deliveries: Cell<u64>,
    pub(super) bytes: Cell<u64>,
}

/// One timeline: answers in it, one after the other.
pub(super) struct Lane {
    pub(super) number: usize,
    pub(super) timeline: String,
    answers: RefCell<Vec<Written>>,
    /// How many parts the answers have that are closed.
    pub(super) closed: RefCell<Vec<u64>>,
    /// Tokens that are due, and are in no answer yet.
    pub(super) due: RefCell<VecDeque<Instant>>,
    /// Something is due, or nothing will be any more.
    pub(super) news: Notify,
    /// No more tokens will be due; and then all is written.
    pub(super) is_full: Cell<bool>,
    pub(super) is_over: Cell<bool>,
}

/// An answer, as far as it is written.
#[derive(Default)]
struct Written {
    /// When each token was due.
    due: Vec<Instant>,
    /// How many tokens it has up to the end of each part.
    ends: Vec<usize>,
}

impl Book {
    pub(super) fn new(run: &Rc<Run>, answers: u64, ways: Ways) -> Rc<Book> {
        let prefix = run.prefix("answers");
        let lane = |number: u64| Lane {
            number: number as usize,
            timeline: format!("{prefix}{number}"),
            answers: RefCell::default(),
            closed: RefCell::default(),
            due: RefCell::default(),
            news: Notify::new(),
            is_full: Cell::new(false),
            is_over: Cell::new(false),
        };
        Rc::new(Book {
            run: Rc::clone(run),
            lanes: (0..answers).map(lane).collect(),
            ways,
            // The first is what the progress shows.
            shown: run.recorder("shown", Counts::Scheduled),
            acks: run.recorder("ack", Counts::Scheduled),
            following: Cell::new(0),
            parts: Cell::new(0),
            deliveries: Cell::new(0),
            bytes: Cell::new(0),
        })
    }

    /// Bytes came to a viewer.
    pub(super) fn came(&self, bytes: usize) {
        self.count(&self.bytes, bytes as u64);
    }

    /// Counts what happens within the measurement.
    pub(super) fn count(&self, what: &Cell<u64>, more: u64) {
        if self.run.phase() == Phase::Measuring {
            what.update(|so_far| so_far + more);
        }
    }
}

impl Lane {
    /// Tokens that are due become the next part of an answer (from 1).
    pub(super) fn write(&self, answer: u64, tokens: impl Iterator<Item = Instant>) {
        let mut answers = self.answers.borrow_mut();
        if answers.len() < answer as usize {
            answers.push(Written::default());
        }
        if let Some(written) = answers.last_mut() {
            written.due.extend(tokens);
            written.ends.push(written.due.len());
        }
    }

    /// How many parts, and tokens, of an answer were written.
    pub(super) fn written(&self, answer: u64) -> (u64, u64) {
        let answers = self.answers.borrow();
        find(&answers, answer).map_or((0, 0), |written| {
            (written.ends.len() as u64, written.due.len() as u64)
        })
    }

    /// When the tokens of the parts `from` to `parts` of an answer were due; `None` = these were never written.
    pub(super) fn times(&self, answer: u64, from: u64, parts: u64) -> Option<Ref<'_, [Instant]>> {
        let range = self.range(answer, from, parts)?;
        let due = Ref::map(self.answers.borrow(), |answers| {
            find(answers, answer).map_or(&[][..], |written| &written.due)
        });
        Ref::filter_map(due, |due| due.get(range)).ok()
    }

    /// The text of these parts.
    pub(super) fn text(&self, answer: u64, from: u64, parts: u64) -> Option<String> {
        let range = self.range(answer, from, parts)?;
        Some(tokens(self.number, answer, range))
    }

    /// Which tokens the parts are, from 0; none if `parts` is the one before `from`.
    fn range(&self, answer: u64, from: u64, parts: u64) -> Option<Range<usize>> {
        let answers = self.answers.borrow();
        let ends = find(&answers, answer).map_or(&[][..], |written| &written.ends);
        let end = |part: u64| match part {
            0 => Some(0),
            _ => ends.get(part as usize - 1).copied(),
        };
        let (begin, end) = (end(from.checked_sub(1)?)?, end(parts)?);
        (begin <= end).then_some(begin..end)
    }

    /// The ID of an answer.
    pub(super) fn id(&self, answer: u64) -> String {
        format!("answer-{}-{answer}", self.number)
    }
}

fn find(answers: &[Written], answer: u64) -> Option<&Written> {
    answers.get((answer as usize).checked_sub(1)?)
}
