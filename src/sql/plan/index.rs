//! From conditions to queries of a search index.
//!
//! Owns: which index serves a source, and what of its conditions is asked of it. Promises: a query finds at least the
//! rows that fulfil the conditions; those that only the index can tell are all in it. Must not: search.

use tideline_model::search::{Bool, FieldType, Match, MinimumMatch, Query, SearchIndex};
use tideline_model::{ColumnType, MappedColumn, Mapping, Value};
use tideline_table::Table;

use super::{ByIndex, Source};
use crate::answer::Datum;
use crate::expr::{Comparison, Expr, ONLY_OF_INDEX, OfIndex};
use crate::refusal::Refusal;

/// Parts of a query are bounded; an IN of more values is looked at row by row.
const VALUES_MAX: usize = 512;
/// A longer text is in no index.
const KEYWORD_BYTES_MAX: usize = tideline_model::search::KEYWORD_BYTES_MAX;

/// The index that serves a source, if one does; `asked` are conditions that only an index can tell.
pub(super) fn choose(
    (source, table): (&Source, &Table),
    mapping: Option<&Mapping>,
    conditions: &[Expr],
    asked: &[Expr],
) -> Result<Option<ByIndex>, Refusal> {
    let options = mapping.map(|mapping| &mapping.options);
    let named = options.and_then(|options| options.index.as_deref());
    if options.is_some_and(|options| options.is_strong) && asked.is_empty() {
        return Ok(None);
    }
    for index in &table.search_indexes {
        if named.is_some_and(|name| name != index.name) {
            continue;
        }
        if named.is_none() && asked.is_empty() && hides_rows(table, index) {
            continue;
        }
        let is_key = |name: &str| table.primary_key.iter().any(|key| key.name == name);
        let names = source.needed_names();
        let has_all = names
            .iter()
            .all(|name| is_key(name) || index.schema.field(name).is_ok());
        if !has_all && named.is_none() {
            continue;
        }
        let of = Of { source, index };
        let mut queries = Vec::new();
        let mut is_exact = true;
        for condition in asked {
            match of.query(condition)? {
                Some(query) => queries.push(query),
                None => return Refusal::unsupported(ONLY_OF_INDEX),
            }
        }
        for condition in conditions {
            match of.query(condition)? {
                Some(query) => queries.push(query),
                None => is_exact = false,
            }
        }
        return Ok(Some(ByIndex {
            name: index.name.clone(),
            query: match queries.is_empty() {
                true => Query::All,
                false => all(queries),
            },
            is_exact,
            is_needed: named.is_some() || !asked.is_empty(),
            has_all,
        }));
    }
    match asked.is_empty() && named.is_none() {
        true => Ok(None),
        false => Refusal::unsupported(ONLY_OF_INDEX),
    }
}

/// Whether rows go out of an index before they expire in its table.
fn hides_rows(table: &Table, index: &SearchIndex) -> bool {
    let (of_index, of_table) = (index.time_to_live_s, table.options.time_to_live_s);
    of_index > 0 && (of_table <= 0 || of_index < of_table)
}

fn all(queries: Vec<Query>) -> Query {
    Query::Bool(Box::new(Bool {
        filter: queries,
        ..Bool::default()
    }))
}

fn none(query: Query) -> Query {
    Query::Bool(Box::new(Bool {
        must: vec![Query::All],
        must_not: vec![query],
        ..Bool::default()
    }))
}

struct Of<'p> {
    source: &'p Source,
    index: &'p SearchIndex,
}

impl Of<'_> {
    /// A condition as a query that says the same; `None` = there is none.
    fn query(&self, condition: &Expr) -> Result<Option<Query>, Refusal> {
        Ok(match condition {
            Expr::And(parts) => self.queries(parts)?.map(all),
            Expr::Or(parts) => self.queries(parts)?.map(|should| {
                Query::Bool(Box::new(Bool {
                    should,
                    ..Bool::default()
                }))
            }),
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(column) => self.exists(column),
                // Of others an index knows no NULL.
                Expr::OfIndex(_) => self.query(inner)?.map(none),
                _ => None,
            },
            Expr::IsNull(column) => self.exists(column).map(none),
            Expr::Compare(how, left, right) => match (&**left, &**right) {
                (Expr::Column(slot), Expr::Constant(value)) => self.compared(*slot, *how, value),
                (Expr::Constant(value), Expr::Column(slot)) => {
                    self.compared(*slot, how.turned(), value)
                }
                _ => None,
            },
            Expr::In(column, values) if values.len() <= VALUES_MAX => {
                let Expr::Column(slot) = **column else {
                    return Ok(None);
                };
                let values = values.iter().map(|value| match value {
                    Expr::Constant(value) => self.value(slot, value),
                    _ => None,
                });
                let values: Option<Vec<Value>> = values.collect();
                values
                    .zip(self.field(slot))
                    .map(|(values, field)| terms(field, values))
            }
            Expr::OfIndex(asked) => Some(self.asked(asked)?),
            _ => None,
        })
    }

    fn queries(&self, parts: &[Expr]) -> Result<Option<Vec<Query>>, Refusal> {
        let mut queries = Vec::with_capacity(parts.len());
        for part in parts {
            match self.query(part)? {
                Some(query) => queries.push(query),
                None => return Ok(None),
            }
        }
        Ok(Some(queries))
    }

    fn column(&self, slot: usize) -> Option<&MappedColumn> {
        self.source
            .columns
            .get(slot.checked_sub(self.source.first)?)
    }

    fn kind(&self, slot: usize) -> Option<FieldType> {
        let field = self.index.schema.field(&self.column(slot)?.name).ok()?;
        Some(field.kind)
    }

    /// The name of the field of a slot that says of each row what the column says.
    fn field(&self, slot: usize) -> Option<String> {
        let column = self.column(slot)?;
        let field = self.index.schema.field(&column.name).ok()?;
        let fits = matches!(
            (field.kind, column.kind),
            (FieldType::Long, ColumnType::Integer)
                | (FieldType::Double, ColumnType::Double)
                | (FieldType::Boolean, ColumnType::Boolean)
                | (
                    FieldType::Keyword | FieldType::FuzzyKeyword,
                    ColumnType::String
                )
        );
        let is_plain = field.index && !field.is_array && field.source.is_none();
        (fits && is_plain).then(|| column.name.clone())
    }

    fn exists(&self, column: &Expr) -> Option<Query> {
        let Expr::Column(slot) = column else {
            return None;
        };
        // A long text has a value and is in no index.
        let field = self
            .field(*slot)
            .filter(|_| !self.kind(*slot).is_some_and(FieldType::is_keyword));
        field.map(|field| Query::Exists { field })
    }

    /// A constant as a value of a slot's field.
    #[allow(clippy::cast_precision_loss, reason = "the number is small")]
    fn value(&self, slot: usize, value: &Datum) -> Option<Value> {
        const EXACT: u64 = 1 << 53;
        Some(match (self.kind(slot)?, value) {
            (FieldType::Long, Datum::Long(number)) => Value::Integer(*number),
            (FieldType::Double, Datum::Double(number)) => Value::Double(*number),
            (FieldType::Double, Datum::Long(number)) if number.unsigned_abs() < EXACT => {
                Value::Double(*number as f64)
            }
            (FieldType::Boolean, Datum::Boolean(is)) => Value::Boolean(*is),
            (FieldType::Boolean, Datum::Long(number @ 0..=1)) => Value::Boolean(*number == 1),
            (FieldType::Keyword | FieldType::FuzzyKeyword, Datum::String(text))
                if text.len() < KEYWORD_BYTES_MAX =>
            {
                Value::String(text.clone())
            }
            _ => return None,
        })
    }

    fn compared(&self, slot: usize, how: Comparison, value: &Datum) -> Option<Query> {
        let field = self.field(slot)?;
        let is_boolean = self.kind(slot)? == FieldType::Boolean;
        let value = self.value(slot, value)?;
        match how {
            Comparison::Equal | Comparison::Same => Some(terms(field, vec![value])),
            Comparison::NotEqual => None,
            // A long text is greater or less than another and in no index.
            _ if is_boolean || self.kind(slot)?.is_keyword() => None,
            _ => Some(between(field, how, value)),
        }
    }

    fn asked(&self, asked: &OfIndex) -> Result<Query, Refusal> {
        let (OfIndex::Match(slot, ..) | OfIndex::Phrase(slot, _) | OfIndex::Element(slot, ..)) =
            asked;
        let column = self.column(*slot);
        let field = column.and_then(|column| self.index.schema.field(&column.name).ok());
        let Some(field) = field else {
            return Refusal::unsupported(ONLY_OF_INDEX);
        };
        let name = field.name.clone();
        Ok(match asked {
            OfIndex::Match(..) | OfIndex::Phrase(..) if field.kind != FieldType::Text => {
                return Refusal::unsupported(ONLY_OF_INDEX);
            }
            OfIndex::Match(_, text, is_and, minimum) => Query::Match(Match {
                field: name,
                text: text.clone(),
                is_and: *is_and,
                minimum: minimum.map(MinimumMatch::Count),
                weight: 1.0,
            }),
            OfIndex::Phrase(_, text) => Query::Phrase {
                field: name,
                text: text.clone(),
                slop: 0,
                weight: 1.0,
            },
            OfIndex::Element(slot, how, value) => {
                let value = match field.is_array {
                    true => self.value(*slot, value),
                    false => None,
                };
                let Some(value) = value else {
                    return Refusal::unsupported(
                        "ARRAY_EXTRACT of a field that is no array, or compared with another type",
                    );
                };
                match how {
                    Comparison::Equal | Comparison::Same => terms(name, vec![value]),
                    how => between(name, *how, value),
                }
            }
        })
    }
}

/// Whether it is one of the two zeros, which are equal here and two values of an index: the negative one is lower.
fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Double(number) if *number == 0.0)
}

fn terms(field: String, mut values: Vec<Value>) -> Query {
    if values.iter().any(is_zero) {
        values.extend([Value::Double(0.0), Value::Double(-0.0)]);
    }
    Query::Terms {
        field,
        values,
        weight: 1.0,
    }
}

fn between(field: String, how: Comparison, value: Value) -> Query {
    let includes = matches!(how, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    let value = match how {
        Comparison::Less | Comparison::GreaterOrEqual if is_zero(&value) => Value::Double(-0.0),
        _ if is_zero(&value) => Value::Double(0.0),
        _ => value,
    };
    let bound = Some((value, includes));
    match how {
        Comparison::Greater | Comparison::GreaterOrEqual => Query::Range {
            field,
            from: bound,
            to: None,
        },
        _ => Query::Range {
            field,
            from: None,
            to: bound,
        },
    }
}
