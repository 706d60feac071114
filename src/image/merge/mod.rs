//! Merging neighbouring runs row by row, and what of a merged row is written.
//!
//! Owns: the order of composition (newest first, down to a put or tombstone) and the rules of what may be dropped.
//! Promises: with a reader that sees the newer runs above and the older ones below, the merged run shows what its
//! inputs showed, but for what the row rules have marked as gone. Must not: write.

pub(super) mod compact;
pub(super) mod flush;
pub(super) mod plan;
pub(super) mod survey;

use std::cell::RefCell;
use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;

use super::catalog::{Catalog, Job};
use super::env::Store;
use super::rows::read::{PartReader, Row};
use super::rows::scan::RunScan;
use super::{DropContext, Entry, Error, Reclaimed, Rules, Verdict};
use crate::entry::EntryKind;

/// The rows of a job's inputs that it has not passed yet, composed.
pub(super) struct Merge<'t> {
    rules: &'t dyn Rules,
    /// Newest first.
    inputs: Vec<Input<'t>>,
}

/// One key of a merge.
pub(super) struct Merged {
    pub(super) key: Bytes,
    pub(super) entry: Entry,
    /// How many inputs had it.
    pub(super) inputs: u64,
}

struct Input<'t> {
    scan: RunScan<'t>,
    head: Option<(Row, PartReader<'t>)>,
}

impl<'t> Merge<'t> {
    pub(super) fn new(
        catalog: &Catalog,
        job: &Job,
        (store, txn): (&'t Store, &'t RoTxn<'t>),
        rules: &'t dyn Rules,
    ) -> Result<Merge<'t>, Error> {
        let from = match &job.passed {
            Some(passed) => Bound::Excluded(&passed[..]),
            None => Bound::Unbounded,
        };
        let mut inputs = Vec::new();
        for run in &catalog.runs {
            if job.inputs.contains(&run.number) {
                let parts = run.parts_of(from, Bound::Unbounded).to_vec();
                let range = (from, Bound::Unbounded);
                let mut scan = RunScan::new(run.number, parts, range, false, (store, txn), rules);
                let head = scan.next()?;
                inputs.push(Input { scan, head });
            }
        }
        Ok(Merge { rules, inputs })
    }

    /// The next key, with the entries of all inputs composed into one.
    pub(super) fn next(&mut self) -> Result<Option<Merged>, Error> {
        let mut least: Option<(usize, &[u8])> = None;
        for (at, input) in self.inputs.iter().enumerate() {
            if let Some((row, _)) = &input.head
                && least.is_none_or(|(_, key)| *row.key < *key)
            {
                least = Some((at, &row.key));
            }
        }
        let Some((at, _)) = least else {
            return Ok(None);
        };
        let Some((newest, reader)) = self.inputs[at].take()? else {
            return Ok(None);
        };
        let mut entry = newest.entry(&reader)?;
        let mut count = 1;
        for input in &mut self.inputs[at + 1..] {
            let same = matches!(&input.head, Some((row, _)) if row.key == newest.key);
            if !same {
                continue;
            }
            if let Some((older, reader)) = input.take()? {
                count += 1;
                if entry.kind == EntryKind::Delta {
                    let older = older.entry(&reader)?;
                    entry = self.rules.compose(&newest.key, &older, &entry);
                }
            }
        }
        Ok(Some(Merged {
            key: newest.key,
            entry,
            inputs: count,
        }))
    }
}

impl<'t> Input<'t> {
    fn take(&mut self) -> Result<Option<(Row, PartReader<'t>)>, Error> {
        let next = self.scan.next()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// Decides what of a merged entry stays.
pub(super) struct Sieve<'a> {
    rules: &'a dyn Rules,
    now_ms: u64,
    read: &'a dyn Fn(&[u8]) -> Option<Bytes>,
    /// Runs below the oldest input.
    catalog: &'a Catalog,
    oldest_input: u64,
    includes_oldest: bool,
    last_read: RefCell<Option<(Bytes, Option<Bytes>)>>,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        oldest_input: u64,
        rules: &'a dyn Rules,
        now_ms: u64,
        read: &'a dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Sieve<'a> {
        let oldest = catalog.runs.last().map(|run| run.number);
        Sieve {
            rules,
            now_ms,
            read,
            catalog,
            oldest_input,
            includes_oldest: oldest == Some(oldest_input),
            last_read: RefCell::default(),
        }
    }

    /// How many bytes a rewrite would free of an entry. What would stay as a tombstone is not counted: once rewritten,
    /// a row must not ask for it again.
    pub(super) fn freed_bytes(&self, key: &[u8], entry: &Entry) -> usize {
        let whole = key.len() + entry.value.len();
        if entry.kind == EntryKind::Tombstone {
            return if self.none_below(key) { whole } else { 0 };
        }
        let settled;
        let mut entry = entry;
        if entry.kind == EntryKind::Delta && self.none_below(key) {
            settled = self.rules.compose(key, &tombstone(), entry);
            entry = &settled;
        }
        match self.verdict(key, entry, self.includes_oldest) {
            Verdict::Keep => 0,
            Verdict::Replace(less, _) => entry.value.len().saturating_sub(less.value.len()),
            Verdict::Drop(_) if self.none_below(key) => whole,
            Verdict::Drop(_) => entry.value.len(),
        }
    }

    /// Whether no run below the inputs can hold `key`, as far as bounds tell.
    fn none_below(&self, key: &[u8]) -> bool {
        self.includes_oldest
            || !self
                .catalog
                .sources()
                .skip_while(|source| source.run.number != self.oldest_input)
                .skip(1)
                .any(|source| source.covers(key) && source.run.part_of(key).is_some())
    }

    fn read(&self, key: &[u8]) -> Option<Bytes> {
        if let Some((last, answer)) = &*self.last_read.borrow()
            && last == key
        {
            return answer.clone();
        }
        let answer = (self.read)(key);
        let last = (Bytes::copy_from_slice(key), answer.clone());
        *self.last_read.borrow_mut() = Some(last);
        answer
    }

    /// What the row rules say about an entry.
    fn verdict(&self, key: &[u8], entry: &Entry, oldest: bool) -> Verdict {
        let read = |key: &[u8]| self.read(key);
        let context = DropContext {
            now_ms: self.now_ms,
            oldest,
            read: &read,
        };
        self.rules.verdict(key, entry, &context)
    }

    /// What is to be written for a merged entry; `None` = nothing. What a verdict gives up is counted in `reclaimed`.
    pub(super) fn settle(
        &self,
        key: &[u8],
        entry: Entry,
        reclaimed: &mut Reclaimed,
    ) -> Option<Entry> {
        let mut entry = entry;
        // For puts, by far the most, only ask about older runs when the answer is needed.
        let oldest = match entry.kind {
            EntryKind::Put => self.includes_oldest,
            EntryKind::Delta | EntryKind::Tombstone => self.none_below(key),
        };
        if oldest && entry.kind == EntryKind::Delta {
            entry = self.rules.compose(key, &tombstone(), &entry);
        }
        if entry.kind == EntryKind::Tombstone {
            return (!oldest).then_some(entry);
        }
        match self.verdict(key, &entry, oldest) {
            Verdict::Keep => Some(entry),
            Verdict::Replace(less, reason) => {
                let bytes = entry.value.len().saturating_sub(less.value.len());
                reclaimed.add(reason, 0, bytes as u64);
                Some(less)
            }
            Verdict::Drop(reason) => {
                reclaimed.add(reason, 1, (key.len() + entry.value.len()) as u64);
                (!self.none_below(key)).then(tombstone)
            }
        }
    }
}

fn tombstone() -> Entry {
    Entry {
        kind: EntryKind::Tombstone,
        value: Bytes::new(),
    }
}
