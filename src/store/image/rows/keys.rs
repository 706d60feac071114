//! How a caller's key is stored under LMDB's limit of 511 bytes, in exact order.
//!
//! Owns: the scheme. A key of up to 500 bytes is stored as it is. A longer one is stored under its first 500 bytes
//! followed by its row number in the part (8 bytes, big-endian); its rest lies in the value. Promises: stored keys of a
//! part sort as the keys do: those that share their first 500 bytes are neighbours in any sorted order, a part is
//! written in that order, so their row numbers rise without a gap, and the key of just those 500 bytes is a prefix of
//! theirs and comes first. Must not: look into keys.

use std::ops::Bound;
use std::sync::Arc;

use super::super::Error;
use super::super::pages::cursor;
use super::super::pages::cursor::TreeCursor;
use super::super::pages::tree::Tree;
use super::row::{PLAIN_MAX, Stored};

/// The length of every stored long key; no plain key has it.
pub(in super::super) const LONG_LEN: usize = PLAIN_MAX + 8;
/// The longest key that callers may use: its rest must leave room for a value in a page-shaped piece.
pub(in super::super) const KEY_MAX: usize = 16 * 1024;

/// A key as it is stored.
#[allow(clippy::large_enum_variant)] // lives on the stack for one look-up or put; a box would cost more
pub(in super::super) enum StoredKey<'a> {
    Plain(&'a [u8]),
    Long([u8; LONG_LEN], &'a [u8]),
}

impl<'a> StoredKey<'a> {
    /// The stored form of `key` as row number `row` of its part.
    pub(in super::super) fn new(key: &'a [u8], row: u64) -> StoredKey<'a> {
        if key.len() <= PLAIN_MAX {
            return StoredKey::Plain(key);
        }
        let (head, rest) = key.split_at(PLAIN_MAX);
        StoredKey::Long(long_key(head, row), rest)
    }

    /// What LMDB gets as key.
    pub(in super::super) fn bytes(&self) -> &[u8] {
        match self {
            StoredKey::Plain(key) => key,
            StoredKey::Long(key, _) => key,
        }
    }

    /// What of the key lies in the value.
    pub(in super::super) fn rest(&self) -> Option<&'a [u8]> {
        match self {
            StoredKey::Plain(_) => None,
            StoredKey::Long(_, rest) => Some(rest),
        }
    }
}

fn long_key(head: &[u8], row: u64) -> [u8; LONG_LEN] {
    let mut stored = [0; LONG_LEN];
    stored[..PLAIN_MAX].copy_from_slice(head);
    stored[PLAIN_MAX..].copy_from_slice(&row.to_be_bytes());
    stored
}

/// The first and last row number of the long keys in `rows` that begin with `head`.
fn group(rows: &Arc<Tree>, head: &[u8]) -> Result<Option<(u64, u64)>, Error> {
    let row = |found: Option<&[u8]>| {
        let tail = found?.strip_prefix(head)?;
        Some(u64::from_be_bytes(tail.try_into().ok()?))
    };
    let mut first = TreeCursor::seek(rows, head)?;
    if first.key() == Some(head) {
        first.next()?;
    }
    let Some(first) = row(first.key()) else {
        return Ok(None);
    };
    let end = long_key(head, u64::MAX);
    let mut last = TreeCursor::seek(rows, &end)?;
    if last.key() != Some(&end) && !last.previous()? {
        return Ok(None);
    }
    Ok(row(last.key()).map(|last| (first, last)))
}

/// Where a long key belongs among those that share its head.
struct LowerBound {
    /// The row number of the first that is not below it; one past the last if all are.
    row: u64,
    /// Whether that one is it.
    equal: bool,
}

/// Finds it by bisection over the row numbers; `None` if no long key of the part shares the head.
/// A row that is missing on the way is damage: it must not show as "not there".
fn lower_bound(rows: &Arc<Tree>, key: &[u8]) -> Result<Option<LowerBound>, Error> {
    let (head, rest) = key.split_at(PLAIN_MAX);
    let Some((first, last)) = group(rows, head)? else {
        return Ok(None);
    };
    let (mut low, mut high) = (first, last + 1);
    let mut equal = false;
    while low < high {
        let middle = low + (high - low) / 2;
        let probed = long_key(head, middle);
        let value = cursor::get(rows, &probed)?;
        let stored = value
            .as_deref()
            .and_then(Stored::parse)
            .and_then(|row| row.rest)
            .ok_or_else(|| {
                let place =
                    format_args!("{}, long keys {}", rows.place(), key[..64].escape_ascii());
                Error::damaged(place, "a row is missing")
            })?;
        if stored < rest {
            low = middle + 1;
        } else {
            equal |= stored == rest;
            high = middle;
        }
    }
    Ok(Some(LowerBound { row: low, equal }))
}

/// The stored key under which `key` lies in `rows`, if it is a long one that is there; a short one comes back as it is.
pub(in super::super) fn find<'k>(
    rows: &Arc<Tree>,
    key: &'k [u8],
) -> Result<Option<StoredKey<'k>>, Error> {
    if key.len() <= PLAIN_MAX {
        return Ok(Some(StoredKey::Plain(key)));
    }
    Ok(match lower_bound(rows, key)? {
        Some(bound) if bound.equal => Some(StoredKey::new(key, bound.row)),
        _ => None,
    })
}

/// The bound among stored keys that cuts where `bound` cuts among keys. `lower` says which end of a range it is.
pub(in super::super) fn stored_bound(
    rows: &Arc<Tree>,
    bound: Bound<&[u8]>,
    lower: bool,
) -> Result<Bound<Vec<u8>>, Error> {
    let (key, included) = match bound {
        Bound::Unbounded => return Ok(Bound::Unbounded),
        Bound::Included(key) => (key, true),
        Bound::Excluded(key) => (key, false),
    };
    if key.len() <= PLAIN_MAX {
        return Ok(bound.map(<[u8]>::to_vec));
    }
    let head = &key[..PLAIN_MAX];
    let Some(bound) = lower_bound(rows, key)? else {
        // Nothing shares the head but perhaps the key that is the head: it is below, all other neighbours are not.
        return Ok(match lower {
            true => Bound::Excluded(head.to_vec()),
            false => Bound::Included(head.to_vec()),
        });
    };
    // Cut before `row`, or after it if it is the key itself and belongs to the lower side of the cut.
    let after = bound.equal && (included != lower);
    let cut = long_key(head, bound.row + u64::from(after)).to_vec();
    Ok(match lower {
        true => Bound::Included(cut),
        false => Bound::Excluded(cut),
    })
}
