//! What a refusal of the operating system means for a store: no room, no descriptor, or a failing disk.
//!
//! Owns: the one rule for it, and the question how much room is left. Promises: an error is taken for a full disk only
//! if it says so, or says nothing and little is left. Must not: change anything. Called by `log` and `image` where an
//! error decides whether writing may go on.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

/// With less room than this, a write that failed without a reason failed for want of room.
pub const LITTLE_BYTES: u64 = 32 << 20;

/// Whether the error itself says that there is no room: on the disk, in the quota, or below the limit of a file's size.
#[must_use]
pub fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Whether the error says that the process or the system has no descriptor left: nothing is wrong, try again.
#[must_use]
pub fn is_no_descriptor(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// Whether the error means a full disk. A write that was done in part comes without a reason: LMDB makes EIO of it, the
/// standard library `WriteZero`. Then it counts how much is left (`None` = nobody knows).
pub fn is_full(error: &io::Error, left: impl FnOnce() -> Option<u64>) -> bool {
    let is_vague = error.kind() == io::ErrorKind::WriteZero
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    is_no_room(error) || (is_vague && left().is_some_and(|left| left < LITTLE_BYTES))
}

/// What an operator should do about a full disk.
pub const FULL: &str = ": the disk is full, make room";

/// What an operator should do about an error whose text comes before it; empty if nothing in particular.
#[must_use]
pub fn advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::FileTooLarge {
        ": a file may not get larger (ulimit -f)"
    } else if is_no_room(error) {
        FULL
    } else if is_no_descriptor(error) {
        ": too many open files, raise ulimit -n"
    } else {
        ""
    }
}

/// Bytes that this process may still write in a folder, to a file that has `file_bytes` already. A part of the disk is
/// only for root.
#[must_use]
pub fn left(folder: &Path, file_bytes: u64) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    let blocks = match rustix::process::geteuid().is_root() {
        // ext4 counts as free what it keeps for itself: a 50th, 4,096 blocks at most.
        true => {
            let kept = (disk.f_blocks / 50).min(4_096);
            disk.f_bfree.saturating_sub(kept).max(disk.f_bavail)
        }
        false => disk.f_bavail,
    };
    Some(
        blocks
            .saturating_mul(disk.f_frsize)
            .min(file_left(file_bytes)),
    )
}

/// Bytes by which a file of this size may grow (`ulimit -f`).
fn file_left(file_bytes: u64) -> u64 {
    let most = getrlimit(Resource::Fsize).current;
    most.map_or(u64::MAX, |most| most.saturating_sub(file_bytes))
}

/// Bytes of the disk that an ordinary user may still write, as `df` shows them; at most the largest file that the
/// process may write. This is what people read; what becomes of a write is decided by [`left`].
#[must_use]
pub fn free(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(
        disk.f_bavail
            .saturating_mul(disk.f_frsize)
            .min(file_left(0)),
    )
}

/// Bytes of the whole disk that a folder is on.
#[must_use]
pub fn total(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.f_blocks.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn an_error_without_a_reason_is_a_full_disk_only_if_little_is_left() {
        let (eio, full) = (5, [28, 122, 27]);
        for code in full {
            assert!(is_full(&os(code), || None), "{code}");
        }
        let short = io::Error::from(io::ErrorKind::WriteZero);
        for error in [os(eio), short] {
            assert!(is_full(&error, || Some(0)) && is_full(&error, || Some(LITTLE_BYTES - 1)));
            assert!(!is_full(&error, || Some(LITTLE_BYTES)) && !is_full(&error, || None));
        }
        assert!(!is_full(&os(13), || Some(0)), "a permission is no room");
    }

    #[test]
    fn a_missing_descriptor_is_nothing_but_that() {
        for code in [23, 24] {
            assert!(is_no_descriptor(&os(code)) && !is_full(&os(code), || Some(0)));
            assert!(advice(&os(code)).contains("ulimit -n"));
        }
        assert!(!is_no_descriptor(&os(5)));
    }

    #[test]
    fn a_folder_has_a_size_and_room() {
        let folder = tempfile::tempdir().unwrap();
        let left = left(folder.path(), 0).unwrap();
        assert!(left > 0 && total(folder.path()).unwrap() >= left);
        // People read what `df` shows, without the part that is kept for root.
        let df = statvfs(folder.path()).unwrap();
        assert!(free(folder.path()).unwrap() <= df.f_bfree * df.f_frsize);
    }
}
