//! `tideline restore`: from a backup in a folder or a bucket to a data directory; and how `tideline verify` takes one.
//!
//! Owns: the arguments, and what is printed. Promises: a failure leaves nothing half done. Must not: know what a backup
//! is made of; `src/store/partition/backup/` and `src/offsite/` do.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clap::Args;
use tideline_bucket::BucketPlace;
use tokio::runtime::Runtime;

use super::backup::{BUCKETS, bucket_of};
use super::remote::RemoteError;
use super::secrets::SecretsArgs;
use crate::config::ConfigFile;
use crate::ids::{PartitionId, Position};
use crate::offsite::Offsite;
use crate::partition::{
    BACKUP_DATA, BACKUP_MANIFEST, BackupError, BackupManifest, Fetched, Progress, RestorePoint,
    restore, restore_fetched, time_text,
};
use crate::people::People;
use crate::table::Catalog;
use crate::timeline::Limits;

/// What is restored, and where to.
#[derive(Debug, Args)]
#[command(after_help = BUCKETS)]
pub struct RestoreArgs {
    /// The folder of one backup, or s3://BUCKET/PREFIX/TIME.
    source: PathBuf,
    /// The data directory to make: an empty folder, or none yet.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Leave out all that was committed later, as in 2026-11-26T21:30:00Z, or ms since 1970.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<u64>,
    /// Leave out what a partition has behind a position, as in 0:1234, and of other partitions what was committed after
    /// the batch at that position.
    #[arg(long, value_name = "PARTITION:POSITION", value_parser = position, conflicts_with = "to")]
    to_position: Option<(PartitionId, Position)>,
    #[command(flatten)]
    secrets: SecretsArgs,
    /// The settings of the directory's server.
    #[command(flatten)]
    pub settings: ConfigFile,
}

fn time(text: &str) -> Result<u64, String> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    let wrong =
        || format!("`{text}` is neither a time like 2026-11-26T21:30:00Z nor ms since 1970");
    let at = humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?;
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    u64::try_from(since.as_millis()).map_err(|_| wrong())
}

fn position(text: &str) -> Result<(PartitionId, Position), String> {
    let read = text
        .split_once(':')
        .and_then(|(partition, position)| Some((partition.parse().ok()?, position.parse().ok()?)));
    let (partition, position) =
        read.ok_or_else(|| format!("`{text}` is no position of a partition, as in 0:1234"))?;
    Ok((PartitionId(partition), Position(position)))
}

/// Makes a data directory of a backup.
pub fn restored(
    args: &RestoreArgs,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let rules = People::rules(limits, Catalog::default());
    let point = match (args.to, args.to_position) {
        (Some(to_ms), _) => RestorePoint::Time(to_ms),
        (None, Some((id, at))) => RestorePoint::Position(id, at),
        (None, None) => RestorePoint::End,
    };
    let passphrase = args.secrets.passphrase()?;
    let with = (point, passphrase.as_ref());
    let done = match bucket_of(&args.source)? {
        Some(place) => {
            let (runtime, offsite, name) = in_bucket(&place)?;
            let manifest = runtime.block_on(offsite.manifest(&name))?;
            let of = manifest.clone();
            let fetch = &mut |to: &Path| runtime.block_on(offsite.fetch(&name, &of, Some(to)));
            restore_fetched(Fetched { manifest, fetch }, &args.data, with, &rules)?
        }
        None => restore(&args.source, &args.data, with, &rules)?,
    };
    for (id, position) in &done.partitions {
        writeln!(out, "partition {id}: to {position}")?;
    }
    if let Some(count) = done.secrets {
        writeln!(out, "secrets of {count} keys")?;
    }
    let at = time_text(done.as_of_ms);
    let (data, history) = (args.data.display(), done.history);
    Ok(writeln!(
        out,
        "{data}: as of {at}, with the new history {history}"
    )?)
}

/// The folder that has a backup, and its name there.
fn in_bucket(place: &BucketPlace) -> Result<(Runtime, Offsite, String), RemoteError> {
    let (folder, name) = place.above().ok_or_else(|| {
        BackupError::refused(format!(
            "{place} is a bucket; name one backup in it, which `tideline backup list` prints"
        ))
    })?;
    let runtime = Runtime::new()?;
    let within = runtime.enter();
    let offsite = Offsite::open(&folder)?;
    drop(within);
    Ok((runtime, offsite, name.to_owned()))
}

/// Finds the data directory to verify, and says whether it lies in a backup. The files of a backup are held against its
/// manifest first; in a bucket that is all: `None`.
pub fn checked(path: &Path, out: &mut dyn Write) -> Result<Option<(PathBuf, bool)>, RemoteError> {
    if let Some(place) = bucket_of(path)? {
        let (runtime, offsite, name) = in_bucket(&place)?;
        let manifest = runtime.block_on(offsite.manifest(&name))?;
        runtime.block_on(offsite.fetch(&name, &manifest, None))?;
        tell_checked(&manifest, out)?;
        return Ok(None);
    }
    if !path.join(BACKUP_MANIFEST).exists() {
        return Ok(Some((path.to_owned(), false)));
    }
    let manifest = BackupManifest::read(path)?;
    manifest.check_files(path, &Progress::new(0))?;
    tell_checked(&manifest, out)?;
    Ok(Some((path.join(BACKUP_DATA), true)))
}

fn tell_checked(manifest: &BackupManifest, out: &mut dyn Write) -> std::io::Result<()> {
    let (bytes, at) = (manifest.bytes(), time_text(manifest.as_of_ms));
    let (history, server) = (&manifest.history, &manifest.server);
    writeln!(
        out,
        "a backup of history {history}, as of {at}, made by {server}: {bytes} bytes, every checksum fits"
    )?;
    match manifest.has_secrets() {
        true => writeln!(out, "secrets are in it, sealed with a passphrase"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_ms() {
        assert_eq!(time("1793180000000"), Ok(1_793_180_000_000));
        assert_eq!(time("1970-01-02T00:00:00Z"), Ok(86_400_000));
        assert_eq!(time("1970-01-01 00:00:01.500"), Ok(1_500));
        for wrong in ["", "yesterday", "1970-13-01", "-5"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_position_is_that_of_a_partition() {
        assert_eq!(position("3:17"), Ok((PartitionId(3), Position(17))));
        for wrong in ["", "17", "3:", ":17", "3:x", "70000:1", "3:-1", "3:1:1"] {
            assert!(position(wrong).is_err(), "{wrong}");
        }
    }
}
