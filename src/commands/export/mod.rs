//! `tideline export TABLE`: all rows of a table of a running server, as lines of JSON or as a Parquet file.
//!
//! Owns: the client of ExportTable, and the forms of rows outside. Promises: the rows of each partition are exactly
//! those of one position of it, in the order of keys, whatever was written meanwhile; none is written before all of a
//! partition are there. Must not: open a data directory; the server serves on.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use crate::clock::Clock;
use crate::wire::tablestore::Operation;
use crate::wire::tablestore::plainbuffer::Row;
use crate::wire::tablestore::proto::{
    DescribeTableRequest, DescribeTableResponse, Error, ExportTableRequest, ExportTableResponse,
    TableMeta,
};

mod client;
mod lines;
mod parquet_file;
mod spool;

pub use client::Account;
use client::Client;
use lines::line;
use parquet_file::Parquet;
use spool::Spool;

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

/// What to export, and how.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)] // the subcommand has the name
pub struct Export {
    /// The table. All messages of timelines are `timeline_message`, their metas `timeline_meta`
    pub table: String,
    /// Only rows whose first key column, a text, begins with this: of timelines their names
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How rows are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The form of rows.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// JSON, one line each
    #[default]
    Ndjson,
    /// A Parquet file
    Parquet,
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
    what: &Export,
    out: impl Write + Send,
) -> Result<Exported, ExportError> {
    let mut asking = Asking {
        client: Client::new(account)?,
        what: what.clone(),
        id: None,
        partitions: Vec::new(),
        partition: None,
    };
    let mut file = match what.format {
        Format::Ndjson => Output::Lines(out),
        Format::Parquet => Output::Parquet(Box::new(Parquet::new(out, &asking.describe()?)?)),
    };
    let mut exported = Exported::default();
    loop {
        let spool = Spool::read(&mut asking)?;
        exported.positions.push(spool.position);
        spool.merge(&mut |row| {
            exported.rows += 1;
            file.push(row)
        })?;
        asking.partition = asking.partitions.get(exported.positions.len()).copied();
        if asking.partition.is_none() {
            file.finish(&exported.positions)?;
            return Ok(exported);
        }
    }
}

/// Where rows go.
enum Output<W: Write + Send> {
    Lines(W),
    Parquet(Box<Parquet<W>>),
}

impl<W: Write + Send> Output<W> {
    fn push(&mut self, row: &Row) -> Result<(), ExportError> {
        match self {
            Output::Lines(out) => {
                serde_json::to_writer(&mut *out, &line(row)).map_err(wrong)?;
                Ok(out.write_all(b"\n")?)
            }
            Output::Parquet(file) => file.push(row),
        }
    }

    fn finish(self, positions: &[u64]) -> Result<(), ExportError> {
        match self {
            Output::Lines(mut out) => Ok(out.flush()?),
            Output::Parquet(file) => file.finish(positions),
        }
    }
}

/// Asks for the pages of one partition after the other.
struct Asking {
    client: Client,
    what: Export,
    id: Option<u32>,
    /// As the first answer named them.
    partitions: Vec<u32>,
    /// `None` = the first one.
    partition: Option<u32>,
}

impl Asking {
    /// Asks for rows from a key on, or for what was changed above a position.
    fn ask(
        &mut self,
        start: Option<Bytes>,
        position: Option<u64>,
    ) -> Result<ExportTableResponse, ExportError> {
        let request = ExportTableRequest {
            table_name: Some(self.what.table.clone()),
            partition: self.partition,
            start_primary_key: start,
            position,
            prefix: self.what.prefix.clone(),
        };
        let page: ExportTableResponse = self.call(Operation::ExportTable, &request)?;
        if *self.id.get_or_insert(page.table_id) != page.table_id {
            return Err(wrong("the table was deleted and made again meanwhile"));
        }
        if self.partitions.is_empty() {
            self.partitions.clone_from(&page.partitions);
        } else if self.partitions != page.partitions {
            return Err(wrong("partitions were split or merged meanwhile"));
        }
        Ok(page)
    }

    /// The columns of the table.
    fn describe(&self) -> Result<TableMeta, ExportError> {
        let request = DescribeTableRequest {
            table_name: Some(self.what.table.clone()),
        };
        let table: DescribeTableResponse = self.call(Operation::DescribeTable, &request)?;
        Ok(table.table_meta)
    }

    /// Asks until the server has time for it.
    fn call<A: Message + Default>(
        &self,
        operation: Operation,
        request: &impl Message,
    ) -> Result<A, ExportError> {
        let request = Bytes::from(request.encode_to_vec());
        loop {
            let (status, body) = self.client.call(operation, request.clone())?;
            if status == 200 {
                return A::decode(body).map_err(wrong);
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
