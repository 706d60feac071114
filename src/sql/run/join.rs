//! Joins of two sources.
//!
//! Owns: the hash join. Promises: rows come in the order of the left side; the right side is held in memory, which is
//! counted. Must not: read a table.

use std::collections::HashMap;

use super::Rows;
use crate::answer::{ColumnKind, Datum};
use crate::context::Run;
use crate::expr::Expr;
use crate::plan::Join;
use crate::refusal::Refusal;
use crate::value::size_of_row;

/// The rows of the right side, by what they are joined by.
struct Table {
    by_key: HashMap<Vec<u8>, Vec<Vec<Datum>>>,
    /// How many slots one has.
    width: usize,
}

/// Each row of the left side with those of the right side that fit.
pub(super) fn rows<'r>(
    run: &'r Run,
    mut left: Rows<'r>,
    right: Rows<'r>,
    join: &'r Join,
    (first, width): (usize, usize),
) -> Result<Rows<'r>, Refusal> {
    let mut table = Table {
        by_key: HashMap::new(),
        width,
    };
    let slots = join.keys.iter().map(|key| key.right);
    let slots: Vec<usize> = slots.collect();
    for row in right {
        run.step()?;
        let mut row = row?;
        let Some(key) = key_of(&row, &slots, join) else {
            continue;
        };
        let own = row.split_off(first);
        run.memory.take(size_of_row(&own) + key.len() + 48)?;
        table.by_key.entry(key).or_default().push(own);
    }
    let slots: Vec<usize> = join.keys.iter().map(|key| key.left).collect();
    // Rows of the left row in work that are not given yet.
    let mut ready: Vec<Vec<Datum>> = Vec::new();
    let mut at: Option<(Vec<Datum>, Vec<u8>, usize, bool)> = None;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            if let Some(row) = ready.pop() {
                return Some(Ok(row));
            }
            if let Err(refusal) = run.step() {
                return Some(Err(refusal));
            }
            let (row, key, place, has_matched) = match at.take() {
                Some(at) => at,
                None => match left.next()? {
                    Err(refusal) => return Some(Err(refusal)),
                    Ok(row) => {
                        let key = key_of(&row, &slots, join);
                        // NULL fits nothing.
                        (row, key.unwrap_or_else(|| vec![u8::MAX]), 0, false)
                    }
                },
            };
            let matches = table.by_key.get(&key).map_or(&[][..], Vec::as_slice);
            match matches.get(place) {
                Some(other) => {
                    let mut both = row.clone();
                    both.extend_from_slice(other);
                    let fits = all_hold(&join.on, &both);
                    let fits = match fits {
                        Ok(fits) => fits,
                        Err(refusal) => return Some(Err(refusal)),
                    };
                    at = Some((row, key, place + 1, has_matched || fits));
                    if fits {
                        ready.push(both);
                    }
                }
                None if join.keeps_left && !has_matched => {
                    let mut alone = row;
                    alone.resize(alone.len() + table.width, Datum::Null);
                    ready.push(alone);
                }
                None => {}
            }
        }
    })))
}

/// Whether all conditions hold of a row.
pub(super) fn all_hold(conditions: &[Expr], row: &[Datum]) -> Result<bool, Refusal> {
    for condition in conditions {
        if condition.holds(row)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a row is joined by; `None` = by NULL, which is equal to nothing.
fn key_of(row: &[Datum], slots: &[usize], join: &Join) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (slot, key) in slots.iter().zip(&join.keys) {
        let value = row.get(*slot)?;
        match (value.is_null(), key.as_doubles) {
            (true, _) => return None,
            (false, false) => value.encode(&mut bytes),
            (false, true) => value.clone().cast(ColumnKind::Double).encode(&mut bytes),
        }
    }
    Some(bytes)
}
