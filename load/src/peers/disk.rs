//! The row about write amplification: bytes that reach the disk for each byte that was to be stored.
//!
//! Owns: the count: what the kernel says that the process had written to storage (`write_bytes` of `/proc/PID/io`: log,
//! image, and what merging wrote again), over the bytes of the acknowledged entries with their message IDs, as sent.
//! Promises: it waits until the server has stopped writing, so that merges that are owed are paid. Must not: count what
//! the protocol adds around an entry.

use std::time::Duration;

use super::engine;
use super::field::{Contestant, Field, Load};
use super::programs::Ours;
use super::table::{Bar, Figures, Pair, Row};
use crate::exit::Stop;
use crate::report;
use crate::watch::Usage;

/// The server counts as quiet when it wrote less than this in a look's time.
const QUIET_BYTES: f64 = 1e6;
const LOOK: Duration = Duration::from_secs(2);
/// Merges that take longer are not waited for: the figure is then too good, and the progress line says so.
const LOOKS_MAX: usize = 30;

/// Bytes that the server had written so far.
fn written_bytes(pid: u32) -> Result<f64, Stop> {
    let written = Usage::of(pid).written_bytes;
    written.ok_or_else(|| Stop::Own(format!("/proc/{pid}/io cannot be read")))
}

/// One run, four times as long as the others: merges are a matter of volume.
pub(super) async fn amplification(field: &mut Field) -> Result<Row, Stop> {
    let server = Ours::start(&field.binary, &field.data).await?;
    let pid = server.pid();
    let peer = field.ours(server.launch.url(), false);
    let load = Load {
        in_flight: 16,
        rate: None,
    };
    let mut plan = field.plan(load, Some(pid));
    plan.measured *= 4;
    let before = written_bytes(pid)?;
    let measured = engine::run(&peer, &plan).await?;
    let name = Contestant::Tideline.name();
    let faults = measured.faults.iter();
    field
        .faults
        .extend(faults.map(|fault| format!("{name}: {fault}")));
    let mut written = written_bytes(pid)?;
    for look in 1..=LOOKS_MAX {
        tokio::time::sleep(LOOK).await;
        let now = written_bytes(pid)?;
        let quiet = now < written + QUIET_BYTES;
        written = now;
        if quiet {
            break;
        }
        if look == LOOKS_MAX {
            report::note("the server still writes: the amplification is told too low");
        }
    }
    let stored = measured.acknowledged as f64 * peer.entry_bytes() as f64;
    let value = (written - before) / stored.max(1.0);
    let figures = Figures {
        value,
        per_second: Some(measured.per_second()),
        ..Figures::default()
    };
    Ok(Row {
        name: "amplification".into(),
        what: format!(
            "bytes to disk / bytes of {} entries with IDs ({} B each)",
            measured.acknowledged,
            peer.entry_bytes()
        ),
        peer: "-".into(),
        unit: "×".into(),
        bar: Bar::ValueAtMost(6.0),
        missing: None,
        pairs: vec![Pair {
            tideline: figures,
            peer: None,
        }],
    })
}
