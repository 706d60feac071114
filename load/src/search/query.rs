//! What is searched for, and whether the hits are right.
//!
//! Owns: the kinds of queries, made of the words of stored lines. Promises: each query has a hit, the line that it was
//! made of; each hit is held against the query. Must not: know when it is asked.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::json;

use crate::client::request::{Ask, Outcome};
use crate::client::rpc::{put_request, read};
use crate::exit::Stop;
use crate::random::Random;
use crate::run::Run;

/// A kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Words,
    Phrase,
    Beginning,
    Best,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [
        Kind::Word,
        Kind::Words,
        Kind::Phrase,
        Kind::Beginning,
        Kind::Best,
    ];

    /// Of its latencies.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Word => "word",
            Kind::Words => "words",
            Kind::Phrase => "phrase",
            Kind::Beginning => "beginning",
            Kind::Best => "best",
        }
    }
}

/// The words of the lines, in small letters: runs of ASCII letters and digits, of lines with nothing else but signs.
pub(super) struct Words(Vec<Vec<String>>);

impl Words {
    /// Those of lines with three words or more.
    pub(super) fn new<'a>(lines: impl Iterator<Item = &'a String>) -> Result<Words, Stop> {
        let words = lines.filter(|line| line.is_ascii()).map(|line| words(line));
        let lines: Vec<_> = words.filter(|words| words.len() >= 3).collect();
        match lines.is_empty() {
            true => Err(Stop::Usage("no line of the logs has three words".into())),
            false => Ok(Words(lines)),
        }
    }

    /// A line's.
    pub(super) fn any(&self, random: &mut Random) -> &[String] {
        &self.0[random.below(self.0.len() as u64) as usize]
    }

    /// What is looked for.
    fn query(&self, kind: Kind, random: &mut Random) -> Asked {
        let line = self.any(random);
        let mut at = |count: usize| random.below((line.len() - count + 1) as u64) as usize;
        let (text, words) = match kind {
            Kind::Word => {
                let word = &line[at(1)];
                (word.clone(), vec![word.clone()])
            }
            Kind::Words | Kind::Best => {
                let words = vec![
                    line[at(1)].clone(),
                    line[at(1)].clone(),
                    line[at(1)].clone(),
                ];
                (words.join(" "), words)
            }
            Kind::Phrase => {
                let at = at(2);
                let words = line[at..at + 2].to_vec();
                (format!("\"{}\"", words.join(" ")), words)
            }
            Kind::Beginning => {
                let longest = line.iter().max_by_key(|word| word.len());
                let start: String = longest
                    .into_iter()
                    .flat_map(|word| word.chars().take(4))
                    .collect();
                (format!("{start}*"), vec![start])
            }
        };
        Asked { kind, text, words }
    }
}

fn words(line: &str) -> Vec<String> {
    let words = line.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// A query, and the words that each hit has.
#[derive(Debug)]
pub(super) struct Asked {
    kind: Kind,
    text: String,
    words: Vec<String>,
}

/// What `message.search` answers, as far as it is looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Found {
    messages: Vec<Hit>,
    #[serde(default)]
    pub(super) behind: bool,
}

#[derive(Debug, Deserialize)]
struct Hit {
    message: Message,
}

#[derive(Debug, Deserialize)]
struct Message {
    entry: Entry,
}

#[derive(Debug, Deserialize)]
struct Entry {
    text: String,
}

impl Found {
    /// The texts of the hits.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|hit| &*hit.message.entry.text)
    }
}

impl Asked {
    /// Whether a text is a hit.
    fn is_in(&self, text: &str) -> bool {
        let there = words(text);
        match self.kind {
            Kind::Beginning => there.iter().any(|word| word.starts_with(&self.words[0])),
            Kind::Phrase => there.windows(2).any(|two| two == self.words),
            Kind::Word | Kind::Words | Kind::Best => {
                self.words.iter().all(|word| there.contains(word))
            }
        }
    }

    /// What is wrong with an answer.
    fn check(&self, found: &Found) -> Result<(), String> {
        let text = &self.text;
        if let Some(odd) = found.texts().find(|hit| hit.is_ascii() && !self.is_in(hit)) {
            return Err(format!("{text} found {odd:?}"));
        }
        match found.messages.is_empty() && !found.behind {
            true => Err(format!("{text} found nothing")),
            false => Ok(()),
        }
    }
}

/// What one connection searches.
pub(super) struct Searches {
    run: Rc<Run>,
    words: Rc<Words>,
    kind: Kind,
    random: Random,
    /// Hits so far.
    pub(super) found: u64,
}

impl Searches {
    pub(super) fn new(run: &Rc<Run>, words: &Rc<Words>, kind: Kind, lane: usize) -> Searches {
        Searches {
            run: Rc::clone(run),
            words: Rc::clone(words),
            kind,
            random: Random::new(run.seed_of((kind as u64) << 32 | lane as u64)),
            found: 0,
        }
    }
}

impl Ask for Searches {
    type Asked = Asked;

    fn put(&mut self, out: &mut Vec<u8>, request: u64) -> Asked {
        let asked = self.words.query(self.kind, &mut self.random);
        let order = if self.kind == Kind::Best {
            "best"
        } else {
            "newest"
        };
        let params = json!({ "query": asked.text, "order": order });
        put_request(out, request, "message.search", &params);
        asked
    }

    fn take(&mut self, asked: Asked, outcome: Outcome<'_>) -> Result<(), String> {
        let result = match outcome {
            Ok(result) => result,
            Err(refusal) if refusal.data.reason == "busy" => {
                self.run.add("busy", 1);
                return Ok(());
            }
            Err(refusal) => return Err(format!("a search was refused: {refusal}")),
        };
        let found: Found = read(result)?;
        self.found += found.messages.len() as u64;
        self.run.checks.made("hits", found.messages.len() as u64);
        if found.behind {
            self.run.add("behind", 1);
        }
        asked.check(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_finds_the_line_that_it_was_made_of() {
        let line = "[12:01] <Ann> The tide-line, at NOON".to_owned();
        assert_eq!(
            words(&line),
            ["12", "01", "ann", "the", "tide", "line", "at", "noon"]
        );
        let words = Words::new([line.clone()].iter()).expect("a line");
        let mut random = Random::new(7);
        let found = |text: &str| -> Found {
            let hit = json!({ "message": { "entry": { "text": text } } });
            serde_json::from_value(json!({ "messages": [hit] })).expect("an answer")
        };
        for kind in Kind::ALL {
            for _ in 0..50 {
                let asked = words.query(kind, &mut random);
                assert_eq!(asked.check(&found(&line)), Ok(()), "{asked:?}");
                assert!(asked.check(&found("another text")).is_err(), "{asked:?}");
                let none = Found {
                    messages: Vec::new(),
                    behind: false,
                };
                assert!(asked.check(&none).is_err());
            }
        }
        assert!(Words::new(["two words".to_owned()].iter()).is_err());
    }
}
