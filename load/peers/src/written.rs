//! The row about write amplification: bytes that reach the disk for each byte that was to be stored.
//!
//! Owns: the count: what the disk below the data directory says that it has written (log, segments made ahead, image,
//! what merging wrote again, and the file system's own bookkeeping), divided by the bytes of the acknowledged entries
//! with their message IDs, as sent. Promises: it waits until the server has stopped writing, so that owed merges are
//! paid. Must not: count what the protocol adds around an entry, or believe `write_bytes` of `/proc/PID/io`: a file
//! system with large folios counts up to a megabyte there for each small write.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tideline_load::amount::amount;
use tideline_load::bench::Ours;
use tideline_load::exit::Stop;
use tideline_load::generator::Flow;
use tideline_load::pairs::{Bar, Pair, Row};
use tideline_load::report;
use tideline_load::template::DIGITS;

use crate::Name;
use crate::field::{Field, figures, quiet};

/// The disk counts as quiet when less was written to it in a look's time.
const QUIET_BYTES: f64 = 1e6;
const LOOK: Duration = Duration::from_secs(2);
/// Merges that take longer are not waited for; the progress line says so.
const LOOKS_MAX: u32 = 30;
/// The kernel counts in these, whatever the disk's own are.
const SECTOR_BYTES: f64 = 512.0;

/// Where the kernel counts what is written to the disk that a directory is on.
fn counters(directory: &Path) -> Result<PathBuf, Stop> {
    let found = std::fs::metadata(directory);
    let failed = |error| Stop::Own(format!("{}: {error}", directory.display()));
    let device = found.map_err(failed)?.dev();
    // As glibc's gnu_dev_major and gnu_dev_minor take a number apart.
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    Ok(format!("/sys/dev/block/{major}:{minor}/stat").into())
}

/// Bytes written to a disk so far, by all processes.
fn disk_bytes(counters: &Path) -> Result<f64, Stop> {
    let name = counters.display();
    let text = std::fs::read_to_string(counters)
        .map_err(|error| Stop::Own(format!("no count of the disk's writes: {name}: {error}")))?;
    let sectors = text.split_whitespace().nth(6);
    let sectors = sectors.and_then(|sectors| sectors.parse::<f64>().ok());
    sectors
        .map(|sectors| sectors * SECTOR_BYTES)
        .ok_or_else(|| Stop::Own(format!("{name}: not the counters of a disk")))
}

/// Waits until the server is quiet and nothing reaches the disk any more; returns what did so far.
async fn settled(server: &Ours, counters: &Path) -> Result<f64, Stop> {
    quiet(server).await?;
    let mut written = disk_bytes(counters)?;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK).await;
        let before = std::mem::replace(&mut written, disk_bytes(counters)?);
        if written < before + QUIET_BYTES {
            return Ok(written);
        }
    }
    report::note(&format!(
        "the disk is still written to after {:?}",
        LOOK * LOOKS_MAX
    ));
    Ok(written)
}

/// On an empty directory, where segments of the log are made, and in the steady state, where old ones are used again.
pub(crate) async fn amplification(field: &mut Field) -> Result<Vec<Row>, Stop> {
    let fresh = field.start(&[]).await?;
    let mut made = written(field, &fresh, "a").await?;
    made.what += ", empty directory";
    drop(fresh);
    // The log keeps one segment, so that the steady state is there soon.
    let retention = ("TIDELINE_RETENTION_BYTES", (64 << 20).to_string());
    let steady = field.start(&[retention]).await?;
    written(field, &steady, "a").await?;
    let mut reused = written(field, &steady, "b").await?;
    reused.what += ", log reused";
    Ok(vec![made, reused])
}

/// One run, four times as long as the others, on timelines that only this one has: merges are a matter of volume.
async fn written(field: &mut Field, server: &Ours, timelines: &str) -> Result<Row, Stop> {
    let flow = Flow::closed(field.args.connections, 16);
    let (append, seconds) = (field.append_line(&flow), field.args.seconds * 4.0);
    let line = format!("{append} --prefix peers-{timelines}/ --seconds {seconds}");
    let counters = counters(&field.args.data)?;
    let before = disk_bytes(&counters)?;
    let outcome = field.ours_on(server, &line).await?;
    let after = settled(server, &counters).await?;
    let entries = outcome.details.get("acknowledged").and_then(Value::as_f64);
    let entries = entries.unwrap_or(0.0);
    let each = entry_bytes(field.args.size, flow.connections);
    let mut tideline = figures(&outcome, "appends_per_second")?;
    let rate = tideline.value;
    tideline.value = (after - before) / (entries * each).max(1.0);
    let value = tideline.value;
    report::note(&format!(
        "amplification: {value:.2} ×; {entries:.0} entries of {each:.0} B, {rate:.0}/s"
    ));
    let what = format!("write amplification, {}", amount(entries, "entries"));
    let mut row = Name::Amplification.row(what, "-", "×", Bar::ValueAtMost(6.0));
    let peer = None;
    row.pairs.push(Pair { tideline, peer });
    Ok(row)
}

/// Bytes of one entry and its message ID, as they are sent: what the application wants stored.
fn entry_bytes(size: usize, connections: usize) -> f64 {
    let around = r#"{"text":""}"#.len();
    // A text of eight letters for the run, the connection's number, the message's number.
    let id = "rrrrrrrr--".len() + DIGITS;
    let numbers: usize = (0..connections)
        .map(|number| number.to_string().len())
        .sum();
    (around + size + id) as f64 + numbers as f64 / connections as f64
}
