//! `tideline-load people` from outside, briefly: nicks who join, talk, leave and are renamed under a kill, the same
//! computed once more by a script of its own, and mistakes that both must notice.
//!
//! Owns: the proof that lists, unread counts and inboxes are what the logs say. Promises: it takes seconds. Must not:
//! assert on time.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Parser;
use tideline_load::cli::Cli;
use tideline_load::exit::Verdict;
use tideline_load::outcome::Outcome;

const LOGS: u64 = 5;
const LINES: u64 = 160;

/// Logs in which everything comes that the rules know.
fn write_logs(folder: &Path) {
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    };
    for log in 0..LOGS {
        let mut text =
            String::from("=== odd \u{7}nick [x@y]  has joined #c\n[00:00] <a\u{7}> hi\n");
        for line in 2..LINES {
            let (nick, other) = (below(24), below(24));
            // Some nicks are printed with a space, which is no part of them.
            let (nick, other) = (format!("n[{nick}] _"), format!("n[{other}]_"));
            let said = match below(10) {
                0 => format!("=== {nick} [~x[{line}]@y]  has joined #c"),
                1 => format!("=== {nick} [x@y]  has left #c [\"bye\"]"),
                2 => format!("=== {nick} [x@y]  has quit"),
                3 => format!("=== {nick} is now known as {other}"),
                4 => format!("[09:14]  * {other} waves at {nick}"),
                5 => format!("=== {nick} has other news"),
                _ => format!("[09:14] <{nick}> {line} \"\u{e9}\""),
            };
            writeln!(text, "{said}").expect("a line");
        }
        let mut bytes = text.into_bytes();
        bytes.extend(b"[10:00] <\xffodd\xfe> \xf0\x9f\x98 no newline behind");
        fs::write(folder.join(format!("log-{log}.raw.txt")), bytes).expect("a log");
    }
}

/// Runs the tool, then the script over its answers. Also whether the script agreed.
fn people(flags: &str) -> (Verdict, Outcome, bool) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    write_logs(folder.path());
    let (answers, json) = (folder.path().join("answers"), folder.path().join("json"));
    let line = format!(
        "tideline-load people {} --quiet --live 8 --binary {} --data {}/data --answers {} --json {} {flags}",
        folder.path().display(),
        env!("CARGO_BIN_EXE_tideline"),
        folder.path().display(),
        answers.display(),
        json.display(),
    );
    let cli = Cli::parse_from(line.split_whitespace());
    let verdict = cli.command.run().expect("the server comes back");
    let found = Outcome::load(&json).expect("a result");
    (verdict, found, agrees(folder.path(), &answers))
}

fn agrees(folder: &Path, answers: &Path) -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/irc_people.py");
    let mut python = Command::new("python3");
    let ran = python.arg(script).args([folder, answers]).output();
    let ran = ran.expect("python3 runs");
    assert!(
        ran.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ran.status.success()
}

#[test]
fn every_nick_has_what_the_logs_say_after_a_kill() {
    // With the feature `faults`, also with a pause in each commit that once lost inbox entries of new members.
    let (verdict, found, agreed) = people("--kills 1 --env TIDELINE_FAULT=late_tail");
    assert_eq!(verdict, Verdict::Held, "{:#?}", found.checks);
    assert!(agreed);
    let made = &found.checks.made;
    assert_eq!(made["messages read back"], LOGS * (LINES + 1));
    assert_eq!(made["devices through"], 16);
    assert!(made["messages on devices"] > 1_000, "{made:?}");
    assert!(made["unread counts"] > 50 && made["reads"] > 0, "{made:?}");
    assert!(made["inbox entries"] > 5_000, "{made:?}");
    assert_eq!(found.figures["kills"].value, 1.0);
}

/// The checks must notice when there is one message or one member less than expected, or they prove nothing.
#[test]
fn a_message_or_a_member_too_few_is_noticed() {
    for (mistake, wrongs) in [
        (
            "message",
            &["lost", "wrong_unread_counts", "wrong_inboxes"][..],
        ),
        ("member", &["wrong_lists", "wrong_inboxes"]),
    ] {
        let (verdict, found, _) = people(&format!("--mistake {mistake}"));
        assert_eq!(verdict, Verdict::Broken, "{mistake}");
        for wrong in wrongs {
            assert!(found.figures[*wrong].value > 0.0, "{mistake}: {wrong}");
        }
    }
}

/// So must the script.
#[test]
fn the_script_notices_one_unread_message_too_many() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(
        folder.path().join("l.raw.txt"),
        "[09:14] <a> 1\n[09:14] <b> 2\n",
    )
    .expect("a log");
    let answers = folder.path().join("answers");
    let agreed = [0, 1].map(|unread| {
        let said = format!(
            r#"{{"timelines":{{"irc/l":{{"lines":2,"last_at":5}}}}}}
{{"nick":"a","list":[["irc/l",1,2,2]],"reads":{{}},"inbox":[["irc/l",1,2]]}}
{{"nick":"b","list":[["irc/l",{unread},2,2]],"reads":{{}},"inbox":[["irc/l",2,2]]}}
"#
        );
        fs::write(&answers, said).expect("written");
        agrees(folder.path(), &answers)
    });
    assert_eq!(agreed, [true, false]);
}
