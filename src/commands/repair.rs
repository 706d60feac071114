//! `tideline repair DATA`: damaged images made anew from the log, with a backup, or of what can still be read.
//!
//! Owns: the arguments, the order of the steps of a repair with a loss, and what is printed. Promises: what is damaged,
//! what is going to be done and what is lost is printed before it is done; in the end the directory is verified. Must
//! not: know how an image is made (`src/store/partition/backup/repair.rs`), or what becomes of a timeline that has lost
//! rows (`src/timelines/timeline/check/mend.rs`).

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::remote::RemoteError;
use super::verify::verified;
use crate::clock::Clock;
use crate::config::{Config, ConfigFile};
use crate::ids::PartitionId;
use crate::metrics::Metrics;
use crate::partition::{Partitions, Repair, RepairFrom};
use crate::people::People;
use crate::table::Catalog;
use crate::timeline::{Losses, Mend, Timelines};

/// What is repaired, and of what.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// The data directory.
    pub data: PathBuf,
    /// The folder of a backup of this directory; needed where the log does not reach back to the first batch.
    #[arg(long, value_name = "BACKUP")]
    from: Option<PathBuf>,
    /// Where neither log nor backup helps, keep what can be read of a damaged image. What is lost is printed. The
    /// directory gets a new history, which tells clients.
    #[arg(long)]
    accept_loss: bool,
    /// Print what is damaged and what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// The settings of the directory's server.
    #[command(flatten)]
    pub settings: ConfigFile,
}

type Mends = Vec<(PartitionId, Mend)>;

/// Lines about what is damaged, for each partition; `verify` prints all.
const PROBLEMS_SHOWN: usize = 10;

/// What is lost moves while merges go on, so it is looked at again after it was dealt with; so often.
const ROUNDS: u32 = 5;

/// Repairs a data directory that no server uses: that of `config`.
pub async fn repair(
    config: &Config,
    args: &RepairArgs,
    out: &mut dyn Write,
) -> Result<(), RemoteError> {
    let limits = config.timeline_limits();
    let rules = People::rules(&limits, Catalog::default());
    let mut told = HashSet::new();
    for _ in 0..ROUNDS {
        let mut repair = Repair::plan(&config.data, args.from(), &rules)?;
        if told.is_empty() {
            tell(&repair, out)?;
        }
        let (mends, lines) = mends(&repair)?;
        for line in lines {
            if told.insert(line.clone()) {
                writeln!(out, "{line}")?;
            }
        }
        out.flush()?;
        if args.dry_run {
            return Ok(());
        }
        // Before timelines are changed: for that each image must open.
        tell_kept(&repair.run_without_loss()?, out)?;
        if mends.iter().any(|(_, mend)| mend.is_change()) {
            drop(repair);
            settle(config, mends).await?;
            continue;
        }
        tell_kept(&repair.run_with_loss()?, out)?;
        if repair.steps().is_empty() && !repair.goes_on() {
            return Ok(());
        }
        drop(repair);
        return verified(&config.data, &limits, out);
    }
    Err("new damage is met again and again: look at the disk first".into())
}

impl RepairArgs {
    fn from(&self) -> RepairFrom<'_> {
        RepairFrom {
            backup: self.from.as_deref(),
            accepts_loss: self.accept_loss,
        }
    }
}

fn tell(repair: &Repair, out: &mut dyn Write) -> Result<(), RemoteError> {
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
    if repair.goes_on() {
        writeln!(
            out,
            "a repair with a loss was interrupted: the directory gets its new history"
        )?;
    } else if repair.steps().is_empty() {
        writeln!(out, "every image is whole: there is nothing to repair")?;
    }
    Ok(())
}

fn tell_kept(kept: &[PathBuf], out: &mut dyn Write) -> Result<(), RemoteError> {
    for kept in kept {
        let kept = kept.display();
        writeln!(
            out,
            "the damaged image is in {kept}: remove it once you need it no more"
        )?;
    }
    Ok(())
}

/// What becomes of the timelines of each partition that has a loss, and what else is lost.
fn mends(repair: &Repair) -> Result<(Mends, Vec<String>), RemoteError> {
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    for loss in repair.losses() {
        let id = loss.partition;
        let mut losses = Losses::new(&loss.gaps, loss.covered)
            .map_err(|what| format!("partition {id}: {what}"))?;
        repair.rows_left(id, &mut |key, value| losses.take(key, value))?;
        repair.keys_behind(loss, &mut |key| losses.take_key(key))?;
        let unnamed = losses.unnamed().into_iter();
        lines.extend(unnamed.map(|line| format!("LOST partition {id}, {line}")));
        for mend in losses.mends(&repair.view(id)?) {
            lines.push(format!("LOST partition {id}, {mend}"));
            found.push((id, mend));
        }
    }
    Ok((found, lines))
}

/// Writes what becomes of them, as a server would: whenever it ends, each timeline is one that could be there.
async fn settle(config: &Config, mends: Mends) -> Result<(), RemoteError> {
    let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
    let limits = config.timeline_limits();
    // Without the tables' definitions, which perhaps can't be read: of users' tables nothing is dropped then.
    let rules = People::rules(&limits, Catalog::default());
    let options = config.partition_options(&metrics);
    let partitions = Partitions::open(&config.data, options, rules, Arc::clone(&clock))?;
    let timelines = Timelines::with_policies(partitions.clone(), limits, config.policies(), clock);
    let mut done = Ok(());
    for (partition, mend) in mends {
        if done.is_ok() && mend.is_change() {
            done = timelines.mend(partition, mend).await;
        }
    }
    partitions.close().await;
    Ok(done.map_err(|error| format!("timelines can't be changed: {error:?}"))?)
}
