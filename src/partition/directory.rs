//! The data directory: which history, which version, how many partitions, and that only one process works on it.
//!
//! Owns: `directory.toml`, `lock`, and the names of the partitions' folders. Promises: a directory that is not ours, of
//! another version, on a network file system or in use is refused with a reason before anything in it is touched;
//! `directory.toml` appears when all that it speaks of is there. Must not: look into a partition (see `identity.rs`).

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::OpenError;
use crate::ids::{HistoryId, PartitionId};

/// The version of everything under a data directory. Another one is refused, never converted in passing.
const FORMAT: u32 = 2;
/// The same, but the partitions do not say yet whose they are. They are made to when such a directory is served.
const FORMAT_UNMARKED: u32 = 1;
const MANIFEST: &str = "directory.toml";
/// A manifest on its way. Without `directory.toml` beside it: a first start that did not come to its end.
const MANIFEST_NEW: &str = "directory.toml.new";
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
    standing: Standing,
    /// `None` only where there was nothing to lock for an inspection.
    _lock: Option<File>,
}

/// What may be expected of a directory's partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are to be made, as far as an earlier attempt has not.
    Draft,
    /// All are there, of before they said whose they are.
    Unmarked,
    /// All are there and say whose they are.
    Whole,
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
    /// Opens `path` to serve it. If there is nothing yet it becomes the draft of a directory with `partitions`
    /// partitions. 0 = as many as there are, one in a new directory.
    pub(super) fn open(path: &Path, partitions: u16) -> Result<Directory, OpenError> {
        fs::create_dir_all(path)
            .map_err(|error| OpenError::from_io("make the data directory", path, error))?;
        if !is_there(path)? {
            refuse_foreign_content(path)?;
        }
        refuse_network(path)?;
        let lock = lock(path)?;
        // Only now: the process that held the lock may have made it.
        let (manifest, standing) = match is_there(path)? {
            true => read(&path.join(MANIFEST))?,
            false => (draft(path, partitions.max(1))?, Standing::Draft),
        };
        let directory = Directory::of(path, &manifest, standing, Some(lock))?;
        if partitions != 0 && partitions != directory.partitions {
            return Err(OpenError::OtherPartitions {
                path: path.to_owned(),
                found: directory.partitions,
                wanted: partitions,
            });
        }
        Ok(directory)
    }

    /// Opens `path` to look into it. Makes and writes nothing, so it may be a copy that can't be written to.
    pub(super) fn look(path: &Path) -> Result<Directory, OpenError> {
        if !is_there(path)? {
            return Err(OpenError::NothingThere {
                path: path.to_owned(),
            });
        }
        refuse_network(path)?;
        let lock = lock_to_look(path)?;
        let (manifest, standing) = read(&path.join(MANIFEST))?;
        Directory::of(path, &manifest, standing, lock)
    }

    fn of(
        path: &Path,
        manifest: &Manifest,
        standing: Standing,
        lock: Option<File>,
    ) -> Result<Directory, OpenError> {
        let damaged = |what| OpenError::Damaged {
            text: format!("{}: {what}", path.join(MANIFEST).display()),
        };
        let history = HistoryId::parse(&manifest.history);
        if manifest.partitions == 0 {
            return Err(damaged("there can't be 0 partitions"));
        }
        Ok(Directory {
            path: path.to_owned(),
            history: history.ok_or_else(|| damaged("history is not an ID"))?,
            partitions: manifest.partitions,
            standing,
            _lock: lock,
        })
    }

    /// What may be expected of the partitions.
    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// Declares that all partitions are there and say whose they are.
    pub(super) fn seal(&mut self) -> Result<(), OpenError> {
        if self.standing != Standing::Whole {
            write(&self.path, self.history, self.partitions)?;
            let (new, name) = (self.path.join(MANIFEST_NEW), self.manifest());
            fs::rename(&new, &name)
                .and_then(|()| sync(&self.path))
                .map_err(|error| OpenError::from_io("write", &name, error))?;
            self.standing = Standing::Whole;
        }
        Ok(())
    }

    /// Its partitions.
    pub(super) fn ids(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }

    /// What there is of partitions that this directory does not have, each as a line.
    pub(super) fn surplus(&self) -> Result<Vec<String>, OpenError> {
        let numbers = partitions_in(&self.path)?;
        let surplus = numbers.into_iter().filter(|at| *at >= self.partitions);
        let line = |at| {
            let (folder, manifest) = (self.folder(PartitionId(at)), self.manifest());
            format!(
                "{} is there, but {} names {} partitions",
                folder.display(),
                manifest.display(),
                self.partitions
            )
        };
        Ok(surplus.map(line).collect())
    }

    /// The file that says what the directory is.
    pub(super) fn manifest(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    /// A partition's folder.
    pub(super) fn folder(&self, id: PartitionId) -> PathBuf {
        self.path.join(format!("partition-{:04}", id.0))
    }

    /// Where a partition's commit log is.
    pub(super) fn log(&self, id: PartitionId) -> PathBuf {
        self.folder(id).join("log")
    }

    /// Where a partition's image is.
    pub(super) fn image(&self, id: PartitionId) -> PathBuf {
        self.folder(id).join("image")
    }
}

fn is_there(path: &Path) -> Result<bool, OpenError> {
    let manifest = path.join(MANIFEST);
    manifest
        .try_exists()
        .map_err(|error| OpenError::from_io("look at", &manifest, error))
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
    hold(path, file)
}

/// `None`: there is no lock, so nobody has served this, a copy perhaps.
fn lock_to_look(path: &Path) -> Result<Option<File>, OpenError> {
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

/// The manifest of a directory that is being made; that of an interrupted attempt if that had begun with partitions.
fn draft(path: &Path, partitions: u16) -> Result<Manifest, OpenError> {
    if !partitions_in(path)?.is_empty() {
        return Ok(read(&path.join(MANIFEST_NEW))?.0);
    }
    write(path, HistoryId::random(), partitions)
}

/// Writes a manifest beside the one that counts.
fn write(path: &Path, history: HistoryId, partitions: u16) -> Result<Manifest, OpenError> {
    let manifest = Manifest {
        format: FORMAT,
        history: history.to_string(),
        partitions,
    };
    let text = toml::to_string(&manifest).expect("a manifest is plain TOML");
    let name = path.join(MANIFEST_NEW);
    let written = File::create(&name).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        sync(path)
    });
    written.map_err(|error| OpenError::from_io("write", &name, error))?;
    Ok(manifest)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn read(name: &Path) -> Result<(Manifest, Standing), OpenError> {
    let text = fs::read_to_string(name).map_err(|error| OpenError::from_io("read", name, error))?;
    let damaged = |error: toml::de::Error| OpenError::Damaged {
        text: format!("{}: {}", name.display(), error.message()),
    };
    let found = toml::from_str::<ManifestFormat>(&text)
        .map_err(damaged)?
        .format;
    let standing = match found {
        FORMAT => Standing::Whole,
        FORMAT_UNMARKED => Standing::Unmarked,
        found => {
            return Err(OpenError::OtherVersion {
                path: name.parent().unwrap_or(name).to_owned(),
                found,
                known: FORMAT,
            });
        }
    };
    Ok((toml::from_str(&text).map_err(damaged)?, standing))
}

/// A new data directory is made in an empty folder only: nobody's home directory is taken by a mistyped path.
fn refuse_foreign_content(path: &Path) -> Result<(), OpenError> {
    // What an interrupted first start leaves behind, and what a fresh ext4 volume holds.
    let ours = [LOCK, MANIFEST_NEW, "lost+found"];
    let names = names_in(path)?;
    let is_draft = names.iter().any(|name| name == MANIFEST_NEW);
    for name in names {
        if ours.contains(&&*name) {
            continue;
        }
        let path = path.to_owned();
        return Err(match partition_number(&name) {
            Some(_) if is_draft => continue,
            Some(_) => OpenError::DoesNotFit {
                text: format!("{} is missing", path.join(MANIFEST).display()),
            },
            None => OpenError::NotOurs { path },
        });
    }
    Ok(())
}

/// Numbers of the partitions whose folders are there.
fn partitions_in(path: &Path) -> Result<Vec<u16>, OpenError> {
    let names = names_in(path)?;
    let mut numbers: Vec<u16> = names.iter().filter_map(|n| partition_number(n)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn partition_number(name: &str) -> Option<u16> {
    name.strip_prefix("partition-")?.parse().ok()
}

fn names_in(path: &Path) -> Result<Vec<String>, OpenError> {
    let list = || -> io::Result<Vec<String>> {
        fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    list().map_err(|error| OpenError::from_io("list", path, error))
}

fn refuse_network(path: &Path) -> Result<(), OpenError> {
    match network_file_system(path) {
        None => Ok(()),
        Some(kind) => Err(OpenError::Network {
            path: path.to_owned(),
            kind,
        }),
    }
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
        let mut made = Directory::open(&path, 3).expect("made");
        let history = made.history;
        made.seal().expect("sealed");
        drop(made);
        for wanted in [0, 3] {
            let again = Directory::open(&path, wanted).expect("opened");
            assert_eq!((again.history, again.partitions), (history, 3));
        }
        assert!(matches!(
            Directory::open(&path, 7),
            Err(OpenError::OtherPartitions {
                found: 3,
                wanted: 7,
                ..
            })
        ));
    }

    #[test]
    fn refuses_a_second_user_a_foreign_folder_and_another_version() {
        let home = tempfile::tempdir().expect("a folder");
        let mut first = Directory::open(&home.path().join("data"), 0).expect("made");
        first.seal().expect("sealed");
        assert!(matches!(
            Directory::open(&home.path().join("data"), 0),
            Err(OpenError::InUse { .. })
        ));
        drop(first);
        assert!(matches!(
            Directory::open(home.path(), 0),
            Err(OpenError::NotOurs { .. })
        ));
        assert!(matches!(
            Directory::look(&home.path().join("none")),
            Err(OpenError::NothingThere { .. })
        ));
        let manifest = home.path().join("data").join(MANIFEST);
        fs::write(&manifest, "format = 3\nsomething = true\n").expect("written");
        assert!(matches!(
            Directory::open(&home.path().join("data"), 0),
            Err(OpenError::OtherVersion {
                found: 3,
                known: 2,
                ..
            })
        ));
    }
}
