//! Searching: the way of one search from its words to rows.
//!
//! Owns: the steps of Search and ParallelScan. Promises: rows are shown as they are when they are read, and those that
//! are gone by then are left out; whatever was not waited for or not looked at is said. Must not: decide rights.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tideline_base::bounds::Resource;
use tideline_model::search::{
    Aggregated, Aggregates, Bool, Columns, Highlight, InvalidSearch, Query, Scan, Search,
    SearchIndex, Shown, Sort, Sorter, Total,
};
use tideline_model::{Error, KeyValue, RowSink, Selection};
use tideline_table::{Table, key_values};

use crate::aggregate::Tree;
use crate::asked::Asked;
use crate::checked::Checked;
use crate::collect::{Found, OF_ONE_MAX, Order, OrderPart, Page, PageToken, Short};
use crate::deadline::Deadline;
use crate::follow::{Snapshot, since};
use crate::index::layout::Layout;
use crate::query::{compile, living, shows};
use crate::searches::Searches;

/// The rows of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits<Rows> {
    /// In order, each with its score if rows are sorted by it.
    pub rows: Vec<(Rows, Option<f32>)>,
    /// What is shown of each of them; empty = nothing was asked for.
    pub shown: Vec<Shown>,
    /// Rows that `aggregated` names, by their encoded keys.
    pub named: BTreeMap<Vec<u8>, Rows>,
    /// How many rows match, if it was asked for.
    pub total: Option<u64>,
    /// What was computed of all that match.
    pub aggregated: Aggregated,
    /// Whether everything was waited for and looked at.
    pub is_all: bool,
    /// Behind which the next page goes on; `None` = that was all.
    pub next: Option<Vec<u8>>,
}

/// How long a search may take, if its caller does not say, and at most.
const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// Rows of a page with columns that are not in the index.
const LIMIT_OF_TABLE: usize = 100;
/// A page ends after so many bytes of rows; so many are read at a time.
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;

impl Searches {
    /// Searches in an index of a table as it is described now.
    #[allow(clippy::too_many_lines)] // one step after the other
    pub async fn search<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        index: &str,
        search: Search,
    ) -> Result<Hits<Rows>, Error> {
        let index = self.definition(table, index)?;
        let (began, figures) = (Instant::now(), &self.inner.figures);
        let selection = selection(table, index, &search.columns)?;
        if search.limit > LIMIT_OF_TABLE && !is_of_index(table, index, &search.columns) {
            let range = InvalidSearch::Range("limit", 0, LIMIT_OF_TABLE);
            return Err(Error::Search(range));
        }
        // A page by score of an index that has no order does not go on.
        // Nor does one of rows that are unlike: which these are follows from all before.
        let goes_on = search.collapse.is_none()
            && (search.sort.is_some() || search.token.is_some() || !index.schema.order.is_empty());
        if search.token.is_some() && search.collapse.is_some() {
            return Err(Error::Search(InvalidSearch::WithToken("collapse")));
        }
        let counts = search.total == Total::All;
        let layout = Layout::new(&index.schema);
        let (query, unfiltered) = filtered(search.query, search.filter);
        let page = match &search.token {
            None => Page::first(index.schema.sort(search.sort)),
            Some(token) => {
                let page = PageToken::read(token, index.id, &query, &layout);
                let page = page.map_err(Error::Search)?;
                // Some clients say the order of the first page once more.
                let is_same = |sort: Sort| index.schema.sort(Some(sort)) == page.sort;
                if !search.sort.is_none_or(is_same) {
                    return Err(Error::Search(InvalidSearch::WithToken("sort")));
                }
                page
            }
        };
        let alike = search.collapse.as_ref();
        let alike = alike.map(|field| OrderPart::alike(&layout, field));
        let alike = alike.transpose().map_err(Error::Search)?;
        let (of, window) = ((&**table, index), (search.offset, search.limit, alike));
        let asked = (query, unfiltered, search.aggregates);
        let asked = (asked, &search.highlight);
        let checked = self.checked(of, layout, asked, page, window, search.timeout_ms)?;
        let (snapshot, is_covered) = self
            .covered(
                checked.index,
                checked.asked.deadline.at,
                checked.asked.since_ms,
            )
            .await;
        if !is_covered {
            // The index may have been deleted meanwhile.
            let table = self.inner.tables.any(&table.name).await?;
            self.definition(&table, &index.name)?;
        }
        let found = match snapshot {
            Some(snapshot) => self.found(&checked, snapshot).await?,
            None => Found::default(),
        };
        let total = counts.then_some(found.count);
        let is_all = found.is_all && is_covered;
        let (rows, keys, read) = self.rows(table, &found, &selection).await?;
        let shown = match &checked.shows {
            Some(_) => self.shown(table, &checked, keys).await?,
            None => Vec::new(),
        };
        let is_all = is_all && !checked.asked.deadline.was_over();
        let named = self.named(table, &found.aggregated, &selection).await?;
        if read < found.hits.len() && !goes_on {
            return Err(Error::Search(InvalidSearch::Memory(PAGE_BYTES_MAX >> 20)));
        }
        let is_more = found.is_more || read < found.hits.len();
        let next = found.hits[..read].last().filter(|_| is_more && goes_on);
        let next = next.map(|hit| checked.behind(hit));
        figures.searches.increment(1);
        figures.incomplete.increment(u64::from(!is_all));
        figures.seconds.record(began.elapsed().as_secs_f64());
        Ok(Hits {
            rows,
            shown,
            named,
            total,
            aggregated: found.aggregated,
            is_all,
            next,
        })
    }

    /// Begins a scan of an index: returns its session.
    pub fn begin_scan(&self, table: &Table, index: &str) -> Result<Vec<u8>, Error> {
        let index = self.definition(table, index)?;
        let bound = self.bound(Resource::Scans);
        self.inner.scans.begin(index.id, (bound, self.holder))
    }

    /// Does a step of a scan: a step with rows has a token, the last one has neither.
    pub async fn scan<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        index: &str,
        scan: Scan,
    ) -> Result<Hits<Rows>, Error> {
        let index = self.definition(table, index)?;
        let selection = selection(table, index, &scan.columns)?;
        let alive = Duration::from_millis(scan.alive_ms);
        let layout = Layout::new(&index.schema);
        let page = match &scan.token {
            None => Page::first(Sort {
                sorters: vec![Sorter::Key { is_desc: false }],
                keys_last: true,
            }),
            Some(token) => {
                PageToken::read(token, index.id, &scan.query, &layout).map_err(Error::Search)?
            }
        };
        let (of, window) = ((&**table, index), (0, scan.limit, None));
        let asked = (scan.query, None, Aggregates::default());
        let asked = (asked, &Highlight::default());
        let checked = self.checked(of, layout, asked, page, window, scan.timeout_ms)?;
        let scans = &self.inner.scans;
        let kept = match &scan.session {
            Some(session) => scans.step(session, index.id, alive)?,
            None => None,
        };
        let (snapshot, is_covered) = match kept {
            Some(snapshot) => (Some(snapshot), true),
            None => {
                self.covered(
                    checked.index,
                    checked.asked.deadline.at,
                    checked.asked.since_ms,
                )
                .await
            }
        };
        let snapshot = snapshot.filter(|_| is_covered).ok_or(Error::Busy)?;
        if let Some(session) = &scan.session {
            scans.keep(session, snapshot.clone());
        }
        let found = self.found(&checked, snapshot).await?;
        self.inner.figures.searches.increment(1);
        if !found.is_all {
            return Err(Error::Busy);
        }
        let (rows, _, read) = self.rows(table, &found, &selection).await?;
        let next = found.hits[..read].last().map(|hit| checked.behind(hit));
        if let (None, Some(session)) = (&next, &scan.session) {
            scans.end(session);
        }
        Ok(Hits {
            rows,
            shown: Vec::new(),
            named: BTreeMap::new(),
            total: None,
            aggregated: Aggregated::default(),
            is_all: true,
            next,
        })
    }

    /// A search, if its index can do it.
    fn checked(
        &self,
        (table, index): (&Table, &SearchIndex),
        layout: Layout,
        ((query, unfiltered, aggregates), highlight): (Computed, &Highlight),
        page: Page,
        (offset, limit, alike): (usize, usize, Option<OrderPart>),
        timeout_ms: Option<u64>,
    ) -> Result<Arc<Checked>, Error> {
        let asked = Arc::new(Asked {
            deadline: Arc::new(Deadline::new(until(timeout_ms))),
            share: Arc::new(self.memory()),
            since_ms: since(table, index, self.inner.tables.search_ms()),
            limit,
        });
        let shows = shows(&layout, &asked, (&query, highlight)).map_err(Error::Search)?;
        let compiled = compile(&layout, &asked, &query).map_err(Error::Search)?;
        let unfiltered = unfiltered.map(|query| compile(&layout, &asked, &query));
        let unfiltered = unfiltered.transpose().map_err(Error::Search)?;
        let order = Order::new(&layout, &page.sort).map_err(Error::Search)?;
        Ok(Arc::new(Checked {
            index: index.id,
            compiled: living(&layout, &asked, compiled),
            unfiltered: unfiltered.map(|query| living(&layout, &asked, query)),
            layout,
            query,
            order: Arc::new(order),
            alike,
            page,
            aggregates,
            shows,
            offset,
            limit,
            asked,
        }))
    }

    /// Runs a search.
    async fn found(&self, checked: &Arc<Checked>, snapshot: Snapshot) -> Result<Found, Error> {
        let searcher = snapshot.searcher.clone();
        let (until, checked) = (checked.asked.deadline.at, Arc::clone(checked));
        let run = move || {
            let (layout, asked) = (&checked.layout, &checked.asked);
            // A filter of groups may look at all rows, so the tree is made when it is the search's turn.
            match Tree::new(layout, asked, &searcher, &checked.aggregates) {
                Ok(tree) => checked.run(&searcher, tree).map(Ok),
                Err(refused) => Ok(Err(refused)),
            }
        };
        let found = self.run(until, run).await.and_then(|found| {
            let found = found?;
            let refused = match found.short {
                None => return Ok(found),
                Some(Short::Damaged) => {
                    let what = "a text of a search index".to_owned();
                    return Err(Error::Unavailable(what));
                }
                Some(Short::Own) => Error::Search(InvalidSearch::Memory(OF_ONE_MAX >> 20)),
                Some(Short::Groups(most)) => Error::Search(InvalidSearch::Groups(most)),
                Some(Short::All) => Error::Busy,
            };
            self.inner.figures.refused.increment(1);
            Err(refused)
        });
        if let Err(Error::Unavailable(_)) = &found {
            snapshot.fail();
        }
        found
    }

    /// The rows of a page, as many as it may have bytes, their keys, and of how many hits these are.
    async fn rows<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        found: &Found,
        selection: &Selection,
    ) -> Result<(Vec<(Rows, Option<f32>)>, Vec<Vec<KeyValue>>, usize), Error> {
        let (mut rows, mut keys, mut read, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
        // Partitions are read one after the other: a row that comes before its place in the page waits here.
        let mut by_key = BTreeMap::new();
        for hit in &found.hits {
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
            let key = key_values(&hit.key);
            let key = key.map_err(|_| Error::Unavailable("a key of a search index".to_owned()))?;
            if !by_key.contains_key(&key) {
                let rest = found.hits[read..].iter();
                let rest = rest.filter_map(|hit| key_values(&hit.key).ok());
                let rest = rest.filter(|key| !by_key.contains_key(key));
                let rest: Vec<_> = rest.collect();
                let tables = &self.inner.tables;
                let some = tables.rows_now::<Rows>(table, rest, selection, PAGE_BYTES_MAX);
                let some = some.await?.into_iter();
                by_key.extend(some.map(|now| (now.key, (now.row, now.bytes))));
            }
            let (row, size) = by_key.remove(&key).unwrap_or_default();
            if let Some(row) = row {
                rows.push((row, hit.score));
                keys.push(key);
            }
            (read, bytes) = (read + 1, bytes + size);
        }
        Ok((rows, keys, read))
    }
}

/// What rows are found by, what they are filtered out of, and what is computed.
type Computed = (Query, Option<Query>, Aggregates);

/// The rows that are returned, and what they are filtered out of.
fn filtered(query: Query, filter: Option<Query>) -> (Query, Option<Query>) {
    let Some(filter) = filter else {
        return (query, None);
    };
    let both = Bool {
        must: vec![query.clone()],
        filter: vec![filter],
        ..Bool::default()
    };
    (Query::Bool(Box::new(both)), Some(query))
}

fn until(timeout_ms: Option<u64>) -> Instant {
    let timeout = timeout_ms.map_or(TIMEOUT, Duration::from_millis);
    Instant::now() + timeout.min(TIMEOUT_MAX)
}

/// What of the rows is read.
fn selection(table: &Table, index: &SearchIndex, columns: &Columns) -> Result<Selection, Error> {
    // A column of the key makes every row qualify.
    let key = table.primary_key[0].name.clone();
    let newest = Selection::newest(Some(1))?;
    match columns {
        Columns::All => Ok(newest),
        Columns::None => newest.of(vec![key]),
        Columns::These(names) => {
            let mut names = names.clone();
            names.push(key);
            newest.of(names)
        }
        Columns::OfIndex => {
            let own = index
                .schema
                .fields
                .iter()
                .filter(|field| field.source.is_none());
            let mut names: Vec<String> = own.map(|field| field.name.clone()).collect();
            names.push(key);
            newest.of(names)
        }
    }
}

/// Whether all columns that are wanted are in the index.
fn is_of_index(table: &Table, index: &SearchIndex, columns: &Columns) -> bool {
    let is_key = |name: &String| table.primary_key.iter().any(|column| column.name == *name);
    match columns {
        Columns::None | Columns::OfIndex => true,
        Columns::All => false,
        Columns::These(names) => {
            let mut names = names.iter();
            names.all(|name| is_key(name) || index.schema.field(name).is_ok())
        }
    }
}
