//! Where watched timelines leave word for one session.
//!
//! Owns: which of a session's watches have news, whose session it is, and what it is asked. Promises: news between two
//! looks count once; a wake-up is never lost (look after registering the waker). Must not: hold payloads. Posting costs
//! a short lock and a wake-up.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;

use super::inquiry::{About, Inquiries, Inquiry, Progress};
use tideline_base::faults::{is_named, point};

/// The news of one session, or of one waiting call. One reader, many writers.
#[derive(Debug, Default)]
pub struct Mailbox {
    waker: AtomicWaker,
    dirty: Mutex<Dirty>,
    who: Mutex<Option<Arc<Who>>>,
    inquiries: Inquiries,
}

/// A user, on one of their devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Never empty.
    pub user: Arc<str>,
    /// As the client calls it; `None` = it did not say.
    pub device: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Dirty {
    slots: Vec<u32>,
    /// One bit per slot: it is in `slots`.
    listed: Vec<u64>,
}

impl Mailbox {
    /// Whose it is; `None` = nobody's in particular.
    #[must_use]
    pub fn who(&self) -> Option<Arc<Who>> {
        lock(&self.who).clone()
    }

    /// Sets its user; returns the one before. The caller then has to call `renamed` of each of its subscriptions.
    pub fn set_who(&self, who: Option<Arc<Who>>) -> Option<Arc<Who>> {
        std::mem::replace(&mut *lock(&self.who), who)
    }

    /// Marks a slot and wakes the reader. Any thread.
    pub fn post(&self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        {
            let mut dirty = lock(&self.dirty);
            if dirty.listed.len() <= word {
                dirty.listed.resize(word + 1, 0);
            }
            if dirty.listed[word] & bit != 0 {
                return;
            }
            dirty.listed[word] |= bit;
            dirty.slots.push(slot);
        }
        self.waker.wake();
    }

    /// Asks its reader something. A reader that is no session never answers.
    pub fn ask(&self, about: About) -> oneshot::Receiver<Progress> {
        let answered = self.inquiries.ask(about);
        self.waker.wake();
        answered
    }

    /// What its reader was asked. Look after registering the waker, as [`Mailbox::poll_take`] does.
    pub fn inquiries(&self) -> Vec<Inquiry> {
        self.inquiries.take()
    }

    /// Moves the marked slots to `out`; pending if there are none. The reader is woken by the next post.
    pub fn poll_take(&self, context: &mut Context<'_>, out: &mut Vec<u32>) -> Poll<()> {
        if is_named("mailbox_looks_first") && lock(&self.dirty).slots.is_empty() {
            point();
            self.waker.register(context.waker());
            return Poll::Pending;
        }
        self.waker.register(context.waker());
        point();
        let mut dirty = lock(&self.dirty);
        if dirty.slots.is_empty() {
            return Poll::Pending;
        }
        for slot in &dirty.slots {
            out.push(*slot);
        }
        dirty.slots.clear();
        dirty.listed.fill(0);
        Poll::Ready(())
    }

    /// Waits for news; cancel-safe.
    pub async fn take(&self) -> Vec<u32> {
        let mut out = Vec::new();
        std::future::poll_fn(|context| self.poll_take(context, &mut out)).await;
        out
    }
}

/// The locks of this layer guard plain data that is whole between any two statements, so a panic elsewhere spoils
/// nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_is_told_once_and_again_after_it_was_taken() {
        let mailbox = Mailbox::default();
        mailbox.post(70);
        mailbox.post(3);
        mailbox.post(70);
        assert_eq!(mailbox.take().await, [70, 3]);
        mailbox.post(70);
        assert_eq!(mailbox.take().await, [70]);
        let nothing = std::future::poll_fn(|context| {
            Poll::Ready(mailbox.poll_take(context, &mut Vec::new()).is_pending())
        });
        assert!(nothing.await);
    }
}
