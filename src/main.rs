//! The `tideline` program: arguments, configuration, log, signals, exit code.
//!
//! Owns: the process. Promises: what went wrong is one line on standard error and a non-zero exit code; SIGTERM and
//! SIGINT stop it in order. Must not: do anything that a library user of the server would miss.

mod cli;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command, Options};
use rustix::process::{Resource, getrlimit, setrlimit};
use tideline::commands::backup::backup;
use tideline::commands::cluster::cluster;
use tideline::commands::doctor::{examine, tell};
use tideline::commands::dump::dump;
use tideline::commands::export::export;
use tideline::commands::keys::keys;
use tideline::commands::output::Output;
use tideline::commands::partitions::{PartitionCommand, partition};
use tideline::commands::repair::{RepairArgs, repair};
use tideline::commands::restore::{RestoreArgs, restored};
use tideline::commands::talk::talk;
use tideline::commands::verify::{accept, verified};
use tideline::config::{self, Config, ConfigError, Flags};
use tideline::logging::{self, Failure, Logged};
use tideline::server::{Served, StartError};
use tideline::supervisor::Supervisor;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Messages are allocated on one thread and freed on another all the time; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Cli { command, options } = Cli::parse();
    raise_open_files();
    let serve = || Command::Serve {
        accept_copy: false,
        options: Options::default(),
    };
    let command = command.unwrap_or_else(serve);
    let mut out = Output::new(only_shows(&command));
    let done = match command {
        Command::Talk(what) => return talk(what),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tideline", &mut script);
            out.write_all(&script).map_err(Failure::from)
        }
        Command::Cluster { what } => cluster(&what, &mut out).map_err(Failure::from),
        command => run(command, options, &mut out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_in_vain() => ExitCode::SUCCESS,
        Err(error) if error.is::<Logged>() => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "tideline: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether it changes and judges nothing.
fn only_shows(command: &Command) -> bool {
    match command {
        Command::Verify { .. } | Command::Doctor { .. } | Command::Key { .. } => false,
        Command::Backup(_) | Command::Restore(_) | Command::Repair(_) => false,
        Command::Cluster { .. } => false,
        Command::Partition { what } => matches!(what, PartitionCommand::List { .. }),
        _ => true,
    }
}

/// Lets the process open as many files as the system allows it: the usual soft limit of 1,024 is for programs that use
/// `select`. The result is logged where connections are counted (`Server::start`).
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused = it stays as it is.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// What a process gets that writes past its largest allowed file; the same number on every Linux.
const SIGXFSZ: i32 = 25;

/// What a command says of the settings.
fn options_of(command: &mut Command) -> Options {
    match command {
        Command::Serve { options, .. } | Command::Config { options } => std::mem::take(options),
        Command::Verify { limits, .. } | Command::Dump { limits, .. } => Options {
            config: limits.config.take(),
            ..Options::default()
        },
        Command::Key { at, settings, .. } => Options {
            config: settings.config.take(),
            data: at.data.take(),
            ..Options::default()
        },
        Command::Backup(args) => Options {
            config: args.settings.config.take(),
            data: args.data.take(),
            ..Options::default()
        },
        Command::Restore(RestoreArgs { settings, .. }) => Options {
            config: settings.config.take(),
            ..Options::default()
        },
        Command::Repair(RepairArgs { settings, data, .. }) => Options {
            config: settings.config.take(),
            data: Some(std::mem::take(data)),
            ..Options::default()
        },
        Command::Partition {
            what:
                PartitionCommand::Split { settings, .. } | PartitionCommand::Merge { settings, .. },
        } => Options {
            config: settings.config.take(),
            ..Options::default()
        },
        Command::Doctor { data, config, .. } => Options {
            config: config.take(),
            data: data.take(),
            ..Options::default()
        },
        Command::Partition { .. }
        | Command::Cluster { .. }
        | Command::Export { .. }
        | Command::Talk(_)
        | Command::Completion { .. } => Options::default(),
    }
}

fn run(mut command: Command, before: Options, out: &mut Output) -> Result<(), Failure> {
    let options = options_of(&mut command);
    let flags = options.over(before);
    let loaded = config::load(&flags, config::environment());
    if let Command::Doctor { json, .. } = command {
        return doctor(loaded.map(|(config, _)| config), json, out);
    }
    let (config, unknown) = loaded.map_err(|error| error.0)?;
    let limits = config.timeline_limits();
    match command {
        Command::Serve { accept_copy, .. } => {
            if accept_copy {
                accept(&config.data, &limits, out)?;
            }
            logging::begin(&config.log, config.log_format)?;
            config.log_format.ended(serve(&flags, &config, &unknown))
        }
        Command::Backup(args) => {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(backup(&config, &args, out))
        }
        Command::Repair(args) => {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(repair(&config, &args, out))
        }
        Command::Restore(args) => restored(&args, &limits, out),
        Command::Verify { data, .. } => Ok(verified(&data, &limits, out)?),
        Command::Dump { data, timeline, .. } => {
            let done = dump(&data, timeline.as_deref(), &limits, out);
            Ok(done.map_err(|error| error.to_string())?)
        }
        Command::Key { what, at, .. } => {
            let runtime = tokio::runtime::Runtime::new()?;
            Ok(runtime.block_on(keys(&config, &at, what, out))?)
        }
        Command::Partition { what } => {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(partition(&config, &what, out))
        }
        Command::Export { what, account } => {
            let done = export(&account, &what, out).map_err(|error| error.to_string())?;
            let told = format!("{} rows, as of {:?}", done.rows, done.positions);
            Ok(writeln!(std::io::stderr(), "{told}")?)
        }
        // Done before: these look at bad settings, or at none.
        Command::Doctor { .. }
        | Command::Cluster { .. }
        | Command::Talk(_)
        | Command::Completion { .. } => Ok(()),
        Command::Config { .. } => Ok(out.write_all(config.to_toml().as_bytes())?),
    }
}

fn doctor(
    config: Result<Config, ConfigError>,
    as_json: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    let findings = match &config {
        Ok(config) => examine(Ok(config)),
        Err(ConfigError(why)) => examine(Err(why)),
    };
    match tell(&findings, as_json, out)? {
        true => Ok(()),
        false => Err("a check has failed".into()),
    }
}

fn serve(flags: &Flags, config: &Config, unknown: &[String]) -> Result<(), Failure> {
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
    let served = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        // A write past the limit of a file's size (ulimit -f) is to fail like one on a full disk, not to end the
        // process: a process that listens for the signal takes its effect away.
        let _too_large = signal(SignalKind::from_raw(SIGXFSZ))?;
        let mut hangup = signal(SignalKind::hangup())?;
        let supervisor = Arc::new(Supervisor::of(|name| std::env::var(name).ok()));
        // A node of a cluster hears it also while it waits for others.
        let ends = CancellationToken::new();
        let told = ends.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            told.cancel();
        });
        let mut server = match Served::start(config, &ends).await {
            Err(StartError::Ended) => return Ok(true),
            started => started?,
        };
        supervisor.ready();
        loop {
            tokio::select! {
                () = ends.cancelled() => break,
                _ = hangup.recv() => reload(&server, flags, config),
                () = server.changes() => match server.change().await {
                    Err(StartError::Ended) => break,
                    changed => changed?,
                },
            }
        }
        supervisor.stopping();
        server.stop().await;
        Ok(false)
    });
    if matches!(served, Ok(true)) {
        // What asked others when the process was told to end waits on for their answer, which is not wanted any more.
        runtime.shutdown_timeout(LETS_GO);
    }
    served.map(drop)
}

/// What runs when a start is given up may take so long to end.
const LETS_GO: Duration = Duration::from_millis(200);

/// Reads the settings again; bad ones change nothing.
fn reload(server: &Served, flags: &Flags, started: &Config) {
    let loaded = config::load(flags, config::environment());
    let reloaded = loaded.and_then(|(config, _)| server.reload(&config).map(|()| config));
    match reloaded {
        Ok(config) => {
            let waiting = config.waiting_since(started);
            if waiting.is_empty() {
                tracing::info!("the settings were read again");
            } else {
                tracing::warn!(
                    ?waiting,
                    "the settings were read again; these wait for a restart"
                );
            }
        }
        Err(error) => tracing::error!("the settings stay as they were: {}", error.0),
    }
}
