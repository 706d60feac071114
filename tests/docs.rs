//! The documents as their readers use them: runs the suite in `tests/docs/`, which runs every command and program of
//! every page as it is printed, against the real binary.
//!
//! Owns: the programs that pages take for granted. This one is also `tideline-load` and `tideline-peers`, if it is
//! called by these names: the test command does not build theirs. Must not: know a page.

#[path = "suites/python_bed/mod.rs"]
mod python_bed;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use python_bed::Python;
use tideline_load::cli;
use tideline_load::outcome::report;

/// As in `load/peers/src/main.rs`.
#[derive(Parser)]
struct PeersCli {
    #[command(flatten)]
    _peers: tideline_peers::Peers,
}

fn main() -> ExitCode {
    let program = std::env::args().next().unwrap_or_default();
    let only_understands = std::env::var_os("TIDELINE_ONLY_UNDERSTAND").is_some();
    match Path::new(&program).file_name().and_then(OsStr::to_str) {
        Some("tideline-load") => {
            let load = cli::Cli::parse();
            match only_understands {
                true => ExitCode::SUCCESS,
                false => report::ended("tideline-load", load.command.run()),
            }
        }
        Some("tideline-peers") => {
            PeersCli::parse();
            ExitCode::from(u8::from(!only_understands))
        }
        _ => suite(),
    }
}

/// Of the test's own arguments only a filter of names counts.
fn suite() -> ExitCode {
    let mut filters = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    if filters.next().is_some_and(|word| !"docs".contains(&word)) {
        return ExitCode::SUCCESS;
    }
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/docs");
    let itself = std::env::current_exe().expect("a program knows where it is");
    Python::with("docs-suite", &format!("{suite}/requirements.txt")).run_suite(
        "docs",
        &[
            ("TIDELINE_LOAD", itself.as_os_str()),
            ("TIDELINE_PEERS", itself.as_os_str()),
        ],
    );
    ExitCode::SUCCESS
}
