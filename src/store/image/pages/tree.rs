//! A sub-database as a tree of checked pages.
//!
//! Owns: what of pages must fit together. Promises: a page is only handed out if it has passed its check and is
//! where its parent says: in a tree that was loaded in order a child begins with exactly its separator and ends below
//! the next one, and the first and the last key are those of the catalog. Must not: outlive the transaction that shows
//! the tree.

use std::sync::Arc;

use bytes::Bytes;

use super::super::Error;
use super::super::rows::row::Stored;
use super::page::{Content, Page, compare, u16_at, u32_at, u64_at};
use super::{FreePages, Pages, Wanted};

/// Bytes of LMDB's record of a sub-database.
pub(in super::super) const RECORD_BYTES: usize = 48;
/// LMDB's cursors go no deeper.
const DEPTH_MAX: u16 = 32;
/// LMDB's number of no page.
const NONE: u64 = u64::MAX;

/// LMDB's record of a sub-database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Record {
    pub(in super::super) pad: u32,
    pub(in super::super) flags: u16,
    pub(in super::super) depth: u16,
    pub(in super::super) branches: u64,
    pub(in super::super) leaves: u64,
    pub(in super::super) overflows: u64,
    pub(in super::super) entries: u64,
    /// The root page; `None` = nothing is in it.
    pub(in super::super) root: Option<u64>,
}

impl Record {
    /// Takes a record apart; `None` = it can't be one.
    pub(in super::super) fn parse(bytes: &[u8]) -> Option<Record> {
        if bytes.len() != RECORD_BYTES {
            return None;
        }
        let root = u64_at(bytes, 40);
        let record = Record {
            pad: u32_at(bytes, 0),
            flags: u16_at(bytes, 4),
            depth: u16_at(bytes, 6),
            branches: u64_at(bytes, 8),
            leaves: u64_at(bytes, 16),
            overflows: u64_at(bytes, 24),
            entries: u64_at(bytes, 32),
            root: Some(root).filter(|root| *root != NONE),
        };
        let is_empty = record.root.is_none();
        let fits = record.depth <= DEPTH_MAX
            && is_empty == (record.depth == 0)
            && is_empty == (record.entries == 0)
            && is_empty == (record.leaves == 0)
            && (record.depth > 1) == (record.branches > 0);
        fits.then_some(record)
    }
}

/// The two trees of a part.
#[derive(Clone)]
pub(in super::super) struct Trees {
    pub(in super::super) rows: Arc<Tree>,
    pub(in super::super) side: Arc<Tree>,
}

/// One tree as of one commit.
pub(in super::super) struct Tree {
    pages: Arc<Pages>,
    /// Its name among the kept pages; 0 = none of them is kept.
    name: u64,
    content: Content,
    pub(in super::super) record: Record,
    /// The first and the last key, where they are known.
    pub(in super::super) ends: Option<(Bytes, Bytes)>,
    /// Pages that surely are not its own.
    strange: Option<Arc<FreePages>>,
    /// For texts of errors.
    place: String,
}

/// Where a cursor is on one level.
pub(in super::super) struct Step {
    pub(in super::super) page: Page,
    pub(in super::super) at: usize,
    /// The key that all of the page's are below.
    pub(in super::super) upper: Option<Bytes>,
}

/// A page that was reached: its number, the height of its level (1 = leaves), the separator and the next one.
pub(in super::super) struct Link {
    number: u64,
    pub(in super::super) height: u16,
    pub(in super::super) lower: Option<Bytes>,
    pub(in super::super) upper: Option<Bytes>,
}

impl Tree {
    pub(in super::super) fn new(
        pages: Arc<Pages>,
        name: u64,
        content: Content,
        record: Record,
        ends: Option<(Bytes, Bytes)>,
        place: String,
    ) -> Tree {
        Tree {
            pages,
            name,
            content,
            record,
            ends,
            strange: None,
            place,
        }
    }

    /// The same tree, none of whose pages is among `strange` ones. Else an old version of a page, which fits as well as
    /// the page itself does, could take its place.
    pub(in super::super) fn without(mut self, strange: Option<&Arc<FreePages>>) -> Tree {
        self.strange = strange.cloned();
        self
    }

    /// What it is, for texts of errors.
    pub(in super::super) fn place(&self) -> &str {
        &self.place
    }

    pub(in super::super) fn root(&self) -> Option<Link> {
        Some(Link {
            number: self.record.root?,
            height: self.record.depth,
            lower: self.ends.as_ref().map(|(first, _)| first.clone()),
            upper: None,
        })
    }

    /// A page, checked and in its place.
    pub(in super::super) fn load(&self, link: &Link, keep: bool) -> Result<Page, Error> {
        let is_leaf = link.height <= 1;
        let wanted = Wanted {
            tree: self.name,
            content: self.content,
            is_leaf,
            keep: keep && self.name != 0,
            place: &self.place,
        };
        let page = self.pages.page(link.number, wanted)?;
        let damaged = |what| Err(self.pages.damaged(link.number, &self.place, what));
        if self
            .strange
            .as_ref()
            .is_some_and(|free| free.has(link.number))
        {
            return damaged("is a page that was free at the start");
        }
        let compare = |one: &[u8], two: &[u8]| compare(self.content, one, two);
        let last = page.key(page.count() - 1);
        if let Some(lower) = &link.lower {
            let is_loaded = matches!(self.content, Content::Rows(_) | Content::Loaded);
            let first = page.key(usize::from(!is_leaf).min(page.count() - 1));
            let order = compare(lower, first);
            let fits = match is_leaf {
                true if is_loaded => order.is_eq(),
                true => order.is_le(),
                // The first child's keys come before the first separator that a branch has.
                false => order.is_lt() || page.count() == 1,
            };
            if !fits {
                return damaged("begins with another key than it should");
            }
        }
        match (&link.upper, &self.ends) {
            (Some(upper), _) if compare(last, upper).is_ge() => {
                damaged("goes on above the next page's first key")
            }
            (None, Some((_, end))) if is_leaf && last != &end[..] => {
                damaged("is the last one and ends with another key than it should")
            }
            _ => Ok(page),
        }
    }

    /// The way to a branch's child.
    pub(in super::super) fn child(&self, step: &Step, lower: Option<&Bytes>, height: u16) -> Link {
        let (page, at) = (&step.page, step.at);
        Link {
            number: page.child(at),
            height: height - 1,
            lower: match at {
                0 => lower.cloned(),
                _ => Some(page.shared_key(at)),
            },
            upper: match at + 1 < page.count() {
                true => Some(page.shared_key(at + 1)),
                false => step.upper.clone(),
            },
        }
    }

    /// A page of the file that is a leaf of this tree, or was one: every row in it passes. Nothing need lead to it.
    /// What was free at the start may be of a commit that never was, and is none.
    pub(in super::super) fn leaf_at(&self, number: u64) -> Option<Page> {
        let strange = self.strange.as_ref();
        if strange.is_some_and(|free| free.has(number)) {
            return None;
        }
        let bytes = self.pages.read(number, 1, &self.place).ok()?;
        let page = Page::parse(number, bytes, self.content).ok()?;
        let mut rows = 0..page.count();
        let is_ours = page.is_leaf && rows.all(|at| self.value(&page, at).is_ok());
        is_ours.then_some(page)
    }

    /// Pages of the file.
    pub(in super::super) fn page_count(&self) -> u64 {
        self.pages.count().unwrap_or_default()
    }

    /// Hands every page to `seen`, parents first, and goes on after one that does not pass.
    pub(in super::super) fn walk(&self, seen: &mut dyn FnMut(Result<&Page, Error>)) {
        if let Some(root) = self.root() {
            self.walk_from(root, seen);
        }
    }

    fn walk_from(&self, link: Link, seen: &mut dyn FnMut(Result<&Page, Error>)) {
        let Link {
            height,
            lower,
            upper,
            ..
        } = &link;
        let page = match self.load(&link, false) {
            Ok(page) => page,
            Err(error) => return seen(Err(error)),
        };
        seen(Ok(&page));
        if page.is_leaf {
            return;
        }
        let count = page.count();
        let mut step = Step {
            page,
            at: 0,
            upper: upper.clone(),
        };
        for at in 0..count {
            step.at = at;
            self.walk_from(self.child(&step, lower.as_ref(), *height), seen);
        }
    }

    /// Whether every page and all counts are as the record says; the first that is not.
    pub(in super::super) fn check(&self, seen: &mut dyn FnMut(&Page)) -> Result<(), Error> {
        let mut found = Ok(());
        let (mut branches, mut leaves, mut entries) = (0, 0, 0);
        self.walk(&mut |page| match page {
            Ok(page) if page.is_leaf => {
                leaves += 1;
                entries += page.count() as u64;
                seen(page);
            }
            Ok(page) => {
                branches += 1;
                seen(page);
            }
            Err(error) if found.is_ok() => found = Err(error),
            Err(_) => {}
        });
        let record = &self.record;
        if found.is_ok()
            && (branches, leaves, entries) != (record.branches, record.leaves, record.entries)
        {
            let what = "has other pages or entries than its record says";
            return Err(Error::damaged(&self.place, what));
        }
        found
    }

    /// The same, with the heads of overflow pages: all that LMDB follows when it clears the tree.
    pub(in super::super) fn check_all(&self) -> Result<(), Error> {
        let (mut overflows, mut found) = (0, Ok(()));
        self.check(&mut |page| {
            let entries = if page.is_leaf { page.count() } else { 0 };
            for at in 0..entries {
                match self.pages.overflow_of(page, at, &self.place) {
                    Ok(pages) => overflows += pages.map_or(0, |pages| pages.end - pages.start),
                    Err(error) if found.is_ok() => found = Err(error),
                    Err(_) => {}
                }
            }
        })?;
        if found.is_ok() && overflows != self.record.overflows {
            let what = "has other overflow pages than its record says";
            return Err(Error::damaged(&self.place, what));
        }
        found
    }

    /// The value of a leaf's entry; a row has passed its checksum.
    pub(in super::super) fn value(&self, page: &Page, at: usize) -> Result<Bytes, Error> {
        let value = self.pages.value(page, at, &self.place)?;
        if let Content::Rows(run) = self.content {
            let key = page.key(at);
            if !Stored::parse(&value).is_some_and(|row| row.is_sound(run, key)) {
                let key = key.get(..64).unwrap_or(key).escape_ascii();
                let what = format!("wrong checksum of the row with key {key}");
                return Err(self.pages.damaged(page.number, &self.place, &what));
            }
        }
        Ok(value)
    }
}
