//! Opening a log: making it, or finding out where it ends and making that end durable.
//!
//! Owns: the order of the steps after a crash. Promises: nothing is served that a power cut right afterwards could take
//! away; nothing that was ever synced is cut. Must not: touch anything before it knows that the log may be opened.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::super::error::Error;
use super::super::frame::HEADER_BYTES;
use super::Files;
use super::append::{LocalMedium, LogEnd};
use super::scan::{End, Found, scan};
use super::segment::{
    FrameCursor, Segment, is_spare_name, parse_segment_name, segment_firsts, segment_name,
};
use super::segments::{ROOM, RetentionLimits, Segments};
use super::state::StateFile;
use super::storage::{File, Storage};
use crate::log::{Last, Options};
use tideline_base::ids::{HistoryId, Position};

/// What opening found and did, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Whether the log was made just now.
    pub created: bool,
    /// Whether the last shutdown was a clean one.
    pub clean: bool,
    /// The last batch's position; zero for an empty log.
    pub last: Position,
    /// What was cut off, if a batch had not got whole.
    pub cut: Option<Cut>,
}

/// The torn end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The file.
    pub file: String,
    /// Where the last whole batch ends, in bytes.
    pub offset: u64,
    /// How many bytes behind it were of a batch that was never whole. In a segment that is being written over, the rest
    /// of an old batch may pass for one.
    pub bytes: u64,
}

/// An open log: how it is appended to, what opening did, its ID and its last frame.
type Open = (LocalMedium, Opened, HistoryId, Last);

/// A frame to be written again: its file, its place, its bytes.
type Rewrite = (Arc<Segment>, u64, Bytes);

/// See [`crate::log::Log::open`]. A mirror's end may be torn anywhere above what the image covers.
pub(in crate::log) fn open(
    storage: Arc<dyn Storage>,
    options: Options,
    covered: Position,
    is_mirror: bool,
) -> Result<Open, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    let (segments, spares) = sort(&names);
    let (mut state_file, segments, created) = match StateFile::read(storage.as_ref(), &names)? {
        Some(state) => (state, segments, false),
        None => {
            refuse_if_used(storage.as_ref(), &segments, covered)?;
            let (state, segment) = create(storage.as_ref(), &names)?;
            (state, vec![segment], true)
        }
    };
    let state = state_file.state();
    refuse_if_newest_is_missing(&segments, state.newest)?;
    let from = first_to_scan(&segments, covered)?;

    let (end, last, rewrites) =
        scan_from(storage.as_ref(), state.log, &segments[from..], is_mirror)?;
    let active = segments.last().expect("scan has seen it").clone();
    let last = settle_last(last, &active)?;
    let needed = match is_mirror {
        true => covered,
        false => covered.max(state.position),
    };
    refuse_if_short(&active, &end, last.position, needed)?;

    let clean = created || (state.clean && state.position == last.position);
    let io = |e| Error::io(&active.name, e);
    let file = active.file(storage.as_ref()).map_err(io)?.clone();
    if !clean && !tideline_base::faults::is_named("torn_end_stays") {
        make_durable(storage.as_ref(), &active, &file, end.offset, rewrites)?;
        active.set_bytes(end.offset);
    }
    state_file.make_durable()?;
    let noted = state_file.write(last.position, active.first, false);
    noted.map_err(|e| Error::io(super::state::NAME, e))?;
    for segment in &segments[..from] {
        note_length(storage.as_ref(), segment)?;
    }

    let opened = Opened {
        created,
        clean,
        last: last.position,
        cut: (!clean && end.torn_bytes > 0).then(|| Cut {
            file: active.name.clone(),
            offset: end.offset,
            bytes: end.torn_bytes,
        }),
    };
    let end = LogEnd {
        segment: active,
        file,
        offset: end.offset,
        settled: last.position,
    };
    let limits = RetentionLimits {
        age_ms: options.retention_age_ms,
        bytes: options.retention_bytes,
        spares: options.spare_segments,
        segment_bytes: options.segment_bytes,
        room_bytes: options.room_bytes,
    };
    let has_room = names.iter().any(|name| name == ROOM);
    let files = Arc::new(Files {
        log: state.log,
        segments: Segments::new(storage, limits, segments, spares, has_room),
        state: Mutex::new(state_file),
        synced: AtomicU64::new(if is_mirror { last.position.0 } else { u64::MAX }),
    });
    let medium = LocalMedium::new(files, end, options.segment_bytes);
    Ok((medium, opened, state.log, last))
}

/// The end, the last frame, and the last two to be written again.
type Scanned = (End, Option<Last>, Vec<Rewrite>);

fn scan_from(
    storage: &dyn Storage,
    log: HistoryId,
    segments: &[Arc<Segment>],
    is_mirror: bool,
) -> Result<Scanned, Error> {
    let mut last: Option<Last> = None;
    let mut rewrites = VecDeque::with_capacity(3);
    let end = scan(storage, log, segments, is_mirror, &mut |found: Found<
        '_,
    >| {
        // Time does not fall, whatever an older program wrote.
        let time = last.map_or((0, 0), |last| (last.commit_ms, last.in_ms));
        let (commit_ms, in_ms) = time.max((found.frame.commit_ms, found.frame.in_ms));
        let header = &found.header;
        // The chain goes around a void frame, of an earlier term.
        let void = last.filter(|_| found.frame.is_void());
        last = Some(Last {
            position: header.position,
            crc: void.map_or(header.crc, |last| last.crc),
            commit_ms,
            in_ms,
            term: void.map_or(header.term, |last| last.term),
        });
        rewrites.push_back((found.segment.clone(), found.offset, found.bytes));
        if rewrites.len() > 2 {
            rewrites.pop_front();
        }
        Ok(())
    })?;
    Ok((end, last, rewrites.into()))
}

/// Segments in order, and spares.
pub(super) fn sort(names: &[String]) -> (Vec<Arc<Segment>>, Vec<String>) {
    let segments = segment_firsts(names)
        .into_iter()
        .map(|first| Arc::new(Segment::closed(first)));
    let spares = names.iter().filter(|name| is_spare_name(name)).cloned();
    (segments.collect(), spares.collect())
}

/// Without a valid state file there may only be what a crash in `create` leaves: nothing, or the first segment without
/// a frame.
pub(super) fn refuse_if_used(
    storage: &dyn Storage,
    segments: &[Arc<Segment>],
    covered: Position,
) -> Result<(), Error> {
    let lost = Error::Damaged {
        file: super::state::NAME.to_owned(),
        offset: 0,
        what: "it is missing or holds no valid slot, but the log was in use",
    };
    if covered > Position::ZERO || segments.len() > 1 {
        return Err(lost);
    }
    let Some(segment) = segments.first() else {
        return Ok(());
    };
    let io = |e| Error::io(&segment.name, e);
    let file = segment.file(storage).map_err(io)?;
    let head = FrameCursor::new(file.clone(), HEADER_BYTES)
        .bytes_at(0, 1)
        .map_err(io)?;
    if segment.first > Position(1) || !head.is_empty() {
        return Err(lost);
    }
    Ok(())
}

/// The segment in which the log goes on was there before its first frame was written.
pub(super) fn refuse_if_newest_is_missing(
    segments: &[Arc<Segment>],
    newest: Position,
) -> Result<(), Error> {
    if segments.last().is_some_and(|last| last.first >= newest) {
        return Ok(());
    }
    Err(Error::Damaged {
        file: segment_name(newest),
        offset: 0,
        what: "the file is missing, but the log went on in it",
    })
}

/// Makes the first segment durable, then the state file: once that is there, so is the segment.
pub(super) fn create(
    storage: &dyn Storage,
    names: &[String],
) -> Result<(StateFile, Arc<Segment>), Error> {
    let first = Position(1);
    let segment = create_segment(storage, names, first)?;
    let state = StateFile::create(storage, HistoryId::random(), Position::ZERO, first)?;
    Ok((state, segment))
}

pub(super) fn create_segment(
    storage: &dyn Storage,
    names: &[String],
    first: Position,
) -> Result<Arc<Segment>, Error> {
    let directory = |e| Error::io("directory", e);
    for name in names {
        if parse_segment_name(name).is_some() || name == super::state::NAME {
            storage.remove(name).map_err(|e| Error::io(name, e))?;
        }
    }
    storage.sync_dir().map_err(directory)?;
    let segment = Segment::closed(first);
    let io = |e| Error::io("first segment", e);
    let file = storage.create(&segment.name).map_err(io)?;
    file.sync_data().map_err(io)?;
    storage.sync_dir().map_err(directory)?;
    Ok(Arc::new(Segment::opened(first, file)))
}

/// The segment that holds the covered position (or the one behind it): scanning from there finds the newest frame's CRC
/// even if the image covers everything.
fn first_to_scan(segments: &[Arc<Segment>], covered: Position) -> Result<usize, Error> {
    let Some(first) = segments.first() else {
        return Err(Error::Damaged {
            file: "directory".to_owned(),
            offset: 0,
            what: "the log has no segment",
        });
    };
    if first.first > covered.next() {
        return Err(Error::BeginsLate {
            first: first.first,
            covered,
        });
    }
    let after = segments.partition_point(|segment| segment.first <= covered);
    Ok(after.saturating_sub(1))
}

fn settle_last(last: Option<Last>, active: &Segment) -> Result<Last, Error> {
    match last {
        Some(last) => Ok(last),
        None if active.first == Position(1) => Ok(Last {
            position: Position::ZERO,
            crc: 0,
            commit_ms: 0,
            in_ms: 0,
            term: 1,
        }),
        // Retention never takes the segment with the newest frame.
        None => Err(Error::Damaged {
            file: active.name.clone(),
            offset: 0,
            what: "the segment before it is missing",
        }),
    }
}

fn refuse_if_short(
    active: &Segment,
    end: &End,
    last: Position,
    needed: Position,
) -> Result<(), Error> {
    if last >= needed {
        return Ok(());
    }
    Err(Error::EndsEarly {
        file: active.name.clone(),
        offset: end.offset,
        last,
        needed,
    })
}

/// After a crash: cuts what is behind the last frame, and writes the last two frames again. What was read came from the
/// page cache perhaps, and was then never on disk; writing makes the pages dirty again, so that the sync means
/// something.
fn make_durable(
    storage: &dyn Storage,
    active: &Segment,
    file: &Arc<dyn File>,
    end: u64,
    rewrites: Vec<Rewrite>,
) -> Result<(), Error> {
    let io = |e| Error::io(&active.name, e);
    if active.bytes() > end {
        file.set_len(end).map_err(io)?;
        file.sync_data().map_err(io)?;
    }
    for (segment, offset, bytes) in rewrites {
        let io = |e| Error::io(&segment.name, e);
        let file = segment.file(storage).map_err(io)?;
        file.write_at(&bytes, offset).map_err(io)?;
        file.sync_data().map_err(io)?;
    }
    file.sync_data().map_err(io)?;
    // Names too were perhaps only in memory.
    storage.sync_dir().map_err(|e| Error::io("directory", e))
}

fn note_length(storage: &dyn Storage, segment: &Segment) -> Result<(), Error> {
    let io = |e| Error::io(&segment.name, e);
    let file = segment.file(storage).map_err(io)?;
    segment.set_bytes(file.len().map_err(io)?);
    Ok(())
}
