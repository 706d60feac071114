//! `tideline-load`: drives a Tideline server and checks its promises.
//!
//! Owns: the command line, the runtime, the exit code. Promises: the codes of `--help`. Must not: hold any of the work;
//! each profile is a module of the library.

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;
use tideline_load::exit::{self, Stop};
use tideline_load::{append, connect, crash, replay, report};

/// Drives a Tideline server and checks its promises
#[derive(Parser)]
#[command(version, after_help = exit::CODES)]
struct Cli {
    #[command(subcommand)]
    profile: Profile,
}

#[derive(Subcommand)]
enum Profile {
    /// Send real IRC logs, listen in several ways, check every line
    #[command(after_help = exit::CODES)]
    Replay(replay::Replay),
    /// Durable appends per second and their latency
    #[command(after_help = exit::CODES)]
    Append(append::Append),
    /// Memory of idle connections
    #[command(after_help = exit::CODES)]
    Connect(connect::Connect),
    /// Kill the server under load again and again, then check everything
    #[command(after_help = exit::CODES)]
    Crash(crash::Crash),
}

fn main() -> ExitCode {
    match run(Cli::parse().profile) {
        Ok(code) => code,
        Err(stop) => {
            report::note(&format!("tideline-load: {stop}"));
            stop.code()
        }
    }
}

fn run(profile: Profile) -> Result<ExitCode, Stop> {
    let failed = |error| Stop::Own(format!("no runtime: {error}"));
    let mut several = tokio::runtime::Builder::new_multi_thread();
    let mut one = tokio::runtime::Builder::new_current_thread();
    match profile {
        Profile::Replay(args) => {
            let runtime = several.enable_all().build().map_err(failed)?;
            let json = args.json.clone();
            let outcome = runtime.block_on(replay::run(args))?;
            tell_faults(&outcome.verdict.faults);
            finish(
                &outcome,
                &outcome.summary(),
                outcome.verdict.held(),
                json.as_deref(),
            )
        }
        Profile::Append(args) => {
            // One thread: the server needs the machine more than its load does.
            let runtime = one.enable_all().build().map_err(failed)?;
            let json = args.json.clone();
            let outcome = runtime.block_on(append::run(args))?;
            tell_faults(&outcome.faults);
            finish(
                &outcome,
                &outcome.summary(),
                outcome.held(),
                json.as_deref(),
            )
        }
        Profile::Connect(args) => {
            let runtime = one.enable_all().build().map_err(failed)?;
            let json = args.json.clone();
            let outcome = runtime.block_on(connect::run(args))?;
            finish(&outcome, &outcome.summary(), true, json.as_deref())
        }
        Profile::Crash(args) => {
            let runtime = several.enable_all().build().map_err(failed)?;
            let json = args.json.clone();
            let outcome = runtime.block_on(crash::run(args))?;
            tell_faults(&outcome.verdict.faults);
            finish(
                &outcome,
                &outcome.summary(),
                outcome.verdict.held(),
                json.as_deref(),
            )
        }
    }
}

fn tell_faults(faults: &[String]) {
    for fault in faults {
        report::note(&format!("fault: {fault}"));
    }
}

fn finish(
    outcome: &impl Serialize,
    summary: &str,
    held: bool,
    json: Option<&Path>,
) -> Result<ExitCode, Stop> {
    report::say(summary);
    report::save(outcome, json)?;
    Ok(exit::verdict(held))
}
