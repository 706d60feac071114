//! Rows: the value of a put.
//!
//! Owns: the row format. Promises: written in one pass into one `Vec`, cells sorted by name and within a column newest
//! first; one column is read without decoding the others; a row without columns is a row (it has an explicit mark of
//! existence). Must not: know tables or keys.
//!
//! ```text
//! row  = 01, flags, base version (8 bytes), cells        flags: 01 the row exists
//! ```
//! The base is the lowest version in the row, so that a row whose cells were written at once carries one version.

use super::super::Malformed;
use super::cell::{Cells, Content, RawCell, push_cell};
use tideline_model::{Cell, ValueRef};

/// First byte of a row.
pub(in super::super) const ROW: u8 = 1;
/// Bytes before the first cell, the same in rows and deltas.
pub(in super::super) const HEADER_BYTES: usize = 10;
/// Flag: the row exists (in a delta: it makes the row if there is none).
pub(in super::super) const EXISTS: u8 = 1;

/// Writes a row whose cells all have one version, which may become known only at the end.
#[derive(Clone, Debug)]
pub struct RowWriter {
    out: Vec<u8>,
}

impl RowWriter {
    /// A row without columns, with room for `cell_bytes` of cells.
    #[must_use]
    pub fn new(cell_bytes: usize) -> RowWriter {
        let mut out = Vec::with_capacity(HEADER_BYTES + cell_bytes);
        push_header(&mut out, ROW, EXISTS, 0);
        RowWriter { out }
    }

    /// Adds a column. Columns come in the order of their names, each once.
    pub fn put(&mut self, name: &str, value: ValueRef<'_>) {
        push_cell(&mut self.out, Some(name), None, Content::Put(value));
    }

    /// The bytes of the cells written so far. They don't depend on the version.
    #[must_use]
    pub fn cells(&self) -> &[u8] {
        &self.out[HEADER_BYTES..]
    }

    /// The row's bytes, its cells at `version`.
    #[must_use]
    pub fn at(&mut self, version: i64) -> &[u8] {
        self.out[2..HEADER_BYTES].copy_from_slice(&version.to_be_bytes());
        &self.out
    }

    /// The same, to be kept.
    #[must_use]
    pub fn finish(mut self, version: i64) -> Vec<u8> {
        let _ = self.at(version);
        self.out
    }
}

/// A row of these cells: columns in the order of their names, versions newest first.
pub(in super::super) fn encode_cells(cells: &[Cell<'_>]) -> Vec<u8> {
    let base = cells.iter().map(|cell| cell.version).min().unwrap_or(0);
    let mut out = Vec::with_capacity(HEADER_BYTES + cells.len() * 16);
    push_header(&mut out, ROW, EXISTS, base);
    let mut last = None;
    for cell in cells {
        let name = (last.replace(cell.name) != Some(cell.name)).then_some(cell.name);
        let own = (cell.version != base).then(|| cell.version.abs_diff(base));
        push_cell(&mut out, name, own, Content::Put(cell.value));
    }
    out
}

/// Appends the header of a row or delta.
pub(in super::super) fn push_header(out: &mut Vec<u8>, format: u8, flags: u8, base: i64) {
    out.extend_from_slice(&[format, flags]);
    out.extend_from_slice(&base.to_be_bytes());
}

/// Takes the header of a row or delta off: flags, base, cells.
pub(in super::super) fn split_header(
    value: &[u8],
    format: u8,
) -> Result<(u8, i64, &[u8]), Malformed> {
    let (header, cells) = value.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed)?;
    let [first, flags, base @ ..] = *header;
    if first != format || flags & !EXISTS != 0 {
        return Err(Malformed);
    }
    Ok((flags, i64::from_be_bytes(base), cells))
}

/// A row as it is stored. Its cells are looked at only when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    base: i64,
    cells: &'a [u8],
}

impl<'a> Row<'a> {
    /// Reads the header.
    pub fn parse(value: &'a [u8]) -> Result<Row<'a>, Malformed> {
        let (flags, base, cells) = split_header(value, ROW)?;
        if flags != EXISTS {
            return Err(Malformed);
        }
        Ok(Row { base, cells })
    }

    /// The lowest version in the row: that of all cells, if they were written at once.
    #[must_use]
    pub fn base(&self) -> i64 {
        self.base
    }

    /// All cells: columns in the order of their names, versions newest first.
    pub fn cells(&self) -> impl Iterator<Item = Result<Cell<'a>, Malformed>> + use<'a> {
        let mut cells = Cells::new(self.cells, self.base);
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let cell = cells.next_cell().and_then(put_only).transpose();
            failed = matches!(cell, Some(Err(_)));
            cell
        })
    }

    /// The newest cell of each column.
    pub fn columns(&self) -> impl Iterator<Item = Result<Cell<'a>, Malformed>> + use<'a> {
        let mut last = None;
        self.cells().filter(move |cell| match cell {
            Ok(cell) => last.replace(cell.name) != Some(cell.name),
            Err(_) => true,
        })
    }

    /// The newest cell of one column.
    pub fn column(&self, name: &str) -> Result<Option<Cell<'a>>, Malformed> {
        let mut cells = Cells::new(self.cells, self.base);
        cells.seek(name).and_then(put_only)
    }

    /// The newest cells of some columns; `names` must be sorted. Skips the values of other columns.
    pub fn pick<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> impl Iterator<Item = Result<Cell<'a>, Malformed>> {
        let mut cells = Cells::new(self.cells, self.base);
        names
            .into_iter()
            .filter_map(move |name| cells.seek(name).and_then(put_only).transpose())
    }
}

/// A row holds nothing but values.
fn put_only(cell: Option<RawCell<'_>>) -> Result<Option<Cell<'_>>, Malformed> {
    let Some(cell) = cell else {
        return Ok(None);
    };
    match cell.content {
        Content::Put(value) => Ok(Some(Cell {
            name: cell.name,
            version: cell.version,
            value,
        })),
        Content::DeleteOne | Content::DeleteAll => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_model::Value;
    use tideline_model::arbitrary;

    fn write(columns: &[(String, Value)], version: i64) -> Vec<u8> {
        let mut writer = RowWriter::new(0);
        for (name, value) in columns {
            writer.put(name, value.into());
        }
        writer.finish(version)
    }

    proptest! {
        #[test]
        fn rows_come_back(columns in arbitrary::columns(), version: i64) {
            let bytes = write(&columns, version);
            let row = Row::parse(&bytes).unwrap();
            prop_assert_eq!(row.base(), version);
            let back: Vec<_> = row
                .cells()
                .map(|cell| cell.map(|cell| (cell.name.to_owned(), cell.value.to_value())))
                .collect::<Result<_, _>>()
                .unwrap();
            prop_assert_eq!(&back, &columns);
            for (name, value) in &columns {
                let cell = row.column(name).unwrap().unwrap();
                prop_assert_eq!((cell.version, cell.value.to_value()), (version, value.clone()));
            }
            prop_assert_eq!(row.column("\u{10ffff}").unwrap(), None);
            let names = columns.iter().step_by(2).map(|(name, _)| name.as_str());
            let picked: Vec<_> = row.pick(names).map(|cell| cell.unwrap().name).collect();
            let wanted: Vec<_> = columns.iter().step_by(2).map(|(name, _)| name.as_str()).collect();
            prop_assert_eq!(picked, wanted);
        }

        #[test]
        fn damaged_rows_are_refused_and_never_panic(
            columns in arbitrary::columns(),
            cut: prop::sample::Index,
            byte: u8,
            tail in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = write(&columns, 7);
            let at = cut.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(at.max(HEADER_BYTES) + 1);
            bytes.extend(tail);
            if let Ok(row) = Row::parse(&bytes) {
                let _ = row.cells().count() + row.columns().count();
                let _ = row.column("a").is_ok() & row.column("zz").is_ok();
            }
        }
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut writer = RowWriter::new(0);
        writer.put("a", ValueRef::Integer(-65));
        writer.put("b", ValueRef::String("hi"));
        writer.put("c", ValueRef::Boolean(true));
        let expected = [
            &[1, 1, 0, 0, 0, 0, 0, 0, 1, 2][..],
            &[0x02, 1, b'a', 0x81, 0x01],
            &[0x01, 1, b'b', 2, b'h', b'i'],
            &[0x05, 1, b'c'],
        ]
        .concat();
        assert_eq!(writer.finish(0x102), expected);
        assert!(Row::parse(&[]).is_err() && Row::parse(&[2, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let empty = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Row::parse(&empty).unwrap().cells().count(), 0);
    }
}
