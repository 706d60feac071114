//! Which share of each run is dead, where nothing is written any more.
//!
//! Owns: two ways of knowing. What the catalog has of each table (its versions, whether it still exists) says at once,
//! and without a look, what time has done. A slow walk over all runs, which asks the row rules for verdicts, finds the
//! rest: what other rows have marked, surplus versions. A walk takes the runs that are there when it begins: what is
//! written meanwhile is new, or was just sieved by a merge. Promises: each step of the walk reads a bounded number of
//! rows and bytes, and between two walks there is a rest; nothing is kept on disk, a restart begins the walk anew. Must
//! not: write. Its findings only start rewrites; what is dropped is decided there again.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::super::catalog::{Catalog, Run};
use super::super::rows::scan::RunScan;
use super::super::{Error, Inner, Rules, WritingState};
use super::sieve::Sieve;

/// A step ends after so many bytes, however few rows they are: a flush waits for it.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// What the walk has found so far.
#[derive(Default)]
pub(in super::super) struct Survey {
    found: HashMap<u64, Found>,
    at: Option<At>,
    /// Runs that this walk has still to go through, the next one last.
    left: Vec<u64>,
    /// When the last whole walk ended, by the partition's clock; 0 = none yet.
    walked_ms: u64,
}

/// A copy for observers, so that they do not wait for a slice.
#[derive(Default)]
pub(in super::super) struct Shown {
    /// When the last whole walk ended, ms since 1970; 0 = none yet.
    pub(in super::super) walked_ms: AtomicU64,
    /// Bytes of pages that hold what is dead.
    pub(in super::super) dead_bytes: AtomicU64,
}

/// Where the walk is.
struct At {
    run: u64,
    after: Option<Bytes>,
    so_far: Found,
}

#[derive(Clone, Copy, Default)]
struct Found {
    bytes: u64,
    dead: u64,
}

/// What one step of the walk came to.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Step {
    pub(in super::super) rows: u64,
    /// A run's walk came to its end.
    pub(in super::super) ended: bool,
}

/// The dead share of every run, as far as it is known: what a rewrite of the run would free, and no more. Else what it
/// leaves would ask for the next one.
#[derive(Default)]
pub(in super::super) struct Dead {
    percents: HashMap<u64, u64>,
    /// Of all runs together.
    pub(in super::super) all_percent: u64,
    /// The share of all runs that is dead, but that only a merge with what lies below can free: deltas.
    pub(in super::super) above_percent: u64,
    /// Bytes of pages.
    pub(in super::super) bytes: u64,
}

impl Dead {
    pub(in super::super) fn new(
        catalog: &Catalog,
        survey: &Survey,
        rules: &dyn Rules,
        now_ms: u64,
    ) -> Dead {
        let mut dead = Dead::default();
        let (mut bytes, mut above) = (0, 0);
        let oldest = catalog.runs.last().map(|run| run.number);
        for run in &catalog.runs {
            let found = survey.found.get(&run.number).copied().unwrap_or_default();
            let over = Over::new(run, oldest == Some(run.number), rules, now_ms);
            let walked = percent(found.dead, found.bytes);
            let run_percent = percent(over.alone, over.of).max(walked);
            let page_bytes = run.page_bytes();
            dead.percents.insert(run.number, run_percent);
            dead.bytes += page_bytes * run_percent / 100;
            above += page_bytes * percent(over.above, over.of) / 100;
            bytes += page_bytes;
        }
        dead.all_percent = percent(dead.bytes, bytes);
        dead.above_percent = percent(above, bytes);
        dead.bytes += above;
        dead
    }

    pub(in super::super) fn percent(&self, run: u64) -> u64 {
        self.percents.get(&run).copied().unwrap_or(0)
    }
}

/// How much of a run is dead by its counts, bytes.
#[derive(Default)]
struct Over {
    /// What a rewrite of the run alone frees.
    alone: u64,
    /// What only a merge with older runs frees.
    above: u64,
    /// Of so many.
    of: u64,
}

impl Over {
    fn new(run: &Run, is_oldest: bool, rules: &dyn Rules, now_ms: u64) -> Over {
        let mut over = Over::default();
        for counts in run.parts.iter().flat_map(|part| &part.counts) {
            let dead = counts.bytes * rules.over_percent(counts, now_ms).min(100) / 100;
            over.of += counts.bytes;
            if is_oldest {
                over.alone += dead;
            } else if counts.deltas > 0 {
                // Which of its versions are those of deltas is not known, and deltas stay as they are above a row.
                over.above += dead;
            } else {
                let puts = counts.rows.saturating_sub(counts.tombstones);
                over.alone += dead * puts / counts.rows.max(1);
            }
        }
        over
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    (100 * part).checked_div(whole).unwrap_or(0)
}

impl Survey {
    /// The run that the walk goes on in: the one it is in, else the next older one, else, after a rest, the newest. Not
    /// in a run that is gone, damaged, or being merged.
    fn turn(
        &mut self,
        catalog: &Catalog,
        damaged: &HashSet<u64>,
        now_ms: u64,
        rest_ms: u64,
    ) -> Option<&mut At> {
        let is_there = |number: u64| catalog.runs.iter().any(|run| run.number == number);
        self.found.retain(|&number, _| is_there(number));
        let is_open = |number: u64| is_there(number) && catalog.job_of(number).is_none();
        if !self.at.as_ref().is_some_and(|at| is_open(at.run)) {
            if self.at.is_none() && self.left.is_empty() {
                // (A clock that was set back must not stop the walk.)
                if now_ms.abs_diff(self.walked_ms) < rest_ms || catalog.runs.is_empty() {
                    return None;
                }
                self.left = catalog.runs.iter().rev().map(|run| run.number).collect();
            }
            let mut next = std::iter::from_fn(|| self.left.pop());
            let run = next.find(|run| is_open(*run) && !damaged.contains(run));
            self.at = run.map(|run| At {
                run,
                after: None,
                so_far: Found::default(),
            });
            if run.is_none() {
                self.end_run(now_ms);
            }
        }
        self.at.as_mut()
    }

    /// A run's walk has ended; perhaps it was the last one.
    fn end_run(&mut self, now_ms: u64) {
        self.at = None;
        if self.left.is_empty() {
            self.walked_ms = now_ms;
        }
    }
}

impl WritingState {
    /// After damage: the walk leaves the run it is in, and does not come back.
    pub(in super::super) fn leave_surveyed(&mut self, now_ms: u64) {
        self.damaged.extend(self.survey.at.take().map(|at| at.run));
        self.survey.end_run(now_ms);
    }
}

impl Inner {
    /// Looks at some rows.
    pub(in super::super) fn survey_step(
        &self,
        state: &mut WritingState,
        now_ms: u64,
        read: &dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Result<Step, Error> {
        let catalog = self.catalog();
        let (mut step, rest_ms) = (Step::default(), self.options.survey_rest_ms);
        let Some(at) = state.survey.turn(&catalog, &state.damaged, now_ms, rest_ms) else {
            return Ok(step);
        };
        let Some(run) = catalog.runs.iter().find(|run| run.number == at.run) else {
            return Ok(step);
        };
        let from = match &at.after {
            Some(after) => Bound::Excluded(&after[..]),
            None => Bound::Unbounded,
        };
        let txn = self.store.read()?;
        let parts = run.parts_of(from, Bound::Unbounded).to_vec();
        let range = (from, Bound::Unbounded);
        let mut scan = RunScan::new(
            run.number,
            parts,
            range,
            false,
            (&self.store, &txn),
            &*self.rules,
        );
        let sieve = Sieve::new(&catalog, run.number, &*self.rules, now_ms, read);
        let (mut after, mut read_bytes) = (None, 0);
        while step.rows < self.options.survey_rows && read_bytes < STEP_BYTES_MAX {
            let Some((row, reader)) = scan.next()? else {
                let (number, found) = (at.run, at.so_far);
                state.survey.found.insert(number, found);
                state.survey.end_run(now_ms);
                step.ended = true;
                return Ok(step);
            };
            let entry = row.entry(&reader)?;
            let bytes = (row.key.len() + entry.value.len()) as u64;
            step.rows += 1;
            read_bytes += bytes;
            at.so_far.bytes += bytes;
            at.so_far.dead += sieve.freed_bytes(&row.key, &entry) as u64;
            after = Some(row.key);
        }
        if let Some(after) = after {
            at.after = Some(Bytes::copy_from_slice(&after));
        }
        Ok(step)
    }

    /// Which share of the runs is dead; also what is shown of it.
    pub(in super::super) fn dead(
        &self,
        catalog: &Catalog,
        state: &WritingState,
        now_ms: u64,
    ) -> Dead {
        let survey = &state.survey;
        let dead = Dead::new(catalog, survey, &*self.rules, now_ms);
        self.shown.dead_bytes.store(dead.bytes, Ordering::Relaxed);
        let walked = &self.shown.walked_ms;
        walked.store(survey.walked_ms, Ordering::Relaxed);
        dead
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tideline_base::ids::Position;

    const REST_MS: u64 = 60_000;

    /// Of runs by their numbers, the newest first.
    fn catalog(numbers: &[u64]) -> Catalog {
        let run = |&number: &u64| {
            Arc::new(Run {
                number,
                level: 0,
                from: Position(number - 1),
                to: Position(number),
                parts: Vec::new(),
            })
        };
        Catalog {
            runs: numbers.iter().map(run).collect(),
            ..Catalog::default()
        }
    }

    #[test]
    fn a_walk_whose_last_run_is_merged_away_has_ended_and_a_rest_follows() {
        let mut survey = Survey::default();
        let mut turn = |runs: &[u64], now_ms| {
            let damaged = HashSet::from([4]);
            let at = survey.turn(&catalog(runs), &damaged, now_ms, REST_MS);
            (at.map(|at| at.run), survey.walked_ms)
        };
        assert_eq!(turn(&[], REST_MS), (None, 0));
        // 4 is damaged, 5 is written meanwhile; 6 takes the place of 3 and 2, 7 that of 1.
        assert_eq!(turn(&[4, 3, 2, 1], 2 * REST_MS), (Some(3), 0));
        assert_eq!(turn(&[5, 4, 3, 2, 1], 2 * REST_MS), (Some(3), 0));
        assert_eq!(turn(&[5, 4, 6, 1], 2 * REST_MS), (Some(1), 0));
        let ended_ms = 4 * REST_MS;
        assert_eq!(turn(&[5, 4, 6, 7], ended_ms), (None, ended_ms));
        let again_ms = ended_ms + REST_MS;
        assert_eq!(turn(&[5, 4, 6, 7], again_ms - 1), (None, ended_ms));
        assert_eq!(turn(&[5, 4, 6, 7], again_ms), (Some(5), ended_ms));
    }
}
