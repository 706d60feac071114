//! Checking a log that nobody has open: every frame, every check.
//!
//! Owns: what `tideline verify` says about a log. Promises: it writes nothing, so it may run on damaged data, and hands
//! each good frame to its caller, which may compare it with the image. Must not: repair.

use std::sync::Arc;

use super::super::error::Error;
use super::super::frame::Frame;
use super::open::{Cut, refuse_if_newest_is_missing};
use super::scan::scan;
use super::segment::{Segment, segment_firsts};
use super::state::StateFile;
use super::storage::Storage;
use tideline_base::ids::Position;

/// What a whole log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogReport {
    /// Segment files.
    pub segments: usize,
    /// Frames in them.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// The first frame's position; zero without frames.
    pub first: Position,
    /// The last frame's position; zero without frames.
    pub last: Position,
    /// Whether the last shutdown was clean.
    pub clean: bool,
    /// The torn end that the next opening would cut.
    pub torn: Option<Cut>,
}

/// Reads every frame of a log, from the first segment on, and gives each to `each`. `covered` is what the image covers.
/// A directory without a log is an error.
pub(crate) fn verify(
    storage: &dyn Storage,
    covered: Position,
    each: &mut dyn FnMut(&Frame),
) -> Result<LogReport, Error> {
    verify_while(storage, covered, &mut |frame| {
        each(frame);
        Ok(())
    })
}

/// The same, until `each` gives an error.
pub(crate) fn verify_while(
    storage: &dyn Storage,
    covered: Position,
    each: &mut dyn FnMut(&Frame) -> Result<(), Error>,
) -> Result<LogReport, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    let segments: Vec<Arc<Segment>> = segment_firsts(&names)
        .into_iter()
        .map(|first| Arc::new(Segment::closed(first)))
        .collect();
    let missing = |file: &str, what| Error::Damaged {
        file: file.to_owned(),
        offset: 0,
        what,
    };
    let state = StateFile::read(storage, &names)?
        .ok_or_else(|| missing(super::state::NAME, "it is missing or holds no valid slot"))?
        .state();
    refuse_if_newest_is_missing(&segments, state.newest)?;
    let (Some(begin), Some(end_segment)) = (segments.first(), segments.last()) else {
        return Err(missing("directory", "the log has no segment"));
    };
    if begin.first > covered.next() {
        return Err(Error::BeginsLate {
            first: begin.first,
            covered,
        });
    }
    let mut report = LogReport {
        segments: segments.len(),
        frames: 0,
        bytes: 0,
        first: Position::ZERO,
        last: Position::ZERO,
        clean: false,
        torn: None,
    };
    let end = scan(storage, state.log, &segments, false, &mut |found| {
        if report.frames == 0 {
            report.first = found.frame.position;
        }
        report.frames += 1;
        report.bytes += found.bytes.len() as u64;
        report.last = found.frame.position;
        each(&found.frame)
    })?;
    let needed = covered.max(state.position);
    if report.last < needed {
        return Err(Error::EndsEarly {
            file: end_segment.name.clone(),
            offset: end.offset,
            last: report.last,
            needed,
        });
    }
    report.clean = state.clean && state.position == report.last;
    report.torn = (end.torn_bytes > 0).then(|| Cut {
        file: end_segment.name.clone(),
        offset: end.offset,
        bytes: end.torn_bytes,
    });
    Ok(report)
}
