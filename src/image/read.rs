//! Reading rows of one part: by key and in order, checked and put together.
//!
//! Owns: the way from stored bytes back to key and entry. Promises: what comes out has passed its checksum; a row whose
//! value was cut comes out whole; bytes are copied out of the map. Must not: know about other runs.

use std::borrow::Cow;
use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;

use super::catalog::Part;
use super::entry::{PLAIN_MAX, Pieced, Shape, Stored, decode_piece, piece_key};
use super::env::Db;
use super::filter::{self, Budget, Filter};
use super::keys;
use super::{Entry, Error, Rules};

/// A part, with what is needed to read it.
#[derive(Clone, Copy)]
pub(super) struct PartReader<'t> {
    pub(super) run: u64,
    pub(super) rows_db: Db,
    pub(super) side_db: Db,
    pub(super) txn: &'t RoTxn<'t>,
    pub(super) rules: &'t dyn Rules,
}

/// A stored row that has passed its checksum.
pub(super) struct Row<'t> {
    pub(super) key: Cow<'t, [u8]>,
    stored: Stored<'t>,
}

/// The two ends of a range among stored keys.
type StoredRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl<'t> PartReader<'t> {
    pub(super) fn new(run: u64, part: &Part, txn: &'t RoTxn<'t>, rules: &'t dyn Rules) -> Self {
        PartReader {
            run,
            rows_db: part.rows_db,
            side_db: part.side_db,
            txn,
            rules,
        }
    }

    /// The entry under exactly this key, and how many bytes of it were left out: of a wide row perhaps all but what is
    /// `wanted`.
    pub(super) fn get(
        &self,
        key: &[u8],
        wanted: Option<&[&str]>,
    ) -> Result<Option<(Entry, u64)>, Error> {
        let Some(stored_key) = keys::find(self.run, self.rows_db, self.txn, key)? else {
            return Ok(None);
        };
        let Some(value) = self.rows_db.get(self.txn, stored_key.bytes())? else {
            return Ok(None);
        };
        let stored = self.check(stored_key.bytes(), value)?;
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
            .map(|piece| Ok(Bytes::copy_from_slice(self.piece(pieced.row, piece)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let value = self
            .rules
            .join_picked(pieced.head, wanted, &pieces)
            .map_err(|what| self.damaged(pieced.head, what))?;
        let kind = stored.kind;
        Ok(Some((Entry { kind, value }, left_bytes)))
    }

    /// Walks the rows between two keys, forward.
    pub(super) fn forward(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, Error>> + use<'t>, Error> {
        let reader = *self;
        let range = self.bounds(from, to)?;
        let rows = self.rows_db.range(self.txn, &as_slices(&range))?;
        Ok(rows.map(move |row| reader.row(row?)))
    }

    /// Walks the rows between two keys, backward.
    pub(super) fn backward(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<Row<'t>, Error>> + use<'t>, Error> {
        let reader = *self;
        let range = self.bounds(from, to)?;
        let rows = self.rows_db.rev_range(self.txn, &as_slices(&range))?;
        Ok(rows.map(move |row| reader.row(row?)))
    }

    fn bounds(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<StoredRange, Error> {
        Ok((
            keys::stored_bound(self.run, self.rows_db, self.txn, from, true)?,
            keys::stored_bound(self.run, self.rows_db, self.txn, to, false)?,
        ))
    }

    /// A stored row, checked.
    pub(super) fn row(&self, (stored_key, value): (&'t [u8], &'t [u8])) -> Result<Row<'t>, Error> {
        let stored = self.check(stored_key, value)?;
        let key = match stored.rest {
            None => Cow::Borrowed(stored_key),
            Some(rest) => {
                let head = stored_key.get(..PLAIN_MAX).unwrap_or_default();
                Cow::Owned([head, rest].concat())
            }
        };
        Ok(Row { key, stored })
    }

    fn check<'v>(&self, stored_key: &[u8], value: &'v [u8]) -> Result<Stored<'v>, Error> {
        Stored::parse(value)
            .filter(|stored| stored.is_sound(self.run, stored_key))
            .ok_or_else(|| self.damaged(stored_key, "wrong checksum"))
    }

    /// The entry of a checked row, its pieces put together.
    pub(super) fn entry(&self, stored: &Stored<'_>) -> Result<Entry, Error> {
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
                let pieces: Vec<Bytes> = pieces
                    .iter()
                    .map(|piece| Bytes::copy_from_slice(piece))
                    .collect();
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

    fn pieces<'s>(&self, stored: &Stored<'s>) -> Result<(&'s [u8], Vec<&'t [u8]>), Error> {
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

    fn piece(&self, row: u64, piece: u32) -> Result<&'t [u8], Error> {
        let key = piece_key(row, piece);
        self.side_db
            .get(self.txn, &key)?
            .and_then(|stored| decode_piece(stored, self.run, &key))
            .ok_or_else(|| self.damaged(&key, "a piece is missing or has a wrong checksum"))
    }

    /// The part's filter from its chunks; `None` also if it can't be used.
    pub(super) fn load_filter(
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
            let bytes = self
                .side_db
                .get(self.txn, &key)?
                .and_then(|stored| decode_piece(stored, self.run, &key));
            match bytes {
                Some(bytes) if !bytes.is_empty() => bits.extend_from_slice(bytes),
                _ => return Ok(None),
            }
        }
        Ok(Filter::load(&bits, budget))
    }

    pub(super) fn damaged(&self, key: &[u8], what: &str) -> Error {
        let key = key.get(..64).unwrap_or(key).escape_ascii();
        Error::damaged(format_args!("run {}, key {key}", self.run), what)
    }
}

impl Row<'_> {
    /// The row's entry, put together.
    pub(super) fn entry(&self, reader: &PartReader<'_>) -> Result<Entry, Error> {
        reader.entry(&self.stored)
    }
}

fn as_slices(range: &StoredRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let (from, to) = range;
    (
        from.as_ref().map(|key| &key[..]),
        to.as_ref().map(|key| &key[..]),
    )
}
