//! One connection at work: chooses an operation, asks, checks what came.
//!
//! Owns: what is asked, and the check of every answer. Promises: each place is written by one connection, one request
//! at a time as SDKs work, so that what a read must show is known. Must not: repeat what was refused.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::decode_row;
use tideline::wire::tablestore::proto;
use tideline::wire::tablestore::signature::Signer;

use super::mix::{Kind, Mix};
use super::page::{Oldest, Page, Walk};
use super::sheet::{Sheet, units};
use super::wire::{
    Api, BUSY, Trouble, decoded, get_range, get_row, put_row, read, update_row, wrong,
};
use crate::generator::{self, Talk};
use crate::http::Answer;
use crate::random::Random;
use crate::run::Run;

/// What all connections share.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    pub(super) api: Api,
    pub(super) mix: Mix,
    pub(super) rows: Sheet,
    pub(super) wide: Sheet,
    pub(super) connections: usize,
    pub(super) range_rows: usize,
    pub(super) busy: Cell<u64>,
}

/// After so many pages a walk begins anew elsewhere.
const PAGES: u32 = 4;

/// A connection.
pub(super) struct Rows {
    number: usize,
    board: Rc<Board>,
    random: Random,
    walk: Option<Walk>,
    /// What is on the way.
    asked: Option<Asked>,
}

/// A request, and what its answer must be.
struct Asked {
    /// Its place in the mix.
    kind: usize,
    signer: Signer,
    due: Due,
}

/// What an answer must be.
enum Due {
    /// Columns of a row were written with this generation.
    Write {
        row: u64,
        columns: Range<usize>,
        generation: u32,
    },
    /// These columns of a row, at least of this generation.
    Row {
        row: u64,
        columns: Range<usize>,
        oldest: u32,
    },
    /// The next page of a walk.
    Page { walk: Walk, oldest: Oldest },
}

impl Rows {
    pub(super) fn new(number: usize, board: &Rc<Board>) -> Rows {
        Rows {
            number,
            board: Rc::clone(board),
            random: Random::new(board.run.seed_of(number as u64 + 1)),
            walk: None,
            asked: None,
        }
    }

    /// A row and columns for an operation; those that are written, only this connection writes.
    fn choose(&mut self, kind: Kind, sheet: &Sheet) -> (u64, Range<usize>) {
        let (rows, width) = (sheet.size.rows, sheet.size.columns);
        let places = if kind.is_wide() {
            rows * width as u64
        } else {
            rows
        };
        let place = if matches!(kind, Kind::Put | Kind::Update) {
            own_of(
                &mut self.random,
                self.number,
                self.board.connections,
                places,
            )
        } else {
            self.random.below(places)
        };
        if !kind.is_wide() {
            return (place, 0..width);
        }
        let column = (place % width as u64) as usize;
        (place / width as u64, column..column + 1)
    }

    fn write(&mut self, out: &mut Vec<u8>, kind: Kind) -> (Signer, Due) {
        let board = Rc::clone(&self.board);
        let sheet = board.sheet(kind);
        let (row, columns) = self.choose(kind, sheet);
        let generation = sheet.ledger.send(sheet.place(row, columns.start));
        let written = sheet.row(row, columns.clone(), generation);
        let (api, name) = (&board.api, &sheet.name);
        let signer = if kind == Kind::Put {
            api.put(out, Operation::PutRow, &put_row(name, &written))
        } else {
            api.put(out, Operation::UpdateRow, &update_row(name, &written))
        };
        let due = Due::Write {
            row,
            columns,
            generation,
        };
        (signer, due)
    }

    fn read(&mut self, out: &mut Vec<u8>, kind: Kind) -> (Signer, Due) {
        let board = Rc::clone(&self.board);
        let sheet = board.sheet(kind);
        let (row, columns) = self.choose(kind, sheet);
        let oldest = sheet.ledger.acked(sheet.place(row, columns.start));
        let chosen = columns.clone().filter(|_| kind.is_wide());
        let names = chosen
            .map(|column| sheet.column(column).to_owned())
            .collect();
        let request = get_row(&sheet.name, &sheet.key(row), names);
        let signer = board.api.put(out, Operation::GetRow, &request);
        let due = Due::Row {
            row,
            columns,
            oldest,
        };
        (signer, due)
    }

    fn page(&mut self, out: &mut Vec<u8>) -> (Signer, Due) {
        let Board {
            api,
            rows,
            range_rows,
            ..
        } = &*self.board;
        let walk = self.walk.take().unwrap_or_else(|| {
            let at = self.random.below(rows.size.rows);
            Walk::new(rows, at, self.random.below(2) == 0, PAGES)
        });
        let oldest = Oldest::now(rows, &walk, *range_rows);
        let request = get_range(rows, &walk.start, walk.forward, *range_rows);
        let signer = api.put(out, Operation::GetRange, &request);
        let due = Due::Page { walk, oldest };
        (signer, due)
    }

    /// Whether an answer is what was due.
    fn check(&mut self, kind: Kind, asked: Asked, answer: &Answer<'_>) -> Result<(), Trouble> {
        let (board, Asked { signer, due, .. }) = (Rc::clone(&self.board), asked);
        let (sheet, checks) = (board.sheet(kind), &board.run.checks);
        match due {
            Due::Write {
                row,
                columns,
                generation,
            } => {
                let consumed = if kind == Kind::Put {
                    read::<proto::PutRowResponse>(answer, &signer)?.consumed
                } else {
                    read::<proto::UpdateRowResponse>(answer, &signer)?.consumed
                };
                sheet
                    .ledger
                    .ack(sheet.place(row, columns.start), generation);
                board.compare_units(&consumed, 0, units(sheet.bytes(columns)))
            }
            Due::Row {
                row,
                columns,
                oldest,
            } => {
                let answer: proto::GetRowResponse = read(answer, &signer)?;
                let made = if kind.is_wide() {
                    "cells compared"
                } else {
                    "rows compared whole"
                };
                checks.made(made, 1);
                if answer.row.is_empty() && sheet.may_be_gone(row) {
                    return board.compare_units(&answer.consumed, 1, 0);
                }
                let came = decoded(decode_row(&answer.row))?;
                let checked = sheet.check(&came, row, columns.clone(), |_| oldest);
                checked.map_err(Trouble::Wrong)?;
                board.compare_units(&answer.consumed, units(sheet.bytes(columns)), 0)
            }
            Due::Page { walk, oldest } => {
                let page = Page::read(read(answer, &signer)?)?;
                let next = page.check(sheet, &walk, &oldest, board.range_rows);
                checks.made("rows of ranges in order", page.rows.len() as u64);
                let next = next.map_err(Trouble::Wrong)?;
                let bytes = page.rows.len() * sheet.bytes(0..sheet.size.columns);
                board.compare_units(&page.consumed, units(bytes), 0)?;
                self.walk = walk.after(page, next);
                Ok(())
            }
        }
    }
}

impl Talk for Rows {
    const WINDOW_MAX: usize = 1;

    fn put(&mut self, out: &mut Vec<u8>, _slot: usize) {
        let kind = self.board.mix.draw(&mut self.random);
        let (signer, due) = match self.board.kind(kind) {
            kind @ (Kind::Put | Kind::Update) => self.write(out, kind),
            kind @ (Kind::Get | Kind::Cell) => self.read(out, kind),
            Kind::Range => self.page(out),
        };
        self.asked = Some(Asked { kind, signer, due });
    }

    fn take(
        &mut self,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        each: &mut dyn FnMut(generator::Answer),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((answer, length)) = Answer::find(&bytes[taken..])? {
            taken += length;
            let asked = self.asked.take();
            let asked =
                asked.ok_or_else(|| io::Error::other("an answer, and nothing was asked"))?;
            // The clock stops before the checks.
            let recorder = (answer.status == 200).then_some(asked.kind);
            each(generator::Answer { slot: 0, recorder });
            let (board, kind) = (Rc::clone(&self.board), self.board.kind(asked.kind));
            match self.check(kind, asked, &answer) {
                Ok(()) => {}
                Err(Trouble::Refused { code, .. }) if code == BUSY => {
                    board.busy.set(board.busy.get() + 1);
                }
                Err(trouble) => {
                    let what = format_args!("{}: {trouble}", kind.name());
                    board.run.checks.fault(what);
                }
            }
        }
        Ok(taken)
    }
}

/// A number below `count` that only one of `lanes` chooses.
fn own_of(random: &mut Random, lane: usize, lanes: usize, count: u64) -> u64 {
    let (lane, lanes) = (lane as u64, lanes as u64);
    lane + lanes * random.below((count - lane).div_ceil(lanes))
}

impl Board {
    fn kind(&self, place: usize) -> Kind {
        self.mix.kinds().nth(place).unwrap_or(Kind::Get)
    }

    /// The table that an operation is about.
    fn sheet(&self, kind: Kind) -> &Sheet {
        if kind.is_wide() {
            &self.wide
        } else {
            &self.rows
        }
    }

    fn compare_units(
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
        Err(wrong(format_args!(
            "{came_read:?} and {came_write:?} units of reading and writing, not {read} and {write}"
        )))
    }
}
