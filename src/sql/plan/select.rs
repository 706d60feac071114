//! From the tree of a SELECT to its plan.
//!
//! Owns: the clauses that are planned, and their order. Promises: a clause that is not planned is refused. Must not:
//! read rows.

use sqlparser::ast::{self, Distinct, LimitClause, SetExpr};

use super::Plan;
use super::shape::{Chosen, Item, Shaped, items, split};
use super::sources::sources;
use crate::answer::{Column, ColumnKind};
use crate::context::Run;
use crate::refusal::Refusal;

/// Plans a SELECT; `texts` are those of what it selects.
pub(crate) fn plan(run: &Run, query: &ast::Query, texts: &[String]) -> Result<Plan, Refusal> {
    let select = checked(query)?;
    let (begun, names) = sources(run, &select.from, plan)?;
    let items = items(select, &names, texts)?;
    let aliases: Vec<(String, &ast::Expr)> = items.iter().filter_map(Item::alias).collect();
    let chosen = Chosen {
        names: &names,
        items: &items,
        aliases: &aliases,
        now_us: run.now_us,
    };
    let Shaped {
        selected,
        groups,
        order,
        having,
    } = chosen.shape(select, query)?;
    let mut compiler = chosen.compiler(None);
    compiler.aliases = &[];
    compiler.asks_index = true;
    let mut conditions = Vec::new();
    if let Some(tree) = &select.selection {
        split(compiler.compile(tree)?.expr, &mut conditions);
    }
    let mut having_groups = having;
    if groups.is_none() {
        conditions.append(&mut having_groups);
    }
    let (limit, offset) = limits(query)?;
    let columns = items.iter().zip(&selected).map(|(item, typed)| Column {
        name: item.name.clone(),
        kind: typed.kind.unwrap_or(ColumnKind::String),
    });
    let mut plan = Plan {
        columns: columns.collect(),
        sources: Vec::new(),
        filter: Vec::new(),
        groups,
        having: having_groups,
        order,
        is_sorted: false,
        is_backward: false,
        selected,
        is_distinct: matches!(select.distinct, Some(Distinct::Distinct)),
        offset,
        limit,
    };
    plan.place(begun, conditions, &names, &chosen)?;
    plan.sort();
    Ok(plan)
}

/// The SELECT of a query that has nothing that is not planned.
fn checked(query: &ast::Query) -> Result<&ast::Select, Refusal> {
    let SetExpr::Select(select) = &*query.body else {
        return Refusal::unsupported("UNION, VALUES and the like");
    };
    let odd = [
        (query.with.is_some(), "WITH"),
        (!select.optimizer_hints.is_empty(), "hints"),
        (
            select.select_modifiers.is_some(),
            "modifiers such as HIGH_PRIORITY",
        ),
        (query.fetch.is_some(), "FETCH"),
        (!query.locks.is_empty(), "FOR UPDATE"),
        (query.for_clause.is_some(), "FOR"),
        (
            query.settings.is_some() || query.format_clause.is_some(),
            "SETTINGS",
        ),
        (!query.pipe_operators.is_empty(), "a pipe"),
        (
            matches!(select.distinct, Some(Distinct::On(_))),
            "DISTINCT ON",
        ),
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (
            select.prewhere.is_some() || select.qualify.is_some(),
            "PREWHERE, QUALIFY",
        ),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (
            !select.cluster_by.is_empty() || !select.distribute_by.is_empty(),
            "CLUSTER BY",
        ),
        (!select.sort_by.is_empty(), "SORT BY"),
        (!select.named_window.is_empty(), "WINDOW"),
        (
            select.exclude.is_some() || select.value_table_mode.is_some(),
            "EXCLUDE",
        ),
    ];
    match odd.iter().find(|(is, _)| *is) {
        Some((_, name)) => Refusal::unsupported(*name),
        None => Ok(select),
    }
}

fn limits(query: &ast::Query) -> Result<(Option<usize>, usize), Refusal> {
    let number = |tree: &ast::Expr| -> Result<usize, Refusal> {
        if let ast::Expr::Value(value) = tree
            && let ast::Value::Number(digits, _) = &value.value
            && let Ok(number) = digits.parse::<u64>()
        {
            return Ok(usize::try_from(number).unwrap_or(usize::MAX));
        }
        Refusal::invalid(format!("LIMIT and OFFSET have a whole number, not {tree}"))
    };
    match &query.limit_clause {
        None => Ok((None, 0)),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(number(limit)?), number(offset)?))
        }
        Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => {
            let offset = offset.as_ref().map(|offset| number(&offset.value));
            Ok((
                limit.as_ref().map(number).transpose()?,
                offset.transpose()?.unwrap_or(0),
            ))
        }
        Some(_) => Refusal::unsupported("LIMIT BY"),
    }
}
