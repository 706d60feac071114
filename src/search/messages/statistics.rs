//! What scores are computed from, kept from the first page of a search to the last one.
//!
//! Owns: the statistics of a search. Promises: a page that goes on scores as the first one did, so that what is written
//! meanwhile moves nothing from one page to another. Must not: leave the server unsealed: it counts messages that the
//! caller may not read.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};
use xxhash_rust::xxh3::xxh3_64;

/// Terms that are kept. A query that has more is scored anew on each page.
const TERMS_MAX: usize = 48;

/// See the top. All as texts of one length: how large a number is does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Statistics(BTreeMap<String, String>);

/// Statistics that are asked for, and noted.
pub(super) struct Noted<'s> {
    searcher: &'s Searcher,
    noted: RefCell<Statistics>,
}

impl<'s> Noted<'s> {
    pub(super) fn new(searcher: &'s Searcher, noted: Statistics) -> Noted<'s> {
        Noted {
            searcher,
            noted: RefCell::new(noted),
        }
    }

    pub(super) fn into_noted(self) -> Statistics {
        self.noted.into_inner()
    }

    fn note(
        &self,
        what: &[u8],
        ask: impl FnOnce() -> tantivy::Result<u64>,
    ) -> tantivy::Result<u64> {
        let what = format!("{:016x}", xxh3_64(what));
        let known = self.noted.borrow().0.get(&what).cloned();
        if let Some(known) = known.and_then(|known| u64::from_str_radix(&known, 16).ok()) {
            return Ok(known);
        }
        let count = ask()?;
        let mut noted = self.noted.borrow_mut();
        if noted.0.len() < TERMS_MAX {
            noted.0.insert(what, format!("{count:016x}"));
        }
        Ok(count)
    }
}

impl Bm25StatisticsProvider for Noted<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.note(b"tokens", || self.searcher.total_num_tokens(field))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.note(b"documents", || self.searcher.total_num_docs())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let what = [b"term ", term.serialized_value_bytes()].concat();
        self.note(&what, || self.searcher.doc_freq(term))
    }
}
