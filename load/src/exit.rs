//! How a run ends: one error type of the profiles, and the exit code of each class.
//!
//! Owns: the codes, which scripts rely on. Promises: a code's meaning never changes. Must not: be widened to carry
//! data; what was found belongs into the report.

use std::fmt;
use std::process::ExitCode;

/// The table that `--help` prints.
pub const CODES: &str = "Exit codes:
  0  everything that was checked held
  1  a fault: the server broke a promise (the report says which)
  2  wrong use of the command line
  3  the server could not be reached, or did not come back in time
  4  the target timelines already hold other data
  5  the tool's own trouble: a file, a limit of this machine";

/// Why a profile could not do its work. A broken promise is no error here: it is a result.
#[derive(Debug)]
pub enum Stop {
    /// The arguments do not fit together.
    Usage(String),
    /// No connection, or none again.
    Unreachable(String),
    /// The timelines are not empty and hold something else.
    Occupied(String),
    /// Files, limits, child processes.
    Own(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Stop::Usage(text) | Stop::Unreachable(text) | Stop::Occupied(text) | Stop::Own(text)) =
            self;
        out.write_str(text)
    }
}

impl std::error::Error for Stop {}

impl Stop {
    /// The process's exit code for this.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Stop::Usage(_) => 2,
            Stop::Unreachable(_) => 3,
            Stop::Occupied(_) => 4,
            Stop::Own(_) => 5,
        })
    }
}

/// The code of a run that could do its work: 0 if all held, else 1.
#[must_use]
pub fn verdict(held: bool) -> ExitCode {
    ExitCode::from(u8::from(!held))
}
