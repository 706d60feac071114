//! What can still be read of a damaged image.
//!
//! Owns: which rows are certain. Promises: a row is handed out only if it is the newest that the image had: where a run
//! can't be read, what older runs have under the same keys is nobody's word, unless the log tells what the run had
//! there. Each place that is lost is named. Must not: change the image, or know what a row means.
//!
//! A run that the log reaches back behind is no loss: a key that the log does not have in it was not in the run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::super::catalog::{Part, Source, TableCounts};
use super::super::rows::read::PartReader;
use super::super::snapshot::Snapshot;
use super::super::{Entry, Error, Image, Rules};
use super::spans::{Seen, Span, SpanRows, successor};
use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::{Position, TableId};

/// Keys of a table of which nobody knows what they had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The table.
    pub table: TableId,
    /// The first of these keys. That of the last row before them, and a byte of 0, if there is such a row.
    pub from: Bytes,
    /// The key that all are below: that of the next row, or one right above the last key of a part.
    pub to: Bytes,
}

/// The readable rows of an image.
pub(crate) struct Salvage {
    snapshot: Snapshot,
    rules: Arc<dyn Rules>,
    /// Newest first.
    places: Vec<Place>,
    /// The first batch that the log has.
    log_first: Position,
    /// What the covered part of the log says last of keys in gaps.
    log: BTreeMap<Bytes, Entry>,
    /// Rows of runs that can't be read.
    lost_rows: u64,
}

/// A run, and for which keys it counts.
struct Place {
    run: u64,
    /// It has what happened above this position.
    from: Position,
    above: Option<Bytes>,
    up_to: Option<Bytes>,
    whole: Vec<Span>,
    /// In order of their keys; those of one place in the run one behind the other.
    gaps: Vec<Gap>,
}

impl Image {
    /// Finds out what can be read. Reads all. `log_first` is the first batch that the log has; what it says must be
    /// noted before rows are asked for.
    pub(crate) fn salvage(&self, log_first: Position) -> Result<Salvage, Error> {
        let snapshot = self.snapshot()?;
        let catalog = Arc::clone(snapshot.catalog());
        let (mut places, mut lost_rows) = (Vec::new(), 0);
        for source in catalog.sources() {
            let mut place = Place::new(&source);
            for part in &source.run.parts {
                lost_rows += place.look(&snapshot, part)?;
            }
            places.push(place);
        }
        Ok(Salvage {
            snapshot,
            rules: Arc::clone(&self.inner.rules),
            places,
            log_first,
            log: BTreeMap::new(),
            lost_rows,
        })
    }
}

impl Salvage {
    /// The position that the image covers.
    pub(crate) fn covered(&self) -> Position {
        self.snapshot.covered()
    }

    /// Rows of runs that can't be read, older versions of the same row counted again.
    pub(crate) fn lost_rows(&self) -> u64 {
        self.lost_rows
    }

    /// Takes what a batch of the covered part of the log did; to be called for all, in order.
    pub(crate) fn note(&mut self, entry: &KeyedEntry<'_>) {
        let is_in = |place: &Place| place.lacks(&*self.rules, entry.key);
        if !self.places.iter().any(is_in) {
            return;
        }
        let mut newer = entry.to_entry();
        if newer.kind == EntryKind::Delta
            && let Some(older) = self.log.get(entry.key)
        {
            newer = self.rules.compose(entry.key, older, &newer);
        }
        self.log.insert(Bytes::copy_from_slice(entry.key), newer);
    }

    /// What is lost, after all of the log was noted: in no order, and perhaps some of it twice.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let behind_log = self.places.iter().filter(|place| !self.is_in_log(place));
        let mut gaps: Vec<Gap> = behind_log.flat_map(|place| place.gaps.clone()).collect();
        for (key, entry) in &self.log {
            let lacks = |place: &Place| self.is_in_log(place) && place.lacks(&*self.rules, key);
            if entry.kind == EntryKind::Delta && self.places.iter().any(lacks) {
                gaps.push(Gap {
                    table: self.rules.table(key),
                    from: key.clone(),
                    to: successor(key),
                });
            }
        }
        gaps
    }

    /// The rows that are certain, in order of their keys.
    pub(crate) fn rows(&self) -> SalvagedRows<'_> {
        let walks = self.places.iter().map(|place| Walk {
            salvage: self,
            place,
            left: place.whole.iter().collect(),
            open: None,
        });
        let log = self
            .log
            .iter()
            .filter(|(_, entry)| entry.kind != EntryKind::Delta);
        SalvagedRows {
            salvage: self,
            log: log
                .map(|(key, entry)| (key.clone(), entry.clone()))
                .collect(),
            heads: Vec::new(),
            walks: walks.collect(),
        }
    }

    /// Whether the log has all that happened in a run.
    fn is_in_log(&self, place: &Place) -> bool {
        self.log_first <= place.from.next()
    }

    /// Whether nobody knows what a run had under a key of which the log does not tell all.
    fn is_unknown(&self, place: &Place, key: &[u8]) -> bool {
        place.lacks(&*self.rules, key) && (!self.is_in_log(place) || self.log.contains_key(key))
    }
}

impl Place {
    fn new(source: &Source<'_>) -> Place {
        Place {
            run: source.run.number,
            from: source.run.from,
            above: source.above.map(Bytes::copy_from_slice),
            up_to: source.up_to.map(Bytes::copy_from_slice),
            whole: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn counts_for(&self, key: &[u8]) -> bool {
        self.above.as_ref().is_none_or(|above| above[..] < *key)
            && self.up_to.as_ref().is_none_or(|up_to| *key <= up_to[..])
    }

    /// Of the keys from one on and below another, those for which the run counts: a merge has passed the others.
    fn counted(&self, from: &Bytes, to: &Bytes) -> Option<(Bytes, Bytes)> {
        let above = self.above.as_deref().map(successor);
        let end = self.up_to.as_deref().map(successor);
        let from = above.map_or_else(|| from.clone(), |above| above.max(from.clone()));
        let to = end.map_or_else(|| to.clone(), |end| end.min(to.clone()));
        (from < to).then_some((from, to))
    }

    /// Whether the run may have had something under a key that can't be read.
    fn lacks(&self, rules: &dyn Rules, key: &[u8]) -> bool {
        let at = self.gaps.partition_point(|gap| gap.to[..] <= *key);
        let table = rules.table(key);
        let mut near = self.gaps[at..]
            .iter()
            .take_while(|gap| gap.from[..] <= *key);
        self.counts_for(key) && near.any(|gap| gap.table == table && *key < gap.to[..])
    }

    /// Reads a part; gives how many of its rows are lost.
    fn look(&mut self, snapshot: &Snapshot, part: &Arc<Part>) -> Result<u64, Error> {
        let seen = match snapshot.reader_of(self.run, part) {
            Ok(reader) => Seen::of(&reader, part),
            Err(Error::Damaged(_)) => Seen::nothing(part),
            Err(error) => return Err(error),
        };
        let lost = |of: &TableCounts| {
            let seen = seen.counts.iter().find(|seen| seen.table == of.table);
            of.rows.saturating_sub(seen.map_or(0, |seen| seen.rows))
        };
        for (from, to) in &seen.gaps {
            let Some((from, to)) = self.counted(from, to) else {
                continue;
            };
            let tables = part.counts.iter().filter(|counts| lost(counts) > 0);
            self.gaps.extend(tables.map(|counts| Gap {
                table: counts.table,
                from: from.clone(),
                to: to.clone(),
            }));
        }
        let rows = part.counts.iter().map(lost).sum();
        self.whole.extend(seen.spans);
        Ok(rows)
    }
}

/// A walk over the readable rows of a run.
struct Walk<'s> {
    salvage: &'s Salvage,
    place: &'s Place,
    left: VecDeque<&'s Span>,
    open: Option<(PartReader<'s>, SpanRows, &'s Bytes)>,
}

impl Walk<'_> {
    fn next(&mut self) -> Result<Option<(Bytes, Entry)>, Error> {
        loop {
            if let Some((reader, rows, last)) = &mut self.open {
                let (key, entry) = rows.next(reader)?;
                // What lies behind it may be damaged, and is not asked for.
                if key == **last {
                    self.open = None;
                }
                if self.place.counts_for(&key) {
                    return Ok(Some((key, entry)));
                }
                continue;
            }
            let Some(span) = self.left.pop_front() else {
                return Ok(None);
            };
            let snapshot = &self.salvage.snapshot;
            let reader = snapshot.reader_of(self.place.run, &span.part)?;
            let rows = span.rows(&reader)?;
            self.open = Some((reader, rows, &span.last));
        }
    }
}

/// The rows of [`Salvage::rows`]. After an error there are no more.
pub(crate) struct SalvagedRows<'s> {
    salvage: &'s Salvage,
    log: VecDeque<(Bytes, Entry)>,
    /// The next row of each run, newest run first; empty before the first one is asked for.
    heads: Vec<Option<(Bytes, Entry)>>,
    walks: Vec<Walk<'s>>,
}

impl SalvagedRows<'_> {
    fn step(&mut self) -> Result<Option<(Bytes, Option<Entry>)>, Error> {
        if self.heads.is_empty() {
            let heads: Result<_, Error> = self.walks.iter_mut().map(Walk::next).collect();
            self.heads = heads?;
        }
        let of_log = self.log.front().map(|(key, _)| key);
        let of_runs = self.heads.iter().flatten().map(|(key, _)| key);
        let Some(key) = of_runs.chain(of_log).min().cloned() else {
            return Ok(None);
        };
        let told = self.log.pop_front_if(|(of, _)| *of == key);
        let mut found = told.map(|(_, entry)| entry);
        let (mut is_told, mut is_unknown) = (found.is_some(), false);
        for at in 0..self.heads.len() {
            let place = self.walks[at].place;
            is_unknown |= !is_told && self.salvage.is_unknown(place, &key);
            let Some((_, older)) = self.heads[at].take_if(|(of, _)| *of == key) else {
                continue;
            };
            self.heads[at] = self.walks[at].next()?;
            if !is_told {
                is_told = older.kind != EntryKind::Delta;
                found = Some(match &found {
                    Some(newer) => self.salvage.rules.compose(&key, &older, newer),
                    None => older,
                });
            }
        }
        Ok(Some((key, found.filter(|_| !is_unknown))))
    }
}

impl Iterator for SalvagedRows<'_> {
    type Item = Result<(Bytes, Entry), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, mut entry) = match self.step().transpose()? {
                Ok((key, Some(entry))) => (key, entry),
                Ok((_, None)) => continue,
                Err(error) => {
                    (self.walks, self.heads, self.log) = Default::default();
                    return Some(Err(error));
                }
            };
            if entry.kind == EntryKind::Delta {
                entry = self
                    .salvage
                    .rules
                    .compose(&key, &Entry::tombstone(), &entry);
            }
            // Nothing older is there that a tombstone could hide.
            if entry.kind == EntryKind::Put {
                return Some(Ok((key, entry)));
            }
        }
    }
}
