//! One level of the names of timelines, as a file system shows a directory.
//!
//! Owns: `timeline.prefixes`. Promises: all names that go on behind a delimiter are one entry, found with one seek in
//! each partition however many they are; an entry tells of nothing that its reader may not see. Must not: read more of
//! a timeline than decides whether it is seen.
//!
//! How far a partition has looked is given as bytes: every name up to them, and that begins with them if they end with
//! `0xff`, which no name has. So one order holds for names and for what lies below a prefix.

use std::collections::BTreeSet;

use tideline_model::Direction;
use tideline_model::access::Asker;
use tideline_table::{Key, View, scan};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::HEADS;
use super::super::write::Site;
use super::super::{Error, Timelines};
use super::HEADS_SCANNED_MAX;
use super::covered;

/// Which level is asked for.
#[derive(Clone, Debug)]
pub struct Level {
    /// The asker.
    pub asker: Asker,
    /// Only names that begin with this.
    pub prefix: String,
    /// What ends a level; not empty.
    pub delimiter: String,
    /// Only what comes behind this.
    pub after: Option<Behind>,
    /// Entries at most (already clamped).
    pub limit: usize,
    /// Approximate bytes of JSON at most; at least one entry is returned all the same.
    pub bytes_max: usize,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Behind an entry, with all that lies below it.
    Entry(String),
    /// Behind one name, which may be hidden and must not be shown.
    Name(String),
}

/// A timeline, or what several begin with up to the next delimiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelEntry {
    /// The name, or the prefix with its delimiter.
    pub name: String,
    /// It is a prefix.
    pub is_prefix: bool,
}

/// A page of a level, in the order of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelPage {
    /// Those with something that the asker may see.
    pub entries: Vec<LevelEntry>,
    /// Where the next page begins, if there is more.
    pub next: Option<Behind>,
}

/// Up to where names were looked at.
type Reached = Vec<u8>;

impl Level {
    /// The entry that shows a name of this level or below it.
    fn entry<'n>(&self, name: &'n str) -> &'n str {
        let begin = self.prefix.len();
        let end = name[begin..].find(&self.delimiter);
        end.map_or(name, |at| &name[..begin + at + self.delimiter.len()])
    }

    /// Whether an entry is a prefix.
    fn is_prefix(&self, entry: &str) -> bool {
        entry[self.prefix.len()..].ends_with(&self.delimiter)
    }

    fn behind_entry(&self, entry: &str) -> Reached {
        match self.is_prefix(entry) {
            true => with_all_below(entry),
            false => entry.as_bytes().to_vec(),
        }
    }

    /// The keys of heads to walk.
    fn ranges(&self) -> Vec<(Key, Key)> {
        let first = bound(self.prefix.as_bytes());
        let start = match &self.after {
            None => first,
            Some(Behind::Name(name)) => behind(name.as_bytes()).max(first),
            Some(Behind::Entry(name)) => {
                let is_entry = name.starts_with(&self.prefix) && self.entry(name) == name;
                let reached = match is_entry {
                    true => self.behind_entry(name),
                    false => name.as_bytes().to_vec(),
                };
                behind(&reached).max(first)
            }
        };
        let end = behind(&with_all_below(&self.prefix));
        covered::of_users(&self.asker.coverage(), (start, end))
    }

    /// How many of the first go into the page; at least one.
    fn that_fit(&self, found: &BTreeSet<String>) -> usize {
        let mut bytes = self.bytes_max;
        let fits = |name: &&String| {
            let size = name.len() * 2 + 64;
            let fits = size <= bytes;
            bytes = bytes.saturating_sub(size);
            fits
        };
        let count = found.iter().take(self.limit).take_while(fits).count();
        count.max(1).min(found.len())
    }
}

/// A prefix, and all names that begin with it.
fn with_all_below(prefix: &str) -> Reached {
    [prefix.as_bytes(), &[ABOVE_ALL]].concat()
}

/// The bound below all names from these bytes on.
fn bound(bytes: &[u8]) -> Key {
    Key::new(HEADS, &[], bytes.len() + 8).text_from(bytes)
}

/// The bound above all names that were looked at. No name has a zero byte.
fn behind(reached: &[u8]) -> Key {
    bound(&[reached, &[0]].concat())
}

/// In no text in UTF-8.
const ABOVE_ALL: u8 = 0xff;

impl Site {
    /// This partition's part of a level: up to `limit` entries, and up to where that is all (`None` = to the end).
    fn level(
        &self,
        view: &View,
        level: &Level,
    ) -> Result<(BTreeSet<String>, Option<Reached>), Error> {
        let mut found = BTreeSet::new();
        let mut scanned = 0;
        for (mut from, to) in level.ranges() {
            'seek: while from < to {
                for row in scan(view, &from, &to, Direction::Forward) {
                    let (name, head) = HeadRow::named(&row?)?;
                    scanned += 1;
                    if self.listed(view, &name, &head, &level.asker)?.is_some() {
                        if found.len() == level.limit {
                            let last: Option<&String> = found.last();
                            let reached = last.map(|last| level.behind_entry(last));
                            return Ok((found, reached));
                        }
                        let entry = level.entry(&name);
                        found.insert(entry.to_owned());
                        if level.is_prefix(entry) {
                            from = behind(&with_all_below(entry));
                            continue 'seek;
                        }
                    }
                    if scanned == HEADS_SCANNED_MAX {
                        return Ok((found, Some(name.into_bytes())));
                    }
                }
                break;
            }
        }
        Ok((found, None))
    }
}

impl Timelines {
    /// One level of the names of all partitions' timelines.
    pub async fn level(&self, mut level: Level) -> Result<LevelPage, Error> {
        loop {
            let mut found = BTreeSet::new();
            // Up to where the answers of all partitions are complete.
            let mut complete: Option<Reached> = None;
            for partition in self.partitions() {
                let (site, part) = (self.site(partition), level.clone());
                let read = move |view: &View| site.level(view, &part);
                let (entries, reached) = self.read(partition, read).await?;
                found.extend(entries);
                complete = match (complete, reached) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            if let Some(complete) = &complete {
                // A prefix that is seen counts, wherever below it the other partitions have got to.
                found.retain(|entry: &String| entry.as_bytes() <= complete.as_slice());
            }
            let kept = level.that_fit(&found);
            let more = kept < found.len() || complete.is_some();
            let shown = |name: String| LevelEntry {
                is_prefix: level.is_prefix(&name),
                name,
            };
            let entries: Vec<_> = found.into_iter().take(kept).map(shown).collect();
            let next = match (entries.last(), complete) {
                (Some(last), _) => more.then(|| Behind::Entry(last.name.clone())),
                (None, None) => None,
                (None, Some(reached)) => {
                    let name = String::from_utf8(reached);
                    Some(Behind::Name(
                        name.expect("who stopped at an entry has found it"),
                    ))
                }
            };
            // Where rights are decided, one call skips a bounded number of hidden ones.
            if !entries.is_empty() || next.is_none() || level.asker.claim().is_some() {
                return Ok(LevelPage { entries, next });
            }
            level.after = next;
        }
    }
}
