//! A sub-database as a tree of checked pages.
//!
//! Owns: what of pages must fit together; blocks of rows are one more level, below the leaves. Promises: a page is only
//! handed out if it has passed its check and is where its parent says: in a tree that was loaded in order a child
//! begins with exactly its separator and ends below the next one, and the first and the last key are those of the
//! catalog. Must not: outlive the transaction that shows the tree.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::super::Error;
use super::super::rows::block;
use super::super::rows::row::Stored;
use super::page::{Content, Kind, Page, compare, leaf_of, u16_at, u32_at, u64_at};
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

/// A page that was reached: the height of its level (1 = the last one), the separator and the next one.
pub(in super::super) struct Link {
    to: To,
    pub(in super::super) height: u16,
    pub(in super::super) lower: Option<Bytes>,
    pub(in super::super) upper: Option<Bytes>,
}

/// Where a link leads.
enum To {
    Page(u64),
    /// The block in this place of a leaf.
    Block(Page, usize),
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

    /// The same tree, whose blocks stay closed: each has passed its checksum, and is handed out as it is stored. None
    /// of its pages is kept.
    pub(in super::super) fn closed(&self) -> Tree {
        let (content, ends) = match self.content {
            Content::Blocks(run) => (Content::Closed(run), None),
            other => (other, self.ends.clone()),
        };
        Tree {
            pages: Arc::clone(&self.pages),
            name: 0,
            content,
            record: self.record,
            ends,
            strange: self.strange.clone(),
            place: self.place.clone(),
        }
    }

    /// The height of leaves: blocks lie below them.
    pub(in super::super) fn leaf_height(&self) -> u16 {
        1 + u16::from(matches!(self.content, Content::Blocks(_)))
    }

    /// Levels that it has.
    pub(in super::super) fn height(&self) -> u16 {
        self.record.depth + self.leaf_height() - 1
    }

    /// What it is, for texts of errors.
    pub(in super::super) fn place(&self) -> &str {
        &self.place
    }

    pub(in super::super) fn root(&self) -> Option<Link> {
        Some(Link {
            to: To::Page(self.record.root?),
            height: self.height(),
            lower: self.ends.as_ref().map(|(first, _)| first.clone()),
            upper: None,
        })
    }

    /// A page, checked and in its place.
    pub(in super::super) fn load(&self, link: &Link, keep: bool) -> Result<Page, Error> {
        let kind = match link.height.cmp(&self.leaf_height()) {
            Ordering::Less => Kind::Block,
            Ordering::Equal => Kind::Leaf,
            Ordering::Greater => Kind::Branch,
        };
        let wanted = Wanted {
            tree: self.name,
            content: self.content,
            kind,
            keep: keep && self.name != 0,
            place: &self.place,
        };
        let (page, number) = match &link.to {
            To::Page(number) => (self.pages.page(*number, wanted)?, *number),
            To::Block(leaf, at) => (self.pages.block(leaf, *at, wanted)?, leaf.number),
        };
        let damaged = |what| Err(self.pages.damaged(number, &self.place, what));
        if self.strange.as_ref().is_some_and(|free| free.has(number)) {
            return damaged("is a page that was free at the start");
        }
        let is_branch = kind == Kind::Branch;
        let compare = |one: &[u8], two: &[u8]| compare(self.content, one, two);
        let last = page.key(page.count() - 1);
        if let Some(lower) = &link.lower {
            let is_loaded = matches!(
                self.content,
                Content::Rows(_) | Content::Blocks(_) | Content::Closed(_) | Content::Loaded
            );
            let first = page.key(usize::from(is_branch).min(page.count() - 1));
            let order = compare(lower, first);
            let fits = match is_branch {
                // The first child's keys come before the first separator that a branch has.
                true => order.is_lt() || page.count() == 1,
                false if is_loaded => order.is_eq(),
                false => order.is_le(),
            };
            if !fits {
                return damaged("begins with another key than it should");
            }
        }
        match (&link.upper, &self.ends) {
            (Some(upper), _) if compare(last, upper).is_ge() => {
                damaged("goes on above the next page's first key")
            }
            (None, Some((_, end))) if page.is_last() && last != &end[..] => {
                damaged("is the last one and ends with another key than it should")
            }
            _ => Ok(page),
        }
    }

    /// The way to a branch's child, or a leaf's block.
    pub(in super::super) fn child(&self, step: &Step, lower: Option<&Bytes>, height: u16) -> Link {
        let (page, at) = (&step.page, step.at);
        Link {
            to: match page.kind {
                Kind::Branch => To::Page(page.child(at)),
                _ => To::Block(page.clone(), at),
            },
            height: height - 1,
            lower: match (at, page.kind) {
                (0, Kind::Branch) => lower.cloned(),
                _ => Some(page.shared_key(at)),
            },
            upper: match at + 1 < page.count() {
                true => Some(page.shared_key(at + 1)),
                false => step.upper.clone(),
            },
        }
    }

    /// What a page of the file has of this tree's rows, or had: pages whose every row passes. Nothing need lead to it.
    /// What was free at the start may be of a commit that never was, and is none.
    pub(in super::super) fn rows_at(&self, number: u64) -> Vec<Page> {
        let strange = self.strange.as_ref();
        let is_strange = strange.is_some_and(|free| free.has(number));
        let read = || self.pages.read(number, 1, &self.place).ok();
        let parsed = |bytes| Page::parse(number, bytes, self.content).ok();
        let page = read().filter(|_| !is_strange).and_then(parsed);
        let Some(leaf) = page.filter(|page| page.kind == Kind::Leaf) else {
            return Vec::new();
        };
        let mut entries = 0..leaf.count();
        if leaf.is_last() {
            let is_ours = entries.all(|at| self.value(&leaf, at).is_ok());
            return if is_ours { vec![leaf] } else { Vec::new() };
        }
        let wanted = Wanted {
            tree: 0,
            content: self.content,
            kind: Kind::Block,
            keep: false,
            place: &self.place,
        };
        let blocks = entries.filter_map(|at| self.pages.block(&leaf, at, wanted).ok());
        blocks.collect()
    }

    /// One of those that [`Tree::rows_at`] gave, by its number.
    pub(in super::super) fn rows_of(&self, number: u64) -> Option<Page> {
        let file_page = match self.content {
            Content::Blocks(_) => leaf_of(number),
            _ => number,
        };
        let mut pages = self.rows_at(file_page).into_iter();
        pages.find(|page| page.number == number)
    }

    /// Pages of the file.
    pub(in super::super) fn page_count(&self) -> u64 {
        self.pages.count().unwrap_or_default()
    }

    /// Hands every page to `seen`, parents first, also those that do not pass, until it says `false`.
    pub(in super::super) fn walk(&self, seen: &mut dyn FnMut(Result<&Page, Error>) -> bool) {
        if let Some(root) = self.root() {
            self.walk_from(root, seen);
        }
    }

    fn walk_from(&self, link: Link, seen: &mut dyn FnMut(Result<&Page, Error>) -> bool) -> bool {
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
        let goes_on = seen(Ok(&page));
        if !goes_on || page.is_last() {
            return goes_on;
        }
        let count = page.count();
        let mut step = Step {
            page,
            at: 0,
            upper: upper.clone(),
        };
        (0..count).all(|at| {
            step.at = at;
            self.walk_from(self.child(&step, lower.as_ref(), *height), seen)
        })
    }

    /// Whether every page and all counts are as the record says; the first that is not.
    pub(in super::super) fn check(&self, seen: &mut dyn FnMut(&Page)) -> Result<(), Error> {
        let mut found = Ok(());
        let (mut branches, mut leaves, mut entries) = (0, 0, 0);
        self.walk(&mut |page| {
            match page {
                Ok(page) => {
                    match page.kind {
                        Kind::Branch => branches += 1,
                        Kind::Leaf => {
                            (leaves, entries) = (leaves + 1, entries + page.count() as u64)
                        }
                        Kind::Block => {}
                    }
                    seen(page);
                }
                Err(error) if found.is_ok() => found = Err(error),
                Err(_) => {}
            }
            true
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
            let is_leaf = page.kind == Kind::Leaf;
            let entries = if is_leaf { page.count() } else { 0 };
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

    /// The value of an entry; a row, or a block, has passed its checksum.
    pub(in super::super) fn value(&self, page: &Page, at: usize) -> Result<Bytes, Error> {
        let value = self.pages.value(page, at, &self.place)?;
        let key = page.key(at);
        let (is_sound, what) = match self.content {
            Content::Rows(run) => {
                let row = Stored::parse(&value);
                (row.is_some_and(|row| row.is_sound(run, key)), "row with")
            }
            Content::Closed(run) => (block::is_sound(run, key, &value), "block of rows from"),
            _ => (true, ""),
        };
        match is_sound {
            true => Ok(value),
            false => Err(self.pages.unsound(page.number, &self.place, (what, key))),
        }
    }
}
