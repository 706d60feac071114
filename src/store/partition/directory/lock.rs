//! `lock`: the file by which one process has a data directory for itself.
//!
//! Owns: the file. Promises: a directory that another process has is refused; the system gives the lock back when its
//! holder ends, however that was. Must not: look at anything else in the directory.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::super::OpenError;

pub(in super::super) const LOCK: &str = "lock";

pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
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
    super::refuse_network(path)?;
    lock(path)
}

/// For who only reads. `None`: there is no lock, so nobody has served this, a copy perhaps.
pub(super) fn lock_to_look(path: &Path) -> Result<Option<File>, OpenError> {
    let name = path.join(LOCK);
    match File::open(&name) {
        Ok(file) => hold(path, file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::from_io("open", &name, error)),
    }
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
