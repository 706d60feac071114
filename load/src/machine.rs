//! What a run ran on, what its processes use, and what time it is.
//!
//! Owns: the facts of this machine that a figure depends on, read from /proc; the wall clock. Promises: what is not to
//! be had is absent, never guessed. Must not: change anything, or fail a run.

use std::time::{SystemTime, UNIX_EPOCH};

use procfs::Current as _;
use procfs::process::{LimitValue, Process, Stat};
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
    #[must_use]
    pub fn here() -> Machine {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let processors = procfs::CpuInfo::current().ok();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processors.and_then(|all| Some(all.model_name(0)?.to_owned())),
            kernel: kernel.map(|text| text.trim().to_owned()),
            memory_bytes: procfs::Meminfo::current()
                .ok()
                .map(|memory| memory.mem_total),
        }
    }
}

/// A process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time so far, seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory, bytes.
    pub resident_bytes: Option<f64>,
    /// Open descriptors.
    pub descriptors: Option<f64>,
    /// Bytes handed to disks so far.
    pub written_bytes: Option<f64>,
}

impl Usage {
    /// Reads it.
    #[must_use]
    pub fn of(pid: u32) -> Usage {
        let Some(process) = process(pid) else {
            return Usage::default();
        };
        let stat = process.stat().ok();
        let resident = |stat: &Stat| (stat.rss * procfs::page_size()) as f64;
        Usage {
            cpu_seconds: stat.as_ref().map(used),
            resident_bytes: stat.as_ref().map(resident),
            descriptors: process.fd_count().ok().map(|count| count as f64),
            written_bytes: process.io().ok().map(|io| io.write_bytes as f64),
        }
    }

    /// Each value with its name.
    pub(crate) fn values(self) -> [(&'static str, Option<f64>); 4] {
        [
            ("cpu_seconds", self.cpu_seconds),
            ("resident_bytes", self.resident_bytes),
            ("descriptors", self.descriptors),
            ("written_bytes", self.written_bytes),
        ]
    }
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// User and system time, in seconds.
fn used(stat: &Stat) -> f64 {
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

/// Processor time of a process so far, in seconds.
#[must_use]
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    process(pid)?.stat().ok().as_ref().map(used)
}

/// The soft limit of open files of a process.
#[must_use]
pub fn open_files_max(pid: u32) -> Option<u64> {
    match process(pid)?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most),
        LimitValue::Unlimited => None,
    }
}

/// Microseconds since 1970, to compare with the times of the server on the same machine.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is not for its clients"
)]
pub fn wall_micros() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_machine_can_be_read() {
        let pid = std::process::id();
        let usage = Usage::of(pid);
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 1e6));
        assert!(usage.descriptors.is_some_and(|count| count >= 3.0));
        assert!(usage.cpu_seconds.is_some() && open_files_max(pid).is_some());
        assert!(
            Machine::here()
                .memory_bytes
                .is_some_and(|bytes| bytes > 1 << 26)
        );
    }
}
