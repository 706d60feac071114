//! `table`: rows of a table through Tablestore's HTTP API: puts, gets, pages of ranges, one column of wide rows.
//!
//! Owns: the measurement: a closed loop of keep-alive connections with one request on the way each, as SDKs work, or
//! with --rate an open loop. Promises: every row that is read must be the one that its writer was last told of, whole;
//! ranges are in the order of keys, with no row missing or twice, also from page to page; columns that were not updated
//! stay; capacity units are what the data counts. Must not: speak anything but Tablestore's API.

mod connection;
mod lane;
mod ledger;
mod message;
mod mix;
mod page;
mod prepare;
mod sheet;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};

use self::connection::{Account, Connection, Trouble};
use self::lane::{Board, Due, Lane};
pub use self::mix::{Kind, Mix};
use self::prepare::{Options, create, delete, fill, fill_wide, read_back, read_back_wide, stop};
use self::sheet::{Sheet, Size, Writes};
use crate::exit::Stop;
use crate::outcome::Better;
use crate::pace::Gaps;
use crate::profile::{Profile, need_files};
use crate::recorder::Counts;
use crate::run::{Phase, Run};
use crate::setup::Setup;

/// Arguments of `table`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Table {
    /// What every profile has.
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
    /// Who asks; keys are no part of a result
    #[command(flatten)]
    #[serde(skip)]
    pub account: Account,
    /// Connections, each with one request on the way
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Send so many operations a second over all connections, whatever the server does (open loop: latency counts from
    /// the scheduled time)
    #[arg(long)]
    pub rate: Option<f64>,
    /// How operations follow one another with --rate
    #[arg(long, value_enum, default_value_t = Gaps::Exponential)]
    pub gaps: Gaps,
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

/// So many operations that wait for a free connection mean that the server does not keep up.
const WAITING_MAX: usize = 50_000;
/// How long what is on the way at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Parts of the seed.
const GAPS: u64 = 1 << 33;
const ROWS: u64 = 1 << 35;
const WIDE: u64 = 1 << 36;

impl Profile for Table {
    const NAME: &'static str = "table";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.check()?;
        need_files(run, self.connections as u64)?;
        let board = Rc::new(self.board(run));
        self.prepare(run, &board).await?;
        run.pass(self.settle).await;
        let lanes = self.start(&board).await?;
        tokio::join!(self.schedule(&board), run.measure());
        end(run, lanes).await?;
        self.tell(run, &board);
        let mut connection = self.open(run).await?;
        let read = self.read_back(run, &board, &mut connection).await;
        if let Err(trouble) = read {
            run.checks.fault(format_args!("reading back: {trouble}"));
        }
        for sheet in self.sheets(&board) {
            delete(&mut connection, sheet).await.map_err(stop)?;
        }
        Ok(())
    }
}

impl Table {
    fn check(&self) -> Result<(), Stop> {
        let usage = |text: &str| Err(Stop::Usage(text.to_owned()));
        let counts = [
            self.connections,
            self.columns,
            self.wide_columns,
            self.range_rows,
        ];
        if counts.contains(&0) || self.rows == 0 || self.partition_keys == 0 {
            return usage("a count of 0");
        }
        let each = (self.row_bytes / self.columns).min(self.wide_value_bytes);
        if each < ledger::DIGITS {
            return usage("values have at least 8 bytes: more bytes, or fewer columns");
        }
        if self.columns > 1_000 || self.wide_columns > 100_000 || self.row_bytes > 2_000_000 {
            return usage(
                "at most 1,000 columns and 2,000,000 bytes in a row, 100,000 columns in a wide one",
            );
        }
        let connections = self.connections as u64;
        if connections > self.rows || connections > self.wide_rows * self.wide_columns as u64 {
            return usage("a connection without a row or column of its own");
        }
        if self.time_to_live == 0 || self.time_to_live < -1 || self.max_versions < 1 {
            return usage("a time to live is -1 or above 0, versions are at least one");
        }
        if self.time_to_live > 0 && self.uses_wide() {
            return usage("update and cell need rows that never expire");
        }
        match self.rate {
            Some(rate) if !rate.is_finite() || rate <= 0.0 => usage("a rate that is not above 0"),
            _ => Ok(()),
        }
    }

    fn uses_wide(&self) -> bool {
        self.mix.kinds().any(Kind::is_wide)
    }

    fn uses_rows(&self) -> bool {
        self.mix.kinds().any(|kind| !kind.is_wide())
    }

    /// The tables that the mix uses.
    fn sheets<'b>(&self, board: &'b Board) -> impl Iterator<Item = &'b Sheet> {
        let rows = self.uses_rows().then_some(&board.rows);
        rows.into_iter()
            .chain(self.uses_wide().then_some(&board.wide))
    }

    fn board(&self, run: &Rc<Run>) -> Board {
        // A table's name has no hyphens.
        let tag = run.tag.replace('-', "_");
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
        let counts = self.rate.map_or(Counts::Ended, |_| Counts::Scheduled);
        let recorder = |kind: Kind| (kind, run.recorder(kind.name(), counts));
        let expires = (self.time_to_live > 0).then(|| f64::from(self.time_to_live));
        let (name, seed) = (format!("load_{tag}"), run.seed_of(ROWS));
        let (wide_name, wide_seed) = (format!("load_{tag}_wide"), run.seed_of(WIDE));
        Board {
            run: Rc::clone(run),
            mix: self.mix.clone(),
            rows: Sheet::new(name, rows, Writes::Rows, expires, seed),
            wide: Sheet::new(wide_name, wide, Writes::Cells, None, wide_seed),
            connections: self.connections,
            range_rows: self.range_rows,
            recorders: self.mix.kinds().map(recorder).collect(),
            due: self.rate.map(|_| Due::default()),
            busy: Cell::new(0),
        }
    }

    async fn open(&self, run: &Run) -> Result<Connection, Stop> {
        Connection::open(&run.url, &self.account)
            .await
            .map_err(stop)
    }

    async fn prepare(&self, run: &Run, board: &Board) -> Result<(), Stop> {
        let mut connection = self.open(run).await?;
        let options = Options {
            time_to_live: self.time_to_live,
            max_versions: self.max_versions,
        };
        for sheet in self.sheets(board) {
            create(&mut connection, sheet, &options)
                .await
                .map_err(stop)?;
        }
        let began = Instant::now();
        run.tell("writing rows");
        if self.uses_rows() {
            let filled = fill(&run.url, &self.account, &board.rows).await;
            filled.map_err(stop)?;
            let rate = self.rows as f64 / began.elapsed().as_secs_f64().max(0.001);
            run.figure("preloaded_per_second", rate, "1/s", Better::Higher);
        }
        if self.uses_wide() {
            run.tell("writing wide rows");
            let filled = fill_wide(&mut connection, &board.wide).await;
            filled.map_err(stop)?;
        }
        Ok(())
    }

    async fn start(&self, board: &Rc<Board>) -> Result<Vec<JoinHandle<()>>, Stop> {
        let mut lanes = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            let connection = self.open(&board.run).await?;
            lanes.push(Lane::new(number, connection, board));
        }
        let lanes = lanes.into_iter();
        Ok(lanes.map(|lane| spawn_local(lane.work())).collect())
    }

    /// With --rate: says what is due, until the run ends.
    async fn schedule(&self, board: &Board) {
        let (Some(rate), Some(due)) = (self.rate, &board.due) else {
            return;
        };
        let run = &board.run;
        let mut pace = run.pace(rate, self.gaps, GAPS);
        while run.phase() != Phase::Ending {
            tokio::select! {
                () = pace.wait() => {}
                () = run.ended() => break,
            }
            let now = Instant::now();
            let mut waiting = 0;
            while let Some(scheduled) = pace.due(now) {
                waiting = due.push(scheduled);
            }
            if waiting > WAITING_MAX {
                run.invalid(format!(
                    "the server does not keep up with the rate: {WAITING_MAX} operations wait for a connection"
                ));
                run.end_early();
            }
        }
        run.paced(&pace);
    }

    async fn read_back(
        &self,
        run: &Run,
        board: &Board,
        connection: &mut Connection,
    ) -> Result<(), Trouble> {
        run.tell("reading back");
        if self.uses_rows() {
            read_back(connection, &board.rows, self.sample, run).await?;
        }
        if self.uses_wide() {
            read_back_wide(connection, &board.wide, self.sample, run).await?;
        }
        Ok(())
    }

    /// Enters what was found.
    fn tell(&self, run: &Run, board: &Board) {
        let mut operations = 0;
        for (kind, recorder) in &board.recorders {
            operations += recorder.count();
            run.rate(&format!("{}s_per_second", kind.name()), recorder.count());
        }
        run.rate("operations_per_second", operations);
        if let Some(used) = run.value("server_cpu_seconds") {
            let each = used * 1e6 / operations.max(1) as f64;
            run.figure("server_cpu_per_operation", each, "µs", Better::Lower);
        }
        let busy = board.busy.get() as f64;
        run.figure("busy", busy, "1", Better::Lower);
    }
}

/// Waits until all is answered.
async fn end(run: &Run, lanes: Vec<JoinHandle<()>>) -> Result<(), Stop> {
    let until = Instant::now() + PATIENCE;
    for lane in lanes {
        match timeout(until - Instant::now(), lane).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Stop::Own(format!("a connection failed: {error}"))),
            Err(_) => run
                .checks
                .fault(format_args!("no answer within {PATIENCE:?}")),
        }
    }
    Ok(())
}
