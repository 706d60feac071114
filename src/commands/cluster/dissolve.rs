//! `tideline cluster dissolve`: the end of a cluster, and a directory that serves alone.
//!
//! Owns: when that is refused, and what is told. Promises: an owner that answers is not taken by surprise. Must not:
//! decide who owns: the log does.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::super::output::Output;
use super::ask::{NO_KEY, Nodes, NodesArgs, owner, runtime};
use super::settings;
use crate::config::Config;
use crate::server;

/// What `dissolve` is told.
#[derive(Debug, Args)]
pub struct DissolveArgs {
    /// The data directory of a node that is stopped, which is to serve alone.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// Does it.
pub(super) fn dissolve(args: &DissolveArgs, out: &mut Output) -> Result<(), String> {
    let DissolveArgs { data, nodes } = args;
    let (config, cluster) = settings(&nodes.config)?;
    let config = Config {
        data: data.clone(),
        ..config
    };
    let nodes = Nodes::of(nodes)?;
    // A directory's tasks block.
    let serves = runtime()?.block_on(nodes.all());
    if serves
        .iter()
        .any(|(_, said)| said.as_ref().is_err_and(|why| why == NO_KEY))
    {
        return Err(NO_KEY.to_owned());
    }
    if let Some(owner) = owner(&serves) {
        let owner = &owner.node;
        return Err(format!(
            "{owner} owns the log and lives: stop it first, and let its clients wait"
        ));
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(server::dissolve(&cluster, &config))?;
    let (name, shown) = (&cluster.name, data.display());
    let said = format!(
        "cluster {name} has ended: serve {shown} without [cluster], and no other directory of its nodes"
    );
    writeln!(out, "{said}").map_err(|error| error.to_string())
}
