//! The LMDB environment: opening it, its sub-databases ("slots"), its lock against a second process.
//!
//! Owns: the `unsafe` of the crate, the environment's flags, the handles of all slots, and one setting of glibc for the
//! whole process. Promises: default flags only (a commit is two device flushes and atomic); LMDB opens only a file that
//! has passed (`check/file_check.rs`); slot handles exist before any transaction that can see their content. Must not:
//! know what a run or a row is. Called by `mod.rs` at open and by all that need a transaction.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
#[cfg(target_env = "gnu")]
use std::sync::Once;
use std::sync::{Arc, RwLock};

use heed::types::Bytes as Raw;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::Error;
use super::check::file_check;
use super::check::file_check::IsSound;
use super::pages::page::PAGE_BYTES;
use super::pages::tree::Record;
use super::pages::{FreePages, Pages};
use tideline_base::{disk, faults};

/// A sub-database of plain bytes, in LMDB's own (bytewise) order.
pub(super) type Db = heed::Database<'static, Raw, Raw>;
/// A read transaction that owns its environment and may move between threads.
pub(super) type ReadTxn = RoTxn<'static, WithoutTls>;

/// LMDB's names for its files.
const DATA: &str = "data.mdb";
const LOCK: &str = "lock.mdb";
/// LMDB's table of readers: a head, and 64 bytes for each of [`READERS_MAX`].
const LOCK_BYTES: u64 = 17 * PAGE_BYTES as u64;
/// What an image gets above its file's length at the least, if `map_bytes` would leave it less than half of that.
const MAP_ROOM_BYTES: u64 = 8 << 20;
/// Read transactions open at once. Past it a read fails with `Full`; callers bound themselves below it.
const READERS_MAX: u32 = 1024;
/// Sub-databases, the catalog's included. LMDB clears an array of this length for each transaction.
const DBS_MAX: u16 = 1024;
/// Slots are made this many at a time: making some is a commit of its own.
const SLOT_STEP: u16 = 32;
/// Slots that there can be at most: a whole number of steps, and one sub-database is the catalog.
pub(super) const SLOTS_MAX: u16 = (DBS_MAX - 1) / SLOT_STEP * SLOT_STEP;

/// Whether a directory holds an image, however damaged. One whose making was cut off is none.
pub(super) fn is_there(dir: &Path) -> io::Result<bool> {
    match fs::metadata(dir.join(DATA)) {
        Ok(file) => Ok(file.len() > file_check::META_BYTES),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What an environment is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// No file is made, written to, or expected to be writable.
    Read,
    /// It is made if it is not there; a commit is on disk when it returns.
    Write,
    /// The same, but nothing is on disk before the caller has synced the file: for one that counts only then.
    WriteUnsynced,
}

/// One open environment.
pub(super) struct Store {
    env: Env<WithoutTls>,
    /// The catalog's sub-database.
    pub(super) catalog: Db,
    /// Where LMDB keeps the records of all sub-databases.
    records: Db,
    /// The same file, read without LMDB.
    pub(super) pages: Arc<Pages>,
    /// Pages that were free at the start.
    pub(super) free: Option<Arc<FreePages>>,
    slots: RwLock<Vec<Db>>,
    dir: PathBuf,
    /// Held for as long as the environment is open; `None` where there was nothing to hold, and nothing may be made.
    _lock: Option<File>,
}

impl Store {
    /// Opens the environment in `dir`, which must be on a local file system. `is_sound` says whether an entry of the
    /// catalog is.
    pub(super) fn open(
        dir: &Path,
        map_bytes: usize,
        access: Access,
        is_sound: IsSound,
    ) -> Result<Store, Error> {
        let store = Store::open_files(dir, map_bytes, access, is_sound);
        store.map_err(|error| error.with_room(|| left(dir)))
    }

    fn open_files(
        dir: &Path,
        map_bytes: usize,
        access: Access,
        is_sound: IsSound,
    ) -> Result<Store, Error> {
        let read_only = access == Access::Read;
        if !read_only {
            fs::create_dir_all(dir)?;
        }
        let lock = lock(dir, read_only)?;
        if !read_only {
            fill_lock_file(dir)?;
        }
        let path = dir.join(DATA);
        let is_new = !read_only && !is_there(dir)?;
        if is_new && path.exists() {
            File::options().write(true).open(&path)?.set_len(0)?;
        }
        let checked = file_check::check(&path, are_slots, is_sound)?;
        let env = open_env(dir, map_bytes_needed(dir, map_bytes)?, access)?;
        if is_new {
            // LMDB does not: a power cut in the first commit could leave pages without the two that lead to them.
            File::open(&path)?.sync_all()?;
        }
        let [catalog, records] = open_catalog(&env, read_only)?;
        let store = Store {
            env,
            catalog,
            records,
            pages: match &checked {
                Some((pages, _)) => Arc::clone(pages),
                None => Arc::new(Pages::open(&path)?),
            },
            free: checked.map(|(_, free)| Arc::new(free)),
            slots: RwLock::default(),
            dir: dir.to_owned(),
            _lock: lock,
        };
        store.open_slots()?;
        Ok(store)
    }

    /// Handles for all slots that the file has.
    fn open_slots(&self) -> Result<(), Error> {
        let mut found = Vec::new();
        for step in 0..SLOTS_MAX / SLOT_STEP {
            let rtxn = self.env.read_txn()?;
            let opened = self
                .env
                .open_databases_and_commit(rtxn, |opener, rtxn| {
                    let mut step_slots = [const { None }; SLOT_STEP as usize];
                    for (slot, db) in (step * SLOT_STEP..).zip(&mut step_slots) {
                        *db = opener.open_database::<Raw, Raw>(rtxn, Some(&slot_name(slot)))?;
                    }
                    Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(step_slots))
                })?
                .unwrap_commit();
            let all = opened.iter().all(Option::is_some);
            found.extend(opened.into_iter().map_while(|db| db));
            if !all {
                break;
            }
        }
        *self.slots.write().unwrap_or_else(|held| held.into_inner()) = found;
        Ok(())
    }

    /// Makes some more slots in one commit; `Full` if there can't be more.
    pub(super) fn add_slots(&self) -> Result<(), Error> {
        let have = self.slot_count();
        if have + SLOT_STEP > SLOTS_MAX {
            return Err(Error::Full("sub-databases"));
        }
        let wtxn = self.env.write_txn()?;
        let made = self
            .env
            .create_databases_and_commit(wtxn, |opener, wtxn| {
                let mut made = [const { None }; SLOT_STEP as usize];
                for (slot, db) in (have..).zip(&mut made) {
                    *db = Some(opener.create_database::<Raw, Raw>(wtxn, Some(&slot_name(slot)))?);
                }
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(made))
            })?
            .unwrap_commit();
        let mut slots = self.slots.write().unwrap_or_else(|held| held.into_inner());
        slots.extend(made.into_iter().flatten());
        Ok(())
    }

    /// How many slots there are, used or not.
    pub(super) fn slot_count(&self) -> u16 {
        let slots = self.slots.read().unwrap_or_else(|held| held.into_inner());
        u16::try_from(slots.len()).unwrap_or(u16::MAX)
    }

    /// The file, to be synced.
    pub(super) fn file(&self) -> io::Result<File> {
        File::open(self.dir.join(DATA))
    }

    /// The handle of a slot.
    pub(super) fn slot(&self, slot: u16) -> Option<Db> {
        let slots = self.slots.read().unwrap_or_else(|held| held.into_inner());
        slots.get(usize::from(slot)).copied()
    }

    /// LMDB's record of a slot as a transaction sees it.
    pub(super) fn record(&self, txn: &RoTxn<'_>, slot: u16) -> Result<Record, Error> {
        let name = slot_name(slot);
        let stored = self.records.get(txn, name.as_bytes())?;
        let record = stored.and_then(Record::parse);
        record.ok_or_else(|| Error::damaged(format_args!("slot {name}"), "has no sound record"))
    }

    /// Starts a read transaction: a state of the whole environment that stays as it is.
    pub(super) fn read(&self) -> Result<ReadTxn, Error> {
        Ok(self.env.clone().static_read_txn()?)
    }

    /// Starts the write transaction; waits for another one to end.
    pub(super) fn write(&self) -> Result<RwTxn<'_>, Error> {
        Ok(self.env.write_txn()?)
    }

    /// Whether a commit failed so late that its outcome is unknown. An earlier failure has left nothing: LMDB marks
    /// the environment only when the write of the meta page fails, and refuses all that follows.
    pub(super) fn is_unsettled(&self) -> bool {
        let begun = self.env.read_txn();
        matches!(begun, Err(heed::Error::Mdb(heed::MdbError::Panic)))
    }

    /// Bytes that may still be written; `None` if unknown.
    pub(super) fn left(&self) -> Option<u64> {
        left(&self.dir)
    }

    /// Bytes of the file that have ever been used. The file never shrinks.
    pub(super) fn file_bytes(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * PAGE_BYTES as u64
    }

    /// The last transaction, and bytes of pages that belong to no sub-database. A walk over the sub-databases' own
    /// figures; no page of rows is looked at.
    pub(super) fn free_bytes(&self) -> Result<(u64, u64), Error> {
        let txn = self.read()?;
        let slots: Vec<Db> = {
            let slots = self.slots.read().unwrap_or_else(|held| held.into_inner());
            slots.clone()
        };
        let mut used = self.catalog.stat(&txn)?.non_free_page_size();
        for slot in slots {
            used += slot.stat(&txn)?.non_free_page_size();
        }
        let free = self.file_bytes().saturating_sub(used as u64);
        Ok((self.env.info().last_txn_id as u64, free))
    }

    /// Bytes of the reserved map.
    pub(super) fn map_bytes(&self) -> u64 {
        self.env.info().map_size as u64
    }
}

fn lock(dir: &Path, read_only: bool) -> Result<Option<File>, Error> {
    let name = dir.join("image.lock");
    let file = match read_only {
        true => File::open(name),
        false => File::create(name),
    };
    let file = match file {
        Ok(file) => file,
        // A writer makes it first.
        Err(error) if read_only && error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn left(dir: &Path) -> Option<u64> {
    let data = fs::metadata(dir.join(DATA)).map_or(0, |file| file.len());
    disk::left(dir, data)
}

/// How much to reserve: what the setting says, but never less than the file and room to work in, or a full image could
/// not even be compacted.
fn map_bytes_needed(dir: &Path, map_bytes: usize) -> Result<usize, Error> {
    let file = match fs::metadata(dir.join(DATA)) {
        Ok(file) => file.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(map_bytes),
        Err(error) => return Err(error.into()),
    };
    let room = (file / 4).max(MAP_ROOM_BYTES);
    let needed = (file + room).next_multiple_of(MAP_ROOM_BYTES);
    match file + room / 2 > map_bytes as u64 {
        true => usize::try_from(needed).map_err(|_| Error::AddressSpace(usize::MAX)),
        false => Ok(map_bytes),
    }
}

/// Gives LMDB's table of readers all its bytes before LMDB maps it. In a file with holes the disk could be full when a
/// reader comes first to a page of the table, and that ends the process with SIGBUS. No other descriptor may be opened
/// for this file while LMDB has it open: closing one would drop LMDB's lock.
fn fill_lock_file(dir: &Path) -> Result<(), Error> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, LOCK_BYTES) {
        // A file system that can't: as before.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// The catalog's sub-database, and the one that LMDB keeps the records of all of them in.
fn open_catalog(env: &Env<WithoutTls>, read_only: bool) -> Result<[Db; 2], Error> {
    let name = Some("catalog");
    if !read_only {
        let wtxn = env.write_txn()?;
        let made = env.create_databases_and_commit(wtxn, |opener, wtxn| {
            let catalog = opener.create_database::<Raw, Raw>(wtxn, name)?;
            let records = opener.create_database::<Raw, Raw>(wtxn, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([catalog, records]))
        })?;
        return Ok(made.unwrap_commit());
    }
    let rtxn = env.read_txn()?;
    let opened = env.open_databases_and_commit(rtxn, |opener, rtxn| {
        let catalog = opener.open_database::<Raw, Raw>(rtxn, name)?;
        let records = opener.open_database::<Raw, Raw>(rtxn, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([catalog, records]))
    })?;
    match opened.unwrap_commit() {
        [Some(catalog), Some(records)] => Ok([catalog, records]),
        _ => Err(Error::damaged("catalog", "missing")),
    }
}

/// Whether these are the names of whole steps of slots.
fn are_slots(names: &[String]) -> bool {
    let expected = (0..SLOTS_MAX).map(slot_name).take(names.len());
    names.len().is_multiple_of(usize::from(SLOT_STEP))
        && names.len() <= usize::from(SLOTS_MAX)
        && names.iter().cloned().eq(expected)
}

fn slot_name(slot: u16) -> String {
    format!("p{slot:05}")
}

/// Has LMDB's lists of pages, some MiB of each environment, given back to the system with their environment. By itself
/// glibc raises its limit for large pieces to each large piece that is freed, and keeps smaller pieces in arenas from
/// then on: a MiB for each partition that ended. A limit that is set stays. It holds for all C code of the process.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn give_back_large_pieces() {
    /// From here on a piece is large: glibc's own limit before it has seen any.
    const LARGE_BYTES: libc::c_int = 128 << 10;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: it sets a number of glibc's allocator, under a lock of its own.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        let is_taken = is_set == 1 || cfg!(fuzzing); // a sanitizer has an allocator of its own
        assert!(is_taken, "glibc takes all up to half of an arena");
    });
}

#[allow(unsafe_code)]
fn open_env(dir: &Path, map_bytes: usize, access: Access) -> Result<Env<WithoutTls>, Error> {
    #[cfg(target_env = "gnu")]
    give_back_large_pieces();
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options
        .map_size(map_bytes)
        .max_readers(READERS_MAX)
        .max_dbs(u32::from(DBS_MAX));
    // SAFETY: the map is sound as long as nothing else changes the file behind LMDB's back. The caller holds an
    // exclusive lock on `image.lock` in this directory for the environment's whole life, so no second process of ours
    // opens it; heed refuses a second opening in this process. LMDB's own locking, which has to write, is turned off
    // only for reading, under the same lock or in a copy that has none because it was never written to. Syncs, whose
    // order matters after a power cut, are left out of a file that counts once it is synced whole, and by a test.
    let opened = unsafe {
        if access == Access::Read {
            options.flags(EnvFlags::READ_ONLY | EnvFlags::NO_LOCK);
        } else if access == Access::WriteUnsynced || faults::is_named("image_unsynced") {
            options.flags(EnvFlags::NO_SYNC);
        }
        options.open(dir)
    };
    opened.map_err(|error| match error {
        heed::Error::Io(error) if error.raw_os_error() == Some(Errno::NOMEM.raw_os_error()) => {
            Error::AddressSpace(map_bytes)
        }
        error => error.into(),
    })
}
