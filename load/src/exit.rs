//! How a run ends: one error type of the profiles, and the exit code of each class.
//!
//! Owns: the codes, which scripts rely on. Promises: a code's meaning never changes. Must not: be widened to carry
//! data; what was found belongs into the report.

use futures_util::future::try_join_all;
use tokio::task::{JoinError, JoinHandle};

/// The table that `--help` prints.
pub const CODES: &str = "Exit codes:
  0  everything that was checked held
  1  a fault: the server broke a promise (the report says which)
  2  wrong use of the command line
  3  the server could not be reached, or did not come back in time
  4  the target timelines already hold other data
  5  the tool's own trouble: a file, a limit of this machine
  6  nothing broke, but the figures are not valid (the report says why)
  7  compare: a figure is worse than the tolerance allows";

/// Why a profile could not do its work. A broken promise is no error here: it is a result.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
    /// No connection, or none again.
    #[error("{0}")]
    Unreachable(String),
    /// The timelines are not empty and hold something else.
    #[error("{0}")]
    Occupied(String),
    /// Files, limits, child processes.
    #[error("{0}")]
    Own(String),
    /// A task of this tool panicked.
    #[error("a task failed: {0}")]
    Task(#[from] JoinError),
}

impl Stop {
    /// The process's exit code for this, as in [`CODES`].
    pub fn number(&self) -> u8 {
        match self {
            Stop::Usage(_) => 2,
            Stop::Unreachable(_) => 3,
            Stop::Occupied(_) => 4,
            Stop::Own(_) | Stop::Task(_) => 5,
        }
    }
}

/// How a run ended that could do its work, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All held.
    Held,
    /// A comparison found something worse.
    Worse,
    /// The figures may not be believed.
    Invalid,
    /// A promise was broken.
    Broken,
}

impl Verdict {
    /// A broken promise counts more than figures that are not valid.
    pub fn of(held: bool, valid: bool) -> Verdict {
        match (held, valid) {
            (true, true) => Verdict::Held,
            (true, false) => Verdict::Invalid,
            (false, _) => Verdict::Broken,
        }
    }

    /// The process's exit code for this, as in [`CODES`].
    pub fn number(self) -> u8 {
        match self {
            Verdict::Held => 0,
            Verdict::Broken => 1,
            Verdict::Invalid => 6,
            Verdict::Worse => 7,
        }
    }
}

/// The results of tasks.
pub async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Result<Vec<T>, Stop> {
    Ok(try_join_all(tasks).await?)
}
