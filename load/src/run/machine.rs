//! What a run ran on, what its processes use, and what time it is.
//!
//! Owns: the facts of this machine that a figure depends on, read from /proc; the wall clock. Promises: what is not to
//! be had is absent, never guessed. Must not: change anything, or fail a run.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use procfs::Current as _;
use procfs::process::{LimitValue, Process};
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// Their kind.
    pub processor: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let processors = procfs::CpuInfo::current().ok();
        let memory = procfs::Meminfo::current().ok();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processors.and_then(|all| Some(all.model_name(0)?.to_owned())),
            kernel: kernel.map(|text| text.trim().to_owned()),
            memory_bytes: memory.map(|memory| memory.mem_total),
        }
    }
}

/// What a process uses, by name with its unit: processor time and bytes handed to disks so far, memory and open
/// descriptors now.
pub fn usage(pid: u32) -> BTreeMap<&'static str, f64> {
    let mut usage = BTreeMap::new();
    let Some(process) = process(pid) else {
        return usage;
    };
    if let Ok(stat) = process.stat() {
        let ticks = (stat.utime + stat.stime) as f64;
        usage.insert("cpu_seconds", ticks / procfs::ticks_per_second() as f64);
        let bytes = stat.rss as f64 * procfs::page_size() as f64;
        usage.insert("resident_bytes", bytes);
    }
    if let Ok(count) = process.fd_count() {
        usage.insert("descriptors", count as f64);
    }
    if let Ok(io) = process.io() {
        usage.insert("written_bytes", io.write_bytes as f64);
    }
    usage
}

/// One of these.
pub fn used(pid: u32, name: &str) -> Option<f64> {
    usage(pid).remove(name)
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// The soft limit of open files of a process.
pub fn open_files_max(pid: u32) -> Option<u64> {
    match process(pid)?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most),
        LimitValue::Unlimited => None,
    }
}

/// Microseconds since 1970, to compare with the times of the server on the same machine.
#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is not for its clients"
)]
pub fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_machine_can_be_read() {
        let pid = std::process::id();
        let usage = usage(pid);
        assert!(usage["resident_bytes"] > 1e6 && usage["descriptors"] >= 3.0);
        assert!(usage.contains_key("cpu_seconds") && open_files_max(pid).is_some());
        let memory = Machine::here().memory_bytes;
        assert!(memory.is_some_and(|bytes| bytes > 1 << 26));
    }
}
