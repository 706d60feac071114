//! `tideline backup`: from data to a backup in a folder or a bucket; which there are, and which can go.
//!
//! Owns: the arguments, and what is printed. Promises: one line says what was made, and where; a failure leaves nothing
//! half done. Must not: know what a backup is made of; `src/store/partition/backup/` and `src/offsite/` do.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::json;
use tideline_bucket::BucketPlace;
use tokio::time::{Instant, sleep, sleep_until};

use super::remote::{Remote, RemoteError, RunningServer};
use super::secrets::SecretsArgs;
use crate::clock::Clock;
use crate::config::{Config, ConfigFile};
use crate::data_directory::Store;
use crate::metrics::Metrics;
use crate::offsite::Offsite;
use crate::partition::{
    Backup, BackupError, BackupManifest, Elsewhere as _, OpenError, Partitions, Passphrase,
    Progress, directory_map, listed_backups, prune_backups, remove_place, time_text,
};
use crate::wire::server::backup::{self as told, BackupState, StatusNow};

/// What is backed up, and where to.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "tideline backup [OPTIONS] <TARGET>\n       \
    tideline backup list <FOLDER>\n       \
    tideline backup prune --keep <NUMBER> <FOLDER>")]
#[command(after_help = BUCKETS)]
pub struct BackupArgs {
    /// What else is done with backups.
    #[command(subcommand)]
    what: Option<BackupCommand>,
    /// The folder that backups go to, or s3://BUCKET/PREFIX; each is a folder in it, named after the time. With --url
    /// its name below the server's `backup_directory` or `backup_bucket`.
    #[arg(required = true)]
    target: Option<String>,
    /// Copy all, also what is the same in the backup before. Without it such files are shared, as hard links.
    #[arg(long)]
    full: bool,
    /// Make one every so often, as in 1m or 6h, until the command is ended: the newest is never older than that, if one
    /// takes no longer than those before. A failure is told, and the next one tried.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "url")]
    every: Option<Duration>,
    /// The data directory, if no server uses it [default: that of the settings].
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub data: Option<PathBuf>,
    /// MiB a second to copy at most, and to send; 0 = no bound [default: with --url as the server's settings say, else
    /// no bound].
    #[arg(long, value_name = "MIB")]
    rate: Option<u32>,
    #[command(flatten)]
    secrets: SecretsArgs,
    #[command(flatten)]
    server: RunningServer,
    /// The settings of the directory's server.
    #[command(flatten)]
    pub settings: ConfigFile,
}

/// Behind the options, because it holds for the arguments of all.
pub(super) const BUCKETS: &str = "\
A bucket of an S3-compatible store is asked with what the environment has: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, \
where they are needed, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and AWS_CA_BUNDLE (a PEM file).";

/// What is done with backups that were made.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Print the backups in a folder, the oldest first.
    List {
        /// The folder, or s3://BUCKET/PREFIX.
        folder: PathBuf,
    },
    /// Remove the oldest backups of a folder. Those that are kept need nothing of them.
    Prune {
        /// The folder, or s3://BUCKET/PREFIX.
        folder: PathBuf,
        /// How many are kept.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
}

/// Makes a backup.
pub async fn backup(
    config: &Config,
    args: &BackupArgs,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    match &args.what {
        Some(BackupCommand::List { folder }) => return list(folder, out).await,
        Some(BackupCommand::Prune { folder, keep }) => {
            return prune(folder, *keep as usize, out).await;
        }
        None => {}
    }
    let target = args.target.as_deref().unwrap_or_default();
    let asked = Asked {
        target,
        is_full: args.full,
        bytes_per_s: args.rate.map(|mib| u64::from(mib) << 20),
    };
    if args.server.url.is_some() && BucketPlace::is_meant(target) {
        return Err(format!(
            "a running server sends backups where its settings say: set backup_bucket = \"{target}\" there, and name a folder in it instead"
        )
        .into());
    }
    if args.server.url.is_some() && args.secrets.are_meant() {
        return Err(
            "a running server seals secrets as its settings say: set backup_passphrase_file there, and leave out --secrets"
                .into(),
        );
    }
    let Some(mut server) = args.server.open().await? else {
        return of_directory(config, &asked, args.secrets.passphrase()?, out).await;
    };
    let Some(every) = args.every else {
        return of_served(&mut server, &asked, out).await;
    };
    drop(server);
    // How long one takes: the longest of late, for now and then an image is copied anew.
    let mut took = Duration::ZERO;
    loop {
        let began = Instant::now();
        let made = async {
            let server = args.server.open().await?;
            let mut server = server.ok_or("no server is named")?;
            of_served(&mut server, &asked, out).await
        };
        if let Err(error) = made.await {
            writeln!(io::stderr(), "tideline: {error}")?;
        }
        out.flush()?;
        took = began.elapsed().max(took.mul_f64(0.9));
        // The next one is there before this one is as old as that, if it takes no longer.
        sleep_until(began + every.saturating_sub(took)).await;
    }
}

/// What is asked for.
struct Asked<'a> {
    target: &'a str,
    is_full: bool,
    bytes_per_s: Option<u64>,
}

/// A folder of a bucket, if a path is meant to be one.
pub(super) fn bucket_of(path: &Path) -> Result<Option<BucketPlace>, RemoteError> {
    let text = path.to_str().filter(|text| BucketPlace::is_meant(text));
    Ok(text.map(BucketPlace::read).transpose()?)
}

async fn list(folder: &Path, out: &mut dyn Write) -> Result<(), RemoteError> {
    if let Some(place) = bucket_of(folder)? {
        for one in Offsite::open(&place)?.listed().await? {
            match &one.lacks {
                Some(what) => writeln!(out, "{}: not whole: {what}", one.place)?,
                None => tell_listed(&one.place, &one.manifest, out)?,
            }
        }
        return Ok(());
    }
    for (path, read) in listed_backups(folder)? {
        tell_listed(&path.display(), &read, out)?;
    }
    Ok(())
}

fn tell_listed(
    at: &dyn fmt::Display,
    read: &Result<BackupManifest, BackupError>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match read {
        Ok(read) => {
            let (bytes, as_of) = (read.bytes(), time_text(read.as_of_ms));
            writeln!(out, "{at}: {bytes} bytes, as of {as_of}")
        }
        Err(error) => writeln!(out, "{at}: {error}"),
    }
}

async fn prune(folder: &Path, keep: usize, out: &mut dyn Write) -> Result<(), RemoteError> {
    if let Some(place) = bucket_of(folder)? {
        let pruned = Offsite::open(&place)?.prune(keep).await?;
        for at in pruned.backups {
            writeln!(out, "removed {at}")?;
        }
        let (files, bytes) = (pruned.files, pruned.bytes);
        writeln!(
            out,
            "removed {files} files that no backup needs, {bytes} bytes"
        )?;
        return Ok(());
    }
    for path in prune_backups(folder, keep)? {
        writeln!(out, "removed {}", path.display())?;
    }
    Ok(())
}

async fn of_directory(
    config: &Config,
    asked: &Asked<'_>,
    passphrase: Option<Passphrase>,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let bucket = bucket_of(Path::new(asked.target))?;
    let bucket = bucket.as_ref().map(Offsite::open).transpose()?;
    if directory_map(&config.data)?.is_none() {
        let path = config.data.clone();
        return Err(OpenError::NothingThere { path }.into());
    }
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let store = Store::open(config, &Arc::default(), &metrics, &clock).await?;
    let partitions = store.partitions.clone();
    drop(store);
    let (taken, to) = (partitions.clone(), PathBuf::from(asked.target));
    let (is_full, bytes_per_s) = (asked.is_full, asked.bytes_per_s.unwrap_or(0));
    let staging = staging_of(&config.data);
    let made = tokio::task::spawn_blocking(move || {
        let progress = Progress::new(bytes_per_s);
        let by = (VERSION, passphrase.as_ref());
        match bucket {
            Some(bucket) => sent(&taken, (&bucket, by), &staging, is_full, &progress),
            None => {
                let made = taken.back_up(&to, by, is_full, &progress)?;
                Ok((made.path.display().to_string(), made))
            }
        }
    });
    let made = made.await;
    partitions.close().await;
    let (at, made) = made?.map_err(|error: BackupError| error)?;
    let of = (made.manifest.bytes(), made.new_bytes);
    tell_made(&at, of, made.manifest.as_of_ms, out)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder beside a data directory where a backup of it is made that is sent elsewhere.
fn staging_of(data: &Path) -> PathBuf {
    let whole = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push(".backup-staging");
    whole.with_file_name(name)
}

/// Makes a backup beside the data directory, sends it, and removes it there.
fn sent(
    partitions: &Partitions,
    (bucket, by): (&Offsite, (&str, Option<&Passphrase>)),
    staging: &Path,
    is_full: bool,
    progress: &Progress,
) -> Result<(String, Backup), BackupError> {
    bucket.check("", &partitions.history().to_string(), progress)?;
    let made = partitions.back_up_to_send(staging, by, is_full, progress);
    let sent = made.and_then(|mut made| {
        let (at, new_bytes) = bucket.send("", &made, is_full, progress)?;
        made.new_bytes = new_bytes;
        Ok((at, made))
    });
    remove_place(staging)?;
    sent
}

fn tell_made(
    path: &dyn fmt::Display,
    (bytes, new_bytes): (u64, u64),
    as_of_ms: u64,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let at = time_text(as_of_ms);
    Ok(writeln!(
        out,
        "{path}: {bytes} bytes, {new_bytes} of them new, as of {at}"
    )?)
}

/// Has a running server make one, and waits until it is made.
async fn of_served(
    server: &mut Remote,
    asked: &Asked<'_>,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let mut params = json!({ "target": asked.target, "full": asked.is_full });
    if let Some(bytes_per_s) = asked.bytes_per_s {
        params["bytes_per_s"] = json!(bytes_per_s);
    }
    server.call::<IgnoredAny>("backup.start", params).await?;
    let mut since = None;
    loop {
        let now: StatusNow = server.call("backup.status", json!({})).await?;
        let Some(now) = now.backup else {
            return Err("the server was started anew meanwhile".into());
        };
        // The server knows the last one only.
        if now.target != asked.target || *since.get_or_insert(now.since) != now.since {
            let other = now.target;
            return Err(format!(
                "another backup, to {other}, has begun before it was seen what came of this one: look for this one in its \
                 folder, or make it again"
            )
            .into());
        }
        match now.state {
            BackupState::Done => {
                let path = now.path.unwrap_or_default();
                let of = (now.bytes.unwrap_or(0), now.new_bytes.unwrap_or(0));
                return tell_made(&path, of, now.as_of.unwrap_or(0), out);
            }
            BackupState::Cancelled => return Err("the backup was cancelled".into()),
            BackupState::Failed => return Err(now.error.unwrap_or_default().into()),
            BackupState::Waiting
            | BackupState::Copying
            | BackupState::Verifying
            | BackupState::Sending => {
                tell(&now)?;
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How far it is, on one line of a terminal.
fn tell(backup: &told::Backup) -> io::Result<()> {
    let mut to = io::stderr();
    if !to.is_terminal() {
        return Ok(());
    }
    let what = match backup.state {
        BackupState::Waiting => "waiting for a split or merge".to_owned(),
        BackupState::Verifying => "verifying".to_owned(),
        BackupState::Sending => {
            format!("sent {} of {} MiB", backup.done >> 20, backup.total >> 20)
        }
        _ => format!("{} of about {} MiB", backup.done >> 20, backup.total >> 20),
    };
    write!(to, "\r\x1b[K{what}\r")?;
    to.flush()
}
