//! Reading raw IRC logs: files as lines, lines as messages.
//!
//! Owns: how a file becomes messages. Promises: lines end at `\n` only, and a last line without one counts; bytes that
//! are not UTF-8 are replaced and counted, nothing else of a line is changed. Must not: drop a line because it is odd,
//! or know what it says.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::Stop;

/// Which logs to read, and what their timelines are called: flags of the profiles that send them.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Folder {
    /// The folder with the logs
    #[serde(skip)]
    pub(crate) dir: PathBuf,
    /// Which files of it: those whose names end so
    #[arg(long, default_value = ".raw.txt")]
    suffix: String,
    /// Put before each file's name to make the timeline's
    #[arg(long, default_value = "irc/")]
    pub(crate) prefix: String,
}

impl Folder {
    /// All logs, at least one, sorted by name.
    pub(crate) fn read(&self) -> Result<Vec<Log>, Stop> {
        let (dir, suffix) = (self.dir.display(), &*self.suffix);
        let own = |error| Stop::Own(format!("{dir}: {error}"));
        let mut logs = Vec::new();
        for file in fs::read_dir(&self.dir).map_err(own)? {
            let path = file.map_err(own)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.strip_suffix(suffix).filter(|_| path.is_file());
            if let Some(stem) = stem {
                let bytes = fs::read(&path).map_err(own)?;
                logs.push(Log::new(stem, &bytes));
            }
        }
        logs.sort_by(|a, b| a.name.cmp(&b.name));
        if logs.is_empty() {
            return Err(Stop::Usage(format!("{dir}: no files *{suffix}")));
        }
        let long = |log: &&Log| {
            self.timeline(log).len() > 255 || log.message_id(log.lines.len()).len() > 64
        };
        if let Some(log) = logs.iter().find(long) {
            let name = &log.name;
            return Err(Stop::Usage(format!("{name}: the file's name is too long")));
        }
        Ok(logs)
    }

    /// The name of a log's timeline.
    pub(crate) fn timeline(&self, log: &Log) -> String {
        format!("{}{}", self.prefix, log.name)
    }
}

/// One log file.
#[derive(Debug)]
pub(crate) struct Log {
    /// The file's name without its suffix.
    pub(crate) name: String,
    pub(crate) lines: Vec<String>,
    /// How many lines held bytes that are not UTF-8.
    pub(crate) replaced: u64,
}

impl Log {
    /// The lines of a file's bytes.
    fn new(name: &str, bytes: &[u8]) -> Log {
        let mut replaced = 0;
        let line = |line: &[u8]| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let text = String::from_utf8_lossy(line);
            replaced += u64::from(matches!(text, Cow::Owned(_)));
            text.into_owned()
        };
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(line);
        Log {
            name: name.to_owned(),
            lines: lines.collect(),
            replaced,
        }
    }

    /// The message ID of a line.
    pub(crate) fn message_id(&self, index: usize) -> String {
        format!("{}:{}", self.name, index + 1)
    }

    /// The entry of its message.
    pub(crate) fn entry(&self, index: usize) -> Value {
        json!({ "line": index + 1, "text": self.lines[index] })
    }
}

/// A folder without files.
#[cfg(test)]
pub(crate) fn test_folder() -> Folder {
    Folder {
        dir: PathBuf::new(),
        suffix: String::new(),
        prefix: "irc/".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8]) -> (Vec<String>, u64) {
        let log = Log::new("l", bytes);
        (log.lines, log.replaced)
    }

    #[test]
    fn lines_end_at_newline_only_and_the_last_needs_none() {
        let (lines, replaced) = split("a\r\u{2028}b\u{85}c\n\nd".as_bytes());
        assert_eq!(lines, ["a\r\u{2028}b\u{85}c", "", "d"]);
        assert_eq!(replaced, 0);
        assert_eq!(split(b""), (vec![], 0));
        assert_eq!(split(b"\n").0, [""]);
        let (lines, replaced) = split(b"ok\nbad \xff byte\n");
        assert_eq!(lines, ["ok", "bad \u{fffd} byte"]);
        assert_eq!(replaced, 1);
    }
}
