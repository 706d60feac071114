//! A data directory made of a backup, as of its end or of a time before.
//!
//! Owns: the order of its steps. Promises: a backup is read whole before anything is made; the directory counts once
//! all is there, by its `directory.toml`, and a restore that fails removes what it made; it has a new history, so that
//! clients which saw more than there is now are told by its epochs. Must not: change the backup, or restore over
//! anything.
//!
//! A time cuts logs, and no image can be cut: so the earliest one is that of the last batch that an image covers.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::directory::identity;
use super::super::directory::manifest::{MANIFEST, Manifest};
use super::super::directory::seal::Seal;
use super::super::directory::{Directory, partition_folder};
use super::super::{ImageOptions, OpenError, Rules};
use super::manifest::{BackupManifest, BackupPartition};
use super::place::{check_room, sync_parent, within};
use super::progress::Progress;
use super::{BACKUP_DATA, BackupError, time_text};
use crate::image::Image;
use crate::log::{self, LocalStorage, LogCopy, segment_firsts};
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// A directory that was made.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Its history, a new one.
    pub history: HistoryId,
    /// The partitions, each with the last position of its log.
    pub partitions: Vec<(PartitionId, Position)>,
    /// What was restored.
    pub manifest: BackupManifest,
}

/// Makes the data directory `data` of a backup. With `to_ms` nothing that was committed later is in it. Blocks.
pub fn restore(
    source: &Path,
    data: &Path,
    to_ms: Option<u64>,
    rules: &Arc<dyn Rules>,
) -> Result<Restored, BackupError> {
    let manifest = BackupManifest::read(source)?;
    if let Some(to_ms) = to_ms {
        check_time(&manifest, to_ms)?;
    }
    let is_new = empty(data)?;
    if within(data, source) {
        return Err(BackupError::refused(format!(
            "{} is in the backup; name a folder elsewhere",
            data.display()
        )));
    }
    manifest.check_files(source, &Progress::new(0))?;
    let below = source.join(BACKUP_DATA);
    let mut described = Manifest::read(&below.join(MANIFEST))?;
    described.origin.history = HistoryId::random();
    let mut restore = Restore {
        source: below,
        data: data.to_owned(),
        is_new,
        directory: Directory::restoring(data, described)?,
        is_done: false,
    };
    let (history, partitions) = restore.run(&manifest, to_ms, rules)?;
    restore.is_done = true;
    Ok(Restored {
        history,
        partitions,
        manifest,
    })
}

/// Whether there is nothing yet at a path. Refuses what is not empty.
fn empty(data: &Path) -> Result<bool, BackupError> {
    let entries = match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(|error| BackupError::io("list", data, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| BackupError::io("list", data, error))?;
        // What a fresh ext4 volume holds.
        if entry.file_name() != "lost+found" {
            return Err(BackupError::refused(format!(
                "{} is not empty; name an empty or new directory, or move away what is in it",
                data.display()
            )));
        }
    }
    Ok(false)
}

/// Refuses a time that the backup does not reach.
fn check_time(manifest: &BackupManifest, to_ms: u64) -> Result<(), BackupError> {
    let from_ms = manifest.partitions.iter().map(|one| one.from_ms).max();
    let from_ms = from_ms.unwrap_or(0);
    match to_ms {
        _ if to_ms < from_ms => Err(BackupError::refused(format!(
            "the backup can be restored to a time from {} on, not to {}; take an older backup",
            time_text(from_ms),
            time_text(to_ms)
        ))),
        _ if to_ms > manifest.as_of_ms => Err(BackupError::refused(format!(
            "the backup ends at {}, before {}; take a later one, or leave the time out",
            time_text(manifest.as_of_ms),
            time_text(to_ms)
        ))),
        _ => Ok(()),
    }
}

/// A restore under way, which has the directory for itself; what it made goes when it is dropped before its end.
struct Restore {
    source: PathBuf,
    data: PathBuf,
    is_new: bool,
    /// Locked until all is removed.
    directory: Directory,
    is_done: bool,
}

impl Restore {
    fn run(
        &mut self,
        manifest: &BackupManifest,
        to_ms: Option<u64>,
        rules: &Arc<dyn Rules>,
    ) -> Result<(HistoryId, Vec<(PartitionId, Position)>), BackupError> {
        check_room(&self.data, manifest.bytes())?;
        let below = Path::new(BACKUP_DATA);
        for path in manifest.paths() {
            let Ok(path) = path.strip_prefix(below) else {
                continue;
            };
            let is_log = path.parent().is_some_and(|folder| folder.ends_with("log"));
            let is_cut = to_ms.is_some() && is_log && self.is_live(path);
            if path != Path::new(MANIFEST) && !is_cut {
                self.copy(path)?;
            }
        }
        let mut partitions = Vec::new();
        for one in &manifest.partitions {
            let id = PartitionId(one.partition);
            let last = match to_ms {
                Some(to_ms) => self.cut(one, to_ms)?,
                None => Position(one.position),
            };
            self.mark(id, rules)?;
            partitions.push((id, last));
        }
        Seal::of(&self.data, true)?;
        self.directory.seal()?;
        sync_parent(&self.data).map_err(|error| BackupError::io("sync", &self.data, error))?;
        Ok((self.directory.origin().history, partitions))
    }

    /// Whether a file is of a partition that is served.
    fn is_live(&self, path: &Path) -> bool {
        let mut ids = self.directory.map().ids();
        ids.any(|id| path.starts_with(partition_folder(Path::new(""), id)))
    }

    fn copy(&self, path: &Path) -> Result<(), BackupError> {
        let (from, to) = (self.source.join(path), self.data.join(path));
        let copied = || -> io::Result<()> {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::copy(&from, &to)?;
            let copy = File::open(&to)?;
            copy.set_permissions(Permissions::from_mode(0o600))?;
            copy.sync_all()?;
            let folders = to.ancestors().skip(1);
            for folder in folders.take_while(|folder| folder.starts_with(&self.data)) {
                File::open(folder)?.sync_all()?;
            }
            Ok(())
        };
        copied().map_err(|error| BackupError::io("write", &to, error))
    }

    /// Writes the log of a partition up to a time.
    fn cut(&self, of: &BackupPartition, to_ms: u64) -> Result<Position, BackupError> {
        let at = |data: &Path| partition_folder(data, PartitionId(of.partition)).join("log");
        let (from, to) = (at(&self.source), at(&self.data));
        let opened =
            LocalStorage::read_only(&from).and_then(|from| Ok((from, LocalStorage::new(&to)?)));
        let (from, to) = opened.map_err(|error| BackupError::io("open", &to, error))?;
        let mut copy = LogCopy::new(&to, segment_firsts(&from)?);
        let (mut put, mut is_past) = (Ok(()), false);
        log::verify(&from, Position(of.covered), &mut |frame| {
            // Times do not fall from frame to frame.
            is_past |= frame.commit_ms > to_ms;
            if !is_past && put.is_ok() {
                put = copy.put(frame);
            }
        })?;
        put?;
        Ok(copy.finish(log::identity(&from)?)?)
    }

    /// Says in an image that it is of the new history.
    fn mark(&self, id: PartitionId, rules: &Arc<dyn Rules>) -> Result<(), BackupError> {
        let directory = &self.directory;
        let (folder, log_folder) = (directory.image(id), directory.log(id));
        let storage = LocalStorage::read_only(&log_folder)
            .map_err(|error| BackupError::io("open", &log_folder, error))?;
        let log = log::identity(&storage)?;
        let image = Image::open(&folder, ImageOptions::default(), Arc::clone(rules))
            .map_err(OpenError::from)?;
        identity::set_mark(directory, (id, directory.map()), &image, log)?;
        Ok(())
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let removed = match self.is_new {
            true => fs::remove_dir_all(&self.data),
            false => clear(&self.data),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, data = %self.data.display(), "what was restored could not be removed again");
            }
            _ => {}
        }
    }
}

/// Removes what is in a folder that was empty.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == "lost+found" => {}
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
