//! Several groupings at once: a group for each combination of their keys.
//!
//! Owns: how a combination is written. Promises: combinations are written so that their bytes compare as they are to
//! come, over all segments; those that came on earlier pages are passed by. Must not: count.

use tantivy::{DocId, SegmentReader, TantivyError, u64_to_f64, u64_to_i64};
use xxhash_rust::xxh3::xxh3_64;

use tideline_model::search::{GROUPS_ALL_MAX, GroupKind, GroupOrder, GroupOrderBy, InvalidSearch};

use super::part::{KeyPart, SourceKind};
use super::{Key, Texts};
use crate::collect::{Share, Short};

/// See the top.
pub(super) struct Several {
    keys: Vec<(Key, bool)>,
    /// What stands for the groupings in tokens.
    digest: u64,
    after: Option<Vec<u8>>,
}

/// The same in one segment.
pub(super) struct SeveralPart {
    keys: Vec<(KeyPart, Written, bool)>,
    after: Option<Vec<u8>>,
    /// Of one grouping, of the row that is looked at.
    found: Vec<u64>,
}

/// How a key is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Number,
    Text,
}

/// Combinations of one row.
const OF_ROW_MAX: usize = 10_000;
/// Whether a row has a key.
const NONE: u8 = 0;
const SOME: u8 = 1;

impl Several {
    pub(super) fn new(
        keys: Vec<Key>,
        asked: &[(String, GroupKind)],
        after: Option<&String>,
    ) -> Result<Several, InvalidSearch> {
        let digest = xxh3_64(format!("{asked:?}").as_bytes());
        let after = after.map(|token| read(token, digest).ok_or(InvalidSearch::Token));
        let are_desc = asked.iter().map(|(name, kind)| is_desc(name, kind));
        let are_desc = are_desc.collect::<Result<Vec<_>, _>>()?;
        Ok(Several {
            keys: keys.into_iter().zip(are_desc).collect(),
            digest,
            after: after.transpose()?,
        })
    }

    pub(super) fn part(&self, segment: &SegmentReader) -> tantivy::Result<SeveralPart> {
        let keys = self.keys.iter().map(|(key, is_desc)| {
            let written = match key {
                Key::Values(source) if source.kind == SourceKind::Text => Written::Text,
                _ => Written::Number,
            };
            Ok::<_, TantivyError>((KeyPart::new(key, segment)?, written, *is_desc))
        });
        Ok(SeveralPart {
            keys: keys.collect::<Result<_, _>>()?,
            after: self.after.clone(),
            found: Vec::new(),
        })
    }

    /// What goes on behind a combination.
    pub(super) fn token(&self, written: &[u8]) -> String {
        let mut token = format!("{:016x}", self.digest);
        token.extend(written.iter().map(|byte| format!("{byte:02x}")));
        token
    }

    /// The keys of a combination, as texts.
    pub(super) fn texts(&self, written: &[u8]) -> Vec<Option<String>> {
        let mut rest = written.iter().copied();
        let texts = self.keys.iter().map(|(key, is_desc)| {
            let mut bytes = rest.by_ref().map(|byte| turned(byte, *is_desc));
            if bytes.next() != Some(SOME) {
                return None;
            }
            if matches!(key, Key::Values(source) if source.kind == SourceKind::Text) {
                let mut text = Vec::new();
                while let Some(byte) = bytes.next() {
                    // A zero is one of the text, or its end.
                    if byte == 0 && bytes.next() != Some(1) {
                        break;
                    }
                    text.push(byte);
                }
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            let number = bytes
                .take(8)
                .fold(0, |number, byte| number << 8 | u64::from(byte));
            Some(match key {
                Key::Steps(source, steps) => number_text(source.kind, steps.begin(number)),
                Key::Dates(..) => u64_to_i64(number).to_string(),
                Key::Values(source) => match source.kind {
                    SourceKind::Integer => u64_to_i64(number).to_string(),
                    SourceKind::Double => format!("{:?}", u64_to_f64(number)),
                    _ => (number != 0).to_string(),
                },
                _ => number.to_string(),
            })
        });
        texts.collect()
    }
}

#[allow(clippy::cast_possible_truncation)] // steps of integers are whole
fn number_text(kind: SourceKind, number: f64) -> String {
    match kind {
        SourceKind::Integer => (number as i64).to_string(),
        _ => format!("{number:?}"),
    }
}

/// Whether the highest key of a grouping comes first.
fn is_desc(name: &str, kind: &GroupKind) -> Result<bool, InvalidSearch> {
    let order = match kind {
        GroupKind::Field { order, .. }
        | GroupKind::Histogram { order, .. }
        | GroupKind::Dates { order, .. } => &order[..],
        _ => &[],
    };
    match order {
        [] => Ok(false),
        [
            GroupOrder {
                by: GroupOrderBy::Key,
                is_desc,
            },
        ] => Ok(*is_desc),
        _ => Err(InvalidSearch::Field(
            name.to_owned(),
            "a source of a group by composite is sorted by its key",
        )),
    }
}

fn turned(byte: u8, is_desc: bool) -> u8 {
    if is_desc { !byte } else { byte }
}

/// The combination that a token goes on behind.
fn read(token: &str, digest: u64) -> Option<Vec<u8>> {
    let (of, written) = token.split_at_checked(16)?;
    if u64::from_str_radix(of, 16) != Ok(digest) || written.len() % 2 != 0 {
        return None;
    }
    let (pairs, _) = written.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.collect()
}

impl SeveralPart {
    /// Finds the combinations of a row, as texts.
    pub(super) fn keys(
        &mut self,
        row: DocId,
        found: &mut Vec<u64>,
        texts: &mut Texts,
        share: &Share,
    ) -> Result<(), Short> {
        let mut all = vec![Vec::new()];
        for (key, written, is_desc) in &mut self.keys {
            key.keys(row, &mut self.found, texts, share)?;
            if all.len() * self.found.len() > OF_ROW_MAX {
                return Err(Short::Groups(GROUPS_ALL_MAX));
            }
            let mut ends: Vec<Vec<u8>> = self
                .found
                .iter()
                .map(|key| write(*key, *written, texts))
                .collect();
            if ends.is_empty() && key.is_outside(row) {
                return Ok(());
            }
            if ends.is_empty() {
                ends.push(vec![NONE]);
            }
            let longer = all.iter().flat_map(|begin: &Vec<u8>| {
                ends.iter().map(|end| {
                    let end = end.iter().map(|byte| turned(*byte, *is_desc));
                    begin.iter().copied().chain(end).collect()
                })
            });
            all = longer.collect();
        }
        for combination in all {
            if self.after.as_ref().is_none_or(|after| combination > *after) {
                found.push(texts.number(&combination, share)?);
            }
        }
        Ok(())
    }
}

fn write(key: u64, written: Written, texts: &Texts) -> Vec<u8> {
    let mut bytes = vec![SOME];
    match written {
        Written::Number => bytes.extend(key.to_be_bytes()),
        Written::Text => {
            let text = usize::try_from(key).ok().and_then(|at| texts.all.get(at));
            for byte in text.into_iter().flatten() {
                bytes.push(*byte);
                bytes.extend((*byte == 0).then_some(1));
            }
            bytes.extend([0, 0]);
        }
    }
    bytes
}
