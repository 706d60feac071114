//! What goes out of an index without a row's key.
//!
//! Owns: the removals by time and by number. Promises: what was put behind a removal stays. Must not: decide what has
//! expired or is gone.

use std::ops::Bound;

use tantivy::Term;
use tantivy::collector::Count;
use tantivy::query::{BooleanQuery, Query, RangeQuery, TermQuery};
use tantivy::schema::IndexRecordOption;

use super::layout::Layout;
use super::{Broken, Index, why};
use crate::query::older;
use tideline_model::search::fields;

impl Index {
    /// Whether a row that is found has a newest version from before a time, ms since 1970.
    pub(crate) fn has_older(&self, since_ms: i64) -> Result<bool, Broken> {
        let found = self
            .searcher()
            .search(&older(&self.layout, since_ms), &Count);
        Ok(found.map_err(|error| why(&self.folder, error))? > 0)
    }

    /// Takes out the rows that [`Index::has_older`] looks for.
    pub(crate) fn remove_older(&mut self, since_ms: i64) -> Result<(), Broken> {
        let query = older(&self.layout, since_ms);
        self.remove(Some(query))
    }

    /// Takes out the messages of a timeline with lower numbers.
    pub(crate) fn remove_below(&mut self, timeline: &str, number: i64) -> Result<(), Broken> {
        let query = below(&self.layout, timeline, number);
        self.remove(query)
    }

    /// Whether a message has expired at a time, ms since 1970.
    pub(crate) fn has_expired(&self, now_ms: i64) -> Result<bool, Broken> {
        let Some(query) = expired(&self.layout, now_ms) else {
            return Ok(false);
        };
        let found = self.searcher().search(&*query, &Count);
        Ok(found.map_err(|error| why(&self.folder, error))? > 0)
    }

    /// Takes out the messages that [`Index::has_expired`] looks for.
    pub(crate) fn remove_expired(&mut self, now_ms: i64) -> Result<(), Broken> {
        let query = expired(&self.layout, now_ms);
        query.map_or(Ok(()), |query| self.remove(Some(query)))
    }

    fn remove(&mut self, query: Option<Box<dyn Query>>) -> Result<(), Broken> {
        let Some(query) = query else { return Ok(()) };
        self.is_changed = true;
        let removed = self.writer()?.delete_query(query);
        removed.map(drop).map_err(|error| why(&self.folder, error))
    }
}

fn below(layout: &Layout, timeline: &str, number: i64) -> Option<Box<dyn Query>> {
    let of = |name: &str| layout.field(name).ok()?.at;
    let (timelines, sequences) = (of(fields::TIMELINE)?, of(fields::SEQUENCE)?);
    let name = Term::from_field_text(timelines, timeline);
    let lower = Bound::Excluded(Term::from_field_i64(sequences, number));
    let both: [Box<dyn Query>; 2] = [
        Box::new(TermQuery::new(name, IndexRecordOption::Basic)),
        Box::new(RangeQuery::new(Bound::Unbounded, lower)),
    ];
    Some(Box::new(BooleanQuery::intersection(both.into())))
}

fn expired(layout: &Layout, now_ms: i64) -> Option<Box<dyn Query>> {
    let expires = layout.field(fields::EXPIRES).ok()?.at?;
    let now = Bound::Included(Term::from_field_i64(expires, now_ms));
    Some(Box::new(RangeQuery::new(Bound::Unbounded, now)))
}
