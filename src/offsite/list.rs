//! The backups in a folder of a bucket.
//!
//! Owns: the list. Promises: one whose files are not all there, or whose `backup.json` can't be read, is in it with the
//! reason. Must not: read a file's bytes.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tideline_bucket::{Bucket, Stored};

use super::{Offsite, manifest, refused, send};
use crate::partition::{BackupError, BackupManifest};

/// Manifests that are read at once.
const AT_ONCE: usize = 8;

/// A backup in a bucket.
#[derive(Debug)]
pub struct Listed {
    /// Its name in the folder.
    pub name: String,
    /// Where it is.
    pub place: String,
    /// What it is, or why it can't be read.
    pub manifest: Result<BackupManifest, BackupError>,
    /// What it lacks.
    pub lacks: Option<String>,
}

impl Listed {
    /// Whether it can be restored, as far as a list shows it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.manifest.is_ok() && self.lacks.is_none()
    }
}

impl Offsite {
    /// The backups in the folder, the oldest first.
    pub async fn listed(&self) -> Result<Vec<Listed>, BackupError> {
        let there = self.bucket.files().await.map_err(refused)?;
        listed(&self.bucket, &there).await
    }
}

pub(super) async fn listed(
    bucket: &Bucket,
    there: &BTreeMap<String, Stored>,
) -> Result<Vec<Listed>, BackupError> {
    let names = stream::iter(bucket.folders().await.map_err(refused)?);
    let read = names.map(async |name| Ok::<_, BackupError>((manifest(bucket, &name).await?, name)));
    let read: Vec<_> = read.buffered(AT_ONCE).try_collect().await?;
    let listed = read.into_iter().filter_map(|(manifest, name)| {
        let manifest = manifest?;
        let lacks = manifest
            .as_ref()
            .ok()
            .and_then(|of| send::lacking(of, there));
        Some(Listed {
            place: bucket.below(&name).place().to_string(),
            name,
            manifest,
            lacks,
        })
    });
    // By their names, which are times: those that can't be read have a place, too.
    Ok(listed.collect())
}
