//! Backups in a bucket of an S3-compatible store.
//!
//! ```text
//! s3://BUCKET/PREFIX/TIME/backup.json    as in a folder of backups; written last
//!                    files/SHA256        the files that these name, each once
//! ```
//!
//! Owns: what lies where, and in which order it is written. Promises: a backup is there whole, or not at all; where
//! backups of one history are, none of another is sent; a file that a backup needs is not removed, nor one that a
//! backup under way may need; each call can be repeated. Must not: know what is in the files, or how a store is asked.

mod fetch;
mod list;
mod prune;
mod send;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tideline_bucket::{Bucket, BucketError, BucketPlace};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::partition::{BACKUP_MANIFEST, Backup, BackupError, BackupManifest, Elsewhere, Progress};

pub use list::Listed;
pub use prune::Pruned;

/// How often a transfer looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A folder of backups in a bucket.
#[derive(Debug)]
pub struct Offsite {
    bucket: Bucket,
    runtime: Handle,
}

impl Offsite {
    /// The folder that a text names, asked by the current runtime, with the credentials of the environment.
    pub fn open(place: &BucketPlace) -> Result<Offsite, BackupError> {
        Ok(Offsite {
            bucket: Bucket::open(place, &|name| std::env::var(name).ok()).map_err(refused)?,
            runtime: Handle::current(),
        })
    }

    /// What a server sends its backups to, if its settings name it.
    pub fn of_server(setting: &str) -> Result<Option<Arc<dyn Elsewhere>>, BackupError> {
        if setting.is_empty() {
            return Ok(None);
        }
        let place = BucketPlace::read(setting).map_err(refused)?;
        Ok(Some(Arc::new(Offsite::open(&place)?)))
    }

    /// The folder of this name in it; an empty name is the folder itself.
    fn below(&self, name: &str) -> Bucket {
        self.bucket.below(name)
    }
}

impl Elsewhere for Offsite {
    fn check(&self, target: &str, history: &str, progress: &Progress) -> Result<(), BackupError> {
        let bucket = self.below(target);
        let checked = until_cancelled(progress, send::check(&bucket, history));
        self.runtime.block_on(checked).map(drop)
    }

    fn send(
        &self,
        target: &str,
        backup: &Backup,
        is_full: bool,
        progress: &Progress,
    ) -> Result<(String, u64), BackupError> {
        let bucket = self.below(target);
        let sent = send::send(&bucket, backup, is_full, progress);
        let sent = self.runtime.block_on(until_cancelled(progress, sent))?;
        // It is there now: that it is whole is looked at whoever cancels.
        self.runtime.block_on(send::confirm(&bucket, backup))?;
        Ok(sent)
    }
}

/// The manifest of a backup in a folder; `None` = there is no such backup.
async fn manifest(
    bucket: &Bucket,
    name: &str,
) -> Result<Option<Result<BackupManifest, BackupError>>, BackupError> {
    let at = bucket.below(name);
    let text = at.read(BACKUP_MANIFEST).await.map_err(refused)?;
    Ok(text.map(|text| BackupManifest::parse(&text, at.place())))
}

/// What comes of a call, unless it is cancelled first.
async fn until_cancelled<T>(
    progress: &Progress,
    call: impl Future<Output = Result<T, BackupError>>,
) -> Result<T, BackupError> {
    let cancelled = async {
        while !progress.is_cancelled() {
            sleep(LOOK_EVERY).await;
        }
    };
    let done = tokio::select! {
        done = call => done,
        () = cancelled => Err(BackupError::Cancelled),
    };
    match progress.is_cancelled() && done.is_err() {
        true => Err(BackupError::Cancelled),
        false => done,
    }
}

fn refused(error: BucketError) -> BackupError {
    BackupError::refused(error.to_string())
}

fn local(what: &str, path: &std::path::Path, error: &io::Error) -> BackupError {
    BackupError::refused(format!("{what} {}: {error}", path.display()))
}
