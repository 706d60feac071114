//! The order of a search, over all segments.
//!
//! Owns: what each sorter needs of the index, and how rows of different segments compare. Promises: two rows compare in
//! all segments and over them alike. Must not: look at a row (`part.rs`).

use std::cmp::Ordering;
use std::mem::discriminant;

use serde::{Deserialize, Serialize};

use tideline_model::search::{FieldType, InvalidSearch, Missing, Point, Sort, SortMode, Sorter};

use crate::index::layout::Layout;

/// The order, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    parts: Vec<OrderPart>,
}

/// By what rows are compared.
#[derive(Clone, Debug)]
pub(crate) struct OrderPart {
    pub(super) by: By,
    pub(super) is_desc: bool,
    /// What rows have that have nothing by the first.
    pub(super) or_by: Option<By>,
}

#[derive(Clone, Debug)]
pub(crate) enum By {
    Key,
    Score,
    Place,
    /// A field of the index: its name there.
    Integer(String, SortMode, Missing),
    Double(String, SortMode, Missing),
    Boolean(String, SortMode, Missing),
    Text(String, SortMode, Missing),
    Distance(String, SortMode, Vec<Point>),
}

/// What a row has for a part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SortValue {
    /// 0 = missing and first, 1 = there, 2 = missing and last.
    pub(crate) tier: u8,
    /// Numbers, in the order of the part.
    #[serde(default)]
    pub(crate) number: u64,
    /// Keys and texts, as they are.
    #[serde(default)]
    pub(crate) text: Option<Vec<u8>>,
}

impl By {
    /// Where rows without a value are.
    pub(super) fn missing(&self) -> Option<&Missing> {
        match self {
            By::Integer(.., missing)
            | By::Double(.., missing)
            | By::Boolean(.., missing)
            | By::Text(.., missing) => Some(missing),
            By::Key | By::Score | By::Place | By::Distance(..) => None,
        }
    }
}

impl OrderPart {
    /// What rows of a field have alike.
    pub(crate) fn alike(layout: &Layout, name: &str) -> Result<OrderPart, InvalidSearch> {
        let placed = layout.field(name)?;
        let can = matches!(placed.field.kind, FieldType::Long | FieldType::Double)
            || placed.field.kind.is_keyword();
        if !can || placed.field.is_array || placed.inside.is_some() {
            return Err(placed.no("collapse"));
        }
        Ok(OrderPart {
            by: field(layout, name, (false, None), &Missing::Last)?,
            is_desc: false,
            or_by: None,
        })
    }
}

impl Order {
    /// The order of a search in an index.
    pub(crate) fn new(layout: &Layout, sort: &Sort) -> Result<Order, InvalidSearch> {
        let parts = sort.sorters.iter().map(|sorter| part(layout, sorter));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        if sort.keys_last && !parts.iter().any(|part| matches!(part.by, By::Key)) {
            parts.push(OrderPart {
                by: By::Key,
                is_desc: false,
                or_by: None,
            });
        }
        Ok(Order { parts })
    }

    /// Whether rows are sorted by their score.
    pub(crate) fn has_score(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.by, By::Score))
    }

    /// How many parts it has.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn parts(&self) -> &[OrderPart] {
        &self.parts
    }

    /// Which of two rows comes first.
    pub(crate) fn compare(&self, one: &[SortValue], other: &[SortValue]) -> Ordering {
        let pairs = self.parts.iter().zip(one.iter().zip(other));
        let compared = pairs.map(|(part, (one, other))| {
            let texts = one.text.cmp(&other.text);
            let texts = match part.is_desc {
                true => texts.reverse(),
                false => texts,
            };
            let numbers = (one.tier, one.number).cmp(&(other.tier, other.number));
            numbers.then(texts)
        });
        compared.fold(Ordering::Equal, Ordering::then)
    }
}

fn part(layout: &Layout, sorter: &Sorter) -> Result<OrderPart, InvalidSearch> {
    let mut or_by = None;
    let (by, is_desc) = match sorter {
        Sorter::Key { is_desc } => (By::Key, is_desc),
        Sorter::Score { is_desc } => (By::Score, is_desc),
        Sorter::Doc { is_desc } => (By::Place, is_desc),
        Sorter::Field {
            name,
            is_desc,
            mode,
            missing,
            missing_field,
        } => {
            let by = field(layout, name, (*is_desc, *mode), missing)?;
            if let Some(other) = missing_field {
                let other_by = field(layout, other, (*is_desc, *mode), &Missing::Last)?;
                if discriminant(&by) != discriminant(&other_by) {
                    return Err(InvalidSearch::Value(other.clone()));
                }
                or_by = Some(other_by);
            }
            (by, is_desc)
        }
        Sorter::Geo {
            name,
            points,
            is_desc,
            mode,
        } => {
            let placed = layout.field(name)?;
            if placed.field.kind != FieldType::GeoPoint || !placed.field.can_sort() {
                return Err(placed.no("sort by distance"));
            }
            let mode = mode_of(*is_desc, *mode);
            (
                By::Distance(placed.name.clone(), mode, points.clone()),
                is_desc,
            )
        }
    };
    Ok(OrderPart {
        by,
        is_desc: *is_desc,
        or_by,
    })
}

fn mode_of(is_desc: bool, mode: Option<SortMode>) -> SortMode {
    mode.unwrap_or(match is_desc {
        true => SortMode::Max,
        false => SortMode::Min,
    })
}

fn field(
    layout: &Layout,
    name: &str,
    (is_desc, mode): (bool, Option<SortMode>),
    missing: &Missing,
) -> Result<By, InvalidSearch> {
    let placed = layout.field(name)?;
    if !placed.field.can_sort() {
        return Err(placed.no("sort"));
    }
    let has_mean = matches!(
        placed.field.kind,
        FieldType::Long | FieldType::Date | FieldType::Double
    );
    if mode == Some(SortMode::Avg) && !has_mean {
        return Err(placed.no("sort by mean"));
    }
    let (at, mode) = (placed.name.clone(), mode_of(is_desc, mode));
    let bad = || Err(InvalidSearch::Value(name.to_owned()));
    Ok(match (placed.field.kind, missing.clone()) {
        (FieldType::Long | FieldType::Date, missing @ (Missing::Last | Missing::First))
        | (FieldType::Long, missing @ Missing::Integer(_)) => By::Integer(at, mode, missing),
        (FieldType::Date, Missing::Integer(number)) => match placed.formats.of_integer(number) {
            Some(ms) => By::Integer(at, mode, Missing::Integer(ms)),
            None => return bad(),
        },
        (FieldType::Date, Missing::Text(text)) => match placed.formats.read(&text) {
            Some(ms) => By::Integer(at, mode, Missing::Integer(ms)),
            None => return bad(),
        },
        #[allow(clippy::cast_precision_loss)] // as comparing them does
        (FieldType::Double, Missing::Integer(number)) => {
            By::Double(at, mode, Missing::Double(number as f64))
        }
        (FieldType::Double, missing @ (Missing::Last | Missing::First | Missing::Double(_))) => {
            By::Double(at, mode, missing)
        }
        (FieldType::Boolean, missing @ (Missing::Last | Missing::First)) => {
            By::Boolean(at, mode, missing)
        }
        (kind, missing @ (Missing::Last | Missing::First | Missing::Text(_)))
            if kind.is_keyword() =>
        {
            By::Text(at, mode, missing)
        }
        (FieldType::GeoPoint, _) => return Err(placed.no("sort")),
        _ => return bad(),
    })
}
