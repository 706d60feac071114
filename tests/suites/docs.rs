//! The documents as their readers use them: runs the suite in `tests/docs/`, which runs every command and program of
//! every page as it is printed, against the real binary.
//!
//! Owns: the programs that pages take for granted. This one is also `tideline-load` and `tideline-peers`, if it is
//! called by these names: the test command does not build theirs. Must not: know a page.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tideline_load::cli;
use tideline_load::outcome::report;

use crate::python_bed::Python;

/// As in `load/peers/src/main.rs`.
#[derive(Parser)]
struct PeersCli {
    #[command(flatten)]
    _peers: tideline_peers::Peers,
}

/// Does what the program of that name does, if it is one of these.
pub(crate) fn as_program(name: &str) -> Option<ExitCode> {
    let only_understands = std::env::var_os("TIDELINE_ONLY_UNDERSTAND").is_some();
    match Path::new(name).file_name().and_then(OsStr::to_str) {
        Some("tideline-load") => {
            let load = cli::Cli::parse();
            Some(match only_understands {
                true => ExitCode::SUCCESS,
                false => report::ended("tideline-load", load.command.run()),
            })
        }
        Some("tideline-peers") => {
            PeersCli::parse();
            Some(ExitCode::from(u8::from(!only_understands)))
        }
        _ => None,
    }
}

pub(crate) fn pages() {
    let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/docs");
    let itself = std::env::current_exe().expect("a program knows where it is");
    Python::with("docs-suite", &format!("{suite}/requirements.txt")).run_suite(
        "docs",
        &[
            ("TIDELINE_LOAD", itself.as_os_str()),
            ("TIDELINE_PEERS", itself.as_os_str()),
        ],
    );
}
