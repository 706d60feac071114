//! What others may ask a session about its subscriptions.
//!
//! Owns: questions and their answers, and where they wait. Promises: a session that nobody asks pays a look at a flag;
//! a question whose asker has gone is forgotten. Must not: answer; the session does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// What is asked.
#[derive(Clone, Debug)]
pub enum About {
    /// How far the session as a whole lags.
    Whole,
    /// The subscription in this slot.
    Slot(u32),
    /// So many subscriptions with names after this one, in their order.
    Names(Option<String>, usize),
}

/// How far a session has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// The session's ID.
    pub session: String,
    /// For how long the oldest has waited that is still to go out to it, ms; 0 = it has everything.
    pub lag_ms: u64,
    /// Subscriptions that were asked about.
    pub positions: Vec<Reached>,
}

/// How far one subscription has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The timeline's ID.
    pub timeline: Arc<str>,
    /// The last sequence that went out.
    pub position: u64,
    /// For how long something newer has waited, ms; 0 = nothing does.
    pub lag_ms: u64,
}

/// A question.
#[derive(Debug)]
pub struct Inquiry {
    /// What is asked.
    pub about: About,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Progress>,
}

/// Questions to one session.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    waiting: Mutex<Vec<Inquiry>>,
    /// Changes with `waiting`.
    is_asked: AtomicBool,
}

impl Inquiries {
    /// The list is whole between any two statements.
    fn waiting(&self) -> MutexGuard<'_, Vec<Inquiry>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ask(&self, about: About) -> oneshot::Receiver<Progress> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.retain(|inquiry| !inquiry.answer.is_closed());
        waiting.push(Inquiry { about, answer });
        self.is_asked.store(true, Ordering::Release);
        answered
    }

    pub(super) fn take(&self) -> Vec<Inquiry> {
        if !self.is_asked.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting();
        self.is_asked.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}
