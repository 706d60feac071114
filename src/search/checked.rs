//! A search that was checked against its index, and its run over what the index shows.
//!
//! Owns: the walk. Promises: it blocks for as long as its deadline lets it. Must not: wait, or read a row.

use std::sync::{Arc, Mutex};

use tantivy::Searcher;

use tideline_base::ids::TableId;
use tideline_model::search::{Aggregates, Query};

use crate::aggregate::Tree;
use crate::asked::Asked;
use crate::collect::{Found, Hit, Order, OrderPart, Page, PageToken, SortValue, Top, lock};
use crate::index::layout::Layout;
use crate::query::{Compiled, Shows, with_key};

/// A search that was checked against its index.
pub(crate) struct Checked {
    pub(crate) index: TableId,
    pub(crate) layout: Layout,
    pub(crate) query: Query,
    pub(crate) compiled: Compiled,
    /// What is computed is computed of these; `None` = of the same.
    pub(crate) unfiltered: Option<Compiled>,
    pub(crate) order: Arc<Order>,
    /// Of rows that have this field alike, only the first.
    pub(crate) alike: Option<OrderPart>,
    pub(crate) page: Page,
    pub(crate) aggregates: Aggregates,
    /// What is shown of rows beside their columns.
    pub(crate) shows: Option<Shows>,
    /// Rows before the page, and of it.
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    pub(crate) asked: Arc<Asked>,
}

impl Checked {
    /// Runs it.
    pub(crate) fn run(&self, searcher: &Searcher, tree: Option<Tree>) -> tantivy::Result<Found> {
        let whole = self.offset + self.limit;
        let mut after = self.page.after.clone();
        if let Some(key) = &self.page.key {
            // Where the row is by now, if it is there.
            let row = with_key(&self.layout, self.compiled.box_clone(), key);
            let found = searcher.search(&row, &self.top(1, None))?;
            let mut hits = found.hits.into_iter();
            after = hits.next().map(|hit| hit.values).or(after);
        }
        // One more, to know whether there is more.
        let limit = if self.limit == 0 { 0 } else { whole + 1 };
        let mut top = self.top(limit, after);
        let mut tree = tree.map(|tree| Arc::new(Mutex::new(tree)));
        let mut short = None;
        if let (Some(unfiltered), Some(_)) = (&self.unfiltered, &tree) {
            let mut of_all = self.top(0, None);
            of_all.tree = tree.clone();
            short = searcher.search(unfiltered, &of_all)?.short;
        } else {
            top.tree = tree.clone();
        }
        let mut found = searcher.search(&self.compiled, &top)?;
        found.short = short.or(found.short);
        if let (None, Some(tree)) = (found.short, tree.take()) {
            match lock(&tree).result() {
                Ok(aggregated) => found.aggregated = aggregated,
                Err(short) => found.short = Some(short),
            }
        }
        found.short = found.short.or(self.asked.share.short());
        found.is_more = found.hits.len() > whole;
        found.hits.truncate(whole);
        found.hits.drain(..self.offset.min(found.hits.len()));
        Ok(found)
    }

    fn top(&self, limit: usize, after: Option<Vec<SortValue>>) -> Top {
        Top {
            order: Arc::clone(&self.order),
            alike: self.alike.clone(),
            limit,
            after,
            deadline: Arc::clone(&self.asked.deadline),
            share: Arc::clone(&self.asked.share),
            tree: None,
            best: Arc::default(),
        }
    }

    /// The token of what comes behind a row.
    pub(crate) fn behind(&self, hit: &Hit) -> Vec<u8> {
        PageToken::behind(self.index, &self.query, &self.page.sort, hit)
    }
}
