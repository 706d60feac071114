//! From the tree of an expression to what is run.
//!
//! Owns: names, types, and which functions there are for which arguments. Promises: constants are computed once; an
//! expression is so many levels deep at most; what is known but can't be done is refused by its name. Must not: read a
//! row.

use sqlparser::ast::{
    self, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, DuplicateTreatment,
    FunctionArg, FunctionArgExpr, FunctionArguments, InTarget, TrimWhereField, UnaryOperator,
};

use super::aggregate::{Aggregate, Measure};
use super::{Arithmetic, Comparison, Expr, OfIndex, Pattern, Typed};
use crate::answer::{ColumnKind, Datum};
use crate::functions;
use crate::refusal::Refusal;

/// Levels of an expression.
const DEPTH_MAX: usize = 64;

/// A column that can be named.
#[derive(Clone, Debug)]
pub(crate) struct NamedColumn {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
}

/// What can be named; a column's place is its slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(pub(crate) Vec<NamedColumn>);

impl Names {
    /// The slot of a column: its name as it is, else in other letters.
    pub(crate) fn find(&self, table: Option<&str>, name: &str) -> Result<Option<usize>, Refusal> {
        let of_table = |column: &NamedColumn| {
            table.is_none_or(|table| column.table.eq_ignore_ascii_case(table))
        };
        let places = |is: &dyn Fn(&NamedColumn) -> bool| -> Vec<usize> {
            let columns = self.0.iter().enumerate();
            let found = columns.filter(|(_, column)| of_table(column) && is(column));
            found.map(|(slot, _)| slot).collect()
        };
        let mut found = places(&|column| column.name == name);
        if found.is_empty() {
            found = places(&|column| column.name.eq_ignore_ascii_case(name));
        }
        match found[..] {
            [] => Ok(None),
            [slot] => Ok(Some(slot)),
            _ => Refusal::invalid(format!("Column '{name}' in field list is ambiguous")),
        }
    }
}

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
    pub(crate) aliases: &'a [(String, ast::Expr)],
    /// The slots are then keys, and behind them aggregates.
    pub(crate) groups: Option<Groups>,
    pub(crate) now_us: i64,
    /// Whether conditions may be asked of a search index.
    pub(crate) asks_index: bool,
    /// Whether there was an aggregate where rows are not grouped.
    pub(crate) met_aggregate: bool,
}

type Compiled = Result<Typed, Refusal>;

fn long(expr: Expr) -> Typed {
    let kind = Some(ColumnKind::Long);
    Typed { expr, kind }
}

fn constant(value: Datum) -> Typed {
    let kind = value.kind();
    Typed {
        expr: Expr::Constant(value),
        kind,
    }
}

/// The type that values of these types have in common.
pub(crate) fn unified(kinds: impl IntoIterator<Item = Option<ColumnKind>>) -> Option<ColumnKind> {
    use ColumnKind::{Binary, Boolean, Date, DateTime, Double, Long, String};
    kinds.into_iter().flatten().fold(None, |one, other| {
        Some(match (one, other) {
            (None, other) => other,
            (Some(one), other) if one == other => one,
            (Some(Long | Boolean), Long | Boolean) => Long,
            (Some(Long | Boolean | Double), Long | Boolean | Double) => Double,
            (Some(Date | DateTime), Date | DateTime) => DateTime,
            (Some(Binary), _) | (_, Binary) => Binary,
            _ => String,
        })
    })
}

impl Typed {
    /// As a value of this type.
    pub(crate) fn cast(self, kind: Option<ColumnKind>) -> Compiled {
        match kind {
            Some(kind) if self.kind.is_some_and(|own| own != kind) => Typed {
                expr: Expr::Cast(Box::new(self.expr), kind),
                kind: Some(kind),
            }
            .folded(),
            _ => Ok(self),
        }
    }

    /// Computes it if it depends on nothing.
    fn folded(self) -> Compiled {
        let mut is_constant = true;
        let mut parts = 0;
        self.expr.walk(&mut |part| {
            parts += 1;
            is_constant &= !matches!(part, Expr::Column(_) | Expr::OfIndex(_));
        });
        if !is_constant || parts == 1 {
            return Ok(self);
        }
        let value = self.expr.value(&[])?.into_owned();
        Ok(Typed {
            expr: Expr::Constant(value),
            kind: self.kind,
        })
    }
}

impl<'a> Compiler<'a> {
    /// An expression.
    pub(crate) fn compile(&mut self, tree: &ast::Expr) -> Compiled {
        self.at(tree, 0)
    }

    /// The same over rows, whatever is grouped.
    fn over_rows(&mut self) -> Compiler<'a> {
        Compiler {
            names: self.names,
            aliases: self.aliases,
            groups: None,
            now_us: self.now_us,
            asks_index: false,
            met_aggregate: false,
        }
    }

    fn at(&mut self, tree: &ast::Expr, depth: usize) -> Compiled {
        if depth > DEPTH_MAX {
            return Refusal::invalid(format!("an expression has at most {DEPTH_MAX} levels"));
        }
        if self
            .groups
            .as_ref()
            .is_some_and(|groups| !groups.keys.is_empty())
            && let Ok(row) = self.over_rows().at(tree, depth)
            && let Some(groups) = &self.groups
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
            Tree::Value(value) => literal(&value.value),
            Tree::TypedString(typed) => {
                let text = literal(&typed.value.value)?;
                let kind = cast_kind(&typed.data_type)?;
                let cast = text.clone().cast(Some(kind))?;
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
                let above = Expr::Compare(Comparison::GreaterOrEqual, value.clone(), low);
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
                ..
            } => self.cast(expr, data_type, depth),
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

    fn inner(&mut self, tree: &ast::Expr, depth: usize) -> Result<Box<Expr>, Refusal> {
        Ok(Box::new(self.at(tree, depth)?.expr))
    }

    fn column(&mut self, table: Option<&str>, name: &str, depth: usize) -> Compiled {
        if table.is_none() && name.starts_with('@') {
            return Refusal::unsupported(format!("the variable {name}"));
        }
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

    fn unary(&mut self, op: UnaryOperator, inner: &ast::Expr, depth: usize) -> Compiled {
        // The lowest integer has no positive one.
        if op == UnaryOperator::Minus
            && let ast::Expr::Value(value) = inner
            && let ast::Value::Number(digits, _) = &value.value
            && let Ok(number) = format!("-{digits}").parse()
        {
            return Ok(constant(Datum::Long(number)));
        }
        let inner = self.at(inner, depth)?;
        Ok(match op {
            UnaryOperator::Plus => inner,
            UnaryOperator::Minus => Typed {
                kind: match inner.kind {
                    Some(ColumnKind::Long | ColumnKind::Boolean) => Some(ColumnKind::Long),
                    Some(_) => Some(ColumnKind::Double),
                    None => None,
                },
                expr: Expr::Negative(Box::new(inner.expr)),
            },
            UnaryOperator::Not | UnaryOperator::BangNot => long(Expr::Not(Box::new(inner.expr))),
            other => return Refusal::unsupported(format!("the operator {other}")),
        })
    }

    fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Compiled {
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            return self.chain(left, op, right, depth);
        }
        if let ast::Expr::Interval(interval) = right
            && matches!(op, BinaryOperator::Plus | BinaryOperator::Minus)
        {
            return self.moved(left, interval, *op == BinaryOperator::Minus, depth);
        }
        let comparison = match op {
            BinaryOperator::Eq => Some(Comparison::Equal),
            BinaryOperator::NotEq => Some(Comparison::NotEqual),
            BinaryOperator::Lt => Some(Comparison::Less),
            BinaryOperator::LtEq => Some(Comparison::LessOrEqual),
            BinaryOperator::Gt => Some(Comparison::Greater),
            BinaryOperator::GtEq => Some(Comparison::GreaterOrEqual),
            BinaryOperator::Spaceship => Some(Comparison::Same),
            _ => None,
        };
        if let Some(how) = comparison {
            if let Some(element) = self.element(left, how, right, depth)? {
                return Ok(element);
            }
            let (left, right) = (self.inner(left, depth)?, self.inner(right, depth)?);
            return Ok(long(Expr::Compare(how, left, right)));
        }
        let what = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::MyIntegerDivide => Arithmetic::Whole,
            BinaryOperator::Modulo => Arithmetic::Rest,
            BinaryOperator::Xor => {
                let (left, right) = (self.inner(left, depth)?, self.inner(right, depth)?);
                return Ok(long(Expr::Xor(left, right)));
            }
            BinaryOperator::Arrow => return self.call("json_extract", &[left, right], depth),
            BinaryOperator::LongArrow => return self.call("json_text", &[left, right], depth),
            other => return Refusal::unsupported(format!("the operator {other}")),
        };
        let (left, right) = (self.at(left, depth)?, self.at(right, depth)?);
        Ok(computed(what, left, right))
    }

    /// A chain of AND or OR, however long: its tree leans to the left.
    fn chain(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Compiled {
        let mut trees = vec![right];
        let mut rest = left;
        while let ast::Expr::BinaryOp {
            left,
            op: other,
            right,
        } = rest
            && other == op
        {
            trees.push(right);
            rest = left;
        }
        trees.push(rest);
        let mut parts = Vec::with_capacity(trees.len());
        for tree in trees.into_iter().rev() {
            parts.push(self.at(tree, depth)?.expr);
        }
        Ok(long(match op {
            BinaryOperator::And => Expr::And(parts),
            _ => Expr::Or(parts),
        }))
    }

    fn like(
        &mut self,
        text: &ast::Expr,
        pattern: &ast::Expr,
        (escape, negated): (Option<&ast::Expr>, bool),
        depth: usize,
    ) -> Compiled {
        let text = self.inner(text, depth)?;
        let escape = match escape {
            None => Some('\\'),
            Some(tree) => self
                .constant_text(tree, "ESCAPE", depth)?
                .and_then(|text| text.chars().next()),
        };
        let Some(pattern) = self.constant_text(pattern, "LIKE", depth)? else {
            return Ok(constant(Datum::Null));
        };
        let like = Expr::Like(text, Pattern::new(&pattern, escape)?);
        Ok(negated_if(negated, like))
    }

    fn constant_text(
        &mut self,
        tree: &ast::Expr,
        of: &str,
        depth: usize,
    ) -> Result<Option<String>, Refusal> {
        match self.at(tree, depth)?.expr {
            Expr::Constant(value) => Ok(value.text()),
            _ => Refusal::unsupported(format!("{of} with anything but a constant")),
        }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        parts: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        depth: usize,
    ) -> Compiled {
        let operand = operand.map(|tree| self.inner(tree, depth)).transpose()?;
        let mut conditions = Vec::with_capacity(parts.len());
        let mut values = Vec::with_capacity(parts.len() + 1);
        for part in parts {
            let condition = self.inner(&part.condition, depth)?;
            conditions.push(match &operand {
                None => *condition,
                Some(operand) => Expr::Compare(Comparison::Equal, operand.clone(), condition),
            });
            values.push(self.at(&part.result, depth)?);
        }
        values.push(match otherwise {
            Some(tree) => self.at(tree, depth)?,
            None => constant(Datum::Null),
        });
        chosen(conditions, values)
    }

    fn cast(&mut self, inner: &ast::Expr, data_type: &DataType, depth: usize) -> Compiled {
        let kind = cast_kind(data_type)?;
        self.at(inner, depth)?.cast(Some(kind))
    }

    fn function(&mut self, function: &ast::Function, depth: usize) -> Compiled {
        let name = function.name.to_string().to_lowercase();
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

    fn aggregate(
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

    fn call(&mut self, name: &str, trees: &[&ast::Expr], depth: usize) -> Compiled {
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
                let left = Box::new(value.expr.clone());
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
    fn moved(
        &mut self,
        moment: &ast::Expr,
        interval: &ast::Interval,
        is_back: bool,
        depth: usize,
    ) -> Compiled {
        let Some(unit) = &interval.leading_field else {
            return Refusal::invalid("an INTERVAL has a unit");
        };
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

    /// A condition that only a search index can tell.
    fn of_index(
        &mut self,
        name: &str,
        trees: &[&ast::Expr],
        depth: usize,
    ) -> Result<Option<OfIndex>, Refusal> {
        match name {
            "nested_query" | "vector_query_float32" | "score" | "array_extract"
                if !self.asks_index =>
            {
                return Refusal::unsupported(format!("{} here", name.to_uppercase()));
            }
            "nested_query" | "vector_query_float32" | "score" => {
                return Refusal::unsupported(name.to_uppercase());
            }
            "array_extract" => {
                return Refusal::unsupported("ARRAY_EXTRACT that is not compared with a constant");
            }
            "text_match" | "text_match_phrase" if !self.asks_index => {
                return Refusal::unsupported(super::ONLY_OF_INDEX);
            }
            "text_match" | "text_match_phrase" => {}
            _ => return Ok(None),
        }
        let upper = name.to_uppercase();
        let most = if name == "text_match" { 3 } else { 2 };
        if !(2..=most).contains(&trees.len()) {
            return Refusal::invalid(format!("{upper} has a column and a text"));
        }
        let Expr::Column(slot) = self.at(trees[0], depth)?.expr else {
            return Refusal::unsupported(super::ONLY_OF_INDEX);
        };
        let text = self
            .constant_text(trees[1], &upper, depth)?
            .unwrap_or_default();
        if name == "text_match_phrase" {
            return Ok(Some(OfIndex::Phrase(slot, text)));
        }
        let options = match trees.get(2) {
            Some(tree) => self.constant_text(tree, &upper, depth)?.unwrap_or_default(),
            None => String::new(),
        };
        let (mut is_and, mut minimum) = (false, None);
        let bad = || Refusal::Invalid(format!("{upper} can't have the options '{options}'"));
        for option in options
            .split([',', ';', '&'])
            .map(str::trim)
            .filter(|one| !one.is_empty())
        {
            let (name, value) = option.split_once('=').ok_or_else(bad)?;
            let value = value.trim();
            match name.trim() {
                "operator" if value.eq_ignore_ascii_case("and") => is_and = true,
                "operator" if value.eq_ignore_ascii_case("or") => is_and = false,
                "minimum_should_match" => minimum = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(bad()),
            }
        }
        Ok(Some(OfIndex::Match(slot, text, is_and, minimum)))
    }

    /// `ARRAY_EXTRACT(column)` compared with a constant.
    fn element(
        &mut self,
        left: &ast::Expr,
        how: Comparison,
        right: &ast::Expr,
        depth: usize,
    ) -> Result<Option<Typed>, Refusal> {
        let (array, value, how) = match (array_of(left), array_of(right)) {
            (Some(array), None) => (array, right, how),
            (None, Some(array)) => (array, left, how.turned()),
            _ => return Ok(None),
        };
        if !self.asks_index {
            return Refusal::unsupported("ARRAY_EXTRACT here");
        }
        match (self.at(array, depth)?.expr, self.at(value, depth)?.expr) {
            (Expr::Column(slot), Expr::Constant(value)) if how != Comparison::NotEqual => Ok(Some(
                long(Expr::OfIndex(OfIndex::Element(slot, how, value))),
            )),
            _ => Refusal::unsupported("ARRAY_EXTRACT that is not compared with a constant"),
        }
    }
}

fn array_of(tree: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(function) = tree else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if function
                .name
                .to_string()
                .eq_ignore_ascii_case("array_extract") =>
        {
            Some(array)
        }
        _ => None,
    }
}

fn negated_if(negated: bool, expr: Expr) -> Typed {
    long(match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    })
}

/// The value of the first condition that holds; there is one more value than conditions.
fn chosen(conditions: Vec<Expr>, values: Vec<Typed>) -> Compiled {
    let kind = unified(values.iter().map(|value| value.kind));
    let values = values.into_iter().map(|value| Ok(value.cast(kind)?.expr));
    let mut values = values.collect::<Result<Vec<_>, Refusal>>()?;
    let otherwise = values.pop().unwrap_or(Expr::Constant(Datum::Null));
    Ok(Typed {
        expr: Expr::Case(
            conditions.into_iter().zip(values).collect(),
            Box::new(otherwise),
        ),
        kind,
    })
}

fn computed(what: Arithmetic, left: Typed, right: Typed) -> Typed {
    let is_whole =
        |kind: Option<ColumnKind>| matches!(kind, Some(ColumnKind::Long | ColumnKind::Boolean));
    let kind = match (left.kind, right.kind) {
        (None, _) | (_, None) => None,
        _ if what == Arithmetic::Whole => Some(ColumnKind::Long),
        _ if what == Arithmetic::Divide => Some(ColumnKind::Double),
        (left, right) if is_whole(left) && is_whole(right) => Some(ColumnKind::Long),
        _ => Some(ColumnKind::Double),
    };
    Typed {
        expr: Expr::Arithmetic(what, Box::new(left.expr), Box::new(right.expr)),
        kind,
    }
}

/// A value as it is written.
fn literal(value: &ast::Value) -> Compiled {
    use ast::Value;
    Ok(constant(match value {
        Value::Number(digits, _) => match digits.parse() {
            Ok(number) => Datum::Long(number),
            Err(_) => match digits.parse::<f64>() {
                Ok(number) if number.is_finite() => Datum::Double(number),
                _ => return Refusal::invalid(format!("{digits} is not a number")),
            },
        },
        Value::SingleQuotedString(text)
        | Value::DoubleQuotedString(text)
        | Value::NationalStringLiteral(text) => Datum::String(text.clone()),
        Value::HexStringLiteral(digits) => Datum::Binary(from_hex(digits)?),
        Value::Boolean(is) => Datum::Boolean(*is),
        Value::Null => Datum::Null,
        Value::Placeholder(name) => return Refusal::unsupported(format!("the parameter {name}")),
        other => return Refusal::unsupported(format!("the value {other}")),
    }))
}

fn from_hex(digits: &str) -> Result<bytes::Bytes, Refusal> {
    let digits = match digits.len() % 2 {
        0 => digits.to_owned(),
        _ => format!("0{digits}"),
    };
    let pairs = digits.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| {
        let pair = std::str::from_utf8(pair).ok();
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    let bad = || Refusal::Invalid(format!("X'{digits}' is not hexadecimal"));
    bytes.map(bytes::Bytes::from).ok_or_else(bad)
}

fn cast_kind(data_type: &DataType) -> Result<ColumnKind, Refusal> {
    let text = data_type.to_string().to_uppercase();
    let name = text.split(['(', ' ']).next().unwrap_or_default();
    Ok(match name {
        "SIGNED" | "UNSIGNED" | "BIGINT" | "INT" | "INTEGER" => ColumnKind::Long,
        "DOUBLE" | "FLOAT" | "DECIMAL" | "REAL" => ColumnKind::Double,
        "CHAR" | "VARCHAR" | "NCHAR" | "TEXT" | "MEDIUMTEXT" => ColumnKind::String,
        "BINARY" | "VARBINARY" | "MEDIUMBLOB" => ColumnKind::Binary,
        "DATETIME" | "TIMESTAMP" => ColumnKind::DateTime,
        "DATE" => ColumnKind::Date,
        "TIME" => ColumnKind::Time,
        "BOOL" | "BOOLEAN" => ColumnKind::Boolean,
        _ => return Refusal::unsupported(format!("the type {text}")),
    })
}
