//! The data directory: which history, which version, which partitions, and that only one process works on it.
//!
//! Owns: the names of the partitions' folders, and when `directory.toml` is written. Promises: a directory
//! that is not ours, of another version, on a network file system, in a backup or in use is refused with a reason
//! before anything in it is touched; `directory.toml` appears when all that it speaks of is there. Must not: look into
//! a partition (see `identity.rs`).

pub(super) mod identity;
pub(super) mod inspection;
mod lock;
pub(super) mod manifest;
pub(super) mod map;
mod network;
pub(super) mod renewal;
pub(super) mod seal;
pub(super) mod served;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::OpenError;
use super::commit::disk_reserve::RESERVE;
use crate::log::{self, LocalStorage};
pub(super) use lock::{LOCK, alone};
use lock::{lock, lock_to_look};
use manifest::{MANIFEST, MANIFEST_NEW, MANIFEST_PART, Manifest, RESTORE_STAGING};
use map::{Map, Origin};
use seal::{KEY, KEY_PART};
use tideline_base::ids::{HistoryId, PartitionId};

/// An open data directory. The lock lasts as long as this value.
pub(super) struct Directory {
    path: PathBuf,
    manifest: Manifest,
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

impl Directory {
    /// Opens `path` to serve it. If there is nothing yet it becomes the draft of a directory with `partitions`
    /// partitions; 0 = one; and of this history, if one is named. Other users of the machine may not look into what it
    /// makes.
    pub(super) fn open(
        path: &Path,
        partitions: u16,
        history: Option<HistoryId>,
    ) -> Result<Directory, OpenError> {
        make(path)?;
        if !is_there(path)? {
            refuse_foreign_content(path)?;
        }
        let lock = lock(path)?;
        served::refuse_copy(path)?;
        // Only now: the process that held the lock may have made it.
        match is_there(path)? {
            true => Directory::of(path, Some(lock)),
            false => Ok(Directory {
                path: path.to_owned(),
                manifest: draft(path, partitions.max(1), history)?,
                standing: Standing::Draft,
                _lock: Some(lock),
            }),
        }
    }

    /// Opens `path` to look into it. Makes and writes nothing, so it may be a copy that can't be written to, or in a
    /// backup, also on a network file system.
    pub(super) fn look(path: &Path) -> Result<Directory, OpenError> {
        Directory::existing(path, lock_to_look)
    }

    /// Opens a directory that is there to change it as a whole, also one that can't be served as it is.
    pub(super) fn take(path: &Path) -> Result<Directory, OpenError> {
        Directory::existing(path, |path| lock(path).map(Some))
    }

    fn existing(
        path: &Path,
        lock: impl FnOnce(&Path) -> Result<Option<File>, OpenError>,
    ) -> Result<Directory, OpenError> {
        if !is_there(path)? {
            return Err(OpenError::NothingThere {
                path: path.to_owned(),
            });
        }
        let lock = lock(path)?;
        Directory::of(path, lock)
    }

    /// Takes an empty or absent folder for a directory that is going to be restored. It counts with
    /// [`Directory::seal`].
    pub(super) fn restoring(path: &Path, manifest: Manifest) -> Result<Directory, OpenError> {
        make(path)?;
        let lock = lock(path)?;
        // Looked at once more: it may have become another's since it was found empty.
        let listed = |error| OpenError::from_io("list", path, error);
        for entry in fs::read_dir(path).map_err(listed)? {
            let name = entry.map_err(listed)?.file_name();
            if name != LOCK && name != RESTORE_STAGING && name != "lost+found" {
                return Err(OpenError::NotOurs {
                    path: path.to_owned(),
                });
            }
        }
        Ok(Directory {
            path: path.to_owned(),
            _lock: Some(lock),
            manifest,
            standing: Standing::Draft,
        })
    }

    fn of(path: &Path, lock: Option<File>) -> Result<Directory, OpenError> {
        let manifest = Manifest::read(&path.join(MANIFEST))?;
        Ok(Directory {
            path: path.to_owned(),
            standing: match manifest.is_marked() {
                true => Standing::Whole,
                false => Standing::Unmarked,
            },
            manifest,
            _lock: lock,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what says what it is into another folder, a copy.
    pub(super) fn write_manifest(&self, folder: &Path) -> Result<(), OpenError> {
        let mut manifest = self.manifest.clone();
        manifest.write(folder)?;
        manifest.put(folder)
    }

    /// Its history, and how many partitions it had when it was new.
    pub(super) fn origin(&self) -> Origin {
        self.manifest.origin
    }

    /// Its partitions.
    pub(super) fn map(&self) -> &Map {
        &self.manifest.map
    }

    /// What may be expected of the partitions.
    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// Declares that all partitions are there and say whose they are, in today's format.
    pub(super) fn seal(&mut self) -> Result<(), OpenError> {
        if self.standing != Standing::Whole || !self.manifest.is_current() {
            self.manifest.write(&self.path)?;
            self.manifest.put(&self.path)?;
            self.standing = Standing::Whole;
        }
        Ok(())
    }

    /// Announces partitions that are going to be made. They count with [`Directory::replace`]; until then the next
    /// start clears them away.
    pub(super) fn draft(&self, map: &Map) -> Result<(), OpenError> {
        self.clear_draft()?;
        self.announce(map)
    }

    /// Announces them again, with what is known by now. Their folders stay.
    pub(super) fn announce(&self, map: &Map) -> Result<(), OpenError> {
        let mut draft = self.manifest.clone();
        draft.map = map.clone();
        draft.write(&self.path)
    }

    /// Makes the partitions count that were announced. After an error nobody knows which do: nothing must be written
    /// before the next start.
    pub(super) fn replace(&mut self, map: Map) -> Result<(), OpenError> {
        self.manifest.map = map;
        self.manifest.put(&self.path)
    }

    /// Clears away what an interrupted change has left, and what a finished one has left of partitions that ended.
    pub(super) fn sweep(&self) -> Result<(), OpenError> {
        self.clear_draft()?;
        self.clear_ended()
    }

    /// Clears away what a finished change has left of partitions that ended.
    pub(super) fn clear_ended(&self) -> Result<(), OpenError> {
        for share in self.map().shares().filter(|share| share.ends.is_some()) {
            let folder = self.folder(share.id);
            match share.keeps_log {
                false => remove(&folder)?,
                true => {
                    remove(&self.image(share.id))?;
                    remove(&folder.join(RESERVE))?;
                    give_up_room(&self.log(share.id))?;
                }
            }
        }
        Ok(())
    }

    /// Clears away partitions that were announced and never came into force.
    pub(super) fn clear_draft(&self) -> Result<(), OpenError> {
        let drafted = self.drafted();
        for id in &drafted {
            remove(&self.folder(*id))?;
        }
        match drafted.is_empty() {
            true => Ok(()),
            false => remove(&self.path.join(MANIFEST_NEW)),
        }
    }

    /// Removes the log of a partition that does not count, if there is one.
    pub(super) fn remove_log(&self, id: PartitionId) -> Result<(), OpenError> {
        remove(&self.log(id))
    }

    /// Partitions that were announced and do not count.
    pub(super) fn drafted(&self) -> Vec<PartitionId> {
        // One that can't be read is older than the first partition of it.
        let draft = Manifest::read(&self.path.join(MANIFEST_NEW)).ok();
        let draft = draft.filter(|draft| draft.origin == self.origin());
        let ids = draft.iter().flat_map(|draft| draft.map.shares());
        let ids = ids.map(|share| share.id);
        ids.filter(|id| self.map().share(*id).is_none()).collect()
    }

    /// Its live partitions, in the order of their ranges.
    pub(super) fn ids(&self) -> Vec<PartitionId> {
        self.map().ids().collect()
    }

    /// What there is of partitions that this directory does not have, each as a line.
    pub(super) fn surplus(&self) -> Result<Vec<String>, OpenError> {
        let numbers = partitions_in(&self.path)?;
        let drafted = self.drafted();
        let is_surplus = |number: &u16| {
            let id = PartitionId(*number);
            self.map().share(id).is_none() && !drafted.contains(&id)
        };
        let surplus = numbers.into_iter().filter(is_surplus);
        let line = |number| {
            let (folder, manifest) = (self.folder(PartitionId(number)), self.manifest());
            format!(
                "{} is there, but {} does not name partition {number}",
                folder.display(),
                manifest.display(),
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
        partition_folder(&self.path, id)
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

/// The folder of a partition in a data directory.
pub(super) fn partition_folder(data: &Path, id: PartitionId) -> PathBuf {
    data.join(format!("partition-{:04}", id.0))
}

fn make(path: &Path) -> Result<(), OpenError> {
    let mut folder = fs::DirBuilder::new();
    let made = folder.recursive(true).mode(0o700).create(path);
    made.map_err(|error| OpenError::from_io("make the data directory", path, error))
}

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) -> Result<(), OpenError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(OpenError::from_io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Gives up what the log of a partition that has ended keeps for more of it.
fn give_up_room(log: &Path) -> Result<(), OpenError> {
    match LocalStorage::read_only(log) {
        Ok(storage) => log::give_up(&storage).map_err(|error| OpenError::from(error).within(log)),
        // That it is missing is told by who opens it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpenError::from_io("open", log, error)),
    }
}

fn is_there(path: &Path) -> Result<bool, OpenError> {
    let manifest = path.join(MANIFEST);
    manifest
        .try_exists()
        .map_err(|error| OpenError::from_io("look at", &manifest, error))
}

/// The manifest of a directory that is being made; that of an interrupted attempt if that had begun with partitions.
fn draft(path: &Path, partitions: u16, history: Option<HistoryId>) -> Result<Manifest, OpenError> {
    if !partitions_in(path)?.is_empty() {
        return Manifest::read(&path.join(MANIFEST_NEW));
    }
    let mut manifest = Manifest::new(partitions);
    manifest.origin.history = history.unwrap_or(manifest.origin.history);
    manifest.write(path)?;
    Ok(manifest)
}

/// A new data directory is made in an empty folder only: nobody's home directory is taken by a mistyped path.
fn refuse_foreign_content(path: &Path) -> Result<(), OpenError> {
    // What an interrupted first start leaves behind, and what a fresh ext4 volume holds.
    let ours = [
        LOCK,
        MANIFEST_NEW,
        MANIFEST_PART,
        KEY,
        KEY_PART,
        "lost+found",
    ];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_history_and_partitions() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("data");
        let mut made = Directory::open(&path, 3, None).expect("made");
        let origin = made.origin();
        made.seal().expect("sealed");
        drop(made);
        for wanted in [0, 3, 7] {
            let again = Directory::open(&path, wanted, None).expect("opened");
            assert_eq!((again.origin(), again.ids().len()), (origin, 3));
        }
    }

    #[test]
    fn refuses_a_second_user_a_foreign_folder_and_another_version() {
        let home = tempfile::tempdir().expect("a folder");
        let mut first = Directory::open(&home.path().join("data"), 0, None).expect("made");
        first.seal().expect("sealed");
        assert!(matches!(
            Directory::open(&home.path().join("data"), 0, None),
            Err(OpenError::InUse { .. })
        ));
        drop(first);
        assert!(matches!(
            Directory::open(home.path(), 0, None),
            Err(OpenError::NotOurs { .. })
        ));
        assert!(matches!(
            Directory::look(&home.path().join("none")),
            Err(OpenError::NothingThere { .. })
        ));
        let manifest = home.path().join("data").join(MANIFEST);
        fs::write(&manifest, "format = 4\nsomething = true\n").expect("written");
        assert!(matches!(
            Directory::open(&home.path().join("data"), 0, None),
            Err(OpenError::OtherVersion {
                found: 4,
                known: 3,
                ..
            })
        ));
    }

    /// Refused for the reason that this text names, and left as it was.
    fn is_left(path: &Path, why: &str) {
        for opened in [Directory::open(path, 0, None), Directory::take(path)] {
            let refused = opened.err().expect("refused").to_string();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(!path.join(LOCK).exists());
        Directory::look(path).expect("it is only looked at");
    }

    #[test]
    fn a_directory_in_a_backup_or_beyond_a_network_can_be_looked_at_only() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("data");
        let mut made = Directory::open(&path, 0, None).expect("made");
        made.seal().expect("sealed");
        drop(made);
        fs::remove_file(path.join(LOCK)).expect("removed");
        network::SAID.set(Some("nfs4"));
        is_left(&path, "network file system (nfs4)");
        let list = home.path().join(manifest::BACKUP_MANIFEST);
        fs::write(&list, "{\"backup\":{}}").expect("written");
        // What an earlier version has left.
        fs::write(path.join(LOCK), "").expect("written");
        Directory::look(&path).expect("nobody serves a backup");
        fs::remove_file(path.join(LOCK)).expect("removed");
        network::SAID.set(None);
        is_left(&path, "is in a backup");
        // Another program's file of this name.
        fs::write(&list, "{}").expect("written");
        Directory::open(&path, 0, None).expect("opened");
    }
}
