//! Of rows that have one value of a field alike, the first.
//!
//! Owns: the first rows of a segment, one for each value. Promises: memory for as many rows as are wanted: a value
//! whose first row is behind all of these comes back only by a better one. Must not: compare segments.

use std::collections::{BTreeMap, HashMap};

use tantivy::{DocId, Score};

use super::part::{Rank, SegmentPart};

/// The ranks of a row, and the row.
type Place = (Vec<Rank>, DocId);

/// See the top.
pub(super) struct Alike {
    pub(super) part: SegmentPart,
    rows: BTreeMap<Place, (Rank, Score)>,
    first: HashMap<Rank, Place>,
}

impl Alike {
    /// By a field in a segment.
    pub(super) fn new(part: SegmentPart) -> Alike {
        Alike {
            part,
            rows: BTreeMap::new(),
            first: HashMap::new(),
        }
    }

    /// A row that matches, of as many as are wanted at most; whether there is one more now.
    pub(super) fn add(
        &mut self,
        ranks: &[Rank],
        (row, score): (DocId, Score),
        most: usize,
    ) -> bool {
        let value = self.part.rank(row, score);
        let place = (ranks.to_vec(), row);
        let before = self.rows.len();
        if let Some(first) = self.first.get(&value) {
            if place >= *first {
                return false;
            }
            self.rows.remove(first);
        } else if before == most {
            match self.rows.last_entry() {
                Some(last) if place < *last.key() => {
                    let (gone, _) = last.remove();
                    self.first.remove(&gone);
                }
                _ => return false,
            }
        }
        self.first.insert(value, place.clone());
        self.rows.insert(place, (value, score));
        self.rows.len() > before
    }

    /// The rows in order, each with its value.
    pub(super) fn into_rows(self) -> (SegmentPart, impl Iterator<Item = (Place, (Rank, Score))>) {
        (self.part, self.rows.into_iter())
    }
}
