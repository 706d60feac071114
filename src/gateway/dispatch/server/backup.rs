//! The backup family: start, status, cancel.
//!
//! Owns: the calls behind these methods. Promises: they are for back ends that administer the server; a backup goes on
//! if its caller goes away. Must not: know how a backup is made, or where it goes.

use super::super::tables::stream::back_end;
use super::super::{BUSY_RETRY_MS, Caller, Shared, Work};
use tideline_store::partition::{BackupJob, BackupOutcome, BackupRefusal, BackupStage};
use tideline_wire::server::backup;
use tideline_wire::{Failure, Reason, Reply};

pub(in super::super) fn start(shared: &Shared, caller: &Caller, start: &backup::Start) -> Work {
    let begun = back_end(caller).and_then(|()| {
        let begun = shared
            .backups
            .start(&start.target, start.full, start.bytes_per_s);
        begun.map_err(refusal)
    });
    Work::Now(begun.map(|()| Reply::BackupStart(backup::Begun {})))
}

pub(in super::super) fn status(shared: &Shared, caller: &Caller) -> Work {
    let allowed = back_end(caller);
    Work::Now(allowed.map(|()| {
        let backup = shared.backups.last().map(shown);
        Reply::BackupStatus(Box::new(backup::StatusNow { backup }))
    }))
}

pub(in super::super) fn cancel(shared: &Shared, caller: &Caller) -> Work {
    let allowed = back_end(caller);
    Work::Now(allowed.map(|()| {
        let cancelled = shared.backups.cancel();
        Reply::BackupCancel(backup::Cancelled { cancelled })
    }))
}

fn shown(job: BackupJob) -> backup::Backup {
    use backup::BackupState as State;
    let (done, total) = job.progress.bytes();
    let mut shown = backup::Backup {
        target: job.target,
        since: job.since_ms,
        state: match job.progress.stage() {
            BackupStage::Waiting => State::Waiting,
            BackupStage::Copying => State::Copying,
            BackupStage::Verifying => State::Verifying,
            BackupStage::Sending => State::Sending,
        },
        done,
        total,
        path: None,
        as_of: None,
        bytes: None,
        new_bytes: None,
        error: None,
    };
    match job.outcome {
        None => {}
        Some(BackupOutcome::Made { backup: made, at }) => {
            shown.state = State::Done;
            shown.path = Some(at);
            shown.as_of = Some(made.manifest.as_of_ms);
            shown.bytes = Some(made.manifest.bytes());
            shown.new_bytes = Some(made.new_bytes);
        }
        Some(BackupOutcome::Cancelled) => shown.state = State::Cancelled,
        Some(BackupOutcome::Failed(error)) => {
            shown.state = State::Failed;
            shown.error = Some(error);
        }
    }
    shown
}

fn refusal(refused: BackupRefusal) -> Failure {
    match refused {
        BackupRefusal::NoDirectory => Failure::new(Reason::NotConfigured)
            .about("backup_directory")
            .saying(
                "the server has no folder for backups: set backup_directory, and start it again",
            ),
        BackupRefusal::BadName => Failure::invalid("target", "not the name of a folder"),
        BackupRefusal::Busy => Failure::new(Reason::Busy)
            .saying("another backup is being made, or the server stops")
            .retry_after(BUSY_RETRY_MS),
    }
}
