//! The settings that every profile has: which server, where the results go, the seed.
//!
//! Owns: these flags and what they mean. Promises: the same names in every profile and in scenario files. Must not:
//! hold what only some profiles need.

use std::path::PathBuf;

use serde::Serialize;

/// Flags of every profile; flatten it into a profile's own. Addresses, paths and process IDs are not told in results:
/// they say where a run was made, not what was run, and results are passed on. Seed and label are told beside them.
#[derive(Clone, Debug, clap::Parser, Serialize)]
pub struct Setup {
    /// The server; with wss:// it is reached over TLS. Or all nodes of a cluster, with commas between: connections take
    /// turns, and one that is lost comes again and repeats what was not answered (in replay, append, history, poll and
    /// mixed, which there needs --idle 0)
    #[arg(long, default_value = "ws://127.0.0.1:7070/v1/connect")]
    #[serde(skip)]
    pub url: String,
    /// Authorities, in PEM, whose certificates it may have, instead of the system's
    #[arg(long)]
    #[serde(skip)]
    pub ca_file: Option<PathBuf>,
    /// The key, or a user's token, that is shown to a server with [auth]; better in the environment, where others on
    /// this machine do not see it
    #[arg(long, env = "TIDELINE_KEY", hide_env_values = true)]
    #[serde(skip)]
    pub credential: Option<String>,
    /// Start this server binary instead of using --url, and stop it at the end
    #[arg(long, requires = "data")]
    #[serde(skip)]
    pub binary: Option<PathBuf>,
    /// Data directory of the server that is started
    #[arg(long)]
    #[serde(skip)]
    pub data: Option<PathBuf>,
    /// Environment of the server that is started, NAME=VALUE
    #[arg(long = "env", value_parser = pair)]
    pub environment: Vec<(String, String)>,
    /// The server's process ID, to show what it uses (known if it is started here)
    #[arg(long)]
    #[serde(skip)]
    pub pid: Option<u32>,
    /// Seconds before measuring begins
    #[arg(long, default_value_t = 2.0)]
    pub warm_up: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Open loops: sent so much behind its time an operation is late; more than 1 % of those make the run invalid
    #[arg(long, default_value_t = 5.0)]
    pub late_ms: f64,
    /// Seed of texts, choices and times [default: another for each run, told in the result]
    #[arg(long)]
    #[serde(skip)]
    pub seed: Option<u64>,
    /// A name for this run in its result and pictures
    #[arg(long)]
    #[serde(skip)]
    pub label: Option<String>,
    /// Write the result as JSON into this file
    #[arg(long)]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Draw pictures (SVG) into this folder
    #[arg(long)]
    #[serde(skip)]
    pub pictures: Option<PathBuf>,
    /// No progress bar
    #[arg(long)]
    #[serde(skip)]
    pub quiet: bool,
}

/// Reads NAME=VALUE.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The defaults, without a progress bar.
#[cfg(test)]
pub(crate) fn plain() -> Setup {
    clap::Parser::parse_from(["test", "--quiet"])
}
