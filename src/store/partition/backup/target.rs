//! The data directory that a restore makes.
//!
//! Owns: what there was before, and what is removed when the restore fails. Promises: nothing of another's is removed.
//! Must not: know what is restored.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::super::directory::manifest::RESTORE_STAGING;
use super::BackupError;
use super::place::folder;

/// What is made at a path; removed when it is dropped before it is done.
pub(super) struct Target {
    /// The data directory.
    pub(super) data: PathBuf,
    /// Whether there was nothing there.
    is_new: bool,
    /// Where the backup is fetched to.
    staging: Option<PathBuf>,
    /// Whether it is locked: what is there is ours.
    pub(super) is_ours: bool,
    pub(super) is_done: bool,
}

impl Target {
    /// Nothing is made yet. Refuses what is not empty.
    pub(super) fn begin(data: &Path) -> Result<Target, BackupError> {
        Ok(Target {
            data: data.to_owned(),
            is_new: empty(data)?,
            staging: None,
            is_ours: false,
            is_done: false,
        })
    }

    /// Makes the folder that a backup is fetched to, which keeps another restore away.
    pub(super) fn stage(&mut self) -> Result<PathBuf, BackupError> {
        let staging = self.data.join(RESTORE_STAGING);
        let whole = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.data);
        let made = whole.and_then(|()| folder(&staging));
        made.map_err(|error| BackupError::io("make", &staging, error))?;
        self.staging = Some(staging.clone());
        Ok(staging)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let removed = match (self.is_ours, &self.staging) {
            (true, _) if self.is_new => fs::remove_dir_all(&self.data),
            (true, _) => clear(&self.data),
            (false, Some(staging)) => {
                fs::remove_dir_all(staging).and_then(|()| match self.is_new {
                    true => fs::remove_dir(&self.data),
                    false => Ok(()),
                })
            }
            (false, None) => Ok(()),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, data = %self.data.display(), "what was restored could not be removed again");
            }
            _ => {}
        }
    }
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
