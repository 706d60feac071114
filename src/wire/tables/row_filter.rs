//! What has to hold of a row for a range to return it.
//!
//! Owns: the shape of a filter. Promises: one that was checked has at most 32 parts, each of which is one kind of part.
//! Must not: know what a comparison means; `model/filter.rs` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::failure::Failure;
use super::super::messages::entry::OneValue;
use super::super::schema::rules;
use super::table::column_name;
use tideline_model::Value;
use tideline_model::limits::FILTER_NODES_MAX;

/// What has to hold of a row: a comparison, or one of `all`, `any` and `not`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "row_filter",
    transform = rules::one_of(
        [rules::compares(), rules::said("all"), rules::said("any"), rules::given("not")]
    ),
)]
pub struct Filter {
    /// The column that is compared, also one of the key. Any of the versions that are asked for may fulfil it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::COLUMN))]
    pub column: Option<String>,
    /// How it is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    /// With what. Values of two types are not equal, and neither is above the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<OneValue<'static>>,
    /// Whether it holds of rows that have no such column.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub if_missing: bool,
    /// All of these hold; two at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::not_just_one)]
    pub all: Vec<Filter>,
    /// One of these holds; two at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = rules::not_just_one)]
    pub any: Vec<Filter>,
    /// This does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Filter>>,
}

impl Filter {
    /// `nodes` counts the whole tree.
    pub(in super::super) fn check(&self, field: &str, nodes: &mut usize) -> Result<(), Failure> {
        *nodes += 1;
        if *nodes > FILTER_NODES_MAX {
            let failure = Failure::invalid("filter", format!("more than {FILTER_NODES_MAX} parts"));
            return Err(failure.over(FILTER_NODES_MAX as u64, *nodes as u64));
        }
        let compares = self.column.is_some() || self.op.is_some() || self.value.is_some();
        let kinds = [
            compares || self.if_missing,
            !self.all.is_empty(),
            !self.any.is_empty(),
            self.not.is_some(),
        ];
        if kinds.iter().filter(|is_it| **is_it).count() != 1 {
            return Err(Failure::invalid(field, "one of column, all, any and not"));
        }
        if let Some(not) = &self.not {
            return not.check(&format!("{field}.not"), nodes);
        }
        for (name, inner) in [("all", &self.all), ("any", &self.any)] {
            if inner.len() == 1 {
                return Err(Failure::invalid(format!("{field}.{name}"), "two at least"));
            }
            for (at, one) in inner.iter().enumerate() {
                one.check(&format!("{field}.{name}[{at}]"), nodes)?;
            }
        }
        match (compares, &self.column, self.op, &self.value) {
            (true, Some(name), Some(_), Some(value)) => {
                if matches!(*value.value, Value::Json(_)) {
                    let field = format!("{field}.value");
                    return Err(Failure::invalid(field, "a table holds no nested values"));
                }
                column_name(&|| format!("{field}.column"), name)
            }
            (true, None, _, _) => Err(missing(field, "column")),
            (true, _, None, _) => Err(missing(field, "op")),
            (true, _, _, None) => Err(missing(field, "value")),
            (false, ..) => Ok(()),
        }
    }
}

fn missing(field: &str, name: &str) -> Failure {
    Failure::invalid(format!("{field}.{name}"), "a comparison needs it")
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "filter_op")]
pub enum Op {
    /// Is it.
    #[serde(rename = "=")]
    Equal,
    /// Is not it.
    #[serde(rename = "!=")]
    NotEqual,
    /// Is above.
    #[serde(rename = ">")]
    Above,
    /// Is it or above.
    #[serde(rename = ">=")]
    AtLeast,
    /// Is below.
    #[serde(rename = "<")]
    Below,
    /// Is it or below.
    #[serde(rename = "<=")]
    AtMost,
}
