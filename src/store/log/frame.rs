//! The frame: one batch as bytes. All numbers are big-endian; lengths and counts in the payload are varints.
//!
//! ```text
//!  0  4  magic "TdLf"              40  8  position
//!  4  1  format (below)            48  8  synced-through: last position known synced when this was written
//!  5  1  flags (1 sparse)          56  8  commit time, ms since 1970
//!  6  2  zero                      64  4  CRC of the frame before
//!  8  4  bytes of the payload      68  4  CRC-32C of bytes 0..68 and the payload
//! 12  4  number in its ms          72     payload
//! 16 16  log ID                           entries: count, each kind (1 byte), key length, key, value length, value
//! 32  8  term                             changes: count, each length, bytes
//! ```
//! Of format 2 the payload is squeezed (`squeeze.rs`): a writer takes it where it saves something. Format 3 is for
//! control frames of a log that machines share (`src/cluster/whole.rs`): batches without entries here.
//!
//! Owns: this layout. Promises: decoding never panics and takes nothing for a frame that is not whole, and unfolds none
//! to more than [`FRAME_BYTES_MAX`]; keys and values are extents of one buffer. Must not: touch files, or know which
//! frame should come next. The place of magic, format, length, log ID and both CRCs stays the same in every later
//! format.

use std::ops::Range;

use bytes::{BufMut, Bytes};

use super::extent::{EntryExtent, Extent};
use super::squeeze;
use crate::squeeze::varint::varint_at;
use tideline_base::entry::{Entry, EntryKind, KeyedEntry};
use tideline_base::ids::{HistoryId, Position};

/// Bytes in front of a frame's payload.
pub(super) const HEADER_BYTES: usize = 72;

/// No frame is larger: readers take what claims more for damage. [`super::Options::frame_bytes_max`] may be less.
pub(crate) const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The first bytes of every frame.
pub(super) const MAGIC: [u8; 4] = *b"TdLf";

/// The payload is as it is.
const PLAIN: u8 = 1;
/// The payload is squeezed.
const SQUEEZED: u8 = 2;
/// A control frame.
const CONTROL: u8 = 3;
const FLAG_SPARSE: u8 = 1;
pub(super) const CRC_AT: usize = 68;

/// One committed batch. Cheap to read, and never copied: its entries and changes are extents of one buffer.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The batch's number.
    pub position: Position,
    /// Commit time, ms since 1970; never falls from frame to frame.
    pub commit_ms: u64,
    /// How many frames before it have the same commit time.
    pub(super) in_ms: u32,
    /// Which writer's reign the batch belongs to.
    pub term: u64,
    pub(super) crc: u32,
    /// The payload as it is, perhaps with some bytes in front of it.
    buffer: Bytes,
    /// The frame as it is on disk, which may be a part of `buffer`; empty once it is not needed any more.
    encoded: Bytes,
    encoded_bytes: usize,
    entries: Vec<EntryExtent>,
    changes: Vec<Extent>,
    is_void: bool,
}

impl Frame {
    /// Reads a frame that another node has sealed; `None`: it is no whole one. One that `is_void` has no effect.
    pub(crate) fn read(bytes: &Bytes, is_void: bool) -> Option<Frame> {
        let header = Header::parse(bytes).filter(Header::readable)?;
        let is_whole = header.frame_bytes() <= FRAME_BYTES_MAX && whole(bytes, &header);
        is_whole
            .then(|| decode_as(bytes, &header, is_void))
            .flatten()
    }

    /// Whether it counts as a position only.
    pub(crate) fn is_void(&self) -> bool {
        self.is_void
    }

    /// Commit time, µs since 1970; rises from frame to frame. (Frames of older programs may share one.)
    #[must_use]
    pub fn commit_us(&self) -> u64 {
        micros(self.commit_ms, self.in_ms)
    }

    /// Its checksum, which covers that of the frame before it.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    /// Bytes that the frame takes in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.encoded_bytes
    }

    /// Bytes that it takes in memory.
    pub(super) fn memory(&self) -> usize {
        self.buffer.len() + self.encoded.len() + self.entries.len() * size_of::<EntryExtent>()
    }

    /// The frame as it is on disk, unless it was let go.
    pub(crate) fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Lets go of the frame as it is on disk.
    pub(super) fn let_go(&mut self) {
        self.encoded = Bytes::new();
    }

    /// What the batch does, in the order given, each key once.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = KeyedEntry<'_>> + Clone {
        self.entries.iter().map(|entry| entry.of(&self.buffer))
    }

    /// The same without a copy of keys and values, which keep the whole frame in memory.
    pub fn owned_entries(&self) -> impl ExactSizeIterator<Item = (Bytes, Entry)> {
        self.entries.iter().map(|entry| {
            let value = self.buffer.slice(entry.value.range());
            let kind = entry.kind;
            (self.buffer.slice(entry.key.range()), Entry { kind, value })
        })
    }

    /// Where the entries are in [`Frame::buffer`].
    pub(crate) fn extents(&self) -> &[EntryExtent] {
        &self.entries
    }

    /// What keys and values lie in.
    pub(crate) fn buffer(&self) -> &Bytes {
        &self.buffer
    }

    /// Some of the entries by their numbers; `None` if there are not as many.
    pub fn entries_in(
        &self,
        range: Range<usize>,
    ) -> Option<impl ExactSizeIterator<Item = KeyedEntry<'_>>> {
        let some = self.entries.get(range)?;
        Some(some.iter().map(|entry| entry.of(&self.buffer)))
    }

    /// Opaque change records in the order given.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.changes
            .iter()
            .map(|change| &self.buffer[change.range()])
    }
}

/// Frames are the same if they are the same on disk.
impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        (self.position, self.crc, self.encoded_bytes)
            == (other.position, other.crc, other.encoded_bytes)
    }
}

/// The numbers in front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) format: u8,
    pub(super) sparse: bool,
    pub(super) payload_bytes: usize,
    pub(super) log: HistoryId,
    pub(super) term: u64,
    pub(super) position: Position,
    pub(super) synced_through: Position,
    pub(super) commit_ms: u64,
    /// Below 1,000: what the commit time has in µs.
    pub(super) in_ms: u32,
    pub(super) previous_crc: u32,
    pub(super) crc: u32,
}

impl Header {
    /// The header of a frame that is to be sealed.
    pub(super) fn new(log: HistoryId, position: Position, term: u64, commit_ms: u64) -> Header {
        Header {
            format: PLAIN,
            sparse: false,
            payload_bytes: 0,
            log,
            term,
            position,
            synced_through: Position::ZERO,
            commit_ms,
            in_ms: 0,
            previous_crc: 0,
            crc: 0,
        }
    }

    /// Reads the numbers without judging them, but for the magic and a position that no log reaches: behind it there
    /// is none. `None` also if `bytes` is too short.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let is_header = bytes.len() >= HEADER_BYTES && bytes[..4] == MAGIC;
        if !is_header || u64_at(bytes, 40) == u64::MAX {
            return None;
        }
        Some(Header {
            format: bytes[4],
            sparse: bytes[5] & FLAG_SPARSE != 0,
            payload_bytes: u32_at(bytes, 8) as usize,
            log: HistoryId(array_at(bytes, 16)),
            term: u64_at(bytes, 32),
            position: Position(u64_at(bytes, 40)),
            synced_through: Position(u64_at(bytes, 48)),
            commit_ms: u64_at(bytes, 56),
            in_ms: u32_at(bytes, 12),
            previous_crc: u32_at(bytes, 64),
            crc: u32_at(bytes, CRC_AT),
        })
    }

    /// See [`Frame::commit_us`].
    pub(super) fn commit_us(&self) -> u64 {
        micros(self.commit_ms, self.in_ms)
    }

    /// Bytes of the whole frame.
    pub(super) fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes
    }

    /// Whether a reader of this format may take the frame.
    pub(super) fn readable(&self) -> bool {
        matches!(self.format, PLAIN | SQUEEZED | CONTROL)
    }
}

/// Whether `frame`, cut to its length by the header, has the CRC that it names.
pub(super) fn whole(frame: &[u8], header: &Header) -> bool {
    frame.len() == header.frame_bytes() && crc_of(frame) == header.crc
}

pub(super) fn crc_of(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CRC_AT]), &frame[HEADER_BYTES..])
}

/// The same as [`decode`]. A void frame counts as a position only: nobody looks at what it says.
pub(super) fn decode_as(frame: &Bytes, header: &Header, is_void: bool) -> Option<Frame> {
    let void = is_void.then(|| empty(frame, header));
    let void = void.map(|frame| Frame { is_void, ..frame });
    void.or_else(|| decode(frame, header))
}

/// A frame without effect.
fn empty(frame: &Bytes, header: &Header) -> Frame {
    Frame::new(header, Bytes::new(), frame.clone(), Vec::new(), Vec::new())
}

/// Decodes a frame whose CRC was checked. `None`: the payload is not one that this code writes.
pub(super) fn decode(frame: &Bytes, header: &Header) -> Option<Frame> {
    if header.format == CONTROL {
        return Some(empty(frame, header));
    }
    let (buffer, at) = match header.format {
        SQUEEZED => {
            let plain = squeeze::unfold(&frame[HEADER_BYTES..], FRAME_BYTES_MAX - HEADER_BYTES)?;
            (Bytes::from(plain), 0)
        }
        _ => (frame.clone(), HEADER_BYTES),
    };
    let mut payload = Payload { plain: &buffer, at };
    // Each entry takes three bytes at least, each change one: a count can't ask for more memory than the payload
    // backs.
    let count = payload.count(3)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = EntryKind::from_byte(payload.byte()?)?;
        let key = payload.extent()?;
        let value = payload.extent()?;
        entries.push(EntryExtent { kind, key, value });
    }
    let count = payload.count(1)?;
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        changes.push(payload.extent()?);
    }
    let is_all = payload.at == buffer.len();
    is_all.then(|| Frame::new(header, buffer, frame.clone(), entries, changes))
}

struct Payload<'a> {
    plain: &'a [u8],
    at: usize,
}

impl Payload<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.plain.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<usize> {
        varint_at(self.plain, &mut self.at)
    }

    fn count(&mut self, bytes_each_min: usize) -> Option<usize> {
        let count = self.varint()?;
        (count <= (self.plain.len() - self.at) / bytes_each_min
            || tideline_base::faults::is_named("counts_believed"))
        .then_some(count)
    }

    fn extent(&mut self) -> Option<Extent> {
        let length = self.varint()?;
        let end = self
            .at
            .checked_add(length)
            .filter(|end| *end <= self.plain.len())?;
        let extent = Extent::new(self.at, length);
        self.at = end;
        Some(extent)
    }
}

impl Frame {
    /// `buffer` holds the payload, `encoded` is the frame on disk.
    pub(super) fn new(
        header: &Header,
        buffer: Bytes,
        encoded: Bytes,
        entries: Vec<EntryExtent>,
        changes: Vec<Extent>,
    ) -> Frame {
        Frame {
            position: header.position,
            commit_ms: header.commit_ms,
            in_ms: header.in_ms,
            term: header.term,
            crc: header.crc,
            buffer,
            encoded_bytes: encoded.len(),
            encoded,
            entries,
            changes,
            is_void: false,
        }
    }
}

/// Writes the header of a frame whose payload is in its place, CRC included. The length and the CRC that `header` names
/// are made here.
pub(super) fn seal(frame: &mut [u8], header: &mut Header) {
    header.payload_bytes = frame.len() - HEADER_BYTES;
    let (mut out, payload) = frame.split_at_mut(HEADER_BYTES);
    let payload_bytes = u32::try_from(payload.len()).expect("below FRAME_BYTES_MAX");
    out.put_slice(&MAGIC);
    out.put_u8(header.format);
    out.put_u8(if header.sparse { FLAG_SPARSE } else { 0 });
    out.put_u16(0);
    out.put_u32(payload_bytes);
    out.put_u32(header.in_ms);
    out.put_slice(&header.log.0);
    out.put_u64(header.term);
    out.put_u64(header.position.0);
    out.put_u64(header.synced_through.0);
    out.put_u64(header.commit_ms);
    out.put_u32(header.previous_crc);
    header.crc = crc_of(frame);
    frame[CRC_AT..HEADER_BYTES].copy_from_slice(&header.crc.to_be_bytes());
}

/// Seals a frame whose payload is squeezed behind the room for its header.
pub(super) fn seal_squeezed(frame: &mut [u8], header: &mut Header) {
    header.format = SQUEEZED;
    seal(frame, header);
}

/// A frame may be anybody's, and have any numbers with a right checksum.
fn micros(commit_ms: u64, in_ms: u32) -> u64 {
    commit_ms
        .saturating_mul(1_000)
        .saturating_add(u64::from(in_ms))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}
