//! A snapshot: one LMDB read transaction and the catalog as of it.
//!
//! Owns: which runs a reader looks into and in what order, filters, clipping at running merges. Promises: it shows the
//! image at one covered position until it is dropped, whatever is flushed and merged meanwhile. Must not: live long
//! (while it lives, no page freed since can be used again). It may move between threads, not be shared by them. Called
//! by the partition's views.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::catalog::{Catalog, Part, Run};
use super::env::ReadTxn;
use super::readers::{Reader, Readers};
use super::rows::filter;
use super::rows::read::PartReader;
use super::rows::scan::RunScan;
use super::{Entry, Error, Inner};
use tideline_base::entry::EntryKind;
use tideline_base::ids::Position;

/// The image as of one moment.
pub(crate) struct Snapshot {
    // First: it must end before the environment can.
    txn: ReadTxn,
    catalog: Arc<Catalog>,
    _reader: Reader,
    inner: Arc<Inner>,
}

impl Snapshot {
    pub(super) fn new(txn: ReadTxn, catalog: Arc<Catalog>, inner: Arc<Inner>) -> Snapshot {
        let _reader = Readers::begin(&inner.readers, txn.id() as u64);
        Snapshot {
            txn,
            catalog,
            _reader,
            inner,
        }
    }

    /// The log position that the image covers: everything up to it is here, nothing above it.
    pub(crate) fn covered(&self) -> Position {
        self.catalog.covered
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Hands the entries of `key` to `found`, newest first, until it breaks or a put or tombstone has come.
    #[cfg(test)]
    pub(super) fn get(
        &self,
        key: &[u8],
        found: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.get_some(key, None, found).map(|_| ())
    }

    /// Hands the entries of `key` to `found`, newest first, until it breaks or a put or tombstone has come. Tells how
    /// many bytes of them were left out: with `wanted` a wide row may come with little else than what that names.
    pub(crate) fn get_some(
        &self,
        key: &[u8],
        wanted: Option<&[&str]>,
        found: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<u64, Error> {
        self.inner.noted(self.look_up(key, wanted, found))
    }

    fn look_up(
        &self,
        key: &[u8],
        wanted: Option<&[&str]>,
        found: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<u64, Error> {
        let mut left_bytes = 0;
        let mut hash = None;
        let in_filter = self.inner.rules.filter_key(key);
        for source in self.catalog.sources() {
            if !source.covers(key) {
                continue;
            }
            let Some(part) = source.run.part_of(key) else {
                continue;
            };
            if in_filter {
                let hash = *hash.get_or_insert_with(|| filter::key_hash(key));
                if !self.may_hold(source.run, part, hash)? {
                    continue;
                }
            }
            let Some((entry, left)) = self.reader(source.run, part)?.get(key, wanted)? else {
                continue;
            };
            left_bytes += left;
            let last = entry.kind != EntryKind::Delta;
            if found(entry).is_break() || last {
                break;
            }
        }
        Ok(left_bytes)
    }

    /// Takes the mark from each key that may be here, as the filters say.
    pub(crate) fn sift(&self, keys: &[&[u8]], lacks: &mut [bool]) {
        let hashes: Vec<u64> = keys.iter().map(|key| filter::key_hash(key)).collect();
        for source in self.catalog.sources() {
            let marked = keys.iter().zip(&hashes).zip(lacks.iter_mut());
            for ((&key, &hash), lacks) in marked.filter(|(_, lacks)| **lacks) {
                if source.covers(key)
                    && let Some(part) = source.run.part_of(key)
                {
                    *lacks = self.inner.rules.filter_key(key)
                        && self.may_hold(source.run, part, hash).is_ok_and(|may| !may);
                }
            }
        }
    }

    /// One lazy iterator per run that may hold keys of the range, newest run first, each in key order (or backward).
    pub(crate) fn cursors(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        backward: bool,
    ) -> Result<Vec<RunCursor<'_>>, Error> {
        let mut cursors = Vec::new();
        if is_empty(from, to) {
            return Ok(cursors);
        }
        let prefix = self.common_prefix(from, to).map(filter::prefix_hash);
        for source in self.catalog.sources() {
            let (from, to) = source.clip(from, to);
            if is_empty(from, to) {
                continue;
            }
            let mut parts = Vec::new();
            for part in source.run.parts_of(from, to) {
                let may_hold = match prefix {
                    Some(hash) => self.may_hold(source.run, part, hash)?,
                    None => true,
                };
                if may_hold {
                    parts.push(Arc::clone(part));
                }
            }
            if parts.is_empty() {
                continue;
            }
            let scan = RunScan::new(
                source.run.number,
                parts,
                (from, to),
                backward,
                (&self.inner.store, &self.txn),
                &*self.inner.rules,
            );
            cursors.push(RunCursor(scan, &self.inner));
        }
        Ok(cursors)
    }

    /// The filter prefix that all keys of the range share, if they surely do.
    fn common_prefix<'k>(&self, from: Bound<&'k [u8]>, to: Bound<&[u8]>) -> Option<&'k [u8]> {
        let (Bound::Included(first) | Bound::Excluded(first)) = from else {
            return None;
        };
        let prefix = self.inner.rules.filter_prefix(first)?;
        if prefix.is_empty() || !first.starts_with(prefix) {
            return None;
        }
        let shared = match to {
            Bound::Unbounded => false,
            Bound::Included(last) => last.starts_with(prefix),
            Bound::Excluded(end) => end.starts_with(prefix) || is_successor(end, prefix),
        };
        shared.then_some(prefix)
    }

    /// Whether the part may hold what has this hash. Loads the filter if there is memory for it.
    fn may_hold(&self, run: &Run, part: &Part, hash: u64) -> Result<bool, Error> {
        let budget = &self.inner.budget;
        let filter = match part.filter.get() {
            Some(filter) => filter,
            None if part.filter_bytes == 0 || !budget.has(part.filter_bytes) => return Ok(true),
            None => {
                let loaded = self
                    .reader(run, part)?
                    .load_filter(part.filter_bytes, budget)?;
                part.filter.get_or_init(|| loaded)
            }
        };
        Ok(filter.as_ref().is_none_or(|filter| filter.may_hold(hash)))
    }

    pub(super) fn reader<'s>(&'s self, run: &Run, part: &Part) -> Result<PartReader<'s>, Error> {
        self.reader_of(run.number, part)
    }

    /// The same, of the run with this number.
    pub(super) fn reader_of<'s>(&'s self, run: u64, part: &Part) -> Result<PartReader<'s>, Error> {
        let inner = &self.inner;
        PartReader::new(&inner.store, run, part, &self.txn, &*inner.rules)
    }

    /// What is stored under a key of the catalog's sub-database.
    pub(super) fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.inner.store.catalog.get(&self.txn, key)?;
        Ok(stored.map(<[u8]>::to_vec))
    }
}

impl Inner {
    /// Counts damage that a read has met.
    fn noted<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        if matches!(&read, Err(Error::Damaged(_))) {
            self.damage.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

/// Whether no key lies between the bounds.
fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
    }
}

/// Whether `end` is the first key after all that start with `prefix`.
fn is_successor(end: &[u8], prefix: &[u8]) -> bool {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX);
    kept.is_some_and(|at| {
        end.len() == at + 1 && end[..at] == prefix[..at] && end[at] == prefix[at] + 1
    })
}

/// A lazy walk over one run's entries in a range; ends for good after an error.
pub(crate) struct RunCursor<'s>(RunScan<'s>, &'s Inner);

impl Iterator for RunCursor<'_> {
    type Item = Result<(Bytes, Entry), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (row, reader) = match self.1.noted(self.0.next()) {
            Ok(row) => row?,
            Err(error) => return Some(Err(error)),
        };
        let entry = self.1.noted(row.entry(&reader));
        // A copy: a slice would keep its page in memory.
        Some(entry.map(|entry| (Bytes::copy_from_slice(&row.key), entry)))
    }
}
