//! Where each condition of a SELECT is looked at, and which way its rows come.
//!
//! Owns: the way to each source's rows, joins and orders. Promises: every condition is looked at, or asked of an index.
//! Must not: read rows.

use std::collections::BTreeSet;

use sqlparser::ast;

use super::shape::{Chosen, split};
use super::sources::Begun;
use super::{Access, Join, JoinKey, Plan, Reach, Source, index, keys};
use crate::answer::ColumnKind;
use crate::expr::{Comparison, Compiler, Expr, Names};
use crate::refusal::Refusal;

impl Plan {
    /// Puts each condition where it is looked at, and finds the way to each source's rows.
    pub(super) fn place(
        &mut self,
        begun: Vec<Begun<'_>>,
        conditions: Vec<Expr>,
        names: &Names,
        chosen: &Chosen<'_, '_>,
    ) -> Result<(), Refusal> {
        let mut needed = self.read_slots();
        let mut all = self.spread(&begun, conditions, &mut needed)?;
        let mut made = Vec::with_capacity(begun.len());
        for (at, one) in begun.into_iter().enumerate() {
            let Begun {
                mut source,
                mapping,
                join,
            } = one;
            let mut own = std::mem::take(&mut all[at]);
            if let Some((keeps_left, on, using)) = join {
                let conditions = joined_on(&source, on, &using, names, chosen)?;
                source.join = Some(self.join(&source, keeps_left, conditions, names, &mut own));
                if let Some(join) = &source.join {
                    join.on
                        .iter()
                        .for_each(|condition| condition.slots(&mut needed));
                }
            }
            made.push((source, mapping, own));
        }
        for (mut source, mapping, own) in made {
            own.iter()
                .for_each(|condition| condition.slots(&mut needed));
            for (at, is_needed) in source.needed.iter_mut().enumerate() {
                *is_needed = needed.contains(&(source.first + at));
            }
            let (asked, own): (Vec<Expr>, Vec<Expr>) = own.into_iter().partition(Expr::is_of_index);
            source.filter = own;
            let Some(table) = source.table.clone() else {
                if !asked.is_empty() {
                    return Refusal::unsupported(crate::expr::ONLY_OF_INDEX);
                }
                self.sources.push(source);
                continue;
            };
            let (key, own) = (&table.primary_key, &source.filter);
            let slots = source.key_slots();
            let reaches = match asked.is_empty()
                && mapping
                    .as_ref()
                    .is_none_or(|mapping| mapping.options.index.is_none())
            {
                true => keys::reaches(key, &slots, own),
                false => None,
            };
            source.access = match reaches {
                Some(reaches) => Access::Keys(reaches),
                None => {
                    let of = (&source, &*table);
                    match index::choose(of, mapping.as_ref(), own, &asked)? {
                        Some(by) => Access::Index(by),
                        None => Access::Keys(vec![Reach::all(&table)]),
                    }
                }
            };
            self.sources.push(source);
        }
        Ok(())
    }

    /// The slots that what is given of rows looks at.
    fn read_slots(&self) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        for typed in &self.selected {
            typed.expr.slots(&mut needed);
        }
        self.order
            .iter()
            .for_each(|(expr, _)| expr.slots(&mut needed));
        if let Some(groups) = &self.groups {
            needed.clear();
            groups
                .keys
                .iter()
                .for_each(|key| key.expr.slots(&mut needed));
            let of = groups
                .aggregates
                .iter()
                .flat_map(|(aggregate, _)| &aggregate.of);
            of.for_each(|expr| expr.slots(&mut needed));
        }
        needed
    }

    /// The conditions that are on one source only, by source; others are looked at behind all joins.
    fn spread(
        &mut self,
        begun: &[Begun<'_>],
        conditions: Vec<Expr>,
        needed: &mut BTreeSet<usize>,
    ) -> Result<Vec<Vec<Expr>>, Refusal> {
        let mut all: Vec<Vec<Expr>> = begun.iter().map(|_| Vec::new()).collect();
        let firsts: Vec<usize> = begun.iter().map(|one| one.source.first).collect();
        let source_of = |slot: &usize| firsts.partition_point(|first| first <= slot) - 1;
        // Those that an index is asked stay by their source.
        for condition in conditions {
            let mut slots = BTreeSet::new();
            condition.slots(&mut slots);
            needed.extend(&slots);
            let of: BTreeSet<usize> = slots.iter().map(source_of).collect();
            let target = of.last().copied().unwrap_or(0);
            let keeps_left = |at: usize| begun[at].join.as_ref().is_some_and(|join| join.0);
            let is_placed = !begun.is_empty() && !keeps_left(target) && !condition.is_of_index();
            match (is_placed, of.len()) {
                (true, 0 | 1) => all[target].push(condition),
                (false, 1) if condition.is_of_index() && !keeps_left(target) => {
                    all[target].push(condition);
                }
                (_, _) if condition.is_of_index() => {
                    return Refusal::unsupported(crate::expr::ONLY_OF_INDEX);
                }
                (_, _) => self.filter.push(condition),
            }
        }
        Ok(all)
    }

    /// How a source is joined; conditions on it alone become its own.
    fn join(
        &mut self,
        source: &Source,
        keeps_left: bool,
        conditions: Vec<Expr>,
        names: &Names,
        own: &mut Vec<Expr>,
    ) -> Join {
        let mut join = Join {
            keeps_left,
            on: Vec::new(),
            keys: Vec::new(),
        };
        // What WHERE says of both sides of an inner join may lead to it as well.
        let end = source.first + source.columns.len();
        let (mut on, mut rest) = (conditions, Vec::new());
        if !keeps_left {
            for condition in std::mem::take(&mut self.filter) {
                let mut slots = BTreeSet::new();
                condition.slots(&mut slots);
                let last = slots.last().copied().unwrap_or(usize::MAX);
                match (source.first..end).contains(&last) {
                    true => on.push(condition),
                    false => rest.push(condition),
                }
            }
            self.filter = rest;
        }
        for condition in on {
            let mut slots = BTreeSet::new();
            condition.slots(&mut slots);
            let is_own = !slots.is_empty() && slots.iter().all(|slot| *slot >= source.first);
            if is_own {
                own.push(condition);
                continue;
            }
            if let Expr::Compare(Comparison::Equal, left, right) = &condition
                && let (Expr::Column(one), Expr::Column(other)) = (&**left, &**right)
            {
                let (left, right) = ((*one).min(*other), (*one).max(*other));
                let kinds = (names.0[left].kind, names.0[right].kind);
                let is_number = |kind| {
                    matches!(
                        kind,
                        ColumnKind::Long | ColumnKind::Double | ColumnKind::Boolean
                    )
                };
                let as_doubles = kinds.0 != kinds.1;
                let fits = !as_doubles || (is_number(kinds.0) && is_number(kinds.1));
                if fits && left < source.first && right >= source.first {
                    join.keys.push(JoinKey {
                        left,
                        right,
                        as_doubles,
                    });
                }
            }
            join.on.push(condition);
        }
        join
    }

    /// Finds out whether rows come as they are to come.
    pub(super) fn sort(&mut self) {
        let Some(first) = self.sources.first() else {
            self.is_sorted = true;
            return;
        };
        if self.order.is_empty() {
            self.is_sorted = true;
            return;
        }
        if self.groups.is_some() {
            return;
        }
        let Some(table) = &first.table else {
            return;
        };
        let key = &table.primary_key;
        let slots = first.key_slots();
        let bound = keys::bound_slots(key, &slots, &first.filter);
        let mut left = slots.iter().zip(&bound).filter(|(_, is_bound)| !**is_bound);
        let mut ways = BTreeSet::new();
        for (expr, is_desc) in &self.order {
            let Expr::Column(slot) = expr else { return };
            let is_bound = slots
                .iter()
                .zip(&bound)
                .any(|(one, is_bound)| one == slot && *is_bound);
            if is_bound {
                continue;
            }
            match left.next() {
                Some((next, _)) if next == slot => ways.insert(*is_desc),
                // Behind the whole key nothing is left to be ordered.
                None if self.sources.len() == 1 => break,
                _ => return,
            };
        }
        if ways.len() <= 1 {
            self.is_sorted = true;
            self.is_backward = ways.contains(&true);
        }
    }
}

impl Source {
    /// The slots of the columns of its key.
    pub(crate) fn key_slots(&self) -> Vec<usize> {
        let key = self.table.iter().flat_map(|table| &table.primary_key);
        let place = |name: &str| self.columns.iter().position(|column| column.name == name);
        key.map(|column| place(&column.name).map_or(usize::MAX, |at| self.first + at))
            .collect()
    }
}

/// The conditions of ON or USING.
fn joined_on(
    source: &Source,
    on: Option<&ast::Expr>,
    using: &[String],
    names: &Names,
    chosen: &Chosen<'_, '_>,
) -> Result<Vec<Expr>, Refusal> {
    let end = source.first + source.columns.len();
    // What comes behind can't be named yet.
    let known = Names(names.0[..end].to_vec());
    let mut conditions = Vec::new();
    if let Some(tree) = on {
        let mut compiler = Compiler {
            names: &known,
            aliases: &[],
            groups: None,
            now_us: chosen.now_us,
            asks_index: false,
            met_aggregate: false,
        };
        split(compiler.compile(tree)?.expr, &mut conditions);
    }
    for name in using {
        let left = Names(names.0[..source.first].to_vec()).find(None, name)?;
        let right = Names(names.0[source.first..end].to_vec()).find(None, name)?;
        let (Some(left), Some(right)) = (left, right) else {
            return Refusal::invalid(format!("Unknown column '{name}'"));
        };
        conditions.push(Expr::Compare(
            Comparison::Equal,
            Box::new(Expr::Column(left)),
            Box::new(Expr::Column(source.first + right)),
        ));
    }
    Ok(conditions)
}
