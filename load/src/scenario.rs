//! `run`: profiles and their settings from a TOML file, one after the other.
//!
//! Owns: turning a file into the words of a command line. Promises: a setting means what the flag of its name means,
//! and one that no flag has is an error before anything is started; flags behind the file's name win over it. Must
//! not: know any setting: the command line does.
//!
//! ```toml
//! [all]                      # for every run below
//! seconds = 30
//!
//! [[run]]
//! profile = "append"
//! label = "50x16"            # also names its files below --results
//! in_flight = 16             # `in-flight` and `in_flight` are the same; true = the bare flag, a list = the flag again and again
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::exit::{Stop, Verdict};

/// Arguments of `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Scenario {
    /// Write each run's result and pictures into this folder, under its label
    #[arg(long)]
    pub results: Option<PathBuf>,
    /// The scenario (TOML)
    pub file: PathBuf,
    /// Flags for every run of it; they win over the file
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub flags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    all: Table,
    run: Vec<Table>,
}

/// One run as the words of a command line, without the tool's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// What the caller may call it.
    pub label: String,
    /// Profile and flags.
    pub words: Vec<String>,
}

/// Reads a scenario's text.
pub fn read(text: &str, flags: &[String], results: Option<&Path>) -> Result<Vec<Words>, String> {
    let File { all, run } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut labels = BTreeSet::new();
    let mut runs = Vec::new();
    for mut table in run {
        let profile = match table.remove("profile") {
            Some(Value::String(profile)) => profile,
            _ => return Err("a [[run]] without a profile".to_owned()),
        };
        let label = match table.get("label") {
            Some(Value::String(label)) => label.clone(),
            _ => profile.clone(),
        };
        if !labels.insert(label.clone()) {
            return Err(format!("two runs are called {label}: give each a label"));
        }
        let mut words = vec![profile];
        for (name, value) in all
            .iter()
            .filter(|(name, _)| !table.contains_key(*name))
            .chain(&table)
        {
            flag(&mut words, name, value)?;
        }
        if let Some(folder) = results {
            words.push(format!(
                "--json={}",
                folder.join(format!("{label}.json")).display()
            ));
            words.push(format!("--pictures={}", folder.join(&label).display()));
        }
        words.extend(flags.iter().cloned());
        runs.push(Words { label, words });
    }
    Ok(runs)
}

fn flag(words: &mut Vec<String>, name: &str, value: &Value) -> Result<(), String> {
    let flag = name.replace('_', "-");
    match value {
        Value::Boolean(true) => words.push(format!("--{flag}")),
        // As if it were not there: that is what a flag without a value means.
        Value::Boolean(false) => {}
        Value::String(text) => words.push(format!("--{flag}={text}")),
        Value::Integer(number) => words.push(format!("--{flag}={number}")),
        Value::Float(number) => words.push(format!("--{flag}={number}")),
        Value::Array(values) => {
            for value in values {
                self::flag(words, name, value)?;
            }
        }
        Value::Datetime(_) | Value::Table(_) => {
            return Err(format!(
                "{name}: neither a number, a text, true or false, nor a list of them"
            ));
        }
    }
    Ok(())
}

/// Runs all of a scenario: `start` makes one run of a profile's words. All are read before the first is started; the
/// worst verdict counts.
pub fn run<C>(
    args: &Scenario,
    parse: impl Fn(&Words) -> Result<C, Stop>,
    start: impl Fn(C) -> Result<Verdict, Stop>,
) -> Result<Verdict, Stop> {
    let wrong = |what: String| Stop::Usage(format!("{}: {what}", args.file.display()));
    let text = std::fs::read_to_string(&args.file).map_err(|error| wrong(error.to_string()))?;
    let runs = read(&text, &args.flags, args.results.as_deref()).map_err(wrong)?;
    let commands: Vec<C> = runs.iter().map(parse).collect::<Result<_, _>>()?;
    let mut worst = Verdict::Held;
    for command in commands {
        worst = worst.max(start(command)?);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, flags: &[&str]) -> Vec<Vec<String>> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let runs = read(text, &flags, None).expect("a scenario");
        runs.into_iter().map(|run| run.words).collect()
    }

    #[test]
    fn settings_become_flags_and_flags_come_last() {
        let text = r#"
            [all]
            seconds = 5
            quiet = true
            [[run]]
            profile = "append"
            in_flight = 16
            env = ["A=1", "B=2"]
            seconds = 2.5
            [[run]]
            profile = "history"
            label = "pages"
            quiet = false
        "#;
        let got = words(text, &["--seconds", "1"]);
        let expected = [
            "append",
            "--quiet",
            "--env=A=1",
            "--env=B=2",
            "--in-flight=16",
            "--seconds=2.5",
            "--seconds",
            "1",
        ];
        assert_eq!(got[0], expected);
        assert_eq!(
            got[1],
            ["history", "--seconds=5", "--label=pages", "--seconds", "1"]
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("[[run]]\nconnections = 1", "without a profile"),
            (
                "[[run]]\nprofile = \"append\"\n[[run]]\nprofile = \"append\"",
                "two runs",
            ),
            ("[[runs]]\nprofile = \"append\"", "runs"),
            ("[[run]]\nprofile = \"append\"\nx = { y = 1 }", "x: neither"),
        ] {
            let error = read(text, &[], None).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn results_get_a_place_under_their_label() {
        let text = "[[run]]\nprofile = \"append\"\nlabel = \"one\"";
        let runs = read(text, &[], Some(Path::new("out"))).expect("a scenario");
        assert_eq!(
            runs[0].words,
            [
                "append",
                "--label=one",
                "--json=out/one.json",
                "--pictures=out/one"
            ]
        );
    }
}
