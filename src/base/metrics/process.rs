//! What the operating system says of the process.
//!
//! Owns: these metrics and when they are read. Promises: one that can't be read stays as it was. Must not: have a
//! label.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Gauge, Seconds};
use super::registry::Registry;

groups! {
    "Process" by []
    /// Handles of what the operating system says of the process.
    Process {
        cpu: Seconds, "process_cpu_seconds_total"
            "Processor time in user and system mode, seconds.",
            "Its rate is the number of processors in use.";
        resident: Gauge, "process_resident_memory_bytes"
            "Resident memory, bytes; pages of the LMDB file that are mapped count too.",
            "Connections, heads of timelines, fresh_bytes_max, memtables and filters take it; the map's part is given back under pressure.";
        open_fds: Gauge, "process_open_fds" "Open file descriptors.", "One per connection, and some.";
        max_fds: Gauge, "process_max_fds"
            "Limit of open file descriptors.",
            "Raise it (ulimit -n) above connections_max.";
        threads: Gauge, "process_threads" "Threads of the process.",
            "Three per partition, one per processor, and up to reads_max and some for reads.";
        start: Gauge, "process_start_time_seconds" "When the process started, seconds since 1970.", "Changes at a restart.";
    }
}

impl Process {
    /// Brings the process's figures up to date; one that can't be read stays as it was.
    pub(super) fn observe(&self) {
        let read = metrics_process::collector::collect();
        for (gauge, value) in [
            (&self.resident, read.resident_memory_bytes),
            (&self.open_fds, read.open_fds),
            (&self.max_fds, read.max_fds),
            (&self.threads, read.threads),
            (&self.start, read.start_time_seconds),
        ] {
            value.into_iter().for_each(|value| gauge.count(value));
        }
        if let Some(seconds) = read.cpu_seconds_total {
            self.cpu.reach(seconds);
        }
    }
}
