//! `tideline partition list|split|merge`: the partitions of a directory that no server uses, or of a running server.
//!
//! Owns: the arguments. Promises: either a directory or a server is named, or nothing is done. Must not: know how a
//! partition is changed; `src/data_directory.rs` does for a directory, and `remote.rs` asks a server.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use super::remote::{RemoteError, RunningServer, change_served, list_served};
use crate::config::{Config, ConfigFile};
use crate::data_directory::{change_partitions, list_partitions};
use crate::ids::PartitionId;
use crate::reshape::Asked;

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum PartitionCommand {
    /// Print each partition: the hashes of keys that it owns, where its log begins, whose keys it took over, its bytes;
    /// of a running server also the last change.
    #[command(override_usage = "tideline partition list [OPTIONS] <DATA>\n       \
        tideline partition list [OPTIONS] --url <URL>")]
    List {
        /// The data directory, if no server uses it.
        #[arg(required_unless_present = "url", conflicts_with = "url")]
        data: Option<PathBuf>,
        /// The server, if it is a running one.
        #[command(flatten)]
        server: RunningServer,
    },
    /// Make two of one, each with half of its hashes. What it owns is written anew; the disk needs room for that. An
    /// interrupted change leaves all as it was, or is complete. A running server serves on; calls wait for less than a
    /// second.
    #[command(
        override_usage = "tideline partition split [OPTIONS] <DATA> <PARTITION>\n       \
        tideline partition split [OPTIONS] --url <URL> <PARTITION>"
    )]
    Split {
        /// Without --url the data directory, which no server may use; then the number of the partition.
        #[arg(value_names = ["DATA", "PARTITION"], num_args = 1..=2, required = true)]
        of: Vec<String>,
        /// The server, if it is a running one.
        #[command(flatten)]
        server: RunningServer,
        /// The settings of the directory's server.
        #[command(flatten)]
        settings: ConfigFile,
    },
    /// Make one of two whose hashes are neighbours. Otherwise like split.
    #[command(
        override_usage = "tideline partition merge [OPTIONS] <DATA> <ONE> <OTHER>\n       \
        tideline partition merge [OPTIONS] --url <URL> <ONE> <OTHER>"
    )]
    Merge {
        /// Without --url the data directory, which no server may use; then the numbers of both.
        #[arg(value_names = ["DATA", "ONE", "OTHER"], num_args = 2..=3, required = true)]
        of: Vec<String>,
        /// The server, if it is a running one.
        #[command(flatten)]
        server: RunningServer,
        /// The settings of the directory's server.
        #[command(flatten)]
        settings: ConfigFile,
    },
}

/// Does it.
pub async fn partition(
    config: &Config,
    what: &PartitionCommand,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let (of, server, numbers) = match what {
        PartitionCommand::List { data, server } => {
            let data = data.as_deref().unwrap_or(&config.data);
            return match server.open().await? {
                Some(mut server) => list_served(&mut server, out).await,
                None => Ok(list_partitions(data, out)?),
            };
        }
        PartitionCommand::Split { of, server, .. } => (of, server, 1),
        PartitionCommand::Merge { of, server, .. } => (of, server, 2),
    };
    let (data, numbers) = of.split_at(of.len() - numbers.min(of.len()));
    let parse = |text: &String| {
        text.parse()
            .map(PartitionId)
            .map_err(|_| format!("expected the number of a partition, found `{text}`"))
    };
    let numbers: Vec<PartitionId> = numbers.iter().map(parse).collect::<Result<_, _>>()?;
    let change = match numbers[..] {
        [one, other] => Asked::Merge(one, other),
        _ => Asked::Split(numbers[0]),
    };
    let one_of_both = "name either a data directory or a running server (--url)";
    match data {
        [] => match server.open().await? {
            Some(mut server) => change_served(&mut server, change, out).await,
            None => Err(one_of_both.into()),
        },
        [data] if server.url.is_none() => {
            let config = Config {
                data: data.into(),
                ..config.clone()
            };
            Ok(change_partitions(&config, change, out).await?)
        }
        _ => Err(one_of_both.into()),
    }
}
