//! What was written of each answer, and when: what the viewers' copies are held against.
//!
//! Owns: the schedule of every token. Promises: a token is here before it is sent. Must not: know who reads it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::outcome::recorder::Recorder;
use crate::run::{Counts, Phase, Run};

/// All that writers and viewers share.
pub(super) struct Book {
    pub(super) run: Rc<Run>,
    pub(super) lanes: Vec<Lane>,
    /// Tokens of a whole answer.
    pub(super) length: u64,
    /// One of so many tokens is sent twice; 0 = none.
    pub(super) repeats: u64,
    /// How long parts may gather for a viewer.
    pub(super) window_ms: u64,
    /// From a token's time to its acknowledgement, and until a viewer has it.
    pub(super) acks: Rc<Recorder>,
    pub(super) shown: Rc<Recorder>,
    /// Viewers that follow their timeline.
    pub(super) following: Cell<u64>,
    /// Within the measurement: tokens that viewers got, and bytes that came to them.
    pub(super) deliveries: Cell<u64>,
    pub(super) bytes: Cell<u64>,
}

/// One timeline: answers in it, one after the other.
pub(super) struct Lane {
    pub(super) number: usize,
    pub(super) timeline: String,
    /// When the tokens were due, by answer and part, each from 0.
    answers: RefCell<Vec<Vec<Instant>>>,
    /// How many tokens the answers have that are closed.
    pub(super) closed: RefCell<Vec<u64>>,
    /// Tokens that are due, and are in no answer yet.
    pub(super) due: RefCell<VecDeque<Instant>>,
    /// Something is due, or nothing will be any more.
    pub(super) news: Notify,
    /// No more tokens will be due; and then all is written.
    pub(super) is_full: Cell<bool>,
    pub(super) is_over: Cell<bool>,
}

impl Book {
    pub(super) fn new(
        run: &Rc<Run>,
        answers: u64,
        length: u64,
        (repeats, window_ms): (u64, u64),
    ) -> Rc<Book> {
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
            length,
            repeats,
            window_ms,
            // The first is what the progress shows.
            shown: run.recorder("shown", Counts::Scheduled),
            acks: run.recorder("ack", Counts::Scheduled),
            following: Cell::new(0),
            deliveries: Cell::new(0),
            bytes: Cell::new(0),
        })
    }

    /// Bytes came to a viewer.
    pub(super) fn came(&self, bytes: usize) {
        if self.run.phase() == Phase::Measuring {
            self.bytes.update(|so_far| so_far + bytes as u64);
        }
    }
}

impl Lane {
    /// A token that is due becomes the next part of an answer (from 1).
    pub(super) fn write(&self, answer: u64, at: Instant) {
        let mut answers = self.answers.borrow_mut();
        if answers.len() < answer as usize {
            answers.push(Vec::new());
        }
        if let Some(answer) = answers.last_mut() {
            answer.push(at);
        }
    }

    /// How many parts of an answer were written.
    pub(super) fn written(&self, answer: u64) -> u64 {
        let answers = self.answers.borrow();
        let parts = answers.get(answer as usize - 1).map_or(0, Vec::len);
        parts as u64
    }

    /// When a part of an answer was due; `None` = it never was.
    pub(super) fn time(&self, answer: u64, part: u64) -> Option<Instant> {
        let answers = self.answers.borrow();
        let parts = answers.get((answer as usize).checked_sub(1)?)?;
        parts.get((part as usize).checked_sub(1)?).copied()
    }

    /// The ID of an answer.
    pub(super) fn id(&self, answer: u64) -> String {
        format!("answer-{}-{answer}", self.number)
    }
}
