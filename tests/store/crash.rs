//! `kill -9` under writers and subscribers: a few rounds of what `tideline-load crash` does in twenty, a replay of logs
//! under kills, and the controls that must fail.
//!
//! Owns: the proof that an acknowledgement means "in the log" as far as a killed process can show it (power cuts are
//! the recording backend's matter, in `src/store/log/`). Must not: assert on time.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::Parser;
use tideline_load::cli::Cli;
use tideline_load::exit::{Stop, Verdict};
use tideline_load::outcome::Outcome;

/// Runs the tool with the words of a line. Returns what it found, too.
fn tool(folder: &Path, line: &str) -> Result<(Verdict, Outcome), Stop> {
    let json = folder.join("found.json");
    let binary = env!("CARGO_BIN_EXE_tideline");
    let line = format!(
        "tideline-load {line} --binary {binary} --data {}/data --json {}",
        folder.display(),
        json.display()
    );
    let verdict = Cli::parse_from(line.split_whitespace()).command.run()?;
    Ok((verdict, Outcome::load(&json)?))
}

fn crash(flags: &str) -> (Verdict, Outcome) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let history = folder.path().join("history.jsonl").display().to_string();
    let line = format!("crash --quiet --rounds 5 --history {history} {flags}");
    tool(folder.path(), &line).expect("the server comes back each time")
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let (verdict, found) = crash("");
    assert_eq!(verdict, Verdict::Held, "{:#?}", found.checks);
    assert_eq!(found.figures["kills"].value, 5.0);
    for what in ["reconnects", "resumes"] {
        assert!(found.figures[what].value > 10.0, "{what}");
    }
    let made = &found.checks.made;
    assert!(made["messages stored"] > 1_000 && made["messages pushed"] > 1_000);
}

/// A server that acknowledges before the log append must be caught, or the test above proves nothing.
#[test]
#[cfg(feature = "faults")]
fn acknowledging_before_the_log_append_is_caught() {
    let caught = (0..4).any(|_| crash("--env TIDELINE_FAULT=ack_before_log").0 == Verdict::Broken);
    assert!(
        caught,
        "no round noticed that acknowledged messages were not in the log"
    );
}

#[test]
fn a_replay_holds_under_kills_and_once_more_and_refuses_other_lines() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let write = |file: u32, first: u32| {
        let mut lines = b"=== \xff joined\n".to_vec();
        for number in first..3_000 {
            let mut line = String::new();
            writeln!(line, "[09:14] <nick{file}> {number}").expect("a line");
            lines.extend(line.as_bytes());
        }
        fs::write(folder.path().join(format!("{file}.raw.txt")), lines).expect("a log");
    };
    (0..6).for_each(|file| write(file, 1));
    let replay = |flags: &str| {
        let line = format!("replay {} --quiet {flags}", folder.path().display());
        tool(folder.path(), &line)
    };
    let (verdict, found) = replay("--kills 2 --connections 3").expect("a replay");
    assert_eq!(verdict, Verdict::Held, "{:#?}", found.checks);
    let figure = |name: &str, found: &Outcome| found.figures[name].value;
    assert_eq!(
        (figure("kills", &found), figure("lines_not_utf8", &found)),
        (2.0, 6.0)
    );
    assert_eq!(found.checks.made["messages stored"], 18_000);
    let (verdict, found) = replay("").expect("the same again");
    assert_eq!(verdict, Verdict::Held, "{:#?}", found.checks);
    assert_eq!(figure("duplicates", &found), 18_000.0);
    assert_eq!(found.checks.made["messages stored"], 18_000);
    write(3, 2);
    assert!(
        matches!(replay(""), Err(Stop::Occupied(_))),
        "it holds more"
    );
    assert!(matches!(replay("--suffix .none"), Err(Stop::Usage(_))));
}
