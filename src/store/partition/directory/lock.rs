//! `lock`: the file by which one process has a data directory for itself.
//!
//! Owns: the file. Promises: a directory that another process has is refused; the system gives the lock back when its
//! holder ends, however that was; nothing is made on a network file system, where locks can't be relied on, or in a
//! backup, which would not be whole then. Must not: look at anything else in the directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::path::Path;

use super::super::OpenError;
use super::manifest::BACKUP_MANIFEST;
use super::network::refuse_network;

pub(in super::super) const LOCK: &str = "lock";

/// How the list of a backup begins. A file of this name may be another program's.
const BACKUP_BEGINS: [u8; 10] = *br#"{"backup":"#;

/// For who changes the directory.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    refuse_network(path)?;
    if is_in_backup(path) {
        return Err(OpenError::Refused {
            text: format!(
                "{} is in a backup, which other backups may share files with; restore the backup, and use what is \
                 restored",
                path.display()
            ),
        });
    }
    let name = path.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&name)
        .map_err(|error| OpenError::from_io("open", &name, error))?;
    hold(path, file)
}

/// Has a folder, which is made if it is not there, for oneself.
pub(in super::super) fn alone(path: &Path) -> Result<File, OpenError> {
    super::make(path)?;
    lock(path)
}

/// For who only reads. `None`: nobody has served this, a copy perhaps, because there is no lock; or it is in a backup,
/// which nobody serves. What nobody serves may be on a network file system.
pub(super) fn lock_to_look(path: &Path) -> Result<Option<File>, OpenError> {
    if is_in_backup(path) {
        return Ok(None);
    }
    let name = path.join(LOCK);
    match File::open(&name) {
        Ok(file) => {
            refuse_network(path)?;
            hold(path, file).map(Some)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::from_io("open", &name, error)),
    }
}

fn is_in_backup(path: &Path) -> bool {
    let mut begins = [0; BACKUP_BEGINS.len()];
    let list = File::open(path.join("..").join(BACKUP_MANIFEST));
    list.is_ok_and(|mut list| list.read_exact(&mut begins).is_ok() && begins == BACKUP_BEGINS)
}

fn hold(path: &Path, file: File) -> Result<File, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(OpenError::from_io("lock", path, error)),
    }
}
