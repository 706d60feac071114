//! `tideline repair DATA`: damaged images made anew from the log, or with a backup.
//!
//! Owns: the arguments, and what is printed. Promises: what is damaged and what is going to be done is printed before
//! it is done; in the end the directory is verified. Must not: know how an image is made;
//! `src/store/partition/backup/repair.rs` does.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::remote::RemoteError;
use super::verify::verified;
use crate::config::ConfigFile;
use crate::partition::Repair;
use crate::people::People;
use crate::table::Catalog;
use crate::timeline::Limits;

/// What is repaired, and of what.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// The data directory.
    data: PathBuf,
    /// The folder of a backup of this directory; needed where the log does not reach back to the first batch.
    #[arg(long, value_name = "BACKUP")]
    from: Option<PathBuf>,
    /// Print what is damaged and what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// The settings of the directory's server.
    #[command(flatten)]
    pub settings: ConfigFile,
}

/// Lines about what is damaged, for each partition; `verify` prints all.
const PROBLEMS_SHOWN: usize = 10;

/// Repairs a data directory that no server uses.
pub fn repair(args: &RepairArgs, limits: &Limits, out: &mut dyn Write) -> Result<(), RemoteError> {
    let rules = People::rules(limits, Catalog::default());
    let repair = Repair::plan(&args.data, args.from.as_deref(), &rules)?;
    for step in repair.steps() {
        let problems = step.problems();
        for problem in problems.iter().take(PROBLEMS_SHOWN) {
            writeln!(out, "PROBLEM {problem}")?;
        }
        if let Some(more) = problems.len().checked_sub(PROBLEMS_SHOWN + 1) {
            writeln!(out, "and {} more", more + 1)?;
        }
        writeln!(out, "{step}")?;
    }
    if repair.steps().is_empty() {
        writeln!(out, "every image is whole: there is nothing to repair")?;
    }
    out.flush()?;
    if args.dry_run || repair.steps().is_empty() {
        return Ok(());
    }
    for kept in repair.run()? {
        let kept = kept.display();
        writeln!(
            out,
            "the damaged image is in {kept}: remove it once you need it no more"
        )?;
    }
    drop(repair);
    verified(&args.data, limits, out)
}
