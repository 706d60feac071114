//! The groups that a row is in, by one key or by several at once.
//!
//! Owns: what the key of a row is, and how a combination of keys is written. Promises: combinations are written so that
//! their bytes compare as they are to come, over all segments; those that came on earlier pages are passed by. Must
//! not: count.

use tantivy::query::Scorer;
use tantivy::{DocId, SegmentReader, TantivyError};
use tantivy::{i64_to_u64, u64_to_f64, u64_to_i64};
use xxhash_rust::xxh3::xxh3_64;

use tideline_model::search::{
    GROUPS_ALL_MAX, GroupKind, GroupOrder, GroupOrderBy, InvalidSearch, Point, StoredPoint,
    distance_m,
};

use super::values::{Number, Source, SourceKind, Values};
use super::{Dates, Key, Steps, Texts};
use crate::collect::{Share, Short};

/// A key in one segment.
pub(super) enum KeyPart {
    Values(Values),
    Ranges(Values, Vec<(f64, f64)>),
    Distances(Values, Point, Vec<(f64, f64)>),
    Cells(Values, u32),
    Filters(Vec<Box<dyn Scorer>>),
    Steps(Values, Steps),
    Dates(Values, Dates),
    Several(SeveralPart),
}

impl KeyPart {
    pub(super) fn new(key: &Key, segment: &SegmentReader) -> tantivy::Result<KeyPart> {
        let of = |source: &Source| Values::new(source, segment);
        Ok(match key {
            Key::Values(source) => KeyPart::Values(of(source)?),
            Key::Ranges(source, ranges) => KeyPart::Ranges(of(source)?, ranges.clone()),
            Key::Distances(source, origin, ranges) => {
                KeyPart::Distances(of(source)?, *origin, ranges.clone())
            }
            Key::Cells(source, chars) => KeyPart::Cells(of(source)?, *chars),
            Key::Steps(source, steps) => KeyPart::Steps(of(source)?, *steps),
            Key::Dates(source, dates) => KeyPart::Dates(of(source)?, *dates),
            Key::Several(several) => KeyPart::Several(several.part(segment)?),
            Key::Filters(filters) => {
                let rows = filters.iter().map(|filter| filter.scorer(segment, 1.0));
                KeyPart::Filters(rows.collect::<tantivy::Result<_>>()?)
            }
        })
    }

    /// Finds the keys of a row, each once. Rows come in their order.
    pub(super) fn keys(
        &mut self,
        row: DocId,
        found: &mut Vec<u64>,
        texts: &mut Texts,
        share: &Share,
    ) -> Result<(), Short> {
        found.clear();
        let mut each = |values: &mut Values, key: &mut dyn FnMut(Number, &mut Vec<u64>)| {
            values.each(row, texts, share, |value| {
                key(value, found);
                Ok(())
            })
        };
        match self {
            KeyPart::Values(values) => each(values, &mut |value, found| found.push(value.key))?,
            KeyPart::Ranges(values, ranges) => each(values, &mut |value, found| {
                found.extend(inside(ranges, value.number));
            })?,
            KeyPart::Distances(values, origin, ranges) => each(values, &mut |value, found| {
                let distance = distance_m(*origin, StoredPoint(value.key).into());
                found.extend(inside(ranges, distance));
            })?,
            KeyPart::Cells(values, chars) => each(values, &mut |value, found| {
                found.push(StoredPoint(value.key).cell(*chars));
            })?,
            KeyPart::Steps(values, steps) => each(values, &mut |value, found| {
                let (number, range) = (value.number, steps.range);
                if range.is_none_or(|(from, to)| from <= number && number <= to) {
                    found.push(steps.of(number));
                }
            })?,
            KeyPart::Dates(values, dates) => each(values, &mut |value, found| {
                let (ms, range) = (u64_to_i64(value.key), dates.range);
                if range.is_none_or(|(from, to)| from <= ms && ms <= to) {
                    found.push(i64_to_u64(dates.steps.begin(ms)));
                }
            })?,
            KeyPart::Several(several) => several.keys(row, found, texts, share)?,
            KeyPart::Filters(filters) => {
                for (at, rows) in (0..).zip(filters) {
                    if rows.doc() < row {
                        rows.seek(row);
                    }
                    if rows.doc() == row {
                        found.push(at);
                    }
                }
            }
        }
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        Ok(())
    }
}

impl KeyPart {
    /// Whether a row without a key has a value all the same, outside of the range that is asked for.
    pub(super) fn is_outside(&self, row: DocId) -> bool {
        let (values, has_range) = match self {
            KeyPart::Steps(values, steps) => (values, steps.range.is_some()),
            KeyPart::Dates(values, dates) => (values, dates.range.is_some()),
            _ => return false,
        };
        has_range && values.has(row)
    }
}

/// Which of some ranges a number is in.
fn inside(ranges: &[(f64, f64)], number: f64) -> impl Iterator<Item = u64> {
    let all = (0..).zip(ranges.iter());
    let inside = all.filter(move |(_, (from, to))| *from <= number && number < *to);
    inside.map(|(at, _)| at)
}

impl Steps {
    /// The number of the step that a value is in, as keys have it.
    #[allow(clippy::cast_possible_truncation)] // saturates; steps so far out are one
    pub(super) fn of(&self, number: f64) -> u64 {
        i64_to_u64(((number - self.offset) / self.interval).floor() as i64)
    }

    /// Where a step begins.
    #[allow(clippy::cast_precision_loss)] // keys of doubles
    pub(super) fn begin(&self, step: u64) -> f64 {
        u64_to_i64(step) as f64 * self.interval + self.offset
    }
}

/// Several groupings at once.
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
