//! From a data directory to a running partition: image, then the log from the covered position, then the threads.
//!
//! Owns: the order of opening. Promises: nothing is served before all that was acknowledged is visible again; the
//! memtables are flushed on the way, so that memory stays bounded however long the log is. Must not: be run twice on
//! one partition.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use super::flusher::{self, Flusher};
use super::memtable::Memtable;
use super::shared::Shared;
use super::syncer::Syncer;
use super::txn::Pending;
use super::writer::Writer;
use super::{OpenError, Options, Rules};
use crate::ids::{Clock, PartitionId, Position};
use crate::image::{self, Image};
use crate::log::{self, Log, Storage};

/// Opens a partition on its log's storage and its image's folder, and starts its threads.
pub(super) fn start(
    id: PartitionId,
    storage: Arc<dyn Storage>,
    image_folder: &Path,
    options: &Options,
    (rules, clock): (Arc<dyn Rules>, Arc<Clock>),
) -> Result<Arc<Shared>, OpenError> {
    let image = Image::open(image_folder, options.image.clone(), Arc::clone(&rules))?;
    let (log, opened) = Log::open(storage, options.log, image.covered())?;
    if let Some(cut) = &opened.cut {
        tracing::info!(partition = %id, ?cut, "cut a batch that was not synced when the process ended");
    }
    let (memtable, position, last_ms) = replay(&log, &image, options, (&*rules, &clock))?;
    tracing::info!(partition = %id, %position, covered = %image.covered(), "partition is open");

    let (queue, jobs) = mpsc::channel(options.queue_jobs_max);
    let (tail_watch, tail_watched) = watch::channel(position);
    let (wake, work) = sync_channel(16);
    let stores = (image.clone(), log.reader());
    let shared = Shared::new(
        queue,
        options,
        tail_watched,
        Arc::clone(&memtable),
        stores,
        Arc::clone(&rules),
    );
    let shared = Arc::new(shared);
    let flusher = Flusher {
        shared: Arc::clone(&shared),
        image,
        rules: Arc::clone(&rules),
        clock: Arc::clone(&clock),
        options: options.clone(),
        work,
        keeper: log.keeper(),
        kept: Instant::now(),
        merge_from: Instant::now(),
    };
    let thread = |error| OpenError::from_io("start a thread for", image_folder, error);
    let flushing = Builder::new()
        .name(format!("flusher-{id}"))
        .spawn(move || or_abort("flusher", || flusher.run()))
        .map_err(thread)?;
    let writer = Writer {
        shared: Arc::clone(&shared),
        options: options.clone(),
        jobs,
        tail_watch,
        log,
        memtable,
        rules,
        clock,
        position,
        last_ms,
        pending: Pending::new(),
        answers: Vec::new(),
        in_flight: None,
        syncer: Syncer::start(id).map_err(thread)?,
        is_closing: false,
        is_rotating: false,
        flusher: wake,
        flushing,
    };
    let handle = Builder::new()
        .name(format!("writer-{id}"))
        .spawn(move || or_abort("writer", || writer.run()))
        .map_err(thread)?;
    shared.set_writer(handle);
    Ok(shared)
}

/// Brings back what the image does not cover. Gives the memtable, the last position and its commit time.
fn replay(
    log: &Log,
    image: &Image,
    options: &Options,
    (rules, clock): (&dyn Rules, &Clock),
) -> Result<(Arc<Memtable>, Position, u64), OpenError> {
    let mut position = image.covered();
    // The log remembers the time of its last batch, whether or not that is replayed.
    let last_ms = log.commit_ms(0);
    let rows = options.memtable_rows_expected();
    let mut memtable = Memtable::new(position, clock.now_ms(), rows);
    for frame in log.replay(position)? {
        let frame = frame?;
        memtable.insert(frame.position, &frame.effects, frame.bytes, rules);
        position = frame.position;
        if memtable.bytes() >= options.memtable_bytes {
            flusher::flush(image, &memtable, rules, &mut || {})?;
            memtable = Memtable::new(position, clock.now_ms(), rows);
        }
    }
    Ok((Arc::new(memtable), position, last_ms))
}

/// A panic of a thread that owns the store leaves it in an unknown state: the process must not go on.
fn or_abort(name: &str, run: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
        tracing::error!(
            thread = name,
            "a thread of the store panicked; the process stops"
        );
        std::process::abort();
    }
}

impl From<image::Error> for OpenError {
    fn from(error: image::Error) -> OpenError {
        OpenError::Damaged {
            text: error.to_string(),
        }
    }
}

impl From<log::ReadError> for OpenError {
    fn from(error: log::ReadError) -> OpenError {
        OpenError::Damaged {
            text: error.to_string(),
        }
    }
}

impl From<log::Error> for OpenError {
    fn from(error: log::Error) -> OpenError {
        OpenError::Damaged {
            text: error.to_string(),
        }
    }
}
