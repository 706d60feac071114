//! From a data directory to a running partition: image, then the log from the covered position, then the threads.
//!
//! Owns: the order of opening. Promises: nothing is served before all that was acknowledged is visible again; the
//! memtables are flushed on the way, so that memory stays bounded however long the log is. Must not: be run twice on
//! one partition.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use tokio::sync::watch;

use super::super::cluster::Member;
use super::super::follow::hold::Hold;
use super::super::memory::flusher;
use super::super::memory::flusher::Flusher;
use super::super::memory::memtable::Memtable;
use super::super::panics::caught;
use super::super::shared::Shared;
use super::super::{OpenError, Options, Purpose, Rules};
use super::disk_reserve::Reserve;
use super::in_flight::InFlight;
use super::pending::{BatchLimits, Pending};
use super::queue::Queue;
use super::syncer::Syncer;
use super::writer::Writer;
use crate::image;
use crate::image::Image;
use crate::log;
use crate::log::{Frame, Log};
use tideline_base::clock::{CLOCK_JUMP_MS, Clock};
use tideline_base::ids::{PartitionId, Position};

/// Opens a partition on its image's folder and its log, wherever that is, and starts its threads. `open_log` is given
/// the position that the image covers.
pub(in super::super) fn start(
    id: PartitionId,
    open_log: impl FnOnce(Position) -> Result<Log, log::Error>,
    (image_folder, mut member): (&Path, Option<Member>),
    options: &Options,
    (rules, clock): (Arc<dyn Rules>, Arc<Clock>),
) -> Result<Arc<Shared>, OpenError> {
    let image = Image::open(image_folder, options.image.clone(), Arc::clone(&rules))?;
    let log = open_log(image.covered())?;
    warn_of_the_future(id, log.commit_ms(0), clock.now_ms());
    let mut check = |frame: &Frame| match &mut member {
        Some(member) => member.replay(frame),
        None => Ok(()),
    };
    let (memtables, position) = replay(&log, &image, options, (&*rules, &clock), &mut check)?;
    if let Some(member) = &member {
        member.begins(position)?;
    }
    let memtable = Arc::clone(&memtables[0]);
    let (covered, reserve_bytes) = (image.covered(), options.reserve_bytes);
    tracing::info!(partition = %id, %position, %covered, reserve_bytes, "partition is open");

    let (queue, jobs) = Queue::new();
    let (tail_watch, tail_watched) = watch::channel(position);
    let (wake, work) = sync_channel(16);
    let stores = (image.clone(), log.reader());
    let folder = image_folder.parent().unwrap_or(image_folder);
    let keeper = log.keeper();
    if let Err(error) = keeper.keep_room() {
        tracing::warn!(%error, "no room could be set aside in the log");
    }
    let reserve = Reserve::new(folder, options.reserve_bytes);
    let shared = Shared::new(
        queue,
        options.metrics.partition(id.0),
        tail_watched,
        memtables,
        stores,
        Arc::clone(&rules),
        (
            reserve,
            Hold::new(options.holds_log),
            member.as_ref().map(|member| Arc::clone(member.line())),
        ),
    );
    shared.hold.set_follows(member.is_some());
    let shared = Arc::new(shared);
    let flusher = Flusher {
        shared: Arc::clone(&shared),
        image,
        rules: Arc::clone(&rules),
        clock: Arc::clone(&clock),
        options: options.clone(),
        work,
        keeper,
        kept: Instant::now(),
        merge_from: Instant::now(),
        full: None,
        is_told: false,
        failures: 0,
        flushed: None,
        flushed_at: Instant::now(),
    };
    let thread = |error| OpenError::from_io("start a thread for", image_folder, error);
    let flushing = start_flusher(id, flusher).map_err(thread)?;
    let syncer = Syncer::start(id, &log).map_err(thread)?;
    let limits = BatchLimits::new(options.batch_bytes_max, options.log.frame_bytes_max);
    let panics = options.metrics.server.panics.clone();
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
        pending: Pending::new(limits, panics),
        rest: None,
        answers: Vec::new(),
        in_flight: InFlight::new(syncer),
        is_closing: false,
        is_rotating: false,
        purpose: Purpose::Adds,
        flusher: wake,
        flushing,
        member: member.map(Box::new),
    };
    let handle = Builder::new()
        .name(format!("writer-{id}"))
        .spawn(move || or_abort("writer", || writer.run()))
        .map_err(thread)?;
    shared.set_writer(handle);
    Ok(shared)
}

/// Warns of a log whose last batch lies ahead of the clock. Only the times of timelines that were written then stay
/// ahead; the log's own never fall, and its segments count as young until then.
fn warn_of_the_future(id: PartitionId, last_ms: u64, now_ms: u64) {
    let ahead_ms = last_ms.saturating_sub(now_ms);
    if ahead_ms > CLOCK_JUMP_MS {
        tracing::warn!(partition = %id, ahead_ms, "the log was last written by a clock that was ahead of this one");
    }
}

fn start_flusher(id: PartitionId, flusher: Flusher) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(&flusher.shared);
    Builder::new().name(format!("flusher-{id}")).spawn(move || {
        // What it was about to write is still in memory and in the log, and what the image shows is whole. Nothing
        // is written to it any more; aborting would only have the next start meet the same row.
        if caught("the flusher", || flusher.run()).is_none() {
            shared.metrics.all.server.panics.increment(1);
            shared.stop("the flusher ended in a panic".to_owned());
        }
    })
}

/// Brings back what the image does not cover. Gives the memtables, the newest first and the last
/// position. More than one memtable = the disk is full: reads need none of its room, and the flusher tries again.
fn replay(
    log: &Log,
    image: &Image,
    options: &Options,
    (rules, clock): (&dyn Rules, &Clock),
    check: &mut dyn FnMut(&Frame) -> Result<(), OpenError>,
) -> Result<(Vec<Arc<Memtable>>, Position), OpenError> {
    let mut position = image.covered();
    let rows = options.memtable_rows_expected();
    let mut memtable = Memtable::new(position, clock.now_ms(), rows);
    let mut frozen = Vec::new();
    for frame in log.replay(position)? {
        let frame = frame?;
        check(&frame)?;
        memtable.insert(&frame, rules);
        position = frame.position;
        if memtable.bytes() >= options.memtable_bytes {
            let full =
                std::mem::replace(&mut memtable, Memtable::new(position, clock.now_ms(), rows));
            // They are flushed in order: behind one that waits, all wait.
            let flushed = match frozen.is_empty() {
                true => flusher::flush(image, &full, rules, &mut || {}),
                false => Err(image::Error::Full("a flush waits")),
            };
            match flushed {
                Ok(()) => {}
                Err(image::Error::Full(_)) => frozen.insert(0, Arc::new(full)),
                Err(error) => return Err(error.into()),
            }
        }
    }
    frozen.insert(0, Arc::new(memtable));
    Ok((frozen, position))
}

/// A panic of the writer, but in a closure, leaves memory and log in an unknown state: the process must not go on.
fn or_abort(name: &str, run: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
        tracing::error!(
            thread = name,
            "a thread of the store panicked; the process stops"
        );
        std::process::abort();
    }
}

impl OpenError {
    fn of(is_damage: bool, error: &dyn std::error::Error) -> OpenError {
        let text = error.to_string();
        match is_damage {
            true => OpenError::Damaged { text },
            false => OpenError::Refused { text },
        }
    }
}

impl From<image::Error> for OpenError {
    fn from(error: image::Error) -> OpenError {
        use image::Error as E;
        let is_damage = matches!(error, E::Damaged(_) | E::NotNext { .. } | E::BadKey(_));
        OpenError::of(is_damage, &error)
    }
}

impl From<log::LogReadError> for OpenError {
    fn from(error: log::LogReadError) -> OpenError {
        OpenError::of(!matches!(error, log::LogReadError::Io { .. }), &error)
    }
}

impl From<log::Error> for OpenError {
    fn from(error: log::Error) -> OpenError {
        use log::Error as E;
        let is_damage = !matches!(error, E::Io { .. } | E::Format { .. });
        OpenError::of(is_damage, &error)
    }
}
