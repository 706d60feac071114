//! Rows of a table that a search index leads to.
//!
//! Owns: searching page by page. Promises: the first page says whether the index has everything; without that no row is
//! given. Must not: choose the index; `plan/index.rs` does.

use std::sync::Arc;
use std::vec;

use tideline_model::FoundRow;
use tideline_model::search::{Aggregates, Columns, Highlight, Search, Sort, Sorter, Total};
use tideline_search::Searches;
use tideline_table::Table;

use super::Rows;
use super::scan::{bytes_of, consumed_of, row_of};
use crate::answer::Datum;
use crate::context::Run;
use crate::plan::{ByIndex, Source};
use crate::refusal::Refusal;

/// Rows of a page with columns that the index has, and with others.
const PAGE_OF_INDEX: usize = 1_000;
const PAGE_OF_TABLE: usize = 100;

/// The rows of a source in the order of their keys; `None` = the index has not everything, and another way will do.
pub(super) fn rows<'r>(
    run: &'r Run,
    (source, table): (&'r Source, &'r Arc<Table>),
    by: &'r ByIndex,
    is_backward: bool,
) -> Result<Option<Rows<'r>>, Refusal> {
    let Some(searches) = filled(run, by)? else {
        return Ok(None);
    };
    let mut pages = Pages {
        run,
        searches,
        source,
        table,
        by,
        token: None,
        is_backward,
        is_last: false,
        page: Vec::new().into_iter(),
    };
    if !pages.turn()? {
        return match by.is_needed {
            true => Err(Refusal::Busy),
            false => Ok(None),
        };
    }
    Ok(Some(Box::new(std::iter::from_fn(move || {
        pages.next().transpose()
    }))))
}

/// How many rows match; `None` as above.
pub(super) fn count(run: &Run, table: &Arc<Table>, by: &ByIndex) -> Result<Option<u64>, Refusal> {
    let Some(searches) = filled(run, by)? else {
        return Ok(None);
    };
    let search = Search {
        limit: 0,
        total: Total::All,
        columns: Columns::None,
        ..search(run, by)
    };
    let hits = searches.search::<Vec<FoundRow>>(table, &by.name, search);
    let hits = run.wait(hits)?;
    let of = (table.name.as_str(), Some(by.name.as_str()));
    run.count(of, (0, 0), consumed_of(0))?;
    match (hits.is_all, by.is_needed) {
        (true, _) => Ok(hits.total),
        (false, true) => Err(Refusal::Busy),
        (false, false) => Ok(None),
    }
}

fn search(run: &Run, by: &ByIndex) -> Search {
    let left = run
        .time
        .until
        .saturating_duration_since(std::time::Instant::now());
    Search {
        query: by.query.clone(),
        sort: None,
        offset: 0,
        limit: 0,
        token: None,
        total: Total::No,
        filter: None,
        collapse: None,
        aggregates: Aggregates::default(),
        highlight: Highlight::default(),
        columns: Columns::None,
        timeout_ms: u64::try_from(left.as_millis()).ok(),
    }
}

/// The indexes, if somebody fills them; without them another way has to do.
fn filled<'r>(run: &'r Run, by: &ByIndex) -> Result<Option<&'r Searches>, Refusal> {
    match &run.searches {
        None if by.is_needed => Refusal::unsupported("search indexes, which only a server fills"),
        searches => Ok(searches.as_ref()),
    }
}

struct Pages<'r> {
    run: &'r Run,
    searches: &'r Searches,
    source: &'r Source,
    table: &'r Arc<Table>,
    by: &'r ByIndex,
    token: Option<Vec<u8>>,
    is_backward: bool,
    is_last: bool,
    page: vec::IntoIter<FoundRow>,
}

impl Pages<'_> {
    fn next(&mut self) -> Result<Option<Vec<Datum>>, Refusal> {
        loop {
            self.run.step()?;
            if let Some(row) = self.page.next() {
                return Ok(Some(row_of(self.source, self.table, row)));
            }
            if self.is_last {
                return Ok(None);
            }
            if !self.turn()? {
                return Err(Refusal::Busy);
            }
        }
    }

    /// Gets the next page; `false` = the index has not everything.
    fn turn(&mut self) -> Result<bool, Refusal> {
        let token = self.token.take();
        let sorter = Sorter::Key {
            is_desc: self.is_backward,
        };
        let sort = Sort {
            sorters: vec![sorter],
            keys_last: true,
        };
        let names = self.source.needed_names();
        let search = Search {
            sort: token.is_none().then_some(sort),
            token,
            limit: match self.by.has_all {
                true => PAGE_OF_INDEX,
                false => PAGE_OF_TABLE,
            },
            columns: Columns::These(names.into_iter().map(ToOwned::to_owned).collect()),
            ..search(self.run, self.by)
        };
        let (table, index) = (self.table, self.by.name.as_str());
        let hits = self.searches.search::<Vec<FoundRow>>(table, index, search);
        let hits = self.run.wait(hits)?;
        self.is_last = hits.next.is_none();
        self.token = hits.next;
        let rows: Vec<FoundRow> = hits.rows.into_iter().flat_map(|(rows, _)| rows).collect();
        let bytes = rows.iter().map(|row| bytes_of(table, row)).sum();
        let of = (table.name.as_str(), Some(index));
        self.run
            .count(of, (rows.len() as u64, bytes), consumed_of(bytes))?;
        self.page = rows.into_iter();
        Ok(hits.is_all)
    }
}
