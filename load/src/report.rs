//! What a run shows: results as text and JSON, latencies as percentiles, progress of the writers.
//!
//! Owns: output. Promises: results go to standard output, everything else to standard error; percentiles come from an
//! HdrHistogram of three digits. Must not: decide whether a run held.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::exit::Stop;
use crate::process::{Launch, Server};
use crate::writer::Shared;

/// Latencies in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Percentiles {
    /// Half are at or below this.
    pub p50: u64,
    /// Nine in ten.
    pub p90: u64,
    /// 99 in 100.
    pub p99: u64,
    /// 999 in 1,000.
    pub p999: u64,
    /// The worst.
    pub max: u64,
    /// How many were measured.
    pub count: u64,
}

impl Percentiles {
    /// Reads them off a histogram of microseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        Percentiles {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            count: histogram.len(),
        }
    }

    /// One line for people, in ms.
    #[must_use]
    pub fn line(&self) -> String {
        let ms = |micros: u64| micros as f64 / 1_000.0;
        format!(
            "p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms",
            ms(self.p50),
            ms(self.p90),
            ms(self.p99),
            ms(self.p999),
            ms(self.max)
        )
    }
}

/// A line on standard output. A closed pipe is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a result as JSON, if a file was asked for.
pub fn save(result: &impl Serialize, file: Option<&Path>) -> Result<(), Stop> {
    let Some(file) = file else { return Ok(()) };
    let write = || -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(result)?;
        text.push('\n');
        std::fs::write(file, text)
    };
    write().map_err(|error| Stop::Own(format!("{}: {error}", file.display())))
}

/// Acknowledged messages of all timelines so far.
#[must_use]
pub fn total(shared: &Shared) -> u64 {
    let one = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    shared.progress.iter().map(one).sum()
}

/// Kills the server so often, each time another part of `lines` is acknowledged, and starts it again.
pub async fn killed_evenly(
    launch: Launch,
    mut server: Server,
    shared: Arc<Shared>,
    lines: u64,
    kills: u32,
) -> Result<Server, Stop> {
    for kill in 1..=u64::from(kills) {
        let at = lines * kill / (u64::from(kills) + 1);
        while total(&shared) < at {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        let again = launch.clone();
        let started = tokio::task::spawn_blocking(move || again.start()).await;
        server = started.map_err(|error| Stop::Own(error.to_string()))??;
    }
    Ok(server)
}
