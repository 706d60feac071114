//! `tideline doctor`: finds what in the machine and the settings would hurt a server, before it does.
//!
//! Owns: the list of checks, and how they are printed. Promises: it changes nothing but a file of its own, which it
//! removes; it prints no secret; a server may run meanwhile. Must not: open a data directory.

mod machine;
mod reach;

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::clock::Clock;
use crate::config::Config;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// The server starts, and may do badly.
    Warn,
    /// The server would not start, or its data or secrets are at risk.
    Fail,
}

/// What one check has found.
#[derive(Debug, Serialize)]
pub struct Finding {
    check: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            state: State::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            state: State::Warn,
            advice: Some(advice.into()),
            ..Finding::ok(check, found)
        }
    }

    fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            state: State::Fail,
            ..Finding::warn(check, found, advice)
        }
    }
}

/// Runs all checks. `config`: the settings, or why they could not be read; then the defaults are checked.
#[must_use]
pub fn examine(config: Result<&Config, &str>) -> Vec<Finding> {
    let mut findings = vec![match config {
        Ok(_) => Finding::ok("configuration", "every setting is known and in its range"),
        Err(why) => Finding::fail(
            "configuration",
            why,
            "correct it; the other checks look at the defaults",
        ),
    }];
    let defaults = Config::default();
    let config = config.unwrap_or(&defaults);
    findings.extend(machine::examine(config));
    findings.extend(reach::examine(config));
    findings
}

/// Prints the findings, a line for each or all as JSON. Returns whether no check failed.
pub fn tell(findings: &[Finding], as_json: bool, out: &mut dyn Write) -> io::Result<bool> {
    if as_json {
        serde_json::to_writer(&mut *out, findings)?;
        writeln!(out)?;
    } else {
        for Finding {
            check,
            state,
            found,
            advice,
        } in findings
        {
            let state = match state {
                State::Ok => "ok  ",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            write!(out, "{state}  {check}: {found}")?;
            if let Some(advice) = advice {
                write!(out, " -> {advice}")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(findings.iter().all(|finding| finding.state != State::Fail))
}

/// The machine's time.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(Clock::system().now_ms())
}

/// The folder itself, or the nearest one above it that is there.
fn nearest(folder: &Path) -> &Path {
    let above = folder.ancestors().find(|path| path.is_dir());
    above.unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'f>(findings: &'f [Finding], check: &str) -> Vec<&'f Finding> {
        findings.iter().filter(|one| one.check == check).collect()
    }

    #[test]
    fn a_machine_like_this_one_passes() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            data: dir.path().join("data"),
            ..Config::default()
        };
        let findings = examine(Ok(&config));
        let mut told = Vec::new();
        assert!(tell(&findings, false, &mut told).unwrap(), "{findings:?}");
        assert_eq!(
            String::from_utf8(told).unwrap().lines().count(),
            findings.len()
        );
        for check in [
            "descriptors",
            "file system",
            "disk sync",
            "map",
            "clock",
            "exposure",
        ] {
            assert_eq!(of(&findings, check).len(), 1, "{check}");
        }
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }

    #[test]
    fn what_would_refuse_the_start_fails() {
        let exposed = Config {
            listen: "0.0.0.0:7070".parse().unwrap(),
            ..Config::default()
        };
        let findings = examine(Ok(&exposed));
        assert_eq!(of(&findings, "exposure")[0].state, State::Fail);
        assert!(!tell(&findings, true, &mut Vec::new()).unwrap());
        let findings = examine(Err("heartbeat: unknown"));
        assert_eq!(of(&findings, "configuration")[0].state, State::Fail);
    }
}
