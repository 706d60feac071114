//! Verify: reads everything and compares it with the catalog.
//!
//! Owns: the list of what must hold: intervals tile, jobs fit their inputs, every checksum, order, bounds, counts and
//! digests of every part, every key in its filter. Promises: goes on after a problem, so that one report names them
//! all. Must not: change anything, or be needed for safety: reads check for themselves.

use std::io;

use bytes::Bytes;

use super::super::catalog::{Catalog, Job, Part, Run, TableCounts};
use super::super::pages::page::Page;
use super::super::rows::filter;
use super::super::rows::part::count_row;
use super::super::rows::read::PartReader;
use super::super::{Error, Image};
use tideline_base::ids::Position;

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where: a run, a part, perhaps a key.
    pub place: String,
    /// What.
    pub what: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerifiedImage {
    /// The position that the image covers.
    pub covered: Position,
    /// Runs, the outputs of running merges too.
    pub runs: u64,
    /// Their parts.
    pub parts: u64,
    /// Rows that were read, masked ones too.
    pub rows: u64,
    /// Problems that were found.
    pub problems: u64,
    /// What the runs hold of each table, masked rows too.
    pub tables: Vec<TableCounts>,
}

impl Image {
    /// Reads the whole image and returns every problem. `Err` only if reading itself fails.
    pub(crate) fn verify(&self, report: &mut dyn FnMut(Problem)) -> Result<VerifiedImage, Error> {
        let snapshot = self.snapshot()?;
        let mut check = Check::new(report);
        check.catalog(snapshot.catalog());
        for run in snapshot.catalog().all_runs() {
            for (at, part) in run.parts.iter().enumerate() {
                check.part(&place(run, at), snapshot.reader(run, part), part)?;
            }
        }
        Ok(VerifiedImage {
            covered: snapshot.covered(),
            ..check.verified
        })
    }

    /// What the catalog says of itself, without reading a part; the problems.
    pub(crate) fn verify_catalog(&self, report: &mut dyn FnMut(Problem)) {
        Check::new(report).catalog(&self.inner.catalog());
    }
}

/// Reads one part and returns its first problem as an error; or ends, with an error, once it is not to go on.
pub(in super::super) fn verify_part(
    reader: PartReader<'_>,
    part: &Part,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let mut found = None;
    let place = format!("run {}, slot {}", reader.run, part.slot);
    let mut report = |Problem { place, what }| {
        found.get_or_insert_with(|| Error::damaged(place, &what));
    };
    let mut check = Check::new(&mut report);
    check.goes_on = goes_on;
    check.part(&place, Ok(reader), part)?;
    found.map_or(Ok(()), Err)
}

/// Which part it is, for the text of a problem.
fn place(run: &Run, at: usize) -> String {
    format!("run {}, part {at}", run.number)
}

struct Check<'t> {
    report: &'t mut dyn FnMut(Problem),
    verified: VerifiedImage,
    /// Asked at each page of rows.
    goes_on: &'t dyn Fn() -> bool,
}

impl<'t> Check<'t> {
    fn new(report: &'t mut dyn FnMut(Problem)) -> Check<'t> {
        Check {
            report,
            verified: VerifiedImage::default(),
            goes_on: &|| true,
        }
    }

    fn tell(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.verified.problems += 1;
        (self.report)(Problem {
            place: place.into(),
            what: what.into(),
        });
    }

    fn catalog(&mut self, catalog: &Catalog) {
        self.tiles(catalog);
        for job in &catalog.jobs {
            self.job(catalog, job);
            if job.growing && job.output.parts.is_empty() {
                self.tell(
                    format!("run {}", job.output.number),
                    "a growing part is missing",
                );
            }
        }
        for run in catalog.all_runs() {
            self.run(run);
        }
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

    fn run(&mut self, run: &Run) {
        self.verified.runs += 1;
        for (at, two) in (1..).zip(run.parts.windows(2)) {
            if two[0].last >= two[1].first {
                self.tell(place(run, at), "begins before its predecessor ends");
            }
        }
    }

    fn part(
        &mut self,
        place: &str,
        reader: Result<PartReader<'_>, Error>,
        part: &Part,
    ) -> Result<(), Error> {
        self.verified.parts += 1;
        let reader = match reader {
            Ok(reader) => reader,
            Err(Error::Damaged(what)) => {
                self.tell(place, what);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let budget = filter::Budget::new(part.filter_bytes);
        let filter = reader.load_filter(part.filter_bytes, &budget)?;
        if part.filter_bytes > 0 && filter.is_none() {
            self.tell(place, "its filter can't be read");
        }
        reader.trees.side.walk(&mut |page| {
            if let Err(error) = page {
                self.tell(place, error.to_string());
            }
            (self.goes_on)()
        });
        let mut rows = PartRows::default();
        reader.trees.rows.walk(&mut |page| {
            match page {
                Err(error) => {
                    self.tell(place, error.to_string());
                    rows.is_whole = false;
                }
                Ok(page) if page.is_last() => {
                    for at in 0..page.count() {
                        self.row(place, &reader, (page, at), filter.as_ref(), &mut rows);
                    }
                }
                Ok(_) => {}
            }
            (self.goes_on)()
        });
        if !(self.goes_on)() {
            return Err(Error::Io(io::Error::other("it was ended")));
        }
        if rows.is_whole {
            self.compare(place, part, &rows);
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

    fn row(
        &mut self,
        place: &str,
        reader: &PartReader<'_>,
        (page, at): (&Page, usize),
        filter: Option<&filter::Filter>,
        rows: &mut PartRows,
    ) {
        self.verified.rows += 1;
        let (key, entry) = match reader.row_at(page, at) {
            Ok(read) => read,
            Err(error) => {
                self.tell(place, error.to_string());
                rows.is_whole = false;
                return;
            }
        };
        if rows.first.is_some() && key[..] <= rows.last[..] {
            let key = key.escape_ascii().to_string();
            self.tell(place, format!("key {key} is out of order"));
        }
        if !filter.is_none_or(|filter| in_filter(reader, filter, &key)) {
            let key = key.escape_ascii().to_string();
            self.tell(place, format!("key {key} is not in the filter"));
        }
        count_row(&mut rows.counts, reader.rules, &key, &entry);
        rows.first.get_or_insert_with(|| key.clone());
        rows.last = key;
    }

    fn compare(&mut self, place: &str, part: &Part, rows: &PartRows) {
        let first = rows.first.as_deref().unwrap_or_default();
        if part.first != first || part.last != rows.last {
            self.tell(place, "other first or last key than the catalog says");
        }
        if part.counts != rows.counts {
            self.tell(place, "other counts or digest than the catalog says");
        }
    }
}

/// What was found in a part.
struct PartRows {
    counts: Vec<TableCounts>,
    first: Option<Bytes>,
    last: Bytes,
    /// Every row could be read.
    is_whole: bool,
}

impl Default for PartRows {
    fn default() -> PartRows {
        PartRows {
            counts: Vec::new(),
            first: None,
            last: Bytes::new(),
            is_whole: true,
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
