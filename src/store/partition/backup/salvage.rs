//! An image made anew of what can still be read of a damaged one: with a loss, which is named.
//!
//! Owns: which image and log that is. Promises: the new image has the newest state of each row, or does not have the
//! row; what it lacks is told before it is made. Must not: decide what becomes of what is lost; the layers above do,
//! and have done it when [`make`] is called.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::directory::inspection::Inspection;
use super::super::directory::partition_folder;
use super::super::memory::memtable::Memtable;
use super::super::{ImageOptions, OpenError, Rules, View};
use super::BackupError;
use crate::image::{Error, Gap, Image, Salvage};
use crate::log::{self, LocalStorage};
use tideline_base::clock::Clock;
use tideline_base::ids::{PartitionId, Position};

/// What a partition's image has lost.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The partition.
    pub partition: PartitionId,
    /// Where; what the log tells is not lost.
    pub gaps: Vec<Gap>,
    /// What the image covers: what began behind it has lost nothing.
    pub covered: Position,
    /// Rows of runs that can't be read, older versions of the same row counted again.
    pub rows: u64,
}

/// Where a damaged image is: a repair that was interrupted may have put it aside.
pub(super) fn damaged_image(data: &Path, id: PartitionId) -> PathBuf {
    let folder = partition_folder(data, id);
    match folder.join("image").exists() {
        true => folder.join("image"),
        false => folder.join("image.damaged"),
    }
}

fn open(data: &Path, id: PartitionId, rules: &Arc<dyn Rules>) -> Result<Image, Error> {
    let options = ImageOptions {
        read_only: true,
        ..ImageOptions::default()
    };
    Image::open(&damaged_image(data, id), options, Arc::clone(rules))
}

fn log_of(data: &Path, id: PartitionId) -> Result<LocalStorage, BackupError> {
    let folder = partition_folder(data, id).join("log");
    LocalStorage::read_only(&folder).map_err(|error| BackupError::io("open", &folder, error))
}

/// Finds out what can be read of a partition's image, with what the log tells of the rest. `log_first` is the first
/// batch that the log has.
fn read(
    data: &Path,
    (id, log_first): (PartitionId, Position),
    rules: &Arc<dyn Rules>,
) -> Result<(Image, Salvage), BackupError> {
    let opened = open(data, id, rules);
    let opened = opened.and_then(|image| Ok((image.salvage(log_first)?, image)));
    let (mut salvage, image) = opened.map_err(|error| {
        BackupError::refused(format!(
            "nothing of the image of partition {id} can be read: {error}; restore the newest backup: nothing was changed"
        ))
    })?;
    let storage = log_of(data, id)?;
    let covered = salvage.covered();
    log::verify(&storage, covered, &mut |frame| {
        if frame.position <= covered {
            frame.entries().for_each(|entry| salvage.note(&entry));
        }
    })?;
    Ok((image, salvage))
}

/// What is lost of a partition. Refuses an image of another one: its rows would all pass.
pub(super) fn look(
    data: &Path,
    of: (PartitionId, Position),
    inspection: &Inspection,
    rules: &Arc<dyn Rules>,
) -> Result<Loss, BackupError> {
    let (image, salvage) = read(data, of, rules)?;
    let loss = Loss {
        partition: of.0,
        gaps: salvage.gaps(),
        covered: salvage.covered(),
        rows: salvage.lost_rows(),
    };
    // No image is open twice.
    drop((salvage, image));
    inspection.owns(of.0, &damaged_image(data, of.0))?;
    Ok(loss)
}

/// Gives key and value of each row that is not lost, in order, to `each`.
pub(super) fn rows(
    data: &Path,
    of: (PartitionId, Position),
    rules: &Arc<dyn Rules>,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), BackupError> {
    let (_image, salvage) = read(data, of, rules)?;
    for row in salvage.rows() {
        let (key, entry) = row.map_err(OpenError::from)?;
        each(&key, &entry.value);
    }
    Ok(())
}

/// Gives the keys that the log has behind the image to `each`.
pub(super) fn keys_behind(
    data: &Path,
    (id, covered): (PartitionId, Position),
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), BackupError> {
    let storage = log_of(data, id)?;
    log::verify(&storage, covered, &mut |frame| {
        if frame.position > covered {
            frame.entries().for_each(|entry| each(entry.key));
        }
    })?;
    Ok(())
}

/// What the damaged partition shows, with the log behind its image; reads of what is damaged fail.
pub(super) fn view(
    data: &Path,
    id: PartitionId,
    rules: &Arc<dyn Rules>,
) -> Result<View, BackupError> {
    let image = open(data, id, rules).map_err(OpenError::from)?;
    let storage = log_of(data, id)?;
    let covered = image.covered();
    let memtable = Memtable::new(covered, Clock::system().now_ms(), 0);
    let report = log::verify(&storage, covered, &mut |frame| {
        if frame.position > covered {
            memtable.insert(frame, &**rules);
        }
    })?;
    let (last, memtables) = (report.last.max(covered), Arc::new(vec![Arc::new(memtable)]));
    let view = View::new(last, memtables, &image, Arc::clone(rules));
    Ok(view.map_err(|error| OpenError::Damaged { text: error.0 })?)
}

/// Fills a new image with what can be read of a partition's.
pub(super) fn make(
    data: &Path,
    of: (PartitionId, Position),
    new: &Image,
    rules: &Arc<dyn Rules>,
) -> Result<(), BackupError> {
    let (image, salvage) = read(data, of, rules)?;
    let mut failed = Ok(());
    let mut rows = salvage.rows().map_while(|row| {
        let row = row.map_err(|error| failed = Err(error));
        row.ok()
    });
    let covered = salvage.covered();
    if covered > Position::ZERO {
        new.load(covered, image.oldest_level(), &mut rows)
            .map_err(OpenError::from)?;
    }
    drop(rows);
    Ok(failed.map_err(OpenError::from)?)
}
