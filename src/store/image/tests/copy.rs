//! A copy of the image is the image of its beginning, whatever is flushed meanwhile.
//!
//! Owns: tests of `copy.rs`. Promises: parts and slices are small, so that a copy has many steps. Must not: copy a log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::toy::{Model, cell, noise, put};
use super::{check, flush, open, tiny};
use crate::image::{Error, Image, Options};
use tideline_base::ids::Position;

fn rows(from: u32, count: u32, bytes: usize) -> BTreeMap<Vec<u8>, super::Entry> {
    let row = |row: u32| {
        let value = vec![row as u8; bytes];
        (format!("k{row:06}").into_bytes(), put(&cell(1, &value)))
    };
    (from..from + count).map(row).collect()
}

fn problems(image: &Image) -> Vec<String> {
    let mut told = Vec::new();
    image
        .verify(&mut |problem| told.push(format!("{}: {}", problem.place, problem.what)))
        .unwrap();
    told
}

#[test]
fn a_copy_is_what_there_was_at_its_beginning_with_a_merge_half_done_and_flushes_beside() {
    let home = tempfile::tempdir().unwrap();
    let image = open(&home.path().join("image"), tiny());
    image.set_mark("whose it is").unwrap();
    let mut model = Model::default();
    for turn in 0..4 {
        flush(&image, &mut model, rows(turn * 40, 90, 300));
    }
    flush(&image, &mut model, rows(1_000, 3, 70_000));
    for _ in 0..4 {
        assert!(image.compact(0, &|_| None).unwrap().more);
    }
    let (covered, mut later) = (image.covered(), Model::default());
    let folder = home.path().join("copy");
    let mut slices = 0;
    let copied = image.copy(&folder, (u64::MAX, &|| true), &mut |_| {
        slices += 1;
        if slices < 7 {
            flush(&image, &mut later, rows(5_000 + slices, 2, 100));
        }
        // It rests: nothing that is copied goes.
        assert!(!image.compact(0, &|_| None).unwrap().more);
        Ok(())
    });
    assert_eq!(copied.unwrap(), Some(covered));
    assert!(slices > 5 && image.covered() > covered);
    let copy = open(&folder, tiny());
    assert_eq!(copy.covered(), covered);
    assert_eq!(copy.mark().unwrap().as_deref(), Some("whose it is"));
    check(&copy, &model, 0);
    assert_eq!(problems(&copy), Vec::<String>::new());
    // What was half done goes on there, and here.
    for image in [&copy, &image] {
        while image.compact(0, &|_| None).unwrap().more {}
    }
    check(&copy, &model, 0);
    flush(&copy, &mut model, rows(0, 30, 10));
    check(&copy, &model, 0);
}

#[test]
fn a_copy_that_is_not_what_was_read_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let image = open(&home.path().join("image"), tiny());
    let value = noise(7, 300);
    let row = (b"key".to_vec(), put(&cell(1, &value)));
    flush(&image, &mut Model::default(), BTreeMap::from([row]));
    let folder = home.path().join("copy");
    let mut is_bent = false;
    let copied = image.copy(&folder, (u64::MAX, &|| true), &mut |_| {
        let file = folder.join("data.mdb");
        let bytes = fs::read(&file)?;
        if let Some(at) = bytes.windows(300).position(|bytes| bytes == value) {
            is_bent = true;
            let file = File::options().write(true).open(file)?;
            file.write_all_at(&[!value[0]], at as u64)?;
        }
        Ok(())
    });
    assert!(is_bent && matches!(copied, Err(Error::Damaged(_))));
}

#[test]
fn a_copy_ends_when_it_is_told_to_and_when_merges_cannot_wait() {
    let home = tempfile::tempdir().unwrap();
    let options = Options {
        level0_slow_runs: 4,
        ..tiny()
    };
    let image = open(&home.path().join("image"), options);
    let mut model = Model::default();
    flush(&image, &mut model, rows(0, 400, 300));
    let told = image.copy(&home.path().join("one"), (u64::MAX, &|| true), &mut |_| {
        Err(io::Error::other("enough"))
    });
    assert!(matches!(told, Err(Error::Io(error)) if error.to_string() == "enough"));
    let mut turn = 0;
    let copied = image.copy(&home.path().join("two"), (u64::MAX, &|| true), &mut |_| {
        turn += 1;
        if turn == 1 {
            for turn in 0..5 {
                flush(&image, &mut model, rows(turn * 10, 40, 300));
            }
            while image.compact(0, &|_| None).unwrap().more {}
        }
        Ok(())
    });
    assert_eq!(copied.unwrap(), None);
    let copied = image.copy(
        &home.path().join("three"),
        (u64::MAX, &|| true),
        &mut |_| Ok(()),
    );
    assert_eq!(copied.unwrap(), Some(Position(6)));
    check(&open(&home.path().join("three"), tiny()), &model, 0);
}

#[test]
fn the_second_reading_of_the_last_part_ends_when_it_is_told_to() {
    let home = tempfile::tempdir().unwrap();
    let image = open(&home.path().join("image"), tiny());
    flush(&image, &mut Model::default(), rows(0, 400, 300));
    let mut slices = 0;
    let copied = image.copy(&home.path().join("one"), (u64::MAX, &|| true), &mut |_| {
        slices += 1;
        Ok(())
    });
    assert_eq!(copied.unwrap(), Some(image.covered()));
    // Told when all is copied, and only the last part is still to be read.
    let goes_on = AtomicBool::new(true);
    let asked = || goes_on.load(Ordering::SeqCst);
    let mut left = slices;
    let copied = image.copy(&home.path().join("two"), (u64::MAX, &asked), &mut |_| {
        left -= 1;
        goes_on.store(left > 0, Ordering::SeqCst);
        Ok(())
    });
    assert_eq!(left, 0);
    assert!(matches!(copied, Err(Error::Io(error)) if error.to_string() == "it was ended"));
}
