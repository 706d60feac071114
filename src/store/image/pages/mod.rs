//! Reading pages of `data.mdb` for ourselves, beside LMDB.
//!
//! Owns: a descriptor of the file and a bounded memory of pages that have passed. Promises: each page is copied out of
//! the file and checked before anything is taken from it, so that damage is an error with the page's number and never a
//! wrong way or a signal; a file that was cut or a disk that fails is the same kind of
//! error. Must not: be asked for a page that the caller's transaction does not protect from being used again.

pub(super) mod cursor;
pub(super) mod page;
pub(super) mod tree;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::Error;
use super::rows::block;
use page::{Content, Data, Kind, PAGE_BYTES, Page};

/// Pages kept of each kind: 16 MiB of branches reach the leaves of about 1 GiB of rows without a call of the system.
const KEPT: usize = 4096;

/// The file's pages.
pub(super) struct Pages {
    file: File,
    path: PathBuf,
    /// Apart, so that many leaves, and unfolded blocks, do not drive out what leads to them.
    branches: Kept,
    leaves: Kept,
}

/// Unused pages: one bit each.
pub(super) struct FreePages {
    bits: Vec<u64>,
}

impl FreePages {
    /// None yet, of a file with so many pages.
    pub(super) fn new(pages: u64) -> FreePages {
        let words = usize::try_from(pages / 64 + 1).unwrap_or_default();
        FreePages {
            bits: vec![0; words],
        }
    }

    pub(super) fn has(&self, page: u64) -> bool {
        let word = usize::try_from(page / 64)
            .ok()
            .and_then(|at| self.bits.get(at));
        word.is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Adds one; `false` = it was there.
    pub(super) fn add(&mut self, page: u64) -> bool {
        let is_new = !self.has(page);
        if let Some(word) = usize::try_from(page / 64)
            .ok()
            .and_then(|at| self.bits.get_mut(at))
        {
            *word |= 1 << (page % 64);
        }
        is_new
    }
}

/// Pages in memory, each in the one place that its name hashes to.
type Kept = Box<[KeptPage]>;
type KeptPage = Mutex<Option<(u64, Page)>>;

fn look_up(name: (u64, u64, Kind), kept: &KeptPage) -> Option<Page> {
    match &*kept.lock().unwrap_or_else(PoisonError::into_inner) {
        Some((of, page)) if (*of, page.number, page.kind) == name => Some(page.clone()),
        _ => None,
    }
}

/// What a page is read for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    /// Names the tree as it was when it was written last: a page number may be used again, its tree's name is not.
    pub(super) tree: u64,
    pub(super) content: Content,
    pub(super) kind: Kind,
    /// Whether it may be wanted again soon.
    pub(super) keep: bool,
    /// For the text of an error.
    pub(super) place: &'w str,
}

impl Pages {
    pub(super) fn open(path: &Path) -> Result<Pages, Error> {
        let kept = || (0..KEPT).map(|_| Mutex::default()).collect();
        Ok(Pages {
            file: File::open(path)?,
            path: path.to_owned(),
            branches: kept(),
            leaves: kept(),
        })
    }

    /// A branch or leaf, checked.
    pub(super) fn page(&self, number: u64, wanted: Wanted<'_>) -> Result<Page, Error> {
        let Wanted {
            tree,
            content,
            kind,
            keep,
            place,
        } = wanted;
        let kept = self.kept((tree, number), kind);
        if let Some(page) = look_up((tree, number, kind), kept) {
            return Ok(page);
        }
        let damaged = |what| self.damaged(number, place, what);
        let bytes = self.read(number, 1, place)?;
        let page = Page::parse(number, bytes, content).map_err(damaged)?;
        if page.kind != kind {
            return Err(damaged("is at another height of its tree"));
        }
        if keep {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((tree, page.clone()));
        }
        Ok(page)
    }

    /// The rows of a leaf's block, checked.
    pub(super) fn block(
        &self,
        leaf: &Page,
        index: usize,
        wanted: Wanted<'_>,
    ) -> Result<Page, Error> {
        let (tree, number) = (wanted.tree, page::block_number(leaf.number, index));
        let kept = self.kept((tree, number), Kind::Block);
        if let Some(rows) = look_up((tree, number, Kind::Block), kept) {
            return Ok(rows);
        }
        let block = self.value(leaf, index, wanted.place)?;
        let key = leaf.key(index);
        let opened = match wanted.content {
            Content::Blocks(run) => block::open(run, key, &block),
            _ => None,
        };
        let Some(rows) = opened else {
            return Err(self.unsound(leaf.number, wanted.place, ("block of rows from", key)));
        };
        let rows = Page::of_block(number, rows, wanted.content);
        if wanted.keep {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((tree, rows.clone()));
        }
        Ok(rows)
    }

    /// The place where a page of a tree is kept, if it is.
    fn kept(&self, (tree, number): (u64, u64), kind: Kind) -> &KeptPage {
        let kept = match kind {
            Kind::Branch => &self.branches,
            Kind::Leaf | Kind::Block => &self.leaves,
        };
        let hash = (number ^ tree.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        &kept[usize::try_from(hash).unwrap_or_default() % KEPT]
    }

    /// A node's data.
    pub(super) fn value(&self, page: &Page, index: usize, place: &str) -> Result<Bytes, Error> {
        match page.data(index) {
            Data::Here(range) => Ok(page.shared(range)),
            Data::Overflow { page: first, bytes } => {
                self.overflow(first, bytes, page.content, place)
            }
        }
    }

    fn overflow(
        &self,
        number: u64,
        bytes: usize,
        content: Content,
        place: &str,
    ) -> Result<Bytes, Error> {
        let count = page::overflow_pages(bytes);
        let read = self.read(number, count, place)?;
        let fits = match page::overflow_at(number, &read) {
            // A list of free pages may have shrunk within its pages.
            Some(found) if content == Content::Lists => found >= count,
            found => found == Some(count),
        };
        match fits {
            true => Ok(read.slice(page::PAGE_HEAD..page::PAGE_HEAD + bytes)),
            false => Err(self.damaged(number, place, "is not the overflow page it should be")),
        }
    }

    /// The overflow pages of a leaf's entry, without their bytes; `None` = it has none.
    pub(super) fn overflow_of(
        &self,
        page: &Page,
        index: usize,
        place: &str,
    ) -> Result<Option<Range<u64>>, Error> {
        let Data::Overflow { page: first, bytes } = page.data(index) else {
            return Ok(None);
        };
        let needed = page::overflow_pages(bytes);
        let found = page::overflow_at(first, &self.read(first, 1, place)?);
        let shrunk = page.content == Content::Lists;
        match found.filter(|found| *found == needed || (shrunk && *found > needed)) {
            Some(count) => Ok(Some(first..first.saturating_add(count as u64))),
            None => Err(self.damaged(first, place, "is not the overflow page it should be")),
        }
    }

    /// Pages as they are in the file.
    pub(super) fn read(&self, number: u64, count: usize, place: &str) -> Result<Bytes, Error> {
        let failed = |error: std::io::Error| {
            let what = format!("cannot be read: {error}");
            self.damaged(number, place, &what)
        };
        let past_end = || self.damaged(number, place, "lies behind the end of the file");
        // A wrong length must not ask for gigabytes.
        if count > 1 && number.saturating_add(count as u64) > self.count().map_err(failed)? {
            return Err(past_end());
        }
        let mut bytes = vec![0; count * PAGE_BYTES];
        let from = number.checked_mul(PAGE_BYTES as u64);
        let from = from.filter(|from| *from < i64::MAX as u64 - bytes.len() as u64);
        let from = from.ok_or_else(past_end)?;
        match self.file.read_exact_at(&mut bytes, from) {
            Ok(()) => Ok(Bytes::from(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(past_end()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whole pages that the file has.
    pub(super) fn count(&self) -> std::io::Result<u64> {
        Ok(self.file.metadata()?.len() / PAGE_BYTES as u64)
    }

    /// A row or a block in this page has a wrong checksum.
    pub(super) fn unsound(&self, number: u64, place: &str, (what, key): (&str, &[u8])) -> Error {
        let key = key.get(..64).unwrap_or(key).escape_ascii();
        let what = format!("wrong checksum of the {what} key {key}");
        self.damaged(number, place, &what)
    }

    pub(super) fn damaged(&self, number: u64, place: &str, what: &str) -> Error {
        let path = self.path.display();
        Error::damaged(format_args!("{path}, page {number} ({place})"), what)
    }
}
