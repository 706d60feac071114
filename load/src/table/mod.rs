//! `table`: rows of a table through Tablestore's HTTP API: puts, gets, pages of ranges, one column of wide rows.
//!
//! Owns: the measurement: keep-alive connections with one request on the way each, as SDKs work, in a closed loop or
//! with --rate an open one. Promises: every row that is read must be the one that was acknowledged last, whole; ranges
//! are in the order of keys, with no row missing or twice, also from page to page; columns that were not updated stay;
//! capacity units are what the data counts. Must not: speak anything but Tablestore's API.

mod ledger;
mod mix;
mod page;
mod prepare;
mod sheet;
mod talk;
mod wire;

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use serde::Serialize;
use tokio::time::Instant;

pub use self::mix::{Kind, Mix};
use self::prepare::{create, delete, fill, read_back, read_back_wide};
use self::sheet::{Sheet, Size, Writes};
use self::talk::{Board, Rows};
pub use self::wire::Account;
use self::wire::{Api, Connection, Trouble};
use crate::exit::Stop;
use crate::generator::Flow;
use crate::outcome::Better;
use crate::profile::{Profile, need_files};
use crate::recorder::Recorder;
use crate::run::Run;
use crate::setup::Setup;

/// Arguments of `table`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("gaps", |arg| arg.default_value("exponential")))]
#[command(mut_arg("in_flight", |arg| arg.hide(true)))]
pub struct Table {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Who asks; keys are no part of a result
    #[command(flatten)]
    #[serde(skip)]
    pub account: Account,
    /// How they are asked; one request on the way of each connection
    #[command(flatten)]
    #[serde(flatten)]
    pub flow: Flow,
    /// Operations and how often each is chosen: put, get (a row), range (a page), update, cell (a column of a wide row)
    #[arg(long, default_value = "put=1,get=1")]
    pub mix: Mix,
    /// Rows, all of them written before the measurement
    #[arg(long, default_value_t = 10_000)]
    pub rows: u64,
    /// Bytes of values in a row
    #[arg(long, default_value_t = 1_000)]
    pub row_bytes: usize,
    /// Columns of a row, over which the bytes are spread
    #[arg(long, default_value_t = 10)]
    pub columns: usize,
    /// The rows are spread over so many partition keys
    #[arg(long, default_value_t = 100)]
    pub partition_keys: u64,
    /// Rows in a page of a range
    #[arg(long, default_value_t = 100)]
    pub range_rows: usize,
    /// Wide rows, for update and cell
    #[arg(long, default_value_t = 16)]
    pub wide_rows: u64,
    /// Columns of a wide row
    #[arg(long, default_value_t = 10)]
    pub wide_columns: usize,
    /// Bytes of the value in each of them
    #[arg(long, default_value_t = 100)]
    pub wide_value_bytes: usize,
    /// Seconds until what was written expires; -1 = never
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    pub time_to_live: i32,
    /// Versions that the tables keep of each column
    #[arg(long, default_value_t = 1)]
    pub max_versions: i32,
    /// Seconds between writing the rows and measuring
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// How many rows to read back at the end, and of the wide ones as many as exist up to that
    #[arg(long, default_value_t = 20_000)]
    pub sample: u64,
}

/// Parts of the seed.
const ROWS: u64 = 1 << 35;
const WIDE: u64 = 1 << 36;

impl Profile for Table {
    const NAME: &'static str = "table";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.flow.connections as u64)?;
        let board = Rc::new(self.board(run)?);
        self.prepare(&board).await?;
        run.pass(self.settle).await;
        let recorder = |kind: Kind| self.flow.recorder(run, &kind.name());
        let recorders: Vec<Rc<Recorder>> = self.mix.kinds().map(recorder).collect();
        let open = async |number: usize| -> io::Result<_> {
            Ok((board.api.connect().await?, Rows::new(number, &board)))
        };
        self.flow.measure(run, &recorders, open).await?;
        tell(run, &board, &recorders);
        let mut connection = Connection::open(&board.api).await?;
        if let Err(trouble) = self.read_back(&board, &mut connection).await {
            run.checks.fault(format_args!("reading back: {trouble}"));
        }
        for (_, sheet) in self.sheets(&board) {
            delete(&mut connection, sheet).await?;
        }
        Ok(())
    }
}

impl Table {
    fn check(&self) -> Result<(), Stop> {
        let counts = [self.columns, self.wide_columns, self.range_rows];
        let each = self.row_bytes / self.columns.max(1);
        let is_wide = self.mix.kinds().any(Kind::is_wide);
        let cells = self.wide_rows * self.wide_columns as u64;
        let what = if counts.contains(&0) || self.rows == 0 || self.partition_keys == 0 {
            "a count of 0"
        } else if each.min(self.wide_value_bytes) < ledger::DIGITS {
            "values have at least 8 bytes: more bytes, or fewer columns"
        } else if self.columns > 1_000 || self.wide_columns > 100_000 || self.row_bytes > 2_000_000
        {
            "at most 1,000 columns and 2,000,000 bytes in a row, 100,000 columns in a wide one"
        } else if self.flow.connections as u64 > self.rows.min(cells) {
            "a connection without a row or column of its own"
        } else if self.time_to_live == 0 || self.time_to_live < -1 || self.max_versions < 1 {
            "a time to live is -1 or above 0, versions are at least one"
        } else if self.time_to_live > 0 && is_wide {
            "update and cell need rows that never expire"
        } else {
            return Ok(());
        };
        Err(Stop::Usage(what.to_owned()))
    }

    /// The tables that the mix uses, and whether each is the wide one.
    fn sheets<'b>(&self, board: &'b Board) -> impl Iterator<Item = (bool, &'b Sheet)> {
        let uses = |wide| self.mix.kinds().any(|kind| kind.is_wide() == wide);
        let (rows, wide) = (uses(false), uses(true));
        let rows = rows.then_some((false, &board.rows));
        rows.into_iter().chain(wide.then_some((true, &board.wide)))
    }

    fn board(&self, run: &Rc<Run>) -> Result<Board, Stop> {
        // A table's name has no hyphens.
        let name = format!("load_{}", run.tag.replace('-', "_"));
        let rows = Size {
            rows: self.rows,
            partition_keys: self.partition_keys,
            columns: self.columns,
            row_bytes: self.row_bytes,
        };
        let wide = Size {
            rows: self.wide_rows,
            partition_keys: self.wide_rows,
            columns: self.wide_columns,
            row_bytes: self.wide_columns * self.wide_value_bytes,
        };
        let expires = (self.time_to_live > 0).then(|| f64::from(self.time_to_live));
        let (seed, wide_seed) = (run.seed_of(ROWS), run.seed_of(WIDE));
        Ok(Board {
            run: Rc::clone(run),
            api: Api::new(&run.url, &self.account)?,
            mix: self.mix.clone(),
            wide: Sheet::new(format!("{name}_wide"), wide, Writes::Cells, None, wide_seed),
            rows: Sheet::new(name, rows, Writes::Rows, expires, seed),
            connections: self.flow.connections,
            range_rows: self.range_rows,
            busy: Cell::new(0),
        })
    }

    async fn prepare(&self, board: &Board) -> Result<(), Stop> {
        let mut connection = Connection::open(&board.api).await?;
        for (is_wide, sheet) in self.sheets(board) {
            create(&mut connection, sheet, self.time_to_live, self.max_versions).await?;
            board.run.tell("writing rows");
            let began = Instant::now();
            fill(&board.api, sheet).await?;
            if !is_wide {
                let rate = self.rows as f64 / began.elapsed().as_secs_f64().max(0.001);
                let run = &board.run;
                run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
            }
        }
        Ok(())
    }

    async fn read_back(
        &self,
        board: &Board,
        connection: &mut Connection<'_>,
    ) -> Result<(), Trouble> {
        let run = &board.run;
        run.tell("reading back");
        for (is_wide, sheet) in self.sheets(board) {
            if is_wide {
                read_back_wide(connection, sheet, self.sample, run).await?;
            } else {
                read_back(connection, sheet, self.sample, run).await?;
            }
        }
        Ok(())
    }
}

/// Enters what was found.
fn tell(run: &Run, board: &Board, recorders: &[Rc<Recorder>]) {
    for recorder in recorders {
        run.rate(
            &format!("{}s_per_second", recorder.name()),
            recorder.count(),
        );
    }
    let operations = recorders.iter().map(|recorder| recorder.count()).sum();
    run.rate("operations_per_second", operations);
    if let Some(used) = run.value("server_cpu_seconds") {
        let each = used * 1e6 / operations.max(1) as f64;
        run.figure("server_cpu_per_operation", each, "µs", Better::Lower);
    }
    run.figure("busy", board.busy.get() as f64, "1", Better::Lower);
}
