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

use crate::exit::Stop;

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

impl Scenario {
    /// Each run as the words of a command line: profile and flags.
    pub fn read(&self) -> Result<Vec<Vec<String>>, Stop> {
        let wrong = |what: String| Stop::Usage(format!("{}: {what}", self.file.display()));
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(error.to_string()))?;
        words(&text, &self.flags, self.results.as_deref()).map_err(wrong)
    }
}

fn words(text: &str, flags: &[String], results: Option<&Path>) -> Result<Vec<Vec<String>>, String> {
    let File { all, run } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut labels = BTreeSet::new();
    let mut runs = Vec::new();
    for own in run {
        let mut settings = all.clone();
        settings.extend(own);
        let Some(Value::String(profile)) = settings.remove("profile") else {
            return Err("a [[run]] without a profile".to_owned());
        };
        let label = settings.get("label").and_then(Value::as_str);
        let label = label.unwrap_or(&profile).to_owned();
        let mut words: Vec<String> = profile.split(' ').map(str::to_owned).collect();
        for (name, value) in &settings {
            flag(&mut words, &name.replace('_', "-"), value)?;
        }
        if let Some(folder) = results {
            let path = |name: &str| folder.join(name).display().to_string();
            words.push(format!("--json={}", path(&format!("{label}.json"))));
            words.push(format!("--pictures={}", path(&label)));
        }
        words.extend_from_slice(flags);
        runs.push(words);
        if !labels.insert(label.clone()) {
            return Err(format!("two runs are called {label}: give each a label"));
        }
    }
    Ok(runs)
}

fn flag(words: &mut Vec<String>, name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Boolean(true) => words.push(format!("--{name}")),
        // As if it were not there: that is what a flag without a value means.
        Value::Boolean(false) => {}
        Value::String(text) => words.push(format!("--{name}={text}")),
        Value::Integer(_) | Value::Float(_) => words.push(format!("--{name}={value}")),
        Value::Array(values) => {
            for value in values {
                flag(words, name, value)?;
            }
        }
        Value::Datetime(_) | Value::Table(_) => {
            let known = "a number, a text, true or false, nor a list of them";
            return Err(format!("{name}: neither {known}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let flags = ["--seconds", "1"].map(str::to_owned);
        let got = words(text, &flags, None).expect("a scenario");
        let expected = [
            "append",
            "--env=A=1",
            "--env=B=2",
            "--in-flight=16",
            "--quiet",
            "--seconds=2.5",
            "--seconds",
            "1",
        ];
        assert_eq!(got[0], expected);
        assert_eq!(
            got[1],
            ["history", "--label=pages", "--seconds=5", "--seconds", "1"]
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
            let error = words(text, &[], None).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn results_get_a_place_under_their_label() {
        let text = "[[run]]\nprofile = \"append\"\nlabel = \"one\"";
        let runs = words(text, &[], Some(Path::new("out"))).expect("a scenario");
        assert_eq!(
            runs[0],
            [
                "append",
                "--label=one",
                "--json=out/one.json",
                "--pictures=out/one"
            ]
        );
    }
}
