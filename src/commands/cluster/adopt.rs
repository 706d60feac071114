//! `tideline cluster adopt`: a data directory that was served alone becomes a part of a cluster.
//!
//! Owns: the order of the steps, each of which can be repeated. Promises: the directory serves alone until the stream
//! goes on behind its log; a stream that goes on behind another one is left as it is, and refused. Must not: be done by
//! a node: theirs is a login that may make no stream.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use tideline_jetstream::Beginning;

use super::super::output::Output;
use super::settings;
use crate::config::login;
use crate::partition::Adoption;
use crate::people::People;
use crate::table::Catalog;

/// What `adopt` is told.
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// The settings of one of the nodes, with [cluster].
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The login that may make streams, as `nats-config` has written it.
    #[arg(long, value_name = "FILE")]
    login: PathBuf,
    /// The data directory. No server uses it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// On how many NATS servers each frame is kept; with fewer than three, one that is lost takes the log with it.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    copies: u8,
}

/// Does it.
pub(super) fn adopt(args: &AdoptArgs, out: &mut Output) -> Result<(), String> {
    let AdoptArgs {
        config,
        login: login_file,
        data,
        copies,
    } = args;
    let (config, cluster) = settings(config)?;
    let access = cluster.access(login(login_file)?);
    let (name, shown) = (&cluster.name, data.display());
    let rules = People::rules(&config.timeline_limits(), Catalog::default());
    let opened = Adoption::open(data, name, &rules).map_err(|error| error.to_string())?;
    let said = match opened {
        None => format!("{shown} is a part of cluster {name} already"),
        Some(adoption) => {
            let (before, time) = adoption.end();
            let beginning = Beginning {
                genesis: adoption.genesis(),
                before,
                time,
                copies: *copies,
            };
            let first = tideline_jetstream::adopt(&access, &beginning)?;
            adoption.join(&first).map_err(|error| error.to_string())?;
            let (at, owner) = (first.sealed.position, cluster.nodes.keys().next());
            format!(
                "{shown} is a part of cluster {name}, whose log begins at {at}. Give it to one node, the others begin \
                 empty; start them: {} will own the log",
                owner.map_or("", String::as_str)
            )
        }
    };
    writeln!(out, "{said}").map_err(|error| error.to_string())
}
