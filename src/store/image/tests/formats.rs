//! The formats: what is written comes back, and arbitrary bytes never panic.
//!
//! Owns: property tests of stored rows, pieces, the catalog and filters as bytes. Promises: nothing here touches a
//! file. Must not: repeat the layouts; they are drawn in `rows/row.rs` and `catalog/catalog_codec.rs`.

use proptest::prelude::*;

use super::super::catalog::catalog_codec;
use super::super::catalog::{Catalog, Job, Run};
use super::super::rows::filter;
use super::super::rows::filter::{Budget, Filter};
use super::super::rows::keys::StoredKey;
use super::super::rows::row;
use super::super::rows::row::{NewRow, Shape, Stored, decode_piece, encode_piece};
use tideline_base::entry::EntryKind;
use tideline_base::ids::Position;

proptest! {
    #[test]
    fn rows_come_back_in_their_run_only(key in prop::collection::vec(any::<u8>(), 1..600), value: Vec<u8>, run: u64) {
        let stored_key = StoredKey::new(&key, 7);
        let mut out = Vec::new();
        NewRow {
            run,
            key: &key,
            rest: stored_key.rest(),
            kind: EntryKind::Delta,
            shape: Shape::Whole,
            pieced: None,
            bytes: &value,
        }
        .encode(&mut out);
        let stored = Stored::parse(&out).unwrap();
        prop_assert!(stored.is_sound(run, stored_key.bytes()));
        prop_assert!(!stored.is_sound(run ^ 1, stored_key.bytes()));
        prop_assert_eq!(stored.body(), &value[..]);
        let key = row::piece_key(3, 4);
        encode_piece(&mut out, run, &key, &value);
        prop_assert_eq!(decode_piece(&out, run, &key), Some(&value[..]));
        prop_assert_eq!(decode_piece(&out, run ^ 1, &key), None);
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes: Vec<u8>) {
        if let Some(stored) = Stored::parse(&bytes) {
            prop_assert!(!stored.is_sound(1, b"key") || bytes.len() > 5);
            let _ = stored.pieced();
        }
        prop_assert_eq!(decode_piece(&bytes, 1, b"key"), None);
        let _ = Filter::load(&bytes, &Budget::new(1 << 20));
        prop_assert!(catalog_codec::decode_version(&bytes).is_err());
        // With a right checksum, so that the reading itself is tried.
        let crc = crc32c::crc32c(&bytes).to_be_bytes();
        bytes.extend_from_slice(&crc);
        let _ = catalog_codec::decode_version(&bytes);
        let _ = catalog_codec::decode(&bytes, &|_| None);
    }

    #[test]
    fn filters_hold_what_was_put(hashes: Vec<u64>) {
        let stored = filter::build(&hashes);
        let budget = Budget::new(stored.len() as u64);
        let filter = Filter::load(&stored, &budget).unwrap();
        prop_assert!(hashes.iter().all(|&hash| filter.may_hold(hash)));
        prop_assert!(Filter::load(&stored, &budget).is_none(), "no memory for a second one");
        drop(filter);
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_catalog_comes_back() {
    let run = |number| Run {
        number,
        level: 3,
        from: Position(number),
        to: Position(number + 1),
        parts: Vec::new(),
    };
    let catalog = Catalog {
        version: 5,
        covered: Position(9),
        next_run: 12,
        runs: vec![run(8).into(), run(7).into()],
        jobs: vec![Job {
            level: 3,
            inputs: vec![8, 7],
            output: run(11),
            growing: true,
            passed: Some("here".into()),
        }],
    };
    let bytes = catalog_codec::encode(&catalog);
    let back = catalog_codec::decode(&bytes, &|_| None).unwrap();
    assert_eq!(catalog_codec::encode(&back), bytes);
    assert_eq!((back.version, back.covered), (5, Position(9)));
    assert_eq!(back.jobs[0].passed.as_deref(), Some(&b"here"[..]));
    let version = catalog_codec::encode_version(5);
    assert_eq!(catalog_codec::decode_version(&version).unwrap(), 5);
}
