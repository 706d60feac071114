//! Flush: a memtable becomes a run.
//!
//! Owns: the writing of level-0 runs in slices. Promises: nothing of a flush is visible before its last transaction,
//! which enters the run and the covered position; a flush that fails or is cut off leaves only slots to be cleared.
//! Must not: hold the writing side's lock between slices, so that a merge may go on there. Called by the partition's
//! one background thread.

use std::sync::Arc;

use bytes::Bytes;

use super::super::catalog::{Catalog, Part, Run};
use super::super::rows::part::PartWriter;
use super::super::{Entry, Error, Image, Inner};
use tideline_base::ids::Position;

/// A flush under way.
struct Flush<'i> {
    inner: &'i Inner,
    level: u8,
    run: u64,
    done: Vec<Part>,
    /// All that it has taken.
    slots: Vec<[u16; 2]>,
    growing: Option<PartWriter>,
    ended: bool,
}

impl Image {
    /// Writes `entries` (keys strictly rising, each once) as the newest run: what the log did above `from` up to `to`.
    /// `from` must be the covered position. `between_slices` runs between two transactions, with no lock held.
    pub(crate) fn flush(
        &self,
        from: Position,
        to: Position,
        entries: &mut dyn Iterator<Item = (Bytes, Entry)>,
        between_slices: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        self.write(0, (from, to), entries, between_slices)
    }

    /// Fills an empty image with everything that there is at a position, as a run of this level.
    pub(crate) fn load(
        &self,
        to: Position,
        level: u8,
        entries: &mut dyn Iterator<Item = (Bytes, Entry)>,
    ) -> Result<(), Error> {
        self.write(level, (Position::ZERO, to), entries, &mut || {})
    }

    fn write(
        &self,
        level: u8,
        (from, to): (Position, Position),
        entries: &mut dyn Iterator<Item = (Bytes, Entry)>,
        between_slices: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let inner = &*self.inner;
        let mut flush = Flush {
            inner,
            level,
            run: 0,
            done: Vec::new(),
            slots: Vec::new(),
            growing: None,
            ended: false,
        };
        loop {
            if let Err(error) = flush.slice(from, to, entries) {
                flush.give_back();
                return Err(error.with_room(|| inner.store.left()));
            }
            if flush.ended {
                return Ok(());
            }
            between_slices();
        }
    }
}

impl Flush<'_> {
    /// One transaction's worth.
    fn slice(
        &mut self,
        from: Position,
        to: Position,
        entries: &mut dyn Iterator<Item = (Bytes, Entry)>,
    ) -> Result<(), Error> {
        let inner = self.inner;
        let mut state = inner.lock()?;
        let mut catalog = Catalog::clone(&inner.catalog());
        if catalog.covered != from || to <= from {
            return Err(Error::NotNext {
                covered: catalog.covered.0,
                from: from.0,
            });
        }
        let first = self.run == 0;
        if first {
            self.run = catalog.next_run;
            catalog.next_run += 1;
        }
        if self.growing.is_none() {
            let [rows, side] = inner.take_slots(&mut state.slots)?;
            self.slots.push([rows.0, side.0]);
            let after = self.done.last().map_or(&[][..], |part| &part.last);
            self.growing = Some(PartWriter::new(self.run, rows, side, after));
        }
        let writer = self.growing.as_mut().expect("set right above");
        let options = &inner.options;
        let mut wtxn = inner.store.write()?;
        let (start, mut rows) = (writer.bytes, 0);
        while writer.bytes - start < options.slice_bytes
            && rows < options.slice_rows
            && writer.bytes < options.part_bytes_max
        {
            let Some((key, entry)) = entries.next() else {
                self.ended = true;
                break;
            };
            writer.put(
                &mut wtxn,
                &*inner.rules,
                options.wide_row_bytes,
                &key,
                &entry,
            )?;
            rows += 1;
        }
        if self.ended || writer.bytes >= options.part_bytes_max {
            match writer.is_empty() {
                true => state.slots.give_back([writer.slot, writer.side]),
                false => self.done.push(writer.seal(&mut wtxn)?),
            }
            self.growing = None;
        }
        if self.ended {
            let parts = std::mem::take(&mut self.done);
            let run = Run {
                number: self.run,
                level: self.level,
                from,
                to,
                parts: parts.into_iter().map(Arc::new).collect(),
            };
            catalog.runs.insert(0, Arc::new(run));
            catalog.covered = to;
        }
        match first || self.ended {
            // The first slice enters the run's number as used: never again for another run's rows.
            true => inner.commit(&mut state, wtxn, catalog),
            false => inner.commit_rows(wtxn),
        }
    }

    /// After a failure: all its slots are to be cleared.
    fn give_back(&mut self) {
        let mut state = self.inner.state_unchecked();
        for slots in self.slots.drain(..) {
            state.slots.give_back(slots);
        }
    }
}
