//! The folder that backups go to, and the one backup in it that is being made.
//!
//! Owns: the names there, and its lock. Promises: one backup at a time is made there, and all in it are of one history;
//! what is not whole has another name than a backup, and goes with the next one. Must not: touch anything else there.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::super::directory::manifest::sync;
use super::manifest::{BackupManifest, MANIFEST, PLACE_LOCK};
use super::reuse::Before;
use super::{BACKUP_DATA, BackupError, time_text};
use tideline_base::disk;

/// How the name of a backup ends that is being made.
const PARTIAL: &str = ".partial";

/// Such a folder, locked.
pub(super) struct Place {
    path: PathBuf,
    _lock: File,
}

/// A backup that is being made; removed when it is dropped.
pub(super) struct Partial<'p> {
    place: &'p Place,
    name: String,
    path: PathBuf,
    is_done: bool,
}

impl Place {
    /// Opens the folder, or makes it. `history` is that of the data directory at `data`.
    pub(super) fn open(path: &Path, history: &str, data: &Path) -> Result<Place, BackupError> {
        if within(path, data) {
            return Err(BackupError::refused(format!(
                "{} is in the data directory; name a folder elsewhere, best on another disk",
                path.display()
            )));
        }
        Place::at(path, history)
    }

    /// The same for a folder anywhere.
    pub(super) fn at(path: &Path, history: &str) -> Result<Place, BackupError> {
        let shown = path.display();
        let made = match folder(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| sync_parent(path)),
        };
        made.map_err(|error| BackupError::io("make", path, error))?;
        let place = Place::locked(path)?;
        for other in place.whole()? {
            if other.1.history != history {
                return Err(BackupError::refused(format!(
                    "{shown} holds backups of another server, of history {}; name another folder",
                    other.1.history
                )));
            }
        }
        for name in names(path)? {
            if name.ends_with(PARTIAL) {
                remove(&path.join(name))?;
            }
        }
        Ok(place)
    }

    /// Has a folder that is there for oneself. Refuses a backup before anything is made in it.
    fn locked(path: &Path) -> Result<Place, BackupError> {
        if path.join(MANIFEST).exists() {
            return Err(BackupError::refused(format!(
                "{} is a backup; name the folder that holds it",
                path.display()
            )));
        }
        Ok(Place {
            path: path.to_owned(),
            _lock: lock(path)?,
        })
    }

    /// The backups there whose manifests can be read, the oldest first.
    fn whole(&self) -> Result<Vec<(PathBuf, BackupManifest)>, BackupError> {
        let all = listed(&self.path)?.into_iter();
        Ok(all
            .filter_map(|(path, read)| Some((path, read.ok()?)))
            .collect())
    }

    /// Removes backups; gives those that were removed.
    fn remove(&self, backups: impl Iterator<Item = PathBuf>) -> Result<Vec<PathBuf>, BackupError> {
        let mut removed = Vec::new();
        for path in backups {
            // Under a name that no backup has: what is removed in half is none.
            let mut partial = path.clone().into_os_string();
            partial.push(PARTIAL);
            let renamed = fs::rename(&path, &partial).and_then(|()| sync(&self.path));
            renamed.map_err(|error| BackupError::io("remove", &path, error))?;
            remove(Path::new(&partial))?;
            removed.push(path);
        }
        Ok(removed)
    }

    /// The newest backup there.
    pub(super) fn newest(&self) -> Result<Option<Before>, BackupError> {
        let newest = self.whole()?.pop();
        Ok(newest.map(|(path, manifest)| Before::new(path, manifest)))
    }

    /// Refuses what there is no room for.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), BackupError> {
        check_room(&self.path, bytes)
    }

    /// Begins a backup, which is named after the time.
    pub(super) fn begin(&self, now_ms: u64) -> Result<Partial<'_>, BackupError> {
        let name = name_of(now_ms);
        let partial = Partial {
            place: self,
            path: self.path.join(format!("{name}{PARTIAL}")),
            name,
            is_done: false,
        };
        let made = folder(&partial.path).and_then(|()| folder(&partial.data()));
        made.map_err(|error| BackupError::io("make", &partial.path, error))?;
        Ok(partial)
    }
}

impl Partial<'_> {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the data directory goes.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join(BACKUP_DATA)
    }

    /// It is whole and synced: it gets its name. Gives its path.
    pub(super) fn done(mut self) -> Result<PathBuf, BackupError> {
        let (place, path) = (&self.place.path, self.place.path.join(&self.name));
        let named = fs::rename(&self.path, &path).and_then(|()| sync(place));
        named.map_err(|error| BackupError::io("name", &path, error))?;
        self.is_done = true;
        Ok(path)
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if !self.is_done
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(%error, "what there is of a backup stays until the next one");
        }
    }
}

/// A backup in a folder, or why it can't be read.
pub type Listed = (PathBuf, Result<BackupManifest, BackupError>);

/// The backups in a folder, the oldest first. What is not whole is left out.
pub fn listed(folder: &Path) -> Result<Vec<Listed>, BackupError> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let path = folder.join(&name);
        // A link to a backup is no further one.
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        if is_folder && !name.ends_with(PARTIAL) && path.join(MANIFEST).exists() {
            let manifest = BackupManifest::read(&path);
            found.push((path, manifest));
        }
    }
    // Not by their names: one can be given another.
    found.sort_by_key(|(_, read)| read.as_ref().map_or(0, |manifest| manifest.began_ms));
    Ok(found)
}

/// Removes the oldest backups of a folder, and keeps so many whole ones. Gives those that were removed.
pub fn prune(folder: &Path, keep: usize) -> Result<Vec<PathBuf>, BackupError> {
    let place = Place::locked(folder)?;
    let whole = place.whole()?;
    let surplus = whole.len().saturating_sub(keep.max(1));
    place.remove(whole.into_iter().take(surplus).map(|(path, _)| path))
}

/// Removes the backups of other histories from a folder that only passes backups on: a restore leaves them there.
pub(super) fn clear_others(folder: &Path, history: &str) -> Result<(), BackupError> {
    if !folder.exists() {
        return Ok(());
    }
    let place = Place::locked(folder)?;
    let whole = place.whole()?.into_iter();
    let others = whole.filter(|(_, manifest)| manifest.history != history);
    place.remove(others.map(|(path, _)| path)).map(drop)
}

/// Removes a folder that only passed backups on, with those that are in it; whatever else is there stays.
pub fn remove_place(folder: &Path) -> Result<(), BackupError> {
    if !folder.exists() {
        return Ok(());
    }
    prune(folder, 1)?;
    for (path, _) in listed(folder)? {
        remove(&path)?;
    }
    let _ = fs::remove_file(folder.join(PLACE_LOCK));
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, BackupError> {
    let list = || -> io::Result<Vec<String>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    let mut names = list().map_err(|error| BackupError::io("list", folder, error))?;
    names.sort();
    Ok(names)
}

/// Refuses to write so many bytes below a folder that has no room for them.
pub(super) fn check_room(path: &Path, bytes: u64) -> Result<(), BackupError> {
    match disk::left(path, 0) {
        Some(left) if left < bytes => Err(BackupError::refused(format!(
            "{} has room for {left} bytes, and about {bytes} are to be written; make room, or name another disk",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Makes a folder that others may not look into.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes the name of a folder durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let whole = std::path::absolute(path)?;
    whole.parent().map_or(Ok(()), sync)
}

/// Whether a folder, which need not be there, lies in another one, or is it.
pub(super) fn within(path: &Path, other: &Path) -> bool {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = whole
        .ancestors()
        .find_map(|folder| folder.canonicalize().ok());
    there
        .zip(other.canonicalize().ok())
        .is_some_and(|(there, other)| there.starts_with(other))
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BackupError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn lock(path: &Path) -> Result<File, BackupError> {
    let name = path.join(PLACE_LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&name);
    let file = file.map_err(|error| BackupError::io("open", &name, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BackupError::refused(format!(
            "another backup to {} is being made; wait until it is done",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(BackupError::io("lock", &name, error)),
    }
}

/// As 20261126T213015.123Z: in the order of time, and without signs that mean something to a shell.
fn name_of(now_ms: u64) -> String {
    time_text(now_ms).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Progress;
    use super::*;

    fn refusal(path: &Path, data: &Path) -> String {
        let opened = Place::open(path, "one", data);
        opened.err().expect("refused").to_string()
    }

    #[test]
    fn one_backup_at_a_time_and_what_is_half_done_goes() {
        let home = tempfile::tempdir().unwrap();
        let (path, data) = (home.path().join("backups"), home.path().join("data"));
        folder(&data).unwrap();
        let place = Place::open(&path, "one", &data).unwrap();
        assert!(refusal(&path, &data).contains("another backup"));
        let partial = place.begin(1_793_180_001_007).unwrap();
        assert!(partial.path().ends_with("20261028T093321.007Z.partial"));
        let left = partial.path().to_owned();
        std::mem::forget(partial);
        drop(place);
        assert!(left.exists());
        let place = Place::open(&path, "one", &data).unwrap();
        assert!(!left.exists());
        drop(place.begin(2).unwrap());
        let done = place.begin(3).unwrap().done().unwrap();
        assert!(done.join(BACKUP_DATA).is_dir());
        assert!(
            place
                .check_room(1 << 60)
                .unwrap_err()
                .to_string()
                .contains("make room")
        );
        drop(place);
        assert!(refusal(&data.join("below"), &data).contains("is in the data directory"));
        fs::write(done.join(MANIFEST), "{}").unwrap();
        assert!(refusal(&done, &data).contains("is a backup"));
        let pruned = prune(&done, 1).unwrap_err().to_string();
        assert!(pruned.contains("is a backup; name the folder that holds it"));
        assert!(!done.join(PLACE_LOCK).exists());
    }

    #[test]
    fn what_only_passes_on_lets_go_of_another_history() {
        let home = tempfile::tempdir().unwrap();
        let (path, data) = (home.path().join("staging"), home.path().join("data"));
        folder(&data).unwrap();
        clear_others(&path, "two").unwrap();
        let place = Place::open(&path, "one", &data).unwrap();
        let partial = place.begin(1).unwrap();
        let (of, shared) = (
            ("1", "one".to_owned()),
            (BTreeMap::new(), &Progress::new(0)),
        );
        BackupManifest::write_manifest(partial.path(), of, (1, 1), Vec::new(), shared).unwrap();
        let done = partial.done().unwrap();
        drop(place);
        clear_others(&path, "one").unwrap();
        assert!(done.exists());
        let refused = Place::open(&path, "two", &data).err().unwrap();
        assert!(
            refused
                .to_string()
                .contains("of another server, of history one")
        );
        clear_others(&path, "two").unwrap();
        assert!(!done.exists());
        Place::open(&path, "two", &data).unwrap();
    }
}
