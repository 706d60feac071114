//! Walking frames in order, and telling a torn tail from damage.
//!
//! Owns: the rule which frame may follow which, and the rule what a bad frame means. Promises: `scan` calls an end of
//! the log "the end" only if no whole frame behind it says that the bytes before it had been synced. Must not: write;
//! opening and `verify` both run on it.

use std::sync::Arc;

use bytes::Bytes;

use super::super::error::Error;
use super::super::frame::{self, Frame, HEADER_BYTES, Header, MAGIC};
use super::segment::{FrameCursor, Segment};
use super::storage::Storage;
use tideline_base::ids::{HistoryId, Position};

/// Bytes read at once while scanning.
pub(super) const SCAN_BLOCK_BYTES: usize = 1024 * 1024;

/// Which frame comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    log: HistoryId,
    next: Position,
    /// The last frame that is not void; `None` before the first, which is none.
    last: Option<Before>,
}

/// What the next frame is compared with.
#[derive(Clone, Copy, Debug)]
struct Before {
    crc: u32,
    is_sparse: bool,
    term: u64,
}

impl Chain {
    /// A chain whose first frame has the position `next`; what was before it is not known.
    pub(super) fn new(log: HistoryId, next: Position) -> Chain {
        Chain {
            log,
            next,
            last: None,
        }
    }

    /// The position that comes next.
    pub(super) fn next(&self) -> Position {
        self.next
    }

    /// Whether a whole frame is the next one. In sparse segments (and right behind one) positions may skip, and the CRC
    /// of the frame before may be that of one that was left out.
    pub(super) fn follows(&self, header: &Header) -> bool {
        if header.log != self.log || !header.readable() {
            return false;
        }
        if header.sparse || self.after_sparse() {
            return header.position >= self.next;
        }
        let is_chained = |last: Before| last.crc == header.previous_crc;
        header.position == self.next && (self.is_void(header) || self.last.is_none_or(is_chained))
    }

    /// Whether the next frame is of a term that was over when it came: it counts as a position, and the chain goes
    /// around it. There are none but in a log that machines share.
    pub(super) fn is_void(&self, header: &Header) -> bool {
        self.last.is_some_and(|last| header.term < last.term)
    }

    /// Moves past a frame that follows.
    pub(super) fn advance(&mut self, header: &Header) {
        self.next = header.position.next();
        if !self.is_void(header) {
            self.last = Some(Before {
                crc: header.crc,
                is_sparse: header.sparse,
                term: header.term,
            });
        }
    }

    /// Moves on to a segment that begins with `first`; `false` if frames are missing before it.
    pub(super) fn enter(&mut self, first: Position) -> bool {
        if self.after_sparse() && self.next < first {
            self.next = first;
        }
        self.next == first
    }

    fn after_sparse(&self) -> bool {
        self.last.is_some_and(|last| last.is_sparse)
    }
}

/// Where the log ends.
pub(super) struct End {
    /// Where in the last segment the good frames end.
    pub(super) offset: u64,
    /// Bytes behind it that look like a frame that did not get whole; 0 if there is nothing, zeros, or a reused
    /// segment's old frames.
    pub(super) torn_bytes: u64,
}

/// A frame that the scan passed.
pub(super) struct Found<'a> {
    pub(super) segment: &'a Arc<Segment>,
    pub(super) offset: u64,
    pub(super) header: Header,
    pub(super) bytes: Bytes,
    pub(super) frame: Frame,
}

/// Walks every frame of `segments`, which must not be empty, in order; the first error of `found` ends it. Of a mirror,
/// frames at the end may have been synced or not in any order: they are elsewhere, too.
pub(super) fn scan(
    storage: &dyn Storage,
    log: HistoryId,
    segments: &[Arc<Segment>],
    is_mirror: bool,
    found: &mut dyn FnMut(Found<'_>) -> Result<(), Error>,
) -> Result<End, Error> {
    let mut chain = Chain::new(log, segments[0].first);
    let mut rest = segments.iter().peekable();
    loop {
        let segment = rest
            .next()
            .expect("there is at least one, and the last returns");
        let io = |e| Error::io(&segment.name, e);
        let file = segment.file(storage).map_err(io)?;
        segment.set_bytes(file.len().map_err(io)?);
        let mut cursor = FrameCursor::new(file.clone(), SCAN_BLOCK_BYTES);
        let offset = scan_segment(&mut cursor, segment, &mut chain, found)?;
        let Some(next) = rest.peek() else {
            let torn_bytes = judge_rest(&mut cursor, segment, offset, (&chain, is_mirror))?;
            return Ok(End { offset, torn_bytes });
        };
        // A segment is begun only after all before it is synced: whatever lacks here was there once.
        if !chain.enter(next.first) {
            return Err(damaged(
                segment,
                offset,
                "frames are missing before the next segment",
            ));
        }
    }
}

fn damaged(segment: &Segment, offset: u64, what: &'static str) -> Error {
    Error::Damaged {
        file: segment.name.clone(),
        offset,
        what,
    }
}

/// The frames of one segment. Returns where the first byte is that does not belong to one.
fn scan_segment(
    cursor: &mut FrameCursor,
    segment: &Arc<Segment>,
    chain: &mut Chain,
    found: &mut dyn FnMut(Found<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut offset = 0;
    loop {
        let at = cursor
            .frame_at(offset)
            .map_err(|e| Error::io(&segment.name, e))?;
        let Some((header, bytes)) = at.filter(|(header, _)| chain.follows(header)) else {
            return Ok(offset);
        };
        let is_void = chain.is_void(&header);
        let frame = frame::decode_as(&bytes, &header, is_void)
            .ok_or_else(|| damaged(segment, offset, "the frame's payload can't be decoded"))?;
        // A walk begins with no void frame: it would take it for one that is not.
        if !is_void {
            segment.note(header.position, offset, header.commit_us());
        }
        chain.advance(&header);
        let length = bytes.len() as u64;
        found(Found {
            segment,
            offset,
            header,
            bytes,
            frame,
        })?;
        offset += length;
    }
}

/// What the bytes behind the last good frame mean: damage, or the end, with so many bytes of a torn frame.
fn judge_rest(
    cursor: &mut FrameCursor,
    segment: &Segment,
    end: u64,
    (chain, is_mirror): (&Chain, bool),
) -> Result<u64, Error> {
    let io = |e| Error::io(&segment.name, e);
    let lost = chain.next();
    let ours = |header: &Header| header.log == chain.log;
    if let Some((header, _)) = cursor.frame_at(end).map_err(io)? {
        if ours(&header) && !header.readable() {
            return Err(Error::Format {
                file: segment.name.clone(),
                format: header.format,
            });
        }
        // A torn write can't make a whole frame, so this one was written as it is: on top of other frames.
        if ours(&header) && header.position >= lost {
            return Err(damaged(
                segment,
                end,
                "the frame does not follow the one before",
            ));
        }
    }
    let mut old_frames = false;
    let mut used_to = end;
    let mut at = end;
    loop {
        let block = cursor.bytes_at(at, SCAN_BLOCK_BYTES).map_err(io)?;
        if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
            used_to = at + last as u64 + 1;
        }
        for candidate in candidates(&block, chain.log) {
            let offset = at + candidate as u64;
            let Some((header, _)) = cursor.frame_at(offset).map_err(io)? else {
                continue;
            };
            if header.position > lost && header.synced_through >= lost && !is_mirror {
                return Err(damaged(
                    segment,
                    end,
                    "a later frame shows that one was synced here",
                ));
            }
            old_frames |= header.position < lost;
        }
        if block.len() < SCAN_BLOCK_BYTES {
            break;
        }
        // Overlap, so that a header across the border is seen.
        at += (block.len() - HEADER_BYTES) as u64;
    }
    let head = cursor.bytes_at(end, HEADER_BYTES).map_err(io)?;
    let torn = Header::parse(&head).filter(|header| ours(header) && header.position >= lost);
    Ok(match torn {
        Some(header) => (used_to - end).min(header.frame_bytes() as u64),
        None if old_frames => 0,
        None => used_to - end,
    })
}

/// Where in a block a header of this log may begin.
fn candidates(block: &Bytes, log: HistoryId) -> Vec<usize> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(step) = block[from..].iter().position(|byte| *byte == MAGIC[0]) {
        let at = from + step;
        if Header::parse(&block[at..]).is_some_and(|header| header.log == log) {
            all.push(at);
        }
        from = at + 1;
    }
    all
}
