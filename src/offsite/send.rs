//! One backup on its way into the bucket.
//!
//! Owns: which of its files are sent. Promises: `backup.json` is written when all that it names is there, and last of
//! all; if something is gone right behind that, it is taken back. Must not: remove anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tideline_base::faults;
use tideline_bucket::{Bucket, Stored};

use super::{local, manifest, refused};
use crate::clock::Clock;
use crate::partition::{BACKUP_MANIFEST, Backup, BackupError, BackupManifest, Progress};

/// A file that no backup may need any more is removed when it is older than a day; one is relied on half as long.
pub(super) const REMOVED_AFTER_MS: u64 = 24 * 3_600_000;
const RELIED_ON_MS: u64 = REMOVED_AFTER_MS / 2;

/// Refuses a folder that has backups of another history, or is one backup. Gives the newest there.
pub(super) async fn check(
    bucket: &Bucket,
    history: &str,
) -> Result<Option<BackupManifest>, BackupError> {
    let place = bucket.place();
    if bucket
        .read(BACKUP_MANIFEST)
        .await
        .map_err(refused)?
        .is_some()
    {
        return Err(BackupError::refused(format!(
            "{place} is a backup; name the folder that holds it"
        )));
    }
    for name in bucket.folders().await.map_err(refused)?.iter().rev() {
        let Some(Ok(newest)) = manifest(bucket, name).await? else {
            continue;
        };
        return match newest.history == history {
            true => Ok(Some(newest)),
            false => Err(BackupError::refused(format!(
                "{place} holds backups of another server, of history {}; name another folder",
                newest.history
            ))),
        };
    }
    Ok(None)
}

/// Sends a backup; where it is then, and the bytes of its files that were sent.
pub(super) async fn send(
    bucket: &Bucket,
    backup: &Backup,
    is_full: bool,
    progress: &Progress,
) -> Result<(String, u64), BackupError> {
    let (folder, of) = (&backup.path, &backup.manifest);
    let newest = check(bucket, &of.history).await?;
    let there = bucket.files().await.map_err(refused)?;
    let named = named(newest.iter());
    let now_ms = Clock::system().now_ms();
    let mut missing = BTreeMap::new();
    for file in of.files() {
        let stored = there.get(&file.sha256);
        let is_relied_on = stored.is_some_and(|stored| {
            stored.bytes == file.bytes
                && (named.contains(&*file.sha256) || stored.since_ms + RELIED_ON_MS > now_ms)
        });
        if is_full || !is_relied_on {
            missing.insert(&*file.sha256, file);
        }
    }
    let bytes = missing.values().map(|file| file.bytes).sum();
    progress.begin_to_send(bytes);
    if faults::is_named("manifest_first") {
        write_manifest(bucket, folder).await?;
    }
    for (sha256, file) in missing {
        let path = folder.join(&file.path);
        let mut pass = |bytes: &[u8]| progress.pass_copied(bytes.len() as u64);
        bucket
            .send_file(&path, (sha256, file.bytes), &mut pass)
            .await
            .map_err(refused)?;
    }
    // Once more: somebody may have removed files meanwhile, or begun with another history.
    all_there(bucket, of).await?;
    check(bucket, &of.history).await?;
    write_manifest(bucket, folder).await?;
    Ok((placed(bucket, folder).place().to_string(), bytes))
}

/// Looks behind [`send`] whether the backup is whole, and takes it back if it is not: a `prune` may have looked which
/// files are needed before the backup was there.
pub(super) async fn confirm(bucket: &Bucket, backup: &Backup) -> Result<(), BackupError> {
    let whole = all_there(bucket, &backup.manifest).await;
    if whole.is_err() {
        let taken_back = placed(bucket, &backup.path).remove(BACKUP_MANIFEST).await;
        taken_back.map_err(refused)?;
    }
    whole
}

async fn all_there(bucket: &Bucket, of: &BackupManifest) -> Result<(), BackupError> {
    match lacking(of, &bucket.files().await.map_err(refused)?) {
        None => Ok(()),
        Some(what) => Err(BackupError::refused(format!(
            "{}: {what} in the bucket, though it was sent; try again",
            bucket.place()
        ))),
    }
}

/// The backup's own folder in the bucket.
fn placed(bucket: &Bucket, folder: &Path) -> Bucket {
    bucket.below(&folder.file_name().unwrap_or_default().to_string_lossy())
}

async fn write_manifest(bucket: &Bucket, folder: &Path) -> Result<(), BackupError> {
    let path = folder.join(BACKUP_MANIFEST);
    let text = fs::read(&path).map_err(|error| local("read", &path, &error))?;
    let to = placed(bucket, folder);
    match to.create(BACKUP_MANIFEST, &text.into()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(BackupError::refused(format!(
            "{} is a backup already, which was begun in the same millisecond; try again",
            to.place()
        ))),
        Err(error) => Err(refused(error)),
    }
}

/// The files that backups name, by their SHA-256.
pub(super) fn named<'m>(backups: impl Iterator<Item = &'m BackupManifest>) -> BTreeSet<&'m str> {
    let files = backups.flat_map(BackupManifest::files);
    files.map(|file| &*file.sha256).collect()
}

/// What a backup lacks among the files of a bucket, if it lacks something.
pub(super) fn lacking(of: &BackupManifest, there: &BTreeMap<String, Stored>) -> Option<String> {
    of.files()
        .iter()
        .find_map(|file| match there.get(&file.sha256) {
            Some(stored) if stored.bytes == file.bytes => None,
            Some(stored) => Some(format!(
                "{} has {} bytes instead of {}",
                file.path, stored.bytes, file.bytes
            )),
            None => Some(format!("{} is missing", file.path)),
        })
}
