//! Words and phrases.
//!
//! Owns: how a query's text is taken apart and looked for. Must not: decide where words end (`analyze/mod.rs`).

use tantivy::Term;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, PhraseQuery, TermQuery};
use tantivy::schema::IndexRecordOption;

use tideline_model::Value;
use tideline_model::search::{ASKED_BYTES_MAX, FieldType, InvalidSearch, Match};

use super::{Compiled, Scope, constant, nothing, of_term};
use crate::analyze::asked_words;
use crate::index::layout::Placed;

/// Words of all texts of one search.
pub(super) const WORDS_MAX: usize = 1_024;

/// Rows with words of a text; of a field that is kept whole, with the text.
pub(super) fn matches(
    scope: &Scope<'_>,
    placed: &Placed,
    asked: &Match,
) -> Result<Compiled, InvalidSearch> {
    let Some(words) = words(scope, placed, &asked.text, "match query")? else {
        return whole(placed, &asked.text, asked.weight);
    };
    let parts: Vec<(Occur, Compiled)> = words
        .into_iter()
        .map(|(_, term)| {
            let occur = match asked.is_and {
                true => Occur::Must,
                false => Occur::Should,
            };
            let query: Compiled = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            (occur, query)
        })
        .collect();
    if parts.is_empty() {
        return Ok(nothing());
    }
    let minimum = match (&asked.minimum, asked.is_and) {
        (_, true) => 0,
        (None, false) => 1,
        (Some(minimum), false) => minimum.of(parts.len()).max(1),
    };
    let all = BooleanQuery::with_minimum_required_clauses(parts, minimum);
    Ok(Box::new(BoostQuery::new(Box::new(all), asked.weight)))
}

/// Rows with the words of a text one behind the other.
pub(super) fn phrase(
    scope: &Scope<'_>,
    placed: &Placed,
    (text, slop): (&str, u32),
    weight: f32,
) -> Result<Compiled, InvalidSearch> {
    let Some(mut words) = words(scope, placed, text, "match phrase query")? else {
        return whole(placed, text, weight);
    };
    let query: Compiled = match words.len() {
        0 => return Ok(nothing()),
        1 => {
            let (_, term) = words.swap_remove(0);
            Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
        }
        _ => Box::new(PhraseQuery::new_with_offset_and_slop(words, slop)),
    };
    Ok(Box::new(BoostQuery::new(query, weight)))
}

/// The words of a text, each with its place; `None` = the field has no words.
fn words(
    scope: &Scope<'_>,
    placed: &Placed,
    text: &str,
    what: &'static str,
) -> Result<Option<Vec<(usize, Term)>>, InvalidSearch> {
    let at = placed.searched(what)?;
    if placed.field.kind != FieldType::Text {
        return Ok(None);
    }
    let bytes = scope.text_bytes.get().checked_sub(text.len());
    let long = InvalidSearch::TooLong("texts of a search", ASKED_BYTES_MAX);
    scope.text_bytes.set(bytes.ok_or(long)?);
    let words = asked_words(&placed.analyzer, text);
    let left = scope.words.get().checked_sub(words.len());
    scope
        .words
        .set(left.ok_or(InvalidSearch::QueryNodes(WORDS_MAX))?);
    let term = |text: &str| Term::from_field_text(at, text);
    let words = words.iter().map(|word| (word.place, term(&word.text)));
    Ok(Some(words.collect()))
}

fn whole(placed: &Placed, text: &str, weight: f32) -> Result<Compiled, InvalidSearch> {
    let value = Value::String(text.to_owned());
    let term = placed.term(&value, "match query")?;
    Ok(constant(of_term(term), weight))
}
