//! What becomes of the rows of a SELECT.
//!
//! Owns: what is selected, under which names; groups, HAVING and ORDER BY. Promises: a name means an alias or a column
//! as in MySQL. Must not: know where rows come from.

use sqlparser::ast::{
    self, GroupByExpr, OrderByKind, OrderBySort, SelectItem, SelectItemQualifiedWildcardKind,
    WildcardAdditionalOptions,
};

use super::sources::last_name;
use crate::expr::{Compiler, Expr, Groups, Names, Typed};
use crate::refusal::Refusal;

/// Of the text that names a column, as MySQL has it.
const NAME_CHARACTERS_MAX: usize = 256;
/// Columns of an answer.
const COLUMNS_MAX: usize = 1_024;

/// Something that is selected.
pub(super) struct Item<'q> {
    pub(super) name: String,
    of: Of<'q>,
    is_alias: bool,
}

pub(super) enum Of<'q> {
    Slot(usize),
    Tree(&'q ast::Expr),
}

impl<'q> Item<'q> {
    pub(super) fn alias(&self) -> Option<(String, &'q ast::Expr)> {
        match self.of {
            Of::Tree(tree) if self.is_alias => Some((self.name.clone(), tree)),
            _ => None,
        }
    }
}

pub(super) fn items<'q>(
    select: &'q ast::Select,
    names: &Names,
    texts: &[String],
) -> Result<Vec<Item<'q>>, Refusal> {
    let mut items = Vec::new();
    let has_texts = texts.len() == select.projection.len();
    let slots = |table: Option<&str>, items: &mut Vec<Item<'q>>| {
        let before = items.len();
        let mut columns: Vec<_> = names.0.iter().enumerate().collect();
        columns.sort_by_key(|(_, column)| column.place);
        for (slot, column) in columns {
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
            SelectItem::Wildcard(with) | SelectItem::QualifiedWildcard(_, with)
                if *with != WildcardAdditionalOptions::default() =>
            {
                return Refusal::unsupported("* with more than that");
            }
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
                    _ if has_texts => texts[at].chars().take(NAME_CHARACTERS_MAX).collect(),
                    other => other
                        .to_string()
                        .chars()
                        .take(NAME_CHARACTERS_MAX)
                        .collect(),
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
pub(super) struct Chosen<'p, 'q> {
    pub(super) names: &'p Names,
    pub(super) items: &'p [Item<'q>],
    pub(super) aliases: &'p [(String, &'q ast::Expr)],
    pub(super) now_us: i64,
}

/// What becomes of rows.
pub(super) struct Shaped {
    pub(super) selected: Vec<Typed>,
    pub(super) groups: Option<Groups>,
    pub(super) order: Vec<(Expr, bool)>,
    pub(super) having: Vec<Expr>,
}

impl<'p> Chosen<'p, '_> {
    pub(super) fn compiler(&self, groups: Option<Groups>) -> Compiler<'p> {
        Compiler {
            names: self.names,
            aliases: self.aliases,
            groups,
            now_us: self.now_us,
            asks_index: false,
            met_aggregate: false,
        }
    }

    pub(super) fn shape(
        &self,
        select: &ast::Select,
        query: &ast::Query,
    ) -> Result<Shaped, Refusal> {
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
                        Some((_, typed)) => Typed {
                            expr: typed.expr.copied()?,
                            kind: typed.kind,
                        },
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
pub(super) fn split(condition: Expr, parts: &mut Vec<Expr>) {
    match condition {
        Expr::And(inner) => inner.into_iter().for_each(|part| split(part, parts)),
        other => parts.push(other),
    }
}
