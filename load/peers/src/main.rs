//! `tideline-peers`: the command line of the comparison with other servers.
//!
//! Owns: what is printed and saved. Promises: a run that is ended early keeps the rows so far. Must not: measure.

use std::process::ExitCode;

use clap::Parser;
use tideline_load::exit::{CODES, Stop, Verdict};
use tideline_load::report;
use tideline_peers::{Peers, run};

/// Tideline beside Redis Streams, NATS and the bare machine, in turn
#[derive(Parser)]
#[command(version, after_help = CODES)]
struct Cli {
    #[command(flatten)]
    peers: Peers,
}

fn main() -> ExitCode {
    report::ended("tideline-peers", compare(Cli::parse().peers))
}

fn compare(args: Peers) -> Result<Verdict, Stop> {
    let json = args.json.clone();
    let outcome = run(args, &mut |row, outcome| {
        report::say(&row.text());
        if let Err(stop) = report::save(outcome, json.as_deref()) {
            report::note(&stop.to_string());
        }
    })?;
    report::say(&outcome.summary());
    report::save(&outcome, json.as_deref())?;
    Ok(outcome.sheet.verdict())
}
