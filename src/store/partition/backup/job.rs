//! The backup that a server makes for a caller, on a thread of its own.
//!
//! Owns: which backup is under way, and what came of the last one. Promises: one at a time; it goes on when its caller
//! goes away; it is made below the configured folder, so that no caller can have files written elsewhere. Must not:
//! know who may ask for it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;

use super::super::Partitions;
use super::super::panics::caught;
use super::place::{clear_others, folder, prune};
use super::progress::Progress;
use super::{Backup, BackupError, Passphrase};
use tideline_base::clock::Clock;
use tideline_base::metrics;

/// In the configured folder, where backups are made that go elsewhere.
const STAGING: &str = ".staging";

/// Makes backups for callers. Cheap to clone.
#[derive(Clone)]
pub struct Backups {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Partitions,
    options: BackupOptions,
    clock: Arc<Clock>,
    tasks: TaskTracker,
    metrics: metrics::Backups,
    last: Mutex<Option<BackupJob>>,
    is_stopping: AtomicBool,
}

/// Where backups go, and how fast.
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    /// The folder that they are made below; `None` = none is made for a caller.
    pub directory: Option<PathBuf>,
    /// Where they are sent from there; then only the newest stays in the folder, as what the next one shares.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Bytes a second, where a caller says nothing else; 0 = no bound.
    pub bytes_per_s: u64,
    /// The program's version.
    pub version: &'static str,
    /// What secrets are sealed with; `None` = they are left out.
    pub passphrase: Option<Passphrase>,
}

/// A place beyond this machine that backups are sent to. Its calls block.
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// Refuses what could not be sent to a folder there, before anything is made: backups of another history, no
    /// access.
    fn check(&self, target: &str, history: &str, progress: &Progress) -> Result<(), BackupError>;

    /// Sends a backup to a folder there, with `is_full` also what is there already; it is there whole, or not at all.
    /// Where it is, and the bytes that were sent.
    fn send(
        &self,
        target: &str,
        backup: &Backup,
        is_full: bool,
        progress: &Progress,
    ) -> Result<(String, u64), BackupError>;
}

/// A backup, under way or ended.
#[derive(Clone, Debug)]
pub struct BackupJob {
    /// The folder below the configured one.
    pub target: String,
    /// When it was asked for, ms.
    pub since_ms: u64,
    /// How far it is.
    pub progress: Arc<Progress>,
    /// What came of it; `None` = it is under way.
    pub outcome: Option<BackupOutcome>,
}

/// What came of a backup.
#[derive(Clone, Debug)]
pub enum BackupOutcome {
    /// It was made.
    Made {
        /// What it is; where, on this machine.
        backup: Arc<Backup>,
        /// Where it is for good.
        at: String,
    },
    /// It was cancelled.
    Cancelled,
    /// It failed, for this reason.
    Failed(String),
}

/// Why a backup does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupRefusal {
    /// No folder is configured.
    NoDirectory,
    /// Not a plain name.
    BadName,
    /// Another one is under way, or the server stops.
    Busy,
}

impl Backups {
    /// Nothing is under way.
    #[must_use]
    pub fn new(
        partitions: &Partitions,
        options: BackupOptions,
        clock: &Arc<Clock>,
        tasks: &TaskTracker,
    ) -> Backups {
        let inner = Arc::new(Inner {
            partitions: partitions.clone(),
            options,
            clock: Arc::clone(clock),
            tasks: tasks.clone(),
            metrics: partitions.metrics().backups(),
            last: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        Backups { inner }
    }

    /// Begins a backup to a folder below the configured one, on the current runtime; [`Backups::last`] says how far it
    /// is.
    pub fn start(
        &self,
        target: &str,
        is_full: bool,
        bytes_per_s: Option<u64>,
    ) -> Result<(), BackupRefusal> {
        let inner = &self.inner;
        let Some(directory) = &inner.options.directory else {
            return Err(BackupRefusal::NoDirectory);
        };
        if !is_plain(target) {
            return Err(BackupRefusal::BadName);
        }
        let progress = Progress::new(bytes_per_s.unwrap_or(inner.options.bytes_per_s));
        let progress = Arc::new(progress);
        let mut last = self.job();
        let is_busy = last.as_ref().is_some_and(|job| job.outcome.is_none());
        if is_busy || inner.is_stopping.load(Ordering::Acquire) {
            return Err(BackupRefusal::Busy);
        }
        *last = Some(BackupJob {
            target: target.to_owned(),
            since_ms: inner.clock.now_ms(),
            progress: Arc::clone(&progress),
            outcome: None,
        });
        drop(last);
        let (backups, target) = (self.clone(), target.to_owned());
        let to = match inner.options.elsewhere {
            // No target has this name: backups that were made for this folder stay.
            Some(_) => directory.join(STAGING).join(&target),
            None => directory.join(&target),
        };
        inner
            .tasks
            .spawn_blocking(move || backups.run(&target, &to, is_full, &progress));
        Ok(())
    }

    /// The backup that is under way, or the last one since the start.
    #[must_use]
    pub fn last(&self) -> Option<BackupJob> {
        self.job().clone()
    }

    /// Ends the backup that is under way; whether there was one. Nothing of it stays.
    pub fn cancel(&self) -> bool {
        let job = self.last().filter(|job| job.outcome.is_none());
        job.inspect(|job| job.progress.cancel()).is_some()
    }

    /// Ends the backup that is under way, and begins none any more.
    pub fn stop(&self) {
        let last = self.job();
        self.inner.is_stopping.store(true, Ordering::Release);
        drop(last);
        self.cancel();
    }

    fn run(&self, target: &str, to: &Path, is_full: bool, progress: &Progress) {
        let inner = &self.inner;
        inner.metrics.running.count(1);
        let made = caught("a backup", || self.made(target, to, is_full, progress));
        inner.metrics.running.count(0);
        let outcome = match made {
            Some(Ok((backup, at))) => {
                let bytes = backup.manifest.bytes();
                tracing::info!(%at, bytes, new_bytes = backup.new_bytes, "a backup was made");
                inner.metrics.made.increment(1);
                inner.metrics.newest.count(backup.manifest.as_of_ms / 1_000);
                inner.metrics.bytes.count(bytes);
                let backup = Arc::new(backup);
                BackupOutcome::Made { backup, at }
            }
            Some(Err(BackupError::Cancelled)) => {
                tracing::info!(target, "a backup was cancelled");
                BackupOutcome::Cancelled
            }
            Some(Err(error)) => {
                tracing::error!(%error, target, "a backup has failed");
                BackupOutcome::Failed(error.to_string())
            }
            None => {
                inner.partitions.metrics().server.panics.increment(1);
                BackupOutcome::Failed("a fault of the server, which its log tells".to_owned())
            }
        };
        if matches!(outcome, BackupOutcome::Failed(_)) {
            inner.metrics.failures.increment(1);
        }
        if let Some(job) = &mut *self.job() {
            job.outcome = Some(outcome);
        }
    }

    /// Makes it in a folder, and sends it from there if it goes elsewhere; where it is for good.
    fn made(
        &self,
        target: &str,
        to: &Path,
        is_full: bool,
        progress: &Progress,
    ) -> Result<(Backup, String), BackupError> {
        let (partitions, options) = (&self.inner.partitions, &self.inner.options);
        let by = (options.version, options.passphrase.as_ref());
        let Some(elsewhere) = &options.elsewhere else {
            let made = partitions.back_up(to, by, is_full, progress)?;
            let at = made.path.display().to_string();
            return Ok((made, at));
        };
        elsewhere.check(target, &partitions.history().to_string(), progress)?;
        if let Some(staging) = to.parent() {
            match folder(staging) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(BackupError::io("make", staging, error));
                }
                _ => {}
            }
        }
        let mut made = partitions.back_up_to_send(to, by, is_full, progress)?;
        let sent = elsewhere.send(target, &made, is_full, progress);
        // Whether it was sent or not: the next one shares its files.
        prune(to, 1)?;
        let (at, new_bytes) = sent?;
        made.new_bytes = new_bytes;
        Ok((made, at))
    }

    fn job(&self) -> MutexGuard<'_, Option<BackupJob>> {
        // Changed in single steps: a panic elsewhere leaves it whole.
        let last = self.inner.last.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Partitions {
    /// As [`Partitions::back_up`], in a folder that only passes backups on: those of another history, of before a
    /// restore, are removed there. Blocks.
    pub fn back_up_to_send(
        &self,
        to: &Path,
        server: (&str, Option<&Passphrase>),
        is_full: bool,
        progress: &Progress,
    ) -> Result<Backup, BackupError> {
        clear_others(to, &self.history().to_string())?;
        self.back_up(to, server, is_full, progress)
    }
}

/// Whether it names a folder right below another one.
fn is_plain(name: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_names_a_folder_and_no_way_out_of_it() {
        for name in ["nightly", "a.b_c-1"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "a".repeat(65);
        for name in ["", ".", "..", ".x", "a/b", "/a", "a\\b", "ä", "a b", &*long] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
