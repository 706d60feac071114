//! What a write of SQL names: columns, values that depend on no row, the row's whole key.
//!
//! Owns: the reading of SET and WHERE of a write. Promises: a key that is not whole is refused. Must not: write.

use sqlparser::ast::{self, BinaryOperator};

use tideline_model::{ColumnType, KeyValue, MappedColumn};

use crate::answer::Datum;
use crate::context::Run;
use crate::expr::{Compiler, Expr, NamedColumn, Names};
use crate::plan::{Mapped, equals};
use crate::refusal::Refusal;

/// A column by its name, as it is written or in other case.
pub(crate) fn column<'m>(mapped: &'m Mapped, name: &str) -> Result<&'m MappedColumn, Refusal> {
    let mut columns = mapped.columns.iter();
    let found = columns.find(|column| column.name == name).or_else(|| {
        let mut columns = mapped.columns.iter();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
    });
    found.ok_or_else(|| Refusal::Invalid(format!("Unknown column '{name}'")))
}

/// What can be named in WHERE and SET of a write.
fn names(mapped: &Mapped) -> Names {
    let columns = mapped.columns.iter().enumerate();
    let columns = columns.map(|(place, column)| NamedColumn {
        table: mapped.table.name.clone(),
        name: column.name.clone(),
        kind: column.kind.into(),
        place,
    });
    Names(columns.collect())
}

fn compiler<'n>(run: &Run, names: &'n Names) -> Compiler<'n> {
    Compiler {
        names,
        aliases: &[],
        groups: None,
        now_us: run.now_us,
        asks_index: false,
        met_aggregate: false,
    }
}

/// The value of an expression that depends on no row.
pub(crate) fn constant(run: &Run, tree: &ast::Expr) -> Result<Datum, Refusal> {
    match compiler(run, &Names::default()).compile(tree)?.expr {
        Expr::Constant(value) => Ok(value),
        _ => Refusal::unsupported(format!("{tree} as a value that is written")),
    }
}

/// The key that WHERE names: each of its columns is equal to a constant, and there is nothing else.
pub(crate) fn whole_key(
    run: &Run,
    mapped: &Mapped,
    selection: Option<&ast::Expr>,
) -> Result<Vec<(String, KeyValue)>, Refusal> {
    let all =
        "UPDATE and DELETE have a WHERE with all columns of the primary key, each = a constant";
    let Some(tree) = selection else {
        return Refusal::unsupported(all);
    };
    let names = names(mapped);
    let condition = compiler(run, &names).compile(tree)?.expr;
    let conditions = match condition {
        Expr::And(parts) => parts,
        other => vec![other],
    };
    let key = &mapped.table.primary_key;
    let slots: Vec<usize> = key
        .iter()
        .map(|column| {
            names
                .find(None, &column.name)
                .map(|slot| slot.unwrap_or(usize::MAX))
        })
        .collect::<Result<_, _>>()?;
    let is_plain = conditions
        .iter()
        .all(|one| matches!(one, Expr::Compare(..)));
    match equals(key, &slots, &conditions).filter(|_| is_plain && conditions.len() == key.len()) {
        Some(values) => {
            let names = key.iter().map(|column| column.name.clone());
            Ok(names.zip(values).collect())
        }
        None => Refusal::unsupported(all),
    }
}

/// `c = c + 1` and `c = c - 1` of an integer.
pub(crate) fn increment(
    run: &Run,
    column: &MappedColumn,
    tree: &ast::Expr,
) -> Result<Option<i64>, Refusal> {
    let ast::Expr::BinaryOp { left, op, right } = tree else {
        return Ok(None);
    };
    let is_own = |tree: &ast::Expr| match tree {
        ast::Expr::Identifier(name) => name.value.eq_ignore_ascii_case(&column.name),
        ast::Expr::CompoundIdentifier(names) => names
            .last()
            .is_some_and(|name| name.value.eq_ignore_ascii_case(&column.name)),
        _ => false,
    };
    let sign = match op {
        BinaryOperator::Plus => 1,
        BinaryOperator::Minus => -1,
        _ => return Ok(None),
    };
    if !is_own(left) || column.kind != ColumnType::Integer {
        return Ok(None);
    }
    match constant(run, right)? {
        Datum::Long(by) => by
            .checked_mul(sign)
            .map(Some)
            .ok_or_else(crate::expr::overflow),
        _ => Refusal::unsupported("to add anything but a whole number to a column"),
    }
}
