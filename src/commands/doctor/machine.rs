//! What the machine gives: descriptors, a disk, address space, a clock.
//!
//! Owns: the checks of the machine, and the figures below which each warns or fails. Promises: it writes no more than
//! some kilobytes. Must not: know which callers may come in.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use rustix::process::{Resource, getrlimit};

use super::{Finding, State, nearest, now};
use crate::config::Config;
use crate::disk;
use crate::partition::{OpenError, is_copy};

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let folder = nearest(&config.data);
    vec![
        descriptors(config),
        file_system(folder),
        room(folder),
        privacy(&config.data),
        copy(&config.data),
        sync(folder),
        map(config),
        clock(&config.data),
    ]
}

fn descriptors(config: &Config) -> Finding {
    // The server raises its soft limit to the hard one.
    let limit = getrlimit(Resource::Nofile).maximum;
    let wanted = config.connections_max as u64 + KEPT_FILES;
    let shown = limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
    let found = format!("{shown} may be open, connections_max and the store need {wanted}");
    match limit {
        Some(limit) if limit < wanted => Finding::warn(
            "descriptors",
            found,
            "raise the limit of open files (ulimit -n, LimitNOFILE), or lower connections_max",
        ),
        _ => Finding::ok("descriptors", found),
    }
}

/// About as many as the server keeps for its own files.
const KEPT_FILES: u64 = 128;

fn file_system(folder: &Path) -> Finding {
    const NAME: &str = "file system";
    let shown = folder.display();
    let kind = match statfs(folder) {
        Ok(found) => found.f_type as u64 & 0xffff_ffff,
        Err(error) => {
            return Finding::fail(
                NAME,
                format!("{shown}: {error}"),
                "choose another data directory",
            );
        }
    };
    let known = KINDS.iter().find(|(number, ..)| *number == kind);
    match known {
        Some((_, name, State::Ok)) => Finding::ok(NAME, format!("{shown} is on {name}")),
        Some((_, name, State::Warn)) => Finding::warn(
            NAME,
            format!("{shown} is on {name}"),
            "what is there may not outlive a restart of the machine: use a local disk",
        ),
        Some((_, name, State::Fail)) => Finding::fail(
            NAME,
            format!("{shown} is on {name}"),
            "a network file system may lose what was synced: use a local disk",
        ),
        None => Finding::ok(
            NAME,
            format!("{shown} is on a file system of the kind {kind:#x}"),
        ),
    }
}

/// Kinds of file systems, as the system numbers them.
const KINDS: [(u64, &str, State); 11] = [
    (0xef53, "ext4", State::Ok),
    (0x5846_5342, "XFS", State::Ok),
    (0x9123_683e, "Btrfs", State::Ok),
    (0x2fc1_2fc1, "ZFS", State::Ok),
    (0x0102_1994, "tmpfs, in memory", State::Warn),
    (0x794c_7630, "overlayfs, of a container", State::Warn),
    (0x6573_5546, "FUSE", State::Warn),
    (0x6969, "NFS", State::Fail),
    (0xff53_4d42, "CIFS", State::Fail),
    (0xfe53_4d42, "SMB", State::Fail),
    (0x0102_1997, "9P", State::Fail),
];

#[allow(clippy::cast_precision_loss)] // shown in GiB
fn room(folder: &Path) -> Finding {
    let (Some(left), Some(all)) = (disk::free(folder), disk::total(folder)) else {
        return Finding::warn("room", "not known", "look at the disk");
    };
    let found = format!(
        "{:.1} of {:.1} GiB are free",
        left as f64 / GIB,
        all as f64 / GIB
    );
    match left {
        _ if left < ROOM_LEAST => {
            Finding::fail("room", found, "make room: writes would be refused")
        }
        _ if left < all / 10 => Finding::warn("room", found, "make room before the disk is full"),
        _ => Finding::ok("room", found),
    }
}

const GIB: f64 = (1_u64 << 30) as f64;
/// Four segments of a log and a memtable that is flushed.
const ROOM_LEAST: u64 = 512 << 20;

fn privacy(data: &Path) -> Finding {
    const NAME: &str = "data directory";
    let shown = data.display();
    match fs::metadata(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::ok(NAME, format!("{shown} is not there yet; a start makes it"))
        }
        Err(error) => Finding::fail(
            NAME,
            format!("{shown}: {error}"),
            "let the server's user reach it",
        ),
        Ok(found) if !found.is_dir() => Finding::fail(
            NAME,
            format!("{shown} is not a directory"),
            "choose another",
        ),
        Ok(found) if found.permissions().mode() & 0o007 != 0 => Finding::warn(
            NAME,
            format!("other users of this machine may look into {shown}"),
            format!("chmod o-rwx {shown}"),
        ),
        Ok(_) => Finding::ok(NAME, format!("{shown} is closed to other users")),
    }
}

/// Whether it is a plain copy of a served directory.
fn copy(data: &Path) -> Finding {
    const NAME: &str = "copy";
    let path = data.to_owned();
    match is_copy(data) {
        Ok(false) => Finding::ok(NAME, format!("{} is none", data.display())),
        Ok(true) => Finding::fail(
            NAME,
            OpenError::Copy { path }.to_string(),
            "see docs/BACKUP.md",
        ),
        Err(error) => Finding::fail(NAME, error.to_string(), "let the server's user read it"),
    }
}

/// How long a sync of the disk takes, as one batch of messages needs one.
fn sync(folder: &Path) -> Finding {
    const NAME: &str = "disk sync";
    let path = folder.join(format!(".tideline-doctor-{}", std::process::id()));
    let tried = try_sync(&path);
    let _ = fs::remove_file(&path);
    let median = match tried {
        Ok(median) => median,
        Err(error) => {
            let found = format!("cannot write to {}: {error}", folder.display());
            return Finding::fail(NAME, found, "let the server's user write there");
        }
    };
    let found = format!("{:.2} ms at the median", median.as_secs_f64() * 1_000.0);
    match median {
        _ if median > SYNC_SLOW => Finding::warn(
            NAME,
            found,
            "every message waits for one: use a disk with a cache that survives a power cut",
        ),
        _ if median < SYNC_UNLIKELY => Finding::warn(
            NAME,
            found,
            "no disk is that fast: it may not keep what was synced through a power cut",
        ),
        _ => Finding::ok(NAME, found),
    }
}

const SYNC_SLOW: Duration = Duration::from_millis(10);
const SYNC_UNLIKELY: Duration = Duration::from_micros(5);

fn try_sync(path: &Path) -> io::Result<Duration> {
    let mut file = File::create_new(path)?;
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[0; 4_096])?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}

const SYNCS: usize = 21;

fn map(config: &Config) -> Finding {
    let partitions = u64::from(config.partitions.max(1));
    let wanted = partitions.saturating_mul(config.map_bytes as u64);
    let found =
        format!("map_bytes reserves {wanted} bytes of address space for {partitions} partitions");
    match getrlimit(Resource::As).current {
        Some(limit) if limit < wanted => Finding::fail(
            "map",
            format!("{found}, {limit} are allowed"),
            "raise the limit (ulimit -v), or lower map_bytes",
        ),
        _ => Finding::ok("map", found),
    }
}

/// The true time is not known here. But a data directory that was written in the future shows that the clock is wrong.
fn clock(data: &Path) -> Finding {
    const NAME: &str = "clock";
    let now = now();
    let written = fs::metadata(data).and_then(|found| found.modified());
    if let Ok(ahead) = written.map_or(Ok(Duration::ZERO), |written| written.duration_since(now))
        && ahead > CLOCK_SLACK
    {
        let found = format!(
            "it is {} s behind the last change of the data directory",
            ahead.as_secs()
        );
        return Finding::fail(
            NAME,
            found,
            "set the clock: times of messages never go back, and would stop rising",
        );
    }
    let shown = humantime::format_rfc3339_seconds(now);
    match Path::new("/run/systemd/timesync/synchronized").exists()
        || Path::new("/run/chrony").exists()
    {
        true => Finding::ok(NAME, format!("{shown}, kept by NTP")),
        false => Finding::warn(
            NAME,
            format!("{shown}; nothing seems to keep it right"),
            "run an NTP client",
        ),
    }
}

const CLOCK_SLACK: Duration = Duration::from_secs(5);
