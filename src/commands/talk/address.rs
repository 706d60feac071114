//! Which server is asked, and as which user.
//!
//! Owns: the arguments that all these commands have in common. Promises: a credential comes from the environment, never
//! from an argument, which others see. Must not: connect.

use std::path::PathBuf;

use clap::Args;

use super::super::address::Address;

/// The server and the user.
#[derive(Debug, Args)]
pub(in super::super) struct At {
    /// The running server, as in wss://chat.example.org; http:// and ws:// name the same one.
    #[arg(
        long,
        visible_alias = "server",
        value_name = "URL",
        env = "TIDELINE_URL",
        default_value = "http://127.0.0.1:7070"
    )]
    #[arg(value_parser = Address::parse)]
    pub(in super::super) url: Address,
    /// The user who asks. Where the server has [auth], what TIDELINE_KEY holds, a key or a token, decides who may.
    #[arg(long, env = "TIDELINE_USER")]
    pub(in super::super) user: Option<String>,
    /// Authorities, in PEM, whose certificates the server may have, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(in super::super) ca_file: Option<PathBuf>,
}
