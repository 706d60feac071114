//! The tokens of pages: where a search goes on, in the client's hands.
//!
//! Owns: their format. Promises: a token says all that its page needs, so that nothing is kept here; one of another
//! query, index or format is refused. Must not: be trusted: it is checked like everything from outside.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use tideline_base::ids::TableId;
use tideline_model::search::{InvalidSearch, Query, SORTERS_MAX, Sort, Sorter};

use super::{Hit, Order, SortValue};
use crate::index::layout::Layout;

/// Tokens of another number are refused.
const FORMAT: u8 = 1;
/// No token of ours is longer.
const TOKEN_BYTES_MAX: usize = 2 << 20;

/// What a token holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PageToken {
    format: u8,
    index: u32,
    query: u64,
    sorters: Vec<Sorter>,
    keys_last: bool,
    after: Vec<SortValue>,
    /// Of a page by score: the key of the row with these values. Scores change with other rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Vec<u8>>,
}

/// Where a page begins.
pub(crate) struct Page {
    pub(crate) sort: Sort,
    pub(crate) after: Option<Vec<SortValue>>,
    /// The key of the row that had these values, if they may have changed.
    pub(crate) key: Option<Vec<u8>>,
}

impl Page {
    /// The first one.
    pub(crate) fn first(sort: Sort) -> Page {
        Page {
            sort,
            after: None,
            key: None,
        }
    }
}

impl PageToken {
    /// The token of what comes behind a row.
    pub(crate) fn behind(index: TableId, query: &Query, sort: &Sort, row: &Hit) -> Vec<u8> {
        let token = PageToken {
            format: FORMAT,
            index: index.0,
            query: digest(query),
            sorters: sort.sorters.clone(),
            keys_last: sort.keys_last,
            after: row.values.clone(),
            key: row.score.map(|_| row.key.clone()),
        };
        serde_json::to_vec(&token).unwrap_or_default()
    }

    /// The page that a token stands for.
    pub(crate) fn read(
        token: &[u8],
        index: TableId,
        query: &Query,
        layout: &Layout,
    ) -> Result<Page, InvalidSearch> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(InvalidSearch::Token);
        }
        let token: PageToken = serde_json::from_slice(token).map_err(|_| InvalidSearch::Token)?;
        let is_ours = token.format == FORMAT && token.index == index.0;
        if !is_ours || token.query != digest(query) {
            return Err(InvalidSearch::Token);
        }
        let sort = Sort {
            sorters: token.sorters,
            keys_last: token.keys_last,
        };
        let order = Order::new(layout, &sort).map_err(|_| InvalidSearch::Token)?;
        if order.len() != token.after.len() || order.len() > PARTS_MAX {
            return Err(InvalidSearch::Token);
        }
        Ok(Page {
            sort,
            after: Some(token.after),
            key: token.key,
        })
    }
}

/// Sorters of a request, and the key.
const PARTS_MAX: usize = SORTERS_MAX + 1;

/// Two queries that are written alike have one digest, whatever the numbers of their vectors: programs have a vector
/// made anew for each page, and not each model gives the same one twice.
fn digest(query: &Query) -> u64 {
    let mut query = query.clone();
    forget_vectors(&mut query);
    xxh3_64(format!("{query:?}").as_bytes())
}

fn forget_vectors(query: &mut Query) {
    match query {
        Query::Near(near) => {
            near.vector.clear();
            near.filter.iter_mut().for_each(forget_vectors);
        }
        Query::Bool(parts) => {
            let required = parts.must.iter_mut().chain(&mut parts.must_not);
            let all = required.chain(&mut parts.filter).chain(&mut parts.should);
            all.for_each(forget_vectors);
        }
        Query::Constant(inner) => forget_vectors(inner),
        Query::Nested(nested) => forget_vectors(&mut nested.query),
        Query::Best(best) => best.queries.iter_mut().for_each(forget_vectors),
        Query::Functions(asked) => {
            forget_vectors(&mut asked.query);
            let filters = asked
                .functions
                .iter_mut()
                .filter_map(|one| one.filter.as_mut());
            filters.for_each(forget_vectors);
        }
        _ => {}
    }
}
