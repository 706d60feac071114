//! Prefixes and patterns.
//!
//! Owns: how they are looked for among the texts of a field. Promises: a pattern of a client is never an expression of
//! its own making. Must not: know words.

use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{RangeQuery, RegexQuery};

use tideline_model::search::{FieldType, InvalidSearch};

use super::Compiled;
use crate::index::layout::Placed;

/// What begins with a text.
pub(super) fn prefix(placed: &Placed, prefix: &str) -> Result<Compiled, InvalidSearch> {
    let at = of_texts(placed, "prefix query")?;
    let from = Bound::Included(Term::from_field_text(at, prefix));
    let to = match end_of(prefix) {
        Some(end) => Bound::Excluded(Term::from_field_text(at, &end)),
        None => Bound::Unbounded,
    };
    Ok(Box::new(RangeQuery::new(from, to)))
}

/// What is as a pattern.
pub(super) fn wildcard(placed: &Placed, pattern: &str) -> Result<Compiled, InvalidSearch> {
    let at = of_texts(placed, "wildcard query")?;
    let (mut expression, mut last) = (String::new(), None);
    for one in pattern.chars() {
        let before = last.replace(one);
        match one {
            // Two of them say no more than one, and cost more.
            '*' if before == Some('*') => {}
            '*' => expression.push_str("(.|\n)*"),
            '?' => expression.push_str("(.|\n)"),
            one if one.is_ascii_punctuation() => expression.extend(['\\', one]),
            one => expression.push(one),
        }
    }
    match RegexQuery::from_pattern(&expression, at) {
        Ok(query) => Ok(Box::new(query)),
        Err(_) => Err(InvalidSearch::Unsupported("so large a wildcard")),
    }
}

fn of_texts(placed: &Placed, what: &'static str) -> Result<tantivy::schema::Field, InvalidSearch> {
    match placed.field.kind.is_keyword() || placed.field.kind == FieldType::Text {
        true => placed.searched(what),
        false => Err(placed.no(what)),
    }
}

/// The lowest text above all with a prefix; `None` = there is none.
fn end_of(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}
