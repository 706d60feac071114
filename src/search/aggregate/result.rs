//! From a tree to an answer.
//!
//! Owns: which groups are returned, and in which order. Must not: look at a row.

use std::cmp::Ordering;
use std::collections::HashMap;

use tantivy::{i64_to_u64, u64_to_f64, u64_to_i64};

use tideline_model::Value;
use tideline_model::search::{
    Aggregated, GROUPS_MAX, Group, GroupBy, GroupForm, GroupKey, GroupKind, GroupOrder,
    GroupOrderBy, Measured, cell_corners, cell_name,
};

use super::measure::Tally;
use super::values::SourceKind;
use super::{Key, Node, Of, Tree};
use crate::collect::Short;

impl Tree {
    /// What was computed.
    pub(crate) fn result(&self) -> Result<Aggregated, Short> {
        self.root.of_group(Some(0))
    }
}

/// A group before it is returned; of no rows there is no number.
struct Candidate {
    number: Option<u32>,
    key: u64,
    rows: u64,
}

impl Node {
    /// What was computed of one of its groups; `None` = of no rows.
    fn of_group(&self, group: Option<u32>) -> Result<Aggregated, Short> {
        let measures = self.measures.iter().map(|measure| {
            let asked = &measure.asked;
            let is_whole =
                matches!(&measure.of, Of::Values(source) if source.kind == SourceKind::Integer);
            let result = match group {
                Some(group) => measure.of_groups[group as usize].result(&asked.kind, is_whole),
                None => Tally::new(&asked.kind).result(&asked.kind, is_whole),
            };
            (asked.name.clone(), asked.kind.clone(), result)
        });
        let groups = self.inner.iter().filter_map(|node| {
            let by = node.by.as_ref()?;
            let groups = node.groups_of(&by.asked, &by.key, group);
            let mut form = by.asked.by.form();
            Some(groups.map(|(groups, behind)| {
                if let GroupForm::Several { next, .. } = &mut form {
                    *next = behind;
                }
                (by.asked.name.clone(), form, groups)
            }))
        });
        Ok(Aggregated {
            metrics: measures.collect(),
            groups: groups.collect::<Result<_, _>>()?,
        })
    }

    /// Its groups inside of another one, and behind which more are, if pages can go on there.
    fn groups_of(
        &self,
        asked: &GroupBy,
        key: &Key,
        parent: Option<u32>,
    ) -> Result<(Vec<Group>, Option<String>), Short> {
        let inside = parent.and_then(|parent| self.inside.get(&parent));
        let inside = inside.into_iter().flatten().map(|number| {
            let group = &self.groups[*number as usize];
            Candidate {
                number: Some(*number),
                key: group.key,
                rows: group.rows,
            }
        });
        let mut found: Vec<_> = inside.collect();
        let mut next = None;
        match &asked.by {
            GroupKind::Field { size, order, .. } => {
                self.sort(&mut found, key, order, true);
                found.truncate(*size);
            }
            GroupKind::Grid { size, .. } => {
                self.sort(&mut found, key, &[], true);
                found.truncate(*size);
            }
            GroupKind::Several { size, .. } => {
                self.sort(&mut found, key, &[], false);
                let is_more = found.len() > *size;
                found.truncate(*size);
                if let (true, Key::Several(several), Some(last)) = (is_more, key, found.last()) {
                    next = Some(several.token(&self.texts.all[at(last.key)]));
                }
            }
            GroupKind::Range { ranges, .. } | GroupKind::Distance { ranges, .. } => {
                fill(&mut found, 0..ranges.len() as u64);
            }
            GroupKind::Filter(filters) => fill(&mut found, 0..filters.len() as u64),
            GroupKind::Histogram { least, order, .. } | GroupKind::Dates { least, order, .. } => {
                found.sort_by_key(|group| group.key);
                if *least == 0 {
                    let ends = found.first().zip(found.last());
                    let ends = ends.map(|(first, last)| (first.key, last.key));
                    if let Some((first, last)) = key.ends().or(ends) {
                        let keys = std::iter::successors(Some(first), |step| Some(key.next(*step)));
                        let keys = keys.take_while(|step| *step <= last);
                        let keys: Vec<u64> = keys.take(GROUPS_MAX + 1).collect();
                        if keys.len() > GROUPS_MAX {
                            return Err(Short::Groups(GROUPS_MAX));
                        }
                        fill(&mut found, keys.into_iter());
                    }
                }
                found.retain(|group| group.rows >= *least);
                if found.len() > GROUPS_MAX {
                    return Err(Short::Groups(GROUPS_MAX));
                }
                self.sort(&mut found, key, order, false);
            }
        }
        let groups = found.iter().map(|group| {
            Ok(Group {
                key: self.key(key, group.key),
                rows: group.rows,
                inner: self.of_group(group.number)?,
            })
        });
        Ok((groups.collect::<Result<_, Short>>()?, next))
    }

    fn sort(&self, found: &mut [Candidate], key: &Key, order: &[GroupOrder], by_rows: bool) {
        let measured: HashMap<&str, usize> = (self.measures.iter().enumerate())
            .map(|(at, measure)| (measure.asked.name.as_str(), at))
            .collect();
        let number = |group: &Candidate, name: &str| {
            let measure = &self.measures[*measured.get(name)?];
            let of_group = &measure.of_groups[group.number? as usize];
            number_of(&of_group.result(&measure.asked.kind, false))
        };
        let text = |group: &Candidate| &self.texts.all[at(group.key)];
        let keys = |one: &Candidate, other: &Candidate| match key {
            Key::Several(_) => text(one).cmp(text(other)),
            Key::Values(source) if source.kind == SourceKind::Text => text(one).cmp(text(other)),
            _ => one.key.cmp(&other.key),
        };
        found.sort_by(|one, other| {
            for part in order {
                let compared = match &part.by {
                    GroupOrderBy::Key => turned(keys(one, other), part.is_desc),
                    GroupOrderBy::Rows => turned(one.rows.cmp(&other.rows), part.is_desc),
                    GroupOrderBy::Metric(name) => match (number(one, name), number(other, name)) {
                        (Some(one), Some(other)) => turned(one.total_cmp(&other), part.is_desc),
                        // Those without a value come last.
                        (one, other) => other.is_some().cmp(&one.is_some()),
                    },
                };
                if compared != Ordering::Equal {
                    return compared;
                }
            }
            let rows = match by_rows && order.is_empty() {
                true => other.rows.cmp(&one.rows),
                false => Ordering::Equal,
            };
            rows.then_with(|| keys(one, other))
        });
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // keys of the field's type
    fn key(&self, key: &Key, number: u64) -> GroupKey {
        match key {
            Key::Filters(_) => GroupKey::Filter,
            Key::Ranges(_, ranges) | Key::Distances(_, _, ranges) => {
                let (from, to) = ranges[at(number)];
                GroupKey::Range(from, to)
            }
            Key::Cells(_, chars) => {
                let (top_left, bottom_right) = cell_corners(number, *chars);
                GroupKey::Cell(cell_name(number, *chars), top_left, bottom_right)
            }
            Key::Dates(..) => GroupKey::Time(u64_to_i64(number)),
            Key::Several(several) => GroupKey::Several(several.texts(&self.texts.all[at(number)])),
            Key::Steps(source, steps) => {
                let begin = steps.begin(number);
                GroupKey::Step(match source.kind {
                    SourceKind::Integer => Value::Integer(begin as i64),
                    _ => Value::Double(begin),
                })
            }
            Key::Values(source) => GroupKey::Text(match source.kind {
                SourceKind::Text => {
                    String::from_utf8_lossy(&self.texts.all[at(number)]).into_owned()
                }
                SourceKind::Integer => u64_to_i64(number).to_string(),
                SourceKind::Double => format!("{:?}", u64_to_f64(number)),
                SourceKind::Boolean | SourceKind::Point => (number != 0).to_string(),
            }),
        }
    }
}

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn turned(order: Ordering, is_desc: bool) -> Ordering {
    match is_desc {
        true => order.reverse(),
        false => order,
    }
}

#[allow(clippy::cast_precision_loss)] // to compare
fn number_of(measured: &Measured) -> Option<f64> {
    match measured {
        Measured::Number(number) => Some(*number),
        Measured::Count(count) => Some(*count as f64),
        Measured::Nothing | Measured::Percentiles(_) | Measured::Rows(_) => None,
    }
}

impl Key {
    /// The first and the last step of its range.
    fn ends(&self) -> Option<(u64, u64)> {
        match self {
            Key::Steps(_, steps) => {
                let (from, to) = steps.range?;
                Some((steps.of(from), steps.of(to)))
            }
            Key::Dates(_, dates) => {
                let (from, to) = dates.range?;
                let step = |ms| i64_to_u64(dates.steps.begin(ms));
                Some((step(from), step(to)))
            }
            _ => None,
        }
    }

    /// The step behind another one.
    fn next(&self, step: u64) -> u64 {
        match self {
            Key::Dates(_, dates) => i64_to_u64(dates.steps.next(u64_to_i64(step))),
            _ => step.saturating_add(1),
        }
    }
}

/// The groups of these keys in their order, those without rows too.
fn fill(found: &mut Vec<Candidate>, keys: impl Iterator<Item = u64>) {
    let mut there: HashMap<u64, Candidate> =
        found.drain(..).map(|group| (group.key, group)).collect();
    found.extend(keys.map(|key| {
        there.remove(&key).unwrap_or(Candidate {
            number: None,
            key,
            rows: 0,
        })
    }));
}
