//! One connection at work: chooses an operation, asks, and checks the answer.
//!
//! Owns: what is chosen, and what is in each field of a request. Promises: each unit is written by one connection, one
//! request at a time as SDKs work, so that what a read must show is known; writes have no condition, so each is one
//! operation of the store; every answer is checked, its capacity units too. Must not: repeat what was refused.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use prost::Message;
use rand::distr::weighted::WeightedIndex;
use tideline_wire::tablestore::Operation;
use tideline_wire::tablestore::plainbuffer::{decode_row, decode_rows, encode_row};
use tideline_wire::tablestore::proto::{
    CapacityUnit, CommitTransactionRequest, CommitTransactionResponse, Condition, ConsumedCapacity,
    Direction, GetRangeRequest, GetRangeResponse, GetRowRequest, PutRowRequest,
    RowExistenceExpectation, StartLocalTransactionRequest, StartLocalTransactionResponse,
};
use tideline_wire::tablestore::signature::Signer;

use super::api::{Api, read, text};
use super::sheet::{Due, Sheet, Write};
use super::{Kind, PAGE_ROWS, Table};
use crate::client::generator;
use crate::client::generator::Talk;
use crate::client::http::Answer;
use crate::outcome::checks::Checks;
use crate::random::Random;
use crate::run::Run;

/// What all connections share.
pub(super) struct Board {
    pub(super) run: Rc<Run>,
    pub(super) args: Table,
    pub(super) api: Api,
    pub(super) sheet: Sheet,
    pub(super) shares: WeightedIndex<u32>,
    /// How often the server was too busy.
    pub(super) busy: Cell<u64>,
}

pub(super) struct Rows {
    number: usize,
    board: Rc<Board>,
    random: Random,
    /// Where a range goes on, and whether that is backward; at its end another is begun elsewhere.
    range: Option<(u64, bool)>,
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
            asked: None,
        }
    }

    fn choose(&mut self, kind: Kind) -> Ask {
        let Board { args, sheet, .. } = &*self.board;
        let (random, width) = (&mut self.random, sheet.columns.len());
        let (lane, lanes) = (self.number as u64, args.flow.connections as u64);
        // What no other connection writes.
        let own = lane + lanes * random.below((args.owned() - lane).div_ceil(lanes));
        match kind {
            Kind::Put | Kind::Update => {
                let (row, columns) = sheet.at(own);
                Ask::Write(sheet.send(row, columns), None)
            }
            Kind::Transaction => {
                let rows = sheet.rows_of(own);
                let row = rows.start + random.below(rows.end - rows.start);
                Ask::Start(sheet.send(row, 0..width))
            }
            Kind::Get | Kind::Cell => {
                let row = random.below(sheet.rows);
                let column = random.below(width as u64) as usize;
                let whole = kind == Kind::Get;
                let columns = if whole { 0..width } else { column..column + 1 };
                Ask::Row(sheet.due(row..row + 1, false, 1, columns))
            }
            Kind::Range => {
                let anywhere = || (random.below(sheet.rows), random.below(2) == 0);
                let (row, backward) = self.range.take().unwrap_or_else(anywhere);
                let rows = sheet.from(row, backward);
                Ask::Page(sheet.due(rows, backward, PAGE_ROWS, 0..width))
            }
        }
    }

    fn send(&mut self, out: &mut Vec<u8>, at: usize, ask: Ask) {
        let (operation, body) = ask.encode(&self.board.sheet);
        let signer = self.board.api.put(out, operation, &body);
        self.asked = Some((at, ask, signer));
    }

    /// Whether an answer is what was due; returns what is asked next in a transaction.
    fn check(
        &mut self,
        kind: Kind,
        (ask, signer): (Ask, Signer),
        answer: &Answer<'_>,
    ) -> Result<Option<Ask>, String> {
        let Board { run, sheet, .. } = &*self.board;
        let Some(reply) = read(answer, &signer)? else {
            self.board.busy.update(|busy| busy + 1);
            return Ok(None);
        };
        let backward = matches!(&ask, Ask::Page(due) if due.backward);
        let told = ask.check(sheet, reply, &run.checks)?;
        let compared = match kind {
            Kind::Put | Kind::Update | Kind::Transaction => return Ok(told.ask),
            Kind::Get => "rows compared whole",
            Kind::Cell => "cells compared",
            Kind::Range => {
                self.range = told.next.map(|row| (row, backward));
                "rows of ranges in order"
            }
        };
        run.checks.made(compared, told.rows);
        Ok(None)
    }
}

impl Talk for Rows {
    const WINDOW_MAX: usize = 1;

    fn put(&mut self, out: &mut Vec<u8>, _slot: usize) {
        let at = self.random.draw(&self.board.shares);
        let ask = self.choose(self.board.args.mix[at].0);
        self.send(out, at, ask);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(generator::Answer),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((answer, length)) = Answer::find(&bytes[taken..])? {
            taken += length;
            let nothing = || io::Error::other("an answer, and nothing was asked");
            let (at, ask, signer) = self.asked.take().ok_or_else(nothing)?;
            let recorder = (answer.status == 200).then_some(at);
            let goes_on = recorder.is_some() && ask.goes_on();
            // The clock stops before the checks.
            if !goes_on {
                each(generator::Answer { slot: 0, recorder });
            }
            let (kind, _) = self.board.args.mix[at];
            match self.check(kind, (ask, signer), &answer) {
                Ok(Some(ask)) => self.send(out, at, ask),
                Ok(None) => {}
                Err(what) => {
                    let what = format_args!("{}: {what}", kind.name());
                    self.board.run.checks.fault(what);
                    if goes_on {
                        let recorder = None;
                        each(generator::Answer { slot: 0, recorder });
                    }
                }
            }
        }
        Ok(taken)
    }
}

pub(super) enum Ask {
    /// PutRow of all columns, UpdateRow of some; perhaps in a transaction.
    Write(Write, Option<String>),
    /// GetRow.
    Row(Due),
    /// GetRange.
    Page(Due),
    /// StartLocalTransaction, for this write.
    Start(Write),
    /// CommitTransaction, of this write.
    Commit(Write, String),
}

/// What an answer says.
#[derive(Default)]
pub(super) struct Told {
    /// How many rows came.
    pub(super) rows: u64,
    /// The row that the next page begins with.
    pub(super) next: Option<u64>,
    /// What comes next in a transaction.
    ask: Option<Ask>,
}

/// The answers to operations on rows have the same fields.
type Reply = GetRangeResponse;

impl Ask {
    /// Another operation of its transaction follows.
    fn goes_on(&self) -> bool {
        matches!(self, Ask::Start(_) | Ask::Write(_, Some(_)))
    }

    pub(super) fn encode(&self, sheet: &Sheet) -> (Operation, Vec<u8>) {
        let (table_name, width) = (Some(sheet.name.clone()), sheet.columns.len());
        match self {
            Ask::Write(write, transaction_id) => {
                // UpdateRow's request has the same fields.
                let request = PutRowRequest {
                    table_name,
                    row: Some(encode_row(&sheet.row(write))),
                    condition: anyway(),
                    transaction_id: transaction_id.clone(),
                    ..PutRowRequest::default()
                };
                let operation = match write.columns.len() == width {
                    true => Operation::PutRow,
                    false => Operation::UpdateRow,
                };
                (operation, request.encode_to_vec())
            }
            Ask::Start(write) => {
                let mut key = sheet.key(write.row);
                key.primary_key.truncate(1);
                let request = StartLocalTransactionRequest {
                    table_name,
                    key: Some(encode_row(&key)),
                };
                (Operation::StartLocalTransaction, request.encode_to_vec())
            }
            Ask::Commit(_, id) => {
                let transaction_id = Some(id.clone());
                let request = CommitTransactionRequest { transaction_id };
                (Operation::CommitTransaction, request.encode_to_vec())
            }
            Ask::Row(due) => {
                // No names ask for all.
                let some = due.columns.clone().filter(|_| due.columns.len() < width);
                let request = GetRowRequest {
                    table_name,
                    primary_key: Some(encode_row(&sheet.key(due.rows.start))),
                    columns_to_get: some.map(|column| sheet.columns[column].clone()).collect(),
                    max_versions: Some(1),
                    ..GetRowRequest::default()
                };
                (Operation::GetRow, request.encode_to_vec())
            }
            Ask::Page(due) => {
                let (start, direction) = match due.backward {
                    true => (due.rows.end - 1, Direction::Backward),
                    false => (due.rows.start, Direction::Forward),
                };
                let request = GetRangeRequest {
                    table_name,
                    direction: Some(direction.into()),
                    max_versions: Some(1),
                    limit: i32::try_from(due.limit).ok(),
                    inclusive_start_primary_key: Some(encode_row(&sheet.key(start))),
                    exclusive_end_primary_key: Some(encode_row(&Sheet::end(due.backward))),
                    ..GetRangeRequest::default()
                };
                (Operation::GetRange, request.encode_to_vec())
            }
        }
    }

    pub(super) fn check(
        self,
        sheet: &Sheet,
        reply: &[u8],
        checks: &Checks,
    ) -> Result<Told, String> {
        let mut told = Told::default();
        match self {
            Ask::Start(write) => {
                let started = StartLocalTransactionResponse::decode(reply).map_err(text)?;
                told.ask = Some(Ask::Write(write, Some(started.transaction_id)));
            }
            Ask::Commit(write, _) => {
                CommitTransactionResponse::decode(reply).map_err(text)?;
                sheet.ack(&write);
            }
            Ask::Write(write, transaction) => {
                // What is in a transaction counts when that is committed.
                if transaction.is_none() {
                    sheet.ack(&write);
                }
                let consumed = Reply::decode(reply).map_err(text)?.consumed;
                check_units(&consumed, [0, sheet.units(1, write.columns.len())], checks)?;
                told.ask = transaction.map(|id| Ask::Commit(write, id));
            }
            Ask::Row(due) | Ask::Page(due) => {
                let reply = Reply::decode(reply).map_err(text)?;
                let rows = decode_rows(&reply.rows).map_err(text)?;
                let key = reply.next_start_primary_key.as_ref().map(decode_row);
                told.next = sheet.check(&due, &rows, key.transpose().map_err(text)?.as_ref())?;
                told.rows = rows.len() as u64;
                let units = sheet.units(rows.len(), due.columns.len());
                check_units(&reply.consumed, [units, 0], checks)?;
            }
        }
        Ok(told)
    }
}

/// The condition of a write that has none.
pub(super) fn anyway() -> Option<Condition> {
    Some(Condition {
        row_existence: Some(RowExistenceExpectation::Ignore.into()),
        column_condition: None,
    })
}

/// Whether so many capacity units were read and written.
pub(super) fn check_units(
    consumed: &ConsumedCapacity,
    due: [i32; 2],
    checks: &Checks,
) -> Result<(), String> {
    checks.made("capacity units compared", 1);
    let (came, [read, write]) = (&consumed.capacity_unit, due.map(Some));
    match *came == (CapacityUnit { read, write }) {
        true => Ok(()),
        false => Err(format!("{came:?}, not {read:?} and {write:?}")),
    }
}

#[cfg(test)]
mod tests {
    use tideline_wire::tablestore::plainbuffer::{Row, encode_rows};

    use super::super::sheet::tests::{sheet, shown};
    use super::*;

    fn reply(rows: &[Row], read: i32, write: i32) -> Reply {
        let (read, write) = (Some(read), Some(write));
        let capacity_unit = CapacityUnit { read, write };
        Reply {
            consumed: ConsumedCapacity { capacity_unit },
            rows: encode_rows(rows),
            ..Reply::default()
        }
    }

    #[test]
    fn an_answer_that_is_not_due_is_found() {
        let (sheet, checks) = (sheet("put"), Checks::default());
        let old = [shown(&sheet, 5, 0..4, 1)];
        let get = || Ask::Row(sheet.due(5..6, false, 1, 0..4));
        let check = |ask: Ask, reply: &Reply| {
            let told = ask.check(&sheet, &reply.encode_to_vec(), &checks);
            told.map(|told| (told.rows, told.next))
        };
        assert_eq!(check(get(), &reply(&old, 1, 0)), Ok((1, None)));
        check(get(), &reply(&old, 2, 0)).expect_err("more units than the row counts");
        check(get(), &reply(&[], 1, 0)).expect_err("no row");
        let mut cut = reply(&old, 1, 0);
        cut.rows.truncate(cut.rows.len() - 1);
        check(get(), &cut).expect_err("half a row");
        let write = sheet.send(5, 0..4);
        assert_eq!(write.generation, 2);
        let put = || Ask::Write(write.clone(), None);
        check(put(), &reply(&[], 0, 0)).expect_err("a write that counts nothing");
        assert_eq!(check(put(), &reply(&[], 0, 1)), Ok((0, None)));
        check(get(), &reply(&old, 1, 0)).expect_err("the write is lost");
        assert_eq!(checks.checked().made["capacity units compared"], 4);
    }
}
