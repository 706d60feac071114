//! From a text to words.
//!
//! Owns: the rules of each analyzer, for the texts of rows and for those of queries. Promises: a word of a query is one
//! of a row exactly if both came out of the same text by the same rules; work and memory are linear in the text but for
//! `fuzzy`, which looks at its first characters only. Must not: know an index.

mod dictionary;

use std::ops::Range;

use tideline_model::search::Analyzer;

/// A word and its place among the words of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) place: usize,
    /// Which bytes of the text it is.
    pub(crate) at: Range<usize>,
}

/// Characters of a text that `fuzzy` takes apart.
pub(crate) const FUZZY_CHARS: usize = 1_024;
/// Longer words are left out: no index holds them.
const WORD_BYTES_MAX: usize = 32 << 10;

/// The words of a row's text.
pub(crate) fn words(analyzer: &Analyzer, text: &str) -> Vec<Word> {
    match analyzer {
        Analyzer::Fuzzy { min, max } => pieces(text, *min, *max),
        other => asked_words(other, text),
    }
}

/// The words of a query's text: of one that is looked for in pieces, the pieces as they are.
pub(crate) fn asked_words(analyzer: &Analyzer, text: &str) -> Vec<Word> {
    let fits = |text: &str| !text.is_empty() && text.len() <= WORD_BYTES_MAX;
    let spans = match analyzer {
        Analyzer::MaxWord | Analyzer::MinWord => {
            let mut words = dictionary_words(text, *analyzer == Analyzer::MaxWord);
            words.retain(|word| fits(&word.text));
            return words;
        }
        Analyzer::SingleWord {
            case_sensitive,
            delimit_word,
        } => single_spans(text, *case_sensitive, *delimit_word),
        Analyzer::Split { delimiter } => match delimiter {
            Some(delimiter) => between(text, text.match_indices(delimiter.as_str())),
            None => between(text, text.match_indices(char::is_whitespace)),
        },
        Analyzer::Fuzzy { .. } => {
            between(text, text.match_indices(|one: char| !one.is_alphanumeric()))
        }
    };
    let spans = spans
        .into_iter()
        .filter(|span| fits(&span.text))
        .enumerate();
    let word = |(place, Span { text, at })| Word { text, place, at };
    spans.map(word).collect()
}

/// Reads what an analyzer needs, so that no text waits for it.
pub(crate) fn load(analyzer: &Analyzer) {
    if matches!(analyzer, Analyzer::MaxWord | Analyzer::MinWord) {
        dictionary::load();
    }
}

/// Words that nearly every Chinese text has: they are left out.
const EVERYWHERE: [&str; 2] = ["\u{7684}", "\u{662f}"];

/// Runs of Chinese by the dictionary, whatever is between them by `single_word`. With all words, which overlap, places
/// count characters.
fn dictionary_words(text: &str, with_all: bool) -> Vec<Word> {
    let (mut words, mut begin, mut rest) = (Vec::new(), 0, text);
    while let Some(first) = rest.chars().next() {
        let is_han = dictionary::is_han(first);
        let end = rest.find(|one| dictionary::is_han(one) != is_han);
        let (run, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        let from = text.len() - rest.len() - run.len();
        let of_run = |at: usize, word: &str| Span {
            text: word.to_owned(),
            at: from + at..from + at + word.len(),
        };
        let found: Vec<(usize, Span)> = match (is_han, with_all) {
            (false, _) => {
                let found = single_spans(run, false, false).into_iter();
                let found = found.filter(|span| !span.text.is_empty());
                let found = found.map(|Span { text, at }| Span {
                    text,
                    at: from + at.start..from + at.end,
                });
                found.enumerate().collect()
            }
            (true, false) => {
                let mut at = 0;
                let found = dictionary::likeliest_words(run).into_iter().map(|word| {
                    at += word.len();
                    of_run(at - word.len(), word)
                });
                found.enumerate().collect()
            }
            (true, true) => {
                let begins: Vec<usize> = run.char_indices().map(|(at, _)| at).collect();
                let found = dictionary::all_words(run).into_iter();
                let found = found.map(|(place, word)| (place, of_run(begins[place], word)));
                found.collect()
            }
        };
        let count = match is_han && with_all {
            true => run.chars().count(),
            false => found.len(),
        };
        let found = found.into_iter();
        let found = found.filter(|(_, span)| !EVERYWHERE.contains(&span.text.as_str()));
        words.extend(found.map(|(place, Span { text, at })| Word {
            text,
            place: begin + place,
            at,
        }));
        begin += count;
    }
    words
}

/// What lies between what separates.
fn between<'t>(text: &'t str, separators: impl Iterator<Item = (usize, &'t str)>) -> Vec<Span> {
    let (mut spans, mut begin) = (Vec::new(), 0);
    for (end, separator) in separators.chain([(text.len(), "")]) {
        spans.push(Span {
            text: text[begin..end].to_lowercase(),
            at: begin..end,
        });
        begin = end + separator.len();
    }
    spans
}

/// A word and where it is in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) at: Range<usize>,
}

/// The words of a text by the rules of `single_word` as they are without options, with their places in it.
pub(crate) fn spans(text: &str) -> Vec<Span> {
    let mut spans = single_spans(text, false, false);
    spans.retain(|span| !span.text.is_empty() && span.text.len() <= WORD_BYTES_MAX);
    spans
}

fn single_spans(text: &str, case_sensitive: bool, delimit: bool) -> Vec<Span> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Letter,
        Digit,
        Alone,
        Between,
    }
    let kind = |one: char| match one {
        one if is_alone(one) => Kind::Alone,
        one if delimit && one.is_numeric() => Kind::Digit,
        one if one.is_alphanumeric() => Kind::Letter,
        _ => Kind::Between,
    };
    let (mut words, mut word, mut begin, mut last) = (Vec::new(), String::new(), 0, Kind::Between);
    for (at, one) in text.char_indices() {
        let now = kind(one);
        if (now != last || now == Kind::Alone) && !word.is_empty() {
            let text = std::mem::take(&mut word);
            words.push(Span {
                text,
                at: begin..at,
            });
        }
        last = now;
        if now == Kind::Between {
            continue;
        }
        if word.is_empty() {
            begin = at;
        }
        match case_sensitive {
            true => word.push(one),
            false => word.extend(one.to_lowercase()),
        }
    }
    words.push(Span {
        text: word,
        at: begin..text.len(),
    });
    words
}

/// Whether a character is a word by itself: Chinese, Japanese, Korean; and Thai, Lao, Khmer, Burmese, which have no
/// spaces between words either.
pub(crate) fn is_alone(one: char) -> bool {
    matches!(one,
        '\u{e01}'..='\u{e4e}' | '\u{e50}'..='\u{e59}' // Thai
        | '\u{e81}'..='\u{edf}' // Lao
        | '\u{1000}'..='\u{1049}' | '\u{1050}'..='\u{109f}' // Burmese
        | '\u{1100}'..='\u{11ff}' // Hangul, letters
        | '\u{1780}'..='\u{17d3}' | '\u{17e0}'..='\u{17e9}' // Khmer
        | '\u{a9e0}'..='\u{a9fe}' | '\u{aa60}'..='\u{aa7f}' // Burmese, more of it
        | '\u{2e80}'..='\u{2fdf}' // radicals
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}' // Hiragana, Katakana
        | '\u{3105}'..='\u{318f}' // Bopomofo, Hangul
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' // Han
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}' // Hangul, syllables
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}'
        | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// All pieces of the words at the begin of a text, each at the place of its word.
fn pieces(text: &str, min: usize, max: usize) -> Vec<Word> {
    let end = text.char_indices().nth(FUZZY_CHARS);
    let text = &text[..end.map_or(text.len(), |(at, _)| at)];
    let whole = Analyzer::Fuzzy { min, max };
    let mut all = Vec::new();
    for word in asked_words(&whole, text) {
        let mut ends: Vec<usize> = word.text.char_indices().map(|(at, _)| at).collect();
        ends.push(word.text.len());
        for from in 0..ends.len() - 1 {
            let lengths = (min..=max).take_while(|length| from + length < ends.len());
            all.extend(lengths.map(|length| Word {
                text: word.text[ends[from]..ends[from + length]].to_owned(),
                place: word.place,
                at: word.at.clone(),
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[Word]) -> Vec<&str> {
        words.iter().map(|word| &*word.text).collect()
    }

    #[test]
    fn words_are_as_each_analyzer_makes_them() {
        let single = |case_sensitive, delimit_word| Analyzer::SingleWord {
            case_sensitive,
            delimit_word,
        };
        let split = |text: &str| Analyzer::Split {
            delimiter: Some(text.to_owned()),
        };
        for (analyzer, text, expected) in [
            (
                single(false, false),
                "Hello, World-9b",
                &["hello", "world", "9b"][..],
            ),
            (
                single(true, false),
                "Hello 中文Ok",
                &["Hello", "中", "文", "Ok"],
            ),
            (single(false, true), "ab12cd 7", &["ab", "12", "cd", "7"]),
            (
                single(false, false),
                "한국어とカナ",
                &["한", "국", "어", "と", "カ", "ナ"],
            ),
            (single(false, false), " ,;", &[]),
            (single(false, false), "น้ำ ok", &["น", "\u{e49}", "ำ", "ok"]),
            (
                single(false, false),
                "ລາວខ្មမြ",
                &["ລ", "າ", "ວ", "ខ", "\u{17d2}", "ម", "မ", "\u{103c}"],
            ),
            (split("||"), "A b||c||", &["a b", "c"]),
            (
                Analyzer::Split { delimiter: None },
                " a  b,c\n",
                &["a", "b,c"],
            ),
        ] {
            let found = words(&analyzer, text);
            assert_eq!(texts(&found), expected, "{text}");
            assert_eq!(found, asked_words(&analyzer, text));
            assert!(found.iter().enumerate().all(|(at, word)| word.place == at));
        }
    }

    #[test]
    fn places_of_words_are_those_in_the_text() {
        for text in ["Hello, World-9b", "", " a", "İx 中文, น้ำ", "a--b "] {
            let spans = spans(text);
            let words = words(&Analyzer::default(), text);
            let of_spans: Vec<_> = spans.iter().map(|span| &*span.text).collect();
            assert_eq!(of_spans, texts(&words), "{text}");
            for span in &spans {
                let whole = text[span.at.clone()].to_lowercase();
                assert_eq!(whole, span.text);
            }
        }
    }

    #[test]
    fn words_of_chinese_come_from_the_dictionary() {
        let found = |analyzer, text| {
            let words = words(&analyzer, text);
            assert_eq!(words, asked_words(&analyzer, text));
            let words = words
                .into_iter()
                .map(|word| format!("{}{}", word.place, word.text));
            words.collect::<Vec<_>>().join(" ")
        };
        for (text, all, likeliest) in [
            (
                "我来到北京清华大学",
                "0我 1来到 3北京 5清华 5清华大学 6华大 7大学",
                "0我 1来到 2北京 3清华大学",
            ),
            ("Ok是的, 的 北京A4", "0ok 4北京 6a4", "0ok 4北京 5a4"),
            ("한국 北京カ", "0한 1국 2北京 4カ", "0한 1국 2北京 3カ"),
            (
                "\u{3400}\u{20000}",
                "0\u{3400} 1\u{20000}",
                "0\u{3400} 1\u{20000}",
            ),
            ("", "", ""),
        ] {
            assert_eq!(found(Analyzer::MaxWord, text), all);
            assert_eq!(found(Analyzer::MinWord, text), likeliest);
        }
    }

    #[test]
    fn pieces_are_looked_for_as_they_are() {
        let fuzzy = Analyzer::Fuzzy { min: 1, max: 2 };
        let found = words(&fuzzy, "Äb c");
        assert_eq!(texts(&found), ["ä", "äb", "b", "c"]);
        assert_eq!(found[3].place, 1);
        assert_eq!(texts(&asked_words(&fuzzy, "Äb c")), ["äb", "c"]);
        let long = "x".repeat(3 * FUZZY_CHARS);
        assert_eq!(words(&fuzzy, &long).len(), 2 * FUZZY_CHARS - 1);
    }
}
