//! The command line: every profile and command with its flags, and the one place that starts each.
//!
//! Owns: the names. Promises: a scenario file means what the same words mean on the command line, because it comes
//! through here too. Must not: hold any of the work; each profile is a module of its own.

use std::fmt::Display;

use clap::{Parser, Subcommand};

use crate::exit::{self, Stop, Verdict};
use crate::outcome::Outcome;
use crate::outcome::compare;
use crate::profile::{Flags, Load};
use crate::profile::{
    access_bench, append, connect, crash, mixed, pages, poll, replay, room, slow, storm,
};
use crate::recording;
use crate::run::scenario;
use crate::{answers, growth, people, people_bench, search, table};

/// Drives a Tideline server and checks its promises
#[derive(Parser)]
#[command(version, after_help = exit::CODES, args_override_self = true)]
#[command(mut_subcommands(|command| command.after_help(exit::CODES)))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Profiles and commands.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it in a process
pub enum Command {
    /// Durable appends per second and their latency
    Append(Flags<append::Append>),
    /// Memory of idle connections
    Connect(Flags<connect::Connect>),
    /// Random pages of the history of random timelines
    History(Flags<pages::Pages>),
    /// Appends, subscribers, polls, pages, reconnects and idle connections together
    Mixed(Flags<mixed::Mixed>),
    /// Conversations of two and of groups, some much busier than others: deliveries and their latency
    Chat(Flags<room::Chat>),
    /// Answers that grow token by token, with viewers: deliveries and their latency, each token checked everywhere
    Answers(Flags<answers::Answers>),
    /// Messages found by their words: how fast an index is made, how long a search takes, every hit checked
    Search(Flags<search::Search>),
    /// Readers that stop reading beside readers that do not: latency, memory, and what becomes of them
    Slow(Flags<slow::Slow>),
    /// Clients that lose their connections all at once and come back all at once, behind: how long until all are there
    Storm(Flags<storm::Storm>),
    /// Rows through Tablestore's HTTP API: puts, gets, ranges, updates of single columns, and their latency
    Table(Flags<table::Table>),
    /// One timeline, many subscribers: deliveries per second and their latency
    Room(Flags<room::Room>),
    /// Polling many timelines for news: polls per second and per second of the server's processor time
    Poll(Flags<poll::Poll>),
    /// What lists, devices, feeds, fan-out and large groups cost, one measurement each
    #[command(subcommand)]
    PeopleBench(people_bench::Row),
    /// What deciding who may do what costs, one measurement each
    #[command(subcommand)]
    AccessBench(access_bench::Row),
    /// What each operation costs while timelines, history and audiences grow: tables and pictures
    Growth(growth::Growth),
    /// Run profiles from a scenario file (TOML); its settings have the names of the flags
    Run(scenario::Scenario),
    /// Say what is wrong with a history: what clients did and saw, beside what is stored
    Check(recording::Check),
    /// Hold two results of the same profile against each other
    Compare(compare::Compare),
    /// Send real IRC logs, listen in several ways, check every line
    Replay(Flags<replay::Replay>),
    /// Send real IRC logs with nicks as users: lists, unread counts, inboxes, devices of live users
    People(Flags<people::People>),
    /// Kill the server under load again and again, then check everything
    Crash(Flags<crash::Crash>),
}

impl Command {
    /// The name and the load, if it is one.
    fn profile(&self) -> Result<(&'static str, &dyn Load), Stop> {
        Ok(match self {
            Command::Append(args) => ("append", args),
            Command::Connect(args) => ("connect", args),
            Command::History(args) => ("history", args),
            Command::Mixed(args) => ("mixed", args),
            Command::Chat(args) => ("chat", args),
            Command::Answers(args) => ("answers", args),
            Command::Search(args) => ("search", args),
            Command::Slow(args) => ("slow", args),
            Command::Storm(args) => ("storm", args),
            Command::Table(args) => ("table", args),
            Command::Room(args) => ("room", args),
            Command::Poll(args) => ("poll", args),
            Command::PeopleBench(row) => row.profile(),
            Command::AccessBench(row) => row.profile(),
            Command::Replay(args) => ("replay", args),
            Command::People(args) => ("people", args),
            Command::Crash(args) => ("crash", args),
            _ => return Err(Stop::Usage("not a profile".to_owned())),
        })
    }

    /// Does it. Blocks.
    pub fn run(self) -> Result<Verdict, Stop> {
        match &self {
            Command::Growth(args) => growth::run(args, measure),
            Command::Run(args) => run_all(&args.read()?),
            Command::Compare(args) => compare::run(args),
            Command::Check(args) => recording::check(args),
            other => {
                let (name, load) = other.profile()?;
                load.execute(name)
            }
        }
    }
}

/// Runs a profile, given as the words of a command line, for its result alone. Blocks.
pub fn measure(words: &[String]) -> Result<Outcome, Stop> {
    let command = parse(words)?;
    let (name, load) = command.profile()?;
    load.measure(name)
}

/// Runs a scenario. All is read before the first is started; the worst verdict counts.
fn run_all(runs: &[Vec<String>]) -> Result<Verdict, Stop> {
    let commands: Result<Vec<Command>, Stop> = runs.iter().map(|words| parse(words)).collect();
    let worse = |worst: Verdict, command: Command| Ok(worst.max(command.run()?));
    commands?.into_iter().try_fold(Verdict::Held, worse)
}

/// A profile, read as if its words stood on the command line.
fn parse(words: &[String]) -> Result<Command, Stop> {
    let wrong = |what: &dyn Display| Stop::Usage(format!("{}: {what}", words.join(" ")));
    let all = std::iter::once("tideline-load").chain(words.iter().map(String::as_str));
    let Cli { command } = Cli::try_parse_from(all).map_err(|error| wrong(&error))?;
    command.profile().map_err(|stop| wrong(&stop))?;
    Ok(command)
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
            let words = ["run", path.to_str().expect("text")];
            let cli = Cli::parse_from(std::iter::once("tideline-load").chain(words));
            let Command::Run(scenario) = cli.command else {
                panic!("a scenario");
            };
            for words in scenario.read().expect("a scenario") {
                let read = parse(&words);
                assert!(read.is_ok(), "{}: {:?}", path.display(), read.err());
                runs += 1;
            }
        }
        assert!(runs > 5);
    }

    #[test]
    fn later_flags_win_and_unknown_ones_are_errors() {
        let words = |line: &str| -> Vec<String> {
            let words = line.split_whitespace();
            words.map(str::to_owned).collect()
        };
        match parse(&words("append --seconds=5 --seconds 1 --connections=3")) {
            Ok(Command::Append(args)) => {
                assert_eq!(
                    (args.setup.seconds, args.profile.flow.connections),
                    (1.0, 3)
                );
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
