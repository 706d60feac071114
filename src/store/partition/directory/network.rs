//! File systems over a network, on which no data directory may lie.
//!
//! Owns: the list of them, and the look at the kernel's table of mounts. Promises: one that is known is refused with
//! its name. Must not: refuse what it does not know.

use std::fs;
use std::path::Path;

use super::super::OpenError;

/// File systems on which LMDB's locks and maps can't be relied on.
const NETWORK_FILE_SYSTEMS: [&str; 8] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "fuse.glusterfs",
];

pub(super) fn refuse_network(path: &Path) -> Result<(), OpenError> {
    let kind = file_system(path).filter(|kind| NETWORK_FILE_SYSTEMS.contains(&&**kind));
    match kind {
        None => Ok(()),
        Some(kind) => Err(OpenError::Network {
            path: path.to_owned(),
            kind,
        }),
    }
}

/// The file system that `path` is on, as the kernel's table of mounts names it; `None` = not known.
pub(super) fn file_system(path: &Path) -> Option<String> {
    #[cfg(test)]
    if let Some(kind) = SAID.get() {
        return Some(kind.to_owned());
    }
    let path = path.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    kind_in(&table, &path)
}

#[cfg(test)]
thread_local! {
    /// What a test says that all of its folders are on.
    pub(super) static SAID: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

fn kind_in(table: &str, path: &Path) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let point = fields.next()?.replace("\\040", " ");
        Some((point, fields.next()?))
    });
    let (_, kind) = mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len())?;
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_known_by_the_kernels_name_of_it() {
        let table = "disk / ext4 rw 0 0\nhost:/volume /mnt/a\\040b fuse.glusterfs rw 0 0\n";
        let kind = |path: &str| kind_in(table, Path::new(path)).unwrap();
        assert_eq!(kind("/mnt/a"), "ext4");
        assert!(NETWORK_FILE_SYSTEMS.contains(&&*kind("/mnt/a b/data")));
    }
}
