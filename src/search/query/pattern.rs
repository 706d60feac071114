//! Prefixes, suffixes and patterns.
//!
//! Owns: how they are looked for among the texts of a field. Promises: a pattern is held against each text as it is
//! written, in memory that does not grow with it, and no longer than the search may take. Must not: know words.

use std::ops::Bound;
use std::str::from_utf8;
use std::sync::Arc;

use tantivy::query::{
    BitSetDocSet, ConstScorer, EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{BitSet, DocId, DocSet, Score, SegmentReader, TantivyError, Term};

use tideline_model::search::InvalidSearch;

use super::{Compiled, Scope, between};
use crate::asked::Asked;
use crate::index::layout::Placed;

/// What begins with a text.
pub(super) fn prefix(
    scope: &Scope<'_>,
    placed: &Placed,
    prefix: &str,
) -> Result<Compiled, InvalidSearch> {
    let at = of_texts(placed, "prefix query")?;
    let from = Bound::Included(Term::from_field_text(at, prefix));
    let to = match end_of(prefix) {
        Some(end) => Bound::Excluded(Term::from_field_text(at, &end)),
        None => Bound::Unbounded,
    };
    Ok(between(scope, placed, at, (from, to)))
}

/// The words of texts between two others.
pub(super) fn words_between(
    scope: &Scope<'_>,
    at: Field,
    from: Bound<String>,
    to: Bound<String>,
) -> Compiled {
    texts(scope, at, Pattern::Between(from, to))
}

/// What ends with a text.
pub(super) fn suffix(
    scope: &Scope<'_>,
    placed: &Placed,
    suffix: &str,
) -> Result<Compiled, InvalidSearch> {
    let at = of_texts(placed, "suffix query")?;
    Ok(texts(scope, at, Pattern::Suffix(suffix.to_owned())))
}

/// What is as a pattern.
pub(super) fn wildcard(
    scope: &Scope<'_>,
    placed: &Placed,
    pattern: &str,
) -> Result<Compiled, InvalidSearch> {
    let at = of_texts(placed, "wildcard query")?;
    let pattern = pattern.chars().collect();
    Ok(texts(scope, at, Pattern::Wildcard(pattern)))
}

fn of_texts(placed: &Placed, what: &'static str) -> Result<Field, InvalidSearch> {
    match placed.field.kind.is_text() {
        true => placed.searched(what),
        false => Err(placed.no(what)),
    }
}

fn texts(scope: &Scope<'_>, at: Field, pattern: Pattern) -> Compiled {
    Box::new(Texts {
        at,
        pattern: Arc::new(pattern),
        asked: Arc::clone(scope.asked),
    })
}

/// Rows with a text of a field that is as a pattern.
#[derive(Clone, Debug)]
struct Texts {
    at: Field,
    pattern: Arc<Pattern>,
    asked: Arc<Asked>,
}

impl Query for Texts {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for Texts {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = segment.inverted_index(self.at)?;
        let begin = self.pattern.begin();
        let mut range = index.terms().range().ge(&begin);
        if let Some(end) = self.pattern.end() {
            range = range.lt(end);
        }
        let mut texts = range.into_stream()?;
        let bytes = segment.max_doc() as usize / 8;
        if self.asked.share.take(bytes).is_err() {
            // The search ends.
            return Ok(Box::new(EmptyScorer));
        }
        let mut rows = BitSet::with_max_value(segment.max_doc());
        while texts.advance() && !self.asked.deadline.is_over() {
            if !self.pattern.is_met(texts.key()) {
                continue;
            }
            let what = IndexRecordOption::Basic;
            let mut block = index.read_block_postings_from_terminfo(texts.value(), what)?;
            while !block.docs().is_empty() {
                for row in block.docs() {
                    rows.insert(*row);
                }
                block.advance();
            }
        }
        let rows = Counted {
            rows: BitSetDocSet::from(rows),
            bytes,
            asked: Arc::clone(&self.asked),
        };
        Ok(Box::new(ConstScorer::new(rows, boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        let what = "a pattern is not explained";
        Err(TantivyError::InvalidArgument(what.to_owned()))
    }
}

/// Rows, and what of the search's memory they take.
struct Counted {
    rows: BitSetDocSet,
    bytes: usize,
    asked: Arc<Asked>,
}

impl DocSet for Counted {
    fn advance(&mut self) -> DocId {
        self.rows.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.rows.seek(target)
    }

    fn doc(&self) -> DocId {
        self.rows.doc()
    }

    fn size_hint(&self) -> u32 {
        self.rows.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.asked.share.give(self.bytes);
    }
}

/// What a text is as.
#[derive(Debug)]
pub(super) enum Pattern {
    Suffix(String),
    Between(Bound<String>, Bound<String>),
    /// `*` is any text, `?` any character.
    Wildcard(Vec<char>),
}

impl Pattern {
    /// What every text that meets it begins with.
    fn begin(&self) -> String {
        match self {
            Pattern::Suffix(_) | Pattern::Between(Bound::Unbounded, _) => String::new(),
            Pattern::Between(Bound::Included(from) | Bound::Excluded(from), _) => from.clone(),
            Pattern::Wildcard(pattern) => {
                let plain = pattern.iter().take_while(|one| !matches!(one, '*' | '?'));
                plain.collect()
            }
        }
    }

    /// What every text that meets it comes before; `None` = nothing.
    fn end(&self) -> Option<String> {
        match self {
            Pattern::Between(_, Bound::Excluded(to)) => Some(to.clone()),
            Pattern::Between(_, Bound::Included(to)) => Some(format!("{to}\0")),
            Pattern::Between(_, Bound::Unbounded) => None,
            Pattern::Suffix(_) | Pattern::Wildcard(_) => end_of(&self.begin()),
        }
    }

    /// Whether a text is so.
    pub(super) fn is_met(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Between(Bound::Excluded(from), _) => text != from.as_bytes(),
            Pattern::Between(..) => true,
            Pattern::Suffix(suffix) => text.ends_with(suffix.as_bytes()),
            Pattern::Wildcard(pattern) => from_utf8(text).is_ok_and(|text| is_like(text, pattern)),
        }
    }
}

/// Whether a text is as a pattern. What the last `*` stands for grows until the rest fits; no earlier one has to.
fn is_like(text: &str, pattern: &[char]) -> bool {
    let (mut rest, mut at) = (text.chars(), 0);
    let mut star = None;
    loop {
        let before = rest.clone();
        match (pattern.get(at), rest.next()) {
            (Some('*'), _) => {
                rest = before.clone();
                at += 1;
                star = Some((before, at));
            }
            (None, None) => return true,
            (Some(_), None) => return false,
            (Some(one), Some(found)) if *one == '?' || *one == found => at += 1,
            _ => match &mut star {
                Some((from, behind)) => {
                    from.next();
                    (rest, at) = (from.clone(), *behind);
                }
                None => return false,
            },
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_a_pattern_or_not() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("a", "", false),
            ("abcbcd", "a*bcd", true),
            ("abcbcde", "a*bcd", false),
            ("a<b>", "?<?>", true),
            ("\\<", "\\<", true),
            ("中文", "?文", true),
            ("中文", "??文", false),
            ("a\nb", "a*b", true),
            ("xayyyyyy", "*a??????", true),
            ("xayyyyy", "*a??????", false),
            ("abab", "**ab", true),
            ("aXbXc", "a*X*c*", true),
        ] {
            let pattern_of: Vec<char> = pattern.chars().collect();
            assert_eq!(is_like(text, &pattern_of), expected, "{text} {pattern}");
        }
        let (long, pattern) = ("a".repeat(4_000), "*a".repeat(15) + "b");
        assert!(!is_like(&long, &pattern.chars().collect::<Vec<_>>()));
    }
}
