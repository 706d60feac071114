//! What is done for a route, step by step: looking where it is, making anew, writing.
//!
//! Owns: these steps as futures. Promises: what is written is written only where the cursor is the one that the route
//! knows, in one batch with its move. Must not: try again; the route's source does.

use std::sync::Arc;

use super::cursor::{At, CursorKey, Found};
use super::published;
use super::route::Piece;
use super::target::{Effect, Target};
#[cfg(any(test, feature = "faults"))]
use super::{Broken, Faults, Point};
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Partitions, Purpose, ReadError, StoreError, SubmitError, Tail, Txn};

/// What a step needs to know.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) partitions: Partitions,
    pub(super) target: Arc<dyn Target>,
    pub(super) source: PartitionId,
    pub(super) destination: PartitionId,
    pub(super) key: CursorKey,
    #[cfg(any(test, feature = "faults"))]
    pub(super) faults: Arc<Faults>,
}

/// What came of a step.
pub(super) enum Outcome {
    /// The route can follow the log from here; see `Route::follow`.
    Follows {
        cursor: Option<At>,
        from: At,
        published_bytes: i64,
    },
    /// The log does not tell everything: what was derived is to be made anew.
    Unknown { cursor: Option<At> },
    /// The piece is on disk.
    Wrote,
    /// The cursor is another one than the route knew: somebody else writes, or the answer of a write was lost.
    Moved,
    /// Not now.
    Failed(String),
    /// A test ends the relay here.
    #[cfg(any(test, feature = "faults"))]
    Ended,
}

impl Step {
    /// Finds the cursor and counts the log from there on.
    pub(super) async fn open(self) -> Outcome {
        let key = self.key.clone();
        let found = self
            .partitions
            .read(self.destination, move |view| key.find(view));
        let found = match found.await {
            Ok(found) => found,
            Err(error) => return Outcome::Failed(error.0),
        };
        let cursor = match found {
            Found::Here(at) => Some(at),
            Found::Nothing => None,
            Found::Elsewhere => return Outcome::Unknown { cursor: None },
        };
        let tail = self.partitions.tail(self.source);
        #[cfg(any(test, feature = "faults"))]
        if self.faults.forgets() {
            return Outcome::Unknown { cursor };
        }
        let from = cursor.unwrap_or_else(|| self.begin());
        let after = from.position;
        if after > tail.position() {
            // Of a future that this log has not.
            return Outcome::Unknown { cursor };
        }
        let counted = tokio::task::spawn_blocking(move || count(&tail, after)).await;
        match counted {
            Ok(Ok(Some(published_bytes))) => Outcome::Follows {
                cursor,
                from,
                published_bytes,
            },
            Ok(Ok(None)) => Outcome::Unknown { cursor },
            Ok(Err(error)) => Outcome::Failed(error.0),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Where a log begins of which nothing was ever derived. What the logs of its parents lead to was written before it
    /// began.
    fn begin(&self) -> At {
        let map = self.partitions.map();
        let begins = map
            .share(self.source)
            .map_or(Position(1), |share| share.begins);
        At {
            position: Position(begins.0 - 1),
            place: 0,
        }
    }

    /// Writes what the source's rows lead to, page by page, and then the cursor.
    pub(super) async fn anew(self, cursor: Option<At>, since: Position) -> Outcome {
        let mut from: Option<Vec<u8>> = None;
        loop {
            let (source, target) = (self.source, Arc::clone(&self.target));
            let page = self.partitions.read(source, move |view| {
                target.anew(source, since, view, from.as_deref())
            });
            let page = match page.await {
                Ok(page) => page,
                Err(error) => return Outcome::Failed(error.0),
            };
            let own = page.derived.into_iter();
            let own = own.filter(|one| one.destination == self.destination);
            let (mut bytes, mut effects) = (0, Vec::new());
            for derived in own {
                bytes += derived.bytes;
                effects.push(derived.effect);
            }
            let is_last = page.next.is_none();
            if !effects.is_empty() || is_last {
                let to = is_last.then_some(At {
                    position: since,
                    place: 0,
                });
                let written = self.submit(cursor, to, (bytes, Arc::new(effects))).await;
                #[cfg(any(test, feature = "faults"))]
                if self.faults.ends(Point::Anew) {
                    return Outcome::Ended;
                }
                if !matches!(written, Outcome::Wrote) || is_last {
                    // The route opens again, and finds the cursor that it left.
                    return match written {
                        Outcome::Wrote => Outcome::Moved,
                        other => other,
                    };
                }
            }
            from = page.next;
        }
    }

    /// Writes a piece.
    pub(super) async fn write(self, piece: Arc<Piece>) -> Outcome {
        #[cfg(any(test, feature = "faults"))]
        if self.faults.broken == Some(Broken::CursorFirst) {
            drop(
                self.submit(piece.from, Some(piece.to), (0, Arc::default()))
                    .await,
            );
            if self.faults.ends(Point::Submitted) {
                return Outcome::Ended;
            }
            let to = Some(piece.to);
            return self.submit(to, to, piece.effects()).await;
        }
        let (from, to) = (piece.from, Some(piece.to));
        let submitted = self.submit(from, to, piece.effects());
        #[cfg(any(test, feature = "faults"))]
        if self.faults.repeats {
            drop(self.submit(from, to, piece.effects()));
        }
        #[cfg(any(test, feature = "faults"))]
        if self.faults.ends(Point::Submitted) {
            // It stays in the queue.
            return Outcome::Ended;
        }
        let written = submitted.await;
        #[cfg(any(test, feature = "faults"))]
        if self.faults.ends(Point::Answered) {
            return Outcome::Ended;
        }
        written
    }

    /// Queues a write: all effects and the cursor's move, if the cursor is `from`.
    fn submit(
        &self,
        from: Option<At>,
        to: Option<At>,
        (bytes, effects): (usize, Arc<Vec<Effect>>),
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let key = self.key.clone();
        #[cfg(any(test, feature = "faults"))]
        let checks = self.faults.broken != Some(Broken::NoCheck);
        #[cfg(not(any(test, feature = "faults")))]
        let checks = true;
        let purpose = match effects.is_empty() {
            true => Purpose::LetsGo,
            false => Purpose::Derives,
        };
        let write = move |txn: &mut Txn<'_>| -> Result<bool, ReadError> {
            if checks && key.load(txn)? != from {
                return Ok(false);
            }
            for effect in &*effects {
                effect(txn)?;
            }
            if let Some(to) = to {
                key.store(txn, to);
            }
            Ok(true)
        };
        let submitted =
            self.partitions
                .submit(purpose, self.destination, bytes + CURSOR_BYTES, write);
        async move {
            match submitted.await {
                Ok(true) => Outcome::Wrote,
                Ok(false) => Outcome::Moved,
                // Perhaps it is there: the cursor says it.
                Err(SubmitError::Failed(StoreError::OutcomeUnknown)) => Outcome::Moved,
                Err(SubmitError::Failed(error)) => Outcome::Failed(format!("{error:?}")),
                Err(SubmitError::Rejected(error)) => Outcome::Failed(error.0),
                Err(SubmitError::TooLarge { limit, actual }) => {
                    Outcome::Failed(format!("{actual} bytes in one write of {limit} at most"))
                }
            }
        }
    }
}

/// About what the cursor and the closure hold in the queue.
const CURSOR_BYTES: usize = 256;

/// What the partition had published at a position, as it counts since its start; `None` if the log does not reach back
/// so far. Reads the log from there on.
fn count(tail: &Tail, after: Position) -> Result<Option<i64>, ReadError> {
    let (mut at, mut bytes) = (after, 0i64);
    let (end, published) = (tail.position(), published(tail));
    while at < end {
        let batches = match tail.batches(at, COUNTED_BYTES) {
            Ok(batches) => batches,
            Err(_) if at == after => return Ok(None),
            Err(error) => return Err(error),
        };
        for batch in batches.iter().filter(|batch| batch.position <= end) {
            bytes += i64::try_from(batch.bytes()).expect("a frame is far below 2^63");
            at = batch.position;
        }
    }
    Ok(Some(published - bytes))
}

/// Bytes of log in memory while it is counted.
const COUNTED_BYTES: usize = 4 << 20;
