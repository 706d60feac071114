//! A history recorded from the real binary: it passes, each thing done to it is found, and without its end the lines of
//! `tideline dump` are as good.
//!
//! Owns: the proof that what profiles record and the server dumps is what the checker reads.

use std::fs;
use std::process::Command;

use clap::Parser;
use tideline_history::{Anomaly, Report, check_files};
use tideline_load::cli::Cli;
use tideline_load::exit::Verdict;

/// What is done to the first line that begins and goes on so, and its name. `#` is the operation's number.
const MUTATIONS: [(&str, &str, &str, Anomaly); 8] = [
    ("{", "\"message\":{", "", Anomaly::Gap),
    (
        "{",
        "\"sequence\":1,",
        "\"sequence\":900000,",
        Anomaly::Misplaced,
    ),
    ("{", "\"digest\":", "\"entry\":0,\"was\":", Anomaly::Corrupt),
    (
        "{",
        "\"message_id\":\"",
        "\"message_id\":\"x",
        Anomaly::Lost,
    ),
    ("{", "\"head\":", "\"head\":1", Anomaly::Gap),
    (
        "[",
        "\"message_id\":\"",
        "\"message_id\":\"x",
        Anomaly::Unexpected,
    ),
    ("[", "\"timestamp\":1", "\"timestamp\":2", Anomaly::Corrupt),
    ("[", "\"ok\":", "\"fail\":[#,\"busy\"]}]", Anomaly::G1a),
];

#[test]
fn a_recorded_history_passes_and_each_mutation_of_it_is_found() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, history, dump) = (path("data"), path("history.jsonl"), path("dump.jsonl"));
    let run = |words: &str| {
        let words = format!("tideline-load {words} --history {history} --data {data} --quiet");
        let binary = env!("CARGO_BIN_EXE_tideline");
        let flags = ["--binary", binary, "--warm-up", "0", "--seconds", "0.3"];
        Cli::try_parse_from(words.split_whitespace().chain(flags)).map(|cli| cli.command.run())
    };
    let append = "append --timelines 7 --connections 4 --in-flight 4 --sample 7";
    assert!(
        run(&format!("{append} --preload 5")).is_err(),
        "nobody recorded these"
    );
    let verdict = run(&format!("{append} --users 2 --members")).expect("flags");
    assert!(verdict.expect("a run") <= Verdict::Invalid);
    let check = || {
        Cli::parse_from(["tideline-load", "check", &history])
            .command
            .run()
    };
    assert_eq!(check().expect("a check"), Verdict::Held);

    let recorded = fs::read_to_string(&history).expect("a history");
    let checked = |text: &str| -> Report {
        fs::write(&history, text).expect("written");
        check_files(&[&history]).expect("readable")
    };
    for (begin, from, to, anomaly) in MUTATIONS {
        let is_such = |line: &&str| line.starts_with(begin) && line.contains(from);
        let line = recorded.lines().find(is_such).expect("such a line");
        let (before, behind) = line.split_once(from).expect("it is in it");
        let number = behind
            .trim_start_matches('[')
            .split(',')
            .next()
            .unwrap_or_default();
        let other = match to.replace('#', number) {
            to if to.is_empty() => to,
            to if to.ends_with(']') => format!("{before}{to}\n"),
            to => format!("{before}{to}{behind}\n"),
        };
        let broken = recorded.replacen(&format!("{line}\n"), &other, 1);
        let report = checked(&broken);
        assert!(
            report.counts.contains_key(&anomaly),
            "{anomaly:?}: {other}: {report}"
        );
    }

    // As if the tool had been killed: the last answers and all that is stored are missing.
    let events: Vec<&str> = recorded
        .lines()
        .filter(|line| line.starts_with('['))
        .collect();
    let cut = events[..events.len() - 3].join("\n") + "\n[17,\"connec";
    let dumped = Command::new(env!("CARGO_BIN_EXE_tideline"))
        .args(["dump", &data])
        .output();
    fs::write(&dump, dumped.expect("a dump").stdout).expect("written");
    fs::write(&history, cut).expect("written");
    let report = check_files(&[&history, &dump]).expect("readable");
    assert_eq!(
        (report.total(), report.checked["torn lines"]),
        (0, 1),
        "{report}"
    );
    assert!(report.checked["messages stored"] > 20, "{report}");
}
