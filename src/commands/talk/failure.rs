//! Why a command did not do what it was asked to.
//!
//! Owns: the kinds of failures, their texts and exit codes. Promises: the server's own reason is in the text; no
//! control character is. Must not: decide what is tried again; commands do.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;

use super::plain::plain;

/// A refusal, as the server says it.
#[derive(Clone, Debug, Deserialize)]
pub(in super::super) struct Refusal {
    code: i64,
    message: String,
    #[serde(default)]
    data: Box<Data>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Data {
    reason: Option<String>,
    #[serde(default)]
    retry: bool,
    retry_after_ms: Option<u64>,
    field: Option<String>,
    limit: Option<u64>,
    actual: Option<u64>,
}

/// Why there is no result.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// The server has refused the call.
    Refused(Refusal),
    /// The server is not reached, or has gone: perhaps it is back soon.
    Away {
        why: String,
        /// When the server asks its clients to be back.
        back_in: Option<Duration>,
    },
    /// What repeating does not mend.
    Wrong(String),
    /// The reader of the output has closed it.
    Unread,
    /// By Ctrl-C, or a signal that asks to end.
    Interrupted(String),
}

impl Failure {
    pub(super) fn away(why: impl Into<String>) -> Failure {
        Failure::Away {
            why: why.into(),
            back_in: None,
        }
    }

    /// What to say about it; `None` = nothing.
    pub(in super::super) fn line(&self) -> Option<String> {
        match self {
            Failure::Refused(refusal) => Some(refusal.to_string()),
            Failure::Away { why, .. } | Failure::Wrong(why) => Some(plain(why)),
            Failure::Interrupted(why) => Some(plain(why)).filter(|why| !why.is_empty()),
            Failure::Unread => None,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Unread => 0,
            Failure::Refused(_) | Failure::Wrong(_) => 1,
            // 2 is said by the parser of the command line.
            Failure::Away { .. } => 3,
            // As of a process that SIGINT has ended.
            Failure::Interrupted(_) => 130,
        })
    }

    /// Says what the failure is about.
    pub(super) fn about(self, what: &str) -> Failure {
        match self {
            Failure::Refused(mut refusal) => {
                refusal.message = format!("{what}: {}", refusal.message);
                Failure::Refused(refusal)
            }
            Failure::Wrong(why) => Failure::Wrong(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// Of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::Wrong(format!("standard output: {error}")),
        }
    }
}

impl Refusal {
    /// Whether the same call can succeed later.
    pub(super) fn may_retry(&self) -> bool {
        self.data.retry
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.data.retry_after_ms.map(Duration::from_millis)
    }

    /// As a line that names the method that was called.
    pub(in super::super) fn of(&self, method: &str) -> String {
        let field = self.data.field.as_deref().unwrap_or_default();
        let told = format!("{method} {field}: {}: {}", self.reason(), self.message);
        plain(&told)
    }

    pub(super) fn reason(&self) -> &str {
        self.data.reason.as_deref().unwrap_or_default()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} (", plain(&self.message))?;
        match &self.data.reason {
            Some(reason) => out.write_str(&plain(reason))?,
            None => write!(out, "code {}", self.code)?,
        }
        if let Some(field) = &self.data.field {
            write!(out, ", {}", plain(field))?;
        }
        if let Some(limit) = self.data.limit {
            write!(out, ", limit {limit}")?;
        }
        if let Some(actual) = self.data.actual {
            write!(out, ", actual {actual}")?;
        }
        out.write_str(")")
    }
}
