//! A backup in a bucket, on its way to a disk, or only read.
//!
//! Owns: that way. Promises: each file has the SHA-256 that `backup.json` says. Must not: write anywhere but below the
//! folder that it is given.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tideline_bucket::{BucketPlace, FetchError};

use super::{Offsite, local, manifest, refused};
use crate::partition::{BackupError, BackupManifest, ListedFile};

/// Files that are read at once.
const AT_ONCE: usize = 4;

impl Offsite {
    /// What a backup in the folder is.
    pub async fn manifest(&self, name: &str) -> Result<BackupManifest, BackupError> {
        let found = manifest(&self.bucket, name).await?;
        found.unwrap_or_else(|| {
            Err(BackupError::refused(format!(
                "{} is not a backup, because it has no backup.json; name one that `tideline backup list` prints",
                self.below(name).place()
            )))
        })
    }

    /// Reads all files of a backup, and writes them below a folder, if there is one.
    pub async fn fetch(
        &self,
        name: &str,
        of: &BackupManifest,
        to: Option<&Path>,
    ) -> Result<(), BackupError> {
        let bucket = self.below(name);
        let place = bucket.place();
        let all = stream::iter(of.files()).map(|file| self.fetch_one(place, file, to));
        all.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn fetch_one(
        &self,
        place: &BucketPlace,
        file: &ListedFile,
        to: Option<&Path>,
    ) -> Result<(), BackupError> {
        let path = to.map(|to| to.join(&file.path));
        let mut opened = None;
        if let Some(path) = &path {
            opened = Some(create(path).map_err(|error| local("write", path, &error))?);
        }
        let mut write = |piece: &[u8]| match &mut opened {
            Some(file) => file.write_all(piece),
            None => Ok(()),
        };
        let of = (&*file.sha256, file.bytes);
        let fetched = self.bucket.fetch_file(of, &mut write).await;
        fetched.map_err(|error| match error {
            FetchError::Spoilt(what) => BackupError::refused(format!(
                "the backup {place} is not whole: {} {what}; take another backup, with --full",
                file.path
            )),
            FetchError::Local(error) => local(
                "write",
                path.as_deref().unwrap_or_else(|| Path::new("")),
                &error,
            ),
            FetchError::Store(error) => refused(error),
        })
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)
}
