//! What is kept of a damaged image.
//!
//! Owns: tests with two runs, of which the newer one is damaged, and with pages that lead to others. Promises: nothing
//! that is handed out is older than what the image had. Must not: be the only such tests:
//! `tests/python/test_repair_with_loss.py` does it to a server's directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::Image;
use super::damage::flip;
use super::toy::{Cells, Model, cell, decode, encode, noise, put, tombstone};
use super::{flush, open, tiny};
use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::Position;

fn key(row: u8) -> Vec<u8> {
    format!("row{row:03}").into_bytes()
}

fn old(row: u8) -> Cells {
    cell(0, &noise(1_000 + u32::from(row), 80))
}

/// A run at position 1, and one at position 2 that changes some of its rows and deletes one.
fn filled(dir: &Path) -> BTreeMap<Vec<u8>, Cells> {
    let image = open(dir, tiny());
    let mut model = Model::default();
    let old = (0..120).map(|row| (key(row), put(&old(row)))).collect();
    flush(&image, &mut model, old);
    let mut new: BTreeMap<_, _> = (40..80)
        .map(|row| (key(row), put(&cell(0, &noise(u32::from(row), 80)))))
        .collect();
    new.insert(key(50), put(&cell(0, b"newer than the other")));
    new.insert(key(60), tombstone());
    flush(&image, &mut model, new);
    model.visible(0)
}

/// What is kept, and how many places are lost; the log goes back to `log_first` and says `told`.
fn kept(
    image: &Image,
    log_first: u64,
    told: &[(Vec<u8>, Vec<u8>)],
) -> (BTreeMap<Vec<u8>, Cells>, usize) {
    let mut salvage = image.salvage(Position(log_first)).unwrap();
    for (key, value) in told {
        salvage.note(&KeyedEntry {
            key,
            kind: EntryKind::Put,
            value,
        });
    }
    let rows = salvage.rows().map(|row| row.unwrap());
    let rows = rows.map(|(key, entry)| (key.to_vec(), decode(&entry.value)));
    (rows.collect(), salvage.gaps().len())
}

#[test]
fn an_older_state_is_nobodys_word_unless_the_log_says_that_it_is_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let visible = filled(dir.path());
    let what = b"newer than the other";
    // Older states of the page have it, too.
    assert!(flip(dir.path(), what) > 1);
    let image = open(dir.path(), tiny());
    let (without, gaps) = kept(&image, 9, &[]);
    assert_eq!(gaps, 1);
    // With the row go those that share its block, and no others.
    let is_lost = |row: &u8| visible.contains_key(&key(*row)) && !without.contains_key(&key(*row));
    let lost: Vec<u8> = (0..120).filter(is_lost).collect();
    assert!(
        lost.contains(&50) && lost.len() < 20 && lost[0] >= 40,
        "{lost:?}"
    );
    assert!(
        without
            .iter()
            .all(|(key, cells)| visible.get(key) == Some(cells))
    );
    let told = lost
        .iter()
        .map(|row| (key(*row), encode(&visible[&key(*row)]).to_vec()));
    let told: Vec<_> = told.collect();
    assert_eq!(kept(&image, 2, &told), (visible.clone(), 0));
    // The log has all of the run, and the run had nothing there.
    let mut older = visible;
    older.extend(lost.iter().map(|row| (key(*row), old(*row))));
    assert_eq!(kept(&image, 2, &[]), (older, 0));
}

#[test]
fn rows_are_found_where_no_page_leads_to_them_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let visible = filled(dir.path());
    let whole = fs::read(dir.path().join("data.mdb")).unwrap();
    let (mut all, mut some) = (0, 0);
    for page in 2..whole.len() / 4096 {
        let copy = tempfile::tempdir().unwrap();
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
        fs::write(copy.path().join("data.mdb"), bytes).unwrap();
        let Ok(image) = Image::open(copy.path(), tiny(), super::toy::Toy::rules()) else {
            continue;
        };
        let mut told = 0;
        image.verify(&mut |_| told += 1).unwrap();
        let (rows, gaps) = kept(&image, 9, &[]);
        assert!(
            rows.iter()
                .all(|(key, cells)| visible.get(key) == Some(cells)),
            "page {page}"
        );
        assert!(gaps > 0 || rows == visible, "page {page}");
        all += usize::from(told > 0 && gaps == 0);
        some += usize::from(gaps > 0);
    }
    assert!(all > 0 && some > 0, "{all} {some}");
}
