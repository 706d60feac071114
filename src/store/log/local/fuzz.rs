//! The log's decoders, for `tests/fuzz`.
//!
//! Owns: how any bytes become a segment or a slot. Promises: half of the inputs get right checksums, so that what is
//! behind them is reached. Must not: touch a disk.

use std::io;
use std::sync::Arc;

use super::super::frame::{CRC_AT, FRAME_BYTES_MAX, Header, crc_of};
use super::scan::scan;
use super::segment::{Segment, segment_name};
use super::state;
use super::storage::{File, LocalStorage};
use tideline_base::faults::Decoder;

pub(crate) const TARGETS: &[Decoder] = &[("log_segment", segment), ("log_state", slot)];

/// Where a frame's header has the checksum of the frame before.
const PREVIOUS_AT: usize = 64;

fn segment(input: &[u8]) {
    let Some((sealed, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if sealed & 1 == 1 {
        seal(&mut bytes);
    }
    let Some(first) = Header::parse(&bytes) else {
        return;
    };
    let file = Arc::new(Held(bytes.clone()));
    let segment = Arc::new(Segment::opened(first.position, file));
    let nowhere = LocalStorage::read_only(".").expect("there is a directory");
    let mut read = 0;
    let end = scan(&nowhere, first.log, &[segment], false, &mut |found| {
        assert_eq!(found.frame.encoded(), &bytes[read..][..found.bytes.len()]);
        read += found.bytes.len();
        let frame = found.frame;
        let entries = frame
            .entries()
            .map(|entry| entry.key.len() + entry.value.len());
        let changes = frame.changes().map(<[u8]>::len);
        assert!(entries.chain(changes).sum::<usize>() <= FRAME_BYTES_MAX);
        assert!(frame.commit_us() >= frame.commit_ms);
        Ok(())
    });
    if let Ok(end) = end {
        assert_eq!(end.offset, read as u64);
        assert!(end.offset + end.torn_bytes <= bytes.len() as u64);
    }
    assert_eq!(
        super::segment::parse_segment_name(&segment_name(first.position)),
        Some(first.position)
    );
}

/// Gives frames that lie behind each other their checksums.
fn seal(bytes: &mut [u8]) {
    let (mut at, mut previous) = (0, None::<[u8; 4]>);
    while let Some(header) = Header::parse(&bytes[at..]) {
        let Some(frame) = bytes.get_mut(at..at + header.frame_bytes()) else {
            return;
        };
        if let Some(crc) = previous {
            frame[PREVIOUS_AT..][..4].copy_from_slice(&crc);
        }
        let crc = crc_of(frame).to_be_bytes();
        frame[CRC_AT..][..4].copy_from_slice(&crc);
        previous = Some(crc);
        at += frame.len();
    }
}

fn slot(input: &[u8]) {
    let Some((sealed, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if sealed & 1 == 1
        && let Some((body, crc)) = bytes.split_last_chunk_mut::<4>()
    {
        *crc = crc32c::crc32c(body).to_be_bytes();
    }
    if let Ok(Some(found)) = state::parse(&bytes) {
        assert_eq!(
            state::parse(&state::encode(&found)).ok().flatten(),
            Some(found)
        );
    }
}

/// A file in memory, to be read.
struct Held(Vec<u8>);

impl File for Held {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.0.get(from..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        buffer[..count].copy_from_slice(&found[..count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}
