//! `table`: rows of a table through Tablestore's HTTP API: puts, gets, pages of ranges, one column of wide rows.
//!
//! Owns: the measurement: keep-alive connections with one request on the way each, as SDKs work, in a closed loop or
//! with --rate an open one. Promises: every row that is read must be the one that was acknowledged last, whole; ranges
//! are in the order of keys, with no row missing or twice, also from page to page; columns that were not updated stay;
//! capacity units are what the data counts. Must not: speak anything but Tablestore's API.

mod api;
mod fill;
mod sheet;
mod talk;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, ValueEnum, value_parser};
use prost::Message;
use rand::distr::weighted::WeightedIndex;
use serde::Serialize;
use tideline_wire::tablestore::Operation;
use tideline_wire::tablestore::proto::{
    CapacityUnit, CreateTableRequest, DefinedColumnSchema, DefinedColumnType, DeleteTableRequest,
    DeleteTableResponse, IndexMeta, IndexType, IndexUpdateMode, PrimaryKeySchema, PrimaryKeyType,
    ReservedThroughput, TableMeta, TableOptions,
};

pub use self::api::Account;
use self::api::{Api, text};
use self::sheet::{DIGITS, KEY, Sheet};
use self::talk::{Ask, Board, Rows};
use crate::client::generator::Flow;
use crate::exit::Stop;
use crate::outcome::recorder::Recorder;
use crate::profile::{Profile, need_files};
use crate::random::Random;
use crate::run::{Better, Run};

/// Arguments of `table`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("gaps", |arg| arg.default_value("exponential")))]
#[command(mut_arg("in_flight", |arg| arg.hide(true)))]
pub struct Table {
    /// Who asks; keys are no part of a result
    #[command(flatten)]
    #[serde(skip)]
    pub account: Account,
    /// How they are asked; one request on the way of each connection
    #[command(flatten)]
    #[serde(flatten)]
    pub flow: Flow,
    /// Operations and how often each is chosen: put, get (a row), range (a page), update, cell (a column of a row),
    /// transaction (a row put in one); a run has one kind of writes
    #[arg(long, default_value = "put=1,get=1", value_parser = share, value_delimiter = ',', action = ArgAction::Set)]
    pub mix: Vec<(Kind, u32)>,
    /// Rows, all of them written before the measurement
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Bytes of values in a row
    #[arg(long, default_value_t = 1_000)]
    pub row_bytes: usize,
    /// Columns of a row, over which the bytes are spread; above 1,000 only if no rows are put
    #[arg(long, default_value_t = 10, value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub columns: usize,
    /// Seconds until what was written expires [default: never]
    #[arg(long, value_parser = value_parser!(i32).range(1..))]
    pub time_to_live: Option<i32>,
    /// Secondary indexes of the table, each ordered by a column of its own, which follow every write
    #[arg(long, default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::new().range(0..=5))]
    pub indexes: usize,
    /// Seconds between writing the rows and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
}

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
pub enum Kind {
    /// PutRow: a whole row.
    Put,
    /// GetRow: a whole row.
    Get,
    /// GetRange: a page of rows.
    Range,
    /// UpdateRow: one column of a row.
    Update,
    /// GetRow: one column of a row.
    Cell,
    /// StartLocalTransaction, PutRow, CommitTransaction: a whole row in a transaction of its own.
    Transaction,
}

impl Kind {
    /// As in `--mix`, and in the result.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Reads `put=3`, or `put` for `put=1`.
fn share(text: &str) -> Result<(Kind, u32), String> {
    let (name, share) = text.split_once('=').unwrap_or((text, "1"));
    let kind = Kind::from_str(name, false);
    let kind = kind.map_err(|_| format!("no operation is called {name}"))?;
    let share = share.parse().map_err(|error| format!("{text}: {error}"))?;
    Ok((kind, share))
}

/// Parts of the seed.
const VALUES: u64 = 1 << 35;
const READ_BACK: u64 = 1 << 34;
/// Columns, and bytes of values, that are written at once; the protocol allows 1,024 and 4 MiB.
const COLUMNS_MAX: usize = 1_000;
const WRITE_BYTES_MAX: usize = 2_000_000;
/// What a value that orders an index may have.
const KEY_VALUE_BYTES_MAX: usize = 1_024;
/// Rows of a page, in the measurement and when so many are read back.
const PAGE_ROWS: usize = 100;
const SAMPLE: u64 = 20_000;

impl Profile for Table {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let shares = self.check()?;
        need_files(run, self.flow.connections as u64)?;
        // A table's name has no hyphens.
        let name = format!("load_{}", run.tag.replace('-', "_"));
        let board = Rc::new(Board {
            run: Rc::clone(run),
            args: self.clone(),
            api: Api::new(&run.url, &self.account)?,
            sheet: Sheet::new(name, self, run.seed_of(VALUES)),
            shares,
            busy: Cell::new(0),
        });
        board.create().await.map_err(Stop::Unreachable)?;
        // From here on the server answers, and what it answers wrong is a fault.
        let fault = |part, what| run.checks.fault(format_args!("{part}: {what}"));
        match board.fill().await {
            Ok(()) => self.ask(run, &board).await?,
            Err(what) => fault("writing rows", what),
        }
        if let Err(what) = board.delete().await {
            fault("deleting the table", what);
        }
        Ok(())
    }
}

impl Table {
    /// Measures, and reads back.
    async fn ask(&self, run: &Rc<Run>, board: &Rc<Board>) -> Result<(), Stop> {
        run.pass(self.settle).await;
        let recorder = |(kind, _): &(Kind, u32)| self.flow.recorder(run, &kind.name());
        let recorders: Vec<Rc<Recorder>> = self.mix.iter().map(recorder).collect();
        let open = async |number: usize| {
            let pipe = board.api.connect().await?;
            Ok((pipe, Rows::new(number, board)))
        };
        self.flow.measure(run, &recorders, open).await?;
        for recorder in &recorders {
            let name = format!("{}s_per_second", recorder.name());
            run.rate(&name, recorder.count());
        }
        let operations = recorders.iter().map(|recorder| recorder.count()).sum();
        run.rate("operations_per_second", operations);
        if let Some(used) = run.value("server_cpu_seconds") {
            let each = used * 1e6 / operations.max(1) as f64;
            run.figure("server_cpu_per_operation", each, "µs", Better::Lower);
        }
        run.figure("busy", board.busy.get() as f64, "1", Better::Lower);
        if let Err(what) = board.read_back().await {
            run.checks.fault(format_args!("reading back: {what}"));
        }
        Ok(())
    }

    fn value_bytes(&self) -> usize {
        self.row_bytes / self.columns
    }

    fn has(&self, kind: Kind) -> bool {
        self.mix.iter().any(|(other, _)| *other == kind)
    }

    /// Columns that one write changes: all of a row if rows are put, else one.
    fn group(&self) -> usize {
        match self.has(Kind::Put) || self.has(Kind::Transaction) {
            true => self.columns,
            false => 1,
        }
    }

    /// How much there is that one connection has for itself: rows or cells to write, partition keys for transactions.
    fn owned(&self) -> u64 {
        match self.has(Kind::Transaction) {
            true => Sheet::partition_keys(self.rows),
            false => self.rows * (self.columns / self.group()) as u64,
        }
    }

    /// Refuses what cannot be measured; returns how often each operation of the mix is chosen.
    fn check(&self) -> Result<WeightedIndex<u32>, Stop> {
        use Kind::{Cell, Put, Transaction, Update};
        let kinds: BTreeSet<Kind> = self.mix.iter().map(|(kind, _)| *kind).collect();
        let writes = [Put, Update, Transaction].map(|kind| self.has(kind));
        let mixed = writes.iter().filter(|has| **has).count() > 1;
        let cells = self.has(Update) || self.has(Cell);
        let expires = self.time_to_live.is_some();
        let (bytes, most) = (self.value_bytes(), self.columns.min(COLUMNS_MAX));
        let what = match self.flow.in_flight {
            2.. => "a connection has one request on the way, as SDKs work",
            _ if kinds.len() < self.mix.len() => "an operation is in the mix twice",
            _ if mixed => "a run has one kind of writes: put, update or transaction",
            _ if bytes < DIGITS => "values have at least 8 bytes: more bytes, or fewer columns",
            _ if self.group() > COLUMNS_MAX => "at most 1,000 columns if rows are put",
            _ if most * bytes > WRITE_BYTES_MAX => "at most 2,000,000 bytes in 1,000 columns",
            _ if self.flow.connections as u64 > self.owned() => {
                "a connection without a row, column or partition key of its own"
            }
            _ if cells && expires => "update and cell need rows that never expire",
            _ if self.indexes > self.columns => "an index without a column of its own",
            _ if self.indexes > 0 && bytes > KEY_VALUE_BYTES_MAX => {
                "values that order an index have at most 1,024 bytes"
            }
            _ => {
                let shares = WeightedIndex::new(self.mix.iter().map(|(_, share)| share));
                return shares.map_err(|error| Stop::Usage(format!("the mix: {error}")));
            }
        };
        Err(Stop::Usage(what.to_owned()))
    }
}

/// Before and after the measurement.
impl Board {
    async fn create(&self) -> Result<(), String> {
        let column = |(name, kind): (&str, PrimaryKeyType)| PrimaryKeySchema {
            name: Some(name.to_owned()),
            r#type: Some(kind.into()),
            option: None,
        };
        let indexed = &self.sheet.columns[..self.args.indexes];
        let defined = |name: &String| DefinedColumnSchema {
            name: Some(name.clone()),
            r#type: Some(DefinedColumnType::DctString.into()),
        };
        let index = |column: &String| IndexMeta {
            name: Some(format!("{}_{column}", self.sheet.name)),
            primary_key: vec![column.clone()],
            index_update_mode: Some(IndexUpdateMode::IumAsyncIndex.into()),
            index_type: Some(IndexType::ItGlobalIndex.into()),
            ..IndexMeta::default()
        };
        let kinds = [PrimaryKeyType::String, PrimaryKeyType::Integer];
        let none = CapacityUnit {
            read: Some(0),
            write: Some(0),
        };
        let request = CreateTableRequest {
            table_meta: Some(TableMeta {
                table_name: Some(self.sheet.name.clone()),
                primary_key: KEY.into_iter().zip(kinds).map(column).collect(),
                defined_column: indexed.iter().map(defined).collect(),
            }),
            reserved_throughput: Some(ReservedThroughput {
                capacity_unit: Some(none),
            }),
            table_options: Some(TableOptions {
                time_to_live: self.args.time_to_live.or(Some(-1)),
                max_versions: Some(1),
                // A table with indexes and a time to live has rows that are only put.
                allow_update: (!indexed.is_empty() && self.args.time_to_live.is_some())
                    .then_some(false),
                ..TableOptions::default()
            }),
            index_metas: indexed.iter().map(index).collect(),
            ..CreateTableRequest::default()
        };
        self.change(Operation::CreateTable, &request).await
    }

    /// Reads rows that are side by side: they are what was acknowledged last, as nothing is on the way any more.
    async fn read_back(&self) -> Result<(), String> {
        let Board { run, sheet, .. } = self;
        run.tell("reading back");
        let mut pipe = self.api.connect().await.map_err(text)?;
        let mut left = SAMPLE.min(sheet.rows);
        let first = Random::new(run.seed_of(READ_BACK)).below(sheet.rows - left + 1);
        let mut at = Some(first);
        while let Some(row) = at.filter(|_| left > 0) {
            let (limit, width) = (PAGE_ROWS.min(left as usize), sheet.columns.len());
            let due = sheet.due(sheet.from(row, false), false, limit, 0..width);
            let ask = Ask::Page(due);
            let (operation, body) = ask.encode(sheet);
            let reply = self.api.call(&mut pipe, operation, &body).await?;
            let told = ask.check(sheet, &reply, &run.checks)?;
            run.checks.made("rows read back", told.rows);
            run.checks.made("cells read back", told.rows * width as u64);
            (left, at) = (left - told.rows, told.next);
        }
        Ok(())
    }

    /// A server has only so many tables.
    async fn delete(&self) -> Result<(), String> {
        let table_name = Some(self.sheet.name.clone());
        let request = DeleteTableRequest { table_name };
        self.change(Operation::DeleteTable, &request).await
    }

    /// Makes or deletes the table; both answers are empty.
    async fn change(&self, operation: Operation, request: &impl Message) -> Result<(), String> {
        let mut pipe = self.api.connect().await.map_err(text)?;
        let body = request.encode_to_vec();
        let reply = self.api.call(&mut pipe, operation, &body).await?;
        DeleteTableResponse::decode(&*reply).map_err(text)?;
        Ok(())
    }
}
