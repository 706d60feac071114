//! One page of what is found: its walks, and where the next page begins.
//!
//! Owns: windows and tokens. Promises: each page comes further than the one before, or its window is narrower; a page
//! by time or name that has hits has the first ones in order; one that may miss some says so. Must not: wait.
//!
//! A walk by time or name that has to end early has found nothing yet, as what is first in order may come last in an
//! index. It is repeated in a window: of its candidates so far, what was among the first in order is a bound. Where
//! that bounds nothing the walk has more time, and if that is too little, it says that some may be missing.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tantivy::Searcher;

use tideline_model::Value;
use tideline_model::search::{Bool, InvalidSearch, Query, fields};

use super::FoundPlaces;
use super::statistics::{Noted, Statistics};
use super::walk::{At, By, Columns, Doors, Shared, Walk};
use crate::asked::Asked;
use crate::collect::{OF_ONE_MAX, Share};
use crate::deadline::Deadline;
use crate::index::layout::Layout;
use crate::query::{Compiled, compile, within};

/// Where a search goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Token {
    #[serde(rename = "a")]
    pub(super) after: Option<At>,
    #[serde(rename = "u")]
    pub(super) until: Option<Until>,
    #[serde(rename = "s")]
    pub(super) statistics: Statistics,
}

/// The end of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Until {
    /// From this time on.
    #[serde(rename = "t")]
    Time(i64),
    /// Up to this timeline.
    #[serde(rename = "n")]
    Name(String),
}

impl Until {
    /// Behind all that is in the window.
    fn end(&self) -> At {
        match self {
            Until::Time(from) => At {
                time: from.saturating_sub(1),
                sequence: i64::MAX,
                ..At::default()
            },
            Until::Name(last) => At {
                timeline: last.clone(),
                ..At::default()
            },
        }
    }
}

/// A walk over candidates takes so long at most, and looks at so many; a page has so many walks.
const WALK: Duration = Duration::from_millis(50);
const CANDIDATES_MAX: u32 = if cfg!(test) { 300 } else { 1_000_000 };
const WALKS: usize = 2;
/// A window that can't be narrowed has so long, and so has a search by score.
const LAST_WALK: Duration = Duration::from_secs(1);
/// Of the candidates of a walk that was short, so many are in the next window: an 8th.
const NARROWED: usize = 8;

/// How the walks of a page ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// All of the window was looked at.
    Whole,
    /// Nothing is found yet; the next page's window is narrower.
    Narrowed,
    /// The last walk was short: what it has not come to is missing, and the answer says so.
    Short,
}

/// A page while it is looked for.
pub(super) struct Page {
    pub(super) layout: Layout,
    pub(super) query: Query,
    pub(super) by: By,
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    pub(super) limit: usize,
    pub(super) now_ms: i64,
    pub(super) share: Arc<Share>,
}

impl Page {
    pub(super) fn run(
        &self,
        searcher: &Searcher,
        doors: &Arc<Mutex<Doors>>,
        token: Token,
    ) -> tantivy::Result<Result<FoundPlaces, InvalidSearch>> {
        let Token {
            after,
            mut until,
            statistics,
        } = token;
        let noted = Noted::new(searcher, statistics);
        let mut walks = WALKS;
        // A walk that has its full time: no window is narrower, or none is known.
        let mut is_last = self.by == By::Score;
        let (hits, end) = loop {
            walks = walks.saturating_sub(1);
            let is_narrow = until
                .as_ref()
                .is_some_and(|until| self.is_narrow(until, &after));
            is_last |= is_narrow;
            let (time, candidates) = match is_last {
                true => (LAST_WALK, u32::MAX),
                false => (WALK, CANDIDATES_MAX),
            };
            let deadline = Arc::new(Deadline::new(Instant::now() + time));
            let query = match self.compiled(&deadline, &until, &after) {
                Ok(query) => query,
                Err(refused) => return Ok(Err(refused)),
            };
            let shared = Arc::new(Shared::new(candidates));
            let walk = Walk {
                by: self.by,
                after: after.clone(),
                // One more, to know whether there is more.
                limit: self.limit + 1,
                doors: Arc::clone(doors),
                now_ms: self.now_ms,
                deadline,
                columns: Columns::of(&self.layout),
                shared: Arc::clone(&shared),
            };
            searcher.search_with_statistics_provider(&*query, &walk, &noted)?;
            if self.share.short().is_some() {
                return Ok(Err(InvalidSearch::Memory(OF_ONE_MAX >> 20)));
            }
            if !shared.is_short() {
                break (shared.take(), End::Whole);
            }
            let narrower = match is_narrow || self.by == By::Score {
                true => None,
                false => self.narrowed(&shared, &after),
            };
            match narrower.filter(|narrower| Some(narrower) != until.as_ref()) {
                Some(narrower) => {
                    until = Some(narrower);
                    is_last = false;
                    if walks == 0 {
                        break (Vec::new(), End::Narrowed);
                    }
                }
                None if is_last => break (shared.take(), End::Short),
                None => is_last = true,
            }
        };
        let statistics = match self.by {
            By::Score => noted.into_noted(),
            By::Time | By::Name => Statistics::default(),
        };
        Ok(Ok(self.page(hits, end, (after, until), statistics)))
    }

    /// What hits come to, and where the next page begins.
    fn page(
        &self,
        mut hits: Vec<At>,
        end: End,
        (began, until): (Option<At>, Option<Until>),
        statistics: Statistics,
    ) -> FoundPlaces {
        let is_more = hits.len() > self.limit;
        hits.truncate(self.limit);
        let token = |after: Option<At>, until: Option<Until>| Token {
            after,
            until,
            statistics: statistics.clone(),
        };
        let next = match (&until, hits.last()) {
            (_, Some(last)) if is_more => Some(token(Some(last.clone()), until.clone())),
            _ if end == End::Narrowed => Some(token(began.clone(), until.clone())),
            (Some(window), _) => Some(token(Some(window.end()), None)),
            (None, _) => None,
        };
        let place = |hit: &At| (hit.timeline.clone(), hit.sequence.cast_unsigned());
        FoundPlaces {
            places: hits.iter().map(place).collect(),
            is_behind: end == End::Short,
            hits,
            began,
            next,
            until,
            statistics,
            held: None,
        }
    }

    fn compiled(
        &self,
        deadline: &Arc<Deadline>,
        until: &Option<Until>,
        after: &Option<At>,
    ) -> Result<Compiled, InvalidSearch> {
        let mut query = self.query.clone();
        let (mut from, mut to) = (self.from, self.to);
        let (mut first, mut last) = (None, None);
        match (self.by, after) {
            (By::Time, Some(at)) => {
                let end = at.time.saturating_add(1);
                to = Some(to.map_or(end, |to| to.min(end)));
            }
            (By::Name, Some(at)) => first = Some((Value::String(at.timeline.clone()), false)),
            _ => {}
        }
        match until {
            Some(Until::Time(time)) => from = Some(from.map_or(*time, |from| from.max(*time))),
            Some(Until::Name(name)) => last = Some((Value::String(name.clone()), true)),
            None => {}
        }
        if first.is_some() || last.is_some() {
            query = Query::Bool(Box::new(Bool {
                must: vec![query],
                filter: vec![Query::Range {
                    field: fields::TIMELINE.to_owned(),
                    from: first,
                    to: last,
                }],
                ..Bool::default()
            }));
        }
        let asked = Arc::new(Asked {
            deadline: Arc::clone(deadline),
            share: Arc::clone(&self.share),
            since_ms: None,
            limit: 0,
        });
        let compiled = compile(&self.layout, &asked, &query)?;
        Ok(within((&self.layout, deadline), compiled, (from, to)))
    }

    /// Whether a window can't be narrowed.
    fn is_narrow(&self, until: &Until, after: &Option<At>) -> bool {
        match until {
            Until::Time(from) => {
                let to = after.as_ref().map_or(self.now_ms, |at| at.time);
                to.saturating_sub(*from) <= 1_000
            }
            Until::Name(_) => false,
        }
    }

    /// A window for what is first in order of the candidates that were looked at.
    fn narrowed(&self, shared: &Shared, after: &Option<At>) -> Option<Until> {
        let mut samples = shared.samples();
        match self.by {
            By::Time => {
                let before = after.as_ref().map_or(i64::MAX, |at| at.time);
                samples.retain(|(time, _)| *time <= before);
                samples.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
            }
            By::Name | By::Score => {
                let behind = after.as_ref().map_or("", |at| &at.timeline);
                samples.retain(|(_, name)| name.as_str() > behind);
                samples.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
            }
        }
        let at = samples.len() / NARROWED;
        let (time, name) = samples.into_iter().nth(at)?;
        Some(match self.by {
            By::Time => Until::Time(time),
            By::Name | By::Score => Until::Name(name),
        })
    }
}
