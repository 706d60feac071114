//! Reading rows of one part: by key and in order, checked and put together.
//!
//! Owns: the way from stored bytes back to key and entry. Promises: what comes out has passed its checksum, and what is
//! not there is so by pages that have passed theirs; a row whose value was cut comes out whole. Must not: know about
//! other runs, or let LMDB look a row up: it believes its pages (see `pages/tree.rs`).

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use heed::RoTxn;

use super::super::catalog::Part;
use super::super::env::Store;
use super::super::pages::FreePages;
use super::super::pages::cursor;
use super::super::pages::cursor::TreeCursor;
use super::super::pages::page::{Content, Page};
use super::super::pages::tree::{Tree, Trees};
use super::super::{Entry, Error, Rules};
use super::filter;
use super::filter::{Budget, Filter};
use super::keys;
use super::keys::StoredKey;
use super::row::{PLAIN_MAX, Pieced, Shape, Stored, decode_piece, piece_key};

/// A part, with what is needed to read it.
#[derive(Clone)]
pub(in super::super) struct PartReader<'t> {
    pub(in super::super) run: u64,
    pub(in super::super) trees: Trees,
    /// While it lives no page of the part is used again.
    _txn: &'t RoTxn<'t>,
    pub(in super::super) rules: &'t dyn Rules,
}

/// A stored row that has passed its checksum. It keeps its page in memory.
pub(in super::super) struct Row {
    pub(in super::super) key: Bytes,
    value: Bytes,
}

/// A walk over rows of a part, forward or backward.
pub(in super::super) struct Rows {
    cursor: TreeCursor,
    /// The end that it walks to.
    until: Bound<Vec<u8>>,
    backward: bool,
    /// Whether the cursor is at the row that comes next, and not at the one before it.
    at_next: bool,
}

/// The next tree's name among the kept pages.
static NAMES: AtomicU64 = AtomicU64::new(1);

impl<'t> PartReader<'t> {
    pub(in super::super) fn new(
        store: &Store,
        run: u64,
        part: &Part,
        txn: &'t RoTxn<'t>,
        rules: &'t dyn Rules,
    ) -> Result<Self, Error> {
        let trees = match part.trees.get() {
            Some(trees) => trees.clone(),
            None => {
                let made = trees_of(store, run, part, txn, None)?;
                part.trees.get_or_init(|| made).clone()
            }
        };
        Ok(PartReader {
            run,
            trees,
            _txn: txn,
            rules,
        })
    }

    /// Whether every page of the part fits; the first that does not.
    pub(in super::super) fn check_structure(&self) -> Result<(), Error> {
        self.trees.rows.check_all()?;
        self.trees.side.check_all()
    }

    /// The entry under exactly this key, and how many bytes of it were left out: of a wide row perhaps all but what is
    /// `wanted`.
    pub(in super::super) fn get(
        &self,
        key: &[u8],
        wanted: Option<&[&str]>,
    ) -> Result<Option<(Entry, u64)>, Error> {
        let rows = &self.trees.rows;
        let Some(stored_key) = keys::find(rows, key)? else {
            return Ok(None);
        };
        let Some(value) = cursor::get(rows, stored_key.bytes())? else {
            return Ok(None);
        };
        let stored = self.parse(key, &value)?;
        if let (Shape::Directory, Some(wanted)) = (&stored.shape, wanted)
            && let Some(picked) = self.picked(&stored, wanted)?
        {
            return Ok(Some(picked));
        }
        Ok(Some((self.entry(&stored)?, 0)))
    }

    /// What is wanted of a wide row; `None` = it takes all pieces.
    fn picked(&self, stored: &Stored<'_>, wanted: &[&str]) -> Result<Option<(Entry, u64)>, Error> {
        let pieced = self.pieced(stored)?;
        let Some((picked, left_bytes)) = self.rules.pick(pieced.head, wanted) else {
            return Ok(None);
        };
        let pieces = picked
            .into_iter()
            .map(|piece| self.piece(pieced.row, piece))
            .collect::<Result<Vec<_>, Error>>()?;
        let value = self
            .rules
            .join_picked(pieced.head, wanted, &pieces)
            .map_err(|what| self.damaged(pieced.head, what))?;
        let kind = stored.kind;
        Ok(Some((Entry { kind, value }, left_bytes)))
    }

    /// The key and the entry of one of a leaf's rows, checked.
    pub(in super::super) fn row_at(&self, page: &Page, at: usize) -> Result<(Bytes, Entry), Error> {
        let value = self.trees.rows.value(page, at)?;
        let row = Row::new(page.shared_key(at), value);
        let entry = row.entry(self)?;
        Ok((row.key, entry))
    }

    /// Walks the rows between two keys.
    pub(in super::super) fn rows(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        backward: bool,
    ) -> Result<Rows, Error> {
        let rows = &self.trees.rows;
        let from = keys::stored_bound(rows, from, true)?;
        let to = keys::stored_bound(rows, to, false)?;
        let (begin, until) = if backward { (to, from) } else { (from, to) };
        let mut cursor = match &begin {
            Bound::Unbounded if backward => TreeCursor::end(rows)?,
            Bound::Unbounded => TreeCursor::first(rows)?,
            Bound::Included(key) | Bound::Excluded(key) => TreeCursor::seek(rows, key)?,
        };
        // Backward the cursor begins behind the first row, forward at it.
        let behind = match &begin {
            Bound::Included(key) if backward => cursor.key() == Some(key),
            Bound::Excluded(key) if !backward => cursor.key() == Some(key),
            _ => false,
        };
        if behind {
            cursor.next()?;
        }
        Ok(Rows {
            cursor,
            until,
            backward,
            at_next: true,
        })
    }

    fn parse<'v>(&self, key: &[u8], value: &'v [u8]) -> Result<Stored<'v>, Error> {
        Stored::parse(value).ok_or_else(|| self.damaged(key, "is not a row"))
    }

    /// The entry of a checked row, its pieces put together.
    pub(in super::super) fn entry(&self, stored: &Stored<'_>) -> Result<Entry, Error> {
        let value = match stored.shape {
            Shape::Whole => Bytes::copy_from_slice(stored.body()),
            Shape::Cut => {
                let (head, pieces) = self.pieces(stored)?;
                let mut value = head.to_vec();
                pieces
                    .iter()
                    .for_each(|piece| value.extend_from_slice(piece));
                Bytes::from(value)
            }
            Shape::Directory => {
                let (head, pieces) = self.pieces(stored)?;
                self.rules
                    .join(&Bytes::copy_from_slice(head), &pieces)
                    .map_err(|what| self.damaged(head, what))?
            }
        };
        Ok(Entry {
            kind: stored.kind,
            value,
        })
    }

    fn pieces<'s>(&self, stored: &Stored<'s>) -> Result<(&'s [u8], Vec<Bytes>), Error> {
        let pieced = self.pieced(stored)?;
        let pieces = (0..pieced.count)
            .map(|piece| self.piece(pieced.row, piece))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok((pieced.head, pieces))
    }

    fn pieced<'s>(&self, stored: &Stored<'s>) -> Result<Pieced<'s>, Error> {
        stored
            .pieced()
            .ok_or_else(|| self.damaged(stored.body(), "no count of pieces"))
    }

    fn piece(&self, row: u64, piece: u32) -> Result<Bytes, Error> {
        let key = piece_key(row, piece);
        self.side(&key)?
            .ok_or_else(|| self.damaged(&key, "a piece is missing or has a wrong checksum"))
    }

    /// What the side slot has under a key, if its checksum agrees.
    fn side(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        let stored = cursor::get(&self.trees.side, key)?;
        Ok(stored.and_then(|stored| {
            let bytes = decode_piece(&stored, self.run, key)?;
            Some(stored.slice_ref(bytes))
        }))
    }

    /// The part's filter from its chunks; `None` also if it can't be used.
    pub(in super::super) fn load_filter(
        &self,
        filter_bytes: u64,
        budget: &std::sync::Arc<Budget>,
    ) -> Result<Option<Filter>, Error> {
        let mut bits = Vec::with_capacity(usize::try_from(filter_bytes).unwrap_or_default());
        for chunk in 0.. {
            if bits.len() as u64 >= filter_bytes {
                break;
            }
            let key = filter::chunk_key(chunk);
            match self.side(&key) {
                Ok(Some(bytes)) if !bytes.is_empty() => bits.extend_from_slice(&bytes),
                // Without a filter the rows themselves are asked.
                Ok(_) | Err(Error::Damaged(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Filter::load(&bits, budget))
    }

    pub(in super::super) fn damaged(&self, key: &[u8], what: &str) -> Error {
        let key = key.get(..64).unwrap_or(key).escape_ascii();
        Error::damaged(format_args!("run {}, key {key}", self.run), what)
    }
}

impl Rows {
    /// The next row.
    pub(in super::super) fn next(&mut self) -> Result<Option<Row>, Error> {
        let Rows {
            cursor,
            until,
            backward,
            at_next,
        } = self;
        if *backward {
            if !cursor.previous()? {
                return Ok(None);
            }
        } else if !std::mem::replace(at_next, false) {
            cursor.next()?;
        }
        let Some(stored_key) = cursor.key() else {
            return Ok(None);
        };
        let is_past = match (until, *backward) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end), false) => stored_key.cmp(end).is_gt(),
            (Bound::Excluded(end), false) => stored_key.cmp(end).is_ge(),
            (Bound::Included(end), true) => stored_key.cmp(end).is_lt(),
            (Bound::Excluded(end), true) => stored_key.cmp(end).is_le(),
        };
        // Also of the first row outside: perhaps only its key is, and wrong.
        let value = cursor.value()?;
        match is_past {
            true => Ok(None),
            false => Ok(Some(Row::new(cursor.shared_key(), value))),
        }
    }
}

impl Row {
    /// A row from a page that has passed.
    pub(in super::super) fn new(stored_key: Bytes, value: Bytes) -> Row {
        let rest = Stored::parse(&value).and_then(|stored| stored.rest);
        let key = match rest {
            None => stored_key,
            Some(rest) => {
                let head = stored_key.get(..PLAIN_MAX).unwrap_or_default();
                Bytes::from([head, rest].concat())
            }
        };
        Row { key, value }
    }

    /// The row's entry, put together.
    pub(in super::super) fn entry(&self, reader: &PartReader<'_>) -> Result<Entry, Error> {
        reader.entry(&reader.parse(&self.key, &self.value)?)
    }
}

/// The trees of a part as `txn` shows it; none of their pages is among `strange` ones. The catalog's counts and bounds
/// must be those of the trees.
pub(in super::super) fn trees_of(
    store: &Store,
    run: u64,
    part: &Part,
    txn: &RoTxn<'_>,
    strange: Option<&Arc<FreePages>>,
) -> Result<Trees, Error> {
    let tree = |slot, what, content, ends, entries: Option<u64>| {
        let record = store.record(txn, slot)?;
        let place = format!("run {run}, {what} in slot {slot}");
        if record.flags != 0 || entries.is_some_and(|entries| entries != record.entries) {
            return Err(Error::damaged(place, "its record is not the catalog's"));
        }
        let name = NAMES.fetch_add(1, Ordering::Relaxed);
        let pages = Arc::clone(&store.pages);
        let tree = Tree::new(pages, name, content, record, ends, place);
        Ok(Arc::new(tree.without(strange)))
    };
    let rows = part.rows();
    let stored = |key, row| Bytes::copy_from_slice(StoredKey::new(key, row).bytes());
    let ends = (
        stored(&part.first, 0),
        stored(&part.last, rows.saturating_sub(1)),
    );
    let (content, entries) = match part.blocks {
        0 => (Content::Rows(run), rows),
        blocks => (Content::Blocks(run), blocks),
    };
    Ok(Trees {
        rows: tree(part.slot, "rows", content, Some(ends), Some(entries))?,
        side: tree(part.side, "pieces", Content::Loaded, None, None)?,
    })
}
