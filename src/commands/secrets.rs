//! The secrets of a data directory in its backups: whether they are meant, and the passphrase.
//!
//! Owns: where the passphrase comes from. Promises: it is no argument, which others could see. Must not: know how
//! secrets are sealed.

use std::path::PathBuf;

use clap::Args;

use crate::partition::Passphrase;

/// What commands that make backups, or restore them, are told of secrets.
#[derive(Debug, Args)]
pub struct SecretsArgs {
    /// Also the secrets of keys that sign requests, sealed with a passphrase: that of --passphrase-file, else that of
    /// the environment variable TIDELINE_PASSPHRASE.
    #[arg(long)]
    secrets: bool,
    /// A file with the passphrase, which others can't read.
    #[arg(long, value_name = "FILE", requires = "secrets")]
    passphrase_file: Option<PathBuf>,
}

impl SecretsArgs {
    /// Whether they are meant.
    pub(super) fn are_meant(&self) -> bool {
        self.secrets
    }

    /// The passphrase, if they are meant.
    pub(super) fn passphrase(&self) -> Result<Option<Passphrase>, String> {
        if !self.secrets {
            return Ok(None);
        }
        if let Some(file) = &self.passphrase_file {
            return Passphrase::of_file(file).map(Some);
        }
        match std::env::var("TIDELINE_PASSPHRASE") {
            Ok(text) => Passphrase::new(text.as_bytes()).map(Some),
            Err(_) => Err(
                "--secrets needs a passphrase: name its file with --passphrase-file, or set TIDELINE_PASSPHRASE"
                    .to_owned(),
            ),
        }
    }
}
