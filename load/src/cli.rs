//! The command line: every profile and command with its flags, and the one place that starts each.
//!
//! Owns: the names. Promises: a scenario file means what the same words mean on the command line, because it comes
//! through here too. Must not: hold any of the work; each profile is a module of its own.

use clap::{Parser, Subcommand};

use crate::exit::{self, Stop, Verdict};
use crate::outcome::Outcome;
use crate::scenario::Words;
use crate::{
    append, chat, compare, connect, crash, fill, growth, mixed, pages, poll, profile, replay, room,
    scenario, slow, storm, table,
};

/// Drives a Tideline server and checks its promises
#[derive(Parser)]
#[command(version, after_help = exit::CODES, args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The profiles, each with its arguments, and the ways to run one.
macro_rules! profiles {
    ($($(#[doc = $doc:literal])+ $name:ident($args:ty),)+) => {
        /// Loads on a server.
        #[derive(Subcommand)]
        pub enum Load {
            $($(#[doc = $doc])+ #[command(after_help = exit::CODES)] $name($args),)+
        }

        impl Load {
            fn execute(&self) -> Result<Verdict, Stop> {
                match self {
                    $(Load::$name(args) => profile::execute(args),)+
                }
            }

            fn measure(&self) -> Result<Outcome, Stop> {
                match self {
                    $(Load::$name(args) => profile::measure(args),)+
                }
            }
        }
    };
}

profiles! {
    /// Durable appends per second and their latency
    Append(append::Append),
    /// Memory of idle connections
    Connect(connect::Connect),
    /// Random pages of the history of random timelines
    History(pages::Pages),
    /// Appends, subscribers, polls, pages, reconnects and idle connections together
    Mixed(mixed::Mixed),
    /// Conversations of two and of groups, some much busier than others: deliveries and their latency
    Chat(chat::Chat),
    /// Readers that stop reading beside readers that do not: latency, memory, and what becomes of them
    Slow(slow::Slow),
    /// Clients that lose their connections all at once and come back all at once, behind: how long until all are there
    Storm(storm::Storm),
    /// Rows through Tablestore's HTTP API: puts, gets, ranges, updates of wide rows, and their latency
    Table(table::Table),
    /// One timeline, many subscribers: deliveries per second and their latency
    Room(room::Room),
    /// Polling many timelines for news: polls per second and per second of the server's processor time
    Poll(poll::Poll),
    /// Send real IRC logs, listen in several ways, check every line
    Replay(replay::Replay),
    /// Kill the server under load again and again, then check everything
    Crash(crash::Crash),
}

/// Profiles and commands.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it in a process
pub enum Command {
    /// A profile.
    #[command(flatten)]
    Load(Load),
    /// What each operation costs while timelines, history and audiences grow: tables and pictures
    #[command(after_help = exit::CODES)]
    Growth(growth::Growth),
    /// Run profiles from a scenario file (TOML); its settings have the names of the flags
    #[command(after_help = exit::CODES)]
    Run(scenario::Scenario),
    /// Hold two results of the same profile against each other
    #[command(after_help = exit::CODES)]
    Compare(compare::Compare),
    /// Put the tables of results into a document (Markdown), between its markers
    #[command(after_help = exit::CODES)]
    Fill(fill::Fill),
}

impl Command {
    /// Does it. Blocks.
    pub fn run(self) -> Result<Verdict, Stop> {
        match self {
            Command::Load(load) => load.execute(),
            Command::Growth(args) => growth::run(&args, measure),
            Command::Run(args) => scenario::run(&args, parse, Command::run),
            Command::Compare(args) => compare::run(&args),
            Command::Fill(args) => fill::run(&args),
        }
    }
}

/// Runs a profile, given as the words of a command line, for its result alone. Blocks.
///
/// # Errors
///
/// The words are no profile, or it could not do its work.
pub fn measure(words: &[String]) -> Result<Outcome, Stop> {
    let words = Words {
        label: words.join(" "),
        words: words.to_vec(),
    };
    match parse(&words)? {
        Command::Load(load) => load.measure(),
        _ => Err(Stop::Usage(format!("{}: no figures", words.label))),
    }
}

/// One run of a scenario, read as if its words stood on the command line.
fn parse(run: &Words) -> Result<Command, Stop> {
    let words = std::iter::once("tideline-load").chain(run.words.iter().map(String::as_str));
    let label = &run.label;
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(command @ Command::Load(_)) => Ok(command),
        Ok(_) => Err(Stop::Usage(format!("{label}: not a profile"))),
        Err(error) => Err(Stop::Usage(format!("{label}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_scenarios_that_come_with_the_tool_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut runs = 0;
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("readable").path();
            let text = fs::read_to_string(&path).expect("readable");
            for words in scenario::read(&text, &[], None).expect("a scenario") {
                let read = parse(&words);
                assert!(read.is_ok(), "{}: {:?}", path.display(), read.err());
                runs += 1;
            }
        }
        assert!(runs > 5);
    }

    #[test]
    fn later_flags_win_and_unknown_ones_are_errors() {
        let words = |line: &str| Words {
            label: "one".into(),
            words: line.split_whitespace().map(str::to_owned).collect(),
        };
        match parse(&words("append --seconds=5 --seconds 1 --connections=3")) {
            Ok(Command::Load(Load::Append(args))) => {
                assert_eq!((args.setup.seconds, args.flow.connections), (1.0, 3));
            }
            _ => panic!("an append"),
        }
        assert!(matches!(
            parse(&words("append --colour=red")),
            Err(Stop::Usage(_))
        ));
        assert!(matches!(parse(&words("run x.toml")), Err(Stop::Usage(_))));
    }
}
