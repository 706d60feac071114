//! The disk: what it does alone with batches like Tideline's, and what it wrote for what Tideline was given.
//!
//! Owns: both counts. What was written is what the disk below a directory says (log, segments made ahead, image, what
//! merging wrote again, the file system's own bookkeeping). Promises: it waits until nothing more is written, so that
//! owed merges are paid. Must not: believe `write_bytes` of `/proc/PID/io`: a file system with large folios counts up
//! to a megabyte there for each small write.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tideline_load::client::template::DIGITS;
use tideline_load::exit::Stop;
use tideline_load::outcome::Outcome;
use tideline_load::outcome::report;

/// The mean of what Tideline's batches held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) messages: f64,
    pub(crate) bytes: f64,
}

impl Batch {
    /// From the server's metrics; absent if they could not be read.
    pub(crate) fn of(outcome: &Outcome) -> Option<Batch> {
        let total = |what: &str| -> f64 {
            let name = format!("tideline_commit_batch_{what}");
            let metrics = outcome.metrics.iter();
            let mine = metrics.filter(|(full, _)| full.split('{').next() == Some(&name));
            mine.map(|(_, moved)| moved.after - moved.before).sum()
        };
        let count = total("bytes_count");
        let (messages, bytes) = (total("closures_sum") / count, total("bytes_sum") / count);
        (count > 0.0).then_some(Batch { messages, bytes })
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
    let (began, mut batches, mut at) = (Instant::now(), 0_u64, 0);
    while began.elapsed().as_secs_f64() < seconds {
        if reused && at + batch.len() as u64 > REUSED_BYTES {
            at = 0;
        }
        file.write_all_at(&batch, at)?;
        file.sync_data()?;
        at += batch.len() as u64;
        batches += 1;
    }
    Ok(batches as f64 / began.elapsed().as_secs_f64())
}

/// Where the kernel counts what is written to a disk, by all processes.
pub(crate) struct Counter(PathBuf);

impl Counter {
    /// Of the disk that a directory is on.
    pub(crate) fn of(directory: &Path) -> Result<Counter, Stop> {
        let found = std::fs::metadata(directory);
        let failed = |error| Stop::Own(format!("{}: {error}", directory.display()));
        let device = found.map_err(failed)?.dev();
        // As glibc's gnu_dev_major and gnu_dev_minor take a number apart.
        let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
        let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
        Ok(Counter(
            format!("/sys/dev/block/{major}:{minor}/stat").into(),
        ))
    }

    /// So many so far.
    fn bytes(&self) -> Result<f64, Stop> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let sectors = text.split_whitespace().nth(6);
        let sectors = sectors.and_then(|sectors| sectors.parse::<f64>().ok());
        // The kernel counts in sectors of this size, whatever the disk's own are.
        let bytes = sectors.map(|sectors| sectors * 512.0);
        bytes.ok_or_else(|| Stop::Own(format!("no count of the disk's writes: {:?}", self.0)))
    }

    /// As `bytes`, when less than a megabyte comes in two seconds, or after a minute.
    pub(crate) async fn settled(&self) -> Result<f64, Stop> {
        let mut bytes = self.bytes()?;
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let before = std::mem::replace(&mut bytes, self.bytes()?);
            if bytes < before + 1e6 {
                return Ok(bytes);
            }
        }
        report::note("the disk is still written to");
        Ok(bytes)
    }
}

/// Bytes of the entries that were acknowledged and their message IDs, as they are sent: what the application wants
/// stored, without what the protocol adds around it.
pub(crate) fn stored(appends: &Outcome) -> f64 {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(0.0);
    let connections = number(appends.settings.get("connections")) as usize;
    let around = r#"{"text":""}"#.len();
    // A text of eight letters for the run, the connection's number, the message's number.
    let id = "rrrrrrrr--".len() + DIGITS;
    let numbers = (0..connections).map(|number| number.to_string().len());
    let numbers = numbers.sum::<usize>() as f64 / connections.max(1) as f64;
    let each = number(appends.settings.get("size")) + (around + id) as f64 + numbers;
    number(appends.details.get("acknowledged")) * each
}
