//! What counts as trouble, and what to do about it.
//!
//! Owns: the troubles that take more than one figure; `bounds.rs` has the others. They go with the alerts in
//! `grafana/prometheus/alerts.yml`, but for the time that a trouble must last, which is shorter here: the reader of a
//! notice is looking already. Promises: a text names what is concerned and says in plain words what to do. Must not:
//! remember anything; `notices.rs` does.

use super::bounds::{COUNTERS, GAUGES, MAKE_ROOM, SHARES};
use super::notices::{Found, Memory, Severity};
use super::sample::Sample;
use super::storage::Storage;
use super::words::{bytes, span};
use tideline_base::ids::PartitionId;
use tideline_store::partition::{Doing, State};

use Severity::{Critical, Warning};

/// All that is wrong at a moment.
pub(super) fn find(
    sample: &Sample<'_>,
    partitions: &[(PartitionId, Doing)],
    storage: &Storage,
    memory: &mut Memory,
    now: u64,
) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (id, doing) in partitions {
        found.extend(partition(*id, doing));
    }
    found.extend(disk(storage));
    found.extend(certificate(sample, now));
    found.extend(keys(sample, memory, now));
    for rule in GAUGES {
        let above = sample
            .each(rule.metric)
            .iter()
            .filter(|line| line.value > rule.above);
        found.extend(above.map(|line| rule.found(line)));
    }
    for rule in SHARES {
        found.extend(rule.found(sample));
    }
    for rule in COUNTERS {
        for line in sample.each(rule.metric) {
            found.extend(rule.found(line, memory, now));
        }
    }
    found
}

fn partition(id: PartitionId, doing: &Doing) -> Option<Found> {
    let behind = format!(
        "{} sorted runs of level 0 and {} full memtables wait for the disk",
        doing.level0_runs, doing.frozen
    );
    let (severity, after_s, what, advice) = match &doing.state {
        State::Stopped(why) => (
            Critical,
            0,
            format!("Partition {id} takes no writes: {why}."),
            STOPPED,
        ),
        State::Full => (
            Critical,
            0,
            format!("Partition {id} takes no writes: the disk is full."),
            MAKE_ROOM,
        ),
        State::Busy => (
            Critical,
            0,
            format!("Partition {id} refuses writes with busy: {behind}."),
            BEHIND,
        ),
        State::Slowed => (
            Warning,
            5,
            format!("Partition {id} is slowed: {behind}."),
            BEHIND,
        ),
        State::Serving if doing.queue_fill > 0.8 => {
            let percent = (doing.queue_fill * 100.0).round();
            let what = format!(
                "The write queue of partition {id} is {percent} % full; at 100 % writes are refused with busy."
            );
            (
                Warning,
                5,
                what,
                "Find the client that writes so much (Sessions), or look at what is slow: the disk's sync or the processor.",
            )
        }
        State::Serving => return None,
    };
    Some(Found::new(
        format!("partition {id}"),
        severity,
        after_s,
        what,
        advice,
    ))
}

const STOPPED: &str = "Look at the disk and at the kernel's log (dmesg), mend or replace the disk, then restart the server. Reads go on; clients repeat what got outcome_unknown.";
const BEHIND: &str = "Look for other writers on the disk (iostat -x). If it lasts: write less, use a faster disk, or split the partition.";

fn disk(storage: &Storage) -> Option<Found> {
    let left = storage.disk_free?;
    let share = left as f64 / storage.disk_bytes.unwrap_or(u64::MAX).max(1) as f64;
    let soon = storage.full_in_s.filter(|seconds| *seconds < 3 * DAY_S);
    let severity = if left < 256 << 20
        || share < 0.01 && left < 10 << 30
        || soon.is_some_and(|seconds| seconds < DAY_S / 4)
    {
        Critical
    } else if left < 1 << 30 || share < 0.05 && left < 50 << 30 || soon.is_some() {
        Warning
    } else {
        return None;
    };
    let when = storage.full_in_s.map_or_else(String::new, |seconds| {
        let pace = span(seconds as f64);
        format!(" As this server wrote in the last hour, it is full in {pace}.")
    });
    let own = bytes(storage.live + storage.dead + storage.free + storage.log);
    let left = bytes(left);
    let what =
        format!("The disk is nearly full: {left} are left. This server's data takes {own}.{when}");
    Some(Found::new("disk".to_owned(), severity, 0, what, MAKE_ROOM))
}

pub(super) const DAY_S: u64 = 86_400;

fn certificate(sample: &Sample<'_>, now: u64) -> Option<Found> {
    let end = sample.max("tideline_certificate_end_seconds");
    let left = end - now as f64 / 1e3;
    if end == 0.0 || left > 14.0 * DAY_S as f64 {
        return None;
    }
    let (severity, what) = if left <= 0.0 {
        (
            Critical,
            format!(
                "The certificate has ended {} ago; clients refuse the server.",
                span(-left)
            ),
        )
    } else {
        let severity = if left < 2.0 * DAY_S as f64 {
            Critical
        } else {
            Warning
        };
        (
            severity,
            format!(
                "The certificate ends in {}; clients then refuse the server.",
                span(left)
            ),
        )
    };
    let advice = "Renew it, and put certificate and key into the files that [tls] names; they are read again within 10 s.";
    Some(Found::new(
        "certificate".to_owned(),
        severity,
        0,
        what,
        advice,
    ))
}

/// The last fetch of the issuer's keys failed.
pub(super) fn keys(sample: &Sample<'_>, memory: &mut Memory, now: u64) -> Option<Found> {
    let mut fetched = |result| {
        let value = sample.of("tideline_jwks_fetches_total", "result", result);
        memory.rose_at(&format!("jwks {result}"), value, now)
    };
    let (failed, ok) = (fetched("failed"), fetched("ok"));
    if failed <= ok {
        return None;
    }
    let none = sample.max("tideline_jwks_keys") == 0.0;
    let (severity, what) = match none {
        true => (
            Critical,
            "The keys of the tokens' issuer (jwks_url) were never fetched: no token of theirs can be verified.",
        ),
        false => (
            Warning,
            "The keys of the tokens' issuer (jwks_url) can't be fetched: the set before counts, tokens of newer keys are refused.",
        ),
    };
    let advice =
        "See the log for what the issuer's server answers; see that this machine reaches it.";
    Some(Found::new(
        "keys".to_owned(),
        severity,
        0,
        what.to_owned(),
        advice,
    ))
}
