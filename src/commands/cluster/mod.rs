//! `tideline cluster`: what a person prepares a cluster with, asks its nodes, and has one of them own the log by.
//!
//! Owns: the commands. Promises: what is refused is one sentence that says what to do. Must not: serve.

mod adopt;
mod ask;
mod create;
mod dissolve;
mod drain;
mod nats_config;
mod rebuild;
mod take_over;

use clap::Subcommand;

use super::output::Output;
use crate::config::{self, ClusterKey, Config, Flags};

pub use adopt::AdoptArgs;
pub use ask::NodesArgs;
pub use create::CreateArgs;
pub use dissolve::DissolveArgs;
pub use drain::{DrainArgs, UndrainArgs};
pub use nats_config::NatsConfigArgs;
pub use rebuild::RebuildArgs;
pub use take_over::TakeOverArgs;

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Write the settings of the NATS servers of a cluster, one file for each machine
    ///
    /// Each is made for nats-server 2.12.6 or newer: `sync_interval: always`, `max_payload: 8MB`, routes between the
    /// machines, and users with new passwords. The users' names and passwords are in node.login and operator.login.
    NatsConfig(NatsConfigArgs),
    /// Make the log of a new cluster in NATS, once
    ///
    /// Afterwards start the nodes. The first of them, by name, owns the log at first.
    Create(CreateArgs),
    /// Make a data directory a part of a new cluster, whose log goes on where that directory's ends
    ///
    /// Clients go on with their epochs and positions. The directory must not be in use; nothing else of it changes, and
    /// the same command goes on with what was interrupted. Give the directory to one node: the others begin with
    /// empty ones and take a snapshot of it, as the stream has only what comes after.
    Adopt(AdoptArgs),
    /// Show each node: which one owns the log, and how far the others are behind
    Status(NodesArgs),
    /// Fail unless all nodes are there, one owns the log, and their settings are alike
    Check(NodesArgs),
    /// Have a node own the log
    ///
    /// Waits until it does. While another node owns the log and lives, --force is asked for: then that one hands it
    /// over, and clients reconnect. No acknowledged write is lost either way.
    TakeOver(TakeOverArgs),
    /// Have a node hand the log over, and not claim it again by itself until `undrain` or a restart
    ///
    /// For work on a machine. Waits until another node owns the log; clients reconnect, and no acknowledged write is
    /// lost.
    Drain(DrainArgs),
    /// Have a node that was drained take its turn again
    Undrain(UndrainArgs),
    /// Make the log's stream again after NATS has lost it, behind what a node's data directory has
    ///
    /// For when the nodes have stopped and name this command. Stop them all, delete what there may be of the stream,
    /// and name the data directories of all nodes. Clients go on with their epochs if one of them has surely all that
    /// was acknowledged; else they hear that the history is another one.
    Rebuild(RebuildArgs),
    /// End a cluster: a node's data directory serves alone from then on
    ///
    /// Clients go on with their epochs and positions. Stop the nodes first. The directory gets what it has missed, and
    /// the log's last frame says that the cluster has ended: no node goes on behind it, whenever it comes. The same
    /// command goes on with what was interrupted.
    Dissolve(DissolveArgs),
}

/// Does it.
pub fn cluster(what: &ClusterCommand, out: &mut Output) -> Result<(), String> {
    match what {
        ClusterCommand::NatsConfig(args) => nats_config::nats_config(args, out),
        ClusterCommand::Create(args) => create::create(args, out),
        ClusterCommand::Adopt(args) => adopt::adopt(args, out),
        ClusterCommand::Status(args) => ask::status(args, out),
        ClusterCommand::Check(args) => ask::check(args, out),
        ClusterCommand::TakeOver(args) => take_over::take_over(args, out),
        ClusterCommand::Drain(args) => drain::drain(args, out),
        ClusterCommand::Undrain(args) => drain::undrain(args, out),
        ClusterCommand::Rebuild(args) => rebuild::rebuild(args, out),
        ClusterCommand::Dissolve(args) => dissolve::dissolve(args, out),
    }
}

/// The settings of a node, and of its cluster.
fn settings(file: &std::path::Path) -> Result<(Config, ClusterKey), String> {
    let flags = Flags {
        config: Some(file.to_owned()),
        ..Flags::default()
    };
    let loaded = config::load(&flags, config::environment());
    let (config, _) = loaded.map_err(|error| error.0)?;
    let cluster = config.cluster.clone();
    let cluster = cluster.ok_or_else(|| format!("{}: there is no [cluster]", file.display()))?;
    Ok((config, cluster))
}
