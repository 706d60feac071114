//! Curves along the messages that stand there: in more and more timelines, or in longer and longer ones.
//!
//! Owns: how a stock is put there, and what is measured on it. Promises: merges are over before anything is measured,
//! or the step is told as not to be believed; pages are read before appends change the stock. Must not: compare.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Bench, Ours, cpu_each, curve, disk_bytes, figure};
use crate::append::Append;
use crate::curve::{Curve, Step};
use crate::exit::Stop;
use crate::generator::Flow;
use crate::outcome::Latency;
use crate::pace::Gaps;
use crate::pages::Pages;
use crate::process::cpu_seconds;

const SMALLEST: u64 = 10_000;
/// Messages in each timeline while timelines grow in number.
const SHORT: u64 = 10;
/// Timelines while they grow in length.
const FEW: u64 = 1_000;
const PAGE: u64 = 10;
const PAGES_PER_SECOND: f64 = 500.0;

/// More and more timelines of ten messages.
pub(super) fn timelines(bench: &mut Bench<'_>) -> Result<Curve, Stop> {
    let name = format!("timelines of {SHORT} messages each");
    curve(
        bench,
        &name,
        "messages",
        sizes(bench.args.most),
        |bench, step| stock(bench, step, step.at / SHORT),
    )
}

/// A thousand timelines, longer and longer.
pub(super) fn history(bench: &mut Bench<'_>) -> Result<Curve, Stop> {
    let name = format!("{FEW} timelines that grow");
    curve(
        bench,
        &name,
        "messages",
        sizes(bench.args.most),
        |bench, step| stock(bench, step, FEW),
    )
}

/// 10,000, 100,000 … up to the most.
fn sizes(most: u64) -> impl Iterator<Item = u64> {
    let next = move |size: &u64| Some(size * 10).filter(|next| *next <= most);
    std::iter::successors(Some(SMALLEST), next)
}

fn stock(bench: &mut Bench<'_>, step: &mut Step, timelines: u64) -> Result<(), Stop> {
    let (messages, size) = (step.at, bench.args.size);
    let told = format!("{messages} messages in {timelines} timelines");
    let ours = bench.server()?;
    let pages = |setup, loaded| Pages {
        flow: Flow::open(16, PAGES_PER_SECOND, Gaps::Exponential),
        page: PAGE,
        size,
        ..Pages::of_stock(setup, PAGES_PER_SECOND, (messages, timelines), loaded)
    };
    // The first pages are not counted: merges go on beside them.
    bench.measure(&ours, &told, |mut setup| {
        (setup.warm_up, setup.seconds) = (0.0, 0.2);
        setup.late_ms = 60_000.0;
        pages(setup, false)
    })?;
    let rested = rest(&ours);
    if rested.is_none() {
        bench.invalid.push(format!("{told}: merges went on"));
    }
    let log = disk_bytes(&ours.launch.data, "log") as f64;
    let image = disk_bytes(&ours.launch.data, "image") as f64;
    let read = bench.measure(&ours, &told, |setup| pages(setup, true))?;
    let own = own_memory(ours.server.pid());
    let written = bench.measure(&ours, &told, |setup| Append {
        size,
        ..Append::to_stock(setup, timelines)
    })?;
    let page = |of: fn(&Latency) -> u64| Some(of(read.latencies.get("page")?) as f64 / 1e3);
    step.enter("appends", figure(&written, "appends_per_second"), "1/s");
    step.enter(
        "CPU of an append",
        cpu_each(&written, "appends_per_second"),
        "µs",
    );
    step.enter("page p50", page(|page| page.p50), "ms");
    step.enter("page p99", page(|page| page.p99), "ms");
    step.enter("CPU of a page", cpu_each(&read, "pages_per_second"), "µs");
    step.enter("memory of its own", own, "bytes");
    step.enter("log on disk", Some(log), "bytes");
    step.enter("image on disk", Some(image), "bytes");
    step.enter("image per message", Some(image / messages as f64), "bytes");
    step.enter(
        "rest after loading",
        rested.map(|rested| rested.as_secs_f64()),
        "s",
    );
    Ok(())
}

const REST_MAX: Duration = Duration::from_secs(90);
/// A second with less processor time than this is quiet.
const QUIET_CPU_SECONDS: f64 = 0.05;
const QUIET_SECONDS: u32 = 3;

/// Waits until the server has nothing left to flush and merge. Returns how long it had.
fn rest(ours: &Ours) -> Option<Duration> {
    let began = Instant::now();
    let (mut quiet, mut used) = (0, cpu_seconds(ours.server.pid())?);
    while began.elapsed() < REST_MAX {
        sleep(Duration::from_secs(1));
        let now = cpu_seconds(ours.server.pid())?;
        quiet = if now - used < QUIET_CPU_SECONDS {
            quiet + 1
        } else {
            0
        };
        used = now;
        if quiet == QUIET_SECONDS {
            return Some(
                began
                    .elapsed()
                    .saturating_sub(Duration::from_secs(QUIET_SECONDS.into())),
            );
        }
    }
    None
}

/// Memory that is not a file's: pages of the image that are mapped are the system's cache, and given back at need.
fn own_memory(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_at_the_most() {
        assert_eq!(
            sizes(1_000_000).collect::<Vec<_>>(),
            [10_000, 100_000, 1_000_000]
        );
        assert_eq!(sizes(99_999).collect::<Vec<_>>(), [10_000]);
    }

    #[test]
    fn this_process_has_memory_of_its_own() {
        assert!(own_memory(std::process::id()).is_some_and(|bytes| bytes > 0.0));
    }
}
