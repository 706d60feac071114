//! The order of one connection's writes that can't be queued at once, because they read first.
//!
//! Owns: the line in which such calls wait. Promises: a call has its place when it is begun; its turn comes when the
//! calls before it have queued their writes, or were refused; a call that is dropped leaves the line. Must not: know
//! what is written.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::unconstrained;

/// The line of a connection.
#[derive(Clone, Default)]
pub(super) struct Line(Arc<Mutex<()>>);

/// A call's turn. The next call's turn comes when this is dropped.
pub(super) struct Turn {
    _held: OwnedMutexGuard<()>,
}

impl Line {
    /// Takes a place, whose turn comes when the future is ready.
    pub(super) fn place(&self) -> impl Future<Output = Turn> + Send + use<> {
        // The mutex is fair: it serves in the order in which its futures were polled first, so this one is polled now.
        let mut turn = unconstrained(Arc::clone(&self.0).lock_owned().boxed());
        let now = (&mut turn).now_or_never();
        async move {
            let held = match now {
                Some(held) => held,
                None => turn.await,
            };
            Turn { _held: held }
        }
    }
}

impl Turn {
    /// Does a write whose first poll queues it, and ends the turn then.
    pub(super) async fn queue<T>(self, write: impl Future<Output = T>) -> T {
        let (mut write, mut turn) = (pin!(write), Some(self));
        poll_fn(|context| {
            let polled = write.as_mut().poll(context);
            drop(turn.take());
            polled
        })
        .await
    }
}
