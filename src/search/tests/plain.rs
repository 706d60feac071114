//! What a query finds, by looking at each row.
//!
//! Owns: the meaning of each query, written once more and without an index. Must not: use anything of the engine's.

use std::cmp::Ordering;

use tideline_model::Value;
use tideline_model::search::{Point, Query, StoredPoint, distance_m, is_inside};

use super::bed::Cells;

/// A row and its key.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    pub(super) number: i64,
    pub(super) cells: &'r Cells,
}

impl Row<'_> {
    /// The texts of a field, as they are compared.
    pub(super) fn texts(&self, field: &str) -> Vec<String> {
        let text = |name: &str| match self.cells.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        match plain(field) {
            "word" => text("word").into_iter().collect(),
            "whole_text" => match self.cells.get("text") {
                Some(Value::Integer(number)) => vec![number.to_string()],
                _ => text("text").into_iter().collect(),
            },
            "words" => match text("words") {
                Some(list) => serde_json::from_str(&list).unwrap_or_default(),
                None => Vec::new(),
            },
            "text" => self.words(),
            other => panic!("{other} has no texts"),
        }
    }

    /// Its objects, each as the columns of a row.
    pub(super) fn objects(&self) -> Vec<Cells> {
        let Some(Value::String(text)) = self.cells.get("tags") else {
            return Vec::new();
        };
        let objects: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
        let names = ["long", "double", "flag", "word", "text"];
        let cells = |object: &serde_json::Value| {
            let cells = names.into_iter().filter_map(|name| {
                Some(match object.get(name)? {
                    serde_json::Value::String(text) => (name, Value::String(text.clone())),
                    serde_json::Value::Bool(flag) => (name, Value::Boolean(*flag)),
                    number if name == "double" => (name, Value::Double(number.as_f64()?)),
                    number => (name, Value::Integer(number.as_i64()?)),
                })
            });
            cells.collect()
        };
        objects.iter().map(cells).collect()
    }

    fn words(&self) -> Vec<String> {
        match self.cells.get("text") {
            Some(Value::String(text)) => words(text),
            _ => Vec::new(),
        }
    }

    /// The number of a field, in a way that compares.
    pub(super) fn number(&self, field: &str) -> Option<f64> {
        let field = plain(field);
        match (field, self.cells.get(field)) {
            ("n", _) => Some(self.number as f64),
            ("long", Some(Value::Integer(number))) => Some(*number as f64),
            ("double", Some(Value::Double(number))) => Some(*number),
            ("flag", Some(Value::Boolean(flag))) => Some(f64::from(u8::from(*flag))),
            ("day", Some(Value::String(text))) => day(text),
            ("day", Some(Value::Integer(seconds))) => Some(*seconds as f64 * 1_000.0),
            _ => None,
        }
    }

    pub(super) fn point(&self) -> Option<Point> {
        match self.cells.get("point") {
            Some(Value::String(text)) => Point::parse(text)
                .ok()
                .map(|point| Point::from(StoredPoint::from(point))),
            _ => None,
        }
    }

    fn has(&self, field: &str) -> bool {
        match plain(field) {
            "word" | "words" | "whole_text" => !self.texts(field).is_empty(),
            "text" => matches!(self.cells.get("text"), Some(Value::String(_))),
            "point" => self.point().is_some(),
            other => self.number(other).is_some(),
        }
    }

    /// Whether a query finds it.
    pub(super) fn is_found(&self, query: &Query) -> bool {
        match query {
            Query::All => true,
            Query::Constant(inner) => self.is_found(inner),
            Query::Functions(asked) => self.is_found(&asked.query),
            Query::Best(asked) => asked.queries.iter().any(|query| self.is_found(query)),
            Query::Near(_) => panic!("what is near is not a matter of one row"),
            Query::Nested(asked) => self.objects().iter().any(|cells| {
                let object = Row { cells, ..*self };
                object.is_found(&asked.query)
            }),
            Query::Exists { field } => self.has(field),
            Query::Terms { field, values, .. } => values.iter().any(|value| {
                self.compare(field, value)
                    .into_iter()
                    .any(|order| order == Ordering::Equal)
            }),
            Query::Range {
                field,
                from: None,
                to: None,
            } => self.has(field),
            Query::Range { field, from, to } => {
                let bounds = [(from, Ordering::Greater), (to, Ordering::Less)];
                // One value of a list lies between both.
                let count = self.values(field);
                (0..count).any(|at| {
                    bounds.iter().all(|(bound, side)| match bound {
                        None => true,
                        Some((value, is_in)) => {
                            let order = self.compare(field, value)[at];
                            order == *side || (*is_in && order == Ordering::Equal)
                        }
                    })
                })
            }
            Query::Prefix { field, prefix, .. } => {
                let texts = self.texts(field);
                texts.iter().any(|text| text.starts_with(prefix.as_str()))
            }
            Query::Suffix { field, suffix, .. } => {
                let texts = self.texts(field);
                texts.iter().any(|text| text.ends_with(suffix.as_str()))
            }
            Query::Wildcard { field, pattern, .. } => {
                let pattern: Vec<char> = pattern.chars().collect();
                let texts = self.texts(field);
                texts.iter().any(|text| {
                    let text: Vec<char> = text.chars().collect();
                    is_like(&text, &pattern)
                })
            }
            Query::Match(asked) if plain(&asked.field) != "text" => {
                self.texts(&asked.field).contains(&asked.text)
            }
            Query::Match(asked) => {
                let (has, asked_words) = (self.words(), words(&asked.text));
                let found = asked_words.iter().filter(|word| has.contains(word)).count();
                let least = match (&asked.minimum, asked.is_and) {
                    (_, true) => asked_words.len(),
                    (None, false) => 1,
                    (Some(minimum), false) => minimum.of(asked_words.len()).max(1),
                };
                !asked_words.is_empty() && found >= least
            }
            Query::Phrase { field, text, .. } if plain(field) != "text" => {
                self.texts(field).contains(text)
            }
            Query::Phrase { text, .. } => {
                let (has, asked) = (self.words(), words(text));
                !asked.is_empty() && has.windows(asked.len()).any(|some| some == asked)
            }
            Query::Bool(parts) => {
                let all = |queries: &[Query]| queries.iter().all(|query| self.is_found(query));
                let should = parts
                    .should
                    .iter()
                    .filter(|query| self.is_found(query))
                    .count();
                let others = parts.must.len() + parts.filter.len() + parts.must_not.len();
                let least = match &parts.minimum {
                    Some(minimum) => minimum.of(parts.should.len()),
                    None => usize::from(others == 0 && !parts.should.is_empty()),
                };
                all(&parts.must)
                    && all(&parts.filter)
                    && !parts.must_not.iter().any(|query| self.is_found(query))
                    && should >= least
            }
            Query::GeoBox {
                top_left,
                bottom_right,
                ..
            } => self.point().is_some_and(|point| {
                (bottom_right.lat..=top_left.lat).contains(&point.lat)
                    && (top_left.lon..=bottom_right.lon).contains(&point.lon)
            }),
            Query::GeoDistance { center, metres, .. } => self
                .point()
                .is_some_and(|point| distance_m(point, *center) <= *metres),
            Query::GeoPolygon { points, .. } => {
                self.point().is_some_and(|point| is_inside(points, point))
            }
        }
    }

    fn values(&self, field: &str) -> usize {
        match plain(field) {
            "word" | "words" | "whole_text" | "text" => self.texts(field).len(),
            other => usize::from(self.number(other).is_some()),
        }
    }

    /// How each value of a field compares with another one.
    fn compare(&self, field: &str, value: &Value) -> Vec<Ordering> {
        match value {
            Value::String(text) if field != "day" => {
                let texts = self.texts(field).into_iter();
                texts.map(|own| own.as_str().cmp(text)).collect()
            }
            value => {
                let other = match value {
                    Value::Integer(seconds) if field == "day" => *seconds as f64 * 1_000.0,
                    Value::Integer(number) => *number as f64,
                    Value::Double(number) => *number,
                    Value::Boolean(flag) => f64::from(u8::from(*flag)),
                    Value::String(text) => day(text).unwrap(),
                    other => panic!("{other:?} is not asked for"),
                };
                let own = self.number(field).into_iter();
                own.map(|own| own.total_cmp(&other)).collect()
            }
        }
    }
}

/// A field's name without the one around it.
fn plain(field: &str) -> &str {
    field.strip_prefix("tags.").unwrap_or(field)
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split(|one: char| !one.is_alphanumeric());
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(str::to_lowercase).collect()
}

/// Of the days that rows have: January 1970.
fn day(text: &str) -> Option<f64> {
    let day: f64 = text.strip_prefix("1970-01-")?.parse().ok()?;
    (text.len() == 10).then_some((day - 1.0) * 86_400_000.0)
}

fn is_like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|from| is_like(&text[from..], rest)),
        ['?', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest),
        [one, rest @ ..] => text.first() == Some(one) && is_like(&text[1..], rest),
    }
}
