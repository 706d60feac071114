//! Frames and drafts by themselves.
//!
//! Owns: drafts against a plain list; frames that are not whole. Promises: what a draft becomes comes back, and any
//! flipped bit is noticed. Must not: know where frames lie.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::frame::*;
use super::*;

fn header(number: u64) -> Header {
    Header {
        synced_through: Position(number / 2),
        previous_crc: number as u32,
        sparse: number.is_multiple_of(2),
        ..Header::new(
            HistoryId([7; 16]),
            Position(number | 1),
            number ^ 5,
            number ^ 0xffff,
        )
    }
}

fn sealed(number: u64, draft: &mut Draft) -> Frame {
    draft.seal(header(number), FRAME_BYTES_MAX).unwrap()
}

/// A key, or the number of an earlier one; a kind and a value.
type Step = (Vec<u8>, EntryKind, Vec<u8>);

fn steps() -> impl Strategy<Value = Vec<(Vec<Step>, Vec<Vec<u8>>, bool)>> {
    let kinds = [EntryKind::Put, EntryKind::Delta, EntryKind::Tombstone];
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 8),
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(any::<u8>(), 15_000..20_000),
    ];
    let step = (
        prop::collection::vec(0u8..4, 0..3),
        prop::sample::select(kinds.to_vec()),
        value,
    );
    let changes = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..3);
    let closure = (prop::collection::vec(step, 0..6), changes, any::<bool>());
    prop::collection::vec(closure, 0..6)
}

proptest! {
    /// Closures that add and replace entries and records, and are kept or taken back; the frame that comes of them is
    /// what a plain list says, in memory and read back.
    #[test]
    fn a_draft_becomes_the_frame_of_what_was_kept(
        batches in prop::collection::vec((any::<u64>(), steps()), 1..4),
    ) {
        let mut draft = Draft::default();
        for (number, closures) in batches {
            let (mut entries, mut records): (Vec<Step>, Vec<Vec<u8>>) = Default::default();
            for (steps, changes, keeps) in closures {
                let (mut next, mut next_records) = (entries.clone(), records.clone());
                for (key, kind, value) in steps {
                    match next.iter().position(|(known, ..)| *known == key) {
                        Some(at) => {
                            draft.replace(at, kind, &value);
                            next[at] = (key, kind, value);
                        }
                        None => {
                            draft.push(KeyedEntry { key: &key, kind, value: &value });
                            next.push((key, kind, value));
                        }
                    }
                }
                for record in changes {
                    draft.change(&record);
                    next_records.push(record);
                }
                if keeps {
                    draft.keep();
                    (entries, records) = (next, next_records);
                } else {
                    draft.take_back();
                }
                prop_assert_eq!(draft.len(), entries.len());
            }
            prop_assert_eq!(draft.is_empty(), entries.is_empty() && records.is_empty());
            let frame = sealed(number, &mut draft);
            prop_assert!(draft.is_empty());
            let bytes = Bytes::copy_from_slice(frame.encoded());
            let read = Header::parse(&bytes).unwrap();
            prop_assert!(read.readable() && whole(&bytes, &read));
            let wanted = Header { payload_bytes: bytes.len() - HEADER_BYTES, crc: read.crc, ..header(number) };
            prop_assert_eq!(read, wanted);
            let decoded = decode(&bytes, &read).unwrap();
            for frame in [&frame, &decoded] {
                prop_assert_eq!((frame.position, frame.commit_ms, frame.term), (read.position, read.commit_ms, read.term));
                prop_assert_eq!((frame.crc, frame.bytes()), (read.crc, bytes.len()));
                let got: Vec<Step> = frame
                    .entries()
                    .map(|entry| (entry.key.to_vec(), entry.kind, entry.value.to_vec()))
                    .collect();
                prop_assert_eq!(&got, &entries);
                prop_assert!(frame.changes().eq(records.iter().map(|record| &record[..])));
                let some = frame.entries_in(entries.len() / 2..entries.len());
                prop_assert_eq!(some.unwrap().len(), entries.len() - entries.len() / 2);
                prop_assert!(frame.entries_in(0..entries.len() + 1).is_none());
            }
        }
    }

    #[test]
    fn arbitrary_payloads_never_panic(
        payload in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..400),
    ) {
        let mut frame = sealed(3, &mut Draft::default()).encoded()[..HEADER_BYTES].to_vec();
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
        let frame = sealed(9, &mut draft(b"key", b"sixteen bytes ok", None));
        let mut bytes = frame.encoded().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let header = Header::parse(&bytes);
        let unnoticed = header.is_some_and(|header| {
            let frame = bytes.get(..header.frame_bytes());
            frame.is_some_and(|frame| whole(frame, &header))
        });
        prop_assert!(!unnoticed);
    }
}
