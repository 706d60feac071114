//! The rows of a damaged part that can be read, and what lies between them.
//!
//! Owns: what is one right behind the other, and what may be missing. Promises: between two rows of a span there was no
//! other; where nothing leads to a leaf any more, it is looked for in the whole file: a run's rows never change, so one
//! that passes under the run's number is the run's, whatever has become of its page. Must not: decide what a gap means.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::super::catalog::{Part, TableCounts};
use super::super::rows::part::count_row;
use super::super::rows::read::{PartReader, Rows};
use super::super::{Entry, Error};

/// Rows of a part, one right behind the other.
pub(super) struct Span {
    pub(super) part: Arc<Part>,
    first: Bytes,
    pub(super) last: Bytes,
    /// The page (or block) and the places in it, where no other page leads to it.
    stray: Option<(u64, Range<usize>)>,
}

/// A walk over a span's rows.
pub(super) enum SpanRows {
    InTree(Rows),
    Stray(std::vec::IntoIter<(Bytes, Entry)>),
}

impl Span {
    pub(super) fn rows(&self, reader: &PartReader<'_>) -> Result<SpanRows, Error> {
        let Some((page, places)) = &self.stray else {
            let (from, to) = (
                Bound::Included(&self.first[..]),
                Bound::Included(&self.last[..]),
            );
            return Ok(SpanRows::InTree(reader.rows(from, to, false)?));
        };
        let page = reader.trees.rows.rows_of(*page);
        let page = page.ok_or_else(|| reader.damaged(&self.first, "is not where it was"))?;
        let rows: Result<Vec<_>, Error> =
            places.clone().map(|at| reader.row_at(&page, at)).collect();
        Ok(SpanRows::Stray(rows?.into_iter()))
    }
}

impl SpanRows {
    /// The next row; the caller knows that there is one.
    pub(super) fn next(&mut self, reader: &PartReader<'_>) -> Result<(Bytes, Entry), Error> {
        let row = match self {
            SpanRows::Stray(rows) => rows.next(),
            SpanRows::InTree(rows) => match rows.next()? {
                Some(row) => Some((Bytes::copy_from_slice(&row.key), row.entry(reader)?)),
                None => None,
            },
        };
        row.ok_or_else(|| reader.damaged(&[], "a row is not where it was"))
    }
}

/// What was met in a part.
pub(super) struct Seen {
    pub(super) counts: Vec<TableCounts>,
    /// In order.
    pub(super) spans: Vec<Span>,
    /// In order; from the first key on, below the second one.
    pub(super) gaps: Vec<(Bytes, Bytes)>,
    /// Something behind the last row could not be read.
    is_broken: bool,
}

impl Seen {
    /// All of a part is lost.
    pub(super) fn nothing(part: &Part) -> Seen {
        Seen {
            gaps: vec![(part.first.clone(), successor(&part.last))],
            ..Seen::none()
        }
    }

    fn none() -> Seen {
        Seen {
            counts: Vec::new(),
            spans: Vec::new(),
            gaps: Vec::new(),
            is_broken: false,
        }
    }

    /// Reads a part.
    pub(super) fn of(reader: &PartReader<'_>, part: &Arc<Part>) -> Seen {
        let mut seen = Seen::none();
        reader.trees.rows.walk(&mut |page| {
            match page {
                Err(_) => seen.is_broken = true,
                Ok(page) if page.is_last() => {
                    for at in 0..page.count() {
                        seen.take(reader, part, reader.row_at(page, at));
                    }
                }
                Ok(_) => {}
            }
            true
        });
        if seen.is_broken {
            seen.breaks(part, successor(&part.last));
            seen.find_strays(reader, part);
        }
        // Each row may fit, and some not be those that were written: nobody knows which.
        match seen.gaps.is_empty() && !is_same(&seen.counts, &part.counts) {
            true => Seen::nothing(part),
            false => seen,
        }
    }

    fn take(
        &mut self,
        reader: &PartReader<'_>,
        part: &Arc<Part>,
        row: Result<(Bytes, Entry), Error>,
    ) {
        let last = self.spans.last().map(|span| &span.last);
        let is_next = |key: &Bytes| last.map_or(part.first <= *key, |last| last < key);
        let (key, entry) = match row {
            Ok((key, entry)) if is_next(&key) && key <= part.last => {
                (Bytes::copy_from_slice(&key), entry)
            }
            _ => {
                self.is_broken = true;
                return;
            }
        };
        count_row(&mut self.counts, reader.rules, &key, &entry);
        if std::mem::take(&mut self.is_broken) {
            self.breaks(part, key.clone());
        } else if let Some(span) = self.spans.last_mut() {
            span.last = key;
            return;
        }
        self.spans.push(Span {
            part: Arc::clone(part),
            first: key.clone(),
            last: key,
            stray: None,
        });
    }

    /// What lies behind the last row, up to a key, is lost.
    fn breaks(&mut self, part: &Part, to: Bytes) {
        let last = self.spans.last();
        let from = last.map_or_else(|| part.first.clone(), |span| successor(&span.last));
        self.gaps.push((from, to));
    }

    /// Looks for the rows of the gaps in all pages of the file.
    fn find_strays(&mut self, reader: &PartReader<'_>, part: &Arc<Part>) {
        let tree = &reader.trees.rows;
        let mut found: BTreeMap<Bytes, (u64, usize)> = BTreeMap::new();
        for page in (0..tree.page_count()).flat_map(|number| tree.rows_at(number)) {
            for at in 0..page.count() {
                let Ok((key, entry)) = reader.row_at(&page, at) else {
                    continue;
                };
                let key = Bytes::copy_from_slice(&key);
                let gap = self.gaps.partition_point(|(_, to)| *to <= key);
                if self.gaps.get(gap).is_none_or(|(from, _)| key < *from) {
                    continue;
                }
                // An older state of the page has the same rows.
                if let Place::Vacant(place) = found.entry(key) {
                    count_row(&mut self.counts, reader.rules, place.key(), &entry);
                    place.insert((page.number, at));
                }
            }
        }
        let is_all = is_same(&self.counts, &part.counts);
        let gaps = std::mem::take(&mut self.gaps);
        for (from, to) in gaps {
            let mut from = from;
            let mut spans: Vec<Span> = Vec::new();
            for (key, (page, at)) in found.range(from.clone()..to.clone()) {
                let last = spans.last_mut();
                let last = last.filter(|last| last.stray == Some((*page, last.begin()..*at)));
                if let Some(last) = last {
                    (last.last, last.stray) = (key.clone(), Some((*page, last.begin()..at + 1)));
                } else {
                    self.gaps.push((from, key.clone()));
                    spans.push(Span {
                        part: Arc::clone(part),
                        first: key.clone(),
                        last: key.clone(),
                        stray: Some((*page, *at..at + 1)),
                    });
                }
                from = successor(key);
            }
            self.gaps.push((from, to));
            self.spans.extend(spans);
        }
        self.spans.sort_by(|one, other| one.first.cmp(&other.first));
        if is_all {
            self.gaps.clear();
        }
    }
}

impl Span {
    fn begin(&self) -> usize {
        self.stray.as_ref().map_or(0, |(_, places)| places.start)
    }
}

/// Whether two lists count the same rows; those that were found out of order are listed so.
fn is_same(one: &[TableCounts], other: &[TableCounts]) -> bool {
    let is_in = |counts: &TableCounts| other.contains(counts);
    one.len() == other.len() && one.iter().all(is_in)
}

/// The first key above one.
pub(super) fn successor(key: &[u8]) -> Bytes {
    Bytes::from([key, &[0]].concat())
}
