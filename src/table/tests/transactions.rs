//! Local transactions among the random commands: a copy of the model, which takes its place at the commit.
//!
//! Owns: the steps of a transaction, and what each of them should be answered. Promises: whatever else happens between
//! two steps (writes to the same key, flushes, merges, changed options, the end of its time, a restart), each answer is
//! that of the copy, and what is committed is what the copy says. Must not: be in a build that is not a test.

use proptest::prelude::*;

use super::commands::{Asks, World, Write, asks, key, named, row, same, write};
use super::model::ModelTable;
use crate::RangePage;
use tideline_model::limits::TRANSACTION_LIFE_MS;
use tideline_model::{
    CellChange, Direction, Error, FoundRow, GetRange, KeyValue, RowChange, TransactionId,
};

/// A transaction that was started.
pub(super) struct OpenModel {
    id: TransactionId,
    table: usize,
    first: KeyValue,
    copy: ModelTable,
    started: u64,
    has_ended: bool,
}

/// A step of a transaction; the number says of which.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Start(usize, u8),
    Write(usize, Write),
    Batch(usize, Vec<Write>),
    Get(usize, (u8, u8), Asks),
    Range(usize, bool, Asks),
    Commit(usize),
    Abort(usize),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let number = || 0usize..4;
    let writes = || proptest::collection::vec(write(), 1..4);
    prop_oneof![
        4 => (0usize..3, 0u8..3).prop_map(|(table, first)| Step::Start(table, first)),
        8 => (number(), write()).prop_map(|(number, write)| Step::Write(number, write)),
        2 => (number(), writes()).prop_map(|(number, writes)| Step::Batch(number, writes)),
        3 => (number(), key(), asks()).prop_map(|(number, key, asks)| Step::Get(number, key, asks)),
        2 => (number(), any::<bool>(), asks()).prop_map(|(a, b, c)| Step::Range(a, b, c)),
        2 => number().prop_map(Step::Commit),
        1 => number().prop_map(Step::Abort),
    ]
}

impl OpenModel {
    /// Ended by something else than its own last step.
    pub(super) fn ended(self) -> OpenModel {
        OpenModel {
            has_ended: true,
            ..self
        }
    }

    fn is_open(&self, now: u64) -> bool {
        !self.has_ended && now - self.started < TRANSACTION_LIFE_MS
    }
}

impl World {
    /// Whether a transaction has this key.
    pub(super) fn is_locked(&self, table: usize, first: &KeyValue) -> bool {
        let mut open = self.open.iter();
        open.any(|one| one.table == table && one.first == *first && one.is_open(self.now))
    }

    /// A table was changed: that ends its transactions.
    pub(super) fn end_all(&mut self, table: usize) {
        let of_it = self.open.iter_mut().filter(|one| one.table == table);
        of_it.for_each(|one| one.has_ended = true);
    }

    pub(super) async fn step(&mut self, step: Step) {
        let number = match step {
            Step::Start(table, first) => return self.start(table, first).await,
            Step::Write(number, _)
            | Step::Batch(number, _)
            | Step::Get(number, ..)
            | Step::Range(number, ..)
            | Step::Commit(number)
            | Step::Abort(number) => number,
        };
        if self.open.is_empty() {
            return;
        }
        let mut open = self.open.swap_remove(number % self.open.len());
        let is_open = open.is_open(self.now);
        // What is in the transaction stands for the table.
        std::mem::swap(&mut self.models[open.table], &mut open.copy);
        let goes_on = self.in_it(&open, step, is_open).await;
        std::mem::swap(&mut self.models[open.table], &mut open.copy);
        match goes_on {
            None => {}
            Some(false) => self.open.push(open),
            Some(true) => self.take_over(open),
        }
    }

    async fn start(&mut self, table: usize, first: u8) {
        let first = self.first(table, first);
        let key = vec![("k1".to_owned(), first.clone())];
        let named = self.table(table).await;
        let started = self.tables.start_transaction(&named, key);
        match started.await {
            Ok(id) => {
                assert!(!self.is_locked(table, &first));
                self.open.push(OpenModel {
                    id,
                    table,
                    first,
                    copy: self.models[table].clone(),
                    started: self.now,
                    has_ended: false,
                });
            }
            Err(error) => {
                assert_eq!(error, Error::RowConflict);
                assert!(self.is_locked(table, &first));
            }
        }
    }

    /// `None` = it has ended; `Some(true)` = it was committed.
    async fn in_it(&mut self, open: &OpenModel, step: Step, is_open: bool) -> Option<bool> {
        let gone = Error::TransactionNotFound;
        match step {
            Step::Commit(_) | Step::Abort(_) => {
                let is_commit = matches!(step, Step::Commit(_));
                let done = match is_commit {
                    true => self.tables.commit_transaction(open.id).await,
                    false => self.tables.abort_transaction(open.id).await,
                };
                // A commit looks at its table, an abort need not.
                match is_commit || done.is_err() {
                    true => assert_eq!(done, if is_open { Ok(()) } else { Err(gone) }),
                    false => {}
                }
                return (is_commit && is_open).then_some(true);
            }
            Step::Write(_, write) => {
                let (write, expected) = self.own(open, write, is_open);
                let real = self.real(&write);
                let predicted = match expected {
                    Ok(()) => self.predict(open.table, &real),
                    Err(error) => Err(error),
                };
                let table = self.table(open.table).await;
                same(self.tables.write_in(open.id, &table, real).await, predicted);
            }
            Step::Batch(_, writes) => self.batch_in(open, writes, is_open).await,
            Step::Get(_, key, asks) => {
                let mut key = self.values(open.table, key);
                if key[1] != KeyValue::Integer(0) {
                    key[0] = open.first.clone();
                }
                let asked = self.selection(asks);
                let predicted = self.found(open.table, &key, &asked);
                let table = self.table(open.table).await;
                let is_own = key[0] == open.first;
                let got = self.tables.get_in(open.id, &table, named(key), asked);
                match got.await {
                    Ok(got) => {
                        assert!(is_open && is_own);
                        assert_eq!(row(got), predicted);
                    }
                    Err(Error::OutOfTransaction { .. }) => assert!(is_open && !is_own),
                    Err(error) => assert_eq!((error, is_open), (gone, false)),
                }
            }
            Step::Range(_, is_backward, asks) => {
                self.range_in(open, is_backward, asks, is_open).await
            }
            Step::Start(..) => unreachable!("it has no number"),
        }
        is_open.then_some(false)
    }

    /// A write of the transaction's table, mostly of its key, and what is wrong with it.
    fn own(&self, open: &OpenModel, mut write: Write, is_open: bool) -> (Write, Result<(), Error>) {
        write.table = open.table;
        if write.key.1 > 0 {
            let mut firsts = 0u8..8;
            let own = firsts.find(|first| self.first(open.table, *first) == open.first);
            write.key.0 = own.unwrap();
        }
        let data = self.first(open.table, write.key.0);
        let expected = match (is_open, data == open.first) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::OutOfTransaction {
                transaction: open.first.clone(),
                data,
            }),
            (false, _) => Err(Error::TransactionNotFound),
        };
        (write, expected)
    }

    async fn batch_in(&mut self, open: &OpenModel, writes: Vec<Write>, is_open: bool) {
        let mut seen = false;
        let before = self.models[open.table].clone();
        let (mut real, mut expected) = (Vec::new(), Ok(()));
        for write in writes {
            let increments = matches!(&write.change, RowChange::Update(changes)
                if changes.iter().any(|change| matches!(change, CellChange::Increment { .. })));
            if increments && std::mem::replace(&mut seen, true) {
                continue;
            }
            let (write, own) = self.own(open, write, is_open);
            expected = expected.and(own);
            real.push((self.table(open.table).await, self.real(&write)));
        }
        let mut predicted = Vec::new();
        for (_, write) in &real {
            expected = match expected {
                Ok(()) => self
                    .predict(open.table, write)
                    .map(|did| predicted.push(did)),
                refused => refused,
            };
        }
        let count = real.len();
        let done = self.tables.write_batch_in(open.id, real).await;
        match expected {
            Ok(()) => {
                let done = done.unwrap().into_iter().zip(predicted);
                done.for_each(|(done, predicted)| same(done, Ok(predicted)));
            }
            Err(error) => {
                self.models[open.table] = before;
                let done = match done {
                    Ok(rows) => rows,
                    Err(error) => vec![Err(error); count],
                };
                assert_eq!(done, vec![Err(error); count]);
            }
        }
    }

    async fn range_in(&mut self, open: &OpenModel, is_backward: bool, asks: Asks, is_open: bool) {
        let bound = |second| named(vec![open.first.clone(), second]);
        let (low, high) = (bound(KeyValue::InfMin), bound(KeyValue::InfMax));
        let (direction, start, end) = match is_backward {
            false => (Direction::Forward, low, high),
            true => (Direction::Backward, high, low),
        };
        let asked = self.selection(asks);
        let keys = self.models[open.table].rows.keys();
        let keys: Vec<_> = keys.filter(|key| key[0] == open.first).cloned().collect();
        let found = keys
            .iter()
            .filter_map(|key| self.found(open.table, key, &asked));
        let mut predicted: Vec<FoundRow> = found.collect();
        if is_backward {
            predicted.reverse();
        }
        let range = GetRange {
            direction,
            start,
            end,
            limit: None,
            selection: asked,
        };
        let table = self.table(open.table).await;
        match self.tables.get_range_in(open.id, &table, range).await {
            Ok(page) => {
                let page: RangePage<Vec<FoundRow>> = page;
                assert!(is_open);
                assert_eq!((page.rows, page.next), (predicted, None));
            }
            Err(error) => assert_eq!((error, is_open), (Error::TransactionNotFound, false)),
        }
    }

    /// What was committed is so for all.
    fn take_over(&mut self, open: OpenModel) {
        let OpenModel {
            table, first, copy, ..
        } = open;
        let model = &mut self.models[table];
        model.rows.retain(|key, _| key[0] != first);
        let own = copy.rows.into_iter().filter(|(key, _)| key[0] == first);
        model.rows.extend(own);
        if let Some(last) = copy.last.get(&first) {
            model.last.insert(first, *last);
        }
    }
}
