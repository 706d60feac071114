//! Calls of functions and of aggregates.
//!
//! Owns: functions whose arguments are not all computed, those of the clock, and aggregates' places. Must not: know
//! what other functions do.

use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::aggregate::{Aggregate, Measure};
use super::functions;
use super::typed::{Compiled, chosen, computed, constant, long, unified};
use super::{Arithmetic, Comparison, Compiler, Expr, Typed};
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;

impl Compiler<'_> {
    pub(super) fn function(&mut self, function: &ast::Function, depth: usize) -> Compiled {
        let name = function.name.to_string().to_lowercase();
        let has_clauses =
            matches!(&function.args, FunctionArguments::List(list) if !list.clauses.is_empty());
        let has_parameters = !matches!(function.parameters, FunctionArguments::None);
        if has_clauses || has_parameters || function.null_treatment.is_some() {
            return Refusal::unsupported(format!("{name} with more than its arguments"));
        }
        if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty()
        {
            return Refusal::unsupported(format!("{name} OVER, FILTER or WITHIN GROUP"));
        }
        let (arguments, is_distinct) = match &function.args {
            FunctionArguments::None => (&[][..], false),
            FunctionArguments::Subquery(_) => {
                return Refusal::unsupported("a SELECT in a SELECT");
            }
            FunctionArguments::List(list) => {
                let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
                (&list.args[..], is_distinct)
            }
        };
        if let Some(measure) = Measure::named(&name) {
            return self.aggregate(measure, &name, arguments, is_distinct, depth);
        }
        if is_distinct {
            return Refusal::invalid(format!("DISTINCT is not for {name}"));
        }
        let mut trees = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(tree)) => trees.push(tree),
                other => return Refusal::invalid(format!("{name} can't have {other}")),
            }
        }
        if matches!(
            name.as_str(),
            "date_add" | "adddate" | "date_sub" | "subdate"
        ) && let [moment, ast::Expr::Interval(interval)] = trees[..]
        {
            return self.moved(
                moment,
                interval,
                name.ends_with("sub") || name == "subdate",
                depth,
            );
        }
        self.call(&name, &trees, depth)
    }

    pub(super) fn aggregate(
        &mut self,
        measure: Measure,
        name: &str,
        arguments: &[FunctionArg],
        is_distinct: bool,
        depth: usize,
    ) -> Compiled {
        if self.groups.is_none() {
            self.met_aggregate = true;
            return Refusal::invalid(format!("Invalid use of group function {name}"));
        }
        let mut rows = self.over_rows();
        let mut of = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard)
                    if measure == Measure::Count && arguments.len() == 1 && !is_distinct => {}
                FunctionArg::Unnamed(FunctionArgExpr::Expr(tree)) => of.push(rows.at(tree, depth)?),
                other => return Refusal::invalid(format!("{name} can't have {other}")),
            }
        }
        let many = measure == Measure::Count && is_distinct;
        if arguments.is_empty() || (arguments.len() > 1 && !many) {
            return Refusal::invalid(format!("{name} has one argument"));
        }
        let kind = measure.kind(of.first().and_then(|first| first.kind));
        let aggregate = Aggregate {
            measure,
            of: of.into_iter().map(|typed| typed.expr).collect(),
            is_distinct,
        };
        let Some(groups) = &mut self.groups else {
            return Refusal::invalid("Invalid use of group function");
        };
        let mut known = groups.aggregates.iter();
        let at = known.position(|(other, _)| *other == aggregate);
        let at = at.unwrap_or_else(|| {
            groups.aggregates.push((aggregate, kind));
            groups.aggregates.len() - 1
        });
        Ok(Typed {
            expr: Expr::Column(groups.keys.len() + at),
            kind,
        })
    }

    pub(super) fn call(&mut self, name: &str, trees: &[&ast::Expr], depth: usize) -> Compiled {
        if let Some(condition) = self.of_index(name, trees, depth)? {
            return Ok(long(Expr::OfIndex(condition)));
        }
        let mut arguments = Vec::with_capacity(trees.len());
        for tree in trees {
            arguments.push(self.at(tree, depth)?);
        }
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().unwrap_or_else(|| constant(Datum::Null));
        match (name, count) {
            (
                "now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate"
                | "utc_timestamp",
                0 | 1,
            ) => Ok(constant(Datum::DateTime(
                self.now_us / 1_000_000 * 1_000_000,
            ))),
            ("curdate" | "current_date" | "utc_date", 0) => {
                constant(Datum::DateTime(self.now_us)).cast(Some(ColumnKind::Date))
            }
            ("curtime" | "current_time" | "utc_time", 0 | 1) => {
                let whole = Datum::DateTime(self.now_us / 1_000_000 * 1_000_000);
                constant(whole).cast(Some(ColumnKind::Time))
            }
            ("unix_timestamp", 0) => Ok(constant(Datum::Long(self.now_us.div_euclid(1_000_000)))),
            ("date", 1) => next().cast(Some(ColumnKind::Date)),
            ("time", 1) => next().cast(Some(ColumnKind::Time)),
            ("timestamp", 1) => next().cast(Some(ColumnKind::DateTime)),
            ("isnull", 1) => Ok(long(Expr::IsNull(Box::new(next().expr)))),
            ("mod", 2) => Ok(computed(Arithmetic::Rest, next(), next())),
            ("if", 3) => chosen(vec![next().expr], vec![next(), next()]),
            ("nullif", 2) => {
                let (value, other) = (next(), next());
                let left = Box::new(value.expr.copied()?);
                let same = Expr::Compare(Comparison::Equal, left, Box::new(other.expr));
                chosen(vec![same], vec![constant(Datum::Null), value])
            }
            ("coalesce" | "ifnull", 1..) => {
                let parts: Vec<Typed> = arguments.collect();
                let kind = unified(parts.iter().map(|part| part.kind));
                let parts = parts.into_iter().map(|part| Ok(part.cast(kind)?.expr));
                Ok(Typed {
                    expr: Expr::First(parts.collect::<Result<_, Refusal>>()?),
                    kind,
                })
            }
            _ => functions::compiled(name, arguments.collect()),
        }
    }

    /// `moment ± INTERVAL n unit`.
    pub(super) fn moved(
        &mut self,
        moment: &ast::Expr,
        interval: &ast::Interval,
        is_back: bool,
        depth: usize,
    ) -> Compiled {
        let Some(unit) = &interval.leading_field else {
            return Refusal::invalid("an INTERVAL has a unit");
        };
        if interval.last_field.is_some()
            || interval.leading_precision.is_some()
            || interval.fractional_seconds_precision.is_some()
        {
            return Refusal::unsupported("an INTERVAL with more than its unit");
        }
        let unit = Datum::String(unit.to_string().to_lowercase());
        let moment = self.at(moment, depth)?;
        let mut count = self.at(&interval.value, depth)?;
        if is_back {
            count = Typed {
                expr: Expr::Negative(Box::new(count.expr)),
                kind: count.kind,
            }
            .folded()?;
        }
        functions::compiled("date_add", vec![moment, count, constant(unit)])
    }
}
