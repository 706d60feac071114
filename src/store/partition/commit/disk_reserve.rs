//! Room that a partition keeps on its disk, so that room can be made on a full one: a trim, a deletion, and the flush
//! and the merge that follow need some before they free any.
//!
//! Owns: the file `reserve`, which holds nothing but its place. Promises: it is given back to the disk when something
//! that makes room needs it, and taken anew when there is room; while it is not held, only what makes room is written.
//! Must not: wait. Called by the writer and the flusher.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use tideline_base::disk;

/// The file's name.
pub(in super::super) const RESERVE: &str = "reserve";

/// A partition's reserve.
pub(in super::super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_held: Mutex<bool>,
    /// Something that makes room was let in while there was none.
    is_making_room: AtomicBool,
    /// The log had no room since the flusher last looked.
    is_log_full: AtomicBool,
}

impl Reserve {
    /// The reserve of `bytes` in `folder`; 0 = none. It is not held before [`Reserve::take`].
    pub(in super::super) fn new(folder: &Path, bytes: u64) -> Reserve {
        Reserve {
            path: folder.join(RESERVE),
            bytes,
            is_held: Mutex::new(bytes == 0),
            is_making_room: AtomicBool::new(false),
            is_log_full: AtomicBool::new(false),
        }
    }

    /// Gives the room back to the disk; whether there was any.
    pub(in super::super) fn give_back(&self) -> bool {
        let removed = {
            let mut is_held = self.held();
            if self.bytes == 0 || !*is_held {
                return false;
            }
            *is_held = false;
            fs::remove_file(&self.path)
        };
        match removed {
            Ok(()) => {
                tracing::warn!(
                    "the disk is full: the reserve is used to make room, other writes wait"
                );
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the reserve could not be given back");
                false
            }
        }
    }

    /// Takes the room if it is not held and there is some; whether it is held now. While something is being flushed or
    /// merged it takes plenty, for that needs room too. Afterwards half of it will do. Where the image has as much in
    /// free pages of its own, which it never gives back to the disk, nothing is needed: what is left is the log's.
    pub(in super::super) fn take(&self, is_idle: bool, image_free: u64) -> bool {
        let (is_held, refused) = self.try_take(is_idle, image_free);
        match refused {
            Some(error) if is_unsupported(&error) => {
                tracing::info!("this file system keeps no reserve for a full disk");
            }
            Some(error) => tracing::debug!(%error, "no room for the whole reserve yet"),
            None => {}
        }
        is_held
    }

    /// The same, with the last error of the file system: nothing is logged under the lock.
    fn try_take(&self, is_idle: bool, image_free: u64) -> (bool, Option<io::Error>) {
        let mut is_held = self.held();
        if *is_held {
            return (true, None);
        }
        let folder = self.path.parent().unwrap_or(&self.path);
        let there = fs::metadata(&self.path).map_or(0, |file| file.len());
        let is_in_image = is_idle && image_free >= self.bytes;
        let needed = match is_idle {
            true => self.bytes / 2,
            false => self.bytes.saturating_mul(2),
        };
        let mut bytes = match disk::left(folder, 0) {
            Some(left) if left < needed && there < needed / 2 => return (is_in_image, None),
            Some(left) => self.bytes.min((left / 2).max(there)),
            None => self.bytes,
        };
        let mut refused = None;
        // A file system keeps some of what it calls free for itself.
        while bytes >= (needed / 8).max(1) && !*is_held {
            if let Err(error) = self.fill(bytes) {
                *is_held = is_unsupported(&error);
                refused = Some(error);
            } else {
                *is_held = true;
            }
            if !*is_held {
                let _ = fs::remove_file(&self.path);
            }
            bytes /= 2;
        }
        (*is_held || is_in_image, refused)
    }

    /// Whether room is being made: then the reserve is there to be used.
    pub(in super::super) fn is_making_room(&self) -> bool {
        self.is_making_room.load(Ordering::Relaxed)
    }

    pub(in super::super) fn set_making_room(&self, is_making_room: bool) {
        self.is_making_room.store(is_making_room, Ordering::Relaxed);
    }

    /// Tells the flusher that the log has no room: it lets go of what the log can spare.
    pub(in super::super) fn set_log_full(&self) {
        self.is_log_full.store(true, Ordering::Relaxed);
    }

    pub(in super::super) fn take_log_full(&self) -> bool {
        self.is_log_full.swap(false, Ordering::Relaxed)
    }

    fn fill(&self, bytes: u64) -> io::Result<()> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.path)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, bytes)?)
    }

    fn held(&self) -> MutexGuard<'_, bool> {
        self.is_held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the file system can't set room aside. Then none is kept.
fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_given_back_once_and_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let (reserve, file) = (
            Reserve::new(folder.path(), 65_536),
            folder.path().join("reserve"),
        );
        assert!(!reserve.give_back(), "nothing is held yet");
        assert!(reserve.take(false, 0) && reserve.take(true, 0));
        let held = fs::metadata(&file).map_or(0, |file| file.len());
        assert!(held == 65_536 || held == 0, "{held}");
        assert!(reserve.give_back() && !reserve.give_back() && !file.exists());
        assert!(reserve.take(true, 0));
        // A restart takes over what is there.
        assert!(Reserve::new(folder.path(), 65_536).take(true, 0));
    }

    #[test]
    fn none_is_always_held_and_never_there() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(folder.path(), 0);
        assert!(reserve.take(false, 0) && !reserve.give_back() && reserve.take(true, 0));
        assert!(!folder.path().join("reserve").exists());
    }
}
