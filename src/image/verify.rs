//! Verify: reads everything and compares it with the catalog.
//!
//! Owns: the list of what must hold: intervals tile, jobs fit their inputs, every checksum, order, bounds, counts and
//! digests of every part, every key in its filter. Promises: goes on after a problem, so that one report names them
//! all. Must not: change anything, or be needed for safety: reads check for themselves.

use super::catalog::{Catalog, Job, Part, Run, TableCounts};
use super::filter;
use super::part::count_row;
use super::read::PartReader;
use super::snapshot::Snapshot;
use super::{Error, Image};
use crate::ids::Position;

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a run, a part, perhaps a key.
    pub place: String,
    /// What.
    pub what: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The position that the image covers.
    pub covered: Position,
    /// Runs, the outputs of running merges too.
    pub runs: u64,
    /// Their parts.
    pub parts: u64,
    /// Rows that were read, masked ones too.
    pub rows: u64,
    /// Problems that were told.
    pub problems: u64,
    /// What the runs hold of each table, masked rows too.
    pub tables: Vec<TableCounts>,
}

impl Image {
    /// Reads the whole image and tells every problem. `Err` only if reading itself fails.
    pub fn verify(&self, told: &mut dyn FnMut(Problem)) -> Result<Verified, Error> {
        let snapshot = self.snapshot()?;
        let mut check = Check {
            snapshot: &snapshot,
            told,
            verified: Verified {
                covered: snapshot.covered(),
                ..Verified::default()
            },
        };
        let catalog = snapshot.catalog();
        check.tiles(catalog);
        for job in &catalog.jobs {
            check.job(catalog, job);
        }
        let outputs = catalog.jobs.iter().map(|job| (&job.output, job.growing));
        let runs = catalog.runs.iter().map(|run| (&**run, false));
        for (run, growing) in runs.chain(outputs) {
            check.run(run, growing)?;
        }
        Ok(check.verified)
    }
}

struct Check<'s, 't> {
    snapshot: &'s Snapshot,
    told: &'t mut dyn FnMut(Problem),
    verified: Verified,
}

impl Check<'_, '_> {
    fn tell(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.verified.problems += 1;
        (self.told)(Problem {
            place: place.into(),
            what: what.into(),
        });
    }

    fn tiles(&mut self, catalog: &Catalog) {
        let mut next = catalog.covered;
        for run in &catalog.runs {
            if run.to != next || run.from >= run.to {
                let what = format!("covers ({}, {}], expected up to {next}", run.from, run.to);
                self.tell(format!("run {}", run.number), what);
            }
            next = run.from;
        }
        if next != Position::ZERO {
            self.tell("catalog", format!("nothing covers (0, {next}]"));
        }
        let mut slots: Vec<u16> = catalog
            .parts()
            .flat_map(|part| [part.slot, part.side])
            .collect();
        let all = slots.len();
        slots.sort_unstable();
        slots.dedup();
        if slots.len() != all {
            self.tell("catalog", "two parts name the same slot");
        }
    }

    fn job(&mut self, catalog: &Catalog, job: &Job) {
        let place = format!("merge into run {}", job.output.number);
        let inputs: Vec<&Run> = catalog
            .runs
            .iter()
            .map(|run| &**run)
            .skip_while(|run| !job.inputs.contains(&run.number))
            .take(job.inputs.len())
            .collect();
        if !inputs
            .iter()
            .map(|run| run.number)
            .eq(job.inputs.iter().copied())
        {
            self.tell(&place, "its inputs are not neighbours");
        }
        let covers = (
            inputs.last().map(|run| run.from),
            inputs.first().map(|run| run.to),
        );
        if covers != (Some(job.output.from), Some(job.output.to)) {
            self.tell(&place, "covers other positions than its inputs");
        }
        let last = job.output.parts.last().map(|part| &part.last);
        if last.is_some_and(|last| Some(last) > job.passed.as_ref()) {
            self.tell(&place, "has written beyond the last key it passed");
        }
    }

    fn run(&mut self, run: &Run, growing: bool) -> Result<(), Error> {
        self.verified.runs += 1;
        for (at, part) in run.parts.iter().enumerate() {
            let place = format!("run {}, part {at}", run.number);
            if at > 0 && run.parts[at - 1].last >= part.first {
                self.tell(&place, "begins before its predecessor ends");
            }
            self.part(&place, run, part)?;
        }
        if growing && run.parts.is_empty() {
            self.tell(format!("run {}", run.number), "a growing part is missing");
        }
        Ok(())
    }

    fn part(&mut self, place: &str, run: &Run, part: &Part) -> Result<(), Error> {
        self.verified.parts += 1;
        let snapshot = self.snapshot;
        let reader = snapshot.reader(run, part);
        let budget = filter::Budget::new(part.filter_bytes);
        let filter = reader.load_filter(part.filter_bytes, &budget)?;
        if part.filter_bytes > 0 && filter.is_none() {
            self.tell(place, "its filter can't be read");
        }
        let mut counts: Vec<TableCounts> = Vec::new();
        let (mut first, mut last): (Option<Vec<u8>>, Vec<u8>) = (None, Vec::new());
        let mut sound = true;
        for stored in reader.rows_db.iter(reader.txn)? {
            self.verified.rows += 1;
            let read = reader.row(stored?).and_then(|row| {
                let entry = row.entry(&reader)?;
                Ok((row.key, entry))
            });
            let (key, entry) = match read {
                Ok(read) => read,
                Err(Error::Damaged(what)) => {
                    self.tell(place, what);
                    sound = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if first.is_some() && *key <= last[..] {
                let key = key.escape_ascii().to_string();
                self.tell(place, format!("key {key} is out of order"));
            }
            let held = filter
                .as_ref()
                .is_none_or(|filter| in_filter(&reader, filter, &key));
            if !held {
                let key = key.escape_ascii().to_string();
                self.tell(place, format!("key {key} is not in the filter"));
            }
            count_row(&mut counts, reader.rules, &key, &entry);
            first.get_or_insert_with(|| key.to_vec());
            last = key.into_owned();
        }
        if sound {
            self.compare(place, part, &counts, &first.unwrap_or_default(), &last);
        }
        for counts in &part.counts {
            let tables = &mut self.verified.tables;
            match tables.iter_mut().find(|sum| sum.table == counts.table) {
                Some(sum) => sum.add(counts),
                None => tables.push(*counts),
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        place: &str,
        part: &Part,
        counts: &[TableCounts],
        first: &[u8],
        last: &[u8],
    ) {
        if part.first != first || part.last != last {
            self.tell(place, "other first or last key than the catalog says");
        }
        if part.counts != counts {
            self.tell(place, "other counts or digest than the catalog says");
        }
    }
}

fn in_filter(reader: &PartReader<'_>, filter: &filter::Filter, key: &[u8]) -> bool {
    let rules = reader.rules;
    let prefix = rules
        .filter_prefix(key)
        .is_none_or(|prefix| filter.may_hold(filter::prefix_hash(prefix)));
    prefix && (!rules.filter_key(key) || filter.may_hold(filter::key_hash(key)))
}
