//! `tideline-peers`: the command line of the comparison with other servers.
//!
//! Owns: what is printed and saved. Promises: a run that is ended early keeps the rows so far. Must not: measure.

use std::process::ExitCode;

use clap::Parser;
use tideline_load::exit::CODES;
use tideline_load::outcome::report;
use tideline_peers::{Outcome, Peers, run};

/// Tideline beside Redis Streams, NATS and the bare machine, in turn
#[derive(Parser)]
#[command(version, after_help = CODES)]
struct Cli {
    #[command(flatten)]
    peers: Peers,
}

fn main() -> ExitCode {
    let Cli { peers } = Cli::parse();
    let json = peers.json.clone();
    let save = |outcome: &Outcome| report::save(outcome, json.as_deref());
    let outcome = run(peers, &mut |row, outcome| {
        report::say(&row.text());
        if let Err(stop) = save(outcome) {
            report::note(&stop.to_string());
        }
    });
    let ended = outcome.and_then(|outcome| {
        report::say(&outcome.summary());
        save(&outcome)?;
        Ok(outcome.sheet.verdict())
    });
    report::ended("tideline-peers", ended)
}
