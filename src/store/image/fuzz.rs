//! The image's decoders, for `tests/fuzz`.
//!
//! Owns: how any bytes become pages, records, a catalog, rows, or a whole file. Promises: checksums are made right
//! where they would hide what is behind them. Must not: hand LMDB anything.

use std::path::PathBuf;
use std::sync::LazyLock;

use super::catalog::catalog_codec;
use super::check::file_check;
use super::env::Store;
use super::pages::page::{Content, Data, Kind, PAGE_BYTES, Page, u64_at};
use super::pages::tree::Record;
use super::rows::block;
use super::rows::filter::{Budget, Filter};
use super::rows::row::Stored;
use tideline_base::faults::Decoder;

pub(crate) const TARGETS: &[Decoder] = &[
    ("image_page", page),
    ("image_record", record),
    ("image_catalog", catalog),
    ("image_row", row),
    ("image_block", block),
    ("image_filter", filter),
    ("image_file", file),
];

/// What the pages of an input hold: the begin, as many bytes as the first byte says times 16, and the end of a page.
fn page(input: &[u8]) {
    let Some(([kind, head], bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(PAGE_BYTES)];
    let (begin, end) = bytes.split_at(bytes.len().min(usize::from(*head) * 16));
    let mut whole = vec![0; PAGE_BYTES];
    whole[..begin.len()].copy_from_slice(begin);
    whole[PAGE_BYTES - end.len()..].copy_from_slice(end);
    let content = match kind % 5 {
        0 => Content::Rows(7),
        1 => Content::Loaded,
        2 => Content::Values,
        3 => Content::Records,
        _ => Content::Lists,
    };
    let Ok(page) = Page::parse(u64_at(&whole, 0), whole.into(), content) else {
        return;
    };
    for at in 0..page.count() {
        if page.kind == Kind::Branch {
            page.child(at);
            continue;
        }
        match page.data(at) {
            Data::Here(range) => assert_eq!(page.bytes(range.clone()), page.shared(range)),
            Data::Overflow { .. } => {}
        }
        if content != Content::Lists {
            assert_eq!(page.find(page.key(at)), at);
        }
    }
}

fn record(input: &[u8]) {
    if let Some(record) = Record::parse(input) {
        assert_eq!(record.root.is_none(), record.depth == 0);
    }
    let sealed = sealed(input);
    for bytes in [input, &sealed] {
        if let Ok((format, version)) = catalog_codec::decode_version(bytes)
            && format == catalog_codec::FORMAT
        {
            assert_eq!(catalog_codec::encode_version(version), bytes);
        }
    }
}

/// With its checksum behind it.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32c::crc32c(bytes).to_be_bytes()].concat()
}

fn catalog(input: &[u8]) {
    let empty = &*EMPTY;
    let slot = |slot| (slot < 1_000).then_some(empty.store.catalog);
    for format in 1..=catalog_codec::FORMAT {
        let Ok(catalog) = catalog_codec::decode(&sealed(input), format, &slot) else {
            continue;
        };
        let encoded = catalog_codec::encode(&catalog);
        let again = catalog_codec::decode(&encoded, catalog_codec::FORMAT, &slot);
        let again = again.expect("what was encoded");
        assert_eq!(catalog_codec::encode(&again), encoded);
    }
}

fn row(input: &[u8]) {
    if let Some(stored) = Stored::parse(input) {
        let _ = stored.is_sound(1, b"key") | stored.is_sound(1, &[0; 500]);
        let rest = stored.rest.map_or(0, <[u8]>::len);
        assert!(rest + stored.body().len() < input.len());
        if let Some(pieced) = stored.pieced() {
            assert_eq!(pieced.head, &stored.body()[12..]);
        }
    }
}

/// A block's content, under a key of as many bytes as the first one says.
fn block(input: &[u8]) {
    let Some((key_bytes, content)) = input.split_first() else {
        return;
    };
    let key = vec![7; usize::from(*key_bytes)];
    if let Some(rows) = block::unfolded(&key, content) {
        let rows = Page::of_block(7, rows, Content::Blocks(7));
        for at in 0..rows.count() {
            if let Data::Here(range) = rows.data(at) {
                assert_eq!(rows.bytes(range.clone()), rows.shared(range));
            }
            assert!(rows.find(rows.key(at)) <= rows.count());
        }
    }
}

fn filter(input: &[u8]) {
    let budget = Budget::new(1 << 16);
    if let Some(filter) = Filter::load(input, &budget) {
        assert!(budget.used() == input.len() as u64);
        let _ = filter.may_hold(7);
    }
    assert_eq!(budget.used(), 0);
}

/// A new image's file with places of it changed: each time three bytes, page and place and value.
fn file(input: &[u8]) {
    let empty = &*EMPTY;
    let mut bytes = empty.file.clone();
    let pages = bytes.len() / PAGE_BYTES;
    for [page, low, high, value] in input.as_chunks::<4>().0 {
        let place = usize::from(u16::from_be_bytes([*high, *low])) % PAGE_BYTES;
        bytes[usize::from(*page) % pages * PAGE_BYTES + place] = *value;
    }
    if input.len() % 4 == 3 {
        bytes.truncate(usize::from(input[0]) * bytes.len() / 255);
    }
    let path = empty.folder.join("changed.mdb");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, &bytes).expect("a place for a small file");
    if let Ok(Some((pages, free))) = file_check::check(&path, |_| true, super::is_sound) {
        assert!((0..2).all(|page| !free.has(page)));
        assert!(pages.count().is_ok());
    }
}

/// An image without rows, for all that needs one.
struct Empty {
    folder: PathBuf,
    file: Vec<u8>,
    store: Store,
}

static EMPTY: LazyLock<Empty> = LazyLock::new(|| {
    let name = format!("tideline-fuzz-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let store = Store::open(
        &folder,
        16 << 20,
        super::env::Access::Write,
        super::is_sound,
    )
    .expect("a place for it");
    store.add_slots().expect("room for them");
    let file = std::fs::read(folder.join("data.mdb")).expect("it was made");
    Empty {
        folder,
        file,
        store,
    }
});
