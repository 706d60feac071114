//! From the tree of an expression to what is run.
//!
//! Owns: the forms of expressions, and where groups stand in their place. Promises: an expression is so many levels
//! deep at most; what is known but can't be done is refused by its name. Must not: read a row.

use sqlparser::ast::{self, CastKind, CeilFloorKind, DateTimeField, InTarget, TrimWhereField};

use super::aggregate::Aggregate;
use super::cast::cast_as;
use super::typed::{Compiled, literal, long, negated_if};
use super::{Comparison, Expr, Names, Typed};
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;
use crate::work;

/// Levels of an expression.
const DEPTH_MAX: usize = 64;

/// What a grouped statement computes of its groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) keys: Vec<Typed>,
    pub(crate) aggregates: Vec<(Aggregate, Option<ColumnKind>)>,
}

/// See the top.
pub(crate) struct Compiler<'a> {
    pub(crate) names: &'a Names,
    /// Names of what is selected, for GROUP BY, HAVING and ORDER BY.
    pub(crate) aliases: &'a [(String, &'a ast::Expr)],
    /// The slots are then keys, and behind them aggregates.
    pub(crate) groups: Option<Groups>,
    pub(crate) now_us: i64,
    /// Whether conditions may be asked of a search index.
    pub(crate) asks_index: bool,
    /// Whether there was an aggregate where rows are not grouped.
    pub(crate) met_aggregate: bool,
}

impl<'a> Compiler<'a> {
    /// An expression.
    pub(crate) fn compile(&mut self, tree: &ast::Expr) -> Compiled {
        self.at(tree, 0)
    }

    /// The same over rows, whatever is grouped.
    pub(super) fn over_rows(&mut self) -> Compiler<'a> {
        Compiler {
            names: self.names,
            aliases: self.aliases,
            groups: None,
            now_us: self.now_us,
            asks_index: false,
            met_aggregate: false,
        }
    }

    pub(super) fn at(&mut self, tree: &ast::Expr, depth: usize) -> Compiled {
        if depth > DEPTH_MAX {
            return Refusal::invalid(format!("an expression has at most {DEPTH_MAX} levels"));
        }
        work::planned(super::PART_BYTES)?;
        if self
            .groups
            .as_ref()
            .is_some_and(|groups| !groups.keys.is_empty())
            && let Ok(row) = self.over_rows().at(tree, depth)
            && let Some(groups) = &self.groups
            && work::spend(groups.keys.len() * super::PART_BYTES).is_ok()
            && let Some(at) = groups.keys.iter().position(|key| key.expr == row.expr)
        {
            let kind = row.kind;
            return Ok(Typed {
                expr: Expr::Column(at),
                kind,
            });
        }
        self.part(tree, depth + 1)?.folded()
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each form")]
    fn part(&mut self, tree: &ast::Expr, depth: usize) -> Compiled {
        use ast::Expr as Tree;
        match tree {
            Tree::Nested(inner) => self.at(inner, depth),
            Tree::Identifier(name) => self.column(None, &name.value, depth),
            Tree::CompoundIdentifier(names) => match &names[..] {
                [.., table, name] => self.column(Some(&table.value), &name.value, depth),
                [name] => self.column(None, &name.value, depth),
                [] => Refusal::invalid("a column has no name"),
            },
            Tree::Value(value) => {
                let value = literal(&value.value)?;
                if let Expr::Constant(constant) = &value.expr {
                    work::planned(constant.size())?;
                }
                Ok(value)
            }
            Tree::TypedString(typed) => {
                let cast = cast_as(literal(&typed.value.value)?, &typed.data_type)?;
                match cast.expr {
                    Expr::Constant(Datum::Null) => {
                        Refusal::invalid(format!("Incorrect {} value", typed.data_type))
                    }
                    _ => Ok(cast),
                }
            }
            Tree::UnaryOp { op, expr } => self.unary(*op, expr, depth),
            Tree::BinaryOp { left, op, right } => self.binary(left, op, right, depth),
            Tree::IsNull(inner) => Ok(long(Expr::IsNull(self.inner(inner, depth)?))),
            Tree::IsNotNull(inner) => {
                let is = Expr::IsNull(self.inner(inner, depth)?);
                Ok(long(Expr::Not(Box::new(is))))
            }
            Tree::IsTrue(inner) => Ok(long(Expr::Is(self.inner(inner, depth)?, true))),
            Tree::IsFalse(inner) => Ok(long(Expr::Is(self.inner(inner, depth)?, false))),
            Tree::IsNotTrue(inner) => {
                let is = Expr::Is(self.inner(inner, depth)?, true);
                Ok(long(Expr::Not(Box::new(is))))
            }
            Tree::IsNotFalse(inner) => {
                let is = Expr::Is(self.inner(inner, depth)?, false);
                Ok(long(Expr::Not(Box::new(is))))
            }
            Tree::In {
                expr,
                target: InTarget::List(values),
                negated,
                ..
            } => {
                let value = self.inner(expr, depth)?;
                let values = values.iter().map(|one| Ok(self.at(one, depth)?.expr));
                let is_in = Expr::In(value, values.collect::<Result<_, Refusal>>()?);
                Ok(negated_if(*negated, is_in))
            }
            Tree::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let value = self.inner(expr, depth)?;
                let (low, high) = (self.inner(low, depth)?, self.inner(high, depth)?);
                let above =
                    Expr::Compare(Comparison::GreaterOrEqual, Box::new(value.copied()?), low);
                let below = Expr::Compare(Comparison::LessOrEqual, value, high);
                Ok(negated_if(*negated, Expr::And(vec![above, below])))
            }
            Tree::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(expr, pattern, (escape_char.as_deref(), *negated), depth),
            Tree::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                depth,
            ),
            Tree::Cast {
                kind: CastKind::Cast,
                expr,
                data_type,
                format: None,
            } => self.cast(expr, data_type, depth),
            Tree::Convert {
                expr,
                data_type: Some(data_type),
                is_try: false,
                charset: None,
                styles,
                ..
            } if styles.is_empty() => self.cast(expr, data_type, depth),
            Tree::Ceil {
                expr,
                field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            } => self.call("ceil", &[expr], depth),
            Tree::Floor {
                expr,
                field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
            } => self.call("floor", &[expr], depth),
            Tree::Substring {
                expr,
                substring_from: Some(from),
                substring_for,
                ..
            } => match substring_for {
                Some(length) => self.call("substring", &[expr, from, length], depth),
                None => self.call("substring", &[expr, from], depth),
            },
            Tree::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "trim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                match trim_what {
                    Some(what) => self.call(name, &[expr, what], depth),
                    None => self.call(name, &[expr], depth),
                }
            }
            Tree::Position { expr, r#in } => self.call("locate", &[expr, r#in], depth),
            Tree::Extract { field, expr, .. } => {
                let name = field.to_string().to_lowercase();
                let is_known = [
                    "year",
                    "month",
                    "day",
                    "hour",
                    "minute",
                    "second",
                    "microsecond",
                    "quarter",
                ]
                .contains(&name.as_str());
                match is_known {
                    true => self.call(&name, &[expr], depth),
                    false => Refusal::unsupported(format!("EXTRACT({field} ..)")),
                }
            }
            Tree::Function(function) => self.function(function, depth),
            Tree::Subquery(_) | Tree::Exists { .. } => Refusal::unsupported("a SELECT in a SELECT"),
            Tree::In { .. } => Refusal::unsupported("IN of anything but a list of values"),
            other => Refusal::unsupported(format!("the expression {other}")),
        }
    }

    pub(super) fn inner(&mut self, tree: &ast::Expr, depth: usize) -> Result<Box<Expr>, Refusal> {
        Ok(Box::new(self.at(tree, depth)?.expr))
    }

    fn column(&mut self, table: Option<&str>, name: &str, depth: usize) -> Compiled {
        if table.is_none() && name.starts_with('@') {
            return Refusal::unsupported(format!("the variable {name}"));
        }
        work::spend(self.names.0.len())?;
        if let Some(slot) = self.names.find(table, name)? {
            let column = &self.names.0[slot];
            if self.groups.is_some() {
                return Refusal::invalid(format!(
                    "Column '{name}' is not in GROUP BY clause and is not aggregated"
                ));
            }
            return Ok(Typed {
                expr: Expr::Column(slot),
                kind: Some(column.kind),
            });
        }
        let mut aliases = self.aliases.iter();
        let alias = aliases.find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        match alias.filter(|_| table.is_none()) {
            // An alias means no alias.
            Some((_, tree)) => {
                let aliases = std::mem::take(&mut self.aliases);
                let compiled = self.at(tree, depth);
                self.aliases = aliases;
                compiled
            }
            None => Refusal::invalid(format!("Unknown column '{name}'")),
        }
    }
}
