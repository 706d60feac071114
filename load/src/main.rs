//! `tideline-load`: drives a Tideline server and checks its promises.
//!
//! Owns: the process: arguments in, exit code out. Promises: the codes of `--help`. Must not: hold any of the work;
//! the commands are in `cli`, each profile is a module of the library.

use std::process::ExitCode;

use clap::Parser;
use tideline_load::cli::Cli;
use tideline_load::outcome::report;

fn main() -> ExitCode {
    report::ended("tideline-load", Cli::parse().command.run())
}
