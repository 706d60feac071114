//! Operators, LIKE and CASE.
//!
//! Owns: which there are, and the types of what they give. Must not: know functions.

use sqlparser::ast::{self, BinaryOperator, DataType, UnaryOperator};

use super::cast::cast_as;
use super::typed::{Compiled, chosen, computed, constant, long, negated_if};
use super::{Arithmetic, Comparison, Compiler, Expr, Pattern, Typed};
use crate::answer::{ColumnKind, Datum};
use crate::refusal::Refusal;

impl Compiler<'_> {
    pub(super) fn unary(&mut self, op: UnaryOperator, inner: &ast::Expr, depth: usize) -> Compiled {
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

    pub(super) fn binary(
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
    pub(super) fn chain(
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

    pub(super) fn like(
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

    pub(super) fn constant_text(
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

    pub(super) fn case(
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
                Some(operand) => {
                    let operand = Box::new(operand.copied()?);
                    Expr::Compare(Comparison::Equal, operand, condition)
                }
            });
            values.push(self.at(&part.result, depth)?);
        }
        values.push(match otherwise {
            Some(tree) => self.at(tree, depth)?,
            None => constant(Datum::Null),
        });
        chosen(conditions, values)
    }

    pub(super) fn cast(
        &mut self,
        inner: &ast::Expr,
        data_type: &DataType,
        depth: usize,
    ) -> Compiled {
        cast_as(self.at(inner, depth)?, data_type)
    }
}
