//! Looking for dead rows where nothing is written any more.
//!
//! Owns: a slow walk over all runs that asks the row rules for verdicts and remembers, per run, which share of its
//! bytes they would drop. Promises: each step reads a bounded number of rows; nothing is kept on disk, a restart begins
//! anew. Must not: write. Its findings only start rewrites; what is dropped is decided there again.

use std::collections::HashMap;
use std::ops::Bound;

use bytes::Bytes;

use super::catalog::Catalog;
use super::merge::Sieve;
use super::scan::RunScan;
use super::{Error, Inner, State};

/// What the walk has found so far.
#[derive(Default)]
pub(super) struct Survey {
    found: HashMap<u64, Found>,
    at: Option<At>,
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

impl Survey {
    /// The dead share of a run that has been walked to its end.
    pub(super) fn dead_percent(&self, run: u64) -> Option<u64> {
        let found = self.found.get(&run)?;
        (100 * found.dead).checked_div(found.bytes)
    }

    /// The dead share of all that has been walked.
    pub(super) fn dead_percent_of_all(&self, catalog: &Catalog) -> u64 {
        let mut all = Found::default();
        for run in &catalog.runs {
            let found = self.found.get(&run.number).copied().unwrap_or_default();
            all.bytes += found.bytes;
            all.dead += found.dead;
        }
        (100 * all.dead).checked_div(all.bytes).unwrap_or_default()
    }

    /// The run that the walk goes on in: the one it is in, else the next older one, else the newest.
    fn turn(&mut self, catalog: &Catalog) -> Option<&mut At> {
        self.found
            .retain(|number, _| catalog.runs.iter().any(|run| run.number == *number));
        let last = self.at.as_ref().map(|at| at.run);
        let here = catalog
            .runs
            .iter()
            .position(|run| Some(run.number) == last && catalog.job_of(run.number).is_none());
        if here.is_none() {
            let next = catalog
                .runs
                .iter()
                .find(|run| !self.found.contains_key(&run.number))
                .or_else(|| {
                    // All are known: begin anew, verdicts change with time.
                    self.found.clear();
                    catalog.runs.first()
                })?;
            self.at = Some(At {
                run: next.number,
                after: None,
                so_far: Found::default(),
            });
        }
        self.at.as_mut()
    }
}

impl Inner {
    /// Looks at some rows. Whether a run's walk came to its end.
    pub(super) fn survey_step(
        &self,
        state: &mut State,
        now_ms: u64,
        read: &dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Result<bool, Error> {
        let catalog = self.catalog();
        let Some(at) = state.survey.turn(&catalog) else {
            return Ok(false);
        };
        let Some(run) = catalog.runs.iter().find(|run| run.number == at.run) else {
            return Ok(false);
        };
        let from = match &at.after {
            Some(after) => Bound::Excluded(&after[..]),
            None => Bound::Unbounded,
        };
        let txn = self.store.read()?;
        let parts = run.parts_of(from, Bound::Unbounded).to_vec();
        let range = (from, Bound::Unbounded);
        let mut scan = RunScan::new(run.number, parts, range, false, &txn, &*self.rules);
        let sieve = Sieve::new(&catalog, run.number, &*self.rules, now_ms, read);
        let mut after = None;
        for _ in 0..self.options.survey_rows {
            let Some((row, reader)) = scan.next()? else {
                let found = at.so_far;
                let number = at.run;
                state.survey.at = None;
                state.survey.found.insert(number, found);
                return Ok(true);
            };
            let entry = row.entry(&reader)?;
            let bytes = (row.key.len() + entry.value.len()) as u64;
            at.so_far.bytes += bytes;
            at.so_far.dead += sieve.freed_bytes(&row.key, &entry) as u64;
            after = Some(row.key);
        }
        if let Some(after) = after {
            at.after = Some(Bytes::from(after.into_owned()));
        }
        Ok(false)
    }
}
