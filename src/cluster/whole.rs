//! A frame as bytes: what a stream's message is, and a segment's frame.
//!
//! ```text
//!  0  4  magic "TdLf"              40  8  position
//!  4  1  format (3: control)       48  8  synced-through
//!  5  1  flags (2: control)        56  8  commit time, ms since 1970
//!  6  2  zero                      64  4  CRC of the last frame before it that is not void
//!  8  4  bytes of the payload      68  4  CRC-32C of bytes 0..68 and the payload
//! 12  4  number in its ms          72     payload; of a control frame: kind (1 byte) and what it says
//! 16 16  log ID
//! 32  8  term
//! ```
//! Formats 1 and 2 are batches; `src/store/log/frame.rs` has their payloads, which nothing here looks into.
//!
//! Owns: the layout of control frames, and what is read of all frames. Promises: reading never panics, and takes
//! nothing for a frame that is not whole. Must not: know which frame should come next.

use bytes::{BufMut, Bytes, BytesMut};
use tideline_base::ids::{HistoryId, Position};
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{Claim, Content, Draft, Genesis, Sealed};

/// Bytes in front of a frame's payload.
pub const HEADER_BYTES: usize = 72;
const MAGIC: [u8; 4] = *b"TdLf";
const CRC_AT: usize = 68;
const BATCH: u8 = 1;
const SQUEEZED: u8 = 2;
const CONTROL: u8 = 3;
const FLAG_CONTROL: u8 = 2;

/// Names in control frames are no longer.
const NAME_BYTES_MAX: usize = 255;

/// A commit time: ms since 1970, and a number below 1,000 in it. It rises from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitTime {
    /// Ms since 1970.
    pub ms: u64,
    /// How many frames before it have the same ms.
    pub in_ms: u32,
}

impl CommitTime {
    /// The time of a next frame at `now_ms`.
    #[must_use]
    pub fn next(self, now_ms: u64) -> CommitTime {
        let CommitTime { ms, in_ms } = self;
        match now_ms > ms {
            true => CommitTime {
                ms: now_ms,
                in_ms: 0,
            },
            false if in_ms < 999 => CommitTime {
                ms,
                in_ms: in_ms + 1,
            },
            false => CommitTime {
                ms: ms.saturating_add(1),
                in_ms: 0,
            },
        }
    }
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its place in the log, and what it is.
    pub sealed: Sealed,
    /// When it was sealed.
    pub time: CommitTime,
    /// All of it.
    pub bytes: Bytes,
}

impl Frame {
    /// Reads a message. `None`: it is no whole frame, or one of a format that this version does not know.
    #[must_use]
    pub fn read(bytes: Bytes) -> Option<Frame> {
        let payload = bytes.get(HEADER_BYTES..)?;
        let mut header = Fields(&bytes[..HEADER_BYTES]);
        let magic: [u8; 4] = header.array()?;
        let (format, flags) = (header.u8()?, header.u8()?);
        header.array::<2>()?;
        let is_whole = magic == MAGIC
            && usize::try_from(header.u32()?) == Ok(payload.len())
            && crc_of(&bytes) == u32::from_be_bytes(Fields(&bytes[CRC_AT..]).array()?);
        if !is_whole {
            return None;
        }
        let in_ms = header.u32()?;
        let log = HistoryId(header.array()?);
        let (term, position) = (header.u64()?, header.u64()?);
        header.u64()?;
        let time = CommitTime {
            ms: header.u64()?,
            in_ms,
        };
        let (previous_crc, crc) = (header.u32()?, header.u32()?);
        let content = match (format, flags & FLAG_CONTROL) {
            (BATCH | SQUEEZED, 0) => Content::Batch,
            (CONTROL, FLAG_CONTROL) => decode(payload)?,
            _ => return None,
        };
        let draft = Draft {
            log,
            position: Position(position),
            term,
            previous_crc,
            content,
        };
        let sealed = draft.sealed(crc, xxh3_128(&bytes));
        Some(Frame {
            sealed,
            time,
            bytes,
        })
    }

    /// Seals a frame. `payload` is that of a batch, as it is; control frames have their own.
    ///
    /// # Panics
    /// If the payload has 4 GiB.
    #[must_use]
    pub fn seal(draft: &Draft, time: CommitTime, payload: &[u8]) -> Frame {
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + payload.len() + 64);
        bytes.resize(HEADER_BYTES, 0);
        let is_batch = draft.content == Content::Batch;
        match is_batch {
            true => bytes.extend_from_slice(payload),
            false => encode(&draft.content, &mut bytes),
        }
        let payload_bytes = bytes.len() - HEADER_BYTES;
        let mut header = &mut bytes[..HEADER_BYTES];
        header.put_slice(&MAGIC);
        header.put_u8(if is_batch { BATCH } else { CONTROL });
        header.put_u8(if is_batch { 0 } else { FLAG_CONTROL });
        header.put_u16(0);
        header.put_u32(u32::try_from(payload_bytes).expect("below 4 GiB"));
        header.put_u32(time.in_ms);
        header.put_slice(&draft.log.0);
        header.put_u64(draft.term);
        header.put_u64(draft.position.0);
        // One frame is in flight, so all before it are in the stream.
        header.put_u64(draft.position.0 - 1);
        header.put_u64(time.ms);
        header.put_u32(draft.previous_crc);
        let crc = crc_of(&bytes);
        bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_be_bytes());
        let bytes = bytes.freeze();
        let sealed = draft.clone().sealed(crc, xxh3_128(&bytes));
        Frame {
            sealed,
            time,
            bytes,
        }
    }
}

fn crc_of(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CRC_AT]), &frame[HEADER_BYTES..])
}

fn encode(content: &Content, out: &mut BytesMut) {
    let text = |out: &mut BytesMut, text: &str| {
        let cut = &text.as_bytes()[..text.len().min(NAME_BYTES_MAX)];
        out.put_u8(u8::try_from(cut.len()).unwrap_or(u8::MAX));
        out.put_slice(cut);
    };
    match content {
        Content::Batch => {}
        Content::Genesis(genesis) => {
            out.put_u8(1);
            text(out, &genesis.cluster);
            out.put_u16(genesis.partition);
            out.put_u64(genesis.range.0);
            out.put_u64(genesis.range.1);
            out.put_slice(&genesis.history.0);
            out.put_u8(genesis.format);
            out.put_u8(genesis.rebuilt.is_some().into());
            if let Some((end, digest)) = genesis.rebuilt {
                out.put_u64(end.0);
                out.put_u128(digest);
            }
        }
        Content::Claim(claim) => {
            out.put_u8(2);
            text(out, &claim.node);
            out.put_u64(claim.boot);
            out.put_u32(claim.lease_ms);
        }
        Content::Resign { to } => {
            out.put_u8(3);
            out.put_u8(to.is_some().into());
            to.iter().for_each(|to| text(out, to));
        }
        Content::Beat => out.put_u8(4),
        Content::Attest { digest } => {
            out.put_u8(5);
            out.put_u128(*digest);
        }
        Content::Trimmed { to } => {
            out.put_u8(6);
            out.put_u64(to.0);
        }
        Content::Ends => out.put_u8(7),
    }
}

fn decode(payload: &[u8]) -> Option<Content> {
    let mut fields = Fields(payload);
    let content = match fields.u8()? {
        1 => Content::Genesis(Genesis {
            cluster: fields.text()?,
            partition: fields.u16()?,
            range: (fields.u64()?, fields.u64()?),
            history: HistoryId(fields.array()?),
            format: fields.u8()?,
            rebuilt: match fields.flag()? {
                true => Some((Position(fields.u64()?), fields.u128()?)),
                false => None,
            },
        }),
        2 => Content::Claim(Claim {
            node: fields.text()?,
            boot: fields.u64()?,
            lease_ms: fields.u32()?,
        }),
        3 => Content::Resign {
            to: match fields.flag()? {
                true => Some(fields.text()?),
                false => None,
            },
        },
        4 => Content::Beat,
        5 => Content::Attest {
            digest: fields.u128()?,
        },
        6 => Content::Trimmed {
            to: Position(fields.u64()?),
        },
        7 => Content::Ends,
        _ => return None,
    };
    fields.0.is_empty().then_some(content)
}

/// What is left to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let bytes = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Vec<Content> {
        let genesis = Genesis {
            cluster: "chat".to_owned(),
            partition: 3,
            range: (7, u64::MAX),
            history: HistoryId([5; 16]),
            format: 3,
            rebuilt: None,
        };
        let rebuilt = Some((Position(9), 1 << 99));
        let claim = Claim {
            node: "n1".to_owned(),
            boot: 77,
            lease_ms: 500,
        };
        let to = Some("n2".to_owned());
        vec![
            Content::Batch,
            Content::Genesis(Genesis {
                rebuilt,
                ..genesis.clone()
            }),
            Content::Genesis(genesis),
            Content::Claim(claim),
            Content::Resign { to },
            Content::Resign { to: None },
            Content::Beat,
            Content::Attest { digest: 1 << 100 },
            Content::Trimmed { to: Position(4) },
            Content::Ends,
        ]
    }

    fn sealed(content: Content) -> Frame {
        let draft = Draft {
            log: HistoryId([6; 16]),
            position: Position(12),
            term: 4,
            previous_crc: 0xABCD_EF01,
            content,
        };
        let time = CommitTime { ms: 99, in_ms: 3 };
        Frame::seal(&draft, time, b"a batch")
    }

    #[test]
    fn what_is_sealed_is_read_again() {
        for content in contents() {
            let frame = sealed(content);
            assert_eq!(Frame::read(frame.bytes.clone()), Some(frame));
        }
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_no_frame() {
        for content in contents() {
            let bytes = sealed(content).bytes;
            for cut in 0..bytes.len() {
                assert_eq!(Frame::read(bytes.slice(..cut)), None);
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Frame::read(flipped.into()), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn control_payloads_of_any_bytes_are_refused_or_read() {
        for content in contents().into_iter().skip(1) {
            let payload = sealed(content).bytes.slice(HEADER_BYTES..);
            for cut in 0..payload.len() {
                assert_eq!(decode(&payload[..cut]), None);
            }
            for (at, byte) in (0..payload.len()).flat_map(|at| [0, 1, 254, 255].map(|b| (at, b))) {
                let mut changed = payload.to_vec();
                changed[at] = byte;
                decode(&changed);
            }
        }
    }

    /// A segment that the log's own code has written.
    #[test]
    fn a_logs_frames_are_read_with_their_chain() {
        let log = "../../tests/formats/v0.1.0/data/partition-0000/log/00000000000000000001.log";
        let log = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(log);
        let mut rest = Bytes::from(std::fs::read(log).expect("it is there"));
        let (mut position, mut crc, mut time) = (0, 0, CommitTime::default());
        while rest.len() >= HEADER_BYTES && rest.starts_with(&MAGIC) {
            let payload = u32::from_be_bytes(rest[8..12].try_into().expect("four"));
            let frame = rest.split_to(HEADER_BYTES + payload as usize);
            let frame = Frame::read(frame).expect("a frame");
            let Sealed {
                position: at,
                previous_crc,
                content,
                ..
            } = &frame.sealed;
            let found = (at.0, *previous_crc, content);
            assert_eq!(found, (position + 1, crc, &Content::Batch));
            assert!(
                frame.time >= time,
                "older programs gave frames the same time"
            );
            (position, crc, time) = (at.0, frame.sealed.crc, frame.time);
        }
        assert!(
            position > 10 && rest.iter().all(|byte| *byte == 0),
            "{position}"
        );
    }

    #[test]
    fn times_rise() {
        let mut time = CommitTime::default();
        for now_ms in [5, 5, 4, 6, 0] {
            let next = time.next(now_ms);
            assert!(next > time);
            time = next;
        }
        let full = CommitTime { ms: 6, in_ms: 999 };
        assert_eq!(full.next(6), CommitTime { ms: 7, in_ms: 0 });
    }
}
