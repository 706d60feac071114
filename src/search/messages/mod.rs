//! Searches of messages and of timelines, over two indexes of the server's own.
//!
//! Owns: the way of one such search from its words to places. Promises: what is not the caller's to read is not found,
//! not counted and not told of; a page ends after a time or a number of candidates, and the next one goes on from
//! there; one caller can't have all searches that run. Must not: read a message: its reader decides once more.

mod conditions;
mod page;
mod statistics;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tideline_base::bounds::{Resource, Share};
use tideline_model::search::{FindOrder, MESSAGE_INDEX, TIMELINE_INDEX};
use tideline_model::{Comparator, Error, Value};

use crate::index::layout::Layout;
use crate::searches::Searches;
use conditions::asked;
use page::{Page, Token, Until};
use statistics::Statistics;
use walk::{At, By, Doors, lock};

pub use walk::Door;
pub use words::Words;

/// Of which index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All messages.
    Messages,
    /// All timelines, by their metas.
    Timelines,
}

/// What is asked for. Its parts were checked against the limits of the wire.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Of which index.
    pub which: Which,
    /// The words.
    pub words: Words,
    /// Only in these timelines; `None` = in all.
    pub timelines: Option<Vec<String>>,
    /// Only in timelines that begin so.
    pub prefix: Option<String>,
    /// Only of this sender.
    pub sender: Option<String>,
    /// What has to hold of values.
    pub conditions: Vec<Condition>,
    /// From this time on, ms since 1970.
    pub from_ms: Option<u64>,
    /// Before this time.
    pub to_ms: Option<u64>,
    /// The order of messages; timelines come in that of their IDs.
    pub order: FindOrder,
    /// The token of the page before.
    pub after: Option<Vec<u8>>,
    /// Hits at most.
    pub limit: usize,
}

/// What has to hold of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The name.
    pub name: String,
    /// How its value compares.
    pub comparator: Comparator,
    /// With what.
    pub value: Value,
}

/// Why a search is refused.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageAnswer {
    /// There is no such index: it is switched off.
    Off,
    /// The name of this condition can't be asked for.
    NoName(usize),
    /// This is no token.
    Token,
    /// As a search of a table.
    Refused(Error),
}

impl From<Error> for MessageAnswer {
    fn from(error: Error) -> MessageAnswer {
        MessageAnswer::Refused(error)
    }
}

/// Where a hit is.
pub type Place = (String, u64);

/// What was found, to be read as the caller.
#[derive(Debug, Default)]
pub struct FoundPlaces {
    /// In order.
    pub places: Vec<Place>,
    /// Something may be missing: the index does not have everything that was answered before the search, or it was
    /// more work than a search has time for.
    pub is_behind: bool,
    hits: Vec<At>,
    /// Where the page began.
    began: Option<At>,
    /// Behind all places; `None` = that was all.
    next: Option<Token>,
    until: Option<Until>,
    statistics: Statistics,
    /// The caller's place among those that search, until what was found is read.
    #[allow(dead_code)] // held, not read
    held: Option<Share>,
}

impl FoundPlaces {
    /// The token of what comes behind the first `read` places, not to be shown to anybody; `None` = that was all.
    #[must_use]
    pub fn next(&self, read: usize) -> Option<Vec<u8>> {
        let token = match read < self.places.len() {
            false => self.next.clone()?,
            true => Token {
                after: match read.checked_sub(1) {
                    Some(last) => self.hits.get(last).cloned(),
                    None => self.began.clone(),
                },
                until: self.until.clone(),
                statistics: self.statistics.clone(),
            },
        };
        serde_json::to_vec(&token).ok()
    }
}

/// How long a search waits for the index, and for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

impl Searches {
    /// Finds the places of messages, or of timelines. `doors` makes the caller's doors, on a thread that may block.
    ///
    /// # Errors
    /// See [`MessageAnswer`].
    pub async fn find_places(
        &self,
        ask: Ask,
        door: impl FnOnce() -> Door + Send + 'static,
    ) -> Result<FoundPlaces, MessageAnswer> {
        let name = match ask.which {
            Which::Messages => MESSAGE_INDEX,
            Which::Timelines => TIMELINE_INDEX,
        };
        let began = Instant::now();
        let tables = self.inner.tables.searched().await?;
        let mut indexes = tables.iter().flat_map(|table| &table.search_indexes);
        let index = indexes.find(|index| index.name == name);
        let index = index.ok_or(MessageAnswer::Off)?;
        let layout = Layout::of(index);
        let token = match &ask.after {
            None => Token::default(),
            Some(token) => serde_json::from_slice(token).map_err(|_| MessageAnswer::Token)?,
        };
        let query = asked(&ask, index, &layout)?;
        if ask.words.is_idle() {
            return Ok(FoundPlaces::default());
        }
        let bound = self.bound(Resource::MessageSearches);
        let Ok(place) = bound.take(self.holder, 1) else {
            self.inner.figures.refused.increment(1);
            return Err(Error::Busy.into());
        };
        let until = began + PATIENCE;
        let (snapshot, is_covered) = self.covered(index.id, until, None).await;
        let Some(snapshot) = snapshot else {
            let is_behind = true;
            return Ok(FoundPlaces {
                is_behind,
                ..FoundPlaces::default()
            });
        };
        let now_ms = self.inner.tables.search_ms().cast_signed();
        let page = Page {
            layout,
            query,
            by: match (ask.which, ask.order) {
                (Which::Timelines, _) => By::Name,
                (Which::Messages, FindOrder::Newest) => By::Time,
                (Which::Messages, FindOrder::Best) => By::Score,
            },
            from: ask.from_ms.map(u64::cast_signed),
            to: ask.to_ms.map(u64::cast_signed),
            limit: ask.limit,
            now_ms,
            share: Arc::new(self.memory()),
        };
        let searcher = snapshot.searcher.clone();
        let run = move || {
            let doors = Arc::new(Mutex::new(Doors::new(door())));
            let found = page.run(&searcher, &doors, token)?;
            let failed = lock(&doors).failed.take();
            Ok((found, failed))
        };
        let found = self.run(Instant::now() + PATIENCE, run).await;
        if let Err(Error::Unavailable(_)) = &found {
            snapshot.fail();
        }
        let (found, failed) = found?;
        if let Some(why) = failed {
            return Err(Error::Unavailable(why).into());
        }
        let found = found.map_err(Error::Search)?;
        let figures = &self.inner.figures;
        figures.searches.increment(1);
        figures
            .incomplete
            .increment(u64::from(found.is_behind || !is_covered));
        figures.seconds.record(began.elapsed().as_secs_f64());
        Ok(FoundPlaces {
            is_behind: found.is_behind || !is_covered,
            held: Some(place),
            ..found
        })
    }
}
