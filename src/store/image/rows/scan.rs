//! Walking one run's rows in a range, part after part.
//!
//! Owns: the chain of a run's parts, both ways. Promises: rows come in key order (or backward), each checked; parts are
//! opened when their turn comes. Must not: decide which parts or keys count: the caller hands in parts and bounds.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use heed::RoTxn;

use super::super::catalog::Part;
use super::super::env::Store;
use super::super::{Error, Rules};
use super::read::{PartReader, Row, Rows};

/// A lazy walk over one run.
pub(in super::super) struct RunScan<'t> {
    run: u64,
    store: &'t Store,
    txn: &'t RoTxn<'t>,
    rules: &'t dyn Rules,
    /// Those still to come, the next one last.
    parts: Vec<Arc<Part>>,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    backward: bool,
    open: Option<(PartReader<'t>, Rows)>,
}

impl<'t> RunScan<'t> {
    /// A walk over `parts` (keys rising) of run number `run`.
    pub(in super::super) fn new(
        run: u64,
        mut parts: Vec<Arc<Part>>,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        backward: bool,
        (store, txn): (&'t Store, &'t RoTxn<'t>),
        rules: &'t dyn Rules,
    ) -> RunScan<'t> {
        if !backward {
            parts.reverse();
        }
        RunScan {
            run,
            store,
            txn,
            rules,
            parts,
            from: from.map(Bytes::copy_from_slice),
            to: to.map(Bytes::copy_from_slice),
            backward,
            open: None,
        }
    }

    /// The next row, with what is needed to read its entry. After an error there are no more.
    pub(in super::super) fn next(&mut self) -> Result<Option<(Row, PartReader<'t>)>, Error> {
        let step = self.step();
        if step.is_err() {
            self.parts.clear();
            self.open = None;
        }
        step
    }

    fn step(&mut self) -> Result<Option<(Row, PartReader<'t>)>, Error> {
        loop {
            if let Some((reader, rows)) = &mut self.open {
                if let Some(row) = rows.next()? {
                    return Ok(Some((row, reader.clone())));
                }
                self.open = None;
            }
            let Some(part) = self.parts.pop() else {
                return Ok(None);
            };
            let reader = PartReader::new(self.store, self.run, &part, self.txn, self.rules)?;
            let from = self.from.as_ref().map(|key| &key[..]);
            let to = self.to.as_ref().map(|key| &key[..]);
            let rows = reader.rows(from, to, self.backward)?;
            self.open = Some((reader, rows));
        }
    }
}
