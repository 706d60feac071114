//! What is shown of rows that were found: pieces of their texts, and their objects that match.
//!
//! Owns: what a search shows, and how it comes out of a row. Promises: what can't be shown is refused before anything
//! runs; what is shown has a bound, all rows together. Must not: find rows.

use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use tideline_model::search::{
    ASKED_BYTES_MAX, FieldType, Highlight, Highlighted, InnerHit, InnerHits, Inside, InvalidSearch,
    Missing, Nested, Query, Shown, SortMode, Sorter,
};
use tideline_model::{FoundRow, KeyColumn, ValueRef};

use super::Scope;
use super::check::{Check, check, terms_of};
use super::marks::{Marked, parts};
use super::words::WORDS_MAX;
use crate::asked::Asked;
use crate::deadline::Deadline;
use crate::index::document::{Item, value};
use crate::index::layout::{Layout, Placed};
use crate::index::object::{Object, objects, objects_in};

/// What a search shows of its rows.
pub(crate) struct Shows {
    /// The columns that it comes out of.
    pub(crate) columns: Vec<String>,
    of: ShowsOf,
    deadline: Arc<Deadline>,
}

/// What is shown of a row or an object.
struct ShowsOf {
    fields: Vec<Marked>,
    inside: Vec<ShowsInside>,
}

/// Objects of a nested field.
struct ShowsInside {
    path: String,
    /// The column that they are in, and the names that lead to them there.
    column: String,
    way: Vec<String>,
    check: Check,
    order: Vec<By>,
    offset: usize,
    limit: usize,
    of: ShowsOf,
}

/// By what objects are sorted.
enum By {
    Score { is_desc: bool },
    Place { is_desc: bool },
    Field(Placed, SortMode, bool),
}

/// What a search shows; `None` = nothing.
pub(crate) fn shows(
    layout: &Layout,
    asked: &Arc<Asked>,
    (query, highlight): (&Query, &Highlight),
) -> Result<Option<Shows>, InvalidSearch> {
    let scope = Scope {
        layout,
        deadline: &asked.deadline,
        asked,
        inside: None,
        words: &Cell::new(WORDS_MAX),
        text_bytes: &Cell::new(ASKED_BYTES_MAX),
    };
    let of = shows_of(&scope, query, highlight)?;
    if of.fields.is_empty() && of.inside.is_empty() {
        return Ok(None);
    }
    let fields = of.fields.iter().map(|marked| marked.placed.field.column());
    let inside = of.inside.iter().map(|inside| inside.column.as_str());
    Ok(Some(Shows {
        columns: fields.chain(inside).map(ToOwned::to_owned).collect(),
        of,
        deadline: Arc::clone(&asked.deadline),
    }))
}

fn shows_of(
    scope: &Scope<'_>,
    query: &Query,
    highlight: &Highlight,
) -> Result<ShowsOf, InvalidSearch> {
    let fields = highlight.fields.iter().map(|asked| {
        let refused = || InvalidSearch::Highlight(asked.field.clone());
        let placed = scope.layout.field(&asked.field).map_err(|_| refused())?;
        let can = placed.field.kind == FieldType::Text && placed.field.highlights == Some(true);
        match can && placed.inside == scope.inside {
            true => Ok(Marked::new(placed, (asked, highlight.is_html), query)),
            false => Err(refused()),
        }
    });
    let fields = fields.collect::<Result<_, _>>()?;
    let mut inside = Vec::new();
    look(scope, query, &mut inside)?;
    Ok(ShowsOf { fields, inside })
}

/// Adds what is shown of the nested queries in another one.
fn look(scope: &Scope<'_>, query: &Query, all: &mut Vec<ShowsInside>) -> Result<(), InvalidSearch> {
    match query {
        Query::Nested(nested) if nested.hits.is_some() => {
            all.extend(shows_inside(scope, nested)?);
            Ok(())
        }
        other => parts(other, &mut |part| look(scope, part, all)),
    }
}

fn shows_inside(scope: &Scope<'_>, nested: &Nested) -> Result<Option<ShowsInside>, InvalidSearch> {
    let Some(hits) = &nested.hits else {
        return Ok(None);
    };
    let layout = scope.layout;
    let placed = layout.field(&nested.path)?;
    let (mut way, mut top) = (vec![placed.key.clone()], placed);
    while let Some(around) = top.inside.filter(|around| Some(*around) != scope.inside) {
        top = &layout.fields[around];
        way.insert(0, top.key.clone());
    }
    let inner = scope.inside(&nested.path)?;
    Ok(Some(ShowsInside {
        path: nested.path.clone(),
        column: top.field.column().to_owned(),
        way,
        check: check(&inner, &nested.query)?,
        order: order(&inner, hits)?,
        offset: hits.offset,
        limit: hits.limit,
        of: shows_of(&inner, &nested.query, &hits.highlight)?,
    }))
}

fn order(scope: &Scope<'_>, hits: &InnerHits) -> Result<Vec<By>, InvalidSearch> {
    let Some(sort) = &hits.sort else {
        return Ok(vec![By::Score { is_desc: true }]);
    };
    let parts = sort.sorters.iter().filter_map(|sorter| {
        Some(Ok(match sorter {
            // All objects of a row have its key.
            Sorter::Key { .. } => return None,
            Sorter::Score { is_desc } => By::Score { is_desc: *is_desc },
            Sorter::Doc { is_desc } => By::Place { is_desc: *is_desc },
            Sorter::Field {
                name,
                is_desc,
                mode,
                missing: Missing::Last,
                missing_field: None,
                ..
            } if *mode != Some(SortMode::Avg) => {
                let by_default = match is_desc {
                    true => SortMode::Max,
                    false => SortMode::Min,
                };
                match scope.field(name) {
                    Ok(placed)
                        if placed.field.can_sort() && placed.field.kind != FieldType::GeoPoint =>
                    {
                        By::Field(placed.clone(), mode.unwrap_or(by_default), *is_desc)
                    }
                    Ok(placed) => return Some(Err(placed.no("sort of inner_hits"))),
                    Err(why) => return Some(Err(why)),
                }
            }
            _ => {
                return Some(Err(InvalidSearch::Unsupported(
                    "a sort of inner_hits by this",
                )));
            }
        }))
    });
    parts.collect()
}

impl Shows {
    /// What is shown of a row, and how many bytes that takes of those that may be left.
    pub(crate) fn of(
        &self,
        columns: &[KeyColumn],
        row: &FoundRow,
        left: &mut usize,
    ) -> Result<Shown, InvalidSearch> {
        let fields = self.of.fields.iter().map(|marked| {
            let items = marked.placed.items(columns, row).unwrap_or_default();
            (marked, texts(items))
        });
        let fields = highlighted(fields, left, &self.deadline)?;
        let mut inside = Vec::new();
        for shows in &self.of.inside {
            let text = value(columns, row, &shows.column);
            let list = match text {
                Some(ValueRef::String(text) | ValueRef::Json(text)) => objects(text.as_bytes()),
                _ => None,
            };
            let list = list.unwrap_or_default();
            let all = numbered(list.iter());
            inside.push(shows.of_objects(all, &shows.way[1..], left, &self.deadline)?);
        }
        Ok(Shown { fields, inside })
    }
}

/// Objects, each with its place in its list.
fn numbered<'o>(list: impl Iterator<Item = &'o Object>) -> Vec<(usize, &'o Object)> {
    list.enumerate().collect()
}

fn texts(items: Vec<Item>) -> Vec<String> {
    let texts = items.into_iter().filter_map(|item| match item {
        Item::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

fn highlighted<'m>(
    fields: impl Iterator<Item = (&'m Marked, Vec<String>)>,
    left: &mut usize,
    deadline: &Deadline,
) -> Result<Vec<Highlighted>, InvalidSearch> {
    let mut all = Vec::new();
    for (marked, texts) in fields {
        let mut pieces = Vec::new();
        for text in texts {
            marked.pieces(&text, &mut pieces, deadline);
        }
        let fragments = marked.chosen(pieces);
        if fragments.is_empty() {
            continue;
        }
        let field = marked.placed.field.name.clone();
        let bytes = field.len() + fragments.iter().map(String::len).sum::<usize>();
        take(left, bytes)?;
        all.push(Highlighted { field, fragments });
    }
    Ok(all)
}

/// What all rows of a page show together.
pub(crate) const SHOWN_BYTES_MAX: usize = 4 << 20;
/// What an object takes in an answer, about.
const OBJECT_BYTES: usize = 64;

fn take(left: &mut usize, bytes: usize) -> Result<(), InvalidSearch> {
    let rest = left.checked_sub(bytes);
    *left = rest.ok_or(InvalidSearch::Memory(SHOWN_BYTES_MAX >> 20))?;
    Ok(())
}

impl ShowsInside {
    /// What is shown of some objects that are as many names away.
    fn of_objects(
        &self,
        mut all: Vec<(usize, &Object)>,
        way: &[String],
        left: &mut usize,
        deadline: &Deadline,
    ) -> Result<Inside, InvalidSearch> {
        for key in way {
            let lists = all
                .iter()
                .filter_map(|(_, object)| objects_in(object.get(key)?));
            all = lists.flat_map(|list| numbered(list.into_iter())).collect();
        }
        let found = all.into_iter().filter_map(|(place, object)| {
            let score = self.check.score(object)?;
            Some((place, score, object))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|one, other| {
            let compared = self.order.iter().map(|by| by.compare(*one, *other));
            compared.fold(Ordering::Equal, Ordering::then)
        });
        let mut hits = Vec::new();
        for (place, score, object) in found.into_iter().skip(self.offset).take(self.limit) {
            take(left, OBJECT_BYTES)?;
            let shown = self.of.of_object(object, left, deadline)?;
            hits.push(InnerHit {
                place,
                score,
                shown,
            });
        }
        Ok(Inside {
            path: self.path.clone(),
            hits,
        })
    }
}

impl ShowsOf {
    fn of_object(
        &self,
        object: &Object,
        left: &mut usize,
        deadline: &Deadline,
    ) -> Result<Shown, InvalidSearch> {
        let fields = self.fields.iter().map(|marked| {
            let value = object.get(&marked.placed.key);
            let items = value.and_then(|value| marked.placed.items_of(value));
            (marked, texts(items.unwrap_or_default()))
        });
        let fields = highlighted(fields, left, deadline)?;
        let inside = self.inside.iter().map(|shows| {
            let of_object = vec![(0, object)];
            shows.of_objects(of_object, &shows.way, left, deadline)
        });
        Ok(Shown {
            fields,
            inside: inside.collect::<Result<_, _>>()?,
        })
    }
}

impl By {
    fn compare(&self, one: (usize, f32, &Object), other: (usize, f32, &Object)) -> Ordering {
        let (order, is_desc) = match self {
            By::Score { is_desc } => (one.1.total_cmp(&other.1), *is_desc),
            By::Place { is_desc } => (one.0.cmp(&other.0), *is_desc),
            By::Field(placed, mode, is_desc) => {
                let value = |object: &Object| {
                    let terms = terms_of(placed, object).into_iter();
                    let values = terms.map(|term| term.serialized_value_bytes().to_vec());
                    match mode {
                        SortMode::Max => values.max(),
                        SortMode::Min | SortMode::Avg => values.min(),
                    }
                };
                match (value(one.2), value(other.2)) {
                    (Some(one), Some(other)) => (one.cmp(&other), *is_desc),
                    // Those without a value come last.
                    (one, other) => (other.is_some().cmp(&one.is_some()), false),
                }
            }
        };
        match is_desc {
            true => order.reverse(),
            false => order,
        }
    }
}
