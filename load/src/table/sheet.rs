//! The table of a run: its keys and columns, what was written last at each unit, and whether rows that came are right.
//!
//! Owns: the shape of rows, what they count in capacity units, and generations: the number of each write of a unit (a
//! row, or a cell of it) was sent, and acknowledged. Promises: the order of the rows' numbers is that of their keys, so
//! that a range is a run of numbers; a value tells its generation, and the rest of it follows from seed, cell and
//! generation, so one of another cell, of a lost write or cut short is found. Must not: send anything; a unit has one
//! writer.

use std::cell::Cell as Slot;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use tideline_wire::tablestore::plainbuffer::{Cell, Row, Variant};

use super::Table;
use crate::random::Random;

pub(super) struct Sheet {
    pub(super) name: String,
    pub(super) rows: u64,
    /// Their names.
    pub(super) columns: Vec<String>,
    /// Columns that one write changes: all of a row, or one.
    group: usize,
    rows_per_key: u64,
    value_bytes: usize,
    /// Of cells, in seconds, if they expire.
    time_to_live: Option<f64>,
    units: Vec<Unit>,
    /// The texts of all values are cut from this.
    pool: String,
    seed: u64,
}

/// A unit of writing, a row or a cell: its last generations.
#[derive(Clone, Default)]
struct Unit {
    sent: Slot<u32>,
    acked: Slot<u32>,
    /// When the last acknowledgement came.
    acked_at: Slot<Option<Instant>>,
}

/// These columns of a row, as they are written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) row: u64,
    pub(super) columns: Range<usize>,
    pub(super) generation: u32,
}

/// What a read must show, taken when it is asked for.
pub(super) struct Due {
    /// All that may come.
    pub(super) rows: Range<u64>,
    pub(super) backward: bool,
    /// So many of them at most.
    pub(super) limit: usize,
    pub(super) columns: Range<usize>,
    /// What was acknowledged, by unit.
    oldest: HashMap<usize, u32>,
}

/// A value begins with its generation, in so many digits.
pub(super) const DIGITS: usize = 8;
const POOL_BYTES: usize = 1 << 16;
/// The columns of the key, and the bytes of their names and values.
pub(super) const KEY: [&str; 2] = ["part", "row"];
const KEY_BYTES: usize = 24;
/// What a cell counts beside its value: its name, and its version where the table has a time to live.
const CELL_BYTES: usize = 6;
const VERSION_BYTES: usize = 8;
/// The rows are spread over so many, in runs.
const PARTITION_KEYS: u64 = 100;
/// A unit of capacity.
const UNIT_BYTES: usize = 4_096;
/// Clocks of server and tool, and what lies between stamp and answer.
const SLACK_SECONDS: f64 = 1.0;

impl Sheet {
    pub(super) fn new(name: String, args: &Table, seed: u64) -> Sheet {
        let (group, value_bytes) = (args.group(), args.value_bytes());
        let units = args.rows as usize * (args.columns / group);
        Sheet {
            name,
            rows: args.rows,
            columns: (0..args.columns).map(|at| format!("c{at:05}")).collect(),
            group,
            rows_per_key: args.rows.div_ceil(PARTITION_KEYS),
            value_bytes,
            time_to_live: args.time_to_live.map(f64::from),
            units: vec![Unit::default(); units],
            pool: Random::new(seed).text(POOL_BYTES + value_bytes),
            seed,
        }
    }

    /// The key of a row: `p` and digits, so that the order of keys is that of the numbers.
    pub(super) fn key(&self, row: u64) -> Row {
        let part = format!("p{:08}", row / self.rows_per_key);
        let number = (row % self.rows_per_key).cast_signed();
        key([Variant::String(part), Variant::Integer(number)])
    }

    /// The key behind all rows of a range.
    pub(super) fn end(backward: bool) -> Row {
        match backward {
            true => key([Variant::InfMin, Variant::InfMin]),
            false => key([Variant::InfMax, Variant::InfMax]),
        }
    }

    /// How many partition keys so many rows have.
    pub(super) fn partition_keys(rows: u64) -> u64 {
        rows.div_ceil(rows.div_ceil(PARTITION_KEYS))
    }

    /// The rows of a partition key, by its number.
    pub(super) fn rows_of(&self, partition_key: u64) -> Range<u64> {
        let first = partition_key * self.rows_per_key;
        first..self.rows.min(first + self.rows_per_key)
    }

    /// The row and the columns of a unit.
    pub(super) fn at(&self, unit: u64) -> (u64, Range<usize>) {
        let (cell, width) = (unit as usize * self.group, self.columns.len());
        let column = cell % width;
        ((cell / width) as u64, column..column + self.group)
    }

    fn unit(&self, row: u64, column: usize) -> usize {
        (row as usize * self.columns.len() + column) / self.group
    }

    fn units_of(&self, row: u64, columns: &Range<usize>) -> impl Iterator<Item = usize> {
        let columns = columns.clone().step_by(self.group);
        columns.map(move |column| self.unit(row, column))
    }

    /// New generations of these columns are about to be sent; all of them have as many.
    pub(super) fn send(&self, row: u64, columns: Range<usize>) -> Write {
        let mut generation = 0;
        for unit in self.units_of(row, &columns) {
            generation = self.units[unit].sent.get() + 1;
            self.units[unit].sent.set(generation);
        }
        Write {
            row,
            columns,
            generation,
        }
    }

    /// A write was acknowledged.
    pub(super) fn ack(&self, write: &Write) {
        for unit in self.units_of(write.row, &write.columns) {
            let unit = &self.units[unit];
            unit.acked.set(write.generation);
            unit.acked_at.set(Some(Instant::now()));
        }
    }

    /// What a read that is asked for now must show.
    pub(super) fn due(
        &self,
        rows: Range<u64>,
        backward: bool,
        limit: usize,
        columns: Range<usize>,
    ) -> Due {
        // Rows further on come only where others have expired.
        let near = in_order(rows.clone(), backward).take(limit + 1);
        let near = near.flat_map(|row| self.units_of(row, &columns));
        Due {
            oldest: near
                .map(|unit| (unit, self.units[unit].acked.get()))
                .collect(),
            rows,
            backward,
            limit,
            columns,
        }
    }

    /// What is left of the table from a row on.
    pub(super) fn from(&self, row: u64, backward: bool) -> Range<u64> {
        if backward { 0..row + 1 } else { row..self.rows }
    }

    /// How long ago the last acknowledgement came, in seconds; `None` while a write is on the way.
    fn age(&self, row: u64) -> Option<f64> {
        let unit = &self.units[self.unit(row, 0)];
        let rests = unit.acked_at.get().filter(|_| unit.sent == unit.acked);
        Some(rests?.elapsed().as_secs_f64())
    }

    /// Whether a row that is not shown may have expired.
    fn may_be_gone(&self, row: u64) -> bool {
        let expires = |most| self.age(row).is_none_or(|age| age + SLACK_SECONDS >= most);
        self.time_to_live.is_some_and(expires)
    }

    /// What follows the generation in a value.
    fn text(&self, row: u64, column: usize, generation: u32) -> &str {
        let cell = row * self.columns.len() as u64 + column as u64;
        let mixed = self.seed ^ cell.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(generation);
        let begin = Random::new(mixed).below(POOL_BYTES as u64) as usize;
        &self.pool[begin..begin + self.value_bytes - DIGITS]
    }

    /// The row of a write, with its columns.
    pub(super) fn row(&self, write: &Write) -> Row {
        let (row, generation) = (write.row, write.generation);
        let cell = |column: usize| {
            let text = self.text(row, column, generation);
            let value = format!("{generation:0width$x}{text}", width = DIGITS);
            Cell::key(self.columns[column].as_str(), Variant::String(value))
        };
        Row {
            attributes: write.columns.clone().map(cell).collect(),
            ..self.key(row)
        }
    }

    /// The generation of a cell that came; `None` if nobody ever wrote it there.
    fn generation(&self, cell: &Cell, row: u64, column: usize) -> Option<u32> {
        let (Some(Variant::String(value)), Some(_)) = (&cell.value, cell.timestamp) else {
            return None;
        };
        let (digits, text) = value.split_at_checked(DIGITS)?;
        let found = u32::from_str_radix(digits, 16).ok()?;
        let written = cell.name == self.columns[column] && text == self.text(row, column, found);
        written.then_some(found)
    }

    /// What so many rows with so many columns count, read or written.
    pub(super) fn units(&self, rows: usize, columns: usize) -> i32 {
        let version_bytes = self.time_to_live.map_or(0, |_| VERSION_BYTES);
        let cell_bytes = CELL_BYTES + version_bytes + self.value_bytes;
        let bytes = rows * (KEY_BYTES + columns * cell_bytes);
        i32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(i32::MAX)
    }

    /// Checks what came: no row missing, twice or out of order, each as it must be, and the next key that of the row
    /// behind, never of the first. Returns the row of that key.
    pub(super) fn check(
        &self,
        due: &Due,
        came: &[Row],
        next: Option<&Row>,
    ) -> Result<Option<u64>, String> {
        if came.len() > due.limit || next.is_some_and(|next| !next.attributes.is_empty()) {
            let (came, limit) = (came.len(), due.limit);
            return Err(format!("{came} rows of at most {limit}, then {next:?}"));
        }
        let mut expected = in_order(due.rows.clone(), due.backward);
        // Steps over what has expired, up to the key; without one, to the end.
        let mut reach = |key: Option<&[Cell]>| {
            for row in expected.by_ref() {
                if key.is_some_and(|key| self.key(row).primary_key == key) {
                    return Ok(Some(row));
                }
                if !self.may_be_gone(row) {
                    return Err(format!("row {row} is missing before {key:?}"));
                }
            }
            match key {
                Some(key) => Err(format!("a row behind the end, or out of order: {key:?}")),
                None => Ok(None),
            }
        };
        for came in came {
            if let Some(row) = reach(Some(&came.primary_key))? {
                let checked = self.check_row(due, row, came);
                checked.map_err(|what| format!("row {row}: {what}"))?;
            }
        }
        let next = reach(next.map(|next| next.primary_key.as_slice()))?;
        match in_order(due.rows.clone(), due.backward).next() == next {
            true if next.is_some() => Err("the next page begins where this one does".to_owned()),
            _ => Ok(next),
        }
    }

    /// Its columns are these, and each is of a generation that was acknowledged when the read began or sent since.
    fn check_row(&self, due: &Due, row: u64, came: &Row) -> Result<(), String> {
        let (columns, cells) = (due.columns.clone(), &came.attributes);
        if cells.len() != columns.len() {
            return Err(format!("{} columns, not {}", cells.len(), columns.len()));
        }
        let mut first = None;
        for (column, cell) in columns.zip(cells) {
            let (name, found) = (&cell.name, self.generation(cell, row, column));
            let found = found.ok_or_else(|| format!("never written so: {cell:.120?}"))?;
            let unit = self.unit(row, column);
            let oldest = due.oldest.get(&unit).copied().unwrap_or_default();
            let newest = self.units[unit].sent.get();
            if !(oldest..=newest).contains(&found) {
                return Err(format!("{name}: write {found}, not {oldest} to {newest}"));
            }
            if *first.get_or_insert(found) != found && self.group > 1 {
                return Err(format!("{name}: of another write than the first column"));
            }
        }
        // It may have been read as long ago as an answer takes.
        match self.time_to_live.zip(self.age(row)) {
            Some((most, age)) if age > most + 10.0 * SLACK_SECONDS => {
                Err(format!("{age:.1} s old, and expires after {most} s"))
            }
            _ => Ok(()),
        }
    }
}

/// The numbers of rows as a range shows them.
fn in_order(rows: Range<u64>, backward: bool) -> Box<dyn Iterator<Item = u64>> {
    match backward {
        true => Box::new(rows.rev()),
        false => Box::new(rows),
    }
}

fn key(values: [Variant; 2]) -> Row {
    let cells = KEY.into_iter().zip(values);
    Row::key(cells.map(|(name, value)| Cell::key(name, value)).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        table: Table,
    }

    /// Ten rows of four columns that were written once.
    pub(crate) fn sheet(mix: &str) -> Sheet {
        let words = "table --rows 10 --columns 4 --row-bytes 90 --mix";
        let line = Line::parse_from(words.split(' ').chain([mix]));
        let sheet = Sheet::new("t".to_owned(), &line.table, 3);
        for row in 0..10 {
            let write = sheet.send(row, 0..4);
            assert_eq!(write.generation, 1);
            sheet.ack(&write);
        }
        sheet
    }

    /// A row as a server shows it.
    pub(crate) fn shown(sheet: &Sheet, row: u64, columns: Range<usize>, generation: u32) -> Row {
        let mut row = sheet.row(&Write {
            row,
            columns,
            generation,
        });
        for cell in &mut row.attributes {
            cell.timestamp = Some(1);
        }
        row
    }

    #[test]
    fn keys_stand_in_the_order_of_the_numbers() {
        let sheet = sheet("put");
        let texts: Vec<String> = (0..10).map(|row| format!("{:?}", sheet.key(row))).collect();
        assert!(texts.is_sorted(), "{texts:?}");
    }

    #[test]
    fn a_row_that_is_not_what_was_written_is_found() {
        let sheet = sheet("put");
        let (second, third) = (sheet.send(5, 0..4), sheet.send(5, 0..4));
        assert_eq!((second.generation, third.generation), (2, 3));
        let asked_before = sheet.due(5..6, false, 1, 0..4);
        sheet.ack(&second);
        let check = |row: Row| {
            let due = sheet.due(5..6, false, 1, 0..4);
            sheet.check(&due, &[row], None)
        };
        let good = shown(&sheet, 5, 0..4, 2);
        check(good.clone()).expect("what was acknowledged");
        check(shown(&sheet, 5, 0..4, 3)).expect("what is on the way");
        let old = shown(&sheet, 5, 0..4, 1);
        check(old.clone()).expect_err("too old");
        let checked = sheet.check(&asked_before, &[old], None);
        checked.expect("acknowledged only after this was asked");
        check(shown(&sheet, 5, 0..4, 4)).expect_err("never sent");
        check(shown(&sheet, 6, 0..4, 1)).expect_err("another row");
        check(shown(&sheet, 5, 0..3, 2)).expect_err("a column less");
        check(sheet.row(&second)).expect_err("no versions");
        let changed = |change: &dyn Fn(&mut Vec<Cell>)| {
            let mut row = good.clone();
            change(&mut row.attributes);
            check(row)
        };
        let other = shown(&sheet, 5, 0..4, 3).attributes[3].clone();
        changed(&|cells| cells[3] = other.clone()).expect_err("half of two writes");
        changed(&|cells| cells.push(other.clone())).expect_err("a column too much");
        changed(&|cells| cells.swap(0, 1)).expect_err("columns out of order");
        let text = |text: &str| Some(Variant::String(text.to_owned()));
        changed(&|cells| cells[0].value = text("00000002")).expect_err("cut short");
        changed(&|cells| cells[0].value = text("")).expect_err("empty");
    }

    #[test]
    fn cells_are_written_alone() {
        let sheet = sheet("update");
        assert_eq!(sheet.at(5 * 4 + 2), (5, 2..3));
        let write = sheet.send(5, 2..3);
        assert_eq!(write.generation, 2);
        let check = |row: &Row| {
            let due = sheet.due(5..6, false, 1, 0..4);
            sheet.check(&due, std::slice::from_ref(row), None)
        };
        let mut row = shown(&sheet, 5, 0..4, 1);
        check(&row).expect("as it was");
        row.attributes[2] = shown(&sheet, 5, 0..4, 2).attributes[2].clone();
        check(&row).expect("one is newer");
        sheet.ack(&write);
        check(&row).expect("and acknowledged");
        check(&shown(&sheet, 5, 0..4, 1)).expect_err("the update is lost");
        row.attributes[1] = shown(&sheet, 5, 0..4, 2).attributes[1].clone();
        check(&row).expect_err("never written");
    }

    #[test]
    fn a_page_with_rows_missing_twice_or_out_of_order_is_found() {
        let sheet = sheet("put");
        let page = |rows: &[u64]| -> Vec<Row> {
            let rows = rows.iter();
            rows.map(|row| shown(&sheet, *row, 0..4, 1)).collect()
        };
        for backward in [false, true] {
            // The rows as the page counts them, from the row where it begins.
            let row = |step: u64| if backward { 6 - step } else { 3 + step };
            let from = |step| sheet.due(sheet.from(row(step), backward), backward, 3, 0..4);
            let check = |steps: &[u64], next: Option<u64>| {
                let steps: Vec<u64> = steps.iter().map(|step| row(*step)).collect();
                let next = next.map(|step| sheet.key(row(step)));
                sheet.check(&from(0), &page(&steps), next.as_ref())
            };
            assert_eq!(check(&[0, 1, 2], Some(3)), Ok(Some(row(3))));
            for (steps, next, what) in [
                (&[0, 2][..], Some(3), "one is missing"),
                (&[1, 2], Some(3), "the first is missing"),
                (&[0, 1, 1], Some(2), "one comes twice"),
                (&[1, 0], Some(2), "out of order"),
                (&[0, 1, 2, 3], Some(4), "more than asked for"),
                (&[0, 1, 2], Some(4), "the next page begins too late"),
                (&[0, 1, 2], Some(2), "the next page shows one again"),
                (&[0, 1, 2], None, "the rest is missing"),
                (&[], Some(0), "the next page is the same"),
            ] {
                check(steps, next).expect_err(what);
            }
            let last = page(&[row(4), row(5), row(6)]);
            assert_eq!(sheet.check(&from(4), &last, None), Ok(None));
        }
    }

    #[test]
    fn units_are_rounded_up() {
        let sheet = sheet("put");
        let row = 4 + 9 + 3 + 8 + 4 * (6 + 22);
        assert_eq!([0, 1, 4_096 / row].map(|rows| sheet.units(rows, 4)), [1; 3]);
        assert_eq!(sheet.units(4_096 / row + 1, 4), 2);
    }
}
