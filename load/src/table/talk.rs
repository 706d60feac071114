//! One connection at work: chooses an operation, asks, has the answer checked.
//!
//! Owns: what is chosen. Promises: each place is written by one connection, one request at a time as SDKs work, so that
//! what a read must show is known. Must not: repeat what was refused.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use rand::distr::weighted::WeightedIndex;
use tideline::wire::tablestore::signature::Signer;

use super::api::{Api, read};
use super::ask::{Ask, Reply};
use super::sheet::Sheet;
use super::{Kind, Table};
use crate::generator::{self, Talk};
use crate::http::Answer;
use crate::random::Random;
use crate::run::Run;

/// What all connections share.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    pub(super) args: Table,
    pub(super) api: Api,
    pub(super) sheet: Sheet,
    pub(super) shares: WeightedIndex<u32>,
    /// How often the server was.
    pub(super) busy: Cell<u64>,
}

/// After so many pages of a range, another is begun elsewhere.
const PAGES: u32 = 4;

/// A connection.
pub(super) struct Rows {
    number: usize,
    board: Rc<Board>,
    random: Random,
    /// Where a range goes on and whether that is backward, and its pages so far.
    range: Option<(u64, bool)>,
    pages: u32,
    /// What is on the way: its place in the mix, and what its answer is checked with.
    asked: Option<(usize, Ask, Signer)>,
}

impl Rows {
    pub(super) fn new(number: usize, board: &Rc<Board>) -> Rows {
        Rows {
            number,
            board: Rc::clone(board),
            random: Random::new(board.run.seed_of(number as u64 + 1)),
            range: None,
            pages: 0,
            asked: None,
        }
    }

    fn choose(&mut self, kind: Kind) -> Ask {
        let Board { args, sheet, .. } = &*self.board;
        let (random, width) = (&mut self.random, sheet.columns.len());
        match kind {
            Kind::Put | Kind::Update => {
                // One that no other connection writes.
                let (lane, lanes) = (self.number as u64, args.flow.connections as u64);
                let own = (sheet.places() - lane).div_ceil(lanes);
                let (row, columns) = sheet.at(lane + lanes * random.below(own));
                let generation = sheet.send(row, &columns);
                Ask::Write(row, columns, generation)
            }
            Kind::Get | Kind::Cell => {
                let (row, column) = (
                    random.below(sheet.rows),
                    random.below(width as u64) as usize,
                );
                let columns = match kind {
                    Kind::Get => 0..width,
                    _ => column..column + 1,
                };
                Ask::Row(sheet.due(row..row + 1, false, 1, columns))
            }
            Kind::Range => {
                let (row, backward) = self.range.take().unwrap_or_else(|| {
                    self.pages = 0;
                    (random.below(sheet.rows), random.below(2) == 0)
                });
                self.pages += 1;
                let rows = sheet.from(row, backward);
                Ask::Page(sheet.due(rows, backward, args.range_rows, 0..width))
            }
        }
    }

    /// Whether an answer is what was due.
    fn check(
        &mut self,
        kind: Kind,
        (ask, signer): (&Ask, &Signer),
        answer: &Answer<'_>,
    ) -> Result<(), String> {
        let Board {
            run, sheet, busy, ..
        } = &*self.board;
        let Some(reply) = read::<Reply>(answer, signer)? else {
            busy.set(busy.get() + 1);
            return Ok(());
        };
        let (rows, next) = ask.check(sheet, &reply, &run.checks)?;
        let compared = match kind {
            Kind::Put | Kind::Update => return Ok(()),
            Kind::Get => "rows compared whole",
            Kind::Cell => "cells compared",
            Kind::Range => "rows of ranges in order",
        };
        run.checks.made(compared, rows);
        if let Ask::Page(due) = ask {
            let next = next.filter(|_| self.pages < PAGES);
            self.range = next.map(|row| (row, due.backward));
        }
        Ok(())
    }
}

impl Talk for Rows {
    fn put(&mut self, out: &mut Vec<u8>, _slot: usize) {
        let board = Rc::clone(&self.board);
        let at = self.random.draw(&board.shares);
        let ask = self.choose(board.args.mix[at].0);
        let (operation, body) = ask.encode(&board.sheet);
        let signer = board.api.put(out, operation, &body);
        self.asked = Some((at, ask, signer));
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
            let nothing = || io::Error::other("an answer, and nothing was asked");
            let (at, ask, signer) = self.asked.take().ok_or_else(nothing)?;
            // The clock stops before the checks.
            let recorder = (answer.status == 200).then_some(at);
            each(generator::Answer { slot: 0, recorder });
            let (kind, _) = self.board.args.mix[at];
            if let Err(what) = self.check(kind, (&ask, &signer), &answer) {
                let what = format_args!("{}: {what}", kind.name());
                self.board.run.checks.fault(what);
            }
        }
        Ok(taken)
    }
}
