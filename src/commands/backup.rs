//! `tideline backup` and `tideline restore`: from data to a backup, and back.
//!
//! Owns: the arguments, and what is printed. Promises: one line says what was made, and where; a failure leaves nothing
//! half done. Must not: know what a backup is made of; `src/store/partition/backup/` does.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::remote::{Remote, RemoteError, RunningServer};
use crate::clock::Clock;
use crate::config::{Config, ConfigFile};
use crate::data_directory::Store;
use crate::metrics::Metrics;
use crate::partition::{
    BACKUP_DATA, BACKUP_MANIFEST, BackupManifest, OpenError, Progress, directory_map,
    listed_backups, prune_backups, restore, time_text,
};
use crate::people::People;
use crate::table::Catalog;
use crate::timeline::Limits;
use crate::wire::server::backup::{Backup, BackupState, StatusNow};

/// What is backed up, and where to.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "tideline backup [OPTIONS] <TARGET>\n       \
    tideline backup list <FOLDER>\n       \
    tideline backup prune --keep <NUMBER> <FOLDER>")]
pub struct BackupArgs {
    /// What else is done with backups.
    #[command(subcommand)]
    what: Option<BackupCommand>,
    /// The folder that backups go to; each is a folder in it, named after the time. With --url its name below the
    /// server's `backup_directory`.
    #[arg(required = true)]
    target: Option<String>,
    /// Copy all, also what is the same in the backup before. Without it such files are shared, as hard links.
    #[arg(long)]
    full: bool,
    /// Make one every so often, as in 1m or 6h, until the command is ended; a failure is told, and the next one tried.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "url")]
    every: Option<Duration>,
    /// The data directory, if no server uses it [default: that of the settings].
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub data: Option<PathBuf>,
    /// MiB a second to copy at most; 0 = no bound [default: with --url as the server's settings say, else no bound].
    #[arg(long, value_name = "MIB")]
    rate: Option<u32>,
    #[command(flatten)]
    server: RunningServer,
    /// The settings of the directory's server.
    #[command(flatten)]
    pub settings: ConfigFile,
}

/// What is done with backups that were made.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Print the backups in a folder, the oldest first.
    List {
        /// The folder.
        folder: PathBuf,
    },
    /// Remove the oldest backups of a folder. Those that are kept need nothing of them.
    Prune {
        /// The folder.
        folder: PathBuf,
        /// How many are kept.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        keep: u32,
    },
}

/// What is restored, and where to.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The folder of one backup.
    source: PathBuf,
    /// The data directory to make: an empty folder, or none yet.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Leave out all that was committed later, as in 2026-11-26T21:30:00Z, or ms since 1970.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<u64>,
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

/// Makes a backup.
pub async fn backup(
    config: &Config,
    args: &BackupArgs,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    match &args.what {
        Some(BackupCommand::List { folder }) => return list(folder, out),
        Some(BackupCommand::Prune { folder, keep }) => {
            for path in prune_backups(folder, *keep as usize)? {
                writeln!(out, "removed {}", path.display())?;
            }
            return Ok(());
        }
        None => {}
    }
    let target = args.target.as_deref().unwrap_or_default();
    let asked = Asked {
        target,
        is_full: args.full,
        bytes_per_s: args.rate.map(|mib| u64::from(mib) << 20),
    };
    let Some(mut server) = args.server.open().await? else {
        return of_directory(config, &asked, out).await;
    };
    let Some(every) = args.every else {
        return of_served(&mut server, &asked, out).await;
    };
    drop(server);
    loop {
        let next = Instant::now() + every;
        let made = async {
            let server = args.server.open().await?;
            let mut server = server.ok_or("no server is named")?;
            of_served(&mut server, &asked, out).await
        };
        if let Err(error) = made.await {
            writeln!(io::stderr(), "tideline: {error}")?;
        }
        out.flush()?;
        sleep_until(next).await;
    }
}

/// What is asked for.
struct Asked<'a> {
    target: &'a str,
    is_full: bool,
    bytes_per_s: Option<u64>,
}

fn list(folder: &Path, out: &mut dyn Write) -> Result<(), RemoteError> {
    for (path, read) in listed_backups(folder)? {
        let path = path.display();
        match read {
            Ok(read) => writeln!(
                out,
                "{path}: {} bytes, as of {}",
                read.bytes(),
                time_text(read.as_of_ms)
            )?,
            Err(error) => writeln!(out, "{path}: {error}")?,
        }
    }
    Ok(())
}

async fn of_directory(
    config: &Config,
    asked: &Asked<'_>,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
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
    let made = tokio::task::spawn_blocking(move || {
        let progress = Progress::new(bytes_per_s);
        taken.back_up(&to, env!("CARGO_PKG_VERSION"), is_full, &progress)
    });
    let made = made.await;
    partitions.close().await;
    let made = made??;
    let of = (made.manifest.bytes(), made.new_bytes);
    tell_made(&made.path.display(), of, made.manifest.as_of_ms, out)
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
    loop {
        let now: StatusNow = server.call("backup.status", json!({})).await?;
        let Some(now) = now.backup else {
            return Err("the server was started anew meanwhile".into());
        };
        match now.state {
            BackupState::Done => {
                let path = now.path.unwrap_or_default();
                let of = (now.bytes.unwrap_or(0), now.new_bytes.unwrap_or(0));
                return tell_made(&path, of, now.as_of.unwrap_or(0), out);
            }
            BackupState::Cancelled => return Err("the backup was cancelled".into()),
            BackupState::Failed => return Err(now.error.unwrap_or_default().into()),
            BackupState::Waiting | BackupState::Copying | BackupState::Verifying => {
                tell(&now)?;
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How far it is, on one line of a terminal.
fn tell(backup: &Backup) -> io::Result<()> {
    let mut to = io::stderr();
    if !to.is_terminal() {
        return Ok(());
    }
    let what = match backup.state {
        BackupState::Waiting => "waiting for a split or merge".to_owned(),
        BackupState::Verifying => "verifying".to_owned(),
        _ => format!("{} of about {} MiB", backup.done >> 20, backup.total >> 20),
    };
    write!(to, "\r\x1b[K{what}\r")?;
    to.flush()
}

/// Makes a data directory of a backup.
pub fn restored(
    args: &RestoreArgs,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let rules = People::rules(limits, Catalog::default());
    let done = restore(&args.source, &args.data, args.to, &rules)?;
    for (id, position) in &done.partitions {
        writeln!(out, "partition {id}: to {position}")?;
    }
    let at = time_text(args.to.unwrap_or(done.manifest.as_of_ms));
    let (data, history) = (args.data.display(), done.history);
    Ok(writeln!(
        out,
        "{data}: as of {at}, with the new history {history}"
    )?)
}

/// Finds the data directory to verify, and says whether it lies in a backup. The files of a backup are held against its
/// manifest first.
pub fn checked(path: &Path, out: &mut dyn Write) -> Result<(PathBuf, bool), RemoteError> {
    if !path.join(BACKUP_MANIFEST).exists() {
        return Ok((path.to_owned(), false));
    }
    let manifest = BackupManifest::read(path)?;
    manifest.check_files(path, &Progress::new(0))?;
    let (bytes, at) = (manifest.bytes(), time_text(manifest.as_of_ms));
    let (history, server) = (&manifest.history, &manifest.server);
    writeln!(
        out,
        "a backup of history {history}, as of {at}, made by {server}: {bytes} bytes, every checksum fits"
    )?;
    Ok((path.join(BACKUP_DATA), true))
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn a_time_is_a_date_or_ms() {
        assert_eq!(time("1793180000000"), Ok(1_793_180_000_000));
        assert_eq!(time("1970-01-02T00:00:00Z"), Ok(86_400_000));
        assert_eq!(time("1970-01-01 00:00:01.500"), Ok(1_500));
        for wrong in ["", "yesterday", "1970-13-01", "-5"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
