//! Where calls wait while partitions are split or merged, or the log is handed over to another node.
//!
//! Owns: [`Gate`]. Promises: a call that has passed is counted until it is done, so that the task that shuts the gate
//! can wait for it; no call is refused. An open gate costs a call two counts of an atomic; a shut one opens when
//! [`Shut`] is dropped. Must not: know what a call is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

/// The gate. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    inside: AtomicUsize,
    is_shut: AtomicBool,
    shut: watch::Sender<bool>,
    left: Notify,
}

/// A call that has passed, until it is dropped.
pub struct Inside {
    inner: Arc<Inner>,
}

/// The gate is shut until this is dropped.
pub struct Shut {
    inner: Arc<Inner>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            inner: Arc::new(Inner {
                inside: AtomicUsize::new(0),
                is_shut: AtomicBool::new(false),
                shut: watch::Sender::new(false),
                left: Notify::new(),
            }),
        }
    }
}

impl Gate {
    /// Passes; `None` = it is shut.
    #[must_use]
    pub fn enter(&self) -> Option<Inside> {
        let inside = Inside::new(&self.inner);
        // The call is counted before it looks: the task that shuts the gate either sees the count and waits, or the
        // gate is seen shut here.
        let is_shut = self.inner.is_shut.load(Ordering::SeqCst);
        (!is_shut).then_some(inside)
    }

    /// Waits until it is open, and passes. Cancel-safe.
    pub async fn pass(self) -> Inside {
        let mut shut = self.inner.shut.subscribe();
        loop {
            if let Some(inside) = self.enter() {
                return inside;
            }
            // The gate itself is the sender.
            let _ = shut.wait_for(|is_shut| !is_shut).await;
        }
    }

    /// Whether calls wait now.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.inner.is_shut.load(Ordering::SeqCst)
    }

    /// Shuts it. Calls that have passed are still inside; see [`Shut::empty`].
    #[must_use]
    pub fn shut(&self) -> Shut {
        self.inner.is_shut.store(true, Ordering::SeqCst);
        self.inner.shut.send_replace(true);
        Shut {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl Shut {
    /// Waits until nobody is inside. Cancel-safe.
    pub async fn empty(&self) {
        while self.inner.inside.load(Ordering::SeqCst) > 0 {
            // The last call that leaves after this look leaves a permit, so the wait ends.
            self.inner.left.notified().await;
        }
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        self.inner.is_shut.store(false, Ordering::SeqCst);
        self.inner.shut.send_replace(false);
    }
}

impl Inside {
    fn new(inner: &Arc<Inner>) -> Inside {
        inner.inside.fetch_add(1, Ordering::SeqCst);
        Inside {
            inner: Arc::clone(inner),
        }
    }
}

impl Clone for Inside {
    fn clone(&self) -> Inside {
        Inside::new(&self.inner)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let before = self.inner.inside.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.inner.is_shut.load(Ordering::SeqCst) {
            self.inner.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_comes_late_waits_and_who_is_inside_is_waited_for() {
        let gate = Gate::default();
        let inside = gate.enter().expect("open");
        let also = inside.clone();
        let shut = gate.shut();
        assert!(gate.enter().is_none());
        let late = tokio::spawn(gate.clone().pass());
        drop(inside);
        assert!(
            tokio::time::timeout(Duration::from_millis(20), shut.empty())
                .await
                .is_err()
        );
        drop(also);
        tokio::time::timeout(Duration::from_secs(20), shut.empty())
            .await
            .expect("empty");
        assert!(!late.is_finished());
        drop(shut);
        drop(late.await.expect("passed"));
        assert!(gate.enter().is_some());
    }
}
