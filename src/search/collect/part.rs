//! One part of an order in one segment.
//!
//! Owns: ranks, by which rows of a segment compare, and what they mean outside of it. Promises: a lower rank comes
//! first, whatever the direction. Must not: compare rows of two segments.

use std::cmp::Ordering;
use std::sync::Arc;

use tantivy::columnar::{BytesColumn, Column};
use tantivy::{DocId, Score, SegmentOrdinal, SegmentReader};
use tantivy::{f64_to_u64, i64_to_u64};

use tideline_model::search::{Missing, Point, SortMode, StoredPoint, distance_m};

use super::order::{By, OrderPart, SortValue};
use crate::index::layout::KEY;

/// The place of a row in a segment: the tier, then the number.
pub(crate) type Rank = (u8, u64);

const FIRST: u8 = 0;
const THERE: u8 = 1;
const LAST: u8 = 2;

/// See the top.
pub(super) struct SegmentPart {
    values: Values,
    or_values: Option<Values>,
    is_desc: bool,
    /// Of a row without a value, and what it means outside of the segment.
    missing: Rank,
    missing_value: SortValue,
}

enum Values {
    Score,
    Place(SegmentOrdinal),
    Integers(Column<i64>, SortMode),
    Doubles(Column<f64>, SortMode),
    Booleans(Column<bool>, SortMode),
    Distances(Column<u64>, SortMode, Arc<[Point]>),
    /// Ordinals of the segment's texts; none = no row of it has one.
    Texts(Option<Texts>, SortMode),
}

/// The texts of a field in a segment.
struct Texts {
    column: BytesColumn,
    /// By their ordinals, their ranks among the texts of two fields; `None` = there is only this one.
    ranks: Option<Vec<u64>>,
}

impl Values {
    fn new(by: &By, ordinal: SegmentOrdinal, segment: &SegmentReader) -> tantivy::Result<Values> {
        let columns = segment.fast_fields();
        Ok(match by {
            By::Key => Values::Texts(columns.bytes(KEY)?.map(Texts::new), SortMode::Min),
            By::Score => Values::Score,
            By::Place => Values::Place(ordinal),
            By::Integer(name, mode, _) => Values::Integers(columns.i64(name)?, *mode),
            By::Double(name, mode, _) => Values::Doubles(columns.f64(name)?, *mode),
            By::Boolean(name, mode, _) => Values::Booleans(columns.bool(name)?, *mode),
            By::Text(name, mode, _) => {
                let column = columns.str(name)?.map(Into::into);
                Values::Texts(column.map(Texts::new), *mode)
            }
            By::Distance(name, mode, points) => {
                Values::Distances(columns.u64(name)?, *mode, points.clone().into())
            }
        })
    }

    /// What a row has, as it compares upwards.
    fn number(&self, row: DocId, score: Score) -> Option<u64> {
        match self {
            Values::Score => Some(double(f64::from(score))),
            Values::Place(segment) => Some(u64::from(*segment) << 32 | u64::from(row)),
            Values::Integers(column, SortMode::Avg) => {
                mean(column.values_for_doc(row).map(integer)).map(double)
            }
            Values::Integers(column, mode) => {
                one(column.values_for_doc(row), *mode).map(i64_to_u64)
            }
            Values::Doubles(column, SortMode::Avg) => mean(column.values_for_doc(row)).map(double),
            Values::Doubles(column, mode) => one(column.values_for_doc(row).map(double), *mode),
            Values::Booleans(column, mode) => one(column.values_for_doc(row), *mode).map(u64::from),
            Values::Distances(column, mode, points) => {
                let nearest = |steps: u64| {
                    let point = Point::from(StoredPoint(steps));
                    let all = points.iter().map(|other| distance_m(point, *other));
                    all.fold(f64::INFINITY, f64::min)
                };
                let distances = column.values_for_doc(row).map(nearest);
                match mode {
                    SortMode::Avg => mean(distances).map(double),
                    mode => one(distances.map(double), *mode),
                }
            }
            Values::Texts(None, _) => None,
            Values::Texts(Some(texts), mode) => {
                let ordinal = one(texts.column.term_ords(row), *mode);
                ordinal.map(|ordinal| texts.rank(ordinal))
            }
        }
    }
}

impl SegmentPart {
    pub(super) fn new(
        part: &OrderPart,
        ordinal: SegmentOrdinal,
        segment: &SegmentReader,
    ) -> tantivy::Result<SegmentPart> {
        let of = |by: &By| Values::new(by, ordinal, segment);
        let missing = part.by.missing();
        let (mut values, mut or_values) = (of(&part.by)?, part.or_by.as_ref().map(of).transpose()?);
        if let (Values::Texts(Some(one), _), Some(Values::Texts(Some(other), _))) =
            (&mut values, &mut or_values)
        {
            Texts::rank_together(one, other)?;
        }
        let mut made = SegmentPart {
            values,
            or_values,
            is_desc: part.is_desc,
            missing: (LAST, 0),
            missing_value: SortValue {
                tier: LAST,
                number: 0,
                text: None,
            },
        };
        made.missing = match missing {
            None | Some(Missing::Last) => (LAST, 0),
            Some(Missing::First) => (FIRST, 0),
            Some(Missing::Integer(number)) => match made.values {
                Values::Integers(_, SortMode::Avg) => made.there(double(integer(*number))),
                _ => made.there(i64_to_u64(*number)),
            },
            Some(Missing::Double(number)) => made.there(double(*number)),
            Some(Missing::Text(text)) => made.rank_of_text(text.as_bytes())?,
        };
        let (tier, number) = made.missing;
        made.missing_value = match missing {
            Some(Missing::Text(text)) => SortValue {
                tier,
                number: 0,
                text: Some(text.clone().into_bytes()),
            },
            _ => SortValue {
                tier,
                number,
                text: None,
            },
        };
        Ok(made)
    }

    /// Of a value, whose direction is not considered yet.
    fn there(&self, number: u64) -> Rank {
        (THERE, if self.is_desc { !number } else { number })
    }

    /// The rank of a row.
    pub(super) fn rank(&self, row: DocId, score: Score) -> Rank {
        let number = self.values.number(row, score).or_else(|| {
            let values = self.or_values.as_ref()?;
            values.number(row, score)
        });
        number.map_or(self.missing, |number| self.there(number))
    }

    /// The place that a value of another segment, or of none, has in this one.
    pub(super) fn rank_of(&self, value: &SortValue) -> tantivy::Result<Rank> {
        match &value.text {
            Some(text) if value.tier == THERE => self.rank_of_text(text),
            _ => Ok((value.tier, value.number)),
        }
    }

    /// What a rank means outside of the segment.
    pub(super) fn value_of(&self, rank: Rank) -> tantivy::Result<SortValue> {
        if rank == self.missing {
            return Ok(self.missing_value.clone());
        }
        let (tier, number) = rank;
        let upwards = if self.is_desc { !number } else { number };
        for texts in self.texts() {
            if let Some(ordinal) = texts.ordinal(upwards) {
                let mut text = Vec::new();
                texts.column.ord_to_bytes(ordinal, &mut text)?;
                return Ok(SortValue {
                    tier,
                    number: 0,
                    text: Some(text),
                });
            }
        }
        let text = None;
        Ok(SortValue { tier, number, text })
    }

    fn rank_of_text(&self, text: &[u8]) -> tantivy::Result<Rank> {
        let mut texts_below = 0;
        for texts in self.texts() {
            if let Some(ordinal) = texts.column.dictionary().term_ord(text)? {
                return Ok(self.there(texts.rank(ordinal)));
            }
            let below = below(&texts.column, text)?.checked_sub(1);
            let below = below.map_or(0, |last| texts.rank(last) / 4);
            texts_below = texts_below.max(below);
        }
        // Between the same two texts there may be what rows without one have.
        let missing = self.missing_value.text.as_deref().unwrap_or(text);
        let side = match text.cmp(missing) {
            Ordering::Less => 1,
            Ordering::Equal => 2,
            Ordering::Greater => 3,
        };
        Ok(self.there(4 * texts_below + side))
    }
}

impl SegmentPart {
    /// The texts that its rows are compared by.
    fn texts(&self) -> impl Iterator<Item = &Texts> {
        let both = [Some(&self.values), self.or_values.as_ref()];
        both.into_iter()
            .flatten()
            .filter_map(|values| match values {
                Values::Texts(texts, _) => texts.as_ref(),
                _ => None,
            })
    }
}

impl Texts {
    fn new(column: BytesColumn) -> Texts {
        Texts {
            column,
            ranks: None,
        }
    }

    /// Numbers the texts of two fields in one order: eight bytes for each.
    fn rank_together(one: &mut Texts, other: &mut Texts) -> tantivy::Result<()> {
        let (mut ranks, mut other_ranks) = (Vec::new(), Vec::new());
        let (mut texts, mut others) = (
            one.column.dictionary().stream()?,
            other.column.dictionary().stream()?,
        );
        let (mut is_one, mut is_other) = (texts.advance(), others.advance());
        for place in 0.. {
            let order = match (is_one, is_other) {
                (false, false) => break,
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => texts.key().cmp(others.key()),
            };
            if order != Ordering::Greater {
                ranks.push(rank_of_ordinal(place));
                is_one = texts.advance();
            }
            if order != Ordering::Less {
                other_ranks.push(rank_of_ordinal(place));
                is_other = others.advance();
            }
        }
        drop((texts, others));
        (one.ranks, other.ranks) = (Some(ranks), Some(other_ranks));
        Ok(())
    }

    fn rank(&self, ordinal: u64) -> u64 {
        let ranks = self.ranks.as_ref();
        let ranked = ranks.zip(usize::try_from(ordinal).ok());
        let ranked = ranked.and_then(|(ranks, at)| ranks.get(at).copied());
        ranked.unwrap_or_else(|| rank_of_ordinal(ordinal))
    }

    /// The ordinal of the text with a rank; `None` = the field has none.
    fn ordinal(&self, rank: u64) -> Option<u64> {
        match &self.ranks {
            None => (rank / 4).checked_sub(1),
            Some(ranks) => Some(ranks.binary_search(&rank).ok()? as u64),
        }
    }
}

/// Between any two ordinals there is room for texts that the segment does not have.
fn rank_of_ordinal(ordinal: u64) -> u64 {
    4 * (ordinal + 1)
}

/// How many texts of a segment are below one that it does not have.
fn below(column: &BytesColumn, text: &[u8]) -> tantivy::Result<u64> {
    let (mut low, mut high) = (0, column.num_terms() as u64);
    let mut found = Vec::new();
    while low < high {
        let middle = low.midpoint(high);
        found.clear();
        column.ord_to_bytes(middle, &mut found)?;
        match found[..] < *text {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

fn double(number: f64) -> u64 {
    f64_to_u64(number)
}

#[allow(clippy::cast_precision_loss)] // means are doubles
fn integer(number: i64) -> f64 {
    number as f64
}

fn one<T: Ord>(values: impl Iterator<Item = T>, mode: SortMode) -> Option<T> {
    match mode {
        SortMode::Max => values.max(),
        SortMode::Min | SortMode::Avg => values.min(),
    }
}

#[allow(clippy::cast_precision_loss)] // few values
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum) = (0_u32, 0.0);
    for value in values {
        count += 1;
        sum += value;
    }
    (count > 0).then(|| sum / f64::from(count))
}
