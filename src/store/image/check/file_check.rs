//! What must hold of LMDB's file before LMDB may open it.
//!
//! Owns: the check of all that LMDB reads without being asked for a row: both meta pages, the records of all
//! sub-databases, the catalog's pages, the lists of free pages. Promises: reads with our own reader only; whatever does
//! not fit is an error that names file, page and what; after it LMDB meets only pages that have passed, until it
//! follows a slot (`slots.rs` and `rows/part.rs` see to these). Must not: read rows, or change the file.

use std::path::Path;
use std::sync::Arc;

use super::super::Error;
use super::super::pages::page::{Content, Data, PAGE_BYTES, Page, u16_at, u32_at, u64_at};
use super::super::pages::tree::{RECORD_BYTES, Record, Tree};
use super::super::pages::{FreePages, Pages};

/// Whether a key and a value of the catalog's sub-database fit.
pub(in super::super) type IsSound = fn(&[u8], &[u8]) -> bool;

const META: u16 = 8;
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
/// LMDB's flags of the lists of free pages: keys are numbers.
const LISTS_FLAGS: u16 = 8;

/// One of the two states that the file holds.
struct Meta {
    lists: Record,
    records: Record,
    last_page: u64,
    transaction: u64,
}

/// LMDB's two meta pages, which it writes when it makes a file. One that is no longer has never held a commit.
pub(in super::super) const META_BYTES: u64 = 2 * PAGE_BYTES as u64;

/// Checks the file at `path`; `are_slots` knows the names of its sub-databases, `is_sound` the values of its catalog.
/// `None` = there is none in which anything was committed: a new one.
pub(in super::super) fn check(
    path: &Path,
    are_slots: fn(&[String]) -> bool,
    is_sound: IsSound,
) -> Result<Option<(Arc<Pages>, FreePages)>, Error> {
    match std::fs::metadata(path) {
        Ok(file) if file.len() > META_BYTES => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let pages = Arc::new(Pages::open(path)?);
    let meta = newest(&pages)?;
    let mut check = Check {
        free: FreePages::new(meta.last_page),
        used: Vec::new(),
        last_page: meta.last_page,
        pages,
        are_slots,
        is_sound,
    };
    check.lists(&meta)?;
    check.records(meta.records)?;
    for page in &check.used {
        if check.free.has(*page) {
            return Err(check.damaged(*page, "list of free pages", "is in use as well"));
        }
    }
    // The file may end before its last page, but only if the missing pages are unused.
    let mut missing = check.pages.count()?..=meta.last_page;
    if let Some(page) = missing.find(|page| !check.free.has(*page)) {
        return Err(check.damaged(page, "meta page", "is in use, but the file ends before it"));
    }
    let Check { pages, free, .. } = check;
    Ok(Some((pages, free)))
}

/// The state that LMDB will take. A transaction writes the meta page of its own parity, so the two follow on each
/// other; a number that is wrong, and not just not written, would bring back an older state.
fn newest(pages: &Pages) -> Result<Meta, Error> {
    let [zero, one] = [meta(pages, 0)?, meta(pages, 1)?];
    let (low, high) = (zero.transaction, one.transaction);
    let is_new = low == 0 && high == 0;
    let follow = low.abs_diff(high) == 1 && low % 2 == 0;
    if !is_new && !follow {
        let what = format!("name transactions {low} and {high}, which do not follow on each other");
        return Err(pages.damaged(0, "meta pages", &what));
    }
    Ok(if low < high { one } else { zero })
}

fn meta(pages: &Pages, number: u64) -> Result<Meta, Error> {
    let damaged = |what| pages.damaged(number, "meta page", what);
    let bytes = pages.read(number, 1, "meta page")?;
    if u64_at(&bytes, 0) != number || u16_at(&bytes, 10) & META == 0 {
        return Err(damaged("is not a meta page"));
    }
    if (u32_at(&bytes, 16), u32_at(&bytes, 20)) != (MAGIC, VERSION) {
        return Err(damaged("is of another format than LMDB 0.9's"));
    }
    // Behind magic, version, address and size of the map.
    let record = |at: usize| Record::parse(bytes.get(at..at + RECORD_BYTES).unwrap_or_default());
    let (Some(lists), Some(records)) = (record(40), record(40 + RECORD_BYTES)) else {
        return Err(damaged("has a record that can't be one"));
    };
    let (last_page, transaction) = (u64_at(&bytes, 136), u64_at(&bytes, 144));
    let fits = lists.pad as usize == PAGE_BYTES
        && lists.flags == LISTS_FLAGS
        && (records.pad, records.flags) == (0, 0)
        && last_page >= 1;
    // The bound is for memory; whether the last page is right shows by the lists of free pages.
    if !fits || last_page > pages.count()?.saturating_mul(64).max(1 << 20) {
        return Err(damaged("has a wrong page size, flags or last page"));
    }
    Ok(Meta {
        lists,
        records,
        last_page,
        transaction,
    })
}

struct Check {
    pages: Arc<Pages>,
    are_slots: fn(&[String]) -> bool,
    is_sound: IsSound,
    free: FreePages,
    /// Pages of the trees that are read here.
    used: Vec<u64>,
    last_page: u64,
}

impl Check {
    fn damaged(&self, page: u64, place: &str, what: &str) -> Error {
        self.pages.damaged(page, place, what)
    }

    /// Reads a whole tree, values too; hands each leaf entry to `seen`.
    fn tree(
        &mut self,
        content: Content,
        record: Record,
        place: &str,
        seen: &mut dyn FnMut(&mut Check, &Page, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pages = Arc::clone(&self.pages);
        let tree = Tree::new(pages, 0, content, record, None, place.to_owned());
        let mut leaves = Vec::new();
        let mut used = Vec::new();
        tree.check(&mut |page| {
            used.push(page.number);
            if page.is_last() {
                leaves.push(page.clone());
            }
        })?;
        for leaf in &leaves {
            for at in 0..leaf.count() {
                if let Some(overflow) = self.pages.overflow_of(leaf, at, place)? {
                    used.extend(overflow);
                }
                seen(self, leaf, at)?;
            }
        }
        if let Some(page) = used.iter().find(|page| **page > self.last_page) {
            return Err(self.damaged(*page, place, "is behind the last page"));
        }
        self.used.extend(used);
        Ok(())
    }

    /// The lists of free pages: each is sorted downward, and no page is in two.
    fn lists(&mut self, meta: &Meta) -> Result<(), Error> {
        let place = "list of free pages";
        let transaction = meta.transaction;
        self.tree(Content::Lists, meta.lists, place, &mut |check, leaf, at| {
            let (pages, number) = (Arc::clone(&check.pages), leaf.number);
            let damaged = |what| Err(pages.damaged(number, place, what));
            if u64_at(leaf.key(at), 0) > transaction {
                return damaged("is of a transaction to come");
            }
            let list = check.pages.value(leaf, at, place)?;
            let count = u64_at(&list, 0);
            if list.len() % 8 != 0 || list.len() < 8 || count > list.len() as u64 / 8 - 1 {
                return damaged("has a wrong length");
            }
            let mut before = u64::MAX;
            for entry in 1..=usize::try_from(count).unwrap_or_default() {
                let page = u64_at(&list, entry * 8);
                if page >= before || page < 2 || page > check.last_page || !check.free.add(page) {
                    return damaged("names a page that can't be there");
                }
                before = page;
            }
            Ok(())
        })
    }

    /// The records of all sub-databases, and what the catalog has.
    fn records(&mut self, records: Record) -> Result<(), Error> {
        let place = "records of sub-databases";
        let (mut names, mut catalog) = (Vec::new(), None);
        self.tree(Content::Records, records, place, &mut |check, leaf, at| {
            let name = String::from_utf8_lossy(leaf.key(at)).into_owned();
            let record = match leaf.data(at) {
                Data::Here(range) => Record::parse(leaf.bytes(range)),
                Data::Overflow { .. } => None,
            };
            let sound = record.filter(|record| {
                let pages = [record.branches, record.leaves, record.overflows];
                (record.pad, record.flags) == (0, 0)
                    && record
                        .root
                        .is_none_or(|root| root >= 2 && root <= check.last_page)
                    && pages.iter().all(|count| *count <= check.last_page)
            });
            let Some(record) = sound else {
                let what = format!("has a wrong record of {}", name.escape_debug());
                return Err(check.damaged(leaf.number, place, &what));
            };
            match name == "catalog" {
                true => catalog = Some(record),
                false => {
                    names.push(name);
                    check.used.extend(record.root);
                }
            }
            Ok(())
        })?;
        let root = records.root.unwrap_or_default();
        let is_whole = (self.are_slots)(&names) && (catalog.is_some() || names.is_empty());
        if !is_whole {
            return Err(self.damaged(root, place, "lacks a name, or has one too many"));
        }
        if let Some(catalog) = catalog {
            let place = "catalog";
            self.tree(Content::Values, catalog, place, &mut |check, leaf, at| {
                let value = check.pages.value(leaf, at, place)?;
                match (check.is_sound)(leaf.key(at), &value) {
                    true => Ok(()),
                    false => Err(check.damaged(leaf.number, place, "has a wrong checksum")),
                }
            })?;
        }
        let mut used = self.used.clone();
        used.sort_unstable();
        match used.array_windows().find(|[one, two]| one == two) {
            Some([page, _]) => Err(self.damaged(*page, place, "is used twice")),
            None => Ok(()),
        }
    }
}
