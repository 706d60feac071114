//! The `tideline` program: arguments, configuration, log, signals, exit code.
//!
//! Owns: the process. Promises: what went wrong is one line on standard error and a non-zero exit code; SIGTERM and
//! SIGINT stop it in order. Must not: do anything that a library user of the server would miss.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tideline::config::{self, Config, Flags};
use tideline::dump::{DumpError, dump};
use tideline::server::Server;
use tideline::verify::verify;
use tokio::signal::unix::{SignalKind, signal};

/// Messages are allocated on one thread and freed on another all the time; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A timeline messaging server: durable, gapless, pushed.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server. Also what `tideline` does without a subcommand.
    Serve,
    /// Check a data directory that no server uses: every checksum, every timeline without holes, log against image,
    /// catalog against runs. Prints each problem with its place; exit code 1 if there is one.
    Verify {
        /// The data directory.
        data: PathBuf,
    },
    /// Write all timelines of a data directory that no server uses, or one, to standard output: JSON, one line each.
    Dump {
        /// The data directory.
        data: PathBuf,
        /// Only this timeline.
        timeline: Option<String>,
    },
    /// Print the configuration in force as a documented TOML file: the defaults, if nothing else is said.
    Config,
}

#[derive(Debug, Args)]
struct Options {
    /// A TOML file; `tideline config` prints one with every key and its meaning.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Directory that holds everything; made if it is not there [default: ./data].
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:7070].
    #[arg(long, value_name = "ADDRESS", global = true)]
    listen: Option<SocketAddr>,
    /// Partitions of a new data directory; one that stands keeps its number [default: 1].
    #[arg(long, value_name = "NUMBER", global = true)]
    partitions: Option<u16>,
}

fn main() -> ExitCode {
    let Cli { command, options } = Cli::parse();
    match run(command.unwrap_or(Command::Serve), options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "tideline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, options: Options) -> Result<(), Failure> {
    let Options {
        config,
        data,
        listen,
        partitions,
    } = options;
    let flags = Flags {
        config,
        data,
        listen,
        partitions,
    };
    // Names or texts that are not UTF-8 can't be ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let (config, unknown) = config::load(&flags, environment).map_err(|error| error.0)?;
    let mut stdout = std::io::BufWriter::new(std::io::stdout());
    match command {
        Command::Serve => serve(&config, &unknown),
        Command::Verify { data } => {
            let is_whole = verify(&data, &config.timeline_limits(), &mut stdout)
                .map_err(|error| error.to_string())?;
            if is_whole {
                Ok(())
            } else {
                Err("the data directory is damaged".into())
            }
        }
        Command::Dump { data, timeline } => dump(
            &data,
            timeline.as_deref(),
            &config.timeline_limits(),
            &mut stdout,
        )
        .or_else(|error| match error {
            // Whoever reads has seen enough, like `tideline dump … | head`.
            DumpError::Output(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            error => Err(error.to_string().into()),
        }),
        Command::Config => Ok(stdout.write_all(config.to_toml().as_bytes())?),
    }
}

type Failure = Box<dyn std::error::Error>;

fn serve(config: &Config, unknown: &[String]) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log)
        .map_err(|error| format!("log: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    for variable in unknown {
        tracing::warn!(variable, "this environment variable is not one of ours");
    }
    // Where a program may ask for huge pages, a write may wait for tens of milliseconds until the system has put one
    // together, mostly when files fill the memory, as they do here.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "huge pages stay on; appends may have to wait for them");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let server = Server::start(config).await?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.stop().await;
        Ok(())
    })
}
