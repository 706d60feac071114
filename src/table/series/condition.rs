//! From a condition on series to a query of the search index of their table.
//!
//! Owns: what each condition is there. Promises: a tag that has a column of its own is looked for in it, all others,
//! and attributes, among texts `name=value`. Must not: search.

use tideline_model::Value;
use tideline_model::search::{Bool, Columns, MinimumMatch, Query, Search, Total};
use tideline_model::series::{
    MEASUREMENT, SOURCE, SeriesAsked, SeriesCondition, SeriesOperator, TAGS,
};

use super::{ATTRIBUTES, SeriesTable, UPDATED};

impl SeriesTable {
    /// The search of the index of `metas` that finds what is asked for.
    #[must_use]
    pub fn search(&self, asked: SeriesAsked) -> Search {
        Search {
            query: asked
                .condition
                .map_or(Query::All, |condition| self.query(condition)),
            sort: None,
            offset: 0,
            limit: asked.limit,
            token: asked.token,
            total: match asked.counts {
                true => Total::All,
                false => Total::No,
            },
            filter: None,
            collapse: None,
            aggregates: Default::default(),
            highlight: Default::default(),
            columns: Columns::These(vec![ATTRIBUTES.to_owned(), UPDATED.to_owned()]),
            timeout_ms: None,
        }
    }

    fn query(&self, condition: SeriesCondition) -> Query {
        use SeriesCondition::{And, Attribute, Measurement, Not, Or, Source, Tag, Updated};
        let all = |conditions: Vec<SeriesCondition>| {
            let queries = conditions.into_iter().map(|one| self.query(one));
            queries.collect::<Vec<Query>>()
        };
        match condition {
            And(conditions) => of_all(all(conditions)),
            Or(conditions) => Query::Bool(Box::new(Bool {
                should: all(conditions),
                minimum: Some(MinimumMatch::Count(1)),
                ..Bool::default()
            })),
            Not(condition) => none_of(self.query(*condition)),
            Measurement(operator, value) => self.of_column(MEASUREMENT, operator, value),
            Source(operator, value) => self.of_column(SOURCE, operator, value),
            Tag(operator, name, value) => match self.part.keys.contains(&name) {
                true => self.of_column(&name, operator, value),
                false if self.part.keys.iter().any(|key| key == TAGS) => {
                    among(TAGS, operator, &name, &value)
                }
                false => none_of(Query::All),
            },
            Attribute(operator, name, value) => among(ATTRIBUTES, operator, &name, &value),
            Updated(operator, at) => compared(UPDATED, operator, Value::Integer(at)),
        }
    }

    /// A column of the series' name compares; a table without it has no such series.
    fn of_column(&self, column: &str, operator: SeriesOperator, value: String) -> Query {
        match self.part.keys.iter().any(|key| key == column) {
            true if operator == SeriesOperator::Prefix => prefix(column, value),
            true => compared(column, operator, Value::String(value)),
            false => none_of(Query::All),
        }
    }
}

/// One of the texts of a list compares with `name=value`, among those of that name.
fn among(field: &str, operator: SeriesOperator, name: &str, value: &str) -> Query {
    let text = format!("{name}={value}");
    // What begins with the name and `=` lies between these: `>` is the character behind `=`.
    let first = Some((Value::String(format!("{name}=")), true));
    let end = Some((Value::String(format!("{name}>")), false));
    let given = |is_included| Some((Value::String(text.clone()), is_included));
    let (from, to) = match operator {
        SeriesOperator::Prefix => return prefix(field, text),
        SeriesOperator::Equal => return compared(field, operator, Value::String(text)),
        SeriesOperator::GreaterThan => (given(false), end),
        SeriesOperator::GreaterEqual => (given(true), end),
        SeriesOperator::LessThan => (first, given(false)),
        SeriesOperator::LessEqual => (first, given(true)),
    };
    range(field, from, to)
}

fn compared(field: &str, operator: SeriesOperator, value: Value) -> Query {
    let (from, to) = match operator {
        SeriesOperator::Equal | SeriesOperator::Prefix => {
            return Query::Terms {
                field: field.to_owned(),
                values: vec![value],
                weight: 1.0,
            };
        }
        SeriesOperator::GreaterThan => (Some((value, false)), None),
        SeriesOperator::GreaterEqual => (Some((value, true)), None),
        SeriesOperator::LessThan => (None, Some((value, false))),
        SeriesOperator::LessEqual => (None, Some((value, true))),
    };
    range(field, from, to)
}

fn range(field: &str, from: Option<(Value, bool)>, to: Option<(Value, bool)>) -> Query {
    let field = field.to_owned();
    Query::Range { field, from, to }
}

fn prefix(field: &str, prefix: String) -> Query {
    Query::Prefix {
        field: field.to_owned(),
        prefix,
        weight: 1.0,
    }
}

fn of_all(filter: Vec<Query>) -> Query {
    Query::Bool(Box::new(Bool {
        filter,
        ..Bool::default()
    }))
}

fn none_of(query: Query) -> Query {
    Query::Bool(Box::new(Bool {
        must_not: vec![query],
        ..Bool::default()
    }))
}
