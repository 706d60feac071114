//! A future that many turns of a task come by, and that is ready once.
//!
//! Owns: whether it has something to say. Promises: it is polled at its first turn and when it was woken itself, else
//! a turn costs one load: to poll the end of a session at each of its turns took locks that all sessions share, 3 % of
//! an append. Must not: know what it waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future, and whether it was woken.
pub(super) struct Woken<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    bell_waker: Waker,
    /// The task that the bell wakes.
    task: Option<Waker>,
}

struct Bell {
    rang: AtomicBool,
    /// Stays when it rings: the task comes by with the same one.
    task: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        let task = self.task.lock();
        let task = task.unwrap_or_else(PoisonError::into_inner).clone();
        task.inspect(Waker::wake_by_ref);
    }
}

impl<F: Future> Woken<F> {
    pub(super) fn new(future: F) -> Woken<F> {
        let bell = Arc::new(Bell {
            rang: AtomicBool::new(true),
            task: Mutex::default(),
        });
        Woken {
            future: Box::pin(future),
            bell_waker: Arc::clone(&bell).into(),
            bell,
            task: None,
        }
    }

    /// Polls it if there may be something new. Not to be called again after it was ready.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<F::Output> {
        let is_known = |task: &Waker| task.will_wake(context.waker());
        if !self.task.as_ref().is_some_and(is_known) {
            // Before the look: what rings from now on wakes this one, and what rang before is seen.
            let task = Some(context.waker().clone());
            let bell = self.bell.task.lock();
            bell.unwrap_or_else(PoisonError::into_inner)
                .clone_from(&task);
            self.task = task;
        }
        if !self.bell.rang.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.bell.rang.swap(false, Ordering::AcqRel);
        let mut context = Context::from_waker(&self.bell_waker);
        self.future.as_mut().poll(&mut context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use futures_util::task::AtomicWaker;

    use super::*;

    #[test]
    fn it_is_polled_when_it_was_woken_and_wakes_the_task_that_came_by_last() {
        let (polls, waits) = (AtomicUsize::new(0), Arc::new(AtomicWaker::new()));
        let (done, inner) = (AtomicBool::new(false), Arc::clone(&waits));
        let mut woken = Woken::new(poll_fn(|context| {
            polls.fetch_add(1, Ordering::Relaxed);
            inner.register(context.waker());
            match done.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        struct Task(AtomicUsize);
        impl Wake for Task {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let tasks = [0, 1].map(|_| Arc::new(Task(AtomicUsize::new(0))));
        let wakers = tasks.clone().map(Waker::from);
        let woke = || tasks.clone().map(|task| task.0.load(Ordering::Relaxed));
        for _ in 0..3 {
            assert!(woken.poll(&Context::from_waker(&wakers[0])).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1, "nothing has woken it");
        waits.wake();
        assert_eq!(woke(), [1, 0]);
        for _ in 0..2 {
            assert!(woken.poll(&Context::from_waker(&wakers[0])).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        assert!(woken.poll(&Context::from_waker(&wakers[1])).is_pending());
        done.store(true, Ordering::Relaxed);
        waits.wake();
        assert_eq!(woke(), [1, 1], "the one that came by last");
        assert!(woken.poll(&Context::from_waker(&wakers[1])).is_ready());
    }
}
