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

/// Clears a directory that a snapshot was to replace, and that was left half made; whether it was.
pub fn clear_unfinished(data: &Path) -> Result<bool, BackupError> {
    let staging = data.join(RESTORE_STAGING);
    let is_there = |path: &Path| {
        let found = path.try_exists();
        found.map_err(|error| BackupError::io("look at", path, error))
    };
    if !is_there(&staging)? {
        return Ok(false);
    }
    let _alone = alone(data)?;
    let is_half = !is_there(&data.join(MANIFEST))?;
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
