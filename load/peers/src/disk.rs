//! The disk: what it does alone with batches like Tideline's, and what it wrote for what Tideline was given.
//!
//! Owns: both counts. What was written is what the disk below the data directory says (log, segments made ahead, image,
//! what merging wrote again, the file system's own bookkeeping). Promises: it waits until nothing more is written, so that
//! owed merges are paid. Must not: believe `write_bytes` of `/proc/PID/io`: a file system with large folios counts up to
//! a megabyte there for each small write.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tideline_load::exit::Stop;
use tideline_load::outcome::Outcome;
use tideline_load::report;
use tideline_load::template::DIGITS;

/// The mean of what Tideline's batches held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) messages: f64,
    pub(crate) bytes: f64,
}

impl Batch {
    /// From the server's metrics; absent if they could not be read.
    pub(crate) fn of(outcome: &Outcome) -> Option<Batch> {
        let mean = |what: &str| {
            let total = |end: &str| -> f64 {
                let name = format!("tideline_commit_batch_{what}_{end}");
                let metrics = outcome.metrics.iter();
                let mine = metrics.filter(|(full, _)| full.split('{').next() == Some(&name));
                mine.map(|(_, moved)| moved.after - moved.before).sum()
            };
            let count = total("count");
            (count > 0.0).then(|| total("sum") / count)
        };
        let (messages, bytes) = (mean("closures")?, mean("bytes")?);
        Some(Batch { messages, bytes })
    }
}

/// The file that is written again is this long, as reused segments of a log are.
const REUSED_BYTES: u64 = 256 << 20;

/// Batches per second: write, fdatasync, and again, into blocks that exist (`reused`) or at the end of a file that
/// grows. Blocks for `seconds` and for the preparation.
pub(crate) fn probe(folder: &Path, reused: bool, bytes: f64, seconds: f64) -> io::Result<f64> {
    let mut file = File::create(folder.join("floor"))?;
    let batch = vec![0x5a; bytes.max(1.0) as usize];
    if reused {
        let zeros = vec![0; 1 << 20];
        for _ in 0..REUSED_BYTES >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
    }
    let length = batch.len() as u64;
    let (began, mut batches, mut at) = (Instant::now(), 0_u64, 0);
    while began.elapsed().as_secs_f64() < seconds {
        if reused && at + length > REUSED_BYTES {
            at = 0;
        }
        file.write_all_at(&batch, at)?;
        file.sync_data()?;
        at += length;
        batches += 1;
    }
    Ok(batches as f64 / began.elapsed().as_secs_f64())
}

/// The disk counts as quiet when less was written to it in a look's time.
const QUIET_BYTES: f64 = 1e6;
const LOOK: Duration = Duration::from_secs(2);
/// Merges that take longer are not waited for; the progress line says so.
const LOOKS_MAX: u32 = 30;
/// The kernel counts in these, whatever the disk's own are.
const SECTOR_BYTES: f64 = 512.0;

/// Where the kernel counts what is written to the disk that a directory is on.
pub(crate) fn counters(directory: &Path) -> Result<PathBuf, Stop> {
    let found = std::fs::metadata(directory);
    let failed = |error| Stop::Own(format!("{}: {error}", directory.display()));
    let device = found.map_err(failed)?.dev();
    // As glibc's gnu_dev_major and gnu_dev_minor take a number apart.
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    Ok(format!("/sys/dev/block/{major}:{minor}/stat").into())
}

/// Bytes written to a disk so far, by all processes.
pub(crate) fn written(counters: &Path) -> Result<f64, Stop> {
    let name = counters.display();
    let text = std::fs::read_to_string(counters)
        .map_err(|error| Stop::Own(format!("no count of the disk's writes: {name}: {error}")))?;
    let sectors = text.split_whitespace().nth(6);
    let sectors = sectors.and_then(|sectors| sectors.parse::<f64>().ok());
    sectors
        .map(|sectors| sectors * SECTOR_BYTES)
        .ok_or_else(|| Stop::Own(format!("{name}: not the counters of a disk")))
}

/// Waits until nothing reaches the disk any more; returns what did so far.
pub(crate) async fn settled(counters: &Path) -> Result<f64, Stop> {
    let mut bytes = written(counters)?;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK).await;
        let before = std::mem::replace(&mut bytes, written(counters)?);
        if bytes < before + QUIET_BYTES {
            return Ok(bytes);
        }
    }
    let waited = LOOK * LOOKS_MAX;
    report::note(&format!("the disk is still written to after {waited:?}"));
    Ok(bytes)
}

/// Bytes of one entry and its message ID, as they are sent: what the application wants stored, without what the
/// protocol adds around it.
pub(crate) fn entry_bytes(size: usize, connections: usize) -> f64 {
    let around = r#"{"text":""}"#.len();
    // A text of eight letters for the run, the connection's number, the message's number.
    let id = "rrrrrrrr--".len() + DIGITS;
    let numbers = (0..connections).map(|number| number.to_string().len());
    (around + size + id) as f64 + numbers.sum::<usize>() as f64 / connections as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let rate = probe(folder.path(), false, 4_096.0, 0.02).expect("written");
        assert!(rate > 0.0);
    }
}
