//! The data directory: whose it is, which version, how many partitions, and that only one process works on it.
//!
//! Owns: `directory.toml`, `lock`, and the names of the partitions' folders. Promises: a directory that is not ours, of
//! another version, on a network file system or in use is refused with a reason before anything in it is touched.
//! Must not: look into a partition.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::OpenError;
use crate::ids::{HistoryId, PartitionId};

/// The version of everything under a data directory. Another one is refused, never converted in passing.
const FORMAT: u32 = 1;
const MANIFEST: &str = "directory.toml";
const LOCK: &str = "lock";
/// File systems on which LMDB's locks and maps can't be relied on.
const NETWORK_FILE_SYSTEMS: [&str; 8] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "glusterfs",
];

/// An open data directory. The lock lasts as long as this value.
pub(super) struct Directory {
    path: PathBuf,
    pub(super) history: HistoryId,
    pub(super) partitions: u16,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// Of the whole directory.
    format: u32,
    /// 32 hexadecimal digits.
    history: String,
    partitions: u16,
}

/// Only what every version has.
#[derive(Deserialize)]
struct ManifestFormat {
    format: u32,
}

impl Directory {
    /// Opens `path`, making it with `partitions` partitions if there is nothing yet. `None` = only open, never make.
    pub(super) fn open(path: &Path, partitions: Option<u16>) -> Result<Directory, OpenError> {
        let io = |what: &'static str| move |error: io::Error| OpenError::from_io(what, path, error);
        if partitions.is_some() {
            fs::create_dir_all(path).map_err(io("make the data directory"))?;
        }
        let has_manifest = path.join(MANIFEST).try_exists().map_err(io("look into"))?;
        if !has_manifest {
            if partitions.is_none() {
                return Err(OpenError::NotOurs {
                    path: path.to_owned(),
                });
            }
            refuse_foreign_content(path)?;
        }
        if let Some(kind) = network_file_system(path) {
            return Err(OpenError::Network {
                path: path.to_owned(),
                kind,
            });
        }
        let lock = lock(path)?;
        let manifest = match partitions {
            Some(count) if !has_manifest => create(path, count)?,
            _ => read(path)?,
        };
        let history = HistoryId::parse(&manifest.history).ok_or_else(|| OpenError::Damaged {
            text: format!("{}: history is not an ID", path.join(MANIFEST).display()),
        })?;
        Ok(Directory {
            path: path.to_owned(),
            history,
            partitions: manifest.partitions,
            _lock: lock,
        })
    }

    /// Where a partition's commit log is.
    pub(super) fn log(&self, id: PartitionId) -> PathBuf {
        self.path.join(format!("partition-{:04}", id.0)).join("log")
    }

    /// Where a partition's image is.
    pub(super) fn image(&self, id: PartitionId) -> PathBuf {
        self.path
            .join(format!("partition-{:04}", id.0))
            .join("image")
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let name = path.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&name)
        .map_err(|error| OpenError::from_io("open", &name, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(OpenError::from_io("lock", &name, error)),
    }
}

fn create(path: &Path, partitions: u16) -> Result<Manifest, OpenError> {
    let manifest = Manifest {
        format: FORMAT,
        history: HistoryId::random().to_string(),
        partitions,
    };
    let text = toml::to_string(&manifest).expect("a manifest is plain TOML");
    let (new, name) = (path.join("directory.toml.new"), path.join(MANIFEST));
    let write = || -> io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &name)?;
        File::open(path)?.sync_all()
    };
    write().map_err(|error| OpenError::from_io("write", &name, error))?;
    Ok(manifest)
}

fn read(path: &Path) -> Result<Manifest, OpenError> {
    let name = path.join(MANIFEST);
    let text =
        fs::read_to_string(&name).map_err(|error| OpenError::from_io("read", &name, error))?;
    let damaged = |error: toml::de::Error| OpenError::Damaged {
        text: format!("{}: {}", name.display(), error.message()),
    };
    let found = toml::from_str::<ManifestFormat>(&text)
        .map_err(damaged)?
        .format;
    if found != FORMAT {
        return Err(OpenError::OtherVersion {
            path: path.to_owned(),
            found,
            known: FORMAT,
        });
    }
    toml::from_str(&text).map_err(damaged)
}

/// A new data directory is made in an empty folder only: nobody's home directory is taken by a mistyped path.
fn refuse_foreign_content(path: &Path) -> Result<(), OpenError> {
    let entries = fs::read_dir(path).map_err(|error| OpenError::from_io("list", path, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| OpenError::from_io("list", path, error))?
            .file_name();
        // What an interrupted first start leaves behind, and what a fresh ext4 volume holds.
        if !["lock", "directory.toml.new", "lost+found"]
            .iter()
            .any(|ours| name == *ours)
        {
            return Err(OpenError::NotOurs {
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

/// The network file system that `path` is on, as the kernel's mount table tells. No table = not known = none.
fn network_file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let point = fields.next()?.replace("\\040", " ");
        Some((point, fields.next()?))
    });
    let (_, kind) = mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len())?;
    NETWORK_FILE_SYSTEMS
        .contains(&kind)
        .then(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_history_and_partitions() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("data");
        let made = Directory::open(&path, Some(3)).expect("made");
        let history = made.history;
        drop(made);
        let again = Directory::open(&path, Some(7)).expect("opened");
        assert_eq!((again.history, again.partitions), (history, 3));
    }

    #[test]
    fn refuses_a_second_user_a_foreign_folder_and_another_version() {
        let home = tempfile::tempdir().expect("a folder");
        let first = Directory::open(&home.path().join("data"), Some(1)).expect("made");
        assert!(matches!(
            Directory::open(&home.path().join("data"), Some(1)),
            Err(OpenError::InUse { .. })
        ));
        drop(first);
        assert!(matches!(
            Directory::open(home.path(), Some(1)),
            Err(OpenError::NotOurs { .. })
        ));
        assert!(matches!(
            Directory::open(&home.path().join("none"), None),
            Err(OpenError::NotOurs { .. })
        ));
        let manifest = home.path().join("data").join(MANIFEST);
        fs::write(&manifest, "format = 2\nsomething = true\n").expect("written");
        assert!(matches!(
            Directory::open(&home.path().join("data"), Some(1)),
            Err(OpenError::OtherVersion {
                found: 2,
                known: 1,
                ..
            })
        ));
    }
}
