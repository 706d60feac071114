//! A cluster's node from another one's backup: what a node that was wiped, or away for too long, begins with.
//!
//! Owns: the backup that is given, as long as it lasts; the directory that is made of one. Promises: what a directory
//! has goes only when the snapshot is whole, held against its checksums and synced; a directory that was left half made
//! is found and cleared. It is of the same history, and the log goes on from its end. Must not: know how it travels.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ring::digest;
use tideline_cluster::Frame;

use super::super::cluster;
use super::super::directory::manifest::{MANIFEST, RESTORE_STAGING, sync};
use super::super::directory::seal::KEY;
use super::super::directory::{LOCK, alone, partition_folder};
use super::super::{OpenError, Partitions};
use super::manifest::{MANIFEST as LIST, files_below, hex};
use super::place::{Place, check_room, folder};
use super::progress::Progress;
use super::secrets::KEYS_FOLDER;
use super::{BACKUP_DATA, BackupError, BackupManifest};
use tideline_base::ids::PartitionId;

/// Where it is made, in the giver's data directory.
const FOLDER: &str = "snapshot";
/// What is written at once.
const BLOCK_BYTES: usize = 256 << 10;
/// The one partition of a cluster.
const ONLY: PartitionId = PartitionId(0);

/// A backup for another node, in the data directory; removed when it is dropped.
pub struct Snapshot {
    path: PathBuf,
    /// What it has.
    pub manifest: BackupManifest,
    /// The folder that it is in.
    _made: Made,
}

struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(%error, "a snapshot could not be removed");
        }
    }
}

impl Snapshot {
    /// Its list of files, and these, in the order in which they travel.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = self.manifest.files().iter();
        let files = files.map(|file| self.path.join(&file.path));
        std::iter::once(self.path.join(LIST)).chain(files)
    }
}

impl Partitions {
    /// Makes a snapshot, which holds the log and is read once while it is made. Blocks.
    pub fn snapshot(&self, server: &str, progress: &Progress) -> Result<Snapshot, BackupError> {
        let to = self.directory().path().join(FOLDER);
        remove(&to)?;
        let made = Made(to.clone());
        let place = Place::at(&to, &self.history().to_string())?;
        let backup = self.make_backup(&place, (server, None), true, (&[KEY], progress))?;
        Ok(Snapshot {
            path: backup.path,
            manifest: backup.manifest,
            _made: made,
        })
    }
}

/// Makes the data directory `data` of a snapshot's files, in place of what is there. `allows` judges the snapshot by
/// the log's first frame before anything goes. Blocks.
pub fn install(
    manifest: &BackupManifest,
    files: &mut dyn Read,
    data: &Path,
    allows: impl FnOnce(&Frame) -> Result<(), String>,
) -> Result<(), BackupError> {
    let [_] = &*manifest.partitions else {
        return Err(BackupError::refused(
            "it has other partitions than one, and a node of a cluster has one",
        ));
    };
    let failed = |what, path: &Path, error| BackupError::io(what, path, error);
    let _alone = alone(data)?;
    let staging = data.join(RESTORE_STAGING);
    remove(&staging)?;
    folder(&staging).map_err(|error| failed("make", &staging, error))?;
    check_room(data, manifest.bytes())?;
    let taken = receive(manifest, files, &staging).and_then(|()| judge(&staging, allows));
    if let Err(error) = taken {
        remove(&staging)?;
        return Err(error);
    }
    // From here on there is nothing to go back to; whoever finds it so clears it.
    clear(data)?;
    let below = staging.join(BACKUP_DATA);
    let moved = partition_folder(Path::new(""), ONLY);
    let moved = || -> io::Result<()> {
        fs::rename(below.join(&moved), data.join(&moved))?;
        // What the others have given, of positions and cursors, is taken here, too.
        fs::rename(below.join(KEY), data.join(KEY))?;
        sync(data)
    };
    moved().map_err(|error| failed("move to", data, error))?;
    let counts = fs::rename(below.join(MANIFEST), data.join(MANIFEST)).and_then(|()| sync(data));
    counts.map_err(|error| failed("write", &data.join(MANIFEST), error))?;
    remove(&staging)
}

/// Clears a directory that a snapshot was to replace, and that was left half made; whether it was. A snapshot that was
/// not given to its end goes, too.
pub fn clear_unfinished(data: &Path) -> Result<bool, BackupError> {
    let (staging, given) = (data.join(RESTORE_STAGING), data.join(FOLDER));
    let is_there = |path: &Path| {
        let found = path.try_exists();
        found.map_err(|error| BackupError::io("look at", path, error))
    };
    let is_staged = is_there(&staging)?;
    if !is_staged && !is_there(&given)? {
        return Ok(false);
    }
    let _alone = alone(data)?;
    remove(&given)?;
    let is_half = is_staged && !is_there(&data.join(MANIFEST))?;
    if is_half {
        clear(data)?;
    }
    remove(&staging)?;
    Ok(is_half)
}

/// Writes a snapshot's files as they come, one behind the other, and holds each against its checksum.
fn receive(
    manifest: &BackupManifest,
    files: &mut dyn Read,
    folder: &Path,
) -> Result<(), BackupError> {
    let mut block = vec![0; BLOCK_BYTES];
    for file in manifest.files() {
        let path = folder.join(&file.path);
        let failed = |error| BackupError::io("write", &path, error);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(failed)?;
        }
        let made = File::options()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path);
        let (mut made, mut left) = (made.map_err(failed)?, file.bytes);
        let mut sum = digest::Context::new(&digest::SHA256);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            let count = files.read(&mut block[..most]).map_err(failed)?;
            if count == 0 {
                return Err(BackupError::refused("it ended early"));
            }
            sum.update(&block[..count]);
            made.write_all(&block[..count]).map_err(failed)?;
            left -= count as u64;
        }
        if hex(sum.finish().as_ref()) != file.sha256 {
            let text = format!("{} has other bytes than it had", file.path);
            return Err(BackupError::refused(text));
        }
        made.sync_all().map_err(failed)?;
    }
    Ok(())
}

/// Makes the names of what was received durable, and looks at what it is.
fn judge(
    staging: &Path,
    allows: impl FnOnce(&Frame) -> Result<(), String>,
) -> Result<(), BackupError> {
    files_below(staging, true)?;
    let found = cluster::mirror(&staging.join(BACKUP_DATA))?;
    let (_, first) = found.ok_or_else(|| BackupError::refused("it is of no cluster's node"))?;
    allows(&first).map_err(BackupError::refused)
}

/// Removes what a data directory has, so that it is none any more, but for keys and what was fetched.
fn clear(data: &Path) -> Result<(), BackupError> {
    let stays = [LOCK, RESTORE_STAGING, KEYS_FOLDER, "lost+found"];
    let gone = |path: &Path| match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    let clear = || -> io::Result<()> {
        match fs::remove_file(data.join(MANIFEST)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => sync(data)?,
        }
        for entry in fs::read_dir(data)? {
            let entry = entry?;
            if !stays
                .iter()
                .any(|name| entry.file_name() == OsStr::new(name))
            {
                gone(&entry.path())?;
            }
        }
        sync(data)
    };
    clear().map_err(|error| BackupError::Open(OpenError::from_io("clear", data, error)))
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BackupError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::BackupPartition;
    use super::*;

    /// A backup that is of no member's directory, and its files as they travel.
    fn given(home: &Path) -> (BackupManifest, Vec<u8>) {
        let backup = home.join("backup");
        let log = partition_folder(&backup.join(BACKUP_DATA), ONLY).join("log");
        fs::create_dir_all(&log).unwrap();
        fs::write(log.join("one"), b"some bytes").unwrap();
        fs::write(backup.join(BACKUP_DATA).join(MANIFEST), b"more of them").unwrap();
        let partition = BackupPartition {
            partition: 0,
            covered: 1,
            position: 2,
            from_ms: 0,
            to_ms: 0,
            last_crc: 0,
        };
        let of = ("0.0.1", "07".repeat(16));
        let shared = (BTreeMap::new(), &Progress::new(0));
        let manifest =
            BackupManifest::write_manifest(&backup, of, (1, 2), vec![partition], shared).unwrap();
        let read = |file: &super::super::ListedFile| fs::read(backup.join(&file.path)).unwrap();
        let files = manifest.files().iter().flat_map(read).collect();
        (manifest, files)
    }

    fn names(data: &Path) -> Vec<String> {
        let entries = fs::read_dir(data).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_whole_or_not_a_nodes_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (manifest, files) = given(home.path());
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join(MANIFEST), b"what was there").unwrap();
        let refused = |files: &[u8]| {
            let allows = |_: &Frame| panic!("it is no node's");
            let installed = install(&manifest, &mut &files[..], &data, allows);
            assert_eq!(names(&data), [MANIFEST, LOCK]);
            installed.unwrap_err().to_string()
        };
        for cut in 0..files.len() {
            assert_eq!(refused(&files[..cut]), "it ended early");
            let mut spoilt = files.clone();
            spoilt[cut] ^= 1;
            assert!(refused(&spoilt).ends_with("has other bytes than it had"));
        }
        assert_eq!(refused(&files), "it is of no cluster's node");
    }

    #[test]
    fn a_directory_that_was_left_half_made_is_cleared_but_for_its_keys() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path();
        assert!(!clear_unfinished(data).unwrap());
        let half = || {
            fs::create_dir_all(data.join(RESTORE_STAGING).join("data")).unwrap();
            fs::create_dir_all(partition_folder(data, ONLY)).unwrap();
            fs::create_dir_all(data.join(KEYS_FOLDER)).unwrap();
            fs::write(data.join(MANIFEST), b"").unwrap();
        };
        half();
        fs::create_dir(data.join(FOLDER)).unwrap();
        assert!(!clear_unfinished(data).unwrap());
        let whole = [MANIFEST, KEYS_FOLDER, LOCK, "partition-0000"];
        assert_eq!(names(data), whole);
        half();
        fs::remove_file(data.join(MANIFEST)).unwrap();
        assert!(clear_unfinished(data).unwrap());
        assert_eq!(names(data), [KEYS_FOLDER, LOCK]);
    }
}
