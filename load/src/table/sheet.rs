//! One table of a run: its rows in order, their keys and columns, and whether a row that came is the one that should.
//!
//! Owns: the shape of keys and rows, and what they count in capacity units. Promises: every row has a number, and the
//! order of the numbers is that of the keys, so that a range is a run of numbers. Must not: send anything.

use std::ops::Range;

use tideline::wire::tablestore::plainbuffer::{Cell, Row, Variant};
use tideline::wire::tablestore::proto;

use super::ledger::{DIGITS, Ledger};

/// What one write changes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// All columns of a row.
    Rows,
    /// One column of a row.
    Cells,
}

/// How large a table is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) rows: u64,
    /// They are spread over so many partition keys, in runs.
    pub(super) partition_keys: u64,
    pub(super) columns: usize,
    /// Bytes of values in a row, over its columns.
    pub(super) row_bytes: usize,
}

/// A table.
pub(super) struct Sheet {
    pub(super) name: String,
    pub(super) size: Size,
    pub(super) writes: Writes,
    pub(super) ledger: Ledger,
    /// Of its cells, in seconds, if they expire.
    pub(super) time_to_live: Option<f64>,
    columns: Vec<String>,
    rows_per_key: u64,
}

const PARTITION_KEY: &str = "part";
const ROW_KEY: &str = "row";
/// `p` and the number, so that their order is that of the numbers.
const PARTITION_DIGITS: usize = 9;
/// Clocks of server and tool, and what lies between stamp and answer.
const SLACK_SECONDS: f64 = 1.0;
/// A unit of capacity.
const UNIT_BYTES: usize = 4_096;

impl Sheet {
    pub(super) fn new(
        name: String,
        size: Size,
        writes: Writes,
        time_to_live: Option<f64>,
        seed: u64,
    ) -> Sheet {
        let places = match writes {
            Writes::Rows => size.rows,
            Writes::Cells => size.rows * size.columns as u64,
        };
        let longest = size.row_bytes.div_ceil(size.columns) + DIGITS;
        Sheet {
            ledger: Ledger::new(places as usize, longest, seed),
            columns: (0..size.columns)
                .map(|number| format!("c{number:05}"))
                .collect(),
            rows_per_key: size.rows.div_ceil(size.partition_keys.max(1)),
            name,
            size,
            writes,
            time_to_live,
        }
    }

    /// As a new table.
    pub(super) fn definition(&self) -> proto::TableMeta {
        let column = |name: &str, kind: proto::PrimaryKeyType| proto::PrimaryKeySchema {
            name: Some(name.to_owned()),
            r#type: Some(kind.into()),
            option: None,
        };
        proto::TableMeta {
            table_name: Some(self.name.clone()),
            primary_key: vec![
                column(PARTITION_KEY, proto::PrimaryKeyType::String),
                column(ROW_KEY, proto::PrimaryKeyType::Integer),
            ],
            defined_column: Vec::new(),
        }
    }

    /// Where the writes of a row's column are counted.
    pub(super) fn place(&self, row: u64, column: usize) -> usize {
        match self.writes {
            Writes::Rows => row as usize,
            Writes::Cells => row as usize * self.size.columns + column,
        }
    }

    /// Those of some of its columns.
    pub(super) fn places(&self, row: u64, columns: Range<usize>) -> Range<usize> {
        match self.writes {
            Writes::Rows => row as usize..row as usize + 1,
            Writes::Cells => self.place(row, columns.start)..self.place(row, columns.end),
        }
    }

    pub(super) fn column(&self, number: usize) -> &str {
        &self.columns[number]
    }

    /// The key of a row.
    pub(super) fn key(&self, row: u64) -> Row {
        let part = format!("p{:08}", row / self.rows_per_key);
        let number = (row % self.rows_per_key).cast_signed();
        Row::key(vec![
            Cell::key(PARTITION_KEY, Variant::String(part)),
            Cell::key(ROW_KEY, Variant::Integer(number)),
        ])
    }

    /// The key below or above all rows.
    pub(super) fn end(&self, is_above: bool) -> Row {
        let infinity = || {
            if is_above {
                Variant::InfMax
            } else {
                Variant::InfMin
            }
        };
        Row::key(vec![
            Cell::key(PARTITION_KEY, infinity()),
            Cell::key(ROW_KEY, infinity()),
        ])
    }

    /// Which row has this key.
    pub(super) fn number(&self, key: &[Cell]) -> Option<u64> {
        let [part, row] = key else {
            return None;
        };
        let (Some(Variant::String(text)), Some(Variant::Integer(number))) =
            (&part.value, &row.value)
        else {
            return None;
        };
        let part: u64 = text.strip_prefix('p')?.parse().ok()?;
        let number = part * self.rows_per_key + u64::try_from(*number).ok()?;
        // Names and digits, too.
        (number < self.size.rows && self.key(number).primary_key == key).then_some(number)
    }

    fn value_bytes(&self, column: usize) -> usize {
        let Size {
            columns, row_bytes, ..
        } = self.size;
        row_bytes / columns + usize::from(column < row_bytes % columns)
    }

    /// Of all columns of all rows, which this is.
    fn cell_number(&self, row: u64, column: usize) -> u64 {
        row * self.size.columns as u64 + column as u64
    }

    /// A column as it is written.
    pub(super) fn cell(&self, row: u64, column: usize, generation: u32) -> Cell {
        let length = self.value_bytes(column);
        let value = self
            .ledger
            .value(self.cell_number(row, column), generation, length);
        Cell::key(self.columns[column].as_str(), Variant::String(value))
    }

    /// A row with these columns, as it is written.
    pub(super) fn row(&self, row: u64, columns: Range<usize>, generation: u32) -> Row {
        Row {
            attributes: columns
                .map(|column| self.cell(row, column, generation))
                .collect(),
            ..self.key(row)
        }
    }

    /// Checks a row that came: its columns are these, and each is of a generation that was acknowledged when the read
    /// began (`oldest` says which) or sent since.
    pub(super) fn check(
        &self,
        came: &Row,
        row: u64,
        columns: Range<usize>,
        oldest: impl Fn(usize) -> u32,
    ) -> Result<(), String> {
        let name = || format!("{} row {row}", self.name);
        if self.number(&came.primary_key) != Some(row) {
            return Err(format!(
                "{}: another key came: {:?}",
                name(),
                came.primary_key
            ));
        }
        let mut generations = None;
        let mut cells = came.attributes.iter();
        for column in columns {
            let wrong = |what: &str| format!("{} {}: {what}", name(), self.columns[column]);
            let cell = cells.next().ok_or_else(|| wrong("missing"))?;
            let Some(Variant::String(value)) = &cell.value else {
                return Err(wrong("not a text"));
            };
            let number = self.cell_number(row, column);
            let found = self
                .ledger
                .generation(number, value, self.value_bytes(column));
            let Some(found) = found.filter(|_| cell.name == self.columns[column]) else {
                return Err(wrong(&format!("never written so: {cell:.120?}")));
            };
            let (oldest, newest) = (oldest(column), self.ledger.sent(self.place(row, column)));
            if found < oldest || found > newest {
                return Err(wrong(&format!(
                    "write {found} came, not {oldest} to {newest}"
                )));
            }
            if self.writes == Writes::Rows && *generations.get_or_insert(found) != found {
                return Err(wrong("of another write than the columns before it"));
            }
            if cell.timestamp.is_none() {
                return Err(wrong("without a version"));
            }
        }
        match cells.next() {
            Some(more) => Err(format!("{}: a column too much: {more:.120?}", name())),
            None => self
                .check_age(row)
                .map_err(|age| format!("{}: {age}", name())),
        }
    }

    /// A row that was shown must not have expired.
    fn check_age(&self, row: u64) -> Result<(), String> {
        let rests = self.ledger.rests_for(self.place(row, 0));
        match self.time_to_live.zip(rests) {
            // It may have been read as long ago as an answer takes.
            Some((most, rests)) if rests > most + 10.0 * SLACK_SECONDS => {
                Err(format!("{rests:.1} s old, and expires after {most} s"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a row that is not shown may have expired.
    pub(super) fn may_be_gone(&self, row: u64) -> bool {
        let rests = self.ledger.rests_for(self.place(row, 0));
        let about = |most: f64| rests.is_none_or(|rests| rests + SLACK_SECONDS >= most);
        self.time_to_live.is_some_and(about)
    }

    /// What these columns of a row count, in bytes, read or written: names, values, versions, and the key's.
    pub(super) fn bytes(&self, columns: Range<usize>) -> usize {
        let bytes = |column: usize| self.columns[column].len() + self.value_bytes(column) + 8;
        self.key_bytes() + columns.map(bytes).sum::<usize>()
    }

    fn key_bytes(&self) -> usize {
        PARTITION_KEY.len() + PARTITION_DIGITS + ROW_KEY.len() + 8
    }
}

/// Bytes in units of capacity, at least one.
pub(super) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES))
        .unwrap_or(u32::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(writes: Writes) -> Sheet {
        let size = Size {
            rows: 10,
            partition_keys: 3,
            columns: 4,
            row_bytes: 90,
        };
        Sheet::new("t".to_owned(), size, writes, None, 3)
    }

    #[tokio::test]
    async fn keys_stand_in_the_order_of_the_numbers() {
        let sheet = sheet(Writes::Rows);
        let texts: Vec<String> = (0..10).map(|row| format!("{:?}", sheet.key(row))).collect();
        assert!(texts.is_sorted(), "{texts:?}");
        for row in 0..10 {
            assert_eq!(sheet.number(&sheet.key(row).primary_key), Some(row));
        }
        assert_eq!(sheet.number(&sheet.key(10).primary_key), None);
        assert_eq!(sheet.number(&sheet.end(true).primary_key), None);
    }

    fn stamped(mut row: Row) -> Row {
        for cell in &mut row.attributes {
            cell.timestamp = Some(1);
        }
        row
    }

    #[tokio::test]
    async fn a_row_that_is_not_what_was_written_is_found() {
        let sheet = sheet(Writes::Rows);
        for generation in 1..=3 {
            assert_eq!(sheet.ledger.send(5), generation);
        }
        let check = |row: &Row, oldest| sheet.check(row, 5, 0..4, |_| oldest);
        let good = stamped(sheet.row(5, 0..4, 2));
        check(&good, 1).expect("good");
        check(&good, 3).expect_err("too old");
        check(&stamped(sheet.row(5, 0..4, 4)), 1).expect_err("never sent");
        check(&stamped(sheet.row(6, 0..4, 2)), 1).expect_err("another row");
        check(&stamped(sheet.row(5, 0..3, 2)), 1).expect_err("a column less");
        check(&sheet.row(5, 0..4, 2), 1).expect_err("no versions");
        let mut torn = good.clone();
        torn.attributes[3] = stamped(sheet.row(5, 0..4, 3)).attributes[3].clone();
        check(&torn, 1).expect_err("half of two writes");
        let mut twice = good.clone();
        twice.attributes.push(good.attributes[3].clone());
        check(&twice, 1).expect_err("a column too much");
    }

    #[tokio::test]
    async fn cells_are_written_alone() {
        let sheet = sheet(Writes::Cells);
        for column in 0..4 {
            sheet.ledger.send(sheet.place(5, column));
        }
        sheet.ledger.send(sheet.place(5, 2));
        let mut row = stamped(sheet.row(5, 0..4, 1));
        sheet.check(&row, 5, 0..4, |_| 1).expect("as it was");
        row.attributes[2] = stamped(sheet.row(5, 0..4, 2)).attributes[2].clone();
        sheet.check(&row, 5, 0..4, |_| 1).expect("one is newer");
        row.attributes[1] = stamped(sheet.row(5, 0..4, 2)).attributes[1].clone();
        sheet
            .check(&row, 5, 0..4, |_| 1)
            .expect_err("never written");
    }

    #[test]
    fn units_are_rounded_up() {
        assert_eq!([0, 1, 4_096, 4_097].map(units), [1, 1, 1, 2]);
    }
}
