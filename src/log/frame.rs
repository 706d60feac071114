//! The frame: one batch as bytes. All numbers are big-endian; lengths and counts in the payload are varints.
//!
//! ```text
//!  0  4  magic "TdLf"              40  8  position
//!  4  1  format (1)                48  8  synced-through: last position known synced when this was written
//!  5  1  flags (1 = sparse)        56  8  commit time, ms since 1970
//!  6  2  zero                      64  4  CRC of the frame before
//!  8  4  bytes of the payload      68  4  CRC-32C of bytes 0..68 and the payload
//! 12  4  zero                      72     payload
//! 16 16  log ID                           effects: count, each kind (1 byte), key length, key, value length, value
//! 32  8  term                             changes: count, each length, bytes
//! ```
//!
//! Owns: this layout. Promises: decoding never panics and takes nothing for a frame that is not whole; decoded keys and
//! values are slices of the frame's one buffer. Must not: touch files, or know which frame should come next. The place
//! of magic, format, length, log ID and both CRCs stays the same in every later format.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use crate::ids::{EntryKind, HistoryId, Position};

/// Bytes in front of a frame's payload.
pub(super) const HEADER_BYTES: usize = 72;

/// A batch whose frame would pass this is refused.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The first bytes of every frame.
pub(super) const MAGIC: [u8; 4] = *b"TdLf";

const FORMAT: u8 = 1;
const FLAG_SPARSE: u8 = 1;
const CRC_AT: usize = 68;

/// Frames share allocations of this size, so that small batches do not cost one each.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Full chunks that are remembered for reuse: some more than the newest frames that stay in memory usually take.
const CHUNKS_MAX: usize = 40;

/// One key's new entry, as the log stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The row's key.
    pub key: Bytes,
    /// What the entry does.
    pub kind: EntryKind,
    /// The row of a put, the changed cells of a delta; empty for a tombstone.
    pub value: Bytes,
}

/// An effect that is still the caller's, to be encoded without a copy in between.
#[derive(Clone, Copy, Debug)]
pub struct EffectRef<'a> {
    /// The row's key.
    pub key: &'a [u8],
    /// What the entry does.
    pub kind: EntryKind,
    /// The row of a put, the changed cells of a delta; empty for a tombstone.
    pub value: &'a [u8],
}

impl<'a> From<&'a Effect> for EffectRef<'a> {
    fn from(effect: &'a Effect) -> EffectRef<'a> {
        EffectRef {
            key: &effect.key,
            kind: effect.kind,
            value: &effect.value,
        }
    }
}

/// One batch of the log, decoded. Keys, values and changes are slices of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The batch's number.
    pub position: Position,
    /// Commit time, ms since 1970; never falls from frame to frame.
    pub commit_ms: u64,
    /// Which writer's reign the batch belongs to.
    pub term: u64,
    /// What the batch does, in the order given, each key once.
    pub effects: Vec<Effect>,
    /// Opaque change records in the order given.
    pub changes: Vec<Bytes>,
    /// Bytes that the frame takes in the log.
    pub bytes: usize,
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
    pub(super) previous_crc: u32,
    pub(super) crc: u32,
}

impl Header {
    /// Reads the numbers without judging them, but for the magic. `None` also if `bytes` is too short.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC {
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
            previous_crc: u32_at(bytes, 64),
            crc: u32_at(bytes, CRC_AT),
        })
    }

    /// Bytes of the whole frame.
    pub(super) fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes
    }

    /// Whether a reader of this format may take the frame.
    pub(super) fn readable(&self) -> bool {
        self.format == FORMAT
    }
}

/// Whether `frame`, cut to its length by the header, has the CRC that it names.
pub(super) fn whole(frame: &[u8], header: &Header) -> bool {
    frame.len() == header.frame_bytes() && crc_of(frame) == header.crc
}

fn crc_of(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CRC_AT]), &frame[HEADER_BYTES..])
}

/// Decodes a frame whose CRC was checked. `None`: the payload is not one that this code writes.
pub(super) fn decode(frame: &Bytes, header: &Header) -> Option<Frame> {
    let mut payload = Payload {
        frame,
        at: HEADER_BYTES,
    };
    // Each effect takes three bytes at least, each change one: a count can't ask for more memory than the payload
    // backs.
    let count = payload.count(3)?;
    let mut effects = Vec::with_capacity(count);
    for _ in 0..count {
        let kind = EntryKind::from_byte(payload.byte()?)?;
        let key = payload.slice()?;
        let value = payload.slice()?;
        effects.push(Effect { key, kind, value });
    }
    let count = payload.count(1)?;
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        changes.push(payload.slice()?);
    }
    (payload.at == frame.len()).then_some(Frame {
        position: header.position,
        commit_ms: header.commit_ms,
        term: header.term,
        effects,
        changes,
        bytes: frame.len(),
    })
}

struct Payload<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl Payload<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.frame.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).ok();
            }
        }
        None
    }

    fn count(&mut self, bytes_each_min: usize) -> Option<usize> {
        let count = self.varint()?;
        (count <= (self.frame.len() - self.at) / bytes_each_min).then_some(count)
    }

    fn slice(&mut self) -> Option<Bytes> {
        let length = self.varint()?;
        let end = self
            .at
            .checked_add(length)
            .filter(|end| *end <= self.frame.len())?;
        let slice = self.frame.slice(self.at..end);
        self.at = end;
        Some(slice)
    }
}

/// What the encoder is told besides effects and changes.
pub(super) struct Stamp {
    pub(super) log: HistoryId,
    pub(super) term: u64,
    pub(super) position: Position,
    pub(super) synced_through: Position,
    pub(super) commit_ms: u64,
    pub(super) previous_crc: u32,
    pub(super) sparse: bool,
}

/// Encodes frames, one after the other, into shared allocations. One of which nobody has a frame any more is used
/// again: memory fresh from the system would have to be cleared for each frame.
#[derive(Default)]
pub(super) struct Encoder {
    chunk: BytesMut,
    /// What is left of full chunks, oldest first.
    full: VecDeque<BytesMut>,
}

impl Encoder {
    /// The frame's bytes and its CRC; `None` if it would pass [`FRAME_BYTES_MAX`].
    pub(super) fn encode<'a>(
        &mut self,
        stamp: &Stamp,
        effects: impl Iterator<Item = EffectRef<'a>> + Clone,
        changes: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Option<(Bytes, u32)> {
        let (payload_bytes, counts) = measure(effects.clone(), changes.clone())?;
        let bytes = HEADER_BYTES + payload_bytes;
        if self.chunk.capacity() < bytes {
            self.next_chunk(bytes);
        }
        let out = &mut self.chunk;
        put_header(out, stamp, payload_bytes);
        put_varint(out, counts.0);
        for effect in effects {
            out.put_u8(effect.kind as u8);
            put_varint(out, effect.key.len());
            out.put_slice(effect.key);
            put_varint(out, effect.value.len());
            out.put_slice(effect.value);
        }
        put_varint(out, counts.1);
        for change in changes {
            put_varint(out, change.len());
            out.put_slice(change);
        }
        assert_eq!(out.len(), bytes, "the iterators gave the same items twice");
        let crc = crc_of(out);
        out[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
        Some((out.split().freeze(), crc))
    }

    fn next_chunk(&mut self, bytes: usize) {
        let bytes = bytes.max(CHUNK_BYTES);
        let mut full = self.full.iter_mut();
        let free = full.position(|chunk| chunk.try_reclaim(bytes));
        let free = free.and_then(|at| self.full.remove(at));
        let chunk = free.unwrap_or_else(|| BytesMut::with_capacity(bytes));
        let full = std::mem::replace(&mut self.chunk, chunk);
        self.full.push_back(full);
        if self.full.len() > CHUNKS_MAX {
            self.full.pop_front();
        }
    }
}

fn put_header(out: &mut BytesMut, stamp: &Stamp, payload_bytes: usize) {
    out.put_slice(&MAGIC);
    out.put_u8(FORMAT);
    out.put_u8(if stamp.sparse { FLAG_SPARSE } else { 0 });
    out.put_u16(0);
    out.put_u32(u32::try_from(payload_bytes).expect("below FRAME_BYTES_MAX"));
    out.put_u32(0);
    out.put_slice(&stamp.log.0);
    out.put_u64(stamp.term);
    out.put_u64(stamp.position.0);
    out.put_u64(stamp.synced_through.0);
    out.put_u64(stamp.commit_ms);
    out.put_u32(stamp.previous_crc);
    out.put_u32(0);
}

/// Bytes of the payload and the two counts; `None` if it is too large.
fn measure<'a>(
    effects: impl Iterator<Item = EffectRef<'a>>,
    changes: impl Iterator<Item = &'a [u8]>,
) -> Option<(usize, (usize, usize))> {
    let (mut bytes, mut effect_count, mut change_count) = (0usize, 0usize, 0usize);
    for effect in effects {
        let (key, value) = (effect.key.len(), effect.value.len());
        bytes = bytes
            .checked_add(1 + varint_bytes(key) + varint_bytes(value))?
            .checked_add(key)?
            .checked_add(value)?;
        effect_count += 1;
    }
    for change in changes {
        bytes = bytes
            .checked_add(varint_bytes(change.len()))?
            .checked_add(change.len())?;
        change_count += 1;
    }
    bytes = bytes.checked_add(varint_bytes(effect_count) + varint_bytes(change_count))?;
    (bytes <= FRAME_BYTES_MAX - HEADER_BYTES).then_some((bytes, (effect_count, change_count)))
}

fn varint_bytes(value: usize) -> usize {
    let bits = (usize::BITS - value.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

fn put_varint(out: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp(number: u64) -> Stamp {
        Stamp {
            log: HistoryId([7; 16]),
            term: number ^ 5,
            position: Position(number | 1),
            synced_through: Position(number / 2),
            commit_ms: number ^ 0xffff,
            previous_crc: number as u32,
            sparse: number.is_multiple_of(2),
        }
    }

    fn effects() -> impl Strategy<Value = Vec<Effect>> {
        let kinds = [EntryKind::Put, EntryKind::Delta, EntryKind::Tombstone];
        let bytes = |max| prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from);
        let effect = (
            bytes(200),
            prop::sample::select(kinds.to_vec()),
            bytes(20_000),
        )
            .prop_map(|(key, kind, value)| Effect { key, kind, value });
        prop::collection::vec(effect, 0..6)
    }

    fn changes() -> impl Strategy<Value = Vec<Bytes>> {
        let change = prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
        prop::collection::vec(change, 0..6)
    }

    proptest! {
        #[test]
        fn a_frame_survives_the_round_trip(
            number in any::<u64>(),
            effects in effects(),
            changes in changes(),
        ) {
            let stamp = stamp(number);
            let (bytes, crc) = Encoder::default()
                .encode(
                    &stamp,
                    effects.iter().map(EffectRef::from),
                    changes.iter().map(|change| &change[..]),
                )
                .unwrap();
            let header = Header::parse(&bytes).unwrap();
            prop_assert!(header.readable() && whole(&bytes, &header));
            prop_assert_eq!(
                (header.log, header.position, header.synced_through, header.previous_crc),
                (stamp.log, stamp.position, stamp.synced_through, stamp.previous_crc)
            );
            prop_assert_eq!((header.sparse, header.crc), (stamp.sparse, crc));
            let frame = decode(&bytes, &header).unwrap();
            for effect in &frame.effects {
                let within = bytes.as_ptr_range();
                prop_assert!(effect.value.is_empty() || within.contains(&effect.value.as_ptr()));
            }
            prop_assert_eq!(frame, Frame {
                position: stamp.position,
                commit_ms: stamp.commit_ms,
                term: stamp.term,
                effects,
                changes,
                bytes: bytes.len(),
            });
        }

        #[test]
        fn arbitrary_payloads_never_panic(
            payload in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..400),
        ) {
            let (frame, _) = Encoder::default()
                .encode(&stamp(3), std::iter::empty(), std::iter::empty())
                .unwrap();
            let mut frame = frame[..HEADER_BYTES].to_vec();
            frame.extend_from_slice(&payload);
            let header = Header::parse(&frame).unwrap();
            let _ = decode(&Bytes::from(frame), &header);
        }

        #[test]
        fn arbitrary_bytes_are_no_whole_frame(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if bytes.len() > 4 {
                bytes[..4].copy_from_slice(&MAGIC);
            }
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!(!whole(&bytes, &header));
            }
        }

        #[test]
        fn any_flipped_bit_is_noticed(bit in 0..(HEADER_BYTES + 24) * 8) {
            let effect = EffectRef { key: b"key", kind: EntryKind::Put, value: b"sixteen bytes ok" };
            let (bytes, _) = Encoder::default()
                .encode(&stamp(9), [effect].into_iter(), std::iter::empty())
                .unwrap();
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let header = Header::parse(&bytes);
            let unnoticed = header.is_some_and(|header| {
                let frame = bytes.get(..header.frame_bytes());
                frame.is_some_and(|frame| whole(frame, &header))
            });
            prop_assert!(!unnoticed);
        }
    }
}
