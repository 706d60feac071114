//! A copy of the image in another folder, made while the image is read and flushed to.
//!
//! Owns: the way from the parts of one catalog to a new LMDB file. Promises: the copy shows what the image showed at
//! its beginning, with its mark, and has no page that is free; each row has passed its checksum on the way; a read
//! transaction lives for one slice, so the image's file does not grow for the copy's sake; each part of the copy was
//! read from it and held against the catalog; the copy's file is synced.
//! Must not: hold up flushes, or sync the copy's folder.
//!
//! A part never changes while a catalog names it, so its pages can be read in many transactions. Merges rest meanwhile;
//! where runs pile up they go on, and the copy is begun anew by its caller.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;

use heed::PutFlags;

use super::catalog::catalog_codec::{CATALOG_KEY, VERSION_KEY};
use super::catalog::{Catalog, Part};
use super::check::verify::verify_part;
use super::env::{Access, Db, Store};
use super::pages::cursor::TreeCursor;
use super::pages::tree::Tree;
use super::rows::read::PartReader;
use super::{Error, Image, Inner, MARK_KEY, Rules, is_sound};
use tideline_base::ids::Position;

/// Address space of the copy beside what the parts take and a quarter of that.
const MAP_ROOM_BYTES: u64 = 64 << 20;

/// Called with the bytes of each slice; its error ends the copy.
type Pace<'p> = &'p mut dyn FnMut(u64) -> io::Result<()>;

/// How many copies are being made.
#[derive(Debug, Default)]
pub(super) struct Copies(AtomicUsize);

impl Copies {
    /// Whether merges are to rest.
    pub(super) fn are_made(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    fn begin(&self) -> Copying<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Copying(self)
    }
}

struct Copying<'c>(&'c Copies);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Image {
    /// Copies the image into an empty folder and gives the position that the copy covers. `None` = merges could not
    /// rest for so long, and took a part away: what was copied is worth nothing. Blocks.
    ///
    /// Each read transaction and each sync is of so many bytes, or those of a merge's slice if that is less: a disk
    /// that is busy with a large one keeps the log waiting. While one slice is synced the next is copied, and no more.
    /// While a part is copied the one before is read; that ends with an error, too, when `goes_on` says `false`.
    pub(crate) fn copy(
        &self,
        folder: &Path,
        (slice_bytes, goes_on): (u64, &(dyn Fn() -> bool + Sync)),
        pace: Pace<'_>,
    ) -> Result<Option<Position>, Error> {
        let inner = &*self.inner;
        let _copying = inner.copies.begin();
        // A merge that had begun its slice has ended it now.
        drop(inner.lock()?);
        let (catalog, entries) = self.now()?;
        // The control: one transaction for all of the copy.
        let is_held = tideline_base::faults::is_named("copy_holds_view");
        let _held = is_held.then(|| self.snapshot()).transpose()?;
        let bytes: u64 = catalog.parts().map(|part| part.page_bytes).sum();
        let map_bytes =
            usize::try_from((bytes + bytes / 4).next_multiple_of(MAP_ROOM_BYTES) + MAP_ROOM_BYTES);
        let map_bytes = map_bytes.map_err(|_| Error::AddressSpace(usize::MAX))?;
        let target = Store::open(folder, map_bytes, Access::WriteUnsynced, is_sound)?;
        let slice_bytes = slice_bytes.min(inner.options.slice_bytes);
        let file = target.file()?;
        // Nobody waits for what is sent: it is taken when the sync before has ended.
        let (written, to_sync) = mpsc::sync_channel(0);
        let (copied, to_check) = mpsc::sync_channel(1);
        let done = thread::scope(|all| {
            let syncing = all.spawn(|| sync_slices(&file, to_sync));
            let checking = all.spawn(|| check_parts(&target, to_check, (&*inner.rules, goes_on)));
            let done = self.copy_parts(&catalog, &target, (&written, &copied), slice_bytes, pace);
            let done = done.and_then(|is_whole| match is_whole {
                true => enter(&target, &entries).map(|()| Some(catalog.covered)),
                false => Ok(None),
            });
            drop((written, copied));
            let (synced, checked) = (syncing.join(), checking.join());
            synced.unwrap_or_else(|panic| resume_unwind(panic))?;
            checked.unwrap_or_else(|panic| resume_unwind(panic))?;
            done
        });
        done.map_err(|error| error.with_room(|| target.left()))
    }

    /// The catalog of this moment, and what is stored of it.
    fn now(&self) -> Result<(Arc<Catalog>, Vec<StoredEntry>), Error> {
        let snapshot = self.snapshot()?;
        let mut entries = Vec::new();
        for key in [VERSION_KEY, CATALOG_KEY, MARK_KEY] {
            if let Some(value) = snapshot.stored(key)? {
                entries.push((key, value));
            }
        }
        Ok((Arc::clone(snapshot.catalog()), entries))
    }

    fn copy_parts(
        &self,
        catalog: &Catalog,
        target: &Store,
        (written, copied): (&SyncSender<()>, &SyncSender<CopiedPart>),
        slice_bytes: u64,
        pace: Pace<'_>,
    ) -> Result<bool, Error> {
        let last_slot = catalog.parts().map(|part| part.slot.max(part.side)).max();
        while last_slot.is_some_and(|slot| target.slot_count() <= slot) {
            target.add_slots()?;
        }
        for run in catalog.all_runs() {
            for part in &run.parts {
                for slot in [part.slot, part.side] {
                    let Some(to) = target.slot(slot) else {
                        return Err(Error::Full("sub-databases"));
                    };
                    if !self.copy_slot(
                        (run.number, part),
                        slot,
                        (target, to),
                        (slice_bytes, &mut |bytes| {
                            // Refused = a sync has failed, which is told at the end.
                            written.send(()).map_err(io::Error::other)?;
                            pace(bytes)
                        }),
                    )? {
                        return Ok(false);
                    }
                }
                // Refused = the part before is not as it was, which is told at the end.
                let sent = copied.send((run.number, Arc::clone(part)));
                sent.map_err(io::Error::other)?;
            }
        }
        Ok(true)
    }

    /// Copies one of a part's two slots, slice by slice; `false` = the part is gone.
    fn copy_slot(
        &self,
        (run, part): (u64, &Arc<Part>),
        slot: u16,
        target: (&Store, Db),
        (slice_bytes, pace): (u64, Pace<'_>),
    ) -> Result<bool, Error> {
        let (mut after, mut copied) = (None, 0);
        loop {
            let snapshot = self.snapshot()?;
            if !is_named(snapshot.catalog(), run, part) {
                return Ok(false);
            }
            let trees = snapshot.reader_of(run, part)?.trees;
            let tree = if slot == part.slot {
                trees.rows
            } else {
                trees.side
            };
            let tree = Arc::new(tree.closed());
            let (entries, bytes, last) = slice(&tree, after.as_deref(), target, slice_bytes)?;
            drop(snapshot);
            pace(bytes)?;
            (after, copied) = (last, copied + entries);
            match &after {
                Some(_) => {}
                None if copied == tree.record.entries => return Ok(true),
                None => return Err(Error::damaged(tree.place(), "lacks entries")),
            }
        }
    }
}

/// Syncs a file each time that something was written, and at the end.
fn sync_slices(file: &File, written: Receiver<()>) -> io::Result<()> {
    for () in written {
        file.sync_data()?;
    }
    file.sync_all()
}

/// Reads each part that was copied, as a reader of the copy would.
fn check_parts(
    target: &Store,
    copied: Receiver<CopiedPart>,
    (rules, goes_on): (&dyn Rules, &(dyn Fn() -> bool + Sync)),
) -> Result<(), Error> {
    for (run, part) in copied {
        let txn = target.read()?;
        // What is kept of it belongs to the file that was copied.
        let part = part.unread();
        let reader = PartReader::new(target, run, &part, &txn, rules)?;
        verify_part(reader, &part, goes_on)?;
    }
    Ok(())
}

/// A part with the number of its run.
type CopiedPart = (u64, Arc<Part>);

/// An entry of the catalog's sub-database.
type StoredEntry = (&'static [u8], Vec<u8>);

/// Whether a catalog still has this part as it was.
fn is_named(catalog: &Catalog, run: u64, part: &Part) -> bool {
    let mut parts = catalog
        .all_runs()
        .filter(|one| one.number == run)
        .flat_map(|run| &run.parts);
    parts.any(|one| {
        let places = |part: &Part| (part.slot, part.side, part.rows());
        let sizes = |part: &Part| (part.page_bytes, part.filter_bytes);
        places(one) == places(part) && sizes(one) == sizes(part)
    })
}

/// Copies the entries of a tree that lie behind a key, as many as a slice has. Gives how many there were, their bytes,
/// and the last key if there may be more.
fn slice(
    tree: &Arc<Tree>,
    after: Option<&[u8]>,
    (target, to): (&Store, Db),
    bytes_max: u64,
) -> Result<(u64, u64, Option<Vec<u8>>), Error> {
    let mut cursor = match after {
        None => TreeCursor::first(tree)?,
        Some(key) => TreeCursor::seek(tree, key)?,
    };
    if after.is_some() && cursor.key() == after {
        cursor.next()?;
    }
    let mut wtxn = target.write()?;
    let (mut entries, mut bytes, mut last) = (0, 0, Vec::new());
    while let Some(key) = cursor.key() {
        let value = cursor.value()?;
        to.put_with_flags(&mut wtxn, PutFlags::APPEND, key, &value)?;
        (entries, bytes) = (entries + 1, bytes + (key.len() + value.len()) as u64);
        if bytes >= bytes_max {
            last = key.to_vec();
            break;
        }
        cursor.next()?;
    }
    wtxn.commit()?;
    Ok((entries, bytes, (!last.is_empty()).then_some(last)))
}

/// Writes the catalog, last: with it the slots are an image.
fn enter(target: &Store, entries: &[StoredEntry]) -> Result<(), Error> {
    let mut wtxn = target.write()?;
    for (key, value) in entries {
        target.catalog.put(&mut wtxn, key, value)?;
    }
    Ok(wtxn.commit()?)
}

impl Inner {
    /// Whether merges rest because the image is being copied: as long as no runs pile up.
    pub(super) fn rests(&self) -> bool {
        self.copies.are_made() && self.catalog().level0_runs() < self.options.level0_slow_runs
    }
}
