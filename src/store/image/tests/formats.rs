//! The formats: what is written comes back, and arbitrary bytes never panic.
//!
//! Owns: property tests of stored rows, blocks, pieces, the catalog and filters as bytes. Promises: nothing here
//! touches a file. Must not: repeat the layouts; they are drawn in `rows/row.rs`, `rows/block.rs` and
//! `catalog/catalog_codec.rs`.

use proptest::prelude::*;

use super::super::catalog::catalog_codec;
use super::super::catalog::{Catalog, Job, Run};
use super::super::pages::page::{Content, Data, Page};
use super::super::rows::block;
use super::super::rows::block::{BlockWriter, NODE_HEAD, NODE_MAX};
use super::super::rows::filter;
use super::super::rows::filter::{Budget, Filter};
use super::super::rows::row;
use super::super::rows::row::{NewRow, Shape, Stored, decode_piece, encode_piece};
use tideline_base::entry::EntryKind;
use tideline_base::ids::Position;

fn delta(bytes: &[u8]) -> NewRow<'_> {
    NewRow {
        rest: None,
        kind: EntryKind::Delta,
        shape: Shape::Whole,
        pieced: None,
        bytes,
    }
}

proptest! {
    #[test]
    fn rows_come_back_in_their_run_only(
        rows in prop::collection::btree_map(prop::collection::vec(97u8..100, 1..40), prop::collection::vec(any::<u8>(), 0..300), 1..60),
        run: u64,
    ) {
        let (mut writer, mut value) = (BlockWriter::new(), Vec::new());
        let mut blocks = Vec::new();
        let mut put = |key: &[u8], block: &[u8]| blocks.push((key.to_vec(), block.to_vec()));
        for (key, bytes) in &rows {
            delta(bytes).encode(&mut value);
            if !writer.add(key, &value) {
                writer.take(run, &mut put);
                prop_assert!(writer.add(key, &value), "an empty block takes any row");
            }
        }
        writer.take(run, &mut put);
        let mut left = rows.iter();
        for (key, block) in &blocks {
            prop_assert!(NODE_HEAD + key.len() + block.len() <= NODE_MAX);
            for (run, key) in [(run ^ 1, key.clone()), (run, [key, &b"k"[..]].concat())] {
                prop_assert!(block::open(run, &key, block).is_none());
            }
            let page = Page::of_block(7, block::open(run, key, block).unwrap(), Content::Blocks(run));
            for at in 0..page.count() {
                let (key, bytes) = left.next().unwrap();
                prop_assert_eq!((page.key(at), page.find(key)), (&key[..], at));
                let Data::Here(place) = page.data(at) else { panic!("a row is in its block") };
                let stored = Stored::parse(page.bytes(place)).unwrap();
                prop_assert_eq!((stored.body(), stored.kind), (&bytes[..], EntryKind::Delta));
                prop_assert!(!stored.is_sound(run, key), "it has no checksum of its own");
            }
        }
        prop_assert!(left.next().is_none());
    }

    #[test]
    fn pieces_come_back_in_their_run_only(value: Vec<u8>, run: u64) {
        let (mut out, key) = (Vec::new(), row::piece_key(3, 4));
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
        prop_assert!(block::open(1, b"key", &bytes).is_none());
        let _ = block::unfolded(b"key", &bytes);
        let _ = Filter::load(&bytes, &Budget::new(1 << 20));
        prop_assert!(catalog_codec::decode_version(&bytes).is_err());
        // With a right checksum, so that the reading itself is tried.
        let crc = crc32c::crc32c(&bytes).to_be_bytes();
        bytes.extend_from_slice(&crc);
        let _ = catalog_codec::decode_version(&bytes);
        for format in 1..=catalog_codec::FORMAT {
            let _ = catalog_codec::decode(&bytes, format, &|_| None);
        }
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
    let back = catalog_codec::decode(&bytes, catalog_codec::FORMAT, &|_| None).unwrap();
    assert_eq!(catalog_codec::encode(&back), bytes);
    assert_eq!((back.version, back.covered), (5, Position(9)));
    assert_eq!(back.jobs[0].passed.as_deref(), Some(&b"here"[..]));
    let version = catalog_codec::encode_version(5);
    let decoded = catalog_codec::decode_version(&version).unwrap();
    assert_eq!(decoded, (catalog_codec::FORMAT, 5));
}
