//! What Linux tells of this process: processor time, memory, descriptors, start.
//!
//! Owns: the reading of `/proc/self`. Promises: what can't be read stays as it was; elsewhere than on Linux all stay 0.
//! The `process` feature of the metrics library is not used: it counts processor time in whole seconds only. Must not:
//! wait for anything but `/proc`.

use std::fs;

use super::catalogue::process;

/// Brings the process's figures up to date.
pub(super) fn observe() {
    let figures = process();
    if let Some(stat) = fs::read_to_string("/proc/self/stat")
        .ok()
        .as_deref()
        .and_then(Stat::parse)
    {
        figures.cpu.reach(stat.cpu_ticks as f64 / TICKS);
        figures.threads.count(stat.threads);
        figures.resident.count(stat.resident_pages * PAGE_BYTES);
        if let Some(boot) = fs::read_to_string("/proc/stat")
            .ok()
            .as_deref()
            .and_then(boot_seconds)
        {
            figures
                .start
                .set(boot as f64 + stat.start_ticks as f64 / TICKS);
        }
    }
    if let Some(count) = open_fds() {
        figures.open_fds.count(count);
    }
    if let Some(max) = fs::read_to_string("/proc/self/limits")
        .ok()
        .as_deref()
        .and_then(max_fds)
    {
        figures.max_fds.count(max);
    }
}

/// What is of use in `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    /// The name in brackets may hold anything, also brackets: what counts comes behind the last one.
    fn parse(text: &str) -> Option<Stat> {
        let rest = text.rsplit_once(')')?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: number(11)? + number(12)?,
            threads: number(17)?,
            start_ticks: number(19)?,
            resident_pages: number(21)?,
        })
    }
}

fn boot_seconds(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn max_fds(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Newer kernels tell the number as the directory's size; older ones let us count.
fn open_fds() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).ok()?.len() {
        0 => Some(fs::read_dir(FOLDER).ok()?.count() as u64),
        count => Some(count),
    }
}

/// Linux tells processor time in hundredths of a second, whatever its own clock does.
const TICKS: f64 = 100.0;
/// As everywhere that the image runs.
const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_their_place() {
        let line = "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 150 50 0 0 20 0 9 0 12345 1000 77 99";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            (
                stat.cpu_ticks,
                stat.threads,
                stat.start_ticks,
                stat.resident_pages
            ),
            (200, 9, 12_345, 77)
        );
        assert_eq!(Stat::parse("7 (short) S 1"), None);
        assert_eq!(
            boot_seconds("cpu 1\nbtime 1700000000\n"),
            Some(1_700_000_000)
        );
        let limits =
            "Max file size  unlimited  unlimited  bytes\nMax open files   1024   4096   files\n";
        assert_eq!(max_fds(limits), Some(1024));
    }
}
