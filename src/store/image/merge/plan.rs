//! Which merge should be started next.
//!
//! Owns: the policy: so many runs of a level (fewer where there is little room) become one of the next, the lowest
//! level first; a run or the image with many dead rows is rewritten. Promises: inputs are neighbours in log order and
//! in no other job; at most one job per level; a job is proposed only if its next part fits, with a reserve of two
//! parts. Must not: change anything.

use std::collections::HashSet;

use super::super::catalog::{Catalog, Run};
use super::super::options::Options;
use super::survey::Dead;

/// A merge that could be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Plan {
    /// The level that it counts for.
    pub(in super::super) level: u8,
    /// The level of what comes out.
    pub(in super::super) output_level: u8,
    /// Run numbers, newest first.
    pub(in super::super) inputs: Vec<u64>,
    /// Estimated share of the inputs' bytes that goes away, percent.
    freed_percent: u64,
}

/// Room that a job may count on.
#[derive(Clone, Copy)]
pub(in super::super) struct Room {
    pub(in super::super) free_slots: usize,
    pub(in super::super) bytes_used: u64,
    pub(in super::super) map_bytes: u64,
    /// Bytes that can still be written, to free pages of the file and to the disk; `None` if unknown.
    pub(in super::super) disk_bytes: Option<u64>,
}

/// A part takes two slots; the reserve is two parts.
const SLOTS_NEEDED: usize = 6;
/// Above this share of the map, what frees most goes first.
const TIGHT_PERCENT: u64 = 80;

/// The most urgent merge that can be started, if any.
pub(in super::super) fn next(
    catalog: &Catalog,
    dead: &Dead,
    damaged: &HashSet<u64>,
    options: &Options,
    room: Room,
) -> Option<Plan> {
    let sound = Sound { catalog, damaged };
    let mut plans: Vec<Plan> = levels(catalog)
        .flat_map(|level| full_level(&sound, options, level))
        .chain(dead_run(&sound, dead, options))
        .chain(masked(&sound, dead, options))
        .collect();
    if room.bytes_used.saturating_mul(100) > room.map_bytes.saturating_mul(TIGHT_PERCENT) {
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.freed_percent));
    }
    plans
        .into_iter()
        .find(|plan| fits(catalog, options, room, plan))
}

fn levels(catalog: &Catalog) -> impl Iterator<Item = u8> {
    let mut levels: Vec<u8> = catalog.runs.iter().map(|run| run.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels.into_iter()
}

/// What may be merged: all but runs in which damage was met. Those stay where they are, and what is newer than they are
/// is not merged with what is older.
struct Sound<'c> {
    catalog: &'c Catalog,
    damaged: &'c HashSet<u64>,
}

impl Sound<'_> {
    fn is_damaged(&self, run: &Run) -> bool {
        self.damaged.contains(&run.number)
    }

    /// Whether a job of the level goes on.
    fn is_busy(&self, level: u8) -> bool {
        let mut jobs = self.catalog.jobs.iter();
        jobs.any(|job| {
            job.level == level && !job.inputs.iter().any(|run| self.damaged.contains(run))
        })
    }

    /// The runs of a level that no job has, in groups of neighbours.
    fn idle(&self, level: u8) -> impl Iterator<Item = Vec<&Run>> {
        let is_idle = move |run: &Run| {
            run.level == level && self.catalog.job_of(run.number).is_none() && !self.is_damaged(run)
        };
        let runs = self.catalog.runs.split(move |run| !is_idle(run));
        runs.map(|group| group.iter().map(|run| &**run).collect())
    }
}

/// The oldest runs of a level that has enough of them: many at once if merging is behind, because that costs fewer
/// bytes each. Where there is no room for that, fewer: each merge gives some back, so that the next one may have more.
fn full_level(sound: &Sound<'_>, options: &Options, level: u8) -> Vec<Plan> {
    let fan_in = options.fan_in.max(2);
    let enough = |idle: &Vec<&Run>| idle.len() >= fan_in;
    let idle = match sound.is_busy(level) {
        true => None,
        false => sound.idle(level).filter(enough).last(),
    };
    let Some(idle) = idle else { return Vec::new() };
    let counts = std::iter::successors(Some(2 * fan_in), |count| Some(count / 2));
    let counts = counts.take_while(|count| *count >= 2);
    let oldest = |count| &idle[idle.len().saturating_sub(count)..];
    let plan = |count| Plan {
        level,
        output_level: level.saturating_add(1),
        inputs: oldest(count).iter().map(|run| run.number).collect(),
        freed_percent: 0,
    };
    counts.map(plan).collect()
}

/// The run with the largest share of dead rows, if it is mostly dead, or if the image as a whole has too many. Of equal
/// ones the oldest: what is gone below needs no tombstone above. One without dead rows never: it would be rewritten for
/// ever, and before the job of a higher level that frees something.
fn dead_run(sound: &Sound<'_>, dead: &Dead, options: &Options) -> Option<Plan> {
    let catalog = sound.catalog;
    let idle = catalog.runs.iter().filter(|run| {
        catalog.job_of(run.number).is_none() && !sound.is_damaged(run) && !sound.is_busy(run.level)
    });
    let (run, percent) = idle
        .map(|run| (run, dead.percent(run.number)))
        .max_by_key(|(_, percent)| *percent)?;
    let due = percent >= 2 * options.dead_percent
        || (percent >= (options.dead_percent / 2).max(1)
            && dead.all_percent >= options.dead_percent);
    due.then(|| Plan {
        level: run.level,
        output_level: run.level,
        inputs: vec![run.number],
        freed_percent: percent,
    })
}

/// A merge of all runs, if too large a share of them is dead in a way that only a merge with older runs frees:
/// tombstones with the rows that they mask (at most one each), and dead deltas.
fn masked(sound: &Sound<'_>, dead: &Dead, options: &Options) -> Option<Plan> {
    let catalog = sound.catalog;
    if !catalog.jobs.is_empty() || catalog.runs.iter().any(|run| sound.is_damaged(run)) {
        return None;
    }
    let (mut rows, mut tombstones) = (0, 0);
    for counts in catalog.parts().flat_map(|part| &part.counts) {
        rows += counts.rows;
        tombstones += counts.tombstones;
    }
    let percent = (200 * tombstones).checked_div(rows)? + dead.above_percent;
    let level = catalog.runs.iter().map(|run| run.level).max()?;
    (percent >= options.dead_percent.max(1)).then(|| Plan {
        level,
        output_level: level,
        inputs: catalog.runs.iter().map(|run| run.number).collect(),
        freed_percent: percent.min(100),
    })
}

/// Whether the next part and the reserve fit. The first part is no larger than all inputs together. An input's part
/// goes when the merge is past it, so of each input there is a part at most twice; a merge that is begun without room
/// for that would keep what it has written, and free nothing.
fn fits(catalog: &Catalog, options: &Options, room: Room, plan: &Plan) -> bool {
    let (mut inputs, mut twice) = (0, 0);
    for run in &catalog.runs {
        if plan.inputs.contains(&run.number) {
            inputs += run.page_bytes();
            let parts = run.parts.iter().map(|part| part.page_bytes);
            twice += parts.max().unwrap_or(0);
        }
    }
    let part = inputs.min(options.part_bytes_max);
    let kept = 100_u64.saturating_sub(plan.freed_percent);
    room.free_slots >= SLOTS_NEEDED
        && room.map_bytes.saturating_sub(room.bytes_used) >= 3 * part
        && room
            .disk_bytes
            .is_none_or(|room| room >= twice / 100 * kept)
}
