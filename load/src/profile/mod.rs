//! What a profile is, and the one way all of them run: start the server if asked, drive, collect, tell.
//!
//! Owns: the frame around `drive`. Promises: a server that was started here is gone at the end; a result is written
//! also if promises were broken or the run is invalid. Must not: know any profile; they only lie below, the larger ones
//! in folders of their own beside this one.
//!
//! A new profile is a module with its own arguments (`#[derive(clap::Args, Serialize)]`), `impl Profile` for them, and
//! its two lines in `cli.rs`.

pub mod access_bench;
pub mod append;
pub mod connect;
pub mod crash;
pub mod mixed;
pub mod pages;
pub mod poll;
pub mod replay;
pub mod room;
pub mod slow;
pub mod storm;

use std::rc::Rc;

use serde::Serialize;
use tokio::runtime::Builder;

use crate::client::secure::{show, trust};
use crate::exit::{Stop, Verdict};
use crate::outcome::Outcome;
use crate::outcome::{pictures, report};
use crate::run::Run;
use crate::run::machine::{open_files_max, used};
use crate::run::process::Launch;
use crate::run::setup::Setup;

/// A load on a server, with its own arguments.
pub trait Profile: clap::Args + Serialize {
    /// Puts the load on and checks; runs inside a `LocalSet` on one thread. Errors mean that it could not be done:
    /// a broken promise is a fault in `run.checks`.
    fn drive(&self, run: &Rc<Run>) -> impl Future<Output = Result<(), Stop>>;
}

/// All flags of a profile.
#[derive(clap::Args, Serialize)]
pub struct Flags<P: Profile> {
    /// Those that every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Its own.
    #[command(flatten)]
    #[serde(flatten)]
    pub profile: P,
}

/// Any profile with its flags. Both block; the name is for the result.
pub trait Load {
    /// Runs it for its result alone.
    fn measure(&self, name: &str) -> Result<Outcome, Stop>;

    /// Runs it: the result goes where the flags say.
    fn execute(&self, name: &str) -> Result<Verdict, Stop>;
}

impl<P: Profile> Load for Flags<P> {
    fn measure(&self, name: &str) -> Result<Outcome, Stop> {
        let setup = &self.setup;
        show(setup.credential.as_deref());
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Stop::Own(format!("no runtime: {error}")))?;
        let (url, pid, server) = match (&setup.binary, &setup.data) {
            (Some(binary), Some(data)) => {
                let mut launch = Launch::on_free_port(binary, data)?;
                launch.environment.clone_from(&setup.environment);
                let server = runtime.block_on(launch.start())?;
                (launch.url(), Some(server.0.id()), Some((launch, server)))
            }
            _ => (setup.url.clone(), setup.pid, None),
        };
        if url.starts_with("wss:") {
            trust(setup.ca_file.as_deref()).map_err(|error| Stop::Usage(error.to_string()))?;
        }
        let run = Run::new(setup, url, pid);
        run.server.replace(server);
        tokio::task::LocalSet::new().block_on(&runtime, self.profile.drive(&run))?;
        run.outcome(name, self)
    }

    fn execute(&self, name: &str) -> Result<Verdict, Stop> {
        let outcome = self.measure(name)?;
        report::say(&report::text(&outcome));
        report::save(&outcome, self.setup.json.as_deref())?;
        if let Some(folder) = &self.setup.pictures {
            pictures::draw(&outcome, folder)?;
        }
        Ok(outcome.verdict())
    }
}

/// Refuses to begin if this process or the server may not open so many files, or is not to be found.
pub fn need_files(run: &Run, connections: u64) -> Result<(), Stop> {
    // Beside the connections: log, image, listener, threads' own.
    let needed = connections + 100;
    for pid in [Some(std::process::id()), run.pid].into_iter().flatten() {
        if used(pid, "resident_bytes").is_none() {
            return Err(Stop::Own(format!("/proc/{pid}: no such process")));
        }
        if let Some(most) = open_files_max(pid).filter(|most| *most < needed) {
            return Err(Stop::Own(format!(
                "{connections} connections need {needed} open files, and process {pid} may open {most}: \
                 raise it with ulimit -n before it starts"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::setup::plain;

    #[test]
    fn a_server_whose_process_is_not_there_is_refused() {
        let ours = std::process::id();
        for (pid, held) in [(ours, true), (u32::MAX, false)] {
            let run = Run::new(&plain(), "ws://nowhere".into(), Some(pid));
            assert_eq!(need_files(&run, 1).is_ok(), held);
        }
    }
}
