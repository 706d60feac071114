//! The command line of `tideline`: its subcommands and options, with their help.
//!
//! Owns: their names and texts. Promises: what is said behind a subcommand wins over what is said before it. Must not:
//! do anything.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use tideline::commands::backup::BackupArgs;
use tideline::commands::cluster::ClusterCommand;
use tideline::commands::export::{Account, Export};
use tideline::commands::keys::{KeyCommand, KeyPlace};
use tideline::commands::partitions::PartitionCommand;
use tideline::commands::repair::RepairArgs;
use tideline::commands::restore::RestoreArgs;
use tideline::commands::talk::TalkCommand;
use tideline::config::{self, ConfigFile, Flags};
use tideline::logging::LogFormat;

/// A timeline messaging server: durable, gapless, pushed.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server. Also what `tideline` does without a subcommand.
    Serve {
        /// Serve a plain copy of a directory that was being served, if all of it verifies. The newest writes may be
        /// missing from it without a trace, so it gets a new history, which tells clients.
        #[arg(long)]
        accept_copy: bool,
        #[command(flatten)]
        options: Options,
    },
    #[command(flatten)]
    Talk(TalkCommand),
    /// Make a backup of a running server, or of a data directory that no server uses
    ///
    /// Of all partitions, each as of one position, checked and synced. A running server serves on.
    Backup(BackupArgs),
    /// Make a data directory of a backup
    ///
    /// As of the backup's end, of a time before, or of a position. It has a new history: clients that have seen more
    /// learn it from the epochs.
    Restore(RestoreArgs),
    /// Make the damaged images of a data directory that no server uses anew
    ///
    /// From the log, or from a backup and the log, so that nothing is lost. Where that can't be, nothing is changed
    /// without --accept-loss, and it says why.
    Repair(RepairArgs),
    /// Check a data directory that no server uses, or a backup
    ///
    /// That its parts belong together, every checksum, every timeline without holes, log against image, catalog against
    /// runs. Prints each problem with its place; exit code 1 if there is one. Writes nothing: a copy that can't be
    /// written to will do.
    Verify {
        /// The data directory, or a backup: its folder, or s3://BUCKET/PREFIX/TIME, of which the checksums are checked.
        data: PathBuf,
        #[command(flatten)]
        limits: ConfigFile,
    },
    /// Write the timelines of a data directory that no server uses as lines of JSON
    ///
    /// All of them, or one, to standard output. Writes nothing to the directory: a copy that can't be written to will
    /// do.
    Dump {
        /// The data directory.
        data: PathBuf,
        /// Only this timeline.
        timeline: Option<String>,
        #[command(flatten)]
        limits: ConfigFile,
    },
    /// Write all rows of a table, or of timelines, of a running server
    ///
    /// To standard output, exactly as they were at one position of each partition. The server serves on. How many rows,
    /// and the positions, go to standard error.
    Export {
        #[command(flatten)]
        what: Export,
        #[command(flatten)]
        account: Account,
    },
    /// Make, list or revoke API keys
    ///
    /// Those of a data directory that no server uses, or with --url those of a running server, as the administrator
    /// whose key is in TIDELINE_KEY.
    Key {
        #[command(subcommand)]
        what: KeyCommand,
        #[command(flatten)]
        at: KeyPlace,
        #[command(flatten)]
        settings: ConfigFile,
    },
    /// Show or change partitions, of a running server or of a data directory that no server uses
    Partition {
        #[command(subcommand)]
        what: PartitionCommand,
    },
    /// Prepare a cluster of three machines, see how it is, and have a node own its log
    Cluster {
        #[command(subcommand)]
        what: ClusterCommand,
    },
    /// Check what would hurt a server
    ///
    /// Settings, descriptors, file system, room, the disk's sync, address space, clock, who can reach it, who can read
    /// its secrets, when its certificate ends. Prints a line for each, with advice; exit code 1 if one fails. Changes
    /// nothing; a server may run meanwhile.
    Doctor {
        /// The data directory [default: that of the settings].
        data: Option<PathBuf>,
        /// The server's TOML file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// As JSON: a list of {check, state, found, advice}.
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration in force as a documented TOML file: the defaults, if nothing else is said
    Config {
        #[command(flatten)]
        options: Options,
    },
    /// Print a script that has a shell complete commands and options
    ///
    /// As in `tideline completion bash > ~/.local/share/bash-completion/completions/tideline`.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// A TOML file; `tideline config` prints one with every key and its meaning.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory that holds everything; made if it is not there [default: ./data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address (or name) and port to listen on [default: 127.0.0.1:7070].
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve an address that is not loopback though there is no authentication ([auth]): whoever reaches it may read,
    /// write and delete everything. With [auth]: though there is no TLS.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// How the log is written [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// How many partitions the data directory is to have: one that has another number is changed before it is served,
    /// which writes what is in it anew and needs room for that [default: as it has; 1 in a new one].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partitions: Option<u16>,
}

impl Options {
    /// What is said behind the subcommand wins over what is said before it.
    pub(crate) fn over(self, before: Options) -> Flags {
        Flags {
            config: self.config.or(before.config),
            data: self.data.or(before.data),
            listen: self.listen.or(before.listen),
            insecure: self.insecure || before.insecure,
            log_format: self.log_format.or(before.log_format),
            partitions: self.partitions.or(before.partitions),
        }
    }
}
