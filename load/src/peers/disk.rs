//! The row about write amplification: bytes that reach the disk for each byte that was to be stored.
//!
//! Owns: the count: what the disk below the data directory says that it has written (log, segments made ahead, image,
//! what merging wrote again, and the file system's own bookkeeping), over the bytes of the acknowledged entries with
//! their message IDs, as sent. Promises: it waits until the server has stopped writing, so that owed merges are paid.
//! Must not: count what the protocol adds around an entry, or believe `write_bytes` of `/proc/PID/io`: a file system
//! with large folios counts up to a megabyte there for each small write.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::engine;
use super::field::{Contestant, Field, Load};
use super::programs::Ours;
use super::table::{Bar, Figures, Pair, Row};
use crate::amount::amount;
use crate::exit::Stop;
use crate::machine::Usage;
use crate::report;

/// The server counts as quiet when it wrote less than this in a look's time.
const QUIET_BYTES: f64 = 1e6;
const LOOK: Duration = Duration::from_secs(2);
/// Merges that take longer are not waited for; the progress line says so.
const LOOKS_MAX: usize = 30;
/// What the log keeps in the run that shows its steady state: one segment, so that it is there soon.
const RETENTION: (&str, &str) = ("TIDELINE_RETENTION_BYTES", "67108864");

/// The disk that a directory is on.
struct Disk {
    counters: PathBuf,
}

impl Disk {
    fn below(directory: &Path) -> Result<Disk, Stop> {
        let device = std::fs::metadata(directory)
            .map_err(|error| Stop::Own(format!("{}: {error}", directory.display())))?
            .dev();
        // As glibc's gnu_dev_major and gnu_dev_minor take a number apart.
        let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
        let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
        let counters = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        Ok(Disk { counters })
    }

    /// Bytes written to it so far, by everybody.
    fn written_bytes(&self) -> Result<f64, Stop> {
        let name = self.counters.display();
        let text = std::fs::read_to_string(&self.counters).map_err(|error| {
            Stop::Own(format!("no count of the disk's writes: {name}: {error}"))
        })?;
        let sectors = text.split_whitespace().nth(6);
        sectors
            .and_then(|sectors| sectors.parse::<f64>().ok())
            .map(|sectors| sectors * SECTOR_BYTES)
            .ok_or_else(|| Stop::Own(format!("{name}: not the counters of a disk")))
    }
}

/// The kernel counts in these, whatever the disk's own are.
const SECTOR_BYTES: f64 = 512.0;

/// Waits until a server has stopped writing.
pub(super) async fn quiet(pid: u32) -> Result<(), Stop> {
    settled(|| {
        let written = Usage::of(pid).written_bytes;
        written.ok_or_else(|| Stop::Own(format!("/proc/{pid}/io cannot be read")))
    })
    .await?;
    Ok(())
}

/// Waits until a count of written bytes stands still, and returns it.
async fn settled(count: impl Fn() -> Result<f64, Stop>) -> Result<f64, Stop> {
    let mut written = count()?;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK).await;
        let now = count()?;
        if now < written + QUIET_BYTES {
            return Ok(now);
        }
        written = now;
    }
    let waited = LOOK * LOOKS_MAX as u32;
    report::note(&format!("the server still writes after {waited:?}"));
    Ok(written)
}

/// On an empty directory, where segments of the log are made, and in the steady state, where old ones are written over.
pub(super) async fn amplification(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let fresh = Ours::start(&field.binary, &field.data, &[]).await?;
    let mut made = written(field, &fresh, "a").await?;
    made.what += ", empty directory";
    drop(fresh);
    let steady = Ours::start(&field.binary, &field.data, &[RETENTION]).await?;
    written(field, &steady, "a").await?;
    let mut reused = written(field, &steady, "b").await?;
    reused.what += ", log reused";
    Ok(vec![made, reused])
}

/// One run, four times as long as the others, on timelines that only this one has: merges are a matter of volume.
async fn written(field: &mut Field, server: &Ours, timelines: &str) -> Result<Row, Stop> {
    let pid = server.pid();
    let mut peer = field.ours(server.launch.url(), false);
    peer.prefix = format!("peers-{timelines}/");
    let load = Load {
        in_flight: 16,
        rate: None,
    };
    let mut plan = field.plan(load, Some(pid));
    plan.measured *= 4;
    let disk = Disk::below(&field.data)?;
    let before = disk.written_bytes()?;
    let measured = engine::run(&peer, &plan).await?;
    let name = Contestant::Tideline.name();
    let faults = measured.faults.iter();
    field
        .faults
        .extend(faults.map(|fault| format!("{name}: {fault}")));
    quiet(pid).await?;
    let after = settled(|| disk.written_bytes()).await?;
    let (entries, each) = (measured.acknowledged, peer.entry_bytes());
    let value = (after - before) / (entries as f64 * each as f64).max(1.0);
    report::note(&format!(
        "amplification: {value:.2} ×; {entries} entries of {each} B, {:.0}/s",
        measured.per_second()
    ));
    let what = format!("write amplification, {}", amount(entries as f64, "entries"));
    let mut row = Row::new("amplification", what, "-", "×", Bar::ValueAtMost(6.0));
    let tideline = Figures {
        value,
        per_second: Some(measured.per_second()),
        ..Figures::default()
    };
    let peer = None;
    row.pairs.push(Pair { tideline, peer });
    Ok(row)
}
