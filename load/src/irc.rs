//! Reading raw IRC logs: lines, and what a line says.
//!
//! Owns: how a file becomes messages. Promises: lines end at `\n` only, and a last line without one counts; bytes that
//! are not UTF-8 are replaced and counted, nothing else of a line is changed. Must not: drop a line because it is odd.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

/// One log file.
#[derive(Debug)]
pub struct Log {
    /// The file's name without its suffix.
    pub name: String,
    /// Its lines, in order.
    pub lines: Vec<String>,
    /// How many lines held bytes that are not UTF-8.
    pub replaced: u64,
}

/// What one line says; this is the message's entry.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Line<'a> {
    /// `message`, `action` or `system`.
    pub kind: &'static str,
    /// Who, where the line tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nick: Option<&'a str>,
    /// `HH:MM`, where the line tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<&'a str>,
    /// What was said or happened.
    pub text: &'a str,
    /// The whole line as it stood in the file.
    pub raw: &'a str,
}

/// Every file of a folder whose name ends in `suffix`, sorted by name.
pub fn read_folder(folder: &Path, suffix: &str) -> io::Result<Vec<Log>> {
    let mut logs = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(suffix) else {
            continue;
        };
        if file.file_type()?.is_dir() {
            continue;
        }
        let (lines, replaced) = split(&fs::read(file.path())?);
        logs.push(Log {
            name: stem.to_owned(),
            lines,
            replaced,
        });
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(logs)
}

/// The lines of a file's bytes, and how many of them were not UTF-8.
#[must_use]
pub fn split(bytes: &[u8]) -> (Vec<String>, u64) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut replaced = 0;
    let lines = lines
        .into_iter()
        .map(|line| {
            replaced += u64::from(str::from_utf8(line).is_err());
            String::from_utf8_lossy(line).into_owned()
        })
        .collect();
    (lines, replaced)
}

/// Takes a line apart. What fits no pattern is a `system` line with the whole line as its text.
#[must_use]
pub fn parse(raw: &str) -> Line<'_> {
    let (time, rest) = clock(raw);
    let line = |kind, nick, text| Line {
        kind,
        nick,
        time,
        text,
        raw,
    };
    if let Some(said) = rest.strip_prefix('<')
        && let Some((nick, text)) = said.split_once('>')
    {
        return line(
            "message",
            Some(nick),
            text.strip_prefix(' ').unwrap_or(text),
        );
    }
    if let Some(done) = rest.trim_start_matches(' ').strip_prefix("* ") {
        let (nick, text) = done.trim_start().split_once(' ').unwrap_or((done, ""));
        return line("action", Some(nick), text.trim_start_matches(' '));
    }
    if let Some(notice) = rest.strip_prefix("=== ") {
        let nick = notice.split(' ').next().filter(|nick| !nick.is_empty());
        return line("system", nick, notice);
    }
    line("system", None, rest)
}

/// Splits `[HH:MM] ` off.
fn clock(raw: &str) -> (Option<&str>, &str) {
    let split = raw
        .strip_prefix('[')
        .and_then(|inner| inner.split_once("] "))
        .filter(|(time, _)| time.len() == 5 && time.as_bytes()[2] == b':');
    match split {
        Some((time, rest)) => (Some(time), rest),
        None => (None, raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn each_kind_of_line_is_taken_apart() {
        let said = parse("[09:14] <will> best player: VLC > all");
        assert_eq!(
            (said.kind, said.nick, said.time),
            ("message", Some("will"), Some("09:14"))
        );
        assert_eq!(said.text, "best player: VLC > all");
        let done = parse("[06:56]  * ghoti waves");
        assert_eq!(
            (done.kind, done.nick, done.text),
            ("action", Some("ghoti"), "waves")
        );
        let joined = parse("=== L0sT [~x@y]  has joined #ubuntu");
        assert_eq!(
            (joined.kind, joined.nick, joined.time),
            ("system", Some("L0sT"), None)
        );
        let notice = parse("[05:12] -bot:#ubuntu- hello");
        assert_eq!(
            (notice.kind, notice.nick, notice.text),
            ("system", None, "-bot:#ubuntu- hello")
        );
        for odd in [
            "",
            "[",
            "[09:14]",
            "<",
            "[09:14] <never closed",
            "* ",
            "=== ",
            "[\u{fffd}\u{fffd}] x",
        ] {
            assert_eq!(parse(odd).raw, odd);
        }
    }
}
