//! What a run ran on, and what time it is.
//!
//! Owns: the facts about this machine that a figure depends on; the wall clock. Promises: what is not to be had is
//! absent, never guessed. Must not: change anything.

use std::time::{SystemTime, UNIX_EPOCH};

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
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kib = |text: String| text.strip_suffix(" kB")?.parse::<u64>().ok();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            memory_bytes: read("/proc/meminfo")
                .and_then(|text| field(&text, "MemTotal"))
                .and_then(kib)
                .map(|kib| kib * 1024),
        }
    }
}

/// Microseconds since 1970, to set beside the times of the server on the same machine.
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
