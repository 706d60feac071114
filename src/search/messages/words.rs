//! What a query's text asks for.
//!
//! Owns: the reading of it: words that all occur, `"a phrase"`, `-without`, `begin*`; and the pieces of a found text
//! around its words. Promises: anything else is text, so that no query is wrong; words end where the index's do. Must
//! not: know an index.

use std::ops::Range;

use tideline_model::Value;
use tideline_model::search::{Bool, FoundPart, FoundText, Match, Query, fields};

use crate::analyze::{Span, is_alone, spans};
use crate::index::message::{TEXT_BYTES_MAX, each_text};

/// A query as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    parts: Vec<Part>,
    /// It has text, but none of it is a word.
    is_idle: bool,
}

/// A word of a query, or a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    text: String,
    words: Vec<Span>,
    /// Its last word only begins so.
    is_begin: bool,
    is_not: bool,
}

/// Parts of a query.
pub(super) const PARTS_MAX: usize = 64;
/// Pieces of a message, characters around a hit, and hits of a piece.
const PIECES_MAX: usize = 3;
const AROUND_CHARS: usize = 40;
const HITS_MAX: usize = 8;

impl Words {
    /// Reads a query; `None` = everything is asked for.
    ///
    /// # Errors
    /// It has more than so many parts.
    pub fn read(query: Option<&str>) -> Result<Words, usize> {
        let query = query.unwrap_or_default();
        let (mut parts, mut rest) = (Vec::new(), query.trim_start());
        while !rest.is_empty() {
            let (part, behind) = Part::first(rest);
            rest = behind.trim_start();
            if !part.words.is_empty() {
                parts.push(part);
            }
            if parts.len() > PARTS_MAX {
                return Err(PARTS_MAX);
            }
        }
        let is_idle = parts.is_empty() && !query.trim().is_empty();
        Ok(Words { parts, is_idle })
    }

    /// Whether it finds nothing, because it has text and no word.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Adds it to what has to hold.
    pub(super) fn add_to(&self, all: &mut Bool) {
        for part in &self.parts {
            match part.is_not {
                // Its query finds too much: what it excludes is left to `hold`.
                true if part.is_begin && part.words.len() > 1 => {}
                true => all.must_not.push(part.query()),
                false => all.must.push(part.query()),
            }
        }
    }

    /// Whether it holds of an entry as it was read: an index may be behind it.
    #[must_use]
    pub fn hold(&self, entry: &[(String, Value)]) -> bool {
        let mut is_met = vec![false; self.parts.len()];
        for (_, value) in entry.iter().filter(|(name, _)| !name.starts_with("__")) {
            each_text(value, &mut |text| {
                let end = text.floor_char_boundary(text.len().min(TEXT_BYTES_MAX));
                let words = spans(&text[..end]);
                for (part, is_met) in self.parts.iter().zip(&mut is_met) {
                    *is_met = *is_met || part.hits_in(&words).next().is_some();
                }
            });
        }
        let mut all = self.parts.iter().zip(is_met);
        all.all(|(part, is_met)| is_met != part.is_not)
    }

    /// Pieces of the texts of an entry around the words that were asked for.
    #[must_use]
    pub fn found(&self, entry: &[(String, Value)]) -> Vec<FoundText> {
        let mut found = Vec::new();
        if self.parts.iter().all(|part| part.is_not) {
            return found;
        }
        for (name, value) in entry.iter().filter(|(name, _)| !name.starts_with("__")) {
            each_text(value, &mut |text| {
                let end = text.floor_char_boundary(text.len().min(TEXT_BYTES_MAX));
                if found.len() < PIECES_MAX
                    && let Some(parts) = self.piece(&text[..end])
                {
                    let name = name.clone();
                    found.push(FoundText { name, parts });
                }
            });
        }
        found
    }

    /// A piece of a text around the first hits in it; `None` = it has none.
    fn piece(&self, text: &str) -> Option<Vec<FoundPart>> {
        let words = spans(text);
        let mut hits: Vec<Range<usize>> = Vec::new();
        for part in self.parts.iter().filter(|part| !part.is_not) {
            let all = part.hits_in(&words);
            hits.extend(all.take(HITS_MAX));
        }
        hits.sort_by_key(|hit| (hit.start, hit.end));
        let first = hits.first()?.clone();
        let begin = back(text, first.start);
        let (mut parts, mut at, mut end) = (Vec::new(), begin, ahead(text, first.end));
        let mut add = |range: Range<usize>, hit: bool| {
            if !range.is_empty() {
                let text = text[range].to_owned();
                parts.push(FoundPart { text, hit });
            }
        };
        for hit in hits {
            if hit.start >= end {
                break;
            }
            let hit = hit.start.max(at)..hit.end.max(at);
            if hit.is_empty() {
                continue;
            }
            add(at..hit.start, false);
            at = hit.end;
            end = end.max(
                ahead(text, hit.end)
                    .min(first.end + 8 * AROUND_CHARS)
                    .max(at),
            );
            end = text.floor_char_boundary(end);
            add(hit, true);
        }
        add(at..end.max(at), false);
        Some(parts)
    }
}

impl Part {
    /// The first part of a text that begins with one, and what is behind it.
    fn first(text: &str) -> (Part, &str) {
        let without = text.strip_prefix('-');
        let without = without.filter(|rest| rest.starts_with(|one: char| !one.is_whitespace()));
        let (is_not, rest) = match without {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if let Some((phrase, behind)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'))
        {
            return (Part::new(phrase, false, is_not), behind);
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let part = match word.strip_suffix('*') {
            Some(begin) => Part::new(begin, true, is_not),
            None => Part::new(word, false, is_not),
        };
        (part, behind)
    }

    fn new(text: &str, is_begin: bool, is_not: bool) -> Part {
        let words = spans(text);
        // A character that is a word by itself begins no other one, and behind a word nothing goes on.
        let goes_on = words
            .last()
            .is_some_and(|last| last.at.end == text.len() && !last.text.chars().all(is_alone));
        Part {
            text: text.to_owned(),
            words,
            is_begin: is_begin && goes_on,
            is_not,
        }
    }

    fn query(&self) -> Query {
        let field = || fields::WORDS.to_owned();
        let phrase = |text: &str| Query::Phrase {
            field: field(),
            text: text.to_owned(),
            slop: 0,
            weight: 1.0,
        };
        match self.words.last() {
            Some(last) if self.is_begin => {
                let begin = Query::Prefix {
                    field: field(),
                    prefix: last.text.clone(),
                    weight: 1.0,
                };
                if self.words.len() == 1 {
                    return begin;
                }
                let before = phrase(&self.text[..last.at.start]);
                Query::Bool(Box::new(Bool {
                    must: vec![before, begin],
                    ..Bool::default()
                }))
            }
            _ if self.words.len() > 1 => phrase(&self.text),
            _ => Query::Match(Match {
                field: field(),
                text: self.text.clone(),
                is_and: true,
                minimum: None,
                weight: 1.0,
            }),
        }
    }

    /// Where it is among the words of a text.
    fn hits_in<'w>(&'w self, words: &'w [Span]) -> impl Iterator<Item = Range<usize>> + 'w {
        let count = self.words.len();
        words.windows(count).filter_map(move |window| {
            let is_met = window
                .iter()
                .zip(&self.words)
                .enumerate()
                .all(|(at, pair)| {
                    let (word, asked) = pair;
                    match self.is_begin && at + 1 == count {
                        true => word.text.starts_with(&asked.text),
                        false => word.text == asked.text,
                    }
                });
            is_met.then(|| window[0].at.start..window[count - 1].at.end)
        })
    }
}

/// So many characters before a place, from the begin of a word on.
fn back(text: &str, at: usize) -> usize {
    let before = text[..at].char_indices().rev();
    let from = before
        .take(AROUND_CHARS)
        .last()
        .map_or(at, |(from, _)| from);
    if from == 0 {
        return 0;
    }
    let mut each = text[from..at].char_indices();
    let space = each.find(|(_, one)| one.is_whitespace());
    space.map_or(from, |(space, one)| from + space + one.len_utf8())
}

/// So many characters behind a place, to the end of a word.
fn ahead(text: &str, at: usize) -> usize {
    let mut behind = text[at..].char_indices().skip(AROUND_CHARS);
    let Some((to, _)) = behind.next() else {
        return text.len();
    };
    let space = text[at..at + to].rfind(char::is_whitespace);
    at + space.filter(|space| *space > 0).unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(query: &str) -> Vec<String> {
        let words = Words::read(Some(query)).unwrap();
        let parts = words.parts.iter().map(|part| {
            let words: Vec<_> = part.words.iter().map(|word| word.text.as_str()).collect();
            let (not, begin) = (
                ["", "-"][usize::from(part.is_not)],
                ["", "*"][usize::from(part.is_begin)],
            );
            format!("{not}{}{begin}", words.join("+"))
        });
        parts.collect()
    }

    #[test]
    fn a_query_is_words_phrases_exclusions_and_begins_and_else_text() {
        for (query, expected) in [
            ("Tide IN", &["tide", "in"][..]),
            (r#""at noon" x"#, &["at+noon", "x"]),
            (r#"-low -"not this""#, &["-low", "-not+this"]),
            ("lob* -bo*", &["lob*", "-bo*"]),
            ("a-b*", &["a+b*"]),
            (r#"an "open one"#, &["an", "open", "one"]),
            ("- * -- \"\" ()", &[]),
            ("-", &[]),
            ("--x", &["-x"]),
            ("x** (AND OR) field:y", &["x", "and", "or", "field+y"]),
            ("北京* น้ำ", &["北+京", "น+\u{e49}+ำ"]),
            ("\"a\"b", &["a", "b"]),
            ("", &[]),
        ] {
            assert_eq!(shown(query), expected, "{query}");
        }
        assert!(Words::read(Some("!!")).unwrap().is_idle());
        assert!(!Words::read(Some("  ")).unwrap().is_idle());
        assert!(!Words::read(Some("-x")).unwrap().is_idle());
        assert_eq!(
            Words::read(Some(&"x ".repeat(PARTS_MAX + 1))),
            Err(PARTS_MAX)
        );
    }

    #[test]
    fn what_a_query_of_an_index_finds_too_much_of_is_not_excluded_by_it() {
        for (query, asked, excluded) in [
            ("-de*", 0, 1),
            ("-so-deep x", 1, 1),
            ("-so-de*", 0, 0),
            ("so-de* -x", 1, 1),
        ] {
            let mut all = Bool::default();
            Words::read(Some(query)).unwrap().add_to(&mut all);
            assert_eq!(
                (all.must.len(), all.must_not.len()),
                (asked, excluded),
                "{query}"
            );
        }
    }

    fn found(query: &str, text: &str) -> Vec<String> {
        let words = Words::read(Some(query)).unwrap();
        let entry = [("text".to_owned(), Value::String(text.to_owned()))];
        let found = words.found(&entry);
        let each = found.into_iter().map(|found| {
            let parts = found.parts.iter().map(|part| match part.hit {
                true => format!("[{}]", part.text),
                false => part.text.clone(),
            });
            parts.collect::<String>()
        });
        each.collect()
    }

    #[test]
    fn a_space_of_more_than_a_byte_is_a_space() {
        for space in ["\u{3000}", "\u{a0}", "\u{2003}", "\u{85}", " "] {
            let (before, between) = ("字".repeat(30), "字".repeat(20));
            let text = format!("{before}{space}{between}潮水{}{space}x", "字".repeat(50));
            let piece = format!("{between}[潮][水]{}", "字".repeat(40));
            assert_eq!(found("潮 水", &text), [piece], "{space:?}");
            let text = format!("{before}{space}{between}潮水{between}{space}{before}");
            let piece = format!("{between}[潮水]{between}");
            assert_eq!(found("潮水", &text), [piece], "{space:?}");
        }
    }

    /// Of random texts a piece is a piece: joined it stands in the text, and what is marked is a hit.
    #[test]
    fn a_piece_of_any_text_is_a_run_of_it() {
        let alphabet: Vec<char> = "ab \u{3000}\u{a0}\u{2028}\t.-\"字潮水น\u{e49}éß👩\u{200d}한"
            .chars()
            .collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |end: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % end as u64) as usize
        };
        let mut hits = 0;
        for _ in 0..3_000 {
            let mut text = |most: usize| {
                let length = below(most);
                let each = (0..length).map(|_| alphabet[below(alphabet.len())]);
                each.collect::<String>()
            };
            let (query, text) = (text(4), text(300));
            let words = Words::read(Some(&query)).unwrap();
            let entry = [("text".to_owned(), Value::String(text.clone()))];
            let pieces = words.found(&entry);
            assert!(pieces.is_empty() || pieces[0].parts.iter().any(|part| part.hit));
            for piece in pieces {
                let all: String = piece.parts.iter().map(|part| &*part.text).collect();
                assert!(text.contains(&all), "{query:?} {text:?} {all:?}");
                hits += 1;
            }
        }
        assert!(hits > 1_000, "{hits}");
    }

    #[test]
    fn pieces_are_cut_around_hits_and_read_as_the_text() {
        assert_eq!(
            found("noon tide", "The Tide at noon"),
            ["The [Tide] at [noon]"]
        );
        assert_eq!(
            found("\"at noon\" t*", "tide at noon"),
            ["[tide] [at noon]"]
        );
        assert_eq!(found("x -y", "y"), Vec::<String>::new());
        assert_eq!(found("-y", "x"), Vec::<String>::new());
        assert_eq!(found("京", "北京"), ["北[京]"]);
        let long = format!("{}needle {}", "word ".repeat(100), "more ".repeat(100));
        let piece = found("needle", &long);
        assert!(piece[0].starts_with("word ") && piece[0].contains("[needle]"));
        assert!(piece[0].len() < 120, "{}", piece[0]);
        for (query, holds) in [
            ("so deep", true),
            ("\"so deep\" de*", true),
            ("x -y", true),
            ("-x", false),
            ("\"x so\"", false),
            ("so-de*", true),
            ("x-de*", false),
            ("-so-de*", false),
            ("-x-de*", true),
        ] {
            let words = Words::read(Some(query)).unwrap();
            let nested = Value::Json(r#"{"a":["x","so deep"]}"#.to_owned());
            assert_eq!(words.hold(&[("n".to_owned(), nested)]), holds, "{query}");
        }
        let words = Words::read(Some("deep")).unwrap();
        let nested = Value::Json(r#"{"a":["x","so deep"]}"#.to_owned());
        assert_eq!(words.found(&[("n".to_owned(), nested)])[0].name, "n");
    }
}
