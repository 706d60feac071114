//! `backup.json`: what a backup is and which files it has.
//!
//! ```text
//! {"backup": {format, server, history, began_ms, as_of_ms, partitions, files}, "sha256": of the text of "backup"}
//! ```
//!
//! Owns: this file and its format. Promises: a change of any byte, of it or of a file that it names, is found, and so
//! is a file that is missing or too many. Must not: open a log or an image.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::directory::LOCK;
use super::super::directory::manifest::{BACKUP_MANIFEST, sync};
use super::progress::Progress;
use super::{BACKUP_DATA, BackupError};

/// The manifest's name in a backup.
pub const MANIFEST: &str = BACKUP_MANIFEST;
/// The lock of a folder that holds backups.
pub(super) const PLACE_LOCK: &str = "backup.lock";
/// The format of backups that this program makes and reads.
const FORMAT: u32 = 1;
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    format: u32,
    /// The version of the program that made it.
    pub server: String,
    /// The history of the data directory.
    pub history: String,
    /// When it was begun, ms since 1970.
    pub began_ms: u64,
    /// The moment that it shows, ms since 1970: the ends of its logs were fixed then.
    pub as_of_ms: u64,
    /// The partitions that were served.
    pub partitions: Vec<BackupPartition>,
    files: Vec<ListedFile>,
}

/// A partition in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupPartition {
    /// Its number.
    pub partition: u16,
    /// What its image covers.
    pub covered: u64,
    /// The last position of its log.
    pub position: u64,
    /// From this time on it can be restored to a point, ms since 1970.
    pub from_ms: u64,
    /// When its last batch was committed; 0 = it has none.
    pub to_ms: u64,
    /// The checksum of its last batch. It stands for all of them: each covers that of the batch before.
    pub last_crc: u32,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFile {
    /// Below the backup's folder, with slashes.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl ListedFile {
    /// Whether it leads out of no folder: a manifest may be anybody's.
    fn is_below(&self) -> bool {
        let is_hash = self.sha256.len() == 64
            && self
                .sha256
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hash
            && text(Path::new(&self.path)) == self.path
            && Path::new(&self.path).starts_with(BACKUP_DATA)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    backup: Box<RawValue>,
    sha256: String,
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl BackupManifest {
    /// Lists and syncs all files below a folder, and writes the manifest there. Those that are `shared` with an earlier
    /// backup are known, and synced.
    pub(super) fn write_manifest(
        folder: &Path,
        (server, history): (&str, String),
        (began_ms, as_of_ms): (u64, u64),
        partitions: Vec<BackupPartition>,
        (shared, progress): (BTreeMap<String, ListedFile>, &Progress),
    ) -> Result<BackupManifest, BackupError> {
        let (mut files, mut shared) = (Vec::new(), shared);
        for path in files_below(folder, true)? {
            if let Some(known) = shared.remove(&text(&path)) {
                files.push(known);
                continue;
            }
            let (bytes, sha256) = read_file(&folder.join(&path), true, progress)?;
            files.push(ListedFile {
                path: text(&path),
                bytes,
                sha256,
            });
        }
        let manifest = BackupManifest {
            format: FORMAT,
            server: server.to_owned(),
            history,
            began_ms,
            as_of_ms,
            partitions,
            files,
        };
        let path = folder.join(MANIFEST);
        let written = manifest.sealed().and_then(|text| {
            let mut file = File::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            sync(folder)
        });
        written.map_err(|error| BackupError::io("write", &path, error))?;
        Ok(manifest)
    }

    fn sealed(&self) -> io::Result<String> {
        let backup = serde_json::value::to_raw_value(self)?;
        let sha256 = hex(digest::digest(&digest::SHA256, backup.get().as_bytes()).as_ref());
        Ok(serde_json::to_string(&Sealed { backup, sha256 })? + "\n")
    }

    /// Reads a backup's manifest.
    pub fn read(folder: &Path) -> Result<BackupManifest, BackupError> {
        let path = folder.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BackupError::refused(format!(
                "{} is not a backup, because it has no {MANIFEST}; name the folder of one backup",
                folder.display()
            )),
            io::ErrorKind::InvalidData => damaged(&folder.display()),
            _ => BackupError::io("read", &path, error),
        })?;
        BackupManifest::parse(text.as_bytes(), &folder.display())
    }

    /// Reads the text of a manifest; `of` is where the backup is.
    pub fn parse(text: &[u8], of: &dyn fmt::Display) -> Result<BackupManifest, BackupError> {
        let sealed: Sealed = serde_json::from_slice(text).map_err(|_| damaged(of))?;
        let backup = sealed.backup.get();
        let format: Format = serde_json::from_str(backup).map_err(|_| damaged(of))?;
        if format.format != FORMAT {
            return Err(BackupError::refused(format!(
                "the backup {of} has format {}, and this version reads format {FORMAT}; use the version that made it",
                format.format
            )));
        }
        let found = hex(digest::digest(&digest::SHA256, backup.as_bytes()).as_ref());
        if found != sealed.sha256 {
            return Err(damaged(of));
        }
        let manifest: BackupManifest = serde_json::from_str(backup).map_err(|_| damaged(of))?;
        match manifest.files.iter().all(ListedFile::is_below) {
            true => Ok(manifest),
            false => Err(damaged(of)),
        }
    }

    /// Holds every file of a backup against the manifest; the first that is not as it was is an error.
    pub fn check_files(&self, folder: &Path, progress: &Progress) -> Result<(), BackupError> {
        let mut found: BTreeSet<String> = files_below(folder, false)?
            .iter()
            .map(|path| text(path))
            .collect();
        found.remove(MANIFEST);
        // Earlier versions left these empty where a command was given a backup instead of what it works on.
        for lock in [PLACE_LOCK.to_owned(), format!("{BACKUP_DATA}/{LOCK}")] {
            if fs::metadata(folder.join(&lock)).is_ok_and(|left| left.len() == 0) {
                found.remove(&lock);
            }
        }
        for file in &self.files {
            if !found.remove(&file.path) {
                return Err(spoilt(folder, &file.path, "is missing"));
            }
            let path = folder.join(&file.path);
            let length = fs::metadata(&path).map_err(|e| BackupError::io("look at", &path, e))?;
            if length.len() != file.bytes {
                let what = format!("has {} bytes instead of {}", length.len(), file.bytes);
                return Err(spoilt(folder, &file.path, &what));
            }
            if read_file(&path, false, progress)?.1 != file.sha256 {
                return Err(spoilt(folder, &file.path, "has other bytes than it had"));
            }
        }
        match found.first() {
            Some(path) => Err(spoilt(folder, path, "is no part of it")),
            None => Ok(()),
        }
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// All files.
    #[must_use]
    pub fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// What is known of a file.
    pub(super) fn file(&self, path: &Path) -> Option<&ListedFile> {
        self.files.iter().find(|file| Path::new(&file.path) == path)
    }

    /// The files below the backup's folder.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| Path::new(&file.path))
    }
}

fn damaged(of: &dyn fmt::Display) -> BackupError {
    BackupError::refused(format!("{of}/{MANIFEST} is damaged; take another backup"))
}

fn spoilt(folder: &Path, path: &str, what: &str) -> BackupError {
    BackupError::refused(format!(
        "the backup {} is not whole: {path} {what}; take another backup",
        folder.display()
    ))
}

/// The files below a folder, in order, as paths from there. With `is_synced` the names in each folder are made durable.
pub(super) fn files_below(folder: &Path, is_synced: bool) -> Result<Vec<PathBuf>, BackupError> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let at = folder.join(&below);
        let failed = |error| BackupError::io("list", &at, error);
        for entry in fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = below.join(entry.file_name());
            match entry.file_type().map_err(failed)?.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
        if is_synced {
            sync(&at).map_err(|error| BackupError::io("sync", &at, error))?;
        }
    }
    files.sort();
    Ok(files)
}

/// A file's length and checksum.
fn read_file(
    path: &Path,
    is_synced: bool,
    progress: &Progress,
) -> Result<(u64, String), BackupError> {
    let failed = |error| BackupError::io("read", path, error);
    let mut file = File::open(path).map_err(failed)?;
    let mut sum = digest::Context::new(&digest::SHA256);
    let (mut block, mut bytes) = (vec![0; BLOCK_BYTES], 0);
    loop {
        let count = match file.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        sum.update(&block[..count]);
        bytes += count as u64;
        progress.pass_read(count as u64).map_err(failed)?;
    }
    if is_synced {
        // A later backup may share it.
        let read_only = Permissions::from_mode(0o400);
        file.set_permissions(read_only).map_err(failed)?;
        file.sync_all().map_err(failed)?;
    }
    Ok((bytes, hex(sum.finish().as_ref())))
}

fn text(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folder: &Path) -> BackupManifest {
        fs::create_dir_all(folder.join("data/log")).unwrap();
        fs::write(folder.join("data/log/one"), b"some bytes").unwrap();
        fs::write(folder.join("data/two"), b"").unwrap();
        let of = ("0.0.1", "07".repeat(16));
        let shared = (BTreeMap::new(), &Progress::new(0));
        BackupManifest::write_manifest(folder, of, (1, 2), Vec::new(), shared).unwrap()
    }

    fn refusal(folder: &Path) -> String {
        let read = BackupManifest::read(folder);
        let checked = read.and_then(|read| read.check_files(folder, &Progress::new(0)));
        checked.unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_comes_back_and_holds_its_files() {
        let home = tempfile::tempdir().unwrap();
        let made = made(home.path());
        let read = BackupManifest::read(home.path()).unwrap();
        assert_eq!((&read, read.bytes()), (&made, 10));
        read.check_files(home.path(), &Progress::new(0)).unwrap();
        assert!(
            read.paths()
                .eq([Path::new("data/log/one"), Path::new("data/two")])
        );
        let one = home.path().join("data/log/one");
        fs::write(&one, b"some bytez").unwrap();
        assert!(refusal(home.path()).contains("data/log/one has other bytes"));
        fs::write(&one, b"some").unwrap();
        assert!(refusal(home.path()).contains("has 4 bytes instead of 10"));
        fs::remove_file(&one).unwrap();
        assert!(refusal(home.path()).contains("data/log/one is missing"));
        fs::write(&one, b"some bytes").unwrap();
        fs::write(home.path().join("data/three"), b"").unwrap();
        assert!(refusal(home.path()).contains("data/three is no part of it"));
        fs::remove_file(home.path().join("data/three")).unwrap();
        // Locks that an earlier version left are nothing; what has bytes is none.
        for lock in ["backup.lock", "data/lock"] {
            let lock = home.path().join(lock);
            fs::write(&lock, b"").unwrap();
            read.check_files(home.path(), &Progress::new(0)).unwrap();
            fs::write(&lock, b"more").unwrap();
            assert!(refusal(home.path()).contains("lock is no part of it"));
            fs::remove_file(&lock).unwrap();
        }
    }

    #[test]
    fn a_manifest_names_no_file_outside() {
        let home = tempfile::tempdir().unwrap();
        let made = made(home.path());
        for path in [
            "/etc/x",
            "data/../../x",
            "../data/x",
            "data//x",
            "data/./x",
            "x",
            "",
        ] {
            let mut hostile = made.clone();
            hostile.files[0].path = path.to_owned();
            let text = hostile.sealed().unwrap();
            assert!(
                BackupManifest::parse(text.as_bytes(), &"b").is_err(),
                "{path}"
            );
        }
        let mut hostile = made.clone();
        hostile.files[0].sha256 = "../x".to_owned();
        let text = hostile.sealed().unwrap();
        assert!(BackupManifest::parse(text.as_bytes(), &"b").is_err());
        let text = made.sealed().unwrap();
        assert_eq!(BackupManifest::parse(text.as_bytes(), &"b").unwrap(), made);
    }

    #[test]
    fn each_changed_byte_of_the_manifest_is_found_and_another_format_is_named() {
        let home = tempfile::tempdir().unwrap();
        assert!(refusal(home.path()).contains("is not a backup"));
        made(home.path());
        let path = home.path().join(MANIFEST);
        let text = fs::read_to_string(&path).unwrap();
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            let refused = refusal(home.path());
            assert!(
                refused.contains("damaged") || refused.contains("has format"),
                "{at}: {refused}"
            );
            fs::write(&path, &text[..at]).unwrap();
            assert!(refusal(home.path()).contains("damaged"), "{at}");
        }
        fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
        assert!(refusal(home.path()).contains("has format 2, and this version reads format 1"));
    }
}
