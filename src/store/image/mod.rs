//! The image: a partition's sorted runs on LMDB.
//!
//! A flush writes a memtable as a new immutable run; merges make fewer and longer runs of many; a snapshot reads all of
//! them at one moment. Owns: the image directory and its format. Promises: `covered` rises only with a flush's last
//! transaction, which enters the whole run; every row has passed its checksum when it is handed out; whatever is
//! flushed or merged, a snapshot shows the same rows until it is dropped. Must not: know what a row means ([`Rules`]
//! does), do anything asynchronous, or be called while holding one of the partition's locks. Called by `partition/`
//! only: readers from anywhere, flush and compaction from one thread.

mod catalog;
mod check;
mod copy;
mod env;
mod error;
#[cfg(feature = "faults")]
pub(crate) mod fuzz;
mod merge;
mod options;
mod pages;
mod readers;
mod rows;
mod rules;
mod slots;
mod snapshot;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use heed::RwTxn;

use catalog::Catalog;
pub use catalog::TableCounts;
use catalog::catalog_codec::{CATALOG_KEY, VERSION_KEY};
pub(crate) use tideline_base::entry::Entry;
use tideline_base::ids::Position;

pub use check::salvage::Gap;
pub(crate) use check::salvage::Salvage;
pub(crate) use check::verify::Problem;
use copy::Copies;
use env::{Access, ReadTxn, Store};
pub(crate) use error::Error;
use merge::survey::{Shown, Survey};
pub use options::Options;
pub(crate) use readers::ReaderFigures;
use readers::Readers;
use rows::filter::Budget;
use rows::part::PartWriter;
pub(crate) use rules::Reclaimed;
pub use rules::{DropContext, Owner, Pieces, Reason, Rules, Verdict};
use slots::{Slots, SlotsLeft};
pub(crate) use snapshot::Snapshot;

/// Beside `version` and `catalog`, and never changed once it is written.
const MARK_KEY: &[u8] = b"mark";

/// One partition's image. Cheap to clone; all clones are the same image.
#[derive(Clone)]
pub(crate) struct Image {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    options: Options,
    rules: Arc<dyn Rules>,
    /// Open snapshots.
    readers: Arc<Readers>,
    copies: Copies,
    /// Memory for filters.
    budget: Arc<Budget>,
    /// The newest committed catalog. Changed only under `state`.
    cached: ArcSwap<Catalog>,
    state: Mutex<WritingState>,
    /// Copied from `state`'s survey.
    shown: Shown,
    /// Counted from `state`'s slots, so that `pressure` takes no lock.
    slots_left: SlotsLeft,
    /// A commit failed with an unknown outcome.
    stopped: AtomicBool,
    /// How often damage was met.
    damage: AtomicU64,
}

/// What only the writing thread needs.
struct WritingState {
    slots: Slots,
    /// The growing parts of running jobs, by output run. One that is missing is taken up from the catalog.
    growing: HashMap<u64, PartWriter>,
    /// Slots taken for parts of jobs that no committed catalog names yet.
    unentered: Vec<[u16; 2]>,
    survey: Survey,
    /// Runs in which damage was met: no job touches them until the next start.
    damaged: HashSet<u64>,
}

/// How full the image is and how far compaction is behind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressure {
    /// Runs of all levels.
    pub runs: usize,
    /// Runs of level 0, those in a merge too.
    pub level0_runs: usize,
    /// Whether writers should be slowed down.
    pub slow: bool,
    /// Whether writers should be refused.
    pub busy: bool,
    /// Sub-databases that could still be taken; a part takes two.
    pub free_slots: usize,
    /// Bytes of runs that wait for a merge: level 0, and inputs of running merges.
    pub pending_bytes: u64,
    /// Bytes of pages in use by runs.
    pub bytes_used: u64,
    /// Of these, bytes that hold what is dead, as far as that is known.
    pub dead_bytes: u64,
    /// When the last whole look at all rows ended, ms since 1970; 0 = none since the start.
    pub walked_ms: u64,
    /// Bytes of the file, free pages included; it never shrinks.
    pub file_bytes: u64,
    /// Bytes of address space reserved for the file: it can't grow past it.
    pub map_bytes: u64,
    /// Memory of loaded filters, bytes.
    pub filter_bytes: u64,
    /// How often a read or a merge has met damage since the start.
    pub damage: u64,
}

impl Image {
    /// Opens the image in `dir`, making it if there is none. What an interrupted flush left behind is never visible and
    /// is cleared before its place is used again.
    pub(crate) fn open(
        dir: &Path,
        options: Options,
        rules: Arc<dyn Rules>,
    ) -> Result<Image, Error> {
        let access = match options.read_only {
            true => Access::Read,
            false => Access::Write,
        };
        let store = Store::open(dir, options.map_bytes, access, is_sound)?;
        let map_bytes = store.map_bytes();
        if map_bytes > options.map_bytes as u64 {
            tracing::warn!(dir = %dir.display(), map_bytes, "map_bytes is lower than what the image needs; reserved more");
        }
        let txn = store.read()?;
        let catalog = match store.catalog.get(&txn, VERSION_KEY)? {
            Some(_) => read_catalog(&store, &txn)?,
            None if store.slot_count() == 0 && !options.read_only => Catalog {
                next_run: 1,
                ..Catalog::default()
            },
            None => return Err(Error::damaged("catalog", "missing")),
        };
        // At once: the records of parts must be the catalog's, and which pages are free is known only now.
        for run in catalog.all_runs() {
            for part in &run.parts {
                let trees =
                    rows::read::trees_of(&store, run.number, part, &txn, store.free.as_ref())?;
                let _ = part.trees.set(trees);
            }
        }
        let slots = Slots::new(&store, &txn, &catalog)?;
        drop(txn);
        let inner = Inner {
            readers: Arc::default(),
            copies: Copies::default(),
            budget: Budget::new(options.filter_memory_bytes),
            store,
            options,
            rules,
            shown: Shown::default(),
            slots_left: slots.left(),
            cached: ArcSwap::from_pointee(catalog),
            state: Mutex::new(WritingState {
                slots,
                growing: HashMap::new(),
                unentered: Vec::new(),
                survey: Survey::default(),
                damaged: HashSet::new(),
            }),
            stopped: AtomicBool::new(false),
            damage: AtomicU64::new(0),
        };
        if inner.catalog().version == 0 {
            // So that the format is on disk from the first moment on.
            let wtxn = inner.store.write()?;
            let made = inner.commit(&mut *inner.lock()?, wtxn, Catalog::clone(&inner.catalog()));
            made.map_err(|error| error.with_room(|| inner.store.left()))?;
        }
        Ok(Image {
            inner: Arc::new(inner),
        })
    }

    /// Whether `dir` holds an image, however damaged: what [`Image::open`] would open and not make.
    pub(crate) fn is_there(dir: &Path) -> std::io::Result<bool> {
        env::is_there(dir)
    }

    /// What [`Image::set_mark`] wrote: whose image this is.
    pub(crate) fn mark(&self) -> Result<Option<String>, Error> {
        let store = &self.inner.store;
        let txn = store.read()?;
        let mark = store.catalog.get(&txn, MARK_KEY)?;
        Ok(mark.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    /// Names whose image this is, durably. The image gives the text back and takes no notice of it.
    pub(crate) fn set_mark(&self, mark: &str) -> Result<(), Error> {
        let store = &self.inner.store;
        let mut wtxn = store.write()?;
        store.catalog.put(&mut wtxn, MARK_KEY, mark.as_bytes())?;
        self.inner.commit_rows(wtxn)
    }

    /// The log position that the image covers.
    pub(crate) fn covered(&self) -> Position {
        self.inner.catalog().covered
    }

    /// The level of the run that holds what is oldest; 0 without one.
    pub(crate) fn oldest_level(&self) -> u8 {
        self.inner.catalog().runs.last().map_or(0, |run| run.level)
    }

    /// Whether a commit failed with an unknown outcome, so that only opening again helps.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::Acquire)
    }

    /// Clears what steps that failed have left, so that its room can be used again.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        let mut state = inner.lock()?;
        while inner.clear_one(&mut state.slots)? {}
        Ok(())
    }

    /// Damage that was met in slots that were to be cleared, and are left alone; each place once.
    pub(crate) fn damage(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.state_unchecked().slots.damage)
    }

    /// Bytes that may still be written on the image's disk; `None` if unknown.
    pub(crate) fn left(&self) -> Option<u64> {
        self.inner.store.left()
    }

    /// Starts reading. `Full` if too many snapshots are alive.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        let inner = &self.inner;
        let txn = inner.store.read()?;
        let stored = inner.store.catalog.get(&txn, VERSION_KEY)?;
        let (_, version) = catalog::catalog_codec::decode_version(stored.unwrap_or_default())?;
        let cached = inner.catalog();
        let catalog = match cached.version == version {
            true => cached,
            // Between a commit and its publishing, or the other way round.
            false => Arc::new(read_catalog(&inner.store, &txn)?),
        };
        Ok(Snapshot::new(txn, catalog, Arc::clone(inner)))
    }

    /// How full the image is and how far compaction is behind. Cheap: nothing on disk is asked.
    pub(crate) fn pressure(&self) -> Pressure {
        let inner = &self.inner;
        let catalog = inner.catalog();
        let level0_runs = catalog.level0_runs();
        let free_slots = inner.slots_left.get();
        Pressure {
            runs: catalog.runs.len(),
            level0_runs,
            slow: level0_runs >= inner.options.level0_slow_runs,
            busy: level0_runs >= inner.options.level0_busy_runs || free_slots < 2,
            free_slots,
            pending_bytes: catalog
                .runs
                .iter()
                .filter(|run| run.level == 0 || catalog.job_of(run.number).is_some())
                .map(|run| run.page_bytes())
                .sum(),
            bytes_used: catalog.parts().map(|part| part.page_bytes).sum(),
            dead_bytes: inner.shown.dead_bytes.load(Ordering::Relaxed),
            walked_ms: inner.shown.walked_ms.load(Ordering::Relaxed),
            file_bytes: inner.store.file_bytes(),
            map_bytes: inner.store.map_bytes(),
            filter_bytes: inner.budget.used(),
            damage: inner.damage.load(Ordering::Relaxed),
        }
    }

    /// The open snapshots, and how many pages are free; `None` if that can't be known now. Begins a read transaction.
    pub(crate) fn figures(&self) -> Option<ReaderFigures> {
        let inner = &self.inner;
        let (last, free_bytes) = inner.store.free_bytes().ok()?;
        Some(inner.readers.figures(last, free_bytes))
    }
}

impl Inner {
    /// The newest committed catalog.
    fn catalog(&self) -> Arc<Catalog> {
        self.cached.load_full()
    }

    /// The state of the writing side; refused after a failed commit.
    fn lock(&self) -> Result<MutexGuard<'_, WritingState>, Error> {
        match self.stopped.load(Ordering::Acquire) {
            true => Err(Error::Stopped),
            false => Ok(self.state_unchecked()),
        }
    }

    fn state_unchecked(&self) -> MutexGuard<'_, WritingState> {
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Commits `wtxn` with `next` as the new catalog and publishes it. Slots that it no longer names become dirty.
    fn commit(
        &self,
        state: &mut WritingState,
        wtxn: RwTxn<'_>,
        next: Catalog,
    ) -> Result<(), Error> {
        let mut wtxn = wtxn;
        let mut next = next;
        next.version += 1;
        let version = catalog::catalog_codec::encode_version(next.version);
        let bytes = catalog::catalog_codec::encode(&next);
        let db = self.store.catalog;
        db.put(&mut wtxn, VERSION_KEY, &version)?;
        db.put(&mut wtxn, CATALOG_KEY, &bytes)?;
        self.commit_rows(wtxn)?;
        let before = self.cached.swap(Arc::new(next));
        state.slots.release_unnamed(&before, &self.catalog());
        Ok(())
    }

    /// Commits a transaction that leaves the catalog as it is.
    fn commit_rows(&self, wtxn: RwTxn<'_>) -> Result<(), Error> {
        let done = wtxn.commit().map_err(Error::from);
        if done.is_err() && self.store.is_unsettled() {
            // Perhaps the new meta page is on disk all the same: nothing may be built on either state.
            self.stopped.store(true, Ordering::Release);
        }
        done
    }
}

/// Whether an entry of the catalog's sub-database may be what was written. The mark's owner knows what it should be.
fn is_sound(key: &[u8], value: &[u8]) -> bool {
    key == MARK_KEY || catalog::catalog_codec::is_sealed(value)
}

fn read_catalog(store: &Store, txn: &ReadTxn) -> Result<Catalog, Error> {
    let value = |key| {
        let stored = store.catalog.get(txn, key)?;
        stored.ok_or_else(|| Error::damaged("catalog", "missing"))
    };
    let (format, version) = catalog::catalog_codec::decode_version(value(VERSION_KEY)?)?;
    let stored = value(CATALOG_KEY)?;
    let catalog = catalog::catalog_codec::decode(stored, format, &|slot| store.slot(slot))?;
    if catalog.version != version {
        return Err(Error::damaged("catalog", "its two values disagree"));
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests;
