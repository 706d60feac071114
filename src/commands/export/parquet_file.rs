//! Rows as a Parquet file.
//!
//! Owns: the file's columns, and how cells are put into them. Promises: every version of every cell is in the file
//! once; no more than a row group is in memory. Must not: know where rows come from.
//!
//! ```text
//! required KEY                                                each column of the primary key
//! optional group COLUMN { version, value }                    each defined column: its newest version
//! group other (LIST) { element { name, version,               all else: older versions, values of another type,
//!     integer, double, boolean, string, binary } }            columns that are not defined
//! ```

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{ExportError, wrong};
use crate::wire::tablestore::plainbuffer::{Cell, Row, Variant};
use crate::wire::tablestore::proto::{DefinedColumnType, PrimaryKeyType, TableMeta};

/// A row group ends after so many rows, or bytes of values.
const GROUP_ROWS: usize = 100_000;
const GROUP_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Integer,
    Double,
    Boolean,
    String,
    Binary,
}

/// Of a cell that has no column of its own.
const KINDS: [(&str, Kind); 5] = [
    ("integer", Kind::Integer),
    ("double", Kind::Double),
    ("boolean", Kind::Boolean),
    ("string", Kind::String),
    ("binary", Kind::Binary),
];

/// A file that is being written.
pub(super) struct Parquet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Group,
}

impl<W: Write + Send> Parquet<W> {
    /// Begins the file of a table.
    pub(super) fn new(out: W, table: &TableMeta) -> Result<Self, ExportError> {
        let columns = Columns::of(table);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let schema = columns.schema().map_err(wrong)?;
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()));
        Ok(Parquet {
            file: file.map_err(wrong)?,
            group: Group::new(columns),
        })
    }

    pub(super) fn push(&mut self, row: &Row) -> Result<(), ExportError> {
        self.group.push(row)?;
        if self.group.rows >= GROUP_ROWS || self.group.bytes >= GROUP_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    /// Ends the file, which says then of which positions it is.
    pub(super) fn finish(mut self, positions: &[u64]) -> Result<(), ExportError> {
        self.end_group()?;
        let positions = format!("{positions:?}");
        let positions = KeyValue::new("tideline.positions".to_owned(), positions);
        self.file.append_key_value_metadata(positions);
        let mut out = self.file.into_inner().map_err(wrong)?;
        Ok(out.flush()?)
    }

    fn end_group(&mut self) -> Result<(), ExportError> {
        if self.group.rows > 0 {
            self.group.write(&mut self.file).map_err(wrong)?;
        }
        Ok(())
    }
}

/// The columns of a table.
struct Columns {
    key: Vec<(String, Kind)>,
    defined: Vec<(String, Kind)>,
    /// What the list of all other cells is called.
    other: String,
}

impl Columns {
    fn of(table: &TableMeta) -> Columns {
        let key = table.primary_key.iter().map(|column| {
            let kind = match column.r#type() {
                PrimaryKeyType::Integer => Kind::Integer,
                PrimaryKeyType::String => Kind::String,
                PrimaryKeyType::Binary => Kind::Binary,
            };
            (column.name().to_owned(), kind)
        });
        let defined = table.defined_column.iter().map(|column| {
            let kind = match column.r#type() {
                DefinedColumnType::DctInteger => Kind::Integer,
                DefinedColumnType::DctDouble => Kind::Double,
                DefinedColumnType::DctBoolean => Kind::Boolean,
                DefinedColumnType::DctString => Kind::String,
                DefinedColumnType::DctBlob => Kind::Binary,
            };
            (column.name().to_owned(), kind)
        });
        let (key, defined): (Vec<_>, Vec<_>) = (key.collect(), defined.collect());
        let mut other = "other".to_owned();
        while key.iter().chain(&defined).any(|(name, _)| *name == other) {
            other.push('_');
        }
        Columns {
            key,
            defined,
            other,
        }
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let group = |name, repetition, logical, fields| {
            let group = Type::group_type_builder(name).with_repetition(repetition);
            let group = group.with_logical_type(logical).with_fields(fields);
            Ok::<TypePtr, ParquetError>(Arc::new(group.build()?))
        };
        let required = Repetition::REQUIRED;
        let mut fields = Vec::new();
        for (name, kind) in &self.key {
            fields.push(kind.leaf(name, required)?);
        }
        for (name, kind) in &self.defined {
            let version = Kind::Integer.leaf("version", required)?;
            let value = kind.leaf("value", required)?;
            fields.push(group(
                name,
                Repetition::OPTIONAL,
                None,
                vec![version, value],
            )?);
        }
        let mut cell = vec![
            Kind::String.leaf("name", required)?,
            Kind::Integer.leaf("version", required)?,
        ];
        for (name, kind) in KINDS {
            cell.push(kind.leaf(name, Repetition::OPTIONAL)?);
        }
        let element = group("element", required, None, cell)?;
        let list = group("list", Repetition::REPEATED, None, vec![element])?;
        let is_list = Some(LogicalType::List);
        fields.push(group(&self.other, required, is_list, vec![list])?);
        let row = Type::group_type_builder("row").with_fields(fields);
        Ok(Arc::new(row.build()?))
    }
}

impl Kind {
    fn leaf(self, name: &str, repetition: Repetition) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Kind::Integer => (Physical::INT64, None),
            Kind::Double => (Physical::DOUBLE, None),
            Kind::Boolean => (Physical::BOOLEAN, None),
            Kind::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Binary => (Physical::BYTE_ARRAY, None),
        };
        let leaf = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        Ok(Arc::new(leaf.with_logical_type(logical).build()?))
    }

    fn is_of(self, cell: &Cell) -> bool {
        matches!(
            (self, &cell.value),
            (Kind::Integer, Some(Variant::Integer(_)))
                | (Kind::Double, Some(Variant::Double(_)))
                | (Kind::Boolean, Some(Variant::Boolean(_)))
                | (Kind::String, Some(Variant::String(_)))
                | (Kind::Binary, Some(Variant::Binary(_)))
        )
    }
}

/// Rows that are not in the file yet, by columns.
struct Group {
    columns: Columns,
    key: Vec<Leaf>,
    /// Of each defined column the version and the value.
    defined: Vec<[Leaf; 2]>,
    /// Of all other cells name and version, and the value in the leaf of its kind.
    other: [Leaf; 2],
    values: [Leaf; 5],
    rows: usize,
    bytes: usize,
}

impl Group {
    fn new(columns: Columns) -> Group {
        let leaves = |columns: &[(String, Kind)]| -> Vec<Leaf> {
            columns.iter().map(|(_, kind)| Leaf::new(*kind)).collect()
        };
        let defined = leaves(&columns.defined).into_iter();
        Group {
            key: leaves(&columns.key),
            defined: defined
                .map(|value| [Leaf::new(Kind::Integer), value])
                .collect(),
            other: [Leaf::new(Kind::String), Leaf::new(Kind::Integer)],
            values: KINDS.map(|(_, kind)| Leaf::new(kind)),
            columns,
            rows: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, row: &Row) -> Result<(), ExportError> {
        self.rows += 1;
        for (leaf, cell) in self.key.iter_mut().zip(&row.primary_key) {
            if !cell.value.as_ref().is_some_and(|value| leaf.put(value)) {
                return Err(wrong("a key of another type than its column's"));
            }
            self.bytes += bytes_of(cell);
        }
        let mut own: Vec<Option<&Cell>> = vec![None; self.defined.len()];
        let mut other = Vec::new();
        let mut last = None;
        for cell in &row.attributes {
            self.bytes += bytes_of(cell);
            let is_newest = last.replace(&cell.name) != Some(&cell.name);
            let defined = &self.columns.defined;
            let at = defined.iter().position(|(name, _)| *name == cell.name);
            match at.filter(|at| is_newest && defined[*at].1.is_of(cell)) {
                Some(at) => own[at] = Some(cell),
                None => other.push(cell),
            }
        }
        for ([version, value], cell) in self.defined.iter_mut().zip(own) {
            version.cell(cell.map(version_of).as_ref(), (1, 0), 0);
            value.cell(cell.and_then(|cell| cell.value.as_ref()), (1, 0), 0);
        }
        self.push_other(&other);
        Ok(())
    }

    fn push_other(&mut self, cells: &[&Cell]) {
        let [name, version] = &mut self.other;
        for (at, cell) in cells.iter().enumerate() {
            let repeats = i16::from(at > 0);
            name.cell(Some(&Variant::String(cell.name.clone())), (1, 0), repeats);
            version.cell(Some(&version_of(cell)), (1, 0), repeats);
            for value in &mut self.values {
                value.cell(cell.value.as_ref(), (2, 1), repeats);
            }
        }
        if cells.is_empty() {
            let leaves = self.other.iter_mut().chain(&mut self.values);
            leaves.for_each(|leaf| leaf.cell(None, (1, 0), 0));
        }
    }

    /// Writes the rows, and has none then.
    fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        // As in the schema.
        let leaves = self.key.iter_mut().chain(self.defined.iter_mut().flatten());
        let leaves = leaves.chain(&mut self.other).chain(&mut self.values);
        for leaf in leaves {
            if let Some(mut column) = group.next_column()? {
                std::mem::replace(leaf, Leaf::new(leaf.kind)).write(&mut column)?;
                column.close()?;
            }
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

/// What a cell takes in memory, about.
fn bytes_of(cell: &Cell) -> usize {
    let value = match &cell.value {
        Some(Variant::String(text)) => text.len(),
        Some(Variant::Binary(bytes)) => bytes.len(),
        _ => 8,
    };
    cell.name.len() + value + 64
}

fn version_of(cell: &Cell) -> Variant {
    Variant::Integer(cell.timestamp.unwrap_or_default())
}

/// The values of one column of the file, and between which levels of its nesting there are none.
struct Leaf {
    kind: Kind,
    integers: Vec<i64>,
    doubles: Vec<f64>,
    booleans: Vec<bool>,
    bytes: Vec<ByteArray>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl Leaf {
    fn new(kind: Kind) -> Leaf {
        Leaf {
            kind,
            integers: Vec::new(),
            doubles: Vec::new(),
            booleans: Vec::new(),
            bytes: Vec::new(),
            defined: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Adds a value; `false` if it is of another kind.
    fn put(&mut self, value: &Variant) -> bool {
        match (self.kind, value) {
            (Kind::Integer, Variant::Integer(number)) => self.integers.push(*number),
            (Kind::Double, Variant::Double(number)) => self.doubles.push(*number),
            (Kind::Boolean, Variant::Boolean(is_true)) => self.booleans.push(*is_true),
            (Kind::String, Variant::String(text)) => self.bytes.push(text.as_str().into()),
            (Kind::Binary, Variant::Binary(bytes)) => self.bytes.push(bytes.clone().into()),
            _ => return false,
        }
        true
    }

    /// Adds a value of an optional column, if there is one of its kind: then it is at the first level, else at the
    /// second.
    fn cell(&mut self, value: Option<&Variant>, levels: (i16, i16), repeats: i16) {
        let is_there = value.is_some_and(|value| self.put(value));
        self.defined
            .push(if is_there { levels.0 } else { levels.1 });
        self.repeated.push(repeats);
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let defined = (!self.defined.is_empty()).then_some(&self.defined[..]);
        let repeated = (!self.repeated.is_empty()).then_some(&self.repeated[..]);
        match self.kind {
            Kind::Integer => {
                let column = column.typed::<Int64Type>();
                column.write_batch(&self.integers, defined, repeated)?;
            }
            Kind::Double => {
                let column = column.typed::<DoubleType>();
                column.write_batch(&self.doubles, defined, repeated)?;
            }
            Kind::Boolean => {
                let column = column.typed::<BoolType>();
                column.write_batch(&self.booleans, defined, repeated)?;
            }
            Kind::String | Kind::Binary => {
                let column = column.typed::<ByteArrayType>();
                column.write_batch(&self.bytes, defined, repeated)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;
    use crate::wire::tablestore::proto::{DefinedColumnSchema, PrimaryKeySchema};

    #[test]
    #[allow(clippy::too_many_lines)] // the table, its rows, and the rows of the file
    fn every_version_of_every_cell_is_in_the_file_once() {
        let key = |name: &str, kind: PrimaryKeyType| PrimaryKeySchema {
            name: Some(name.to_owned()),
            r#type: Some(kind.into()),
            option: None,
        };
        let defined = |name: &str, kind: DefinedColumnType| DefinedColumnSchema {
            name: Some(name.to_owned()),
            r#type: Some(kind.into()),
        };
        let table = TableMeta {
            table_name: None,
            primary_key: vec![
                key("k", PrimaryKeyType::String),
                key("other", PrimaryKeyType::Integer),
            ],
            defined_column: vec![
                defined("n", DefinedColumnType::DctInteger),
                defined("t", DefinedColumnType::DctString),
            ],
        };
        let row = |k: &str, number, attributes: Vec<Cell>| Row {
            primary_key: vec![
                Cell::key("k", Variant::String(k.to_owned())),
                Cell::key("other", Variant::Integer(number)),
            ],
            attributes,
            delete_marker: false,
            sequence: None,
        };
        let text = |text: &str| Variant::String(text.to_owned());
        let mut out = Vec::new();
        let mut file = Parquet::new(&mut out, &table).unwrap();
        let mut push = |row| file.push(&row).unwrap();
        push(row("bare", 1, vec![]));
        push(row(
            "full",
            i64::MIN,
            vec![
                Cell::version("b", Variant::Boolean(true), 5),
                Cell::version("d", Variant::Double(0.5), 6),
                Cell::version("n", Variant::Integer(2), 9),
                Cell::version("n", Variant::Integer(1), 8),
                Cell::version("t", Variant::Integer(7), 7),
                Cell::version("x", Variant::Binary(vec![1, 2].into()), 4),
            ],
        ));
        push(row("text", 3, vec![Cell::version("t", text("é"), 3)]));
        file.end_group().unwrap();
        file.push(&row("", 4, vec![Cell::version("z", text(""), 1)]))
            .unwrap();
        file.finish(&[7, 8]).unwrap();
        let file = SerializedFileReader::new(Bytes::from(out)).unwrap();
        let metadata = file.metadata().file_metadata();
        let positions = &metadata.key_value_metadata().unwrap()[0];
        assert_eq!(positions.value.as_deref(), Some("[7, 8]"));
        assert_eq!(file.num_row_groups(), 2);
        let rows = file.get_row_iter(None).unwrap();
        let rows: Vec<String> = rows.map(|row| row.unwrap().to_string()).collect();
        let cell = |name: &str, version, values: [&str; 5]| {
            let [i, d, b, s, x] = values;
            format!(
                "{{name: \"{name}\", version: {version}, integer: {i}, double: {d}, boolean: {b}, string: {s}, binary: {x}}}"
            )
        };
        let null = "null";
        let full = [
            cell("b", 5, [null, null, "true", null, null]),
            cell("d", 6, [null, "0.5", null, null, null]),
            cell("n", 8, ["1", null, null, null, null]),
            cell("t", 7, ["7", null, null, null, null]),
            cell("x", 4, [null, null, null, null, "[1, 2]"]),
        ];
        let last = cell("z", 1, [null, null, null, "\"\"", null]);
        assert_eq!(
            rows,
            [
                "{k: \"bare\", other: 1, n: null, t: null, other_: []}".to_owned(),
                format!(
                    "{{k: \"full\", other: {}, n: {{version: 9, value: 2}}, t: null, other_: [{}]}}",
                    i64::MIN,
                    full.join(", ")
                ),
                "{k: \"text\", other: 3, n: null, t: {version: 3, value: \"é\"}, other_: []}"
                    .to_owned(),
                format!("{{k: \"\", other: 4, n: null, t: null, other_: [{last}]}}"),
            ]
        );
    }
}
