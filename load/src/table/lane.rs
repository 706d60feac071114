//! One connection at work: chooses an operation, sends it, checks what came.
//!
//! Owns: both loops (closed, and by the clock) and the check of every answer. Promises: each place is written by one
//! connection, one request at a time, so that what a read must show is known; latency runs from handing a request to
//! the socket (by the clock: from its scheduled time) until the whole answer is there, and not over the checks. Must
//! not: repeat what was refused.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use prost::Message;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::decode_row;
use tideline::wire::tablestore::proto;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::{Connection, Trouble};
use super::message::{decoded, get_range, get_row, put_row, update_row};
use super::mix::{Kind, Mix};
use super::page::{Oldest, Page, Walk};
use super::sheet::{Sheet, units};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::run::{Phase, Run};

/// What all connections share.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    pub(super) mix: Mix,
    pub(super) rows: Sheet,
    pub(super) wide: Sheet,
    pub(super) connections: usize,
    pub(super) range_rows: usize,
    pub(super) recorders: Vec<(Kind, Rc<Recorder>)>,
    /// By the clock: what is due and not yet sent. `None`: a closed loop.
    pub(super) due: Option<Due>,
    pub(super) busy: Cell<u64>,
}

/// Scheduled times that wait for a free connection.
#[derive(Default)]
pub(super) struct Due {
    times: RefCell<VecDeque<Instant>>,
    more: Notify,
}

impl Due {
    /// Enters one; gives how many wait.
    pub(super) fn push(&self, scheduled: Instant) -> usize {
        self.times.borrow_mut().push_back(scheduled);
        self.more.notify_one();
        self.times.borrow().len()
    }
}

/// After so many pages a walk begins anew elsewhere.
const PAGES: u32 = 4;

/// A connection.
pub(super) struct Lane {
    pub(super) number: usize,
    pub(super) connection: Connection,
    pub(super) board: Rc<Board>,
    pub(super) random: Random,
    walk: Option<Walk>,
}

impl Lane {
    pub(super) fn new(number: usize, connection: Connection, board: &Rc<Board>) -> Lane {
        Lane {
            number,
            connection,
            random: Random::new(board.run.seed_of(number as u64 + 1)),
            board: Rc::clone(board),
            walk: None,
        }
    }

    /// Works until the run ends.
    pub(super) async fn work(mut self) {
        let board = Rc::clone(&self.board);
        while let Some(scheduled) = board.next().await {
            let kind = board.mix.draw(&mut self.random);
            let done = match kind {
                Kind::Put => self.put(scheduled).await,
                Kind::Get => self.get(scheduled).await,
                Kind::Range => self.range(scheduled).await,
                Kind::Update => self.update(scheduled).await,
                Kind::Cell => self.cell(scheduled).await,
            };
            let (run, name) = (&board.run, kind.name());
            match done {
                Ok(()) => {}
                Err(Trouble::Refused { code, .. }) if code == "OTSServerBusy" => {
                    board.busy.set(board.busy.get() + 1);
                }
                Err(Trouble::Lost(error)) => {
                    let number = self.number;
                    run.checks
                        .fault(format_args!("connection {number}: {error}"));
                    // The figures would be of fewer connections than asked for: end it.
                    run.end_early();
                    return;
                }
                Err(trouble) => run.checks.fault(format_args!("{name}: {trouble}")),
            }
        }
    }

    async fn put(&mut self, scheduled: Option<Instant>) -> Result<(), Trouble> {
        let board = Rc::clone(&self.board);
        let sheet = &board.rows;
        let row = self.own(sheet.size.rows);
        let generation = sheet.ledger.send(row as usize);
        let whole = sheet.row(row, 0..sheet.size.columns, generation);
        let request = put_row(&sheet.name, &whole);
        let answer: proto::PutRowResponse = self.ask(Kind::Put, scheduled, &request).await?;
        sheet.ledger.ack(row as usize, generation);
        let expected = units(sheet.bytes(0..sheet.size.columns));
        board.compare_units(&answer.consumed, 0, expected)
    }

    async fn update(&mut self, scheduled: Option<Instant>) -> Result<(), Trouble> {
        let board = Rc::clone(&self.board);
        let sheet = &board.wide;
        let (row, column) = self.own_cell();
        let place = sheet.place(row, column);
        let generation = sheet.ledger.send(place);
        let request = update_row(&sheet.name, &sheet.row(row, column..column + 1, generation));
        let answer: proto::UpdateRowResponse = self.ask(Kind::Update, scheduled, &request).await?;
        sheet.ledger.ack(place, generation);
        let expected = units(sheet.bytes(column..column + 1));
        board.compare_units(&answer.consumed, 0, expected)
    }

    async fn get(&mut self, scheduled: Option<Instant>) -> Result<(), Trouble> {
        let board = Rc::clone(&self.board);
        let sheet = &board.rows;
        let row = self.random.below(sheet.size.rows);
        let oldest = sheet.ledger.acked(row as usize);
        let request = get_row(&sheet.name, &sheet.key(row), Vec::new());
        let answer: proto::GetRowResponse = self.ask(Kind::Get, scheduled, &request).await?;
        board.run.checks.made("rows compared whole", 1);
        if answer.row.is_empty() && sheet.may_be_gone(row) {
            return board.compare_units(&answer.consumed, 1, 0);
        }
        let columns = 0..sheet.size.columns;
        let came = decoded(decode_row(&answer.row))?;
        let checked = sheet.check(&came, row, columns.clone(), |_| oldest);
        checked.map_err(Trouble::Wrong)?;
        board.compare_units(&answer.consumed, units(sheet.bytes(columns)), 0)
    }

    async fn cell(&mut self, scheduled: Option<Instant>) -> Result<(), Trouble> {
        let board = Rc::clone(&self.board);
        let sheet = &board.wide;
        let row = self.random.below(sheet.size.rows);
        let column = self.random.below(sheet.size.columns as u64) as usize;
        let oldest = sheet.ledger.acked(sheet.place(row, column));
        let name = sheet.column(column).to_owned();
        let request = get_row(&sheet.name, &sheet.key(row), vec![name]);
        let answer: proto::GetRowResponse = self.ask(Kind::Cell, scheduled, &request).await?;
        board.run.checks.made("cells compared", 1);
        let (came, columns) = (decoded(decode_row(&answer.row))?, column..column + 1);
        let checked = sheet.check(&came, row, columns.clone(), |_| oldest);
        checked.map_err(Trouble::Wrong)?;
        board.compare_units(&answer.consumed, units(sheet.bytes(columns)), 0)
    }

    async fn range(&mut self, scheduled: Option<Instant>) -> Result<(), Trouble> {
        let board = Rc::clone(&self.board);
        let sheet = &board.rows;
        let walk = self.walk.take().unwrap_or_else(|| {
            let (at, forward) = (
                self.random.below(sheet.size.rows),
                self.random.below(2) == 0,
            );
            Walk::new(sheet, at, forward, PAGES)
        });
        let oldest = Oldest::now(sheet, &walk, board.range_rows);
        let request = get_range(sheet, &walk.start, walk.forward, board.range_rows);
        let answer: proto::GetRangeResponse = self.ask(Kind::Range, scheduled, &request).await?;
        let page = Page::read(answer)?;
        let count = page.rows.len() as u64;
        let next = page.check(sheet, &walk, &oldest, board.range_rows);
        board.run.checks.made("rows of ranges in order", count);
        let next = next.map_err(Trouble::Wrong)?;
        let bytes = page.rows.len() * sheet.bytes(0..sheet.size.columns);
        board.compare_units(&page.consumed, units(bytes), 0)?;
        self.walk = walk.after(page, next);
        Ok(())
    }

    /// A row that only this connection writes.
    fn own(&mut self, rows: u64) -> u64 {
        own_of(&mut self.random, self.number, self.board.connections, rows)
    }

    /// A cell of a wide row that only this connection writes.
    fn own_cell(&mut self) -> (u64, usize) {
        let size = self.board.wide.size;
        let cell = self.own(size.rows * size.columns as u64);
        let columns = size.columns as u64;
        (cell / columns, (cell % columns) as usize)
    }

    /// Sends, waits, records.
    async fn ask<A: Message + Default>(
        &mut self,
        kind: Kind,
        scheduled: Option<Instant>,
        message: &impl Message,
    ) -> Result<A, Trouble> {
        let operation = match kind {
            Kind::Put => Operation::PutRow,
            Kind::Get | Kind::Cell => Operation::GetRow,
            Kind::Range => Operation::GetRange,
            Kind::Update => Operation::UpdateRow,
        };
        let ready = self.connection.ready(operation, message)?;
        let from = scheduled.unwrap_or_else(Instant::now);
        let answer = self.connection.send(ready).await?;
        let recorders = self.board.recorders.iter();
        if let Some((_, recorder)) = recorders.clone().find(|(other, _)| *other == kind)
            && answer.is_granted()
        {
            recorder.record(from, Instant::now());
        }
        answer.read()
    }
}

/// A number below `count` that only one of `lanes` chooses.
fn own_of(random: &mut Random, lane: usize, lanes: usize, count: u64) -> u64 {
    let (lane, lanes) = (lane as u64, lanes as u64);
    lane + lanes * random.below((count - lane).div_ceil(lanes))
}

impl Board {
    /// Waits for the next operation: its scheduled time, if there is a schedule; `None` at the end.
    async fn next(&self) -> Option<Option<Instant>> {
        loop {
            if self.run.phase() == Phase::Ending {
                return None;
            }
            let Some(due) = &self.due else {
                return Some(None);
            };
            let first = due.times.borrow_mut().pop_front();
            if first.is_some() {
                return Some(first);
            }
            tokio::select! {
                () = due.more.notified() => {}
                () = self.run.ended() => {}
            }
        }
    }

    pub(super) fn compare_units(
        &self,
        came: &proto::ConsumedCapacity,
        read: u32,
        write: u32,
    ) -> Result<(), Trouble> {
        let proto::CapacityUnit {
            read: came_read,
            write: came_write,
        } = came.capacity_unit;
        self.run.checks.made("capacity units compared", 1);
        let expected = [read, write].map(|units| Some(units.cast_signed()));
        if [came_read, came_write] == expected {
            return Ok(());
        }
        Err(Trouble::Wrong(format!(
            "{came_read:?} and {came_write:?} units of reading and writing, not {read} and {write}"
        )))
    }
}
