//! The rows of a SELECT.
//!
//! Owns: [`Own`], our executor: sources, joins, filters, groups, order, limits, one behind the other. Promises: rows
//! are read as far as they are needed; what is sorted, grouped or answered is counted. Must not: plan.

use std::cmp::Ordering;
use std::collections::HashSet;

use tideline_model::Error;

use super::join::all_hold;
use super::{Executor, Rows, group, index, join, scan};
use crate::answer::Datum;
use crate::context::Run;
use crate::expr::Expr;
use crate::plan::{Access, Plan, Reach, Source};
use crate::refusal::Refusal;
use crate::value::size_of_row;

/// Our executor.
pub(crate) struct Own;

impl Executor for Own {
    fn rows(&self, plan: &Plan, run: &Run) -> Result<Vec<Vec<Datum>>, Refusal> {
        if let Some(total) = counted(plan, run)? {
            let total = i64::try_from(total).unwrap_or(i64::MAX);
            let aggregates = plan.groups.iter().flat_map(|groups| &groups.aggregates);
            let row = aggregates.map(|_| Datum::Long(total)).collect();
            return chosen(plan, run, Box::new(std::iter::once(Ok(row))));
        }
        let rows = joined(plan, run)?;
        let rows = filtered(run, rows, &plan.filter);
        let rows = match &plan.groups {
            Some(groups) => filtered(run, group::rows(run, rows, groups)?, &plan.having),
            None => rows,
        };
        chosen(plan, run, rows)
    }
}

/// The count of a statement that asks for nothing else, if an index knows it.
fn counted(plan: &Plan, run: &Run) -> Result<Option<u64>, Refusal> {
    let ([source], Some(groups)) = (&plan.sources[..], &plan.groups) else {
        return Ok(None);
    };
    let (Access::Index(by), Some(table)) = (&source.access, &source.table) else {
        return Ok(None);
    };
    let is_all_rows = |aggregate: &crate::expr::aggregate::Aggregate| {
        aggregate.of.is_empty() && !aggregate.is_distinct
    };
    let counts = groups.keys.is_empty()
        && groups
            .aggregates
            .iter()
            .all(|(aggregate, _)| is_all_rows(aggregate));
    // What of a virtual table the caller may not see is in the index too.
    let counts = counts && !table.is_virtual();
    match counts && by.is_exact && plan.filter.is_empty() && plan.having.is_empty() {
        true => index::count(run, table, by),
        false => Ok(None),
    }
}

/// The rows of all sources together.
fn joined<'r>(plan: &'r Plan, run: &'r Run) -> Result<Rows<'r>, Refusal> {
    let mut sources = plan.sources.iter();
    let Some(first) = sources.next() else {
        return Ok(Box::new(std::iter::once(Ok(Vec::new()))));
    };
    let ends_early = plan.is_sorted && plan.limit.is_some() && plan.groups.is_none();
    let mut rows = read(run, first, plan.is_backward, ends_early)?;
    for source in sources {
        let right = read(run, source, false, false)?;
        if let Some(join) = &source.join {
            let shape = (source.first, source.columns.len());
            rows = join::rows(run, rows, right, join, shape)?;
        }
    }
    Ok(rows)
}

/// The rows of one source that pass its own conditions.
fn read<'r>(
    run: &'r Run,
    source: &'r Source,
    is_backward: bool,
    ends_early: bool,
) -> Result<Rows<'r>, Refusal> {
    let found = match (&source.access, &source.table) {
        (Access::Select(plan), _) => answered(plan, run, source.first)?,
        (_, None) => return Err(Refusal::Table(Error::Internal)),
        (Access::Keys(reaches), Some(table)) => {
            scan::rows(run, (source, table), reaches, is_backward, ends_early)?
        }
        (Access::Index(by), Some(table)) => {
            match index::rows(run, (source, table), by, is_backward)? {
                Some(rows) => rows,
                None => {
                    let all = [Reach::all(table)];
                    scan::rows(run, (source, table), &all, is_backward, ends_early)?
                }
            }
        }
    };
    Ok(filtered(run, found, &source.filter))
}

/// The rows that a SELECT in the place of a table answers, each with so many empty slots before its own.
fn answered<'r>(plan: &Plan, run: &'r Run, first: usize) -> Result<Rows<'r>, Refusal> {
    let rows = Own.rows(plan, run)?.into_iter();
    Ok(Box::new(rows.map(move |own| {
        let mut row = vec![Datum::Null; first];
        row.extend(own);
        Ok(row)
    })))
}

fn filtered<'r>(run: &'r Run, mut rows: Rows<'r>, conditions: &'r [Expr]) -> Rows<'r> {
    if conditions.is_empty() {
        return rows;
    }
    Box::new(std::iter::from_fn(move || {
        loop {
            if let Err(refusal) = run.step() {
                return Some(Err(refusal));
            }
            let row = match rows.next()? {
                Ok(row) => row,
                refused => return Some(refused),
            };
            match all_hold(conditions, &row) {
                Ok(true) => return Some(Ok(row)),
                Ok(false) => {}
                Err(refusal) => return Some(Err(refusal)),
            }
        }
    }))
}

/// The values of a row, counted before each is copied.
fn held<'p>(
    run: &Run,
    of: impl Iterator<Item = &'p Expr>,
    row: &[Datum],
) -> Result<Vec<Datum>, Refusal> {
    run.memory.take(size_of_row(&[]))?;
    let values = of.map(|one| {
        let value = one.value(row)?;
        run.memory.take(value.size())?;
        Ok(value.into_owned())
    });
    values.collect()
}

/// What is selected of the rows: in order, each once if they are to be distinct, from the offset to the limit.
fn chosen(plan: &Plan, run: &Run, rows: Rows<'_>) -> Result<Vec<Vec<Datum>>, Refusal> {
    let end = plan.limit.map(|limit| plan.offset.saturating_add(limit));
    if end == Some(plan.offset) {
        return Ok(Vec::new());
    }
    let sorts = !plan.is_sorted;
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut kept: Vec<(Vec<Datum>, Vec<Datum>)> = Vec::new();
    let (mut passed, by) = (0_usize, |one: &(Vec<Datum>, _), other: &(Vec<Datum>, _)| {
        let values = one.0.iter().zip(&other.0).zip(&plan.order);
        let orders = values.map(|((one, other), (_, is_desc))| match is_desc {
            false => one.order(other),
            true => other.order(one),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    for row in rows {
        run.step()?;
        let row = row?;
        let values = held(run, plan.selected.iter().map(|one| &one.expr), &row)?;
        let size = size_of_row(&values);
        if plan.is_distinct {
            run.memory.take(size + 48)?;
            let mut bytes = Vec::new();
            values.iter().for_each(|value| value.encode(&mut bytes));
            if !seen.insert(bytes) {
                run.memory.give(2 * size + 48);
                continue;
            }
        }
        passed += 1;
        if !sorts && passed <= plan.offset {
            run.memory.give(size);
            continue;
        }
        let order = plan.order.iter().filter(|_| sorts);
        let keys = held(run, order.map(|(key, _)| key), &row)?;
        kept.push((keys, values));
        match end {
            Some(end) if !sorts && passed >= end => break,
            Some(end) if sorts && kept.len() >= end.saturating_mul(2).max(4_096) => {
                kept.sort_by(by);
                for (keys, values) in kept.drain(end..) {
                    run.memory.give(size_of_row(&values) + size_of_row(&keys));
                }
            }
            _ => {}
        }
    }
    if !sorts {
        return Ok(kept.into_iter().map(|(_, values)| values).collect());
    }
    kept.sort_by(by);
    let kept = kept.into_iter().map(|(_, values)| values).skip(plan.offset);
    Ok(kept.take(plan.limit.unwrap_or(usize::MAX)).collect())
}
