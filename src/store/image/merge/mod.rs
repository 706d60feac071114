//! Flushes of memtables to runs, and merges of runs: which are merged and when, and which rows stay (`sieve.rs`). This
//! file merges neighbouring runs row by row.
//!
//! Owns: the order of composition: newest first, down to a put or tombstone. Promises: with a reader that sees the
//! newer runs above and the older ones below, the merged run shows what its inputs showed, but for what the row rules
//! have marked as gone. Must not: read for callers.

pub(super) mod compact;
pub(super) mod flush;
pub(super) mod plan;
pub(super) mod sieve;
pub(super) mod survey;

use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;

use super::catalog::{Catalog, Job};
use super::env::Store;
use super::rows::read::{PartReader, Row};
use super::rows::scan::RunScan;
use super::{Entry, Error, Rules};
use tideline_base::entry::EntryKind;

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
