//! Frames and drafts by themselves.
//!
//! Owns: drafts against a plain list; frames that are not whole. Promises: what a draft becomes comes back, and any
//! flipped bit is noticed. Must not: know where frames lie.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::frame::*;
use super::super::squeeze::unfold;
use super::*;
use crate::squeeze::varint::put_varint;

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
            let wanted = Header { format: read.format, payload_bytes: bytes.len() - HEADER_BYTES, crc: read.crc, ..header(number) };
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

    /// Batches of rows that say the same again and again, at places of their own.
    #[test]
    fn what_is_squeezed_comes_back(
        rows in prop::collection::vec(
            (0u8..4, prop::collection::vec(0usize..6, 0..6), prop::collection::vec(0usize..6, 0..9), 0usize..40),
            0..40,
        ),
    ) {
        let pieces: [&[u8]; 6] = [b"a name of a timeline", b"$id", &[0; 40], b"user-17", b"\x01", &[7; 3]];
        let join = |chosen: &[usize]| chosen.iter().flat_map(|at| pieces[*at]).copied().collect::<Vec<u8>>();
        let mut draft = Draft::default();
        for (number, (table, key, value, new)) in rows.iter().enumerate() {
            let key = [&[0, 0, 0, *table][..], &join(key), &number.to_be_bytes()[8 - number % 8..]].concat();
            let value = [join(value), (0..*new).map(|at| (at * 37 + number) as u8).collect()].concat();
            draft.push(KeyedEntry { key: &key, kind: EntryKind::Put, value: &value });
            draft.change(&[1, *table, number as u8]);
        }
        let frame = sealed(5, &mut draft);
        let bytes = Bytes::copy_from_slice(frame.encoded());
        let read = Header::parse(&bytes).unwrap();
        prop_assert!(read.readable() && whole(&bytes, &read));
        let decoded = decode(&bytes, &read).unwrap();
        prop_assert!(frame.entries().eq(decoded.entries()) && frame.changes().eq(decoded.changes()));
        prop_assert_eq!(decoded.encoded(), &bytes);
    }

    #[test]
    fn arbitrary_bytes_unfold_to_what_is_allowed_or_nothing(
        bytes in prop::collection::vec(prop_oneof![0u8..20, any::<u8>()], 0..60),
    ) {
        prop_assert!(unfold(&bytes, 1_000).is_none_or(|plain| plain.len() <= 1_000));
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

#[test]
fn messages_take_two_thirds_in_the_log() {
    let (mut draft, mut plain) = (Draft::default(), 0);
    for number in 0..100u64 {
        let name = format!("\x30a-timeline/{:09}\0\x01", number * 7919);
        let id = format!("client-{}-{:09}", number % 50, number);
        // What no other row has, as a message's text.
        let text: String = (0..200)
            .map(|at| char::from(b'a' + ((at * at + at * number) % 23) as u8))
            .collect();
        let message = format!("head of a row\x03$id{id}\x04text{text}");
        let rows = [
            (format!("\0\0\0\x03{name}{number:04}"), message),
            (
                format!("\0\0\0\x04{name}\x30\0\x01\x30{id}\0\x01"),
                format!("head of a row\x05$hash{number:016x}"),
            ),
            (
                format!("\0\0\0\x01{name}"),
                format!("head of a row\x02$at1790000000000\x02$inc{number:04}\x02$seq"),
            ),
        ];
        for (key, value) in &rows {
            plain += key.len() + value.len();
            let (key, value, kind) = (key.as_bytes(), value.as_bytes(), EntryKind::Put);
            draft.push(KeyedEntry { key, kind, value });
        }
    }
    let bytes = sealed(1, &mut draft).bytes();
    assert!(bytes * 3 < plain * 2, "{bytes} of {plain}");
}

#[test]
fn a_small_frame_does_not_unfold_into_gigabytes() {
    // One literal, and so many copies of it.
    let of = |bytes: usize| {
        let mut squeezed = Vec::new();
        put_varint(&mut squeezed, bytes);
        squeezed.extend_from_slice(&[0x1f, 7]);
        put_varint(&mut squeezed, bytes - 1 - 18);
        squeezed.push(1);
        squeezed
    };
    assert_eq!(unfold(&of(1_000), 1_000), Some(vec![7; 1_000]));
    assert_eq!(unfold(&of(1_001), 1_000), None);
    // It says less than it unfolds to, and more.
    for said in [900u16, 1_100] {
        let mut bent = Vec::new();
        put_varint(&mut bent, usize::from(said));
        bent.extend_from_slice(&of(1_000)[2..]);
        assert_eq!(unfold(&bent, FRAME_BYTES_MAX), None);
    }
    let mut frame = sealed(3, &mut Draft::default()).encoded()[..HEADER_BYTES].to_vec();
    frame[4] = 2;
    frame.extend_from_slice(&of(1 << 31));
    let header = Header::parse(&frame).unwrap();
    assert!(decode(&Bytes::from(frame), &header).is_none());
}
