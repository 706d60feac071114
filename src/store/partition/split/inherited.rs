//! Which rows a child takes over from its parents.
//!
//! Owns: the look at the parents' rows, all in order or some by their keys. Promises: a row that belongs to no
//! partition, or lies in the wrong one, is an error. Must not: know what a row means; the rules say where it belongs.

use std::iter::Peekable;
use std::ops::Bound;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::super::directory::map::Share;
use super::super::{Direction, OpenError, Owner, ReadError, Rows, Rules, View};
use tideline_base::entry::Entry;

/// What a child takes over, and from which parents.
pub(in super::super) struct Inheritance<'v> {
    share: &'v Share,
    parents: Vec<(&'v Share, &'v View)>,
    rules: &'v dyn Rules,
}

impl<'v> Inheritance<'v> {
    /// For a child with this share; the views show the rows of its parents.
    pub(in super::super) fn new(
        share: &'v Share,
        parents: Vec<(&'v Share, &'v View)>,
        rules: &'v dyn Rules,
    ) -> Inheritance<'v> {
        Inheritance {
            share,
            parents,
            rules,
        }
    }

    /// What the child has under a key; a tombstone = nothing.
    pub(in super::super) fn entry(&self, key: &[u8]) -> Result<Entry, OpenError> {
        let get = |(_, view): &(_, &View)| view.get(key).map_err(damaged);
        let rows: Result<Vec<_>, _> = self.parents.iter().map(get).collect();
        let owner = self.rules.owner(key);
        Ok(self
            .own(owner, key, rows?)?
            .map_or_else(Entry::tombstone, Entry::put))
    }

    /// What the child has under a key of this owner; `None` = nothing.
    fn own(
        &self,
        owner: Option<Owner>,
        key: &[u8],
        mut rows: Vec<Option<Bytes>>,
    ) -> Result<Option<Bytes>, OpenError> {
        let table = self.rules.table(key).0;
        let shown = || key[..key.len().min(64)].escape_ascii();
        match owner {
            Some(Owner::Hash(hash)) => {
                let mut with_rows = self.parents.iter().zip(&rows);
                if with_rows.any(|((parent, _), row)| row.is_some() && !parent.owns(hash)) {
                    return Err(refused(format!(
                        "a row of table {table} is not where it belongs: {}",
                        shown()
                    )));
                }
                let found = rows.into_iter().flatten().next();
                Ok(found.filter(|_| self.share.owns(hash)))
            }
            Some(Owner::Each) if rows.len() == 1 => Ok(rows.remove(0)),
            Some(Owner::Each) => Ok(self.rules.unite(key, &rows)),
            Some(Owner::Nobody) => Ok(None),
            Some(Owner::Unfinished) if rows.iter().all(Option::is_none) => Ok(None),
            Some(Owner::Unfinished) => Err(refused(format!(
                "work is left to do in table {table} ({}); serve the directory for a while and try again",
                shown()
            ))),
            None => Err(refused(format!(
                "nobody says which partition a row of table {table} belongs to: {}",
                shown()
            ))),
        }
    }
}

/// A key, and its row in each parent.
type KeyRows = (Bytes, Vec<Option<Bytes>>);

/// All rows that a child takes over, in order. Unfinished work is left out; its keys are kept.
pub(in super::super) struct Inherited<'v> {
    of: Inheritance<'v>,
    rows: Vec<Peekable<Rows<'v>>>,
    stop: &'v CancellationToken,
    /// Keys of unfinished work.
    pub(in super::super) unfinished: Vec<Bytes>,
    failed: Option<OpenError>,
    count: u64,
    bytes: u64,
    told: Instant,
}

/// How often the log tells how far the copy is.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The clock is read once in so many rows.
const TELL_ROWS: u64 = 4_096;

impl<'v> Inherited<'v> {
    pub(in super::super) fn new(of: Inheritance<'v>, stop: &'v CancellationToken) -> Inherited<'v> {
        let all = |(_, view): &(_, &'v View)| {
            let rows = view.range(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
            rows.peekable()
        };
        Inherited {
            rows: of.parents.iter().map(all).collect(),
            of,
            stop,
            unfinished: Vec::new(),
            failed: None,
            count: 0,
            bytes: 0,
            told: Instant::now(),
        }
    }

    /// Gives the keys of unfinished work, or the error that ended the walk.
    pub(in super::super) fn ended(self) -> Result<Vec<Bytes>, OpenError> {
        tracing::info!(partition = %self.of.share.id, rows = self.count, bytes = self.bytes, "a partition has the rows that there were");
        self.failed.map_or(Ok(self.unfinished), Err)
    }

    /// The next key that a parent has, and its row in each.
    fn next_key(&mut self) -> Result<Option<KeyRows>, OpenError> {
        let mut lowest: Option<Bytes> = None;
        for rows in &mut self.rows {
            match rows.peek() {
                Some(Ok((key, _))) if lowest.as_ref().is_none_or(|lowest| key < lowest) => {
                    lowest = Some(key.clone());
                }
                Some(Err(error)) => return Err(damaged(error.clone())),
                _ => {}
            }
        }
        let Some(lowest) = lowest else {
            return Ok(None);
        };
        let is_it = |row: &Result<(Bytes, Bytes), _>| matches!(row, Ok((key, _)) if *key == lowest);
        let take = |rows: &mut Peekable<Rows<'_>>| Some(rows.next_if(is_it)?.ok()?.1);
        let rows = self.rows.iter_mut().map(take).collect();
        Ok(Some((lowest, rows)))
    }

    fn next_row(&mut self) -> Result<Option<(Bytes, Bytes)>, OpenError> {
        while let Some((key, rows)) = self.next_key()? {
            match self.of.rules.owner(&key) {
                Some(Owner::Unfinished) => self.unfinished.push(key),
                // Others' rows are looked at, too: each must be where it belongs.
                owner => {
                    if let Some(value) = self.of.own(owner, &key, rows)? {
                        return Ok(Some((key, value)));
                    }
                }
            }
            self.pause()?;
        }
        Ok(None)
    }

    /// Ends the walk when the server stops; tells how far it is now and then.
    fn pause(&mut self) -> Result<(), OpenError> {
        if self.stop.is_cancelled() {
            return Err(refused("the server stops".to_owned()));
        }
        if self.count.is_multiple_of(TELL_ROWS) && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            tracing::info!(partition = %self.of.share.id, rows = self.count, bytes = self.bytes, "a partition is being made");
        }
        Ok(())
    }
}

impl Iterator for Inherited<'_> {
    type Item = (Bytes, Entry);

    fn next(&mut self) -> Option<(Bytes, Entry)> {
        let found = self.next_row().and_then(|row| self.pause().map(|()| row));
        match found {
            Ok(row) => {
                let (key, value) = row?;
                self.count += 1;
                self.bytes += (key.len() + value.len()) as u64;
                Some((key, Entry::put(value)))
            }
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
}

pub(in super::super) fn refused(what: String) -> OpenError {
    OpenError::NotReshaped { text: what }
}

pub(in super::super) fn damaged(error: ReadError) -> OpenError {
    OpenError::Damaged { text: error.0 }
}
