//! Making a segment's file before it is needed.
//!
//! Owns: files of zeros. Promises: a file is a spare only when all of it is durable; the disk is given back what a
//! failed attempt took; syncs come in slices, so that those of the appending thread wait for a slice at most. Must not:
//! run on the appending thread, or be missed if it does not run: appending then extends its file, more slowly.

use std::io;

use super::super::error::Error;
use super::segment::{is_spare_name, zeros_name};
use super::segments::{ROOM, Segments};
use super::storage::Storage;
use tideline_base::disk;

/// The file while it is being filled.
const UNFINISHED: &str = "unfinished.zeros";

/// Bytes written between two syncs.
const SLICE_BYTES: u64 = 2 * 1024 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Makes a spare if one is wanted; whether one was made.
pub(super) fn prepare(segments: &Segments) -> Result<bool, Error> {
    let Some(bytes) = segments.spare_bytes_wanted() else {
        return Ok(false);
    };
    let storage = segments.storage();
    // What is left belongs to what must be written.
    if storage.left().is_some_and(|left| left / 4 < bytes) {
        return Ok(false);
    }
    // The newest segment's name: no two files of zeros are made during one.
    let name = zeros_name(segments.last_first());
    let made = fill(storage, bytes).and_then(|()| segments.add_spare(UNFINISHED, name));
    let Err(error) = made else {
        return Ok(true);
    };
    // Best effort: what stays is removed by the next attempt.
    let _ = storage.remove(UNFINISHED);
    if disk::is_full(&error, || storage.left()) || disk::is_no_descriptor(&error) {
        return Ok(false);
    }
    Err(Error::io(UNFINISHED, error))
}

/// Sets the room aside that makes room on a full disk, if there is none. A segment that waits to be used again is given
/// up for it.
pub(super) fn keep_room(segments: &Segments) -> Result<(), Error> {
    let storage = segments.storage();
    let Some(bytes) = segments.room_bytes_wanted() else {
        return Ok(());
    };
    let has_left = || storage.left().is_none_or(|left| left >= bytes);
    while !has_left() {
        if !segments.drop_spare()? {
            return Ok(());
        }
    }
    let made = fill(storage, bytes).and_then(|()| segments.add_room(UNFINISHED));
    let Err(error) = made else {
        return Ok(());
    };
    let _ = storage.remove(UNFINISHED);
    if disk::is_full(&error, || storage.left()) || disk::is_no_descriptor(&error) {
        return Ok(());
    }
    Err(Error::io(UNFINISHED, error))
}

/// Gives the disk back what a log keeps for frames to come, because none will. If a crash undoes it, it can be done
/// again.
pub(crate) fn give_up(storage: &dyn Storage) -> Result<(), Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    let is_kept =
        |name: &&String| is_spare_name(name) || [ROOM, UNFINISHED].contains(&name.as_str());
    for name in names.iter().filter(is_kept) {
        storage.remove(name).map_err(|e| Error::io(name, e))?;
    }
    Ok(())
}

fn fill(storage: &dyn Storage, bytes: u64) -> io::Result<()> {
    match storage.remove(UNFINISHED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = storage.create(UNFINISHED)?;
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..count as usize], at)?;
        at += count;
        if at % SLICE_BYTES == 0 {
            file.sync_data()?;
        }
    }
    file.sync_data()
}
