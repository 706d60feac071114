//! Where in a text the words are that a query looks for.
//!
//! Owns: which words these are, and the pieces of a text around them. Promises: a text is cut between its words only;
//! what a query excludes is not looked for. Must not: decide which rows match.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tideline_model::Value;
use tideline_model::search::{Analyzer, Fragments, HighlightField, InvalidSearch, Query};

use super::pattern::Pattern;
use crate::analyze::{FUZZY_CHARS, Word, asked_words};
use crate::deadline::Deadline;
use crate::index::layout::Placed;

/// Words that count as one step for the deadline.
const STEP_WORDS: usize = 64;

/// What a query looks for in a field.
enum Mark {
    Words(HashSet<String>),
    /// One behind the other, which may be off by so many places.
    Phrase(Vec<(usize, String)>, usize),
    Prefix(String),
    Pattern(Pattern),
}

/// A field whose texts are shown in pieces.
pub(super) struct Marked {
    pub(super) placed: Placed,
    pub(super) asked: HighlightField,
    is_html: bool,
    marks: Vec<Mark>,
}

impl Marked {
    pub(super) fn new(
        placed: &Placed,
        (asked, is_html): (&HighlightField, bool),
        query: &Query,
    ) -> Marked {
        let mut marks = Vec::new();
        look(placed, query, &mut marks);
        Marked {
            placed: placed.clone(),
            asked: asked.clone(),
            is_html,
            marks,
        }
    }

    /// Adds the pieces of a text to others, as many as there may be: how many words are in each, and the piece.
    pub(super) fn pieces(
        &self,
        text: &str,
        pieces: &mut Vec<(usize, String)>,
        deadline: &Deadline,
    ) {
        let mut words = asked_words(&self.placed.analyzer, text);
        if let Analyzer::Fuzzy { .. } = self.placed.analyzer {
            let end = text.char_indices().nth(FUZZY_CHARS);
            words.retain(|word| end.is_none_or(|(end, _)| word.at.end <= end));
        }
        let marked = self.marked(text, &words, deadline);
        if marked.is_empty() {
            return;
        }
        for piece in cut(text, &words, &marked, self.asked.size) {
            let inside =
                |range: &&Range<usize>| piece.start <= range.start && range.end <= piece.end;
            let marked: Vec<&Range<usize>> = marked.iter().filter(inside).collect();
            if !marked.is_empty() {
                pieces.push((
                    marked.len(),
                    self.written(&text[piece.clone()], piece.start, &marked),
                ));
            }
        }
    }

    /// The pieces that are returned.
    pub(super) fn chosen(&self, mut pieces: Vec<(usize, String)>) -> Vec<String> {
        if self.asked.order == Fragments::Best {
            pieces.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        }
        pieces.truncate(self.asked.count);
        pieces.into_iter().map(|(_, piece)| piece).collect()
    }

    fn written(&self, piece: &str, begin: usize, marked: &[&Range<usize>]) -> String {
        let (mut written, mut at) = (String::new(), 0);
        for range in marked {
            let (from, to) = (range.start - begin, range.end - begin);
            self.add(&piece[at..from], &mut written);
            written.push_str(&self.asked.before);
            self.add(&piece[from..to], &mut written);
            written.push_str(&self.asked.behind);
            at = to;
        }
        self.add(&piece[at..], &mut written);
        written
    }

    fn add(&self, text: &str, written: &mut String) {
        for one in text.chars() {
            match one {
                '&' if self.is_html => written.push_str("&amp;"),
                '<' if self.is_html => written.push_str("&lt;"),
                '>' if self.is_html => written.push_str("&gt;"),
                '"' if self.is_html => written.push_str("&quot;"),
                '\'' if self.is_html => written.push_str("&#x27;"),
                '/' if self.is_html => written.push_str("&#x2F;"),
                _ => written.push(one),
            }
        }
    }

    /// Which bytes of a text are looked for, in order; those that overlap are one.
    fn marked(&self, text: &str, words: &[Word], deadline: &Deadline) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = Vec::new();
        let is_fuzzy = matches!(self.placed.analyzer, Analyzer::Fuzzy { .. });
        for mark in &self.marks {
            let effort = u32::try_from(1 + words.len() / STEP_WORDS).unwrap_or(u32::MAX);
            if deadline.is_over_after(effort) {
                break;
            }
            let of = |is: &dyn Fn(&Word) -> bool| {
                let found = words.iter().filter(|word| is(word));
                found.map(|word| word.at.clone()).collect::<Vec<_>>()
            };
            all.extend(match mark {
                Mark::Words(asked) if is_fuzzy => {
                    let parts = words.iter().flat_map(|word| {
                        let asked = asked.iter();
                        asked.flat_map(|part| parts_of(text, word, part))
                    });
                    parts.collect()
                }
                Mark::Phrase(asked, _) if is_fuzzy => {
                    let parts = words.iter().flat_map(|word| {
                        let asked = asked.iter();
                        asked.flat_map(|(_, part)| parts_of(text, word, part))
                    });
                    parts.collect()
                }
                Mark::Words(asked) => of(&|word| asked.contains(&word.text)),
                Mark::Prefix(prefix) => of(&|word| word.text.starts_with(prefix.as_str())),
                Mark::Pattern(pattern) => of(&|word| pattern.is_met(word.text.as_bytes())),
                Mark::Phrase(asked, slop) => phrases(words, asked, *slop),
            });
        }
        all.sort_unstable_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in all {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// Adds what a query looks for in a field.
fn look(placed: &Placed, query: &Query, marks: &mut Vec<Mark>) {
    let name = placed.field.name.as_str();
    match query {
        Query::Match(asked) if asked.field == name => {
            let words = asked_words(&placed.analyzer, &asked.text).into_iter();
            marks.push(Mark::Words(words.map(|word| word.text).collect()));
        }
        Query::Phrase {
            field, text, slop, ..
        } if field == name => {
            let words = asked_words(&placed.analyzer, text).into_iter();
            let words = words.map(|word| (word.place, word.text));
            marks.push(Mark::Phrase(words.collect(), *slop as usize));
        }
        Query::Terms { field, values, .. } if field == name => {
            let texts = values.iter().filter_map(|value| match value {
                Value::String(text) => Some(text.clone()),
                _ => None,
            });
            marks.push(Mark::Words(texts.collect()));
        }
        Query::Prefix { field, prefix, .. } if field == name => {
            marks.push(Mark::Prefix(prefix.clone()));
        }
        Query::Suffix { field, suffix, .. } if field == name => {
            marks.push(Mark::Pattern(Pattern::Suffix(suffix.clone())));
        }
        Query::Wildcard { field, pattern, .. } if field == name => {
            let pattern = Pattern::Wildcard(pattern.chars().collect());
            marks.push(Mark::Pattern(pattern));
        }
        other => parts(other, &mut |part| {
            look(placed, part, marks);
            Ok(())
        })
        .unwrap_or_default(),
    }
}

/// Calls `each` with the queries inside of another one whose words or objects make a row match.
pub(super) fn parts(
    query: &Query,
    each: &mut dyn FnMut(&Query) -> Result<(), InvalidSearch>,
) -> Result<(), InvalidSearch> {
    match query {
        Query::Bool(parts) => {
            let all = parts.must.iter().chain(&parts.filter).chain(&parts.should);
            all.map(each).collect()
        }
        Query::Constant(inner) => each(inner),
        Query::Nested(nested) => each(&nested.query),
        Query::Functions(asked) => each(&asked.query),
        Query::Best(best) => best.queries.iter().map(each).collect(),
        _ => Ok(()),
    }
}

/// Words that are in their places, one behind the other.
fn phrases(words: &[Word], asked: &[(usize, String)], slop: usize) -> Vec<Range<usize>> {
    let Some((first, text)) = asked.first() else {
        return Vec::new();
    };
    let mut by_text: HashMap<&str, Vec<&Word>> = HashMap::new();
    for word in words {
        by_text.entry(&word.text).or_default().push(word);
    }
    let mut found = Vec::new();
    for begin in by_text.get(text.as_str()).into_iter().flatten() {
        let all = asked.iter().map(|(place, text)| {
            let due = begin.place + place.saturating_sub(*first);
            let words = by_text.get(text.as_str())?;
            let at = words.partition_point(|word| word.place + slop < due);
            let word = words.get(at)?;
            (word.place <= due + slop).then_some(*word)
        });
        if let Some(all) = all.collect::<Option<Vec<_>>>() {
            found.extend(all.into_iter().map(|word| word.at.clone()));
        }
    }
    found
}

/// Where a part of a word is that has its letters, large or small.
fn parts_of(text: &str, word: &Word, part: &str) -> Vec<Range<usize>> {
    let whole = &text[word.at.clone()];
    let begins = whole.char_indices().map(|(at, _)| at);
    let found = begins.filter_map(|at| {
        let mut rest = part;
        for (inside, one) in whole[at..].char_indices() {
            if rest.is_empty() {
                return Some(word.at.start + at..word.at.start + at + inside);
            }
            for small in one.to_lowercase() {
                rest = rest.strip_prefix(small)?;
            }
        }
        rest.is_empty().then(|| word.at.start + at..word.at.end)
    });
    found.collect()
}

/// Pieces of a text, of so many characters but for its words: none is cut.
fn cut(text: &str, words: &[Word], marked: &[Range<usize>], size: usize) -> Vec<Range<usize>> {
    let (mut pieces, mut begin, mut end, mut chars) = (Vec::new(), 0, 0, 0);
    let marks = marked.iter().map(|range| range.clone());
    let mut all: Vec<Range<usize>> = words
        .iter()
        .map(|word| word.at.clone())
        .chain(marks)
        .collect();
    all.sort_unstable_by_key(|range| (range.start, range.end));
    for range in all {
        if range.end <= end {
            continue;
        }
        let more = text[end..range.end].chars().count();
        if chars + more > size && range.start >= end && end > begin {
            pieces.push(begin..range.start);
            (begin, chars) = (range.start, text[range.clone()].chars().count());
        } else {
            chars += more;
        }
        end = range.end;
    }
    pieces.push(begin..text.len());
    pieces
}
