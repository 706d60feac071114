//! From the tree of a SELECT to its plan.
//!
//! Owns: what is selected under which names, where each condition is looked at, and which way rows come. Promises: a
//! clause that is not planned is refused. Must not: read rows.

use std::collections::BTreeSet;

use sqlparser::ast::{
    self, Distinct, GroupByExpr, LimitClause, OrderByKind, OrderBySort, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr,
};

use super::sources::{Begun, last_name, sources};
use super::{Access, Join, JoinKey, Plan, Reach, Source, index, keys};
use crate::answer::{Column, ColumnKind};
use crate::expr::{Comparison, Compiler, Expr, Groups, Names, Typed};
use crate::refusal::Refusal;
use crate::run::Run;

/// Columns of an answer.
const COLUMNS_MAX: usize = 1_024;

/// Plans a SELECT; `texts` are those of what it selects.
pub(crate) fn plan(run: &Run, query: &ast::Query, texts: &[String]) -> Result<Plan, Refusal> {
    let select = checked(query)?;
    let (begun, names) = sources(run, &select.from)?;
    let items = items(select, &names, texts)?;
    let aliases: Vec<(String, ast::Expr)> = items.iter().filter_map(Item::alias).collect();
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

/// Something that is selected.
struct Item<'q> {
    name: String,
    of: Of<'q>,
    is_alias: bool,
}

enum Of<'q> {
    Slot(usize),
    Tree(&'q ast::Expr),
}

impl Item<'_> {
    fn alias(&self) -> Option<(String, ast::Expr)> {
        match self.of {
            Of::Tree(tree) if self.is_alias => Some((self.name.clone(), tree.clone())),
            _ => None,
        }
    }
}

fn items<'q>(
    select: &'q ast::Select,
    names: &Names,
    texts: &[String],
) -> Result<Vec<Item<'q>>, Refusal> {
    let mut items = Vec::new();
    let has_texts = texts.len() == select.projection.len();
    let slots = |table: Option<&str>, items: &mut Vec<Item<'q>>| {
        let before = items.len();
        for (slot, column) in names.0.iter().enumerate() {
            if table.is_none_or(|table| column.table.eq_ignore_ascii_case(table)) {
                items.push(Item {
                    name: column.name.clone(),
                    of: Of::Slot(slot),
                    is_alias: false,
                });
            }
        }
        match items.len() > before {
            true => Ok(()),
            false => Refusal::invalid("there is no table whose columns * could be"),
        }
    };
    for (at, item) in select.projection.iter().enumerate() {
        match item {
            SelectItem::Wildcard(_) => slots(None, &mut items)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                slots(Some(&last_name(name)?), &mut items)?;
            }
            SelectItem::UnnamedExpr(tree) => items.push(Item {
                name: match tree {
                    ast::Expr::Identifier(name) => name.value.clone(),
                    ast::Expr::CompoundIdentifier(names) => names
                        .last()
                        .map(|name| name.value.clone())
                        .unwrap_or_default(),
                    _ if has_texts => texts[at].clone(),
                    other => other.to_string(),
                },
                of: Of::Tree(tree),
                is_alias: false,
            }),
            SelectItem::ExprWithAlias { expr, alias } => items.push(Item {
                name: alias.value.clone(),
                of: Of::Tree(expr),
                is_alias: true,
            }),
            other => return Refusal::unsupported(format!("to select {other}")),
        }
        if items.len() > COLUMNS_MAX {
            return Refusal::invalid(format!("an answer has at most {COLUMNS_MAX} columns"));
        }
    }
    Ok(items)
}

/// What is named in a statement.
struct Chosen<'p, 'q> {
    names: &'p Names,
    items: &'p [Item<'q>],
    aliases: &'p [(String, ast::Expr)],
    now_us: i64,
}

/// What becomes of rows.
struct Shaped {
    selected: Vec<Typed>,
    groups: Option<Groups>,
    order: Vec<(Expr, bool)>,
    having: Vec<Expr>,
}

impl<'p> Chosen<'p, '_> {
    fn compiler(&self, groups: Option<Groups>) -> Compiler<'p> {
        Compiler {
            names: self.names,
            aliases: self.aliases,
            groups,
            now_us: self.now_us,
            asks_index: false,
            met_aggregate: false,
        }
    }

    fn shape(&self, select: &ast::Select, query: &ast::Query) -> Result<Shaped, Refusal> {
        let keys = match &select.group_by {
            GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => keys,
            _ => return Refusal::unsupported("GROUP BY ALL, WITH ROLLUP"),
        };
        if keys.is_empty() {
            let mut compiler = self.compiler(None);
            let shaped = self.shaped(&mut compiler, select, query);
            if !compiler.met_aggregate {
                return shaped;
            }
        }
        let mut groups = Groups::default();
        for key in keys {
            groups.keys.push(match self.numbered(key)? {
                Some(Of::Slot(slot)) => self.slot(*slot),
                Some(Of::Tree(tree)) => self.compiler(None).compile(tree)?,
                None => self.compiler(None).compile(key)?,
            });
        }
        let mut compiler = self.compiler(Some(groups));
        let mut shaped = self.shaped(&mut compiler, select, query)?;
        shaped.groups = compiler.groups;
        Ok(shaped)
    }

    /// An item by its number, as GROUP BY and ORDER BY may name it.
    fn numbered(&self, tree: &ast::Expr) -> Result<Option<&Of<'_>>, Refusal> {
        let ast::Expr::Value(value) = tree else {
            return Ok(None);
        };
        let ast::Value::Number(digits, _) = &value.value else {
            return Ok(None);
        };
        let at = digits
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        match at.and_then(|at| self.items.get(at)) {
            Some(item) => Ok(Some(&item.of)),
            None => Refusal::invalid(format!("Unknown column '{digits}'")),
        }
    }

    fn slot(&self, slot: usize) -> Typed {
        Typed {
            expr: Expr::Column(slot),
            kind: self.names.0.get(slot).map(|column| column.kind),
        }
    }

    fn shaped(
        &self,
        compiler: &mut Compiler<'p>,
        select: &ast::Select,
        query: &ast::Query,
    ) -> Result<Shaped, Refusal> {
        let mut selected = Vec::with_capacity(self.items.len());
        let aliases = std::mem::take(&mut compiler.aliases);
        for item in self.items {
            selected.push(self.item(compiler, &item.of)?);
        }
        compiler.aliases = aliases;
        let mut having = Vec::new();
        if let Some(tree) = &select.having {
            split(compiler.compile(tree)?.expr, &mut having);
        }
        let mut order = Vec::new();
        let by = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[][..],
            Some(OrderByKind::Expressions(by)) => by,
            Some(OrderByKind::All(_)) => return Refusal::unsupported("ORDER BY ALL"),
        };
        for one in by {
            let is_desc = matches!(one.options.sort, Some(OrderBySort::Desc));
            if one.options.nulls_first.is_some() || one.with_fill.is_some() {
                return Refusal::unsupported("NULLS FIRST, NULLS LAST and WITH FILL");
            }
            let named = self.numbered(&one.expr)?;
            let typed = match (named, &one.expr) {
                (Some(of), _) => self.item(compiler, of)?,
                (None, ast::Expr::Identifier(name)) if self.is_alias(&name.value) => {
                    let mut items = self.items.iter().zip(&selected);
                    let is_it = |item: &Item<'_>| {
                        item.is_alias && item.name.eq_ignore_ascii_case(&name.value)
                    };
                    match items.find(|(item, _)| is_it(item)) {
                        Some((_, typed)) => typed.clone(),
                        None => compiler.compile(&one.expr)?,
                    }
                }
                (None, tree) => compiler.compile(tree)?,
            };
            order.push((typed.expr, is_desc));
        }
        Ok(Shaped {
            selected,
            groups: None,
            order,
            having,
        })
    }

    fn is_alias(&self, name: &str) -> bool {
        self.aliases
            .iter()
            .any(|(alias, _)| alias.eq_ignore_ascii_case(name))
    }

    fn item(&self, compiler: &mut Compiler<'p>, of: &Of<'_>) -> Result<Typed, Refusal> {
        match of {
            Of::Tree(tree) => compiler.compile(tree),
            Of::Slot(slot) => match &compiler.groups {
                None => Ok(self.slot(*slot)),
                Some(groups) => {
                    let is_it = |key: &Typed| key.expr == Expr::Column(*slot);
                    match groups.keys.iter().position(is_it) {
                        Some(at) => Ok(Typed {
                            expr: Expr::Column(at),
                            kind: groups.keys[at].kind,
                        }),
                        None => Refusal::invalid(format!(
                            "Column '{}' is not in GROUP BY clause and is not aggregated",
                            self.names.0[*slot].name
                        )),
                    }
                }
            },
        }
    }
}

/// The parts of a condition that all have to hold.
fn split(condition: Expr, parts: &mut Vec<Expr>) {
    match condition {
        Expr::And(inner) => inner.into_iter().for_each(|part| split(part, parts)),
        other => parts.push(other),
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

impl Plan {
    /// Puts each condition where it is looked at, and finds the way to each source's rows.
    fn place(
        &mut self,
        begun: Vec<Begun<'_>>,
        conditions: Vec<Expr>,
        names: &Names,
        chosen: &Chosen<'_, '_>,
    ) -> Result<(), Refusal> {
        let mut all: Vec<Vec<Expr>> = begun.iter().map(|_| Vec::new()).collect();
        let firsts: Vec<usize> = begun.iter().map(|one| one.source.first).collect();
        let source_of = |slot: &usize| firsts.partition_point(|first| first <= slot) - 1;
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
            let key = &source.table.primary_key;
            let slots = source.key_slots();
            let reaches = match asked.is_empty()
                && mapping
                    .as_ref()
                    .is_none_or(|mapping| mapping.options.index.is_none())
            {
                true => keys::reaches(key, &slots, &own),
                false => None,
            };
            source.access = match reaches {
                Some(reaches) => Access::Keys(reaches),
                None => match index::choose(&source, mapping.as_ref(), &own, &asked)? {
                    Some(by) => Access::Index(by),
                    None => Access::Keys(vec![Reach::all(&source.table)]),
                },
            };
            source.filter = own;
            self.sources.push(source);
        }
        Ok(())
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
    fn sort(&mut self) {
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
        let key = &first.table.primary_key;
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
        let key = self.table.primary_key.iter();
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
