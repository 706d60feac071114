//! Giving a snapshot to another node.
//!
//! Owns: the one that is given. Promises: one at a time, no faster than backups are made; it ends with its taker, and
//! when this node's role does. Must not: judge who may have it.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::faults;
use crate::partition::{Partitions, Progress, Snapshot};

/// It is being made.
pub(super) const WAIT: u8 = 0;
/// It follows.
pub(super) const FOLLOWS: u8 = 1;

/// Whether one is given now.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Giving {
    now: Arc<Mutex<Option<Arc<Progress>>>>,
    has_ended: Arc<AtomicBool>,
}

impl Giving {
    /// Ends it, and begins no other.
    pub(in super::super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = &*now {
            progress.cancel();
        }
    }

    fn begin(&self, bytes_per_s: u64) -> Option<Turn> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_some() || self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        let progress = Arc::new(Progress::new(bytes_per_s));
        *now = Some(Arc::clone(&progress));
        let giving = self.clone();
        Some(Turn { giving, progress })
    }
}

/// The one that is given.
struct Turn {
    giving: Giving,
    progress: Arc<Progress>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.giving.now.lock();
        *now.unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Begins to give one; `None` = another one is being given.
pub(in super::super) fn give(
    partitions: Partitions,
    giving: &Giving,
    bytes_per_s: u64,
) -> Option<mpsc::Receiver<Bytes>> {
    let turn = giving.begin(bytes_per_s)?;
    let (out, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        let progress = Arc::clone(&turn.progress);
        let mut making = spawn_blocking(move || {
            let made = partitions.snapshot(env!("CARGO_PKG_VERSION"), &progress);
            made.map_err(|error| error.to_string())
        });
        let made = loop {
            tokio::select! {
                made = &mut making => break made,
                () = tokio::time::sleep(WORD_EVERY) => {
                    if out.send(Bytes::from_static(&[WAIT])).await.is_err() {
                        turn.progress.cancel();
                    }
                }
            }
        };
        let given = match made {
            Ok(Ok(snapshot)) => {
                let given = spawn_blocking(move || (send(&snapshot, &out, &turn.progress), turn));
                given
                    .await
                    .map(|(sent, _)| sent.map_err(|error| error.to_string()))
            }
            Ok(Err(why)) => Ok(Err(why)),
            Err(error) => Err(error),
        };
        let why = match given {
            Ok(Ok(bytes)) => return tracing::info!(bytes, "gave a snapshot to another node"),
            Ok(Err(why)) => why,
            Err(error) => error.to_string(),
        };
        tracing::warn!(why, "a snapshot was not given");
    });
    Some(pieces)
}

/// Sends it; how many bytes.
fn send(snapshot: &Snapshot, out: &mpsc::Sender<Bytes>, progress: &Progress) -> io::Result<u64> {
    let pass = |piece: Bytes| {
        let sent = Handle::current().block_on(out.send_timeout(piece, PIECE_WAIT));
        sent.map_err(|_| io::Error::other("the node that asked for it takes no more"))
    };
    progress.begin_to_send(snapshot.manifest.bytes());
    let mut bytes = 0;
    for (at, path) in snapshot.files().enumerate() {
        let mut file = File::open(&path)?;
        if at == 0 {
            let length = u32::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let head = [&[FOLLOWS][..], &length.to_be_bytes()].concat();
            pass(head.into())?;
        }
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let count = file
                .by_ref()
                .take(PIECE_BYTES as u64)
                .read_to_end(&mut piece)?;
            if count == 0 {
                break;
            }
            if at > 0 && faults::comes("snapshot_spoilt") {
                piece[0] ^= 1;
            }
            progress.pass_copied(count as u64)?;
            bytes += count as u64;
            pass(piece.into())?;
        }
    }
    Ok(bytes)
}

/// The taker gets something at least this often.
const WORD_EVERY: Duration = Duration::from_secs(5);
const PIECE_BYTES: usize = 256 << 10;
/// A taker that reads nothing for this long is given up.
const PIECE_WAIT: Duration = Duration::from_secs(60);
/// Pieces that wait to be sent.
const PIECES_MAX: usize = 4;
