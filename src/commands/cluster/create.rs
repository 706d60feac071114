//! `tideline cluster create`: the stream of a new cluster, with its first frame.
//!
//! Owns: what the first frame says. Promises: a stream that is there is left as it is, and refused. Must not: be done
//! by a node: theirs is a login that may make no stream.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use tideline_cluster::{Genesis, Place};
use tideline_jetstream::{Beginning, CommitTime};

use super::super::output::Output;
use super::settings;
use crate::config::login;
use crate::ids::{HistoryId, Position};

/// What `create` is told.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The settings of one of the nodes, with [cluster].
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The login that may make streams, as `nats-config` has written it.
    #[arg(long, value_name = "FILE")]
    login: PathBuf,
    /// On how many NATS servers each frame is kept; with fewer than three, one that is lost takes the log with it.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    copies: u8,
}

/// Makes it.
pub(super) fn create(args: &CreateArgs, out: &mut Output) -> Result<(), String> {
    let (_, cluster) = settings(&args.config)?;
    let access = cluster.access(login(&args.login)?);
    let beginning = Beginning {
        genesis: Genesis::of(&cluster.name, HistoryId::random()),
        before: Place::before_genesis(HistoryId::random(), Position::ZERO, 0, 0),
        time: CommitTime::default(),
        copies: args.copies,
    };
    let (stream, _) = tideline_jetstream::create(&access, &beginning)?;
    let first = cluster.nodes.keys().next().map_or("", String::as_str);
    let told = writeln!(
        out,
        "stream {stream} is made. Start the nodes: {first} will own the log"
    );
    told.map_err(|error| error.to_string())
}
