//! The bytes of one stored row and of one stored piece.
//!
//! ```text
//! row:    flags (1) | [CRC-32C (4)] | [length of the key's rest (2) | rest] | body
//! flags:  bits 0-1 kind, bits 2-3 shape, bit 4 "the key is long", bit 5 "in a block": the block has the checksum
//! body:   whole:              the value
//!         directory, cut:     row number in the part (8) | count of pieces (4) | directory or head of the value
//! piece:  CRC-32C (4) | bytes      under 1 | row number (8) | piece number (4) in the part's side slot
//! ```
//!
//! Owns: this layout. Promises: what is read with the right checksum is what was written in this run under this key; a
//! row moved to another run or key does not pass. Must not: touch LMDB. The checksum covers run number, key, kind and
//! value. Rows are written in blocks (`block.rs`); those with a checksum of their own are of earlier versions.

use tideline_base::entry::EntryKind;

const KIND_BITS: u8 = 0b0000_0011;
const SHAPE_BITS: u8 = 0b0000_1100;
const LONG_KEY: u8 = 0b0001_0000;
const IN_BLOCK: u8 = 0b0010_0000;
/// Up to this length a key is stored as it is; the rest of a longer one lies in the row.
pub(in super::super) const PLAIN_MAX: usize = 500;
/// Checksum of a piece.
pub(in super::super) const PIECE_HEAD_BYTES: usize = 4;
/// First byte of a piece's key.
const PIECE_TAG: u8 = 1;

/// How a row's value is laid down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Shape {
    /// The body is the value.
    Whole = 0,
    /// The body is the directory of the value's pieces, as the row rules cut it.
    Directory = 1,
    /// The body is the head of the value, its pieces follow on it: plain bytes, cut to fill pages.
    Cut = 2,
}

/// A stored row, taken apart but not checked.
pub(in super::super) struct Stored<'a> {
    pub(in super::super) kind: EntryKind,
    pub(in super::super) shape: Shape,
    /// The rest of a long key.
    pub(in super::super) rest: Option<&'a [u8]>,
    body: &'a [u8],
    flags: u8,
    /// `None` = it is in a block.
    crc: Option<u32>,
}

/// A body that has pieces.
pub(in super::super) struct Pieced<'a> {
    pub(in super::super) row: u64,
    pub(in super::super) count: u32,
    pub(in super::super) head: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Takes a stored value apart; `None` = no row looks like this.
    pub(in super::super) fn parse(bytes: &'a [u8]) -> Option<Stored<'a>> {
        let (&flags, mut body) = bytes.split_first()?;
        let mut crc = None;
        if flags & IN_BLOCK == 0 {
            let (of_row, after) = body.split_first_chunk::<4>()?;
            (crc, body) = (Some(u32::from_be_bytes(*of_row)), after);
        }
        let kind = EntryKind::from_byte(flags & KIND_BITS)?;
        let shape = match (flags & SHAPE_BITS) >> 2 {
            0 => Shape::Whole,
            1 => Shape::Directory,
            2 => Shape::Cut,
            _ => return None,
        };
        if flags & !(KIND_BITS | SHAPE_BITS | LONG_KEY | IN_BLOCK) != 0 {
            return None;
        }
        let mut rest = None;
        if flags & LONG_KEY != 0 {
            let (length, bytes) = body.split_first_chunk::<2>()?;
            let (found, after) =
                bytes.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            rest = Some(found);
            body = after;
        }
        Some(Stored {
            kind,
            shape,
            rest,
            body,
            flags,
            crc,
        })
    }

    /// Whether its own checksum agrees for this run and stored key.
    pub(in super::super) fn is_sound(&self, run: u64, stored_key: &[u8]) -> bool {
        let head = match self.rest {
            Some(_) => stored_key.get(..PLAIN_MAX).unwrap_or_default(),
            None => stored_key,
        };
        let rest = self.rest.unwrap_or_default();
        self.crc == Some(row_crc(run, head, rest, self.flags, self.body))
            || tideline_base::faults::is_named("rows_unchecked")
    }

    /// The body of a whole row.
    pub(in super::super) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The body of a row with pieces.
    pub(in super::super) fn pieced(&self) -> Option<Pieced<'a>> {
        let (row, bytes) = self.body.split_first_chunk::<8>()?;
        let (count, head) = bytes.split_first_chunk::<4>()?;
        Some(Pieced {
            row: u64::from_be_bytes(*row),
            count: u32::from_be_bytes(*count),
            head,
        })
    }
}

/// What a row to be stored consists of.
pub(in super::super) struct NewRow<'a> {
    /// The part of the key that goes into the value.
    pub(in super::super) rest: Option<&'a [u8]>,
    pub(in super::super) kind: EntryKind,
    pub(in super::super) shape: Shape,
    /// Row number and count of pieces, for rows that have some.
    pub(in super::super) pieced: Option<(u64, u32)>,
    /// Value, directory or head of the value.
    pub(in super::super) bytes: &'a [u8],
}

impl NewRow<'_> {
    /// Writes the value that goes into a block into `out`, whatever was there.
    pub(in super::super) fn encode(&self, out: &mut Vec<u8>) {
        let long = if self.rest.is_some() { LONG_KEY } else { 0 };
        out.clear();
        out.push(self.kind as u8 | ((self.shape as u8) << 2) | long | IN_BLOCK);
        if let Some(rest) = self.rest {
            let length = u16::try_from(rest.len()).expect("keys are at most KEY_MAX");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(rest);
        }
        if let Some((row, count)) = self.pieced {
            out.extend_from_slice(&row.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(self.bytes);
    }

    /// Bytes that the stored value takes besides `bytes`.
    pub(in super::super) fn overhead(rest: Option<&[u8]>, pieced: bool) -> usize {
        1 + rest.map_or(0, |rest| 2 + rest.len()) + if pieced { 12 } else { 0 }
    }
}

/// The checksum of a row. Small parts are copied together: a call for each would take longer.
fn row_crc(run: u64, head: &[u8], rest: &[u8], flags: u8, body: &[u8]) -> u32 {
    let mut first = [0; 13 + PLAIN_MAX];
    first[..8].copy_from_slice(&run.to_be_bytes());
    let key_len = u32::try_from(head.len() + rest.len()).unwrap_or(u32::MAX);
    first[8..12].copy_from_slice(&key_len.to_be_bytes());
    first[12] = flags;
    // In a damaged file a key may be longer.
    let (plain, over) = head.split_at(head.len().min(PLAIN_MAX));
    first[13..13 + plain.len()].copy_from_slice(plain);
    let mut crc = crc32c::crc32c(&first[..13 + plain.len()]);
    for bytes in [over, rest, body] {
        if !bytes.is_empty() {
            crc = crc32c::crc32c_append(crc, bytes);
        }
    }
    crc
}

/// The key of a piece in the side slot.
pub(in super::super) fn piece_key(row: u64, piece: u32) -> [u8; 13] {
    let mut key = [PIECE_TAG; 13];
    key[1..9].copy_from_slice(&row.to_be_bytes());
    key[9..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// Writes a piece's stored value into `out`, whatever was there.
pub(in super::super) fn encode_piece(out: &mut Vec<u8>, run: u64, key: &[u8], bytes: &[u8]) {
    out.clear();
    out.extend_from_slice(&piece_crc(run, key, bytes).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The bytes of a stored piece, if its checksum agrees.
pub(in super::super) fn decode_piece<'a>(
    stored: &'a [u8],
    run: u64,
    key: &[u8],
) -> Option<&'a [u8]> {
    let (crc, bytes) = stored.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*crc) == piece_crc(run, key, bytes)).then_some(bytes)
}

fn piece_crc(run: u64, key: &[u8], bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&run.to_be_bytes()), key);
    crc32c::crc32c_append(crc, bytes)
}
