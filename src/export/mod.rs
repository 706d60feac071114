//! `tideline export TABLE`: all rows of a table of a running server as lines of JSON.
//!
//! Owns: the client of ExportTable, the spool, the shape of a line. Promises: the rows of each partition are exactly
//! those of one position of it, in the order of keys, whatever was written meanwhile; none is written before all of a
//! partition are there. Must not: open a data directory; the server serves on.
//!
//! Pages go into a spool as they come. What has changed in the part that was read comes after each page, so the server
//! has to look back at little of its log, and lies beside the spool until both are merged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde_json::{Map, Value, json};

use crate::ids::Clock;
use crate::model::KeyValue;
use crate::wire::tablestore::Operation;
use crate::wire::tablestore::plainbuffer::{Cell, Row, Variant, decode_rows, encode_row};
use crate::wire::tablestore::proto::{Error, ExportTableRequest, ExportTableResponse};

mod client;

pub use client::Account;
use client::Client;

/// Why an export ended early, in words.
#[derive(Debug)]
pub struct ExportError(String);

impl std::fmt::Display for ExportError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError(error.to_string())
    }
}

fn wrong(what: impl std::fmt::Display) -> ExportError {
    ExportError(what.to_string())
}

/// What was exported.
#[derive(Debug, Default)]
pub struct Exported {
    /// Rows.
    pub rows: u64,
    /// The position of each partition that they are of.
    pub positions: Vec<u64>,
}

/// Writes all rows of a table to `out`.
pub fn export(
    account: &Account,
    table: &str,
    out: &mut impl Write,
) -> Result<Exported, ExportError> {
    let mut asking = Asking {
        client: Client::connect(account)?,
        table: table.to_owned(),
        id: None,
        partitions: Vec::new(),
        partition: None,
    };
    let mut exported = Exported::default();
    loop {
        let spool = Spool::read(&mut asking)?;
        exported.positions.push(spool.position);
        exported.rows += spool.merge(out)?;
        asking.partition = asking.partitions.get(exported.positions.len()).copied();
        if asking.partition.is_none() {
            out.flush()?;
            return Ok(exported);
        }
    }
}

/// Asks for the pages of one partition after the other.
struct Asking {
    client: Client,
    table: String,
    id: Option<u32>,
    /// As the first answer named them.
    partitions: Vec<u32>,
    /// `None` = the first one.
    partition: Option<u32>,
}

impl Asking {
    fn ask(
        &mut self,
        start: Option<Bytes>,
        position: Option<u64>,
    ) -> Result<ExportTableResponse, ExportError> {
        let request = ExportTableRequest {
            table_name: Some(self.table.clone()),
            partition: self.partition,
            start_primary_key: start,
            position,
        };
        let body = request.encode_to_vec();
        loop {
            let (status, body) = self.client.call(Operation::ExportTable, &body)?;
            if status == 200 {
                let page = ExportTableResponse::decode(body).map_err(wrong)?;
                if *self.id.get_or_insert(page.table_id) != page.table_id {
                    return Err(wrong("the table was deleted and made again meanwhile"));
                }
                if self.partitions.is_empty() {
                    self.partitions.clone_from(&page.partitions);
                } else if self.partitions != page.partitions {
                    return Err(wrong("partitions were split or merged meanwhile"));
                }
                return Ok(page);
            }
            let error = Error::decode(body).map_err(wrong)?;
            if error.code != "OTSServerBusy" {
                return Err(wrong(format_args!("{}: {}", error.code, error.message())));
            }
            std::thread::sleep(BREATH);
        }
    }
}

/// The pause before a server that is busy is asked again.
const BREATH: Duration = Duration::from_millis(100);

type Key = Vec<KeyValue>;

/// The rows of a partition as they came, and what has changed among them since.
struct Spool {
    /// Each row behind its length.
    rows: BufWriter<File>,
    /// As of later than the rows; `None` = gone.
    changed: BTreeMap<Key, Option<Row>>,
    position: u64,
}

impl Spool {
    fn read(asking: &mut Asking) -> Result<Spool, ExportError> {
        let mut spool = Spool {
            rows: BufWriter::new(unnamed_file()?),
            changed: BTreeMap::new(),
            position: 0,
        };
        let mut start = None;
        let mut is_first = true;
        loop {
            let page = asking.ask(start, None)?;
            if std::mem::take(&mut is_first) {
                spool.position = page.position;
            }
            for row in decode_rows(&page.rows).map_err(wrong)? {
                let row = encode_row(&row);
                let length = u32::try_from(row.len()).map_err(wrong)?;
                spool.rows.write_all(&length.to_be_bytes())?;
                spool.rows.write_all(&row)?;
            }
            start = page.next_start_primary_key;
            let read_to = match &start {
                Some(next) => decode_rows(next).map_err(wrong)?.pop().map(|row| key(&row)),
                None => None,
            };
            spool.catch_up(asking, read_to.as_ref())?;
            if start.is_none() {
                return Ok(spool);
            }
        }
    }

    /// Takes what has changed since, of what lies below `read_to`: the rest is still to be read.
    fn catch_up(&mut self, asking: &mut Asking, read_to: Option<&Key>) -> Result<(), ExportError> {
        loop {
            let page = asking.ask(None, Some(self.position))?;
            let is_read = |key: &Key| read_to.is_none_or(|next| key < next);
            for row in decode_rows(&page.rows).map_err(wrong)? {
                let key = key(&row);
                if is_read(&key) {
                    self.changed.insert(key, Some(row));
                }
            }
            for gone in decode_rows(&page.gone).map_err(wrong)? {
                let key = key(&gone);
                if is_read(&key) {
                    self.changed.insert(key, None);
                }
            }
            self.position = page.position;
            if page.is_last {
                return Ok(());
            }
        }
    }

    /// Writes what it holds, in the order of keys; gives how many rows.
    fn merge(self, out: &mut impl Write) -> Result<u64, ExportError> {
        let mut file = self
            .rows
            .into_inner()
            .map_err(|error| wrong(error.error()))?;
        file.rewind()?;
        let mut spooled = BufReader::new(file);
        let mut changed = self.changed.into_iter().peekable();
        let mut count = 0;
        while let Some(row) = next_row(&mut spooled)? {
            let key = key(&row);
            while let Some((_, new)) = changed.next_if(|(other, _)| *other < key) {
                count += write(out, new.as_ref())?;
            }
            match changed.next_if(|(other, _)| *other == key) {
                Some((_, new)) => count += write(out, new.as_ref())?,
                None => count += write(out, Some(&row))?,
            }
        }
        for (_, new) in changed {
            count += write(out, new.as_ref())?;
        }
        Ok(count)
    }
}

fn next_row(spooled: &mut BufReader<File>) -> Result<Option<Row>, ExportError> {
    let mut length = [0; 4];
    match spooled.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut row = vec![0; u32::from_be_bytes(length) as usize];
    spooled.read_exact(&mut row)?;
    Ok(decode_rows(&row.into()).map_err(wrong)?.pop())
}

/// A file that is gone when it is closed.
fn unnamed_file() -> io::Result<File> {
    let name = format!("tideline-export-{}", uuid::Uuid::new_v4().simple());
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn key(row: &Row) -> Key {
    let value = |cell: &Cell| match &cell.value {
        Some(Variant::Integer(number)) => KeyValue::Integer(*number),
        Some(Variant::String(text)) => KeyValue::String(text.clone()),
        Some(Variant::Binary(bytes)) => KeyValue::Binary(bytes.clone()),
        _ => KeyValue::InfMin,
    };
    row.primary_key.iter().map(value).collect()
}

/// Writes a row as a line, if there is one; gives how many.
fn write(out: &mut impl Write, row: Option<&Row>) -> Result<u64, ExportError> {
    let Some(row) = row else {
        return Ok(0);
    };
    serde_json::to_writer(&mut *out, &line(row)).map_err(wrong)?;
    out.write_all(b"\n")?;
    Ok(1)
}

/// `{"key": {name: value}, "columns": {name: [{"version", "value"}, …]}}`, versions newest first; bytes are
/// `{"base64": text}`.
fn line(row: &Row) -> Value {
    let named = |cell: &Cell| (cell.name.clone(), shown(cell.value.as_ref()));
    let key: Map<String, Value> = row.primary_key.iter().map(named).collect();
    let mut columns: Map<String, Value> = Map::new();
    for cell in &row.attributes {
        let version = json!({"version": cell.timestamp, "value": shown(cell.value.as_ref())});
        let versions = columns.entry(cell.name.clone());
        if let Value::Array(versions) = versions.or_insert_with(|| Value::Array(Vec::new())) {
            versions.push(version);
        }
    }
    json!({"key": key, "columns": columns})
}

fn shown(value: Option<&Variant>) -> Value {
    use base64::Engine as _;
    match value {
        Some(Variant::Integer(number)) => json!(number),
        Some(Variant::Double(number)) => json!(number),
        Some(Variant::Boolean(is_true)) => json!(is_true),
        Some(Variant::String(text)) => json!(text),
        Some(Variant::Binary(bytes)) => {
            json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)})
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: i64, text: &str) -> Row {
        Row {
            primary_key: vec![Cell::key("k", Variant::Integer(number))],
            attributes: vec![Cell::version("c", Variant::String(text.to_owned()), 7)],
            delete_marker: false,
            sequence: None,
        }
    }

    #[test]
    fn what_came_later_takes_the_place_of_what_was_read() {
        let mut spool = Spool {
            rows: BufWriter::new(unnamed_file().unwrap()),
            changed: BTreeMap::new(),
            position: 9,
        };
        for number in [2, 4, 6, 8] {
            let row = encode_row(&row(number, "old"));
            let length = u32::try_from(row.len()).unwrap();
            spool.rows.write_all(&length.to_be_bytes()).unwrap();
            spool.rows.write_all(&row).unwrap();
        }
        for (number, new) in [
            (1, true),
            (2, true),
            (4, false),
            (5, true),
            (7, false),
            (9, true),
        ] {
            let new = new.then(|| row(number, "new"));
            spool.changed.insert(vec![KeyValue::Integer(number)], new);
        }
        let mut out = Vec::new();
        assert_eq!(spool.merge(&mut out).unwrap(), 6);
        let lines = String::from_utf8(out).unwrap();
        let told: Vec<Value> = lines
            .lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        let short: Vec<(i64, &str)> = told
            .iter()
            .map(|line| {
                let value = &line["columns"]["c"][0]["value"];
                (line["key"]["k"].as_i64().unwrap(), value.as_str().unwrap())
            })
            .collect();
        let expected = [
            (1, "new"),
            (2, "new"),
            (5, "new"),
            (6, "old"),
            (8, "old"),
            (9, "new"),
        ];
        assert_eq!(short, expected);
        assert_eq!(
            lines.lines().next(),
            Some(r#"{"columns":{"c":[{"value":"new","version":7}]},"key":{"k":1}}"#)
        );
    }
}
