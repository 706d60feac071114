//! Searches of messages and of timelines, over two indexes of the server's own.
//!
//! Owns: the way of one such search from its words to places. Promises: what is not the caller's to read is not found,
//! not counted and not told of; a page ends after a time or a number of candidates, and the next one goes on from
//! there; one caller can't have all searches that run. Must not: read a message: its reader decides once more.
//!
//! A page by time or name that has to end early finds nothing yet, as what is newest may come last in an index. It goes
//! on in a window: what of its candidates so far was among the first in order is a bound for the next walk.

mod statistics;
mod walk;
mod words;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tantivy::Searcher;

use tideline_base::bounds::{Resource, Share};
use tideline_model::search::{
    Bool, FindOrder, InvalidSearch, MESSAGE_INDEX, Query, SearchIndex, TIMELINE_INDEX, fields,
};
use tideline_model::{Comparator, Error, Value};

use crate::deadline::Deadline;
use crate::index::layout::Layout;
use crate::index::message::{begin_of, term_of};
use crate::query::{compile, within};
use crate::searches::Searches;
use statistics::{Noted, Statistics};
use walk::{At, By, Columns, Doors, Shared, Walk, lock};

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
    /// The index does not have everything that was answered before the search.
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

/// Where a search goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Token {
    #[serde(rename = "a")]
    after: Option<At>,
    #[serde(rename = "u")]
    until: Option<Until>,
    #[serde(rename = "s")]
    statistics: Statistics,
}

/// The end of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Until {
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
/// A window that can't be narrowed has so long.
const LAST_WALK: Duration = Duration::from_secs(1);
/// Of the candidates of a walk that was short, so many are in the next window: an 8th.
const NARROWED: usize = 8;
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
        figures.incomplete.increment(u64::from(!is_covered));
        figures.seconds.record(began.elapsed().as_secs_f64());
        Ok(FoundPlaces {
            is_behind: !is_covered,
            held: Some(place),
            ..found
        })
    }
}

/// A page while it is looked for.
struct Page {
    layout: Layout,
    query: Query,
    by: By,
    from: Option<i64>,
    to: Option<i64>,
    limit: usize,
    now_ms: i64,
}

impl Page {
    fn run(
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
        let (hits, is_short) = loop {
            walks -= 1;
            let is_last = until
                .as_ref()
                .is_some_and(|until| self.is_narrow(until, &after));
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
            if !shared.is_short() || self.by == By::Score || is_last {
                break (shared.take(), shared.is_short());
            }
            until = self.narrowed(&shared, &after).or(until);
            if walks == 0 {
                break (Vec::new(), true);
            }
        };
        let statistics = match self.by {
            By::Score => noted.into_noted(),
            By::Time | By::Name => Statistics::default(),
        };
        Ok(Ok(self.page(hits, is_short, (after, until), statistics)))
    }

    /// What hits come to, and where the next page begins.
    fn page(
        &self,
        mut hits: Vec<At>,
        is_short: bool,
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
            // Nothing was found yet; the next walk is in a window.
            (_, None) if is_short && self.by != By::Score => {
                Some(token(began.clone(), until.clone()))
            }
            (Some(window), _) => Some(token(Some(window.end()), None)),
            (None, _) => None,
        };
        let place = |hit: &At| (hit.timeline.clone(), hit.sequence.cast_unsigned());
        FoundPlaces {
            places: hits.iter().map(place).collect(),
            is_behind: false,
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
    ) -> Result<crate::query::Compiled, InvalidSearch> {
        let mut query = self.query.clone();
        let (mut from, mut to) = (self.from, self.to);
        match until {
            Some(Until::Time(time)) => from = Some(from.map_or(*time, |from| from.max(*time))),
            Some(Until::Name(last)) => {
                let both = Bool {
                    must: vec![query],
                    filter: vec![Query::Range {
                        field: fields::TIMELINE.to_owned(),
                        from: None,
                        to: Some((Value::String(last.clone()), true)),
                    }],
                    ..Bool::default()
                };
                query = Query::Bool(Box::new(both));
            }
            None => {}
        }
        if let (By::Time, Some(at)) = (self.by, after) {
            let end = at.time.saturating_add(1);
            to = Some(to.map_or(end, |to| to.min(end)));
        }
        let compiled = compile(&self.layout, deadline, &query)?;
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

/// The query of what is asked for, but for times.
fn asked(ask: &Ask, index: &SearchIndex, layout: &Layout) -> Result<Query, MessageAnswer> {
    let mut all = Bool::default();
    ask.words.add_to(&mut all);
    let text = |text: &str| Value::String(text.to_owned());
    let terms = |field: &str, values: Vec<Value>| Query::Terms {
        field: field.to_owned(),
        values,
        weight: 1.0,
    };
    if let Some(timelines) = &ask.timelines {
        let timelines = timelines.iter().map(|timeline| text(timeline)).collect();
        all.filter.push(terms(fields::TIMELINE, timelines));
    }
    if let Some(prefix) = ask.prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
        all.filter.push(Query::Prefix {
            field: fields::TIMELINE.to_owned(),
            prefix: prefix.clone(),
            weight: 1.0,
        });
    }
    if let Some(sender) = &ask.sender {
        all.filter.push(terms(fields::SENDER, vec![text(sender)]));
    }
    for (at, condition) in ask.conditions.iter().enumerate() {
        let mut names = layout.names();
        let is_named = index.name == TIMELINE_INDEX || names.any(|name| name == condition.name);
        if !is_named {
            return Err(MessageAnswer::NoName(at));
        }
        condition
            .add_to(&mut all)
            .ok_or(MessageAnswer::NoName(at))?;
    }
    Ok(Query::Bool(Box::new(all)))
}

impl Condition {
    fn add_to(&self, all: &mut Bool) -> Option<()> {
        let term = term_of(&self.name, &self.value)?;
        let begin = begin_of(&self.name, &self.value)?;
        // Kinds are letters; the one behind is the end.
        let end = |begin: &str| {
            let mut end = begin.to_owned();
            let kind = end.pop()?;
            end.push(char::from_u32(u32::from(kind) + 1)?);
            Some(end)
        };
        let bound = |text: String, is_in| Some((Value::String(text), is_in));
        let lowest = bound(begin.clone(), true);
        let highest = bound(end(&begin)?, false);
        let (from, to) = match self.comparator {
            Comparator::Equal => (bound(term.clone(), true), bound(term, true)),
            Comparator::GreaterThan => (bound(term, false), highest),
            Comparator::GreaterEqual => (bound(term, true), highest),
            Comparator::LessThan => (lowest, bound(term, false)),
            Comparator::LessEqual => (lowest, bound(term, true)),
            Comparator::NotEqual => {
                let name = begin[..begin.len() - 1].to_owned();
                all.must_not
                    .push(values(bound(term.clone(), true), bound(term, true)));
                // Whatever kind: they lie between these two.
                (
                    bound(format!("{name}a"), true),
                    bound(format!("{name}z"), false),
                )
            }
            _ => return None,
        };
        all.filter.push(values(from, to));
        Some(())
    }
}

fn values(from: Option<(Value, bool)>, to: Option<(Value, bool)>) -> Query {
    let field = fields::WHERE.to_owned();
    match (&from, &to) {
        (Some((one, true)), Some((other, true))) if one == other => Query::Terms {
            field,
            values: vec![one.clone()],
            weight: 1.0,
        },
        _ => Query::Range { field, from, to },
    }
}
